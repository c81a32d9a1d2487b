"""One pass over all rows for each product: K_nM is computed, used twice and forgotten.

What a solver on centres asks for is Kᵀ M(K V), where M maps rows of K V on their own: a gradient, a
product with the Hessian, or both values and gradient at once. Rows may be points in memory, a
memory map, or blocks from any iterable that can be started again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from mercer.arrays import Array, namespace, to_precision
from mercer.evaluation.budget import Memory, memory_budget
from mercer.evaluation.dispatch import on_tensors
from mercer.evaluation.row_pass import LOST, Affine, product, transposed_product
from mercer.evaluation.threads import run, single_threaded_blas, thread_count
from mercer.evaluation.tiling import spans
from mercer.kernels.base import Kernel
from mercer.operators import Gram
from mercer.points import PointSet

STORED_SHARE = 0.5  # of the memory budget that a stored K_nM may take
STORED_WIDTH = 48  # columns of points from which values cost more than reading them again
ROWS = 1024  # of a block of a stored matrix
PARTS = 16  # in which sums are taken, so that they do not depend on threads

Middle = Callable[[int, int, Array], Array]


class Passes(Protocol):
    """K_nM as something to walk over, and a sample of its rows."""

    kernel: Kernel
    y: PointSet  # the centres
    rows: int
    dtype: np.dtype
    count: int  # passes so far

    def row_pass(self, values: Array, middle: Middle, dtype: Any = None) -> Array:
        """Kᵀ M(K V) in the given precision, by default that of the points; the sum in float64."""

    def take(self, rows: np.ndarray) -> PointSet:
        """The points of some rows, whose numbers ascend."""


class Cross:
    """What a cross Gram matrix K_nM that is walked over has in common with a `Gram`."""

    symmetric = False
    kernel: Kernel
    x: PointSet
    y: PointSet
    rows: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, len(self.y)

    @property
    def on_tensors(self) -> bool:
        return on_tensors(self.y)

    def __matmul__(self, values: Array) -> Array:
        """K V in float64."""
        wide = values if values.ndim == 2 else values[:, None]
        xp = namespace(wide)
        kept = xp.empty((self.rows, wide.shape[1]), dtype=xp.float64, device=wide.device)

        def keep(start: int, stop: int, rows: Array) -> Array:
            kept[start:stop] = rows
            return rows

        self.row_pass(wide, keep, np.float64)  # type: ignore[attr-defined]
        return kept if values.ndim == 2 else kept[:, 0]


class PointPasses(Cross):
    """Passes over points that can be sliced: arrays, CSR matrices, memory maps, objects."""

    def __init__(
        self, kernel: Kernel, points: PointSet, centres: PointSet, memory: Memory = None
    ) -> None:
        self.kernel, self.x, self.y, self.memory = kernel, points, centres, memory
        self.gram = Gram(kernel, points, centres, memory)
        self.rows, self.dtype, self.count = len(points), self.gram.dtype, 0

    def row_pass(self, values: Array, middle: Middle, dtype: Any = None) -> Array:
        self.count += 1
        chosen = np.dtype(dtype or self.dtype)
        inner, joined = in_two_parts(values, middle, chosen)
        return to_precision(self.gram.astype(chosen).row_pass(inner, joined), "float64")

    def take(self, rows: np.ndarray) -> PointSet:
        return self.x.take(rows)


class StoredPasses(PointPasses):
    """K_nM kept in memory: where points have many columns, values cost more than reading them."""

    def __init__(
        self, kernel: Kernel, points: PointSet, centres: PointSet, memory: Memory = None
    ) -> None:
        super().__init__(kernel, points, centres, memory)
        self.matrix = self.gram.dense()

    def row_pass(self, values: Array, middle: Middle, dtype: Any = None) -> Array:
        if np.dtype(dtype or self.dtype) != self.dtype:
            return super().row_pass(values, middle, dtype)
        self.count += 1
        inner, joined = in_two_parts(values, middle, self.dtype)
        parts = spans(self.rows, -(-self.rows // PARTS))
        sums: list[Any] = [0.0] * len(parts)

        def add(i: int) -> None:
            for start, stop in spans(parts[i][1], ROWS, parts[i][0]):
                block = self.matrix[start:stop]
                outer = joined(start, stop, product(block, inner))
                sums[i] = sums[i] + transposed_product(block, outer)

        with single_threaded_blas():
            run(add, range(len(parts)), thread_count())
        return np.asarray(sum(sums[1:], sums[0]), np.float64)


class BlockPasses(Cross):
    """Passes over an iterable of blocks of rows, started again for every pass.

    Parameters
    ----------
    kernel : Kernel
    blocks : iterable
        Blocks of rows, each what the kernel takes. It must give the same blocks whenever it is
        iterated: a list, or an object with `__iter__`; a generator is used up after one pass.
    centres : PointSet
    rows : int
        How many rows all blocks have together.
    """

    def __init__(
        self,
        kernel: Kernel,
        blocks: Iterable[Any],
        centres: PointSet,
        rows: int,
        memory: Memory = None,
    ) -> None:
        check_restartable(blocks)
        self.kernel, self.blocks, self.y = kernel, blocks, centres
        self.rows, self.memory, self.count = rows, memory, 0
        self.x, self.dtype = centres, centres.dtype

    def _points(self) -> Iterator[tuple[int, PointSet]]:
        start = 0
        for block in self.blocks:
            points = self.kernel.points(block)
            yield start, points
            start += len(points)
        if start != self.rows:
            raise ValueError(
                f"the blocks of X gave {start} rows in this pass; expected {self.rows}, as many as "
                "targets. Pass an iterable that gives the same blocks every time."
            )

    def row_pass(self, values: Array, middle: Middle, dtype: Any = None) -> Array:
        self.count += 1
        total: Any = 0.0
        for first, points in self._points():
            part = PointPasses(self.kernel, points, self.y, self.memory)
            shifted = _moved(middle, first, len(points))
            total = total + part.row_pass(values, shifted, dtype or self.dtype)
        return total

    def take(self, rows: np.ndarray) -> PointSet:
        return taken(self._points(), rows)


def _moved(middle: Middle, first: int, count: int) -> Middle:
    """The map of a block of so many rows, which are counted from its first one."""
    if isinstance(middle, Affine):
        return middle.part(first, first + count)
    return lambda start, stop, rows: middle(first + start, first + stop, rows)


def in_two_parts(values: Array, middle: Middle, dtype: Any) -> tuple[Array, Middle]:
    """V for a product in float32 without loss: its rounding, and 2²⁴ times what rounding took.

    Coefficients on centres that lie close together are large and cancel. What rounding does to K
    differs from row to row and averages out in Kᵀ; what it would do to V is the same in every row.

    >>> inner, _ = in_two_parts(np.full((1, 1), np.pi), lambda a, b, rows: rows, np.float32)
    >>> bool(abs(inner[0] @ [1.0, 2.0**-24] - np.pi) < 1e-14)
    True
    """
    rounded, outputs = to_precision(values, dtype), values.shape[1]
    rest = to_precision(2.0**LOST * (values - rounded), dtype)  # no smaller than V: not subnormal
    if not rest.any():
        return rounded, middle

    both = namespace(values).concat([rounded, rest], axis=1)
    if isinstance(middle, Affine):
        return both, replace(middle, doubled=True)

    def joined(start: int, stop: int, rows: Array) -> Array:
        return middle(start, stop, rows[:, :outputs] + rows[:, outputs:] / 2.0**LOST)

    return both, joined


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


def check_restartable(blocks: Any) -> None:
    """Refuse an iterator, which gives its blocks once only."""
    if isinstance(blocks, Iterator):
        raise ValueError(
            "blocks of rows are read again in every pass; got an iterator, which gives them once. "
            "Pass a list of blocks, or an object whose __iter__ starts again."
        )


def passes(kernel: Kernel, points: PointSet, centres: PointSet, memory: Memory = None) -> Passes:
    """Passes over points; K_nM is stored where that is quicker and takes half the memory budget."""
    width = getattr(points, "width", STORED_WIDTH)
    size = len(points) * len(centres) * np.result_type(points.dtype, centres.dtype).itemsize
    kept = not getattr(points, "mapped", False) and not on_tensors(points)
    if width >= STORED_WIDTH and kept and size <= STORED_SHARE * memory_budget(memory):
        return StoredPasses(kernel, points, centres, memory)
    return PointPasses(kernel, points, centres, memory)
