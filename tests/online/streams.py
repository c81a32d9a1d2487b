"""Streams and slow twins that the tests of online machines share."""

from __future__ import annotations

import numpy as np

from mercer.kernels import Gaussian, PairKernel


def samples(n=80, width=3, seed=0):
    """Rows, labels ±1, real targets."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, width))
    return (
        X,
        np.where(X[:, 0] * X[:, min(1, width - 1)] > 0, 1, -1),
        np.sin(2 * X[:, 0]) + 0.1 * X[:, min(1, width - 1)],
    )


def common_letters(s, t):
    return float(len(set(s) & set(t)))


LETTERS = PairKernel(common_letters)


def words(n=40, seed=0):
    """Words, and whether they hold an a."""
    rng = np.random.default_rng(seed)
    found = ["".join(rng.choice(list("abcdef"), size=4)) for _ in range(n)]
    return found, np.array([1 if "a" in word else -1 for word in found])


def twin(kernel, X, y, loss, ridge, steps, weights=None, averaging=None):
    """Coefficients of functional gradient descent, written down as in the notes."""
    K, n = np.asarray(kernel(X)), len(X)
    alpha, mean, total = np.zeros((n, y.shape[1])), np.zeros((n, y.shape[1])), 0.0
    losses = []
    for t in range(n):
        if averaging is not None:
            mean, total = mean + averaging[t] * alpha, total + averaging[t]
        f = K[t : t + 1] @ alpha
        weight = 1.0 if weights is None else weights[t]
        losses.append(weight * np.sum(loss.value(y[t : t + 1], f)))
        alpha = (1 - steps[t] * ridge) * alpha
        alpha[t] -= steps[t] * weight * np.asarray(loss.slope(y[t : t + 1], f))[0]
    return (alpha if averaging is None else mean / total), np.array(losses)


def expanded(function, X):
    """The coefficients of a function whose centres are rows of X, for all rows."""
    alpha = np.zeros((len(X), *function.coefficients.shape[1:]))
    for centre, value in zip(function.centres, function.coefficients, strict=True):
        (where,) = np.flatnonzero((centre == X).all(axis=1))
        alpha[where] = value
    return alpha


GAUSSIAN = Gaussian(1.2)
