"""Kernel principal components, against scikit-learn's and against the definition."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import KernelPCA as Theirs
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import KernelPCA
from mercer.features.centres import Given
from mercer.kernels import Gaussian, Linear

SOLVERS = ("dense", "arpack", "randomized")


def data(n=120, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * np.arange(1, d + 1), rng.standard_normal((9, d))


def centred(K):
    H = np.eye(len(K)) - 1.0 / len(K)
    return H @ K @ H


@pytest.mark.parametrize("solver", SOLVERS)
def test_components_are_those_of_scikit_learn(solver):
    X, new = data()
    params = {"kernel": "rbf", "gamma": 0.1, "eigen_solver": solver, "random_state": 0}
    params |= {"fit_inverse_transform": True, "alpha": 0.1}
    ours, theirs = KernelPCA(5, **params).fit(X), Theirs(5, **params).fit(X)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-6)
    np.testing.assert_allclose(ours.transform(new), theirs.transform(new), atol=1e-5)
    np.testing.assert_allclose(ours.fit_transform(X), theirs.fit_transform(X), atol=1e-5)
    back = ours.inverse_transform(ours.transform(new))
    np.testing.assert_allclose(back, theirs.inverse_transform(theirs.transform(new)), atol=1e-4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_eigenvalues_and_explained_variance_are_those_of_the_centred_matrix(solver):
    X, _ = data(60)
    k = Gaussian(2.0)
    values = np.linalg.eigvalsh(centred(k(X)))[::-1]
    model = KernelPCA(4, kernel=k, eigen_solver=solver, random_state=0).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, values[:4], rtol=1e-8)
    np.testing.assert_allclose(model.explained_variance_ratio_, values[:4] / values.sum(), 1e-8)
    gram = centred(k(X)) @ model.eigenvectors_
    np.testing.assert_allclose(gram, model.eigenvectors_ * model.eigenvalues_, atol=1e-6)


def test_components_are_orthonormal_functions_of_mean_zero():
    X, _ = data(80)
    model = KernelPCA(3, kernel=Gaussian(2.0)).fit(X)
    f = model.function_
    inner = [[f.output(i).inner(f.output(j)) for j in range(3)] for i in range(3)]
    np.testing.assert_allclose(inner, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(model.transform(X).mean(axis=0), 0.0, atol=1e-9)


def test_all_centres_give_the_exact_components():
    X, new = data(50)
    k = Gaussian(2.0)
    exact = KernelPCA(4, kernel=k).fit(X)
    model = KernelPCA(4, kernel=k, centres=Given(X)).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(model.explained_variance_ratio_, exact.explained_variance_ratio_)
    np.testing.assert_allclose(
        np.abs(model.transform(new)), np.abs(exact.transform(new)), atol=1e-6
    )
    few = KernelPCA(4, kernel=k, centres=20, random_state=0).fit(X)
    assert (few.eigenvalues_ <= exact.eigenvalues_ * (1 + 1e-9)).all()  # K̂ is below K
    assert (few.eigenvalues_ > 0.5 * exact.eigenvalues_).all()


def test_batches_give_the_components_of_all_points():
    X, new = data(90)
    centres = Given(X[:30])
    whole = KernelPCA(3, kernel=Gaussian(2.0), centres=centres).fit(X)
    model = KernelPCA(3, kernel=Gaussian(2.0), centres=centres)
    for batch in np.split(X, 3):
        model.partial_fit(batch)
    np.testing.assert_allclose(model.eigenvalues_, whole.eigenvalues_)
    np.testing.assert_allclose(model.transform(new), whole.transform(new), atol=1e-8)
    by_count = KernelPCA(3, kernel=Gaussian(2.0)).partial_fit(X[:50]).partial_fit(X[50:])
    assert len(by_count.X_fit_) == 50
    assert clone(by_count).partial_fit(X[:10]).function_.outputs == 3


def test_single_precision_and_sparse_rows():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    X, new = data()
    exact = KernelPCA(3, kernel=Gaussian(2.0), eigen_solver="dense").fit(X)
    single = KernelPCA(3, kernel=Gaussian(2.0), eigen_solver="arpack", random_state=0)
    single.fit(X.astype(np.float32))
    assert single.transform(new.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.eigenvalues_, exact.eigenvalues_, rtol=1e-5)
    sparse = KernelPCA(3, kernel=Gaussian(2.0), eigen_solver="arpack", random_state=0)
    sparse.fit(scipy_sparse.csr_array(X))
    np.testing.assert_allclose(
        np.abs(sparse.transform(new)), np.abs(exact.transform(new)), atol=1e-7
    )


def test_the_matrix_is_stored_only_where_memory_allows(monkeypatch):
    from mercer.evaluation.cpu.triangle import Triangle

    X, _ = data(1500)
    model = KernelPCA(3, kernel=Gaussian(2.0), random_state=0)
    stored = clone(model).fit(X)
    monkeypatch.setenv("MERCER_MEMORY", "16MB")  # half of K takes 9 MB, more than half of that
    monkeypatch.setattr(Triangle, "__init__", lambda self, *_: pytest.fail("K was stored"))
    lazy = clone(model).fit(X)
    np.testing.assert_allclose(lazy.eigenvalues_, stored.eigenvalues_, rtol=1e-12)
    np.testing.assert_allclose(lazy.eigenvectors_, stored.eigenvectors_, atol=1e-9)


def test_refusals():
    X, _ = data(20)
    for params, text in [
        ({"n_components": 0}, "n_components must be a whole number"),
        ({"eigen_solver": "qr"}, "eigen_solver must be one of"),
        ({"iterated_power": -1}, "iterated_power must be"),
        ({"centres": "many"}, "centres must be how many"),
        ({"kernel": "precomputed", "centres": 3}, "centres are points"),
        ({"kernel": "precomputed", "fit_inverse_transform": True}, "Cannot fit_inverse_transform"),
    ]:
        with pytest.raises(ValueError, match=text):
            KernelPCA(**params).fit(X)
    with pytest.raises(ValueError, match="keeps no points to learn pre-images"):
        KernelPCA(fit_inverse_transform=True).partial_fit(X)
    with pytest.raises(ValueError, match="square matrix"):
        KernelPCA(kernel="precomputed").fit(X)


@parametrize_with_checks(
    [KernelPCA(2), KernelPCA(2, kernel=Gaussian(), centres=3), KernelPCA(kernel=Linear())]
)
def test_it_passes_every_check_of_scikit_learn(estimator, check):
    check(estimator)
