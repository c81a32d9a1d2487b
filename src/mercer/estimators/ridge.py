"""Kernel ridge regression, and its choice of regularisation by leave-one-out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_array

from mercer.arrays import on_host
from mercer.errors import IndefiniteKernelWarning
from mercer.estimators.callbacks import (
    CallbackSupportMixin,
    FitTask,
    iterations_of,
    told,
    with_callbacks,
)
from mercer.estimators.lengthscales import candidate_lengthscales
from mercer.estimators.scale import Setting, block_setting, is_blocks, setting
from mercer.estimators.supervised import ScoredOnHost, SupervisedEstimator
from mercer.kernels.base import Kernel
from mercer.operators import Gram
from mercer.solvers.direct import Direct
from mercer.solvers.spectral import SpectralPath
from mercer.solvers.solution import Solution


class _Ridge(
    ScoredOnHost,
    CallbackSupportMixin,
    SupervisedEstimator,
    MultiOutputMixin,
    RegressorMixin,
    BaseEstimator,
):
    """What both ridge estimators share: parameters, checked input, predictions."""

    def __init__(
        self,
        kernel: Any,
        gamma: Any,
        degree: Any,
        coef0: Any,
        kernel_params: Any,
        fit_intercept: bool,
        device: Any,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.device = device

    def _keep(self, solution: Solution, attributes: dict[str, Any], depth: int = 4) -> None:
        if solution.status.witness is not None:
            text = f"{type(self).__name__}: {solution.status}"
            warnings.warn(text, IndefiniteKernelWarning, stacklevel=depth)  # of fit
        for name, value in {**attributes, "solution_": solution}.items():
            setattr(self, name, value)

    def predict(self, X: Any) -> np.ndarray:
        """f(x) for every row of X."""
        return self._function_values(X)


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
        How the problem is solved. "auto" takes the quickest exact solver that fits into memory; a
        factorisation, or conjugate gradients that never store the matrix. Where none is within
        reach it takes centres, and warns with an `ApproximationWarning`. See `explain`.
    centres : int or choice of `mercer.features.centres`, optional
        Seek f among functions with so many centres, drawn from the rows, in one pass over X for
        each step; how they are drawn can be said, as by `KMeansPlusPlus(1000)`. X may then also be
        any iterable of blocks of rows that can be started again.
    random_state : int, Generator, RandomState or None
        Draws the centres.
    device : str, torch.device or None, default=None
        Where NumPy arrays are computed: "cuda" moves them to a GPU. Tensors of torch stay where
        they are, and predictions at tensors are tensors.

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
        centres: Any = None,
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        super().__init__(kernel, gamma, degree, coef0, kernel_params, fit_intercept, device)
        self.alpha = alpha
        self.solver = solver
        self.centres = centres
        self.random_state = random_state

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit f to targets y, one or several for each row of X."""
        if is_blocks(X):
            return self._fit_blocks(X, y, sample_weight)
        X, y, weights = self._checked_regression_data(X, y, sample_weight)
        alphas, kernel = _checked_alphas(self.alpha, y), self._resolved_kernel(X)
        self._check_centres(self.centres)
        found = setting(
            kernel,
            self._training_points(kernel, X),
            solver=self.solver,
            centres=self.centres,
            random_state=self.random_state,
            outputs=1 if y.ndim == 1 else y.shape[1],
            ridge=float(min(alphas)),
            exact=Direct(),
            exact_only=self._is_precomputed() or not min(alphas) > 0,
        )
        data = X if found.on_all else found.data
        return self._solve(found, kernel, data, y, weights, alphas)

    def _fit_blocks(self, X: Any, y: Any, sample_weight: Any) -> Self:
        self._forget()
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        first = np.asarray(next(iter(X), np.empty((0, 1))))
        kernel = self._resolved_kernel(first)
        weights = self._checked_weights(sample_weight, y.reshape(len(y), -1))
        found = block_setting(
            kernel,
            X,
            len(y),
            solver=self.solver,
            centres=self.centres,
            random_state=self.random_state,
        )
        self.n_features_in_ = first.shape[1]
        alphas = _checked_alphas(self.alpha, y)
        return self._solve(found, kernel, found.data, y, weights, alphas)

    def _solve(
        self, found: Setting, kernel: Kernel, data: Any, y: Any, weights: Any, alphas: list[float]
    ) -> Self:
        gram = Gram(kernel, found.points)
        total = len(y) if weights is None else float(weights.sum())
        ridges = [alpha / total for alpha in alphas]
        if len(ridges) == 1:
            task = FitTask.root(self, data, y, weights, iterations_of(found.solver))
            problem = found.pose(y, ridges[0], weights, self.fit_intercept)
            heard = told(found.solver, task, lambda state: self._so_far(kernel, data, gram, state))
            solution = heard.solve(problem)
        else:
            task = FitTask.root(self, data, y, weights, len(ridges))
            parts = []
            for column, ridge in zip(y.T, ridges, strict=True):
                part = task.part("target")
                problem = found.pose(column, ridge, weights, self.fit_intercept)
                parts.append(found.solver.solve(problem))
                part.end()
            solution = Solution.stacked(parts)
        fitted = self._fitted(kernel, data, gram, solution.coefficients, solution.intercept)
        self._keep(solution, fitted, depth=5)
        self.choice_ = found.choice
        task.end(lambda: fitted)
        return self

    def explain(self) -> str:
        """Which solver was used and why: the candidates with their predicted time and memory."""
        self._check_fitted()
        if self.choice_ is None:
            return f"The solver was given, or there was nothing to choose. {self.solution_.status}"
        return f"{self.choice_.explain()}\n{self.solution_.status}"

    def _so_far(self, kernel: Kernel, X: Any, gram: Gram, state: Any) -> dict[str, Any]:
        return self._fitted(kernel, X, gram, state.coefficients, state.intercept)


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
    device : str, torch.device or None, default=None
        As in `KernelRidge`.

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
        device: Any = None,
    ) -> None:
        super().__init__(kernel, gamma, degree, coef0, kernel_params, fit_intercept, device)
        self.alphas = alphas
        self.lengthscales = lengthscales

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose, then fit."""
        X, y, weights = self._checked_regression_data(X, y, sample_weight)
        alphas = self._candidate_alphas()
        total = len(y) if weights is None else float(weights.sum())
        base = self._resolved_kernel(X)
        scales = candidate_lengthscales(self.lengthscales, base, self.gamma, X, weights)
        kernels = [base] if scales is None else [base.with_(lengthscale=s) for s in scales]
        task = FitTask.root(self, X, y, weights, len(kernels))
        errors, path = _searched(
            kernels, lambda kernel: self._path(kernel, X, y, weights), alphas / total, task
        )
        row, column = np.unravel_index(np.nanargmin(errors), errors.shape)
        alpha = float(alphas[column])
        solution = path.solution(alpha / total)
        fitted = self._fitted(kernels[row], X, path.gram, solution.coefficients, solution.intercept)
        self._keep(solution, fitted)
        self.alpha_, self.best_score_ = alpha, -float(errors[row, column])
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


def _searched(
    kernels: Sequence[Kernel],
    path_of: Callable[[Kernel], SpectralPath],
    ridges: np.ndarray,
    task: FitTask,
) -> tuple[np.ndarray, SpectralPath]:
    """Leave-one-out errors of all kernels and ridges λ, and the path of the best kernel.

    Kernels that are not reached, where the task is told to end, have NaN.
    """
    errors = np.full((len(kernels), len(ridges)), np.nan)
    best, least = None, math.inf
    for row, kernel in enumerate(kernels):
        part, path = task.part("lengthscale"), path_of(kernel)
        errors[row] = on_host(path.leave_one_out_errors(ridges.tolist())).mean(axis=1)
        if not np.isfinite(errors[row]).any():
            raise ValueError(
                "leave-one-out with an intercept needs two samples or more; got n_samples = 1."
            )
        if best is None or np.nanmin(errors[row]) < least:
            best, least = path, np.nanmin(errors[row])
        if part.end():
            break
    assert best is not None
    return errors, best
