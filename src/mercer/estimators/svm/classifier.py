"""Support vector classification, with a cost C or a share ν of margin errors."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import column_or_1d

from mercer.estimators.callbacks import FitTask, with_callbacks
from mercer.estimators.svm.base import SupportVectorMachine, _check_number
from mercer.estimators.svm.pairs import Machine, OneVersusOne
from mercer.losses import Hinge
from mercer.operators import Gram
from mercer.solvers.dual import DualAscent
from mercer.solvers.dual.rows import Rows
from mercer.solvers.dual.solver import solution_of, status_of
from mercer.solvers.dual.terms import Terms

SHAPES = ("ovr", "ovo")


class _Classifier(ClassifierMixin, SupportVectorMachine):
    """What both classifiers share: classes, pairs of them, votes."""

    class_weight: Any
    probability: Any
    decision_function_shape: Any
    break_ties: Any

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit one machine for each pair of classes."""
        self._check_parameters()
        X, y = self._checked_points(X, y)
        check_classification_targets(y)
        classes, codes = np.unique(column_or_1d(y, warn=True), return_inverse=True)
        weights = self._checked_weights(sample_weight, X)
        factors = self._class_weights(classes, codes, weights)
        costs = weights * factors[codes]
        self._check_classes(classes, codes, costs)
        gram = self._gram(X, weights)
        pairs = OneVersusOne.of(gram, codes, len(classes), costs)
        solver = self._solver(len(codes))
        task = FitTask.root(self, X, y, weights, len(pairs.pairs))
        machines = pairs.solve(self._fit_pair(solver), solver, task if task.heard else None)
        self.classes_ = classes
        self.class_weight_ = factors
        attributes = self._attributes(gram, pairs, machines)
        self._set(attributes)
        self._warn(self.statuses_)
        task.end(lambda: attributes)
        return self

    def _fit_pair(self, solver: DualAscent) -> Any:
        raise NotImplementedError

    # ---- checks ---------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        self._check_common_parameters()
        if self.decision_function_shape not in SHAPES:
            raise ValueError(
                f'decision_function_shape must be "ovr" or "ovo"; got '
                f"{self.decision_function_shape!r}."
            )
        if self.probability:
            raise ValueError(
                "probabilities are calibrated outside, as scikit-learn advises: write "
                f"CalibratedClassifierCV({type(self).__name__}(…), ensemble=False) of "
                "sklearn.calibration, or KernelLogisticRegression."
            )

    def _check_classes(self, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs points of at least two classes; got 1 class, "
                f"{classes[0]!r}."
            )
        missing = classes[np.bincount(codes, weights, minlength=len(classes)) == 0]
        if len(missing):
            raise ValueError(
                f"every class needs a point with positive weight; class {missing[0]!r} has none."
            )

    def _class_weights(
        self, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """A factor for each class; "balanced" makes all classes weigh the same."""
        if self.class_weight is None:
            return np.ones(len(classes))
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            sums = np.bincount(codes, weights, minlength=len(classes))
            return weights.sum() / (len(classes) * np.where(sums > 0, sums, 1.0))
        if isinstance(self.class_weight, dict):
            return np.array([float(self.class_weight.get(c, 1.0)) for c in classes.tolist()])
        raise ValueError(
            f'class_weight must be a dict, "balanced" or None; got {self.class_weight!r}.'
        )

    # ---- what a fit keeps -----------------------------------------------------------------------

    def _attributes(
        self, gram: Gram, pairs: OneVersusOne, machines: list[Machine]
    ) -> dict[str, Any]:
        full = np.zeros((gram.shape[0], len(machines)))
        for k, (pair, machine) in enumerate(zip(pairs.pairs, machines, strict=True)):
            full[pairs.members(pair), k] = machine.coefficients
        supports: Any = full.any(axis=1)
        support = pairs.order[supports[pairs.order]]
        counts: Any = [
            int(supports[pairs.order[slice(*pairs.span(c))]].sum())
            for c in range(len(self.classes_))
        ]
        coefficients = full[support]
        intercepts = np.array([machine.intercept for machine in machines])
        binary = len(machines) == 1
        if binary:  # positive for the second class, as in scikit-learn
            coefficients, intercepts = -coefficients, -intercepts
        counts = np.array(counts, np.int32)
        return {
            **self._supported(gram, support, coefficients[:, 0] if binary else coefficients),
            "n_support_": counts,
            "intercept_": intercepts,
            "dual_coef_": (
                coefficients.T if binary else _stacked(coefficients, pairs.pairs, counts)
            ),
            "n_iter_": np.array([machine.steps for machine in machines], np.int32),
            "statuses_": [machine.status for machine in machines],
            "solutions_": [machine.solution for machine in machines],
        }

    # ---- predictions ----------------------------------------------------------------------------

    def _decisions(self, X: Any) -> np.ndarray:
        """f(x) + b of each pair of classes, positive for the first; of two, for the second."""
        values = self._values(X)
        intercepts = self.intercept_.astype(values.dtype)
        return values + (intercepts[0] if values.ndim == 1 else intercepts)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the classes ("ovr") or of pairs of them ("ovo"); of two, of the second."""
        decisions = self._decisions(X)
        if decisions.ndim == 1 or self.decision_function_shape == "ovo":
            return decisions
        return _ovr_decision_function(decisions < 0, -decisions, len(self.classes_))

    def predict(self, X: Any) -> np.ndarray:
        """The class with the most votes; the first of those that share them, or see break_ties."""
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError(
                'break_ties=True needs decision_function_shape="ovr", whose scores break them.'
            )
        decisions = self._decisions(X)
        if decisions.ndim == 1:
            return self.classes_[(decisions > 0).astype(int)]
        count = len(self.classes_)
        if self.break_ties:
            scores = _ovr_decision_function(decisions < 0, -decisions, count)
        else:
            scores = _votes(decisions, count)
        return self.classes_[scores.argmax(axis=1)]


def _votes(decisions: np.ndarray, classes: int) -> np.ndarray:
    votes = np.zeros((len(decisions), classes), np.int64)
    k = 0
    for i in range(classes):
        for j in range(i + 1, classes):
            votes[:, i] += decisions[:, k] > 0
            votes[:, j] += decisions[:, k] <= 0
            k += 1
    return votes


def _stacked(coefficients: np.ndarray, pairs: list[Any], counts: np.ndarray) -> np.ndarray:
    """libsvm's table: row r of a vector of class c belongs to the r-th of the other classes."""
    ends = np.cumsum(counts)
    table = np.zeros((len(counts) - 1, len(coefficients)))
    for k, (i, j) in enumerate(pairs):
        of_i, of_j = (slice(ends[c] - counts[c], ends[c]) for c in (i, j))
        table[j - 1, of_i] = coefficients[of_i, k]
        table[i, of_j] = coefficients[of_j, k]
    return table


class SVC(_Classifier):
    """Support vector classification: min C Σ_i w_i max(1 − y_i(f(x_i) + b), 0) + ½‖f‖² over f, b.

    It replaces scikit-learn's estimator of the same name; several classes vote in pairs. mercer's λ
    is 1/(CΣw).

    Parameters
    ----------
    C : float, default=1.0
        C > 0.
    kernel, degree, gamma, coef0, shrinking, tol, cache_size, verbose, max_iter :
        As in `SVR`.
    probability : False
        Write `CalibratedClassifierCV(SVC(), ensemble=False)` instead, as scikit-learn advises.
    class_weight : dict, "balanced" or None, default=None
        Factors of C for each class; "balanced" makes all classes weigh the same.
    decision_function_shape : "ovr" or "ovo", default="ovr"
        Whether `decision_function` scores classes, or pairs of them.
    break_ties : bool, default=False
        Whether `predict` breaks ties of votes by scores.
    random_state :
        Taken and not used.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, classes_, n_iter_ :
        As in scikit-learn.
    class_weight_ : array
        The factor of C of each class.
    function_ : RKHSFunction
        f, with a column for each pair of several classes.
    statuses_, solutions_ : list
        How the solver ended, with the true duality gap, for each pair.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), ["a", "a", "b", "b"]
    >>> model = SVC(kernel="linear", C=100.0).fit(X, y)
    >>> model.predict([[0.9], [2.1]]).tolist(), model.decision_function([[1.5]]).round(9).tolist()
    (['a', 'b'], [0.0])
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: Any = 3,
        gamma: Any = "scale",
        coef0: Any = 0.0,
        shrinking: bool = True,
        probability: bool = False,
        tol: float = 1e-3,
        cache_size: float | None = None,
        class_weight: Any = None,
        verbose: bool = False,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _check_number(self, "C", above=0.0)

    def _fit_pair(self, solver: DualAscent) -> Any:
        def fit(gram: Gram, y: np.ndarray, weights: np.ndarray, rows: Rows | None) -> Machine:
            ascent = solver.ascend(gram, Terms.of(Hinge(), y, self.C * weights, True), rows)
            scale = 1.0 / (self.C * weights.sum())
            found = solution_of(solver, gram, [ascent], scale * ascent.primal, scale, y.shape)
            return Machine(found.coefficients, found.intercept, ascent.steps, found.status, found)

        return fit


class NuSVC(_Classifier):
    """Classification with a share ν: min ½‖f‖² − νρΣw + Σ_i w_i max(ρ − y_i(f(x_i) + b), 0).

    At most a share ν of the weight has a margin below ρ, and at least that share are support
    vectors. f and b are divided by ρ at the end, so that it is `SVC` with C = 1/ρ. It replaces
    scikit-learn's estimator of the same name, and heeds `class_weight`.

    Parameters
    ----------
    nu : float, default=0.5
        0 < ν ≤ 1; for classes of different weight less than twice the share of the lighter one.
    kernel, degree, gamma, coef0, shrinking, probability, tol, cache_size, class_weight, verbose, \
max_iter, decision_function_shape, break_ties, random_state :
        As in `SVC`.

    References
    ----------
    B. Schölkopf, A. J. Smola, R. C. Williamson, P. L. Bartlett, New support vector algorithms,
    2000.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]
    >>> NuSVC(kernel="linear").fit(X, y).predict([[0.9], [2.1]]).tolist()
    [0, 1]
    """

    def __init__(
        self,
        *,
        nu: float = 0.5,
        kernel: Any = "rbf",
        degree: Any = 3,
        gamma: Any = "scale",
        coef0: Any = 0.0,
        shrinking: bool = True,
        probability: bool = False,
        tol: float = 1e-3,
        cache_size: float | None = None,
        class_weight: Any = None,
        verbose: bool = False,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _check_number(self, "nu", above=0.0, at_most=1.0)

    def _check_classes(self, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        """Before any kernel value is computed."""
        super()._check_classes(classes, codes, weights)
        sums = np.sort(np.bincount(codes, weights))
        largest = 2 * sums[0] / (sums[0] + sums[-1])
        if self.nu > largest * (1 + 1e-12):
            raise ValueError(
                f"nu={self.nu:g} is infeasible: with the weights of these classes it can be at "
                f"most {largest:.4g}, twice the share of the lighter class of a pair."
            )

    def _fit_pair(self, solver: DualAscent) -> Any:
        def fit(gram: Gram, y: np.ndarray, weights: np.ndarray, rows: Rows | None) -> Machine:
            total = 0.5 * self.nu * weights.sum()
            ascent = solver.ascend(gram, Terms.balanced(y, weights, total), rows)
            upper, lower = ascent.levels
            margin = 0.5 * (upper - lower)
            scale = 1.0 / margin if margin > 0 else 1.0
            intercept = -0.5 * scale * (upper + lower)
            status = status_of(solver, gram, [ascent])
            return Machine(scale * ascent.alpha, float(intercept), ascent.steps, status)

        return fit
