"""The operations of a kernel program: each carries its oracle, its compiled form and its slopes.

Adding an operation is one entry here (and one function in `cpu/elementary.py` where the compiled
form is not plain arithmetic).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.evaluation.expression import Expression, Operation, Parameter, reciprocal_root


@dataclass(frozen=True)
class Rule:
    """`oracle` in NumPy, `code` for the compiler, `slopes`: the derivative in each argument."""

    oracle: Callable[..., Any]
    code: str
    slopes: Callable[[Operation], tuple[Expression, ...]]


def _add_slopes(node: Operation) -> tuple[Expression, ...]:
    return Parameter(1.0), Parameter(1.0)


def _multiply_slopes(node: Operation) -> tuple[Expression, ...]:
    left, right = node.arguments
    return right, left


def _power_slopes(node: Operation) -> tuple[Expression, ...]:
    return (float(node.exponent) * node.arguments[0] ** (node.exponent - 1),)


def _exp_slopes(node: Operation) -> tuple[Expression, ...]:
    return (node,)


def _decay_slopes(node: Operation) -> tuple[Expression, ...]:
    return (-1.0 * node,)


def _sqrt_slopes(node: Operation) -> tuple[Expression, ...]:
    return (0.5 * reciprocal_root(node.arguments[0]),)


def _reciprocal_root_slopes(node: Operation) -> tuple[Expression, ...]:
    return (-0.5 * node**3,)


def _reciprocal_root(x: Any) -> Any:
    x = np.asarray(x)
    return np.divide(1.0, np.sqrt(x), out=np.zeros_like(x), where=x > 0)


OPERATIONS: dict[str, Rule] = {
    "add": Rule(np.add, "{0} + {1}", _add_slopes),
    "multiply": Rule(np.multiply, "{0} * {1}", _multiply_slopes),
    "power": Rule(np.power, "", _power_slopes),  # compiled as repeated multiplication
    "exp": Rule(np.exp, "exp({0})", _exp_slopes),
    "decay": Rule(lambda x: np.exp(-x), "decay({0})", _decay_slopes),
    "sqrt": Rule(np.sqrt, "sqrt({0})", _sqrt_slopes),
    "reciprocal_root": Rule(_reciprocal_root, "reciprocal_root({0})", _reciprocal_root_slopes),
}


def derivative(expression: Expression, number: Expression) -> Expression | None:
    """∂(expression)/∂(number) as another expression; None where it is identically zero.

    >>> from mercer.evaluation.expression import decay, product, squared_distance
    >>> derivative(decay(squared_distance()), product()) is None
    True
    """
    done: dict[Expression, Expression | None] = {}

    def visit(node: Expression) -> Expression | None:
        if node not in done:
            done[node] = chain(node) if isinstance(node, Operation) else None
        return done[node]

    def chain(node: Operation) -> Expression | None:
        total: Expression | None = None
        slopes = OPERATIONS[node.name].slopes(node)
        for argument, slope in zip(node.arguments, slopes, strict=True):
            inner = visit(argument)
            if inner is not None:
                term = slope * inner
                total = term if total is None else total + term
        return total

    done[number] = Parameter(1.0)
    return visit(expression)
