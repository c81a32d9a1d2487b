"""Learning a kernel's parameters, and the ridge, by gradients of leave-one-out or likelihood.

Positive parameters move on a log scale. The entries of a linear map move as they are, in units in
which its images vary by 1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from mercer.arrays import namespace
from mercer.checks import check_count, check_positive, is_number
from mercer.errors import NotPositiveDefiniteError
from mercer.evaluation.expression import numbers_of
from mercer.evaluation.parameters import keeps_form, real_parameters
from mercer.kernels.algebra import Scaled, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.input_maps import LinearMap
from mercer.learning.criteria import Criterion, leave_one_out, negative_log_likelihood, slopes
from mercer.learning.fits import Sample, column_deviations
from mercer.learning.metric import Form, Metric, blocks_of
from mercer.learning.rounds import typical_scale
from mercer.points import VectorPoints

REACH = math.log(1e5)
"""How far a parameter may move from where it began, on a log scale: a column that does not matter
would else get an infinite lengthscale."""
MEMORY = 20
"""Steps that L-BFGS remembers: evaluations cost far more, and 10 take an eighth more of them."""
TINY = 1e-30  # of the squares of targets of variance 1, beside which errors of 0 have a logarithm
LEAST_RIDGE = 1e-10  # relative to the mean of k(x, x) and the variance of the targets


@dataclass(frozen=True, eq=False)
class LearnedParameters:
    """A learned kernel with its ridge, and the values of the criterion along the way.

    Attributes
    ----------
    kernel : Kernel
    alpha : float
        The ridge of `KernelRidge`; for a Gaussian process, the variance of the noise over that of
        the targets.
    value : float
        The criterion at the end, for targets of mean 0 and variance 1: the mean square of
        leave-one-out, or minus the log likelihood.
    history : list of float
        The criterion after each iteration.
    message : str
        How the search ended.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> from mercer.learning import MarginalLikelihood
    >>> X = np.linspace(0, 1, 30)[:, None]
    >>> learned = MarginalLikelihood(iterations=3).learn(Gaussian(), X, np.sin(6 * X[:, 0]))
    >>> learned.history[-1] <= learned.history[0], learned.alpha > 0
    (True, True)
    """

    kernel: Kernel
    alpha: float
    value: float
    history: list[float]
    message: str


@dataclass(frozen=True)
class _Descent:
    """L-BFGS over the logarithms of positive parameters and of the ridge, and over linear maps."""

    form: Form | None = "diagonal"
    parameters: Sequence[str] | None = None
    weights: bool = True
    ridge: float = 0.1
    rows: int = 2000
    iterations: int = 100
    tolerance: float = 1e-7
    time_limit: float | None = None
    random_state: Any = 0
    callback: Callable[[int, float], Any] | None = None

    def __post_init__(self) -> None:
        check_positive(self, "ridge", self.ridge)
        check_positive(self, "tolerance", self.tolerance)
        check_count(self, "rows", self.rows)
        check_count(self, "iterations", self.iterations)
        if self.time_limit is not None and not (is_number(self.time_limit) and self.time_limit > 0):
            raise ValueError(f"time_limit must be seconds > 0, or None; got {self.time_limit!r}.")

    @property
    def _criterion(self) -> Criterion:
        raise NotImplementedError

    def learn(self, kernel: Kernel, X: Any, y: Any, weights: Any = None) -> LearnedParameters:
        """The kernel with the parameters for which the criterion is least near where it began."""
        sample = Sample.of(kernel.points(X), y, weights)
        sample = sample.take(sample.drawn_rows(self.rows, self.random_state))
        if len(sample) < 2:
            raise ValueError("learning parameters needs two rows or more; got n_samples = 1.")
        sample = replace(sample, targets=_standardised(sample))
        groups, of_columns = None, isinstance(sample.points, VectorPoints)
        if not of_columns and self.form not in ("diagonal", None):
            raise ValueError(
                "a linear map is one of columns of numbers, which these points do not have: write "
                f"form=None; got form={self.form!r}."
            )
        if of_columns and self.form is not None:
            groups = blocks_of(self.form, sample.points.width)  # type: ignore[attr-defined]
            kernel = _adapted(kernel, sample, groups is None)
        if self.weights and isinstance(kernel, Sum):
            kernel = _weighted(kernel, 1.0 / _summands(kernel))
        free = None
        if groups is not None:
            kernel, free = _mapped(kernel, sample, groups)
        return _Search(self, self._criterion, kernel, [sample], LEAST_RIDGE, free).result()

    def learn_from(
        self, kernel: Kernel, samples: Sequence[Sample], least_ridge: float = LEAST_RIDGE
    ) -> LearnedParameters:
        """The same from samples whose criteria are added up, with the kernel as it is given."""
        return _Search(self, self._criterion, kernel, samples, least_ridge).result()


@dataclass(frozen=True)
class LeaveOneOut(_Descent):
    """Choose parameters by the exact leave-one-out error of ridge regression.

    Parameters
    ----------
    form : "diagonal", "full", list of groups of columns or None, default="diagonal"
        Whether a kernel with one lengthscale gets one for each column, which begin where half of
        all pairs have k < e^{−½}, each column in units of its deviation; or, beginning there, any
        linear map of the columns, or of those of each group; None leaves it as it is.
    parameters : list of names, optional
        Which are learned, as in `get_params()` of the learned kernel. By default all positive real
        ones, but those for which the kernel has a closed form at this value and not beside it, as
        the smoothness 1.5 of `Matern` and the exponent ½ of `StretchedExponential`: a kernel that
        is learned is to stay as fast. Whole numbers, as a degree, cannot be learned by gradients.
    weights : bool, default=True
        Whether each summand of a sum of kernels gets a factor ≥ 0 of its own, if it has none: this
        is multiple kernel learning.
    ridge : float, default=0.1
        Where the ridge begins, for targets of variance 1.
    rows : int, default=2000
        Rows that are learned from, at most; a step costs n³ operations.
    iterations : int, default=100
        Of L-BFGS, at most.
    tolerance : float, default=1e-7
        It ends where an iteration changes the criterion by less, relative to it.
    time_limit : float, optional
        Seconds after which no further step is begun.
    random_state : int, Generator, RandomState or None, default=0
        Draws the rows.
    callback : callable, optional
        Called as callback(iteration, value); True ends the search.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> X = np.random.default_rng(0).uniform(size=(100, 2))
    >>> learned = LeaveOneOut().learn(Gaussian(), X, np.sin(6 * X[:, 1]))
    >>> bool(learned.kernel.lengthscale[0] > 5 * learned.kernel.lengthscale[1])
    True
    """

    @property
    def _criterion(self) -> Criterion:
        return leave_one_out


@dataclass(frozen=True)
class MarginalLikelihood(_Descent):
    """Choose parameters by the log marginal likelihood of a Gaussian process with noise.

    The variance of the process is learned where the kernel has a factor, as `1.0 * Gaussian()`;
    else it is that of the targets. Parameters are those of `LeaveOneOut`.

    References
    ----------
    C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, 2006, section 5.4.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> X = np.random.default_rng(0).uniform(size=(100, 2))
    >>> learned = MarginalLikelihood().learn(1.0 * Gaussian(), X, np.sin(6 * X[:, 1]))
    >>> bool(learned.value == min(learned.history))
    True
    """

    @property
    def _criterion(self) -> Criterion:
        return negative_log_likelihood


class _Stopped(Exception):
    """The time is over, or the callback said so."""


class _Search:
    """The criterion as a function of the logarithms of parameters and ridge, and of linear maps."""

    def __init__(
        self,
        settings: _Descent,
        criterion: Criterion,
        kernel: Kernel,
        samples: Sequence[Sample],
        least_ridge: float,
        free: np.ndarray | None = None,
    ) -> None:
        self.settings, self.criterion, self.samples = settings, criterion, samples
        self.kernel, self.started = kernel, time.perf_counter()
        values = real_parameters(kernel)
        self.names = _learnable(kernel, values, settings.parameters)
        self.names += ["matrix"] if free is not None else []
        self.shapes = {name: np.shape(values[name]) for name in self.names}
        parts = [np.log(np.ravel(values[name])) for name in self.names if name != "matrix"]
        bounds = [(at - REACH, at + REACH) for part in parts for at in part]
        self.units = np.empty(0)  # of the entries of a map
        if free is not None:
            deviations = column_deviations(samples[0])
            self.units = np.tile(1.0 / np.where(deviations > 0, deviations, 1.0), len(free))
            parts.append(np.ravel(values["matrix"]) / self.units)
            bounds += [(None, None) if entry else (0.0, 0.0) for entry in np.ravel(free)]
        self.start = np.concatenate([*parts, [math.log(settings.ridge)]])
        self.bounds = [*bounds, (math.log(least_ridge), math.log(1e6))]
        self.best = self.start, math.inf
        self.history: list[float] = []

    def result(self) -> LearnedParameters:
        message = "stopped before it converged"
        options = {
            "maxiter": self.settings.iterations,
            "ftol": self.settings.tolerance,
            "maxcor": MEMORY,
        }
        try:
            found = minimize(
                self.value,
                self.start,
                jac=True,
                bounds=self.bounds,
                method="L-BFGS-B",
                callback=self.after,
                options=options,
            )
            message = str(found.message)
        except _Stopped:
            pass
        theta, value = self.best
        kernel, ridge, _ = self.at(theta)
        return LearnedParameters(kernel, ridge, value, self.history, message)

    def at(self, theta: np.ndarray) -> tuple[Kernel, float, np.ndarray]:
        """The kernel and the ridge at some place, and how fast their numbers move with it."""
        logarithms = len(theta) - 1 - len(self.units)
        numbers = np.exp(theta)
        numbers[logarithms:-1] = self.units * theta[logarithms:-1]
        rates = numbers.copy()
        rates[logarithms:-1] = self.units
        changes: dict[str, Any] = {}
        start = 0
        for name, shape in self.shapes.items():
            own = numbers[start : start + math.prod(shape)].reshape(shape)
            changes[name] = own if own.ndim == 2 else tuple(own.tolist()) if shape else float(own)
            start += own.size
        return self.kernel.with_(**changes), float(numbers[-1]), rates

    def value(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        limit, begun = self.settings.time_limit, self.best[1] < math.inf
        if begun and limit is not None and time.perf_counter() - self.started > limit:
            raise _Stopped
        try:
            kernel, ridge, rates = self.at(theta)
            found = [slopes(self.criterion, kernel, one, ridge, self.names) for one in self.samples]
        except (NotPositiveDefiniteError, ValueError):
            return 1e25, np.zeros(len(theta))  # beyond what can be computed: the step is too long
        value, gradient = 0.0, np.zeros(len(theta))
        for one in found:
            parts = [np.ravel(one.parameters[name]) for name in self.names]
            value += one.value
            gradient += np.concatenate([*parts, [one.ridge]]) * rates
        if value < self.best[1]:
            self.best = theta.copy(), value
        if self.criterion is leave_one_out:  # mean squares: steps and their end are relative to it
            return math.log(value + TINY), gradient / (value + TINY)
        return value, gradient

    def after(self, theta: np.ndarray) -> None:
        self.history.append(self.best[1])
        call = self.settings.callback
        if call is not None and call(len(self.history), self.best[1]):
            raise _Stopped


def _learnable(kernel: Kernel, values: dict[str, Any], asked: Sequence[str] | None) -> list[str]:
    """The names of parameters that move on a log scale: those asked for, or all that may."""
    positive = [n for n, v in values.items() if np.ndim(v) < 2 and np.all(np.asarray(v) > 0)]
    if asked is None:
        return [name for name in positive if keeps_form(kernel, name, values[name])]
    for name in asked:
        if name not in positive:
            raise ValueError(
                f"{name!r} of {kernel!r} is not a positive real number, and cannot be learned by "
                "gradients; compare some of its values instead, as by GridSearchCV. Those that can "
                f"are {positive}."
            )
    return list(asked)


def _standardised(sample: Sample) -> Any:
    """Targets of mean 0 and variance 1, each output on its own."""
    centred = sample.targets - sample.mean(sample.targets)
    xp = namespace(centred)
    deviations = xp.sqrt(sample.mean(centred**2))
    return centred / xp.where(deviations > 0, deviations, 1.0)


def _summands(kernel: Kernel) -> int:
    return _summands(kernel.left) + _summands(kernel.right) if isinstance(kernel, Sum) else 1


def _weighted(kernel: Kernel, factor: float) -> Kernel:
    """A sum whose every summand has a factor."""
    if isinstance(kernel, Sum):
        return Sum(_weighted(kernel.left, factor), _weighted(kernel.right, factor))
    return kernel if isinstance(kernel, Scaled) else Scaled(factor, kernel)


def _adapted(kernel: Kernel, sample: Sample, columns: bool) -> Kernel:
    """Lengthscales that are typical for these rows, one for each of the `columns` or one for all.

    One for all is in units of the columns' deviations. Kernels that look at some columns only, or
    at a map of them, stay as they are.
    """
    expression = kernel.expression()
    numbers = [] if expression is None else numbers_of(expression)
    if any(number.view.columns is not None or number.view.matrix for number in numbers):
        return kernel
    params = kernel.get_params(deep=True)
    metric = Metric.of_columns(column_deviations(sample))
    for name, value in params.items():
        owner, _, last = name.rpartition("__")
        if last == "lengthscale" and np.ndim(value) == 0:
            unit = (params[owner] if owner else kernel).with_(lengthscale=1.0)
            scale = typical_scale(unit, metric, sample)
            own = metric.applied(unit, scale).get_params()["lengthscale"] if columns else scale
            kernel = kernel.with_(**{name: own})
    return kernel


def _mapped(
    kernel: Kernel, sample: Sample, groups: Sequence[np.ndarray]
) -> tuple[Kernel, np.ndarray]:
    """The kernel after a map of all columns, and which of its entries may move.

    The map begins with every column in units of its deviation, or where that of the kernel is.
    """
    if isinstance(kernel, LinearMap):
        return kernel, np.ones(np.shape(kernel.matrix), bool)
    root = Metric.of_columns(column_deviations(sample)).root()
    free = np.eye(len(root), dtype=bool)
    for group in groups:
        free[np.ix_(group, group)] = True
    return LinearMap(kernel, np.diag(root)), free
