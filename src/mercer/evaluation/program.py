"""From an expression to a program: straight-line code over numbered inputs.

`Lowerable` is all that evaluation, operators and functions know of a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    numbers_of,
)
from mercer.evaluation.operations import OPERATIONS
from mercer.evaluation.tables import Table
from mercer.points import PointSet


@runtime_checkable
class Lowerable(Protocol):
    """What a kernel owes to be evaluated: points, and a program or blocks."""

    def points(self, data: Any) -> PointSet:
        """The user's data as points of this kernel, or a `ValueError` that says what is wrong."""

    def program(self) -> Expression | None:
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

    @property
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
    return pair.kind, code.instructions, code.result, scaled


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
    """A term in x_k and y_k: instructions over "x", "y" and the run-time constants "c0", … ."""

    instructions: tuple[Instruction, ...]
    result: str
    constants: tuple[float, ...]


def coordinate_code(term: Expression) -> CoordinateCode:
    """The term of a sum or product over coordinates as instructions.

    >>> from mercer.evaluation.expression import X, Y, absolute
    >>> coordinate_code(2.0 * absolute(X - Y)).instructions
    (('subtract', 'x', 'y'), ('absolute', 't0'), ('multiply', 'c0', 't1'))
    """
    instructions: list[Instruction] = []
    constants: list[float] = []
    names: dict[Expression, str] = {}

    def visit(node: Expression) -> str:
        if node not in names:
            if isinstance(node, Coordinate):
                names[node] = node.side
            elif isinstance(node, Parameter):
                constants.append(node.value)
                names[node] = f"c{len(constants) - 1}"
            else:
                assert isinstance(node, Operation)
                names[node] = emit(node)
        return names[node]

    def emit(node: Operation) -> str:
        arguments = [visit(argument) for argument in node.arguments]
        if node.name != "power":
            instructions.append((node.name, *arguments))
        else:
            for i in range(node.exponent - 1):
                left = arguments[0] if i == 0 else f"t{len(instructions) - 1}"
                instructions.append(("multiply", left, arguments[0]))
        return f"t{len(instructions) - 1}"

    result = visit(term)
    return CoordinateCode(tuple(instructions), result, tuple(constants))
