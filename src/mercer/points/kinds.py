"""The kinds of point sets: their common interface, those of the host, and what kernels see."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Protocol, Self, TypeGuard, runtime_checkable

import numpy as np
import scipy.sparse

from mercer.arrays import Array, as_numpy, beside, namespace
from mercer.runtime.budget import free_memory
from mercer.runtime.machine import CPU, Machine

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
FIRST_COLUMN, AS_IT_IS = itemgetter((slice(None), 0)), itemgetter(...)
CHECKED_ROWS = 65536  # rows that are looked at together when values are checked


Column = int | str


@dataclass(frozen=True)
class View:
    """What a kernel takes of a point, step by step.

    It selects some columns (None: all), multiplies by a matrix (rows of numbers), multiplies each
    coordinate by its scale, and with `unit` divides by the length; a point at 0 stays there.
    """

    columns: tuple[Column, ...] | None = None
    scales: tuple[float, ...] | None = None
    unit: bool = False
    matrix: tuple[tuple[float, ...], ...] | None = None

    @property
    def deferred_scales(self) -> tuple[float, ...] | None:
        """Scales that can wait until differences were taken, which keeps their digits."""
        return None if self.unit else self.scales

    @property
    def unscaled(self) -> View:
        """This view before its deferred scales."""
        return self if self.unit or self.scales is None else replace(self, scales=None)

    def mapped(self, matrix: np.ndarray) -> View:
        """This view, taken of the points A x."""
        if any(isinstance(column, str) for column in self.columns or ()):
            raise ValueError("after a linear map columns have no names: select them by number.")
        rows = matrix if self.columns is None else matrix[np.array(self.columns, dtype=int)]
        total = rows if self.matrix is None else np.array(self.matrix) @ rows
        return replace(self, columns=None, matrix=tuple(map(tuple, total.tolist())))

    def restricted(self, columns: tuple[Column, ...]) -> View:
        """This view, taken of points that keep only `columns`."""
        if self.columns is None:
            return replace(self, columns=columns)
        return replace(self, columns=tuple(_nested(c, columns) for c in self.columns))


def _nested(column: Column, columns: tuple[Column, ...]) -> Column:
    if isinstance(column, str):
        if column in columns:
            return column
        raise ValueError(f"column {column!r} is not among the selected columns {list(columns)}.")
    if not -len(columns) <= column < len(columns):
        raise ValueError(
            f"column {column} does not exist among the {len(columns)} selected columns "
            f"{list(columns)}."
        )
    return columns[column]


ALL_COLUMNS = View()


@runtime_checkable
class PointSet(Protocol):
    """A set of points: its length, parts of it, the user's own form, and where it lives."""

    def __len__(self) -> int: ...

    def slice(self, start: int, stop: int) -> Self:
        """The points start, …, stop − 1."""

    def take(self, indices: Any) -> Self:
        """The points with the given numbers, in that order."""

    def concatenated(self, other: Self) -> Self:
        """These points followed by the others."""

    @property
    def data(self) -> Any:
        """The points as a user would write them."""

    @property
    def dtype(self) -> np.dtype:
        """The precision in which kernel values on these points are computed."""

    @property
    def home(self) -> str:
        """Where numbers about the points live: "host" for NumPy arrays, else a device of torch."""

    @property
    def machine(self) -> Machine:
        """The speed and memory of what computes with the points."""

    def vector(self, values: Any) -> Array:
        """Numbers of any library as an array of the library of the points, on their device."""

    def admitted(self, values: Any, dtype: np.dtype) -> tuple[Array, Callable[[Array], Array]]:
        """A user's numbers as columns where the points are, and a function that restores the form.

        They have the wider of their precision and the given one; what are no real numbers, and
        tensors on another device, are refused.
        """

    def free_memory(self) -> int:
        """Bytes that are free where the points live."""

    def host(self) -> PointSet:
        """The same points in the memory of the host."""


def is_point_set(data: Any) -> TypeGuard[PointSet]:
    """Whether these are points already, not a user's data.

    Arrays of NumPy are none, and are not compared with the protocol: one of texts raises an error
    when it is asked for the attribute `data`.

    >>> is_point_set(IndexPoints(np.arange(2))), is_point_set(np.arange(2))
    (True, False)
    """
    return not isinstance(data, np.ndarray) and isinstance(data, PointSet)


class HostPoints:
    """Points in the memory of the host: numbers about them are NumPy arrays."""

    home = "host"
    machine = CPU

    def vector(self, values: Any) -> Array:
        """Numbers of any library as a NumPy array.

        >>> IndexPoints(np.arange(2)).vector([1.0, 2.0]).tolist()
        [1.0, 2.0]
        """
        return values if isinstance(values, np.ndarray) else as_numpy(values)

    def admitted(self, values: Any, dtype: np.dtype) -> tuple[np.ndarray, Callable[..., Array]]:
        if not isinstance(values, np.ndarray) and hasattr(values, "__dlpack__"):
            columns, back = self.admitted(as_numpy(values), dtype)
            return columns, lambda result: beside(back(result), values)
        array = np.asarray(values)
        if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8 or array.ndim not in (1, 2):
            refuse_values(array)
        wide = DOUBLE if DOUBLE in (array.dtype, dtype) else SINGLE
        if array.ndim == 1:
            return np.ascontiguousarray(array[:, None], wide), FIRST_COLUMN
        return np.ascontiguousarray(array, wide), AS_IT_IS  # rows of a cluster stay there

    def free_memory(self) -> int:
        return free_memory()

    def host(self) -> Self:
        return self


@dataclass(frozen=True, eq=False)
class HostedPoints(HostPoints):
    """Points on a device with which an algorithm on the host computes.

    Values of kernels are computed on the device and brought to the host, where all other numbers
    are: for algorithms that go through single rows of K, as dual ascent does.
    """

    there: Any

    def __len__(self) -> int:
        return len(self.there)

    def slice(self, start: int, stop: int) -> Self:
        return type(self)(self.there.slice(start, stop))

    def take(self, indices: Any) -> Self:
        return type(self)(self.there.take(indices))

    def concatenated(self, other: Self) -> Self:
        return type(self)(self.there.concatenated(other.there))

    @property
    def data(self) -> Any:
        return self.there.data

    @property
    def dtype(self) -> np.dtype:
        return self.there.dtype

    @property
    def machine(self) -> Machine:  # type: ignore[override]
        there = self.there.machine
        return replace(CPU, fetching_is_slow=there.fetching_is_slow, threads=there.threads)

    @property
    def width(self) -> int:
        return int(self.there.width)

    def host(self) -> Any:
        return self.there.host()


@dataclass(frozen=True, eq=False)
class VectorPoints(HostPoints):
    """Points that are rows of numbers: what dense and sparse points share."""

    rows: Any
    names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    @property
    def data(self) -> Any:
        return self.rows

    @property
    def dtype(self) -> np.dtype:
        return SINGLE if self.rows.dtype == SINGLE else DOUBLE

    @property
    def width(self) -> int:
        return int(self.rows.shape[1])

    def slice(self, start: int, stop: int) -> Self:
        return type(self)(self.rows[start:stop], self.names)

    def take(self, indices: Any) -> Self:
        return type(self)(self.rows[np.asarray(indices)], self.names)

    def seen(self, view: View, dtype: Any, centre: np.ndarray | None = None) -> np.ndarray:
        """The rows in a view, as a fresh dense array; `centre` is taken off first."""
        raise NotImplementedError

    def squared_norms(self, view: View) -> np.ndarray:
        """‖x‖² of every row in a view, in float64."""
        raise NotImplementedError

    def concatenated(self, other: Any) -> Self:
        """These points followed by the others."""
        raise NotImplementedError

    def over_blocks(self, function: Callable[[Self], Array]) -> Array:
        """A number for each row, computed a block of rows at a time."""
        starts = range(0, max(1, len(self)), CHECKED_ROWS)
        parts = [function(self.slice(start, start + CHECKED_ROWS)) for start in starts]
        return namespace(*parts).concat(parts)

    def positions(self, columns: Sequence[Column]) -> np.ndarray:
        """The numbers of some columns, which are given by number or by name."""
        return np.array([self._position(column) for column in columns], dtype=np.intp)

    def _position(self, column: Column) -> int:
        if isinstance(column, str):
            return self._named(column)
        if not -self.width <= column < self.width:
            raise ValueError(
                f"column {column} does not exist: the points have {self.width} columns, "
                f"numbered 0 to {self.width - 1}."
            )
        return column % self.width

    def _named(self, column: str) -> int:
        if self.names is None:
            raise ValueError(
                f"column {column!r} was asked for by name, but the points are an array without "
                "names: pass a DataFrame, or select columns by number."
            )
        if column not in self.names:
            raise ValueError(f"column {column!r} does not exist; there are {list(self.names)}.")
        return self.names.index(column)

    def width_of(self, view: View) -> int:
        """How many numbers a point has in a view; a wrong number of lengthscales is refused."""
        width = self.width if view.columns is None else len(self.positions(view.columns))
        if view.matrix is not None:
            if len(view.matrix[0]) != width:
                raise ValueError(
                    f"a linear map of {len(view.matrix[0])} columns was given for points with "
                    f"{width} columns."
                )
            width = len(view.matrix)
        if view.scales is not None and len(view.scales) != width:
            raise ValueError(
                f"{len(view.scales)} lengthscales were given for points with {width} columns: "
                "give one lengthscale, or one for each column."
            )
        return width

    def as_sparse(self) -> SparsePoints:
        """The same points in CSR form."""
        raise NotImplementedError

    def made_of(self, rows: Any, names: tuple[str, ...] | None = None) -> VectorPoints:
        """Points of dense rows that were computed from these."""
        return DensePoints(rows, names)


@dataclass(frozen=True, eq=False)
class DensePoints(VectorPoints):
    """Rows of a two-dimensional array, in memory or mapped from disk."""

    @property
    def mapped(self) -> bool:
        """Whether the rows stay on disk until they are read."""
        return isinstance(self.rows, np.memmap)

    def concatenated(self, other: Any) -> Any:
        if isinstance(other, SparsePoints):
            return self.as_sparse().concatenated(other)
        return DensePoints(np.concatenate([self.rows, other.rows]), self.names)

    def as_sparse(self) -> SparsePoints:
        if self.mapped:
            check_finite(self.rows)
        return SparsePoints(scipy.sparse.csr_array(np.asarray(self.rows)), self.names)

    def seen(self, view: View, dtype: Any, centre: np.ndarray | None = None) -> np.ndarray:
        """The rows in a view, as a fresh C-ordered array; `centre` is taken off first."""
        rows = self.rows
        if view.columns is not None:
            rows = rows[:, self.positions(view.columns)]
        seen = np.array(rows, dtype=dtype, order="C", ndmin=2)
        if isinstance(self.rows, np.memmap):
            check_finite(seen)
        if centre is not None:
            seen -= centre.astype(dtype)
        if view.matrix is not None:
            seen = seen @ np.array(view.matrix, dtype).T
        if view.scales is not None:
            seen *= np.asarray(view.scales, dtype=dtype)
        if view.unit:
            _make_unit(seen)
        return seen

    def raw(self, view: View, dtype: Any, centre: np.ndarray | None = None) -> np.ndarray:
        """The rows before their deferred scales; the array itself where it will do.

        A matrix is multiplied by the rows less `centre`, which keeps the digits of differences.
        """
        same = view.unscaled == ALL_COLUMNS and self.rows.dtype == dtype and not self.mapped
        if same and self.rows.flags.c_contiguous and self.rows.flags.writeable:
            return self.rows
        return self.seen(view.unscaled, dtype, None if view.matrix is None else centre)

    def centre(self, view: View, sample: int = 1024) -> np.ndarray:
        """The middle of the columns of a view: the mean of evenly spaced rows."""
        step = max(1, len(self) // sample)
        seen = replace(self, rows=self.rows[::step][:sample]).seen(View(view.columns), np.float64)
        return seen.mean(axis=0) if len(seen) else np.zeros(seen.shape[1])

    def squared_norms(self, view: View) -> np.ndarray:
        """‖x‖² of every row in a view, in float64, a block of rows at a time."""
        return self.over_blocks(lambda block: _row_norms(block.seen(view, np.float64)))


@dataclass(frozen=True, eq=False)
class SparsePoints(VectorPoints):
    """Rows of a SciPy CSR matrix or array; they are never made dense as a whole."""

    def concatenated(self, other: Any) -> SparsePoints:
        blocks = [self.rows, other.as_sparse().rows]
        return SparsePoints(scipy.sparse.vstack(blocks, format="csr"), self.names)

    def as_sparse(self) -> SparsePoints:
        return self

    def seen(self, view: View, dtype: Any, centre: np.ndarray | None = None) -> np.ndarray:
        """The rows in a view as a dense array: for small blocks only."""
        if centre is not None:
            raise ValueError("sparse points are not centred: that would make them dense.")
        return self._seen_sparse(view, dtype).toarray()

    def parts(
        self, view: View, dtype: Any, start: int, stop: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the rows start, …, stop − 1 in a view: where each starts, its columns, its values.

        Columns are in order. Nothing of the size of the rows is copied where all columns are seen
        in the precision they have.
        """
        if view != ALL_COLUMNS:
            rows = self.slice(start, stop)._seen_sparse(view, dtype)
            return rows.indptr, rows.indices, rows.data
        starts = self.rows.indptr[start : stop + 1]
        entries = slice(starts[0], starts[-1])
        values = np.asarray(self.rows.data[entries], dtype)
        return starts - starts[0], self.rows.indices[entries], values

    def _seen_sparse(self, view: View, dtype: Any) -> Any:
        selected = view.columns
        rows = self.rows if selected is None else self.rows[:, self.positions(selected)]
        rows = scipy.sparse.csr_array(rows, dtype=dtype, copy=selected is None)
        if view.matrix is not None:
            rows = scipy.sparse.csr_array(rows @ np.array(view.matrix, dtype).T)
        if view.scales is not None:
            rows.data *= np.asarray(view.scales, dtype=dtype)[rows.indices]
        rows.sum_duplicates()
        if view.unit:
            places = np.repeat(np.arange(len(self)), np.diff(rows.indptr))
            largest = np.zeros(len(self), rows.dtype)  # by which first: its square may vanish
            np.maximum.at(largest, places, np.abs(rows.data))
            rows.data /= np.where(largest > 0, largest, 1)[places]
            lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
            rows.data /= np.where(lengths > 0, lengths, 1)[places]
        return rows

    def squared_norms(self, view: View) -> np.ndarray:
        """‖x‖² of every row in a view, in float64."""
        rows = self._seen_sparse(view, np.float64)
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()


@dataclass(frozen=True, eq=False)
class ObjectPoints(HostPoints):
    """Points that are any Python objects: strings, trees, graphs."""

    objects: Sequence[Any]
    dtype: np.dtype = field(default=np.dtype(np.float64))

    def __len__(self) -> int:
        return len(self.objects)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.objects)

    @property
    def data(self) -> Sequence[Any]:
        return self.objects

    def slice(self, start: int, stop: int) -> ObjectPoints:
        return replace(self, objects=self.objects[start:stop])

    def take(self, indices: Any) -> ObjectPoints:
        return replace(self, objects=[self.objects[i] for i in np.arange(len(self))[indices]])

    def concatenated(self, other: ObjectPoints) -> ObjectPoints:
        return replace(self, objects=[*self.objects, *other.objects])


@dataclass(frozen=True, eq=False)
class IndexPoints(HostPoints):
    """Points known by number only: the rows and columns of a matrix given in advance."""

    indices: np.ndarray
    dtype: np.dtype = field(default=np.dtype(np.float64))

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def data(self) -> np.ndarray:
        return self.indices

    def slice(self, start: int, stop: int) -> IndexPoints:
        return replace(self, indices=self.indices[start:stop])

    def take(self, indices: Any) -> IndexPoints:
        return replace(self, indices=self.indices[np.asarray(indices)])

    def concatenated(self, other: IndexPoints) -> IndexPoints:
        return replace(self, indices=np.concatenate([self.indices, other.indices]))


def _make_unit(rows: np.ndarray) -> None:
    """Divide each row by its length; a row of zeros stays.

    By its largest number first: squares, and lengths themselves, may leave the range of floats or
    lose their digits below it.
    """
    largest = np.abs(rows).max(axis=1, initial=0, keepdims=True)
    largest[largest == 0] = 1
    rows /= largest
    rows /= np.sqrt(_row_norms(rows)).clip(min=1)[:, None]


def _row_norms(rows: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", rows, rows)


def refuse_values(array: Any) -> None:
    """Refuse values that are no column or columns of real numbers."""
    if array.ndim not in (1, 2):
        raise ValueError(
            "values must be a vector, or a matrix with a row for each point; got shape "
            f"{tuple(array.shape)}."
        )
    raise ValueError(f"values must be real numbers in at most float64; got {array.dtype}.")


def check_finite(values: np.ndarray) -> None:
    """Refuse NaN and infinity. The sum is cheap, and finite only if every value is."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = values.sum(dtype=np.float64)
    if not math.isfinite(total) and not np.isfinite(values).all():
        missing = bool(np.isnan(values).any())
        what, advice = "infinity", "remove those rows, or scale before they overflow."
        if missing:
            what, advice = "NaN", "remove those rows, or fill them in first (for example with "
            advice += "sklearn.impute.SimpleImputer)."
        raise ValueError(f"the points contain {what}: {advice}")
