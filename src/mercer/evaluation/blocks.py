"""Kernels without an expression: tiles from the kernel's own function of two blocks.

Where a kernel has sparse features, `Factors` multiplies by these instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mercer.evaluation.execution import Plan, RowMap, RowPass, added_passes
from mercer.evaluation.program import EvaluableKernel
from mercer.evaluation.tiling import Tiled
from mercer.points import PointSet
from mercer.runtime.budget import Memory, memory_budget
from mercer.runtime.threads import spans

STRIP = 4096  # rows of A that a row pass reads twice while they are in the cache
FEW_POINTS = 16  # points of a side up to which blocks are quicker than products of sparse features


class OwnBlocks(Tiled):
    """K(X, Y), or K(Y, X)ᵀ where `flipped`: a tile is one call of `kernel.block`.

    A matrix that was given need not be symmetric, so its transpose is that of its blocks. Where the
    kernel has sparse features, products with vectors are products of these.
    """

    name = "blocks from the kernel's own function"
    stripe = tile = 256  # square, so that symmetric matrices are computed by halves
    column_bytes = 8  # of a slice of points, which copies nothing

    def __init__(
        self,
        kernel: EvaluableKernel,
        x: PointSet,
        y: PointSet,
        dtype: Any,
        memory: Memory = None,
        flipped: bool = False,
    ) -> None:
        super().__init__(kernel, x, y, dtype, memory)
        self.parallel, self.flipped = kernel.parallel, flipped
        self.row_bytes = 3 * self.tile * self.dtype.itemsize  # a function may take copies

    def _transposed(self) -> OwnBlocks:
        more = self.dtype, self.memory, not self.flipped
        return OwnBlocks(self.kernel, self.y, self.x, *more)

    @cached_property
    def _sparse(self) -> Factors | None:
        """Sparse features of both sides, where the kernel has some and points are many."""
        if min(self.shape) <= FEW_POINTS:
            return None
        sides = (self.y, self.x) if self.flipped else (self.x, self.y)
        features = self.kernel.factors(*sides)
        if features is None:
            return None
        return Factors(*features).T if self.flipped else Factors(*features)

    def _factors(self, columns: int) -> Factors | None:
        """The same, where a product with so many columns fits into the budget."""
        factors = self._sparse
        if factors is None or factors.bytes_needed(columns) > memory_budget(self.memory):
            return None
        return factors

    def product(self, values: np.ndarray) -> np.ndarray:
        factors = self._factors(values.shape[1])
        if factors is None:
            return super().product(values)
        return factors.product(values).astype(self.dtype, copy=False)

    def row_pass(self, values: np.ndarray, row_map: RowMap) -> RowPass:
        factors = self._factors(values.shape[1]) if values.shape[1] else None
        if factors is None:
            return super().row_pass(values, row_map)
        return factors.row_pass(values, row_map)

    def plan(self, columns: int) -> Plan:
        factors = self._factors(columns)
        if factors is None:
            return super().plan(columns)
        memory = factors.bytes_needed(columns)
        return Plan("products of sparse features", "", self.shape, 1, False, memory)

    def rows(self, start: int, stop: int) -> PointSet:
        return self.x.slice(start, stop)

    def columns(self, start: int, stop: int) -> PointSet:
        return self.y.slice(start, stop)

    def fill(self, rows: Any, columns: Any, out: np.ndarray, row: int, column: int) -> None:
        sides = (columns, rows) if self.flipped else (rows, columns)
        block, shape = np.asarray(self.kernel.block(*sides), self.dtype), tuple(map(len, sides))
        if block.shape != shape:
            raise ValueError(
                f"{self.kernel!r} returned a block of shape {block.shape} for {shape[0]} and "
                f"{shape[1]} points: it must return one value for each pair, shape {shape}."
            )
        if not np.isfinite(block).all():
            raise ValueError(
                f"{self.kernel!r} returned NaN or infinity: check the function on these points."
            )
        block = block.T if self.flipped else block
        out[row : row + len(rows), column : column + len(columns)] = block

    def diagonal(self) -> np.ndarray:
        return np.asarray(self.kernel.diagonal(self.x), self.x.dtype)


@dataclass(frozen=True, eq=False)
class Factors:
    """Sparse features of the rows and of the columns, with the same columns in both.

    Sums are in float64.
    """

    rows: Any  # CSR, n × features
    columns: Any  # CSR, m × features

    @property
    def T(self) -> Factors:
        return Factors(self.columns, self.rows)

    def bytes_needed(self, columns: int) -> int:
        """Bytes that a product with so many columns needs beside its input and output."""
        return 8 * columns * self.rows.shape[1]

    def product(self, values: np.ndarray) -> np.ndarray:
        """A (Bᵀ V)."""
        return np.asarray(self.rows @ (self.columns.T @ values.astype(np.float64)))

    def row_pass(self, values: np.ndarray, row_map: RowMap) -> RowPass:
        """B Aᵀ M(A Bᵀ V), strip by strip of the rows."""
        weights = self.columns.T @ values.astype(np.float64)

        def passed(start: int, stop: int) -> RowPass:
            strip = self.rows[start:stop]
            mapped = row_map(start, stop, (strip @ weights).astype(values.dtype))
            product = strip.T @ np.asarray(mapped.product, np.float64)
            return RowPass(product, mapped.sums, mapped.values)

        total = added_passes(passed(*span) for span in spans(self.rows.shape[0], STRIP))
        return total._replace(product=np.asarray(self.columns @ total.product))
