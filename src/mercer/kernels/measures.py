"""Spectral measures: what a stationary kernel is the Fourier transform of.

Everywhere k(x − y) = ∫ cos(ω·(x − y)) dμ(ω), with the total mass μ(ℝ^d) = k(0). Where μ has a
density p, k(x − y) = ∫ p(ω) cos(ω·(x − y)) dω: in the other usual notation p = q̂/(2π)^d.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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

    @property
    def has_density(self) -> bool | None:
        """Whether there is a density; None where it is not known."""
        return True

    @property
    def has_formula(self) -> bool:
        """Whether the density can be computed."""
        return True

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

    def _unit_density(self, rows: np.ndarray) -> np.ndarray:
        return float(np.prod(self.lengthscales)) * self._standard(rows * self.lengthscales)

    def _draw(self, size: int, random: np.random.Generator) -> np.ndarray:
        return self._standard_draw((size, self.dimension), random) / self.lengthscales

    def covariance(self) -> np.ndarray:
        out = np.zeros((self.dimension, self.dimension))
        np.fill_diagonal(out, self.variance / np.square(self.lengthscales))
        return out

    @property
    def variance(self) -> float:
        """E u_k²."""
        return 1.0

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

    Those of a product of kernels, with A_i the identity (None), of kernels on groups of columns
    (the list of their numbers) and of k(Ax, Ay). There is a density where ω_i with one reach all
    directions, and none where all together do not. It has the formula p(A^{−ᵀ}ω)/|det A| where the
    matrices A_i, one above the other, are an invertible matrix A.
    """

    parts: Sequence[SpectralMeasure]
    maps: Sequence[Any]

    def _matrix(self, which: Any) -> np.ndarray:
        identity = np.eye(self.dimension)
        return identity if which is None else which if np.ndim(which) == 2 else identity[which]

    def covariance(self) -> np.ndarray:
        out = np.zeros((self.dimension, self.dimension))
        for part, which in zip(self.parts, self.maps, strict=True):
            inner, matrix = part.covariance(), self._matrix(which)
            if np.isfinite(inner).all():
                out += matrix.T @ inner @ matrix
            elif np.ndim(which) == 2:
                out += math.inf
            else:
                out[np.ix_(*[range(self.dimension) if which is None else which] * 2)] += inner
        return out

    def _reaches_all(self, maps: Sequence[Any]) -> bool:
        if any(which is None for which in maps):
            return True
        if all(np.ndim(which) == 1 for which in maps):
            return len({column for group in maps for column in group}) == self.dimension
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
            if which is None or np.ndim(which) == 2:
                out += draw if which is None else draw @ which
            else:
                out[:, which] += draw
        return out
