"""Kernels without a program: blocks of values from the kernel itself, walked over like others."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.evaluation.program import EvaluableKernel
from mercer.points import PointSet


class BlockTiles:
    """K(X, Y) of a kernel that gives blocks: a tile is one call of `kernel.block`."""

    stripe, tile = 256, 1024
    column_bytes = 8
    costly = True

    def __init__(self, kernel: EvaluableKernel, x: PointSet, y: PointSet, dtype: Any) -> None:
        self.kernel, self.x, self.y = kernel, x, y
        self.dtype = np.dtype(dtype)
        self.shape = (len(x), len(y))
        self.row_bytes = 3 * self.tile * self.dtype.itemsize  # a function may take copies
        self.parallel = kernel.parallel

    def rows(self, start: int, stop: int) -> PointSet:
        return self.x.slice(start, stop)

    def columns(self, start: int, stop: int) -> PointSet:
        return self.y.slice(start, stop)

    def _block(self, rows: PointSet, columns: PointSet) -> np.ndarray:
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
