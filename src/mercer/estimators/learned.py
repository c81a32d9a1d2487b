"""Regression and classification with a kernel whose metric is learned from the targets."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import Array, as_numpy, to_precision
from mercer.checks import check_count, check_positive
from mercer.errors import ApproximationWarning, warn
from mercer.estimators import final_fit
from mercer.estimators.calibration import Calibration
from mercer.estimators.certified import certificate
from mercer.estimators.classifier import decision_function, encoded, predict, signed_targets
from mercer.estimators.final_fit import affordable, in_precision
from mercer.estimators.fitting import is_automatic
from mercer.estimators.inputs import admit_labels, admit_numbers, function_values, hosted
from mercer.estimators.progress import CallbackSupportMixin, FitTask, with_callbacks
from mercer.estimators.ridge import KernelRidge
from mercer.estimators.smaller import compress
from mercer.features.centres import AnyChoice
from mercer.features.inputs import KernelInput
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.kernels.inner_product import Linear
from mercer.kernels.measures import Seed
from mercer.learning import neighbourhoods
from mercer.learning.candidates import (
    CANDIDATES,
    FOR_CATEGORIES,
    SCALES,
    Candidate,
    TargetTransform,
    raced,
    worth_trying,
)
from mercer.learning.fits import Sample, linear_fit
from mercer.learning.local import fit_locally
from mercer.learning.metric import Form, category_blocks
from mercer.learning.rounds import GradientRounds, Round
from mercer.points import PointSet
from mercer.solvers import automatic
from mercer.solvers.problem import Solver


@dataclass(frozen=True)
class Tuning:
    """How the time of a fit is divided, and when a linear function is fitted first."""

    # The part of the time for learning; and where there are many rows, whose fit takes longer.
    learning: float = 0.6
    learning_of_many: float = 0.4

    cheap: float = 1.5  # kernels that take at most so many times as long as the quickest are always
    # compared
    nearly_linear: float = 0.05  # the part of the variance: where a linear function leaves less, it
    # is fitted first. A kernel with k(x, x) = 1 that has to follow it as well gets lengthscales for
    # it, and a ridge too large for the rest (household power with all columns, rows predicted from
    # their neighbours: an error of 0.026, and of 0.021 after a linear function)
    determined: float = 0.03  # of the targets' deviation: where unseen rows are missed by less,
    # columns may hold what is known with the target only (sums and parts of it, in `uci_bike`)
    leading: float = 0.95  # the part in the metric of the columns that are named then


TUNING = Tuning()


@dataclass(eq=False, repr=False)
class _Learned(CallbackSupportMixin, KernelInput):
    """How a metric is learned, and the ridge fit of all rows that follows."""

    _instead_of_tensors = ""
    _instead_of_texts = "make_pipeline(TableEncoder(), …) with TableEncoder of mercer.workflow"

    _: KW_ONLY
    kernel: Any = "auto"
    form: Any = "auto"
    rounds: int = 5
    rows: int = 4000
    held_out: float = 0.2
    time_limit: float | None = None
    solver: Solver | str = "auto"
    centres: int | AnyChoice | None = None
    local: bool | str = "auto"
    random_state: Seed = 0
    device: Any = None
    feature_importances_: np.ndarray = field(init=False)

    certificate, compress = certificate, compress

    def _candidates(self, blocks: Sequence[np.ndarray]) -> Sequence[Candidate]:
        """The kernels with the form of their metric that are compared; blocks are of categories."""
        if isinstance(self.kernel, str) and self.kernel == "auto":
            own: Sequence[Kernel] = FOR_CATEGORIES
            kernels: Sequence[Candidate] = CANDIDATES
        elif isinstance(self.kernel, Kernel):
            own, kernels = [self.kernel], [(self.kernel, "diagonal"), (self.kernel, "full")]
        else:
            raise ValueError(
                'kernel must be "auto" or a kernel of mercer.kernels, as Exponential(); got '
                f"{self.kernel!r}."
            )
        if isinstance(self.form, str) and self.form == "auto":
            groups: Form = [block.tolist() for block in blocks]
            return [*kernels, *[(kernel, groups) for kernel in own if groups]]
        return list({repr(kernel): (kernel, self.form) for kernel, _ in kernels}.values())

    def _is_dense(self, rows: int) -> bool:
        """Whether there are so many rows that neighbours tell more than a sample."""
        return rows >= neighbourhoods.TUNING.sparse * self.rows

    def _learning(self, X: Any) -> float:
        """The part of the time that learning may take."""
        return TUNING.learning_of_many if self._is_dense(X.shape[0]) else TUNING.learning

    def _in_time(self, candidates: Sequence[Candidate], X: Any) -> Sequence[Candidate]:
        """Those with which all rows can be fitted in the time that learning leaves.

        Where none can, those that take little longer than the quickest.
        """
        given = self.centres is not None or not is_automatic(self.solver)
        if given or self.time_limit is None or len(candidates) == 1:
            return candidates
        costs = [automatic.exact_seconds(kernel, kernel.points(X)) for kernel, _ in candidates]
        most = max(
            final_fit.TUNING.short,
            (1.0 - self._learning(X)) * self.time_limit,
            TUNING.cheap * min(costs),
        )
        return [one for one, cost in zip(candidates, costs, strict=True) if cost <= most]

    def _learn(
        self,
        X: Any,
        targets: Any,
        weights: Any,
        task: FitTask,
        begun: float,
        loss: Any = None,
        transforms: Sequence[str] = (),
    ) -> dict[str, Any]:
        """The learned kernel, and the attributes that tell how it was found."""
        if self.time_limit is not None:
            check_positive(self, "time_limit", self.time_limit)
        blocks = [] if hasattr(X, "tocsr") else category_blocks(X)  # sparse rows are refused
        candidates, limit = self._in_time(self._candidates(blocks), X), self.time_limit
        if limit is not None:
            limit = max(1e-3, self._learning(X) * limit - (time.perf_counter() - begun))

        def progress(number: int, one: Round) -> bool:
            return task.part("round").end()

        settings = GradientRounds(
            rounds=self.rounds,
            rows=self.rows,
            held_out=self.held_out,
            time_limit=limit,
            random_state=self.random_state,
            callback=progress,
        )
        learned, race = raced(candidates, settings, X, targets, weights, loss, transforms)
        return {
            "learned_": learned,
            "race_": race,
            "alpha_": learned.alpha,
            "feature_importances_": learned.importances,
            "category_blocks_": blocks,
        }

    def _ridge(
        self, X: Any, targets: Any, weights: Any, found: dict[str, Any], begun: float
    ) -> dict[str, Any]:
        """The fit of all rows with the learned kernel."""
        limit = math.inf if self.time_limit is None else self.time_limit
        kernel, alpha = found["learned_"].kernel, found["alpha_"]

        def left() -> float:
            return limit - (time.perf_counter() - begun)

        outputs = 1 if targets.ndim == 1 else targets.shape[1]
        X, solver, centres = self._final(X, kernel, alpha, outputs, left)
        if solver == "local":
            metric = found["learned_"].metric
            sample = Sample.of(kernel.points(X), targets, weights)
            f, solution = fit_locally(
                kernel, sample, alpha, metric, final_fit.TUNING.solving * left()
            )
            if targets.ndim == 1:
                f = replace(f, coefficients=f.coefficients[:, 0], intercepts=f.intercepts[:, 0])
            return {
                **found,
                "kernel_": kernel,
                "X_fit_": X,
                "dual_coef_": f.coefficients,
                "intercept_": 0.0,
                "function_": f,
                "solution_": solution,
                "choice_": None,
            }
        model = KernelRidge(
            alpha,
            kernel=kernel,
            fit_intercept=True,
            solver=solver,
            centres=centres,
            random_state=self.random_state,
        ).fit(X, targets, weights)
        names = ("kernel_", "X_fit_", "dual_coef_", "intercept_", "function_", "solution_")
        return {**found, **{name: getattr(model, name) for name in (*names, "choice_")}}

    def _final(
        self,
        X: Any,
        kernel: Kernel,
        ridge: float,
        outputs: int,
        left: Callable[[], float],
    ) -> tuple[Any, Solver | str, Any]:
        """Rows, solver and centres of the final fit; the solver "local" is leaves of a tree."""
        given = self.centres is not None or not is_automatic(self.solver)
        points = kernel.points(X)
        if self.local is True:
            self._check_local(points, given)
            return X, "local", None
        if given:
            return X, self.solver, self.centres
        X = in_precision(X, kernel, ridge, outputs)
        if left() == math.inf:
            return X, self.solver, None
        chosen = affordable(kernel, kernel.points(X), ridge, outputs, left)
        if not chosen.centres:
            return X, chosen.solver, None
        local = self.local == "auto" and self._is_dense(len(points)) and points.home == "host"
        text = f"an exact fit of {len(points)} rows would take {chosen.exact_seconds:.0f} s, "
        text += "longer than time_limit leaves, so f is "
        if local:
            text += "fitted in each leaf of a tree on its own. Say local=True to agree, "
            text += f"centres={chosen.centres} for one function of so many centres, "
        else:
            text += f"sought among functions with {chosen.centres} centres. Say "
            text += f"centres={chosen.centres} to agree, "
        warn(text + "or give more time.", ApproximationWarning)
        return (X, "local", None) if local else (X, chosen.solver, chosen.centres)

    def _check_local(self, points: PointSet, given: bool) -> None:
        if given or points.home != "host":
            raise ValueError(
                "local=True fits leaves of rows on the host by a factorisation: leave solver and "
                "centres as they are, and pass arrays of NumPy."
            )

    def _chosen(self) -> set[str]:
        return {"kernel", "regularization"}

    def importances(self) -> dict[Any, float]:
        """The part of each column in the learned metric by its name, the largest first.

        It is the part in the trace of M, in units of the columns' standard deviations.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        pairs = zip(names, self.feature_importances_.tolist(), strict=True)
        return dict(sorted(pairs, key=lambda pair: -pair[1]))

    def embeddings(self, dimensions: int = 2) -> list[dict[Any, np.ndarray]]:
        """Coordinates of the levels of each category by their names, those that act alike close.

        A category is given by a column of 0 and 1 for each level. Coordinates are the leading
        eigenvectors of its block of the learned metric, times the roots of their eigenvalues. There
        are none where the metric that won weighs each column on its own.
        """
        check_is_fitted(self)
        fitted: Any = self
        check_count(self, "dimensions", dimensions)
        metric = fitted.learned_.metric
        names = np.asarray(getattr(self, "feature_names_in_", np.arange(self.n_features_in_)))
        return [
            dict(zip(names[block].tolist(), metric.embedding(block, dimensions), strict=True))
            for block in ([] if metric.is_diagonal else fitted.category_blocks_)
        ]

    def explain(self) -> str:
        """What was compared and chosen, with losses on held-out rows, and how f was solved for."""
        check_is_fitted(self)
        fitted: Any = self
        race, learned = fitted.race_, fitted.learned_
        lines = [
            f"{kernel!r}, {form if isinstance(form, str) else 'in blocks'}: loss {error:.4g} in a "
            "race on few rows."
            for (kernel, form), error in zip(race.candidates, race.errors, strict=True)
            if error > 0
        ]
        for name, error in race.transform_errors.items():
            taken = race.transform is not None and race.transform.name == name
            text = "taken" if taken else "not taken: it must be 3 in 100 less than without"
            lines.append(f'Targets by "{name}": loss {error:.4g} in the original units, {text}.')
        if getattr(fitted, "linear_part_", None) is not None:
            lines.append("A linear function was fitted first.")
        if getattr(fitted, "target_transform_", None) is not None:
            lines.append(f"f is fitted to {fitted.target_transform_!r}.")
        names = ", ".join(f"{name} {part:.2g}" for name, part in [*self.importances().items()][:5])
        lines += [
            f"{type(fitted.kernel_).__name__} in the metric of round {learned.chosen} of "
            f"{len(learned.rounds) - 1}, alpha {fitted.alpha_:.3g}; columns: {names}.",
            str(fitted.solution_.status),
        ]
        return "\n".join(lines)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "function_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


@dataclass(eq=False, repr=False)
class LearnedKernelRegressor(_Learned, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Kernel ridge regression in a metric that is learned from the targets.

    Rounds of ridge fits tell by the average outer product of their gradients which columns (or
    directions) matter, and measure distances by it. Lengthscale, ridge and the number of rounds are
    those with the least error on rows that are held out; then all rows are fitted.

    Parameters
    ----------
    kernel : Kernel or "auto", default="auto"
        The kernel whose metric is learned. "auto" compares `Laplacian`,
        `StretchedExponential(0.5)`, `Exponential` and `Matern(1.5)` on 1,200 rows: of sixteen
        tables each of them is ahead on some, `Laplacian` by half of the error on concrete,
        `Matern(1.5)` with a full metric by more than half on kin40k.
    form : "auto", "diagonal", "full" or list of groups of columns, default="auto"
        Whether columns are weighted, mapped by any matrix, or mapped within groups; "auto" compares
        the first two, and where a category of five levels or more is given by a column of 0 and 1
        for each, a map of the columns of each category: it places levels that act alike close to
        each other, which `embeddings()` shows.
    rounds : int, default=5
        At most so many rounds of learning.
    rows : int, default=4000
        Rows that the metric is learned from, at most, and as the memory budget allows. Where there
        are ten times as many, lengthscales and ridge are learned from neighbourhoods as well, which
        are as dense as all rows are, and what predicts rows from all their neighbours decides. All
        rows are fitted in the end.
    held_out : float, default=0.2
        The part of these that decides.
    time_limit : float, optional
        Seconds for the whole fit. Three fifths are for learning, two where there are many rows; it
        ends with the best so far.
        Kernels whose products take too long for the rest are not compared; where the final fit
        would still take longer than what is left, `BlockCoordinateDescent` is stopped by the time,
        or it takes leaves of a tree (`local`) or as many centres as there is time for, and says so.
    solver, centres, device :
        As in `KernelRidge`, for the final fit.
    local : bool or "auto", default="auto"
        Whether all rows are fitted in the leaves of a tree, each on its own, that halves them along
        the directions in which they spread most in the learned metric. "auto" does so on the host
        where the exact fit would take longer than `time_limit` leaves and there are ten times as
        many rows as `rows`, so that neighbours tell more than centres do. `function_` then is a
        `LocalFunction`, and there is no certificate.
    linear_part : bool or "auto", default="auto"
        Whether a linear function is fitted first, by least squares, and f to what it leaves. "auto"
        does so where it leaves less than a twentieth of the variance: lengthscales and ridge then
        serve the rest.
    target_transform : "auto", "log", "rank" or None, default="auto"
        Whether f is fitted to the logarithms of the targets, or to the normal quantiles of their
        ranks, and predictions are taken back to the original units. "auto" tries both where the
        targets are skewed or have heavy tails, and takes one if it lowers the error on held-out
        rows, in the original units, by 3 in 100 or more. Not with a linear part.
    random_state : int, default=0
        Draws rows and splits: the same seed gives the same answer.

    Attributes
    ----------
    kernel_ : Kernel
        The learned kernel, on the columns as they were given.
    linear_part_ : RKHSFunction or None
        The linear function that predictions add to f. Certificates speak of f.
    target_transform_ : TargetTransform or None
        The function of the targets that f was fitted to. `race_.transform_errors` has what each
        that was tried missed on held-out rows.
    feature_importances_ : array of shape (columns,)
        How much the targets vary along each column, in units of its deviation; they add up to 1.
    learned_ : LearnedKernel
        The metric, and the rounds that led to it.
    race_ : Race
        The kernels that were compared, with their errors.
    alpha_ : float
        The ridge, as in `KernelRidge`.
    category_blocks_ : list of arrays
        The columns of each category, where one has five levels or more.
    function_, solution_, dual_coef_, X_fit_, intercept_, choice_ : as in `KernelRidge`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 5))
    >>> model = LearnedKernelRegressor().fit(X, np.sin(2 * X[:, 3]))
    >>> next(iter(model.importances()))
    3
    """

    _: KW_ONLY
    linear_part: bool | str = "auto"
    target_transform: str | None = "auto"

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the metric, then fit f to targets y, one or several for each row of X."""
        begun = time.perf_counter()
        X, y, weights = admit_numbers(self, X, y, sample_weight)
        task = FitTask.root(self, X, y, weights, None)
        linear, transform = self._linear(X, y, weights), self._transform(y, weights)
        rest = y if linear is None else y - linear(X)
        names: Sequence[str] = ()
        if transform is not None:
            rest = transform.forward(y)
        elif linear is None and self.target_transform == "auto":
            names = worth_trying(y)
        found = self._learn(X, _standardised(rest), weights, task, begun, transforms=names)
        if found["race_"].transform is not None:
            transform = TargetTransform.of(found["race_"].transform.name, y, weights)
            rest = transform.forward(y)
        if transform is not None:
            transform = transform.smeared(rest, found["learned_"].held_out)
        fitted = self._ridge(X, rest, weights, found, begun)
        fitted |= {"linear_part_": linear, "target_transform_": transform}
        left = 1.0 if linear is None else as_numpy(_deviations(rest) / _deviations(y))
        self._missed = math.sqrt(found["learned_"].error * float(np.mean(left**2)))
        for name, value in fitted.items():
            setattr(self, name, value)
        task.end(lambda: fitted)
        return self

    def _linear(self, X: Any, y: Any, weights: Any) -> RKHSFunction | None:
        """The linear function that is fitted first, or None."""
        if self.linear_part not in (True, False, "auto"):
            raise ValueError(
                f'linear_part must be True, False or "auto"; got {self.linear_part!r}.'
            )
        if not self.linear_part or self.target_transform in SCALES:
            return None
        linear, unexplained = linear_fit(Linear().points(X), y, weights, self.random_state)
        return linear if self.linear_part is True or unexplained < TUNING.nearly_linear else None

    def _transform(self, y: Any, weights: Any) -> TargetTransform | None:
        """The function of the targets that is asked for by name, or None."""
        if self.target_transform in (None, "auto"):
            return None
        if self.target_transform not in SCALES or self.linear_part is True or y.ndim > 1:
            raise ValueError(
                'target_transform must be "auto" or None, or "log" or "rank" for one output '
                f"without a linear part; got {self.target_transform!r} with targets of shape "
                f"{tuple(y.shape)} and linear_part={self.linear_part!r}."
            )
        return TargetTransform.of(self.target_transform, y, weights)

    def predict(self, X: Any) -> Any:
        """f(x) + b for every row of X, with the linear part, and in the units of the targets."""
        values, transform = function_values(self, X), self.target_transform_
        values = values if transform is None else transform.backward(values)
        single = str(getattr(X, "dtype", "")).endswith("float32")  # f may be in float64
        return to_precision(values, "float32") if single else values

    def explain(self) -> str:
        """What was compared and chosen, how f was solved for, and what nearly tells the targets."""
        text = super().explain()
        if self._missed > TUNING.determined:
            return text
        leading, total = list[str](), 0.0
        for name, part in self.importances().items():
            leading, total = [*leading, str(name)], total + part
            if total > TUNING.leading:
                break
        return (
            f"{text}\nUnseen rows are missed by {self._missed:.2g} of the targets' deviation only, "
            f"and the metric is mostly that of columns {', '.join(leading)}: leave out those that "
            "are not known before the target is."
        )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions."""
        X, y, sample_weight = hosted(X, y, sample_weight)
        return float(super().score(X, y, sample_weight=sample_weight))


def _deviations(y: Any) -> Any:
    """Those of every output, 1 where it is constant."""
    deviations = y.std(0)
    return deviations + 1.0 * (deviations == 0)


def _standardised(y: Any) -> Any:
    """Targets of deviation 1, so that every output counts alike."""
    return y / _deviations(y)


@dataclass(eq=False, repr=False)
class LearnedKernelClassifier(_Learned, ClassifierMixin, BaseEstimator):
    """Least-squares classification in a metric that is learned from the labels.

    The metric is learned as by `LearnedKernelRegressor`, from targets ±1 for each class. Scores are
    those of the ridge fit with the learned kernel, and probabilities softmax(a·s) of scores s, the
    number a being fitted to rows that the metric has not seen. The log loss of these probabilities
    decides between kernels: on tables it tells the later share of wrong labels better than squares.
    For the logistic loss or the hinge in the same metric, fit
    `KernelClassifierCV(loss=…, kernel=model.kernel_, lengthscales=None)`.

    Parameters
    ----------
    kernel, form, rounds, rows, held_out, time_limit, solver, centres, local, random_state, device :
        As in `LearnedKernelRegressor`.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, which multiply those of the samples.

    Attributes
    ----------
    classes_ : array
        The labels, sorted.
    kernel_, feature_importances_, learned_, race_, alpha_ :
        As in `LearnedKernelRegressor`.
    calibration_ : Calibration
        From scores to probabilities.
    function_, solution_, dual_coef_, X_fit_, intercept_, choice_ : as in `KernelRidge`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 5))
    >>> y = np.where(X[:, 1] * X[:, 4] > 0, "same", "other")
    >>> model = LearnedKernelClassifier().fit(X, y)
    >>> sorted(list(model.importances())[:2])
    [1, 4]
    """

    _: KW_ONLY
    class_weight: dict[Any, float] | str | None = None

    decision_function, predict = decision_function, predict

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the metric, then fit f to labels y, of any kind."""
        begun = time.perf_counter()
        X, y, weights = admit_labels(self, X, y, sample_weight)
        classes, labels, weights = encoded(self, y, weights)
        targets = signed_targets(labels, len(classes))
        task = FitTask.root(self, X, y, weights, None)

        def calibrated(rows: np.ndarray, scores: np.ndarray) -> tuple[Calibration, float]:
            own = None if weights is None else weights[rows]
            scores = scores if len(classes) > 2 else scores[:, 0]
            calibration = Calibration.of(scores, labels[rows], own)
            return calibration, calibration.loss(scores, labels[rows], own)

        found = self._learn(X, targets, weights, task, begun, lambda *held: calibrated(*held)[1])
        fitted = self._ridge(X, targets, weights, found, begun)
        calibration, _ = calibrated(*found["learned_"].held_out)
        fitted |= {"classes_": classes, "calibration_": calibration}
        for name, value in fitted.items():
            setattr(self, name, value)
        task.end(lambda: fitted)
        return self

    def _largest_target(self) -> float:
        return 1.0

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, for every row of X."""
        scores = function_values(self, X)
        return self.calibration_.probabilities(scores)

    def predict_log_proba(self, X: Any) -> Array:
        """Their logarithms."""
        scores = function_values(self, X)
        return self.calibration_.log_probabilities(scores)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of right labels."""
        X, y, sample_weight = hosted(X, y, sample_weight)
        return float(super().score(X, y, sample_weight=sample_weight))
