"""One run of Newton's method on centres: the current point, its steps, and the truth at the end."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.arrays import Array, beside, inner, namespace, on_host, to_precision
from mercer.evaluation.dispatch import on_tensors
from mercer.losses import Loss, Squared
from mercer.solvers.centres.basis import Basis, Preconditioner, sample_size
from mercer.solvers.centres.certificate import balanced, dual_value
from mercer.solvers.centres.passes import StoredPasses, random_rows
from mercer.solvers.centres.problem import CentresProblem
from mercer.solvers.centres.smoothing import Smoothed, has_curvature
from mercer.solvers.conjugate import conjugate_steps
from mercer.solvers.descent.landscape import State
from mercer.solvers.solution import Solution, Status

SUFFICIENT = 1e-4  # share of the promised decrease that a step must give
HALVINGS = 30
STALE = 0.2  # change of the curvatures, relative to their mean, that makes a preconditioner old
STAGE = 0.2  # of the gap of the problem with kinks, to which a smoothed one is solved
ATTAINABLE = {"float64": 0.0, "float32": 3e-8}  # of a gap, by solving once with such products
STALLED = 0.5  # of the last gap: refining gains less than that
NARROWING = 0.25  # of the width of a smoothed kink from one stage to the next


@dataclass
class Point:
    """θ = (γ, b) with the values, the slopes, the gradient there, and the objective's parts."""

    theta: Array
    values: Array
    slopes: Array
    gradient: Array
    objective: float
    moments: Array  # L⁻¹K_Mn(pu)
    precision: Any = np.float64  # in which it was evaluated
    mean_moments: Array | None = None  # L⁻¹K_Mn p, for the square loss with an intercept
    balanced_moments: Array | None = None  # those of slopes that sum to 0
    stored: Any = None  # values and γ of the coefficients rounded to float32

    @property
    def precise(self) -> bool:
        return self.precision == np.float64


class Descent:
    """One run: the current point, the preconditioner in use, the clock and the history."""

    def __init__(self, solver: Any, problem: CentresProblem, basis: Basis) -> None:
        self.solver, self.problem, self.basis = solver, problem, basis
        self.passes, self.loss = problem.passes, problem.loss
        self.size, self.intercept = basis.size, problem.fit_intercept
        self.goal = solver.goal(problem.loss, problem.passes.dtype)
        self.began, self.stopped, self.iteration = time.perf_counter(), "", 0
        self.history: dict[str, list[Any]] = {"objective": [], "seconds": [], "passes": []}
        self.history |= {"gap": [], "inner_steps": []}
        bend = self.loss.smoothness if math.isfinite(self.loss.smoothness) else 1.0
        self.floor = 1e-9 * bend  # of the curvature in b, where every loss may be straight
        self.preconditioner: Preconditioner | None = None
        self.xp = namespace(problem.columns)
        self.used: Any = None  # curvatures of the preconditioner
        self.precision = self.passes.dtype  # of points
        self.products = self.passes.dtype  # of products with the Hessian
        self.width = math.inf  # of a smoothed kink
        self.judged_from = 0  # gaps in the history before both were what they are

    def take_over(self, last: Descent | None) -> None:
        """Begin with the preconditioner of another λ, and with kinks as narrow as they were there.

        It is used as long as the curvatures are near those it was made for.
        """
        if last is None:
            return
        if last.preconditioner is not None:
            self.preconditioner = last.preconditioner.with_ridge(self.problem.regularization)
            self.used = last.used
        self.width = last.width

    @property
    def _stored(self) -> bool:
        return isinstance(self.passes, StoredPasses)

    @property
    def _refines(self) -> bool:
        """Whether float32 products are so much quicker that float64 only corrects them."""
        return self._stored or on_tensors(self.passes.centres)

    # ---- the whole run -----------------------------------------------------------------------

    def run(self, start: Solution | None) -> Solution:
        columns = self.problem.columns
        shape = self.size + self.intercept, columns.shape[1]
        theta = self.xp.zeros(shape, dtype=self.xp.float64, device=columns.device)
        if start is not None:
            theta = self._coordinates(start)
        if has_curvature(self.problem.loss):
            point = self._newton(theta, self.goal)
        else:
            point = self._through_widths(theta)
        return self._certified(point)

    def _through_widths(self, theta: Array) -> Point:
        """Smooth less and less, until the gap of the problem itself is small."""
        spread = 2.0 if self.loss.is_classification else float(self.xp.std(self.problem.columns))
        base = self.problem.loss
        self.width = min(max(spread, 1e-12), self.width / NARROWING)
        while True:
            self.loss = Smoothed(base, self.width)
            point = self._newton(theta, 0.1 * self.goal)
            theta, gap = point.theta, self._gap(point, base)[1]
            if gap <= self.goal or self._ends():
                return point
            self.width *= NARROWING
            self.preconditioner = None

    def _newton(self, theta: Array, goal: float) -> Point:
        """Descend in the precision of the points, then correct with gradients in float64.

        Where products with the Hessian in float32 gain nothing more, they are in float64, too.
        """
        self.precision = self.products = self.passes.dtype
        self.judged_from = len(self.history["gap"])
        point = self._at(theta)
        while not self._ends():
            near = self._near(point, goal)
            if near or self._stalls():
                if point.precise and (near or not self._sharpened()):
                    break
                if not point.precise:
                    point = self._again(point)
                    continue
            direction = self._direction(point, goal)
            if isinstance(self.loss, Squared):
                self._correct()
            following = self._searched(point, direction)
            if following.objective >= point.objective:  # rounding: nothing is left to gain
                if point.precise and not self._sharpened():
                    break
                following = self._again(point)
            point = following
        return point

    def _correct(self) -> None:
        """Points are in float64 from the first solution of a linear system on."""
        self.precision = np.dtype(np.float64)
        if not self._refines:
            self.products = self.precision

    def _again(self, point: Point) -> Point:
        """The same point in float64, and so are those that follow."""
        self.precision = np.dtype(np.float64)
        self.judged_from = len(self.history["gap"])
        return point if point.precise else self._at(point.theta)

    def _sharpened(self) -> bool:
        """Whether products with the Hessian could be made more precise, which is done then."""
        if self.products == np.float64:
            return False
        self.products = np.dtype(np.float64)
        self.judged_from = len(self.history["gap"])
        return True

    def _stalls(self) -> bool:
        """Whether refining gains nothing more, because rounding is in the way.

        In float64 only the square loss, a linear system, is judged by its gaps: those of others
        need not fall from the first step on.
        """
        gaps = self.history["gap"][self.judged_from :]
        judged = isinstance(self.loss, Squared) or self.products != np.float64
        precise = self.precision == np.float64
        return judged and precise and len(gaps) > 2 and gaps[-1] > STALLED * gaps[-2]

    def _near(self, point: Point, goal: float) -> bool:
        """Whether the gap is at the goal; a stage of smoothing ends where the kinks say more."""
        estimate = self._estimated_gap(point.gradient, point.objective)
        if estimate > 10.0 * goal and self.loss is self.problem.loss:
            self.history["gap"].append(estimate)
            return False
        gap = self._gap(point, self.loss)[1]
        self.history["gap"].append(gap)
        if self.loss is not self.problem.loss:
            goal = max(goal, STAGE * self._gap(point, self.problem.loss)[1])
        return gap <= goal

    def _estimated_gap(self, gradient: Array, objective: float) -> float:
        """‖∇J‖²/(2λ), the gap at the slopes, relative to the objective; without the intercept."""
        part = gradient[: self.size]
        size = inner(part, part) / (2.0 * self.problem.regularization)
        return size / max(abs(objective), 1e-300)

    def _ends(self) -> bool:
        if len(self.history["inner_steps"]) >= self.solver.steps:
            self.stopped = self.stopped or f"the limit of {self.solver.steps} Newton steps"
        return bool(self.stopped)

    # ---- one point ---------------------------------------------------------------------------

    def _at(self, theta: Array) -> Point:
        """Values and gradient at θ: one pass, in which its rounded coefficients are judged too."""
        problem, (beta, shift) = self.problem, self._split(theta)
        outputs, rounded, kept, xp = beta.shape[1], self._rounded(beta), None, self.xp
        if rounded is not None:
            beta = xp.concat([beta, rounded], axis=1)
            kept = xp.empty_like(problem.columns)
        values = xp.empty_like(problem.columns)
        slopes = xp.empty_like(values)
        squared = isinstance(self.loss, Squared) and self.intercept

        def middle(start: int, stop: int, rows: Array) -> Array:
            part = slice(start, stop)
            values[part] = rows[:, :outputs] + shift
            if kept is not None:
                kept[part] = rows[:, outputs:] + shift
            slopes[part] = self.loss.slope(problem.columns[part], values[part])
            pushes = problem.shares[part] * slopes[part]
            if squared:
                pushes = xp.concat([pushes, problem.shares[part]], axis=1)
            return to_precision(pushes, rows.dtype)

        moments = self.basis.pull(self.passes.sandwich(beta, middle, self.precision))
        moments, mean = moments[:, :outputs], moments[:, outputs:] if squared else None
        point = self._point(theta, values, slopes, moments)
        point.precision, point.mean_moments = self.precision, mean
        if rounded is not None:
            point.stored = kept, self.basis.coordinates(rounded)
        return point

    def _rounded(self, beta: Array) -> Array | None:
        """The coefficients as they will be stored, where that is not how they are."""
        if self.passes.dtype == np.float64 or self.precision != np.float64:
            return None
        return to_precision(to_precision(beta, self.passes.dtype), "float64")

    def _point(self, theta: Any, values: Any, slopes: Any, moments: Any) -> Point:
        ridge, gamma = self.problem.regularization, theta[: self.size]
        gradient = moments + ridge * gamma
        if self.intercept:
            constant = (self.problem.shares * slopes).sum(axis=0, keepdims=True)
            gradient = self.xp.concat([gradient, constant])
        objective = self._objective(self.loss, values, gamma)
        return Point(theta, values, slopes, gradient, objective, moments)

    def _objective(self, loss: Loss, values: Array, gamma: Array) -> float:
        risk = replace(self.problem, loss=loss).risk(values)
        return risk + 0.5 * self.problem.regularization * inner(gamma, gamma)

    def _split(self, theta: Array) -> tuple[Array, Any]:
        beta = self.basis.coefficients(theta[: self.size])
        return beta, theta[-1] if self.intercept else 0.0

    def _coordinates(self, start: Solution) -> Array:
        beta, shift = map(self.problem.double, (start.coefficients, start.intercept))
        gamma = self.basis.coordinates(beta.reshape(self.size, -1))
        if not self.intercept:
            return gamma
        return self.xp.concat([gamma, shift.reshape(1, -1)])

    # ---- one Newton step -----------------------------------------------------------------------

    def _direction(self, point: Point, goal: float) -> Array:
        """δ with Hδ ≈ −∇J, by conjugate gradients as far as it is worth it."""
        curvature = self._curvature(point)
        preconditioner = self._preconditioner(point)
        ridge = self.problem.regularization

        def multiply(v: Array) -> Array:
            beta, shift = self._split(v)
            pushes = self.xp.empty_like(point.values) if self.intercept else None

            def middle(start: int, stop: int, rows: Array) -> Array:
                if pushes is None:
                    return to_precision(curvature(start, stop, rows), rows.dtype)
                out = curvature(start, stop, rows + to_precision(shift, rows.dtype))
                pushes[start:stop] = out
                return to_precision(out, rows.dtype)

            moments = self.passes.sandwich(beta, middle, self.products)
            image = self.basis.pull(moments) + ridge * v[: self.size]
            if pushes is None:
                return image
            constant = pushes.sum(axis=0, keepdims=True) + self.floor * v[-1:]
            return self.xp.concat([image, constant])

        steps = conjugate_steps(
            multiply,
            preconditioner.solve,
            -point.gradient,
            coupled=self.loss.is_multiclass,
        )
        return self._inner(point, steps, preconditioner, goal)

    def _inner(self, point: Point, steps: Any, preconditioner: Any, goal: float) -> Array:
        first = inner(point.gradient, preconditioner.solve(point.gradient))
        share, before = 0.0, self._estimated_gap(point.gradient, point.objective)
        goal = max(goal, 2.0 * ATTAINABLE[str(self.products)] * before)
        if not isinstance(self.loss, Squared):
            share = min(0.1, math.sqrt(first / max(abs(point.objective), 1e-300)))
        taken = 0
        for step in steps:
            taken += 1
            change = 0.5 * inner(step.solution, point.gradient - step.residual)
            self._record(point, step.solution, point.objective + change)
            gap = self._estimated_gap(step.residual, point.objective + change)
            energy = float(step.energy.sum())
            enough = gap <= max(0.5 * goal, share * before) and energy <= max(
                share * first, goal * abs(point.objective)
            )
            if enough or taken >= self.solver.inner_steps or self.stopped:
                break
        self.history["inner_steps"].append(taken)
        return step.solution

    def _record(self, point: Point, direction: Array, objective: float) -> None:
        self.iteration += 1
        seconds = time.perf_counter() - self.began
        self.history["objective"].append(objective)
        self.history["seconds"].append(seconds)
        self.history["passes"].append(self.passes.count)
        limit = self.solver.time_limit
        if limit is not None and seconds >= limit:
            self.stopped = f"the time limit of {limit:g} s"
        if self.solver.callback is not None:
            beta, shift = self._split(point.theta + direction)
            intercept = shift if self.intercept else self.xp.zeros_like(beta[0, :])
            if self.solver.callback(self.iteration, State(beta, intercept, objective)):
                self.stopped = "the callback"

    def _curvature(self, point: Point) -> Any:
        """(start, stop, rows) ↦ p·ℓ''·rows."""
        problem, dtype = self.problem, self.products
        if self.loss.is_multiclass:
            found = self.loss.probability(point.values)  # type: ignore[attr-defined]
            probabilities, shares = (to_precision(part, dtype) for part in (found, problem.shares))

            def product(start: int, stop: int, rows: Array) -> Array:
                p = probabilities[start:stop]
                return shares[start:stop] * p * (rows - (p * rows).sum(axis=1, keepdims=True))

            return product
        bends = self.loss.curvature(problem.columns, point.values)
        factors = to_precision(problem.shares * bends, dtype)
        return lambda start, stop, rows: factors[start:stop] * rows

    def _preconditioner(self, point: Point) -> Preconditioner:
        factors = self._mean_curvature(point)
        old = self.preconditioner
        if old is not None and abs(factors - self.used).sum() <= STALE * self.used.sum():
            return old
        self.used = factors
        active = on_host(self.xp.nonzero(factors)[0])
        chosen, points = self._sample(active)
        scale = len(active) / max(len(chosen), 1)
        self.preconditioner = Preconditioner(
            self.basis,
            self.passes,
            points,
            scale * factors[beside(chosen, factors)],
            self.problem.regularization,
            self.floor if self.intercept else None,
        )
        return self.preconditioner

    def _sample(self, active: Array) -> tuple[Array, Any]:
        """Some of the rows that bend the objective."""
        count = self.solver.sample
        if count is None:
            width = 0 if self._stored else getattr(self.passes.centres, "width", 1)
            count = sample_size(max(len(active), 1), self.size, self.goal, width)
        among = random_rows(len(active), count, self.solver.random_state)
        return active[among], self.passes.take(active[among])

    def _mean_curvature(self, point: Point) -> Array:
        """p·ℓ'' of each row, the mean over outputs."""
        if self.loss.is_multiclass:
            p = self.loss.probability(point.values)  # type: ignore[attr-defined]
            curvature = p * (1.0 - p)
        else:
            curvature = self.loss.curvature(self.problem.columns, point.values)
        return self.problem.shares[:, 0] * curvature.mean(axis=1)

    def _searched(self, point: Point, direction: Array) -> Point:
        """The whole step where it lowers the objective enough, else the best on the way."""
        full = self._at(point.theta + direction)
        slope = inner(point.gradient, direction)
        if full.objective <= point.objective + SUFFICIENT * slope:
            return full
        change, size = full.values - point.values, 1.0
        for _ in range(HALVINGS):
            size *= 0.5
            theta = point.theta + size * direction
            values = point.values + size * change
            value = self._objective(self.loss, values, theta[: self.size])
            if value <= point.objective + SUFFICIENT * size * slope:
                return self._at(theta)
        return point

    # ---- the truth ---------------------------------------------------------------------------

    def _gap(self, point: Point, loss: Loss) -> tuple[float, float]:
        """The duality gap, also relative to the objective; slopes of an intercept are corrected.

        The objective is that of the coefficients as they are stored, the bound that of the slopes
        before rounding: rounding costs no more than what it adds to the objective.
        """
        objective = self._stored_objective(point, loss)
        slopes, moments = point.slopes, point.moments
        if self.intercept:
            slopes, moments = self._balanced(point)
        bound = dual_value(self.problem, loss, slopes, moments)
        gap = max(objective - bound, 0.0)
        scale = max(abs(objective), abs(bound)) if math.isfinite(bound) else abs(objective)
        return gap, gap / (scale or 1.0)

    def _stored_objective(self, point: Point, loss: Loss) -> float:
        values, gamma = point.stored or (point.values, point.theta[: self.size])
        return self._objective(loss, values, gamma)

    def _balanced(self, point: Point) -> tuple[Array, Array]:
        """Slopes that sum to 0 and L⁻¹K_Mn(pu) of them; a pass, unless the loss is the square."""
        slopes = balanced(self.problem, point.slopes)
        if point.mean_moments is not None:
            constant = (self.problem.shares * point.slopes).sum(axis=0)
            return slopes, point.moments - point.mean_moments * constant
        if point.balanced_moments is None:
            pushes = self.problem.shares * slopes
            nothing = self.xp.zeros_like(point.theta[: self.size])

            def middle(start: int, stop: int, rows: Array) -> Array:
                return to_precision(pushes[start:stop], rows.dtype)

            moments = self.passes.sandwich(nothing, middle, point.precision)
            point.balanced_moments = self.basis.pull(moments)
        return slopes, point.balanced_moments

    def _certified(self, point: Point) -> Solution:
        """The solution with its gap in float64."""
        if not point.precise:
            point = self._again(point)
        gap, relative = self._gap(point, self.problem.loss)
        beta, shift = self._split(point.theta)
        single = self.problem.single
        return Solution(
            coefficients=to_precision(beta[:, 0] if single else beta, self.passes.dtype),
            status=self._status(relative),
            objective=self._stored_objective(point, self.problem.loss),
            gap=gap,
            history=self.history,
            intercept=float(shift[0]) if single and self.intercept else shift,
        )

    def _status(self, relative: float) -> Status:
        steps = self.history["inner_steps"]
        work = (
            f"{len(steps)} Newton step{'s' * (len(steps) != 1)}, {sum(steps)} steps of conjugate "
            f"gradients, {self.passes.count} passes over {self.passes.rows} rows on {self.size} "
            f"centres; jitter {self.basis.jitter:.1e} on K_MM; relative duality gap {relative:.1e}"
        )
        if relative <= self.goal:
            return Status(True, f"Solved on centres: {work}.")
        if self.stopped:
            return Status(False, f"Stopped by {self.stopped}: {work}.", "Allow more time or steps.")
        return Status(
            False,
            f"Not solved to {self.goal:.0e}: {work}.",
            f"Rounding in {self.passes.dtype} is in the way: pass float64, raise the "
            "regularization, or ask for a larger tolerance.",
        )
