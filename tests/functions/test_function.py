"""Functions in the space: a vector space with an inner product, in which points are functions."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import markets
from mercer.kernels import (
    AllSubsets,
    ArcCosine,
    Brownian,
    Cauchy,
    ChiSquared,
    Composed,
    CosineSeries,
    Exponential,
    Gaussian,
    GroupAverage,
    Laplacian,
    Linear,
    Matern,
    PeriodicBernoulli,
    PeriodicExponential,
    Polynomial,
    Weighted,
)

SIZE, WIDTH = 5, 2
Z = markets.normal(7, WIDTH, 9)
KERNELS = {
    "gaussian": Gaussian(0.8),
    "matern-1/2": Matern(0.5),
    "quadratic": Polynomial(2),
    "composite": markets.COMPOSITE,
}


def functions(kernel, outputs=None):
    """Functions with random coefficients at random centres."""
    shape = (SIZE,) if outputs is None else (SIZE, outputs)

    def made(seed):
        random = np.random.default_rng(seed)
        centres = random.uniform(-2, 2, (SIZE, WIDTH))
        return kernel.function(centres, random.uniform(-3, 3, shape))

    return st.builds(made, st.integers(0, 10_000))


numbers = st.floats(-10.0, 10.0)
kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def near(left, right, scale):
    return np.allclose(left, right, rtol=0, atol=1e-12 * (1.0 + scale))


def size(*several):
    """A bound of |f(z)| and of norms, so that rounding is measured by what was added up."""
    return sum(
        np.abs(f.coefficients).sum() ** 2 * np.abs(f.kernel(f.centres)).max() for f in several
    )


@kernels
class TestSpace:
    @given(data=st.data(), a=numbers, b=numbers)
    def test_evaluation_is_linear(self, kernel, data, a, b):
        f, g = data.draw(functions(kernel)), data.draw(functions(kernel))
        scale = (abs(a) + abs(b)) * (size(f, g) + np.abs(f(Z)).max() + np.abs(g(Z)).max())
        assert near((a * f + g * b)(Z), a * f(Z) + b * g(Z), scale)
        assert near((f - g)(Z), f(Z) - g(Z), scale + size(f, g))
        assert near((-f)(Z), -f(Z), scale + size(f))

    @given(data=st.data(), a=numbers)
    def test_inner_product_is_bilinear_and_symmetric(self, kernel, data, a):
        f, g, h = (data.draw(functions(kernel)) for _ in range(3))
        scale = (1 + abs(a)) * size(f, g, h)
        assert near((f + a * g).inner(h), f.inner(h) + a * g.inner(h), scale)
        assert near(f.inner(g), g.inner(f), scale)

    @given(data=st.data())
    def test_norms(self, kernel, data):
        f, g = data.draw(functions(kernel)), data.draw(functions(kernel))
        slack = 1e-6 * np.sqrt(size(f, g))
        assert abs(f.inner(g)) <= f.norm() * g.norm() + slack
        assert (f + g).norm() <= f.norm() + g.norm() + slack
        assert f.distance(g) == (f - g).norm()
        assert f.distance(f) <= slack
        assert near((2.0 * f).norm(), 2 * f.norm(), size(f))

    @given(data=st.data())
    def test_reproducing_property(self, kernel, data):
        f = data.draw(functions(kernel))
        inner = [f.inner(kernel.function(z[None, :], [1.0])) for z in Z]
        assert near(inner, f(Z), size(f) + np.abs(f(Z)).max())

    @given(data=st.data())
    def test_same_centres_are_not_repeated(self, kernel, data):
        f = data.draw(functions(kernel))
        assert len(f + 2.0 * f) == len(f)
        assert near((f + 2.0 * f)(Z), 3 * f(Z), size(f) + np.abs(f(Z)).max())


class TestProjection:
    X = markets.normal(12, WIDTH)

    @kernels
    @given(data=st.data())
    def test_is_an_orthogonal_projection(self, kernel, data):
        f = data.draw(functions(kernel))
        g = f.project(self.X)
        slack = 1e-5 * np.sqrt(size(f))
        assert g.norm() <= f.norm() + slack
        assert g.project(self.X).distance(g) <= slack
        residual = f - g
        assert abs(residual.inner(g)) <= slack * f.norm() + 1e-10
        assert np.abs(residual(self.X)).max() <= slack * np.sqrt(
            kernel.gram(self.X).diagonal().max()
        )
        assert np.isclose(f.norm() ** 2, g.norm() ** 2 + residual.norm() ** 2, rtol=1e-5)

    @kernels
    @given(data=st.data())
    def test_is_exact_where_the_old_centres_are_among_the_new(self, kernel, data):
        f = data.draw(functions(kernel))
        centres = np.concatenate([self.X[:3], f.centres[::-1]])
        assert f.project(centres).distance(f) <= 1e-5 * np.sqrt(size(f))

    def test_is_the_nearest(self):
        f = Gaussian().function(self.X[:6], np.ones(6))
        best = f.project(self.X[6:])
        for seed in range(20):
            move = 1e-3 * np.random.default_rng(seed).standard_normal(6)
            other = Gaussian().function(self.X[6:], best.coefficients + move)
            assert f.distance(other) >= f.distance(best)

    def test_repeated_centres_do_no_harm(self):
        f = Gaussian().function(self.X, np.ones(12))
        assert f.project(np.concatenate([self.X, self.X, self.X])).distance(f) < 1e-6

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_many_near_centres(self, dtype):
        """Where K is singular to working precision nothing is blown up."""
        X = markets.normal(60, 1, 0, dtype)
        f = Gaussian().function(X, markets.normal(60, 1, 1, dtype)[:, 0])
        g = f.project(np.concatenate([X[::-1], X[:5]]))
        # left out are eigenvalues below n·ε·λ, and with them at most √(n·ε·λ)·‖α‖ of f
        cut = len(g) * np.finfo(dtype).eps * np.linalg.eigvalsh(Gaussian()(g.centres))[-1]
        assert f.distance(g) <= 2 * np.sqrt(cut) * np.linalg.norm(f.coefficients)
        assert g.norm() <= (1 + 1e3 * np.finfo(dtype).eps) * f.norm()
        assert g.coefficients.dtype == dtype

    def test_several_outputs(self):
        f = Gaussian().function(self.X[:4], markets.normal(4, 3))
        g = f.project(self.X)
        assert np.allclose(g(self.X), f(self.X), atol=1e-6)
        assert g.outputs == 3


DIFFERENTIABLE = [
    *markets.ALL_EXPRESSIONS,
    *markets.ON_THEIR_POINTS,
    "cosine-series",
    "fourier-series",
    "spectral",
    "group-average",
]


def inside(centres):
    """Points between the centres: where the kernel is defined, and away from its kinks."""
    return np.random.default_rng(0).dirichlet(np.ones(len(centres)), 7) @ centres


def one_sided(kernel, centre, z, h):
    """The slopes of k(·, centre) at z to the right and to the left, in every column."""
    f = kernel.function([centre], [1.0])
    steps = h * np.eye(len(z))
    here = f([z])
    return (f(z + steps) - here) / h, (here - f(z - steps)) / h


KINKS = {  # kernel, centre, where
    "exponential": (Exponential(0.7), [1.0, 2.0], [1.0, 2.0]),
    "laplacian": (Laplacian(0.7), [1.0, 2.0], [1.0, 2.0]),
    "laplacian, one column": (Laplacian([0.7, 2.0]), [1.0, 2.0], [1.0, 2.5]),
    "laplacian of a map": (Laplacian().after([[1.0, 1.0]]), [1.0, 2.0], [2.0, 1.0]),
    "brownian": (Brownian(), [1.0, 2.0], [1.0, 2.0]),
    "brownian, one column": (Brownian(), [1.0, 2.0], [3.0, 2.0]),
    "arc-cosine": (ArcCosine(0), [1.0, 2.0], [2.0, 4.0]),
    "product": (Laplacian() * Linear(), [1.0, 2.0], [1.0, 2.5]),
    "group": (GroupAverage(Laplacian(), [np.eye(2), -np.eye(2)]), [1.0, 2.0], [-1.0, 2.5]),
    "bernoulli": (PeriodicBernoulli(1), [0.25], [0.25]),
    "bernoulli, a period away": (PeriodicBernoulli(1), [0.25], [3.25]),
    "periodic exponential": (PeriodicExponential(), [0.25, 0.5], [0.25, 0.75]),
    "arc-cosine at the origin": (ArcCosine(1), [1.0, 2.0], [0.0, 0.0]),
}


class TestGradient:
    """That it is what differences of f tend to is a contract of every kernel."""

    @pytest.mark.parametrize("name", DIFFERENTIABLE)
    def test_outputs_are_gradients_of_their_own(self, name):
        kernel, points = markets.KERNELS[name]
        centres = markets.normal(6, WIDTH) if points is None else np.asarray(points, float)[:6]
        f = kernel.function(centres, markets.normal(len(centres), 2))
        gradient = f.gradient(centres)
        assert gradient.shape == (len(centres), 2, centres.shape[1])
        assert np.isfinite(gradient).all()  # at the centres, where kinks are
        scale = np.abs(gradient).max() + 1
        assert np.allclose(gradient[:, 1], f.output(1).gradient(centres), atol=1e-12 * scale)

    def test_by_hand(self):
        f = Gaussian(2.0).function([[0.0, 0.0]], [3.0])
        z = np.array([[1.0, -2.0]])
        assert np.allclose(f.gradient(z), -3.0 * np.exp(-5 / 8) * z / 4)
        assert np.allclose(Linear().function([[1.0, 2.0]], [3.0]).gradient(z), [[3.0, 6.0]])

    @pytest.mark.parametrize("kernel", [Matern(0.5), Matern(0.5, [1.0, 3.0]), Matern(1.5)])
    def test_is_zero_at_a_centre(self, kernel):
        f = kernel.function([[1.0, 2.0]], [5.0])
        assert np.array_equal(f.gradient([[1.0, 2.0]]), [[0.0, 0.0]])

    @pytest.mark.parametrize("name", KINKS)
    def test_is_the_mean_of_both_sides_at_a_kink(self, name):
        kernel, centre, z = KINKS[name]
        right, left = one_sided(kernel, centre, np.array(z), h=1e-6)
        assert np.abs(right - left).max() > 0.01  # there is a kink
        gradient = kernel.function([centre], [1.0]).gradient([z])[0]
        assert np.allclose(gradient, (right + left) / 2, rtol=0, atol=1e-5)

    @pytest.mark.parametrize("smoothness", [0.1, 0.3, 1.0, 2.2, 20.0])
    def test_is_zero_at_the_top_of_any_matern_kernel(self, smoothness):
        f = Matern(smoothness).function([[1.0, 2.0]], [5.0])
        assert np.array_equal(f.gradient([[1.0, 2.0]]), [[0.0, 0.0]])

    def test_histograms_without_entries(self):
        f = ChiSquared().function([[0.0, 1.0]], [1.0])
        gradient = f.gradient([[0.0, 2.0]])
        # −(1 − 4/9)·e^{−1/3} in the second column: (x − y)²/(x + y) has slope 1 − 4y²/(x + y)²
        assert np.allclose(gradient, [[0.0, -(5 / 9) * np.exp(-1 / 3)]])

    def test_products_without_dividing(self):
        """Where a factor of the product is 0 the others still have slopes."""
        f = AllSubsets().function([[1.0, 2.0]], [1.0])
        assert np.allclose(f.gradient([[-1.0, 0.5]]), [[2.0, 0.0]])
        g = Brownian().function([[1.0, 2.0]], [1.0])
        assert np.allclose(g.gradient([[3.0, 0.0]]), [[0.0, 1.0]])

    def test_of_maps(self):
        A = markets.normal(3, WIDTH, 5)
        for k in (Gaussian(0.7), Cauchy(), ArcCosine(2), Gaussian([0.5, 1.0, 2.0])):
            f = k.after(A).function(Z, np.ones(7))
            inner = k.function(Z @ A.T, np.ones(7)).gradient(Z[:3] @ A.T)
            assert np.allclose(f.gradient(Z[:3]), inner @ A)

    def test_without_a_program(self):
        k = (0.5 * (Gaussian() * CosineSeries([1.0, 2.0]) + Linear().on(0))).exp()
        assert k.expression() is None
        f, h = k.function(Z, np.ones(7)), 1e-6
        for i, step in enumerate(h * np.eye(WIDTH)):
            slope = (f(Z + step) - f(Z - step)) / (2 * h)
            assert np.allclose(
                f.gradient(Z)[:, i], slope, rtol=1e-6, atol=1e-6 * np.abs(slope).max()
            )

    @pytest.mark.parametrize(
        "kernel",
        [Weighted(Gaussian(), markets.height), Composed(Gaussian(), markets.lifted)],
        ids=["weighted", "composed"],
    )
    def test_unknown_functions_have_no_known_derivative(self, kernel):
        with pytest.raises(ValueError, match="has no known derivative"):
            kernel.function(Z, np.ones(7)).gradient(Z)

    @pytest.mark.parametrize("kernel", [AllSubsets(), CosineSeries([1.0, 2.0])], ids=repr)
    def test_normalised_kernels_without_a_program(self, kernel):
        f, h = kernel.normalised().function(Z, np.ones(7)), 1e-6
        step = np.array([h, 0.0])
        slope = (f(Z + step) - f(Z - step)) / (2 * h)
        assert np.allclose(f.gradient(Z)[:, 0], slope, atol=1e-6)

    def test_a_kink_leaves_the_other_terms(self):
        k = Matern(0.5)
        both = k.function([[0.0], [2.0]], [1.0, 1.0]).gradient([[0.0]])
        assert np.allclose(both, k.function([[2.0]], [1.0]).gradient([[0.0]]))

    def test_several_outputs(self):
        f = Gaussian().function(Z, markets.normal(7, 3))
        gradient = f.gradient(Z[:4])
        assert gradient.shape == (4, 3, WIDTH)
        for i in range(3):
            assert np.allclose(gradient[:, i], f.output(i).gradient(Z[:4]))

    def test_columns_that_are_not_seen_have_slope_zero(self):
        f = Gaussian().on([1]).function(Z, np.ones(7))
        assert not f.gradient(Z)[:, 0].any()
        assert f.gradient(Z)[:, 1].any()

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("outputs", [1, 3, 20])
    @pytest.mark.parametrize("apart", [0.0, 1e3, 1e6])
    def test_digits_of_close_centres_beside_far_ones(self, apart, outputs, dtype):
        k, rng = Gaussian(0.5), np.random.default_rng(0)
        places = np.repeat([[0.0, 0.0], [1.0, -2.0]], 20, axis=0) * apart
        centres = (places + rng.normal(size=(40, 2))).astype(dtype)
        x = (places[::4] + rng.normal(size=(10, 2)) / 8).astype(dtype)
        alpha = rng.normal(size=(40, outputs)).astype(dtype)
        gaps = x.astype(np.longdouble)[:, None] - centres[None]
        slopes = -4 * np.exp(-2 * (gaps**2).sum(axis=-1))[:, :, None] * gaps
        exact = np.einsum("ijk,jt->itk", slopes, alpha)
        size = np.einsum("ijk,jt->itk", abs(slopes), abs(alpha)).max(axis=-1, keepdims=True)
        found = k.function(centres, alpha).gradient(x)
        assert (abs(found - exact) <= 8 * np.finfo(dtype).eps * size).all()

    def test_float32_stays_float32(self):
        f = Gaussian().function(Z.astype(np.float32), np.ones(7, np.float32))
        assert f.gradient(Z.astype(np.float32)).dtype == np.float32

    def test_wide_points(self):
        X = markets.normal(5, markets.WIDE)
        f = Gaussian(10.0).function(X, np.ones(5))
        z = markets.normal(1, markets.WIDE, 4)
        exact = (-(z - X) / 100 * Gaussian(10.0)(z, X).T).sum(axis=0)
        assert np.allclose(f.gradient(z)[0], exact)


class TestObject:
    f = Gaussian().function(Z, np.arange(7.0))

    def test_parts(self):
        assert self.f.centres is Z
        assert len(self.f) == 7
        assert self.f.outputs == 1
        assert np.array_equal(self.f.coefficients, np.arange(7.0))

    def test_repr(self):
        assert repr(self.f) == "RKHSFunction(Gaussian(lengthscale=1.0), 7 centres)"
        many = Gaussian().function(Z, np.ones((7, 2)))
        assert repr(many).endswith("7 centres with 2 outputs)")

    def test_integers_become_floats(self):
        assert Gaussian().function([[0], [1]], [1, 2]).coefficients.dtype == np.float64

    def test_several_outputs(self):
        many = Gaussian().function(Z, markets.normal(7, 3))
        assert many(Z[:2]).shape == (2, 3)
        assert np.allclose(many.output(1)(Z), many(Z)[:, 1])
        inner = sum(many.output(i).inner(many.output(i)) for i in range(3))
        assert np.isclose(many.norm() ** 2, inner)

    def test_numbers_of_numpy(self):
        assert np.allclose((np.float64(2.0) * self.f)(Z), 2 * self.f(Z))
        assert np.allclose((self.f / 4)(Z), self.f(Z) / 4)

    @pytest.mark.parametrize("other", ["text", None, [1.0, 2.0]])
    def test_other_operands_are_refused(self, other):
        for combine in (
            lambda: self.f * other,
            lambda: self.f + other,
            lambda: self.f - other,
        ):
            with pytest.raises(TypeError):
                combine()

    def test_pickling(self):
        twin = pickle.loads(pickle.dumps(self.f))
        assert np.array_equal(twin(Z), self.f(Z))
        assert twin.kernel == self.f.kernel

    def test_float32_stays_float32_and_norms_are_exact(self):
        single = Gaussian().function(Z.astype(np.float32), np.ones(7, np.float32))
        assert single(Z.astype(np.float32)).dtype == np.float32
        double = Gaussian().function(Z.astype(np.float32).astype(np.float64), np.ones(7))
        assert np.isclose(single.norm(), double.norm(), rtol=1e-14)

    def test_sparse_centres(self):
        X = markets.sparse(6)
        f, g = Gaussian().function(X, np.ones(6)), Gaussian().function(X[:2], np.ones(2))
        dense = Gaussian().function(X.toarray(), np.ones(6))
        assert np.isclose(f.norm(), dense.norm())
        assert np.allclose((f + g)(X), f(X) + g(X))
        assert np.isclose(f.inner(dense), f.norm() ** 2)

    def test_sparse_and_dense_centres(self):
        X = markets.sparse(6)
        f, g = Gaussian().function(X, np.ones(6)), Gaussian().function(X.toarray(), np.ones(6))
        assert np.allclose((f + g)(X), 2 * f(X))
        assert np.allclose((g + f)(X), 2 * f(X))

    def test_words(self):
        k = markets.Bigrams()
        f = k.function(["kernel", "learn"], [1.0, -1.0])
        assert f(["kern"])[0] == 3.0 - 1.0
        assert (f + f.project(markets.WORDS)).centres[:2] == ["kernel", "learn"]
        assert np.isclose(f.norm() ** 2, 5 + 4 - 2 * k("kernel", "learn"))

    def test_row_numbers(self):
        _, points = markets.KERNELS["precomputed"]
        k = markets.KERNELS["precomputed"][0]
        f = k.function(points, np.ones(12))
        assert np.allclose(f([3]), markets.MATRIX[3].sum())
        assert np.isclose(f.norm() ** 2, markets.MATRIX.sum())
        assert np.allclose(
            (f + k.function([0], [1.0]))([3]), markets.MATRIX[3].sum() + markets.MATRIX[3, 0]
        )
