"""Many regularisations of one problem: shared work, warm starts, held-out errors."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mercer.losses import Squared
from mercer.operators import Gram
from mercer.runtime.machine import float64_is_slow
from mercer.solvers.admission import admitted, at_home, returned
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.driver import drive, ended
from mercer.solvers.early_stopping import HeldOut, HeldOutRows
from mercer.solvers.newton import Newton
from mercer.solvers.problem import Problem
from mercer.solvers.solution import Solution


@dataclass(frozen=True, eq=False)
class PathPoint:
    """One λ of a path: its solution, and the mean loss on held-out points where there are some.

    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> problem = Problem(Gaussian().gram(np.eye(3)), np.ones(3), Squared(), 1.0)
    >>> [point.regularization for point in regularization_path(problem, [1.0, 0.1])]
    [1.0, 0.1]
    """

    regularization: float
    solution: Solution
    held_out_risk: float

    @property
    def usable(self) -> bool:
        """Whether it is solved, or so nearly that predictions are as good."""
        return self.solution.status.converged or self.solution.gap <= USABLE


def regularization_path(
    problem: Problem,
    regularizations: Sequence[float],
    solver: Any = None,
    held_out: tuple[Any, Any] | HeldOut | None = None,
) -> Iterator[PathPoint]:
    """Solve for one λ after the other, from the largest, each from the last one's solution.

    What does not depend on λ is computed once: the columns of the preconditioner of
    `ConjugateGradient`, the stored matrix of `Newton`, and on centres the factor of K_MM and the
    moments of sampled rows. Points are given as they are computed, so that the caller may stop
    where the held-out risk rises.

    Parameters
    ----------
    problem : Problem
        Its own λ is not used.
    regularizations : sequence of float
        Values of λ > 0, in any order.
    solver : ConjugateGradient or Newton, optional
        Its limits are for each λ; by default the one that is made for the problem.
    held_out : (points, targets) or HeldOut, optional
        Samples to estimate the risk with, or which rows of the problem are not fitted for that.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> X = np.linspace(0.0, 1.0, 60)[:, None]
    >>> problem = Problem(Gaussian(0.3).gram(X), np.sin(6 * X[:, 0]), Squared(), regularization=1.0)
    >>> points = list(regularization_path(problem, [1e-6, 1e-2, 1e-4]))
    >>> [point.regularization for point in points]
    [0.01, 0.0001, 1e-06]
    >>> all(point.solution.status.converged for point in points)
    True
    """
    solver = _default_solver(problem) if solver is None else solver
    ridges = sorted(map(float, regularizations), reverse=True)
    hidden = HeldOutRows(held_out, problem) if isinstance(held_out, HeldOut) else None
    problem = problem if hidden is None else hidden.rest
    shared = solver.shared(replace(problem, regularization=ridges[-1]))
    last: Solution | None = None
    for ridge in ridges:
        last = drive(solver, replace(problem, regularization=ridge), last, shared=shared)
        if isinstance(hidden, HeldOutRows):
            risk = hidden.risk(last.coefficients, last.intercept)
        else:
            risk = _risk(problem, last, held_out)
        yield PathPoint(ridge, last, risk)


WORTH = 2.0  # a smaller λ is tried where it can be smaller by this
MARGIN = 0.6  # of the time left that the next one may be expected to take
USABLE = 0.03  # residual of iterations that were stopped, up to which predictions are as good
LOOK = 0.25  # of the time left after which iterations that will not get there are given up
HIGHER = 10.0, 100.0  # times λ, at least and at most, after that


def smallest_in_time(
    problem: Problem, seconds: float, first: float, solver: ConjugateGradient | None = None
) -> PathPoint:
    """Solve for a λ as near that of the problem as the time allows, beginning with a larger one.

    Conjugate gradients take about 1/√λ iterations, so that each λ tells how small the next can be,
    or how large it must be. Iterates that are stopped long before they converge predict worse than
    the solution for a larger λ. Where float64 is slow no λ is tried that needs it. The point is not
    `usable` where there was time for none.

    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> X = np.linspace(0.0, 1.0, 60)[:, None]
    >>> problem = Problem(Gaussian(0.3).gram(X), np.sin(6 * X[:, 0]), Squared(), 1e-3)
    >>> smallest_in_time(problem, seconds=60.0, first=0.1).regularization
    0.001
    """
    end = time.perf_counter() + seconds
    solver = ConjugateGradient() if solver is None else solver
    least, slow = float(problem.regularization), float64_is_slow(problem.gram)
    if slow:
        least = max(least, solver.least_single(problem))
    room = solver.tuning.preconditioner_share * seconds
    shared = solver.shared(replace(problem, regularization=least), room)
    at, best = max(first, least), None
    while True:
        start = time.perf_counter()
        solution = _attempt(solver, replace(problem, regularization=at), shared, end)
        point = PathPoint(at, solution, math.nan)
        if point.usable or best is None:
            best = point
        took, left = time.perf_counter() - start, MARGIN * (end - time.perf_counter())
        if left <= 0:
            return best
        if point.usable:
            smaller = max(least, at * (took / left) ** 2)
            if at <= least or (smaller > least and smaller * WORTH > at):
                return best
            at = smaller
        else:
            least = WORTH * at
            needed = took * _rest(solution.history["residual"])
            at *= min(max(HIGHER[0], (needed / left) ** 2), HIGHER[1])
        if slow:
            shared.x = None  # its residual would take a product in float64


def _attempt(solver: ConjugateGradient, problem: Problem, shared: Any, end: float) -> Solution:
    """Iterations up to the end of the time, or until it is clear that it does not suffice."""
    asked, problem = problem, admitted(solver, problem)
    start = time.perf_counter()
    state = solver.begin(problem, None, shared)
    state.asked = problem
    while not ended(solver, state):
        state = solver.step(state)
        now = time.perf_counter()
        state.record(seconds=now - start)
        gone, whole = now - start, end - start
        hopeless = gone * _rest(state.history["residual"]) > whole and gone > LOOK * whole
        if now >= end or hopeless:
            state.stopped = "the time limit"
    return returned(solver.solution(state), asked)


def _rest(residuals: list[float]) -> float:
    """Times the time so far that residuals which fall at this rate take until they are small."""
    return math.log(USABLE) / math.log(min(residuals[-1], 0.99)) if residuals else math.inf


def _default_solver(problem: Problem) -> Any:
    squares = isinstance(problem.loss, Squared) and problem.on_all_points
    return ConjugateGradient() if squares else Newton()


def _risk(problem: Problem, solution: Solution, held_out: Any) -> float:
    if held_out is None:
        return float("nan")
    points, y = held_out
    kernel = problem.operator.kernel
    cross = Gram(kernel, kernel.points(points), problem.operator.y)
    y, v, b = (at_home(part, cross) for part in (y, solution.coefficients, solution.intercept))
    return float(problem.loss.risk(y, cross @ v + b))
