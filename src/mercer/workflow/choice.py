"""The choice of a model, from training rows alone: kernel, lengthscales, regularisation, loss."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.base import clone

from mercer.estimators import (
    KernelLogisticRegression,
    KernelRegressor,
    KernelRidge,
    KernelRidgeClassifier,
)
from mercer.estimators.ridge_classifier import score_probabilities
from mercer.workflow.columns import TableEncoder, row_count, take_rows
from mercer.workflow.search import ALPHAS, Limit, Search, Trial
from mercer.workflow.targets import Target

EXACT_ROWS = 12_000  # up to which f is sought on all rows: K takes 0.6 GB in float32
SEARCHED_ROWS = 4_000
STRENGTHS = (1.0, 6.0, 40.0)
"""C of logistic regression times α of least squares: its curvature is at most 1/4, that of the
square 1, and where labels are certain far less."""
MOST_STRENGTH = 1e3  # beyond which logistic regression takes long, and changes little
Notify = Callable[[str, float], Any]


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
    search = Search(
        encodings,
        target.for_squares(),
        plan.limit.share(0.5),
        lambda text, done: plan.tell(text, 0.05 + 0.45 * done),
    )
    trial = search.run()
    plan.tell("choosing the strength of regularisation", 0.5)
    estimator = _estimator(trial, encodings[trial.numbers], target, plan, row_count(training))
    return Choice(
        numbers=trial.numbers,
        estimator=estimator,
        error=trial.error,
        rows=trial.rows,
        freedom=trial.path.degrees_of_freedom(trial.alpha / trial.rows),
        trials=[_shown(tried) for tried in search.trials],
        surface=_surface(search, trial),
        spectrum=np.asarray(trial.path.eigenvalues)[::-1] / trial.rows,
    )


def _estimator(trial: Trial, Z: np.ndarray, known: Target, plan: Plan, rows: int) -> Any:
    """The estimator with the chosen kernel."""
    size: dict[str, Any] = {} if plan.device is None else {"device": plan.device}
    if rows > EXACT_ROWS:
        size |= {"centres": _centres(rows), "random_state": plan.random_state}
    if known.classes is not None:
        return _classifier(trial, Z, known, plan, size)
    if plan.loss is None:
        return KernelRidge(trial.alpha, kernel=trial.kernel, fit_intercept=True, **size)
    regularization = float(f"{trial.alpha / rows:.3g}")
    return KernelRegressor(plan.loss, regularization, kernel=trial.kernel, tol=1e-5, **size)


def _centres(rows: int) -> int:
    return int(min(max(2 * rows**0.5, 1000), 3000))


def _classifier(trial: Trial, Z: np.ndarray, known: Target, plan: Plan, size: Any) -> Any:
    """Least squares or logistic regression, by rows that the fits compared do not see."""
    cut = round(0.7 * len(Z))
    fitted, tested = known.take(slice(0, cut)), known.take(slice(cut, None))
    slope = _slope(trial, known)
    candidates: list[Any] = [KernelRidgeClassifier(trial.alpha, kernel=trial.kernel, slope=slope)]
    for strength in STRENGTHS:
        C = float(f"{min(strength / trial.alpha, MOST_STRENGTH):.3g}")
        candidates.append(KernelLogisticRegression(C, kernel=trial.kernel, tol=1e-4))
    if plan.loss is not None:
        candidates = candidates[:1] if plan.loss == "squared_error" else candidates[1:]
    losses: list[float] = []
    limit = plan.limit.share(0.3)
    for model in candidates:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stated = probabilities_of(clone(model).fit(Z[:cut], fitted.values), Z[cut:], known)
        losses.append(_loss(tested, stated))
        if not limit.left:
            break
    return candidates[int(np.argmin(losses))].set_params(**size)


def _slope(trial: Trial, known: Target) -> float:
    """The slope of probabilities that makes left-out labels most probable."""
    scores = np.asarray(trial.path.leave_one_out(trial.alpha / trial.rows))
    codes = known.codes[: trial.rows]

    def surprise(log_slope: float) -> float:
        stated = score_probabilities(scores, math.exp(log_slope))[np.arange(len(codes)), codes]
        return -float(np.log(np.maximum(stated, 1e-12)).mean())

    best = minimize_scalar(surprise, bounds=(-2.0, 5.0), method="bounded")
    return float(f"{math.exp(best.x):.3g}")


def probabilities_of(model: Any, Z: np.ndarray, known: Target) -> np.ndarray:
    """Probabilities of all classes, also of those that the model has not seen."""
    assert known.classes is not None
    wide = np.zeros((len(Z), len(known.classes)))
    wide[:, np.searchsorted(known.classes, model.classes_)] = model.predict_proba(Z)
    return wide


def _loss(tested: Target, stated: np.ndarray) -> float:
    """The share of wrong labels, and the mean square of what probabilities miss: less noisy."""
    assert tested.classes is not None
    wrong = float(np.mean(stated.argmax(axis=1) != tested.codes))
    square = np.sum((np.eye(len(tested.classes))[tested.codes] - stated) ** 2, axis=1)
    return wrong + float(np.mean(square))


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
