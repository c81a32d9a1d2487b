"""Classifiers that choose their regularisation and lengthscale by cross-validation.

A search computes the matrix of each lengthscale once, for all folds and strengths; goes from strong
to weak regularisation, each from the last solution; and looks at a sample of many rows first, then
only at what was best there.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import (
    BaseCrossValidator,
    StratifiedKFold,
    StratifiedShuffleSplit,
    check_cv,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer.estimators.classifier import KernelClassifier, class_targets, encoded
from mercer.estimators.inputs import KernelParameters, admit_labels
from mercer.estimators.lengthscales import candidate_lengthscales, warn_of_edges
from mercer.estimators.losses import FOR_CLASSES, as_loss
from mercer.estimators.svm import SVC, votes
from mercer.features.centres import AnyChoice
from mercer.kernels.base import Kernel
from mercer.kernels.custom import Precomputed
from mercer.losses import Loss
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.runtime.budget import memory_budget
from mercer.runtime.threads import single_threaded_blas
from mercer.solvers.automatic import default_solver
from mercer.solvers.newton import Newton
from mercer.solvers.path import regularization_path
from mercer.solvers.problem import Problem
from mercer.theory.certificate import Certificate


@dataclass(frozen=True)
class Tuning:
    """What is searched, and on how many rows."""

    strengths: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4)  # C, where none is given
    factors: tuple[float, ...] = tuple(2.0**k for k in range(-4, 3))  # of the median distance;
    # SVC's own lengthscale is ½
    second: int = 2  # times as many rows for the best of the first search and its neighbours
    fewest_rows: int = 100  # that are searched whatever the memory
    tolerance: float = 1e-3  # relative duality gaps that a score does not notice


TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class Sample:
    """Some rows: their points, labels as numbers from 0, weights and folds."""

    points: PointSet
    codes: np.ndarray
    weights: np.ndarray
    folds: list[tuple[np.ndarray, np.ndarray]]

    @classmethod
    def of(
        cls, points: PointSet, codes: np.ndarray, weights: np.ndarray, rows: int, cv: Any, seed: Any
    ) -> Sample:
        """At most so many rows with weight, with classes in their proportions."""
        chosen = np.flatnonzero(weights)
        if rows < len(chosen):
            split = StratifiedShuffleSplit(1, train_size=rows, random_state=seed)
            chosen = chosen[np.sort(next(split.split(chosen, codes[chosen]))[0])]
        elif not isinstance(cv, int):  # splits that are given have numbers of all rows
            chosen = np.arange(len(codes))
        codes = codes[chosen]
        if isinstance(cv, int):
            cv = StratifiedKFold(cv, shuffle=True, random_state=seed)
        folds = list(check_cv(cv, codes, classifier=True).split(np.zeros((len(codes), 1)), codes))
        return cls(points.take(chosen), codes, weights[chosen], folds)


@dataclass(frozen=True, eq=False)
class Fold:
    """K within the training rows, K of held-out rows with them, and their labels and weights."""

    within: np.ndarray
    across: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    classes: int


@dataclass(eq=False, repr=False)
class _SearchedClassifier(KernelParameters, ClassifierMixin, BaseEstimator):
    """The search, and the classifier it ends with."""

    matrices: ClassVar[float] = 3.5  # of all rows of a search, which it stores at once
    class_weight: ClassVar[None] = None

    Cs: ArrayLike | None = None
    _: KW_ONLY
    lengthscales: ArrayLike | str | None = "auto"
    cv: int | BaseCrossValidator | Iterable[Any] = 5
    subsample: int = 1500
    random_state: int | np.random.RandomState | None = 0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Search, then fit the best to all rows."""
        strengths = self._strengths()
        given, labels, weights = admit_labels(self, X, y, sample_weight)
        classes, codes, _ = encoded(self, labels, weights)
        base, gamma = self._resolved_kernel(given, weights), self.gamma
        factors = np.array(TUNING.factors)
        scales = candidate_lengthscales(self.lengthscales, base, gamma, given, weights, factors)
        kernels = [base] if scales is None else [base.with_(lengthscale=float(s)) for s in scales]
        counts = np.ones(len(codes)) if weights is None else weights
        points = self._training_points(base, given)
        (row, column), scores = self._search(kernels, strengths, points, codes, counts)
        kernel: Any = "precomputed" if self._is_precomputed() else kernels[row]
        best = self._model(kernel, float(strengths[column]), float(counts.sum()))
        self.__dict__.update(
            best_estimator_=best.fit(given, labels, sample_weight),
            C_=float(strengths[column]),
            kernel_=kernels[row],
            classes_=classes,
            cv_scores_=scores,
            best_score_=float(scores[row, column]),
            Cs_=strengths,
            lengthscales_=scales,
        )
        tried = {"C": (self.C_, strengths)}
        if scales is not None:
            tried["lengthscale"] = float(scales[row]), scales
        warn_of_edges(self, "Cs=[…] and lengthscales=[…]", **tried)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def _strengths(self) -> np.ndarray:
        strengths = np.atleast_1d(
            np.asarray(TUNING.strengths if self.Cs is None else self.Cs, float)
        )
        if not len(strengths) or not ((strengths > 0) & np.isfinite(strengths)).all():
            raise ValueError(f"Cs must be positive and finite; got {self.Cs!r}.")
        return np.sort(strengths)

    def _search(
        self,
        kernels: list[Kernel],
        strengths: np.ndarray,
        points: PointSet,
        codes: np.ndarray,
        weights: np.ndarray,
    ) -> tuple[tuple[int, int], np.ndarray]:
        """Which kernel and strength are best, and the accuracy of all, on one sample or two."""
        scores = np.full((len(kernels), len(strengths)), np.nan)
        cells, counted = np.ones_like(scores, bool), int(np.count_nonzero(weights))
        for rows in search_sizes(counted, self.subsample, self.matrices):
            sample = Sample.of(points, codes, weights, rows, self.cv, self.random_state)
            scores[cells] = np.nan
            for i in np.flatnonzero(cells.any(axis=1)):
                columns = np.flatnonzero(cells[i])
                scores[i, columns] = self._scores(kernels[i], sample, strengths[columns])
            row, column = best = _best(np.where(cells, scores, np.nan))
            cells = np.zeros_like(cells)  # to look at next: the best one and its neighbours
            cells[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2] = True
        return best, scores

    def _scores(self, kernel: Kernel, sample: Sample, strengths: np.ndarray) -> np.ndarray:
        """The mean accuracy over folds, for each strength."""
        matrix = np.asarray(Gram(kernel, sample.points).astype(np.float64).dense())
        right, total = np.zeros(len(strengths)), 0.0
        for train, test in sample.folds:
            within, across = matrix[np.ix_(train, train)], matrix[np.ix_(test, train)]
            own = sample.codes[train], sample.weights[train], int(sample.codes.max()) + 1
            weights = sample.weights[test]
            total += weights.sum()
            for k, predicted in enumerate(self._path(Fold(within, across, *own), strengths)):
                right[k] += weights @ (predicted == sample.codes[test])
        return right / total

    def _path(self, fold: Fold, strengths: np.ndarray) -> Iterator[np.ndarray]:
        """Labels of held-out rows for each strength, from the smallest."""
        raise NotImplementedError

    def _model(self, kernel: Any, strength: float, total: float) -> Any:
        raise NotImplementedError

    # ---- the best one ----------------------------------------------------------------------------

    def certificate(
        self, probability: float = 0.95, target_bound: float | None = None
    ) -> Certificate:
        """What is proved of the best classifier, see `KernelClassifier.certificate`.

        Kernel and λ were chosen on the same samples, which the bounds that forbid it say.
        """
        check_is_fitted(self)
        return self.best_estimator_.certificate(
            probability, target_bound, chosen=["kernel", "regularization"]
        )

    def compress(self, centres: int | AnyChoice) -> Self:
        """A copy whose best classifier has few centres, see `KernelClassifier.compress`."""
        check_is_fitted(self)
        copied = copy.copy(self)
        copied.best_estimator_ = self.best_estimator_.compress(centres)
        return copied

    def predict(self, X: Any) -> Any:
        """The labels of the best classifier."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def decision_function(self, X: Any) -> Any:
        """Its scores."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)


def search_sizes(n: int, subsample: int, matrices: float) -> list[int]:
    """Rows of one search after the other, no more than have room for so many of their matrices.

    >>> search_sizes(300, 1000, 3.5)
    [300]
    """
    room = max(TUNING.fewest_rows, int(math.sqrt(memory_budget() / (8 * matrices))))
    if n <= min(subsample, room):
        return [n]
    sizes = min(subsample, room), min(n, TUNING.second * subsample, room)
    return list(dict.fromkeys(sizes))


def _best(scores: np.ndarray) -> tuple[int, int]:
    """Where the score is largest; of equal ones the smallest C, and the middle lengthscale."""
    rows, columns = np.nonzero(scores >= np.nanmax(scores) - 1e-12)
    middle = np.abs(rows - 0.5 * (len(scores) - 1))
    first = np.lexsort((middle, columns))[0]
    return int(rows[first]), int(columns[first])


@dataclass(eq=False, repr=False)
class SVCCV(_SearchedClassifier):
    """`SVC` whose C and lengthscale are chosen by cross-validation.

    Parameters
    ----------
    Cs : array, default=0.1, 1, …, 10,000
        Values of C to try.
    kernel : Kernel, str or callable, default="rbf"
    gamma, degree, coef0, kernel_params :
        As in `SVC`; a gamma that is given keeps the lengthscale as it is.
    lengthscales : array, "auto" or None, default="auto"
        Lengthscales to try. "auto" takes the median distance of points times 1/16, 1/8, …, 4, where
        the kernel has a lengthscale; None keeps the kernel as it is.
    cv : int or splitter, default=5
        Folds, as in scikit-learn.
    subsample : int, default=1500
        So many rows are searched first; of more, up to twice as many are searched again around
        what was best. There are fewer where `MERCER_MEMORY` has no room for their matrices.
    random_state : int, default=0
        Draws rows and folds.

    Attributes
    ----------
    best_estimator_ : SVC
        Fitted to all rows with what was best.
    C_, kernel_ : the choice.
    best_score_ : float
        Its mean accuracy on held-out rows.
    cv_scores_ : array of shape (lengthscales, Cs)
        The mean accuracies, each from the last search that looked there.
    Cs_, lengthscales_ : array
        What was tried. Where the best is on the edge of it, a `GridEdgeWarning` says so.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> model = SVCCV([1.0, 100.0], lengthscales=[0.3, 0.6]).fit(X, y)
    >>> model.best_score_ > 0.9
    True
    """

    def _path(self, fold: Fold, strengths: np.ndarray) -> Iterator[np.ndarray]:
        from mercer.solvers.dual.two_classes import TwoClasses

        members = [np.flatnonzero(fold.codes == c) for c in range(fold.classes)]
        pairs, n = list(combinations(range(fold.classes), 2)), len(fold.codes)
        work = TwoClasses(n, n * n, TUNING.tolerance, 1000 * n + 100_000)
        last: list[Any] = [np.empty(0)] * len(pairs)
        decisions = np.empty((len(fold.across), len(pairs)))
        before = 0.0
        for strength in strengths:
            for k, (i, j) in enumerate(pairs):
                first, second = members[i], members[j]
                both = np.concatenate([first, second])
                sides = (first, first), (first, second), (second, second)
                one, between, other = (fold.within[np.ix_(a, b)] for a, b in sides)
                costs = strength * fold.weights[first], strength * fold.weights[second]
                start = last[k]  # α grows with C: those at the bound stay there
                start = start * (min(strength / before, 1.0) if before else 1.0)
                alpha, b, *_ = work.solve(one, between, other, costs, start)
                last[k], decisions[:, k] = alpha, fold.across[:, both] @ alpha + b
            before = strength
            if len(pairs) == 1:
                yield (decisions[:, 0] <= 0).astype(int)
            else:
                yield votes(decisions, fold.classes).argmax(axis=1)

    def _model(self, kernel: Any, strength: float, total: float) -> SVC:
        return SVC(C=strength, kernel=kernel)


@dataclass(eq=False, repr=False)
class KernelClassifierCV(_SearchedClassifier):
    """`KernelClassifier` whose regularisation and lengthscale are chosen by cross-validation.

    Parameters
    ----------
    Cs : array, default=0.1, 1, …, 10,000
        Values of C = 1/(λΣw) to try.
    loss : Loss or str, default="log_loss"
        As in `KernelClassifier`.
    kernel, gamma, degree, coef0, kernel_params, lengthscales, cv, subsample, random_state :
        As in `SVCCV`.

    Attributes
    ----------
    best_estimator_ : KernelClassifier
        Fitted to all rows with what was best.
    C_, kernel_, best_score_, cv_scores_, Cs_, lengthscales_ :
        As in `SVCCV`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> model = KernelClassifierCV([1.0, 100.0], lengthscales=[0.3, 0.6]).fit(X, y)
    >>> model.predict_proba(X[:1]).shape, model.best_score_ > 0.9
    ((1, 2), True)
    """

    matrices: ClassVar[float] = 9.1
    loss: Loss | str = "log_loss"

    def _path(self, fold: Fold, strengths: np.ndarray) -> Iterator[np.ndarray]:
        loss = as_loss(self.loss, FOR_CLASSES)
        y = class_targets(loss, fold.codes, fold.classes)
        gram = Precomputed(fold.within, positive_definite=True).gram(np.arange(len(fold.codes)))
        ridges = 1.0 / (strengths * fold.weights.sum())
        problem = Problem(gram, y, loss, float(ridges[0]), fold.weights, True)
        solver: Any = default_solver(loss, TUNING.tolerance)
        solutions = (  # Newton's steps go on from the last solution, other solvers begin anew
            (point.solution for point in regularization_path(problem, ridges.tolist(), solver))
            if isinstance(solver, Newton)
            else (solver.solve(replace(problem, regularization=float(r))) for r in ridges)
        )
        with single_threaded_blas():
            for solution in solutions:
                values = fold.across @ solution.coefficients + solution.intercept
                yield (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)

    def _model(self, kernel: Any, strength: float, total: float) -> KernelClassifier:
        return KernelClassifier(self.loss, 1.0 / (strength * total), kernel=kernel)

    @available_if(lambda self: hasattr(KernelClassifier(self.loss), "predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes, where the loss has some."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)
