"""The oracle: an expression in plain NumPy, in extended precision where the machine has it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import Array, is_tensor, namespace, to_precision
from mercer.evaluation.execution import Plan, RowMap, RowPass
from mercer.evaluation.expression import COORDINATE_KINDS, Expression, Number, X, Y, numbers_of
from mercer.evaluation.gradients import Differentiable
from mercer.evaluation.operations import evaluate
from mercer.evaluation.program import EvaluableKernel
from mercer.points import PointSet, VectorPoints


def block(expression: Expression, x: VectorPoints, y: VectorPoints) -> np.ndarray:
    """All values k(x_i, y_j) in float64. Memory: n × m × d; for tests and small blocks."""
    numbers = {number: _pair_number(number, x, y) for number in numbers_of(expression)}
    values = np.asarray(evaluate(expression, numbers), np.float64)
    return np.broadcast_to(values, (len(x), len(y)))


def _pair_number(number: Number, x: VectorPoints, y: VectorPoints) -> np.ndarray:
    a = x.seen(number.view, np.longdouble)[:, None, :]
    b = y.seen(number.view, np.longdouble)[None, :, :]
    values = {
        "product": lambda: (a * b).sum(axis=-1),
        "squared_distance": lambda: ((a - b) ** 2).sum(axis=-1),
        "x_norm": lambda: (a * a).sum(axis=-1),
        "y_norm": lambda: (b * b).sum(axis=-1),
        "x_length": lambda: np.sqrt((a * a).sum(axis=-1)),
        "y_length": lambda: np.sqrt((b * b).sum(axis=-1)),
        "coordinate_sum": lambda: _terms(number, a, b).sum(axis=-1),
        "coordinate_product": lambda: _terms(number, a, b).prod(axis=-1),
    }
    return values[number.kind]()


def _terms(number: Number, a: Any, b: Any) -> Any:
    assert number.term is not None
    values = evaluate(number.term, {X: a, Y: b}, a if is_tensor(a) else None)
    return namespace(a).broadcast_to(values, np.broadcast_shapes(a.shape, b.shape))


def diagonal(expression: Expression, x: VectorPoints) -> Array:
    """All values k(x_i, x_i), in the precision of the points; memory: one vector a number."""
    zeros = x.vector(np.zeros(len(x)))
    numbers = {number: _own_number(number, x, zeros) for number in numbers_of(expression)}
    values = evaluate(expression, numbers, zeros if is_tensor(zeros) else None)
    return to_precision(zeros + values, x.dtype)


def _own_number(number: Number, x: VectorPoints, zeros: Array) -> Array:
    if number.kind == "squared_distance":
        return zeros
    if number.kind in COORDINATE_KINDS:

        def combined(block: VectorPoints) -> Array:
            rows: Any = block.seen(number.view, np.float64)
            terms = _terms(number, rows, rows)
            return terms.sum(-1) if number.kind == "coordinate_sum" else terms.prod(-1)

        return x.over_blocks(combined)
    norms = x.squared_norms(number.view)
    return namespace(norms).sqrt(norms) if number.kind in ("x_length", "y_length") else norms


class Reference(Differentiable):
    """K(X, Y) in float64, stored for every product: the execution that others are compared with."""

    def __init__(self, kernel: EvaluableKernel, x: PointSet, y: PointSet) -> None:
        self.kernel, self.x, self.y = kernel, x, y

    def product(self, values: np.ndarray) -> np.ndarray:
        return self.block() @ values

    def transposed_product(self, values: np.ndarray) -> np.ndarray:
        return self.block().T @ values

    def row_pass(self, values: np.ndarray, row_map: RowMap) -> RowPass:
        matrix = self.block()
        mapped = row_map(0, len(matrix), matrix @ values)
        return RowPass(matrix.T @ mapped.product, mapped.sums, mapped.values)

    def block(self) -> np.ndarray:
        expression = self.kernel.expression()
        if expression is None:
            return np.asarray(self.kernel.block(self.x, self.y), np.float64)
        return block(expression, self.x, self.y)

    def diagonal(self) -> np.ndarray:
        expression = self.kernel.expression()
        if expression is None:
            return np.asarray(self.kernel.diagonal(self.x), np.float64)
        return diagonal(expression, self.x)

    def values_of(self, expression: Expression, x: Any, y: Any) -> np.ndarray:
        return block(expression, x, y)

    def product_with(self, expression: Expression, values: np.ndarray) -> np.ndarray:
        return block(expression, self.x, self.y) @ values

    def plan(self, columns: int) -> Plan:
        n, m = len(self.x), len(self.y)
        return Plan("the reference in NumPy", "differences", (n, m), 1, False, 16 * n * m)
