"""Doubly stochastic gradients, against the step written down and against the exact solution."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.kernels import Gaussian, Linear
from mercer.losses import Hinge, Logistic, Multinomial, Quantile, Squared
from mercer.solvers import Direct, Problem
from mercer.solvers.schedules import Constant, InverseTime
from mercer.solvers.stochastic import DoublyStochastic, SeededFeatures

KERNEL = Gaussian(0.6)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (300, 2))
Y = np.sin(3 * X[:, 0]) * X[:, 1]


def problem_of(loss, y, ridge=1e-3, **more):
    return Problem(KERNEL.gram(X), y, loss, ridge, **more)


def test_kept_and_regenerated_frequencies_give_the_same_function():
    kept = DoublyStochastic(60, Constant(0.5), keep=True)
    drawn_again = DoublyStochastic(60, Constant(0.5), keep=False)
    problem = problem_of(Squared(), Y)
    first, second = kept.solve(problem), drawn_again.solve(problem)
    np.testing.assert_array_equal(first.coefficients, second.coefficients)
    f, g = kept.function(problem, first), drawn_again.function(problem, second)
    np.testing.assert_array_equal(f(X), g(X))
    assert not g.features.pages  # T coefficients, and nothing of the size of the points


def test_it_comes_near_the_exact_solution():
    problem = problem_of(Squared(), Y)
    exact = KERNEL.gram(X) @ Direct().solve(problem).coefficients
    errors = []
    for steps in (15, 300):
        solver = DoublyStochastic(steps, InverseTime(60.0, 60.0), batch_size=32, frequencies=32)
        found = solver.function(problem, solver.solve(problem))(X)
        errors.append(np.sqrt(np.mean((found - exact) ** 2)) / np.std(exact))
    assert errors[1] < 0.2 < 0.5 * errors[0]


def test_one_step_is_the_formula():
    """α_t = −η_t ℓ' φ(x_t)/(BS); coefficients before it shrink by 1 − η_tλ, its own do not."""
    solver = DoublyStochastic(2, Constant(0.5), batch_size=1, frequencies=1)
    one, y = KERNEL.gram([[0.3, -0.2]]), np.array([2.0])
    problem = Problem(one, y, Squared(), regularization=0.4)
    alpha = solver.solve(problem).coefficients
    features = SeededFeatures(KERNEL, 2, 2, seed=0)
    phi = features.values([[0.3, -0.2]], np.eye(2))[0]
    first = -0.5 * (0.0 - 2.0) * phi[0]
    second = -0.5 * (first * phi[0] - 2.0) * phi[1]
    np.testing.assert_allclose(alpha, [0.8 * first, second], rtol=1e-12)


@pytest.mark.parametrize(
    ("loss", "y"),
    [
        (Logistic(), np.sign(Y)),
        (Hinge(), np.sign(Y)),
        (Quantile(0.5), Y),
        (Multinomial(), np.digitize(Y, [-0.2, 0.2])),
        (Squared(), np.stack([Y, -Y], axis=1)),
    ],
)
def test_every_loss_descends(loss, y):
    solution = DoublyStochastic(120, Constant(1.0), frequencies=32).solve(problem_of(loss, y))
    losses = solution.history["progressive_loss"]
    assert np.mean(losses[-20:]) < 0.8 * np.mean(losses[:3])


def test_weights_draw_samples():
    weights = (np.arange(300) < 150).astype(float)
    solver = DoublyStochastic(40, Constant(0.5))
    poisoned = np.where(weights > 0, Y, 1e6)
    solution = solver.solve(problem_of(Squared(), poisoned, weights=weights))
    assert max(solution.history["progressive_loss"]) < 10  # rows of weight 0 are never seen


def test_it_stops_where_it_is_told():
    problem = problem_of(Squared(), Y)
    stopped = DoublyStochastic(50, Constant(0.5), callback=lambda t, state: t == 3).solve(problem)
    assert len(stopped.coefficients) == 3 * 64
    assert "Stopped by the callback" in str(stopped.status)
    hurried = DoublyStochastic(50, Constant(0.5), time_limit=1e-9).solve(problem)
    assert "time limit" in str(hurried.status)
    with np.errstate(over="ignore"):
        wild = DoublyStochastic(90, Constant(1e8), frequencies=8).solve(problem)
    assert not wild.status.converged


def test_what_it_cannot_do_is_refused():
    with pytest.raises(ValueError, match="fits no free intercept"):
        DoublyStochastic(5, Constant(1.0)).solve(problem_of(Squared(), Y, fit_intercept=True))
    with pytest.raises(ValueError, match=r"need a spectral measure .* Linear\(.*\) has none"):
        DoublyStochastic(5, Constant(1.0)).solve(Problem(Linear().gram(X), Y, Squared(), 1.0))
    with pytest.raises(ValueError, match="divide 1024; got 7"):
        DoublyStochastic(5, Constant(1.0), frequencies=7)
