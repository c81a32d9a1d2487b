"""Least-squares classification: kernel ridge regression of ±1, with probabilities."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer.checks import check_positive
from mercer.estimators.certified import certificate
from mercer.estimators.inputs import admit_labels, function_values, hosted, labels_at
from mercer.estimators.ridge import KernelRidge
from mercer.estimators.smaller import compress
from mercer.estimators.uncertainty import RidgeSmoother
from mercer.features.centres import AnyChoice
from mercer.features.inputs import KernelLike
from mercer.kernels.measures import Seed
from mercer.solvers.problem import Solver

LEARNED = (
    "function_",
    "solution_",
    "kernel_",
    "dual_coef_",
    "X_fit_",
    "intercept_",
    "choice_",
    "_problems",
    "_known",
    "validation_scores_",  # with early stopping
)


@dataclass(eq=False, repr=False)
class KernelRidgeClassifier(RidgeSmoother, ClassifierMixin, BaseEstimator):
    """Classification by kernel ridge regression: targets are 1 for a class and −1 for the others.

    It is scikit-learn's `RidgeClassifier` with a kernel: one linear system for all classes, and
    leave-one-out errors without refitting. Scores are not probabilities; those are
    softmax(slope · s/2), with s = (−s, s) for two classes.

    Parameters
    ----------
    alpha : float, default=1.0
        α, as in `KernelRidge`.
    kernel : Kernel, str or callable, default="rbf"
    gamma, degree, coef0, kernel_params :
        Parameters of named and callable kernels, as in scikit-learn.
    fit_intercept : bool, default=True
    slope : float, default=3.0
        > 0; 3 says 95 % for a score of 1. Fit it on scores of rows that the model has not seen, as
        `mercer.fit` does by leave-one-out.
    solver, centres, random_state, device, checkpoint :
    early_stopping, validation_fraction, n_iter_no_change :
        As in `KernelRidge`.

    Attributes
    ----------
    classes_ : array
        The labels, sorted.
    function_, solution_, kernel_, dual_coef_, X_fit_, intercept_, choice_, validation_scores_ :
        As in `KernelRidge`, with one output for each class where there are more than two.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidgeClassifier
    >>> X = np.linspace(-1.0, 1.0, 30)[:, None]
    >>> model = KernelRidgeClassifier(1e-3).fit(X, np.where(np.abs(X[:, 0]) < 0.5, "in", "out"))
    >>> model.predict([[0.0], [0.9]]).tolist()
    ['in', 'out']
    """

    _instead_of_tensors = ""
    _takes_clusters = True
    _allow_indefinite = True

    alpha: float = 1.0
    _: KW_ONLY
    kernel: KernelLike = "rbf"
    gamma: float | str | None = None
    degree: float = 3
    coef0: float = 1
    kernel_params: dict[str, Any] | None = None
    fit_intercept: bool = True
    slope: float = 3.0
    solver: Solver | str = "auto"
    centres: int | AnyChoice | None = None
    random_state: Seed = None
    device: Any = None
    checkpoint: str | Path | None = None
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10

    certificate, compress = certificate, compress

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit f to labels y, of any kind."""
        check_positive(self, "slope", self.slope)
        X, y, weights = admit_labels(self, X, y, sample_weight)
        classes = np.unique(y if weights is None else y[weights > 0])
        if len(classes) < 2:
            raise ValueError(
                f"KernelRidgeClassifier needs samples of at least two classes with a weight > 0; "
                f"the data contains only one class, {classes[0]!r}."
            )
        ridge = self._ridge()
        ridge.fit(X, signed(np.minimum(np.searchsorted(classes, y), len(classes) - 1)), weights)
        learned = {name: getattr(ridge, name) for name in LEARNED if hasattr(ridge, name)}
        self.__dict__.update(learned, classes_=classes)
        return self

    def _ridge(self) -> KernelRidge:
        """The regression to labels ±1."""
        params = self.get_params(deep=False)
        return KernelRidge(**{name: v for name, v in params.items() if name != "slope"})

    def decision_function(self, X: Any) -> Any:
        """Scores: positive for the second of two classes, one column for each of several."""
        return function_values(self, X)

    def predict(self, X: Any) -> Any:
        """The class with the best score, for every row of X."""
        check_is_fitted(self)
        scores = self.decision_function(X)
        best = 1 * (scores > 0) if scores.ndim == 1 else scores.argmax(axis=1)
        return labels_at(self.classes_, best)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, for every row of X."""
        return score_probabilities(hosted(self.decision_function(X))[0], self.slope)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of right labels."""
        X, y, sample_weight = hosted(X, y, sample_weight)
        return float(super().score(X, y, sample_weight=sample_weight))

    def explain(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> str:
        """Which solver was used and why, or would be for X and y, as in `KernelRidge`."""
        if X is not None:
            codes = np.unique(hosted(y)[0], return_inverse=True)[1]
            return self._ridge().explain(X, signed(codes), sample_weight)
        check_is_fitted(self)
        if self.choice_ is None:
            return f"The solver was given, or there was nothing to choose. {self.solution_.status}"
        return f"{self.choice_.explain()}\n{self.solution_.status}"

    def _largest_target(self) -> float:
        return 1.0

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "function_")


def signed(codes: np.ndarray) -> np.ndarray:
    """1 for the class of a row and −1 for the others; one column for two classes.

    >>> signed(np.array([0, 1, 2])).tolist()
    [[1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]]
    """
    count = int(codes.max()) + 1
    return 2.0 * codes - 1.0 if count == 2 else 2.0 * np.eye(count)[codes] - 1.0


def score_probabilities(scores: np.ndarray, slope: float) -> np.ndarray:
    """softmax(slope · s/2) of scores with targets ±1.

    >>> score_probabilities(np.array([0.0]), 3.0).tolist()
    [[0.5, 0.5]]
    """
    columns = np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores
    return softmax(0.5 * slope * np.asarray(columns, np.float64), axis=1)
