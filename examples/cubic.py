"""
A cubic: linear against Gaussian ridge regression
=================================================

Samples of 2x³ − 3x² + 2x + 2 with noise, fitted by ridge regression.

**Claim.** A line cannot follow the cubic: its error is at least the distance of the cubic from all
lines, in the mean square over [−1, 1]. A Gaussian kernel needs no feature chosen by hand: its error
is the bias and the variance of ridge regression, σ²·df₂/n. A constant column added to x is a bias
for the linear kernel, and invisible to the Gaussian one.
Run with `python examples/cubic.py`.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRidge
from mercer.kernels import Gaussian, Linear
from mercer.theory import ridge_risk

rng = np.random.default_rng(0)
NOISE = 0.5


def cubic(x):
    return np.polyval([2.0, -3.0, 2.0, 2.0], x)


x = rng.uniform(-1, 1, 100)
y = cubic(x) + NOISE * rng.standard_normal(100)
grid = np.linspace(-1, 1, 300)


def alone(t):
    return t[:, None]


def with_one(t):
    return np.column_stack([t, np.ones_like(t)])


MODELS = {
    "linear": (KernelRidge(alpha=1.0, kernel=Linear()), alone),
    "linear, (x, 1)": (KernelRidge(alpha=1.0, kernel=Linear()), with_one),
    "Gaussian": (KernelRidge(alpha=0.1, kernel=Gaussian(0.7)), alone),
}

# %%
# What theory says: the distance from the span of the features, or bias and variance of the ridge.
THEORY = {}
for name, (model, columns) in MODELS.items():
    if name == "Gaussian":
        K = model.kernel(columns(x))
        THEORY[name] = ridge_risk(K, cubic(x), NOISE, model.alpha / len(x)).total
    else:
        basis = np.linalg.qr(columns(grid))[0]
        left = cubic(grid) - basis @ (basis.T @ cubic(grid))
        THEORY[name] = np.mean(left**2)

# %%
# Each with its mean squared error on the curve; the noise has variance 0.25.
figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True, layout="constrained")
for axis, (name, (model, columns)) in zip(axes, MODELS.items(), strict=True):
    fitted = model.fit(columns(x), y).predict(columns(grid))
    error = np.mean((fitted - cubic(grid)) ** 2)
    word = "expected" if name == "Gaussian" else "at least"
    print(f"{name}: mean squared error {error:.3f}; theory: {word} {THEORY[name]:.3f}")
    axis.plot(x, y, "o", color="#bbbbbb", markersize=4)
    axis.plot(grid, cubic(grid), color="black", linewidth=1, linestyle="--")
    axis.plot(grid, fitted, color="#1f5fa8", linewidth=2)
    axis.set_title(f"{name}\nerror {error:.3f}, theory: {word} {THEORY[name]:.3f}", fontsize=10)
    axis.set_xlabel("x")
    axis.spines[["top", "right"]].set_visible(False)
figure.savefig("cubic.png", dpi=110)
