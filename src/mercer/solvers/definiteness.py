"""Kernels that are not positive definite: how they are detected, and what a status says then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import as_numpy, precision, to_precision
from mercer.kernels import laws
from mercer.kernels.custom import Precomputed
from mercer.operators import Gram
from mercer.solvers.problem import Problem, Solver
from mercer.solvers.solution import Solution, Status

TRIED_POINTS = 100  # points on which a kernel without a theorem is tried


def witness_of(gram: Gram) -> np.ndarray | None:
    """A unit vector v with vᵀKv < 0, or None: where laws decide nothing, by trying some points.

    The least eigenvalue of K on some of the points is no less than on all of them, so that a
    witness of these is one for K, while None proves nothing.

    >>> import numpy as np
    >>> from mercer.kernels import Gaussian, Precomputed
    >>> witness_of(Gaussian().gram([[0.0], [1.0]]))
    >>> K = np.array([[1.0, 2.0], [2.0, 1.0]])
    >>> v = witness_of(Precomputed(K).gram([0, 1]))
    >>> bool(np.isclose(v @ K @ v, -1.0))
    True
    """
    if getattr(gram.kernel, "positive_definite", None):  # stated in its class
        return None
    if laws.positive_definite(gram.kernel, getattr(gram.x, "width", None)).yes:
        return None
    n = gram.shape[0]
    rows = np.unique(np.linspace(0, n - 1, min(n, TRIED_POINTS)).astype(int))
    matrix = as_numpy(Gram(gram.kernel, gram.x.take(rows)).dense()).astype(np.float64)
    values, vectors = linalg.eigen(matrix)
    if not linalg.is_negative(values, matrix, precision(gram.dtype)):
        return None
    witness = np.zeros(n)
    witness[rows] = vectors[:, 0]
    return witness


def sentence(gram: Gram, witness: Any) -> str:
    """The sentence of a status about a witness.

    >>> import numpy as np
    >>> from mercer.kernels import Precomputed
    >>> gram = Precomputed(np.diag([1.0, -2.0])).gram([0, 1])
    >>> sentence(gram, np.array([0.0, 1.0]))
    'the kernel is not positive definite, vᵀKv = -2 for the unit vector v in `witness`'
    """
    value = float(witness @ as_numpy(gram @ gram.x.vector(witness)))
    return (
        f"the kernel is not positive definite, vᵀKv = {value:.3g} for the unit vector v in "
        "`witness`"
    )


def without_minimum(gram: Gram, witness: Any, note: str) -> Status:
    """The status of a system that was solved for a kernel that is not positive definite."""
    advice = "The system is solved, but for this kernel the objective has no minimum."
    return _no_minimum(gram, witness, f"; {note}", advice)


def as_stationary(gram: Gram, status: Status) -> Status:
    """The status of dual ascent, which says so where the kernel is not positive definite.

    The dual objective is not convex then, and has several stationary points. The gap is still a sum
    of nonnegative terms that vanish where the conditions of optimality hold, but bounds nothing.

    >>> import numpy as np
    >>> from mercer.kernels import Precomputed
    >>> gram = Precomputed(np.diag([1.0, -2.0])).gram([0, 1])
    >>> as_stationary(gram, Status(True, "Solved: gap 0.")).converged
    False
    """
    witness = witness_of(gram)
    if witness is None:
        return status
    note = (
        ". A stationary point, whose gap measures the conditions of optimality and bounds nothing. "
    )
    return _no_minimum(gram, witness, note + status.message, status.advice)


def solved_for_nearest(problem: Problem, solver: Solver) -> Solution:
    """The solution for the nearest positive semidefinite matrix, which the status says.

    With K = Σ λ_j v_jv_jᵀ that matrix is K₊ = Σ max(λ_j, 0) v_jv_jᵀ. α is projected onto the v_j
    with λ_j ≥ 0, so that Kα = K₊α: at the given points f has the values of the problem solved.

    >>> import numpy as np
    >>> from mercer.kernels import Precomputed
    >>> from mercer.losses import Logistic
    >>> from mercer.solvers import Newton
    >>> K = np.diag([1.0, 1.0, -2.0])
    >>> problem = Problem(
    ...     Precomputed(K).gram([0, 1, 2]), np.array([1.0, -1.0, 1.0]), Logistic(), 0.1
    ... )
    >>> solution = solved_for_nearest(problem, Newton())
    >>> bool(solution.coefficients[2] == 0), solution.status.converged
    (True, False)
    """
    gram = problem.gram
    values, vectors = map(as_numpy, linalg.eigen(to_precision(gram.dense(), "float64")))
    basis = vectors[:, values >= 0]
    matrix = (basis * values[values >= 0]) @ basis.T
    nearest = Precomputed(0.5 * (matrix + matrix.T)).gram(np.arange(gram.shape[0]))
    solution = solver.solve(replace(problem, operator=nearest))
    note = (
        f". Solved for the nearest positive semidefinite matrix instead. {solution.status.message}"
    )
    coefficients = (basis @ (basis.T @ as_numpy(solution.coefficients))).astype(gram.dtype)
    return replace(
        solution,
        coefficients=gram.x.vector(coefficients),
        status=_no_minimum(gram, vectors[:, 0], note),
    )


def _no_minimum(gram: Gram, witness: Any, note: str, advice: str = "") -> Status:
    advice = (
        f"{advice} Choose a positive definite kernel, as Gaussian(), or add a multiple of the "
        "identity to a precomputed matrix."
    )
    return Status(False, f"No minimum: {sentence(gram, witness)}{note}", advice.strip(), witness)
