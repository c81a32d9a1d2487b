"""Kernels by Fourier, column by column: on the torus, by a series, by a spectral density."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.checks import check_coefficients, check_count, check_positive
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
from mercer.kernels.base import Kernel, checked
from mercer.kernels.coordinates import order_in_each_column
from mercer.kernels.facts import Answer, Facts, constant_facts, no, unknown, yes
from mercer.kernels.measures import FourierWeights, Tabulated
from mercer.kernels.radial import SMOOTH
from mercer.points import PointSet, VectorPoints, View


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
    positive_definite = "its Fourier weights are positive"

    def facts(self, dimension: int | None = None) -> Facts:
        dense = "its functions repeat with the period; among those that do, they are dense"
        return Facts(self, dimension, universal=no(dense))

    def _turn(self, coordinate: Expression) -> Expression:
        """x/period less the nearest integer n: between −½ and ½.

        x − n·period is taken off in parts of the period that have few bits each, so that n times
        a part is exact, and digits are not lost far out (Cody and Waite). Beyond 2⁴² periods it is
        not, and what is left may be more than a turn.
        """
        if self.period == 1.0:
            return coordinate - nearest(coordinate)
        turns = 1.0 / float(self.period)
        whole, rest = nearest(turns * coordinate), coordinate
        for part in _parts(float(self.period)):
            rest = rest - part * whole
        rest = turns * rest
        return rest - nearest(rest)  # which loses no digit

    def _apart(self) -> Expression:
        """How far two points on the circle are apart, one way round or the other: u or 1 − u."""
        return absolute(self._turn(X) - self._turn(Y))


def _parts(period: float) -> list[float]:
    """The period as a sum of two numbers of eleven bits, and the rest."""
    parts = []
    for _ in range(2):
        unit = 2.0 ** (math.frexp(period)[1] - 11)
        parts.append(unit * math.floor(period / unit))
        period -= parts[-1]
    return [*parts, period]


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
    checks = checked(order=check_count, period=check_positive)

    def __post_init__(self) -> None:
        super().__post_init__()
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
    checks = checked(alpha=check_positive, period=check_positive)

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


# ---- finite sums of cosines: by their series or their density -----------------------------------


class _Cosines(Kernel):
    """Products over columns of finite sums Σ w cos(ω(x_k − y_k))."""

    positive_definite = "it is a product over columns of inner products of features"

    def cosines(self) -> tuple[np.ndarray, np.ndarray]:
        """The frequencies ω and their weights w ≥ 0."""
        raise NotImplementedError

    def facts(self, dimension: int | None = None) -> Facts:
        return Facts(self, dimension, sobolev_order=SMOOTH)

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        return np.prod(self._factors(x, y), axis=0)

    def diagonal(self, x: PointSet) -> np.ndarray:
        own = [np.sum(column**2, axis=1) for column in self._columns(x)]
        return np.prod(own, axis=0) if own else np.ones(len(x))

    def derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        factors = self._factors(x, y)
        out = [
            slope * np.prod(factors[:k] + factors[k + 1 :], axis=0)
            for k, slope in enumerate(self._factors(x, y, 1))
        ]
        return np.stack(out, axis=-1)

    def _factors(self, x: PointSet, y: PointSet, order: int = 0) -> list[np.ndarray]:
        """The factor of each column, or its derivative in x."""
        return [a @ b.T for a, b in zip(self._columns(x, order), self._columns(y), strict=True)]

    def _columns(self, points: PointSet, order: int = 0) -> list[np.ndarray]:
        """Of each column √w cos(ωx) and √w sin(ωx), or their derivatives."""
        assert isinstance(points, VectorPoints)
        frequencies, weights = self.cosines()
        scale = np.sqrt(weights) * frequencies**order
        rows = points.seen(View(), np.float64)
        angles = [column[:, None] * frequencies + order * (np.pi / 2) for column in rows.T]
        return [np.hstack([scale * np.cos(angle), scale * np.sin(angle)]) for angle in angles]


class _Series(_Cosines):
    """Series that are given by a list, and so have finitely many frequencies."""

    period: float

    def facts(self, dimension: int | None = None) -> Facts:
        _, weights = self.cosines()
        if not weights[1:].any() and (dimension is not None or weights[0] in (0.0, 1.0)):
            return constant_facts(self, float(weights[0]) ** (dimension or 1), dimension)
        both_signs = np.append(weights[:1], 0.5 * weights[1:])
        reason = "it is given by its weights: a_n cos(nt) is half of e^{int} and of e^{−int}"
        series = FourierWeights.finite(both_signs, float(self.period))
        known = super().facts(dimension)
        return known.stating(
            finite_features=yes("it has two features for each frequency and column"),
            **periodic_facts(series, reason, float(weights.sum()), dimension),
        )


@dataclass(frozen=True, eq=False, repr=False)
class CosineSeries(_Series):
    """Σ_n a_n cos(n(x − y)) with a_n ≥ 0; for more columns the product.

    Parameters
    ----------
    coefficients : sequence of floats, default=(1.0, 1.0)
        a_0, a_1, …

    Examples
    --------
    >>> import math
    >>> math.isclose(CosineSeries([1.0, 2.0])([math.pi], [0.0]), -1.0)
    True
    """

    coefficients: Sequence[float] = (1.0, 1.0)
    period = 2.0 * math.pi  # no field
    checks = checked(coefficients=check_coefficients)

    def cosines(self) -> tuple[np.ndarray, np.ndarray]:
        weights = np.asarray(self.coefficients, np.float64)
        return np.arange(len(weights), dtype=float), weights


@dataclass(frozen=True, eq=False, repr=False)
class FourierSeries(_Series):
    """The kernel on the torus with Fourier weights c_m: Σ_m e^{2iπm(x−y)/period}/c_m.

    Its space has the norm ‖f‖² = Σ_m c_m |f̂_m|². Weights are symmetric, c_{−m} = c_m, and those
    beyond the list are infinite. For more columns the kernel is the product.

    Parameters
    ----------
    weights : sequence of floats, default=(1.0, 1.0)
        c_0, c_1, …, positive.
    period : float, default=1.0

    Examples
    --------
    >>> import math
    >>> math.isclose(FourierSeries([1.0, 4.0])([0.0], [0.5]), 1 + 2 * math.cos(math.pi) / 4)
    True
    """

    weights: Sequence[float] = (1.0, 1.0)
    period: float = 1.0
    checks = checked(period=check_positive, weights=check_coefficients)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (np.asarray(self.weights) > 0).all():
            raise ValueError("FourierSeries needs positive weights; a weight of 0 is no norm.")

    def cosines(self) -> tuple[np.ndarray, np.ndarray]:
        inverse = 1.0 / np.asarray(self.weights, np.float64)
        inverse[1:] *= 2.0
        return (2.0 * np.pi / self.period) * np.arange(len(inverse)), inverse


@dataclass(frozen=True, eq=False, repr=False)
class Spectral(_Cosines):
    """k(x, y) = Π_k ∫ p(ω) cos(ω(x_k − y_k)) dω for an even density p ≥ 0 on the line.

    The integral is taken by the trapezoidal rule on [−limit, limit]; its weights are nonnegative,
    so what is computed is positive definite whatever the number of nodes. It repeats with the
    period 2π·nodes/limit, which must be larger than twice the differences x_k − y_k.

    Parameters
    ----------
    density : callable
        p takes an array of frequencies ω ≥ 0; p(−ω) = p(ω).
    limit : float
        The frequency beyond which p is negligible.
    nodes : int, default=512
        Of the rule on [0, limit].
    sampler : callable, optional
        sampler(size, random_state) draws frequencies from p/∫p; random features use it.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> k = Spectral(lambda w: np.exp(-(w**2) / 2) / np.sqrt(2 * np.pi), limit=10.0)
    >>> bool(np.isclose(k([0.0], [1.5]), Gaussian()([0.0], [1.5])))
    True
    """

    density: Callable[[np.ndarray], Any]
    limit: float
    nodes: int = 512
    sampler: Callable[..., Any] | None = None
    checks = checked(limit=check_positive, nodes=check_count)

    def __post_init__(self) -> None:
        super().__post_init__()
        _, weights = self.cosines()
        if not np.isfinite(weights).all() or (weights < 0).any():
            raise ValueError(
                "Spectral needs a nonnegative, finite density (Bochner's theorem); it returned "
                f"{weights.min()}."
            )

    def cosines(self) -> tuple[np.ndarray, np.ndarray]:
        """The nodes of the trapezoidal rule, and its weights."""
        frequencies = np.linspace(0.0, float(self.limit), int(self.nodes) + 1)
        values = np.asarray(self.density(frequencies), np.float64)
        if values.shape != frequencies.shape:
            raise ValueError(
                f"the density must return one number for each frequency; got shape {values.shape} "
                f"for {frequencies.shape}."
            )
        weights = 2.0 * values * (frequencies[1] - frequencies[0])
        weights[[0, -1]] *= 0.5
        return frequencies, weights

    def facts(self, dimension: int | None = None) -> Facts:
        table, weights = self.cosines()
        total = float(weights.sum())
        if total == 0:
            return constant_facts(self, 0.0, dimension)
        known = super().facts(dimension)
        return known.stating(
            stationary=yes("it is a sum of cosines of the differences x_k − y_k"),
            bounded=bound_of_product(total, dimension),
            universal=unknown("it is computed from finitely many frequencies"),
            spectral_density=lambda d: yes(
                "it is given by its density, up to the limit",
                Tabulated(d, total**d, self.density, table, self.sampler),
            ),
        )
