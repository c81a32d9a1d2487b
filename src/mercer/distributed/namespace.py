"""The functions of NumPy that follow the array API, for arrays with rows on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mercer.distributed.reductions import (
    add_up,
    of_block,
    over_parts,
    reduced,
    row_numbers,
    smallest,
    uniforms,
    union,
)
from mercer.distributed.rows import Rows, mapped, rows_in, samples


class RowsNamespace:
    """The functions of NumPy that follow the array API, for arrays with rows on a cluster.

    Arrays of NumPy are computed with as ever: they are those of length M, and small ones.
    """

    __name__ = "mercer.distributed"
    takes_numpy = True
    linalg: Any = None

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)
        if not callable(function) or isinstance(function, type):
            return function

        def call(*args: Any, **options: Any) -> Any:
            options.pop("device", None)
            if next(rows_in((args, list(options.values()))), None) is None:
                return function(*args, **options)
            axis = options.get("axis", args[1] if len(args) > 1 else None)
            if name in SUMS and (axis is None or 0 in np.atleast_1d(axis)):
                return SUMS[name](*args, **options)
            if name in REFUSED:
                raise NotImplementedError(
                    f"{name} goes across all rows, which lie on a cluster: take some of them first."
                )
            return mapped(function, *args, **options)

        return call

    def asarray(self, values: Any, **options: Any) -> Any:
        options.pop("device", None)
        if isinstance(values, Rows):
            dtype = options.get("dtype")
            return values if dtype is None else self.astype(values, dtype)
        return np.asarray(values, **options)

    def astype(self, values: Any, dtype: Any, copy: bool = True, **options: Any) -> Any:
        if values.dtype == dtype and isinstance(values, Rows):
            return values
        if not isinstance(values, Rows):
            return values.astype(dtype, copy=copy)
        return mapped(np.astype, values, np.dtype(dtype))

    def reshape(self, values: Any, shape: Any) -> Any:
        if not isinstance(values, Rows):
            return np.reshape(values, shape)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        rest = values.sample.shape[1:]
        if tuple(shape) == values.shape or (shape == (-1,) and values.ndim == 1):
            return values
        if shape[0] not in (len(values), -1):
            raise ValueError(
                f"rows on a cluster stay rows; got the shape {shape} for {values.shape}."
            )
        width = int(np.prod(rest)) if rest else 1
        known = int(np.prod([s for s in shape[1:] if s != -1])) if shape[1:] else 1
        tail = tuple(width // known if s == -1 else s for s in shape[1:])
        return mapped(_reshaped, values, tail)

    def concat(self, arrays: Any, axis: int = 0) -> Any:
        arrays = list(arrays)
        if next(rows_in(arrays), None) is None:
            return np.concat(arrays, axis=axis)
        if axis == 0:
            if len(arrays) == 1:
                return arrays[0]
            raise NotImplementedError("rows on a cluster are not put one below the other.")
        return mapped(np.concat, arrays, axis=axis)

    concatenate = concat

    def uniform(self, seed: int, like: Rows) -> Rows:
        return uniforms(like, seed)

    def smallest(self, values: Any, count: int) -> np.ndarray:
        return smallest(values, count)

    def shape(self, values: Any) -> Any:
        return values.shape

    def ndim(self, values: Any) -> Any:
        return values.ndim

    def unique(self, values: Any, **options: Any) -> Any:
        return reduced("unique", values, np.unique, union)

    def nonzero(self, values: Any) -> Any:
        return (row_numbers(values),) if isinstance(values, Rows) else np.nonzero(values)

    def flatnonzero(self, values: Any) -> Any:
        return self.nonzero(values)[0]

    def broadcast_arrays(self, *arrays: Any) -> Any:
        if next(rows_in(arrays), None) is None:
            return np.broadcast_arrays(*arrays)
        return [mapped(_broadcast_one, i, *arrays) for i in range(len(arrays))]

    def array_equal(self, left: Any, right: Any) -> bool:
        return left.shape == right.shape and bool(self.all(left == right))

    def result_type(self, *arrays: Any) -> Any:
        return np.result_type(*samples(list(arrays)))

    def take(self, values: Any, indices: Any, axis: int | None = None) -> Any:
        if isinstance(values, Rows) and axis == 0:
            return values[indices]
        if isinstance(values, Rows) or isinstance(indices, Rows):
            return mapped(np.take, values, indices, axis=axis)
        return np.take(values, indices, axis=axis)

    def matmul(self, left: Any, right: Any) -> Any:
        return left @ right

    def bincount(self, values: Any, weights: Any = None, minlength: int = 0) -> Any:
        length = max(int(minlength), int(self.max(values)) + 1)
        rows = values if weights is None else mapped(_beside, values, weights)
        return reduced("bincount", rows, partial(_bincount, length=length), add_up)


def _beside(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.stack([np.asarray(values, np.float64), np.asarray(weights, np.float64)], axis=1)


def _bincount(block: np.ndarray, length: int) -> np.ndarray:
    if block.ndim == 1:
        return np.bincount(block, minlength=length)
    return np.bincount(block[:, 0].astype(np.intp), block[:, 1], minlength=length)


def _broadcast_one(i: int, *arrays: Any) -> np.ndarray:
    return np.broadcast_arrays(*arrays)[i]


def _reshaped(block: np.ndarray, tail: tuple[int, ...]) -> np.ndarray:
    return block.reshape((len(block), *tail))


class RowsLinalg:
    """Norms over rows; everything else is NumPy's."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np.linalg, name)

    def vector_norm(self, values: Any, axis: Any = None, keepdims: bool = False) -> Any:
        if not isinstance(values, Rows):
            return np.linalg.vector_norm(values, axis=axis, keepdims=keepdims)
        return np.sqrt(rows_namespace.sum(values**2, axis=axis, keepdims=keepdims))


REFUSED = frozenset(
    ("sort", "argsort", "cumsum", "cumulative_sum", "median", "quantile", "percentile")
)


def _over_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    join = add_up if function is np.sum else partial(over_parts, function)

    def over_rows(
        rows: Rows, axis: Any = None, keepdims: bool = False, dtype: Any = None, **options: Any
    ) -> Any:
        more = {} if dtype is None else {"dtype": dtype}
        key = function, axis, keepdims, dtype
        if key not in rows.cached:
            work = partial(of_block, function, axis=axis, keepdims=keepdims, **more)
            rows.cached[key] = reduced(function.__name__, rows, work, join)
        return np.copy(rows.cached[key])[()]  # a number stays a number

    return over_rows


def _mean(rows: Rows, axis: Any = None, keepdims: bool = False, **options: Any) -> Any:
    total = SUMS["sum"](rows, axis=axis, keepdims=keepdims, dtype=np.float64)
    axes = range(rows.ndim) if axis is None else np.atleast_1d(axis)
    return total / float(np.prod([rows.shape[a] for a in axes]))


def _variance(rows: Rows, axis: Any = None, keepdims: bool = False, **options: Any) -> Any:
    mean = _mean(rows, axis, keepdims=True)
    return _mean((rows - mean) ** 2, axis, keepdims)


SUMS: dict[str, Callable[..., Any]] = {
    name: _over_rows(getattr(np, name)) for name in ("sum", "max", "min", "any", "all")
}
SUMS |= {
    "amax": SUMS["max"],
    "amin": SUMS["min"],
    "count_nonzero": lambda rows, **options: SUMS["sum"](rows != 0),
    "mean": _mean,
    "var": _variance,
    "std": lambda rows, *args, **options: np.sqrt(_variance(rows, *args, **options)),
}

rows_namespace = RowsNamespace()
RowsNamespace.linalg = RowsLinalg()
