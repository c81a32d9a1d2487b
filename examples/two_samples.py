"""
Two samples: do they come from one distribution?
================================================

Two samples with the same means and variances, one of them correlated. Tests of each column see
nothing. The maximum mean discrepancy compares the means of both samples in the space of a kernel;
permutations of the pooled sample give a p-value that holds for every sample size. The function on
which both means differ most shows where the samples differ.
Run with `python examples/two_samples.py`.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import ks_2samp

from mercer import mmd_test

QUICK = bool(os.environ.get("MERCER_QUICK"))  # CI runs every example at a reduced size
rng = np.random.default_rng(0)


def draw(n, correlation):
    return rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], n)


X, Y = draw(200, 0.0), draw(200, 0.7)
result = mmd_test(X, Y, random_state=0)
print(f"p-value of the discrepancy: {result.pvalue:.3f}, with {result.kernels[0]}")
for column in (0, 1):
    print(f"Kolmogorov–Smirnov, column {column}: {ks_2samp(X[:, column], Y[:, column]).pvalue:.2f}")

# %%
# How often the test rejects at 5 %, for equal distributions (its level) and others (its power).
REPETITIONS, PERMUTATIONS = (10, 99) if QUICK else (200, 199)
CORRELATIONS = [0.0, 0.6] if QUICK else [0.0, 0.2, 0.4, 0.6, 0.8]
rates = [
    np.mean([
        mmd_test(draw(100, 0.0), draw(100, c), permutations=PERMUTATIONS, random_state=seed).pvalue
        <= 0.05
        for seed in range(REPETITIONS)
    ])
    for c in CORRELATIONS
]  # fmt: skip
print({c: f"{rate:.0%}" for c, rate in zip(CORRELATIONS, rates, strict=True)})

# %%
# The witness μ_X − μ_Y, positive where X has more mass, negative where Y has.
k = result.kernels[0]
witness = k.mean_embedding(X) - k.mean_embedding(Y)
grid = np.stack(np.meshgrid(np.linspace(-3, 3, 80), np.linspace(-3, 3, 80)), axis=-1)
values = witness(grid.reshape(-1, 2)).reshape(80, 80)
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3.9), layout="constrained")
reach = np.abs(values).max()
left.contourf(grid[0, :, 0], grid[:, 0, 1], values, levels=np.linspace(-reach, reach, 15),
              cmap="RdBu_r")  # fmt: skip
left.plot(*X.T, ".", color="#7a1f1f", markersize=3, label="X")
left.plot(*Y.T, ".", color="#123a6b", markersize=3, label="Y, correlated")
left.set_xlim(-3, 3)
left.set_ylim(-3, 3)
left.set_title("both samples and the witness μ_X − μ_Y", fontsize=10)
left.legend(frameon=False, fontsize=8)
middle.hist(result.null_distribution, bins=40, color="#b0b7c0")
middle.axvline(result.statistic, color="#d1495b")
middle.set_title(f"the statistic among permutations: p = {result.pvalue:.3f}", fontsize=10)
right.plot(CORRELATIONS, rates, "o-", color="#1f5fa8")
right.axhline(0.05, color="#999999", linestyle="--")
right.set_title("share of rejections at 5 %, 100 points each", fontsize=10)
right.set_xlabel("correlation of Y")
for axis in (middle, right):
    axis.spines[["top", "right"]].set_visible(False)
figure.savefig("two_samples.png", dpi=110)
