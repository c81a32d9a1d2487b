"""Learning a metric in rounds, against finite differences and against functions that are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mercer.kernels import Exponential, Gaussian, Laplacian, Linear
from mercer.learning import GradientRounds, Metric, Race, raced
from mercer.learning.fits import FitOnCentres, RidgeFit, Sample, Tuning
from mercer.learning.metric import average_outer_product, blocks_of, within_blocks

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 6))


def differences(f, points, step=1e-6):
    """∇f by central differences."""
    steps = step * np.eye(points.shape[1])
    return np.stack([(f(points + h) - f(points - h)) / (2 * step) for h in steps], axis=-1)


@pytest.mark.parametrize("kernel", [Gaussian(1.5), Exponential(2.0), Laplacian(2.0)], ids=repr)
@pytest.mark.parametrize("diagonal", [False, True])
def test_average_of_outer_products(kernel, diagonal):
    points, alpha = X[:30] + 0.03, RNG.standard_normal((50, 2))
    weights = RNG.uniform(0.5, 2.0, 30)
    f = kernel.function(X[:50], alpha)
    g = differences(f, points)
    expected = np.einsum("i,itk,itl->kl", weights, g, g) / weights.sum()
    p = kernel.points
    units = np.ones(6)
    product = average_outer_product(
        kernel, p(points), p(X[:50]), alpha, units, weights=weights, diagonal=diagonal
    )
    np.testing.assert_allclose(product, np.diag(expected) if diagonal else expected, rtol=1e-6)


def test_a_point_adds_nothing_to_its_own_gradient():
    kernel, points = Exponential(), X[:5]
    alpha = np.zeros(5)
    alpha[2] = 1.0
    product = average_outer_product(
        kernel, kernel.points(points[2:3]), kernel.points(points), alpha, np.ones(6)
    )
    assert not product.any()


def test_one_long_gradient_does_not_decide_the_average():
    kernel = Linear() + Gaussian(1e-3)
    points = np.array([[0.0, 0.0], [1.0, 1.0]] * 10 + [[5.0, 5.0]])
    centre = np.array([[5.0 + 1e-3, 5.0]])  # where the Gaussian has a slope of 600
    p = kernel.points
    product = average_outer_product(kernel, p(points), p(centre), np.ones(1), np.ones(2))
    usual = np.sum(centre**2)  # the squared length of the gradient at all other points
    np.testing.assert_allclose(np.trace(product), (20 + 10.0**2) / 21 * usual, rtol=1e-6)


@pytest.mark.parametrize("kernel", [Gaussian(0.7), Exponential(0.7), Laplacian(0.7), Linear()])
def test_metric_on_a_kernel(kernel):
    diagonal = np.array([4.0, 0.25, 1.0, 0.0, 9.0, 1e-3])
    root = np.sqrt(diagonal)
    np.testing.assert_allclose(
        Metric(diagonal).applied(kernel, 3.0)(X[:9]), kernel(X[:9] * root / 3.0), rtol=1e-6
    )
    A = RNG.standard_normal((6, 6))
    full = Metric(A.T @ A)
    np.testing.assert_allclose(full.root().T @ full.root(), A.T @ A, rtol=1e-10, atol=1e-12)
    if kernel != Laplacian(0.7):  # the others do not see a rotation
        np.testing.assert_allclose(full.applied(kernel)(X[:9]), kernel(X[:9] @ A.T), rtol=1e-6)


def test_blocks():
    product = np.arange(16.0).reshape(4, 4) + 10 * np.eye(4)
    groups = blocks_of([[0, 2], [3]], 4)
    kept = within_blocks(product, groups).matrix
    mask = np.zeros((4, 4), bool)
    for i, j in [(0, 0), (0, 2), (2, 0), (2, 2), (1, 1), (3, 3)]:
        mask[i, j] = True
    np.testing.assert_array_equal(kept, np.where(mask, product, 0.0))
    for wrong in ("round", [[0, 9]], [[0], [0, 1]]):
        with pytest.raises(ValueError, match="form"):
            blocks_of(wrong, 4)


@pytest.mark.parametrize("kernel", [Exponential(), Gaussian()], ids=repr)
def test_finds_the_columns_that_matter(kernel):
    columns = [2, 11, 17]
    rows = np.random.default_rng(1).standard_normal((500, 20))
    y = np.sin(2 * rows[:, 2]) + rows[:, 11] * rows[:, 17]
    learned = GradientRounds(rounds=3, splits=1).learn(kernel, rows, y)
    assert learned.importances[columns].sum() > 0.95
    assert learned.error == min(one.error for one in learned.rounds)
    assert learned.error < 0.3 * learned.rounds[0].error


def test_finds_a_rotated_pair():
    rows = np.random.default_rng(1).standard_normal((500, 8))
    direction = np.zeros(8)
    direction[:2] = 0.6, 0.8
    learned = GradientRounds("full", rounds=3, splits=1).learn(
        Exponential(), rows, np.sin(2 * rows @ direction)
    )
    along = direction @ learned.metric.matrix @ direction / np.trace(learned.metric.matrix)
    assert along > 0.95


def test_same_seed_same_answer_and_scales_do_not_matter():
    y = np.sin(X[:, 0]) + X[:, 1]
    once = GradientRounds(rounds=1, rows=150, splits=1)
    first, again = (once.learn(Exponential(), X, y) for _ in range(2))
    assert first.kernel == again.kernel
    units = np.array([1e3, 1.0, 1e-3, 1.0, 10.0, 1.0])
    other = once.learn(Exponential(), X * units, y)
    np.testing.assert_allclose(other.kernel(X[:9] * units), first.kernel(X[:9]), rtol=1e-8)
    assert other.alpha == pytest.approx(first.alpha)


def test_weights_are_repetitions():
    y = np.sin(2 * X[:, 0])
    counts = np.where(np.arange(400) < 100, 2, 1)
    metric = []
    for rows, targets, weights in (
        (X, y, counts.astype(float)),
        (np.repeat(X, counts, axis=0), np.repeat(y, counts), None),
    ):
        sample = Sample.of(Exponential().points(rows), targets, weights)
        fit = RidgeFit(Exponential(2.0), sample)
        c = fit.coefficients(0.1)
        p = Exponential().points
        metric.append(
            average_outer_product(
                Exponential(2.0), p(rows), p(rows), c, np.ones(6), weights=weights
            )
        )
    np.testing.assert_allclose(metric[0], metric[1], rtol=1e-8)


def test_several_outputs_share_one_metric():
    y = np.stack([np.sin(2 * X[:, 0]), X[:, 4] ** 2 - 1.0], axis=1)
    learned = GradientRounds(rounds=3, splits=1).learn(Exponential(), X, y)
    assert learned.importances[[0, 4]].sum() > 0.9
    assert min(learned.importances[[0, 4]]) > 0.1


def test_callback_and_time_limit_end_the_rounds():
    y = np.sin(X[:, 0])
    seen = []

    def stop(number, one):
        seen.append(one.error)
        return number == 1

    learned = GradientRounds(rounds=9, splits=1, callback=stop).learn(Exponential(), X, y)
    assert len(learned.rounds) == len(seen) == 2
    limited = GradientRounds(rounds=9, time_limit=1e-9).learn(Exponential(), X, y)
    assert len(limited.rounds) == 1
    assert np.isfinite(limited.error)


def test_refusals():
    import scipy.sparse

    with pytest.raises(ValueError, match=r"X.toarray\(\)"):
        GradientRounds().learn(Gaussian(), scipy.sparse.csr_array(X), X[:, 0])
    with pytest.raises(ValueError, match="two rows or more"):
        GradientRounds().learn(Gaussian(), X[:1], X[:1, 0])
    with pytest.raises(ValueError, match=r"for each of 400 rows; got shape \(3,\)"):
        GradientRounds().learn(Gaussian(), X, np.ones(3))
    with pytest.raises(ValueError, match="rounds ≥ 1"):
        GradientRounds(rounds=-1)
    with pytest.raises(ValueError, match="seconds > 0"):
        GradientRounds(time_limit=0)


def test_constant_targets_keep_the_first_metric():
    learned = GradientRounds(rounds=2, rows=60).learn(Exponential(), X, np.ones(400))
    np.testing.assert_allclose(learned.importances, 1 / 6)


def test_fits_on_centres():
    y = np.sin(2 * X[:, 2])
    sample = Sample.of(Exponential().points(X), y, None)
    kernel = Exponential(2.0)
    fit = FitOnCentres(kernel, sample, 400)
    c = RidgeFit(kernel, sample).coefficients(0.1)
    np.testing.assert_allclose(fit.coefficients(0.1), c, atol=2e-3 * np.abs(c).max())
    learned = GradientRounds(rounds=2, centres=80, splits=1).learn(Exponential(), X, y)
    assert learned.importances[2] > 0.8


@pytest.mark.parametrize("alpha", [1e-9, 1e-4, 1.0])
def test_factors_in_float32_are_refined(alpha):
    rows = np.random.default_rng(0).standard_normal((600, 3))
    sample = Sample.of(Gaussian().points(rows), rows[:, :2], np.linspace(0.5, 2.0, 600))
    fit = RidgeFit(Gaussian(2.0), sample, tuning=Tuning(mixed_rows=500))
    c = fit.coefficients(alpha)
    matrix = Gaussian(2.0)(rows) + alpha * np.diag(1 / sample.weights)
    rest = matrix @ c - (sample.targets - fit.intercept)
    assert np.linalg.norm(rest) < 1e-6 * np.linalg.norm(sample.targets)


def test_rows_without_weight_do_not_count():
    y, weights = np.sin(X[:, 0]), np.where(np.arange(400) < 200, 1.0, 0.0)
    once = GradientRounds(rounds=1, splits=1)
    wild = np.where(weights > 0, y, 1e6)
    learned, same = (once.learn(Exponential(), X, t, weights) for t in (wild, y))
    assert learned.kernel == same.kernel
    assert learned.held_out[0].max() < 200


def test_a_close_race_has_two_finalists():
    candidates = [(Gaussian(), "diagonal"), (Exponential(), "diagonal"), (Laplacian(), "full")]
    assert Race(candidates, np.array([2.0, 1.0, 1.01])).finalists == [candidates[1], candidates[2]]
    assert Race(candidates, np.array([2.0, 1.0, 1.1])).finalists == [candidates[1]]
    y = np.sin(X[:, 0])
    settings = GradientRounds(rounds=1, rows=100, splits=1)
    learned, race = raced(candidates[:2], settings, X[:120], y[:120])
    finalists = [replace(settings, form=f).learn(k, X[:120], y[:120]) for k, f in race.finalists]
    assert learned.error == min(one.error for one in finalists)
    only, race = raced(candidates[:1], settings, X[:120], y[:120])
    assert race.finalists == candidates[:1]
    assert only.kernel == settings.learn(Gaussian(), X[:120], y[:120]).kernel


def test_a_race_decides_where_there_is_no_time_for_more_rows(monkeypatch):
    X = np.random.default_rng(0).standard_normal((60, 2))
    learn, fitted = GradientRounds.learn, []
    monkeypatch.setattr(
        GradientRounds, "learn", lambda *args: fitted.append(learn(*args)) or fitted[-1]
    )
    candidates = [(Exponential(), "diagonal"), (Exponential(), "full")]
    best, race = raced(candidates, GradientRounds(rounds=1, time_limit=1e-9), X, X[:, 0])
    assert len(fitted) == 2
    assert best is fitted[int(race.errors.argmin())]
