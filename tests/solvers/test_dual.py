"""Dual ascent: gaps recomputed by code that shares nothing, conditions of optimality, libsvm."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.optimize
from sklearn import svm

from mercer.kernels import BlockKernel, Gaussian, Linear, Polynomial, Precomputed
from mercer.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    Quantile,
    ResidualLoss,
    Squared,
    SquaredHinge,
)
from mercer.losses.expressions import entropy1p, softplus
from mercer.losses.named import Smoothed
from mercer.operators import Gram
from mercer.points import HostedPoints
from mercer.solvers import Direct, DualAscent, Problem
from mercer.solvers.dual import ascent
from mercer.solvers.dual.rows import (
    CachedRows,
    FusedRows,
    PairRows,
    ResidentRows,
    StoredRows,
    rows_of,
)


@dataclass(frozen=True)
class LogCosh(ResidualLoss):
    """A loss of a user, log cosh r: dual ascent calls the code of its conjugate."""

    lipschitz, smoothness = 1.0, 1.0

    def of_residual(self, r):
        return softplus(2.0 * r) - r - np.log(2.0)

    def conjugate_of(self, u):
        return 0.5 * entropy1p(u) + 0.5 * entropy1p(-u)


LOSSES = [
    Hinge(),
    SquaredHinge(),
    Logistic(),
    EpsilonInsensitive(0.2),
    Absolute(),
    Quantile(0.3),
    Squared(),
    Huber(0.5),
    Poisson(),
    LogCosh(),
]
KERNEL = Gaussian(0.8)


def data(n, seed=0, labels=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 - 1 + 0.3 * rng.normal(size=n)
    weights = rng.integers(0, 4, size=n).astype(float)
    return X, np.where(y > 0, 1.0, -1.0) if labels else y, weights


def problem(loss, n=60, intercept=True, weighted=True, regularization=0.01, seed=0):
    X, y, weights = data(n, seed, loss.is_classification)
    y = np.round(np.exp(y)) if isinstance(loss, Poisson) else y
    return Problem(
        KERNEL.gram(X), y, loss, regularization, weights if weighted else None, intercept
    )


def independent_gap(problem, solution):
    """Primal minus dual objective, from NumPy and the definition of both."""
    y = np.asarray(problem.targets, float)
    w = np.ones(len(y)) if problem.weights is None else problem.weights
    p, ridge = w / w.sum(), problem.regularization
    X = np.asarray(problem.gram.x.data, float)
    distances = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    K = np.exp(-distances / (2 * KERNEL.lengthscale**2))
    alpha = solution.coefficients
    f = K @ alpha + solution.intercept
    primal = p @ problem.loss.value(y, f) + 0.5 * ridge * alpha @ K @ alpha
    u = np.divide(-ridge * alpha, p, out=np.zeros_like(alpha), where=p > 0)
    assert np.all(alpha[p == 0] == 0)
    low, high = (np.broadcast_to(bound, y.shape) for bound in problem.loss.domain(y))
    assert np.all((u >= low - 1e-12) & (u <= high + 1e-12))
    u = np.clip(u, low, high)
    if problem.fit_intercept:
        assert abs(alpha.sum()) <= 1e-12 * np.abs(alpha).sum()
    dual = -p @ problem.loss.conjugate(y, u) - 0.5 * ridge * alpha @ K @ alpha
    return primal - dual, primal


# ---- certificates --------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("working_set", [1024, 10])
def test_the_gap_is_the_true_one(loss, intercept, working_set):
    task = problem(loss, intercept=intercept)
    solution = DualAscent(tolerance=1e-5, working_set=working_set).solve(task)
    gap, primal = independent_gap(task, solution)
    assert solution.objective == pytest.approx(primal, rel=1e-12)
    assert solution.objective == pytest.approx(
        task.objective(solution.coefficients, solution.intercept), rel=1e-12
    )
    assert solution.gap == pytest.approx(gap, rel=1e-6, abs=1e-13)
    assert solution.status.converged
    assert gap <= 1e-5 * abs(primal)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_each_coefficient_is_a_slope_at_the_solution(loss):
    """−λα_i/p_i lies between the slopes on both sides of f(x_i): the conditions of optimality."""
    task = problem(loss, weighted=False)
    solution = DualAscent(tolerance=1e-11).solve(task)
    f = task.gram @ solution.coefficients + solution.intercept
    u = -task.regularization * len(f) * solution.coefficients
    left, right = (loss.slope(task.targets, f + step) for step in (-1e-4, 1e-4))
    assert np.all(u >= left - 1e-3)
    assert np.all(u <= right + 1e-3)
    assert solution.coefficients.sum() == pytest.approx(0.0, abs=1e-10)


def test_the_square_loss_agrees_with_a_factorisation():
    for intercept in (False, True):
        task = problem(Squared(), intercept=intercept)
        ours, theirs = DualAscent(1e-12).solve(task), Direct().solve(task)
        assert np.allclose(ours.coefficients, theirs.coefficients, atol=1e-7)
        assert ours.intercept == pytest.approx(theirs.intercept, abs=1e-7)


def test_logistic_agrees_with_a_general_optimiser():
    task = problem(Logistic(), n=20)
    solution = DualAscent(1e-10).solve(task)
    K = task.gram.dense()
    w = task.weights / task.weights.sum()

    def objective(z):
        f = K @ z[:-1] + z[-1]
        penalty = 0.5 * task.regularization * z[:-1] @ K @ z[:-1]
        return w @ np.logaddexp(0, -task.targets * f) + penalty

    best = scipy.optimize.minimize(objective, np.zeros(21), method="BFGS", tol=1e-9)
    assert solution.objective == pytest.approx(best.fun, abs=1e-7)
    assert solution.objective <= best.fun + 1e-10


@pytest.mark.parametrize("seed", range(20))
def test_it_finds_the_solution_of_libsvm(seed):
    rng = np.random.default_rng(seed)
    C, gamma = 10.0 ** rng.uniform(-1, 2), 10.0 ** rng.uniform(-1, 1)
    classify = seed % 2 == 0
    X, y, weights = data(int(rng.integers(20, 120)), seed, classify)
    weights = weights + 0.5
    peer = (
        svm.SVC(C=C, gamma=gamma, tol=1e-10) if classify else svm.SVR(C=C, gamma=gamma, tol=1e-10)
    )
    peer.fit(X, y, sample_weight=weights)
    loss = Hinge() if classify else EpsilonInsensitive(0.1)
    gram = Gaussian((0.5 / gamma) ** 0.5).gram(X)
    task = Problem(gram, y, loss, 1 / (C * weights.sum()), weights, True)
    solution = DualAscent(1e-11).solve(task)  # a gap of 3e-12 may be rounding
    theirs = np.zeros(len(y))
    theirs[peer.support_] = peer.dual_coef_[0]
    values = gram @ solution.coefficients + solution.intercept
    expected = peer.decision_function(X) if classify else peer.predict(X)
    assert np.allclose(values, expected, atol=1e-4 * max(1.0, np.abs(expected).max()))
    assert solution.objective <= task.objective(theirs, peer.intercept_[0]) * (1 + 1e-12)
    assert solution.status.converged


def test_weights_equal_repetition():
    for loss in (Hinge(), EpsilonInsensitive(0.1), SquaredHinge(), Quantile(0.7)):
        X, y, weights = data(50, 3, loss.is_classification)
        copies = np.repeat(np.arange(50), weights.astype(int))
        weighted = Problem(KERNEL.gram(X), y, loss, 0.01, weights, True)
        repeated = Problem(KERNEL.gram(X[copies]), y[copies], loss, 0.01, None, True)
        left, right = DualAscent().solve(weighted), DualAscent().solve(repeated)
        assert left.objective == pytest.approx(right.objective, rel=1e-13)
        f = KERNEL.function(X, left.coefficients)(X) + left.intercept
        g = KERNEL.function(X[copies], right.coefficients)(X) + right.intercept
        assert np.allclose(f, g, rtol=1e-9, atol=1e-9)


# ---- ways through the code ----------------------------------------------------------------------


def test_rows_of_every_kind_give_the_same_products():
    X, _, _ = data(60)
    gram = KERNEL.gram(X)
    K = gram.dense()
    chosen = np.array([5, 40, 3])
    tight = CachedRows(gram, 3, memory=1)
    resident = ResidentRows(Gram(KERNEL, HostedPoints(gram.x)))
    kinds = [rows_of(gram, 10), FusedRows(gram), StoredRows(K), CachedRows(gram, 10), tight]
    kinds.append(resident)
    for rows in kinds:
        for some in (chosen, chosen + 7, chosen):
            values = np.ones(60)
            rows.add(some, np.array([1.0, -2.0, 0.5]), values)
            assert np.allclose(rows.block(some), K[np.ix_(some, some)])
            assert np.allclose(values, 1.0 + K[:, some] @ [1.0, -2.0, 0.5])
    assert tight.store.shape == (3, 60)
    pair = PairRows(K[:10, :10].copy(), K[10:30, 10:30].copy(), K[:10, 10:30].copy())
    some, values = np.array([0, 3, 12, 29]), np.zeros(30)
    pair.add(some, np.array([1.0, 3.0, -1.0, 0.5]), values)
    assert np.allclose(values, K[:30, some] @ [1.0, 3.0, -1.0, 0.5])
    assert np.allclose(pair.block(some), K[np.ix_(some, some)])


@pytest.mark.parametrize("rows", [FusedRows, lambda gram: CachedRows(gram, 64, "2MB")])
@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.2)], ids=["hinge", "epsilon"])
@pytest.mark.parametrize("intercept", [False, True])
def test_shrinking_changes_the_way_and_not_the_end(rows, loss, intercept, monkeypatch):
    """The gap of all coefficients, by code that shares nothing, after most were left alone."""
    task = problem(loss, 600, intercept, weighted=False, regularization=1e-3)
    asides = []
    without = ascent.without

    def recorded(ascent, rest, *more):
        asides.append(rest.copy())
        without(ascent, rest, *more)
        if len(rest) == 600:  # values of those that rested, too
            assert np.allclose(ascent.values, task.gram @ ascent.alpha, atol=1e-9)

    monkeypatch.setattr("mercer.solvers.dual.ascent.without", recorded)
    solver = DualAscent(1e-6, working_set=64, shrinking=True)
    solution = solver.solve(task, rows(task.gram))
    gap, primal = independent_gap(task, solution)
    assert solution.status.converged
    assert gap <= 1.001e-6 * primal
    assert len(asides) > 0
    assert max(int(rest.sum()) for rest in asides) > 150
    count = len(asides)
    plain = replace(solver, shrinking=False).solve(task, rows(task.gram))
    assert len(asides) == count
    assert plain.objective == pytest.approx(solution.objective, rel=2e-6)


def test_rows_that_are_kept_go_along_when_points_leave():
    gram = KERNEL.gram(data(60)[0])
    K, rows = gram.dense(), CachedRows(gram, 10, memory=20 * 60 * 8)
    rows.block(np.arange(5, 25))
    memory, before = rows.numbers, gram.evaluations
    active = np.array([0, 6, 7, 20, 40, 59])
    part = rows.part(active)
    assert part.numbers is memory  # no more memory than before
    assert np.allclose(part.block(np.array([1, 2, 3])), K[np.ix_([6, 7, 20], [6, 7, 20])])
    assert part.gram.evaluations == 0  # rows 6, 7 and 20 were there
    assert np.allclose(part.block(np.arange(6)), K[np.ix_(active, active)])
    values = np.zeros(60)
    rows.add_to(np.array([3, 50]), np.array([6, 20]), np.array([1.0, -2.0]), values)
    assert np.allclose(values[[3, 50]], K[np.ix_([3, 50], [6, 20])] @ [1.0, -2.0])
    assert np.count_nonzero(values) == 2
    assert gram.evaluations == before + 4
    assert np.allclose(rows.block(np.arange(8)), K[:8, :8])  # computed again


def test_values_that_cannot_matter_are_not_computed_again():
    X, y, _ = data(1500)
    gram = KERNEL.gram(X)
    task = Problem(gram, y, Hinge(), 1e-3, fit_intercept=True)
    solution = DualAscent(1e-4, mixed=True, working_set=128).solve(task)
    gap, primal = independent_gap(task, solution)
    assert solution.gap == pytest.approx(gap, rel=1e-6)
    assert solution.objective == pytest.approx(primal, rel=1e-12)


def test_rounds_are_told_and_can_be_stopped():
    X, y, _ = data(300)
    both = np.stack([y, -y], axis=1)
    told = []
    task = Problem(KERNEL.gram(X), both, Hinge(), 1e-3, fit_intercept=True)
    solver = DualAscent(1e-6, working_set=32, callback=lambda t, state: told.append((t, state)))
    whole = solver.solve(task)
    assert [t for t, _ in told] == list(range(1, len(told) + 1))
    state = told[-1][1]
    assert state.coefficients.shape == (300, 2)
    assert state.objective == pytest.approx(whole.objective, rel=1e-4)
    assert (told[0][1].coefficients[:, 1] == 0).all()  # the second output has not begun
    stopped = DualAscent(1e-6, working_set=32, callback=lambda t, state: t == 2).solve(
        Problem(KERNEL.gram(X), y, Hinge(), 1e-3, fit_intercept=True)
    )
    assert not stopped.status.converged
    assert stopped.status.advice == "The callback ended it."


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("kind", ["fused", "kept", "precomputed", "float32"])
def test_larger_problems_reach_the_gap(kind, mixed):
    X, y, _ = data(1200)
    kernel = BlockKernel(KERNEL) if kind == "kept" else KERNEL
    gram = kernel.gram(X.astype(np.float32) if kind == "float32" else X)
    if kind == "precomputed":
        gram = Precomputed(KERNEL(X)).gram(range(len(X)))
    task = Problem(gram, y, Hinge(), 1e-3, fit_intercept=True)
    cache = "1MB" if kind == "kept" else None
    solution = DualAscent(1e-5, working_set=64, cache=cache, mixed=mixed).solve(task)
    same = Problem(KERNEL.gram(X), y, Hinge(), 1e-3, fit_intercept=True)
    gap, primal = independent_gap(same, solution)
    assert solution.coefficients.dtype == np.float64
    assert gap <= (1e-4 if kind == "float32" else 1.001e-5) * primal
    assert solution.status.converged
    assert solution.history["relative_gap"][-1] <= 1e-5


def test_several_outputs_are_solved_one_by_one():
    X, y, _ = data(40)
    both = np.stack([y, -y], axis=1)
    solution = DualAscent(1e-10).solve(
        Problem(KERNEL.gram(X), both, Hinge(), 0.01, fit_intercept=True)
    )
    assert solution.coefficients.shape == (40, 2)
    assert np.allclose(solution.coefficients[:, 0], -solution.coefficients[:, 1])
    assert np.allclose(solution.intercept[0], -solution.intercept[1])


def test_one_label_gives_the_constant_function():
    task = Problem(KERNEL.gram(np.eye(2)), np.ones(2), Hinge(), 0.1, fit_intercept=True)
    solution = DualAscent().solve(task)
    assert (solution.coefficients == 0).all()
    assert (solution.objective, solution.intercept, solution.gap) == (0.0, 1.0, 0.0)


# ---- λ = 0 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()])
def test_without_regularisation_the_margin_is_the_widest(loss):
    X = np.array([[0.0, 0.0], [0.0, 1.0], [2.0, 0.0], [3.0, 1.0], [9.0, 0.5]])
    y, weights = np.array([-1.0, -1.0, 1.0, 1.0, -1.0]), np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    gram = Linear().gram(X)
    solution = DualAscent(1e-9).solve(Problem(gram, y, loss, 0.0, weights, fit_intercept=True))
    assert np.allclose(X.T @ solution.coefficients, [1.0, 0.0], atol=1e-6)
    assert solution.intercept == pytest.approx(-1.0, abs=1e-6)
    assert solution.objective == pytest.approx(0.0, abs=1e-15)
    assert "separates with least norm" in str(solution.status)


def test_the_widest_margin_is_the_limit_of_large_costs():
    X, y, _ = data(40)
    gram = KERNEL.gram(X)
    hard = DualAscent(1e-8).solve(Problem(gram, y, Hinge(), 0.0, fit_intercept=True))
    soft = DualAscent(1e-8).solve(Problem(gram, y, Hinge(), 1e-9, fit_intercept=True))
    margins = y * (gram @ hard.coefficients + hard.intercept)
    assert margins.min() >= 1 - 1e-9
    assert np.allclose(gram @ hard.coefficients, gram @ soft.coefficients, atol=1e-2)


def test_labels_that_nothing_separates_are_refused():
    line = Linear().gram(np.array([[0.0], [1.0], [2.0], [3.0]]))
    y = np.array([-1.0, 1.0, 1.0, -1.0])
    with pytest.raises(ValueError, match="separates the labels, and there is none"):
        DualAscent().solve(Problem(line, y, Hinge(), 0.0, fit_intercept=True))
    with pytest.raises(ValueError, match=r"found in 2 steps \(max_iterations=2\)"):
        DualAscent(max_iterations=2).solve(Problem(line, y, Hinge(), 0.0, fit_intercept=True))
    twice = KERNEL.gram(np.zeros((2, 1)))
    with pytest.raises(ValueError, match=r"write a regularization > 0\."):
        DualAscent().solve(Problem(twice, np.array([1.0, -1.0]), Hinge(), 0.0, None, True))
    with pytest.raises(ValueError, match="needs points of both labels with positive weight"):
        DualAscent().solve(Problem(twice, np.ones(2), Hinge(), 0.0, None, True))


# ---- what is refused, what is admitted -----------------------------------------------------------


def test_what_it_cannot_do_is_refused():
    gram = KERNEL.gram(np.eye(2))
    with pytest.raises(ValueError, match=r"conjugate is quadratic .*; got Multinomial"):
        DualAscent().solve(Problem(gram, np.arange(2.0), Multinomial(), 0.1))
    with pytest.raises(ValueError, match=r"or a smooth expression .*; got Smoothed"):
        DualAscent().solve(Problem(gram, np.ones(2), Smoothed(Hinge(), 0.1), 0.1))
    with pytest.raises(ValueError, match=r"regularization=0 finds the separating.*Direct\(\)"):
        DualAscent().solve(Problem(gram, np.ones(2), Squared(), 0.0))
    for options, text in [
        ({"tolerance": 0.0}, "needs a finite tolerance > 0; got 0.0"),
        ({"max_iterations": 0}, "needs a whole number max_iterations ≥ 1; got 0"),
        ({"working_set": 1}, "needs a working_set of at least 2; got 1"),
    ]:
        with pytest.raises(ValueError, match=text):
            DualAscent(**options)


def test_a_cap_that_is_hit_is_admitted_with_advice():
    X, y, _ = data(200)
    task = Problem(KERNEL.gram(X), y, Hinge(), 1e-12, fit_intercept=True)
    solution = DualAscent(max_iterations=50).solve(task)
    assert not solution.status.converged
    assert "Scale the columns of X" in str(solution.status)
    assert "raise max_iterations=50" in str(solution.status)
    assert solution.history["steps"] == [50]


def test_an_unreachable_tolerance_ends():
    solution = DualAscent(tolerance=1e-300, working_set=20).solve(problem(Hinge()))
    assert not solution.status.converged
    assert "The rest is rounding" in solution.status.advice
    assert solution.gap <= 1e-12


def test_a_tight_tolerance_is_met_by_linear_systems_where_steps_would_not_end():
    X, y, _ = data(1100, 2, labels=False)
    task = Problem(KERNEL.gram(X), y, EpsilonInsensitive(0.1), 1e-5, None, True)
    solution = DualAscent(1e-10, max_iterations=250_000).solve(task)
    gap, primal = independent_gap(task, solution)
    assert solution.status.converged
    assert gap <= 1.1e-10 * primal


def test_answers_are_the_same_every_time():
    X, y, _ = data(1100)
    task = Problem(KERNEL.gram(X), y, Hinge(), 1e-3, fit_intercept=True)
    first, second = (DualAscent(working_set=128).solve(task) for _ in range(2))
    assert np.array_equal(first.coefficients, second.coefficients)


def test_a_gap_is_never_below_its_rounding():
    """With 2 points and λ = 1e-5 the gap was said to be 0.0, and is 9e-11."""
    X, y = np.array([[3.0], [-11.0]]), np.array([1.0, -2.0])
    task = Problem(Linear(1.0).gram(X), y, Absolute(), 1e-5)
    solution = DualAscent(1e-6).solve(task)
    assert solution.gap > 0.0
    large = Problem(Polynomial(2).gram(100.0 * X), y, Absolute(), 1e-3, fit_intercept=True)
    solution = DualAscent(1e-12).solve(large)
    assert solution.gap > 1e-14 * solution.objective
    assert not solution.status.converged
    assert "rounding" in solution.status.advice or "too small" in solution.status.advice
