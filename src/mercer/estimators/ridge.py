"""Kernel ridge regression, and its choice of regularisation by leave-one-out."""

from __future__ import annotations

import math
import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import _check_sample_weight

from mercer.errors import IndefiniteKernelWarning
from mercer.estimators.base import KernelEstimator
from mercer.estimators.callbacks import (
    CallbackSupportMixin,
    FitTask,
    iterations_of,
    told,
    with_callbacks,
)
from mercer.estimators.lengthscales import candidate_lengthscales
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.losses import Squared
from mercer.operators import Gram
from mercer.solvers.direct import Direct
from mercer.solvers.path import SpectralPath
from mercer.solvers.problem import Problem
from mercer.solvers.solution import Solution


class _Ridge(
    CallbackSupportMixin, KernelEstimator, MultiOutputMixin, RegressorMixin, BaseEstimator
):
    """What both ridge estimators share: parameters, checked input, predictions."""

    _allow_indefinite = True

    def __init__(
        self,
        kernel: Any,
        gamma: Any,
        degree: Any,
        coef0: Any,
        kernel_params: Any,
        fit_intercept: bool,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept

    def _checked_training_data(self, X: Any, y: Any, sample_weight: Any) -> Any:
        self._forget()
        if self._holds_objects(X):
            X, y = self._checked(X, y, reset=True)
            y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
            check_consistent_length(X, y)
        else:
            X, y = self._checked(X, y, reset=True, multi_output=True, y_numeric=True)
        if self._is_precomputed() and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"a precomputed kernel is a square matrix in fit; got shape {X.shape}. Pass "
                "K(X_train, X_train)."
            )
        return X, y, self._checked_weights(sample_weight, X)

    def _checked_weights(self, sample_weight: Any, X: Any) -> np.ndarray | None:
        if sample_weight is None:
            return None
        if isinstance(X, np.ndarray) or hasattr(X, "tocsr"):
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
        else:
            weights = np.asarray(sample_weight, np.float64)
            if weights.shape != (len(X),) or not np.isfinite(weights).all():
                raise ValueError(
                    f"sample_weight must be one finite number for each of {len(X)} samples; got "
                    f"shape {weights.shape}."
                )
        if (weights < 0).any() or not weights.any():
            raise ValueError("sample_weight must be nonnegative and not all zero.")
        return weights

    def _fitted(
        self, kernel: Kernel, X: Any, gram: Gram, alpha: Any, intercept: Any
    ) -> dict[str, Any]:
        """The attributes of a fitted model."""
        return {
            "kernel_": kernel,
            "X_fit_": X,
            "dual_coef_": alpha,
            "intercept_": intercept,
            "function_": RKHSFunction(kernel, gram.x, alpha),
        }

    def _keep(self, solution: Solution, attributes: dict[str, Any]) -> None:
        if solution.status.witness is not None:
            text = f"{type(self).__name__}: {solution.status}"
            warnings.warn(text, IndefiniteKernelWarning, stacklevel=4)  # of fit
        for name, value in {**attributes, "solution_": solution}.items():
            setattr(self, name, value)

    def predict(self, X: Any) -> np.ndarray:
        """f(x) for every row of X."""
        self._check_fitted()
        X = self._checked(X, reset=False)
        if self._is_precomputed():
            return X @ self.dual_coef_ + self.intercept_
        return self.function_(X) + self.intercept_


class KernelRidge(_Ridge):
    """Kernel ridge regression: min over f of Σ_i w_i (y_i − f(x_i) − b)² + α‖f‖².

    It replaces scikit-learn's estimator of the same name: the same parameters come first and mean
    the same. mercer's λ is α/n.

    Parameters
    ----------
    alpha : float or array of shape (outputs,), default=1.0
        α ≥ 0; 0 gives the interpolant of least norm.
    kernel : Kernel, str or callable, default="linear"
        A kernel of mercer, a name of scikit-learn's, or a function of two points or two blocks.
    gamma, degree, coef0 :
        Parameters of named kernels, as in scikit-learn.
    kernel_params : dict, optional
        Passed to a callable kernel.
    fit_intercept : bool, default=False
        Whether to add an unpenalised constant b.
    solver : "auto" or a solver, default="auto"
        How the problem is solved; "auto" factors the Gram matrix.

    Attributes
    ----------
    function_ : RKHSFunction
        f, an element of the kernel's space.
    solution_ : Solution
        How the solver ended, with the true residual.
    dual_coef_, X_fit_, intercept_, kernel_ :
        The coefficients, the centres, b, and the kernel object that was used.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> X, y = np.linspace(0, 1, 20)[:, None], np.linspace(0, 1, 20) ** 2
    >>> model = KernelRidge(alpha=1e-6, kernel=Gaussian(0.5)).fit(X, y)
    >>> bool(np.allclose(model.predict(X), y, atol=1e-3))
    True
    """

    def __init__(
        self,
        alpha: Any = 1,
        *,
        kernel: Any = "linear",
        gamma: Any = None,
        degree: Any = 3,
        coef0: Any = 1,
        kernel_params: Any = None,
        fit_intercept: bool = False,
        solver: Any = "auto",
    ) -> None:
        super().__init__(kernel, gamma, degree, coef0, kernel_params, fit_intercept)
        self.alpha = alpha
        self.solver = solver

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit f to targets y, one or several for each row of X."""
        X, y, weights = self._checked_training_data(X, y, sample_weight)
        alphas = _checked_alphas(self.alpha, y)
        solver, kernel = self._solver(), self._resolved_kernel(X)
        gram = Gram(kernel, self._training_points(kernel, X))
        total = len(y) if weights is None else float(weights.sum())
        ridges = [alpha / total for alpha in alphas]
        if len(ridges) == 1:
            task = FitTask.root(self, X, y, weights, iterations_of(solver))
            problem = self._problem(gram, y, ridges[0], weights)
            heard = told(solver, task, lambda state: self._so_far(kernel, X, gram, state))
            solution = heard.solve(problem)
        else:
            task = FitTask.root(self, X, y, weights, len(ridges))
            parts = []
            for column, ridge in zip(y.T, ridges, strict=True):
                part = task.part("target")
                parts.append(solver.solve(self._problem(gram, column, ridge, weights)))
                part.end()
            solution = Solution.stacked(parts)
        fitted = self._fitted(kernel, X, gram, solution.coefficients, solution.intercept)
        self._keep(solution, fitted)
        task.end(lambda: fitted)
        return self

    def _so_far(self, kernel: Kernel, X: Any, gram: Gram, state: Any) -> dict[str, Any]:
        return self._fitted(kernel, X, gram, state.coefficients, state.intercept)

    def _problem(self, gram: Gram, y: Any, regularization: float, weights: Any) -> Problem:
        return Problem(gram, y, Squared(), regularization, weights, self.fit_intercept)

    def _solver(self) -> Any:
        if isinstance(self.solver, str):
            if self.solver != "auto":
                raise ValueError(f'solver must be "auto" or a solver object; got {self.solver!r}.')
            return Direct()
        return self.solver


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


class KernelRidgeCV(_Ridge):
    """Kernel ridge regression whose α and lengthscale are chosen by leave-one-out.

    Each lengthscale costs one eigendecomposition, which gives the leave-one-out predictions for
    every α at once, without refitting. The score is the mean squared error of those predictions,
    pooled over points and outputs.

    Parameters
    ----------
    alphas : array, default=10^-8, …, 10^2
        Values of α, as in `KernelRidge`.
    kernel : Kernel, str or callable, default="rbf"
    gamma, degree, coef0, kernel_params :
        As in `KernelRidge`.
    lengthscales : array, "auto" or None, default="auto"
        Lengthscales to try. "auto" takes ten around the median distance of points where the
        kernel has a lengthscale and `gamma` is not given; None keeps the kernel as it is.
    fit_intercept : bool, default=False

    Attributes
    ----------
    alpha_, kernel_ : the choice.
    best_score_ : float
        Minus its leave-one-out mean squared error.
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

    def __init__(
        self,
        alphas: Any = None,
        *,
        kernel: Any = "rbf",
        gamma: Any = None,
        degree: Any = 3,
        coef0: Any = 1,
        kernel_params: Any = None,
        lengthscales: Any = "auto",
        fit_intercept: bool = False,
    ) -> None:
        super().__init__(kernel, gamma, degree, coef0, kernel_params, fit_intercept)
        self.alphas = alphas
        self.lengthscales = lengthscales

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose, then fit."""
        X, y, weights = self._checked_training_data(X, y, sample_weight)
        alphas = self._candidate_alphas()
        total = len(y) if weights is None else float(weights.sum())
        base = self._resolved_kernel(X)
        scales = candidate_lengthscales(self.lengthscales, base, self.gamma, X, weights)
        kernels = [base] if scales is None else [base.with_(lengthscale=s) for s in scales]
        best: Any = None
        errors = np.full((len(kernels), len(alphas)), np.nan)
        task = FitTask.root(self, X, y, weights, len(kernels))
        for row, kernel in enumerate(kernels):
            part = task.part("lengthscale")
            path = self._path(kernel, X, y, weights)
            errors[row] = path.leave_one_out_errors((alphas / total).tolist()).mean(axis=1)
            if not np.isfinite(errors[row]).any():
                raise ValueError(
                    "leave-one-out with an intercept needs two samples or more; got n_samples = 1."
                )
            column = int(np.nanargmin(errors[row]))
            if best is None or errors[row, column] < best[0]:
                best = errors[row, column], path, alphas[column]
            if part.end():
                break
        error, path, alpha = best
        solution = path.solution(float(alpha / total))
        gram, chosen = path.gram, path.gram.kernel
        fitted = self._fitted(chosen, X, gram, solution.coefficients, solution.intercept)
        self._keep(solution, fitted)
        self.alpha_, self.best_score_ = float(alpha), -float(error)
        self.cv_errors_, self.lengthscales_ = errors, scales
        task.end(lambda: fitted)
        return self

    def _path(self, kernel: Kernel, X: Any, y: Any, weights: Any) -> SpectralPath:
        gram = Gram(kernel, self._training_points(kernel, X))
        return SpectralPath.of(
            gram, y, weights, fit_intercept=self.fit_intercept, allow_indefinite=True
        )

    def _candidate_alphas(self) -> np.ndarray:
        alphas = np.logspace(-8, 2, 31) if self.alphas is None else np.atleast_1d(self.alphas)
        alphas = np.asarray(alphas, np.float64)
        if not len(alphas) or not (np.isfinite(alphas).all() and (alphas > 0).all()):
            raise ValueError(f"alphas must be positive and finite; got {self.alphas!r}.")
        return alphas
