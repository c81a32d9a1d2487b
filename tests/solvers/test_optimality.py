"""Bounds from the dual: never wrong, and sharp with an intercept."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.kernels import Gaussian, Linear
from mercer.losses import Hinge, Huber, Logistic, Multinomial, Poisson, Squared
from mercer.solvers import (
    ConjugateGradient,
    Direct,
    DualAscent,
    Gap,
    Newton,
    Problem,
    Splitting,
    certified_gap,
    duality_gap,
)
from mercer.solvers.optimality import balanced, centring_intercept, ridge_residual
from regularised import KERNEL, KINKED, LABELS, NOISY, SMOOTH, WEIGHTS, K, N, X, least, objective


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("name", SMOOTH | KINKED)
def test_a_bound_is_never_above_the_least_objective(name, fit_intercept):
    loss, y = (SMOOTH | KINKED)[name]
    problem = Problem(KERNEL.gram(X), y, loss, 0.02, WEIGHTS, fit_intercept)
    if name in SMOOTH:
        lowest = least(name, y, 0.02, WEIGHTS, fit_intercept)
    else:
        lowest = Splitting(1e-6).solve(problem).objective
    rng = np.random.default_rng(0)
    shape = (N, 3) if name == "multinomial" else y.shape
    for size in (0.0, 0.01, 0.3):
        alpha, b = size * rng.standard_normal(shape), size * rng.standard_normal(shape[1:])
        b = b * fit_intercept
        gap = certified_gap(problem, alpha, b)
        assert gap.objective == pytest.approx(objective(name, y, alpha, b, 0.02, WEIGHTS))
        assert gap.bound <= lowest + 1e-7
        assert gap.absolute == duality_gap(problem, alpha, b) >= gap.objective - lowest - 1e-7
        assert np.isfinite(gap.bound)


def test_relative_gaps():
    assert Gap(2.0, 1.0).relative == 0.5
    assert Gap(-2.0, 2.0).relative == 0.5
    assert Gap(0.0, 0.0).relative == 0.0
    assert Gap(1.0, -1e-17, rounding=1e-15).absolute == 1e-15  # nothing below rounding is claimed
    assert Gap(1e-30, 1e-30, scale=1e-14).relative < 1e-15  # an objective that is rounding only
    assert Gap(1.0, np.inf).relative == np.inf


@pytest.mark.parametrize("outputs", [(), (3,)])
def test_balanced_points_are_the_nearest_of_the_box(outputs):
    rng = np.random.default_rng(1)
    u, p = rng.standard_normal((N, *outputs)), rng.uniform(size=N)
    p /= p.sum()
    low, high = -rng.uniform(0.2, 1.0, u.shape), rng.uniform(0.1, 1.0, u.shape)
    v = balanced(u, low, high, p)
    assert np.allclose(np.tensordot(p, v, 1), 0.0, atol=1e-15)
    assert ((low <= v) & (v <= high)).all()
    shift = np.where((v > low) & (v < high), u - v, np.nan)
    assert np.nanmax(shift, axis=0) - np.nanmin(shift, axis=0) == pytest.approx(0.0, abs=1e-12)
    assert np.allclose(balanced(v, low, high, p), v, atol=1e-14)
    free = balanced(u, -np.inf, np.inf, p)
    assert np.allclose(free, u - np.tensordot(p, u, 1), atol=1e-13)


@pytest.mark.parametrize(
    ("loss", "y"),
    [
        (Squared(), NOISY),
        (Huber(0.01), 1e4 * NOISY),
        (Logistic(), LABELS),
        (Poisson(), np.abs(np.round(1e6 * NOISY))),
        (Multinomial(), np.eye(3)[np.digitize(NOISY, [-0.7, 0.7])]),
    ],
    ids=repr,
)
@pytest.mark.parametrize("spread", [0.0, 1.0, 50.0])
def test_the_best_constant_makes_slopes_sum_to_zero(loss, y, spread):
    f = spread * np.random.default_rng(0).standard_normal(y.shape)
    p = WEIGHTS / WEIGHTS.sum()
    problem = Problem(KERNEL.gram(X), y, loss, 1.0, WEIGHTS, True)
    b = centring_intercept(problem, f)
    slopes = loss.slope(y, f + b)
    scale = np.abs(slopes).max()
    assert np.abs(np.tensordot(p, slopes, 1)).max() <= 1e-13 * scale
    far = centring_intercept(problem, f, b + 30.0 * np.arange(np.size(b)).reshape(b.shape))
    assert np.allclose(far, b, atol=1e-6)


def test_constants_of_even_classes_take_few_steps():
    """At f = 0 rounding leaves more of the eigenvalue 0 than elsewhere: a hundred steps were taken
    along constants alike for all classes, each of two evaluations."""
    evaluations = []

    class Counted(Multinomial):
        def value(self, y, f):
            evaluations.append(f)
            return super().value(y, f)

    classes = np.arange(4000) % 10
    classes[:50] = 0
    problem = Problem(Linear().gram(np.zeros((4000, 1))), classes, Counted(), 1.0, None, True)
    b = centring_intercept(problem, 0.0 * problem.y)
    assert np.allclose(b, np.log(np.bincount(classes)) - np.log(np.bincount(classes)).mean())
    assert len(evaluations) <= 8


def test_the_gap_closes_with_an_intercept_and_a_stored_matrix_is_used():
    problem = Problem(KERNEL.gram(X), LABELS, Hinge(), 0.05, None, True)
    solution = Splitting(1e-7).solve(problem)
    before = problem.gram.evaluations
    gap = certified_gap(problem, solution.coefficients, solution.intercept, lambda v: K @ v)
    assert gap.relative <= 1e-7
    assert problem.gram.evaluations == before


def test_classes_that_hardly_count_leave_the_gap_sharp():
    """Probabilities within rounding of 1: their slopes sum to 0 up to that only."""
    classes = np.digitize(NOISY, [-0.7, 0.7])
    weights = np.where(classes == 0, 1e3, 1e-4)
    problem = Problem(
        KERNEL.gram(X), classes.astype(float), Multinomial(), 1.0 / weights.sum(), weights, True
    )
    solution = Newton(1e-6).solve(problem)
    assert solution.objective < 1e-5
    assert solution.status.converged, solution.status


# ---- rounding: nothing below it is claimed -------------------------------------------------------


def unscaled(seed):
    """Columns of size 1 to 10⁴, with which values of f lose half of their digits."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((60, 3)) * [1.0, 100.0, 1e4]
    labels = np.where(points[:, 0] + 0.3 * rng.standard_normal(60) > 0, 1.0, -1.0)
    return points, labels


def truth(points, labels, alpha, b, ridge):
    """The objective of the hinge loss and the best of three dual bounds, in 64 binary digits."""
    wide = points.astype(np.longdouble)
    matrix, alpha, ridge = wide @ wide.T, alpha.astype(np.longdouble), np.longdouble(ridge)
    f, n = matrix @ alpha, len(labels)
    margins = labels * (f + np.longdouble(b))
    primal = np.maximum(1 - margins, 0).mean() + ridge / 2 * (alpha @ f)
    low, high = np.minimum(-labels, 0.0), np.maximum(-labels, 0.0)
    bounds = [np.longdouble(0)]  # of u = 0
    for u in (-ridge * n * alpha, np.where(margins < 1, -labels, 0.0)):
        left, right = np.longdouble(-4), np.longdouble(4)
        for _ in range(100):
            middle = (left + right) / 2
            above = np.clip(np.clip(u, low, high) - middle, low, high).sum() > 0
            left, right = (middle, right) if above else (left, middle)
        u = np.clip(np.clip(u, low, high) - left, low, high)
        bounds.append(-(labels * u).mean() - (u @ (matrix @ u)) / (2 * ridge * n * n))
    return float(primal), float(primal - max(bounds))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "solver",
    [DualAscent(1e-6, max_iterations=100_000), Splitting(1e-5, iterations=500)],
    ids=lambda solver: type(solver).__name__,
)
def test_a_gap_is_no_smaller_than_what_rounding_hides(solver, seed):
    points, labels = unscaled(seed)
    problem = Problem(Linear().gram(points), labels, Hinge(), 1e-3, None, True)
    solution = solver.solve(problem)
    gap = certified_gap(problem, solution.coefficients, solution.intercept)
    primal, difference = truth(points, labels, solution.coefficients, solution.intercept, 1e-3)
    assert abs(gap.objective - primal) <= gap.rounding <= 1e-4 * primal
    assert gap.absolute >= difference
    assert gap.absolute <= 1.01 * difference + 10 * gap.rounding + 1e-12


def test_rounding_is_said_where_it_is_most_of_the_gap():
    gap = Gap(1.0, 1e-18, rounding=1e-9)
    assert str(gap) == "relative duality gap 1.0e-09, most of it rounding"
    assert "rounding" not in str(Gap(1.0, 1e-3, rounding=1e-9))


def test_residuals_carry_their_rounding_too():
    """α is huge and cancels: what is computed of K α − y is only noise of this size."""
    points = np.linspace(0.0, 1.0, 40)[:, None]
    problem = Problem(Gaussian(0.5).gram(points), np.sin(9 * points[:, 0]), Squared(), 1e-17)
    solution = Direct(mixed=False).solve(problem)
    wide = points.astype(np.longdouble)
    matrix = np.exp(-((wide - wide.T) ** 2) / (2 * np.longdouble(0.5) ** 2))
    alpha = solution.coefficients.astype(np.longdouble)
    rest = matrix @ alpha + 40 * np.longdouble(1e-17) * alpha - problem.targets
    true = float(np.linalg.norm(rest.astype(float))) / np.linalg.norm(problem.targets)
    assert solution.gap >= true
    assert solution.gap >= ridge_residual(problem, solution.coefficients).error


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("y", [np.zeros(N), np.full(N, 3.0)], ids=["zero", "constant"])
def test_targets_that_are_all_alike_are_solved(y, intercept):
    gram = KERNEL.gram(X)
    centres = KERNEL.gram(X, X[:9])
    for solver, problem in (
        (ConjugateGradient(), Problem(gram, y, Squared(), 1e-3, None, intercept)),
        (Direct(), Problem(gram, y, Squared(), 1e-3, None, intercept)),
        (Newton(), Problem(gram, y, Huber(), 1e-3, None, intercept)),
        (Newton(), Problem.on_centres(centres, y, Squared(), 1e-3, None, intercept)),
        (Newton(), Problem.on_centres(centres, y, Huber(), 1e-3, None, intercept)),
    ):
        solution = solver.solve(problem)
        assert solution.status.converged, solution.status
        if intercept or not y.any():
            assert np.abs(solution.coefficients).max() < 1e-6
            assert solution.intercept == pytest.approx(y[0], abs=1e-6)
