"""
Tuning: every λ for the price of one fit
========================================

Ridge regression leaves out each row in turn without refitting: one eigendecomposition for each
lengthscale gives the leave-one-out error of every α. The error on rows that were never seen agrees
with it. Run with `python examples/tuning.py`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1

from mercer import KernelRidge, KernelRidgeCV
from mercer.kernels import Gaussian
from mercer.plotting import ValidationDisplay

X, y = make_friedman1(2300, n_features=5, noise=1.0, random_state=0)
train, test = slice(0, 300), slice(300, None)
chosen = KernelRidgeCV(kernel=Gaussian(), fit_intercept=True).fit(X[train], y[train])
print(f"chosen: {chosen.kernel_}, α = {chosen.alpha_:.3g}")
print(f"leave-one-out RMSE {np.sqrt(-chosen.best_score_):.3f}")
error = np.sqrt(np.mean((chosen.predict(X[test]) - y[test]) ** 2))
print(f"RMSE on 2,000 new rows {error:.3f}; the noise alone is 1")

# %%
# Left: the errors that were compared. Right: leave-one-out and new rows, for the chosen kernel.
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.9), layout="constrained")
shown = ValidationDisplay.from_estimator(chosen, ax=left)
left.set_title("leave-one-out error of each lengthscale and α", fontsize=10)


def error_on_new_rows(alpha):
    model = KernelRidge(alpha, kernel=chosen.kernel_, fit_intercept=True).fit(X[train], y[train])
    return np.mean((model.predict(X[test]) - y[test]) ** 2)


alphas = np.asarray(shown.alphas)
path = chosen.cv_errors_[chosen.cv_errors_.min(axis=1).argmin()]
new = [error_on_new_rows(alpha) for alpha in alphas[::3]]
right.loglog(alphas, path, color="#1f5fa8", label="leave-one-out, 300 rows")
right.loglog(alphas[::3], new, "o", color="#d1495b", label="2,000 new rows")
right.set_title("mean squared error for the chosen lengthscale", fontsize=10)
right.set_xlabel("α")
right.legend(frameon=False, fontsize=8)
right.spines[["top", "right"]].set_visible(False)
figure.savefig("tuning.png", dpi=110)
