"""Early stopping of estimators: held-out rows, the best iterate, scores, refusals."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mercer import (
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
from mercer.losses import Squared
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
