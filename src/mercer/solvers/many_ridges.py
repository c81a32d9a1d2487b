"""Many regularisations on the whole Gram matrix: one set of columns, warm starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.arrays import on_host
from mercer.operators import Gram
from mercer.solvers.centres.path import PathPoint
from mercer.solvers.iterative import ConjugateGradient, Run, check_ridge, columns_for
from mercer.solvers.problem import Problem
from mercer.solvers.solution import Solution


def gram_path(
    problem: Problem,
    regularizations: Sequence[float],
    solver: ConjugateGradient | None = None,
    held_out: tuple[Any, Any] | None = None,
) -> Iterator[PathPoint]:
    """Solve for one λ after the other, from the largest, each from the last one's solution.

    The columns F of the preconditioner FFᵀ + nλI and FᵀF are computed once, for the smallest λ: a
    new λ only adds its multiple of the identity. Points are given as they are found, so that
    whoever iterates may stop where the held-out risk rises.

    Parameters
    ----------
    problem : Problem
        Ridge regression; its own λ is not used.
    regularizations : sequence of float
        Values of λ > 0, in any order.
    solver : ConjugateGradient, optional
        Its limits are for each λ.
    held_out : (points, targets), optional
        Samples to estimate the risk with.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> X = np.linspace(0.0, 1.0, 60)[:, None]
    >>> problem = Problem(Gaussian(0.3).gram(X), np.sin(6 * X[:, 0]), Squared(), regularization=1.0)
    >>> points = list(gram_path(problem, [1e-6, 1e-2, 1e-4]))
    >>> [point.regularization for point in points]
    [0.01, 0.0001, 1e-06]
    >>> all(point.solution.status.converged for point in points)
    True
    """
    solver = ConjugateGradient() if solver is None else solver
    ridges = sorted(map(float, regularizations), reverse=True)
    check_ridge(problem, ridges[-1])
    columns, start = columns_for(solver, replace(problem, regularization=ridges[-1])), None
    for ridge in ridges:
        run = Run(solver, replace(problem, regularization=ridge))
        solution = run.solution(columns, start)
        start = run.x
        yield PathPoint(ridge, solution, _risk(problem, solution, held_out))


def _risk(problem: Problem, solution: Solution, held_out: tuple[Any, Any] | None) -> float:
    if held_out is None:
        return float("nan")
    points, y = held_out
    kernel: Any = problem.gram.kernel
    gram = Gram(kernel, kernel.points(points), problem.gram.x)
    values = on_host(gram @ solution.coefficients) + on_host(solution.intercept)
    return float(problem.loss.risk(on_host(y), values.astype(np.float64)))
