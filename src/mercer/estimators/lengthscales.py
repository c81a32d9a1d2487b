"""Lengthscales: where to look for one, and whether that of a kernel suits the points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.errors import GridEdgeWarning, LengthscaleWarning, warn
from mercer.kernels.base import Kernel
from mercer.kernels.conversion import median_distance
from mercer.operators import Gram
from mercer.points import DensePoints, PointSet

MEDIAN_FACTORS = np.logspace(-1, 1, 10)  # of the median distance


@dataclass(frozen=True)
class Tuning:
    """When a lengthscale is called unsuitable."""

    # Points that are looked at, and those they are compared with.
    probed: int = 32
    against: int = 512

    fewest: int = 20  # points below which nothing is said: so few may well be alone
    unrelated: float = 1e-3  # correlation with the nearest other point below which a point is alone
    equal: float = 1e-4  # 1 − correlation below which two points are as good as one
    most: float = 0.9  # of the points, or pairs, that must be so


TUNING = Tuning()


def candidate_lengthscales(
    lengthscales: Any,
    kernel: Kernel,
    gamma: Any,
    X: Any,
    weights: Any = None,
    factors: np.ndarray = MEDIAN_FACTORS,
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
    scale: Any = getattr(kernel, "lengthscale", [])
    n = len(points)
    if np.ndim(scale) or not isinstance(points, DensePoints) or n < TUNING.fewest:
        return
    x = points.take(np.linspace(0, n - 1, min(n, TUNING.probed)).astype(int))
    values = np.abs(Gram(kernel, x).dense())
    values /= values.diagonal()[:, None]
    # K is neither where a tenth of the pairs of these few points are neither alone nor equal: the
    # usual case, seen in half of the time that the comparison with others would take.
    ordinary = (values > TUNING.unrelated) & (values < 1.0 - TUNING.equal)
    if np.count_nonzero(ordinary) > (1.0 - TUNING.most) * ordinary.size:
        return
    y = points.take(np.linspace(0, n - 1, min(n, TUNING.against)).astype(int))
    apart = scipy.spatial.distance.cdist(x.rows, y.rows, "chebyshev") > 0
    if not apart.any():  # repeated points do not count
        return
    values = np.abs(Gram(kernel, x, y).dense()) / np.abs(Gram(kernel, x).diagonal())[:, None]
    if np.mean(np.where(apart, values, 0.0).max(axis=1) < TUNING.unrelated) >= TUNING.most:
        looks = "every point is alone, so that f vanishes away from the training points:"
    elif np.mean(1.0 - values[apart] < TUNING.equal) >= TUNING.most:
        looks = "all points are nearly equal, so that f is nearly constant:"
    else:
        return
    median = median_distance(points.rows)
    warn(
        f"to {kernel!r} {looks} its lengthscale is {float(scale):.3g}, and the median distance of "
        f"points {median:.3g}. Write gamma='median' with a named kernel, or a kernel object with "
        f"lengthscale={median:.2g} or so; columns of different units want a StandardScaler.",
        LengthscaleWarning,
    )


def warn_of_edges(owner: object, advice: str, **grids: tuple[float, Any]) -> None:
    """Warn where the best of three values or more is the least or the largest that was tried.

    `grids` has the best value and all of them, by name; None where nothing was searched.
    """
    found = [
        f"{name} = {best:.6g}"
        for name, (best, tried) in grids.items()
        if tried is not None and len(tried) > 2 and best in (min(tried), max(tried))
    ]
    if found:
        warn(
            f"{type(owner).__name__}: the best {' and '.join(found)} is on the edge of what was "
            f"tried: try values beyond it, by {advice}.",
            GridEdgeWarning,
        )
