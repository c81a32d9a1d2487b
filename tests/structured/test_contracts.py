"""Every kernel on objects keeps the contract of all kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from mercer.evaluation.parameters import real_parameters
from mercer.kernels import Gaussian, laws
from mercer.learning import LeaveOneOut, MarginalLikelihood
from mercer.structured import (
    AllSubsequences,
    BlendedSpectrum,
    CommonSubsequences,
    EditSimilarity,
    EmpiricalMap,
    GapWeighted,
    GaussianOfMeans,
    GlobalAlignment,
    Graph,
    Intersection,
    Jaccard,
    MeanMap,
    MismatchSpectrum,
    PartialTrees,
    RandomWalk,
    Spectrum,
    SubsetTrees,
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


TREES = ["(S (NP she) (VP runs))", "(S (NP he) (VP runs))", "(S (NP she) (VP (V sees) (NP he)))"]
GRAPHS = [Graph([(0, 1)]), Graph([(0, 1), (1, 2)]), Graph([(0, 1), (1, 2), (0, 2)])]
LEARNABLE = {name: case for name, case in CASES.items() if real_parameters(case[0])} | {
    "subset-trees": (SubsetTrees(0.5), TREES),
    "partial-trees": (PartialTrees(0.5, 0.6), TREES),
    "random-walk": (RandomWalk(0.05), GRAPHS),
}


@pytest.mark.parametrize("name", LEARNABLE)
def test_derivatives_in_parameters_are_differences(name):
    kernel, X = LEARNABLE[name]
    weights = np.random.default_rng(0).standard_normal((len(X), len(X)))
    found = kernel.gram(X).parameter_gradient(weights)
    assert list(found) == list(real_parameters(kernel))
    for parameter, slope in found.items():
        at = kernel.get_params(deep=True)[parameter]
        step, expected = 2e-3 * at, 0.0
        for k, factor in ((1, 45.0), (2, -9.0), (3, 1.0)):  # of sixth order
            sides = (kernel.with_(**{parameter: at + sign * k * step}) for sign in (1, -1))
            after, before = (float((weights * side.gram(X).dense()).sum()) for side in sides)
            expected += factor * (after - before) / (60.0 * step)
        assert slope == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("by", [LeaveOneOut(iterations=3), MarginalLikelihood(iterations=3)])
def test_parameters_are_learned_from_objects(by):
    y = np.array([len(word) for word in WORDS])
    kernel = GapWeighted(2, 0.6)
    history = by.learn(kernel, WORDS, y).history
    assert history[-1] < history[0]
    assert kernel.learn(WORDS, y, by).decay != 0.6
    with pytest.raises(ValueError, match=r"a linear map is one of columns.*form=None"):
        LeaveOneOut(form="full").learn(kernel, WORDS, y)
