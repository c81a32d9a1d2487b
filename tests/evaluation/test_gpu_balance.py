"""Kernels in the form of fewest operations, against the kernels themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercer.evaluation import reference
from mercer.evaluation.gpu.balance import LARGEST_SHIFT, balance_of
from mercer.evaluation.program import lower
from mercer.kernels import Gaussian, Linear, Matern

POSITIVE = st.floats(0.1, 10.0)


@given(POSITIVE, POSITIVE, POSITIVE, POSITIVE, st.sampled_from(range(5)))
def test_the_form_is_the_kernel(weight, factor, flat, steep, order):
    decay, product, matern = Gaussian(flat), Linear(), Matern(1.5, steep)
    kernel = (
        weight * decay + factor * product * matern,
        matern * product + weight * decay,
        decay + factor * (matern * product),
        product * matern,
        factor * (matern * product),
    )[order]
    form = balance_of(lower(kernel.expression()))
    X = np.random.default_rng(0).normal(size=(7, 3))
    points = kernel.points(X)
    exact = reference.block(kernel.expression(), points, points)
    q = form.distance * ((X[:, None] - X[None]) ** 2).sum(-1)
    u = form.root * np.sqrt(q) + form.shift
    value = form.product * (X @ X.T) * u * 2.0**-u
    found = form.weight * (value + 2.0**-q if form.decays else value)
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12)
    assert form.decays == (order < 3)
    assert 0.0 < form.shift <= LARGEST_SHIFT


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(),
        Matern(1.5),
        Linear(),
        Gaussian() + Matern(1.5),
        Gaussian() + Linear() * Matern(0.5),
        Gaussian() + Linear() * Matern(2.5),
        Gaussian() + Linear(bias=1.0) * Matern(1.5),
        Linear() * Gaussian() + Linear() * Matern(1.5),
        Linear() + Linear() * Matern(1.5),
        Gaussian() * Linear() * Matern(1.5),
        Gaussian() + Gaussian(2.0) + Linear() * Matern(1.5),
    ],
    ids=str,
)
def test_other_kernels_have_no_such_form(kernel):
    assert balance_of(lower(kernel.expression())) is None
