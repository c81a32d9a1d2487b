"""Where numbers enter solvers and leave them: the one module that asks where an array lives.

Targets and weights are brought to where the operator of a problem computes; between here and the
solution code is written against the array API. Solvers that compute with NumPy only say so by
`host_only = True`: points on a device are refused, arrays of another library are converted, and the
solution goes back to that library. Those that compute with stored parts of K say
`library_of_points = True`: targets of another library are converted to that of the points.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.arrays import Array, as_numpy, beside, floating, is_tensor, to_precision
from mercer.distributed import Rows, is_collection, is_scattered
from mercer.distributed.admission import admitted as admitted_rows

if TYPE_CHECKING:
    from mercer.solvers.problem import Problem
    from mercer.solvers.solution import Solution

__all__ = [
    "admitted",
    "at_home",
    "check_host_only",
    "digest",
    "read",
    "returned",
]


def at_home(values: Any, operator: Any) -> Array:
    """Values in float64 where an operator computes: on its device, or as an array of their library.

    >>> from mercer.kernels import Linear
    >>> at_home([1, 2], Linear().gram([[0.0], [1.0]])).tolist()
    [1.0, 2.0]
    """
    points = getattr(operator, "y", None)  # columns: blocks of rows are nowhere yet
    if points is not None and (points.home != "host" or isinstance(values, np.ndarray)):
        values = points.vector(values)
    elif is_tensor(getattr(operator, "x", None)):  # rows of which features are computed
        values = beside(values, operator.x)
    elif is_tensor(values):  # on the CPU it stays one, as arrays of other libraries do
        values = values if values.device.type == "cpu" else as_numpy(values)
    elif not hasattr(values, "__array_namespace__"):
        values = as_numpy(values)
    return to_precision(floating(values), "float64")


def read(values: Any, operator: Any) -> Any:
    """Values as an array: a list as NumPy's, one of Dask beside the rows of the operator.

    >>> read([1, 2], None).tolist()
    [1, 2]
    """
    if isinstance(values, (list, tuple)):
        return np.asarray(values)
    rows = getattr(operator, "x", None)
    rows = getattr(rows, "rows", rows)
    if not isinstance(rows, Rows) or not is_collection(values):
        return values
    return admitted_rows(values, beside=rows, what="targets or weights")


def digest(values: Any) -> bytes:
    """A few bytes that differ where values differ; those of rows on a cluster are read there."""
    if is_scattered(values):
        return values.digest()
    return hashlib.sha256(np.ascontiguousarray(as_numpy(values)).tobytes()).digest()


def check_host_only(solver: Any, problem: Problem) -> None:
    """Refuse points on a device in a solver that computes with arrays of NumPy."""
    if not problem.operator.machine.uses_numpy:
        raise ValueError(
            f"{type(solver).__name__} computes on the CPU and takes arrays of NumPy: write "
            "X.cpu().numpy(). Direct, SpectralPath and ConjugateGradient (square loss), Newton "
            "(smooth losses on all points, every loss on centres) take tensors."
        )
    if is_scattered(problem.y):
        raise ValueError(
            f"{type(solver).__name__} has a coefficient for each row and meets them one by one; "
            "these rows are on a cluster: write Newton() or MiniBatch(...) with "
            "Problem.on_centres(...) or Problem.on_features(...), or DoublyStochastic(...)."
        )


def admitted(solver: Any, problem: Problem) -> Problem:
    """The problem in arrays that the solver computes with; refused where it cannot."""
    host_only = getattr(solver, "host_only", False)
    if host_only:
        check_host_only(solver, problem)
    native = host_only or getattr(solver, "library_of_points", False)
    at_home = isinstance(problem.y, np.ndarray) or is_scattered(problem.y)
    if not native or at_home or not problem.operator.machine.uses_numpy:
        return problem
    weights = None if problem.weights is None else as_numpy(problem.weights)
    return replace(problem, targets=as_numpy(problem.targets), weights=weights)


def returned(solution: Solution, problem: Problem) -> Solution:
    """A solution in the library of the problem's targets."""
    y, v = problem.y, solution.coefficients
    if type(v) is type(y):
        return solution
    intercept = solution.intercept
    if np.ndim(intercept):
        intercept = beside(intercept, y)
    return replace(solution, coefficients=beside(v, y), intercept=intercept)
