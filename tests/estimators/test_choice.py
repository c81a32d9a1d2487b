"""Which solver "auto" takes for every loss, said before and after the fit."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from mercer import (
    SVC,
    SVR,
    KernelClassifier,
    KernelLogisticRegression,
    KernelPoissonRegressor,
    KernelQuantileRegressor,
    KernelRegressor,
    KernelRidge,
    KernelRidgeClassifier,
    NuSVC,
    NuSVR,
    OneClassSVM,
)
from mercer.errors import ApproximationWarning
from mercer.features.centres import Given
from mercer.kernels import Gaussian
from mercer.losses import Hinge, Logistic, Multinomial, Quantile
from mercer.solvers import ConjugateGradient, Direct, DualAscent, automatic
from mercer.solvers.automatic import Rates, choose

RNG = np.random.default_rng(0)
X = RNG.standard_normal((200, 2))
Y = np.abs(np.floor(3 * X[:, 0]))
MODELS = [
    KernelClassifier("hinge"),
    KernelClassifier(),
    KernelLogisticRegression(),
    KernelRegressor("huber"),
    KernelPoissonRegressor(),
    KernelQuantileRegressor([0.2, 0.8]),
    KernelRidge(kernel="rbf", gamma="median"),
]
RATES = Rates({"float32": 1e11, "float64": 5e10}, 1e-9, 4)


@dataclasses.dataclass(frozen=True)
class Noting:
    """A factorisation that notes the time limits it was given."""

    time_limit: float | None = None
    limits: list[float | None] = dataclasses.field(default_factory=list)

    def solve(self, problem):
        self.limits.append(self.time_limit)
        return Direct().solve(problem)


@pytest.mark.parametrize("loss", [Logistic(), Multinomial()])
def test_hundreds_of_thousands_of_rows_take_centres_by_themselves(loss):
    points = Gaussian().points(RNG.standard_normal((300_000, 4), np.float32))
    choice = choose(Gaussian(), points, loss, rates=RATES)
    assert choice.chosen.centres == 2190
    assert "Newton: about" in choice.explain()
    assert "longer than 900 s" in choice.explain()


@pytest.mark.parametrize("loss", [Hinge(), Quantile(0.3), Logistic()])
def test_ten_thousand_rows_are_solved_exactly(loss):
    points = Gaussian().points(np.zeros((10_000, 4), np.float32))
    chosen = choose(Gaussian(), points, loss, rates=RATES, tolerance=1e-4).chosen
    assert chosen.exact
    assert chosen.solver.tolerance == 1e-4


@pytest.fixture
def in_a_hurry(monkeypatch):
    """No exact solution is within reach, also of few rows."""
    hurried = dataclasses.replace(automatic.TUNING, small=10, patience=1e-12)
    monkeypatch.setattr(automatic, "TUNING", hurried)
    monkeypatch.setattr(automatic, "default_centres", lambda rows: 30)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_every_estimator_explains_before_and_after_the_fit(model, in_a_hurry):
    model = clone(model)
    before = model.explain(X, Y)
    assert "→ Newton, on 30 centres: about" in before
    assert not hasattr(model, "solution_")
    with pytest.warns(ApproximationWarning, match="30 centres"):
        model.fit(X, Y)
    assert len(model.X_fit_) == 30
    assert "No exact solution is within reach." in model.explain()
    assert str(model.solution_.status) in model.explain()


@pytest.mark.parametrize(
    "model", [SVC(), NuSVC(nu=0.3), SVR(), NuSVR(), OneClassSVM()], ids=lambda m: type(m).__name__
)
def test_machines_explain_before_and_after_the_fit(model):
    before = model.explain(X, Y == 1)
    assert re.match(r"→ DualAscent: about \S+ s and \S+ MB\nIt is exact\.$", before)
    assert not hasattr(model, "function_")
    assert not hasattr(model, "n_features_in_")
    model.fit(X, Y == 1)
    status = (model.statuses_ if hasattr(model, "statuses_") else [model.solution_.status])[0]
    after = "DualAscent. The solver was given, or there was nothing to choose."
    assert model.explain() == f"{after}\n{status}"
    limited = clone(model).set_params(time_limit=1e-6)
    text = "It is exact, but is stopped by the time limit of 1e-06 s."
    assert text in limited.explain(X, Y == 1)


def test_pairs_of_classes_are_explained_together():
    model, classes = SVC(), np.digitize(X[:, 0], [-0.5, 0.5])
    assert "There are 3 pairs of classes, with a machine each." in model.explain(X, classes)
    assert "\n3 of 3 pairs of classes are solved; the worst:\nSolved: " in (
        model.fit(X, classes).explain()
    )
    with pytest.raises(NotFittedError):
        SVC().explain()


@pytest.mark.parametrize(
    "model",
    [SVC(C=1e6), NuSVC(nu=0.3), SVR(C=1e6), NuSVR(C=1e6), OneClassSVM()],
    ids=lambda m: type(m).__name__,
)
def test_a_time_limit_ends_machines_and_is_named(model):
    rows, random = np.repeat(X, 15, axis=0), np.random.default_rng(0)
    rows = rows + 0.01 * random.standard_normal(rows.shape)
    model = clone(model).set_params(time_limit=1e-6, tol=1e-9)
    with pytest.warns(ConvergenceWarning, match="The time limit ended it"):
        model.fit(rows, random.integers(0, 2, len(rows)))
    assert np.isfinite(model.predict(rows)).all()
    with pytest.raises(ValueError, match="needs a finite time_limit > 0"):
        clone(model).set_params(time_limit=0).fit(rows, rows[:, 0] > 0)


def test_pairs_of_classes_share_the_time():
    rows, random = RNG.standard_normal((3000, 3)), np.random.default_rng(0)
    model = SVC(C=1e6, tol=1e-9, time_limit=1e-6)
    with pytest.warns(ConvergenceWarning, match="The time limit ended it"):
        model.fit(rows, random.integers(0, 3, len(rows)))
    assert not any(status.converged for status in model.statuses_)
    assert model.explain().splitlines()[1] == "0 of 3 pairs of classes are solved; the worst:"


def test_one_pair_of_many_rows_has_no_more_than_all_of_the_time(monkeypatch):
    """It had the time of both threads."""
    limits, solve = [], DualAscent.solve
    monkeypatch.setattr(
        DualAscent,
        "solve",
        lambda self, *given: limits.append(self.time_limit) or solve(self, *given),
    )
    rows = RNG.standard_normal((3000, 3))
    SVC(time_limit=60.0).fit(rows, rows[:, 0] > 0)
    SVC(time_limit=60.0).fit(rows, np.digitize(rows[:, 0], [-0.5, 0.5]))
    assert len(limits) == 4
    assert 50.0 < limits[0] <= 60.0
    assert all(limit <= 60.0 for limit in limits)


def test_where_nothing_was_chosen_it_says_so():
    model = KernelClassifier("hinge", solver=DualAscent())
    assert model.explain(X, Y > 1).startswith("DualAscent. The solver was given, or there")
    assert "nothing to choose" in model.fit(X, Y > 1).explain()


@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
def test_what_few_rows_take_is_foreseen(loss):
    text = KernelClassifier(loss).explain(X, Y > 1)
    assert re.match(r"→ (DualAscent|Newton): about \S+ s", text)
    assert "It is exact" in text
    text = KernelRidgeClassifier().explain(X, Y > 1)
    assert re.match(r"→ Direct: about \S+ s and", text)


def test_centres_that_are_given_are_counted_and_are_not_the_rows():
    on = {"kernel": Gaussian(), "centres": Given(X[:30])}
    assert "→ Newton, on 30 centres" in KernelRidge(**on).explain(X, Y)
    assert Given(indices=[1, 5]).count == 2
    text = KernelLogisticRegression(**on).explain(X, Y > 1)
    assert text == "Newton. The solver was given, or there was nothing to choose."


@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
def test_a_time_limit_ends_a_fit_and_is_named(loss):
    model = KernelClassifier(loss, 1e-7, tol=1e-12, time_limit=1e-9)
    with pytest.warns(Warning, match="time limit"):
        model.fit(np.repeat(X, 6, axis=0), RNG.integers(0, 2, 1200))


@pytest.mark.parametrize("estimator", [KernelRidge, KernelRidgeClassifier])
def test_a_time_limit_of_ridge_takes_what_ends_in_time(estimator):
    rows = RNG.standard_normal((3000, 3))
    model = estimator(kernel="rbf", alpha=1e-3, time_limit=1e-3)
    text = model.explain(rows, rows[:, 0] > 0)
    assert "Direct: about" in text
    assert "longer than the time limit of 0.001 s" in text
    with pytest.warns(ApproximationWarning, match="centres"):
        model.fit(rows, rows[:, 0] > 0)
    assert len(model.dual_coef_) < 3000
    iterating = estimator(kernel="rbf", alpha=1e-9, time_limit=1e-3, solver=ConjugateGradient())
    with pytest.warns(ConvergenceWarning, match="Stopped by the time limit"):
        iterating.fit(rows, rows[:, 0] > 0)
    model = estimator(kernel="rbf", time_limit=60.0)
    assert "Few rows" in model.explain(rows[:500], rows[:500, 0] > 0)
    with pytest.raises(ValueError, match="needs a finite time_limit > 0; got -1"):
        estimator(time_limit=-1).fit(rows, rows[:, 0] > 0)


def test_targets_with_an_alpha_each_share_the_time():
    solver = Noting()
    model = KernelRidge([1e-3, 1e-2, 1e-1], kernel="rbf", time_limit=90.0, solver=solver)
    model.fit(X, np.column_stack([Y, -Y, Y**2]))
    first, second, third = solver.limits
    assert 20.0 < first <= 30.0 < second < third  # what others leave


def test_centres_of_rows_that_are_all_zero():
    """K is 0 there, so that none of the centres is independent: the function is 0."""
    rows = np.zeros((2, 2))
    assert (KernelRidge(centres=3).fit(rows, [1.0, 2.0]).predict(rows) == 0.0).all()
