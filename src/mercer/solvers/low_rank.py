"""Preconditioners K̂ + ρI from columns of K, as many as pay for themselves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, beside, namespace, on_host, to_precision
from mercer.features.partial_cholesky import PartialFactor
from mercer.linalg.panels import lower_products
from mercer.runtime.budget import Memory, memory_budget
from mercer.runtime.threads import spans

FEWEST = 50  # columns
ROWS, TENSOR_ROWS = 1 << 12, 1 << 14  # that are multiplied at a time
ENTRY = 28  # multiply-adds that take as long as a kernel value in float64, beside one a feature
AHEAD = 1.3  # times as many columns: how far ahead their cost is looked at
TINY = 1e-300
ROUNDING = 1e4  # ρ times this: columns with larger squares need float64
FLOOR = 1e-14  # of the trace of K̂, the least ρ that float64 can tell from 0


def most_columns(rows: int, itemsize: int, memory: Memory = None) -> int:
    """How many columns r a preconditioner may have: n·r + r² numbers fit the memory budget.

    >>> most_columns(10_000, 4, memory="10GB"), most_columns(10_000, 4, memory="8MB")
    (10000, 102)
    """
    line = rows * (itemsize + 4)  # bytes: a column, half of them in float64, too
    square = 16  # bytes: FᵀF and its factor
    fitting = (math.sqrt(line**2 + 4 * square * memory_budget(memory)) - line) / (2 * square)
    return max(1, min(rows, max(FEWEST, int(fitting))))


def default_rank(rows: int, itemsize: int, memory: Memory = None) -> int:
    """Columns of a preconditioner where nothing is known of the spectrum: about 10√n.

    >>> default_rank(10_000, 4, memory="1GB"), default_rank(10_000, 4, memory="8MB")
    (1000, 102)
    """
    return min(most_columns(rows, itemsize, memory), max(FEWEST, int(10 * math.sqrt(rows))))


@dataclass(frozen=True)
class Worth:
    """Whether more columns save more products with K than they cost.

    A randomly chosen column takes Σλ²/Σλ from the trace of K − K̂ in expectation, λ being its
    eigenvalues; where the trace falls by ν a column, the condition number is about 1 + ν/ρ, and

        r²/(n·e) + ½ √(1 + ν/ρ) log(2/tolerance) · (1 + r/n)

    products with K is what r columns and the iterations take, e being the multiply-adds that one
    kernel value is worth. ν is continued as a power of r from what it was so far. An infinite e
    makes every column worth it.
    """

    ridge: float
    tolerance: float
    rows: int
    entry: float

    def products(self, rank: float, fall: float) -> float:
        """What it all takes, in products with K.

        >>> worth = Worth(ridge=1.0, tolerance=1e-6, rows=1000, entry=40.0)
        >>> worth.products(100, fall=1e3) > worth.products(200, fall=1.0)
        True
        """
        building = rank**2 / (self.rows * self.entry)
        return building + self.steps(fall) * (1.0 + rank / self.rows)

    def steps(self, fall: float) -> float:
        """Iterations, where the condition number is 1 + ν/ρ."""
        return max(1.0, 0.5 * math.sqrt(1.0 + fall / self.ridge) * math.log(2.0 / self.tolerance))

    def foreseen(self, spectrum: np.ndarray, most: int) -> tuple[int, float]:
        """Columns and iterations for the largest eigenvalues of K, continued as a power.

        >>> worth = Worth(ridge=1.0, tolerance=1e-6, rows=10_000, entry=20.0)
        >>> easy, hard = (1e4 * np.arange(1, 200) ** -power for power in (4.0, 1.0))
        >>> worth.foreseen(easy, 10_000)[0] < worth.foreseen(hard, 10_000)[0]
        True
        """
        ranks = np.unique(np.geomspace(min(FEWEST, most), most, 40).astype(int))
        known, heights = np.arange(1, len(spectrum) + 1), np.log(np.maximum(spectrum, TINY))
        half = len(spectrum) // 2
        slope = (heights[-1] - heights[half - 1]) / math.log(known[-1] / known[half - 1])
        beyond = np.maximum(np.log(ranks / known[-1]), 0.0)
        falls = np.exp(np.interp(np.log(ranks), np.log(known), heights) + slope * beyond)
        pairs = zip(ranks.tolist(), falls.tolist(), strict=True)
        rank, fall = min(pairs, key=lambda pair: self.products(*pair))
        return rank, self.steps(fall)

    def more(self, ranks: list[int], traces: list[float]) -> bool:
        """Whether the next columns are worth it, from the traces left at some ranks so far.

        >>> worth = Worth(ridge=1e-3, tolerance=1e-6, rows=1000, entry=40.0)
        >>> worth.more([0, 50, 100], [1000.0, 500.0, 250.0])
        True
        >>> worth.more([0, 50, 100], [1.0, 1e-5, 1e-9])
        False
        """
        if math.isinf(self.entry):
            return True
        last = ranks[-1]
        marks = np.array([last, last / AHEAD**2, last / AHEAD**4])
        left = np.exp(np.interp(marks, ranks, np.log(np.maximum(traces, TINY))))
        late, early = np.maximum((left[1:] - left[:-1]) / (marks[:-1] - marks[1:]), TINY)
        shrinking = math.sqrt(min(late / early, 1.0))  # of ν, when there are AHEAD times as many
        now = self.products(last, late * shrinking)
        return self.products(AHEAD * last, late * shrinking**2) < now


def grown(factors: Iterable[PartialFactor], weights: np.ndarray, worth: Worth) -> Array:
    """The columns of the factor as soon as more are not worth it."""
    ranks, traces = [0], list[float]()
    columns: Array = np.empty((len(weights), 0))
    for factor in factors:
        if not traces:
            traces.append(float(weights.mean()) * factor.trace)
        ranks.append(factor.rank)
        traces.append(float(weights @ factor.residual))
        columns = factor.columns[:, : factor.rank]
        if not worth.more(ranks, traces):
            break
    return columns


class Columns:
    """F, with K̂ = FFᵀ, and FᵀS²F for weights s²: what all preconditioners for K share.

    Columns are stored in float32 where F is, and so are those products with them that cancel
    little beside ρ; the leading ones, with squares above 10⁴ρ, are kept in float64, too.
    """

    roots: Array
    moments: Array

    def __init__(self, columns: np.ndarray, roots: np.ndarray, ridge: float) -> None:
        self.roots = roots
        self.leading = self._leading(columns, ridge)
        self.head = columns[:, : self.leading].astype(np.float64, copy=False)
        self.tail = columns[:, self.leading :]
        self.moments = self._moments()

    @property
    def rank(self) -> int:
        return self.head.shape[1] + self.tail.shape[1]

    def _leading(self, columns: np.ndarray, ridge: float) -> int:
        if columns.dtype == np.float64:
            return columns.shape[1]
        weights = (self.roots[:, 0] ** 2).astype(columns.dtype)
        squares = np.zeros(columns.shape[1])
        for start, stop in spans(len(weights), ROWS):
            rows = columns[start:stop]
            squares += weights[start:stop] @ rows**2
        large = squares > ROUNDING * ridge
        return int(np.flatnonzero(large)[-1]) + 1 if large.any() else 0

    def _moments(self) -> Array:
        k, rank = self.leading, self.rank
        moments = np.zeros((rank, rank), order="F")
        for start, stop in spans(len(self.roots), ROWS):
            head = self.head[start:stop] * self.roots[start:stop]
            tail = self.tail[start:stop] * self.roots[start:stop].astype(self.tail.dtype)
            if k:
                moments[:k, :k] += lower_products(head)
            if rank > k:
                moments[k:, :k] += tail.astype(np.float64).T @ head
                moments[k:, k:] += lower_products(tail)
        for start, stop in spans(rank, ROWS):
            lower = np.tril(moments[start:stop, start:stop], -1)
            moments[start:stop, start:stop] += lower.T
            moments[start:stop, stop:] = moments[stop:, start:stop].T
        return moments

    def preconditioner(self, ridge: float, *, overwrite: bool = False) -> LowRank:
        """(SK̂S + ρI)⁻¹; with `overwrite` there can be no other."""
        matrix = self.moments if overwrite else self._copy()
        ridge = max(ridge, FLOOR * float(matrix.trace()))
        shifted = linalg.shift_diagonal(matrix, ridge)
        return LowRank(self, linalg.cholesky(shifted, overwrite=True) if self.rank else None)

    def _copy(self) -> Array:
        return self.moments.copy(order="F")

    def products(self, values: np.ndarray) -> Array:
        """FᵀS V."""
        scaled = self.roots * values
        head = self.head.T @ scaled
        return np.concatenate([head, self.tail.T @ scaled.astype(self.tail.dtype)])

    def combinations(self, values: Array) -> np.ndarray:
        """SF V."""
        head, tail = values[: self.leading], values[self.leading :].astype(self.tail.dtype)
        return self.roots * (self.head @ head + self.tail @ tail)


class TensorColumns(Columns):
    """The same where F is a tensor: its products are in float64 and on its device."""

    def __init__(self, columns: Array, roots: np.ndarray) -> None:
        self.columns, self.roots = columns, beside(roots, columns)
        self.moments = self._moments()

    @property
    def rank(self) -> int:
        return int(self.columns.shape[1])

    def _moments(self) -> Array:
        total: Array = self.roots.new_zeros((self.rank, self.rank))
        for part in self._parts():
            total += part.T @ part
        return total

    def _parts(self) -> Iterator[Array]:
        """SF, some rows at a time."""
        for start, stop in spans(len(self.roots), TENSOR_ROWS):
            yield to_precision(self.columns[start:stop], np.float64) * self.roots[start:stop]

    def _copy(self) -> Array:
        return self.moments.clone()

    def products(self, values: np.ndarray) -> Array:
        rows = beside(values, self.roots)
        total: Array = 0.0
        for part, (start, stop) in zip(self._parts(), spans(len(rows), TENSOR_ROWS), strict=True):
            total = total + part.T @ rows[start:stop]
        return total

    def combinations(self, values: Array) -> np.ndarray:
        rows = [part @ values for part in self._parts()]
        return on_host(namespace(values).concat(rows))


@dataclass(frozen=True, eq=False)
class LowRank:
    """ρ(SK̂S + ρI)⁻¹ = I − SF(FᵀS²F + ρI)⁻¹FᵀS, by the inversion lemma."""

    columns: Columns
    factor: Any

    def solve(self, residual: np.ndarray) -> np.ndarray:
        """ρ(SK̂S + ρI)⁻¹r; the scale does not matter."""
        if not self.columns.rank:
            return residual
        return residual - self.columns.combinations(
            self.factor.solve(self.columns.products(residual))
        )
