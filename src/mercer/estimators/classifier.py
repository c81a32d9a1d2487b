"""Classification with any loss, and kernel logistic regression with its probabilities."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import combinations
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _ovr_decision_function

from mercer.arrays import Array, beside, namespace, on_host
from mercer.estimators.callbacks import FitTask, with_callbacks
from mercer.estimators.loss_names import FOR_CLASSES, as_loss
from mercer.estimators.scale import Setting
from mercer.estimators.supervised import LossEstimator, checked_regularization
from mercer.losses import Logistic, Loss, Multinomial, one_hot
from mercer.solvers.solution import Solution


def _has_probabilities(estimator: Any) -> bool:
    """Whether scores are probabilities: refuse with a reason."""
    loss = as_loss(estimator.loss, FOR_CLASSES)
    if not isinstance(loss, (Logistic, Multinomial)):
        raise AttributeError(
            f"{loss!r} gives no probabilities; write loss='log_loss' or loss='multinomial', or put "
            "the model into CalibratedClassifierCV."
        )
    if estimator.multi_class == "ovo":
        raise AttributeError("pairs of classes give no probabilities; write multi_class='ovr'.")
    return True


class _Classifier(LossEstimator, ClassifierMixin, BaseEstimator):
    """Classes, their weights, and the ways from two classes to many."""

    class_weight: Any

    def _encoded(self, y: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, Any]:
        """Labels as numbers of classes, and weights times those of the classes."""
        counted = np.ones(len(y), bool) if weights is None else weights > 0
        classes = np.unique(y[counted])
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least two classes with a weight > 0; "
                f"the data contains only one class, {classes[0]!r}."
            )
        labels = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        if self.class_weight is not None:
            weights = self._with_class_weights(classes, labels, y, weights, counted)
        self.classes_ = classes
        return labels, weights

    def _with_class_weights(
        self, classes: Any, labels: Any, y: Any, weights: Any, counted: Any
    ) -> np.ndarray:
        own = np.ones(len(y)) if weights is None else weights
        of_class = compute_class_weight(
            self.class_weight, classes=classes, y=y[counted], sample_weight=own[counted]
        )
        return own * of_class[labels]

    def _scores(self, X: Any) -> np.ndarray:
        return self._function_values(X)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: positive for the second of two classes, one column for each of several."""
        scores = self._scores(X)
        if len(self.classes_) > 2 or scores.ndim == 1:
            return scores
        return scores[:, 1] - scores[:, 0]

    def predict(self, X: Any) -> np.ndarray:
        """The class with the best score, for every row of X; a tensor where X is one.

        Labels that are no numbers are an array of NumPy all the same.
        """
        scores = self.decision_function(X)
        best = 1 * (scores > 0) if scores.ndim == 1 else scores.argmax(axis=1)
        if self.classes_.dtype.kind in "biuf":
            return beside(self.classes_, best)[best]
        return self.classes_[on_host(best)]


class KernelClassifier(_Classifier):
    """Classification with any loss: min (1/Σw) Σ_i w_i ℓ(y_i, f(x_i) + b) + (λ/2)‖f‖².

    The hinge loss is a support vector machine with C = 1/(nλ), the logistic loss gives
    probabilities, the square loss is least-squares classification. A loss of two classes is
    extended to several by one-vs-rest or one-vs-one; `multinomial` takes them all at once.

    Parameters
    ----------
    loss : Loss or str, default="log_loss"
        A loss of `mercer.losses`, or "log_loss", "multinomial", "hinge", "squared_hinge",
        "squared_error".
    regularization : float, default=0.01
        λ.
    kernel : Kernel, str or callable, default="rbf"
        As in `KernelRidge`.
    gamma, degree, coef0, kernel_params :
        Parameters of named and callable kernels, as in scikit-learn.
    fit_intercept : bool, default=True
        Whether to add an unpenalised constant b.
    multi_class : "ovr" or "ovo", default="ovr"
        How a loss of two classes serves several: one-vs-rest, each class against all others, or
        one-vs-one, a problem with the same λ for each pair of classes on its own samples.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, which multiply those of the samples.
    solver : "auto" or a solver, default="auto"
        "auto" takes Newton's method for smooth losses and dual ascent for losses with kinks.
    tol : float, default=1e-6
        The relative duality gap at which "auto" stops.
    centres, random_state, device :
        As in `KernelRegressor`.

    Attributes
    ----------
    classes_ : array
        The labels, sorted; a class without weight is none.
    function_ : RKHSFunction
        f, with one output for each class or pair where there are more than two classes.
    solution_ : Solution
        How the solver ended, with the true duality gap.
    loss_, kernel_, dual_coef_, intercept_, X_fit_ :
        The loss and kernel objects, the coefficients, b, and the centres.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> X = np.linspace(-1.0, 1.0, 30)[:, None]
    >>> y = np.where(np.abs(X[:, 0]) < 0.5, "in", "out")
    >>> model = KernelClassifier("hinge", 1e-3, kernel=Gaussian(0.5)).fit(X, y)
    >>> model.score(X, y)
    1.0
    """

    def __init__(
        self,
        loss: Any = "log_loss",
        regularization: Any = 0.01,
        *,
        kernel: Any = "rbf",
        gamma: Any = None,
        degree: Any = 3,
        coef0: Any = 1,
        kernel_params: Any = None,
        fit_intercept: Any = True,
        multi_class: Any = "ovr",
        class_weight: Any = None,
        solver: Any = "auto",
        tol: Any = 1e-6,
        centres: Any = None,
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        super().__init__(
            kernel,
            gamma,
            degree,
            coef0,
            kernel_params,
            fit_intercept,
            solver,
            tol,
            centres,
            random_state,
            device,
        )
        self.loss = loss
        self.regularization = regularization
        self.multi_class = multi_class
        self.class_weight = class_weight

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit f to labels y, of any kind."""
        X, y, weights = self._checked_classification_data(X, y, sample_weight)
        loss, ridge = as_loss(self.loss, FOR_CLASSES), checked_regularization(self.regularization)
        if self.multi_class not in ("ovr", "ovo"):
            raise ValueError(f"multi_class must be 'ovr' or 'ovo'; got {self.multi_class!r}.")
        labels, weights = self._encoded(y, weights)
        found = self._setting(X, loss)

        def fitted(alpha: Any, b: Any) -> dict[str, Any]:
            return {**self._fitted_on(found, X, alpha, b), "loss_": loss}

        if self.multi_class == "ovo" and len(self.classes_) > 2 and not loss.is_multiclass:
            pairs = list(combinations(range(len(self.classes_)), 2))
            task = self._begin(X, y, weights, found, len(pairs))
            solution = self._pairs(pairs, found, labels, loss, ridge, weights, task)
        else:
            task = self._begin(X, y, weights, found)
            targets = self._targets(loss, labels)
            solution = self._solve(found, targets, loss, ridge, weights, task, fitted)
        self._keep(solution, fitted(solution.coefficients, solution.intercept))
        task.end(lambda: fitted(solution.coefficients, solution.intercept))
        return self

    def _targets(self, loss: Loss, labels: np.ndarray) -> np.ndarray:
        """Rows of 0 and 1 for a multinomial loss, ±1 otherwise: one column for each class."""
        rows = np.asarray(one_hot(labels.astype(np.float64), len(self.classes_)))
        if loss.is_multiclass:
            return rows
        return 2.0 * rows - 1.0 if len(self.classes_) > 2 else 2.0 * labels - 1.0

    def _pairs(
        self,
        pairs: list[tuple[int, int]],
        found: Setting,
        labels: np.ndarray,
        loss: Loss,
        ridge: float,
        weights: Any,
        task: FitTask,
    ) -> Solution:
        """One problem for each pair of classes, on the samples of both; 0 elsewhere."""
        parts = []
        for first, second in pairs:
            pair = task.part("pair")
            rows = np.flatnonzero((labels == first) | (labels == second))
            y = np.where(labels[rows] == first, 1.0, -1.0)
            own = None if weights is None else weights[rows]
            part = self._solve(found, y, loss, ridge, own, pair, rows=rows)
            parts.append(_spread(part, rows, len(labels)) if found.on_all else part)
            pair.end()
        return Solution.stacked(parts)

    def _scores(self, X: Any) -> np.ndarray:
        """One-vs-one votes are turned into a column for each class, as scikit-learn does."""
        values = self._function_values(X)
        count = len(self.classes_)
        if self.multi_class == "ovr" or count == 2 or self.loss_.is_multiclass:
            return values
        own = on_host(values)
        return beside(_ovr_decision_function(own < 0, -own, count), values)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes; one-vs-rest ones are divided by their sum."""
        values = self._function_values(X)
        if isinstance(self.loss_, Multinomial):
            return self.loss_.probability(values)
        return _logistic_probabilities(values)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Their logarithms."""
        with np.errstate(divide="ignore"):
            found = self.predict_proba(X)
            return namespace(found).log(found)


def _spread(part: Solution, rows: np.ndarray, count: int) -> Solution:
    """A solution on some rows as one on all of them, 0 elsewhere."""
    own = part.coefficients
    alpha = namespace(own).zeros(count, dtype=own.dtype, device=own.device)
    alpha[beside(rows, own)] = own
    return replace(part, coefficients=alpha)


def _logistic_probabilities(values: Array) -> Array:
    single, xp = Logistic(), namespace(values)
    if values.ndim == 1:
        return xp.stack([single.probability(-values), single.probability(values)], axis=1)
    each = single.probability(values)
    total = xp.sum(each, axis=1, keepdims=True)
    each = xp.where(total > 0, each, 1.0)
    return each / xp.sum(each, axis=1, keepdims=True)


class KernelLogisticRegression(_Classifier):
    """Logistic regression with a kernel: min C Σ_i w_i ℓ(y_i, f(x_i) + b) + ½‖f‖².

    Two classes have the logistic loss, more the multinomial one, so that the scores are logarithms
    of probabilities up to a constant. C means what it means in scikit-learn's `LogisticRegression`,
    which a linear kernel gives; mercer's λ is 1/(C Σw). Without an intercept and with C = 1, two
    classes have the posterior mode of `GaussianProcessClassifier`.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the data, > 0.
    kernel : Kernel, str or callable, default="rbf"
        As in `KernelRidge`.
    gamma, degree, coef0, kernel_params :
        Parameters of named and callable kernels, as in scikit-learn.
    fit_intercept : bool, default=True
        Whether to add an unpenalised constant b.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, which multiply those of the samples.
    solver : "auto" or a solver, default="auto"
        "auto" is `Newton(tol)`.
    tol : float, default=1e-6
        The relative duality gap at which "auto" stops.
    centres, random_state, device :
        As in `KernelRegressor`.

    Attributes
    ----------
    classes_, function_, solution_, kernel_, dual_coef_, intercept_, X_fit_ :
        As in `KernelClassifier`.

    References
    ----------
    J. Zhu, T. Hastie, Kernel logistic regression and the import vector machine, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> ours = KernelLogisticRegression(kernel="linear", tol=1e-12).fit(X, y)
    >>> theirs = LogisticRegression(tol=1e-8).fit(X, y)
    >>> bool(np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6))
    True
    """

    def __init__(
        self,
        C: Any = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = None,
        degree: Any = 3,
        coef0: Any = 1,
        kernel_params: Any = None,
        fit_intercept: Any = True,
        class_weight: Any = None,
        solver: Any = "auto",
        tol: Any = 1e-6,
        centres: Any = None,
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        super().__init__(
            kernel,
            gamma,
            degree,
            coef0,
            kernel_params,
            fit_intercept,
            solver,
            tol,
            centres,
            random_state,
            device,
        )
        self.C = C
        self.class_weight = class_weight

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit f to labels y, of any kind."""
        X, y, weights = self._checked_classification_data(X, y, sample_weight)
        strength = checked_regularization(self.C, "C")
        if strength == 0:
            raise ValueError("C must be positive; got 0.")
        labels, weights = self._encoded(y, weights)
        total = float(len(y)) if weights is None else float(weights.sum())
        two = len(self.classes_) == 2
        targets = 2.0 * labels - 1.0 if two else labels.astype(np.float64)
        loss: Loss = Logistic() if two else Multinomial()
        found, ridge = self._setting(X, loss), 1.0 / (strength * total)

        def fitted(alpha: Any, b: Any) -> dict[str, Any]:
            return self._fitted_on(found, X, alpha, b)

        task = self._begin(X, y, weights, found)
        solution = self._solve(found, targets, loss, ridge, weights, task, fitted)
        self._keep(solution, fitted(solution.coefficients, solution.intercept))
        task.end(lambda: fitted(solution.coefficients, solution.intercept))
        return self

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, for every row of X."""
        values = self._function_values(X)
        if values.ndim == 1:
            return _logistic_probabilities(values)
        return Multinomial().probability(values)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Their logarithms, with all digits where they are small."""
        values = self._function_values(X)
        xp = namespace(values)
        if values.ndim == 1:
            values = xp.stack([xp.zeros_like(values), values], axis=1)
        columns = [values[:, k : k + 1] for k in range(values.shape[1])]
        return values - reduce(xp.logaddexp, columns)
