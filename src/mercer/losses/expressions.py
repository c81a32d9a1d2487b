"""The language of losses: scalar expressions in y and f, their slopes, and their values on arrays.

A loss is written down once, with the operators and functions of `mercer.evaluation.expression` and
the few below. Its slope and curvature are derivatives of that expression. All become straight-line
`Code`, which runs on arrays of any library, or is printed by `mercer.losses.compiled`.

>>> import numpy as np
>>> slope = code_of(slope_of(positive_part(1.0 - Y * F), F))
>>> (slope(np.array([1.0, 1.0, -1.0]), np.array([0.5, 1.0, 0.5])) + 0.0).tolist()
[-1.0, 0.0, 1.0]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mercer.arrays import Array, namespace
from mercer.evaluation.expression import Expression, Operation, Parameter, function, nodes_of
from mercer.evaluation.operations import OPERATIONS, ZERO, Rule, derivative
from mercer.evaluation.rewrite import constants_first, constants_folded, rewritten
from mercer.losses import numerics


@dataclass(frozen=True)
class Variable(Expression):
    """A variable of a loss: the target or the prediction."""

    name: str


Y, F, U = Variable("y"), Variable("f"), Variable("u")
"""The target, the prediction, and the slope that the conjugate is a function of."""


choose = function(
    "choose",
    "The second where x > 0, else the third; at x = 0 its slope is that of the third, too.",
)


def positive_part(x: Expression) -> Operation:
    """max(x, 0), with slope 0 at the kink x = 0."""
    return choose(x, x, 0.0)


softplus = function("softplus", "log(1 + eˣ), which neither overflows nor loses digits.")
sigmoid = function("sigmoid", "1/(1 + e⁻ˣ), with all digits on both sides.")
entropy = function("entropy", "x log x for x ≥ 0, which is 0 at 0.")
entropy1p = function(
    "entropy1p", "(1 + x) log(1 + x) for x ≥ −1, which is 0 at −1 and keeps its digits for small x."
)


# ---- operations ---------------------------------------------------------------------------------
#
# Constants come to oracles as Python's numbers, so that they never change a precision.


def _choose(x: Array, above: Any, otherwise: Any) -> Array:
    xp = namespace(x)
    if isinstance(above, float) and isinstance(otherwise, float):
        above = xp.full_like(x, above)
    return xp.where(x > 0, above, otherwise)


def _extreme(name: str, bound: str, x: Any, y: Any) -> Array:
    """The smaller or the larger of two, of which one may be a number."""
    x, y = (y, x) if isinstance(x, float) else (x, y)
    xp = namespace(x)
    return xp.clip(x, **{bound: y}) if isinstance(y, float) else getattr(xp, name)(x, y)


def _entropy1p(x: Array) -> Array:
    xp = namespace(x)
    return (1.0 + x) * xp.log1p(xp.where(x > -1.0, x, 0.0))


def _choose_slopes(node: Operation) -> tuple[Expression, ...]:
    x = node.arguments[0]
    return ZERO, choose(x, 1.0, 0.0), choose(x, 0.0, 1.0)


SHARED = ("add", "subtract", "multiply", "divide", "power", "exp", "log", "log1p", "sqrt")
RULES: dict[str, Rule] = {name: OPERATIONS[name] for name in SHARED} | {
    "tanh": replace(OPERATIONS["tanh"], code="tanh({0})"),
    "reciprocal_root": replace(
        OPERATIONS["reciprocal_root"], code="(1.0 / sqrt({0}) if {0} > 0.0 else 0.0)"
    ),
    "step": replace(OPERATIONS["step"], code="(1.0 if {0} > 0.0 else 0.5 if {0} == 0.0 else 0.0)"),
    "minimum": replace(OPERATIONS["minimum"], oracle=partial(_extreme, "minimum", "max")),
    "maximum": replace(OPERATIONS["maximum"], oracle=partial(_extreme, "maximum", "min")),
    "absolute": replace(
        OPERATIONS["absolute"], slopes=lambda node: (Operation("sign", node.arguments),)
    ),
    "sign": Rule(
        lambda x: namespace(x).sign(x),
        "(1.0 if {0} > 0.0 else -1.0 if {0} < 0.0 else 0.0)",
        lambda node: (ZERO,),
    ),
    "choose": Rule(_choose, "({1} if {0} > 0.0 else {2})", _choose_slopes),
    "softplus": Rule(
        numerics.softplus,
        "max({0}, 0.0) + log1p(exp(-abs({0})))",
        lambda node: (sigmoid(node.arguments[0]),),
    ),
    "sigmoid": Rule(
        numerics.sigmoid,
        "1.0 / (1.0 + exp(-{0}))",
        lambda node: (node * sigmoid(-1.0 * node.arguments[0]),),
    ),
    "entropy": Rule(
        numerics.negative_entropy,
        "({0} * log({0}) if {0} > 0.0 else 0.0)",
        lambda node: (Operation("log", node.arguments) + 1.0,),
    ),
    "entropy1p": Rule(
        _entropy1p,
        "((1.0 + {0}) * log1p({0}) if {0} > -1.0 else 0.0)",
        lambda node: (Operation("log1p", node.arguments) + 1.0,),
    ),
}
KINKED = ("absolute", "choose", "minimum", "maximum", "sign", "step")


# ---- slopes -------------------------------------------------------------------------------------


def slope_of(expression: Expression, variable: Variable) -> Expression:
    """∂(expression)/∂(variable), simplified."""
    return simplified(derivative(expression, variable, RULES) or ZERO)


def simplified(expression: Expression) -> Expression:
    """An equal expression with fewer operations."""
    return rewritten(expression, SIMPLER)


def neutral(node: Operation) -> Expression | None:
    """1·x = x, 0·x = 0, x ± 0 = x, also for parameters: arrays are long, and codes are short."""
    match node:
        case Operation("multiply", (Parameter(1.0), x) | (x, Parameter(1.0))):
            return x
        case Operation("multiply", (Parameter(0.0), _) | (_, Parameter(0.0))):
            return ZERO
        case Operation("add", (Parameter(0.0), x) | (x, Parameter(0.0))):
            return x
        case Operation("subtract", (x, Parameter(0.0))):
            return x
    return None


def into_choices(node: Operation) -> Expression | None:
    """c·(a if x > 0 else b) = ca if x > 0 else cb, and sums likewise.

    So what is not chosen, and may be infinite, is never multiplied by 0.
    """
    match node:
        case Operation(
            "multiply", (Operation("choose", (x, a, b)), c) | (c, Operation("choose", (x, a, b)))
        ):
            return choose(x, a * c, b * c)
        case Operation("add", (Operation("choose", (x, a, b)), Operation("choose", (z, c, d)))) if (
            x == z
        ):
            return choose(x, a + c, b + d)
    return None


def no_choice(node: Operation) -> Expression | None:
    """A choice between equal numbers, or by x once more where x > 0, is none."""
    match node:
        case Operation("choose", (_, Parameter(a) as number, Parameter(b))) if a == b:
            return number
        case Operation("choose", (x, Operation("choose", (z, a, _)), b)) if x == z:
            return choose(x, a, b)
    return None


SIMPLER = (constants_folded, neutral, constants_first, into_choices, no_choice)


def has_kinks(expression: Expression) -> bool:
    """Whether there is an operation whose slope may jump.

    >>> has_kinks(softplus(F)), has_kinks(positive_part(F))
    (False, True)
    """
    if not isinstance(expression, Operation):
        return False
    return expression.name in KINKED or any(map(has_kinks, expression.arguments))


# ---- straight-line code -------------------------------------------------------------------------


class Line(NamedTuple):
    """One operation: the places of its arguments, and which results are not used after it."""

    name: str
    places: tuple[int, ...]
    exponent: int
    last_used: tuple[int, ...]


@dataclass(frozen=True)
class Code:
    """Expressions as a list of operations, each on the results of earlier ones.

    Places count the two variables, then the constants, then the lines.

    Parameters
    ----------
    constants : tuple of float
        The parameters, which compiled code is given when it runs.
    lines : tuple of Line
        The operations.
    results : tuple of int
        The places of the results.
    """

    constants: tuple[float, ...]
    lines: tuple[Line, ...]
    results: tuple[int, ...]

    def __call__(self, *arrays: Array) -> Array:
        """The first result."""
        return self.evaluate(*arrays)[0]

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        """All results, for arrays of one shape and library.

        A number that is too large to be written is +∞, which is no error; where it is not chosen it
        does not matter. Arrays are let go after their last use: fresh memory costs more than most
        operations.
        """
        values: list[Any] = [*arrays, *self.constants]
        with np.errstate(over="ignore"):
            for name, places, exponent, last_used in self.lines:
                arguments = (values[place] for place in places)
                exponents = (exponent,) if name == "power" else ()
                values.append(RULES[name].oracle(*arguments, *exponents))
                for place in last_used:
                    values[place] = None
        results, like = [values[place] for place in self.results], arrays[-1]
        return tuple(
            namespace(like).full_like(like, result) if isinstance(result, float) else result
            for result in results
        )


def code_of(*expressions: Expression, variables: tuple[Variable, Variable] = (Y, F)) -> Code:
    """Straight-line code for expressions; what they share is computed once."""
    nodes = dict.fromkeys(node for expression in expressions for node in nodes_of(expression))
    constants = [node for node in nodes if isinstance(node, Parameter)]
    operations = [node for node in nodes if isinstance(node, Operation)]
    places = {node: place for place, node in enumerate((*variables, *constants, *operations))}
    last_use = {argument: node for node in operations for argument in node.arguments}
    lines = []
    for node in operations:
        done = (
            places[argument]
            for argument in node.arguments
            if isinstance(argument, Operation) and argument not in expressions
            if last_use[argument] is node
        )
        arguments = tuple(places[argument] for argument in node.arguments)
        lines.append(Line(node.name, arguments, node.exponent, tuple(done)))
    results = tuple(places[node] for node in expressions)
    return Code(tuple(constant.value for constant in constants), tuple(lines), results)
