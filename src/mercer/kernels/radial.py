"""Kernels of the distance: k(x, y) = g(‖x − y‖²/ℓ²)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import check_lengthscale, check_positive
from mercer.evaluation.expression import (
    Expression,
    decay,
    is_smooth,
    log1p,
    minimum,
    polynomial,
    sqrt,
    squared_distance,
    tabulated,
)
from mercer.evaluation.operations import derivative
from mercer.kernels.base import Kernel
from mercer.kernels.bessel import bessel_table, half_integer_coefficients
from mercer.kernels.facts import Facts, no, yes
from mercer.kernels.measures import GammaMixture, Normal, Student
from mercer.points import ALL_COLUMNS, View

Lengthscale = float | Sequence[float] | np.ndarray

DECAYING: dict[str, Any] = {  # facts of kernels with k(x, x) = 1 that tend to 0 far away
    "bounded": yes("k(x, x) = 1", 1.0),
    "universal": yes("its spectral density is positive everywhere"),
    "positive_values": True,
    "vanishes": True,
}
FEW_FACTORS = 3  # of a polynomial that times 1e-38 is 0 wherever float32 has its square
FARTHEST_DISTANCE = 700.0  # r at which every profile is 0 to rounding
SMOOTH = yes(
    "its spectral measure has all moments: its functions have derivatives of every order", math.inf
)


def scaled_view(lengthscale: Any) -> View:
    """All columns, divided by their lengthscales; one for all columns is left to the kernel."""
    if np.ndim(lengthscale) == 0:
        return ALL_COLUMNS
    return View(scales=tuple(1.0 / float(scale) for scale in lengthscale))


def column_scales(kernel: Any, dimension: int) -> np.ndarray:
    """The lengthscales of a kernel, one for each of so many columns."""
    scales = np.asarray(kernel.lengthscale, np.float64)
    if scales.ndim and len(scales) != dimension:
        raise ValueError(
            f"{kernel!r} has {len(scales)} lengthscales, one for each column; its points cannot "
            f"have {dimension}. Write dimension={len(scales)}."
        )
    return np.broadcast_to(scales, (dimension,))


class Radial(Kernel):
    """A kernel g(s) of the scaled squared distance s = Σ_k (x_k − y_k)²/ℓ_k².

    A subclass implements `profile`, with a field `lengthscale`: one ℓ for all columns, or one for
    each. It says `positive_definite = True` where it is, in every dimension.

    >>> from dataclasses import dataclass
    >>> from mercer.evaluation.expression import reciprocal_root
    >>> @dataclass(frozen=True, eq=False, repr=False)
    ... class InverseMultiquadric(Radial):
    ...     lengthscale: float = 1.0
    ...     positive_definite = True
    ...
    ...     def profile(self, s):
    ...         return reciprocal_root(1.0 + s)
    >>> round(InverseMultiquadric()([0.0], [3.0**0.5]), 12)
    0.5
    """

    lengthscale: Any

    def profile(self, s: Expression) -> Expression:
        """g(s), s being the scaled squared distance."""
        raise NotImplementedError

    def profile_slope(self, s: Expression) -> Expression | None:
        """g′(s) without a singularity at s = 0, for derivatives of k in both points; None if none.

        By default it is derived, where g is made of functions that are smooth at 0.
        """
        g = self.profile(s)
        return derivative(g, s) if is_smooth(g) else None

    def __post_init__(self) -> None:
        check_lengthscale(self, self.lengthscale)

    def expression(self) -> Expression:
        scale = 1.0 if np.ndim(self.lengthscale) else float(self.lengthscale) ** -2
        return self.profile(scale * squared_distance(scaled_view(self.lengthscale)))

    def facts(self, dimension: int | None = None) -> Facts:
        same = len(set(np.ravel(self.lengthscale).tolist())) == 1
        spherical = yes("it is a function of ‖x − y‖")
        origin = np.zeros((1, np.size(self.lengthscale)))
        return Facts(
            self,
            dimension,
            stationary=yes("it is a function of the scaled distance of x and y"),
            isotropic=spherical if same else no("its lengthscales differ between columns"),
            bounded=lambda _: yes(
                "k(x, x) is its value at distance 0",
                float(self.diagonal(self.points(origin))[0]),
            ),
        )


class _Decaying(Radial):
    """Radial kernels with k(x, x) = 1 and a spectral density that is positive everywhere."""

    positive_definite = "its spectral density is positive in every dimension (Bochner)"

    def facts(self, dimension: int | None = None) -> Facts:
        return super().facts(dimension).stating(**DECAYING)


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(_Decaying):
    """The Gaussian kernel, exp(−‖x − y‖²/(2ℓ²)).

    Functions of its space are infinitely often differentiable. scikit-learn's `gamma` is 1/(2ℓ²).

    Parameters
    ----------
    lengthscale : float or sequence of floats, default=1.0
        ℓ > 0, the distance over which values stay similar; or one ℓ for each column.

    Examples
    --------
    >>> import math
    >>> k = Gaussian(lengthscale=2.0)
    >>> k([0.0], [2.0]) == math.exp(-0.5)  # of two points
    True
    >>> k([[0.0], [1.0], [2.0]]).shape  # of all pairs of points
    (3, 3)
    >>> (2.0 * k + 1.0)([0.0], [0.0])  # sums and positive multiples of kernels are kernels
    3.0
    """

    lengthscale: Lengthscale = 1.0

    def profile(self, s: Expression) -> Expression:
        return decay(0.5 * s)

    def facts(self, dimension: int | None = None) -> Facts:
        known = super().facts(dimension)
        return known.stating(
            sobolev_order=SMOOTH,
            spectral_density=lambda d: yes(
                "its frequencies are normal", Normal(d, 1.0, column_scales(self, d))
            ),
        )


class _MaternLike(_Decaying):
    """Facts of the Matérn kernels, by their smoothness ν."""

    smoothness: float

    def facts(self, dimension: int | None = None) -> Facts:
        v, order = float(self.smoothness), "its spectral density falls like ‖ω‖^{−2s}, s = ν + d/2"
        known = super().facts(dimension)
        return known.stating(
            sobolev_order=lambda d: yes(order, v + d / 2),
            spectral_density=lambda d: yes(
                f"its frequencies follow Student's t with {2 * v:g} degrees",
                Student(d, 1.0, column_scales(self, d), v),
            ),
        )


@dataclass(frozen=True, eq=False, repr=False)
class Exponential(_MaternLike):
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
    smoothness = 0.5  # no field

    def profile(self, s: Expression) -> Expression:
        return decay(sqrt(s))


@dataclass(frozen=True, eq=False, repr=False)
class RationalQuadratic(_Decaying):
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
    positive_definite = "it is a mixture of Gaussian kernels"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "mixture", self.mixture)

    def profile(self, s: Expression) -> Expression:
        return decay(float(self.mixture) * log1p((0.5 / self.mixture) * s))

    def facts(self, dimension: int | None = None) -> Facts:
        known = super().facts(dimension)
        return known.stating(
            sobolev_order=SMOOTH,
            spectral_density=lambda d: yes(
                "its frequencies are normal with a Gamma distributed variance",
                GammaMixture(d, 1.0, column_scales(self, d), float(self.mixture)),
            ),
        )


@dataclass(frozen=True, eq=False, repr=False)
class Matern(_MaternLike):
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
        if len(factors) > FEW_FACTORS:  # e^−r ends at 1e-38 in float32, a polynomial does not
            r = minimum(r, FARTHEST_DISTANCE)
        return decay(r) if len(factors) == 1 else polynomial(factors, r) * decay(r)

    def profile_slope(self, s: Expression) -> Expression | None:
        """−ν/(2(ν − 1)) times the Matérn kernel of smoothness ν − 1 in the same r."""
        smoothness = float(self.smoothness)
        if smoothness <= 1.0:
            return None
        rougher = Matern(smoothness - 1.0).profile(smoothness / (smoothness - 1.0) * s)
        return -smoothness / (2.0 * (smoothness - 1.0)) * rougher
