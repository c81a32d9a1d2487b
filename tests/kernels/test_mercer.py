"""Mercer's theorem: eigenfunctions are orthonormal, sums converge to k, spectra decay as told."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from mercer.kernels import (
    ArcCosine,
    Brownian,
    Gaussian,
    Linear,
    Matern,
    PeriodicBernoulli,
    PeriodicExponential,
    Polynomial,
)
from mercer.kernels.mercer import (
    Normal,
    UniformCircle,
    UniformCube,
    UniformSphere,
    decomposition,
)


def unit_interval(n=2000):
    return ((np.arange(n) + 0.5) / n)[:, None], np.full(n, 1.0 / n)


def normal(deviation, n=4001):
    nodes = np.linspace(-12.0, 12.0, n)
    weights = np.exp(-0.5 * nodes**2)
    return deviation * nodes[:, None], weights / weights.sum()


def sphere(n=60):
    """A product rule that integrates polynomials up to degree 2n − 1 on the sphere of ℝ³."""
    z, weights = np.polynomial.legendre.leggauss(n)
    angles = 2.0 * np.pi * np.arange(2 * n) / (2 * n)
    z, angles = np.repeat(z, 2 * n), np.tile(angles, n)
    r = np.sqrt(1.0 - z**2)
    weights = np.repeat(weights, 2 * n)
    return np.c_[r * np.cos(angles), r * np.sin(angles), z], weights / weights.sum()


CASES = {
    "bernoulli": (PeriodicBernoulli(order=1), UniformCircle(), unit_interval(), 40),
    "periodic exponential": (PeriodicExponential(), UniformCircle(), unit_interval(), 40),
    "gaussian": (Gaussian(0.7), Normal(1.3), normal(1.3), 25),
    "brownian": (Brownian(), UniformCube(), unit_interval(), 40),
    "arc-cosine": (ArcCosine(1), UniformSphere(3), sphere(), 50),
    "polynomial": (Polynomial(degree=3), UniformSphere(3), sphere(), 16),
    "gaussian on the sphere": (Gaussian(0.8), UniformSphere(3), sphere(), 50),
}


@pytest.mark.parametrize("name", CASES)
def test_they_are_orthonormal_eigenfunctions(name):
    kernel, measure, (nodes, weights), count = CASES[name]
    found = kernel.mercer(measure, count)
    values = found.functions(nodes)
    inner = values.T @ (weights[:, None] * values)
    np.testing.assert_allclose(inner, np.eye(count), atol=1e-6)
    some = nodes[:: len(nodes) // 17]
    image = kernel(some, nodes) @ (weights[:, None] * values)
    exact = found.eigenvalues * found.functions(some)
    np.testing.assert_allclose(image, exact, atol=3e-4 * found.eigenvalues[0])
    assert (np.diff(found.eigenvalues) <= 1e-15).all()
    np.testing.assert_allclose(found.trace, weights @ kernel.gram(nodes).diagonal(), rtol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_the_sum_converges_to_the_kernel(name):
    kernel, measure, (nodes, _), count = CASES[name]
    some = nodes[:: len(nodes) // 13]
    if isinstance(measure, Normal):
        some = np.linspace(-2.0, 2.0, 9)[:, None]
    K = kernel(some)
    gaps = [
        np.abs(kernel.mercer(measure, m).approximation(some) - K).max() / np.abs(K).max()
        for m in (count // 4, count)
    ]
    assert gaps[1] < 0.6 * gaps[0] or gaps[1] < 1e-10
    assert gaps[1] < 0.05
    full = kernel.mercer(measure, count)
    assert full.lost == pytest.approx(1.0 - full.eigenvalues.sum() / full.trace, abs=1e-9)


@pytest.mark.parametrize("dimension", [2, 4, 7])
def test_spherical_harmonics_in_every_dimension(dimension):
    """The addition theorem: the harmonics of a polynomial kernel add up to it exactly."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, dimension))
    X /= np.linalg.norm(X, axis=1)[:, None]
    kernel = Polynomial(degree=3, bias=0.5)
    found = kernel.mercer(UniformSphere(dimension), 400)
    np.testing.assert_allclose(found.approximation(X), kernel(X), atol=1e-9)
    np.testing.assert_allclose(found.eigenvalues.sum(), found.trace, rtol=1e-9)


def test_arc_cosine_eigenvalues_are_those_in_the_literature():
    """sin θ + (π − θ)cos θ on the circle: frequencies 0 and 1, and the even ones as (m² − 1)⁻²."""
    values = ArcCosine(1).mercer(UniformSphere(2), 7).eigenvalues
    expected = [1.0, *2 * [np.pi**2 / 16], *2 * [1 / 9], *2 * [1 / 225]]
    np.testing.assert_allclose(values / values[0], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("kernel", "measure"),
    [
        (PeriodicBernoulli(order=1), UniformCircle()),
        (PeriodicBernoulli(order=2), UniformCircle()),
    ],
)
def test_spectra_decay_as_the_sobolev_order_predicts(kernel, measure):
    found = kernel.mercer(measure, 400)
    assert found.decay() == pytest.approx(found.predicted_decay(), rel=0.03)
    assert Brownian().mercer(UniformCube(), 400).decay() == pytest.approx(2.0, rel=0.03)


def test_a_sample_shows_the_predicted_decay():
    X = np.random.default_rng(0).uniform(size=(600, 1))
    found = Matern(1.5).mercer(X, 90)
    assert found.predicted_decay() == 4.0
    assert found.decay(start=30) == pytest.approx(4.0, rel=0.08)
    smooth = Gaussian(0.5).mercer(X, 8)
    assert smooth.predicted_decay() == math.inf
    assert Brownian().mercer(X, 5).predicted_decay() is None  # H¹, but only f with f(0) = 0


def test_eigenfunctions_of_a_sample_are_eigenvectors_extended():
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((80, 2)), rng.standard_normal((5, 2))
    k = Gaussian()
    found = k.mercer(X, 10)
    values = np.linalg.eigvalsh(k(X))
    np.testing.assert_allclose(found.eigenvalues, values[::-1][:10] / 80, rtol=1e-9)
    at = found.functions(X)
    np.testing.assert_allclose(at.T @ at / 80, np.eye(10), atol=1e-8)
    extended = k(new, X) @ at / 80 / found.eigenvalues
    np.testing.assert_allclose(found.functions(new), extended, atol=1e-8)
    assert found.trace == pytest.approx(1.0)


def test_a_large_sample_has_the_spectrum_of_its_measure():
    X = 1.3 * np.random.default_rng(0).standard_normal((3000, 1))
    exact = Gaussian(0.7).mercer(Normal(1.3), 5).eigenvalues
    np.testing.assert_allclose(Gaussian(0.7).mercer(X, 5).eigenvalues, exact, rtol=0.1)


@pytest.mark.parametrize(
    ("kernel", "measure", "X"),
    [
        (PeriodicBernoulli(1), UniformCircle(), [[0.3]]),
        (Gaussian(0.7), Normal(columns=2), [[0.3, -1.0]]),
        (Brownian(), UniformCube(), [[0.3]]),
        (ArcCosine(1), UniformSphere(3), [[0.6, 0.0, 0.8]]),
        (Gaussian(), np.eye(4, 2), [[0.3, 0.1]]),
    ],
)
def test_decompositions_can_be_pickled(kernel, measure, X):
    found = kernel.mercer(measure, 3)
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.functions(X), found.functions(X))


def test_refusals():
    for kernel, measure, text in [
        (Matern(1.5), Normal(), "are not known"),
        (Gaussian(), UniformCube(), "are not known"),
        (Gaussian(), UniformCircle(), "are not known"),
        (Linear().on([0]), UniformSphere(3), "changes when the sphere is turned"),
    ]:
        with pytest.raises(ValueError, match=text):
            decomposition(kernel, measure, 5)
    with pytest.raises(ValueError, match="dimension ≥ 2"):
        UniformSphere(1)
    with pytest.raises(ValueError, match="count ≥ 1"):
        Gaussian().mercer(Normal(), 0)
    with pytest.raises(ValueError, match="on the unit sphere"):
        Polynomial().mercer(UniformSphere(3), 4).functions([[1.0, 1.0, 1.0]])
    with pytest.raises(ValueError, match="three eigenvalues or more"):
        Gaussian().mercer(Normal(), 2).decay()
