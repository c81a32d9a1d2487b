"""Rows of K, computed in blocks when they are first needed and kept while there is room."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.evaluation.budget import Memory, memory_budget
from mercer.evaluation.threads import run, thread_count
from mercer.operators import Gram

PARALLEL = 1 << 18  # products of one update from which threads are worth it


class KernelRows:
    """Rows of a symmetric Gram matrix in a store of limited size; those used last stay longest.

    Parameters
    ----------
    gram : Gram
        K, in the precision in which rows are kept.
    at_least : int
        Rows that must find room together.
    memory : int, str or None
        Bytes of the store; None for the budget of products.

    Attributes
    ----------
    slots : int
        How many rows the store holds; n where all fit.
    """

    def __init__(self, gram: Gram, at_least: int, memory: Memory = None) -> None:
        self.gram = gram
        n = gram.shape[0]
        room = memory_budget(gram.memory if memory is None else memory)
        self.slots = int(min(n, max(at_least, room // max(1, n * gram.dtype.itemsize))))
        self.store = np.empty((self.slots, n), gram.dtype)
        self.place = np.full(n, -1, np.int64)  # of each row in the store, −1 where it is not
        self.owner = np.full(self.slots, -1, np.int64)
        self.used = np.zeros(self.slots, np.int64)  # when a slot was last asked for
        self.time = 0

    def slots_of(self, chosen: np.ndarray) -> np.ndarray:
        """Where the chosen rows lie in the store, computed now if they were not there."""
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
        if count == self.slots:
            return np.arange(self.slots)
        return np.argpartition(self.used, count)[:count]

    def block(self, chosen: np.ndarray) -> np.ndarray:
        """K between the chosen points."""
        from mercer.solvers.dual.compiled import gather

        out = np.empty((len(chosen), len(chosen)), self.store.dtype)
        gather(self.store, self.slots_of(chosen), chosen, out)
        return out

    def add(self, chosen: np.ndarray, factors: np.ndarray, values: np.ndarray) -> None:
        """Add K[:, chosen] @ factors to the values."""
        from mercer.solvers.dual.compiled import add_rows

        slots, n = self.slots_of(chosen), len(values)
        threads = thread_count() if len(chosen) * n >= PARALLEL else 1
        step = -(-n // threads)

        def work(start: int) -> None:
            add_rows(self.store, slots, factors, values, start, min(start + step, n))

        run(work, range(0, n, step), threads)


def as_rows(matrix: Any) -> KernelRows:
    """Rows of a matrix that is stored already."""
    rows = KernelRows.__new__(KernelRows)
    n = len(matrix)
    rows.store, rows.slots = matrix, n
    rows.place = rows.owner = np.arange(n)
    rows.used, rows.time = np.zeros(n, np.int64), 0
    return rows
