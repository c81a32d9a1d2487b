"""A symmetric matrix of which one triangle is stored, multiplied from both sides in registers.

Each number is read once and used twice: for its row, and for its column. BLAS has no such product
that is quick for some columns; of two products with a tile, the one with its transpose runs at half
the speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from mercer.evaluation.cpu.vectors import PANEL_ROWS, Vectors, compiled, lanes, widen
from mercer.evaluation.tiling import Scratch, Tiled
from mercer.runtime.threads import run, single_threaded_blas, spans, thread_count

VECTOR_CHUNK = 8192  # numbers of V, and of the sums of columns, that stay near while rows pass by


class BothSides(Vectors):
    """Writes the instructions of one call: some rows, and the columns from `first` to `stop`.

    The vectors of sums of these rows, and those of V that belong to them, stay in registers while
    the loop runs over the columns.
    """

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        super().__init__(context, builder, signature.args[0].dtype)
        stripe, values, sums = (
            context.make_array(signature.args[i])(context, builder, arguments[i]) for i in range(3)
        )
        self.values, self.sums = values.data, sums.data
        self.row, self.offset, self.first, self.stop, self.lane = arguments[3:]
        self.stride = cgutils.unpack_tuple(builder, values.shape)[1]
        width = cgutils.unpack_tuple(builder, stripe.shape)[1]
        self.rows = [builder.add(self.row, self.constant(r)) for r in range(PANEL_ROWS)]
        self.lines = [builder.gep(stripe.data, [builder.mul(r, width)]) for r in self.rows]

    def place(self, base: Any, row: Any) -> Any:
        """Where the vector of a row stands, in V or in the sums."""
        return self.vector_at(base, self.builder.add(self.builder.mul(row, self.stride), self.lane))

    def load(self, place: Any) -> Any:
        return self.builder.load(place, align=self.itemsize)

    def add(self, row: Any, more: Any) -> None:
        place = self.place(self.sums, row)
        total = self.builder.fadd(self.load(place), more)
        self.builder.store(total, place, align=self.itemsize)

    def write(self) -> None:
        here = [self.builder.add(row, self.offset) for row in self.rows]
        own = [self.load(self.place(self.values, row)) for row in here]

        def column(index: Any, totals: list[Any]) -> list[Any]:
            return self.column(index, totals, own)

        fresh = [self.filled(0.0)] * len(here)
        totals, _ = self.loop("columns", self.first, self.stop, fresh, column)
        for row, total in zip(here, totals, strict=True):
            self.add(row, total)

    def column(self, column: Any, totals: list[Any], own: list[Any]) -> list[Any]:
        """Numbers of a column: each times V there for its row, times V of its row for the column.

        The second sum is taken in two halves, as each addition waits for the one before.
        """
        builder = self.builder
        value = self.load(self.place(self.values, column))
        position, halves = builder.sub(column, self.offset), [self.filled(0.0)] * 2
        updated = []
        for r, line in enumerate(self.lines):
            number = self.broadcast(builder.load(builder.gep(line, [position])))
            updated.append(self.call("fma", number, value, totals[r]))
            halves[r % 2] = self.call("fma", number, own[r], halves[r % 2])
        self.add(column, builder.fadd(*halves))
        return updated


@intrinsic
def both_sides(  # type: ignore[no-untyped-def]
    typing_context, stripe, values, sums, row, offset, first, stop, lane
):
    """Add to `sums` what PANEL_ROWS rows of a stripe and some of its columns give each other."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        BothSides(context, builder, signature, arguments).write()
        return context.get_dummy_value()

    return types.void(stripe, values, sums, *[types.intp] * 5), code


def _add_right(stripe, start, lanes, values, sums):  # type: ignore[no-untyped-def]
    """Add B V to the rows of a stripe and Bᵀ V to those of its columns, right of its square.

    The stripe has the rows from `start` on, and the columns from `start` to the last; B is what
    lies right of its square. V has a multiple of `lanes` columns, the stripe of `PANEL_ROWS` rows.
    """
    widen()
    rows, (n, width) = stripe.shape[0], values.shape
    chunk = max(128, VECTOR_CHUNK // width)
    for first in range(start + rows, n, chunk):
        stop = min(n, first + chunk)
        for row in range(0, rows, PANEL_ROWS):
            for lane in range(0, width, lanes):
                both_sides(stripe, values, sums, row, start, first, stop, lane)


add_right = compiled(_add_right)


@dataclass(frozen=True)
class Tuning:
    """How the triangle is cut."""

    rows: int = 128  # of a stripe, from its square on the diagonal to the last column
    share: int = 1500  # rows for each part of a product, which has sums of its own, …
    parts: int = 16  # … but so many parts at most, in an order that no number of threads changes


TUNING = Tuning()


class Triangle:
    """K = Kᵀ, half stored: in stripes of rows that begin at the diagonal.

    >>> from mercer.kernels import Linear
    >>> K = Linear().gram(np.array([[1.0], [2.0]]))
    >>> (Triangle(K.execution()) @ np.eye(2)).tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """

    def __init__(self, execution: Tiled, tuning: Tuning = TUNING) -> None:
        self.n, self.dtype, self.tuning = execution.shape[0], execution.dtype, tuning
        self.cuts, self.scratch = spans(self.n, tuning.rows), Scratch()
        sizes = [(stop - start) * (self.n - start) for start, stop in self.cuts]
        memory, ends = np.empty(sum(sizes), self.dtype), np.cumsum(sizes)
        self.stripes = [
            memory[end - size : end].reshape(stop - start, self.n - start)
            for (start, stop), size, end in zip(self.cuts, sizes, ends, strict=True)
        ]
        self._fill(execution)

    def _fill(self, execution: Tiled) -> None:
        store, tile = execution.column_store(), execution.tile

        def fill(i: int) -> None:
            start, stop = self.cuts[i]
            rows = execution.rows(start, stop)
            aligned = min(self.n, -(-stop // tile) * tile)  # from there on all stripes share tiles
            for a, b in ((start, aligned), *spans(self.n, tile, aligned)):
                execution.fill(rows, store(a, b), self.stripes[i], 0, a - start)

        threads = execution.threads(*execution.product_memory(1))
        with single_threaded_blas():
            run(fill, range(len(self.cuts)), threads)

    @property
    def T(self) -> Triangle:
        return self

    def __matmul__(self, values: np.ndarray) -> np.ndarray:
        """K V for V in the precision of K."""
        width, step = values.shape[1], lanes(self.dtype)
        across = -(-width // step) * step
        parts = min(self.tuning.parts, max(1, self.n // self.tuning.share))
        block = self.scratch.block((1 + parts) * self.n, across, self.dtype)
        padded, *sums = block.reshape(1 + parts, self.n, across)
        padded[:, :width], padded[:, width:] = values, 0.0

        def add(part: int) -> None:
            total = sums[part]
            total[...] = 0.0
            for i in range(part, len(self.cuts), parts):
                (start, stop), stripe = self.cuts[i], self.stripes[i]
                total[start:stop] += stripe[:, : stop - start] @ padded[start:stop]
                if stop < self.n:
                    add_right(stripe, start, step, padded, total)

        with single_threaded_blas():
            run(add, range(parts), thread_count())
        for other in sums[1:]:
            sums[0] += other
        return sums[0][:, :width].copy()
