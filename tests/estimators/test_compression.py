"""`model.compress(count)` is an estimator like the one it comes from, with few centres."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from mercer import (
    SVC,
    SVCCV,
    SVR,
    KernelClassifier,
    KernelClassifierCV,
    KernelRidge,
    KernelRidgeClassifier,
    NuSVR,
    OneClassSVM,
)
from mercer.features.centres import Greedy
from mercer.kernels import Gaussian, PairKernel

X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
VALUES, LABELS = np.sin(3 * X[:, 0]) + X[:, 1], np.where(X[:, 0] * X[:, 1] > 0, "like", "unlike")


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (KernelRidge(1e-3, kernel=Gaussian(0.8)), VALUES),
        (KernelRidge(1e-3, kernel=Gaussian(0.8)), np.stack([VALUES, VALUES**2], axis=1)),
        (SVR(kernel=Gaussian(0.8)), VALUES),
        (NuSVR(kernel=Gaussian(0.8)), VALUES),
        (SVC(kernel=Gaussian(0.8)), LABELS),
        (SVC(kernel=Gaussian(0.8)), (3 * (X[:, 0] + 1)).astype(int)),
        (KernelClassifier(kernel=Gaussian(0.8)), LABELS),
        (KernelRidgeClassifier(kernel=Gaussian(0.8)), LABELS),
        (OneClassSVM(kernel=Gaussian(0.8), nu=0.3), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_compressed_estimator_predicts_as_the_whole_one(model, y):
    whole = clone(model).fit(X, y)
    small = whole.compress(25)
    assert type(small) is type(whole)
    assert len(small.function_) == 25 < len(whole.function_)
    assert small.compression_error_ < 0.05
    new = np.random.default_rng(1).uniform(-1, 1, (50, 2))
    scores = "decision_function" if hasattr(model, "decision_function") else "predict"
    expected = getattr(whole, scores)(new)
    assert np.abs(getattr(small, scores)(new) - expected).max() < 0.2 * np.abs(expected).max()
    again = pickle.loads(pickle.dumps(small))
    assert np.array_equal(again.predict(new), small.predict(new))
    rows = small.X_fit_ if hasattr(small, "X_fit_") else small.support_vectors_
    assert not (rows[:, None] == X).all(axis=2).any()  # no training row
    assert not hasattr(small, "support_")
    assert clone(small).get_params() == model.get_params()


def test_centres_may_be_chosen_and_points_be_objects():
    whole = KernelRidge(kernel=Gaussian(0.8)).fit(X, VALUES)
    chosen = whole.compress(Greedy(20))
    assert (chosen.X_fit_[:, None] == X).all(axis=2).any(axis=1).all()
    assert whole.compress(500).function_ is whole.function_
    words = ["aab", "abb", "xyz", "xz", "ab"]
    kernel = PairKernel(lambda a, b: float(len(set(a) & set(b))))
    small = SVR(kernel=kernel).fit(words, np.arange(5.0)).compress(2)
    assert len(small.predict(words)) == 5


def test_what_cannot_be_compressed_is_refused():
    with pytest.raises(ValueError, match="no function of centres to make smaller: fit it first"):
        SVR().compress(10)
    with pytest.raises(ValueError, match="whole number centres ≥ 1; got 0"):
        SVR().fit(X, VALUES).compress(0)
    with pytest.raises(ValueError, match="a precomputed kernel has no points"):
        KernelRidge(kernel="precomputed").fit(X @ X.T, VALUES).compress(3)


@pytest.mark.parametrize("search", [SVCCV, KernelClassifierCV])
def test_what_a_search_found_is_compressed(search):
    whole = search([1.0, 10.0], lengthscales=[0.5, 0.8], cv=2).fit(X, LABELS)
    small = whole.compress(25)
    assert type(small) is search
    assert len(small.best_estimator_.function_) == 25 < len(whole.best_estimator_.function_)
    assert (small.predict(X) == whole.predict(X)).mean() > 0.95
