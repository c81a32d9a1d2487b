"""Kernels of the distance: k(x, y) = g(‖x − y‖²/ℓ²)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import check_lengthscale, check_positive
from mercer.evaluation.expression import (
    Expression,
    Parameter,
    decay,
    log1p,
    sqrt,
    squared_distance,
    tabulated,
)
from mercer.kernels.base import Kernel
from mercer.kernels.bessel import bessel_table, half_integer_coefficients
from mercer.points import View

Lengthscale = float | Sequence[float] | np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Radial(Kernel):
    """A kernel g(s) of the scaled squared distance s = Σ_k (x_k − y_k)²/ℓ_k².

    A subclass owes `profile`, and has a field `lengthscale`: one ℓ for all columns, or one for
    each.
    """

    def profile(self, s: Expression) -> Expression:
        """g(s), s being the scaled squared distance."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        check_lengthscale(self, self._lengthscale)

    @property
    def _lengthscale(self) -> Any:
        return self.lengthscale  # type: ignore[attr-defined]

    def expression(self) -> Expression:
        if np.ndim(self._lengthscale) == 0:
            return self.profile(float(self._lengthscale) ** -2 * squared_distance())
        scales = tuple(1.0 / float(scale) for scale in self._lengthscale)
        return self.profile(1.0 * squared_distance(View(scales=scales)))


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(Radial):
    """The Gaussian kernel, exp(−‖x − y‖²/(2ℓ²)).

    scikit-learn's `gamma` is 1/(2ℓ²).

    Parameters
    ----------
    lengthscale : float or sequence of floats, default=1.0
        ℓ, or one ℓ for each column.

    Examples
    --------
    >>> import math
    >>> Gaussian(lengthscale=2.0)([0.0], [2.0]) == math.exp(-0.5)
    True
    """

    lengthscale: Lengthscale = 1.0

    def profile(self, s: Expression) -> Expression:
        return decay(0.5 * s)


@dataclass(frozen=True, eq=False, repr=False)
class Exponential(Radial):
    """The exponential kernel, exp(−‖x − y‖/ℓ): the Matérn kernel of smoothness ½.

    Parameters
    ----------
    lengthscale : float or sequence of floats, default=1.0
        ℓ, or one ℓ for each column.

    Examples
    --------
    >>> from mercer.kernels import Matern
    >>> Exponential(2.0)([0.0], [3.0]) == Matern(0.5, lengthscale=2.0)([0.0], [3.0])
    True
    """

    lengthscale: Lengthscale = 1.0

    def profile(self, s: Expression) -> Expression:
        return decay(sqrt(s))


@dataclass(frozen=True, eq=False, repr=False)
class RationalQuadratic(Radial):
    """The rational quadratic kernel, (1 + ‖x − y‖²/(2αℓ²))^{−α}: a mixture of Gaussians.

    Parameters
    ----------
    mixture : float, default=1.0
        α > 0; as it grows, the kernel tends to the Gaussian.
    lengthscale : float or sequence of floats, default=1.0
        ℓ, or one ℓ for each column.

    Examples
    --------
    >>> import math
    >>> math.isclose(RationalQuadratic(mixture=1.0)([0.0], [2.0]), 1 / 3)
    True
    """

    mixture: float = 1.0
    lengthscale: Lengthscale = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "mixture", self.mixture)

    def profile(self, s: Expression) -> Expression:
        return decay(float(self.mixture) * log1p((0.5 / self.mixture) * s))


@dataclass(frozen=True, eq=False, repr=False)
class Matern(Radial):
    """The Matérn kernel of smoothness ν, with r = √(2ν)·‖x − y‖/ℓ.

    k = 2^{1−ν}/Γ(ν) · r^ν K_ν(r), K_ν being the modified Bessel function; in particular
    ν = ½: e^{−r};  ν = 3/2: (1 + r) e^{−r};  ν = 5/2: (1 + r + r²/3) e^{−r}.

    The space is the Sobolev space of order ν + d/2. The distance is always Euclidean: on the L1
    distance the kernels with ν > ½ are not positive definite beyond one column.

    Parameters
    ----------
    smoothness : float, default=1.5
        ν > 0. Half-integers up to 9/2 have closed forms; others run through a table of
        polynomials, right to rounding.
    lengthscale : float or sequence of floats, default=1.0
        ℓ, or one ℓ for each column.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 4.2.

    Examples
    --------
    >>> import math
    >>> math.isclose(Matern(0.5, lengthscale=2.0)([0.0], [3.0]), math.exp(-1.5))
    True
    """

    smoothness: float = 1.5
    lengthscale: Lengthscale = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "smoothness", self.smoothness)
        if self.smoothness > 50:
            raise ValueError(
                f"Matern needs a smoothness of at most 50; got {self.smoothness!r}. Beyond, it is "
                "hard to tell from its limit: write Gaussian(lengthscale)."
            )

    def profile(self, s: Expression) -> Expression:
        r = sqrt(2.0 * self.smoothness * s)
        factors = half_integer_coefficients(float(self.smoothness))
        if factors is None:
            return tabulated(bessel_table(float(self.smoothness)), r) * decay(r)
        return decay(r) if len(factors) == 1 else _horner(factors, r) * decay(r)


def _horner(coefficients: Sequence[float], x: Expression) -> Expression:
    total: Expression = Parameter(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total
