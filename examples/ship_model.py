"""
Shipping a model without its data
=================================

A fitted function is a sum over training rows, so its pickle holds them. `compress` finds the
nearest function with few centres, `to_features` one that holds no row at all, and both say how
far they are from the original, in the norm of the space or in the mean square.
Run with `python examples/ship_model.py`.
"""

import pickle

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRidge
from mercer.features import RandomFourierFeatures, centres, compress, to_features
from mercer.kernels import Gaussian

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (1500, 2))
y = np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.1 * rng.standard_normal(1500)
model = KernelRidge(alpha=0.1, kernel=Gaussian(0.7)).fit(X, y)
new = rng.uniform(-2, 2, (2000, 2))
exact = model.predict(new)
full = len(pickle.dumps(model.function_))

# %%
# Functions with fewer and fewer centres, and features in place of rows.
COUNTS = [25, 50, 100, 200, 400]
errors, sizes = {}, {}
for count in COUNTS:
    small = compress(model.function_, centres.RandomlyPivoted(count, 0)).function
    phi = RandomFourierFeatures(Gaussian(0.7), 2 * count, random_state=0).fit(X)
    light = to_features(model.function_, phi, at=X).function
    for name, f in (("centres", small), ("random features", light)):
        error = np.sqrt(np.mean((f(new) - exact) ** 2)) / exact.std()
        errors.setdefault(name, []).append(error)
        sizes.setdefault(name, []).append(len(pickle.dumps(f)))
        print(f"{count} {name}: {sizes[name][-1] / full:.0%} of the bytes, {error:.1e} off")

figure, axis = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for (name, line), colour in zip(errors.items(), ("#1f5fa8", "#d1495b"), strict=True):
    axis.loglog(np.array(sizes[name]) / 1024, line, "o-", color=colour, label=name)
axis.axvline(full / 1024, color="#999999", linestyle="--", label="the whole model")
axis.set_title("error of smaller models by their size", fontsize=10)
axis.set_xlabel("size of the pickle, kB")
axis.set_ylabel("error relative to the model")
axis.legend(frameon=False, fontsize=8)
axis.spines[["top", "right"]].set_visible(False)
figure.savefig("ship_model.png", dpi=110)
