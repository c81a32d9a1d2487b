"""Products with a matrix that is never stored, tile by tile: stripes, threads, memory budget.

`Tiled` knows nothing of kernels: a subclass packs stripes of rows and tiles of columns, and fills
or reduces the block between them. Every sum is taken in an order that depends on the sizes alone,
so results are bit-identical for any number of threads and any budget.

In a row pass Kᵀ M(K V) each kernel value is computed once and used on both sides. Where M is affine
in each row and pair numbers are computed in registers, compiled code holds a few rows of K in the
cache. Any other M is called for strips of K, which are stored one at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from mercer.evaluation.execution import Affine, Plan, RowMap, RowPass
from mercer.evaluation.gradients import Differentiable
from mercer.evaluation.program import EvaluableKernel
from mercer.linalg.thin import thin_product
from mercer.points import PointSet
from mercer.runtime.budget import MEGABYTE, Memory, free_memory, in_words, memory_budget
from mercer.runtime.threads import Span, run, single_threaded_blas, spans, thread_count

Values = np.ndarray  # a vector, or a matrix with a row for each point


@dataclass(frozen=True)
class Tuning:
    """Sizes of tiled products. Measured on cores with 1 to 2 MB of second-level cache."""

    chunk_bytes: int = 8 * MEGABYTE
    """Packed columns that are held while all rows pass by: a few times the cache of a core, so
    that each is read from memory once for many stripes."""
    segments: int = 16
    """Parts into which columns are cut where there are few stripes of rows, and rows in a row pass:
    work for 16 threads, in an order that does not depend on how many there are."""
    partial_bytes: int = 16 * MEGABYTE
    """Bytes of partial sums that may be held apart until they are added in order."""
    threaded_values: int = 1 << 16
    """Kernel values below which handing work to threads (30 µs) costs more than it gives."""
    strip_bytes: int = 8 * MEGABYTE
    """Bytes of a strip of K that a row pass stores and reads twice."""
    least_strip: int = 64
    """Rows of such a strip, however long they are: fewer would waste matrix products."""
    compiled_values: int = 1 << 21
    """Kernel values from which a row pass has code of its own, which takes seconds to compile."""


TUNING = Tuning()


class Scratch(threading.local):
    """Memory for one block at a time, in each thread of a product.

    Where freed memory goes back to the system at once, as in workers of Dask, a fresh array for
    each tile would take three times as long as the kernel values in it.
    """

    memory: np.ndarray = np.empty(0)

    def block(self, n: int, m: int, dtype: Any) -> np.ndarray:
        if self.memory.size < n * m:
            self.memory = np.empty(n * m, dtype)
        return self.memory[: n * m].reshape(n, m)


class Tiled(Differentiable):
    """K(X, Y) on the host: tiles are computed, reduced and forgotten.

    A subclass sets `stripe` (rows of a stripe), `tile` (columns of a tile), `row_bytes` (of a
    packed row and its scratch space) and `column_bytes`, and implements `rows`, `columns` and
    `fill`, and `reduce` and `reduce_both` where values need not be stored. Symmetry is used where X
    is Y and the kernel is symmetric.
    """

    name = ""
    distances = ""  # how distances are obtained, in words
    parallel = True  # whether several threads may compute at once
    costly = True  # whether computing a value costs more than copying it
    in_registers = False  # whether there is a `compiled_row_pass`
    tuning = TUNING
    stripe: int
    tile: int
    row_bytes: int
    column_bytes: int

    def __init__(
        self, kernel: EvaluableKernel, x: PointSet, y: PointSet, dtype: Any, memory: Memory = None
    ) -> None:
        self.kernel, self.x, self.y, self.memory = kernel, x, y, memory
        self.dtype = np.dtype(dtype)
        self.shape = len(x), len(y)
        self.symmetric = x is y and kernel.symmetric

    # ---- what a subclass implements ------------------------------------------------------------

    def rows(self, start: int, stop: int) -> Any:
        """Rows, packed."""
        raise NotImplementedError

    def columns(self, start: int, stop: int) -> Any:
        """At most `tile` columns, packed."""
        raise NotImplementedError

    def fill(self, rows: Any, columns: Any, out: np.ndarray, row: int, column: int) -> None:
        """Write the block between packed rows and packed columns into out, at (row, column)."""
        raise NotImplementedError

    def reduce(self, rows: Any, columns: Any, v: np.ndarray, out: np.ndarray) -> None:
        """Add block @ v to out, v and out being one-dimensional."""
        out += self._filled(rows, columns, len(out), len(v)) @ v

    def reduce_both(
        self, rows: Any, columns: Any, v: Values, w: Values, out: Values, out_columns: Values
    ) -> None:
        """Add block @ v to out and block.T @ w to out_columns."""
        block = self._filled(rows, columns, len(out), len(v))
        out += block @ v
        out_columns += block.T @ w

    def compiled_row_pass(
        self, rows: Any, columns: Any, lines: np.ndarray, row_map: Affine, values: np.ndarray | None
    ) -> np.ndarray:
        """Kᵀ(w ∘ (K V + B)) of these rows, a line for each column; `lines` is Vᵀ.

        `values` receives K V where it is an array.
        """
        raise NotImplementedError

    def _transposed(self) -> Tiled:
        """The same of K(Y, X)."""
        raise NotImplementedError

    # ---- memory and threads --------------------------------------------------------------------

    def threads(self, shared: int, each: int, work: int | None = None) -> int:
        """As many threads as half of the budget and the size of the work admit, and one at least.

        A product takes `shared` bytes, and `each` for every thread, beside its input and output.
        The work is counted in kernel values, by default all of them. The other half is for what
        the caller holds, as columns of a preconditioner.
        """
        budget = memory_budget(self.memory)
        if shared + each > budget:
            raise ValueError(
                f"a product of this shape takes at least {in_words(shared + each)} beside its "
                f"input and output; the budget is {in_words(budget)}. Raise memory= or "
                "MERCER_MEMORY."
            )
        work = self.shape[0] * self.shape[1] if work is None else work
        if not self.parallel or work < self.tuning.threaded_values:
            return 1
        more = max(0, budget // 2 - shared - each) // max(1, each)
        return int(min(thread_count(), 1 + more))

    def product_memory(self, columns: int) -> tuple[int, int]:
        """Bytes that a product takes in all, and for each thread."""
        (n, m), tuning = self.shape, self.tuning
        rows = min(n, self.stripe)
        each = rows * (self.row_bytes + min(m, self.tile) * self.dtype.itemsize)
        packed = min(m * self.column_bytes, tuning.chunk_bytes + self.tile * self.column_bytes)
        stripes = -(-n // self.stripe)
        few = stripes < tuning.segments // 2  # then columns are cut, too
        partial = 8 * n * columns * (-(-tuning.segments // max(1, stripes)) if few else 2)
        return packed + min(tuning.partial_bytes, partial), each

    def plan(self, columns: int) -> Plan:
        shared, each = self.product_memory(columns)
        threads = self.threads(shared, each)
        tile, memory = (self.stripe, self.tile), shared + threads * each
        return Plan(self.name, self.distances, tile, threads, self.symmetric, memory)

    def column_store(self) -> Callable[[int, int], Any]:
        """Packed columns by span: held where they are small, packed again where they are not."""
        small = self.shape[1] * self.column_bytes <= self.tuning.chunk_bytes
        return cache(self.columns) if small else self.columns

    # ---- K V -----------------------------------------------------------------------------------

    def product(self, values: np.ndarray) -> np.ndarray:
        (n, m), columns = self.shape, values.shape[1]
        if not n or not m or not columns:
            return np.zeros((n, columns), self.dtype)
        alone = n <= self.stripe and m <= self.tile
        threads = self.threads(*self.product_memory(columns), 1 if alone else n * m)
        # BLAS in one thread gives equal bits; one column of cheap values does not call it.
        quiet = threads == columns == 1 and not self.costly
        with nullcontext() if quiet else single_threaded_blas():
            if alone:
                out = np.zeros((n, columns))
                self._add_tile(self.rows(0, n), self.columns(0, m), values, out, Scratch())
                return out.astype(self.dtype, copy=False)
            # Each block once and both sums, 16 bytes a row and column, beside the result; with two
            # stripes there are too few blocks that share no row for threads to work side by side.
            halved = n > 2 * self.stripe and 16 * n * columns <= self.tuning.partial_bytes
            if self.symmetric and halved:
                return self._symmetric_product(values, threads)
            return self._product(values, threads)

    def transposed_product(self, values: np.ndarray) -> np.ndarray:
        return self.transposed.product(values)

    @cached_property
    def transposed(self) -> Tiled:
        return self if self.symmetric else self._transposed()

    def _product(self, values: np.ndarray, threads: int) -> np.ndarray:
        """Stripe by stripe, for one chunk of packed columns after the other."""
        out = np.zeros((self.shape[0], values.shape[1]), self.dtype)
        tiles = max(1, self.tuning.chunk_bytes // (self.column_bytes * self.tile))
        scratch = Scratch()
        for chunk in spans(self.shape[1], tiles * self.tile):
            self._add_chunk(self._packed(chunk, threads), values, out, threads, scratch)
        return out

    def _add_chunk(
        self,
        packed: list[tuple[Span, Any]],
        values: np.ndarray,
        out: np.ndarray,
        threads: int,
        scratch: Scratch,
    ) -> None:
        """Add the product with some columns; where rows are few, these are cut into segments.

        Sums of segments are held apart and added in order.
        """
        stripes, segments = spans(len(out), self.stripe), self.tuning.segments
        few = len(stripes) < segments // 2
        step = -(-len(packed) // -(-segments // len(stripes))) if few else len(packed)
        pieces = spans(len(packed), step)
        tasks = [(stripe, piece) for stripe in stripes for piece in pieces]
        partial: dict[tuple[Span, Span], np.ndarray] = {}
        held: dict[Span, Any] = {}  # packed rows, which hold scratch: of one thread only

        def add(task: tuple[Span, Span]) -> None:
            stripe, piece = task
            left = held.get(stripe)
            if left is None:
                left = self.rows(*stripe)
                if threads == 1 < len(pieces):
                    held[stripe] = left
            # in float64 whatever the points are: a sum of n products in float32 would lose digits
            total = np.zeros((stripe[1] - stripe[0], values.shape[1]))
            for (start, stop), columns in packed[slice(*piece)]:
                self._add_tile(left, columns, values[start:stop], total, scratch)
            if len(pieces) == 1:
                out[slice(*stripe)] += total
            else:
                partial[task] = total

        run(add, tasks, threads)
        for task in tasks if partial else ():
            out[slice(*task[0])] += partial[task]

    def _packed(self, chunk: Span, threads: int) -> list[tuple[Span, Any]]:
        pieces = spans(chunk[1], self.tile, chunk[0])
        packed: list[Any] = [None] * len(pieces)

        def pack(i: int) -> None:
            packed[i] = pieces[i], self.columns(*pieces[i])

        run(pack, range(len(pieces)), threads)
        return packed

    def _add_tile(
        self, rows: Any, columns: Any, values: np.ndarray, out: np.ndarray, scratch: Scratch
    ) -> None:
        """Add block @ values to out; one column is reduced as the values are computed."""
        if values.shape[1] == 1:
            self.reduce(rows, columns, values[:, 0], out[:, 0])
        else:
            block = self._filled(rows, columns, len(out), len(values), scratch)
            out += thin_product(block, values)

    def _filled(
        self, rows: Any, columns: Any, n: int, m: int, scratch: Scratch | None = None
    ) -> np.ndarray:
        block = np.empty((n, m), self.dtype) if scratch is None else scratch.block(n, m, self.dtype)
        self.fill(rows, columns, block, 0, 0)
        return block

    def _symmetric_product(self, values: np.ndarray, threads: int) -> np.ndarray:
        """K V for K = Kᵀ, each block computed once and used on both sides.

        In round r, block I meets block I + r. No two meetings of a round share a row block or a
        column block, so they run side by side; rounds follow each other, which fixes the order.
        """
        blocks = spans(len(values), self.stripe)
        by_rows, by_columns = np.zeros(values.shape), np.zeros(values.shape)
        store, scratch = self.column_store(), Scratch()

        def meet(pair: tuple[int, int]) -> None:
            left, right = blocks[pair[0]], blocks[pair[1]]
            rows, here = self.rows(*left), slice(*left)
            for start, stop in spans(right[1], self.tile, right[0]):
                columns, there = store(start, stop), slice(start, stop)
                v, w = values[there], values[here]
                out, out_columns = by_rows[here], by_columns[there]
                if left == right:
                    self._add_tile(rows, columns, v, out, scratch)
                elif values.shape[1] == 1:
                    self.reduce_both(rows, columns, v[:, 0], w[:, 0], out[:, 0], out_columns[:, 0])
                else:
                    block = self._filled(rows, columns, len(w), len(v), scratch)
                    out += thin_product(block, v)
                    out_columns += thin_product(block.T, w)

        for pairs in tournament(len(blocks)):
            run(meet, pairs, threads)
        return (by_rows + by_columns).astype(self.dtype)

    # ---- Kᵀ M(K V) -----------------------------------------------------------------------------

    def row_pass(self, values: np.ndarray, row_map: RowMap) -> RowPass:
        """Strips are added in float64, and the sum is left so: K_MM is solved with its digits."""
        (n, m), columns = self.shape, values.shape[1]
        if 0 in (n, m, columns):
            mapped = row_map(0, n, np.zeros((n, columns), self.dtype))
            return RowPass(np.zeros((m, mapped.product.shape[1])), mapped.sums, mapped.values)
        threads = self.threads(*self.row_pass_memory(columns))
        parts = spans(n, -(-n // self._parts(columns)))
        large = n * m >= self.tuning.compiled_values
        if isinstance(row_map, Affine) and self.in_registers and large:
            return self._in_cache(values, row_map, parts, threads)
        return self._by_strips(values, row_map, parts, threads)

    def row_pass_memory(self, columns: int) -> tuple[int, int]:
        """Bytes that a row pass takes in all, and for each thread, beside its input and output."""
        n, m = self.shape
        partial = min(n, self._parts(columns)) * 8 * m * columns
        each = min(self._strip(), n) * (self.row_bytes + m * self.dtype.itemsize)
        return m * self.column_bytes + partial, each

    def _parts(self, columns: int) -> int:
        """In how many parts rows are summed, each with a sum of its own."""
        size = 8 * self.shape[1] * columns
        return int(max(1, min(self.tuning.segments, self.tuning.partial_bytes // max(1, size))))

    def _strip(self) -> int:
        """Rows of a strip of K."""
        rows = self.tuning.strip_bytes // max(1, self.shape[1] * self.dtype.itemsize)
        return int(min(self.stripe, max(self.tuning.least_strip, rows // 8 * 8)))

    def _by_strips(
        self, values: np.ndarray, row_map: RowMap, parts: list[Span], threads: int
    ) -> RowPass:
        n, m = self.shape
        sums, store = Sums(row_map, len(parts), n), self.column_store()
        rows = min(self._strip(), parts[0][1] - parts[0][0])
        free: list[np.ndarray] = []  # strips that no thread uses now: fresh memory costs time

        def add(i: int) -> None:
            block = free.pop() if free else np.empty((rows, m), self.dtype)
            for start, stop in spans(parts[i][1], rows, parts[i][0]):
                strip, packed = block[: stop - start], self.rows(start, stop)
                image = np.zeros((stop - start, values.shape[1]), values.dtype)
                for a, b in spans(m, self.tile):
                    self.fill(packed, store(a, b), strip, 0, a)
                    image += strip_product(strip[:, a:b], values[a:b])  # while it is in the cache
                sums.add(i, start, strip, image)
            free.append(block)

        with single_threaded_blas():
            run(add, range(len(parts)), threads)
        return sums.total()

    def _in_cache(
        self, values: np.ndarray, row_map: Affine, parts: list[Span], threads: int
    ) -> RowPass:
        """By compiled code. In float32 w is brought to size 1 by a power of 2.

        Shares of many rows times small values of a kernel would else be too small for float32.
        """
        n, m = self.shape
        lines, exponent = np.ascontiguousarray(values.T), 0
        if values.dtype == np.float32:
            exponent = int(np.frexp(np.abs(row_map.factors).max(initial=0.0))[1])
            row_map = replace(row_map, factors=np.ldexp(row_map.factors, -exponent))
        partial: list[Any] = [None] * len(parts)
        columns = self.columns(0, m)
        image = np.empty((n, len(lines) // (1 + row_map.split))) if row_map.keep_values else None

        def add(i: int) -> None:
            total: Any = 0.0
            for start, stop in spans(parts[i][1], self.stripe, parts[i][0]):
                place = None if image is None else image[start:stop]
                rows, part = self.rows(start, stop), row_map.part(start, stop)
                total = total + self.compiled_row_pass(rows, columns, lines, part, place)
            partial[i] = total

        run(add, range(len(parts)), threads)
        total = np.asarray(sum(partial[1:], partial[0]), np.float64)
        return RowPass(np.ldexp(total, exponent).T, None, image)

    # ---- the matrix itself ---------------------------------------------------------------------

    def block(self) -> np.ndarray:
        """K, stored. Where it is symmetric and costly, each block is computed once and mirrored."""
        (n, m), size = self.shape, self.shape[0] * self.shape[1] * self.dtype.itemsize
        # Asking the system takes as long as a small block.
        if size > self.tuning.chunk_bytes and size > free_memory():
            raise MemoryError(
                f"a dense matrix of {n} × {m} takes {size / 2**30:.1f} GB, more than is free: "
                "multiply by the Gram matrix instead (gram @ v), which never stores it."
            )
        out = np.empty((n, m), self.dtype)
        if not size:
            return out
        halved = self.symmetric and self.costly
        threads = self.threads(*self.product_memory(1))
        store = self.column_store() if n > self.stripe else self.columns  # each is packed once

        def fill(stripe: Span) -> None:
            start, stop = stripe
            rows = self.rows(start, stop)
            for a, b in spans(m, self.tile):
                if b > start or not halved:
                    self.fill(rows, store(a, b), out, start, a)

        with single_threaded_blas():  # tiles run in threads of our own
            run(fill, spans(n, self.stripe), threads)
            if halved:
                run(lambda stripe: mirror(out, *stripe), spans(n, self.stripe), threads)
        return out


def mirror(matrix: np.ndarray, start: int, stop: int) -> None:
    """Copy what lies right of the diagonal to the rows from start to stop, left of it.

    Blocks of 128 rows and columns are transposed within the first-level cache.
    """
    step = 128
    below = np.tri(step, k=-1, dtype=bool)
    for a, b in spans(stop, step, start):
        for c, d in spans(a, step):
            matrix[a:b, c:d] = matrix[c:d, a:b].T
        block = matrix[a:b, a:b]
        np.copyto(block, block.T.copy(), where=below[: b - a, : b - a])


def tournament(players: int) -> list[list[tuple[int, int]]]:
    """Rounds in which every pair of blocks meets once; in the first each block meets itself.

    >>> tournament(3)
    [[(0, 0), (1, 1), (2, 2)], [(0, 1), (1, 2), (2, 0)]]
    """
    rounds = []
    for distance in range(players // 2 + 1):
        count = players // 2 if 2 * distance == players else players
        rounds.append([(i, (i + distance) % players) for i in range(count)])
    return rounds


# ---- sums of a row pass --------------------------------------------------------------------------


class Sums:
    """The sums of a row pass, in parts that do not depend on threads, and rows to hand back."""

    def __init__(self, row_map: RowMap, parts: int, rows: int) -> None:
        self.row_map, self.rows, self.lock = row_map, rows, threading.Lock()
        self.products: list[Any] = [0.0] * parts
        self.sums: list[Any] = [None] * parts
        self.values: np.ndarray | None = None

    def add(self, part: int, start: int, strip: np.ndarray, image: np.ndarray) -> None:
        """Add what a strip of rows of K gives, from row `start` on; `image` holds K V."""
        stop = start + len(strip)
        mapped = self.row_map(start, stop, image)
        inner = np.asarray(mapped.product, strip.dtype)
        self.products[part] = self.products[part] + transposed_product(strip, inner)
        if mapped.sums is not None:
            before = self.sums[part]
            self.sums[part] = mapped.sums if before is None else before + mapped.sums
        if mapped.values is not None:
            with self.lock:
                if self.values is None:
                    shape = self.rows, *mapped.values.shape[1:]
                    self.values = np.empty(shape, mapped.values.dtype)
            self.values[start:stop] = mapped.values

    def total(self) -> RowPass:
        """The parts, added in order."""
        products = np.asarray(sum(self.products[1:], self.products[0]), np.float64)
        given = [part for part in self.sums if part is not None]
        return RowPass(products, sum(given[1:], given[0]) if given else None, self.values)


def strip_product(strip: np.ndarray, values: np.ndarray) -> np.ndarray:
    """K V; two or three columns one by one, which reads a strip more often and copies it never.

    Subnormal numbers are taken for zero, as in compiled code: with them processors are slower by a
    factor of ten and more.
    """
    with _flushed():
        if values.shape[1] not in (2, 3):
            return np.asarray(strip @ values)
        return np.stack([strip @ column for column in values.T.copy()], axis=1)


def transposed_product(strip: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """KᵀU in float64. In float32 U is brought to size 1 by a power of 2, which rounds nothing.

    Otherwise small values of a kernel times small shares of rows would be subnormal.
    """
    with _flushed():
        if inner.dtype != np.float32:
            return np.asarray((inner.T @ strip).T, np.float64)
        exponent = int(np.frexp(np.abs(inner).max(initial=0.0))[1])
        small = np.ldexp(inner, -exponent)
        return np.ldexp((small.T @ strip).T.astype(np.float64), exponent)


def _flushed() -> AbstractContextManager[None]:
    from mercer.evaluation.cpu.panels import flushed  # loads numba

    return flushed()
