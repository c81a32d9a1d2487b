"""Kernel gradient descent, with its stable step and early stopping."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.arrays import Array, beside, on_host, precision, to_precision
from mercer.checks import check_count, check_positive
from mercer.solvers.descent.landscape import Element, Landscape
from mercer.solvers.driver import Callback, HeldOut, Progress
from mercer.solvers.optimality import gradient_norm
from mercer.solvers.problem import Problem
from mercer.solvers.solution import Solution, Status, plain_intercept

ROUNDING = 1.0 + 1e-9


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
class KernelGradientDescent:
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
    step : float or None, default=None
        η; None takes 1/(σ_max·s + λ), with σ_max from a few products.
    tolerance : float, default=1e-6
        Stop when ‖∇J‖ is this small, relative to its size at f = 0.
    stopping : HeldOut, Discrepancy or None
        Whether to stop before.
    callback : function of (iteration, Progress), optional
        Called after each step; True stops the descent, with the best iterate so far.

    References
    ----------
    Y. Yao, L. Rosasco, A. Caponnetto, On early stopping in gradient descent learning, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Squared
    >>> problem = Problem(Linear().gram([[1.0]]), np.array([1.0]), Squared(), regularization=0.0)
    >>> KernelGradientDescent(steps=3, step=0.5).solve(problem).coefficients.tolist()
    [0.875]
    """

    steps: int
    step: float | None = None
    tolerance: float = 1e-6
    stopping: HeldOut | Discrepancy | None = None
    callback: Callback | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_count(self, "steps", self.steps)
        check_positive(self, "tolerance", self.tolerance)
        if self.step is not None:
            check_positive(self, "step", self.step)

    def solve(self, problem: Problem, start: Any = None) -> Solution:
        landscape = Landscape(problem, self._hidden(problem))
        step = self._stable_step(landscape)
        at, watch = landscape.element(start), _Watch(self, landscape)
        for iteration in range(self.steps + 1):
            gradient = landscape.gradient(at)
            if watch.stops(iteration, at, landscape.state(at, gradient)):
                break
            at = landscape.step(at, step, gradient, iteration + 1)
        return watch.solution(step)

    def _hidden(self, problem: Problem) -> Array | None:
        if not isinstance(self.stopping, HeldOut):
            return None
        weights = problem.sample_weights
        return beside(self.stopping.hidden(on_host(weights)), weights)

    def _stable_step(self, landscape: Landscape) -> float:
        smoothness, ridge = landscape.loss.smoothness, landscape.problem.regularization
        if not math.isfinite(smoothness):
            raise ValueError(
                f"KernelGradientDescent needs a loss whose slope is Lipschitz; that of "
                f"{landscape.loss!r} is not. Use SubgradientDescent."
            )
        curvature = landscape.spectral_radius() * smoothness + ridge
        if self.step is None:
            return 1.0 / curvature if curvature > 0 else 1.0
        if self.step * curvature >= 2.0:
            raise ValueError(
                f"a step of {self.step:g} is too long: descent is stable below "
                f"2/(σ_max·s + λ) = {2.0 / curvature:.3g}. Leave step=None for half of that."
            )
        return float(self.step)


class _Watch:
    """Decides when a gradient descent ends, and keeps the best iterate and the history."""

    def __init__(self, solver: KernelGradientDescent, landscape: Landscape) -> None:
        self.solver, self.landscape = solver, landscape
        self.scale = landscape.gradient(landscape.element()).norm()
        self.history: dict[str, list[Any]] = {"objective": [], "gradient_norm": []}
        if landscape.hidden is not None:
            self.history["held_out_risk"] = []
        self.best, self.least, self.age = landscape.element(), math.inf, 0
        self.reason, self.met = "", False

    def stops(self, iteration: int, at: Element, state: Progress) -> bool:
        for name, values in self.history.items():
            values.append(getattr(state, name))
        self._keep(at, state)
        self.met, self.reason = self._verdict(iteration, state)
        return bool(self.reason)

    def _keep(self, at: Element, state: Progress) -> None:
        score = state.objective if self.landscape.hidden is None else state.held_out_risk
        noise = 8.0 * float(np.finfo(self.landscape.precision).eps) * abs(score)
        self.age += 1
        if score <= self.least + (noise if self.landscape.hidden is None else 0.0):
            self.best, self.least, self.age = at, score, 0

    def _verdict(self, iteration: int, state: Progress) -> tuple[bool, str]:
        """Whether the end was reached, and why it ends; no reason means that it goes on."""
        solver, rule = self.solver, self.solver.stopping
        if not math.isfinite(state.objective):
            return False, "the objective is not finite"
        if isinstance(rule, Discrepancy) and state.risk <= rule.level:
            return True, f"the mean loss {state.risk:.3g} is down to the level {rule.level:g}"
        if isinstance(rule, HeldOut) and self.age >= rule.patience:
            return True, f"the held-out loss has not fallen for {self.age} steps"
        if state.gradient_norm <= solver.tolerance * self.scale:
            return True, "the gradient is within the tolerance"
        if iteration > 0 and solver.callback is not None and solver.callback(iteration, state):
            return False, "the callback said so"
        return False, "that was the limit" if iteration == solver.steps else ""

    def solution(self, step: float) -> Solution:
        problem = self.landscape.problem
        dtype = precision(problem.gram.dtype)
        coefficients = to_precision(self.best.coefficients, dtype)
        intercept = plain_intercept(self.best.intercept)
        norm = gradient_norm(problem, coefficients, intercept)
        return Solution(
            coefficients=coefficients,
            status=self._status(norm, step),
            objective=problem.objective(coefficients, intercept),
            gap=norm,
            history=self.history,
            intercept=intercept,
        )

    def _status(self, norm: float, step: float) -> Status:
        taken = len(self.history["objective"]) - 1
        text = f"Stopped after {taken} steps of {step:.3g}: {self.reason}. Gradient norm {norm:.2e}"
        ridge = self.landscape.problem.regularization
        if ridge > 0 and not self.landscape.problem.fit_intercept:
            text += f", so the objective is within {norm**2 / (2 * ridge):.1e} of the least"
        if self.landscape.hidden is not None:
            count = int(self.landscape.xp.count_nonzero(self.landscape.hidden))
            text += f"; {count} rows were held out"
        return Status(*self._truth(norm, text + "."))

    def _truth(self, norm: float, text: str) -> tuple[bool, str, str]:
        if self.reason == "that was the limit":
            return False, text, "Allow more steps, or stop early on purpose with HeldOut."
        wanted = ROUNDING * self.solver.tolerance * self.scale
        if self.reason.startswith("the gradient") and self.landscape.hidden is None:
            advice = "" if norm <= wanted else "Rounding hides the rest: use float64."
            return norm <= wanted, text, advice
        return self.met, text, "" if self.met else "This is the best iterate until then."
