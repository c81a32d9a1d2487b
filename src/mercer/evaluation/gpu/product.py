"""Products with K(X, Y) on a GPU: operands are prepared, code is generated, launched and added up.

Nothing of size n × m is stored, except by `dense`. Where rows are few, the columns are cut into
segments that run side by side; their sums are added in a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import triton

from mercer.evaluation.expression import Expression
from mercer.evaluation.gpu.blocks import out_of_memory
from mercer.evaluation.gpu.operands import Operands, far_columns, prepare
from mercer.evaluation.gpu.packing import pad_zeros
from mercer.evaluation.gpu.plan import ARITHMETIC, PADDING, RESIDENT, TileCode, stored_width
from mercer.evaluation.gpu.source import UNROLLED, source_of
from mercer.runtime.cache import load

TOO_LARGE = triton.runtime.errors.OutOfResources


@dataclass(frozen=True)
class Tuning:
    """Sizes of a launch; measured on an H200, right on any card, if not the fastest there."""

    few_columns: int = 8  # of V that are summed in registers; more go through matrix products
    wide_columns: int = 64  # of V that are multiplied together: beyond, tiles no longer fit
    narrow: int = 16  # columns of operands beside which registers are left for sums
    short: int = 32  # the same, where all parts lie side by side
    light: int = 1  # functions in an expression up to which the matrix product takes longer
    programs: int = 2048  # of a grid that fill a large card
    partial_bytes: int = 1 << 28  # of partial sums
    indivisible: int = 1024  # points that must fit into memory


TUNING = Tuning()


@dataclass(frozen=True)
class Tile:
    """The shape of a tile and how it is run."""

    rows: int
    columns: int
    warps: int
    stages: int
    by_elements: bool = False  # sums are kept for each element of a tile
    longest: int = 512  # tiles of columns in one program of the grid

    @property
    def smaller(self) -> Tile | None:
        """The tile to try where this one needs more than the card has."""
        if self.stages > 2:
            return replace(self, stages=2)
        if self.rows * self.columns <= 32 * 32:
            return None
        return replace(
            self, rows=max(32, self.rows // 2), columns=max(32, self.columns // 2), warps=4
        )


def tile_for(code: TileCode, columns: int, tuning: Tuning = TUNING) -> Tile:
    """The tile of a product with so many columns."""
    if code.dtype == "float64":
        return Tile(64, 32, 4, 2, by_elements=columns <= 2)
    if any(plan.terms for plan in code.plans) or not code.plans:
        return _tile_of_coordinates(code, columns, tuning)
    widest = max(stored_width(plan.width) for plan in code.plans)
    if widest > RESIDENT:
        return Tile(128, 128, 8, 3)
    if columns > tuning.few_columns:
        return Tile(64, 64, 4, 2)
    if widest > 64:
        return Tile(128, 64, 4, 2)
    light = sum(name not in ARITHMETIC for name, *_ in code.steps) <= tuning.light
    one = all(plan.parts == 1 for plan in code.plans)
    repaired = any(plan.repaired for plan in code.plans)
    short = columns == 1 and widest <= tuning.short and one
    large = (light or (widest > tuning.narrow and not short)) and not (repaired or code.tables)
    tile = Tile(64, 128, 4, 3) if large else Tile(64, 64, 4, 3)
    # sums of elements wait for no other thread; they take as many registers as the values
    fits = widest <= tuning.narrow and (one or not light)
    fits = fits or (short and not light and not repaired)
    return replace(tile, by_elements=columns == 1 and fits)


def _tile_of_coordinates(code: TileCode, columns: int, tuning: Tuning) -> Tile:
    """The tile where sums run over coordinates.

    Long tiles use a coordinate of a column more often once it is read. Where functions of
    coordinates are held, they have few rows, so that what depends on these alone stays in registers
    (one column, d = 10, an H200: splines take 0.7 of the time of a loop, the Laplacian 0.6; with
    32 rows splines take 4.5). Twice the columns or rows save 5 % of the instructions at twice the
    registers. Matrix products need 16 rows.
    """
    held = all(plan.width <= UNROLLED for plan in code.plans)
    functions = any(line is not None for plan in code.plans for _, line in plan.terms)
    if held and functions and columns > tuning.few_columns:
        return Tile(16, 32, 4, 2)
    if held and functions:
        return Tile(8, 128, 4, 2, by_elements=columns <= 2)
    long = len(code.plans) == 1 and not held
    return Tile(32, 128 if long else 64, 4, 2, by_elements=columns <= 2)


def interpreted() -> bool:
    """Whether Triton runs on the CPU, through its interpreter."""
    return bool(triton.knobs.runtime.interpret)


class FusedProduct:
    """K(X, Y) of an expression, on tensors of one device."""

    def __init__(
        self,
        expression: Expression,
        x: Any,
        y: Any,
        dtype: torch.dtype,
        precision: str,
        tuning: Tuning = TUNING,
    ) -> None:
        self.expression, self.x, self.y = expression, x, y
        self.dtype, self.precision, self.tuning = dtype, precision, tuning
        self.device = x.rows.device
        self._parts: list[tuple[Any, Launch]] | None = None

    def matmul(self, values: torch.Tensor) -> torch.Tensor:
        """K V, V having any number of columns; half at a time where the device has no memory."""
        try:
            return self._matmul(values)
        except torch.OutOfMemoryError:
            self._parts = None
            if max(len(self.x), len(self.y)) <= self.tuning.indivisible:
                raise out_of_memory(self.x, self.y) from None
        return self._halves(values)

    def _halves(self, values: torch.Tensor) -> torch.Tensor:
        """The product of half of the rows beside that of the others, or of half of the columns."""
        x, y = self.x, self.y
        if len(x) >= len(y):
            rows = slice(0, len(x) // 2), slice(len(x) // 2, len(x))
            sides = [(x.slice(part.start, part.stop), y) for part in rows]
            return torch.cat([self._like(*side).matmul(values) for side in sides])
        columns = slice(0, len(y) // 2), slice(len(y) // 2, len(y))
        total: Any = 0.0
        for part in columns:
            half = self._like(x, y.slice(part.start, part.stop))
            total = total + half.matmul(values[part])
        return total

    def _like(self, x: Any, y: Any) -> FusedProduct:
        return FusedProduct(self.expression, x, y, self.dtype, self.precision, self.tuning)

    def _matmul(self, values: torch.Tensor) -> torch.Tensor:
        """The operands stay for the next product."""
        if self._parts is None:
            self._parts = self.prepared()
        many = values.shape[1] > self.tuning.few_columns
        total: Any = 0.0
        for chosen, launch in self._parts:
            part = values if chosen is None else values[chosen]
            total = total + (launch.reduce_many(part) if many else launch.reduce(part))
        return total.to(self.dtype)

    def prepared(self) -> list[tuple[Any, Launch]]:
        """All columns at once, or the near and the far ones apart: which, and their launch."""
        far = far_columns(self.expression, self.y, self.dtype)
        if far is None:
            return [(None, Launch(self, self.y))]
        chosen = [torch.nonzero(side)[:, 0] for side in (~far, far)]
        return [(side, Launch(self, self.y.take(side))) for side in chosen]

    def dense(self) -> torch.Tensor:
        """K, stored."""
        return Launch(self, self.y, strict=True).fill()

    def describe(self, columns: int) -> tuple[Tile, str, int]:
        """The tile of a product with so many columns, how distances are obtained, and bytes."""
        operands = prepare(self.expression, self.x, self.y, self.dtype, self.precision)
        arrays = (a for a in operands.arrays.values() if isinstance(a, torch.Tensor))
        taken = sum(array.numel() * array.element_size() for array in arrays)
        return tile_for(operands.code, columns, self.tuning), operands.distances, taken


class Launch:
    """One prepared set of operands, and the functions that were generated for it."""

    def __init__(self, product: FusedProduct, y: Any, strict: bool = False) -> None:
        self.product, self.tuning = product, product.tuning
        self.n, self.m = len(product.x), len(y)
        self.operands: Operands = prepare(
            product.expression,
            product.x,
            y,
            product.dtype,
            product.precision,
            strict and product.precision != "tf32",
        )
        self.parameters = torch.empty(1, dtype=product.dtype, device=product.device)
        if product.dtype == torch.float64:  # else they are arguments: a copy would wait
            values = tuple(self.operands.scalars.values()) or (0.0,)
            self.parameters = torch.tensor(values, dtype=product.dtype, device=product.device)

    def reduce(self, values: torch.Tensor) -> torch.Tensor:
        """K V for a few columns."""
        columns = values.shape[1]
        v = pad_zeros(values.to(self.product.dtype)).T.contiguous()

        def run(tile: Tile) -> torch.Tensor:
            grid, tiles = self._grid(tile, columns)
            out = self._empty(grid[1], columns, self.n)
            self._call("reduce", columns, grid, tile, tiles, {"V": v, "OUT": out})
            return _total(out).T

        return self._with_smaller_tiles(columns, run)

    def reduce_many(self, values: torch.Tensor) -> torch.Tensor:
        """K V for many columns."""
        columns = values.shape[1]
        most = self.tuning.wide_columns
        together = min(most, max(16, triton.next_power_of_2(columns)))
        width = -(-columns // together) * together
        v = values.new_zeros((self.m + -self.m % PADDING, width), dtype=self.product.dtype)
        v[: self.m, :columns] = values

        def run(tile: Tile) -> torch.Tensor:
            grid, tiles = self._grid(tile, width)
            out = self._empty(grid[1], self.n, width)
            given = {"V": v, "OUT": out, "width": width, "T": together}
            self._call("reduce_many", 0, (*grid, width // together), tile, tiles, given)
            return _total(out)[:, :columns]

        return self._with_smaller_tiles(columns, run)

    def fill(self) -> torch.Tensor:
        """K, stored."""
        out = self._empty(self.n, self.m)

        def run(tile: Tile) -> torch.Tensor:
            tiles = max(1, -(-self.m // (16 * tile.columns)))
            grid = -(-self.n // tile.rows), -(-self.m // (tiles * tile.columns))
            self._call("fill", 0, grid, tile, tiles, {"OUT": out})
            return out

        return self._with_smaller_tiles(1, run)

    def _empty(self, *shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=self.product.dtype, device=self.product.device)

    def _grid(self, tile: Tile, columns: int) -> tuple[tuple[int, int], int]:
        """Blocks of rows, segments of columns, and how many tiles a segment has."""
        blocks = -(-self.n // tile.rows)
        count = -(-self.m // tile.columns)
        room = max(1, self.tuning.partial_bytes // max(1, 8 * self.n * columns))
        segments = max(1, min(-(-self.tuning.programs // blocks), -(-count // 4), room))
        segments = max(segments, -(-count // tile.longest))
        tiles = -(-count // segments)
        return (blocks, -(-count // tiles)), tiles

    def _with_smaller_tiles(self, columns: int, run: Any) -> torch.Tensor:
        tile: Tile | None = tile_for(self.operands.code, columns, self.tuning)
        while True:
            assert tile is not None
            try:
                return run(tile)
            except TOO_LARGE:
                if tile.smaller is None:
                    raise
                tile = tile.smaller

    def _call(
        self, name: str, columns: int, grid: Any, tile: Tile, tiles: int, given: dict[str, Any]
    ) -> None:
        card = self.product.device.type == "cuda"
        nvidia = card and torch.version.hip is None and not interpreted()
        source = source_of(self.operands.code, columns, tile.by_elements, nvidia)
        function = getattr(load(source), name)
        pool = self.operands.arrays | self.operands.scalars | self._sizes(tile) | given
        pool["tiles"] = tiles
        arguments = {argument: pool[argument] for argument in function.arg_names}
        if not card:
            function[grid](**arguments)
            return
        with torch.cuda.device(self.product.device):
            function[grid](**arguments, **self.options(tile))

    def _sizes(self, tile: Tile) -> dict[str, Any]:
        return {
            "n": self.n,
            "m": self.m,
            "m_padded": self.m + -self.m % PADDING,
            "P": self.parameters,
            "BM": tile.rows,
            "BN": tile.columns,
            "UNUSED": self.parameters,
        }

    def options(self, tile: Tile) -> dict[str, Any]:
        """How a function is compiled."""
        return {
            "num_warps": tile.warps,
            "num_stages": 1 if self.operands.code.tables else tile.stages,  # tables do not wait
            "enable_fp_fusion": True,  # Triton is about to change what it does by itself
        }


def _total(partial: torch.Tensor) -> torch.Tensor:
    return partial[0] if partial.shape[0] == 1 else partial.sum(0, dtype=torch.float64)
