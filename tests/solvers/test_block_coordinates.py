"""Block coordinate descent against a factorisation, and its memory, limits and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mercer import KernelRidge
from mercer.kernels import Gaussian, Matern, Polynomial
from mercer.losses import Logistic, Squared
from mercer.solvers import BlockCoordinateDescent, Direct, HeldOut, Problem
from mercer.solvers import block_coordinates as module
from mercer.solvers.optimality import ridge_residual

N = 300
RNG = np.random.default_rng(0)
X = RNG.uniform(size=(N, 2))
Y = np.column_stack([np.sin(6.0 * X[:, 0]), X[:, 1]]) + 0.1 * RNG.standard_normal((N, 2))
WEIGHTS = RNG.integers(0, 3, N).astype(float)
KERNEL = Gaussian(0.3)
SOLVER = BlockCoordinateDescent(tolerance=1e-8, block_size=100)


def residual(problem, solution):
    """In float64, by the definition: w(K α + b − y) + nλα, relative to √w·y."""
    K = problem.gram.kernel.gram(X).dense()
    w = np.ones(N) if problem.weights is None else problem.weights
    y = problem.y.reshape(N, -1)
    alpha = np.asarray(solution.coefficients, float).reshape(N, -1)
    rest = np.sqrt(w)[:, None] * (K @ alpha + solution.intercept - y)
    counted = w > 0
    roots = np.sqrt(w[counted])[:, None]
    rest[counted] += problem.regularization * w.sum() * alpha[counted] / roots
    return (np.linalg.norm(rest, axis=0) / np.linalg.norm(np.sqrt(w)[:, None] * y, axis=0)).max()


@pytest.mark.parametrize("size", [300, 70])
@pytest.mark.parametrize("kernel", [KERNEL, Matern(1.5, lengthscale=0.3)], ids=repr)
def test_it_solves_what_a_factorisation_solves(kernel, size):
    problem = Problem(kernel.gram(X), Y[:, 0], Squared(), 1e-3)
    solution, exact = replace(SOLVER, block_size=size).solve(problem), Direct().solve(problem)
    assert solution.status.converged
    assert residual(problem, solution) <= solution.gap <= 1e-8
    np.testing.assert_allclose(solution.coefficients, exact.coefficients, rtol=0, atol=1e-6)
    assert solution.objective == pytest.approx(exact.objective, rel=1e-10)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
def test_outputs_weights_and_an_intercept(weights, intercept):
    problem = Problem(KERNEL.gram(X), Y, Squared(), 1e-2, weights, intercept)
    solution, exact = SOLVER.solve(problem), Direct().solve(problem)
    assert solution.status.converged
    assert residual(problem, solution) <= 1e-8
    np.testing.assert_allclose(solution.coefficients, exact.coefficients, rtol=0, atol=1e-6)
    np.testing.assert_allclose(solution.intercept, exact.intercept, rtol=0, atol=1e-6)
    if weights is not None:
        assert not solution.coefficients[weights == 0].any()


def test_float32_is_corrected_in_float64_where_it_cannot_tell_more():
    problem = Problem(KERNEL.gram(X), Y[:, 0], Squared(), 1e-4)
    mixed = replace(SOLVER, tuning=module.Tuning(mixed_size=1))
    rough = replace(mixed, tolerance=1e-3).solve(problem)
    assert "the last in float32" in str(rough.status)
    fine = mixed.solve(problem)
    assert "the last in float64" in str(fine.status)
    assert residual(problem, fine) <= 1e-8 < residual(problem, rough) <= 1e-3
    single = Problem(KERNEL.gram(X.astype(np.float32)), Y[:, 0], Squared(), 1e-3)
    solution = BlockCoordinateDescent(block_size=100).solve(single)
    assert solution.coefficients.dtype == np.float32
    assert solution.status.converged
    assert solution.gap <= 1e-4
    huge = Problem(Polynomial(3).gram(1e15 * X[:9]), Y[:9, 0], Squared(), 1.0)  # no float32
    assert np.isfinite(replace(mixed, iterations=1).solve(huge).coefficients).all()


def test_the_same_seed_gives_the_same_answer():
    problem = Problem(KERNEL.gram(X), Y[:, 0], Squared(), 1e-4)
    one, two, other = (
        replace(SOLVER, iterations=3, random_state=seed).solve(problem) for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(one.coefficients, two.coefficients)
    assert np.abs(one.coefficients - other.coefficients).max() > 0


def test_a_start_and_limits():
    problem = Problem(KERNEL.gram(X), Y[:, 0], Squared(), 1e-3)
    exact = Direct().solve(problem)
    again = SOLVER.solve(problem, exact)
    assert again.status.converged
    assert "0 passes" in str(again.status)
    few = replace(SOLVER, iterations=2).solve(problem)
    assert not few.status.converged
    assert "Stopped by the limit of 2 iterations: 2 passes in blocks of 100 rows" in str(few.status)
    assert len(few.history["residual"]) == len(few.history["seconds"]) == 2
    late = replace(SOLVER, time_limit=1e-9).solve(problem)  # one block, not a whole pass
    assert "Stopped by the time limit of 1e-09 s: 0.333 passes" in str(late.status)
    assert np.count_nonzero(late.coefficients) == 100
    further = SOLVER.solve(problem, few)
    assert further.status.converged


def test_held_out_rows_are_not_fitted():
    rule = HeldOut(fraction=0.2, patience=3, random_state=1)
    problem = Problem(KERNEL.gram(X), Y[:, 0], Squared(), 1e-6)
    stopped = replace(SOLVER, iterations=30, stopping=rule).solve(problem)
    hidden = rule.hidden(np.ones(N))
    assert not stopped.coefficients[hidden].any()
    assert "held-out rows are predicted best after" in str(stopped.status)


def test_no_product_with_all_rows_is_computed_and_the_sample_tells_the_residual(monkeypatch):
    """Rows of K in one product: those of a block, and those that are sampled."""
    problem = Problem(KERNEL.gram(X), Y, Squared(), 1e-3, WEIGHTS)
    from mercer.operators import Gram
    from mercer.solvers import optimality

    monkeypatch.setattr(optimality, "TUNING", optimality.Tuning(sampled_rows=60, fewest_rows=60))
    heights, multiply = [], Gram.__matmul__
    monkeypatch.setattr(
        Gram, "__matmul__", lambda self, v: heights.append(self.shape[0]) or multiply(self, v)
    )
    tuning = module.Tuning(sample=40)
    solution = BlockCoordinateDescent(1e-4, 75, tuning=tuning, iterations=5).solve(problem)
    assert max(heights) <= 75
    assert "in float64 on 60 rows" in str(solution.status)
    monkeypatch.undo()
    whole = ridge_residual(problem, solution.coefficients)
    assert whole.claimed <= 2.0 * solution.gap
    assert solution.objective == pytest.approx(whole.objective, rel=0.5)


def test_what_it_cannot_solve_is_refused():
    gram = KERNEL.gram(X)
    for wrong in ({"block_size": 0}, {"rank": 1.5}, {"iterations": 0}):
        with pytest.raises(ValueError, match="needs a whole number"):
            BlockCoordinateDescent(**wrong)
    for wrong in ({"tolerance": 0.0}, {"time_limit": -1.0}):
        with pytest.raises(ValueError, match="needs a finite"):
            BlockCoordinateDescent(**wrong)
    with pytest.raises(ValueError, match="needs regularization > 0; got 0"):
        SOLVER.solve(Problem(gram, Y, Squared(), 0.0))
    with pytest.raises(ValueError, match="BlockCoordinateDescent solves the square loss"):
        SOLVER.solve(Problem(gram, np.sign(Y[:, 0]), Logistic(), 1.0))


def test_the_estimator_takes_it_and_says_so():
    model = KernelRidge(alpha=0.3, kernel=KERNEL, solver=replace(SOLVER, iterations=50))
    model.fit(X, Y[:, 0])
    exact = KernelRidge(alpha=0.3, kernel=KERNEL).fit(X, Y[:, 0])
    np.testing.assert_allclose(model.predict(X), exact.predict(X), rtol=0, atol=1e-6)
    assert "passes in blocks of 100 rows" in model.explain()
