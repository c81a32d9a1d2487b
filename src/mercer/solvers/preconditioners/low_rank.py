"""On all points: K̂ + ρI with K̂ = FFᵀ from randomly pivoted Cholesky, of as many columns as pay.

Reference: M. Díaz, E. Epperly, Z. Frangella, J. Tropp, R. Webber, Robust, randomized
preconditioning for kernel ridge regression, 2023.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, namespace, to_precision, zeros
from mercer.features.partial_cholesky import PartialFactor
from mercer.runtime.budget import Memory, memory_budget
from mercer.runtime.machine import CPU, Machine
from mercer.runtime.threads import Span, spans

LEAST_POSITIVE = 1e-300  # in place of 0 under a logarithm


@dataclass(frozen=True)
class Tuning:
    """Numbers of the low-rank preconditioner."""

    fewest: int = 50  # columns that are taken whatever the budget says: fewer have no effect worth
    # a factor
    ahead: float = 1.3  # times as many columns: how far ahead their cost is looked at. Columns come
    # in blocks of about an eighth, so that smaller differences are noise
    wide: float = 1e4  # columns with squares above ρ times this are multiplied in float64: in
    # float32 the rounding of their products would be a tenth of ρ and more
    products: int = 128 << 20  # bytes for products with K beside the columns, at most half of a
    # small budget
    floor: float = 1e-14  # of the trace of K̂: the least ρ that float64 can tell from 0


TUNING = Tuning()


def most_columns(rows: int, itemsize: int, memory: Memory = None, machine: Machine = CPU) -> int:
    """How many columns r a preconditioner may have: n·r + r² numbers fit the memory budget.

    Beside them there are three blocks of rows that are multiplied or a product with K, and a
    quarter of the columns while room is made for the others.

    >>> most_columns(10_000, 4, memory="10GB"), most_columns(10_000, 4, memory="8MB")
    (10000, 81)
    """
    line, room = 1.25 * rows * itemsize, memory_budget(memory)
    room -= max(3 * block_bytes(memory), min(room // 2, TUNING.products))
    square = 16  # bytes: FᵀF and its factor
    fitting = (math.sqrt(line**2 + 4 * square * room) - line) / (2 * square)
    fitting = min(fitting, machine.rank_per_root * math.sqrt(rows))
    return max(1, min(rows, max(TUNING.fewest, int(fitting))))


def block_bytes(memory: Memory = None, machine: Machine = CPU) -> int:
    """Bytes of the rows that are multiplied at a time, little beside a small budget."""
    if not machine.uses_numpy:  # the budget is of main memory
        return machine.rows_bytes
    return min(machine.rows_bytes, memory_budget(memory) // 8)


def default_rank(rows: int, itemsize: int, memory: Memory = None) -> int:
    """Columns of a preconditioner where nothing is known of the spectrum: about 10√n.

    >>> default_rank(10_000, 4, memory="1GB"), default_rank(10_000, 4, memory="8MB")
    (1000, 81)
    """
    return min(most_columns(rows, itemsize, memory), max(TUNING.fewest, int(10 * math.sqrt(rows))))


@dataclass(frozen=True)
class RankBudget:
    """Whether more columns save more products with K than they cost.

    A randomly chosen column takes Σλ²/Σλ from the trace of K − K̂ in expectation, λ being its
    eigenvalues; where the trace falls by ν a column, the condition number is about 1 + ν/ρ, and

        r²/(n·e) + ½ √(1 + ν/ρ) log(2/tolerance) · (1 + r/n)

    products with K is what r columns and the iterations take, e being the multiply-adds that one
    kernel value is worth. ν is continued as a power of r from what it was so far. With an infinite
    e every column pays.
    """

    ridge: float
    tolerance: float
    rows: int
    entry: float

    def products(self, rank: float, fall: float) -> float:
        """What it all takes, in products with K.

        >>> budget = RankBudget(ridge=1.0, tolerance=1e-6, rows=1000, entry=40.0)
        >>> budget.products(100, fall=1e3) > budget.products(200, fall=1.0)
        True
        """
        building = rank**2 / (self.rows * self.entry)
        return building + self.steps(fall) * (1.0 + rank / self.rows)

    def steps(self, fall: float) -> float:
        """Iterations, where the condition number is 1 + ν/ρ."""
        return max(1.0, 0.5 * math.sqrt(1.0 + fall / self.ridge) * math.log(2.0 / self.tolerance))

    def foreseen(self, spectrum: np.ndarray, most: int) -> tuple[int, float]:
        """Columns and iterations for the largest eigenvalues of K, continued as a power.

        >>> budget = RankBudget(ridge=1.0, tolerance=1e-6, rows=10_000, entry=20.0)
        >>> easy, hard = (1e4 * np.arange(1, 200) ** -power for power in (4.0, 1.0))
        >>> budget.foreseen(easy, 10_000)[0] < budget.foreseen(hard, 10_000)[0]
        True
        """
        ranks = np.unique(np.geomspace(min(TUNING.fewest, most), most, 40).astype(int))
        known = np.arange(1, len(spectrum) + 1)
        heights = np.log(np.maximum(spectrum, LEAST_POSITIVE))
        half = len(spectrum) // 2
        slope = (heights[-1] - heights[half - 1]) / math.log(known[-1] / known[half - 1])
        beyond = np.maximum(np.log(ranks / known[-1]), 0.0)
        falls = np.exp(np.interp(np.log(ranks), np.log(known), heights) + slope * beyond)
        pairs = zip(ranks.tolist(), falls.tolist(), strict=True)
        rank, fall = min(pairs, key=lambda pair: self.products(*pair))
        return rank, self.steps(fall)

    def allows_more(self, ranks: list[int], traces: list[float]) -> bool:
        """Whether the next columns pay, from the traces left at some ranks so far.

        >>> budget = RankBudget(ridge=1e-3, tolerance=1e-6, rows=1000, entry=40.0)
        >>> budget.allows_more([0, 50, 100], [1000.0, 500.0, 250.0])
        True
        >>> budget.allows_more([0, 50, 100], [1.0, 1e-5, 1e-9])
        False
        """
        if math.isinf(self.entry):
            return True
        last, ahead = ranks[-1], TUNING.ahead
        marks = np.array([last, last / ahead**2, last / ahead**4])
        left = np.exp(np.interp(marks, ranks, np.log(np.maximum(traces, LEAST_POSITIVE))))
        late, early = np.maximum((left[1:] - left[:-1]) / (marks[:-1] - marks[1:]), LEAST_POSITIVE)
        shrinking = math.sqrt(min(late / early, 1.0))  # of ν, with `ahead` times as many columns
        now = self.products(last, late * shrinking)
        return self.products(ahead * last, late * shrinking**2) < now


def grown(factors: Iterable[PartialFactor], weights: np.ndarray, budget: RankBudget) -> Array:
    """The columns of a growing factor as soon as more of them do not pay."""
    ranks, traces = [0], list[float]()
    columns: Array = np.empty((len(weights), 0))
    for factor in factors:
        if not traces:
            traces.append(float(weights.mean()) * factor.trace)
        ranks.append(factor.rank)
        traces.append(float((weights * factor.residual).sum()))
        columns = factor.columns[:, : factor.rank]
        if not budget.allows_more(ranks, traces):
            break
    return columns


class Columns:
    """F, with K̂ = FFᵀ, and FᵀS²F for weights s²: what the preconditioners of all ρ share.

    Products with the columns are in the precision in which they are stored, but for the leading
    ones, whose squares are so large beside ρ that float32 would leave more than ρ of rounding.
    """

    def __init__(
        self, columns: Array, roots: Array, ridge: float, block_bytes: int = CPU.rows_bytes
    ) -> None:
        self.columns, self.roots, self.xp = columns, roots, namespace(roots)
        self.block_bytes = block_bytes
        self.leading = self._leading(ridge)
        self.moments = self._moments()

    @property
    def rank(self) -> int:
        return int(self.columns.shape[1])

    def _spans(self) -> list[Span]:
        return spans(self.roots.shape[0], max(256, self.block_bytes // (8 * max(self.rank, 1))))

    def _leading(self, ridge: float) -> int:
        """How many columns are multiplied in float64: up to the last one with large squares."""
        if self.columns.dtype == self.roots.dtype:
            return self.rank
        squares = zeros(self.rank, self.roots)
        for start, stop in self._spans():
            rows = self.columns[start:stop] * self._roots(start, stop)
            squares += to_precision(self.xp.sum(rows * rows, axis=0), "float64")
        large = self.xp.nonzero(squares > TUNING.wide * ridge)[0]
        return int(large[-1]) + 1 if large.shape[0] else 0

    def _roots(self, start: int, stop: int) -> Array:
        return to_precision(self.roots[start:stop], self.columns.dtype)

    def _block(self, start: int, stop: int) -> tuple[Array, Array]:
        """Some rows of F: the leading columns in float64, the others as they are stored."""
        rows = self.columns[start:stop]
        return to_precision(rows[:, : self.leading], "float64"), rows[:, self.leading :]

    def _moments(self) -> Array:
        """FᵀS²F, added up in float64."""
        k, rank = self.leading, self.rank
        total = zeros((rank, rank), self.roots)
        for start, stop in self._spans():
            head, tail = self._block(start, stop)
            head, tail = head * self.roots[start:stop], tail * self._roots(start, stop)
            total[:k, :k] += head.T @ head
            if rank > k:
                total[k:, :k] += to_precision(tail, "float64").T @ head
                total[k:, k:] += to_precision(tail.T @ tail, "float64")
        total[:k, k:] = total[k:, :k].T
        return total

    def preconditioner(self, ridge: float, *, overwrite: bool = False) -> LowRank:
        """(SK̂S + ρI)⁻¹; with `overwrite` there can be no other."""
        if not self.rank:
            return LowRank(self, None)
        matrix = self.moments if overwrite else self.xp.asarray(self.moments, copy=True)
        trace = float(self.xp.linalg.trace(matrix))
        shifted = linalg.shift_diagonal(matrix, max(ridge, TUNING.floor * trace))
        return LowRank(self, replace(linalg.cholesky(shifted, overwrite=True), refined=False))

    def products(self, values: Array) -> Array:
        """FᵀS V."""
        scaled, dtype = self.roots * values, self.columns.dtype
        total: Any = 0.0
        for start, stop in self._spans():
            head, tail = self._block(start, stop)
            part = scaled[start:stop]
            low = to_precision(tail.T @ to_precision(part, dtype), "float64")
            total = total + self.xp.concat([head.T @ part, low])
        return total

    def combinations(self, values: Array) -> Array:
        """SF V."""
        high = values[: self.leading]
        low = to_precision(values[self.leading :], self.columns.dtype)
        parts = []
        for start, stop in self._spans():
            head, tail = self._block(start, stop)
            parts.append(head @ high + to_precision(tail @ low, "float64"))
        return self.roots * self.xp.concat(parts)


@dataclass(frozen=True, eq=False)
class LowRank:
    """ρ(SK̂S + ρI)⁻¹ = I − SF(FᵀS²F + ρI)⁻¹FᵀS, by the inversion lemma."""

    columns: Columns
    factor: Any

    def solve(self, residual: Array) -> Array:
        """ρ(SK̂S + ρI)⁻¹r; the scale does not matter."""
        if not self.columns.rank:
            return residual
        inner = self.factor.solve(self.columns.products(residual))
        return residual - self.columns.combinations(inner)
