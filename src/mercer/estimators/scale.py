"""How estimators turn points into a problem of the right size: all points, or a few centres."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse

from mercer.errors import ApproximationWarning
from mercer.features.centres import Given, Uniform
from mercer.kernels.base import Kernel
from mercer.losses import Loss, Squared
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.solvers import automatic
from mercer.solvers.centres import BlockPasses, CentresNewton, passes
from mercer.solvers.centres.passes import check_restartable, random_rows, taken
from mercer.solvers.problem import Problem, has_few_features


@dataclass(frozen=True, eq=False)
class Setting:
    """Where f lives, what to solve it with, and how to pose the problem for targets and λ."""

    kernel: Kernel
    points: PointSet
    solver: Any
    choice: automatic.Choice | None
    pose: Callable[..., Any]
    on_all: bool = False

    @property
    def data(self) -> Any:
        """The points f is made of, as a user would write them."""
        return self.points.data


def setting(
    kernel: Kernel,
    points: PointSet,
    *,
    solver: Any,
    centres: Any,
    random_state: Any,
    outputs: int,
    loss: Loss | None = None,
    ridge: float | None = None,
    exact: Any = None,
    exact_only: bool = False,
) -> Setting:
    """The setting that parameters of an estimator describe, chosen where they leave it open.

    `ridge` is what is added to the diagonal of K, `exact` the solver where nothing has to be
    chosen; `exact_only` says that centres will not do, as without regularisation.
    """
    loss = Squared() if loss is None else loss
    count = _count_of(centres)
    choice: automatic.Choice | None = None
    if _is_automatic(solver):
        if centres is None and (exact_only or has_few_features(Gram(kernel, points))):
            solver = exact
        else:
            choice = automatic.choose(
                kernel, points, loss, outputs=outputs, centres=count, ridge=ridge
            )
            solver, count = choice.chosen.solver, choice.chosen.centres
    elif isinstance(solver, CentresNewton) and centres is None:
        count = min(len(points), automatic.default_centres(len(points)))
    if count is None and centres is None:
        return Setting(kernel, points, solver, choice, _posed_on_all(kernel, points, loss), True)
    _check_takes_centres(solver)
    if centres is None and choice is not None:
        _warn(choice)
    chosen = _chosen(kernel, points, count if centres is None else centres, random_state)
    rows = passes(kernel, points, chosen)
    return Setting(kernel, chosen, solver, choice, _posed_on_centres(rows, loss))


def _is_automatic(solver: Any) -> bool:
    """Whether the solver is to be chosen; another text is refused."""
    if isinstance(solver, str) and solver != "auto":
        raise ValueError(f'solver must be "auto" or a solver object; got {solver!r}.')
    return isinstance(solver, str)


def _check_takes_centres(solver: Any) -> None:
    if not isinstance(solver, CentresNewton):
        raise ValueError(
            f"centres are for CentresNewton; got solver={solver!r}: write solver=CentresNewton(), "
            'solver="auto", or leave centres out.'
        )


def block_setting(
    kernel: Kernel, blocks: Any, rows: int, *, solver: Any, centres: Any, random_state: Any
) -> Setting:
    """The setting for blocks of rows that are read anew in every pass; always on centres."""
    check_restartable(blocks)
    if isinstance(centres, Given):
        chosen = centres.choose(kernel, kernel.points(centres.points)).points
    else:
        count = _count_of(centres) or automatic.default_centres(rows)
        chosen = _drawn(kernel, blocks, random_rows(rows, count, _seed(random_state)))
    found = CentresNewton() if isinstance(solver, str) else solver
    walked = BlockPasses(kernel, blocks, chosen, rows)
    return Setting(kernel, chosen, found, None, _posed_on_centres(walked, Squared()))


def _drawn(kernel: Kernel, blocks: Any, wanted: np.ndarray) -> PointSet:
    def numbered() -> Any:
        first = 0
        for block in blocks:
            points = kernel.points(block)
            yield first, points
            first += len(points)

    return taken(numbered(), wanted)


def is_blocks(X: Any) -> bool:
    """Whether X gives blocks of rows: an iterable that is no array, table, list or text.

    >>> is_blocks([[0.0]]), is_blocks(iter([[0.0]])), is_blocks(np.zeros((2, 1)))
    (False, True, False)
    """
    if isinstance(X, (list, tuple, str, bytes, dict)) or scipy.sparse.issparse(X):
        return False
    array_like = any(hasattr(X, name) for name in ("shape", "__array__", "__dataframe__", "dtype"))
    return hasattr(X, "__iter__") and not array_like and not isinstance(X, PointSet)


def _count_of(centres: Any) -> int | None:
    if centres is None:
        return None
    if isinstance(centres, Integral) and not isinstance(centres, bool):
        if centres < 1:
            raise ValueError(f"centres must be a whole number ≥ 1; got {centres!r}.")
        return int(centres)
    if hasattr(centres, "choose"):
        return int(getattr(centres, "count", 1000))
    raise ValueError(
        "centres must be how many, or a choice of mercer.features.centres such as "
        f"KMeansPlusPlus(1000); got {centres!r}."
    )


def _chosen(kernel: Kernel, points: PointSet, centres: Any, random_state: Any) -> PointSet:
    if isinstance(centres, Integral):
        centres = Uniform(min(int(centres), len(points)), random_state)
    return centres.choose(kernel, points).points


def _seed(random_state: Any) -> int:
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(np.random.default_rng(random_state).integers(2**31))


def _posed_on_all(kernel: Kernel, points: PointSet, loss: Loss) -> Callable[..., Any]:
    def matrix(rows: Any) -> Gram:
        return Gram(kernel, points if rows is None else points.take(rows))

    return _posed(Problem, matrix, loss)


def _posed_on_centres(walked: Any, loss: Loss) -> Callable[..., Any]:
    def matrix(rows: Any) -> Any:
        if rows is None:
            return walked
        return passes(walked.kernel, walked.take(rows), walked.y)

    return _posed(Problem.on_centres, matrix, loss)


def _posed(
    problem: Callable[..., Any], matrix: Callable[[Any], Any], loss: Loss
) -> Callable[..., Any]:
    """How to pose a problem: with the matrix of some rows, or of all of them."""

    def pose(
        y: Any,
        ridge: float,
        weights: Any,
        fit_intercept: bool,
        *,
        loss: Loss = loss,
        rows: Any = None,
    ) -> Any:
        return problem(matrix(rows), y, loss, ridge, weights, fit_intercept)

    return pose


def _warn(choice: automatic.Choice) -> None:
    text = (
        f"{choice.rows} rows are too many for an exact solution here, so f is sought among "
        f"functions with {choice.chosen.centres} centres. Say centres={choice.chosen.centres} to "
        "agree, or choose a solver.\n" + choice.explain()
    )
    warnings.warn(text, ApproximationWarning, stacklevel=4)
