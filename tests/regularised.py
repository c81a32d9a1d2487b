"""Regularised risks written down again, in plain NumPy: what solvers are held to."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax, xlogy

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


def rows(y):
    return np.eye(3)[y.astype(int)]


def risk_of_each(name, y, f):
    """ℓ(y_i, f_i), by the book."""
    r = np.abs(f - y) if name not in ("multinomial", "poisson") else None
    if name in ("huber", "several"):
        delta = 0.5 if name == "huber" else 0.2
        loss = np.where(r <= delta, 0.5 * r**2, delta * (r - 0.5 * delta))
        return loss if loss.ndim == 1 else loss.sum(axis=1)
    return {
        "logistic": lambda: np.logaddexp(0.0, -y * f),
        "multinomial": lambda: logsumexp(f, axis=1) - f[np.arange(len(f)), y.astype(int)],
        "squared hinge": lambda: np.maximum(1.0 - y * f, 0.0) ** 2,
        "poisson": lambda: np.exp(f) - y * f,
        "squared": lambda: 0.5 * r**2,
        "hinge": lambda: np.maximum(1.0 - y * f, 0.0),
        "epsilon": lambda: np.maximum(r - 0.2, 0.0),
        "quantile": lambda: np.maximum(0.3 * (y - f), -0.7 * (y - f)),
        "absolute": lambda: r,
    }[name]()


def slope_of_each(name, y, f):
    """∂ℓ/∂f, by the book."""
    return {
        "logistic": lambda: -y * expit(-y * f),
        "multinomial": lambda: softmax(f, axis=1) - rows(y),
        "squared hinge": lambda: -2.0 * y * np.maximum(1.0 - y * f, 0.0),
        "huber": lambda: np.clip(f - y, -0.5, 0.5),
        "several": lambda: np.clip(f - y, -0.2, 0.2),
        "poisson": lambda: np.exp(f) - y,
        "squared": lambda: f - y,
    }[name]()


def conjugate_of_each(name, y, u):
    """ℓ*(y_i, u_i), by the book; u is in the domain up to rounding."""
    m = -y * u if name in ("logistic", "hinge", "squared hinge") else None
    return {
        "logistic": lambda: xlogy(m, m) + xlogy(1.0 - m, np.maximum(1.0 - m, 1e-300)),
        "multinomial": lambda: xlogy(p := np.maximum(u + rows(y), 0.0), p).sum(axis=1),
        "squared hinge": lambda: -m + 0.25 * m**2,
        "huber": lambda: y * u + 0.5 * u**2,
        "several": lambda: (y * u + 0.5 * u**2).sum(axis=1),
        "poisson": lambda: xlogy(u + y, u + y) - (u + y),
        "squared": lambda: y * u + 0.5 * u**2,
        "hinge": lambda: -m,
        "epsilon": lambda: y * u + 0.2 * np.abs(u),
        "quantile": lambda: y * u,
        "absolute": lambda: y * u,
    }[name]()


def objective(name, y, alpha, b, ridge, weights=None, gram=K):
    f = gram @ alpha
    p = np.ones(len(y)) if weights is None else weights
    return p @ risk_of_each(name, y, f + b) / p.sum() + 0.5 * ridge * np.vdot(alpha, f)


def dual_objective(name, y, u, ridge, weights=None, gram=K):
    p = (np.ones(len(y)) if weights is None else weights) / (
        len(y) if weights is None else weights.sum()
    )
    push = p[:, None] * u.reshape(len(u), -1)
    return -p @ conjugate_of_each(name, y, u) - np.vdot(push, gram @ push) / (2.0 * ridge)


def least(name, y, ridge, weights=None, fit_intercept=False):
    """The least objective of a smooth loss, by a quasi-Newton method on a root of K."""
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    outputs = {"multinomial": 3, "several": 2}.get(name, 1)
    p = (np.ones(N) if weights is None else weights) / (N if weights is None else weights.sum())

    def value(theta):
        theta = theta.reshape(N + 1, outputs)
        beta, b = theta[:-1], theta[-1] * fit_intercept
        f = root @ beta + b
        f = f[:, 0] if outputs == 1 else f
        slopes = p[:, None] * slope_of_each(name, y, f).reshape(N, outputs)
        total = p @ risk_of_each(name, y, f) + 0.5 * ridge * (beta**2).sum()
        gradient = np.vstack([root.T @ slopes + ridge * beta, fit_intercept * slopes.sum(axis=0)])
        return total, gradient.ravel()

    found = minimize(
        value,
        np.zeros((N + 1) * outputs),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-10},
    )
    return found.fun
