"""Cholesky factors of large matrices, panel by panel.

LAPACK's own factorisation is used on small blocks, matrix products do the rest. OpenBLAS 0.3.28 to
0.3.31 end in a segmentation fault when they factor 16,000 rows or more of float64 in several
threads on processors with 512-bit vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

PANEL = 4096  # columns
LARGE = {"float64": 12_288, "float32": 24_576}  # rows from which panels are used


def factor_in_panels(columns: np.ndarray, panel: int = PANEL) -> int:
    """Overwrite the lower triangle of A, stored by columns, by L with LLᵀ = A; leave the upper one.

    Returns 0, or the order of the first leading minor that is not positive.

    >>> A = np.asfortranarray([[4.0, 2.0, 0.0], [2.0, 5.0, 2.0], [0.0, 2.0, 5.0]])
    >>> factor_in_panels(A, panel=2)
    0
    >>> np.tril(A)
    array([[2., 0., 0.],
           [1., 2., 0.],
           [0., 1., 2.]])
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
