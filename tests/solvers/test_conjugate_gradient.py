"""Conjugate gradients on the whole matrix, against factorisations in float64."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import scipy.sparse

from mercer.features.centres import RandomlyPivoted
from mercer.features.partial_cholesky import Tuning
from mercer.kernels import Gaussian, Linear
from mercer.losses import Hinge, Squared
from mercer.solvers import ConjugateGradient, Direct, Problem, regularization_path
from mercer.solvers.preconditioners.low_rank import Columns
from mercer.solvers.ridge_system import RidgeSystem

KERNEL = Gaussian(0.7)
RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(400)
WEIGHTS = RNG.integers(0, 3, 400).astype(float)
SQUARES = ((X[:, None] - X) ** 2).sum(axis=2)
K = np.exp(-SQUARES / (2 * 0.7**2))


def residual_of(solution, ridge, targets=Y):
    """From the formula, in float64."""
    alpha = solution.coefficients.astype(np.float64)
    rest = K @ alpha + 400 * ridge * alpha + solution.intercept - targets
    return np.linalg.norm(rest) / np.linalg.norm(targets)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_conjugate_gradients_solve_what_the_factorisation_solves(dtype, intercept, mixed):
    targets = np.stack([Y, Y**2], axis=1)
    gram = KERNEL.gram(X.astype(dtype))
    problem = Problem(gram, targets, Squared(), 1e-4, WEIGHTS, intercept)
    found = ConjugateGradient(rank=60, mixed=mixed).solve(problem)
    exact = Direct(mixed=False).solve(problem)
    assert found.status.converged
    assert found.coefficients.dtype == dtype
    assert found.objective == pytest.approx(exact.objective, rel=1e-4)
    fitted = gram @ found.coefficients.astype(float) + found.intercept
    wanted = gram @ exact.coefficients.astype(float) + exact.intercept
    np.testing.assert_allclose(fitted, wanted, atol=2e-3 if dtype == np.float32 else 1e-4)


def test_the_residual_that_is_told_is_the_true_one():
    problem = Problem(KERNEL.gram(X), Y, Squared(), 1e-5)
    solution = ConjugateGradient(rank=40, iterations=7).solve(problem)
    distances = ((X[:, None] - X) ** 2).sum(axis=2)
    rest = np.exp(-distances / (2 * 0.7**2)) @ solution.coefficients - Y
    rest += 400 * 1e-5 * solution.coefficients
    assert solution.gap == pytest.approx(np.linalg.norm(rest) / np.linalg.norm(Y), rel=1e-6)
    assert not solution.status.converged
    assert "Stopped by the limit of 7 iterations" in str(solution.status)
    assert len(solution.history["residual"]) == len(solution.history["seconds"]) == 7


def test_iterations_end_by_callback_and_clock():
    problem = Problem(KERNEL.gram(X), Y, Squared(), 1e-5)
    stopped = ConjugateGradient(rank=20, callback=lambda i, state: i == 3).solve(problem)
    assert len(stopped.history["residual"]) == 3
    assert "the callback" in str(stopped.status)
    hurried = ConjugateGradient(rank=20, time_limit=1e-9).solve(problem)
    assert "time limit" in str(hurried.status)
    assert hurried.gap < 1


def test_conjugate_gradients_refuse_what_they_cannot_do():
    gram = KERNEL.gram(X)
    with pytest.raises(ValueError, match="solves the square loss; got Hinge"):
        ConjugateGradient().solve(Problem(gram, np.sign(Y), Hinge(), 1.0))
    with pytest.raises(ValueError, match="needs regularization > 0"):
        ConjugateGradient().solve(Problem(gram, Y, Squared(), 0.0))


@pytest.mark.parametrize("ridge", [1e-6, 1e-9, 1e-11])
@pytest.mark.parametrize("mixed", [None, True])
def test_hardly_any_regularisation(ridge, mixed):
    """Float32 cannot tell such a K + ρI from a singular one: it is left as soon as that shows."""
    problem = Problem(KERNEL.gram(X), Y, Squared(), ridge)
    found = ConjugateGradient(mixed=mixed).solve(problem)
    exact = Direct(mixed=False).solve(problem)
    assert found.status.converged
    residual = residual_of(found, ridge)
    size = np.linalg.norm(found.coefficients) / np.sqrt(np.mean(Y**2))
    rounding = (8 + np.sqrt(400) / 8) * np.finfo(float).eps * size
    assert rounding <= found.gap <= 1.01 * residual + 1.001 * rounding  # no less is claimed
    assert found.gap <= 1e-6
    np.testing.assert_allclose(K @ found.coefficients, K @ exact.coefficients, atol=1e-5)
    assert ("float32" in str(found.status)) == (bool(mixed) and ridge == 1e-6)


def test_float32_tells_what_its_coefficients_can_do():
    """Rounded to float32, even the solution has a residual above the tolerance."""
    single = X.astype(np.float32)
    problem = Problem(KERNEL.gram(single), Y, Squared(), 1e-9)
    found = ConjugateGradient().solve(problem)
    squares = ((single.astype(float)[:, None] - single) ** 2).sum(axis=2)
    alpha = found.coefficients.astype(float)
    rest = np.exp(-squares / (2 * 0.7**2)) @ alpha + 400 * 1e-9 * alpha - Y
    assert found.gap == pytest.approx(np.linalg.norm(rest) / np.linalg.norm(Y), rel=1e-3)
    assert not found.status.converged
    assert "pass float64" in str(found.status)
    assert found.gap < 1e-2


def test_sparse_rows_are_solved_like_dense_ones():
    Z = np.where(np.abs(X) > 0.5, X, 0.0)
    dense, sparse = (
        ConjugateGradient(tolerance=1e-9).solve(Problem(KERNEL.gram(rows), Y, Squared(), 1e-6))
        for rows in (Z, scipy.sparse.csr_array(Z))
    )
    assert sparse.status.converged
    np.testing.assert_allclose(sparse.coefficients, dense.coefficients, atol=1e-4)


@pytest.mark.parametrize("intercept", [False, True])
def test_weights_are_repetitions(intercept):
    counts = WEIGHTS.astype(int)
    solver = ConjugateGradient(tolerance=1e-10)
    weighted = solver.solve(Problem(KERNEL.gram(X), Y, Squared(), 1e-7, WEIGHTS, intercept))
    repeated = solver.solve(
        Problem(KERNEL.gram(np.repeat(X, counts, axis=0)), np.repeat(Y, counts), Squared(), 1e-7,
                None, intercept)
    )  # fmt: skip
    sums = np.zeros(400)
    np.add.at(sums, np.repeat(np.arange(400), counts), repeated.coefficients)
    np.testing.assert_allclose(K @ weighted.coefficients, K @ sums, atol=1e-6)
    assert weighted.intercept == pytest.approx(repeated.intercept, abs=1e-6)


def test_every_iterate_is_better_than_the_last_also_while_the_residual_grows():
    """A is a poor preconditioner's worst case: the first residuals are above that of 0."""
    problem = Problem(KERNEL.gram(X), Y, Squared(), 1e-7)
    solutions = [
        ConjugateGradient(rank=5, iterations=count).solve(problem) for count in (1, 3, 9, 27)
    ]
    energies = [
        s.coefficients @ (K @ s.coefficients / 2 + 2e-5 * s.coefficients - Y) for s in solutions
    ]
    assert energies == sorted(energies, reverse=True)
    assert energies[0] < 0
    for solution in solutions:
        assert residual_of(solution, 1e-7) == pytest.approx(solution.gap, rel=1e-6)


def test_a_kernel_that_is_zero_leaves_the_targets():
    solution = ConjugateGradient().solve(Problem(Linear().gram(0 * X), Y, Squared(), 0.5))
    np.testing.assert_allclose(solution.coefficients, Y / 200)


# ---- the preconditioner --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ridge", [1e-3, 1e-4])
def test_the_preconditioner_is_the_inverse_it_says(dtype, ridge):
    """The largest eigenvalue is 10⁶ρ: what float32 alone would make of I − … is noise."""
    *_, factor = RandomlyPivoted(150, random_state=0).growing(KERNEL, KERNEL.points(X), dtype)
    F = factor.columns[:, : factor.rank]
    roots = np.sqrt(WEIGHTS)[:, None]
    columns = Columns(F, roots, ridge)
    assert (0 < columns.leading < columns.rank) == (dtype == np.float32)
    wide = roots * F.astype(float)
    A = wide @ wide.T + ridge * np.eye(400)
    preconditioner = columns.preconditioner(ridge)
    near = np.linalg.eigvals(preconditioner.solve(A) / ridge)
    np.testing.assert_allclose(near, 1.0, atol=0.02 if dtype == np.float32 else 1e-8)
    R = preconditioner.solve(np.eye(400))
    assert np.linalg.eigvalsh(R + R.T)[0] > 0


def test_columns_of_rounding_errors_are_not_taken():
    Z = np.repeat(RNG.standard_normal((60, 2)), 5, axis=0)
    choice = RandomlyPivoted(300, random_state=0)
    *_, factor = choice.growing(KERNEL, KERNEL.points(Z), "float32")
    pivots = factor.columns[factor.pivots, np.arange(factor.rank)]
    assert factor.rank <= 60
    assert (pivots.astype(float) ** 2 > 0.99 * Tuning().noise * np.finfo(np.float32).eps).all()


def test_less_regularisation_makes_more_columns_worth_it():
    problems = [Problem(KERNEL.gram(X), Y, Squared(), ridge) for ridge in (1e-1, 1e-4, 1e-7)]
    ranks = [ConjugateGradient().shared(problem).columns.rank for problem in problems]
    assert ranks == sorted(set(ranks))
    narrow = Problem(Gaussian(1e-3).gram(X), Y, Squared(), 1e-3)  # K = I: nothing to gain
    assert ConjugateGradient().shared(narrow).columns.rank <= 2 * 32
    system = RidgeSystem(ConjugateGradient, problems[-1])
    assert ConjugateGradient(rank=7).columns(system).rank == 7
    assert ConjugateGradient().columns(system, until=0.0).rank <= 32


# ---- many λ --------------------------------------------------------------------------------------


def test_a_path_solves_every_problem_of_it():
    Z, targets = RNG.standard_normal((50, 3)), np.stack([Y, Y**2], axis=1)
    problem = Problem(KERNEL.gram(X), targets, Squared(), 1.0, WEIGHTS, True)
    held_out = Z, np.ones((50, 2))
    points = list(regularization_path(problem, [1e-6, 1e-2, 1e-4], held_out=held_out))
    assert [point.regularization for point in points] == [1e-2, 1e-4, 1e-6]
    for point in points:
        alone = Problem(problem.gram, targets, Squared(), point.regularization, WEIGHTS, True)
        exact = Direct(mixed=False).solve(alone)
        values = KERNEL(Z, X) @ exact.coefficients + exact.intercept
        assert point.solution.status.converged
        assert point.held_out_risk == pytest.approx(Squared().risk(np.ones((50, 2)), values), 1e-4)
        assert point.solution.objective == pytest.approx(exact.objective, rel=1e-5)


def test_a_path_goes_no_further_than_it_is_asked():
    problem, calls = Problem(KERNEL.gram(X), Y, Squared(), 1.0), []
    solver = ConjugateGradient(callback=lambda i, state: calls.append(i))
    (first,) = islice(regularization_path(problem, [1e-3, 1e-8], solver), 1)
    assert first.regularization == 1e-3
    assert len(calls) == len(first.solution.history["residual"])
    with pytest.raises(ValueError, match="needs regularization > 0"):
        next(regularization_path(problem, [1e-3, 0.0]))


@pytest.mark.parametrize("intercept", [False, True])
def test_what_is_stopped_early_is_no_worse_than_a_constant(intercept):
    random = np.random.default_rng(0)
    X = random.standard_normal((60, 2))
    y = np.sin(3.0 * X[:, 0]) + 0.3 * random.standard_normal(60) + 1.0
    problem = Problem(Gaussian(1.0).gram(X), y, Squared(), 1e-8, fit_intercept=intercept)
    rest = 0.5 * np.mean((y - intercept * y.mean()) ** 2)
    for steps in (1, 2, 3):
        solution = ConjugateGradient(iterations=steps, rank=5).solve(problem)
        assert solution.objective <= rest * (1.0 + 1e-12)
        f = problem.gram.dense() @ solution.coefficients + solution.intercept
        penalty = solution.coefficients @ problem.gram.dense() @ solution.coefficients
        assert solution.objective == pytest.approx(0.5 * np.mean((y - f) ** 2) + 0.5e-8 * penalty)
        assert not solution.status.converged
