"""Inputs and outputs of estimators: parameters of kernels; X, y and weights, checked; values of f.

The only module of estimators that asks where an array lives.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from mercer.arrays import as_numpy, beside, floating, is_tensor, on_device, to_precision
from mercer.checks import check_weights
from mercer.distributed import is_scattered
from mercer.features.inputs import KernelInput, KernelLike, from_tensor, length
from mercer.functions import RKHSFunction
from mercer.points import is_point_set


@dataclass(eq=False, repr=False, kw_only=True)
class KernelParameters(KernelInput):
    """The kernel, and the parameters of named and callable ones, as in scikit-learn."""

    kernel: KernelLike = "rbf"
    gamma: float | str | None = None
    degree: float = 3
    coef0: float = 1
    kernel_params: dict[str, Any] | None = None


def forget(estimator: Any) -> None:
    """Drop what an earlier fit left, at once, so that an interruption leaves nothing half done."""
    stays = dict(vars(estimator))
    for name in vars(estimator):
        if name.endswith("_") and not name.startswith("_"):
            del stays[name]
    estimator.__dict__ = stays


def admit_numbers(estimator: KernelInput, X: Any, y: Any, sample_weight: Any) -> Any:
    """X, one or several real targets for each row, and weights or None."""
    forget(estimator)
    objects = estimator._holds_objects(X)
    X, y = estimator._checked(X, y, reset=True, multi_output=True, y_numeric=True)
    if objects:  # of which scikit-learn has looked at neither
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(X, y)
    X, weights = _admit_points(estimator, X, sample_weight)
    if isinstance(X, np.ndarray) or scipy.sparse.issparse(X):
        limit = float(np.finfo(np.float32).max)  # which values of f, as precise as X, would reach
        if X.dtype == np.float32 and (largest := float(np.abs(y).max(initial=0.0))) > limit:
            raise ValueError(
                f"y has values of size {largest:.1g}, beyond {limit:.0g}, the largest number of "
                "float32, in which X is given: pass X as float64, or scale y."
            )
        return X, y, weights
    if is_scattered(X):
        y = to_precision(floating(y), "float64")
    return X, beside(y, X) if is_tensor(X) else y, weights


def admit_labels(estimator: KernelInput, X: Any, y: Any, sample_weight: Any) -> Any:
    """X, one label for each row as an array of NumPy, and weights or None."""
    forget(estimator)
    if y is None:
        raise ValueError(
            f"requires y to be passed, but the target y is None: {type(estimator).__name__} learns "
            "from labels."
        )
    X, y = estimator._checked(X, y, reset=True)
    if not is_scattered(X):  # whose labels stay where they are
        y = as_numpy(y) if is_tensor(X) else y
        if type(y) is not np.ndarray or y.ndim != 1:  # scikit-learn has looked at labels of vectors
            y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        check_classification_targets(y)
    elif y.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {y.shape} instead.")
    X, weights = _admit_points(estimator, X, sample_weight)
    return X, y, weights


def admit_points(estimator: KernelInput, X: Any, sample_weight: Any) -> Any:
    """X, and weights or None."""
    forget(estimator)
    return _admit_points(estimator, estimator._checked(X, reset=True), sample_weight)


def _admit_points(estimator: KernelInput, X: Any, sample_weight: Any) -> Any:
    """X where it is computed, and weights: NumPy arrays go to the device that was asked for."""
    precomputed = estimator._is_precomputed()
    if precomputed:
        estimator._check_square(X)
    weights = None if sample_weight is None else admit_weights(sample_weight, X)
    device = getattr(estimator, "device", None)
    if device is None or is_tensor(X):
        return X, weights
    if precomputed or not isinstance(X, np.ndarray):
        raise ValueError(
            f"device={device!r} computes on dense rows of numbers; got {type(X).__name__}: write "
            "device=None, or X.toarray() for a sparse matrix."
        )
    if estimator._streams:
        on_device(X[:0], device)  # a device that is not there is refused
        from mercer.points.streamed import fits  # torch is there

        if not fits(X, device):
            return X, weights  # its points are brought to the device in blocks
    return on_device(X, device), weights


def admit_weights(sample_weight: Any, X: Any) -> np.ndarray | None:
    """One number ≥ 0 for each row, not all zero; None where nothing is given."""
    if sample_weight is None:
        return None
    if is_scattered(X):
        from mercer.distributed.admission import admitted

        beside_rows = admitted(sample_weight, beside=X, what="sample_weight")
        weights: Any = to_precision(floating(beside_rows), "float64")
    elif isinstance(X, np.ndarray) or hasattr(X, "tocsr"):
        weights = _check_sample_weight(from_tensor(sample_weight), X, dtype=np.float64)
    else:
        weights = np.asarray(from_tensor(sample_weight), np.float64)
    check_weights(weights, length(X), "sample_weight")
    return weights


def as_column(values: Any) -> Any:
    """A column where there is one number for each row, in an array, a series or a list.

    >>> as_column([1.0, 2.0]).shape, as_column(["a", "b"])
    ((2, 1), ['a', 'b'])
    """
    if isinstance(values, (list, tuple)) and not all(isinstance(row, Real) for row in values):
        return values
    if np.ndim(values) != 1 or np.asarray(values).dtype.kind not in "fiub":
        return values
    return np.asarray(values)[:, None]


def is_blocks(X: Any) -> bool:
    """Whether X gives blocks of rows: an iterable that is no array, table, list or text.

    >>> is_blocks([[0.0]]), is_blocks(iter([[0.0]])), is_blocks(np.zeros((2, 1)))
    (False, True, False)
    """
    if isinstance(X, (list, tuple, str, bytes, dict)) or scipy.sparse.issparse(X):
        return False
    if is_scattered(X):
        return False
    array_like = {"shape", "__array__", "__dataframe__", "dtype"}.intersection(dir(X))
    return hasattr(X, "__iter__") and not array_like and not is_point_set(X)


def hosted(*arrays: Any) -> tuple[Any, ...]:
    """Tensors as arrays of NumPy, with which scikit-learn scores; everything else as it is."""
    return tuple(map(from_tensor, arrays))


def function_values(estimator: Any, X: Any) -> Any:
    """f(x) + b for every row of X, before any link: a tensor where X is one.

    A linear part that was fitted before f is added.
    """
    check_is_fitted(estimator)
    X = estimator._checked(X, reset=False)
    if estimator._is_precomputed():
        return X @ estimator.dual_coef_ + estimator.intercept_
    f, b = estimator.function_, estimator.intercept_
    linear = getattr(estimator, "linear_part_", None)
    new = beside_centres(estimator, X, f)
    values = f(new) if linear is None else f(new) + linear(new)
    values = values + (b if np.ndim(b) == 0 else to_precision(b, values.dtype))
    return values if is_tensor(X) else as_numpy(values)


def evaluation_points(estimator: Any, X: Any) -> Any:
    """X as points of the fitted kernel beside its centres; as it is where it holds K(new, X)."""
    check_is_fitted(estimator)
    X = estimator._checked(X, reset=False)
    if estimator._is_precomputed():
        return X
    return estimator.kernel_.points(beside_centres(estimator, X, estimator.function_))


def beside_centres(estimator: Any, X: Any, f: RKHSFunction) -> Any:
    """Points where f can be evaluated: an array goes to the device of the centres."""
    on_tensors, name = is_tensor(f.coefficients), type(estimator).__name__
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


def answered(values: np.ndarray, X: Any) -> Any:
    """Values of NumPy about the rows of X: as a tensor where X is one and they are numbers."""
    return beside(values, X) if is_tensor(X) and values.dtype.kind in "biuf" else values


def labels_at(classes: np.ndarray, best: Any) -> Any:
    """classes[best], where `best` lives; labels that are no numbers are always NumPy's."""
    if classes.dtype.kind in "biuf":
        return beside(classes, best)[best]
    return classes[as_numpy(best)]


def like(values: Any, other: Any) -> Any:
    """Numbers of NumPy in the library of another array, and where that is."""
    return beside(values, other)
