"""Spectral measures of stationary kernels, and whether they have a density."""

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
from mercer.kernels.coordinates import Cauchy, Laplacian
from mercer.kernels.inner_product import Constant
from mercer.kernels.input_maps import LinearMap
from mercer.kernels.laws import measures
from mercer.kernels.laws.answer import (
    Answer,
    covers,
    distinct,
    no,
    nothing_known,
    one_to_one,
    rank,
    unknown,
    yes,
)
from mercer.kernels.laws.invariance import stationary
from mercer.kernels.laws.positivity import lengthscales
from mercer.kernels.laws.richness import flattened
from mercer.kernels.periodic import (
    CosineSeries,
    FourierSeries,
    PeriodicBernoulli,
    PeriodicExponential,
)
from mercer.kernels.radial import Exponential, Gaussian, Matern, RationalQuadratic
from mercer.kernels.spectral import Spectral


@singledispatch
def spectral_density(kernel: Any, dimension: int) -> Answer:
    """Whether k(x − y) = ∫ p(ω) cos(ω·(x − y)) dω for a density p ≥ 0, so that ∫p = k(0).

    The payload is the `SpectralMeasure`: `density(frequencies)`, `sample(size, random_state)`,
    `total` = k(0). A measure without a density, such as that of a constant, is handed out too where
    it can be sampled; the answer then is no.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian, Matern, laws
    >>> k = 2.0 * Gaussian(0.5) + Matern(1.5)
    >>> measure = laws.spectral_density(k, dimension=2).payload
    >>> frequencies = measure.sample(100_000, random_state=0)
    >>> h = np.array([0.3, -0.2])
    >>> estimate = measure.total * np.cos(frequencies @ h).mean()
    >>> bool(abs(estimate - k(h, np.zeros(2))) < 0.03)
    True
    """
    shifts = stationary(kernel, dimension)
    if shifts.no:
        return no(f"it is not stationary: {shifts.because}")
    return nothing_known(kernel)


# ---- classes -------------------------------------------------------------------------------------


@spectral_density.register(Gaussian)
def _(kernel: Gaussian, dimension: int) -> Answer:
    scales = lengthscales(kernel, dimension)
    return yes("its frequencies are normal", measures.Normal(dimension, 1.0, scales))


@spectral_density.register(Exponential)
def _(kernel: Exponential, dimension: int) -> Answer:
    return _student(0.5, lengthscales(kernel, dimension), dimension)


@spectral_density.register(Matern)
def _(kernel: Matern, dimension: int) -> Answer:
    return _student(float(kernel.smoothness), lengthscales(kernel, dimension), dimension)


def _student(smoothness: float, scales: np.ndarray, dimension: int) -> Answer:
    measure = measures.Student(dimension, 1.0, scales, smoothness)
    return yes(f"its frequencies follow Student's t with {2 * smoothness:g} degrees", measure)


@spectral_density.register(RationalQuadratic)
def _(kernel: RationalQuadratic, dimension: int) -> Answer:
    scales = lengthscales(kernel, dimension)
    measure = measures.GammaMixture(dimension, 1.0, scales, float(kernel.mixture))
    return yes("its frequencies are normal with a Gamma distributed variance", measure)


@spectral_density.register(Laplacian)
def _(kernel: Laplacian, dimension: int) -> Answer:
    measure = measures.CauchyFrequencies(dimension, 1.0, lengthscales(kernel, dimension))
    return yes("its frequencies are independent Cauchy variables", measure)


@spectral_density.register(Cauchy)
def _(kernel: Cauchy, dimension: int) -> Answer:
    measure = measures.LaplaceFrequencies(dimension, 1.0, lengthscales(kernel, dimension))
    return yes("its frequencies are independent Laplace variables", measure)


@spectral_density.register(Spectral)
def _(kernel: Spectral, dimension: int) -> Answer:
    total = float(kernel._weights().sum()) ** dimension
    table = kernel._frequencies()
    measure = measures.Tabulated(dimension, total, kernel.density, table, kernel.sampler)
    return yes("it is given by its density, up to the limit", measure)


@spectral_density.register(Constant)
def _(kernel: Constant, dimension: int) -> Answer:
    if kernel.value == 0:
        return no("it is zero")
    measure = measures.Zero(dimension, float(kernel.value))
    return no("all its mass is at frequency 0", measure)


@spectral_density.register(PeriodicBernoulli | PeriodicExponential | CosineSeries | FourierSeries)
def _(kernel: Any, dimension: int) -> Answer:
    return no("its frequencies are multiples of one: see fourier_weights")


# ---- operations ----------------------------------------------------------------------------------


@spectral_density.register(Sum)
def _(kernel: Sum, dimension: int) -> Answer:
    left, right = (spectral_density(side, dimension) for side in (kernel.left, kernel.right))
    measure = _joined(measures.Mixture, [left, right], sum)
    if left.yes and right.yes:
        return yes("spectral measures add up", measure)
    if stationary(kernel, dimension).no:
        return no("it is not stationary")
    if stationary(kernel.left).yes and stationary(kernel.right).yes and (left.no or right.no):
        return no("mass without a density in one summand stays there", measure)
    return unknown("a summand has no known spectral measure", measure)


@spectral_density.register(Product)
def _(kernel: Product, dimension: int) -> Answer:
    if stationary(kernel, dimension).no:
        return no("it is not stationary")
    tensor = _tensor_product(kernel, dimension)
    if tensor is not None:
        return yes("its groups of columns have independent frequencies", tensor)
    sides = [spectral_density(side, dimension) for side in (kernel.left, kernel.right)]
    measure = _product_measure(sides)
    if measure is None:
        return unknown("a factor has no known spectral measure")
    if any(side.yes for side in sides):
        return yes("spectral measures are convolved", measure)
    return unknown("the convolution of measures without a density may have one", measure)


def _product_measure(sides: list[Answer]) -> measures.SpectralMeasure | None:
    left, right = (side.payload for side in sides)
    if left is None or right is None:
        return None
    total = left.total * right.total
    for constant, other in ((left, right), (right, left)):
        if isinstance(constant, measures.Zero):
            return measures.Multiple(other.dimension, total, other)
    if isinstance(left, measures.Normal) and isinstance(right, measures.Normal):
        scales = (np.square(left.lengthscales) ** -1 + np.square(right.lengthscales) ** -1) ** -0.5
        return measures.Normal(left.dimension, total, scales)
    return measures.Convolution(left.dimension, total, (left, right))


def _tensor_product(kernel: Product, dimension: int) -> measures.SpectralMeasure | None:
    """The measure of a product of kernels that share the columns out among themselves."""
    factors = flattened(kernel, Product)
    groups = [_positions(factor, dimension) for factor in factors]
    if any(group is None for group in groups):
        return None
    if sorted(column for group in groups for column in group or ()) != list(range(dimension)):
        return None
    inner = [spectral_density(f.kernel, len(f.columns)) for f in factors]  # type: ignore[attr-defined]
    if not all(answer.yes for answer in inner):
        return None
    total = spectral_total(kernel, dimension)
    return measures.Independent(dimension, total, [a.payload for a in inner], groups)  # type: ignore[arg-type]


def spectral_total(kernel: Any, dimension: int) -> float:
    """k(0) of a stationary kernel."""
    from mercer.kernels.laws.boundedness import bounded

    return float(bounded(kernel, dimension).payload)


def _positions(kernel: Any, dimension: int) -> list[int] | None:
    """The numbers of the columns that a kernel looks at, each once; None if not known."""
    if not isinstance(kernel, Columns) or any(isinstance(c, str) for c in kernel.columns):
        return None
    positions = [int(c) % dimension for c in kernel.columns]
    return positions if len(set(positions)) == len(positions) else None


@spectral_density.register(Scaled)
def _(kernel: Scaled, dimension: int) -> Answer:
    if kernel.scale == 0:
        return no("it is zero")
    return _multiplied(spectral_density(kernel.kernel, dimension), float(kernel.scale))


def _multiplied(inner: Answer, factor: float) -> Answer:
    if inner.payload is None:
        return inner
    measure = inner.payload
    scaled = measures.Multiple(measure.dimension, factor * measure.total, measure)
    return Answer(inner.value, inner.because, scaled)


@spectral_density.register(Normalised)
def _(kernel: Normalised, dimension: int) -> Answer:
    if not stationary(kernel.kernel, dimension).yes:
        return unknown("k is not known to be stationary")
    inner = spectral_density(kernel.kernel, dimension)
    return inner if inner.payload is None else _multiplied(inner, 1.0 / inner.payload.total)


@spectral_density.register(Columns)
def _(kernel: Columns, dimension: int) -> Answer:
    inner = spectral_density(kernel.kernel, len(kernel.columns))
    group = _positions(kernel, dimension)
    measure = None
    if inner.payload is not None and group is not None:
        total = inner.payload.total
        measure = measures.Independent(dimension, total, [inner.payload], [group])
    if covers(kernel.columns, dimension) and distinct(kernel.columns):
        return Answer(inner.value, inner.because, measure)
    if inner.value is not None:
        return no("the frequencies of the other columns are 0", measure)
    return unknown(inner.because)


@spectral_density.register(LinearMap)
def _(kernel: LinearMap, dimension: int) -> Answer:
    matrix = np.asarray(kernel.matrix, np.float64)
    inner = spectral_density(kernel.kernel, len(matrix))
    if inner.payload is None:
        return inner if inner.unknown or rank(matrix) == len(matrix) else unknown(inner.because)
    measure = measures.Mapped(matrix.shape[1], inner.payload.total, inner.payload, matrix)
    if inner.yes and one_to_one(matrix):
        return yes("its frequencies are Aᵀω", measure)
    if inner.yes:
        return no("its frequencies Aᵀω fill a subspace only", measure)
    return unknown(inner.because, measure)


@spectral_density.register(Exponentiated | PolynomialOf)
def _(kernel: Exponentiated | PolynomialOf, dimension: int) -> Answer:
    shifts = stationary(kernel, dimension)
    if shifts.no:
        return no(f"it is not stationary: {shifts.because}")
    constant = 1.0 if isinstance(kernel, Exponentiated) else kernel.coefficients[0]
    if constant and shifts.yes:
        return no("its constant term puts mass at frequency 0")
    return unknown("convolution powers are not computed")


def _joined(measure: Any, answers: list[Answer], total: Any) -> measures.SpectralMeasure | None:
    parts = [answer.payload for answer in answers]
    if any(part is None for part in parts):
        return None
    joined = measure(parts[0].dimension, float(total(p.total for p in parts)), parts)
    assert isinstance(joined, measures.SpectralMeasure)
    return joined
