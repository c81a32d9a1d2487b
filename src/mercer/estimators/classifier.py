"""Classification with any loss, and kernel logistic regression with its probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import reduce
from itertools import combinations
from typing import Any, Self

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _ovr_decision_function

from mercer.arrays import Array, namespace, zeros
from mercer.estimators.fitting import Formulation, keep
from mercer.estimators.inputs import admit_labels, function_values, hosted, labels_at, like
from mercer.estimators.losses import (
    FOR_CLASSES,
    LossEstimator,
    as_loss,
    checked_regularization,
    regularization_of,
    relative_ridge,
)
from mercer.estimators.losses import TUNING as LOSSES
from mercer.estimators.progress import FitTask, with_callbacks
from mercer.features.bases import BaseEstimator, ClassifierMixin
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


def encoded(self: Any, y: np.ndarray, weights: np.ndarray | None) -> tuple[Any, np.ndarray, Any]:
    """The classes, labels as their numbers, and weights times those of the classes."""
    classes = np.unique(y if weights is None else y[weights > 0])
    if len(classes) < 2:
        raise ValueError(
            f"{type(self).__name__} needs samples of at least two classes with a weight > 0; "
            f"the data contains only one class, {classes[0]!r}."
        )
    labels = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    if self.class_weight is not None:
        totals = np.bincount(labels, weights, minlength=len(classes))
        of_class = compute_class_weight(
            self.class_weight, classes=classes, y=classes, sample_weight=totals
        )
        own = np.take(of_class, labels)
        weights = own if weights is None else weights * own
    return classes, labels, weights


def decision_function(self: Any, X: Any) -> Any:
    """Scores: positive for the second of two classes, one column for each of several."""
    scores = self._scores(X) if hasattr(self, "_scores") else function_values(self, X)
    if len(self.classes_) > 2 or scores.ndim == 1:
        return scores
    return scores[:, 1] - scores[:, 0]


def predict(self: Any, X: Any) -> Any:
    """The class with the best score, for every row of X; a tensor where X is one.

    Labels that are no numbers are an array of NumPy all the same.
    """
    scores = self.decision_function(X)
    best = 1 * (scores > 0) if scores.ndim == 1 else scores.argmax(axis=1)
    return labels_at(self.classes_, best)


@dataclass(eq=False, repr=False)
class _Classifier(LossEstimator):
    """A fit of one problem for all classes, or of several."""

    _: KW_ONLY
    class_weight: dict[Any, float] | str | None = None
    classes_: np.ndarray = field(init=False)

    decision_function, predict = decision_function, predict

    def _fit(
        self,
        X: Any,
        y: np.ndarray,
        labels: np.ndarray,
        weights: Any,
        classes: np.ndarray,
        loss: Loss,
        parts: int | None,
        solve: Callable[..., Solution],
    ) -> Self:
        """Keep what `solve(posed, task, fitted)` finds, a problem or `parts` of them."""
        posed = self._for_classes(X, loss, labels, weights, len(classes))
        more = {"classes_": classes, "choice_": posed.choice}

        def fitted(alpha: Any, b: Any) -> dict[str, Any]:
            return {**posed.attributes(X, alpha, b), "loss_": loss, **more}

        steps = posed.solver if parts is None else parts
        task = FitTask.root(self, X, y, weights, steps)
        solution = solve(posed, task, fitted)
        attributes = fitted(solution.coefficients, solution.intercept)
        keep(self, {**attributes, "solution_": solution}, solution.status)
        task.end(lambda: attributes)
        return self

    def _loss(self, classes: int) -> Loss:
        raise NotImplementedError

    def _ridge(self, loss: Loss, labels: np.ndarray, weights: Any) -> float:
        """λ for these samples."""
        raise NotImplementedError

    def _is_in_pairs(self, loss: Loss, classes: int) -> bool:
        """Whether each pair of classes is a problem of its own."""
        return False

    def _posed(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        X, y, weights = admit_labels(self, X, y, sample_weight)
        classes, labels, weights = encoded(self, y, weights)
        loss = self._loss(len(classes))
        return self._for_classes(X, loss, labels, weights, len(classes)), X

    def _for_classes(
        self, X: Any, loss: Loss, labels: np.ndarray, weights: Any, classes: int
    ) -> Formulation:
        """Where f is sought, for all classes together or for each pair of them."""
        ridge = relative_ridge(self._ridge(loss, labels, weights), loss, labels, weights)
        if self._is_in_pairs(loss, classes):
            sizes = np.bincount(labels, minlength=classes)
            pairs = np.array([sizes[i] + sizes[j] for i, j in combinations(range(classes), 2)])
            work, part = float(((pairs / pairs.max()) ** 2).sum()), float(pairs.max() / len(labels))
            return self._formulation(X, loss, weights, ridge=ridge, problems=work, part=part)
        return self._formulation(X, loss, weights, 1 if classes == 2 else classes, ridge=ridge)


@dataclass(eq=False, repr=False)
class KernelClassifier(_Classifier, ClassifierMixin, BaseEstimator):
    """Classification with any loss: min (1/Σw) Σ_i w_i ℓ(y_i, f(x_i) + b) + (λ/2)‖f‖².

    The hinge loss is a support vector machine with C = 1/(nλ), the logistic loss gives
    probabilities, the square loss is least-squares classification. A loss of two classes is
    extended to several by one-vs-rest or one-vs-one; `multinomial` takes them all at once.

    Parameters
    ----------
    loss : Loss or str, default="log_loss"
        A loss of `mercer.losses`, or "log_loss", "multinomial", "hinge", "squared_hinge",
        "squared_error".
    regularization : float or None, default=None
        λ; None for 1/(30Σw), where Σw is the total weight of the samples: that is C = 30.
    kernel : Kernel, str or callable, default="rbf"
        As in `KernelRidge`.
    gamma, degree, coef0, kernel_params :
        As in `KernelRegressor`: the lengthscale of "rbf" is the median distance of points.
    fit_intercept : bool, default=True
        Whether to add an unpenalised constant b.
    multi_class : "ovr" or "ovo", default="ovr"
        How a loss for two classes is extended to several: one-vs-rest, each class against all
        others, or one-vs-one, a problem for each pair of classes on its own samples.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, which multiply those of the samples.
    solver : "auto" or a solver, default="auto"
        "auto" takes Newton's method for smooth losses and dual ascent for losses with kinks.
    tol : float, default=1e-6
        The relative duality gap at which "auto" stops.
    centres, random_state, device, time_limit, checkpoint :
    early_stopping, validation_fraction, n_iter_no_change :
        As in `KernelRegressor`.

    Attributes
    ----------
    classes_ : array
        The labels, sorted; classes whose samples all have zero weight are left out.
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

    loss: Loss | str = "log_loss"
    regularization: float | None = None
    _: KW_ONLY
    multi_class: str = "ovr"

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit f to labels y, of any kind."""
        X, y, weights = admit_labels(self, X, y, sample_weight)
        loss = as_loss(self.loss, FOR_CLASSES)
        if self.multi_class not in ("ovr", "ovo"):
            raise ValueError(f"multi_class must be 'ovr' or 'ovo'; got {self.multi_class!r}.")
        classes, labels, weights = encoded(self, y, weights)
        nearest = isinstance(self.solver, str)

        def together(posed: Formulation, task: FitTask, fitted: Any) -> Solution:
            targets = class_targets(loss, labels, len(classes))
            ridge = self._ridge(loss, labels, weights)
            problem = posed.problem(targets, loss, ridge, weights, bool(self.fit_intercept))
            return posed.solve(problem, task, fitted, nearest)

        def in_pairs(posed: Formulation, task: FitTask, fitted: Any) -> Solution:
            parts: list[Solution] = []
            for first, second in pairs:
                part = task.part("pair")
                rows = np.flatnonzero((labels == first) | (labels == second))
                sides = np.where(labels[rows] == first, 1.0, -1.0)
                own = None if weights is None else weights[rows]
                ridge = self._ridge(loss, sides, own)
                problem = posed.problem(sides, loss, ridge, own, bool(self.fit_intercept), rows)
                left = len(pairs) - len(parts)
                solution = posed.solve(problem, part, nearest=nearest, left=left)
                parts.append(_spread(solution, rows, len(y)) if posed.on_all_points else solution)
                part.end()
            return Solution.stacked(parts)

        pairs = list(combinations(range(len(classes)), 2))
        if self._is_in_pairs(loss, len(classes)):
            return self._fit(X, y, labels, weights, classes, loss, len(pairs), in_pairs)
        return self._fit(X, y, labels, weights, classes, loss, None, together)

    def _loss(self, classes: int) -> Loss:
        return as_loss(self.loss, FOR_CLASSES)

    def _ridge(self, loss: Loss, labels: np.ndarray, weights: Any) -> float:
        return regularization_of(self.regularization, loss, labels, weights)

    def _is_in_pairs(self, loss: Loss, classes: int) -> bool:
        return self.multi_class == "ovo" and classes > 2 and not loss.is_multiclass

    def _scores(self, X: Any) -> Any:
        """One-vs-one votes are turned into a column for each class, as scikit-learn does."""
        values = function_values(self, X)
        count = len(self.classes_)
        if self.multi_class == "ovr" or count == 2 or self.loss_.is_multiclass:
            return values
        (own,) = hosted(values)
        return like(_ovr_decision_function(own < 0, -own, count), values)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes; one-vs-rest ones are divided by their sum."""
        values = function_values(self, X)
        if isinstance(self.loss_, Multinomial):
            return self.loss_.probability(values)
        return _logistic_probabilities(values)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Array:
        """Their logarithms."""
        with np.errstate(divide="ignore"):
            probabilities = self.predict_proba(X)
            return namespace(probabilities).log(probabilities)


def class_targets(loss: Loss, labels: np.ndarray, classes: int) -> np.ndarray:
    """Rows of 0 and 1 for a multinomial loss, ±1 otherwise: one column for each class."""
    if loss.is_multiclass:
        return np.asarray(one_hot(labels.astype(np.float64), classes))
    return signed_targets(labels, classes)


def signed_targets(labels: np.ndarray, classes: int) -> np.ndarray:
    """±1: one column for each class, or a single one for two classes."""
    if classes == 2:
        return 2.0 * labels - 1.0
    return 2.0 * np.asarray(one_hot(labels.astype(np.float64), classes)) - 1.0


def _spread(part: Solution, rows: np.ndarray, count: int) -> Solution:
    """A solution on some rows as one on all of them, 0 elsewhere."""
    own = part.coefficients
    alpha = zeros(count, own)
    alpha[like(rows, own)] = own
    return replace(part, coefficients=alpha)


def _logistic_probabilities(values: Array) -> Array:
    single, xp = Logistic(), namespace(values)
    if values.ndim == 1:
        return xp.stack([single.probability(-values), single.probability(values)], axis=1)
    each = single.probability(values)
    total = xp.sum(each, axis=1, keepdims=True)
    each = xp.where(total > 0, each, 1.0)
    return each / xp.sum(each, axis=1, keepdims=True)


@dataclass(eq=False, repr=False)
class KernelLogisticRegression(_Classifier, ClassifierMixin, BaseEstimator):
    """Logistic regression with a kernel: min C Σ_i w_i ℓ(y_i, f(x_i) + b) + ½‖f‖².

    Two classes have the logistic loss, more the multinomial one, so that the scores are logarithms
    of probabilities up to a constant. C means what it means in scikit-learn's `LogisticRegression`,
    which a linear kernel gives; mercer's λ is 1/(C Σw). Without an intercept and with C = 1, two
    classes have the posterior mode of `GaussianProcessClassifier`.

    Parameters
    ----------
    C : float, default=30.0
        Weight of the data, > 0. The default suits the lengthscale of the default kernel, which is
        twice that of `SVC`.
    kernel : Kernel, str or callable, default="rbf"
        As in `KernelRidge`.
    gamma, degree, coef0, kernel_params :
        As in `KernelRegressor`: the lengthscale of "rbf" is the median distance of points.
    fit_intercept : bool, default=True
        Whether to add an unpenalised constant b.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, which multiply those of the samples.
    solver : "auto" or a solver, default="auto"
        "auto" is `Newton(tol)`; on centres where that would take long, as in `KernelRegressor`.
    tol : float, default=1e-6
        The relative duality gap at which "auto" stops.
    centres, random_state, device, time_limit, checkpoint :
    early_stopping, validation_fraction, n_iter_no_change :
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
    >>> ours = KernelLogisticRegression(1.0, kernel="linear", tol=1e-12).fit(X, y)
    >>> theirs = LogisticRegression(tol=1e-8).fit(X, y)
    >>> bool(np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6))
    True
    """

    C: float = LOSSES.C

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit f to labels y, of any kind."""
        X, y, weights = admit_labels(self, X, y, sample_weight)
        if checked_regularization(self.C, "C") == 0:
            raise ValueError("C must be positive; got 0.")
        classes, labels, weights = encoded(self, y, weights)
        two, loss = len(classes) == 2, self._loss(len(classes))
        targets = 2.0 * labels - 1.0 if two else labels.astype(np.float64)

        def solve(posed: Formulation, task: FitTask, fitted: Any) -> Solution:
            ridge = self._ridge(loss, labels, weights)
            problem = posed.problem(targets, loss, ridge, weights, bool(self.fit_intercept))
            return posed.solve(problem, task, fitted, isinstance(self.solver, str))

        return self._fit(X, y, labels, weights, classes, loss, None, solve)

    def _loss(self, classes: int) -> Loss:
        return Logistic() if classes == 2 else Multinomial()

    def _ridge(self, loss: Loss, labels: np.ndarray, weights: Any) -> float:
        total = float(len(labels)) if weights is None else float(weights.sum())
        return 1.0 / (float(self.C) * total)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, for every row of X."""
        values = function_values(self, X)
        if values.ndim == 1:
            return _logistic_probabilities(values)
        return Multinomial().probability(values)

    def predict_log_proba(self, X: Any) -> Array:
        """Their logarithms, with all digits where they are small."""
        values = function_values(self, X)
        xp = namespace(values)
        if values.ndim == 1:
            values = xp.stack([xp.zeros_like(values), values], axis=1)
        columns = [values[:, k : k + 1] for k in range(values.shape[1])]
        return values - reduce(xp.logaddexp, columns)
