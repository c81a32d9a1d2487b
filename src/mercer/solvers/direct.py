"""Ridge regression by factorisation: exact, with the residual to show for it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, as_numpy, beside, identity, precision, to_precision
from mercer.errors import NotPositiveDefiniteError
from mercer.runtime.budget import memory_budget, require_room
from mercer.runtime.machine import column_memory
from mercer.solvers.definiteness import without_minimum, witness_of
from mercer.solvers.krylov import conjugate_gradients
from mercer.solvers.optimality import ridge_residual, sum_error, value_errors
from mercer.solvers.problem import Problem, has_few_features
from mercer.solvers.ridge_system import RidgeSystem
from mercer.solvers.solution import Solution, Status
from mercer.solvers.weights import features_of, least_coefficients


@dataclass(frozen=True)
class Tuning:
    """Numbers of the factorisation."""

    mixed_size: int = 2000  # points from which a float32 factor with refinement is faster than a
    # float64 one
    kept: int = 8 * 6000**2  # bytes of a factor that stays with the solution: 6,000 rows, which two
    # cores factor in 0.8 s
    kept_share: float = 1 / 16  # of the memory budget that it may take. As that is a share of what
    # is free, fewer factors stay the more there are: those of a hundred models of 5,000 rows do not
    # fill the memory
    refinements: int = 12  # steps of conjugate gradients that refine it, at most; three or four are
    # usual
    refined: float = 1e-12  # the residual that they must reach: that of a factor in float64
    primal_refinements: int = 4  # corrections of a solution in features, whose difference loses
    # digits
    shifts: tuple[float, ...] = (1.0, 100.0)  # what is added to the ridge where rounding hides it,
    # in units of rounding of tr K
    unsolved: tuple[tuple[str, float], ...] = (("float32", 1e-2), ("float64", 1e-6))  # residuals
    # beyond which nothing was solved


@dataclass(frozen=True)
class Direct:
    """Solve (K + nλ W⁻¹) α = y by a Cholesky factorisation.

    With weights w and s = √w the system is (SKS + λΣw I) c = s(y − b), α = s c, which is symmetric
    and takes weights of 0; an intercept b makes sᵀc = 0. With λ = 0 the solution of least norm is
    taken, by eigendecomposition. float64 problems whose factor is too large to stay are factored in
    float32 and refined by conjugate gradients in float64 until the residual is as small as a
    float64 factor's, or factored again in float64 where that does not work out. Where the kernel
    turns out not to be positive definite the system is solved all the same, by eigendecomposition
    if need be; as the objective has no minimum then, the status says "not converged", and holds a
    witness. With a null space of the penalty, as the polynomials of `ThinPlate()`, the bordered
    system is solved.

    Parameters
    ----------
    mixed : bool or None, default=None
        Whether to factor in float32 and refine; None does from 2,000 points where the factor does
        not stay.
    primal : bool or None, default=None
        Whether to solve for the weights of the kernel's explicit features, of which there must be
        finitely many; None does where they are fewer than half the points. Where K is so large that
        f = Kα would lose its digits, α is then the least that gives these weights; it does not
        solve the system, and the status tells how far values of f may be off.
    keep_factor : bool or None, default=None
        Whether the factor, n² numbers in the precision of the data, stays with the solution:
        deviations, intervals and leave-one-out of `KernelRidge` then need no other. None keeps one
        in float64 of at most 6,000 rows that takes at most a sixteenth of the memory budget. It is
        neither copied nor pickled.
    tuning : Tuning

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
    keep_factor: bool | None = None
    tuning: Tuning = field(default=Tuning(), repr=False)

    def factor_plan(self, gram: Any) -> tuple[bool, bool]:
        """Whether the factor of this matrix stays with the solution, and is refined from float32.

        >>> import numpy as np
        >>> from mercer.kernels import Gaussian
        >>> few, many = (Gaussian().gram(np.zeros((n, 1))) for n in (100, 7000))
        >>> Direct().factor_plan(few), Direct().factor_plan(many)
        ((True, False), (False, True))
        """
        n, double, stays, refined = gram.shape[0], gram.dtype == np.float64, self.keep_factor, False
        if stays is None:
            room = self.tuning.kept_share * memory_budget(column_memory(gram))
            stays = bool(double and 8 * n**2 <= min(self.tuning.kept, room))
        if double and not self.keep_factor:
            large = n >= self.tuning.mixed_size and gram.machine.mixed_pays and not stays
            refined = bool(large) if self.mixed is None else self.mixed
        return stays, refined

    def solve(self, problem: Problem) -> Solution:
        if problem.has_several_ridges:
            return Solution.stacked([self.solve(part) for part in problem.each_output()])
        work = _Factorisation(Direct, problem)
        # off a null space the kernel is positive definite by what it says
        work.witness = None if problem.polynomials is not None else witness_of(problem.gram)
        work.tuning, work.goal = self.tuning, dict(self.tuning.unsolved)[work.precision]
        # of the plain system, whose factor is the posterior's
        stays, refines = self.factor_plan(problem.gram)
        work.keep_factor = problem.polynomials is None and stays
        if work.ridge == 0.0:
            return work.minimum_norm()
        primal = has_few_features(problem.gram) if self.primal is None else self.primal
        primal = primal and problem.null_space is None
        if not primal and refines:
            refined = work.refined()
            if refined is not None:
                return refined
        solve = work.in_features if primal else work.factored
        solution = solve()
        if primal and solution.gap > work.goal:
            solution = min(work.by_weights(), solution, key=lambda found: found.gap)
        # Coefficients are near y/ρ. Where K is so large that their last digits times K exceed y,
        # rounding of Kα drowns ρα: those of a ridge of the size of that rounding are smaller, and
        # nearer to the solution.
        for times in self.tuning.shifts:
            if work.witness is not None or solution.gap <= work.goal:
                break
            other = solve(times * work.unit * work.trace)
            solution = other if other.gap < solution.gap else solution
        return solution


class _Factorisation(RidgeSystem):
    """Ways to solve the system with a stored matrix, in the library of the targets."""

    tuning: Tuning
    goal: float  # the residual beyond which nothing was solved
    witness: Any
    keep_factor: bool

    @property
    def unit(self) -> float:
        return float(np.finfo(self.precision).eps)

    @cached_property
    def trace(self) -> float:
        """tr SKS."""
        return float(self.xp.sum(self.roots[:, 0] ** 2 * self.problem.array(self.gram.diagonal())))

    def factored(self, shift: float = 0.0) -> Solution:
        """One factorisation in the precision of the Gram matrix."""
        matrix = self._matrix(self.gram, self.ridge + shift)
        try:
            factor = linalg.cholesky(matrix, overwrite=True)
        except NotPositiveDefiniteError as refusal:
            return self._indefinite(matrix, refusal.witness)
        solved = to_precision(factor.solve(to_precision(self.sides, self.precision)), "float64")
        note = f"Cholesky factorisation in {self.precision}"
        solution = self._solution(solved, note, factor.jitter, shift)
        return replace(solution, factor=factor) if self.keep_factor and not shift else solution

    def _indefinite(self, matrix: Array, direction: Array) -> Solution:
        """The solution of least norm where K + ρI is not positive definite: not a minimum."""
        witness = as_numpy(self.roots[:, 0]) * as_numpy(direction)
        self.witness = witness / np.linalg.norm(witness)
        solved, rank = linalg.symmetric_solve(matrix, to_precision(self.sides, self.precision))
        note = f"eigendecomposition of an indefinite matrix of rank {rank} of {matrix.shape[0]}"
        return self._solution(to_precision(solved, "float64"), note)

    def refined(self) -> Solution | None:
        """A float32 factor, and conjugate gradients in float64; None where that fails."""
        single = self._matrix(self.gram.astype(np.float32), self.ridge)
        try:
            factor = linalg.cholesky(single, jitter=0.0, overwrite=True)
        except ValueError:  # not positive definite, or beyond the range of float32
            return None
        run = conjugate_gradients(
            self.multiply,
            lambda r: to_precision(factor.solve(to_precision(r, "float32")), "float64"),
            self.sides,
            tolerance=1e-15,
            iterations=self.tuning.refinements,
        )
        if run.residual > self.tuning.refined:
            return None
        note = f"factored in float32, refined in float64 in {len(run.history) - 1} steps"
        return self._solution(run.solution, note)

    def in_features(self, shift: float = 0.0) -> Solution:
        """(SKS + ρI)⁻¹ = (I − Φ(ΦᵀΦ + ρI)⁻¹Φᵀ)/ρ for SKS = ΦΦᵀ: the inversion lemma."""
        ridge = self.ridge + shift
        features = self.roots * self.features
        matrix = linalg.shift_diagonal(features.T @ features, ridge)
        factor = linalg.cholesky(matrix, overwrite=True)
        weights = factor.solve(features.T @ self.sides)
        best = solved = (self.sides - features @ weights) / ridge
        least = math.inf
        for _ in range(self.tuning.primal_refinements + 1):
            rest = self.sides - features @ (features.T @ solved) - ridge * solved
            if not (size := self.size(rest)) < least:  # only rounding is left, or it grows
                break
            best, least = solved, size
            solved = solved + (rest - features @ factor.solve(features.T @ rest)) / ridge
        note = f"primal system of {matrix.shape[0]} features, Cholesky factorisation in float64"
        return self._solution(best, note, factor.jitter, shift)

    @cached_property
    def features(self) -> Array:
        """Φ in float64."""
        return self.problem.array(features_of(self.gram.kernel, self.gram.x))

    def by_weights(self) -> Solution:
        """The weights w of the features, and the least α that has them, Φᵀα = w.

        (y − f)/ρ is of the size of y/ρ, however large K is: in columns of large units f = Kα loses
        its digits. The least α loses none. As it does not solve the system, f is certified in its
        place: where G is the gradient at w and H the second derivative, √(GᵀH⁻¹G) bounds how far
        values are from the best ones.
        """
        xp, problem, features = self.xp, self.problem, self.features
        y, total, mean, level = problem.y_columns, xp.sum(self.roots**2), 0.0, 0.0
        if problem.fit_intercept:
            mean, level = (xp.sum(self.roots**2 * v, axis=0) / total for v in (features, y))
        rows, targets = self.roots * (features - mean), self.roots * (y - level)
        factor, units = self._normal_equations(rows)
        w = 0.0 * (rows.T @ targets)
        for _ in range(self.tuning.primal_refinements):
            slope = rows.T @ (targets - rows @ w) - self.ridge * w
            w = w + factor.solve(slope / units[:, None]) / units[:, None]
        alpha = problem.stored(
            xp.reshape(least_coefficients(features, w, self.roots > 0), problem.y.shape)
        )
        wide = xp.reshape(problem.array(alpha), y.shape)
        w, fitted = features.T @ wide, xp.reshape(problem.gram @ wide, y.shape)
        b = level - mean @ w if problem.fit_intercept else 0.0 * y[0, :]
        rest = targets - rows @ w
        slope = (rows.T @ rest - self.ridge * w) / units[:, None]
        misses = xp.sqrt(xp.abs(xp.sum(slope * factor.solve(slope), axis=0)))
        misses = misses + sum_error(rest) + self._lengths_of(fitted - features @ w)
        misses = misses + self._lengths_of(value_errors(problem, wide))
        claimed = float(xp.max(misses / self.scale[: self.outputs]))
        risk = float(xp.sum((self.roots * (fitted + b - y)) ** 2) / total)
        objective = 0.5 * (risk + problem.regularization * float(xp.sum(w**2)))
        status = self._status_of_weights(len(units), claimed, factor.jitter)
        gap = math.inf if factor.jitter else claimed
        b = xp.reshape(b, problem.y.shape[1:])
        return Solution(alpha, status, objective, gap, intercept=b if b.ndim else float(b))

    def _normal_equations(self, rows: Array) -> tuple[linalg.Factor, Array]:
        """The factor of those of weights in units of columns, which differ by powers, and these."""
        xp = self.xp
        units = xp.sqrt(xp.sum(rows**2, axis=0) + self.ridge)
        matrix = (rows / units).T @ (rows / units)
        matrix = matrix + identity(len(units), matrix) * (self.ridge / units**2)
        return linalg.cholesky(matrix, overwrite=True), units

    def _status_of_weights(self, count: int, claimed: float, jitter: float) -> Status:
        text = (
            f"weights of {count} features, Cholesky factorisation in float64, with the least "
            f"coefficients that have them; values of f are right to {claimed:.1e} of the targets."
        )
        if not jitter and claimed <= self.goal:
            return Status(True, f"Solved: {text}")
        advice = "Scale the columns of X, raise the regularization, or pass float64."
        return Status(False, f"Not solved: {text}", advice)

    def _lengths_of(self, values: Array) -> Array:
        return self.xp.linalg.vector_norm(self.roots * values, axis=0)

    def minimum_norm(self) -> Solution:
        """λ = 0: the function of least norm among those with the least error."""
        matrix = self._matrix(self.gram, 0.0, copies=3)
        solved, rank = linalg.symmetric_solve(matrix, to_precision(self.sides, self.precision))
        solved = to_precision(solved, "float64")
        note = f"least norm; the Gram matrix has rank {rank} of {matrix.shape[0]}"
        unreached = self.sides - to_precision(matrix, "float64") @ solved
        return self._solution(solved, note, intercept=self._intercept_of_null_space(unreached))

    def _intercept_of_null_space(self, unreached: Array) -> Array | None:
        """b by least squares in the null space of SKS, where it reaches the constants."""
        if not self.problem.fit_intercept:
            return None
        targets, constant = unreached[:, :-1], unreached[:, -1]
        size = float(constant @ constant)
        if size <= 1e-10 * float(self.xp.sum(self.roots**2)):
            return None
        return (constant @ targets) / size

    def _matrix(self, gram: Any, ridge: float, copies: int = 1) -> Array:
        """SKS + ρI, stored where there is room for so many matrices of its size."""
        if gram.x.home == "host":
            require_room(
                f"Direct stores the matrix of {self.problem.rows} points, which",
                copies * gram.dtype.itemsize * self.problem.rows**2,
                'Write solver="auto" or ConjugateGradient()',
                gram.memory,
            )
        matrix = beside(gram.dense(), self.problem.y)
        if self.problem.weights is not None:
            roots = to_precision(self.roots, gram.dtype.name)
            matrix *= roots
            matrix *= roots.T
        if self.basis is not None:
            matrix = self._off_null_space(matrix)
        return linalg.shift_diagonal(matrix, ridge) if ridge else matrix

    def _off_null_space(self, matrix: Array) -> Array:
        """ΠMΠ = M − QCᵀ − CQᵀ with C = MQ − ½Q(QᵀMQ)."""
        basis = to_precision(self.basis, precision(matrix.dtype))
        image = matrix @ basis
        image = image - 0.5 * basis @ (basis.T @ image)
        matrix -= basis @ image.T
        matrix -= image @ basis.T
        return matrix

    def _solution(
        self,
        solved: Array,
        note: str,
        jitter: float = 0.0,
        shift: float = 0.0,
        intercept: Array | None = None,
    ) -> Solution:
        """The answer with its residual; the status says what was done, and what was added."""
        alpha, b = self.coefficients(solved, intercept)
        coefficients = self.problem.stored(alpha)
        residual = ridge_residual(self.problem, coefficients, b)
        if not math.isfinite(residual.claimed):
            raise ValueError(
                "values of f overflow: K times the targets is beyond the range of "
                f"{self.precision}. Scale the columns of X and the targets, as with StandardScaler."
            )
        if added := jitter + shift:
            why = "hides nλα" if shift else "made the matrix indefinite"
            note += (
                f" after adding {added:.1e} (10^{math.log10(added):.0f}) to the diagonal, since "
                f"rounding {why}"
            )
        text = f"{note}; {residual}."
        if not residual.claimed <= self.goal:
            cause = "Scale the columns of X" if added else "Check that the kernel is symmetric"
            advice = f"{cause}, raise the regularization, or pass float64."
            status = Status(False, f"Not solved: {text}", advice, self.witness)
        elif self.witness is None:
            status = Status(True, f"Solved: {text}")
        else:
            status = without_minimum(self.gram, self.witness, text)
        return Solution(
            coefficients=coefficients,
            status=status,
            objective=residual.objective,
            gap=residual.claimed,
            intercept=b if b.ndim else float(b),
        )
