"""The oracle: a program in plain NumPy and float64, distances by differences."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mercer.evaluation.expression import Expression, Number, Operation, Parameter, numbers_of
from mercer.evaluation.operations import OPERATIONS
from mercer.points import VectorPoints


def evaluate(expression: Expression, numbers: Mapping[Number, np.ndarray]) -> np.ndarray:
    """The value of an expression, given the values of its pair numbers."""
    done: dict[Expression, np.ndarray] = {number: numbers[number] for number in numbers}

    def visit(node: Expression) -> np.ndarray:
        if node not in done:
            if isinstance(node, Operation):
                arguments = [visit(argument) for argument in node.arguments]
                arguments += [np.asarray(node.exponent)] if node.name == "power" else []
                done[node] = OPERATIONS[node.name].oracle(*arguments)
            else:
                assert isinstance(node, Parameter)
                done[node] = np.asarray(node.value)
        return done[node]

    return visit(expression)


def block(expression: Expression, x: VectorPoints, y: VectorPoints) -> np.ndarray:
    """All values k(x_i, y_j) in float64. Memory: n × m × d; for tests and small blocks."""
    numbers = {number: _pair_number(number, x, y) for number in numbers_of(expression)}
    return np.broadcast_to(evaluate(expression, numbers), (len(x), len(y)))


def _pair_number(number: Number, x: VectorPoints, y: VectorPoints) -> np.ndarray:
    a = x.seen(number.view, np.float64)[:, None, :]
    b = y.seen(number.view, np.float64)[None, :, :]
    values = {
        "product": lambda: a * b,
        "squared_distance": lambda: (a - b) ** 2,
        "x_norm": lambda: a * a,
        "y_norm": lambda: b * b,
    }
    return values[number.kind]().sum(axis=-1)


def diagonal(expression: Expression, x: VectorPoints) -> np.ndarray:
    """All values k(x_i, x_i), in the precision of the points; memory: one vector a number."""
    numbers = {number: _own_number(number, x) for number in numbers_of(expression)}
    values = np.broadcast_to(evaluate(expression, numbers), (len(x),))
    return values.astype(x.dtype)


def _own_number(number: Number, x: VectorPoints) -> np.ndarray:
    if number.kind == "squared_distance":
        return np.zeros(len(x))
    return x.squared_norms(number.view)
