"""The choice of a model, from training rows alone: kernel, lengthscales, regularisation, loss."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.estimators import (
    KernelLogisticRegression,
    KernelRegressor,
    KernelRidge,
    KernelRidgeClassifier,
)
from mercer.estimators.scores import Calibration
from mercer.kernels import Kernel, LinearMap
from mercer.kernels.base import parts
from mercer.learning import CANDIDATES, GradientRounds, raced
from mercer.solvers import automatic
from mercer.solvers.spectral import SpectralPath
from mercer.workflow.columns import TableEncoder, row_count, take_rows
from mercer.workflow.progress import Notify
from mercer.workflow.search import ALPHAS, Limit, Search, Trial
from mercer.workflow.targets import Target

EXACT_ROWS = 12_000  # up to which f is sought on all rows: K takes 0.6 GB in float32
LEAST_CENTRES = 500
FITS = 3.0  # that follow: to the rows that are not held out, to parts of them, to all rows
SEARCHED_ROWS = 4_000
LEARNED_ROWS, LEARNED_SECONDS = 300, 2.0  # below, a learned metric is not tried
STRENGTHS = (1.0, 6.0, 40.0)
"""C of logistic regression times α of least squares: its curvature is at most 1/4, that of the
square 1, and where labels are certain far less."""
MOST_STRENGTH = 1e3  # beyond which logistic regression takes long, and changes little


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

    def tell(self, text: str, done: float) -> None:
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
    error: float
    rows: int
    freedom: float
    trials: list[dict[str, Any]]
    surface: dict[str, Any]
    spectrum: np.ndarray


def choose(training: Any, known: Target, plan: Plan) -> Choice:
    """Choose within half of the time that is left."""
    few = take_rows(training, slice(0, SEARCHED_ROWS))
    target = known.take(slice(0, SEARCHED_ROWS))
    encodings = {
        numbers: TableEncoder(numbers=numbers).fit(few).transform(few)
        for numbers in ("standard", "rank")
    }
    limit = plan.limit.share(0.5)
    search = Search(
        encodings,
        target.for_squares(),
        limit.share(0.6),
        lambda text, done: plan.tell(text, 0.05 + 0.25 * done),
        loss=None if target.classes is None else target.loss,
    )
    found = search.run()
    plan.tell("learning a metric", 0.3)
    trial = _learned(found, encodings[found.numbers], target, plan, limit) or found
    plan.tell("choosing the loss", 0.45)
    estimator = _estimator(trial, encodings[trial.numbers], target, plan, row_count(training))
    trials = search.trials if trial is found else [*search.trials, trial]
    return Choice(
        numbers=trial.numbers,
        estimator=estimator,
        error=trial.error,
        rows=trial.rows,
        freedom=trial.path.degrees_of_freedom(trial.alpha / trial.rows),
        trials=[_shown(tried) for tried in trials],
        surface=_surface(search, found),
        spectrum=np.asarray(trial.path.eigenvalues)[::-1] / trial.rows,
    )


# ---- a learned metric ----------------------------------------------------------------------------


def _learned(found: Trial, Z: np.ndarray, known: Target, plan: Plan, limit: Limit) -> Trial | None:
    """A trial with a kernel in a learned metric, where that is better on rows it has not seen."""
    if len(Z) < LEARNED_ROWS or limit.left < LEARNED_SECONDS:
        return None
    start, whole = time.monotonic(), found.rows == len(Z)
    settings = GradientRounds(
        rows=len(Z),
        splits=None if whole else 1,
        time_limit=limit.left,
        random_state=plan.random_state,
        callback=lambda *_: not limit.left,
    )
    targets = known.for_squares()
    learned, _ = raced(
        CANDIDATES, settings, Z, targets, loss=lambda rows, said: _lost(known, rows, said)
    )
    rows, predicted = learned.held_out
    error = _lost(known, rows, predicted)
    if whole:
        said = np.asarray(found.path.leave_one_out(found.alpha / found.rows))[rows]
    else:
        others = np.setdiff1d(np.arange(len(Z)), rows)
        ridge = KernelRidge(found.alpha, kernel=found.kernel, fit_intercept=True)
        said = ridge.fit(Z[others], targets[others]).predict(Z[rows])
    if not error < _lost(known, rows, said):
        return None
    Z, targets = Z[: found.rows], targets[: found.rows]
    kernel = _readable(learned.kernel)
    path = SpectralPath.of(kernel.gram(Z), targets, fit_intercept=True)
    return replace(
        found,
        family=f"{type(next(reversed(list(parts(kernel))))).__name__}, learned metric",
        shares=learned.importances,
        kernel=kernel,
        alpha=float(f"{learned.alpha:.3g}"),
        error=error,
        seconds=time.monotonic() - start,
        path=path,
    )


def _lost(known: Target, rows: np.ndarray, said: np.ndarray) -> float:
    """The loss of what is said of some rows."""
    single = known.for_squares().ndim == 1 and said.ndim == 2
    return known.take(rows).loss(said[:, 0] if single else said)


def _readable(kernel: Kernel) -> Kernel:
    """The kernel with three digits of each number in its metric."""
    if isinstance(kernel, LinearMap):
        rows = [[float(f"{entry:.3g}") for entry in row] for row in np.asarray(kernel.matrix)]
        return kernel.kernel.after(rows)
    scales = kernel.get_params(deep=False)["lengthscale"]
    return kernel.with_(lengthscale=[float(f"{scale:.3g}") for scale in scales])


# ---- the estimator -------------------------------------------------------------------------------


def _estimator(trial: Trial, Z: np.ndarray, known: Target, plan: Plan, rows: int) -> Any:
    """The estimator with the chosen kernel."""
    if known.classes is not None:
        return _classifier(trial, Z, known, plan, rows)
    size = Size(trial.kernel, Z, rows, 1, plan)
    if plan.loss is None:
        ridge = KernelRidge(trial.alpha, kernel=trial.kernel, fit_intercept=True)
        return ridge.set_params(**size.parameters())
    regularization = float(f"{trial.alpha / rows:.3g}")
    model = KernelRegressor(plan.loss, regularization, kernel=trial.kernel, tol=1e-5)
    return model.set_params(**size.parameters())


@dataclass(frozen=True, eq=False)
class Size:
    """On how many centres f is sought: on all rows where time allows that."""

    kernel: Kernel
    Z: np.ndarray
    rows: int
    outputs: int
    plan: Plan

    def parameters(self) -> dict[str, Any]:
        """What is set at the estimator."""
        device = {} if self.plan.device is None else {"device": self.plan.device}
        centres = self.centres()
        if centres is None:
            return device
        return device | {"centres": centres, "random_state": self.plan.random_state}

    def centres(self) -> int | None:
        """None for all rows, or as many as can be fitted twice in the time that is left."""
        if self.plan.device is not None:
            return None if self.rows <= EXACT_ROWS else _centres(self.rows)
        if self.rows <= EXACT_ROWS and FITS * self.seconds() <= self.plan.limit.left:
            return None
        count = _centres(self.rows)
        while count > LEAST_CENTRES and FITS * self.seconds(count) > self.plan.limit.left:
            count = max(round(0.7 * count), LEAST_CENTRES)
        return min(count, self.rows)

    def seconds(self, centres: int | None = None) -> float:
        """What a ridge fit of all rows takes on this machine, about."""
        points = self.kernel.points(np.resize(self.Z, (self.rows, self.Z.shape[1])))
        chosen = automatic.choose(
            self.kernel, points, outputs=self.outputs, centres=centres, ridge=1e-3
        ).chosen
        return float(chosen.seconds)


def _centres(rows: int) -> int:
    return int(min(max(2 * rows**0.5, 1000), 3000))


def _classifier(trial: Trial, Z: np.ndarray, known: Target, plan: Plan, rows: int) -> Any:
    """Least squares or logistic regression, by rows that the fits compared do not see."""
    assert known.classes is not None
    several = len(known.classes) > 2
    size = Size(trial.kernel, Z, rows, len(known.classes) if several else 1, plan).parameters()
    left_out = np.asarray(trial.path.leave_one_out(trial.alpha / trial.rows))
    slope = Calibration.of(left_out, known.codes[: trial.rows]).slope * (2.0 if several else 1.0)
    ridge = KernelRidgeClassifier(trial.alpha, kernel=trial.kernel, slope=float(f"{slope:.3g}"))
    if plan.loss == "squared_error":
        return ridge.set_params(**size)
    cut, limit = round(0.7 * len(Z)), plan.limit.share(0.15)
    tested = known.take(slice(cut, None))
    best: Any = None
    least = math.inf
    for model in [*_logistic(trial), *([] if plan.loss else [ridge])]:
        start = time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = clone(model).fit(Z[:cut], known.values[:cut])
        loss = tested.probability_loss(probabilities_of(fitted, Z[cut:], known))
        needed = (time.monotonic() - start) * (rows / cut) ** 2  # products with K
        late = model is not ridge and FITS * needed > plan.limit.left and best is not None
        if loss < least and not late:
            best, least = model, loss
        if not limit.left and best is not None:
            break
    return best.set_params(**size)


def _logistic(trial: Trial) -> list[Any]:
    """Logistic regression of several strengths."""
    strengths = {min(strength / trial.alpha, MOST_STRENGTH) for strength in STRENGTHS}
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
