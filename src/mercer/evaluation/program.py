"""From an expression to a program: straight-line code over numbered inputs.

`EvaluableKernel` is all that evaluation, operators and functions know of a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from mercer.evaluation.expression import (
    PAIR_KINDS,
    X_KINDS,
    Y_KINDS,
    Coordinate,
    Expression,
    Number,
    Operation,
    Parameter,
    X,
    Y,
    numbers_of,
)
from mercer.evaluation.operations import OPERATIONS
from mercer.evaluation.tables import Table
from mercer.points import PointSet


@runtime_checkable
class EvaluableKernel(Protocol):
    """What a kernel owes to be evaluated: points, and a program or blocks."""

    def points(self, data: Any) -> PointSet:
        """The user's data as points of this kernel, or a `ValueError` that says what is wrong."""

    def expression(self) -> Expression | None:
        """The kernel's value as an expression over the numbers of a pair, where it has one."""

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        """All values k(x_i, y_j), for kernels without a program."""

    def diagonal(self, x: PointSet) -> np.ndarray:
        """All values k(x_i, x_i), for kernels without a program."""

    def derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        """All ∂k(x_i, y_j)/∂x_i, for kernels without a program."""

    @property
    def parallel(self) -> bool:
        """Whether blocks may be computed in several threads at once."""

    @property
    def symmetric(self) -> bool:
        """Whether k(x, y) = k(y, x); a matrix that was given need not be."""


@dataclass(frozen=True)
class Program:
    """Straight-line code: `lines` compute `result` from `q*` (pairs), `a*`, `b*` (norms), `p*`."""

    lines: tuple[str, ...]
    result: str
    pairs: tuple[Number, ...]
    x_norms: tuple[Number, ...]
    y_norms: tuple[Number, ...]
    parameters: tuple[float, ...]
    tables: tuple[Table, ...] = ()

    @cached_property
    def structure(self) -> str:
        """The program without its parameters and views: what is compiled, and compiled once."""
        pairs = tuple(_pair_structure(pair) for pair in self.pairs)
        counts = len(self.x_norms), len(self.y_norms), len(self.parameters)
        return "\n".join((repr(pairs), repr(counts), *self.lines, self.result))


def _pair_structure(pair: Number) -> tuple[Any, ...]:
    if pair.term is None:
        return (pair.kind,)
    code = coordinate_code(pair.term)
    scaled = pair.view.deferred_scales is not None
    counts = len(code.x_parts), len(code.y_parts)
    return pair.kind, code.instructions, code.result, counts, code.raw, scaled


def lower(expression: Expression) -> Program:
    """The straight-line program of an expression; every shared node is computed once.

    >>> from mercer.evaluation.expression import decay, squared_distance
    >>> print(*lower(decay(0.5 * squared_distance())).lines, sep="; ")
    t0 = p0 * q0; t1 = decay(t0)
    """
    return _Lowering(expression).program()


class _Lowering:
    def __init__(self, expression: Expression) -> None:
        numbers = numbers_of(expression)
        self.expression = expression
        self.pairs = tuple(n for n in numbers if n.kind in PAIR_KINDS)
        self.x_norms, self.y_norms = (
            tuple(n for n in numbers if n.kind in kinds) for kinds in (X_KINDS, Y_KINDS)
        )
        self.names: dict[Expression, str] = {}
        for letter, group in (("q", self.pairs), ("a", self.x_norms), ("b", self.y_norms)):
            self.names.update({n: f"{letter}{i}" for i, n in enumerate(group)})
        self.lines: list[str] = []
        self.parameters: list[float] = []
        self.tables: list[Table] = []

    def program(self) -> Program:
        result = self.name(self.expression)
        return Program(
            tuple(self.lines),
            result,
            self.pairs,
            self.x_norms,
            self.y_norms,
            tuple(self.parameters),
            tuple(self.tables),
        )

    def name(self, node: Expression) -> str:
        if node not in self.names:
            if isinstance(node, Parameter):
                self.names[node] = self.parameter(node)
            elif isinstance(node, Operation):
                self.names[node] = self.operation(node)
            else:
                raise TypeError(f"{node!r} is not part of a kernel program.")
        return self.names[node]

    def parameter(self, node: Parameter) -> str:
        self.parameters.append(node.value)
        return f"p{len(self.parameters) - 1}"

    def operation(self, node: Operation) -> str:
        arguments = [self.name(argument) for argument in node.arguments]
        if node.name == "power":
            return self.power(arguments[0], node.exponent)
        if node.table is not None:
            self.tables.append(node.table)
            return self.line(f"tabulated(T{len(self.tables) - 1}, {arguments[0]})")
        return self.line(OPERATIONS[node.name].code.format(*arguments))

    def power(self, base: str, exponent: int) -> str:
        """An integer power by repeated squaring."""
        result = ""
        while exponent:
            if exponent & 1:
                result = self.line(f"{result} * {base}") if result else base
            exponent >>= 1
            if exponent:
                base = self.line(f"{base} * {base}")
        return result

    def line(self, code: str) -> str:
        self.lines.append(f"t{len(self.lines)} = {code}")
        return f"t{len(self.lines) - 1}"


Instruction = tuple[str, ...]  # an operation, then the names of its arguments


@dataclass(frozen=True)
class CoordinateCode:
    """A term in x_k and y_k: instructions over "x0", …, "y0", … and run-time constants "c0", … .

    What depends on one point alone is computed once for each point, not once for each pair:
    "x1" is the number `x_parts[1]` of x_k.
    """

    instructions: tuple[Instruction, ...]
    result: str
    constants: tuple[float, ...]
    singles: tuple[float, ...]  # the constants in float32
    x_parts: tuple[Expression, ...]
    y_parts: tuple[Expression, ...]

    def constants_in(self, dtype: Any) -> tuple[float, ...]:
        """The constants that belong to a precision."""
        return self.singles if np.dtype(dtype) == np.float32 else self.constants

    @property
    def parts(self) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
        """The numbers of a coordinate of x, and of y, that the instructions take."""
        return self.x_parts, self.y_parts

    @property
    def raw(self) -> tuple[str, ...]:
        """The names that stand for x_k or y_k themselves."""
        sides = (("x", self.x_parts, X), ("y", self.y_parts, Y))
        return tuple(
            f"{side}{i}"
            for side, parts, coordinate in sides
            for i, part in enumerate(parts)
            if part == coordinate
        )


def coordinate_code(term: Expression) -> CoordinateCode:
    """The term of a sum or product over coordinates as instructions.

    >>> from mercer.evaluation.expression import X, Y, absolute, exp
    >>> coordinate_code(2.0 * absolute(X - Y)).instructions
    (('subtract', 'x0', 'y0'), ('absolute', 't0'), ('multiply', 'c0', 't1'))
    >>> coordinate_code(exp(2.0 * X) * Y).instructions
    (('multiply', 'x0', 'y0'),)
    """
    return _CoordinateLowering().code(term)


class _CoordinateLowering:
    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.constants: list[Parameter] = []
        self.parts: dict[str, list[Expression]] = {"x": [], "y": []}
        self.names: dict[Expression, str] = {}
        self.known: dict[Expression, set[str]] = {}

    def code(self, term: Expression) -> CoordinateCode:
        result = self.name(term)
        x_parts, y_parts = self.parts["x"] or [X], self.parts["y"] or [Y]
        return CoordinateCode(
            tuple(self.instructions),
            result,
            tuple(c.value for c in self.constants),
            tuple(c.in_single for c in self.constants),
            tuple(x_parts),
            tuple(y_parts),
        )

    def name(self, node: Expression) -> str:
        if node not in self.names:
            sides = self.sides(node)
            if len(sides) == 1:
                self.names[node] = self.part(min(sides), node)
            elif isinstance(node, Parameter):
                self.constants.append(node)
                self.names[node] = f"c{len(self.constants) - 1}"
            else:
                assert isinstance(node, Operation)
                self.names[node] = self.operation(node)
        return self.names[node]

    def part(self, side: str, node: Expression) -> str:
        self.parts[side].append(node)
        return f"{side}{len(self.parts[side]) - 1}"

    def operation(self, node: Operation) -> str:
        arguments = [self.name(argument) for argument in node.arguments]
        if node.name != "power":
            self.instructions.append((node.name, *arguments))
        else:
            for i in range(node.exponent - 1):
                left = arguments[0] if i == 0 else f"t{len(self.instructions) - 1}"
                self.instructions.append(("multiply", left, arguments[0]))
        return f"t{len(self.instructions) - 1}"

    def sides(self, node: Expression) -> set[str]:
        """Whose coordinates an expression depends on."""
        if node not in self.known:
            self.known[node] = (
                {node.side}
                if isinstance(node, Coordinate)
                else set().union(*map(self.sides, getattr(node, "arguments", ())))
            )
        return self.known[node]
