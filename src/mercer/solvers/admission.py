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

from mercer.arrays import Array, beside, floating, is_tensor, on_host, to_precision
from mercer.distributed import Rows, is_collection, is_scattered
from mercer.distributed.admission import admitted as admitted_rows
from mercer.runtime.budget import Memory

if TYPE_CHECKING:
    from mercer.solvers.problem import Problem
    from mercer.solvers.solution import Solution

__all__ = [
    "admitted",
    "at_home",
    "beside_rows",
    "check_host_only",
    "column_memory",
    "digest",
    "float64_is_dear",
    "looked_at",
    "on_device",
    "on_host",
    "recomputes_faster",
    "returned",
    "stores_faster",
]


def at_home(values: Any, operator: Any) -> Array:
    """Values in float64 where an operator computes: on its device, or as an array of their library.

    >>> from mercer.kernels import Linear
    >>> at_home([1, 2], Linear().gram([[0.0], [1.0]])).tolist()
    [1.0, 2.0]
    """
    points = getattr(operator, "y", None)  # columns: blocks of rows are nowhere yet
    if points is not None and points.home != "host":
        values = points.vector(values)
    elif is_tensor(getattr(operator, "x", None)):  # rows of which features are computed
        values = beside(values, operator.x)
    elif is_tensor(values) or not hasattr(values, "__array_namespace__"):
        values = on_host(values)
    return to_precision(floating(values), "float64")


def beside_rows(values: Any, operator: Any) -> Any:
    """Arrays of Dask beside the rows of an operator on a cluster; other values as they are."""
    rows = getattr(operator, "x", None)
    rows = getattr(rows, "rows", rows)
    if not (is_collection(values) and isinstance(rows, Rows)):
        return values
    return admitted_rows(values, beside=rows, what="targets or weights")


def looked_at(values: Any) -> Array:
    """Values as NumPy's functions take them: here, unless their rows are on a cluster."""
    return values if is_scattered(values) else on_host(values)


def digest(values: Any) -> bytes:
    """A few bytes that differ where values differ; those of rows on a cluster are read there."""
    if is_scattered(values):
        return values.digest()
    return hashlib.sha256(np.ascontiguousarray(on_host(values)).tobytes()).digest()


def on_device(operator: Any) -> bool:
    """Whether an operator computes on a device."""
    return getattr(operator, "on_tensors", False)


def recomputes_faster(gram: Any) -> bool:
    """Whether K is computed faster than a stored K is read: so it is on a card with fused code."""
    return on_device(gram)


def float64_is_dear(operator: Any) -> bool:
    """Whether products in float64 take many times as long as in float32, as fused code on a card.

    An H200 computes 3.1·10¹² Gaussian values a second in float32, 0.26·10¹² in float64.
    """
    return operator.dtype == np.float32 and on_device(operator)


def stores_faster(gram: Any, width: int = 64, share: float = 0.4) -> bool:
    """Whether a card reads a stored K faster than it computes it, and has the memory.

    Reading takes 1 ps a value on an H200; the Gaussian takes 0.3 ps at d = 10, 8.6 ps at d = 784.
    """
    if not float64_is_dear(gram) or getattr(gram.x, "width", 0) < width:
        return False
    return 4 * gram.shape[0] * gram.shape[1] <= share * gram.x.free_memory()


def column_memory(gram: Any) -> Memory:
    """The memory budget for columns of K: half of what is free on a device, if none was set."""
    if gram.memory is not None or not on_device(gram):
        return gram.memory
    return gram.x.free_memory() // 2


def check_host_only(solver: Any, problem: Problem) -> None:
    """Refuse points on a device in a solver that computes with arrays of NumPy."""
    if on_device(problem.operator):
        raise ValueError(
            f"{type(solver).__name__} computes on the CPU and takes arrays of NumPy: write "
            "X.cpu().numpy(). Direct, SpectralPath and ConjugateGradient (square loss), Newton "
            "(smooth losses on all points, every loss on centres) take tensors."
        )


def admitted(solver: Any, problem: Problem) -> Problem:
    """The problem in arrays that the solver computes with; refused where it cannot."""
    host_only = getattr(solver, "host_only", False)
    if host_only:
        check_host_only(solver, problem)
    native = host_only or getattr(solver, "library_of_points", False)
    at_home = isinstance(problem.y, np.ndarray) or is_scattered(problem.y)
    if not native or at_home or on_device(problem.operator):
        return problem
    weights = None if problem.weights is None else on_host(problem.weights)
    return replace(problem, targets=on_host(problem.targets), weights=weights)


def returned(solution: Solution, problem: Problem) -> Solution:
    """A solution in the library of the problem's targets."""
    y, v = problem.y, solution.coefficients
    if type(v) is type(y):
        return solution
    intercept = solution.intercept
    if np.ndim(intercept):
        intercept = beside(intercept, y)
    return replace(solution, coefficients=beside(v, y), intercept=intercept)
