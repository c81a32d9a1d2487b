"""From what a user typed to points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from mercer.arrays import is_tensor
from mercer.distributed import is_scattered
from mercer.points.kinds import (
    Column,
    DensePoints,
    ObjectPoints,
    PointSet,
    SparsePoints,
    VectorPoints,
    check_finite,
    is_point_set,
)


def as_vectors(data: Any, names: Sequence[Column] = ()) -> VectorPoints:
    """Arrays, tensors, DataFrames, sparse matrices and nested lists of numbers as points.

    Of a DataFrame only the columns `names` are read, or all of them if there are none; where
    numbers are among them, columns that are not read are 0, so that numbers stay. float32 and
    float64 stay what they are; other numbers are read as float64. Values that are not finite are
    refused at once, in a memory map as soon as they are read.

    >>> len(as_vectors([[0.0, 1.0], [2.0, 3.0]]))
    2
    """
    if isinstance(data, VectorPoints):
        return data
    if isinstance(data, np.ndarray):
        return _dense_points(data)
    if is_scattered(data):
        from mercer.points.scattered import scattered_points

        return scattered_points(data)
    if scipy.sparse.issparse(data):
        return _sparse_points(data)
    if is_tensor(data):
        from mercer.points.tensors import tensor_points

        return tensor_points(data)
    if is_frame(data):
        return _frame_points(data, names)
    return _dense_points(data)


def is_frame(data: Any) -> bool:
    """Whether this is a table with named columns."""
    return hasattr(data, "columns") and hasattr(data, "shape")


def check_column_names(frame: Any) -> None:
    """Refuse a table in which two columns have one name: a kernel could not tell them apart."""
    names = list(frame.columns)
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise ValueError(
            f"column names must differ; {twice[0]!r} is the name of {names.count(twice[0])} "
            "columns. Rename one of them, as by frame.columns = [...]."
        )


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
        advice = "Flatten the other dimensions, for example with X.reshape(len(X), -1)."
        if rows.ndim == 1:
            advice = (
                "Write X.reshape(-1, 1) for points on the line, X.reshape(1, -1) for one point."
            )
        raise ValueError(
            f"points must be a two-dimensional array, one row for each point; got shape "
            f"{rows.shape}. {advice}"
        )
    if rows.dtype.kind == "f" and not isinstance(rows, np.memmap):
        check_finite(rows)
    return DensePoints(rows, names)


def _as_array(data: Any) -> np.ndarray:
    try:
        return np.asarray(data)
    except ValueError as error:
        raise ValueError(f"points must be rows of equal length; {error}.") from None


def _frame_points(frame: Any, columns: Sequence[Column]) -> DensePoints:
    check_column_names(frame)
    every = list(frame.columns)
    missing = [c for c in columns if isinstance(c, str) and c not in every]
    if missing:
        raise ValueError(f"column {missing[0]!r} does not exist; there are {every}.")
    if not all(isinstance(column, str) for column in columns):
        return _frame_with_numbers(frame, columns)
    chosen = frame[list(columns)] if columns else frame
    return _dense_points(np.asarray(chosen), tuple(str(name) for name in chosen.columns))


def _frame_with_numbers(frame: Any, columns: Sequence[Column]) -> DensePoints:
    """A table of which some columns are read by their number; the others are 0."""
    every = list(frame.columns)
    beyond = [c for c in columns if not isinstance(c, str) and not -len(every) <= c < len(every)]
    if beyond:
        raise ValueError(
            f"column {beyond[0]} does not exist: the points have {len(every)} columns, numbered 0 "
            f"to {len(every) - 1}."
        )
    read = [every.index(c) if isinstance(c, str) else c % len(every) for c in columns]
    values = np.asarray(frame[[every[i] for i in read]])
    rows = np.zeros((len(values), len(every)), values.dtype)
    rows[:, read] = values
    return _dense_points(rows, tuple(map(str, every)))


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
    if is_point_set(data):
        return data
    if isinstance(data, str):
        raise ValueError(f"points must be a sequence of points; got the single text {data!r}.")
    objects = as_objects(data)
    return as_vectors(data) if objects is None else ObjectPoints(objects)


def as_objects(data: Any) -> list[Any] | None:
    """A list, an array or a column of things that are no numbers, as a list; None for others.

    >>> as_objects(np.array(["a", "b"])), as_objects([[1.0, 2.0]])
    (['a', 'b'], None)
    """
    if isinstance(data, (list, tuple)):
        return None if _numeric(data) else list(data)
    kind = getattr(data, "dtype", None)
    foreign = is_tensor(data) or is_scattered(data) or scipy.sparse.issparse(data)
    if foreign or kind is None or is_frame(data):
        return None
    array = np.asarray(data)
    if array.dtype.kind in "fiubc":
        return None
    if array.size and array.shape[1:] == (1,) and isinstance(array.flat[0], str):
        raise ValueError(
            f"points that are texts come one after the other; got an array of shape {array.shape}: "
            "write X[:, 0]."
        )
    return array.tolist() if array.ndim == 1 else list(array)


def _numeric(data: Sequence[Any]) -> bool:
    try:
        return np.asarray(data).dtype.kind in "fiub" and np.ndim(data) == 2
    except ValueError:
        return False
