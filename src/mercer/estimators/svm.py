"""Support vector machines: classification, regression, and the one-class machine.

They replace scikit-learn's estimators of the same names; the solver is dual ascent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import combinations, pairwise
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.utils import check_array
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_is_fitted, column_or_1d

from mercer.arrays import as_numpy
from mercer.checks import check_positive, is_number
from mercer.estimators.calibration import calibrated, predict_log_proba, predict_proba
from mercer.estimators.certified import certificate
from mercer.estimators.early_stopping import stopping_rule, validation_scores
from mercer.estimators.fitting import explanation, keep, with_stored_pairs
from mercer.estimators.inputs import (
    admit_labels,
    admit_numbers,
    admit_points,
    answered,
    beside_centres,
    hosted,
)
from mercer.estimators.lengthscales import warn_of_lengthscale
from mercer.estimators.losses import relative_ridge
from mercer.estimators.pairs import Machines, OneVersusOne
from mercer.estimators.progress import CallbackSupportMixin, FitTask, with_callbacks, with_progress
from mercer.estimators.smaller import compress
from mercer.features.bases import BaseEstimator, ClassifierMixin, OutlierMixin, RegressorMixin
from mercer.features.inputs import KernelInput, KernelLike, length
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.kernels.conversion import as_kernel, variance_of_entries
from mercer.kernels.inner_product import Linear
from mercer.kernels.measures import Seed
from mercer.losses import EpsilonInsensitive, Hinge, Loss
from mercer.operators import Gram
from mercer.points import HostedPoints, SparsePoints
from mercer.runtime.threads import spans
from mercer.solvers.automatic import Choice
from mercer.solvers.dual import DualAscent
from mercer.solvers.dual.tube import nu_regression
from mercer.solvers.foreseen import TUNING as FORESEEN
from mercer.solvers.foreseen import Posed, dual_ascent
from mercer.solvers.problem import Problem, loses_digits
from mercer.solvers.rates import Rates
from mercer.solvers.solution import Solution, Status


@dataclass(frozen=True)
class Tuning:
    """Tolerances and sizes of support vector machines."""

    gap_of_tol: float = 0.1  # libsvm stops at slopes that agree to tol; this gap is about as exact
    few_pairs: int = 55  # of classes, up to which all functions are stored and evaluated at once
    strip_bytes: int = 16 << 20  # of kernel values and decisions of many pairs, held at a time
    infinite: float = 1e10  # for C = ∞ in regression: no coefficient comes near so large a bound


TUNING = Tuning()
BOUNDARY = {"float32": 1e-5, "float64": 1e-10}  # relative width of the boundary, which is rounding
SHAPES = ("ovr", "ovo")


@dataclass(eq=False, repr=False)
class SupportVectorMachine(CallbackSupportMixin, KernelInput):
    """The parameters, the kernel, the solver and the support vectors of all machines."""

    _allow_indefinite = True
    _instead_of_tensors = ""

    _: KW_ONLY
    kernel: KernelLike = "rbf"
    degree: float = 3
    gamma: float | str | None = "scale"
    coef0: float = 0.0
    shrinking: bool = True
    tol: float = 1e-3
    cache_size: float | None = None
    verbose: bool = False
    max_iter: int = -1
    time_limit: float | None = None
    function_: RKHSFunction = field(init=False)
    kernel_: Kernel = field(init=False)
    solution_: Solution = field(init=False)
    dual_coef_: Any = field(init=False)
    intercept_: Any = field(init=False)
    n_features_in_: int = field(init=False)
    feature_names_in_: np.ndarray = field(init=False)
    compression_error_: float = field(init=False)
    support_: np.ndarray = field(init=False)
    support_vectors_: Any = field(init=False)
    n_support_: np.ndarray = field(init=False)
    n_iter_: Any = field(init=False)
    statuses_: list[Status] = field(init=False)
    solutions_: list[Solution] = field(init=False)

    certificate, compress = certificate, compress

    def _check_parameters(self) -> None:
        check_number(self, "tol")
        if self.cache_size is not None:
            check_number(self, "cache_size")
        whole = isinstance(self.max_iter, Integral)
        if not (whole and (self.max_iter == -1 or int(self.max_iter) > 0)):
            raise ValueError(
                f"max_iter must be a positive whole number, or −1 for the solver's own cap; got "
                f"{self.max_iter!r}."
            )
        if self.time_limit is not None:
            check_positive(self, "time_limit", self.time_limit)

    def explain(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> str:
        """The solver with its predicted time and memory, or how it ended.

        With X and y, what `fit(X, y)` would take on this machine; nothing is fitted.
        """
        if X is not None:
            return self._foreseen(X, y, sample_weight).explain()
        check_is_fitted(self)
        found = self.solutions_ if hasattr(self, "solutions_") else [self.solution_]
        lines = [explanation(None, self._solver(1))]
        if len(found) > 1:
            solved = sum(one.status.converged for one in found)
            lines.append(f"{solved} of {len(found)} pairs of classes are solved; the worst:")
        worst = min(found, key=lambda one: (one.status.converged, -one.gap))
        return "\n".join([*lines, str(worst.status)])

    def _foreseen(self, X: Any, y: Any, sample_weight: Any) -> Choice:
        """What a fit would take."""
        raise NotImplementedError

    def _one(self, gram: Gram, loss: Loss, ridge: float | None = None, pairs: int = 1) -> Choice:
        """Dual ascent, for so many problems with these points and λΣw for targets of spread 1."""
        points, n = gram.x, gram.shape[0]
        posed = Posed(gram.kernel, points, loss, 1, Rates.measured(gram.kernel, points))
        candidate = dual_ascent(posed, self._solver(n), ridge or FORESEEN.ridge)
        more = (pairs - 1) * (candidate.seconds - FORESEEN.begin)
        candidate = replace(candidate, seconds=candidate.seconds + more)
        reason = "It is exact."
        if self.time_limit is not None and candidate.seconds > self.time_limit:
            reason = f"It is exact, but is stopped by the time limit of {self.time_limit:g} s."
        if pairs > 1:
            reason += f" There are {pairs} pairs of classes, with a machine each."
        return Choice((candidate,), candidate, reason, n)

    def _gram(self, X: Any, weights: np.ndarray) -> Gram:
        kernel = self._weighted_kernel(X, weights)
        points = self._training_points(kernel, X)
        warn_of_lengthscale(kernel, points)
        return Gram(kernel, points if points.home == "host" else HostedPoints(points))

    def _weighted_kernel(self, X: Any, weights: np.ndarray) -> Kernel:
        """The kernel of the parameters; gamma="scale" takes the variance of weighted points."""
        named = isinstance(self.kernel, str) and not self._is_precomputed() and hasattr(X, "shape")
        if not named:
            return self._resolved_kernel(X)
        gamma: Any = self.gamma
        if isinstance(gamma, str):
            gamma = {"scale": lambda: _scale_gamma(X, weights), "auto": lambda: 1.0 / X.shape[1]}
            gamma = gamma.get(self.gamma, lambda: self.gamma)()
        self._gamma = gamma  # where users of scikit-learn look for it
        options: Any = {"gamma": gamma, "degree": self.degree, "coef0": self.coef0}
        return as_kernel(self.kernel, X=X, allow_indefinite=True, **options)

    def _solver(self, points: int) -> DualAscent:
        cache = None if self.cache_size is None else int(self.cache_size * (1 << 20))
        solver = DualAscent(
            TUNING.gap_of_tol * float(self.tol),
            cache=cache,
            shrinking=None if self.shrinking else False,
            by_weights=False,  # dual_coef_ is the dual solution
        )
        limit = solver.limit(points) if self.max_iter == -1 else int(self.max_iter)
        stopping = stopping_rule(self) if getattr(self, "early_stopping", False) else None
        return replace(solver, max_iterations=limit, stopping=stopping, time_limit=self.time_limit)

    def _supported(
        self, gram: Gram, support: np.ndarray, coefficients: np.ndarray, unit: float
    ) -> dict[str, Any]:
        """The support, and its function where the points are.

        It is in their precision, unless that would show beside numbers of the size `unit`.
        """
        points: Any = gram.x.take(support)
        wide = points.dtype == np.float32 and loses_digits(
            np.abs(as_numpy(Gram(gram.kernel, points).diagonal())), coefficients, unit
        )
        if not wide:
            coefficients = coefficients.astype(points.dtype, copy=False)
        points = points.there if isinstance(points, HostedPoints) else points
        return {
            "kernel_": gram.kernel,
            "support_": support.astype(np.int32),
            "support_vectors_": np.empty((0, 0)) if self._is_precomputed() else points.data,
            "function_": RKHSFunction(gram.kernel, points, points.vector(coefficients)),
        }

    def _of_one(
        self, gram: Gram, alpha: np.ndarray, intercept: float, unit: float
    ) -> dict[str, Any]:
        """The attributes of a machine with one output, for targets of the size `unit`."""
        support = np.flatnonzero(alpha)
        return {
            **self._supported(gram, support, alpha[support], unit),
            "dual_coef_": _as_sparse_as(gram.x, alpha[support][None, :]),
            "intercept_": np.array([intercept]),
            "n_support_": np.array([len(support)], np.int32),
        }

    @property
    def coef_(self) -> Any:
        """w of f(x) = ⟨w, x⟩, a row for each machine: of the linear kernel only; read-only."""
        function = getattr(self, "function_", None)
        if function is None or not isinstance(function.kernel, Linear):
            raise AttributeError("coef_ is only available for a fitted model with a linear kernel.")
        coefficients = as_numpy(function.coefficients).reshape(len(function.coefficients), -1).T
        points = function.points.host()
        weights = _as_sparse_as(points, coefficients) @ points.data
        (weights.data if scipy.sparse.issparse(weights) else weights).flags.writeable = False
        return weights

    def _keep(self, attributes: dict[str, Any], *statuses: Status) -> None:
        """Set what was learned; print how it ended where that is asked for; warn if it failed."""
        if self.verbose:  # as libsvm does: to the terminal
            print("\n".join(f"{type(self).__name__}: {status}" for status in statuses))
        if self.max_iter != -1:
            statuses = tuple(map(self._ended_early, statuses))
        keep(self, attributes, *statuses)

    def _ended_early(self, status: Status) -> Status:
        """The status of a solver that ended at max_iter, in the words that people search for."""
        if status.converged or status.witness is not None:
            return status
        words = (
            f"Solver terminated early (max_iter={self.max_iter}).  Consider pre-processing your "
            "data with StandardScaler or MinMaxScaler."
        )
        return replace(status, message=f"{words} {status.message}", advice="Or raise max_iter.")

    def _values(self, X: Any) -> np.ndarray:
        """f(x) for every row of X, without intercepts."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        if self._is_precomputed():
            return X[:, self.support_] @ self.function_.coefficients
        return as_numpy(self.function_(beside_centres(self, X, self.function_)))

    def __sklearn_is_fitted__(self) -> bool:
        return not {"function_", "table_"}.isdisjoint(vars(self))


def masked(sample_weight: Any) -> Any:
    """Weights of which those below 0 count as 0, as in libsvm: such rows are left out."""
    if sample_weight is None:
        return None
    weights = np.asarray(hosted(sample_weight)[0], np.float64)
    if (weights <= 0).all():
        raise ValueError("Invalid input - all samples have zero or negative weights.")
    return np.maximum(weights, 0.0)


def _as_sparse_as(points: Any, coefficients: np.ndarray) -> Any:
    """Coefficients of sparse points as a sparse matrix, as in scikit-learn."""
    sparse = isinstance(points, SparsePoints)
    return scipy.sparse.csr_matrix(coefficients) if sparse else coefficients


def check_infinite_or_number(owner: Any, name: str) -> None:
    """Refuse anything but a number above 0, or infinity."""
    value = getattr(owner, name)
    if not (isinstance(value, Real) and value == np.inf):
        check_number(owner, name)


def check_number(owner: object, name: str, at_most: float = np.inf) -> None:
    """Refuse anything but a finite number above 0, and at most a bound."""
    value = getattr(owner, name)
    if not (is_number(value) and 0.0 < float(value) <= at_most and np.isfinite(value)):
        limit = "" if np.isinf(at_most) else f" and at most {at_most:g}"
        raise ValueError(f"{name} must be a number above 0{limit}; got {value!r}.")


def _scale_gamma(X: Any, weights: np.ndarray) -> float:
    """1/(columns · variance of the entries), a row of weight 2 counting twice."""
    with np.errstate(over="ignore"):  # said below
        variance = variance_of_entries(X, weights)
    if not np.isfinite(variance):
        raise ValueError(
            "The dual coefficients or intercepts are not finite: the variance of X, which "
            'gamma="scale" needs, overflows. Scale the columns, as with MaxAbsScaler.'
        )
    return 1.0 / (X.shape[1] * variance) if variance else 1.0


@dataclass(eq=False, repr=False)
class SupportVectorClassifier(SupportVectorMachine):
    """Machines for pairs of classes, and their votes."""

    _: KW_ONLY
    probability: bool | str = "deprecated"
    class_weight: dict[Any, float] | str | None = None
    decision_function_shape: str = "ovr"
    break_ties: bool = False
    random_state: Seed = None
    classes_: np.ndarray = field(init=False)
    class_weight_: np.ndarray = field(init=False)
    table_: RKHSFunction = field(init=False)  # of many classes: libsvm's, a function for each other
    machines_: Machines = field(init=False)  # of many classes: what statuses_ and solutions_ say

    predict_proba, predict_log_proba = predict_proba, predict_log_proba

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit one machine for each pair of classes."""
        gram, X, y, weights, classes, codes, factors = self._posed(X, y, sample_weight)
        costs = weights * factors[codes]
        pairs = OneVersusOne.of(with_stored_pairs(gram), codes, len(classes), costs)
        solver = self._solver(len(codes))
        task = FitTask.root(self, X, y, weights, len(pairs.pairs))
        listening = task if task.has_callbacks else None
        quick = solver.stopping is None and solver.time_limit is None
        hinges = self._hinge_costs(costs) if quick else None
        machines = pairs.solve(self._problem, solver, listening, hinges)
        attributes = self._attributes(gram, pairs, machines)
        attributes |= {"classes_": classes, "class_weight_": factors}
        if solver.stopping is not None:
            scores = [validation_scores(machine.solution) for machine in machines]
            attributes["validation_scores_"] = scores[0] if len(scores) == 1 else scores
        attributes |= calibrated(self, X, y, weights)
        reported = range(len(machines)) if self.verbose else machines.unsolved()
        self._keep(attributes, *(machines[k].solution.status for k in reported))
        task.end(lambda: attributes)
        return self

    def _posed(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        """K, the checked data, and a factor of C for each class."""
        self._check_parameters()
        X, y, weights = admit_labels(self, X, y, masked(sample_weight))
        classes, codes = np.unique(y, return_inverse=True)
        weights = np.ones(len(y)) if weights is None else weights
        factors = self._class_weights(classes, codes, weights)
        self._check_classes(classes, codes, weights * factors[codes])
        return self._gram(X, weights), X, y, weights, classes, codes, factors

    def _foreseen(self, X: Any, y: Any, sample_weight: Any) -> Choice:
        gram, *_, classes, _, _ = clone(self)._posed(X, y, sample_weight)
        pairs = len(classes) * (len(classes) - 1) // 2
        some = 2 * gram.shape[0] // len(classes)  # of a pair
        C = getattr(self, "C", None)
        return self._one(gram[:some, :some], Hinge(), C and 1.0 / C, pairs)

    def _problem(self, gram: Gram, y: np.ndarray, weights: np.ndarray) -> Problem:
        """The problem of a pair of classes with labels y = ±1."""
        raise NotImplementedError

    def _hinge_costs(self, weights: np.ndarray) -> np.ndarray | None:
        """Factors of the hinge loss, where the machines minimise that and ½‖f‖²."""
        return None

    # ---- checks ---------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.decision_function_shape not in SHAPES:
            raise ValueError(
                f'decision_function_shape must be "ovr" or "ovo"; got '
                f"{self.decision_function_shape!r}."
            )

    def _check_classes(self, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs points of at least two classes; got 1 class, "
                f"{classes[0]!r}."
            )
        missing = classes[np.bincount(codes, weights, minlength=len(classes)) == 0]
        if len(missing):
            one = "Invalid input - all samples with positive weights belong to the same class"
            several = "every class needs a point with positive weight"
            wrong = one if len(classes) - len(missing) == 1 else several
            raise ValueError(f"{wrong}; class {missing.tolist()[0]!r} has none.")

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

    def _attributes(self, gram: Gram, pairs: OneVersusOne, machines: Machines) -> dict[str, Any]:
        table = _stacked(pairs, machines)
        supports: Any = table.any(axis=0)
        support, bounds = pairs.order[supports], pairs.bounds.tolist()
        inside = [np.count_nonzero(supports[a:b]) for a, b in pairwise(bounds)]
        counts = np.array(inside, np.int32)
        table, binary = table[:, supports], len(machines) == 1
        intercepts = machines.intercepts
        if binary:  # positive for the second class, as in scikit-learn
            table, intercepts = -table, -intercepts
        supported = self._supported(gram, support, table[0] if binary else table.T, 1.0)
        if len(machines) > TUNING.few_pairs:
            supported["table_"] = supported.pop("function_")
            supported["machines_"] = machines
        else:
            supported |= _reports(machines)
        if 1 < len(machines) <= TUNING.few_pairs:
            supported["function_"] = _of_pairs(supported["function_"], counts)
        return {
            **supported,
            "n_support_": counts,
            "intercept_": intercepts,
            "dual_coef_": _as_sparse_as(gram.x, table),
            "n_iter_": machines.steps,
        }

    if not TYPE_CHECKING:  # for which every name would be an attribute

        def __getattr__(self, name: str) -> Any:
            """With many classes what there is of each pair is made when it is asked for."""
            if name == "function_" and "table_" in vars(self):
                return _of_pairs(self.table_, self.n_support_)
            if name in ("statuses_", "solutions_") and "machines_" in vars(self):
                return _reports(self.machines_)[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # ---- predictions ----------------------------------------------------------------------------

    def _values(self, X: Any) -> np.ndarray:
        """f(x) of each pair of classes."""
        check_is_fitted(self)
        if "function_" in vars(self):
            return super()._values(X)
        return np.concatenate(list(self._strips(X)))

    def _strips(self, X: Any) -> Iterator[np.ndarray]:
        """f(x) of many pairs of classes, for some rows of X at a time.

        A support vector is in the pairs of its class alone, so that sums are class by class. Pairs
        are the rows of what is stored: those of a class and later ones are neighbours.
        """
        X, f = self._checked(X, reset=False), self.table_
        points = None if self._is_precomputed() else f.kernel.points(beside_centres(self, X, f))
        coefficients, spans_of = as_numpy(f.coefficients), _spans(self.n_support_)
        classes = np.arange(len(spans_of))
        starts = classes * (2 * len(classes) - classes - 1) // 2  # of the pairs of a class
        numbers = len(coefficients) + len(self.intercept_) + 3 * len(classes)
        rows = max(1, TUNING.strip_bytes // (8 * numbers))
        for start, stop in spans(length(X), rows):
            if points is None:
                matrix = X[start:stop, self.support_]
            else:
                part = Gram(f.kernel, points.slice(start, stop), f.points)
                matrix = as_numpy(part.astype(coefficients.dtype).dense())
            values = np.zeros((len(self.intercept_), stop - start), matrix.dtype)
            for c, span in enumerate(spans_of):
                sums = coefficients[span].T @ matrix[:, span].T
                values[starts[c] : starts[c] + len(sums) - c] += sums[c:]
                values[starts[:c] + (c - 1 - classes[:c])] += sums[:c]
            yield values.T

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of right labels."""
        return float(super().score(*hosted(X, y), sample_weight))  # type: ignore[misc]

    def _decisions(self, values: np.ndarray) -> np.ndarray:
        """f(x) + b of each pair of classes, positive for the first; of two, for the second."""
        intercepts = self.intercept_.astype(values.dtype)
        if values.ndim == 1:
            return values + intercepts[0]
        # of kernel values that vanish as float64 the sign is rounding, and no vote
        seen = np.abs(values) >= np.finfo(values.dtype).tiny
        return np.where(seen, values, 0.0) + intercepts

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the classes ("ovr") or of pairs of them ("ovo"); of two, of the second."""
        decisions = self._decisions(self._values(X))
        if decisions.ndim > 1 and self.decision_function_shape == "ovr":
            decisions = _ovr_decision_function(decisions < 0, -decisions, len(self.classes_))
        return answered(decisions, X)

    def predict(self, X: Any) -> np.ndarray:
        """The class with the most votes; the first of those that share them, or see break_ties."""
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError(
                "break_ties must be False when decision_function_shape is 'ovo': scores of classes "
                'break ties, so write decision_function_shape="ovr".'
            )
        check_is_fitted(self)
        strips = [self._values(X)] if "function_" in vars(self) else self._strips(X)
        winners = [self._winners(self._decisions(values)) for values in strips]
        return answered(self.classes_[np.concatenate(winners)], X)

    def _winners(self, decisions: np.ndarray) -> np.ndarray:
        """The number of each point's class."""
        if decisions.ndim == 1:
            return (decisions > 0).astype(int)
        count = len(self.classes_)
        if self.break_ties:
            scores = _ovr_decision_function(decisions < 0, -decisions, count)
        else:
            scores = votes(decisions, count)
        return scores.argmax(axis=1)


def votes(decisions: np.ndarray, classes: int) -> np.ndarray:
    """How many pairs each class wins."""
    wins, stop = np.zeros((classes, len(decisions)), np.int64), 0
    for i in range(classes - 1):
        start, stop = stop, stop + classes - 1 - i
        against = decisions[:, start:stop].T  # later classes
        wins[i] += np.count_nonzero(against > 0, axis=0)
        wins[i + 1 :] += against <= 0
    return wins.T


def _stacked(pairs: OneVersusOne, machines: Machines) -> np.ndarray:
    """libsvm's table: row r of a point of class c belongs to the r-th of the other classes.

    Points are in the order of their classes.
    """
    table, bounds = np.zeros((max(1, pairs.classes - 1), len(pairs.order))), pairs.bounds.tolist()
    both = pairs.sizes[np.array(pairs.pairs)]
    mine = np.repeat(np.tile([True, False], len(both)), both.ravel())
    firsts, seconds = machines.alphas[mine], machines.alphas[~mine]
    put = [0, 0]  # how many of each are in the table
    for i in range(pairs.classes - 1):  # a class with all later ones, not pair by pair
        own, later = slice(*bounds[i : i + 2]), slice(bounds[i + 1], bounds[-1])
        block = table[i:, own]
        block[:] = firsts[put[0] : put[0] + block.size].reshape(block.shape)
        table[i, later] = seconds[put[1] : put[1] + later.stop - later.start]
        put = [put[0] + block.size, put[1] + later.stop - later.start]
    return table


def _reports(machines: Machines) -> dict[str, list[Any]]:
    """How each pair was solved."""
    solutions = [machine.solution for machine in machines]
    return {"statuses_": [one.status for one in solutions], "solutions_": solutions}


def _spans(counts: np.ndarray) -> list[slice]:
    """Where the support vectors of each class are."""
    ends = np.cumsum(counts)
    return [slice(int(end - count), int(end)) for end, count in zip(ends, counts, strict=True)]


def _of_pairs(table: RKHSFunction, counts: np.ndarray) -> RKHSFunction:
    """A function for each pair of classes, from those of libsvm's table."""
    spans, rows = _spans(counts), as_numpy(table.coefficients)
    pairs = list(combinations(range(len(counts)), 2))
    columns = np.zeros((len(rows), len(pairs)), rows.dtype)
    for k, (i, j) in enumerate(pairs):
        columns[spans[i], k] = rows[spans[i], j - 1]
        columns[spans[j], k] = rows[spans[j], i]
    return RKHSFunction(table.kernel, table.points, table.points.vector(columns))


@dataclass(eq=False, repr=False)
class SVC(SupportVectorClassifier, ClassifierMixin, BaseEstimator):
    """Support vector classification: min C Σ_i w_i max(1 − y_i(f(x_i) + b), 0) + ½‖f‖² over f, b.

    It replaces scikit-learn's estimator of the same name. Several classes are decided by one-vs-one
    voting. mercer's λ is 1/(CΣw).

    Parameters
    ----------
    C : float, default=1.0
        C > 0. With C = ∞ f must separate the classes; `fit` raises an error where none does.
    kernel, degree, gamma, coef0, shrinking, tol, cache_size, verbose, max_iter, time_limit :
        As in `SVR`.
    probability : bool, optional
        True gives `predict_proba`, by `CalibratedClassifierCV(SVC(), ensemble=False)`; as in
        scikit-learn this is deprecated: write that, or `KernelLogisticRegression`.
    class_weight : dict, "balanced" or None, default=None
        Factors of C for each class; "balanced" gives all classes the same total weight.
    decision_function_shape : "ovr" or "ovo", default="ovr"
        Whether `decision_function` has a column for each class, or for each pair of classes.
    break_ties : bool, default=False
        Whether `predict` breaks ties of votes by scores.
    random_state : int, RandomState instance or None
        Shuffles the rows where `probability` calibrates, and draws those that are held out.
    early_stopping, validation_fraction, n_iter_no_change :
        As in `SVR`, with the hinge loss; each pair of classes is a problem of its own, and ends at
        its own best round. C must be finite.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, coef_, intercept_, classes_, n_iter_ :
        As in scikit-learn.
    validation_scores_ : array, or list of arrays
        With early stopping, as in `SVR`; one for each pair of several classes.
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

    _: KW_ONLY
    C: float = 1.0
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_infinite_or_number(self, "C")
        if self.early_stopping and np.isinf(self.C):
            raise ValueError(
                "early_stopping needs a finite C: with C = ∞ only a function that separates all "
                "classes is a solution, and none on the way to it is."
            )

    def _problem(self, gram: Gram, y: np.ndarray, weights: np.ndarray) -> Problem:
        return Problem(gram, y, Hinge(), 1.0 / (self.C * weights.sum()), weights, True)

    def _hinge_costs(self, weights: np.ndarray) -> np.ndarray | None:
        return self.C * weights


@dataclass(eq=False, repr=False)
class NuSVC(SupportVectorClassifier, ClassifierMixin, BaseEstimator):
    """Classification with a share ν: min ½‖f‖² − νρΣw + Σ_i w_i max(ρ − y_i(f(x_i) + b), 0).

    At most a share ν of the weight has a margin below ρ, and at least that share are support
    vectors. f and b are divided by ρ at the end, so that it is `SVC` with C = 1/ρ. It replaces
    scikit-learn's estimator of the same name, and also uses `class_weight`.

    Parameters
    ----------
    nu : float, default=0.5
        0 < ν ≤ 1; for classes of different weight less than twice the share of the lighter one.
    kernel, degree, gamma, coef0, shrinking, probability, tol, cache_size, class_weight, verbose, \
max_iter, time_limit, decision_function_shape, break_ties, random_state :
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

    _: KW_ONLY
    nu: float = 0.5

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number(self, "nu", at_most=1.0)

    def _check_classes(self, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        """Before any kernel value is computed."""
        sums = np.sort(np.bincount(codes, weights))
        largest = 2 * sums[0] / (sums[0] + sums[-1])
        if self.nu > largest * (1 + 1e-12) and len(classes) > 1:
            raise ValueError(
                f"specified nu is infeasible: got nu={self.nu:g}, and with the weights of these "
                f"classes it can be at most {largest:.4g}, twice the share of the lighter class of "
                "a pair."
            )
        super()._check_classes(classes, codes, weights)

    def _problem(self, gram: Gram, y: np.ndarray, weights: np.ndarray) -> Problem:
        return Problem.nu_classifier(gram, y, self.nu, weights)


@dataclass(eq=False, repr=False)
class SupportVectorRegressor(SupportVectorMachine):
    """One machine for real targets."""

    _: KW_ONLY
    C: float = 1.0

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit f and b to real targets y."""
        gram, X, y, weights = self._posed(X, y, sample_weight)
        task = FitTask.root(self, X, y, weights, None)
        unit = float(y.std()) or float(np.abs(y).max()) or 1.0

        def attributes(found: Any) -> dict[str, Any]:
            return self._of_one(gram, found.coefficients, np.ravel(found.intercept)[0], unit)

        solver = with_progress(self._solver(len(y)), task, attributes)
        solution = self._solved(solver, with_stored_pairs(gram), y, weights)
        fitted = attributes(solution)
        fitted |= {"n_iter_": solution.history["steps"][0], "solution_": solution}
        self._keep(fitted, solution.status)
        task.end(lambda: fitted)
        return self

    def _posed(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        """K and the checked data."""
        self._check_parameters()
        X, y, weights = admit_numbers(self, X, y, masked(sample_weight))
        (y,) = hosted(y)
        y = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=np.float64)
        weights = np.ones(len(y)) if weights is None else weights
        return self._gram(X, weights), X, y, weights

    def _foreseen(self, X: Any, y: Any, sample_weight: Any) -> Choice:
        gram, _, y, weights = clone(self)._posed(X, y, sample_weight)
        loss = EpsilonInsensitive(float(getattr(self, "epsilon", 0.0)))
        ridge = relative_ridge(1.0 / (self.C * float(weights.sum())), loss, y, weights)
        return self._one(gram, loss, ridge)

    def _solved(
        self, solver: DualAscent, gram: Gram, y: np.ndarray, weights: np.ndarray
    ) -> Solution:
        """α, and b first among the intercepts."""
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """f(x) + b for every row of X."""
        values = self._values(X)
        return answered(values + values.dtype.type(self.intercept_[0]), X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions."""
        return float(super().score(*hosted(X, y), sample_weight))  # type: ignore[misc]


@dataclass(eq=False, repr=False)
class SVR(SupportVectorRegressor, RegressorMixin, BaseEstimator):
    """Support vector regression: min C Σ_i w_i max(|y_i − f(x_i) − b| − ε, 0) + ½‖f‖² over f and b.

    It replaces scikit-learn's estimator of the same name. mercer's λ is 1/(CΣw).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        A kernel of mercer, a name of scikit-learn's, "precomputed", or a function of two points or
        two blocks. One that is not positive definite, as "sigmoid", gets a stationary point, as in
        libsvm, and an `IndefiniteKernelWarning`.
    degree, gamma, coef0 :
        Parameters of named kernels, as in scikit-learn; with weights, gamma="scale" takes the
        variance of weighted points.
    tol : float, default=1e-3
        The solver stops at a relative duality gap of tol/10, about as exact as libsvm at tol.
    C, epsilon : float, default=1.0 and 0.1
        C > 0, also ∞, and ε ≥ 0.
    shrinking : bool, default=True
        Whether coefficients that rest at a bound may be left alone for a while, where that pays;
        the gap counts all.
    verbose : bool, default=False
        Whether to print how the solver ended.
    cache_size : float or None, default=None
        Megabytes for rows of the kernel; None for the memory budget.
    max_iter : int, default=-1
        How many steps to take at most; −1 for 100,000 + 1,000 for each point, at most
        ten million. A fit that ends there warns, and says what to do.
    time_limit : float, optional
        Seconds after which to stop at the end of a round; pairs of several classes share it.
    early_stopping : bool, default=False
        Whether to hold rows out and return the round of the solver that predicts them best. A round
        brings about 1,000 coefficients to their best values, so that few points take few rounds.
    validation_fraction : float, default=0.1
        The share of rows that is held out.
    n_iter_no_change : int, default=10
        Stop after this many rounds without a better score.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, coef_, intercept_, n_iter_ :
        As in scikit-learn.
    validation_scores_ : array
        With early stopping, minus the mean loss of the held-out rows before the first round and
        after each; `mercer.plotting.HistoryDisplay` draws it.
    function_ : RKHSFunction
        f, without the intercept.
    solution_ : Solution
        How the solver ended, with the true duality gap.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> model = SVR(C=100.0, epsilon=0.01).fit(X, X[:, 0] ** 2)
    >>> bool(np.abs(model.predict(X) - X[:, 0] ** 2).max() < 0.011)
    True
    """

    _: KW_ONLY
    C: float = 1.0
    epsilon: float = 0.1
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_infinite_or_number(self, "C")

    def _solved(
        self, solver: DualAscent, gram: Gram, y: np.ndarray, weights: np.ndarray
    ) -> Solution:
        C = self.C if np.isfinite(self.C) else TUNING.infinite * (1.0 + np.abs(y).max())
        loss = EpsilonInsensitive(float(self.epsilon))
        problem = Problem(gram, y, loss, 1.0 / (C * weights.sum()), weights, True)
        return replace(solver.solve(problem), asked=problem.asked)


@dataclass(eq=False, repr=False)
class NuSVR(SupportVectorRegressor, RegressorMixin, BaseEstimator):
    """Regression with a share ν: min C Σ_i w_i (νε + max(|y_i − f(x_i) − b| − ε, 0)) + ½‖f‖².

    The minimum is over f, b and ε ≥ 0: at most a share ν of the weight lies outside the tube of
    width ε, and at least that share are support vectors. It is `SVR` with that ε, and replaces
    scikit-learn's estimator of the same name.

    Parameters
    ----------
    nu : float, default=0.5
        0 < ν ≤ 1.
    C : float, default=1.0
        C > 0.
    kernel, degree, gamma, coef0, shrinking, tol, cache_size, verbose, max_iter, time_limit :
        As in `SVR`.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, coef_, intercept_, n_iter_, function_, \
solution_ :
        As in `SVR`; the intercept of the solution is (b, ε).

    References
    ----------
    B. Schölkopf, A. J. Smola, R. C. Williamson, P. L. Bartlett, New support vector algorithms,
    2000.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> model = NuSVR(nu=0.3).fit(X, np.sin(6 * X[:, 0]))
    >>> outside = np.abs(np.sin(6 * X[:, 0]) - model.predict(X)) > model.epsilon_ + 1e-9
    >>> bool(outside.mean() <= 0.3 <= model.n_support_[0] / 20)
    True
    """

    _: KW_ONLY
    nu: float = 0.5
    C: float = 1.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number(self, "C")
        check_number(self, "nu", at_most=1.0)

    def _solved(
        self, solver: DualAscent, gram: Gram, y: np.ndarray, weights: np.ndarray
    ) -> Solution:
        return nu_regression(solver, gram, y, float(self.nu), self.C * weights)

    @property
    def epsilon_(self) -> float:
        """ε, half the width of the tube."""
        return float(self.solution_.intercept[1])


@dataclass(eq=False, repr=False)
class OneClassSVM(SupportVectorMachine, OutlierMixin, BaseEstimator):
    """A function that is large where points are: min ½‖f‖² − νρΣw + Σ_i w_i max(ρ − f(x_i), 0).

    A point belongs to the class where f(x) ≥ ρ. At most a share ν of the weight lies outside, and
    at least that share are support vectors. It replaces scikit-learn's estimator of the same name.

    Parameters
    ----------
    kernel, degree, gamma, coef0, tol, shrinking, cache_size, verbose, max_iter, time_limit :
        As in `SVR`.
    nu : float, default=0.5
        0 < ν ≤ 1.

    Attributes
    ----------
    offset_ : float
        ρ; `decision_function` is f(x) − ρ and `score_samples` is f(x).
    support_, support_vectors_, n_support_, dual_coef_, intercept_, n_iter_, function_, status_ :
        As in `SVR`; the status says how the solver ended.

    References
    ----------
    B. Schölkopf, J. C. Platt, J. Shawe-Taylor, A. J. Smola, R. C. Williamson, Estimating the
    support of a high-dimensional distribution, 2001.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((100, 2))
    >>> model = OneClassSVM(nu=0.1).fit(X)
    >>> float((model.predict(X) == -1).mean()) <= 0.1
    True
    """

    _: KW_ONLY
    nu: float = 0.5
    offset_: float = field(init=False)

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit f and ρ; y is not used."""
        gram, X, weights = self._posed(X, sample_weight)
        task = FitTask.root(self, X, y, weights, None)

        def fitted(alpha: np.ndarray, level: float) -> dict[str, Any]:
            return {**self._of_one(gram, alpha, -level, abs(level) or 1.0), "offset_": level}

        solver = with_progress(
            self._solver(len(weights)), task, lambda s: fitted(s.coefficients, -float(s.intercept))
        )
        solution = solver.solve(Problem.one_class(with_stored_pairs(gram), self.nu, weights))
        attributes = fitted(solution.coefficients, -float(solution.intercept))
        attributes |= {"n_iter_": solution.history["steps"][0], "status_": solution.status}
        self._keep({**attributes, "solution_": solution}, solution.status)
        task.end(lambda: attributes)
        return self

    def _posed(self, X: Any, sample_weight: Any) -> tuple[Any, ...]:
        """K and the checked data."""
        self._check_parameters()
        check_number(self, "nu", at_most=1.0)
        X, weights = admit_points(self, X, masked(sample_weight))
        weights = np.ones(length(X)) if weights is None else weights
        return self._gram(X, weights), X, weights

    def _foreseen(self, X: Any, y: Any, sample_weight: Any) -> Choice:
        return self._one(clone(self)._posed(X, sample_weight)[0], Hinge())

    def score_samples(self, X: Any) -> np.ndarray:
        """f(x) for every row of X, ρ where the difference is only rounding."""
        return answered(self._scores(X), X)

    def _scores(self, X: Any) -> np.ndarray:
        values = self._values(X)
        offset = values.dtype.type(self.offset_)
        values[np.abs(values - offset) <= BOUNDARY[values.dtype.name] * abs(offset)] = offset
        return values

    def decision_function(self, X: Any) -> np.ndarray:
        """f(x) − ρ for every row of X: negative for outliers."""
        values = self._scores(X)
        return answered(values - values.dtype.type(self.offset_), X)

    def predict(self, X: Any) -> np.ndarray:
        """1 for points of the class and on its boundary, −1 for outliers."""
        values = self._scores(X)
        return answered(np.where(values >= values.dtype.type(self.offset_), 1, -1), X)
