"""Steps against a twin that is written down as in the notes, and refusals."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import is_classifier

from mercer.kernels import Gaussian, Linear
from mercer.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    Perceptron,
    Poisson,
    Quantile,
    ResidualLoss,
    Squared,
    SquaredHinge,
)
from mercer.losses.expressions import softplus
from mercer.online import (
    KernelPerceptron,
    OneClassMachine,
    OnlineKernelMachine,
    PassiveAggressive,
    Pegasos,
    budgets,
    schedules,
)
from mercer.online.losses import MaxMargin
from online.streams import GAUSSIAN, expanded, samples, twin

REAL = [Squared(), Huber(0.3), Absolute(), Quantile(0.8), EpsilonInsensitive(0.2)]
MARGIN = [Logistic(), Hinge(), SquaredHinge(), Perceptron()]


class OwnLoss(Logistic):
    """A loss that compiled code does not know, as it has a method of its own."""

    def value(self, y, f):
        return np.logaddexp(0.0, -y * f)


@dataclass(frozen=True)
class LogCosh(ResidualLoss):
    """A loss of a user, compiled from its expression."""

    lipschitz, smoothness = 1.0, 1.0

    def of_residual(self, r):
        return softplus(2.0 * r) - r - np.log(2.0)


def begun(X, y, **parameters):
    machine = OnlineKernelMachine(GAUSSIAN, **parameters)
    classes = np.unique(y) if is_classifier(machine) else None
    return machine.partial_fit(X, y, classes=classes)


@pytest.mark.parametrize("loss", [*REAL, *MARGIN, LogCosh(), OwnLoss(), Poisson()], ids=repr)
def test_the_step_is_the_functional_gradient(loss):
    X, labels, real = samples()
    y = labels.astype(float) if loss.is_classification else np.abs(real)
    rates = schedules.InverseSqrt(0.3)
    machine = begun(X, y, loss=loss, regularization=0.1, step=rates)
    steps = [rates.step(t) for t in range(1, len(X) + 1)]
    alpha, losses = twin(GAUSSIAN, X, y[:, None], loss, 0.1, steps)
    np.testing.assert_allclose(expanded(machine.function_, X), alpha[:, 0], atol=1e-12)
    assert machine.cumulative_loss_ == pytest.approx(losses.sum(), rel=1e-12)


@pytest.mark.parametrize("budget", [budgets.Oldest(12), budgets.Merge(12)], ids=repr)
def test_a_loss_that_compiled_code_does_not_know_learns_blocks_on_a_budget(budget):
    X, labels, _ = samples()
    own, known = (begun(X, labels, loss=loss, budget=budget) for loss in (OwnLoss(), Logistic()))
    np.testing.assert_allclose(own.predict_proba(X), known.predict_proba(X), atol=1e-12)
    assert own.cumulative_loss_ == pytest.approx(known.cumulative_loss_, rel=1e-12)


@pytest.mark.parametrize("loss", [Hinge(), Multinomial(), MaxMargin(1.0), MaxMargin(0.0)], ids=repr)
def test_several_classes_several_weights_and_the_average(loss):
    X, _, real = samples()
    labels = np.digitize(real, [-0.5, 0.5])
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=len(X))
    machine = OnlineKernelMachine(
        GAUSSIAN,
        loss=loss,
        regularization=0.1,
        step=schedules.Constant(0.5),
        averaging=schedules.Average(power=1),
    ).partial_fit(X, labels, classes=[0, 1, 2], sample_weight=weights)
    y = (labels[:, None] == np.arange(3)).astype(float)
    y = y if loss.is_multiclass else 2 * y - 1
    n = len(X)
    alpha, _ = twin(GAUSSIAN, X, y, loss, 0.1, [0.5] * n, weights, np.arange(1.0, n + 1))
    np.testing.assert_allclose(expanded(machine.function_, X), alpha, atol=1e-12)


def test_adaptive_steps_follow_the_gradients_met():
    X, _, y = samples()
    machine = begun(X, y, loss=Absolute(), regularization=0.0, step=schedules.Adaptive(0.7))
    steps, met = [], 0
    for value in expanded(machine.function_, X):
        met += value != 0
        steps.append(0.7 / np.sqrt(max(met, 1)))
    alpha, _ = twin(GAUSSIAN, X, y[:, None], Absolute(), 0.0, steps)
    np.testing.assert_allclose(expanded(machine.function_, X), alpha[:, 0], atol=1e-12)


def test_shrinking_survives_a_step_of_one_over_lambda_and_underflow():
    X, labels, _ = samples(n=300)
    y = labels.astype(float)
    rates = schedules.InverseTime(1.0 / 0.5)
    machine = Pegasos(GAUSSIAN, regularization=0.5, averaging=schedules.Average())
    machine.partial_fit(X, y, classes=[-1, 1])
    steps = [rates.step(t) for t in range(1, 301)]
    alpha, _ = twin(GAUSSIAN, X, y[:, None], Hinge(), 0.5, steps, None, np.ones(300))
    np.testing.assert_allclose(expanded(machine.function_, X), alpha[:, 0], atol=1e-12)
    harsh = begun(X, y, regularization=0.95, step=schedules.Constant(1.0))  # 0.05^300 = 0
    alpha, _ = twin(GAUSSIAN, X, y[:, None], Hinge(), 0.95, [1.0] * 300)
    np.testing.assert_allclose(expanded(harsh.function_, X), alpha[:, 0], atol=1e-14)
    again = begun(X, y, regularization=1.0, step=schedules.Constant(1.0))  # everything forgotten
    assert len(again.function_) <= 1


def test_passive_aggressive_steps_mend_the_loss():
    X, y, real = samples()
    machine = PassiveAggressive(GAUSSIAN, variant="PA").learn_one(X[0], 1, classes=[-1, 1])
    for x, label in zip(X, y, strict=True):
        machine.learn_one(x, label)
        assert label * machine.decision_function(x[None])[0] >= 1 - 1e-12
    limited = PassiveAggressive(GAUSSIAN, limit=0.2).partial_fit(X, y, classes=[-1, 1])
    assert np.abs(limited.function_.coefficients).max() == pytest.approx(0.2)
    tube = PassiveAggressive(GAUSSIAN, variant="PA", loss=EpsilonInsensitive(0.1))
    for x, target in zip(X, real, strict=True):
        assert abs(tube.learn_one(x, target).predict(x[None])[0] - target) <= 0.1 + 1e-12
    three = np.digitize(real, [-0.5, 0.5])
    several = PassiveAggressive(GAUSSIAN, variant="PA")
    for x, label in zip(X, three, strict=True):
        before = (
            several.decision_function(x[None])[0] if hasattr(several, "stream_") else np.zeros(3)
        )
        rival = np.argmax(np.where(np.arange(3) == label, -np.inf, before))
        after = several.learn_one(x, label, classes=[0, 1, 2]).decision_function(x[None])[0]
        assert after[label] - after[rival] >= 1 - 1e-12


@pytest.mark.parametrize("variant", ["PA", "PA-I", "PA-II"])
def test_passive_aggressive_steps_skip_what_no_step_mends(variant):
    X, y, _ = samples()
    X[::2] = 0.0  # k(x, x) = 0
    machine = PassiveAggressive(Linear(), variant=variant).partial_fit(X, y, classes=[-1, 1])
    assert np.isfinite(machine.decision_function(X)).all()
    assert not (machine.function_.centres == 0).all(axis=1).any()


def test_votes_and_averages_of_perceptrons():
    X, y, _ = samples(n=60)
    K, alpha, history = GAUSSIAN(X), np.zeros(60), []
    for t in range(60):
        history.append(alpha.copy())
        if y[t] * (K[t] @ alpha) <= 0:
            alpha[t] += y[t]
    history = np.array([*history[1:], alpha])  # what is there after each sample votes
    voted = KernelPerceptron(GAUSSIAN, predictor="vote").partial_fit(X, y, classes=[-1, 1])
    votes = np.where(K @ history.T > 0, 1.0, -1.0)
    (first,) = np.flatnonzero((voted.function_.centres[0] == X).all(axis=1))
    np.testing.assert_allclose(
        voted.decision_function(X) * (59 - first), votes[:, first:59].sum(axis=1), atol=1e-9
    )
    averaged = KernelPerceptron(GAUSSIAN, predictor="average").partial_fit(X, y, classes=[-1, 1])
    mean = np.vstack([np.zeros(60), history[:-1]]).mean(axis=0)
    np.testing.assert_allclose(averaged.decision_function(X), K @ mean, atol=1e-12)


def test_one_class_leaves_out_its_share():
    X = samples(n=2000)[0]
    machine = OneClassMachine(Gaussian(2.0), share=0.2, budget=budgets.Merge(50)).fit(X)
    assert np.mean(machine.predict(X) < 0) == pytest.approx(0.2, abs=0.05)
    assert (machine.score_samples(X) - machine.offset_ == machine.decision_function(X)).all()


def test_float32_and_dictionaries():
    X, y, _ = samples()
    machine = begun(X.astype(np.float32), y)
    assert machine.function_.coefficients.dtype == np.float32
    assert machine.function_(X.astype(np.float32)).dtype == np.float32
    named = OnlineKernelMachine(GAUSSIAN)
    rows = [dict(zip("abc", row, strict=True)) for row in X]
    for row, label in zip(rows, y, strict=True):
        named.predict_one(row)
        named.learn_one(row, label, classes=[-1, 1])
    assert np.array_equal(named.decision_function(X), begun(X, y).decision_function(X))
    with pytest.raises(ValueError, match=r"must have the entries \['a', 'b', 'c'\]; got \['a'\]"):
        named.learn_one({"a": 1.0}, 1)


def test_probabilities():
    X, y, real = samples()
    machine = begun(X, y, loss=Logistic())
    chances = machine.predict_proba(X)
    np.testing.assert_allclose(chances[:, 1], 1 / (1 + np.exp(-machine.decision_function(X))))
    several = begun(X, np.digitize(real, [-0.5, 0.5]), loss=Multinomial())
    np.testing.assert_allclose(several.predict_proba(X).sum(axis=1), 1.0)
    assert not hasattr(OnlineKernelMachine(loss=Hinge()), "predict_proba")


# ---- refusals ------------------------------------------------------------------------------------

X, LABELS, REALS = samples()
REFUSED = {
    "labels": (
        {},
        lambda m: m.learn_one(X[0], 7),
        r"label 7 was never announced; the classes are \[-1, 1\]",
    ),
    "no label": ({}, lambda m: m.learn_one(X[0], None), "target y is None"),
    "a label of another kind": (
        {},
        lambda m: m.learn_one(X[0], "one"),
        "'one' was never announced",
    ),
    "a label that is not finite": (
        {},
        lambda m: m.partial_fit(X[:2], [1.0, np.nan]),
        "NaN or infinity, which is no label",
    ),
    "first labels": (
        {},
        lambda m: OnlineKernelMachine().learn_one(X[0], 7),
        "announce all labels there will be",
    ),
    "other classes": (
        {},
        lambda m: m.partial_fit(X, LABELS, classes=[0, 1]),
        "is not what the first call announced",
    ),
    "width": ({}, lambda m: m.learn_one(X[0, :2], 1), "a vector of 3 numbers, as before"),
    "width of a block": ({}, lambda m: m.partial_fit(X[:, :2], LABELS), "2 features"),
    "nan": ({}, lambda m: m.learn_one([0.0, np.nan, 1.0], 1), "contain NaN"),
    "weights": (
        {},
        lambda m: m.partial_fit(X, LABELS, sample_weight=-np.ones(len(X))),
        "finite and nonnegative",
    ),
    "step and λ": (
        {"regularization": 2.0},
        None,
        r"turns f round: 1 − ηλ = -1\. Take steps of at most 1/λ = 0\.5",
    ),
    "long step": (
        {"loss": Squared(), "step": schedules.Constant(2.5)},
        None,
        r"too long for a loss with unbounded slope: learning is stable below 2 at",
    ),
    "overflow": (
        {"loss": Poisson(), "step": schedules.Constant(1e6), "regularization": 0.0},
        None,
        "not finite at sample",
    ),
    "step": ({"step": 0.1}, None, "step must be a schedule; got 0.1"),
    "budget": ({"budget": 200}, None, r"one of mercer\.online\.budgets, as Merge\(200\)"),
    "loss": ({"loss": "hinge"}, None, "loss must be a loss of mercer.losses"),
    "precomputed": ({"kernel": "precomputed"}, None, "a stream has no matrix in advance"),
    "gamma": ({"kernel": "rbf", "gamma": "scale"}, None, "which a stream does not have"),
    "foreign": (
        {"loss": OwnLoss(), "budget": budgets.LeastLoss(3)},
        None,
        "LeastLoss compares losses in compiled code",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_and_leaves_no_trace(name):
    parameters, attempt, text = REFUSED[name]
    if attempt is None:
        machine = OnlineKernelMachine(**{"kernel": GAUSSIAN, **parameters})
        real = isinstance(parameters.get("loss"), (Squared, Poisson))
        y = 100.0 * np.abs(REALS) if real else LABELS
        with pytest.raises(ValueError, match=text):
            machine.partial_fit(X, y, classes=None if real else [-1, 1])
        assert not hasattr(machine, "stream_")
        return
    machine = begun(X, LABELS, **parameters)
    before = pickle.dumps(machine.stream_)
    with pytest.raises(ValueError, match=text):
        attempt(machine)
    assert pickle.dumps(machine.stream_) == before


def test_a_block_is_refused_as_a_whole():
    machine = OnlineKernelMachine(
        Linear(), loss=Poisson(), step=schedules.Constant(1.0), regularization=0.0, record=True
    ).partial_fit([[0.1]], [1.0])
    before = pickle.dumps(machine.stream_)
    with pytest.raises(ValueError, match="the model is as it was before"):
        machine.partial_fit([[0.1], [100.0], [100.0]], [1.0, 5.0, 0.0])
    assert pickle.dumps(machine.stream_) == before
    with pytest.raises(ValueError, match=r"whole number size ≥ 1; got 0"):
        budgets.Merge(0)
