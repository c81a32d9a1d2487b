"""`DualAscent`: from a problem to its dual, and back with a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.evaluation.budget import Memory
from mercer.solvers.descent.landscape import weights_of
from mercer.solvers.dual.ascent import Ascent
from mercer.solvers.dual.rows import KernelRows
from mercer.solvers.dual.terms import Terms, check_loss
from mercer.solvers.problem import Problem
from mercer.solvers.schedules import check_count, check_positive
from mercer.solvers.solution import Solution, Status


@dataclass(frozen=True)
class DualAscent:
    """Maximise the dual of a problem, −Σ p_i ℓ*(y_i, u_i) − (1/2λ)(pu)ᵀK(pu) with p = w/Σw.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Hinge
    >>> problem = Problem(Linear().gram([[1.0]]), np.array([1.0]), Hinge(), regularization=2.0)
    >>> DualAscent().solve(problem).coefficients.tolist()
    [0.5]
    """

    tolerance: float = 1e-4
    max_iterations: int = 10_000_000
    working_set: int = 512
    cache: Memory = None

    def __post_init__(self) -> None:
        check_positive(self, "tolerance", self.tolerance)
        check_count(self, "max_iterations", self.max_iterations)
        check_count(self, "working_set", self.working_set)

    def solve(self, problem: Problem) -> Solution:
        check_loss(self, problem.loss)
        gram = problem.gram
        rows = KernelRows(gram, min(self.working_set, gram.shape[0]), self.cache)
        y = np.asarray(problem.targets, np.float64)
        parts = [self._ascend(problem, column, rows) for column in y.reshape(len(y), -1).T]
        alpha = np.stack([part.alpha for part in parts], axis=1).reshape(y.shape)
        b = np.array([-part.levels[0] for part in parts]) * problem.fit_intercept
        intercept: Any = b if y.ndim == 2 else float(b[0])
        coefficients = alpha.astype(gram.dtype)
        gap = problem.regularization * sum(part.gap for part in parts)
        worst = max(part.relative_gap for part in parts)
        status = Status(worst <= self.tolerance, f"relative duality gap {worst:.1e}.")
        return Solution(
            coefficients,
            status,
            problem.objective(coefficients, intercept),
            gap,
            {"gap": parts[0].history},
            intercept,
        )

    def _ascend(self, problem: Problem, y: np.ndarray, rows: KernelRows) -> Ascent:
        weights = weights_of(problem)
        costs = weights / (weights.sum() * problem.regularization)
        terms = Terms.of(problem.loss, y, costs, problem.fit_intercept)
        ascent = Ascent.begin(terms, rows)
        ascent.run(rows, self.tolerance, self.working_set, self.max_iterations)
        return ascent
