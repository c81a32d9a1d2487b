"""The kernel that was found, made better: a learned metric, slopes of leave-one-out, all rows.

Each step proposes a kernel and a ridge, and is taken where it does better on rows that it has not
seen. None of them begins what would not end within the limit.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace

import numpy as np

from mercer.errors import NotPositiveDefiniteError
from mercer.estimators import KernelRidge
from mercer.kernels import Kernel, LinearMap
from mercer.kernels.base import parts
from mercer.learning import CANDIDATES, GradientRounds, LeaveOneOut, raced
from mercer.workflow.search import Limit, Trial, readable
from mercer.workflow.targets import Target


@dataclass(frozen=True)
class Tuning:
    """Sizes and steps of the refinement of a trial.

    Parameters
    ----------
    fewest_rows, least_seconds : int and float
        Below these neither the metric nor the slopes are tried.
    descent_rows : int
        Rows for the descent on lengthscales, a step of which takes n³ operations.
    seen : float
        Share of the rows that kernels are fitted to; on the others they are compared.
    stretch, ridge_step : float
        Factors by which lengthscales and ridge are changed at last.
    gain : float
        Share of the error that a change on all rows must reach.
    """

    fewest_rows: int = 300
    least_seconds: float = 1.0
    descent_rows: int = 1200
    seen: float = 0.7
    stretch: float = 0.75
    ridge_step: float = 10**-0.5
    gain: float = 0.998


TUNING = Tuning()


def learned_metric(
    trial: Trial, Z: np.ndarray, known: Target, limit: Limit, random_state: int
) -> Trial | None:
    """A trial with a kernel in a learned metric, where that is better on rows it has not seen."""
    if len(Z) < TUNING.fewest_rows or limit.left < TUNING.least_seconds:
        return None
    start, whole = time.monotonic(), trial.rows == len(Z)
    settings = GradientRounds(
        rows=len(Z),
        splits=None if whole else 1,
        time_limit=limit.left,
        random_state=random_state,
        callback=lambda *_: not limit.left,
    )
    targets = known.for_squares()
    learned, _ = raced(
        CANDIDATES, settings, Z, targets, loss=lambda rows, values: known.loss(values, rows)
    )
    rows, predicted = learned.held_out
    if whole:
        before = np.asarray(trial.path.leave_one_out(trial.alpha / trial.rows))[rows]
    else:
        others = np.setdiff1d(np.arange(len(Z)), rows)
        ridge = KernelRidge(trial.alpha, kernel=trial.kernel, fit_intercept=True)
        before = ridge.fit(Z[others], targets[others]).predict(Z[rows])
    ratio = known.loss(predicted, rows) / max(known.loss(before, rows), 1e-300)
    if not ratio < 1.0:
        return None
    return replace(
        trial,
        family=f"{_name(learned.kernel)}, learned metric",
        shares=learned.importances,
        kernel=readable(learned.kernel),
        alpha=float(f"{learned.alpha:.3g}"),
        error=trial.error * ratio,  # on the footing of the others, which left out all rows
        seconds=time.monotonic() - start,
    )


def descended(
    trial: Trial, Z: np.ndarray, known: Target, limit: Limit, random_state: int
) -> Trial | None:
    """A trial whose lengthscales follow the slopes of the leave-one-out error.

    The slopes of f, by which a metric is learned, do not tell of a column whose values repeat: at
    points that agree in it f may be flat and jump in between. The error of leaving points out does.
    """
    start, scales = time.monotonic(), trial.kernel.get_params(deep=False).get("lengthscale")
    if len(Z) < TUNING.fewest_rows or limit.left < TUNING.least_seconds or scales is None:
        return None
    judge = Judge(Z, known, limit)
    before = judge.error(trial.kernel, trial.alpha)
    kernel = trial.kernel
    if np.ndim(scales) == 0:
        kernel = kernel.with_(lengthscale=[float(scales)] * Z.shape[1])
    result = LeaveOneOut(
        form=None,
        ridge=trial.alpha,
        rows=TUNING.descent_rows,
        time_limit=max(limit.left - judge.seconds, 1e-3),
        random_state=random_state,
        callback=lambda *_: not limit.left,
    ).learn(kernel, Z[: judge.cut], known.for_squares()[: judge.cut])
    after = judge.error(result.kernel, result.alpha)
    if not after < TUNING.gain * before:
        return None
    kernel = readable(result.kernel)
    return replace(
        trial,
        family=f"{_name(kernel)}, slopes of leave-one-out",
        shares=1.0 / np.asarray(result.kernel.get_params(deep=False)["lengthscale"]),
        kernel=kernel,
        alpha=float(f"{result.alpha:.3g}"),
        error=trial.error * after / before,
        seconds=time.monotonic() - start,
    )


def settled(trial: Trial, Z: np.ndarray, known: Target, limit: Limit) -> Trial | None:
    """A trial with another ridge or other lengthscales, all by one factor, that suit all rows."""
    start, judge = time.monotonic(), Judge(Z, known, limit)
    if not judge.in_time(trial.seconds * (judge.cut / trial.rows) ** 3):
        return None
    kernels = {0: trial.kernel}

    def error(place: tuple[int, int]) -> float:
        if place[0] not in kernels:
            kernels[place[0]] = stretched(trial.kernel, TUNING.stretch ** place[0])
        return judge.error(kernels[place[0]], trial.alpha * TUNING.ridge_step ** place[1])

    place, first = (0, 0), error((0, 0))
    least = first
    for axis, sign in ((1, 1), (1, -1), (0, 1), (0, -1), (1, 1), (1, -1)):
        while judge.in_time():
            other = (place[0] + sign * (axis == 0), place[1] + sign * (axis == 1))
            value = error(other)
            if not value < TUNING.gain * least:
                break
            place, least = other, value
    if place == (0, 0):
        return None
    return replace(
        trial,
        family=f"{trial.family}, all rows",
        kernel=readable(kernels[place[0]]),
        alpha=float(f"{trial.alpha * TUNING.ridge_step ** place[1]:.3g}"),
        error=trial.error * least / first,
        seconds=time.monotonic() - start,
    )


@dataclass(eq=False)
class Judge:
    """The loss of ridge fits to the first rows on those that follow; rows are in random order."""

    Z: np.ndarray
    known: Target
    limit: Limit

    def __post_init__(self) -> None:
        self.cut = round(TUNING.seen * len(self.Z))
        self.seconds = 0.0  # of the last fit

    def in_time(self, seconds: float | None = None) -> bool:
        """Whether another fit ends within the limit."""
        return (self.seconds if seconds is None else seconds) < self.limit.left

    def error(self, kernel: Kernel, alpha: float) -> float:
        """Of the same fit as the last one: with a large ridge its intercept matters."""
        start, targets = time.monotonic(), self.known.for_squares()
        ridge = KernelRidge(alpha, kernel=kernel, fit_intercept=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a kernel that is only tried
            try:
                ridge.fit(self.Z[: self.cut], targets[: self.cut])
            except NotPositiveDefiniteError:
                return float("inf")
        predicted = ridge.predict(self.Z[self.cut :])
        self.seconds = time.monotonic() - start
        return self.known.loss(predicted, np.arange(self.cut, len(self.Z)))


def stretched(kernel: Kernel, factor: float) -> Kernel:
    """The kernel with all lengthscales times a factor."""
    if isinstance(kernel, LinearMap):
        return kernel.kernel.after((np.asarray(kernel.matrix) / factor).tolist())
    scales = np.asarray(kernel.get_params(deep=False)["lengthscale"], float)
    return kernel.with_(lengthscale=(factor * scales).tolist())


def _name(kernel: Kernel) -> str:
    """The family of a kernel, also of one after a map."""
    return type(next(reversed(list(parts(kernel))))).__name__
