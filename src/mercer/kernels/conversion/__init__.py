"""What users already have, as a kernel: scikit-learn's names, its Gaussian processes, functions."""

from mercer.kernels.conversion.circle import Circle, OnCircle
from mercer.kernels.conversion.distances import ManhattanProfile
from mercer.kernels.conversion.entry import as_kernel, as_kernel_and_ridge
from mercer.kernels.conversion.names import AffinePower, additive_chi_squared

__all__ = [
    "AffinePower",
    "Circle",
    "ManhattanProfile",
    "OnCircle",
    "additive_chi_squared",
    "as_kernel",
    "as_kernel_and_ridge",
]
