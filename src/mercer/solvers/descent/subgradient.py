"""Subgradient descent with schedules of steps and averages."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from mercer.arrays import precision, to_precision
from mercer.checks import check_count, check_positive
from mercer.solvers.descent.landscape import Landscape
from mercer.solvers.driver import Callback
from mercer.solvers.optimality import certified_gap
from mercer.solvers.problem import Problem
from mercer.solvers.schedules import Average, Schedule
from mercer.solvers.solution import Solution, Status, plain_intercept

ROUNDING = 1.0 + 1e-9  # of λ times 1/λ


@dataclass(frozen=True)
class SubgradientDescent:
    """f ← f − η_t g_t with a subgradient g_t of J, for every convex loss, kinked ones too.

    J need not fall in every step. The average of the iterates f_0, …, f_{T−1} is returned, which
    with η = D/(ρ√T) is within `subgradient_bound(D, ρ, T)` of the least J; or, without averaging,
    the iterate with the least J.

    Parameters
    ----------
    steps : int
        T.
    schedule : Schedule
        η_t, as `schedules.Constant(0.1)`.
    averaging : Average or None, default=Average()
        Which average; None for the best iterate.
    tolerance : float, default=1e-3
        The duality gap, relative to J, from which on the status says converged.
    callback : function of (iteration, Progress), optional
        Called after each step; True stops the descent.

    References
    ----------
    N. Z. Shor, Minimization Methods for Non-Differentiable Functions, 1985.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Absolute
    >>> from mercer.solvers.schedules import Constant
    >>> problem = Problem(Linear().gram([[1.0]]), np.array([1.0]), Absolute(), regularization=0.0)
    >>> SubgradientDescent(4, Constant(0.5)).solve(problem).coefficients.tolist()  # 0, ½, 1, 1
    [0.625]
    """

    steps: int
    schedule: Schedule
    averaging: Average | None = Average()  # noqa: RUF009 (frozen)
    tolerance: float = 1e-3
    callback: Callback | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_count(self, "steps", self.steps)
        check_positive(self, "tolerance", self.tolerance)
        check_objects(self, self.schedule, self.averaging)

    def solve(self, problem: Problem, start: Any = None) -> Solution:
        landscape = Landscape(problem)
        self._check_first_step(landscape)
        at = landscape.element(start)
        kept, total, history = landscape.element(), 0.0, list[float]()
        for t in range(1, self.steps + 1):
            gradient = landscape.gradient(at)
            state = landscape.state(at, gradient)
            if not math.isfinite(state.objective):
                break
            if self.averaging is not None:
                weight = self.averaging.weight(t)
                total += weight
                kept = kept.plus(weight / total, at.plus(-1.0, kept))
            elif state.objective < min(history, default=math.inf):
                kept = at
            history.append(state.objective)
            if self.callback is not None and self.callback(t, state):
                break
            at = landscape.step(at, self.schedule.step(t), gradient, t)
        taken = {"objective": history}
        return certified(self, problem, kept.coefficients, kept.intercept, len(history), taken)

    def _check_first_step(self, landscape: Landscape) -> None:
        loss = landscape.loss
        bent = math.isinf(loss.lipschitz) and math.isfinite(loss.smoothness)
        curvature = loss.smoothness * landscape.spectral_radius() if bent else 0.0
        check_first_step(self.schedule, curvature, landscape.problem.regularization)


def check_first_step(schedule: Schedule, curvature: float, regularization: float) -> None:
    """Refuse a schedule that begins with steps under which f turns round or blows up."""
    first = schedule.step(1)
    if first * regularization > ROUNDING:
        raise ValueError(
            f"the first step, {first:g}, turns f round: 1 − ηλ = {1 - first * regularization:.3g}. "
            f"Begin with at most 1/λ = {1 / regularization:.3g}, as InverseTime(1/λ) does."
        )
    if curvature > 0 and first * (curvature + regularization) >= 2.0:
        raise ValueError(
            f"the first step, {first:g}, is too long for a loss with unbounded slope: descent is "
            f"stable below {2.0 / (curvature + regularization):.3g}. Write a smaller scale, or "
            "InverseTime(scale, offset) with an offset."
        )


def check_objects(owner: object, schedule: Any, averaging: Any) -> None:
    """Refuse numbers and flags where objects are wanted."""
    name = type(owner).__name__
    if not hasattr(schedule, "step"):
        raise ValueError(
            f"{name} needs a schedule of steps; got {schedule!r}. Write schedules.Constant(0.1), "
            "InverseTime(scale) or InverseSquareRoot(scale)."
        )
    if not (averaging is None or hasattr(averaging, "weight")):
        raise ValueError(
            f"{name} needs averaging=Average(), Average(power=1) or None; got {averaging!r}."
        )


def certified(
    solver: Any, problem: Problem, alpha: Any, intercept: Any, steps: int, history: dict[str, Any]
) -> Solution:
    """A solution with its duality gap, from scratch in float64."""
    coefficients = to_precision(alpha, precision(problem.gram.dtype))
    intercept = plain_intercept(intercept)
    objective = problem.objective(coefficients, intercept)
    gap = certified_gap(problem, coefficients, intercept).absolute
    converged = gap <= solver.tolerance * abs(objective)
    text = f"Took {steps} steps. The objective is within {gap:.2e} of the least, by its dual."
    advice = "" if converged else "Take more steps, or shorter ones."
    if not converged and problem.regularization == 0:
        advice = "Without λ that bound is coarse."
    return Solution(
        coefficients, Status(converged, text, advice), objective, gap, history, intercept
    )
