"""Nyström features, against scikit-learn's and the definition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.kernel_approximation import Nystroem as Theirs
from sklearn.metrics.pairwise import rbf_kernel

from mercer.features import Nystroem, compress, to_features
from mercer.features.centres import Given, Greedy, RandomlyPivoted
from mercer.kernels import Gaussian, PairKernel


def cloud(n=120, d=3, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


@pytest.mark.parametrize(
    "options",
    [{"gamma": 0.8}, {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.1}, {}],
)
def test_the_features_are_those_of_scikit_learn(options):
    X, new = cloud(), cloud(40, seed=1)
    options = {**options, "n_components": 10, "random_state": 5}
    ours, theirs = Nystroem(**options).fit(X), Theirs(**options).fit(X)
    assert np.array_equal(ours.components_, theirs.components_)
    assert np.allclose(ours.transform(new), theirs.transform(new), atol=1e-8)
    assert list(ours.get_feature_names_out()) == list(theirs.get_feature_names_out())


def test_a_precomputed_matrix_gives_the_features_of_its_kernel():
    X, new = cloud(), cloud(30, seed=1)
    direct = Nystroem(gamma=0.3, n_components=15, random_state=0).fit(X)
    matrix = Nystroem("precomputed", n_components=15, random_state=0).fit(rbf_kernel(X, gamma=0.3))
    assert np.allclose(matrix.transform(rbf_kernel(new, X, gamma=0.3)), direct.transform(new))
    with pytest.raises(ValueError, match="a precomputed kernel is a square matrix in fit"):
        matrix.fit(rbf_kernel(new, X))


def overlap(a, b):
    return float(len(set(a) & set(b)))


def test_texts_have_features():
    words = ["kernel", "learn", "space", "norm", "random", "feature"]
    phi = Nystroem(PairKernel(overlap), centres=Greedy(6)).fit(words)
    features = phi.transform(words)
    assert np.allclose(features @ features.T, PairKernel(overlap)(words))
    f = phi.function(np.ones(phi.feature_count))
    assert np.allclose(f(words), features.sum(axis=1))
    y = np.arange(6.0)
    assert np.allclose(phi.normal_equations(words, y).gram, features.T @ features)
    small = compress(PairKernel(overlap).function(words, y), Greedy(6))
    assert small.relative_error < 1e-6
    assert to_features(PairKernel(overlap).function(words, y), phi).relative_error < 1e-6


def test_the_error_is_bounded_by_residuals():
    X, new, other = cloud(), cloud(50, seed=1), cloud(50, seed=2)
    phi = Nystroem(Gaussian(1.0), centres=RandomlyPivoted(40, random_state=0)).fit(X)
    assert 0 < phi.trace_error_ < 0.2
    gap = Gaussian(1.0)(new, other) - phi.transform(new) @ phi.transform(other).T
    assert (np.abs(np.diag(gap)) <= phi.expected_error(new, other) + 1e-12).all()
    assert (
        np.linalg.eigvalsh(Gaussian(1.0)(new) - phi.transform(new) @ phi.transform(new).T)[0]
        > -1e-9
    )
    assert np.allclose(phi.residuals(X[phi.component_indices_]), 0, atol=1e-8)


def test_sparse_rows_and_float32():
    X = cloud()
    X[X < 0] = 0
    phi = Nystroem(Gaussian(1.0), centres=Given(X[:20])).fit(X)
    assert np.allclose(phi.transform(scipy.sparse.csr_array(X)), phi.transform(X))
    X = cloud()
    single = Nystroem(Gaussian(1.0), n_components=20, random_state=0).fit(X.astype(np.float32))
    double = Nystroem(Gaussian(1.0), n_components=20, random_state=0).fit(X)
    features = single.transform(X.astype(np.float32))
    assert features.dtype == np.float32
    assert np.allclose(
        features @ features.T,
        double.transform(X) @ double.transform(X).T,
        atol=1e-3,  # half of the digits of float32
    )


def test_repeated_points_do_no_harm():
    X = np.repeat(cloud(10), 3, axis=0)
    features = Nystroem(Gaussian(0.5), n_components=30).fit_transform(X)
    assert np.allclose(features @ features.T, Gaussian(0.5)(X))


def test_parameters_of_the_kernel_are_reached():
    phi = Nystroem(Gaussian(1.0), centres=Greedy(5)).set_params(
        kernel__lengthscale=2.0, centres__count=3
    )
    assert phi.kernel == Gaussian(2.0)
    assert phi.centres.count == 3
