"""Newton's method, dual ascent and splitting on the same problems: one answer, three ways."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.solvers import DualAscent, Newton, Problem, Splitting, certified_gap, default_solver
from regularised import KERNEL, KINKED, SMOOTH, WEIGHTS, K, X, objective

TASKS = KINKED | {name: SMOOTH[name] for name in ("logistic", "squared")}


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("name", TASKS)
def test_all_solvers_agree_within_their_gaps(name, fit_intercept):
    loss, y = TASKS[name]
    weights = WEIGHTS + (name == "logistic")  # see below
    problem = Problem(KERNEL.gram(X), y, loss, 0.01, weights, fit_intercept)
    solvers = [DualAscent(1e-6), Splitting(1e-5), default_solver(loss, 1e-6)]
    if name in SMOOTH:
        solvers.append(Newton(1e-9))
    solutions = [solver.solve(problem) for solver in solvers]
    for solution in solutions:
        assert solution.status.converged, solution.status
        found = objective(name, y, solution.coefficients, solution.intercept, 0.01, weights)
        assert solution.objective == pytest.approx(found, abs=1e-12)
        confirmed = certified_gap(problem, solution.coefficients, solution.intercept)
        assert confirmed.relative <= 1.5e-5
        for other in solutions:  # each bound holds for all
            assert other.objective >= solution.objective - confirmed.absolute - 1e-12
            assert other.objective == pytest.approx(solution.objective, rel=2e-5)
    values = [K @ s.coefficients + s.intercept for s in solutions]
    for other in values[1:]:  # λ/2‖f − f*‖² ≤ gap
        assert np.abs(other - values[0]).max() < 0.1


def test_dual_ascent_with_a_logistic_loss_and_weights_of_zero():
    loss, y = SMOOTH["logistic"]
    problem = Problem(KERNEL.gram(X), y, loss, 0.01, WEIGHTS)
    assert DualAscent(1e-6, max_iterations=10_000).solve(problem).status.converged
