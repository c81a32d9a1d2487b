"""Ridge regression on the whole Gram matrix without storing it: preconditioned iterations."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import beside, on_host
from mercer.evaluation.budget import Memory, memory_budget
from mercer.features.centres import RandomlyPivoted
from mercer.losses import Squared
from mercer.operators import Gram
from mercer.solvers.conjugate import conjugate_steps
from mercer.solvers.descent.landscape import Callback, State
from mercer.solvers.problem import Problem
from mercer.solvers.schedules import check_count, check_positive
from mercer.solvers.solution import Solution, Status

TOLERANCES = {"float64": 1e-6, "float32": 1e-4}
MIXED_SIZE = 2000  # from which products in float32 with refinement are faster
GAIN = 1e-4  # what iterations in float32 gain before the residual is computed in float64
REFINEMENTS = 8
RANKS = (50, 2000)  # fewest and most columns of the preconditioner


@dataclass(frozen=True)
class ConjugateGradient:
    """Solve (K + nλ W⁻¹) α = y by conjugate gradients; K is multiplied by, and never stored.

    The preconditioner is K̂ + nλI with K̂ = FFᵀ from randomly pivoted Cholesky, so that iterations
    only meet the eigenvalues that K̂ misses. In float64 the iterations run in float32, and the
    residual is computed and corrected in float64 until it is small.

    Parameters
    ----------
    tolerance : float, optional
        The true residual, relative to y, to reach; by default 1e-6, and 1e-4 for float32.
    rank : int, optional
        Columns of F, which takes n·rank numbers; about 10√n by default, at most 2000.
    iterations : int, default=2000
        At most so many.
    mixed : bool or None, default=None
        Whether products are in float32 with refinement; None decides by size.
    random_state : int, default=0
        Draws the pivots.
    time_limit : float, optional
        Seconds after which to stop with the best iterate.
    callback : function of (iteration, State), optional
        Called after each iteration, with an objective of nan; True stops.

    References
    ----------
    M. Díaz, E. Epperly, Z. Frangella, J. Tropp, R. Webber, Robust, randomized preconditioning for
    kernel ridge regression, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> X, y = np.linspace(0, 1, 50)[:, None], np.linspace(0, 1, 50) ** 2
    >>> gram = Gaussian(0.3).gram(X)
    >>> solution = ConjugateGradient().solve(Problem(gram, y, Squared(), regularization=1e-3))
    >>> rest = (gram.dense() + 0.05 * np.eye(50)) @ solution.coefficients - y
    >>> bool(np.linalg.norm(rest) <= 1e-6 * np.linalg.norm(y)), solution.status.converged
    (True, True)
    """

    tolerance: float | None = None
    rank: int | None = None
    iterations: int = 2000
    mixed: bool | None = None
    random_state: int = 0
    time_limit: float | None = None
    callback: Callback | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_count(self, "iterations", self.iterations)
        if self.rank is not None:
            check_count(self, "rank", self.rank)
        for name in ("tolerance", "time_limit"):
            if getattr(self, name) is not None:
                check_positive(self, name, getattr(self, name))

    def solve(self, problem: Problem) -> Solution:
        if not isinstance(problem.loss, Squared):
            raise ValueError(f"ConjugateGradient solves the square loss; got {problem.loss!r}.")
        if problem.regularization <= 0:
            raise ValueError(
                "ConjugateGradient needs regularization > 0; got 0. Direct() finds the "
                "interpolant of least norm."
            )
        return _Run(self, problem).solution()

    def mixes(self, gram: Gram) -> bool:
        """Whether products are taken in float32."""
        if gram.dtype != np.float64:
            return False
        return gram.shape[0] >= MIXED_SIZE if self.mixed is None else self.mixed


def default_rank(rows: int, itemsize: int, memory: Memory = None) -> int:
    """Columns of a preconditioner: about 10√n, within half the memory budget.

    >>> default_rank(10_000, 4), default_rank(10_000, 4, memory="8MB")
    (1000, 104)
    """
    few, many = RANKS
    fitting = int(0.5 * memory_budget(memory)) // (rows * itemsize)
    return max(1, min(rows, many, max(few, int(10 * math.sqrt(rows))), max(few, fitting)))


class LowRank:
    """(ÛÛᵀΣ² + ρI)⁻¹ for SFFᵀS = ÛΣ²Ûᵀ: what K̂ + ρ does, by the inversion lemma."""

    def __init__(self, columns: np.ndarray, roots: np.ndarray, ridge: float) -> None:
        scaled = columns * roots.astype(columns.dtype)
        values, vectors = linalg.eigen((scaled.T @ scaled).astype(np.float64))
        kept = values > values[-1] * len(values) * float(np.finfo(columns.dtype).eps)
        values, vectors = values[kept], vectors[:, kept]
        self.basis = scaled @ (vectors / np.sqrt(values)).astype(columns.dtype)
        self.factors = (ridge / (values + ridge) - 1.0).astype(columns.dtype)[:, None]

    def solve(self, residual: np.ndarray) -> np.ndarray:
        """ρ(K̂ + ρI)⁻¹r; the scale does not matter."""
        return residual + self.basis @ (self.factors * (self.basis.T @ residual))


class _Run:
    """(SKS + ρI) c = s(y − b), with s = √w and sᵀc = 0 for an intercept."""

    def __init__(self, solver: ConjugateGradient, problem: Problem) -> None:
        self.solver, self.problem, self.gram = solver, problem, problem.gram
        self.roots = np.sqrt(on_host(problem.sample_weights))[:, None]
        self.ridge = float(problem.regularization * (self.roots**2).sum())
        self.targets = on_host(problem.values).reshape(len(self.roots), -1)
        sides = [self.roots * self.targets, *([self.roots] if problem.fit_intercept else [])]
        self.sides = np.concatenate(sides, axis=1)
        self.goal = solver.tolerance or TOLERANCES[str(self.gram.dtype)]
        self.inner = self.gram.astype(np.float32) if solver.mixes(self.gram) else self.gram
        self.began, self.stopped = time.perf_counter(), ""
        self.history: dict[str, list[Any]] = {"residual": [], "seconds": []}

    def solution(self) -> Solution:
        scale = np.linalg.norm(self.sides, axis=0)
        scale[scale == 0] = 1.0
        self.preconditioner = self._low_rank()
        x, residual, worst = np.zeros_like(self.sides), self.sides, 1.0
        for _ in range(REFINEMENTS):
            candidate = self._stored(x + self._corrected(residual, scale, x))
            rest = self.sides - self._multiply(self.gram, candidate)
            reached = float((np.linalg.norm(rest, axis=0) / scale).max())
            if reached >= worst:
                break
            gained, worst = reached / worst, reached
            x, residual = candidate, rest
            if worst <= self.goal or self.stopped or gained > 0.5:
                break
        return self._finished(x)

    def _stored(self, x: np.ndarray) -> np.ndarray:
        """x as it will be stored: rounding is corrected with the rest."""
        return x.astype(self.gram.dtype).astype(np.float64)

    def _low_rank(self) -> LowRank:
        dtype, n = self.inner.dtype, self.gram.shape[0]
        rank = self.solver.rank or default_rank(n, dtype.itemsize, self.gram.memory)
        self.rank = min(rank, n)
        choice = RandomlyPivoted(self.rank, self.solver.random_state, pool=n)
        points: Any = self.gram.x
        points = points.host() if self.gram.on_tensors else points
        factor = choice.choose(self.gram.kernel, points).factor  # type: ignore[arg-type]
        assert factor is not None
        return LowRank(factor.astype(dtype), self.roots, self.ridge)

    def _multiply(self, gram: Gram, c: np.ndarray) -> np.ndarray:
        roots = self.roots.astype(c.dtype)
        return roots * self._product(gram, roots * c) + c.dtype.type(self.ridge) * c

    def _product(self, gram: Gram, values: np.ndarray) -> np.ndarray:
        """K V. Where the points are tensors, vectors stay on the host and K on their device."""
        if not gram.on_tensors:
            return gram @ values
        return on_host(gram @ beside(values, self.problem.targets))

    def _corrected(self, residual: np.ndarray, scale: np.ndarray, x: np.ndarray) -> np.ndarray:
        """A⁻¹r as far as this precision goes."""
        dtype = self.inner.dtype
        sizes = np.linalg.norm(residual, axis=0)
        sizes[sizes == 0] = 1.0
        wanted = self.goal * scale / sizes
        if dtype != self.gram.dtype:
            wanted = np.maximum(wanted, GAIN)
        steps = conjugate_steps(
            lambda v: self._multiply(self.inner, v),
            self.preconditioner.solve,
            (residual / sizes).astype(dtype),
        )
        for step in steps:
            left = np.linalg.norm(step.residual, axis=0)
            self._record(x + sizes * step.solution, float((left * sizes / scale).max()))
            if self.stopped or (left <= 0.7 * wanted).all():
                break
        return np.asarray(sizes * step.solution, np.float64)

    def _record(self, x: np.ndarray, believed: float) -> None:
        seconds = time.perf_counter() - self.began
        self.history["residual"].append(believed)
        self.history["seconds"].append(seconds)
        taken, limit = len(self.history["residual"]), self.solver.time_limit
        if taken >= self.solver.iterations:
            self.stopped = f"the limit of {taken} iterations"
        if limit is not None and seconds >= limit:
            self.stopped = f"the time limit of {limit:g} s"
        if self.solver.callback is not None:
            alpha, b = self._coefficients(x)
            if self.solver.callback(taken, State(alpha, b, math.nan)):
                self.stopped = "the callback"

    def _coefficients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """α and b, which makes sᵀc = 0."""
        outputs = self.targets.shape[1]
        b = np.zeros(outputs)
        c = x[:, :outputs]
        if self.problem.fit_intercept:
            means = x[:, outputs:]
            b = (self.roots.T @ c)[0] / float((self.roots.T @ means)[0, 0])
            c = c - means * b
        return (self.roots * c).reshape(np.shape(self.problem.targets)), b

    def _finished(self, x: np.ndarray) -> Solution:
        alpha, b = self._coefficients(x)
        alpha = alpha.astype(self.gram.dtype)
        single = alpha.ndim == 1
        residual, objective = self._truth(alpha.astype(np.float64).reshape(self.targets.shape), b)
        if self.gram.on_tensors:
            alpha, b = beside(alpha, self.problem.targets), beside(b, self.problem.targets)
        return Solution(
            coefficients=alpha,
            status=self._status(residual),
            objective=objective,
            gap=residual,
            history=self.history,
            intercept=float(b[0]) if single else b,
        )

    def _truth(self, alpha: np.ndarray, b: np.ndarray) -> tuple[float, float]:
        """The relative residual and the objective, from scratch in float64, in one product."""
        fitted = self._product(self.gram, alpha)
        scaled = np.divide(alpha, self.roots, out=np.zeros_like(alpha), where=self.roots > 0)
        rest = self.roots * (fitted + b - self.targets) + self.ridge * scaled
        sizes = np.linalg.norm(self.roots * self.targets, axis=0)
        worst = float((np.linalg.norm(rest, axis=0) / np.where(sizes > 0, sizes, 1.0)).max())
        risk = float(self.problem.loss.risk(self.targets, fitted + b, self.roots[:, 0] ** 2))
        return worst, risk + 0.5 * self.problem.regularization * float(np.vdot(alpha, fitted))

    def _status(self, residual: float) -> Status:
        work = (
            f"{len(self.history['residual'])} iterations in {self.inner.dtype} with a "
            f"preconditioner of rank {self.rank}; relative residual {residual:.1e}"
        )
        if residual <= self.goal:
            return Status(True, f"Solved: {work}.")
        if self.stopped:
            return Status(False, f"Stopped by {self.stopped}: {work}.", "Allow more, or Direct().")
        advice = "Raise the regularization or the rank, pass float64, or use Direct()."
        return Status(False, f"Not solved to {self.goal:.0e}: {work}.", advice)
