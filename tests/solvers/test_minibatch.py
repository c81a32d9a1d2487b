"""Mini-batches on features and on centres, against the problem on centres solved by Newton."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.features import Nystroem
from mercer.features.centres import Given
from mercer.kernels import Gaussian
from mercer.losses import Hinge, Multinomial, Squared
from mercer.operators import cross_gram
from mercer.solvers import MiniBatch, Newton
from mercer.solvers.problem import Problem
from mercer.solvers.schedules import Average, Constant, InverseTime

KERNEL = Gaussian(0.7)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (400, 2))
Y = np.sin(3 * X[:, 0]) * X[:, 1]
PHI = Nystroem(KERNEL, centres=Given(X[:15])).fit(X)
RIDGE = 1e-2


def on_centres(loss, y, weights=None):
    rows = cross_gram(KERNEL, KERNEL.points(X), KERNEL.points(X[:15]))
    return Newton().solve(Problem.on_centres(rows, y, loss, RIDGE, weights))


@pytest.mark.parametrize(
    ("loss", "y"),
    [(Squared(), Y), (Hinge(), np.sign(Y)), (Multinomial(), np.digitize(Y, [-0.2, 0.2]))],
)
def test_on_centres_it_comes_near_newton(loss, y):
    problem = Problem.on_features(PHI, X, y, loss, RIDGE)
    solution = MiniBatch(30, InverseTime(2 / RIDGE, 300.0), 20, Average(1.0)).solve(problem)
    best = on_centres(loss, y).objective
    assert best - 1e-6 <= solution.objective <= 1.03 * best
    assert solution.objective - solution.gap <= best + 1e-9  # the gap reaches below the least


def test_weights_and_several_targets():
    weights = RNG.integers(0, 3, 400).astype(float)
    y = np.stack([Y, -Y], axis=1)
    problem = Problem.on_features(PHI, X, y, Squared(), RIDGE, weights)
    solution = MiniBatch(30, Constant(0.5), 20).solve(problem)
    assert solution.coefficients.shape == (15, 2)
    assert solution.objective <= 1.03 * on_centres(Squared(), y, weights).objective


def test_the_same_seed_gives_the_same_answer_and_a_callback_stops():
    problem = Problem.on_features(PHI, X, Y, Squared(), RIDGE)
    solver = MiniBatch(1, Constant(0.1), 50, averaging=None)
    first, second = solver.solve(problem), solver.solve(problem)
    np.testing.assert_array_equal(first.coefficients, second.coefficients)
    stopped = MiniBatch(1, Constant(0.1), 50, callback=lambda t, state: t == 2).solve(problem)
    assert len(stopped.history["progressive_loss"]) == 2
    assert "Stopped by the callback" in str(stopped.status)
    hurried = MiniBatch(5, Constant(0.1), 50, time_limit=1e-9).solve(problem)
    assert "time limit" in str(hurried.status)


def test_bad_problems_are_named():
    with pytest.raises(ValueError, match="needs regularization > 0; got 0"):
        MiniBatch(1, Constant(0.1)).solve(Problem.on_features(PHI, X, Y, Squared(), 0))
    with pytest.raises(ValueError, match="one row for each of the 400 points"):
        Problem.on_features(PHI, X, Y[1:], Squared(), 1.0)
