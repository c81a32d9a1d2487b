"""Ridge regression by factorisation: exact, with the residual to show for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, beside, namespace, on_host, precision, to_precision
from mercer.errors import NotPositiveDefiniteError
from mercer.solvers.definiteness import without_minimum, witness_of
from mercer.solvers.krylov import conjugate_gradients
from mercer.solvers.problem import Problem, has_few_features, require_square_loss
from mercer.solvers.solution import Solution, Status

MIXED_SIZE = 2000  # from which a float32 factor with refinement is faster than a float64 one
REFINEMENTS = 12
PRIMAL_REFINEMENTS = 4
SOLVED = {"float32": 1e-2, "float64": 1e-6}  # residuals beyond which nothing was solved
GOOD_RESIDUAL = 1e-12


@dataclass(frozen=True)
class Direct:
    """Solve (K + nλ W⁻¹) α = y by a Cholesky factorisation.

    With weights w and s = √w the system is (SKS + λΣw I) c = s(y − b), α = s c, which is symmetric
    and takes weights of 0; an intercept b makes sᵀc = 0. With λ = 0 the solution of least norm is
    taken, by eigendecomposition. float64 problems of some size are factored in float32 and refined
    by conjugate gradients in float64 until the residual is as small as a float64 factor's, or
    factored again in float64 where that does not work out. Where the kernel turns out not to be
    positive definite the system is solved all the same, by eigendecomposition if need be; as the
    objective has no minimum then, the status says "not converged", and holds a witness.

    Parameters
    ----------
    mixed : bool or None, default=None
        Whether to factor in float32 and refine; None decides by size.
    primal : bool or None, default=None
        Whether to solve for the weights of the kernel's explicit features, of which there must be
        finitely many; None does where they are fewer than half the points.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> X, y = np.linspace(0, 1, 5)[:, None], np.arange(5.0)
    >>> gram = Gaussian().gram(X)
    >>> solution = Direct().solve(Problem(gram, y, Squared(), regularization=0.1))
    >>> bool(np.allclose((gram.dense() + 0.5 * np.eye(5)) @ solution.coefficients, y))
    True
    """

    mixed: bool | None = None
    primal: bool | None = None

    def solve(self, problem: Problem) -> Solution:
        require_square_loss(Direct, problem)
        system = _System(problem)
        if system.ridge == 0.0:
            return system.minimum_norm()
        if self.primal or (self.primal is None and has_few_features(problem.gram)):
            return system.primal()
        if self._mixes(problem):
            refined = system.refined()
            if refined is not None:
                return refined
        return system.factored()

    def _mixes(self, problem: Problem) -> bool:
        if problem.gram.dtype != np.float64:
            return False
        if problem.gram.on_tensors and self.mixed is None:
            return False  # a card for computing has float64 as fast as float32
        return problem.gram.shape[0] >= MIXED_SIZE if self.mixed is None else self.mixed


class _System:
    """(SKS + ρI) c = s(y − b), sᵀc = 0 with an intercept, in the library of the targets."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.gram = problem, problem.gram
        self.precision = precision(self.gram.dtype)
        self.xp = namespace(problem.y)
        self.roots = self.xp.sqrt(problem.sample_weights)[:, None]
        self.ridge = problem.regularization * float(self.xp.sum(problem.sample_weights))
        self.targets = self.xp.reshape(problem.y, (problem.y.shape[0], -1))
        columns = [self.roots * self.targets]
        if problem.fit_intercept:
            columns.append(self.roots)
        self.sides = self.xp.concat(columns, axis=1)
        self.witness: Any = witness_of(self.gram)

    def multiply(self, c: Array) -> Array:
        return self.roots * (self.gram @ (self.roots * c)) + self.ridge * c

    def factored(self) -> Solution:
        """One factorisation in the precision of the Gram matrix."""
        matrix = self._matrix(self.gram, self.ridge)
        try:
            factor = linalg.cholesky(matrix, overwrite=True)
        except NotPositiveDefiniteError as refusal:
            return self._indefinite(matrix, refusal.witness)
        solved = to_precision(factor.solve(to_precision(self.sides, self.precision)), "float64")
        return self._solution(solved, _jitter_note(factor.jitter, self.precision))

    def _indefinite(self, matrix: Array, direction: Array) -> Solution:
        """The solution of least norm where K + ρI is not positive definite: not a minimum."""
        witness = on_host(self.roots[:, 0]) * on_host(direction)
        self.witness = witness / np.linalg.norm(witness)
        solved, rank = linalg.symmetric_solve(matrix, to_precision(self.sides, self.precision))
        note = f"eigendecomposition of an indefinite matrix of rank {rank} of {matrix.shape[0]}"
        return self._solution(to_precision(solved, "float64"), note)

    def refined(self) -> Solution | None:
        """A float32 factor, and conjugate gradients in float64; None where that fails."""
        try:
            single = self._matrix(self.gram.astype(np.float32), self.ridge)
            factor = linalg.cholesky(single, overwrite=True)
        except ValueError:  # not positive definite, or beyond the range of float32
            return None
        if factor.jitter > 0:
            return None
        run = conjugate_gradients(
            self.multiply,
            lambda r: to_precision(factor.solve(to_precision(r, "float32")), "float64"),
            self.sides,
            tolerance=1e-15,
            iterations=REFINEMENTS,
        )
        if run.residual > GOOD_RESIDUAL:
            return None
        note = f"factored in float32, refined in float64 in {len(run.history) - 1} steps"
        return self._solution(run.solution, note)

    def primal(self) -> Solution:
        """(SKS + ρI)⁻¹ = (I − Φ(ΦᵀΦ + ρI)⁻¹Φᵀ)/ρ for SKS = ΦΦᵀ: the inversion lemma."""
        explicit = beside(self.gram.kernel.features(self.gram.x), self.sides)  # type: ignore[attr-defined]
        features = self.roots * to_precision(explicit, "float64")
        matrix = linalg.shift_diagonal(features.T @ features, self.ridge)
        factor = linalg.cholesky(matrix, overwrite=True)
        weights = factor.solve(features.T @ self.sides)
        note = f"primal system of {matrix.shape[0]} features, " + _jitter_note(
            factor.jitter, "float64"
        )
        solved = (self.sides - features @ weights) / self.ridge
        for _ in range(PRIMAL_REFINEMENTS):  # the difference lost digits: get them back
            rest = self.sides - features @ (features.T @ solved) - self.ridge * solved
            solved = solved + (rest - features @ factor.solve(features.T @ rest)) / self.ridge
        return self._solution(solved, note)

    def minimum_norm(self) -> Solution:
        """λ = 0: the function of least norm among those with the least error."""
        matrix = self._matrix(self.gram, 0.0)
        solved, rank = linalg.symmetric_solve(matrix, to_precision(self.sides, self.precision))
        solved = to_precision(solved, "float64")
        note = f"least norm; the Gram matrix has rank {rank} of {matrix.shape[0]}"
        unreached = self.sides - to_precision(matrix, "float64") @ solved
        return self._solution(solved, note, self._intercept_of_null_space(unreached))

    def _intercept_of_null_space(self, unreached: Array) -> Array | None:
        """b by least squares in the null space of SKS, where it reaches the constants."""
        if not self.problem.fit_intercept:
            return None
        targets, constant = unreached[:, :-1], unreached[:, -1]
        size = float(constant @ constant)
        if size <= 1e-10 * float(self.xp.sum(self.roots**2)):
            return None
        return (constant @ targets) / size

    def _matrix(self, gram: Any, ridge: float) -> Array:
        """SKS + ρI, stored."""
        matrix = beside(gram.dense(), self.sides)
        if self.problem.weights is not None:
            roots = to_precision(self.roots, precision(gram.dtype))
            matrix *= roots
            matrix *= roots.T
        return linalg.shift_diagonal(matrix, ridge) if ridge else matrix

    def _solution(self, solved: Array, note: str, intercept: Array | None = None) -> Solution:
        c, intercept = self._without_mean(solved, intercept)
        alpha = self.roots * c
        residual = self._residual(alpha, intercept)
        if self.ridge == 0.0:
            residual = self._slope(alpha, intercept)
        shape = tuple(self.problem.y.shape)
        coefficients = to_precision(self.xp.reshape(alpha, shape), self.precision)
        intercept = intercept if len(shape) == 2 else float(intercept[0])
        return Solution(
            coefficients=coefficients,
            status=self._status(note, residual),
            objective=self.problem.objective(coefficients, intercept),
            gap=residual,
            intercept=intercept,
        )

    def _status(self, note: str, residual: float) -> Status:
        text = f"{note}; relative residual {residual:.1e}."
        if not residual <= SOLVED[self.precision]:
            advice = (
                "Check that the kernel is symmetric, raise the regularization, or pass float64."
            )
            return Status(False, f"Not solved: {text}", advice, self.witness)
        if self.witness is None:
            return Status(True, f"Solved: {text}")
        return without_minimum(self.gram, self.witness, text)

    def _without_mean(self, solved: Array, intercept: Array | None) -> tuple[Array, Array]:
        """Eliminate the intercept: c = M⁻¹s y − b M⁻¹s, with sᵀc = 0 unless b is known."""
        outputs = self.targets.shape[1]
        if not self.problem.fit_intercept:
            return solved, 0.0 * self.targets[0, :]
        c, means = solved[:, :outputs], solved[:, outputs:]
        if intercept is None:
            intercept = (self.roots.T @ c)[0, :] / float((self.roots.T @ means)[0, 0])
        return c - means * intercept, intercept

    def _slope(self, alpha: Array, intercept: Array) -> float:
        """‖SKS r‖/(trace ‖Sy‖) for r = S(y − Kα − b): 0 where the error is least."""
        rest = self.roots * (self.targets - self.gram @ alpha - intercept)
        size = float(abs(self.gram.diagonal()).sum())
        slope = self.roots * (self.gram @ (self.roots * rest))
        return self._norm(slope) / (size * self._norm(self.roots * self.targets) or 1.0)

    def _residual(self, alpha: Array, intercept: Array) -> float:
        """‖S(Kα + b − y) + ρ S⁻¹α‖/‖Sy‖, from scratch."""
        fitted = self.gram @ alpha
        counted = self.roots > 0
        scaled = self.xp.where(counted, alpha / self.xp.where(counted, self.roots, 1.0), 0.0)
        difference = self.roots * (fitted + intercept - self.targets) + self.ridge * scaled
        return self._norm(difference) / (self._norm(self.roots * self.targets) or 1.0)

    def _norm(self, array: Array) -> float:
        return float(self.xp.linalg.vector_norm(array))


def _jitter_note(jitter: float, dtype: str) -> str:
    if jitter == 0.0:
        return f"Cholesky factorisation in {dtype}"
    digits = math.log10(jitter)
    return (
        f"Cholesky factorisation in {dtype} after adding {jitter:.1e} (10^{digits:.0f}) to the "
        "diagonal, since rounding made the matrix indefinite"
    )
