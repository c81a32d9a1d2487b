"""Kernels from kernels: sums, products, nonnegative multiples, selected columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import namespace
from mercer.evaluation.expression import (
    Expression,
    Parameter,
    exp,
    numbers_of,
    own,
    reciprocal_root,
    restricted,
)
from mercer.evaluation.gradients import add_columns, gradient
from mercer.kernels.base import Kernel
from mercer.kernels.checks import check_nonnegative, check_weights
from mercer.kernels.inner_product import Constant
from mercer.points import Column, PointSet, VectorPoints, View


def as_summand(value: Kernel | float) -> Kernel:
    """Kernels as they are; a number c is the constant kernel c."""
    return value if isinstance(value, Kernel) else Constant(value)


@dataclass(frozen=True, eq=False, repr=False)
class _Pair(Kernel):
    """Two kernels on the same points."""

    left: Kernel
    right: Kernel

    def points(self, data: Any) -> PointSet:
        if self.program() is not None:
            return super().points(data)
        points = [side.points(data) for side in self._deciding_sides()]
        if len({_kind(p) for p in points}) > 1:
            raise ValueError(
                f"{self!r} combines kernels on different kinds of points, "
                f"{' and '.join(type(p).__name__ for p in points)}: they cannot share their data."
            )
        # a side that reads some columns of a DataFrame finds them in the points of the other
        return max(points, key=lambda p: getattr(p, "width", 0))

    def is_single(self, x: Any) -> bool:
        return all(side.is_single(x) for side in self._deciding_sides())

    def _deciding_sides(self) -> list[Kernel]:
        """The sides that look at points at all; constants take any."""
        sides = [side for side in (self.left, self.right) if not _is_constant(side)]
        return sides or [self.left]

    @property
    def parallel(self) -> bool:
        return self.left.parallel and self.right.parallel

    @property
    def takes_tensors(self) -> bool:
        return self.left.takes_tensors and self.right.takes_tensors


def _is_constant(kernel: Kernel) -> bool:
    expression = kernel.program()
    return expression is not None and not numbers_of(expression)


def derivative_of(kernel: Kernel, x: PointSet, y: PointSet) -> np.ndarray:
    """∂k(x_i, y_j)/∂x_i, shape (n, m, columns), with or without a program."""
    if kernel.program() is None:
        return kernel.derivative(x, y)
    return gradient(kernel, x, y, np.eye(len(y)))


def _kind(points: PointSet) -> type:
    return VectorPoints if isinstance(points, VectorPoints) else type(points)


@dataclass(frozen=True, eq=False, repr=False)
class Sum(_Pair):
    """k₁ + k₂: its functions are the sums f₁ + f₂.

    >>> from mercer.kernels import Gaussian, Linear
    >>> x, y = [1.0, 2.0], [0.0, 1.0]
    >>> k = Gaussian() + Linear()
    >>> k(x, y) == Gaussian()(x, y) + Linear()(x, y)
    True
    """

    def program(self) -> Expression | None:
        left, right = self.left.program(), self.right.program()
        return None if left is None or right is None else left + right

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        if self.program() is not None:
            return super().block(x, y)
        return self.left.block(x, y) + self.right.block(x, y)

    def diagonal(self, x: PointSet) -> np.ndarray:
        return self.left.diagonal(x) + self.right.diagonal(x)

    def derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        return derivative_of(self.left, x, y) + derivative_of(self.right, x, y)

    def feature_count(self, width: int) -> int | None:
        left, right = (side.feature_count(width) for side in (self.left, self.right))
        return None if left is None or right is None else left + right

    def features(self, x: PointSet) -> np.ndarray:
        return np.concatenate([self.left.features(x), self.right.features(x)], axis=1)

    def __repr__(self) -> str:
        return f"{self.left!r} + {_inside(self.right, Sum)}"


@dataclass(frozen=True, eq=False, repr=False)
class Product(_Pair):
    """k₁ · k₂: the kernel of the tensor product (Schur's theorem).

    >>> from mercer.kernels import Gaussian, Linear
    >>> (Gaussian() * Linear())([1.0], [3.0]) == Gaussian()([1.0], [3.0]) * 3.0
    True
    """

    def program(self) -> Expression | None:
        left, right = self.left.program(), self.right.program()
        return None if left is None or right is None else left * right

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        if self.program() is not None:
            return super().block(x, y)
        return self.left.block(x, y) * self.right.block(x, y)

    def diagonal(self, x: PointSet) -> np.ndarray:
        return self.left.diagonal(x) * self.right.diagonal(x)

    def derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        left, right = (side.block(x, y)[:, :, None] for side in (self.left, self.right))
        return derivative_of(self.left, x, y) * right + left * derivative_of(self.right, x, y)

    def __repr__(self) -> str:
        return f"{_inside(self.left, Sum)} * {_inside(self.right, Sum, Product, Scaled)}"


@dataclass(frozen=True, eq=False, repr=False)
class Scaled(Kernel):
    """c · k with c ≥ 0.

    >>> from mercer.kernels import Gaussian
    >>> (3.0 * Gaussian())([1.0], [1.0])
    3.0
    """

    scale: float
    kernel: Kernel

    def __post_init__(self) -> None:
        check_nonnegative(
            self,
            "scale",
            self.scale,
            "a negative multiple of a kernel is not positive definite; to subtract functions, "
            "write f - g",
        )

    def program(self) -> Expression | None:
        inner = self.kernel.program()
        return None if inner is None else float(self.scale) * inner

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        if self.program() is not None:
            return super().block(x, y)
        return self.scale * self.kernel.block(x, y)

    def diagonal(self, x: PointSet) -> np.ndarray:
        return self.scale * self.kernel.diagonal(x)

    def derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        return self.scale * derivative_of(self.kernel, x, y)

    def feature_count(self, width: int) -> int | None:
        return self.kernel.feature_count(width)

    def features(self, x: PointSet) -> np.ndarray:
        return math.sqrt(self.scale) * self.kernel.features(x)

    def points(self, data: Any) -> PointSet:
        return self.kernel.points(data)

    def is_single(self, x: Any) -> bool:
        return self.kernel.is_single(x)

    @property
    def parallel(self) -> bool:
        return self.kernel.parallel

    @property
    def takes_tensors(self) -> bool:
        return self.kernel.takes_tensors

    def __repr__(self) -> str:
        return f"{self.scale!r} * {_inside(self.kernel, Sum, Product, Scaled)}"


@dataclass(frozen=True, eq=False, repr=False)
class Columns(Kernel):
    """A kernel that looks at some columns only: `kernel.on(columns)`.

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

    def program(self) -> Expression | None:
        inner = self.kernel.program()
        return None if inner is None else restricted(inner, self._columns())

    def _columns(self) -> tuple[Column, ...]:
        return tuple(c if isinstance(c, str) else int(c) for c in self.columns)

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        if self.program() is not None:
            return super().block(x, y)
        return self.kernel.block(self._selected(x), self._selected(y))

    def diagonal(self, x: PointSet) -> np.ndarray:
        if self.program() is not None:
            return super().diagonal(x)
        return self.kernel.diagonal(self._selected(x))

    def derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        assert isinstance(x, VectorPoints)
        inner = derivative_of(self.kernel, self._selected(x), self._selected(y))
        out = np.zeros((*inner.shape[:2], x.width))
        positions = x.positions(View(self._columns()))
        assert positions is not None
        add_columns(out, positions, inner)
        return out

    def check_points(self, points: PointSet) -> None:
        self.kernel.check_points(self._selected(points))

    def feature_count(self, width: int) -> int | None:
        return self.kernel.feature_count(len(self.columns))

    def features(self, x: PointSet) -> np.ndarray:
        return self.kernel.features(self._selected(x))

    def _selected(self, points: Any) -> Any:
        view = View(self._columns())
        names = None if points.names is None else tuple(map(str, self.columns))
        return points.made_of(points.seen(view, points.dtype), names)

    @property
    def takes_tensors(self) -> bool:
        return self.kernel.takes_tensors

    @property
    def parallel(self) -> bool:
        return self.kernel.parallel

    def __repr__(self) -> str:
        return f"{_inside(self.kernel, Sum, Product, Scaled)}.on({list(self.columns)!r})"


@dataclass(frozen=True, eq=False, repr=False)
class _Function(Kernel):
    """A function of one kernel: what wraps it does not change its points."""

    kernel: Kernel

    def points(self, data: Any) -> PointSet:
        return self.kernel.points(data)

    def is_single(self, x: Any) -> bool:
        return self.kernel.is_single(x)

    @property
    def parallel(self) -> bool:
        return self.kernel.parallel


@dataclass(frozen=True, eq=False, repr=False)
class Exponentiated(_Function):
    """exp(k), as `kernel.exp()`: Σ_n k^n/n!, a sum of products.

    >>> import math
    >>> from mercer.kernels import Linear
    >>> math.isclose(Linear().exp()([1.0], [2.0]), math.exp(2.0))
    True
    """

    def program(self) -> Expression | None:
        inner = self.kernel.program()
        return None if inner is None else exp(inner)

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        if self.program() is not None:
            return super().block(x, y)
        values = self.kernel.block(x, y)
        return namespace(values).exp(values)

    def diagonal(self, x: PointSet) -> np.ndarray:
        values = self.kernel.diagonal(x)
        return namespace(values).exp(values)

    @property
    def takes_tensors(self) -> bool:
        return self.kernel.takes_tensors

    def derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        return self.block(x, y)[:, :, None] * derivative_of(self.kernel, x, y)

    def __repr__(self) -> str:
        return f"{_inside(self.kernel, Sum, Product, Scaled)}.exp()"


@dataclass(frozen=True, eq=False, repr=False)
class PolynomialOf(_Function):
    """p(k) = Σ_n a_n k^n with a_n ≥ 0.

    Parameters
    ----------
    kernel : Kernel
        k.
    coefficients : sequence of floats, default=(0.0, 1.0)
        a_0, a_1, …

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> PolynomialOf(Linear(), [1.0, 2.0, 3.0])([1.0], [2.0])  # 1 + 2·2 + 3·4
    17.0
    """

    coefficients: Sequence[float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        check_weights(self, "coefficients", self.coefficients)

    def program(self) -> Expression | None:
        inner = self.kernel.program()
        if inner is None:
            return None
        *lower, top = (float(c) for c in self.coefficients)
        value: Expression = Parameter(top)
        for coefficient in reversed(lower):
            value = value * inner + coefficient
        return value

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        if self.program() is not None:
            return super().block(x, y)
        return self._polynomial(self.kernel.block(x, y))

    def diagonal(self, x: PointSet) -> np.ndarray:
        return self._polynomial(self.kernel.diagonal(x))

    def derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        slopes = self._polynomial.deriv()(self.kernel.block(x, y))
        return slopes[:, :, None] * derivative_of(self.kernel, x, y)

    @property
    def _polynomial(self) -> np.polynomial.Polynomial:
        return np.polynomial.Polynomial(np.asarray(self.coefficients, np.float64))


@dataclass(frozen=True, eq=False, repr=False)
class Normalised(_Function):
    """k(x, y)/√(k(x, x) k(y, y)), as `kernel.normalised()`; 0 where k(x, x) = 0.

    >>> from mercer.kernels import Linear
    >>> Linear().normalised()([3.0, 4.0], [6.0, 8.0])
    1.0
    """

    def program(self) -> Expression | None:
        inner = self.kernel.program()
        if inner is None:
            return None
        x, y = own(inner, "x"), own(inner, "y")
        if x is None or y is None:
            return None
        return inner * (reciprocal_root(x) * reciprocal_root(y))

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        if self.program() is not None:
            return super().block(x, y)
        rows, columns = (_reciprocal_roots(self.kernel.diagonal(side)) for side in (x, y))
        return rows[:, None] * self.kernel.block(x, y) * columns

    def diagonal(self, x: PointSet) -> np.ndarray:
        return (self.kernel.diagonal(x) > 0).astype(x.dtype)

    def derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        """(∂k(x, y) − k(x, y) ∂k(x, x)/k(x, x))/√(k(x, x) k(y, y)), ∂ being that of the first x."""
        own, columns = (_reciprocal_roots(self.kernel.diagonal(side)) for side in (x, y))
        points = [x.slice(i, i + 1) for i in range(len(x))]
        slopes = [derivative_of(self.kernel, point, point)[0, 0] for point in points]
        falls = own[:, None] ** 2 * np.reshape(slopes, (len(x), -1))
        values = self.kernel.block(x, y)[:, :, None]
        inner = derivative_of(self.kernel, x, y) - values * falls[:, None, :]
        return own[:, None, None] * inner * columns[None, :, None]

    def __repr__(self) -> str:
        return f"{_inside(self.kernel, Sum, Product, Scaled)}.normalised()"


def _reciprocal_roots(values: np.ndarray) -> np.ndarray:
    return np.divide(1.0, np.sqrt(values), out=np.zeros_like(values), where=values > 0)


def _inside(kernel: Kernel, *weaker: type[Kernel]) -> str:
    """The kernel as part of an expression: in brackets where it would be read otherwise."""
    return f"({kernel!r})" if isinstance(kernel, weaker) else repr(kernel)
