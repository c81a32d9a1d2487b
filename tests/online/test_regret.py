"""The best function in hindsight, and bounds that no simulation may break."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

from mercer.losses import Absolute, Hinge, Logistic, Multinomial, Squared
from mercer.online import OnlineKernelMachine, Pegasos, budgets, regret, schedules
from mercer.online.regret import best_in_ball
from mercer.plotting import RegretDisplay
from mercer.solvers import Ball, Constrained, Problem
from online.streams import GAUSSIAN, samples

mpl.use("Agg")


def test_the_best_in_the_ball_is_that_of_the_constrained_solver():
    X, _, y = samples(n=150)
    gram = GAUSSIAN.gram(X)
    for radius in (0.5, 5.0):
        expected = Constrained().solve(Problem(gram, y, Squared(), Ball(radius)))
        found = best_in_ball(gram, y[:, None], np.ones(150), Squared(), radius)
        assert found.losses.sum() == pytest.approx(150 * expected.objective, rel=1e-6)


@pytest.mark.parametrize("loss", [Hinge(), Absolute(), Logistic(), Multinomial()], ids=repr)
@pytest.mark.parametrize("ridge", [0.0, 3.0])
def test_no_function_of_the_ball_is_better(loss, ridge):
    X, labels, _ = samples(n=100)
    y = labels[:, None].astype(float)
    y = (y == [-1.0, 1.0]).astype(float) if loss.is_multiclass else y
    K = np.asarray(GAUSSIAN(X))
    found = best_in_ball(GAUSSIAN.gram(X), y, np.ones(100), loss, 2.0, ridge)
    assert found.function.norm() <= 2.0 * (1 + 1e-6)
    least = found.losses.sum() + 0.5 * ridge * found.squared_norm
    assert 0 <= found.gap + 1e-9 <= 1e-3 * least
    rng = np.random.default_rng(0)
    for _ in range(50):
        alpha = found.function.coefficients + 0.05 * rng.standard_normal(y.shape)
        norm = np.sqrt(np.einsum("io,ij,jo->", alpha, K, alpha))
        alpha *= min(1.0, 2.0 / norm)
        value = np.sum(loss.value(y, K @ alpha)) + 0.5 * ridge * min(norm, 2.0) ** 2
        assert value >= least - found.gap - 1e-9


@pytest.mark.parametrize("loss", [Hinge(), Logistic(), Squared(), Absolute()], ids=repr)
@pytest.mark.parametrize("ridge", [0.0, 0.05])
def test_bounds_of_constant_steps_hold(loss, ridge):
    for seed, size in ((0, 0.05), (1, 0.3), (2, 1.0)):
        X, labels, real = samples(n=120, seed=seed)
        y = labels if loss.is_classification else real
        machine = OnlineKernelMachine(
            GAUSSIAN, loss=loss, regularization=ridge, step=schedules.Constant(size), record=True
        ).partial_fit(X, y, classes=[-1, 1] if loss.is_classification else None)
        for radius in (0.5, 5.0):
            found = regret(machine, radius)
            assert found.regularised == (ridge > 0)
            assert (found.regret <= found.bound + 1e-9).all()
            assert found.online[-1] >= machine.cumulative_loss_ - 1e-9


def test_the_bound_of_strongly_convex_steps_holds_and_gradients_are_those_met():
    X, y, _ = samples(n=120)
    machine = Pegasos(GAUSSIAN, regularization=0.1, record=True).partial_fit(X, y, classes=[-1, 1])
    found = regret(machine, radius=3.0)
    assert (found.regret <= found.bound + 1e-9).all()
    assert found.reason == "Σ‖g_t‖²/(2λt)"
    K, alpha = np.asarray(GAUSSIAN(X)), np.zeros(120)
    for t in range(120):
        f = K[t] @ alpha
        gradient = 0.1 * alpha
        gradient[t] -= y[t] * (y[t] * f < 1)
        norm = gradient @ K @ gradient
        assert machine.recorded_.gradients[t] == pytest.approx(norm, abs=1e-10)
        assert machine.recorded_.norms[t] == pytest.approx(alpha @ K @ alpha, abs=1e-10)
        alpha -= gradient / (0.1 * (t + 1))


def test_no_bound_is_drawn_where_none_is_proved():
    X, y, _ = samples(n=60)
    on_budget = OnlineKernelMachine(GAUSSIAN, budget=budgets.Merge(10), record=True)
    display = RegretDisplay.from_estimator(on_budget.partial_fit(X, y, classes=[-1, 1]), radius=5.0)
    assert display.regret.bound is None
    assert "budget" in display.ax_.get_title()
    other = OnlineKernelMachine(GAUSSIAN, record=True).partial_fit(X, y, classes=[-1, 1])
    assert "constant step" in RegretDisplay.from_estimator(other, radius=5.0).ax_.get_title()
    constant = OnlineKernelMachine(GAUSSIAN, step=schedules.Constant(0.3), record=True)
    display = RegretDisplay.from_estimator(constant.partial_fit(X, y, classes=[-1, 1]), radius=5.0)
    assert len(display.ax_.get_lines()) == 3
    with pytest.raises(ValueError, match="make it with record=True"):
        regret(OnlineKernelMachine(GAUSSIAN).partial_fit(X, y, classes=[-1, 1]), radius=1.0)
    with pytest.raises(ValueError, match="radius > 0"):
        regret(constant, radius=0.0)
