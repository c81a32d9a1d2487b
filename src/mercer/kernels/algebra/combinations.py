"""Sums, products and nonnegative multiples of kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import check_nonnegative
from mercer.evaluation.expression import Expression, numbers_of
from mercer.kernels.algebra.derivatives import derivative_of
from mercer.kernels.algebra.wrapped import Wrapped
from mercer.kernels.base import Kernel
from mercer.kernels.inner_product import Constant
from mercer.points import PointSet, VectorPoints


def as_summand(value: Kernel | float) -> Kernel:
    """Kernels as they are; a number c is the constant kernel c."""
    return value if isinstance(value, Kernel) else Constant(value)


@dataclass(frozen=True, eq=False, repr=False)
class _Pair(Kernel):
    """Two kernels on the same points."""

    left: Kernel
    right: Kernel

    def points(self, data: Any) -> PointSet:
        if self.expression() is not None:
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
    expression = kernel.expression()
    return expression is not None and not numbers_of(expression)


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

    def expression(self) -> Expression | None:
        left, right = self.left.expression(), self.right.expression()
        return None if left is None or right is None else left + right

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        if self.expression() is not None:
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
        return f"{self.left!r} + {bracketed(self.right, Sum)}"


@dataclass(frozen=True, eq=False, repr=False)
class Product(_Pair):
    """k₁ · k₂: the kernel of the tensor product (Schur's theorem).

    >>> from mercer.kernels import Gaussian, Linear
    >>> (Gaussian() * Linear())([1.0], [3.0]) == Gaussian()([1.0], [3.0]) * 3.0
    True
    """

    def expression(self) -> Expression | None:
        left, right = self.left.expression(), self.right.expression()
        return None if left is None or right is None else left * right

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        if self.expression() is not None:
            return super().block(x, y)
        return self.left.block(x, y) * self.right.block(x, y)

    def diagonal(self, x: PointSet) -> np.ndarray:
        return self.left.diagonal(x) * self.right.diagonal(x)

    def derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        left, right = (side.block(x, y)[:, :, None] for side in (self.left, self.right))
        return derivative_of(self.left, x, y) * right + left * derivative_of(self.right, x, y)

    def __repr__(self) -> str:
        return f"{bracketed(self.left, Sum)} * {bracketed(self.right, Sum, Product, Scaled)}"


@dataclass(frozen=True, eq=False, repr=False)
class Scaled(Wrapped):
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

    def expression(self) -> Expression | None:
        inner = self.kernel.expression()
        return None if inner is None else float(self.scale) * inner

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        if self.expression() is not None:
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

    @property
    def takes_tensors(self) -> bool:
        return self.kernel.takes_tensors

    def __repr__(self) -> str:
        return f"{self.scale!r} * {bracketed(self.kernel, Sum, Product, Scaled)}"


def bracketed(kernel: Kernel, *weaker: type[Kernel]) -> str:
    """The kernel as part of an expression: in brackets where it would be read otherwise."""
    return f"({kernel!r})" if isinstance(kernel, weaker) else repr(kernel)
