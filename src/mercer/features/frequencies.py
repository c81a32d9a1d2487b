"""Frequencies of stationary kernels, drawn from their spectral measures.

`FrequencySampler` draws them for feature maps, solvers and online machines: independent, in
orthogonal blocks, or from a quasi-random sequence; all at once, or in blocks that can be drawn
again by their number. `IsotropicSpectrum` holds what is special to kernels of the distance:
lengths and directions are independent, which orthogonal sampling and Fastfood build on.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy.special import gammaincinv, jv, ndtri, roots_jacobi
from scipy.stats import qmc

from mercer.kernels import laws
from mercer.kernels.algebra import Scaled
from mercer.kernels.base import Kernel
from mercer.kernels.measures import Seed, SpectralMeasure, generator
from mercer.kernels.radial import Radial

FREQUENCY_SAMPLINGS = ("independent", "orthogonal", "quasi-random")
TURN = 2.0 * math.pi


@dataclass(frozen=True)
class FrequencySampler:
    """Draws ω from the spectral measure of a stationary kernel: k(x, y) = k(0) E cos(ω·(x − y)).

    Parameters
    ----------
    kernel : Kernel
        Any whose spectral measure is known: sums, products, multiples and input maps included.
    dimension : int
        Columns of a point.
    sampling : {"independent", "orthogonal", "quasi-random"}, default="independent"
        Each ω has the law of the measure in every case, so that means over them are unbiased.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian, Matern
    >>> sampler = FrequencySampler(2.0 * Gaussian(0.5) * Matern(1.5), dimension=3)
    >>> sampler.amplitude, sampler.draw(100, random_state=0).shape
    (2.0, (100, 3))
    >>> first, again = (sampler.block(7, 100, seed=0) for _ in range(2))
    >>> bool(np.array_equal(first[0], again[0]) and np.array_equal(first[1], again[1]))
    True
    """

    kernel: Kernel
    dimension: int
    sampling: str = "independent"
    measure: SpectralMeasure = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.sampling not in FREQUENCY_SAMPLINGS:
            raise ValueError(
                f"sampling must be one of {list(FREQUENCY_SAMPLINGS)}; got {self.sampling!r}."
            )
        answer = laws.spectral_density(self.kernel, self.dimension)
        if answer.payload is None:
            raise ValueError(
                "random Fourier features need a spectral measure that can be sampled, and "
                f"{self.kernel!r} has none on {self.dimension} columns: {answer.because}. "
                "Nystroem, NystroemMachine and CentresNewton take any kernel."
            )
        object.__setattr__(self, "measure", answer.payload)

    @property
    def amplitude(self) -> float:
        """k(0)."""
        return float(self.measure.total)

    def draw(self, count: int, random_state: Seed = None) -> np.ndarray:
        """Draw `count` frequencies, in the rows of an array (count, dimension)."""
        random = generator(random_state)
        if self.sampling == "orthogonal":
            return self._orthogonal(count, random)
        if self.sampling == "quasi-random":
            random = _quasi_random(self.measure, count, random)
        return self.measure.sample(count, random)

    def block(self, number: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Frequencies and phases of block 0, 1, …: independent, and the same whenever asked for.

        A function of millions of frequencies then stores its coefficients and one seed.
        """
        random = np.random.default_rng([seed, number])
        return self.draw(count, random), random.uniform(0.0, TURN, count)

    def _orthogonal(self, count: int, random: np.random.Generator) -> np.ndarray:
        """Blocks of d orthogonal directions, uniform on the sphere, with independent lengths."""
        d = self.dimension
        spectrum = IsotropicSpectrum.of(self.kernel, d, "orthogonal sampling")
        q, r = np.linalg.qr(random.standard_normal((math.ceil(count / d), d, d)))
        signs = np.sign(np.diagonal(r, axis1=1, axis2=2))  # without them q is not uniform
        directions = (q * signs[:, None]).reshape(-1, d)[:count]
        return spectrum.radii(count, random)[:, None] * directions * spectrum.scales


# ---- quasi-random numbers ------------------------------------------------------------------------


class _QuasiRandom(np.random.Generator):
    """A generator whose numbers are quantiles of the points of a low-discrepancy sequence.

    Row i of whatever a measure draws is made of the coordinates of point i, a new coordinate for
    each number, so that every measure that is sampled by transforming such numbers can be sampled
    quasi-randomly without a second formula. `used` counts the coordinates.
    """

    points: np.ndarray
    used = 0

    def random(self, size: Any = None) -> np.ndarray:  # type: ignore[override]
        columns = math.prod(np.atleast_1d(size)) // len(self.points)
        taken = self.points[:, self.used : self.used + columns]
        self.used += columns
        return taken.reshape(size)

    def standard_normal(self, size: Any = None) -> np.ndarray:  # type: ignore[override]
        return ndtri(self.random(size))

    def standard_cauchy(self, size: Any = None) -> np.ndarray:  # type: ignore[override]
        return np.tan(math.pi * (self.random(size) - 0.5))

    def laplace(self, size: Any = None) -> np.ndarray:  # type: ignore[override]
        signed = 2.0 * self.random(size) - 1.0
        return -np.sign(signed) * np.log1p(-np.abs(signed))

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> np.ndarray:  # type: ignore[override]
        return scale * gammaincinv(shape, self.random(size))

    def chisquare(self, df: Any, size: Any = None) -> np.ndarray:  # type: ignore[override]
        return self.gamma(0.5 * df, 2.0, size)

    def choice(self, a: int, size: Any, p: np.ndarray) -> np.ndarray:  # type: ignore[override]
        return np.minimum(np.searchsorted(np.cumsum(p), self.random(size)), a - 1)


def _quasi_random(
    measure: SpectralMeasure, count: int, random: np.random.Generator
) -> np.random.Generator:
    """For one draw of `count` frequencies: the quantiles of a scrambled Sobol' sequence."""
    if _has_own_sampler(measure):
        raise ValueError(
            "quasi-random sampling cannot use the sampler of a Spectral kernel: leave it out, or "
            'write sampling="independent".'
        )
    numbers = _QuasiRandom(random.bit_generator)
    numbers.points = np.broadcast_to(0.5, (1, 1 << 31))
    measure.sample(1, numbers)  # counts the coordinates
    engine = qmc.Sobol(max(1, numbers.used), scramble=True, rng=random)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # counts that are not a power of two
        points = engine.random(count)
    smallest = 2.0**-53  # quantiles at 0 and 1 are infinite
    numbers.points, numbers.used = np.clip(points, smallest, 1.0 - smallest), 0
    return numbers


def _has_own_sampler(measure: Any) -> bool:
    inner = [*getattr(measure, "parts", ()), getattr(measure, "inner", None)]
    return getattr(measure, "sampler", None) is not None or any(
        _has_own_sampler(part) for part in inner if part is not None
    )


# ---- kernels of the distance ---------------------------------------------------------------------


@dataclass(frozen=True)
class Tuning:
    """How the laws of lengths and directions are computed."""

    drawn: int = 1 << 20  # numbers drawn together where only their lengths are needed: 8 MB
    pairs: int = 4096  # of lengths behind a covariance, whose relative error is 1/√pairs
    nodes: int = 96  # of the rule over a direction, exact to rounding for arguments up to `reach`
    reach: float = 64.0  # beyond, Bessel functions serve: cosines are too fast for the rule
    nearly_normal: int = 64  # columns beyond which ten deviations 1/√D hold a direction's law


TUNING = Tuning()


@dataclass(frozen=True)
class IsotropicSpectrum:
    """Frequencies of k(x, y) = k₀(Dx, Dy), k₀ a kernel of the distance and D = diag(scales).

    ω = r·D·u with independent r = ‖D⁻¹ω‖ and u, which is uniform on the sphere of ℝ^size; size may
    exceed the number of columns (Fastfood fills points with zeros).
    """

    kernel: Kernel
    scales: np.ndarray
    size: int

    @classmethod
    def of(cls, kernel: Kernel, columns: int, purpose: str, size: int | None = None) -> Self:
        """Refuses kernels that do not depend on the distance after rescaling the columns."""
        size = columns if size is None else size
        bare = kernel.kernel if isinstance(kernel, Scaled) else kernel
        if isinstance(bare, Radial) and np.ndim(bare.lengthscale) > 0:
            scales = 1.0 / np.asarray(bare.lengthscale, np.float64)
            if len(scales) != columns:
                raise ValueError(
                    f"{len(scales)} lengthscales were given for points with {columns} columns: "
                    "give one lengthscale, or one for each column."
                )
            return cls(bare.with_(lengthscale=1.0), scales, size)
        answer = laws.isotropic(kernel, columns)
        if not answer.yes:
            raise ValueError(
                f"{purpose} needs a kernel of the distance ‖x − y‖ (columns may be rescaled), and "
                f"{kernel!r} is not known to be one: {answer.because}. Write "
                'RandomFourierFeatures(kernel, sampling="independent").'
            )
        return cls(kernel, np.ones(columns), size)

    def radii(self, count: int, random: np.random.Generator) -> np.ndarray:
        """Lengths r of so many frequencies in ℝ^size."""
        measure = FrequencySampler(self.kernel, self.size).measure
        step = max(1, TUNING.drawn // self.size)
        sizes = (min(step, count - start) for start in range(0, count, step))
        lengths = [np.linalg.norm(measure.sample(size, random), axis=1) for size in sizes]
        return np.concatenate(lengths)

    def orthogonal_covariance(self, h: np.ndarray) -> np.ndarray:
        """Of cos(ω₁·h) and cos(ω₂·h), for orthogonal directions and independent lengths.

        E cos(√(r₁² + r₂²) u·h) − E cos(r₁ u·h) cos(r₂ v·h) with u, v independent, both from the
        same lengths, so that nothing is lost where they nearly cancel.
        """
        first, second = self._sample()
        out = []
        for t in np.linalg.norm(h * self.scales, axis=1):
            apart = self.mean_cosine(first * t) * self.mean_cosine(second * t)
            out.append(np.mean(self.mean_cosine(np.hypot(first, second) * t) - apart))
        return np.array(out)

    def fastfood_excess(self, h: np.ndarray) -> np.ndarray:
        """The additional variance of Fastfood: inner products of directions are 2/D in mean square.

        (E r²‖h‖²/D cos(ω·h))²/D for size D, to leading order in 1/D.
        """
        radii, size = np.ravel(self._sample()), self.size
        means = [
            np.mean((radii * t) ** 2 / size * self.mean_cosine(radii * t))
            for t in np.linalg.norm(h * self.scales, axis=1)
        ]
        return np.square(means) / size

    def _sample(self) -> np.ndarray:
        """A fixed sample of pairs of lengths."""
        return self.radii(2 * TUNING.pairs, np.random.default_rng(0)).reshape(2, TUNING.pairs)

    def mean_cosine(self, t: np.ndarray) -> np.ndarray:
        """E cos(t u₁) over the first coordinate of a uniform direction.

        It is Γ(D/2) (2/t)^{D/2−1} J_{D/2−1}(t), from which digits are lost where t is small beside
        D: there it is integrated. A rule alone would give numbers of order 1 for large t, where the
        mean tends to 0: lengths of rough kernels (Matérn with ν < 1) have no second moment, so that
        the sum in `fastfood_excess` was 10⁷ times too large.
        """
        nodes, weights = _sphere_rule(self.size)
        fast = t * np.abs(nodes).max() > TUNING.reach if self.size > 1 else t < 0.0
        out = np.cos(np.where(fast, 0.0, t)[:, None] * nodes) @ weights
        if self.size > TUNING.nearly_normal:  # e^{−t²/(2D)}, and t²/D > 40
            out[fast] = 0.0
        else:
            order = 0.5 * self.size - 1.0
            scale = math.gamma(0.5 * self.size) * (2.0 / t[fast]) ** order
            out[fast] = scale * jv(order, t[fast])
        return out


def _sphere_rule(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for u, a coordinate of a uniform direction, of law (1 − u²)^{(D−3)/2}."""
    if dimension == 1:
        return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    power = 0.5 * (dimension - 3)
    if dimension <= TUNING.nearly_normal:
        nodes, weights = roots_jacobi(TUNING.nodes, power, power)
    else:
        reach = min(1.0, 10.0 / math.sqrt(dimension))
        nodes, weights = np.polynomial.legendre.leggauss(TUNING.nodes)
        nodes = reach * nodes
        weights = weights * np.exp(power * np.log1p(-np.square(nodes)))
    return nodes, weights / weights.sum()
