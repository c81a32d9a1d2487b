"""Ridge regression on all points without storing K: preconditioned conjugate gradients."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mercer.arrays import Array, as_numpy, namespace, to_precision
from mercer.features.centres import RandomlyPivoted
from mercer.operators import Gram
from mercer.runtime.machine import column_memory, float64_is_slow, value_cost
from mercer.solvers.driver import DERIVED, Callback, Progress, State
from mercer.solvers.early_stopping import HeldOut
from mercer.solvers.iterative import Iterative
from mercer.solvers.krylov import Step, conjugate_steps
from mercer.solvers.optimality import Residual, ridge_residual
from mercer.solvers.preconditioners.low_rank import (
    Columns,
    LowRank,
    RankBudget,
    block_bytes,
    grown,
    most_columns,
)
from mercer.solvers.problem import Problem, require_square_loss, require_squared_norm
from mercer.solvers.ridge_system import RidgeSystem
from mercer.solvers.solution import Solution, Status, plain_intercept


@dataclass(frozen=True)
class Tuning:
    """Numbers of conjugate gradients for ridge regression."""

    mixed_size: int = 2000  # points from which products in float32 with refinement are faster
    product_rounding: float = 0.02  # of ρ, which rounding of products in float32 may have: then a
    # correction gains a factor of about 50 before rounding stops it
    column_rounding: float = 0.1  # the same for columns of the preconditioner: they may be inexact
    workable: float = 0.3  # either, where float32 was asked for: a correction gains a factor of 3
    sample: int = 256  # rows on which rounding is measured
    refinements: int = 12  # corrections at most; three are usual
    stalled: float = 0.5  # of the residual: a correction that leaves more gains nothing
    margin: float = 0.7  # of the tolerance, for the recursion: the true residual is a little larger
    preconditioner_share: float = 1 / 3  # of a time limit, for the preconditioner: a third of that
    # for its columns, the rest for their products with each other


TOLERANCES = {"float64": 1e-6, "float32": 1e-4, "float32 on a card": 1e-3}


def default_tolerance(gram: Gram) -> float:
    """The relative residual that iterative solvers of ridge regression reach where none is asked.

    >>> from mercer.kernels import Linear
    >>> default_tolerance(Linear().gram(np.eye(2)))
    1e-06
    """
    return TOLERANCES["float32 on a card" if float64_is_slow(gram) else str(gram.dtype)]


def require_ridge(solver: Any, problem: Problem, *, null_space: bool = False) -> None:
    """Refuse what is no ridge regression with λ > 0."""
    require_square_loss(type(solver), problem, null_space=null_space)
    require_squared_norm(solver, problem)
    if problem.regularization <= 0:
        raise ValueError(
            f"{type(solver).__name__} needs regularization > 0; got 0. Direct() finds the "
            "interpolant of least norm."
        )


@dataclass(eq=False)
class RidgeState(State):
    """x, in columns the solutions of (SKS + ρI)x = Sy and, for an intercept, = S1.

    Iterations correct `x`, whose residual is known, until the correction is good enough.
    """

    x: Array = None
    correction: Array = None
    dtype: str = "float64"
    corrections: int = 0
    singles: int = 0  # iterations in float32
    certified: Residual | None = field(default=None, metadata=DERIVED)  # of x, where known
    residual: Array = field(default=None, repr=False, metadata=DERIVED)
    steps: Iterator[Step] | None = field(default=None, repr=False, metadata=DERIVED)


@dataclass(frozen=True)
class ConjugateGradient(Iterative):
    """Solve (K + nλ W⁻¹) α = y by conjugate gradients; K is multiplied by, and never stored.

    The preconditioner is K̂ + nλI with K̂ = FFᵀ from randomly pivoted Cholesky, so that iterations
    only meet the eigenvalues that K̂ misses. F gets columns as long as they are expected to save
    more iterations than they cost. Products with K are in float32 where their rounding is small
    beside nλ, and the residual is computed and corrected in float64 until it is small. With a null
    space of the penalty, as the polynomials of `ThinPlate()`, iterates are projected off it.

    Parameters
    ----------
    tolerance : float, optional
        The true residual, relative to y, to reach; by default 1e-6, 1e-4 for float32, and 1e-3
        for float32 on a card, where less takes corrections in float64, which are slow there.
    rank : int, optional
        Columns of F, which takes n·rank numbers; by default as many as pay, within the memory
        budget.
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
    stopping : HeldOut, optional
        Hold rows out, and return the iterate that predicts them best.
    checkpoint : path, optional
        Where the iterate is stored after each iteration; `solve(problem, resume=path)` goes on.
    tuning : Tuning

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

    library_of_points: ClassVar[bool] = True
    takes_null_space: ClassVar[bool] = True

    tolerance: float | None = None
    rank: int | None = None
    iterations: int = 2000
    mixed: bool | None = None
    random_state: int = 0
    time_limit: float | None = None
    callback: Callback | None = field(default=None, compare=False)
    stopping: HeldOut | None = None
    checkpoint: Any = None
    tuning: Tuning = field(default=Tuning(), repr=False)

    def goal(self, gram: Gram) -> float:
        """The relative residual to reach."""
        return self.tolerance or default_tolerance(gram)

    def mixes(self, gram: Gram) -> bool:
        """Whether float32 is used where rounding allows it."""
        if self.mixed is not None:
            return self.mixed
        return bool(gram.dtype == np.float32) or gram.shape[0] >= self.tuning.mixed_size

    # ---- the preconditioner ----------------------------------------------------------------------

    def columns(self, system: RidgeSystem, until: float = math.inf) -> Columns:
        """Columns of K for a preconditioner: enough for the λ of the problem, or as many as asked.

        They are in float32 where that is used and its rounding is small beside ρ. None are added
        after the time `until`.
        """
        problem, gram, n = system.problem, system.gram, system.problem.rows
        dtype = np.dtype(self._precision(system, self.tuning.column_rounding))
        most = most_columns(n, dtype.itemsize, column_memory(gram), gram.machine)
        most = min(n, self.rank or most)
        entry = value_cost(gram, self._precision(system, self.tuning.product_rounding))
        budget = RankBudget(system.ridge, self.goal(gram), n, math.inf if self.rank else entry)
        kernel: Any = gram.kernel
        if problem.polynomials is not None:
            if not gram.machine.uses_numpy:  # the anchored kernel is computed with NumPy
                return Columns(system.roots[:, :0], system.roots, system.ridge)
            kernel = kernel.anchored(gram.x)
        factors = RandomlyPivoted(most, self.random_state).growing(kernel, gram.x, dtype)
        weights = as_numpy(problem.sample_weights)
        columns = gram.x.vector(grown(_in_time(factors, until), weights, budget))
        size = block_bytes(gram.memory, gram.machine)
        if system.basis is None:
            return Columns(columns, system.roots, system.ridge, size)
        # Off the null space the anchored kernel is the kernel itself: both differ by polynomials.
        columns = system.projected(system.roots * to_precision(columns, "float64"))
        ones = system.xp.ones_like(system.roots)
        return Columns(to_precision(columns, dtype.name), ones, system.ridge, size)

    def _precision(self, system: RidgeSystem, share: float) -> str:
        """float32 where it is used, and K in float32 is off by no more than this share of ρ."""
        if not self.mixes(system.gram):
            return "float64"
        allowed = self.tuning.workable if self.mixed else share
        rounding = system.rounding(self.tuning.sample)
        return "float32" if rounding <= allowed * system.ridge else "float64"

    def shared(self, problem: Problem) -> SharedColumns:
        """Make what problems with several λ share; this one has the least."""
        return SharedColumns(self.columns(self._system(problem)))

    # ---- iterations ------------------------------------------------------------------------------

    def _system(self, problem: Problem) -> System:
        require_ridge(self, problem, null_space=True)
        return System(ConjugateGradient, problem)

    def begin(
        self,
        problem: Problem,
        start: Solution | None = None,
        shared: SharedColumns | None = None,
    ) -> RidgeState:
        system = self._system(problem)
        if shared is None:
            limit = self.tuning.preconditioner_share / 3 * (self.time_limit or math.inf)
            columns = self.columns(system, time.perf_counter() + limit)
            system.preconditioner = columns.preconditioner(system.ridge, overwrite=True)
        else:
            system.preconditioner = shared.columns.preconditioner(system.ridge)
            system.shared = shared
        x = system.started(start) if shared is None or shared.x is None else shared.x
        dtype = self._precision(system, self.tuning.product_rounding)
        state = RidgeState(work=system, x=x, correction=0.0 * x, dtype=dtype)
        state.history |= {"residual": [], "seconds": []}
        self._look(state)
        return state

    def _look(self, state: RidgeState) -> None:
        """The residual of x in float64, and whether that is small enough."""
        system, xp = state.work, state.work.xp
        moved = bool(xp.any(state.x != 0))
        state.residual = system.sides - system.multiply(state.x) if moved else system.sides
        if system.size(state.residual) <= self.goal(system.gram):
            state.finished = "the tolerance is reached"

    def step(self, state: RidgeState) -> RidgeState:
        """One iteration; where a correction is good enough, it is added and judged."""
        system, xp = state.work, state.work.xp
        if state.steps is None:
            if state.residual is None:  # resumed
                self._look(state)
            state.steps = self._correcting(state)
        step, scaled = next(state.steps), system.lengths(state.residual)
        state.correction = scaled * step.lifted
        state.iteration += 1
        state.singles += state.dtype == "float32"
        left = xp.linalg.vector_norm(step.residual, axis=0)
        state.record(residual=float(xp.max(left * scaled / system.scale)))
        wanted = self.tuning.margin * self.goal(system.gram) * system.scale / scaled
        if state.dtype == "float32":  # no more than products in float32 can tell
            error = system.rounding(self.tuning.sample)
            wanted = xp.maximum(wanted, error * xp.linalg.vector_norm(step.lifted, axis=0))
        if bool(xp.all(left <= wanted)):
            self._correct(state)
        return state

    def _correcting(self, state: RidgeState) -> Iterator[Step]:
        """Conjugate gradients for A⁻¹r, with r of size 1 so that float32 can hold it."""
        system, dtype = state.work, state.dtype
        return conjugate_steps(
            lambda d, raised: system.multiply(raised, dtype),
            system.preconditioner.solve,
            state.residual / system.lengths(state.residual),
        )

    def _correct(self, state: RidgeState, last: bool = False) -> None:
        """Take the correction where it lowers residual or energy; then see whether to go on.

        The last one on a card is judged on sampled rows alone: all of them in float64 would take as
        long as ten iterations.
        """
        system, goal = state.work, self.goal(state.work.gram)
        candidate = system.as_stored(state.x + state.correction)
        state.correction, state.steps = 0.0 * state.x, None
        state.corrections += 1
        if float64_is_slow(system.gram):  # sampled rows may tell that it is enough
            alpha, intercept = system.coefficients(candidate)
            sampled = ridge_residual(system.problem, alpha, intercept, system.single)
            if sampled.claimed <= goal or last:
                state.x, state.certified = candidate, sampled
                state.finished = "the tolerance is reached" if sampled.claimed <= goal else ""
                return
        rest = system.sides - system.multiply(candidate)
        before, after = system.size(state.residual), system.size(rest)
        better = system.energy(candidate, rest) < system.energy(state.x, state.residual)
        if after < before or better:
            state.x, state.residual = candidate, rest
        if system.size(state.residual) <= goal:
            state.finished = "the tolerance is reached"
        elif after > self.tuning.stalled * before and state.dtype == "float64":
            state.finished = "rounding"
        elif after > self.tuning.stalled * before:
            state.dtype = "float64"
        if state.corrections >= self.tuning.refinements:
            state.finished = state.finished or "rounding"

    # ---- the answer ------------------------------------------------------------------------------

    def progress(self, state: RidgeState) -> Progress:
        return Progress(*state.work.coefficients(state.x + state.correction))

    def solution(self, state: RidgeState) -> Solution:
        system, problem = state.work, state.asked
        if state.steps is not None:  # interrupted on the way
            self._correct(state, last=True)
        if system.shared is not None:
            system.shared.x = state.x
        at = self.progress(state)
        alpha = to_precision(at.coefficients, system.precision)
        wide = to_precision(alpha, "float64")
        constant = problem.fit_intercept or problem.null_space is not None
        residual = state.certified
        if residual is None or constant or problem.weights is not None:  # else α is x
            residual = ridge_residual(problem, wide, at.intercept)
        intercept, note = at.intercept, ""
        if state.stopped and problem.null_space is None:
            best, rest = _constant(problem)
            if residual.objective > rest.objective:
                # iterations lower the dual objective; f may first move away from the targets
                alpha, intercept, residual = 0.0 * alpha, best, rest
                note = "; a constant is better than what they have found, and is returned"
        return Solution(
            coefficients=alpha,
            status=self._status(state, residual, note),
            objective=residual.objective,
            gap=residual.claimed,
            history=state.history,
            intercept=plain_intercept(intercept),
        )

    def _status(self, state: RidgeState, residual: Residual, note: str = "") -> Status:
        counts = {"float32": state.singles, "float64": state.iteration - state.singles}
        each = ", ".join(f"{count} in {name}" for name, count in counts.items() if count)
        work = (
            f"{state.iteration} iterations{f' ({each})' if each else ''} with a preconditioner of "
            f"rank {state.work.preconditioner.columns.rank}; {residual}{note}"
        )
        goal = self.goal(state.work.gram)
        if residual.claimed <= goal:
            return Status(True, f"Solved: {work}.")
        if state.stopped:
            return Status(False, f"Stopped by {state.stopped}: {work}.", "Allow more, or Direct().")
        advice = "Raise the regularization or the rank, pass float64, or use Direct()."
        return Status(False, f"Not solved to {goal:.0e}: {work}.", advice)


@dataclass(eq=False)
class SharedColumns:
    """Shared by the problems of a path: columns of the preconditioner, the last solution."""

    columns: Columns
    x: Array | None = None


def _constant(problem: Problem) -> tuple[Array, Residual]:
    """The best constant, 0 where there is no intercept, and the residual of f = it alone."""
    xp, weights, y = namespace(problem.y), problem.sample_weights[:, None], problem.y_columns
    total, b = xp.sum(weights), 0.0 * y[0, :]
    if problem.fit_intercept:
        b = xp.sum(weights * y, axis=0) / total
    squares = xp.sum(weights * (y - b) ** 2, axis=0)
    sizes = xp.sum(weights * y**2, axis=0)
    sizes = xp.where(sizes > 0, sizes, 1.0)
    claimed = float(xp.max(xp.sqrt(squares / sizes)))
    objective = 0.5 * float(xp.sum(squares) / total)
    return xp.reshape(b, problem.y.shape[1:]), Residual(claimed, 0.0, objective)


def _in_time(factors: Iterator[Any], until: float) -> Iterator[Any]:
    for factor in factors:
        yield factor
        if time.perf_counter() >= until:
            return


class System(RidgeSystem):
    """The system with its preconditioner, and what other λ of a path share."""

    preconditioner: LowRank
    shared: SharedColumns | None = None
    seconds: float = 0.0  # of the last product, where that was in float64, or of two in float32

    def multiply(self, c: Array, dtype: str = "float64") -> Array:
        start = time.perf_counter()
        image = super().multiply(c, dtype)
        seconds = time.perf_counter() - start
        self.seconds = seconds if dtype == "float64" else 2.0 * seconds
        return image

    @property
    def reserve(self) -> float:
        """Seconds that the answer takes after the last step: two products in float64."""
        return 2.0 * self.seconds
