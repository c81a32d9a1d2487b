"""Points in the form that generated code reads, and how their distances are obtained.

The rule is that of the CPU: a distance is never worse than its use forgives. Few columns are
subtracted coordinate by coordinate. Many go through a matrix product of points that were moved to
the middle of the y_j; where the kernel is too steep for that (`folding`), close pairs are summed
again from differences of the rows as they were given.

float32 operands are cut into a leading part with 11 bits and a following part with 11 more, and
three products of parts add up to what one product in float32 would give. The parts are float16,
which a card multiplies twice as fast as tf32, wherever the rows are of similar size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from mercer.evaluation.expression import BILINEAR_KINDS, Expression
from mercer.evaluation.folding import STRICT, forgives, near
from mercer.evaluation.gpu.balance import Balance, balance_of
from mercer.evaluation.gpu.distant import radial
from mercer.evaluation.gpu.families import SHORT, Family, padded
from mercer.evaluation.gpu.lines import absorbed_use, exponent_root, exponent_use
from mercer.evaluation.gpu.numbers import coordinate_constants
from mercer.evaluation.gpu.packing import PADDING, norms, parts
from mercer.evaluation.minimax import LOG2E
from mercer.evaluation.program import Program
from mercer.points import View

FEW = 4  # columns up to which products are summed in registers
APART = 30  # columns up to which products and distances are two products, or one short one
SUBTRACTED = 8  # columns up to which steep kernels subtract rather than repair
SIMILAR = 2.0**-9  # smallest over largest row, for parts in float16
LARGEST = 64.0  # of the entries of parts in float16
OVERFLOWING = 3e4  # squared norms from which parts must be float32
SMALL = 16.0  # squared norms up to which parts in float16 would lose digits of a product
TINY = 0.25  # squared norms up to which they would lose digits of a distance that grows again
STEEPEST = 2.0**60  # scale of rows whose square is a float32
OFF_CENTRE = 1 / 16  # of the longest ‖x‖² + ‖y‖²: products of rows closer to the middle stay there


@dataclass
class Operands:
    """What a generated function is called with, by name, and the families it was written for."""

    families: tuple[Family, ...]
    arrays: dict[str, Any]
    distances: str


def prepare(
    program: Program,
    expression: Expression,
    x: Any,
    y: Any,
    dtype: torch.dtype,
    precision: str,
    strict: bool = False,
) -> Operands:
    """Operands of K(X, Y), for points that are tensors; `strict` where K is stored."""
    views: dict[View, list[int]] = {}
    for q, number in enumerate(program.pairs):
        views.setdefault(number.view, []).append(q)
    families: list[Family] = []
    arrays: dict[str, Any] = {}
    ways: dict[str, None] = {}
    given = program, expression, x, y, dtype, precision, strict
    for view, numbers in views.items():
        together = _View(*given, view, numbers, len(families))
        apart = together.separable()
        for group in [[q] for q in numbers] if apart else [numbers]:
            one = _View(*given, view, group, len(families)) if apart else together
            families.append(one.family())
            arrays |= one.arrays
            if one.distances:
                ways.setdefault(one.distances)
    arrays |= _norm_arrays(program, x, y, dtype)
    for t, table in enumerate(program.tables):
        name = str(dtype).removeprefix("torch.")
        arrays[f"T{t}"] = torch.as_tensor(table.coefficients(name), device=x.rows.device)
    return Operands(tuple(families), arrays, "; ".join(ways))


def _norm_arrays(program: Program, x: Any, y: Any, dtype: torch.dtype) -> dict[str, Any]:
    arrays = {}
    for name, numbers, points in (("NA", program.x_norms, x), ("NB", program.y_norms, y)):
        for n, number in enumerate(numbers):
            values = points.squared_norms(number.view)
            values = values.sqrt() if number.kind.endswith("length") else values
            arrays[f"{name}{n}"] = pad(values.to(dtype))
    return arrays


def pad(rows: torch.Tensor) -> torch.Tensor:
    """The rows, the last one repeated up to a multiple of `PADDING`."""
    missing = -rows.shape[0] % PADDING
    if not missing:
        return rows.contiguous()
    return torch.cat([rows, rows[-1:].expand(missing, *rows.shape[1:])])


class _View:
    """The pair numbers of one view: which way, and the arrays for it."""

    def __init__(
        self,
        program: Program,
        expression: Expression,
        x: Any,
        y: Any,
        dtype: torch.dtype,
        precision: str,
        strict: bool,
        view: View,
        numbers: Sequence[int],
        f: int,
    ) -> None:
        self.program, self.expression, self.view, self.x, self.y = program, expression, view, x, y
        self.numbers, self.dtype, self.precision, self.f = tuple(numbers), dtype, precision, f
        self.kinds = {program.pairs[q].kind: q for q in numbers}
        self.strict = strict
        self.width = x.width_of(view)
        self.arrays: dict[str, Any] = {}
        self.distances = ""

    def separable(self) -> bool:
        """Whether products and distances are best computed apart: where columns are few."""
        both = set(self.kinds) == set(BILINEAR_KINDS)
        if not both or self.dtype == torch.float64:
            return False
        if self._packed(self.width) or self.width > APART:
            return False
        self._centred()
        return self._forgiving()

    def family(self) -> Family:
        bilinear = all(kind in BILINEAR_KINDS for kind in self.kinds)
        if self.dtype == torch.float64 or not bilinear:
            return self._direct()
        if "squared_distance" not in self.kinds:
            return self._direct() if self.width <= FEW else self._products()
        centred = self._centred()
        if self._forgiving():
            return self._expanded(*centred, repaired=False)
        if self.width <= SUBTRACTED:
            return self._direct()
        return self._expanded(*centred, repaired=True)

    def _forgiving(self) -> bool:
        asked = self.program, self.expression, self.kinds["squared_distance"]
        if self.strict:
            return forgives(*asked, self.size, STRICT)
        if forgives(*asked, self.size):
            return True
        return radial(self.program) is not None and near(*asked, self.largest) == self.largest

    # ---- coordinate by coordinate ------------------------------------------------------------

    def _direct(self) -> Family:
        if "squared_distance" in self.kinds:
            self.distances = "differences"
        scaled = self.view.deferred_scales is not None
        self._rows_as_they_are()
        for q in self.numbers:
            term = self.program.pairs[q].term
            if term is not None:
                constants = coordinate_constants(term)
                self.arrays[f"K{q}"] = self._tensor(constants or (0.0,))
        return Family("direct", self.numbers, self.width, scaled=scaled)

    def _rows_as_they_are(self) -> None:
        """The rows before their scales, coordinate by coordinate in memory."""
        centre = None
        if (
            self.view.matrix is not None
            and not self.view.unit
            and list(self.kinds) == ["squared_distance"]
        ):
            centre = self.y.centre(self.view)  # A(x − c) keeps the digits of x − c
        for name, points in (("X", self.x), ("Y", self.y)):
            rows = points.seen(self.view.unscaled, self.dtype, centre)
            self.arrays[f"{name}{self.f}"] = pad(rows).T.contiguous()
        self.arrays[f"D{self.f}"] = self.width
        if self.view.deferred_scales is not None:
            self.arrays[f"C{self.f}"] = self._tensor(self.view.deferred_scales)

    def _scale(self, scale: float, floor: float = 0.0) -> None:
        """What products are multiplied by, and the distance below which pairs are close."""
        self.arrays[f"S{self.f}"] = self._tensor([scale, floor])
        self.arrays[f"scale{self.f}"] = scale

    def _tensor(self, values: Sequence[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=self.dtype, device=self.x.rows.device)

    # ---- products ----------------------------------------------------------------------------

    def _products(self) -> Family:
        x, y = (self._plain(points) for points in (self.x, self.y))
        scales = [_power_of_two(LARGEST, float(rows.abs().amax())) for rows in (x, y)]
        half = _similar_rows(x) and _similar_rows(y)
        centre = x.new_zeros(self.width)
        self._store(x, y, centre, scales, half=half)
        self._scale(1.0 / (scales[0] * scales[1]))
        return Family("split", self.numbers, self._stored_width(self.width), self._parts)

    def _plain(self, points: Any, view: View | None = None) -> torch.Tensor:
        """The rows in a view; the tensor itself where it will do."""
        rows = points.seen(self.view if view is None else view, self.dtype)
        return rows if rows.stride(1) == 1 else rows.contiguous()

    # ---- distances from products -------------------------------------------------------------

    def _centred(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of both sides; what is still to be taken off is in `offset`."""
        centre = None if self.view.unit else self.y.centre(self.view)
        rows = self._moved(centre)
        if centre is not None and "product" in self.kinds:
            middle = self.y.moved(centre, self.view)
            if float(middle @ middle) <= OFF_CENTRE * self.size:
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

    def _expanded(self, x: torch.Tensor, y: torch.Tensor, repaired: bool) -> Family:
        self.distances = "centred products" + (", close pairs by differences" if repaired else "")
        if "product" in self.kinds or repaired:
            return self._norms_apart(x, y, repaired)
        factor, exponent, absorbed = self._scale_of_distances()
        self._scale(factor**-2)
        self._store(
            x,
            y,
            self.offset,
            [factor, factor],
            half=factor**2 * self.size < OVERFLOWING,
            extended=True,
            sign=-1.0 if exponent else 1.0,
        )
        return Family(
            "split",
            self.numbers,
            self._stored_width(self.width + 2),
            self._parts,
            extended=True,
            exponent=exponent,
            absorbed=absorbed,
        )

    def _scale_of_distances(self) -> tuple[float, bool, int]:
        """The scale of rows, whether distances are exponents, and the line whose factor it has."""
        q = self.kinds["squared_distance"]
        use, absorbed = exponent_use(self.program, q), absorbed_use(self.program, q)
        if use is not None:
            return (self.program.parameters[use[0]] * LOG2E) ** 0.5, True, -1
        if absorbed is not None:
            factor = self._absorbing(*absorbed)
            if factor**2 * self.size > TINY:
                return factor, False, absorbed[1]
        return _power_of_two(4.0, (self.size / 2) ** 0.5), False, -1

    def _absorbing(self, parameter: int, line: int) -> float:
        """The scale of rows whose squared distances are those of a program times a parameter."""
        exponent = exponent_root(self.program, line) is not None
        return self.program.parameters[parameter] ** 0.5 * (LOG2E if exponent else 1.0)

    def _norms_apart(self, x: torch.Tensor, y: torch.Tensor, repaired: bool) -> Family:
        half = "product" not in self.kinds or all(
            _similar_norms(one[: len(points)])
            for one, points in zip(self.norms, (self.x, self.y), strict=True)
        )
        balance = None if repaired or not half else self._balance()
        if balance is not None:
            return self._balanced(x, y, balance)
        factor, absorbed = self._scale_of_products(repaired)
        self._store(x, y, self.offset, [factor, factor], half=half)
        scale = 1.0 if repaired else factor**2
        self.arrays[f"XN{self.f}"], self.arrays[f"YN{self.f}"] = (n * scale for n in self.norms)
        shifted = "product" in self.kinds and self.centre is not None
        if shifted:
            for name, rows in (("XS", x), ("YS", y)):
                self.arrays[f"{name}{self.f}"] = pad(self._shifts(rows - self.offset))
        floor = 2.0**-18 * self.size if repaired else 0.0  # float16 ends that far below
        self._scale(factor**-2, floor)
        if repaired:
            self._rows_as_they_are()
        return Family(
            "split",
            self.numbers,
            self._stored_width(self.width),
            self._parts,
            absorbed=absorbed,
            repaired=repaired,
            scaled=repaired and self.view.deferred_scales is not None,
            shifted=shifted,
        )

    def _balance(self) -> Balance | None:
        """The form of `balance`, where one short product of rows that stay in place gives it."""
        if self.centre is not None or not self._packed(self.width):
            return None
        balance = balance_of(self.program)
        fits = balance is not None and SMALL < balance.product * self.size < OVERFLOWING
        return balance if fits else None

    def _balanced(self, x: torch.Tensor, y: torch.Tensor, balance: Balance) -> Family:
        factor = balance.product**0.5
        self._store(x, y, self.offset, [factor, factor], half=True)
        for name, norm in zip(("XN", "YN"), self.norms, strict=True):
            self.arrays[f"{name}{self.f}"] = norm * balance.distance
        scale, spread = 1.0 / balance.product, 1.0 / balance.distance
        self.arrays[f"S{self.f}"] = self._tensor([scale, 2.0 * scale / spread, spread])
        self.arrays |= {f"scale{self.f}": scale, f"balance{self.f}": balance}
        width = self._stored_width(self.width)
        decays = balance.decays
        return Family("split", self.numbers, width, self._parts, balanced=True, decays=decays)

    def _scale_of_products(self, repaired: bool) -> tuple[float, int]:
        """The scale of rows, and the line of a program whose factor it takes in, if it does."""
        absorbed = absorbed_use(self.program, self.kinds["squared_distance"])
        if absorbed is not None and not repaired:
            factor = self._absorbing(*absorbed)
            if SMALL < factor**2 * self.size < OVERFLOWING:
                return factor, absorbed[1]
        return min(_power_of_two(LARGEST, self.size**0.5), STEEPEST), -1

    def _shifts(self, rows: torch.Tensor) -> torch.Tensor:
        """s with ⟨x,y⟩ = ⟨x−c, y−c⟩ + s(x) + s(y): s(x) = ⟨x−c, c⟩ + ½‖c‖²."""
        seen = self.y.moved(self.centre, self.view)
        return (rows.double() @ seen + 0.5 * seen @ seen).to(self.dtype)

    # ---- parts -------------------------------------------------------------------------------

    def _packed(self, width: int) -> bool:
        """Whether all parts fit side by side into one short product."""
        return self.precision != "tf32" and 3 * width <= SHORT

    def _stored_width(self, width: int) -> int:
        packed = self._packed(width)
        self._parts = 1 if self.precision == "tf32" or packed else 3
        return 3 * width if packed else width

    def _store(
        self,
        x: torch.Tensor,
        y: torch.Tensor,
        centre: torch.Tensor,
        factors: Sequence[float],
        *,
        half: bool,
        extended: bool = False,
        sign: float = 1.0,
    ) -> None:
        width = self.width + (2 if extended else 0)
        stored = padded(self._stored_width(width))
        options: dict[str, Any] = {
            "half": half,
            "extended": extended,
            "three": self._packed(width),
        }
        names = ("A", "AL"), ("B", "BL")
        for right, (rows, (leading, following)) in enumerate(zip((x, y), names, strict=True)):
            pair = parts(
                rows, centre, factors[right], stored, right=bool(right), sign=sign, **options
            )
            self.arrays[f"{leading}{self.f}"], self.arrays[f"{following}{self.f}"] = pair


def _power_of_two(target: float, largest: float) -> float:
    """The power of two that brings the largest entry below the target, and near it."""
    if not 0.0 < largest < float("inf"):
        return 1.0
    return float(2.0 ** np.floor(np.log2(target / largest)))


def _similar_rows(rows: torch.Tensor) -> bool:
    return _similar_norms(rows.abs().amax(1).square())


def _similar_norms(squared: torch.Tensor) -> bool:
    """Whether rows that are not 0 differ in length by less than float16 forgives."""
    present = squared[squared > 0]
    if not len(present):
        return True
    smallest, largest = torch.stack([present.amin(), present.amax()]).tolist()
    return smallest >= SIMILAR**2 * largest
