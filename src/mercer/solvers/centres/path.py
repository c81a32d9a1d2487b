"""Many regularisations on the same centres: one basis, one sample, warm starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mercer.arrays import floating, to_precision
from mercer.operators import Gram
from mercer.solvers.centres.basis import Basis, check_memory
from mercer.solvers.centres.descent import Descent
from mercer.solvers.centres.solver import CentresNewton
from mercer.solvers.problem import Problem
from mercer.solvers.solution import Solution


@dataclass(frozen=True, eq=False)
class PathPoint:
    """One λ of a path: its solution, and the mean loss on held-out points where there are some."""

    regularization: float
    solution: Solution
    held_out_risk: float


def centres_path(
    problem: Problem,
    regularizations: Sequence[float],
    solver: CentresNewton | None = None,
    held_out: tuple[Any, Any] | None = None,
) -> Iterator[PathPoint]:
    """Solve for one λ after the other, from the largest, each from the last one's solution.

    The factor of K_MM is computed once, and so are the moments of the preconditioner's sample for
    the square loss: a new λ only adds its multiple of the identity. Other losses keep them as long
    as their curvatures change little, and kinks begin as narrow as they ended. Points are given as
    they are found, so that whoever iterates may stop where the held-out risk rises.

    Parameters
    ----------
    problem : Problem
        Its own λ is not used.
    regularizations : sequence of float
        Values of λ, in any order.
    solver : CentresNewton, optional
    held_out : (points, targets), optional
        Samples to estimate the risk with.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> from mercer.solvers import Problem
    >>> from mercer.solvers.centres import centres_path, passes
    >>> k, X = Gaussian(0.3), np.linspace(0.0, 1.0, 200)[:, None]
    >>> rows = passes(k, k.points(X), k.points(X[::10]))
    >>> problem = Problem.on_centres(rows, np.sin(6 * X[:, 0]), Squared(), regularization=1.0)
    >>> [point.regularization for point in centres_path(problem, [1e-6, 1e-2, 1e-4])]
    [0.01, 0.0001, 1e-06]
    """
    solver = CentresNewton() if solver is None else solver
    check_memory(problem.operator, problem.y_columns.shape[1], solver.sample, problem.loss)
    basis, last, before = Basis(problem.operator), None, None
    for ridge in sorted(map(float, regularizations), reverse=True):
        descent = Descent(solver, replace(problem, regularization=ridge), basis)
        descent.take_over(before)
        last, before = descent.run(last), descent
        yield PathPoint(ridge, last, _risk(problem, last, held_out))


def _risk(problem: Problem, solution: Solution, held_out: tuple[Any, Any] | None) -> float:
    if held_out is None:
        return float("nan")
    points, y = held_out
    passes = problem.operator
    gram = Gram(passes.kernel, passes.kernel.points(points), passes.y)
    shift, y = (
        to_precision(floating(gram.x.vector(part)), "float64") for part in (solution.intercept, y)
    )
    values = to_precision(gram @ solution.coefficients, "float64")
    return float(problem.loss.risk(y, values + shift))
