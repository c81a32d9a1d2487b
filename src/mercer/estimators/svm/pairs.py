"""One machine for each pair of classes, which share the kernel's values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from mercer.evaluation.budget import memory_budget
from mercer.evaluation.threads import run, single_threaded_blas, thread_count
from mercer.operators import Gram
from mercer.solvers.dual.rows import PartRows, Rows, is_cheap
from mercer.solvers.dual.solver import DualAscent
from mercer.solvers.solution import Solution, Status

SHARED = 4096  # points up to which pairs share a matrix though its rows are cheap


@dataclass(frozen=True, eq=False)
class Machine:
    """f + b for one pair of classes: positive for the first of them."""

    coefficients: np.ndarray
    intercept: float
    steps: int
    status: Status
    solution: Solution | None = None


Fit = Callable[[Gram, np.ndarray, np.ndarray, "Rows | None"], Machine]


@dataclass(frozen=True, eq=False)
class OneVersusOne:
    """All pairs of classes, in scikit-learn's order; `fit` solves one of them.

    Points are sorted by class, so that the matrix of a pair is four blocks of the whole one, which
    is computed once where it is worth its memory.
    """

    gram: Gram
    order: np.ndarray  # of the points, by class
    bounds: np.ndarray  # where classes start in that order
    weights: np.ndarray

    @classmethod
    def of(cls, gram: Gram, codes: np.ndarray, classes: int, weights: np.ndarray) -> OneVersusOne:
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(classes + 1))
        return cls(gram, order, bounds, weights)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(len(self.bounds) - 1), 2))

    def span(self, code: int) -> tuple[int, int]:
        """Where the points of a class are, in the order."""
        return int(self.bounds[code]), int(self.bounds[code + 1])

    def members(self, pair: tuple[int, int]) -> np.ndarray:
        """The numbers of the points of a pair: those of the first class, then the others."""
        return np.concatenate([self.order[slice(*self.span(code))] for code in pair])

    def solve(self, fit: Fit, solver: DualAscent) -> list[Machine]:
        """The machines of all pairs, several at a time."""
        matrix = self._matrix(solver)
        machines: list[Any] = [None] * len(self.pairs)

        def work(k: int) -> None:
            pair = self.pairs[k]
            members = self.members(pair)
            labels = np.ones(len(members))
            labels[np.diff(self.span(pair[0]))[0] :] = -1.0
            part = Gram(self.gram.kernel, self.gram.x.take(members), None, self.gram.memory)
            spans = [self.span(code) for code in pair]
            rows = None if matrix is None else PartRows(matrix, spans)
            machines[k] = fit(part, labels, self.weights[members], rows)

        parallel = getattr(self.gram.kernel, "parallel", True)
        with single_threaded_blas():
            run(work, range(len(machines)), thread_count() if parallel else 1)
        return machines

    def _matrix(self, solver: DualAscent) -> np.ndarray | None:
        """K in the order of classes, where several pairs share it, it is dear, and it fits.

        In float64, where there is room: certificates then need no kernel value again, which takes
        longer than the wider matrix.
        """
        n = self.gram.shape[0]
        if len(self.pairs) < 2 or (is_cheap(self.gram) and n > SHARED):
            return None
        room = memory_budget(solver.cache) // (n * n)
        if room < (4 if solver.starts_in_single(self.gram) else self.gram.dtype.itemsize):
            return None
        dtype = np.float64 if room >= 8 else np.float32
        points = self.gram.x.take(self.order)
        self.gram.evaluations += n * (n + 1) // 2
        return Gram(self.gram.kernel, points, None, self.gram.memory).astype(dtype).dense()
