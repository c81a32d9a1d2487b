"""Expansions with few centres: the lasso in the coefficients α."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer import linalg
from mercer.checks import check_count, check_positive
from mercer.solvers.admission import check_host_only
from mercer.solvers.optimality import Gap
from mercer.solvers.problem import Problem, require_square_loss
from mercer.solvers.solution import Solution, Status

SINGULAR = 1e-10  # relative pivots below which columns count as dependent


@dataclass(frozen=True)
class SparseExpansion:
    """Least squares with an ℓ1 penalty on coefficients, so that most centres drop out.

        min over α, b of (1/Σw) Σ_i w_i ½(y_i − (Kα)_i − b)² + μ Σ_i |α_i|.

    The problem has the square loss and regularization 0; the penalty takes its place. An active
    set of coefficients with known signs is solved exactly, until no other one wants to enter.
    The gap is that of the dual, max Σ u_i y_i − Σ u_i²/(2p_i) with |Ku| ≤ μ, p = w/Σw (and
    Σu = 0 with an intercept), at the scaled residual u = s·p(y − Kα − b).

    Parameters
    ----------
    penalty : float
        μ > 0.
    tolerance : float, default=1e-6
        The relative duality gap that ends the iteration.
    iterations : int, default=10000
        At most so many changes of the active set.

    References
    ----------
    H. Lee, A. Battle, R. Raina, A. Y. Ng, Efficient sparse coding algorithms, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> X = np.linspace(0.0, 1.0, 30)[:, None]
    >>> problem = Problem(Gaussian(0.3).gram(X), np.sin(6 * X[:, 0]), Squared(), regularization=0.0)
    >>> solution = SparseExpansion(penalty=1e-3).solve(problem)
    >>> int(np.count_nonzero(solution.coefficients)) < 10, solution.gap < 1e-6
    (True, True)
    """

    penalty: float
    tolerance: float = 1e-6
    iterations: int = 10_000

    def __post_init__(self) -> None:
        check_positive(self, "penalty", self.penalty)
        check_positive(self, "tolerance", self.tolerance)
        check_count(self, "iterations", self.iterations)

    def solve(self, problem: Problem) -> Solution:
        check_host_only(self, problem)
        lasso = _Lasso(problem, self.penalty)
        steps = 0
        while steps < self.iterations and lasso.gap().relative > 0.1 * self.tolerance:
            if not lasso.improve():
                break
            steps += 1
        return self._solution(lasso, steps)

    def _solution(self, lasso: _Lasso, steps: int) -> Solution:
        coefficients = lasso.alpha.astype(lasso.problem.gram.dtype)
        lasso.alpha = coefficients.astype(np.float64)
        gap, kept = lasso.gap(), int(np.count_nonzero(coefficients))
        converged = gap.relative <= self.tolerance
        text = (
            f"{'Solved' if converged else 'Stopped'}: {kept} of {len(lasso.alpha)} centres after "
            f"{steps} changes of the active set, relative duality gap {gap.relative:.1e}."
        )
        return Solution(
            coefficients=coefficients,
            status=Status(converged, text, "" if converged else "Raise the penalty."),
            objective=gap.objective,
            gap=gap.absolute,
            intercept=lasso.intercept(),
        )


def largest_penalty(problem: Problem) -> float:
    """The least μ for which α = 0 solves the problem: ‖K p(y − b)‖_∞.

    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Squared
    >>> gram = Linear().gram([[1.0], [2.0]])
    >>> y = np.array([1.0, 0.0])
    >>> round(largest_penalty(Problem(gram, y, Squared(), regularization=0.0)), 9)
    1.0
    """
    return float(np.abs(_Lasso(problem, 1.0).pulls()).max(initial=0.0))


def stationarity(problem: Problem, coefficients: np.ndarray, penalty: float) -> float:
    """How far α is from the conditions of optimality, relative to μ, from scratch in float64.

    They are (Kp r)_i = μ sign α_i where α_i ≠ 0, and |(Kp r)_i| ≤ μ elsewhere, r = y − Kα − b.

    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Squared
    >>> problem = Problem(Linear().gram([[1.0]]), np.array([3.0]), Squared(), regularization=0.0)
    >>> stationarity(problem, np.array([2.0]), penalty=1.0)  # ½(3 − w)² + |w|
    0.0
    """
    lasso = _Lasso(problem, penalty)
    lasso.alpha = np.asarray(coefficients, np.float64)
    pulls, signs = lasso.pulls(), np.sign(lasso.alpha)
    off = np.where(signs != 0, np.abs(pulls - penalty * signs), np.abs(pulls) - penalty)
    return float(np.maximum(off, 0.0).max(initial=0.0)) / penalty


class _Lasso:
    """½‖a − Aα‖² + μ‖α‖₁ with A = √p K and a = √p y, both without their mean part."""

    def __init__(self, problem: Problem, penalty: float) -> None:
        _check(problem)
        self.problem, self.penalty = problem, penalty
        self.p = problem.shares
        self.y = np.asarray(problem.targets, np.float64)
        roots = np.sqrt(self.p)
        matrix = problem.gram.astype(np.float64).dense()
        self.means = self.p @ matrix if problem.fit_intercept else np.zeros(len(self.y))
        self.mean = float(self.p @ self.y) if problem.fit_intercept else 0.0
        self.columns = roots[:, None] * (matrix - self.means)
        self.target = roots * (self.y - self.mean)
        self.alpha = np.zeros(len(self.y))
        self.signs = np.zeros(len(self.y))

    def rest(self) -> np.ndarray:
        active = np.flatnonzero(self.alpha)
        return self.target - self.columns[:, active] @ self.alpha[active]

    def pulls(self) -> np.ndarray:
        """Kp r, what each coefficient gains."""
        return self.columns.T @ self.rest()

    def intercept(self) -> float:
        return self.mean - float(self.means @ self.alpha)

    def gap(self) -> Gap:
        """At u = s·√p·rest with the best s for which |Ku| ≤ μ."""
        rest = self.rest()
        objective = 0.5 * float(rest @ rest) + self.penalty * float(np.abs(self.alpha).sum())
        largest = float(np.abs(self.columns.T @ rest).max(initial=0.0))
        size = float(rest @ rest)
        scale = float(rest @ self.target) / size if size > 0 else 0.0
        if largest > 0:
            scale = float(np.clip(scale, -self.penalty / largest, self.penalty / largest))
        bound = scale * float(rest @ self.target) - 0.5 * scale**2 * size
        return Gap(objective, objective - bound)

    def improve(self) -> bool:
        """Let the coefficient that gains most enter, and solve; False where nothing changes."""
        pulls = self.pulls()
        outside = np.where(self.alpha == 0, np.abs(pulls), 0.0)
        entering = int(np.argmax(outside))
        enters = outside[entering] > self.penalty * (1.0 + 1e-12)
        if enters:
            self.signs[entering] = np.sign(pulls[entering])
        before = self.alpha.copy()
        return (self._descend() or enters) and not np.array_equal(before, self.alpha)

    def _descend(self) -> bool:
        """Solve for the active coefficients; those that would change their sign leave at 0."""
        for _ in range(2 * len(self.alpha) + 1):
            active = np.flatnonzero(self.signs)
            if not len(active):
                return False
            direction, most = self._direction(active)
            values = self.alpha[active]
            against = direction * self.signs[active] < 0
            limits = np.full(len(active), np.inf)
            limits[against] = -values[against] / direction[against]
            length = min(most, float(limits.min(initial=np.inf)))
            if not np.isfinite(length):
                return False
            values = values + length * direction
            leaving = limits <= length
            values[leaving] = 0.0
            self.alpha[active] = values
            self.signs[active[leaving]] = 0.0
            if not leaving.any():
                return True
        return False

    def _direction(self, active: np.ndarray) -> tuple[np.ndarray, float]:
        """Newton's direction and its full length 1; where columns are dependent, a ray down."""
        part = self.columns[:, active]
        fall = part.T @ self.rest() - self.penalty * self.signs[active]
        values, vectors = linalg.eigen(part.T @ part)
        kept = values > SINGULAR * max(float(values[-1]), 0.0)
        inside = vectors.T @ fall
        null = vectors[:, ~kept] @ inside[~kept]
        if np.abs(null).max(initial=0.0) > 1e-6 * self.penalty:
            return null, np.inf
        return vectors[:, kept] @ (inside[kept] / values[kept]), 1.0


def _check(problem: Problem) -> None:
    require_square_loss(SparseExpansion, problem)
    if problem.regularization != 0:
        raise ValueError(
            f"the penalty μ‖α‖₁ takes the place of (λ/2)‖f‖²; got regularization="
            f"{problem.regularization!r}. Write Problem(..., regularization=0.0)."
        )
    if np.ndim(problem.targets) != 1:
        raise ValueError(
            f"SparseExpansion takes one target for each point; got shape "
            f"{np.shape(problem.targets)}. Solve for each column."
        )
