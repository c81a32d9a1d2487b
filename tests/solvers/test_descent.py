"""Descent in the space of functions, against matrices, optima and bounds computed here."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

from mercer.kernels import Gaussian, Linear, Polynomial
from mercer.losses import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)
from mercer.solvers import (
    Direct,
    Discrepancy,
    HeldOut,
    KernelGradientDescent,
    Landweber,
    Problem,
    SpectralPath,
    StochasticFunctionalGradient,
    SubgradientDescent,
    duality_gap,
    gradient_norm,
)
from mercer.solvers.krylov import largest_eigenvalue
from mercer.solvers.schedules import (
    Average,
    Constant,
    InverseSquareRoot,
    InverseTime,
    average_bound,
    subgradient_bound,
    weighted_average_bound,
)
from mercer.solvers.stochastic import Tuning

RNG = np.random.default_rng(7)
X = RNG.uniform(-1.0, 1.0, (40, 2))
CURVE = np.sin(3.0 * X[:, 0]) + 0.1 * RNG.standard_normal(40)
LABELS = np.where(X[:, 0] * X[:, 1] + 0.1 * RNG.standard_normal(40) > 0, 1.0, -1.0)
WEIGHTS = RNG.uniform(0.5, 2.0, 40)
WEIGHTS[3] = 0.0
KERNEL = Gaussian(0.5)
K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=-1) / (2 * 0.5**2))


def problem(loss=None, y=None, ridge=0.01, dtype=np.float64, **options):
    loss = loss or Squared()
    if y is None:
        y = LABELS if loss.is_classification else CURVE
    return Problem(KERNEL.gram(X.astype(dtype)), y, loss, ridge, **options)


def test_an_objective_that_overflows_ends_at_the_iterate_before():
    task = problem(y=1e160 * CURVE)  # its square is no number
    with np.errstate(over="ignore", invalid="ignore"):
        solution = KernelGradientDescent(5).solve(task)
    assert not solution.coefficients.any()
    assert "not finite" in str(solution.status)
    assert not solution.status.converged


def independent_gradient_norm(slope, alpha, ridge, weights=None, intercept=False):
    """√(gᵀKg) from a dense K and a slope that was written out here."""
    alpha = np.asarray(alpha, float).reshape(40, -1)
    share = (np.ones(40) if weights is None else weights)[:, None]
    share = share / share.sum()
    slopes = share * slope
    g = slopes + ridge * alpha
    free = (slopes.sum(axis=0) ** 2).sum() if intercept else 0.0
    return math.sqrt(max(np.sum(g * (K @ g)), 0.0) + free)


def optimum(loss, ridge, weights=None):
    """The least J of the hinge or the absolute loss: the dual, over its box, by SciPy."""
    y = LABELS if loss.is_classification else CURVE
    p = np.full(40, 1 / 40) if weights is None else weights / weights.sum()
    low, high = loss.domain(y)
    bounds = np.stack(np.broadcast_arrays(low + 0 * y, high + 0 * y), axis=1)

    def dual(u):
        pushes = K @ (p * u)
        # both conjugates are uy on their domain: the hinge's φ*(v) = v, the absolute loss's ψ* = 0
        return p @ (u * y) + (p * u) @ pushes / (2 * ridge), p * y + p * pushes / ridge

    result = minimize(
        dual, np.zeros(40), jac=True, bounds=bounds, options={"maxiter": 5000, "ftol": 1e-15}
    )
    return -result.fun


# ---- the stable step -----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 7, 200])
def test_largest_eigenvalue(size):
    A = np.random.default_rng(size).standard_normal((size, size))
    A = A @ A.T
    found = largest_eigenvalue(lambda v: A @ v, A[0])
    exact = np.linalg.eigvalsh(A)[-1]
    assert found <= exact * (1 + 1e-12)
    assert found == pytest.approx(exact, rel=1e-3)


def test_largest_eigenvalue_of_nothing_is_zero():
    assert largest_eigenvalue(lambda v: 0.0 * v, np.ones(5)) == 0.0


@pytest.mark.parametrize(("loss", "smoothness"), [(Squared(), 1.0), (Logistic(), 0.25)])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("intercept", [False, True])
def test_too_long_a_step_is_refused_with_the_bound(loss, smoothness, weights, intercept):
    p = np.ones(40) if weights is None else weights
    s = np.sqrt(p / p.sum())
    top = np.linalg.eigvalsh(s[:, None] * (K + intercept) * s)[-1]
    bound = 2.0 / (smoothness * top + 0.3)
    task = problem(loss, ridge=0.3, weights=weights, fit_intercept=intercept)
    with pytest.raises(ValueError, match=r"descent is stable below .* = ") as refusal:
        KernelGradientDescent(5, step_size=1.001 * bound).solve(task)
    assert f"{bound:.3g}" in str(refusal.value)
    objectives = KernelGradientDescent(60, 0.99 * bound).solve(task).history["objective"]
    assert all(b <= a + 1e-14 for a, b in pairwise(objectives))


def test_a_longer_step_would_diverge():
    """The bound is sharp: the recursion itself grows just above it."""
    bound = 2.0 / (np.linalg.eigvalsh(K)[-1] / 40)
    sizes = []
    for step in (0.98 * bound, 1.02 * bound):
        alpha = np.zeros(40)
        for _ in range(2000):
            alpha = alpha - step / 40 * (K @ alpha - CURVE)
        sizes.append(np.linalg.norm(K @ alpha - CURVE))
    assert sizes[0] < np.linalg.norm(CURVE) < 1e3 < sizes[1]


@pytest.mark.parametrize("loss", [Hinge(), Absolute(), Poisson()])
def test_losses_without_a_smooth_slope_are_refused(loss):
    y = np.abs(LABELS) if isinstance(loss, Poisson) else None
    with pytest.raises(ValueError, match=r"needs a loss whose slope is Lipschitz.*Subgradient"):
        KernelGradientDescent(5).solve(problem(loss, y))


# ---- kernel gradient descent ---------------------------------------------------------------------


def test_explicit_sum_of_residuals():
    """On Σ(f(x_i) − y_i)² a step η is α_t = −η Σ_{r<t} γ^r, γ^r = 2(Kα^r − y) (K 2.1)."""
    visited = [np.zeros(40)]
    solver = KernelGradientDescent(
        25, step_size=0.9, callback=lambda t, state: visited.append(state.coefficients)
    )
    solution = solver.solve(problem(ridge=0.0))
    eta = 0.9 / (2 * 40)  # ours descends on the mean of ½(f − y)²
    gammas = [2 * (K @ alpha - CURVE) for alpha in visited[:-1]]
    assert len(visited) == 26
    np.testing.assert_allclose(solution.coefficients, -eta * np.sum(gammas, axis=0), rtol=1e-11)


@pytest.mark.parametrize("steps", [1, 2, 50, 500])
def test_square_loss_is_the_filter_of_landweber(steps):
    solution = KernelGradientDescent(steps, step_size=1.5, tolerance=1e-300).solve(
        problem(ridge=0.0)
    )
    path = SpectralPath.of(KERNEL.gram(X), CURVE)
    expected, _ = path.coefficients(Landweber(steps, 1.5))
    np.testing.assert_allclose(solution.coefficients, expected, rtol=1e-8, atol=1e-8)


def test_weights_are_repetitions():
    counts = np.random.default_rng(1).integers(1, 4, 40)
    rows = np.repeat(np.arange(40), counts)
    weighted = KernelGradientDescent(80, step_size=0.7).solve(problem(weights=counts.astype(float)))
    repeated = Problem(KERNEL.gram(X[rows]), CURVE[rows], Squared(), 0.01)
    alpha = KernelGradientDescent(80, step_size=0.7).solve(repeated).coefficients
    summed = np.bincount(rows, alpha)
    np.testing.assert_allclose(weighted.coefficients, summed, rtol=1e-9, atol=1e-12)


def test_it_tends_to_ridge_regression():
    task = problem(ridge=0.05, weights=WEIGHTS, fit_intercept=True)
    exact = Direct().solve(task)
    found = KernelGradientDescent(5000, tolerance=1e-10).solve(task)
    assert found.status.converged
    np.testing.assert_allclose(found.coefficients, exact.coefficients, atol=1e-7)
    assert found.intercept == pytest.approx(exact.intercept, abs=1e-7)
    assert found.objective == pytest.approx(exact.objective, rel=1e-12)


def test_the_start_does_not_matter_without_a_null_space():
    apart = Gaussian(0.3).gram(np.linspace(0, 3, 8)[:, None])
    y = np.sin(np.arange(8.0))
    task = Problem(apart, y, Squared(), 0.0)
    solver = KernelGradientDescent(100000, tolerance=1e-12)
    starts = [None, 5.0 * np.cos(np.arange(8.0))]
    ends = [solver.solve(task, start).coefficients for start in starts]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-9)
    np.testing.assert_allclose(ends[0], np.linalg.solve(apart.dense(), y), atol=1e-9)


def test_with_a_null_space_the_start_stays_and_zero_gives_the_least_norm():
    points = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])  # rank 2
    gram, y = Linear().gram(points), np.array([1.0, 2.0, 3.0])
    matrix, null = gram.dense(), np.array([1.0, 1.0, -1.0])
    task, solver = Problem(gram, y, Squared(), 0.0), KernelGradientDescent(20000, tolerance=1e-13)
    from_zero = solver.solve(task).coefficients
    elsewhere = solver.solve(task, start=4.0 * null).coefficients
    np.testing.assert_allclose(matrix @ null, 0.0, atol=1e-15)
    np.testing.assert_allclose(from_zero, np.linalg.pinv(matrix) @ y, atol=1e-9)
    np.testing.assert_allclose(elsewhere - from_zero, 4.0 * null, atol=1e-9)


def test_from_zero_least_squares_that_cannot_be_met_gives_the_least_norm():
    points = np.array([[0.0], [0.0], [1.0]])  # two answers at one point
    gram, y = Gaussian(0.5).gram(points), np.array([1.0, 3.0, 0.0])
    task = Problem(gram, y, Squared(), 0.0)
    solution = KernelGradientDescent(20000, tolerance=1e-12).solve(task)
    assert solution.status.converged
    values = gram.dense() @ solution.coefficients
    np.testing.assert_allclose(values, [2.0, 2.0, 0.0], atol=1e-8)


SLOPES = {
    "squared": (Squared(), lambda y, f: f - y),
    "huber": (Huber(0.2), lambda y, f: np.clip(f - y, -0.2, 0.2)),
    "logistic": (Logistic(), lambda y, f: -y / (1 + np.exp(y * f))),
    "squared hinge": (SquaredHinge(), lambda y, f: -2 * y * np.maximum(1 - y * f, 0)),
}


@pytest.mark.parametrize("name", SLOPES)
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_gap_is_the_true_norm_of_the_gradient(name, weights, intercept):
    loss, slope = SLOPES[name]
    task = problem(loss, ridge=0.02, weights=weights, fit_intercept=intercept)
    solution = KernelGradientDescent(15).solve(task)
    y = np.asarray(task.targets)[:, None]
    values = (K @ solution.coefficients + solution.intercept)[:, None]
    expected = independent_gradient_norm(
        slope(y, values), solution.coefficients, 0.02, weights, intercept
    )
    assert solution.gap == pytest.approx(expected, rel=1e-8)
    assert solution.gap == pytest.approx(solution.history["gradient_norm"][-1], rel=1e-6)
    assert solution.objective == pytest.approx(solution.history["objective"][-1], rel=1e-12)
    assert not solution.status.converged
    assert "that was the limit" in str(solution.status)


@pytest.mark.parametrize("name", SLOPES)
def test_the_gradient_is_the_derivative(name):
    """J(f + εh) − J(f) = ε⟨∇J, h⟩ + O(ε²), and ‖∇J‖ is the largest such slope."""
    loss, slope = SLOPES[name]
    task = problem(loss, ridge=0.1)
    rng = np.random.default_rng(3)
    alpha, h = rng.standard_normal(40), rng.standard_normal(40)
    g = slope(np.asarray(task.targets), K @ alpha) / 40 + 0.1 * alpha
    eps = 1e-6
    for direction, expected in ((h, h @ K @ g), (g, gradient_norm(task, alpha) ** 2)):
        ahead, behind = (task.objective(alpha + s * eps * direction) for s in (1, -1))
        assert (ahead - behind) / (2 * eps) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", SLOPES)
def test_the_status_bounds_the_distance_to_the_optimum(name):
    loss, _ = SLOPES[name]
    task = problem(loss, ridge=0.05)
    best = KernelGradientDescent(20000, tolerance=1e-11).solve(task)
    assert best.status.converged
    for steps in (1, 5, 20):
        rough = KernelGradientDescent(steps).solve(task)
        within = float(str(rough.status).split("is within ")[1].split(" of")[0])
        assert within == pytest.approx(rough.gap**2 / 0.1, rel=0.06)  # printed with two digits
        assert 0 < rough.objective - best.objective <= rough.gap**2 / 0.1


def test_logistic_agrees_with_scipy():
    def objective(alpha):
        f = K @ alpha
        losses = np.logaddexp(0, -LABELS * f)
        slopes = -LABELS / (1 + np.exp(LABELS * f)) / 40
        return losses.mean() + 0.025 * alpha @ f, K @ (slopes + 0.05 * alpha)

    reference = minimize(objective, np.zeros(40), jac=True, options={"gtol": 1e-10})
    found = KernelGradientDescent(20000, tolerance=1e-10).solve(problem(Logistic(), ridge=0.05))
    assert found.objective == pytest.approx(reference.fun, abs=1e-12)
    np.testing.assert_allclose(K @ found.coefficients, K @ reference.x, atol=1e-4)


def test_several_outputs_are_descended_at_once():
    Y = np.stack([CURVE, CURVE**2, 1 - CURVE], axis=1)
    whole = KernelGradientDescent(200, step_size=0.8).solve(
        problem(y=Y, weights=WEIGHTS, fit_intercept=True)
    )
    assert whole.coefficients.shape == (40, 3)
    assert whole.intercept.shape == (3,)
    for j in range(3):
        one = KernelGradientDescent(200, step_size=0.8).solve(
            problem(y=Y[:, j], weights=WEIGHTS, fit_intercept=True)
        )
        np.testing.assert_allclose(whole.coefficients[:, j], one.coefficients, atol=1e-12)
        assert whole.intercept[j] == pytest.approx(one.intercept, abs=1e-12)


def test_classes_as_labels_or_as_rows():
    labels = np.digitize(X[:, 0], [-0.3, 0.4])
    rows = np.eye(3)[labels]
    answers = [
        KernelGradientDescent(3000, tolerance=1e-8).solve(problem(Multinomial(), y, 0.01))
        for y in (labels, rows)
    ]
    assert answers[0].status.converged
    assert answers[0].coefficients.shape == (40, 3)
    np.testing.assert_array_equal(answers[0].coefficients, answers[1].coefficients)
    alpha = answers[0].coefficients
    sizes = np.exp(K @ alpha)
    g = (sizes / sizes.sum(axis=1, keepdims=True) - rows) / 40 + 0.01 * alpha
    assert answers[0].gap == pytest.approx(math.sqrt(np.sum(g * (K @ g))), rel=1e-5)


def test_float32_stays_float32_and_the_gap_is_measured_in_float64():
    task = problem(Logistic(), dtype=np.float32)
    solution = KernelGradientDescent(300, tolerance=1e-4).solve(task)
    assert solution.coefficients.dtype == np.float32
    assert solution.status.converged
    alpha = solution.coefficients.astype(float)
    points = X.astype(np.float32).astype(float)
    exact = np.exp(-((points[:, None] - points[None]) ** 2).sum(axis=-1) / 0.5)
    g = -LABELS / (1 + np.exp(LABELS * (exact @ alpha))) / 40 + 0.01 * alpha
    assert solution.gap == pytest.approx(math.sqrt(g @ exact @ g), rel=1e-6)


def test_a_tolerance_that_rounding_hides_is_not_called_converged():
    """In float32 the running gradient gets smaller than the true one can."""
    task = problem(Squared(), ridge=0.1, dtype=np.float32)
    solution = KernelGradientDescent(300, tolerance=3e-8).solve(task)
    start = independent_gradient_norm(-CURVE[:, None], np.zeros(40), 0.1)
    assert solution.history["gradient_norm"][-1] <= 3e-8 * start < solution.gap
    assert not solution.status.converged
    assert "Rounding hides the rest: use float64" in str(solution.status)


def test_rounding_does_not_add_up_over_many_steps():
    task = problem(Squared(), ridge=0.1, dtype=np.float32)
    solution = KernelGradientDescent(400, tolerance=1e-13).solve(task)
    start = independent_gradient_norm(-CURVE[:, None], np.zeros(40), 0.1)
    assert solution.gap <= 5e-7 * start
    assert "that was the limit" in str(solution.status)


# ---- early stopping ------------------------------------------------------------------------------


def test_discrepancy_stops_at_the_first_step_below_the_level():
    level = 0.5 * 0.2**2
    solution = KernelGradientDescent(5000, stopping=Discrepancy(level)).solve(problem(ridge=0.0))
    risks = 0.5 * np.mean((K @ solution.coefficients - CURVE) ** 2)
    history = solution.history["objective"]  # λ = 0: the objective is the risk
    assert solution.status.converged
    assert "down to the level 0.02" in str(solution.status)
    assert risks == pytest.approx(history[-1], rel=1e-10)
    assert history[-1] <= level < history[-2]


def test_held_out_rows_are_not_fitted_and_choose_the_step():
    rng = np.random.default_rng(0)
    y = np.sign(X[:, 0]) + rng.standard_normal(40)  # noisy enough to overfit
    rule = HeldOut(fraction=0.25, patience=30, random_state=3)
    task = Problem(Gaussian(0.4).gram(X), y, Squared(), 0.0)
    solution = KernelGradientDescent(5000, stopping=rule).solve(task)
    hidden = rule.hidden(np.ones(40))
    assert hidden.sum() == 10
    assert (solution.coefficients[hidden] == 0).all()
    assert (solution.coefficients[~hidden] != 0).all()
    matrix = task.gram.dense()
    risks = solution.history["held_out_risk"]
    found = 0.5 * np.mean((matrix @ solution.coefficients - y)[hidden] ** 2)
    assert found == pytest.approx(min(risks), rel=1e-10)
    assert len(risks) - 1 - int(np.argmin(risks)) == 30
    assert solution.status.converged
    assert "10 held-out rows are predicted best" in str(solution.status)
    rest = matrix @ solution.coefficients - y  # the objective is that of all rows
    assert solution.objective == pytest.approx(0.5 * np.mean(rest**2), rel=1e-9)


def test_held_out_rows_have_weight_and_some_rows_stay():
    weights = np.zeros(12)
    weights[[1, 4, 7]] = 1.0
    hidden = HeldOut(fraction=0.9).hidden(weights)
    assert hidden.sum() == 2
    assert not hidden[weights == 0].any()
    with pytest.raises(ValueError, match="at least two rows with weight; got 1"):
        HeldOut().hidden(np.array([0.0, 2.0]))


def test_a_callback_stops_with_the_best_iterate():
    seen = []

    def callback(iteration, state):
        seen.append((iteration, state.objective, state.gradient_norm, state.coefficients))
        return iteration == 7

    solution = KernelGradientDescent(100, callback=callback).solve(problem(Logistic()))
    assert [entry[0] for entry in seen] == list(range(1, 8))
    np.testing.assert_array_equal(solution.coefficients, seen[-1][3])
    assert len(solution.history["objective"]) == 8
    assert not solution.status.converged
    assert "the callback said so" in str(solution.status)


def test_a_callback_with_held_out_rows_goes_back_to_the_best_iterate():
    rule = HeldOut(fraction=0.25, patience=1000)
    solver = KernelGradientDescent(
        5000, stopping=rule, callback=lambda iteration, _: iteration == 400
    )
    y = np.random.default_rng(5).standard_normal(40)
    solution = solver.solve(Problem(KERNEL.gram(X), y, Squared(), 0.0))
    risks = solution.history["held_out_risk"]
    assert len(risks) == 401
    hidden = rule.hidden(np.ones(40))
    values = K @ solution.coefficients
    assert 0.5 * np.mean((values - y)[hidden] ** 2) == pytest.approx(min(risks), rel=1e-12)
    assert min(risks) < risks[-1]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: KernelGradientDescent(0), "needs a whole number steps ≥ 1; got 0"),
        (lambda: KernelGradientDescent(2.0), r"steps ≥ 1; got 2\.0"),
        (lambda: KernelGradientDescent(3, step_size=-1.0), r"finite step_size > 0; got -1\.0"),
        (lambda: KernelGradientDescent(3, tolerance=0), "finite tolerance > 0; got 0"),
        (lambda: HeldOut(fraction=1.0), r"HeldOut needs a fraction below 1; got 1\.0"),
        (lambda: HeldOut(patience=0), "HeldOut needs a whole number patience ≥ 1"),
        (lambda: Discrepancy(0.0), "Discrepancy needs a finite level > 0"),
        (lambda: SubgradientDescent(3, 0.1), r"got 0\.1\. Write schedules\.Constant"),
        (lambda: SubgradientDescent(3, Constant(1), averaging=True), "or None; got True"),
        (lambda: StochasticFunctionalGradient(0, Constant(1)), "number passes ≥ 1; got 0"),
        (lambda: StochasticFunctionalGradient(1, Constant(1), batch_size=0), "batch_size ≥ 1"),
    ],
)
def test_refusals(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_a_start_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"shape \(40,\) of the targets; got \(3,\)"):
        KernelGradientDescent(3).solve(problem(), start=np.ones(3))


def test_targets_that_the_loss_cannot_read_are_refused():
    with pytest.raises(ValueError, match="labels −1 and \\+1"):
        KernelGradientDescent(3).solve(problem(Logistic(), CURVE))


# ---- the duality gap -----------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("loss", [Hinge(), Absolute()])
def test_the_duality_gap_bounds_the_distance_to_the_optimum(loss, weights):
    task, least = problem(loss, ridge=0.1, weights=weights), optimum(loss, 0.1, weights)
    rng = np.random.default_rng(2)
    for alpha in (np.zeros(40), 0.1 * rng.standard_normal(40)):
        assert duality_gap(task, alpha) >= task.objective(alpha) - least - 1e-9


def test_the_duality_gap_closes_at_the_optimum():
    task = problem(Logistic(), ridge=0.1)
    best = KernelGradientDescent(5000, tolerance=1e-11).solve(task)
    assert duality_gap(task, best.coefficients) < 1e-10
    labels = np.digitize(X[:, 0], [-0.3, 0.4])
    several = problem(Multinomial(), labels, 0.1)
    best = KernelGradientDescent(5000, tolerance=1e-11).solve(several)
    assert duality_gap(several, best.coefficients) < 1e-10


def test_without_regularisation_the_gap_is_the_distance_to_the_least_losses():
    task = problem(Absolute(), ridge=0.0)
    alpha = 0.1 * np.ones(40)
    assert duality_gap(task, alpha) == pytest.approx(np.abs(K @ alpha - CURVE).mean())


# ---- subgradients --------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 10, 300])
def test_subgradient_bound_holds(steps):
    """Absolute loss, λ = 0: least objective 0 at the interpolant, subgradients of norm ≤ 1."""
    apart = np.linspace(0, 4, 12)[:, None]
    gram, y = Gaussian(0.4).gram(apart), np.sin(np.arange(12.0))
    distance = math.sqrt(y @ np.linalg.solve(gram.dense(), y))
    solver = SubgradientDescent(steps, Constant(distance / math.sqrt(steps)))
    solution = solver.solve(Problem(gram, y, Absolute(), 0.0))
    reached = np.abs(gram.dense() @ solution.coefficients - y).mean()
    assert solution.objective == pytest.approx(reached)
    assert 0 < reached <= subgradient_bound(distance, 1.0, steps)
    assert solution.gap == pytest.approx(reached)  # compared with losses of 0


def test_the_bound_is_met_from_the_far_side_where_the_printed_one_is_broken():
    """‖θ_0‖, ‖θ*‖ ≤ B allow D = 2B; one step of L(θ) = |θ − B| from −B leaves 2B > √2·B."""
    task = Problem(Linear().gram([[1.0]]), np.array([3.0]), Absolute(), 0.0)
    solution = SubgradientDescent(1, Constant(6.0)).solve(task, start=np.array([-3.0]))
    assert solution.objective == subgradient_bound(6.0, 1.0, 1) == 6.0
    assert solution.objective > math.sqrt(2.0) * 3.0


@pytest.mark.parametrize("loss", [Hinge(), Absolute(), Quantile(0.8), Huber(0.1), Logistic()])
@pytest.mark.parametrize("averaging", [Average(), Average(1.0), None])
def test_the_recursion_and_its_average(loss, averaging):
    task = problem(loss, ridge=0.05, weights=WEIGHTS)
    schedule = InverseSquareRoot(2.0)
    solution = SubgradientDescent(30, schedule, averaging).solve(task)
    y, p = np.asarray(task.targets), WEIGHTS / WEIGHTS.sum()
    alpha, iterates = np.zeros(40), []
    for t in range(1, 31):
        iterates.append(alpha)
        slopes = np.asarray(loss.slope(y, K @ alpha))
        alpha = alpha - schedule.step(t) * (p * slopes + 0.05 * alpha)
    objectives = [task.objective(iterate) for iterate in iterates]
    np.testing.assert_allclose(solution.history["objective"], objectives, rtol=1e-9)
    expected = iterates[int(np.argmin(objectives))]
    if averaging is not None:
        powers = [t**averaging.power for t in range(1, 31)]
        expected = np.average(iterates, axis=0, weights=powers)
    np.testing.assert_allclose(solution.coefficients, expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("loss", [Hinge(), Absolute()])
def test_long_runs_come_near_the_optimum_and_say_so(loss):
    task, least = problem(loss, ridge=0.5), optimum(loss, 0.5)
    solver = SubgradientDescent(600, InverseTime(2 / 0.5, 1.0), Average(1.0), tolerance=0.01)
    solution = solver.solve(task)
    assert -1e-9 <= solution.objective - least <= solution.gap
    assert solution.gap <= 0.01 * solution.objective
    assert solution.status.converged
    assert "by its dual" in str(solution.status)


def test_subgradients_with_intercept_outputs_and_float32():
    Y = np.stack([LABELS, -LABELS], axis=1)
    task = problem(Hinge(), Y, 0.05, dtype=np.float32, fit_intercept=True)
    solution = SubgradientDescent(400, InverseSquareRoot(1.0)).solve(task)
    assert solution.coefficients.dtype == np.float32
    assert solution.intercept.shape == (2,)
    np.testing.assert_allclose(solution.coefficients[:, 0], -solution.coefficients[:, 1], atol=1e-5)
    assert solution.objective < 0.8 * 2.0  # f = 0 has 2
    assert 0 < solution.gap < 0.3  # the dual point is moved to where an intercept wants it


def test_a_callback_stops_subgradients():
    solver = SubgradientDescent(50, Constant(0.1), callback=lambda t, state: t == 4)
    assert len(solver.solve(problem(Hinge())).history["objective"]) == 4


def test_steps_that_blow_up_are_refused():
    with pytest.raises(ValueError, match=r"turns f round: 1 − ηλ = -1.*InverseTime"):
        SubgradientDescent(5, Constant(4.0)).solve(problem(Hinge(), ridge=0.5))
    with pytest.raises(ValueError, match="too long for a loss with unbounded slope"):
        SubgradientDescent(5, Constant(50.0)).solve(problem(Squared(), ridge=0.0))
    stochastic = StochasticFunctionalGradient(1, InverseTime(10.0))
    with pytest.raises(ValueError, match=r"too long for a loss.*stable below 1\.82"):
        stochastic.solve(problem(Squared(), ridge=0.1))


def test_a_divergence_that_could_not_be_foreseen_is_told():
    task = problem(Poisson(), np.full(40, 50.0), 0.0)
    with np.errstate(all="ignore"):
        solution = SubgradientDescent(50, Constant(100.0)).solve(task)
    assert np.isfinite(solution.coefficients).all()
    assert not solution.status.converged
    assert len(solution.history["objective"]) < 50


# ---- one sample at a time ------------------------------------------------------------------------


def simulate(task, solver, seed, order):
    """The recursion as it is written, with a stored K, and its average."""
    y, ridge = np.asarray(task.targets), task.regularization
    weights = np.ones(40) if task.weights is None else task.weights
    factors = weights / weights[weights > 0].mean()
    alpha, total, count, t = np.zeros_like(y), np.zeros_like(y), 0.0, 0
    for rows in order(np.random.default_rng(seed)):
        for first in range(0, len(rows), solver.batch_size):
            batch, t = rows[first : first + solver.batch_size], t + 1
            weight, eta = solver.averaging.weight(t), solver.schedule.step(t)
            total, count = total + weight * alpha, count + weight
            f = (K @ alpha)[batch]
            scale = factors[batch].reshape(-1, *[1] * (y.ndim - 1))
            slopes = scale * np.asarray(task.loss.slope(y[batch], f))
            alpha = (1 - eta * ridge) * alpha
            np.add.at(alpha, batch, -eta / len(batch) * slopes)
    return total / count, alpha


@pytest.mark.parametrize("loss", [Hinge(), Logistic(), Huber(0.3)])
@pytest.mark.parametrize("batch_size", [1, 7, 64])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_stochastic_recursion(loss, batch_size, weights):
    several = Tuning(block=16)  # blocks a pass
    task = problem(loss, ridge=0.1, weights=weights)
    solver = StochasticFunctionalGradient(
        3, InverseTime(5.0, 2.0), batch_size, Average(1.0), random_state=11, tuning=several
    )
    known = np.flatnonzero(np.ones(40) if weights is None else weights)

    def order(rng):
        return [rng.permutation(known) for _ in range(3)]

    average, last = simulate(task, solver, 11, order)
    np.testing.assert_allclose(solver.solve(task).coefficients, average, rtol=1e-9, atol=1e-13)
    plain = StochasticFunctionalGradient(
        3, InverseTime(5.0, 2.0), batch_size, averaging=None, random_state=11, tuning=several
    )
    np.testing.assert_allclose(plain.solve(task).coefficients, last, rtol=1e-9, atol=1e-13)


def test_the_stochastic_recursion_in_several_outputs():
    Y = np.stack([CURVE, 1 - CURVE], axis=1)
    task = problem(Absolute(), Y, 0.1)
    solver = StochasticFunctionalGradient(2, InverseTime(10.0), random_state=4)
    average, _ = simulate(task, solver, 4, lambda rng: [rng.permutation(40) for _ in range(2)])
    np.testing.assert_allclose(solver.solve(task).coefficients, average, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("batch_size", [1, 7, 64])
@pytest.mark.parametrize("outputs", [False, True])
def test_steps_on_explicit_features_are_the_same_steps(outputs, batch_size):
    """w = Σ α_i φ(x_i) all along, so that no kernel value is needed for a step."""
    several = Tuning(feature_block=16)
    y = np.stack([CURVE, -CURVE], axis=1) if outputs else CURVE
    task = Problem(Polynomial(2, bias=0.5).gram(X), y, Huber(0.3), 0.1, WEIGHTS)
    solver = StochasticFunctionalGradient(
        3, InverseTime(1.0, 5.0), batch_size, random_state=3, tuning=several
    )
    dual = replace(solver, primal=False).solve(task)
    before = task.gram.evaluations
    primal = replace(solver, primal=True).solve(task)
    np.testing.assert_allclose(primal.coefficients, dual.coefficients, rtol=1e-9, atol=1e-13)
    assert primal.history["progressive_loss"] == pytest.approx(dual.history["progressive_loss"])
    chosen = solver.solve(task)  # 6 features for 40 points
    np.testing.assert_array_equal(chosen.coefficients, primal.coefficients)
    certificate = 2 * 40 * 41 // 2  # K is only multiplied by to certify the answer
    assert task.gram.evaluations - before == 2 * certificate


def test_steps_that_shrink_f_to_nothing():
    """A common factor of f that leaves the range of numbers is taken into them in time."""
    task = problem(Hinge(), ridge=1.0)
    solver = StochasticFunctionalGradient(
        8, Constant(0.999), averaging=Average(1.0), random_state=2
    )

    def passes(rng):
        return [rng.permutation(40) for _ in range(8)]

    average, _ = simulate(task, solver, 2, passes)
    np.testing.assert_allclose(solver.solve(task).coefficients, average, rtol=1e-9, atol=1e-16)


def test_explicit_features_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="features"):
        StochasticFunctionalGradient(1, Constant(0.1), primal=True).solve(problem())


def test_the_same_seed_gives_the_same_answer():
    def answer(seed):
        solver = StochasticFunctionalGradient(2, InverseTime(10.0), random_state=seed)
        return solver.solve(problem(Hinge(), ridge=0.1)).coefficients

    np.testing.assert_array_equal(answer(5), answer(5))
    assert not np.array_equal(answer(5), answer(6))


def test_one_pass_predicts_each_sample_before_it_is_seen():
    """progressive_loss is the mean of ℓ(y_t, f_{t−1}(x_t))."""
    task = problem(Squared(), ridge=0.0)
    solver = StochasticFunctionalGradient(1, Constant(0.5), averaging=None, random_state=0)
    alpha, losses = np.zeros(40), []
    for i in np.random.default_rng(0).permutation(40):
        losses.append(0.5 * (K[i] @ alpha - CURVE[i]) ** 2)
        alpha[i] = -0.5 * (K[i] @ alpha - CURVE[i])
    solution = solver.solve(task)
    assert solution.history["progressive_loss"] == pytest.approx([np.mean(losses)], rel=1e-12)
    np.testing.assert_allclose(solution.coefficients, alpha, rtol=1e-10)


@pytest.mark.parametrize("loss", [Hinge(), Absolute()])
@pytest.mark.parametrize(
    ("schedule", "averaging", "bound"),
    [
        (InverseTime(1 / 0.2), Average(), average_bound),
        (InverseTime(2 / 0.2, 1.0), Average(1.0), weighted_average_bound),
    ],
)
@pytest.mark.parametrize("passes", [1, 5])
def test_stochastic_bounds_hold_on_average(loss, schedule, averaging, bound, passes):
    """Draws with replacement are independent samples of the n points; G = R = 1."""
    task, least = problem(loss, ridge=0.2), optimum(loss, 0.2)
    gaps = []
    for seed in range(20):
        solver = StochasticFunctionalGradient(
            passes, schedule, averaging=averaging, replacement=True, random_state=seed
        )
        gaps.append(solver.solve(task).objective - least)
    promised = bound(1.0, 1.0, 0.2, 40 * passes)
    assert min(gaps) >= -1e-9
    assert 1e-5 * promised < np.mean(gaps) <= promised


def test_weights_are_probabilities_of_draws():
    """Steps of 1/(λt) leave α = −Σ slopes/(λt): with the hinge, counts of draws of each row."""
    weights = np.where(np.arange(40) < 5, 8.0, 1.0)
    task = problem(Hinge(), ridge=100.0, weights=weights)  # margins are never met
    solver = StochasticFunctionalGradient(
        200, InverseTime(0.01), averaging=None, replacement=True, random_state=0
    )
    alpha = solver.solve(task).coefficients * LABELS * 100.0
    assert alpha.sum() == pytest.approx(1.0)
    assert alpha[:5].sum() == pytest.approx(40 / 75, abs=0.02)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_many_passes_find_the_optimum_with_weights(weights):
    task = problem(Logistic(), ridge=0.1, weights=weights)
    best = KernelGradientDescent(5000, tolerance=1e-10).solve(task)
    solver = StochasticFunctionalGradient(
        300, InverseTime(2 / 0.1, 20.0), 8, Average(2.0), random_state=0
    )
    solution = solver.solve(task)
    assert solution.status.converged
    assert 0 <= solution.objective - best.objective <= min(solution.gap, 1e-5)


def test_stochastic_float32():
    task = problem(Hinge(), ridge=0.1, dtype=np.float32)
    solution = StochasticFunctionalGradient(20, InverseTime(10.0), random_state=0).solve(task)
    twin = problem(Hinge(), ridge=0.1)
    exact = StochasticFunctionalGradient(20, InverseTime(10.0), random_state=0).solve(twin)
    assert solution.coefficients.dtype == np.float32
    assert solution.objective == pytest.approx(exact.objective, rel=1e-3)


def test_the_matrix_is_never_stored(monkeypatch):
    rows = np.random.default_rng(0).uniform(size=(1500, 2))
    task = Problem(KERNEL.gram(rows), np.sign(rows[:, 0] - 0.5), Hinge(), 0.01)
    largest = []
    original = type(task.gram).dense
    monkeypatch.setattr(
        type(task.gram), "dense", lambda self: largest.append(self.shape) or original(self)
    )
    solver = StochasticFunctionalGradient(1, InverseTime(100.0), random_state=0)
    assert solver.solve(task).objective < 0.5
    assert max(largest) <= (256, 256)
    before = task.gram.evaluations
    StochasticFunctionalGradient(1, InverseTime(100.0), 1500).solve(task)
    assert max(largest) <= (256, 256)
    assert task.gram.evaluations > before


def test_a_callback_after_each_pass():
    seen = []

    def callback(number, state):
        seen.append((number, state.objective))
        return number == 3

    task = problem(Hinge(), ridge=0.1)
    solver = StochasticFunctionalGradient(9, InverseTime(10.0), random_state=0, callback=callback)
    solution = solver.solve(task)
    assert [number for number, _ in seen] == [1, 2, 3]
    assert solution.objective == pytest.approx(seen[-1][1], rel=1e-12)
    assert "Took 120 steps" in str(solution.status)


def test_an_intercept_is_refused_where_steps_are_stochastic():
    with pytest.raises(ValueError, match=r"no free intercept.*kernel \+ Constant\(c\)"):
        StochasticFunctionalGradient(1, InverseTime(1.0)).solve(problem(fit_intercept=True))


def test_a_stochastic_divergence_leaves_the_last_finite_pass():
    task = problem(Poisson(), np.full(40, 50.0), 0.0)
    solver = StochasticFunctionalGradient(50, Constant(100.0), averaging=None, random_state=0)
    with np.errstate(all="ignore"):
        solution = solver.solve(task)
    assert np.isfinite(solution.coefficients).all()
    assert len(solution.history["progressive_loss"]) < 50
    assert not solution.status.converged
