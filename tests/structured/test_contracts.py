"""Every kernel on objects keeps the contract of all kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from mercer.kernels import Gaussian, laws
from mercer.structured import (
    AllSubsequences,
    BlendedSpectrum,
    CommonSubsequences,
    EditSimilarity,
    EmpiricalMap,
    GapWeighted,
    GaussianOfMeans,
    GlobalAlignment,
    Intersection,
    Jaccard,
    MeanMap,
    MismatchSpectrum,
    Spectrum,
    WeightedDegree,
    WildcardSpectrum,
)
from mercer.testing import check_kernel, strategies

WORDS = ["kernel", "kern", "learn", "learning", "hilbert", "space", "", "a", "kernel", "spaces"]
DNA = ["ACGT", "ACGTT", "", "GGGACG", "TTAAC", "ACGT"]
TOKENS = [("to", "be"), ("or", "not", "to", "be"), (), (1, 2, "to"), ("be",)]
SETS = [{"a", "b"}, {"b", "c", "d"}, set(), {"a": 2.0, "b": 0.5}, {1, 2, "a"}]
BAGS = [np.eye(2), np.ones((1, 2)), np.empty((0, 2)), np.arange(6.0).reshape(3, 2) / 4]
SERIES = [np.array([0.0, 1.0, 0.5]), np.array([0.2]), np.empty(0), np.array([1.0, 1.0, 0.0, 2.0])]

CASES = {
    "intersection": (Intersection(), SETS),
    "jaccard": (Jaccard(), SETS),
    "mean-map": (MeanMap(Gaussian(0.7)), BAGS),
    "gaussian-of-means": (GaussianOfMeans(Gaussian(0.7), 0.5), BAGS),
    "spectrum": (Spectrum(2), WORDS),
    "spectrum-tokens": (Spectrum(1), TOKENS),
    "blended": (BlendedSpectrum(3, 0.5), WORDS),
    "wildcard": (WildcardSpectrum(3, 1), WORDS),
    "mismatch": (MismatchSpectrum(length=3), DNA),
    "weighted-degree": (WeightedDegree(3), DNA),
    "gap-weighted": (GapWeighted(2, 0.6), WORDS),
    "all-subsequences": (AllSubsequences(0.8), WORDS),
    "common-subsequences": (CommonSubsequences(), WORDS),
    "global-alignment": (GlobalAlignment(0.7), SERIES),
    "empirical-map": (EmpiricalMap(EditSimilarity(3.0), ("kernel", "space")), WORDS),
    "normalised": (AllSubsequences().normalised(), WORDS),
    "sum": (Spectrum(2) + 2.0 * GapWeighted(2), WORDS),
    "product": (Spectrum(1).normalised() * CommonSubsequences().normalised(), WORDS),
    "exponential": (Jaccard().exp(), SETS),
}


@pytest.mark.parametrize("name", CASES)
def test_contract(name):
    check_kernel(*CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_positive_definite_is_known(name):
    kernel, _ = CASES[name]
    assert laws.positive_definite(kernel).yes


@settings(max_examples=10)
@given(strategies.texts())
def test_contract_on_random_texts(X):
    for kernel in (GapWeighted(2), CommonSubsequences().normalised(), BlendedSpectrum(2)):
        check_kernel(kernel, X)


@settings(max_examples=10)
@given(strategies.sequences())
def test_contract_on_random_sequences(X):
    check_kernel(AllSubsequences().normalised(), X)


@settings(max_examples=10)
@given(strategies.series())
def test_contract_on_random_series(X):
    check_kernel(GlobalAlignment(0.5), X)
