"""Kernels from kernels: sums, products, nonnegative multiples, functions, selected columns."""

from mercer.kernels.algebra.columns import Columns
from mercer.kernels.algebra.combinations import Product, Scaled, Sum, as_summand
from mercer.kernels.algebra.derivatives import derivative_of
from mercer.kernels.algebra.functions import Exponentiated, Normalised, PolynomialOf

__all__ = [
    "Columns",
    "Exponentiated",
    "Normalised",
    "PolynomialOf",
    "Product",
    "Scaled",
    "Sum",
    "as_summand",
    "derivative_of",
]
