"""Points in the form that compiled code reads, and where their pair numbers come from.

Narrow dense points are packed for registers, and distances are summed from differences. Wide
dense points go through BLAS, sparse points through `sparse`; there distances are expanded and
close pairs repaired (`distances`). Each source serves one view.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from mercer.evaluation.cpu import sparse
from mercer.evaluation.cpu.distances import closeness, dense_distances
from mercer.evaluation.cpu.vectors import (
    COORDINATES,
    DIFFERENCE,
    PRODUCT,
    ROWS,
    SCALED_DIFFERENCE,
    SCALED_PRODUCT,
    TILE,
    padding_step,
    panel_width,
)
from mercer.evaluation.expression import Expression, X, Y
from mercer.evaluation.reference import evaluate
from mercer.points import DensePoints, SparsePoints, View

DENSE_WIDTH = 16384  # columns up to which tiles of sparse rows may be made dense
NARROW = 64  # columns up to which pair numbers are computed in registers
MEGABYTE = 1 << 20
SPARSE_TILE, SPARSE_STRIPE = 512, 1024
COMMON = 16  # a column of sparse points is common where one in so many of them uses it
ORIGINS = {"product": PRODUCT, "squared_distance": DIFFERENCE}
SCALED_ORIGINS = {"product": SCALED_PRODUCT, "squared_distance": SCALED_DIFFERENCE}
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
        """A C-ordered array of this shape, on memory that is kept."""
        size = shape[0] * shape[1]
        kept = self.scratch.get(name)
        if kept is None or len(kept) < size:
            kept = self.scratch[name] = np.empty(size, dtype)
        return kept[:size].reshape(shape)


class Source(Protocol):
    """Where the pair numbers of one view come from."""

    stripe: int
    tile: int
    column_bytes: int
    row_bytes: int
    distances: str  # how distances are obtained, in words
    costly: bool  # whether a pair costs more than moving its value through memory

    def rows(self, start: int, stop: int) -> Packed: ...

    def columns(self, start: int, stop: int) -> Packed: ...

    def leaves(self, rows: Packed, columns: Packed) -> dict[str, Leaf]:
        """The leaf of each kind of pair number that this source gives."""


class RegisterSource:
    """Narrow dense points: products and differences are computed where they are used."""

    distances = "differences"
    costly = False

    def __init__(
        self,
        view: View,
        kinds: Sequence[str],
        x: DensePoints,
        y: DensePoints,
        dtype: Any,
        parts: Parts = RAW,
    ) -> None:
        self.kinds, self.x, self.y, self.parts = kinds, x, y, parts
        self.dtype = np.dtype(dtype)
        self.width = x.width_of(view)
        self.whole, self.view = view, view.unscaled
        self.scales = scales_of(view, self.width, dtype)
        moved = view.matrix is not None and not view.unit and list(kinds) == ["squared_distance"]
        self.centre = y.centre(view) if moved else None  # A(x − c) keeps the digits of x − c
        self.origins = ORIGINS if view.deferred_scales is None else SCALED_ORIGINS
        self.row_bytes, self.column_bytes = (
            self.dtype.itemsize * max(1, self.width) * len(side) for side in parts
        )
        self.stripe = _within(4 * MEGABYTE // self.row_bytes, ROWS, 1024)
        panels = 8 * MEGABYTE // (self.column_bytes * panel_width(dtype))
        self.tile = _within(panels, 1, 4) * panel_width(dtype)

    def rows(self, start: int, stop: int) -> Packed:
        return Packed(_padded(self._seen(self.x.slice(start, stop), self.parts[0]), ROWS))

    def columns(self, start: int, stop: int) -> Packed:
        seen = self._seen(self.y.slice(start, stop), self.parts[1])
        rows = _padded(seen, padding_step(self.dtype))
        return Packed(np.ascontiguousarray(rows.T))

    def _seen(self, points: DensePoints, parts: tuple[Expression, ...]) -> np.ndarray:
        """The parts of every coordinate side by side; what is no coordinate is made in float64."""
        if parts in RAW:
            return points.seen(self.view, self.dtype, self.centre)
        out = np.empty((len(points), self.width, len(parts)), self.dtype)
        coordinates = points.seen(self.whole, np.float64)
        for i, part in enumerate(parts):
            raw = part in (X, Y)
            out[:, :, i] = (
                points.seen(self.view, self.dtype)
                if raw
                else evaluate(part, {X: coordinates, Y: coordinates})
            )
        return out.reshape(len(points), -1)

    def leaves(self, rows: Packed, columns: Packed) -> dict[str, Leaf]:
        operands = rows.operand, columns.operand, self.scales
        return {kind: (self.origins.get(kind, COORDINATES), *operands) for kind in self.kinds}


def scales_of(view: View, width: int, dtype: Any) -> np.ndarray:
    """The scales by which differences are multiplied, 1 where the rows are scaled already."""
    deferred = view.deferred_scales
    return np.ones(width, dtype) if deferred is None else np.array(deferred, dtype)


def _padded(rows: np.ndarray, step: int) -> np.ndarray:
    """The rows, the last one repeated until their number is a multiple of `step`."""
    missing = -len(rows) % step
    return np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)]) if missing else rows


class BlasSource:
    """Wide dense points: BLAS gives the products of points moved to the middle of the y_j.

    Close pairs are repaired from the rows as they are (`raw`), before any rounding.
    """

    distances = "centred products, close pairs by differences"
    costly = True

    def __init__(
        self, view: View, kinds: Sequence[str], x: DensePoints, y: DensePoints, dtype: Any
    ) -> None:
        self.view, self.kinds, self.x, self.y = view, kinds, x, y
        self.dtype = np.dtype(dtype)
        self.width = x.width_of(view)
        self.measured = "squared_distance" in kinds
        self.centre = y.centre(view) if self.measured and not view.unit else None
        self.scales = scales_of(view, self.width, dtype)
        row = (2 if self.measured else 1) * self.width * self.dtype.itemsize
        self.stripe = _within(4 * MEGABYTE // row, 16, 512)
        self.tile = _within(8 * MEGABYTE // row, 16, 1024)
        self.column_bytes = row
        self.row_bytes = row + 2 * self.tile * self.dtype.itemsize

    def rows(self, start: int, stop: int) -> Packed:
        return self._packed(self.x.slice(start, stop))

    def columns(self, start: int, stop: int) -> Packed:
        return self._packed(self.y.slice(start, stop))

    def _packed(self, points: DensePoints) -> Packed:
        rows = points.seen(self.view, self.dtype, self.centre)
        if not self.measured:
            return Packed(rows)
        moved = self.centre is not None and "product" in self.kinds
        return Packed(
            rows,
            norms=np.einsum("ij,ij->i", rows, rows),
            shifts=self._shifts(rows) if moved else None,
            raw=points.raw(self.view, self.dtype, self.centre),
        )

    def _shifts(self, rows: np.ndarray) -> np.ndarray:
        """s with ⟨x,y⟩ = ⟨x−c, y−c⟩ + s(x) + s(y): s(x) = ⟨x−c, c⟩ + ½‖c‖²."""
        centre = DensePoints(self.centre[None, :]).seen(  # type: ignore[index]
            replace(self.view, columns=None), np.float64
        )[0]
        return (rows.astype(np.float64) @ centre + 0.5 * centre @ centre).astype(self.dtype)

    def leaves(self, rows: Packed, columns: Packed) -> dict[str, Leaf]:
        x, y = rows.operand, columns.operand
        tile = np.matmul(x, y.T, out=rows.buffer("tile", (len(x), len(y)), self.dtype))
        leaves = {}
        if "product" in self.kinds:
            products = tile
            if self.measured:  # the tile will hold distances
                products = rows.buffer("products", tile.shape, self.dtype)
                products[:] = tile
            if rows.shifts is not None and columns.shifts is not None:
                products += rows.shifts[:, None]
                products += columns.shifts
            leaves["product"] = (TILE, products, products, self.scales)
        if self.measured:
            norms = rows.norms, columns.norms
            close = closeness(self.dtype)
            dense_distances(tile, rows.raw, columns.raw, self.scales, *norms, close)
            leaves["squared_distance"] = (TILE, tile, tile, self.scales)
        return leaves


class SparseSource:
    """Sparse points: compiled products of CSR rows with the columns that a tile uses."""

    distances = "sparse products, close pairs by differences"
    costly = True

    def __init__(
        self, view: View, kinds: Sequence[str], x: SparsePoints, y: SparsePoints, dtype: Any
    ) -> None:
        self.view, self.kinds, self.x, self.y = view, kinds, x, y
        self.dtype = np.dtype(dtype)
        self.width = x.width_of(view)
        entries = max(1, y.rows.nnz // max(1, len(y)))
        self.tile, self.stripe = SPARSE_TILE, SPARSE_STRIPE
        self.column_bytes = entries * (self.tile // COMMON * self.dtype.itemsize + 16)
        x_entries = max(1, x.rows.nnz // max(1, len(x)))
        self.row_bytes = x_entries * 16 + 2 * self.tile * self.dtype.itemsize
        self.scales = np.ones(1, dtype)  # rows are scaled when they are packed
        self.local = threading.local()

    def rows(self, start: int, stop: int) -> Packed:
        return self._packed(self.x, start, stop)

    def columns(self, start: int, stop: int) -> Packed:
        packed = self._packed(self.y, start, stop)
        packed.block = sparse.by_columns(packed.operand, self._table(), SPARSE_TILE // COMMON)
        return packed

    def _packed(self, points: SparsePoints, start: int, stop: int) -> Packed:
        parts = points.parts(self.view, self.dtype, start, stop)
        return Packed(parts, sparse.norms(parts))

    def leaves(self, rows: Packed, columns: Packed) -> dict[str, Leaf]:
        assert columns.block is not None
        shape = len(rows.operand[0]) - 1, len(columns.operand[0]) - 1
        tile = rows.buffer("tile", shape, self.dtype)
        sparse.products(rows.operand, columns.block, self._table(), tile)
        leaves = {}
        if "product" in self.kinds:
            products = tile
            if "squared_distance" in self.kinds:
                products = rows.buffer("products", tile.shape, self.dtype)
                products[:] = tile
            leaves["product"] = (TILE, products, products, self.scales)
        if "squared_distance" in self.kinds:
            sparse.distances(
                tile,
                rows.operand,
                columns.operand,
                rows.norms,
                columns.norms,
                closeness(self.dtype),
            )
            leaves["squared_distance"] = (TILE, tile, tile, self.scales)
        return leaves

    def _table(self) -> np.ndarray:
        """Scratch space of this thread with a place for every column, all −1."""
        if not hasattr(self.local, "table"):
            self.local.table = np.full(self.width, -1, np.int32)
        return self.local.table


def _within(value: int, least: int, most: int) -> int:
    return max(least, min(most, value))


def source_for(
    view: View, parts: Parts | None, kinds: Sequence[str], x: Any, y: Any, dtype: Any
) -> Source:
    """The source that suits these points: of numbers of a matrix product, or over coordinates."""
    bilinear = parts is None
    if isinstance(x, SparsePoints) and isinstance(y, SparsePoints):
        if bilinear:
            return SparseSource(view, kinds, x, y, dtype)
        if x.width_of(view) > DENSE_WIDTH:
            raise ValueError(
                "this kernel runs over all coordinates of a pair, which sparse points do not "
                f"store; beyond {DENSE_WIDTH} columns it takes a kernel of ⟨x,y⟩ and ‖x−y‖."
            )
    if bilinear and x.width_of(view) > NARROW:
        return BlasSource(view, kinds, x, y, dtype)
    return RegisterSource(view, kinds, x, y, dtype, parts or RAW)
