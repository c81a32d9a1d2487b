"""Newton's method on centres, with preconditioned conjugate gradients inside."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mercer.checks import check_count, check_positive
from mercer.losses import Loss
from mercer.solvers.centres.basis import Basis, check_memory
from mercer.solvers.centres.descent import Descent
from mercer.solvers.driver import Callback
from mercer.solvers.problem import Problem
from mercer.solvers.solution import Solution

SMOOTH_TOLERANCE = {"float64": 1e-6, "float32": 1e-3}
KINKED_TOLERANCE = 1e-3


@dataclass(frozen=True)
class CentresNewton:
    """Minimise the regularised risk over f = Σ_j β_j k(c_j, ·), one pass over the rows a step.

    The square loss takes one Newton step, which is preconditioned conjugate gradients; other smooth
    losses take a few, each solved as well as it deserves. Losses with kinks (hinge, quantile, …)
    are smoothed less and less until the gap of the problem itself is small. K_nM is not stored. The
    answer comes with its duality gap, computed in float64.

    Parameters
    ----------
    tolerance : float, optional
        The duality gap, relative to the objective, at which to stop; by default 1e-6, 1e-3 in
        float32, 1e-3 for a loss with kinks. With the square loss values f(x_i) are then off by at
        most √(2·gap) in root mean square.
    steps : int, default=100
        At most so many Newton steps, in all stages together.
    inner_steps : int, default=200
        At most so many steps of conjugate gradients for each.
    sample : int, optional
        Rows from which the preconditioner is made; by default as many as pay.
    random_state : int, default=0
        Chooses these rows.
    time_limit : float, optional
        Seconds after which to stop with the best iterate; the gap still takes a pass.
    callback : function of (iteration, Progress), optional
        Called after each step of conjugate gradients; True stops.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Logistic
    >>> from mercer.solvers import Problem
    >>> from mercer.solvers.centres import passes
    >>> k, X = Gaussian(0.5), np.linspace(-1.0, 1.0, 200)[:, None]
    >>> rows = passes(k, k.points(X), k.points(X[::20]))
    >>> problem = Problem.on_centres(
    ...     rows, np.sign(X[:, 0] + 0.005), Logistic(), regularization=1e-3
    ... )
    >>> solution = CentresNewton().solve(problem)
    >>> solution.status.converged, bool(solution.gap <= 1e-6 * solution.objective)
    (True, True)
    """

    tolerance: float | None = None
    steps: int = 100
    inner_steps: int = 200
    sample: int | None = None
    random_state: int = 0
    time_limit: float | None = None
    callback: Callback | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_count(self, "steps", self.steps)
        check_count(self, "inner_steps", self.inner_steps)
        for name in ("tolerance", "time_limit"):
            if getattr(self, name) is not None:
                check_positive(self, name, getattr(self, name))
        if self.sample is not None:
            check_count(self, "sample", self.sample)

    def solve(self, problem: Problem, start: Solution | None = None) -> Solution:
        """The solution; `start` is one of the same centres to begin from."""
        check_memory(problem.operator, problem.y_columns.shape[1], self.sample, problem.loss)
        return Descent(self, problem, Basis(problem.operator)).run(start)

    def goal(self, loss: Loss, dtype: Any) -> float:
        """The relative gap at which to stop."""
        if self.tolerance is not None:
            return self.tolerance
        return SMOOTH_TOLERANCE[str(dtype)] if loss.is_smooth else KINKED_TOLERANCE
