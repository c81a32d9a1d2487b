"""From what a user typed to points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from mercer.arrays import is_tensor
from mercer.points.kinds import (
    DensePoints,
    ObjectPoints,
    PointSet,
    SparsePoints,
    VectorPoints,
    check_finite,
)


def as_vectors(data: Any, names: Sequence[str] = ()) -> VectorPoints:
    """Arrays, tensors, DataFrames, sparse matrices and nested lists of numbers as points.

    Of a DataFrame only the columns `names` are read, or all of them if there are none. float32 and
    float64 stay what they are; other numbers are read as float64. Values that are not finite are
    refused at once, in a memory map as soon as they are read.

    >>> len(as_vectors([[0.0, 1.0], [2.0, 3.0]]))
    2
    """
    if isinstance(data, VectorPoints):
        return data
    if scipy.sparse.issparse(data):
        return _sparse_points(data)
    if is_tensor(data):
        from mercer.points.tensors import tensor_points

        return tensor_points(data)
    if hasattr(data, "columns") and hasattr(data, "shape"):
        return _frame_points(data, names)
    return _dense_points(data)


def _dense_points(data: Any, names: tuple[str, ...] | None = None) -> DensePoints:
    rows = data if isinstance(data, np.ndarray) else _as_array(data)
    if rows.dtype.kind not in "fiub":
        raise ValueError(
            f"points must be numbers; got an array of {rows.dtype}. For points that are not "
            "vectors, choose a kernel made for them or write your own."
        )
    if rows.dtype.itemsize > 8:
        raise ValueError(
            f"points are computed in float32 or float64; got {rows.dtype}: convert it."
        )
    if rows.ndim != 2:
        raise ValueError(
            f"points must be a two-dimensional array, one row for each point; got shape "
            f"{rows.shape}. {_reshaping_advice(rows.ndim)}"
        )
    if rows.dtype.kind == "f" and not isinstance(rows, np.memmap):
        check_finite(rows)
    return DensePoints(rows, names)


def _as_array(data: Any) -> np.ndarray:
    try:
        return np.asarray(data)
    except ValueError as error:
        raise ValueError(f"points must be rows of equal length; {error}.") from None


def _reshaping_advice(dimensions: int) -> str:
    if dimensions == 1:
        return "Write X.reshape(-1, 1) for points on the line, X.reshape(1, -1) for one point."
    return "Flatten the other dimensions, for example with X.reshape(len(X), -1)."


def _frame_points(frame: Any, names: Sequence[str]) -> DensePoints:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise ValueError(f"column {missing[0]!r} does not exist; there are {list(frame.columns)}.")
    chosen = frame[list(names)] if names else frame
    return _dense_points(np.asarray(chosen), tuple(str(name) for name in chosen.columns))


def _sparse_points(data: Any) -> SparsePoints:
    rows = data if data.format == "csr" else data.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    if rows.ndim != 2 or rows.dtype.kind not in "fiub":
        raise ValueError(
            f"sparse points must be a two-dimensional matrix of numbers; got shape {rows.shape} "
            f"of {rows.dtype}."
        )
    check_finite(rows.data)
    return SparsePoints(rows)


def as_points(data: Any) -> PointSet:
    """Rows of numbers as vectors, any other sequence as objects: for kernels that take both."""
    if isinstance(data, PointSet):
        return data
    if isinstance(data, str):
        raise ValueError(f"points must be a sequence of points; got the single text {data!r}.")
    if isinstance(data, (list, tuple)) and not _numeric(data):
        return ObjectPoints(list(data))
    if isinstance(data, np.ndarray) and data.dtype.kind not in "fiub":
        return ObjectPoints(list(data))
    return as_vectors(data)


def _numeric(data: Sequence[Any]) -> bool:
    try:
        return np.asarray(data).dtype.kind in "fiub" and np.ndim(data) == 2
    except ValueError:
        return False
