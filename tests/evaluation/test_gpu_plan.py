"""Forms in which a GPU obtains numbers: values stay, and exponents are to the base 2."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercer.evaluation.expression import (
    Constant,
    Operation,
    decay,
    numbers_of,
    product,
    sqrt,
    squared_distance,
    squared_norms,
    tabulated,
    transformed,
)
from mercer.evaluation.gpu.plan import Input, absorbed_factor, only_distance, sign_is_harmless
from mercer.evaluation.operations import evaluate
from mercer.evaluation.program import straight_line
from mercer.evaluation.rewrite import BINARY, SIMPLER, rewritten
from mercer.kernels import Exponential, Gaussian, Linear, Matern, RationalQuadratic
from mercer.kernels.radial import bessel_table

S, P = squared_distance(), product()
M = Input("m")
KERNELS = {  # steps that are left of it
    "gaussian": (lambda a, b: Gaussian(a), 2),
    "scaled": (lambda a, b: b * Gaussian(a), 3),
    "exponential": (lambda a, b: Exponential(a), 3),
    "matern-3/2": (lambda a, b: b * Matern(1.5, a), 6),
    "matern-5/2": (lambda a, b: b * Matern(2.5, a), 8),
    "matern-2.2": (lambda a, b: Matern(2.2, a), 6),
    "rational quadratic": (lambda a, b: RationalQuadratic(b, a), 4),
    "sum": (lambda a, b: b * Gaussian(a) + Linear() * Matern(1.5, b), 12),
}
positive = st.floats(0.3, 3.0)


@pytest.mark.parametrize("name", KERNELS)
@given(lengthscale=positive, weight=positive)
def test_a_factor_goes_into_the_operands(name, lengthscale, weight):
    make, steps = KERNELS[name]
    expression = rewritten(make(lengthscale, weight).expression(), SIMPLER)
    absorbed = absorbed_factor(expression, S)
    rest = Operation("multiply", (Constant(absorbed.rest), M))
    given = {absorbed.node: rest, S: (1.0 / absorbed.scale) * M}
    final = rewritten(transformed(expression, replacements=given), BINARY)
    s, p = np.linspace(0.0, 9.0, 50), np.linspace(-1.0, 1.0, 50)
    exact = evaluate(expression, {S: s, P: p})
    values = evaluate(final, {M: absorbed.scale * s, P: p})
    np.testing.assert_allclose(values, exact, rtol=1e-12, atol=1e-13)
    code = straight_line(final, {M: "m", P: "p"}, literals=True)
    assert len(code.steps) <= steps
    assert "decay" not in {operation for operation, *_ in code.steps}


@pytest.mark.parametrize(
    "expression", [S, decay(S), -2.0 * S, 2.0 * S + 3.0 * S, S * P, 2.0 * S * S, decay(2.0 * S) + S]
)
def test_other_uses_have_no_factor_to_absorb(expression):
    assert absorbed_factor(expression, S) is None


@pytest.mark.parametrize(
    ("expression", "harmless"),
    [
        (decay(2.0 * S), True),
        (decay(sqrt(3.0 * S) + 2.0 * S), True),
        (Matern(2.5).expression(), True),
        (RationalQuadratic(2.0).expression(), True),
        (tabulated(bessel_table(0.3), S), False),
        (S, False),
        (2.0 * S + decay(S), False),
        (S * P, False),
    ],
)
def test_distances_a_little_below_zero(expression, harmless):
    assert sign_is_harmless(expression, S) == harmless


def test_kernels_of_one_distance_alone():
    assert only_distance(Matern(1.5).expression()) == S
    assert only_distance((Gaussian() + Linear()).expression()) is None
    assert only_distance(squared_norms()[0] * S) is None
    (number,) = numbers_of(Linear().expression())
    assert only_distance(number) is None
