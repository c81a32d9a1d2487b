"""Executions on the host, tile by tile; kernels without an expression give the tiles themselves."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from mercer.evaluation import gradients
from mercer.evaluation.execution import Plan, RowMap, RowPass
from mercer.evaluation.program import EvaluableKernel
from mercer.evaluation.row_pass import TiledRowPass
from mercer.evaluation.tiling import SMALL, Tiles, Walk
from mercer.points import PointSet
from mercer.runtime.budget import Memory, free_memory, memory_budget
from mercer.runtime.threads import thread_count


class Tiled:
    """K(X, Y) on the host: tiles are computed, reduced and forgotten.

    A subclass says what its tiles are; symmetry is used where X is Y.
    """

    name = ""

    def __init__(
        self, kernel: EvaluableKernel, x: PointSet, y: PointSet, dtype: Any, memory: Memory = None
    ) -> None:
        self.kernel, self.x, self.y, self.memory = kernel, x, y, memory
        self.dtype = np.dtype(dtype)
        self.symmetric = x is y and kernel.symmetric

    def _tiles(self) -> Tiles:
        raise NotImplementedError

    def _transposed(self) -> Tiled:
        """The execution of K(Y, X)."""
        raise NotImplementedError

    @cached_property
    def tiles(self) -> Tiles:
        return self._tiles()

    @cached_property
    def transposed(self) -> Tiled:
        return self if self.symmetric else self._transposed()

    def _resources(self) -> tuple[int, int]:
        """Threads and bytes that a product may take."""
        threads = thread_count() if len(self.x) * len(self.y) >= SMALL else 1
        return threads, memory_budget(self.memory)

    def _walk(self, columns: int) -> Walk:
        return Walk.within(self.tiles, columns, *self._resources())

    def tiled_row_pass(self, columns: int) -> TiledRowPass:
        """The tiles to multiply from both sides, in as many threads as the budget admits."""
        return TiledRowPass.within(self.tiles, columns, *self._resources())

    def product(self, values: np.ndarray) -> np.ndarray:
        if not len(self.x) or not len(self.y) or not values.shape[1]:
            return np.zeros((len(self.x), values.shape[1]), self.dtype)
        walk = self._walk(values.shape[1])
        return walk.symmetric_matmul(values) if self.symmetric else walk.matmul(values)

    def transposed_product(self, values: np.ndarray) -> np.ndarray:
        return self.transposed.product(values)

    def row_pass(self, values: np.ndarray, row_map: RowMap) -> RowPass:
        if len(self.x) and len(self.y) and values.shape[1]:
            return self.tiled_row_pass(values.shape[1]).product(values, row_map)
        mapped = row_map(0, len(self.x), np.zeros((len(self.x), values.shape[1]), self.dtype))
        nothing = np.zeros((len(self.y), mapped.product.shape[1]))
        return RowPass(nothing, mapped.sums, mapped.values)

    def block(self) -> np.ndarray:
        size = len(self.x) * len(self.y) * self.dtype.itemsize
        if size > free_memory():
            raise MemoryError(
                f"a dense matrix of {len(self.x)} × {len(self.y)} takes {size / 2**30:.1f} GB, "
                "more than is free: multiply by the Gram matrix instead (gram @ v), which never "
                "stores it."
            )
        if not size:
            return np.empty((len(self.x), len(self.y)), self.dtype)
        return self._walk(1).dense(self.symmetric)

    def diagonal(self) -> np.ndarray:
        raise NotImplementedError

    def gradient(self, values: np.ndarray) -> np.ndarray:
        return gradients.gradient(self.kernel, self.x, self.y, values)

    def parameter_gradient(self, left: np.ndarray, right: np.ndarray) -> dict[str, Any]:
        raise NotImplementedError

    def plan(self, columns: int) -> Plan:
        walk = self._walk(columns)
        return Plan(
            execution=self.name,
            distances=getattr(walk.tiles, "distances", ""),
            tile=(walk.tiles.stripe, walk.tiles.tile),
            threads=walk.threads,
            symmetric=self.symmetric,
            memory=walk.memory,
        )


class OwnBlocks(Tiled):
    """A kernel without an expression: a tile is one call of `kernel.block`."""

    name = "blocks from the kernel's own function"

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
        self.flipped = flipped

    def _tiles(self) -> Tiles:
        return BlockTiles(self.kernel, self.x, self.y, self.dtype, self.flipped)

    def _transposed(self) -> OwnBlocks:
        kernel, memory = self.kernel, self.memory
        return OwnBlocks(kernel, self.y, self.x, self.dtype, memory, not self.flipped)

    def diagonal(self) -> np.ndarray:
        return np.asarray(self.kernel.diagonal(self.x), self.x.dtype)


class BlockTiles:
    """The tiles of K(X, Y), or of K(Y, X)ᵀ where `flipped`."""

    stripe, tile = 256, 1024
    column_bytes = 8
    costly = True

    def __init__(
        self, kernel: EvaluableKernel, x: PointSet, y: PointSet, dtype: Any, flipped: bool = False
    ) -> None:
        self.kernel, self.x, self.y, self.flipped = kernel, x, y, flipped
        self.dtype = np.dtype(dtype)
        self.shape = (len(x), len(y))
        self.row_bytes = 3 * self.tile * self.dtype.itemsize  # a function may take copies
        self.parallel = kernel.parallel

    def rows(self, start: int, stop: int) -> PointSet:
        return self.x.slice(start, stop)

    def columns(self, start: int, stop: int) -> PointSet:
        return self.y.slice(start, stop)

    def _block(self, rows: PointSet, columns: PointSet) -> np.ndarray:
        if self.flipped:  # a matrix that was given need not be symmetric
            block = np.asarray(self.kernel.block(columns, rows), self.dtype).T
        else:
            block = np.asarray(self.kernel.block(rows, columns), self.dtype)
        if block.shape != (len(rows), len(columns)):
            raise ValueError(
                f"{self.kernel!r} returned a block of shape {block.shape} for {len(rows)} and "
                f"{len(columns)} points: it must return one value for each pair, shape "
                f"{(len(rows), len(columns))}."
            )
        if not np.isfinite(block).all():
            raise ValueError(
                f"{self.kernel!r} returned NaN or infinity: check the function on these points."
            )
        return block

    def fill(self, rows: Any, columns: Any, out: np.ndarray, row: int, column: int) -> None:
        block = self._block(rows, columns)
        out[row : row + len(rows), column : column + len(columns)] = block

    def reduce(self, rows: Any, columns: Any, v: np.ndarray, out: np.ndarray) -> None:
        out += self._block(rows, columns) @ v

    def reduce_both(
        self,
        rows: Any,
        columns: Any,
        v: np.ndarray,
        w: np.ndarray,
        out: np.ndarray,
        out_columns: np.ndarray,
    ) -> None:
        block = self._block(rows, columns)
        out += block @ v
        out_columns += block.T @ w
