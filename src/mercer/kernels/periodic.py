"""Kernels on the torus: functions of x − y that repeat with a period, column by column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

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
)
from mercer.kernels.base import Kernel
from mercer.points import PointSet, VectorPoints, View

STEEP = 60.0  # 2π/α beyond which exponentials of single points might leave float32


class _Periodic(Kernel):
    """What periodic kernels share: a period, and coordinates on the circle."""

    period: float

    def __post_init__(self) -> None:
        check_positive(self, "period", self.period)

    def _turn(self, coordinate: Expression) -> Expression:
        """x/period less the nearest integer, which loses no digit: between −½ and ½."""
        return _less_whole(coordinate if self.period == 1.0 else (1.0 / self.period) * coordinate)

    def _apart(self) -> Expression:
        """How far two points on the circle are apart, one way round or the other: u or 1 − u."""
        return absolute(self._turn(X) - self._turn(Y))

    def _from_middle(self) -> Expression:
        """(u − ½)², u being the fractional part of (x − y)/period: x + ½ − y less whole turns.

        Slopes are those of (½ − |x − y|)², which at u = 0 are the mean of both sides.
        """
        opposite = _less_whole(self._turn(X) + 0.5)
        gap = _less_whole(opposite - self._turn(Y))
        return (gap * gap).with_slopes_of((0.5 - self._apart()) ** 2)


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
        s = int(self.order)
        factor = (-1) ** (s - 1) * (2 * math.pi) ** (2 * s) / math.factorial(2 * s)
        *lower, top = (factor * float(c) for c in bernoulli_at_middle(s))
        lower[0] += 1.0
        square = self._from_middle()
        term: Expression = top * square + lower[-1]
        for coefficient in reversed(lower[:-1]):
            term = term * square + coefficient
        return coordinate_product(term)


@lru_cache(maxsize=16)
def bernoulli_at_middle(order: int) -> tuple[Fraction, ...]:
    """The coefficients of B_{2s}(½ + w) in w², lowest first.

    >>> [str(c) for c in bernoulli_at_middle(1)]
    ['-1/12', '1']
    """
    degree = 2 * order
    numbers = _bernoulli_numbers(degree)
    at_half = [numbers[k] * (Fraction(2, 2**k) - 1) for k in range(degree + 1)]  # B_k(½)
    return tuple(math.comb(degree, k) * at_half[degree - k] for k in range(0, degree + 1, 2))


def _bernoulli_numbers(count: int) -> list[Fraction]:
    numbers = [Fraction(1)]
    for n in range(1, count + 1):
        total = sum((math.comb(n + 1, k) * numbers[k] for k in range(n)), Fraction(0))
        numbers.append(-total / (n + 1))
    return numbers


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
        if rate > STEEP:
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


class FeatureProducts(Kernel):
    """Finite sums of cosines, as products over columns of inner products of features."""

    def column_features(self, column: np.ndarray, order: int) -> np.ndarray:
        """Features φ of one column, or their derivatives: k = ⟨φ(x), φ(y)⟩."""
        raise NotImplementedError

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        return np.prod(self._factors(x, y), axis=0)

    def diagonal(self, x: PointSet) -> np.ndarray:
        rows = _rows(x)
        own = [np.sum(self.column_features(column, 0) ** 2, axis=1) for column in rows.T]
        return np.prod(own, axis=0) if len(own) else np.ones(len(x))

    def derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        factors = self._factors(x, y)
        slopes = [
            self.column_features(a, 1) @ self.column_features(b, 0).T
            for a, b in zip(_rows(x).T, _rows(y).T, strict=True)
        ]
        out = [
            slope * np.prod([f for j, f in enumerate(factors) if j != k], axis=0)
            for k, slope in enumerate(slopes)
        ]
        return np.stack(out, axis=-1)

    def _factors(self, x: PointSet, y: PointSet) -> list[np.ndarray]:
        return [
            self.column_features(a, 0) @ self.column_features(b, 0).T
            for a, b in zip(_rows(x).T, _rows(y).T, strict=True)
        ]


def _rows(points: PointSet) -> np.ndarray:
    assert isinstance(points, VectorPoints)
    return points.seen(View(), np.float64)


def cosine_features(
    column: np.ndarray, frequencies: np.ndarray, weights: np.ndarray, order: int
) -> np.ndarray:
    """√w cos(ωx) and √w sin(ωx), or their derivatives, so that k = Σ w cos(ω(x − y))."""
    angles = column[:, None] * frequencies + order * (np.pi / 2)
    scale = np.sqrt(weights) * frequencies**order
    return np.concatenate([scale * np.cos(angles), scale * np.sin(angles)], axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class CosineSeries(FeatureProducts):
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

    def __post_init__(self) -> None:
        check_coefficients(self, "coefficients", self.coefficients)

    def column_features(self, column: np.ndarray, order: int) -> np.ndarray:
        weights = np.asarray(self.coefficients, np.float64)
        return cosine_features(column, np.arange(len(weights), dtype=float), weights, order)


@dataclass(frozen=True, eq=False, repr=False)
class FourierSeries(FeatureProducts):
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

    def __post_init__(self) -> None:
        check_positive(self, "period", self.period)
        check_coefficients(self, "weights", self.weights)
        if not (np.asarray(self.weights) > 0).all():
            raise ValueError("FourierSeries needs positive weights; a weight of 0 is no norm.")

    def column_features(self, column: np.ndarray, order: int) -> np.ndarray:
        inverse = 1.0 / np.asarray(self.weights, np.float64)
        inverse[1:] *= 2.0
        frequencies = (2.0 * np.pi / self.period) * np.arange(len(inverse))
        return cosine_features(column, frequencies, inverse, order)
