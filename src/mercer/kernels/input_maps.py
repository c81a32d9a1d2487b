"""Kernels on transformed points: columns, linear maps, functions, weights, group averages."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from mercer.evaluation.expression import Expression, mapped, restricted
from mercer.evaluation.gradients import add_columns
from mercer.kernels.algebra import Composite, Product, Scaled, Sum, Wrapped, bracketed
from mercer.kernels.base import Kernel
from mercer.kernels.custom import is_single_of_any_kind
from mercer.kernels.facts import Facts, constant_facts
from mercer.kernels.laws.operations import (
    ColumnsLaws,
    CompositionLaws,
    LinearMapLaws,
    WeightedLaws,
    of_average,
)
from mercer.points import Column, DensePoints, PointSet, VectorPoints, View, as_points


class OnImages(Composite):
    """A kernel on images of the points, which `_image` gives; subclasses have a field `kernel`."""

    kernel: Kernel

    def _image(self, points: Any) -> Any:
        raise NotImplementedError

    def _block(self, x: PointSet, y: PointSet) -> np.ndarray:
        return self.kernel.block(self._image(x), self._image(y))

    def own_block(self, x: PointSet) -> np.ndarray:
        if self.expression() is not None:
            return super().own_block(x)
        return self.kernel.own_block(self._image(x))

    def _diagonal(self, x: PointSet) -> np.ndarray:
        return self.kernel.diagonal(self._image(x))

    def normalised_block(self, x: PointSet, y: PointSet) -> np.ndarray:
        values = self.kernel.normalised_block(self._image(x), self._image(y))
        return self._with_zeros(values, x, y)

    def log_diagonal(self, x: PointSet) -> np.ndarray:
        return self.kernel.log_diagonal(self._image(x))

    def check_points(self, points: PointSet) -> None:
        self.kernel.check_points(self._image(points))


@dataclass(frozen=True, eq=False, repr=False)
class Columns(OnImages):
    """A kernel of some columns only: `kernel.on(columns)`.

    Parameters
    ----------
    kernel : Kernel
        What is evaluated on the selected columns.
    columns : sequence of int or str
        Numbers, or names of the columns of a DataFrame.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> Linear().on(1)([5.0, 2.0], [7.0, 3.0])
    6.0
    """

    kernel: Kernel
    columns: Sequence[Column]

    def __post_init__(self) -> None:
        valid = (str, int, np.integer)
        columns = self.columns
        if isinstance(columns, str) or not len(columns):
            raise ValueError(f"columns must be a list with at least one column; got {columns!r}.")
        for column in columns:
            if not isinstance(column, valid) or isinstance(column, bool):
                raise ValueError(
                    f"columns are numbers or names; got {column!r}. Write for example "
                    "kernel.on([0, 2]) or kernel.on('age')."
                )

    def expression(self) -> Expression | None:
        inner = self.kernel.expression()
        return None if inner is None else restricted(inner, self._columns())

    def _columns(self) -> tuple[Column, ...]:
        return tuple(c if isinstance(c, str) else int(c) for c in self.columns)

    def facts(self, dimension: int | None = None) -> Facts:
        inner = self.kernel.facts(len(self.columns))
        return ColumnsLaws.of(self, dimension, inner, self.columns)

    def columns_needed(self) -> int:
        numbers = [int(c) for c in self.columns if not isinstance(c, str)]
        highest = max((c + 1 if c >= 0 else -c for c in numbers), default=1)
        return max(highest, len(set(self.columns)))

    def _derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        assert isinstance(x, VectorPoints)
        inner = self.kernel.derivative(self._image(x), self._image(y))
        out = np.zeros((*inner.shape[:2], x.width))
        add_columns(out, x.positions(self._columns()), inner)
        return out

    def feature_count(self, width: int) -> int | None:
        return self.kernel.feature_count(len(self.columns))

    def features(self, x: PointSet) -> np.ndarray:
        return self.kernel.features(self._image(x))

    def _image(self, points: Any) -> Any:
        view = View(self._columns())
        names = None if points.names is None else tuple(map(str, self.columns))
        return points.made_of(points.seen(view, points.dtype), names)

    @property
    def takes_tensors(self) -> bool:
        return self.kernel.takes_tensors

    def __repr__(self) -> str:
        return f"{bracketed(self.kernel, Sum, Product, Scaled)}.on({list(self.columns)!r})"


@dataclass(frozen=True, eq=False, repr=False)
class LinearMap(OnImages):
    """k(Ax, Ay), as `kernel.after(A)`.

    With a radial kernel this is a full metric, ‖x − y‖² → (x − y)ᵀAᵀA(x − y), as metric learning
    gives one.

    Parameters
    ----------
    kernel : Kernel
        k.
    matrix : array of shape (p, d)
        A.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> x, y = [1.0, 2.0], [0.0, 5.0]
    >>> bool(
    ...     np.isclose(LinearMap(Gaussian(), np.diag([2.0, 0.5]))(x, y), Gaussian([0.5, 2.0])(x, y))
    ... )
    True
    """

    kernel: Kernel
    matrix: np.ndarray

    def __post_init__(self) -> None:
        matrix = np.asarray(self.matrix)
        if matrix.ndim != 2 or matrix.dtype.kind not in "fiu" or not matrix.size:
            raise ValueError(
                "a linear map is a matrix with one column for each column of the points; got "
                f"shape {matrix.shape} of {matrix.dtype}."
            )
        if not np.isfinite(matrix).all():
            raise ValueError("a linear map needs finite entries; got NaN or infinity.")

    def expression(self) -> Expression | None:
        inner = self.kernel.expression()
        return None if inner is None else mapped(inner, np.asarray(self.matrix, np.float64))

    def facts(self, dimension: int | None = None) -> Facts:
        matrix = np.asarray(self.matrix, np.float64)
        if dimension not in (None, matrix.shape[1]):
            raise ValueError(
                f"a linear map with {matrix.shape[1]} columns takes points with as many; got "
                f"dimension={dimension}."
            )
        width = matrix.shape[1]
        if matrix.any():
            return LinearMapLaws.of(self, width, self.kernel.facts(len(matrix)), matrix)
        origin = self.kernel.points(np.zeros((1, len(matrix))))
        value = float(self.kernel.diagonal(origin)[0])
        return constant_facts(self, value, width) if value >= 0 else super().facts(width)

    def columns_needed(self) -> int:
        return int(np.shape(self.matrix)[1])

    def _derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        return self.kernel.derivative(self._image(x), self._image(y)) @ np.asarray(self.matrix)

    def _image(self, points: Any) -> Any:
        view = View().mapped(np.asarray(self.matrix, np.float64))
        points.width_of(view)
        return points.made_of(points.seen(view, points.dtype))


@dataclass(frozen=True, eq=False, repr=False)
class Composed(OnImages):
    """k(φ(x), φ(y)), as `kernel.after(φ)`.

    Parameters
    ----------
    kernel : Kernel
        k, on the images.
    transform : callable
        φ takes a block of points as the user writes them and returns as many images.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> lifted = Linear().after(lambda X: np.column_stack([X, (X**2).sum(axis=1)]))
    >>> lifted(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])).item()  # 3 + 8 + 5·25
    136.0
    """

    kernel: Kernel
    transform: Callable[[Any], Any]
    parallel = False

    def facts(self, dimension: int | None = None) -> Facts:
        return CompositionLaws.of(self, dimension, self.kernel.facts())

    def columns_needed(self) -> int:
        return 1

    def points(self, data: Any) -> PointSet:
        return as_points(data)

    def is_single(self, x: Any) -> bool:
        return is_single_of_any_kind(x)

    def _image(self, points: Any) -> Any:
        image = self.kernel.points(self.transform(points.data))
        if len(image) != len(points):
            raise ValueError(
                f"the function inside {type(self).__name__} returned {len(image)} images for "
                f"{len(points)} points: it must return one for each."
            )
        return image


@dataclass(frozen=True, eq=False, repr=False)
class Weighted(Wrapped):
    """g(x) k(x, y) g(y) for a function g: its functions are g·f.

    Parameters
    ----------
    kernel : Kernel
        k.
    weight : callable
        g takes a block of points and returns one number for each.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Constant
    >>> k = Weighted(Constant(), lambda X: X[:, 0])
    >>> k(np.array([[2.0]]), np.array([[3.0]])).item()
    6.0
    """

    kernel: Kernel
    weight: Callable[[Any], Any]
    parallel = False

    def facts(self, dimension: int | None = None) -> Facts:
        inner = self.kernel.facts(dimension)
        return WeightedLaws(self, inner.dimension, inner)

    def _block(self, x: PointSet, y: PointSet) -> np.ndarray:
        return self._weights(x)[:, None] * self.kernel.block(x, y) * self._weights(y)

    def _diagonal(self, x: PointSet) -> np.ndarray:
        return self._weights(x) ** 2 * self.kernel.diagonal(x)

    def _weights(self, points: PointSet) -> np.ndarray:
        weights = np.asarray(self.weight(points.data), np.float64)
        if weights.shape != (len(points),):
            raise ValueError(
                f"the weight inside {type(self).__name__} must return one number for each of "
                f"{len(points)} points; got shape {weights.shape}."
            )
        return weights


@dataclass(frozen=True, eq=False, repr=False)
class GroupAverage(Composite):
    """(1/|G|²) Σ_{g,h∈G} k(gx, hy): functions that do not change when the group moves a point.

    Parameters
    ----------
    kernel : Kernel
        k.
    group : sequence of arrays of shape (d, d)
        The matrices g; all of them, the identity included.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> k = GroupAverage(Gaussian(), [np.eye(1), -np.eye(1)])
    >>> k([2.0], [3.0]) == k([-2.0], [3.0])
    True
    """

    kernel: Kernel
    group: Sequence[np.ndarray]

    def __post_init__(self) -> None:
        shapes = {np.shape(element) for element in self.group}
        if len(shapes) != 1 or len(shape := shapes.pop()) != 2 or shape[0] != shape[1]:
            raise ValueError(
                "a group is a list of square matrices of one size, the identity included; got "
                f"shapes {[np.shape(element) for element in self.group]}."
            )

    def facts(self, dimension: int | None = None) -> Facts:
        return of_average(self, self.group, self.kernel.facts(len(self.group[0])))

    def columns_needed(self) -> int:
        return len(self.group[0])

    def _block(self, x: PointSet, y: PointSet) -> np.ndarray:
        images = self._orbit(y)
        pairs = (self.kernel.block(a, b) for a in self._orbit(x) for b in images)
        return sum(pairs, np.zeros(())) / len(self.group) ** 2

    def _derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        images = self._orbit(y)
        pairs = (
            self.kernel.derivative(a, b) @ np.asarray(g)
            for g, a in zip(self.group, self._orbit(x), strict=True)
            for b in images
        )
        return sum(pairs, np.zeros(())) / len(self.group) ** 2

    def _orbit(self, points: PointSet) -> list[DensePoints]:
        assert isinstance(points, VectorPoints)
        rows, size = points.seen(View(), points.dtype), np.shape(self.group[0])[0]
        if rows.shape[1] != size:
            raise ValueError(
                f"the group moves points with {size} columns; the points have {rows.shape[1]}."
            )
        return [DensePoints(rows @ np.asarray(g, rows.dtype).T) for g in self.group]


def tensor_product(*parts: tuple[Kernel, Any]) -> Kernel:
    """Π_i k_i, each on its own columns: tensor_product((k1, [0, 1]), (k2, "age")).

    >>> from mercer.kernels import Linear
    >>> tensor_product((Linear(), 0), (Linear(), 1))([2.0, 3.0], [5.0, 7.0])
    210.0
    """
    return reduce(operator.mul, _on_columns(parts))


def direct_sum(*parts: tuple[Kernel, Any]) -> Kernel:
    """Σ_i k_i, each on its own columns: the kernel of additive models.

    >>> from mercer.kernels import Linear
    >>> direct_sum((Linear(), 0), (Linear(), 1))([2.0, 3.0], [5.0, 7.0])
    31.0
    """
    return reduce(operator.add, _on_columns(parts))


def _on_columns(parts: Sequence[tuple[Kernel, Any]]) -> list[Kernel]:
    if not parts:
        raise ValueError("give at least one pair (kernel, columns).")
    return [kernel.on(columns) for kernel, columns in parts]
