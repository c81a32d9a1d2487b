"""Solvers on centres, against the problem written down and minimised by SciPy."""

from __future__ import annotations

import dataclasses
import gc
import tracemalloc
from functools import cache

import numpy as np
import pytest
import scipy.optimize
from hypothesis import example, given
from hypothesis import strategies as st

from mercer.features.centres import RandomlyPivoted
from mercer.kernels import Exponential, Gaussian, Laplacian
from mercer.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
    one_hot,
)
from mercer.operators import BlockedGram, Gram, StoredGram, cross_gram
from mercer.solvers import (
    HeldOut,
    Newton,
    Problem,
    newton,
    on_centres,
    regularization_path,
)
from mercer.solvers.optimality import certified_gap
from mercer.solvers.path import RidgesOnCentres
from mercer.solvers.preconditioners import sampling
from mercer.solvers.preconditioners.memory import memory_needed, stores_rows
from mercer.solvers.preconditioners.sampled_hessian import (
    ClassHessians,
    GeneralHessian,
    SampledHessian,
)
from mercer.solvers.preconditioners.sampling import inclusion_chances
from mercer.solvers.workload import Workload

N, M, RIDGE = 300, 12, 1e-3
KERNEL = Gaussian(0.8)
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 2))
REAL = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * RNG.standard_normal(N)
SIGNS = np.where(REAL > 0, 1.0, -1.0)
CENTRES = X[:M]
WEIGHTS = RNG.integers(0, 4, N).astype(float)

SMOOTH = {
    "squared": (Squared(), REAL),
    "logistic": (Logistic(), SIGNS),
    "squared hinge": (SquaredHinge(), SIGNS),
    "huber": (Huber(0.3), REAL),
    "poisson": (Poisson(), np.floor(np.exp(REAL))),
    "multinomial": (Multinomial(), np.digitize(REAL, [-1.0, 1.0])),
}
KINKED = {
    "hinge": (Hinge(), SIGNS),
    "quantile": (Quantile(0.8), REAL),
    "absolute": (Absolute(), REAL),
    "insensitive": (EpsilonInsensitive(0.2), REAL),
}


def rows_of(points=X, kind=Gram):
    return kind(KERNEL, KERNEL.points(points), KERNEL.points(CENTRES.astype(points.dtype)))


def problem_of(loss, y, rows=None, **more):
    return Problem.on_centres(rows or rows_of(), y, loss, RIDGE, **more)


@cache
def matrices():
    def gaussian(A, B):
        return np.exp(-((A[:, None] - B) ** 2).sum(axis=2) / (2 * 0.8**2))

    return gaussian(X, CENTRES), gaussian(CENTRES, CENTRES)


def objective(loss, y, beta, b, weights):
    cross, own = matrices()
    values = cross @ beta + b
    if isinstance(loss, Multinomial):
        losses = np.log(np.exp(values).sum(axis=1)) - values[np.arange(N), y.astype(int)]
    else:
        losses = np.asarray(loss.value(y, values))
    return np.average(losses, weights=weights) + 0.5 * RIDGE * np.sum(beta * (own @ beta))


def least(loss, y, intercept, weights, outputs=1):
    """The least objective that BFGS finds, in coordinates in which the penalty is a norm."""
    lower = np.linalg.cholesky(matrices()[1])

    def value(theta):
        theta = theta.reshape(M + 1, -1)
        beta = np.linalg.solve(lower.T, theta[:M])
        b = theta[M] if intercept else 0.0
        if outputs == 1:
            beta, b = beta[:, 0], b[0] if intercept else 0.0
        return objective(loss, y, beta, b, weights)

    found = scipy.optimize.minimize(value, np.zeros((M + 1) * outputs), options={"gtol": 1e-7})
    return found.fun


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_losses_reach_the_least_objective(name, intercept):
    loss, y = SMOOTH[name]
    solution = Newton(tolerance=1e-9).solve(
        problem_of(loss, y, weights=WEIGHTS, fit_intercept=intercept)
    )
    outputs = 3 if name == "multinomial" else 1
    wanted = least(loss, y, intercept, WEIGHTS, outputs)
    found = objective(loss, y, solution.coefficients, solution.intercept, WEIGHTS)
    assert found == pytest.approx(wanted, rel=1e-6)
    assert solution.objective == pytest.approx(found, rel=1e-6)
    assert solution.status.converged
    assert 0 <= solution.gap <= 1e-8 * abs(found) + 1e-12


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", KINKED)
def test_the_gap_of_losses_with_kinks_is_certified(name, intercept):
    loss, y = KINKED[name]
    problem = problem_of(loss, y, fit_intercept=intercept)
    solution = Newton().solve(problem)
    better = Newton(tolerance=1e-5).solve(problem)
    found = objective(loss, y, solution.coefficients, solution.intercept, None)
    assert solution.status.converged
    assert solution.gap <= 1e-3 * found * (1 + 1e-9)
    assert found - better.objective <= solution.gap + 1e-12  # a gap is never too small
    assert better.objective <= found + 1e-12


@pytest.mark.parametrize("seed", [2, 13, 26, 112])
def test_kinks_that_hold_no_value_stop_nobody(seed):
    """The loss is straight there: a step in b had no end, and none was taken in the end."""
    random = np.random.default_rng(seed)
    points, noise = random.standard_normal((60, 3)), random.standard_normal(60)
    y = np.where(points[:, 0] + 0.3 * noise > 0, 1.0, -1.0)
    gram = Gaussian(2.0).gram(abs(points), abs(points[:3]))
    solution = Newton().solve(Problem.on_centres(gram, y, Hinge(), 1e-3, fit_intercept=True))
    assert solution.status.converged
    assert solution.gap <= 1e-3 * solution.objective
    assert len(solution.history["inner_steps"]) < 40


def test_several_targets_are_solved_as_if_alone():
    y = np.stack([REAL, REAL**2], axis=1)
    both = Newton(tolerance=1e-12).solve(problem_of(Squared(), y, fit_intercept=True))
    alone = Newton(tolerance=1e-12).solve(problem_of(Squared(), y[:, 1], fit_intercept=True))
    np.testing.assert_allclose(both.coefficients[:, 1], alone.coefficients, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(both.intercept[1], alone.intercept, rtol=1e-4)


def test_a_weight_is_a_repetition():
    repeated = np.repeat(np.arange(N), WEIGHTS.astype(int))
    rows = Gram(KERNEL, KERNEL.points(X[repeated]), KERNEL.points(CENTRES))
    solver = Newton(tolerance=1e-10)
    weighted = solver.solve(problem_of(Squared(), REAL, weights=WEIGHTS))
    written_out = solver.solve(Problem.on_centres(rows, REAL[repeated], Squared(), RIDGE))
    assert weighted.objective == pytest.approx(written_out.objective, rel=1e-9)


def test_blocks_maps_and_stored_matrices_give_the_same_answer(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    blocks = [X[:100], X[100:101], X[101:]]
    centres = KERNEL.points(CENTRES)
    ways = {
        "memory": rows_of(),
        "stored": rows_of(kind=StoredGram),
        "map": Gram(KERNEL, KERNEL.points(mapped), centres),
        "blocks": BlockedGram(KERNEL, blocks, centres, N),
    }
    answers = {
        name: Newton().solve(problem_of(Logistic(), SIGNS, rows, fit_intercept=True))
        for name, rows in ways.items()
    }
    for name, answer in answers.items():
        np.testing.assert_allclose(
            answer.coefficients, answers["memory"].coefficients, rtol=1e-7, err_msg=name
        )
    passes = {name: answer.history["products"][-1] for name, answer in answers.items()}
    assert passes["blocks"] == passes["memory"]  # one pass for each, and no other


def test_float32_stays_and_says_what_it_reached():
    rows = rows_of(X.astype(np.float32))
    solution = Newton().solve(problem_of(Squared(), REAL, rows))
    exact = Newton(tolerance=1e-12).solve(problem_of(Squared(), REAL))
    assert solution.coefficients.dtype == np.float32
    assert solution.status.converged
    assert solution.objective == pytest.approx(exact.objective, rel=1e-3)


def test_a_callback_and_a_clock_stop_with_the_best_iterate():
    problem = problem_of(Squared(), REAL)
    seen = []

    def stop(iteration, state):
        seen.append(state.objective)
        return iteration == 2

    solver = Newton(tolerance=1e-12, sample=M, callback=stop)
    stopped = solver.solve(problem)
    assert len(seen) == 2
    assert not stopped.status.converged
    assert "Stopped by the callback" in str(stopped.status)
    assert stopped.objective == pytest.approx(seen[-1], rel=1e-9)
    hurried = dataclasses.replace(solver, callback=None, time_limit=1e-9).solve(problem)
    assert "time limit" in str(hurried.status)
    assert hurried.objective < problem.objective(np.zeros(M))
    assert len(hurried.history["objective"]) == len(hurried.history["seconds"]) == 1


def test_a_start_saves_steps():
    problem = problem_of(Logistic(), SIGNS, fit_intercept=True)
    first = Newton().solve(problem)
    again = Newton().solve(problem, start=first)
    assert sum(again.history["inner_steps"]) == 0
    assert again.objective == pytest.approx(first.objective, rel=1e-9)


@pytest.mark.parametrize("name", ["squared", "logistic"])
def test_a_path_gives_every_solution_and_what_held_out_samples_say(name):
    loss, y = SMOOTH[name]
    held_out = X[200:], y[200:]
    rows = Gram(KERNEL, KERNEL.points(X[:200]), KERNEL.points(CENTRES))
    problem = Problem.on_centres(rows, y[:200], loss, 1.0, fit_intercept=True)
    solver = Newton(tolerance=1e-9)
    for point in regularization_path(problem, [1e-4, 1e-1, 1e-2], solver, held_out):
        alone = dataclasses.replace(problem, regularization=point.regularization)
        wanted = solver.solve(alone)
        assert point.solution.objective == pytest.approx(wanted.objective, rel=1e-7)
        values = KERNEL(X[200:], CENTRES) @ wanted.coefficients + wanted.intercept
        wanted_risk = np.mean(np.asarray(loss.value(y[200:], values)))
        assert point.held_out_risk == pytest.approx(wanted_risk, rel=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_many_ridges_at_once_are_those_of_normal_equations(dtype, fit_intercept, monkeypatch):
    random = np.random.default_rng(5)
    points = random.uniform(-1, 1, (6000, 2)).astype(dtype)
    y = np.stack([np.sin(4 * points[:, 0]), points[:, 1] ** 2 + 1], axis=1)
    y += 0.1 * random.standard_normal(y.shape)
    weights, ridges, rule = random.uniform(0.5, 2, 6000), [1e-2, 1e-6, 1e-4], HeldOut(0.2)
    few = sampling.Tuning(entry=1e-3, coordinate=0.0, output=0.0)
    monkeypatch.setattr(sampling, "TUNING", few)  # few rows are sampled
    problem = Problem.on_centres(rows_of(points), y, Squared(), 1.0, weights, fit_intercept)
    path = RidgesOnCentres(problem, ridges, rule, 1e-9 if dtype == np.float64 else 1e-6)
    assert len(path.whole.hessians.sample[0]) < 1000
    out = rule.hidden(weights)
    K, unit = KERNEL(points.astype(float), CENTRES), 100 * float(np.finfo(dtype).eps)
    lower = np.linalg.cholesky(KERNEL(CENTRES, CENTRES) + unit * np.eye(len(CENTRES)))
    Z = np.linalg.solve(lower, K.T).T
    Z = np.hstack([Z, np.ones((6000, 1))]) if fit_intercept else Z
    penalised = np.r_[np.ones(len(CENTRES)), np.zeros(int(fit_intercept))]
    for point, ridge in zip(path.points, ridges, strict=True):
        p = weights[~out] / weights[~out].sum()
        moments = (p[:, None] * Z[~out]).T
        theta = np.linalg.solve(moments @ Z[~out] + ridge * np.diag(penalised), moments @ y[~out])
        missed = 0.5 * ((Z[out] @ theta - y[out]) ** 2).sum(axis=1)
        wanted = np.average(missed, weights=weights[out])
        assert point.held_out_risk == pytest.approx(wanted, rel=1e-4)
    whole = path.solution(1e-4)
    alone = Newton().solve(dataclasses.replace(problem, regularization=1e-4))
    assert whole.status.converged
    assert whole.objective == pytest.approx(alone.objective, rel=1e-3 if unit > 1e-9 else 2e-6)


def test_matrices_are_stored_where_points_are_wide_and_memory_allows():
    wide = np.ones((50, 60))
    points, centres = KERNEL.points(wide), KERNEL.points(wide[:5])
    assert isinstance(cross_gram(KERNEL, points, centres), StoredGram)
    assert type(cross_gram(KERNEL, points, centres, memory=2000)) is Gram
    assert type(rows_of()) is Gram


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"needs regularization > 0; got 0\.0"):
        Problem.on_centres(rows_of(), REAL, Squared(), 0.0)
    with pytest.raises(ValueError, match="one row for each of the 300 points"):
        problem_of(Squared(), REAL[1:])
    with pytest.raises(ValueError, match="weights must be finite and nonnegative"):
        problem_of(Squared(), REAL, weights=-WEIGHTS)
    with pytest.raises(ValueError, match="an iterator, which gives them once"):
        BlockedGram(KERNEL, iter([X]), KERNEL.points(CENTRES), N)
    short = BlockedGram(KERNEL, [X[:10]], KERNEL.points(CENTRES), N)
    with pytest.raises(ValueError, match="blocks of X have 10 rows, and y has 300"):
        Newton().solve(problem_of(Squared(), REAL, short))
    with pytest.raises(ValueError, match="whole number iterations ≥ 1"):
        Newton(iterations=0)


def test_float32_reaches_a_gap_below_its_rounding_and_tells_the_truth():
    points = X.astype(np.float32)
    problem = Problem.on_centres(rows_of(points), REAL, Squared(), 1e-7)
    solution = Newton(tolerance=1e-6).solve(problem)
    assert solution.coefficients.dtype == np.float32
    assert solution.status.converged
    assert solution.gap <= 1e-6 * solution.objective
    again = problem.objective(solution.coefficients)  # of the coefficients as they are stored
    assert again == pytest.approx(solution.objective, rel=1e-5)


@pytest.mark.parametrize("name", ["squared", "logistic", "hinge"])
def test_a_path_keeps_the_preconditioner_while_curvatures_last(name):
    loss, y = (SMOOTH | KINKED)[name]
    ridges = [1e-2, 0.8e-2, 0.6e-2]
    found = list(regularization_path(problem_of(loss, y), ridges))
    on_the_way, fresh = sum(p.solution.history["preconditioners"][-1] for p in found), 0
    for point in found:
        alone = Newton().solve(
            dataclasses.replace(problem_of(loss, y), regularization=point.regularization)
        )
        fresh += alone.history["preconditioners"][-1]
        assert point.solution.status.converged
        assert point.solution.objective == pytest.approx(alone.objective, rel=2e-3)
    assert on_the_way < fresh


def test_maps_and_blocks_take_no_more_memory_than_a_few_tiles(tmp_path):
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((40_000, 40))
    np.save(tmp_path / "X.npy", wide)
    mapped, y = np.load(tmp_path / "X.npy", mmap_mode="r"), wide[:, 0]
    kernel = Gaussian(6.0)
    centres = kernel.points(wide[:40])

    class Blocks:
        def __iter__(self):
            return (np.array(mapped[a : a + 2000]) for a in range(0, len(mapped), 2000))

    solver, objectives = Newton(sample=400), []
    some = Gram(kernel, kernel.points(wide[:1000]), centres)
    solver.solve(Problem.on_centres(some, y[:1000], Squared(), 1e-4))  # code is compiled
    for rows in (
        lambda: Gram(kernel, kernel.points(wide), centres),
        lambda: cross_gram(kernel, kernel.points(mapped), centres, memory="8MB"),
        lambda: BlockedGram(kernel, Blocks(), centres, len(y)),
    ):
        walked = rows()
        tracemalloc.start()
        objectives.append(solver.solve(Problem.on_centres(walked, y, Squared(), 1e-4)).objective)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.75 * wide.nbytes  # 12.8 MB; columns of targets and values take 2
    np.testing.assert_allclose(objectives, objectives[0], rtol=1e-9)


def test_what_cannot_fit_is_refused_with_advice():
    rows = Gram(KERNEL, KERNEL.points(X), KERNEL.points(CENTRES), memory=20_000)
    with pytest.raises(ValueError, match=r"12 centres takes .* Take fewer centres"):
        Newton().solve(Problem.on_centres(rows, REAL, Squared(), RIDGE))


@pytest.mark.parametrize(("apart", "ridge"), [(1e-9, 1e-3), (1e-9, 1e-6), (1e-7, 1e-3)])
def test_nearly_equal_centres_hide_nothing(apart, ridge):
    """Differences of their kernels, divided by the distance, are functions of the space, too."""
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (200, 1))
    y = np.sin(3 * points[:, 0]) + (points[:, 0] > 0)
    centres = np.array([[-0.5], [0.0], [apart], [0.5], [0.5 + apart]])
    problem = Problem.on_centres(Gaussian(0.7).gram(points, centres), y, Squared(), ridge)
    solution = Newton().solve(problem)

    def kernel(A, B, slope_of_a=False, slope_of_b=False):
        """k, ∂k/∂b, ∂²k/∂a∂b of a Gaussian on the line."""
        r, s = A - B.T, 0.7**2
        value = np.exp(-(r**2) / (2 * s))
        if slope_of_a and slope_of_b:
            return value * (1 / s - r**2 / s**2)
        return value * (r / s if slope_of_b else -r / s if slope_of_a else 1.0)

    apart_ones = centres[[0, 1, 3]]
    doubled = centres[[1, 3]]
    A = np.hstack([kernel(points, apart_ones), kernel(points, doubled, False, True)])
    P = np.block(
        [
            [kernel(apart_ones, apart_ones), kernel(apart_ones, doubled, False, True)],
            [kernel(doubled, apart_ones, True, False), kernel(doubled, doubled, True, True)],
        ]
    )
    v = np.linalg.solve(A.T @ A / 200 + ridge * P, A.T @ y / 200)
    least = 0.5 * np.mean((A @ v - y) ** 2) + 0.5 * ridge * v @ P @ v
    assert solution.gap >= 0.99 * (solution.objective - least)
    assert not solution.status.converged
    assert "which changes the objective by" in str(solution.status)
    assert "Some centres nearly coincide" in str(solution.status)


def test_nearly_equal_centres_take_no_more_memory():
    """K_MM is factored again, for the gap of the problem that was asked."""
    kernel, x = Gaussian(0.004), np.linspace(-1.0, 1.0, 1_200)[:, None]
    gram = kernel.gram(x, np.concatenate([x[::4], x[::4] + 1e-9]))
    problem, solver = Problem.on_centres(gram, np.sign(x[:, 0]), Squared(), 1e-2), Newton(sample=60)
    solver.solve(problem)  # code is compiled
    tracemalloc.start()
    solution = solver.solve(problem)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "which changes the objective by" in str(solution.status)
    assert peak < 2.6 * 8 * 600**2  # two matrices; another would be a third


@pytest.mark.parametrize("name", ["logistic", "poisson", "multinomial", "hinge"])
def test_the_history_holds_true_objectives(name):
    loss, y = (SMOOTH | KINKED)[name]
    seen = []
    problem = problem_of(loss, y, fit_intercept=True)

    def look(iteration, progress):
        seen.append(
            (progress.objective, problem.objective(progress.coefficients, progress.intercept))
        )

    solution = Newton(callback=look, sample=M).solve(problem)
    for told, true in seen:
        assert told == pytest.approx(true, rel=1e-6)
    assert solution.history["objective"] == pytest.approx([told for told, _ in seen])
    assert min(solution.history["objective"]) >= solution.objective - solution.gap - 1e-12


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_many_classes_end_on_their_gap(fit_intercept):
    """Slopes of several classes are centred along ℓ': otherwise the gap ends far above its goal."""
    random = np.random.default_rng(0)
    middle = 1.2 * random.standard_normal((78, 16))
    label = random.integers(0, 78, 700)
    X = middle[label] + random.standard_normal((700, 16))
    cross = Gaussian(5.0).gram(X, X[:100])
    y = np.asarray(one_hot((label % 26).astype(float), 26))
    problem = Problem.on_centres(cross, y, Multinomial(), 1e-5, None, fit_intercept)
    solution = Newton().solve(problem)
    assert solution.status.converged
    assert len(solution.history["inner_steps"]) < 25
    assert certified_gap(problem, solution.coefficients, solution.intercept).relative < 1e-5


def test_with_rows_far_out_the_sample_is_drawn_by_leverage():
    """A few rows far from all others: the minimiser is that of the normal equations."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2)) * np.where(rng.random((20_000, 1)) < 0.01, 6.0, 1.0)
    grid = np.linspace(-10.0, 10.0, 24)
    C = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    y, k, ridge = np.sin(X).sum(axis=1), Gaussian(0.6), 1e-5
    problem = Problem.on_centres(cross_gram(k, k.points(X), k.points(C)), y, Squared(), ridge)
    solution = Newton(1e-6).solve(problem)
    K = k(X, C)
    exact = np.linalg.solve(K.T @ K / len(X) + ridge * k(C), K.T @ y / len(X))
    assert solution.status.converged
    assert solution.objective == pytest.approx(problem.objective(exact), rel=1e-6)
    assert solution.history["preconditioners"] == [2]  # one for leverages, another that grows
    state = Newton(1e-6).begin(problem)
    P = state.work.hessians.at(state.point, Squared())
    z = np.linalg.solve(np.tril(state.work.basis.factor.lower), K.T)
    half = np.linalg.solve(np.tril(P.columns), z @ z.T / len(X) + ridge * np.eye(len(C)))
    spectrum = np.linalg.eigvalsh(np.linalg.solve(np.tril(P.columns), half.T))
    assert spectrum[-1] < 3 * spectrum[0]  # 4.5 with leverages of the uniform sample only
    rows, _, weights = state.work.hessians.sample
    assert len(np.unique(rows)) < len(rows)  # some are in both samples
    assert state.work.hessians.largest_weight >= np.bincount(rows, weights).max()
    assert spectrum[0] * state.work.hessians.largest_weight >= 1.0  # P ⪯ wH


def test_rows_that_are_centres_have_more_leverage_and_need_no_sample_of_their_own():
    """Each has a direction for itself, which costs a step or two, and a sample by leverage more."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(16_000, 30)).astype(np.float32)
    C, y, k = X[:800], np.sin(X[:, 0]) + 0.5 * rng.normal(size=len(X)), Exponential(6.0)
    problem = Problem.on_centres(cross_gram(k, k.points(X), k.points(C)), y, Squared(), 1 / len(X))
    solution = Newton(1e-3).solve(problem)
    assert solution.status.converged
    assert solution.history["preconditioners"] == [1]
    state = Newton(1e-3).begin(problem)
    state.work.hessians.at(state.point, Squared())
    rows, _, weights = state.work.hessians.sample
    assert len(rows) <= 4 * len(C)  # of 16,000, which were all taken where leverages differ
    assert weights == pytest.approx(len(X) / len(rows))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", [SampledHessian, GeneralHessian])
def test_a_sample_that_is_extended_is_that_of_all_its_rows(kind, intercept):
    X = np.random.default_rng(0).normal(size=(300, 2))
    cross, weights = cross_gram(k := Exponential(), k.points(X), k.points(X[:20])), X[:, 0] ** 2
    problem = Problem.on_centres(cross, X[:, 1], Squared(), 1e-3, None, intercept)
    space = Newton().begin(problem).work
    floor = space.floor if intercept else None
    some, rest = np.arange(0, 300, 3), np.flatnonzero(np.arange(300) % 3)
    made = kind(space, some, 3.0 * weights[some], 1e-2, floor)
    made.extend(rest, weights[rest], 1.0 / 3.0, 1e-3)
    whole = kind(space, np.arange(300), weights, 1e-3, floor)
    v = np.random.default_rng(1).normal(size=(20 + intercept, 3))
    np.testing.assert_allclose(made.solve(v), whole.solve(v), rtol=1e-8)


def test_where_rows_are_alike_the_first_sample_is_extended():
    X = np.random.default_rng(0).uniform(size=(20_000, 2))
    cross = cross_gram(k := Gaussian(0.3), k.points(X), k.points(X[:50]))
    problem = Problem.on_centres(cross, np.sin(5 * X[:, 0]), Squared(), 1e-5)
    assert Newton().solve(problem).history["preconditioners"] == [1]


@given(st.lists(st.floats(1e-9, 1e6), min_size=1, max_size=40), st.integers(1, 40))
@example([55440.23534361074] * 3, 3)  # a share of 1/3, times 3, is larger than 1
def test_chances_add_up_to_the_count_and_never_exceed_one(shares, count):
    count = min(count, len(shares))
    chances = inclusion_chances(np.array(shares), count)
    assert chances.max() <= 1.0
    assert chances.sum() == pytest.approx(count, rel=1e-9)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("steps", [2, 5, 9])
def test_the_gap_of_the_square_loss_bounds_what_is_left_to_gain(steps, dtype, fit_intercept):
    """However few steps were taken, rows sampled, weights given; and it is no loose bound."""
    random = np.random.default_rng(steps)
    X = random.standard_normal((3000, 3)) * np.array([1.0, 1.0, 4.0])
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * random.standard_normal(3000)
    weights, ridge, kernel = random.integers(0, 3, 3000) + 0.0, 1e-7, Gaussian(1.5)
    X, centres = X.astype(dtype), X[:80].astype(dtype)
    problem = Problem.on_centres(
        kernel.gram(X, centres), y, Squared(), ridge, weights, fit_intercept=fit_intercept
    )
    solver = Newton(sample=320, iterations=1, inner_iterations=steps)
    solution = solver.solve(problem)
    wide, shares = centres.astype("float64"), weights / weights.sum()
    rows = kernel(X.astype("float64"), wide)
    lower = np.linalg.cholesky(kernel(wide) + 1e-13 * np.eye(80))
    design = np.vstack([np.sqrt(shares)[:, None] * rows, np.sqrt(ridge) * lower.T])
    targets = np.concatenate([np.sqrt(shares) * y, np.zeros(80)])
    if fit_intercept:
        design = np.hstack([design, np.concatenate([np.sqrt(shares), np.zeros(80)])[:, None]])
    best = np.linalg.lstsq(design, targets, rcond=None)[0]
    least = 0.5 * float(np.sum((design @ best - targets) ** 2))
    excess = solution.objective - least
    assert -1e-9 <= excess <= solution.gap
    assert solution.gap <= 3000 / 320 * 30 * max(excess, 1e-6 * least)


def test_nothing_of_a_solution_waits_for_the_garbage_collector():
    from mercer.solvers.on_centres import OnCentres

    def alive():
        return sum(isinstance(thing, OnCentres) for thing in gc.get_objects())

    before = alive()
    gc.disable()
    try:
        Newton().solve(problem_of(Squared(), X[:, 0]))
        assert alive() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("few", [0, 1 << 20])
def test_rows_are_stored_where_passes_are_many_and_the_answer_stays(few, monkeypatch):
    """In float32, too, though the points are in float64."""
    labels = np.digitize(REAL, [-1.5, -0.5, 0.0, 0.5, 1.5]).astype(float)
    solver = Newton(1e-9, tuning=newton.Tuning(centres=on_centres.Tuning(few=few)))
    passes, row_pass = [], Gram.row_pass
    monkeypatch.setattr(Gram, "row_pass", lambda *a: passes.append(1) or row_pass(*a))
    rows = Gram(KERNEL, KERNEL.points(X), KERNEL.points(CENTRES))
    stored = solver.solve(Problem.on_centres(rows, labels, Multinomial(), 1e-5, None, True))
    assert stored.status.converged
    assert len(passes) < 0.4 * sum(stored.history["inner_steps"])
    monkeypatch.setattr(on_centres, "stores_rows", lambda *_: False)
    walked = solver.solve(Problem.on_centres(rows, labels, Multinomial(), 1e-5, None, True))
    assert stored.objective == pytest.approx(walked.objective, rel=2e-9)


def of_features(ridge, lengthscale=3.0, count=300):
    """Three classes of float32 rows of eight cosines, on a third of them as centres."""
    r = np.random.default_rng(0)
    Z = r.standard_normal((count, 8))
    rows = 0.5 * np.cos(Z @ r.standard_normal((8, 8)) + r.uniform(0.0, 6.28, 8)).astype("f4")
    labels = (Z @ r.standard_normal((8, 3)) + r.gumbel(size=(count, 3))).argmax(1)
    cross = Gaussian(lengthscale).gram(rows, rows[: count // 3])
    return Problem.on_centres(cross, labels.astype(float), Multinomial(), ridge, None, True)


@pytest.mark.parametrize(("lengthscale", "inverse"), [(3.0, 3e5), (10.0, 3e5), (10.0, 3e6)])
def test_newton_steps_end_where_only_the_jitter_is_left(lengthscale, inverse):
    """A hundred steps were taken for what the jitter adds to the gap, which none of them lowers."""
    solution = Newton().solve(of_features(1.0 / inverse, lengthscale))
    assert len(solution.history["inner_steps"]) <= 15
    if not solution.status.converged:
        assert "raise the regularization, or pass float64" in str(solution.status)


@pytest.mark.parametrize("stored", [False, True])
def test_a_linear_system_ends_by_the_gap_at_the_best_constant(stored):
    """What was left in the constant did not count: each step then left the gap where it was."""
    space = Newton(1e-9).begin(of_features(1e-3)).work
    if stored:
        space.lifted = space.basis.lift(space.operator)
    point = space.at(space.problem.array(np.zeros((space.size, 3))), np.zeros(3))
    for _ in range(5):
        direction = space.direction(point, 1e-9)
        while not direction.advance():
            pass
        point, _ = space.search(point, direction)
    beta, constants = space.coefficients(point)
    off = space.at(beta, constants + np.array([0.1, 0.0, -0.1]))
    gap, plain = space.gap(off, space.loss), off.gradient[: space.size]
    plain = float(np.sum(plain**2)) / (2.0 * space.ridge)
    told = space.excess(off.gradient, np.inf)
    assert told == pytest.approx(gap.absolute, abs=0.1 * plain)
    assert plain > 5.0 * gap.absolute


def test_rows_of_many_classes_are_stored_before_their_blocks_are_made_of_them():
    rows = Gram(KERNEL, KERNEL.points(X), KERNEL.points(X[: N // 2]))
    labels = np.arange(len(X)) % 8.0
    problem = Problem.on_centres(rows, labels, Multinomial(), 1e-3)
    assert stores_rows(problem, 1)  # blocks of 8 classes would put nearly all rows in coordinates
    two = Problem.on_centres(rows, np.where(labels > 3, 1.0, -1.0), Logistic(), 1e-3)
    assert not stores_rows(two, 1)


@pytest.mark.parametrize(("ridge", "dtype"), [(1e-3, "float32"), (1e-9, "float64")])
def test_blocks_of_classes_are_float32_where_that_is_precise_enough(ridge, dtype):
    labels = np.digitize(REAL, [-1.5, -0.5, 0.0, 0.5, 1.5]).astype(float)
    rows = Gram(KERNEL, KERNEL.points(X), KERNEL.points(CENTRES))
    problem = Problem.on_centres(rows, labels, Multinomial(), ridge, None, True)
    solved = []
    for few in (0, 1 << 20):
        solver = Newton(tuning=newton.Tuning(centres=on_centres.Tuning(few=few)))
        state = solver.begin(problem)
        point = state.work.at(0.1 * np.cos(np.arange(6.0 * len(CENTRES))), np.zeros(6))
        made = state.work.hessians.at(point, Multinomial())
        assert made.blocks[0][0].dtype == ("float64" if few else dtype)
        v = np.random.default_rng(0).standard_normal((len(CENTRES) + 1, 6))
        solved.append(made.solve(v))
    size = np.abs(solved[1]).max()
    np.testing.assert_allclose(
        *solved, rtol=0.0, atol=(1e-9 if dtype == "float64" else 1e-2) * size
    )


def test_few_classes_share_a_factor_of_their_mean_curvature():
    rows = Gram(KERNEL, KERNEL.points(X), KERNEL.points(CENTRES))
    for classes, kind in ((4, SampledHessian), (5, ClassHessians)):
        labels = np.arange(len(X)) % float(classes)
        problem = Problem.on_centres(rows, labels, Multinomial(), 1e-3, None, True)
        state = Newton().begin(problem)
        made = state.work.hessians.at(state.point, Multinomial())
        assert isinstance(made, kind)
        assert Newton().solve(problem).status.converged


def test_rows_are_not_stored_beyond_the_memory_budget():
    labels = np.digitize(REAL, [-1.0, 0.0, 1.0]).astype(float)
    for memory, expected in ((None, True), (memory_needed(len(X), len(CENTRES), 4, "f8"), False)):
        rows = Gram(KERNEL, KERNEL.points(X), KERNEL.points(CENTRES), memory=memory)
        problem = Problem.on_centres(rows, labels, Multinomial(), 1e-3)
        assert stores_rows(problem, 100) is expected
    squared = Problem.on_centres(Gram(KERNEL, rows.x, rows.y), labels, Squared(), 1e-3)
    assert not stores_rows(squared, 100)


def test_rows_of_the_preconditioner_follow_leverages_where_many_lie_far_out(monkeypatch):
    """None of these rows has much leverage, but there are many, in directions that few have."""
    x = np.random.default_rng(0).standard_t(3.0, (12_000, 2)).astype(np.float32)
    kernel = Gaussian(0.5)
    centres = RandomlyPivoted(250, random_state=0).choose(kernel, x[:3_000]).points
    card = sampling.Tuning(first=2, entry=1.0, coordinate=0.0)
    monkeypatch.setattr(sampling, "TUNING", card)  # passes are quick there
    gram = Gram(kernel, kernel.points(x), centres)
    problem = Problem.on_centres(gram, np.sin(x.sum(axis=1)), Squared(), 1e-5)
    solution = Newton().solve(problem)
    assert solution.status.converged
    assert sum(solution.history["inner_steps"]) < 40


@pytest.mark.parametrize("ridge", [1e-7, 1e-8])
def test_float32_moments_that_rounding_has_made_indefinite_are_factored(ridge):
    """A flat kernel nearly has the constant among its functions, up to the rounding of the sums."""
    rows = np.random.default_rng(2).standard_normal((1500, 3))
    y, kernel, values = np.sin(rows.sum(axis=1)), Laplacian(1000.0), []
    for points in (rows, rows.astype(np.float32)):
        gram = kernel.gram(points, points[:400])
        problem = Problem.on_centres(gram, y, Squared(), ridge, None, fit_intercept=True)
        values.append(Newton(1e-3).solve(problem).objective)
    assert values[1] == pytest.approx(values[0], rel=1e-2)


def test_held_out_errors_of_a_flat_kernel_in_float32():
    """Rounding hides the least λ: few steps are spent on it, and predictions stay near."""
    rows = np.random.default_rng(1).standard_normal((1200, 2))
    y, kernel, risks = np.sin(rows.sum(axis=1)), Laplacian(300.0), []
    for points in (rows, rows.astype(np.float32)):
        problem = Problem.on_centres(
            kernel.gram(points, points[:300]), y, Squared(), 1.0, None, fit_intercept=True
        )
        path = RidgesOnCentres(problem, [1e-6, 1e-8], HeldOut(0.2), tolerance=1e-3)
        risks.append([point.held_out_risk for point in path.points])
        assert path.space.count < 150
    np.testing.assert_allclose(risks[1], risks[0], rtol=0.5)


# ---- many classes --------------------------------------------------------------------------------


@pytest.mark.parametrize(("classes", "n", "count"), [(12, 900, 150), (26, 1000, 150)])
def test_classes_on_centres_take_as_few_steps_as_on_all_points(classes, n, count):
    """And as many passes as were foreseen; one factor for all classes took twice the steps."""
    random = np.random.default_rng(0)
    forms = random.uniform(2.0, 13.0, (classes, 1, 16)) + random.normal(0, 1.5, (classes, 3, 16))
    y = random.integers(0, classes, n)
    points = forms[y, random.integers(0, 3, n)] + 3.5 * random.standard_normal((n, 16))
    kernel, ridge = Gaussian(15.0), 1.0 / (30.0 * n)
    targets = np.eye(classes)[y]
    gram = kernel.gram(points, points[:count])
    few = Problem.on_centres(gram, targets, Multinomial(), ridge, fit_intercept=True)
    every = Problem(kernel.gram(points), targets, Multinomial(), ridge, fit_intercept=True)
    steps, solutions = [], []
    for problem in (few, every):
        solution = Newton(1e-6).solve(problem)
        assert solution.status.converged
        steps.append(sum(solution.history["inner_steps"]))
        solutions.append(solution)
    passes = solutions[0].history["products"][-1]
    foreseen = Workload.of(gram, Multinomial(), classes).passes
    assert steps[0] <= steps[1]
    assert passes / 1.5 <= foreseen <= 1.5 * passes
