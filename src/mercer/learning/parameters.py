"""Learning a kernel's parameters, and the ridge, by gradients of leave-one-out or likelihood.

Positive parameters move on a log scale. The entries of a linear map move as they are, in units in
which its images vary by 1.

With A = SKS + ρI, S = diag(√w), G = A⁻¹ and c = G S y, both criteria are functions of K and ρ, and
dJ = Σ_ij P_ij dK_ij + (tr P')dρ for a matrix of weights P = S P' S:

- leave-one-out misses e_i = c_i/G_ii, and J = Σ e_i²/Σw has
  P' = G diag(v) G − ½(c uᵀG + G u cᵀ), u = 2e/(Σw·G_ii), v = 2e²/(Σw·G_ii);
- minus the log marginal likelihood, J = ½cᵀSy + ½ log det A + ½n log 2π, has P' = ½(G − c cᵀ).

A point of weight w is one whose noise has variance ρ/w. Several outputs are added up.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import Bounds, minimize

from mercer import linalg
from mercer.arrays import Array, namespace, to_precision
from mercer.checks import check_count, check_positive, is_number
from mercer.errors import NotPositiveDefiniteError
from mercer.evaluation.expression import numbers_of
from mercer.evaluation.parameters import keeps_form, real_parameters
from mercer.kernels.algebra import Scaled, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.input_maps import LinearMap
from mercer.learning.fits import Sample, column_deviations
from mercer.learning.metric import Form, Metric, blocks_of
from mercer.learning.rounds import typical_scale
from mercer.linalg.matrices import diagonal
from mercer.operators import Gram
from mercer.points import VectorPoints
from mercer.runtime.threads import single_threaded_blas, spans


@dataclass(frozen=True)
class Tuning:
    """Bounds of the search for parameters, and its memory."""

    reach: float = math.log(1e5)  # how far a parameter may move from where it began, on a log
    # scale: a column that does not matter would else get an infinite lengthscale
    memory: int = 20  # steps that L-BFGS remembers: evaluations cost far more, and 10 take an
    # eighth more of them
    least_error: float = 1e-30  # beside squares of targets of variance 1: 0 has no logarithm
    least_ridge: float = 1e-10  # relative to the mean of k(x, x) and the variance of the targets
    largest_ridge: float = 1e6
    strip: int = 64  # rows of a matrix that stay in a cache while they are changed


TUNING = Tuning()


# ---- the criteria --------------------------------------------------------------------------------

Criterion = Callable[[Array, Array, Array, float, float], tuple[float, Array]]


def leave_one_out(G: Array, c: Array, y: Array, logdet: float, total: float) -> tuple[float, Array]:
    """The mean square of what is missed by the fit on all other points, and P'."""
    xp = namespace(G)
    own = diagonal(G)[:, None]
    missed = c / own
    u, v = 2.0 * missed / (total * own), 2.0 * xp.sum(missed**2, axis=1) / (total * own[:, 0])
    across = c @ (G @ u).T
    weights = (G * v) @ G - 0.5 * (across + across.T)
    return float(xp.sum(missed**2)) / total, weights


def negative_log_likelihood(
    G: Array, c: Array, y: Array, logdet: float, total: float
) -> tuple[float, Array]:
    """−log p(y) of a Gaussian process with noise of variance ρ, and P' in place of G."""
    outputs = y.shape[1]
    value = float(namespace(y).sum(c * y)) + outputs * (logdet + len(y) * math.log(2.0 * math.pi))
    for start, stop in spans(len(y), TUNING.strip):  # without BLAS, whose threads would still wait
        part = G[start:stop, :]
        part *= 0.5 * outputs
        for k in range(outputs):
            part -= 0.5 * c[start:stop, k, None] * c[:, k]
    return 0.5 * value, G


class Slopes(NamedTuple):
    """The value of a criterion, and its derivatives in ρ and in parameters of the kernel."""

    value: float
    ridge: float
    parameters: dict[str, Any]


def slopes(
    criterion: Criterion,
    kernel: Kernel,
    sample: Sample,
    ridge: float,
    names: Collection[str] | None = None,
) -> Slopes:
    """A criterion on a sample, with its derivatives in all real parameters or in those named."""
    gram = Gram(kernel, sample.points).astype("float64")
    matrix, y = to_precision(gram.dense(), "float64"), sample.targets
    xp, total, roots = namespace(matrix), float(len(sample)), None
    if sample.weights is not None:
        roots, total = xp.sqrt(sample.weights), float(xp.sum(sample.weights))
        matrix, y = roots[:, None] * matrix * roots, roots[:, None] * y
    factor = linalg.cholesky(linalg.shift_diagonal(matrix, ridge), overwrite=True)
    logdet = factor.log_determinant()
    inverse = factor.inverse(overwrite=True)
    with single_threaded_blas():  # that of NumPy, while SciPy's has just ended
        c = inverse @ y
    value, weights = criterion(inverse, c, y, logdet, total)
    trace = float(xp.sum(diagonal(weights)))
    if roots is not None:
        weights = roots[:, None] * weights * roots
    return Slopes(value, trace, gram.parameter_gradient(weights, names=names))


# ---- what is learned by them ---------------------------------------------------------------------


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
    _criterion: ClassVar[staticmethod[..., tuple[float, Array]]]

    def __post_init__(self) -> None:
        check_positive(self, "ridge", self.ridge)
        check_positive(self, "tolerance", self.tolerance)
        check_count(self, "rows", self.rows)
        check_count(self, "iterations", self.iterations)
        if self.time_limit is not None and not (is_number(self.time_limit) and self.time_limit > 0):
            raise ValueError(f"time_limit must be seconds > 0, or None; got {self.time_limit!r}.")

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
        return _Search(self, kernel, [sample], TUNING.least_ridge, free).result()

    def learn_from(
        self, kernel: Kernel, samples: Sequence[Sample], least_ridge: float = TUNING.least_ridge
    ) -> LearnedParameters:
        """The same from samples whose criteria are added up, with the kernel as it is given."""
        return _Search(self, kernel, samples, least_ridge).result()


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

    _criterion = staticmethod(leave_one_out)


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

    _criterion = staticmethod(negative_log_likelihood)


class _Stopped(Exception):
    """The time is over, or the callback said so."""


class _Search:
    """The criterion as a function of the logarithms of parameters and ridge, and of linear maps."""

    def __init__(
        self,
        settings: _Descent,
        kernel: Kernel,
        samples: Sequence[Sample],
        least_ridge: float,
        free: np.ndarray | None = None,  # which entries of the kernel's map may move
    ) -> None:
        self.settings, self.kernel, self.samples = settings, kernel, samples
        self.began, self.history = time.perf_counter(), list[float]()
        values = real_parameters(kernel)
        self.names = _learnable(kernel, values, settings.parameters)
        self.names += ["matrix"] if free is not None else []
        self.shapes = [np.shape(values[name]) for name in self.names]
        parts = [np.ravel(values[name]) for name in self.names]
        numbers = np.concatenate([*parts, [settings.ridge]])
        self.logs, self.units = np.ones(len(numbers), bool), np.ones(len(numbers))
        if free is not None:
            entries, deviations = slice(-1 - free.size, -1), column_deviations(samples[0])
            self.logs[entries] = False
            deviations = np.where(deviations > 0, deviations, 1.0)
            self.units[entries] = np.tile(1.0 / deviations, len(free))
        self.start = numbers / self.units
        self.start[self.logs] = np.log(numbers[self.logs])
        low, high = self.start - TUNING.reach, self.start + TUNING.reach
        if free is not None:
            low[entries], high[entries] = np.where(np.ravel(free), [[-np.inf], [np.inf]], 0.0)
        low[-1], high[-1] = math.log(least_ridge), math.log(TUNING.largest_ridge)
        self.bounds, self.best = Bounds(low, high), (self.start, math.inf)

    def result(self) -> LearnedParameters:
        message = "stopped before it converged"
        steps, tolerance = self.settings.iterations, self.settings.tolerance
        try:
            found = minimize(
                self.value,
                self.start,
                jac=True,
                bounds=self.bounds,
                method="L-BFGS-B",
                callback=self.after,
                options={"maxiter": steps, "ftol": tolerance, "maxcor": TUNING.memory},
            )
            message = str(found.message)
        except _Stopped:
            pass
        theta, value = self.best
        kernel, ridge, _ = self.at(theta)
        return LearnedParameters(kernel, ridge, value, self.history, message)

    def at(self, theta: np.ndarray) -> tuple[Kernel, float, np.ndarray]:
        """The kernel and the ridge at some place, and how fast their numbers move with it."""
        numbers, rates = self.units * theta, self.units.copy()
        numbers[self.logs] = rates[self.logs] = np.exp(theta[self.logs])
        parts = np.split(numbers, np.cumsum([math.prod(shape) for shape in self.shapes]))
        changes: dict[str, Any] = {}
        for name, shape, part in zip(self.names, self.shapes, parts, strict=False):
            own = part.reshape(shape)
            changes[name] = own if own.ndim == 2 else tuple(own.tolist()) if shape else float(own)
        return self.kernel.with_(**changes), float(numbers[-1]), rates

    def value(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        settings, begun = self.settings, self.best[1] < math.inf
        limit, criterion = settings.time_limit, settings._criterion
        if begun and limit is not None and time.perf_counter() - self.began > limit:
            raise _Stopped
        try:
            kernel, ridge, rates = self.at(theta)
            found = [slopes(criterion, kernel, one, ridge, self.names) for one in self.samples]
        except (NotPositiveDefiniteError, ValueError):
            return 1e25, np.zeros(len(theta))  # beyond what can be computed: the step is too long
        value, gradient = 0.0, np.zeros(len(theta))
        for one in found:
            parts = [np.ravel(one.parameters[name]) for name in self.names]
            value += one.value
            gradient += np.concatenate([*parts, [one.ridge]]) * rates
        if value < self.best[1]:
            self.best = theta.copy(), value
        if criterion is leave_one_out:  # mean squares: steps and their end are relative to it
            return math.log(value + TUNING.least_error), gradient / (value + TUNING.least_error)
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
