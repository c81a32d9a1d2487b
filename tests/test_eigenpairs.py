"""Leading eigenpairs by products alone, against a stored decomposition."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.kernels import Gaussian, Matern
from mercer.linalg import leading_eigenpairs


def matrix(spectrum, seed=0):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((len(spectrum), len(spectrum))))[0]
    return (Q * spectrum) @ Q.T


@pytest.mark.parametrize("spectrum", ["slow", "repeated", "low rank", "indefinite"])
@pytest.mark.parametrize("by_size", [False, True])
def test_pairs_are_those_of_the_stored_matrix(spectrum, by_size):
    n, count = 300, 5
    values = {
        "slow": 1.0 / np.arange(1, n + 1) ** 0.3,  # restarts often
        "repeated": np.repeat([3.0, 2.0, 1.0], n // 3),
        "low rank": np.r_[4.0, 2.0, np.zeros(n - 2)],
        "indefinite": np.linspace(-2.0, 1.0, n),
    }[spectrum]
    A = matrix(values)
    found = leading_eigenpairs(lambda V: A @ V, n, count, by_size=by_size, tolerance=1e-9)
    order = np.argsort(-np.abs(values) if by_size else -values, kind="stable")[:count]
    np.testing.assert_allclose(found.values, values[order], atol=1e-8)
    rest = A @ found.vectors - found.vectors * found.values
    np.testing.assert_allclose(np.linalg.norm(rest, axis=0), found.residuals, atol=1e-12)
    assert (found.residuals <= 1e-9 * np.abs(values).max() + 1e-12).all()
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(count), atol=1e-10)


@pytest.mark.parametrize("count", [5, 40])
def test_vectors_are_orthonormal_where_eigenvalues_fall_to_rounding(count):
    X = np.random.default_rng(0).uniform(size=(400, 1))
    K = Gaussian(0.5).gram(X).dense()
    found = leading_eigenpairs(lambda V: K @ V, 400, count, tolerance=1e-14, iterations=20)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(count), atol=1e-12)
    expected = np.linalg.eigvalsh(K)[::-1][:count]
    np.testing.assert_allclose(found.values, expected, atol=1e-13 * expected[0])


def test_a_limit_of_products_is_kept_and_told():
    A, calls = matrix(1.0 / np.arange(1, 201)), []

    def multiply(block):
        calls.append(block.shape)
        return A @ block

    found = leading_eigenpairs(multiply, 200, 2, iterations=3)
    assert found.products == len(calls) == 3
    assert found.residuals.max() > 1e-8


def test_operators_and_small_sizes():
    gram = Gaussian().gram(np.arange(6.0)[:, None])
    found = leading_eigenpairs(gram, 6, 10)
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(gram.dense())[::-1])
    with pytest.raises(ValueError, match="count ≥ 1"):
        leading_eigenpairs(gram, 6, 0)


@pytest.mark.parametrize("count", [5, 40])
def test_products_that_are_rounded_end_at_their_rounding(count):
    X = np.random.default_rng(0).uniform(size=(400, 1))
    A = Matern(0.5)(X)
    found = leading_eigenpairs(
        lambda V: (A @ V).astype(np.float32).astype(float), 400, count, tolerance=1e-9
    )
    assert found.products < 60
    assert found.residuals.max() < 1e-5
    np.testing.assert_allclose(
        found.values, np.linalg.eigvalsh(A)[::-1][:count], atol=1e-6 * found.values[0]
    )
