"""What leaves a kernel unchanged: shifts, and all rigid motions."""

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
from mercer.kernels.inner_product import Constant, Linear, Polynomial, Sigmoid
from mercer.kernels.input_maps import GroupAverage, LinearMap
from mercer.kernels.laws.answer import (
    Answer,
    covers,
    distinct,
    first,
    is_group,
    no,
    nothing_known,
    onto,
    state,
    trivial_group,
    unknown,
    yes,
    yes_alone,
)
from mercer.kernels.laws.boundedness import bounded
from mercer.kernels.laws.positivity import fades, positive_valued
from mercer.kernels.periodic import (
    CosineSeries,
    FourierSeries,
    PeriodicBernoulli,
    PeriodicExponential,
)
from mercer.kernels.radial import Radial
from mercer.kernels.spectral import Spectral

# ---- stationary: k(x + h, y + h) = k(x, y) -------------------------------------------------------


@singledispatch
def stationary(kernel: Any, dimension: int | None = None) -> Answer:
    """Whether k(x + h, y + h) = k(x, y) for every shift h: k is a function of x − y.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, Linear, laws
    >>> laws.stationary(Gaussian().on(0) + 1.0).yes
    True
    >>> laws.stationary(Gaussian() * Linear()).no
    True
    """
    return nothing_known(kernel)


state(
    stationary,
    {
        Radial: yes("it is a function of the scaled distance of x and y"),
        Laplacian | Cauchy: yes("it is a function of the differences x_k − y_k"),
        PeriodicBernoulli | PeriodicExponential | CosineSeries | FourierSeries: yes(
            "it is a periodic function of the differences x_k − y_k"
        ),
        Spectral: yes("it is a sum of cosines of the differences x_k − y_k"),
        Constant: yes("it is constant"),
    },
)


@stationary.register(Sigmoid)
def _(kernel: Sigmoid, dimension: int | None = None) -> Answer:
    if kernel.scale == 0:
        return yes("with scale 0 it is constant")
    return no("k(x, x) = tanh(a‖x‖² + b) changes with x")


state(
    stationary,
    {
        Linear | Polynomial | AllSubsets | Brownian | Spline: no(
            "k(x, x) grows without bound, and that of a stationary kernel is constant"
        ),
        ArcCosine: no("it depends on the angle between x and y, which a shift changes"),
        ChiSquared: no("(x − y)²/(x + y) shrinks when both are shifted away from 0"),
    },
)


@stationary.register(Sum)
def _(kernel: Sum, dimension: int | None = None) -> Answer:
    return _sum_unchanged(stationary, kernel, dimension, "stationary")


@stationary.register(Product)
def _(kernel: Product, dimension: int | None = None) -> Answer:
    return _product_unchanged(stationary, kernel, dimension, "stationary")


@stationary.register(Scaled)
def _(kernel: Scaled, dimension: int | None = None) -> Answer:
    return yes("it is zero") if kernel.scale == 0 else stationary(kernel.kernel, dimension)


@stationary.register(Columns)
def _(kernel: Columns, dimension: int | None = None) -> Answer:
    inner = stationary(kernel.kernel, len(kernel.columns))
    if distinct(kernel.columns):
        return inner
    return yes_alone(inner, "a column is listed twice, so not every shift is made")


@stationary.register(LinearMap)
def _(kernel: LinearMap, dimension: int | None = None) -> Answer:
    inner = stationary(kernel.kernel, np.shape(kernel.matrix)[0])
    if onto(kernel.matrix):
        return inner
    return yes_alone(inner, "the linear map does not reach every shift")


@stationary.register(Exponentiated)
def _(kernel: Exponentiated, dimension: int | None = None) -> Answer:
    return stationary(kernel.kernel, dimension)


@stationary.register(PolynomialOf)
def _(kernel: PolynomialOf, dimension: int | None = None) -> Answer:
    return _polynomial_unchanged(stationary, kernel, dimension)


@stationary.register(Normalised)
def _(kernel: Normalised, dimension: int | None = None) -> Answer:
    inner = stationary(kernel.kernel, dimension)
    return yes_alone(inner, "normalising can remove what a shift changes")


@stationary.register(GroupAverage)
def _(kernel: GroupAverage, dimension: int | None = None) -> Answer:
    inner = stationary(kernel.kernel, len(kernel.group[0]))
    if trivial_group(kernel.group):
        return inner
    if is_group(kernel.group) and fades(kernel.kernel):
        return no("k(x, x) is larger where the group leaves x in place than far away")
    return unknown("the group moves x and y apart")


# ---- isotropic: k(Qx + h, Qy + h) = k(x, y) ------------------------------------------------------


@singledispatch
def isotropic(kernel: Any, dimension: int | None = None) -> Answer:
    """Whether k is a function of the distance ‖x − y‖ alone: no rigid motion changes it.

    In one column that is the same as stationary. Without a dimension: in every dimension that the
    kernel accepts.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, Laplacian, laws
    >>> laws.isotropic(Gaussian()).yes, laws.isotropic(Gaussian([1.0, 2.0])).no
    (True, True)
    >>> laws.isotropic(Laplacian(), dimension=1).yes, laws.isotropic(Laplacian(), dimension=2).no
    (True, True)
    """
    return first(_by_shifts(kernel, dimension), nothing_known(kernel))


def _by_shifts(kernel: Any, dimension: int | None) -> Answer | None:
    """What shifts alone decide: those that are not stationary, and one column."""
    shifts = stationary(kernel, dimension)
    if shifts.no:
        return no(f"it is not stationary: {shifts.because}")
    if dimension == 1 and shifts.yes:
        return yes("in one column a stationary kernel is a function of |x − y|")
    return None


@isotropic.register(Radial)
def _(kernel: Radial, dimension: int | None = None) -> Answer:
    scales = np.atleast_1d(kernel._lengthscale)
    if len(set(scales.tolist())) == 1:
        return yes("it is a function of ‖x − y‖")
    return no("its lengthscales differ between columns")


@isotropic.register(Laplacian | Cauchy)
def _(kernel: Any, dimension: int | None = None) -> Answer:
    if np.size(kernel.lengthscale) == 1 and (dimension == 1 or np.ndim(kernel.lengthscale)):
        return yes("in one column it is a function of |x − y|")
    return no("beyond one column its level sets are not spheres")


@isotropic.register(PeriodicBernoulli | PeriodicExponential)
def _(kernel: Any, dimension: int | None = None) -> Answer:
    return first(
        _by_shifts(kernel, dimension), no("beyond one column it repeats along the axes only")
    )


@isotropic.register(CosineSeries | FourierSeries)
def _(kernel: Any, dimension: int | None = None) -> Answer:
    terms = kernel.coefficients if isinstance(kernel, CosineSeries) else kernel.weights
    if not any(terms[1:]):
        return yes("it is constant")
    return first(
        _by_shifts(kernel, dimension), no("beyond one column it repeats along the axes only")
    )


state(
    isotropic,
    {
        Constant: yes("it is constant"),
    },
)


@isotropic.register(Sum)
def _(kernel: Sum, dimension: int | None = None) -> Answer:
    decided = _by_shifts(kernel, dimension)
    return first(decided, _sum_unchanged(isotropic, kernel, dimension, "isotropic"))


@isotropic.register(Product)
def _(kernel: Product, dimension: int | None = None) -> Answer:
    decided = _by_shifts(kernel, dimension)
    return first(decided, _product_unchanged(isotropic, kernel, dimension, "isotropic"))


@isotropic.register(Scaled)
def _(kernel: Scaled, dimension: int | None = None) -> Answer:
    return yes("it is zero") if kernel.scale == 0 else isotropic(kernel.kernel, dimension)


@isotropic.register(Columns)
def _(kernel: Columns, dimension: int | None = None) -> Answer:
    inner = isotropic(kernel.kernel, len(kernel.columns))
    if covers(kernel.columns, dimension) and distinct(kernel.columns):
        return inner
    if fades(kernel.kernel):
        return no("a rotation moves what it looks at into columns that it does not look at")
    return first(_by_shifts(kernel, dimension), unknown("it looks at some columns only"))


@isotropic.register(LinearMap)
def _(kernel: LinearMap, dimension: int | None = None) -> Answer:
    matrix = np.asarray(kernel.matrix, np.float64)
    inner = isotropic(kernel.kernel, len(matrix))
    if inner.yes and _multiple_of_identity(matrix.T @ matrix):
        return yes("the linear map is a multiple of an isometry")
    if inner.yes and fades(kernel.kernel):
        return no("the linear map stretches some directions more than others")
    return first(_by_shifts(kernel, dimension), unknown("the linear map changes distances"))


def _multiple_of_identity(matrix: np.ndarray) -> bool:
    size = matrix[0, 0]
    return bool((np.abs(matrix - size * np.eye(len(matrix))) <= 1e-12 * size).all())


@isotropic.register(Exponentiated)
def _(kernel: Exponentiated, dimension: int | None = None) -> Answer:
    return isotropic(kernel.kernel, dimension)


@isotropic.register(PolynomialOf)
def _(kernel: PolynomialOf, dimension: int | None = None) -> Answer:
    return _polynomial_unchanged(isotropic, kernel, dimension)


@isotropic.register(Normalised)
def _(kernel: Normalised, dimension: int | None = None) -> Answer:
    inner = isotropic(kernel.kernel, dimension)
    if stationary(kernel.kernel, dimension).yes:
        return inner
    return yes_alone(inner, "normalising can remove what a motion changes")


# ---- what both share -----------------------------------------------------------------------------


def _sum_unchanged(law: Any, kernel: Sum, dimension: int | None, name: str) -> Answer:
    left, right = law(kernel.left, dimension), law(kernel.right, dimension)
    if left.yes and right.yes:
        return yes(f"both summands are {name}")
    for side, other in ((left, right), (right, left)):
        if side.yes and other.no:
            return no(f"one summand is {name}, the other is not: {other.because}")
    if bounded(kernel, dimension).no:
        return no("k(x, x) grows without bound, and that of a stationary kernel is constant")
    return unknown(f"the summands are not known to be {name}; what they change could cancel")


def _product_unchanged(law: Any, kernel: Product, dimension: int | None, name: str) -> Answer:
    left, right = law(kernel.left, dimension), law(kernel.right, dimension)
    if left.yes and right.yes:
        return yes(f"both factors are {name}")
    for side, other, kept in ((left, right, kernel.left), (right, left, kernel.right)):
        if side.yes and other.no and positive_valued(kept):
            return no(f"one factor is {name} and never 0, the other is not: {other.because}")
    if bounded(kernel, dimension).no:
        return no("k(x, x) grows without bound, and that of a stationary kernel is constant")
    return unknown(f"the factors are not known to be {name}; what they change could cancel")


def _polynomial_unchanged(law: Any, kernel: PolynomialOf, dimension: int | None) -> Answer:
    if not any(kernel.coefficients[1:]):
        return yes("it is constant")
    inner = law(kernel.kernel, dimension)
    if inner.yes or (inner.no and positive_valued(kernel.kernel)):
        return inner
    if bounded(kernel, dimension).no:
        return no("k(x, x) grows without bound, and that of a stationary kernel is constant")
    return unknown("an even power can hide the sign that changes")
