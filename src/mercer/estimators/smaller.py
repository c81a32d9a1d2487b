"""Smaller models: the same function with few centres, which are not training rows."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import numpy as np
from sklearn.cluster import MiniBatchKMeans

from mercer.checks import check_count
from mercer.features.centres import AnyChoice, Choice, Given, Greedy
from mercer.features.compression import compress as projected
from mercer.functions import RKHSFunction
from mercer.points import DensePoints, PointSet

Fitted = TypeVar("Fitted")
OF_ROWS = ("support_", "n_support_", "table_")  # what numbers training rows, which are gone


def compress(self: Fitted, centres: int | AnyChoice) -> Fitted:
    """A copy of this fitted estimator whose function has few centres, to ship or to speed up.

    It is the orthogonal projection of f on their span.

    Parameters
    ----------
    centres : int or choice of `mercer.features.centres`
        How many: means of groups of the present ones (k-means), so that no training row is among
        them, or some of them where points have no means, as texts and categories. A choice picks
        some of them.

    Returns
    -------
    estimator
        It predicts as this one does; `compression_error_` is the root mean square of the change of
        f at the old centres, relative to that of f. It does not know training rows by number:
        `support_` is gone.
    """
    model: Any = self
    f = getattr(model, "function_", None)
    if not isinstance(f, RKHSFunction):
        raise ValueError(
            f"this {type(model).__name__} has no function of centres to make smaller: fit it first."
        )
    if model._is_precomputed():
        raise ValueError("a precomputed kernel has no points that could be centres.")
    if not isinstance(centres, (Choice, Given)):
        check_count(model, "centres", centres)
        if centres >= len(f):
            return copy.copy(model)
        centres = _means(f, int(centres))
    projection = projected(f, centres)
    g: Any = projection.function
    copied = copy.copy(model)
    copied.function_, copied.compression_error_ = g, projection.relative_error
    for name in OF_ROWS:
        vars(copied).pop(name, None)
    if hasattr(model, "X_fit_"):
        copied.X_fit_, copied.dual_coef_ = g.centres, g.coefficients
    elif hasattr(model, "support_vectors_"):
        alpha = np.asarray(g.coefficients)
        copied.support_vectors_, copied.dual_coef_ = g.centres, alpha.reshape(len(alpha), -1).T
    return copied


def _means(f: RKHSFunction, count: int) -> Any:
    """The means of groups of the centres of f, or a choice of them."""
    points: PointSet = f.points
    if type(points) is not DensePoints:
        return Greedy(count)
    rows = np.asarray(points.rows, np.float64)
    scale = rows.std(axis=0)
    scale[scale == 0] = 1.0
    groups = MiniBatchKMeans(count, n_init=1, random_state=0).fit(rows / scale)
    means = (groups.cluster_centers_ * scale).astype(points.rows.dtype)
    return DensePoints(means, points.names)
