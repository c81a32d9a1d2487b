"""Smaller models: the same function with few centres."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.cluster import MiniBatchKMeans

from mercer.checks import check_count
from mercer.features import compress
from mercer.features.centres import Greedy
from mercer.functions import RKHSFunction
from mercer.points import DensePoints, PointSet


def compressed(model: Any, centres: int) -> Any:
    """A copy of a fitted model whose function has few centres, which are not training rows.

    The centres are the means of groups of training rows (k-means); the function is projected on
    their span. For points that have no means, as texts and categories, they are some of the
    training points.

    Parameters
    ----------
    model : estimator, or a pipeline that ends in one
    centres : int

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidge
    >>> from mercer.kernels import Gaussian
    >>> from mercer.persistence import compressed
    >>> X = np.random.default_rng(0).uniform(size=(200, 1))
    >>> model = KernelRidge(1e-3, kernel=Gaussian(0.5)).fit(X, np.sin(3 * X[:, 0]))
    >>> small = compressed(model, 12)
    >>> len(small.function_), bool(np.allclose(small.predict(X), model.predict(X), atol=1e-3))
    (12, True)
    """
    check_count("compressed", "centres", centres)
    if hasattr(model, "steps"):
        smaller = copy.copy(model)
        name, last = model.steps[-1]
        smaller.steps = [*model.steps[:-1], (name, compressed(last, centres))]
        return smaller
    f = getattr(model, "function_", None)
    if not isinstance(f, RKHSFunction) or not hasattr(model, "X_fit_"):
        raise ValueError(
            f"{type(model).__name__} has no function on all training rows to make smaller: it is "
            "not fitted, or has only its support vectors."
        )
    if centres >= len(f):
        return model
    g: Any = compress(f, _chosen(f, centres)).function
    smaller = copy.copy(model)
    smaller.function_, smaller.X_fit_, smaller.dual_coef_ = g, g.centres, g.coefficients
    return smaller


def _chosen(f: RKHSFunction, count: int) -> Any:
    points: PointSet = f.points
    if type(points) is not DensePoints:
        return Greedy(count)
    rows = np.asarray(points.rows, np.float64)
    scale = rows.std(axis=0)
    scale[scale == 0] = 1.0
    groups = MiniBatchKMeans(count, n_init=1, random_state=0).fit(rows / scale)
    means = (groups.cluster_centers_ * scale).astype(points.rows.dtype)
    return DensePoints(means, points.names)
