"""Partial Cholesky factors of a Gram matrix, K ≈ FFᵀ, grown by blocks of pivots.

Between blocks the residual diagonal d is an upper bound of what it is now, since residuals only
fall. So candidates drawn by the old d and accepted with probability new/old have exactly the law of
a method that takes one pivot at a time, and a candidate whose residual is still at least the
largest old one elsewhere is exactly the next greedy pivot.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, identity, namespace, to_precision, zeros
from mercer.features.inputs import from_tensor, over_rows, placed_like
from mercer.kernels.base import Kernel
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.runtime.threads import single_threaded_blas, spans


@dataclass(frozen=True)
class Tuning:
    """Numbers of the choice of pivots."""

    fewest: int = 32  # candidates of a block, which costs one pass over all points
    most: int = 512  # as many: those that are rejected cost the square of their number
    noise: float = 32.0  # rounding units of the largest k(x, x) by which residuals may be off
    factor_bytes: int = 4 << 30  # where no budget is given: a seed decides, not what is free
    rejected: float = 10.0  # points whose columns take as long as a candidate that is rejected
    waiting: int = 1024  # pivots at most, whose own factor grows with their square
    panel: int = 256  # columns of a triangular product that are computed together
    room: int = 128  # columns of a factor at first, whose final number is not known
    # Variance of residuals, relative to the square of their mean, below which they are alike: a
    # pivot that stood for an eighth of the points around it would leave more.
    alike: float = 0.03

    def candidates(self, count: int) -> int:
        """How many of them a block looks at, for so many pivots in all."""
        return min(max(count // 8, self.fewest), self.most)


class PartialFactor:
    """F, n × rank so far, with FFᵀ the approximation of K from the pivots, and what is left.

    `columns` is an array of the library of the points; `residual`, the diagonal of K − FFᵀ, is one
    of NumPy in float64. Pivots may wait for their columns, which take a pass over all points each
    time: candidates are then accepted beside them by `corner`, the factor of K − FFᵀ at those that
    wait. The law is the same, and the last columns are never needed for pivots alone. There is
    `room` for all `count` columns at first, or for fewer: the system clears memory at 0.5 GB/s.
    Reference: E. Epperly, J. Tropp, R. Webber, Embrace rejection, 2024.
    """

    def __init__(
        self,
        kernel: Kernel,
        x: PointSet,
        count: int,
        dtype: Any = None,
        tuning: Tuning = Tuning(),
        room: int | None = None,
    ) -> None:
        self.kernel, self.x, self.tuning = kernel, x, tuning
        self.count = min(count, len(x))
        self.dtype = np.dtype(x.dtype if dtype is None else dtype)
        diagonal = Gram(kernel, x).diagonal()
        self.residual = from_tensor(diagonal).astype(np.float64)
        self.trace = float(self.residual.sum())
        self.columns = self._columns(diagonal, min(room or self.count, self.count))
        self.pivots: list[int] = []
        self.rank, self.corner = 0, np.empty((0, 0))
        unit = float(np.finfo(self.dtype).eps) * float(self.residual.max(initial=0.0))
        self.negligible = len(x) * unit
        self.noise = tuning.noise * unit

    @property
    def missing(self) -> int:
        return self.count - len(self.pivots)

    @property
    def waiting(self) -> int:
        """How many pivots have no column yet."""
        return len(self.pivots) - self.rank

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

    def _make_room(self) -> None:
        """Room for all pivots: twice as much, or the rest at once, so that a quarter is copied."""
        room = int(self.columns.shape[1])
        if len(self.pivots) <= room:
            return
        while room < len(self.pivots):
            room = 2 * room if 8 * room <= self.count else self.count
        wider = self._columns(self.columns, room)
        wider[:, : self.rank] = self.columns[:, : self.rank]
        self.columns = wider

    def candidates(self, numbers: np.ndarray) -> Candidates:
        """The residual matrix of some points, in float64."""
        with self._small():
            matrix, waiting = self._residuals(numbers, numbers), np.empty((0, len(numbers)))
            before = np.maximum(matrix.diagonal(), 0.0)  # `residual`, of which they are drawn
            if self.waiting:
                waiting = self._residuals(np.asarray(self.pivots[self.rank :]), numbers)
                waiting = linalg.triangular_solve(self.corner, waiting)
                matrix -= waiting.T @ waiting
        return Candidates(matrix, numbers, before, waiting)

    def _residuals(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """K − FFᵀ between some points and others."""
        own, known = rows is columns, slice(0, self.rank)
        left = to_precision(self.columns[rows, known], "float64")
        right = left if own else to_precision(self.columns[columns, known], "float64")
        gram = Gram(self.kernel, self.x.take(rows), None if own else self.x.take(columns))
        return from_tensor(to_precision(gram.dense(), "float64") - left @ right.T)

    def _small(self) -> AbstractContextManager[None]:
        """Around products of a few candidates, in which threads of BLAS wait for each other."""
        return single_threaded_blas() if self.x.machine.uses_numpy else nullcontext()

    def take(self, block: Candidates) -> None:
        """Add the pivots that were accepted, whose columns wait."""
        accepted = block.accepted[: self.missing]
        last, count = self.waiting, len(accepted)
        corner = np.zeros((last + count, last + count))
        corner[:last, :last] = self.corner
        corner[last:, :last] = block.waiting[:, accepted].T
        corner[last:, last:] = block.lower[:count, :count]
        self.corner = corner
        self.pivots += block.numbers[accepted].tolist()

    def grow(self) -> None:
        """The columns of F of the pivots that wait.

        They are those of K − FFᵀ at the pivots, times the inverse of their factor.
        """
        self._make_room()
        numbers = np.asarray(self.pivots[self.rank :])
        lower = placed_like(self.corner, self.columns)
        with self._small():
            inverse = linalg.triangular_solve(lower, identity(len(numbers), lower))
        known, fresh = slice(0, self.rank), slice(self.rank, len(self.pivots))
        rows, centres = self.columns[numbers, known], self.x.take(numbers)
        right, panels = to_precision(inverse.T, self.dtype), spans(len(numbers), self.tuning.panel)
        xp = namespace(self.columns)

        def fill(span: tuple[int, int]) -> None:
            part = slice(*span)
            left = Gram(self.kernel, self.x.slice(*span), centres).astype(self.dtype).dense()
            left -= self.columns[part, known] @ rows.T
            columns = self.columns[part, fresh]
            for first, last in panels:  # `right` is upper triangular
                columns[:, first:last] = left[:, :last] @ right[:last, first:last]
            wide = to_precision(columns, "float64")
            self.residual[part] -= from_tensor(xp.vecdot(wide, wide))

        over_rows(self.x, self.kernel.parallel, fill)
        self.columns[numbers, fresh] = to_precision(lower, self.dtype)
        np.maximum(self.residual, 0.0, out=self.residual)
        self.residual[numbers] = 0.0
        self.rank, self.corner = len(self.pivots), np.empty((0, 0))


class Candidates:
    """The residual matrix of a few points, factored pivot by pivot as they are accepted.

    `before` is the diagonal by which they were drawn, before the pivots that wait; `waiting` are
    the rows of these in the factor.
    """

    def __init__(
        self, matrix: np.ndarray, numbers: np.ndarray, before: np.ndarray, waiting: np.ndarray
    ) -> None:
        self.matrix, self.numbers, self.before, self.waiting = matrix, numbers, before, waiting
        self.left = np.maximum(matrix.diagonal(), 0.0)  # what is left of the diagonal
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
        self.left = self.matrix.diagonal()  # when it was the turn of each

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
