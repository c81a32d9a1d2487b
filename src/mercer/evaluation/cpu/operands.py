"""Operand plans: points in the form that compiled code reads, and how pair numbers come from it.

Narrow dense points are packed for registers, and distances are summed from differences. Wide
dense points go through BLAS, sparse points through `products`; there distances are expanded and
close pairs repaired. An operand serves one view; a plan holds what is known before
any point is: it is made once for a program, the widths of its views and a precision.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from mercer.evaluation.cpu import products
from mercer.evaluation.cpu.panels import address_of, compiling, fill_signature, in_c, own_signature
from mercer.evaluation.cpu.source import coordinates_source, makes_values, source_of
from mercer.evaluation.cpu.vectors import (
    COORDINATES,
    DIFFERENCE,
    PANEL_ROWS,
    PRODUCT,
    SCALED_DIFFERENCE,
    SCALED_PRODUCT,
    TILE,
    column_step,
    padding_step,
    panel_width,
)
from mercer.evaluation.expression import Expression, Number, X, Y
from mercer.evaluation.operations import evaluate
from mercer.evaluation.program import Program, coordinate_code
from mercer.points import DensePoints, SparsePoints, View
from mercer.runtime.budget import MEGABYTE
from mercer.runtime.cache import load


@dataclass(frozen=True)
class Tuning:
    """Where each kind of operand is used, and the sizes of its tiles."""

    register_width: int = 64  # columns up to which pair numbers are computed in registers: at
    # d = 10 that takes half the time of a BLAS product; with many columns BLAS is quicker
    dense_width: int = 16384  # columns up to which tiles of sparse rows may be made dense, for
    # kernels over coordinates
    stripe_bytes: int = 4 * MEGABYTE  # of packed rows: with a tile of columns they stay cached
    tile_bytes: int = 8 * MEGABYTE  # of packed columns
    sparse_stripe: int = 1024  # rows of a stripe of sparse points,
    sparse_tile: int = 512  # and columns of a tile
    common: int = 16  # one in so many points of a tile uses a common column of sparse points: a
    # dense line is then quicker than a list
    mixed_stripe: int = 512  # of a kernel without pair numbers
    mixed_tile: int = 1024


TUNING = Tuning()


Leaf = tuple[int, np.ndarray, np.ndarray, np.ndarray]  # origin, two operands, scales
Parts = tuple[tuple[Expression, ...], tuple[Expression, ...]]  # numbers of each x_k and each y_k
RAW: Parts = ((X,), (Y,))


@dataclass
class Packed:
    """Rows or columns of one view, ready for compiled code.

    `norms`, `shifts` and `raw` come with products, `block` with sparse columns; `scratch` is memory
    that is reused tile by tile.
    """

    operand: Any
    norms: np.ndarray | None = None
    shifts: np.ndarray | None = None
    raw: np.ndarray | None = None
    block: tuple[np.ndarray, ...] | None = None
    scratch: dict[str, np.ndarray] = field(default_factory=dict)

    def buffer(self, name: str, shape: tuple[int, int], dtype: Any) -> np.ndarray:
        """A C-ordered array of this shape, on memory that is reused."""
        size = shape[0] * shape[1]
        held = self.scratch.get(name)
        if held is None or len(held) < size:
            held = self.scratch[name] = np.empty(size, dtype)
        return held[:size].reshape(shape)


class Operand:
    """How the points of one view are packed, and how their pair numbers come about."""

    view: View
    stripe: int
    tile: int
    bytes: tuple[int, int]  # of a packed row with its scratch space, and of a packed column
    distances: str  # how they are obtained, in words
    costly = True  # whether a pair costs more than moving its value through memory
    moved = False  # whether something is taken off all points

    def sizes(self, x: Any, y: Any) -> tuple[int, int]:
        """The `bytes`, of points that are known."""
        return self.bytes

    def centre(self, y: Any) -> np.ndarray | None:
        """The point that is subtracted from all others; None for nothing."""
        return y.centre(self.view) if self.moved else None

    def rows(self, points: Any, start: int, stop: int, centre: Any) -> Packed:
        """Some points as rows."""
        raise NotImplementedError

    def columns(self, points: Any, start: int, stop: int, centre: Any) -> Packed:
        """Some points as columns."""
        raise NotImplementedError

    def leaves(self, rows: Packed, columns: Packed) -> dict[str, Leaf]:
        """The leaf of each kind of pair number that this operand gives."""
        raise NotImplementedError


class RegisterOperand(Operand):
    """Narrow dense points: products and differences are computed where they are used."""

    distances = "differences"
    costly = False

    def __init__(
        self, view: View, kinds: Sequence[str], width: int, dtype: Any, parts: Parts
    ) -> None:
        self.kinds, self.width, self.parts, self.dtype = kinds, width, parts, np.dtype(dtype)
        self.whole, self.view = view, view.unscaled
        self.scales = scales_of(view, width, dtype)
        # A(x − c) keeps the digits of x − c, which A x and A c may not have in common
        self.moved = view.matrix is not None and not view.unit and kinds == ["squared_distance"]
        scaled = view.deferred_scales is not None
        origins = {
            "product": SCALED_PRODUCT if scaled else PRODUCT,
            "squared_distance": SCALED_DIFFERENCE if scaled else DIFFERENCE,
        }
        self.origins = [(kind, origins.get(kind, COORDINATES)) for kind in kinds]
        row, column = (self.dtype.itemsize * max(1, width) * len(side) for side in parts)
        self.bytes, panel = (row, column), panel_width(dtype)
        self.padding = padding_step(dtype)
        # Sizes depend on the width and precision alone, never on threads or memory: so do the bits
        # of a sum.
        self.stripe = min(1024, max(PANEL_ROWS, TUNING.stripe_bytes // row))
        self.tile = min(4, max(1, TUNING.tile_bytes // (column * panel))) * panel

    def rows(self, points: Any, start: int, stop: int, centre: Any) -> Packed:
        part, raw = points.slice(start, stop), self.parts[0] in RAW
        seen = part.seen(self.view, self.dtype, centre) if raw else self._terms(part, 0)
        missing = -len(seen) % PANEL_ROWS  # the last row is repeated
        if missing:
            seen = np.concatenate([seen, np.repeat(seen[-1:], missing, axis=0)])
        return Packed(seen)

    def columns(self, points: Any, start: int, stop: int, centre: Any) -> Packed:
        part, raw = points.slice(start, stop), self.parts[1] in RAW
        seen = part.seen(self.view, self.dtype, centre) if raw else self._terms(part, 1)
        count, missing = len(seen), -len(seen) % self.padding
        packed = np.empty((seen.shape[1], count + missing), self.dtype)
        packed[:, :count], packed[:, count:] = seen.T, seen[-1:].T
        return Packed(packed)

    def _terms(self, points: Any, side: int) -> np.ndarray:
        """The parts of every coordinate side by side; what is no coordinate is made in float64."""
        parts = self.parts[side]
        wide = np.empty((len(points), self.width, len(parts)), self.dtype)
        coordinates = points.seen(self.whole, np.float64)
        for i, part in enumerate(parts):
            if part in (X, Y):
                wide[:, :, i] = points.seen(self.view, self.dtype)
            else:
                wide[:, :, i] = evaluate(part, {X: coordinates, Y: coordinates})
        return wide.reshape(len(points), -1)

    def leaves(self, rows: Packed, columns: Packed) -> dict[str, Leaf]:
        leaves = {}
        for kind, origin in self.origins:
            leaves[kind] = origin, rows.operand, columns.operand, self.scales
        return leaves


def scales_of(view: View, width: int, dtype: Any) -> np.ndarray:
    """The scales by which differences are multiplied, 1 where the rows are scaled already."""
    deferred = view.deferred_scales
    return np.ones(width, dtype) if deferred is None else np.array(deferred, dtype)


class BlasOperand(Operand):
    """Wide dense points: BLAS gives the products of points moved to the middle of the y_j.

    Close pairs are repaired from the rows as they are (`raw`), before any rounding.
    """

    distances = "centred products, close pairs by differences"

    def __init__(self, view: View, kinds: Sequence[str], width: int, dtype: Any) -> None:
        self.view, self.kinds, self.dtype = view, kinds, np.dtype(dtype)
        self.measured = "squared_distance" in kinds
        self.scales = scales_of(view, width, dtype)
        self.moved = self.measured and not view.unit
        row = (2 if self.measured else 1) * width * self.dtype.itemsize
        self.stripe = min(512, max(16, TUNING.stripe_bytes // row))
        self.tile = min(1024, max(16, TUNING.tile_bytes // row))
        self.bytes = row + 2 * self.tile * self.dtype.itemsize, row

    def rows(self, points: Any, start: int, stop: int, centre: Any) -> Packed:
        part = points.slice(start, stop)
        rows = part.seen(self.view, self.dtype, centre)
        if not self.measured:
            return Packed(rows)
        norms, raw = np.einsum("ij,ij->i", rows, rows), part.raw(self.view, self.dtype, centre)
        if centre is None or "product" not in self.kinds:
            return Packed(rows, norms=norms, raw=raw)
        # ⟨x,y⟩ = ⟨x−c, y−c⟩ + s(x) + s(y) with s(x) = ⟨x−c, c⟩ + ½‖c‖²
        c = DensePoints(centre[None, :]).seen(replace(self.view, columns=None), np.float64)[0]
        shifts = (rows.astype(np.float64) @ c + 0.5 * c @ c).astype(self.dtype)
        return Packed(rows, norms, shifts, raw)

    columns = rows

    def leaves(self, rows: Packed, columns: Packed) -> dict[str, Leaf]:
        x, y = rows.operand, columns.operand
        tile = np.matmul(x, y.T, out=rows.buffer("tile", (len(x), len(y)), self.dtype))
        leaves = _product_leaves(self, rows, tile)
        if rows.shifts is not None and columns.shifts is not None:
            given = leaves["product"][1]
            given += rows.shifts[:, None]
            given += columns.shifts
        if self.measured:
            norms, close = (rows.norms, columns.norms), products.CLOSENESS[self.dtype]
            products.dense_distances(tile, rows.raw, columns.raw, self.scales, *norms, close)
        return leaves


def _product_leaves(
    operand: BlasOperand | SparseOperand, rows: Packed, tile: np.ndarray
) -> dict[str, Leaf]:
    """Leaves of a tile of products; a copy of them where the tile will be turned into distances."""
    leaves = dict.fromkeys(operand.kinds, (TILE, tile, tile, operand.scales))
    if len(leaves) > 1:
        copied = rows.buffer("products", tile.shape, tile.dtype)
        copied[:] = tile
        leaves["product"] = (TILE, copied, copied, operand.scales)
    return leaves


class SparseOperand(Operand):
    """Sparse points: compiled products of CSR rows with the columns that a tile uses."""

    distances = "sparse products, close pairs by differences"
    bytes = 0, 0  # depend on how many entries the points have

    def __init__(self, view: View, kinds: Sequence[str], width: int, dtype: Any) -> None:
        self.view, self.kinds, self.width, self.dtype = view, kinds, width, np.dtype(dtype)
        self.stripe, self.tile = TUNING.sparse_stripe, TUNING.sparse_tile
        self.common = self.tile // TUNING.common
        self.scales = np.ones(1, dtype)  # rows are scaled when they are packed

    def sizes(self, x: SparsePoints, y: SparsePoints) -> tuple[int, int]:
        entries, others = (max(1, side.rows.nnz // max(1, len(side))) for side in (x, y))
        row = entries * 16 + 2 * self.tile * self.dtype.itemsize
        return row, others * (self.common * self.dtype.itemsize + 16)

    def rows(self, points: Any, start: int, stop: int, centre: Any) -> Packed:
        parts = points.parts(self.view, self.dtype, start, stop)
        return Packed(parts, products.sparse_norms(parts))

    def columns(self, points: Any, start: int, stop: int, centre: Any) -> Packed:
        packed = self.rows(points, start, stop, centre)
        packed.block = products.by_columns(packed.operand, _places(self.width), self.common)
        return packed

    def leaves(self, rows: Packed, columns: Packed) -> dict[str, Leaf]:
        assert columns.block is not None
        shape = len(rows.operand[0]) - 1, len(columns.operand[0]) - 1
        tile = rows.buffer("tile", shape, self.dtype)
        products.sparse_products(rows.operand, columns.block, _places(self.width), tile)
        leaves = _product_leaves(self, rows, tile)
        if "squared_distance" in self.kinds:
            norms, close = (rows.norms, columns.norms), products.CLOSENESS[self.dtype]
            products.sparse_distances(tile, rows.operand, columns.operand, *norms, close)
        return leaves


_scratch = threading.local()


def _places(width: int) -> np.ndarray:
    """Scratch space of this thread with a place for every column, all −1."""
    places = getattr(_scratch, "places", None)
    if places is None or len(places) < width:
        places = _scratch.places = np.full(width, -1, np.int32)
    return places


def _operand(
    view: View, parts: Parts | None, kinds: list[str], width: int, sparse_points: bool, dtype: Any
) -> Operand:
    """The operand that suits these points: of numbers of a matrix product, or over coordinates."""
    if sparse_points:
        if parts is None:
            return SparseOperand(view, kinds, width, dtype)
        if width > TUNING.dense_width:
            raise ValueError(
                "this kernel runs over all coordinates of a pair, which sparse points do not "
                f"store; beyond {TUNING.dense_width} columns it takes a kernel of ⟨x,y⟩ and ‖x−y‖."
            )
    # Differences in registers keep all digits of close pairs; BLAS has to repair those, which is
    # paid back only where points are wide.
    if parts is None and width > TUNING.register_width:
        return BlasOperand(view, kinds, width, dtype)
    return RegisterOperand(view, kinds, width, dtype, parts or RAW)


class OperandPlan:
    """The operands of a program in one precision, and what is handed to its compiled code.

    Pair numbers of one view, with the same numbers of coordinates, share an operand.
    """

    def __init__(
        self, program: Program, widths: tuple[int, ...], sparse_points: bool, dtype: str
    ) -> None:
        self.program, self.dtype = program, dtype
        self.widths = panel_width(dtype), column_step(dtype)  # of a panel; filled in together
        self.parameters = np.array(program.parameters, dtype)
        # pieces, and the bits at which the first starts
        self.tables = [(t.coefficients(dtype), t.first_bits(dtype)) for t in program.tables]
        pairs = list(zip(program.pairs, widths, strict=True))
        kinds: dict[tuple[View, Parts | None], dict[str, int]] = {}  # with the width of the view
        for number, width in pairs:
            kinds.setdefault(_shared_by(number), {}).setdefault(number.kind, width)
        self.each = each = [
            _operand(*shared, list(given), next(iter(given.values())), sparse_points, dtype)
            for shared, given in kinds.items()
        ]
        places = {shared: i for i, shared in enumerate(kinds)}
        # of each pair number its operand, its kind and its constants
        self.numbers = [
            (places[_shared_by(number)], number.kind, _constants(number, width, dtype))
            for number, width in pairs
        ]
        measured = (i for i, kind, _ in self.numbers if kind == "squared_distance")
        self.distances = "; ".join(dict.fromkeys(each[i].distances for i in measured))
        self.stripe = min((operand.stripe for operand in each), default=TUNING.mixed_stripe)
        self.tile = min((operand.tile for operand in each), default=TUNING.mixed_tile)
        self.costly = any(operand.costly for operand in each)
        # whether compiled code computes all pair numbers itself
        self.in_registers = all(isinstance(operand, RegisterOperand) for operand in each)
        rows, columns = (sum(operand.bytes[side] for operand in each) for side in (0, 1))
        known = not any(isinstance(operand, SparseOperand) for operand in each)
        self.bytes = (rows, columns or 8) if known else None  # None: they depend on the points
        moved = any(operand.moved for operand in each)
        self.unmoved = None if moved else [None] * len(each)  # where nothing is taken off

    @cached_property
    def code(self) -> Code:
        """Compiled, or loaded, when the first value is asked for, once for each structure."""
        key = self.program.structure, self.dtype
        with compiling:
            if key not in _loaded:
                _loaded[key] = Code(self.program, self.dtype)
            return _loaded[key]

    @cached_property
    def table_places(self) -> np.ndarray:
        """A line of the addresses of tables, one of lengths, and one of first pieces."""
        lines = [(array.ctypes.data, len(array), first) for array, first in self.tables]
        return np.array(lines, np.int64).reshape(-1, 3).T.copy()

    def measured(self, x: Any, y: Any) -> tuple[int, int]:
        """Bytes of a packed row with its scratch space, and of a packed column."""
        sizes = [operand.sizes(x, y) for operand in self.each]
        return sum([row for row, _ in sizes]), sum([column for _, column in sizes])

    def centres(self, y: Any) -> list[np.ndarray | None]:
        """The point that each operand subtracts from all others."""
        return [operand.centre(y) for operand in self.each]


def operand_plan(
    program: Program, widths: tuple[int, ...], sparse_points: bool, dtype: str
) -> OperandPlan:
    """The plan for points with so many numbers in the view of each pair number.

    It is made once, and lies with the program: to look it up by the program's value would take
    longer than a small product.
    """
    plans = vars(program).setdefault("operand_plans", {})
    key = widths, sparse_points, dtype
    if key not in plans:  # two threads may make it at once: both make the same
        plans[key] = OperandPlan(program, widths, sparse_points, dtype)
    return plans[key]


def _shared_by(number: Number) -> tuple[View, Parts | None]:
    return number.view, None if number.term is None else coordinate_code(number.term).parts


def _constants(number: Number, width: int, dtype: str) -> np.ndarray | None:
    """The scales of a coordinate number, and the constants of its term."""
    if number.term is None:
        return None
    constants = coordinate_code(number.term).constants
    scales = scales_of(number.view, width, dtype)
    return np.concatenate([scales, np.array(constants, dtype)])


class Code(dict[str, int]):
    """The functions of a program by their addresses, as `loops` takes them.

    `code[task]` is the kernel's own function for a task, compiled when it is first asked for; 0
    where its values are the pair numbers. `numbers` has a line for each pair number: room for where
    its operands are, the address of what fills it in, that of its exponential (0 for none), and
    which parameter that takes.
    """

    def __init__(self, program: Program, dtype: str) -> None:
        super().__init__()
        self.program, self.dtype = program, dtype
        self.functions: dict[str, Any] = {}  # which live as long as this
        lines = []
        for pair, factor in zip(program.pairs, program.decayed, strict=True):
            if pair.term is None:
                fill = address_of(pair.kind, dtype)
            else:
                fill = _filling(coordinates_source(pair, np.dtype(dtype)), dtype).address
            decay, place = (address_of("decay", dtype), int(factor[1:])) if factor else (0, 0)
            lines.append([0] * 6 + [fill, decay, place])
        self.numbers = np.array(lines, np.int64).reshape(-1, 9)

    def __missing__(self, task: str) -> int:
        with compiling:
            if makes_values(self.program) and task not in self.functions:
                module = load(source_of(self.program, np.dtype(self.dtype)))
                self.functions[task] = in_c(vars(module)[task], own_signature, self.dtype)
            self[task] = self.functions[task].address if self.functions else 0
        return self[task]


_loaded: dict[tuple[str, str], Code] = {}


@cache
def _filling(source: str, dtype: str) -> Any:
    """The function in C that fills in a pair number over coordinates."""
    return in_c(load(source).fill, fill_signature, dtype)
