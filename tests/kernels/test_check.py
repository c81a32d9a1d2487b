"""Is this a kernel? `kernel.check` on points."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.kernels import BlockKernel, Gaussian, PairKernel, Precomputed, Sigmoid

X = np.random.default_rng(0).standard_normal((20, 2))


def test_a_kernel_passes():
    result = Gaussian().check(X)
    assert result.passed
    assert result
    assert result.witness is None
    assert result.pair is None
    assert repr(result).startswith("passed: 20 points, symmetric, smallest eigenvalue")
    smallest = np.linalg.eigvalsh(Gaussian()(X))[0]
    assert result.smallest_eigenvalue == pytest.approx(smallest, abs=1e-13)


def test_a_singular_matrix_passes_where_rounding_makes_an_eigenvalue_negative():
    Z = np.repeat(X, 3, axis=0)
    assert Gaussian(50.0).check(Z).passed
    assert Gaussian(50.0).check(Z.astype(np.float32)).passed


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_failure_returns_a_witness(dtype):
    points = X.astype(dtype)
    result = Sigmoid(bias=-1.0).check(points)
    assert not result
    v = result.witness
    K = np.tanh(points.astype(float) @ points.T.astype(float) - 1.0)
    assert np.linalg.norm(v) == pytest.approx(1.0)
    assert v @ K @ v == pytest.approx(result.smallest_eigenvalue, rel=1e-10)
    assert v @ K @ v < -0.1
    assert "vᵀKv = -" in repr(result)


def test_an_asymmetric_function_returns_the_pair_that_differs():
    kernel = PairKernel(lambda x, y: float(x[0] * y[1]) if x[0] > y[0] else 0.0)
    result = kernel.check(np.array([[1.0, 1.0], [2.0, 5.0], [1.0, 1.0]]))
    assert not result
    i, j = result.pair
    assert {i, j} in ({0, 1}, {1, 2})
    assert "but k(y, x) =" in result.because


def test_symmetry_is_not_taken_for_granted_on_a_matrix():
    result = Precomputed(np.array([[1.0, 0.2], [0.1, 1.0]])).check([0, 1])
    assert not result
    assert result.pair in ((0, 1), (1, 0))
    assert result.witness is None  # the symmetric part is positive definite
    assert result.smallest_eigenvalue == pytest.approx(0.85)


def test_a_value_that_is_not_finite_is_named():
    kernel = BlockKernel(lambda A, B: np.where(A[:, :1] + B[:, :1].T == 3.0, np.nan, 1.0))
    result = kernel.check(np.array([[0.0], [1.0], [2.0]]))
    assert not result
    assert result.pair == (1, 2)
    assert "k(x, y) = nan for points 1 and 2" in result.because
    assert np.isnan(result.smallest_eigenvalue)


def test_the_tolerance_decides():
    nearly = Precomputed(np.diag([1.0, -1e-6]))
    assert not nearly.check([0, 1])
    assert nearly.check([0, 1], tolerance=1e-6)


def test_objects_and_empty_sets():
    words = ["kernel", "kern", "learn"]
    assert PairKernel(lambda a, b: float(len(set(a) & set(b)))).check(words)
    assert not PairKernel(lambda a, b: float(len(set(a) ^ set(b)))).check(words)
    with pytest.raises(ValueError, match="at least one point"):
        Gaussian().check(np.zeros((0, 2)))
