"""Many small classes are solved in one compiled call each, as well as one by one."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.svm import SVC as Theirs

from mercer import SVC
from mercer.estimators import pairs
from mercer.kernels import Gaussian, Sigmoid

RNG = np.random.default_rng(0)
MIDDLES = 1.5 * RNG.standard_normal((14, 4))
LABELS = RNG.integers(0, 14, 2200) % 7
X = MIDDLES[LABELS] + RNG.standard_normal((2200, 4))
WEIGHTS = RNG.integers(0, 3, 2200).astype(float)
NEW = X[:200] + 0.1


@pytest.fixture
def one_by_one(monkeypatch):
    """Give a function that fits without the quick way."""

    def fit(model, *data):
        with monkeypatch.context() as patch:
            patch.setattr(pairs, "TUNING", pairs.Tuning(one_call=0))
            return model.fit(*data)

    return fit


@pytest.mark.parametrize(
    ("parameters", "weights"),
    [({}, None), ({"C": 20.0}, WEIGHTS), ({"class_weight": "balanced", "tol": 1e-5}, None)],
)
def test_they_are_solved_to_the_same_gap(one_by_one, parameters, weights):
    quick = SVC(**parameters, decision_function_shape="ovo").fit(X, LABELS, weights)
    slow = one_by_one(SVC(**parameters, decision_function_shape="ovo"), X, LABELS, weights)
    assert len(quick.solutions_[0].history["relative_gap"]) == 1  # the quick way was taken
    assert len(slow.solutions_[0].history["relative_gap"]) > 1
    for mine, other in zip(quick.solutions_, slow.solutions_, strict=True):
        assert mine.status.converged
        assert mine.gap <= 0.1 * quick.tol * mine.objective
        assert mine.objective == pytest.approx(other.objective, rel=0.1 * quick.tol)
    assert np.allclose(quick.decision_function(NEW), slow.decision_function(NEW), atol=0.02)


def test_objective_and_gap_are_those_of_the_problem_written_down():
    model = SVC(C=3.0).fit(X, LABELS)
    i, j = 2, 5
    pair = [(a, b) for a in range(7) for b in range(a + 1, 7)].index((i, j))
    members = np.flatnonzero((i == LABELS) | (j == LABELS))
    order = members[np.argsort(LABELS[members], kind="stable")]
    signs = np.where(LABELS[order] == i, 1.0, -1.0)
    solution = model.solutions_[pair]
    K = np.asarray(Gaussian(model.kernel_.lengthscale)(X[order], X[order]))
    alpha, b = solution.coefficients, solution.intercept
    assert abs(alpha.sum()) < 1e-12
    assert ((signs * alpha >= 0) & (signs * alpha <= 3.0)).all()
    norm = 0.5 * alpha @ K @ alpha
    primal = norm + 3.0 * np.maximum(1.0 - signs * (K @ alpha + b), 0.0).sum()
    dual = signs @ alpha - norm
    scale = 1.0 / (3.0 * len(order))
    assert solution.objective == pytest.approx(scale * primal, rel=1e-12)
    assert solution.gap == pytest.approx(scale * (primal - dual), rel=1e-6)


@pytest.mark.parametrize("kind", ["float32", "sparse"])
def test_other_points(kind):
    points = X.astype(np.float32) if kind == "float32" else scipy.sparse.csr_matrix(X)
    ours, theirs = SVC().fit(points, LABELS), Theirs().fit(points, LABELS)
    assert (ours.predict(points) == theirs.predict(points)).mean() > 0.998
    assert ours.n_support_ == pytest.approx(theirs.n_support_, abs=3)


def test_a_cap_on_steps_is_named():
    with pytest.warns(Warning, match=r"Not solved: relative duality gap .* after 5 steps"):
        SVC(max_iter=5).fit(X, LABELS)


def test_kernels_that_are_not_known_to_be_positive_definite_go_one_by_one():
    with pytest.warns(Warning, match="not positive definite"):
        SVC(kernel=Sigmoid(0.5, -1.0)).fit(X, LABELS)


def test_many_classes_store_one_table_and_decide_as_scikit_learn_does():
    """Of 4,950 pairs of 100 classes each support vector is in 99."""
    rng = np.random.default_rng(0)
    y = np.arange(420) % 14
    X = (2.0 * rng.standard_normal((14, 4)))[y] + rng.standard_normal((420, 4))
    ours = SVC(decision_function_shape="ovo").fit(X, y)
    theirs = Theirs(decision_function_shape="ovo", tol=1e-6).fit(X, y)
    assert "function_" not in vars(ours)
    assert ours.dual_coef_.shape == (13, len(ours.support_))
    found = ours.decision_function(X)
    assert np.allclose(found, theirs.decision_function(X), atol=0.02)
    of_pairs = ours.function_(X) + ours.intercept_  # made when it is asked for
    assert np.allclose(found, of_pairs, rtol=0, atol=1e-10)
    matrix = SVC(kernel="precomputed", decision_function_shape="ovo").fit(Gaussian()(X), y)
    assert np.allclose(
        matrix.decision_function(Gaussian()(X)),
        SVC(kernel=Gaussian(), decision_function_shape="ovo").fit(X, y).decision_function(X),
        atol=1e-3,
    )
    again = pickle.loads(pickle.dumps(ours))
    assert np.array_equal(again.predict(X), ours.predict(X))
    small = ours.compress(50)
    assert small.predict(X).shape == (420,)
