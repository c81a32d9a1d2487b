"""What support vector machines share: checked parameters, kernels, support vectors, warnings."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length

from mercer.errors import IndefiniteKernelWarning
from mercer.estimators.callbacks import CallbackSupportMixin
from mercer.estimators.supervised import SupervisedEstimator
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.operators import Gram
from mercer.solvers.dual import DualAscent

GAP_OF_TOLERANCE = 0.1  # libsvm stops at slopes that agree to tol; this gap is about as exact


class SupportVectorMachine(CallbackSupportMixin, SupervisedEstimator, BaseEstimator):
    """Checks, the kernel, the solver and the support vectors of all machines."""

    gamma: Any
    degree: Any
    coef0: Any
    tol: Any
    cache_size: Any
    shrinking: Any
    max_iter: Any

    def _refusal_of_tensors(self) -> str:
        return (
            "On tensors, KernelClassifier(loss='squared_hinge'), or loss='hinge' with centres=1000 "
            "or so, which is smoothed until its gap is small, and KernelRegressor("
            "loss='epsilon_insensitive') minimise the same kind of objective."
        )

    # ---- checks ---------------------------------------------------------------------------------

    def _check_common_parameters(self) -> None:
        _check_number(self, "tol", above=0.0)
        if self.cache_size is not None:
            _check_number(self, "cache_size", above=0.0)
        whole = isinstance(self.max_iter, Integral)
        if not (whole and (self.max_iter == -1 or int(self.max_iter) > 0)):
            raise ValueError(
                f"max_iter must be a positive whole number, or −1 for the solver's own cap; got "
                f"{self.max_iter!r}."
            )

    def _checked_points(self, X: Any, *y: Any) -> Any:
        """X, or X and y, as scikit-learn checks them."""
        self._forget()
        checked = self._checked(X, *y, reset=True)
        X = checked[0] if y else checked
        if y:
            check_consistent_length(*checked)
        self._check_square(X)
        return checked

    def _checked_weights(self, sample_weight: Any, X: Any) -> np.ndarray:
        """A weight for each point, 1 where none is given."""
        weights = super()._checked_weights(sample_weight, X)
        count = X.shape[0] if hasattr(X, "shape") else len(X)
        return np.ones(count) if weights is None else weights

    # ---- kernel and solver ----------------------------------------------------------------------

    def _gram(self, X: Any, weights: np.ndarray) -> Gram:
        kernel = self._weighted_kernel(X, weights)
        return Gram(kernel, self._training_points(kernel, X))

    def _weighted_kernel(self, X: Any, weights: np.ndarray) -> Kernel:
        """The kernel of the parameters; gamma="scale" takes the variance of weighted points."""
        if not (isinstance(self.gamma, str) and self.gamma == "scale" and hasattr(X, "shape")):
            return self._resolved_kernel(X)
        self_gamma, self.gamma = self.gamma, _scale_gamma(X, weights)
        try:
            return self._resolved_kernel(X)
        finally:
            self.gamma = self_gamma

    def _solver(self, points: int) -> DualAscent:
        cache = None if self.cache_size is None else int(self.cache_size * (1 << 20))
        solver = DualAscent(
            GAP_OF_TOLERANCE * float(self.tol),
            cache=cache,
            shrinking=None if self.shrinking else False,
        )
        own = min(solver.max_iterations, 100_000 + 1000 * points)
        return replace(solver, max_iterations=own if self.max_iter == -1 else int(self.max_iter))

    # ---- what a fit keeps -----------------------------------------------------------------------

    def _supported(
        self, gram: Gram, support: np.ndarray, coefficients: np.ndarray
    ) -> dict[str, Any]:
        """The support, and its function in the precision of the points."""
        points = gram.x.take(support)
        return {
            "kernel_": gram.kernel,
            "support_": support.astype(np.int32),
            "support_vectors_": np.empty((0, 0)) if self._is_precomputed() else points.data,
            "function_": RKHSFunction(gram.kernel, points, coefficients.astype(points.dtype)),
        }

    def _of_one(self, gram: Gram, alpha: np.ndarray, intercept: float) -> dict[str, Any]:
        """The attributes of a machine with one output."""
        support = np.flatnonzero(alpha)
        return {
            **self._supported(gram, support, alpha[support]),
            "dual_coef_": alpha[support][None, :],
            "intercept_": np.array([intercept]),
            "n_support_": np.array([len(support)], np.int32),
        }

    def _set(self, attributes: dict[str, Any]) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)

    def _values(self, X: Any) -> np.ndarray:
        """f(x) for every row of X, without intercepts."""
        self._check_fitted()
        X = self._checked(X, reset=False)
        if self._is_precomputed():
            return X[:, self.support_] @ self.function_.coefficients
        return self.function_(X)

    def _warn(self, statuses: list[Any], depth: int = 4) -> None:
        failed = [status for status in statuses if not status.converged]
        if failed:
            indefinite = failed[0].witness is not None
            kind = IndefiniteKernelWarning if indefinite else ConvergenceWarning
            warnings.warn(f"{type(self).__name__}: {failed[0]}", kind, stacklevel=depth)  # of fit


def _check_number(owner: object, name: str, above: float, at_most: float = math.inf) -> None:
    value = getattr(owner, name)
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not (real and above < float(value) <= at_most and math.isfinite(value)):
        limit = "" if math.isinf(at_most) else f" and at most {at_most:g}"
        raise ValueError(f"{name} must be a number above {above:g}{limit}; got {value!r}.")


def _scale_gamma(X: Any, weights: np.ndarray) -> float:
    """1/(columns · variance of the entries), a row of weight 2 counting twice."""
    total, width = float(weights.sum()), X.shape[1]
    if hasattr(X, "tocsr"):
        mean = float((weights @ X).sum()) / (total * width)
        square = float((weights @ X.multiply(X)).sum()) / (total * width)
        variance = square - mean**2
    elif (weights == 1).all():
        variance = float(X.var())
    else:
        mean = float((weights @ X).sum()) / (total * width)
        variance = float((weights @ (X - mean) ** 2).sum()) / (total * width)
    return 1.0 / (width * variance) if variance else 1.0
