"""Walking over a matrix that is never stored: tiles, stripes, threads and the memory budget.

The walk knows nothing of kernels: `Tiles` packs stripes of rows and tiles of columns and fills or
reduces the block between them. Every sum is taken in an order that depends on the sizes alone, so
results are bit-identical for any number of threads and any budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from mercer.runtime.budget import MEGABYTE
from mercer.runtime.threads import Span, run, single_threaded_blas, spans

CHUNK_BYTES = 8 * MEGABYTE  # packed columns that are kept while all rows pass by
SEGMENTS = 16  # into which the columns are cut where there are few stripes of rows
PARTIAL_BYTES = 16 * MEGABYTE  # of partial sums that may be kept apart
MIRROR = 128  # rows and columns of a block that is transposed within the cache
SMALL = 1 << 16  # kernel values below which threads cost more than they give

Packer = Callable[[int, int], Any]


class Tiles(Protocol):
    """A matrix, tile by tile: what an execution owes to be walked over."""

    shape: tuple[int, int]
    dtype: np.dtype
    stripe: int  # rows of a stripe
    tile: int  # columns of a tile
    column_bytes: int  # of one packed column
    row_bytes: int  # of one packed row and its scratch space

    @property
    def parallel(self) -> bool:
        """Whether several threads may compute at once."""

    @property
    def costly(self) -> bool:
        """Whether computing a value costs more than copying it."""

    def rows(self, start: int, stop: int) -> Any:
        """Rows, packed."""

    def columns(self, start: int, stop: int) -> Any:
        """At most `tile` columns, packed."""

    def fill(self, rows: Any, columns: Any, out: np.ndarray, row: int, column: int) -> None:
        """Write the block between packed rows and packed columns into out, at (row, column)."""

    def reduce(self, rows: Any, columns: Any, v: np.ndarray, out: np.ndarray) -> None:
        """Add block @ v to out, v and out being one-dimensional."""

    def reduce_both(
        self,
        rows: Any,
        columns: Any,
        v: np.ndarray,
        w: np.ndarray,
        out: np.ndarray,
        out_columns: np.ndarray,
    ) -> None:
        """Add block @ v to out and block.T @ w to out_columns."""


def refuse(memory: int, budget: int) -> None:
    """Refuse a product that takes more than the budget."""
    if memory > budget:
        raise ValueError(
            f"a product of this shape takes at least {memory / MEGABYTE:.0f} MB beside its input "
            f"and output; the budget is {budget / MEGABYTE:.0f} MB. Raise memory= or MERCER_MEMORY."
        )


def column_store(tiles: Tiles) -> Packer:
    """Packed columns by span: kept where they are small, packed again where they are not."""
    if tiles.shape[1] * tiles.column_bytes > CHUNK_BYTES:
        return tiles.columns
    kept: dict[Span, Any] = {}

    def columns(start: int, stop: int) -> Any:
        if (start, stop) not in kept:
            kept[start, stop] = tiles.columns(start, stop)
        return kept[start, stop]

    return columns


@dataclass(frozen=True)
class Threaded:
    """A matrix in tiles, how many columns it is multiplied by, and in how many threads."""

    tiles: Tiles
    threads: int = 1
    right_columns: int = 1

    @classmethod
    def within(cls, tiles: Tiles, right_columns: int, allowed_threads: int, budget: int) -> Self:
        """As many threads as the budget and the size of the work admit."""
        alone = cls(tiles, 1, right_columns)
        refuse(alone.memory, budget)
        if not tiles.parallel or tiles.shape[0] * tiles.shape[1] < SMALL:
            return alone
        more = (budget - alone.memory) // max(1, alone.memory_per_thread)
        return cls(tiles, int(min(allowed_threads, 1 + more)), right_columns)

    @property
    def memory_per_thread(self) -> int:
        """Bytes that each thread takes for itself."""
        raise NotImplementedError

    @property
    def memory(self) -> int:
        """Bytes that it takes at most, beside its input and output."""
        raise NotImplementedError


class Walk(Threaded):
    """Products with the matrix, tile by tile."""

    @property
    def chunk(self) -> int:
        """Columns that are packed together: a multiple of the tile."""
        size = max(1, CHUNK_BYTES // max(1, self.tiles.column_bytes * self.tiles.tile))
        return size * self.tiles.tile

    @property
    def memory_per_thread(self) -> int:
        """Bytes of a packed stripe, its scratch space, and a tile that is stored."""
        tiles = self.tiles
        n, m = min(tiles.shape[0], tiles.stripe), min(tiles.shape[1], tiles.tile)
        return n * tiles.row_bytes + n * m * tiles.dtype.itemsize

    @property
    def memory(self) -> int:
        """Bytes that a product takes at most, beside its input and output."""
        n, m = self.tiles.shape
        kept = min(self.chunk, m) * self.tiles.column_bytes
        partial = min(PARTIAL_BYTES, SEGMENTS * 8 * (n + m) * self.right_columns)
        return self.threads * self.memory_per_thread + kept + partial

    # ---- K V -------------------------------------------------------------------------------

    def matmul(self, values: np.ndarray) -> np.ndarray:
        """K V for V with any number of columns."""
        n, m = self.tiles.shape
        out = np.zeros((n, values.shape[1]), self.tiles.dtype)
        stripes = spans(n, self.tiles.stripe)
        with self._held_blas():
            for start, stop in spans(m, self.chunk):
                packed = self._packed_columns(start, stop)
                if self._segments(len(stripes), len(packed)) == 1:
                    self._add_by_stripes(stripes, packed, values, out)
                else:
                    self._add_by_segments(stripes, packed, values, out)
        return out

    def _held_blas(self) -> AbstractContextManager[None]:
        """BLAS in one thread, for equal bits; a product in one thread may not need it at all."""
        without = self.threads == 1 and self.right_columns == 1 and not self.tiles.costly
        return nullcontext() if without else single_threaded_blas()

    def _packed_columns(self, start: int, stop: int) -> list[tuple[Span, Any]]:
        pieces = spans(stop, self.tiles.tile, start)
        packed: list[Any] = [None] * len(pieces)

        def pack(i: int) -> None:
            packed[i] = (pieces[i], self.tiles.columns(*pieces[i]))

        run(pack, range(len(pieces)), self.threads)
        return packed

    def _segments(self, stripes: int, tiles: int) -> int:
        return min(tiles, -(-SEGMENTS // stripes)) if stripes < SEGMENTS // 2 else 1

    def _add_by_stripes(
        self, stripes: Sequence[Span], packed: Sequence[Any], values: np.ndarray, out: np.ndarray
    ) -> None:
        def add(stripe: Span) -> None:
            out[slice(*stripe)] += self._stripe_sum(stripe, packed, values)

        run(add, stripes, self.threads)

    def _add_by_segments(
        self, stripes: Sequence[Span], packed: Sequence[Any], values: np.ndarray, out: np.ndarray
    ) -> None:
        """Few rows, many columns: cut the columns too, and add the partial sums in order."""
        step = -(-len(packed) // self._segments(len(stripes), len(packed)))
        tasks = [(stripe, part) for stripe in stripes for part in spans(len(packed), step)]
        partial: dict[Any, np.ndarray] = {}

        def add(task: tuple[Span, Span]) -> None:
            stripe, part = task
            partial[task] = self._stripe_sum(stripe, packed[slice(*part)], values)

        run(add, tasks, self.threads)
        for task in tasks:
            out[slice(*task[0])] += partial[task]

    def _stripe_sum(self, stripe: Span, packed: Sequence[Any], values: np.ndarray) -> np.ndarray:
        rows = self.tiles.rows(*stripe)
        total = np.zeros((stripe[1] - stripe[0], values.shape[1]))
        for (start, stop), columns in packed:
            self._add_tile(rows, columns, values[start:stop], total)
        return total

    def _add_tile(self, rows: Any, columns: Any, values: np.ndarray, out: np.ndarray) -> None:
        if values.shape[1] == 1:
            self.tiles.reduce(rows, columns, values[:, 0], out[:, 0])
        else:
            out += self._filled(rows, columns, len(out), len(values)) @ values

    def _filled(self, rows: Any, columns: Any, n: int, m: int) -> np.ndarray:
        block = np.empty((n, m), self.tiles.dtype)
        self.tiles.fill(rows, columns, block, 0, 0)
        return block

    # ---- K V with K symmetric ---------------------------------------------------------------

    def symmetric_matmul(self, values: np.ndarray) -> np.ndarray:
        """K V for K = Kᵀ, each block computed once and used on both sides.

        In round r, block I meets block I + r. No two meetings of a round share a row block or a
        column block, so they run side by side; rounds follow each other, which fixes the order.
        """
        n, columns = values.shape
        blocks = spans(n, self.tiles.stripe)
        if len(blocks) < 3 or 2 * n * columns * 8 > PARTIAL_BYTES:
            return self.matmul(values)
        by_rows, by_columns = np.zeros((n, columns)), np.zeros((n, columns))

        store = column_store(self.tiles)

        def meet(pair: tuple[int, int]) -> None:
            left, right = (blocks[i] for i in pair)
            self._meet(left, right, store, values, by_rows, by_columns)

        with single_threaded_blas():
            for pairs in tournament(len(blocks)):
                run(meet, pairs, self.threads)
        return (by_rows + by_columns).astype(self.tiles.dtype)

    def _meet(
        self,
        left: Span,
        right: Span,
        store: Packer,
        values: np.ndarray,
        by_rows: np.ndarray,
        by_columns: np.ndarray,
    ) -> None:
        rows, here = self.tiles.rows(*left), slice(*left)
        for start, stop in spans(right[1], self.tiles.tile, right[0]):
            columns, there = store(start, stop), slice(start, stop)
            if left == right:
                self._add_tile(rows, columns, values[there], by_rows[here])
            elif values.shape[1] == 1:
                v, w = values[there, 0], values[here, 0]
                self.tiles.reduce_both(rows, columns, v, w, by_rows[here, 0], by_columns[there, 0])
            else:
                block = self._filled(rows, columns, left[1] - left[0], stop - start)
                by_rows[here] += block @ values[there]
                by_columns[there] += block.T @ values[here]

    # ---- the matrix itself --------------------------------------------------------------------

    def dense(self, symmetric: bool) -> np.ndarray:
        """K, stored. Where it is symmetric and costly, each block is computed once and mirrored."""
        n, m = self.tiles.shape
        out = np.empty((n, m), self.tiles.dtype)
        stripes = spans(n, self.tiles.stripe)
        store = column_store(self.tiles)
        halved = symmetric and self.tiles.costly

        def fill(stripe: Span) -> None:
            start, stop = stripe
            rows = self.tiles.rows(start, stop)
            for a, b in spans(m, self.tiles.tile):
                if b > start or not halved:
                    self.tiles.fill(rows, store(a, b), out, start, a)

        with single_threaded_blas():
            run(fill, stripes, self.threads)
            if halved:
                run(lambda stripe: mirror(out, *stripe), stripes, self.threads)
        return out


def mirror(matrix: np.ndarray, start: int, stop: int) -> None:
    """Copy what lies right of the diagonal to the rows from start to stop, left of it."""
    for a, b in spans(stop, MIRROR, start):
        for c, d in spans(a, MIRROR):
            matrix[a:b, c:d] = matrix[c:d, a:b].T
        for i in range(a, b):
            matrix[i, a:i] = matrix[a:i, i]


def tournament(players: int) -> list[list[tuple[int, int]]]:
    """Rounds in which every pair meets once, and everybody meets itself in the first.

    >>> tournament(3)
    [[(0, 0), (1, 1), (2, 2)], [(0, 1), (1, 2), (2, 0)]]
    """
    rounds = []
    for distance in range(players // 2 + 1):
        count = players // 2 if 2 * distance == players else players
        rounds.append([(i, (i + distance) % players) for i in range(count)])
    return rounds
