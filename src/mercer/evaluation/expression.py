"""Expressions over the numbers of a pair of points: what a kernel writes down, once.

A pair (x, y) is seen through a `View` (some columns, each divided by a lengthscale). It yields
numbers: the product ⟨x,y⟩, the squared distance ‖x−y‖², norms of x and of y, and any sum or product
over coordinates of a term in x_k and y_k. Kernels combine them with `+`, `−`, `*`, `/`, integer
powers and the functions below. Constants become run-time parameters, so that fifty lengthscales
share one compiled program; constants inside a term are part of the program.

>>> s = squared_distance()
>>> gaussian = decay(0.5 * s)
>>> gaussian.arguments[0].arguments[1] is s
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mercer.evaluation.tables import Table
from mercer.points import ALL_COLUMNS, Column, View

BILINEAR_KINDS = ("product", "squared_distance")  # what a matrix product can give
COORDINATE_KINDS = ("coordinate_sum", "coordinate_product")
PAIR_KINDS = BILINEAR_KINDS + COORDINATE_KINDS
X_KINDS = ("x_norm", "x_length")
Y_KINDS = ("y_norm", "y_length")


class Expression:
    """A node of a kernel expression. Immutable; shared nodes are computed once."""

    def __getstate__(self) -> dict[str, Any]:
        """Without the hash, which differs from process to process."""
        return {key: value for key, value in vars(self).items() if key != "_hash"}

    def __add__(self, other: Expression | float) -> Operation:
        return Operation("add", (self, as_expression(other)))

    def __radd__(self, other: float) -> Operation:
        return Operation("add", (as_expression(other), self))

    def __sub__(self, other: Expression | float) -> Operation:
        return Operation("subtract", (self, as_expression(other)))

    def __rsub__(self, other: float) -> Operation:
        return Operation("subtract", (as_expression(other), self))

    def __neg__(self) -> Operation:
        return -1.0 * self

    def __truediv__(self, other: Expression | float) -> Operation:
        if not isinstance(other, Expression):
            return (1.0 / other) * self
        return Operation("divide", (self, other))

    def __rtruediv__(self, other: float) -> Operation:
        return Operation("divide", (as_expression(other), self))

    def __mul__(self, other: Expression | float) -> Operation:
        if not isinstance(other, Expression):
            return self.__rmul__(other)
        return Operation("multiply", (self, other))

    def __rmul__(self, factor: float) -> Operation:
        return Operation("multiply", (Parameter(float(factor)), self))

    def __pow__(self, exponent: int) -> Expression:
        if exponent == 0:
            return Parameter(1.0)
        return self if exponent == 1 else Operation("power", (self,), exponent)


@dataclass(frozen=True)
class Coordinate(Expression):
    """x_k or y_k inside the term of a sum or product over coordinates k."""

    side: str


X, Y = Coordinate("x"), Coordinate("y")


@dataclass(frozen=True)
class Number(Expression):
    """A number of a pair, seen through a view; `term` where it runs over coordinates."""

    kind: str
    view: View = ALL_COLUMNS
    term: Expression | None = None

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:  # a view may hold a large matrix
        return hash((self.kind, self.view, self.term))


@dataclass(frozen=True, eq=False)
class Parameter(Expression):
    """A constant, handed over when the program runs. Two parameters are never merged."""

    value: float


@dataclass(frozen=True)
class Constant(Parameter):
    """A number of the formula itself, the same for all kernels of one form: 1, −1, log₂ e."""


@dataclass(frozen=True)
class Operation(Expression):
    """An operation of `operations.OPERATIONS` applied to expressions.

    `twin` is an equal expression in other numbers, of which slopes are taken.
    """

    name: str
    arguments: tuple[Expression, ...]
    exponent: int = 1
    table: Table | None = None
    twin: Expression | None = None

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:  # else every look-up in a table of nodes would go through the tree
        return hash((self.name, self.arguments, self.exponent))

    def with_arguments(self, arguments: tuple[Expression, ...]) -> Operation:
        """The same operation on other arguments, without a twin; itself where nothing changes."""
        same = all(old is new for old, new in zip(self.arguments, arguments, strict=True))
        if same and self.twin is None:
            return self
        return Operation(self.name, arguments, self.exponent, self.table)

    def with_slopes_of(self, twin: Expression) -> Operation:
        """The same value, with the slopes of an equal expression that has them everywhere."""
        return replace(self, twin=twin)

    def __rmul__(self, factor: float) -> Operation:
        """A constant times a constant times an expression needs one multiplication."""
        first = self.arguments[0]
        if self.name == "multiply" and isinstance(first, Parameter):
            return self.arguments[1].__rmul__(factor * first.value)
        return super().__rmul__(factor)


def as_expression(value: Expression | float) -> Expression:
    """Expressions as they are, numbers as parameters."""
    return value if isinstance(value, Expression) else Parameter(float(value))


def product(view: View = ALL_COLUMNS) -> Number:
    """⟨x, y⟩."""
    return Number("product", view)


def squared_distance(view: View = ALL_COLUMNS) -> Number:
    """‖x − y‖²; how it is obtained without losing digits is the execution's business."""
    return Number("squared_distance", view)


def squared_norms(view: View = ALL_COLUMNS) -> tuple[Number, Number]:
    """‖x‖² and ‖y‖²."""
    return Number("x_norm", view), Number("y_norm", view)


def lengths(view: View = ALL_COLUMNS) -> tuple[Number, Number]:
    """‖x‖ and ‖y‖."""
    return Number("x_length", view), Number("y_length", view)


def coordinate_sum(term: Expression, view: View = ALL_COLUMNS) -> Number:
    """Σ_k term(x_k, y_k), the term being written with `X` and `Y`.

    >>> coordinate_sum(absolute(X - Y)).kind
    'coordinate_sum'
    """
    return Number("coordinate_sum", view, term)


def coordinate_product(term: Expression, view: View = ALL_COLUMNS) -> Number:
    """Π_k term(x_k, y_k)."""
    return Number("coordinate_product", view, term)


def function(name: str, sentence: str) -> Callable[..., Operation]:
    """A function of expressions, by its name in the table of operations."""

    def applied(*arguments: Expression | float) -> Operation:
        return Operation(name, tuple(map(as_expression, arguments)))

    applied.__name__ = applied.__qualname__ = name
    applied.__doc__ = sentence
    return applied


exp = function("exp", "The exponential.")
decay = function("decay", "exp(−x) where x ≥ 0: cheaper than `exp`, since it cannot overflow.")
sqrt = function("sqrt", "The square root, where x ≥ 0.")
reciprocal_root = function(
    "reciprocal_root",
    "1/√x, and 0 at x = 0, so that the slope of a kernel with a kink is 0 at the kink.",
)
log = function("log", "The natural logarithm, where x > 0.")
log1p = function("log1p", "log(1 + x), right for small x too, where x ≥ 0.")
tanh = function("tanh", "The hyperbolic tangent.")
arcsin = function("arcsin", "The arc sine, where 0 ≤ x ≤ √½.")
ramp_angle = function(
    "ramp_angle", "½(sin t − t cos t) for the angle t with sin(t/2) = x, where 0 ≤ x ≤ √½."
)
square_angle = function(
    "square_angle",
    "½(t(1 + 2cos² t) − 3 sin t cos t) for the angle t with sin(t/2) = x, 0 ≤ x ≤ √½.",
)
absolute = function("absolute", "|x|.")
nearest = function("nearest", "The nearest integer; its slope counts as 0.")
step = function("step", "1 where x > 0, 0 where x < 0, ½ at 0: the slope of `maximum(x, 0)`.")
minimum = function("minimum", "The smaller of two.")
maximum = function("maximum", "The larger of two.")


def tabulated(table: Table, x: Expression) -> Operation:
    """A function given by a table, where x ≥ 0."""
    return Operation("tabulated", (x,), table=table)


def polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Σ_n a_n x^n by Horner's rule, for expressions and arrays."""
    *lower, top = map(float, coefficients)
    value: Any = Parameter(top) if isinstance(x, Expression) else top + 0.0 * x
    for coefficient in reversed(lower):
        value = value * x + coefficient
    return value


def restricted(expression: Expression, columns: Sequence[Column]) -> Expression:
    """The expression on points of which only `columns` are kept; shared nodes stay shared."""
    return _with_numbers(
        expression, lambda number: replace(number, view=number.view.restricted(tuple(columns)))
    )


def mapped(expression: Expression, matrix: np.ndarray) -> Expression:
    """The expression on points A x; shared nodes stay shared."""
    return _with_numbers(
        expression, lambda number: replace(number, view=number.view.mapped(matrix))
    )


def own(expression: Expression, side: str) -> Expression | None:
    """The expression at (x, x) or (y, y), in numbers of one side; None where none exists."""
    norm, length = f"{side}_norm", f"{side}_length"
    if any(number.kind in COORDINATE_KINDS for number in numbers_of(expression, twins=True)):
        return None
    kinds = {"product": norm, "x_norm": norm, "y_norm": norm}
    kinds |= {"x_length": length, "y_length": length}

    def change(number: Number) -> Expression:
        if number.kind == "squared_distance":
            return Parameter(0.0)
        return replace(number, kind=kinds[number.kind])

    return _with_numbers(expression, change)


def _with_numbers(expression: Expression, change: Callable[[Number], Expression]) -> Expression:
    """A copy in which every `Number` went through `change`, those of twins included."""
    return transformed(
        expression, lambda node: change(node) if isinstance(node, Number) else node, twins=True
    )


def transformed(
    expression: Expression,
    change: Callable[[Expression], Expression] = lambda node: node,
    twins: bool = False,
    replacements: Mapping[Expression, Expression] | None = None,
) -> Expression:
    """A copy in which every node went through `change`, after its arguments.

    Shared nodes stay shared. Without `twins` the copy has none: it is for values, not for slopes.
    Of nodes in `replacements`, the outermost ones are replaced as they are.
    """
    done: dict[Expression, Expression] = dict(replacements or {})

    def visit(node: Expression) -> Expression:
        if node not in done:
            made = node
            if isinstance(node, Operation):
                made = node.with_arguments(tuple(map(visit, node.arguments)))
                if twins and node.twin is not None:
                    made = replace(made, twin=visit(node.twin))
            done[node] = change(made)
        return done[node]

    return visit(expression)


def nodes_of(expression: Expression, twins: bool = False) -> tuple[Expression, ...]:
    """The distinct nodes of an expression, each after its arguments.

    With `twins` those in which its slopes are taken, too.
    """
    done: dict[Expression, None] = {}

    def visit(node: Expression) -> None:
        if node not in done:
            for argument in arguments_of(node):
                visit(argument)
            if twins and isinstance(node, Operation) and node.twin is not None:
                visit(node.twin)
            done[node] = None

    visit(expression)
    return tuple(done)


def arguments_of(node: Expression) -> tuple[Expression, ...]:
    """The arguments of an operation; leaves have none."""
    return node.arguments if isinstance(node, Operation) else ()


def leaves_of(expression: Expression) -> tuple[Expression, ...]:
    """The distinct nodes without arguments."""
    return tuple(node for node in nodes_of(expression) if not isinstance(node, Operation))


def numbers_of(expression: Expression, twins: bool = False) -> tuple[Number, ...]:
    """The distinct pair numbers of an expression; with `twins` those of its slopes, too."""
    return tuple(node for node in nodes_of(expression, twins) if isinstance(node, Number))


SMOOTH_RULES = {"add", "subtract", "multiply", "power", "exp", "exp2", "decay", "log1p", "tanh"}


def is_smooth(expression: Expression) -> bool:
    """Whether an expression has derivatives of every order in its numbers, as far as is seen.

    >>> is_smooth(decay(squared_distance())), is_smooth(decay(sqrt(squared_distance())))
    (True, False)
    """
    if isinstance(expression, Operation):
        known = expression.name in SMOOTH_RULES
        return known and all(map(is_smooth, expression.arguments))
    if not isinstance(expression, Number):
        return True
    if expression.term is not None:
        return is_smooth(expression.term)
    return expression.kind not in ("x_length", "y_length") and not expression.view.unit
