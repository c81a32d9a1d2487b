"""Kernels of the inner product, and constants."""

from __future__ import annotations

from dataclasses import dataclass

from mercer.evaluation.expression import Expression, Parameter, product, tanh
from mercer.kernels.base import Kernel
from mercer.kernels.checks import check_count, check_finite_number, check_nonnegative


@dataclass(frozen=True, eq=False, repr=False)
class Constant(Kernel):
    """The constant kernel, k(x, y) = c: its functions are the constants.

    Parameters
    ----------
    value : float, default=1.0
        c ≥ 0.

    Examples
    --------
    >>> Constant(3.0)([1.0], [2.0])
    3.0
    """

    value: float = 1.0

    def __post_init__(self) -> None:
        check_nonnegative(self, "value", self.value, "a negative constant is not a kernel")

    def program(self) -> Expression:
        return Parameter(float(self.value))


@dataclass(frozen=True, eq=False, repr=False)
class Linear(Kernel):
    """The linear kernel, ⟨x, y⟩ + b: inner products of (x, √b).

    Parameters
    ----------
    bias : float, default=0.0
        b ≥ 0.

    Examples
    --------
    >>> Linear(bias=1.0)([1.0, 2.0], [3.0, 4.0])
    12.0
    """

    bias: float = 0.0

    def __post_init__(self) -> None:
        check_nonnegative(self, "bias", self.bias)

    def program(self) -> Expression:
        return product() + self.bias if self.bias else 1.0 * product()


@dataclass(frozen=True, eq=False, repr=False)
class Polynomial(Kernel):
    """The polynomial kernel, (⟨x, y⟩ + b)^r.

    With b = 0 its features are the monomials of degree r, with b > 0 those of degree up to r.

    Parameters
    ----------
    degree : int, default=2
        r ≥ 1.
    bias : float, default=1.0
        b ≥ 0. scikit-learn's (γ⟨x, y⟩ + c)^r is γ^r · Polynomial(r, c/γ).

    Examples
    --------
    >>> Polynomial(degree=3, bias=0.0)([1.0, 1.0], [1.0, 1.0])
    8.0
    """

    degree: int = 2
    bias: float = 1.0

    def __post_init__(self) -> None:
        check_count(self, "degree", self.degree)
        check_nonnegative(
            self, "bias", self.bias, "a negative bias is not positive definite in general"
        )

    def program(self) -> Expression:
        base = product() + self.bias if self.bias else 1.0 * product()
        return base ** int(self.degree)


@dataclass(frozen=True, eq=False, repr=False)
class Sigmoid(Kernel):
    """tanh(a⟨x, y⟩ + b), which is not positive definite: for those who replace scikit-learn's.

    Parameters
    ----------
    scale : float, default=1.0
        a.
    bias : float, default=0.0
        b.

    Examples
    --------
    >>> import math
    >>> math.isclose(Sigmoid()([1.0], [2.0]), math.tanh(2.0))
    True
    """

    scale: float = 1.0
    bias: float = 0.0

    def __post_init__(self) -> None:
        check_finite_number(self, "scale", self.scale)
        check_finite_number(self, "bias", self.bias)

    def program(self) -> Expression:
        return tanh(float(self.scale) * product() + float(self.bias))
