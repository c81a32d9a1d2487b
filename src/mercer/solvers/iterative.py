"""Ridge regression on the whole Gram matrix without storing it: preconditioned iterations."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mercer.arrays import beside, is_tensor, on_host
from mercer.checks import check_count, check_positive
from mercer.features.centres import RandomlyPivoted
from mercer.features.partial_cholesky import PartialFactor
from mercer.operators import Gram
from mercer.runtime.budget import Memory
from mercer.solvers.driver import Callback, Progress
from mercer.solvers.krylov import conjugate_steps
from mercer.solvers.low_rank import (
    ENTRY,
    Columns,
    TensorColumns,
    Worth,
    default_rank,
    grown,
    most_columns,
)
from mercer.solvers.problem import Problem, require_square_loss
from mercer.solvers.solution import Solution, Status

TOLERANCES = {"float64": 1e-6, "float32": 1e-4}
MIXED_SIZE = 2000  # from which products in float32 with refinement are faster
ROUNDING = 0.02  # of ρ: what products in float32 may be off by
NOISE = 0.1  # of ρ: what columns in float32 may be off by
WORKABLE = 0.3  # of ρ: either, where float32 was asked for
SAMPLE = 256  # rows on which that is measured
REFINEMENTS = 12
SHARE = 1 / 3  # of a time limit that the preconditioner may take


@dataclass(frozen=True)
class ConjugateGradient:
    """Solve (K + nλ W⁻¹) α = y by conjugate gradients; K is multiplied by, and never stored.

    The preconditioner is K̂ + nλI with K̂ = FFᵀ from randomly pivoted Cholesky, so that iterations
    only meet the eigenvalues that K̂ misses. F gets columns as long as they are expected to save
    more iterations than they cost. Products with K are in float32 where their rounding is small
    beside nλ, and the residual is computed and corrected in float64 until it is small.

    Parameters
    ----------
    tolerance : float, optional
        The true residual, relative to y, to reach; by default 1e-6, and 1e-4 for float32.
    rank : int, optional
        Columns of F, which takes n·rank numbers; by default as many as are worth it, within the
        memory budget.
    iterations : int, default=2000
        At most so many.
    mixed : bool or None, default=None
        Whether products are in float32 with refinement wherever that works at all; None decides
        by size and rounding.
    random_state : int, default=0
        Draws the pivots.
    time_limit : float, optional
        Seconds after which to stop with the best iterate.
    callback : function of (iteration, Progress), optional
        Called after each iteration, with an objective of nan; True stops.

    References
    ----------
    M. Díaz, E. Epperly, Z. Frangella, J. Tropp, R. Webber, Robust, randomized preconditioning for
    kernel ridge regression, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> X, y = np.linspace(0, 1, 50)[:, None], np.linspace(0, 1, 50) ** 2
    >>> gram = Gaussian(0.3).gram(X)
    >>> solution = ConjugateGradient().solve(Problem(gram, y, Squared(), regularization=1e-3))
    >>> rest = (gram.dense() + 0.05 * np.eye(50)) @ solution.coefficients - y
    >>> bool(np.linalg.norm(rest) <= 1e-6 * np.linalg.norm(y)), solution.status.converged
    (True, True)
    """

    tolerance: float | None = None
    rank: int | None = None
    iterations: int = 2000
    mixed: bool | None = None
    random_state: int = 0
    time_limit: float | None = None
    callback: Callback | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_count(self, "iterations", self.iterations)
        if self.rank is not None:
            check_count(self, "rank", self.rank)
        for name in ("tolerance", "time_limit"):
            if getattr(self, name) is not None:
                check_positive(self, name, getattr(self, name))

    def solve(self, problem: Problem) -> Solution:
        check_ridge(problem, problem.regularization)
        return Run(self, problem).solution()

    def goal(self, gram: Gram) -> float:
        """The relative residual to reach."""
        return self.tolerance or TOLERANCES[str(gram.dtype)]

    def mixes(self, gram: Gram) -> bool:
        """Whether float32 is used where rounding allows it."""
        if self.mixed is not None:
            return self.mixed
        return bool(gram.dtype == np.float32) or gram.shape[0] >= MIXED_SIZE


def check_ridge(problem: Problem, regularization: float) -> None:
    """Whether these are problems for conjugate gradients."""
    require_square_loss(ConjugateGradient, problem)
    if regularization <= 0:
        raise ValueError(
            "ConjugateGradient needs regularization > 0; got 0. Direct() finds the "
            "interpolant of least norm."
        )


def columns_for(solver: ConjugateGradient, problem: Problem, until: float = math.inf) -> Columns:
    """Columns of K for a preconditioner: enough for the λ of the problem, or as many as asked for.

    They are in float32 where that is used and its rounding is small beside ρ. None are added after
    the time `until`.
    """
    system, gram, n = System(problem), problem.gram, problem.gram.shape[0]
    dtype = np.dtype(system.precision(solver, NOISE))
    rank, memory = solver.rank, _room(gram)
    if gram.on_tensors:  # a card is too quick to measure what they cost
        rank = rank or default_rank(n, dtype.itemsize, memory)
    most = min(n, rank or most_columns(n, dtype.itemsize, memory))
    share = np.dtype(system.precision(solver, ROUNDING)).itemsize / 8
    entry = math.inf if rank else share * (ENTRY + getattr(gram.x, "width", 0))
    worth = Worth(system.ridge, solver.goal(gram), n, entry)
    choice = RandomlyPivoted(most, solver.random_state)
    factors = _in_time(choice.growing(gram.kernel, gram.x, dtype), until)  # type: ignore[arg-type]
    factor = grown(factors, system.roots[:, 0] ** 2, worth)
    if is_tensor(factor):
        return TensorColumns(factor, system.roots)
    return Columns(factor, system.roots, system.ridge)


def _room(gram: Gram) -> Memory:
    """The memory budget for columns: half of what is free on a card, if nothing else is said."""
    if gram.memory is not None or not gram.x.home.startswith("cuda"):
        return gram.memory
    return gram.x.free_memory() // 2


def _in_time(factors: Iterator[PartialFactor], until: float) -> Iterator[PartialFactor]:
    for factor in factors:
        yield factor
        if time.perf_counter() >= until:
            return


class System:
    """SKS + ρI with s = √w, in float64 and in float32."""

    def __init__(self, problem: Problem) -> None:
        self.gram, self.like = problem.gram, problem.targets
        self.roots = np.sqrt(on_host(problem.sample_weights))[:, None]
        self.ridge = float(problem.regularization * (self.roots**2).sum())

    def multiply(self, c: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        """(SKS + ρI) c, with kernel values and their sums in `dtype`."""
        return self.roots * self.product(self.gram, self.roots * c, dtype) + self.ridge * c

    def product(self, gram: Gram, values: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        """K V. Where the points are tensors, vectors stay on the host and K on their device."""
        if np.dtype(dtype) != gram.dtype:
            gram = gram.astype(dtype)
        values = values.astype(dtype, copy=False)
        if not gram.on_tensors:
            return gram @ values
        return on_host(gram @ beside(values, self.like))

    @cached_property
    def rounding(self) -> float:
        """‖S(K₃₂ − K)Sv‖/‖v‖ for K as float32 has it, on some rows, v being random signs."""
        gram, n = self.gram, self.gram.shape[0]
        random = np.random.default_rng(0)
        rows = np.sort(random.choice(n, min(n, SAMPLE), replace=False))
        part = Gram(gram.kernel, gram.x.take(rows), gram.x, gram.memory, gram.precision)
        signs = self.roots * random.choice([-1.0, 1.0], (n, 1))
        error = self.product(part, signs, np.float32) - self.product(part, signs)
        return float(np.sqrt(np.mean((self.roots[rows] * error) ** 2)))

    def precision(self, solver: ConjugateGradient, share: float) -> str:
        """float32 where it is used, and K in float32 is off by no more than this share of ρ."""
        if not solver.mixes(self.gram):
            return "float64"
        allowed = WORKABLE if solver.mixed else share
        return "float32" if self.rounding <= allowed * self.ridge else "float64"


class Run:
    """(SKS + ρI) c = s(y − b), with sᵀc = 0 for an intercept."""

    def __init__(self, solver: ConjugateGradient, problem: Problem) -> None:
        self.solver, self.problem, self.gram = solver, problem, problem.gram
        self.system = System(problem)
        self.roots, self.ridge = self.system.roots, self.system.ridge
        self.targets = on_host(problem.y).reshape(len(self.roots), -1)
        sides = [self.roots * self.targets, *([self.roots] if problem.fit_intercept else [])]
        self.sides = np.concatenate(sides, axis=1)
        self.scale = np.linalg.norm(self.sides, axis=0)
        self.scale[self.scale == 0] = 1.0
        self.goal = solver.goal(self.gram)
        self.began, self.stopped = time.perf_counter(), ""
        self.history: dict[str, list[Any]] = {"residual": [], "seconds": []}
        self.iterations = {"float32": 0, "float64": 0}

    def solution(self, columns: Columns | None = None, start: np.ndarray | None = None) -> Solution:
        """Iterate from `start`, with these columns or with what the solver says."""
        last = columns is None
        if columns is None:
            limit = self.solver.time_limit or math.inf
            columns = columns_for(self.solver, self.problem, self.began + SHARE * limit)
        self.rank = columns.rank
        self.preconditioner = columns.preconditioner(self.ridge, overwrite=last)
        self.dtype = self.system.precision(self.solver, ROUNDING)
        self.x = self._solved(np.zeros_like(self.sides) if start is None else start)
        return self._finished(self.x)

    # ---- iterations ------------------------------------------------------------------------------

    def _solved(self, x: np.ndarray) -> np.ndarray:
        """x, corrected until its residual in float64 is small or falls no more."""
        residual = self.sides - self.system.multiply(x) if x.any() else self.sides
        for _ in range(REFINEMENTS):
            candidate = self._stored(x + self._corrected(residual, x))
            rest = self.sides - self.system.multiply(candidate)
            gained = self._size(rest) / self._size(residual)
            if gained < 1 or self._energy(candidate, rest) < self._energy(x, residual):
                x, residual = candidate, rest
            if self._size(residual) <= self.goal or self.stopped:
                break
            if gained > 0.5:
                if self.dtype == "float64":
                    break
                self.dtype = "float64"
        return x

    def _size(self, residual: np.ndarray) -> float:
        return float((np.linalg.norm(residual, axis=0) / self.scale).max())

    def _energy(self, x: np.ndarray, residual: np.ndarray) -> float:
        """½xᵀAx − bᵀx, which every iteration lowers, also while the residual grows."""
        return -0.5 * float(np.vdot(x / self.scale**2, self.sides + residual))

    def _stored(self, x: np.ndarray) -> np.ndarray:
        """x as it will be stored: rounding is corrected with the rest."""
        return x.astype(self.gram.dtype).astype(np.float64)

    def _corrected(self, residual: np.ndarray, x: np.ndarray) -> np.ndarray:
        """A⁻¹r as far as products in this precision go."""
        sizes = np.linalg.norm(residual, axis=0)
        sizes[sizes == 0] = 1.0
        wanted = 0.7 * self.goal * self.scale / sizes
        error = self.system.rounding if self.dtype == "float32" else 0.0
        steps = conjugate_steps(
            lambda d, raised: self.system.multiply(raised, self.dtype),
            self.preconditioner.solve,
            residual / sizes,
        )
        for step in steps:
            left = np.linalg.norm(step.residual, axis=0)
            self._record(x + sizes * step.lifted, float((left * sizes / self.scale).max()))
            reached = np.maximum(wanted, error * np.linalg.norm(step.lifted, axis=0))
            if self.stopped or (left <= reached).all():
                break
        return np.asarray(sizes * step.lifted)

    def _record(self, x: np.ndarray, believed: float) -> None:
        seconds = time.perf_counter() - self.began
        self.iterations[self.dtype] += 1
        self.history["residual"].append(believed)
        self.history["seconds"].append(seconds)
        taken, limit = len(self.history["residual"]), self.solver.time_limit
        if taken >= self.solver.iterations:
            self.stopped = f"the limit of {taken} iterations"
        if limit is not None and seconds >= limit:
            self.stopped = f"the time limit of {limit:g} s"
        if self.solver.callback is not None:
            alpha, b = self._coefficients(x)
            if self.solver.callback(taken, Progress(alpha, b, math.nan)):
                self.stopped = "the callback"

    # ---- the answer ------------------------------------------------------------------------------

    def _coefficients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """α and b, which makes sᵀc = 0."""
        outputs = self.targets.shape[1]
        b = np.zeros(outputs)
        c = x[:, :outputs]
        if self.problem.fit_intercept:
            means = x[:, outputs:]
            b = (self.roots.T @ c)[0] / float((self.roots.T @ means)[0, 0])
            c = c - means * b
        return (self.roots * c).reshape(np.shape(self.problem.targets)), b

    def _finished(self, x: np.ndarray) -> Solution:
        alpha, b = self._coefficients(x)
        alpha = alpha.astype(self.gram.dtype)
        single = alpha.ndim == 1
        residual, objective = self._truth(alpha.astype(np.float64).reshape(self.targets.shape), b)
        if self.gram.on_tensors:
            alpha, b = beside(alpha, self.problem.targets), beside(b, self.problem.targets)
        return Solution(
            coefficients=alpha,
            status=self._status(residual),
            objective=objective,
            gap=residual,
            history=self.history,
            intercept=float(b[0]) if single else b,
        )

    def _truth(self, alpha: np.ndarray, b: np.ndarray) -> tuple[float, float]:
        """The relative residual and the objective, from scratch in float64, in one product."""
        fitted = self.system.product(self.gram, alpha)
        scaled = np.divide(alpha, self.roots, out=np.zeros_like(alpha), where=self.roots > 0)
        rest = self.roots * (fitted + b - self.targets) + self.ridge * scaled
        sizes = np.linalg.norm(self.roots * self.targets, axis=0)
        worst = float((np.linalg.norm(rest, axis=0) / np.where(sizes > 0, sizes, 1.0)).max())
        risk = float(self.problem.loss.risk(self.targets, fitted + b, self.roots[:, 0] ** 2))
        return worst, risk + 0.5 * self.problem.regularization * float(np.vdot(alpha, fitted))

    def _status(self, residual: float) -> Status:
        counts = [f"{count} in {name}" for name, count in self.iterations.items() if count]
        work = (
            f"{len(self.history['residual'])} iterations ({', '.join(counts)}) with a "
            f"preconditioner of rank {self.rank}; relative residual {residual:.1e}"
        )
        if residual <= self.goal:
            return Status(True, f"Solved: {work}.")
        if self.stopped:
            return Status(False, f"Stopped by {self.stopped}: {work}.", "Allow more, or Direct().")
        advice = "Raise the regularization or the rank, pass float64, or use Direct()."
        return Status(False, f"Not solved to {self.goal:.0e}: {work}.", advice)
