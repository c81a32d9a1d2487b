"""
Classification with probabilities
=================================

Kernel logistic regression says how likely each class is. Where two classes overlap a good
probability is more useful than a label: one can act on it only if it is calibrated, which means
that of all points with probability 0.8 four in five belong to the class.
Run with `python examples/probabilities.py`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.datasets import make_moons
from sklearn.metrics import accuracy_score, log_loss

from mercer import KernelClassifierCV, KernelLogisticRegression
from mercer.kernels import Gaussian

X, y = make_moons(3000, noise=0.35, random_state=0)
train, test = slice(0, 400), slice(400, None)

# %%
# One fit with a lengthscale and a C chosen by hand, and one where cross-validation chooses both.
fixed = KernelLogisticRegression(C=1.0, kernel=Gaussian(0.5)).fit(X[train], y[train])
chosen = KernelClassifierCV(kernel=Gaussian()).fit(X[train], y[train])
for name, model in (("by hand", fixed), ("by cross-validation", chosen)):
    p = model.predict_proba(X[test])[:, 1]
    print(
        f"{name}: accuracy {accuracy_score(y[test], p > 0.5):.3f}, "
        f"log-loss {log_loss(y[test], p):.3f}"
    )

# %%
# The probability over the plane, and how often the class was right for each probability.
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.9), layout="constrained")
grid = np.stack(np.meshgrid(np.linspace(-2.2, 3.2, 120), np.linspace(-1.6, 2.1, 90)), axis=-1)
surface = chosen.predict_proba(grid.reshape(-1, 2))[:, 1].reshape(90, 120)
shown = left.contourf(grid[0, :, 0], grid[:, 0, 1], surface, levels=np.linspace(0, 1, 11),
                      cmap="RdBu_r")  # fmt: skip
left.scatter(*X[train].T, c=y[train], cmap="RdBu_r", s=8, edgecolor="white", linewidth=0.3)
left.set_title("probability of the second moon", fontsize=10)
figure.colorbar(shown, ax=left)
share, mean = calibration_curve(y[test], chosen.predict_proba(X[test])[:, 1], n_bins=10)
right.plot([0, 1], [0, 1], color="#999999", linestyle="--", label="calibrated")
right.plot(mean, share, "o-", color="#1f5fa8", label="KernelClassifierCV")
right.set_title("2,600 new points", fontsize=10)
right.set_xlabel("predicted probability")
right.set_ylabel("share of the class")
right.legend(frameon=False, fontsize=8)
right.spines[["top", "right"]].set_visible(False)
figure.savefig("probabilities.png", dpi=110)
