"""Spectral measures and Fourier weights: what a stationary kernel is the Fourier transform of.

Everywhere k(x − y) = ∫ cos(ω·(x − y)) dμ(ω), with the total mass μ(ℝ^d) = k(0). Where μ has a
density p, k(x − y) = ∫ p(ω) cos(ω·(x − y)) dω: in the other usual notation p = q̂/(2π)^d.

On the circle, with u the fractional part of (x − y)/period, the Fourier weights of k are
∫₀¹ k(u) e^{−2iπmu} du: those of a sum add up and those of a product are convolved, Σ_j a_j b_{m−j}
over all whole numbers j. They are not negative, so that adding them up loses no digit; only the
ends of the sums need care.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy  # its parts are loaded where they are used

Seed = int | np.random.Generator | np.random.RandomState | None


@dataclass(frozen=True, eq=False)
class SpectralMeasure:
    """A measure on the frequencies of ℝ^d, of total mass k(0).

    Attributes
    ----------
    dimension : int
        d.
    total : float
        k(0).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian, laws
    >>> measure = laws.spectral_density(2.0 * Gaussian(0.5), dimension=3).payload
    >>> measure.total, measure.sample(4, random_state=0).shape
    (2.0, (4, 3))
    >>> bool(
    ...     np.isclose(measure.density(np.zeros((1, 3)))[0], 2.0 * (0.5 / np.sqrt(2 * np.pi)) ** 3)
    ... )
    True
    """

    dimension: int
    total: float

    has_density: ClassVar[Any] = True
    """Whether there is a density; None where it is not known."""
    has_formula: ClassVar[Any] = True
    """Whether the density can be computed."""

    def density(self, frequencies: Any) -> np.ndarray:
        """p(ω) for each row ω of an array of shape (n, d)."""
        rows = np.asarray(frequencies, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.dimension:
            raise ValueError(
                f"frequencies are rows of {self.dimension} numbers, an array of shape "
                f"(n, {self.dimension}); got shape {rows.shape}."
            )
        return self.total * self._unit_density(rows)

    def sample(self, size: int, random_state: Seed = None) -> np.ndarray:
        """Draw `size` frequencies from p/k(0), an array of shape (size, d)."""
        return self._draw(int(size), generator(random_state))

    def covariance(self) -> np.ndarray:
        """E ωωᵀ of a frequency from p/k(0), infinite where it has no second moment.

        It is −∇²k(0)/k(0), so that k(0) − k(h) ≤ ½ k(0) hᵀCh.

        >>> from mercer.kernels import Gaussian, laws
        >>> laws.spectral_density(Gaussian(0.5), dimension=2).payload.covariance().tolist()
        [[4.0, 0.0], [0.0, 4.0]]
        """
        raise NotImplementedError

    def _unit_density(self, rows: np.ndarray) -> np.ndarray:
        raise ValueError(
            f"{type(self).__name__} has no formula for its density; measure.sample draws from it."
        )

    def _draw(self, size: int, random: np.random.Generator) -> np.ndarray:
        raise NotImplementedError


def generator(random_state: Seed) -> np.random.Generator:
    """A generator from what scikit-learn's users pass as `random_state`."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)


# ---- the classical ones --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Rescaled(SpectralMeasure):
    """A standard density p₀ in u = (ℓ_1 ω_1, …, ℓ_d ω_d): p(ω) = Π ℓ_k · p₀(u)."""

    lengthscales: Any

    variance: ClassVar[Any] = 1.0
    """E u_k²."""

    def _unit_density(self, rows: np.ndarray) -> np.ndarray:
        return float(np.prod(self.lengthscales)) * self._standard(rows * self.lengthscales)

    def _draw(self, size: int, random: np.random.Generator) -> np.ndarray:
        return self._standard_draw((size, self.dimension), random) / self.lengthscales

    def covariance(self) -> np.ndarray:
        out = np.zeros((self.dimension, self.dimension))
        np.fill_diagonal(out, self.variance / np.square(self.lengthscales))
        return out

    def _standard(self, u: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _standard_draw(self, shape: tuple[int, int], random: np.random.Generator) -> np.ndarray:
        raise NotImplementedError


class Normal(_Rescaled):
    """The measure of the Gaussian kernel: (2π)^{−d/2} e^{−‖u‖²/2}."""

    def _standard(self, u: np.ndarray) -> np.ndarray:
        return (2.0 * math.pi) ** (-self.dimension / 2) * np.exp(-0.5 * (u * u).sum(axis=1))

    def _standard_draw(self, shape: tuple[int, int], random: np.random.Generator) -> np.ndarray:
        return random.standard_normal(shape)


@dataclass(frozen=True, eq=False)
class Student(_Rescaled):
    """The measure of the Matérn kernel: Student's t with 2ν degrees of freedom.

    Γ(ν + d/2)/(Γ(ν) (2νπ)^{d/2}) · (1 + ‖u‖²/(2ν))^{−(ν + d/2)}.
    """

    smoothness: float

    @property
    def variance(self) -> float:
        return self.smoothness / (self.smoothness - 1.0) if self.smoothness > 1.0 else math.inf

    def _standard(self, u: np.ndarray) -> np.ndarray:
        v, half = self.smoothness, self.dimension / 2
        constant = math.lgamma(v + half) - math.lgamma(v) - half * math.log(2.0 * v * math.pi)
        return np.exp(constant - (v + half) * np.log1p((u * u).sum(axis=1) / (2.0 * v)))

    def _standard_draw(self, shape: tuple[int, int], random: np.random.Generator) -> np.ndarray:
        mixing = random.chisquare(2.0 * self.smoothness, (shape[0], 1)) / (2.0 * self.smoothness)
        return random.standard_normal(shape) / np.sqrt(mixing)


@dataclass(frozen=True, eq=False)
class GammaMixture(_Rescaled):
    """The measure of the rational quadratic kernel: N(0, τI) with τ ~ Gamma(α) of mean 1.

    2 (2π)^{−d/2} α^α/Γ(α) · (‖u‖²/(2α))^{b/2} K_b(√(2α) ‖u‖) with b = α − d/2.
    """

    mixture: float

    def _standard(self, u: np.ndarray) -> np.ndarray:
        a, b = self.mixture, self.mixture - self.dimension / 2
        z = math.sqrt(2.0 * a) * np.sqrt((u * u).sum(axis=1))
        constant = a * math.log(a) - math.lgamma(a) - 0.5 * self.dimension * math.log(2.0 * math.pi)
        at_zero = math.exp(constant + math.lgamma(b) - b * math.log(a)) if b > 0 else math.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            # (‖u‖²/(2α))^{b/2} = (z/(2α))^b
            power = constant + math.log(2.0) + b * (np.log(z) - math.log(2.0 * a)) - z
            return np.where(z > 0, np.exp(power + np.log(scipy.special.kve(b, z))), at_zero)

    def _standard_draw(self, shape: tuple[int, int], random: np.random.Generator) -> np.ndarray:
        mixing = random.gamma(self.mixture, 1.0 / self.mixture, (shape[0], 1))
        return random.standard_normal(shape) * np.sqrt(mixing)


class CauchyFrequencies(_Rescaled):
    """The measure of the Laplacian kernel: independent columns, Π 1/(π(1 + u_k²))."""

    variance = math.inf

    def _standard(self, u: np.ndarray) -> np.ndarray:
        return np.prod(1.0 / (math.pi * (1.0 + u * u)), axis=1)

    def _standard_draw(self, shape: tuple[int, int], random: np.random.Generator) -> np.ndarray:
        return random.standard_cauchy(shape)


class LaplaceFrequencies(_Rescaled):
    """The measure of the product Cauchy kernel: independent columns, Π e^{−|u_k|}/2."""

    variance = 2.0

    def _standard(self, u: np.ndarray) -> np.ndarray:
        return np.prod(0.5 * np.exp(-np.abs(u)), axis=1)

    def _standard_draw(self, shape: tuple[int, int], random: np.random.Generator) -> np.ndarray:
        return random.laplace(size=shape)


@dataclass(frozen=True, eq=False)
class Tabulated(SpectralMeasure):
    """Independent columns with a density of the user, cut at the ends of its table."""

    function: Callable[[np.ndarray], Any]
    table: np.ndarray
    sampler: Callable[..., Any] | None

    def _moment(self, order: int) -> float:
        values = np.asarray(self.function(self.table), np.float64)
        return 2.0 * float(np.trapezoid(values * self.table**order, self.table))

    def covariance(self) -> np.ndarray:
        return self._moment(2) / self._moment(0) * np.eye(self.dimension)

    def _unit_density(self, rows: np.ndarray) -> np.ndarray:
        inside = np.abs(rows) <= self.table[-1]
        values = np.asarray(self.function(np.abs(rows).ravel())).reshape(rows.shape)
        return np.prod(np.where(inside, values, 0.0) / self._moment(0), axis=1)

    def _draw(self, size: int, random: np.random.Generator) -> np.ndarray:
        count = size * self.dimension
        draw = self._interpolated if self.sampler is None else self.sampler
        return np.asarray(draw(count, random), np.float64).reshape(size, self.dimension)

    def _interpolated(self, count: int, random: np.random.Generator) -> np.ndarray:
        """From the density that is linear between the nodes, by its inverse distribution."""
        values = np.asarray(self.function(self.table), np.float64)
        mass = np.append(0.0, np.cumsum(0.5 * (values[1:] + values[:-1])))
        signed = 2.0 * random.random(count) - 1.0
        area = np.abs(signed) * mass[-1]
        interval = np.clip(np.searchsorted(mass, area, side="right") - 1, 0, len(mass) - 2)
        start, slope = values[interval], np.diff(values)[interval]
        area -= mass[interval]
        place = 2.0 * area / (start + np.sqrt(np.maximum(start**2 + 2.0 * slope * area, 0.0)))
        frequencies = self.table[interval] + place * np.diff(self.table)[interval]
        return np.copysign(frequencies, signed)


# ---- measures from measures ----------------------------------------------------------------------


class Zero(SpectralMeasure):
    """The measure of a constant: all mass at frequency 0."""

    has_density = False
    has_formula = False

    def covariance(self) -> np.ndarray:
        return np.zeros((self.dimension, self.dimension))

    def _draw(self, size: int, random: np.random.Generator) -> np.ndarray:
        return np.zeros((size, self.dimension))


@dataclass(frozen=True, eq=False)
class Mixture(SpectralMeasure):
    """The measure of a sum of kernels: the sum of their measures."""

    parts: Sequence[SpectralMeasure]

    def _shares(self) -> np.ndarray:
        totals = np.array([part.total for part in self.parts])
        return totals / totals.sum()

    def covariance(self) -> np.ndarray:
        shares = zip(self._shares(), self.parts, strict=True)
        return np.asarray(sum(share * part.covariance() for share, part in shares))

    @property
    def has_density(self) -> bool | None:
        known = {part.has_density for part in self.parts}
        return False if False in known else None if None in known else True

    @property
    def has_formula(self) -> bool:
        return all(part.has_formula for part in self.parts)

    def _unit_density(self, rows: np.ndarray) -> np.ndarray:
        shares = zip(self._shares(), self.parts, strict=True)
        return np.asarray(sum(share * part._unit_density(rows) for share, part in shares))

    def _draw(self, size: int, random: np.random.Generator) -> np.ndarray:
        choice = random.choice(len(self.parts), size, p=self._shares())
        draws = np.stack([part._draw(size, random) for part in self.parts])
        return draws[choice, np.arange(size)]


@dataclass(frozen=True, eq=False)
class Images(SpectralMeasure):
    """Frequencies Σ_i A_iᵀω_i with independent ω_i.

    Those of a product of kernels, of kernels on groups of columns (the list of their numbers stands
    for rows of the identity) and of k(Ax, Ay). There is a density where ω_i with one reach all
    directions, and none where all together do not. It has the formula p(A^{−ᵀ}ω)/|det A| where the
    matrices A_i, one above the other, are an invertible matrix A.
    """

    parts: Sequence[SpectralMeasure]
    maps: Sequence[Any]

    def _matrix(self, which: Any) -> np.ndarray:
        return which if np.ndim(which) == 2 else np.eye(self.dimension)[which]

    def covariance(self) -> np.ndarray:
        out = np.zeros((self.dimension, self.dimension))
        for part, which in zip(self.parts, self.maps, strict=True):
            inner, matrix = part.covariance(), self._matrix(which)
            if np.isfinite(inner).all():
                out += matrix.T @ inner @ matrix
            elif np.ndim(which) == 2:
                out += math.inf
            else:
                out[np.ix_(which, which)] += inner
        return out

    def _reaches_all(self, maps: Sequence[Any]) -> bool:
        groups = [which for which in maps if np.ndim(which) == 1]
        seen = len({column for group in groups for column in group})
        if seen == self.dimension or len(groups) == len(maps):
            return seen == self.dimension
        rows = np.vstack([self._matrix(which) for which in maps])
        return int(np.linalg.matrix_rank(rows)) == self.dimension

    @property
    def has_density(self) -> bool | None:
        pairs = zip(self.parts, self.maps, strict=True)
        solid = [which for part, which in pairs if part.has_density]
        if solid and self._reaches_all(solid):
            return True
        return None if self._reaches_all(self.maps) else False

    @property
    def has_formula(self) -> bool:
        square = sum(part.dimension for part in self.parts) == self.dimension
        formulas = all(part.has_formula for part in self.parts)
        return square and formulas and self._reaches_all(self.maps)

    def _unit_density(self, rows: np.ndarray) -> np.ndarray:
        if not self.has_formula:
            return super()._unit_density(rows)
        matrix = np.vstack([self._matrix(which) for which in self.maps])
        images = np.linalg.solve(matrix.T, rows.T).T
        ends = np.cumsum([part.dimension for part in self.parts])[:-1]
        pieces = zip(self.parts, np.split(images, ends, axis=1), strict=True)
        density = np.prod([part._unit_density(piece) for part, piece in pieces], axis=0)
        return density / abs(float(np.linalg.det(matrix)))

    def _draw(self, size: int, random: np.random.Generator) -> np.ndarray:
        out = np.zeros((size, self.dimension))
        for part, which in zip(self.parts, self.maps, strict=True):
            draw = part._draw(size, random)
            if np.ndim(which) == 2:
                out += draw @ which
            else:
                out[:, which] += draw
        return out


# ---- on the circle: Fourier weights, and what sums and products make of them ---------------------


@dataclass(frozen=True)
class Tuning:
    """How far convolutions are added up, and how their ends are integrated.

    A sum over |j| ≤ R, R = m + terms, leaves at most the share 1/R of a convolution; with the
    integral over j > R in its place R^{−5} of the sum is left, which is rounding.
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

    def weights(self, count: int, tuning: Tuning = Tuning()) -> np.ndarray:
        factors = [(partial(_power, s), 2.0 * s) for s in sorted(self.orders, reverse=True)]
        if self.rate is not None:
            factors.append((partial(_exponential, self.rate), 2.0))
        values, decay = self.series, math.inf
        while factors:
            factor, own = factors.pop(0)
            further = len(factors) * tuning.terms
            values = _convolved(values, decay, factor, count + further, tuning)
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

    def __call__(self, count: int) -> np.ndarray:
        """1/c_m for m = 0, …, count."""
        zero = np.zeros(count + 1)
        return sum((term.weights(count) for term in self.terms), zero)

    def __add__(self, other: FourierWeights) -> FourierWeights:
        return FourierWeights(max(self.period, other.period), self.terms + other.terms)

    def __mul__(self, other: FourierWeights) -> FourierWeights:
        terms = (term for a in self.terms for b in other.terms for term in a.times(b))
        return FourierWeights(max(self.period, other.period), tuple(terms))

    def __rmul__(self, factor: float) -> FourierWeights:
        scaled = (replace(term, series=factor * term.series) for term in self.terms)
        return FourierWeights(self.period, tuple(scaled))
