"""Every solver of ridge regression on every array library: the same answers as on NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.arrays import as_numpy, namespace
from mercer.kernels import Gaussian, Polynomial, Precomputed, ThinPlate
from mercer.losses import Hinge, Logistic, Multinomial, Squared
from mercer.solvers import (
    Ball,
    BlockCoordinateDescent,
    ConjugateGradient,
    Constrained,
    CutOff,
    Direct,
    Discrepancy,
    HeldOut,
    IteratedTikhonov,
    KernelGradientDescent,
    Landweber,
    Newton,
    NuMethod,
    PowerOfNorm,
    Problem,
    SpectralPath,
    Splitting,
    StochasticFunctionalGradient,
    SubgradientDescent,
    Tikhonov,
    duality_gap,
    gradient_norm,
    schedules,
)
from mercer.solvers.krylov import conjugate_gradients

N = 24
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 2))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1]]) + 0.1 * RNG.standard_normal((N, 2))
LABELS = np.where(X[:, 0] > X[:, 1], 1.0, -1.0)
WEIGHTS = RNG.integers(0, 3, N).astype(float)
INDEFINITE = np.tanh(X @ X.T - 0.5)

SOLVERS = {
    "direct": (Direct(mixed=False, primal=False), Squared(), 0.1, Gaussian()),
    "refined": (Direct(mixed=True), Squared(), 0.1, Gaussian()),
    "primal": (Direct(primal=True), Squared(), 0.1, Polynomial(2)),
    "least-norm": (Direct(), Squared(), 0.0, Polynomial(2)),
    "indefinite": (Direct(), Squared(), 0.01, Precomputed(INDEFINITE)),
    "constrained": (Constrained(), Squared(), Ball(0.7), Gaussian()),
    "power of the norm": (Constrained(), Squared(), PowerOfNorm(0.1), Gaussian()),
    "spline": (Direct(), Squared(), 0.1, ThinPlate()),
    "iterated spline": (ConjugateGradient(1e-10), Squared(), 0.1, ThinPlate()),
    "splitting": (Splitting(1e-6), Hinge(), 0.1, Gaussian()),
    "iterated": (ConjugateGradient(1e-10), Squared(), 0.1, Gaussian()),
    "in blocks": (BlockCoordinateDescent(1e-10, block_size=8), Squared(), 0.1, Gaussian()),
    "newton": (Newton(1e-10), Logistic(), 0.1, Gaussian()),
    "descent": (KernelGradientDescent(20), Squared(), 0.1, Gaussian()),
    "logistic": (KernelGradientDescent(20), Logistic(), 0.1, Gaussian()),
    "held-out": (KernelGradientDescent(20, stopping=HeldOut()), Squared(), 0.01, Gaussian()),
    "discrepancy": (KernelGradientDescent(20, stopping=Discrepancy(0.1)), Squared(), 0, Gaussian()),
    "subgradient": (SubgradientDescent(20, schedules.Constant(0.1)), Hinge(), 0.1, Gaussian()),
    "stochastic": (
        StochasticFunctionalGradient(3, schedules.InverseTime(5.0), random_state=0),
        Hinge(),
        0.2,
        Gaussian(),
    ),
}


def task(name, xp, dtype="float64", weighted=False, outputs=False, intercept=False):
    solver, loss, ridge, kernel = SOLVERS[name]
    y = LABELS if loss.is_classification else Y[:, 0]
    y = np.column_stack([y, -y]) if outputs else y
    weights = xp.asarray(WEIGHTS.copy()) if weighted else None
    points = np.arange(N) if isinstance(kernel, Precomputed) else X.astype(dtype)
    free = intercept and name != "stochastic"
    return solver, Problem(kernel.gram(points), xp.asarray(y.copy()), loss, ridge, weights, free)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(
    "form", [{}, {"weighted": True, "outputs": True, "intercept": True}], ids=["plain", "all"]
)
def test_solutions_are_those_of_numpy(xp, name, form):
    solver, problem = task(name, xp, **form)
    solution = solver.solve(problem)
    truth = solver.solve(task(name, np, **form)[1])
    assert namespace(solution.coefficients) is xp
    assert solution.coefficients.dtype == xp.float64
    scale = np.abs(truth.coefficients).max()
    assert np.allclose(as_numpy(solution.coefficients), truth.coefficients, atol=1e-8 * scale)
    assert np.allclose(as_numpy(solution.intercept), truth.intercept, atol=1e-8)
    assert solution.objective == pytest.approx(truth.objective, rel=1e-8)
    assert solution.status.converged == truth.status.converged
    assert solution.status.message.split(":")[0] == truth.status.message.split(":")[0]
    if problem.null_space is not None:
        with pytest.raises(ValueError, match="has no place for"):
            duality_gap(problem, solution.coefficients)
        return
    able = (duality_gap, gradient_norm) if problem.has_one_ridge else (duality_gap,)
    bounds = [f(problem, solution.coefficients) for f in able]
    assert all(isinstance(bound, float) for bound in bounds)


@pytest.mark.parametrize("name", ["direct", "primal", "descent", "constrained", "spline"])
def test_float32_stays_float32(xp, name):
    solver, problem = task(name, xp, "float32")
    solution = solver.solve(problem)
    assert solution.coefficients.dtype == xp.float32
    truth = solver.solve(task(name, np)[1]).coefficients
    assert np.allclose(as_numpy(solution.coefficients), truth, atol=1e-3 * np.abs(truth).max())


def test_classes_become_rows(xp):
    labels = xp.asarray((np.digitize(X[:, 0], [-0.5, 0.5])).astype(np.int64))
    problem = Problem(Gaussian().gram(X), labels, Multinomial(), 0.1)
    solution = KernelGradientDescent(200, tolerance=1e-6).solve(problem)
    assert tuple(solution.coefficients.shape) == (N, 3)
    assert duality_gap(problem, solution.coefficients) < 1e-8


FILTERS = [Tikhonov(0.1), CutOff(0.05), IteratedTikhonov(0.1, 3), Landweber(9, 1.0), NuMethod(9)]


@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
@pytest.mark.parametrize("filter_", [*FILTERS, 0.1, 0.0], ids=repr)
def test_paths_are_those_of_numpy(xp, filter_, intercept):
    ours, truth = (
        SpectralPath.of(
            Gaussian().gram(X),
            library.asarray(Y.copy()),
            library.asarray(WEIGHTS.copy()),
            fit_intercept=intercept,
        )
        for library in (xp, np)
    )
    for a, b in zip(ours.coefficients(filter_), truth.coefficients(filter_), strict=True):
        assert namespace(a) is xp
        assert np.allclose(as_numpy(a), b, atol=1e-9 * max(1.0, np.abs(b).max()))
    new = X[:3] + 0.1
    close = {"rtol": 1e-6, "atol": 1e-9}
    for a, b in [
        (ours.smoother_weights(new, filter_), truth.smoother_weights(new, filter_)),
        (ours.fitted(filter_), truth.fitted(filter_)),
        (ours.leave_one_out_errors([0.1, 1.0]), truth.leave_one_out_errors([0.1, 1.0])),
    ]:
        assert namespace(a) is xp
        assert np.allclose(as_numpy(a), b, **close)
    assert np.isclose(ours.degrees_of_freedom(filter_), truth.degrees_of_freedom(filter_), **close)
    gcv = [path.generalised_cross_validation(filter_) for path in (ours, truth)]
    assert np.isclose(*gcv, **close)


def test_conjugate_gradients(xp):
    A = np.diag(np.arange(1.0, 9.0))
    matrix, b = xp.asarray(A.copy()), xp.asarray(np.ones((8, 2)))
    run = conjugate_gradients(lambda v: matrix @ v, lambda r: r, b, tolerance=1e-12, iterations=20)
    assert namespace(run.solution) is xp
    assert np.allclose(A @ as_numpy(run.solution), 1.0)
    assert run.residual < 1e-12
