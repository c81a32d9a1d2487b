"""
Certificates: what is proved of a fitted model
==============================================

A fitted classifier states a bound on its error rate that holds with probability 0.95, whatever the
distribution of the rows. It is a worst case, so it is far above the error that many new rows
show. Both fall as there are more rows. The certificate also lists the assumptions that it rests on.
Run with `python examples/certificates.py`.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelClassifier
from mercer.kernels import Gaussian

QUICK = bool(os.environ.get("MERCER_QUICK"))  # CI runs every example at a reduced size
SIZES = [250, 500] if QUICK else [250, 500, 1000, 2000, 4000, 8000]
rng = np.random.default_rng(0)


def draw(n):
    X = rng.uniform(-1, 1, (n, 2))
    return X, X[:, 0] + 0.2 * rng.standard_normal(n) > 0


new, truth = draw(20_000)
on_sample, on_new, bounds = [], [], []
for n in SIZES:
    X, labels = draw(n)
    model = KernelClassifier("hinge", 0.1 / np.sqrt(n), kernel=Gaussian(1.0), fit_intercept=False)
    model.fit(X, labels)
    certificate = model.certificate(probability=0.95)
    on_sample.append(np.mean(model.predict(X) != labels))
    on_new.append(np.mean(model.predict(new) != truth))
    bounds.append(certificate["error rate"].value)
    print(f"{n} rows: {on_new[-1]:.3f} wrong on new rows, at most {bounds[-1]:.3f} by the bound")

# %%
# The whole certificate of the last model.
print(certificate)

figure, axis = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
axis.semilogx(
    SIZES, bounds, "s-", color="#d1495b", label="bound on the error rate, probability 0.95"
)
axis.semilogx(SIZES, on_new, "o-", color="#1f5fa8", label="20,000 new rows")
axis.semilogx(SIZES, on_sample, "--", color="#999999", label="training rows")
axis.set_xticks(SIZES, [f"{n:,}" for n in SIZES])
axis.minorticks_off()
axis.set_ylim(0, None)
axis.set_title("share of wrong predictions", fontsize=10)
axis.set_xlabel("rows")
axis.legend(frameon=False, fontsize=8)
axis.spines[["top", "right"]].set_visible(False)
figure.savefig("certificates.png", dpi=110)
