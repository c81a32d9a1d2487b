"""The norm of a function that is given by its Fourier series or by its Fourier transform.

On the torus, f(x) = Σ_m f̂_m e^{2iπmx/period} has ‖f‖² = Σ_m c_m |f̂_m|², 1/c_m being the Fourier
weights of the kernel. On the line, f̂(ω) = ∫ f(x) e^{−iωx} dx and q̂ = 2πp, p being the spectral
density, give ‖f‖² = (1/2π) ∫ |f̂(ω)|²/q̂(ω) dω.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mercer.kernels.base import Kernel
from mercer.kernels.laws import SpectralMeasure, fourier_weights, spectral_density

SHELLS = (8, 26)  # octaves of frequency that are looked at: at least, at most
SLOWEST = 0.97  # ratio of octaves beyond which a sum of them is taken to diverge


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
    energies = np.abs(_coefficients(coefficients)) ** 2
    energies[1:] *= 2.0
    inverse = _weights(kernel, len(energies) - 1)
    used = energies > 0
    if (inverse[used] == 0).any():
        return math.inf
    return math.sqrt(float((energies[used] / inverse[used]).sum()))


def _coefficients(values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "fiuc":
        raise ValueError(
            "a real function on the torus is given by its coefficients for m = 0, 1, …, a list of "
            f"numbers such as np.fft.rfft(values) / len(values); got shape {array.shape} of "
            f"{array.dtype}."
        )
    if not np.isfinite(array).all():
        raise ValueError("Fourier coefficients must be finite; got NaN or infinity.")
    return array.astype(np.complex128)


def _weights(kernel: Kernel, count: int) -> np.ndarray:
    answer = fourier_weights(kernel, count)
    if not answer.yes:
        raise ValueError(
            f"{kernel!r} has no known Fourier weights: {answer.because}. Write for example "
            "torus_norm(PeriodicBernoulli(), coefficients)."
        )
    return answer.payload


def line_norm(
    kernel: Kernel, transform: Callable[[float], complex], *, tolerance: float = 1e-8
) -> float:
    """‖f‖ = ((1/4π²) ∫ |f̂(ω)|²/p(ω) dω)^{1/2} for a function f on the line.

    The integral is taken octave by octave, [2^i, 2^{i+1}] times the median frequency of the kernel.
    It ends where octaves no longer matter, or fall so regularly that the rest is a geometric sum.
    Where they do not fall up to 2^26, or overflow, the norm is infinite.

    Parameters
    ----------
    kernel : Kernel
        A kernel of one column with a spectral density: `laws.spectral_density` says which.
    transform : callable
        f̂(ω) = ∫ f(x) e^{−iωx} dx for one frequency ω.
    tolerance : float, default=1e-8
        Of the squared norm, relative. Transforms that oscillate and fall slowly reach about 1e-6.

    Examples
    --------
    >>> import math
    >>> from mercer.kernels import Gaussian
    >>> def bump(frequency):  # of f(x) = e^{−x²/2} = k(0, x), so ‖f‖² = k(0, 0) = 1
    ...     return math.sqrt(2 * math.pi) * math.exp(-0.5 * frequency**2)
    >>> math.isclose(line_norm(Gaussian(), bump), 1.0, rel_tol=1e-7)
    True
    """
    measure = _measure(kernel)
    scale = float(np.median(np.abs(measure.sample(1001, random_state=0))))
    octaves = _octaves(_integrand(measure, transform), scale, tolerance)
    return math.sqrt(_total(octaves, tolerance) / (4.0 * math.pi**2))


def _measure(kernel: Kernel) -> SpectralMeasure:
    answer = spectral_density(kernel, 1)
    if not (answer.yes and answer.payload.has_formula):
        reason = "its density has no formula" if answer.yes else answer.because
        raise ValueError(
            f"the norm of {kernel!r} on the line needs a spectral density: {reason}. Write for "
            "example line_norm(Matern(1.5), transform)."
        )
    return answer.payload


def _integrand(
    measure: SpectralMeasure, transform: Callable[[float], complex]
) -> Callable[[float], float]:
    """|f̂(ω)|²/p(ω) + |f̂(−ω)|²/p(ω); 0 where f̂ is 0, however small p."""

    def integrand(frequency: float) -> float:
        energy = abs(transform(frequency)) ** 2 + abs(transform(-frequency)) ** 2
        if energy == 0.0:
            return 0.0
        density = float(measure.density([[frequency]])[0])
        return energy / density if density > 0.0 else math.inf

    return integrand


def _octaves(
    integrand: Callable[[float], float], scale: float, tolerance: float
) -> Iterator[float]:
    """The integral over [0, scale], [scale, 2 scale], [2 scale, 4 scale] and so on."""
    total, start, stop = 0.0, 0.0, scale
    while True:
        value = _integral(integrand, start, stop, 0.1 * tolerance * total)
        yield value
        total, start, stop = total + value, stop, 2.0 * stop


def _integral(
    function: Callable[[float], float], start: float, stop: float, absolute: float
) -> float:
    from scipy.integrate import IntegrationWarning, quad  # a fifth of a second that few need

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", IntegrationWarning)
        value = quad(function, start, stop, epsabs=absolute, epsrel=1e-10, limit=400)[0]
    return float(value) if math.isfinite(value) else math.inf


def _total(octaves: Iterator[float], tolerance: float) -> float:
    """The sum of all octaves; infinite where they do not fall."""
    values: list[float] = []
    guess = math.nan
    for value in octaves:
        values.append(value)
        total = math.fsum(values)
        if math.isinf(total):
            return math.inf
        if len(values) <= SHELLS[0]:
            continue
        if values[-1] + values[-2] <= 0.1 * tolerance * total:
            return total
        previous, guess = guess, total + _rest(values)
        settled = abs(guess - previous) <= tolerance * guess < math.inf
        if settled or len(values) > SHELLS[1]:
            return guess
    return total


def _rest(values: list[float]) -> float:
    """The octaves to come, as a geometric sum."""
    ratio = math.sqrt(values[-1] / values[-3]) if values[-3] > 0.0 else math.inf
    return values[-1] * ratio / (1.0 - ratio) if ratio < SLOWEST else math.inf
