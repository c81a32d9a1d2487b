"""Least-squares classification: kernel ridge regression of ±1, with probabilities."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from mercer.arrays import as_numpy
from mercer.checks import check_positive
from mercer.estimators.calibration import Calibration
from mercer.estimators.classifier import decision_function, encoded, predict, signed_targets
from mercer.estimators.fitting import explain_solver
from mercer.estimators.inputs import admit_labels
from mercer.estimators.ridge import KernelRidge
from mercer.estimators.uncertainty import RidgeSmoother
from mercer.solvers.problem import Solver


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
    solver, centres, random_state, device, time_limit, checkpoint :
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

    class_weight: ClassVar[None] = None
    _takes_clusters = True

    alpha: float = 1.0
    _: KW_ONLY
    fit_intercept: bool = True
    slope: float = 3.0
    solver: Solver | str = "auto"
    time_limit: float | None = None
    checkpoint: str | Path | None = None
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10

    decision_function, predict, explain = decision_function, predict, explain_solver

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit f to labels y, of any kind."""
        check_positive(self, "slope", self.slope)
        X, y, weights, classes = self._signed(X, y, sample_weight)
        ridge = self._ridge().fit(X, y, weights)
        params = ridge.get_params(deep=False)
        learned = {name: value for name, value in vars(ridge).items() if name not in params}
        self.__dict__.update(learned, classes_=classes)
        return self

    def _signed(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        """X, targets ±1, weights, and the classes."""
        X, y, weights = admit_labels(self, X, y, sample_weight)
        classes, codes, _ = encoded(self, y, weights)
        return X, signed_targets(codes, len(classes)), weights, classes

    def _ridge(self) -> KernelRidge:
        """The regression to targets ±1."""
        params = self.get_params(deep=False)
        return KernelRidge(**{name: v for name, v in params.items() if name != "slope"})

    def _posed(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        return self._ridge()._posed(*self._signed(X, y, sample_weight)[:3])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, for every row of X."""
        scores = as_numpy(self.decision_function(X)).astype(np.float64)
        slope = self.slope if scores.ndim == 1 else 0.5 * self.slope
        return Calibration(slope).probabilities(scores)

    def _largest_target(self) -> float:
        return 1.0
