"""The approximation error against minimisation, closed forms and each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize

from mercer.kernels import Exponential, Gaussian, Linear, Matern, PeriodicBernoulli
from mercer.theory import (
    approximation_error,
    gaussian_bound,
    norm_needed,
    on_line,
    on_torus,
    projection_split,
)

random = np.random.default_rng(0)
Q, C = np.array([1.0, 0.5, 0.1, 0.01]), np.array([1.0, -2.0, 0.5, 0.3])


def test_the_infimum_is_met():
    def objective(a):
        return ((a - C) ** 2).sum() + 0.2 * (a**2 / Q).sum()

    found = scipy.optimize.minimize(objective, np.zeros(4), tol=1e-12)
    assert approximation_error(Q, C, 0.2) == pytest.approx(found.fun, rel=1e-8)
    assert approximation_error(Q, C, 0.0) == 0.0
    assert approximation_error(Q, C, 1e12) == pytest.approx((C**2).sum())
    # within the space it is at most λ‖f*‖², with equality to first order only
    ridges = np.array([1e-6, 0.1, 3.0])
    norm = (C**2 / Q).sum()
    values = np.array([approximation_error(Q, C, ridge) for ridge in ridges])
    assert (values < ridges * norm).all()
    assert values[0] == pytest.approx(1e-6 * norm, rel=1e-3)


def test_the_split_by_the_closure():
    q = np.array([1.0, 0.0, 0.1, 0.0])
    split = projection_split(q, C, 0.3)
    assert split.outside == C[1] ** 2 + C[3] ** 2
    assert split.inside == pytest.approx(approximation_error(q[[0, 2]], C[[0, 2]], 0.3))
    assert sum(split) == pytest.approx(approximation_error(q, C, 0.3))
    assert approximation_error(q, C, 0.0) == split.outside


@pytest.mark.parametrize("error", [0.1, 0.7, 1.5])
def test_the_norm_needed(error):
    found = scipy.optimize.minimize(
        lambda a: (a**2 / Q).sum(),
        C,
        constraints={"type": "ineq", "fun": lambda a: error**2 - ((a - C) ** 2).sum()},
        tol=1e-14,
        method="SLSQP",
    )
    assert norm_needed(Q, C, error) == pytest.approx(math.sqrt(found.fun), rel=1e-5)


def test_norms_at_their_ends():
    assert norm_needed(Q, C, 0.0) == pytest.approx(math.sqrt((C**2 / Q).sum()))
    assert norm_needed(Q, C, 5.0) == 0.0
    assert norm_needed([1.0, 0.0], [1.0, 0.5], 0.4) == math.inf
    # A ≤ cλ^a gives a norm of order ε^{−(1−a)/a}: here a = t/s = 1/2
    m = np.arange(1.0, 100_000)
    norms = [norm_needed(m**-4, m**-1.5, error) for error in (0.1, 0.01)]
    assert math.log10(norms[1] / norms[0]) == pytest.approx(1.0, abs=0.05)


def test_on_the_torus():
    """f* = |x − ½| has coefficients 1/(π²m²) at odd m, and mean ¼."""
    m = np.arange(400)
    coefficients = np.where(m % 2, 1 / (np.pi * np.maximum(m, 1)) ** 2, 0.0)
    coefficients[0] = 0.25
    n, ridge, k = 600, 1e-3, PeriodicBernoulli(1)
    X = (np.arange(n)[:, None] + 0.5) / n
    y = np.abs(X[:, 0] - 0.5)
    f = k(X) @ np.linalg.solve(k(X) + n * ridge * np.eye(n), y)  # ridge on an even grid
    alpha = np.linalg.solve(k(X) + n * ridge * np.eye(n), y)
    discrete = ((f - y) ** 2).mean() + ridge * alpha @ k(X) @ alpha
    assert on_torus(k, coefficients, ridge) == pytest.approx(discrete, rel=1e-3)
    with pytest.raises(ValueError, match="has no Fourier weights"):
        on_torus(Linear(), coefficients, ridge)


def test_on_the_line():
    """With an exponential kernel and f* = e^{−x²/2}, by the equation of the minimiser."""
    ridge, h = 0.05, 0.02
    x = np.arange(-15, 15, h)
    K = Exponential(1.0)(x[:, None])
    y = np.exp(-(x**2) / 2)
    alpha = np.linalg.solve(K + ridge / h * np.eye(len(x)), y)
    f = K @ alpha
    discrete = h * ((f - y) ** 2).sum() + ridge * alpha @ K @ alpha

    def bump(w):
        return np.sqrt(2 * np.pi) * np.exp(-(w**2) / 2)

    assert on_line(Exponential(1.0), bump, ridge) == pytest.approx(discrete, rel=2e-3)
    with pytest.raises(ValueError, match="has no spectral density"):
        on_line(Linear(), bump, ridge)


def test_sobolev_targets():
    """For f̂* = (1 + ω²)^{−r/2} and Matérn kernels of order s, A ~ λ^{t/s} with t = r − ½."""
    slopes = {}
    for name, kernel in {"matern": Matern(1.5), "gaussian": Gaussian()}.items():
        values = [
            on_line(kernel, lambda w: (1 + w**2) ** -0.75, ridge, reach=3e4)
            for ridge in (1e-6, 1e-7)
        ]
        slopes[name] = math.log10(values[0] / values[1])
    assert slopes["matern"] == pytest.approx(1.0 / 2.0, abs=0.03)  # s = 2, t = 1
    assert slopes["gaussian"] < 0.1


@pytest.mark.parametrize("lengthscale", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("ridge", [1e-10, 1e-4, 0.5, 100.0])
def test_the_bound_for_gaussian_kernels(lengthscale, ridge):
    def transform(w):  # f̂* with t = 1 derivative and more
        return (1 + w**2) ** -1.0

    size = math.pi / (2 * math.pi)  # (1/2π)∫(1 + ω²)^{1 − 2} dω
    bound = gaussian_bound(lengthscale, 1.0, size, ridge)
    assert on_line(Gaussian(lengthscale), transform, ridge) <= bound <= size
