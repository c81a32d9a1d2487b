"""Regression with any loss, counts, and several quantiles at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.metrics import d2_tweedie_score
from sklearn.utils import column_or_1d

from mercer.arrays import namespace
from mercer.estimators.fitting import Formulation, keep
from mercer.estimators.inputs import admit_numbers, function_values, hosted, like
from mercer.estimators.losses import (
    FOR_NUMBERS,
    LossEstimator,
    as_loss,
    regularization_of,
    relative_ridge,
    weighted_quantile,
)
from mercer.estimators.progress import FitTask, with_callbacks
from mercer.features.bases import BaseEstimator, MultiOutputMixin, RegressorMixin
from mercer.losses import Loss, Poisson, Quantile
from mercer.solvers.solution import Solution


class _OneLoss(LossEstimator):
    """A fit of one problem with one loss."""

    regularization: float | None

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _posed(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        X, y, weights = admit_numbers(self, X, y, sample_weight)
        return self._with_ridge(X, y, weights, self._loss())[0], X

    def _with_ridge(self, X: Any, y: Any, weights: Any, loss: Loss) -> tuple[Formulation, float]:
        """Where f is sought, and λ."""
        ridge = regularization_of(self.regularization, loss, y, weights)
        known = relative_ridge(ridge, loss, y, weights)
        outputs = 1 if y.ndim == 1 else y.shape[1]
        return self._formulation(X, loss, weights, outputs, ridge=known), ridge

    def _fit(self, X: Any, y: Any, weights: Any, loss: Loss) -> Self:
        posed, ridge = self._with_ridge(X, y, weights, loss)

        def fitted(alpha: Any, b: Any) -> dict[str, Any]:
            return {**posed.attributes(X, alpha, b), "loss_": loss, "choice_": posed.choice}

        task = FitTask.root(self, X, y, weights, posed.solver)
        problem = posed.problem(y, loss, ridge, weights, bool(self.fit_intercept))
        solution = posed.solve(problem, task, fitted, nearest=isinstance(self.solver, str))
        attributes = fitted(solution.coefficients, solution.intercept)
        keep(self, {**attributes, "solution_": solution}, solution.status)
        task.end(lambda: attributes)
        return self


@dataclass(eq=False, repr=False)
class KernelRegressor(_OneLoss, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Regression with any loss: min (1/Σw) Σ_i w_i ℓ(y_i, f(x_i) + b) + (λ/2)‖f‖².

    The square loss is kernel ridge regression with α = nλ; the absolute loss gives medians, Huber's
    is hard to disturb by outliers, the ε-insensitive one is support vector regression.

    Parameters
    ----------
    loss : Loss or str, default="squared_error"
        A loss of `mercer.losses`, as `Huber(0.5)`, or "squared_error", "absolute_error", "huber",
        "quantile", "epsilon_insensitive", "poisson".
    regularization : float or None, default=None
        λ; None for 1/(30Σw), which is C = 30. Where the loss grows like L|f − y| it is multiplied
        by L/s (for a smooth one by no more than 1), s being the mean distance of y from its
        median, so that targets may be in any unit.
    kernel : Kernel, str or callable, default="rbf"
        As in `KernelRidge`.
    gamma : float, "scale", "auto", "median" or None, default="median"
        "median" makes the median distance of points the lengthscale of named kernels; the others
        are as in scikit-learn, None being 1/n_features.
    degree, coef0, kernel_params :
        Parameters of named and callable kernels, as in scikit-learn.
    fit_intercept : bool, default=True
        Whether to add an unpenalised constant b.
    solver : "auto" or a solver, default="auto"
        "auto" factors for the square loss, takes Newton's method for smooth losses and dual ascent
        for losses with kinks; where that would take a quarter of an hour or more, it takes centres,
        and warns with an `ApproximationWarning`. See `explain`.
    tol : float, default=1e-6
        The relative duality gap at which "auto" stops.
    centres : int or choice of `mercer.features.centres`, optional
        Seek f among functions with so many centres, by `Newton`, to the larger of `tol` and
        its own tolerance.
    random_state : int, Generator, RandomState or None
        Draws the centres.
    device : str, torch.device or None, default=None
        As in `KernelRidge`. On tensors a loss with kinks is minimised by `Newton`, up to
        20,000 rows with all of them as centres.
    time_limit : float, optional
        Seconds after which an iterative solver stops with the best it has, and says so.
    checkpoint : path, optional
        As in `KernelRidge`.
    early_stopping : bool, default=False
        Whether to hold rows out, of each class the same share, and return the iterate that
        predicts them best. "auto" then takes a solver that iterates; λ stays what it is.
    validation_fraction : float, default=0.1
        The share of rows that is held out.
    n_iter_no_change : int, default=10
        Steps without a better score that end the iteration: Newton steps, rounds of dual ascent,
        and for the square loss steps of conjugate gradients.

    Attributes
    ----------
    function_ : RKHSFunction
        f.
    solution_ : Solution
        How the solver ended, with the true duality gap.
    loss_, kernel_, dual_coef_, intercept_, X_fit_ :
        The loss and kernel objects, the coefficients, b, and the centres.
    validation_scores_ : array
        With early stopping, minus the mean loss of the held-out rows before the first step and
        after each; a list of such arrays where several problems are solved.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Absolute
    >>> X, y = np.linspace(0, 1, 20)[:, None], np.linspace(0, 1, 20) ** 2
    >>> y[3] = 100.0  # an outlier
    >>> model = KernelRegressor(Absolute(), 1e-4, kernel=Gaussian(0.5)).fit(X, y)
    >>> bool(np.allclose(np.delete(model.predict(X) - y, 3), 0.0, atol=0.05))
    True
    """

    loss: Loss | str = "squared_error"
    regularization: float | None = None

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit f to targets y, one or several for each row of X."""
        X, y, weights = admit_numbers(self, X, y, sample_weight)
        return self._fit(X, y, weights, self._loss())

    def _loss(self) -> Loss:
        loss = as_loss(self.loss, FOR_NUMBERS)
        if loss.is_classification:
            raise ValueError(f"KernelRegressor fits numbers; {loss!r} is for KernelClassifier.")
        return loss

    def predict(self, X: Any) -> Any:
        """f(x) + b for every row of X; for the Poisson loss the mean e^{f(x) + b}."""
        values = function_values(self, X)
        return self.loss_.mean(values) if isinstance(self.loss_, Poisson) else values


@dataclass(eq=False, repr=False)
class KernelPoissonRegressor(_OneLoss, RegressorMixin, BaseEstimator):
    """Regression of counts y ≥ 0 whose mean is e^{f(x) + b}.

    It minimises (1/Σw) Σ_i w_i (e^{f_i} − y_i f_i) + (λ/2)‖f‖², the objective of scikit-learn's
    `PoissonRegressor`, whose `alpha` is λ, with a kernel.

    Parameters
    ----------
    regularization : float or None, default=None
        λ > 0; None for 1/(30Σw).
    kernel, gamma, degree, coef0, kernel_params, fit_intercept, solver, tol :
    centres, random_state, device, time_limit, checkpoint :
    early_stopping, validation_fraction, n_iter_no_change :
        As in `KernelRegressor`.

    Attributes
    ----------
    function_, solution_, kernel_, dual_coef_, intercept_, X_fit_ :
        As in `KernelRegressor`; f is the logarithm of the mean.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0.0, 2.0, 30)[:, None]
    >>> model = KernelPoissonRegressor(1e-5).fit(X, np.exp(X[:, 0]))
    >>> bool(np.allclose(model.predict(X), np.exp(X[:, 0]), rtol=0.01))
    True
    """

    regularization: float | None = None

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the logarithm of the mean to counts y."""
        X, y, weights = admit_numbers(self, X, y, sample_weight)
        y = column_or_1d(*hosted(y), warn=True)
        return self._fit(X, y, weights, Poisson())

    def _loss(self) -> Loss:
        return Poisson()

    def predict(self, X: Any) -> Any:
        """The mean e^{f(x) + b} for every row of X."""
        return Poisson().mean(function_values(self, X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """D², the share of the Poisson deviance that is explained, as in `PoissonRegressor`."""
        X, y, sample_weight = hosted(X, y, sample_weight)
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


@dataclass(eq=False, repr=False)
class KernelQuantileRegressor(LossEstimator, RegressorMixin, BaseEstimator):
    """Quantiles of y given x, several at once, which never cross.

    Each level τ minimises (1/Σw) Σ_i w_i ρ_τ(y_i − f_τ(x_i) − b_τ) + (λ/2)‖f_τ‖² with the pinball
    loss ρ_τ. Where the fitted quantiles of a point would cross, they are put in order, at every x,
    not only on the training points; that never makes the sum of their pinball losses larger, and
    brings them nearer to the true quantiles. `function_` holds them as they were fitted.

    With an intercept, at most a share τ of the training points lies below the fitted quantile of
    level τ, and at most 1 − τ above it, up to the tolerance.

    Parameters
    ----------
    quantiles : float or list of floats, default=0.5
        Levels strictly between 0 and 1; with a list, predictions have one column for each, in the
        order of the list.
    regularization : float or None, default=None
        λ; None as in `KernelRegressor`.
    kernel, gamma, degree, coef0, kernel_params, fit_intercept, solver, tol :
    centres, random_state, device, time_limit, checkpoint :
    early_stopping, validation_fraction, n_iter_no_change :
        As in `KernelRegressor`.

    Attributes
    ----------
    function_, solution_, kernel_, dual_coef_, intercept_, X_fit_ :
        As in `KernelRegressor`, with one output for each level.

    References
    ----------
    V. Chernozhukov, I. Fernández-Val, A. Galichon, Quantile and probability curves without
    crossing, 2010.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> y = X[:, 0] + rng.normal(size=200)
    >>> low, high = KernelQuantileRegressor([0.1, 0.9]).fit(X, y).predict(X).T
    >>> bool((low <= high).all()), bool(0.75 < np.mean((low <= y) & (y <= high)) < 0.85)
    (True, True)
    """

    quantiles: float | Sequence[float] = 0.5
    regularization: float | None = None
    order_: np.ndarray = field(init=False)

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit every quantile of y."""
        X, y, weights = admit_numbers(self, X, y, sample_weight)
        y, levels = column_or_1d(*hosted(y), warn=True), self._levels()
        posed = self._of_levels(X, y, weights, levels)
        task = FitTask.root(self, X, y, weights, len(levels))
        parts: list[Solution] = []
        for level in levels:
            part = task.part("quantile")
            ridge = regularization_of(self.regularization, Quantile(level), y, weights)
            problem = posed.problem(y, Quantile(level), ridge, weights, bool(self.fit_intercept))
            nearest, left = isinstance(self.solver, str), len(levels) - len(parts)
            parts.append(posed.solve(problem, part, nearest=nearest, left=left))
            part.end()
        solution = parts[0] if np.ndim(self.quantiles) == 0 else Solution.stacked(parts)
        fitted = posed.attributes(X, solution.coefficients, solution.intercept)
        fitted["choice_"] = posed.choice
        fitted["order_"] = np.argsort(levels, kind="stable")
        keep(self, {**fitted, "solution_": solution}, solution.status)
        task.end(lambda: fitted)
        return self

    def _posed(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        X, y, weights = admit_numbers(self, X, y, sample_weight)
        return self._of_levels(X, y, weights, self._levels()), X

    def _of_levels(self, X: Any, y: Any, weights: Any, levels: list[float]) -> Formulation:
        """Where f is sought; each level is a problem of its own."""
        loss = Quantile(levels[0])
        ridge = regularization_of(self.regularization, loss, y, weights)
        known = relative_ridge(ridge, loss, y, weights)
        return self._formulation(X, loss, weights, ridge=known, problems=len(levels))

    def _levels(self) -> list[float]:
        try:
            levels = np.atleast_1d(np.asarray(self.quantiles, np.float64))
        except (TypeError, ValueError):
            levels = np.zeros(0)
        if levels.ndim != 1 or not len(levels) or not ((levels > 0) & (levels < 1)).all():
            raise ValueError(
                "quantiles must be a number, or a list of numbers, strictly between 0 and 1; got "
                f"{self.quantiles!r}."
            )
        return levels.tolist()

    def predict(self, X: Any) -> Any:
        """The quantiles at every row of X: shape (n,) for one level, (n, levels) for a list."""
        values = function_values(self, X)
        if values.ndim == 1:
            return values
        return namespace(values).sort(values, axis=1)[:, like(np.argsort(self.order_), values)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """D², the share of the pinball loss of the constant quantiles that is explained."""
        X, y, sample_weight = hosted(X, y, sample_weight)
        levels, predicted = self._levels(), self.predict(X)
        y = column_or_1d(y)
        weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, float)
        predicted = predicted.reshape(len(y), -1)
        losses = constant = 0.0
        for level, column in zip(levels, predicted.T, strict=True):
            rho = Quantile(level)
            losses += float(rho.risk(y, column.astype(float), weights))
            best = weighted_quantile(y, weights, level)
            constant += float(rho.risk(y, np.full(len(y), best), weights))
        return 1.0 - losses / constant if constant > 0 else float(losses == 0.0)
