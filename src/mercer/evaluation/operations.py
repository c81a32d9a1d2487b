"""The operations of a kernel expression: what each computes, how it is written, and its slopes.

Adding an operation is one entry here (and its error rule in `testing/rounding.py`). Its `oracle`
runs on arrays of any library. Its `code` is text that is valid in Numba and in Triton; an
operation that is a formula of others says so by `formula` instead, and needs no code. Functions
that neither language has are written in `cpu/elementary.py` and `gpu/elementary.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import as_numpy, beside, is_tensor, namespace, to_precision
from mercer.evaluation.expression import (
    Constant,
    Expression,
    Operation,
    Parameter,
    arcsin,
    exp,
    ramp_angle,
    reciprocal_root,
    step,
    tabulated,
)
from mercer.evaluation.minimax import LOG2
from mercer.evaluation.tables import Table


@dataclass(frozen=True)
class Rule:
    """`oracle` on arrays, `code` for compilers or a `formula`, the derivative in each argument."""

    oracle: Callable[..., Any]
    code: str
    slopes: Callable[[Operation], tuple[Expression, ...]]
    formula: Callable[..., Expression] | None = None


def apply(node: Operation, *arguments: Any) -> Any:
    """One operation on arrays."""
    oracle = OPERATIONS[node.name].oracle
    if node.name == "power":
        return oracle(*arguments, node.exponent)
    return oracle(node.table, *arguments) if node.table is not None else oracle(*arguments)


def evaluate(expression: Expression, numbers: Mapping[Any, Any], like: Any = None) -> Any:
    """The value of an expression, given the values of its numbers (or coordinates).

    Constants are arrays of NumPy in float64, or beside another array, in its precision.
    """
    done: dict[Expression, Any] = dict(numbers)

    def visit(node: Expression) -> Any:
        if node not in done:
            if isinstance(node, Operation):
                done[node] = apply(node, *(visit(argument) for argument in node.arguments))
            else:
                assert isinstance(node, Parameter)
                done[node] = np.asarray(node.value) if like is None else full(node.value, like)
        return done[node]

    def full(value: float, like: Any) -> Any:
        return namespace(like).full((), value, dtype=like.dtype, device=like.device)

    return visit(expression)


def _library(x: Any) -> Any:
    return namespace(x) if is_tensor(x) or hasattr(x, "__array_namespace__") else np


def _function(name: str) -> Callable[..., Any]:
    """The function of this name in the library of its arguments."""
    return lambda *arguments: getattr(_library(arguments[0]), name)(*arguments)


def _reciprocal_root(x: Any) -> Any:
    xp = _library(x)
    positive = xp.where(x > 0, x, xp.ones_like(x))
    return xp.where(x > 0, 1.0 / xp.sqrt(positive), xp.zeros_like(x))


ANGLE_TERMS = 64  # of a series that halves from term to term


def _series(x: Any, factor: Callable[[int], float]) -> Any:
    """Σ_n a_n factor(n) x^{2n}, with arcsin x = Σ_n a_n x^{2n+1}."""
    z, total = x * x, 0.0 * x
    for n in reversed(range(ANGLE_TERMS)):
        total = total * z + factor(n) * (math.comb(2 * n, n) / 4**n / (2 * n + 1))
    return total


def _larger(x: Expression, y: Expression) -> tuple[Expression, ...]:
    """1 for the larger of two, 0 for the other."""
    return step(x - y), step(y - x)


def _tabulated(table: Table, x: Any) -> Any:
    """The function itself, on the host: torch has no form of it."""
    if not is_tensor(x):
        return table.function(x)
    return to_precision(beside(table.function(as_numpy(x)), x), x.dtype)


def _tabulated_slopes(node: Operation) -> tuple[Expression, ...]:
    assert node.table is not None
    return (tabulated(node.table.slope(), node.arguments[0]),)


ONE, ZERO = Constant(1.0), Constant(0.0)

OPERATIONS: dict[str, Rule] = {
    "add": Rule(lambda x, y: x + y, "{0} + {1}", lambda node: (ONE, ONE)),
    "subtract": Rule(lambda x, y: x - y, "{0} - {1}", lambda node: (ONE, Constant(-1.0))),
    "multiply": Rule(lambda x, y: x * y, "{0} * {1}", lambda node: node.arguments[::-1]),
    "divide": Rule(
        lambda x, y: x / y,
        "{0} / {1}",
        lambda node: (1.0 / node.arguments[1], -1.0 * (node / node.arguments[1])),
    ),
    "power": Rule(
        lambda x, k: x**k,
        "",  # written as multiplications
        lambda node: (float(node.exponent) * node.arguments[0] ** (node.exponent - 1),),
    ),
    "exp": Rule(_function("exp"), "exp({0})", lambda node: (node,)),
    "exp2": Rule(_function("exp2"), "exp2({0})", lambda node: (LOG2 * node,)),
    "decay": Rule(lambda x: _library(x).exp(-x), "decay({0})", lambda node: (-1.0 * node,)),
    "log": Rule(_function("log"), "log({0})", lambda node: (1.0 / node.arguments[0],)),
    "log1p": Rule(
        _function("log1p"), "log1p({0})", lambda node: (1.0 / (1.0 + node.arguments[0]),)
    ),
    "log2_1p": Rule(  # log₂(1 + x)
        lambda x: _library(x).log2(1.0 + x),
        "log2_1p({0})",
        lambda node: (1.0 / (LOG2 + LOG2 * node.arguments[0]),),
    ),
    "tanh": Rule(
        _function("tanh"),
        "",
        lambda node: (1.0 - node**2,),
        formula=lambda x: 1.0 - 2.0 / (exp(2.0 * x) + 1.0),
    ),
    "arcsin": Rule(
        _function("asin"),
        "arcsin({0})",
        lambda node: (reciprocal_root(1.0 - node.arguments[0] ** 2),),
    ),
    "ramp_angle": Rule(
        lambda x: x**3 * _series(x, lambda n: 4.0 / (2 * n + 3)),  # ∫₀ˣ 4w arcsin w dw
        "ramp_angle({0})",
        lambda node: (4.0 * (node.arguments[0] * arcsin(node.arguments[0])),),
    ),
    "square_angle": Rule(
        # ∫₀ˣ 16w · ramp_angle(w) dw
        lambda x: x**5 * _series(x, lambda n: 64.0 / ((2 * n + 3) * (2 * n + 5))),
        "square_angle({0})",
        lambda node: (16.0 * (node.arguments[0] * ramp_angle(node.arguments[0])),),
    ),
    "sqrt": Rule(
        _function("sqrt"), "sqrt({0})", lambda node: (0.5 * reciprocal_root(node.arguments[0]),)
    ),
    "reciprocal_root": Rule(
        _reciprocal_root, "reciprocal_root({0})", lambda node: (-0.5 * node**3,)
    ),
    "absolute": Rule(
        _function("abs"), "abs({0})", lambda node: (2.0 * step(node.arguments[0]) - 1.0,)
    ),
    "minimum": Rule(
        _function("minimum"), "min({0}, {1})", lambda node: _larger(*node.arguments[::-1])
    ),
    "maximum": Rule(_function("maximum"), "max({0}, {1})", lambda node: _larger(*node.arguments)),
    "tabulated": Rule(_tabulated, "tabulated({0}, {1})", _tabulated_slopes),
    "nearest": Rule(_function("round"), "nearest({0})", lambda node: (ZERO,)),
    "step": Rule(lambda x: 0.5 + 0.5 * _library(x).sign(x), "step({0})", lambda node: (ZERO,)),
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

    done[number] = Constant(1.0)
    return visit(expression)
