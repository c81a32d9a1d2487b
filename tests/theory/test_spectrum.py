"""Effective dimension, the risk of ridge regression, exponents."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from mercer import KernelRidge
from mercer.features import MercerFeatures
from mercer.kernels import Gaussian, PeriodicBernoulli, PeriodicExponential
from mercer.theory import (
    effective_dimension,
    expected_ridge_risk,
    fitted_exponent,
    lipschitz_exponent,
    ridge_conditions,
    ridge_risk,
    risk_exponent,
)

EXAMPLES = Path(__file__).parents[2] / "examples"
random = np.random.default_rng(0)
X = random.uniform(-1, 1, (60, 1))
K = Gaussian(0.5)(X)


def test_effective_dimension_is_the_trace_of_the_smoother():
    smoother = K @ np.linalg.inv(K + 60 * 0.01 * np.eye(60))
    assert effective_dimension(K, 0.01) == pytest.approx(np.trace(smoother))
    assert effective_dimension(K, 0.01, power=2) == pytest.approx((smoother**2).sum())
    values = np.linalg.eigvalsh(K) / 60
    assert effective_dimension(values, 0.01) == pytest.approx(np.trace(smoother))
    assert effective_dimension([1.0, 0.0], 0.0) == 1.0
    with pytest.raises(ValueError, match="power 1 or 2"):
        effective_dimension(K, 0.1, power=3)


def test_the_risk_of_ridge_regression_is_exact():
    target, noise, ridge = np.sin(3 * X[:, 0]), 0.3, 0.01
    risk = ridge_risk(K, target, noise, ridge)
    Y = target[:, None] + noise * random.standard_normal((60, 4000))
    model = KernelRidge(alpha=60 * ridge, kernel=Gaussian(0.5)).fit(X, Y)
    errors = ((model.predict(X) - target[:, None]) ** 2).mean(axis=0)
    assert errors.mean() == pytest.approx(risk.total, abs=5 * errors.std() / math.sqrt(4000))
    assert risk.total == risk.bias + risk.variance
    assert ridge_risk(K, target, noise, 0.0).bias == pytest.approx(0.0, abs=1e-6)
    with pytest.raises(ValueError, match="a square matrix K, and a number"):
        ridge_risk(K, target[:5], noise, ridge)


@pytest.mark.parametrize(("s", "t"), [(1, 1), (1, 1.5), (2, 1), (2, 2), (2, 3), (1, 4)])
def test_exponents_on_the_torus(s, t):
    """The exact risk on n even points, with the best λ: slopes within 0.05 of theory."""
    sizes, risks = 2 ** np.arange(9, 17), []
    for n in sizes:
        row = PeriodicBernoulli(s)(np.arange(n)[:, None] / n, [[0.0]])[:, 0]
        values = np.maximum(np.fft.fft(row).real / n, 0.0)
        m = np.minimum(np.arange(n), n - np.arange(n))
        squares = np.where(m > 0, np.maximum(m, 1.0) ** (-2.0 * t - 1.0), 0.0)  # just in H^t
        best = math.inf
        for ridge in np.logspace(-14, 0, 113):
            shares = values / (values + ridge)
            bias = float((squares * (1 - shares) ** 2).sum())
            variance = 0.01 * effective_dimension(values, ridge, power=2) / n
            best = min(best, bias + variance)
        risks.append(best)
    slope = fitted_exponent(sizes, risks)
    assert slope == pytest.approx(risk_exponent(t, s), abs=0.05)


def test_stored_learning_curves_fall_as_theory_says():
    """Means of 20 replications; the page computes the smallest sizes again."""
    stored = json.loads((EXAMPLES / "learning_curves.json").read_text("utf-8"))
    assert (stored["replications"], max(stored["sizes"])) == (20, 32_000)
    orders, targets = {"exponential": 1.0, "Matérn 3/2": 2.0}, (math.inf, 1.5)
    for name, curve in stored["curves"].items():
        slopes = [fitted_exponent(stored["sizes"], risks) for risks in np.transpose(curve)]
        if name == "Gaussian":  # 1 up to logarithms; none, and the curve flattens
            assert slopes == [pytest.approx(1.0, abs=0.1), pytest.approx(0.0, abs=0.25)]
            continue
        for slope, target in zip(slopes, targets, strict=True):
            reached = min(target, 2 * orders[name])
            assert slope == pytest.approx(risk_exponent(reached, orders[name]), abs=0.1)


def test_exponents_at_their_ends():
    assert risk_exponent(3.0, math.inf) == lipschitz_exponent(3.0, math.inf) == 0.0
    assert risk_exponent(9.0, 2.0, 3) == risk_exponent(4.0, 2.0, 3) == 8 / 11
    assert lipschitz_exponent(5.0, 1.0) == 0.5
    with pytest.raises(ValueError, match=r"order s > d/2 = 1\.0"):
        risk_exponent(1.0, 1.0, 2)
    with pytest.raises(ValueError, match="two sizes with risks > 0"):
        fitted_exponent([10], [1.0])


@pytest.mark.parametrize("shape", [(40, 6), (6, 40), (10, 10)])
def test_condition_numbers_of_primal_and_dual_are_those_of_the_matrices(shape):
    X = np.random.default_rng(0).standard_normal(shape)
    for ridge in (1e-4, 1.0):
        shift = shape[0] * ridge
        found = ridge_conditions(X, ridge)
        assert np.isclose(found.primal, np.linalg.cond(X.T @ X + shift * np.eye(shape[1])))
        assert np.isclose(found.dual, np.linalg.cond(X @ X.T + shift * np.eye(shape[0])))
    limit = ridge_conditions(X, 0.0)
    assert np.isinf(limit.dual) == (shape[0] > shape[1])
    assert np.isinf(limit.primal) == (shape[1] > shape[0])


def test_the_risk_over_a_measure_is_that_of_samples():
    """Ridge regression on the circle, in its eigenfunctions; to a few per cent at n = 4,000."""
    m, n, ridge, noise = np.arange(41), 4000, 0.02, 0.5
    twice = np.where(m == 0, 1, 2)
    coefficients = np.where(m % 2, 4 / (np.pi * np.maximum(m, 1)) ** 2, 0.0)
    q, c = np.repeat(1 / (1.0 + m**2), twice), np.repeat(coefficients, twice)
    expected = expected_ridge_risk(q, c, noise, ridge, n)
    grid = (np.arange(512) + 0.5)[:, None] / 512
    kernel, risks = PeriodicExponential(1.0), []
    for seed in range(30):
        draw = np.random.default_rng(seed)
        X = draw.uniform(size=(n, 1))
        y = 4 * np.abs(X[:, 0] - 0.5) - 1 + noise * draw.standard_normal(n)
        f = MercerFeatures(kernel, 81).fit(X).normal_equations(X, y).ridge(ridge)
        risks.append(np.mean((f(grid) - (4 * np.abs(grid[:, 0] - 0.5) - 1)) ** 2))
    assert np.mean(risks) == pytest.approx(expected.total, rel=0.08)
    assert expected.bias > 0.1 * expected.total
    assert expected.variance > 0.1 * expected.total
