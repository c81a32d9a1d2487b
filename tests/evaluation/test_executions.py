"""One set of assertions for every execution, against the reference; a new one adds a line here.

Those on tensors run where torch is installed, Triton's through its interpreter
(`TRITON_INTERPRET=1`).
"""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass

import numpy as np
import pytest

import markets
from mercer.arrays import as_numpy
from mercer.evaluation.dispatch import execution_for
from mercer.evaluation.execution import Affine, MappedRows
from mercer.evaluation.reference import Reference
from mercer.kernels import BlockKernel, Gaussian, Matern, Precomputed
from mercer.points import HostedPoints

try:
    import torch
except ImportError:
    torch = None

N, M, WIDTH = 23, 17, 3
KERNELS = {
    "gaussian": Gaussian(0.7),
    "composite": 2.0 * Gaussian(0.5) + Matern(1.5, lengthscale=2.0),
}


def as_blocks(kernel):
    """The same kernel as a function of blocks: it has no expression."""
    return BlockKernel(lambda X, Y: kernel(np.asarray(X), np.asarray(Y)))


def host(kernel, X, Y, precision=None):
    same = X is Y
    x = kernel.points(X)
    return execution_for(kernel, x, x if same else kernel.points(Y), X.dtype, None, precision)


def tensors(kernel, X, Y):
    return execution_for(kernel, *as_tensors(kernel, X, Y), X.dtype)


def hosted(kernel, X, Y):
    x, y = as_tensors(kernel, X, Y)
    there = HostedPoints(x)
    return execution_for(kernel, there, there if y is x else HostedPoints(y), X.dtype)


def plain_torch(kernel, X, Y):
    from mercer.evaluation.gpu.execution import Torch

    return Torch(kernel, *as_tensors(kernel, X, Y), X.dtype, None)


def as_tensors(kernel, X, Y):
    x = kernel.points(torch.tensor(X))
    return x, x if X is Y else kernel.points(torch.tensor(Y))


EXECUTIONS = {
    "cpu": host,
    "own blocks": lambda kernel, X, Y: host(as_blocks(kernel), X, Y),
    "reference": lambda kernel, X, Y: host(kernel, X, Y, "reference"),
    "tensors": tensors,  # through NumPy, or through Triton where it interprets
    "hosted": hosted,  # points as tensors, all other numbers as arrays
    "torch": plain_torch,
}
NEEDS_TORCH = ("tensors", "torch", "hosted")


@pytest.fixture(params=EXECUTIONS)
def make(request):
    if request.param in NEEDS_TORCH and torch is None:
        pytest.skip("torch is not installed")
    name = request.param

    def made(kernel, X, Y):
        return EXECUTIONS[name](kernel, X, Y)

    made.array = torch.tensor if name in ("tensors", "torch") else np.array
    made.blocks = name == "own blocks"
    return made


@dataclass(frozen=True)
class Squares:
    """A map that weighs rows, sums their squares and hands the rows back."""

    weights: object

    def __call__(self, start, stop, rows):
        weights = self.weights[start:stop]
        return MappedRows(weights * rows, (rows * rows).sum(), rows)


def points(dtype, symmetric=False):
    X = markets.normal(N, WIDTH, 0, dtype)
    return X, X if symmetric else markets.normal(M, WIDTH, 1, dtype)


def exact(kernel, X, Y):
    wide = (side.astype(np.float64) for side in (X, Y))
    return Reference(kernel, *(kernel.points(side) for side in wide))


def close(found, expected, dtype, scale=1.0):
    tolerance = 2e-5 if dtype == np.float32 else 1e-11
    found = np.asarray(as_numpy(found), np.float64)
    assert np.abs(found - expected).max(initial=0.0) <= tolerance * scale


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("symmetric", [False, True], ids=["cross", "symmetric"])
class TestAgainstTheReference:
    def test_products(self, make, name, dtype, symmetric):
        kernel, (X, Y) = KERNELS[name], points(dtype, symmetric)
        ours, theirs = make(kernel, X, Y), exact(kernel, X, Y)
        for columns in (1, 4):
            V, U = (markets.normal(len(side), columns, 7, dtype) for side in (Y, X))
            close(ours.product(make.array(V)), theirs.product(V), dtype, 20.0)
            close(ours.transposed_product(make.array(U)), theirs.transposed_product(U), dtype, 20.0)

    def test_block_and_diagonal(self, make, name, dtype, symmetric):
        kernel, (X, Y) = KERNELS[name], points(dtype, symmetric)
        ours, theirs = make(kernel, X, Y), exact(kernel, X, Y)
        close(ours.block(), theirs.block(), dtype)
        close(ours.diagonal(), theirs.diagonal(), dtype)

    def test_row_pass(self, make, name, dtype, symmetric):
        kernel, (X, Y) = KERNELS[name], points(dtype, symmetric)
        ours, theirs = make(kernel, X, Y), exact(kernel, X, Y)
        V, weights = markets.normal(len(Y), 2, 7, dtype), markets.normal(N, 1, 8)
        found = ours.row_pass(make.array(V), Squares(make.array(weights.astype(dtype))))
        expected = theirs.row_pass(V.astype(np.float64), Squares(weights))
        for part, other in zip(found, expected, strict=True):
            close(part, other, dtype, 200.0)
        assert str(found.product.dtype).endswith("float64")

    def test_affine_row_pass(self, make, name, dtype, symmetric):
        kernel, (X, Y) = KERNELS[name], points(dtype, symmetric)
        ours, theirs = make(kernel, X, Y), exact(kernel, X, Y)
        V, w, b = markets.normal(len(Y), 2, 7, dtype), *(markets.normal(N, 2, s) for s in (8, 9))
        found = ours.row_pass(make.array(V), Affine(make.array(w), make.array(b), keep_values=True))
        expected = theirs.row_pass(V.astype(np.float64), Affine(w, b, keep_values=True))
        close(found.product, expected.product, dtype, 200.0)
        close(found.values, expected.values, dtype, 20.0)

    def test_gradients(self, make, name, dtype, symmetric):
        if make.blocks:
            pytest.skip("a function of blocks has no derivatives")
        kernel, (X, Y) = KERNELS[name], points(dtype, symmetric)
        ours, theirs = make(kernel, X, Y), exact(kernel, X, Y)
        V, U = (markets.normal(len(side), 2, 7, dtype) for side in (Y, X))
        close(ours.gradient(make.array(V)), theirs.gradient(V.astype(np.float64)), dtype, 50.0)
        expected = theirs.parameter_gradient(U.astype(np.float64), V.astype(np.float64))
        found = ours.parameter_gradient(make.array(U), make.array(V))
        assert found.keys() == expected.keys()
        for parameter, slope in found.items():
            close(slope, expected[parameter], dtype, 500.0)

    def test_plan(self, make, name, dtype, symmetric):
        kernel, (X, Y) = KERNELS[name], points(dtype, symmetric)
        plan = make(kernel, X, Y).plan(3)
        assert plan.threads >= 1
        assert plan.memory >= 0
        assert plan.execution in str(plan)


def test_empty_sides(make):
    X, nothing = markets.normal(5, WIDTH), np.zeros((0, WIDTH))
    for rows, columns in ((X, nothing), (nothing, X)):
        ours = make(Gaussian(), rows, columns)
        assert tuple(ours.product(make.array(np.zeros((len(columns), 2)))).shape) == (len(rows), 2)
        moved = ours.transposed_product(make.array(np.zeros((len(rows), 2))))
        assert tuple(moved.shape) == (len(columns), 2)
        assert tuple(ours.block().shape) == (len(rows), len(columns))
        weights = make.array(np.ones((len(rows), 1)))
        found = ours.row_pass(make.array(np.zeros((len(columns), 2))), Squares(weights))
        assert tuple(found.product.shape) == (len(columns), 2)
    assert tuple(make(Gaussian(), X, X).product(make.array(np.zeros((5, 0)))).shape) == (5, 0)


def test_a_row_map_is_a_value_that_can_be_pickled():
    maps = (Squares(np.ones((3, 1))), Affine(np.ones((1, 1)), np.zeros((1, 2)), keep_values=True))
    rows = np.arange(6.0).reshape(3, 2)
    for row_map in maps:
        again = pickle.loads(pickle.dumps(row_map))
        assert np.array_equal(again(0, 3, rows).product, row_map(0, 3, rows).product)


@pytest.mark.parametrize("shape", [(6, 4), (5, 5)])
def test_a_matrix_that_was_given_need_not_be_symmetric(shape):
    matrix = markets.normal(*shape)
    kernel = Precomputed(matrix)
    rows, columns = (kernel.points(np.arange(size)) for size in shape)
    ours = execution_for(kernel, rows, columns, np.float64)
    V, U = markets.normal(shape[1], 2, 1), markets.normal(shape[0], 2, 2)
    assert np.allclose(ours.product(V), matrix @ V)
    assert np.allclose(ours.transposed_product(U), matrix.T @ U)
    assert np.array_equal(ours.block(), matrix)


def test_the_reference_is_what_it_is_asked_for():
    gram = Gaussian().gram(markets.normal(5).astype(np.float32), precision="reference")
    assert gram.dtype == np.float64
    assert "reference" in str(gram.plan())
    assert isinstance(gram.execution(), Reference)


@pytest.mark.skipif(torch is None, reason="torch is not installed")
def test_tensors_go_where_they_belong():
    from mercer.evaluation.gpu.execution import ThroughNumPy, Triton

    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    execution = Gaussian().gram(torch.zeros((3, 2))).execution()
    assert isinstance(execution, Triton if interpreted else ThroughNumPy)


@pytest.mark.parametrize("name", markets.ALL_EXPRESSIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_compiled_code_computes_alone_are_those_of_the_matrix(name, dtype):
    from mercer.evaluation.cpu.loops import fill_row

    kernel, X = markets.ALL_EXPRESSIONS[name], markets.normal(260, 2, 0, dtype)
    execution = host(kernel, X, X)
    given, _alive = execution.single_rows()
    values, row = execution.block(), np.empty(200, dtype)
    rounding = 50 * np.finfo(dtype).eps
    for i, start in ((0, 0), (31, 7), (200, 11)):
        fill_row(*given, i, start, 200, row)
        assert np.allclose(row, values[i, start : start + 200], rounding, rounding)


def test_wide_points_have_no_rows_of_their_own():
    X = markets.normal(20, 70, 0, np.float64)
    assert host(Gaussian(), X, X).single_rows() is None
