"""What all online machines share."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer.estimators.base import KernelEstimator
from mercer.features.inputs import is_plain, length
from mercer.functions import RKHSFunction
from mercer.losses import Logistic, Loss, Multinomial
from mercer.online.inputs import checked_weights, encoded, one_point, real_targets, refuse_kernel
from mercer.online.rounds import Recorded, Settings
from mercer.online.stream import Stream
from mercer.points import DensePoints, PointSet, check_finite


class OnlineMachine(KernelEstimator, BaseEstimator):
    """What all online machines share: streams in, predictions out. Subclasses say `_settings`."""

    kernel: Any
    stream_: Any
    gamma: Any
    degree: Any
    coef0: Any
    passes: int

    def _settings(self, classes: int | None = None) -> Settings:
        """What to do, for so many classes where it matters."""
        raise NotImplementedError

    def _loss(self, classes: int | None = None) -> Any:
        raise NotImplementedError

    def _class_count(self, classes: int | None) -> int:
        return len(getattr(self, "classes_", ())) if classes is None else classes

    def _is_classifier(self) -> bool:
        loss = self._loss()
        if not isinstance(loss, Loss):
            raise ValueError(f"loss must be a loss of mercer.losses; got {loss!r}.")
        return loss.is_classification

    # ---- learning -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget everything, and learn the rows of X in their order, `passes` times."""
        self._forget()
        if isinstance(self.passes, bool) or not isinstance(self.passes, int) or self.passes < 1:
            raise ValueError(f"passes must be a whole number from 1; got {self.passes!r}.")
        for number in range(self.passes):
            self._partial_fit(X, y, None, sample_weight, announce=number == 0)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn the rows of X in their order.

        The first call of a classifier announces all `classes`. A block with a bad sample is
        refused as a whole, and leaves the model as it was.
        """
        return self._partial_fit(X, y, classes, sample_weight, announce=False)

    def learn_one(self, x: Any, y: Any, classes: Any = None, sample_weight: float = 1.0) -> Self:
        """Learn one sample: a vector, a dictionary of numbers, or a point of the kernel."""
        if not hasattr(self, "stream_"):
            return self._learn_first(x, y, classes, sample_weight)
        self._check_classes(classes)
        targets = self._one_target(y)
        weights = checked_weights([sample_weight], 1)
        if weights[0] > 0:
            self.stream_.learn(one_point(self, x), targets, weights)
        return self

    def _learn_first(self, x: Any, y: Any, classes: Any, weight: float) -> Self:
        if isinstance(x, dict):
            X: Any = [[float(value) for value in x.values()]]
        else:
            X = x[None] if isinstance(x, np.ndarray) else [x]  # an array keeps its precision
        self._partial_fit(X, [y], classes, [weight], announce=False)
        if isinstance(x, dict):
            self._names = tuple(x)
        return self

    def _partial_fit(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, announce: bool
    ) -> Self:
        first = not hasattr(self, "stream_")
        X = self._checked_points(X, first)
        y = _as_targets(y)
        announced = self._announced(y, classes, announce, first)
        targets = self._targets(y, announced)
        _check_rows(X, targets)
        weights = checked_weights(sample_weight, len(targets))
        if not first:
            _learn(self.stream_, self._later_points(X), targets, weights)
            return self
        kernel = self._stream_kernel(X)
        points = kernel.points(X)
        stream = self._new_stream(kernel, points, targets.shape[1], announced)
        _learn(stream, points, targets, weights)
        self.kernel_, self.stream_ = kernel, stream
        self._flat = targets.shape[1] == 1 and (announced is not None or y.ndim == 1)
        if announced is not None:
            self.classes_ = announced
        return self

    def _new_stream(self, kernel: Any, points: PointSet, outputs: int, classes: Any) -> Any:
        settings = self._settings(None if classes is None else len(classes))
        return Stream(kernel, settings, points, outputs)

    def _later_points(self, X: Any) -> PointSet:
        """Points of a machine that has begun; plain rows need no second look."""
        kernel, kept = self.stream_.kernel, self.stream_.points
        if not (is_plain(X) and type(kept) is DensePoints):
            return kernel.points(X)
        points = DensePoints(X, kept.names)
        kernel.check_points(points)
        return points

    def _checked_points(self, X: Any, first: bool) -> Any:
        if not first and self._is_known(X):
            check_finite(X)
            return X
        refuse_kernel(self)
        try:
            return self._checked(X, reset=first)
        except Exception:
            if first:
                self._forget()
            raise

    def _stream_kernel(self, X: Any) -> Any:
        return self._resolved_kernel(X)

    # ---- targets --------------------------------------------------------------------------------

    def _announced(self, y: Any, classes: Any, announce: bool, first: bool) -> Any:
        """The classes, as announced by the first call or found by `fit`."""
        if not self._is_classifier():
            return None
        if not first:
            self._check_classes(classes)
            return self.classes_
        return encoded.announced(y, classes, announce)

    def _check_classes(self, classes: Any) -> None:
        if classes is not None and self._is_classifier():
            encoded.check_same(classes, self.classes_)

    def _targets(self, y: Any, classes: Any = None) -> np.ndarray:
        """Rows of numbers: ±1 for each class (one column for two), one-hot, or the targets."""
        if not self._is_classifier():
            rows = real_targets(self._loss(), y)
            if hasattr(self, "stream_") and rows.shape[1] != self.stream_.outputs:
                raise ValueError(
                    f"targets must have {self.stream_.outputs} columns, as before; got "
                    f"{rows.shape[1]}."
                )
            return rows
        classes = self.classes_ if classes is None else classes
        return encoded.rows(y, classes, self._loss(len(classes)))

    def _one_target(self, y: Any) -> np.ndarray:
        """The row of one target; labels that were announced are found in a dictionary."""
        if not self._is_classifier():
            return self._targets(np.asarray([y]))
        known = self.__dict__.setdefault("_rows", {})
        if y not in known:
            known[y] = self._targets(np.array([y]))
        return known[y]

    # ---- predicting -----------------------------------------------------------------------------

    @property
    def function_(self) -> RKHSFunction:
        """The function learned so far, an element of the kernel's space."""
        if not hasattr(self, "stream_"):
            raise AttributeError("function_ is there after the first sample.")
        return self.stream_.function(self._flat)

    @available_if(lambda self: self._has_scores())
    def decision_function(self, X: Any) -> np.ndarray:
        """f(x) for every row of X: one score, or one for each class."""
        return self._scores(self._points_to_predict(X))

    def _has_scores(self) -> bool:
        return self._is_classifier()

    def _points_to_predict(self, X: Any) -> PointSet:
        check_is_fitted(self)
        return self.kernel_.points(self._checked(X, reset=False))

    def _values(self, points: PointSet) -> np.ndarray:
        return self.function_(points)

    def _scores(self, points: PointSet) -> np.ndarray:
        values = self._values(points) - self.stream_.offset
        if self._is_classifier() and len(self.classes_) == 2 and values.ndim == 2:
            return values[:, 1] - values[:, 0]
        return values

    def predict(self, X: Any) -> np.ndarray:
        """Labels of a classifier; f(x), or the mean it stands for, of a regression."""
        return self._decided(self._scores(self._points_to_predict(X)))

    def _decided(self, scores: np.ndarray) -> np.ndarray:
        if not self._is_classifier():
            mean = getattr(self._loss(), "mean", None)
            return scores if mean is None else mean(scores)
        if scores.ndim == 1:
            return self.classes_[(scores > 0).astype(int)]
        return self.classes_[np.argmax(scores, axis=1)]

    def predict_one(self, x: Any) -> Any:
        """The prediction at one point. Before the first sample: 0, or None for a classifier."""
        if not hasattr(self, "stream_"):
            return None if self._is_classifier() else 0.0
        value = self._decided(self._scores(one_point(self, x)))[0]
        return value.item() if np.ndim(value) == 0 and hasattr(value, "item") else value

    @available_if(lambda self: isinstance(self._loss(), (Logistic, Multinomial)))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, for the logistic and the multinomial loss."""
        points = self._points_to_predict(X)
        values = self._values(points)
        if isinstance(self._loss(), Multinomial):
            return self._loss().probability(values)
        chances = self._loss().probability(values)
        if chances.ndim == 1:
            return np.stack([1.0 - chances, chances], axis=1)
        return chances / chances.sum(axis=1, keepdims=True)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of a classifier, R² of a regression."""
        measure = accuracy_score if self._is_classifier() else r2_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))

    # ---- what happened so far -------------------------------------------------------------------

    @property
    def n_samples_seen_(self) -> int:
        """How many samples were learned."""
        return self._of_stream("n_samples_seen_").rounds

    @property
    def mistakes_(self) -> int:
        """How many labels the last f predicted wrongly before they were learned."""
        return self._of_stream("mistakes_").mistakes

    @property
    def cumulative_loss_(self) -> float:
        """Σ_t w_t ℓ(y_t, f_{t−1}(x_t)), the loss of all predictions made before learning."""
        return self._of_stream("cumulative_loss_").cumulative_loss

    @property
    def recorded_(self) -> Recorded | None:
        """The rounds so far, if `record` was set."""
        return self._of_stream("recorded_").recorded

    def _of_stream(self, name: str) -> Stream:
        if not hasattr(self, "stream_"):
            raise AttributeError(f"{name} is there after the first sample.")
        return self.stream_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "stream_")

    # ---- scikit-learn ---------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        classifier = self._is_classifier()
        tags.estimator_type = "classifier" if classifier else "regressor"
        tags.classifier_tags = ClassifierTags() if classifier else None
        tags.regressor_tags = None if classifier else RegressorTags()
        tags.target_tags.required = True
        tags.target_tags.multi_output = not classifier
        tags.target_tags.single_output = True
        return tags


def _check_rows(X: Any, targets: np.ndarray) -> None:
    if len(targets) != length(X):
        raise ValueError(
            f"X and y must have one row for each sample; got {length(X)} and {len(targets)}."
        )


def _learn(stream: Any, points: PointSet, targets: np.ndarray, weights: np.ndarray) -> None:
    """Learn the samples that weigh anything."""
    kept = weights > 0
    if not kept.any():
        raise ValueError("sample_weight must not be all zero: there is nothing to learn.")
    if not kept.all():
        points = points.take(np.flatnonzero(kept))
    stream.learn(points, targets[kept], weights[kept])


def _as_targets(y: Any) -> np.ndarray:
    if y is None:
        raise ValueError("learning requires y to be passed, but the target y is None.")
    return np.asarray(y)
