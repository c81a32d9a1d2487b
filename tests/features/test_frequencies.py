"""The sampler of frequencies: laws, blocks that are drawn again, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln, jv

from mercer.features import RandomFourierFeatures
from mercer.features.frequencies import FrequencySampler, IsotropicSpectrum
from mercer.kernels import (
    Cauchy,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    RationalQuadratic,
    Spectral,
)

KERNELS = {
    "normal": Gaussian([0.5, 2.0]),
    "student": Matern(1.5, 0.7),
    "gamma mixture": RationalQuadratic(2.0),
    "columns": Laplacian(0.5),
    "product cauchy": Cauchy(2.0),
    "density": Spectral(lambda w: np.exp(-w), 30.0),
    "sum": 2.0 * Gaussian(0.3) + Matern(2.5) + 1.0,
    "product": Gaussian(0.5) * RationalQuadratic(1.0),
    "groups": Gaussian(0.5).on(1) * Laplacian(2.0).on(0),
    "map": Gaussian().after(np.array([[1.0, 2.0], [0.0, 3.0]])),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("sampling", ["independent", "quasi-random"])
def test_the_mean_of_cosines_is_the_kernel(name, sampling):
    sampler = FrequencySampler(KERNELS[name], 2, sampling)
    h = np.random.default_rng(1).uniform(-1.5, 1.5, (20, 2))
    cosines = np.cos(sampler.draw(1 << 14, random_state=0) @ h.T).mean(axis=0)
    exact = sampler.kernel(h, np.zeros((1, 2)))[:, 0]
    error = np.abs(sampler.amplitude * cosines - exact).max() / sampler.amplitude
    assert error < (0.035 if sampling == "independent" else 0.012)


def test_blocks_are_the_same_whenever_they_are_drawn():
    sampler = FrequencySampler(Matern(2.5), 3)
    forward = [sampler.block(number, 50, seed=4) for number in range(3)]
    for number in (2, 0, 1):
        for first, again in zip(forward[number], sampler.block(number, 50, seed=4), strict=True):
            assert np.array_equal(first, again)
    frequencies = np.concatenate([block[0] for block in forward])
    assert len(np.unique(frequencies)) == frequencies.size
    assert not np.array_equal(forward[0][0], sampler.block(0, 50, seed=5)[0])


@pytest.mark.parametrize("size", [1, 2, 5, 16, 64, 100])
def test_the_mean_of_a_cosine_over_the_sphere(size):
    lengths = np.array([0.1, 3.0, 30.0, 60.0, 70.0, 1e3, 1e6])
    spectrum = IsotropicSpectrum(Gaussian(), np.ones(size), size)
    if size == 1:
        exact = np.cos(lengths)
    else:
        order = 0.5 * size - 1.0
        scale = np.exp(gammaln(0.5 * size) + order * np.log(2.0 / lengths))
        exact = scale * jv(order, lengths)
    assert np.allclose(spectrum.mean_cosine(lengths), exact, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: FrequencySampler(Linear(), 2), "and Linear.* has none on 2 columns: it is not st"),
        (lambda: FrequencySampler(Gaussian(), 2, "lazy"), "sampling must be one of"),
        (
            lambda: FrequencySampler(
                2.0 * Spectral(np.exp, 3.0, sampler=np.random.Generator.random) + Gaussian(),
                1,
                "quasi-random",
            ).draw(5),
            "cannot use the sampler of a Spectral kernel",
        ),
        (
            lambda: RandomFourierFeatures(sampling="quasi-random").fit(np.eye(30_000, 1).T),
            "dimensionality is 21201",
        ),
    ],
)
def test_refusals(make, text):
    with pytest.raises(ValueError, match=text):
        make()
