"""Preconditioners of both kinds: columns of K on all points, sampled rows on centres.

On all points K + ρI is approximated by K̂ + ρI with K̂ = FFᵀ from randomly pivoted Cholesky; on
centres the Hessian is computed on a sample of the rows. Either takes as many columns or rows as pay
for themselves. References: M. Díaz, E. Epperly, Z. Frangella, J. Tropp, R. Webber, Robust,
randomized preconditioning for kernel ridge regression, 2023.
"""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer import linalg
from mercer.arrays import Array, as_numpy, beside, namespace, to_precision, uniform, zeros
from mercer.errors import NotPositiveDefiniteError
from mercer.evaluation.tiling import mirror
from mercer.features.partial_cholesky import PartialFactor
from mercer.linalg.panels import add_lower_products, clear_small, factor_lower_triangle, solve_rows
from mercer.losses import Loss, Squared
from mercer.operators import Gram
from mercer.runtime.budget import MEGABYTE, Memory, free_memory, memory_budget
from mercer.runtime.machine import CPU, Machine, float64_is_slow
from mercer.runtime.threads import Span, single_threaded_blas, spans
from mercer.solvers.problem import Problem

TINY = 1e-300  # in place of 0 under a logarithm


@dataclass(frozen=True)
class Tuning:
    """Numbers of the low-rank preconditioner.

    Parameters
    ----------
    fewest : int
        Columns that are taken whatever the budget says: fewer have no effect worth a factor.
    ahead : float
        Times as many columns: how far ahead their cost is looked at. Columns come in blocks of
        about an eighth, so that smaller differences are noise.
    wide : float
        Columns with squares above ρ times this are multiplied in float64: in float32 the rounding
        of their products would be a tenth of ρ and more.
    floor : float
        Of the trace of K̂: the least ρ that float64 can tell from 0.
    """

    fewest: int = 50
    ahead: float = 1.3
    wide: float = 1e4
    floor: float = 1e-14


TUNING = Tuning()


def most_columns(rows: int, itemsize: int, memory: Memory = None, machine: Machine = CPU) -> int:
    """How many columns r a preconditioner may have: n·r + r² numbers fit the memory budget.

    Beside them there are three blocks of rows that are multiplied.

    >>> most_columns(10_000, 4, memory="10GB"), most_columns(10_000, 4, memory="8MB")
    (10000, 124)
    """
    line, room = rows * itemsize, memory_budget(memory)
    room -= 3 * block_bytes(memory)
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
    (1000, 124)
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
        known, heights = np.arange(1, len(spectrum) + 1), np.log(np.maximum(spectrum, TINY))
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
        left = np.exp(np.interp(marks, ranks, np.log(np.maximum(traces, TINY))))
        late, early = np.maximum((left[1:] - left[:-1]) / (marks[:-1] - marks[1:]), TINY)
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


# ---- sampled rows --------------------------------------------------------------------------------


@dataclass(frozen=True)
class SamplingTuning:
    """Numbers of the Hessian on sampled rows.

    Parameters
    ----------
    decades : int
        Of jitters that are tried where rounding has made a preconditioner indefinite.
    factors : tuple of int
        Rows of the sample for each centre that are considered.
    entry, coordinate, output : float
        What a kernel value in a pass costs, in multiply-adds of the preconditioner, and what one
        more coordinate and output add to that (Gaussian in float32 on two cores, 4,000 centres:
        0.33 ns for d = 11, against 0.014 ns).
    first : int
        Rows for each centre of a first sample, which tells whether uniform rows do. It is all there
        is where passes are quick (50,000 stored rows of 5,000 centres: 0.1 s for each of 8 steps,
        where twice the sample takes 2 s and saves two of them).
    pilot : int
        Rows for each centre of the sample from which leverages are estimated.
    sketch : int
        Random vectors that estimate them.
    looked_at : int
        Rows whose leverages tell whether it is worth having those of all.
    panel : int
        Columns of a product of which only the lower triangle is computed.
    begin : float
        The gap is about one over this at the start, relative to the objective (household power,
        where λ = 1e-8: 3e6).
    inexact : float
        Times as many rows does a sample by estimated leverages need as one by exact ones.
    slowest : float
        Of the excess that a step leaves, at most.
    class_steps : pair of float
        Steps of conjugate gradients for a digit of the gap of a multinomial loss, and what grows
        with the logarithm of the share of rows that a preconditioner is not of (five fits of 3 to
        26 classes, 5,000 to 30,000 rows, 300 to 1,000 centres took 19 to 42 steps: within 1.3).
    free_share : float
        Of the curvature in a constant, what holds it in the block of a class beside its rows.
    stale : float
        Change of the curvatures, relative to their sum, that makes a preconditioner old.
    corrections : int
        Solutions with the factor of P for one with P itself: the second mends its rounding.
    """

    decades: int = 12
    factors: tuple[int, ...] = (2, 3, 4, 6, 8, 12, 16, 24, 32)
    entry: float = 12.0
    coordinate: float = 1.0
    output: float = 8.0
    first: int = 1
    pilot: int = 2
    sketch: int = 8
    looked_at: int = 4096
    panel: int = 1024
    begin: float = 1e-6
    inexact: float = 2.0
    slowest: float = 0.8
    class_steps: tuple[float, float] = (3.5, 1.1)
    free_share: float = 0.01
    stale: float = 0.2
    corrections: int = 2


SAMPLING = SamplingTuning()


class SampledHessian:
    """The Hessian on a sample of rows: (n/m) Σ_sample p_i d_i z_i z_iᵀ + λI, z = (L⁻¹k(C, x), 1).

    With m rows for M centres conjugate gradients reduce the objective's excess by about M/m a step,
    however small λ is; Falkon's choice is the sample of the centres themselves. One array holds its
    Cholesky factor and, above the diagonal, the moments of the sample, as it is the largest thing
    that a solution on centres stores.
    """

    def __init__(
        self, space: Any, rows: np.ndarray, factors: Array, ridge: float, floor: float | None
    ) -> None:
        self.space, self.floor = space, floor
        nothing = np.zeros(space.size)
        self.begun = np.zeros((space.size,) * 2, space.operator.dtype, "F"), nothing, 0.0
        self._add(rows, factors)
        self.factorise(ridge)

    def extend(self, rows: np.ndarray, factors: Array, share: float, ridge: float) -> None:
        """Take more rows; those of before count less by a factor."""
        self.begun = self._moments_so_far(share)
        del self.columns  # its memory goes before that of the next one is taken
        self._add(rows, factors)
        self.factorise(ridge)

    def _moments_so_far(self, share: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Σ r_i² z_i z_iᵀ times a number: of coordinates, with the constant, of the constant."""
        size = self.space.size
        mirror(self.columns, 0, len(self.columns))
        inner = self.columns[:size, :size].astype(self.space.operator.dtype, order="F")
        clear_small(inner)
        inner *= share
        np.fill_diagonal(inner, share * self.diagonal[:size])
        return inner, share * self.columns[-1, :size], share * float(self.diagonal[-1])

    def _add(self, rows: np.ndarray, factors: Array) -> None:
        self.columns = self._moments(rows, np.sqrt(np.maximum(factors, 0.0)))
        self.diagonal = self.columns.diagonal().copy()
        # The factor will overwrite the lower triangle. The moments stay above the diagonal, so
        # that another λ or jitter takes a factorisation, and no pass over the sample.
        mirror(self.columns.T, 0, len(self.columns))

    def factorise(self, ridge: float) -> None:
        """Take another λ with the same sample."""
        size, unit = len(self.columns), float(np.finfo(np.float64).eps)
        diagonal = self.diagonal + ridge
        if self.floor is not None:
            diagonal[-1] = self.diagonal[-1] + self.floor
        jitters = (unit * 10.0**k * diagonal.mean() for k in range(1, SAMPLING.decades))
        for jitter in (0.0, *jitters):
            mirror(self.columns, 0, size)
            np.fill_diagonal(self.columns, diagonal + jitter)
            if not factor_lower_triangle(self.columns):
                return
        raise NotPositiveDefiniteError(
            "Expected a positive definite preconditioner, got one that rounding has made "
            "indefinite: raise the regularization, or pass float64.",
            np.empty(0),
        )

    def _moments(self, rows: np.ndarray, roots: np.ndarray) -> np.ndarray:
        """The lower triangle of Σ r_i² z_i z_iᵀ, in the precision of the points.

        It is added to what was begun, which no other frame holds: it is large.
        """
        inner, last, total = self.begun
        del self.begun
        size, lifted, dtype = self.space.size, self.space.lifted, self.space.operator.dtype
        part = self.space.operator[rows, :] if lifted is None else None
        lower = self.space.basis.lower(dtype) if lifted is None else None
        step = max(256, CPU.sample_bytes // (np.dtype(dtype).itemsize * size))
        for start, stop in spans(len(rows), step):
            scale = roots[start:stop].astype(dtype)
            some = lifted[rows[start:stop], :] if part is None else part[start:stop, :]
            block = by_columns(some).astype(dtype, order="F", copy=False)
            # subnormal numbers take BLAS a hundred times as long, and add nothing
            clear_small(block)
            block *= scale[:, None]
            if lower is not None:
                solve_rows(lower, block)
            add_lower_products(block, inner)
            if self.floor is not None:
                last += scale @ block
            del block
        del lower  # its memory goes before the moments become float64
        if self.floor is None:
            return inner.astype(np.float64, copy=False)
        whole = np.zeros((size + 1, size + 1), order="F")
        whole[:size, :size], whole[size, :size] = inner, last
        whole[size, size] = total + roots @ roots
        return whole

    def spectral(self) -> SpectralHessian:
        """The same for any λ; this one is used up, as both would take too much memory."""
        size, columns, diagonal = self.space.size, self.columns, self.diagonal
        del self.columns
        mirror(columns, 0, len(columns))
        np.fill_diagonal(columns, diagonal)
        border = None
        if self.floor is not None:
            border = columns[:size, -1].copy(), float(diagonal[-1]) + self.floor
        inner = columns if border is None else np.asfortranarray(columns[:size, :size])
        del columns
        # Of LAPACK's drivers this one takes the least memory; its threads wait for each other after
        # every reflection, which on a busy machine takes ten times as long as one thread.
        with single_threaded_blas():
            values, vectors = scipy.linalg.eigh(
                inner, overwrite_a=True, driver="evr", check_finite=False
            )
        return SpectralHessian(values, vectors, border)

    def solve(self, residual: np.ndarray) -> np.ndarray:
        """P⁻¹r."""
        return self.half_solve(linalg.triangular_solve(self.columns, residual))

    def half_solve(self, values: np.ndarray) -> np.ndarray:
        """R⁻ᵀv with RRᵀ = P; v is overwritten."""
        return linalg.triangular_solve(self.columns, values, transposed=True, overwrite=True)


def by_columns(part: Any) -> np.ndarray:
    """A block of K_nM in Fortran's order: that of the transposed matrix needs no copy."""
    if isinstance(part, Gram):
        return Gram(part.kernel, part.y, part.x, part.memory).astype(part.dtype).dense().T
    return np.asfortranarray(part.dense())


class GeneralHessian:
    """The same in any array library, where memory is not the first concern.

    Σ r_i² k_i k_iᵀ + λK_MM is factored, k_i = k(C, x_i), which takes half as many operations as a
    sum of z_i z_iᵀ; values are float64, as this squares the condition number.
    """

    factor: Any

    def __init__(
        self, space: Any, rows: np.ndarray, factors: Array, ridge: float, floor: float | None
    ) -> None:
        self.space, self.floor = space, floor
        width = space.size + (floor is not None)
        self.moments = zeros((width, width), factors, "float64")
        self._add(rows, factors)
        self.factorise(ridge)

    def extend(self, rows: np.ndarray, factors: Array, share: float, ridge: float) -> None:
        """Take more rows; those of before count less by a factor."""
        self.factor = None
        self.moments *= share
        self._add(rows, factors)
        self.factorise(ridge)

    def factorise(self, ridge: float) -> None:
        """Take another λ with the same sample."""
        matrix, size = namespace(self.moments).asarray(self.moments, copy=True), self.space.size
        basis, operator = self.space.basis, self.space.problem.penalty_operator
        if basis.factor is None:
            linalg.shift_diagonal(matrix[:size, :size], ridge)
        else:
            matrix[:size, :size] += ridge * operator.astype(np.float64).dense()
            linalg.shift_diagonal(matrix[:size, :size], ridge * basis.jitter)
        if self.floor is not None:
            matrix[-1, -1] += self.floor
        self.factor = replace(linalg.cholesky(matrix, overwrite=True), refined=False)

    def _add(self, rows: np.ndarray, factors: Array) -> None:
        """Add Σ r_i² (k_i, 1)(k_i, 1)ᵀ: the lower triangle, panel by panel, and then the other."""
        part, xp = self.space.operator[rows, :].astype(np.float64), namespace(factors)
        roots, total, size = xp.clip(factors, min=0.0) ** 0.5, self.moments, len(self.moments)
        panels = spans(size, SAMPLING.panel)
        most = self.space.operator.machine.sample_bytes // (8 * size)
        for start, stop in spans(len(rows), max(256, most)):
            scale = roots[start:stop, None]
            block = scale * part[start:stop, :].dense()
            block = xp.concat([block, scale], axis=1) if self.floor is not None else block
            for first, last in panels:
                total[first:last, :last] += block[:, first:last].T @ block[:, :last]
        for first, last in panels:
            total[:first, first:last] = total[first:last, :first].T

    def spectral(self) -> SpectralHessian:
        """The same for any λ."""
        size, basis, moments = self.space.size, self.space.basis, self.moments
        border = None
        if self.floor is not None:
            border = basis.pull(moments[:size, -1:])[:, 0], float(moments[-1, -1]) + self.floor
        inner = basis.pull(basis.pull(moments[:size, :size]).T)
        return SpectralHessian(*linalg.eigen(0.5 * (inner + inner.T)), border)

    def solve(self, residual: Array) -> Array:
        """P⁻¹r."""
        inner = self.factor.half_solve(self._lowered(residual, transposed=False))
        return self._lowered(self.factor.other_half_solve(inner), transposed=True)

    def half_solve(self, values: Array) -> Array:
        """R⁻ᵀv with RRᵀ = P."""
        return self._lowered(self.factor.other_half_solve(values), transposed=True)

    def _lowered(self, values: Array, transposed: bool) -> Array:
        """Lv or Lᵀv; an intercept stays what it is."""
        basis, size = self.space.basis, self.space.size
        if basis.factor is None:
            return values
        lower = basis.factor.lower.T if transposed else basis.factor.lower
        return namespace(values).concat([lower @ values[:size, :], values[size:, :]])


class ClassHessians:
    """A block of the multinomial Hessian for each class: D + Σ p_i q_ic(1 − q_ic) z_i z_iᵀ.

    D is λ, and for the constant a small share of its curvature. A row bends its own class and the
    few that it might belong to: the mean curvature of all classes is too small for these and too
    large for the others, by up to the number of classes, and one factor of it takes four times as
    many steps. Each block has few rows of its own, drawn by their curvature there. Of them, as
    B = R D^(-½) with LLᵀ = I + BBᵀ, W = L⁻¹B is stored, and P⁻¹ = D^(-½)(I − WᵀW)D^(-½).
    """

    def __init__(self, space: Any, bends: Array, ridge: float, count: int) -> None:
        self.space, self.drawn = space, list[tuple[np.ndarray, Array]]()
        draws = uniform(space.solver.random_state, bends, same=True)  # for all classes
        for k in range(bends.shape[1]):
            own = bends[:, k]
            rows, chances = _drawn_by(own, count, draws)
            self.drawn.append((rows, own[beside(rows, own)] / beside(chances, own)))
        self.shares = SAMPLING.free_share * namespace(bends).sum(bends, axis=0) + space.floor
        self.factorise(ridge)

    def factorise(self, ridge: float) -> None:
        """Take another λ with the same rows."""
        self.blocks, self.roots = list[Array](), list[Array]()
        values = self.space.size * sum(len(rows) for rows, _ in self.drawn)
        many = values > self.space.tuning.few
        for k in range(len(self.drawn)):
            block, roots = self._block(k, ridge)
            inner = linalg.shift_diagonal(block @ block.T, 1.0)
            largest = float(namespace(inner).max(namespace(inner).sum(abs(inner), axis=1)))
            factor = replace(linalg.cholesky(inner, overwrite=True), refined=False)
            # in float32 the least values of I − WᵀW, one over this, are still exact to a hundredth
            single = many and 100.0 * float(np.finfo(np.float32).eps) * largest < 1.0
            self.blocks.append(
                to_precision(factor.half_solve(block), "float32" if single else "float64")
            )
            self.roots.append(roots)

    def _block(self, k: int, ridge: float) -> tuple[Array, Array]:
        """R D^(-½) of a class, and the roots of D."""
        space, (rows, weights) = self.space, self.drawn[k]
        if space.lifted is not None:
            z = to_precision(space.lifted[rows, :].dense(), "float64")
        else:
            z = space.basis.pull(space.operator[rows, :].astype(np.float64).dense().T).T
        xp, roots = namespace(weights), zeros(space.size, weights) + ridge**0.5
        if space.problem.fit_intercept:
            z = xp.concat([z, 1.0 + 0.0 * weights[:, None]], axis=1)
            roots = xp.concat([roots, self.shares[k : k + 1] ** 0.5])
        return z * weights[:, None] ** 0.5 / roots, roots

    def solve(self, residual: Array) -> Array:
        """P⁻¹r, a column for each class."""
        columns = []
        for k, (block, roots) in enumerate(zip(self.blocks, self.roots, strict=True)):
            scaled = residual[:, k] / roots
            low = to_precision(scaled, block.dtype)
            columns.append((scaled - to_precision(block.T @ (block @ low), "float64")) / roots)
        xp = namespace(residual)
        solved = xp.stack(columns, axis=1)
        return solved - xp.mean(solved, axis=1)[:, None]  # what all classes share changes nothing


def class_rows(rows: int, centres: int, classes: int, memory: Memory = None) -> int:
    """Rows of each class in `ClassHessians`, beyond which more take longer than they save.

    Their products with each other take as long as four factors of M × M then; as a row bends about
    one class, n/C are all there are. They take at most a quarter of the memory budget.

    >>> class_rows(10**6, 1000, 25), class_rows(5000, 1000, 25)
    (400, 200)
    >>> class_rows(10**6, 1000, 25, memory="1MB")
    1
    """
    room = memory_budget(memory) // 4
    most = min(2.0 * centres / math.sqrt(classes), rows / classes, room / (8 * classes * centres))
    return max(1, int(most))


class SpectralHessian:
    """P = UDUᵀ + λI for any λ, or one for each column, from one eigendecomposition.

    The row and column of an intercept, its `border`, are eliminated.
    """

    space: Any = None

    def __init__(self, values: Array, vectors: Array, border: tuple[Array, float] | None) -> None:
        self.values, self.vectors = namespace(values).clip(values, min=0.0)[:, None], vectors
        self.bordered = border is not None
        if border is not None:
            self.cross, self.total = vectors.T @ border[0][:, None], border[1]

    def factorise(self, ridge: Any) -> None:
        """Take another λ, or a row of them."""
        self.inverses = 1.0 / (self.values + ridge)
        if self.bordered:
            xp, lifted = namespace(self.values), self.inverses * self.cross
            self.rest = self.total - xp.sum(self.cross * lifted, axis=0, keepdims=True)

    def solve(self, residual: Array) -> Array:
        """P⁻¹r."""
        if not self.bordered:
            return self.vectors @ (self.inverses * (self.vectors.T @ residual))
        xp = namespace(residual)
        turned = self.vectors.T @ residual[:-1, :]
        left = xp.sum(self.cross * self.inverses * turned, axis=0, keepdims=True)
        constant = (residual[-1:, :] - left) / self.rest
        inner = self.vectors @ (self.inverses * (turned - self.cross * constant))
        return xp.concat([inner, constant])


class SampledHessians:
    """The preconditioner in use, cached as long as curvatures are near those it was made for."""

    def __init__(self, space: Any) -> None:
        # The space owns this, and both own the largest arrays there are: in a circle these would
        # stay, on a card for good, until Python looks for garbage.
        self.space = weakref.proxy(space)
        self.current: Any = None
        self.used: Any = None  # curvatures of the current one
        self.theta: Any = None  # the point that has these
        self.lifted = False  # whether it was made of stored rows
        self.sample: Any = None  # its rows, their curvatures, and one over the chance of each
        self.made = 0

    def take_over(self, last: SampledHessians) -> None:
        """Begin with that of another λ."""
        self.current, self.used, self.sample = last.current, last.used, last.sample
        last.current = None
        if self.current is not None:
            self.current.space = self.space
            self.current.factorise(self.space.ridge)

    def at(self, point: Any, loss: Loss) -> SampledHessian | GeneralHessian:
        """The preconditioner for a point, made anew where the current one is old."""
        space = self.space
        factors = mean_curvature(space.problem, loss, point.values)
        xp, old = namespace(factors), self.current
        if old is not None:
            change = float(xp.sum(xp.abs(factors - self.used)))
            if change <= SAMPLING.stale * float(xp.sum(self.used)):
                return old
        self.used, self.current, old = factors, None, None  # the memory of the old one goes first
        self.theta, self.lifted = point.theta, space.lifted is not None
        if loss.is_multiclass:
            classes = space.problem.outputs
            memory: Memory = getattr(space.operator, "memory", None)
            count = class_rows(space.problem.rows, space.size, classes, memory)
            bends = class_curvatures(space.problem, loss, point.values)
            self.made += 1
            self.current = ClassHessians(space, bends, space.ridge, count)
            return self.current
        active = as_numpy(xp.nonzero(factors)[0])
        count = min(self._count(len(active)), len(active))
        if count < len(active) or self._looks_first(len(active)):
            self.current, rows, chances = self._sampled(factors, active, count)
        else:
            rows, chances = active, np.ones(len(active))
            self.current = self._of(factors, rows, chances)
        self.sample = rows, factors[beside(rows, factors)], 1.0 / chances
        return self.current

    @property
    def largest_weight(self) -> float:
        """w of P ⪯ wH, for the Hessian P on the sampled rows and that on all."""
        return max(1.0, float(self.sample[2].max()))

    def excess_bounds(self, *gradients: Array) -> list[float]:
        """Upper bounds of ½gᵀH⁻¹g, which for the square loss is J − min J at a point.

        Whichever rows were sampled, P = Σ w_i p_i z_i z_iᵀ + λI ⪯ max(w)·H; and for any v

            gᵀP⁻¹g = 2gᵀv − vᵀPv + eᵀP⁻¹e ≤ 2gᵀv − vᵀPv + ‖e‖²/λ,    e = g − Pv.

        v comes from the preconditioner, products with P from the sampled rows in float64: nothing
        is left to the precision of its factor. In other words, the dual point is moved on the
        sampled rows, so that its gradient vanishes. The duality gap ‖g‖²/(2λ) at the slopes as they
        are is larger by the ratio of curvature to λ, and takes many more steps to become small.
        """
        assert self.current is not None
        space, (rows, bends, weights) = self.space, self.sample
        xp, ridge, size = namespace(gradients[0]), space.ridge, space.size
        part = space.operator[rows, :].astype(np.float64)
        bends = (bends * beside(weights, bends))[:, None]
        g = xp.concat(gradients, axis=1)
        v, e, nothing = 0.0 * g, g, 0.0 * g[: int(space.problem.fit_intercept), :]
        for _ in range(SAMPLING.corrections):
            v = v + self.current.solve(xp.concat([e, nothing]))[:size, :]
            values = part @ space.basis.coefficients(v)
            if space.problem.fit_intercept:  # the best constant is part of the Hessian's minimum
                values = values - xp.sum(bends * values, axis=0) / xp.sum(bends)
            e = g - space.basis.pull(part.T @ (bends * values)) - ridge * v
        bounds = xp.sum(g * v - 0.5 * ridge * v**2 + e**2 / (2.0 * ridge), axis=0)
        bounds = self.largest_weight * (bounds - 0.5 * xp.sum(bends * values**2, axis=0))
        bounds = as_numpy(bounds).reshape(len(gradients), -1)
        return [float(part.sum()) for part in bounds]

    def _of(
        self, factors: Array, rows: np.ndarray, chances: np.ndarray
    ) -> SampledHessian | GeneralHessian:
        """The Hessian on some rows, which were chosen with these chances."""
        space = self.space
        make = SampledHessian if space.operator.machine.uses_numpy else GeneralHessian
        floor = space.floor if space.problem.fit_intercept else None
        self.made += 1
        return make(space, rows, self._weights(factors, rows, chances), space.ridge, floor)

    @staticmethod
    def _weights(factors: Array, rows: np.ndarray, chances: np.ndarray) -> Array:
        """The curvatures of rows over the chances of these."""
        return factors[beside(rows, factors)] / beside(chances, factors)

    def _sampled(
        self, factors: Array, active: np.ndarray, count: int
    ) -> tuple[SampledHessian | GeneralHessian, np.ndarray, np.ndarray]:
        """The Hessian on rows by leverage, these, and the chance of each; uniform if as good.

        Where few rows have most of the leverage, as those far out in a table with heavy tails, a
        uniform sample misses them, and conjugate gradients pay. Leverages are estimated from a
        small uniform sample, first for few rows, to see what that would cost. It overestimates them
        in directions that it misses, so that another small sample, drawn by these estimates, gives
        better ones; a row has the larger of its two shares. Where uniform rows do, the sum of
        leverages tells the dimension of the problem, and with it how many are enough. With eight
        rows for each of 1,000 centres of household power P⁻¹H has the condition number 4,000 for
        uniform rows, 130 after one estimate, 7 after two, and 5 with leverages that are known.
        """
        space, rows, seed = self.space, len(active), self.space.solver.random_state
        random = np.random.default_rng(seed)
        # shuffled apart: else all row numbers would be, where the sample is not very small
        some = random.choice(rows, count, replace=False, shuffle=False)
        chosen = active[random.permutation(some)]
        if not self._looks_first(rows):
            return self._uniform(factors, chosen, rows)
        first, fewer = (min(count, many * space.size) for many in (SAMPLING.first, SAMPLING.pilot))
        if float64_is_slow(space.operator):
            first = fewer  # a factor of its own would take longer than the rows that it may spare
        pilot, *_ = self._uniform(factors, chosen[:first], rows)
        some = active[random_rows(rows, SAMPLING.looked_at, seed + 1)]
        seen = as_numpy(self._leverages(pilot, factors, some))
        enough = max(first, min(count, self._count(rows, rows * float(np.minimum(seen, 1).mean()))))
        if self._uniform_do(seen, rows, enough, fewer + count):
            return self._uniform(factors, chosen[:enough], rows, pilot, first)
        pilot, *_ = self._uniform(factors, chosen[:fewer], rows, pilot, first)
        if count == rows:
            return self._uniform(factors, chosen, rows, pilot, fewer)
        xp = namespace(factors)
        shares = xp.clip(self._leverages(pilot, factors), max=1.0)  # none is larger
        del pilot  # its memory goes first
        shares = xp.clip(shares / xp.sum(shares), min=0.5 / rows)
        shares = xp.where(factors != 0, shares, 0.0)
        draws = uniform(seed, shares)
        second = self._of(factors, *_drawn_by(shares, fewer, draws))
        scores = xp.clip(self._leverages(second, factors), max=1.0)
        del second
        shares = xp.maximum(shares, scores / xp.sum(scores))
        drawn = _drawn_by(shares, count, draws)
        del scores, shares, draws  # a number for each row, beside the largest arrays
        return self._of(factors, *drawn), *drawn

    def _uniform(
        self, factors: Array, chosen: np.ndarray, rows: int, known: Any = None, seen: int = 0
    ) -> tuple[SampledHessian | GeneralHessian, np.ndarray, np.ndarray]:
        """The Hessian on rows chosen uniformly, after that on the first of them where it is known.

        What that has seen is not computed again.
        """
        count = len(chosen)
        sample = np.sort(chosen), np.full(count, count / rows)
        if known is None:
            return self._of(factors, *sample), *sample
        rest = np.sort(chosen[seen:])
        if len(rest):
            weights = self._weights(factors, rest, np.full(len(rest), count / rows))
            known.extend(rest, weights, seen / count, self.space.ridge)
        return known, *sample

    def _uniform_do(self, seen: np.ndarray, rows: int, count: int, instead: int) -> bool:
        """Whether a uniform sample is cheaper than so many rows of samples by leverage.

        d_i z_iᵀP⁻¹z_i of a row that the preconditioner P has not seen is a lower bound of the
        condition number of P⁻¹H, less 1; steps of conjugate gradients grow with its square root.
        """
        space = self.space
        width, outputs, factor = self._pass_terms()
        dimension = rows * float(np.minimum(seen, 1.0).mean())
        steps = expected_steps(rows, space.size, count, space.solver.goal(space.problem), dimension)
        more = (math.sqrt(1.0 + float(seen.max())) - 1.0) * steps
        return more * rows * factor * value_in_pass(width, outputs) <= instead * space.size

    def _looks_first(self, active: int) -> bool:
        """Whether a small sample tells how many rows to take, and which.

        Losses other than the square have a new Hessian for every few steps.
        """
        space = self.space
        few = active <= max(SAMPLING.looked_at, SAMPLING.pilot * space.size)
        return isinstance(space.loss, Squared) and not space.solver.sample and not few

    def _leverages(self, pilot: Any, factors: Array, rows: np.ndarray | None = None) -> Array:
        """d_i z_iᵀP⁻¹z_i for some rows or all, from products with a few random vectors."""
        space, size = self.space, self.space.size
        shape = size + space.problem.fit_intercept, SAMPLING.sketch
        random = np.random.default_rng(space.solver.random_state).standard_normal(shape)
        directions = pilot.half_solve(space.problem.array(random))
        beta = to_precision(space.basis.coefficients(directions[:size, :]), space.operator.dtype)
        shift = to_precision(directions[size:, :], beta.dtype)

        def scores(operator: Any, bends: Array) -> Array:
            values = operator @ beta
            values = values + shift if space.problem.fit_intercept else values
            squares = to_precision(namespace(values).mean(values * values, axis=1), "float64")
            return bends * squares

        if rows is not None:
            return scores(space.operator[rows, :], factors[beside(rows, factors)])
        n, most = space.problem.rows, space.operator.machine.values_rows
        if n <= most or not isinstance(space.operator, Gram):  # rows of others are read once
            return scores(space.operator, factors)
        leverages = zeros(n, factors)
        for start, stop in spans(n, int(most)):
            part = space.operator[start:stop, :]
            leverages[start:stop] = scores(part, factors[start:stop])
        return leverages

    def _count(self, active: int, dimension: float | None = None) -> int:
        """How many of the rows that bend the objective are sampled.

        `dimension` is the sum of their leverages, where they are known to be even.
        """
        space = self.space
        if space.solver.sample is not None:
            return space.solver.sample
        goal = space.solver.goal(space.problem)
        count = sample_size(max(active, 1), space.size, goal, *self._pass_terms(), dimension)
        slow = float64_is_slow(space.operator)
        if slow and not isinstance(space.loss, Squared):  # a Newton step asks for a digit only
            return min(count, SAMPLING.factors[2] * space.size)
        return count

    def _pass_terms(self) -> tuple[int, int, float]:
        """What a pass costs by: columns of points, outputs, times as long as on two cores."""
        operator, stored = self.space.operator, getattr(self.space.operator, "matrix", None)
        width = 0 if stored is not None else getattr(getattr(operator, "y", None), "width", 1)
        slow = float64_is_slow(operator) and self.space.products == "float64"
        return width, self.space.columns, operator.machine.float64_factor if slow else 1.0


def _drawn_by(shares: Array, count: int, draws: Array) -> tuple[np.ndarray, np.ndarray]:
    """About so many rows with chances ∝ shares, by a uniform draw of each, and these chances."""
    chances = inclusion_chances(shares, count)
    chosen = namespace(chances).nonzero(draws < chances)[0]
    return as_numpy(chosen), as_numpy(chances[chosen])


def inclusion_chances(shares: Array, count: int) -> Array:
    """Chances ∝ shares and at most 1, that add up to a count.

    Those that would be larger than 1 are 1, and the others larger for it, until none is.

    >>> inclusion_chances(np.array([0.8, 0.1, 0.1]), 2)
    array([1. , 0.5, 0.5])
    """
    xp, certain = namespace(shares), 0
    chances = count / max(float(shares.sum()), TINY) * shares
    while True:
        below = chances < 1.0
        now = len(shares) - int(xp.sum(below))
        if now <= certain:
            return xp.clip(chances, max=1.0)
        certain, rest = now, float(xp.sum(xp.where(below, shares, 0.0)))
        chances = xp.where(below, (count - certain) / max(rest, TINY) * shares, 1.0)


def mean_curvature(problem: Problem, loss: Loss, values: Array) -> Array:
    """p·ℓ'' of each row, the mean over outputs."""
    if loss.is_multiclass:
        bends = class_curvatures(problem, loss, values)
        return namespace(bends).mean(bends, axis=1)
    curvature = loss.curvature(problem.y_columns, values)
    return problem.shares * namespace(curvature).mean(curvature, axis=1)


def class_curvatures(problem: Problem, loss: Loss, values: Array) -> Array:
    """p·q(1 − q) of each row and class."""
    q = loss.probability(values)  # type: ignore[attr-defined]
    return problem.shares[:, None] * q * (1.0 - q)


def passes_for_classes(
    rows: int, centres: int, classes: int, tolerance: float, newton: int, memory: Memory = None
) -> float:
    """Passes over the rows of a multinomial fit: Newton's own, and steps with `ClassHessians`.

    A digit of the gap takes more steps where its rows are fewer of all.

    >>> few, many = (passes_for_classes(n, 1000, 26, 1e-6, 8) for n in (6_000, 60_000))
    >>> 25 < few < many < 60
    True
    """
    drawn = classes * class_rows(rows, centres, classes, memory)
    digits = math.log10(1.0 / min(tolerance, 0.1))
    each = SAMPLING.class_steps[0] + SAMPLING.class_steps[1] * math.log(max(1.0, rows / drawn))
    return 2.0 + newton + digits * each


def random_rows(rows: int, count: int, seed: int) -> np.ndarray:
    """So many different row numbers, in order.

    >>> random_rows(3, 5, seed=0)
    array([0, 1, 2])
    """
    if count >= rows:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, count, replace=False))


def expected_steps(
    rows: int, centres: int, sample: int, tolerance: float, dimension: float | None = None
) -> float:
    """Steps of conjugate gradients to a relative gap, with a preconditioner of so many rows.

    With m rows for a problem of dimension d, which is at most the number of centres M, the excess
    falls by d/m in a step; where d is known the square loss is meant, whose certified gap is the
    excess times n/m, and which begins at the size of the objective.

    >>> expected_steps(1_000, 50, 1_000, 1e-6), round(expected_steps(10**6, 50, 500, 1e-6), 1)
    (1.0, 17.2)
    >>> round(expected_steps(10**6, 50, 500, 1e-6, dimension=20.0), 1)
    6.7
    """
    if sample >= rows:
        return 1.0
    if dimension is None:
        goal, left = SAMPLING.begin * min(tolerance, 1.0), SAMPLING.inexact * centres / sample
    else:
        goal, left = min(tolerance, 1.0) * sample / rows, min(dimension, centres) / sample
    return max(1.0, math.log(goal) / math.log(min(left, SAMPLING.slowest)))


def sample_size(
    rows: int,
    centres: int,
    tolerance: float,
    width: int,
    outputs: int = 1,
    factor: float = 1.0,
    dimension: float | None = None,
) -> int:
    """How many rows to take for the preconditioner: more rows cost more, and save steps.

    >>> sample_size(1_000, 200, 1e-6, 3), sample_size(10**6, 2_000, 1e-6, 3) > 8_000
    (1000, True)
    >>> sample_size(10**6, 2_000, 1e-6, 3, dimension=100.0)
    8000
    """
    entry = factor * value_in_pass(width, outputs)  # times as long as on two cores

    def cost(sample: int) -> float:
        steps = expected_steps(rows, centres, sample, tolerance, dimension)
        return sample * centres + (steps + 2.0) * rows * entry

    first = SAMPLING.factors if dimension is None else (SAMPLING.first, *SAMPLING.factors)
    return min((min(rows, many * centres) for many in (*first, rows)), key=cost)


def memory_needed(
    rows: int,
    centres: int,
    outputs: int,
    dtype: Any,
    sample: int | None = None,
    loss: Loss | None = None,
    *,
    spectral: bool = False,
) -> int:
    """Bytes that a solution on centres takes at most beside its data.

    Two factors in float64, in float32 or for eigenvectors a third matrix, blocks of sampled rows
    and of a pass, and what stands beside every row: targets, shares, values, and slopes of other
    losses than the square.

    >>> memory_needed(10**6, 2_000, 1, "float32") < 250e6
    True
    """
    copies = 0 if np.dtype(dtype) == np.float64 and not spectral else 1
    most = SAMPLING.factors[-1] * centres
    block = min(CPU.sample_bytes, 8 * min(rows, sample or most) * centres)
    beside_rows = 48 if isinstance(loss, Squared) else 64
    return int((2 + copies) * 8 * centres**2 + 1.25 * block + beside_rows * rows * outputs)


def stores_rows(problem: Problem, passes: int) -> bool:
    """Whether K_nM L⁻ᵀ is worth storing in float32, after so many passes, and there is room.

    It is as soon as passes have taken as long as storing it takes: whatever is to come, both take
    at most twice as long as the better one. The square loss is near its end by then.
    """
    operator, size = problem.operator, problem.size
    if isinstance(problem.loss, Squared) or not isinstance(operator, Gram):
        return False
    if not operator.machine.keeps_rows or getattr(operator.x, "mapped", False):
        return False
    width = 0 if getattr(operator, "matrix", None) is not None else getattr(operator.x, "width", 1)
    spent = passes * value_in_pass(width, problem.outputs)
    needed = memory_needed(problem.rows, size, problem.outputs, operator.dtype, loss=problem.loss)
    lifting = size if operator.dtype == np.float64 else size // 2
    room = memory_budget(operator.memory) - needed
    return spent >= lifting and 8 * problem.rows * size <= room


def value_in_pass(width: int, outputs: int) -> float:
    """What a kernel value costs in a pass, in multiply-adds of the preconditioner."""
    return SAMPLING.entry + SAMPLING.coordinate * width + SAMPLING.output * (outputs - 1)


def check_memory(problem: Problem, sample: int | None, *, spectral: bool = False) -> None:
    """Refuse what cannot be solved within the budget, or within what is free where none was set."""
    memory: Memory = getattr(problem.operator, "memory", None)
    limited = memory is not None or "MERCER_MEMORY" in os.environ
    limit = memory_budget(memory) if limited else free_memory()
    sizes = problem.rows, problem.size, problem.outputs, problem.operator.dtype
    needed = memory_needed(*sizes, sample, problem.loss, spectral=spectral)
    if needed > limit:
        raise ValueError(
            f"a solution on {problem.size} centres takes {needed / MEGABYTE:.0f} MB for "
            f"{problem.rows} rows; there are {limit / MEGABYTE:.0f} MB. Take fewer centres, or "
            "raise memory= or MERCER_MEMORY."
        )
