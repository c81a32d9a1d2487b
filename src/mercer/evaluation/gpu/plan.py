"""Operand plans: in which form a GPU obtains the pair numbers of an expression.

Distances are computed accurately enough that kernel values keep float32 accuracy. Few columns are
subtracted coordinate by coordinate. Many go through a matrix product of points that were moved to
the middle of the y_j, where the expansion of the distance is safe (`accuracy`); where it is not,
pairs that are close are summed again from differences of the rows as they were given.

A plan replaces the numbers of an expression by what the operands give, constants included, and the
rules of `rewrite` fold the constants. What is left, `TileCode`, holds no values: it is compiled
once. Operands themselves are made in `operands`.
"""

from __future__ import annotations

from dataclasses import dataclass

from mercer.evaluation.expression import (
    Expression,
    Number,
    Operation,
    Parameter,
    arguments_of,
    numbers_of,
)
from mercer.evaluation.minimax import LOG2
from mercer.evaluation.program import Step, StraightLine
from mercer.evaluation.rewrite import parents

RESIDENT = 128  # columns of split operands that stay with a block of rows: what registers hold
PADDING = 256  # points are padded to a multiple, by copies of the last one: the longest tile
STEP = 64  # columns of split operands that are read together where they do not stay


def stored_width(width: int) -> int:
    """The columns that operands have in memory: matrix products take multiples of 16."""
    return -(-width // 16) * 16 if width <= RESIDENT else -(-width // STEP) * STEP


@dataclass(frozen=True)
class Tuning:
    """Limits between the ways to obtain a number; measured on an H200, right on any card."""

    few: int = 4  # columns up to which products are summed in registers
    subtracted: int = 8  # columns up to which a steep kernel subtracts: faster than a repair
    apart: int = 30  # columns up to which a product and a distance are two matrix products
    short: int = 32  # columns of one matrix product that holds all three parts side by side
    far: float = 0.25  # share of far points up to which they are a product of their own
    off_centre: float = 1 / 16  # ‖c‖² over ‖x‖² + ‖y‖² up to which a centre is not taken off
    similar: float = (
        2.0**-9
    )  # least over largest row for parts in float16, which has 5 exponent bits
    entries: float = 64.0  # largest entry of parts in float16: products stay below 65504
    overflow: float = 3e4  # squared norm from which parts must be float32: half of 65504
    small_product: float = 16.0  # squared norm up to which float16 loses digits of a product
    small_distance: float = 0.25  # and of a distance that grows again
    steepest: float = 2.0**60  # scale of rows whose square is still a float32
    floor: float = 2.0**-18  # share of ‖x‖² + ‖y‖² below which float16 ends: pairs are close there
    tiny: float = 1e-30  # least distance, so that its root needs no special case


TUNING = Tuning()
ARITHMETIC = ("add", "subtract", "multiply", "power")


@dataclass(frozen=True)
class Input(Expression):
    """A number that generated code has at hand: of a pair, or of a row or column of K alone."""

    name: str
    axis: str = "pair"


@dataclass(frozen=True)
class OperandPlan:
    """How the pair numbers of one view are obtained, in a form that holds no values.

    By `terms`: `width` coordinates are run over in registers, and each number is a kind and the
    code of its term, in what is `stored` of each coordinate of x and of y. Without: a matrix
    product of operands of `width` columns, cut into a leading and a following part, in three
    products of `parts` or in one. With `repaired` the distances of close pairs are computed again
    from differences; with `scaled` these are multiplied by scales.
    """

    width: int
    terms: tuple[tuple[str, StraightLine | None], ...] = ()
    stored: tuple[tuple[str, ...], tuple[str, ...]] = (("x",), ("y",))
    parts: int = 3
    repaired: bool = False
    scaled: bool = False


@dataclass(frozen=True)
class TileCode:
    """The computation of a tile of K: everything but the values of its arguments."""

    plans: tuple[OperandPlan, ...]
    steps: tuple[Step, ...]
    result: str
    inputs: tuple[Input, ...]
    scalars: tuple[str, ...]
    tables: tuple[tuple[int, int], ...]  # the bits of the first number, and the last piece
    dtype: str


# ---- forms of an expression ----------------------------------------------------------------------


@dataclass(frozen=True)
class Absorbed:
    """A product a·q of an expression, whose factor goes into the operands of the distance q.

    They give m = `scale`·q, and a·q is `rest`·m.
    """

    node: Operation
    scale: float
    rest: float


def absorbed_factor(expression: Expression, number: Number) -> Absorbed | None:
    """The product a·q, a > 0, whose factor operands take in, to the base 2 where it is an exponent.

    exp(−a·q) = 2^−m with a·q = log 2·m, and exp(−√(a·q)) = 2^−√m with a·q = (log 2)²·m. It is the
    only use of q, or one whose root is an exponent, where other uses are products as well.

    >>> from mercer.evaluation.expression import decay, sqrt, squared_distance
    >>> s = squared_distance()
    >>> [absorbed_factor(k, s).rest for k in (decay(2.0 * s), decay(sqrt(2.0 * s)), sqrt(2.0 * s))]
    [0.6931471805599453, 0.4804530139182014, 1.0]
    """
    above = parents(expression)
    uses: list[Absorbed] = []
    for node in above[number]:
        match node:
            case Operation("multiply", (Parameter(a), q)) if q == number and a > 0.0:
                rest = _rest_of_exponent(node, above)
                uses.append(Absorbed(node, a / rest, rest))
            case _:
                return None
    roots = [use for use in uses if use.rest == LOG2**2]
    return next(iter(roots), uses[0] if len(uses) == 1 else None)


def _rest_of_exponent(node: Operation, above: dict[Expression, list[Operation]]) -> float:
    """log 2 where a product is an exponent, (log 2)² where its root is one, else 1."""
    match above[node]:
        case [Operation("decay")]:
            return LOG2
        case [Operation("sqrt") as root] if any(use.name == "decay" for use in above[root]):
            return LOG2**2
    return 1.0


def sign_is_harmless(expression: Expression, number: Number) -> bool:
    """Whether a distance may be a little below 0: it ends in exponents, roots and logarithms.

    >>> from mercer.evaluation.expression import decay, squared_distance
    >>> s = squared_distance()
    >>> [sign_is_harmless(k, s) for k in (decay(2.0 * s), 2.0 * s)]
    [True, False]
    """
    above = parents(expression)

    def harmless(node: Expression) -> bool:
        return bool(above[node]) and all(map(ends, above[node]))

    def ends(use: Operation) -> bool:
        match use:
            case Operation("decay" | "exp" | "sqrt" | "log1p"):
                return True
            case Operation("add" | "subtract") | Operation("multiply", (Parameter(), _)):
                return harmless(use)
        return False

    return harmless(number)


def has_function(expression: Expression) -> bool:
    """Whether an expression is more than sums and products."""
    if isinstance(expression, Operation) and expression.name not in ARITHMETIC:
        return True
    return any(map(has_function, arguments_of(expression)))


def only_distance(expression: Expression) -> Number | None:
    """The distance of an expression that is a function of one distance alone."""
    match numbers_of(expression):
        case (Number("squared_distance") as number,):
            return number
    return None
