"""One pass over all rows for each product: K_nM is computed, used twice and forgotten.

Rows may be points in memory, a memory map, or blocks from any iterable that can be started again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.operators import (
    BlockedGram,
    Gram,
    MixedPrecision,
    RowMap,
    RowPass,
    StoredGram,
    check_restartable,
    cross_gram,
)
from mercer.points import PointSet
from mercer.runtime.budget import Memory

__all__ = ["check_restartable"]


class Passes:
    """K_nM as an operator, and how often all its rows were gone through."""

    def __init__(self, operator: Gram | BlockedGram) -> None:
        self.operator, self.count = operator, 0
        self.kernel: Any = operator.kernel
        self.y, self.memory = operator.y, operator.memory
        self.x = operator.y if isinstance(operator, BlockedGram) else operator.x
        self.rows, self.dtype = operator.shape[0], operator.dtype

    symmetric = False

    @property
    def shape(self) -> tuple[int, int]:
        return self.operator.shape

    @property
    def on_tensors(self) -> bool:
        return bool(self.y.home != "host")

    def __matmul__(self, values: Array) -> Array:
        return self.operator.astype(np.float64) @ values

    @property
    def stored(self) -> bool:
        return isinstance(self.operator, StoredGram)

    def row_pass(self, values: Array, row_map: RowMap, dtype: Any = None) -> RowPass:
        """Kᵀ M(K V) in the given precision, by default that of the points; the sum in float64."""
        self.count += 1
        operator = self.operator.astype(dtype or self.dtype)
        return MixedPrecision(operator).row_pass(values, row_map)

    def take(self, rows: np.ndarray) -> PointSet:
        """The points of some rows, whose numbers ascend."""
        if isinstance(self.operator, BlockedGram):
            return self.operator.take(rows)
        return self.operator.x.take(rows)


def PointPasses(kernel: Any, points: PointSet, centres: PointSet, memory: Memory = None) -> Passes:
    """Passes over points that can be sliced: arrays, CSR matrices, memory maps, objects."""
    return Passes(Gram(kernel, points, centres, memory))


def StoredPasses(kernel: Any, points: PointSet, centres: PointSet, memory: Memory = None) -> Passes:
    """K_nM kept in memory."""
    return Passes(StoredGram(kernel, points, centres, memory))


def BlockPasses(
    kernel: Any, blocks: Iterable[Any], centres: PointSet, rows: int, memory: Memory = None
) -> Passes:
    """Passes over an iterable of blocks of rows, started again for every pass."""
    return Passes(BlockedGram(kernel, blocks, centres, rows, memory))


def passes(kernel: Any, points: PointSet, centres: PointSet, memory: Memory = None) -> Passes:
    """Passes over points; K_nM is stored where that is quicker and takes half the memory budget."""
    return Passes(cross_gram(kernel, points, centres, memory))


def taken(blocks: Iterable[tuple[int, PointSet]], chosen: np.ndarray) -> PointSet:
    """The points with the given numbers, in ascending order, from (first number, block) pairs."""
    found: PointSet | None = None
    for first, points in blocks:
        inside = chosen[(chosen >= first) & (chosen < first + len(points))] - first
        if len(inside):
            part = points.take(inside)
            found = part if found is None else found.concatenated(part)
    if found is None:
        raise ValueError("no rows were asked for.")
    return found


def random_rows(rows: int, count: int, seed: int) -> np.ndarray:
    """So many different row numbers, in order.

    >>> random_rows(3, 5, seed=0)
    array([0, 1, 2])
    """
    if count >= rows:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, count, replace=False))
