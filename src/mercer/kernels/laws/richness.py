"""The size of the space: finitely many features, or dense in the continuous functions."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from mercer.kernels.algebra import (
    Columns,
    Exponentiated,
    Normalised,
    PolynomialOf,
    Product,
    Scaled,
    Sum,
)
from mercer.kernels.arc_cosine import ArcCosine
from mercer.kernels.base import Kernel
from mercer.kernels.coordinates import AllSubsets, Brownian, Cauchy, Laplacian, Spline
from mercer.kernels.inner_product import Constant, Linear, Polynomial, Sigmoid
from mercer.kernels.input_maps import Composed, GroupAverage, LinearMap, Weighted
from mercer.kernels.laws.answer import (
    Answer,
    covers,
    first,
    is_group,
    no,
    nothing_known,
    one_to_one,
    trivial_group,
    unknown,
    yes,
)
from mercer.kernels.laws.definiteness import positive_definite
from mercer.kernels.periodic import (
    CosineSeries,
    FeatureProducts,
    FourierSeries,
    PeriodicBernoulli,
    PeriodicExponential,
)
from mercer.kernels.radial import Exponential, Gaussian, Matern, RationalQuadratic


def finitely_many_features(kernel: Kernel) -> bool:
    """Whether k(x, y) = ⟨φ(x), φ(y)⟩ with finitely many features; False means: not known.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, Linear, Polynomial
    >>> finitely_many_features(Linear() * Polynomial(3) + 1.0)
    True
    >>> finitely_many_features(Linear().exp())
    False
    """
    match kernel:
        case Sum() | Product():
            return finitely_many_features(kernel.left) and finitely_many_features(kernel.right)
        case Scaled() | Columns() | PolynomialOf() | Normalised() | LinearMap():
            return finitely_many_features(kernel.kernel)
        case Composed() | Weighted() | GroupAverage():
            return finitely_many_features(kernel.kernel)
    return isinstance(
        kernel, (Constant, Linear, Polynomial, AllSubsets, CosineSeries, FourierSeries)
    )


FINITE = "its space has a finite dimension"


@singledispatch
def universal(kernel: Any, dimension: int | None = None) -> Answer:
    """Whether the space is dense in the continuous functions on every compact set.

    Without a dimension: whatever the number of columns, so a kernel that looks at some columns
    only is not universal.

    References
    ----------
    Micchelli, Xu and Zhang, Universal Kernels, 2006.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, Linear, laws
    >>> laws.universal(Gaussian() + Linear()).yes, laws.universal(Gaussian().on(0)).no
    (True, True)
    """
    return first(_finite(kernel), nothing_known(kernel))


def _finite(kernel: Any) -> Answer | None:
    return no(FINITE) if finitely_many_features(kernel) else None


# ---- classes -------------------------------------------------------------------------------------


@universal.register(Gaussian | Exponential | Matern | RationalQuadratic | Laplacian | Cauchy)
def _(kernel: Any, dimension: int | None = None) -> Answer:
    return yes("its spectral density is positive everywhere")


@universal.register(Spline)
def _(kernel: Spline, dimension: int | None = None) -> Answer:
    return yes("for each column its space holds every function with two continuous derivatives")


@universal.register(PeriodicBernoulli | PeriodicExponential)
def _(kernel: Any, dimension: int | None = None) -> Answer:
    return no("its functions repeat with the period; among those that do, they are dense")


@universal.register(FeatureProducts)
def _(kernel: FeatureProducts, dimension: int | None = None) -> Answer:
    return first(_finite(kernel), unknown("it is computed from finitely many frequencies"))


@universal.register(Brownian)
def _(kernel: Brownian, dimension: int | None = None) -> Answer:
    return no("its functions are 0 wherever a column is 0")


@universal.register(ArcCosine)
def _(kernel: ArcCosine, dimension: int | None = None) -> Answer:
    return no(f"its functions are homogeneous, f(tx) = t^{kernel.order} f(x) for t > 0")


@universal.register(Sigmoid)
def _(kernel: Sigmoid, dimension: int | None = None) -> Answer:
    if positive_definite(kernel).yes:
        return no(FINITE)
    return no("it is not positive definite, so it has no space")


# ---- operations ----------------------------------------------------------------------------------


@universal.register(Sum)
def _(kernel: Sum, dimension: int | None = None) -> Answer:
    for side, other in ((kernel.left, kernel.right), (kernel.right, kernel.left)):
        if universal(side, dimension).yes and positive_definite(other, dimension).yes:
            return yes("its space contains that of a universal summand")
    if all(blind(summand, dimension) for summand in flattened(kernel, Sum)):
        return no("no summand sees all columns together, so interactions are missing")
    return first(_finite(kernel), unknown("no summand is known to be universal"))


@universal.register(Product)
def _(kernel: Product, dimension: int | None = None) -> Answer:
    if universal(kernel.left, dimension).yes and universal(kernel.right, dimension).yes:
        return yes("products of functions from two dense spaces are dense")
    if _tensor_product(kernel, dimension):
        return yes("products of functions of each group of columns are dense")
    if blind(kernel, dimension):
        return no("it does not see all columns")
    return first(_finite(kernel), unknown("not both factors are known to be universal"))


def _tensor_product(kernel: Product, dimension: int | None) -> bool:
    """Whether universal kernels on groups of columns see all columns together."""
    factors = flattened(kernel, Product)
    if not all(isinstance(factor, Columns) for factor in factors):
        return False
    dense = (universal(factor.kernel, len(set(factor.columns))).yes for factor in factors)  # type: ignore[attr-defined]
    return covers(seen_columns(kernel) or (), dimension) and all(dense)


@universal.register(Scaled)
def _(kernel: Scaled, dimension: int | None = None) -> Answer:
    return no("it is zero") if kernel.scale == 0 else universal(kernel.kernel, dimension)


@universal.register(Columns)
def _(kernel: Columns, dimension: int | None = None) -> Answer:
    if covers(kernel.columns, dimension):
        return universal(kernel.kernel, len(kernel.columns))
    return no("it cannot tell apart points that differ in the other columns")


@universal.register(Exponentiated)
def _(kernel: Exponentiated, dimension: int | None = None) -> Answer:
    if separates(kernel.kernel, dimension):
        return yes("its space holds all polynomials of functions that separate points")
    if blind(kernel, dimension):
        return no("it does not see all columns")
    return unknown("the functions of k are not known to separate points")


@universal.register(PolynomialOf)
def _(kernel: PolynomialOf, dimension: int | None = None) -> Answer:
    inner = universal(kernel.kernel, dimension)
    if inner.yes and any(kernel.coefficients[1:]):
        return yes("a power of a universal kernel is universal, and so is its sum with others")
    if not any(kernel.coefficients[1:]):
        return no("it is constant")
    return first(_finite(kernel), unknown("k is not known to be universal"))


@universal.register(Normalised)
def _(kernel: Normalised, dimension: int | None = None) -> Answer:
    if universal(kernel.kernel, dimension).yes:
        return yes("k is universal, and dividing by √k(x, x) > 0 keeps a space dense")
    return first(_finite(kernel), unknown("k is not known to be universal"))


@universal.register(LinearMap)
def _(kernel: LinearMap, dimension: int | None = None) -> Answer:
    rows, columns = np.shape(kernel.matrix)
    if not one_to_one(kernel.matrix):
        return no("the linear map sends different points to the same image")
    inner = universal(kernel.kernel, rows)
    if inner.yes or rows == columns:
        return inner
    return first(_finite(kernel), unknown("k is not known to be universal"))


@universal.register(GroupAverage)
def _(kernel: GroupAverage, dimension: int | None = None) -> Answer:
    if trivial_group(kernel.group):
        return universal(kernel.kernel, dimension)
    if is_group(kernel.group):
        return no("its functions take the same value at x and gx")
    return first(_finite(kernel), unknown("the list of matrices is not a group"))


# ---- what the rules rest on ----------------------------------------------------------------------


def flattened(kernel: Kernel, operation: type) -> list[Kernel]:
    """The parts of a nested sum or product; nonnegative multiples are looked through."""
    while isinstance(kernel, Scaled) and kernel.scale > 0:
        kernel = kernel.kernel
    if not isinstance(kernel, operation):
        return [kernel]
    return flattened(kernel.left, operation) + flattened(kernel.right, operation)  # type: ignore[attr-defined]


def seen_columns(kernel: Kernel) -> set[Any] | None:
    """The columns that a kernel looks at; None for all of them, or where it is not known."""
    match kernel:
        case Columns():
            return set(kernel.columns)
        case Constant():
            return set()
        case Sum() | Product():
            left, right = seen_columns(kernel.left), seen_columns(kernel.right)
            return None if left is None or right is None else left | right
        case Scaled() | Exponentiated() | PolynomialOf() | Normalised():
            return seen_columns(kernel.kernel)
    return None


def blind(kernel: Kernel, dimension: int | None) -> bool:
    """Whether some column is not looked at."""
    seen = seen_columns(kernel)
    return seen is not None and not covers(seen, dimension)


def separates(kernel: Kernel, dimension: int | None) -> bool:
    """Whether the functions of k tell any two points apart; False means: not known."""
    match kernel:
        case Linear() | AllSubsets():
            return True
        case Polynomial():
            return kernel.bias > 0 or kernel.degree % 2 == 1
        case Scaled():
            return kernel.scale > 0 and separates(kernel.kernel, dimension)
    return universal(kernel, dimension).yes
