"""One run of Newton's method on centres: the current point, its steps, and the truth at the end."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from mercer.arrays import Array, inner, to_precision
from mercer.losses import Squared
from mercer.solvers.centres.basis import Basis
from mercer.solvers.centres.hessian import Hessian, Preconditioning
from mercer.solvers.centres.objective import Objective, Point
from mercer.solvers.centres.smoothing import Smoothed
from mercer.solvers.driver import Progress
from mercer.solvers.krylov import conjugate_steps
from mercer.solvers.problem import Problem
from mercer.solvers.solution import Solution, Status

SUFFICIENT = 1e-4  # share of the promised decrease that a step must give
HALVINGS = 30
STAGE = 0.2  # of the gap of the problem with kinks, to which a smoothed one is solved
ATTAINABLE = {"float64": 0.0, "float32": 3e-8}  # of a gap, by solving once with such products
STALLED = 0.5  # of the last gap: refining gains less than that
NARROWING = 0.25  # of the width of a smoothed kink from one stage to the next


class Descent:
    """One run: the current point, the preconditioner in use, the clock and the history."""

    def __init__(self, solver: Any, problem: Problem, basis: Basis) -> None:
        self.solver, self.problem, self.basis = solver, problem, basis
        self.passes, self.loss = problem.operator, problem.loss
        self.size, self.intercept = basis.size, problem.fit_intercept
        self.goal = solver.goal(problem.loss, problem.operator.dtype)
        self.began, self.stopped, self.iteration = time.perf_counter(), "", 0
        self.history: dict[str, list[Any]] = {"objective": [], "seconds": [], "passes": []}
        self.history |= {"gap": [], "inner_steps": []}
        bend = self.loss.smoothness if math.isfinite(self.loss.smoothness) else 1.0
        self.floor = 1e-9 * bend  # of the curvature in b, where every loss may be straight
        self.objective = Objective(problem, basis)
        self.preconditioning = Preconditioning(self.objective, solver, self.goal, self.floor)
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
        self.preconditioning.take_over(last.preconditioning)
        self.width = last.width

    @property
    def _stored(self) -> bool:
        return self.passes.stored

    @property
    def _refines(self) -> bool:
        """Whether float32 products are so much quicker that float64 only corrects them."""
        return self._stored or self.passes.y.home != "host"

    # ---- the whole run -----------------------------------------------------------------------

    def run(self, start: Solution | None) -> Solution:
        theta = self.objective.zero() if start is None else self.objective.coordinates(start)
        if self.problem.loss.is_smooth:
            point = self._newton(theta, self.goal)
        else:
            point = self._through_widths(theta)
        return self._certified(point)

    def _through_widths(self, theta: Array) -> Point:
        """Smooth less and less, until the gap of the problem itself is small."""
        y, xp = self.problem.y_columns, self.objective.xp
        spread = 2.0 if self.loss.is_classification else float(xp.std(y))
        base = self.problem.loss
        self.width = min(max(spread, 1e-12), self.width / NARROWING)
        while True:
            self.loss = Smoothed(base, self.width)
            point = self._newton(theta, 0.1 * self.goal)
            theta, gap = point.theta, self.objective.gap(point, base)[1]
            if gap <= self.goal or self._ends():
                return point
            self.width *= NARROWING
            self.preconditioning.current = None

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
        estimate = self.objective.estimated_gap(point.gradient, point.objective)
        if estimate > 10.0 * goal and self.loss is self.problem.loss:
            self.history["gap"].append(estimate)
            return False
        gap = self.objective.gap(point, self.loss)[1]
        self.history["gap"].append(gap)
        if self.loss is not self.problem.loss:
            goal = max(goal, STAGE * self.objective.gap(point, self.problem.loss)[1])
        return gap <= goal

    def _ends(self) -> bool:
        if len(self.history["inner_steps"]) >= self.solver.steps:
            self.stopped = self.stopped or f"the limit of {self.solver.steps} Newton steps"
        return bool(self.stopped)

    def _at(self, theta: Array) -> Point:
        return self.objective.at(theta, self.loss, self.precision)

    # ---- one Newton step -----------------------------------------------------------------------

    def _direction(self, point: Point, goal: float) -> Array:
        """δ with Hδ ≈ −∇J, by conjugate gradients as far as it is worth it."""
        preconditioner = self.preconditioning.at(point, self.loss)
        hessian = Hessian(self.objective, point, self.loss, self.floor, self.products)
        steps = conjugate_steps(
            lambda d, raised: hessian.product(raised),
            preconditioner.solve,
            -point.gradient,
            coupled=self.loss.is_multiclass,
        )
        return self._inner(point, steps, preconditioner, goal)

    def _inner(self, point: Point, steps: Any, preconditioner: Any, goal: float) -> Array:
        first = inner(point.gradient, preconditioner.solve(point.gradient))
        share, before = 0.0, self.objective.estimated_gap(point.gradient, point.objective)
        goal = max(goal, 2.0 * ATTAINABLE[str(self.products)] * before)
        if not isinstance(self.loss, Squared):
            share = min(0.1, math.sqrt(first / max(abs(point.objective), 1e-300)))
        taken = 0
        for step in steps:
            taken += 1
            change = 0.5 * inner(step.lifted, point.gradient - step.residual)
            self._record(point, step.lifted, point.objective + change)
            gap = self.objective.estimated_gap(step.residual, point.objective + change)
            energy = float(step.energy.sum())
            enough = gap <= max(0.5 * goal, share * before) and energy <= max(
                share * first, goal * abs(point.objective)
            )
            if enough or taken >= self.solver.inner_steps or self.stopped:
                break
        self.history["inner_steps"].append(taken)
        return step.lifted

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
            beta, shift = self.objective.split(point.theta + direction)
            intercept = shift if self.intercept else 0.0 * beta[0, :]
            if self.solver.callback(self.iteration, Progress(beta, intercept, objective)):
                self.stopped = "the callback"

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
            value = self.objective.value(self.loss, values, theta[: self.size])
            if value <= point.objective + SUFFICIENT * size * slope:
                return self._at(theta)
        return point

    # ---- the truth ---------------------------------------------------------------------------

    def _certified(self, point: Point) -> Solution:
        """The solution with its gap in float64."""
        if not point.precise:
            point = self._again(point)
        gap, relative = self.objective.gap(point, self.problem.loss)
        beta, shift = self.objective.split(point.theta)
        single = self.problem.single
        return Solution(
            coefficients=to_precision(beta[:, 0] if single else beta, self.passes.dtype),
            status=self._status(relative),
            objective=self.objective.stored(point, self.problem.loss),
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
