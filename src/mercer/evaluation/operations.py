"""The operations of a kernel program: each carries its oracle, its compiled form and its slopes.

Adding an operation is one entry here (and one function in `cpu/elementary.py` where the compiled
form is not plain arithmetic).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.evaluation.expression import (
    Expression,
    Operation,
    Parameter,
    arcsin,
    ramp_angle,
    reciprocal_root,
    step,
    tabulated,
)


@dataclass(frozen=True)
class Rule:
    """`oracle` in NumPy, `code` for the compiler, `slopes`: the derivative in each argument."""

    oracle: Callable[..., Any]
    code: str
    slopes: Callable[[Operation], tuple[Expression, ...]]


def _reciprocal_root(x: Any) -> Any:
    x = np.asarray(x)
    return np.divide(1.0, np.sqrt(x), out=np.zeros_like(x), where=x > 0)


def _step(x: Any) -> Any:
    return np.heaviside(x, 0.5)


ANGLE_TERMS = 64  # of a series that halves from term to term


def ramp_angle_series(x: Any) -> Any:
    """∫₀ˣ 4w arcsin w dw, as a power series; on arrays of any library."""
    return x**3 * _series(x, lambda n: 4.0 / (2 * n + 3))


def square_angle_series(x: Any) -> Any:
    """∫₀ˣ 16w · ramp_angle(w) dw, as a power series."""
    return x**5 * _series(x, lambda n: 64.0 / ((2 * n + 3) * (2 * n + 5)))


def _series(x: Any, factor: Callable[[int], float]) -> Any:
    """Σ_n a_n factor(n) x^{2n}, with arcsin x = Σ_n a_n x^{2n+1}."""
    z, total = x * x, 0.0 * x
    for n in reversed(range(ANGLE_TERMS)):
        total = total * z + factor(n) * (math.comb(2 * n, n) / 4**n / (2 * n + 1))
    return total


def _minimum_slopes(node: Operation) -> tuple[Expression, ...]:
    left, right = node.arguments
    return step(right - left), step(left - right)


def _maximum_slopes(node: Operation) -> tuple[Expression, ...]:
    left, right = node.arguments
    return step(left - right), step(right - left)


def _divide_slopes(node: Operation) -> tuple[Expression, ...]:
    _, divisor = node.arguments
    return 1.0 / divisor, -1.0 * (node / divisor)


def _power_slopes(node: Operation) -> tuple[Expression, ...]:
    return (float(node.exponent) * node.arguments[0] ** (node.exponent - 1),)


def _tabulated_slopes(node: Operation) -> tuple[Expression, ...]:
    assert node.table is not None
    return (tabulated(node.table.slope(), node.arguments[0]),)


ONE, ZERO = Parameter(1.0), Parameter(0.0)

OPERATIONS: dict[str, Rule] = {
    "add": Rule(np.add, "{0} + {1}", lambda node: (ONE, ONE)),
    "subtract": Rule(np.subtract, "{0} - {1}", lambda node: (ONE, Parameter(-1.0))),
    "multiply": Rule(np.multiply, "{0} * {1}", lambda node: node.arguments[::-1]),
    "divide": Rule(np.divide, "{0} / {1}", _divide_slopes),
    "power": Rule(np.power, "", _power_slopes),  # compiled as repeated multiplication
    "exp": Rule(np.exp, "exp({0})", lambda node: (node,)),
    "decay": Rule(lambda x: np.exp(-x), "decay({0})", lambda node: (-1.0 * node,)),
    "log": Rule(np.log, "log({0})", lambda node: (1.0 / node.arguments[0],)),
    "log1p": Rule(np.log1p, "log1p({0})", lambda node: (1.0 / (1.0 + node.arguments[0]),)),
    "tanh": Rule(np.tanh, "tanh({0})", lambda node: (1.0 - node**2,)),
    "arcsin": Rule(
        np.arcsin,
        "arcsin({0})",
        lambda node: (reciprocal_root(1.0 - node.arguments[0] ** 2),),
    ),
    "ramp_angle": Rule(
        ramp_angle_series,
        "ramp_angle({0})",
        lambda node: (4.0 * (node.arguments[0] * arcsin(node.arguments[0])),),
    ),
    "square_angle": Rule(
        square_angle_series,
        "square_angle({0})",
        lambda node: (16.0 * (node.arguments[0] * ramp_angle(node.arguments[0])),),
    ),
    "sqrt": Rule(np.sqrt, "sqrt({0})", lambda node: (0.5 * reciprocal_root(node.arguments[0]),)),
    "reciprocal_root": Rule(
        _reciprocal_root, "reciprocal_root({0})", lambda node: (-0.5 * node**3,)
    ),
    "absolute": Rule(np.abs, "abs({0})", lambda node: (2.0 * step(node.arguments[0]) - 1.0,)),
    "minimum": Rule(np.minimum, "min({0}, {1})", _minimum_slopes),
    "maximum": Rule(np.maximum, "max({0}, {1})", _maximum_slopes),
    "tabulated": Rule(lambda table, x: table.function(x), "", _tabulated_slopes),
    "nearest": Rule(np.rint, "nearest({0})", lambda node: (ZERO,)),
    "step": Rule(_step, "step({0})", lambda node: (ZERO,)),
}


def derivative(
    expression: Expression, number: Expression, rules: Mapping[str, Any] = OPERATIONS
) -> Expression | None:
    """∂(expression)/∂(number) as another expression; None where it is identically zero.

    `rules` holds the slopes of operations: losses have a few more than kernels.

    >>> from mercer.evaluation.expression import decay, product, squared_distance
    >>> derivative(decay(squared_distance()), product()) is None
    True
    """
    done: dict[Expression, Expression | None] = {}

    def visit(node: Expression) -> Expression | None:
        if node not in done:
            done[node] = slope(node) if isinstance(node, Operation) else None
        return done[node]

    def slope(node: Operation) -> Expression | None:
        return chain(node) if node.twin is None else visit(node.twin)

    def chain(node: Operation) -> Expression | None:
        total: Expression | None = None
        slopes = rules[node.name].slopes(node)
        for argument, outer in zip(node.arguments, slopes, strict=True):
            inner = visit(argument)
            if inner is not None:
                term = outer * inner
                total = term if total is None else total + term
        return total

    done[number] = Parameter(1.0)
    return visit(expression)
