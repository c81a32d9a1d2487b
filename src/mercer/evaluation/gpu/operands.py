"""Operands of a product on a GPU: points in the form that generated code reads.

The pair numbers of an expression are grouped by their view; for each view it is decided how they
are obtained (`plan`), the rows are packed for it, and what the operands give is put into the
expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
    X,
    Y,
    leaves_of,
    maximum,
    numbers_of,
    transformed,
)
from mercer.evaluation.gpu.packing import in_blocks, norms, pad, parts
from mercer.evaluation.gpu.plan import (
    TUNING,
    Absorbed,
    Input,
    OperandPlan,
    TileCode,
    absorbed_factor,
    has_function,
    only_distance,
    sign_is_harmless,
    stored_width,
)
from mercer.evaluation.minimax import LOG2
from mercer.evaluation.operations import evaluate
from mercer.evaluation.program import parts_of_points, straight_line
from mercer.evaluation.rewrite import BINARY, SIMPLER, formula, rewritten
from mercer.points import View


class Operands:
    """The code of a tile of K(X, Y), and its arguments by name; `strict` where K is stored."""

    def __init__(
        self,
        expression: Expression,
        x: Any,
        y: Any,
        dtype: torch.dtype,
        precision: str,
        strict: bool = False,
    ) -> None:
        self.expression, self.simple = expression, rewritten(expression, SIMPLER)
        self.x, self.y, self.dtype = x, y, dtype
        self.precision, self.strict = precision, strict
        self.arrays: dict[str, Any] = {}
        self.scalars: dict[str, float] = {}
        self.inputs: dict[Expression, Expression] = {}  # what stands for numbers
        self._norms()
        views = self._planned()
        name = str(dtype).removeprefix("torch.")
        final = transformed(self.simple, replacements=self.inputs)
        final = rewritten(final, BINARY if name == "float32" else ())
        given = tuple(leaf for leaf in leaves_of(final) if isinstance(leaf, Input))
        line = straight_line(final, {leaf: leaf.name for leaf in given}, literals=True)
        self.scalars |= {f"p{i}": value for i, value in enumerate(line.parameters)}
        for t, table in enumerate(line.tables):
            pieces = table.coefficients(name)
            self.arrays[f"T{t}"] = torch.as_tensor(pieces, device=x.rows.device)
        self.code = TileCode(
            tuple(view.plan for view in views),
            line.steps,
            line.result,
            given,
            tuple(self.scalars),
            tuple((t.first_bits(name), len(t.coefficients(name)) - 1) for t in line.tables),
            name,
        )
        ways = dict.fromkeys(view.distances for view in views if view.distances)
        self.distances = "; ".join(ways)

    def _norms(self) -> None:
        """Arrays and inputs for the numbers of one point alone."""
        numbers = numbers_of(self.simple)
        for n, number in enumerate(one for one in numbers if one.kind not in PAIR_KINDS):
            rows = number.kind.startswith("x")
            values = (self.x if rows else self.y).squared_norms(number.view)
            values = values.sqrt() if number.kind.endswith("length") else values
            self.arrays[f"N{n}"] = pad(values.to(self.dtype))
            self.inputs[number] = Input(f"n{n}", "row" if rows else "column")

    def _planned(self) -> list[_View]:
        """A plan for each view; products and distances of few columns are best computed apart."""
        groups: dict[View, list[Number]] = {}
        for number in numbers_of(self.simple):
            if number.kind in PAIR_KINDS:
                groups.setdefault(number.view, []).append(number)
        planned: list[_View] = []
        for numbers in groups.values():
            together = _View(self, numbers, len(planned))
            if together.separable():
                for number in numbers:
                    planned.append(_View(self, [number], len(planned)))
            else:
                planned.append(together)
        for view in planned:
            view.choose()
        return planned


def far_columns(expression: Expression, y: Any, dtype: torch.dtype) -> torch.Tensor | None:
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
    return far if 0.0 < float(far.sum()) <= TUNING.far * len(far) else None


Stored = tuple[dict[Expression, str], dict[Expression, str]]
"""What is stored of each coordinate of x, and of y, with the name that code has for it."""

COORDINATES: Stored = {X: "x"}, {Y: "y"}


class _View:
    """The pair numbers of one view: the plan; arrays and what stands for them go to the whole."""

    def __init__(self, whole: Operands, numbers: Sequence[Number], f: int) -> None:
        self.whole, self.numbers, self.f, self.distances = whole, numbers, f, ""
        self.x, self.y, self.dtype = whole.x, whole.y, whole.dtype
        self.arrays, self.scalars, self.inputs = whole.arrays, whole.scalars, whole.inputs
        self.view = numbers[0].view
        self.kinds = {number.kind: number for number in numbers}
        self.distance = self.kinds.get("squared_distance")
        self.product = self.kinds.get("product")
        self.width = self.x.width_of(self.view)
        self.plan = OperandPlan(self.width)
        self.value = Input(f"e{f}")  # of the matrix product

    def separable(self) -> bool:
        """Whether products and distances are best computed apart: where columns are few."""
        both = set(self.kinds) == set(BILINEAR_KINDS)
        if not both or self.dtype == torch.float64:
            return False
        if self._packed(self.width) or self.width > TUNING.apart:
            return False
        self._centred()
        return self._expansion_is_safe()

    def choose(self) -> None:
        """Decide, and pack the operands."""
        bilinear = all(kind in BILINEAR_KINDS for kind in self.kinds)
        if not bilinear or (self.dtype == torch.float64 and not self._multiplies_in_float64()):
            self._by_coordinates()
        elif self.dtype == torch.float64:
            self._norms_inside_in_float64()
        elif self.distance is None:
            if self.width <= TUNING.few:
                self._by_coordinates()
            else:
                self._products()
        else:
            x, y = self._centred()
            safe = self._expansion_is_safe()
            if not safe and self.width <= TUNING.subtracted:
                self._by_coordinates()
            elif safe and self.product is None:
                self._norms_inside(x, y)
            else:
                self._norms_beside(x, y, repaired=not safe)

    def _expansion_is_safe(self) -> bool:
        assert self.distance is not None
        asked = self.whole.expression, self.distance
        if self.whole.strict:
            return expansion_is_safe(*asked, self.size, accuracy.TUNING.entry)
        if expansion_is_safe(*asked, self.size):
            return True
        alone = only_distance(self.whole.expression) is not None
        return alone and safe_norm(*asked, self.largest) == self.largest

    # ---- coordinate by coordinate ------------------------------------------------------------

    def _by_coordinates(self) -> None:
        if self.distance is not None:
            self.distances = "differences"
        terms = [
            None if number.term is None else rewritten(number.term, (formula,))
            for number in self.numbers
        ]
        stored = self._stored(terms)
        self._store_rows(stored)
        names = stored[0] | stored[1]
        if X in names and Y in names:
            names[X - Y] = "gap"
        lines = []
        for n, (number, term) in enumerate(zip(self.numbers, terms, strict=True)):
            self.inputs[number] = Input(f"q{self.f}_{n}")
            line = None
            if term is not None:
                letter = f"c{self.f}_{n}_"
                line = straight_line(term, names, letter, True)
                self.scalars |= {f"{letter}{k}": value for k, value in enumerate(line.parameters)}
                line = replace(line, parameters=())
            lines.append((number.kind, line))
        scaled = self.view.deferred_scales is not None
        held = tuple(stored[0].values()), tuple(stored[1].values())
        self.plan = OperandPlan(self.width, tuple(lines), held, scaled=scaled)

    def _stored(self, terms: Sequence[Expression | None]) -> Stored:
        """What is stored of each coordinate: functions of it alone, itself where it is needed.

        What is arithmetic alone is computed faster than it would be read.
        """
        stored: Stored = {}, {}
        for term in terms:
            parts = {"x": [X], "y": [Y]} if term is None else parts_of_points(term)
            for side, letter, itself in zip(stored, "xy", (X, Y), strict=True):
                for part in parts[letter]:
                    if has_function(part):
                        side.setdefault(part, f"{letter}{len(side)}")
                    else:
                        side[itself] = letter
        return stored

    def _store_rows(self, stored: Stored = COORDINATES) -> None:
        """Coordinates before their scales, and functions of them after, in blocks of rows.

        In each of `PADDING` rows a coordinate's numbers lie together: where a tile finds the next
        coordinate is then known when code is compiled.
        """
        centre = None
        if (
            self.view.matrix is not None
            and not self.view.unit
            and set(self.kinds) == {"squared_distance"}
        ):
            centre = self.y.centre(self.view)  # A(x − c) keeps the digits of x − c
        for name, points, held in zip("XY", (self.x, self.y), stored, strict=True):
            columns = [self._column(points, part, centre) for part in held]
            self.arrays[f"{name}{self.f}"] = in_blocks(torch.stack(columns, 2).flatten(1))
        self.arrays[f"D{self.f}"] = self.width
        if self.view.deferred_scales is not None:
            self.arrays[f"C{self.f}"] = torch.tensor(
                self.view.deferred_scales, dtype=self.dtype, device=self.x.rows.device
            )

    def _column(self, points: Any, part: Expression, centre: Any) -> torch.Tensor:
        """A part of every coordinate of every point; functions are computed in float64."""
        if part in (X, Y):
            return points.seen(self.view.unscaled, self.dtype, centre)
        rows = points.seen(self.view, torch.float64)
        return evaluate(part, {X: rows, Y: rows}, rows).to(self.dtype)

    # ---- products ----------------------------------------------------------------------------

    def _products(self) -> None:
        assert self.product is not None
        x, y = (self._plain(points) for points in (self.x, self.y))
        target = TUNING.entries
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
        return bool(smallest >= TUNING.similar**2 * largest)

    # ---- distances from products -------------------------------------------------------------

    def _multiplies_in_float64(self) -> bool:
        """Whether distances may come from a matrix product: a fraction of the time of differences.

        The rows, less their centre, and their squared norms are kept for it.
        """
        few = self.width <= TUNING.few
        if self.distance is None or self.product is not None or few or self.whole.strict:
            return False
        centre = None if self.view.unit else self.y.centre(self.view)
        self.sides = [points.seen(self.view, self.dtype, centre) for points in (self.x, self.y)]
        self.norms = [torch.linalg.vecdot(rows, rows)[:, None] for rows in self.sides]
        size = float(self.norms[0].amax() + self.norms[1].amax())
        return expansion_is_safe(self.whole.expression, self.distance, size, accuracy.TUNING.wide)

    def _norms_inside_in_float64(self) -> None:
        """(−2x, ‖x‖², 1)·(y, 1, ‖y‖²), in one part: nothing need be cut off."""
        self.distances = "centred products"
        self.plan = OperandPlan(self.width + 2, parts=1)
        missing = stored_width(self.plan.width) - self.plan.width
        (x, y), (x_norms, y_norms) = self.sides, self.norms
        left = torch.cat([-2.0 * x, x_norms, torch.ones_like(x_norms)], 1)
        right = torch.cat([y, torch.ones_like(y_norms), y_norms], 1)
        for name, operand in (("A", left), ("B", right)):
            wide = torch.nn.functional.pad(operand, (0, missing))
            self.arrays[f"{name}{self.f}"] = pad(wide)
        self._replace_distance(self.value, 0.0, 1.0, None)

    def _centred(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of both sides; what is still to be taken off is in `offset`."""
        centre = None if self.view.unit else self.y.centre(self.view)
        rows = self._moved(centre)
        if centre is not None and self.product is not None:
            middle = self.y.moved(centre, self.view)
            if float(middle @ middle) <= TUNING.off_centre * self.size:
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
            if not exponent and absorbed.scale * self.size <= TUNING.small_distance:
                absorbed = None
        scale = _power_of_two(4.0, (self.size / 2) ** 0.5) ** 2
        if absorbed is not None:
            scale = absorbed.scale
        factor = scale**0.5
        half = scale * self.size < TUNING.overflow
        self._store(x, y, self.offset, [factor, factor], half=half, extended=True)
        self._replace_distance(self.value, TUNING.tiny, scale, absorbed)

    def _norms_beside(self, x: torch.Tensor, y: torch.Tensor, repaired: bool) -> None:
        """‖x‖² + ‖y‖² − 2⟨x,y⟩, the norms being added in float32: ⟨x,y⟩ is asked for, too."""
        assert self.distance is not None
        self.distances = "centred products" + (", close pairs by differences" if repaired else "")
        absorbed = None if repaired else self._absorbed()
        small, large = TUNING.small_product, TUNING.overflow
        if absorbed is not None and not small < absorbed.scale * self.size < large:
            absorbed = None
        most = _power_of_two(TUNING.entries, self.size**0.5)
        factor = min(most, TUNING.steepest) if absorbed is None else absorbed.scale**0.5
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
            f"floor{self.f}": TUNING.floor * self.size,
        }
        scaled = self.view.deferred_scales is not None
        self.plan = replace(self.plan, repaired=True, scaled=scaled)
        self.inputs[self.distance] = Input(f"d{self.f}")

    def _restored(self, value: Expression, x: torch.Tensor, y: torch.Tensor) -> Expression:
        """⟨x,y⟩ = ⟨x−c, y−c⟩ + s(x) + s(y), s(x) = ⟨x−c, c⟩ + ½‖c‖², where rows were centred."""
        if self.centre is None:
            return value
        seen = self.y.moved(self.centre, self.view)
        for name, rows in (("XS", x), ("YS", y)):
            shifts = (rows - self.offset).double() @ seen + 0.5 * seen @ seen
            self.arrays[f"{name}{self.f}"] = pad(shifts.to(self.dtype))
        return (value + Input(f"xs{self.f}", "row")) + Input(f"ys{self.f}", "column")

    def _absorbed(self) -> Absorbed | None:
        assert self.distance is not None
        return absorbed_factor(self.whole.simple, self.distance)

    def _replace_distance(
        self, value: Expression, least: float, scale: float, absorbed: Absorbed | None
    ) -> None:
        """Where the card has `scale` times the distance, what stands for it, and for a·q."""
        assert self.distance is not None
        if not sign_is_harmless(self.whole.simple, self.distance):
            value = maximum(value, Constant(least))
        self.inputs[self.distance] = (1.0 / scale) * value
        if absorbed is not None:
            rest = Constant(absorbed.rest)
            self.inputs[absorbed.node] = Operation("multiply", (rest, value))

    # ---- parts -------------------------------------------------------------------------------

    def _packed(self, width: int) -> bool:
        """Whether all parts fit side by side into one short product."""
        return self.whole.precision != "tf32" and 3 * width <= TUNING.short

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
        one = packed or self.whole.precision == "tf32"
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


def _power_of_two(target: float, largest: float) -> float:
    """The power of two that brings the largest entry below the target, and near it."""
    if not 0.0 < largest < float("inf"):
        return 1.0
    return float(2.0 ** np.floor(np.log2(target / largest)))
