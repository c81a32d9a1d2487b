"""From an expression to a program: its operations in the order in which they are computed.

A program names what it works with: pair numbers q0, q1, …, numbers of one point a0, … and b0, …,
parameters p0, …, tables T0, … and the results t0, t1, … of its steps. `EvaluableKernel` is all that
evaluation, operators and functions know of a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from mercer.evaluation.expression import (
    PAIR_KINDS,
    X_KINDS,
    Y_KINDS,
    Constant,
    Coordinate,
    Expression,
    Number,
    Operation,
    Parameter,
    X,
    Y,
    arguments_of,
    leaves_of,
    numbers_of,
)
from mercer.evaluation.operations import OPERATIONS, evaluate
from mercer.evaluation.rewrite import SIMPLER, Decayed, decays_with_numbers, formula, rewritten
from mercer.evaluation.tables import Table
from mercer.points import PointSet, View


@runtime_checkable
class EvaluableKernel(Protocol):
    """The part of a kernel that evaluation needs: points, and an expression or blocks."""

    def points(self, data: Any) -> PointSet:
        """The user's data as points of this kernel, or a `ValueError` that says what is wrong."""

    def expression(self) -> Expression | None:
        """The kernel's value as an expression over the numbers of a pair, where it has one."""

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        """All values k(x_i, y_j), for kernels without an expression."""

    def diagonal(self, x: PointSet) -> np.ndarray:
        """All values k(x_i, x_i), for kernels without an expression."""

    def factors(self, x: PointSet, y: PointSet) -> tuple[Any, Any] | None:
        """Sparse A and B with K(X, Y) = A Bᵀ, where a kernel without an expression has them."""

    def derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        """All ∂k(x_i, y_j)/∂x_i, for kernels without an expression."""

    @property
    def parallel(self) -> bool:
        """Whether blocks may be computed in several threads at once."""

    @property
    def symmetric(self) -> bool:
        """Whether k(x, y) = k(y, x); a matrix that was given need not be."""


Step = tuple[str, ...]  # an operation, then the names of its arguments


@dataclass(frozen=True)
class StraightLine:
    """The operations of an expression, in the order in which they are computed: step i makes ti."""

    steps: tuple[Step, ...]
    result: str
    parameters: tuple[float, ...]
    tables: tuple[Table, ...] = ()

    @property
    def lines(self) -> list[str]:
        """The steps as text that Numba and Triton understand."""
        return [f"t{i} = {text}" for i, text in enumerate(map(written, self.steps))]


def indented(lines: Sequence[str], depth: int) -> str:
    """Lines of code at a depth; empty ones are left out."""
    return "\n".join("    " * depth + line for line in lines if line)


def written(step: Step) -> str:
    """One step as text."""
    name, *arguments = step
    return OPERATIONS[name].code.format(*arguments)


def straight_line(
    expression: Expression,
    names: Mapping[Expression, str],
    parameter: str = "p",
    literals: bool = False,
) -> StraightLine:
    """The operations of an expression; every shared node is computed once.

    `names` are those of its inputs. With `literals` the numbers of the formula are written into the
    code; else they are parameters.

    >>> from mercer.evaluation.expression import decay, product
    >>> straight_line(decay(0.5 * product()), {product(): "q0"}).lines
    ['t0 = p0 * q0', 't1 = decay(t0)']
    """
    writer = _Writer(dict(names), parameter, literals)
    result = writer.name(expression)
    return StraightLine(tuple(writer.steps), result, tuple(writer.parameters), tuple(writer.tables))


@dataclass
class _Writer:
    """The steps so far, and the name of every node that was computed."""

    names: dict[Expression, str]
    parameter: str
    literals: bool
    steps: list[Step] = field(default_factory=list)
    parameters: list[float] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    def name(self, node: Expression) -> str:
        if node not in self.names:
            self.names[node] = self.computed(node)
        return self.names[node]

    def computed(self, node: Expression) -> str:
        match node:
            case Constant(value) if self.literals:
                return repr(value)
            case Parameter(value):
                self.parameters.append(value)
                return f"{self.parameter}{len(self.parameters) - 1}"
            case Operation("power", (base,), exponent):
                return self.power(self.name(base), exponent)
            case Operation(operation, arguments, table=table):
                given = [self.name(argument) for argument in arguments]
                if table is not None:
                    self.tables.append(table)
                    given.insert(0, f"T{len(self.tables) - 1}")
                return self.step(operation, *given)
        raise TypeError(f"{node!r} is not part of a kernel expression.")

    def power(self, base: str, exponent: int) -> str:
        """An integer power by repeated squaring."""
        result = ""
        while exponent:
            if exponent & 1:
                result = self.step("multiply", result, base) if result else base
            exponent >>= 1
            if exponent:
                base = self.step("multiply", base, base)
        return result

    def step(self, *parts: str) -> str:
        self.steps.append(parts)
        return f"t{len(self.steps) - 1}"


@dataclass(frozen=True)
class Program:
    """The computation of the CPU: steps over pair numbers, numbers of one point, and parameters.

    `decayed` names, for each pair number q, the parameter p of exp(−p·q) where nothing but that is
    needed, and q stands for it; else it is empty.
    """

    code: StraightLine
    pairs: tuple[Number, ...]
    decayed: tuple[str, ...]
    x_norms: tuple[Number, ...]
    y_norms: tuple[Number, ...]
    parameters: tuple[float, ...]
    expression: Expression

    @cached_property
    def diagonal(self) -> float | None:
        """k(x, x) where it is one number for all x: that of a function of distances at 0."""
        numbers = numbers_of(self.expression)
        if any(number.kind != "squared_distance" for number in numbers):
            return None
        at_zero = evaluate(self.expression, dict.fromkeys(numbers, np.zeros(1)))
        return float(np.ravel(at_zero)[0])

    @cached_property
    def views(self) -> tuple[View, ...]:
        """The view of each pair number."""
        return tuple(number.view for number in self.pairs)

    @property
    def tables(self) -> tuple[Table, ...]:
        return self.code.tables

    @cached_property
    def structure(self) -> str:
        """The program without its parameters and views: what is compiled, and compiled once."""
        pairs: list[tuple[Any, ...]] = []
        for pair in self.pairs:
            inside: tuple[Any, ...] = ()
            if pair.term is not None:
                code, scaled = coordinate_code(pair.term), pair.view.deferred_scales is not None
                inside = code.steps, code.result, tuple(map(len, code.parts)), code.raw, scaled
            pairs.append((pair.kind, *inside))
        counts = len(self.x_norms), len(self.y_norms), len(self.parameters)
        return repr((pairs, self.decayed, counts, self.code.steps, self.code.result))


def lower(expression: Expression) -> Program:
    """The program of an expression, after the rules that make it cheaper.

    >>> from mercer.evaluation.expression import decay, product, squared_distance
    >>> lower(2.0 * decay(0.5 * squared_distance()) * product()).code.lines
    ['t0 = q0 * q1', 't1 = p0 * t0']
    """
    given, expression = expression, decays_with_numbers(rewritten(expression, SIMPLER))
    leaves = leaves_of(expression)
    pairs = [leaf for leaf in leaves if isinstance(leaf, Decayed) or _kind(leaf) in PAIR_KINDS]
    x_norms, y_norms = (
        tuple(leaf for leaf in leaves if _kind(leaf) in kinds) for kinds in (X_KINDS, Y_KINDS)
    )
    groups = (("q", pairs), ("a", x_norms), ("b", y_norms))
    code = straight_line(
        expression,
        {leaf: f"{letter}{i}" for letter, group in groups for i, leaf in enumerate(group)},
    )
    parameters, decayed = list(code.parameters), []
    for leaf in pairs:
        decayed.append(f"p{len(parameters)}" if isinstance(leaf, Decayed) else "")
        if isinstance(leaf, Decayed):
            parameters.append(leaf.factor.value)
    numbers: Any = tuple(leaf.number if isinstance(leaf, Decayed) else leaf for leaf in pairs)
    sides: Any = x_norms, y_norms, tuple(parameters), given
    return Program(code, numbers, tuple(decayed), *sides)


def _kind(leaf: Expression) -> str:
    return leaf.kind if isinstance(leaf, Number) else ""


@dataclass(frozen=True)
class CoordinateCode:
    """A term in x_k and y_k: steps over "x0", …, "y0", … and run-time constants "c0", … .

    What depends on one point alone is computed once for each point, not once for each pair:
    "x1" is the number `x_parts[1]` of x_k.
    """

    steps: tuple[Step, ...]
    result: str
    constants: tuple[float, ...]
    x_parts: tuple[Expression, ...]
    y_parts: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
        """The numbers of a coordinate of x, and of y, that the steps take."""
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
    """The term of a sum or product over coordinates as steps.

    >>> from mercer.evaluation.expression import X, Y, absolute, exp
    >>> coordinate_code(2.0 * absolute(X - Y)).steps
    (('subtract', 'x0', 'y0'), ('absolute', 't0'), ('multiply', 'c0', 't1'))
    >>> coordinate_code(exp(2.0 * X) * Y).steps
    (('multiply', 'x0', 'y0'),)
    """
    term = rewritten(term, (formula,))
    parts = parts_of_points(term)
    names = {part: f"{side}{i}" for side in "xy" for i, part in enumerate(parts[side])}
    code = straight_line(term, names, parameter="c")
    x_parts, y_parts = tuple(parts["x"]) or (X,), tuple(parts["y"]) or (Y,)
    return CoordinateCode(code.steps, code.result, code.parameters, x_parts, y_parts)


def parts_of_points(term: Expression) -> dict[str, list[Expression]]:
    """The largest parts of a term that depend on x_k alone, and those on y_k alone.

    >>> from mercer.evaluation.expression import X, Y, exp
    >>> growth = exp(2.0 * X)
    >>> parts_of_points(growth * Y) == {"x": [growth], "y": [Y]}
    True
    """
    parts: dict[str, dict[Expression, None]] = {"x": {}, "y": {}}

    @cache  # a polynomial names its argument often, and nodes in common would be seen 2ⁿ times
    def sides(node: Expression) -> frozenset[str]:
        """Whose coordinates an expression depends on."""
        if isinstance(node, Coordinate):
            return frozenset(node.side)
        return frozenset().union(*map(sides, arguments_of(node)))

    @cache
    def collect(node: Expression) -> None:
        if len(sides(node)) == 1:
            (side,) = sides(node)
            parts[side][node] = None
        else:
            for argument in arguments_of(node):
                collect(argument)

    collect(term)
    return {side: list(found) for side, found in parts.items()}
