"""Clusters, against brute force and scikit-learn's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.cluster import SpectralClustering as Theirs
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.manifold import spectral_embedding
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import KernelKMeans, SpectralClustering
from mercer.errors import ApproximationWarning
from mercer.features import RandomFourierFeatures
from mercer.kernels import Gaussian, Linear
from mercer.operators import Gram
from mercer.structured import Jaccard


def objective(K, labels, weights):
    """Σ w_i ‖φ(x_i) − μ_c‖², from pairs of points."""
    total = 0.0
    for c in np.unique(labels):
        w = weights * (labels == c)
        total += w @ np.diagonal(K) - (w @ K @ w) / w.sum() if w.sum() else 0.0
    return total


def test_the_objective_is_that_of_pairs_and_no_change_of_one_point_lowers_it():
    rng = np.random.default_rng(0)
    X, weights = rng.standard_normal((40, 2)), rng.uniform(0.5, 2.0, 40)
    k = Gaussian(0.8)
    model = KernelKMeans(3, kernel=k, random_state=0).fit(X, sample_weight=weights)
    K = k(X)
    np.testing.assert_allclose(model.inertia_, objective(K, model.labels_, weights))
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    distances = model.relative_distances(X)
    for c in range(3):
        w = weights * (model.labels_ == c) / weights[model.labels_ == c].sum()
        np.testing.assert_allclose(distances[:, c], 0.5 * w @ K @ w - K @ w, atol=1e-12)


def test_few_points_have_the_best_clusters_of_all():
    X = np.random.default_rng(1).standard_normal((9, 2))
    k = Gaussian(0.6)
    best = min(
        objective(k(X), np.array(labels), np.ones(9))
        for labels in itertools.product([0, 1], repeat=9)
        if 0 < sum(labels) < 9
    )
    model = KernelKMeans(2, kernel=k, n_init=30, random_state=0).fit(X)
    np.testing.assert_allclose(model.inertia_, best)


def test_the_linear_kernel_gives_k_means():
    X, _ = make_blobs(200, centers=4, random_state=0, cluster_std=0.7)
    ours = KernelKMeans(4, kernel=Linear(), random_state=0, n_init=5).fit(X)
    theirs = KMeans(4, n_init=5, random_state=0).fit(X)
    np.testing.assert_allclose(ours.inertia_, theirs.inertia_, rtol=1e-6)
    assert adjusted_rand_score(ours.labels_, theirs.labels_) == 1.0


@pytest.mark.parametrize(
    "features", [None, 60, RandomFourierFeatures(Gaussian(0.4), 200, random_state=0)]
)
def test_circles_are_separated_on_all_points_and_on_features(features):
    X, y = make_circles(400, factor=0.2, noise=0.03, random_state=0)
    model = KernelKMeans(2, kernel=Gaussian(0.4), features=features, random_state=0).fit(X[:300])
    assert adjusted_rand_score(model.labels_, y[:300]) == 1.0
    assert adjusted_rand_score(model.predict(X[300:]), y[300:]) == 1.0


def test_objects_matrices_and_coinciding_points():
    sets = [{i % 3, 10 * (i % 3), i} for i in range(30)]
    model = KernelKMeans(3, kernel=Jaccard(), n_init=10, random_state=0).fit(sets)
    assert adjusted_rand_score(model.labels_, np.arange(30) % 3) == 1.0
    X, y = make_blobs(60, centers=3, random_state=0, cluster_std=0.3)
    K = Gaussian(2.0)(X)
    stored = KernelKMeans(3, kernel="precomputed", random_state=0).fit(K)
    assert adjusted_rand_score(stored.predict(K), y) == 1.0
    same = KernelKMeans(3, random_state=0).fit(np.ones((5, 2)))
    assert same.inertia_ == pytest.approx(0.0, abs=1e-12)
    assert len(np.unique(same.labels_)) == 3


def test_spectral_clustering_is_that_of_scikit_learn():
    X, y = make_moons(300, noise=0.05, random_state=0)
    ours = SpectralClustering(2, gamma=20.0, random_state=0).fit(X)
    theirs = Theirs(2, gamma=20.0, random_state=0, assign_labels="kmeans").fit(X)
    assert adjusted_rand_score(ours.labels_, theirs.labels_) == 1.0
    assert adjusted_rand_score(ours.labels_, y) > 0.9
    expected = spectral_embedding(
        theirs.affinity_matrix_, n_components=2, drop_first=False, random_state=0
    )
    cosines = np.abs(np.sum(ours.embedding_ * expected, axis=0))
    norms = np.linalg.norm(ours.embedding_, axis=0) * np.linalg.norm(expected, axis=0)
    np.testing.assert_allclose(cosines / norms, 1.0, atol=1e-6)
    K = Gaussian(1.0 / np.sqrt(40.0))(X) - np.eye(300)
    roots = 1.0 / np.sqrt(K.sum(axis=1))
    values = np.linalg.eigvalsh(roots[:, None] * K * roots)[::-1]
    np.testing.assert_allclose(ours.eigenvalues_, values[:2], atol=1e-9)


def test_spectral_clustering_on_features():
    X, y = make_moons(500, noise=0.04, random_state=0)
    model = SpectralClustering(2, kernel=Gaussian(0.15), features=200, random_state=0).fit(X)
    assert adjusted_rand_score(model.labels_, y) > 0.9
    far = np.r_[X, [[30.0, 30.0]]]  # its affinities by random features are noise around 0
    phi = RandomFourierFeatures(Gaussian(0.15), 300, random_state=0)
    with pytest.warns(ApproximationWarning, match="degree below 1 %"):
        SpectralClustering(2, kernel=Gaussian(0.15), features=phi, random_state=0).fit(far)


def test_matrices_are_not_stored(monkeypatch):
    X, _ = make_moons(600, noise=0.05, random_state=0)
    dense = Gram.dense

    def small(gram):
        if gram.shape[0] > 32:  # so many points are looked at for their lengthscale
            pytest.fail("K was stored")
        return dense(gram)

    monkeypatch.setattr(Gram, "dense", small)
    KernelKMeans(2, kernel=Gaussian(0.3), init="random", random_state=0).fit(X)
    SpectralClustering(2, kernel=Gaussian(0.3), random_state=0).fit(X)


def test_refusals():
    X = np.random.default_rng(0).standard_normal((10, 2))
    for Class, params, text in [
        (KernelKMeans, {"n_clusters": 0}, "n_clusters ≥ 1"),
        (KernelKMeans, {"init": "best"}, "init must be one of"),
        (KernelKMeans, {"n_clusters": 20}, "n_samples=10 should be >= n_clusters=20"),
        (KernelKMeans, {"features": "many"}, "features must be a feature map"),
        (SpectralClustering, {"n_clusters": 20}, "n_samples=10 should be >= n_clusters=20"),
        (SpectralClustering, {"kernel": Linear()}, "affinities must be ≥ 0"),
    ]:
        with pytest.raises(ValueError, match=text):
            Class(**params).fit(X)


@parametrize_with_checks(
    [KernelKMeans(2, random_state=0), SpectralClustering(2, random_state=0, n_init=2)],
    expected_failed_checks=lambda model: (
        {
            f"check_sample_weight_equivalence_on_{kind}_data": "the start draws other rows"
            for kind in ("dense", "sparse")
        }
        if isinstance(model, KernelKMeans)
        else {}
    ),
)
def test_they_pass_every_check_of_scikit_learn(estimator, check):
    check(estimator)
