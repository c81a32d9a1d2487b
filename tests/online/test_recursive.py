"""Recursive least squares against ridge regression on the same samples."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import KernelRidge
from mercer.kernels import Gaussian
from mercer.online import KernelRecursiveLeastSquares
from online.streams import GAUSSIAN, LETTERS, samples, words


@pytest.mark.parametrize("alpha", [1e-6, 1e-2, 1.0])
def test_it_is_batch_ridge_within_the_condition_number(alpha):
    X, _, y = samples(n=300)
    kernel = Gaussian(0.8)
    machine = KernelRecursiveLeastSquares(kernel, alpha=alpha).partial_fit(
        X, np.stack([y, X[:, 0]], 1)
    )
    shifted = np.asarray(kernel(X)) + alpha * np.eye(300)
    expected = np.linalg.solve(shifted, np.stack([y, X[:, 0]], axis=1))
    gap = np.linalg.norm(machine.function_.coefficients - expected) / np.linalg.norm(expected)
    assert gap <= 10 * np.finfo(float).eps * np.linalg.cond(shifted)
    assert machine.n_samples_seen_ == 300


def test_weights_count_as_repetitions_and_windows_forget():
    X, _, y = samples(n=120)
    weights = np.random.default_rng(0).integers(0, 3, size=120).astype(float)
    machine = KernelRecursiveLeastSquares(GAUSSIAN, alpha=0.1)
    machine.partial_fit(X, y, sample_weight=weights)
    ridge = KernelRidge(0.1, kernel=GAUSSIAN).fit(
        np.repeat(X, weights.astype(int), axis=0), np.repeat(y, weights.astype(int))
    )
    np.testing.assert_allclose(machine.predict(X), ridge.predict(X), atol=1e-9)
    window = KernelRecursiveLeastSquares(GAUSSIAN, alpha=0.1, window=30).partial_fit(X, y)
    ridge = KernelRidge(0.1, kernel=GAUSSIAN).fit(X[-30:], y[-30:])
    np.testing.assert_allclose(window.predict(X), ridge.predict(X), atol=1e-11)
    assert np.array_equal(window.function_.centres, X[-30:])


def test_losses_are_those_of_predictions_made_before():
    X, _, y = samples(n=40)
    machine = KernelRecursiveLeastSquares(GAUSSIAN, alpha=0.1).partial_fit(X, y)
    loss = 0.5 * y[0] ** 2
    for t in range(1, 40):
        ridge = KernelRidge(0.1, kernel=GAUSSIAN).fit(X[:t], y[:t])
        loss += 0.5 * (ridge.predict(X[t : t + 1])[0] - y[t]) ** 2
    assert machine.cumulative_loss_ == pytest.approx(loss)


def test_a_tolerance_keeps_a_dictionary_on_which_projections_are_fitted():
    X, _, y = samples(n=200, width=1)
    machine = KernelRecursiveLeastSquares(GAUSSIAN, alpha=0.1, tolerance=1e-3).partial_fit(X, y)
    D = np.asarray(machine.function_.centres)
    assert len(D) < 20
    # the twin: ridge on φ = L⁻¹k with the dictionary as it was when a sample came
    rows, order = [], [int(np.flatnonzero((d == X).all(axis=1))[0]) for d in D]
    L = np.linalg.cholesky(np.asarray(GAUSSIAN(D)))
    for t in range(len(X)):
        known = sum(i <= t for i in order)
        phi = np.zeros(len(D))
        phi[:known] = np.linalg.solve(
            L[:known, :known], np.asarray(GAUSSIAN(D[:known], X[t : t + 1]))[:, 0]
        )
        rows.append(phi)
    P = np.array(rows)
    w = np.linalg.solve(P.T @ P + 0.1 * np.eye(len(D)), P.T @ y)
    np.testing.assert_allclose(machine.function_.coefficients, np.linalg.solve(L.T, w), rtol=1e-6)
    exact = KernelRidge(0.1, kernel=GAUSSIAN).fit(X, y)
    np.testing.assert_allclose(machine.predict(X), exact.predict(X), atol=0.05)


def test_words_and_refusals():
    found, labels = words()
    y = labels.astype(float)
    machine = KernelRecursiveLeastSquares(LETTERS, alpha=0.5).partial_fit(found, y)
    ridge = KernelRidge(0.5, kernel=LETTERS).fit(found, y)
    np.testing.assert_allclose(machine.predict(found), ridge.predict(found), atol=1e-10)
    X, _, y = samples()
    for parameters, text in (
        ({"alpha": 0.0}, "alpha > 0; got 0.0"),
        ({"tolerance": -1.0}, "tolerance ≥ 0"),
        ({"window": 0}, "window ≥ 1"),
        ({"window": 5, "tolerance": 0.1}, "give one of them"),
    ):
        with pytest.raises(ValueError, match=text):
            KernelRecursiveLeastSquares(GAUSSIAN, **parameters).partial_fit(X, y)
    with pytest.raises(ValueError, match="lost in rounding"):
        KernelRecursiveLeastSquares(GAUSSIAN, alpha=1e-30).partial_fit(np.ones((3, 1)), [1, 2, 3])
    window = KernelRecursiveLeastSquares(GAUSSIAN, alpha=1e-30, window=2)
    before = window.partial_fit([[0.0], [1.0]], [1.0, 2.0]).predict(X[:, :1])
    with pytest.raises(ValueError, match="lost in rounding"):
        window.learn_one([1.0], 2.0)  # the oldest had left already
    assert np.array_equal(window.predict(X[:, :1]), before)
