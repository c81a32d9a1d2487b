"""Checks of what a stream brings: one point, targets, weights, kernels that cannot stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array

from mercer.checks import check_weights
from mercer.losses import Loss
from mercer.online import encoded
from mercer.points import DensePoints, PointSet, VectorPoints, check_finite

__all__ = ["checked_weights", "encoded", "one_point", "real_targets", "refuse_kernel"]


def one_point(machine: Any, x: Any) -> PointSet:
    """One point, as the kernel of a machine that has begun takes it."""
    kernel = machine.kernel_
    if not isinstance(machine.stream_.points, VectorPoints):
        return kernel.points([x])
    if isinstance(x, dict):
        x = _from_dictionary(machine, x)
    if hasattr(x, "tocsr"):
        return kernel.points(x.tocsr())
    try:
        row = np.asarray(x)
        row = row if row.dtype in (np.float32, np.float64) else row.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"a point must be a row of numbers; {error}.") from None
    if row.ndim != 1 or len(row) != machine.n_features_in_:
        raise ValueError(
            f"a point must be a vector of {machine.n_features_in_} numbers, as before; got shape "
            f"{row.shape}."
        )
    check_finite(row)
    points = DensePoints(np.array(row[None, :]), getattr(machine.stream_.points, "names", None))
    kernel.check_points(points)
    return points


def _from_dictionary(machine: Any, x: dict[Any, Any]) -> np.ndarray:
    names = getattr(machine, "_names", None) or getattr(machine, "feature_names_in_", None)
    if names is None:
        names = tuple(x)
    if len(x) != len(names) or any(name not in x for name in names):
        raise ValueError(f"a point must have the entries {list(names)}; got {list(x)}.")
    return np.array([float(x[name]) for name in names])


def real_targets(loss: Loss, y: Any) -> np.ndarray:
    """Targets of a regression as rows in float64."""
    values = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    loss.check_targets(values)
    return values[:, None] if values.ndim == 1 else values


def checked_weights(sample_weight: Any, n: int) -> np.ndarray:
    """One finite nonnegative weight for each sample."""
    if sample_weight is None:
        return np.ones(n)
    weights = np.asarray(sample_weight, np.float64)
    weights = np.full(n, float(weights)) if weights.ndim == 0 else weights
    check_weights(weights, n, "sample_weight", all_zero=True)
    return weights


def refuse_kernel(machine: Any) -> None:
    """Refuse kernels that need all data at once."""
    if isinstance(machine.kernel, str) and machine.kernel == "precomputed":
        raise ValueError(
            "a stream has no matrix in advance: pass a kernel, not 'precomputed'. Points known by "
            "number take Precomputed(K) and their numbers."
        )
    if machine.gamma == "scale":
        raise ValueError(
            "gamma='scale' is the variance of all data, which a stream does not have: write a "
            "number, or None for 1/n_features."
        )
