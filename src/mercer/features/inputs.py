"""What estimators and feature maps share: nested parameters, kernels from what users type."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import validate_data

from mercer.arrays import is_tensor
from mercer.kernels.base import Kernel, parts
from mercer.kernels.conversion import as_kernel
from mercer.kernels.custom import Precomputed
from mercer.points import PointSet, VectorPoints, as_vectors
from mercer.structured.base import StructuredKernel

FEW = 4096  # numbers that are checked faster than scikit-learn finds out what they are in


class NestedParameters:
    """`set_params` that reaches into frozen objects: `kernel__lengthscale` makes a new kernel.

    scikit-learn's own would set an attribute of the kernel, which a frozen one does not have.
    """

    def set_params(self, **params: Any) -> Self:
        inner: dict[str, dict[str, Any]] = {}
        outer: dict[str, Any] = {}
        for name, value in params.items():
            first, _, rest = name.partition("__")
            if rest and hasattr(params.get(first, getattr(self, first, None)), "with_"):
                inner.setdefault(first, {})[rest] = value
            else:
                _refuse_inside_a_name(type(self).__name__, first, rest, params, self)
                outer[name] = value
        super().set_params(**outer)  # type: ignore[misc]
        for name, changes in inner.items():
            setattr(self, name, getattr(self, name).with_(**changes))
        return self


def _refuse_inside_a_name(owner: str, name: str, rest: str, given: Any, estimator: Any) -> None:
    """A kernel that is a name, as "rbf", has no parameters inside."""
    value = given.get(name, getattr(estimator, name, None))
    if rest and isinstance(value, str):
        raise ValueError(
            f"{name}={value!r} of {owner} is a name, which has no parameter {rest!r}. Write a "
            f"kernel object, as kernel=Gaussian(lengthscale=1.0), and set {name}__{rest} of that; "
            "or set gamma, degree or coef0, which belong to names."
        )


class KernelInput(NestedParameters):
    """Points and kernels: vectors as scikit-learn checks them, other points as the kernel does."""

    kernel: Any
    _allow_indefinite = False  # whether "sigmoid" is taken, as scikit-learn takes it

    def _is_precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _resolved_kernel(self, X: Any) -> Kernel:
        """The kernel object that the parameters describe, for these training points."""
        if self._is_precomputed():
            return Precomputed(X)
        if isinstance(self.kernel, Kernel):
            return self.kernel.fitted(X)
        options = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}  # type: ignore[attr-defined]
        allowed = self._allow_indefinite
        return as_kernel(self._callable_kernel(), X=X, allow_indefinite=allowed, **options)

    def _callable_kernel(self) -> Any:
        """A callable kernel with `kernel_params` bound to it, as scikit-learn passes them."""
        extra = getattr(self, "kernel_params", None)
        if not callable(self.kernel) or not extra:
            return self.kernel
        return _Bound(self.kernel, dict(extra))

    def _checked(self, X: Any, *y: Any, reset: bool, **options: Any) -> Any:
        """X (and y) as scikit-learn checks them where X holds vectors; tensors stay tensors."""
        if not (reset or y) and self._is_known(X) and X.size <= FEW and np.isfinite(X).all():
            return X  # as scikit-learn would, after more than it takes to predict a row
        if is_tensor(X):
            return self._checked_tensors(X, *y, reset=reset)
        if self._holds_objects(X):
            if hasattr(X, "columns"):
                return validate_data(self, X, *y, reset=reset, skip_check_array=True)
            if not length(X):
                raise ValueError(f"{type(self).__name__} needs at least one object; X has none.")
            return (X, *y) if y else X  # the kernel checks objects; they have no features
        return validate_data(
            self,
            X,
            *y,
            reset=reset,
            accept_sparse=() if self._is_precomputed() else ("csr", "csc"),
            dtype=[np.float64, np.float32],
            **options,
        )

    def _is_known(self, X: Any) -> bool:
        """Whether X is rows of plain numbers, as many in each as in `fit`."""
        width = getattr(self, "n_features_in_", None)
        known = is_plain(X) and len(X) > 0 and X.shape[1] == width
        return known and not hasattr(self, "feature_names_in_")

    def _refusal_of_tensors(self) -> str:
        """What to write instead of tensors, nothing where they are taken."""
        return "KernelRidge, KernelRegressor and KernelClassifier take tensors."

    def _checked_tensors(self, X: Any, *y: Any, reset: bool) -> Any:
        """The checks of scikit-learn that tensors need; what they hold is checked as points."""
        refusal = self._refusal_of_tensors()
        if refusal:
            raise ValueError(
                f"{type(self).__name__} computes on the CPU and takes arrays of NumPy: write "
                f"X.cpu().numpy(). {refusal}"
            )
        if self._is_precomputed():
            raise ValueError('kernel="precomputed" takes NumPy arrays: write X.cpu().numpy().')
        points = as_vectors(X)
        if reset:
            self.n_features_in_ = points.width
        elif points.width != self.n_features_in_:
            raise ValueError(
                f"X has {points.width} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return (points.rows, _targets_of(X, y[0])) if y else points.rows

    def _holds_objects(self, X: Any) -> bool:
        """Whether X is a list of things that are no numbers, for a kernel that takes those."""
        if is_tensor(X):
            return False
        if isinstance(self.kernel, Kernel):
            if any(isinstance(part, StructuredKernel) for part in parts(self.kernel)):
                return True
            names = self.kernel._column_names()
            return bool(names) or (
                _is_plain_sequence(X) and not isinstance(self.kernel.points(X), VectorPoints)
            )
        return callable(self.kernel) and _is_plain_sequence(X) and _first_is_object(X)

    def _training_points(self, kernel: Kernel, X: Any) -> PointSet:
        return kernel.points(np.arange(len(X)) if self._is_precomputed() else X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = not self._is_precomputed()
        tags.input_tags.pairwise = self._is_precomputed()
        return tags


class _Bound:
    """A kernel function with keyword arguments, which can be pickled if the function can."""

    def __init__(self, function: Any, extra: dict[str, Any]) -> None:
        self.function, self.extra = function, extra

    def __call__(self, x: Any, y: Any) -> Any:
        return self.function(x, y, **self.extra)


def _targets_of(X: Any, y: Any) -> Any:
    """Targets of tensors: tensors on their device, or arrays of NumPy; one row for each of X."""
    if is_tensor(y) and y.device != X.device:
        raise ValueError(
            f"X and y must be on one device; got {X.device} and {y.device}: write "
            f"y.to({str(X.device)!r})."
        )
    targets = y.detach() if is_tensor(y) else np.asarray(y)
    if targets.ndim not in (1, 2) or len(targets) != len(X) or not len(X):
        raise ValueError(
            f"y must have one row for each of the {len(X)} rows of X; got shape "
            f"{tuple(targets.shape)}."
        )
    return targets


def _is_plain_sequence(X: Any) -> bool:
    return isinstance(X, (list, tuple)) or (
        isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind in "OUS"
    )


def _first_is_object(X: Any) -> bool:
    return len(X) > 0 and (isinstance(X[0], str) or np.asarray(X[0]).dtype.kind not in "fiub")


def is_plain(X: Any) -> bool:
    """Whether X is rows of numbers as they are computed with."""
    return type(X) is np.ndarray and X.ndim == 2 and X.dtype in (np.float64, np.float32)


def length(X: Any) -> int:
    """The number of rows of an array, a sparse matrix, a table or a list."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)
