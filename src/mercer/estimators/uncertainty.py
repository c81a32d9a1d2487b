"""What follows from a ridge fit: its smoother, posterior, intervals; the gain of an intercept."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer import linalg
from mercer.arrays import as_numpy, beside
from mercer.checks import check_count, check_positive
from mercer.errors import NotPositiveDefiniteError
from mercer.estimators.certified import certificate
from mercer.estimators.conformal import check_coverage, jackknife_plus
from mercer.estimators.inputs import evaluation_points, function_values, hosted
from mercer.estimators.progress import CallbackSupportMixin
from mercer.estimators.smaller import compress
from mercer.features.centres import AnyChoice
from mercer.features.inputs import KernelInput, KernelLike
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.kernels.measures import Seed, generator
from mercer.operators import Gram, cross_gram
from mercer.runtime.budget import memory_budget
from mercer.solvers.automatic import Choice
from mercer.solvers.posterior import Posterior, posterior
from mercer.solvers.preconditioners.sampling import random_rows
from mercer.solvers.problem import Problem
from mercer.solvers.solution import Solution


@dataclass(frozen=True)
class Tuning:
    """How many rows tell what an intercept would gain."""

    rows_per_centre: int = 16  # so many rows for each: a fit to fewer tells little of that to all
    cheap: float = 1e9  # rows times squared centres up to which more rows are looked at,
    most: float = 6e9  # and beyond which none are. On all points that is 1,817 rows, 0.9 s of CPU
    # time


@dataclass(eq=False, repr=False, kw_only=True)
class RidgeSmoother(KernelInput):
    """The parameters of ridge estimators, and their fits as smoothers: linear in the targets.

    `fit` leaves the problems it solved, one for each output where alphas differ, in `_problems`;
    what follows from them is computed when it is asked for. It takes a factor of n rows, or as many
    as there are centres, which is that of the fit where it stayed (`Direct`), and stays for the
    next question where it takes at most the memory budget, a quarter of what is free.
    """

    _allow_indefinite = True
    _instead_of_tensors = ""

    kernel: KernelLike = "rbf"
    gamma: float | str | None = None
    degree: float = 3
    coef0: float = 1
    kernel_params: dict[str, Any] | None = None
    fit_intercept: bool = False
    centres: int | AnyChoice | None = None
    random_state: Seed = None
    device: Any = None
    function_: RKHSFunction = field(init=False)
    kernel_: Kernel = field(init=False)
    solution_: Solution = field(init=False)
    dual_coef_: Any = field(init=False)
    intercept_: Any = field(init=False)
    n_features_in_: int = field(init=False)
    feature_names_in_: np.ndarray = field(init=False)
    compression_error_: float = field(init=False)
    X_fit_: Any = field(init=False)
    choice_: Choice | None = field(init=False)
    validation_scores_: Any = field(init=False)
    _problems: list[Problem] = field(init=False)
    _known: list[Posterior] | None = field(init=False)

    certificate, compress = certificate, compress

    def smoother_weights(self, X: Any) -> Any:
        """W with f(x) + b = Σ_i W(x)_i y_i: one row for each row of X, a column for each target.

        Shape (rows, n), or (outputs, rows, n) where outputs have alphas of their own.
        """
        points = evaluation_points(self, X)
        return self._of_each(lambda known: known.smoother_weights(points))

    def hat_matrix(self) -> Any:
        """H = W(X_train): the fitted values are H y. It takes n² numbers."""
        return self._of_each(lambda known: known.hat_matrix())

    def degrees_of_freedom(self) -> Any:
        """The trace of the hat matrix; one number for each output where alphas differ."""
        return self._of_each(lambda known: known.degrees_of_freedom)

    def leave_one_out(self) -> np.ndarray:
        """Predictions of each training target by the fit on all other rows, without refitting.

        With sample weights, a row is left out as a whole; rows without weight have NaN.
        """
        parts = []
        for known in self._posteriors():
            predictions = known.problem.y_columns - known.leave_one_out_residuals
            parts += list(as_numpy(predictions).T)
        return self._columns(np.stack(parts, axis=1))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions, or the share of right labels."""
        X, y, sample_weight = hosted(X, y, sample_weight)
        return float(super().score(X, y, sample_weight=sample_weight))  # type: ignore[misc]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "function_")

    # ---- how it is kept -------------------------------------------------------------------------

    def _posteriors(self) -> list[Posterior]:
        check_is_fitted(self)
        if "_problems" not in vars(self):
            raise ValueError(
                f"this {type(self).__name__} was pickled on centres or loaded from a file, which "
                "holds no training rows with their targets, of which intervals and deviations are "
                "made: fit it again here."
            )
        known = getattr(self, "_known", None)
        if known is None:
            factor = getattr(self.solution_, "factor", None)
            known = [posterior(problem, factor) for problem in self._problems]
            if factor is not None or sum(part.memory for part in known) <= memory_budget():
                self._known = known
        return known

    def _of_each(self, compute: Any) -> Any:
        parts = [compute(known) for known in self._posteriors()]
        return parts[0] if len(parts) == 1 else np.stack([as_numpy(part) for part in parts])

    def _columns(self, values: np.ndarray) -> Any:
        """Values with a last axis of outputs, without it where there is one target."""
        if self._problems[0].single and len(self._problems) == 1:
            return values[..., 0] if values.ndim > 1 else float(values[0])
        return values

    def __getstate__(self) -> dict[str, Any]:
        """Without factors and, on centres, without training rows: the model does not need them."""
        state: dict[str, Any] = dict(super().__getstate__())  # type: ignore[call-overload]
        state.pop("_known", None)
        problems = state.get("_problems") or []
        if problems and not problems[0].on_all_points:
            del state["_problems"]
        return state


class RidgeUncertainty(CallbackSupportMixin, RidgeSmoother):
    """Predictions, their uncertainty, and scores of both ridge estimators.

    A ridge fit is the mean of a Gaussian process with prior covariance s²k, noise variance s²α/w_i
    and, where there is an intercept, a flat prior on it; s² is ŝ² = yᵀ(K + αI)⁻¹y/n.
    """

    _allow_spline = True

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        include_noise: bool = False,
    ) -> Any:
        """f(x) + b for every row of X and, on request, its posterior standard deviation.

        Parameters
        ----------
        X : array-like or list of objects
        return_std : bool, default=False
            Whether to return also the standard deviation of f(x) + b given the targets, of the
            shape of the predictions. On all points it is s√(k(x, x) − k_xᵀ(K + αI)⁻¹k_x), on
            centres the DTC variance; s² is estimated, see `scale`.
        return_cov : bool, default=False
            Whether to return also the covariance between the rows of X, instead.
        include_noise : bool, default=False
            Whether these are of a new target, y = f(x) + b + noise of variance s²α, rather than
            of f(x) + b.
        """
        values = function_values(self, X)
        if not (return_std or return_cov):
            return values
        if return_std and return_cov:
            raise ValueError("return_std and return_cov exclude each other: ask for one of them.")
        spreads = self._spreads(X, values, return_cov, include_noise)
        return values, spreads

    def _spreads(self, X: Any, values: Any, full: bool, noisy: bool) -> Any:
        """Deviations or covariances, a column for each output."""
        points, columns = evaluation_points(self, X), []
        for known in self._posteriors():
            spread = known.covariance(points) if full else known.variances(points)
            if noisy:
                spread = (
                    linalg.shift_diagonal(spread, known.ridge) if full else spread + known.ridge
                )
            columns += [spread * scale for scale in known.scales]
        stacked = known.xp.stack(columns, axis=-1)
        stacked = stacked if full else known.xp.sqrt(stacked)
        result = stacked[..., 0] if values.ndim == 1 else stacked
        return beside(result, values)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Functions drawn from the posterior, or from the prior with s = 1 before `fit`.

        Returns an array of shape (rows, n_samples), or (rows, outputs, n_samples).
        """
        check_count(self, "n_samples", n_samples)
        random = generator(random_state)
        if not hasattr(self, "function_"):
            kernel = self._resolved_kernel(X)
            cov = as_numpy(Gram(kernel, self._training_points(kernel, X)).dense())
            mean = np.zeros(len(cov))
        else:
            mean, cov = map(as_numpy, self.predict(X, return_cov=True))
        n = len(mean)
        draws = [
            column[:, None] + _root(matrix) @ random.standard_normal((n, n_samples))
            for column, matrix in zip(mean.reshape(n, -1).T, cov.reshape(n, n, -1).T, strict=True)
        ]
        return draws[0] if mean.ndim == 1 else np.stack(draws, axis=1)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of intervals for a new target, by the jackknife+.

        The interval covers a new target with probability at least 2·coverage − 1 whatever the
        distribution, and nearly always with probability close to `coverage`, if rows are
        exchangeable and nothing (alpha, kernel, centres by their targets) was chosen on the
        same rows. It takes all leave-one-out fits, which follow from one factorisation: with
        ℓ_i = y_i − f₋ᵢ(x_i) the ends are order statistics of f₋ᵢ(x) ± |ℓ_i|.

        References
        ----------
        Barber, Candès, Ramdas, Tibshirani, Predictive inference with the jackknife+, 2021.
        """
        coverage = check_coverage(self, coverage)
        values, points = function_values(self, X), evaluation_points(self, X)
        shape = tuple(values.shape)
        columns = iter(as_numpy(values).reshape(len(values), -1).T)
        ends = [
            jackknife_plus(known, points, known.problem.array(next(columns)), output, coverage)
            for known in self._posteriors()
            for output in range(known.problem.outputs)
        ]
        lower, upper = (np.stack(side, axis=1).reshape(shape) for side in zip(*ends, strict=True))
        return lower, upper

    # ---- the Gaussian process -------------------------------------------------------------------

    def scale(self) -> Any:
        """ŝ², the factor of the prior covariance that makes the targets most likely."""
        scales = [as_numpy(known.scales) for known in self._posteriors()]
        return self._columns(np.concatenate(scales))

    def log_marginal_likelihood(self, scale: float | None = None) -> Any:
        """log p(y | X) under the prior s²k and noise s²α, at s² = ŝ² where `scale` is None.

        A number, or one for each output. With an intercept it is the restricted likelihood, in
        which the intercept has a flat prior.
        """
        if scale is not None:
            check_positive(self, "scale", scale)
        known = [as_numpy(part.log_marginal_likelihood(scale)) for part in self._posteriors()]
        return self._columns(np.concatenate(known))


def _root(matrix: np.ndarray) -> np.ndarray:
    """R with RRᵀ = A for a covariance A that rounding may have left indefinite."""
    values, vectors = linalg.eigen(np.asarray(matrix, np.float64))
    return vectors * np.sqrt(np.clip(values, 0.0, math.inf))


# ---- the gain of an intercept ----------------------------------------------------------------


def errors_by_intercept(
    problem: Problem, tuning: Tuning = Tuning()
) -> tuple[float, float, int] | None:
    """The RMSE of rows left out one at a time, without and with an intercept, and of how many rows.

    On centres some of the rows are looked at. None where it is not cheap, or where there is no
    posterior, as for splines and indefinite kernels.

    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> X = np.linspace(0.0, 1.0, 40)[:, None]
    >>> problem = Problem(Gaussian(0.2).gram(X), 100.0 + np.sin(9.0 * X[:, 0]), Squared(), 1e-3)
    >>> without, with_one, rows = errors_by_intercept(problem)
    >>> rows, bool(with_one < 0.1 * without)
    (40, True)
    """
    operator, size, rows = problem.operator, problem.size, problem.rows
    if not problem.on_all_points:
        rows = min(rows, max(tuning.rows_per_centre * size, int(tuning.cheap / float(size) ** 2)))
    able = isinstance(operator, Gram) and operator.machine.pairs_rows and problem.has_one_ridge
    if not able or problem.null_space is not None or not problem.regularization > 0:
        return None
    if rows * float(size) ** 2 > tuning.most:
        return None
    if rows < problem.rows:
        some = random_rows(problem.rows, rows, seed=0)
        part, y = operator[some, :], as_numpy(problem.y)[some]
        cross, weights = cross_gram(part.kernel, part.x, part.y), as_numpy(problem.sample_weights)
        loss, ridge = problem.loss, problem.regularization
        problem = Problem.on_centres(cross, y, loss, ridge, weights[some])
    weights = as_numpy(problem.sample_weights)
    if np.count_nonzero(weights) < 2:
        return None
    errors = []
    try:
        for fit_intercept in (False, True):
            known = posterior(replace(problem, fit_intercept=fit_intercept))
            squares = (as_numpy(known.leave_one_out_residuals)[weights > 0] ** 2).mean(axis=1)
            errors.append(float(np.sqrt(np.average(squares, weights=weights[weights > 0]))))
    except NotPositiveDefiniteError:
        return None
    return errors[0], errors[1], rows


def advice_on_intercept(problem: Problem) -> str:
    """A sentence for `explain`; empty where nothing is known."""
    known = errors_by_intercept(problem)
    if known is None:
        return ""
    without, with_one, rows = known
    some = "" if rows == problem.rows else f" on {rows:,} of the rows"
    text = (
        f"With an intercept the RMSE of rows left out one at a time{some} would be {with_one:.4g} "
        f"instead of {without:.4g}"
    )
    return f"{text}: write fit_intercept=True." if with_one < 0.98 * without else f"{text}."
