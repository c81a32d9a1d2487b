"""Expressions and their lowering: shared nodes, powers, derivatives, nested columns."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import markets
from mercer.evaluation import dispatch, reference
from mercer.evaluation.cpu.execution import Cpu
from mercer.evaluation.expression import (
    Number,
    Operation,
    Parameter,
    X,
    Y,
    absolute,
    arcsin,
    coordinate_product,
    coordinate_sum,
    decay,
    exp,
    lengths,
    log,
    log1p,
    mapped,
    maximum,
    minimum,
    nearest,
    numbers_of,
    own,
    product,
    ramp_angle,
    reciprocal_root,
    restricted,
    sqrt,
    square_angle,
    squared_distance,
    squared_norms,
    step,
    tabulated,
    tanh,
)
from mercer.evaluation.operations import OPERATIONS, derivative, evaluate
from mercer.evaluation.program import coordinate_code, lower
from mercer.kernels import (
    ArcCosine,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    PeriodicBernoulli,
    Polynomial,
    Precomputed,
)
from mercer.kernels.radial import bessel_table
from mercer.points import DensePoints, View

S, P = squared_distance(), product()


class TestLowering:
    def test_periodic_kernels_take_off_turns_of_points_not_of_pairs(self):
        """A pair takes a difference, its size, u² − u, and two operations for each order."""
        for order in (1, 2, 4):
            (pair,) = lower(PeriodicBernoulli(order).expression()).pairs
            steps = coordinate_code(pair.term).steps
            assert "nearest" not in {name for name, *_ in steps}
            assert len(steps) == 4 + 2 * order

    def test_a_shared_node_is_computed_once(self):
        r = sqrt(S)
        program = lower((1.0 + r) * decay(r))
        assert operations(program).count("sqrt") == 1

    def test_equal_nodes_are_shared_too(self):
        assert operations(lower(sqrt(S) + sqrt(squared_distance()))).count("sqrt") == 1

    def test_equal_numbers_are_one_input(self):
        assert lower(P * P + product() + S).pairs == (P, S)

    def test_parameters_are_never_merged(self):
        assert lower(1.0 * S + 1.0 * P).parameters == (1.0, 1.0)

    def test_constants_in_a_row_are_one_multiplication(self):
        program = lower(2.0 * (3.0 * (0.5 * S)))
        assert program.parameters == (3.0,)
        assert program.code.steps == (("multiply", "p0", "q0"),)

    @pytest.mark.parametrize(("exponent", "lines"), [(2, 1), (3, 2), (4, 2), (8, 3), (15, 6)])
    def test_powers_by_squaring(self, exponent, lines):
        program = lower(P**exponent)
        assert len(program.code.steps) == lines
        assert np.isclose(_carried_out(program, {"q0": 1.1}), 1.1**exponent)

    def test_trivial_powers(self):
        assert P**1 is P
        assert lower(P**0).parameters == (1.0,)

    def test_norms_are_inputs_of_their_own(self):
        x, y = squared_norms()
        program = lower(x * y + P)
        assert (program.pairs, program.x_norms, program.y_norms) == ((P,), (x,), (y,))
        assert program.code.steps[0] == ("multiply", "a0", "b0")

    def test_views_do_not_change_the_structure(self):
        seen = squared_distance(View((0,), (2.0,)))
        assert lower(decay(0.5 * seen)).structure == lower(decay(0.7 * S)).structure

    def test_foreign_nodes_are_refused(self):
        with pytest.raises(TypeError, match="not part of a kernel expression"):
            lower(P + object.__new__(type("Other", (type(P).__mro__[1],), {})))

    @pytest.mark.parametrize("name", markets.ALL_EXPRESSIONS)
    def test_lines_compute_the_reference(self, name):
        kernel = markets.ALL_EXPRESSIONS[name]
        program = lower(kernel.expression())
        x, y = (kernel.points(markets.normal(4, 2, seed)) for seed in (0, 1))
        values = _carried_out(program, _inputs(program, x, y))
        assert np.allclose(values, reference.block(kernel.expression(), x, y))

    def test_terms_are_part_of_the_structure(self):
        distance = lower(decay(coordinate_sum(absolute(X - Y))))
        other = lower(decay(coordinate_sum((X - Y) ** 2)))
        assert distance.structure != other.structure
        assert distance.code == other.code

    def test_constants_inside_a_term_are_no_part_of_the_structure(self):
        one, two = (lower(1.0 * coordinate_product(c + X * Y)).structure for c in (1.0, 2.0))
        assert one == two

    def test_tables_do_not_change_the_structure(self):
        one, two = (lower(tabulated(bessel_table(nu), S)) for nu in (0.3, 2.2))
        assert one.structure == two.structure
        assert one.tables != two.tables

    def test_each_table_has_its_place(self):
        tables = [bessel_table(nu) for nu in (0.3, 2.2)]
        program = lower(tabulated(tables[0], S) + tabulated(tables[1], S))
        assert program.tables == tuple(tables)
        assert program.code.steps[:2] == (("tabulated", "T0", "q0"), ("tabulated", "T1", "q0"))

    def test_a_decay_that_needs_its_number_alone_comes_with_it(self):
        program = lower(3.0 * decay(0.5 * S) + P)
        assert (program.pairs, program.decayed) == ((S, P), ("p1", ""))
        assert program.parameters == (3.0, 0.5)
        assert lower(decay(0.5 * S) + S).decayed == ("",)

    def test_text_is_printed_last(self):
        assert lower(2.0 * sqrt(S) + P).code.lines == [
            "t0 = sqrt(q0)",
            "t1 = p0 * t0",
            "t2 = t1 + q1",
        ]


def operations(program):
    return [name for name, *_ in program.code.steps]


def _inputs(program, x, y):
    """The numbers that a program takes, by name, in NumPy."""
    inputs = {}
    for letter, numbers in zip(
        "qab", (program.pairs, program.x_norms, program.y_norms), strict=True
    ):
        inputs |= {f"{letter}{i}": reference.block(n, x, y) for i, n in enumerate(numbers)}
    for i, factor in enumerate(program.decayed):
        if factor:
            inputs[f"q{i}"] = np.exp(-program.parameters[int(factor[1:])] * inputs[f"q{i}"])
    return inputs


def _carried_out(program, inputs):
    """What the steps of a program make of its inputs, by the oracles."""
    values = dict(inputs)
    values |= {f"p{i}": np.asarray(p) for i, p in enumerate(program.parameters)}
    values |= {f"T{i}": table for i, table in enumerate(program.tables)}
    for i, (name, *arguments) in enumerate(program.code.steps):
        values[f"t{i}"] = OPERATIONS[name].oracle(*(values[a] for a in arguments))
    return values[program.code.result]


def _values(expression, x, y):
    """The matrix of an expression, compiled."""
    return Cpu(None, lower(expression), DensePoints(x), DensePoints(y), x.dtype).block()


class TestTerms:
    def test_shared_nodes_are_computed_once(self):
        gap = X - Y
        code = coordinate_code(gap * gap + gap)
        assert code.steps == (
            ("subtract", "x0", "y0"),
            ("multiply", "t0", "t0"),
            ("add", "t1", "t0"),
        )
        assert code.result == "t2"

    def test_powers(self):
        code = coordinate_code((X - Y) ** 3)
        assert code.steps[1:] == (("multiply", "t0", "t0"), ("multiply", "t0", "t1"))
        assert code.result == "t2"

    def test_constants(self):
        code = coordinate_code(1.5 + X * Y)
        assert code.steps == (("multiply", "x0", "y0"), ("add", "c0", "t0"))
        assert code.constants == (1.5,)
        assert coordinate_code(Parameter(3.0)).result == "c0"

    @pytest.mark.parametrize("factor", [-3.0, 1e-9, 1e25, 86.0, 0.0])
    @pytest.mark.parametrize("width", [1, 16, 40])
    def test_a_factor_of_every_coordinate(self, factor, width):
        """c^d would leave float32 by far; the product of the terms does not."""
        x, y = (markets.normal(9, width, seed).astype(np.float32) for seed in (0, 1))
        part = 1.0 / factor if factor else 1.0
        value = _values(coordinate_product(factor * (part + part * minimum(X * Y, 0.25))), x, y)
        right = np.minimum(x[:, None].astype(float) * y[None], 0.25)
        assert np.allclose(value, (factor * (part + part * right)).prod(-1), rtol=1e-5)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_less_the_nearest_integer(self, dtype):
        x = np.array([0.0, 0.5, 1.5, 2.5, -0.5, 0.25, 1e6 + 0.25, -7.75, 1e-30]).astype(dtype)
        turn = 2.0 * X * (1.0 + 0.0 * Y)
        value = _values(coordinate_sum(turn - nearest(turn)), x[:, None], x[:2, None])
        assert np.array_equal(value, np.repeat((2 * x - np.rint(2 * x))[:, None], 2, axis=1))

    @pytest.mark.parametrize(
        ("function", "dtype"),
        [  # an operation is written the same way in both precisions; float64 compiles sooner
            (exp, np.float64),
            (tanh, np.float64),
            (log1p, np.float64),
            (reciprocal_root, np.float32),
            (step, np.float64),
            (arcsin, np.float64),
        ],
    )
    def test_any_operation_may_stand_in_a_term(self, function, dtype):
        x, y = (markets.normal(9, 3, seed).astype(dtype) for seed in (0, 1))
        expression = coordinate_sum(function(0.7 * minimum(absolute(X - Y), 1.0)))
        exact = reference.block(expression, DensePoints(x), DensePoints(y))
        np.testing.assert_allclose(_values(expression, x, y), exact, rtol=20 * np.finfo(dtype).eps)

    def test_what_depends_on_one_point_is_computed_for_points(self):
        part = exp(2.0 * X)
        code = coordinate_code(part * (Y - nearest(Y)) + part * Y)
        assert code.steps == (
            ("multiply", "x0", "y0"),
            ("multiply", "x0", "y1"),
            ("add", "t0", "t1"),
        )
        assert code.parts == ((part,), (Y - nearest(Y), Y))
        assert code.raw == ("y1",)
        assert not code.constants


class TestColumns:
    def test_restriction_reaches_every_number(self):
        expression = restricted(decay(S) * P, (2, 0))
        assert {number.view.columns for number in numbers_of(expression)} == {(2, 0)}

    def test_nested_columns_are_counted_inside(self):
        (number,) = numbers_of(Linear().on([1, -1]).on([4, 7, 5]).expression())
        assert number.view.columns == (7, 5)

    def test_nested_names(self):
        (number,) = numbers_of(Linear().on("b").on(["a", "b"]).expression())
        assert number.view.columns == ("b",)

    def test_columns_of_columns_that_are_not_there(self):
        with pytest.raises(
            ValueError, match="column 2 does not exist among the 2 selected columns"
        ):
            Linear().on([2]).on([4, 7]).expression()
        with pytest.raises(ValueError, match="'c' is not among the selected columns"):
            Linear().on("c").on(["a", "b"]).expression()

    def test_shared_nodes_stay_shared(self):
        expression = restricted((1.0 + sqrt(S)) * decay(sqrt(S)), (0,))
        assert operations(lower(expression)).count("sqrt") == 1

    def test_scales_are_kept(self):
        (number,) = numbers_of(Gaussian([1.0, 2.0]).on([3, 1]).expression())
        assert number.view == View((3, 1), (1.0, 0.5))

    def test_terms_are_kept(self):
        (number,) = numbers_of(Laplacian().on([2]).expression())
        assert number.kind == "coordinate_sum"
        assert number.view == View((2,))
        assert number.term == absolute(X - Y)

    def test_maps_reach_every_number(self):
        A = np.array([[1.0, 2.0], [0.0, 1.0]])
        views = {number.view for number in numbers_of(mapped(ArcCosine(1).expression(), A))}
        assert {view.matrix for view in views} == {((1.0, 2.0), (0.0, 1.0))}
        assert {view.unit for view in views} == {True, False}

    def test_maps_after_columns(self):
        (number,) = numbers_of(Linear().on([1]).after(np.arange(6.0).reshape(2, 3)).expression())
        assert number.view == View(matrix=((3.0, 4.0, 5.0),))
        with pytest.raises(ValueError, match="after a linear map columns have no names"):
            Linear().on("a").after(np.eye(2)).expression()


class TestOwn:
    """k(x, x) in numbers of x alone."""

    def test_numbers(self):
        x, y = squared_norms()
        assert own(P, "x") == x
        assert own(P * x, "y") == y * y
        assert own(lengths()[0], "y") == lengths()[1]
        assert own(S, "x").value == 0.0

    def test_sums_over_coordinates_have_none(self):
        assert own(Laplacian().expression(), "x") is None


EXPRESSIONS = {
    "affine": 2.0 * S + 3.0,
    "polynomial": (P + 1.0) ** 3,
    "power": S**4,
    "gaussian": decay(0.5 * S),
    "exponential": exp(0.3 * P),
    "matern": Matern(1.5).expression(),
    "matern-5/2": Matern(2.5).expression(),
    "root": sqrt(S + 1.0),
    "reciprocal": reciprocal_root(S + 1.0),
    "product": decay(0.2 * S) * (P + 2.0) ** 2,
    "norms": squared_norms()[0] * decay(S),
    "difference": S - 2.0 * P,
    "constant-minus": 1.0 - P**2,
    "negative": -S,
    "quotient": P / (S + 1.0),
    "constant-over": 2.0 / (S + 1.0),
    "over-constant": P / 4.0,
    "log": log(1.0 + S),
    "base-two": Operation("exp2", (-0.3 * S,)),
    "logarithm-to-base-two": Operation("log2_1p", (S,)),
    "tanh": tanh(0.7 * P),
    "arcsin": arcsin(0.2 * S),
    "ramp-angle": ramp_angle(0.2 * S),
    "square-angle": square_angle(0.2 * S),
    "absolute": absolute(P - 2.5),
    "minimum": minimum(S, 2.0 * P + 5.0),
    "maximum": maximum(S, 2.0 * P + 5.0),
    "minimum-with-number": minimum(S, 5.0),
    "nearest": S - nearest(0.1 * S),
    "log1p": log1p(S),
    "step": S * step(P - 7.0) + S * step(P + 7.0),
    "tabulated": tabulated(bessel_table(2.2), S),
    "tabulated-rough": tabulated(bessel_table(0.3), S),
    "lengths": lengths()[0] * decay(S),
    "coordinates": decay(coordinate_sum(absolute(X - Y))),
}
TERMS = {
    "absolute": absolute(X - Y),
    "product": 1.0 + X * Y,
    "quotient": (X - Y) ** 2 / maximum(X + Y, 1e-30),
    "cauchy": 1.0 / (1.0 + (X - Y) ** 2),
    "minimum": minimum(X, Y) ** 3,
    "periodic": decay(absolute(X - Y - nearest(X - Y))),
}
positive = st.floats(0.1, 3.0)


def slope_is_right(expression, variable, at, h=1e-5):
    """The derivative is what central differences say, unless a kink is in between."""
    slope = derivative(expression, variable)
    slopes = [
        float(evaluate(slope, _arrays(at | {variable: at[variable] + shift})).item())
        for shift in (-h, 0.0, h)
    ]
    ahead = evaluate(expression, _arrays(at | {variable: at[variable] + h}))
    behind = evaluate(expression, _arrays(at | {variable: at[variable] - h}))
    difference = float((ahead - behind).item()) / (2 * h)
    if abs(slopes[2] - slopes[0]) > 1e-2 * (1 + abs(slopes[1])):
        return min(slopes) - 1e-6 <= difference <= max(slopes) + 1e-6  # a kink, or near one
    return np.isclose(slopes[1], difference, rtol=1e-6, atol=1e-7)


class TestDerivatives:
    @pytest.mark.parametrize("name", EXPRESSIONS)
    @given(s=positive, p=st.floats(-2.0, 2.0), n=positive)
    def test_central_differences(self, name, s, p, n):
        expression = EXPRESSIONS[name]
        (x, y), (a, b) = squared_norms(), lengths()
        at = {S: s, P: p, x: n, y: n, a: n, b: n, coordinate_sum(absolute(X - Y)): n}
        for number in numbers_of(expression):
            assert slope_is_right(expression, number, at)

    @pytest.mark.parametrize("name", TERMS)
    @given(x=positive, y=positive)
    def test_of_terms(self, name, x, y):
        at = {X: x, Y: y}
        if abs(abs(x - y - round(x - y)) - 0.25) < 0.2499:  # the nearest integer jumps elsewhere
            assert slope_is_right(TERMS[name], X, at)
            assert slope_is_right(TERMS[name], Y, at)

    @pytest.mark.parametrize(
        ("expression", "slope"),
        [(absolute(S), 0.0), (minimum(S, 0.0), 0.5), (maximum(S, 0.0), 0.5), (step(S), 0.0)],
    )
    def test_at_a_kink_it_is_the_mean_of_both_sides(self, expression, slope):
        value = evaluate(derivative(expression, S), {S: np.zeros(1)})
        assert np.broadcast_to(value, 1)[0] == slope

    def test_of_what_does_not_occur_is_none(self):
        assert derivative(decay(S), P) is None
        assert derivative(Parameter(2.0), P) is None

    def test_of_the_number_itself(self):
        assert derivative(P, P).value == 1.0

    def test_root_at_zero_has_slope_zero(self):
        slope = derivative(sqrt(S), S)
        assert evaluate(slope, {S: np.zeros(1)})[0] == 0.0

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
        assert np.allclose(reference.block(Gaussian(2.0).expression(), x, y), [[np.exp(-5 / 8), 1]])

    def test_formulas(self):
        x, y = Matern().points([[0.0]]), Matern().points([[0.7]])
        r = np.sqrt(3) * 0.7 / 2
        value = reference.block(Matern(1.5, 2.0).expression(), x, y)
        assert np.allclose(value, (1 + r) * np.exp(-r))
        r = np.sqrt(5) * 0.7 / 2
        value = reference.block(Matern(2.5, 2.0).expression(), x, y)
        assert np.allclose(value, (1 + r + r**2 / 3) * np.exp(-r))
        value = reference.block(Polynomial(3, 2.0).expression(), y, y)
        assert np.allclose(value, (0.49 + 2) ** 3)

    @pytest.mark.parametrize("name", markets.ALL_EXPRESSIONS)
    def test_diagonal(self, name):
        kernel = markets.ALL_EXPRESSIONS[name]
        x = kernel.points(markets.normal(5, 2))
        block = reference.block(kernel.expression(), x, x)
        assert np.allclose(reference.diagonal(kernel.expression(), x), np.diagonal(block))


class TestKeptPrograms:
    def test_a_kernel_is_lowered_once_and_forgotten_with_it(self):
        kernel = Gaussian(0.37) + Gaussian(2.0)
        key = id(kernel)
        assert dispatch.program_of(kernel) is dispatch.program_of(kernel)
        del kernel
        gc.collect()
        assert key not in dispatch._programs

    def test_kernels_with_equal_numbers_share_a_program(self):
        program = dispatch.program_of(Gaussian(0.37))
        assert dispatch.program_of(Gaussian(0.37)) is program
        assert dispatch.program_of(Gaussian(0.38)).parameters != program.parameters

    def test_matrices_are_not_read(self, monkeypatch):
        monkeypatch.setattr(Precomputed, "_identity", lambda self: pytest.fail("compared"))
        kernel = Precomputed(np.eye(3))
        assert (kernel.gram([0, 1, 2]) @ np.ones(3) == 1.0).all()
