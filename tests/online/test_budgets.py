"""Each policy against its definition, by brute force, and the memory it takes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from mercer.kernels import Gaussian, Linear, Matern
from mercer.losses import Hinge
from mercer.online import Forgetron, OnlineKernelMachine, budgets, schedules
from mercer.online.regret import best_in_ball
from online.streams import GAUSSIAN, samples

SIZE = 8


def machine(budget, kernel=GAUSSIAN):
    return OnlineKernelMachine(
        kernel, regularization=0.01, step=schedules.Constant(0.5), budget=budget, random_state=0
    )


def overflows(budget, kernel=GAUSSIAN):
    """Pairs of functions (with one bump too many, after the budget), and the new sample."""
    X, y, _ = samples()
    learner = machine(budget, kernel)
    for x, label in zip(X, y, strict=True):
        before = learner.function_ if hasattr(learner, "stream_") else None
        if before is not None and len(before) == SIZE:
            value = learner.decision_function(x[None])[0]
            if label * value < 1:
                bump = kernel.function(x[None], [0.5 * label])
                full = before * (1 - 0.5 * 0.01) + bump
                learner.learn_one(x, label)
                yield full, learner.function_, dict(zip(map(tuple, X), y, strict=True)), X
                continue
        learner.learn_one(x, label, classes=[-1, 1])


def dropped(full, after):
    """Which centre of `full` is missing after the budget; the rest is unchanged."""
    kept = {tuple(c): a for c, a in zip(after.centres, after.coefficients, strict=True)}
    (gone,) = [i for i, c in enumerate(full.centres) if tuple(c) not in kept]
    for centre, value in zip(full.centres, full.coefficients, strict=True):
        assert kept.get(tuple(centre), value) == pytest.approx(value, rel=1e-12)
    return gone


def test_the_oldest_goes():
    order = [tuple(x) for x in samples()[0]]
    for full, after, _, _ in overflows(budgets.Oldest(SIZE)):
        ages = [order.index(tuple(c)) for c in full.centres]
        assert dropped(full, after) == np.argmin(ages)


def test_the_smallest_goes():
    for full, after, _, _ in overflows(budgets.Smallest(SIZE), Matern(1.5)):
        assert dropped(full, after) == np.argmin(np.abs(full.coefficients[:-1]))


def test_random_ones_go():
    gone = [dropped(full, after) for full, after, _, _ in overflows(budgets.Random(SIZE))]
    assert len(set(gone)) > SIZE // 2
    assert SIZE not in gone  # the newest stays


def test_the_one_of_least_loss_goes():
    for full, after, labels, _ in overflows(budgets.LeastLoss(SIZE)):
        K = GAUSSIAN(full.centres)
        y = np.array([labels[tuple(c)] for c in full.centres])
        totals = [
            Hinge().value(y, K @ full.coefficients - K[:, i] * full.coefficients[i]).sum()
            for i in range(SIZE)
        ]
        assert totals[dropped(full, after)] == pytest.approx(min(totals), abs=1e-12)


@pytest.mark.parametrize("kernel", [GAUSSIAN, Matern(1.5)])
def test_projection_is_the_best_of_all(kernel):
    for full, after, _, _ in overflows(budgets.Project(SIZE), kernel):
        errors = [
            full.distance(full.project(np.delete(np.asarray(full.centres), i, axis=0)))
            for i in range(SIZE + 1)
        ]
        assert full.distance(after) == pytest.approx(min(errors), rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("kernel", [GAUSSIAN, Gaussian((1.0, 2.0, 0.7)), Matern(1.5)])
def test_merging_finds_the_best_partner_and_place(kernel):
    places = np.linspace(0, 1, 41)[:, None]
    for full, after, _, _ in overflows(budgets.Merge(SIZE), kernel):
        a, C = full.coefficients, np.asarray(full.centres)
        i, best = int(np.argmin(np.abs(a))), np.inf
        for j in set(range(SIZE + 1)) - {i}:
            K = np.asarray(kernel(C[[i, j]]))
            values = np.asarray(kernel(places * C[i] + (1 - places) * C[j], C[[i, j]]))
            pair = a[[i, j]]
            best = min(
                best,
                pair @ K @ pair - (values @ pair).max() ** 2,
                pair @ K @ pair - (values @ pair).min() ** 2,
            )
        slack = 1.1 if isinstance(kernel, Gaussian) else 1.5  # the partner is sought on eighths
        assert full.distance(after) ** 2 <= best * slack + 1e-9


@pytest.mark.parametrize("name", ["Smallest", "LeastLoss", "Project", "Merge"])
@pytest.mark.parametrize("before", [0.0, 1e-8, 1e-100])
def test_bumps_that_are_nothing_are_outgrown(name, before):
    """k(x, x) = 0 makes the zero function, of which 0/0 was once the merger of two."""
    X, _, _ = samples(n=60)
    y = np.sign(X[:, 0])
    learner = OnlineKernelMachine(
        Linear(), budget=getattr(budgets, name)(3), averaging=schedules.Average()
    ).partial_fit(before * X, y, classes=[-1, 1])
    assert np.isfinite(learner.decision_function(X)).all()
    learner.partial_fit(X, y)
    assert np.isfinite(learner.function_.coefficients).all()
    assert learner.score(X, y) > 0.8


def test_bumps_so_far_apart_that_distances_overflow_are_merged():
    X, y, _ = samples()
    learner = machine(budgets.Merge(SIZE)).partial_fit(1e200 * X, y, classes=[-1, 1])
    assert np.isfinite(learner.decision_function(1e200 * X)).all()


@pytest.mark.parametrize("name", ["Oldest", "Smallest", "Random", "LeastLoss", "Project", "Merge"])
def test_memory_is_that_of_the_budget(name):
    X, y, _ = samples(n=400)
    learner = machine(getattr(budgets, name)(SIZE)).partial_fit(X[:100], y[:100], classes=[-1, 1])
    before = len(pickle.dumps(learner))
    learner.partial_fit(X[100:], y[100:])
    assert abs(len(pickle.dumps(learner)) - before) < 512
    assert before < 8000
    assert len(learner.function_) == SIZE


def test_projection_keeps_its_digits_over_many_steps():
    X, y, _ = samples(n=3100)
    kernel = Gaussian(3.0)
    learner = machine(budgets.Project(30), kernel).partial_fit(X[:3000], y[:3000], classes=[-1, 1])
    compared = 0
    for x, label in zip(X[3000:], y[3000:], strict=True):
        before = learner.function_
        if label * before(x[None])[0] >= 1:
            continue
        full = before * (1 - 0.5 * 0.01) + kernel.function(x[None], [0.5 * label])
        after = learner.learn_one(x, label).function_
        left = np.asarray(after.centres)
        assert full.distance(after) <= 1.01 * full.distance(full.project(left)) + 1e-5
        compared += 1
    assert compared > 20


def test_the_forgetron_keeps_its_bound():
    rng = np.random.default_rng(0)
    for noise in (0.0, 0.1, 0.3):
        X = rng.standard_normal((600, 2))
        y = np.where(X[:, 0] > 0, 1, -1) * np.where(rng.random(600) < noise, -1, 1)
        learner = Forgetron(Gaussian(1.0), size=90).partial_fit(X, y, classes=[-1, 1])
        assert len(learner.function_) <= 90
        radius = 0.25 * np.sqrt(91 / np.log(91)) * (1 - 1e-9)
        best = best_in_ball(
            Gaussian(1.0).gram(X), y[:, None].astype(float), np.ones(600), Hinge(), radius
        )
        norm = min(np.sqrt(best.squared_norm), radius)
        assert learner.mistakes_ <= learner.mistake_bound(norm, best.losses.sum())
    assert learner.mistake_bound(10.0, 0.0) == np.inf
    assert Forgetron(size=20).mistake_bound(0.1, 0.0) == np.inf
    with pytest.raises(ValueError, match=r"needs k\(x, x\) ≤ 1; got 2\. Write kernel.normalised"):
        Forgetron(2.0 * Gaussian()).partial_fit(X, y, classes=[-1, 1])
    with pytest.raises(ValueError, match="Only binary classification"):
        Forgetron().fit(X[:3], [0, 1, 2])
