"""Probabilities of support vector classifiers, calibrated as scikit-learn advises."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer.errors import ApproximationWarning, warn
from mercer.estimators.inputs import hosted

FOLDS = 5


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
