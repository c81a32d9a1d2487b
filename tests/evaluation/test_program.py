"""Expressions and their lowering: shared nodes, powers, derivatives, nested columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import markets
from mercer.evaluation import reference
from mercer.evaluation.expression import (
    Number,
    Parameter,
    decay,
    exp,
    numbers_of,
    product,
    reciprocal_root,
    restricted,
    sqrt,
    squared_distance,
    squared_norms,
)
from mercer.evaluation.operations import OPERATIONS, derivative
from mercer.evaluation.program import lower
from mercer.kernels import Gaussian, Linear, Matern, Polynomial
from mercer.points import View

S, P = squared_distance(), product()


class TestLowering:
    def test_a_shared_node_is_computed_once(self):
        r = sqrt(S)
        program = lower((1.0 + r) * decay(r))
        assert sum("sqrt" in line for line in program.lines) == 1

    def test_equal_nodes_are_shared_too(self):
        assert sum("sqrt" in line for line in lower(sqrt(S) + sqrt(squared_distance())).lines) == 1

    def test_equal_numbers_are_one_input(self):
        assert lower(P * P + product() + S).pairs == (P, S)

    def test_parameters_are_never_merged(self):
        assert lower(1.0 * S + 1.0 * P).parameters == (1.0, 1.0)

    def test_constants_in_a_row_are_one_multiplication(self):
        program = lower(2.0 * (3.0 * (0.5 * S)))
        assert program.parameters == (3.0,)
        assert program.lines == ("t0 = p0 * q0",)

    @pytest.mark.parametrize(("exponent", "lines"), [(2, 1), (3, 2), (4, 2), (8, 3), (15, 6)])
    def test_powers_by_squaring(self, exponent, lines):
        program = lower(P**exponent)
        assert len(program.lines) == lines
        scope = {"q0": 1.1}
        for line in program.lines:
            exec(line, scope)
        assert np.isclose(scope[program.result], 1.1**exponent)

    def test_trivial_powers(self):
        assert P**1 is P
        assert lower(P**0).parameters == (1.0,)

    def test_norms_are_inputs_of_their_own(self):
        x, y = squared_norms()
        program = lower(x * y + P)
        assert (program.pairs, program.x_norms, program.y_norms) == ((P,), (x,), (y,))
        assert program.lines[0] == "t0 = a0 * b0"

    def test_views_do_not_change_the_structure(self):
        seen = squared_distance(View((0,), (2.0,)))
        assert lower(decay(0.5 * seen)).structure == lower(decay(0.7 * S)).structure

    def test_foreign_nodes_are_refused(self):
        with pytest.raises(TypeError, match="not part of a kernel program"):
            lower(P + object.__new__(type("Other", (type(P).__mro__[1],), {})))

    @pytest.mark.parametrize("name", markets.PROGRAMS)
    def test_lines_compute_the_reference(self, name):
        kernel = markets.PROGRAMS[name]
        program = lower(kernel.program())
        x, y = (kernel.points(markets.normal(4, 2, seed)) for seed in (0, 1))
        scope = {"exp": np.exp, "sqrt": np.sqrt, "decay": lambda x: np.exp(-x)}
        scope |= {f"p{i}": p for i, p in enumerate(program.parameters)}
        scope |= {f"q{i}": reference.block(q, x, y) for i, q in enumerate(program.pairs)}
        for line in program.lines:
            exec(line, scope)
        assert np.allclose(scope[program.result], reference.block(kernel.program(), x, y))


class TestColumns:
    def test_restriction_reaches_every_number(self):
        expression = restricted(decay(S) * P, (2, 0))
        assert {number.view.columns for number in numbers_of(expression)} == {(2, 0)}

    def test_nested_columns_are_counted_inside(self):
        (number,) = numbers_of(Linear().on([1, -1]).on([4, 7, 5]).program())
        assert number.view.columns == (7, 5)

    def test_nested_names(self):
        (number,) = numbers_of(Linear().on("b").on(["a", "b"]).program())
        assert number.view.columns == ("b",)

    def test_columns_of_columns_that_are_not_there(self):
        with pytest.raises(
            ValueError, match="column 2 does not exist among the 2 selected columns"
        ):
            Linear().on([2]).on([4, 7]).program()
        with pytest.raises(ValueError, match="'c' is not among the selected columns"):
            Linear().on("c").on(["a", "b"]).program()

    def test_shared_nodes_stay_shared(self):
        expression = restricted((1.0 + sqrt(S)) * decay(sqrt(S)), (0,))
        assert sum("sqrt" in line for line in lower(expression).lines) == 1

    def test_scales_are_kept(self):
        (number,) = numbers_of(Gaussian([1.0, 2.0]).on([3, 1]).program())
        assert number.view == View((3, 1), (1.0, 0.5))


EXPRESSIONS = {
    "affine": 2.0 * S + 3.0,
    "polynomial": (P + 1.0) ** 3,
    "power": S**4,
    "gaussian": decay(0.5 * S),
    "exponential": exp(0.3 * P),
    "matern": Matern(1.5).program(),
    "matern-5/2": Matern(2.5).program(),
    "root": sqrt(S + 1.0),
    "reciprocal": reciprocal_root(S + 1.0),
    "product": decay(0.2 * S) * (P + 2.0) ** 2,
    "norms": squared_norms()[0] * decay(S),
}
positive = st.floats(0.1, 3.0)


class TestDerivatives:
    @pytest.mark.parametrize("name", EXPRESSIONS)
    @given(s=positive, p=st.floats(-2.0, 2.0), n=positive)
    def test_central_differences(self, name, s, p, n):
        expression = EXPRESSIONS[name]
        x, y = squared_norms()
        at = {S: s, P: p, x: n, y: n}
        for number in numbers_of(expression):
            h = 1e-5
            slope = reference.evaluate(derivative(expression, number), _arrays(at))
            ahead = reference.evaluate(expression, _arrays(at | {number: at[number] + h}))
            behind = reference.evaluate(expression, _arrays(at | {number: at[number] - h}))
            assert np.isclose(slope, (ahead - behind) / (2 * h), rtol=1e-6, atol=1e-7)

    def test_of_what_does_not_occur_is_none(self):
        assert derivative(decay(S), P) is None
        assert derivative(Parameter(2.0), P) is None

    def test_of_the_number_itself(self):
        assert derivative(P, P).value == 1.0

    def test_root_at_zero_has_slope_zero(self):
        slope = derivative(sqrt(S), S)
        assert reference.evaluate(slope, {S: np.zeros(1)})[0] == 0.0

    @pytest.mark.parametrize("name", OPERATIONS)
    def test_every_operation_has_a_tested_slope(self, name):
        used = {line for e in EXPRESSIONS.values() for line in _operations(e)}
        assert name in used


def _arrays(at):
    return {number: np.array([value]) for number, value in at.items()}


def _operations(expression):
    if not isinstance(expression, (Number, Parameter)):
        yield expression.name
        for argument in expression.arguments:
            yield from _operations(argument)


class TestReference:
    def test_by_hand(self):
        x, y = (Gaussian().points(p) for p in ([[1.0, 2.0]], [[0.0, 4.0], [1.0, 2.0]]))
        assert np.allclose(reference.block(S, x, y), [[5.0, 0.0]])
        assert np.allclose(reference.block(P, x, y), [[8.0, 5.0]])
        assert np.allclose(reference.block(squared_norms()[0], x, y), [[5.0, 5.0]])
        assert np.allclose(reference.block(squared_norms()[1], x, y), [[16.0, 5.0]])
        assert np.allclose(reference.block(Gaussian(2.0).program(), x, y), [[np.exp(-5 / 8), 1]])

    def test_formulas(self):
        x, y = Matern().points([[0.0]]), Matern().points([[0.7]])
        r = np.sqrt(3) * 0.7 / 2
        value = reference.block(Matern(1.5, 2.0).program(), x, y)
        assert np.allclose(value, (1 + r) * np.exp(-r))
        r = np.sqrt(5) * 0.7 / 2
        value = reference.block(Matern(2.5, 2.0).program(), x, y)
        assert np.allclose(value, (1 + r + r**2 / 3) * np.exp(-r))
        value = reference.block(Polynomial(3, 2.0).program(), y, y)
        assert np.allclose(value, (0.49 + 2) ** 3)

    @pytest.mark.parametrize("name", markets.PROGRAMS)
    def test_diagonal(self, name):
        kernel = markets.PROGRAMS[name]
        x = kernel.points(markets.normal(5, 2))
        block = reference.block(kernel.program(), x, x)
        assert np.allclose(reference.diagonal(kernel.program(), x), np.diagonal(block))
