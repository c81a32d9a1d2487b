"""Explicit and random features of kernels on objects."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from mercer import KernelRidge
from mercer.features import ExplicitFeatures, MinHash
from mercer.structured import (
    BlendedSpectrum,
    GapWeighted,
    Intersection,
    Jaccard,
    ShortestPath,
    Spectrum,
    Subtrees,
    Text,
    WeisfeilerLehman,
    WeisfeilerLehmanAssignment,
)

WORDS = ["kernel", "kern", "learn", "", "learner", "ab", "space", "spaces", "b"]
NEW = ["kernels", "zzz", "", "pace"]
GRAPHS = [([(i, i + 1) for i in range(len(w) - 1)], list(w)) for w in WORDS]
NEW_GRAPHS = [([(i, i + 1) for i in range(len(w) - 1)], list(w)) for w in NEW]
TREES = [("S", *(("X", c) for c in w)) for w in WORDS]
SETS, NEW_SETS = [set(w) for w in WORDS], [set(w) for w in NEW]
KERNELS = {
    "spectrum": (Spectrum(2), WORDS, NEW),
    "normalised": (Spectrum(2).normalised(), WORDS, NEW),
    "sum": (0.5 * Spectrum(1).normalised() + BlendedSpectrum(3, 0.5), WORDS, NEW),
    "text": (Text().normalised(), WORDS, NEW),
    "wl": (WeisfeilerLehman(2).normalised(), GRAPHS, NEW_GRAPHS),
    "assignment": (WeisfeilerLehmanAssignment(2), GRAPHS, NEW_GRAPHS),
    "paths": (ShortestPath(), GRAPHS, NEW_GRAPHS),
    "subtrees": (Subtrees(0.5), TREES, TREES[2:4]),
    "sets": (Intersection().normalised(), SETS, NEW_SETS),
}


@pytest.mark.parametrize("name", KERNELS)
def test_explicit_features_have_the_values_of_the_kernel(name):
    kernel, X, new = KERNELS[name]
    phi = ExplicitFeatures(kernel).fit(X)
    Z, W = phi.transform(X), phi.transform(new)
    k = phi.kernel_
    np.testing.assert_allclose((Z @ Z.T).toarray(), k(X), atol=1e-12)
    np.testing.assert_allclose((W @ Z.T).toarray(), k(new, X), atol=1e-12)
    assert Z.shape == (len(X), phi.feature_count)
    assert len(phi.get_feature_names_out()) == phi.feature_count
    w = np.random.default_rng(0).standard_normal(phi.feature_count)
    np.testing.assert_allclose(phi.function(w)(new), W @ w)
    np.testing.assert_allclose(phi.weighted_sum(X, np.ones(len(X))), Z.sum(axis=0))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_by_sparse_features(name, dtype):
    """Products are those of the stored matrix, for equal and different points on both sides."""
    kernel, X, new = KERNELS[name]
    kernel = kernel.fitted(X)
    random = np.random.default_rng(0)
    x = kernel.points([X[i] for i in random.integers(0, len(X), 40)])
    y = kernel.points([(X + new)[i] for i in random.integers(0, len(X + new), 30)])
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    for gram in (kernel.gram(x), kernel.gram(x, y), kernel.gram(x, x.take([*range(20), 3]))):
        by_features = kernel.factors(gram.x, gram.y) is not None
        assert ("sparse features" in str(gram.plan())) == by_features
        K = gram.dense()
        V, W = (random.standard_normal((size, 3)).astype(dtype) for size in gram.shape[::-1])
        for got, expected in [
            (gram.astype(dtype) @ V, K @ V),
            (gram.astype(dtype) @ V[:, 0], K @ V[:, 0]),
            (gram.astype(dtype).T @ W, K.T @ W),
            (gram.astype(dtype).normal_matmul(V, W), K.T @ (K @ V + W)),
        ]:
            scale = np.abs(expected).max()
            np.testing.assert_allclose(got, expected, atol=tolerance * scale)


def test_sums_of_sparse_features_are_sparse():
    kernel = Spectrum(1) + 2.0 * Spectrum(2).normalised()
    Z = kernel.features(kernel.points(WORDS))
    assert scipy.sparse.issparse(Z)
    np.testing.assert_allclose((Z @ Z.T).toarray(), kernel(WORDS), atol=1e-12)


def test_a_linear_model_on_features_is_the_kernel_machine():
    y = np.array([len(w) for w in WORDS], float)
    for kernel in (Spectrum(2), Spectrum(1).normalised()):
        linear = make_pipeline(ExplicitFeatures(kernel), Ridge(0.3, fit_intercept=False, tol=1e-14))
        ours = KernelRidge(kernel=kernel, alpha=0.3).fit(WORDS, y)
        np.testing.assert_allclose(linear.fit(WORDS, y).predict(NEW), ours.predict(NEW), atol=1e-8)


def test_features_in_a_search():
    y = np.array(["k" in w or "n" in w for w in WORDS * 4])
    pipeline = make_pipeline(ExplicitFeatures(Spectrum(1)), LinearSVC())
    grid = {"explicitfeatures__kernel__length": [1, 4]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(WORDS * 4, y)
    assert search.best_params_ == {"explicitfeatures__kernel__length": 1}


def test_kernels_without_sparse_features():
    with pytest.raises(ValueError, match="has no sparse features: write mercer"):
        ExplicitFeatures(GapWeighted()).fit(WORDS)
    with pytest.raises(ValueError, match="needs a kernel with sparse features"):
        ExplicitFeatures().fit(WORDS)
    with pytest.raises(ValueError, match="where weights are whole numbers only"):
        ExplicitFeatures(Intersection()).fit([{"a": 0.5}])


# ---- MinHash -------------------------------------------------------------------------------------

WEIGHTED = [
    {"a": 2.0, "b": 0.5},
    {"b": 3.0, "a": 1.0},
    {},
    {"c": 1.0},
    {"a": 2.0, "b": 0.5, "c": 0.1},
]


@pytest.mark.parametrize(("X", "weighted"), [(SETS, False), (SETS, True), (WEIGHTED, True)])
def test_minhash_is_unbiased_with_the_error_it_states(X, weighted):
    K = Jaccard()(X)
    pairs = [(i, j) for i in range(len(X)) for j in range(i)]
    estimates = []
    for seed in range(60):
        Z = MinHash(64, buckets=4, weighted=weighted, random_state=seed).fit_transform(X)
        estimates.append((Z @ Z.T).toarray())
    phi = MinHash(64, buckets=4, weighted=weighted, random_state=0).fit(X)
    rows, columns = zip(*pairs, strict=True)
    error = phi.expected_error([X[i] for i in rows], [X[j] for j in columns])
    gaps = np.array(estimates)[:, rows, columns] - K[rows, columns]
    assert (np.abs(gaps.mean(axis=0)) <= 5 * error / np.sqrt(60) + 1e-12).all()
    measured = np.sqrt((gaps**2).mean(axis=0))
    assert np.allclose(measured, error, rtol=0.5, atol=1e-12)
    assert np.allclose(np.array(estimates)[:, range(len(X)), range(len(X))], 1.0)


def test_minhash_as_a_transformer():
    phi = MinHash(16, random_state=0)
    Z = phi.fit_transform(SETS)
    assert (clone(phi).fit(SETS).transform(NEW_SETS) != phi.transform(NEW_SETS)).nnz == 0
    assert Z.shape == (len(SETS), 16 * 64)
    assert (np.diff(Z.indptr) == 16).all()
    with pytest.raises(ValueError, match=r"write MinHash\(weighted=True\)"):
        phi.transform(WEIGHTED)
