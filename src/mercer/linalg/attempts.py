"""One attempt at a Cholesky factor: (L, 0), or (None, order of the first minor that fails)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from mercer.arrays import Array, namespace
from mercer.linalg.diagonals import shifted
from mercer.panels import factor_lower_triangle
from mercer.requirements import diagonal

Attempt: TypeAlias = Callable[[Array, float], tuple[Array, int]]


def attempt_of(matrix: Array) -> Attempt:
    """How matrices of this library are factored: a function of a matrix and a jitter."""
    xp = namespace(matrix)
    if xp is np:
        return _attempt_lapack
    return _attempt_torch if hasattr(xp.linalg, "cholesky_ex") else _attempt_generic


def _attempt_lapack(matrix: Array, jitter: float) -> tuple[Array, int]:
    """In place: LAPACK writes the lower triangle only, so the upper one undoes a failure."""
    columns = matrix if matrix.flags.f_contiguous else matrix.T
    diagonal = columns.diagonal().copy()
    np.fill_diagonal(columns, diagonal + jitter)
    failing_order = factor_lower_triangle(columns)
    if failing_order:
        _mirror_upper_triangle(columns)
        np.fill_diagonal(columns, diagonal)
        return None, failing_order
    _clear_upper_triangle(columns)
    return columns, 0


def _attempt_torch(matrix: Array, jitter: float) -> tuple[Array, int]:
    lower, failing_order = namespace(matrix).linalg.cholesky_ex(shifted(matrix, jitter))
    return lower, int(failing_order)


def _attempt_generic(matrix: Array, jitter: float) -> tuple[Array, int]:
    moved = shifted(matrix, jitter)
    lower = _lower_or_none(moved)
    return lower, 0 if lower is not None else _first_failing_order(moved)


def _lower_or_none(matrix: Array) -> Array | None:
    """The factor L, or None: libraries tell a failure by LinAlgError or by NaN on the diagonal."""
    xp = namespace(matrix)
    try:
        lower = xp.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    return lower if bool(xp.all(diagonal(lower) > 0)) else None


def _first_failing_order(matrix: Array) -> int:
    """Bisect: once a leading minor is not positive definite, no larger one is."""
    orders = range(1, matrix.shape[0] + 1)
    return orders[
        bisect_left(orders[:-1], True, key=lambda k: _lower_or_none(matrix[:k, :k]) is None)
    ]


def _mirror_upper_triangle(columns: Array) -> None:
    for j in range(columns.shape[0] - 1):
        columns[j + 1 :, j] = columns[j, j + 1 :]


def _clear_upper_triangle(columns: Array) -> None:
    for j in range(1, columns.shape[0]):
        columns[:j, j] = 0.0


def workspace(matrix: Array, overwrite: bool) -> Array:
    """What an attempt may write to (only LAPACK's do): a copy, unless A may go."""
    if namespace(matrix) is not np or (overwrite and matrix.flags.writeable):
        return matrix
    return np.array(matrix, order="F")
