"""Boundedness of k(x, x), and by what."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

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
from mercer.kernels.coordinates import AllSubsets, Brownian, Cauchy, ChiSquared, Laplacian, Spline
from mercer.kernels.inner_product import Constant, Linear, Polynomial, Sigmoid
from mercer.kernels.input_maps import Composed, GroupAverage, LinearMap
from mercer.kernels.laws.answer import Answer, no, nothing_known, unknown, yes, yes_alone
from mercer.kernels.laws.definiteness import positive_definite
from mercer.kernels.laws.positivity import level_diagonal
from mercer.kernels.periodic import (
    CosineSeries,
    FourierSeries,
    PeriodicBernoulli,
    PeriodicExponential,
)
from mercer.kernels.radial import Exponential, Gaussian, Matern, Radial, RationalQuadratic
from mercer.kernels.spectral import Spectral


@singledispatch
def bounded(kernel: Any, dimension: int | None = None) -> Answer:
    """Whether k(x, x) ≤ R² for all x; the payload is R².

    R² is the supremum of k(x, x), or where the operations do not tell it (sums and products of
    diagonals that vary, k∘φ) a bound of it. It is None where it depends on the number of columns
    and no `dimension` was given. A no says more: k(tu, tu) → ∞ as t → ∞, for every direction u
    without zero or negative entries.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, Linear, laws
    >>> laws.bounded((2.0 * Gaussian() + 1.0) * Gaussian()).payload
    3.0
    >>> laws.bounded(Gaussian() * Linear()).no
    True
    """
    return nothing_known(kernel)


# ---- classes -------------------------------------------------------------------------------------


@bounded.register(Gaussian | Exponential | Matern | RationalQuadratic | Laplacian | Cauchy)
def _(kernel: Any, dimension: int | None = None) -> Answer:
    return yes("k(x, x) = 1", 1.0)


@bounded.register(Radial)
def _(kernel: Radial, dimension: int | None = None) -> Answer:
    origin = kernel.points(np.zeros((1, np.size(kernel._lengthscale))))
    return yes("k(x, x) is its value at distance 0", float(kernel.diagonal(origin)[0]))


@bounded.register(PeriodicBernoulli)
def _(kernel: PeriodicBernoulli, dimension: int | None = None) -> Answer:
    return _power(1.0 + 2.0 * float(scipy.special.zeta(2 * int(kernel.order))), dimension)


@bounded.register(PeriodicExponential)
def _(kernel: PeriodicExponential, dimension: int | None = None) -> Answer:
    rate = math.pi / kernel.alpha
    return _power(rate / math.tanh(rate), dimension)


@bounded.register(CosineSeries)
def _(kernel: CosineSeries, dimension: int | None = None) -> Answer:
    return _power(float(np.sum(kernel.coefficients)), dimension)


@bounded.register(FourierSeries)
def _(kernel: FourierSeries, dimension: int | None = None) -> Answer:
    inverse = 1.0 / np.asarray(kernel.weights, np.float64)
    return _power(float(2.0 * inverse.sum() - inverse[0]), dimension)


@bounded.register(Spectral)
def _(kernel: Spectral, dimension: int | None = None) -> Answer:
    return _power(float(kernel._weights().sum()), dimension)


def _power(factor: float, dimension: int | None) -> Answer:
    """R² of a product over columns with the same factor for each."""
    if dimension is None:
        return yes(f"k(x, x) = {factor:.6g}^d for d columns; write bounded(kernel, dimension=d)")
    return yes("k(x, x) is the same for all x, a factor for each column", factor**dimension)


@bounded.register(Constant)
def _(kernel: Constant, dimension: int | None = None) -> Answer:
    return yes("it is constant", float(kernel.value))


@bounded.register(ChiSquared)
def _(kernel: ChiSquared, dimension: int | None = None) -> Answer:
    return yes("k(x, x) = 1", 1.0)


@bounded.register(Sigmoid)
def _(kernel: Sigmoid, dimension: int | None = None) -> Answer:
    if kernel.scale > 0:
        return yes("tanh tends to 1", 1.0)
    return yes("k(x, x) is largest at 0", math.tanh(kernel.bias))


@bounded.register(Linear | Polynomial | AllSubsets | Brownian | Spline)
def _(kernel: Any, dimension: int | None = None) -> Answer:
    return no("k(x, x) grows like a polynomial of x")


@bounded.register(ArcCosine)
def _(kernel: ArcCosine, dimension: int | None = None) -> Answer:
    if kernel.order == 0:
        return yes("k(x, x) = 1", 1.0)
    return no(f"k(x, x) is a multiple of ‖x‖^{2 * kernel.order}")


# ---- operations ----------------------------------------------------------------------------------


@bounded.register(Sum)
def _(kernel: Sum, dimension: int | None = None) -> Answer:
    left, right = bounded(kernel.left, dimension), bounded(kernel.right, dimension)
    if left.yes and right.yes:
        return yes("both summands are bounded", _combined(left, right, lambda a, b: a + b))
    for side, other in ((left, kernel.right), (right, kernel.left)):
        if side.no and (bounded(other).no or positive_definite(other, dimension).yes):
            return no(f"one summand is unbounded and the other is not negative: {side.because}")
    return unknown("a summand is not known to be bounded")


@bounded.register(Product)
def _(kernel: Product, dimension: int | None = None) -> Answer:
    left, right = bounded(kernel.left, dimension), bounded(kernel.right, dimension)
    if left.no and right.no:
        return no("both factors are unbounded, in the same directions")
    for side, other in ((left, kernel.right), (right, kernel.left)):
        if side.no and level_diagonal(other):
            return no(
                f"one factor is unbounded, the diagonal of the other constant: {side.because}"
            )
    if left.yes and right.yes and positive_definite(kernel, dimension).yes:
        return yes("both factors are bounded", _combined(left, right, lambda a, b: a * b))
    return unknown("a factor is not known to be bounded")


def _combined(left: Answer, right: Answer, operation: Any) -> float | None:
    if left.payload is None or right.payload is None:
        return None
    return float(operation(left.payload, right.payload))


@bounded.register(Scaled)
def _(kernel: Scaled, dimension: int | None = None) -> Answer:
    if kernel.scale == 0:
        return yes("it is zero", 0.0)
    return _through(bounded(kernel.kernel, dimension), lambda value: kernel.scale * value)


@bounded.register(Columns)
def _(kernel: Columns, dimension: int | None = None) -> Answer:
    return bounded(kernel.kernel, len(kernel.columns))


@bounded.register(Exponentiated)
def _(kernel: Exponentiated, dimension: int | None = None) -> Answer:
    return _through(bounded(kernel.kernel, dimension), _exponential)


def _exponential(value: float) -> float:
    return math.exp(value) if value < 709.0 else math.inf


@bounded.register(PolynomialOf)
def _(kernel: PolynomialOf, dimension: int | None = None) -> Answer:
    if not any(kernel.coefficients[1:]):
        return yes("it is constant", float(kernel.coefficients[0]))
    inner = bounded(kernel.kernel, dimension)
    if inner.no or positive_definite(kernel.kernel, dimension).yes:
        return _through(inner, kernel._polynomial)
    return unknown("k(x, x) is not known to be nonnegative")


@bounded.register(Normalised)
def _(kernel: Normalised, dimension: int | None = None) -> Answer:
    return yes("its features have length 1, or 0 where k(x, x) = 0", 1.0)


@bounded.register(LinearMap)
def _(kernel: LinearMap, dimension: int | None = None) -> Answer:
    inner = bounded(kernel.kernel, np.shape(kernel.matrix)[0])
    matrix = np.asarray(kernel.matrix)
    if inner.yes or ((matrix >= 0).all() and matrix.any(axis=1).all()):
        return inner
    return unknown("the linear map may avoid the directions in which k(x, x) grows")


@bounded.register(Composed)
def _(kernel: Composed, dimension: int | None = None) -> Answer:
    return yes_alone(bounded(kernel.kernel), "k may be bounded on the images of φ")


@bounded.register(GroupAverage)
def _(kernel: GroupAverage, dimension: int | None = None) -> Answer:
    inner = bounded(kernel.kernel, len(kernel.group[0]))
    if positive_definite(kernel.kernel, len(kernel.group[0])).yes:
        return yes_alone(inner, "the average of unbounded values may be bounded")
    return unknown("k is not known to be positive definite")


def _through(inner: Answer, function: Any) -> Answer:
    """A bound sent through an increasing function."""
    if not inner.yes or inner.payload is None:
        return inner
    return yes(inner.because, float(function(inner.payload)))
