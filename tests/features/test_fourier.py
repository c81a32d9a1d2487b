"""Fourier features and Fastfood, against scikit-learn, definitions and dense twins."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from sklearn.kernel_approximation import PolynomialCountSketch as TheirSketch
from sklearn.kernel_approximation import RBFSampler as TheirSampler
from threadpoolctl import threadpool_limits

from mercer.features import (
    Fastfood,
    MercerFeatures,
    Nystroem,
    RandomFourierFeatures,
    RBFSampler,
    ReLUFeatures,
    TensorSketch,
)
from mercer.kernels import (
    Cauchy,
    Exponential,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    PeriodicBernoulli,
    RationalQuadratic,
    Spectral,
    laws,
)
from mercer.kernels.mercer import eigensystem


def cloud(n=60, d=5, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


# ---- scikit-learn --------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.3, "scale"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_sampler_is_that_of_scikit_learn(gamma, dtype):
    X = cloud(dtype=dtype)
    ours, theirs = (
        kind(gamma=gamma, n_components=33, random_state=7).fit(X)
        for kind in (RBFSampler, TheirSampler)
    )
    assert np.allclose(
        ours.transform(X), theirs.transform(X), atol=1e-5 if dtype is np.float32 else 1e-13
    )
    assert np.allclose(ours.random_weights_, theirs.random_weights_)
    assert np.allclose(ours.random_offset_, theirs.random_offset_)
    assert list(ours.get_feature_names_out()) == list(theirs.get_feature_names_out())


@pytest.mark.parametrize("coef0", [0, 1.5])
@pytest.mark.parametrize("components", [32, 33])
def test_the_sketch_is_that_of_scikit_learn(coef0, components):
    X = cloud()
    options = {"gamma": 0.4, "degree": 3, "coef0": coef0, "n_components": components}
    ours, theirs = (kind(**options, random_state=7).fit(X) for kind in (TensorSketch, TheirSketch))
    assert np.allclose(ours.transform(X), theirs.transform(X))
    sparse = scipy.sparse.csr_array(X)
    assert np.allclose(ours.transform(sparse), theirs.transform(X))
    assert ours.transform(X.astype(np.float32)).dtype == np.float32


# ---- features by their definition ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("count", [40, 41, 2100])
def test_features_are_cosines_of_the_frequencies(dtype, count):
    X = cloud(700, dtype=dtype)
    angles = {}
    for form in ("pairs", "phase", "complex"):
        phi = RandomFourierFeatures(Matern(1.5), count, form=form, random_state=0).fit(X)
        angles = X.astype(np.float64) @ phi.frequencies_.T
        if form == "pairs":
            expected = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
            if count % 2:
                expected = np.concatenate([np.cos(angles[:, :-1]), np.sin(angles[:, :-1])], axis=1)
                last = np.cos(angles[:, -1:] + phi.phases_)
                expected = np.concatenate([expected, last], axis=1)
            expected *= math.sqrt(2 / count)
        elif form == "phase":
            expected = math.sqrt(2 / count) * np.cos(angles + phi.phases_)
        else:
            expected = math.sqrt(1 / count) * np.exp(1j * angles)
        features = phi.transform(X)
        assert features.real.dtype == dtype
        size = np.abs(angles).max()
        unit = np.finfo(dtype).eps
        assert np.abs(features - expected).max() < (2 * size + 4) * unit * math.sqrt(2 / count)


def test_a_pair_has_length_one():
    Z = RandomFourierFeatures(3.0 * Gaussian(), 10, random_state=0).fit_transform(cloud())
    assert np.allclose((Z**2).sum(axis=1), 3.0)


@pytest.mark.parametrize("form", ["pairs", "phase", "complex"])
def test_the_number_of_threads_changes_no_bit(form):
    X = cloud(1500, 20)
    for kind in (RandomFourierFeatures, Fastfood):
        phi = kind(Gaussian(3.0), 130, form=form, random_state=0).fit(X)
        y = X[:, 0]
        results = []
        for threads in (1, 2):
            with threadpool_limits(threads, "blas"):
                sums = phi.weighted_sum(X, y)
                gram = phi.normal_equations(X, y).gram if form != "complex" else sums
                results.append((phi.transform(X), sums, gram))
        for one, two in zip(*results, strict=True):
            assert np.array_equal(one, two)


def test_orthogonal_frequencies_are_orthogonal_with_the_right_lengths():
    X = cloud(d=8)
    phi = RandomFourierFeatures(Matern(2.5, 2.0), 4000, sampling="orthogonal", random_state=0).fit(
        X
    )
    block = phi.frequencies_[:8]
    unit = block / np.linalg.norm(block, axis=1, keepdims=True)
    assert np.allclose(unit @ unit.T, np.eye(8))
    independent = RandomFourierFeatures(Matern(2.5, 2.0), 4000, random_state=1).fit(X)
    quantiles = [
        np.quantile(np.linalg.norm(p.frequencies_, axis=1), [0.1, 0.5, 0.9])
        for p in (phi, independent)
    ]
    assert np.allclose(*quantiles, rtol=0.08)


@pytest.mark.parametrize(
    ("kind", "options"),
    [(RandomFourierFeatures, {"sampling": "orthogonal"}), (Fastfood, {})],
)
@pytest.mark.parametrize("kernel", [Gaussian(2.0), Exponential(2.0), Matern(0.2)], ids=repr)
def test_the_error_of_dependent_frequencies_is_expected(kind, options, kernel):
    d = 16
    X = np.zeros((6, d))
    Y = cloud(6, d) * np.array([0.2, 0.3, 0.5, 0.7, 1.0, 1.5])[:, None]
    seeds = 300
    gaps = []
    for seed in range(seeds):
        phi = kind(kernel, 2 * d, random_state=seed, **options).fit(X)
        gaps.append((phi.transform(X) * phi.transform(Y)).sum(axis=1) - np.diag(kernel(X, Y)))
    observed = np.sqrt(np.mean(np.square(gaps), axis=0))
    assert np.allclose(observed, phi.expected_error(X, Y), rtol=0.3)


# ---- Fastfood ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_walsh_hadamard_transform(dtype):
    from mercer.features import compiled

    for size in (16, 32, 64, 128, 256, 512, 1024):
        block = cloud(3, size, dtype=dtype)
        expected = block.astype(np.float64) @ scipy.linalg.hadamard(size)
        compiled.hadamard(block)
        assert np.allclose(block, expected, atol=20 * size * np.finfo(dtype).eps)
    with pytest.raises(ValueError, match="power of two from 16 on; got 24"):
        compiled.hadamard(np.ones((1, 24)))


@pytest.mark.parametrize("width", [3, 16, 20])
def test_fastfood_is_the_product_of_its_matrices(width):
    X = cloud(5, width)
    scales = np.linspace(1.0, 2.0, width)
    phi = Fastfood(Gaussian(scales), 90, random_state=0).fit(X)
    size = phi.signs_.shape[1]
    H = scipy.linalg.hadamard(size)
    rows = []
    for b in range(len(phi.signs_)):
        first = H @ np.diag(phi.signs_[b])
        second = H @ np.diag(phi.gaussians_[b]) @ first[phi.permutations_[b]]
        rows.append(np.diag(phi.factors_[b]) @ second)
    dense = np.concatenate(rows)[:45]
    assert np.allclose(phi.frequencies_, dense[:, :width] / scales)
    angles = X @ phi.frequencies_.T
    expected = np.concatenate([np.cos(angles), np.sin(angles)], axis=1) / math.sqrt(45)
    assert np.allclose(phi.transform(X), expected)
    assert np.allclose(phi.transform(scipy.sparse.csr_array(X)), expected)


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Exponential(2.0), RationalQuadratic(1.5)])
def test_the_rows_of_fastfood_have_the_law_of_frequencies(kernel):
    X = cloud(2, 5)
    ours = Fastfood(kernel, 8000, random_state=0).fit(X).frequencies_
    theirs = RandomFourierFeatures(kernel, 8000, random_state=1).fit(X).frequencies_
    levels = [0.1, 0.25, 0.5, 0.75, 0.9]
    for view in (lambda w: np.linalg.norm(w, axis=1), lambda w: np.abs(w[:, 0])):
        assert np.allclose(
            np.quantile(view(ours), levels), np.quantile(view(theirs), levels), rtol=0.2
        )


# ---- sampled and leading eigenfunctions ----------------------------------------------------------


def test_eigenfunctions_are_orthonormal_and_add_up_to_the_kernel():
    phi = MercerFeatures(Gaussian(1.2), 40, deviation=0.9).fit(np.zeros((1, 1)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    Z = phi.transform(0.9 * nodes[:, None]) / np.sqrt(phi.eigenvalues_)
    gram = (Z[:, :12] * (weights / weights.sum())[:, None]).T @ Z[:, :12]
    assert np.allclose(gram, np.eye(12), atol=1e-10)
    circle = MercerFeatures(PeriodicBernoulli(2), 41).fit(np.zeros((1, 1)))
    grid = np.linspace(0, 1, 200, endpoint=False)[:, None]
    Z = circle.transform(grid)
    assert np.allclose(Z.T @ Z / 200, np.diag(circle.eigenvalues_), atol=1e-12)
    gap = np.abs(Z @ Z.T - PeriodicBernoulli(2)(grid)).max()
    assert gap <= circle.uniform_error(1.0) < 1e-3


def test_the_leading_products_over_columns_are_the_largest():
    phi = MercerFeatures(Gaussian([1.0, 3.0]), 30).fit(np.zeros((1, 2)))
    system = eigensystem(Gaussian([1.0, 3.0]), 2, 1.0)
    grid = np.stack(np.meshgrid(np.arange(40), np.arange(40)), axis=-1).reshape(-1, 2)
    expected = np.sort(system.eigenvalues(grid))[::-1][:30]
    assert np.allclose(phi.eigenvalues_, expected)
    assert (np.diff(phi.eigenvalues_) <= 1e-15).all()


# ---- bounds and refusals -------------------------------------------------------------------------


def test_uniform_errors_fall_with_features_and_grow_with_the_ball():
    X = cloud(d=2)
    maps = [RandomFourierFeatures(Gaussian(), s, random_state=0).fit(X) for s in (1000, 100_000)]
    assert maps[1].uniform_error(1.0) < 0.2 * maps[0].uniform_error(1.0)
    assert maps[0].uniform_error(5.0) > maps[0].uniform_error(1.0)
    assert maps[0].uniform_error(1.0, 0.99) > maps[0].uniform_error(1.0, 0.5)
    rough = RandomFourierFeatures(Exponential(), 100, random_state=0).fit(X)
    assert rough.uniform_error(1.0) == math.inf


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda X: RandomFourierFeatures(Linear()).fit(X), "has none on 5 columns: it is not stat"),
        (lambda X: RandomFourierFeatures(form="triples").fit(X), "form must be one of"),
        (lambda X: RandomFourierFeatures(sampling="lazy").fit(X), "sampling must be one of"),
        (lambda X: RandomFourierFeatures(n_components=0).fit(X), "whole number n_components ≥ 1"),
        (
            lambda X: RandomFourierFeatures(Laplacian(), sampling="orthogonal").fit(X),
            "orthogonal sampling needs a kernel of the distance",
        ),
        (lambda X: Fastfood(Laplacian()).fit(X), "Fastfood needs a kernel of the distance"),
        (
            lambda X: Fastfood(Spectral(lambda w: np.exp(-w), 30.0)).fit(X[:, :1]),
            "up to 16 columns",
        ),
        (lambda X: Fastfood(Gaussian([1.0, 2.0])).fit(X), "2 lengthscales were given for points"),
        (lambda X: ReLUFeatures(order=3).fit(X), "ArcCosine has order 0, 1 or 2; got 3"),
        (lambda X: TensorSketch(coef0=-1.0).fit(X), "finite coef0 ≥ 0"),
        (lambda X: MercerFeatures(Matern(1.5)).fit(X), "are not known: they are for"),
        (lambda X: MercerFeatures(sampling="some").fit(X), "sampling must be one of"),
        (
            lambda X: RandomFourierFeatures().fit(X).expected_error(X, X[:3]),
            "pairs are rows of two arrays of one shape",
        ),
        (
            lambda X: RandomFourierFeatures().fit(X).uniform_error(1.0, 1.0),
            "needs a finite 0 < probability < 1; got 1.0",
        ),
        *[
            (
                lambda X, radius=radius, phi=phi: phi.fit(np.abs(X)).uniform_error(radius),
                f"{type(phi).__name__} needs a finite radius ≥ 0; got {radius}",
            )
            for radius in (math.nan, math.inf, -1.0)
            for phi in (RandomFourierFeatures(), Nystroem(), MercerFeatures(n_components=5))
        ],
        (
            lambda X: RandomFourierFeatures(form="complex").fit(X).normal_equations(X, X[:, 0]),
            'normal equations are real: write form="pairs"',
        ),
    ],
)
def test_refusals(make, text):
    with pytest.raises(ValueError, match=text):
        make(cloud())


def test_quasi_random_points_beat_independent_ones():
    X = cloud(40, 2)
    K = Gaussian(1.0)(X)

    def error(sampling):
        gaps = []
        for seed in range(8):
            phi = RandomFourierFeatures(Gaussian(1.0), 512, sampling=sampling, random_state=seed)
            Z = phi.fit_transform(X)
            gaps.append(np.mean((Z @ Z.T - K) ** 2))
        return math.sqrt(np.mean(gaps))

    assert error("quasi-random") < 0.5 * error("independent")


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian([0.5, 2.0]),
        2.0 * Matern(4.0, 1.5) + RationalQuadratic(3.0),
        Gaussian(2.0) * Cauchy(3.0) + 1.0,
        Gaussian(0.5).on(1) * Matern(4.0).on(0),
        Gaussian().after(np.array([[1.0, 2.0], [0.0, 3.0]])),
        Spectral(lambda w: np.exp(-(w**2) / 2), 8.0),
    ],
    ids=repr,
)
def test_measures_know_the_covariance_of_their_frequencies(kernel):
    measure = laws.spectral_density(kernel, 2).payload
    sample = measure.sample(100_000, random_state=0)
    assert np.allclose(sample.T @ sample / len(sample), measure.covariance(), rtol=0.1, atol=0.02)


def test_frequencies_without_variance():
    for kernel in (Exponential(), Laplacian(), Laplacian().after(np.eye(2))):
        assert np.isinf(np.diag(laws.spectral_density(kernel, 2).payload.covariance())).all()
