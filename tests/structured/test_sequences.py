"""Kernels on sequences against their definition on all short strings."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from mercer.kernels import laws
from mercer.structured import (
    AllSubsequences,
    BlendedSpectrum,
    CommonSubsequences,
    EditSimilarity,
    GapWeighted,
    GlobalAlignment,
    MismatchSpectrum,
    Spectrum,
    WeightedDegree,
    WildcardSpectrum,
)
from mercer.structured.sequences import SequencePoints
from structured_oracles import (
    blended,
    edit_distance,
    gap_weighted,
    global_alignment,
    gram,
    mismatches,
    present_subsequences,
    strings,
    subsequences,
    weighted_degree,
    wildcards,
    words,
)

SHORT = [*strings("ab", 4), "abcab", "cabbac", "aaaaaa"]
FEATURES = {
    "spectrum-1": (Spectrum(1), lambda x: words(x, 1)),
    "spectrum-3": (Spectrum(3), lambda x: words(x, 3)),
    "blended": (BlendedSpectrum(3, 0.7), lambda x: blended(x, 3, 0.7)),
    "wildcard": (WildcardSpectrum(3, 2, 0.6), lambda x: wildcards(x, 3, 2, 0.6)),
    "mismatch": (MismatchSpectrum("abc", 3, 2), lambda x: mismatches(x, "abc", 3, 2)),
    "weighted-degree": (WeightedDegree(3), lambda x: weighted_degree(x, 3)),
}
PROGRAMS = {
    "all": (AllSubsequences(), subsequences),
    "all-decayed": (AllSubsequences(0.6), lambda x: subsequences(x, 0.6)),
    "common": (CommonSubsequences(), present_subsequences),
    "common-decayed": (CommonSubsequences(0.6), lambda x: present_subsequences(x, 0.6)),
    "gap-weighted-1": (GapWeighted(1, 0.5), lambda x: gap_weighted(x, 1, 0.5)),
    "gap-weighted-3": (GapWeighted(3, 0.7), lambda x: gap_weighted(x, 3, 0.7)),
    "gap-free": (GapWeighted(2, 1.0), lambda x: gap_weighted(x, 2, 1.0)),
}


@pytest.mark.parametrize("name", FEATURES | PROGRAMS)
def test_values_are_those_of_the_definition(name):
    kernel, features = (FEATURES | PROGRAMS)[name]
    exact = gram(features, SHORT)
    np.testing.assert_allclose(kernel(SHORT), exact, rtol=1e-12)
    np.testing.assert_allclose(kernel.gram(SHORT).diagonal(), np.diagonal(exact), rtol=1e-12)
    np.testing.assert_allclose(kernel(SHORT[20:], SHORT[:7]), exact[20:, :7], rtol=1e-12)


@pytest.mark.parametrize("name", FEATURES)
def test_features_have_the_inner_products(name):
    kernel, _ = FEATURES[name]
    points = kernel.points(SHORT)
    phi = kernel.features(points)
    np.testing.assert_allclose((phi @ phi.T).toarray(), kernel(SHORT), rtol=1e-12)
    part = kernel.features(points.slice(3, 9))
    assert (part != phi[3:9]).nnz == 0
    unit = kernel.normalised().features(points)
    np.testing.assert_allclose((unit @ unit.T).toarray(), kernel.normalised()(SHORT), atol=1e-12)


@pytest.mark.parametrize("name", FEATURES | PROGRAMS)
def test_normalised_values(name):
    """Cosines of features; two sequences without features are alike."""
    kernel, features = (FEATURES | PROGRAMS)[name]
    exact = gram(features, SHORT)
    own = np.sqrt(np.diagonal(exact))
    scale = np.outer(own, own)
    expected = np.where(scale > 0, exact / np.where(scale > 0, scale, 1.0), 0.0)
    expected[np.ix_(own == 0, own == 0)] = 1.0
    np.testing.assert_allclose(kernel.normalised()(SHORT), expected, atol=1e-12)
    np.testing.assert_allclose(kernel.normalised().gram(SHORT).diagonal(), np.ones(len(SHORT)))


@pytest.mark.parametrize("name", FEATURES | PROGRAMS)
def test_tokens_bytes_and_text_agree(name):
    kernel, _ = (FEATURES | PROGRAMS)[name]
    text = ["abcab", "", "cb", "bba"]
    for other in ([tuple(s) for s in text], [list(s) for s in text], [s.encode() for s in text]):
        alphabet = "abc" if isinstance(other[0], (list, tuple)) else b"abc"
        k = kernel.with_(alphabet=tuple(alphabet)) if hasattr(kernel, "alphabet") else kernel
        k = k.with_(alphabet=b"abc") if hasattr(k, "alphabet") and alphabet == b"abc" else k
        np.testing.assert_array_equal(k(other), kernel(text))
    codes = [np.array([ord(c) for c in s], int) for s in text]
    k = kernel.with_(alphabet=(97, 98, 99)) if hasattr(kernel, "alphabet") else kernel
    np.testing.assert_array_equal(k(codes), kernel(text))


# ---- log scale -----------------------------------------------------------------------------------

LONG = ["abc" * 420, "ba" * 300 + "c" * 9, "a" * 300 + "b" * 200]


@pytest.mark.parametrize("kernel", [AllSubsequences(), CommonSubsequences()])
def test_long_sequences_on_a_log_scale(kernel):
    """Counts beyond floats are refused, their normalised values are right."""
    with pytest.raises(ValueError, match=r"write kernel\.normalised\(\), which is comp"):
        kernel(LONG)
    K = kernel.normalised()(LONG)
    np.testing.assert_allclose(np.diagonal(K), 1.0, rtol=1e-9)
    assert np.linalg.eigvalsh(K)[0] > -1e-9
    assert (K[~np.eye(3, dtype=bool)] < 1).all()


@pytest.mark.parametrize("kernel", [AllSubsequences(), CommonSubsequences(), GapWeighted(3, 0.4)])
def test_logarithms_are_those_of_the_values(kernel):
    x = kernel.points(["abcab", "cabba", "b", "aaaaaaaa"])
    with np.errstate(divide="ignore"):
        logs = np.log(kernel.values(x, x, logs=False))
    np.testing.assert_allclose(kernel.values(x, x, logs=True), logs, rtol=1e-12)


def test_counts_of_one_letter_in_closed_form():
    """aⁿ and aᵐ: Σ_k (n choose k)(m choose k) = (n + m choose n), far beyond floats."""
    from math import comb, log

    kernel = AllSubsequences()
    x = kernel.points(["a" * 800, "a" * 500])
    assert np.isclose(kernel.values(x, x, logs=True)[0, 1], log(comb(1300, 500)), rtol=1e-12)
    gaps = GapWeighted(160, 1.0)
    x = gaps.points(["a" * 500, "a" * 400])
    exact = log(comb(500, 160)) + log(comb(400, 160))
    assert np.isclose(gaps.values(x.slice(0, 1), x.slice(1, 2), logs=True)[0, 0], exact, rtol=1e-12)
    common = CommonSubsequences()
    assert common("a" * 800, "a" * 500) == 501
    assert common("ab" * 30, "ab" * 30) == common("ba" * 30, "ba" * 30)


# ---- alignments ----------------------------------------------------------------------------------


@pytest.mark.parametrize("band", [0, 2])
def test_global_alignment_sums_over_alignments(band):
    random = np.random.default_rng(0)
    X = [random.standard_normal(n) for n in (1, 2, 3, 4, 3)] + [np.empty(0)]
    kernel = GlobalAlignment(0.8, band)
    exact = [[global_alignment(x, y, 0.8, band) for y in X] for x in X]
    np.testing.assert_allclose(kernel(X), exact, rtol=1e-12)


def test_alignments_too_many_or_too_unlike_for_floats():
    random = np.random.default_rng(1)
    start = random.standard_normal((1, 2))
    X = [start + 0.05 * random.standard_normal((n, 2)) for n in (600, 500, 450)] + [
        100.0 + np.zeros((200, 2))
    ]
    kernel = GlobalAlignment(0.5)
    with pytest.raises(ValueError, match="larger than"):
        kernel(X)
    K = kernel.normalised()(X)
    np.testing.assert_allclose(np.diagonal(K), 1.0, rtol=1e-9)
    assert K[0, 3] == 0.0
    assert 0.0 < K[0, 1] < 1.0


def test_plain_and_log_alignments_agree():
    random = np.random.default_rng(2)
    kernel = GlobalAlignment(1.0)
    x = kernel.points([random.standard_normal((n, 3)) for n in (5, 8, 12)])
    plain = kernel.values(x, x, logs=False)
    np.testing.assert_allclose(np.exp(kernel.values(x, x, logs=True)), plain, rtol=1e-12)
    one, two = (x.slice(i, i + 1) for i in (0, 1))
    far = kernel.points([p.data[0] + 1e3 * i for i, p in enumerate((one, two))])
    logs = kernel.values(far, far, logs=True)
    assert np.isfinite(logs).all()
    assert logs[0, 1] < -1e6


def test_edit_distances():
    X = ["kitten", "sitting", "", "kit", "ab", "ba"]
    exact = [[edit_distance(x, y) for y in X] for x in X[:4]]
    kernel = EditSimilarity(2.0)
    x, y = kernel.points(X[:4]), kernel.points(X)
    np.testing.assert_array_equal(kernel.distances(x, y), exact)
    np.testing.assert_allclose(kernel(X[:4], X), np.exp(-np.array(exact) / 2.0))


def test_edit_similarity_is_declared_indefinite_and_is_so():
    """A witness on short strings over four letters."""
    kernel = EditSimilarity(1.0)
    assert laws.positive_definite(kernel).no
    check = EditSimilarity(8.0).check(strings("abc", 3))
    assert not check.passed


# ---- what is read --------------------------------------------------------------------------------


def test_points_share_their_arrays_and_travel_light():
    kernel = Spectrum(2)
    points = kernel.points([f"item{i}" for i in range(100)])
    few = points.take([3, 50])
    assert few.symbols is points.symbols
    assert few.data == ["item3", "item50"]
    restored = pickle.loads(pickle.dumps(few))
    assert restored.data == few.data
    assert len(restored.symbols) == len("item3item50")
    both = few.concatenated(kernel.points(["", "ü"]))
    assert both.data == ["item3", "item50", "", "ü"]
    assert points.slice(0, 2).concatenated(few).symbols is points.symbols


def test_sequences_come_back_as_they_were():
    for X in (["añb", "", "🙂"], [b"ab\xff", b""], [("to", 7, ("a", 1)), ()]):
        assert SequencePoints.read(X).data == X


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("abc", "must be a list of sequences; got 'abc'"),
        (["abc", 5], "item 1 is a int; a sequence is a text, bytes, or a list"),
        (["abc", b"abc"], "item 1 is made of bytes, and item 0 of text"),
        ([[1, 2], "ab"], "item 1 is made of text, and item 0 of tokens"),
        ([["a"], [{}]], "item 1 holds what is no symbol"),
        ([["a"], [object()]], "item 1 holds what is no symbol"),
    ],
)
def test_bad_sequences_are_named(X, message):
    with pytest.raises(ValueError, match=message):
        Spectrum(2).points(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1.0], ["a"]], "item 1 is no series"),
        ([[1.0], [np.nan]], "item 1 contains NaN"),
        ([np.ones((2, 2)), np.ones((2, 3))], r"item 1 has shape \(2, 3\), and item 0 \(2, 2\)"),
    ],
)
def test_bad_series_are_named(X, message):
    with pytest.raises(ValueError, match=message):
        GlobalAlignment().points(X)


def test_alphabets_do_not_mix():
    with pytest.raises(ValueError, match="one alphabet; got text and bytes"):
        Spectrum(2)(["ab"], [b"ab"])
    with pytest.raises(ValueError, match="item 1 holds 'N', which is not in the alphabet 'ACGT'"):
        MismatchSpectrum()(["ACGT", "ACGNT"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Spectrum(0), "Spectrum needs a whole number length ≥ 1; got 0"),
        (lambda: WildcardSpectrum(3, 3), "wildcards from 0 to length − 1 = 2; got 3"),
        (lambda: MismatchSpectrum("ab", 2, -1), "mismatches from 0 to length − 1 = 1; got -1"),
        (lambda: GapWeighted(2, 1.5), "GapWeighted needs a finite 0 < decay < 1; got 1.5"),
        (lambda: AllSubsequences(0.0), "AllSubsequences needs a finite decay > 0; got 0.0"),
        (lambda: GlobalAlignment(-1.0), "GlobalAlignment needs a finite lengthscale > 0"),
        (lambda: GlobalAlignment(1.0, -2), "whole number band ≥ 0"),
        (lambda: MismatchSpectrum(alphabet=""), "needs its alphabet"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()
