"""Products lose no digits: ≤ 1e-6 in float32 and ≤ 1e-13 in float64, wherever the points lie."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import markets
from mercer.evaluation import reference
from mercer.evaluation.accuracy import steepness
from mercer.evaluation.expression import numbers_of
from mercer.evaluation.operations import derivative
from mercer.kernels import ChiSquared, Gaussian, Matern
from mercer.points import DensePoints

LIMIT = {np.float32: 1e-6, np.float64: 1e-13}
SHAPES = {"gaussian": Gaussian, "matern-1/2": lambda lengthscale: Matern(0.5, lengthscale)}


def square(rows, width, seed):
    return np.random.default_rng(seed).random((rows, width))


# name: points from (rows, width, seed), and the lengthscale as a multiple of √width
CASES = {
    "plain": (markets.normal, 1.0),
    "far": (lambda *a: markets.normal(*a) + 1e4, 1.0),
    "short": (square, 0.02 / np.sqrt(2)),
    "duplicated": (lambda n, d, seed: markets.normal(17, d)[np.arange(n) % 17], 1.0),
    "close": (lambda n, d, seed: 1.0 + 1e-3 * markets.normal(n, d, seed), 1e-3),
}


def relative_error(kernel, X, Y):
    """Of K v, symmetric and not, against the reference in float64 on the same points."""
    v = np.random.default_rng(3).standard_normal((Y.shape[0], 2)).astype(Y.dtype)
    x, y = kernel.points(X), kernel.points(Y)
    worst = 0.0
    for gram, pair in ((kernel.gram(x, y), (x, y)), (kernel.gram(y), (y, y))):
        exact = reference.block(kernel.expression(), *pair) @ v.astype(np.float64)
        for columns in (v, v[:, :1]):
            gap = (gram @ columns) - exact[:, : columns.shape[1]]
            worst = max(worst, np.linalg.norm(gap) / np.linalg.norm(exact[:, : columns.shape[1]]))
    return worst


@pytest.mark.parametrize("dtype", LIMIT, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("width", [2, 10, 40, 100])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("shape", SHAPES)
def test_dense_points(shape, case, width, dtype):
    if case == "short":
        width = 2  # the unit square; in more dimensions no two points are near
    points, lengthscale = CASES[case]
    X, Y = points(150, width, 0).astype(dtype), points(170, width, 1).astype(dtype)
    kernel = SHAPES[shape](lengthscale * np.sqrt(width))
    assert relative_error(kernel, X, Y) <= LIMIT[dtype]


@pytest.mark.parametrize("dtype", LIMIT, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("case", ["plain", "duplicated", "far", "short"])
@pytest.mark.parametrize("shape", SHAPES)
def test_sparse_points(shape, case, dtype):
    points, lengthscale = CASES[case]
    mask = markets.sparse(17, 80).toarray()[np.arange(170) % 17] > 0  # the same for the same point
    X = scipy.sparse.csr_array(points(150, 80, 0) * mask[:150]).astype(dtype)
    Y = scipy.sparse.csr_array(points(170, 80, 0) * mask).astype(dtype)
    assert relative_error(SHAPES[shape](5 * lengthscale), X, Y) <= LIMIT[dtype]


@pytest.mark.parametrize("dtype", LIMIT, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("width", [2, 40, 100])
@pytest.mark.parametrize("shape", SHAPES)
def test_two_clusters(shape, width, dtype):
    """One cluster at the origin and one far away: their middle is near to neither."""
    near, far = markets.normal(80, width), markets.normal(80, width, 1) + 1e4
    X = np.concatenate([near, far]).astype(dtype)
    assert relative_error(SHAPES[shape](np.sqrt(width)), X, X[::-1].copy()) <= LIMIT[dtype]


@pytest.mark.parametrize("dtype", LIMIT, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("width", [2, 100])
@pytest.mark.parametrize("shape", SHAPES)
def test_lengthscales_of_columns(shape, width, dtype):
    """Columns that are scaled one by one keep their digits far from the origin too."""
    X = (markets.normal(150, width) + 1e4).astype(dtype)
    kernel = SHAPES[shape](np.sqrt(width) * np.linspace(0.7, 1.3, width))
    x = kernel.points(X)
    gaps = (X[:, None, :].astype(np.longdouble) - X[None, :, :]) / np.asarray(kernel.lengthscale)
    squares = (gaps**2).sum(axis=-1)
    exact = np.exp(-squares / 2) if shape == "gaussian" else np.exp(-np.sqrt(squares))
    v = markets.normal(150, 1, 5, dtype)
    product = kernel.gram(x) @ v
    exact = (exact @ v).astype(np.float64)
    assert np.linalg.norm(product - exact) / np.linalg.norm(exact) <= LIMIT[dtype]


def test_long_sums_in_float32():
    """Ten thousand terms are added in float64 from tile to tile."""
    X, Y = markets.normal(40, 3, 0, np.float32), markets.normal(10_000, 3, 1, np.float32)
    kernel, v = Gaussian(2.0), np.ones(10_000, np.float32)
    exact = reference.block(kernel.expression(), kernel.points(X), kernel.points(Y)) @ v
    assert np.abs((kernel.gram(X, Y) @ v) / exact - 1).max() <= 1e-6


def test_exponentials_of_large_distances_vanish():
    X = np.array([[0.0], [100.0], [1e6], [1e30]])
    assert np.abs(Gaussian()(X) - np.eye(4)).max() < 1e-300
    assert np.abs(Gaussian()(X.astype(np.float32)) - np.eye(4)).max() < 1e-37


def histograms(rows, width, seed, kept=1.0):
    rng = np.random.default_rng(seed)
    counts = rng.random((rows, width)) * (rng.random((rows, width)) < kept)
    counts[:, 0] += 1e-3
    return counts / counts.sum(axis=1, keepdims=True)


def nearly_equal(rows, width, seed):
    return square(rows, width, 0) * (1 + 1e-5 * square(rows, width, seed))


NONNEGATIVE = {
    "uniform": (square, 10),
    "few": (square, 3),
    "histograms": (histograms, 32),
    "zeros": (lambda *a: histograms(*a, kept=0.2), 33),
    "nearly equal": (nearly_equal, 16),
}


@pytest.mark.parametrize("dtype", LIMIT, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("case", NONNEGATIVE)
def test_chi_squared(case, dtype):
    points, width = NONNEGATIVE[case]
    X, Y = points(150, width, 1).astype(dtype), points(170, width, 2).astype(dtype)
    size = X.sum(axis=1).max() + Y.sum(axis=1).max()
    weights = np.random.default_rng(3).random(len(Y)).astype(dtype)
    for most in (1.7, 17.0, 19.0):
        kernel = ChiSquared(most / size)
        x, y = kernel.points(X), kernel.points(Y)
        exact = reference.block(kernel.expression(), x, y)
        limit = most / 20 * LIMIT[dtype] + 8 * np.finfo(dtype).eps
        gram, v = kernel.gram(x, y), weights.astype(float)
        for values, right in (
            (gram @ weights, exact @ v),
            (gram.normal_matmul(weights), exact.T @ (exact @ v)),
            (kernel(X, Y), exact),
        ):
            assert np.linalg.norm(values - right) <= limit * np.linalg.norm(right)
        assert kernel(X, X).max() <= 1.0


@pytest.mark.parametrize("odd", [np.nan, np.inf, 1e30, 25.0])
def test_chi_squared_of_points_that_are_odd(odd):
    kernel = ChiSquared()
    X, Y = square(9, 6, 0), square(50, 6, 1)
    usual = kernel.gram(X, Y) @ np.ones(50)
    X[4, 2] = odd
    value = kernel.gram(DensePoints(X), DensePoints(Y)) @ np.ones(50)
    rest = np.arange(9) != 4
    assert np.allclose(value[rest], usual[rest], rtol=1e-13)
    assert np.isnan(value[4]) if not odd < np.inf else value[4] < usual[4]


def test_slopes_of_tables_are_not_expanded():
    expression = Matern(2.2).expression()
    (number,) = numbers_of(expression)
    slope = derivative(expression, number)
    assert steepness(expression, number, 1.0) < np.inf
    assert steepness(slope, number, 1.0) == np.inf
