"""Online kernel machines: learn one sample at a time, on a budget."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer.checks import check_count, check_object, check_weights
from mercer.estimators.early_stopping import stopping_rule
from mercer.estimators.inputs import forget
from mercer.features.bases import BaseEstimator
from mercer.features.inputs import KernelInput
from mercer.functions import FeatureFunction, RKHSFunction
from mercer.kernels.base import Kernel
from mercer.kernels.measures import Seed
from mercer.losses import Hinge, Logistic, Loss, Multinomial
from mercer.online.algorithm import Algorithm
from mercer.online.budgets import Budget
from mercer.online.regret import certified
from mercer.online.stream import Expansion, Recorded
from mercer.online.targets import Targets, announced
from mercer.points import DensePoints, PointSet, VectorPoints, check_finite
from mercer.solvers.schedules import Average
from mercer.theory.certificate import Certificate


class _Learned(KernelInput):
    """Attributes that learning sets, with their types; in a dataclass they would be parameters."""

    _takes_clusters = True
    stream_: Any
    targets_: Targets
    kernel_: Kernel
    classes_: np.ndarray


@dataclass(eq=False, repr=False, kw_only=True)
class OnlineMachine(_Learned, BaseEstimator):
    """The base class of online machines.

    Subclasses are dataclasses of their parameters, of which `_algorithm` is made. They say what is
    otherwise chosen, or which stream `_begin` makes; and their `_loss`, where it is not the
    parameter `loss`.

    >>> from mercer.kernels import Gaussian
    >>> from mercer.online import OnlineKernelMachine
    >>> machine = OnlineKernelMachine(Gaussian())
    >>> isinstance(machine, OnlineMachine)
    True
    >>> machine.partial_fit([[0.0], [1.0]], [-1, 1], classes=[-1, 1]).n_samples_seen_
    2
    """

    kernel: Any = field(default="rbf", kw_only=False)
    passes: int = 5
    gamma: Any = None
    degree: Any = 3
    coef0: Any = 1
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5

    def _algorithm(self, loss: Loss, **chosen: Any) -> Algorithm:
        """The objective and the steps: as chosen, else as those parameters say that there are."""
        names = (field.name for field in fields(Algorithm) if field.name != "loss")
        given = {name: getattr(self, name) for name in names if hasattr(self, name)} | chosen
        if given.get("step", True) is None:
            del given["step"]
        return Algorithm(loss, **given)

    def _loss(self, classes: int = 2) -> Loss:
        loss = getattr(self, "loss", None)
        return Hinge() if loss is None else loss

    def _begin(self, kernel: Kernel, points: PointSet, targets: Targets) -> Any:
        """The stream that learns these points and those that follow."""
        return Expansion(kernel, self._algorithm(targets.loss), points, targets.outputs)

    # ---- learning -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget everything, and learn the rows of X in their order, `passes` times.

        With `early_stopping` some rows are held out, and what is kept is the machine after the pass
        at which their mean loss was least.
        """
        self._forget()
        check_count(self, "passes", self.passes)
        return self._start(X, y, None, sample_weight, fitting=True)

    def _forget(self) -> None:
        """Drop what was learned; fits on a cluster, which learn block by block, do so too."""
        forget(self)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn the rows of X in their order.

        The first call of a classifier announces all `classes`. A block with a bad sample is
        refused as a whole, and leaves the model as it was.
        """
        if not hasattr(self, "stream_"):
            return self._start(X, y, classes, sample_weight)
        self.targets_.check_classes(classes)
        if self._is_known(X) and type(self.stream_.points) is DensePoints:
            check_finite(X)  # rows of plain numbers need no other check
            points = self._dense_points(X)
        else:
            points = self.kernel_.points(self._checked(X, reset=False))
        self.stream_.learn(*_samples(points, self.targets_.rows(y), sample_weight))
        return self

    def learn_one(self, x: Any, y: Any, classes: Any = None, sample_weight: float = 1.0) -> Self:
        """Learn one sample: a vector, a dictionary of numbers, or a point of the kernel."""
        if not hasattr(self, "stream_"):
            if not isinstance(x, dict):
                X = x[None] if isinstance(x, np.ndarray) else [x]  # an array keeps its precision
                return self._start(X, [y], classes, [sample_weight])
            self._start([[float(value) for value in x.values()]], [y], classes, [sample_weight])
            self.entry_names_ = tuple(x)
            return self
        self.targets_.check_classes(classes)
        weights = _checked_weights([sample_weight], 1)
        if weights[0] > 0:
            self.stream_.learn(self._one_point(x), self.targets_.row(y), weights)
        return self

    def _start(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, fitting: bool = False
    ) -> Self:
        """The first samples decide about the kernel, the classes and the number of outputs."""
        try:
            self._refuse_kernel()
            X = self._checked(X, reset=True)
            targets = self._read_targets(y, classes, fitting)
            kernel = self._resolved_kernel(X)
            samples = _samples(kernel.points(X), targets.rows(y), sample_weight)
            stream: Any = self._begin(kernel, samples[0], targets)
            fitted: dict[str, Any] = {"kernel_": kernel, "targets_": targets}
            if fitting and self.early_stopping:
                stream, risks = self._best_pass(stream, targets, samples)
                fitted["validation_scores_"] = -np.array(risks)
            else:
                stream.passes = self.passes if fitting else 1
                for _ in range(stream.passes):
                    stream.learn(*samples)
            if targets.classes is not None:
                fitted["classes_"] = targets.classes
            self.__dict__.update(fitted, stream_=stream)
        except BaseException:  # an interrupt, too, leaves nothing half done
            self._forget()
            raise
        return self

    def _best_pass(self, stream: Any, targets: Targets, samples: Any) -> tuple[Any, list[float]]:
        """The stream after the pass at which held-out rows have the least loss; all losses."""
        rule, (points, rows, weights) = stopping_rule(self), samples
        codes = None if targets.classes is None else rows @ np.arange(1.0, rows.shape[1] + 1.0)
        hidden = rule.hidden(weights, codes)
        new, inside = np.flatnonzero(hidden), np.flatnonzero(~hidden)
        learned, unseen = (points.take(inside), rows[inside], weights[inside]), points.take(new)
        best, risks = stream, list[float]()
        for _ in range(self.passes):
            stream.learn(*learned)
            values = (stream.function(False)(unseen) - stream.offset).reshape(len(new), -1)
            risks.append(float(targets.loss.risk(rows[new], values, weights[new])))
            if risks[-1] <= min(risks):
                best = deepcopy(stream)
                best.passes = len(risks)
            elif len(risks) - 1 - int(np.argmin(risks)) >= rule.patience:
                break
        return best, risks

    # ---- what is learned from -------------------------------------------------------------------

    def _read_targets(self, y: Any, classes: Any, fitting: bool) -> Targets:
        if not self._is_classifier():
            return Targets.of_numbers(self._loss(), y)
        if classes is None and not fitting:
            raise ValueError(
                "the first samples of a classifier announce all labels there will be: write "
                "partial_fit(X, y, classes=[-1, 1]), or learn_one(x, y, classes=[-1, 1])."
            )
        values = announced(y, classes)
        return Targets.of_labels(self._loss(len(values)), values)

    def _is_classifier(self) -> bool:
        loss = self._loss()
        if not isinstance(loss, Loss):
            raise ValueError(f"loss must be a loss of mercer.losses; got {loss!r}.")
        return loss.is_classification

    def _refuse_kernel(self) -> None:
        """Refuse kernels that need all data at once, and classes for objects."""
        for name in ("loss", "step", "budget", "averaging"):
            check_object(self, name, getattr(self, name, None))
        if self._is_precomputed():
            raise ValueError(
                "a stream has no matrix in advance: pass a kernel, not 'precomputed'. Points known "
                "by number take Precomputed(K) and their numbers."
            )
        if self.gamma == "scale":
            raise ValueError(
                "gamma='scale' is the variance of all data, which a stream does not have: write a "
                "number, or None for 1/n_features."
            )

    def _one_point(self, x: Any) -> PointSet:
        """One point, as the kernel takes it."""
        if not isinstance(self.stream_.points, VectorPoints):
            return self.kernel_.points([x])
        if isinstance(x, dict):
            names = getattr(self, "entry_names_", getattr(self, "feature_names_in_", tuple(x)))
            if len(x) != len(names) or any(name not in x for name in names):
                raise ValueError(f"a point must have the entries {list(names)}; got {list(x)}.")
            x = np.array([float(x[name]) for name in names])
        if hasattr(x, "tocsr"):
            return self.kernel_.points(x.tocsr())
        try:
            row = np.asarray(x)
            row = row if row.dtype in (np.float32, np.float64) else row.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"a point must be a row of numbers; {error}.") from None
        if row.ndim != 1 or len(row) != self.n_features_in_:
            raise ValueError(
                f"a point must be a vector of {self.n_features_in_} numbers, as before; got shape "
                f"{row.shape}."
            )
        check_finite(row)
        return self._dense_points(np.array(row[None, :]))

    def _dense_points(self, rows: np.ndarray) -> PointSet:
        points = DensePoints(rows, getattr(self.stream_.points, "names", None))
        self.kernel_.check_points(points)
        return points

    # ---- predicting -----------------------------------------------------------------------------

    @property
    def function_(self) -> RKHSFunction | FeatureFunction:
        """The function learned so far: an element of the kernel's space, or of that of features."""
        return self._of_stream("function_").function(self.targets_.flat)

    @available_if(lambda self: self._is_classifier())
    def decision_function(self, X: Any) -> np.ndarray:
        """f(x) for every row of X: one score, or one for each class."""
        return self._scores(self._points_to_predict(X))

    def _points_to_predict(self, X: Any) -> PointSet:
        check_is_fitted(self)
        return self.kernel_.points(self._checked(X, reset=False))

    def _scores(self, points: PointSet) -> np.ndarray:
        values = self.function_(points) - self.stream_.offset
        if values.ndim == 2 and self._is_classifier() and len(self.classes_) == 2:
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
        value = self._decided(self._scores(self._one_point(x)))[0]
        return value.item() if np.ndim(value) == 0 and hasattr(value, "item") else value

    @available_if(lambda self: isinstance(self._loss(), (Logistic, Multinomial)))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, for the logistic and the multinomial loss."""
        return self._chances(self._points_to_predict(X))

    @available_if(lambda self: isinstance(self._loss(), (Logistic, Multinomial)))
    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """The probability of each class at one point; nothing before the first sample."""
        if not hasattr(self, "stream_"):
            return {}
        chances = self._chances(self._one_point(x))[0]
        return dict(zip(self.classes_.tolist(), chances.tolist(), strict=True))

    def _chances(self, points: PointSet) -> np.ndarray:
        loss: Any = self._loss()
        chances = loss.probability(self.function_(points))
        if chances.ndim == 1:
            return np.stack([1.0 - chances, chances], axis=1)
        return chances if loss.is_multiclass else chances / chances.sum(axis=1, keepdims=True)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of a classifier, R² of a regression."""
        measure = accuracy_score if self._is_classifier() else r2_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))

    # ---- what happened so far -------------------------------------------------------------------

    @property
    def n_samples_seen_(self) -> int:
        """The number of samples that were learned."""
        return self._of_stream("n_samples_seen_").rounds

    @property
    def mistakes_(self) -> int:
        """The number of labels that were predicted wrongly before they were learned."""
        return self._of_stream("mistakes_").mistakes

    @property
    def cumulative_loss_(self) -> float:
        """Σ_t w_t ℓ(y_t, f_{t−1}(x_t)), the loss of all predictions made before learning."""
        return self._of_stream("cumulative_loss_").cumulative_loss

    @property
    def recorded_(self) -> Recorded | None:
        """The rounds so far, if `record` was set."""
        return self._of_stream("recorded_").recorded

    def certificate(self, probability: float = 0.95, radius: float = 1.0) -> Certificate:
        """Bounds of the stream so far: its mistakes on new samples, and its regret.

        Parameters
        ----------
        probability : float, default=0.95
            With which the bound on the error rate holds.
        radius : float, default=1.0
            U: the regret is against the best f with ‖f‖ ≤ U. Its bound needs `record=True`.

        Returns
        -------
        Certificate
            Readable when printed; `certificate["norm"].value` is one number of it.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.online import OnlineKernelMachine
        >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
        >>> machine = OnlineKernelMachine(gamma=1.0)
        >>> bounds = machine.partial_fit(X, X[:, 0] > 0, classes=[False, True]).certificate()
        >>> machine.mistakes_ / 2000 < bounds["error rate"].value < 0.1
        True
        """
        check_is_fitted(self)
        return certified(self, probability, radius)

    def _of_stream(self, name: str) -> Any:
        if not hasattr(self, "stream_"):
            raise AttributeError(f"{name} is there after the first sample.")
        return self.stream_

    # ---- scikit-learn ---------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "stream_")

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


def _samples(
    points: PointSet, rows: np.ndarray, sample_weight: Any
) -> tuple[PointSet, np.ndarray, np.ndarray]:
    """Points, targets and weights of the samples that have one."""
    if len(rows) != len(points):
        raise ValueError(
            f"X and y must have one row for each sample; got {len(points)} and {len(rows)}."
        )
    weights = _checked_weights(sample_weight, len(rows))
    if (weights > 0).all():
        return points, rows, weights
    used = np.flatnonzero(weights)
    if not len(used):
        raise ValueError("sample_weight must not be all zero: there is nothing to learn.")
    return points.take(used), rows[used], weights[used]


def _checked_weights(sample_weight: Any, n: int) -> np.ndarray:
    """One finite nonnegative weight for each sample."""
    if sample_weight is None:
        return np.ones(n)
    weights = np.asarray(sample_weight, np.float64)
    weights = np.full(n, float(weights)) if weights.ndim == 0 else weights
    check_weights(weights, n, "sample_weight", all_zero=True)
    return weights


@dataclass(eq=False, repr=False, kw_only=True)
class OnlineKernelMachine(OnlineMachine):
    """f ← (1 − ηλ)f − η ℓ'(y, f(x)) k(x, ·) for one sample after another, on a budget.

    The step is the functional gradient of ℓ(y, f(x)) + (λ/2)‖f‖²: shrink, and add one bump.
    Shrinking costs one multiplication, a sample one row of kernel values. Several classes are
    learned one against the rest under a loss of the margin, together under `Multinomial`.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        A kernel of mercer, on vectors or other points, or what scikit-learn's users type.
    loss : Loss, default=None
        Any of `mercer.losses`, or your own; None for `Hinge()`.
    regularization : float, default=1e-4
        λ ≥ 0.
    step : schedule, default=None
        η_t: one of `mercer.online.schedules`, with ηλ ≤ 1; None for `InverseSqrt(1.0)`.
    budget : Budget or None, default=None
        A limit on the number of bumps: one of `mercer.online.budgets`. None keeps them all.
    averaging : Average or None, default=None
        Predict with the average of the iterates; None predicts with the last one.
    passes : int, default=5
        How often `fit` goes through its rows; `partial_fit` goes through them once.
    record : bool, default=False
        Whether to store all rounds, which `regret`, `RegretDisplay` and the bound of
        `certificate` need; memory then grows with the stream.
    gamma, degree, coef0 :
        Parameters of named kernels, as in scikit-learn.
    early_stopping : bool, default=False
        Whether `fit` holds rows out, and keeps the machine after the pass that predicts them best.
    validation_fraction : float, default=0.1
        The share of rows that is held out.
    n_iter_no_change : int, default=5
        Stop after this many passes without a better score.
    random_state : int, Generator or None, default=None
        For the budget `Random`, and for the rows that are held out.

    Attributes
    ----------
    function_ : RKHSFunction
        f, or the average.
    validation_scores_ : array
        With early stopping, minus the mean loss of the held-out rows after each pass;
        `mercer.plotting.HistoryDisplay` draws it.
    n_samples_seen_, cumulative_loss_, mistakes_ :
        Of the predictions that were made before learning.
    classes_, kernel_, n_features_in_ : as in scikit-learn.

    References
    ----------
    J. Kivinen, A. J. Smola, R. C. Williamson, Online learning with kernels, 2004.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> from mercer.online import schedules
    >>> m = OnlineKernelMachine(
    ...     Gaussian(), loss=Squared(), regularization=0.0, step=schedules.Constant(0.5)
    ... )
    >>> m.learn_one([0.0], 1.0).predict_one([0.0])  # half of the way from 0 to 1
    0.5
    """

    loss: Any = None
    regularization: float = 1e-4
    step: Any = None
    budget: Budget | None = None
    averaging: Average | None = None
    record: bool = False
    random_state: Seed = None
