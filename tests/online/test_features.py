"""Machines on features against the machines they approximate."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from mercer.kernels import Linear
from mercer.losses import Hinge, Squared
from mercer.online import (
    DoublyStochasticMachine,
    NystroemMachine,
    OnlineKernelMachine,
    RandomFeatureMachine,
    schedules,
)
from online.streams import GAUSSIAN, LETTERS, expanded, samples, twin, words


def test_many_random_features_are_the_kernel():
    X, y, _ = samples()
    exact = OnlineKernelMachine(GAUSSIAN, loss=Squared(), step=schedules.Constant(0.2))
    exact.partial_fit(X, y.astype(float))
    gaps = []
    for count in (100, 10_000):
        machine = RandomFeatureMachine(
            GAUSSIAN,
            n_components=count,
            loss=Squared(),
            step=schedules.Constant(0.2),
            random_state=0,
        ).partial_fit(X, y.astype(float))
        gaps.append(np.abs(machine.predict(X) - exact.predict(X)).mean())
    assert gaps[1] < 0.2 * gaps[0] < 0.1


def test_features_are_learned_as_the_twin_does():
    X, y, _ = samples()
    machine = RandomFeatureMachine(
        GAUSSIAN,
        n_components=10,
        regularization=0.5,
        step=schedules.InverseTime(2.0),
        averaging=schedules.Average(),
        random_state=0,
    ).partial_fit(X, y, classes=[-1, 1])
    features = machine.function_.features.page(machine.kernel_.points(X))
    steps = [2.0 / t for t in range(1, 81)]
    alpha, losses = twin(
        Linear(), features, y[:, None].astype(float), Hinge(), 0.5, steps, None, np.ones(80)
    )
    np.testing.assert_allclose(
        machine.decision_function(X), features @ features.T @ alpha[:, 0], atol=1e-10
    )
    assert machine.cumulative_loss_ == pytest.approx(losses.sum())
    before = len(pickle.dumps(machine))
    assert abs(len(pickle.dumps(machine.partial_fit(X, y))) - before) < 512


def test_nystroem_on_all_points_is_exact_and_continues_without_a_jump():
    X, y, _ = samples(n=40)
    exact = OnlineKernelMachine(GAUSSIAN, averaging=schedules.Average())
    exact.partial_fit(X, y, classes=[-1, 1])
    machine = NystroemMachine(GAUSSIAN, size=40, averaging=schedules.Average())
    machine.partial_fit(X, y, classes=[-1, 1])
    np.testing.assert_allclose(machine.decision_function(X), exact.decision_function(X), atol=1e-9)
    for m in (machine, exact):  # samples it knows: both move in the same span
        m.partial_fit(X[::-1], y[::-1])
    np.testing.assert_allclose(machine.decision_function(X), exact.decision_function(X), atol=1e-6)
    found, labels = words()
    text = NystroemMachine(LETTERS, size=10, passes=10).fit(found, labels)
    assert text.score(found, labels) > 0.7
    assert len(text.function_) == 10


def test_doubly_stochastic_steps_are_those_of_the_notes():
    X, y, _ = samples(n=150)
    machine = DoublyStochasticMachine(
        2.0 * GAUSSIAN,
        frequencies=3,
        regularization=0.05,
        step=schedules.Constant(0.3),
        random_state=0,
    ).partial_fit(X, y, classes=[-1, 1])
    features, waves, alpha = machine.function_.features, [], []
    for t in range(150):
        place = t % 64 * 3
        omega = features.frequencies(t // 64)[:, place : place + 3]
        f = sum(a @ np.exp(1j * (X[t] @ w)).conj() for a, w in zip(alpha, waves, strict=True))
        slope = -y[t] if y[t] * np.real(f) < 1 else 0.0
        alpha = [(1 - 0.3 * 0.05) * a for a in alpha]
        alpha.append(-0.3 * slope * (2.0 / 3) * np.exp(1j * (X[t] @ omega)))
        waves.append(omega)
    found = sum(np.exp(-1j * (X @ w)) @ a for a, w in zip(alpha, waves, strict=True)).real
    np.testing.assert_allclose(machine.decision_function(X), found, atol=1e-10)
    wide = DoublyStochasticMachine(frequencies=3, gamma=0.1, random_state=0)
    wide.partial_fit(samples(n=150, width=50)[0], y, classes=[-1, 1])
    sizes = [len(pickle.dumps(m)) for m in (wide, machine)]
    assert abs(sizes[0] - sizes[1]) < 1024  # whatever the number of columns


def test_refusals():
    X, y, _ = samples()
    with pytest.raises(ValueError, match="random Fourier features need a spectral measure"):
        RandomFeatureMachine(Linear()).fit(X, y)
    with pytest.raises(ValueError, match="n_components ≥ 1"):
        RandomFeatureMachine(n_components=0).fit(X, y)
    assert expanded(OnlineKernelMachine(GAUSSIAN).fit(X, y).function_, X).shape == (80,)
