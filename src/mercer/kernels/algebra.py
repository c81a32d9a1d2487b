"""Kernels from kernels: sums, products, nonnegative multiples, selected columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.evaluation.expression import Expression, restricted
from mercer.kernels.base import Kernel
from mercer.kernels.checks import check_nonnegative
from mercer.kernels.inner_product import Constant
from mercer.points import Column, DensePoints, PointSet, VectorPoints, View


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
        # constants take any points, so the other side decides
        sides = [side for side in (self.left, self.right) if not isinstance(side, Constant)]
        points = [side.points(data) for side in sides]
        if len({_kind(p) for p in points}) > 1:
            raise ValueError(
                f"{self!r} combines kernels on different kinds of points, "
                f"{' and '.join(type(p).__name__ for p in points)}: they cannot share their data."
            )
        return points[0]

    def is_single(self, x: Any) -> bool:
        sides = [side for side in (self.left, self.right) if not isinstance(side, Constant)]
        return all(side.is_single(x) for side in sides or [self.left])

    @property
    def parallel(self) -> bool:
        return self.left.parallel and self.right.parallel


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

    def points(self, data: Any) -> PointSet:
        return self.kernel.points(data)

    def is_single(self, x: Any) -> bool:
        return self.kernel.is_single(x)

    @property
    def parallel(self) -> bool:
        return self.kernel.parallel

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

    def _selected(self, points: Any) -> PointSet:
        view = View(self._columns())
        names = None if points.names is None else tuple(map(str, self.columns))
        return DensePoints(points.seen(view, points.dtype), names)

    @property
    def parallel(self) -> bool:
        return self.kernel.parallel

    def __repr__(self) -> str:
        return f"{_inside(self.kernel, Sum, Product, Scaled)}.on({list(self.columns)!r})"


def _inside(kernel: Kernel, *weaker: type[Kernel]) -> str:
    """The kernel as part of an expression: in brackets where it would be read otherwise."""
    return f"({kernel!r})" if isinstance(kernel, weaker) else repr(kernel)
