"""Lengthscales: where to look for one, and whether that of a kernel suits the points."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.errors import LengthscaleWarning, warn
from mercer.kernels.base import Kernel
from mercer.kernels.named import median_distance
from mercer.operators import Gram
from mercer.points import DensePoints, PointSet

FACTORS = np.logspace(-1, 1, 10)
PROBED, AGAINST = 32, 512  # points that are looked at, and those they are compared with
FEWEST = 20  # points that can tell
UNRELATED = 1e-3  # correlation with the nearest other point below which a point is alone
EQUAL = 1e-4  # 1 − correlation below which two points are as good as one
MOST = 0.9  # of the points, or pairs, that must be so


def candidate_lengthscales(
    lengthscales: Any,
    kernel: Kernel,
    gamma: Any,
    X: Any,
    weights: Any = None,
    factors: np.ndarray = FACTORS,
) -> np.ndarray | None:
    """The lengthscales to try; None where the kernel is to stay as it is.

    `factors` times the median distance are tried by themselves.
    """
    if lengthscales is None:
        return None
    has_one = np.ndim(kernel.get_params(deep=False).get("lengthscale", [])) == 0
    if isinstance(lengthscales, str):
        if lengthscales != "auto":
            raise ValueError(f'lengthscales must be "auto", None or a list; got {lengthscales!r}.')
        if not has_one or gamma is not None or not hasattr(X, "shape"):
            return None
        return median_distance(X, weights) * factors
    if not has_one:
        raise ValueError(
            f"{kernel!r} has no lengthscale to choose; write lengthscales=None, or search over "
            "its parameters with GridSearchCV."
        )
    scales = np.atleast_1d(np.asarray(lengthscales, np.float64))
    if not len(scales):
        raise ValueError("lengthscales must be a list with at least one value; got an empty one.")
    return scales


def warn_of_lengthscale(kernel: Kernel, points: PointSet) -> None:
    """Warn where K is nearly a multiple of the identity, or of the matrix of ones.

    Kernels with one lengthscale are looked at, on dense points, of which some are compared with
    some others.
    """
    scale = kernel.get_params(deep=False).get("lengthscale", [])
    if np.ndim(scale) or not isinstance(points, DensePoints) or len(points) < FEWEST:
        return
    n = len(points)
    x, y = (
        points.take(np.linspace(0, n - 1, min(n, count)).astype(int)) for count in (PROBED, AGAINST)
    )
    looks = _looks(kernel, x, y)
    if not looks:
        return
    median = median_distance(points.rows)
    warn(
        f"to {kernel!r} {looks} its lengthscale is {float(scale):.3g}, and the median distance of "
        f"points {median:.3g}. Write gamma='median' with a named kernel, or a kernel object with "
        f"lengthscale={median:.2g} or so; columns of different units want a StandardScaler.",
        LengthscaleWarning,
    )


def _looks(kernel: Kernel, x: DensePoints, y: DensePoints) -> str:
    """How points look to the kernel, where that is of no use; repeated points do not count."""
    rows, others = (np.asarray(points.rows, np.float64) for points in (x, y))
    apart = scipy.spatial.distance.cdist(rows, others, "chebyshev") > 0
    if not apart.any():
        return ""
    values = np.asarray(Gram(kernel, x, y).dense())
    values = np.abs(values) / abs(float(kernel(rows[0], rows[0])))  # such kernels are stationary
    if np.mean(np.where(apart, values, 0.0).max(axis=1) < UNRELATED) >= MOST:
        return "every point is alone, so that f vanishes away from the training points:"
    if np.mean(1.0 - values[apart] < EQUAL) >= MOST:
        return "all points are nearly equal, so that f is nearly constant:"
    return ""
