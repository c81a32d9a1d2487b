"""Regularised risks written down again, in plain NumPy: what solvers are held to."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from loss_formulas import conjugate, slope, value
from mercer.kernels import Gaussian
from mercer.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)

RNG = np.random.default_rng(3)
N = 60
X = RNG.standard_normal((N, 2))
CURVE = np.sin(2.0 * X[:, 0]) + X[:, 1]
NOISY = CURVE + RNG.standard_normal(N)
LABELS = np.where(NOISY > 0, 1.0, -1.0)
CLASSES = np.digitize(NOISY, [-0.7, 0.7]).astype(float)
COUNTS = RNG.poisson(np.exp(CURVE)).astype(float)
WEIGHTS = RNG.integers(0, 4, N).astype(float)
KERNEL = Gaussian(0.8)
K = KERNEL.gram(X).dense()

SMOOTH = {
    "logistic": (Logistic(), LABELS),
    "multinomial": (Multinomial(), CLASSES),
    "squared hinge": (SquaredHinge(), LABELS),
    "huber": (Huber(0.5), NOISY),
    "poisson": (Poisson(), COUNTS),
    "squared": (Squared(), NOISY),
    "several": (Huber(0.2), np.stack([NOISY, CURVE], axis=1)),
}
KINKED = {
    "hinge": (Hinge(), LABELS),
    "epsilon": (EpsilonInsensitive(0.2), NOISY),
    "quantile": (Quantile(0.3), NOISY),
    "absolute": (Absolute(), NOISY),
}


LOSSES = {name: loss for name, (loss, _) in (SMOOTH | KINKED).items()}


def objective(name, y, alpha, b, ridge, weights=None, gram=K):
    f = gram @ alpha
    p = np.ones(len(y)) if weights is None else weights
    return p @ value(LOSSES[name], y, f + b) / p.sum() + 0.5 * ridge * np.vdot(alpha, f)


def dual_objective(name, y, u, ridge, weights=None, gram=K):
    p = (np.ones(len(y)) if weights is None else weights) / (
        len(y) if weights is None else weights.sum()
    )
    push = p[:, None] * u.reshape(len(u), -1)
    return -p @ conjugate(LOSSES[name], y, u) - np.vdot(push, gram @ push) / (2.0 * ridge)


def least(name, y, ridge, weights=None, fit_intercept=False):
    """The least objective of a smooth loss, by a quasi-Newton method on a root of K."""
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    outputs = {"multinomial": 3, "several": 2}.get(name, 1)
    p = (np.ones(N) if weights is None else weights) / (N if weights is None else weights.sum())

    def value_of(theta):
        theta = theta.reshape(N + 1, outputs)
        beta, b = theta[:-1], theta[-1] * fit_intercept
        f = root @ beta + b
        f = f[:, 0] if outputs == 1 else f
        slopes = p[:, None] * slope(LOSSES[name], y, f).reshape(N, outputs)
        total = p @ value(LOSSES[name], y, f) + 0.5 * ridge * (beta**2).sum()
        gradient = np.vstack([root.T @ slopes + ridge * beta, fit_intercept * slopes.sum(axis=0)])
        return total, gradient.ravel()

    found = minimize(
        value_of,
        np.zeros((N + 1) * outputs),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-10},
    )
    return found.fun
