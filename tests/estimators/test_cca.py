"""Kernel canonical correlations, against their definition and scikit-learn's linear ones."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from sklearn.cross_decomposition import CCA

from mercer import KernelCCA
from mercer.errors import ApproximationWarning
from mercer.features.centres import Given
from mercer.kernels import Gaussian, Laplacian, Linear
from mercer.structured import Jaccard


def views(n=60, seed=0):
    rng = np.random.default_rng(seed)
    t = rng.uniform(-1, 1, n)
    X = np.c_[t**2, rng.standard_normal(n)]
    Y = np.c_[np.cos(3 * t), rng.standard_normal((n, 2))]
    return X, Y, np.c_[t**2 + 0.1 * rng.standard_normal(n)]


def centred(K):
    H = np.eye(len(K)) - 1.0 / len(K)
    return H @ K @ H


def test_correlations_are_the_eigenvalues_of_the_product_of_smoothers():
    X, Y, _ = views()
    k, other, kappa = Gaussian(0.8), Gaussian(1.2), 0.05
    model = KernelCCA(3, kernel=[k, other], regularization=kappa).fit(X, Y)
    R = [K @ np.linalg.inv(K + 60 * kappa * np.eye(60)) for K in (centred(k(X)), centred(other(Y)))]
    values = np.sort(np.linalg.eigvals(R[0] @ R[1]).real)[::-1][:3]
    np.testing.assert_allclose(model.correlations_**2, values, rtol=1e-7)
    a, b = model.fit_transform(X, Y)
    norms = [[f.output(i).norm() ** 2 for i in range(3)] for f in model.functions_]
    for values, sizes in zip((a, b), norms, strict=True):
        np.testing.assert_allclose(values.mean(axis=0), 0.0, atol=1e-9)
        np.testing.assert_allclose(values.var(axis=0) + kappa * np.array(sizes), 1.0, rtol=1e-6)
    np.testing.assert_allclose((a * b).mean(axis=0), model.correlations_, rtol=1e-7)
    plain = [np.corrcoef(a[:, i], b[:, i])[0, 1] for i in range(3)]
    np.testing.assert_allclose(model.canonical_correlations(X, Y), plain)


def test_cca_zoo_s_shrinkage_is_the_stated_regularisation():
    """(1 − c)K²/(n − 1) + cK is proportional to K²/n + κK for κ = c/(1 − c)·(n − 1)/n."""
    X, Y, _ = views()
    n, c = 60, 0.2
    K, L = centred(Gaussian(0.8)(X)), centred(Gaussian(0.8)(Y))
    within = [(1 - c) * M @ M / (n - 1) + c * M + 1e-10 * np.eye(n) for M in (K, L)]
    cross = K @ L / (n - 1)
    left = np.block([[np.zeros((n, n)), cross], [cross.T, np.zeros((n, n))]])
    values = scipy.linalg.eigh(left, scipy.linalg.block_diag(*within), eigvals_only=True)
    kappa = c / (1 - c) * (n - 1) / n
    model = KernelCCA(2, kernel=Gaussian(0.8), regularization=kappa).fit(X, Y)
    np.testing.assert_allclose(model.correlations_ / (1 - c), values[::-1][:2], rtol=1e-5)


def test_the_linear_kernel_gives_linear_cca():
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((300, 2))
    X = shared @ rng.standard_normal((2, 4)) + 0.5 * rng.standard_normal((300, 4))
    Y = shared @ rng.standard_normal((2, 3)) + 0.5 * rng.standard_normal((300, 3))
    model = KernelCCA(2, kernel=Linear(), regularization=1e-8).fit(X, Y)
    a, b = CCA(2, scale=False, max_iter=5000, tol=1e-10).fit_transform(X, Y)
    expected = [np.corrcoef(a[:, i], b[:, i])[0, 1] for i in range(2)]
    np.testing.assert_allclose(model.canonical_correlations(X, Y), expected, rtol=1e-5)


def test_three_views_maximise_the_sum_of_covariances():
    X, Y, Z = views()
    model = KernelCCA(1, kernel=Gaussian(0.8), regularization=0.1).fit(X, Y, Z)
    Ks = [centred(Gaussian(0.8)(V)) for V in (X, Y, Z)]
    roots = [scipy.linalg.sqrtm(K @ np.linalg.inv(K + 6.0 * np.eye(60))).real for K in Ks]
    blocks = [[np.eye(60) if i == j else roots[i] @ roots[j] for j in range(3)] for i in range(3)]
    best = np.linalg.eigvalsh(np.block(blocks))[-1]
    np.testing.assert_allclose(model.correlations_[0], (best - 1.0) / 2.0, rtol=1e-6)
    assert model.canonical_correlations(X, Y, Z)[0] > 0.9


def test_held_out_correlations_tell_signal_from_noise():
    X, Y, _ = views(400)
    noise = np.random.default_rng(1).standard_normal((400, 2))
    model = KernelCCA(1, regularization=0.01)
    assert model.fit(X[:200], Y[:200]).score(X[200:], Y[200:]) > 0.9
    found = model.fit(X[:200], noise[:200])
    assert found.score(X[:200], noise[:200]) > 0.3  # on its own rows it finds something anywhere
    assert abs(found.score(X[200:], noise[200:])) < 0.25


def test_centres_objects_and_single_columns():
    X, Y, _ = views(120)
    exact = KernelCCA(2, kernel=Gaussian(0.8)).fit(X, Y)
    every = KernelCCA(2, kernel=Gaussian(0.8), centres=120, random_state=0).fit(X, Y)
    np.testing.assert_allclose(every.correlations_, exact.correlations_, rtol=1e-7)
    few = KernelCCA(2, kernel=Gaussian(0.8), centres=30, random_state=0).fit(X, Y)
    np.testing.assert_allclose(few.correlations_[0], exact.correlations_[0], atol=0.05)
    sets = [{int(10 * v), int(5 * v)} for v in X[:, 0]]
    mixed = KernelCCA(1, kernel=[Jaccard(), Gaussian(0.5)], regularization=0.05)
    assert mixed.fit(sets, X[:, 0]).correlations_[0] > 0.5
    assert KernelCCA(1, centres=Given(X[:20])).fit(X, X).correlations_[0] > 0.5


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("kernel", [Gaussian(0.8), Laplacian(1.0)], ids=["low rank", "full rank"])
def test_all_points_give_what_features_with_all_points_as_centres_give(kernel, count):
    """Features take an eigendecomposition of K, a pivoted factor does not."""
    given, new = views(300)[:count], views(40, seed=1)[:count]
    params = {"kernel": kernel, "regularization": 0.02}
    model = KernelCCA(3, **params).fit(*given)
    slow = KernelCCA(3, centres=300, random_state=0, **params).fit(*given)
    np.testing.assert_allclose(model.correlations_, slow.correlations_, rtol=1e-9)
    for found, expected in zip(model.transform(*new), slow.transform(*new), strict=True):
        signs = np.sign((found * expected).sum(axis=0))
        np.testing.assert_allclose(found * signs, expected, atol=1e-6 * np.abs(expected).max())
    values = model.transform(*given)
    np.testing.assert_allclose([v.mean(axis=0) for v in values], 0.0, atol=1e-10)


def test_components_beyond_the_rank_are_zero():
    X = views()[0]
    model = KernelCCA(2, kernel=Linear(), regularization=1e-3).fit(X, np.ones((60, 1)))
    np.testing.assert_allclose(model.correlations_, 0.0, atol=1e-12)
    assert not np.any(model.transform(X, np.ones((60, 1)))[0])


def series(values):
    return pytest.importorskip("pandas").Series(values)


@pytest.mark.parametrize("form", [list, np.asarray, np.float32, series])
def test_a_view_may_be_one_number_for_each_row(form):
    X, Y, _ = views()
    column = KernelCCA(1).fit(X, Y[:, :1])
    model = KernelCCA(1).fit(X, form(Y[:, 0]))
    np.testing.assert_allclose(model.correlations_, column.correlations_, rtol=1e-5)
    found = model.transform(X[:3], form(Y[:3, 0]))[1]
    np.testing.assert_allclose(np.abs(found), np.abs(column.transform(X, Y[:, :1])[1][:3]), 1e-4)


def test_refusals():
    X, Y, _ = views()
    for arguments, params, text in [
        ((X, np.where(Y > 0, np.nan, Y)), {}, "view 1 contains NaN"),
        ((X, Y), {"kernel": "precomputed"}, "pass kernels, and the views themselves"),
        ((X,), {}, "two views or more"),
        ((X, Y[1:]), {}, "as many rows each"),
        ((X, Y), {"regularization": 0.0}, "regularization > 0"),
        ((X, Y), {"regularization": [0.1]}, "1 entries for 2 views"),
        ((X, Y), {"n_components": 0}, "n_components ≥ 1"),
    ]:
        with pytest.raises(ValueError, match=text):
            KernelCCA(**params).fit(*arguments)
    with pytest.raises(ValueError, match="fitted to 2 views; got 1"):
        KernelCCA().fit(X, Y).transform(X)
    with pytest.raises(ValueError, match="view 1 has 1 columns, and had 3 in fit"):
        KernelCCA().fit(X, Y).transform(X, Y[:, 0])


def test_many_features_need_no_eigendecomposition_of_all_views():
    X, Y, _ = views(300)
    k, kappa = Laplacian(1.0), 0.05
    model = KernelCCA(3, kernel=k, regularization=kappa).fit(X, Y)
    assert sum(map(np.linalg.matrix_rank, (k(X), k(Y)))) > 512  # as many features
    R = [K @ np.linalg.inv(K + 300 * kappa * np.eye(300)) for K in map(centred, (k(X), k(Y)))]
    values = np.sort(np.linalg.eigvals(R[0] @ R[1]).real)[::-1][:3]
    np.testing.assert_allclose(model.correlations_**2, values, rtol=1e-7)


def test_what_has_no_room_is_reduced_and_said(monkeypatch):
    X, Y, _ = views(300)
    monkeypatch.setenv("MERCER_MEMORY", "2MB")
    with pytest.warns(ApproximationWarning, match=r"Write centres=\d+ to agree"):
        model = KernelCCA(1, kernel=Laplacian(1.0)).fit(X, Y)
    assert 50 < len(model.functions_[0]) < 300
