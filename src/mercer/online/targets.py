"""Targets of a stream as rows of numbers: labels that are announced once, or real numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from mercer.losses import Loss


@dataclass(frozen=True, eq=False)
class Targets:
    """How the targets of a stream are read; the first samples decide.

    Labels are ±1 in one column for two classes; for more, or for a loss of rows of scores, there is
    a column for each class, ±1 or one-hot.
    """

    loss: Loss
    classes: np.ndarray | None
    outputs: int
    flat: bool  # whether a value of f is a number, not a row
    known: dict[Any, np.ndarray] = field(default_factory=dict)  # rows of single labels

    @classmethod
    def of_labels(cls, loss: Loss, classes: np.ndarray) -> Self:
        one = len(classes) == 2 and not loss.is_multiclass
        return cls(loss, classes, outputs=1 if one else len(classes), flat=one)

    @classmethod
    def of_numbers(cls, loss: Loss, y: Any) -> Self:
        y = required(y)
        return cls(loss, None, outputs=1 if y.ndim < 2 else y.shape[1], flat=y.ndim < 2)

    def rows(self, y: Any) -> np.ndarray:
        return self._real_rows(y) if self.classes is None else self._label_rows(y)

    def row(self, y: Any) -> np.ndarray:
        """The row of one target; that of a label is computed once."""
        if self.classes is None:
            return self._real_rows(None if y is None else [y])
        if y not in self.known:
            self.known[y] = self._label_rows(None if y is None else np.array([y]))
        return self.known[y]

    def _real_rows(self, y: Any) -> np.ndarray:
        values = check_array(required(y), ensure_2d=False, dtype=np.float64, input_name="y")
        self.loss.check_targets(values)
        rows = values[:, None] if values.ndim == 1 else values
        if rows.shape[1] != self.outputs:
            raise ValueError(
                f"targets must have {self.outputs} columns, as before; got {rows.shape[1]}."
            )
        return rows

    def _label_rows(self, y: Any) -> np.ndarray:
        labels, classes = _finite_labels(y), self.classes
        assert classes is not None
        try:
            index = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
        except TypeError:  # labels of another kind, which have no order with these
            index = np.zeros(len(labels), np.int64)
        unknown = classes[index] != labels
        if unknown.any():
            raise ValueError(
                f"label {labels[unknown].tolist()[0]!r} was never announced; the classes are "
                f"{classes.tolist()}. Announce all of them in the first call: classes=[...]."
            )
        if self.outputs == 1:
            return (2.0 * index - 1.0)[:, None]
        hot = index[:, None] == np.arange(len(classes))
        return hot.astype(np.float64) if self.loss.is_multiclass else 2.0 * hot - 1.0

    def check_classes(self, classes: Any) -> None:
        """Refuse classes that are not those announced before."""
        if classes is None or self.classes is None:
            return
        before = self.classes.tolist()
        if list(classes) != before and not np.array_equal(np.unique(classes), self.classes):
            raise ValueError(
                f"classes={list(classes)} is not what the first call announced, {before}."
            )


def announced(y: Any, classes: Any) -> np.ndarray:
    """The classes in order: as announced, or those in y."""
    labels = _finite_labels(y)
    check_classification_targets(labels)
    values = np.unique(labels if classes is None else np.asarray(classes))
    if len(values) < 2:
        raise ValueError(f"a classifier needs at least two classes; got {len(values)} class.")
    return values


def _finite_labels(y: Any) -> np.ndarray:
    y = required(y)
    labels = y if y.ndim == 1 else column_or_1d(y, warn=True)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y contains NaN or infinity, which is no label: leave such rows out.")
    return labels


def required(y: Any) -> np.ndarray:
    """Targets as an array; there must be some."""
    if y is None:
        raise ValueError("learning requires y to be passed, but the target y is None.")
    return np.asarray(y)
