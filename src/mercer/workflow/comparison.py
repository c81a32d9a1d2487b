"""Kernels, losses, linear models and trees by the same folds."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler

from mercer.checks import check_count
from mercer.estimators import (
    SVC,
    KernelLogisticRegression,
    KernelRegressor,
    KernelRidge,
    KernelRidgeClassifier,
)
from mercer.structured.encodings import column_names
from mercer.workflow.columns import TableEncoder, as_table, take_rows
from mercer.workflow.fitting import tune
from mercer.workflow.search import FAMILIES, Limit, Search
from mercer.workflow.targets import Target, read_target

FOLD_ROWS = 5000  # of a fold that kernels of one family are fitted to


@dataclass(frozen=True, eq=False)
class Comparison:
    """Errors of models on the same folds, the best first.

    `print` shows a table; `errors` holds a row for each model and a column for each fold.

    >>> shown = Comparison("RMSE", ["mercer"], np.array([[1.0, 2.0]]), np.array([0.1]))
    >>> shown.errors.mean()
    np.float64(1.5)
    """

    measure: str
    names: list[str]
    errors: np.ndarray
    seconds: np.ndarray

    def as_dict(self) -> dict[str, Any]:
        """The table as plain values."""
        rows = zip(self.names, self.errors.tolist(), self.seconds.tolist(), strict=True)
        return {"measure": self.measure, "models": [
            {"name": name, "mean": float(np.mean(errors)), "folds": errors, "seconds": seconds}
            for name, errors, seconds in rows
        ]}  # fmt: skip

    def __str__(self) -> str:
        folds = self.errors.shape[1]
        lines = [f"{f'{self.measure}, {folds} folds':<36}{'mean':>12}{'spread':>12}{'seconds':>10}"]
        for name, errors, seconds in zip(self.names, self.errors, self.seconds, strict=True):
            lines.append(f"{name:<36}{errors.mean():>12.4g}{errors.std():>12.2g}{seconds:>10.1f}")
        return "\n".join(lines)


def compare(
    table: Any,
    target: str,
    *,
    task: str | None = None,
    folds: int = 3,
    time_limit: float = 60.0,
    random_state: int = 0,
    limit: Limit | None = None,
    notify: Callable[[str, float], Any] | None = None,
) -> Comparison:
    """The errors of `mercer.fit`, single kernels, other losses, linear models and trees.

    Parameters
    ----------
    table, target, task, random_state, limit, notify :
        As in `mercer.fit`.
    folds : int, default=3
        Two or more. Every row is tested once.
    time_limit : float, default=60.0
        Seconds for all models together, about.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.workflow import compare
    >>> x = np.random.default_rng(0).uniform(size=90)
    >>> comparison = compare({"x": x, "y": np.sin(6 * x)}, "y", time_limit=2.0)
    >>> comparison.names[-1]
    'constant'
    """
    check_count("compare", "folds", folds)
    whole = as_table(table)
    if target not in column_names(whole):
        raise ValueError(f"there is no column {target!r}; there are {column_names(whole)}.")
    goal = read_target(target, whole[target], task)
    _check_folds(goal, folds)
    columns = {name: whole[name] for name in column_names(whole) if name != target}
    limit = limit or Limit(time_limit)
    models = _models(goal)
    errors = np.full((len(models), folds), np.nan)
    seconds = np.zeros(len(models))
    share = limit.left / errors.size
    folder = KFold if goal.classes is None else StratifiedKFold
    splits = folder(folds, shuffle=True, random_state=random_state).split(goal.values, goal.values)
    for fold, (train, test) in enumerate(splits):
        parts = take_rows(columns, train), take_rows(columns, test)
        for i, (name, model) in enumerate(models.items()):
            if limit.stopped and np.isfinite(errors).any():
                break
            if notify is not None:
                notify(name, (fold * len(models) + i) / errors.size)
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                predicted = _predicted(model, parts[0], goal.take(train), parts[1], share)
            errors[i, fold] = next(iter(goal.take(test).scores(predicted).values()))
            seconds[i] += time.perf_counter() - start
    folds_used, order = _ranking(errors)
    measure, names = "RMSE" if goal.classes is None else "error rate", list(models)
    errors = errors[order][:, folds_used]
    return Comparison(measure, [names[i] for i in order], errors, seconds[order])


def _ranking(errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The folds that all models ended, where it was stopped by hand, and the best models first."""
    ended = np.isfinite(errors)
    folds = ended.all(axis=0) if ended.all(axis=0).any() else ended.any(axis=0)
    order = np.argsort(errors[:, folds].mean(axis=1), kind="stable")
    return folds, order[ended[order][:, folds].all(axis=1)]


def _check_folds(goal: Target, folds: int) -> None:
    """Refuse more folds than there are rows to test, of one class at least, and a single one."""
    if goal.classes is None:
        most, what = len(goal.values), "the number of rows"
    else:
        most, what = int(np.bincount(goal.codes).max()), "that of the rows of the largest class"
    if not 2 <= folds <= most:
        wanted = f"between 2 and {most:,}, {what}" if most >= 2 else "2 or more"
        raise ValueError(f"folds must be {wanted}; got {folds:,}.")


def _models(goal: Target) -> dict[str, Any]:
    """The models by name: None is `mercer.fit`; pairs are a family of kernels and a loss."""
    numbers = goal.classes is None
    boosted = HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier
    forest = RandomForestRegressor if numbers else RandomForestClassifier
    baselines = goal.baselines()
    models: dict[str, Any] = {"mercer.fit": None}
    models |= {f"{family} kernel": (family, "square") for family in FAMILIES}
    for loss in ("absolute",) if numbers else ("logistic", "hinge"):
        models[f"Laplacian kernel, {loss} loss"] = "Laplacian", loss
    return models | {
        "linear model": baselines["linear model"],
        "boosted trees": boosted(random_state=0),
        "random forest": forest(random_state=0),
        "constant": baselines["constant"],
    }


def _predicted(
    model: Any, training: Any, known: Target, testing: Any, seconds: float
) -> np.ndarray:
    """What a model of training columns says of others, after a search in about so many seconds."""
    if model is None:
        limit = max(2.0, 2.0 * seconds)
        return tune(training, known.values, task=known.task, time_limit=limit).predict(testing)
    if isinstance(model, tuple):
        few = slice(0, FOLD_ROWS)
        training, known = take_rows(training, few), known.take(few)
    encoder = TableEncoder().fit(training)
    Z = encoder.transform(training)
    if isinstance(model, tuple):
        family, loss = model
        model = _with_kernel(family, loss, Z, known, Limit(seconds))
    return model.fit(Z, known.values).predict(encoder.transform(testing))


def _with_kernel(family: str, loss: str, Z: np.ndarray, known: Target, limit: Limit) -> Any:
    """The estimator of a loss with a kernel that has the same lengthscale in all columns."""
    of_left_out = None if known.classes is None else known.loss
    search = Search(
        {"standard": Z}, known.for_squares(), limit, families=(family,), loss=of_left_out
    )
    trial = search.screened()
    kernel, alpha = trial.kernel, trial.alpha
    if loss == "hinge":
        return SVC(C=min(1.0 / alpha, 1e3), kernel=kernel)
    if loss == "logistic":
        return KernelLogisticRegression(min(6.0 / alpha, 1e4), kernel=kernel, tol=1e-3)
    if loss == "absolute":
        model = KernelRegressor("absolute_error", alpha / len(Z), kernel=kernel, tol=1e-3)
        return TransformedTargetRegressor(model, transformer=StandardScaler())
    ridge = KernelRidge if known.classes is None else KernelRidgeClassifier
    return ridge(alpha, kernel=kernel, fit_intercept=True)
