"""Norms by Fourier against norms of expansions, and against integrals of derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from mercer.kernels import (
    Constant,
    Exponential,
    FourierSeries,
    Gaussian,
    Linear,
    Matern,
    PeriodicBernoulli,
    PeriodicExponential,
    laws,
    line_norm,
    torus_norm,
)
from mercer.kernels.norms import Tuning

CENTRES = np.array([0.1, 0.35, 0.4, 0.9])
ALPHA = np.array([1.0, -0.5, 2.0, -1.5])


def expansion_norm(kernel):
    return kernel.function(CENTRES[:, None], ALPHA).norm()


# ---- on the torus --------------------------------------------------------------------------------

TORUS = {
    "bernoulli-1": PeriodicBernoulli(1),
    "bernoulli-2": PeriodicBernoulli(2),
    "bernoulli-3": PeriodicBernoulli(3),
    "bernoulli-period": PeriodicBernoulli(1, period=2.0),
    "periodic-exponential": PeriodicExponential(0.8),
    "fourier-series": FourierSeries([1.0, 2.0, 8.0, 3.0]),
    "scaled": 3.0 * PeriodicBernoulli(2),
    "product": PeriodicBernoulli(2) * FourierSeries([1.0, 3.0]),
}


@pytest.mark.parametrize("name", TORUS)
def test_series_of_an_expansion_has_the_norm_of_the_expansion(name):
    """f = Σ α_i k(x_i, ·) has f̂_m = (1/c_m) Σ α_i e^{−2iπm x_i/period}."""
    kernel = TORUS[name]
    count = 3 if isinstance(kernel, FourierSeries) else 4000
    weights = laws.fourier_weights(kernel, count).payload
    m = np.arange(count + 1)
    waves = np.exp(-2j * math.pi * m[:, None] * CENTRES / laws.period(kernel))
    squared = torus_norm(kernel, weights * (waves @ ALPHA)) ** 2
    # what the series leaves out is at most 2 (Σ|α|)² Σ_{m > count} 1/c_m, and never negative;
    # 1/c_m falls at least like m^{−2}, so that sum is at most count/c_count
    tail = 0.0 if count == 3 else 2 * np.abs(ALPHA).sum() ** 2 * weights[-1] * count
    missing = expansion_norm(kernel) ** 2 - squared
    rounding = 1e-12 * squared
    assert -rounding <= missing <= tail + rounding


def trigonometric(order=0, degree=6, period=1.0):
    """A real trigonometric polynomial: its coefficients, and values of a derivative on a grid."""
    random = np.random.default_rng(1)
    cosines, sines = random.standard_normal((2, degree + 1))
    m = np.arange(degree + 1)
    x = np.arange(64) / 64  # more than twice the degree: means over the grid are integrals
    angles = 2 * math.pi * m * x[:, None] + order * math.pi / 2
    scale = (2 * math.pi * m / period) ** order
    derivative = np.cos(angles) @ (scale * cosines) + np.sin(angles) @ (scale * sines)
    coefficients = 0.5 * (cosines - 1j * sines)
    coefficients[0] = cosines[0]
    return coefficients, derivative


def test_coefficients_are_those_of_the_fast_transform():
    coefficients, values = trigonometric()
    np.testing.assert_allclose(np.fft.rfft(values)[:7] / 64, coefficients, atol=1e-14)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_bernoulli_norm_is_the_mean_and_a_derivative(order):
    """‖f‖² = (∫f)² + (2π)^{−2s} ∫|f^{(s)}|²: the mean squared, not the mean of squares."""
    coefficients, values = trigonometric()
    _, derivative = trigonometric(order)
    expected = values.mean() ** 2 + (2 * math.pi) ** (-2 * order) * (derivative**2).mean()
    norm = torus_norm(PeriodicBernoulli(order), coefficients)
    assert norm**2 == pytest.approx(expected, rel=1e-12)


def test_bernoulli_norm_with_a_period():
    """With the period P: (mean of f)² + (P/2π)^{2s} · mean of |f^{(s)}|²."""
    coefficients, values = trigonometric()
    _, derivative = trigonometric(1, period=2.5)
    expected = values.mean() ** 2 + (2.5 / (2 * math.pi)) ** 2 * (derivative**2).mean()
    norm = torus_norm(PeriodicBernoulli(1, period=2.5), coefficients)
    assert norm**2 == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("alpha", [0.3, 2.0])
def test_periodic_exponential_norm_is_the_function_and_its_first_derivative(alpha):
    coefficients, values = trigonometric()
    _, derivative = trigonometric(1)
    expected = (values**2).mean() + (alpha / (2 * math.pi)) ** 2 * (derivative**2).mean()
    norm = torus_norm(PeriodicExponential(alpha), coefficients)
    assert norm**2 == pytest.approx(expected, rel=1e-12)


def test_a_frequency_that_the_kernel_lacks_has_infinite_norm():
    kernel = FourierSeries([1.0, 2.0])
    assert torus_norm(kernel, [1.0, 1.0]) == pytest.approx(math.sqrt(1 + 2 * 2))
    assert torus_norm(kernel, [1.0, 1.0, 0.0]) == torus_norm(kernel, [1.0, 1.0])
    assert torus_norm(kernel, [1.0, 1.0, 1e-9]) == math.inf


def test_refusals_on_the_torus():
    with pytest.raises(ValueError, match=r"no known Fourier weights.*PeriodicBernoulli"):
        torus_norm(Gaussian(), [1.0])
    with pytest.raises(ValueError, match=r"np\.fft\.rfft"):
        torus_norm(PeriodicBernoulli(), [[1.0]])
    with pytest.raises(ValueError, match="must be finite"):
        torus_norm(PeriodicBernoulli(), [math.nan])


# ---- on the line ---------------------------------------------------------------------------------

LINE = {
    "gaussian": Gaussian(0.4),
    "exponential": Exponential(0.3),
    "matern-3/2": Matern(1.5, lengthscale=0.5),
    "matern-5/2": Matern(2.5, lengthscale=2.0),
    "mixture": Gaussian(0.4) + 2.0 * Matern(1.5),
}


@pytest.mark.parametrize("name", LINE)
def test_transform_of_an_expansion_has_the_norm_of_the_expansion(name):
    """f = Σ α_i k(x_i, ·) has f̂(ω) = 2π p(ω) Σ α_i e^{−iωx_i}."""
    kernel = LINE[name]
    measure = laws.spectral_density(kernel, 1).payload

    def transform(w):
        return 2 * math.pi * measure.density([[w]])[0] * (ALPHA @ np.exp(-1j * w * CENTRES))

    # oscillations that fall like ω^{−2} are the slow case
    norm = line_norm(kernel, transform, tolerance=1e-6)
    assert norm == pytest.approx(expansion_norm(kernel), rel=1e-5)


def bump(width):
    """The transform of exp(−x²/(2b²)), and ∫f², ∫f'², ∫f''²."""
    b = width

    def transform(w):
        return b * math.sqrt(2 * math.pi) * math.exp(-0.5 * (b * w) ** 2)

    root = math.sqrt(math.pi)
    return transform, (root * b, root / (2 * b), 3 * root / (4 * b**3))


@pytest.mark.parametrize("ell", [0.2, 1.0, 7.0])
def test_exponential_norm_is_a_sum_of_two_integrals(ell):
    """exp(−|x−y|/ℓ) has ‖f‖² = ½(ℓ∫f'² + (1/ℓ)∫f²)."""
    transform, (zero, one, _) = bump(1.3)
    expected = 0.5 * (ell * one + zero / ell)
    assert line_norm(Exponential(ell), transform) ** 2 == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("ell", [0.2, 1.0, 7.0])
def test_matern_norm_is_a_sum_of_three_integrals(ell):
    """(1 + ar)e^{−ar} with a = √3/ℓ has q̂ = 4a³/(a² + ω²)²."""
    transform, (zero, one, two) = bump(1.3)
    a = math.sqrt(3) / ell
    expected = (a**4 * zero + 2 * a**2 * one + two) / (4 * a**3)
    assert line_norm(Matern(1.5, ell), transform) ** 2 == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("width", [0.8, 1.0, 3.0])
def test_gaussian_norm_is_a_series_of_all_derivatives(width):
    """1/q̂ = (α/π)^{1/2} Σ ω^{2s}/((4α)^s s!), so ‖f‖² = (α/π)^{1/2} Σ ∫|f^{(s)}|²/((4α)^s s!)."""
    ell = 1.0
    a = 1 / (2 * ell**2)
    terms = [
        math.exp(  # ∫|f^{(s)}|² = b^{1−2s} Γ(s + ½) for the bump of width b
            (1 - 2 * s) * math.log(width)
            + math.lgamma(s + 0.5)
            - s * math.log(4 * a)
            - math.lgamma(s + 1)
        )
        for s in range(400)
    ]
    expected = math.sqrt(a / math.pi) * math.fsum(terms)
    transform, _ = bump(width)
    assert line_norm(Gaussian(ell), transform) ** 2 == pytest.approx(expected, rel=1e-7)


def laplace(w):
    """The transform of exp(−|x|)."""
    return 2.0 / (1.0 + w * w)


def test_functions_outside_the_space_have_infinite_norm():
    assert line_norm(Exponential(), laplace) == pytest.approx(1.0, rel=1e-7)  # k(0, ·) itself
    assert line_norm(Matern(1.5), laplace) == math.inf
    assert line_norm(Gaussian(), laplace) == math.inf
    narrow, _ = bump(0.7)  # below ℓ/√2
    assert line_norm(Gaussian(), narrow) == math.inf
    limit, _ = bump(math.sqrt(0.5))
    assert line_norm(Gaussian(), limit) == math.inf
    assert line_norm(Exponential(), lambda w: (1 + w * w) ** -0.75) == math.inf  # as ∫dω/ω
    assert math.isfinite(line_norm(Exponential(), lambda w: (1 + w * w) ** -0.85))


def test_a_function_much_narrower_than_the_kernel():
    transform, (zero, one, _) = bump(1e-3)
    expected = 0.5 * (one + zero)
    assert line_norm(Exponential(), transform) ** 2 == pytest.approx(expected, rel=1e-7)


def wave_packet(width, frequency):
    """The transform of exp(−x²/(2b²)) cos(ω₀x): narrow peaks at ±ω₀."""
    b = width

    def transform(w):
        peaks = (math.exp(-0.5 * (b * (w + sign * frequency)) ** 2) for sign in (-1, 1))
        return 0.5 * b * math.sqrt(2 * math.pi) * sum(peaks)

    return transform


def by_breakpoints(transform, width, frequency):
    """‖f‖ for the exponential kernel, 1/p = π(1 + ω²), from an integral that knows the peak."""
    edges = frequency + np.arange(-12.0, 13.0) / width
    half, _ = quad(
        lambda w: transform(w) ** 2 * math.pi * (1 + w * w),
        max(0.0, edges[0]),
        edges[-1],
        points=[edge for edge in edges[1:-1] if edge > 0],
        limit=200,
    )
    return math.sqrt(2 * half) / (2 * math.pi)


@pytest.mark.parametrize(
    ("width", "frequency"),
    [(1.0, 40.0), (100.0, 50.0), (0.02, 3e5), (1e6, 0.0), (0.5, 5e3)],
    ids=["beside", "narrow", "far", "at-zero", "narrow-and-far"],
)
def test_narrow_and_far_peaks_are_found(width, frequency):
    transform = wave_packet(width, frequency)
    expected = by_breakpoints(transform, width, frequency)
    assert line_norm(Exponential(), transform) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("width", [0.03, 0.1, 0.3])
def test_a_peak_between_samples_or_over_some_of_them_is_found(width):
    for frequency in np.linspace(9000.0, 12_000.0, 9).tolist():
        transform = wave_packet(width, frequency)
        expected = by_breakpoints(transform, width, frequency)
        assert line_norm(Exponential(), transform) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(("width", "frequency"), [(1e3, 1e3), (1e6, 1e3), (10.0, 1e7)])
def test_peaks_that_samples_cannot_see_are_asked_for(width, frequency):
    transform = wave_packet(width, frequency)
    with pytest.raises(ValueError, match=r"for a narrow peak write peaks=\[frequency\]"):
        line_norm(Exponential(), transform)
    expected = by_breakpoints(transform, width, frequency)
    norm = line_norm(Exponential(), transform, peaks=[frequency])
    assert norm == pytest.approx(expected, rel=1e-7)


def test_a_transform_that_overflows_far_away():
    """sech x has π/cosh(πω/2), and ½(∫f'² + ∫f²) = ½(2/3 + 2)."""
    norm = line_norm(Exponential(), lambda w: math.pi / math.cosh(0.5 * math.pi * w))
    assert norm**2 == pytest.approx(4 / 3, rel=1e-7)


def test_the_zero_function_and_a_finer_search():
    assert line_norm(Gaussian(), lambda w: 0.0, peaks=[0.0]) == 0.0
    transform = wave_packet(300.0, 900.0)
    with pytest.raises(ValueError, match="narrow peak"):
        line_norm(Exponential(), transform)
    finer = line_norm(Exponential(), transform, tuning=Tuning(samples=8192))
    assert finer == pytest.approx(by_breakpoints(transform, 300.0, 900.0), rel=1e-7)


def test_slow_decay_is_extrapolated():
    """|f̂|²/p = π(1 + ω²)^{−0.7} for the exponential kernel: a Beta function."""

    def transform(w):
        return (1 + w * w) ** -0.85

    # p = 1/(π(1+ω²)), so ‖f‖² = (1/4π) ∫(1+ω²)^{1−1.7} dω = (1/4π) √π Γ(0.2)/Γ(0.7)
    expected = math.sqrt(math.pi) * math.gamma(0.2) / math.gamma(0.7) / (4 * math.pi)
    assert line_norm(Exponential(), transform) ** 2 == pytest.approx(expected, rel=1e-4)


def test_refusals_on_the_line():
    with pytest.raises(ValueError, match=r"needs a spectral density: it is not stationary"):
        line_norm(Linear(), laplace)
    with pytest.raises(ValueError, match=r"all its mass is at frequency 0.*Matern"):
        line_norm(Constant(), laplace)
    with pytest.raises(ValueError, match="its density has no formula"):
        line_norm(Gaussian() * Matern(), laplace)
