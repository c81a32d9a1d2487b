"""Products with K(X, Y) on a GPU: operands are prepared, code is generated, launched and added up.

Nothing of size n × m is stored, except by `dense`. Where rows are few, the columns are cut into
segments that run side by side; their sums are added in a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import triton

from mercer.evaluation.expression import Expression
from mercer.evaluation.gpu.blocks import out_of_memory
from mercer.evaluation.gpu.operands import Operands, far_columns
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
    pairs_bytes: int = 1 << 30  # of those where each pair is computed once
    pairs_once: int = 1 << 15  # points from which K(X, X) v computes each pair once
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


def tile_of_pairs(code: TileCode, tuning: Tuning = TUNING) -> Tile:
    """The tile of K(X, X) v where each pair is computed once.

    A block of rows, along the second axis of a transposed tile, holds whole tiles of columns, so
    that a tile lies on the diagonal or beside it. Sums of elements take as many registers as
    values: where functions or repairs need registers, too, tiles have half the rows.
    """
    light = sum(name not in ARITHMETIC for name, *_ in code.steps) <= tuning.light
    repaired = any(plan.repaired for plan in code.plans)
    if code.dtype == "float64":
        tile = Tile(64, 64, 4, 2)
    elif max(stored_width(plan.width) for plan in code.plans) > 64:
        tile = Tile(128, 128, 8, 3)
    elif light and not repaired and not code.tables:
        tile = Tile(128, 64, 4, 3)
    else:
        tile = Tile(64, 64, 4, 3)
    return replace(tile, by_elements=True)


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
        symmetric: bool = False,
    ) -> None:
        self.symmetric = symmetric
        self.expression, self.x, self.y = expression, x, y
        self.dtype, self.precision, self.tuning = dtype, precision, tuning
        self.device = x.rows.device
        self._parts: list[Part] | None = None

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
        middle = max(len(x), len(y)) // 2
        if len(x) >= len(y):
            sides = x.slice(0, middle), x.slice(middle, len(x))
            return torch.cat([self._like(side, y).matmul(values) for side in sides])
        left, right = (self._like(x, y.slice(*span)) for span in ((0, middle), (middle, len(y))))
        return left.matmul(values[:middle]) + right.matmul(values[middle:])

    def _like(self, x: Any, y: Any) -> FusedProduct:
        return FusedProduct(self.expression, x, y, self.dtype, self.precision, self.tuning)

    def _matmul(self, values: torch.Tensor) -> torch.Tensor:
        """The operands stay for the next product."""
        if self._parts is None:
            self._parts = self.prepared()
        total: Any = 0.0
        for rows, columns, launch in self._parts:
            part = launch.matmul(values if columns is None else values[columns])
            if rows is None:
                total = total + part
            else:
                total[rows] = (total[rows] + part).to(total.dtype)
        return total.to(self.dtype)

    def prepared(self) -> list[Part]:
        """All of K at once, or its near and its far columns apart.

        Of a symmetric K the near points are a part of their own, whose pairs are computed once.
        """
        far = far_columns(self.expression, self.y, self.dtype)
        if far is None:
            return [Part(None, None, Launch(self, self.x, self.y))]
        outside, inside = (torch.nonzero(side)[:, 0] for side in (far, ~far))
        beyond, near = self.y.take(outside), self.y.take(inside)
        parts = [Part(None, outside, Launch(self, self.x, beyond))]
        if not self.symmetric or len(near) < self.tuning.pairs_once:
            return [*parts, Part(None, inside, Launch(self, self.x, near))]
        parts.append(Part(outside, inside, Launch(self, beyond, near)))
        return [*parts, Part(inside, inside, Launch(self, near, near))]

    def dense(self) -> torch.Tensor:
        """K, stored."""
        return Launch(self, self.x, self.y, strict=True).fill()

    def describe(self, columns: int) -> tuple[Tile, str, bool, int]:
        """The tile for so many columns, the way to distances, whether pairs are once, and bytes."""
        launch = Launch(self, self.x, self.y)
        arrays = (a for a in launch.operands.arrays.values() if isinstance(a, torch.Tensor))
        taken = sum(array.numel() * array.element_size() for array in arrays)
        once, code = launch.takes_pairs_once(columns), launch.operands.code
        tile = tile_of_pairs(code, self.tuning) if once else tile_for(code, columns, self.tuning)
        return tile, launch.operands.distances, once, taken


class Part(NamedTuple):
    """Some rows of K with some of its columns, all where None stands, and what computes them."""

    rows: torch.Tensor | None
    columns: torch.Tensor | None
    launch: Launch


class Launch:
    """One prepared set of operands, and the functions that were generated for it."""

    def __init__(self, product: FusedProduct, x: Any, y: Any, strict: bool = False) -> None:
        self.product, self.tuning = product, product.tuning
        self.n, self.m = len(x), len(y)
        strict = strict and product.precision != "tf32"
        self.operands = Operands(product.expression, x, y, product.dtype, product.precision, strict)
        self.symmetric = product.symmetric and x is y
        self.parameters = torch.empty(1, dtype=product.dtype, device=product.device)
        if product.dtype == torch.float64:  # else they are arguments: a copy would wait
            values = tuple(self.operands.scalars.values()) or (0.0,)
            self.parameters = torch.tensor(values, dtype=product.dtype, device=product.device)

    def matmul(self, values: torch.Tensor) -> torch.Tensor:
        """K V."""
        columns = values.shape[1]
        if columns > self.tuning.few_columns:
            return self.reduce_many(values)
        return self.reduce_pairs(values) if self.takes_pairs_once(columns) else self.reduce(values)

    def takes_pairs_once(self, columns: int) -> bool:
        """Whether the values of a symmetric K are computed for i ≤ j alone, and used for both.

        With several vectors their sums take more registers than there are, and so do coordinates
        that are held (the Laplacian took 2.8 times as long on an H200). Fewer points leave the
        card idle: Gaussian products with 16,384 took 1.3 times as long, with 32,768 0.93, with
        65,536 0.78, with 1.8 million 0.67.
        """
        plans = self.operands.code.plans
        large = self.symmetric and self.n >= self.tuning.pairs_once
        return large and columns == 1 and bool(plans) and not any(plan.terms for plan in plans)

    def reduce(self, values: torch.Tensor) -> torch.Tensor:
        """K V for a few columns."""
        columns = values.shape[1]
        v = pad_zeros(values.to(self.product.dtype)).T.contiguous()

        def run(tile: Tile) -> torch.Tensor:
            grid, tiles = self._grid(tile, columns, self.n, self.m)
            out = self._empty(grid[1], columns, self.n)
            self._call("reduce", columns, grid, tile, tiles, {"V": v, "OUT": out})
            return _total(out).T

        return self._with_smaller_tiles(tile_for(self.operands.code, columns, self.tuning), run)

    def reduce_many(self, values: torch.Tensor) -> torch.Tensor:
        """K V for many columns."""
        columns = values.shape[1]
        most = self.tuning.wide_columns
        together = min(most, max(16, triton.next_power_of_2(columns)))
        width = -(-columns // together) * together
        v = values.new_zeros((self.m + -self.m % PADDING, width), dtype=self.product.dtype)
        v[: self.m, :columns] = values

        def run(tile: Tile) -> torch.Tensor:
            grid, tiles = self._grid(tile, width, self.n, self.m)
            out = self._empty(grid[1], self.n, width)
            given = {"V": v, "OUT": out, "width": width, "T": together}
            self._call("reduce_many", 0, (*grid, width // together), tile, tiles, given)
            return _total(out)[:, :columns]

        return self._with_smaller_tiles(tile_for(self.operands.code, columns, self.tuning), run)

    def reduce_pairs(self, values: torch.Tensor) -> torch.Tensor:
        """K(X, X) v for one vector, from the pairs on and above the diagonal.

        A strip of rows at a time: each of its blocks of rows leaves a sum for every column after
        it, and these sums are added up in the order of the blocks.
        """
        v = pad_zeros(values.to(self.product.dtype))[:, 0].contiguous()
        length = len(v)

        def run(tile: Tile) -> torch.Tensor:
            total = torch.zeros(length, dtype=torch.float64, device=v.device)
            blocks = max(1, self.tuning.pairs_bytes // (length * v.element_size()))
            height = -(-blocks * tile.rows // PADDING) * PADDING
            for strip in range(0, length, height):
                rows = min(height, length - strip)
                self._strip_of_pairs(tile, v, total[strip:], strip, rows)
            return total[: self.n, None]

        return self._with_smaller_tiles(tile_of_pairs(self.operands.code, self.tuning), run)

    def _strip_of_pairs(
        self, tile: Tile, v: torch.Tensor, total: torch.Tensor, strip: int, rows: int
    ) -> None:
        """Add the sums of a strip of rows, from its first column on, and those of its columns."""
        grid, tiles = self._grid(tile, 1, rows, len(total))
        beside, below = self._empty(grid[1], rows), self._empty(grid[0], len(total))
        below[:, :rows] = 0.0  # no block has sums for the columns before it
        given = {"V": v, "OUT": beside, "BELOW": below, "strip": strip, "height": rows}
        self._call("reduce_pairs", 1, grid, tile, tiles, given)
        total[:rows] += beside.sum(0, dtype=torch.float64)
        total += below.sum(0, dtype=torch.float64)

    def fill(self) -> torch.Tensor:
        """K, stored."""
        out = self._empty(self.n, self.m)

        def run(tile: Tile) -> torch.Tensor:
            tiles = max(1, -(-self.m // (16 * tile.columns)))
            grid = -(-self.n // tile.rows), -(-self.m // (tiles * tile.columns))
            self._call("fill", 0, grid, tile, tiles, {"OUT": out})
            return out

        return self._with_smaller_tiles(tile_for(self.operands.code, 1, self.tuning), run)

    def _empty(self, *shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=self.product.dtype, device=self.product.device)

    def _grid(self, tile: Tile, sums: int, n: int, m: int) -> tuple[tuple[int, int], int]:
        """Blocks of rows, segments of columns, and how many tiles a segment has, of n × m pairs."""
        blocks = -(-n // tile.rows)
        count = -(-m // tile.columns)
        room = max(1, self.tuning.partial_bytes // max(1, 8 * n * sums))
        segments = max(1, min(-(-self.tuning.programs // blocks), -(-count // 4), room))
        segments = max(segments, -(-count // tile.longest))
        tiles = -(-count // segments)
        return (blocks, -(-count // tiles)), tiles

    def _with_smaller_tiles(self, tile: Tile, run: Any) -> torch.Tensor:
        while True:
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
        pairs = name == "reduce_pairs"
        source = source_of(self.operands.code, columns, tile.by_elements, nvidia, pairs)
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
