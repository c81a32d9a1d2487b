"""Every online machine, through `check_online` and through scikit-learn's own checks."""

from __future__ import annotations

import copy
import sys

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer.kernels import Gaussian, Linear, Matern
from mercer.losses import EpsilonInsensitive, Logistic, Multinomial, Squared
from mercer.online import (
    NORMA,
    DoublyStochasticMachine,
    Forgetron,
    KernelPerceptron,
    KernelRecursiveLeastSquares,
    NystroemMachine,
    OneClassMachine,
    OnlineKernelMachine,
    PassiveAggressive,
    Pegasos,
    RandomFeatureMachine,
    budgets,
    schedules,
)
from mercer.testing import check_online
from online.streams import GAUSSIAN, LETTERS, samples, words

CLASSIFIERS = {
    "unbounded": OnlineKernelMachine(GAUSSIAN, averaging=schedules.Average()),
    "oldest": OnlineKernelMachine(GAUSSIAN, budget=budgets.Oldest(12)),
    "smallest": OnlineKernelMachine(Matern(1.5), budget=budgets.Smallest(12)),
    "random": OnlineKernelMachine(GAUSSIAN, budget=budgets.Random(12), random_state=0),
    "least loss": OnlineKernelMachine(
        GAUSSIAN, loss=Logistic(), budget=budgets.LeastLoss(12), averaging=schedules.Average()
    ),
    "projection": OnlineKernelMachine(
        Matern(1.5), budget=budgets.Project(12), averaging=schedules.Average(power=1)
    ),
    "merging": OnlineKernelMachine(
        2.0 * GAUSSIAN, budget=budgets.Merge(12), averaging=schedules.Average()
    ),
    "merging without a formula": OnlineKernelMachine(Matern(1.5), budget=budgets.Merge(12)),
    "adaptive": OnlineKernelMachine(GAUSSIAN, step=schedules.Adaptive(0.5)),
    "pegasos": Pegasos(GAUSSIAN, budget=budgets.Merge(12)),
    "norma": NORMA(GAUSSIAN, window=12),
    "passive-aggressive": PassiveAggressive(GAUSSIAN, budget=budgets.Project(12)),
    "perceptron": KernelPerceptron(GAUSSIAN, predictor="vote"),
    "forgetron": Forgetron(GAUSSIAN, size=12),
    "random features": RandomFeatureMachine(GAUSSIAN, n_components=20, random_state=0),
    "nystroem": NystroemMachine(GAUSSIAN, size=15, averaging=schedules.Average()),
    "doubly stochastic": DoublyStochasticMachine(GAUSSIAN, frequencies=2, random_state=0),
}
BOUNDED = {"norma", "forgetron", "random features", "nystroem"}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_keep_the_contract(name):
    X, y, _ = samples()
    check_online(CLASSIFIERS[name], X, y, bounded=True if name in BOUNDED else None)


@pytest.mark.parametrize(
    "machine",
    [
        OnlineKernelMachine(
            GAUSSIAN, loss=Squared(), step=schedules.Constant(0.5), budget=budgets.Merge(10)
        ),
        PassiveAggressive(GAUSSIAN, loss=EpsilonInsensitive(0.1), variant="PA-II"),
        KernelRecursiveLeastSquares(GAUSSIAN, alpha=0.1),
        KernelRecursiveLeastSquares(GAUSSIAN, alpha=0.1, tolerance=0.05),
        KernelRecursiveLeastSquares(GAUSSIAN, alpha=0.1, window=20),
        OneClassMachine(GAUSSIAN, budget=budgets.Oldest(10)),
    ],
    ids=repr,
)
def test_regressions_keep_the_contract(machine):
    X, _, y = samples()
    check_online(machine, X, y, bounded=True if getattr(machine, "window", 0) else None)


def test_several_classes_and_outputs_keep_the_contract():
    X, _, y = samples()
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
    check_online(
        OnlineKernelMachine(GAUSSIAN, loss=Multinomial(), budget=budgets.Merge(9)), X, labels
    )
    check_online(PassiveAggressive(GAUSSIAN, budget=budgets.LeastLoss(9)), X, labels)
    check_online(KernelRecursiveLeastSquares(GAUSSIAN, alpha=0.1), X, np.stack([y, -y], axis=1))


def test_words_wide_rows_and_float32_keep_the_contract():
    found, labels = words()
    check_online(OnlineKernelMachine(LETTERS, budget=budgets.Merge(8)), found, labels)
    wide = samples(width=70)[0]
    machine = OnlineKernelMachine(Gaussian(8.0) + Linear(), budget=budgets.Oldest(10))
    check_online(machine, wide, np.sign(wide[:, 0]))
    check_online(OnlineKernelMachine(Gaussian(8.0)), wide.astype(np.float32), np.sign(wide[:, 0]))


def interrupted(call, line):
    """Call, and raise KeyboardInterrupt before the line-th line of our code; whether it came."""
    lines, before = 0, sys.gettrace()

    def trace(frame, event, argument):
        nonlocal lines
        if "mercer/online" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        if lines == line and event == "line":
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize(
    "machine",
    [
        CLASSIFIERS["oldest"],
        CLASSIFIERS["merging without a formula"],
        CLASSIFIERS["nystroem"],
        CLASSIFIERS["doubly stochastic"],
        KernelRecursiveLeastSquares(GAUSSIAN, alpha=0.1, window=20),
    ],
    ids=lambda machine: type(machine).__name__,
)
@pytest.mark.parametrize("count", [1, 3])
def test_an_interrupt_leaves_the_machine_before_or_after_the_samples(machine, count):
    X, labels, real = samples()
    y = labels if is_classifier(machine) else real
    classes = {"classes": [-1, 1]} if is_classifier(machine) else {}
    start = clone(machine).partial_fit(X[:30], y[:30], **classes)

    def learn(learner):
        if count == 1:
            return learner.learn_one(X[30], y[30])
        return learner.partial_fit(X[30 : 30 + count], y[30 : 30 + count])

    def rest(learner):
        learner = copy.deepcopy(learner).partial_fit(X[40:60], y[40:60])
        return learner.predict(X), learner.cumulative_loss_, learner.n_samples_seen_

    def same(one, other):
        return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))

    outcomes = rest(start), rest(learn(copy.deepcopy(start)))
    for line in range(1, 10_000, 7):
        learner = copy.deepcopy(start)
        if not interrupted(lambda learner=learner: learn(learner), line):
            break
        assert any(same(rest(learner), outcome) for outcome in outcomes), line
    assert line > 30


def test_an_interrupted_fit_leaves_nothing():
    X, y, _ = samples()
    for line in range(1, 10_000, 7):
        machine = OnlineKernelMachine(GAUSSIAN, budget=budgets.Oldest(12)).fit(X[:, :2], y)
        if not interrupted(lambda machine=machine: machine.fit(X, y), line):
            break
        left = [name for name in vars(machine) if name.endswith("_")]
        assert not left or machine.predict(X[:, : machine.n_features_in_]).shape == y.shape
    assert line > 30


def sequential(estimator):
    """What no method can keep whose answer depends on the order, as SGDClassifier cannot."""
    why = "the samples are seen in another order"
    return dict.fromkeys(
        (
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
        ),
        why,
    )


@parametrize_with_checks(
    [
        OnlineKernelMachine(),
        OnlineKernelMachine(loss=EpsilonInsensitive(0.1)),
        Pegasos(budget=budgets.Merge(40)),  # the other named ones share its fit and predict
        OneClassMachine(),
    ],
    expected_failed_checks=sequential,
)
def test_it_passes_every_check_of_scikit_learn(estimator, check):
    check(estimator)


@parametrize_with_checks([KernelRecursiveLeastSquares(alpha=0.1)])
def test_recursive_least_squares_pass_every_check_without_exception(estimator, check):
    check(estimator)
