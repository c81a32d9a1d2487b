"""Distributions as functions: the mean embedding of a sample, or of weighted points."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import as_numpy
from mercer.checks import check_weights
from mercer.evaluation.program import EvaluableKernel
from mercer.functions.function import RKHSFunction


def mean_embedding(kernel: EvaluableKernel, points: Any, weights: Any = None) -> RKHSFunction:
    """μ = Σ_i w_i k(x_i, ·)/Σw, the mean of k(x, ·) over points: ⟨μ, f⟩ is the mean of f.

    Parameters
    ----------
    kernel : Kernel
    points : array-like, list of objects or PointSet
    weights : array of shape (n,), optional
        w_i ≥ 0; all alike by default.

    References
    ----------
    Muandet, Fukumizu, Sriperumbudur, Schölkopf, Kernel mean embedding of distributions, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> X, Y = np.array([[0.0], [1.0]]), np.array([[2.0], [4.0], [5.0]])
    >>> k = Gaussian()
    >>> mu, nu = mean_embedding(k, X), mean_embedding(k, Y)
    >>> f = k.function([[0.5]], [2.0])
    >>> bool(np.isclose(mu.inner(f), f(X).mean()))
    True
    >>> squared = k(X).mean() + k(Y).mean() - 2 * k(X, Y).mean()
    >>> bool(np.isclose(mu.distance(nu) ** 2, squared))  # the maximum mean discrepancy, squared
    True
    """
    x = kernel.points(points)
    if not len(x):
        raise ValueError("a mean embedding needs at least one point; got none.")
    if weights is None:
        return RKHSFunction(kernel, x, np.full(len(x), 1.0 / len(x)))
    shares = np.asarray(as_numpy(weights), np.float64)
    check_weights(shares, len(x))
    return RKHSFunction(kernel, x, shares / shares.sum())
