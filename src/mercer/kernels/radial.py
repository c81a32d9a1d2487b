"""Kernels of the distance: k(x, y) = g(‖x − y‖²/ℓ²)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

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
from mercer.evaluation.tables import Table
from mercer.kernels.base import Kernel
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


# ---- the profile of Matérn kernels: closed forms, and tables where there is none -----------------


@dataclass(frozen=True)
class Tuning:
    """Where one way to compute the profile of a Matérn kernel ends and another begins.

    With g(r) = 2^{1−ν}/Γ(ν) · r^ν K_ν(r) the profile is g, and h(r) = e^r g(r) varies slowly enough
    for a table. h is 1 + O(r^{min(1, 2ν)}) at 0, which decides how far down the table must reach.
    """

    last_octave: int = 10  # of r, where the table ends: e^{−1024} is below the least float64
    closed_forms: int = 4  # half-integers up to 9/2; beyond, a table is as fast
    steep_from: float = 8.0  # ν beyond which r^ν is too steep for the product r^ν K_ν
    series_up_to: float = (
        0.125  # r up to which five terms of the series are exact to rounding, ν > 8
    )


TUNING = Tuning()


def half_integer_coefficients(smoothness: float) -> tuple[float, ...] | None:
    """The polynomial factor of the profile for ν = p + ½, lowest degree first; None otherwise."""
    p = smoothness - 0.5
    if p != int(p) or not 0 <= p <= TUNING.closed_forms:
        return None
    p = int(p)
    scale = math.factorial(p) / math.factorial(2 * p)
    return tuple(
        scale * math.factorial(2 * p - k) * 2**k / (math.factorial(p - k) * math.factorial(k))
        for k in range(p + 1)
    )


@lru_cache(maxsize=32)
def bessel_table(smoothness: float, order: int = 0) -> Table:
    """h(r) = e^r g(r) as a table, or its derivative: Σ_j binomial(order, j) e^r g^{(j)}(r)."""
    if order > 1:
        raise NotImplementedError("second derivatives of a general Matérn kernel in r.")
    return Table(
        function=partial(_derivative, smoothness, order),
        derivative=lambda: bessel_table(smoothness, order + 1),
        lowest=_lowest(smoothness),
        highest=TUNING.last_octave,
    )


def _lowest(smoothness: float) -> int:
    """The octave in which h = 1 to rounding."""
    return max(-int(56 / min(1.0, 2.0 * smoothness)) - 1, -1022)


def _derivative(smoothness: float, order: int, r: Any) -> np.ndarray:
    """h, or its derivative, in which r^ν K_ν becomes −r^ν K_{ν−1}."""
    r = np.atleast_1d(np.asarray(r, np.float64))
    value = _scaled(smoothness, smoothness, r)
    return value - _scaled(smoothness, smoothness - 1.0, r) if order else value


def _scaled(smoothness: float, bessel_order: float, r: np.ndarray) -> np.ndarray:
    """2^{1−ν}/Γ(ν) · r^ν e^r K_μ(r) for μ = ν or ν − 1."""
    if smoothness <= TUNING.steep_from:
        return _by_bessel(smoothness, bessel_order, r)
    if bessel_order == smoothness:
        return _by_integral(smoothness, r)
    return r / (2.0 * bessel_order) * _by_integral(bessel_order, r)


def _by_integral(smoothness: float, r: np.ndarray) -> np.ndarray:
    """h(r) = ∫ exp(νu − (e^{u/2} − ½r e^{−u/2})²) du / ∫ exp(νu − e^u) du, or its series.

    The trapezoidal rule is right to the last digit, and powers as steep as r^ν, which would lose
    some, do not occur.
    """
    near = r < TUNING.series_up_to
    values = np.empty_like(r)
    values[near] = np.exp(r[near]) * _series(smoothness, r[near])
    values[~near] = _integral(smoothness, r[~near]) / _integral(smoothness, np.zeros(1))
    return values


def _integral(smoothness: float, r: np.ndarray) -> np.ndarray:
    """∫ exp(νu − (e^{u/2} − ½r e^{−u/2})²) du around its peak, whose width is (ν² + r²)^{−1/4}."""
    r = r.astype(np.longdouble)[:, None]
    size = np.sqrt(smoothness**2 + r * r)
    width = size**-0.5
    u = np.log(0.5 * (smoothness + size)) + width * np.arange(-18.0, 18.4, 0.4)
    rest = np.exp(0.5 * u) - 0.5 * r * np.exp(-0.5 * u)
    return (width * np.exp(smoothness * u - rest * rest)).sum(axis=1)


def _series(smoothness: float, r: np.ndarray) -> np.ndarray:
    """g(r) = Σ_k (−r²/4)^k / (k! (ν−1)⋯(ν−k)) for small r, up to a power of r that is far below."""
    total = term = np.ones_like(r)
    for k in range(1, 6):
        term = term * (-0.25 * r * r) / (k * (smoothness - k))
        total = total + term
    return total


def _by_bessel(smoothness: float, bessel_order: float, r: np.ndarray) -> np.ndarray:
    """The same from scipy's K_μ, and its limit 1 (μ = ν) or 0 where r is tiny."""
    tiny = np.finfo(np.float64).tiny
    safe = np.maximum(r, tiny)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        powers = np.power(0.5 * safe.astype(np.longdouble), smoothness)
        values = (
            2.0 / scipy.special.gamma(smoothness) * powers * scipy.special.kve(bessel_order, safe)
        ).astype(np.float64)
    overflown = ~np.isfinite(values) & (r > tiny)
    if overflown.any():
        values[overflown] = _small(smoothness, bessel_order, safe[overflown])
    if bessel_order != smoothness:
        return np.where(r <= tiny, 0.0, values)
    return np.where(r < 2.0 ** (_lowest(smoothness) + 1), 1.0, values)


def _small(smoothness: float, bessel_order: float, r: np.ndarray) -> np.ndarray:
    """The first terms at small r, where K_μ itself overflows: r^μ > 1e-308, so r² is tiny."""
    ratio = math.exp(math.lgamma(bessel_order) - math.lgamma(smoothness))
    leading = ratio * (0.5 * r) ** (smoothness - bessel_order)
    return leading * (1.0 - 0.25 * r * r / (bessel_order - 1.0)) * np.exp(r)
