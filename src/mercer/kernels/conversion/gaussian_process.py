"""Kernels of sklearn.gaussian_process: one rule for each class, in `GAUSSIAN_PROCESS`.

scikit-learn is never imported: its kernels are recognised by the name of their class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.kernels.algebra import PolynomialOf
from mercer.kernels.base import Kernel
from mercer.kernels.conversion.circle import Circle, OnCircle, not_periodic
from mercer.kernels.conversion.names import from_name
from mercer.kernels.conversion.request import Request, is_whole, refuse_indefinite
from mercer.kernels.custom import BlockKernel
from mercer.kernels.inner_product import Constant, Linear, Polynomial
from mercer.kernels.radial import Gaussian, Matern, RationalQuadratic

MODULE = "sklearn.gaussian_process.kernels"


def is_gaussian_process(kernel: Any) -> bool:
    """Whether this is a kernel of sklearn.gaussian_process, or of a class derived from one."""
    bases = type(kernel).__mro__
    return any(base.__module__ == MODULE and base.__name__ == "Kernel" for base in bases)


def _class_name(kernel: Any) -> str:
    """The name of a class of scikit-learn itself; users' own subclasses have none here."""
    return type(kernel).__name__ if type(kernel).__module__ == MODULE else ""


def from_gaussian_process(kernel: Any, request: Request) -> Kernel:
    """The kernel by its rule; classes without one are functions of blocks."""
    rule = GAUSSIAN_PROCESS.get(_class_name(kernel))
    return BlockKernel(kernel) if rule is None else rule(kernel, request)


def _lengthscale(value: Any) -> float | tuple[float, ...]:
    """One number, or one for each column; scikit-learn reads a list of one as a number."""
    scales = np.squeeze(np.asarray(value, np.float64))
    return float(scales) if scales.ndim == 0 else tuple(scales.tolist())


def _gp_matern(kernel: Any, request: Request) -> Kernel:
    if kernel.nu == math.inf:
        return Gaussian(_lengthscale(kernel.length_scale))
    return Matern(float(kernel.nu), _lengthscale(kernel.length_scale))


def _gp_rational_quadratic(kernel: Any, request: Request) -> Kernel:
    return RationalQuadratic(float(kernel.alpha), _lengthscale(kernel.length_scale))


def _gp_exp_sine_squared(kernel: Any, request: Request) -> Kernel:
    width = request.width()
    if width is not None and width != 1:
        refuse_indefinite(request, *not_periodic(width))
    if request.allow_indefinite and width != 1:
        return BlockKernel(kernel)
    return OnCircle(Gaussian(float(kernel.length_scale)), Circle(float(kernel.periodicity)))


def _gp_sum(kernel: Any, request: Request) -> Kernel:
    return from_gaussian_process(kernel.k1, request) + from_gaussian_process(kernel.k2, request)


def _gp_product(kernel: Any, request: Request) -> Kernel:
    left, right = (from_gaussian_process(k, request) for k in (kernel.k1, kernel.k2))
    if isinstance(right, Constant):
        left, right = right, left
    return (left.value if isinstance(left, Constant) else left) * right


def _gp_power(kernel: Any, request: Request) -> Kernel:
    inner, exponent = from_gaussian_process(kernel.kernel, request), kernel.exponent
    if exponent < 1 or not is_whole(exponent):
        refuse_indefinite(
            request,
            f"{kernel} is not positive definite in general: only powers 1, 2, … of a kernel are.",
            "Write a whole exponent; for a power of an RBF change its length_scale.",
        )
        return BlockKernel(kernel)
    return _power(inner, int(exponent))


def _power(kernel: Kernel, exponent: int) -> Kernel:
    if isinstance(kernel, Linear):
        return Polynomial(exponent, kernel.bias)
    return PolynomialOf(kernel, (*[0.0] * exponent, 1.0))


def _gp_pairwise(kernel: Any, request: Request) -> Kernel:
    """The named kernel with the parameters inside; a function there has its own, and stays."""
    if not isinstance(kernel.metric, str):
        return BlockKernel(kernel)
    given = kernel.pairwise_kernels_kwargs or {}
    own = {name: given[name] for name in ("degree", "coef0") if name in given}
    defaults = replace(request, gamma=kernel.gamma, degree=3, coef0=1)
    return from_name(kernel.metric, replace(defaults, **own))


def _gp_white(kernel: Any, request: Request) -> Kernel:
    raise ValueError(
        f"{kernel} is noise on the diagonal, not a function of two points. As a term of the whole "
        "sum it is a ridge: write kernel, ridge = as_kernel_and_ridge(kernel), from "
        "mercer.kernels.conversion. Inside a power, or times another kernel, it is none: take it "
        "out."
    )


def _gp_compound(kernel: Any, request: Request) -> Kernel:
    raise ValueError(
        "CompoundKernel is a list of kernels, not one: write [as_kernel(k) for k in "
        "kernel.kernels], and add them where a sum is meant."
    )


GAUSSIAN_PROCESS: dict[str, Callable[[Any, Request], Kernel]] = {
    "CompoundKernel": _gp_compound,
    "ConstantKernel": lambda kernel, request: Constant(float(kernel.constant_value)),
    "DotProduct": lambda kernel, request: Linear(float(kernel.sigma_0) ** 2),
    "ExpSineSquared": _gp_exp_sine_squared,
    "Exponentiation": _gp_power,
    "Matern": _gp_matern,
    "PairwiseKernel": _gp_pairwise,
    "Product": _gp_product,
    "RBF": lambda kernel, request: Gaussian(_lengthscale(kernel.length_scale)),
    "RationalQuadratic": _gp_rational_quadratic,
    "Sum": _gp_sum,
    "WhiteKernel": _gp_white,
}


def flattened(kernel: Any, operation: str) -> Iterator[Any]:
    """The terms of nested sums, or the factors of nested products."""
    if _class_name(kernel) == operation:
        yield from flattened(kernel.k1, operation)
        yield from flattened(kernel.k2, operation)
    else:
        yield kernel


def noise_level(kernel: Any) -> float | None:
    """The level of a product of noise and constants; None for everything else."""
    factors = list(flattened(kernel, "Product"))
    names = {_class_name(factor) for factor in factors}
    if "WhiteKernel" not in names or names - {"WhiteKernel", "ConstantKernel"}:
        return None
    return math.prod(_level(factor) for factor in factors)


def _level(kernel: Any) -> float:
    noisy = _class_name(kernel) == "WhiteKernel"
    return float(kernel.noise_level if noisy else kernel.constant_value)
