"""Where to look for a lengthscale: around the median distance of points."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from mercer.arrays import on_host
from mercer.kernels.base import Kernel

SAMPLE = 500  # points whose distances are looked at
FACTORS = np.logspace(-1, 1, 10)


def median_distance(X: Any, weights: Any = None) -> float:
    """The median distance of distinct points, 1 where all coincide; a sample of many points.

    Points without weight do not count, and repeated points count once.

    >>> median_distance(np.array([[0.0], [1.0], [3.0], [3.0]]))
    2.0
    """
    kept = np.arange(X.shape[0]) if weights is None else np.flatnonzero(on_host(weights))
    many = kept[:: max(1, len(kept) // (SAMPLE if X.shape[1] > SAMPLE else 10 * SAMPLE))]
    rows = X[many].toarray() if hasattr(X, "toarray") else X[many]
    rows = np.unique(np.asarray(on_host(rows), np.float64), axis=0)
    rows = rows[:: max(1, len(rows) // SAMPLE)]
    distances = pdist(rows)
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0


def candidate_lengthscales(
    lengthscales: Any, kernel: Kernel, gamma: Any, X: Any, weights: Any = None
) -> np.ndarray | None:
    """The lengthscales to try; None where the kernel is to stay as it is."""
    if lengthscales is None:
        return None
    has_one = np.ndim(kernel.get_params(deep=False).get("lengthscale", [])) == 0
    if isinstance(lengthscales, str):
        if lengthscales != "auto":
            raise ValueError(f'lengthscales must be "auto", None or a list; got {lengthscales!r}.')
        if not has_one or gamma is not None or not hasattr(X, "shape"):
            return None
        return median_distance(X, weights) * FACTORS
    if not has_one:
        raise ValueError(
            f"{kernel!r} has no lengthscale to choose; write lengthscales=None, or search over "
            "its parameters with GridSearchCV."
        )
    scales = np.atleast_1d(np.asarray(lengthscales, np.float64))
    if not len(scales):
        raise ValueError("lengthscales must be a list with at least one value; got an empty one.")
    return scales
