"""The linear kernel in kinked losses: the interior-point method, against a general QP solver."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

from mercer import SVC, SVR, KernelQuantileRegressor, NuSVC, NuSVR, OneClassSVM
from mercer.kernels import Linear, Polynomial
from mercer.losses import Absolute, EpsilonInsensitive, Hinge, Quantile, SquaredHinge
from mercer.solvers import DualAscent, Problem
from mercer.solvers.optimality import certified_gap

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 4)) * [1.0, 100.0, 1.0, 0.01] + [0.0, 50.0, 0.0, 3.0]
Y = X @ [1.0, 0.02, -1.0, 30.0] + RNG.standard_normal(300)
SIGNS = np.where(np.median(Y) < Y, 1.0, -1.0)
CASES = {
    "hinge": (Hinge(), SIGNS),
    "quantile": (Quantile(0.3), Y),
    "absolute": (Absolute(), Y),
    "insensitive": (EpsilonInsensitive(0.3), Y),
}


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_columns_of_any_scale_are_solved_in_few_steps(name, fit_intercept):
    loss, y = CASES[name]
    weights = RNG.integers(0, 3, 300).astype(float)
    problem = Problem(Linear().gram(X), y, loss, 1e-3, weights, fit_intercept)
    solution = DualAscent(1e-6).solve(problem)
    assert solution.status.converged
    assert solution.history["steps"][0] < 30_000
    gap = certified_gap(problem, solution.coefficients, solution.intercept)
    assert gap.relative < 2e-6


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("unit", [1e3, 1e4])
def test_all_columns_in_a_small_unit_are_solved(unit, name, fit_intercept):
    """f was a sum of terms 10⁹ times as large: the weights had no digits, and the gap was 1."""
    loss, y = CASES[name]
    points = (X - X.mean(axis=0)) / X.std(axis=0)
    y = y - y.mean() if y is Y else y
    problem = Problem(Linear().gram(unit * points), y, loss, 1 / 300, None, fit_intercept)
    solution = DualAscent(1e-4).solve(problem)
    assert solution.status.converged
    gap = certified_gap(problem, solution.coefficients, solution.intercept)
    assert gap.relative < 1e-4
    if fit_intercept:
        assert abs(solution.coefficients.sum()) < 1e-10
    if name == "insensitive":
        assert np.count_nonzero(solution.coefficients) < 300


@pytest.mark.parametrize("unit", [1.0, 100.0])
def test_sums_of_shares_are_kept(unit):
    """ν-regression on a linear kernel took all of a million steps, and was not solved."""
    nu = 0.3
    for model in (NuSVR(nu=nu, kernel="linear"), NuSVC(nu=nu, kernel="linear")):
        model.fit(unit * X, SIGNS if isinstance(model, NuSVC) else Y)
        status = model.statuses_[0] if isinstance(model, NuSVC) else model.solution_.status
        assert status.converged
        assert int(np.sum(model.n_iter_)) < 30_000
    model = NuSVR(nu=nu, kernel="linear").fit(unit * X, Y)
    outside = np.abs(Y - model.predict(unit * X))
    assert np.mean(outside > model.epsilon_ * (1 + 1e-6)) <= nu
    one = OneClassSVM(nu=nu, kernel="linear").fit(unit * X + unit)
    assert abs(one.dual_coef_.sum() - nu * 300) < 1e-9


def test_few_steps_come_first_where_features_are_many():
    points = np.random.default_rng(1).standard_normal((400, 12))
    labels = points[:, 0] > 0.3 * np.random.default_rng(2).standard_normal(400)
    model = SVC(kernel="poly", degree=2, coef0=1.0).fit(points, labels)
    assert model.statuses_[0].converged
    assert model.n_iter_[0] > 0


def test_rounding_that_hides_the_optimum_is_told():
    problem = Problem(Linear().gram(1e6 * X), SIGNS, Hinge(), 1 / 300, None, True)
    status = DualAscent(by_weights=False).solve(problem).status
    assert not status.converged
    assert "The rest is rounding: scale the columns of X" in status.advice
    assert DualAscent().solve(problem).status.converged


@pytest.mark.parametrize("seed", range(6))
def test_digits_do_not_depend_on_the_weights(seed):
    """Without refinement, or too near the bounds, systems lose all digits for some weights."""
    weights = np.random.default_rng(seed).integers(0, 3, 300).astype(float)
    problem = Problem(Linear().gram(X), SIGNS, Hinge(), 1e-3, weights, fit_intercept=True)
    assert DualAscent(1e-6, max_iterations=30_000).solve(problem).status.converged


def test_it_is_the_minimum_that_linear_programming_finds():
    """Quantile regression with hardly any λ is a linear programme."""
    n = len(Y)
    solution = DualAscent(1e-6).solve(
        Problem(Linear().gram(X), Y, Quantile(0.3), 1e-7, None, fit_intercept=True)
    )
    cost = np.concatenate([np.zeros(10), np.full(n, 0.3), np.full(n, 0.7)]) / n
    rows = np.hstack([X, -X, np.ones((n, 1)), -np.ones((n, 1)), np.eye(n), -np.eye(n)])
    best = scipy.optimize.linprog(cost, A_eq=rows, b_eq=Y)
    own = best.x[:4] - best.x[4:8]
    assert best.fun < solution.objective < (1 + 1e-6) * (best.fun + 0.5e-7 * own @ own)


def test_coefficients_at_a_bound_are_exactly_there():
    model = SVC(kernel="linear").fit(X, SIGNS)
    assert model.statuses_[0].converged
    assert len(model.support_) < 200
    bounded = np.abs(model.dual_coef_) == 1.0
    assert (~bounded).sum() <= 6  # at most as many are free as there are dimensions, and one


@pytest.mark.parametrize(
    "model", [SVC(kernel="linear"), SVR(kernel="linear"), KernelQuantileRegressor(kernel="linear")]
)
def test_estimators_do_not_end_at_their_cap_of_steps(model):
    """A column × 100 took 300,000 steps and more."""
    A = np.random.default_rng(1).standard_normal((1500, 6)) * [1, 1, 100, 1, 1, 1]
    b = A[:, 0] + 0.01 * A[:, 2] + np.random.default_rng(2).standard_normal(1500)
    model.fit(A, b > 0 if isinstance(model, SVC) else b)
    status = model.statuses_[0] if isinstance(model, SVC) else model.solution_.status
    assert status.converged


def test_other_kernels_with_few_features_and_squared_hinge():
    few = Polynomial(2, 1.0).gram(X[:, [0, 2]])
    for loss, gram in ((Hinge(), few), (SquaredHinge(), Linear().gram(X))):
        problem = Problem(gram, SIGNS, loss, 1e-3, None, True)
        assert DualAscent(1e-5).solve(problem).status.converged


@pytest.mark.parametrize("loss", [Quantile(0.5), EpsilonInsensitive(0.1)], ids=repr)
def test_a_few_points_with_large_columns_are_solved(loss):
    """They took all of ten million steps, and were not."""
    few = 1e3 * RNG.standard_normal((25, 2))
    y = RNG.integers(0, 2, 25).astype(float)
    solution = DualAscent().solve(Problem(Linear(1.0).gram(few), y, loss, 1 / 750, None, True))
    assert solution.status.converged
    assert solution.history["steps"][0] < 10_000


def test_steps_are_limited_by_the_number_of_points():
    few = 1e3 * RNG.standard_normal((10, 2))
    y = RNG.integers(0, 2, 10).astype(float)
    solution = DualAscent().solve(Problem(Polynomial(3).gram(few), y, Absolute(), 1e-3))
    assert not solution.status.converged  # Kα has no digit of y left
    assert solution.history["steps"][0] <= 110_000


def test_several_classes_are_solved_where_steps_do_not_end():
    """Pairs that share what is computed for a class took all of 2,100,000 steps each."""
    points = RNG.standard_normal((1300, 4)) * [1.0, 1.0, 100.0, 1.0]
    labels = np.digitize(points[:, 0], [-0.5, 0.5])
    model = SVC(kernel="linear").fit(points, labels)
    assert all(status.converged for status in model.statuses_)
    assert model.score(points, labels) > 0.98


@pytest.mark.parametrize("loss", [Quantile(0.9), Absolute(), EpsilonInsensitive(0.1), Hinge()])
@pytest.mark.parametrize(("unit", "off"), [(1e4, 0.0), (1e7, 3.0)])
def test_columns_in_large_units_are_solved_by_the_weights(loss, unit, off):
    """Coefficients of the dual problem are of size 1, whose products with K lose all digits."""
    random = np.random.default_rng(0)
    X = random.standard_normal((400, 5)) + off
    y = X[:, 0] + 0.3 * random.standard_t(3, 400)
    y = np.sign(y - np.median(y)) if isinstance(loss, Hinge) else y
    ridge = 1.0 / 12_000
    problem = Problem(Linear().gram(unit * X), y, loss, ridge, None, True)
    solution = DualAscent(1e-8).solve(problem)
    assert solution.status.converged
    assert "weights of 5 features" in solution.status.message
    w = (unit * X).astype(np.longdouble).T @ solution.coefficients
    values = np.asarray(unit * X @ w + solution.intercept, np.float64)
    objective = np.mean(loss.value(y, values)) + 0.5 * ridge * float(w @ w)
    assert solution.objective == pytest.approx(objective, rel=1e-12)
    flat = Problem(Linear().gram(X - X.mean(axis=0)), y, loss, 1e-12, None, True)
    assert objective <= DualAscent(1e-8).solve(flat).objective * (1 + 1e-7)
    assert np.abs(solution.coefficients).max() < 1e-3 / unit


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e3, np.array([1e3, 1e2, 1e3, 1e2, 10.0])])
def test_quantiles_of_quadratic_polynomials_need_no_scaling(scale, dtype):
    random = np.random.default_rng(0)
    Z = random.standard_normal((600, 5))
    y = (Z[:, 0] ** 2 + Z[:, 1] + 0.3 * random.standard_normal(600)).astype(dtype)
    model = KernelQuantileRegressor([0.9], kernel=Polynomial(2), tol=1e-5)
    model.fit((scale * Z).astype(dtype), y)
    assert model.solution_.status.converged
    assert np.mean(y <= np.ravel(model.predict((scale * Z).astype(dtype)))) == pytest.approx(
        0.9, abs=0.03
    )


def test_coefficients_of_machines_stay_within_their_bounds():
    X = 1e5 * np.random.default_rng(0).standard_normal((300, 2))
    model = SVC(kernel="linear", C=1.0).fit(X, X[:, 0] + X[:, 1] > 0)
    assert np.abs(model.dual_coef_).max() <= 1.0
