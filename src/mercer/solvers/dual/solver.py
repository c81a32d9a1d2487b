"""`DualAscent`: from a problem to its dual, and back with a certificate."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from mercer.checks import check_count, check_positive
from mercer.kernels.custom import Precomputed
from mercer.losses import Hinge, Perceptron, SquaredHinge
from mercer.operators import Gram
from mercer.runtime.budget import Memory, memory_budget
from mercer.solvers.admission import check_host_only
from mercer.solvers.definiteness import as_stationary
from mercer.solvers.driver import Callback, Progress, State, in_turn
from mercer.solvers.dual.ascent import Ascent, Clock, HardMargin, Listener
from mercer.solvers.dual.interior import TUNING as INTERIOR
from mercer.solvers.dual.interior import interior_point, suits
from mercer.solvers.dual.polish import goal_of_polish, polish, solve_for_free
from mercer.solvers.dual.rows import FusedRows, Rows, peak_of, rows_of
from mercer.solvers.dual.terms import Terms, check_loss
from mercer.solvers.dual.tuning import Tuning
from mercer.solvers.early_stopping import EarlyStopping, HeldOut
from mercer.solvers.optimality import Evaluation, sum_error
from mercer.solvers.problem import Problem, has_few_features, require_plain_intercept
from mercer.solvers.solution import Solution, Status
from mercer.solvers.weights import features_of, least_coefficients

LARGEST_DIAGONAL = 1e140  # k(x, x) whose square is still a number


@dataclass(frozen=True)
class DualAscent:
    """Solve a problem in its dual, for every loss with a conjugate, until the duality gap is small.

    With c_i = w_i/(λΣw) the dual is max −½αᵀKα − Σ c_i ℓ*(y_i, −α_i/c_i), times λ, where Σ α_i = 0
    if there is an intercept. Working sets of violators are drawn at random; each is solved by steps
    in two coefficients (one, without an intercept) which gain most, and Kα is brought up to date by
    one product with the rows that changed. Rows of kernels that are cheap to evaluate are never
    stored; others are cached while there is room. α and Kα are float64. Rows are float32 at first
    where there are many points; at the end Kα and the gap are computed from scratch in float64, and
    if the gap is not reached yet, ascent goes on with float64 rows. Small problems are polished to
    the last digit by a linear system.

    The coefficients of the solution are float64, `gap` is primal minus dual objective, and the
    status says how large that is relative to the objective.

    With λ = 0, hinge and squared hinge give the separating function of least norm, with margin 1;
    `gap` is then that of ½‖f‖².

    Parameters
    ----------
    tolerance : float, default=1e-4
        The relative duality gap at which to stop.
    max_iterations : int, optional
        How many steps to take at most; by default 100,000, and 1,000 more for each point, which is
        several times what problems take that can be solved in float64.
    working_set : int, default=1024
        How many coefficients are solved for together.
    cache : int, str or None, default=None
        Bytes for rows of the kernel, as in "500MB"; None for the memory budget of products.
    mixed : bool or None, default=None
        Whether to start with float32 rows; None decides by size and tolerance.
    shrinking : bool or None, default=None
        Whether coefficients that rest safely at a bound are left alone until the others are done.
        The gap is that of all of them in any case. None does so where rows are not stored: stored
        ones are added faster than they are sorted out.
    callback : function of (round, Progress), optional
        Called after every round; return True to stop.
    stopping : HeldOut, optional
        Hold rows out, and return the round that predicts them best, of each output its own.
    time_limit : float, optional
        Seconds after which to stop, at the end of a round; the gap is computed all the same.
    by_weights : bool, default=True
        Whether a function of few features in large units may be given by the least coefficients
        that have its weights, where those of the dual problem would lose its digits. They obey no
        bounds, and none of them is 0.
    tuning : Tuning

    References
    ----------
    R.-E. Fan, P.-H. Chen, C.-J. Lin, Working set selection using second order information for
    training support vector machines, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> problem = Problem(Linear().gram([[1.0]]), np.array([1.0]), Hinge(), regularization=2.0)
    >>> DualAscent().solve(problem).coefficients.tolist()  # min (1 − w)₊ + w²
    [0.5]
    """

    tolerance: float = 1e-4
    max_iterations: int | None = None
    working_set: int = 1024
    cache: Memory = None
    mixed: bool | None = None
    shrinking: bool | None = None
    callback: Callback | None = field(default=None, compare=False)
    stopping: HeldOut | None = None
    time_limit: float | None = None
    by_weights: bool = True
    tuning: Tuning = field(default=Tuning(), repr=False)

    def __post_init__(self) -> None:
        check_positive(self, "tolerance", self.tolerance)
        if self.time_limit is not None:
            check_positive(self, "time_limit", self.time_limit)
        if self.max_iterations is not None:
            check_count(self, "max_iterations", self.max_iterations)
        check_count(self, "working_set", self.working_set)
        if self.working_set < 2:
            raise ValueError("DualAscent needs a working_set of at least 2; got 1.")

    def limit(self, points: int) -> int:
        """Steps for so many points."""
        return 100_000 + 1000 * points if self.max_iterations is None else self.max_iterations

    def solve(self, problem: Problem, rows: Rows | None = None) -> Solution:
        """Solve it; `rows` hands over rows of K that are stored already."""
        check_host_only(self, problem)
        if problem.polynomials is not None:
            require_plain_intercept(type(self).__name__, problem)
        if problem.intercept_cost is not None or problem.null_space is not None:
            _check_shares(problem)
        if self.stopping is not None:
            return self._stopped_early(problem, self.stopping, rows)
        if problem.intercept_cost is not None or problem.null_space is not None:
            return self._with_shares(problem, rows)
        check_loss(self, problem.loss)
        y = np.asarray(problem.targets, np.float64)
        columns = y.reshape(len(y), -1).T
        if problem.regularization == 0:
            return self._hard_margin(problem, columns, rows)
        weights, scale = problem.sample_weights, problem.regularization
        costs = weights / (weights.sum() * scale)
        work, parts = Work(self, problem.gram, rows), list[Ascent]()
        work.problem = problem if y.ndim == 1 and self.by_weights else None
        report = _progress(self.callback, problem)
        for k, column in enumerate(columns):
            terms = Terms.of(problem.loss, column, costs, problem.fit_intercept)
            work.share_time(len(columns) - k)
            parts.append(work.ascend(terms, listener=report and report(parts)))
        objective = scale * sum(part.primal for part in parts)
        by_weights = work.solved_by_weights(parts[0])
        return by_weights or solution_of(self, problem.gram, parts, objective, scale, np.shape(y))

    def _stopped_early(self, problem: Problem, rule: HeldOut, rows: Rows | None) -> Solution:
        """The best round for held-out rows; an output is solved after the other, so each alone."""
        if not problem.single:
            problems = list(problem.each_output())
            limited = in_turn(self, len(problems))
            parts = zip(limited, problems, strict=True)
            return Solution.stacked([each._stopped_early(part, rule, rows) for each, part in parts])
        watch, state, own = EarlyStopping(rule, problem), State(), self.callback
        began = time.perf_counter()

        def look(count: int, progress: Progress) -> bool:
            state.record(seconds=time.perf_counter() - began)
            progress = watch.see(state, progress)
            return bool(state.finished or (own is not None and own(count, progress)))

        watch.see(state, Progress(np.zeros(problem.rows), np.zeros(())))
        last = replace(self, stopping=None, callback=look).solve(watch.rest, rows)
        own = None
        look(0, Progress(last.coefficients, last.intercept))
        state.history["steps"] = last.history["steps"]
        if not (state.finished or last.status.converged):
            state.stopped = "a limit or the callback"
        return watch.solution(state)

    def _with_shares(self, problem: Problem, rows: Rows | None) -> Solution:
        """ν-machines: c prices b, and the multipliers of the sums of α are −b, or b ± ρ."""
        report = _progress(self.callback, problem)
        work = Work(self, problem.gram, rows)
        ascent = work.ascend(Terms.of_shares(problem), listener=report and report([]))
        intercept: Any = -float(ascent.levels[0])
        if problem.null_space is not None:
            upper, lower = ascent.levels
            intercept = np.array([-0.5 * (upper + lower), 0.5 * (upper - lower)])
        values = ascent.values + problem.constants(intercept)
        risk = float(problem.loss.risk(problem.y, values, problem.sample_weights))
        penalty = 0.5 * problem.regularization * float(ascent.alpha @ ascent.values)
        objective, scale = risk + problem.cost(intercept) + penalty, problem.regularization
        solution = solution_of(self, problem.gram, [ascent], objective, scale, problem.y.shape)
        return replace(solution, intercept=intercept)

    def starts_in_single(self, gram: Gram) -> bool:
        """Whether ascent begins with float32 rows."""
        if self.mixed is not None:
            return self.mixed
        if gram.shape[0] < self.tuning.mixed_size or self.tolerance < self.tuning.mixed_tolerance:
            return False
        return gram.dtype == np.float32 or not isinstance(gram.kernel, Precomputed)

    def _hard_margin(self, problem: Problem, columns: np.ndarray, rows: Rows | None) -> Solution:
        _check_separation(problem)
        costs = np.where(problem.sample_weights > 0, np.inf, 0.0)
        work, parts = Work(self, problem.gram, rows), []
        for column in columns:
            _check_two_classes(column, costs, problem.fit_intercept)
            terms = Terms.of(problem.loss, column, costs, problem.fit_intercept)
            part = work.ascend(terms, HardMargin)
            if part.unbounded or part.margin <= 0:  # type: ignore[attr-defined]
                raise ValueError(_not_separable(part, self))
            part.scaled()  # type: ignore[attr-defined]
            parts.append(part)
        y, values = columns.T, np.stack([part.values - part.levels[0] for part in parts], axis=1)
        risk = float(problem.loss.risk(y, values, problem.weights))
        return solution_of(self, problem.gram, parts, risk, 0.0, np.shape(problem.targets))


def _check_shares(problem: Problem) -> None:
    """Refuse a constant with a cost other than those of ν-machines and the one-class machine."""
    cost, B = np.asarray(problem.intercept_cost), problem.null_space
    if B is None:
        known = problem.fit_intercept and cost.ndim == 0 and bool((problem.y == 1).all())
    else:
        y = np.asarray(problem.y)
        known = np.array_equal(np.asarray(B), np.stack([np.ones(len(y)), -y], axis=1))
        known = known and cost.shape == (2,) and cost[0] == 0 and cost[1] <= 0
    if not (known and isinstance(problem.loss, Perceptron)):
        raise ValueError(
            "DualAscent takes null_space and intercept_cost as Problem.one_class(...) and "
            "Problem.nu_classifier(...) have them: write one of those."
        )


def _within_memory(solver: DualAscent, gram: Gram) -> DualAscent:
    """With working sets and linear systems of which four matrices fit into the budget."""
    order = max(2, int(math.sqrt(memory_budget(gram.memory) / 32)))
    if order >= max(solver.working_set, solver.tuning.polished):
        return solver
    tuning = replace(solver.tuning, polished=min(order, solver.tuning.polished))
    return replace(solver, working_set=min(order, solver.working_set), tuning=tuning)


class Work:
    """One matrix, and its rows in one or two precisions."""

    def __init__(self, solver: DualAscent, gram: Gram, rows: Rows | None) -> None:
        self.solver, self.gram, self.rows = _within_memory(solver, gram), gram, rows
        self.limit, seconds = solver.limit(gram.shape[0]), solver.time_limit
        self.deadline = math.inf if seconds is None else time.perf_counter() + seconds
        self.clock = Clock(self.deadline)
        if seconds is not None:
            self.clock.value = _value_seconds(gram)
        self.exact: Rows | None = None
        self.features: np.ndarray | None = None
        self.problem: Problem | None = None  # of one output, where it may be solved by weights
        self.found: Solution | None = None  # by these
        self.inside: tuple[np.ndarray, np.ndarray, float] | None = None  # where it began
        self.peak = peak_of(gram, rows)
        if not self.peak < LARGEST_DIAGONAL:
            raise ValueError(
                f"{gram.kernel!r} has k(x, x) = {self.peak:.0e} here, and its products overflow: "
                "scale the columns of X, as StandardScaler does, or lower gamma or the degree."
            )

    def ascend(
        self, terms: Terms, kind: type[Ascent] = Ascent, listener: Listener | None = None
    ) -> Ascent:
        solver, tolerance = self.solver, self.solver.tolerance
        mixed = getattr(self.rows, "single", False) or solver.starts_in_single(self.gram)
        if self.rows is None:
            self.rows = self._rows(np.dtype(np.float32 if mixed else np.float64))
        ascent = kind.begin(terms, self.rows, solver.working_set, self.peak, solver.tuning)
        ascent.listener, ascent.clock, shrinks = listener, self.clock, solver.shrinking
        shrinks = isinstance(self.rows, FusedRows) if shrinks is None else shrinks
        ascent.shrinks = shrinks and kind is Ascent and terms.loss is None
        if kind is Ascent:
            self._begin_inside(ascent)
        if self.found is not None:
            return ascent
        goal = goal_of_polish(ascent, tolerance) if kind is Ascent and not mixed else None
        if mixed:
            self._ascend_mixed(ascent, self.rows)
        elif goal is not None:
            self._ascend_and_polish(ascent, self.rows, goal)
        else:
            self._run(ascent, self.rows, tolerance, self.limit)
        return ascent

    def _begin_inside(self, ascent: Ascent) -> None:
        """Where the kernel has few features, begin where the interior-point method ends."""
        gram, kernel = self.gram, cast(Any, self.gram.kernel)
        count = kernel.feature_count(gram.x.width) if has_few_features(gram) else None  # type: ignore[attr-defined]
        if count is None or not suits(ascent.terms, count) or self._ends_soon(ascent, count):
            return
        if self.features is None:
            features = features_of(kernel, gram.x.host())
            features = features.toarray() if hasattr(features, "toarray") else features
            self.features = np.ascontiguousarray(features, np.float64)
        before = ascent.alpha, ascent.values, ascent.relative_gap
        deadline = self.clock.deadline
        inside = interior_point(self.features, ascent.terms, self.solver.tolerance, deadline)
        ascent.alpha = inside[0]
        ascent.values = self.features @ (self.features.T @ ascent.alpha)
        ascent.certify(self.solver.tuning.fine)
        if not ascent.relative_gap < before[2]:
            ascent.alpha, ascent.values = before[:2]
            ascent.certify()
        self.inside = inside
        if ascent.relative(ascent.rounding) > self.solver.tolerance:  # steps would not help
            self.solved_by_weights(ascent)

    def solved_by_weights(self, ascent: Ascent) -> Solution | None:
        """Where coefficients do not reach the tolerance: by weights that do, or come far closer."""
        relative, tolerance = ascent.relative(ascent.claimed_gap), self.solver.tolerance
        known = self.found is not None or ascent.stopped or relative <= tolerance
        if known or self.problem is None or self.inside is None:
            return self.found
        features = cast(np.ndarray, self.features)
        found = solution_by_weights(ascent, self.solver, self.problem, features, self.inside)
        gap = found.history["relative_gap"][0]
        self.found = found if gap <= tolerance or gap < INTERIOR.worse * relative else None
        return self.found

    def _ends_soon(self, ascent: Ascent, features: int) -> bool:
        """Whether the steps that are tried first are enough, and a linear system to polish them."""
        n, solver = len(ascent.alpha), self.solver
        some = max(INTERIOR.tried * features**2 * n, min(2 * n, INTERIOR.few))
        if n < INTERIOR.fewest:
            some = solver.tuning.steps_before_polish * n
        some = min(int(some), self.limit)
        rows = cast(Rows, self.rows)
        ascent.run(rows, solver.tolerance, solver.working_set, some)
        if ascent.goes_on(solver.tolerance, self.limit):
            return False
        goal = goal_of_polish(ascent, solver.tolerance) if n >= INTERIOR.fewest else None
        if goal is not None and not ascent.stopped and ascent.relative_gap > goal:
            solve_for_free(ascent, self.gram, rows)
            return ascent.relative_gap <= goal
        return True

    def share_time(self, left: int) -> None:
        """The next of so many outputs has its share of the time that is left."""
        if math.isfinite(self.deadline):
            now = time.perf_counter()
            self.clock.deadline = now + (self.deadline - now) / left

    def _run(self, ascent: Ascent, rows: Rows, tolerance: float, limit: int) -> None:
        ascent.run(rows, tolerance, self.solver.working_set, limit)
        ascent.recompute(self.gram, rows)

    def _ascend_mixed(self, ascent: Ascent, rows: Rows) -> None:
        """With rows in float32, and on in float64 where the true gap is not reached.

        Kα is computed anew in float64 after each time, so that rows in float32 are then wrong for
        what α changes by alone: a second time is nearly always enough.
        """
        tolerance, limit, tuning = self.solver.tolerance, self.limit, self.solver.tuning
        for _ in range(tuning.refinements):
            self._run(ascent, rows, tuning.slack * tolerance, limit)
            if not ascent.goes_on(tolerance, limit):
                return
        self.exact = self.exact or self._rows(np.dtype(np.float64))
        self._run(ascent, self.exact, tolerance, limit)

    def _ascend_and_polish(self, ascent: Ascent, rows: Rows, goal: float) -> None:
        """Some steps, the linear system of the free coefficients, and steps again if need be."""
        tolerance, limit = self.solver.tolerance, self.limit
        some = min(self.solver.tuning.steps_before_polish * len(ascent.alpha), limit)
        ascent.run(rows, tolerance, self.solver.working_set, some)
        polish(ascent, self.gram, rows, self.solver.working_set, limit, goal)
        if ascent.goes_on(tolerance, limit) and not ascent.stalled:
            self._run(ascent, rows, tolerance, limit)

    def _rows(self, dtype: np.dtype) -> Rows:
        at_least = min(self.solver.working_set, self.gram.shape[0])
        return rows_of(self.gram.astype(dtype), at_least, self.solver.cache, self.solver.tuning)


def _value_seconds(gram: Gram, rows: int = 64) -> float:
    """Seconds for a kernel value of a product in float64, from those of some rows."""
    some = gram.x.slice(0, min(rows, len(gram.x)))
    part = Gram(gram.kernel, some, gram.x, gram.memory).astype(np.float64)
    start = time.perf_counter()
    part @ np.ones(part.shape[1])
    return (time.perf_counter() - start) / (part.shape[0] * part.shape[1])


def _progress(
    callback: Callback | None, problem: Problem
) -> Callable[[list[Ascent]], Listener] | None:
    """A function that reports rounds to a callback, with the outputs that are solved so far."""
    if callback is None:
        return None
    count, shape, scale = 0, np.shape(problem.targets), problem.regularization

    def after(parts: list[Ascent]) -> Listener:
        def report(alpha: np.ndarray, levels: np.ndarray, primal: float) -> bool:
            nonlocal count
            count += 1
            state = Progress(alpha.copy(), -levels[0], scale * primal)  # steps change α in place
            if len(shape) == 2:
                solved = sum(part.primal for part in parts)
                b = np.array([-part.levels[0] for part in parts] + [-levels[0]])
                coefficients = np.stack([*(part.alpha for part in parts), alpha], axis=1)
                wide = (0, shape[1] - len(b))
                coefficients, b = np.pad(coefficients, ((0, 0), wide)), np.pad(b, wide)
                state = Progress(coefficients, b, scale * (solved + primal))
            return bool(callback(count, state))

        return report

    return after


# ---- refusals ------------------------------------------------------------------------------------


def _check_separation(problem: Problem) -> None:
    if type(problem.loss) not in (Hinge, SquaredHinge):
        raise ValueError(
            "DualAscent with regularization=0 finds the separating function of least norm, for "
            f"Hinge and SquaredHinge; got {problem.loss!r}. Write a regularization > 0, or "
            "Direct() for the square loss."
        )


def _check_two_classes(y: np.ndarray, costs: np.ndarray, intercept: bool) -> None:
    if intercept and len(np.unique(y[costs > 0])) < 2:
        raise ValueError(
            "regularization=0 with an intercept needs points of both labels with positive weight; "
            "all of them have one label."
        )


def _not_separable(part: Ascent, solver: DualAscent) -> str:
    if part.unbounded:
        return (
            "regularization=0 asks for a function that separates the labels, and there is none "
            f"with a margin above {solver.tuning.least_margin:g} of the largest √k(x, x): write a "
            "regularization > 0."
        )
    return (
        f"no function that separates the labels was found in {part.steps:,} steps "
        f"(max_iterations={solver.limit(len(part.alpha)):,}): write a regularization > 0, or scale "
        "the columns of X."
    )


# ---- the way back --------------------------------------------------------------------------------


def solution_of(
    solver: DualAscent,
    gram: Gram,
    parts: list[Ascent],
    objective: float,
    regularization: float,
    shape: tuple[int, ...],
) -> Solution:
    """The solution of a problem from the ascents of its outputs."""
    alone = len(shape) == 1
    intercepts = [-float(part.levels[0]) if part.terms.groups else 0.0 for part in parts]
    gaps = [part.claimed_gap for part in parts]
    relative = max(part.relative(gap) for part, gap in zip(parts, gaps, strict=True))
    steps = [part.steps for part in parts]
    supported = np.any([part.alpha for part in parts], axis=0)
    counts = int(np.count_nonzero(supported)), len(supported)
    advice = advice_of(solver, parts)
    status = ending(solver, relative, sum(steps), counts, advice, regularization == 0)
    return Solution(
        coefficients=parts[0].alpha if alone else np.stack([p.alpha for p in parts], axis=1),
        status=as_stationary(gram, status),
        objective=objective,
        gap=(regularization or 1.0) * sum(gaps),
        history={
            "relative_gap": max(parts, key=lambda part: part.relative_gap).history,
            "steps": steps,
        },
        intercept=intercepts[0] if alone else np.array(intercepts),
    )


def solution_by_weights(
    ascent: Ascent,
    solver: DualAscent,
    problem: Problem,
    features: np.ndarray,
    inside: tuple[np.ndarray, np.ndarray, float],
) -> Solution:
    """The solution with the weights of features, and the least coefficients that have them.

    Those of the dual problem are of the size of its bounds, however large K is: in columns of large
    units f = Kα loses its digits, while the bound that they give keeps them, as Φᵀα is compared
    with the weights.
    """
    alpha, w, b = inside
    ridge, shares = float(problem.regularization), np.asarray(problem.shares)
    counted = shares > 0
    least = least_coefficients(features, w[:, None], counted[:, None])[:, 0]
    at = Evaluation(problem, least, np.float64(b), np.asarray(problem.gram @ least, np.float64))
    low, high = problem.loss.domain(problem.y)
    u = np.clip(np.where(counted, -ridge * alpha / np.where(counted, shares, 1.0), 0.0), low, high)
    push = shares * u / ridge
    missed = np.abs(features.T @ least + features.T @ push)
    missed += sum_error(features * push[:, None]) + sum_error(features * least[:, None])
    gap = at.gap(u, 0.5 * ridge * float(missed @ missed))
    solved = gap.relative <= solver.tolerance
    text = f"weights of {len(w)} features; {gap}, with the least coefficients that have them."
    advice = "" if solved else "Scale the columns of X, or ask for a larger tolerance."
    status = Status(solved, f"{'Solved' if solved else 'Not solved'}: {text}", advice)
    history: dict[str, list[Any]] = {"relative_gap": [gap.relative], "steps": [ascent.steps]}
    return Solution(least, status, gap.objective, gap.absolute, history, b)


def advice_of(solver: DualAscent, parts: list[Ascent]) -> str:
    """Why ascent ended, where that was not the limit of its steps."""
    worst = max(parts, key=lambda part: part.relative_gap)
    if stopped := [part.stopped for part in parts if part.stopped]:
        return f"The {stopped[0]} ended it."
    if worst.relative_gap <= solver.tolerance or (worst.stalled and worst.rounding >= worst.gap):
        return "The rest is rounding: scale the columns of X, or ask for a larger tolerance."
    if worst.stalled:
        return "No step gains any more: the kernel may be indefinite, or the tolerance too small."
    return ""


def ending(
    solver: DualAscent,
    gap: float,
    steps: int,
    counts: tuple[int, int],
    advice: str = "",
    separates: bool = False,
) -> Status:
    """The status at a relative gap, after so many steps; `counts` of support and of all points."""
    what = "separates with least norm; relative duality gap of ½‖f‖²" if separates else ""
    what = what or "relative duality gap"
    where = f"{what} {gap:.1e} after {steps:,} steps; {counts[0]:,} of {counts[1]:,} points "
    if gap <= solver.tolerance:
        return Status(True, f"Solved: {where}support the solution.")
    advice = advice or (
        "Scale the columns of X (StandardScaler), regularise more (a smaller C), or raise "
        f"max_iterations={solver.limit(counts[1]):,}."
    )
    return Status(False, f"Not solved: {where}support it.", advice)
