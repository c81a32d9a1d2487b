"""Fourier weights of kernels on the circle, and what sums and products make of them.

With u the fractional part of (x − y)/period, the weights of k are ∫₀¹ k(u) e^{−2iπmu} du: those of
a sum add up and those of a product are convolved, Σ_j a_j b_{m−j} over all whole numbers j. They
are not negative, so that adding them up loses no digit; only the ends of the sums need care.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np


@dataclass(frozen=True)
class Tuning:
    """How far convolutions are added up, and how their ends are integrated.

    A sum over |j| ≤ R, R = m + terms, leaves at most the share 1/R; with the integral over j > R in
    its place R^{−5} of the sum is left, which is rounding.
    """

    terms: int = 1 << 12  # of a sum beyond the last m, each a multiplication for every m
    nodes: int = 16  # of Gauss and Legendre for each octave of an end
    octaves: int = 44  # of an end: 2^{−44} of what is 1/terms of the sum is left out


@dataclass(frozen=True, eq=False)
class _Term:
    """E_r(u) · Π_i B_{s_i}(u) · Σ_m a_m e^{2iπmu}: what products of kernels on the circle are.

    B_s has the weights |m|^{−2s}, and 1 at m = 0. E_r(u) = e^{−ru} + e^{−r(1−u)}, or 1 where the
    rate is None. The product of two such factors is a sum, E_a E_b = E_{a+b} + e^{−min(a, b)}
    E_{|a−b|}, so weights that fall as slowly as those of E_r are never convolved with one another.
    """

    series: np.ndarray  # a_0, a_1, …, finitely many
    orders: tuple[int, ...] = ()
    rate: float | None = None

    def times(self, other: _Term) -> list[_Term]:
        left, right = (np.concatenate([a[:0:-1], a]) for a in (self.series, other.series))
        series = np.convolve(left, right)[len(self.series) + len(other.series) - 2 :]
        rate = self.rate if other.rate is None else other.rate
        both = _Term(series, self.orders + other.orders, rate)
        if self.rate is None or other.rate is None:
            return [both]
        low, high = sorted((self.rate, other.rate))
        return [
            replace(both, rate=high + low),
            replace(both, rate=high - low, series=math.exp(-low) * series),
        ]

    def weights(self, count: int, tuning: Tuning) -> np.ndarray:
        factors: list[tuple[Callable[[np.ndarray], np.ndarray], float]] = [
            (partial(_power, order), 2.0 * order) for order in sorted(self.orders, reverse=True)
        ]
        if self.rate is not None:
            factors.append((partial(_exponential, self.rate), 2.0))
        values, decay = self.series, math.inf
        for later, (factor, own) in zip(range(len(factors))[::-1], factors, strict=True):
            values = _convolved(values, decay, factor, count + later * tuning.terms, tuning)
            decay = min(decay, own)
        out = np.zeros(count + 1)
        out[: len(values)] = values[: count + 1]
        return out


def _power(order: int, m: np.ndarray) -> np.ndarray:
    return np.maximum(np.abs(m), 1.0) ** (-2 * order)


def _exponential(rate: float, m: np.ndarray) -> np.ndarray:
    """2r(1 − e^{−r})/(r² + 4π²m²); for r = 0, where E_r = 2, its limit."""
    if rate == 0.0:
        return np.where(m == 0.0, 2.0, 0.0)
    return -2.0 * rate * math.expm1(-rate) / (rate**2 + (2.0 * math.pi * m) ** 2)


def _convolved(
    values: np.ndarray,
    decay: float,
    factor: Callable[[np.ndarray], np.ndarray],
    count: int,
    tuning: Tuning,
) -> np.ndarray:
    """Σ_j a_j b(m − j) for m = 0, …, count; beyond the list a_j falls like j^{−decay}."""
    reach = len(values) - 1
    both_signs = np.concatenate([values[:0:-1], values])  # j = −reach, …, reach
    out = np.convolve(factor(np.arange(-reach, count + reach + 1.0)), both_signs, mode="valid")
    if math.isinf(decay):
        return out
    m, last = np.arange(count + 1.0)[:, None], values[-1]

    def term(j: np.ndarray) -> np.ndarray:
        return last * (reach / j) ** decay * (factor(j - m) + factor(j + m))

    # Σ_{j>R} f(j) = ∫_{R+½}^∞ f + f'(R + ½)/24 − …, the integral with v = 1/j in octaves of v
    nodes, lengths = np.polynomial.legendre.leggauss(tuning.nodes)
    edges = 2.0 ** -np.arange(tuning.octaves + 1.0) / (reach + 0.5)
    half = 0.5 * (edges[:-1] - edges[1:])[:, None]
    v = (0.5 * (edges[:-1] + edges[1:])[:, None] + half * nodes).ravel()
    end = term(1.0 / v) @ ((half * lengths).ravel() / v**2)
    slope = term(np.array([reach + 1.0])) - term(np.array([float(reach)]))
    return out + end + slope[:, 0] / 24.0


@dataclass(frozen=True, eq=False)
class FourierWeights:
    """The numbers 1/c_m of k(x, y) = Σ_m e^{2iπm(x−y)/period}/c_m, with c_{−m} = c_m.

    Attributes
    ----------
    period : float
        0 for a constant, which has every period.

    Examples
    --------
    >>> weights = FourierWeights.power(1, period=1.0)
    >>> (3.0 * weights + FourierWeights.finite([1.0]))(2).tolist()
    [4.0, 3.0, 0.75]
    """

    period: float
    terms: tuple[_Term, ...]

    @classmethod
    def finite(cls, weights: Sequence[float] | np.ndarray, period: float = 0.0) -> FourierWeights:
        """Weights from a list; beyond it they are 0."""
        return cls(period, (_Term(np.asarray(weights, np.float64)),))

    @classmethod
    def power(cls, order: int, period: float) -> FourierWeights:
        """|m|^{−2s}, and 1 for m = 0."""
        return cls(period, (_Term(np.ones(1), (order,)),))

    @classmethod
    def exponential(cls, alpha: float, period: float) -> FourierWeights:
        """1/(1 + α²m²), which is (π/α)/(1 − e^{−r}) · E_r with r = 2π/α."""
        rate = 2.0 * math.pi / alpha
        return cls(period, (_Term(np.array([0.5 * rate / -math.expm1(-rate)]), (), rate),))

    def __call__(self, count: int, tuning: Tuning = Tuning()) -> np.ndarray:
        """1/c_m for m = 0, …, count."""
        zero = np.zeros(count + 1)
        return sum((term.weights(count, tuning) for term in self.terms), zero)

    def __add__(self, other: FourierWeights) -> FourierWeights:
        return FourierWeights(max(self.period, other.period), self.terms + other.terms)

    def __mul__(self, other: FourierWeights) -> FourierWeights:
        terms = (term for a in self.terms for b in other.terms for term in a.times(b))
        return FourierWeights(max(self.period, other.period), tuple(terms))

    def __rmul__(self, factor: float) -> FourierWeights:
        scaled = (replace(term, series=factor * term.series) for term in self.terms)
        return FourierWeights(self.period, tuple(scaled))
