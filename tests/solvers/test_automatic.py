"""The choice of a solver."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mercer import KernelRidge
from mercer.errors import ApproximationWarning
from mercer.features.centres import KMeansPlusPlus
from mercer.kernels import BlockKernel, Gaussian, Matern
from mercer.losses import Hinge
from mercer.solvers import Newton, automatic, rates
from mercer.solvers.automatic import Candidate, Rates, choose, choose_among

RATES = Rates({"float32": 1e11, "float64": 5e10}, 1e-9, 3)
KERNEL = Gaussian(0.7)
RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(400)
WEIGHTS = RNG.integers(0, 3, 400).astype(float)


@pytest.mark.parametrize(
    ("rows", "memory", "name"),
    [
        (400, None, "Direct"),
        (5_000, "10GB", "Direct"),
        (60_000, "10GB", "ConjugateGradient"),
        (60_000, "300MB", "Newton"),
        (2_000_000, "10GB", "Newton"),
    ],
)
def test_what_is_chosen(rows, memory, name):
    points = KERNEL.points(np.zeros((rows, 3), np.float32))
    choice = choose(KERNEL, points, memory=memory, rates=RATES)
    assert choice.chosen.name == name
    assert "→ " + name in choice.explain()


@pytest.mark.parametrize(("ridge", "name"), [(5.0, "ConjugateGradient"), (1e-9, "Direct")])
def test_some_thousand_rows_are_factored_where_that_is_quickest(ridge, name):
    """Also those whose factor could stay, where it takes several times as long."""
    points = Gaussian(2.0).points(np.random.default_rng(0).standard_normal((5000, 8)))
    slow = replace(RATES, multiply_adds={"float32": 1e11, "float64": 2e10})
    assert choose(Gaussian(2.0), points, ridge=ridge, rates=slow).chosen.name == name


def test_other_losses_are_solved_by_their_own_solver_or_what_the_caller_knows():
    points = KERNEL.points(np.zeros((20_000, 3), np.float32))
    assert choose(KERNEL, points, Hinge(), rates=RATES).chosen.name == "DualAscent"
    known = Candidate("Dual", object(), 1.0, 1e6, True)
    assert choose(KERNEL, points, Hinge(), rates=RATES, exact=[known]).chosen.name == "Dual"


def test_few_rows_are_not_factored_beyond_the_memory_there_is(monkeypatch):
    """A factor of 3,000 rows takes 72 MB."""
    points = KERNEL.points(np.random.default_rng(0).standard_normal((3000, 3)))
    assert choose(KERNEL, points, rates=RATES).chosen.name == "Direct"
    monkeypatch.setenv("MERCER_MEMORY", "20MB")
    choice = choose(KERNEL, points, rates=RATES)
    assert choice.chosen.memory < 45e6
    assert "more than the 21 MB there are" in choice.explain()


def test_where_nothing_fits_the_smallest_is_taken():
    candidates = [
        Candidate("large", None, 1.0, 2e9, True),
        Candidate("small", None, 2.0, 1e9, False, 5),
    ]
    choice = choose_among(candidates, asked=None, memory="1MB")
    assert choice.chosen.name == "small"
    assert "more than the 1 MB there are" in choice.explain()


def test_rates_are_measured_on_the_points():
    rates = Rates.measured(KERNEL, KERNEL.points(X))
    assert 0 < rates.value_seconds < 1e-3
    assert rates.width == 3


def test_rates_are_measured_once_so_that_the_choice_stays(monkeypatch):
    kernel = Gaussian(0.7) + Matern(1.5)
    first = Rates.measured(kernel, kernel.points(X))
    clock = SimpleNamespace(perf_counter=map(float, itertools.count(0, 1000)).__next__)
    monkeypatch.setattr(rates, "time", clock)  # everything takes 1,000 seconds
    assert Rates.measured(2.0 * Gaussian() + 3.0 * Matern(1.5), kernel.points(X)) != first
    assert Rates.measured(kernel, kernel.points(X[::-1])) == first
    for other in (X[:, :2], X[:50]):  # fewer columns, and so few rows that calls take the time
        assert Rates.measured(kernel, kernel.points(other)).value_seconds > 1e-3
    assert first.value_seconds < 1e-3


class Blocks:
    def __iter__(self):
        yield from np.array_split(X, 7)


def test_ridge_on_centres_is_the_ridge_on_their_span():
    model = KernelRidge(0.1, kernel=KERNEL, centres=50, random_state=0, solver=Newton(1e-12))
    model.fit(X, Y, sample_weight=WEIGHTS)
    C = model.X_fit_
    assert C.shape == (50, 3)
    cross, own = KERNEL(X, C), KERNEL(C, C)
    normal = cross.T @ (WEIGHTS[:, None] * cross) + 0.1 * own
    wanted = cross @ np.linalg.solve(normal, cross.T @ (WEIGHTS * Y))
    np.testing.assert_allclose(model.predict(X), wanted, atol=1e-5)
    assert "on 50 centres" in str(model.solution_.status)
    again = KernelRidge(0.1, kernel=KERNEL, centres=KMeansPlusPlus(20, random_state=0)).fit(X, Y)
    assert len(again.dual_coef_) == 20
    assert "Centres were asked for." in again.explain()


def test_ridge_takes_blocks_of_rows():
    given = KernelRidge(0.1, kernel=KERNEL, centres=30, random_state=3).fit(Blocks(), Y)
    assert given.n_features_in_ == 3
    whole = KernelRidge(0.1, kernel=KERNEL, centres=30, random_state=3).fit(X, Y)
    assert given.score(X, Y) == pytest.approx(whole.score(X, Y), abs=0.05)
    with pytest.raises(ValueError, match="an iterator, which gives them once"):
        KernelRidge(0.1, kernel=KERNEL, centres=30).fit((b for b in [X]), Y)


def test_leaving_the_exact_problem_warns(monkeypatch):
    monkeypatch.setattr(automatic, "TUNING", automatic.Tuning(small=10, patience=0.0))
    with pytest.warns(ApproximationWarning, match="400 rows are too many") as caught:
        model = KernelRidge(0.1, kernel=KERNEL, random_state=0).fit(X, Y)
    assert len(caught) == 1
    assert "Solved on centres" in str(model.solution_.status)
    assert "longer than 0 s" in model.explain()


def test_an_unknown_law_is_said_with_what_to_write():
    def bump(A, B):
        return np.exp(-0.5 * ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=-1))

    unknown = KernelRidge(0.1, kernel=BlockKernel(bump)).fit(X, Y).explain()
    assert "Whether the kernel is positive definite is unknown" in unknown
    assert "write BlockKernel(…, positive_definite=True)" in unknown
    stated = KernelRidge(0.1, kernel=BlockKernel(bump, positive_definite=True)).fit(X, Y).explain()
    assert "unknown" not in stated


def test_bad_centres_are_named():
    with pytest.raises(ValueError, match="centres must be how many"):
        KernelRidge(kernel=KERNEL, centres="many").fit(X, Y)
    with pytest.raises(ValueError, match="whole number ≥ 1; got 0"):
        KernelRidge(kernel=KERNEL, centres=0).fit(X, Y)
    with pytest.raises(ValueError, match="a precomputed kernel has none"):
        KernelRidge(kernel="precomputed", centres=3).fit(KERNEL(X), Y)
    with pytest.raises(ValueError, match='solver must be "auto"'):
        KernelRidge(kernel=KERNEL, solver="best").fit(X, Y)


def test_rounding_is_worth_half_as_long_again():
    digits = Candidate("Direct", None, 2.8, 1.0, True)
    quick = Candidate("ConjugateGradient", None, 2.0, 1.0, True, rounding=False)
    choice = choose_among([digits, quick], asked=None)
    assert choice.chosen.name == "Direct"
    assert "right to rounding" in choice.reason
    slow = Candidate("Direct", None, 3.2, 1.0, True)
    assert choose_among([slow, quick], asked=None).chosen.name == "ConjugateGradient"


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_centres_for_a_few_rows_need_no_spectrum(rows):
    points = KERNEL.points(X[:rows])
    choice = choose(KERNEL, points, centres=1, ridge=1.0, rates=RATES)
    assert choice.chosen.name == "Newton"


def test_iterations_are_foreseen_from_the_spectrum():
    """A smooth kernel on few columns takes few iterations, whose time is predicted so."""
    n, seconds = 20_000, {}
    for width in (2, 20):
        points = KERNEL.points(RNG.standard_normal((n, width)))
        for ridge in (1.0, 1e-4):
            choice = choose(KERNEL, points, ridge=ridge, rates=RATES)
            named = {candidate.name: candidate for candidate in choice.candidates}
            seconds[width, ridge] = named["ConjugateGradient"].seconds
    assert seconds[2, 1.0] <= seconds[2, 1e-4] < seconds[20, 1.0] < seconds[20, 1e-4]


def test_passes_are_foreseen_within_a_factor_of_two():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((20_000, 3)).astype(np.float32)
    y = np.sin(rows[:, 0]) + 0.1 * rng.standard_normal(20_000)
    model = KernelRidge(1e-2, kernel=Gaussian(1.0), centres=300, random_state=0).fit(rows, y)
    foreseen, taken = model.choice_.chosen.passes, model.solution_.history["products"][-1]
    assert 0.5 * taken <= foreseen <= 2.0 * taken
    assert f"{foreseen:.0f} passes" in model.explain()


def test_where_iterates_are_wanted_no_factorisation_is_a_candidate():
    points = KERNEL.points(np.zeros((5_000, 3), np.float32))
    choice = choose(KERNEL, points, memory="10GB", rates=RATES, iterative=True)
    assert [candidate.name for candidate in choice.candidates] == ["ConjugateGradient", "Newton"]
    assert choice.chosen.name == "ConjugateGradient"


def test_blocks_are_shown_where_conjugate_gradients_take_too_long():
    rates = Rates({"float32": 1e11, "float64": 5e10}, 1e-9, 3)
    points = Gaussian().points(np.zeros((3_000_000, 3), np.float32))
    choice = choose(Gaussian(), points, rates=rates, ridge=1e-3)
    named = {candidate.name: candidate for candidate in choice.candidates}
    assert choice.chosen.name == "Newton"
    assert named["BlockCoordinateDescent"].seconds < named["ConjugateGradient"].seconds
    assert "3 passes" in choice.explain()
    assert "solver=BlockCoordinateDescent(time_limit=…)" in choice.explain()
    few = choose(Gaussian(), points.slice(0, 50_000), rates=rates, ridge=10.0)
    assert "BlockCoordinateDescent" not in few.explain()
