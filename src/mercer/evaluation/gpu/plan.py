"""Operand plans: how a GPU obtains the pair numbers of an expression on given points.

Distances are computed accurately enough that kernel values keep float32 accuracy. Few columns are
subtracted coordinate by coordinate. Many go through a matrix product of points that were moved to
the middle of the y_j, where the expansion of the distance is safe (`accuracy`); where it is not,
pairs that are close are summed again from differences of the rows as they were given.

A plan replaces the numbers of an expression by what the operands give, constants included, and the
rules of `rewrite` fold the constants. What is left holds no values, and is compiled once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from mercer.evaluation import accuracy
from mercer.evaluation.accuracy import expansion_is_safe, safe_norm
from mercer.evaluation.expression import (
    BILINEAR_KINDS,
    PAIR_KINDS,
    Constant,
    Expression,
    Number,
    Operation,
    Parameter,
    X,
    Y,
    leaves_of,
    maximum,
    numbers_of,
    substituted,
)
from mercer.evaluation.gpu.operands import norms, pad, parts
from mercer.evaluation.minimax import LOG2
from mercer.evaluation.program import Step, StraightLine, straight_line
from mercer.evaluation.rewrite import BINARY, SIMPLER, formula, parents, rewritten
from mercer.evaluation.tables import Table
from mercer.points import View


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


@dataclass(frozen=True)
class Input(Expression):
    """A number that generated code has at hand: of a pair, or of a row or column of K alone."""

    name: str
    axis: str = "pair"


@dataclass(frozen=True)
class OperandPlan:
    """How the pair numbers of one view are obtained, in a form that holds no values.

    By `terms`: `width` coordinates are run over in registers, and each number is a kind and the
    code of its term. Without: a matrix product of operands of `width` columns, cut into a leading
    and a following part, in three products of `parts` or in one. With `repaired` the distances of
    close pairs are computed again from differences; with `scaled` these are multiplied by scales.
    """

    width: int
    terms: tuple[tuple[str, StraightLine | None], ...] = ()
    parts: int = 3
    repaired: bool = False
    scaled: bool = False


@dataclass(frozen=True)
class TileCode:
    """What generated code computes for a tile of K: everything but the values it is called with."""

    plans: tuple[OperandPlan, ...]
    steps: tuple[Step, ...]
    result: str
    inputs: tuple[Input, ...]
    scalars: tuple[str, ...]
    tables: tuple[tuple[int, int], ...]  # the bits of the first number, and the last piece
    dtype: str


@dataclass
class Operands:
    """The code of a tile, and what it is called with, by name."""

    code: TileCode
    arrays: dict[str, Any]
    scalars: dict[str, float]
    distances: str


def prepare(
    expression: Expression,
    x: Any,
    y: Any,
    dtype: torch.dtype,
    precision: str,
    strict: bool = False,
    tuning: Tuning = TUNING,
) -> Operands:
    """Operands of K(X, Y), for points that are tensors; `strict` where entries of K are stored."""
    name = str(dtype).removeprefix("torch.")
    simple = rewritten(expression, SIMPLER)
    views = _planned(expression, simple, x, y, dtype, precision, strict, tuning)
    arrays, scalars, inputs = _norm_inputs(simple, x, y, dtype)
    for view in views:
        arrays |= view.arrays
        scalars |= view.scalars
        inputs |= view.inputs
    final = rewritten(substituted(simple, inputs), BINARY if name == "float32" else ())
    given = tuple(leaf for leaf in leaves_of(final) if isinstance(leaf, Input))
    line = straight_line(final, {leaf: leaf.name for leaf in given}, literals=True)
    scalars |= {f"p{i}": value for i, value in enumerate(line.parameters)}
    for t, table in enumerate(line.tables):
        arrays[f"T{t}"] = torch.as_tensor(table.coefficients(name), device=x.rows.device)
    code = TileCode(
        tuple(view.plan for view in views),
        line.steps,
        line.result,
        given,
        tuple(scalars),
        tuple(_table_range(table, name) for table in line.tables),
        name,
    )
    ways = dict.fromkeys(view.distances for view in views if view.distances)
    return Operands(code, arrays, scalars, "; ".join(ways))


def _table_range(table: Table, dtype: str) -> tuple[int, int]:
    """The bits of the number at which a table starts, and the number of its last piece."""
    start: Any = np.array(2.0 ** table.first_octave(dtype), dtype)
    bits = start.view(np.int32 if dtype == "float32" else np.int64)
    return int(bits), len(table.coefficients(dtype)) - 1


def _norm_inputs(
    expression: Expression, x: Any, y: Any, dtype: torch.dtype
) -> tuple[dict[str, Any], dict[str, float], dict[Expression, Expression]]:
    """Arrays and inputs for the numbers of one point alone."""
    arrays: dict[str, Any] = {}
    inputs: dict[Expression, Expression] = {}
    alone = (number for number in numbers_of(expression) if number.kind not in PAIR_KINDS)
    for n, number in enumerate(alone):
        points, axis = (x, "row") if number.kind.startswith("x") else (y, "column")
        values = points.squared_norms(number.view)
        values = values.sqrt() if number.kind.endswith("length") else values
        arrays[f"N{n}"] = pad(values.to(dtype))
        inputs[number] = Input(f"n{n}", axis)
    return arrays, {}, inputs


def _planned(expression: Expression, simple: Expression, *given: Any) -> list[_View]:
    """A plan for each view; products and distances of few columns are best computed apart."""
    groups: dict[View, list[Number]] = {}
    for number in numbers_of(simple):
        if number.kind in PAIR_KINDS:
            groups.setdefault(number.view, []).append(number)
    planned: list[_View] = []
    for numbers in groups.values():
        together = _View(expression, simple, *given, numbers, len(planned))
        if together.separable():
            for number in numbers:
                planned.append(_View(expression, simple, *given, [number], len(planned)))
        else:
            planned.append(together)
    for view in planned:
        view.choose()
    return planned


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


def only_distance(expression: Expression) -> Number | None:
    """The distance of an expression that is a function of one distance alone."""
    match numbers_of(expression):
        case (Number("squared_distance") as number,):
            return number
    return None


def far_columns(
    expression: Expression, y: Any, dtype: torch.dtype, tuning: Tuning = TUNING
) -> torch.Tensor | None:
    """The few y_j so far out that their close pairs must be subtracted; None where there are none.

    A pair of a far and a near point is far apart, so that its error does not count: only far x
    beside far y must not be expanded. If the far y are few, they are a product of their own.
    """
    number = only_distance(expression)
    if dtype == torch.float64 or number is None or number.view.unit:
        return None
    rows = y.seen(number.view, dtype, y.centre(number.view))
    sizes = norms(rows, rows.new_zeros(rows.shape[1]))[: len(y)]
    largest = float(sizes.amax())
    limit = safe_norm(expression, number, largest)
    if not 0.0 < limit < largest:
        return None
    far = sizes > limit
    return far if 0.0 < float(far.sum()) <= tuning.far * len(far) else None


# ---- one view ------------------------------------------------------------------------------------


@dataclass
class _View:
    """The pair numbers of one view: the plan, arrays for it, and what stands for the numbers."""

    expression: Expression  # as the kernel wrote it
    simple: Expression  # after the rules
    x: Any
    y: Any
    dtype: torch.dtype
    precision: str
    strict: bool
    tuning: Tuning
    numbers: Sequence[Number]
    f: int
    distances: str = ""
    arrays: dict[str, Any] = field(default_factory=dict)
    scalars: dict[str, float] = field(default_factory=dict)
    inputs: dict[Expression, Expression] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.view = self.numbers[0].view
        self.kinds = {number.kind: number for number in self.numbers}
        self.distance = self.kinds.get("squared_distance")
        self.product = self.kinds.get("product")
        self.width = self.x.width_of(self.view)
        self.plan = OperandPlan(self.width)
        self.value = Input(f"e{self.f}")  # of the matrix product

    def separable(self) -> bool:
        """Whether products and distances are best computed apart: where columns are few."""
        both = set(self.kinds) == set(BILINEAR_KINDS)
        if not both or self.dtype == torch.float64:
            return False
        if self._packed(self.width) or self.width > self.tuning.apart:
            return False
        self._centred()
        return self._expansion_is_safe()

    def choose(self) -> None:
        """Decide, and pack the operands."""
        bilinear = all(kind in BILINEAR_KINDS for kind in self.kinds)
        if self.dtype == torch.float64 or not bilinear:
            self._by_coordinates()
        elif self.distance is None:
            if self.width <= self.tuning.few:
                self._by_coordinates()
            else:
                self._products()
        else:
            x, y = self._centred()
            safe = self._expansion_is_safe()
            if not safe and self.width <= self.tuning.subtracted:
                self._by_coordinates()
            elif safe and self.product is None:
                self._norms_inside(x, y)
            else:
                self._norms_beside(x, y, repaired=not safe)

    def _expansion_is_safe(self) -> bool:
        assert self.distance is not None
        asked = self.expression, self.distance
        if self.strict:
            return expansion_is_safe(*asked, self.size, accuracy.TUNING.entry)
        if expansion_is_safe(*asked, self.size):
            return True
        alone = only_distance(self.expression) is not None
        return alone and safe_norm(*asked, self.largest) == self.largest

    # ---- coordinate by coordinate ------------------------------------------------------------

    def _by_coordinates(self) -> None:
        if self.distance is not None:
            self.distances = "differences"
        self._store_rows()
        terms = []
        for n, number in enumerate(self.numbers):
            self.inputs[number] = Input(f"q{self.f}_{n}")
            line = None
            if number.term is not None:
                names = {X: "x", Y: "y", X - Y: "gap"}
                letter = f"c{self.f}_{n}_"
                line = straight_line(rewritten(number.term, (formula,)), names, letter, True)
                self.scalars |= {f"{letter}{k}": value for k, value in enumerate(line.parameters)}
                line = replace(line, parameters=())
            terms.append((number.kind, line))
        scaled = self.view.deferred_scales is not None
        self.plan = OperandPlan(self.width, tuple(terms), scaled=scaled)

    def _store_rows(self) -> None:
        """The rows before their scales, coordinate by coordinate in memory."""
        centre = None
        if (
            self.view.matrix is not None
            and not self.view.unit
            and set(self.kinds) == {"squared_distance"}
        ):
            centre = self.y.centre(self.view)  # A(x − c) keeps the digits of x − c
        for name, points in (("X", self.x), ("Y", self.y)):
            rows = points.seen(self.view.unscaled, self.dtype, centre)
            self.arrays[f"{name}{self.f}"] = pad(rows).T.contiguous()
        self.arrays[f"D{self.f}"] = self.width
        if self.view.deferred_scales is not None:
            self.arrays[f"C{self.f}"] = torch.tensor(
                self.view.deferred_scales, dtype=self.dtype, device=self.x.rows.device
            )

    # ---- products ----------------------------------------------------------------------------

    def _products(self) -> None:
        assert self.product is not None
        x, y = (self._plain(points) for points in (self.x, self.y))
        target = self.tuning.entries
        scales = [_power_of_two(target, float(rows.abs().amax())) for rows in (x, y)]
        half = all(self._similar(rows.abs().amax(1).square()) for rows in (x, y))
        self._store(x, y, x.new_zeros(self.width), scales, half=half)
        self.inputs[self.product] = (1.0 / (scales[0] * scales[1])) * self.value

    def _plain(self, points: Any) -> torch.Tensor:
        """The rows in a view; the tensor itself where it will do."""
        rows = points.seen(self.view, self.dtype)
        return rows if rows.stride(1) == 1 else rows.contiguous()

    def _similar(self, squared: torch.Tensor) -> bool:
        """Whether rows that are not 0 differ in length by less than the range of float16."""
        present = squared[squared > 0]
        if not len(present):
            return True
        smallest, largest = torch.stack([present.amin(), present.amax()]).tolist()
        return bool(smallest >= self.tuning.similar**2 * largest)

    # ---- distances from products -------------------------------------------------------------

    def _centred(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of both sides; what is still to be taken off is in `offset`."""
        centre = None if self.view.unit else self.y.centre(self.view)
        rows = self._moved(centre)
        if centre is not None and self.product is not None:
            middle = self.y.moved(centre, self.view)
            if float(middle @ middle) <= self.tuning.off_centre * self.size:
                return self._moved(None)
        return rows

    def _moved(self, centre: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of both sides less a centre, which may stay to be taken off; and their norms."""
        self.centre = centre
        later = centre is not None and replace(self.view, columns=None) == View()
        x, y = (
            self._plain(points)
            if later or centre is None
            else points.seen(self.view, self.dtype, centre)
            for points in (self.x, self.y)
        )
        self.offset = x.new_zeros(self.width) if not later else centre.to(self.dtype)  # type: ignore[union-attr]
        self.norms = [norms(rows, self.offset) for rows in (x, y)]
        sizes = torch.stack([one.amax() for one in self.norms]).tolist()
        self.largest, self.size = sizes[1], sizes[0] + sizes[1]
        return x, y

    def _norms_inside(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """(−2x, ‖x‖², 1)·(y, 1, ‖y‖²): the matrix product is the distance itself."""
        self.distances = "centred products"
        absorbed = self._absorbed()
        if absorbed is not None:
            exponent = absorbed.rest == LOG2
            if not exponent and absorbed.scale * self.size <= self.tuning.small_distance:
                absorbed = None
        scale = _power_of_two(4.0, (self.size / 2) ** 0.5) ** 2
        if absorbed is not None:
            scale = absorbed.scale
        factor = scale**0.5
        half = scale * self.size < self.tuning.overflow
        self._store(x, y, self.offset, [factor, factor], half=half, extended=True)
        self._replace_distance(self.value, self.tuning.tiny, scale, absorbed)

    def _norms_beside(self, x: torch.Tensor, y: torch.Tensor, repaired: bool) -> None:
        """‖x‖² + ‖y‖² − 2⟨x,y⟩, the norms being added in float32: ⟨x,y⟩ is asked for, too."""
        assert self.distance is not None
        self.distances = "centred products" + (", close pairs by differences" if repaired else "")
        absorbed = None if repaired else self._absorbed()
        small, large = self.tuning.small_product, self.tuning.overflow
        if absorbed is not None and not small < absorbed.scale * self.size < large:
            absorbed = None
        most = _power_of_two(self.tuning.entries, self.size**0.5)
        factor = min(most, self.tuning.steepest) if absorbed is None else absorbed.scale**0.5
        half = self.product is None or all(
            self._similar(one[: len(points)])
            for one, points in zip(self.norms, (self.x, self.y), strict=True)
        )
        self._store(x, y, self.offset, [factor, factor], half=half)
        scale = 1.0 if repaired else factor**2
        for name, norm in zip(("XN", "YN"), self.norms, strict=True):
            self.arrays[f"{name}{self.f}"] = norm * scale
        if repaired:
            self._repaired(factor)
        else:
            both = Input(f"xn{self.f}", "row") + Input(f"yn{self.f}", "column")
            value = both - Operation("multiply", (Constant(2.0), self.value))
            self._replace_distance(value, 0.0, scale, absorbed)
        if self.product is not None:
            self.inputs[self.product] = self._restored((1.0 / factor**2) * self.value, x, y)

    def _repaired(self, factor: float) -> None:
        """Distances of close pairs come from differences: `source` writes both."""
        assert self.distance is not None
        self._store_rows()
        self.scalars |= {
            f"twice{self.f}": 2.0 * factor**-2,
            f"floor{self.f}": self.tuning.floor * self.size,
        }
        scaled = self.view.deferred_scales is not None
        self.plan = replace(self.plan, repaired=True, scaled=scaled)
        self.inputs[self.distance] = Input(f"d{self.f}")

    def _restored(self, value: Expression, x: torch.Tensor, y: torch.Tensor) -> Expression:
        """⟨x,y⟩ = ⟨x−c, y−c⟩ + s(x) + s(y) with s(x) = ⟨x−c, c⟩ + ½‖c‖², where rows were centred."""
        if self.centre is None:
            return value
        seen = self.y.moved(self.centre, self.view)
        for name, rows in (("XS", x), ("YS", y)):
            shifts = (rows - self.offset).double() @ seen + 0.5 * seen @ seen
            self.arrays[f"{name}{self.f}"] = pad(shifts.to(self.dtype))
        return (value + Input(f"xs{self.f}", "row")) + Input(f"ys{self.f}", "column")

    def _absorbed(self) -> Absorbed | None:
        assert self.distance is not None
        return absorbed_factor(self.simple, self.distance)

    def _replace_distance(
        self, value: Expression, least: float, scale: float, absorbed: Absorbed | None
    ) -> None:
        """Where the card has `scale` times the distance, what stands for it, and for a·q."""
        assert self.distance is not None
        if not sign_is_harmless(self.simple, self.distance):
            value = maximum(value, Constant(least))
        self.inputs[self.distance] = (1.0 / scale) * value
        if absorbed is not None:
            rest = Constant(absorbed.rest)
            self.inputs[absorbed.node] = Operation("multiply", (rest, value))

    # ---- parts -------------------------------------------------------------------------------

    def _packed(self, width: int) -> bool:
        """Whether all parts fit side by side into one short product."""
        return self.precision != "tf32" and 3 * width <= self.tuning.short

    def _store(
        self,
        x: torch.Tensor,
        y: torch.Tensor,
        centre: torch.Tensor,
        factors: Sequence[float],
        *,
        half: bool,
        extended: bool = False,
    ) -> None:
        """Cut both sides into parts; `extended` adds the columns of norms and ones."""
        width = self.width + (2 if extended else 0)
        packed = self._packed(width)
        one = packed or self.precision == "tf32"
        self.plan = OperandPlan(3 * width if packed else width, parts=1 if one else 3)
        names = ("A", "AL"), ("B", "BL")
        for right, (rows, (leading, following)) in enumerate(zip((x, y), names, strict=True)):
            pair = parts(
                rows,
                centre,
                factors[right],
                stored_width(self.plan.width),
                right=bool(right),
                extended=extended,
                half=half,
                three=packed,
            )
            self.arrays[f"{leading}{self.f}"], self.arrays[f"{following}{self.f}"] = pair


RESIDENT = 128  # columns of split operands that stay with a block of rows: what registers hold
STEP = 64  # columns of split operands that are read together where they do not stay


def stored_width(width: int) -> int:
    """The columns that operands have in memory: matrix products take multiples of 16."""
    return -(-width // 16) * 16 if width <= RESIDENT else -(-width // STEP) * STEP


def _power_of_two(target: float, largest: float) -> float:
    """The power of two that brings the largest entry below the target, and near it."""
    if not 0.0 < largest < float("inf"):
        return 1.0
    return float(2.0 ** np.floor(np.log2(target / largest)))
