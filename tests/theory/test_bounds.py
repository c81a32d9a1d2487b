"""Bounds hold with the stated probability, or on the average, where the truth can be computed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mercer import KernelClassifier
from mercer.kernels import Gaussian
from mercer.losses import Hinge, Logistic
from mercer.solvers import (
    Ball,
    Constrained,
    Newton,
    Problem,
    StochasticFunctionalGradient,
    default_solver,
)
from mercer.solvers.schedules import Average, InverseTime
from mercer.theory import (
    average_bound,
    ball_around,
    deviation,
    deviation_on_ball,
    estimation_error,
    excess_risk,
    largest_norm,
    online_deviation,
    rademacher_complexity,
    random_features_error,
    regret_of_constant_step,
    regret_of_inverse_steps,
    regularised_excess,
    stability,
    stability_deviation,
    weighted_average_bound,
)

POINTS = np.linspace(-1, 1, 12)[:, None]  # of a distribution on finitely many points and labels
CHANCES = np.linspace(1.0, 2.0, 12) / np.linspace(1.0, 2.0, 12).sum()
POSITIVE = 1 / (1 + np.exp(-4 * np.sin(3 * POINTS[:, 0])))  # P(y = 1 | x)
KERNEL = Gaussian(0.4)


def drawn(random, n):
    places = random.choice(12, n, p=CHANCES)
    return places, np.where(random.random(n) < POSITIVE[places], 1.0, -1.0)


def hinge_risk(values):
    """E max(0, 1 − y f(x)) for f at the points."""
    losses = POSITIVE * np.maximum(0, 1 - values) + (1 - POSITIVE) * np.maximum(0, 1 + values)
    return float(CHANCES @ losses)


def test_deviations_on_a_ball_are_bounded():
    """For the loss D − y f the supremum over the ball is D‖E yk(x,·) − mean yk(x,·)‖."""
    random, n, D = np.random.default_rng(0), 60, 3.0
    K, mean = KERNEL(POINTS), CHANCES * (2 * POSITIVE - 1)
    suprema = []
    for _ in range(600):
        places, y = drawn(random, n)
        gap = mean - np.bincount(places, y, minlength=12) / n
        suprema.append(D * math.sqrt(gap @ K @ gap))
    bound = deviation_on_ball(1.0, D, 1.0, n, loss_at_zero=D, probability=0.9)
    assert np.mean(np.array(suprema) > bound) <= 0.1
    assert 0.2 * estimation_error(1.0, D, 1.0, n) < np.mean(suprema)
    assert np.mean(suprema) < estimation_error(1.0, D, 1.0, n)


def test_rademacher_complexity_is_near_the_truth():
    random, n = np.random.default_rng(0), 50
    K = KERNEL(POINTS[random.choice(12, n, p=CHANCES)])
    signs = random.choice([-1.0, 1.0], (2000, n))
    truth = np.mean(np.sqrt(np.einsum("ti,ij,tj->t", signs, K, signs))) / n
    assert 0.7 * rademacher_complexity(1.0, 1.0, n) < truth < rademacher_complexity(1.0, 1.0, n)


def test_a_union_over_norms_costs_little_and_fails_no_more():
    balls = [ball_around(norm) for norm in (0.1, 1.0, 1.1, 2.0, 2.1, 1000.0)]
    assert [D for D, _ in balls] == [1.0, 1.0, 2.0, 2.0, 4.0, 1024.0]
    shares = [1 / ((j + 1) * (j + 2)) for j in range(10_000)]
    assert sum(shares) == pytest.approx(1.0, abs=2e-4)
    fixed = deviation_on_ball(1.0, 4.0, 1.0, 1000, probability=0.95)
    assert fixed < deviation(1.0, 3.0, 1.0, 1000, probability=0.95) < 1.2 * fixed


def test_regularised_minimisers():
    """Risks on the average below the infimum and γ; deviations below theirs nearly always."""
    random, n, ridge = np.random.default_rng(0), 40, 0.2
    values, means = [], []
    for _ in range(120):
        places, y = drawn(random, n)
        X = POINTS[places] + 0.0
        if len(set(y)) < 2:
            continue
        model = KernelClassifier(Hinge(), ridge, kernel=KERNEL, fit_intercept=False)
        f = model.fit(X, y).function_
        values.append((hinge_risk(f(POINTS)), f.norm()))
        means.append(np.maximum(0, 1 - y * f(X)).mean())
    risks, norms = np.array(values).T
    both = np.repeat(POINTS, 2, axis=0), np.tile([1.0, -1.0], 12)
    weights = (CHANCES[:, None] * np.stack([POSITIVE, 1 - POSITIVE], axis=1)).ravel()
    best = KernelClassifier(Hinge(), ridge, kernel=KERNEL, fit_intercept=False)
    best.fit(*both, sample_weight=weights)
    g = best.function_
    infimum = hinge_risk(g(POINTS)) + 0.5 * ridge * g.norm() ** 2
    gamma = stability(1.0, 1.0, ridge, n)
    assert infimum < risks.mean() + 0.5 * ridge * np.mean(norms**2)  # it is the infimum
    assert risks.mean() <= infimum + gamma
    assert (risks - np.array(means)).mean() <= gamma
    bound = stability_deviation(1.0, 1.0, ridge, n, probability=0.9)
    assert np.mean(risks - np.array(means) > bound) <= 0.1
    assert (norms <= largest_norm(1.0, 1.0, ridge)).all()
    assert regularised_excess(1.0, 1.0, ridge, n) == pytest.approx(32 / (ridge * n))


def test_one_sample_moves_losses_by_the_stability():
    """The two facts behind `stability_deviation`, and McDiarmid's inequality for them."""
    random, n, ridge, delta = np.random.default_rng(0), 30, 0.5, 0.1
    gamma = stability(1.0, 1.0, ridge, n)
    moved = []
    for _ in range(30):
        places, y = drawn(random, n)
        f = minimiser(places, y, ridge)
        others, labels = places.copy(), y.copy()
        others[0], labels[0] = random.integers(12), -y[0]
        g = minimiser(others, labels, ridge)
        for sign in (1.0, -1.0):  # the losses at all points and labels
            change = np.maximum(0, 1 - sign * f(POINTS)) - np.maximum(0, 1 - sign * g(POINTS))
            moved.append(np.abs(change).max())
    assert 0.4 * gamma < max(moved) <= (1 + 1e-6) * gamma
    largest = 1.0 + largest_norm(1.0, 1.0, ridge)
    difference = 2 * gamma + largest / n  # of R(f̂) − R̂(f̂), where one sample is replaced
    wanted = gamma + difference * math.sqrt(0.5 * n * math.log(1 / delta))
    assert stability_deviation(1.0, 1.0, ridge, n, 1.0, 1 - delta) == pytest.approx(wanted)


def minimiser(places, y, ridge):
    """The function with the least hinge loss and penalty."""
    problem = Problem(KERNEL.gram(POINTS[places]), y, Hinge(), ridge)
    return problem.function(default_solver(Hinge(), 1e-9).solve(problem))


def logistic_risk(values):
    """E log(1 + e^{−y f(x)}) for f at the points."""
    losses = POSITIVE * np.logaddexp(0, -values) + (1 - POSITIVE) * np.logaddexp(0, values)
    return float(CHANCES @ losses)


def population(loss, regularization):
    """The problem of the distribution itself: every point with both labels, by their chances."""
    weights = (CHANCES[:, None] * np.stack([POSITIVE, 1 - POSITIVE], axis=1)).ravel()
    gram = KERNEL.gram(np.repeat(POINTS, 2, axis=0))
    return Problem(gram, np.tile([1.0, -1.0], 12), loss, regularization, weights)


def test_the_least_mean_loss_of_a_ball():
    """E R(f̂) − min over ‖f‖ ≤ D of R(f) ≤ 2GDR/√n for f̂ with the least mean loss of the ball."""
    random, n, D = np.random.default_rng(0), 30, 2.0
    least = Constrained().solve(population(Logistic(), Ball(D))).objective
    risks = []
    for _ in range(8):
        places, y = drawn(random, n)
        problem = Problem(KERNEL.gram(POINTS[places]), y, Logistic(), Ball(D))
        f = problem.function(Constrained(Newton(1e-6)).solve(problem))
        risks.append(logistic_risk(f(POINTS)))
    assert min(risks) >= least - 1e-9
    assert np.mean(risks) - least <= estimation_error(1.0, D, 1.0, n)


def test_one_pass_of_stochastic_gradients_bounds_the_expected_risk():
    """Each sample is used once, so the objective that is bounded is that of the distribution."""
    random, n, ridge = np.random.default_rng(0), 80, 0.2
    best = default_solver(Hinge(), 1e-9).solve(population(Hinge(), ridge))
    excess = {average_bound: [], weighted_average_bound: []}
    ways = {
        average_bound: (InverseTime(1 / ridge), Average()),
        weighted_average_bound: (InverseTime(2 / ridge, 1.0), Average(1.0)),
    }
    for bound, (schedule, averaging) in ways.items():
        for seed in range(40):
            places, y = drawn(random, n)
            problem = Problem(KERNEL.gram(POINTS[places]), y, Hinge(), ridge)
            solver = StochasticFunctionalGradient(
                1, schedule, averaging=averaging, random_state=seed
            )
            f = problem.function(solver.solve(problem))
            objective = hinge_risk(f(POINTS)) + 0.5 * ridge * f.norm() ** 2
            excess[bound].append(objective - best.objective)
    for bound, gaps in excess.items():
        assert min(gaps) > -1e-6
        assert np.mean(gaps) <= bound(1.0, 1.0, ridge, n)


def test_the_bound_by_the_approximation_error():
    """2G√A(4R²/n) is the least over D of 2GDR/√n + G·distance, up to a factor of √2."""
    n, distances = 100, np.linspace(0, 1, 2001)  # f* = 1·φ, f = d·φ: distance 1 − d, norm 2d
    best = min(estimation_error(1.0, 2 * d, 1.0, n) + (1 - d) for d in distances)
    bound = excess_risk(1.0, 1.0, n, lambda ridge: min((1 - d) ** 2 + 4 * ridge * d**2
                                                       for d in distances))  # fmt: skip
    assert best <= bound <= 2 * best


@pytest.mark.parametrize("seed", range(3))
def test_regret_of_linear_losses(seed):
    """Their regret against a ball has a closed form, which meets the bound where U = η‖Σg‖."""
    slopes = np.random.default_rng(seed).standard_normal((300, 5)) + 0.3
    f, total, step = np.zeros(5), 0.0, 0.05
    for g in slopes:
        total += g @ f
        f = f - step * g
    size, lengths = np.linalg.norm(slopes.sum(axis=0)), np.linalg.norm(slopes, axis=1)
    for share in (0.1, 1.0, 3.0):
        U = share * step * size
        regret, bound = total + U * size, regret_of_constant_step(U, step, lengths)
        assert regret < bound if share != 1.0 else regret == pytest.approx(bound)


def test_regret_of_strongly_convex_losses():
    random, T, ridge = np.random.default_rng(0), 400, 0.5
    slopes = random.standard_normal((T, 3)) + 1.0
    f, total, gradients = np.zeros(3), 0.0, []
    for t, g in enumerate(slopes, start=1):
        total += g @ f + 0.5 * ridge * f @ f
        gradient = g + ridge * f
        gradients.append(np.linalg.norm(gradient))
        f = f - gradient / (ridge * t)
    best = -slopes.mean(axis=0) / ridge
    regret = total - (slopes.sum(axis=0) @ best + 0.5 * T * ridge * best @ best)
    assert regret == pytest.approx(regret_of_inverse_steps(ridge, gradients))  # it is met


def test_mistakes_on_the_way_bound_the_risk_of_the_functions_on_the_way():
    """The more frequent label so far is predicted; its risk is 0.4 or 0.6, by what was seen."""
    random, T = np.random.default_rng(0), 60
    labels = random.random((4000, T)) < 0.6
    before = np.cumsum(labels, axis=1) - labels  # how often it was seen
    guessed = 2 * before > np.arange(T)
    mistakes = np.mean(guessed != labels, axis=1)
    risk = np.mean(np.where(guessed, 0.4, 0.6), axis=1)
    bound = online_deviation(T, probability=0.9)
    assert np.mean(risk - mistakes > bound) <= 0.1
    assert np.quantile(risk - mistakes, 0.9) > 0.6 * bound
    assert online_deviation(T, 3.0, 0.9) == pytest.approx(3 * bound)


def test_random_features():
    random, S = np.random.default_rng(0), 64
    x = np.array([0.0, 0.5, 1.3])
    exact = np.exp(-(x**2) / 2)
    estimates = np.cos(random.standard_normal((4000, S))[:, :, None] * x).mean(axis=1)
    worst = np.abs(estimates - exact).max(axis=1)
    bound = random_features_error(S, 0.9, pairs=3)
    assert np.mean(worst > bound) <= 0.1
    assert np.quantile(worst, 0.9) > 0.2 * bound
    signs = random.choice([-1.0, 1.0], (4000, S))  # as cos ωx may be
    alone = random_features_error(S, 0.9)
    assert np.mean(np.abs(signs.mean(axis=1)) > alone) <= 0.1
    assert np.quantile(np.abs(signs.mean(axis=1)), 0.9) > 0.6 * alone
    assert random_features_error(S, 0.9, diagonal=2.0) == 2 * random_features_error(S, 0.9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: estimation_error(-1.0, 1.0, 1.0, 10),
            "estimation_error needs a finite lipschitz ≥ 0",
        ),
        (lambda: deviation(1.0, 1.0, 1.0, 10, probability=1.0), "deviation needs .*probability"),
        (lambda: stability(1.0, 1.0, 0.0, 10), "needs a finite regularization > 0"),
        (lambda: rademacher_complexity(1.0, 1.0, 0), "whole number samples ≥ 1"),
        (lambda: random_features_error(0), "whole number features ≥ 1"),
    ],
)
def test_bad_numbers(make, message):
    with pytest.raises(ValueError, match=message):
        make()
