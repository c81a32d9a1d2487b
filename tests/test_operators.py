"""The Gram matrix as something to multiply by."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse.linalg

import markets
from mercer.features import Nystroem
from mercer.kernels import BlockKernel, Gaussian, Linear, Precomputed
from mercer.operators import (
    Affine,
    BlockedGram,
    FeatureMatrix,
    Gram,
    HalfStoredGram,
    Identity,
    MappedRows,
    MixedPrecision,
    StoredGram,
    cross_gram,
    stored_if_small,
)

X, Y = markets.normal(30), markets.normal(20, seed=1)


class TestMatrix:
    def test_nothing_is_computed_when_it_is_made(self):
        gram = Gaussian().gram(X, Y)
        assert gram.evaluations == 0
        assert gram.shape == (30, 20)
        assert gram.dtype == np.float64
        assert not gram.symmetric
        assert Gaussian().gram(X).symmetric

    def test_repr(self):
        expected = "Gram(Gaussian(lengthscale=1.0), shape=(30, 20), dtype=float64)"
        assert repr(Gaussian().gram(X, Y)) == expected

    def test_transposed(self):
        gram = Gaussian().gram(X, Y)
        assert gram.T.shape == (20, 30)
        assert np.allclose(gram.T.dense(), gram.dense().T, rtol=1e-14)
        assert Gaussian().gram(X).T.symmetric

    def test_evaluations_are_counted(self):
        gram = Gaussian().gram(X, Y)
        gram @ np.ones(20)
        gram.dense()
        gram.columns([1, 2])
        gram.normal_matmul(np.ones(20))
        assert gram.evaluations == 3 * 600 + 60
        symmetric = Gaussian().gram(X)
        symmetric @ np.ones(30)
        assert symmetric.evaluations == 30 * 31 // 2

    def test_from_the_left(self):
        gram, w = Gaussian().gram(X, Y), np.arange(30.0)
        assert np.allclose(w @ gram, w @ gram.dense())
        assert np.allclose(np.ones((2, 30)) @ gram, np.ones((2, 30)) @ gram.dense())

    @pytest.mark.parametrize("indices", [3, [3], [7, -1, 7], np.array([True] + [False] * 19)])
    def test_columns(self, indices):
        gram = Gaussian().gram(X, Y)
        assert np.allclose(gram.columns(indices), gram.dense()[:, np.atleast_1d(indices)])

    def test_values_of_any_order(self):
        gram = Gaussian().gram(X, Y)
        V = np.asfortranarray(markets.normal(20, 4))
        assert np.allclose(gram @ V[:, ::2], gram.dense() @ V[:, ::2])
        assert np.allclose(gram @ list(V[:, 0]), gram.dense() @ V[:, 0])
        assert (gram @ V[:, :0]).shape == (30, 0)

    def test_values_are_left_as_they_are(self):
        V = markets.normal(20, 2)
        V.setflags(write=False)
        assert np.allclose(Gaussian().gram(X, Y) @ V, Gaussian().gram(X, Y).dense() @ V)

    def test_shift_of_one_column_for_all(self):
        gram, V, w = Gaussian().gram(X, Y), markets.normal(20, 3), np.ones(30)
        K = gram.dense()
        assert np.allclose(gram.normal_matmul(V, w[:, None]), K.T @ (K @ V + w[:, None]))


class TestPrecision:
    single = X.astype(np.float32)

    @pytest.mark.parametrize(
        ("points", "values", "result"),
        [
            (np.float32, np.float32, np.float32),
            (np.float32, np.float64, np.float64),
            (np.float64, np.float32, np.float64),
            (np.float32, np.int64, np.float32),
            (np.float32, np.float16, np.float32),
            (np.int64, np.float32, np.float64),
        ],
    )
    def test_the_wider_one_decides(self, points, values, result):
        gram = Gaussian().gram(X.astype(points))
        assert (gram @ np.ones(30, values)).dtype == result
        assert gram.normal_matmul(np.ones(30, values)).dtype == result

    def test_one_side_in_float32(self):
        gram = Gaussian().gram(self.single, Y)
        assert gram.dtype == np.float64
        assert np.allclose(gram.dense(), Gaussian()(self.single.astype(np.float64), Y), rtol=1e-14)

    def test_float32_points_in_float64(self):
        exact = Gaussian()(self.single.astype(np.float64)) @ np.ones(30)
        assert np.allclose(Gaussian().gram(self.single) @ np.ones(30), exact, rtol=1e-14)


class TestMixedStorage:
    def test_sparse_with_dense(self):
        S = markets.sparse(15)
        D = S.toarray()[:7]
        for kernel in (Gaussian(), Linear(1.0)):
            for left, right in ((S, D), (D, S), (S, S[:7])):
                dense = [p if isinstance(p, np.ndarray) else p.toarray() for p in (left, right)]
                assert np.allclose(kernel(left, right), kernel(*dense), rtol=1e-13)


class TestPlan:
    @pytest.mark.parametrize("name", markets.ALL_EXPRESSIONS)
    def test_every_kernel_with_a_program_is_fused(self, name):
        plan = markets.ALL_EXPRESSIONS[name].gram(X[:, :2]).plan()
        assert plan.execution.startswith("fused")
        assert plan.symmetric

    @pytest.mark.parametrize("name", markets.WITHOUT_EXPRESSION)
    def test_other_kernels_give_blocks(self, name):
        kernel, points = markets.WITHOUT_EXPRESSION[name]
        plan = kernel.gram(X if points is None else points).plan()
        assert plan.execution == "blocks from the kernel's own function"
        assert plan.distances == ""

    def test_sentence(self):
        text = str(Gaussian().gram(X).plan())
        assert text.startswith("fused on the CPU: tiles of ")
        assert "distances by differences, each symmetric pair once; at most " in text
        assert "distances" not in str(Linear().gram(X, Y).plan())

    @pytest.mark.parametrize("points", ["csr", "wide"])
    def test_products_lose_no_digits_by_repair(self, points, tmp_path):
        data = markets.POINTS[points](tmp_path)
        assert "close pairs by differences" in Gaussian().gram(data).plan().distances

    def test_planning_computes_nothing(self):
        gram = Gaussian().gram(X)
        gram.plan()
        assert gram.evaluations == 0


class TestSciPy:
    gram = Gaussian().gram(X)

    def test_linear_operator(self):
        operator = scipy.sparse.linalg.aslinearoperator(Gaussian().gram(X, Y))
        K = Gaussian()(X, Y)
        assert np.allclose(operator @ np.ones(20), K.sum(axis=1))
        assert np.allclose(operator.rmatvec(np.ones(30)), K.sum(axis=0))
        assert np.allclose(operator @ markets.normal(20, 2), K @ markets.normal(20, 2))

    def test_eigenvalues(self):
        operator = scipy.sparse.linalg.aslinearoperator(self.gram)
        values = scipy.sparse.linalg.eigsh(operator, k=3, v0=np.ones(30))[0]
        assert np.allclose(np.sort(values), np.linalg.eigvalsh(self.gram.dense())[-3:])

    def test_singular_values(self):
        operator = scipy.sparse.linalg.aslinearoperator(Gaussian().gram(X, Y))
        values = scipy.sparse.linalg.svds(
            operator, k=2, v0=np.ones(20), return_singular_vectors=False
        )
        exact = np.linalg.svd(Gaussian()(X, Y), compute_uv=False)[:2]
        assert np.allclose(np.sort(values), np.sort(exact))

    def test_conjugate_gradients(self):
        class Shifted(scipy.sparse.linalg.LinearOperator):
            def _matvec(self, v):
                return TestSciPy.gram @ v + 0.1 * v

        b = np.ones(30)
        solution, failed = scipy.sparse.linalg.cg(Shifted(np.float64, (30, 30)), b, rtol=1e-12)
        assert not failed
        assert np.allclose(self.gram.dense() @ solution + 0.1 * solution, b)


def test_points_of_the_same_numbers_need_not_be_the_same_object():
    gram = Gaussian().gram(X, X)
    assert not gram.symmetric or gram.x is gram.y
    assert np.allclose(gram @ np.ones(30), Gaussian().gram(X) @ np.ones(30), rtol=1e-13)


def test_a_gram_of_points_already_made():
    points = Gaussian().points(X)
    assert Gram(Gaussian(), points, points).symmetric


ASYMMETRIC = markets.normal(7, 7)


class TestGivenMatrices:
    """Matrices that were given need not be square, nor symmetric."""

    def test_a_rectangular_one_from_both_sides(self):
        matrix = markets.normal(6, 4)
        gram = Precomputed(matrix).gram(range(6), range(4))
        W = markets.normal(6, 2, 1)
        assert np.allclose(gram.T @ W, matrix.T @ W)
        assert np.allclose(W[:, 0] @ gram, W[:, 0] @ matrix)
        assert np.allclose(W.T @ gram, W.T @ matrix)
        assert gram.T.shape == (4, 6)
        assert np.array_equal(gram.T.dense(), matrix.T)
        assert gram.T.T is gram

    def test_a_square_one_is_not_mirrored(self):
        gram = Precomputed(ASYMMETRIC).gram(range(7))
        assert not gram.symmetric
        assert np.array_equal(gram.dense(), ASYMMETRIC)
        assert np.allclose(gram.T @ np.ones(7), ASYMMETRIC.sum(axis=0))
        assert np.array_equal(gram.diagonal(), np.diagonal(ASYMMETRIC))
        assert gram.plan().symmetric is False

    @pytest.mark.parametrize(
        ("made", "entries"),
        [
            (lambda k: k + 2.0 * k, lambda a: 3.0 * a),
            (lambda k: k * k, lambda a: a**2),
            (lambda k: k.exp(), np.exp),
        ],
    )
    def test_what_is_made_of_an_asymmetric_one_is_not_mirrored(self, made, entries):
        gram, matrix = made(Precomputed(ASYMMETRIC)).gram(range(7)), entries(ASYMMETRIC)
        assert np.allclose(gram.dense(), matrix)
        assert np.allclose(np.ones(7) @ gram, matrix.sum(axis=0))

    def test_many_rows_of_an_asymmetric_one(self):
        matrix = markets.normal(600, 600)
        gram = Precomputed(matrix).gram(range(600))
        v = np.ones(600)
        assert np.allclose(gram @ v, matrix @ v)
        assert np.allclose(gram.T @ v, matrix.T @ v)

    def test_rounding_does_not_make_a_matrix_asymmetric(self):
        matrix = ASYMMETRIC @ ASYMMETRIC.T
        matrix[0, 1] *= 1 + 4e-16
        gram = Precomputed(matrix).gram(range(7))
        assert gram.symmetric
        assert gram.T is gram


class TestParts:
    gram = Gaussian().gram(X, Y)

    @pytest.mark.parametrize(
        ("rows", "columns"),
        [
            (slice(2, 9), slice(None)),
            (slice(None), [3, 1, 3]),
            ([0, -1], slice(1, 20, 4)),
            (np.arange(30) % 2 == 0, 5),
            (slice(4, 2), slice(None)),
        ],
    )
    def test_a_part_is_the_part_of_the_matrix(self, rows, columns):
        part = self.gram[rows, columns]
        wanted = self.gram.dense()[np.atleast_1d(rows) if np.ndim(rows) else rows]
        wanted = wanted[:, np.atleast_1d(columns) if not isinstance(columns, slice) else columns]
        assert part.shape == wanted.shape
        assert np.allclose(part.dense(), wanted, rtol=1e-14)
        v = np.ones(wanted.shape[1])
        assert np.allclose(part @ v, wanted @ v)
        assert np.allclose(part.T @ np.ones(len(wanted)), wanted.sum(axis=0))

    def test_rows_alone(self):
        assert np.allclose(self.gram[[1, 2]].dense(), self.gram.dense()[[1, 2]])
        assert np.allclose(self.gram.T[[1, 2]].dense(), self.gram.dense().T[[1, 2]])

    def test_points_are_shared(self):
        assert self.gram[:, [1]].x is self.gram.x
        assert self.gram[2:4].y is self.gram.y

    def test_equal_rows_and_columns_stay_symmetric(self):
        gram = Gaussian().gram(X)
        chosen = np.array([4, 2, 9])
        for places in (chosen, slice(3, 9), [1, 2]):
            assert gram[places, places].symmetric
        assert gram[chosen, chosen.copy()].symmetric
        assert not gram[chosen, [4, 2, 8]].symmetric
        assert not gram[chosen, :].symmetric

    def test_nothing_is_computed_before_it_is_asked_for(self):
        part = self.gram[:5]
        assert part.evaluations == 0
        part @ np.ones(20)
        assert part.evaluations == 100


class Doubling:
    """A row map with everything a map can give."""

    def __call__(self, start, stop, rows):
        return MappedRows(2.0 * rows, rows.sum(axis=0), np.arange(start, stop)[:, None] + rows)


def operators():
    k, phi = Gaussian(), Nystroem(Gaussian(), n_components=6, random_state=0).fit(X)
    points, centres = k.points(X), k.points(Y)
    gram = k.gram(points, centres)
    return {
        "gram": gram,
        "transposed": gram.T,
        "stored": StoredGram(k, points, centres),
        "half stored": HalfStoredGram(k, points),
        "blocks": BlockedGram(k, [X[:7], X[7:8], X[8:]], centres, 30),
        "mixed": MixedPrecision(gram.astype(np.float32)),
        "mixed stored": MixedPrecision(StoredGram(k, points, centres)),
        "mixed blocks": MixedPrecision(
            BlockedGram(k, [X[:7], X[7:]], centres, 30).astype(np.float32)
        ),
        "features": FeatureMatrix(phi, X),
        "identity": Identity(30),
    }


@pytest.mark.parametrize("name", operators())
class TestOperators:
    def test_every_operator_multiplies_as_its_matrix(self, name):
        operator = operators()[name]
        matrix = np.asarray(operator.dense(), float)
        n, m = operator.shape
        assert matrix.shape == (n, m)
        rtol = 2e-6 if name.startswith("mixed") else 1e-12
        for V, W in ((markets.normal(m, 2, 1), markets.normal(n, 2, 2)), (np.ones(m), np.ones(n))):
            np.testing.assert_allclose(operator @ V, matrix @ V, rtol, 20 * rtol)
            np.testing.assert_allclose(operator.T @ W, matrix.T @ W, rtol, 20 * rtol)
            np.testing.assert_allclose(W.T @ operator, W.T @ matrix, rtol, 20 * rtol)

    def test_one_signature_of_row_passes(self, name):
        operator = operators()[name]
        matrix = np.asarray(operator.dense(), float)
        V = markets.normal(operator.shape[1], 2, 1)
        found, image = operator.row_pass(V, Doubling()), matrix @ V
        rtol = 1e-5 if name.startswith("mixed") else 1e-11
        np.testing.assert_allclose(found.product, matrix.T @ (2 * image), rtol, 20 * rtol)
        np.testing.assert_allclose(found.sums, image.sum(axis=0), rtol, 50 * rtol)
        numbers = np.arange(len(image))[:, None]
        np.testing.assert_allclose(found.values, numbers + image, rtol, 20 * rtol)

    def test_affine_maps(self, name):
        operator = operators()[name]
        matrix = np.asarray(operator.dense(), float)
        V, w = markets.normal(operator.shape[1], 1, 1), markets.normal(operator.shape[0], 1, 2)
        found = operator.row_pass(V, Affine(w, np.ones((1, 1)), keep_values=True))
        rtol = 1e-5 if name.startswith("mixed") else 1e-11
        expected = matrix.T @ (w * (matrix @ V + 1.0))
        np.testing.assert_allclose(found.product, expected, rtol, 20 * rtol)
        np.testing.assert_allclose(found.values, matrix @ V, rtol, 20 * rtol)


def test_mixed_precision_loses_no_digit_of_the_vector():
    gram = Gaussian().gram(X.astype(np.float32), Y.astype(np.float32))
    v = 1e6 * np.where(np.arange(20) % 2, 1.0, -1.0) + np.pi
    stored = gram.dense().astype(float)
    plain = np.abs(gram @ v.astype(np.float32) - stored @ v).max()
    mixed = np.abs(MixedPrecision(gram) @ v - stored @ v).max()
    assert mixed < plain


def test_blocks_are_read_anew_and_counted():
    k = Gaussian()
    blocks = BlockedGram(k, [X[:10], X[10:]], k.points(Y), 30)
    assert np.allclose(blocks[[1, 12]].dense(), k(X[[1, 12]], Y))
    assert np.allclose(blocks[::10, [2]].dense(), k(X[::10], Y[[2]]))
    with pytest.raises(ValueError, match="an iterator, which gives them once"):
        BlockedGram(k, iter([X]), k.points(Y), 30)
    with pytest.raises(ValueError, match="have 30 rows, and y has 31"):
        BlockedGram(k, [X], k.points(Y), 31) @ np.ones(20)


def test_a_cross_gram_is_stored_where_points_are_wide_and_memory_allows():
    k, wide = Gaussian(), np.ones((50, 60))
    points, centres = k.points(wide), k.points(wide[:5])
    assert isinstance(cross_gram(k, points, centres), StoredGram)
    assert type(cross_gram(k, points, centres, memory=2000)) is Gram
    assert type(cross_gram(k, k.points(X), k.points(Y))) is Gram


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 128, 129, 700])  # rows of a square, of a stripe, of some parts
def test_one_triangle_multiplies_as_the_whole_matrix(n, dtype):
    k = Gaussian(2.0) if n < 700 else BlockKernel(lambda x, y: x @ y.T)
    gram = k.gram(markets.normal(n, 3, 0, dtype))
    half, K = stored_if_small(gram), np.asarray(gram.dense(), float)
    assert isinstance(half, HalfStoredGram)
    scale = np.abs(K).sum(axis=1).max() * np.finfo(dtype).eps
    for columns in (1, 7, 8, 17):
        V = markets.normal(n, columns, 1, dtype)
        np.testing.assert_allclose(half @ V, K @ V.astype(float), rtol=0, atol=20 * scale)
        assert np.array_equal(half.T @ V, half @ V)
    V = markets.normal(n, 2, 1)  # of another precision: computed
    np.testing.assert_allclose(half @ V, K @ V, rtol=0, atol=20 * scale)


def test_an_operator_can_be_pickled():
    gram = Gaussian().gram(X, Y)
    gram @ np.ones(20)
    again = pickle.loads(pickle.dumps(gram))
    assert np.array_equal(again @ np.ones(20), gram @ np.ones(20))


class TestAsNumbersOfNumPy:
    """Multiples and parts are not stored; np.asarray stores, within the memory budget."""

    X = np.random.default_rng(0).standard_normal((6, 2))

    def test_multiples_are_lazy(self):
        gram, v = Gaussian().gram(self.X, self.X[:4]), np.arange(4.0)
        K = gram.dense()
        gram.evaluations = 0
        for multiple, c in (
            (2 * gram, 2.0), (gram * np.float64(0.5), 0.5), (gram / 4, 0.25), (-gram, -1.0),
            (3 * (2 * gram), 6.0),
        ):  # fmt: skip
            assert gram.evaluations == 0
            assert multiple.shape == (6, 4)
            assert np.allclose(multiple @ v, c * K @ v)
            assert np.allclose(multiple.T @ np.ones(6), c * K.sum(axis=0))
            assert np.allclose(multiple[1:3, [0, 2]].dense(), c * K[1:3][:, [0, 2]])
            gram.evaluations = 0
        assert (2 * gram).astype(np.float32).dense().dtype == np.float32
        assert np.allclose((2 * Gaussian().gram(self.X)).diagonal(), 2.0)
        with pytest.raises(TypeError):
            gram * "2"

    def test_an_array_is_stored_within_the_budget(self):
        gram = Gaussian().gram(self.X)
        assert np.array_equal(np.asarray(gram), gram.dense())
        assert np.asarray(gram, np.float32).dtype == np.float32
        assert np.allclose(np.linalg.eigvalsh(gram), np.linalg.eigvalsh(gram.dense()))
        with pytest.raises(ValueError, match="no array without a copy"):
            np.array(gram, copy=False)
        many = Gaussian().gram(np.zeros((2000, 1)), memory="1MB")
        for large in (many, 2 * many, many[:, :1000]):
            with pytest.raises(MemoryError, match=r"memory budget is 1 MB: write \.dense\(\)"):
                np.asarray(large)
        assert many.evaluations == 0


def test_other_precisions_share_the_points_that_are_packed() -> None:
    gram = Gaussian().gram(np.random.default_rng(0).normal(size=(30, 2)))
    gram @ np.ones(30)
    assert gram.astype(np.float32).astype(np.float64).execution() is gram.execution()
