"""From parameters to a posed problem and its solution: where f is sought, and by which solver."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, cast

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mercer.checks import check_object, check_positive
from mercer.errors import (
    ApproximationWarning,
    IndefiniteKernelWarning,
    NotPositiveDefiniteError,
    warn,
)
from mercer.estimators.early_stopping import iterative, stopped_by, validation_scores
from mercer.estimators.lengthscales import warn_of_lengthscale
from mercer.estimators.progress import FitTask, with_progress
from mercer.evaluation.dispatch import program_of
from mercer.features.centres import Choice, Given, drawn
from mercer.functions import Polynomials, RKHSFunction, SplineFunction
from mercer.kernels import laws
from mercer.kernels.base import Kernel, parts
from mercer.kernels.custom import PairKernel, Precomputed
from mercer.losses import Loss, Squared
from mercer.operators import BlockedGram, Gram, check_restartable, cross_gram
from mercer.points import PointSet
from mercer.runtime.budget import memory_budget
from mercer.solvers import automatic
from mercer.solvers.definiteness import solved_for_nearest
from mercer.solvers.driver import limited
from mercer.solvers.early_stopping import HeldOut
from mercer.solvers.newton import Newton
from mercer.solvers.problem import Problem, has_few_features
from mercer.solvers.solution import Solution
from mercer.solvers.splitting import Splitting
from mercer.solvers.workload import Workload


@dataclass(frozen=True, eq=False)
class Formulation:
    """A formulation: f on all points or on centres, and the solver; it makes problems.

    Parameters
    ----------
    kernel : Kernel
    operator : operator
        K for f on all points, K_nM for f on centres.
    points : PointSet
        What f is made of: all points, or the centres.
    solver : solver
    choice : Choice or None
        What "auto" chose among.
    choose : function or None
        Makes the choice, also where it was not needed.
    on_all_points : bool
        Whether these are all points.
    checkpoint : path or None
        Where the solver stores its state, and goes on from; a second problem has the file
        `path.1`, and so on.
    loss, outputs : Loss, int
        What the problems are, as far as what they take depends on it.
    deadline : float or None
        When all problems should be solved, as `time.perf_counter` says it; solvers that have a time
        limit of their own keep it.
    """

    kernel: Kernel
    operator: Any
    points: PointSet
    solver: Any
    choice: automatic.Choice | None = None
    choose: Callable[[], automatic.Choice] | None = None
    on_all_points: bool = True
    checkpoint: Any = None
    loss: Loss = field(default_factory=Squared)
    outputs: int = 1
    deadline: float | None = None
    parts: list[Path] = field(default_factory=list, repr=False)

    def problem(
        self,
        y: Any,
        loss: Loss,
        regularization: Any,
        weights: Any,
        fit_intercept: bool,
        rows: np.ndarray | None = None,
    ) -> Problem:
        """The problem for these targets and this λ, on all rows or some."""
        if self.on_all_points:
            gram = self.operator if rows is None else self.operator[rows, rows]
            return Problem(gram, y, loss, regularization, weights, fit_intercept)
        cross = self.operator
        if rows is not None:
            part = cross[rows, :]
            cross = cross_gram(part.kernel, part.x, part.y)
        return Problem.on_centres(cross, y, loss, regularization, weights, fit_intercept)

    def solve(
        self,
        problem: Problem,
        task: FitTask,
        attributes: Callable[[Any, Any], dict[str, Any]] | None = None,
        nearest: bool = False,
        left: int = 1,
    ) -> Solution:
        """Solve a problem; with `attributes`, made of α and b, each step is a part of the task.

        `nearest` says that a kernel which is not positive definite is replaced by the nearest one;
        `left`, how many problems share the time until the deadline.
        """
        solver = self.solver
        if self.deadline is not None and getattr(solver, "time_limit", 0.0) is None:
            solver = limited(solver, self.deadline, 1.0 / left)
        if attributes is not None and task.has_callbacks:
            solver = with_progress(solver, task, lambda s: attributes(s.coefficients, s.intercept))
        resume: dict[str, Any] = {}
        if self.checkpoint is not None and hasattr(solver, "checkpoint"):
            path = checkpoint_path(self.checkpoint, len(self.parts))
            self.parts.append(path)
            solver = replace(solver, checkpoint=path)
            resume = {"resume": path} if path.exists() else {}
        try:
            solution = solver.solve(problem, **resume)
        except NotPositiveDefiniteError:
            if not (nearest and self.on_all_points):
                raise
            return solved_for_nearest(problem, solver)
        return replace(solution, asked=problem.asked)

    def explain(self) -> str:
        """Which solver, and why; what passes take, where the operator has a forecast of them."""
        text, plan = explanation(self.choice, self.solver), None
        if not self.on_all_points:
            work = Workload.of(self.operator, self.loss, self.outputs, self.solver.tolerance)
            plan = self.operator.forecast(work)
        return text if plan is None else f"{text}\n{plan}"

    def foreseen(self) -> automatic.Choice | None:
        """The choice for few rows or features, which are solved without one.

        On centres the points are not the rows, and there is nothing to choose among.
        """
        if self.choose is None or not self.on_all_points or self.points.home != "host":
            return None
        choice = self.choose()
        return choice if choice.chosen.name == type(self.solver).__name__ else None

    def attributes(
        self, X: Any, alpha: Any, intercept: Any, problems: Sequence[Problem] = ()
    ) -> dict[str, Any]:
        """The attributes of a model fitted to X; the polynomial of a spline is part of f.

        The problems that were solved are remembered for posteriors, with the kernel and its points
        where values of pairs were stored.
        """
        f = RKHSFunction(self.kernel, self.points, alpha)
        degree = self.kernel.null_degree()
        if degree is not None:
            polynomials = Polynomials.around(self.points, degree)
            f = SplineFunction(self.kernel, self.points, alpha, polynomials, intercept)
            intercept = 0.0
        if self.on_all_points and self.operator.kernel is not self.kernel:
            gram = Gram(self.kernel, self.points)
            problems = [replace(problem, operator=gram) for problem in problems]
        return {
            "kernel_": self.kernel,
            "X_fit_": X if self.on_all_points else self.points.data,
            "dual_coef_": alpha,
            "intercept_": intercept,
            "function_": f,
            **({"_problems": list(problems), "_known": None} if problems else {}),
        }


def explain_solver(self: Any, X: Any = None, y: Any = None, sample_weight: Any = None) -> str:
    """Which solver was used and why: the candidates with their predicted time and memory.

    With X and y, which solver `fit(X, y)` would use on this machine; nothing is fitted.
    """
    if X is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ApproximationWarning)  # it is said anyway
            posed = clone(self)._posed(X, y, sample_weight)[0]
        if posed.choice is None and is_automatic(self.solver):
            posed = replace(posed, choice=posed.foreseen())
        return posed.explain()
    check_is_fitted(self)
    lines = [explanation(self.choice_, None)]
    answer = laws.positive_definite(self.kernel_, getattr(self.function_.points, "width", None))
    if answer.unknown:
        lines.append(
            "Whether the kernel is positive definite is unknown, so conjugate gradients are "
            f"not chosen: {answer.because}. {answer.advice}".strip()
        )
    return "\n".join([*lines, str(self.solution_.status)])


def explanation(choice: automatic.Choice | None, solver: Any) -> str:
    """The choice in words, also where there was none."""
    if choice is not None:
        return choice.explain()
    name = "" if solver is None else f"{type(solver).__name__}. "
    return f"{name}The solver was given, or there was nothing to choose."


def formulation(
    kernel: Kernel,
    points: PointSet,
    loss: Loss,
    *,
    solver: Any,
    centres: Any = None,
    random_state: Any = None,
    outputs: int = 1,
    ridge: float | None = None,
    exact: Any = None,
    exact_only: bool = False,
    tolerance: float | None = None,
    checkpoint: Any = None,
    stopping: HeldOut | None = None,
    time_limit: float | None = None,
    problems: float = 1.0,
    part: float = 1.0,
) -> Formulation:
    """The formulation that the parameters of an estimator ask for, or the automatic choice.

    `ridge` is what is added to the diagonal of K, `exact` the solver where nothing has to be
    chosen; `exact_only` says that centres will not do, as without regularisation. `tolerance` is
    that of other losses than the square. With `stopping` the solver iterates, and ends by it.
    There are so many `problems`, each of a part of the rows; all of them have the time limit.
    """
    deadline = None if time_limit is None else _deadline(time_limit)
    warn_of_lengthscale(kernel, points)
    if centres is None and not points.machine.pairs_rows:
        centres = min(automatic.default_centres(len(points)), len(points))
    count = None if centres is None else _count_of(centres)
    choice: automatic.Choice | None = None
    choose = partial(
        automatic.choose,
        kernel,
        points.slice(0, math.ceil(part * len(points))) if part < 1.0 else points,
        loss,
        outputs=outputs,
        centres=count,
        ridge=ridge,
        tolerance=tolerance,
        iterative=stopping is not None,
        time_limit=time_limit,
        problems=problems,
    )
    if solver == "auto" or is_automatic(solver):  # which refuses other texts
        iterates = not isinstance(loss, Squared) or stopping is not None
        few = iterates and _are_few(points, kernel, exact, hurried=time_limit is not None)
        simple = exact_only or few or has_few_features(Gram(kernel, points))
        if centres is None and simple:
            solver = exact if stopping is None else iterative(exact)
        else:
            choice = choose()
            solver, count = choice.chosen.solver, choice.chosen.centres
    if stopping is not None:
        solver = stopped_by(solver, stopping)
    given: dict[str, Any] = {
        "choice": choice,
        "checkpoint": checkpoint,
        "loss": loss,
        "outputs": outputs,
        "deadline": deadline,
    }
    if count is None and centres is None:
        gram = Gram(kernel, points)  # in compiled code no function of Python is called
        gram = with_stored_pairs(gram) if program_of(kernel) is None else gram
        return Formulation(kernel, gram, points, solver, choose=choose, **given)
    if not isinstance(solver, Newton):
        raise ValueError(
            f'centres are for Newton; got solver={solver!r}: write solver=Newton(), solver="auto", '
            "or leave centres out."
        )
    if centres is None and choice is not None:
        _warn_of_centres(choice)
    chosen = _chosen_centres(centres, count, kernel, points, random_state)
    cross = cross_gram(kernel, points, chosen)
    return Formulation(kernel, cross, chosen, solver, on_all_points=False, **given)


def _are_few(points: PointSet, kernel: Kernel, exact: Any, hurried: bool) -> bool:
    """Whether rows are so few that nothing is weighed; some solvers take long with these too."""
    slow = isinstance(exact, Splitting) or program_of(kernel) is None
    return len(points) <= automatic.TUNING.small and not (slow and hurried)


def _deadline(time_limit: float) -> float:
    """When a fit that begins now should end."""
    check_positive("an estimator", "time_limit", time_limit)
    return time.perf_counter() + float(time_limit)


def _chosen_centres(
    centres: Any, count: int | None, kernel: Kernel, points: PointSet, random_state: Any
) -> PointSet:
    """Centres as they were asked for, or so many."""
    if centres is None or isinstance(centres, Integral):
        assert count is not None
        centres = drawn(min(count, len(points)), kernel, points, random_state)
    return centres.choose(kernel, points).points


def with_stored_pairs(gram: Gram) -> Gram:
    """K of Python functions of pairs, whose values are computed once, where they fit."""
    kernel, n = cast(Kernel, gram.kernel), gram.shape[0]
    slow = any(isinstance(part, PairKernel) for part in parts(kernel))
    if not slow or 8 * n * n > memory_budget(gram.memory):
        return gram
    definite = laws.positive_definite(kernel, getattr(gram.x, "width", None))
    known = True if definite.yes else False if definite.no else None
    return Precomputed(kernel.own_block(gram.x.host()), known).gram(np.arange(n))


def formulation_on_blocks(
    kernel: Kernel,
    blocks: Any,
    rows: int,
    *,
    solver: Any,
    centres: Any,
    random_state: Any,
    time_limit: float | None = None,
    checkpoint: Any = None,
    stopping: HeldOut | None = None,
) -> Formulation:
    """f on centres, for rows that come in blocks which are read anew in every pass."""
    deadline = None if time_limit is None else _deadline(time_limit)
    check_restartable(blocks)
    if isinstance(centres, Given):
        chosen = centres.choose(kernel, kernel.points(centres.points)).points
    else:
        count = automatic.default_centres(rows) if centres is None else _count_of(centres)
        count = min(count, rows)
        first = kernel.points(next(iter(blocks)))  # any columns will do to read rows
        choice = drawn(count, kernel, first, random_state, rows=rows)
        pool = getattr(choice, "pool", count)
        numbers = np.sort(np.random.default_rng(random_state).choice(rows, pool, replace=False))
        among = BlockedGram(kernel, blocks, first, rows).take(numbers)
        chosen = among if pool == count else choice.choose(kernel, among).points
    own = Newton() if is_automatic(solver) else solver
    if stopping is not None:
        own = stopped_by(own, stopping)
    cross = BlockedGram(kernel, blocks, chosen, rows)
    given = {"checkpoint": checkpoint, "deadline": deadline}
    return Formulation(kernel, cross, chosen, own, on_all_points=False, **given)


def is_automatic(solver: Any) -> bool:
    """Whether the solver is to be chosen; another text is refused."""
    if isinstance(solver, str):
        if solver == "auto":
            return True
        raise ValueError(
            'solver must be "auto" or a solver object, as Newton() or DualAscent(); got '
            f"{solver!r}."
        )
    check_object("an estimator", "solver", solver)
    if not callable(getattr(solver, "solve", None)):
        raise ValueError(
            'solver must be "auto" or a solver object of mercer.solvers, with a method solve; got '
            f"{solver!r}."
        )
    return False


def _count_of(centres: Any) -> int:
    """How many centres are asked for."""
    if isinstance(centres, Integral) and not isinstance(centres, bool):
        if centres < 1:
            raise ValueError(f"centres must be a whole number ≥ 1; got {centres!r}.")
        return int(centres)
    check_object("an estimator", "centres", centres)
    if isinstance(centres, (Choice, Given)):
        return centres.count
    raise ValueError(
        "centres must be how many, or a choice of mercer.features.centres such as "
        f"KMeansPlusPlus(1000), Given(points) or Given(indices=[0, 5]); got {centres!r}."
    )


def _warn_of_centres(choice: automatic.Choice) -> None:
    text = (
        f"{choice.rows} rows are too many for an exact solution here, so f is sought among "
        f"functions with {choice.chosen.centres} centres. Say centres={choice.chosen.centres} to "
        "agree, or choose a solver.\n" + choice.explain()
    )
    warn(text, ApproximationWarning)


def checkpoint_path(checkpoint: Any, part: int) -> Path:
    """The file of one problem of a fit."""
    return Path(f"{checkpoint}.{part}" if part else checkpoint)


def keep(estimator: Any, attributes: dict[str, Any], *statuses: Any) -> None:
    """Set what a fit learned, and warn where a solver did not reach its goal.

    The fit is done, so its checkpoints are removed. Scores of held-out rows are an attribute.
    """
    solution = attributes.get("solution_")
    if solution is not None and "held_out_risk" in solution.history:
        attributes = {**attributes, "validation_scores_": validation_scores(solution)}
    estimator.__dict__.update(attributes)  # at once: an interruption leaves all or none
    part = 0
    while getattr(estimator, "checkpoint", None) is not None:
        path = checkpoint_path(estimator.checkpoint, part)
        if not path.exists():
            break
        path.unlink()
        part += 1
    for status in statuses:
        if not status.converged:  # the first will do
            indefinite = status.witness is not None
            kind = IndefiniteKernelWarning if indefinite else ConvergenceWarning
            warn(f"{type(estimator).__name__}: {status}", kind)
            break
