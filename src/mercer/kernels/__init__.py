"""Kernels as objects with an algebra.

>>> from mercer.kernels import Gaussian, Linear, Matern
>>> 2.0 * Gaussian(lengthscale=0.5) + Linear() * Matern(1.5, lengthscale=2.0)
2.0 * Gaussian(lengthscale=0.5) + Linear(bias=0.0) * Matern(smoothness=1.5, lengthscale=2.0)
"""

from mercer.kernels.algebra import Columns, Product, Scaled, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.custom import BlockKernel, PairKernel, Precomputed
from mercer.kernels.inner_product import Constant, Linear, Polynomial
from mercer.kernels.radial import Gaussian, Matern, Radial

__all__ = [
    "BlockKernel",
    "Columns",
    "Constant",
    "Gaussian",
    "Kernel",
    "Linear",
    "Matern",
    "PairKernel",
    "Polynomial",
    "Precomputed",
    "Product",
    "Radial",
    "Scaled",
    "Sum",
]
