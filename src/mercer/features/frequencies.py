"""Frequencies of a stationary kernel: independent, orthogonal, or from a quasi-random sequence."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from scipy.special import gammaincinv, ndtri, roots_jacobi
from scipy.stats import qmc

from mercer.kernels import laws, measures
from mercer.kernels.algebra import Scaled
from mercer.kernels.base import Kernel
from mercer.kernels.measures import SpectralMeasure
from mercer.kernels.radial import Radial

SAMPLINGS = ("independent", "orthogonal", "quasi-random")
DRAWN = 1 << 20  # numbers that are drawn together for their lengths


def spectral_measure(kernel: Kernel, dimension: int) -> SpectralMeasure:
    """The spectral measure, or a refusal that says why there is none.

    >>> from mercer.kernels import Gaussian
    >>> spectral_measure(Gaussian(), 2).total
    1.0
    """
    answer = laws.spectral_density(kernel, dimension)
    if answer.payload is None:
        raise ValueError(
            f"random Fourier features need a spectral measure that can be sampled, and {kernel!r} "
            f"has none on {dimension} columns: {answer.because}. Nystroem takes any kernel."
        )
    assert isinstance(answer.payload, SpectralMeasure)
    return answer.payload


@dataclass(frozen=True)
class Isotropic:
    """A kernel as an isotropic one of rescaled columns: k(x, y) = k₀(Dx, Dy), D = diag(scales)."""

    kernel: Kernel
    scales: np.ndarray

    @classmethod
    def of(cls, kernel: Kernel, dimension: int, purpose: str) -> Isotropic:
        """Refuses what is not isotropic after rescaling the columns."""
        bare = kernel.kernel if isinstance(kernel, Scaled) else kernel
        if isinstance(bare, Radial) and np.ndim(bare._lengthscale) > 0:
            scales = 1.0 / np.asarray(bare._lengthscale, np.float64)
            if len(scales) != dimension:
                raise ValueError(
                    f"{len(scales)} lengthscales were given for points with {dimension} columns: "
                    "give one lengthscale, or one for each column."
                )
            return cls(bare.with_(lengthscale=1.0), scales)
        answer = laws.isotropic(kernel, dimension)
        if not answer.yes:
            raise ValueError(
                f"{purpose} needs a kernel of the distance ‖x − y‖ (columns may be rescaled), and "
                f"{kernel!r} is not known to be one: {answer.because}. Write "
                'RandomFourierFeatures(kernel, sampling="independent").'
            )
        return cls(kernel, np.ones(dimension))

    def radii(self, dimension: int, count: int, random: np.random.Generator) -> np.ndarray:
        """Lengths ‖ω‖ of frequencies in ℝ^dimension, which may be more columns than there are."""
        measure = spectral_measure(self.kernel, dimension)
        step = max(1, DRAWN // dimension)
        return np.concatenate(
            [
                np.linalg.norm(measure.sample(min(step, count - start), random), axis=1)
                for start in range(0, count, step)
            ]
        )


def draw(
    kernel: Kernel, dimension: int, count: int, sampling: str, random: np.random.Generator
) -> np.ndarray:
    """So many frequencies in the rows of an array (count, dimension)."""
    if sampling == "independent":
        return spectral_measure(kernel, dimension).sample(count, random)
    if sampling == "orthogonal":
        return _orthogonal(kernel, dimension, count, random)
    if sampling == "quasi-random":
        return _quasi_random(spectral_measure(kernel, dimension), count, random)
    raise ValueError(f"sampling must be one of {list(SAMPLINGS)}; got {sampling!r}.")


def _orthogonal(
    kernel: Kernel, dimension: int, count: int, random: np.random.Generator
) -> np.ndarray:
    """Blocks of d orthogonal directions, uniform on the sphere, with independent lengths."""
    spectrum = Isotropic.of(kernel, dimension, "orthogonal sampling")
    blocks = [_haar(dimension, random) for _ in range(math.ceil(count / dimension))]
    directions = np.concatenate(blocks)[:count]
    radii = spectrum.radii(dimension, count, random)
    return radii[:, None] * directions * spectrum.scales


def _haar(size: int, random: np.random.Generator) -> np.ndarray:
    """An orthogonal matrix from the uniform law on all of them."""
    q, r = np.linalg.qr(random.standard_normal((size, size)))
    return q * np.sign(np.diagonal(r))


@dataclass(frozen=True)
class Orthogonal:
    """Correlations between cos(ω₁·h) and cos(ω₂·h), for directions of one block."""

    radii: np.ndarray
    dimension: int

    @classmethod
    def of(cls, spectrum: Isotropic, dimension: int, pairs: int = 4096) -> Orthogonal:
        """From a fixed sample of lengths."""
        radii = spectrum.radii(dimension, 2 * pairs, np.random.default_rng(0))
        return cls(radii.reshape(2, pairs), dimension)

    def covariance(self, lengths: np.ndarray) -> np.ndarray:
        """Of cos(ω₁·h) and cos(ω₂·h) for orthogonal directions u₁, u₂ and independent lengths.

        E cos(√(r₁² + r₂²) u·h) − E cos(r₁ u·h) cos(r₂ u'·h) with independent u, u', both from the
        same lengths, so that nothing is lost where they nearly cancel.
        """
        squares = self.radii**2
        out = []
        for h in lengths:
            apart = self._mean_cosine(squares * h**2).prod(axis=0)
            out.append(np.mean(self._mean_cosine(squares.sum(axis=0) * h**2) - apart))
        return np.array(out)

    def structured_excess(self, lengths: np.ndarray) -> np.ndarray:
        """What directions of Fastfood, of correlation 2/D in the mean square, have on top.

        (E r²h²/D cos(ω·h))²/D, to leading order in 1/D.
        """
        squares, size = self.radii.ravel() ** 2, self.dimension
        means = [
            (squares * h**2 / size * self._mean_cosine(squares * h**2)).mean() for h in lengths
        ]
        return np.square(means) / size

    def _mean_cosine(self, squares: np.ndarray) -> np.ndarray:
        """E cos(t u) over the first coordinate u of a uniform direction, at t²."""
        nodes, weights = _sphere_rule(self.dimension)
        return np.cos(np.sqrt(squares)[..., None] * nodes) @ weights


def _sphere_rule(dimension: int, count: int = 96) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for one coordinate of a uniform direction, whose law is (1 − u²)^{(D−3)/2}.

    >>> nodes, weights = _sphere_rule(5)
    >>> bool(np.isclose(weights.sum(), 1.0)), bool(np.isclose(weights @ nodes**2, 1 / 5))
    (True, True)
    """
    if dimension == 1:
        return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    power = 0.5 * (dimension - 3)
    if dimension <= 64:
        nodes, weights = roots_jacobi(count, power, power)
    else:  # the law is nearly normal, with the variance 1/D
        reach = min(1.0, 10.0 / math.sqrt(dimension))
        nodes, weights = np.polynomial.legendre.leggauss(count)
        nodes = reach * nodes
        weights = weights * np.exp(power * np.log1p(-np.square(nodes)))
    return nodes, weights / weights.sum()


# ---- quasi-random: frequencies as functions of points in the unit cube ---------------------------


def _quasi_random(measure: SpectralMeasure, count: int, random: np.random.Generator) -> np.ndarray:
    engine = qmc.Sobol(cube_dimension(measure), scramble=True, rng=random)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of counts that are no power of two
        points = engine.random(count)
    smallest = 2.0**-53
    return from_cube(measure, np.clip(points, smallest, 1.0 - smallest))


@singledispatch
def cube_dimension(measure: Any) -> int:
    """How many uniform numbers a frequency is made of."""
    raise ValueError(
        f"quasi-random sampling does not know {type(measure).__name__}: write "
        'sampling="independent".'
    )


@singledispatch
def from_cube(measure: Any, u: np.ndarray) -> np.ndarray:
    """Frequencies from rows of uniform numbers."""
    raise NotImplementedError


@cube_dimension.register(measures.Normal)
@cube_dimension.register(measures.CauchyFrequencies)
@cube_dimension.register(measures.LaplaceFrequencies)
def _(measure: SpectralMeasure) -> int:
    return measure.dimension


@cube_dimension.register(measures.Student)
@cube_dimension.register(measures.GammaMixture)
def _(measure: SpectralMeasure) -> int:
    return measure.dimension + 1


@cube_dimension.register(measures.Tabulated)
def _(measure: measures.Tabulated) -> int:
    if measure.sampler is not None:
        raise ValueError(
            "quasi-random sampling cannot use the sampler of a Spectral kernel: leave it out, or "
            'write sampling="independent".'
        )
    return measure.dimension


@cube_dimension.register(measures.Zero)
def _(measure: measures.Zero) -> int:
    return 1


@cube_dimension.register(measures.Mixture)
def _(measure: measures.Mixture) -> int:
    return 1 + max(cube_dimension(part) for part in measure.parts)


@cube_dimension.register(measures.Convolution)
@cube_dimension.register(measures.Independent)
def _(measure: Any) -> int:
    return sum(cube_dimension(part) for part in measure.parts)


@cube_dimension.register(measures.Multiple)
@cube_dimension.register(measures.Mapped)
def _(measure: Any) -> int:
    return cube_dimension(measure.inner)


@from_cube.register
def _(measure: measures.Normal, u: np.ndarray) -> np.ndarray:
    return ndtri(u) / measure.lengthscales


@from_cube.register
def _(measure: measures.CauchyFrequencies, u: np.ndarray) -> np.ndarray:
    return np.tan(math.pi * (u - 0.5)) / measure.lengthscales


@from_cube.register
def _(measure: measures.LaplaceFrequencies, u: np.ndarray) -> np.ndarray:
    signed = u - 0.5
    return -np.sign(signed) * np.log1p(-2.0 * np.abs(signed)) / measure.lengthscales


@from_cube.register
def _(measure: measures.Student, u: np.ndarray) -> np.ndarray:
    v = measure.smoothness
    mixing = gammaincinv(v, u[:, :1]) / v  # χ² with 2ν degrees of freedom, over 2ν
    return ndtri(u[:, 1:]) / np.sqrt(mixing) / measure.lengthscales


@from_cube.register
def _(measure: measures.GammaMixture, u: np.ndarray) -> np.ndarray:
    mixing = gammaincinv(measure.mixture, u[:, :1]) / measure.mixture
    return ndtri(u[:, 1:]) * np.sqrt(mixing) / measure.lengthscales


@from_cube.register
def _(measure: measures.Tabulated, u: np.ndarray) -> np.ndarray:
    """By the inverse of the distribution of the density that is linear between the nodes."""
    fine = np.linspace(0.0, measure.table[-1], 64 * len(measure.table))
    values = np.asarray(measure.function(fine), np.float64)
    mass = np.append(0.0, np.cumsum(0.5 * (values[1:] + values[:-1])))
    signed = 2.0 * u - 1.0
    return np.sign(signed) * np.interp(np.abs(signed), mass / mass[-1], fine)


@from_cube.register
def _(measure: measures.Zero, u: np.ndarray) -> np.ndarray:
    return np.zeros((len(u), measure.dimension))


@from_cube.register
def _(measure: measures.Mixture, u: np.ndarray) -> np.ndarray:
    shares = np.cumsum([part.total for part in measure.parts]) / measure.total
    choice = np.minimum(np.searchsorted(shares, u[:, 0]), len(shares) - 1)
    out = np.empty((len(u), measure.dimension))
    for number, part in enumerate(measure.parts):
        rows = u[choice == number, 1:]
        out[choice == number] = from_cube(part, rows[:, : cube_dimension(part)])
    return out


def _split(measure: Any, u: np.ndarray) -> list[np.ndarray]:
    ends = np.cumsum([cube_dimension(part) for part in measure.parts])
    pieces = np.split(u, ends[:-1], axis=1)
    return [from_cube(part, piece) for part, piece in zip(measure.parts, pieces, strict=True)]


@from_cube.register
def _(measure: measures.Convolution, u: np.ndarray) -> np.ndarray:
    return np.asarray(sum(_split(measure, u)))


@from_cube.register
def _(measure: measures.Independent, u: np.ndarray) -> np.ndarray:
    out = np.zeros((len(u), measure.dimension))
    for frequencies, group in zip(_split(measure, u), measure.groups, strict=True):
        out[:, list(group)] = frequencies
    return out


@from_cube.register
def _(measure: measures.Multiple, u: np.ndarray) -> np.ndarray:
    return from_cube(measure.inner, u)


@from_cube.register
def _(measure: measures.Mapped, u: np.ndarray) -> np.ndarray:
    return from_cube(measure.inner, u) @ measure.matrix
