"""Searches over C and lengthscale, against scikit-learn's GridSearchCV on the same folds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC as Theirs

from mercer import SVCCV, KernelClassifier, KernelClassifierCV
from mercer.errors import GridEdgeWarning
from mercer.kernels import Gaussian, Linear

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (240, 2))
TWO = (np.sin(4 * X[:, 0]) > X[:, 1] + 0.3 * RNG.standard_normal(240)).astype(int)
THREE = np.array(["a", "b", "c"])[TWO + (X[:, 0] > 0.3)]
pytestmark = pytest.mark.filterwarnings("ignore::mercer.errors.GridEdgeWarning")
CS, SCALES = [0.3, 3.0, 30.0], [0.1, 0.4, 1.6]


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_scores_are_those_of_a_grid_search(y):
    folds = StratifiedKFold(4, shuffle=True, random_state=3)
    ours = SVCCV(CS, lengthscales=SCALES, cv=folds).fit(X, y)
    gammas = [0.5 / s**2 for s in SCALES]
    theirs = GridSearchCV(Theirs(), {"gamma": gammas, "C": CS}, cv=folds).fit(X, y)
    table = theirs.cv_results_["mean_test_score"].reshape(3, 3).T  # C is first there
    assert np.allclose(ours.cv_scores_, table, atol=0.013)  # three rows on the boundary
    assert ours.best_score_ == ours.cv_scores_.max()
    assert ours.best_estimator_.C == ours.C_
    assert (ours.predict(X) == ours.best_estimator_.predict(X)).all()
    assert ours.classes_.tolist() == np.unique(y).tolist()


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge", "hinge", "squared_error"])
def test_every_loss_is_searched_as_it_is_fitted(loss):
    folds = StratifiedKFold(3, shuffle=True, random_state=1)
    ours = KernelClassifierCV(CS, loss=loss, lengthscales=SCALES, cv=folds).fit(X, THREE)
    expected = np.zeros((3, 3))
    for train, test in folds.split(X, THREE):
        for i, scale in enumerate(SCALES):
            for j, strength in enumerate(CS):
                model = KernelClassifier(loss, 1 / (strength * len(train)), gamma=0.5 / scale**2)
                expected[i, j] += model.fit(X[train], THREE[train]).score(X[test], THREE[test]) / 3
    assert np.allclose(ours.cv_scores_, expected, atol=0.013)
    assert ours.score(X, THREE) > 0.75
    assert hasattr(ours, "predict_proba") == (loss == "log_loss")


def test_many_rows_are_searched_on_a_sample_first():
    model = SVCCV(CS, lengthscales=SCALES, subsample=60).fit(
        np.repeat(X, 2, axis=0), THREE.repeat(2)
    )
    assert model.score(X, THREE) > 0.8
    assert len(model.best_estimator_.support_) > 60  # the last fit is to all rows
    assert model.cv_scores_.shape == (3, 3)
    assert np.isfinite(model.cv_scores_).all()


def test_it_says_when_the_best_is_on_the_edge():
    with pytest.warns(GridEdgeWarning, match=r"SVCCV: the best C = .* on the edge of what"):
        SVCCV([1e-3, 2e-3, 3e-3], lengthscales=None, gamma=3.0).fit(X, TWO)


def test_rows_without_weight_do_not_count():
    weights = np.repeat([1.0, 0.0], 120)
    part = SVCCV(CS, lengthscales=SCALES).fit(X[:120], TWO[:120])
    whole = SVCCV(CS, lengthscales=SCALES).fit(X, TWO, weights)
    assert np.allclose(part.cv_scores_, whole.cv_scores_)


def test_a_kernel_without_lengthscale_is_searched_over_c_only():
    model = clone(SVCCV(CS, kernel=Linear(1.0))).fit(X, TWO)
    assert model.lengthscales_ is None
    assert model.cv_scores_.shape == (1, 3)


@pytest.mark.parametrize("kind", [SVCCV, KernelClassifierCV])
def test_a_precomputed_matrix_is_searched_over_c(kind):
    K = Gaussian(0.4)(X)
    model, other = kind(CS, kernel="precomputed"), kind(CS, kernel=Gaussian(0.4), lengthscales=None)
    model, other = model.fit(K, THREE), other.fit(X, THREE)
    np.testing.assert_array_equal(model.cv_scores_, other.cv_scores_)
    assert (model.predict(K[:9]) == other.predict(X[:9])).all()


def test_a_class_without_weight_is_no_class_of_the_model():
    weights = (THREE != "b").astype(float)
    model = KernelClassifierCV(CS, lengthscales=None).fit(X, THREE, weights)
    assert model.classes_.tolist() == model.best_estimator_.classes_.tolist() == ["a", "c"]


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match=r"Cs must be positive and finite; got \[0.0\]"):
        SVCCV([0.0]).fit(X, TWO)
    with pytest.raises(ValueError, match="SVCCV needs samples of at least two classes"):
        SVCCV().fit(X, np.zeros(240))
