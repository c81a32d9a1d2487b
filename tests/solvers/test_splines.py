"""Kernels that are positive definite off polynomials: against SciPy, and the bordered system."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator, make_smoothing_spline

import mercer
from mercer import SVC, KernelRegressor, KernelRidge, KernelRidgeCV
from mercer.features import Nystroem
from mercer.functions import Polynomials, SplineFunction
from mercer.kernels import Gaussian, Linear, Polyharmonic, ThinPlate
from mercer.losses import Hinge, Logistic, Squared
from mercer.solvers import (
    ConjugateGradient,
    Direct,
    DualAscent,
    Newton,
    Problem,
    SpectralPath,
    interpolant,
)

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(150, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.standard_normal(150)
NEW = RNG.uniform(size=(40, 2))
WEIGHTS = RNG.integers(0, 3, 150).astype(float)
SCIPY = {
    "linear": Polyharmonic(1),
    "thin_plate_spline": ThinPlate(),
    "cubic": Polyharmonic(3),
    "quintic": Polyharmonic(5),
}


def bordered(kernel, x, y, ridge, weights):
    """α and b of (K + ρW⁻¹)α + Bb = y, Bᵀα = 0, in float64, on points of positive weight."""
    points = kernel.points(x)
    B = Polynomials.around(points, kernel.null_degree())(points)
    size = B.shape[1]
    system = np.block(
        [[kernel(x) + ridge * np.diag(1 / weights), B], [B.T, np.zeros((size, size))]]
    )
    found = np.linalg.solve(system, np.concatenate([y, np.zeros((size, *y.shape[1:]))]))
    return found[:-size], found[-size:]


@pytest.mark.parametrize("name", SCIPY)
@pytest.mark.parametrize("alpha", [0.0, 1e-2])
def test_kernel_ridge_is_scipys_interpolator_with_smoothing(name, alpha):
    theirs = RBFInterpolator(X, Y, kernel=name, smoothing=alpha)(NEW)
    model = KernelRidge(alpha=alpha, kernel=SCIPY[name]).fit(X, Y)
    assert model.solution_.status.converged
    np.testing.assert_allclose(model.predict(NEW), theirs, atol=1e-6 if alpha == 0 else 1e-10)


@pytest.mark.parametrize("name", SCIPY)
def test_projected_conjugate_gradients_agree_with_the_bordered_system(name):
    kernel, counted = SCIPY[name], WEIGHTS > 0
    targets = np.stack([Y, X[:, 0] - Y], axis=1)
    solver = ConjugateGradient(tolerance=1e-10)
    model = KernelRidge(alpha=0.1, kernel=kernel, solver=solver).fit(X, targets, WEIGHTS)
    alpha, _ = bordered(kernel, X[counted], targets[counted], 0.1, WEIGHTS[counted])
    assert model.solution_.status.converged
    np.testing.assert_allclose(model.dual_coef_[counted], alpha, atol=1e-7 * np.abs(alpha).max())
    exact = KernelRidge(alpha=0.1, kernel=kernel).fit(X, targets, WEIGHTS)
    np.testing.assert_allclose(exact.dual_coef_[counted], alpha, atol=1e-9 * np.abs(alpha).max())
    assert not exact.dual_coef_[~counted].any()


def test_a_cubic_smoothing_spline_is_scipys():
    x = np.sort(RNG.uniform(0, 10, 60))
    y, weights = np.sin(x) + 0.2 * RNG.standard_normal(60), RNG.uniform(0.5, 2.0, 60)
    kernel = Polyharmonic(3).energy_scale(1) * Polyharmonic(3)
    model = KernelRidge(alpha=0.3, kernel=kernel).fit(x[:, None], y, weights)
    theirs = make_smoothing_spline(x, y, w=weights, lam=0.3)
    grid = np.linspace(x[0], x[-1], 200)
    np.testing.assert_allclose(model.predict(grid[:, None]), theirs(grid), atol=1e-9)
    slopes = model.function_.gradient(grid[:, None])[:, 0]
    np.testing.assert_allclose(slopes, theirs.derivative()(grid), atol=1e-8)
    bend = theirs.derivative(2)
    fine = np.linspace(x[0], x[-1], 20_001)  # f″ is piecewise linear, 0 beyond the data
    roughness = np.trapezoid(bend(fine) ** 2, fine)
    assert np.isclose(model.function_.norm() ** 2, roughness, rtol=1e-4)


def test_the_energy_of_a_thin_plate_is_the_integral_of_second_derivatives():
    """In two columns, for a function that is flat far away: moments up to degree 3 vanish."""
    kernel = ThinPlate().energy_scale(2) * ThinPlate()
    steps, weights = np.arange(-2.0, 3.0), np.array([1.0, -4.0, 6.0, -4.0, 1.0])
    centres = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    f = kernel.function(centres, np.outer(weights, weights).ravel())
    side = np.linspace(-9, 9, 361)
    h = side[1] - side[0]
    values = f(np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2))
    F = values.reshape(361, 361)
    inner = (slice(1, -1), slice(1, -1))
    xx = (F[2:, 1:-1] - 2 * F[inner] + F[:-2, 1:-1]) / h**2
    yy = (F[1:-1, 2:] - 2 * F[inner] + F[1:-1, :-2]) / h**2
    xy = (F[2:, 2:] - F[2:, :-2] - F[:-2, 2:] + F[:-2, :-2]) / (4 * h**2)
    energy = float((xx**2 + 2 * xy**2 + yy**2).sum()) * h**2
    assert np.isclose(f.norm() ** 2, energy, rtol=0.02)


def test_polynomials_are_fitted_exactly_and_cost_nothing():
    y = 2.0 - X[:, 0] + 3.0 * X[:, 1]
    for solver in (Direct(), ConjugateGradient()):
        model = KernelRidge(alpha=10.0, kernel=ThinPlate(), solver=solver).fit(X, y)
        np.testing.assert_allclose(
            model.predict(7.0 * NEW), 2.0 + 7.0 * (3 * NEW[:, 1] - NEW[:, 0])
        )
        assert model.function_.norm() < 1e-6


def test_an_intercept_is_a_polynomial_and_outputs_have_penalties_of_their_own():
    targets = np.stack([Y, Y**2], axis=1)
    both = KernelRidge(alpha=[0.1, 1.0], kernel=ThinPlate(), fit_intercept=True).fit(X, targets)
    for k, alpha in enumerate((0.1, 1.0)):
        one = KernelRidge(alpha=alpha, kernel=ThinPlate()).fit(X, targets[:, k])
        np.testing.assert_allclose(both.predict(NEW)[:, k], one.predict(NEW), atol=1e-10)
    assert both.intercept_ == 0.0


def test_leave_one_out_of_splines_is_refitting():
    kernel, alpha = Polyharmonic(3), 1e-3
    path = SpectralPath.of(kernel.gram(X), Y)
    left_out = path.leave_one_out(alpha / 150)
    for i in (0, 71):
        others = np.arange(150) != i
        model = KernelRidge(alpha=alpha, kernel=kernel).fit(X[others], Y[others])
        assert np.isclose(model.predict(X[[i]])[0], left_out[i])
    hat = np.stack([SpectralPath.of(kernel.gram(X), e).fitted(1e-4) for e in np.eye(150)[:3]])
    columns = SpectralPath.of(kernel.gram(X), np.eye(150))
    assert np.isclose(np.trace(columns.fitted(1e-4)), path.degrees_of_freedom(1e-4))
    np.testing.assert_allclose(hat, columns.fitted(1e-4).T[:3], atol=1e-9)
    chosen = KernelRidgeCV(alphas=[1e-4, 1e-2, 1.0], kernel=kernel).fit(X, Y)
    same = KernelRidge(alpha=chosen.alpha_, kernel=kernel).fit(X, Y)
    np.testing.assert_allclose(chosen.predict(NEW), same.predict(NEW), atol=1e-9)


def test_a_null_space_of_ones_own_beside_a_positive_definite_kernel():
    B = np.stack([np.ones(150), X[:, 0]], axis=1)
    K = Gaussian(0.3)(X)
    system = np.block([[K + 0.15 * np.eye(150), B], [B.T, np.zeros((2, 2))]])
    wanted = np.linalg.solve(system, np.concatenate([Y, [0.0, 0.0]]))
    problem = Problem(Gaussian(0.3).gram(X), Y, Squared(), 1e-3, null_space=B)
    for solver in (Direct(), ConjugateGradient(tolerance=1e-11)):
        solution = solver.solve(problem)
        assert solution.status.converged
        np.testing.assert_allclose(solution.coefficients, wanted[:150], atol=1e-8)
        np.testing.assert_allclose(solution.intercept, wanted[150:], atol=1e-8)
    best = problem.objective(solution.coefficients, solution.intercept)
    assert best < problem.objective(
        solution.coefficients, solution.intercept + np.array([0.01, 0.0])
    )


def test_the_residual_of_a_spline_sees_coefficients_that_are_not_balanced():
    """Any b solves (K + ρ)α = y − Bb; only one of them has Bᵀα = 0."""
    from mercer.solvers.optimality import ridge_residual

    problem = Problem(ThinPlate().gram(X), Y, Squared(), 1e-3)
    wrong = np.linalg.solve(ThinPlate()(X) + 0.15 * np.eye(150), Y)
    assert ridge_residual(problem, wrong, np.zeros(3)).claimed > 1e-3
    solution = Direct().solve(problem)
    assert ridge_residual(problem, solution.coefficients, solution.intercept).claimed < 1e-10


def test_splines_in_float32_pickled_cloned_and_stored(tmp_path):
    model = KernelRidge(alpha=0.1, kernel=ThinPlate()).fit(X.astype(np.float32), Y)
    wide = KernelRidge(alpha=0.1, kernel=ThinPlate()).fit(X, Y)
    assert model.predict(NEW.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(model.predict(NEW.astype(np.float32)), wide.predict(NEW), atol=2e-3)
    mercer.save(wide, tmp_path / "spline.mercer")
    for other in (pickle.loads(pickle.dumps(wide)), mercer.load(tmp_path / "spline.mercer")):
        np.testing.assert_array_equal(other.predict(NEW), wide.predict(NEW))
    assert "unknown" in str(wide.certificate()["risk"])


def test_splines_as_functions():
    f, g = (interpolant(ThinPlate(), X, y) for y in (Y, Y**2))
    assert isinstance(f, SplineFunction)
    np.testing.assert_allclose((2.0 * f - g)(NEW), 2.0 * f(NEW) - g(NEW), atol=1e-9)
    step = 1e-6 * np.eye(2)
    for column in range(2):
        difference = (f(NEW + step[column]) - f(NEW - step[column])) / 2e-6
        np.testing.assert_allclose(f.gradient(NEW)[:, column], difference, atol=1e-4)
    both = interpolant(ThinPlate(), X, np.stack([Y, Y**2], axis=1))
    np.testing.assert_allclose(both.output(1)(NEW), g(NEW), atol=1e-8)
    with pytest.raises(ValueError, match="no projection"):
        f.project(NEW)


def test_anchored_kernels_have_the_space_of_the_spline():
    """Ridge with the anchored kernel and the polynomials as null space is the spline."""
    kernel = ThinPlate()
    anchored = kernel.anchored(X)
    assert anchored.check(NEW).passed
    points = kernel.points(X)
    B = Polynomials.around(points, 1)(points)
    values = []
    for gram, space in ((anchored.gram(X), B), (kernel.gram(X), None)):
        problem = Problem(gram, Y, Squared(), 1e-3, null_space=space)
        solution = Direct().solve(problem)
        values.append(problem.fitted(solution.coefficients) + problem.constants(solution.intercept))
    np.testing.assert_allclose(*values, atol=1e-9)
    assert Gaussian().anchored(X) == Gaussian()


REFUSALS = {
    "takes positive definite kernels": lambda: SVC(kernel=ThinPlate()).fit(X, Y > 0),
    "KernelRegressor takes positive": lambda: KernelRegressor(kernel=ThinPlate()).fit(X, Y),
    "Nystroem takes positive": lambda: Nystroem(ThinPlate(), n_components=5).fit(X),
    "leave centres out": lambda: KernelRidge(kernel=ThinPlate(), centres=9).fit(X, Y),
    "has no Product": lambda: KernelRidge(kernel=ThinPlate() * Linear()).fit(X, Y),
    "Newton has no place": lambda: Newton().solve(
        Problem(ThinPlate().gram(X), np.sign(Y), Logistic(), 0.1)
    ),
    "DualAscent has no place": lambda: DualAscent().solve(
        Problem(ThinPlate().gram(X), np.sign(Y), Hinge(), 0.1)
    ),
    "not determined by the 2 points": lambda: KernelRidge(kernel=ThinPlate()).fit(X[:2], Y[:2]),
    "columns that others determine": lambda: KernelRidge(kernel=ThinPlate()).fit(X[:, [0, 0]], Y),
    "splines are not": lambda: SpectralPath.of(ThinPlate().gram(X), Y).smoother_weights(X, 0.1),
    "got a null space": lambda: KernelRidge(kernel=ThinPlate()).fit(X, Y).degrees_of_freedom(),
    "broken order 2.5": lambda: ThinPlate().energy_scale(3),
    "needs no anchors": lambda: mercer.kernels.Anchored(Gaussian(), X),
    "need 3 anchors": lambda: mercer.kernels.Anchored(ThinPlate(), X[:2]),
}


@pytest.mark.parametrize("text", REFUSALS)
def test_what_has_no_place_for_polynomials_says_so(text):
    with pytest.raises(ValueError, match=text):
        REFUSALS[text]()
