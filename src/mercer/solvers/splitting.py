"""Operator splitting (ADMM): ridge regression and proximal maps in turn, for every loss."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.arrays import Array, namespace
from mercer.runtime.budget import require_room
from mercer.solvers.driver import Callback, Progress, State
from mercer.solvers.early_stopping import HeldOut
from mercer.solvers.iterative import Iterative
from mercer.solvers.optimality import Gap, certified_gap
from mercer.solvers.problem import Problem, over_rows, require_squared_norm
from mercer.solvers.solution import Solution, Status, plain_intercept
from mercer.solvers.spectral import SpectralPath

STORED = 6  # matrices of all pairs of points that an eigendecomposition holds at its peak


@dataclass(frozen=True)
class Tuning:
    """Numbers of the splitting; the sections are those of Boyd et al."""

    check_every: int = 10  # steps between two evaluations of the gap, which costs about as much
    relaxation: float = 1.6  # between 1 and 2; 1.5 to 1.8 is recommended, section 3.4.3
    imbalance: float = 5.0  # of primal and dual residual, which changes ρ by 2; section 3.4.1 has
    # 10, but on our losses 5 took fewer steps


@dataclass(eq=False)
class SplittingState(State):
    """z, the scaled dual variable v, ρ, and the best iterate so far by its duality gap."""

    z: Array = None
    v: Array = None
    rho: float = 1.0
    coefficients: Array = None
    intercept: Array = None
    objective: float = math.inf
    gap: float = math.inf


@dataclass(eq=False)
class Work:
    """The problem, its stored matrix, and its eigenvectors for all ridge regressions."""

    problem: Problem
    matrix: Array
    spectrum: SpectralPath

    def gap(self, coefficients: Any, intercept: Any, problem: Problem | None = None) -> Gap:
        return certified_gap(
            problem or self.problem, coefficients, intercept, lambda v: self.matrix @ v
        )


@dataclass(frozen=True)
class Splitting(Iterative):
    """The alternating direction method: min Σ p_i ℓ(y_i, z_i) + (λ/2)‖f‖² with z = f(x) + b.

    In turn, f is a ridge regression on z − v with regularisation λ/ρ, z_i the proximal map of
    ℓ(y_i, ·)/ρ at f(x_i) + b + v_i, and v grows by what is between them; p = w/Σw. ρv tends to the
    solution of the dual problem. One eigendecomposition serves every ρ, which follows the residuals
    on the way. It takes every loss that has a proximal map, with kinks too, and the gap is the true
    one; for many digits `Newton` and `DualAscent` are faster.

    Parameters
    ----------
    tolerance : float, default=1e-4
        The relative duality gap that ends the iteration.
    iterations : int, default=10000
        At most so many steps.
    callback : function of (iteration, Progress), optional
        Called after every tenth step with the best iterate so far; True stops.
    stopping : HeldOut, optional
        Hold rows out, and return the iterate that predicts them best.
    tuning : Tuning

    References
    ----------
    S. Boyd, N. Parikh, E. Chu, B. Peleato, J. Eckstein, Distributed optimization and statistical
    learning via the alternating direction method of multipliers, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Hinge
    >>> gram, y = Linear().gram([[1.0], [-1.0]]), np.array([1.0, -1.0])
    >>> solution = Splitting(1e-8).solve(Problem(gram, y, Hinge(), regularization=0.5))
    >>> bool(np.allclose(gram @ solution.coefficients, y))  # f(x) = x
    True
    """

    tolerance: float = 1e-4
    iterations: int = 10_000
    callback: Callback | None = field(default=None, compare=False)
    stopping: HeldOut | None = None
    tuning: Tuning = field(default=Tuning(), repr=False)

    def begin(self, problem: Problem, start: Solution | None = None) -> SplittingState:
        require_squared_norm(self, problem)
        if not problem.regularization > 0:
            raise ValueError("Splitting needs regularization > 0.")
        y, xp = problem.y, namespace(problem.y)
        gram = problem.gram.astype(np.float64)
        if gram.x.home == "host":
            what = f"Splitting stores K of {problem.rows} points and its eigenvectors, which"
            advice = "Write Newton() or DualAscent()"
            require_room(what, STORED * 8 * problem.rows**2, advice, gram.memory)
        matrix = problem.array(gram.dense())
        spectrum = SpectralPath.of(
            gram, y, problem.sample_weights, fit_intercept=problem.fit_intercept, matrix=matrix
        )
        z = xp.zeros_like(y)
        if start is not None:
            z = matrix @ problem.array(start.coefficients) + problem.array(start.intercept)
        smoothness = problem.loss.smoothness
        return SplittingState(
            work=Work(problem, matrix, spectrum),
            z=z,
            v=xp.zeros_like(y),
            rho=smoothness if math.isfinite(smoothness) else 1.0,
            coefficients=xp.zeros_like(y),
            intercept=xp.zeros_like(y[0, ...]),
        )

    def step(self, state: SplittingState) -> SplittingState:
        """Some steps, and a look at the gap after them."""
        work, problem = state.work, state.work.problem
        y, p = problem.y, over_rows(problem.shares, problem.y)
        count = min(self.tuning.check_every, self.iterations - state.iteration)
        for _ in range(count):
            alpha, intercept, values = work.spectrum.ridge_fit(
                state.z - state.v, problem.regularization / state.rho
            )
            before, relaxation = state.z, self.tuning.relaxation
            mixed = relaxation * values + (1.0 - relaxation) * before
            state.z = problem.loss.proximal(y, mixed + state.v, 1.0 / state.rho)
            state.v = state.v + mixed - state.z
        state.iteration += count
        self._judge(state, alpha, intercept)
        self._follow(state, p * (values - state.z) ** 2, p * (state.z - before) ** 2)
        return state

    def _judge(self, state: SplittingState, alpha: Array, intercept: Array) -> None:
        """Keep the better of two candidates: the ridge regression's α, and −ρpv/λ of the dual."""
        problem = state.work.problem
        p = over_rows(problem.shares, problem.y)
        for candidate in (alpha, (-state.rho / problem.regularization) * p * state.v):
            gap = state.work.gap(candidate, intercept)
            if gap.absolute < state.gap:
                state.coefficients, state.intercept = candidate, intercept
                state.objective, state.gap = gap.objective, gap.absolute
                state.error = 2.0 * gap.relative  # a margin, as coefficients may be rounded
        state.record(objective=state.objective, gap=state.gap, penalty=state.rho)

    def _follow(self, state: SplittingState, apart: Array, moved: Array) -> None:
        """Change ρ where one residual is much larger than the other; ρv stays."""
        xp = namespace(apart)
        primal, dual = (math.sqrt(float(xp.sum(squares))) for squares in (apart, moved))
        factor, far = 1.0, self.tuning.imbalance
        if primal > far * dual:
            factor = 2.0
        elif dual > far * primal:
            factor = 0.5
        state.rho, state.v = state.rho * factor, state.v / factor

    def progress(self, state: SplittingState) -> Progress:
        return Progress(state.coefficients, state.intercept, state.objective)

    def solution(self, state: SplittingState) -> Solution:
        at, problem = self.progress(state), state.asked
        coefficients = problem.stored(at.coefficients)
        gap = state.work.gap(coefficients, at.intercept, problem)
        converged = gap.relative <= self.tolerance
        text = f"{'Solved' if converged else 'Stopped'}: {gap} after {state.iteration} steps of "
        advice = "Scale the features, raise λ, or allow more iterations."
        status = Status(converged, f"{text}splitting.", "" if converged else advice)
        intercept = plain_intercept(at.intercept)
        return Solution(coefficients, status, gap.objective, gap.absolute, state.history, intercept)
