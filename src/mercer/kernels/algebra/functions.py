"""Functions of one kernel: its exponential, its polynomials, and the kernel normalised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from mercer.arrays import namespace
from mercer.evaluation.expression import Expression, Parameter, exp, own, reciprocal_root
from mercer.kernels.algebra.combinations import Product, Scaled, Sum, bracketed
from mercer.kernels.algebra.derivatives import derivative_of
from mercer.kernels.algebra.wrapped import Wrapped
from mercer.kernels.base import Kernel
from mercer.kernels.checks import check_weights
from mercer.points import PointSet, VectorPoints


@dataclass(frozen=True, eq=False, repr=False)
class Exponentiated(Wrapped):
    """exp(k), as `kernel.exp()`: Σ_n k^n/n!, a sum of products.

    >>> import math
    >>> from mercer.kernels import Linear
    >>> math.isclose(Linear().exp()([1.0], [2.0]), math.exp(2.0))
    True
    """

    kernel: Kernel

    def expression(self) -> Expression | None:
        inner = self.kernel.expression()
        return None if inner is None else exp(inner)

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        if self.expression() is not None:
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
        return f"{bracketed(self.kernel, Sum, Product, Scaled)}.exp()"


@dataclass(frozen=True, eq=False, repr=False)
class PolynomialOf(Wrapped):
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

    def __post_init__(self) -> None:
        check_weights(self, "coefficients", self.coefficients)

    def expression(self) -> Expression | None:
        inner = self.kernel.expression()
        if inner is None:
            return None
        *lower, top = (float(c) for c in self.coefficients)
        value: Expression = Parameter(top)
        for coefficient in reversed(lower):
            value = value * inner + coefficient
        return value

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        if self.expression() is not None:
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
        inner = self.kernel.expression()
        if inner is None:
            return None
        x, y = own(inner, "x"), own(inner, "y")
        if x is None or y is None:
            return None
        return inner * (reciprocal_root(x) * reciprocal_root(y))

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        if self.expression() is not None:
            return super().block(x, y)
        if not isinstance(x, VectorPoints):
            return self.kernel.normalised_block(x, y)
        rows, columns = (_reciprocal_roots(self.kernel.diagonal(side)) for side in (x, y))
        return rows[:, None] * self.kernel.block(x, y) * columns

    def diagonal(self, x: PointSet) -> np.ndarray:
        if not isinstance(x, VectorPoints):
            return np.ones(len(x), x.dtype)
        return (self.kernel.diagonal(x) > 0).astype(x.dtype)

    def features(self, x: PointSet) -> Any:
        """φ(x)/‖φ(x)‖; objects with φ(x) = 0 have a feature of their own, in a last column."""
        features, own = self.kernel.features(x), self.kernel.diagonal(x)
        if isinstance(x, VectorPoints):
            return _reciprocal_roots(own)[:, None] * features
        scaled = scipy.sparse.diags_array(_reciprocal_roots(own)) @ features
        return scipy.sparse.hstack([scaled, (own <= 0).astype(own.dtype)[:, None]], format="csr")

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
        return f"{bracketed(self.kernel, Sum, Product, Scaled)}.normalised()"


def _reciprocal_roots(values: np.ndarray) -> np.ndarray:
    return np.divide(1.0, np.sqrt(values), out=np.zeros_like(values), where=values > 0)
