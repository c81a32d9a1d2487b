"""Many regularisations of one problem: shared work, warm starts, held-out errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mercer.losses import Squared
from mercer.operators import Gram
from mercer.solvers.admission import at_home
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.driver import drive
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
