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

from mercer.arrays import beside, is_tensor, on_device, on_host, to_precision
from mercer.checks import check_weights
from mercer.errors import IndefiniteKernelWarning, NotPositiveDefiniteError
from mercer.estimators.base import KernelEstimator
from mercer.estimators.callbacks import CallbackSupportMixin, FitTask, iterations_of, told
from mercer.estimators.scale import Setting, setting
from mercer.features.centres import Given
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.losses import Loss
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.solvers.centres import CentresNewton
from mercer.solvers.defaults import default_solver
from mercer.solvers.definiteness import solved_for_nearest
from mercer.solvers.solution import Solution

ALL_ROWS = 20_000  # of tensors up to which a loss with kinks has all of them as centres


class SupervisedEstimator(KernelEstimator):
    """Checked data and weights, and the values f(x) + b of a fitted function."""

    _allow_indefinite = True

    fit_intercept: Any
    device: Any = None  # where arrays of NumPy are computed

    def _refusal_of_tensors(self) -> str:
        return ""

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
        weights, X = self._checked_weights(sample_weight, X), self._placed(X)
        return X, beside(y, X) if is_tensor(X) else y, weights

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
            y = column_or_1d(on_host(y), warn=True) if is_tensor(X) else y
        check_classification_targets(y)
        self._check_square(X)
        weights = self._checked_weights(sample_weight, X)
        return self._placed(X), y, weights

    def _placed(self, X: Any) -> Any:
        """Arrays of NumPy on the device that was asked for; tensors stay where they are."""
        if self.device is None or is_tensor(X):
            return X
        if self._is_precomputed() or not isinstance(X, np.ndarray):
            raise ValueError(
                f"device={self.device!r} computes on dense rows of numbers; got "
                f"{type(X).__name__}: write device=None, or X.toarray() for a sparse matrix."
            )
        return on_device(X, self.device)

    def _check_centres(self, centres: Any) -> None:
        if centres is not None and self._is_precomputed():
            raise ValueError(
                "centres are points, and a precomputed kernel has none: pass a kernel, or select "
                "columns with mercer.features.Nystroem."
            )

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
        rows = X.shape[0] if hasattr(X, "shape") else len(X)
        check_weights(weights, rows, "sample_weight")
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
        """f(x) + b for every row of X, before any link: a tensor where X is one."""
        self._check_fitted()
        X = self._checked(X, reset=False)
        if self._is_precomputed():
            return X @ self.dual_coef_ + self.intercept_  # type: ignore[attr-defined]
        f: RKHSFunction = self.function_  # type: ignore[attr-defined]
        values = f(self._beside_centres(X, f))
        b = self.intercept_  # type: ignore[attr-defined]
        values = values + (b if np.ndim(b) == 0 else to_precision(b, values.dtype))
        return values if is_tensor(X) else on_host(values)

    def _beside_centres(self, X: Any, f: RKHSFunction) -> Any:
        """Points where f can be evaluated: an array goes to the device of the centres."""
        on_tensors, name = is_tensor(f.coefficients), type(self).__name__
        if is_tensor(X) and not on_tensors:
            raise ValueError(
                f"this {name} was fitted on arrays of NumPy, and X is a tensor: write "
                "X.cpu().numpy(), or fit it on tensors."
            )
        if not on_tensors or is_tensor(X):
            return X
        if not isinstance(X, np.ndarray):
            raise ValueError(
                f"this {name} was fitted on tensors, and takes dense rows of numbers; got "
                f"{type(X).__name__}: write X.toarray() for a sparse matrix."
            )
        return beside(X, f.coefficients)


class ScoredOnHost:
    """The scores of scikit-learn, which are computed on arrays of NumPy; tensors become such."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions, or the share of right labels, as scikit-learn computes it."""
        X, y, sample_weight = hosted(X, y, sample_weight)
        return float(super().score(X, y, sample_weight=sample_weight))  # type: ignore[misc]


def hosted(*arrays: Any) -> tuple[Any, ...]:
    """Tensors as arrays of NumPy; everything else as it is."""
    return tuple(on_host(array) if is_tensor(array) else array for array in arrays)


class LossEstimator(ScoredOnHost, CallbackSupportMixin, SupervisedEstimator):
    """An estimator that minimises a loss by a solver of its own choice, or of the user's."""

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
        centres: Any,
        random_state: Any,
        device: Any,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.centres = centres
        self.random_state = random_state
        self.device = device

    def _setting(self, X: Any, loss: Loss) -> Setting:
        """Where f lives: on all points, or on centres."""
        self._check_centres(self.centres)
        kernel = self._resolved_kernel(X)
        points = self._training_points(kernel, X)
        solver, centres = self._solver(loss, points), self.centres
        if centres is None and isinstance(self.solver, str) and isinstance(solver, CentresNewton):
            centres = _all_of(points, loss)
        return setting(
            kernel,
            points,
            solver=solver,
            centres=centres,
            random_state=self.random_state,
            outputs=1,
            loss=loss,
        )

    def _fitted_on(self, found: Setting, X: Any, alpha: Any, intercept: Any) -> dict[str, Any]:
        """The attributes of a model fitted in a setting."""
        data = X if found.on_all else found.data
        return self._fitted(found.kernel, data, Gram(found.kernel, found.points), alpha, intercept)

    def _begin(
        self, X: Any, y: Any, weights: Any, found: Setting, parts: int | None = None
    ) -> FitTask:
        """Say that the fit begins: of so many problems, or of the steps of one."""
        steps = iterations_of(found.solver) if parts is None else parts
        return FitTask.root(self, X, y, weights, steps)

    def _solve(
        self,
        found: Setting,
        y: Any,
        loss: Loss,
        ridge: float,
        weights: Any,
        task: FitTask,
        attributes: Callable[[Any, Any], dict[str, Any]] | None = None,
        rows: np.ndarray | None = None,
    ) -> Solution:
        """Solve it, for all rows or some.

        Where there are `attributes`, made of α and b, each step is told as a part of the task.
        """
        y = found.points.vector(y)
        problem = found.pose(y, ridge, weights, bool(self.fit_intercept), loss=loss, rows=rows)
        solver = found.solver
        if attributes is not None:
            solver = told(solver, task, lambda s: attributes(s.coefficients, s.intercept))
        try:
            return solver.solve(problem)
        except NotPositiveDefiniteError:
            if not (isinstance(self.solver, str) and problem.on_all_points):
                raise
            return solved_for_nearest(problem, solver)

    def _solver(self, loss: Loss, points: PointSet) -> Any:
        if not isinstance(self.solver, str):
            return self.solver
        if self.solver != "auto":
            raise ValueError(
                f'solver must be "auto" or a solver object, as Newton() or DualAscent(); got '
                f"{self.solver!r}."
            )
        if not (isinstance(self.tol, (int, float, np.number)) and 0 < self.tol < np.inf):
            raise ValueError(f"tol must be a positive number; got {self.tol!r}.")
        kinked = not loss.is_smooth
        if self.centres is not None or (kinked and is_tensor(getattr(points, "rows", None))):
            tolerance = max(float(self.tol), CentresNewton().goal(loss, points.dtype))
            return CentresNewton(tolerance)
        return default_solver(loss, float(self.tol))

    def _keep(self, solution: Solution, attributes: dict[str, Any]) -> None:
        if not solution.status.converged:
            text = f"{type(self).__name__}: {solution.status}"
            indefinite = solution.status.witness is not None
            kind = IndefiniteKernelWarning if indefinite else ConvergenceWarning
            warnings.warn(text, kind, stacklevel=4)  # of fit
        for name, value in {**attributes, "solution_": solution}.items():
            setattr(self, name, value)


def _all_of(points: PointSet, loss: Loss) -> Given:
    """All points as centres, where these are tensors and the loss has kinks."""
    if len(points) > ALL_ROWS:
        raise ValueError(
            f"{type(loss).__name__} has kinks, and {len(points)} rows of a tensor are too many to "
            "be all centres: write centres=5000 or so, take a smooth loss such as "
            "'squared_hinge' or 'huber', or write X.cpu().numpy() for dual ascent on the CPU."
        )
    return Given(indices=np.arange(len(points)))


def checked_regularization(value: Any, name: str = "regularization") -> float:
    """Refuse anything but a nonnegative finite number."""
    good = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not (good and 0 <= float(value) < np.inf):
        raise ValueError(f"{name} must be nonnegative and finite; got {value!r}.")
    return float(value)
