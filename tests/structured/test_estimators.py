"""Estimators, pipelines and searches with lists of objects as X."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from mercer import (
    SVC,
    SVR,
    KernelClassifier,
    KernelLogisticRegression,
    KernelRegressor,
    KernelRidge,
    KernelRidgeCV,
    OneClassSVM,
)
from mercer.features import Nystroem
from mercer.kernels import Gaussian
from mercer.online import KernelPerceptron
from mercer.structured import (
    GapWeighted,
    GlobalAlignment,
    Jaccard,
    MeanMap,
    Spectrum,
    SubsetTrees,
    WeisfeilerLehman,
)
from mercer.testing import check_structured_estimator

random = np.random.default_rng(0)
WORDS = ["".join(random.choice(list("abcd"), random.integers(1, 9))) for _ in range(40)]
SETS = [set(word) for word in WORDS]
BAGS = [random.standard_normal((len(word), 2)) for word in WORDS]
SERIES = [np.cumsum(random.standard_normal(len(word))) for word in WORDS]
TREES = [("S", *(("X", letter) for letter in word)) for word in WORDS]
GRAPHS = [([(i, i + 1) for i in range(len(word) - 1)], list(word)) for word in WORDS]
TARGETS = np.array([word.count("a") + 0.1 * len(word) for word in WORDS])
CLASSES = np.array(["many" if word.count("a") > 1 else "few" for word in WORDS])

OBJECTS = {
    "words": (GapWeighted(1).normalised() + Spectrum(1), WORDS),
    "sets": (Jaccard(), SETS),
    "bags": (MeanMap(Gaussian(2.0)), BAGS),
    "series": (GlobalAlignment(2.0).normalised(), SERIES),
    "trees": (SubsetTrees(), TREES),
    "graphs": (WeisfeilerLehman(1), GRAPHS),
}
REGRESSORS = [KernelRidge(), KernelRidgeCV(), KernelRegressor(loss="huber"), SVR()]
CLASSIFIERS = [SVC(), KernelClassifier(), KernelLogisticRegression(), SVC(C=5.0)]


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("model", [KernelRidge(), SVC()], ids=repr)
def test_estimators_take_every_kind_of_object(name, model):
    kernel, X = OBJECTS[name]
    y = CLASSES if isinstance(model, SVC) else TARGETS
    check_structured_estimator(clone(model).set_params(kernel=kernel), X, y)


@pytest.mark.parametrize("model", [*REGRESSORS[1:], *CLASSIFIERS[1:]], ids=repr)
def test_every_estimator_takes_objects(model):
    kernel, X = OBJECTS["words"]
    y = CLASSES if is_classifier(model) else TARGETS
    check_structured_estimator(clone(model).set_params(kernel=kernel), X, y)


def test_ridge_is_the_solution_of_its_system():
    kernel, X = OBJECTS["words"]
    model = KernelRidge(kernel=kernel, alpha=0.5).fit(X, TARGETS)
    K = kernel(X)
    expected = kernel(WORDS[:5], X) @ np.linalg.solve(K + 0.5 * np.eye(40), TARGETS)
    np.testing.assert_allclose(model.predict(WORDS[:5]), expected)


def test_a_search_tells_parameters_apart():
    """Equal scores for all values would say that the kernel was not changed."""
    grid = {"kernel__length": [1, 2, 3], "alpha": [0.01, 1.0]}
    search = GridSearchCV(KernelRidge(kernel=Spectrum(2)), grid, cv=3).fit(WORDS, TARGETS)
    assert len(set(search.cv_results_["mean_test_score"].round(9))) == 6
    assert search.best_params_["kernel__length"] == 1
    assert search.predict(["abab"]).shape == (1,)
    nested = GridSearchCV(
        SVC(kernel=GapWeighted(2).normalised()), {"kernel__kernel__decay": [0.3, 0.9]}
    )
    assert set(nested.fit(WORDS, CLASSES).cv_results_["param_kernel__kernel__decay"]) == {0.3, 0.9}


def upper(words):
    return [word.upper() for word in words]


def test_pipelines_and_cross_validation():
    kernel, X = OBJECTS["words"]
    pipeline = make_pipeline(FunctionTransformer(upper), SVC(kernel=kernel, C=10.0))
    scores = cross_val_score(pipeline, X, CLASSES, cv=4)
    assert scores.mean() > 0.8
    assert cross_val_predict(pipeline, X, CLASSES, cv=4).shape == (40,)
    pipeline.fit(X, CLASSES)
    again = pickle.loads(pickle.dumps(pipeline))
    assert (again.predict(X[:5]) == pipeline.predict(X[:5])).all()


def test_arrays_and_columns_of_objects():
    pandas = pytest.importorskip("pandas")
    kernel, X = OBJECTS["words"]
    model = KernelRidge(kernel=kernel).fit(X, TARGETS)
    for other in (np.array(X), np.array(X, dtype=object), pandas.Series(X), tuple(X)):
        again = KernelRidge(kernel=kernel).fit(other, TARGETS)
        np.testing.assert_allclose(again.predict(other), model.predict(X))


def test_centres_and_nystroem():
    kernel, X = OBJECTS["words"]
    model = KernelRidge(kernel=kernel, centres=10, random_state=0).fit(X, TARGETS)
    assert np.isfinite(model.predict(X)).all()
    phi = Nystroem(kernel=kernel, n_components=12, random_state=0).fit_transform(X)
    assert phi.shape == (40, 12)
    gap = kernel(X) - phi @ phi.T
    assert np.linalg.eigvalsh(gap)[0] > -1e-8


def test_online_machines():
    kernel, X = OBJECTS["words"]
    machine = KernelPerceptron(kernel=kernel)
    machine.partial_fit(X[:20], CLASSES[:20], classes=["few", "many"])
    machine.partial_fit(X[20:], CLASSES[20:])
    assert machine.score(X, CLASSES) > 0.5


def test_one_class():
    assert set(OneClassSVM(kernel=Jaccard(), nu=0.2).fit(SETS).predict(SETS)) <= {-1, 1}


def test_a_fitted_model_does_not_keep_all_objects():
    """The pickle of a model on a few support objects is small."""
    words = WORDS * 20
    model = SVC(kernel=Spectrum(1).normalised(), C=0.1).fit(words[:40], CLASSES)
    points = model.kernel_.points(words)
    few = pickle.dumps(points.take([0, 1]))
    assert len(few) < len(pickle.dumps(points)) / 10
