"""
Learning curves: how fast kernels learn smooth and rough functions
==================================================================

Ridge regression on the circle, with noise, for kernels whose spaces are Sobolev spaces of order 1
and 3, and for a Gaussian kernel, on a smooth target and on one with corners. λ is the best for
each number of samples, and risks are means of 20 replications. Theory says that the risk falls
like n^(−2t/(2t + 1)), t being the smoothness of the target or twice the order of the kernel,
whichever is less; for the Gaussian kernel and the rough target there is no power of n.
Run with `python examples/learning_curves.py`; `MERCER_QUICK=1` makes it small.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import Gaussian, PeriodicBernoulli
from mercer.solvers.spectral import SpectralPath
from mercer.theory import fitted_exponent, risk_exponent

QUICK = bool(os.environ.get("MERCER_QUICK"))
SIZES = [50, 100, 200] if QUICK else [50, 100, 200, 400, 800, 1600]
REPLICATIONS, NOISE = (3 if QUICK else 20), 0.5
RIDGES = np.logspace(-11, 0, 56)


def on_circle(x):
    return np.column_stack([np.cos(2 * np.pi * x[:, 0]), np.sin(2 * np.pi * x[:, 0])])


KERNELS = {
    "Sobolev, order 1": (PeriodicBernoulli(1), 1.0),
    "Sobolev, order 3": (PeriodicBernoulli(3), 3.0),
    "Gaussian": (Gaussian(0.5).after(on_circle), np.inf),
}
TARGETS = {
    "smooth: cos 2πx": (lambda x: np.cos(2 * np.pi * x), np.inf),
    "rough: |x − ½|": (lambda x: 4 * np.abs(x - 0.5) - 1.0, 1.5),  # coefficients fall like m^−2
}
grid = (np.arange(1024) + 0.5)[:, None] / 1024


def risks_of(kernel, n):
    """Mean squared errors for each λ and target, over the replications."""
    total = np.zeros((len(RIDGES), len(TARGETS)))
    truth = np.column_stack([f(grid[:, 0]) for f, _ in TARGETS.values()])
    for seed in range(REPLICATIONS):
        random = np.random.default_rng(seed)
        X = random.uniform(size=(n, 1))
        y = np.column_stack([f(X[:, 0]) for f, _ in TARGETS.values()])
        path = SpectralPath.of(kernel.gram(X), y + NOISE * random.standard_normal(y.shape))
        K = kernel(grid, X)
        for i, ridge in enumerate(RIDGES):
            total[i] += ((K @ path.coefficients(ridge)[0] - truth) ** 2).mean(axis=0)
    return total / REPLICATIONS


# %%
# The least risk over λ for each size, and slopes over the last decade of n.
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), sharey=True, layout="constrained")
curves = {
    name: np.array([risks_of(kernel, n).min(axis=0) for n in SIZES])
    for name, (kernel, _) in KERNELS.items()
}
for column, (axis, (target, (_, smoothness))) in enumerate(zip(axes, TARGETS.items(), strict=True)):
    for (name, (_, order)), colour in zip(
        KERNELS.items(), ("#1f5fa8", "#d1495b", "#3b8c5a"), strict=True
    ):
        curve = curves[name][:, column]
        slope = fitted_exponent(SIZES, curve, last=10.0)
        reached = min(smoothness, 2 * order)
        if np.isinf(reached):
            theory = "1 up to logarithms"
        elif np.isinf(order):
            theory = "none"
        else:
            theory = f"{risk_exponent(reached, order):.2f}"
        print(f"{target}, {name}: slope {slope:.2f}, theory {theory}")
        axis.loglog(
            SIZES, curve, "o-", color=colour, label=f"{name}: {slope:.2f} (theory {theory})"
        )
    axis.set_title(target, fontsize=10)
    axis.set_xlabel("n")
    axis.legend(frameon=False, fontsize=8, title="minus the slope over the last decade")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("expected squared error, best λ")
figure.savefig("learning_curves.png", dpi=110)
