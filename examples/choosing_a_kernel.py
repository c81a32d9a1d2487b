"""
Choosing a kernel
=================

A kernel says which functions are simple. Monthly measurements with a trend and a season are
continued for two years by four kernels. Each is tuned by its marginal likelihood on the past,
and judged on the future, which only a kernel that knows the season can foresee.
Run with `python examples/choosing_a_kernel.py`.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRidge
from mercer.kernels import Gaussian, Linear, Matern, PeriodicExponential
from mercer.learning import MarginalLikelihood

QUICK = bool(os.environ.get("MERCER_QUICK"))  # CI runs every example at a reduced size
rng = np.random.default_rng(0)
years = np.arange(0, 10, 1 / 12)[:, None]
truth = 0.8 * years[:, 0] + 0.05 * years[:, 0] ** 2 + 2 * np.sin(2 * np.pi * years[:, 0]) ** 3
y = truth + 0.3 * rng.standard_normal(len(years))
past = years[:, 0] < 8
scale = y[past].std()


# %%
# Rough, smooth, and with a season of one year: sums and products of kernels are kernels.
season = PeriodicExponential(3.0, period=1.0)
KERNELS = {
    "Matérn 1/2": 1.0 * Matern(0.5, 1.0),
    "Gaussian": 1.0 * Gaussian(1.0),
    "Gaussian + season": 1.0 * Gaussian(3.0) + 1.0 * season,
    "linear + Gaussian + season": 1.0 * Linear() + 1.0 * Gaussian(3.0) + 1.0 * season,
}

figure, axes = plt.subplots(
    2, 2, figsize=(10.5, 5.4), sharex=True, sharey=True, layout="constrained"
)
for (name, kernel), axis in zip(KERNELS.items(), axes.flat, strict=True):
    learned = MarginalLikelihood(form=None, iterations=5 if QUICK else 40).learn(
        kernel, years[past], (y[past] / scale)
    )
    model = KernelRidge(learned.alpha, kernel=learned.kernel).fit(years[past], y[past] / scale)
    mean, deviation = model.predict(years, return_std=True, include_noise=True)
    mean, deviation = mean * scale, deviation * scale
    error = np.sqrt(np.mean((mean - truth)[~past] ** 2))
    evidence = model.log_marginal_likelihood()
    print(f"{name}: log-likelihood of the past {evidence:.0f}, error of the future {error:.2f}")
    axis.fill_between(years[:, 0], mean - 2 * deviation, mean + 2 * deviation, color="#b9cce4")
    axis.plot(years[:, 0], mean, color="#1f5fa8", linewidth=1.2)
    axis.plot(years[past, 0], y[past], ".", color="#555555", markersize=3)
    axis.plot(years[~past, 0], y[~past], ".", color="#d1495b", markersize=3)
    axis.set_title(f"{name}: error of the future {error:.2f}", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
for axis in axes[1]:
    axis.set_xlabel("years")
figure.savefig("choosing_a_kernel.png", dpi=110)
