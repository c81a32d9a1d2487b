"""Certificates: their numbers are true, and say what they rest on."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import NotFittedError

from mercer import (
    SVC,
    SVCCV,
    SVR,
    ConformalRegressor,
    KernelClassifier,
    KernelClassifierCV,
    KernelLogisticRegression,
    KernelRegressor,
    KernelRidge,
    KernelRidgeClassifier,
    KernelRidgeCV,
    LearnedKernelClassifier,
    LearnedKernelRegressor,
    NuSVC,
)
from mercer.kernels import Gaussian, Linear
from mercer.losses import Hinge, Huber
from mercer.online import (
    KernelRecursiveLeastSquares,
    OnlineKernelMachine,
    budgets,
    regret,
    schedules,
)
from mercer.theory import online_deviation

random = np.random.default_rng(0)
X = random.uniform(-1, 1, (80, 2))
y = np.sin(2 * X[:, 0]) + 0.1 * random.standard_normal(80)
NEW = random.uniform(-1, 1, (4000, 2))


def test_leave_one_out_errors_are_not_told_of_other_coefficients_of_the_function():
    """In columns of large units α is not (y − f)/(nλ)."""
    model = KernelRidge(kernel="linear").fit(1e6 * X, y)
    assert "least coefficients" in str(model.solution_.status)
    names = {statement.name for statement in model.certificate()}
    assert "degrees of freedom" in names
    assert "leave-one-out error" not in names


def test_ridge():
    model = KernelRidge(alpha=0.5, kernel=Gaussian()).fit(X, y)
    found = model.certificate()
    f = model.function_
    assert found["norm"].value == pytest.approx(f.norm())
    assert found["mean loss"].value == pytest.approx(0.5 * np.mean((y - f(X)) ** 2))
    assert found["objective"].value == model.solution_.objective
    left_out = []
    for i in range(80):
        kept = np.arange(80) != i
        other = KernelRidge(alpha=0.5, kernel=Gaussian()).fit(X[kept], y[kept])
        left_out.append(y[i] - other.predict(X[[i]])[0])
    assert found["leave-one-out error"].value == pytest.approx(
        np.sqrt(np.mean(np.square(left_out)))
    )
    smoother = Gaussian()(X) @ np.linalg.inv(Gaussian()(X) + 0.5 * np.eye(80))
    assert found["degrees of freedom"].value == pytest.approx(np.trace(smoother))
    assert found["risk"].value is None
    assert "target_bound" in found["risk"].meaning
    bounded = model.certificate(target_bound=2.0)["risk by Rademacher complexity"]
    truth = 0.5 * np.mean((np.sin(2 * NEW[:, 0]) - f(NEW)) ** 2) + 0.005
    assert truth < bounded.value
    assert [a.holds for a in bounded.assumptions] == [None, None, True, True, None]


def test_bounds_hold_for_classifiers():
    """On new samples, in all of some repetitions: the bounds are far from tight at this size."""
    labels = np.sign(np.sin(3 * NEW[:, 0]))
    values = []
    for seed in range(8):
        places = np.random.default_rng(seed).permutation(4000)[:120]
        for loss in (Hinge(), "log_loss"):
            for intercept in (False, True):
                model = KernelClassifier(loss, 0.05, kernel=Gaussian(), fit_intercept=intercept)
                model.fit(NEW[places], labels[places])
                found, scores = model.certificate(0.9), model.decision_function(NEW)
                risk = float(np.mean(model.loss_.value(labels, scores)))
                stated = [s.value for s in found if s.name.startswith("risk by") and s.value]
                assert len(stated) == 1 if intercept else 2
                assert risk < min(stated)
                assert np.mean(np.sign(scores) != labels) <= found["error rate"].value
                values.append(found["risk by Rademacher complexity"].value - risk)
    assert 0 < min(values) < 1.5


def test_more_samples_say_more():
    errors = []
    for n in (300, 3000):
        points = np.random.default_rng(0).uniform(-1, 1, (n, 1))
        model = KernelClassifier("hinge", 0.02, kernel=Gaussian(), fit_intercept=False)
        errors.append(model.fit(points, points[:, 0] > 0).certificate()["error rate"].value)
    assert errors[1] < errors[0]
    assert errors[1] < 0.6


def test_what_is_not_known_is_said():
    found = KernelRidge(kernel=Gaussian()).fit(X, np.stack([y, y], axis=1)).certificate()
    assert "Only for one output" in found["risk"].meaning
    weights = np.arange(1.0, 81.0)
    model = KernelClassifier("hinge", kernel=Gaussian()).fit(X, y > 0, sample_weight=weights)
    assert "different weights" in model.certificate()["risk"].meaning
    model = KernelClassifier("squared_hinge", kernel=Gaussian()).fit(X, y > 0)
    assert "is not Lipschitz" in model.certificate()["risk"].meaning
    model = KernelClassifier("hinge", kernel=Linear(), fit_intercept=False).fit(X, y > 0)
    found = model.certificate()["risk by stability"]
    radius = next(a for a in found.assumptions if "√k(x, x)" in a.text)
    assert radius.holds is None  # a linear kernel has no bound; the one seen is assumed
    on_centres = KernelRegressor(Huber(1.0), centres=20, random_state=0).fit(X, y)
    found = on_centres.certificate(target_bound=2.0)
    assert found["risk by Rademacher complexity"].value is not None
    assert found["risk by stability"].value is None
    with pytest.raises(KeyError, match="'speed'; there are"):
        found["speed"]


def test_certificates_travel_and_read():
    model = KernelLogisticRegression(kernel=Gaussian()).fit(X, y > 0)
    found = pickle.loads(pickle.dumps(model)).certificate()
    text = str(found)
    assert "gap:" in text
    assert "(not checked)" in text
    assert "norm" in found
    with pytest.raises(NotFittedError):
        KernelRidge().certificate()
    with pytest.raises(ValueError, match="target_bound > 0"):
        model.certificate(target_bound=0.0)


def test_support_vector_machines():
    """The machine of C is the classifier of λ = 1/(nC), and so is what is proved of it."""
    labels = np.where(np.sin(3 * X[:, 0]) > 0, "b", "a")
    model = SVC(C=2.0, kernel=Gaussian(), tol=1e-6).fit(X, labels)
    twin = KernelClassifier(Hinge(), 1 / 160, kernel=Gaussian(), fit_intercept=True)
    found, wanted = model.certificate(0.9), twin.fit(X, labels).certificate(0.9)
    margins = np.where(labels == "b", 1, -1) * model.decision_function(X)
    assert found["mean loss"].value == pytest.approx(np.maximum(0, 1 - margins).mean(), abs=1e-5)
    for name in ("norm", "objective", "risk by Rademacher complexity", "error rate"):
        assert found[name].value == pytest.approx(wanted[name].value, rel=1e-3)
    regression = SVR(C=2.0, kernel=Gaussian(), epsilon=0.05, tol=1e-6).fit(X, y)
    assert regression.certificate()["risk"].value is None
    bounded = regression.certificate(target_bound=2.0)
    misses = np.maximum(np.abs(y - regression.predict(X)) - 0.05, 0)
    assert bounded["mean loss"].value == pytest.approx(misses.mean(), abs=1e-5)
    truth = np.maximum(np.abs(np.sin(2 * NEW[:, 0]) - regression.predict(NEW)) - 0.05, 0).mean()
    assert truth < bounded["risk by Rademacher complexity"].value
    assert NuSVC(nu=0.3, kernel=Gaussian()).fit(X, labels).certificate()["risk"].value is None
    three = SVC().fit(X, np.digitize(y, [-0.3, 0.3]))
    found = three.certificate()
    assert found["gap"].value == max(s.gap for s in three.solutions_)
    assert "one for each pair of classes" in found["risk"].meaning


def fixed_beforehand(statement):
    """Whether kernel and λ were chosen without the samples: unknown, or known not to be so."""
    return next(a.holds for a in statement.assumptions if "without the samples" in a.text)


def test_choices_on_the_samples_break_the_bounds_that_forbid_them():
    """λ may be chosen for a bound on all functions of a ball, and not for stability."""
    labels = y > 0
    given = KernelClassifier("hinge", 0.05, kernel=Gaussian(), fit_intercept=False)
    given.fit(X, labels)
    for chosen, ball, stability in [
        ([], None, None),
        (["regularization"], None, False),
        (["kernel"], False, False),
    ]:
        found = given.certificate(chosen=chosen)
        assert fixed_beforehand(found["risk by Rademacher complexity"]) is ball
        assert fixed_beforehand(found["risk by stability"]) is stability
    assert "(broken)" in str(given.certificate(chosen=["kernel"]))
    with pytest.raises(ValueError, match=r"write chosen=\[\"kernel\"\]"):
        given.certificate(chosen="kernel")


def test_estimators_know_what_they_chose():
    labels, scales = y > 0, [0.5, 1.0]
    name = "risk by Rademacher complexity"
    for model, holds in [
        (KernelClassifier("hinge", gamma=1.0), None),
        (KernelClassifier("hinge"), False),  # gamma="median" is taken from the samples
        (SVC(), False),  # and so is gamma="scale"
        (SVC(kernel="linear"), None),  # which has no gamma
        (SVCCV([1.0, 10.0], lengthscales=scales, cv=2), False),
        (KernelClassifierCV([1.0, 10.0], lengthscales=scales, cv=2, loss="hinge"), False),
        (KernelRidgeClassifier(), None),
        (LearnedKernelClassifier(rounds=1, kernel=Gaussian(), form="diagonal"), False),
    ]:
        assert fixed_beforehand(model.fit(X, labels).certificate()[name]) is holds
    for model, holds in [
        (KernelRidgeCV([0.1, 1.0], kernel=Gaussian(), lengthscales=None), None),
        (KernelRidgeCV([0.1, 1.0], kernel=Gaussian(), lengthscales=scales), False),
        (LearnedKernelRegressor(rounds=1, kernel=Gaussian(), form="diagonal"), False),
    ]:
        found = model.fit(X, y).certificate(target_bound=2.0)
        assert fixed_beforehand(found[name]) is holds


def test_intervals_state_their_coverage():
    model = ConformalRegressor(KernelRidge(kernel=Gaussian()), coverage=0.8, random_state=0)
    found = model.fit(X, y).certificate()
    assert found["coverage"].value == 0.8
    assert found["norm"].value == pytest.approx(model.estimator_.function_.norm())
    alone = ConformalRegressor(DummyRegressor()).fit(X, y).certificate()
    assert [statement.name for statement in alone] == ["coverage"]


def test_streams():
    labels = np.where(np.sin(3 * NEW[:, 0]) > 0, 1, -1)
    machine = OnlineKernelMachine(
        Gaussian(0.5), regularization=0.0, step=schedules.Constant(0.5), record=True
    )
    machine.partial_fit(NEW[:400], labels[:400], classes=[-1, 1])
    found = machine.certificate(0.9, radius=3.0)
    assert found["norm"].value == pytest.approx(machine.function_.norm())
    assert found["mean loss"].value == pytest.approx(machine.recorded_.losses.mean())
    wanted = machine.mistakes_ / 400 + online_deviation(400, probability=0.9)
    assert found["error rate"].value == pytest.approx(wanted)
    assert found["regret"].value == pytest.approx(regret(machine, 3.0).bound[-1])
    assert [a.holds for a in found["error rate"].assumptions] == [None, None]
    twice = OnlineKernelMachine(Gaussian(0.5), passes=2).fit(NEW[:400], labels[:400])
    assert twice.certificate()["error rate"].assumptions[1].holds is False
    assert "record=True" in twice.certificate()["regret"].meaning
    short = OnlineKernelMachine(Gaussian(0.5), budget=budgets.Oldest(20), record=True)
    short.partial_fit(NEW[:100], labels[:100], classes=[-1, 1])
    assert "a budget" in short.certificate()["regret"].meaning
    numbers = KernelRecursiveLeastSquares(Gaussian()).partial_fit(X, y).certificate()
    assert numbers["mean loss"].value > 0
    assert "error rate" not in numbers


@pytest.mark.parametrize(("bound", "holds"), [(None, True), (2.0, True), (0.5, False)])
def test_codes_of_classes_are_known_to_be_at_most_one(bound, holds):
    found = KernelRidgeClassifier().fit(X, y > 0).certificate(target_bound=bound)
    assumptions = found["risk by Rademacher complexity"].assumptions
    assert next(a.holds for a in assumptions if "|y|" in a.text) is holds
