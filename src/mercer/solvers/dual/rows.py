"""Rows of K for a working set: computed again each time where that is cheap, else kept."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from mercer.evaluation.budget import Memory, memory_budget
from mercer.evaluation.threads import run, thread_count
from mercer.kernels.custom import Precomputed
from mercer.operators import Gram
from mercer.points import DensePoints

PARALLEL = 1 << 18  # products of one update from which threads are worth it
SMALL = 1024  # points up to which the whole matrix is stored
CHEAP_WIDTH = 64  # columns up to which a row takes less time to compute than to fetch


class Rows(Protocol):
    """A symmetric matrix, as dual ascent sees it."""

    def block(self, chosen: np.ndarray) -> np.ndarray:
        """K between the chosen points."""

    def add(self, chosen: np.ndarray, factors: np.ndarray, values: np.ndarray) -> None:
        """Add K[:, chosen] @ factors to the values."""


def rows_of(gram: Gram, at_least: int, memory: Memory = None) -> Rows:
    """Rows of a Gram matrix: fused products for cheap kernels, a store for the others."""
    if isinstance(gram.kernel, Precomputed):
        matrix = np.asarray(gram.kernel.matrix)
        if _is_whole(gram, matrix):
            return StoredRows(matrix)
    if gram.shape[0] <= SMALL:
        return StoredRows(gram.dense())
    return FusedRows(gram) if is_cheap(gram) else KeptRows(gram, at_least, memory)


def is_cheap(gram: Gram) -> bool:
    """Whether rows are computed about as fast as they are fetched from memory."""
    narrow = isinstance(gram.x, DensePoints) and gram.x.width <= CHEAP_WIDTH
    return narrow and gram.kernel.program() is not None


def _is_whole(gram: Gram, matrix: np.ndarray) -> bool:
    n = gram.shape[0]
    plain = matrix.shape == (n, n) and matrix.dtype == gram.dtype and matrix.flags.c_contiguous
    return plain and np.array_equal(gram.x.data, np.arange(n))


class FusedRows:
    """Rows that are never stored."""

    def __init__(self, gram: Gram) -> None:
        self.gram = gram

    def block(self, chosen: np.ndarray) -> np.ndarray:
        inner = self._between(self.gram.x.take(chosen), None)
        return inner.dense()

    def add(self, chosen: np.ndarray, factors: np.ndarray, values: np.ndarray) -> None:
        columns = self._between(self.gram.x, self.gram.x.take(chosen))
        values += columns @ factors.astype(self.gram.dtype)

    def _between(self, x: object, y: object) -> Gram:
        part = Gram(self.gram.kernel, x, y, self.gram.memory).astype(self.gram.dtype)  # type: ignore[arg-type]
        self.gram.evaluations += part.shape[0] * part.shape[1]
        return part


class StoredRows:
    """Rows of a matrix that is stored."""

    def __init__(self, store: np.ndarray) -> None:
        self.store = store

    @property
    def single(self) -> bool:
        """Whether the rows are float32."""
        return self.store.dtype == np.float32

    def slots_of(self, chosen: np.ndarray) -> np.ndarray:
        """Where the chosen rows lie in the store."""
        return chosen

    def block(self, chosen: np.ndarray) -> np.ndarray:
        from mercer.solvers.dual.compiled import gather

        out = np.empty((len(chosen), len(chosen)), self.store.dtype)
        gather(self.store, self.slots_of(chosen), chosen, out)
        return out

    def add(self, chosen: np.ndarray, factors: np.ndarray, values: np.ndarray) -> None:
        from mercer.solvers.dual.compiled import add_rows

        slots, n = self.slots_of(chosen), len(values)
        threads = thread_count() if len(chosen) * n >= PARALLEL else 1
        step = -(-n // threads)

        def work(start: int) -> None:
            add_rows(self.store, slots, factors, values, start, min(start + step, n), start)

        run(work, range(0, n, step), threads)


class PartRows(StoredRows):
    """Rows of a stored matrix between the points of some spans of it, without a copy."""

    def __init__(self, store: np.ndarray, spans: list[tuple[int, int]]) -> None:
        super().__init__(store)
        self.spans = spans
        self.places = np.concatenate([np.arange(*span) for span in spans])

    def block(self, chosen: np.ndarray) -> np.ndarray:
        return super().block(self.places[chosen])

    def add(self, chosen: np.ndarray, factors: np.ndarray, values: np.ndarray) -> None:
        from mercer.solvers.dual.compiled import add_rows

        slots, first = self.places[chosen], 0
        for start, stop in self.spans:
            last = first + stop - start
            add_rows(self.store, slots, factors, values, first, last, start)
            first = last


class KeptRows(StoredRows):
    """Rows in a store of limited size, computed in blocks; those used last stay longest.

    Parameters
    ----------
    gram : Gram
        K, in the precision in which rows are kept.
    at_least : int
        Rows that must find room together.
    memory : int, str or None
        Bytes of the store; None for the budget of products.
    """

    def __init__(self, gram: Gram, at_least: int, memory: Memory = None) -> None:
        self.gram = gram
        n = gram.shape[0]
        room = memory_budget(gram.memory if memory is None else memory)
        slots = int(min(n, max(at_least, room // max(1, n * gram.dtype.itemsize))))
        super().__init__(np.empty((slots, n), gram.dtype))
        self.place = np.full(n, -1, np.int64)  # of each row in the store, −1 where it is not
        self.owner = np.full(slots, -1, np.int64)
        self.used = np.zeros(slots, np.int64)  # when a slot was last asked for
        self.time = 0

    def slots_of(self, chosen: np.ndarray) -> np.ndarray:
        self.time += 1
        present = self.place[chosen]
        self.used[present[present >= 0]] = self.time
        missing = chosen[present < 0]
        if len(missing):
            self._compute(missing)
        return self.place[chosen]

    def _compute(self, missing: np.ndarray) -> None:
        free = self._oldest(len(missing))
        evicted = self.owner[free]
        self.place[evicted[evicted >= 0]] = -1
        block = Gram(self.gram.kernel, self.gram.x.take(missing), self.gram.x, self.gram.memory)
        self.store[free] = block.astype(self.gram.dtype).dense()
        self.gram.evaluations += block.shape[0] * block.shape[1]
        self.place[missing], self.owner[free], self.used[free] = free, missing, self.time

    def _oldest(self, count: int) -> np.ndarray:
        if count == len(self.store):
            return np.arange(count)
        return np.argpartition(self.used, count)[:count]
