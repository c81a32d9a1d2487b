"""Defaults: one lengthscale, a λ that knows n and the unit of y, and warnings where they fail."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine, make_friedman1
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC as Theirs

from mercer import (
    SVC,
    SVR,
    KernelClassifier,
    KernelKMeans,
    KernelLogisticRegression,
    KernelPCA,
    KernelPoissonRegressor,
    KernelQuantileRegressor,
    KernelRegressor,
    KernelRidge,
)
from mercer.errors import LengthscaleWarning
from mercer.kernels import Gaussian, Laplacian, as_kernel
from mercer.kernels.conversion import median_distance

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = X[:, 0] + 0.1 * RNG.standard_normal(60)
SIGNS = Y > 0
OWN = [
    KernelClassifier("hinge"),
    KernelLogisticRegression(),
    KernelRegressor(),
    KernelPoissonRegressor(),
    KernelQuantileRegressor(),
]


@pytest.mark.parametrize("model", OWN, ids=lambda m: type(m).__name__)
def test_the_default_lengthscale_is_the_median_distance(model):
    model.fit(100 * X, SIGNS.astype(float))
    assert model.kernel_.lengthscale == pytest.approx(100 * median_distance(X))


def test_drop_ins_have_the_scale_of_scikit_learn():
    for model in (SVC(), SVR()):
        model.fit(100 * X, SIGNS.astype(float))
        expected = np.sqrt(0.5 * 3 * (100 * X).var())
        assert model.kernel_.lengthscale == pytest.approx(expected)


def test_the_median_is_a_gamma_of_named_kernels():
    distances = np.abs(X[:, None] - X[None]).sum(axis=2)[np.triu_indices(60, 1)]
    assert as_kernel("laplacian", gamma="median", X=X).lengthscale == np.median(distances)
    assert isinstance(as_kernel("laplacian", gamma="median", X=X), Laplacian)
    one = as_kernel("poly", gamma="median", X=X)
    assert np.isclose(one(X[0], X[1]), as_kernel("poly", gamma="scale", X=X)(X[0], X[1]))
    with pytest.raises(ValueError, match=r"gamma='median' needs the data: write X=X"):
        as_kernel("rbf", gamma="median")


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
def test_logistic_regression_learns_from_columns_in_any_unit(load):
    """With 1/d for gamma it said one class everywhere."""
    A, new, b, answers = train_test_split(*load(return_X_y=True), random_state=0)
    ours = KernelLogisticRegression().fit(A, b).score(new, answers)
    assert ours >= Theirs().fit(A, b).score(new, answers) - 0.03


def test_the_default_regularization_knows_n_and_weights():
    twice, labels = np.repeat(X, 2, axis=0), np.repeat(SIGNS, 2)
    one = KernelClassifier(tol=1e-10).fit(X, SIGNS, sample_weight=np.full(60, 2.0))
    other = KernelClassifier(tol=1e-10).fit(twice, labels)
    same = KernelClassifier(regularization=1 / (30 * 120), tol=1e-10).fit(twice, labels)
    assert np.allclose(one.decision_function(X), other.decision_function(X), atol=1e-4)
    assert np.allclose(same.decision_function(X), other.decision_function(X), atol=1e-8)


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
def test_targets_may_be_in_any_unit(loss):
    """SVR with C = 1 predicts nearly a constant for a target in thousands."""
    A, new, b, answers = train_test_split(
        *make_friedman1(300, noise=0.5, random_state=0), random_state=0
    )
    scores = []
    for unit in (1e-2, 1.0, 1e4):
        model = KernelRegressor(loss, tol=1e-5).fit(A, unit * b)
        scores.append(model.score(new, unit * answers))
    assert min(scores) > 0.8
    assert np.ptp(scores) < 0.01


def test_quantiles_may_be_in_any_unit():
    one, other = (
        KernelQuantileRegressor(0.8, tol=1e-7).fit(X, unit * Y).predict(X) for unit in (1.0, 1e5)
    )
    assert np.allclose(other / 1e5, one, atol=0.02)


@pytest.mark.parametrize(
    "model",
    [
        KernelRidge(kernel="rbf"),
        KernelClassifier(gamma=None),
        SVC(),
        KernelPCA(2, kernel="rbf"),
        KernelKMeans(2, random_state=0),
    ],
)
@pytest.mark.parametrize(("unit", "words"), [(1e3, "is alone"), (1e-5, "nearly equal")])
def test_a_lengthscale_that_does_not_suit_the_points_is_named(model, unit, words):
    model.set_params(gamma=None)
    with pytest.warns(LengthscaleWarning, match=words) as caught:
        model.fit(unit * X, SIGNS.astype(int))
    assert f"lengthscale={median_distance(unit * X):.2g}" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_kernels_that_suit_the_points_are_silent(recwarn):
    KernelRidge(kernel=Gaussian(0.3)).fit(X, Y)
    KernelRidge(kernel=Gaussian(30.0)).fit(X, Y)
    KernelRidge(kernel=Gaussian(1e-6)).fit(np.zeros((60, 3)), Y)  # one point
    assert not recwarn.list
