"""Rows of K for a working set: computed again each time where that is cheap, else stored."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from mercer.arrays import as_numpy, beside, to_precision
from mercer.kernels.custom import Precomputed
from mercer.operators import Gram
from mercer.points import DensePoints, PointSet
from mercer.runtime.budget import Memory, memory_budget
from mercer.runtime.threads import run, thread_count
from mercer.solvers.dual.tuning import TUNING, Tuning

ROW_BLOCK_BYTES = 1 << 22  # of rows that are computed at a time: larger blocks are no faster


class Rows(Protocol):
    """A symmetric matrix, as dual ascent sees it."""

    @property
    def exact(self) -> bool:
        """Whether float64 values are stored, so that no kernel value need be computed again."""

    def block(self, chosen: np.ndarray) -> np.ndarray:
        """K between the chosen points."""

    def add(self, chosen: np.ndarray, factors: np.ndarray, values: np.ndarray) -> None:
        """Add K[:, chosen] @ factors to the values."""


@runtime_checkable
class ShrinkingRows(Rows, Protocol):
    """Rows that cost less for fewer points, so that shrinking pays.

    Rows of a matrix that is stored are none: adding all of a row is quicker than gathering some.
    """

    def add_to(
        self, places: np.ndarray, chosen: np.ndarray, factors: np.ndarray, values: np.ndarray
    ) -> None:
        """Add K[places, chosen] @ factors to the values at those places."""

    def part(self, chosen: np.ndarray) -> ShrinkingRows:
        """The matrix between the chosen points; it may take over what this one has stored."""


def rows_of(gram: Gram, at_least: int, memory: Memory = None, tuning: Tuning = TUNING) -> Rows:
    """Rows of a Gram matrix: fused products for cheap kernels, a store for the others."""
    if isinstance(gram.kernel, Precomputed):
        matrix, n = np.asarray(gram.kernel.matrix), gram.shape[0]
        plain = matrix.shape == (n, n) and matrix.dtype == gram.dtype and matrix.flags.c_contiguous
        if plain and np.array_equal(gram.x.data, np.arange(n)):
            return StoredRows(matrix)
    if gram.shape[0] <= tuning.stored:
        return StoredRows(gram.dense())
    if is_resident(gram, tuning):
        return ResidentRows(gram)
    return FusedRows(gram) if is_cheap(gram, tuning) else CachedRows(gram, at_least, memory)


def peak_of(gram: Gram, rows: Rows | None) -> float:
    """The largest |k(x, x)|, read from rows where all of them are stored."""
    whole = isinstance(rows, StoredRows) and not isinstance(rows, CachedRows)
    diagonal = rows.store.diagonal() if whole else gram.diagonal()  # type: ignore[union-attr]
    return float(np.abs(diagonal).max())


def is_cheap(gram: Gram, tuning: Tuning = TUNING) -> bool:
    """Whether rows are computed about as fast as they are fetched from memory.

    Where fetching is slow they are, however wide the points.
    """
    narrow = isinstance(gram.x, DensePoints) and gram.x.width <= tuning.cheap_width
    return (narrow or gram.machine.fetching_is_slow) and gram.kernel.expression() is not None


def is_resident(gram: Gram, tuning: Tuning = TUNING) -> bool:
    """Whether the matrix of points on a device fits there."""
    if not gram.machine.fetching_is_slow:
        return False
    size = float(gram.shape[0]) ** 2 * gram.dtype.itemsize
    return size <= tuning.resident_share * gram.x.there.free_memory()  # type: ignore[attr-defined]


class ComputedRows:
    """The base of rows that are computed when they are needed."""

    exact = False  # nothing is stored, or what the support needs may have gone
    gram: Gram

    def add_to(
        self, places: np.ndarray, chosen: np.ndarray, factors: np.ndarray, values: np.ndarray
    ) -> None:
        columns = self._between(self.gram.x.take(places), self.gram.x.take(chosen))
        values[places] += columns @ factors.astype(self.gram.dtype)

    def _between(self, x: PointSet, y: PointSet | None) -> Gram:
        part = Gram(self.gram.kernel, x, y, self.gram.memory).astype(self.gram.dtype)
        self.gram.evaluations += part.shape[0] * part.shape[1]
        return part

    def _among(self, chosen: np.ndarray) -> Gram:
        part = Gram(self.gram.kernel, self.gram.x.take(chosen), None, self.gram.memory)
        return part.astype(self.gram.dtype)


class FusedRows(ComputedRows):
    """Rows that are never stored."""

    def __init__(self, gram: Gram) -> None:
        self.gram = gram

    def block(self, chosen: np.ndarray) -> np.ndarray:
        inner = self._between(self.gram.x.take(chosen), None)
        return inner.dense()

    def add(self, chosen: np.ndarray, factors: np.ndarray, values: np.ndarray) -> None:
        columns = self._between(self.gram.x, self.gram.x.take(chosen))
        values += columns @ factors.astype(self.gram.dtype)

    def part(self, chosen: np.ndarray) -> FusedRows:
        return FusedRows(self._among(chosen))


class ResidentRows:
    """Rows of a matrix on the device of its points; what a round needs is brought here.

    Computing all of it takes an H200 two milliseconds for 12,000 images of 784 pixels, which is
    what launching the products of one round took.
    """

    def __init__(self, gram: Gram) -> None:
        there = gram.x.there  # type: ignore[attr-defined]
        self.matrix = Gram(gram.kernel, there, None, gram.memory).astype(gram.dtype).dense()
        self.exact = gram.dtype == np.float64
        gram.evaluations += gram.shape[0] ** 2

    def block(self, chosen: np.ndarray) -> np.ndarray:
        places = beside(chosen, self.matrix)
        return as_numpy(self.matrix[places][:, places])

    def add(self, chosen: np.ndarray, factors: np.ndarray, values: np.ndarray) -> None:
        rows = self.matrix[beside(chosen, self.matrix)]
        values += as_numpy(to_precision(beside(factors, rows), rows.dtype) @ rows)


class StoredRows:
    """Rows of a matrix that is stored."""

    def __init__(self, store: np.ndarray) -> None:
        self.store = store

    @property
    def single(self) -> bool:
        """Whether the rows are float32."""
        return self.store.dtype == np.float32

    @property
    def exact(self) -> bool:
        return self.store.dtype == np.float64

    def slots_of(self, chosen: np.ndarray) -> np.ndarray:
        """Where the chosen rows lie in the store."""
        return chosen

    def block(self, chosen: np.ndarray) -> np.ndarray:
        from mercer.solvers.dual.compiled import gather

        slots = self.slots_of(chosen)
        whole = slots is chosen and len(chosen) == len(self.store)
        if whole and (np.diff(chosen) > 0).all():  # in order, which groups of labels need not be
            return self.store
        out = np.empty((len(chosen), len(chosen)), self.store.dtype)
        gather(self.store, slots, chosen, out)
        return out

    def add(self, chosen: np.ndarray, factors: np.ndarray, values: np.ndarray) -> None:
        from mercer.solvers.dual.compiled import add_rows

        # a compiled sum by chunks: NumPy would first copy the chosen rows
        slots, n = self.slots_of(chosen), len(values)
        if len(chosen) * n < TUNING.parallel:
            add_rows(self.store, slots, factors, values, 0, n, 0)
            return
        threads = thread_count()
        step = -(-n // threads)

        def work(start: int) -> None:
            add_rows(self.store, slots, factors, values, start, min(start + step, n), start)

        run(work, range(0, n, step), threads)


class PairRows:
    """Rows of the matrix between the points of two classes, of which four blocks are stored.

    Parameters
    ----------
    first, second : array
        The matrices of both classes, which other pairs share.
    between : array
        That of the first class with the second.
    """

    def __init__(self, first: np.ndarray, second: np.ndarray, between: np.ndarray) -> None:
        across = np.ascontiguousarray(between.T)
        self.split = len(first)
        self.blocks = (first, between), (across, second)

    @property
    def exact(self) -> bool:
        return self.blocks[0][0].dtype == np.float64

    @property
    def single(self) -> bool:
        """Whether the rows are float32."""
        return not self.exact

    def block(self, chosen: np.ndarray) -> np.ndarray:
        from mercer.solvers.dual.compiled import gather

        sides = self._sides(chosen)
        out = np.empty((len(chosen), len(chosen)), self.blocks[0][0].dtype)
        for i, (rows, own) in enumerate(sides):
            for j, (columns, other) in enumerate(sides):
                gather(self.blocks[i][j], own, other, out[rows, columns])
        return out

    def add(self, chosen: np.ndarray, factors: np.ndarray, values: np.ndarray) -> None:
        from mercer.solvers.dual.compiled import add_rows

        for i, (rows, own) in enumerate(self._sides(chosen)):
            for j, (start, stop) in enumerate(((0, self.split), (self.split, len(values)))):
                add_rows(self.blocks[i][j], own, factors[rows], values, start, stop, 0)

    def _sides(self, chosen: np.ndarray) -> list[tuple[slice, np.ndarray]]:
        """The places of both classes among the chosen, which are sorted, and their numbers."""
        cut = int(np.searchsorted(chosen, self.split))
        return [(slice(0, cut), chosen[:cut]), (slice(cut, None), chosen[cut:] - self.split)]


class CachedRows(ComputedRows, StoredRows):
    """Rows in a store of limited size, computed in blocks; those used last stay longest.

    Parameters
    ----------
    gram : Gram
        K, in the precision in which rows are stored.
    at_least : int
        Rows that must find room together.
    memory : int, str or None
        Bytes of the store; None for the budget of products.
    """

    def __init__(self, gram: Gram, at_least: int, memory: Memory = None) -> None:
        n = gram.shape[0]
        room = memory_budget(gram.memory if memory is None else memory)
        slots = int(min(n, max(at_least, room // max(1, n * gram.dtype.itemsize))))
        self._begin(gram, np.empty(slots * n, gram.dtype))

    def _begin(self, gram: Gram, numbers: np.ndarray) -> None:
        """An empty store in the given memory."""
        n = gram.shape[0]
        slots = min(n, len(numbers) // n)
        self.gram, self.numbers = gram, numbers
        self.store = numbers[: slots * n].reshape(slots, n)
        self.place = np.full(n, -1, np.int64)  # of each row in the store, −1 where it is not
        self.owner = np.full(slots, -1, np.int64)
        self.used = np.zeros(slots, np.int64)  # when a slot was last asked for
        self.time = 0

    def part(self, chosen: np.ndarray) -> CachedRows:
        """The rows of some points among these, in the memory of this store, which becomes empty."""
        part = CachedRows.__new__(CachedRows)
        part._begin(self._among(chosen), self.numbers)
        slots = np.sort(self.place[chosen][self.place[chosen] >= 0])
        order = np.searchsorted(chosen, self.owner[slots])
        for k, slot in enumerate(slots):  # never written where a later row is still to be read
            part.store[k] = self.store[slot][chosen]
        part.place[order], part.owner[: len(slots)] = np.arange(len(slots)), order
        self._begin(self.gram, self.numbers)
        return part

    def slots_of(self, chosen: np.ndarray) -> np.ndarray:
        self.time += 1
        present = self.place[chosen]
        self.used[present[present >= 0]] = self.time
        missing = chosen[present < 0]
        if len(missing):
            self._compute(missing)
        return self.place[chosen]

    def _compute(self, missing: np.ndarray) -> None:
        """Store missing rows in place of those that were used longest ago."""
        free = np.arange(len(self.store))
        if len(missing) < len(free):
            free = np.argpartition(self.used, len(missing))[: len(missing)]
        evicted = self.owner[free]
        self.place[evicted[evicted >= 0]] = -1
        few = max(1, ROW_BLOCK_BYTES // self.store[0].nbytes)
        for start in range(0, len(missing), few):  # beside the store stands one block
            part = slice(start, start + few)
            self.store[free[part]] = self._between(
                self.gram.x.take(missing[part]), self.gram.x
            ).dense()
        self.place[missing], self.owner[free], self.used[free] = free, missing, self.time
