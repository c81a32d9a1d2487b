"""The problem: one objective for all points, centres, features, balls, ℓ1 and ν-machines."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from mercer.features import Nystroem
from mercer.kernels import Gaussian
from mercer.losses import Hinge, Logistic, Perceptron, Squared
from mercer.solvers import (
    L1,
    Ball,
    BlockCoordinateDescent,
    ConjugateGradient,
    Constrained,
    Direct,
    DoublyStochastic,
    DualAscent,
    KernelGradientDescent,
    Newton,
    Problem,
    SparseExpansion,
    Splitting,
    StochasticFunctionalGradient,
    SubgradientDescent,
    certified_gap,
    schedules,
)

KERNEL = Gaussian(0.8)
RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * RNG.standard_normal(80)
SIGNS = np.where(Y > 0, 1.0, -1.0)
WEIGHTS = RNG.integers(0, 4, 80).astype(float)
K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / (2 * 0.8**2))


def test_the_objective_is_that_of_the_formula_on_every_space():
    v, b = RNG.standard_normal(80), 0.3
    p = WEIGHTS / WEIGHTS.sum()
    whole = Problem(KERNEL.gram(X), Y, Squared(), 0.1, WEIGHTS, True)
    f = K @ v
    assert whole.objective(v, b) == pytest.approx(p @ (0.5 * (f + b - Y) ** 2) + 0.05 * v @ f)
    cross = Problem.on_centres(KERNEL.gram(X, X[:9]), Y, Squared(), 0.1, WEIGHTS, True)
    u = v[:9]
    wanted = p @ (0.5 * (K[:, :9] @ u + b - Y) ** 2) + 0.05 * u @ (K[:9, :9] @ u)
    assert cross.objective(u, b) == pytest.approx(wanted)
    phi = Nystroem(kernel=KERNEL, n_components=9, random_state=0).fit(X)
    Z = phi.transform(X)
    features = Problem.on_features(phi, X, Y, Squared(), 0.1, WEIGHTS, True)
    wanted = p @ (0.5 * (Z @ u + b - Y) ** 2) + 0.05 * u @ u
    assert features.objective(u, b) == pytest.approx(wanted)


def test_newton_on_features_is_ridge_on_them():
    phi = Nystroem(kernel=KERNEL, n_components=12, random_state=0).fit(X)
    problem = Problem.on_features(phi, X, Y, Squared(), 1e-3, WEIGHTS)
    solution = Newton(1e-12).solve(problem)
    Z, p = phi.transform(X), WEIGHTS / WEIGHTS.sum()
    wanted = np.linalg.solve(Z.T @ (p[:, None] * Z) + 1e-3 * np.eye(12), Z.T @ (p * Y))
    np.testing.assert_allclose(solution.coefficients, wanted, atol=1e-8)
    assert certified_gap(problem, solution.coefficients).relative < 1e-9
    other = Newton(1e-8).solve(Problem.on_features(phi, X, SIGNS, Logistic(), 1e-3, None, True))
    assert other.status.converged


def test_one_ridge_for_each_output():
    targets, ridges = np.stack([Y, Y**2], axis=1), np.array([0.1, 1e-3])
    problem = Problem(KERNEL.gram(X), targets, Squared(), ridges)
    for solver in (Direct(), Newton(1e-10)):
        both = solver.solve(problem)
        for k, ridge in enumerate(ridges):
            alone = solver.solve(Problem(KERNEL.gram(X), targets[:, k], Squared(), ridge))
            np.testing.assert_array_equal(both.coefficients[:, k], alone.coefficients)
        assert problem.objective(both.coefficients) == pytest.approx(both.objective)
        assert certified_gap(problem, both.coefficients).relative < 1e-9


def test_a_ball_and_a_lasso_are_problems_with_their_own_duals():
    ball = Problem(KERNEL.gram(X), Y, Squared(), Ball(0.7), WEIGHTS, True)
    solution = Constrained().solve(ball)
    gap = certified_gap(ball, solution.coefficients, solution.intercept)
    assert gap.relative < 1e-6
    assert solution.gap == pytest.approx(gap.absolute)
    v = solution.coefficients
    assert math.sqrt(v @ K @ v) == pytest.approx(0.7)
    assert ball.objective(2 * v, solution.intercept) == math.inf
    lasso = Problem(KERNEL.gram(X), Y, Squared(), L1(1e-2), WEIGHTS, True)
    sparse = SparseExpansion(1e-8).solve(lasso)
    assert sparse.status.converged
    assert lasso.objective(sparse.coefficients, sparse.intercept) == pytest.approx(sparse.objective)
    assert certified_gap(lasso, sparse.coefficients, sparse.intercept).relative < 1e-7


@dataclass(frozen=True)
class Quartic:
    """R(‖f‖) = (λ/4)‖f‖⁴, a penalty of a user."""

    strength: float

    def value(self, v, squares):
        return 0.25 * self.strength * sum(squares) ** 2

    def conjugate(self, pull, squares):
        return 0.75 * sum(squares) ** (2 / 3) / self.strength ** (1 / 3)


def test_a_penalty_of_your_own_has_a_gap():
    """At the minimiser f_λ of ridge regression with λ = μ‖f‖² the gap is rounding."""
    low, high = 1e-9, 1e3
    for _ in range(200):  # of the fixed point λ = μ‖f_λ‖²
        ridge = math.sqrt(low * high)
        v = Direct().solve(Problem(KERNEL.gram(X), Y, Squared(), ridge)).coefficients
        low, high = (ridge, high) if 0.3 * (v @ K @ v) > ridge else (low, ridge)
    problem = Problem(KERNEL.gram(X), Y, Squared(), Quartic(0.3))
    assert certified_gap(problem, v).relative < 1e-9
    assert certified_gap(problem, 1.1 * v).relative > 1e-5
    with pytest.raises(ValueError, match=r"Newton takes the penalty .*got regularization=Quartic"):
        Newton().solve(problem)


def test_forms_of_machines_are_what_their_formulas_say():
    v, rho, b, nu = RNG.standard_normal(80), 0.4, -0.2, 0.3
    f, total = K @ v, WEIGHTS.sum()
    one = Problem.one_class(KERNEL.gram(X), nu, WEIGHTS)
    wanted = 0.5 * v @ f - nu * rho * total + WEIGHTS @ np.maximum(rho - f, 0)
    assert total * one.objective(v, -rho) == pytest.approx(wanted)
    two = Problem.nu_classifier(KERNEL.gram(X), SIGNS, nu, WEIGHTS)
    wanted = 0.5 * v @ f - nu * rho * total + WEIGHTS @ np.maximum(rho - SIGNS * (f + b), 0)
    assert total * two.objective(v, np.array([b, rho])) == pytest.approx(wanted)
    assert isinstance(two.loss, Perceptron)


@pytest.mark.parametrize("form", ["one class", "ν"])
def test_dual_ascent_finds_a_stationary_point_of_the_forms(form):
    gram = KERNEL.gram(X)
    if form == "ν":
        problem = Problem.nu_classifier(gram, SIGNS, 0.4)
    else:
        problem = Problem.one_class(gram, 0.4)
    solution = DualAscent(1e-8).solve(problem)
    here = problem.objective(solution.coefficients, solution.intercept)
    for _ in range(20):
        v = solution.coefficients + 1e-3 * RNG.standard_normal(80)
        b = solution.intercept + 1e-3 * RNG.standard_normal(np.shape(solution.intercept))
        assert problem.objective(v, b) >= here - 1e-9


def test_what_is_not_on_all_points_is_refused_where_it_must_be():
    problem = Problem.on_centres(KERNEL.gram(X, X[:9]), Y, Squared(), 0.1)
    with pytest.raises(ValueError, match=r"takes problems on all points.*9 centres or features"):
        Direct().solve(problem)
    with pytest.raises(ValueError, match=r"write Problem\.on_centres"):
        Problem(KERNEL.gram(X, X[:9]), Y, Squared(), 0.1)
    with pytest.raises(ValueError, match="a number λ or a penalty"):
        Problem(KERNEL.gram(X), Y, Squared(), "strong")
    assert Problem(KERNEL.gram(X), SIGNS, Hinge(), 0.1).outputs == 1


# ---- constants with a null space or a cost -------------------------------------------------------

PLAIN = [
    Direct(),
    ConjugateGradient(1e-6),
    BlockCoordinateDescent(1e-6),
    Newton(),
    Splitting(),
    KernelGradientDescent(3),
    SubgradientDescent(3, schedules.Constant(0.1)),
    StochasticFunctionalGradient(1, schedules.Constant(0.1)),
    DoublyStochastic(2, schedules.Constant(0.1)),
    DualAscent(),
]


@pytest.mark.parametrize("given", [{"null_space": np.ones((4, 2))}, {"intercept_cost": 0.5}])
@pytest.mark.parametrize("solver", PLAIN, ids=lambda solver: type(solver).__name__)
def test_no_solver_ignores_a_null_space_or_a_cost(solver, given):
    if "null_space" in given and isinstance(solver, (Direct, ConjugateGradient)):
        pytest.skip("it solves for one: test_splines")
    y = np.array([0.0, 1.0, 0.0, 2.0])
    problem = Problem(Gaussian().gram(np.arange(4.0)[:, None]), y, Squared(), 0.1, **given)
    with pytest.raises(ValueError, match=r"null_space|intercept_cost"):
        solver.solve(problem)


@pytest.mark.parametrize("given", [{"null_space": np.ones((4, 2))}, {"intercept_cost": 0.5}])
def test_other_ways_to_a_solution_refuse_them_too(given):
    y = np.array([0.0, 1.0, 0.0, 2.0])
    problem = Problem(Gaussian().gram(np.arange(4.0)[:, None]), y, Squared(), 0.1, **given)
    with pytest.raises(
        ValueError, match=r"certified_gap (takes problems whose constant|has no place)"
    ):
        certified_gap(problem, np.zeros(4))
    with pytest.raises(
        ValueError, match=r"Constrained (takes problems whose constant|has no place)"
    ):
        Constrained().solve(replace(problem, regularization=Ball(1.0)))
    with pytest.raises(
        ValueError, match=r"SparseExpansion (takes problems whose constant|has no place)"
    ):
        SparseExpansion().solve(replace(problem, regularization=L1(1.0)))
