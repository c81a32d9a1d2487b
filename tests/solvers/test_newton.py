"""Newton's method: its answers, its certificates, its paths, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loss_formulas import slope
from mercer.errors import NotPositiveDefiniteError
from mercer.kernels import Gaussian, Linear, PairKernel, Polynomial, Precomputed
from mercer.losses import Hinge, Huber, Logistic, Multinomial, Poisson, Squared, SquaredHinge
from mercer.operators import Gram
from mercer.solvers import (
    Cholesky,
    Direct,
    Eigen,
    Newton,
    PivotedCholesky,
    Problem,
    Splitting,
    all_points,
    certified_gap,
    regularization_path,
)
from mercer.solvers.all_points import At, step_length
from mercer.solvers.newton import Tuning
from regularised import (
    CLASSES,
    COUNTS,
    CURVE,
    KERNEL,
    KINKED,
    LABELS,
    NOISY,
    SMOOTH,
    WEIGHTS,
    K,
    N,
    X,
    dual_objective,
    least,
    objective,
)


def task(name, ridge=0.01, weights=None, fit_intercept=False, kernel=KERNEL):
    loss, y = (SMOOTH | KINKED)[name]
    return Problem(kernel.gram(X), y, loss, ridge, weights, fit_intercept)


def recomputed(name, solution, ridge, weights, gram=K):
    """Objective and gap of a smooth loss at a solution, by code that shares nothing with mercer."""
    loss, y = SMOOTH[name]
    alpha, b = solution.coefficients, solution.intercept
    u = slope(loss, y, gram @ alpha + b)
    primal = objective(name, y, alpha, b, ridge, weights, gram)
    return primal, primal - dual_objective(name, y, u, ridge, weights, gram), u


# ---- the answer ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
@pytest.mark.parametrize("name", SMOOTH)
def test_the_objective_is_least_and_the_gap_is_true(name, weights, fit_intercept):
    ridge = 0.003
    solution = Newton(1e-9).solve(task(name, ridge, weights, fit_intercept))
    assert solution.status.converged
    primal, gap, u = recomputed(name, solution, ridge, weights)
    assert solution.objective == pytest.approx(primal, abs=1e-13)
    assert -1e-12 <= gap <= 1e-9 * abs(primal) + 1e-12
    assert solution.gap == pytest.approx(gap, abs=1e-12)
    reference = least(name, SMOOTH[name][1], ridge, weights, fit_intercept)
    assert primal == pytest.approx(reference, abs=1e-8)
    if fit_intercept:  # the dual's constraint
        p = np.ones(N) if weights is None else weights
        assert np.allclose(p @ u / p.sum(), 0.0, rtol=0, atol=1e-14)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("name", SMOOTH)
def test_all_ways_to_the_direction_and_splitting_agree(name, fit_intercept):
    problem = task(name, 0.003, WEIGHTS, fit_intercept)
    solvers = [
        Newton(1e-10, factor=True),
        Newton(1e-10, factor=False),
        Newton(1e-10, root=Eigen()),
        Newton(1e-10, root=PivotedCholesky(0.0)),
        Splitting(1e-7),
    ]
    truth = Newton(1e-11).solve(problem)
    values = problem.gram @ truth.coefficients + truth.intercept
    for solver in solvers:
        solution = solver.solve(problem)
        assert solution.status.converged, solver
        assert solution.objective == pytest.approx(truth.objective, rel=2e-7)
        found = problem.gram @ solution.coefficients + solution.intercept
        assert np.allclose(found, values, atol=5e-3 if solver is solvers[-1] else 1e-4)


def test_squared_loss_is_ridge_regression():
    problem = task("squared", 0.01, WEIGHTS, True)
    ours, direct = Newton(1e-12).solve(problem), Direct().solve(problem)
    assert np.allclose(ours.coefficients, direct.coefficients, atol=1e-6)
    assert ours.intercept == pytest.approx(direct.intercept, abs=1e-6)


@pytest.mark.parametrize("name", ["logistic", "multinomial", "poisson", "several"])
def test_a_weight_is_a_repetition(name):
    loss, y = SMOOTH[name]
    counts = WEIGHTS.astype(int)
    repeated = np.repeat(np.arange(N), counts)
    once = Newton(1e-12).solve(Problem(KERNEL.gram(X), y, loss, 0.01, WEIGHTS, True))
    often = Newton(1e-12).solve(
        Problem(KERNEL.gram(X[repeated]), y[repeated], loss, 0.01, None, True)
    )
    assert once.objective == pytest.approx(often.objective, rel=1e-11)
    values = K @ once.coefficients + once.intercept
    assert np.allclose(
        values, KERNEL.gram(X, X[repeated]) @ often.coefficients + often.intercept, atol=1e-5
    )


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("ridge", [1e-8, 1e2])
def test_it_converges_for_every_ridge(name, ridge):
    solution = Newton(1e-6).solve(task(name, ridge, None, True))
    assert solution.status.converged, solution.status
    primal, gap, _ = recomputed(name, solution, ridge, None)
    assert gap <= 1e-6 * max(abs(primal), 1e-9) + 1e-13


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_counts_of_any_size(fit_intercept):
    """The first step of Newton's method overflows here: the line search brings it back."""
    problem = Problem(KERNEL.gram(X), 1e5 * COUNTS, Poisson(), 0.1, None, fit_intercept)
    for factor in (True, False):
        assert Newton(1e-8, factor=factor).solve(problem).status.converged


def test_flat_pieces_that_defeat_plain_steps_are_passed_by_easier_problems():
    problem = Problem(KERNEL.gram(X), 20.0 * NOISY, Huber(0.01), 1e-9, None, True)
    solution = Newton(1e-8).solve(problem)
    assert solution.status.converged, solution.status


def test_multinomial_with_two_classes_is_logistic_with_twice_the_ridge():
    """Scores ±f/2 have the squared norm ‖f‖²/2."""
    labels = (LABELS > 0).astype(float)
    two = Newton(1e-12).solve(Problem(KERNEL.gram(X), labels, Multinomial(), 0.02))
    one = Newton(1e-12).solve(Problem(KERNEL.gram(X), LABELS, Logistic(), 0.01))
    assert np.allclose(two.coefficients[:, 1] - two.coefficients[:, 0], one.coefficients, atol=1e-7)
    assert two.objective == pytest.approx(one.objective, rel=1e-10)


# ---- precision and storage -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["logistic", "multinomial"])
def test_a_matrix_in_float32_still_gives_the_digits_of_float64(name):
    problem = task(name, 1e-4, None, True)
    truth = Newton(1e-12).solve(problem)
    large = Tuning(all_points=all_points.Tuning(stored=0, factored=0))
    solution = Newton(1e-11, tuning=large).solve(problem)
    assert "float32" in str(solution.status)
    assert solution.status.converged, solution.status
    assert solution.objective == pytest.approx(truth.objective, rel=1e-11)
    poor = Tuning(all_points=all_points.Tuning(stored=0, stored_share=0.0))
    lazy = Newton(1e-11, tuning=poor).solve(problem)
    assert "computed for each product" in str(lazy.status)
    assert lazy.objective == pytest.approx(truth.objective, rel=1e-11)


def test_float32_points_give_float32_coefficients_and_a_true_gap():
    gram = KERNEL.gram(X.astype(np.float32))
    solution = Newton(1e-6).solve(Problem(gram, LABELS, Logistic(), 0.01, None, True))
    assert solution.coefficients.dtype == np.float32
    again = certified_gap(
        Problem(gram, LABELS, Logistic(), 0.01, None, True),
        solution.coefficients,
        solution.intercept,
    )
    assert solution.status.converged
    assert solution.gap == pytest.approx(again.absolute, abs=1e-12)


def test_few_features_are_used_and_nothing_of_the_size_of_the_points_squared_is_made():
    rng = np.random.default_rng(0)
    many = rng.standard_normal((3000, 3))
    y = np.where(many[:, 0] + rng.standard_normal(3000) > 0, 1.0, -1.0)
    problem = Problem(Polynomial(degree=2).gram(many, memory="4MB"), y, Logistic(), 0.001)
    solution = Newton(1e-10).solve(problem)
    assert "10 explicit features" in str(solution.status)
    assert solution.status.converged
    assert problem.gram.evaluations == 0


def test_a_root_with_a_tolerance_says_what_it_costs():
    rough = Newton(1e-10, root=PivotedCholesky(rank=3)).solve(task("logistic", 1e-4))
    fine = Newton(1e-4, root=PivotedCholesky(1e-9)).solve(task("logistic", 1e-4))
    assert not rough.status.converged
    assert "lower its tolerance" in str(rough.status)
    assert fine.status.converged
    truth = objective("logistic", LABELS, rough.coefficients, 0.0, 1e-4)
    assert rough.objective == pytest.approx(truth, rel=1e-12)
    assert rough.objective - rough.gap <= Newton().solve(task("logistic", 1e-4)).objective


def test_slow_kernels_are_computed_once():
    calls = []

    def product(a, b):
        calls.append(1)
        return float(a @ b)

    gram = PairKernel(product).gram(X[:20])
    Newton(1e-9).solve(Problem(gram, LABELS[:20], Logistic(), 0.01, None, True))
    assert len(calls) <= 20 * 20 + 2 * 20  # and its diagonal


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_two_exact_products_certify_what_float32_solved(monkeypatch, dtype):
    """Kα and Kg where the products become exact are those of the gap; a third was Kα again.

    For float32 points α is rounded there as it will be stored: rounding it later took two more.
    """
    exact, product = [], Gram.__matmul__

    def counted(gram, values):
        exact.append(gram.dtype == np.float64 and np.ndim(values) == 2)
        return product(gram, values)

    monkeypatch.setattr(Gram, "__matmul__", counted)
    tuning = Tuning(all_points=all_points.Tuning(stored=N // 2))
    gram = KERNEL.gram(X.astype(dtype))
    problem = Problem(gram, CLASSES, Multinomial(), 1e-3, fit_intercept=True)
    solution = Newton(1e-4, tuning=tuning).solve(problem)
    assert solution.status.converged
    assert solution.coefficients.dtype == dtype
    assert "float32" in str(solution.status)
    assert sum(exact) == 2
    monkeypatch.undo()
    again = certified_gap(problem, solution.coefficients, solution.intercept)
    assert solution.gap == pytest.approx(again.absolute, rel=1e-6, abs=1e-12 * again.objective)


# ---- the path ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["logistic", "multinomial", "poisson"])
def test_a_path_is_the_solutions_one_by_one_and_cheaper(name):
    ridges = np.geomspace(1.0, 1e-5, 16)
    problem = task(name, 1.0, WEIGHTS, True)
    points = regularization_path(problem, ridges, Newton(1e-8, factor=False))
    path = [point.solution for point in points]
    singles = [
        Newton(1e-8, factor=False).solve(task(name, float(r), WEIGHTS, True)) for r in ridges
    ]
    for warm, cold, ridge in zip(path, singles, ridges, strict=True):
        assert warm.status.converged
        assert warm.objective == pytest.approx(cold.objective, rel=1e-7)
        assert recomputed(name, warm, ridge, WEIGHTS)[1] <= 2e-8 * abs(warm.objective) + 1e-13
    steps = [sum(len(s.history["gap"]) for s in runs) for runs in (path, singles)]
    assert steps[0] < 0.75 * steps[1]


def test_a_start_is_used_and_checked():
    problem = task("logistic")
    solution = Newton(1e-10).solve(problem)
    again = Newton(1e-10).solve(problem, start=solution)
    assert len(again.history["gap"]) == 1
    with pytest.raises(ValueError, match=r"shape \(60, 3\) of the targets; got \(60,\)"):
        Newton().solve(task("multinomial"), start=solution)


# ---- the line search -----------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_steps_are_found_at_every_scale(scale):
    def wall(t):
        with np.errstate(over="ignore"):
            e = np.exp(np.float64(t) / scale)
        return At(float(e - 3 * t / scale), float((e - 3) / scale), float(e / scale**2))

    t = step_length(wall, wall(0.0))
    assert abs(wall(t).slope) <= 0.3 * abs(wall(0.0).slope)
    assert wall(t).value < wall(0.0).value
    assert step_length(lambda t: At(t, 1.0, 0.0), At(0.0, 1.0, 0.0)) == 0.0


# ---- refusals and honest failures ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["logistic", "multinomial", "poisson"])
def test_without_regularisation_there_may_be_no_minimum(name):
    with pytest.raises(ValueError, match=r"may have no minimum: .* Write regularization > 0"):
        Newton().solve(task(name, 0.0))
    with pytest.raises(ValueError, match="may have no minimum"):
        next(regularization_path(task(name), [0.1, 0.0], Newton()))


@pytest.mark.parametrize("loss", [SquaredHinge(), Huber()])
def test_the_gap_needs_regularisation(loss):
    with pytest.raises(ValueError, match="Newton needs regularization > 0"):
        Newton().solve(Problem(KERNEL.gram(X), LABELS, loss, 0.0))


def test_losses_with_kinks_are_refused():
    with pytest.raises(ValueError, match=r"smooth loss; got Hinge\(\), .* Write DualAscent\(\)"):
        Newton().solve(Problem(KERNEL.gram(X), LABELS, Hinge(), 0.1))


@pytest.mark.parametrize(
    ("loss", "y"),
    [(Logistic(), np.ones(N)), (Poisson(), np.zeros(N)), (Multinomial(), np.eye(3)[[1] * N])],
)
def test_one_kind_of_targets_has_no_best_intercept(loss, y):
    with pytest.raises(ValueError, match=r"has no best intercept: .* write fit_intercept=False"):
        Newton().solve(Problem(KERNEL.gram(X), y, loss, 0.1, None, True))
    assert Newton().solve(Problem(KERNEL.gram(X), y, loss, 0.1)).status.converged


@pytest.mark.parametrize("factor", [True, False])
def test_indefinite_matrices_are_refused_with_a_witness(factor):
    matrix = K - 0.9 * np.diag(np.linspace(0.0, 3.0, N))
    problem = Problem(Precomputed(matrix).gram(np.arange(N)), CURVE, Squared(), 1e-4)
    with pytest.raises(NotPositiveDefiniteError, match="Expected a positive definite kernel"):
        Newton(1e-10, factor=factor).solve(problem)
    if not factor:
        noise = np.random.default_rng(0).standard_normal((N, N))
        gram = Precomputed(noise + noise.T).gram(np.arange(N))
        with pytest.raises(NotPositiveDefiniteError) as refusal:
            Newton().solve(Problem(gram, LABELS, Logistic(), 0.01, None, True))
        v = refusal.value.witness
        assert v @ (gram @ v) < 0


def test_a_limit_that_was_hit_is_named():
    solution = Newton(1e-12, iterations=1).solve(task("poisson", 1e-6))
    assert not solution.status.converged
    assert "Stopped by the limit of 1 Newton steps for each λ" in str(solution.status)
    assert "Allow more time or iterations" in str(solution.status)
    again = certified_gap(task("poisson", 1e-6), solution.coefficients).absolute
    assert solution.gap == pytest.approx(again)


@pytest.mark.parametrize("bad", [{"tolerance": 0.0}, {"tolerance": "x"}, {"iterations": 0}])
def test_knobs_are_checked(bad):
    with pytest.raises(ValueError, match=f"Newton needs .*{next(iter(bad))}"):
        Newton(**bad)


def test_nothing_counts_that_has_no_weight():
    y = COUNTS.copy()
    y[0] = 1e300  # would overflow everything
    w = np.ones(N)
    w[0] = 0.0
    solution = Newton(1e-10).solve(Problem(KERNEL.gram(X), y, Poisson(), 0.01, w, True))
    rest = Newton(1e-10).solve(Problem(KERNEL.gram(X[1:]), COUNTS[1:], Poisson(), 0.01, None, True))
    assert solution.objective == pytest.approx(rest.objective, rel=1e-9)
    assert CLASSES.max() == 2  # three classes in all of these tests


def test_cholesky_root():
    spread = np.linspace(-3.0, 3.0, 12)[:, None]
    y = np.where(spread[:, 0] > 0, 1.0, -1.0)
    problem = Problem(Gaussian(0.4).gram(spread), y, Logistic(), 0.01)
    assert Newton(1e-9, root=Cholesky()).solve(problem).status.converged
    assert Newton(1e-9).solve(Problem(Linear().gram(X), LABELS, Logistic(), 0.1)).status.converged


@pytest.mark.parametrize("solver", [Newton(1e-12), Splitting(1e-6)], ids=["newton", "splitting"])
def test_callbacks_are_told_and_may_stop(solver):
    seen = []

    def watch(iteration, state):
        seen.append((iteration, state.objective))
        return len(seen) == 3

    problem = task("logistic", 1e-5, WEIGHTS, True)
    stopped = replace(solver, callback=watch).solve(problem)
    assert not stopped.status.converged
    objectives = [value for _, value in seen]
    assert len(seen) == 3
    assert objectives == sorted(objectives, reverse=True)
    assert stopped.objective == pytest.approx(objectives[-1])
    seen.clear()
    assert replace(solver, callback=lambda *_: seen.append(1)).solve(problem).status.converged
    assert len(seen) > 3
