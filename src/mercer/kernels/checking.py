"""A test on points whether a function of two points is a kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.points import DensePoints, View


@dataclass(frozen=True, eq=False)
class Check:
    """The result of checking a kernel on points.

    Attributes
    ----------
    passed : bool
        Whether the matrix is finite and symmetric and has no negative eigenvalue beyond rounding.
    because : str
        The reason, in words.
    smallest_eigenvalue : float
        Of the symmetric part of the matrix; NaN where a value is not finite.
    tolerance : float
        How far below 0 an eigenvalue, or apart k(x, y) and k(y, x), was put down to rounding.
    witness : array or None
        v with vᵀKv < 0 where there is one beyond rounding.
    pair : (int, int) or None
        Two points with k(x, y) ≠ k(y, x), or with a value that is not finite.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> Gaussian().check(np.eye(3)).passed
    True
    """

    passed: bool
    because: str
    smallest_eigenvalue: float
    tolerance: float
    witness: np.ndarray | None = None
    pair: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return f"{'passed' if self.passed else 'failed'}: {self.because}"


def check(kernel: Any, data: Any, *, tolerance: float | None = None) -> Check:
    """Test a kernel on points: finite, symmetric, no negative eigenvalue.

    The matrix K is stored and computed in float64 where the points are vectors. To pass proves
    nothing about other points; to fail proves that k is not a kernel, whatever its class states.

    Parameters
    ----------
    kernel : Kernel
        k.
    data : points of the kernel
        Some dozens or hundreds: n² values and n³ operations.
    tolerance : float, optional
        What counts as rounding, by default 64 units in the last place of max|K| for each value,
        so n times that for an eigenvalue.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import BlockKernel, Gaussian
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> Gaussian().check(X).passed
    True
    >>> distance = BlockKernel(lambda X, Y: np.abs(X - Y.T))
    >>> result = distance.check(X)
    >>> v = result.witness
    >>> bool(v @ distance(X) @ v < 0)
    True
    """
    matrix = _values(kernel, data)
    if tolerance is None:
        units = 64.0  # in the last place, that a value may be off: as many as 30 operations round
        largest = float(np.abs(matrix[np.isfinite(matrix)]).max(initial=0.0))
        tolerance = units * float(np.finfo(np.float64).eps) * largest
    result = _verdict(matrix, float(tolerance))
    width = getattr(kernel.points(data), "width", None)
    if result.passed or not kernel.facts(width).positive_definite.yes:
        return result
    return replace(result, because=f"{result.because}, though it is stated to be positive definite")


def _values(kernel: Any, data: Any) -> np.ndarray:
    """All k(x_i, x_j), none of them taken for granted by symmetry."""
    points = kernel.points(data)
    if not len(points):
        raise ValueError("a kernel is checked on at least one point; got none.")
    if isinstance(points, DensePoints):
        points = DensePoints(points.seen(View(), np.float64), points.names)
    again = points.take(np.arange(len(points)))
    return np.asarray(kernel.block(points, again), np.float64)


def _verdict(matrix: np.ndarray, tolerance: float) -> Check:
    if not np.isfinite(matrix).all():
        i, j = (int(index) for index in np.argwhere(~np.isfinite(matrix))[0])
        reason = f"k(x, y) = {matrix[i, j]} for points {i} and {j}"
        return Check(False, reason, float("nan"), tolerance, pair=(i, j))
    size, symmetric = len(matrix), 0.5 * (matrix + matrix.T)
    values, vectors = np.linalg.eigh(symmetric)
    smallest, witness = float(values[0]), vectors[:, 0]
    form = float(witness @ symmetric @ witness)
    reason = f"{size} points, symmetric, smallest eigenvalue {smallest:.3g}"
    result = Check(True, reason, smallest, tolerance)
    if max(smallest, form) < -size * tolerance:
        reason = f"vᵀKv = {form:.6g} for the vector v of length 1 in `witness`"
        result = Check(False, reason, smallest, tolerance, witness)
    gaps = np.abs(matrix - matrix.T)
    i, j = (int(index) for index in np.unravel_index(np.argmax(gaps), gaps.shape))
    if gaps[i, j] <= tolerance:
        return result
    reason = f"k(x, y) = {matrix[i, j]:.6g} but k(y, x) = {matrix[j, i]:.6g} for points {i} and {j}"
    return replace(result, passed=False, because=reason, pair=(i, j))
