"""Kernels as objects with an algebra.

>>> from mercer.kernels import Gaussian, Linear, Matern
>>> 2.0 * Gaussian(lengthscale=0.5) + Linear() * Matern(1.5, lengthscale=2.0)
2.0 * Gaussian(lengthscale=0.5) + Linear(bias=0.0) * Matern(smoothness=1.5, lengthscale=2.0)
"""

from mercer.kernels import laws
from mercer.kernels.algebra import Exponentiated, Normalised, PolynomialOf, Product, Scaled, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.conditional import Anchored, Polyharmonic, ThinPlate
from mercer.kernels.conversion import as_kernel
from mercer.kernels.coordinates import (
    AdditiveChiSquared,
    AllSubsets,
    Brownian,
    Cauchy,
    ChiSquared,
    HistogramIntersection,
    Laplacian,
    SkewedChiSquared,
    Spline,
    StretchedExponential,
)
from mercer.kernels.custom import BlockKernel, PairKernel, Precomputed
from mercer.kernels.functionals import OnFunctionals
from mercer.kernels.inner_product import ArcCosine, Constant, Linear, Polynomial, Sigmoid
from mercer.kernels.input_maps import (
    Columns,
    Composed,
    GroupAverage,
    LinearMap,
    Weighted,
    direct_sum,
    tensor_product,
)
from mercer.kernels.norms import line_norm, torus_norm
from mercer.kernels.periodic import (
    CosineSeries,
    FourierSeries,
    PeriodicBernoulli,
    PeriodicExponential,
    Spectral,
)
from mercer.kernels.radial import Exponential, Gaussian, Matern, Radial, RationalQuadratic

__all__ = [
    "AdditiveChiSquared",
    "AllSubsets",
    "Anchored",
    "ArcCosine",
    "BlockKernel",
    "Brownian",
    "Cauchy",
    "ChiSquared",
    "Columns",
    "Composed",
    "Constant",
    "CosineSeries",
    "Exponential",
    "Exponentiated",
    "FourierSeries",
    "Gaussian",
    "GroupAverage",
    "HistogramIntersection",
    "Kernel",
    "Laplacian",
    "Linear",
    "LinearMap",
    "Matern",
    "Normalised",
    "OnFunctionals",
    "PairKernel",
    "PeriodicBernoulli",
    "PeriodicExponential",
    "Polyharmonic",
    "Polynomial",
    "PolynomialOf",
    "Precomputed",
    "Product",
    "Radial",
    "RationalQuadratic",
    "Scaled",
    "Sigmoid",
    "SkewedChiSquared",
    "Spectral",
    "Spline",
    "StretchedExponential",
    "Sum",
    "ThinPlate",
    "Weighted",
    "as_kernel",
    "direct_sum",
    "laws",
    "line_norm",
    "tensor_product",
    "torus_norm",
]
