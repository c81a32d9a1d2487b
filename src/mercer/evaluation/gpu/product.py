"""Products with K(X, Y) on a GPU: operands are prepared, code is generated, launched and added up.

Nothing of size n × m is stored, except by `dense`. Where rows are few, the columns are cut into
segments that run side by side; their sums are added in a fixed order.
"""

from __future__ import annotations

from typing import Any

import torch
import triton

from mercer.evaluation.expression import Expression
from mercer.evaluation.gpu.blocks import out_of_memory
from mercer.evaluation.gpu.distant import far_columns
from mercer.evaluation.gpu.families import Family
from mercer.evaluation.gpu.operands import Operands, prepare
from mercer.evaluation.gpu.packing import PADDING
from mercer.evaluation.gpu.source import source_of
from mercer.evaluation.gpu.tiles import FEW_COLUMNS, Tile, tile_for
from mercer.evaluation.program import Program, lower
from mercer.runtime.cache import load

WIDE_COLUMNS = 64  # of V that are multiplied together
PROGRAMS = 2048  # of a grid that fill a large card
PARTIAL_BYTES = 1 << 28  # of partial sums
INDIVISIBLE = 1024  # points that must fit
TOO_LARGE = tuple(  # the second one came later than the first versions that are supported
    getattr(triton.runtime.errors, name)
    for name in ("OutOfResources", "PTXASError")
    if hasattr(triton.runtime.errors, name)
)


def interpreted() -> bool:
    """Whether Triton runs on the CPU, through its interpreter."""
    return bool(triton.knobs.runtime.interpret)


class FusedProduct:
    """K(X, Y) of a program, on tensors of one device."""

    def __init__(
        self, expression: Expression, x: Any, y: Any, dtype: torch.dtype, precision: str
    ) -> None:
        self.expression, self.x, self.y = expression, x, y
        self.dtype, self.precision = dtype, precision
        self.device = x.rows.device
        self.program: Program = lower(expression)
        self._parts: list[tuple[Any, _Launch]] | None = None

    def matmul(self, values: torch.Tensor) -> torch.Tensor:
        """K V, V having any number of columns; half at a time where the device has no memory."""
        try:
            return self._matmul(values)
        except torch.OutOfMemoryError:
            self._parts = None
            if max(len(self.x), len(self.y)) <= INDIVISIBLE:
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
        return FusedProduct(self.expression, x, y, self.dtype, self.precision)

    def _matmul(self, values: torch.Tensor) -> torch.Tensor:
        """The operands are kept for the next product."""
        if self._parts is None:
            self._parts = self._prepared()
        many = values.shape[1] > FEW_COLUMNS
        total: Any = 0.0
        for chosen, launch in self._parts:
            part = values if chosen is None else values[chosen]
            total = total + (launch.reduce_many(part) if many else launch.reduce(part))
        return total.to(self.dtype)

    def _prepared(self) -> list[tuple[Any, _Launch]]:
        """All columns at once, or the near and the far ones apart."""
        far = far_columns(self.program, self.expression, self.y, self.dtype)
        if far is None:
            return [(None, _Launch(self, self.y))]
        chosen = [torch.nonzero(side)[:, 0] for side in (~far, far)]
        return [(side, _Launch(self, self.y.take(side))) for side in chosen]

    def dense(self) -> torch.Tensor:
        """K, stored."""
        return _Launch(self, self.y, strict=True).fill()

    def describe(self, columns: int) -> tuple[Tile, str, int]:
        """The tile of a product with so many columns, how distances are obtained, and bytes."""
        operands = prepare(
            self.program, self.expression, self.x, self.y, self.dtype, self.precision
        )
        arrays = (a for a in operands.arrays.values() if isinstance(a, torch.Tensor))
        taken = sum(array.numel() * array.element_size() for array in arrays)
        return self.tile(operands.families, columns), operands.distances, taken

    def tile(self, families: tuple[Family, ...], columns: int) -> Tile:
        """The tile of a product with so many columns."""
        return tile_for(families, self.dtype, columns, bool(self.program.tables))


class _Launch:
    """One prepared set of operands."""

    def __init__(self, product: FusedProduct, y: Any, strict: bool = False) -> None:
        self.product, self.y = product, y
        self.n, self.m = len(product.x), len(y)
        self.operands: Operands = prepare(
            product.program,
            product.expression,
            product.x,
            y,
            product.dtype,
            product.precision,
            strict and product.precision != "tf32",
        )
        self.parameters = torch.tensor(
            product.program.parameters or (0.0,), dtype=product.dtype, device=product.device
        )
        self.modules: dict[tuple[str, int], Any] = {}

    def reduce(self, values: torch.Tensor) -> torch.Tensor:
        columns = values.shape[1]
        v = pad_zeros(values.to(self.product.dtype)).T.contiguous()

        def run(tile: Tile) -> torch.Tensor:
            grid, tiles = self._grid(tile, columns)
            out = self._empty(grid[1], columns, self.n)
            self._call("reduce", columns, grid, tile, tiles, {"V": v, "OUT": out})
            return _total(out).T

        return self._with_smaller_tiles(columns, run)

    def reduce_many(self, values: torch.Tensor) -> torch.Tensor:
        columns = values.shape[1]
        together = min(WIDE_COLUMNS, max(16, triton.next_power_of_2(columns)))
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
        kept = max(1, PARTIAL_BYTES // max(1, 8 * self.n * columns))
        segments = max(1, min(-(-PROGRAMS // blocks), -(-count // 4), kept))
        segments = max(segments, -(-count // tile.longest))
        tiles = -(-count // segments)
        return (blocks, -(-count // tiles)), tiles

    def _with_smaller_tiles(self, columns: int, run: Any) -> torch.Tensor:
        tile: Tile | None = self.product.tile(self.operands.families, columns)
        while True:
            assert tile is not None
            try:
                return run(tile)
            except TOO_LARGE:
                if tile.smaller is None:
                    raise
                tile = tile.smaller

    def _module(self, name: str, columns: int) -> Any:
        """The generated module that has a function."""
        if (name, columns) not in self.modules:
            dtype = str(self.product.dtype).removeprefix("torch.")
            assembly = self.product.device.type == "cuda" and torch.version.hip is None
            families = self.operands.families
            source = source_of(
                self.product.program, families, dtype, columns, assembly and not interpreted()
            )
            self.modules[name, columns] = load(source)
        return self.modules[name, columns]

    def _call(
        self, name: str, columns: int, grid: Any, tile: Tile, tiles: int, given: dict[str, Any]
    ) -> None:
        module = self._module(name, columns)
        function = getattr(module, name)
        pool = self.operands.arrays | self._sizes(tile) | given | {"tiles": tiles}
        if hasattr(module, "constants"):
            pool |= module.constants(self.product.program.parameters, self.operands.arrays)
        arguments = {argument: pool[argument] for argument in function.arg_names}
        if self.product.device.type != "cuda":
            function[grid](**arguments)
            return
        with torch.cuda.device(self.product.device):
            function[grid](**arguments, **self._options(tile))

    def _sizes(self, tile: Tile) -> dict[str, Any]:
        return {
            "n": self.n,
            "m": self.m,
            "n_padded": self.n + -self.n % PADDING,
            "m_padded": self.m + -self.m % PADDING,
            "P": self.parameters,
            "BM": tile.rows,
            "BN": tile.columns,
            "UNUSED": self.parameters,
        }

    def _options(self, tile: Tile) -> dict[str, Any]:
        """How a function is compiled."""
        options: dict[str, Any] = {
            "num_warps": tile.warps,
            "num_stages": 1 if self.product.program.tables else tile.stages,  # tables do not wait
            "enable_fp_fusion": True,  # Triton is about to change what it does by itself
        }
        if tile.registers is not None and torch.version.hip is None:
            options["maxnreg"] = tile.registers
        return options


def pad_zeros(values: torch.Tensor) -> torch.Tensor:
    """The rows, zeros up to the length of padded operands."""
    missing = -values.shape[0] % PADDING
    return torch.nn.functional.pad(values, (0, 0, 0, missing)) if missing else values


def _total(partial: torch.Tensor) -> torch.Tensor:
    return partial[0] if partial.shape[0] == 1 else partial.sum(0, dtype=torch.float64)
