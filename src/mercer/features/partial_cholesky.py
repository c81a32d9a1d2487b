"""Partial Cholesky factors of a Gram matrix, K ≈ FFᵀ, grown by blocks of pivots.

Between blocks the residual diagonal d is an upper bound of what it is now, since residuals only
fall. So candidates drawn by the old d and accepted with probability new/old have exactly the law of
a method that takes one pivot at a time, and a candidate whose residual is still at least the
largest old one elsewhere is exactly the next greedy pivot.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, identity, namespace, to_precision, zeros
from mercer.features.inputs import from_tensor, over_rows, placed_like
from mercer.kernels.base import Kernel
from mercer.operators import Gram
from mercer.points import PointSet

# candidates of a block: it costs a pass over all points, rejected ones the square of their number
FEWEST, MOST = 32, 512
NOISE = 32.0  # rounding units of the largest k(x, x) by which residuals may be off


def block_size(count: int) -> int:
    """How many candidates a block looks at, for so many pivots in all."""
    return min(max(count // 8, FEWEST), MOST)


class PartialFactor:
    """F, n × rank so far, with FFᵀ the approximation of K from the pivots, and what is left.

    `columns` is an array of the library of the points; `residual`, the diagonal of K − FFᵀ, is one
    of NumPy in float64.
    """

    def __init__(self, kernel: Kernel, x: PointSet, count: int, dtype: Any = None) -> None:
        self.kernel, self.x = kernel, x
        self.dtype = np.dtype(x.dtype if dtype is None else dtype)
        diagonal = Gram(kernel, x).diagonal()
        self.residual = from_tensor(diagonal).astype(np.float64)
        self.trace = float(self.residual.sum())
        self.columns = self._columns(diagonal, min(count, len(x)))
        self.pivots: list[int] = []
        unit = float(np.finfo(self.dtype).eps) * float(self.residual.max(initial=0.0))
        self.negligible = len(x) * unit
        self.noise = NOISE * unit

    @property
    def rank(self) -> int:
        return len(self.pivots)

    @property
    def missing(self) -> int:
        return int(self.columns.shape[1]) - self.rank

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left but rounding."""
        return float(self.residual.sum()) <= self.negligible

    def _columns(self, like: Array, columns: int) -> Array:
        shape = len(self.x), columns
        try:
            return zeros(shape, like, self.dtype.name)
        except (MemoryError, RuntimeError) as error:
            size = math.prod(shape) * self.dtype.itemsize / 2**30
            raise MemoryError(
                f"{columns} columns of {len(self.x)} points take {size:.1f} GB, more than is free: "
                "ask for a smaller rank."
            ) from error

    def candidates(self, numbers: np.ndarray) -> Candidates:
        """The residual matrix of some points, in float64."""
        rows = to_precision(self.columns[numbers, : self.rank], "float64")
        matrix = to_precision(Gram(self.kernel, self.x.take(numbers)).dense(), "float64")
        return Candidates(from_tensor(matrix - rows @ rows.T), numbers)

    def grow(self, block: Candidates) -> None:
        """Add the pivots that were accepted, with their columns of F.

        The columns are those of K − FFᵀ at the pivots, times the inverse of their factor.
        """
        pivots = block.accepted[: self.missing]
        numbers, lower = block.numbers[pivots], block.lower[: len(pivots), : len(pivots)]
        lower = placed_like(np.ascontiguousarray(lower), self.columns)
        inverse = linalg.triangular_solve(lower, identity(len(pivots), lower))
        known, fresh = slice(0, self.rank), slice(self.rank, self.rank + len(pivots))
        rows, centres = self.columns[numbers, known], self.x.take(numbers)
        right = to_precision(inverse.T, self.dtype)
        xp = namespace(self.columns)

        def fill(span: tuple[int, int]) -> None:
            part = slice(*span)
            left = Gram(self.kernel, self.x.slice(*span), centres).astype(self.dtype).dense()
            left -= self.columns[part, known] @ rows.T
            columns = left @ right
            self.columns[part, fresh] = columns
            wide = to_precision(columns, "float64")
            self.residual[part] -= from_tensor(xp.vecdot(wide, wide))

        over_rows(self.x, self.kernel.parallel, fill)
        self.columns[numbers, fresh] = to_precision(lower, self.dtype)
        np.maximum(self.residual, 0.0, out=self.residual)
        self.residual[numbers] = 0.0
        self.pivots += numbers.tolist()


class Candidates:
    """The residual matrix of a few points, factored pivot by pivot as they are accepted."""

    def __init__(self, matrix: np.ndarray, numbers: np.ndarray) -> None:
        self.matrix, self.numbers = matrix, numbers
        self.left = np.maximum(matrix.diagonal(), 0.0)  # what is left of the diagonal
        self.before = self.left.copy()
        self.columns = np.zeros((len(matrix), len(matrix)))
        self.accepted: list[int] = []

    @property
    def lower(self) -> np.ndarray:
        """The Cholesky factor of the accepted pivots: a later one leaves their rows alone."""
        return self.columns[self.accepted, : len(self.accepted)]

    def accept_in_order(self, chances: np.ndarray, noise: float) -> None:
        """Make candidate i a pivot with chance (residual now)/(residual before), one by one.

        It is a compiled loop, as matrices of this size keep the threads of BLAS waiting for each
        other: on 16 cores it took 200 ms for 512 candidates, this takes 2.
        """
        from mercer.features.compiled import accepted_pivots

        thresholds = np.maximum(chances * self.before, noise)
        self.accepted = accepted_pivots(self.matrix, thresholds, self.columns).tolist()

    def accept(self, i: int) -> None:
        """Make candidate i a pivot, and know what is left of all others."""
        rank = len(self.accepted)
        known = self.columns[:, :rank]
        column = (self.matrix[:, i] - known @ known[i]) / math.sqrt(self.left[i])
        column[self.accepted] = 0.0
        column[i] = math.sqrt(self.left[i])
        self.columns[:, rank] = column
        self.left = np.maximum(self.left - column**2, 0.0)
        self.left[i] = 0.0
        self.accepted.append(i)
