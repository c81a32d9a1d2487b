"""Early stopping of estimators: held-out rows, the best iterate, scores, refusals."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

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
)
from mercer.estimators.early_stopping import stopping_rule
from mercer.kernels import Gaussian
from mercer.losses import Hinge, Perceptron, Squared
from mercer.online import (
    KernelPerceptron,
    KernelRecursiveLeastSquares,
    OneClassMachine,
    OnlineKernelMachine,
    PassiveAggressive,
    RandomFeatureMachine,
)
from mercer.solvers import (
    ConjugateGradient,
    Direct,
    HeldOut,
    KernelGradientDescent,
    Newton,
    Problem,
)

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (120, 2))
SMOOTH = np.sin(3 * X[:, 0])
NOISY = SMOOTH + 0.7 * rng.standard_normal(120)
LABELS = np.digitize(NOISY, [-0.5, 0.5])
KERNEL = Gaussian(0.4)
STOP = {"kernel": KERNEL, "early_stopping": True, "random_state": 3, "validation_fraction": 0.25}
SLOW = ConjugateGradient(tolerance=1e-9, rank=3)


def hidden(model, labels=None):
    return stopping_rule(model).hidden(np.ones(len(X)), labels)


def scores_of(model, y):
    """The loss of every row at the fitted model, by its definition."""
    f = model.function_(X) + model.intercept_
    return {
        "squared_error": lambda: 0.5 * (f - y) ** 2,
        "absolute_error": lambda: np.abs(f - y),
        "poisson": lambda: np.exp(f) - y * f,
        "log_loss": lambda: np.logaddexp(0.0, -y * f),
        "hinge": lambda: np.maximum(0.0, 1.0 - y * f),
    }


CASES = {
    "ridge": (KernelRidge(1e-2, solver=SLOW, **STOP), "squared_error", NOISY),
    "ridge by auto": (KernelRidge(1e-2, **STOP), "squared_error", NOISY),
    "ridge on centres": (
        KernelRidge(1e-2, centres=60, solver=Newton(1e-10, sample=65), **STOP),
        "squared_error",
        NOISY,
    ),
    "square": (KernelRegressor("squared_error", 1e-4, solver=SLOW, **STOP), "squared_error", NOISY),
    "absolute": (KernelRegressor("absolute_error", 1e-6, **STOP), "absolute_error", NOISY),
    "absolute on centres": (
        KernelRegressor("absolute_error", 1e-6, centres=60, **STOP),
        "absolute_error",
        NOISY,
    ),
    "poisson": (KernelPoissonRegressor(1e-7, **STOP), "poisson", np.floor(np.exp(NOISY))),
    "logistic": (KernelLogisticRegression(1e5, **STOP), "log_loss", np.sign(NOISY)),
    "hinge": (KernelClassifier("hinge", 1e-6, **STOP), "hinge", np.sign(NOISY)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_iterate_that_predicts_held_out_rows_best_is_returned(name):
    model, loss, y = CASES[name]
    model = clone(model).fit(X, y)
    out = hidden(model, y if name in ("logistic", "hinge") else None)
    assert out.sum() == 30
    found = np.mean(scores_of(model, y)[loss]()[out])
    assert -model.validation_scores_.max() == pytest.approx(found, rel=1e-6)
    assert len(model.validation_scores_) >= 2
    steps = int(np.argmax(model.validation_scores_)), len(model.validation_scores_) - 1
    assert f"30 held-out rows are predicted best after {steps[0]} of {steps[1]} steps" in str(
        model.solution_.status
    )
    if "centres" not in name:  # they were not fitted
        assert not model.dual_coef_[out].any()


def test_a_fit_that_never_overfits_ends_where_a_fit_to_the_other_rows_does():
    solver = ConjugateGradient(tolerance=1e-12, rank=20)
    # patience for all of it: on the way held-out losses rise for some steps and fall again
    model = KernelRidge(1e-3, solver=solver, n_iter_no_change=1000, **STOP).fit(X, SMOOTH)
    out = hidden(model)
    rest = KernelRidge(1e-3 * (~out).sum() / len(X), kernel=KERNEL).fit(X[~out], SMOOTH[~out])
    loss = 0.5 * np.mean((rest.predict(X[out]) - SMOOTH[out]) ** 2)
    assert -model.validation_scores_[-1] == pytest.approx(loss, rel=1e-6)


def test_patience_ends_it():
    solver = KernelGradientDescent(steps=2000, step_size=2.0)
    model = KernelRidge(1e-9, solver=solver, n_iter_no_change=4, **STOP).fit(X, NOISY)
    scores = model.validation_scores_
    assert len(scores) - 1 - np.argmax(scores) == 4
    assert "their loss has not fallen for 4 steps" in str(model.solution_.status)
    assert model.score(X[hidden(model)], NOISY[hidden(model)]) > 0


def test_every_class_keeps_its_share():
    labels = np.repeat([0, 1], [110, 10])
    out = HeldOut(0.2, random_state=1).hidden(np.ones(120), labels)
    assert out[labels == 0].sum() == 22
    assert out[labels == 1].sum() == 2


def test_rows_without_weight_are_neither_fitted_nor_held_out():
    weights = (np.arange(120) % 3 > 0).astype(float)
    weights[1] = 2.5
    model = KernelRidge(1e-6, **STOP).fit(X, NOISY, weights)
    out = stopping_rule(model).hidden(weights)
    assert not out[weights == 0].any()
    loss = 0.5 * (model.predict(X) - NOISY) ** 2
    best = np.average(loss[out], weights=weights[out])
    assert -model.validation_scores_.max() == pytest.approx(best, rel=1e-6)


def test_several_problems_have_scores_each():
    targets = np.stack([NOISY, SMOOTH], axis=1)
    joint = KernelRidge(1e-3, **STOP).fit(X, targets)
    assert joint.validation_scores_.ndim == 1
    each = KernelRidge([1e-3, 1e-4], **STOP).fit(X, targets)
    assert [part.ndim for part in each.validation_scores_] == [1, 1]
    levels = KernelQuantileRegressor([0.2, 0.8], 1e-5, **STOP).fit(X, NOISY)
    assert len(levels.validation_scores_) == 2
    pairs = KernelClassifier("log_loss", 1e-5, multi_class="ovo", **STOP).fit(X, LABELS)
    assert len(pairs.validation_scores_) == 3
    classes = KernelRidgeClassifier(1e-3, **STOP).fit(X, LABELS)
    assert classes.validation_scores_.ndim == 1


def test_float32_blocks_and_seeds():
    narrow = KernelRidge(1e-5, centres=40, **STOP).fit(X.astype(np.float32), NOISY)
    assert narrow.dual_coef_.dtype == np.float32

    class Blocks:
        def __iter__(self):
            return iter([X[:50], X[50:]])

    streamed = KernelRidge(1e-2, centres=40, **STOP).fit(Blocks(), NOISY)
    found = np.mean(0.5 * (streamed.predict(X) - NOISY)[hidden(streamed)] ** 2)
    assert -streamed.validation_scores_.max() == pytest.approx(found, rel=1e-6)
    for seed in (None, np.random.RandomState(0), np.random.default_rng(0)):
        KernelRidge(1e-5, kernel=KERNEL, early_stopping=True, random_state=seed).fit(X, NOISY)


def test_an_interrupted_fit_remembers_the_best_iterate(tmp_path):
    path, rule = tmp_path / "run.npz", HeldOut(0.25, 30, 3)
    problem = Problem(KERNEL.gram(X), NOISY, Squared(), 1e-9)
    solver = KernelGradientDescent(400, step_size=2.0, tolerance=1e-12, stopping=rule)
    whole = solver.solve(problem)
    best = int(np.argmin(whole.history["held_out_risk"]))
    cut = KernelGradientDescent(
        400,
        step_size=2.0,
        tolerance=1e-12,
        stopping=rule,
        checkpoint=path,
        callback=lambda i, p: i == best + 5,
    ).solve(problem)
    assert not cut.status.converged
    resumed = solver.solve(problem, resume=path)
    risks, again = (part.history["held_out_risk"] for part in (whole, resumed))
    np.testing.assert_allclose(again, risks, rtol=1e-9)
    np.testing.assert_allclose(resumed.coefficients, whole.coefficients, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="a checkpoint of another problem"):
        KernelGradientDescent(400, step_size=2.0).solve(problem, resume=path)


def test_a_limit_is_said_and_a_second_fit_forgets_the_scores():
    solver = KernelGradientDescent(steps=3, step_size=0.1)
    model = KernelRidge(1e-6, solver=solver, **STOP)
    with pytest.warns(ConvergenceWarning, match="it ended as the limit of 3 iterations"):
        model.fit(X, NOISY)
    model.set_params(early_stopping=False, solver=Direct()).fit(X, NOISY)
    assert not hasattr(model, "validation_scores_")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"solver": Direct()}, "early_stopping needs a solver whose iterates"),
        ({"validation_fraction": 1.0}, "validation_fraction must be between 0 and 1; got 1.0"),
        ({"validation_fraction": "a"}, "validation_fraction must be between 0 and 1; got 'a'"),
        ({"n_iter_no_change": 0}, "n_iter_no_change must be a whole number ≥ 1; got 0"),
    ],
)
def test_refusals(change, message):
    with pytest.raises(ValueError, match=message):
        KernelRidge(**{**STOP, **change}).fit(X, NOISY)


def test_explain_foresees_a_solver_that_iterates():
    assert "ConjugateGradient" in KernelRidge(1e-3, **STOP).explain(X, NOISY)
    assert "Direct" in KernelRidge(1e-3, kernel=KERNEL).explain(X, NOISY)


# ---- support vector machines, and machines that learn sample by sample ---------------------------


def test_a_support_vector_regression_returns_its_best_round():
    random = np.random.default_rng(1)
    points = random.uniform(-1, 1, (2500, 2))
    y = np.sin(3 * points[:, 0]) + 0.7 * random.standard_normal(2500)
    model = SVR(C=100.0, kernel=Gaussian(0.1), early_stopping=True).fit(points, y)
    out = HeldOut(0.1).hidden(np.ones(2500))
    found = np.maximum(np.abs(model.predict(points[out]) - y[out]) - 0.1, 0.0).mean()
    assert -model.validation_scores_.max() == pytest.approx(found, rel=1e-6)
    assert 0 < np.argmax(model.validation_scores_) < len(model.validation_scores_) - 1
    assert not set(model.support_) & set(np.flatnonzero(out))
    assert "held-out rows are predicted best after" in str(model.solution_.status)


def test_two_classes_end_at_the_best_round():
    y = np.sign(NOISY)
    model = SVC(C=1e3, **STOP).fit(X, y)
    order = np.argsort(y, kind="stable")  # the first class comes first in its problem
    out = order[stopping_rule(model).hidden(np.ones(120), y[order])]
    found = np.maximum(0.0, 1.0 - y[out] * model.decision_function(X[out])).mean()
    assert -model.validation_scores_.max() == pytest.approx(found, rel=1e-6)
    assert not set(model.support_) & set(out)


def test_each_pair_of_classes_ends_at_its_own_round():
    model = SVC(C=1e3, **STOP).fit(X, LABELS)
    assert [scores.ndim for scores in model.validation_scores_] == [1, 1, 1]
    assert "held-out rows" in str(model.statuses_[2])
    assert model.n_iter_.shape == (3,)
    with pytest.raises(ValueError, match="early_stopping needs a finite C"):
        SVC(C=np.inf, early_stopping=True).fit(X, LABELS)
    nothing = SVR(C=1e-9, early_stopping=True).fit(X, 0.0 * NOISY)  # f = 0 is best
    assert not nothing.predict(X).any()


MACHINES = [
    (OnlineKernelMachine(KERNEL, random_state=0), Hinge()),
    (OnlineKernelMachine(KERNEL, loss=Squared(), random_state=0), Squared()),
    (KernelPerceptron(KERNEL, random_state=0), Perceptron()),
    (PassiveAggressive(KERNEL, random_state=0), Hinge()),
    (RandomFeatureMachine(KERNEL, n_components=50, random_state=0), Hinge()),
    (KernelRecursiveLeastSquares(KERNEL, alpha=0.1), Squared()),
]


@pytest.mark.parametrize(("machine", "loss"), MACHINES)
def test_an_online_machine_is_the_one_after_its_best_pass(machine, loss):
    y = np.sign(NOISY) if loss.is_classification else NOISY
    stopped = clone(machine).set_params(passes=12, early_stopping=True, n_iter_no_change=3)
    stopped.fit(X, y)
    out = stopping_rule(stopped).hidden(np.ones(120), None if y is NOISY else y)
    assert out.sum() == 12
    scores = stopped.validation_scores_
    best = int(np.argmax(scores)) + 1
    assert len(scores) == min(best + 3, 12)
    assert stopped.n_samples_seen_ == best * 108
    alone = clone(machine).set_params(passes=best).fit(X[~out], y[~out])
    np.testing.assert_allclose(alone.function_(X), stopped.function_(X), rtol=1e-9, atol=1e-12)
    risk = loss.risk(y[out], stopped.function_(X[out]))
    assert -scores.max() == pytest.approx(float(risk), rel=1e-9)


def test_an_online_machine_without_labels_refuses():
    with pytest.raises(ValueError, match="OneClassMachine has no early_stopping"):
        OneClassMachine(early_stopping=True).fit(X)
