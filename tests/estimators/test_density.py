"""Kernel density estimation, against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KernelDensity as Theirs
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import KernelDensity
from mercer.kernels import Gaussian, Linear, Matern


def data(n=60, d=3):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.standard_normal((15, d)), rng.uniform(0.1, 2.0, n)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bandwidth", [0.4, "scott", "silverman"])
@pytest.mark.parametrize("kernel", ["gaussian", "exponential"])
def test_densities_are_those_of_scikit_learn(kernel, bandwidth, weighted):
    X, new, weights = data()
    weights = weights if weighted else None
    ours, theirs = (
        Class(bandwidth=bandwidth, kernel=kernel).fit(X, sample_weight=weights)
        for Class in (KernelDensity, Theirs)
    )
    far = np.r_[new, 60.0 + new]  # where the sum of a Gaussian kernel underflows
    np.testing.assert_allclose(ours.score_samples(far), theirs.score_samples(far), rtol=1e-9)
    np.testing.assert_allclose(ours.score(new), theirs.score(new))


def test_kernels_with_a_spectral_density_integrate_to_one():
    X, _, _ = data(5, 2)
    model = KernelDensity(kernel=Matern(1.5, lengthscale=0.5)).fit(X)
    line = np.linspace(-8.0, 8.0, 321)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    total = np.exp(model.score_samples(grid)).sum() * (line[1] - line[0]) ** 2
    assert abs(total - 1.0) < 1e-3
    with pytest.raises(ValueError, match="integral of Linear"):
        KernelDensity(kernel=Linear()).fit(X)


def test_samples_have_the_moments_of_the_density():
    X, _, weights = data(20, 2)
    model = KernelDensity(bandwidth=0.3).fit(X, sample_weight=weights)
    drawn = model.sample(20_000, random_state=0)
    mean = np.average(X, axis=0, weights=weights)
    covariance = np.cov(X.T, aweights=weights, bias=True) + 0.09 * np.eye(2)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.04)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.06)
    with pytest.raises(NotImplementedError, match="Gaussian kernel only"):
        KernelDensity(kernel="exponential").fit(X).sample()


def test_single_precision_keeps_four_digits():
    X, new, _ = data()
    single = KernelDensity(kernel=Gaussian(0.5)).fit(X.astype(np.float32))
    double = KernelDensity(kernel=Gaussian(0.5)).fit(X)
    np.testing.assert_allclose(
        single.score_samples(new.astype(np.float32)), double.score_samples(new), rtol=1e-4
    )


def test_refusals():
    X, _, _ = data()
    with pytest.raises(ValueError, match="kernel must be one of"):
        KernelDensity(kernel="tophat").fit(X)
    with pytest.raises(ValueError, match="bandwidth must be positive or one of"):
        KernelDensity(bandwidth="wide").fit(X)
    with pytest.raises(ValueError, match="finite bandwidth > 0"):
        KernelDensity(bandwidth=-1.0).fit(X)


@parametrize_with_checks([KernelDensity()])
def test_it_passes_every_check_of_scikit_learn(estimator, check):
    check(estimator)
