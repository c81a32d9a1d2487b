"""Labels as rows of numbers, and classes that are announced once."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from mercer.losses import Loss


def announced(y: Any, classes: Any, find: bool) -> np.ndarray:
    """The classes in order: announced, or found in y where `find` is set."""
    if classes is None and not find:
        raise ValueError(
            "the first samples of a classifier announce all labels there will be: write "
            "partial_fit(X, y, classes=[-1, 1]), or learn_one(x, y, classes=[-1, 1])."
        )
    check_classification_targets(y)
    found = np.unique(column_or_1d(y, warn=True) if classes is None else np.asarray(classes))
    if len(found) < 2:
        raise ValueError(f"a classifier needs at least two classes; got {len(found)} class.")
    return found


def check_same(classes: Any, before: np.ndarray) -> None:
    """Refuse classes that are not those announced before."""
    if list(classes) != before.tolist() and not np.array_equal(np.unique(classes), before):
        raise ValueError(
            f"classes={list(classes)} is not what the first call announced, {before.tolist()}."
        )


def rows(y: Any, classes: np.ndarray, loss: Loss) -> np.ndarray:
    """±1 in one column for two classes, ±1 or one-hot in a column for each class otherwise."""
    plain = isinstance(y, np.ndarray) and y.ndim == 1
    labels = y if plain else column_or_1d(y, warn=True)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y contains NaN or infinity, which is no label: leave such rows out.")
    index = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    unknown = classes[index] != labels
    if unknown.any():
        raise ValueError(
            f"label {labels[unknown].tolist()[0]!r} was never announced; the classes are "
            f"{classes.tolist()}. Announce all of them in the first call: classes=[...]."
        )
    if loss.is_multiclass:
        return (index[:, None] == np.arange(len(classes))).astype(np.float64)
    if len(classes) == 2:
        return (2.0 * index - 1.0)[:, None]
    return 2.0 * (index[:, None] == np.arange(len(classes))) - 1.0
