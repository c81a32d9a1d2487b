"""
Learning curves: how fast kernels learn smooth and rough functions
==================================================================

Ridge regression on the circle with noise, for an exponential kernel (whose space is the Sobolev
space of order s = 1), a Matérn kernel (s = 2) and a Gaussian kernel, on a smooth target and on one
with corners (t = 3/2 derivatives). For each n the λ of least expected risk is taken; risks are
means of 20 replications.

**Claim.** The risk falls like n^(−2t/(2t + 1)), t being the smoothness of the target, or 2s where
that is less. The Gaussian kernel learns the smooth target like 1/n up to logarithms. On the rough
target no power of n is reached: the space of the Gaussian kernel is too small, and its curve
flattens.

Curves of 320 to 32,000 samples are stored in `learning_curves.json`, made in about two minutes by
`python examples/learning_curves.py --full`. Here the two smallest sizes are computed again.
"""

import json
import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer.features import MercerFeatures
from mercer.kernels import FourierSeries, PeriodicExponential
from mercer.theory import expected_ridge_risk, fitted_exponent, risk_exponent

try:
    here = Path(__file__).parent
except NameError:  # in the gallery, which runs in this folder
    here = Path()
STORED = here / "learning_curves.json"
QUICK = bool(os.environ.get("MERCER_QUICK"))  # CI runs every example at a reduced size
FULL = "--full" in sys.argv
SIZES = [320, 560, 1000, 1800, 3200, 5600, 10_000, 18_000, 32_000]
REPLICATIONS, NOISE, MOST = 20, 0.5, 100  # frequencies up to 100: what is beyond adds 1e-7
RIDGES = np.logspace(-13, 0, 66)
m = np.arange(MOST + 1)

# %%
# Kernels on the circle are given by their Fourier weights; the periodic exponential kernel has
# those of the exponential kernel on the line, and so have the others.
KERNELS = {
    "exponential": (PeriodicExponential(1.0), 1.0),
    "Matérn 3/2": (FourierSeries((1.0 + m**2.0) ** 2), 2.0),
    "Gaussian": (FourierSeries(np.exp(0.5 * (2 * np.pi * 0.3 * m[:9]) ** 2)), np.inf),
}
WEIGHTS = {
    "exponential": 1 / (1.0 + m**2.0),
    "Matérn 3/2": 1 / (1.0 + m**2.0) ** 2,
    "Gaussian": np.exp(-0.5 * (2 * np.pi * 0.3 * m) ** 2),
}
TARGETS = {
    "smooth: cos 2πx": (lambda x: np.cos(2 * np.pi * x), np.inf, 0.5 * (m == 1)),
    "rough: 4|x − ½| − 1": (
        lambda x: 4 * np.abs(x - 0.5) - 1.0,
        1.5,
        np.where(m % 2, 4 / (np.pi * np.maximum(m, 1)) ** 2, 0.0),
    ),
}
grid = (np.arange(2048) + 0.5)[:, None] / 2048
truth = np.column_stack([f(grid[:, 0]) for f, _, _ in TARGETS.values()])


# %%
# Ridge regression in the eigenfunctions of the kernel, which are sines and cosines: for each sample
# the normal equations are made once, and solved for every λ.
def least_risks(kernel, n):
    """The least mean squared error over λ, for each target."""
    total = np.zeros((len(RIDGES), len(TARGETS)))
    for seed in range(REPLICATIONS):
        random = np.random.default_rng([n, seed])
        X = random.uniform(size=(n, 1))
        y = np.column_stack([f(X[:, 0]) for f, _, _ in TARGETS.values()])
        y += NOISE * random.standard_normal(y.shape)
        phi = MercerFeatures(kernel, 2 * MOST + 1).fit(X)
        equations, Z = phi.normal_equations(X, y), phi.transform(grid)
        for i, ridge in enumerate(RIDGES):
            total[i] += np.mean((Z @ equations.ridge(ridge).weights - truth) ** 2, axis=0)
    return (total / REPLICATIONS).min(axis=0)


def theory_risks(name, coefficients):
    """Bias and variance to leading order, at the best λ for each n."""
    twice = np.where(m == 0, 1, 2)  # of a frequency and its negative
    q, c = np.repeat(WEIGHTS[name], twice), np.repeat(coefficients, twice)
    return [
        min(expected_ridge_risk(q, c, NOISE, ridge, n).total for ridge in RIDGES) for n in SIZES
    ]


# %%
# The stored curves, and whether the smallest sizes come out again.
if FULL:
    curves = {
        name: [[float(f"{risk:.6g}") for risk in least_risks(kernel, n)] for n in SIZES]
        for name, (kernel, _) in KERNELS.items()
    }
    made = "python examples/learning_curves.py --full"
    setting = {"made_by": made, "replications": REPLICATIONS, "noise": NOISE, "sizes": SIZES}
    targets = {"targets": list(TARGETS), "curves": curves}
    STORED.write_text(json.dumps(setting | targets, indent=1, ensure_ascii=False) + "\n")
stored = json.loads(STORED.read_text())["curves"]
for name, (kernel, _) in list(KERNELS.items())[: 1 if QUICK else None]:
    count = 1 if QUICK else 2
    again = np.array([least_risks(kernel, n) for n in SIZES[:count]])
    worst = np.abs(again / np.array(stored[name])[:count] - 1).max()
    print(f"{name}: stored and computed risks differ by {worst:.0e}")

# %%
# Slopes over the last decade of n, beside those of theory.
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.4), sharey=True, layout="constrained")
for column, (axis, (target, (_, smoothness, coefficients))) in enumerate(
    zip(axes, TARGETS.items(), strict=True)
):
    for (name, (_, order)), colour in zip(
        KERNELS.items(), ("#1f5fa8", "#d1495b", "#3b8c5a"), strict=True
    ):
        curve = np.array(stored[name])[:, column]
        expected = theory_risks(name, coefficients)
        slope = fitted_exponent(SIZES, curve, last=10.0)
        reached = min(smoothness, 2 * order)
        if np.isinf(reached):
            theory = "1 up to logarithms"
        elif np.isinf(order):
            theory = "none"
        else:
            theory = f"{risk_exponent(reached, order):.2f}"
        sharp = fitted_exponent(SIZES, expected, last=10.0)
        print(
            f"{target}, {name}: slope {slope:.2f}, theory {theory}; bias and variance {sharp:.2f}"
        )
        axis.loglog(SIZES, curve, "o", color=colour, label=f"{name}: {slope:.2f} (theory {theory})")
        axis.loglog(SIZES, expected, color=colour, linewidth=1)
    axis.set_title(target, fontsize=10)
    axis.set_xlabel("n")
    axis.legend(frameon=False, fontsize=8, title="minus the slope, last decade", loc="lower left")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("risk at the best λ; lines: bias² + variance")
figure.savefig("learning_curves.png", dpi=110)
