"""Probabilities of classes from scores: softmax(a·s), and those of support vector classifiers.

Both are fitted on rows that no fit has seen; the second are calibrated as scikit-learn advises.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import Array, namespace
from mercer.errors import ApproximationWarning, warn
from mercer.estimators.inputs import hosted

FOLDS = 5
PRIOR = 1.0
"""Weight of the prior log a ~ N(log 3, 1), in rows: without it, scores that separate classes ask
for an infinite a. With targets ±1, a = 3 says 95 % at a score of 1."""


@dataclass(frozen=True)
class Calibration:
    """softmax(a·s) for scores s, one column for each class; two classes have ±s/2.

    The class with the largest score is the most probable one.

    Examples
    --------
    >>> scores = np.array([-1.0, -0.2, 0.3, 1.2])
    >>> fitted = Calibration.of(scores, np.array([0, 1, 0, 1]))
    >>> bool(np.all(np.diff(fitted.probabilities(scores)[:, 1]) > 0))
    True
    """

    slope: float

    @classmethod
    def of(
        cls, scores: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None
    ) -> Calibration:
        """The maximum of the likelihood of held-out labels, with a weak prior."""
        total = float(len(labels) if weights is None else weights.sum())

        def objective(log_slope: float) -> float:
            prior = 0.5 * PRIOR * (log_slope - math.log(3.0)) ** 2
            return prior + total * cls(math.exp(log_slope)).loss(scores, labels, weights)

        best = minimize_scalar(objective, bounds=(-7.0, 7.0), method="bounded")
        return cls(math.exp(best.x))

    def loss(self, scores: np.ndarray, labels: np.ndarray, weights: Any = None) -> float:
        """The mean of −log p of the labels."""
        logs = self.log_probabilities(scores)[np.arange(len(labels)), labels]
        return -float(np.average(logs, weights=weights))

    def log_probabilities(self, scores: Array) -> Array:
        """The logarithms, one column for each class."""
        logits = self.slope * _columns(scores)
        xp = namespace(logits)
        logits = logits - xp.max(logits, axis=1, keepdims=True)
        return logits - xp.log(xp.sum(xp.exp(logits), axis=1, keepdims=True))

    def probabilities(self, scores: Array) -> Array:
        """One column for each class."""
        logs = self.log_probabilities(scores)
        return namespace(logs).exp(logs)


def _columns(scores: Array) -> Array:
    """A column for each class; a score of two classes is that of the second, less the first."""
    if scores.ndim == 2:
        return scores
    return namespace(scores).stack([-0.5 * scores, 0.5 * scores], axis=1)


# ---- of support vector classifiers ---------------------------------------------------------------


def _is_asked_for(estimator: Any) -> bool:
    if estimator.probability is True:
        return True
    raise AttributeError("predict_proba is not available when probability=False")


@available_if(_is_asked_for)
def predict_proba(self: Any, X: Any) -> np.ndarray:
    """The probability of each class, a column for each."""
    check_is_fitted(self)
    if not hasattr(self, "calibrator_"):
        raise NotFittedError(
            "predict_proba is not available when fitted with probability=False: fit again."
        )
    return np.asarray(self.calibrator_.predict_proba(*hosted(X)))


@available_if(_is_asked_for)
def predict_log_proba(self: Any, X: Any) -> np.ndarray:
    """Logarithms of the probabilities."""
    return np.log(self.predict_proba(X))


def calibrated(self: Any, X: Any, y: np.ndarray, weights: np.ndarray) -> dict[str, Any]:
    """The fitted calibration, where `probability=True` asks for one.

    The scores of rows that were left out, in five folds, are mapped to probabilities by a sigmoid
    (Platt's method): `CalibratedClassifierCV(ensemble=False)`. Where a class has one row only,
    which cannot be left out, scores are those of the fitted rows, and a warning says so.
    """
    if self.probability == "deprecated":
        return {}
    name = type(self).__name__
    warnings.warn(
        "The `probability` parameter is deprecated, as in scikit-learn 1.9: write "
        f"CalibratedClassifierCV({name}(), ensemble=False), or KernelLogisticRegression.",
        FutureWarning,
        stacklevel=4,  # of fit
    )
    if not self.probability:
        return {}
    fewest, rows = int(np.unique(y, return_counts=True)[1].min()), np.arange(len(y))
    folds: Any = [(rows, rows)]
    if fewest > 1:
        shuffle = {"shuffle": True, "random_state": self.random_state}
        folds = StratifiedKFold(min(FOLDS, fewest), **shuffle)
    else:
        warn(
            f"probability=True leaves out a fold of rows at a time, and a class of {name} has "
            "one row only: its probabilities are those of the rows it was fitted to, and too "
            "sure of themselves.",
            ApproximationWarning,
        )
    plain = clone(self).set_params(probability="deprecated")
    calibrator = CalibratedClassifierCV(plain, ensemble=False, cv=folds)
    return {"calibrator_": calibrator.fit(*hosted(X), y, sample_weight=weights)}
