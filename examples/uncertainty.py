"""
How sure is a fit? Posterior bands and intervals
================================================

The posterior band says where f lies if the prior is right, and widens where there are no data. The
jackknife+ intervals hold nine of ten new targets that come from the same distribution as the data,
whatever that is; where there are no data, they promise nothing.
Run with `python examples/uncertainty.py`.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRidge
from mercer.kernels import Gaussian
from mercer.plotting import FittedFunctionDisplay

rng = np.random.default_rng(3)
X = np.r_[rng.uniform(-3, 0.2, (60, 1)), rng.uniform(1.6, 3, (25, 1))]
y = np.sin(2 * X[:, 0]) + 0.25 * rng.standard_normal(len(X))
model = KernelRidge(0.3, kernel=Gaussian(0.6), fit_intercept=True).fit(X, y)

figure, axes = plt.subplots(1, 3, figsize=(14, 3.8), sharey=True, layout="constrained")
grid = np.linspace(-3.4, 3.4, 400)
FittedFunctionDisplay.from_estimator(model, X, y, band="std", places=grid, ax=axes[0])
axes[0].set_title("posterior of f")
FittedFunctionDisplay.from_estimator(model, X, y, band="interval", places=grid, ax=axes[1])
axes[1].set_title("jackknife+ for new targets")
draws = model.sample_y(grid[:, None], 6, random_state=1)
axes[2].plot(grid, draws, linewidth=1.0, alpha=0.8)
axes[2].plot(X[:, 0], y, ".", color="#8a8f98", markersize=4)
axes[2].set_title("six functions drawn from the posterior")
axes[2].set_xlabel("x")
axes[2].spines[["top", "right"]].set_visible(False)
figure.savefig("uncertainty.png", dpi=110)
