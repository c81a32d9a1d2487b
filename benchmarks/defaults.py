"""Scores of default estimators on real tables, beside those of scikit-learn's SVC and SVR.

Nothing is timed: a row is a mean over tables, ours minus theirs. Columns are standardised, or as
they are; targets of regression are divided by their standard deviation for both.

The default λ = 1/(30Σw) was chosen looking at the large tables. The group "unseen" has tables that
were not looked at: those that come with scikit-learn, ten splits of each, for which no floor was
set.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.metrics import mean_pinball_loss
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from benchmarks import measure
from benchmarks.data import table
from benchmarks.measure import Effort, Groups, Row
from mercer import (
    KernelClassifier,
    KernelLogisticRegression,
    KernelQuantileRegressor,
    KernelRegressor,
)

CLASSES = (
    *("adult", "elec2_stream", "higgs_7500", "ijcnn1", "keel_banana", "keel_optdigits"),
    *("keel_penbased", "keel_phoneme", "keel_ring", "keel_segment", "keel_spambase"),
    *("keel_twonorm", "mnist", "skin_nonskin"),
)
NUMBERS = (
    *("california_housing", "uci_airfoil", "uci_autompg", "uci_concrete", "uci_elevators"),
    *("uci_energy", "uci_housing", "uci_kin40k", "uci_machine", "uci_parkinsons", "uci_protein"),
    *("uci_pumadyn32nm", "uci_servo", "uci_skillcraft", "uci_sml", "uci_wine", "uci_yacht"),
)
UNSEEN_CLASSES = ("iris", "wine", "breast_cancer", "digits")
UNSEEN_NUMBERS = ("diabetes", "friedman1", "friedman2", "friedman3")
SPLITS = 10
ROWS = 1000  # to fit, and as many to score
OF_CLASSES: dict[str, Callable[[], Any]] = {
    "KernelClassifier()": KernelClassifier,
    "KernelClassifier('hinge')": partial(KernelClassifier, "hinge"),
    "KernelClassifier('squared_hinge')": partial(KernelClassifier, "squared_hinge"),
    "KernelLogisticRegression()": KernelLogisticRegression,
}
OF_NUMBERS: dict[str, Callable[[], Any]] = {
    "KernelRegressor()": KernelRegressor,
    "KernelRegressor('epsilon_insensitive')": partial(KernelRegressor, "epsilon_insensitive"),
    "KernelRegressor('huber')": partial(KernelRegressor, "huber"),
}


def bundled(name: str) -> tuple[Any, Any]:
    """A table that comes with scikit-learn; Friedman's functions have noise of a fifth of them."""
    if not name.startswith("friedman"):
        return getattr(datasets, f"load_{name}")(return_X_y=True)
    X, y = getattr(datasets, f"make_{name}")(n_samples=500, random_state=0)
    return X, y + 0.2 * y.std() * np.random.default_rng(0).standard_normal(len(y))


def split(X: Any, y: Any, effort: Effort, scaled: bool, seed: int) -> tuple[Any, Any, Any, Any]:
    chosen = np.random.default_rng(seed).permutation(len(y))[: 2 * effort.size(ROWS)]
    X, y = X.reshape(len(X), -1)[chosen], y[chosen]
    cut = min(effort.size(ROWS), 2 * len(y) // 3)
    scaler = StandardScaler().fit(X[:cut])
    X = scaler.transform(X) if scaled else X
    return X[:cut], y[:cut], X[cut:], y[cut:]


def compared(
    names: tuple[str, ...],
    ours: dict[str, Callable[[], Any]],
    peer: Callable[[], Any],
    effort: Effort,
    score: Callable[[Any, Any, Any], float],
    read: Callable[[str], tuple[Any, Any]] = table,
    splits: int = 1,
) -> Iterator[Row]:
    kind = "tables" if read is table else "tables of scikit-learn"
    for scaled in (True, False):
        scores: dict[str, list[float]] = {name: [] for name in (*ours, "")}
        for name, seed in product(names, range(splits)):
            X, y, new, answers = split(*read(name), effort, scaled, seed)
            if y.dtype.kind == "f":
                y, answers = y / y.std(), answers / y.std()
            for label, make in {**ours, "": peer}.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    scores[label].append(max(score(make().fit(X, y), new, answers), -1.0))
        theirs = float(np.mean(scores.pop("")))
        for label, values in scores.items():
            yield Row(
                f"{label}, {len(names)} {kind}, columns {'standardised' if scaled else 'raw'}",
                float(np.mean(values)) - theirs,
                " more",
                peer=peer().__class__.__name__ + "()",
                floor=0.0 if read is table else None,
                note=f"mean score {np.mean(values):.4f} against {theirs:.4f}",
            )


def classes(effort: Effort) -> Iterator[Row]:
    yield from compared(CLASSES, OF_CLASSES, SVC, effort, lambda m, X, y: m.score(X, y))


def numbers(effort: Effort) -> Iterator[Row]:
    yield from compared(NUMBERS, OF_NUMBERS, SVR, effort, lambda m, X, y: m.score(X, y))


def medians(effort: Effort) -> Iterator[Row]:
    """Minus the mean absolute error, which both minimise."""
    ours = {"KernelQuantileRegressor()": KernelQuantileRegressor}
    loss = lambda m, X, y: -2.0 * mean_pinball_loss(y, m.predict(X))  # noqa: E731
    yield from compared(NUMBERS, ours, partial(SVR, epsilon=0.0), effort, loss)


def unseen(effort: Effort) -> Iterator[Row]:
    splits = 1 if effort.quick else SPLITS
    score = lambda m, X, y: m.score(X, y)  # noqa: E731
    yield from compared(UNSEEN_CLASSES, OF_CLASSES, SVC, effort, score, bundled, splits)
    yield from compared(UNSEEN_NUMBERS, OF_NUMBERS, SVR, effort, score, bundled, splits)


GROUPS: Groups = {"classes": classes, "numbers": numbers, "medians": medians, "unseen": unseen}

run = partial(measure.measured, "Defaults", GROUPS)
