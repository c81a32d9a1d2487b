"""Expansions with few centres: the lasso in the coefficients α."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mercer import linalg
from mercer.arrays import Array
from mercer.solvers.driver import Callback, Progress, State
from mercer.solvers.iterative import Iterative
from mercer.solvers.optimality import Gap, certified_gap
from mercer.solvers.penalties import L1
from mercer.solvers.problem import Problem, require_square_loss
from mercer.solvers.solution import Solution, Status

SINGULAR = 1e-10  # of the largest eigenvalue, below which columns count as dependent
MARGIN = 0.1  # of the tolerance, which steps must reach, as coefficients may be rounded


@dataclass(eq=False)
class LassoState(State):
    """α and the signs of the coefficients that are not held at 0."""

    alpha: Array = None
    signs: Array = None


@dataclass(frozen=True)
class SparseExpansion(Iterative):
    """Least squares with an ℓ1 penalty on coefficients, so that most centres drop out.

        min over α, b of (1/Σw) Σ_i w_i ½(y_i − (Kα)_i − b)² + μ Σ_i |α_i|.

    The problem has the square loss and `L1(μ)` as its regularization. An active set of coefficients
    with known signs is solved exactly, until no other one wants to enter. The gap is that of the
    dual, max Σ u_i y_i − Σ u_i²/(2p_i) with |Ku| ≤ μ, p = w/Σw (and Σu = 0 with an intercept), at
    the scaled residual u = s·p(y − Kα − b).

    Parameters
    ----------
    tolerance : float, default=1e-6
        The relative duality gap that ends the iteration.
    iterations : int, default=10000
        At most so many changes of the active set.
    time_limit : float, optional
        Seconds after which to stop.
    callback : function of (iteration, Progress), optional
        Called after each change; True stops.

    References
    ----------
    H. Lee, A. Battle, R. Raina, A. Y. Ng, Efficient sparse coding algorithms, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> X = np.linspace(0.0, 1.0, 30)[:, None]
    >>> problem = Problem(Gaussian(0.3).gram(X), np.sin(6 * X[:, 0]), Squared(), L1(1e-3))
    >>> solution = SparseExpansion().solve(problem)
    >>> int(np.count_nonzero(solution.coefficients)) < 10, solution.gap < 1e-6
    (True, True)
    """

    host_only: ClassVar[bool] = True

    tolerance: float = 1e-6
    iterations: int = 10_000
    time_limit: float | None = None
    callback: Callback | None = field(default=None, compare=False)

    def begin(self, problem: Problem, start: Solution | None = None) -> LassoState:
        lasso, alpha = Lasso(problem), np.zeros(problem.rows)
        if start is not None:
            alpha = np.array(start.coefficients, np.float64)
        state = LassoState(work=lasso, alpha=alpha, signs=np.sign(alpha))
        state.error = lasso.gap(alpha).relative / MARGIN
        return state

    def step(self, state: LassoState) -> LassoState:
        """Let the coefficient that gains most enter, and solve."""
        lasso = state.work
        pulls = lasso.pulls(state.alpha)
        outside = np.where(state.alpha == 0, np.abs(pulls), 0.0)
        entering = int(np.argmax(outside))
        enters = outside[entering] > lasso.strength * (1.0 + 1e-12)
        if enters:
            state.signs[entering] = np.sign(pulls[entering])
        before = state.alpha.copy()
        moved = lasso.descend(state.alpha, state.signs) or enters
        if not moved or np.array_equal(before, state.alpha):
            state.finished = "nothing changes"
        gap = lasso.gap(state.alpha)
        state.iteration += 1
        state.error = gap.relative / MARGIN
        state.record(objective=gap.objective, gap=gap.absolute)
        return state

    def progress(self, state: LassoState) -> Progress:
        lasso, alpha = state.work, state.alpha
        return Progress(alpha, np.asarray(lasso.intercept(alpha)), lasso.gap(alpha).objective)

    def solution(self, state: LassoState) -> Solution:
        problem, lasso = state.asked, state.work
        coefficients = state.alpha.astype(problem.gram.dtype)
        intercept = lasso.intercept(coefficients.astype(np.float64))
        gap = certified_gap(problem, coefficients, intercept)
        converged, count = gap.relative <= self.tolerance, int(np.count_nonzero(coefficients))
        text = (
            f"{'Solved' if converged else 'Stopped'}: {count} of {len(coefficients)} centres after "
            f"{state.iteration} changes of the active set, {gap}."
        )
        status = Status(converged, text, "" if converged else "Raise the penalty.")
        return Solution(coefficients, status, gap.objective, gap.absolute, state.history, intercept)


def largest_penalty(problem: Problem) -> float:
    """The least μ for which α = 0 solves the problem: ‖K p(y − b)‖_∞.

    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Squared
    >>> gram, y = Linear().gram([[1.0], [2.0]]), np.array([1.0, 0.0])
    >>> round(largest_penalty(Problem(gram, y, Squared(), L1(1.0))), 9)
    1.0
    """
    return float(np.abs(Lasso(problem).pulls(np.zeros(problem.rows))).max(initial=0.0))


class Lasso:
    """½‖a − Aα‖² + μ‖α‖₁ with A = √p K and a = √p y, both without their mean part."""

    def __init__(self, problem: Problem) -> None:
        require_square_loss(SparseExpansion, problem)
        if not isinstance(problem.penalty, L1):
            raise ValueError(
                f"SparseExpansion takes μ‖α‖₁ in place of (λ/2)‖f‖²; got regularization="
                f"{problem.regularization!r}. Write Problem(..., regularization=L1(strength))."
            )
        if not problem.single:
            raise ValueError(
                f"SparseExpansion takes one target for each point; got shape "
                f"{tuple(problem.y.shape)}. Solve for each column."
            )
        self.strength = problem.penalty.strength
        p, y = problem.shares, problem.y
        roots = np.sqrt(p)
        matrix = problem.gram.astype(np.float64).dense()
        self.means = p @ matrix if problem.fit_intercept else np.zeros(len(y))
        self.mean = float(p @ y) if problem.fit_intercept else 0.0
        self.columns = roots[:, None] * (matrix - self.means)
        self.target = roots * (y - self.mean)

    def rest(self, alpha: np.ndarray) -> np.ndarray:
        active = np.flatnonzero(alpha)
        return self.target - self.columns[:, active] @ alpha[active]

    def pulls(self, alpha: np.ndarray) -> np.ndarray:
        """Kp r, what each coefficient gains."""
        return self.columns.T @ self.rest(alpha)

    def intercept(self, alpha: np.ndarray) -> float:
        return self.mean - float(self.means @ alpha)

    def gap(self, alpha: np.ndarray) -> Gap:
        """On the way, at u = s·√p·rest with the best s for which |Ku| ≤ μ."""
        rest = self.rest(alpha)
        size, along = float(rest @ rest), float(rest @ self.target)
        objective = 0.5 * size + self.strength * float(np.abs(alpha).sum())
        largest = float(np.abs(self.columns.T @ rest).max(initial=0.0))
        scale = along / size if size > 0 else 0.0
        if largest > 0:
            scale = float(np.clip(scale, -self.strength / largest, self.strength / largest))
        return Gap(objective, objective - scale * along + 0.5 * scale**2 * size)

    def descend(self, alpha: np.ndarray, signs: np.ndarray) -> bool:
        """Solve for the active coefficients; those that would change their sign leave at 0."""
        for _ in range(2 * len(alpha) + 1):
            active = np.flatnonzero(signs)
            if not len(active):
                return False
            direction, most = self._direction(alpha, signs, active)
            values = alpha[active]
            against = direction * signs[active] < 0
            limits = np.full(len(active), np.inf)
            limits[against] = -values[against] / direction[against]
            length = min(most, float(limits.min(initial=np.inf)))
            if not np.isfinite(length):
                return False
            values = values + length * direction
            leaving = limits <= length
            values[leaving] = 0.0
            alpha[active] = values
            signs[active[leaving]] = 0.0
            if not leaving.any():
                return True
        return False

    def _direction(self, alpha: Any, signs: Any, active: Any) -> tuple[Any, float]:
        """Newton's direction and its full length 1; where columns are dependent, a ray down."""
        part = self.columns[:, active]
        fall = part.T @ self.rest(alpha) - self.strength * signs[active]
        values, vectors = linalg.eigen(part.T @ part)
        regular = values > SINGULAR * max(float(values[-1]), 0.0)
        inside = vectors.T @ fall
        null = vectors[:, ~regular] @ inside[~regular]
        if np.abs(null).max(initial=0.0) > 1e-6 * self.strength:
            return null, np.inf
        return vectors[:, regular] @ (inside[regular] / values[regular]), 1.0
