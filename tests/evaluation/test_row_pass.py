"""Kᵀ(w ∘ (K V + B)) by compiled code that keeps a few rows, against the same map as a function."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import markets
from mercer.evaluation.execution import Affine, MappedRows, joined, split_halves
from mercer.evaluation.tiling import TUNING
from mercer.kernels import Gaussian, Linear, Matern

ALWAYS_COMPILED = replace(TUNING, compiled_values=0)
ROWS, COLUMNS = 1037, 203  # not multiples of anything
KERNELS = {"float32": Gaussian(0.7), "float64": Matern(1.5) * Linear() + Gaussian(2.0)}


def maps(rng):
    w, y = rng.random((ROWS, 1)) / ROWS, rng.standard_normal((ROWS, 2))
    return {
        "normal": Affine(np.ones((1, 1)), np.zeros((1, 2))),
        "gradient": Affine(w, 0.5 - y, keep_values=True, with_factors=True),
        "one of two": Affine(w, -y[:, :1], keep_values=True),
        "each its own": Affine(rng.random((ROWS, 2)), np.full((1, 2), 0.3)),
    }


@pytest.mark.parametrize("name", ["normal", "gradient", "one of two", "each its own"])
@pytest.mark.parametrize("dtype", KERNELS)
def test_a_map_in_the_cache_is_the_map_of_strips(dtype, name):
    rng = np.random.default_rng(0)
    middle, V = maps(rng)[name], rng.standard_normal((COLUMNS, 2))
    gram = KERNELS[dtype].gram(markets.normal(ROWS, 3, 1), markets.normal(COLUMNS, 3, 2))
    K = gram.dense()
    halves, split = split_halves(V, dtype)
    row_map = joined(middle) if split else middle
    execution = gram.astype(dtype).execution()
    execution.tuning = ALWAYS_COMPILED
    found = execution.row_pass(halves, row_map)
    pushes = middle.factors * ((K @ V)[:, : middle.added.shape[1]] + middle.added)
    if middle.with_factors:
        pushes = np.column_stack([pushes, middle.factors])
    tolerance = 2e-5 if dtype == "float32" else 1e-12
    scale = np.abs(K).T @ np.abs(np.broadcast_to(pushes, (ROWS, pushes.shape[1])))
    assert (np.abs(found.product - K.T @ pushes) <= tolerance * scale).all()
    assert (found.values is not None) == middle.keep_values
    if middle.keep_values:
        assert (np.abs(found.values - K @ V) <= tolerance * (np.abs(K) @ np.abs(V))).all()
    expected = execution.row_pass(halves, lambda *given: row_map(*given))
    assert (np.abs(found.product - expected.product) <= tolerance * scale).all()


def test_subnormal_numbers_are_left_as_they_were():
    gram = Gaussian(0.02).gram(markets.normal(300, 3, 1, np.float32))
    gram.execution().tuning = ALWAYS_COMPILED
    v = np.full((300, 1), 1e-3, np.float32)
    expected = gram.dense().astype(float)
    expected = expected.T @ (expected @ v)
    for middle in (
        Affine(np.ones((1, 1)), np.zeros((1, 1))),
        lambda start, stop, rows: MappedRows(rows),
    ):
        np.testing.assert_allclose(gram.row_pass(v, middle).product, expected, rtol=1e-5)
    least = np.float32(1e-40)
    assert least * np.float32(1.0) > 0.0
