"""Fits in leaves are exact fits with a kernel that is 0 between leaves."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from mercer import LearnedKernelClassifier, LearnedKernelRegressor
from mercer.errors import ApproximationWarning
from mercer.kernels import Exponential
from mercer.learning import local
from mercer.learning.fits import Sample
from mercer.learning.metric import Metric

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(size=(600, 2))
Y = np.sin(9 * X[:, 0]) + X[:, 1]
KERNEL, ALPHA = Exponential(0.4), 0.05
SMALL_LEAVES = local.Tuning(rows=100, fewest=20)


def fitted(y, weights=None, metric=None):
    metric = Metric(np.ones(2)) if metric is None else metric
    sample = Sample.of(KERNEL.points(X), y, weights)
    return local.fit_locally(KERNEL, sample, ALPHA, metric, tuning=SMALL_LEAVES)


@pytest.mark.parametrize("weights", [None, RANDOM.uniform(0.5, 2.0, size=600)])
@pytest.mark.parametrize("outputs", [1, 2])
def test_is_the_exact_fit_of_a_kernel_that_is_0_between_leaves(weights, outputs):
    y = np.column_stack([Y, X[:, 0]])[:, :outputs]
    f, solution = fitted(y, weights)
    assert len(f.intercepts) == 8
    assert np.bincount(f.places).tolist() == [75] * 8
    noise = np.ones(600) if weights is None else weights
    means = np.array([np.average(y[f.places == leaf], axis=0, weights=noise[f.places == leaf])
                      for leaf in range(8)])  # fmt: skip
    same = f.places[:, None] == f.places
    K = np.where(same, KERNEL(X, X), 0.0)
    expected = np.linalg.solve(K + np.diag(ALPHA / noise), y - means[f.places])
    np.testing.assert_allclose(f.coefficients, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(f(X), K @ expected + means[f.places], rtol=1e-8)
    assert solution.status.converged
    assert solution.gap < 1e-12
    missed = y - means[f.places] - K @ expected
    value = (noise[:, None] * missed**2).sum() + ALPHA * (expected * (K @ expected)).sum()
    assert solution.objective == pytest.approx(value / 1200)


def test_a_tree_splits_along_what_the_metric_stretches():
    tree, places = local.Tree.grown(X, Metric(np.array([1.0, 1e6])), depth=1)
    np.testing.assert_array_equal(places, (X[:, 1] > np.median(X[:, 1])).astype(int))
    np.testing.assert_array_equal(tree.leaves(X), places)
    full = np.array([[1.0, -1.0], [-1.0, 1.0]])
    _, places = local.Tree.grown(X, Metric(full), depth=1)
    along = X[:, 0] - X[:, 1]
    right = along > np.median(along)
    assert np.array_equal(places, right) or np.array_equal(places, ~right)


def test_equal_rows_are_a_leaf_of_which_some_are_fitted():
    rows = np.concatenate([X, np.full((600, 2), 0.5)])
    sample = Sample.of(KERNEL.points(rows), np.concatenate([Y, np.full(600, 7.0)]), None)
    f, solution = local.fit_locally(KERNEL, sample, ALPHA, Metric(np.ones(2)), tuning=SMALL_LEAVES)
    assert solution.status.converged
    assert "rows were left out" in str(solution.status)
    assert np.isfinite(f(rows)).all()
    assert f([[0.5, 0.5]])[0, 0] == pytest.approx(7.0, abs=0.3)


def test_less_time_takes_smaller_leaves():
    sample = Sample.of(KERNEL.points(X), Y, None)
    metric = Metric(np.ones(2))
    f, _ = local.fit_locally(KERNEL, sample, ALPHA, metric, 1e-9, SMALL_LEAVES)
    assert len(f.intercepts) == 32


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_estimators_fit_locally(dtype, monkeypatch):
    monkeypatch.setattr(local, "TUNING", SMALL_LEAVES)
    settings = {"kernel": Exponential(), "form": "diagonal", "rounds": 1, "local": True}
    rows = X.astype(dtype)
    model = LearnedKernelRegressor(**settings).fit(rows[:500], Y[:500].astype(dtype))
    assert model.predict(rows).dtype == dtype
    assert model.score(rows[500:], Y[500:]) > 0.95
    assert model.dual_coef_.shape == (500,)
    assert "leaves" in model.explain()
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(rows), model.predict(rows))
    with pytest.raises(ValueError, match="local=False"):
        model.certificate()
    labels = np.digitize(X[:, 0], [0.3, 0.6])
    classifier = LearnedKernelClassifier(**settings).fit(rows, labels)
    assert classifier.predict_proba(rows).shape == (600, 3)
    assert classifier.score(rows, labels) > 0.9
    with pytest.raises(ValueError, match="leave solver and centres"):
        LearnedKernelRegressor(**settings, centres=10).fit(rows, Y)


def test_leaves_where_there_is_no_time_for_all_rows(monkeypatch):
    from mercer.solvers import automatic

    monkeypatch.setattr(local, "TUNING", SMALL_LEAVES)

    choose = automatic.choose

    def slow(*arguments, **options):
        choice = choose(*arguments, **options)
        slowed = [replace(one, seconds=1e6, passes=1) for one in choice.candidates]
        return replace(choice, candidates=slowed)

    monkeypatch.setattr(automatic, "choose", slow)
    settings = {"kernel": Exponential(), "form": "diagonal", "rounds": 1, "time_limit": 60.0}
    with pytest.warns(ApproximationWarning, match="in each leaf of a tree"):
        model = LearnedKernelRegressor(**settings, rows=50).fit(X, Y)
    assert "leaves" in str(model.solution_.status)
    with pytest.warns(ApproximationWarning, match="functions with"):
        model = LearnedKernelRegressor(**settings, rows=50, local=False).fit(X, Y)
