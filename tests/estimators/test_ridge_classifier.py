"""Least-squares classification against scikit-learn's linear one, and its probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import scale

from mercer import KernelRidgeClassifier


@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
def test_a_linear_kernel_is_the_ridge_classifier(load):
    X, y = load(return_X_y=True)
    X = scale(X)[::2]
    y = np.array(["no", "yes", "perhaps"])[y[::2]]
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    ours = KernelRidgeClassifier(2.0, kernel="linear").fit(X, y, weights)
    theirs = RidgeClassifier(2.0, solver="cholesky").fit(X, y, weights)
    assert np.allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-8)
    assert np.array_equal(ours.predict(X), theirs.predict(X))


def test_probabilities_follow_scores_and_slope():
    X, y = load_iris(return_X_y=True)
    model = KernelRidgeClassifier(0.1, slope=2.0).fit(X, y)
    stated, scores = model.predict_proba(X), model.decision_function(X)
    assert np.allclose(stated.sum(axis=1), 1.0)
    assert np.array_equal(stated.argmax(axis=1), scores.argmax(axis=1))
    odds = np.log(stated[:, 0] / stated[:, 1])
    assert np.allclose(odds, 0.5 * 2.0 * (scores[:, 0] - scores[:, 1]))
    two = KernelRidgeClassifier(0.1).fit(X, y > 0)
    odds = np.log(two.predict_proba(X)[:, 1] / two.predict_proba(X)[:, 0])
    assert np.allclose(odds, 3.0 * two.decision_function(X))


def test_refusals():
    X = np.arange(4.0)[:, None]
    with pytest.raises(ValueError, match="only one class"):
        KernelRidgeClassifier().fit(X, [1, 1, 1, 1])
    with pytest.raises(ValueError, match="slope > 0; got -1"):
        KernelRidgeClassifier(slope=-1).fit(X, [0, 1, 0, 1])
