"""The Gram matrix as something to multiply by."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse.linalg

import markets
from mercer.kernels import Gaussian, Linear
from mercer.operators import Gram

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
    @pytest.mark.parametrize("name", markets.PROGRAMS)
    def test_every_kernel_with_a_program_is_fused(self, name):
        plan = markets.PROGRAMS[name].gram(X[:, :2]).plan()
        assert plan.execution.startswith("fused")
        assert plan.symmetric

    @pytest.mark.parametrize("name", markets.WITHOUT_PROGRAM)
    def test_other_kernels_give_blocks(self, name):
        kernel, points = markets.WITHOUT_PROGRAM[name]
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
