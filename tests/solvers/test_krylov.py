"""Conjugate gradients: exact in n steps, truthful about the residual."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.solvers.krylov import conjugate_gradients

EPS = np.finfo(np.float64).eps


def definite(n, condition, seed=0):
    vectors = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    return vectors * np.geomspace(1.0, condition, n) @ vectors.T


def sides(n, columns=1, seed=1):
    return np.random.default_rng(seed).standard_normal((n, columns))


def run(A, b, precondition=lambda r: r / 10, tolerance=1e-13, iterations=100):
    return conjugate_gradients(
        lambda v: A @ v, precondition, b, tolerance=tolerance, iterations=iterations
    )


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_n_steps_are_enough_and_fewer_are_not(n):
    """Few and well conditioned, so that rounding does not spoil the conjugacy."""
    A, b = definite(n, 8.0), sides(n)
    done = run(A, b, iterations=n)
    assert np.allclose(done.solution, np.linalg.solve(A, b), rtol=0, atol=1e-12)
    assert len(done.history) <= n + 1
    if n > 2:
        assert run(A, b, iterations=n - 2).residual > 1e-6


def test_as_many_steps_as_distinct_eigenvalues():
    A = np.diag([1.0, 1.0, 1.0, 4.0, 4.0, 9.0, 9.0])
    done = run(A, sides(7), tolerance=1e-12)
    assert len(done.history) - 1 == 3


def test_every_column_is_solved_as_if_alone():
    A, b = definite(9, 8.0), sides(9, 4) * [1.0, 1e-8, 1e6, 1.0]
    together = run(A, b, tolerance=0.0, iterations=9).solution
    for j in range(4):
        alone = run(A, b[:, [j]], tolerance=0.0, iterations=9).solution[:, 0]
        truth = np.linalg.solve(A, b[:, j])
        assert np.allclose(together[:, j], alone, rtol=0, atol=1e-11 * np.abs(truth).max())
        assert np.allclose(together[:, j], truth, rtol=0, atol=1e-11 * np.abs(truth).max())


def test_the_residual_is_that_of_the_worst_column():
    A, b = definite(9, 50.0), sides(9, 3)
    b[:, 1] = np.linalg.eigh(A)[1][:, 0]  # solved by the first step, the others are not
    done = run(A, b, iterations=2)
    gaps = np.linalg.norm(b - A @ done.solution, axis=0) / np.linalg.norm(b, axis=0)
    assert gaps[1] < 1e-12 < 1e-3 < gaps.max()
    assert np.isclose(done.residual, gaps.max(), rtol=1e-12)


def test_zero_columns_have_the_solution_zero():
    A, b = definite(6, 10.0), sides(6, 3)
    b[:, 1] = 0.0
    done = run(A, b)
    assert (done.solution[:, 1] == 0.0).all()
    assert np.allclose(A @ done.solution, b, atol=1e-12)
    nothing = run(A, np.zeros((6, 2)))
    assert (nothing.solution == 0).all()
    assert nothing.residual == 0.0
    assert len(nothing.history) == 1  # and no step was taken


def test_a_perfect_preconditioner_needs_no_step():
    A, b = definite(8, 1e3), sides(8)
    done = run(A, b, precondition=lambda r: np.linalg.solve(A, r), tolerance=1e-12)
    assert len(done.history) == 1
    assert done.residual < 1e-12


def test_a_good_preconditioner_saves_steps():
    A, b = definite(60, 1e6), sides(60)
    rough = A + 1e-3 * np.eye(60)
    plain = run(A, b, iterations=200, tolerance=1e-8)
    helped = run(A, b, precondition=lambda r: np.linalg.solve(rough, r), tolerance=1e-8)
    assert len(helped.history) < 6 < len(plain.history) / 4


@pytest.mark.parametrize("iterations", [0, 1, 3, 50])
def test_the_residual_is_computed_afresh(iterations):
    """Even where the product lies to the recursion: the last word is b − A x."""
    A, b, calls = definite(10, 1e5), sides(10, 2), []

    def multiply(v):
        calls.append(None)
        return A @ v * (1.0 + 1e-3 * (len(calls) % 2))  # inexact, differently each time

    done = conjugate_gradients(multiply, lambda r: r, b, tolerance=1e-9, iterations=iterations)
    truth = np.linalg.norm(b - A @ done.solution, axis=0) / np.linalg.norm(b, axis=0)
    assert done.residual >= 0.1 * truth.max()
    exact = run(A, b, iterations=iterations, precondition=lambda r: r)
    truth = np.linalg.norm(b - A @ exact.solution, axis=0) / np.linalg.norm(b, axis=0)
    assert np.isclose(exact.residual, truth.max(), rtol=1e-6, atol=10 * EPS)
    assert len(exact.history) <= iterations + 1


def test_it_stops_at_the_tolerance():
    A, b = definite(40, 1e4), sides(40)
    for tolerance in (1e-2, 1e-6):
        done = run(A, b, tolerance=tolerance, iterations=200)
        assert done.history[-1] <= tolerance < done.history[-2]
        assert done.residual <= 2 * tolerance


def test_the_right_hand_side_is_left_as_it_was():
    A, b = definite(5, 10.0), sides(5)
    kept = b.copy()
    run(A, b)
    assert (b == kept).all()
