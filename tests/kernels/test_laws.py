"""Laws as declared against laws as observed: shifts, motions, spectra, transforms, series."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import cumulative_trapezoid, quad
from scipy.special import j0
from scipy.stats import kstest

from mercer.evaluation import reference
from mercer.evaluation.expression import reciprocal_root
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
    LinearMap,
    Matern,
    PairKernel,
    PeriodicBernoulli,
    PeriodicExponential,
    Polynomial,
    PolynomialOf,
    Precomputed,
    Radial,
    RationalQuadratic,
    Sigmoid,
    Spectral,
    Spline,
    Weighted,
    direct_sum,
    laws,
    tensor_product,
)
from mercer.kernels.base import parts

UNIT = np.finfo(np.float64).eps
SIGNS = [np.eye(2), -np.eye(2)]
STRETCH = np.array([[1.0, 0.5], [0.0, 2.0]])


def normal_density(w):
    return np.exp(-(w**2) / 2) / math.sqrt(2 * math.pi)


def bounded_lift(X):
    return np.tanh(np.asarray(X))


def height(X):
    return 1.0 + np.asarray(X)[:, 0] ** 2


# name: kernel, columns, and what is declared in the order of LAWS: y, n or ? for unknown
LAWS = ("positive_definite", "stationary", "isotropic", "bounded", "universal")
MARKET = {
    "gaussian": (Gaussian(0.9), 2, "yyyyy"),
    "gaussian-per-column": (Gaussian([0.7, 1.1]), 2, "yynyy"),
    "gaussian-equal-columns": (Gaussian([0.9, 0.9]), 2, "yyyyy"),
    "exponential": (Exponential(0.7), 2, "yyyyy"),
    "matern-0.3": (Matern(0.3), 1, "yyyyy"),
    "matern-3/2": (Matern(1.5, lengthscale=0.8), 2, "yyyyy"),
    "rational-quadratic": (RationalQuadratic(0.7, 0.9), 2, "yyyyy"),
    "laplacian": (Laplacian(0.8), 2, "yynyy"),
    "laplacian-one-column": (Laplacian(0.8), 1, "yyyyy"),
    "cauchy": (Cauchy(0.7), 2, "yynyy"),
    "spectral": (Spectral(normal_density, limit=10.0, nodes=64), 1, "yyyy?"),
    "bernoulli-1": (PeriodicBernoulli(1), 2, "yynyn"),
    "bernoulli-3": (PeriodicBernoulli(3, period=2.0), 1, "yyyyn"),
    "periodic-exponential": (PeriodicExponential(2.0), 2, "yynyn"),
    "cosine-series": (CosineSeries([1.0, 0.5, 0.0, 0.25]), 2, "yynyn"),
    "fourier-series": (FourierSeries([1.0, 2.0, 8.0], period=3.0), 1, "yyyyn"),
    "constant": (Constant(2.0), 2, "yyyyn"),
    "linear": (Linear(), 2, "ynnnn"),
    "polynomial": (Polynomial(2), 2, "ynnnn"),
    "all-subsets": (AllSubsets(), 2, "ynnnn"),
    "arc-cosine-0": (ArcCosine(0), 2, "ynnyn"),
    "arc-cosine-1": (ArcCosine(1), 2, "ynnnn"),
    "arc-cosine-2": (ArcCosine(2), 2, "ynnnn"),
    "chi-squared": (ChiSquared(0.7), 2, "ynny?"),
    "brownian": (Brownian(), 2, "ynnnn"),
    "spline": (Spline(), 2, "ynnny"),
    "sigmoid": (Sigmoid(), 2, "nnnyn"),
    "sigmoid-positive-bias": (Sigmoid(0.5, 0.4), 2, "nnnyn"),
    "sigmoid-negative-bias": (Sigmoid(1.0, -1.0), 1, "nnnyn"),
    "sigmoid-without-scale": (Sigmoid(0.0, 1.0), 2, "yyyyn"),
    "scaled": (3.0 * Gaussian(0.6), 2, "yyyyy"),
    "zero": (0.0 * Linear(), 2, "yyyyn"),
    "sum": (Gaussian(0.6) + Linear(), 2, "ynnny"),
    "sum-of-stationary": (Gaussian(0.6) + 0.5 * Matern(1.5), 2, "yyyyy"),
    "sum-of-polynomials": (Linear() + Polynomial(2), 2, "ynnnn"),
    "sum-with-stretched": (Gaussian(0.6) + Gaussian([0.6, 1.0]), 2, "yynyy"),
    "direct-sum": (direct_sum((Gaussian(), 0), (Laplacian(), 1)), 2, "yy?yn"),
    "product": (Gaussian(0.6) * Matern(1.5), 2, "yyyyy"),
    "product-with-linear": (Gaussian() * Linear(), 2, "ynnn?"),
    "product-of-linear": (Linear() * Linear(), 2, "ynnnn"),
    "product-with-sigmoid": (Gaussian() * Sigmoid(), 2, "?nn??"),
    "product-made-round": (Gaussian([1.0, 2.0]) * Gaussian([2.0, 1.0]), 2, "yy?yy"),
    "tensor-product": (tensor_product((Gaussian(), 0), (Laplacian(0.5), 1)), 2, "yy?yy"),
    "on-one-of-two": (Gaussian().on(0), 2, "yynyn"),
    "on-all": (Gaussian(0.9).on([1, 0]), 2, "yyyyy"),
    "sigmoid-on-column": (Sigmoid().on(1), 2, "nnnyn"),
    "exponentiated": (Gaussian(0.7).exp(), 2, "yyyyy"),
    "exponentiated-linear": (Linear().exp(), 2, "ynnny"),
    "polynomial-of": (PolynomialOf(Laplacian(0.5), [0.5, 0.0, 2.0]), 2, "yynyy"),
    "polynomial-of-linear": (PolynomialOf(Linear(), [0.5, 0.0, 2.0]), 2, "ynnnn"),
    "normalised": (Polynomial(2).normalised(), 2, "y??yn"),
    "normalised-stationary": ((2.0 * Gaussian(0.6)).normalised(), 2, "yyyyy"),
    "linear-map": (Gaussian(0.5).after(STRETCH), 2, "yynyy"),
    "linear-map-rotation": (Gaussian(0.9).after(np.array([[0.6, -0.8], [0.8, 0.6]])), 2, "yyyyy"),
    "linear-map-blind": (Gaussian(0.9).after(np.array([[1.0, 1.0]])), 2, "yynyn"),
    "linear-map-of-linear": (Linear().after(np.abs(STRETCH)), 2, "ynnnn"),
    "sigmoid-after": (Sigmoid().after(STRETCH), 2, "nnnyn"),
    "composed": (Composed(Gaussian(0.5), bounded_lift), 2, "y??y?"),
    "weighted": (Weighted(Gaussian(0.5), height), 2, "y????"),
    "group-average": (GroupAverage(Gaussian(0.9), SIGNS), 2, "ynnyn"),
}
DECLARED = {"y": True, "n": False, "?": None}
NONNEGATIVE = (ChiSquared, Brownian, Spline)


def values(kernel, X, Y=None):
    """K(X, Y) by the oracle, which compiles nothing."""
    x = kernel.points(np.asarray(X))
    y = x if Y is None else kernel.points(np.asarray(Y))
    expression = kernel.expression()
    return kernel.block(x, y) if expression is None else reference.block(expression, x, y)


def on_its_domain(kernel, X):
    return np.abs(X) if any(isinstance(part, NONNEGATIVE) for part in parts(kernel)) else X


def dyadic(kernel, size, columns, seed=0):
    """Points whose sums and differences with one another are exact."""
    X = np.random.default_rng(seed).standard_normal((size, columns))
    return on_its_domain(kernel, np.round(X * 1024) / 1024)


def those(law, answer):
    """The rows of the market where a law is declared so."""
    position = LAWS.index(law)
    return [name for name, (_, _, codes) in MARKET.items() if codes[position] == answer]


def test_the_market_is_large():
    kinds = {type(part) for kernel, _, _ in MARKET.values() for part in parts(kernel)}
    assert len(MARKET) >= 45
    assert len(kinds) >= 30


@pytest.mark.parametrize("name", MARKET)
def test_answers_are_those_declared_and_give_a_reason(name):
    kernel, columns, codes = MARKET[name]
    answers = [getattr(laws, law)(kernel, columns) for law in LAWS]
    assert {law: a.value for law, a in zip(LAWS, answers, strict=True)} == {
        law: DECLARED[code] for law, code in zip(LAWS, codes, strict=True)
    }
    assert all(answer.because for answer in answers)


# ---- observed ------------------------------------------------------------------------------------


def moved(kernel, columns, rotate):
    """K before and after a shift, or a rotation (a reflection in one column) and a shift."""
    X, Y = dyadic(kernel, 9, columns, 1), dyadic(kernel, 7, columns, 2)
    shift = np.linspace(1.5, 3.0, columns)
    Q = np.linalg.qr(np.random.default_rng(3).standard_normal((columns, columns)))[0]
    Q = -np.eye(1) if columns == 1 else Q
    X_moved, Y_moved = (X @ Q.T, Y @ Q.T) if rotate else (X, Y)
    return values(kernel, X, Y), values(kernel, X_moved + shift, Y_moved + shift)


@pytest.mark.parametrize("name", those("stationary", "y"))
def test_a_shift_changes_nothing_where_stationary(name):
    kernel, columns, _ = MARKET[name]
    before, after = moved(kernel, columns, rotate=False)
    # angles up to 10 · 8 in the series of cosines, each rounded once
    np.testing.assert_allclose(after, before, rtol=0, atol=400 * UNIT * max(1, abs(before).max()))


@pytest.mark.parametrize("name", those("stationary", "n"))
def test_a_shift_changes_something_where_not_stationary(name):
    kernel, columns, _ = MARKET[name]
    before, after = moved(kernel, columns, rotate=False)
    assert np.abs(after - before).max() > 1e-3 * np.abs(before).max()


@pytest.mark.parametrize("name", those("isotropic", "y"))
def test_a_motion_changes_nothing_where_isotropic(name):
    kernel, columns, _ = MARKET[name]
    before, after = moved(kernel, columns, rotate=True)
    np.testing.assert_allclose(after, before, rtol=0, atol=400 * UNIT * max(1, abs(before).max()))


@pytest.mark.parametrize("name", those("isotropic", "n"))
def test_a_motion_changes_something_where_not_isotropic(name):
    kernel, columns, _ = MARKET[name]
    if any(isinstance(part, NONNEGATIVE) for part in parts(kernel)):
        before, after = moved(kernel, columns, rotate=False)  # a rotation leaves the domain
    else:
        before, after = moved(kernel, columns, rotate=True)
    assert np.abs(after - before).max() > 1e-3 * np.abs(before).max()


def diagonal(kernel, X):
    return np.array([values(kernel, X[i : i + 1])[0, 0] for i in range(len(X))])


@pytest.mark.parametrize("name", those("bounded", "y"))
def test_the_diagonal_stays_below_its_bound_and_reaches_it(name):
    kernel, columns, _ = MARKET[name]
    bound = laws.bounded(kernel, columns).payload
    X = np.vstack([np.zeros((1, columns)), dyadic(kernel, 30, columns), np.full((1, columns), 50)])
    largest = diagonal(kernel, X).max()
    assert largest <= bound * (1 + 100 * UNIT)
    assert largest >= bound * (1 - 1e-12)


@pytest.mark.parametrize("name", those("bounded", "n"))
def test_the_diagonal_grows_in_every_positive_direction_where_unbounded(name):
    kernel, columns, _ = MARKET[name]
    for direction in ([1.0, 1.0], [0.3, 1.2]):
        rays = np.outer([1.0, 4.0, 16.0], direction[:columns])
        growth = diagonal(kernel, rays)
        assert (np.diff(growth) > 0).all()
        assert growth[-1] > 10 * growth[0]


def point_sets(kernel, columns):
    random = np.random.default_rng(4)
    yield on_its_domain(kernel, random.standard_normal((30, columns)))
    yield on_its_domain(kernel, random.integers(-3, 4, (30, columns)).astype(float))
    centres = np.repeat(random.standard_normal((5, columns)), 6, axis=0)
    yield on_its_domain(kernel, centres + 1e-3 * random.standard_normal((30, columns)))


@pytest.mark.parametrize("name", those("positive_definite", "y"))
def test_no_negative_eigenvalue_where_positive_definite(name):
    kernel, columns, _ = MARKET[name]
    for X in point_sets(kernel, columns):
        K = values(kernel, X)
        # each value off by some units in the last place moves an eigenvalue by n times that
        assert np.linalg.eigvalsh(K)[0] >= -len(X) * 64 * UNIT * np.abs(K).max()


@pytest.mark.parametrize("name", those("positive_definite", "n"))
def test_a_witness_is_found_where_not_positive_definite(name):
    kernel, columns, _ = MARKET[name]
    found = [kernel.check(1.5 * X) for X in point_sets(kernel, columns)]
    failed = [result for result in found if not result.passed]
    assert failed
    assert all(result.witness is not None for result in failed)


def lattice(kernel, columns):
    """Distinct points with all that can make a kernel blind: multiples, orbits, rectangles, 0."""
    axis = np.arange(0.0, 6.0) if on_its_domain(kernel, -1) == 1 else np.arange(-2.0, 4.0)
    if columns == 1:
        return np.arange(-9.0, 10.0)[:, None]
    return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


DECIDED = [n for n in those("positive_definite", "y") if n not in those("universal", "?")]


@pytest.mark.parametrize("name", DECIDED)
def test_universal_kernels_tell_all_functions_on_a_lattice_apart(name):
    """A universal kernel is strictly positive definite; one that is not fails on the right set."""
    kernel, columns, codes = MARKET[name]
    X = lattice(kernel, columns)
    K = values(kernel, X)
    singular = len(X) * 64 * UNIT * np.abs(K).max()
    smallest = np.linalg.eigvalsh(K)[0]
    assert smallest > 10 * singular if codes[4] == "y" else abs(smallest) <= singular


# ---- random kernels ------------------------------------------------------------------------------

LEAVES = [
    Gaussian(0.9),
    Exponential(0.7),
    Laplacian([0.8, 1.3]),
    PeriodicExponential(2.0),
    CosineSeries([0.0, 1.0]),
    Constant(2.0),
    Constant(0.0),
    Linear(),
    Polynomial(2, 0.0),
    ArcCosine(0),
    ChiSquared(0.7),
    Brownian(),
    Sigmoid(0.5, 0.2),
]
OPERATIONS = [
    lambda k, other: k + other,
    lambda k, other: k * other,
    lambda k, other: 0.0 * k,
    lambda k, other: 3.0 * k,
    lambda k, other: (0.2 * k).normalised().exp(),
    lambda k, other: PolynomialOf(k, [0.0, 0.0, 1.0]),
    lambda k, other: k.normalised(),
    lambda k, other: k.on([1, 0]),
    lambda k, other: k.on([0, -1]),
    lambda k, other: k.on([1, 1]),
    lambda k, other: k.after(STRETCH),
    lambda k, other: k.after(np.ones((2, 2))),
    lambda k, other: k.after(np.zeros((2, 2))),
]


def random_kernel(random, depth=3):
    if depth == 0 or random.random() < 0.2:
        return LEAVES[random.integers(len(LEAVES))]
    operation = OPERATIONS[random.integers(len(OPERATIONS))]
    return operation(random_kernel(random, depth - 1), random_kernel(random, depth - 1))


@pytest.mark.parametrize("seed", range(150))
def test_facts_of_random_kernels_are_observed(seed):
    kernel = random_kernel(np.random.default_rng(seed))
    facts = kernel.facts(2)
    anywhere = not any(isinstance(part, NONNEGATIVE) for part in parts(kernel))
    X = on_its_domain(kernel, dyadic(kernel, 12, 2, seed))
    K = values(kernel, X)
    size = max(1.0, np.abs(K).max())
    if facts.positive_definite.yes:
        assert np.linalg.eigvalsh(K)[0] >= -len(X) * 256 * UNIT * size
    if facts.bounded.yes and facts.positive_definite.yes:
        assert np.diagonal(K).max() <= facts.bounded.payload * (1 + 100 * UNIT)
    if facts.constant is not None:
        np.testing.assert_allclose(K, facts.constant, rtol=0, atol=100 * UNIT * size)
    if facts.stationary.yes or facts.isotropic.yes:
        before, after = moved(kernel, 2, rotate=facts.isotropic.yes and anywhere)
        np.testing.assert_allclose(after, before, rtol=0, atol=1000 * UNIT * size)
    if facts.stationary.no:
        before, after = moved(kernel, 2, rotate=False)
        assert np.abs(after - before).max() > 1e-6 * np.abs(before).max()
    measure = facts.spectral_density.payload
    if measure is not None:
        H = np.random.default_rng(seed).standard_normal((4, 2))
        estimates = measure.total * np.cos(H @ measure.sample(20_000, 0).T).mean(axis=1)
        k = values(kernel, H, np.zeros((1, 2)))[:, 0]
        np.testing.assert_allclose(estimates, k, atol=5 * measure.total / math.sqrt(20_000))
    finite = facts.sobolev_order.yes and facts.sobolev_order.payload < math.inf
    assert not (finite and facts.period is None) or facts.universal.yes  # order s is dense


# ---- laws that were false ------------------------------------------------------------------------

ONCE, TWICE = np.ones((1, 2)), np.ones((2, 1))
CIRCLE = PeriodicExponential()


@pytest.mark.parametrize(
    ("answer", "value", "payload"),
    [
        # adding zero changes nothing
        (lambda: laws.spectral_density(Gaussian() + 0.0, 2), True, ...),
        (lambda: laws.spectral_density(0.0 * Linear() + Gaussian(), 2), True, ...),
        (lambda: laws.universal(0.0 * Gaussian() + Linear(), 2), False, None),
        (lambda: laws.fourier_weights(CIRCLE + 0.0 * Gaussian(), 2), True, ...),
        # factors of zero leave the zero function
        (lambda: laws.sobolev_order(Constant(0.0) * Matern(1.5), 1), True, math.inf),
        (lambda: laws.sobolev_order(PolynomialOf(0.0 * Linear(), [0, 1]) * Matern(), 1), True, ...),
        (lambda: laws.bounded(Constant(0.0) * Linear(), 2), True, 0.0),
        (lambda: laws.universal(Gaussian() * Constant(0.0), 2), False, None),
        (lambda: laws.positive_definite(Sigmoid() * Constant(0.0), 2), True, None),
        # columns that are repeated, or counted from the end
        (lambda: laws.isotropic(Gaussian().on([0, 0]), 1), True, None),
        (lambda: laws.isotropic(Gaussian().on([0, -1]), 2), True, None),
        (lambda: laws.stationary(Linear().on([0, -1]), 2), False, None),
        (lambda: laws.spectral_density(Gaussian().on([0, 0]), 1), True, ...),
        (lambda: laws.spectral_density(Gaussian().on([0, -1]), 2), True, ...),
        (lambda: laws.sobolev_order(Matern(1.5).on([0, 0]), 1), True, 2.0),
        (lambda: laws.universal(Gaussian().on([0]).on([1, 0]), 2), False, None),
        (lambda: laws.fourier_weights(CIRCLE.on(0) + CIRCLE.on(1), 2), None, None),
        # maps of lower rank, and 0
        (lambda: laws.sobolev_order(Matern(1.5).after(np.zeros((1, 2))), 2), True, math.inf),
        (lambda: laws.sobolev_order(Laplacian().after(TWICE), 1), None, None),
        (lambda: laws.spectral_density(Gaussian().after(np.ones((2, 2))), 2), False, ...),
        (lambda: laws.bounded(Linear(1.0).after(np.zeros((2, 2))), 2), True, 1.0),
        (lambda: laws.stationary(GroupAverage(Gaussian(), [np.diag([1.0, 0.0])]), 2), None, None),
        # rough functions that repeat, beside some that do not
        (lambda: laws.sobolev_order(CIRCLE + Gaussian(), 1), False, None),
        (lambda: laws.sobolev_order(CIRCLE.exp() + Linear(), 1), False, None),
        (lambda: laws.sobolev_order(CIRCLE.after([[2.0]]) + Gaussian(), 1), False, None),
        (
            lambda: laws.sobolev_order(CIRCLE.exp().on(0).after([[2.0]]) + Gaussian(), 1),
            False,
            None,
        ),
        (lambda: laws.sobolev_order(CIRCLE + PeriodicBernoulli(2, period=1.5), 1), None, None),
        (lambda: laws.sobolev_order(CIRCLE * FourierSeries([1, 2], period=3.0), 1), None, None),
        (lambda: laws.sobolev_order(CIRCLE + PeriodicBernoulli(2) + 1.0, 1), True, 1.0),
        (lambda: laws.sobolev_order(CIRCLE + Matern(0.5), 1), True, 1.0),
        (lambda: laws.sobolev_order(CIRCLE * Gaussian(), 1), True, 1.0),
        # f(0) = 0 is no Sobolev space
        (lambda: laws.sobolev_order(Brownian(), 1), False, None),
    ],
)
def test_laws_that_were_false(answer, value, payload):
    answer = answer()
    assert answer.value is value
    assert payload is ... or answer.payload == payload


def test_a_map_of_lower_rank_has_no_formula_for_its_density():
    measure = laws.spectral_density(Gaussian().after(np.ones((2, 2))), 2).payload
    assert not measure.has_formula
    with pytest.raises(ValueError, match="no formula for its density"):
        measure.density([[0.0, 0.0]])


def test_a_column_that_does_not_exist_and_a_map_of_other_points_are_refused():
    with pytest.raises(ValueError, match=r"there are no columns \[0, 3\] among 2"):
        laws.bounded(Gaussian().on([0, 3]), 2)
    with pytest.raises(ValueError, match="a linear map with 2 columns takes points with as many"):
        laws.bounded(Gaussian().after(ONCE), 3)


# ---- what users state of their own kernels -------------------------------------------------------


def overlap(x, y):
    return float(len(set(x) & set(y)))


@pytest.mark.parametrize("kind", [PairKernel, BlockKernel])
def test_a_claim_is_a_fact_and_passes_through_operations(kind):
    kernel = kind(overlap, positive_definite=True)
    assert laws.positive_definite(kernel).yes
    assert laws.positive_definite((2.0 * kernel + 1.0).normalised()).yes
    assert repr(kernel).endswith("overlap, positive_definite=True)")
    assert kernel != kind(overlap)
    assert laws.positive_definite(kind(overlap, positive_definite=False)).no


def test_an_unknown_fact_says_what_to_write():
    answer = laws.positive_definite(Gaussian() + 2.0 * PairKernel(overlap))
    assert answer.unknown
    assert "nothing is known of PairKernel" in answer.because
    assert "write PairKernel(…, positive_definite=True); kernel.check(X)" in answer.advice

    class Wave(Radial):
        lengthscale = 1.0

        def profile(self, s):
            return 2.0 / (1.0 + s)

    assert "`positive_definite = True` in the class Wave" in laws.positive_definite(Wave()).advice
    assert "Precomputed(…, positive_definite=True)" in repr(Precomputed(np.eye(2)).laws())
    assert laws.positive_definite(Precomputed(np.eye(2), positive_definite=True)).yes
    for advised in (Wave().exp(), Wave().on(0), Wave().normalised(), GroupAverage(Wave(), SIGNS)):
        assert "in the class Wave" in laws.positive_definite(advised, 2).advice


def test_a_class_states_its_facts():
    class InverseMultiquadric(Radial):
        lengthscale = 1.0
        positive_definite = True

        def profile(self, s):
            return reciprocal_root(1.0 + s)

    kernel = InverseMultiquadric()
    assert laws.positive_definite(3.0 * kernel, 2).yes
    assert laws.bounded(3.0 * kernel, 2).payload == 3.0
    assert kernel.check(np.random.default_rng(0).standard_normal((30, 3)))
    with pytest.raises(TypeError, match="no facts: \\['nonsense'\\]"):
        kernel.facts().stating(nonsense=laws.yes("so"))


def test_a_claim_that_fails_is_named():
    distance = BlockKernel(lambda X, Y: np.abs(X - Y.T), positive_definite=True)
    result = distance.check(np.array([[0.0], [1.0], [3.0]]))
    assert not result
    assert result.because.endswith("though it is stated to be positive definite")


# ---- answers in particular -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel",
    [PairKernel(min), BlockKernel(np.dot), Precomputed(np.eye(2))],
    ids=["pair", "block", "precomputed"],
)
def test_nothing_is_known_of_functions_and_matrices(kernel):
    answers = [getattr(laws, law)(kernel) for law in LAWS]
    answers += [laws.sobolev_order(kernel, 1), laws.spectral_density(kernel, 1)]
    answers += [laws.fourier_weights(kernel, 3), laws.positive_definite(kernel + Gaussian())]
    assert all(answer.unknown for answer in answers)
    assert "nothing is known of" in laws.stationary(kernel).because


def test_a_radial_kernel_of_the_user_is_stationary_and_its_bound_is_computed():
    class Wave(Radial):
        lengthscale = 1.0

        def profile(self, s):
            return 2.0 / (1.0 + s)

    assert laws.stationary(Wave()).yes
    assert laws.isotropic(Wave()).yes
    assert laws.bounded(Wave()).payload == 2.0
    assert laws.positive_definite(Wave()).unknown


def test_an_answer_has_no_truth_value_and_laws_are_about_kernels():
    with pytest.raises(TypeError, match=r"write answer\.yes, answer\.no or answer\.unknown"):
        bool(laws.stationary(Gaussian()))
    with pytest.raises(ValueError, match="laws are about kernels; got 3"):
        laws.stationary(3)


def test_without_a_dimension_a_law_is_meant_for_all():
    assert laws.isotropic(Laplacian()).no
    assert laws.isotropic(Laplacian(), 1).yes
    assert laws.universal(Gaussian().on([0, 1])).no
    assert laws.universal(Gaussian().on([0, 1]), 2).yes
    assert laws.universal(Gaussian().on([1, -1]), 2).no  # the same column twice
    answer = laws.bounded(PeriodicExponential())
    assert answer.yes
    assert answer.payload is None
    assert "dimension=d" in answer.because


def test_the_summary_says_every_law_and_chooses_the_columns():
    text = repr((Gaussian([1.0, 2.0]) + Linear()).laws())
    assert "on points of 2 columns" in text
    assert "stationary         no: one summand is stationary, the other is not" in text
    assert repr(Gaussian().on([0, 3]).laws()).splitlines()[0].endswith("4 columns")
    assert "bounded            yes (1): " in repr(Gaussian().laws(5))


# ---- Sobolev order -------------------------------------------------------------------------------

ORDERS = {
    "matern-1/2": (Matern(0.5), 1, 1.0),
    "matern-3/2": (Matern(1.5), 1, 2.0),
    "matern-5/2": (Matern(2.5), 1, 3.0),
    "matern-1/2-plane": (Matern(0.5), 2, 1.5),
    "laplacian": (Laplacian(0.7), 1, 1.0),
    "spline": (Spline(), 1, 2.0),
    "bernoulli-2": (PeriodicBernoulli(2), 1, 2.0),
    "sum": (Matern(0.5) + Gaussian(), 1, 1.0),
    "product": (Matern(1.5) * Gaussian(), 1, 2.0),
    "exponentiated": (Exponential().exp(), 1, 1.0),
    "restricted": (LinearMap(Matern(1.5), np.array([[1.0], [2.0]])), 1, 2.0),
}


@pytest.mark.parametrize("name", ORDERS)
def test_eigenvalues_decay_as_the_sobolev_order_says(name):
    kernel, columns, order = ORDERS[name]
    assert laws.sobolev_order(kernel, columns).payload == order
    if columns == 1:
        X = (np.arange(400)[:, None] + 0.5) / 400
    else:
        X = np.stack(np.meshgrid(*[(np.arange(24) + 0.5) / 24] * 2), axis=-1).reshape(-1, 2)
    eigenvalues = np.linalg.eigvalsh(values(kernel, X))[::-1]
    i = np.arange(12, 48)
    slope = np.polyfit(np.log(i), np.log(eigenvalues[i - 1]), 1)[0]
    # i^{−2s/d} up to a shift of i by about s (boundary) and the grid's end: a few percent
    assert slope == pytest.approx(-2 * order / columns, rel=0.12)


def test_sobolev_orders_of_smooth_mixed_and_unknown_spaces():
    for kernel in (Gaussian(), RationalQuadratic(), Cauchy(), Polynomial(3), Constant()):
        assert laws.sobolev_order(kernel, 3).payload == math.inf
    for kernel in (Laplacian(), PeriodicBernoulli(2), Spline(), Exponential().on(0)):
        assert laws.sobolev_order(kernel, 2).no
    for kernel in (Linear() * Matern(1.5), ArcCosine(1), Weighted(Matern(), height)):
        assert laws.sobolev_order(kernel, 2).unknown
    assert laws.sobolev_order(Matern(0.3), 4).payload == 2.3
    assert laws.sobolev_order(Exponential(2.0).after(STRETCH), 2).payload == 1.5


# ---- spectral densities --------------------------------------------------------------------------

NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)


def panels(limit, count):
    """Composite Gauss-Legendre nodes and weights on [0, limit]."""
    edges = np.linspace(0.0, limit, count + 1)
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (NODES + 1)).ravel(), (half * WEIGHTS).ravel()


RADIAL = {
    "gaussian": (Gaussian(0.8), 12.0),
    "exponential": (Exponential(0.9), 36.0),
    "matern-0.3": (Matern(0.3, lengthscale=0.7), 36.0),
    "matern-3/2": (Matern(1.5), 30.0),
    "matern-2.2": (Matern(2.2, lengthscale=1.3), 30.0),
    "scaled": (3.0 * Matern(2.5), 30.0),
    "mixture": (Gaussian(0.5) + 2.0 * Matern(1.5, lengthscale=0.8), 30.0),
    "gaussian-product": (Gaussian(0.8) * Gaussian(1.5), 12.0),
    "normalised": ((4.0 * Gaussian(0.8)).normalised(), 12.0),
}


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("name", RADIAL)
def test_density_is_the_fourier_transform_of_a_radial_kernel(name, dimension):
    """p(ω) = (2π)^{−d} ∫ k(x) e^{−iω·x} dx as an integral over the radius."""
    kernel, limit = RADIAL[name]
    r, weights = panels(limit, 60)
    if name == "matern-0.3":  # r^{0.6} at 0: substitute r = limit·t⁸
        t, inner = panels(1.0, 60)
        r, weights = limit * t**8, inner * 8 * limit * t**7
    profile = values(kernel, r[:, None], [[0.0]])[:, 0]
    frequencies = np.array([0.1, 0.7, 2.0, 5.0])
    angles = frequencies[:, None] * r
    transforms = {
        1: (np.cos(angles) @ (weights * profile)) / math.pi,
        2: (j0(angles) @ (weights * profile * r)) / (2 * math.pi),
        3: (np.sin(angles) / frequencies[:, None]) @ (weights * profile * r) / (2 * math.pi**2),
    }
    answer = laws.spectral_density(kernel, dimension)
    assert answer.yes
    rows = frequencies[:, None] * np.eye(dimension)[0]
    np.testing.assert_allclose(
        answer.payload.density(rows), transforms[dimension], rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("mixture", [0.4, 1.0, 2.5])
def test_rational_quadratic_density_is_the_mixture_of_normal_densities(mixture, dimension):
    """Against ∫ N(ω; 0, τ/ℓ²) Gamma(τ) dτ, with τ = e^s."""
    s, weights = np.linspace(-60.0, 8.0, 20001, retstep=True)
    tau, ell = np.exp(s), 0.7
    gamma = np.exp(mixture * math.log(mixture) - math.lgamma(mixture) + mixture * s - mixture * tau)
    measure = laws.spectral_density(RationalQuadratic(mixture, ell), dimension).payload
    for frequency in (0.3, 1.0, 4.0):
        u = ell * frequency
        normal = (2 * math.pi * tau / ell**2) ** (-dimension / 2) * np.exp(-(u**2) / (2 * tau))
        row = frequency * np.eye(dimension)[:1]
        assert measure.density(row)[0] == pytest.approx((gamma * normal).sum() * weights, rel=1e-9)
    at_zero = measure.density(np.zeros((1, dimension)))[0]
    assert math.isinf(at_zero) == (mixture <= dimension / 2)


def test_rational_quadratic_density_is_continuous_at_zero():
    measure = laws.spectral_density(RationalQuadratic(2.5), 2).payload
    near, at = measure.density([[1e-6, 0.0], [0.0, 0.0]])
    assert near == pytest.approx(at, rel=1e-9)


@pytest.mark.parametrize(
    ("kernel", "density"),
    [
        (Laplacian(0.5), lambda w: 0.5 / (math.pi * (1 + 0.25 * w**2))),
        (Cauchy(0.5), lambda w: 0.25 * np.exp(-0.5 * np.abs(w))),
    ],
    ids=["laplacian", "cauchy"],
)
def test_laplacian_and_cauchy_are_partners(kernel, density):
    """The density in closed form, and k(t) = ∫ p cos by Gauss-Legendre where p decays."""
    w = np.array([-2.0, 0.0, 0.7])
    one = laws.spectral_density(kernel, 1).payload
    np.testing.assert_allclose(one.density(w[:, None]), density(w), rtol=1e-14)
    two = laws.spectral_density(kernel, 2).payload
    np.testing.assert_allclose(
        two.density(np.column_stack([w, w[::-1]])), density(w) * density(w[::-1]), rtol=1e-14
    )
    t = np.array([0.0, 0.4, 2.0])
    k = values(kernel, t[:, None], [[0.0]])[:, 0]
    if isinstance(kernel, Cauchy):
        nodes, weights = panels(90.0, 60)
        transform = 2 * np.cos(t[:, None] * nodes) @ (weights * one.density(nodes[:, None]))
        np.testing.assert_allclose(transform, k, atol=1e-12)
    else:
        nodes, weights = panels(40.0, 60)
        profile = values(kernel, nodes[:, None], [[0.0]])[:, 0]
        transform = np.cos(w[:, None] * nodes) @ (weights * profile) / math.pi
        np.testing.assert_allclose(transform, one.density(w[:, None]), atol=1e-12)


PLANE = {
    "per-column": Gaussian([0.6, 1.1]),
    "matern-per-column": Matern(4.5, lengthscale=[0.9, 1.2]),
    "tensor": 2.0 * tensor_product((Gaussian(0.7), [1]), (Matern(4.5), [0])),
    "linear-map": Gaussian(0.8).after(STRETCH),
    "mixture": Gaussian([0.6, 1.1]) + 0.5 * Gaussian(0.8).after(STRETCH),
    "product-of-stretched": Gaussian([0.6, 1.1]) * Gaussian([2.0, 0.9]),
    "swapped": Gaussian([0.6, 1.1]).on([1, 0]),
}


@pytest.mark.parametrize("name", PLANE)
def test_density_in_the_plane_is_the_double_fourier_integral(name):
    kernel = PLANE[name]
    step = 0.15  # p at 2π/step ≈ 42 is what aliasing adds: below 1e-13 for ν = 9/2
    axis = np.arange(-20.0, 20.0 + step / 2, step)
    H = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    k = values(kernel, H, np.zeros((1, 2)))[:, 0]
    frequencies = np.array([[0.0, 0.0], [0.5, -1.0], [2.0, 0.3]])
    transform = np.cos(frequencies @ H.T) @ k * step**2 / (2 * math.pi) ** 2
    measure = laws.spectral_density(kernel, 2).payload
    assert measure.has_formula
    np.testing.assert_allclose(measure.density(frequencies), transform, rtol=1e-8, atol=1e-11)


SAMPLED = {name: (kernel, 2) for name, kernel in PLANE.items()} | {
    "exponential": (Exponential(0.8), 3),
    "matern": (Matern(2.2), 2),
    "rational-quadratic": (RationalQuadratic(0.6, 0.8), 3),
    "laplacian": (Laplacian([0.6, 1.2]), 2),
    "cauchy": (Cauchy(0.7), 2),
    "spectral": (Spectral(normal_density, limit=10.0, nodes=128), 2),
    "constant": (Constant(2.0) + Gaussian(), 2),
    "on-one": (Gaussian(0.7).on(1) + Matern(1.5), 2),
    "convolution": (Gaussian(0.7) * Matern(1.5), 2),
    "blind": (Gaussian(0.7).after(np.array([[1.0, 1.0]])), 2),
    "lifted": (Matern(1.5).after(np.array([[1.0], [0.5]])), 1),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_samples_give_back_the_kernel(name):
    kernel, columns = SAMPLED[name]
    measure = laws.spectral_density(kernel, columns).payload
    differences = np.random.default_rng(5).standard_normal((6, columns))
    frequencies = measure.sample(100_000, random_state=6)
    assert frequencies.shape == (100_000, columns)
    estimates = measure.total * np.cos(differences @ frequencies.T).mean(axis=1)
    k = values(kernel, differences, np.zeros((1, columns)))[:, 0]
    assert measure.total == pytest.approx(values(kernel, np.zeros((1, columns)))[0, 0], rel=1e-12)
    # a cosine has variance at most 1: five standard deviations of the mean
    np.testing.assert_allclose(estimates, k, atol=5 * measure.total / math.sqrt(100_000))


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(0.6),
        Exponential(2.0),
        Matern(0.7),
        RationalQuadratic(0.9, 1.5),
        Laplacian(0.5),
        Cauchy(2.0),
        Spectral(normal_density, limit=10.0, nodes=256),
        Gaussian(0.4) + 2.0 * Exponential(3.0),
    ],
    ids=repr,
)
def test_samples_follow_the_density(kernel):
    measure = laws.spectral_density(kernel, 1).payload
    angle = np.linspace(-math.pi / 2, math.pi / 2, 40_002)[1:-1]
    w = np.tan(angle)  # all of the line
    mass = measure.density(w[:, None]) / measure.total * (1 + w**2)
    distribution = cumulative_trapezoid(mass, angle, initial=0.0)
    assert distribution[-1] == pytest.approx(1.0, abs=2e-4)
    sample = measure.sample(4000, random_state=7)[:, 0]
    assert kstest(sample, lambda x: np.interp(np.arctan(x), angle, distribution)).pvalue > 1e-3
    wider = kstest(1.5 * sample, lambda x: np.interp(np.arctan(x), angle, distribution))
    assert wider.pvalue < 1e-3  # the test can tell


def test_samples_between_the_nodes_follow_the_line_between_them():
    kernel = Spectral(lambda w: np.maximum(1.0 - w, 0.0), limit=1.0, nodes=1)
    sample = laws.spectral_density(kernel, 1).payload.sample(4000, random_state=8)[:, 0]
    assert kstest(np.abs(sample), lambda w: 1.0 - (1.0 - w) ** 2).pvalue > 1e-3
    assert abs(np.sign(sample).mean()) < 5 / math.sqrt(4000)


def test_the_user_s_sampler_is_used():
    def sampler(size, random_state):
        return random_state.standard_normal(size) + 100.0

    kernel = Spectral(normal_density, limit=10.0, sampler=sampler)
    assert laws.spectral_density(kernel, 3).payload.sample(5, 0).min() > 90


def test_the_same_seed_gives_the_same_sample():
    measure = laws.spectral_density(Gaussian() + Matern(), 2).payload
    np.testing.assert_array_equal(measure.sample(9, 1), measure.sample(9, 1))
    old = np.random.RandomState
    np.testing.assert_array_equal(measure.sample(9, old(3)), measure.sample(9, old(3)))
    assert not np.array_equal(measure.sample(9, 1), measure.sample(9, 2))


def test_where_there_is_no_density():
    for kernel in (Linear(), Gaussian() * Linear(), ArcCosine(1)):
        answer = laws.spectral_density(kernel, 2)
        assert answer.no
        assert "not stationary" in answer.because
    for kernel in (
        Constant(),
        Gaussian() + 1.0,
        Gaussian().exp(),
        PeriodicBernoulli(),
        0.0 * Cauchy(),
    ):
        assert laws.spectral_density(kernel, 1).no
    assert laws.spectral_density(Gaussian().on(0), 2).no
    convolution = laws.spectral_density(Gaussian() * Matern(), 1)
    assert convolution.yes
    with pytest.raises(ValueError, match=r"no formula for its density; measure\.sample draws"):
        convolution.payload.density([[0.0]])


def test_frequencies_and_dimensions_of_the_wrong_shape_are_refused():
    with pytest.raises(ValueError, match=r"2 lengthscales.*Write dimension=2"):
        laws.spectral_density(Gaussian([1.0, 2.0]), 3)
    with pytest.raises(ValueError, match=r"rows of 2 numbers.*got shape \(2,\)"):
        laws.spectral_density(Gaussian(), 2).payload.density(np.zeros(2))


# ---- Fourier weights -----------------------------------------------------------------------------

TORUS = {
    "bernoulli-1": PeriodicBernoulli(1),
    "bernoulli-2": PeriodicBernoulli(2, period=2.5),
    "periodic-exponential": PeriodicExponential(0.7),
    "cosine-series": CosineSeries([1.0, 0.5, 0.0, 0.25]),
    "fourier-series": FourierSeries([1.0, 2.0, 8.0], period=3.0),
    "sum": PeriodicBernoulli(1) + 2.0 * PeriodicExponential(2.0) + 1.0,
    "product": PeriodicExponential(2.0) * PeriodicBernoulli(1),
    "product-finite": FourierSeries([1.0, 2.0, 8.0]) * PeriodicBernoulli(2),
    "normalised": PeriodicExponential(0.5).normalised(),
    "on-a-column": PeriodicBernoulli(2).on(0),
}


@pytest.mark.parametrize("name", TORUS)
def test_fourier_weights_are_those_of_the_fast_transform(name):
    kernel, size = TORUS[name], 8192
    x = np.arange(size)[:, None] * (laws.period(kernel) / size)
    transform = np.fft.rfft(values(kernel, x, [[0.0]])[:, 0]).real / size
    answer = laws.fourier_weights(kernel, 40)
    assert answer.yes
    # aliasing adds the weights at m ± size, ± 2 size, …: at most 2 Σ j^{−2} = π²/3 times the first
    alias = laws.fourier_weights(kernel, size - 40).payload[-1] * math.pi**2 / 3
    np.testing.assert_allclose(transform[:41], answer.payload, rtol=0, atol=1.1 * alias + 1e-13)


def lorentz(alpha, m):
    return 1.0 / (1.0 + (alpha * m) ** 2)


@pytest.mark.parametrize("alpha", [1e-5, 1e-3, 0.7, 30.0])
@pytest.mark.parametrize("beta", [1e-5, 2.0])
def test_weights_of_a_product_of_exponentials_in_closed_form(alpha, beta):
    """Σ_j 1/((1 + α²j²)(1 + β²(m − j)²)) by residues, coth being 1 beyond 20."""
    a, b = math.pi / alpha, math.pi / beta

    def coth(z):
        return 1.0 / np.tanh(z)

    m = np.arange(4.0)
    p, q = m + 1j / beta, m - 1j / beta  # poles of the second factor
    exact = a * coth(a) * (lorentz(beta, m + 1j / alpha) + lorentz(beta, m - 1j / alpha)) / 2
    exact += b * coth(b) * (lorentz(alpha, p) + lorentz(alpha, q)) / 2
    kernel = PeriodicExponential(alpha) * PeriodicExponential(beta)
    if alpha == beta:  # a double pole
        kernel = PeriodicExponential(alpha) * PeriodicExponential(beta * (1 + 1e-6))
        exact = a * 2.0 / (4.0 + (alpha * m) ** 2)
    rtol = 1e-5 if alpha == beta else 1e-12
    np.testing.assert_allclose(laws.fourier_weights(kernel, 3).payload, exact.real, rtol=rtol)


@pytest.mark.parametrize("alpha", [1e-7, 1e-5, 1e-2, 3.0])
@pytest.mark.parametrize("order", [1, 2])
def test_weights_of_a_product_with_powers_are_summed_to_the_end(alpha, order):
    """Σ_j |j|^{−2s}/(1 + α²(m − j)²), term by term and then, for j > N, as an integral."""
    N, m = 1 << 20, np.arange(3.0)
    j = np.arange(1.0, N)
    near = [
        lorentz(alpha, i)
        + (j ** (-2.0 * order) * (lorentz(alpha, i - j) + lorentz(alpha, i + j))).sum()
        for i in m
    ]
    end, _ = quad(lambda v: 2 * v ** (2 * order - 2) * lorentz(alpha, 1 / v), 0, 1 / (N - 0.5))
    weights = laws.fourier_weights(PeriodicExponential(alpha) * PeriodicBernoulli(order), 2)
    np.testing.assert_allclose(weights.payload, np.array(near) + end, rtol=1e-11)


def test_weights_of_many_factors_add_up_to_the_value_at_zero():
    """Σ_m 1/c_m = k(0), the weights beyond 1000 falling like m^{−2}."""
    kernel = (
        PeriodicExponential(1e-2)
        * PeriodicBernoulli(1)
        * PeriodicBernoulli(2)
        * CosineSeries([1.0])
    )
    weights = laws.fourier_weights(kernel, 1000).payload
    total = weights[0] + 2 * weights[1:].sum() + 2 * 1000.5 * weights[-1] * (1000 / 1000.5) ** 2
    assert total == pytest.approx(laws.bounded(kernel, 1).payload, rel=1e-3)


def test_where_there_are_no_fourier_weights():
    assert laws.fourier_weights(Gaussian(), 3).no
    assert laws.fourier_weights(Linear(), 3).no
    mixed = PeriodicBernoulli(period=1.0) + PeriodicBernoulli(period=1.5)
    assert "different periods" in laws.fourier_weights(mixed, 3).because
    assert laws.fourier_weights(PeriodicBernoulli().on([0, 1]), 3).unknown
    assert laws.fourier_weights(0.0 * PeriodicBernoulli(), 1).payload.tolist() == [0.0, 0.0]
