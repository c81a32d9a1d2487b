"""Kernel ridge regression, and its choice of regularisation by leave-one-out."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import _check_sample_weight

from mercer.arrays import is_tensor, like, namespace, on_device, to_numpy
from mercer.estimators.base import KernelEstimator
from mercer.estimators.lengthscales import candidate_lengthscales
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.losses import Squared
from mercer.operators import Gram
from mercer.solvers.direct import Direct
from mercer.solvers.path import SpectralPath
from mercer.solvers.problem import Problem


class _Ridge(KernelEstimator, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """What both ridge estimators share: checked input and predictions."""

    fit_intercept: bool
    device: Any

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
        weights = self._checked_weights(sample_weight, X)
        if self.device is None or is_tensor(X):
            return X, y, weights
        if self._is_precomputed() or not isinstance(X, np.ndarray):
            raise ValueError(
                f"device={self.device!r} computes on dense rows of numbers; got "
                f"{type(X).__name__}: write device=None, or X.toarray() for a sparse matrix."
            )
        return tuple(on_device(array, self.device) for array in (X, y, weights))

    def _checked_weights(self, sample_weight: Any, X: Any) -> np.ndarray | None:
        if sample_weight is None:
            return None
        sample_weight = to_numpy(sample_weight) if is_tensor(sample_weight) else sample_weight
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

    def _keep(self, kernel: Kernel, X: Any, gram: Gram, alpha: Any, intercept: Any) -> None:
        self.kernel_ = kernel
        self.X_fit_ = X
        self.dual_coef_ = alpha
        self.intercept_ = intercept
        self.function_ = RKHSFunction(kernel, gram.x, alpha)

    def predict(self, X: Any) -> np.ndarray:
        """f(x) for every row of X."""
        self._check_fitted()
        X = self._checked(X, reset=False)
        if self._is_precomputed():
            return X @ self.dual_coef_ + self.intercept_
        if is_tensor(self.X_fit_) and not is_tensor(X):
            moved = like(X, self.X_fit_)
            return to_numpy(self.function_(moved) + self.intercept_)
        return self.function_(X) + self.intercept_

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions, as scikit-learn computes it."""
        predicted = to_numpy(self.predict(X))
        return float(r2_score(to_numpy(y), predicted, sample_weight=sample_weight))


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
        device: Any = None,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit f to targets y, one or several for each row of X."""
        X, y, weights = self._checked_training_data(X, y, sample_weight)
        alphas = _checked_alphas(self.alpha, y)
        kernel = self._resolved_kernel(X)
        gram = Gram(kernel, self._training_points(kernel, X))
        total = len(y) if weights is None else float(weights.sum())
        if len(alphas) == 1:
            problem = self._problem(gram, y, alphas[0] / total, weights)
            solution = self._solver().solve(problem)
            self._keep(kernel, X, gram, solution.coefficients, solution.intercept)
        else:
            parts = [
                self._solver().solve(self._problem(gram, column, alpha / total, weights))
                for column, alpha in zip(y.T, alphas, strict=True)
            ]
            solution = parts[0]
            xp = namespace(parts[0].coefficients)
            coefficients = xp.stack([part.coefficients for part in parts], axis=1)
            intercepts = like([part.intercept for part in parts], coefficients)
            self._keep(kernel, X, gram, coefficients, intercepts)
        self.solution_ = solution
        return self

    def _problem(self, gram: Gram, y: Any, regularization: float, weights: Any) -> Problem:
        return Problem(gram, y, Squared(), regularization, weights, self.fit_intercept)

    def _solver(self) -> Any:
        if isinstance(self.solver, str):
            if self.solver != "auto":
                raise ValueError(f'solver must be "auto" or a solver object; got {self.solver!r}.')
            return Direct()
        return self.solver


def _checked_alphas(alpha: Any, y: np.ndarray) -> list[float]:
    values = np.asarray(alpha, np.float64).ravel().tolist()
    outputs = 1 if y.ndim == 1 else y.shape[1]
    if len(values) not in (1, outputs):
        raise ValueError(
            f"alpha must be one number, or one for each of {outputs} outputs; got {len(values)}."
        )
    for value in values:
        if not (np.isfinite(value) and value >= 0):
            raise ValueError(f"alpha must be nonnegative and finite; got {value!r}.")
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
    function_, dual_coef_, X_fit_, intercept_ : as in `KernelRidge`.

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
        self.alphas = alphas
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.lengthscales = lengthscales
        self.fit_intercept = fit_intercept
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose, then fit."""
        X, y, weights = self._checked_training_data(X, y, sample_weight)
        alphas = self._candidate_alphas()
        total = len(y) if weights is None else float(weights.sum())
        base = self._resolved_kernel(X)
        scales = candidate_lengthscales(self.lengthscales, base, self.gamma, X, weights)
        kernels = [base] if scales is None else [base.with_(lengthscale=s) for s in scales]
        best: Any = None
        errors = np.empty((len(kernels), len(alphas)))
        for row, kernel in enumerate(kernels):
            gram = Gram(kernel, self._training_points(kernel, X))
            path = SpectralPath.of(gram, y, weights, fit_intercept=self.fit_intercept)
            errors[row] = path.leave_one_out_errors((alphas / total).tolist()).mean(axis=1)
            if not np.isfinite(errors[row]).any():
                raise ValueError(
                    "leave-one-out with an intercept needs two samples or more; got n_samples = 1."
                )
            column = int(np.nanargmin(errors[row]))
            if best is None or errors[row, column] < best[0]:
                best = errors[row, column], kernel, gram, alphas[column], path
        error, kernel, gram, alpha, path = best
        coefficients, intercept = path.coefficients(float(alpha / total))
        self._keep(kernel, X, gram, coefficients, intercept)
        self.alpha_, self.best_score_ = float(alpha), -float(error)
        self.cv_errors_, self.lengthscales_ = errors, scales
        return self

    def _candidate_alphas(self) -> np.ndarray:
        alphas = np.logspace(-8, 2, 31) if self.alphas is None else np.atleast_1d(self.alphas)
        alphas = np.asarray(alphas, np.float64)
        if not len(alphas) or not (np.isfinite(alphas).all() and (alphas > 0).all()):
            raise ValueError(f"alphas must be positive and finite; got {self.alphas!r}.")
        return alphas
