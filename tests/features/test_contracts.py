"""Every map through every contract, and through scikit-learn's checks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer.features import (
    AdditiveChi2Sampler,
    AdditiveFeatures,
    ExplicitFeatures,
    Fastfood,
    FeatureMap,
    MercerFeatures,
    MinHash,
    Nystroem,
    PolynomialCountSketch,
    RandomFourierFeatures,
    RBFSampler,
    ReLUFeatures,
    SkewedChi2Sampler,
    TensorSketch,
)
from mercer.features.centres import RandomlyPivoted
from mercer.kernels import (
    Cauchy,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    PeriodicBernoulli,
    RationalQuadratic,
    Spectral,
)
from mercer.testing import check_feature_map


def triangle(frequencies):
    return np.maximum(1.0 - np.abs(frequencies) / 3.0, 0.0)


def triangle_sampler(size, random):
    return 3.0 * (random.random(size) - random.random(size))


F = RandomFourierFeatures
SUM = 2.0 * Gaussian([0.8, 1.0, 2.0]) + Matern(1.5)
PRODUCT = Gaussian(2.0) * Matern(2.5) + 0.5
COLUMNS = Gaussian(1.0).on(0) * Laplacian(1.0).on([1, 2])
MAPS = {
    "gaussian": F(Gaussian(1.5), 60),
    "odd": F(Gaussian(1.5), 7),
    "phase": F(Gaussian(1.5), 60, form="phase"),
    "complex": F(Gaussian(1.5), 30, form="complex"),
    "matern": F(Matern(1.2), 60),
    "laplacian": F(Laplacian(2.0), 60),
    "cauchy": F(Cauchy(2.0), 60),
    "rational quadratic": F(RationalQuadratic(1.0), 60),
    "sum with lengthscales": F(SUM, 60),
    "product": F(PRODUCT, 60),
    "columns": F(COLUMNS, 60),
    "density with sampler": F(Spectral(triangle, 3.0, sampler=triangle_sampler), 60),
    "orthogonal": F(Gaussian(1.5), 60, sampling="orthogonal"),
    "orthogonal matern": F(Matern(1.5, [1.0, 2.0, 3.0]), 60, sampling="orthogonal"),
    "quasi-random": F(Gaussian(1.5), 64, sampling="quasi-random"),
    "quasi-random sum": F(SUM, 64, sampling="quasi-random"),
    "quasi-random product": F(PRODUCT, 64, sampling="quasi-random"),
    "quasi-random mixture": F(RationalQuadratic(2.0), 64, sampling="quasi-random"),
    "quasi-random cauchy": F(Cauchy(4.0), 64, sampling="quasi-random"),
    "quasi-random density": F(Spectral(triangle, 3.0), 64, sampling="quasi-random", form="phase"),
    "quasi-random columns": F(COLUMNS, 64, sampling="quasi-random"),
    "RBFSampler": RBFSampler(gamma=0.2, n_components=60),
    "fastfood": Fastfood(Gaussian(1.5), 64),
    "fastfood matern": Fastfood(Matern(1.5, [1.0, 2.0, 3.0]), 70, form="phase"),
    "fastfood rational quadratic": Fastfood(RationalQuadratic(2.0), 60),
    "relu 0": ReLUFeatures(60, order=0),
    "relu 1": ReLUFeatures(60, bias=1.0),
    "relu 2": ReLUFeatures(60, order=2),
    "tensor sketch": TensorSketch(degree=2, coef0=1.0, gamma=0.5, n_components=60),
    "mercer, sampled": MercerFeatures(Gaussian(2.0), 60, sampling="random", deviation=1.3),
    "mercer": MercerFeatures(Gaussian(2.0), 40),
    "nystroem": Nystroem(Gaussian(1.5), n_components=8),
}


@pytest.mark.parametrize("name", MAPS)
def test_a_map_keeps_its_contract(name):
    X = np.random.default_rng(3).standard_normal((16, 3))
    check_feature_map(MAPS[name], X, seeds=30)


def test_on_the_circle():
    X = np.random.default_rng(3).uniform(0, 1, (16, 1))
    for sampling in ("leading", "random"):
        check_feature_map(MercerFeatures(PeriodicBernoulli(1), 30, sampling=sampling), X)


def test_on_histograms():
    X = np.random.default_rng(3).dirichlet(np.ones(4), 16)
    check_feature_map(SkewedChi2Sampler(skewedness=0.3, n_components=60), X, seeds=30)


class Biased(RandomFourierFeatures):
    def transform(self, X):
        return 1.1 * super().transform(X)

    def weighted_sum(self, X, coefficients):
        return 1.1 * super().weighted_sum(X, coefficients)

    def values(self, x, weights):
        return 1.1 * super().values(x, weights)

    def normal_equations(self, X, y, sample_weight=None):
        equations = super().normal_equations(X, y, sample_weight)
        return replace(equations, gram=1.1**2 * equations.gram, moments=1.1 * equations.moments)


class Forgetful(RandomFourierFeatures):
    def fit(self, X, y=None):
        super().fit(X)
        self.frequencies_ = np.random.default_rng().standard_normal(self.frequencies_.shape)
        return self


def test_what_breaks_the_contract_is_refused():
    X = np.random.default_rng(3).standard_normal((16, 3))
    with pytest.raises(AssertionError, match="standard errors away from k"):
        check_feature_map(Biased(Gaussian(1.5), 60), X)
    with pytest.raises(AssertionError, match="features of the same seed"):
        check_feature_map(Forgetful(Gaussian(1.5), 60), X)


@pytest.mark.filterwarnings("default::mercer.errors.IndefiniteKernelWarning")
@parametrize_with_checks(
    [
        RandomFourierFeatures(),
        RandomFourierFeatures(Matern(1.5), form="phase", sampling="orthogonal"),
        RBFSampler(),
        Fastfood(),
        Nystroem(),
        Nystroem(Gaussian(2.0) + Linear(), centres=RandomlyPivoted(10, random_state=0)),
        Nystroem("precomputed"),
        MercerFeatures(Gaussian(3.0), 20),
        ReLUFeatures(),
        TensorSketch(coef0=1.0),
        AdditiveChi2Sampler(),
        SkewedChi2Sampler(),
    ]
)
def test_it_passes_every_check_of_scikit_learn(estimator, check):
    check(estimator)


def test_every_public_map_is_among_them():
    import mercer.features

    public = {
        value
        for value in vars(mercer.features).values()
        if isinstance(value, type) and issubclass(value, FeatureMap)
    }
    tested = {type(phi) for phi in MAPS.values()} | {FeatureMap, PolynomialCountSketch}
    elsewhere = {AdditiveChi2Sampler, SkewedChi2Sampler}
    elsewhere |= {AdditiveFeatures, ExplicitFeatures, MinHash}  # on their points: tests/structured
    assert public <= tested | elsewhere
