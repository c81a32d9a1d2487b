"""The function of least norm through given values."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer import linalg
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.kernels.functionals import are_functionals
from mercer.losses import Squared
from mercer.operators import Gram
from mercer.points import PointSet, VectorPoints
from mercer.runtime.budget import require_room
from mercer.solvers.direct import Direct
from mercer.solvers.problem import Problem


def interpolant(kernel: Kernel, x: Any, y: Any, *, tolerance: float = 1e-6) -> RKHSFunction:
    """The f of least norm with f(x_i) = y_i: f = Σ α_i k(x_i, ·) with K α = y.

    For kernels as `ThinPlate()` it is the spline with the least roughness, a polynomial included.

    Points that coincide and have the same value do no harm. Where no function of the space takes
    the values, the refusal says why.

    Parameters
    ----------
    kernel : Kernel
        k.
    x : points or functionals
        The x_i, or functionals L_i of `mercer.kernels.functionals`: then L_i(f) = y_i.
    y : array of shape (n,) or (n, outputs)
        The values.
    tolerance : float, default=1e-6
        How far the interpolant may miss the values, relative to the largest of them.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Matern
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, -1.0, 0.5])
    >>> f = interpolant(Matern(1.5), X, y)
    >>> bool(np.allclose(f(X), y))
    True
    """
    if are_functionals(x):
        kernel = kernel.on_functionals()
    points = kernel.points(x)
    values = np.asarray(y, np.float64)
    if values.ndim not in (1, 2) or len(values) != len(points):
        raise ValueError(
            f"there must be one value (or row) for each of {len(points)} points; got shape "
            f"{values.shape}."
        )
    n = len(points)
    what = f"interpolation stores the Gram matrix of {n} points and its eigenvectors, which"
    advice = "Take fewer points, or fit with a small regularization, KernelRidge(alpha=1e-8)"
    require_room(what, 16 * n * n, advice)
    gram = Gram(kernel, points)
    if kernel.null_degree() is not None:  # the spline of least roughness
        problem = Problem(gram, values, Squared(), 0.0)
        f, rank = problem.function(Direct().solve(problem)), n
        missed = np.abs(f(points) - values)
    else:
        coefficients, rank = linalg.symmetric_solve(gram.dense().astype(np.float64), values)
        f = RKHSFunction(kernel, points, coefficients)
        missed = np.abs(gram @ coefficients - values)
    if missed.max(initial=0.0) > tolerance * max(np.abs(values).max(initial=0.0), 1e-300):
        raise ValueError(_reason(kernel, points, values, missed, rank))
    return f


def _reason(
    kernel: Kernel, points: PointSet, values: np.ndarray, missed: np.ndarray, rank: int
) -> str:
    """Why no function of the space takes the values."""
    first: dict[Any, int] = {}
    for i, point in enumerate(_keys(points)):
        j = first.setdefault(point, i)
        if not np.array_equal(values[i], values[j]):
            return (
                f"points {j} and {i} coincide, but their values {values[j]} and {values[i]} "
                "differ: no function takes both. Average them, or fit with a regularization > 0."
            )
    if kernel.facts(getattr(points, "width", None)).universal.yes:
        return (
            "the space holds a function through these values, but not one that float64 can find: "
            f"the Gram matrix of {len(points)} points is ill-conditioned, of numerical rank "
            f"{rank}, and what is found misses by {missed.max():.2g}. Choose a smaller lengthscale "
            "or a rougher kernel (Matern), or fit with a regularization > 0."
        )
    return (
        f"no function of this space takes these values: the Gram matrix of {len(points)} points "
        f"has rank {rank}, and the nearest function misses by {missed.max():.2g}. Choose a kernel "
        "with a larger space (Gaussian, Matern), or fit with a regularization > 0."
    )


def _keys(points: PointSet) -> list[Any]:
    """What is equal where points are."""
    if not isinstance(points, VectorPoints):
        return [repr(point) for point in points.data]
    rows = points.rows.toarray() if hasattr(points.rows, "toarray") else np.asarray(points.rows)
    return [row.tobytes() for row in np.ascontiguousarray(rows)]
