"""Kernels on sets and bags against their definition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from sklearn.metrics.pairwise import cosine_similarity

from mercer.kernels import BlockKernel, Gaussian, Linear, laws
from mercer.structured import GaussianOfMeans, Intersection, Jaccard, MeanMap
from mercer.testing import check_kernel, strategies

SETS = [frozenset(s) for s in ("", "a", "ab", "abc", "bcd", "xyz", "abcxyz")]
WEIGHTED = [{"a": 2.0, "b": 0.5}, {"b": 3.0}, {}, {"a": 0.0, "c": 1.0}, {"a": 1.0, "b": 1.0}]


def weights(item, symbol):
    return item.get(symbol, 0.0) if isinstance(item, dict) else float(symbol in item)


def pairwise(formula, X):
    symbols = {s for x in X for s in x}

    def value(x, y):
        a, b = (np.array([weights(item, s) for s in symbols]) for item in (x, y))
        return formula(np.minimum(a, b).sum(), np.maximum(a, b).sum())

    return np.array([[value(x, y) for y in X] for x in X])


@pytest.mark.parametrize("X", [SETS, WEIGHTED, [*SETS, *WEIGHTED]])
def test_intersection_and_jaccard(X):
    np.testing.assert_allclose(Intersection()(X), pairwise(lambda low, high: low, X))
    share = pairwise(lambda low, high: low / high if high else 1.0, X)
    np.testing.assert_allclose(Jaccard()(X), share)


def test_normalised_intersection_is_the_cosine():
    rows = [[float(s in x) for s in "abcdxyz"] for x in SETS]
    expected = cosine_similarity(rows)
    expected[0, 0] = 1.0  # the empty set
    np.testing.assert_allclose(Intersection().normalised()(SETS), expected)


def test_features_of_sets():
    kernel = Intersection()
    points = kernel.points(SETS)
    phi = kernel.features(points)
    np.testing.assert_allclose((phi @ phi.T).toarray(), kernel(SETS))
    with pytest.raises(ValueError, match="where weights are whole numbers only"):
        kernel.features(kernel.points(WEIGHTED))
    with pytest.raises(ValueError, match=r"mercer\.features\.MinHash"):
        Jaccard().features(points)


def test_rows_of_a_sparse_matrix_are_weighted_sets():
    rows = scipy.sparse.random_array((6, 9), density=0.4, rng=np.random.default_rng(0))
    dense = rows.toarray()
    low = np.minimum(dense[:, None], dense).sum(axis=2)
    np.testing.assert_allclose(Intersection()(rows.tocsr()), low)
    dicts = [{int(j): row[j] for j in np.flatnonzero(row)} for row in dense]
    np.testing.assert_allclose(Jaccard()(dicts, rows.tocsr()), Jaccard()(dicts))


def test_new_sets_with_unseen_symbols():
    kernel, new = Jaccard(), [{"a", "new"}, {"newer"}]
    np.testing.assert_allclose(kernel(new, [{"a"}, {"b"}]), [[0.5, 0.0], [0.0, 0.0]])


@settings(max_examples=10)
@given(strategies.sets() | strategies.weighted_sets())
def test_contract_on_random_sets(X):
    check_kernel(Jaccard(), X)
    check_kernel(Intersection().normalised(), X)


@settings(max_examples=10)
@given(strategies.bags())
def test_contract_on_random_bags(X):
    check_kernel(MeanMap(Gaussian(1.5)), X)


# ---- bags ----------------------------------------------------------------------------------------

BAGS = [np.random.default_rng(i).standard_normal((n, 2)) for i, n in enumerate((1, 4, 0, 3))]


def test_mean_maps_are_means_of_kernel_values():
    k = Gaussian(0.8)
    exact = [[k(a, b).mean() if len(a) and len(b) else 0.0 for b in BAGS] for a in BAGS]
    np.testing.assert_allclose(MeanMap(k)(BAGS), exact, rtol=1e-12)
    np.testing.assert_allclose(MeanMap(k).gram(BAGS).diagonal(), np.diagonal(exact), rtol=1e-12)


def test_distance_of_means_in_feature_space():
    means = np.array([bag.mean(axis=0) if len(bag) else np.zeros(2) for bag in BAGS])
    np.testing.assert_allclose(
        GaussianOfMeans(Linear(), 0.7)(BAGS), Gaussian(0.7)(means), rtol=1e-12
    )


def test_definiteness_follows_the_kernel_inside():
    unknown = BlockKernel(lambda X, Y: X @ Y.T)
    assert laws.positive_definite(MeanMap(unknown)).unknown
    assert laws.positive_definite(GaussianOfMeans(unknown)).unknown


@pytest.mark.parametrize(
    ("kernel", "X", "message"),
    [
        (Jaccard(), {"a", "b"}, r"must be a list of sets; got .*Write \[x\]"),
        (Jaccard(), [{"a"}, ["a", "b"]], r"item 1 is a list; a set is a Python set.*Counter"),
        (Jaccard(), [{"a"}, {"b": -1.0}], "item 1 gives 'b' the weight -1.0"),
        (Jaccard(), [{"a"}, {object()}], "item 1 holds what is no symbol"),
        (MeanMap(), [np.eye(2), np.eye(3)], r"item 1 has shape \(3, 3\), and item 0 \(2, 2\)"),
        (MeanMap(), [np.eye(2), [1.0, 2.0]], r"item 1 is no bag .*item\[None\].*shape \(2,\)"),
        (MeanMap(), [[[np.nan]]], "item 0 contains NaN"),
        (MeanMap(), ["ab"], "item 0 is no bag of vectors"),
    ],
)
def test_bad_sets_and_bags_are_named(kernel, X, message):
    with pytest.raises(ValueError, match=message):
        kernel.points(X)


def test_kinds_do_not_mix():
    with pytest.raises(ValueError, match="takes SetPoints; got BagPoints"):
        Jaccard().points(MeanMap().points(BAGS))
    with pytest.raises(ValueError, match="needs a kernel on vectors"):
        MeanMap("rbf")
