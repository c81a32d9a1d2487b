"""Kernels against what defines them: features, series, integrals, other libraries."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import sklearn.metrics.pairwise as peers
from scipy.special import kv

import markets
from mercer.kernels import (
    AllSubsets,
    ArcCosine,
    BlockKernel,
    Brownian,
    Cauchy,
    ChiSquared,
    Composed,
    Constant,
    CosineSeries,
    Exponential,
    FourierSeries,
    Gaussian,
    GroupAverage,
    Laplacian,
    Linear,
    Matern,
    PairKernel,
    PeriodicBernoulli,
    PeriodicExponential,
    Polynomial,
    PolynomialOf,
    RationalQuadratic,
    Sigmoid,
    Spectral,
    Spline,
    Weighted,
    direct_sum,
    tensor_product,
)

EPS = np.finfo(np.float64).eps
X, Y = markets.normal(7, 3), markets.normal(5, 3, 1)


def near(left, right, size=1.0, units=64):
    """Equal to so many units in the last place of numbers as large as `size`."""
    left, right = np.asarray(left), np.asarray(right)
    return left.shape == right.shape and bool((np.abs(left - right) <= units * EPS * size).all())


def line(values):
    return np.asarray(values, float).reshape(-1, 1)


# ---- features ------------------------------------------------------------------------------------


def monomials(X, degree):
    """√(multinomial) x^α for all |α| = degree: ⟨φ(x), φ(y)⟩ = ⟨x, y⟩^degree."""
    columns = []
    for powers in itertools.product(range(degree + 1), repeat=X.shape[1]):
        if sum(powers) == degree:
            count = math.factorial(degree) / math.prod(map(math.factorial, powers))
            columns.append(math.sqrt(count) * np.prod(X**powers, axis=1))
    return np.stack(columns, axis=1)


def subsets(X):
    """All products over subsets of columns."""
    features = np.ones((len(X), 1))
    for column in X.T:
        features = np.concatenate([features, features * column[:, None]], axis=1)
    return features


class TestFeatures:
    @pytest.mark.parametrize("degree", [1, 2, 3, 5])
    @pytest.mark.parametrize("width", [1, 2, 3])
    def test_homogeneous_polynomials(self, width, degree):
        a, b = monomials(X[:, :width], degree), monomials(Y[:, :width], degree)
        assert a.shape[1] == math.comb(width + degree - 1, degree)
        value = Polynomial(degree, bias=0.0)(X[:, :width], Y[:, :width])
        assert near(value, a @ b.T, np.abs(a) @ np.abs(b).T)

    @pytest.mark.parametrize("degree", [1, 2, 3, 5])
    @pytest.mark.parametrize("width", [1, 2, 3])
    def test_polynomials_with_a_bias(self, width, degree):
        a, b = (
            monomials(np.c_[Z[:, :width], np.full(len(Z), math.sqrt(0.7))], degree) for Z in (X, Y)
        )
        assert a.shape[1] == math.comb(width + degree, degree)
        value = Polynomial(degree, bias=0.7)(X[:, :width], Y[:, :width])
        assert near(value, a @ b.T, np.abs(a) @ np.abs(b).T)

    @pytest.mark.parametrize("width", range(1, 11))
    def test_all_subsets(self, width):
        a, b = (subsets(markets.normal(6, width, seed)) for seed in (0, 1))
        assert a.shape[1] == 2**width
        value = AllSubsets()(markets.normal(6, width), markets.normal(6, width, 1))
        assert near(value, a @ b.T, np.abs(a) @ np.abs(b).T)

    def test_cosines(self):
        value = CosineSeries([0.5, 2.0, 0.0, 1.0])(X[:, :1], Y[:, :1])
        t = X[:, :1] - Y[:, :1].T
        assert near(value, 0.5 + 2 * np.cos(t) + np.cos(3 * t), 8)

    def test_products_of_cosines(self):
        k = CosineSeries([0.5, 2.0])
        factors = [k(X[:, [i]], Y[:, [i]]) for i in range(3)]
        assert near(k(X, Y), np.prod(factors, axis=0), 40)

    def test_fourier_weights(self):
        value = FourierSeries([2.0, 4.0, 5.0], period=3.0)(X[:, :1], Y[:, :1])
        t = 2 * np.pi * (X[:, :1] - Y[:, :1].T) / 3
        assert near(value, 0.5 + 2 * np.cos(t) / 4 + 2 * np.cos(2 * t) / 5, 8)


# ---- series --------------------------------------------------------------------------------------

T = np.concatenate([np.linspace(0.03, 0.97, 23), [-0.4, 1.31, -7.2, 12.75]])  # no whole numbers


def cosine_sum(weights, t=T):
    """Σ_{m≥1} 2 w_m cos(2πmt)."""
    m = np.arange(1, len(weights) + 1)
    return np.array([2 * np.sum(weights * np.cos(2 * np.pi * m * (s % 1))) for s in t])


BERNOULLI = np.zeros(17, np.longdouble)
BERNOULLI[:2], BERNOULLI[2::2] = (1, -0.5), np.array([1, -1, 1, -1, 5, -691, 7, -3617], object)
BERNOULLI[2::2] /= [6, 30, 42, 30, 66, 2730, 6, 510]


class TestSeries:
    """The part of a series that is left out is bounded by hand, and added to the tolerance."""

    @pytest.mark.parametrize(("order", "terms"), [(1, 200_000), (2, 20_000), (3, 2000), (4, 500)])
    def test_bernoulli(self, order, terms):
        m = np.arange(1.0, terms + 1)
        series = 1 + cosine_sum(m ** (-2.0 * order))
        tail = 2 * terms ** (1 - 2.0 * order) / (2 * order - 1)
        if order == 1:  # alternates: summation by parts
            tail = 2 * terms**-2.0 / np.abs(np.sin(np.pi * T))
        value = PeriodicBernoulli(order)(line([0.0]), line(T))[0]
        assert (np.abs(value - series) <= tail + 1000 * EPS).all()

    @pytest.mark.parametrize("order", [1, 2, 3, 4, 5, 6, 7, 8])
    def test_bernoulli_at_zero_is_zeta(self, order):
        zeta = {1: 1 / 6, 2: 1 / 90, 3: 1 / 945, 4: 1 / 9450}
        right = zeta.get(order, 0.0) * np.pi ** (2 * order)
        if order not in zeta:
            right = np.sum(np.arange(1.0, 2000) ** (-2 * order))
        assert near(PeriodicBernoulli(order)([3.0], [3.0]), 1 + 2 * right, 5)

    @pytest.mark.parametrize(
        ("order", "dtype"),  # coefficients are the same in both precisions
        [(order, np.float64) for order in range(1, 9)] + [(s, np.float32) for s in (1, 3, 8)],
    )
    def test_bernoulli_over_columns(self, order, dtype):
        """Products of many columns, far from the origin, against B_{2s}(u) in powers of u."""
        n = 2 * order
        polynomial = [math.comb(n, k) * BERNOULLI[k] for k in range(n + 1)]
        scale = (-1) ** (order - 1) * (2 * np.pi) ** np.longdouble(n) / math.factorial(n)
        rng = np.random.default_rng(order)
        for width, period, far in ((1, 0.5, 1e3), (3, 2.0, 0.0), (17, 1.0, 5.0), (40, 4.0, 50.0)):
            x, y = ((far + 3 * rng.random((n, width))).astype(dtype) for n in (9, 40))
            u = (x[:, None].astype(np.longdouble) - y[None]) / period % 1
            factors = 1 + scale * np.polyval(polynomial, np.minimum(u, 1 - u))
            exact = factors.prod(axis=-1)
            room = np.maximum(1.0, np.abs(factors)).prod(axis=-1)
            value = PeriodicBernoulli(order, period)(x, y)
            assert value.dtype == dtype
            assert (np.abs(value - exact) <= 32 * width * np.finfo(dtype).eps * room).all()

    def test_bernoulli_loses_few_digits(self):
        """In powers of u − ½ it lost three rounding units of the largest value, not two."""
        rng = np.random.default_rng(0)
        x, y = (rng.random((1500, 1)).astype(np.float32) for _ in range(2))
        exact = PeriodicBernoulli(6)(x.astype(float), y.astype(float))
        off = np.abs(PeriodicBernoulli(6)(x, y) - exact).max()
        assert off <= 2.75 * np.finfo(np.float32).eps * exact.max()

    @pytest.mark.parametrize("alpha", [0.3, 1.0, 2.0, 10.0])
    def test_periodic_exponential(self, alpha):
        """1/(1 + a) = 1/a − 1/(a(1 + a)): the first part is a Bernoulli polynomial."""
        terms = 20_000
        square = alpha**2 * np.arange(1.0, terms + 1) ** 2
        u = T % 1
        series = 1 + (2 * np.pi**2 / alpha**2) * (u**2 - u + 1 / 6)
        series = series - cosine_sum(1 / (square * (1 + square)))
        tail = 2 * terms**-3.0 / (3 * alpha**4)
        value = PeriodicExponential(alpha)(line([0.0]), line(T))[0]
        assert (np.abs(value - series) <= tail + 2000 * EPS * (1 + alpha**-2)).all()

    @pytest.mark.parametrize(
        "kernel", [PeriodicBernoulli(2, 0.5), PeriodicExponential(2.0, period=0.5)]
    )
    def test_period(self, kernel):
        x, y = line([0.0, 0.125, 0.375]), line([0.25, 0.0])
        assert np.array_equal(kernel(x + 0.5, y), kernel(x, y))
        assert np.array_equal(kernel(x, y), kernel.with_(period=1.0)(2 * x, 2 * y))
        assert not np.allclose(kernel(x + 0.25, y), kernel(x, y))

    def test_periodic_kernels_multiply_over_columns(self):
        for k in (PeriodicBernoulli(1), PeriodicExponential(0.5)):
            factors = np.prod([k(X[:, [i]], Y[:, [i]]) for i in range(3)], axis=0)
            assert near(k(X, Y), factors, np.abs(factors).max())


# ---- Bessel functions ----------------------------------------------------------------------------

wide = np.longdouble


def matern(smoothness, distance):
    """g_ν(r) = 2^{1−ν}/Γ(ν) r^ν K_ν(r), in extended precision, of the r that K_ν is given.

    Where r^ν is steep, K_{ν+1} = K_{ν−1} + 2ν/r K_ν, which is g_{ν+1} = g_ν + r²/(4ν(ν−1)) g_{ν−1}.
    """
    r = (np.sqrt(2 * wide(smoothness)) * distance.astype(wide)).astype(np.float64).astype(wide)
    steps = max(0, int(smoothness) - 7)
    nu = wide(smoothness) - steps
    value = direct_matern(nu, r)
    below = direct_matern(nu - 1, r) if steps else None
    for _ in range(steps):
        below, value = value, value + r * r / (4 * nu * (nu - 1)) * below
        nu += 1
    return value


def direct_matern(nu, r):
    bessel = kv(float(nu), r.astype(np.float64)).astype(wide)
    return wide(2) ** (1 - nu) / wide(math.gamma(float(nu))) * r**nu * bessel


class TestMatern:
    """Values are at most 1: 16 units of 1 are rounding, in the function and in r."""

    @staticmethod
    def gap(smoothness, dtype, lowest):
        distance = np.exp(np.linspace(np.log(lowest), np.log(10), 600)).astype(dtype)
        value = Matern(smoothness)(np.zeros((1, 1), dtype), distance[:, None])[0]
        return np.abs(value - matern(smoothness, distance)) / np.finfo(dtype).eps

    @pytest.mark.parametrize("smoothness", [0.1, 0.3, 1.0, 2.2, 5.5, 7.3, 20.0, 50.0])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_any_smoothness(self, smoothness, dtype):
        assert self.gap(smoothness, dtype, 1e-10 if smoothness < 50 else 1e-5).max() <= 16
        at_zero = Matern(smoothness)(np.full((1, 1), 0.3, dtype))[0, 0]
        assert abs(at_zero - 1) <= 16 * np.finfo(dtype).eps

    @pytest.mark.parametrize("smoothness", [0.1, 0.3, 1.0, 2.2, 5.5, 7.3, 20.0, 50.0])
    def test_any_smoothness_to_twelve_digits(self, smoothness):
        assert self.gap(smoothness, np.float64, 1e-10 if smoothness < 50 else 1e-5).max() <= 2000

    @pytest.mark.parametrize("smoothness", [0.1, 0.3, 1.0, 2.2, 7.3, 20.0, 50.0])
    def test_near_zero(self, smoothness):
        """Where r is small, 1 − k is Γ(1−ν)/Γ(1+ν) (r/2)^{2ν}, or r²/(4(ν − 1))."""
        for distance in (0.0, 1e-300, 1e-30, 1e-16):
            r = math.sqrt(2 * smoothness) * distance
            fall = 0.0
            if smoothness < 1:
                fall = math.gamma(1 - smoothness) / math.gamma(1 + smoothness)
                fall *= (r / 2) ** (2 * smoothness)
            value = Matern(smoothness)([0.0], [distance])
            assert abs(value - (1 - fall)) <= 2000 * EPS + fall**2 + 2 * r

    @pytest.mark.parametrize("smoothness", [0.5, 1.5, 2.5, 3.5, 4.5])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_half_integers(self, smoothness, dtype):
        assert self.gap(smoothness, dtype, 1e-10).max() <= 16

    def test_formulas(self):
        r = np.abs(X[:, :1] - Y[:, :1].T) / 0.7
        assert near(Matern(0.5, 0.7)(X[:, :1], Y[:, :1]), np.exp(-r))
        assert near(Exponential(0.7)(X[:, :1], Y[:, :1]), np.exp(-r))
        r = r * math.sqrt(7)
        value = (1 + r + 2 * r**2 / 5 + r**3 / 15) * np.exp(-r)
        assert near(Matern(3.5, 0.7)(X[:, :1], Y[:, :1]), value)

    def test_smoothness_is_continuous(self):
        """No jump where a closed form takes over from the table."""
        for nu in (0.5, 1.5, 2.5, 4.5):
            beside = 0.5 * (Matern(nu - 1e-5)(X, Y) + Matern(nu + 1e-5)(X, Y))
            assert np.abs(beside - Matern(nu)(X, Y)).max() <= 1e-8

    def test_tends_to_the_gaussian(self):
        gaps = [np.abs(Matern(nu)(X, Y) - Gaussian()(X, Y)).max() for nu in (5.0, 10.0, 20.0, 40.0)]
        ratios = np.array(gaps[:-1]) / gaps[1:]
        assert gaps[-1] < 0.01
        assert ((ratios > 1.8) & (ratios < 2.3)).all()  # the gap is of order 1/ν


class TestRationalQuadratic:
    def test_formula(self):
        squares = ((X[:, None] - Y) ** 2).sum(axis=-1)
        for alpha in (0.3, 1.0, 4.0):
            value = RationalQuadratic(alpha, lengthscale=0.8)(X, Y)
            assert near(value, (1 + squares / (2 * alpha * 0.64)) ** -alpha)

    @pytest.mark.parametrize("alpha", [1e2, 1e4, 1e6])
    def test_tends_to_the_gaussian(self, alpha):
        """k = e^{−s/2}(1 + s²/(8α) + O(1/α²)); 1 + s/(2α) is rounded, which costs α units."""
        squares = ((X[:, None] - Y) ** 2).sum(axis=-1)
        gaussian = np.exp(-squares / 2)
        gap = RationalQuadratic(alpha)(X, Y) - gaussian * (1 + squares**2 / (8 * alpha))
        assert (np.abs(gap) <= gaussian * squares**4 / alpha**2 + 2 * alpha * EPS).all()

    @pytest.mark.parametrize(("dtype", "alpha"), [(np.float32, 1e5), (np.float64, 1e12)])
    def test_large_mixtures_keep_their_digits(self, dtype, alpha):
        x, y = X.astype(dtype), Y.astype(dtype)
        value = RationalQuadratic(alpha)(x, y)
        squares = ((x.astype(float)[:, None] - y.astype(float)) ** 2).sum(axis=-1)
        right = np.exp(-alpha * np.log1p(squares / (2 * alpha)))
        assert np.abs(value - right).max() <= 64 * np.finfo(dtype).eps


class TestCauchy:
    def test_formula(self):
        gaps = (X[:, None] - Y) / [0.5, 1.0, 2.0]
        assert near(Cauchy([0.5, 1.0, 2.0])(X, Y), np.prod(1 / (1 + gaps**2), axis=-1))

    def test_is_rational_quadratic_on_the_line(self):
        k = RationalQuadratic(1.0, lengthscale=0.7 / math.sqrt(2))
        assert near(Cauchy(0.7)(X[:, :1], Y[:, :1]), k(X[:, :1], Y[:, :1]))


# ---- integrals -----------------------------------------------------------------------------------


def angle(x, y):
    """Kahan's formula, right for small angles and for those near π."""
    x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
    return 2 * math.atan2(np.linalg.norm(x - y), np.linalg.norm(x + y))


def arc_cosine(order, x, y):
    """2 E[Θ(⟨w,x⟩)Θ(⟨w,y⟩)]: the radius by hand, E[ρ^{2n}] = 2^n n!, the angle by quadrature."""
    theta = angle(x, y)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    half = (np.pi - theta) / 2  # of the arc on which both are active
    phi = theta / 2 + half * nodes
    integral = half * np.sum(weights * (np.cos(phi) * np.cos(phi - theta)) ** order)
    radius = 2.0**order * math.factorial(order) / (2 * np.pi)
    return 2 * radius * (np.linalg.norm(x) * np.linalg.norm(y)) ** order * integral


class TestArcCosine:
    @pytest.mark.parametrize("order", [0, 1, 2])
    def test_expectation(self, order):
        right = np.array([[arc_cosine(order, x, y) for y in Y] for x in X])
        assert near(ArcCosine(order)(X, Y), right, np.abs(right).max())

    @pytest.mark.parametrize("order", [0, 1, 2])
    def test_monte_carlo(self, order):
        w = np.random.default_rng(0).standard_normal((200_000, 3))
        a, b = ((Z @ w.T > 0) * np.abs(Z @ w.T) ** order for Z in (X, Y))
        draws = 2 * a[:, None] * b
        error = draws.std(axis=-1) / math.sqrt(len(w))
        assert (np.abs(draws.mean(axis=-1) - ArcCosine(order)(X, Y)) <= 5 * error).all()

    @pytest.mark.parametrize("factor", [1.0, 3.0, 1e-5, 1e5])
    def test_the_same_direction(self, factor):
        assert np.abs(np.diagonal(ArcCosine(0)(X, factor * X)) - 1).max() <= 1e-12
        lengths = (X**2).sum(axis=1)
        for order, own in ((1, lengths), (2, 3 * lengths**2)):
            value = np.diagonal(ArcCosine(order)(X, factor * X))
            assert near(value, factor**order * own, factor**order * own)

    @pytest.mark.parametrize("order", [0, 1, 2])
    @pytest.mark.parametrize("factor", [-1.0, -3.0, -1e5])
    def test_opposite_directions(self, order, factor):
        X = markets.normal(60, 3)
        size = (abs(factor) * (X**2).sum(axis=1)) ** order
        assert (np.abs(np.diagonal(ArcCosine(order)(X, factor * X))) <= 1e-12 * size).all()

    def test_ramps_of_uniform_directions(self):
        """E (v·x)₊(v·y)₊ = ‖x‖‖y‖ J₁(θ)/(2πd) for v uniform on the sphere of R^d, here d = 2."""
        angles = np.arange(200_000) * (2 * np.pi / 200_000)
        directions = np.stack([np.cos(angles), np.sin(angles)])
        X = np.array([[1.0, 0.0], [0.3, 2.0], [-1.0, 0.2]])
        ramps = np.maximum(X @ directions, 0.0)
        assert np.allclose(ramps @ ramps.T / 200_000, ArcCosine(1)(X) / 4, rtol=0, atol=1e-9)

    def test_nearly_opposite_directions(self):
        turned = -X + 1e-6 * markets.normal(7, 3, 5)
        right = [arc_cosine(0, x, y) for x, y in zip(X, turned, strict=True)]
        assert np.abs(np.diagonal(ArcCosine(0)(X, turned)) - right).max() <= 1e-12

    @pytest.mark.parametrize("share", [0.0, 0.01, 1.0])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_half_turns_among_others(self, dtype, share):
        """Whether one sum gives both lengths is settled block by block; digits stay in all."""
        X, Y = markets.normal(24, 5).astype(dtype), markets.normal(800, 5, 3).astype(dtype)
        X[3], Y[5] = 0.0, 0.0
        opposite = np.arange(len(Y)) < share * len(Y)
        Y[opposite] = -X[np.arange(opposite.sum()) % len(X)] * dtype(2.0)
        Y[opposite] *= 1 + 1e-3 * markets.normal(opposite.sum(), 5, 7).astype(dtype)
        right = ArcCosine(0)(X.astype(float), Y.astype(float))
        exact = [[arc_cosine(0, x, y) for y in Y[:3].astype(float)] for x in X[:3].astype(float)]
        assert np.abs(right[:3, :3] - exact).max() <= 1e-12
        assert np.abs(right[3] - 0.5).max() <= 1e-15  # the origin
        error = np.abs(ArcCosine(0).gram(X, Y).dense() - right).max()
        assert error <= 4 * np.finfo(dtype).eps

    def test_nearly_the_same_direction(self):
        turned = X + 1e-9 * markets.normal(7, 3, 5)
        right = [arc_cosine(0, x, y) for x, y in zip(X, turned, strict=True)]
        assert np.abs(np.diagonal(ArcCosine(0)(X, turned)) - right).max() <= 1e-14

    def test_right_angles(self):
        for order, right in ((0, 0.5), (1, 6 / np.pi), (2, 36.0 / 2)):
            value = ArcCosine(order)([2.0, 0.0], [0.0, 3.0])
            assert near(value, right, right)

    def test_the_origin(self):
        for order in (1, 2):
            assert ArcCosine(order)([0.0, 0.0], [1.0, 2.0]) == 0.0

    def test_the_origin_is_at_a_right_angle_to_all(self):
        assert near(ArcCosine(0)([0.0, 0.0], [1.0, 2.0]), 0.5)


class TestPaths:
    """Kernels on the half-line as integrals ∫ g_x(t) g_y(t) dt."""

    x, y = np.array([0.0, 0.2, 0.5, 1.0, 3.0]), np.array([0.1, 0.5, 2.0])

    def test_brownian(self):
        right = np.minimum.outer(self.x, self.y)
        assert np.array_equal(Brownian()(line(self.x), line(self.y)), right)

    def test_brownian_increments_are_independent(self):
        K = Brownian()(line(self.x))
        increments = np.diff(np.eye(5), axis=0)
        assert near(increments @ K @ increments.T, np.diag(np.diff(self.x)), 3)

    def test_spline(self):
        """1 + xy + ∫ (x − t)₊ (y − t)₊ dt, a polynomial on [0, min]."""
        nodes, weights = np.polynomial.legendre.leggauss(4)
        value = Spline()(line(self.x), line(self.y))
        for i, a in enumerate(self.x):
            for j, b in enumerate(self.y):
                t = min(a, b) * (nodes + 1) / 2
                integral = min(a, b) / 2 * np.sum(weights * (a - t) * (b - t))
                assert near(value[i, j], 1 + a * b + integral, 1 + a * b + integral)

    @pytest.mark.parametrize("kernel", [Brownian(), Spline()])
    def test_columns_multiply(self, kernel):
        x, y = np.abs(X), np.abs(Y)
        factors = np.prod([kernel(x[:, [i]], y[:, [i]]) for i in range(3)], axis=0)
        assert near(kernel(x, y), factors, factors.max())


class TestSpectral:
    def test_gaussian(self):
        k = Spectral(markets.normal_density, limit=12.0)
        assert near(k(X, Y), Gaussian()(X, Y), units=1000)

    def test_laplace_frequencies(self):
        """The rule on ½e^{−|ω|} has a closed form, which tends to 1/(1 + t²) as h²."""
        h, limit = 0.02, 40.0
        k = Spectral(lambda w: 0.5 * np.exp(-w), limit=limit, nodes=int(limit / h))
        t = X[:, :1] - Y[:, :1].T
        rule = 0.5 * h * np.sinh(h) / (np.cosh(h) - np.cos(h * t))
        value = k(X[:, :1], Y[:, :1])
        assert np.abs(value - rule).max() <= 2 * math.exp(-limit) + 1e-12
        assert np.abs(value - Cauchy()(X[:, :1], Y[:, :1])).max() <= h**2 / 6

    def test_columns_multiply(self):
        k = Spectral(markets.normal_density, limit=12.0, nodes=64)
        factors = np.prod([k(X[:, [i]], Y[:, [i]]) for i in range(3)], axis=0)
        assert near(k(X, Y), factors)


# ---- other libraries -----------------------------------------------------------------------------


class TestPeers:
    def test_laplacian(self):
        assert near(Laplacian(0.5)(X, Y), peers.laplacian_kernel(X, Y, gamma=2.0))

    def test_laplacian_of_each_column(self):
        gaps = np.abs(X[:, None] - Y) / [0.5, 1.0, 2.0]
        assert near(Laplacian([0.5, 1.0, 2.0])(X, Y), np.exp(-gaps.sum(axis=-1)))

    @pytest.mark.parametrize("points", [markets.HISTOGRAMS, markets.INTEGERS.astype(float)])
    def test_chi_squared(self, points):
        right = peers.chi2_kernel(points, points[::-1], gamma=0.4)
        assert near(ChiSquared(gamma=0.4)(points, points[::-1]), right)

    def test_chi_squared_of_nothing(self):
        assert ChiSquared()([0.0, 0.0], [0.0, 0.0]) == 1.0

    def test_sigmoid(self):
        right = peers.sigmoid_kernel(X, Y, gamma=0.3, coef0=-0.5)
        assert near(Sigmoid(0.3, -0.5)(X, Y), right)

    def test_polynomial(self):
        right = peers.polynomial_kernel(X, Y, degree=3, gamma=0.5, coef0=2.0)
        assert near(0.5**3 * Polynomial(3, 4.0)(X, Y), right, np.abs(right).max())

    def test_cosine(self):
        assert near(Linear().normalised()(X, Y), peers.cosine_similarity(X, Y))


# ---- algebra -------------------------------------------------------------------------------------

ORTHANTS = [np.diag(signs) for signs in itertools.product([1.0, -1.0], repeat=3)]
PERMUTATIONS = [np.eye(3)[list(p)] for p in itertools.permutations(range(3))]


class TestGroupAverage:
    @pytest.mark.parametrize("group", [ORTHANTS, PERMUTATIONS], ids=["signs", "permutations"])
    @pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Linear(1.0)])
    def test_invariance(self, group, kernel):
        k = GroupAverage(kernel, group)
        value, size = k(X, Y), np.abs(kernel(X, Y)).max() + 4
        for g in group:
            assert near(k(X @ g.T, Y), value, size)
            assert near(k(X, Y @ g.T), value, size)
        assert not np.allclose(kernel(X @ group[1].T, Y), kernel(X, Y))

    def test_is_the_average(self):
        k = GroupAverage(Gaussian(), ORTHANTS)
        right = np.mean([Gaussian()(X @ g.T, Y @ h.T) for g in ORTHANTS for h in ORTHANTS], axis=0)
        assert near(k(X, Y), right)

    def test_functions_are_invariant(self):
        f = GroupAverage(Matern(1.5), PERMUTATIONS).function(X, np.arange(7.0))
        assert near(f(Y[:, [2, 0, 1]]), f(Y), 50)

    def test_width(self):
        with pytest.raises(ValueError, match="moves points with 3 columns; the points have 2"):
            GroupAverage(Gaussian(), ORTHANTS)(X[:, :2])

    def test_no_group(self):
        with pytest.raises(ValueError, match="a list of square matrices of one size"):
            GroupAverage(Gaussian(), [np.eye(2), np.ones((2, 3))])


class TestNormalised:
    KERNELS = (
        Polynomial(3, 0.5),
        2.0 * Gaussian() + Linear(),
        AllSubsets(),
        ArcCosine(1),
        (0.3 * Linear()).exp(),
        BlockKernel(markets.laplace_block),
    )

    @pytest.mark.parametrize("kernel", KERNELS, ids=repr)
    def test_formula(self, kernel):
        own = [np.sqrt(np.diagonal(kernel(Z))) for Z in (X, Y)]
        right = kernel(X, Y) / np.outer(*own)
        assert near(kernel.normalised()(X, Y), right, np.abs(right).max() + 1)
        assert near(np.diagonal(kernel.normalised()(X)), np.ones(7))
        assert near(kernel.normalised().gram(X).diagonal(), np.ones(7))

    def test_zero(self):
        k = Linear().normalised()
        assert k([0.0, 0.0], [1.0, 2.0]) == 0.0
        assert k.gram([[0.0, 0.0], [1.0, 0.0]]).diagonal().tolist() == [0.0, 1.0]


class TestFunctionsOfKernels:
    @pytest.mark.parametrize(
        "kernel", [Linear(), Gaussian(0.5), Laplacian(), BlockKernel(markets.laplace_block)]
    )
    def test_formulas(self, kernel):
        K = kernel(X, Y)
        size = np.exp(np.abs(K)).max()
        assert near(kernel.exp()(X, Y), np.exp(K), size)
        polynomial = 0.5 + 2 * K**2 + 3 * K**3
        k = PolynomialOf(kernel, [0.5, 0.0, 2.0, 3.0])
        assert near(k(X, Y), polynomial, np.abs(polynomial).max())
        assert near(k.gram(X).diagonal(), np.diagonal(k(X)), k(X).max())

    def test_constant_polynomial(self):
        assert near(PolynomialOf(Linear(), [2.0])(X, Y), np.full((7, 5), 2.0))

    def test_exp_is_the_series(self):
        terms = [1.0 / math.factorial(n) for n in range(30)]
        assert near(PolynomialOf(Gaussian(), terms)(X, Y), Gaussian().exp()(X, Y), 3)

    def test_gaussian_from_an_exponential(self):
        """exp(⟨x,y⟩) normalised is the Gaussian."""
        assert near(Linear().exp().normalised()(X, Y), Gaussian()(X, Y), units=200)


A = markets.normal(2, 3, 7)


class TestInputMaps:
    def test_slices(self):
        for k in (Gaussian(0.7), Laplacian(), Polynomial(2), ArcCosine(1)):
            rows = np.eye(3)[[2, 0]]
            assert near(k.after(rows)(X, Y), k.on([2, 0])(X, Y), 64)

    def test_lengthscales(self):
        for of in (Gaussian, Exponential, Laplacian, Cauchy):
            map_ = np.diag([2.0, 0.5, 4.0])
            assert near(of().after(map_)(X, Y), of([0.5, 2.0, 0.25])(X, Y))

    @pytest.mark.parametrize(
        "kernel",
        [
            Gaussian([0.5, 2.0]),
            Matern(2.5),
            AllSubsets(),
            ArcCosine(0),
            ArcCosine(2),
            Laplacian([0.5, 2.0]),
            Linear().on([1]),
            BlockKernel(markets.laplace_block),
            Gaussian() * Linear().on(0),
        ],
        ids=repr,
    )
    def test_points_are_mapped(self, kernel):
        right = kernel(X @ A.T, Y @ A.T)
        assert near(kernel.after(A)(X, Y), right, np.abs(right).max() + 1, units=200)
        assert near(
            kernel.after(A).gram(X).diagonal(),
            kernel.gram(X @ A.T).diagonal(),
            np.abs(kernel(X @ A.T)).max() + 1,
        )

    def test_maps_of_maps(self):
        B = markets.normal(4, 2, 8)
        value = Gaussian().after(B).after(A)(X, Y)
        assert near(value, Gaussian().after(B @ A)(X, Y), units=500)

    def test_maps_of_columns(self):
        value = Gaussian().after(A).on([2, 0, 1])(X, Y)
        assert near(value, Gaussian()(X[:, [2, 0, 1]] @ A.T, Y[:, [2, 0, 1]] @ A.T), units=200)

    def test_sparse_points(self):
        S = markets.sparse(6, 3, density=0.5)
        assert near(Gaussian().after(A)(S), Gaussian().after(A)(S.toarray()), units=200)

    def test_a_map_for_other_points(self):
        with pytest.raises(ValueError, match="a linear map of 3 columns was given for points with"):
            Gaussian().after(A)(X[:, :2])
        with pytest.raises(ValueError, match="a linear map is a matrix"):
            Gaussian().after(np.ones(3))
        with pytest.raises(ValueError, match="needs finite entries"):
            Gaussian().after(np.full((2, 2), np.nan))

    def test_functions(self):
        for k in (Gaussian(), Laplacian(), AllSubsets()):
            right = k(markets.lifted(X), markets.lifted(Y))
            assert near(Composed(k, markets.lifted)(X, Y), right, np.abs(right).max())
        words = Linear().after(markets.letters)
        right = markets.letters(markets.WORDS) @ markets.letters(markets.WORDS).T
        assert near(words.gram(markets.WORDS).dense(), right, right.max())

    def test_functions_of_lists(self):
        words = Linear().after(markets.letters)
        assert np.shape(words(markets.WORDS)) == (10, 10)

    def test_single_points_are_mapped_too(self):
        k = Composed(Gaussian(), markets.lifted)
        assert near(k(X[0], Y[0]), k(X, Y)[0, 0])

    def test_too_few_images(self):
        with pytest.raises(ValueError, match="returned 1 images for 7 points"):
            Composed(Gaussian(), lambda X: X[:1])(X)

    def test_weights(self):
        k = Weighted(Gaussian(), markets.height)
        right = np.outer(markets.height(X), markets.height(Y)) * Gaussian()(X, Y)
        assert near(k(X, Y), right, right.max())
        assert near(k.gram(X).diagonal(), markets.height(X) ** 2, 20)
        with pytest.raises(
            ValueError, match=r"one number for each of 7 points; got shape \(7, 3\)"
        ):
            Weighted(Gaussian(), lambda X: X)(X)


class TestColumnGroups:
    def test_tensor_product(self):
        k = tensor_product((Gaussian(), [0, 2]), (Laplacian(0.5), 1))
        right = Gaussian()(X[:, [0, 2]], Y[:, [0, 2]]) * Laplacian(0.5)(X[:, [1]], Y[:, [1]])
        assert near(k(X, Y), right)

    def test_direct_sum(self):
        k = direct_sum((Gaussian(), [0, 2]), (Polynomial(2), 1), (Constant(2.0), 1))
        right = Gaussian()(X[:, [0, 2]], Y[:, [0, 2]]) + (X[:, [1]] * Y[:, 1] + 1) ** 2 + 2
        assert near(k(X, Y), right, np.abs(right).max())

    def test_one_part(self):
        assert tensor_product((Gaussian(), 0)) == Gaussian().on(0) == direct_sum((Gaussian(), 0))

    def test_names(self):
        frame = markets.Frame(zip("abc", X.T, strict=True))
        k = tensor_product((Gaussian(), ["a", "c"]), (Laplacian(), "b"))
        assert near(k(frame), tensor_product((Gaussian(), [0, 2]), (Laplacian(), 1))(X))

    def test_kernels_without_a_program(self):
        k = direct_sum((PairKernel(markets.smallest), [0, 1]), (Gaussian(), 2))
        right = PairKernel(markets.smallest)(X[:, :2], Y[:, :2]) + Gaussian()(X[:, 2:], Y[:, 2:])
        assert near(k(X, Y), right, right.max())

    def test_nothing(self):
        for combine in (tensor_product, direct_sum):
            with pytest.raises(ValueError, match="at least one pair"):
                combine()


class TestDomains:
    """Kernels on nonnegative values refuse others, wherever they stand."""

    @pytest.mark.parametrize("kernel", [ChiSquared(), Brownian(), Spline()], ids=repr)
    def test_negative_values(self, kernel):
        with pytest.raises(
            ValueError, match="a kernel on nonnegative values; the points contain -"
        ):
            kernel(X)
        with pytest.raises(ValueError, match="nonnegative"):
            (2.0 * kernel).exp().normalised()(X)

    @pytest.mark.parametrize(
        "kernel",
        [
            ChiSquared() + Gaussian(),
            Gaussian() * Brownian(),
            Spline().on([0]),
            tensor_product((Brownian(), 0), (Gaussian(), 1)),
            Brownian().after(np.eye(3)),
        ],
        ids=repr,
    )
    def test_negative_values_inside_an_expression(self, kernel):
        with pytest.raises(ValueError, match="nonnegative"):
            kernel(X)
