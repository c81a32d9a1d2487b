"""Positive definiteness, one rule for each class and each operation."""

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
from mercer.kernels.coordinates import AllSubsets, Brownian, Cauchy, ChiSquared, Laplacian, Spline
from mercer.kernels.custom import Precomputed
from mercer.kernels.inner_product import Constant, Linear, Polynomial, Sigmoid
from mercer.kernels.input_maps import Composed, GroupAverage, LinearMap, Weighted
from mercer.kernels.laws.answer import (
    Answer,
    distinct,
    no,
    nothing_known,
    onto,
    state,
    unknown,
    yes,
    yes_alone,
)
from mercer.kernels.periodic import FeatureProducts, PeriodicBernoulli, PeriodicExponential
from mercer.kernels.radial import Exponential, Gaussian, Matern, RationalQuadratic


@singledispatch
def positive_definite(kernel: Any, dimension: int | None = None) -> Answer:
    """Whether Σ_ij v_i v_j k(x_i, x_j) ≥ 0 for all points with `dimension` columns.

    Without a dimension: in every dimension that the kernel accepts. `kernel.check(X)` tests it on
    points where the answer is unknown.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, Sigmoid, laws
    >>> laws.positive_definite(Gaussian() * Gaussian(2.0)).yes
    True
    >>> laws.positive_definite(Sigmoid()).no
    True
    """
    return nothing_known(kernel)


# ---- classes -------------------------------------------------------------------------------------


state(
    positive_definite,
    {
        Gaussian | Exponential | Matern: yes(
            "its spectral density is positive in every dimension (Bochner)"
        ),
        RationalQuadratic: yes("it is a mixture of Gaussian kernels"),
        Laplacian | Cauchy: yes(
            "it is a product of kernels with a positive spectral density, one for each column"
        ),
        PeriodicBernoulli | PeriodicExponential: yes("its Fourier weights are positive"),
        FeatureProducts: yes("it is a product over columns of inner products of features"),
        Constant | Linear | Polynomial | AllSubsets: yes(
            "it is the inner product of finitely many monomials"
        ),
        ArcCosine: yes("it is the mean of products Θ(⟨w,x⟩)Θ(⟨w,y⟩) over random w"),
        ChiSquared: yes(
            "4xy/(x+y) is positive definite on x ≥ 0, and (x−y)²/(x+y) = x + y − 4xy/(x+y)"
        ),
        Brownian: yes("min(x, y) is the inner product of the indicators of [0, x] and [0, y]"),
        Spline: yes("each factor is 1 + xy + ∫(x−u)₊(y−u)₊du, an inner product"),
    },
)


@positive_definite.register(Sigmoid)
def _(kernel: Sigmoid, dimension: int | None = None) -> Answer:
    if kernel.scale == 0 and kernel.bias >= 0:
        return yes("with scale 0 it is a nonnegative constant")
    if kernel.scale == 0 or kernel.bias < 0:
        return no("k(0, 0) = tanh(bias) is negative")
    return no("tanh(a·t + b) has a negative Taylor coefficient in t, and f(⟨x,y⟩) may have none")


state(
    positive_definite,
    {
        Precomputed: unknown(
            "its matrix was given: kernel.check(range(n)) looks at the eigenvalues"
        ),
    },
)


# ---- operations ----------------------------------------------------------------------------------


@positive_definite.register(Sum | Product)
def _(kernel: Sum | Product, dimension: int | None = None) -> Answer:
    sides = [positive_definite(side, dimension) for side in (kernel.left, kernel.right)]
    name = "sum" if isinstance(kernel, Sum) else "product"
    if all(side.yes for side in sides):
        return yes(f"a {name} of positive definite kernels is one")
    weak = next(side for side in sides if not side.yes)
    return unknown(f"one side of the {name} is not known to be positive definite: {weak.because}")


@positive_definite.register(Scaled)
def _(kernel: Scaled, dimension: int | None = None) -> Answer:
    if kernel.scale == 0:
        return yes("it is zero")
    return positive_definite(kernel.kernel, dimension)


@positive_definite.register(Columns)
def _(kernel: Columns, dimension: int | None = None) -> Answer:
    inner = positive_definite(kernel.kernel, len(kernel.columns))
    if distinct(kernel.columns):
        return inner
    return yes_alone(inner, "a column is listed twice, so not every vector is reached")


@positive_definite.register(LinearMap)
def _(kernel: LinearMap, dimension: int | None = None) -> Answer:
    inner = positive_definite(kernel.kernel, np.shape(kernel.matrix)[0])
    if onto(kernel.matrix):
        return inner
    return yes_alone(inner, "the linear map does not reach every vector")


@positive_definite.register(Exponentiated)
def _(kernel: Exponentiated, dimension: int | None = None) -> Answer:
    if positive_definite(kernel.kernel, dimension).yes:
        return yes("exp(k) = Σ kⁿ/n! is a sum of products of positive definite kernels")
    return unknown("exp(k) can be positive definite where k is not known to be")


@positive_definite.register(PolynomialOf)
def _(kernel: PolynomialOf, dimension: int | None = None) -> Answer:
    if not any(kernel.coefficients[1:]):
        return yes("it is a nonnegative constant")
    if positive_definite(kernel.kernel, dimension).yes:
        return yes("nonnegative multiples, sums and products of positive definite kernels are ones")
    return unknown("a polynomial of k can be positive definite where k is not known to be")


@positive_definite.register(Normalised | Weighted)
def _(kernel: Normalised | Weighted, dimension: int | None = None) -> Answer:
    if positive_definite(kernel.kernel, dimension).yes:
        return yes("g(x)k(x,y)g(y) is positive definite where k is")
    return unknown("k is not known to be positive definite")


@positive_definite.register(Composed)
def _(kernel: Composed, dimension: int | None = None) -> Answer:
    if positive_definite(kernel.kernel).yes:
        return yes("k(φ(x), φ(y)) is positive definite where k is")
    return unknown("k is not known to be positive definite on the images")


@positive_definite.register(GroupAverage)
def _(kernel: GroupAverage, dimension: int | None = None) -> Answer:
    if positive_definite(kernel.kernel, len(kernel.group[0])).yes:
        return yes("it is the inner product of features averaged over the group")
    return unknown("k is not known to be positive definite")
