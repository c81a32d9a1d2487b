"""The choice of a model, from training rows alone: kernel, lengthscales, regularisation, loss.

The kernel that the search found is made better: by a learned metric, by slopes of leave-one-out, on
all rows. Each step proposes a kernel and a ridge, and is taken where it does better on rows that it
has not seen. None of them begins what would not end within the limit.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.errors import NotPositiveDefiniteError
from mercer.estimators import (
    KernelLogisticRegression,
    KernelRegressor,
    KernelRidge,
    KernelRidgeClassifier,
)
from mercer.estimators.calibration import Calibration
from mercer.kernels import Gaussian, Kernel, LinearMap
from mercer.kernels.base import parts
from mercer.learning import CANDIDATES, GradientRounds, LeaveOneOut, raced
from mercer.solvers import automatic
from mercer.solvers.spectral import SpectralPath
from mercer.workflow.columns import TableEncoder, row_count, take_rows
from mercer.workflow.progress import Notify
from mercer.workflow.search import ALPHAS, Limit, Search, Trial, readable
from mercer.workflow.targets import Target


@dataclass(frozen=True)
class Tuning:
    """Sizes and times of the choice of a model."""

    exact_rows: int = 12_000  # up to which f is sought on all rows: K takes 0.6 GB in float32
    least_centres: int = 500  # that are taken however short the time is
    searched_rows: int = 4_000  # on which kernels are compared
    short: float = 5.0  # seconds that the fits may take in any case
    fits: float = 3.0  # that follow the choice, in units of one to all rows: to the rows that are
    # not held out, to parts of them, to all rows
    doubtful: float = 1e-6  # a ridge from which on a factorisation in float32 may be done again
    in_float64: float = 3.0  # in float64: the time of both, relative to the first alone
    searching: float = 0.45  # shares of the time that is left: for the search,
    learning: float = 0.5  # for the metric,
    descending: float = 0.5  # and for lengthscales
    strengths: tuple[float, ...] = (1.0, 6.0, 40.0)  # C of logistic regression times α of least
    # squares: its curvature is at most 1/4, that of the square 1, far less where labels are certain
    most_strength: float = 1e3  # C beyond which logistic regression takes long, and changes little
    fewest_rows: int = 300  # below which neither metric nor slopes are tried,
    least_seconds: float = 1.0  # nor in less time
    descent_rows: int = 1200  # of the descent on lengthscales, a step of which takes n³ operations
    seen: float = 0.7  # share of the rows that kernels are fitted to; others compare them
    stretch: float = 0.75  # by which lengthscales are changed at last,
    ridge_step: float = 10**-0.5  # and the ridge
    gain: float = 0.998  # share of the error that a change on all rows must reach


TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class Plan:
    """The arguments of a fit: time limit, loss, held-out share, seed, device, checkpoint."""

    limit: Limit
    loss: Any = None
    held_out: float = 0.2
    random_state: int = 0
    device: Any = None
    notify: Notify | None = None
    checkpoint: Any = None

    def report(self, text: str, done: float) -> None:
        """Say what is being done, and the share of all that is done."""
        if self.notify is not None:
            self.notify(text, done)


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen model and the trials of the search, in plain values.

    Attributes
    ----------
    numbers : str
        How `TableEncoder` encodes numbers.
    estimator : estimator
        Not fitted.
    fitted_rows : int
        How many of the rows that are not held out it is to be fitted to.
    error, rows, freedom : float, int, float
        The leave-one-out error on so many rows, and the degrees of freedom there.
    trials, surface, spectrum :
        As in `Record`.

    Examples
    --------
    >>> import mercer
    >>> x = np.linspace(0, 1, 60)
    >>> model = mercer.fit({"x": x, "y": x**2}, "y", time_limit=1.0)
    >>> model.record_.trials[0].keys() >= {"kernel", "error"}
    True
    """

    numbers: str
    estimator: Any
    fitted_rows: int
    error: float
    rows: int
    freedom: float
    trials: list[dict[str, Any]]
    surface: dict[str, Any]
    spectrum: np.ndarray


def choose(training: Any, known: Target, plan: Plan) -> Choice:
    """Choose, and leave time for the fits that follow."""
    few = take_rows(training, slice(0, TUNING.searched_rows))
    target = known.take(slice(0, TUNING.searched_rows))
    encodings = {
        numbers: TableEncoder(numbers=numbers).fit(few).transform(few)
        for numbers in ("standard", "rank")
    }
    targets, rows = target.for_squares(), row_count(training)
    outputs = 1 if targets.ndim == 1 else targets.shape[1]
    limit = plan.limit.share(_share(encodings["standard"], rows, outputs, plan))
    search = Search(
        encodings,
        targets,
        limit.share(TUNING.searching),
        lambda text, done: plan.report(text, 0.05 + 0.2 * done),
        loss=None if target.classes is None else target.loss,
    )
    best = search.run()
    Z, refined = encodings[best.numbers], [best]
    limit = limit.within(limit.left - search.seconds(best.rows))  # for the last decomposition
    refined += _refined(best, Z, target, training, known, plan, limit)
    trial = refined[-1]
    if trial is not best:
        gram = trial.kernel.gram(Z[: best.rows])
        path = SpectralPath.of(gram, targets[: best.rows], fit_intercept=True)
        trial = replace(trial, path=path)
    plan.report("choosing the loss", 0.48)
    size = Size(trial.kernel, trial.alpha, Z, rows, outputs, plan)
    size = replace(size, rows=size.fitted_rows())
    parameters = size.parameters()  # before the classifiers are tried, which takes time
    return Choice(
        numbers=trial.numbers,
        estimator=_estimator(trial, Z, target, plan, size).set_params(**parameters),
        fitted_rows=size.rows,
        error=trial.error,
        rows=trial.rows,
        freedom=trial.path.degrees_of_freedom(trial.alpha / trial.rows),
        trials=[_shown(tried) for tried in [*search.trials, *refined[1:]]],
        surface=_surface(search, best),
        spectrum=np.asarray(trial.path.eigenvalues)[::-1] / trial.rows,
    )


def _refined(
    start: Trial, Z: np.ndarray, some: Target, training: Any, known: Target, plan: Plan,
    limit: Limit,
) -> Iterator[Trial]:  # fmt: skip
    """Better trials, each made of the last one."""
    trial, rows, seed = start, row_count(training), plan.random_state
    plan.report("learning a metric", 0.25)
    better = learned_metric(trial, Z, some, limit.share(TUNING.learning), seed)
    if better is not None:
        yield (trial := better)
    plan.report("lengthscales by slopes", 0.36)
    better = descended(trial, Z, some, limit.share(TUNING.descending), seed)
    if better is not None:
        yield (trial := better)
    if len(Z) < rows <= TUNING.exact_rows and plan.device is None:
        plan.report("the best kernel on all rows", 0.43)
        every = TableEncoder(numbers=trial.numbers).fit(training).transform(training)
        better = settled(trial, every, known, limit)
        if better is not None:
            yield better


def _share(Z: np.ndarray, rows: int, outputs: int, plan: Plan) -> float:
    """The share of the time for trying kernels: more where the fits that follow are quick."""
    if rows > TUNING.exact_rows:
        return 0.4
    fits = TUNING.fits * Size(Gaussian(), TUNING.doubtful, Z, rows, outputs, plan).seconds()
    return max(0.4, 0.7 - fits / max(plan.limit.left, fits))


# ---- a better kernel -----------------------------------------------------------------------------


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
    family, alpha = f"{trial.family}, all rows", trial.alpha * TUNING.ridge_step ** place[1]
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


# ---- the estimator -------------------------------------------------------------------------------


def _estimator(trial: Trial, Z: np.ndarray, known: Target, plan: Plan, size: Size) -> Any:
    """The estimator with the chosen kernel."""
    if known.classes is not None:
        return _classifier(trial, Z, known, plan, size)
    if plan.loss is None:
        return KernelRidge(trial.alpha, kernel=trial.kernel, fit_intercept=True)
    regularization = float(f"{trial.alpha / size.rows:.3g}")
    return KernelRegressor(plan.loss, regularization, kernel=trial.kernel, tol=1e-5)


@dataclass(frozen=True, eq=False)
class Size:
    """How many rows are fitted, and on how many centres: all, where time allows that.

    `Z` are some of the rows, by which the time of fits to more of them is foreseen.
    """

    kernel: Kernel
    alpha: float
    Z: np.ndarray
    rows: int
    outputs: int
    plan: Plan

    def parameters(self) -> dict[str, Any]:
        """The parameters of the estimator."""
        device = {} if self.plan.device is None else {"device": self.plan.device}
        centres = self.centres()
        if centres is None:
            return device
        return device | {"centres": centres, "random_state": self.plan.random_state}

    def centres(self) -> int | None:
        """None for all rows, or as many as there is time for."""
        few = self.rows <= TUNING.exact_rows
        if few and (self.plan.device is not None or self.in_time()):
            return None
        count = int(min(max(2 * self.rows**0.5, 1000), 3000))
        while self.plan.device is None and count > TUNING.least_centres and not self.in_time(count):
            count = max(round(0.7 * count), TUNING.least_centres)
        return min(count, self.rows)

    def fitted_rows(self) -> int:
        """All rows, or as many as there is time for on the fewest centres."""
        if self.plan.device is not None or self.rows <= TUNING.exact_rows:
            return self.rows
        share = self.seconds_left() / (TUNING.fits * self.seconds(TUNING.least_centres))
        return max(min(self.rows, int(share * self.rows)), TUNING.exact_rows)

    def in_time(self, centres: int | None = None) -> bool:
        """Whether the fits that follow end before the limit."""
        return TUNING.fits * self.seconds(centres) <= self.seconds_left()

    def seconds_left(self) -> float:
        """For the fits that follow; some in any case."""
        return max(self.plan.limit.left, TUNING.short)

    def seconds(self, centres: int | None = None) -> float:
        """Approximate seconds of a ridge fit to all rows on this machine."""
        chosen = automatic.choose(
            self.kernel, self._points, outputs=self.outputs, centres=centres, ridge=self.alpha
        ).chosen
        again = centres is None and self.alpha < self.rows * np.finfo(np.float32).eps
        return (TUNING.in_float64 if again else 1.0) * float(chosen.seconds)

    @cached_property
    def _points(self) -> Any:
        return self.kernel.points(np.resize(self.Z, (self.rows, self.Z.shape[1])))


def _classifier(trial: Trial, Z: np.ndarray, known: Target, plan: Plan, size: Size) -> Any:
    """Least squares, or logistic regression where it has fewer errors and better probabilities.

    Both are looked at on rows that the fits compared do not see.
    """
    assert known.classes is not None
    several = len(known.classes) > 2
    left_out = np.asarray(trial.path.leave_one_out(trial.alpha / trial.rows))
    slope = Calibration.of(left_out, known.codes[: trial.rows]).slope * (2.0 if several else 1.0)
    ridge = KernelRidgeClassifier(trial.alpha, kernel=trial.kernel, slope=float(f"{slope:.3g}"))
    if plan.loss == "squared_error":
        return ridge
    cut, limit = round(0.7 * len(Z)), plan.limit.share(0.15)
    tested = known.take(slice(cut, None))
    best: Any = None
    least = np.full(2, math.inf)
    for model in [*([] if plan.loss else [ridge]), *_logistic(trial)]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = clone(model)
            if model is not ridge and best is not None:
                fitted.set_params(time_limit=limit.left / 2.0)
            start = time.monotonic()
            fitted.fit(Z[:cut], known.values[:cut])
        seconds = time.monotonic() - start
        stated = probabilities_of(fitted, Z[cut:], known)
        wrong = float(np.mean(stated.argmax(axis=1) != tested.codes))
        losses = np.array([wrong, tested.probability_loss(stated)])
        # Most of the time goes to products with K.
        foreseen = TUNING.fits * seconds * (size.rows / cut) ** 2
        in_time = model is ridge or foreseen <= size.seconds_left()
        if best is None or ((losses < least).all() and in_time):
            best, least = model, losses
        if limit.left <= 2.0 * seconds:
            break
    return best


def _logistic(trial: Trial) -> list[Any]:
    """Logistic regression of several strengths."""
    strengths = {min(strength / trial.alpha, TUNING.most_strength) for strength in TUNING.strengths}
    return [
        KernelLogisticRegression(float(f"{C:.3g}"), kernel=trial.kernel, tol=1e-4)
        for C in sorted(strengths)
    ]


def probabilities_of(model: Any, Z: np.ndarray, known: Target) -> np.ndarray:
    """Probabilities of all classes, also of those that the model has not seen."""
    assert known.classes is not None
    wide = np.zeros((len(Z), len(known.classes)))
    wide[:, np.searchsorted(known.classes, model.classes_)] = model.predict_proba(Z)
    return wide


def _shown(trial: Trial) -> dict[str, Any]:
    return {
        "kernel": trial.family,
        "numbers": trial.numbers,
        "factor": trial.factor,
        "rows": trial.rows,
        "alpha": trial.alpha,
        "error": trial.error,
        "equal lengthscales": bool(np.ptp(trial.shares) == 0),
    }


def _surface(search: Search, chosen: Trial) -> dict[str, Any]:
    """Leave-one-out errors over α and lengthscale, equal in all columns, of the chosen family."""
    like = [
        tried
        for tried in search.trials
        if (tried.family, tried.numbers) == (chosen.family, chosen.numbers)
        and np.ptp(tried.shares) == 0
    ]
    like.sort(key=lambda trial: trial.factor)
    return {
        "alphas": ALPHAS.tolist(),
        "factors": [trial.factor for trial in like],
        "errors": [trial.errors.tolist() for trial in like],
        "rows": like[0].rows if like else 0,
    }
