"""Kernels from kernels on the same points: sums, products, multiples, functions of a kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from mercer.arrays import namespace
from mercer.checks import check_coefficients, check_nonnegative
from mercer.evaluation.expression import Expression, X, Y, exp, numbers_of, polynomial
from mercer.evaluation.operations import derivative, evaluate
from mercer.kernels.base import Kernel, checked, reciprocal_roots
from mercer.kernels.facts import Facts
from mercer.kernels.inner_product import Constant
from mercer.kernels.laws.operations import (
    ExponentialLaws,
    of_multiple,
    of_normalised,
    of_polynomial,
    of_product,
    of_sum,
)
from mercer.kernels.normalisation import mixed, normalised
from mercer.points import PointSet, VectorPoints


def sum_of(left: Any, right: Any) -> Any:
    """left + right of kernels, of which one may be a number."""
    if not (_is_operand(left) and _is_operand(right)):
        return NotImplemented
    return Sum(*(side if isinstance(side, Kernel) else Constant(side) for side in (left, right)))


def product_of(left: Any, right: Any) -> Any:
    """left · right of kernels, of which one may be a number."""
    if not (_is_operand(left) and _is_operand(right)):
        return NotImplemented
    if isinstance(left, Kernel) and isinstance(right, Kernel):
        return Product(left, right)
    return Scaled(right, left) if isinstance(left, Kernel) else Scaled(left, right)


def _is_operand(value: Any) -> bool:
    if isinstance(value, type) and issubclass(value, Kernel):
        name = value.__name__
        raise TypeError(f"kernels are objects; got the class {name}: write {name}(...).")
    return isinstance(value, (Kernel, int, float, np.integer, np.floating))


def bracketed(kernel: Kernel, *weaker: type[Kernel]) -> str:
    """The kernel as part of an expression: in brackets where it would be read otherwise."""
    return f"({kernel!r})" if isinstance(kernel, weaker) else repr(kernel)


class Composite(Kernel):
    """A kernel made of others: by its expression where all of them have one, else by their blocks.

    Subclasses write what they do with blocks, diagonals and derivatives in `_block`, `_diagonal`
    and `_derivative`.
    """

    @property
    def symmetric(self) -> bool:
        return all(part.symmetric for part in self._parts())


class Pointwise(Composite):
    """A function of the values of other kernels, written down once for expressions and arrays."""

    def value(self, *parts: Any) -> Any:
        """k(x, y) from the values of the parts."""
        raise NotImplementedError

    def expression(self) -> Expression | None:
        parts = [part.expression() for part in self._parts()]
        return None if any(part is None for part in parts) else self.value(*parts)

    def _block(self, x: PointSet, y: PointSet) -> np.ndarray:
        return self.value(*(part.block(x, y) for part in self._parts()))

    def own_block(self, x: PointSet) -> np.ndarray:
        if self.expression() is not None:
            return super().own_block(x)
        return self.value(*(part.own_block(x) for part in self._parts()))

    def _diagonal(self, x: PointSet) -> np.ndarray:
        return self.value(*(part.diagonal(x) for part in self._parts()))

    def _derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        parts = dict(zip((X, Y), self._parts(), strict=False))  # X and Y stand for their values
        values = {part: kernel.block(x, y)[:, :, None] for part, kernel in parts.items()}
        whole, total = self.value(*parts), np.zeros(())
        for part, kernel in parts.items():
            slope = derivative(whole, part)
            if slope is not None:
                total = total + evaluate(slope, values) * kernel.derivative(x, y)
        return total

    @property
    def takes_tensors(self) -> bool:
        return all(part.takes_tensors for part in self._parts())


# ---- two kernels ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class _Pair(Pointwise):
    """Two kernels on the same points."""

    left: Kernel
    right: Kernel

    def points(self, data: Any) -> PointSet:
        if self.expression() is not None:
            return super().points(data)
        points = [side.points(data) for side in self._deciding_sides()]
        kinds = {VectorPoints if isinstance(p, VectorPoints) else type(p) for p in points}
        if len(kinds) > 1:
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
        values = [(side, side.expression()) for side in (self.left, self.right)]
        sides = [side for side, value in values if value is None or numbers_of(value)]
        return sides or [self.left]


@dataclass(frozen=True, eq=False, repr=False)
class Sum(_Pair):
    """k₁ + k₂: its functions are the sums f₁ + f₂.

    >>> from mercer.kernels import Gaussian, Linear
    >>> x, y = [1.0, 2.0], [0.0, 1.0]
    >>> k = Gaussian() + Linear()
    >>> k(x, y) == Gaussian()(x, y) + Linear()(x, y)
    True
    """

    def value(self, *parts: Any) -> Any:
        return parts[0] + parts[1]

    def facts(self, dimension: int | None = None) -> Facts:
        return of_sum(self, self.left.facts(dimension), self.right.facts(dimension))

    def null_degree(self) -> int | None:
        degrees = [side.null_degree() for side in (self.left, self.right)]
        return max((degree for degree in degrees if degree is not None), default=None)

    def normalised_block(self, x: PointSet, y: PointSet) -> np.ndarray:
        sides = (self.left, self.right)
        parts = [(s.normalised_block(x, y), s.log_diagonal(x), s.log_diagonal(y)) for s in sides]
        return self._with_zeros(mixed(parts), x, y)

    def log_diagonal(self, x: PointSet) -> np.ndarray:
        return np.logaddexp(self.left.log_diagonal(x), self.right.log_diagonal(x))

    def feature_count(self, width: int) -> int | None:
        left, right = (side.feature_count(width) for side in (self.left, self.right))
        return None if left is None or right is None else left + right

    def features(self, x: PointSet) -> Any:
        return _side_by_side(self.left.features(x), self.right.features(x))

    def factors(self, x: PointSet, y: PointSet) -> tuple[Any, Any] | None:
        left, right = self.left.factors(x, y), self.right.factors(x, y)
        if left is None or right is None:
            return None
        return _side_by_side(left[0], right[0]), _side_by_side(left[1], right[1])

    def __repr__(self) -> str:
        return f"{self.left!r} + {bracketed(self.right, Sum)}"


def _side_by_side(left: Any, right: Any) -> Any:
    """The columns of two matrices, sparse where one of them is."""
    if scipy.sparse.issparse(left) or scipy.sparse.issparse(right):
        return scipy.sparse.hstack([left, right], format="csr")
    return np.concatenate([left, right], axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class Product(_Pair):
    """k₁ · k₂: the kernel of the tensor product (Schur's theorem).

    >>> from mercer.kernels import Gaussian, Linear
    >>> (Gaussian() * Linear())([1.0], [3.0]) == Gaussian()([1.0], [3.0]) * 3.0
    True
    """

    def value(self, *parts: Any) -> Any:
        return parts[0] * parts[1]

    def normalised_block(self, x: PointSet, y: PointSet) -> np.ndarray:
        values = self.left.normalised_block(x, y) * self.right.normalised_block(x, y)
        return self._with_zeros(values, x, y)

    def log_diagonal(self, x: PointSet) -> np.ndarray:
        return self.left.log_diagonal(x) + self.right.log_diagonal(x)

    def facts(self, dimension: int | None = None) -> Facts:
        return of_product(self, self.left.facts(dimension), self.right.facts(dimension))

    def __repr__(self) -> str:
        return f"{bracketed(self.left, Sum)} * {bracketed(self.right, Sum, Product, Scaled)}"


# ---- functions of one kernel ---------------------------------------------------------------------


class Wrapped(Composite):
    """A kernel made of one other, on the points of that one; subclasses have a field `kernel`."""

    kernel: Kernel

    def points(self, data: Any) -> PointSet:
        return self.kernel.points(data)

    def is_single(self, x: Any) -> bool:
        return self.kernel.is_single(x)


@dataclass(frozen=True, eq=False, repr=False)
class Scaled(Wrapped, Pointwise):
    """c · k with c ≥ 0.

    >>> from mercer.kernels import Gaussian
    >>> (3.0 * Gaussian())([1.0], [1.0])
    3.0
    """

    scale: float
    kernel: Kernel

    def __post_init__(self) -> None:
        reason = (
            "a negative multiple of a kernel is not positive definite; to subtract functions, "
            "write f - g"
        )
        check_nonnegative(self, "scale", self.scale, reason)

    def value(self, *parts: Any) -> Any:
        return float(self.scale) * parts[0]

    def normalised_block(self, x: PointSet, y: PointSet) -> np.ndarray:
        return self._with_zeros(self.kernel.normalised_block(x, y), x, y)

    def log_diagonal(self, x: PointSet) -> np.ndarray:
        return self.kernel.log_diagonal(x) + (math.log(self.scale) if self.scale else -math.inf)

    def facts(self, dimension: int | None = None) -> Facts:
        return of_multiple(self, float(self.scale), self.kernel.facts(dimension))

    def null_degree(self) -> int | None:
        return self.kernel.null_degree() if self.scale else None

    def feature_count(self, width: int) -> int | None:
        return self.kernel.feature_count(width)

    def features(self, x: PointSet) -> np.ndarray:
        return math.sqrt(self.scale) * self.kernel.features(x)

    def factors(self, x: PointSet, y: PointSet) -> tuple[Any, Any] | None:
        inner = self.kernel.factors(x, y)
        return None if inner is None else (self.scale * inner[0], inner[1])

    def __repr__(self) -> str:
        return f"{self.scale!r} * {bracketed(self.kernel, Sum, Product, Scaled)}"


@dataclass(frozen=True, eq=False, repr=False)
class Exponentiated(Wrapped, Pointwise):
    """exp(k), as `kernel.exp()`: Σ_n k^n/n!, a sum of products.

    >>> import math
    >>> from mercer.kernels import Linear
    >>> math.isclose(Linear().exp()([1.0], [2.0]), math.exp(2.0))
    True
    """

    kernel: Kernel

    def value(self, *parts: Any) -> Any:
        (inner,) = parts
        return exp(inner) if isinstance(inner, Expression) else namespace(inner).exp(inner)

    def normalised_block(self, x: PointSet, y: PointSet) -> np.ndarray:
        """exp(k(x, y) − ½k(x, x) − ½k(y, y)): an exponent ≤ 0 where k is positive definite."""
        rows, columns = (0.5 * self.kernel.diagonal(side) for side in (x, y))
        return np.exp(self.kernel.block(x, y) - rows[:, None] - columns)

    def log_diagonal(self, x: PointSet) -> np.ndarray:
        return np.asarray(self.kernel.diagonal(x), np.float64)

    def facts(self, dimension: int | None = None) -> Facts:
        inner = self.kernel.facts(dimension)
        return ExponentialLaws.of(self, inner.dimension, inner)

    def __repr__(self) -> str:
        return f"{bracketed(self.kernel, Sum, Product, Scaled)}.exp()"


@dataclass(frozen=True, eq=False, repr=False)
class PolynomialOf(Wrapped, Pointwise):
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

    kernel: Kernel
    coefficients: Sequence[float] = (0.0, 1.0)
    checks = checked(coefficients=check_coefficients)

    def value(self, *parts: Any) -> Any:
        return polynomial(self.coefficients, parts[0])

    def normalised_block(self, x: PointSet, y: PointSet) -> np.ndarray:
        inner = self.kernel.normalised_block(x, y)
        logs = zip(self._log_terms(x), self._log_terms(y), strict=True)
        parts = [(inner**n, own[0], own[1]) for n, own in enumerate(logs)]
        return self._with_zeros(mixed(parts), x, y)

    def log_diagonal(self, x: PointSet) -> np.ndarray:
        return np.logaddexp.reduce(self._log_terms(x))

    def _log_terms(self, x: PointSet) -> list[np.ndarray]:
        """log a_n k(x, x)^n for every n."""
        inner = self.kernel.log_diagonal(x)
        with np.errstate(divide="ignore"):
            logs = np.log(np.asarray(self.coefficients, np.float64))
        return [log + (n * inner if n else 0.0 * (inner == 0)) for n, log in enumerate(logs)]

    def facts(self, dimension: int | None = None) -> Facts:
        return of_polynomial(self, self.coefficients, self.kernel.facts(dimension))


@dataclass(frozen=True, eq=False, repr=False)
class Normalised(Wrapped):
    """k(x, y)/√(k(x, x) k(y, y)), as `kernel.normalised()`; 0 where k(x, x) = 0.

    On objects other than vectors, two with k(x, x) = k(y, y) = 0 have the value 1: the empty set,
    text or graph is as similar to itself as any other.

    >>> from mercer.kernels import Linear
    >>> Linear().normalised()([3.0, 4.0], [6.0, 8.0])
    1.0
    """

    kernel: Kernel

    def expression(self) -> Expression | None:
        """On a log scale where k might overflow; None where k(x, x) has no expression."""
        inner = self.kernel.expression()
        return inner if inner is None or isinstance(self.kernel, Normalised) else normalised(inner)

    def facts(self, dimension: int | None = None) -> Facts:
        return of_normalised(self, self.kernel.facts(dimension))

    def _block(self, x: PointSet, y: PointSet) -> np.ndarray:
        return self.kernel.normalised_block(x, y)

    def _diagonal(self, x: PointSet) -> np.ndarray:
        if not isinstance(x, VectorPoints):
            return np.ones(len(x), x.dtype)
        return (self.kernel.diagonal(x) > 0).astype(x.dtype)

    def features(self, x: PointSet) -> Any:
        """φ(x)/‖φ(x)‖; objects with φ(x) = 0 have a feature of their own, in a last column."""
        features, roots = self.kernel.features(x), reciprocal_roots(self.kernel.diagonal(x))
        if isinstance(x, VectorPoints):
            return roots[:, None] * features
        return _unit_rows(features, roots, own_feature=True)

    def factors(self, x: PointSet, y: PointSet) -> tuple[Any, Any] | None:
        inner = self.kernel.factors(x, y)
        if inner is None:
            return None
        left, right = (reciprocal_roots(self.kernel.diagonal(side)) for side in (x, y))
        shared = bool((left == 0).any() and (right == 0).any())
        return _unit_rows(inner[0], left, shared), _unit_rows(inner[1], right, shared)

    def _derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        """(∂k(x, y) − k(x, y) ∂k(x, x)/k(x, x))/√(k(x, x) k(y, y)), ∂ being that of the first x."""
        if isinstance(self.kernel, Exponentiated):
            inner = self.kernel.kernel
            slopes = inner.derivative(x, y) - _slopes_at_itself(inner, x)[:, None, :]
            return self._block(x, y)[:, :, None] * slopes
        own, columns = (reciprocal_roots(self.kernel.diagonal(side)) for side in (x, y))
        falls = own[:, None] ** 2 * _slopes_at_itself(self.kernel, x)
        values = self.kernel.block(x, y)[:, :, None]
        slopes = self.kernel.derivative(x, y) - values * falls[:, None, :]
        return own[:, None, None] * slopes * columns[None, :, None]

    def __repr__(self) -> str:
        return f"{bracketed(self.kernel, Sum, Product, Scaled)}.normalised()"


def _unit_rows(matrix: Any, roots: np.ndarray, own_feature: bool) -> Any:
    """The rows of a CSR matrix times 1/‖φ‖; empty ones may share a feature, in a last column."""
    scaled = matrix.copy()
    scaled.data *= np.repeat(roots, np.diff(matrix.indptr))
    return _side_by_side(scaled, 1.0 * (roots == 0)[:, None]) if own_feature else scaled


def _slopes_at_itself(kernel: Kernel, x: PointSet) -> np.ndarray:
    """∂k(x_i, y)/∂x_i at y = x_i for each point."""
    points = [x.slice(i, i + 1) for i in range(len(x))]
    slopes = [kernel.derivative(point, point)[0, 0] for point in points]
    return np.reshape(slopes, (len(x), -1))
