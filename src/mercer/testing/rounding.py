"""A bound on the rounding error of a kernel value, computed along its expression.

Every operation adds its own rounding to what its arguments carry (Wilkinson's running error
analysis), so tolerances follow from the unit of the precision and the conditioning of the kernel
on these very points, entry by entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.evaluation.expression import Expression, Number, Operation, Parameter, X, Y
from mercer.evaluation.minimax import LOG2E
from mercer.evaluation.operations import apply
from mercer.points import VectorPoints, View

Carried = tuple[np.ndarray, np.ndarray]  # a value, and how far it may be off

LOST = {"float32": 10.0, "float64": 100.0}  # factor on a distance that was expanded from products
EXPONENTIAL = 8.0  # units in the last place, beside those of its argument
ELEMENTARY = {
    "log": 4.0,
    "log1p": 4.0,
    "log2_1p": 6.0,
    "tanh": 4.0,
    "arcsin": 4.0,
    "ramp_angle": 6.0,
    "square_angle": 6.0,
    "tabulated": 8.0,
}  # units, where not 1
EXACT = ("absolute", "minimum", "maximum", "nearest", "step")


def kernel_bound(
    expression: Expression, x: VectorPoints, y: VectorPoints, dtype: Any, expanded: bool = False
) -> np.ndarray:
    """B with |computed − exact| ≤ B for every k(x_i, y_j).

    `expanded` says that distances come from products, with close pairs repaired: they lose at
    most one digit in float32, two in float64.
    """
    error = _Bound(np.dtype(dtype), _PairNumbers(x, y, np.dtype(dtype), expanded))(expression)
    return np.broadcast_to(error, (len(x), len(y)))


class _Bound:
    """The bound of an expression, given how far its leaves (numbers, coordinates) are off."""

    def __init__(self, dtype: np.dtype, leaf: Callable[[Expression], Carried | None]) -> None:
        self.dtype, self.leaf = dtype, leaf
        self.unit = float(np.finfo(dtype).eps)
        self.tiny = float(np.finfo(dtype).tiny)
        self.done: dict[Expression, Carried] = {}

    def __call__(self, expression: Expression) -> np.ndarray:
        with np.errstate(all="ignore"):
            return self.visit(expression)[1]

    def visit(self, node: Expression) -> Carried:
        if node not in self.done:
            self.done[node] = self.leaf(node) or self.computed(node)
        return self.done[node]

    def computed(self, node: Expression) -> Carried:
        if isinstance(node, Parameter):
            return np.asarray(node.value), np.abs(self.dtype.type(node.value) - node.value)
        assert isinstance(node, Operation)
        match node:
            case Operation("subtract", (turn, Operation("nearest", (inner,)))) if inner == turn:
                # t − ⌊t⌉ up to whole turns: what is made of it repeats, so a jump of 1 is no error.
                value, error = self.visit(turn)
                return value - np.rint(value), error + self.unit
        values, errors = zip(*(self.visit(argument) for argument in node.arguments), strict=True)
        result = apply(node, *values)
        carried = CARRIED[node.name](node, values, errors, result)
        return result, carried + self.own(node, values, result)

    def own(self, node: Operation, values: Any, result: np.ndarray) -> np.ndarray:
        """The rounding of the operation itself."""
        if node.name in EXACT:
            return np.asarray(0.0)
        if node.name in ("exp", "exp2", "decay"):
            return (np.abs(values[0]) + EXPONENTIAL) * self.unit * result + 4 * self.tiny
        return ELEMENTARY.get(node.name, node.exponent) * self.unit * np.abs(result)


class _PairNumbers:
    """The numbers of all pairs of points: exact values, and how far they are off."""

    def __init__(self, x: VectorPoints, y: VectorPoints, dtype: np.dtype, expanded: bool) -> None:
        self.x, self.y, self.dtype, self.expanded = x, y, dtype, expanded
        self.unit = float(np.finfo(dtype).eps)
        self.lost = LOST[dtype.name] if expanded else 1.0

    def __call__(self, node: Expression) -> Carried | None:
        if not isinstance(node, Number):
            return None
        a = self.x.seen(node.view, np.float64)[:, None, :]
        b = self.y.seen(node.view, np.float64)[None, :, :]
        roundings = (a.shape[-1] + 3) * self.unit
        if node.kind == "squared_distance":
            gap, off = np.abs(a - b), self.gaps_off(node.view, a, b)
            value = (gap**2).sum(axis=-1)
            moved = ((2 * gap + off) * off).sum(axis=-1)
            return value, self.lost * roundings * value + moved
        if node.kind in ("coordinate_sum", "coordinate_product"):
            return self.over_coordinates(node, a, b)
        return self.bilinear(node, a, b, roundings)

    def bilinear(self, node: Number, a: np.ndarray, b: np.ndarray, roundings: float) -> Carried:
        """Products and norms; lengths are their roots."""
        terms = {"product": a * b, "x": a * a + 0 * b, "y": b * b + 0 * a}[node.kind.split("_")[0]]
        off = self.points_off(node.view, self.x, a), self.points_off(node.view, self.y, b)
        size = np.abs(terms).sum(axis=-1)
        moved = 2 * (np.abs(a) * off[1] + np.abs(b) * off[0] + off[0] * off[1]).sum(axis=-1)
        if self.expanded:  # products of centred points, and what the centre adds
            size = np.full_like(
                size, 4 * max((a * a).sum(-1).max(initial=0.0), (b * b).sum(-1).max(initial=0.0))
            )
        value, error = terms.sum(axis=-1), roundings * size + moved
        if node.kind.endswith("length"):
            value = np.sqrt(value)
            error = np.divide(error, value, out=np.sqrt(error), where=value > 0)
        return value, error

    def over_coordinates(self, node: Number, a: np.ndarray, b: np.ndarray) -> Carried:
        leaves: dict[Expression, Carried] = {
            X: (a, self.points_off(node.view, self.x, a)),
            Y: (b, self.points_off(node.view, self.y, b)),
            X - Y: (a - b, self.gaps_off(node.view, a, b) + 2 * self.unit * np.abs(a - b)),
        }
        assert node.term is not None
        terms, errors = _Bound(self.dtype, leaves.get).visit(node.term)
        shape = np.broadcast_shapes(a.shape, b.shape)
        terms, errors = np.broadcast_to(terms, shape), np.broadcast_to(errors, shape)
        if node.kind == "coordinate_sum":
            adding = shape[-1] * self.unit * np.abs(terms)
            return terms.sum(axis=-1), (errors + adding).sum(axis=-1)
        value, off = np.ones(shape[:-1]), np.zeros(shape[:-1])
        for k in range(shape[-1]):
            term, error = np.abs(terms[..., k]), errors[..., k]
            off = off * (term + error) + np.abs(value) * error
            value = value * terms[..., k]
            off = off + self.unit * np.abs(value)
        return value, off

    def points_off(self, view: View, points: VectorPoints, seen: np.ndarray) -> np.ndarray:
        """How far a point in a view may be off: what a map, scales and a length round."""
        off = np.zeros_like(seen)
        if view.matrix is not None:
            sizes = np.abs(points.seen(View(view.columns), np.float64))
            off += _shaped(self.unit * sizes.shape[1] * sizes @ _size_of_map(view), seen)
        if view.scales is not None:
            off += self.unit * np.abs(seen)
        if view.unit:
            off += (seen.shape[-1] + 4) * self.unit * np.abs(seen)
        return off

    def gaps_off(self, view: View, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """How far x_k − y_k may be off, beyond what its size explains.

        Scales come after the difference, a map is applied to points around their middle.
        """
        if view.unit:
            return self.points_off(view, self.x, a) + self.points_off(view, self.y, b)
        if view.matrix is None:
            return np.zeros_like(a)
        x, y = (p.seen(View(view.columns), np.float64) for p in (self.x, self.y))
        middle = y.mean(axis=0) if len(y) else 0.0
        sizes = [np.abs(p - middle) @ _size_of_map(view) for p in (x, y)]
        return self.unit * (x.shape[1] + 1) * (_shaped(sizes[0], a) + _shaped(sizes[1], b))


def _size_of_map(view: View) -> np.ndarray:
    scales = 1.0 if view.scales is None else np.abs(np.asarray(view.scales))[:, None]
    return (np.abs(np.asarray(view.matrix)) * scales).T


def _shaped(rows: np.ndarray, like: np.ndarray) -> np.ndarray:
    return rows.reshape(like.shape)


Rule = Callable[[Operation, Any, Any, Any], Any]


def _multiply(node: Operation, values: Any, errors: Any, result: Any) -> Any:
    (a, b), (da, db) = values, errors
    return np.abs(a) * db + np.abs(b) * da + da * db


def _divide(node: Operation, values: Any, errors: Any, result: Any) -> Any:
    least = np.abs(values[1]) - errors[1]
    return np.where(least > 0, (errors[0] + np.abs(result) * errors[1]) / least, np.inf)


def _arcsin(node: Operation, values: Any, errors: Any, result: Any) -> Any:
    """By its slope, or near 1 by as much as it moves there: arccos(1 − e)."""
    rest = 1.0 - (values[0] + errors[0]) ** 2
    slope = np.where(rest > 0, errors[0] / np.sqrt(np.maximum(rest, 1e-300)), np.inf)
    return np.minimum(slope, 2 * np.arcsin(np.sqrt(np.minimum(errors[0] / 2, 1.0))))


def _three_times(node: Operation, values: Any, errors: Any, result: Any) -> Any:
    """Functions of w ≤ √½ whose slope is at most 4w²·1.12 ≤ 2.3, or 16w·½ ≤ 5.7 (up to w = √½)."""
    return np.minimum(6.0, 18.0 * (values[0] + errors[0]) ** 2) * errors[0]


def _chosen(node: Operation, values: Any, errors: Any, result: Any) -> Any:
    """The error of the value that is taken, or of both where either may be."""
    apart = np.abs(values[0] - values[1]) > errors[0] + errors[1]
    taken = np.where(result == values[0], errors[0], errors[1])
    return np.where(apart, taken, np.maximum(errors[0], errors[1]))


def _tabulated(node: Operation, values: Any, errors: Any, result: Any) -> Any:
    assert node.table is not None
    slope = np.abs(node.table.slope().function(values[0])).reshape(np.shape(values[0]))
    return np.where(errors[0] > 0, slope * errors[0], 0.0)


def _of_log(shift: float, scale: float = 1.0) -> Rule:
    """Of scale · log(shift + a)."""
    return lambda node, v, e, result: -scale * np.log1p(-np.minimum(e[0] / (shift + v[0]), 0.5))


# For each operation, how far it moves where its values v are off by errors e.
CARRIED: dict[str, Rule] = {
    "multiply": _multiply,
    "divide": _divide,
    "power": lambda node, v, e, result: (
        node.exponent * (np.abs(v[0]) + e[0]) ** (node.exponent - 1) * e[0]
    ),
    "log": _of_log(0.0),
    "log1p": _of_log(1.0),
    "log2_1p": _of_log(1.0, LOG2E),
    "arcsin": _arcsin,
    "sqrt": lambda node, v, e, root: np.minimum(e[0] / np.maximum(root, 1e-300), np.sqrt(e[0])),
    "reciprocal_root": lambda node, v, e, result: result**3 * e[0],
    "nearest": lambda node, v, e, result: np.rint(v[0] + e[0]) - np.rint(v[0] - e[0]),
    "step": lambda node, v, e, result: 1.0 * ((np.abs(v[0]) <= e[0]) & (e[0] > 0)),
    "tabulated": _tabulated,
}
CARRIED |= dict.fromkeys(("add", "subtract"), lambda node, v, e, result: e[0] + e[1])
CARRIED |= dict.fromkeys(  # with a slope of 1 at most
    ("tanh", "absolute"), lambda node, v, e, result: e[0]
)
CARRIED |= dict.fromkeys(
    ("exp", "exp2", "decay"),
    lambda node, v, e, result: result * np.expm1(np.minimum(e[0], 50.0)),
)
CARRIED |= dict.fromkeys(("minimum", "maximum"), _chosen)
CARRIED |= dict.fromkeys(("ramp_angle", "square_angle"), _three_times)
