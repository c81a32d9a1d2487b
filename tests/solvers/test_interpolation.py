import numpy as np
import pytest

from mercer.kernels import Exponential, Gaussian, Linear, Matern, PairKernel
from mercer.solvers import interpolant

X = np.array([[0.0], [0.3], [1.0], [2.5]])
Y = np.array([1.0, -2.0, 0.5, 3.0])


@pytest.mark.parametrize(
    "kernel", [Gaussian(0.7), Exponential(), Matern(2.5), Matern(0.8)], ids=repr
)
def test_values_are_taken(kernel):
    assert np.allclose(interpolant(kernel, X, Y)(X), Y, rtol=1e-9)


def test_no_function_through_the_values_has_a_smaller_norm():
    kernel = Matern(1.5)
    f = interpolant(kernel, X, Y)
    extra = np.array([[0.7], [1.7]])
    rng = np.random.default_rng(0)
    for _ in range(20):
        z = rng.standard_normal(2)
        bump = kernel.function(extra, z)
        other = f + bump - interpolant(kernel, X, bump(X))
        assert np.allclose(other(X), Y, atol=1e-8)
        assert other.norm() > f.norm()


def test_repeated_points_with_one_value():
    points, values = X[[0, 1, 1, 2]], Y[[0, 1, 1, 2]]
    f = interpolant(Gaussian(), points, values)
    assert np.allclose(f(X[:3]), Y[:3], rtol=1e-8)
    assert np.isclose(f.norm(), interpolant(Gaussian(), X[:3], Y[:3]).norm(), rtol=1e-6)


def test_several_outputs():
    values = np.stack([Y, Y**2], axis=1)
    assert np.allclose(interpolant(Matern(), X, values)(X), values)


def test_contradictions_are_named():
    with pytest.raises(ValueError, match=r"points 1 and 3 coincide, but their values -2\.0 and 5"):
        interpolant(Gaussian(), X[[0, 1, 2, 1]], np.array([1.0, -2.0, 0.5, 5.0]))


def test_contradictions_of_words_are_named():
    kernel = PairKernel(lambda a, b: float(len(set(a) & set(b))))
    with pytest.raises(ValueError, match=r"points 0 and 2 coincide"):
        interpolant(kernel, ["ab", "cd", "ab"], [1.0, 2.0, 3.0])


def test_spaces_that_are_too_small_are_named():
    with pytest.raises(
        ValueError, match=r"Gram matrix of 4 points has rank 1, and .* larger space"
    ):
        interpolant(Linear(), X, Y)


def test_wrong_number_of_values():
    with pytest.raises(ValueError, match=r"one value \(or row\) for each of 4 points; got shape"):
        interpolant(Gaussian(), X, Y[:3])
