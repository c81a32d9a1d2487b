"""Losses by their definitions, in the precision of y: what the library is held to.

Code here shares nothing with the library but the names of losses and their parameters.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logsumexp, softmax

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


def value(loss, y, f):
    """ℓ(y_i, f_i) of each row; several outputs are added up."""
    if isinstance(loss, Multinomial):
        return logsumexp(f, axis=1) - f[np.arange(len(f)), y.astype(int)]
    r, m, number = f - y, y * f, y.dtype.type
    each = {
        Squared: lambda: r**2 / 2,
        Huber: lambda: _huber(r, number(loss.delta)),
        Logistic: lambda: np.logaddexp(number(0), -m),
        SquaredHinge: lambda: np.maximum(1 - m, 0) ** 2,
        Hinge: lambda: np.maximum(1 - m, 0),
        Absolute: lambda: abs(r),
        Quantile: lambda: np.where(r < 0, -number(loss.level), number(1 - loss.level)) * r,
        EpsilonInsensitive: lambda: np.maximum(abs(r) - number(loss.epsilon), 0),
        Poisson: lambda: np.exp(f) - m,
    }[type(loss)]()
    return each if each.ndim == 1 else each.sum(axis=1)


def _huber(r, delta):
    return np.where(abs(r) <= delta, r**2 / 2, delta * (abs(r) - delta / 2))


def slope(loss, y, f):
    """∂ℓ/∂f, at a kink one of the slopes."""
    if isinstance(loss, Multinomial):
        return softmax(f, axis=1) - one_hot(y)
    r, m, number = f - y, y * f, y.dtype.type
    return {
        Squared: lambda: r,
        Huber: lambda: np.clip(r, -loss.delta, loss.delta),
        Logistic: lambda: -y * expit(-m),
        SquaredHinge: lambda: -2 * y * np.maximum(1 - m, 0),
        Hinge: lambda: -y * (m < 1),
        Absolute: lambda: np.sign(r),
        Quantile: lambda: np.where(r < 0, -number(loss.level), number(1 - loss.level)),
        EpsilonInsensitive: lambda: np.sign(r) * (abs(r) > number(loss.epsilon)),
        Poisson: lambda: np.exp(f) - y,
    }[type(loss)]()


def domain(loss, y):
    """Between which slopes u the conjugate is finite."""
    if isinstance(loss, Poisson):
        return -y, np.full(len(y), np.inf, y.dtype)
    if loss.is_classification:  # of −uy, from 0 on
        far = y.dtype.type(np.inf if isinstance(loss, SquaredHinge) else 1)
        return np.where(y > 0, -far, 0), np.where(y > 0, 0, far)
    low, high = {
        Squared: lambda: (-np.inf, np.inf),
        Huber: lambda: (-loss.delta, loss.delta),
        Quantile: lambda: (-loss.level, 1 - loss.level),
    }.get(type(loss), lambda: (-1.0, 1.0))()
    return np.full(len(y), low, y.dtype), np.full(len(y), high, y.dtype)


def conjugate(loss, y, u):
    """ℓ*(y_i, u_i) of each row, for u in the domain up to rounding."""
    if isinstance(loss, Multinomial):
        return times_log(np.maximum(u + one_hot(y), 0)).sum(axis=1)
    s = np.clip(-u * y, 0, 1)
    each = {
        Squared: lambda: u * y + u**2 / 2,
        Huber: lambda: u * y + u**2 / 2,
        Logistic: lambda: times_log(s) + times_log(1 - s),
        SquaredHinge: lambda: u * y + u**2 / 4,
        EpsilonInsensitive: lambda: u * y + y.dtype.type(loss.epsilon) * abs(u),
        Poisson: lambda: times_log(u + y) - (u + y),
    }.get(type(loss), lambda: u * y)()
    return each if each.ndim == 1 else each.sum(axis=1)


def times_log(q):
    """q log q, 0 at 0."""
    return np.where(q > 0, q * np.log(np.where(q > 0, q, 1)), 0)


def one_hot(y):
    return np.eye(int(y.max()) + 1)[y.astype(int)]
