"""How far rounding may move a kernel value: a running error bound over its program.

Every operation adds its own rounding to what its arguments carry (Wilkinson's running error
analysis), so tolerances follow from the unit of the precision and the conditioning of the kernel
on these very points, entry by entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.evaluation.expression import Expression, Number, Operation, Parameter
from mercer.evaluation.operations import OPERATIONS
from mercer.points import VectorPoints

Carried = tuple[np.ndarray, np.ndarray]  # a value, and how far it may be off

LOST = {"float32": 10.0, "float64": 100.0}  # factor on a distance that was expanded from products
EXPONENTIAL = 8.0  # units in the last place, beside those of its argument


def kernel_bound(
    expression: Expression, x: VectorPoints, y: VectorPoints, dtype: Any, expanded: bool = False
) -> np.ndarray:
    """B with |computed − exact| ≤ B for every k(x_i, y_j).

    `expanded` says that distances come from products, with close pairs repaired: they lose at
    most one digit in float32, two in float64.

    >>> from mercer.kernels import Gaussian
    >>> k = Gaussian()
    >>> points = k.points([[0.0], [1.0]])
    >>> bool(kernel_bound(k.program(), points, points, "float64").max() < 1e-14)
    True
    """
    return _Bound(x, y, np.dtype(dtype), expanded)(expression)


class _Bound:
    def __init__(self, x: VectorPoints, y: VectorPoints, dtype: np.dtype, expanded: bool) -> None:
        self.x, self.y, self.expanded = x, y, expanded
        self.unit = float(np.finfo(dtype).eps)
        self.tiny = float(np.finfo(dtype).tiny)
        self.lost = LOST[dtype.name] if expanded else 1.0
        self.done: dict[Expression, Carried] = {}

    def __call__(self, expression: Expression) -> np.ndarray:
        with np.errstate(over="ignore", under="ignore"):
            _, error = self.visit(expression)
        return np.broadcast_to(error, (len(self.x), len(self.y)))

    def visit(self, node: Expression) -> Carried:
        if node not in self.done:
            if isinstance(node, Number):
                self.done[node] = self.number(node)
            elif isinstance(node, Parameter):
                self.done[node] = np.asarray(node.value), np.asarray(self.unit * abs(node.value))
            else:
                assert isinstance(node, Operation)
                self.done[node] = self.operation(node)
        return self.done[node]

    def number(self, node: Number) -> Carried:
        a = self.x.seen(node.view, np.float64)[:, None, :]
        b = self.y.seen(node.view, np.float64)[None, :, :]
        roundings = (a.shape[-1] + 3) * self.unit
        if node.kind == "squared_distance":
            value = ((a - b) ** 2).sum(axis=-1)
            return value, self.lost * roundings * value
        terms = {"product": a * b, "x_norm": a * a + 0 * b, "y_norm": b * b + 0 * a}[node.kind]
        size = np.abs(terms).sum(axis=-1)
        if self.expanded:  # products of centred points, and what the centre adds
            size = np.full_like(size, 4 * max((a * a).sum(-1).max(), (b * b).sum(-1).max()))
        return terms.sum(axis=-1), roundings * size

    def operation(self, node: Operation) -> Carried:
        values, errors = zip(*(self.visit(argument) for argument in node.arguments), strict=True)
        exponent = (np.asarray(node.exponent),) if node.name == "power" else ()
        result = OPERATIONS[node.name].oracle(*values, *exponent)
        carried = _CARRIED[node.name](node, values, errors, result)
        return result, carried + self.own(node, values, result)

    def own(self, node: Operation, values: Any, result: np.ndarray) -> np.ndarray:
        """The rounding of the operation itself."""
        if node.name in ("exp", "decay"):
            return (np.abs(values[0]) + EXPONENTIAL) * self.unit * result + 4 * self.tiny
        return node.exponent * self.unit * np.abs(result)


Rule = Callable[[Operation, Any, Any, Any], Any]


def _add(node: Operation, values: Any, errors: Any, result: Any) -> Any:
    return errors[0] + errors[1]


def _multiply(node: Operation, values: Any, errors: Any, result: Any) -> Any:
    (a, b), (da, db) = values, errors
    return np.abs(a) * db + np.abs(b) * da + da * db


def _power(node: Operation, values: Any, errors: Any, result: Any) -> Any:
    size = np.abs(values[0])
    return node.exponent * (size + errors[0]) ** (node.exponent - 1) * errors[0]


def _exponential(node: Operation, values: Any, errors: Any, result: Any) -> Any:
    return result * np.expm1(np.minimum(errors[0], 50.0))


def _root(node: Operation, values: Any, errors: Any, result: Any) -> Any:
    return result - np.sqrt(np.maximum(values[0] - errors[0], 0.0))


def _reciprocal_root(node: Operation, values: Any, errors: Any, result: Any) -> Any:
    return result**3 * errors[0]


_CARRIED: dict[str, Rule] = {
    "add": _add,
    "multiply": _multiply,
    "power": _power,
    "exp": _exponential,
    "decay": _exponential,
    "sqrt": _root,
    "reciprocal_root": _reciprocal_root,
}
