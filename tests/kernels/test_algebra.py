"""Kernels combine as their values do; a kernel is a value like any other."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import sklearn.base
from hypothesis import given
from hypothesis import strategies as st

import markets
from mercer.errors import SlowKernelWarning
from mercer.kernels import (
    BlockKernel,
    Columns,
    Constant,
    Gaussian,
    Linear,
    Matern,
    PairKernel,
    Polynomial,
    PolynomialOf,
    Precomputed,
    Product,
    Scaled,
    Sum,
)
from mercer.kernels.base import parts

X, Y = markets.normal(6, 3), markets.normal(4, 3, 1)
ONE = Constant()
scales = st.floats(0.05, 20.0)
factors = st.floats(0.0, 100.0)


def near(left, right):
    return np.allclose(left, right, rtol=1e-12, atol=1e-12 * max(1.0, np.abs(right).max()))


class TestValues:
    """Random parameters in fixed structures: nothing is compiled again."""

    @given(a=scales, b=factors)
    def test_sum(self, a, b):
        k1, k2 = Gaussian(a), Linear(b + 0.1)
        assert near((k1 + k2)(X, Y), k1(X, Y) + k2(X, Y))

    @given(a=scales, b=scales)
    def test_sum_and_product_commute(self, a, b):
        k1, k2 = Gaussian(a), Matern(1.5, b)
        assert near((k1 + k2)(X, Y), (k2 + k1)(X, Y))
        assert near((k1 * k2)(X, Y), (k2 * k1)(X, Y))

    @given(a=scales, b=scales)
    def test_product(self, a, b):
        k1, k2 = Gaussian(a), Matern(1.5, b)
        assert near((k1 * k2)(X, Y), k1(X, Y) * k2(X, Y))

    @given(c=factors, a=scales)
    def test_multiples_are_distributed(self, c, a):
        k1, k2 = Gaussian(a), Linear()
        assert near((c * (k1 + k2))(X, Y), (c * k1 + c * k2)(X, Y))

    @given(c=factors, d=factors)
    def test_multiples_of_multiples(self, c, d):
        assert near((c * (d * Gaussian()))(X, Y), (c * d) * Gaussian()(X, Y))

    def test_zero(self):
        assert not (0.0 * Gaussian())(X, Y).any()
        assert near((0.0 * Gaussian() + Linear())(X, Y), Linear()(X, Y))

    @given(c=factors)
    def test_numbers_are_constants(self, c):
        assert near((Gaussian() + c)(X, Y), Gaussian()(X, Y) + c)
        assert near((c + Gaussian())(X, Y), Gaussian()(X, Y) + c)
        assert Gaussian() + c == Gaussian() + Constant(c)

    @given(columns=st.lists(st.integers(-3, 2), min_size=1, max_size=4), a=scales)
    def test_columns_are_slices(self, columns, a):
        for k in (Gaussian(a), Linear(a)):
            assert near(k.on(columns)(X, Y), k(X[:, columns], Y[:, columns]))

    @given(outer=st.permutations(range(3)), inner=st.lists(st.integers(0, 1), min_size=1))
    def test_columns_of_columns_are_slices_of_slices(self, outer, inner):
        outer = outer[:2]
        value = Gaussian().on(inner).on(outer)(X, Y)
        assert near(value, Gaussian()(X[:, outer][:, inner], Y[:, outer][:, inner]))

    @given(scales=st.tuples(scales, scales, scales))
    def test_lengthscales_of_columns_divide_the_points(self, scales):
        for of in (Gaussian, lambda lengthscale: Matern(1.5, lengthscale)):
            assert near(of(scales)(X, Y), of(1.0)(X / scales, Y / scales))

    def test_one_lengthscale_for_all_columns(self):
        assert near(Gaussian([2.0, 2.0, 2.0])(X, Y), Gaussian(2.0)(X, Y))

    @given(degree=st.sampled_from([1, 2, 3]), bias=st.floats(0.1, 5.0))
    def test_polynomials(self, degree, bias):
        assert near(Polynomial(degree, bias)(X, Y), (X @ Y.T + bias) ** degree)

    def test_columns_of_a_block_kernel(self):
        k = BlockKernel(markets.laplace_block)
        assert near(k.on([2, 0])(X, Y), markets.laplace_block(X[:, [2, 0]], Y[:, [2, 0]]))
        assert near((k.on(1) * Gaussian())(X, Y), k(X[:, 1:2], Y[:, 1:2]) * Gaussian()(X, Y))

    def test_mixed_kinds_of_columns(self):
        k = Gaussian().on([0]) + Linear().on([1, 2])
        assert near(k(X, Y), Gaussian()(X[:, :1], Y[:, :1]) + X[:, 1:] @ Y[:, 1:].T)

    def test_single_pairs(self):
        assert Linear()([1.0, 2.0], [3.0, 4.0]) == 11.0
        assert Linear()([1.0, 2.0]) == 5.0
        assert isinstance(Gaussian()(X[0], Y[0]), float)


# kernels that overflow, and what they are of the matrices of ⟨x, y⟩ and ‖x − y‖²
OVERFLOWING = {
    "exponential": (Linear().exp() + Gaussian(), lambda p, s: np.exp(p) + np.exp(-s / 2)),
    "power": (Polynomial(5) + Linear(), lambda p, s: (p + 1) ** 5 + p),
    "products": (
        Polynomial(5) * Linear() + Gaussian(),
        lambda p, s: (p + 1) ** 5 * p + np.exp(-s / 2),
    ),
    "polynomial": (
        PolynomialOf(Linear(), [1.0, 0.0, 2.0, 0.5]),
        lambda p, s: 1 + 2 * p**2 + p**3 / 2,
    ),
    "inside": (
        Linear().exp().normalised() + Polynomial(5),
        lambda p, s: np.exp(-s / 2) + (p + 1) ** 5,
    ),
    "nested": (Linear().exp().exp(), None),
    "exponential-of-sum": ((Linear().exp() + Gaussian()).exp(), None),
    "exponential-of-power": (Polynomial(3).exp(), lambda p, s: np.exp((p + 1) ** 3)),
    "matern": (Linear().exp() + Matern(2.2), None),
}


class TestNormalised:
    """k(x, y)/√(k(x, x) k(y, y)) where k itself leaves the range of floats."""

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_exponentials_are_gaussian(self, dtype):
        far = (40.0 + X).astype(dtype)  # ‖x‖² ≈ 4800, and e^709 is the largest number
        value = Linear(bias=3.0).exp().normalised()(far)
        assert np.allclose(value, Gaussian()(far), rtol=0, atol=8 * np.finfo(dtype).eps)
        scaled = (0.25 * Linear()).exp().on([1, 2]).normalised()(far)
        assert np.allclose(scaled, Gaussian(2.0)(far[:, 1:]), rtol=0, atol=8 * np.finfo(dtype).eps)

    def test_exponentials_of_other_kernels(self):
        polynomial = Polynomial(2, 0.0)
        far, own = 10.0 + X, (polynomial(10.0 + X)).diagonal()
        exact = np.exp(polynomial(far) - 0.5 * own[:, None] - 0.5 * own)
        # the exponent is a difference of numbers near 1e5, so 1e5 units in the last place are lost
        assert np.allclose(polynomial.exp().normalised()(far), exact, rtol=0, atol=1e-10)

    def test_powers(self):
        large = (1e4 * X).astype(np.float32)  # ⟨x, y⟩⁵ ≈ 1e40
        double = large.astype(np.float64)
        lengths = np.sqrt(1 + (double**2).sum(axis=1))
        cosines = (1 + double @ double.T) / np.outer(lengths, lengths)
        value = Polynomial(5).normalised()(large)
        assert np.isfinite(value).all()
        assert np.allclose(value, cosines**5, rtol=0, atol=40 * np.finfo(np.float32).eps)
        both = (Polynomial(5) * (2.0 * Polynomial(4))).normalised()(large)
        assert np.allclose(both, cosines**9, rtol=0, atol=80 * np.finfo(np.float32).eps)

    @pytest.mark.parametrize("scale", [0.5, 30.0, 1e4, 1e6])
    @pytest.mark.parametrize(
        ("name", "dtype"),
        [(name, np.float64) for name in OVERFLOWING]
        + [(name, np.float32) for name in ("exponential", "products", "exponential-of-power")],
    )
    def test_sums_products_and_powers_of_what_overflows(self, name, scale, dtype):
        kernel, formula = OVERFLOWING[name]
        rows = np.concatenate([scale * X, scale * X[:1]]).astype(dtype)  # the last is a duplicate
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            value = kernel.normalised()(rows)
        unit = np.finfo(dtype).eps
        assert np.allclose(value.diagonal(), 1.0, rtol=0, atol=16 * unit)
        assert abs(value[0, -1] - 1.0) <= 16 * unit
        assert np.abs(value).max() <= 1 + 16 * unit
        wide = rows.astype(np.longdouble)
        p = wide @ wide.T
        s = p.diagonal() + p.diagonal()[:, None] - 2 * p
        with np.errstate(over="ignore"):
            k = np.full((1, 1), np.inf) if formula is None else formula(p, s)
        if np.isfinite(k).all():  # in extended precision it is, up to e^11356
            own = np.sqrt(k.diagonal())
            exact = (k / own / own[:, None]).astype(float)
            lost = float(p.max()) ** 3 if name == "exponential-of-power" else 1.0
            assert np.allclose(value, exact, rtol=0, atol=60 * max(1.0, lost) * unit)

    @pytest.mark.parametrize(
        "kernel",
        [Polynomial(2, 0.0).normalised().exp(), Linear(1.0).normalised().exp() + Gaussian(0.9)],
        ids=repr,
    )
    def test_normalised_kernels_inside(self, kernel):
        """Their expressions have factors in x or y alone, which are no kernels."""
        value = kernel(X, Y)
        own = [np.sqrt(kernel.gram(Z).diagonal()) for Z in (X, Y)]
        assert near(kernel.normalised()(X, Y), value / np.outer(*own))

    def test_sums_of_blocks(self):
        products = BlockKernel(lambda X, Y: X @ Y.T)
        far = 40.0 + X
        kernel = (products.exp() + 2.0 * products).normalised()
        assert kernel.expression() is None
        assert np.allclose(kernel(far), Gaussian()(far), rtol=0, atol=1e-11)
        power = (products**40 + products).normalised()  # 4800^40 is in range, its square is not
        cosines = (far @ far.T) / np.outer(*[np.linalg.norm(far, axis=1)] * 2)
        assert np.allclose(power(1e4 * far), cosines**40, rtol=0, atol=1e-11)

    def test_gradients_where_the_kernel_overflows(self):
        kernel, far = (Linear().exp() + Gaussian()).normalised(), 40.0 + X
        f = kernel.function(far, np.ones(len(far)))
        g = (Linear().exp()).normalised().function(far, np.ones(len(far)))
        assert np.allclose(f.gradient(far), g.gradient(far), rtol=0, atol=1e-9)

    def test_blocks_without_an_expression(self):
        products = BlockKernel(lambda X, Y: X @ Y.T)
        far = 40.0 + X
        kernel = products.exp().normalised()
        assert kernel.expression() is None
        assert np.allclose(kernel(far), Gaussian()(far), rtol=0, atol=1e-11)

    def test_zero_stays_zero(self):
        assert not (0.0 * Gaussian()).normalised()(X).any()
        assert Linear().normalised()(np.array([[0.0], [2.0]])).tolist() == [[0.0, 0.0], [0.0, 1.0]]


class TestFrames:
    frame = markets.Frame(zip("abc", X.T, strict=True))

    def test_names(self):
        assert near(Gaussian().on(["c", "a"])(self.frame), Gaussian()(X[:, [2, 0]]))
        assert near(Linear().on("b")(self.frame), X[:, 1:2] @ X[:, 1:2].T)

    def test_only_the_named_columns_are_read(self):
        frame = markets.Frame({"text": np.array(["u"] * 6), "b": X[:, 1]})
        assert near(Linear().on("b")(frame), X[:, 1:2] @ X[:, 1:2].T)

    def test_names_and_numbers_mixed(self):
        k = Gaussian().on([0]) + Linear().on(["b"])
        assert near(k(self.frame), Gaussian()(X[:, :1]) + X[:, 1:2] @ X[:, 1:2].T)

    def test_names_and_all_columns_mixed(self):
        k = Gaussian() + Linear().on(["b"])
        assert near(k(self.frame), Gaussian()(X) + X[:, 1:2] @ X[:, 1:2].T)

    def test_columns_in_another_order(self):
        other = self.frame[["c", "a", "b"]]
        assert near(Linear().on("b")(self.frame, other), X[:, 1:2] @ X[:, 1:2].T)

    def test_sums_with_kernels_that_look_at_all_columns(self):
        block = BlockKernel(markets.laplace_block)
        expected = Gaussian()(X[:, :1]) + markets.laplace_block(X, X)
        assert near((block + Gaussian().on("a"))(self.frame), expected)
        assert near((Gaussian().on("a") + block)(self.frame), expected)


class TestObjects:
    @pytest.mark.parametrize("name", markets.KERNELS)
    def test_clone(self, name):
        kernel = markets.KERNELS[name][0]
        clone = sklearn.base.clone(kernel)
        assert clone == kernel
        assert type(clone) is type(kernel)

    @pytest.mark.parametrize("name", markets.KERNELS)
    def test_pickled_kernels_have_the_same_values(self, name):
        kernel, points = markets.KERNELS[name]
        points = X[:, :2] if points is None else points
        twin = pickle.loads(pickle.dumps(kernel))
        assert np.array_equal(twin(points), kernel(points))

    @pytest.mark.parametrize("kernel", [Gaussian, Linear, Polynomial, Matern, Constant])
    def test_defaults(self, kernel):
        assert kernel() == kernel(**kernel().get_params())

    def test_equality(self):
        assert Gaussian(1) == Gaussian(1.0)
        assert hash(Gaussian(1)) == hash(Gaussian(1.0))
        assert Gaussian([1.0, 2.0]) == Gaussian((1.0, 2.0))
        assert Gaussian(1.0) != Gaussian(2.0)
        assert Gaussian() != Matern()
        assert Gaussian() != "Gaussian()"
        assert Gaussian() + Linear() != Linear() + Gaussian()
        assert Precomputed(np.eye(2)) == Precomputed(np.eye(2))
        assert Precomputed(np.eye(2)) != Precomputed(np.ones((2, 2)))
        assert len({Gaussian(), Gaussian(), Linear()}) == 2

    def test_kernels_are_frozen(self):
        with pytest.raises(AttributeError):
            Gaussian().lengthscale = 2.0

    @pytest.mark.parametrize(
        ("kernel", "text"),
        [
            (Gaussian(0.5), "Gaussian(lengthscale=0.5)"),
            (2.0 * Gaussian(), "2.0 * Gaussian(lengthscale=1.0)"),
            (
                ONE * (ONE + ONE),
                "Constant(value=1.0) * (Constant(value=1.0) + Constant(value=1.0))",
            ),
            (
                ONE + (ONE + ONE),
                "Constant(value=1.0) + (Constant(value=1.0) + Constant(value=1.0))",
            ),
            (ONE + ONE + ONE, "Constant(value=1.0) + Constant(value=1.0) + Constant(value=1.0)"),
            (ONE * (2.0 * ONE), "Constant(value=1.0) * (2.0 * Constant(value=1.0))"),
            (2.0 * (3.0 * ONE), "2.0 * (3.0 * Constant(value=1.0))"),
            ((ONE * ONE).on("a"), "(Constant(value=1.0) * Constant(value=1.0)).on(['a'])"),
            (PairKernel(markets.smallest), "PairKernel(smallest)"),
            (Precomputed(np.eye(2)), "Precomputed(matrix of shape (2, 2))"),
        ],
    )
    def test_repr(self, kernel, text):
        assert repr(kernel) == text

    def test_operators_make_what_they_say(self):
        assert isinstance(Gaussian() + 1, Sum)
        assert isinstance(Gaussian() * Gaussian(), Product)
        assert isinstance(Gaussian() * 2, Scaled)
        assert isinstance(np.float64(2.0) * Gaussian(), Scaled)
        assert isinstance(np.float64(2.0) + Gaussian(), Sum)
        assert isinstance(Gaussian().on(1), Columns)
        assert Gaussian().on(1) == Gaussian().on([1])

    @pytest.mark.parametrize("other", ["text", None, [1.0], 1j])
    def test_other_operands_are_refused(self, other):
        for combine in (lambda: Gaussian() + other, lambda: Gaussian() * other):
            with pytest.raises(TypeError):
                combine()

    def test_parameters_at_any_depth(self):
        k = markets.COMPOSITE
        changed = k.with_(left__kernel__lengthscale=9.0, right__right__lengthscale=8.0)
        assert changed.left.kernel == Gaussian(9.0)
        assert changed.right.right == Matern(1.5, 8.0)
        assert k.left.kernel == Gaussian(0.5)
        assert k.get_params()["right__right__smoothness"] == 1.5
        assert "right__right__smoothness" not in k.get_params(deep=False)

    def test_a_part_and_its_parameters_together(self):
        k = (Gaussian() + Linear()).with_(left=Matern(0.5), left__lengthscale=7.0)
        assert k == Matern(0.5, 7.0) + Linear()

    def test_parts(self):
        kinds = [type(part) for part in parts(markets.COMPOSITE)]
        assert kinds == [Sum, Scaled, Gaussian, Product, Linear, Matern]


class TestCustom:
    def test_pairs_and_blocks_agree(self):
        def pair(x, y):
            return np.exp(-np.abs(x - y).sum())

        block = BlockKernel(markets.laplace_block)
        assert near(PairKernel(pair)(X, Y), block(X, Y))

    def test_functions_in_their_space(self):
        f = BlockKernel(markets.laplace_block).function(X, np.ones(6))
        assert near(f(Y), markets.laplace_block(Y, X).sum(axis=1))

    def test_words(self):
        k = PairKernel(markets.common_letters)
        assert k("kernel", "learn") == 4.0
        assert k(["ab", "bc"]).tolist() == [[2.0, 1.0], [1.0, 2.0]]

    def test_numbers_beside_words(self):
        k = 2.0 * PairKernel(markets.common_letters) + 1.0
        assert k(["ab", "bc"]).tolist() == [[5.0, 3.0], [3.0, 5.0]]

    def test_constant_expressions_beside_words(self):
        k = 2.0 * Constant(1.0) + PairKernel(markets.common_letters)
        assert k(["ab", "bc"]).tolist() == [[4.0, 3.0], [3.0, 4.0]]

    def test_sparse_rows_come_as_vectors_to_pairs(self):
        matrix = markets.sparse(5)
        value = PairKernel(lambda x, y: float(x @ y))(matrix)
        assert near(value, (matrix @ matrix.T).toarray())

    def test_sparse_blocks_may_return_sparse(self):
        matrix = markets.sparse(5)
        assert near(BlockKernel(lambda X, Y: X @ Y.T)(matrix), (matrix @ matrix.T).toarray())

    def test_precomputed(self):
        k = Precomputed(markets.MATRIX)
        assert np.array_equal(k.gram(range(12)).dense(), markets.MATRIX)
        assert k(3, 5) == markets.MATRIX[3, 5]
        assert near(k.gram([1, 4], range(12)) @ np.ones(12), markets.MATRIX[[1, 4]].sum(axis=1))
        assert np.array_equal(k.gram([2, 2]).diagonal(), markets.MATRIX[[2, 2], [2, 2]])

    def test_precomputed_in_float32_stays_so(self):
        k = Precomputed(markets.MATRIX.astype(np.float32))
        assert k.gram(range(12)).dense().dtype == np.float32

    def test_blocks_are_tiles(self):
        seen = []

        def block(X, Y):
            seen.append((len(X), len(Y)))
            return np.ones((len(X), len(Y)))

        BlockKernel(block).gram(np.zeros((700, 1)), np.zeros((1500, 1))) @ np.ones(1500)
        assert sum(n * m for n, m in seen) == 700 * 1500
        assert max(n * m for n, m in seen) <= 1 << 18

    def test_slow_kernels_warn(self):
        class Slower(PairKernel):
            slow = 10

        with pytest.warns(SlowKernelWarning, match="calls a Python function for each pair"):
            Slower(markets.smallest)(X, X)
