"""Least squares over a ball of functions: conditions of optimality, and brute force."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

from mercer.kernels import Gaussian, Linear
from mercer.losses import Absolute, Hinge, Huber, Logistic, Squared
from mercer.solvers import (
    Ball,
    Constrained,
    Direct,
    OfNorm,
    PowerOfNorm,
    Problem,
    default_solver,
)
from mercer.solvers.constrained import NormCurve

RNG = np.random.default_rng(3)
X = RNG.uniform(-1.0, 1.0, (30, 2))
CURVE = np.sin(3.0 * X[:, 0]) + 0.2 * RNG.standard_normal(30) + 1.0
WEIGHTS = RNG.uniform(0.2, 2.0, 30)
WEIGHTS[4] = 0.0
K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=-1) / (2 * 0.5**2))


def problem(y=CURVE, dtype=np.float64, **options):
    return Problem(Gaussian(0.5).gram(X.astype(dtype)), y, Squared(), 0.0, **options)


def constrained(radius, task):
    """The solution of a problem with a ball in place of its penalty."""
    return Constrained().solve(replace(task, regularization=Ball(radius)))


def norm(alpha, matrix=K):
    alpha = np.asarray(alpha, float)
    return math.sqrt(np.sum(alpha * (matrix @ alpha)))


@pytest.mark.parametrize("radius", [1e-3, 0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("intercept", [False, True])
def test_conditions_of_optimality(radius, weights, intercept):
    """λ ≥ 0, ‖f‖ = D where λ > 0, and w(f + b − y)/Σw + λα = 0 in the space."""
    task = problem(weights=weights, fit_intercept=intercept)
    solution = constrained(radius, task)
    multiplier, alpha = solution.history["multiplier"][0], solution.coefficients
    p = np.ones(30) if weights is None else weights
    p = p / p.sum()
    slopes = p * (K @ alpha + solution.intercept - CURVE)
    assert multiplier > 0
    assert norm(alpha) == pytest.approx(radius, rel=1e-9)
    assert norm(slopes + multiplier * alpha) < 1e-9
    assert not intercept or abs(slopes.sum()) < 1e-9
    assert solution.gap < 1e-9
    assert solution.objective == pytest.approx(
        0.5 * p @ (K @ alpha + solution.intercept - CURVE) ** 2
    )
    assert f"λ = {multiplier:.6g}" in str(solution.status)
    assert solution.status.converged


@pytest.mark.parametrize("intercept", [False, True])
def test_the_penalty_of_the_multiplier_gives_the_same_function(intercept):
    solution = constrained(1.5, problem(weights=WEIGHTS, fit_intercept=intercept))
    multiplier = solution.history["multiplier"][0]
    penalised = Problem(
        Gaussian(0.5).gram(X), CURVE, Squared(), multiplier, WEIGHTS, fit_intercept=intercept
    )
    ridge = Direct().solve(penalised)
    np.testing.assert_allclose(solution.coefficients, ridge.coefficients, rtol=1e-7, atol=1e-9)
    assert solution.intercept == pytest.approx(ridge.intercept, abs=1e-9)


def test_a_ball_that_holds_the_interpolant_has_multiplier_zero():
    apart = np.linspace(0, 4, 9)[:, None]
    gram, y = Gaussian(0.4).gram(apart), np.cos(np.arange(9.0))
    matrix = gram.dense()
    least = math.sqrt(y @ np.linalg.solve(matrix, y))
    task = Problem(gram, y, Squared(), 0.0)
    inside = constrained(1.01 * least, task)
    assert inside.history["multiplier"] == [0.0]
    assert "λ = 0" in str(inside.status)
    np.testing.assert_allclose(inside.coefficients, np.linalg.solve(matrix, y), rtol=1e-9)
    outside = constrained(0.99 * least, task)
    assert outside.history["multiplier"][0] > 0
    assert outside.objective > inside.objective


def test_with_a_null_space_multiplier_zero_is_the_least_norm():
    points = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    gram, y = Linear().gram(points), np.array([1.0, 2.0, 3.5, 0.0])
    solution = constrained(100.0, Problem(gram, y, Squared(), 0.0))
    w = np.linalg.lstsq(points, y, rcond=None)[0]
    np.testing.assert_allclose(points.T @ solution.coefficients, w, atol=1e-12)
    assert solution.history["multiplier"] == [0.0]


def test_a_tiny_multiplier_beside_a_null_space_keeps_its_digits():
    """What K does not see would be divided by λ; it is left out, as f does not change."""
    points = np.random.default_rng(0).standard_normal((50, 3))
    y = np.random.default_rng(1).standard_normal(50)
    w = np.linalg.lstsq(points, y, rcond=None)[0]
    radius = (1 - 1e-10) * np.linalg.norm(w)
    solution = constrained(radius, Problem(Linear().gram(points), y, Squared(), 0.0))
    assert 0 < solution.history["multiplier"][0] < 1e-8
    np.testing.assert_allclose(points.T @ solution.coefficients, w, rtol=1e-9)
    assert np.abs(solution.coefficients).max() < 10.0


@pytest.mark.parametrize("radius", [0.3, 1.0, 50.0])
def test_an_intercept_beside_a_null_space(radius):
    """Linear kernel: min over (w, b) of ½ mean (y − Xw − b)², ‖w‖ ≤ D, written out."""
    solution = constrained(
        radius, Problem(Linear().gram(X), CURVE, Squared(), 0.0, WEIGHTS, fit_intercept=True)
    )
    p = WEIGHTS / WEIGHTS.sum()
    centred, y = X - p @ X, CURVE - p @ CURVE
    multiplier = solution.history["multiplier"][0]
    system = (centred * p[:, None]).T @ centred + multiplier * np.eye(2)
    w = np.linalg.solve(system, centred.T @ (p * y))
    np.testing.assert_allclose(X.T @ solution.coefficients, w, rtol=1e-8)
    assert solution.intercept == pytest.approx(p @ (CURVE - X @ w), rel=1e-9)
    assert np.linalg.norm(w) <= radius * (1 + 1e-9)
    assert (multiplier == 0) == (np.linalg.norm(w) < radius * (1 - 1e-6))


def test_brute_force():
    """Two points, one output: every f of the ball on a fine grid of angles and radii."""
    gram, y = Gaussian(1.0).gram([[0.0], [1.0]]), np.array([2.0, -1.0])
    matrix = gram.dense()
    root = np.linalg.cholesky(matrix)  # f(x) = L z, ‖f‖ = ‖z‖
    angles = np.linspace(0, 2 * np.pi, 20001)
    radii = np.linspace(0, 0.8, 81)
    z = radii[:, None, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    risks = 0.5 * np.mean((z @ root.T - y) ** 2, axis=-1)
    solution = constrained(0.8, Problem(gram, y, Squared(), 0.0))
    assert solution.objective <= risks.min() + 1e-12
    assert solution.objective == pytest.approx(risks.min(), rel=1e-6)


def test_another_optimiser_agrees():
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0))

    def risk(z):
        r = root @ z - CURVE
        return 0.5 * np.mean(r**2), root.T @ r / 30

    ball = {"type": "ineq", "fun": lambda z: 4.0 - z @ z, "jac": lambda z: -2 * z}
    best = minimize(
        risk, np.zeros(30), jac=True, constraints=[ball], options={"ftol": 1e-14, "maxiter": 1000}
    )
    assert constrained(2.0, problem()).objective == pytest.approx(best.fun, rel=1e-6)


def test_the_norm_falls_as_the_multiplier_grows():
    for intercept in (False, True):
        curve = NormCurve(problem(weights=WEIGHTS, fit_intercept=intercept))
        norms = [curve.norm(ridge) for ridge in (0.0, 1e-12, 1e-6, 1e-3, 0.1, 1.0, 10.0)]
        assert all(b < a for a, b in pairwise(norms))
        for ridge in (1e-3, 0.1):
            alpha, _ = curve.fit(ridge)
            assert curve.norm(ridge) == pytest.approx(norm(alpha), rel=1e-10)


def test_smaller_balls_have_larger_multipliers_and_risks():
    solutions = [constrained(radius, problem()) for radius in (0.1, 0.5, 1.0, 3.0)]
    multipliers = [solution.history["multiplier"][0] for solution in solutions]
    assert multipliers == sorted(multipliers, reverse=True)
    risks = [solution.objective for solution in solutions]
    assert risks == sorted(risks, reverse=True)
    slope = (risks[1] - constrained(0.5001, problem()).objective) / 1e-4
    assert slope == pytest.approx(multipliers[1] * 0.5, rel=1e-3)  # d risk/dD = −λD


def test_several_outputs_share_one_ball():
    Y = np.stack([CURVE, 2 * CURVE**2], axis=1)
    solution = constrained(2.0, problem(Y, fit_intercept=True))
    multiplier = solution.history["multiplier"][0]
    assert solution.coefficients.shape == (30, 2)
    assert solution.intercept.shape == (2,)
    assert norm(solution.coefficients) == pytest.approx(2.0, rel=1e-9)
    g = (K @ solution.coefficients + solution.intercept - Y) / 30
    assert norm(g + multiplier * solution.coefficients) < 1e-9


def test_float32():
    solution = constrained(1.0, problem(dtype=np.float32))
    assert solution.coefficients.dtype == np.float32
    assert norm(solution.coefficients) == pytest.approx(1.0, rel=1e-4)
    exact = constrained(1.0, problem())
    assert solution.objective == pytest.approx(exact.objective, rel=1e-4)


def test_targets_of_zero_give_zero():
    solution = constrained(1.0, problem(np.zeros(30)))
    assert not solution.coefficients.any()
    assert solution.history["multiplier"] == [0.0]


def test_refusals():
    with pytest.raises(ValueError, match="Ball needs a finite radius > 0; got 0"):
        Ball(0)
    with pytest.raises(ValueError, match=r"got regularization=0\.1\. Write .*Ball\(radius\)"):
        Constrained().solve(Problem(Linear().gram(X), CURVE, Squared(), 0.1))


def test_what_is_not_solved_is_not_called_so():
    """An ill-conditioned Gram matrix, whose norm ‖f‖ comes out wrong in the fifth digit."""
    rng = np.random.default_rng(0)
    X = 0.01 * rng.standard_normal((13, 1))
    problem = Problem(Gaussian(10.0).gram(X), rng.standard_normal(13), Squared(), Ball(7.0))
    solution = Constrained().solve(problem)
    assert np.isfinite(solution.objective)
    assert solution.status.converged == (solution.gap <= 1e-5 * solution.objective)
    assert sum(problem.norms(solution.coefficients)) <= 49.0 * (1 + 1e-6)


# ---- any loss, and any function of the norm ------------------------------------------------------

LABELS = np.where(CURVE > 1.0, 1.0, -1.0)


@pytest.mark.parametrize("loss", [Logistic(), Hinge(), Huber(0.3), Absolute()])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_ball_for_every_loss_is_the_penalty_of_its_multiplier(loss, intercept):
    y = LABELS if loss.is_classification else CURVE
    task = Problem(Gaussian(0.5).gram(X), y, loss, Ball(0.7), fit_intercept=intercept)
    solution = Constrained().solve(task)
    assert solution.status.converged
    assert solution.gap <= 1e-5 * solution.objective
    assert norm(solution.coefficients) == pytest.approx(0.7, rel=1e-4)
    multiplier = solution.history["multiplier"][0]
    penalised = default_solver(loss, 1e-9).solve(replace(task, regularization=multiplier))
    assert problem_risk(task, penalised) == pytest.approx(solution.objective, rel=1e-4)


def problem_risk(task, solution):
    values = K @ solution.coefficients + solution.intercept
    return float(task.loss.risk(task.y, values, task.sample_weights))


@pytest.mark.parametrize(
    "penalty",
    [
        PowerOfNorm(0.05),
        PowerOfNorm(0.02, 3.0),
        OfNorm(lambda q: 0.1 * math.expm1(q), lambda q: 0.1 * math.exp(q), convex=True),
    ],
)
@pytest.mark.parametrize("loss", [Squared(), Logistic()])
def test_functions_of_the_norm_against_another_optimiser(penalty, loss):
    y = LABELS if loss.is_classification else CURVE
    solution = Constrained().solve(Problem(Gaussian(0.5).gram(X), y, loss, penalty))
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0))

    def objective(z):
        f, square = root @ z, float(z @ z)
        slope = root.T @ loss.slope(y, f) / 30 + 2 * penalty.slope(max(square, 1e-12)) * z
        return float(loss.value(y, f).mean()) + penalty.of(square), slope

    best = minimize(objective, 0.1 * np.ones(30), jac=True, options={"gtol": 1e-9})
    assert solution.status.converged
    assert solution.objective == pytest.approx(best.fun, rel=1e-6)
    assert solution.gap <= 1e-5 * solution.objective


def test_a_large_multiple_of_the_norm_gives_zero():
    """μ‖f‖ with μ ≥ ‖∇ risk(0)‖."""
    slope = norm(-CURVE / 30)
    for factor in (0.9, 1.1):
        task = replace(problem(), regularization=PowerOfNorm(factor * slope))
        solution = Constrained().solve(task)
        assert bool(solution.coefficients.any()) == (factor < 1)
        assert solution.gap < 1e-9


def test_a_function_of_the_norm_that_is_not_convex_is_stationary_and_says_so():
    """R(q) = log(1 + 50q)/20: among λ = 2R′(‖f_λ‖²) the best one is taken."""
    penalty = OfNorm(lambda q: math.log1p(50 * q) / 20, lambda q: 2.5 / (1 + 50 * q))
    solution = Constrained().solve(replace(problem(), regularization=penalty))
    assert "Stationary, not certified" in str(solution.status)
    curve = NormCurve(problem())
    q = norm(solution.coefficients) ** 2
    multiplier = solution.history["multiplier"][0]
    assert multiplier == pytest.approx(2 * penalty.slope(q), rel=1e-6)
    ridges = np.logspace(-8, 2, 400)
    for ridge in ridges:
        alpha, _ = curve.fit(float(ridge))
        risk = 0.5 * np.mean((K @ alpha - CURVE) ** 2)
        assert solution.objective <= risk + penalty.of(norm(alpha) ** 2) + 1e-12


def test_conjugates_of_functions_of_the_norm():
    t = 1.7
    grid = np.linspace(0, 5, 200_001)
    for penalty in (PowerOfNorm(0.4, 2.5), OfNorm(math.expm1, math.exp, convex=True)):
        wanted = max(t * s - penalty.of(s * s) for s in grid[::20])
        assert penalty.conjugate(None, [t * t]) == pytest.approx(wanted, abs=1e-5)
    assert PowerOfNorm(2.0).conjugate(None, [t * t]) == 0.0
    assert math.isinf(PowerOfNorm(1.0).conjugate(None, [t * t]))
    assert math.isinf(PowerOfNorm(1.0, 0.5).conjugate(None, [t * t]))
