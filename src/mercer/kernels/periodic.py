"""Kernels on the torus: functions of x − y that repeat with a period, column by column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import scipy  # its parts are loaded where they are used

from mercer.checks import check_count, check_positive
from mercer.evaluation.expression import (
    Expression,
    X,
    Y,
    absolute,
    coordinate_product,
    decay,
    exp,
    maximum,
    minimum,
    nearest,
    polynomial,
)
from mercer.kernels.base import Kernel
from mercer.kernels.coordinates import order_in_each_column
from mercer.kernels.facts import Answer, Facts, no, unknown, yes
from mercer.kernels.fourier import FourierWeights


def bound_of_product(factor: float, dimension: int | None) -> Answer:
    """k(x, x) of a product over columns of one function of x_k − y_k."""
    if dimension is None:
        return yes(f"k(x, x) = {factor:.6g}^d for d columns; write bounded(kernel, dimension=d)")
    return yes("k(x, x) is the same for all x, a factor for each column", factor**dimension)


def periodic_facts(
    weights: FourierWeights, reason: str, at_zero: float, dimension: int | None
) -> dict[str, Answer]:
    """Facts of a product over columns of one function with Fourier weights."""
    one_column = unknown("Fourier weights are those of kernels on one column")
    return {
        "stationary": yes("it is a periodic function of the differences x_k − y_k"),
        "isotropic": no("beyond one column it repeats along the axes only"),
        "bounded": bound_of_product(at_zero, dimension),
        "spectral_density": no("its frequencies are multiples of one: see fourier_weights"),
        "fourier_weights": yes(reason, weights) if dimension in (None, 1) else one_column,
    }


class _Periodic(Kernel):
    """The base of periodic kernels: a period, and coordinates on the circle."""

    period: float

    def __post_init__(self) -> None:
        check_positive(self, "period", self.period)

    def facts(self, dimension: int | None = None) -> Facts:
        known = super().facts(dimension)
        return known.stating(
            positive_definite=yes("its Fourier weights are positive"),
            universal=no(
                "its functions repeat with the period; among those that do, they are dense"
            ),
        )

    def _turn(self, coordinate: Expression) -> Expression:
        """x/period less the nearest integer n: between −½ and ½.

        x − n·period is taken off in parts of the period that have few bits each, so that n times
        a part is exact, and digits are not lost far out (Cody and Waite). Beyond 2⁴² periods it is
        not, and what is left may be more than a turn.
        """
        if self.period == 1.0:
            return _less_whole(coordinate)
        turns = 1.0 / float(self.period)
        whole, rest = nearest(turns * coordinate), coordinate
        for part in _parts(float(self.period)):
            rest = rest - part * whole
        return _less_whole(turns * rest)

    def _apart(self) -> Expression:
        """How far two points on the circle are apart, one way round or the other: u or 1 − u."""
        return absolute(self._turn(X) - self._turn(Y))


def _parts(period: float) -> list[float]:
    """The period as a sum of two numbers of eleven bits, and the rest.

    >>> parts = _parts(0.3)
    >>> sum(parts) == 0.3, [(2.0**k * part).is_integer() for k, part in zip((12, 23), parts)]
    (True, [True, True])
    """
    parts = []
    for _ in range(2):
        unit = 2.0 ** (math.frexp(period)[1] - 11)
        parts.append(unit * math.floor(period / unit))
        period -= parts[-1]
    return [*parts, period]


def _less_whole(turns: Expression) -> Expression:
    """A number less the nearest integer, which loses no digit."""
    return turns - nearest(turns)


@dataclass(frozen=True, eq=False, repr=False)
class PeriodicBernoulli(_Periodic):
    """The periodic Sobolev kernel of order s, 1 + Σ_{m≠0} |m|^{−2s} e^{2iπmt}, t = (x − y)/period.

    For one column the norm is (∫f)² + (2π)^{−2s} ∫|f^{(s)}|², and
    k = 1 + (−1)^{s−1} (2π)^{2s}/(2s)! · B_{2s}({t}) with the Bernoulli polynomial B_{2s}. For more
    columns it is the product.

    Parameters
    ----------
    order : int, default=1
        s ≥ 1, at most 8.
    period : float, default=1.0

    Examples
    --------
    >>> import math
    >>> math.isclose(PeriodicBernoulli()([0.0], [0.0]), 1 + math.pi**2 / 3)
    True
    """

    order: int = 1
    period: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self, "order", self.order)
        if self.order > 8:
            raise ValueError(f"PeriodicBernoulli has an order of at most 8; got {self.order!r}.")

    def expression(self) -> Expression:
        s, apart = int(self.order), self._apart()
        factor = (-1) ** (s - 1) * (2 * math.pi) ** (2 * s) / math.factorial(2 * s)
        coefficients = [factor * float(c) for c in bernoulli_coefficients(s)]
        coefficients[0] += 1.0
        # the slope of |x − y| is 0 at 0, so that those of the kernel are the mean of both sides
        return coordinate_product(polynomial(coefficients, apart * apart - apart))

    def facts(self, dimension: int | None = None) -> Facts:
        s = int(self.order)
        weights = FourierWeights.power(s, float(self.period))
        total = 1.0 + 2.0 * float(scipy.special.zeta(2 * s))
        known = super().facts(dimension)
        return known.stating(
            sobolev_order=lambda d: order_in_each_column(s, d),
            **periodic_facts(weights, "1/c_m = |m|^{−2s}, and 1/c_0 = 1", total, dimension),
        )


@lru_cache(maxsize=16)
def bernoulli_coefficients(order: int) -> tuple[Fraction, ...]:
    """The coefficients of B_{2s}(u) in v = u² − u, lowest first.

    B_{2s} is even around ½, so it is a polynomial p in v, which is the same for u and 1 − u. Its
    terms stay within 2.4 times the largest value of the kernel; those in (u − ½)² reach 7 times.
    The coefficients follow from B_{2s}'' = 2s(2s − 1) B_{2s−2}, the second derivative of p(v) in u
    being (4v + 1) p''(v) + 2p'(v), and from ∫₀¹ B_{2s} = 0.

    >>> [str(c) for c in bernoulli_coefficients(2)]
    ['-1/30', '0', '1']
    """
    if order == 0:
        return (Fraction(1),)
    lower, found = bernoulli_coefficients(order - 1), [Fraction(0)] * (order + 2)
    for k in reversed(range(1, order + 1)):
        above = (k + 1) * k * found[k + 1]
        found[k] = (2 * order * (2 * order - 1) * lower[k - 1] - above) / (k * (4 * k - 2))
    for k in range(1, order + 1):
        mean = Fraction((-1) ** k * math.factorial(k) ** 2, math.factorial(2 * k + 1))  # of v^k
        found[0] -= found[k] * mean
    return tuple(found[:-1])


@dataclass(frozen=True, eq=False, repr=False)
class PeriodicExponential(_Periodic):
    """The periodic exponential kernel, Σ_m e^{2iπmt}/(1 + α²m²), t = (x − y)/period.

    With u the fractional part of t it is (π/α)(e^{−2πu/α} + e^{−2π(1−u)/α})/(1 − e^{−2π/α}); for
    one column the norm is ∫f² + (α/2π)² ∫f'². For more columns it is the product.

    Parameters
    ----------
    alpha : float, default=1.0
        α > 0: larger is smoother.
    period : float, default=1.0

    Examples
    --------
    >>> import math
    >>> k = PeriodicExponential(alpha=2.0)
    >>> math.isclose(k([0.0], [0.5]), math.pi / 2 / math.sinh(math.pi / 2))
    True
    """

    alpha: float = 1.0
    period: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "alpha", self.alpha)

    def expression(self) -> Expression:
        rate = 2.0 * math.pi / self.alpha
        height = (math.pi / self.alpha) / -math.expm1(-rate)
        if rate > 60.0:  # exponentials of single points, e^{±rate/2}, might leave float32
            near = rate * self._apart()
            return coordinate_product(height * (decay(near) + decay(rate - near)))
        # e^{±2π(x − y)/α} from exponentials of each point; the smaller one is e^{−2πu/α}
        rise, fall = (
            {side: math.sqrt(height) * exp(sign * rate * self._turn(side)) for side in (X, Y)}
            for sign in (1.0, -1.0)
        )
        ahead, behind = rise[X] * fall[Y], fall[X] * rise[Y]
        low, high = minimum(ahead, behind), maximum(ahead, behind)
        return coordinate_product(low + math.exp(-rate) * high)

    def facts(self, dimension: int | None = None) -> Facts:
        weights = FourierWeights.exponential(float(self.alpha), float(self.period))
        rate = math.pi / self.alpha
        total = rate / math.tanh(rate)
        known = super().facts(dimension)
        return known.stating(
            sobolev_order=lambda d: order_in_each_column(1, d),
            positive_values=True,
            **periodic_facts(weights, "1/c_m = 1/(1 + α²m²)", total, dimension),
        )
