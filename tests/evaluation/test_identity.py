"""Products are bit-identical for any number of threads and any budget."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import markets
from mercer.kernels import Gaussian
from mercer.operators import stored_if_small

PATHS = {  # enough rows for three stripes and for threads to be used
    "registers": lambda rows, seed: markets.normal(rows, 5, seed, np.float32),
    "registers-float64": lambda rows, seed: markets.normal(rows, 5, seed),
    "blas": lambda rows, seed: markets.normal(rows, 100, seed, np.float32),
    "sparse": lambda rows, seed: markets.sparse(rows, 200, seed, np.float32, 0.03),
}
KERNEL = Gaussian(3.0)


def several(gram):
    return markets.normal(gram.shape[1], 3, 7, gram.dtype)


PRODUCTS = {
    "vector": lambda gram: gram @ several(gram)[:, 0],
    "columns": lambda gram: gram @ several(gram),
    "normal": lambda gram: gram.normal_matmul(several(gram)[:, :2]),
    "normal-vector": lambda gram: gram.normal_matmul(
        several(gram)[:, 0], markets.normal(gram.shape[0], 1, 8, gram.dtype)[:, 0]
    ),
    "dense": lambda gram: gram.dense(),
}


@functools.cache
def sides(path):
    return KERNEL.points(PATHS[path](2300, 0)), KERNEL.points(PATHS[path](1500, 1))


def gram_of(path, symmetric, memory="1GB"):
    x, y = sides(path)
    return KERNEL.gram(x, None if symmetric else y, memory=memory)


def tight(path, symmetric, product=""):
    """Bytes that are enough for one thread, and not for two."""
    gram = gram_of(path, symmetric)
    with threadpool_limits(1, user_api="blas"):
        if product.startswith("normal"):
            return sum(gram.execution().row_pass_memory(3))
        return gram.plan(columns=3).memory


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "general"])
@pytest.mark.parametrize("path", PATHS)
def test_threads_and_budgets_change_no_bit(path, symmetric, product):
    with threadpool_limits(1, user_api="blas"):
        expected = PRODUCTS[product](gram_of(path, symmetric))
    for threads, memory in ((2, "1GB"), (2, "64MB"), (2, tight(path, symmetric, product))):
        with threadpool_limits(threads, user_api="blas"):
            result = PRODUCTS[product](gram_of(path, symmetric, memory))
        assert np.array_equal(result, expected), (threads, memory)


@pytest.mark.parametrize("path", PATHS)
def test_threads_change_no_bit_of_a_product_with_one_triangle(path):
    def product():
        half = stored_if_small(KERNEL.gram(PATHS[path](3200, 0)))
        return half @ several(half)

    with threadpool_limits(1, user_api="blas"):
        expected = product()
    with threadpool_limits(2, user_api="blas"):
        assert np.array_equal(product(), expected)


def test_threads_follow_blas():
    gram = gram_of("registers", symmetric=False)
    with threadpool_limits(1, user_api="blas"):
        assert gram.plan().threads == 1
    with threadpool_limits(2, user_api="blas"):
        assert gram.plan().threads <= 2


@pytest.mark.parametrize("path", PATHS)
def test_a_tight_budget_takes_one_thread(path):
    with threadpool_limits(2, user_api="blas"):
        assert gram_of(path, False, memory=tight(path, False)).plan(columns=3).threads == 1


def test_a_budget_below_the_least_is_refused():
    gram = gram_of("registers", symmetric=False, memory="1MB")
    with pytest.raises(ValueError, match=r"takes at least \d+ MB beside .* the budget is 1 MB"):
        gram @ several(gram)


@pytest.mark.parametrize("path", PATHS)
def test_repeated_products_are_the_same(path):
    gram = gram_of(path, symmetric=True)
    assert np.array_equal(gram @ several(gram), gram @ several(gram))
