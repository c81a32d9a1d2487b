"""Sobolev spaces among the spaces of kernels."""

from __future__ import annotations

import math
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
from mercer.kernels.coordinates import AllSubsets, Brownian, Cauchy, Laplacian, Spline
from mercer.kernels.inner_product import Constant, Linear, Polynomial, Sigmoid
from mercer.kernels.input_maps import GroupAverage, LinearMap
from mercer.kernels.laws.answer import (
    Answer,
    covers,
    no,
    nothing_known,
    one_to_one,
    unknown,
    yes,
)
from mercer.kernels.laws.definiteness import positive_definite
from mercer.kernels.laws.invariance import stationary
from mercer.kernels.periodic import FeatureProducts, PeriodicBernoulli, PeriodicExponential
from mercer.kernels.radial import Exponential, Gaussian, Matern, RationalQuadratic

SMOOTH = "its functions have derivatives of every order"


@singledispatch
def sobolev_order(kernel: Any, dimension: int) -> Answer:
    """Whether the space is, on bounded sets, a Sobolev space; the payload is its order s.

    Then the norm is equivalent to (Σ_{|a| ≤ s} ∫|∂^a f|²)^{1/2} (for fractional s by Fourier), and
    the eigenvalues of a Gram matrix over n fall like i^{−2s/d}. The order is infinite where every
    function has derivatives of every order. Periodic kernels mean functions on the torus.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, Linear, Matern, laws
    >>> laws.sobolev_order(Matern(1.5) + Linear(), dimension=3).payload  # ν + d/2
    3.0
    >>> laws.sobolev_order(Gaussian(), dimension=3).payload
    inf
    """
    return nothing_known(kernel)


# ---- classes -------------------------------------------------------------------------------------


@sobolev_order.register(Matern)
def _(kernel: Matern, dimension: int) -> Answer:
    order = kernel.smoothness + dimension / 2
    return yes("its spectral density falls like ‖ω‖^{−2s}, s = ν + d/2", float(order))


@sobolev_order.register(Exponential)
def _(kernel: Exponential, dimension: int) -> Answer:
    return yes("it is the Matérn kernel of smoothness ½: s = (d + 1)/2", (dimension + 1) / 2)


@sobolev_order.register(Gaussian | RationalQuadratic | Cauchy | FeatureProducts)
def _(kernel: Any, dimension: int) -> Answer:
    return yes(f"its spectral measure has all moments: {SMOOTH}", math.inf)


@sobolev_order.register(Constant | Linear | Polynomial | AllSubsets)
def _(kernel: Any, dimension: int) -> Answer:
    return yes("its functions are polynomials", math.inf)


@sobolev_order.register(Laplacian | PeriodicExponential | Brownian)
def _(kernel: Any, dimension: int) -> Answer:
    return _for_each_column(1, dimension)


@sobolev_order.register(Spline)
def _(kernel: Spline, dimension: int) -> Answer:
    return _for_each_column(2, dimension)


@sobolev_order.register(PeriodicBernoulli)
def _(kernel: PeriodicBernoulli, dimension: int) -> Answer:
    return _for_each_column(int(kernel.order), dimension)


def _for_each_column(order: int, dimension: int) -> Answer:
    if dimension == 1:
        return yes(f"its norm is made of derivatives up to order {order}", float(order))
    return no(f"it has mixed smoothness: order {order} in each column, which no Sobolev space has")


@sobolev_order.register(Sigmoid)
def _(kernel: Sigmoid, dimension: int) -> Answer:
    if positive_definite(kernel, dimension).yes:
        return yes("its functions are constant", math.inf)
    return no("it is not positive definite, so it has no space")


# ---- operations ----------------------------------------------------------------------------------


@sobolev_order.register(Sum)
def _(kernel: Sum, dimension: int) -> Answer:
    left, right = (sobolev_order(side, dimension) for side in (kernel.left, kernel.right))
    if left.yes and right.yes:
        return yes("the rougher summand decides", min(left.payload, right.payload))
    return unknown("a summand has no known order")


@sobolev_order.register(Product)
def _(kernel: Product, dimension: int) -> Answer:
    left, right = (sobolev_order(side, dimension) for side in (kernel.left, kernel.right))
    if not (left.yes and right.yes):
        return unknown("a factor has no known order")
    order = min(left.payload, right.payload)
    if math.isinf(order):
        return yes(SMOOTH, order)
    if stationary(kernel, dimension).yes:
        return yes("spectral densities are convolved, and the slower decay decides", order)
    return unknown("the factor that is not stationary may vanish somewhere")


@sobolev_order.register(Scaled)
def _(kernel: Scaled, dimension: int) -> Answer:
    if kernel.scale == 0:
        return yes("its only function is zero", math.inf)
    return sobolev_order(kernel.kernel, dimension)


@sobolev_order.register(Columns)
def _(kernel: Columns, dimension: int) -> Answer:
    inner = sobolev_order(kernel.kernel, len(kernel.columns))
    if inner.yes and math.isinf(inner.payload):
        return inner
    if covers(kernel.columns, dimension) and len(kernel.columns) == dimension:
        return inner
    if inner.yes and not covers(kernel.columns, dimension):
        return no("its functions are rough along some columns and constant along the others")
    return unknown("it looks at some columns only")


@sobolev_order.register(Exponentiated | PolynomialOf)
def _(kernel: Exponentiated | PolynomialOf, dimension: int) -> Answer:
    inner = sobolev_order(kernel.kernel, dimension)
    if isinstance(kernel, PolynomialOf) and not any(kernel.coefficients[1:]):
        return yes("its functions are constant", math.inf)
    if not inner.yes:
        return unknown("k has no known order")
    if math.isinf(inner.payload) or stationary(kernel.kernel, dimension).yes:
        return yes("powers of k are as smooth as k", inner.payload)
    return unknown("k is not known to be stationary")


@sobolev_order.register(Normalised)
def _(kernel: Normalised, dimension: int) -> Answer:
    if stationary(kernel.kernel, dimension).yes:
        return sobolev_order(kernel.kernel, dimension)
    return unknown("√k(x, x) may be rough, or zero")


@sobolev_order.register(LinearMap)
def _(kernel: LinearMap, dimension: int) -> Answer:
    rows, columns = np.shape(kernel.matrix)
    inner = sobolev_order(kernel.kernel, rows)
    if not inner.yes or math.isinf(inner.payload):
        return inner
    if not one_to_one(kernel.matrix):
        return no("its functions are rough in some directions and constant along the others")
    lost = (rows - columns) / 2
    reason = "a restriction to a subspace loses half an order for each dimension" if lost else ""
    return yes(reason or "an invertible linear map keeps the order", inner.payload - lost)


@sobolev_order.register(GroupAverage)
def _(kernel: GroupAverage, dimension: int) -> Answer:
    inner = sobolev_order(kernel.kernel, len(kernel.group[0]))
    if inner.yes and math.isinf(inner.payload):
        return inner
    return unknown("its functions are those that the group leaves in place")
