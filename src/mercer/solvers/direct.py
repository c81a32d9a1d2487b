"""Ridge regression by factorisation: exact, with the residual to show for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, like, namespace
from mercer.losses import Squared
from mercer.solvers.conjugate import conjugate_gradients
from mercer.solvers.problem import Problem
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
        if problem.gram.on_tensors and self.mixed is None:
            return False  # a card for computing has float64 as fast as float32
        return problem.gram.shape[0] >= MIXED_SIZE if self.mixed is None else self.mixed


class _System:
    """(SKS + ρI) c = s(y − b), sᵀc = 0 with an intercept."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.gram = problem, problem.gram
        n = self.gram.shape[0]
        weights = np.ones(n) if problem.weights is None else problem.weights
        weights = like(weights, problem.reference, "float64")
        self.xp = xp = namespace(weights)
        self.roots = xp.sqrt(weights)[:, None]
        self.ridge = float(problem.regularization * float(xp.sum(weights)))
        self.targets = xp.reshape(like(problem.targets, weights, "float64"), (n, -1))
        columns = [self.roots * self.targets]
        if problem.fit_intercept:
            columns.append(self.roots)
        self.sides = xp.concat(columns, axis=1)

    def multiply(self, c: Array) -> Array:
        return self.roots * (self.gram @ (self.roots * c)) + self.ridge * c

    def factored(self) -> Solution:
        """One factorisation in the precision of the Gram matrix."""
        factor = self._factor(self.gram.dense())
        solved = factor.solve(self._as(self.sides, factor.lower.dtype))
        note = _jitter_note(factor.jitter, str(self.gram.dtype))
        return self._solution(self._as(solved, self.xp.float64), note)

    def _as(self, array: Array, dtype: Any) -> Array:
        return self.xp.astype(array, dtype, copy=False)

    def refined(self) -> Solution | None:
        """A float32 factor, and conjugate gradients in float64; None where that fails."""
        try:
            factor = self._factor(self.gram.astype(np.float32).dense())
        except ValueError:  # not positive definite, or beyond the range of float32
            return None
        if factor.jitter > 0:
            return None
        xp = self.xp
        run = conjugate_gradients(
            self.multiply,
            lambda r: self._as(factor.solve(self._as(r, xp.float32)), xp.float64),
            self.sides,
            tolerance=1e-15,
            iterations=REFINEMENTS,
        )
        if run.residual > GOOD_RESIDUAL:
            return None
        note = f"factored in float32, refined in float64 in {len(run.history) - 1} steps"
        return self._solution(run.solution, note)

    def has_few_features(self) -> bool:
        width = getattr(self.gram.x, "width", None)
        kernel = self.gram.kernel
        if self.gram.on_tensors:  # explicit features are arrays of NumPy
            return False
        count = None if width is None else getattr(kernel, "feature_count", lambda w: None)(width)
        return count is not None and 2 * count < self.gram.shape[0]

    def primal(self) -> Solution:
        """(SKS + ρI)⁻¹ = (I − Φ(ΦᵀΦ + ρI)⁻¹Φᵀ)/ρ for SKS = ΦΦᵀ: the inversion lemma."""
        if self.gram.on_tensors:
            raise ValueError("explicit features are computed for NumPy arrays: write primal=None.")
        features = self.roots * self.gram.kernel.features(self.gram.x)  # type: ignore[attr-defined]
        matrix = features.T @ features
        linalg.add_to_diagonal(matrix, self.ridge)
        factor = linalg.cholesky(matrix, overwrite=True)
        weights = factor.solve(features.T @ self.sides)
        note = f"primal system of {len(matrix)} features, " + _jitter_note(
            factor.jitter, str(matrix.dtype)
        )
        solved = (self.sides - features @ weights) / self.ridge
        for _ in range(PRIMAL_REFINEMENTS):  # the difference lost digits: get them back
            rest = self.sides - features @ (features.T @ solved) - self.ridge * solved
            solved += (rest - features @ factor.solve(features.T @ rest)) / self.ridge
        return self._solution(solved, note)

    def minimum_norm(self) -> Solution:
        """λ = 0: the function of least norm among those with the least error."""
        matrix = self.roots * self.gram.dense() * self.roots.T
        solved, rank = linalg.symmetric_solve(matrix, self._as(self.sides, matrix.dtype))
        solved = self._as(solved, self.xp.float64)
        note = f"least norm; the Gram matrix has rank {rank} of {len(matrix)}"
        unreached = self.sides - matrix @ solved
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

    def _factor(self, matrix: Array) -> linalg.Factor:
        if self.problem.weights is not None:
            matrix *= self._as(self.roots, matrix.dtype)
            matrix *= self._as(self.roots.T, matrix.dtype)
        linalg.add_to_diagonal(matrix, self.ridge)
        return linalg.cholesky(matrix, overwrite=True)

    def _solution(self, solved: Array, note: str, intercept: Array | None = None) -> Solution:
        c, intercept = self._without_mean(solved, intercept)
        alpha = self.roots * c
        residual = self._residual(alpha, intercept)
        if self.ridge == 0.0:
            residual = self._slope(alpha, intercept)
        shape = tuple(np.shape(self.problem.targets))
        coefficients = like(self.xp.reshape(alpha, shape), alpha, str(self.gram.dtype))
        objective = self.problem.objective(coefficients, intercept)
        return Solution(
            coefficients=coefficients,
            status=_status(note, residual, residual <= SOLVED[str(self.gram.dtype)]),
            objective=objective,
            gap=residual,
            intercept=intercept if len(shape) == 2 else float(intercept[0]),
        )

    def _without_mean(self, solved: Array, intercept: Array | None) -> tuple[Array, Array]:
        """Eliminate the intercept: c = M⁻¹s y − b M⁻¹s, with sᵀc = 0 unless b is known."""
        outputs = self.targets.shape[1]
        if not self.problem.fit_intercept:
            return solved, self.xp.zeros_like(solved[0, :])
        c, means = solved[:, :outputs], solved[:, outputs:]
        if intercept is None:
            intercept = (self.roots.T @ c)[0, :] / float((self.roots.T @ means)[0, 0])
        return c - means * intercept, intercept

    def _norm(self, array: Array) -> float:
        return float(self.xp.linalg.vector_norm(array))

    def _slope(self, alpha: Array, intercept: Array) -> float:
        """‖SKS r‖/(trace ‖Sy‖) for r = S(y − Kα − b): 0 where the error is least."""
        rest = self.roots * (self.targets - self.gram @ alpha - intercept)
        scale = float(self.gram.diagonal().sum()) * self._norm(self.roots * self.targets)
        slope = self.roots * (self.gram @ (self.roots * rest))
        return self._norm(slope) / (scale or 1.0)

    def _residual(self, alpha: Array, intercept: Array) -> float:
        """‖S(Kα + b − y) + ρ S⁻¹α‖/‖Sy‖, from scratch."""
        xp = self.xp
        fitted = self.gram @ alpha
        present = self.roots > 0
        scaled = xp.where(present, alpha / xp.where(present, self.roots, 1.0), 0.0)
        difference = self.roots * (fitted + intercept - self.targets) + self.ridge * scaled
        return self._norm(difference) / (self._norm(self.roots * self.targets) or 1.0)


def _status(note: str, residual: float, solved: bool) -> Status:
    if solved:
        return Status(True, f"Solved: {note}; relative residual {residual:.1e}.")
    return Status(
        False,
        f"Not solved: {note}; relative residual {residual:.1e}.",
        "Check that the kernel is symmetric, raise the regularization, or pass float64.",
    )


def _jitter_note(jitter: float, dtype: str) -> str:
    if jitter == 0.0:
        return f"Cholesky factorisation in {dtype}"
    digits = math.log10(jitter)
    return (
        f"Cholesky factorisation in {dtype} after adding {jitter:.1e} (10^{digits:.0f}) to the "
        "diagonal, since rounding made the matrix indefinite"
    )
