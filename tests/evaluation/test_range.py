"""Values at the ends of the range of floats: units of 1e±20, far pairs, the least smoothness."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

from mercer.kernels import (
    Cauchy,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    PeriodicBernoulli,
    PeriodicExponential,
    RationalQuadratic,
)

X = np.random.default_rng(0).standard_normal((7, 3))
UNIT32 = np.finfo(np.float32).eps
IN_A_UNIT = [
    lambda u: Gaussian(u),
    lambda u: Gaussian([u, 2.0 * u, u]),
    lambda u: Matern(1.5, u),
    lambda u: Matern(2.2, u),
    lambda u: RationalQuadratic(1.0, u),
    lambda u: Laplacian(u),
    lambda u: Cauchy(u),
    lambda u: 2.0 * Gaussian(u) + 1.0,
]


@pytest.mark.parametrize("unit", [1e-25, 1e-20, 1e20, 1e25])
@pytest.mark.parametrize("number", range(len(IN_A_UNIT)))
def test_values_do_not_depend_on_the_unit(number, unit):
    make = IN_A_UNIT[number]
    rows, exact = (unit * X).astype(np.float32), make(1.0)(X)
    gram = make(unit).gram(rows)
    values, v = gram.dense(), np.ones(7, np.float32)
    assert values.dtype == np.float32
    assert np.allclose(values, exact, rtol=0, atol=100 * UNIT32)
    assert np.allclose(gram.diagonal(), exact.diagonal(), rtol=0, atol=8 * UNIT32)
    assert (gram @ v).dtype == np.float32
    assert np.allclose(gram @ v, exact.sum(axis=1), rtol=0, atol=400 * UNIT32)
    assert np.allclose(gram[:4, 2:].T @ v[:4], exact[:4, 2:].sum(axis=0), rtol=0, atol=400 * UNIT32)


def test_sparse_rows_in_another_unit():
    rows = scipy.sparse.csr_array((1e20 * X).astype(np.float32))
    assert np.allclose(Gaussian(1e20)(rows), Gaussian()(X), rtol=0, atol=100 * UNIT32)


def test_gradients_in_another_unit():
    f = Gaussian(1e20).function((1e20 * X).astype(np.float32), np.ones(7, np.float32))
    exact = Gaussian().function(X, np.ones(7)).gradient(X)
    assert np.allclose(1e20 * f.gradient((1e20 * X).astype(np.float32)), exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("smoothness", [0.5, 1.5, 2.5, 3.5, 4.5, 0.3, 2.2, 7.3])
@pytest.mark.parametrize("distance", [1e3, 1e7, 1e12])
def test_far_pairs_have_the_value_zero(smoothness, distance):
    """e^−r ends at 1e-38 in float32, while the polynomial of r before it goes on to grow."""
    rows = np.array([[0.0], [distance]], np.float32)
    assert 0.0 <= Matern(smoothness, 1e-4)(rows)[0, 1] < 1e-12


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("smoothness", [0.001, 0.01, 0.1])
def test_a_point_is_similar_to_itself(smoothness, dtype):
    """1 − r^{2ν} is far from 1 at the least number r > 0."""
    assert np.allclose(Matern(smoothness)(X.astype(dtype)).diagonal(), 1.0, rtol=0, atol=1e-6)


@pytest.mark.parametrize("far", [1e15, 1e60, 5e149])
@pytest.mark.parametrize(
    "kernel", [PeriodicBernoulli(3, period=2.5), PeriodicExponential(period=0.3)]
)
def test_points_further_out_than_digits_reach_are_somewhere_on_the_circle(kernel, far):
    """Polynomials in what was left of a turn had values beyond k(x, x)."""
    x = far * np.array([[1.0], [1.1], [-0.7]])
    matrix, top = kernel(x), kernel([[0.0]])[0, 0]
    np.testing.assert_allclose(np.diagonal(matrix), top, rtol=1e-12)
    assert np.abs(matrix).max() <= top * (1 + 1e-12)


@pytest.mark.parametrize("far", [1e3, 1e5, 1e8, 1e10])
@pytest.mark.parametrize("period", [1.0, 2.5, 0.3, np.pi])
@pytest.mark.parametrize("kind", [PeriodicBernoulli, PeriodicExponential])
def test_periods_are_taken_off_without_loss(kind, period, far):
    kernel = kind(period=period)
    turns = (Fraction(far + 0.1) - Fraction(0.3)) / Fraction(period)
    near = float((turns - int(turns)) * Fraction(period))
    value, exact = kernel([far + 0.1], [0.3]), kernel([near], [0.0])
    assert abs(value - exact) < 1e-13 * max(1.0, far / 1e8)


def test_products_that_overflow_are_infinite_not_wrong():
    with np.errstate(over="ignore"):
        assert np.isinf(Linear()((1e25 * X[:1]).astype(np.float32))).all()
