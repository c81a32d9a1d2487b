"""`MERCER_MEMORY=20MB` at 3,000 rows, whose matrix takes 72 MB."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest

from mercer import (
    SVC,
    SVCCV,
    KernelClassifier,
    KernelClassifierCV,
    KernelLogisticRegression,
    KernelPCA,
    KernelRegressor,
    KernelRidge,
    KernelRidgeCV,
    LearnedKernelClassifier,
    LearnedKernelRegressor,
    SpectralClustering,
    mmd_test,
)
from mercer.errors import ApproximationWarning
from mercer.estimators.classifier_cv import search_sizes
from mercer.kernels import Gaussian
from mercer.learning import GradientRounds
from mercer.solvers import Direct, Splitting, interpolant

BUDGET = 20 << 20
RNG = np.random.default_rng(0)
X = RNG.standard_normal((3000, 8))
Y = np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.standard_normal(3000)
LABELS = (Y > 1).astype(int)
KERNEL = Gaussian(2.0)
MODELS = {
    "ridge": (KernelRidge(0.1, kernel=KERNEL), Y),
    "ridge-cv": (KernelRidgeCV(kernel=KERNEL, lengthscales=None), Y),
    "regressor": (KernelRegressor(kernel=KERNEL), Y),
    "logistic": (KernelLogisticRegression(kernel=KERNEL), LABELS),
    "svc": (SVC(kernel=KERNEL), LABELS),
}


@pytest.fixture(autouse=True)
def budget(monkeypatch):
    monkeypatch.setenv("MERCER_MEMORY", "20MB")


def peak_of(work):
    """Bytes that a piece of work takes at most."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        work()  # code is compiled, which takes memory, too
        tracemalloc.start()
        try:
            work()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_stays_within_its_budget(name):
    model, y = MODELS[name]
    assert peak_of(lambda: model.fit(X, y)) <= 1.05 * BUDGET


WIDER = np.column_stack([X, RNG.standard_normal((3000, 2))])
LARGER = {
    "learned": lambda: LearnedKernelRegressor(kernel=KERNEL, rounds=1).fit(WIDER, Y),
    "learned-classes": lambda: LearnedKernelClassifier(kernel=KERNEL, rounds=1).fit(WIDER, LABELS),
    "search": lambda: KernelClassifierCV(lengthscales=[1.0, 2.0, 4.0]).fit(WIDER, LABELS),
    "spectral": lambda: SpectralClustering(random_state=0).fit(WIDER),
    "two-samples": lambda: mmd_test(WIDER, WIDER + 0.1, random_state=0),
}


@pytest.mark.parametrize("name", LARGER)
def test_what_holds_more_than_a_product_leaves_room_for_it(name):
    """Columns of a preconditioner, blocks of eigenvectors, groups, and K of earlier fits."""
    assert peak_of(LARGER[name]) <= 1.05 * BUDGET


def test_rounds_of_learning_stay_within_the_budget():
    assert peak_of(lambda: GradientRounds("full", rounds=2).learn(KERNEL, X, Y)) <= 1.05 * BUDGET


def test_a_search_that_would_not_fit_takes_centres_and_says_so():
    with pytest.warns(
        ApproximationWarning, match=r"343 MB, so α and lengthscale are chosen on \d+"
    ):
        KernelRidgeCV([0.1], kernel=KERNEL, lengthscales=[2.0]).fit(X, Y)


@pytest.mark.parametrize("model", [SVCCV(), KernelClassifierCV()])
def test_searches_look_at_as_many_rows_as_have_room(model):
    rows = max(search_sizes(100_000, model.subsample, model.matrices))
    assert 8 * model.matrices * rows**2 <= BUDGET
    assert rows > 400


def test_interpolation_says_what_it_would_take():
    with pytest.raises(ValueError, match=r"eigenvectors, which takes 137 MB, and there are 20 MB"):
        interpolant(KERNEL, X, Y)


@pytest.mark.parametrize(
    ("fit", "sentence"),
    [
        (
            lambda: KernelRidge(kernel=KERNEL, solver=Direct()).fit(X, Y),
            r"Direct stores the matrix of 3000 points, which takes 34 MB, .*Write solver=",
        ),
        (
            lambda: KernelClassifier("hinge", kernel=KERNEL, solver=Splitting()).fit(X, LABELS),
            r"eigenvectors, which takes \d+ MB, and there are 20 MB. Write Newton",
        ),
        (lambda: KernelPCA(kernel=KERNEL).fit(X), r"of 3000 components .*Write n_components=10"),
    ],
)
def test_solvers_that_store_the_matrix_are_refused(fit, sentence):
    with pytest.raises(ValueError, match=sentence):
        fit()
