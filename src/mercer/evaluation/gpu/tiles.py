"""Which tiles of K a program of the grid computes, and how it is run.

They were measured on an H200; they are right on any card, if not the fastest there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from mercer.evaluation.gpu.families import NARROW, RESIDENT, SHORT, UNROLLED, Family, padded
from mercer.evaluation.gpu.source import crosswise

FEW_COLUMNS = 8  # of V that are summed in registers; more go through matrix products
PLAIN = 128  # tiles of columns whose sums are not compensated


@dataclass(frozen=True)
class Tile:
    """The shape of a tile and how it is run."""

    rows: int
    columns: int
    warps: int
    stages: int
    registers: int | None = None  # of a thread; None leaves them to the compiler
    longest: int = 512  # tiles of columns in one program of the grid

    @property
    def smaller(self) -> Tile | None:
        """The tile to try where this one needs more than the card has."""
        if self.registers is not None:
            return replace(self, registers=None)
        if self.stages > 2:
            return replace(self, stages=2)
        if self.rows * self.columns <= 32 * 32:
            return None
        return replace(
            self, rows=max(32, self.rows // 2), columns=max(32, self.columns // 2), warps=4
        )


def tile_for(
    families: tuple[Family, ...], dtype: torch.dtype, columns: int, tables: bool = False
) -> Tile:
    """The tile of a product with so many columns; `tables` are read for each of its values."""
    if dtype == torch.float64:
        return Tile(64, 32, 4, 2)
    if any(family.mode == "direct" for family in families) or not families:
        return _of_coordinates(families)
    if crosswise(families, columns):
        return _lying_across(families[0], tables)
    widest = max(padded(family.width) for family in families)
    if widest > RESIDENT:
        return Tile(128, 128, 8, 3)
    if columns > FEW_COLUMNS:
        return Tile(64, 64, 4, 2)
    if widest > 64:
        return Tile(128, 64, 4, 2)
    light = all(family.exponent for family in families)  # little is computed beside the product
    repaired = any(family.repaired for family in families)
    short = columns == 1 and widest <= SHORT and all(family.parts == 1 for family in families)
    large = (light or (widest > NARROW and not short)) and not (repaired or tables)
    return Tile(64, 128, 4, 3) if large else Tile(64, 64, 4, 3)


def _of_coordinates(families: tuple[Family, ...]) -> Tile:
    """Long tiles use a coordinate more often once it is read, where few are held in registers."""
    walked = len(families) == 1 and families[0].width > UNROLLED
    return Tile(32, 128 if walked else 64, 4, 2)


def _lying_across(family: Family, tables: bool) -> Tile:
    if tables:
        return Tile(64, 32, 4, 3, longest=PLAIN)
    if family.decays:
        return Tile(64, 64, 4, 3, 88, PLAIN)
    if family.is_short_pair:  # a tile of one warp has enough to do
        return Tile(32, 32, 1, 3, 128, PLAIN)
    return Tile(64, 64, 4, 3, 64, PLAIN)
