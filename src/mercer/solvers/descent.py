"""Descent in the space of functions: kernel gradient descent, and subgradients with averages.

J(f) = (1/Σw) Σ_i w_i ℓ(y_i, f(x_i)) + (λ/2)‖f‖² has the functional gradient

    ∇J(f) = Σ_i g_i k(x_i, ·),    g = w·ℓ'(y, f(x))/Σw + λα,

so that f ← f − η∇J(f) is α ← α − ηg: not the gradient in α, which is Kg.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.arrays import Array, namespace, precision, to_precision
from mercer.checks import check_positive
from mercer.solvers.driver import DERIVED, Callback, Progress, State
from mercer.solvers.early_stopping import HeldOut
from mercer.solvers.iterative import Iterative
from mercer.solvers.krylov import largest_eigenvalue
from mercer.solvers.optimality import certified_gap, gradient_norm
from mercer.solvers.problem import Problem, over_rows, require_squared_norm
from mercer.solvers.schedules import Average, Schedule, check_first_step
from mercer.solvers.solution import Solution, Status, plain_intercept

REFRESH = 32  # steps, after which values are computed from coefficients again: rounding adds up
NORM_SLACK = 1.0 + 1e-9  # for the rounding of a tolerance times a norm


@dataclass(frozen=True, eq=False)
class Element:
    """f + b: coefficients α of f, a constant b, and the values f(x_i) + b."""

    coefficients: Array
    intercept: Array
    values: Array

    def squared_norm(self) -> float:
        """‖f‖² = αᵀKα, without b."""
        own = to_precision(self.values - self.intercept, "float64")
        alpha = to_precision(self.coefficients, "float64")
        return float(namespace(own).sum(alpha * own))

    def norm(self) -> float:
        """√(‖f‖² + b²)."""
        free = float(namespace(self.intercept).sum(self.intercept**2))
        return math.sqrt(max(self.squared_norm(), 0.0) + free)


class Functional:
    """J and its gradient as functions on the space, in the precision of the points."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.gram, self.loss = problem, problem.gram, problem.loss
        self.precision, self.xp = precision(problem.gram.dtype), namespace(problem.y)
        self.targets = to_precision(problem.y, self.precision)
        self.shares = over_rows(to_precision(problem.shares, self.precision), problem.y)

    def element(self, coefficients: Any = None, intercept: Any = 0.0) -> Element:
        """The element with these coefficients; 0 where there are none."""
        zeros = self.xp.zeros_like(self.targets)
        constant = to_precision(self.problem.array(intercept), self.precision)
        constant = self.xp.zeros_like(zeros[0, ...]) + constant
        if coefficients is None:
            return Element(zeros, constant, zeros + constant)
        if tuple(np.shape(coefficients)) != tuple(zeros.shape):
            raise ValueError(
                f"coefficients to start from must have the shape {tuple(zeros.shape)} of the "
                f"targets; got {np.shape(coefficients)}."
            )
        alpha = to_precision(self.problem.array(coefficients), self.precision)
        return Element(alpha, constant, self.gram @ alpha + constant)

    def gradient(self, at: Element) -> Element:
        """∇J, a subgradient at kinks: one product with K."""
        slopes = self.shares * self.loss.slope(self.targets, at.values)
        g = slopes + float(self.problem.regularization) * at.coefficients
        constant = 0.0 * at.intercept
        if self.problem.fit_intercept:
            constant = self.xp.sum(slopes, axis=0)
        return Element(g, constant, self.gram @ g + constant)

    def stepped(self, at: Element, size: float, gradient: Element, t: int) -> Element:
        """f − η∇J, the t-th step."""
        alpha = at.coefficients - float(size) * gradient.coefficients
        b = at.intercept - float(size) * gradient.intercept
        if t % REFRESH == 0:
            return self.element(alpha, b)
        return Element(alpha, b, at.values - float(size) * gradient.values)

    def progress(self, at: Element, gradient: Element) -> Progress:
        """J(f + b) and its parts."""
        values = to_precision(at.values, "float64")
        risk = float(self.loss.risk(self.problem.y, values, self.problem.sample_weights))
        objective = risk + 0.5 * self.problem.regularization * at.squared_norm()
        norm = gradient.norm()
        return Progress(at.coefficients, at.intercept, objective, risk, norm, values=values)

    def spectral_radius(self) -> float:
        """The largest eigenvalue of √w K √w/Σw, from below; with an intercept, of K + 1."""
        roots = self.xp.sqrt(to_precision(self.problem.shares, self.precision))

        def multiply(v: Array) -> Array:
            scaled = roots * to_precision(v, self.precision)
            constant = self.xp.sum(scaled) if self.problem.fit_intercept else 0.0
            return to_precision(roots * (self.gram @ scaled + constant), "float64")

        return largest_eigenvalue(multiply, roots)

    def curvature(self) -> float:
        """An upper bound of the curvature of the risk where slopes are unbounded, else 0."""
        bent = math.isinf(self.loss.lipschitz) and math.isfinite(self.loss.smoothness)
        return self.loss.smoothness * self.spectral_radius() if bent else 0.0


@dataclass(eq=False)
class DescentState(State):
    """The current element, its progress, and for subgradients the element that is returned."""

    coefficients: Array = None
    intercept: Array = None
    values: Array = None
    answer: Array = None
    answer_intercept: Array = None
    total: float = 0.0
    least: float = math.inf
    size: float = 0.0  # of a step
    scale: float = 0.0  # the norm of the gradient at f = 0
    seen: Any = field(default=None, repr=False, metadata=DERIVED)  # of the current element
    told: Any = field(default=None, repr=False, metadata=DERIVED)  # of that of the last step

    @property
    def at(self) -> Element:
        return Element(self.coefficients, self.intercept, self.values)

    def arrive(self, at: Element) -> None:
        self.coefficients, self.intercept, self.values = at.coefficients, at.intercept, at.values
        self.seen = None

    def look(self) -> tuple[Progress, Element]:
        """Progress and gradient where the descent is; again after a checkpoint."""
        if self.seen is None:
            gradient = self.work.gradient(self.at)
            self.seen = self.work.progress(self.at, gradient), gradient
        return self.seen


@dataclass(frozen=True)
class Discrepancy:
    """Stop as soon as the mean loss is no more than `level`: what noise explains is not fitted.

    For the square loss and noise of standard deviation σ, σ²/2 or a little more (Morozov).

    >>> Discrepancy(level=0.5 * 0.1**2).level < 0.01
    True
    """

    level: float

    def __post_init__(self) -> None:
        check_positive(self, "level", self.level)


@dataclass(frozen=True)
class KernelGradientDescent(Iterative):
    """Functional gradient descent, α ← α − η(w·ℓ'(y, Kα)/Σw + λα), for smooth losses.

    For the square loss with λ = 0 it is α ← α − (η/n)(Kα − y), and t steps from 0 are the filter
    `Landweber(t, η)`; f tends to the solution of least norm. J falls in every step if
    η < 2/(σ_max·s + λ), where σ_max is the largest eigenvalue of K/n and s the smoothness of the
    loss. Each step costs one product with K. `solve(problem, start)` starts from given
    coefficients; the limit depends on them only through what K does not see. The gap of the
    solution is ‖∇J‖ of the whole problem, rows that were held out included.

    Parameters
    ----------
    steps : int
        At most so many.
    step_size : float or None, default=None
        η; None takes 1/(σ_max·s + λ), with σ_max from a few products.
    tolerance : float, default=1e-6
        Stop when ‖∇J‖ is this small, relative to its size at f = 0.
    stopping : HeldOut, Discrepancy or None
        Whether to stop before.
    time_limit : float, optional
        Seconds after which to stop.
    callback : function of (iteration, Progress), optional
        Called after each step; True stops the descent.
    checkpoint : path, optional
        Where the iterate is stored after each step; `solve(problem, resume=path)` goes on.

    References
    ----------
    Y. Yao, L. Rosasco, A. Caponnetto, On early stopping in gradient descent learning, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Squared
    >>> problem = Problem(Linear().gram([[1.0]]), np.array([1.0]), Squared(), regularization=0.0)
    >>> KernelGradientDescent(steps=3, step_size=0.5).solve(problem).coefficients.tolist()
    [0.875]
    """

    steps: int
    step_size: float | None = None
    tolerance: float = 1e-6
    stopping: HeldOut | Discrepancy | None = None
    time_limit: float | None = None
    callback: Callback | None = field(default=None, compare=False)
    checkpoint: Any = None

    @property
    def iterations(self) -> int:
        return self.steps

    def begin(self, problem: Problem, start: Any = None) -> DescentState:
        require_squared_norm(self, problem)
        functional = Functional(problem)
        state = DescentState(work=functional, size=self._stable_step(functional))
        state.scale = functional.gradient(functional.element()).norm()
        self._arrive(state, functional.element(getattr(start, "coefficients", start)))
        state.record(seconds=0.0)
        return state

    def _stable_step(self, functional: Functional) -> float:
        smoothness, ridge = functional.loss.smoothness, float(functional.problem.regularization)
        if not math.isfinite(smoothness):
            raise ValueError(
                f"KernelGradientDescent needs a loss whose slope is Lipschitz; that of "
                f"{functional.loss!r} is not. Use SubgradientDescent."
            )
        curvature = functional.spectral_radius() * smoothness + ridge
        if self.step_size is None:
            return 1.0 / curvature if curvature > 0 else 1.0
        if self.step_size * curvature >= 2.0:
            raise ValueError(
                f"a step of {self.step_size:g} is too long: descent is stable below "
                f"2/(σ_max·s + λ) = {2.0 / curvature:.3g}. Leave step_size=None for half of that."
            )
        return float(self.step_size)

    def _arrive(self, state: DescentState, at: Element) -> None:
        """Go there, and see whether the descent ends there."""
        state.arrive(at)
        (progress, _), rule = state.look(), self.stopping
        norm, risk = progress.gradient_norm, progress.risk
        state.record(objective=progress.objective, gradient_norm=norm)
        state.error = norm / state.scale if state.scale else (math.inf if norm else 0.0)
        if isinstance(rule, Discrepancy) and risk <= rule.level:
            state.finished = f"the mean loss {risk:.3g} is down to the level {rule.level:g}"

    def step(self, state: DescentState) -> DescentState:
        before, (_, gradient) = state.at, state.look()
        state.iteration += 1
        self._arrive(state, state.work.stepped(before, state.size, gradient, state.iteration))
        if not math.isfinite(state.look()[0].objective):
            state.arrive(before)
            state.finished = "the objective is not finite"
        return state

    def progress(self, state: DescentState) -> Progress:
        return state.look()[0]

    def solution(self, state: DescentState) -> Solution:
        at, problem = self.progress(state), state.asked
        coefficients, intercept = problem.stored(at.coefficients), plain_intercept(at.intercept)
        norm = gradient_norm(problem, coefficients, intercept)
        objective = problem.objective(coefficients, intercept)
        gap = gradient_norm(problem, coefficients, intercept, rounding=True)
        status = self._status(state, norm)
        return Solution(coefficients, status, objective, gap, state.history, intercept)

    def _status(self, state: DescentState, norm: float) -> Status:
        within, limited = state.error <= self.tolerance, state.stopped.startswith("the limit")
        reason, met, advice = state.finished, False, ""
        if reason:
            met = "not finite" not in reason
            advice = "" if met else "This is the last iterate until then."
        elif within:
            reason = "the gradient is within the tolerance"
            met = norm <= NORM_SLACK * self.tolerance * state.scale
            advice = "" if met else "Rounding hides the rest: use float64."
        elif limited:
            reason = "that was the limit"
            advice = "Allow more steps, or stop early on purpose with HeldOut."
        else:
            said = " said so" if state.stopped == "the callback" else ""
            reason, advice = f"{state.stopped}{said}", "This is the best iterate until then."
        text = (
            f"Stopped after {state.iteration} steps of {state.size:.3g}: {reason}. Gradient norm "
            f"{norm:.2e}"
        )
        ridge = state.asked.regularization
        if ridge > 0 and not state.asked.fit_intercept:
            text += f", so the objective is within {norm**2 / (2 * ridge):.1e} of the least"
        return Status(met, f"{text}.", advice)


@dataclass(frozen=True)
class SubgradientDescent(Iterative):
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
    time_limit : float, optional
        Seconds after which to stop.
    callback : function of (iteration, Progress), optional
        Called after each step, with the iterate at which the subgradient was taken; True stops.
    checkpoint : path, optional
        Where the iterate is stored after each step; `solve(problem, resume=path)` goes on.

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
    time_limit: float | None = None
    callback: Callback | None = field(default=None, compare=False)
    checkpoint: Any = None

    @property
    def iterations(self) -> int:
        return self.steps

    def begin(self, problem: Problem, start: Any = None) -> DescentState:
        require_squared_norm(self, problem)
        functional = Functional(problem)
        check_first_step(self.schedule, functional.curvature(), float(problem.regularization))
        at = functional.element(getattr(start, "coefficients", start))
        state = DescentState(work=functional)
        state.arrive(at)
        state.answer, state.answer_intercept = 0.0 * at.coefficients, 0.0 * at.intercept
        state.history["objective"] = []
        return state

    def step(self, state: DescentState) -> DescentState:
        at, t = state.at, state.iteration + 1
        state.told, gradient = state.look()
        objective = state.told.objective
        if not math.isfinite(objective):
            state.finished = "the objective is not finite"
            return state
        if self.averaging is not None:
            weight = self.averaging.weight(t)
            state.total += weight
            share = weight / state.total
            state.answer = state.answer + share * (at.coefficients - state.answer)
            moved = at.intercept - state.answer_intercept
            state.answer_intercept = state.answer_intercept + share * moved
        elif objective < state.least:
            state.answer, state.answer_intercept = at.coefficients, at.intercept
        state.least = min(state.least, objective)
        state.record(objective=objective)
        state.iteration = t
        state.arrive(state.work.stepped(at, self.schedule.step(t), gradient, t))
        return state

    def progress(self, state: DescentState) -> Progress:
        return state.told

    def solution(self, state: DescentState) -> Solution:
        taken = state.answer, state.answer_intercept, len(state.history["objective"])
        return certified(self.tolerance, state, *taken)


def certified(tolerance: float, state: State, alpha: Array, intercept: Any, steps: int) -> Solution:
    """A solution with its duality gap, from scratch in float64."""
    problem, intercept = state.asked, plain_intercept(intercept)
    coefficients = problem.stored(alpha)
    gap = certified_gap(problem, coefficients, intercept)
    converged = gap.absolute <= tolerance * abs(gap.objective)
    text = (
        f"Took {steps} steps. The objective is within {gap.absolute:.2e} of the least, by its dual."
    )
    advice = "" if converged else "Take more steps, or shorter ones."
    if not converged and problem.regularization == 0:
        advice = "Without λ that bound is coarse."
    status = Status(converged, text, advice)
    return Solution(coefficients, status, gap.objective, gap.absolute, state.history, intercept)
