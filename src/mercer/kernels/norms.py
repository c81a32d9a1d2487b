"""The norm of a function that is given by its Fourier series or by its Fourier transform.

On the torus, f(x) = Σ_m f̂_m e^{2iπmx/period} has ‖f‖² = Σ_m c_m |f̂_m|², 1/c_m being the Fourier
weights of the kernel. On the line, f̂(ω) = ∫ f(x) e^{−iωx} dx and q̂ = 2πp, p being the spectral
density, give ‖f‖² = (1/2π) ∫ |f̂(ω)|²/q̂(ω) dω.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.kernels.base import Kernel
from mercer.kernels.laws import SpectralMeasure, fourier_weights, spectral_density

__all__ = ["line_norm", "torus_norm"]

Transform = Callable[[float], complex]


@dataclass(frozen=True)
class Tuning:
    """How the integral over the line is taken, in octaves of frequency."""

    octaves: int = 26  # looked at on both sides of the median frequency: 2^26 is 8 decimals
    least: int = 8  # octaves above it before the sum may end
    slowest: float = 0.97  # ratio of octaves beyond which their sum is taken to diverge
    samples: int = 256  # for each octave, to find peaks: a normal peak is seen from 38 deviations,
    # where it is e^{−745}, so that those of relative width 1e-4 and more are found
    peaks: int = 8  # in an octave, the highest ones
    apart: int = 32  # samples from a peak at which it has fallen, where quadrature may miss it: its
    # first 21 nodes are 12 samples apart


def torus_norm(kernel: Kernel, coefficients: Any) -> float:
    """‖f‖ = (c_0|f̂_0|² + 2 Σ_{m≥1} c_m|f̂_m|²)^{1/2} for a real periodic function f.

    Infinite where a coefficient is not zero though the kernel has no such frequency.

    Parameters
    ----------
    kernel : Kernel
        A kernel of one column with Fourier weights: `laws.fourier_weights` says which.
    coefficients : array of shape (M + 1,)
        f̂_0, …, f̂_M, numbers or complex numbers; f̂_{−m} is the conjugate of f̂_m. From values at n
        equispaced points of one period they are `np.fft.rfft(values) / n`.

    Examples
    --------
    >>> import math
    >>> from mercer.kernels import PeriodicBernoulli
    >>> cosine = [0.0, 0.5]  # f(x) = cos(2πx), so (2π)^{−2} ∫ f'² = ½
    >>> math.isclose(torus_norm(PeriodicBernoulli(order=1), cosine) ** 2, 0.5)
    True
    """
    array = np.asarray(coefficients)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "fiuc":
        raise ValueError(
            "a real function on the torus is given by its coefficients for m = 0, 1, …, a list of "
            f"numbers such as np.fft.rfft(values) / len(values); got shape {array.shape} of "
            f"{array.dtype}."
        )
    if not np.isfinite(array).all():
        raise ValueError("Fourier coefficients must be finite; got NaN or infinity.")
    energies = np.abs(array.astype(np.complex128)) ** 2
    energies[1:] *= 2.0
    answer = fourier_weights(kernel, len(energies) - 1)
    if not answer.yes:
        raise ValueError(
            f"{kernel!r} has no known Fourier weights: {answer.because}. Write for example "
            "torus_norm(PeriodicBernoulli(), coefficients)."
        )
    inverse, used = answer.payload, energies > 0
    if (inverse[used] == 0).any():
        return math.inf
    return math.sqrt(float((energies[used] / inverse[used]).sum()))


def line_norm(
    kernel: Kernel,
    transform: Transform,
    *,
    tolerance: float = 1e-8,
    peaks: Sequence[float] = (),
    tuning: Tuning = Tuning(),
) -> float:
    """‖f‖ = ((1/4π²) ∫ |f̂(ω)|²/p(ω) dω)^{1/2} for a function f on the line.

    The integral is taken octave by octave, [2^i, 2^{i+1}] times the median frequency of the kernel.
    It ends where octaves no longer matter, or fall so regularly that the rest is a geometric sum.
    Where they do not fall up to 2^26, or overflow, the norm is infinite. Peaks of f̂ up to there are
    looked for; those of a relative width below 1e-4 must be named.

    Parameters
    ----------
    kernel : Kernel
        A kernel of one column with a spectral density: `laws.spectral_density` says which.
    transform : callable
        f̂(ω) = ∫ f(x) e^{−iωx} dx for one frequency ω.
    tolerance : float, default=1e-8
        Of the squared norm, relative. Transforms that oscillate and fall slowly reach about 1e-6.
    peaks : sequence of floats, optional
        Frequencies around which f̂ has a narrow peak.
    tuning : Tuning
        Sizes of the search and of the sum.

    Examples
    --------
    >>> import math
    >>> from mercer.kernels import Gaussian
    >>> def bump(frequency):  # of f(x) = e^{−x²/2} = k(0, x), so ‖f‖² = k(0, 0) = 1
    ...     return math.sqrt(2 * math.pi) * math.exp(-0.5 * frequency**2)
    >>> math.isclose(line_norm(Gaussian(), bump), 1.0, rel_tol=1e-7)
    True
    """
    answer = spectral_density(kernel, 1)
    if not (answer.yes and answer.payload.has_formula):
        reason = "its density has no formula" if answer.yes else answer.because
        raise ValueError(
            f"the norm of {kernel!r} on the line needs a spectral density: {reason}. Write for "
            "example line_norm(Matern(1.5), transform)."
        )
    measure: SpectralMeasure = answer.payload
    median = float(np.median(np.abs(measure.sample(1001, random_state=0))))
    integral = _Integral(measure, transform, median * 2.0**-tuning.octaves, tuning)
    return math.sqrt(integral.total([abs(peak) for peak in peaks], tolerance)) / (2.0 * math.pi)


@dataclass(frozen=True)
class _Integral:
    """∫ |f̂|²/p over the line, from the lowest frequency on in octaves, and from 0 to it."""

    measure: SpectralMeasure
    transform: Transform
    lowest: float
    tuning: Tuning

    def energy(self, frequency: float) -> float:
        """|f̂(ω)|² + |f̂(−ω)|²."""
        return abs(self.transform(frequency)) ** 2 + abs(self.transform(-frequency)) ** 2

    def sample(self, frequency: float) -> float:
        """The energy in a search, which goes further than transforms like 1/cosh ω are made for."""
        try:
            return self.energy(frequency)
        except OverflowError:
            return 0.0

    def value(self, frequency: float) -> float:
        """The integrand, for both signs of ω; 0 where f̂ is 0, however small p."""
        energy = self.energy(frequency)
        if energy == 0.0:
            return 0.0
        density = float(self.measure.density([[frequency]])[0])
        return energy / density if density > 0.0 else math.inf

    def total(self, named: Sequence[float], tolerance: float) -> float:
        """The sum over octaves; infinite where they do not fall."""
        places, least = self.peaks()
        places += [(peak, 2.0**-8 * peak) for peak in named if peak > 0.0]
        breaks = sorted(edge for place in places for edge in self.around(*place))
        most = 2 * self.tuning.octaves + 1
        highest = max([0.0, *breaks]) / self.lowest
        least = max(least, self.tuning.octaves + self.tuning.least, int(math.log2(highest + 1)) + 2)
        values: list[float] = []
        guess = math.nan
        for octave in range(max(most, least) + 1):
            start = 0.0 if octave == 0 else self.lowest * 2.0 ** (octave - 1)
            total = math.fsum(values)
            values.append(self.part(start, self.lowest * 2.0**octave, breaks, tolerance * total))
            total = math.fsum(values)
            if math.isinf(total):
                return math.inf
            if octave < least:
                continue
            if values[-1] + values[-2] <= 0.1 * tolerance * total:
                break
            previous, guess = guess, total + self.rest(values)
            if abs(guess - previous) <= tolerance * guess < math.inf or octave >= most:
                return guess
        if total == 0.0 and not named:
            raise ValueError(
                "the transform is 0 at all frequencies that were looked at, from "
                f"{self.lowest:.3g} to {self.lowest * 2.0**most:.3g}: for a narrow peak write "
                "peaks=[frequency]."
            )
        return total

    def peaks(self) -> tuple[list[tuple[float, float]], int]:
        """Peaks that samples may miss, with the distance of these, and the last octave to look at.

        That is the last in which the integrand rises again.
        """
        places, last, before = [], 0, 0.0
        size, apart = self.tuning.samples, self.tuning.apart
        for octave in range(1, 2 * self.tuning.octaves + 2):
            start = self.lowest * 2.0 ** (octave - 1)
            grid = start * (1.0 + np.arange(-1, size + 1) / size)
            energies = np.array([self.sample(frequency) for frequency in grid.tolist()])
            least = np.maximum(energies[:-2], energies[2:])
            grid, energies = grid[1:-1], energies[1:-1]
            beside = np.maximum(np.roll(energies, apart), np.roll(energies, -apart))
            floor = np.maximum(beside, np.median(energies))  # waves stay near their median
            narrow = np.flatnonzero((energies >= least) & (energies > 100.0 * floor))
            highest = narrow[np.argsort(energies[narrow])[::-1][: self.tuning.peaks]]
            places += [(float(grid[i]), start / size) for i in highest]
            here = start * self.value(float(grid[np.argmax(energies)])) if energies.any() else 0.0
            if here > 2.0 * before:
                last = octave
            before = here
        return places, last

    def around(self, place: float, step: float) -> list[float]:
        """The top of a peak and points beside it, at distances that double from its width on."""
        centre, energy = place, self.energy(place)
        while step > 1e-15 * centre:
            beside = {side: self.energy(side) for side in (centre - step, centre + step)}
            best = max(beside, key=lambda side: beside[side])
            if beside[best] > energy:
                centre, energy = best, beside[best]
            elif beside[best] >= 0.5 * energy:
                break
            else:
                step *= 0.5
        reach = range(int(math.log2(max(1.0, centre / step))))
        return [centre, *(centre + sign * step * 2.0**i for i in reach for sign in (-1.0, 1.0))]

    def part(self, start: float, stop: float, breaks: Sequence[float], absolute: float) -> float:
        from scipy.integrate import IntegrationWarning, quad  # a fifth of a second that few need

        inside = [place for place in breaks if start < place < stop]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", IntegrationWarning)
            value = quad(
                self.value,
                start,
                stop,
                points=inside or None,
                epsabs=0.1 * absolute,
                epsrel=1e-10,
                limit=400 + 2 * len(inside),
            )[0]
        return float(value) if math.isfinite(value) else math.inf

    def rest(self, values: list[float]) -> float:
        """The octaves to come, as a geometric sum."""
        ratio = math.sqrt(values[-1] / values[-3]) if values[-3] > 0.0 else math.inf
        return values[-1] * ratio / (1.0 - ratio) if ratio < self.tuning.slowest else math.inf
