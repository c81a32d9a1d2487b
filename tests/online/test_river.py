"""Machines as models of river, held to its own checks."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.kernels import Gaussian
from mercer.losses import Logistic, Squared
from mercer.online import OnlineKernelMachine, budgets


def test_probabilities_at_one_point():
    X = np.random.default_rng(0).standard_normal((40, 2))
    y = np.where(X[:, 0] > 0, "right", "left")
    machine = OnlineKernelMachine(Gaussian(), loss=Logistic())
    assert machine.predict_proba_one(X[0]) == {}
    machine.partial_fit(X, y, classes=["left", "right"])
    found = machine.predict_proba_one(X[0])
    assert list(found) == ["left", "right"]
    assert np.allclose(list(found.values()), machine.predict_proba(X[:1])[0])
    assert not hasattr(OnlineKernelMachine(loss=Squared()), "predict_proba_one")


def models():
    """Those of river's checks, where river is installed."""
    pytest.importorskip("river", reason="river is an extra")
    from mercer.online.river import RiverClassifier, RiverRegressor

    return [
        kind(**params)
        for kind in (RiverClassifier, RiverRegressor)
        for params in kind._unit_test_params()
    ]


@pytest.mark.parametrize("place", [0, 1], ids=["classifier", "regressor"])
def test_rivers_own_checks(place):
    from_river = pytest.importorskip("river.checks", reason="river is an extra")
    model = models()[place]
    for check in from_river.yield_checks(model):
        if check.__name__ not in model._unit_test_skips():
            check(model.clone())


def test_a_pipeline_of_river_learns():
    models()
    from river import compose, evaluate, metrics, preprocessing

    from mercer.online.river import RiverClassifier

    rng = np.random.default_rng(0)
    points = rng.standard_normal((600, 2)) * [1.0, 100.0]
    labels = np.where(points[:, 0] * points[:, 1] > 0, "like", "unlike")
    stream = [({"a": a, "b": b}, label) for (a, b), label in zip(points, labels, strict=True)]
    machine = OnlineKernelMachine(Gaussian(0.7), loss=Logistic(), budget=budgets.Merge(100))
    model = compose.Pipeline(preprocessing.StandardScaler(), RiverClassifier(machine))
    metric = evaluate.progressive_val_score(stream, model, metrics.Accuracy())
    assert metric.get() > 0.85
    assert set(model.predict_proba_one(stream[0][0])) == {"like", "unlike"}
