"""Factors and triangular systems of large NumPy arrays, in place and in pieces.

LAPACK's own factorisation is used on small blocks, matrix products do the rest. OpenBLAS 0.3.28 to
0.3.31 end in a segmentation fault when they factor 16,000 rows or more of float64 in several
threads on processors with 512-bit vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.runtime.threads import spans


@dataclass(frozen=True)
class Tuning:
    """Sizes at which matrices are treated in pieces."""

    panel: int = 4096  # columns that are factored together. Matrix products with this many columns
    # run at full speed, and the copy of a diagonal block stays small beside the matrix
    large: int = 8 * 12_288  # bytes of a column from which a factorisation goes by panels: 12,288
    # rows of float64, well below the 16,000 at which OpenBLAS fails
    leaf: int = 256  # columns of a triangular system that is not halved further
    smallest: float = 2.0**-60  # numbers of float32 below this become zero, beside others of size
    # 1: the square of a smaller one is subnormal, with which processors are slower by a factor of
    # ten and more
    device_panel: int = 2048  # rows of a triangle that are solved together on a device
    few_columns: int = 32  # right-hand sides up to which a large triangle on a device is solved by
    # panels
    panels_on_host: bool = False  # whether tensors on the CPU are solved by panels, too; LAPACK is
    # faster there
    in_cache: int = 1 << 16  # numbers of float32 that are looked at together


TUNING = Tuning()


def factor_lower_triangle(columns: np.ndarray, tuning: Tuning = TUNING) -> int:
    """Overwrite the lower triangle of a NumPy array in Fortran's order by its Cholesky factor.

    What stands above the diagonal is left as it is. The result is the order of the first minor that
    is not positive definite, or 0.
    """
    if len(columns) * columns.itemsize >= tuning.large:
        return factor_in_panels(columns, tuning.panel)
    (potrf,) = scipy.linalg.lapack.get_lapack_funcs(("potrf",), (columns,))
    lower, failing_order = potrf(columns, lower=True, clean=False, overwrite_a=True)
    if not np.shares_memory(columns, lower):
        columns[...] = lower
    return int(failing_order)


def factor_in_panels(columns: np.ndarray, panel: int) -> int:
    """Overwrite the lower triangle of A, stored by columns, by L with LLᵀ = A; leave the upper one.

    Returns 0, or the order of the first leading minor that is not positive.
    """
    for start in range(0, len(columns), panel):
        stop = min(start + panel, len(columns))
        head, failing = _factored_head(columns, start, stop)
        if failing:
            return start + failing
        if stop < len(columns):
            _finish_panel(columns, start, stop, head)
    return 0


def _factored_head(columns: np.ndarray, start: int, stop: int) -> tuple[np.ndarray, int]:
    """The diagonal block of L, written into the lower triangle alone."""
    block, left = columns[start:stop, start:stop], columns[start:stop, :start]
    head = np.asfortranarray(np.tril(block))
    if start:
        head -= (left @ left.T).T
    (potrf,) = scipy.linalg.lapack.get_lapack_funcs(("potrf",), (head,))
    lower, failing = potrf(head, lower=True, clean=True, overwrite_a=True)
    if not failing:
        np.copyto(block, lower, where=np.tri(len(block), dtype=bool))
    return lower, int(failing)


def _finish_panel(columns: np.ndarray, start: int, stop: int, head: Any) -> None:
    """The rows below a diagonal block: less what the columns before explain, then solved for."""
    left, size = columns[start:stop, :start], stop - start
    for row in range(stop, len(columns), size):
        rows = slice(row, min(row + size, len(columns)))
        below = columns[rows, start:stop]
        rest = np.array(below, order="F")
        if start:
            rest -= (left @ columns[rows, :start].T).T
        (trsm,) = scipy.linalg.blas.get_blas_funcs(("trsm",), (rest,))
        below[...] = trsm(1.0, head, rest, side=1, lower=1, trans_a=1, overwrite_b=1)


def add_lower_products(rows: np.ndarray, total: np.ndarray) -> None:
    """Add the lower triangle of RᵀR to that of a NumPy array in Fortran's order, in place.

    It goes through the library that solves triangular systems: NumPy has a BLAS of its own, and the
    threads of two wait for each other where they take turns.

    >>> import numpy as np
    >>> total = np.zeros((2, 2), order="F")
    >>> add_lower_products(np.array([[1.0, 2.0], [0.0, 1.0]], order="F"), total)
    >>> total.tolist()
    [[1.0, 0.0], [2.0, 5.0]]
    """
    (syrk,) = scipy.linalg.blas.get_blas_funcs(("syrk",), (rows, total))
    _into(total, syrk(1.0, rows, trans=1, lower=1, beta=1.0, c=total, overwrite_c=1))


def solve_rows(lower: np.ndarray, rows: np.ndarray, tuning: Tuning = TUNING) -> None:
    """Overwrite the rows r of a NumPy array in Fortran's order by L⁻¹r.

    Halves of L are solved one after the other, so that most of the work is a matrix product. In
    float32, numbers below 2⁻⁶⁰ become zero.

    >>> import numpy as np
    >>> rows = np.array([[2.0, 7.0]], order="F")
    >>> solve_rows(np.asarray([[2.0, 0.0], [1.0, 3.0]]), rows)
    >>> rows.tolist()
    [[1.0, 2.0]]
    """
    trsm, gemm = scipy.linalg.blas.get_blas_funcs(("trsm", "gemm"), (lower, rows))
    half = len(lower) // 2
    if len(lower) <= tuning.leaf:
        _into(rows, trsm(1.0, lower, rows, side=1, lower=1, trans_a=1, overwrite_b=1))
        clear_small(rows, tuning)
        return
    left, right = rows[:, :half], rows[:, half:]
    solve_rows(lower[:half, :half], left, tuning)
    below = lower[half:, :half]
    _into(right, gemm(-1.0, left, below, trans_b=1, beta=1.0, c=right, overwrite_c=1))
    solve_rows(lower[half:, half:], right, tuning)


def clear_small(array: np.ndarray, tuning: Tuning = TUNING) -> None:
    """Put zeros for what is below 2⁻⁶⁰ in float32, so that no product is subnormal."""
    if array.dtype != np.float32:
        return
    lines = array.T if array.flags.f_contiguous else array
    for start, stop in spans(len(lines), max(1, tuning.in_cache // max(1, lines[:1].size))):
        part = lines[start:stop]  # what is compared takes no memory beside a large array
        part *= np.abs(part) >= tuning.smallest


def _into(place: np.ndarray, result: np.ndarray) -> None:
    """Put a result where it belongs, if BLAS did not do so."""
    if not np.shares_memory(place, result):
        place[...] = result
