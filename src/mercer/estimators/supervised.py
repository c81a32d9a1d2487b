"""What estimators with targets share: checked data and weights, fitted attributes, values of f."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from mercer.arrays import beside, is_tensor, on_host
from mercer.errors import IndefiniteKernelWarning, NotPositiveDefiniteError
from mercer.estimators.base import KernelEstimator
from mercer.estimators.callbacks import CallbackSupportMixin, FitTask, iterations_of, told
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.losses import Loss
from mercer.operators import Gram
from mercer.solvers.defaults import default_solver
from mercer.solvers.definiteness import solved_for_nearest
from mercer.solvers.problem import Problem
from mercer.solvers.solution import Solution


class SupervisedEstimator(KernelEstimator):
    """Checked data and weights, and the values f(x) + b of a fitted function."""

    fit_intercept: Any

    def _checked_regression_data(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """X, one or several targets for each row, and weights."""
        self._forget()
        if self._holds_objects(X):
            X, y = self._checked(X, y, reset=True)
            y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
            check_consistent_length(X, y)
        else:
            X, y = self._checked(X, y, reset=True, multi_output=True, y_numeric=True)
        self._check_square(X)
        return X, y, self._checked_weights(sample_weight, X)

    def _checked_classification_data(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """X, one label for each row, and weights."""
        self._forget()
        if y is None:
            raise ValueError(
                f"requires y to be passed, but the target y is None: {type(self).__name__} learns "
                "from labels."
            )
        if self._holds_objects(X):
            X, y = self._checked(X, y, reset=True)
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
        else:
            X, y = self._checked(X, y, reset=True)
        check_classification_targets(y)
        self._check_square(X)
        return X, y, self._checked_weights(sample_weight, X)

    def _check_square(self, X: Any) -> None:
        if self._is_precomputed() and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"a precomputed kernel is a square matrix in fit; got shape {X.shape}. Pass "
                "K(X_train, X_train)."
            )

    def _checked_weights(self, sample_weight: Any, X: Any) -> np.ndarray | None:
        if sample_weight is None:
            return None
        sample_weight = on_host(sample_weight) if is_tensor(sample_weight) else sample_weight
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

    def _function_values(self, X: Any) -> np.ndarray:
        """f(x) + b for every row of X, before any link."""
        self._check_fitted()
        X = self._checked(X, reset=False)
        if is_tensor(self.X_fit_) and not is_tensor(X):  # type: ignore[attr-defined]
            moved = beside(X, self.X_fit_)  # type: ignore[attr-defined]
            return on_host(self.function_(moved) + self.intercept_)  # type: ignore[attr-defined]
        if self._is_precomputed():
            return X @ self.dual_coef_ + self.intercept_  # type: ignore[attr-defined]
        return self.function_(X) + self.intercept_  # type: ignore[attr-defined]


class LossEstimator(CallbackSupportMixin, SupervisedEstimator):
    """An estimator that minimises a loss by a solver of its own choice, or of the user's."""

    _allow_indefinite = True

    def __init__(
        self,
        kernel: Any,
        gamma: Any,
        degree: Any,
        coef0: Any,
        kernel_params: Any,
        fit_intercept: Any,
        solver: Any,
        tol: Any,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol

    def _gram(self, X: Any) -> tuple[Kernel, Gram]:
        kernel = self._resolved_kernel(X)
        return kernel, Gram(kernel, self._training_points(kernel, X))

    def _begin(self, X: Any, y: Any, weights: Any, loss: Loss, parts: int | None = None) -> FitTask:
        """Say that the fit begins: of so many problems, or of the steps of one."""
        steps = iterations_of(self._solver(loss)) if parts is None else parts
        return FitTask.root(self, X, y, weights, steps)

    def _solve(
        self,
        gram: Gram,
        y: Any,
        loss: Loss,
        ridge: float,
        weights: Any,
        task: FitTask,
        attributes: Callable[[Any, Any], dict[str, Any]] | None = None,
    ) -> Solution:
        """Solve it; with `attributes`, made of α and b, each step is told as a part of the task."""
        problem = Problem(gram, y, loss, ridge, weights, bool(self.fit_intercept))
        solver = self._solver(loss)
        if attributes is not None:
            solver = told(solver, task, lambda s: attributes(s.coefficients, s.intercept))
        try:
            return solver.solve(problem)
        except NotPositiveDefiniteError:
            if not isinstance(self.solver, str):
                raise
            return solved_for_nearest(problem, solver)

    def _solver(self, loss: Loss) -> Any:
        if not isinstance(self.solver, str):
            return self.solver
        if self.solver != "auto":
            raise ValueError(
                f'solver must be "auto" or a solver object, as Newton() or DualAscent(); got '
                f"{self.solver!r}."
            )
        if not (isinstance(self.tol, (int, float, np.number)) and 0 < self.tol < np.inf):
            raise ValueError(f"tol must be a positive number; got {self.tol!r}.")
        return default_solver(loss, float(self.tol))

    def _keep(self, solution: Solution, attributes: dict[str, Any]) -> None:
        if not solution.status.converged:
            text = f"{type(self).__name__}: {solution.status}"
            indefinite = solution.status.witness is not None
            kind = IndefiniteKernelWarning if indefinite else ConvergenceWarning
            warnings.warn(text, kind, stacklevel=4)  # of fit
        for name, value in {**attributes, "solution_": solution}.items():
            setattr(self, name, value)


def checked_regularization(value: Any, name: str = "regularization") -> float:
    """Refuse anything but a nonnegative finite number."""
    good = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not (good and 0 <= float(value) < np.inf):
        raise ValueError(f"{name} must be nonnegative and finite; got {value!r}.")
    return float(value)
