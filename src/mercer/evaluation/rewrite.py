"""Rules that turn a kernel expression into an equal one that costs less or keeps more digits.

A rule is given one node, whose arguments went through all rules already, and returns an equal
expression, or None where it does not apply. What it says is an identity; a test holds it to that
on random expressions. Rules look at the form of an expression, and at the sign of a parameter at
most, so that kernels which differ by their parameters share compiled code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mercer.evaluation.expression import (
    PAIR_KINDS,
    Constant,
    Expression,
    Number,
    Operation,
    Parameter,
    arguments_of,
    decay,
    exp,
    reciprocal_root,
    sqrt,
    transformed,
)
from mercer.evaluation.minimax import LOG2, LOG2E
from mercer.evaluation.operations import OPERATIONS, apply

Rule = Callable[[Operation], Expression | None]
MODEST = 4.0  # exponent up to which log₂ of a GPU, right to 3e-7, keeps the digits of a power
NONNEGATIVE = ("squared_distance", "x_norm", "y_norm", "x_length", "y_length")


def rewritten(expression: Expression, rules: Sequence[Rule]) -> Expression:
    """The expression after the rules, at every node until none applies.

    >>> from mercer.evaluation.expression import squared_distance
    >>> s = squared_distance()
    >>> rewritten(decay(s) * decay(s), (product_of_exponentials,)) == decay(s + s)
    True
    """
    done: dict[Expression, Expression] = {}

    def visit(node: Expression) -> Expression:
        if node not in done:
            made = node
            if isinstance(node, Operation):
                made = node.with_arguments(tuple(map(visit, node.arguments)))
                better = next((new for rule in rules if (new := rule(made)) is not None), None)
                made = made if better is None else visit(better)
            done[node] = done[made] = made
        return done[node]

    return visit(expression)


def parents(expression: Expression) -> dict[Expression, list[Operation]]:
    """The operations that take each node, one entry for each argument; none for the root."""
    above: dict[Expression, list[Operation]] = {expression: []}

    def visit(node: Expression) -> None:
        for argument in arguments_of(node):
            known = argument in above
            above.setdefault(argument, []).append(node)  # type: ignore[arg-type]
            if not known:
                visit(argument)

    visit(expression)
    return above


def is_nonnegative(node: Expression) -> bool:
    """Whether an expression is seen to be at least 0; False where it is not seen."""
    match node:
        case Parameter(value):
            return value >= 0.0
        case Number(kind):
            return kind in NONNEGATIVE
        case Operation("exp" | "exp2" | "decay" | "sqrt" | "reciprocal_root" | "absolute" | "step"):
            return True
        case Operation("power", (base,), exponent):
            return exponent % 2 == 0 or is_nonnegative(base)
        case Operation("add" | "multiply" | "divide" | "minimum", arguments):
            return all(map(is_nonnegative, arguments))
        case Operation("maximum", arguments):
            return any(map(is_nonnegative, arguments))
    return False


def _is_exponential(node: Expression) -> bool:
    return isinstance(node, Operation) and node.name in ("exp", "decay", "exp2")


def _times(left: Parameter, right: Parameter) -> Parameter:
    """A constant where both are; else a parameter."""
    kind = Constant if isinstance(left, Constant) and isinstance(right, Constant) else Parameter
    return kind(left.value * right.value)


# ---- constants -----------------------------------------------------------------------------------


def constants_folded(node: Operation) -> Expression | None:
    """f(a, b) of constants is a constant."""
    if node.table is not None or not all(isinstance(a, Parameter) for a in node.arguments):
        return None
    exact = all(isinstance(argument, Constant) for argument in node.arguments)
    with np.errstate(all="ignore"):
        value = float(apply(node, *(np.asarray(a.value) for a in node.arguments)))  # type: ignore[attr-defined]
    return (Constant if exact else Parameter)(value) if math.isfinite(value) else None


def zero_and_one(node: Operation) -> Expression | None:
    """1·x = x, 0·x = 0 and x + 0 = x, for numbers of the formula: parameters stay."""
    match node:
        case Operation("multiply", (Constant(1.0), x) | (x, Constant(1.0))):
            return x
        case Operation("multiply", (Constant(0.0) as zero, _) | (_, Constant(0.0) as zero)):
            return zero
        case Operation("add", (Constant(0.0), x) | (x, Constant(0.0))):
            return x
        case Operation("subtract", (x, Constant(0.0))):
            return x
    return None


def constants_first(node: Operation) -> Expression | None:
    """x·a = a·x, a·(b·x) = (ab)·x, x·(a·y) = a·(x·y), x/(a·y) = (1/a)·(x/y)."""
    match node:
        case Operation(
            "multiply", (Parameter() as a, Operation("multiply", (Parameter() as b, x)))
        ):
            return Operation("multiply", (_times(a, b), x))
        case Operation("multiply", (Parameter(), _)):
            return None
        case Operation("multiply", (x, Parameter() as a)):
            return Operation("multiply", (a, x))
        case Operation("multiply", (x, Operation("multiply", (Parameter() as a, y)))) | Operation(
            "multiply", (Operation("multiply", (Parameter() as a, x)), y)
        ):
            return Operation("multiply", (a, x * y))
        case Operation("divide", (Operation("multiply", (Parameter() as a, x)), y)):
            return Operation("multiply", (a, x / y))
        case Operation("divide", (x, Operation("multiply", (Parameter() as a, y)))) if a.value:
            return Operation("multiply", (Parameter(1.0 / a.value), x / y))
    return None


def like_terms(node: Operation) -> Expression | None:
    """a·x + b·x = (a + b)·x."""
    match node:
        case Operation(
            "add",
            (
                Operation("multiply", (Parameter() as a, x)),
                Operation("multiply", (Parameter() as b, y)),
            ),
        ) if x == y:
            return Operation("multiply", (Parameter(a.value + b.value), x))
    return None


def constant_into_sum(node: Operation) -> Expression | None:
    """a·(x + b) = a·x + ab, and a·((x + b)·y) = (a·x + ab)·y: one fused operation."""
    match node:
        case Operation("multiply", (Parameter() as a, Operation("multiply", (x, y)))):
            for left, right in ((x, y), (y, x)):
                if (moved := _scaled_sum(a, left)) is not None:
                    return moved * right
        case Operation("multiply", (Parameter() as a, x)):
            return _scaled_sum(a, x)
    return None


def _scaled_sum(a: Parameter, node: Expression) -> Expression | None:
    """a·(x ± y), where at least one of x and y is a constant, and both may have a factor."""
    match node:
        case Operation("add" | "subtract" as name, (x, y)):
            costs = sum(not _takes_factor(term) for term in (x, y))
            if costs == 0 or (costs == 1 and any(isinstance(t, Parameter) for t in (x, y))):
                return Operation(name, (_scaled(a, x), _scaled(a, y)))
    return None


def _takes_factor(node: Expression) -> bool:
    """Whether a factor costs nothing: a constant, or something that has one already."""
    match node:
        case Parameter() | Operation("multiply", (Parameter(), _)):
            return True
    return False


def _scaled(a: Parameter, node: Expression) -> Expression:
    return _times(a, node) if isinstance(node, Parameter) else Operation("multiply", (a, node))


# ---- powers, roots and exponentials --------------------------------------------------------------


def exponentials_last(node: Operation) -> Expression | None:
    """exp(a)·x = x·exp(a), (x·exp(a))·y = (x·y)·exp(a): what takes longest is waited for last."""
    match node:
        case Operation("multiply", (Parameter(), _)):
            return None
        case Operation("multiply", (x, y)) if _is_exponential(x) and not _is_exponential(y):
            return y * x
        case Operation("multiply", (Operation("multiply", (x, e)), y)) if _is_exponential(e):
            return x * (e * y) if _is_exponential(y) else (x * y) * e
        case Operation("multiply", (x, Operation("multiply", (y, e)))) if _is_exponential(e):
            # x·(exp(a)·exp(b)) stays: the case above would bring it back
            return None if _is_exponential(y) else (x * y) * e
    return None


def product_of_exponentials(node: Operation) -> Expression | None:
    """exp(a)·exp(b) = exp(a + b), in the log domain: one exponential, and nothing overflows."""
    match node:
        case Operation("multiply", (Operation("decay", (a,)), Operation("decay", (b,)))):
            return decay(a + b)
        case Operation("multiply", (Operation("exp", (a,)), Operation("exp", (b,)))):
            return exp(a + b)
        case Operation(
            "multiply",
            (Operation("exp", (a,)), Operation("decay", (b,)))
            | (Operation("decay", (b,)), Operation("exp", (a,))),
        ):
            return exp(a - b)
    return None


def power_of_exponential(node: Operation) -> Expression | None:
    """exp(a)^k = exp(k·a), √exp(a) = exp(½a), 1/√exp(a) = exp(−½a)."""
    match node:
        case Operation("power", (Operation("exp" | "decay" as name, (a,)),), exponent):
            return Operation(name, (float(exponent) * a,))
        case Operation("sqrt", (Operation("exp" | "decay" as name, (a,)),)):
            return Operation(name, (0.5 * a,))
        case Operation("reciprocal_root", (Operation("exp", (a,)),)):
            return exp(-0.5 * a)
        case Operation("reciprocal_root", (Operation("decay", (a,)),)):
            return exp(0.5 * a)
    return None


def powers_joined(node: Operation) -> Expression | None:
    """(x^j)^k = x^(jk), √x^(2k) = x^k, x^k·y^k = (x·y)^k, and 1/√(x^k) = (1/√x)^k for x ≥ 0.

    The third keeps normalised polynomials within the range of float32.
    """
    match node:
        case Operation("power", (Operation("power", (x,), j),), k):
            return x ** (j * k)
        case Operation("power", (Operation("sqrt", (x,)),), k) if k % 2 == 0:
            return x ** (k // 2)
        case Operation("multiply", (Operation("sqrt", (x,)), Operation("sqrt", (y,)))) if x == y:
            return x
        case Operation("multiply", (Operation("power", (x,), j), Operation("power", (y,), k))) if (
            j == k
        ):
            return (x * y) ** j
        case Operation("reciprocal_root", (Operation("power", (x,), k),)) if is_nonnegative(x):
            return reciprocal_root(x) ** k
    return None


def factor_into_power(node: Operation) -> Expression | None:
    """a·x^k = (a^(1/k)·x)^k for a > 0: γ^k alone may leave the range of float32."""
    match node:
        case Operation("multiply", (Parameter(a), Operation("power", (x,), k))) if a > 0.0:
            return (_root(a, k) * x) ** k
        case Operation(
            "multiply", (Parameter(a), Operation("multiply", (Operation("power", (x,), k), y)))
        ) if a > 0.0:
            return (_root(a, k) * x) ** k * y
    return None


def _root(a: float, k: int) -> float:
    """a^(1/k), right to rounding: a step of Newton's method makes up for that of 1/k."""
    root = a ** (1.0 / k)
    return root - root * (root**k / a - 1.0) / k


def formula(node: Operation) -> Expression | None:
    """An operation that is a formula of others, as `OPERATIONS` has it."""
    write = OPERATIONS[node.name].formula
    return None if write is None else write(*node.arguments)


SIMPLER: tuple[Rule, ...] = (
    formula,
    constants_folded,
    zero_and_one,
    constants_first,
    power_of_exponential,
    exponentials_last,
    product_of_exponentials,
    powers_joined,
    factor_into_power,
    constant_into_sum,
    like_terms,
)


# ---- for one execution ---------------------------------------------------------------------------


def base_two(node: Operation) -> Expression | None:
    """exp(−x) = 2^(−log₂e · x): a GPU has the power of two."""
    match node:
        case Operation("decay", (x,)):
            return Operation("exp2", (Operation("multiply", (Constant(-LOG2E), x)),))
    return None


def power_by_logarithm(node: Operation) -> Expression | None:
    """2^(a·log(1 + x)) = 2^((a·log 2)·log₂(1 + x)) for a modest power.

    A GPU has both functions; by polynomials a rational quadratic kernel takes six times as many
    instructions as a Gaussian.
    """
    match node:
        case Operation(
            "exp2", (Operation("multiply", (Parameter(a), Operation("log1p", (x,)))),)
        ) if abs(a) * LOG2 <= MODEST:
            return Operation("exp2", (LOG2 * a * Operation("log2_1p", (x,)),))
    return None


def factor_into_exponent(node: Operation) -> Expression | None:
    """a·2^x = 2^(x + log₂a) for a > 0: the sum is fused with the product that made x."""
    match node:
        case Operation("multiply", (Parameter(a), Operation("exp2", (x,)))) if a > 0.0:
            return Operation("exp2", (x + math.log2(a),))
        case Operation(
            "multiply", (Parameter(a), Operation("multiply", (y, Operation("exp2", (x,)))))
        ) if a > 0.0:
            return y * Operation("exp2", (x + math.log2(a),))
    return None


def root_of_factor(node: Operation) -> Expression | None:
    """√(a·x) = √a·√x for a ≥ 0: where the root is multiplied anyway, a costs nothing."""
    match node:
        case Operation("sqrt", (Operation("multiply", (Parameter(a) as p, x)),)) if a >= 0.0:
            kind = Constant if isinstance(p, Constant) else Parameter
            return Operation("multiply", (kind(math.sqrt(a)), sqrt(x)))
    return None


BINARY: tuple[Rule, ...] = (
    base_two,
    power_by_logarithm,
    root_of_factor,
    constants_folded,
    zero_and_one,
    constants_first,
    constant_into_sum,
    like_terms,
    exponentials_last,
    factor_into_exponent,
)


# ---- decays that are computed with their number --------------------------------------------------


@dataclass(frozen=True)
class Decayed(Expression):
    """exp(−a·q), a number that an execution computes where it computes the pair number q."""

    number: Number
    factor: Parameter


def decays_with_numbers(expression: Expression) -> Expression:
    """exp(−a·q) of a pair number q that occurs nowhere else is one number.

    >>> from mercer.evaluation.expression import squared_distance
    >>> decays_with_numbers(decay(0.5 * squared_distance())).factor.value
    0.5
    """
    above = parents(expression)

    def change(node: Expression) -> Expression:
        match node:
            case Operation(
                "decay", (Operation("multiply", (Parameter() as a, Number() as q)) as scaled,)
            ) if q.kind in PAIR_KINDS and len(above[q]) == len(above[scaled]) == 1:
                return Decayed(q, a)
        return node

    return transformed(expression, change)
