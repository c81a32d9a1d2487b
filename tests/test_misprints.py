"""Formulas that stand wrong in notes and books: what is right holds, and what is printed does not.

Named after what was misprinted. Those that have tests of their own elsewhere are not repeated.
"""

import numpy as np
import pytest

from mercer import KernelRidge, linalg
from mercer.features import Fastfood, MercerFeatures, RandomFourierFeatures
from mercer.kernels import BlockKernel, Gaussian, Linear, PeriodicExponential, Polynomial, laws
from mercer.losses import Squared
from mercer.solvers import Direct
from mercer.solvers.descent import Functional
from mercer.solvers.problem import Problem


def test_a_constant_column_is_a_bias_for_linear_kernels_and_nothing_for_gaussian_ones():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (100, 1))
    y = np.polyval([2.0, -3.0, 2.0, 2.0], x[:, 0]) + 0.1 * rng.standard_normal(100)
    lifted = np.column_stack([x, np.ones(100)])

    def fitted(kernel, X):
        return KernelRidge(alpha=1.0, kernel=kernel).fit(X, y).predict(X)

    gaussian = [fitted(Gaussian(0.5**0.5), X) for X in (x, lifted)]
    assert np.allclose(*gaussian, rtol=1e-12)
    linear = [np.mean((fitted(Linear(), X) - y) ** 2) for X in (x, lifted)]
    assert linear[1] < 0.6 * linear[0]
    assert np.mean((gaussian[0] - y) ** 2) < 0.5 * linear[1]  # the cubic is no line


def test_the_penalty_of_random_features_is_the_norm_of_weights():
    """The space is that of k̂ = ⟨z, z⟩; sinusoids are not in the space of a Gaussian kernel."""
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((2, 60, 1))
    y, regularization = np.sin(3 * X[:, 0]), 0.01
    z = RandomFourierFeatures(Gaussian(), 12, random_state=0).fit(X)
    approximate = BlockKernel(lambda a, b: z.transform(a) @ z.transform(b).T)
    problem = Problem(approximate.gram(X), y, Squared(), regularization)
    f = approximate.function(X, Direct().solve(problem).coefficients)
    Z = z.transform(X)
    w = np.linalg.solve(Z.T @ Z + 60 * regularization * np.eye(12), Z.T @ y)
    assert np.allclose(f(new), z.function(w)(new), rtol=1e-9)
    assert f.norm() == pytest.approx(np.linalg.norm(w), rel=1e-9)
    angles = np.linspace(-30, 30, 500)[:, None] @ z.frequencies_.T
    printed = np.cos(angles) @ w[:6] ** 2 + np.sin(angles) @ w[6:] ** 2
    assert printed.min() < 0  # it depends on the point, and is no squared norm

    def norm(reach):  # of the least Gaussian function that is cos x on a grid
        grid = np.arange(-reach, reach + 1.0)[:, None]
        k = Gaussian()
        return k.function(grid, linalg.symmetric_solve(k(grid), np.cos(grid[:, 0]))[0]).norm()

    assert norm(160.0) == pytest.approx(2.0 * norm(40.0), rel=0.05)  # without end


def test_sampled_eigenfunctions_have_the_root_of_the_trace_as_factor():
    kernel = 3.0 * PeriodicExponential()
    trace = kernel([0.0], [0.0])
    grid = np.linspace(0, 1, 1 << 12, endpoint=False)[:, None]
    Z = MercerFeatures(kernel, 20, sampling="random", random_state=0).fit(grid).transform(grid)
    eigenfunctions = Z / np.sqrt(trace / 20)
    assert np.allclose(np.mean(eigenfunctions**2, axis=0), 1.0, rtol=1e-5)
    assert trace > 3.0  # so that trace/√S, as printed, is another factor


@pytest.mark.parametrize("distance", [0.5, 1.5, 4.0])
def test_fastfood_approximates_the_kernel_of_the_squared_distance(distance):
    x, y, sigma = np.zeros((1, 8)), np.full((1, 8), distance / 8**0.5), 1.5
    z = Fastfood(Gaussian(sigma), 1 << 14, random_state=0).fit(x)
    found = (z.transform(x) @ z.transform(y).T).item()
    allowed = 4 * z.expected_error(x, y).item()
    assert abs(found - np.exp(-(distance**2) / (2 * sigma**2))) < allowed
    assert abs(found - np.exp(-distance / (2 * sigma**2))) > 4 * allowed


def test_a_quadratic_form_is_the_squared_norm_of_the_mapped_vector():
    rng = np.random.default_rng(0)
    k, X, q = Polynomial(degree=2, bias=0.0), rng.standard_normal((3, 2)), rng.standard_normal(3)
    features = k.features(k.points(X)).T  # Φ, a column for each point; 3 × 3 here
    form = q @ k(X) @ q
    assert form == pytest.approx(np.linalg.norm(features @ q) ** 2)
    assert form == pytest.approx(k.function(X, q).norm() ** 2)
    assert form != pytest.approx(np.linalg.norm(features.T @ q) ** 2, rel=0.1)


def test_a_kernel_may_have_vectors_of_form_zero():
    X, v = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, -2.0, 1.0])
    assert v @ Linear()(X) @ v == 0.0
    assert Linear().check(X)
    assert laws.positive_definite(Linear(), 1).yes


def directions():
    """Two functions of one space, and the problem of fitting them to numbers."""
    rng = np.random.default_rng(0)
    k, y = Gaussian(), rng.standard_normal(8)
    points = k.points(rng.standard_normal((8, 2)))
    f, g = (k.function(points, rng.standard_normal(8)) for _ in range(2))
    return Problem(k.gram(points), y, Squared(), 0.3), f, g


def slope(functional, f, g, step=1e-4):
    """The derivative of a functional at f in direction g, by differences."""
    return (functional(f + step * g) - functional(f - step * g)) / (2 * step)


def test_the_functional_gradient_of_squares_is_linear_in_the_residuals():
    problem, f, g = directions()
    ground = Functional(problem)
    found = ground.gradient(ground.element(f.coefficients)).coefficients
    derivative = slope(lambda h: problem.objective(h.coefficients), f, g)
    at = f.kernel.function(f.points, found)
    assert at.inner(g) == pytest.approx(derivative, rel=1e-6)
    unsquared = -np.ones(8) / 8 + 0.3 * f.coefficients  # of y − f instead of ½(y − f)²
    assert f.kernel.function(f.points, unsquared).inner(g) != pytest.approx(derivative, rel=0.1)


def test_the_chain_rule_keeps_the_power():
    _, f, g = directions()
    derivative = slope(lambda h: (h.norm() ** 2) ** 3, f, g)
    assert (3 * (f.norm() ** 2) ** 2 * 2 * f).inner(g) == pytest.approx(derivative, rel=1e-6)
    assert (3 * f.norm() ** 2 * 2 * f).inner(g) != pytest.approx(derivative, rel=0.1)


def test_the_primal_has_the_size_of_features_and_the_dual_that_of_data(monkeypatch):
    rng = np.random.default_rng(0)
    X, y, ridge = rng.standard_normal((40, 3)), rng.standard_normal(40), 2.0
    orders, factor = [], linalg.cholesky

    def recorded(matrix, **options):
        orders.append(len(matrix))
        return factor(matrix, **options)

    monkeypatch.setattr(linalg, "cholesky", recorded)
    problem = Problem(Linear().gram(X), y, Squared(), ridge / 40)
    primal, dual = (X.T @ Direct(primal=side).solve(problem).coefficients for side in (True, False))
    assert np.allclose(primal, dual, rtol=1e-10)
    assert orders == [3, 40]
    assert np.allclose(dual, np.linalg.solve(X.T @ X + ridge * np.eye(3), X.T @ y), rtol=1e-10)
    multiplier = 2 * (y - X @ dual)  # of the constraint z = Xw in ‖z − y‖² + λ‖w‖²
    assert np.allclose(dual, X.T @ multiplier / (2 * ridge), rtol=1e-9)
    assert not np.allclose(dual, X.T @ multiplier, rtol=0.1)
