"""Operator splitting: every loss, with kinks too, and a gap that is true."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.errors import NotPositiveDefiniteError
from mercer.kernels import Precomputed
from mercer.losses import Hinge
from mercer.solvers import Problem, Splitting
from regularised import KERNEL, KINKED, LABELS, WEIGHTS, K, N, X, dual_objective, objective


def domain(name, y):
    low, high = {"epsilon": (-1, 1), "quantile": (-0.3, 0.7), "absolute": (-1, 1)}.get(name, (0, 0))
    if name == "hinge":
        return np.minimum(-y, 0.0), np.maximum(-y, 0.0)
    return np.full(N, float(low)), np.full(N, float(high))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
@pytest.mark.parametrize("name", KINKED)
def test_losses_with_kinks_reach_a_gap_that_the_dual_confirms(name, weights, fit_intercept):
    loss, y = KINKED[name]
    solution = Splitting(1e-5).solve(Problem(KERNEL.gram(X), y, loss, 0.01, weights, fit_intercept))
    assert solution.status.converged, solution.status
    primal = objective(name, y, solution.coefficients, solution.intercept, 0.01, weights)
    assert solution.objective == pytest.approx(primal, abs=1e-13)
    p = np.ones(N) / N if weights is None else weights / weights.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        u = np.where(p > 0, -0.01 * solution.coefficients / p, 0.0)
    u = np.clip(u, *domain(name, y))
    if fit_intercept:  # on the hyperplane, by bisection
        low, high = -3.0, 3.0
        for _ in range(200):
            middle = 0.5 * (low + high)
            above = p @ np.clip(u - middle, *domain(name, y)) > 0
            low, high = (middle, high) if above else (low, middle)
        u = np.clip(u - low, *domain(name, y))
        assert abs(p @ u) < 1e-15
    gap = primal - dual_objective(name, y, u, 0.01, weights)
    assert gap >= -1e-12
    assert solution.gap <= gap + 1e-12  # the better of two bounds
    assert solution.gap <= 1e-5 * primal


def test_float32_and_refusals():
    gram = KERNEL.gram(X.astype(np.float32))
    solution = Splitting(1e-4).solve(Problem(gram, LABELS, Hinge(), 0.1, None, True))
    assert solution.coefficients.dtype == np.float32
    assert solution.status.converged
    with pytest.raises(ValueError, match="Splitting needs regularization > 0"):
        Splitting().solve(Problem(gram, LABELS, Hinge(), 0.0))
    bad = Precomputed(K - 2 * np.eye(N)).gram(np.arange(N))
    with pytest.raises(NotPositiveDefiniteError, match="has the eigenvalue"):
        Splitting().solve(Problem(bad, LABELS, Hinge(), 0.1))
    short = Splitting(1e-12, iterations=3).solve(Problem(gram, LABELS, Hinge(), 1e-3))
    assert not short.status.converged
    assert "after 3 steps of splitting. Scale the features" in str(short.status)
