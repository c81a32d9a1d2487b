"""
A cubic: linear against Gaussian ridge regression
=================================================

Samples of 2x³ − 3x² + 2x + 2 with noise. A line cannot follow the cubic, with or without a bias;
ridge regression with a Gaussian kernel can, with no feature chosen by hand. A constant column
added to x is a bias for the linear kernel, and invisible to the Gaussian one.
Run with `python examples/cubic.py`.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRidge
from mercer.kernels import Gaussian, Linear

rng = np.random.default_rng(0)


def cubic(x):
    return np.polyval([2.0, -3.0, 2.0, 2.0], x)


x = rng.uniform(-1, 1, 100)
y = cubic(x) + 0.5 * rng.standard_normal(100)
grid = np.linspace(-1, 1, 300)
MODELS = {
    "linear": (KernelRidge(alpha=1.0, kernel=Linear()), lambda t: t[:, None]),
    "linear, (x, 1)": (
        KernelRidge(alpha=1.0, kernel=Linear()),
        lambda t: np.column_stack([t, np.ones_like(t)]),
    ),
    "Gaussian": (KernelRidge(alpha=0.1, kernel=Gaussian(0.7)), lambda t: t[:, None]),
}

# %%
# Each with its mean squared error on the curve; the noise has variance 0.25.
figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True, layout="constrained")
for axis, (name, (model, columns)) in zip(axes, MODELS.items(), strict=True):
    fitted = model.fit(columns(x), y).predict(columns(grid))
    error = np.mean((fitted - cubic(grid)) ** 2)
    print(f"{name}: mean squared error {error:.3f}")
    axis.plot(x, y, "o", color="#bbbbbb", markersize=4)
    axis.plot(grid, cubic(grid), color="black", linewidth=1, linestyle="--")
    axis.plot(grid, fitted, color="#1f5fa8", linewidth=2)
    axis.set_title(f"{name}\nmean squared error {error:.3f}", fontsize=10)
    axis.set_xlabel("x")
    axis.spines[["top", "right"]].set_visible(False)
figure.savefig("cubic.png", dpi=110)
