"""Newton's method, for all points, centres and features: steps, stages, and the gap that ends it.

What a step is made of differs: on all points it is an equation in the space of functions
(`all_points`), on centres and features one in coordinates (`on_centres`). The method around it is
one: points are judged by their duality gap, products become exact where rounding is in the way, and
a hard problem is reached through easier ones.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mercer.arrays import Array
from mercer.checks import check_count, check_positive
from mercer.losses import Loss, Squared
from mercer.solvers import all_points, on_centres
from mercer.solvers.all_points import OnAllPoints, Products
from mercer.solvers.driver import DERIVED, NOT_STORED, Callback, Progress, State, drive
from mercer.solvers.early_stopping import HeldOut
from mercer.solvers.on_centres import Basis, OnCentres
from mercer.solvers.optimality import EPS, UNATTAINED
from mercer.solvers.preconditioners.memory import check_memory
from mercer.solvers.preconditioners.sampling import SampledHessians
from mercer.solvers.problem import Problem, require_squared_norm
from mercer.solvers.root import RootMethod
from mercer.solvers.solution import Solution, Status, plain_intercept


@dataclass(frozen=True)
class Tuning:
    """Numbers of Newton's method, and of both kinds of steps."""

    rough: float = 1e-2  # the gap to which easier problems are solved on the way to a hard one
    narrowing: float = 0.25  # of the width of a smoothed kink from one stage to the next: with a
    # quarter a stage takes two or three Newton steps
    stage_share: float = 0.2  # of the gap of the problem with kinks, to which a smoothed one is
    # solved
    all_points: all_points.Tuning = all_points.Tuning()  # noqa: RUF009 (frozen)
    centres: on_centres.Tuning = on_centres.Tuning()  # noqa: RUF009 (frozen)


def default_tolerance(loss: Loss, dtype: Any) -> float:
    """The relative gap to reach on centres: 1e-3 in float32 and where there are kinks.

    >>> from mercer.losses import Hinge, Squared
    >>> default_tolerance(Squared(), "float64"), default_tolerance(Hinge(), "float64")
    (1e-06, 0.001)
    """
    return 1e-6 if loss.is_smooth and str(dtype) == "float64" else 1e-3


@dataclass(eq=False)
class NewtonState(State):
    """Coefficients and intercept, and the stage: the width of smoothed kinks, λ, the λ to come."""

    coefficients: Array = None
    intercept: Array = None
    width: float = math.inf
    ridge: float = 0.0
    ridges: list[float] = field(default_factory=list)
    newton_steps: int = 0
    tried: bool = False  # whether easier problems were tried
    stage: dict[str, Any] = field(default_factory=dict)  # what the steps to come depend on besides
    krylov: Array = field(default=None, repr=False)  # of conjugate gradients, on the way
    origin: Array = field(default=None, repr=False)  # the point that the preconditioner is of
    point: Any = field(default=None, repr=False, metadata=DERIVED)
    direction: Any = field(default=None, repr=False, metadata=DERIVED)
    shared: Any = field(default=None, repr=False, metadata=NOT_STORED)
    first: Any = field(default=None, repr=False, metadata=NOT_STORED)  # what came before those


@dataclass(eq=False)
class Shared:
    """Shared by the problems of a path: products with K, or a basis, its samples and widths."""

    products: Products | None = None
    basis: Basis | None = None
    hessians: SampledHessians | None = None
    width: float = math.inf


@dataclass(frozen=True)
class Newton:
    """Newton's method from any start, until the duality gap is small.

    On all points each step solves (λI + DK)δ = −g, g = p·ℓ' + λα, D = p·ℓ'', p = w/Σw, and goes
    along δ until the objective is nearly least there, which converges from everywhere; where that
    takes long, λ falls to its value by tens. The linear systems are solved by conjugate gradients
    in the space, also for several classes, so that no matrix of the size n·K × n·K is ever made; by
    a Cholesky factor where these take long and there are at most 2,000 points; in the features of
    the kernel where these are few. An intercept is eliminated exactly. K is stored in float64 where
    it is small, else in float32 where the memory budget allows it.

    On centres and features (`Problem.on_centres`, `Problem.on_features`) every step of conjugate
    gradients is one pass over the rows, preconditioned by the Hessian on a sample of them; K_nM is
    not stored. The square loss takes one Newton step, other smooth losses a few, each solved as
    well as it deserves. Losses with kinks (hinge, quantile, …) are smoothed less and less until the
    gap of the problem itself is small.

    A gap that float32 cannot reach is reached by exact gradients. What the solution reports is
    computed afresh in float64.

    Parameters
    ----------
    tolerance : float, optional
        The duality gap, relative to the objective, at which to stop; by default 1e-6, and on
        centres 1e-3 in float32 or for a loss with kinks. With the square loss values f(x_i) are
        then off by at most √(2·gap) in root mean square.
    iterations : int, default=100
        At most so many Newton steps, in all stages of smoothing together.
    inner_iterations : int, default=200
        On centres, at most so many steps of conjugate gradients for each.
    root : RootMethod or None, default=None
        On all points, a square root K = ΦΦᵀ to work with, as `PivotedCholesky(1e-6)`; what it
        leaves out shows in the gap.
    factor : bool or None, default=None
        On all points, whether to factor the Hessian; None does where conjugate gradients take long.
    sample : int, optional
        On centres, rows from which the preconditioner is made; by default as many as pay.
    random_state : int, default=0
        Chooses these rows.
    time_limit : float, optional
        Seconds after which to stop with the best iterate; the gap still takes a pass.
    callback : function of (iteration, Progress), optional
        Called after each Newton step, for the square loss after each step of conjugate gradients;
        True stops.
    stopping : HeldOut, optional
        Hold rows out, and return the iterate that predicts them best.
    checkpoint : path, optional
        Where the iterate is stored after each step; `solve(problem, resume=path)` goes on.
    tuning : Tuning

    References
    ----------
    O. Chapelle, Training a support vector machine in the primal, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Logistic
    >>> k, X = Gaussian(0.5), np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = np.sign(X[:, 0] + 0.005)
    >>> exact = Newton().solve(Problem(k.gram(X), y, Logistic(), regularization=1e-3))
    >>> exact.status.converged, exact.gap < 1e-6 * exact.objective
    (True, True)
    >>> few = Newton().solve(Problem.on_centres(k.gram(X, X[::20]), y, Logistic(), 1e-3))
    >>> bool(exact.objective <= few.objective <= 1.01 * exact.objective)
    True
    """

    library_of_points: ClassVar[bool] = True
    limits_itself: ClassVar[bool] = True  # iterations are Newton steps

    tolerance: float | None = None
    iterations: int = 100
    inner_iterations: int = 200
    root: RootMethod | None = None
    factor: bool | None = None
    sample: int | None = None
    random_state: int = 0
    time_limit: float | None = None
    callback: Callback | None = field(default=None, compare=False)
    stopping: HeldOut | None = None
    checkpoint: Any = None
    tuning: Tuning = field(default=Tuning(), repr=False)

    def __post_init__(self) -> None:
        for name in ("iterations", "inner_iterations"):
            check_count(self, name, getattr(self, name))
        for name in ("tolerance", "time_limit"):
            if getattr(self, name) is not None:
                check_positive(self, name, getattr(self, name))
        if self.sample is not None:
            check_count(self, "sample", self.sample)

    def solve(
        self, problem: Problem, start: Solution | None = None, *, resume: Any = None
    ) -> Solution:
        """The solution; `start` is one with as many coefficients to begin from."""
        return drive(self, problem, start, resume=resume)

    def goal(self, problem: Problem) -> float:
        """The relative gap at which to stop."""
        if self.tolerance is not None:
            return self.tolerance
        dtype = "float64" if problem.on_all_points else problem.operator.dtype
        return default_tolerance(problem.loss, dtype)

    def shared(self, problem: Problem) -> Shared:
        """Make what problems with several λ share; this one has the smallest."""
        self.check(problem)
        if problem.on_all_points:
            return Shared(Products.of(problem, self.root, self.tuning.all_points))
        check_memory(problem, self.sample)
        return Shared(basis=Basis(problem, self.tuning.centres))

    def check(self, problem: Problem) -> None:
        """Refuse λ = 0, and on all points losses with kinks."""
        require_squared_norm(self, problem)
        loss = problem.loss
        if problem.on_all_points and not loss.is_smooth:
            raise ValueError(
                f"Newton needs a smooth loss; got {loss!r}, which has kinks. Write DualAscent() or "
                "Splitting(), or Problem.on_centres(...) (centres=1000 in an estimator), where "
                'kinks are smoothed; solver="auto" chooses by itself.'
            )
        if problem.regularization > 0:
            return
        if isinstance(loss, UNATTAINED):
            raise ValueError(
                f"{type(loss).__name__} without regularisation may have no minimum: the values of "
                "f grow without end. Write regularization > 0."
            )
        raise ValueError("Newton needs regularization > 0, which its duality gap is measured by.")

    # ---- iterations ------------------------------------------------------------------------------

    def begin(
        self, problem: Problem, start: Solution | None = None, shared: Shared | None = None
    ) -> NewtonState:
        shared = self.shared(problem) if shared is None else shared
        self.check(problem)
        space: Any
        state = NewtonState(ridge=float(problem.regularization), shared=shared)
        state.history |= {name: [] for name in ("objective", "seconds", "gap", "inner_steps")}
        if shared.products is not None:
            space = OnAllPoints(problem, shared.products, self)
        else:
            assert shared.basis is not None
            space = OnCentres(problem, shared.basis, self)
            if shared.hessians is not None:
                space.hessians.take_over(shared.hessians)
            if not problem.loss.is_smooth:
                narrow = shared.width / self.tuning.narrowing
                state.width = min(space.spread(), narrow)
                space.smoothed(state.width)
        state.work = space
        self._arrive(state, space.started(start))
        self._judge(state)
        return state

    def _arrive(self, state: NewtonState, point: Any) -> None:
        state.point, state.direction = point, None
        state.coefficients, state.intercept = state.work.coefficients(point)

    def step(self, state: NewtonState) -> NewtonState:
        """A Newton step, or for the square loss a step of conjugate gradients of it."""
        space = state.work
        if state.point is None:  # resumed
            self._resume(state)
        if state.direction is None:
            state.direction = space.direction(state.point, self._stage_goal(state))
        each, late = isinstance(space.loss, Squared), False
        with space.passing():
            enough = state.direction.advance()
            while not (enough or each or late):
                enough = state.direction.advance()
                late = time.perf_counter() >= state.deadline
            if enough or late:
                self._take(state)
        if self.checkpoint is not None:
            self._remember(state)
        state.iteration += 1
        state.record(objective=space.objective(state.point, state.direction), products=space.count)
        return state

    def _remember(self, state: NewtonState) -> None:
        """What a checkpoint needs beside the point, so that the same steps follow."""
        state.stage, state.origin = state.work.remembered()
        last = None if state.direction is None else state.direction.last
        state.krylov = None
        if last is not None:
            state.krylov, energies = last.stored()
            state.stage |= {"energies": energies, "taken": state.direction.taken}

    def _resume(self, state: NewtonState) -> None:
        space, stage = state.work, state.stage
        space.ridge = state.ridge
        if math.isfinite(state.width):
            space.smoothed(state.width)
        space.remember(stage, state.origin)
        state.point = space.at(state.coefficients, state.intercept)
        space.count = stage["count"]  # that was done before
        if state.krylov is not None:
            state.direction = space.direction(state.point, self._stage_goal(state))
            state.direction.resume(state.krylov, stage["energies"], stage["taken"])

    def _take(self, state: NewtonState) -> None:
        """Go along the direction, and judge where that leads."""
        space, before = state.work, state.point
        state.newton_steps += 1
        state.record(inner_steps=state.direction.taken)
        after, length = space.search(before, state.direction)
        space.gained(before, after, length)
        if space.rejects(before, after):
            if space.is_exact(before) and not space.sharpen():
                self._arrive(state, before)
                self._end_stage(state, near=False)
                return
            after = space.exactly(before)
        self._arrive(state, after)
        self._judge(state)

    def _judge(self, state: NewtonState) -> None:
        """Whether the stage is at its end; exact products where rounding may be in the way."""
        space = state.work
        while True:
            goal = self._stage_goal(state)
            gap = space.relative_gap(state.point, goal)
            state.record(gap=gap)
            if not math.isinf(state.width):
                own = space.gap(state.point, state.work.problem.loss).relative
                goal = max(goal, self.tuning.stage_share * own)
            near = gap <= goal
            if not (near or space.stalled(state.history["gap"])):
                if state.newton_steps >= self.iterations:
                    self._limit(state)
                return
            if space.is_exact(state.point):
                if near or not space.sharpen():
                    self._end_stage(state, near)
                return
            self._arrive(state, space.exactly(state.point))

    def _stage_goal(self, state: NewtonState) -> float:
        problem = state.work.problem
        goal = self.goal(problem)
        if state.ridge > problem.regularization:
            return max(goal, self.tuning.rough)
        return goal if math.isinf(state.width) else 0.1 * goal

    def _limit(self, state: NewtonState) -> None:
        at_last = state.tried and state.ridge == state.work.problem.regularization
        if state.work.place or at_last:
            each = " for each λ" if state.tried else ""
            state.stopped = f"the limit of {self.iterations} Newton steps{each}"
        else:
            self._end_stage(state, near=False)

    # ---- stages: the same problem, through easier ones -------------------------------------------

    def _end_stage(self, state: NewtonState, near: bool) -> None:
        space, problem = state.work, state.work.problem
        if not math.isinf(state.width):
            gap = space.gap(state.point, problem.loss).relative
            if gap <= self.goal(problem):
                state.finished = "the tolerance is reached"
            elif state.newton_steps >= self.iterations:
                state.stopped = f"the limit of {self.iterations} Newton steps"
            elif state.width < EPS * space.spread():  # no value is so near to a kink
                state.finished = "rounding"
            else:
                self._narrow(state)
            return
        if state.ridge == problem.regularization:
            if near or state.tried:
                state.finished = "the tolerance is reached" if near else "rounding"
                return
            state.tried, state.first = True, state.point
            state.ridges = space.easier()
            if not state.ridges:
                state.finished = "rounding"
                return
        self._next_ridge(state)

    def _narrow(self, state: NewtonState) -> None:
        """Smooth less."""
        state.width *= self.tuning.narrowing
        state.work.smoothed(state.width)
        state.work.hessians.current = None
        self._arrive(state, state.work.at(state.coefficients, state.intercept))
        self._judge(state)

    def _next_ridge(self, state: NewtonState) -> None:
        """Go on with the next λ, the last of which is that of the problem."""
        space = state.work
        state.ridge = state.ridges.pop(0) if state.ridges else float(space.problem.regularization)
        space.ridge, state.newton_steps = state.ridge, 0
        space.forget()
        self._arrive(state, space.at(state.coefficients, state.intercept))
        self._judge(state)

    # ---- the answer ------------------------------------------------------------------------------

    def progress(self, state: NewtonState) -> Progress:
        at = state.point, state.direction
        coefficients, intercept = state.work.coefficients(*at)
        return Progress(coefficients, intercept, state.work.objective(*at))

    def solution(self, state: NewtonState) -> Solution:
        space, problem = state.work, state.asked
        if state.point is None:  # resumed at its end
            self._resume(state)
        if state.direction is not None:  # interrupted on the way
            after, _ = space.search(state.point, state.direction)
            if after.objective <= state.point.objective:
                self._arrive(state, after)
            state.record(inner_steps=state.direction.taken if state.direction else 0)
        gap, coefficients, intercept = space.certified(problem, state.point)
        if state.first is not None and not gap.relative <= self.goal(problem):
            space.ridge = float(problem.regularization)
            other = space.certified(problem, state.first)
            if other[0].absolute < gap.absolute:
                gap, coefficients, intercept = other
        if state.shared.basis is not None:  # the next λ of a path takes it over
            state.record(preconditioners=space.hessians.made)
            state.shared.hessians, state.shared.width = space.hessians, state.width
        return Solution(
            coefficients=coefficients,
            status=self._status(state, gap),
            objective=gap.objective,
            gap=gap.absolute,
            history=state.history,
            intercept=plain_intercept(intercept),
        )

    def _status(self, state: NewtonState, gap: Any) -> Status:
        space, goal = state.work, self.goal(state.asked)
        steps, inner = len(state.history["inner_steps"]), sum(state.history["inner_steps"])
        work = (
            f"{gap} after {steps} Newton step{'s' * (steps != 1)}, {inner} steps of conjugate "
            f"gradients, {space.note}"
        )
        if gap.relative <= goal:
            return Status(True, f"Solved{space.place}: {work}.")
        if state.stopped:
            advice = "Allow more time or iterations, scale the features, or raise λ."
            return Status(False, f"Stopped by {state.stopped}: {work}.", advice)
        return Status(False, f"Not solved to {goal:.0e}: {work}.", space.advice(gap))
