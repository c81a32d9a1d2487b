"""The steps after the search: taken where they help, and never begun where time is short."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mercer.estimators import KernelRidge
from mercer.kernels import Laplacian
from mercer.workflow.choice import Judge, descended, settled, stretched
from mercer.workflow.search import Limit, Search
from mercer.workflow.targets import read_target


@pytest.fixture(scope="module")
def groups():
    """Thirty groups, each with a line of its own: values repeat in the first column."""
    rng = np.random.default_rng(0)
    group, at = rng.integers(30, size=420), rng.uniform(-1, 1, 420)
    level, slope = rng.normal(size=30), rng.normal(size=30)
    Z = np.column_stack([(group - 14.5) / 8.7, at, rng.normal(size=(420, 2))])
    return Z, read_target("y", level[group] + 0.3 * slope[group] * at, None)


@pytest.fixture(scope="module")
def trial(groups):
    Z, known = groups
    search = Search({"standard": Z}, known.for_squares(), Limit(1e9), families=("Laplacian",))
    return search.screened()


def test_slopes_of_leave_one_out_find_a_column_whose_values_repeat(groups, trial):
    better = descended(trial, *groups, Limit(1e9), 0)
    assert better.error < 0.5 * trial.error
    shortest = np.argsort(better.kernel.lengthscale)
    assert shortest[0] == 0
    assert "slopes of leave-one-out" in better.family


def test_lengthscales_that_cannot_be_bettered_stay(groups, trial):
    """Of targets with noise: without it shorter ones may be better for ever."""
    Z, exact = groups
    values = exact.for_squares()
    noise = 0.3 * values.std() * np.random.default_rng(1).normal(size=len(values))
    noisy = Z, read_target("y", values + noise, None)
    once = descended(trial, *noisy, Limit(1e9), 0)
    assert descended(once, *noisy, Limit(1e9), 0) is None


def test_a_ridge_that_does_not_suit_all_rows_is_changed(groups, trial):
    spoiled = replace(trial, alpha=1e3 * trial.alpha)
    better = settled(spoiled, *groups, Limit(1e9))
    assert better.alpha < 0.1 * spoiled.alpha
    assert better.error < 0.8 * spoiled.error


def test_the_judge_states_the_error_of_a_ridge_fit(groups, trial):
    Z, known = groups
    judge, targets = Judge(Z, known, Limit(1e9)), known.for_squares()
    for alpha in (0.1, 1e3):  # with a large ridge the intercept is all there is
        ridge = KernelRidge(alpha, kernel=trial.kernel, fit_intercept=True)
        ridge.fit(Z[: judge.cut], targets[: judge.cut])
        gaps = targets[judge.cut :] - ridge.predict(Z[judge.cut :])
        assert judge.error(trial.kernel, alpha) == pytest.approx(np.mean(gaps**2), rel=1e-9)


def test_losses_of_some_rows_are_in_the_units_of_all_rows():
    known = read_target("y", np.arange(100.0) ** 2, None)
    rows = np.arange(70, 100)
    assert known.loss(known.for_squares()[rows], rows) == 0.0
    assert known.loss(known.for_squares()[rows][:, None], rows) == 0.0


def test_nothing_is_begun_that_would_end_too_late(groups, trial):
    Z, known = groups
    late = replace(trial, seconds=1e6)
    assert settled(late, Z, known, Limit(10.0)) is None
    assert descended(trial, Z, known, Limit(0.5), 0) is None
    search = Search({"standard": Z}, known.for_squares(), Limit(10.0), trials=4 * [late])
    assert search.seconds(2 * trial.rows) == 8e6
    search.run()
    assert search.trials == 4 * [late]


def test_stretching_multiplies_lengthscales_also_behind_a_map():
    A = [[1.0, 0.5], [0.0, 2.0]]
    x, y = [0.3, -0.2], [0.1, 0.4]
    for kernel, twice in [
        (Laplacian([1.0, 2.0]), Laplacian([2.0, 4.0])),
        (Laplacian(3.0), Laplacian(6.0)),
        (Laplacian(1.0).after(A), Laplacian(2.0).after(A)),
    ]:
        assert stretched(kernel, 2.0)(x, y) == pytest.approx(twice(x, y), rel=1e-12)
