"""What an intercept would gain, as `KernelRidge.explain` says it."""

import numpy as np
import pytest

from mercer import KernelClassifier, KernelRegressor, KernelRidge
from mercer.errors import IndefiniteKernelWarning
from mercer.estimators.uncertainty import Tuning, errors_by_intercept
from mercer.features.centres import Given
from mercer.kernels import Gaussian, ThinPlate
from mercer.losses import Squared
from mercer.solvers import Problem

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (200, 2))
Y = 5.0 + np.sin(X[:, 0]) + 0.1 * rng.standard_normal(200)
KERNEL = Gaussian(0.4)


@pytest.mark.parametrize("centres", [False, True])
def test_errors_are_those_of_the_formula(centres):
    weights, ridge = rng.integers(1, 4, 200).astype(float), 1e-3
    C = X[:12] if centres else X
    gram = KERNEL.gram(X, C) if centres else KERNEL.gram(X)
    make = Problem.on_centres if centres else Problem
    found = errors_by_intercept(make(gram, Y, Squared(), ridge, weights))
    A, W = KERNEL(X, C), np.diag(weights)
    penalty = ridge * weights.sum() * KERNEL(C, C)
    for error, constant in zip(found[:2], (False, True), strict=True):
        Z = np.column_stack([A, np.ones(200)]) if constant else A
        P = np.pad(penalty, (0, 1)) if constant else penalty
        hat = Z @ np.linalg.solve(Z.T @ W @ Z + P, Z.T @ W)
        left_out = (Y - hat @ Y) / (1 - hat.diagonal())
        assert error == pytest.approx(np.sqrt(weights @ left_out**2 / weights.sum()), rel=1e-6)
    assert found[2] == 200


def test_many_rows_are_looked_at_in_part():
    many = rng.uniform(-2, 2, (5000, 2))
    y = 5.0 + np.sin(many[:, 0]) + 0.1 * rng.standard_normal(5000)
    problem = Problem.on_centres(KERNEL.gram(many, X), y, Squared(), 1e-6)
    few = Tuning(cheap=1e6)
    without, with_one, rows = errors_by_intercept(problem, few)
    assert rows == 16 * 200
    assert 0.09 < with_one < without < 0.2
    assert errors_by_intercept(problem, Tuning(most=1e6)) is None


def test_nothing_is_said_where_there_is_no_posterior():
    with pytest.warns(IndefiniteKernelWarning):
        indefinite = KernelRidge(0.1, kernel="sigmoid").fit(X, Y)
    spline = KernelRidge(0.1, kernel=ThinPlate()).fit(X, Y)
    one = KernelRidge(0.1, kernel=KERNEL).fit(X[:1], Y[:1])
    for model in (indefinite, spline, one):
        assert "intercept" not in model.explain()


def test_explain_says_what_it_would_gain_and_so_it_is():
    centres, new = Given(points=X[:12]), rng.uniform(-2, 2, (500, 2))
    without = KernelRidge(1e-3, kernel=KERNEL, centres=centres).fit(X, Y)
    assert "instead of" in without.explain()
    assert without.explain().endswith("write fit_intercept=True.")
    with_one = KernelRidge(1e-3, kernel=KERNEL, centres=centres, fit_intercept=True).fit(X, Y)
    assert "intercept" not in with_one.explain()
    truth = 5.0 + np.sin(new[:, 0])
    errors = [np.mean((model.predict(new) - truth) ** 2) for model in (without, with_one)]
    assert errors[1] < 0.5 * errors[0]


def test_tensors_are_told_the_same():
    torch = pytest.importorskip("torch")
    pytest.importorskip("array_api_compat")
    centres = Given(points=X[:12]), Given(points=torch.tensor(X[:12]))
    models = [KernelRidge(1e-3, kernel=KERNEL, centres=centres_) for centres_ in centres]
    plain, ours = models[0].fit(X, Y), models[1].fit(torch.tensor(X), torch.tensor(Y))
    assert ours.explain().splitlines()[-1] == plain.explain().splitlines()[-1]


def test_where_nothing_is_gained_nothing_is_advised():
    model = KernelRidge(1e-3, kernel=Gaussian(2.0)).fit(X, Y - Y.mean())
    assert "would be" in model.explain()
    assert "write fit_intercept" not in model.explain()
    assert "intercept" not in KernelRidge(0.1, kernel=KERNEL).explain(X, Y)  # nothing is fitted


def test_estimators_of_a_loss_fit_one():
    assert KernelRegressor().fit_intercept
    assert KernelClassifier().fit_intercept
    assert not KernelRidge().fit_intercept  # as in scikit-learn
