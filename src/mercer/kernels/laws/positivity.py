"""Plain facts about the values of a kernel, which several laws rest on. False means: not known."""

from __future__ import annotations

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
from mercer.kernels.coordinates import Cauchy, ChiSquared, Laplacian
from mercer.kernels.inner_product import Constant
from mercer.kernels.input_maps import Composed, LinearMap
from mercer.kernels.laws.answer import one_to_one
from mercer.kernels.periodic import (
    CosineSeries,
    FourierSeries,
    PeriodicBernoulli,
    PeriodicExponential,
)
from mercer.kernels.radial import Exponential, Gaussian, Matern, Radial, RationalQuadratic
from mercer.kernels.spectral import Spectral

DECAYING = (Gaussian, Exponential, Matern, RationalQuadratic, Laplacian, Cauchy)
TRIGONOMETRIC = (PeriodicBernoulli, PeriodicExponential, CosineSeries, FourierSeries, Spectral)


def positive_valued(kernel: Kernel) -> bool:
    """Whether k(x, y) > 0 for all x and y.

    >>> from mercer.kernels import Gaussian, Linear
    >>> positive_valued(2.0 * Gaussian() + Linear().exp()), positive_valued(Linear())
    (True, False)
    """
    match kernel:
        case Sum() | Product():
            return positive_valued(kernel.left) and positive_valued(kernel.right)
        case Scaled():
            return kernel.scale > 0 and positive_valued(kernel.kernel)
        case PolynomialOf():
            return any(kernel.coefficients) and positive_valued(kernel.kernel)
        case Columns() | LinearMap() | Composed() | Normalised():
            return positive_valued(kernel.kernel)
        case Constant():
            return kernel.value > 0
    return isinstance(kernel, (*DECAYING, PeriodicExponential, ChiSquared, Exponentiated))


def level_diagonal(kernel: Kernel) -> bool:
    """Whether k(x, x) is one and the same positive number for all x.

    >>> from mercer.kernels import Gaussian, Linear
    >>> level_diagonal(Gaussian() * Gaussian().on(0)), level_diagonal(Gaussian() + Linear())
    (True, False)
    """
    match kernel:
        case Sum() | Product():
            return level_diagonal(kernel.left) and level_diagonal(kernel.right)
        case Scaled():
            return kernel.scale > 0 and level_diagonal(kernel.kernel)
        case PolynomialOf():
            return any(kernel.coefficients) and level_diagonal(kernel.kernel)
        case Columns() | LinearMap() | Composed() | Normalised() | Exponentiated():
            return level_diagonal(kernel.kernel)
        case Constant():
            return kernel.value > 0
        case ArcCosine():
            return kernel.order == 0
        case CosineSeries():
            return any(kernel.coefficients)
    return isinstance(kernel, (*DECAYING, *TRIGONOMETRIC, ChiSquared))


def fades(kernel: Kernel) -> bool:
    """Whether k is a function of x − y, not zero, that tends to 0 as x − y goes to infinity.

    >>> from mercer.kernels import Gaussian
    >>> fades(Gaussian() * Gaussian()), fades(Gaussian().on(0)), fades(Gaussian() + 1.0)
    (True, False, False)
    """
    match kernel:
        case Sum() | Product():
            return fades(kernel.left) and fades(kernel.right)
        case Scaled():
            return kernel.scale > 0 and fades(kernel.kernel)
        case LinearMap():
            return one_to_one(kernel.matrix) and fades(kernel.kernel)
        case Normalised():
            return fades(kernel.kernel)
    return isinstance(kernel, DECAYING)


def lengthscales(kernel: Radial | Laplacian | Cauchy, dimension: int) -> np.ndarray:
    """One lengthscale for each of so many columns."""
    scales = np.asarray(kernel.lengthscale, np.float64)  # type: ignore[union-attr]
    if scales.ndim and len(scales) != dimension:
        raise ValueError(
            f"{kernel!r} has {len(scales)} lengthscales, one for each column; its points cannot "
            f"have {dimension}. Write dimension={len(scales)}."
        )
    return np.broadcast_to(scales, (dimension,))
