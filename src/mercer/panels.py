"""Cholesky factors of large matrices, and solves with them, panel by panel.

LAPACK's own factorisation is used on small blocks, matrix products do the rest. OpenBLAS 0.3.28 to
0.3.31 end in a segmentation fault when they factor 16,000 rows or more of float64 in several
threads on processors with 512-bit vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.arrays import Array, namespace

PANEL = 4096  # columns
SOLVED_PANEL = 1024  # rows of a triangle that are solved together
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


class Triangle:
    """A lower triangular tensor whose blocks on the diagonal are inverted beforehand.

    A solve for a few columns then reads the triangle once, where substitution waits for one row
    after the other. What the inverses lose is won back by one step of refinement, unless it is not
    `refined`.
    """

    def __init__(self, lower: Array, panel: int = SOLVED_PANEL, *, refined: bool = True) -> None:
        xp, self.lower, self.refined = namespace(lower), lower, refined
        self.spans = [(a, min(a + panel, len(lower))) for a in range(0, len(lower), panel)]
        self.inverses = [
            xp.linalg.solve_triangular(
                lower[a:b, a:b], xp.eye(b - a, dtype=lower.dtype, device=lower.device), upper=False
            )
            for a, b in self.spans
        ]

    def solve(self, b: Array) -> Array:
        """L⁻¹b, for columns b."""
        x = self._forward(b)
        return x + self._forward(b - self._product(x)) if self.refined else x

    def transposed_solve(self, b: Array) -> Array:
        """L⁻ᵀb."""
        x = self._backward(b)
        return x + self._backward(b - self._transposed_product(x)) if self.refined else x

    def _product(self, x: Array) -> Array:
        """Lx: whatever stands above the diagonal is not read."""
        return namespace(x).concat(
            [
                self.lower[a:b, :a] @ x[:a] + namespace(x).tril(self.lower[a:b, a:b]) @ x[a:b]
                for a, b in self.spans
            ]
        )

    def _transposed_product(self, x: Array) -> Array:
        return namespace(x).concat(
            [
                self.lower[b:, a:b].T @ x[b:] + namespace(x).tril(self.lower[a:b, a:b]).T @ x[a:b]
                for a, b in self.spans
            ]
        )

    def _forward(self, b: Array) -> Array:
        x = namespace(b).zeros_like(b)
        for (start, stop), inverse in zip(self.spans, self.inverses, strict=True):
            rest = b[start:stop] - self.lower[start:stop, :start] @ x[:start]
            x[start:stop] = inverse @ rest
        return x

    def _backward(self, b: Array) -> Array:
        x = namespace(b).zeros_like(b)
        for (start, stop), inverse in reversed(list(zip(self.spans, self.inverses, strict=True))):
            rest = b[start:stop] - self.lower[stop:, start:stop].T @ x[stop:]
            x[start:stop] = inverse.T @ rest
        return x
