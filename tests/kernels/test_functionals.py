"""Data that are functionals: representers against closed forms, differences and integrals."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.integrate import dblquad, quad

from mercer import KernelRidge
from mercer.kernels import (
    AllSubsets,
    Brownian,
    Exponential,
    Gaussian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
    ThinPlate,
)
from mercer.kernels.functionals import Average, Derivative, Evaluation, Integral, mixed_derivative
from mercer.solvers import ConjugateGradient, interpolant

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 3))
Z = np.vstack([X[:1], RNG.standard_normal((3, 3))])  # the first points coincide
SMOOTH = {
    "gaussian": Gaussian([0.7, 1.0, 2.0]),
    "matern-5/2": Matern(2.5, 1.3),
    "rational": RationalQuadratic(1.5),
    "polynomial": Polynomial(2),
    "algebra": Linear() * Gaussian() + 2.0 * Matern(3.5),
    "columns": Gaussian().on([0, 2]),
    "map": Gaussian().after(np.array([[1.0, 0.5, 0.0]])),
    "product of columns": AllSubsets(),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_mixed_derivatives_are_differences(name):
    k, step = SMOOTH[name], 1e-4
    found = mixed_derivative(k, k.points(X), k.points(Z))
    differences = np.empty_like(found)
    for a, b in np.ndindex(3, 3):
        u, v = step * np.eye(3)[a], step * np.eye(3)[b]
        corners = k(X + u, Z + v) - k(X + u, Z - v) - k(X - u, Z + v) + k(X - u, Z - v)
        differences[:, :, a, b] = corners / (4 * step**2)
    np.testing.assert_allclose(found, differences, atol=2e-6 * np.abs(found).max())


def test_mixed_derivatives_of_the_least_smooth_matern():
    """Matérn 3/2 has −∂²k = 3/ℓ² at x = y, where its second slope is singular."""
    k = Matern(1.5, 0.8)
    found = mixed_derivative(k, k.points(X), k.points(X))
    np.testing.assert_allclose(found[1, 1], 3 / 0.64 * np.eye(3), rtol=1e-12)


def test_derivatives_of_a_gaussian_have_their_closed_form():
    """k(∂_a, ∂_b) = (δ_ab − d_a d_b/ℓ²)k/ℓ², d = x − y."""
    k, scale = Gaussian(0.9), 0.9**2
    left = [Derivative(x, column) for x in X for column in range(3)]
    gap = X[:, None, :] - X[None, :, :]
    factor = np.eye(3) / scale - gap[..., :, None] * gap[..., None, :] / scale**2
    wanted = (factor * k(X)[:, :, None, None]).transpose(0, 2, 1, 3).reshape(12, 12)
    np.testing.assert_allclose(k.on_functionals()(left, left), wanted, atol=1e-14)
    with_values = k.on_functionals()(left, X)
    wanted = (-gap / scale * k(X)[:, :, None]).transpose(0, 2, 1).reshape(12, 4)
    np.testing.assert_allclose(with_values, wanted, atol=1e-14)


def test_integrals_of_brownian_motion_have_their_closed_form():
    k = Brownian().on_functionals()
    whole = [Integral(0.0, 1.0)]
    assert np.isclose(k(whole, whole)[0, 0], 1 / 3, rtol=1e-14)
    t = np.linspace(0, 1, 7)
    np.testing.assert_allclose(k(whole, t[:, None])[0], t - t**2 / 2, atol=1e-15)
    parts = [Integral(0.2, 0.7), Integral(0.4, 1.0)]
    wanted = dblquad(lambda y, x: min(x, y), 0.2, 0.7, 0.4, 1.0)[0]
    assert np.isclose(k(parts, parts)[0, 1], wanted, atol=1e-7)


def test_integrals_across_a_kink_are_those_of_quadrature():
    k = Exponential(0.3)
    parts = [Integral(0.0, 1.0), Integral(0.5, 2.0)]
    found = k.on_functionals()(parts, [*parts, Evaluation([0.7])])
    value = lambda x, y: np.exp(-abs(x - y) / 0.3)  # noqa: E731
    for i, (a, b) in enumerate([(0.0, 1.0), (0.5, 2.0)]):
        wanted = quad(lambda x: value(x, 0.7), a, b, points=[0.7], epsabs=1e-12)[0]
        assert np.isclose(found[i, 2], wanted, atol=1e-12)
    inner = lambda x: quad(value, 0.5, 2.0, args=(x,), points=[max(x, 0.5)], epsabs=1e-11)[0]  # noqa: E731
    wanted = quad(inner, 0.0, 1.0, points=[0.5], epsabs=1e-10)[0]
    assert np.isclose(found[0, 1], wanted, atol=1e-9)


def test_a_function_through_functionals_has_their_values():
    """f(L) is L(f): by differences and integrals of f itself, which know nothing of kernels."""
    data = [
        Evaluation([0.0]),
        Derivative([1.0]),
        Integral(0.5, 2.0),
        Average([[2.0], [2.5], [3.0]], [1.0, 2.0, 1.0]),
        Evaluation([3.0]) - 2.0 * Evaluation([-1.0]),
    ]
    wanted = np.array([1.0, -0.5, 0.3, 0.7, 0.2])
    f = interpolant(Gaussian(0.8), data, wanted)
    at = lambda t: float(f(np.array([[t]]))[0])  # noqa: E731
    assert np.isclose(at(0.0), 1.0)
    assert np.isclose((at(1 + 1e-5) - at(1 - 1e-5)) / 2e-5, -0.5, atol=1e-7)
    assert np.isclose(quad(at, 0.5, 2.0)[0], 0.3)
    assert np.isclose((at(2.0) + 2 * at(2.5) + at(3.0)) / 4, 0.7)
    assert np.isclose(at(3.0) - 2 * at(-1.0), 0.2)
    np.testing.assert_allclose(f(data), wanted, atol=1e-10)
    g = Gaussian(0.8).function([Derivative([1.0])], [1.0])
    assert np.isclose(f.inner(g), -0.5)  # the representer of the derivative


def test_the_least_norm_through_averages_of_brownian_motion():
    """Means over [0, 1/2] and [1/2, 1]: α = G⁻¹y with G in closed form."""
    parts = [2.0 * Integral(0.0, 0.5), 2.0 * Integral(0.5, 1.0)]
    G = np.array([[1 / 6, 1 / 4], [1 / 4, 2 / 3]])
    f = interpolant(Brownian(), parts, [1.0, -1.0])
    np.testing.assert_allclose(f.coefficients, np.linalg.solve(G, [1.0, -1.0]), rtol=1e-10)
    assert np.isclose(f.norm() ** 2, np.array([1.0, -1.0]) @ np.linalg.solve(G, [1.0, -1.0]))


def test_ridge_on_functionals_is_its_normal_equation():
    data = [Derivative([t]) for t in np.linspace(0, 3, 9)] + [Evaluation([0.0])]
    y = np.append(np.cos(np.linspace(0, 3, 9)), 0.0)
    k = Gaussian().on_functionals()
    alpha = np.linalg.solve(k(data, data) + 0.01 * np.diag(np.r_[np.ones(9), 0.5]), y)
    weights = np.append(np.ones(9), 2.0)
    for solver in ("auto", ConjugateGradient(tolerance=1e-10)):
        model = KernelRidge(alpha=0.01, kernel=k, solver=solver).fit(data, y, weights)
        np.testing.assert_allclose(model.dual_coef_, alpha, atol=1e-7)
    grid = np.linspace(0, 3, 20)
    np.testing.assert_allclose(model.predict(grid[:, None]), np.sin(grid), atol=0.05)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(grid[:, None]), model.predict(grid[:, None]))


REFUSALS = {
    "need not have derivatives": lambda: Exponential().on_functionals()(
        [Derivative([0.0])], [[1.0]]
    ),
    "no known derivative in both": lambda: Brownian().function([Derivative([0.5])], [1.0])([[0.1]]),
    "one number of columns": lambda: Gaussian().on_functionals()(
        [Integral(0, 1), Evaluation([1.0, 2.0])]
    ),
    "low < high": lambda: Integral(1.0, 0.0),
    "a column among 0, …, 1": lambda: Derivative([0.0, 1.0], 2),
    "direction of 2 numbers": lambda: Derivative([0.0, 1.0], [1.0]),
    "one point": lambda: Evaluation([[0.0]]),
    "sum that is not 0": lambda: Average([[0.0], [1.0]], [1.0, -1.0]),
    "off polynomials only": lambda: ThinPlate().on_functionals(),
}


@pytest.mark.parametrize("text", REFUSALS)
def test_functionals_that_make_no_sense_are_refused(text):
    with pytest.raises(ValueError, match=text):
        REFUSALS[text]()
