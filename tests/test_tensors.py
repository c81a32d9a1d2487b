"""Tensors of torch in, tensors of torch out: points, operators, functions, solvers, estimators.

On the CPU they are computed as the NumPy arrays whose memory they share, so that what is tested
here is the path of the arrays; `tests/evaluation/test_gpu.py` tests the code of the GPU.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("array_api_compat")

from mercer.kernels import Gaussian, Linear  # noqa: E402
from mercer.points import as_vectors  # noqa: E402


def rows(n, width=3, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((n, width)).astype(dtype)


class TestPoints:
    def test_types_stay_and_others_become_float64(self):
        assert as_vectors(torch.zeros((2, 3), dtype=torch.float32)).dtype == np.float32
        assert as_vectors(torch.zeros((2, 3), dtype=torch.int64)).dtype == np.float64

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (torch.tensor([[1.0, float("nan")]]), "contain NaN"),
            (torch.tensor([[1.0, float("inf")]]), "contain infinity"),
            (torch.zeros(3), "two-dimensional tensor.*reshape"),
            (torch.zeros((2, 2), dtype=torch.float16), "float32 or float64; got torch.float16"),
            (torch.zeros((2, 2), dtype=torch.complex64), "got torch.complex64"),
        ],
    )
    def test_what_is_refused(self, data, message):
        with pytest.raises(ValueError, match=message):
            as_vectors(data)

    def test_tensors_and_arrays_do_not_mix(self):
        with pytest.raises(ValueError, match="of one kind; got TensorPoints and DensePoints"):
            Gaussian().gram(torch.zeros((2, 3)), np.zeros((2, 3)))


class TestOperators:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_products_are_those_of_arrays(self, dtype):
        X, Y, V = rows(20, dtype=dtype), rows(30, seed=1, dtype=dtype), rows(30, 2, 2, dtype)
        kernel = Gaussian() + Linear()
        ours = kernel.gram(torch.tensor(X), torch.tensor(Y))
        theirs = kernel.gram(X, Y)
        W = rows(20, 2, 3, dtype)
        pairs = [
            (ours @ torch.tensor(V), theirs @ V),
            (ours.T @ torch.tensor(W), theirs.T @ W),
            (torch.tensor(W).T @ ours, W.T @ theirs),
            (ours.normal_matmul(torch.tensor(V), torch.tensor(W)), theirs.normal_matmul(V, W)),
            (ours.dense(), theirs.dense()),
            (ours.columns([2, 0]), theirs.columns([2, 0])),
            (kernel.gram(torch.tensor(X)).diagonal(), kernel.gram(X).diagonal()),
        ]
        for tensor, array in pairs:
            assert isinstance(tensor, torch.Tensor)
            np.testing.assert_array_equal(tensor.numpy(), array)

    def test_what_a_gram_matrix_cannot_multiply(self):
        gram = Gaussian().gram(torch.zeros((3, 2)))
        with pytest.raises(ValueError, match=r"needs values with 3 rows here; got shape \(2,\)"):
            gram @ torch.zeros(2)
        with pytest.raises(ValueError, match=r"real numbers; got torch\.complex64"):
            gram @ torch.zeros(3, dtype=torch.complex64)

    def test_precisions(self):
        with pytest.raises(ValueError, match="precision must be one of"):
            Gaussian().gram(torch.zeros((3, 2)), precision="half")
        with pytest.raises(ValueError, match=r"tf32.*is for tensors"):
            Gaussian().gram(np.zeros((3, 2)), precision="tf32")
        assert (
            Gaussian().gram(np.zeros((3, 2), np.float32), precision="float64").dtype == np.float64
        )
