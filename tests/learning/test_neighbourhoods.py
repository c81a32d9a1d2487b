"""Lengthscales and ridge at the density of all rows."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.kernels import Exponential, Gaussian, Linear, Matern
from mercer.learning import GradientRounds, MarginalLikelihood, neighbourhoods, raced
from mercer.learning.fits import Sample
from mercer.learning.neighbourhoods import Neighbourhoods, Tuning, densest
from mercer.learning.parameters import negative_log_likelihood, slopes

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(3000, 3))
FAST = np.sin(60.0 * X[:, 0]) + X[:, 1]  # what varies between rows of a sample of 100
FEW = Tuning(count=8, size=60, judges=40, iterations=8)


def sample_of(y, weights=None):
    return Sample.of(Exponential().points(X), y, weights)


def test_neighbours_are_the_nearest_rows():
    around = Neighbourhoods(sample_of(FAST), 0, FEW)
    kernel = Exponential((0.1, 1.0, 1.0))
    for row, near in zip([5, 9], around.neighbours(kernel, np.array([5, 9])), strict=True):
        distances = np.linalg.norm((X - X[row]) / kernel.lengthscale, axis=1)
        assert sorted(near) == sorted(np.argsort(distances)[:60])
        assert row in near
    (without,) = around.neighbours(kernel, np.array([5]), skip=True)
    assert len(without) == 60
    assert 5 not in without


@pytest.mark.parametrize("weights", [None, RNG.uniform(0.5, 2.0, 3000)], ids=["", "weights"])
def test_predictions_are_those_of_ridge_fits_of_the_neighbours(weights):
    around = Neighbourhoods(sample_of(FAST, weights), 0, FEW)
    kernel, ridge = Matern(1.5, 0.3), 0.02
    said = around.predictions(kernel, ridge)
    row = int(around.judges[3])
    (near,) = around.neighbours(kernel, np.array([row]), skip=True)
    noise = ridge / (np.ones(60) if weights is None else weights[near])
    c = np.linalg.solve(kernel(X[near]) + np.diag(noise), FAST[near] - FAST.mean())
    expected = FAST.mean() + kernel(X[[row]], X[near]) @ c
    np.testing.assert_allclose(said[3], expected, rtol=1e-9)


def test_criteria_of_samples_are_added():
    parts = [Sample.of(Gaussian().points(X[i : i + 40]), FAST[i : i + 40], None) for i in (0, 40)]
    learned = MarginalLikelihood(iterations=3).learn_from(Gaussian(0.5), parts)
    total = sum(
        slopes(negative_log_likelihood, learned.kernel, one, learned.alpha).value for one in parts
    )
    assert learned.value == pytest.approx(total)
    assert learned.value < learned.history[0] or len(learned.history) == 1
    bounded = MarginalLikelihood(iterations=3).learn_from(Gaussian(0.5), parts, least_ridge=0.05)
    assert bounded.alpha >= 0.05 * (1 - 1e-12)


@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_lengthscales_of_a_large_table(form):
    kernel = Matern(1.5)
    sparse = GradientRounds(form, rounds=1, rows=100, splits=1).learn(kernel, X, FAST)
    dense = Neighbourhoods(sample_of(FAST), 0, FEW).learned(sparse)
    assert dense.error < 0.1 < sparse.error
    rows, said = dense.held_out
    assert dense.error == pytest.approx(np.mean((FAST[rows] - said[:, 0]) ** 2))
    assert dense.importances.argmax() == 0
    assert dense.rounds[dense.chosen] is dense.rounds[-1]
    metric = dense.metric.applied(kernel)  # what is told is what is computed with
    np.testing.assert_allclose(metric(X[:9]), dense.kernel(X[:9]), rtol=1e-6)


def test_the_density_of_all_rows_decides_between_kernels(monkeypatch):
    monkeypatch.setattr(neighbourhoods, "TUNING", FEW)
    settings = GradientRounds(rounds=1, rows=100, splits=1)
    candidates = [(Exponential(), "diagonal"), (Matern(1.5), "diagonal")]
    learned, race = raced(candidates, settings, X, FAST)
    assert learned.error == race.dense_errors.min()
    assert learned.error < 0.1 * race.errors.min()
    assert len(raced(candidates, settings, X[:500], FAST[:500])[1].dense_errors) == 0


def test_without_time_to_seek_neighbours_again_the_best_of_the_sample_stays():
    around = Neighbourhoods(sample_of(FAST), 0, FEW)
    found = GradientRounds(rounds=1, rows=100, splits=1).learn(Exponential(), X, FAST)
    best, losses = densest(around, found, [found, found], lambda one: one.error, seconds=0.0)
    assert best.kernel == found.kernel
    assert np.isnan(losses).all()


def test_a_kernel_without_lengthscales_stays_as_it_is():
    learned = GradientRounds(rounds=1, rows=100, splits=1).learn(Linear(), X, X[:, 1])
    same = Neighbourhoods(sample_of(X[:, 1]), 0, FEW).learned(learned)
    assert same.kernel == learned.kernel
    assert same.alpha == learned.alpha


def test_few_rows_have_no_neighbourhoods():
    assert not Neighbourhoods.serve(sample_of(FAST), 400)
    assert Neighbourhoods.serve(sample_of(FAST), 300)
