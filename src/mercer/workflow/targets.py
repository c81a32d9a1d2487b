"""The column that is predicted: numbers or classes, and its errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import log_loss, roc_auc_score

from mercer.estimators.calibration import Calibration
from mercer.structured.encodings import kind_of


@dataclass(frozen=True)
class Tuning:
    """What a column of targets must have."""

    rows: int = 20  # at least
    classes: int = 20  # at most: whole numbers with more different values are numbers
    rows_of_class: int = 2  # at least, of each


TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class Target:
    """The values, and for classes their names and numbers."""

    name: str
    values: np.ndarray
    classes: np.ndarray | None = None

    @property
    def task(self) -> str:
        return "regression" if self.classes is None else "classification"

    @cached_property
    def codes(self) -> np.ndarray:
        """The number of each row's class."""
        assert self.classes is not None
        return np.searchsorted(self.classes, self.values)

    @property
    def has_all_classes(self) -> bool:
        """Whether every class has a row."""
        return self.classes is None or len(np.unique(self.values)) == len(self.classes)

    def for_squares(self) -> np.ndarray:
        """Targets for least squares: standardised numbers, or ±1 for each class."""
        if self.classes is None:
            return (self.values - self.values.mean()) / self.values.std()
        if len(self.classes) == 2:
            return 2.0 * self.codes - 1.0
        return 2.0 * np.eye(len(self.classes))[self.codes] - 1.0

    def loss(self, scores: np.ndarray, rows: Any = None) -> float:
        """The mean loss of what is said of some rows, by default the first, as `for_squares` is.

        For numbers it is the square. For classes it is the squared error of probabilities made of
        the scores: whether labels are right depends on the order of scores, not on their distance
        from ±1, which is what squares of scores would judge.
        """
        rows = slice(0, len(scores)) if rows is None else rows
        targets = self.for_squares()[rows]
        if targets.ndim == 1 and scores.ndim == 2:
            scores = scores[:, 0]
        if self.classes is None:
            return float(np.mean((targets - scores) ** 2))
        part = self.take(rows)
        return part.probability_loss(Calibration.of(scores, part.codes).probabilities(scores))

    def probability_loss(self, stated: np.ndarray) -> float:
        """The mean squared error of the probabilities of the first rows (the Brier score)."""
        assert self.classes is not None
        truth = np.eye(len(self.classes))[self.codes[: len(stated)]]
        return float(np.mean(np.sum((truth - stated) ** 2, axis=1)))

    def take(self, rows: Any) -> Target:
        return Target(self.name, self.values[rows], self.classes)

    def baselines(self) -> dict[str, Any]:
        """A linear model and a constant, beside which errors are read."""
        if self.classes is None:
            return {"linear model": RidgeCV(np.logspace(-3, 3, 7)), "constant": DummyRegressor()}
        return {"linear model": LogisticRegression(max_iter=300), "constant": DummyClassifier()}

    def scores(self, predicted: np.ndarray, probabilities: Any = None) -> dict[str, float]:
        """Errors of predictions, the one that counts first."""
        if self.classes is None:
            gap = self.values - predicted
            mean = float(np.mean((self.values - self.values.mean()) ** 2))
            return {
                "RMSE": float(np.sqrt(np.mean(gap**2))),
                "MAE": float(np.mean(np.abs(gap))),
                "R²": 1.0 - float(np.mean(gap**2)) / mean if mean > 0 else float("nan"),
            }
        errors = {"error rate": float(np.mean(self.values != predicted))}
        if probabilities is not None:
            labels = range(len(self.classes))
            errors["log loss"] = float(log_loss(self.codes, probabilities, labels=labels))
            if len(self.classes) == 2 and len(set(self.codes.tolist())) == 2:
                errors["AUC"] = float(roc_auc_score(self.codes, probabilities[:, 1]))
        return errors


def read_target(name: str, values: Any, task: str | None) -> Target:
    """The target, as numbers or classes as asked for, or as it looks."""
    if task not in (None, "regression", "classification"):
        raise ValueError(f'task must be "regression" or "classification"; got {task!r}.')
    kind = kind_of(values)
    array = _array(values)
    if len(array) < TUNING.rows:
        raise ValueError(
            f"{len(array)} rows are too few to choose a model and to test it: at least "
            f"{TUNING.rows} are needed."
        )
    if array.dtype.kind == "f":
        missing = np.isnan(array)
    else:
        missing = np.array([v is None or v != v for v in array.tolist()])
    if missing.any():
        raise ValueError(
            f"the target {name!r} is missing in {int(missing.sum())} of {len(array)} rows, first "
            f"in row {int(np.argmax(missing))}: leave such rows out."
        )
    if task is None:
        task = "regression" if kind == "number" and not _few_values(array) else "classification"
    return _numbers(name, array, kind) if task == "regression" else _classes(name, array)


def _array(values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"the target is one column; got shape {array.shape}.")
    return array if array.dtype.kind in "iufb" else np.array(list(values), object)


def _few_values(array: np.ndarray) -> bool:
    """Whether numbers look like classes: few different whole numbers, or only two values."""
    if array.dtype.kind == "b":
        return True
    values = np.unique(array.astype(np.float64))
    if len(values) == 2:
        return True
    whole = bool((values == np.round(values)).all())
    return whole and len(values) <= min(TUNING.classes, len(array) // 20)


def _numbers(name: str, array: np.ndarray, kind: str) -> Target:
    if kind != "number" and array.dtype.kind != "b":
        raise ValueError(
            f"the target {name!r} holds {array[0]!r}, which is no number: write "
            'task="classification".'
        )
    numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"the target {name!r} holds infinite values.")
    if np.ptp(numbers) == 0:
        raise ValueError(f"the target {name!r} is {numbers[0]:g} in every row: nothing to learn.")
    return Target(name, numbers)


def _classes(name: str, array: np.ndarray) -> Target:
    labels = array if array.dtype.kind in "iufb" else np.array([str(v) for v in array])
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) == 1:
        raise ValueError(
            f"the target {name!r} is {str(classes[0])!r} in every row: nothing to learn."
        )
    if counts.min() < TUNING.rows_of_class:
        rare = classes[int(np.argmin(counts))]
        hint = ' For a number write task="regression".' if array.dtype.kind in "iuf" else ""
        raise ValueError(
            f"the class {str(rare)!r} of {name!r} has one row, which cannot be learned from and "
            f"tested on: leave it out, or join classes.{hint}"
        )
    return Target(name, labels, classes)
