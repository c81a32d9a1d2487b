"""Kernel ridge regression, and its choice of regularisation by leave-one-out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_array

from mercer.arrays import as_numpy
from mercer.errors import ApproximationWarning, warn
from mercer.estimators.certified import from_data
from mercer.estimators.early_stopping import held_out_rule, stopping_rule
from mercer.estimators.fitting import (
    Formulation,
    explain_solver,
    formulation,
    formulation_on_blocks,
    keep,
    with_stored_pairs,
)
from mercer.estimators.inputs import (
    admit_numbers,
    admit_weights,
    forget,
    is_blocks,
)
from mercer.estimators.lengthscales import candidate_lengthscales, warn_of_edges
from mercer.estimators.progress import FitTask, with_callbacks
from mercer.estimators.ridge_paths import TUNING as PATHS
from mercer.estimators.ridge_paths import CentresPath, HeldOutPath
from mercer.estimators.uncertainty import RidgeUncertainty, advice_on_intercept
from mercer.features.bases import BaseEstimator, MultiOutputMixin, RegressorMixin
from mercer.features.centres import drawn
from mercer.features.inputs import KernelLike, length
from mercer.kernels.base import Kernel
from mercer.losses import Squared
from mercer.operators import Gram, cross_gram
from mercer.points import PointSet
from mercer.runtime.budget import in_words
from mercer.runtime.threads import side_by_side, spans, thread_count
from mercer.solvers import automatic
from mercer.solvers.direct import Direct
from mercer.solvers.problem import Problem, Solver
from mercer.solvers.solution import Solution
from mercer.solvers.spectral import SpectralPath


@dataclass(frozen=True)
class Tuning:
    """What a search takes, and when it is done on centres."""

    matrices: int = 5  # like K that an eigendecomposition takes: K, a copy, two of work, vectors
    path_fits: float = 0.4  # that an α of a path takes about as long as, where rows are held out
    path_fits_on_centres: float = 0.05  # the same on centres, where all α share every pass
    patience: float = 120.0  # seconds of a search beyond which centres are taken


TUNING = Tuning()


PathOfRidges = SpectralPath | CentresPath | HeldOutPath


@dataclass(eq=False, repr=False)
class KernelRidge(RidgeUncertainty, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Kernel ridge regression: min over f of Σ_i w_i (y_i − f(x_i) − b)² + α‖f‖².

    It replaces scikit-learn's estimator of the same name: the same parameters come first and mean
    the same. mercer's λ is α/n.

    Parameters
    ----------
    alpha : float or array of shape (outputs,), default=1.0
        α ≥ 0; 0 gives the interpolant of least norm. For `ThinPlate()` and `Polyharmonic(order)`
        ‖f‖² is the roughness, and polynomials that have none are part of f.
    kernel : Kernel, str or callable, default="linear"
        A kernel of mercer, a name of scikit-learn's, or a function of two points or two blocks.
    gamma, degree, coef0 :
        Parameters of named kernels, as in scikit-learn.
    kernel_params : dict, optional
        Passed to a callable kernel.
    fit_intercept : bool, default=False
        Whether to add an unpenalised constant b.
    solver : "auto" or a solver, default="auto"
        How the problem is solved. "auto" takes the fastest exact solver that fits into memory: a
        factorisation, or conjugate gradients that never store the matrix. Where neither is
        feasible it takes centres, and warns with an `ApproximationWarning`. See `explain`.
    centres : int or choice of `mercer.features.centres`, optional
        Restrict f to functions with this many centres, which are drawn from the rows;
        `KMeansPlusPlus(1000)` and other choices say how. Each step is one pass over X, so X may
        also be an iterable of blocks of rows that can be iterated several times.
    random_state : int, Generator, RandomState or None
        Draws the centres.
    device : str, torch.device or None, default=None
        Where NumPy arrays are computed: "cuda" moves them to a GPU, or brings them there block by
        block, anew for every product, where they take more than a quarter of its free memory or
        more than `MERCER_MEMORY`. Tensors of torch stay where they are, and predictions at tensors
        are tensors.
    time_limit : float, optional
        Seconds after which to return the best f found so far; "auto" takes centres where no exact
        solver is foreseen to end in time. A factorisation cannot be stopped.
    checkpoint : path, optional
        A file for the state of an iterative solver, written every few steps. A fit that was killed
        and is started again with the same data continues from there; the file is removed at the
        end. A factorisation is one step, and dual ascent stores nothing.
    early_stopping : bool, default=False
        Whether to hold rows out and return the iterate that predicts them best. "auto" then takes
        an iterative solver. λ is still α/n, where n counts the held-out rows, too.
    validation_fraction : float, default=0.1
        The share of rows that is held out.
    n_iter_no_change : int, default=10
        Stop after this many steps without a better score.

    Attributes
    ----------
    function_ : RKHSFunction
        f, an element of the kernel's space.
    solution_ : Solution
        How the solver ended, with the true residual.
    dual_coef_, X_fit_, intercept_, kernel_ :
        The coefficients, the centres, b, and the kernel object that was used.
    choice_ : Choice or None
        What "auto" chose among.
    validation_scores_ : array
        With early stopping, minus the mean loss ½(y − f(x) − b)² of the held-out rows before the
        first step and after each; `mercer.plotting.HistoryDisplay` draws it. A list of such arrays
        where there is an α for each output.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> X, y = np.linspace(0, 1, 20)[:, None], np.linspace(0, 1, 20) ** 2
    >>> model = KernelRidge(alpha=1e-6, kernel=Gaussian(0.5)).fit(X, y)
    >>> bool(np.allclose(model.predict(X), y, atol=1e-3))
    True
    """

    _takes_clusters = True
    _streams = True

    alpha: float | Sequence[float] = 1
    _: KW_ONLY
    kernel: KernelLike = "linear"
    solver: Solver | str = "auto"
    time_limit: float | None = None
    checkpoint: str | Path | None = None
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit f to targets y, one or several for each row of X."""
        posed, X, y, weights, ridges = self._posed(X, y, sample_weight)
        task = FitTask.root(self, X, y, weights, posed.solver if len(ridges) == 1 else len(ridges))
        if len(ridges) == 1:
            problem = posed.problem(y, Squared(), ridges[0], weights, self.fit_intercept)
            solution = posed.solve(problem, task, lambda alpha, b: posed.attributes(X, alpha, b))
            problems = [problem]
        else:
            problems, solution = self._each_target(posed, y, weights, ridges, task)
        fitted = posed.attributes(X, solution.coefficients, solution.intercept, problems)
        keep(self, {**fitted, "solution_": solution, "choice_": posed.choice}, solution.status)
        task.end(lambda: fitted)
        return self

    def explain(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> str:
        """Which solver was used and why: the candidates with their predicted time and memory.

        With X and y, which solver `fit(X, y)` would use on this machine; nothing is fitted. A
        fitted model without an intercept says what one would gain, where that is cheap to know.
        """
        text = explain_solver(self, X, y, sample_weight)
        problems = getattr(self, "_problems", [])  # a model that was loaded has none
        if X is not None or self.fit_intercept or len(problems) != 1:
            return text
        return f"{text}\n{advice_on_intercept(problems[0])}".rstrip()

    def _posed(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        """Where f is sought, the checked data, and λ = α/Σw for each output or for all."""
        on_blocks = not isinstance(X, np.ndarray) and is_blocks(X)
        if on_blocks:
            first, y, weights = self._admit_blocks(X, y, sample_weight)
        else:
            X, y, weights = admit_numbers(self, X, y, sample_weight)
        alphas = _checked_alphas(self.alpha, y)
        kernel = self._resolved_kernel(first if on_blocks else X)
        named: dict[str, Any] = {
            "solver": self.solver,
            "centres": self.centres,
            "random_state": self.random_state,
            "time_limit": self.time_limit,
            "checkpoint": self.checkpoint,
            "stopping": stopping_rule(self) if self.early_stopping else None,
        }
        if on_blocks:
            posed = formulation_on_blocks(kernel, X, len(y), **named)
        else:
            posed = formulation(
                kernel,
                self._training_points(kernel, X, self.centres),
                Squared(),
                outputs=1 if y.ndim == 1 else y.shape[1],
                ridge=float(min(alphas)),
                exact=Direct(),
                exact_only=self._is_precomputed() or not min(alphas) > 0,
                problems=len(alphas),
                **named,
            )
        total = len(y) if weights is None else float(weights.sum())
        return posed, X, y, weights, (np.asarray(alphas) / total).tolist()

    def _admit_blocks(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """The first block of rows, targets, and weights."""
        forget(self)
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        first = np.asarray(next(iter(X), np.empty((0, 1))))
        if not len(first):
            raise ValueError("X gives no blocks of rows; pass an iterable of at least one.")
        self.n_features_in_ = first.shape[1]
        return first, y, admit_weights(sample_weight, y.reshape(len(y), -1))

    def _each_target(
        self, posed: Formulation, y: Any, weights: Any, ridges: list[float], task: FitTask
    ) -> tuple[list[Problem], Solution]:
        """A problem for each target, with an α of its own."""
        problems = [
            posed.problem(column, Squared(), ridge, weights, self.fit_intercept)
            for column, ridge in zip(y.T, ridges, strict=True)
        ]
        parts = []
        for k, problem in enumerate(problems):
            part = task.part("target")
            parts.append(posed.solve(problem, part, left=len(problems) - k))
            part.end()
        return problems, Solution.stacked(parts)


def _checked_alphas(alpha: Any, y: np.ndarray) -> list[float]:
    try:
        values = np.asarray(alpha, np.float64).ravel().tolist()
    except (TypeError, ValueError):
        values = [math.nan]
    outputs = 1 if y.ndim == 1 else y.shape[1]
    if len(values) not in (1, outputs):
        raise ValueError(
            f"alpha must be one number, or one for each of {outputs} outputs; got {len(values)}."
        )
    for value in values:
        if not (np.isfinite(value) and value >= 0):
            got = value if math.isfinite(value) or isinstance(alpha, (int, float)) else alpha
            raise ValueError(f"alpha must be nonnegative and finite; got {got!r}.")
    return values


@dataclass(eq=False, repr=False)
class KernelRidgeCV(RidgeUncertainty, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Kernel ridge regression whose α and lengthscale are chosen by leave-one-out or held-out rows.

    Each lengthscale costs one eigendecomposition, which gives the leave-one-out predictions for
    every α at once, without refitting. With `validation_fraction` it costs a path over α instead:
    on centres all α share every pass over the rows, which takes about as long as one more fit; on
    all points each α is solved from the solution of the last one, with one preconditioner for all.
    The score is the mean squared error of those predictions, pooled over points and outputs.

    Parameters
    ----------
    alphas : array, default=10^-8, …, 10^2
        Values of α, as in `KernelRidge`.
    kernel : Kernel, str or callable, default="rbf"
    gamma, degree, coef0, kernel_params :
        As in `KernelRidge`.
    lengthscales : array, "auto" or None, default="auto"
        Lengthscales to try. "auto" takes ten around the median distance of points where the
        kernel has a lengthscale and `gamma` is not given; None keeps the kernel as it is. Where the
        best of three values or more that are given, or of alphas, is the least or the largest, a
        `GridEdgeWarning` says so.
    fit_intercept : bool, default=False
    centres : int or choice of `mercer.features.centres`, optional
        Seek f among functions with so many centres, with exact leave-one-out errors for these.
        Where all points would take more than two minutes, which is foreseen, as many are taken as
        are judged in about one, and 4√n or 1,000 at least, with an `ApproximationWarning`.
    random_state : int, Generator, RandomState or None
        Draws the centres, as `KernelRidge` does, once for all lengthscales.
    device : str, torch.device or None, default=None
        As in `KernelRidge`.
    validation_fraction : float or None, default=None
        The share of rows that is held out to judge each α and lengthscale, which `random_state`
        draws; the model is fitted to all rows in the end. None for leave-one-out.

    Attributes
    ----------
    alpha_, kernel_ : the choice.
    best_score_ : float
        Minus its mean squared error, of leave-one-out or of held-out rows.
    cv_errors_ : array of shape (lengthscales, alphas)
    lengthscales_ : array or None
    function_, solution_, dual_coef_, X_fit_, intercept_ : as in `KernelRidge`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(60, 1))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(60)
    >>> model = KernelRidgeCV().fit(X, y)
    >>> bool(model.best_score_ > -0.03)
    True
    """

    alphas: ArrayLike | None = None
    _: KW_ONLY
    lengthscales: ArrayLike | str | None = "auto"
    validation_fraction: float | None = None

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose, then fit."""
        X, y, weights = admit_numbers(self, X, y, sample_weight)
        alphas, base = self._candidate_alphas(), self._resolved_kernel(X)
        total = len(y) if weights is None else float(weights.sum())
        scales = candidate_lengthscales(self.lengthscales, base, self.gamma, X, weights)
        kernels = [base] if scales is None else [base.with_(lengthscale=s) for s in scales]
        task = FitTask.root(self, X, y, weights, len(kernels))
        rule = None if self.validation_fraction is None else held_out_rule(self)
        centres = self._centres(base, X, len(kernels), float(alphas.min()))

        def path_of(kernel: Kernel) -> tuple[Formulation, PathOfRidges]:
            posed = self._posed_on(kernel, X, centres)
            ridge = float(alphas.min()) / total
            problem = posed.problem(y, Squared(), ridge, weights, self.fit_intercept)
            if rule is not None:
                return posed, HeldOutPath(problem, rule)
            if centres is not None:
                return posed, CentresPath(problem)
            constant = self.fit_intercept
            return posed, SpectralPath.of(
                posed.operator, y, weights, fit_intercept=constant, allow_indefinite=True
            )

        at_once = 1  # products of solvers take all threads by themselves
        if rule is None and self._training_points(base, X).machine.uses_numpy:
            at_once = _side_by_side(len(y) if centres is None else len(centres), len(kernels))
        errors, posed, path = _searched(kernels, path_of, alphas / total, task, at_once)
        row, column = np.unravel_index(np.nanargmin(errors), errors.shape)
        ridge = float(alphas[column]) / total
        solution = path.solution(ridge)
        problem = posed.problem(y, Squared(), ridge, weights, self.fit_intercept)
        fitted = posed.attributes(X, solution.coefficients, solution.intercept, [problem])
        choice = {
            "alpha_": float(alphas[column]),
            "best_score_": -float(errors[row, column]),
            "cv_errors_": errors,
            "lengthscales_": scales,
        }
        keep(self, {**fitted, **choice, "solution_": solution}, solution.status)
        if not np.isnan(errors).any():  # all were tried
            self._warn_of_edges(float(alphas[column]), scales, row)
        task.end(lambda: fitted)
        return self

    def _warn_of_edges(self, alpha: float, scales: np.ndarray | None, row: Any) -> None:
        """Of grids that were given: others end where nothing changes any more."""
        tried = {} if self.alphas is None else {"alpha": (alpha, self._candidate_alphas())}
        if scales is not None and not isinstance(self.lengthscales, str):
            tried["lengthscale"] = float(scales[row]), scales
        warn_of_edges(self, "alphas=[…] and lengthscales=[…]", **tried)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Refused: alpha and lengthscale were chosen on the same rows, so nothing is guaranteed."""
        raise ValueError(
            "KernelRidgeCV chose alpha and lengthscale on the rows it was fitted to, which voids "
            "the guarantee of the jackknife+: write ConformalRegressor(KernelRidgeCV()), which "
            "sets rows aside, or KernelRidge with values that were chosen on other rows."
        )

    def _chosen(self) -> set[str]:
        kernels, alphas = self.cv_errors_.shape  # type: ignore[attr-defined]
        searched = {"kernel"} if kernels > 1 else from_data(self)
        return searched | ({"regularization"} if alphas > 1 else set())

    def explain(self, X: Any, y: Any, sample_weight: Any = None) -> str:
        """What `fit(X, y)` would take: how many decompositions, their time and memory; or centres.

        >>> X, y = np.random.default_rng(0).standard_normal((50, 1)), np.zeros(50)
        >>> print(KernelRidgeCV(lengthscales=[1.0, 2.0]).explain(X, y))
        2 eigendecompositions of 50 rows: about ... s and ... KB.
        All rows are centres.
        """
        model = clone(self)
        X, y, weights = admit_numbers(model, X, y, sample_weight)
        base = model._resolved_kernel(X)
        scales = candidate_lengthscales(self.lengthscales, base, self.gamma, X, weights)
        n, count = length(X), 1 if scales is None else len(scales)
        seconds, needed, chosen = _foreseen(n, count)
        if self.validation_fraction is None and self.centres is None:
            time = automatic.in_seconds(seconds)
            what = f"{count} eigendecompositions of {n:,} rows: about {time} and {in_words(needed)}"
            if chosen is None:
                return f"{what}.\nAll rows are centres."
            ends = f"That is too much, so α and lengthscale are chosen on {chosen:,} centres"
            time = automatic.in_seconds(self._seconds_on_centres(base, X, y, chosen, count))
            return f"{what}.\n{ends}: about {time}."
        where = f"centres={self.centres!r}, validation_fraction={self.validation_fraction!r}"
        asked = self.centres if isinstance(self.centres, Integral) else None
        if self.validation_fraction is not None:
            points, alpha = self._training_points(base, X), float(self._candidate_alphas().min())
            choice = automatic.choose(
                base, points, ridge=alpha, centres=asked, outputs=_outputs(y), iterative=True
            )
            on_centres = asked or not choice.chosen.exact
            each = TUNING.path_fits_on_centres if on_centres else TUNING.path_fits
            fits = 1.0 + each * len(self._candidate_alphas())
            seconds = (1.0 + count * fits) * choice.chosen.seconds
        elif asked is not None:
            seconds = self._seconds_on_centres(base, X, y, min(int(asked), n), count)
        else:
            return f"{count} lengthscales, each with a path over α: {where}."
        time = automatic.in_seconds(seconds)
        return f"{count} lengthscales, each with a path over α: about {time}; {where}."

    def _seconds_on_centres(
        self, kernel: Kernel, X: Any, y: Any, count: int, kernels: int
    ) -> float:
        """A path for each kernel, and the fit."""
        points, outputs = self._training_points(kernel, X), _outputs(y)
        rates = automatic.Rates.measured(kernel, points)
        ridges, at_once = len(self._candidate_alphas()), _side_by_side(count, kernels)
        path = CentresPath.seconds(rates, len(points), count, ridges, outputs, at_once)
        fit = automatic.choose(kernel, points, centres=count, outputs=outputs, rates=rates)
        return kernels * path + fit.chosen.seconds

    def _posed_on(self, kernel: Kernel, X: Any, centres: PointSet | None) -> Formulation:
        """f on all points, or on the centres."""
        points = self._training_points(kernel, X, centres)
        if centres is None:
            return Formulation(kernel, with_stored_pairs(Gram(kernel, points)), points, None)
        cross = cross_gram(kernel, points, centres)
        return Formulation(kernel, cross, centres, None, on_all_points=False)

    def _centres(self, kernel: Kernel, X: Any, kernels: int, alpha: float) -> PointSet | None:
        """Centres, where they are asked for or all points would take too long."""
        n, chosen = length(X), self.centres
        if chosen is None and self.validation_fraction is not None:
            if n <= automatic.TUNING.small or self._is_precomputed():
                return None
            points = self._training_points(kernel, X)
            choice = automatic.choose(kernel, points, ridge=alpha, iterative=True).chosen
            if choice.exact:
                return None
            chosen = choice.centres
            warn(
                f"{n} rows are too many for conjugate gradients here, so α and lengthscale are "
                f"chosen on {chosen} centres. Say centres={chosen} to agree.",
                ApproximationWarning,
            )
        elif chosen is None:
            seconds, needed, chosen = _foreseen(n, kernels)
            points = self._training_points(kernel, X)
            if chosen is None or self._is_precomputed() or not points.machine.uses_numpy:
                return None
            warn(
                f"{n} rows are too many for {kernels} eigendecompositions, about "
                f"{automatic.in_seconds(seconds)} and {in_words(needed)}, so α and lengthscale are "
                f"chosen on {chosen} centres. Say centres={chosen} to agree, or lengthscales=None "
                "to keep the kernel as it is.",
                ApproximationWarning,
            )
        points = self._training_points(kernel, X, chosen)
        if isinstance(chosen, Integral):
            chosen = drawn(min(int(chosen), n), kernel, points, self.random_state)
        return cast(Any, chosen).choose(kernel, points).points

    def _candidate_alphas(self) -> np.ndarray:
        alphas = np.logspace(-8, 2, 31) if self.alphas is None else np.atleast_1d(self.alphas)
        alphas = np.asarray(alphas, np.float64)
        if not len(alphas) or not (np.isfinite(alphas).all() and (alphas > 0).all()):
            raise ValueError(f"alphas must be positive and finite; got {self.alphas!r}.")
        return alphas


def _outputs(y: Any) -> int:
    return 1 if y.ndim == 1 else int(y.shape[1])


def _side_by_side(size: int, kernels: int) -> int:
    """Eigendecompositions of matrices of this size at a time: one for each thread, in one thread.

    LAPACK waits for all of its threads after each of n reflections: on a machine that is busy
    otherwise, or with more threads than cores, several threads take ten times as long as one.
    """
    room = automatic.memory_limit() // (TUNING.matrices * 8 * size * size)
    return int(max(1, min(thread_count(), kernels, room)))


def _foreseen(rows: int, kernels: int) -> tuple[float, int, int | None]:
    """Seconds and bytes of a search on all rows, and centres where that is too much."""
    at_once = _side_by_side(rows, kernels)
    seconds = PATHS.eigen_seconds * float(rows) ** 3 * math.ceil(kernels / at_once)
    needed = TUNING.matrices * 8 * rows * rows * at_once
    if seconds <= TUNING.patience and needed <= automatic.memory_limit():
        return seconds, needed, None
    room = int(0.8 * automatic.memory_limit())  # beside it stands what leaves one out
    least, count = automatic.default_centres(rows), rows // 2
    while count > least and _nominal_seconds(rows, count, kernels) > TUNING.patience / 2:
        count = int(0.95 * count)
    most = max(count, least)
    return seconds, needed, automatic.fitting_centres(rows, 1, np.float64, Squared(), room, most)


def _nominal_seconds(rows: int, centres: int, kernels: int) -> float:
    """A search on centres with two threads of usual speed: all machines take as many centres."""
    rates = automatic.Rates({"float64": 4e10}, 1e-9)
    return kernels * CentresPath.seconds(rates, rows, centres, 31, threads=2)


def _searched(
    kernels: Sequence[Kernel],
    path_of: Callable[[Kernel], tuple[Formulation, PathOfRidges]],
    ridges: np.ndarray,
    task: FitTask,
    at_once: int,
) -> tuple[np.ndarray, Formulation, PathOfRidges]:
    """Errors of all kernels and ridges λ, and the formulation and path of the best kernel.

    Kernels that are not reached, because a callback ended the fit, have NaN.
    """

    def judged(kernel: Kernel) -> tuple[Formulation, PathOfRidges, np.ndarray]:
        posed, path = path_of(kernel)
        if isinstance(path, HeldOutPath):
            return posed, path, path.errors(ridges.tolist(), keep=len(kernels) == 1)
        left_out = as_numpy(path.leave_one_out_errors(ridges.tolist()))
        return posed, path, left_out.mean(axis=1)

    errors = np.full((len(kernels), len(ridges)), np.nan)
    best, least = None, math.inf
    for start, stop in spans(len(kernels), at_once):
        for row, (posed, path, found) in enumerate(
            side_by_side(judged, kernels[start:stop]), start
        ):
            part, errors[row] = task.part("lengthscale"), found
            if not np.isfinite(found).any():
                raise ValueError(
                    "leave-one-out with an intercept needs two samples or more; got n_samples = 1."
                )
            if best is None or np.nanmin(found) < least:
                best, least = (posed, path), np.nanmin(found)
            if part.end():
                return errors, *best
    assert best is not None
    return errors, *best
