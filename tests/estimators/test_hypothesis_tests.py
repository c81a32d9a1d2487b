"""Tests of two samples and of independence, against their definitions; and their level."""

from __future__ import annotations

import itertools
import tracemalloc
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import binom
from sklearn.exceptions import NotFittedError

from mercer.estimators import ConditionalMeanEmbedding, KernelRidge, hsic_test, mmd_test
from mercer.features import Nystroem, RandomFourierFeatures
from mercer.features.centres import Given
from mercer.kernels import Gaussian, Linear, Polynomial
from mercer.structured import Jaccard


def samples(m=12, n=9, shift=0.5, seed=0, d=2):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, d)), rng.standard_normal((n, d)) + shift


def unbiased_mmd(K, first):
    """MMD² by its definition, a sum over pairs."""
    X, Y = np.flatnonzero(first), np.flatnonzero(~first)
    same = [np.mean([K[i, j] for i, j in itertools.permutations(g, 2)]) for g in (X, Y)]
    return sum(same) - 2 * np.mean([K[i, j] for i in X for j in Y])


def hsic(K, L):
    n = len(K)
    H = np.eye(n) - 1.0 / n
    return np.trace(K @ H @ L @ H) / n**2


def test_the_statistic_is_mmd_and_the_null_are_permutations():
    X, Y = samples()
    k = Gaussian(0.8)
    found = mmd_test(X, Y, k, permutations=50, random_state=0)
    K = k(np.r_[X, Y])
    np.testing.assert_allclose(found.statistic, unbiased_mmd(K, np.arange(21) < 12))
    rng = np.random.default_rng(0)
    groups = np.zeros((51, 21), bool)
    groups[:, :12] = True
    groups[1:] = rng.permuted(groups[1:], axis=1)
    expected = [unbiased_mmd(K, group) for group in groups[1:]]
    np.testing.assert_allclose(found.null_distribution, expected, atol=1e-12)
    count = np.sum(np.array(expected) >= found.statistic - 1e-12)
    assert found.pvalue == pytest.approx((1 + count) / 51)


def test_the_default_kernel_has_the_median_distance_of_the_pooled_sample():
    X, Y = samples()
    Z = np.r_[X, Y]
    distances = np.linalg.norm(Z[:, None] - Z, axis=2)[np.triu_indices(21, 1)]
    found = mmd_test(X, Y, permutations=9, random_state=0)
    assert found.kernels[0].lengthscale == pytest.approx(np.median(distances))
    assert mmd_test(Y, X, permutations=9).kernels == found.kernels


@pytest.mark.parametrize("low_rank", [True, False])
def test_hsic_is_its_definition_whatever_the_rank(low_rank):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((250, 1 if low_rank else 12))
    Y = X[:, :1] ** 2 + 0.5 * rng.standard_normal((250, 1))
    k, other = Gaussian(2.0 if low_rank else 0.5), Gaussian(1.5 if low_rank else 0.1)
    found = hsic_test(X, Y, k, other, permutations=20, random_state=0)
    np.testing.assert_allclose(found.statistic, hsic(k(X), other(Y)), rtol=1e-7)
    orders = np.tile(np.arange(250), (20, 1))
    orders = np.random.default_rng(0).permuted(orders, axis=1)
    expected = [hsic(k(X), other(Y[order])) for order in orders]
    np.testing.assert_allclose(found.null_distribution, expected, rtol=1e-6)


def test_features_that_are_exact_give_the_exact_statistics():
    X, Y = samples()
    k = Polynomial(degree=2)
    phi = Nystroem(k, centres=Given(np.r_[X, Y]))  # exact between its own centres
    by_features = mmd_test(X, Y, features=phi, permutations=30, random_state=0)
    mu, nu = k.mean_embedding(X), k.mean_embedding(Y)
    np.testing.assert_allclose(by_features.statistic, mu.distance(nu) ** 2)
    pair = (phi, Nystroem(Linear(), centres=Given(Y)))
    found = hsic_test(X[:9], Y, features=pair, permutations=30, random_state=0)
    exact = hsic_test(X[:9], Y, k, Linear(), permutations=30, random_state=0)
    np.testing.assert_allclose(found.statistic, exact.statistic)
    np.testing.assert_allclose(found.null_distribution, exact.null_distribution, rtol=1e-7)


def test_the_linear_statistic_is_the_mean_over_pairs():
    X, Y = samples(11, 13)
    k = Gaussian(0.8)
    h = [
        k(X[2 * i], X[2 * i + 1])
        + k(Y[2 * i], Y[2 * i + 1])
        - k(X[2 * i], Y[2 * i + 1])
        - k(X[2 * i + 1], Y[2 * i])
        for i in range(5)
    ]
    found = mmd_test(X, Y, k, method="linear")
    np.testing.assert_allclose(found.statistic, np.mean(h))


def test_the_linear_independence_statistic_is_the_mean_over_quadruples():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2, 19, 1))
    k, other = Gaussian(0.8), Gaussian(1.3)
    K, L = k(X), other(Y)
    h = []
    for i in range(0, 16, 4):
        a, b, c, d = range(i, i + 4)
        parts = [M[a, b] + M[c, d] - M[a, c] - M[b, d] for M in (K, L)]
        h.append(parts[0] * parts[1] / 4)
    found = hsic_test(X, Y, k, other, method="linear")
    np.testing.assert_allclose(found.statistic, np.mean(h))
    many = rng.standard_normal((8000, 1))
    noisy = many + rng.standard_normal((8000, 1))
    found = hsic_test(many, noisy, k, other, method="linear")
    assert found.pvalue < 1e-6
    exact = hsic_test(many[:800], noisy[:800], k, other, permutations=1).statistic
    np.testing.assert_allclose(found.statistic, exact, rtol=0.3)


def test_linear_independence_tests_take_linear_memory():
    """A thousand orders of 20,000 rows are 160 MB, and nothing is permuted."""
    X, Y = np.random.default_rng(0).standard_normal((2, 20_000, 1))
    test = partial(hsic_test, kernel=Gaussian(), kernel_y=Gaussian(), method="linear")
    test(X[:100], Y[:100])  # code is compiled, which takes memory, too
    tracemalloc.start()
    try:
        test(X, Y)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_the_spectrum_of_the_limit_keeps_the_memory_budget(monkeypatch):
    """It took five times as much as there was."""
    X, Y = (np.random.default_rng(seed).standard_normal((1500, 10)) for seed in (0, 1))
    monkeypatch.setenv("MERCER_MEMORY", "20MB")
    with pytest.raises(ValueError, match="takes 51 MB, and there are 20 MB"):
        mmd_test(X, Y, method="asymptotic", random_state=0)
    assert 0.0 < mmd_test(X, Y, method="gamma", random_state=0).pvalue <= 1.0


def test_asymptotic_forms_draw_from_the_limit():
    """The limit has mean Σλ_i and variance 2Σλ_i², and p-values near those of permutations."""
    X, Y = samples(60, 50, shift=0.35)
    found, exact = (
        mmd_test(X, Y, method=method, permutations=4000, random_state=0)
        for method in ("asymptotic", "permutation")
    )
    k = found.kernels[0]
    gap = k.mean_embedding(X).distance(k.mean_embedding(Y)) ** 2
    np.testing.assert_allclose(found.statistic, gap)
    assert abs(found.pvalue - exact.pvalue) < 0.03
    H = np.eye(110) - 1.0 / 110
    values = np.linalg.eigvalsh(H @ k(np.r_[X, Y]) @ H) / 110 * (110 / 3000)
    null = found.null_distribution
    np.testing.assert_allclose(null.mean(), values.sum(), rtol=0.03)
    np.testing.assert_allclose(null.var(), 2 * (values**2).sum(), rtol=0.15)
    rng = np.random.default_rng(3)
    x = rng.standard_normal((60, 1))
    y = 0.7 * x + rng.standard_normal((60, 1))
    found, exact = (
        hsic_test(x, y, method=method, permutations=4000, random_state=0)
        for method in ("asymptotic", "permutation")
    )
    np.testing.assert_allclose(found.statistic, exact.statistic, rtol=1e-7)
    assert 0.001 < exact.pvalue < 0.5
    assert abs(found.pvalue - exact.pvalue) < 0.03
    np.testing.assert_allclose(
        found.null_distribution.mean(), exact.null_distribution.mean(), rtol=0.1
    )


def test_gamma_forms_are_near_the_permutation_p_values():
    X, Y = samples(60, 50, shift=0.35)
    by_gamma, exact = (
        mmd_test(X, Y, method=method, random_state=0) for method in ("gamma", "permutation")
    )
    K = by_gamma.kernels[0]
    np.testing.assert_allclose(
        by_gamma.statistic, K.mean_embedding(X).distance(K.mean_embedding(Y)) ** 2
    )
    assert 0.005 < exact.pvalue < 0.5
    assert abs(by_gamma.pvalue - exact.pvalue) < 0.05
    rng = np.random.default_rng(3)
    x = rng.standard_normal((60, 1))
    y = 0.6 * x + rng.standard_normal((60, 1))
    by_gamma, exact = (
        hsic_test(x, y, method=method, random_state=0) for method in ("gamma", "permutation")
    )
    np.testing.assert_allclose(by_gamma.statistic, exact.statistic, rtol=1e-7)
    assert 0.001 < exact.pvalue < 0.5
    assert abs(by_gamma.pvalue - exact.pvalue) < 0.05


@pytest.mark.parametrize("bandwidth", ["median", "aggregate", "power"])
@pytest.mark.parametrize("test", [mmd_test, hsic_test])
def test_the_level_holds_and_alternatives_are_found(test, bandwidth):
    """Over 60 null data sets the rejections at 20 % are binomial: 99.99 % of its mass."""
    rng = np.random.default_rng(0)
    rejected = 0
    for seed in range(60):
        X, Y = rng.standard_normal((2, 14, 1))
        found = test(X, Y, bandwidth=bandwidth, permutations=19, random_state=seed)
        rejected += found.pvalue <= 0.2
    low, high = binom.interval(0.9999, 60, 0.2)
    assert low <= rejected <= high
    X = rng.standard_normal((120, 1))
    Y = 1.5 + rng.standard_normal((120, 1)) if test is mmd_test else X**2
    assert test(X, Y, bandwidth=bandwidth, permutations=99, random_state=0).pvalue == 0.01


def test_aggregation_finds_what_the_median_misses():
    """A fine ripple on a wide density is seen by short lengthscales only."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 1))
    Y = np.round(rng.uniform(size=(300, 1)) * 8) / 8
    assert mmd_test(X, Y, permutations=199, random_state=0).pvalue > 0.05
    found = mmd_test(X, Y, bandwidth="aggregate", permutations=199, random_state=0)
    assert found.pvalue == 0.005
    assert found.kernels[0].lengthscale < 0.1


def test_objects_and_single_precision():
    rng = np.random.default_rng(0)
    draw = lambda low: [set(rng.integers(low, low + 8, 4).tolist()) for _ in range(20)]  # noqa: E731
    assert mmd_test(draw(0), draw(4), Jaccard(), permutations=99, random_state=0).pvalue == 0.01
    assert mmd_test(draw(0), draw(0), Jaccard(), permutations=99, random_state=0).pvalue > 0.05
    X, Y = samples()
    double, single = (
        mmd_test(X.astype(t), Y.astype(t), Gaussian(), permutations=99, random_state=0)
        for t in (np.float64, np.float32)
    )
    assert single.pvalue == pytest.approx(double.pvalue, abs=0.03)


def test_refusals():
    X, Y = samples()
    phi = RandomFourierFeatures(Gaussian(), n_components=5)
    for arguments, options, text in [
        ((X, Y), {"method": "exact"}, "method must be one of"),
        ((X, Y), {"bandwidth": "mean"}, "bandwidth must be one of"),
        ((X, Y), {"permutations": 0}, "permutations ≥ 1"),
        ((X[:1], Y), {}, "two points or more"),
        ((X[:, 0], Y[:, 0]), {}, "a row for each point"),
        ((X, Y), {"kernel": Linear(), "bandwidth": "median"}, "no single lengthscale"),
        ((X[:3], Y[:3]), {"bandwidth": "power"}, "four points or more"),
        ((X[:3], Y[:3]), {"method": "linear"}, "four points or more"),
        ((X, Y), {"method": "gamma", "bandwidth": "aggregate"}, "by permutations: write"),
        ((X, Y), {"kernel": "rbf"}, "must be a Kernel, as Gaussian"),
        ((X, Y[:, :1]), {}, "the same columns; got shapes"),
        ((X, Y[:, :1]), {"kernel": Gaussian()}, "the same columns; got shapes"),
        ((csr_array(X), csr_array(Y)), {}, "for a sparse matrix"),
        ((["a", "b"], ["c", "d"]), {}, "pass a kernel for other points"),
        ((X, Y), {"features": phi, "bandwidth": "median"}, "leave out kernel, bandwidth"),
        ((X, Y), {"features": phi, "method": "gamma"}, "leave out kernel, bandwidth"),
    ]:
        with pytest.raises(ValueError, match=text):
            mmd_test(*arguments, **options)
    with pytest.raises(ValueError, match="six pairs or more"):
        hsic_test(X, Y)
    with pytest.raises(ValueError, match="eight pairs or more"):
        hsic_test(X[:7], Y[:7], method="linear")
    with pytest.raises(ValueError, match="leave out kernel, bandwidth"):
        hsic_test(X[:7], Y[:7], kernel_y=Gaussian(), features=(phi, phi))


def test_random_features_find_a_shift_in_linear_time():
    X, Y = samples(400, 300, shift=0.4)
    phi = RandomFourierFeatures(Gaussian(1.5), n_components=50, random_state=0)
    assert mmd_test(X, Y, features=phi, permutations=99, random_state=0).pvalue == 0.01


# ---- conditional mean embeddings -----------------------------------------------------------------


def test_conditional_expectations_are_ridge_regressions():
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((30, 2)), rng.standard_normal((5, 2))
    Y = X[:, :1] + 0.1 * rng.standard_normal((30, 1))
    model = ConditionalMeanEmbedding(0.3, kernel=Gaussian(), output_kernel=Gaussian(0.7)).fit(X, Y)
    ridge = KernelRidge(0.3, kernel=Gaussian()).fit(X, np.sin(Y))
    np.testing.assert_allclose(model.expectation(new, np.sin), ridge.predict(new))
    np.testing.assert_allclose(model.expectation(new, np.sin(Y)), ridge.predict(new))
    mu = model.embedding(new)
    f = Gaussian(0.7).function([[0.2]], [1.0])
    inner = [mu.output(i).inner(f) for i in range(5)]
    np.testing.assert_allclose(inner, model.expectation(new, f(Y)))
    np.testing.assert_allclose(mu([[0.2]])[0], inner)


def test_targets_of_conditional_embeddings_may_be_one_number_each():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 2)), rng.standard_normal(20)
    model = ConditionalMeanEmbedding().fit(X, y)
    column = ConditionalMeanEmbedding().fit(X, y[:, None])
    np.testing.assert_array_equal(model.expectation(X, np.sin), column.expectation(X, np.sin)[:, 0])
    np.testing.assert_array_equal(model.embedding(X)([[0.3]]), column.embedding(X)([[0.3]]))
    with pytest.raises(ValueError, match="for each of the 20 rows of fit"):
        model.expectation(X, np.ones(3))
    for call in (lambda m: m.embedding(X), lambda m: m.expectation(X, np.sin)):
        with pytest.raises(NotFittedError):
            call(ConditionalMeanEmbedding())


def test_conditional_embeddings_on_centres_and_of_objects():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 1))
    Y = [{"warm"} if x > 0 else {"cold"} for x in X[:, 0]]
    model = ConditionalMeanEmbedding(0.1, output_kernel=Jaccard(), centres=15, random_state=0)
    chance = model.fit(X, Y).embedding([[2.0], [-2.0]])([{"warm"}])
    assert chance[0, 0] > 0.7 > 0.3 > chance[0, 1]
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, Y[1:])
