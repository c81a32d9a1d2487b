"""
A kernel that learns which columns matter
=========================================

Ten columns, of which five matter: y = 10 sin(π x₀x₁) + 20(x₂ − ½)² + 10x₃ + 5x₄ + noise, a function
of Friedman. A fixed kernel measures distances in all ten; after some rounds the metric has the five
alone. Run with `python examples/learned_metric.py`.
"""

import os

import numpy as np
from sklearn.datasets import make_friedman1

from mercer import KernelRidgeCV, LearnedKernelRegressor
from mercer.kernels import Exponential
from mercer.plotting import MetricDisplay

QUICK = bool(os.environ.get("MERCER_QUICK"))  # CI runs every example at a reduced size
X, y = make_friedman1(400 if QUICK else 1500, n_features=10, noise=1.0, random_state=0)
train, test = slice(0, len(y) * 2 // 3), slice(len(y) * 2 // 3, None)
fixed = KernelRidgeCV(kernel=Exponential(), fit_intercept=True).fit(X[train], y[train])
learned = LearnedKernelRegressor(kernel=Exponential(), form="full").fit(X[train], y[train])
for name, model in {"fixed metric": fixed, "learned metric": learned}.items():
    error = np.sqrt(np.mean((model.predict(X[test]) - y[test]) ** 2))
    print(f"{name}: test RMSE {error:.2f} (the noise alone: 1.00)")
names = [f"x{k}" for k in range(10)]
display = MetricDisplay(learned.learned_, names).plot()
display.figure_.savefig("learned_metric.png", dpi=110)
