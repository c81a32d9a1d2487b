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

FEWEST_ROWS, LEAST_SECONDS = 300, 1.0  # below which neither metric nor slopes are tried
DESCENT_ROWS = 1200  # of the descent on lengthscales, a step of which takes n³ operations
SEEN = 0.7  # share of the rows that kernels are fitted to; on the others they are compared
STRETCH, RIDGE_STEP = 0.75, 10**-0.5  # by which lengthscales and ridge are changed at last
GAIN = 0.998  # share of the error that a change on all rows must reach


def learned_metric(
    trial: Trial, Z: np.ndarray, known: Target, limit: Limit, random_state: int
) -> Trial | None:
    """A trial with a kernel in a learned metric, where that is better on rows it has not seen."""
    if len(Z) < FEWEST_ROWS or limit.left < LEAST_SECONDS:
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
    family, shares = f"{_name(learned.kernel)}, learned metric", learned.importances
    return _better(trial, family, shares, learned.kernel, learned.alpha, ratio, start)


def descended(
    trial: Trial, Z: np.ndarray, known: Target, limit: Limit, random_state: int
) -> Trial | None:
    """A trial whose lengthscales follow the slopes of the leave-one-out error.

    The slopes of f, by which a metric is learned, do not tell of a column whose values repeat: at
    points that agree in it f may be flat and jump in between. The error of leaving points out does.
    """
    start, scales = time.monotonic(), trial.kernel.get_params(deep=False).get("lengthscale")
    if len(Z) < FEWEST_ROWS or limit.left < LEAST_SECONDS or scales is None:
        return None
    judge = Judge(Z, known, limit)
    before = judge.error(trial.kernel, trial.alpha)
    kernel = trial.kernel
    if np.ndim(scales) == 0:
        kernel = kernel.with_(lengthscale=[float(scales)] * Z.shape[1])
    result = LeaveOneOut(
        form=None,
        ridge=trial.alpha,
        rows=DESCENT_ROWS,
        time_limit=max(limit.left - judge.seconds, 1e-3),
        random_state=random_state,
        callback=lambda *_: not limit.left,
    ).learn(kernel, Z[: judge.cut], known.for_squares()[: judge.cut])
    after = judge.error(result.kernel, result.alpha)
    if not after < GAIN * before:
        return None
    family = f"{_name(result.kernel)}, slopes of leave-one-out"
    shares = 1.0 / np.asarray(result.kernel.get_params(deep=False)["lengthscale"])
    return _better(trial, family, shares, result.kernel, result.alpha, after / before, start)


def settled(trial: Trial, Z: np.ndarray, known: Target, limit: Limit) -> Trial | None:
    """A trial with another ridge or other lengthscales, all by one factor, that suit all rows."""
    start, judge = time.monotonic(), Judge(Z, known, limit)
    if not judge.in_time(trial.seconds * (judge.cut / trial.rows) ** 3):
        return None
    kernels = {0: trial.kernel}

    def error(place: tuple[int, int]) -> float:
        if place[0] not in kernels:
            kernels[place[0]] = stretched(trial.kernel, STRETCH ** place[0])
        return judge.error(kernels[place[0]], trial.alpha * RIDGE_STEP ** place[1])

    place, first = (0, 0), error((0, 0))
    least = first
    for axis, sign in ((1, 1), (1, -1), (0, 1), (0, -1), (1, 1), (1, -1)):
        while judge.in_time():
            other = (place[0] + sign * (axis == 0), place[1] + sign * (axis == 1))
            value = error(other)
            if not value < GAIN * least:
                break
            place, least = other, value
    if place == (0, 0):
        return None
    family, alpha = f"{trial.family}, all rows", trial.alpha * RIDGE_STEP ** place[1]
    return _better(trial, family, trial.shares, kernels[place[0]], alpha, least / first, start)


def _better(
    trial: Trial, family: str, shares: np.ndarray, kernel: Kernel, alpha: float, ratio: float,
    start: float,
) -> Trial:  # fmt: skip
    """A trial whose error is so many times that of another, which left out all rows."""
    return replace(
        trial,
        family=family,
        shares=shares,
        kernel=readable(kernel),
        alpha=float(f"{alpha:.3g}"),
        error=trial.error * ratio,
        seconds=time.monotonic() - start,
    )


@dataclass(eq=False)
class Judge:
    """The loss of ridge fits to the first rows on those that follow; rows are in random order."""

    Z: np.ndarray
    known: Target
    limit: Limit

    def __post_init__(self) -> None:
        self.cut = round(SEEN * len(self.Z))
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
