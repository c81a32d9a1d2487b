"""Contracts to run on what you write yourself, as mercer's own tests do.

>>> from mercer.kernels import Gaussian
>>> from mercer.testing import check_kernel
>>> check_kernel(Gaussian(lengthscale=0.5), [[0.0], [0.1], [2.0]])
"""

from mercer.testing.kernels import KERNEL_LAWS, check_kernel

__all__ = ["KERNEL_LAWS", "check_kernel"]
