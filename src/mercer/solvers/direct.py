"""Ridge regression by factorisation: exact, with the residual to show for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mercer import linalg
from mercer.losses import Squared
from mercer.solvers.conjugate import conjugate_gradients
from mercer.solvers.problem import Problem
from mercer.solvers.root import feature_count
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
    factored again in float64 where that does not work out.

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
    >>> X, y = np.linspace(0, 1, 5)[:, None], np.arange(5.0)
    >>> gram = Gaussian().gram(X)
    >>> solution = Direct().solve(Problem(gram, y, Squared(), regularization=0.1))
    >>> bool(np.allclose((gram.dense() + 0.5 * np.eye(5)) @ solution.coefficients, y))
    True
    """

    mixed: bool | None = None
    primal: bool | None = None

    def solve(self, problem: Problem) -> Solution:
        if not isinstance(problem.loss, Squared):
            raise ValueError(f"Direct solves the square loss; got {problem.loss!r}.")
        system = _System(problem)
        if system.ridge == 0.0:
            return system.minimum_norm()
        if self.primal or (self.primal is None and system.has_few_features()):
            return system.primal()
        if self._mixes(problem):
            refined = system.refined()
            if refined is not None:
                return refined
        return system.factored()

    def _mixes(self, problem: Problem) -> bool:
        if problem.gram.dtype != np.float64:
            return False
        return problem.gram.shape[0] >= MIXED_SIZE if self.mixed is None else self.mixed


class _System:
    """(SKS + ρI) c = s(y − b), sᵀc = 0 with an intercept."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.gram = problem, problem.gram
        n = self.gram.shape[0]
        weights = np.ones(n) if problem.weights is None else np.asarray(problem.weights, float)
        self.roots = np.sqrt(weights)[:, None]
        self.ridge = float(problem.regularization * weights.sum())
        self.targets = np.asarray(problem.targets, np.float64).reshape(n, -1)
        columns = [self.roots * self.targets]
        if problem.fit_intercept:
            columns.append(self.roots)
        self.sides = np.concatenate(columns, axis=1)

    def multiply(self, c: np.ndarray) -> np.ndarray:
        return self.roots * (self.gram @ (self.roots * c)) + self.ridge * c

    def factored(self) -> Solution:
        """One factorisation in the precision of the Gram matrix."""
        factor = self._factor(self.gram.dense())
        solved = factor.solve(self.sides.astype(factor.lower.dtype)).astype(np.float64)
        return self._solution(solved, _jitter_note(factor.jitter, factor.lower.dtype))

    def refined(self) -> Solution | None:
        """A float32 factor, and conjugate gradients in float64; None where that fails."""
        try:
            factor = self._factor(self.gram.astype(np.float32).dense())
        except ValueError:  # not positive definite, or beyond the range of float32
            return None
        if factor.jitter > 0:
            return None
        run = conjugate_gradients(
            self.multiply,
            lambda r: factor.solve(r.astype(np.float32)).astype(np.float64),
            self.sides,
            tolerance=1e-15,
            iterations=REFINEMENTS,
        )
        if run.residual > GOOD_RESIDUAL:
            return None
        note = f"factored in float32, refined in float64 in {len(run.history) - 1} steps"
        return self._solution(run.solution, note)

    def has_few_features(self) -> bool:
        count = feature_count(self.gram)
        return count is not None and 2 * count < self.gram.shape[0]

    def primal(self) -> Solution:
        """(SKS + ρI)⁻¹ = (I − Φ(ΦᵀΦ + ρI)⁻¹Φᵀ)/ρ for SKS = ΦΦᵀ: the inversion lemma."""
        features = self.roots * self.gram.kernel.features(self.gram.x)  # type: ignore[attr-defined]
        matrix = features.T @ features
        matrix.flat[:: len(matrix) + 1] += self.ridge
        factor = linalg.cholesky(matrix, overwrite=True)
        weights = factor.solve(features.T @ self.sides)
        note = f"primal system of {len(matrix)} features, " + _jitter_note(
            factor.jitter, matrix.dtype
        )
        solved = (self.sides - features @ weights) / self.ridge
        for _ in range(PRIMAL_REFINEMENTS):  # the difference lost digits: get them back
            rest = self.sides - features @ (features.T @ solved) - self.ridge * solved
            solved += (rest - features @ factor.solve(features.T @ rest)) / self.ridge
        return self._solution(solved, note)

    def minimum_norm(self) -> Solution:
        """λ = 0: the function of least norm among those with the least error."""
        matrix = self.roots * self.gram.dense() * self.roots.T
        solved, rank = linalg.symmetric_solve(matrix, self.sides.astype(matrix.dtype))
        solved = solved.astype(np.float64)
        note = f"least norm; the Gram matrix has rank {rank} of {len(matrix)}"
        unreached = self.sides - matrix @ solved
        return self._solution(solved, note, self._intercept_of_null_space(unreached))

    def _intercept_of_null_space(self, unreached: np.ndarray) -> np.ndarray | None:
        """b by least squares in the null space of SKS, where it reaches the constants."""
        if not self.problem.fit_intercept:
            return None
        targets, constant = unreached[:, :-1], unreached[:, -1]
        size = float(constant @ constant)
        if size <= 1e-10 * float((self.roots**2).sum()):
            return None
        return (constant @ targets) / size

    def _factor(self, matrix: np.ndarray) -> linalg.Factor:
        matrix *= self.roots.astype(matrix.dtype)
        matrix *= self.roots.T.astype(matrix.dtype)
        matrix.flat[:: len(matrix) + 1] += matrix.dtype.type(self.ridge)
        return linalg.cholesky(matrix, overwrite=True)

    def _solution(
        self, solved: np.ndarray, note: str, intercept: np.ndarray | None = None
    ) -> Solution:
        c, intercept = self._without_mean(solved, intercept)
        alpha = self.roots * c
        residual = self._residual(alpha, intercept)
        if self.ridge == 0.0:
            residual = self._slope(alpha, intercept)
        shape = np.shape(self.problem.targets)
        coefficients = alpha.reshape(shape).astype(self.gram.dtype)
        objective = self.problem.objective(coefficients, intercept)
        return Solution(
            coefficients=coefficients,
            status=_status(note, residual, residual <= SOLVED[str(self.gram.dtype)]),
            objective=objective,
            gap=residual,
            intercept=intercept if len(shape) == 2 else float(intercept[0]),
        )

    def _without_mean(
        self, solved: np.ndarray, intercept: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Eliminate the intercept: c = M⁻¹s y − b M⁻¹s, with sᵀc = 0 unless b is known."""
        outputs = self.targets.shape[1]
        if not self.problem.fit_intercept:
            return solved, np.zeros(outputs)
        c, means = solved[:, :outputs], solved[:, outputs:]
        if intercept is None:
            intercept = (self.roots.T @ c)[0] / float((self.roots.T @ means)[0, 0])
        return c - means * intercept, intercept

    def _slope(self, alpha: np.ndarray, intercept: np.ndarray) -> float:
        """‖SKS r‖/(trace ‖Sy‖) for r = S(y − Kα − b): 0 where the error is least."""
        rest = self.roots * (self.targets - self.gram @ alpha - intercept)
        scale = float(self.gram.diagonal().sum()) * np.linalg.norm(self.roots * self.targets)
        slope = self.roots * (self.gram @ (self.roots * rest))
        return float(np.linalg.norm(slope) / (scale or 1.0))

    def _residual(self, alpha: np.ndarray, intercept: np.ndarray) -> float:
        """‖S(Kα + b − y) + ρ S⁻¹α‖/‖Sy‖, from scratch."""
        fitted = self.gram @ alpha.astype(np.float64)
        scaled = np.divide(alpha, self.roots, out=np.zeros_like(alpha), where=self.roots > 0)
        difference = self.roots * (fitted + intercept - self.targets) + self.ridge * scaled
        scale = np.linalg.norm(self.roots * self.targets) or 1.0
        return float(np.linalg.norm(difference) / scale)


def _status(note: str, residual: float, solved: bool) -> Status:
    if solved:
        return Status(True, f"Solved: {note}; relative residual {residual:.1e}.")
    return Status(
        False,
        f"Not solved: {note}; relative residual {residual:.1e}.",
        "Check that the kernel is symmetric, raise the regularization, or pass float64.",
    )


def _jitter_note(jitter: float, dtype: np.dtype) -> str:
    if jitter == 0.0:
        return f"Cholesky factorisation in {dtype}"
    digits = math.log10(jitter)
    return (
        f"Cholesky factorisation in {dtype} after adding {jitter:.1e} (10^{digits:.0f}) to the "
        "diagonal, since rounding made the matrix indefinite"
    )
