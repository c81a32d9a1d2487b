"""Ridge by factorisation against (K + nλ W⁻¹)α = y, solved by NumPy in float64."""

from __future__ import annotations

import copy
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest

from mercer.functions import RKHSFunction
from mercer.kernels import Gaussian, Linear, Matern, Polynomial, Precomputed, Sigmoid
from mercer.losses import Absolute, Squared
from mercer.solvers import Direct, Problem, direct

N = 40
EPS = np.finfo(np.float64).eps
DUAL, MIXED = Direct(mixed=False, primal=False), Direct(mixed=True, primal=False)
KERNELS = {"gaussian": Gaussian(0.8), "matern": Matern(1.5), "sum": Gaussian() + Linear(1.0)}
WEIGHTS = {
    "none": None,
    "positive": np.random.default_rng(1).uniform(0.2, 3.0, N),
    "some-zero": np.random.default_rng(2).integers(0, 3, N).astype(float),
}


def points(n=N, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((n, 2)).astype(dtype)


def values(X, outputs=None, seed=3):
    noise = np.random.default_rng(seed).standard_normal((len(X), outputs or 1))
    y = np.sin(2 * X[:, :1]) + X[:, 1:2] * np.arange(1, 1 + (outputs or 1)) + 0.3 * noise
    return y if outputs else y[:, 0]


def problem(
    kernel=KERNELS["gaussian"], regularization=1e-3, weights=None, intercept=False, outputs=None,
    n=N, dtype=np.float64,
):  # fmt: skip
    X = points(n, dtype=dtype)
    y = values(X.astype(np.float64), outputs)
    return Problem(kernel.gram(X), y, Squared(), regularization, weights, intercept)


def gram_in_float64(given):
    """K from the formula's own side: a dense matrix of the same points as float64."""
    if isinstance(given.gram.kernel, Precomputed):
        return np.asarray(given.gram.kernel.matrix, np.float64)
    return given.gram.kernel.gram(given.gram.x.rows.astype(np.float64)).dense()


def weights_of(given):
    n = given.gram.shape[0]
    return np.ones(n) if given.weights is None else np.asarray(given.weights, np.float64)


def by_formula(given):
    """Give α, b and the condition number, by the system of the points that have weight.

    (K + ρ W⁻¹)α + b1 = y and 1ᵀα = 0 with ρ = λΣw; points of weight 0 have α = 0.
    """
    K, w = gram_in_float64(given), weights_of(given)
    y = np.asarray(given.targets).reshape(len(w), -1)
    kept = np.flatnonzero(w)
    system = K[np.ix_(kept, kept)] + np.diag(given.regularization * w.sum() / w[kept])
    sides = y[kept]
    if given.fit_intercept:
        ones = np.ones((len(kept), 1))
        system = np.block([[system, ones], [ones.T, np.zeros((1, 1))]])
        sides = np.concatenate([sides, np.zeros((1, y.shape[1]))])
    solved = np.linalg.solve(system, sides)
    alpha = np.zeros_like(y)
    alpha[kept] = solved[: len(kept)]
    b = solved[-1] if given.fit_intercept else np.zeros(y.shape[1])
    return alpha.reshape(given.targets.shape), b, np.linalg.cond(system)


def relative(answer, truth):
    return np.linalg.norm(np.asarray(answer) - truth) / np.linalg.norm(truth)


def residual_of(given, alpha, b):
    """‖S(Kα + b − y) + ρS⁻¹α‖/‖Sy‖ in float64, from the dense matrix."""
    K, w = gram_in_float64(given), weights_of(given)
    y = np.asarray(given.targets, np.float64).reshape(len(w), -1)
    alpha = np.asarray(alpha, np.float64).reshape(y.shape)
    kept, s = w > 0, np.sqrt(w)[:, None]
    gap = s * (K @ alpha + b - y)
    gap[kept] += given.regularization * w.sum() * alpha[kept] / s[kept]
    return np.linalg.norm(gap) / np.linalg.norm(s * y)


# ---- the formula ---------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [DUAL, MIXED, Direct()], ids=["factored", "refined", "auto"])
@pytest.mark.parametrize("outputs", [None, 1, 3])
@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_it_solves_the_system_of_the_formula(kernel, weights, intercept, outputs, solver):
    given = problem(kernel, 1e-3, weights, intercept, outputs)
    alpha, b, condition = by_formula(given)
    solution = solver.solve(given)
    assert solution.coefficients.shape == given.targets.shape
    assert relative(solution.coefficients, alpha) < 50 * EPS * condition
    assert np.allclose(solution.intercept, b, rtol=0, atol=50 * EPS * condition)
    assert np.shape(solution.intercept) == (() if outputs is None else (outputs,))
    assert solution.status.converged


@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
def test_without_an_intercept_it_is_zero_and_with_one_coefficients_sum_to_zero(intercept):
    solution = DUAL.solve(problem(intercept=intercept, weights=WEIGHTS["some-zero"]))
    if intercept:
        total = np.abs(solution.coefficients).sum()
        assert abs(solution.coefficients.sum()) < N * EPS * total
        assert abs(solution.intercept) > 0.01
    else:
        assert solution.intercept == 0.0


def test_points_without_weight_have_no_coefficient():
    weights = WEIGHTS["some-zero"]
    solution = DUAL.solve(problem(weights=weights))
    assert (solution.coefficients[weights == 0] == 0).all()
    assert (solution.coefficients[weights > 0] != 0).all()


@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
def test_float32_stays_float32_and_has_its_digits(weights, intercept):
    given = problem(weights=weights, intercept=intercept, dtype=np.float32, regularization=1e-2)
    alpha, b, condition = by_formula(given)
    solution = Direct().solve(given)
    assert solution.coefficients.dtype == np.float32
    unit = np.finfo(np.float32).eps
    assert relative(solution.coefficients, alpha) < unit * condition
    assert np.allclose(solution.intercept, b, atol=unit * condition)
    assert "float32" in solution.status.message


def test_the_ridge_is_the_regularisation_times_the_weights():
    """λ is per unit of weight: twice the weights with the same λ is the same problem."""
    weights = WEIGHTS["positive"]
    once, twice = (DUAL.solve(problem(weights=factor * weights)) for factor in (1.0, 2.0))
    _, _, condition = by_formula(problem(weights=weights))
    assert relative(twice.coefficients, once.coefficients) < 10 * EPS * condition


# ---- what weights mean ---------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [DUAL, MIXED], ids=["factored", "refined"])
@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
def test_a_weight_is_a_number_of_repetitions(intercept, solver):
    X, counts = points(), np.random.default_rng(5).integers(0, 4, N)
    y, kernel, ridge = values(X), Gaussian(0.8), 0.05
    repeated, targets = np.repeat(X, counts, axis=0), np.repeat(y, counts)
    weighted = Problem(kernel.gram(X), y, Squared(), ridge, counts.astype(float), intercept)
    spelled_out = Problem(kernel.gram(repeated), targets, Squared(), ridge, None, intercept)
    new = points(7, seed=9)
    first, second = solver.solve(weighted), solver.solve(spelled_out)
    f = kernel.gram(new, X) @ first.coefficients + first.intercept
    g = kernel.gram(new, repeated) @ second.coefficients + second.intercept
    condition = (1 + 1 / ridge) * 10
    assert np.allclose(f, g, rtol=0, atol=20 * EPS * condition * np.abs(y).max())
    assert np.isclose(first.objective, second.objective, rtol=1e-13)


# ---- the objective -------------------------------------------------------------------------------


def objective_in_float64(given, alpha, b):
    K, w = gram_in_float64(given), weights_of(given)
    y = np.asarray(given.targets, np.float64).reshape(len(w), -1)
    alpha = np.asarray(alpha, np.float64).reshape(y.shape)
    squares = 0.5 * ((K @ alpha + b - y) ** 2).sum(axis=1)
    return w @ squares / w.sum() + 0.5 * given.regularization * np.sum(alpha * (K @ alpha))


@pytest.mark.parametrize("solver", [DUAL, MIXED], ids=["factored", "refined"])
@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
def test_the_objective_is_minimal(weights, intercept, outputs, solver):
    given = problem(weights=weights, intercept=intercept, outputs=outputs)
    solution = solver.solve(given)
    alpha, b = solution.coefficients, np.asarray(solution.intercept)
    least = objective_in_float64(given, alpha, b)
    assert np.isclose(solution.objective, least, rtol=1e-12)
    assert np.isclose(given.objective(alpha, solution.intercept), least, rtol=1e-12)
    rng = np.random.default_rng(0)
    for _ in range(20):
        direction = rng.standard_normal(alpha.shape)
        for step in (1e-3, -1e-3):
            assert objective_in_float64(given, alpha + step * direction, b) > least
            if intercept:
                assert objective_in_float64(given, alpha, b + step) > least


# ---- the truth about the residual ----------------------------------------------------------------


@pytest.mark.parametrize("solver", [DUAL, MIXED], ids=["factored", "refined"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
def test_the_gap_is_the_true_residual(weights, intercept, dtype, solver):
    given = problem(weights=weights, intercept=intercept, dtype=dtype, regularization=1e-6)
    solution = solver.solve(given)
    truth = residual_of(given, solution.coefficients, solution.intercept)
    condition = by_formula(given)[2]
    noise = 20 * EPS * np.sqrt(condition)
    scale = np.linalg.norm(np.sqrt(given.sample_weights) * given.targets) / np.sqrt(
        given.sample_weights.sum()
    )
    rounding = 10 * EPS * np.linalg.norm(solution.coefficients.astype(float)) / scale
    assert 0.5 * truth - noise <= solution.gap <= 1.5 * truth + noise + rounding
    assert f"{solution.gap:.1e}" in solution.status.message
    if dtype == np.float32:
        assert solution.gap > 1e-9  # a float32 answer cannot be better, and does not claim to be


def test_a_gap_is_large_where_the_answer_is_bad(monkeypatch):
    """The gap is computed from the answer, so spoiling the answer shows."""
    given = problem()
    solve = direct.linalg.Factor.solve
    monkeypatch.setattr(direct.linalg.Factor, "solve", lambda self, b: 1.01 * solve(self, b))
    solution = DUAL.solve(given)
    truth = residual_of(given, solution.coefficients, solution.intercept)
    assert np.isclose(truth, 0.01, rtol=1e-6)
    assert np.isclose(solution.gap, truth, rtol=1e-6)


def test_a_bad_answer_is_not_called_solved():
    asymmetric = np.triu(np.ones((4, 4))) + 4 * np.eye(4)
    given = Problem(Precomputed(asymmetric).gram(np.arange(4)), np.arange(4.0), Squared(), 0.1)
    solution = DUAL.solve(given)
    assert residual_of(given, solution.coefficients, 0.0) > 1e-3
    assert not solution.status.converged


# ---- two precisions ------------------------------------------------------------------------------


@pytest.mark.parametrize("regularization", [1e-1, 1e-2, 1e-3])
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
def test_refined_equals_factored(weights, regularization):
    given = problem(Matern(1.5), regularization, weights, intercept=True, outputs=2)
    refined, factored = MIXED.solve(given), DUAL.solve(given)
    assert "factored in float32, refined in float64" in refined.status.message
    assert "Cholesky factorisation in float64" in factored.status.message
    assert relative(refined.coefficients, factored.coefficients) < 1e-10
    assert np.allclose(refined.intercept, factored.intercept, rtol=0, atol=1e-10)


@pytest.mark.parametrize("regularization", [1e-4, 1e-5, 1e-6, 1e-7])
def test_a_refined_answer_is_as_good_as_a_factored_one(regularization):
    """However ill conditioned: the residual, and the distance to the formula's answer."""
    given = problem(Gaussian(1.5), regularization, n=120)
    alpha, _, condition = by_formula(given)
    refined, factored = MIXED.solve(given), DUAL.solve(given)
    assert refined.gap < 10 * factored.gap + 10 * EPS
    assert relative(refined.coefficients, alpha) < 10 * EPS * condition


def test_where_float32_has_too_few_digits_float64_takes_over():
    given = problem(Gaussian(3.0), 1e-13, n=80)
    alpha, _, condition = by_formula(given)
    assert condition > 1 / np.finfo(np.float32).eps
    solution = MIXED.solve(given)
    assert "float64" in solution.status.message
    assert "refined" not in solution.status.message
    assert relative(solution.coefficients, alpha) < 10 * EPS * condition


def test_refinement_that_stops_too_early_is_thrown_away():
    given = problem(Gaussian(1.5), 1e-4)
    assert "refined" in MIXED.solve(given).status.message
    solution = replace(MIXED, tuning=direct.Tuning(refinements=0)).solve(given)
    assert "refined" not in solution.status.message
    assert solution.gap < EPS * by_formula(given)[2]


def test_values_too_large_for_float32_are_factored_in_float64():
    X = 1e20 * points()
    given = Problem(Linear().gram(X), values(points()), Squared(), 1e36)
    alpha, _, condition = by_formula(given)
    solution = MIXED.solve(given)
    assert relative(solution.coefficients, alpha) < 10 * EPS * condition


def test_small_problems_are_factored_in_float64_and_large_ones_refined():
    assert "refined" not in Direct().solve(problem()).status.message
    early = Direct(tuning=direct.Tuning(mixed_size=N, kept=0))
    assert "refined" in early.solve(problem()).status.message
    assert "refined" not in early.solve(problem(n=N - 1)).status.message
    assert "refined" not in early.solve(problem(dtype=np.float32)).status.message


# ---- the factor that stays -----------------------------------------------------------------------


def test_a_small_factor_stays_with_the_solution_but_not_with_its_copies():
    solution = Direct().solve(problem())
    lower = solution.factor.lower
    matrix = problem().gram.dense() + N * problem().regularization * np.eye(N)
    np.testing.assert_allclose(lower @ lower.T, matrix, atol=1e-13)
    for again in (
        copy.copy(solution),
        copy.deepcopy(solution),
        pickle.loads(pickle.dumps(solution)),
    ):
        assert again.factor is None
        np.testing.assert_array_equal(again.coefficients, solution.coefficients)
    assert solution.factor is not None


LARGER = {
    "not wanted": (Direct(keep_factor=False), {}),
    "too many rows": (Direct(tuning=direct.Tuning(kept=8 * N**2 - 1)), {}),
    "more than a share of the budget": (Direct(), {"memory": 16 * 8 * N**2 - 16}),
    "in float32": (Direct(), {"dtype": np.float32}),
}


@pytest.mark.parametrize(("solver", "params"), LARGER.values(), ids=LARGER.keys())
def test_other_factors_do_not_stay_unless_asked_for(solver, params):
    given = problem(**{name: value for name, value in params.items() if name != "memory"})
    given.gram.memory = params.get("memory")
    assert solver.solve(given).factor is None
    assert replace(solver, keep_factor=True).solve(given).factor is not None


def test_a_factor_of_another_ridge_does_not_stay():
    X = 1e9 * np.ones((N, 1)) + points()[:, :1]
    given = Problem(Polynomial(3, 1.0).gram(X), values(points()), Squared(), 1e-30)
    solution = Direct(primal=False).solve(given)
    assert "hides" in solution.status.message
    assert solution.factor is None


# ---- few features --------------------------------------------------------------------------------

FEW = {"linear": Linear(), "affine": Linear(0.5), "quadratic": Polynomial(2, 1.0)}


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
@pytest.mark.parametrize("kernel", FEW.values(), ids=FEW.keys())
def test_primal_equals_dual(kernel, intercept, weights):
    given = problem(kernel, 1e-2, weights, intercept, outputs=2)
    primal, dual = Direct(primal=True).solve(given), DUAL.solve(given)
    _, _, condition = by_formula(given)
    assert "primal" in primal.status.message
    assert "primal" not in dual.status.message
    assert relative(primal.coefficients, dual.coefficients) < 10 * EPS * condition
    assert np.allclose(primal.intercept, dual.intercept, atol=10 * EPS * condition)


def test_the_smaller_side_is_chosen():
    assert "primal" in Direct().solve(problem(Linear(), n=40)).status.message
    assert "primal" not in Direct().solve(problem(Linear(), n=3)).status.message
    assert "primal" not in Direct().solve(problem(Gaussian(), n=40)).status.message


LARGE = {
    "large units": (Linear(), 1e6, 0.0),
    "far off": (Linear(), 1e6, 1e7),
    "units that differ": (Linear(), np.array([1e6, 1e3, 1.0]), 0.0),
    "equal columns": (Linear(), 1e6 * np.array([[1, 1, 0], [0, 0, 0], [0, 0, 1]]), 0.0),
    "quadratic": (Polynomial(2), 1e3, 0.0),
    "quadratic, far off": (Polynomial(2), 1e3, 1e3),
}


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", LARGE)
def test_columns_in_large_units_keep_their_digits(case, dtype, intercept, weighted):
    """(y − f)/ρ is as large as y/ρ, and K·α lost two digits of f: the least α loses none."""
    kernel, scale, off = LARGE[case]
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 3))
    y = np.stack([np.sin(rows[:, 0]) + rows[:, 1], rng.standard_normal(300)], axis=1)
    X = (rows @ scale if np.ndim(scale) == 2 else rows * scale) + off
    X, y = X.astype(dtype), y.astype(dtype)
    weights = np.arange(300.0) % 3 if weighted else np.ones(300)
    ridge = 1.0 / weights.sum()
    solution = Direct().solve(Problem(kernel.gram(X), y, Squared(), ridge, weights, intercept))
    roots = np.sqrt(weights / weights.sum())[:, None]
    features = kernel.features(kernel.points(X.astype(np.float64)))
    mean, level = (roots.T**2 @ v if intercept else 0.0 * v[:1] for v in (features, y))
    u, s, vt = np.linalg.svd(roots * (features - mean), full_matrices=False)
    best = (features - mean) @ vt.T @ (
        s[:, None] / (s[:, None] ** 2 + ridge) * (u.T @ (roots * (y - level)))
    ) + level
    wide = kernel.gram(X.astype(np.float64))
    values = wide @ solution.coefficients.astype(np.float64) + solution.intercept
    error = (
        np.linalg.norm(roots * (values - best), axis=0) / np.linalg.norm(roots * y, axis=0)
    ).max()
    lost = case in ("units that differ", "quadratic", "quadratic, far off") and not intercept
    assert error < max(1.1 * solution.gap, 1e-6)
    assert error < (1e-3 if lost else 1e-4 if dtype == np.float32 else 1e-6)
    assert solution.status.converged == (solution.gap <= (1e-6 if dtype == np.float64 else 1e-2))


@pytest.mark.parametrize("alpha", [1e-6, 1e-9])
def test_primal_keeps_the_digits_of_the_dual_where_the_ridge_is_small(alpha):
    X = points(300)
    y = X @ [1.0, 2.0]
    given = Problem(Linear().gram(X), y, Squared(), alpha / len(X))
    fitted = [given.gram @ solver.solve(given).coefficients for solver in (Direct(), DUAL)]
    truth = X @ np.linalg.solve(X.T @ X + alpha * np.eye(2), X.T @ y)
    assert relative(fitted[1], truth) < 1e-12
    assert relative(fitted[0], truth) < 1e-12


# ---- no regularisation ---------------------------------------------------------------------------


@pytest.mark.parametrize("outputs", [None, 2])
def test_no_regularisation_interpolates(outputs):
    given = problem(Matern(0.5, lengthscale=0.2), 0.0, outputs=outputs)
    solution = Direct().solve(given)
    K = gram_in_float64(given)
    assert np.allclose(K @ solution.coefficients, given.targets, atol=100 * EPS * np.linalg.cond(K))
    assert f"rank {N} of {N}" in solution.status.message


@pytest.mark.parametrize("weights", [None, WEIGHTS["positive"][:12]], ids=["", "weights"])
@pytest.mark.parametrize("kernel", [Gaussian(0.7), Linear()], ids=["gaussian", "linear"])
def test_no_regularisation_gives_the_least_norm_of_the_least_error(kernel, weights):
    """With repeated points, and with more points than features; other values at one point."""
    X = np.concatenate([points(8), points(8)[:4]])
    y = values(X, seed=11)
    given = Problem(kernel.gram(X), y, Squared(), 0.0, weights)
    solution = Direct().solve(given)
    s = np.sqrt(weights_of(given))
    K = gram_in_float64(given)
    truth = s * (np.linalg.pinv(s[:, None] * K * s, rcond=1e-12, hermitian=True) @ (s * y))
    rank = np.linalg.matrix_rank(K, tol=1e-12, hermitian=True)
    assert rank < 12
    assert f"rank {rank} of 12" in solution.status.message
    assert relative(solution.coefficients, truth) < 1e-9
    gradient = K @ (weights_of(given) * (K @ solution.coefficients - y))
    assert np.abs(gradient).max() < 1e-9


def test_twins_share_the_coefficient():
    X = np.array([[0.0], [0.0], [1.0]])
    given = Problem(Gaussian().gram(X), np.array([0.0, 2.0, 1.0]), Squared(), 0.0)
    solution = Direct().solve(given)
    assert np.isclose(*solution.coefficients[:2])
    assert np.allclose(given.gram @ solution.coefficients, 1.0)


def test_the_least_error_is_optimal_and_the_gap_says_so():
    X = np.array([[0.0], [0.0], [1.0]])
    given = Problem(Gaussian().gram(X), np.array([0.0, 2.0, 1.0]), Squared(), 0.0)
    assert Direct().solve(given).gap < 1e-12


@pytest.mark.parametrize("shift", [0.0, 2.0], ids=["", "centred"])
def test_no_regularisation_with_an_intercept_and_few_features(shift):
    X = np.array([[1.0], [2.0], [3.0]]) - shift
    y = X[:, 0] + 5.0
    given = Problem(Linear().gram(X), y, Squared(), 0.0, fit_intercept=True)
    solution = Direct().solve(given)
    assert np.allclose(given.gram @ solution.coefficients + solution.intercept, y)
    assert np.isclose(solution.intercept, 5.0)


def test_no_regularisation_with_an_intercept():
    given = problem(Matern(0.5, lengthscale=0.3), 0.0, intercept=True)
    solution = Direct().solve(given)
    alpha, b, condition = by_formula(given)
    assert relative(solution.coefficients, alpha) < 50 * EPS * condition
    assert np.isclose(solution.intercept, b[0], atol=50 * EPS * condition)


def test_small_regularisations_tend_to_none():
    given = [problem(Matern(0.5, lengthscale=0.2), lam) for lam in (0.0, 1e-4, 1e-6, 1e-8)]
    least, *others = [Direct().solve(one).coefficients for one in given]
    errors = [relative(other, least) for other in others]
    assert errors[0] > 50 * errors[1] > 2500 * errors[2] > 0


# ---- status --------------------------------------------------------------------------------------


def test_a_jitter_is_named():
    X = np.repeat(points(10), 3, axis=0)
    given = Problem(Gaussian().gram(X), values(X), Squared(), 1e-20)
    alone = replace(DUAL, tuning=direct.Tuning(shifts=()))
    message = alone.solve(given).status.message
    found = re.search(r"after adding (\S+) \(10\^(-\d+)\) to the diagonal", message)
    assert found
    assert 1e-17 < float(found[1]) < 1e-6
    assert "indefinite" in message
    assert "adding" not in DUAL.solve(problem()).status.message
    assert "since rounding hides nλα" in DUAL.solve(given).status.message


@pytest.mark.parametrize("regularization", [0.0, 0.1, 5.0])
@pytest.mark.parametrize("weights", [None, np.array([2.0, 0.5])], ids=["", "weights"])
def test_a_kernel_that_is_indefinite_is_named_with_a_witness(regularization, weights):
    """The system is solved, also where K + ρI is positive definite; but there is no minimum."""
    matrix = np.array([[1.0, 2.0], [2.0, 1.0]])
    y = np.array([1.0, 3.0])
    given = Problem(Precomputed(matrix).gram([0, 1]), y, Squared(), regularization, weights)
    solution = Direct().solve(given)
    w = np.ones(2) if weights is None else weights
    system = matrix + np.diag(regularization * w.sum() / w)
    assert np.allclose(system @ solution.coefficients, y)
    v = solution.status.witness
    assert v @ matrix @ v < 0
    assert not solution.status.converged
    assert f"not positive definite, vᵀKv = {v @ matrix @ v:.3g}" in solution.status.message
    assert "Choose a positive definite kernel" in solution.status.advice


def test_a_large_indefinite_kernel_is_found_on_some_of_its_points():
    X = np.random.default_rng(3).standard_normal((300, 2))
    given = Problem(Sigmoid().gram(X), X[:, 0], Squared(), 10.0)
    status = Direct().solve(given).status
    K = np.tanh(X @ X.T + 1.0)
    assert status.witness @ K @ status.witness < -1e-3
    assert "Cholesky" in status.message
    assert not status.converged


@pytest.mark.parametrize("primal", [True, False])
@pytest.mark.parametrize(("dtype", "scale"), [(np.float64, 700.0), (np.float32, 30.0)])
def test_values_are_of_the_size_of_the_targets_where_rounding_hides_the_ridge(primal, dtype, scale):
    """Polynomials of columns that nobody scaled: features gave values of 1e17."""
    X = points(dtype=dtype)
    y = np.sin(X[:, 0])
    gram = Polynomial(3).gram((scale * X).astype(dtype))
    solution = Direct(primal=primal).solve(Problem(gram, y, Squared(), 1 / N))
    assert solution.status.converged or "Scale the columns of X" in str(solution.status)
    fitted = RKHSFunction(gram.kernel, gram.x, solution.coefficients)(gram.x.data)
    assert np.corrcoef(fitted, y)[0, 1] > 0.8
    assert solution.gap < 1.0


# ---- refusals ------------------------------------------------------------------------------------


def test_other_losses_are_refused():
    given = Problem(Gaussian().gram(points()), values(points()), Absolute(), 0.1)
    with pytest.raises(ValueError, match=r"Direct solves the square loss; got Absolute\(\)"):
        Direct().solve(given)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"targets": np.ones(N - 1)}, r"one row for each of the 40 points; got shape \(39,\)"),
        ({"targets": np.ones((N, 1, 1))}, r"got shape \(40, 1, 1\)"),
        ({"regularization": -1e-9}, "regularization must be nonnegative and finite; got -1e-09"),
        ({"regularization": np.nan}, "regularization must be nonnegative and finite; got nan"),
        ({"regularization": np.inf}, "regularization must be nonnegative and finite; got inf"),
        ({"weights": np.ones(3)}, r"one number for each of the 40 points; got shape \(3,\)"),
        ({"weights": np.full(N, -1.0)}, "weights must be finite and nonnegative"),
        ({"weights": np.zeros(N)}, "not all zero"),
        ({"weights": np.full(N, np.nan)}, "weights must be finite"),
        ({"operator": Gaussian().gram(points(), points())}, "the same points twice"),
    ],
)
def test_a_problem_refuses_what_makes_no_sense(changes, text):
    right = {
        "operator": Gaussian().gram(points()), "targets": np.ones(N), "loss": Squared(),
        "regularization": 0.1,
    }  # fmt: skip
    Problem(**right)
    with pytest.raises(ValueError, match=text):
        Problem(**{**right, **changes})


def test_targets_must_be_finite():
    with pytest.raises(ValueError, match="finite targets; got nan at index 0"):
        Problem(Gaussian().gram(points()), np.full(N, np.nan), Squared(), 0.1)
