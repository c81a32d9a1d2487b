"""A kernel program on points, as tiles that `tiling.Walk` can walk over."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from mercer.evaluation.cpu import harmonic
from mercer.evaluation.cpu.factors import looped, powers
from mercer.evaluation.cpu.operands import (
    Packed,
    Parts,
    RegisterSource,
    Source,
    scales_of,
    source_for,
)
from mercer.evaluation.cpu.row_pass import row_pass_source
from mercer.evaluation.cpu.source import source_of
from mercer.evaluation.cpu.vectors import HARMONIC, panel_width
from mercer.evaluation.execution import Affine
from mercer.evaluation.expression import Number
from mercer.evaluation.program import Program, coordinate_code
from mercer.evaluation.tables import Table
from mercer.points import VectorPoints, View
from mercer.runtime.cache import load

MIXED_STRIPE, MIXED_TILE = 512, 1024
LENGTHS = ("x_length", "y_length")


@dataclass
class PackedSide:
    """One side of a block: how many points, packed for each view, and their norms."""

    count: int
    views: list[Packed]
    norms: np.ndarray


def _stored(table: Table, dtype: np.dtype) -> tuple[np.ndarray, int]:
    """The pieces of a table, and the bits of the number at which the first one starts."""
    start = np.array(2.0 ** table.first_octave(dtype), dtype)
    bits = start.view(np.int32 if dtype == np.float32 else np.int64)
    return table.coefficients(dtype), int(bits)


Family = tuple[View, Parts | None]


def _family(number: Number) -> Family:
    """Numbers that one source gives together: of one view, and the same parts of coordinates."""
    return number.view, None if number.term is None else coordinate_code(number.term).parts


_LOADED: dict[tuple[str, str], ModuleType] = {}


def _code(program: Program, dtype: np.dtype) -> ModuleType:
    """The compiled module of a program, found by its structure: its text is written only once."""
    key = program.structure, dtype.name
    if key not in _LOADED:
        _LOADED[key] = load(source_of(program, dtype))
    return _LOADED[key]


class FusedTiles:
    """K(X, Y) of a program: pair numbers, kernel values and reduction in one compiled pass."""

    parallel = compiled = True

    def __init__(self, program: Program, x: VectorPoints, y: VectorPoints, dtype: Any) -> None:
        self.program, self.x, self.y = program, x, y
        self.dtype = np.dtype(dtype)
        self.shape = (len(x), len(y))
        self.code = _code(program, self.dtype)
        self.parameters = np.array(program.parameters, self.dtype)
        self.tables = tuple(_stored(table, self.dtype) for table in program.tables)
        self.sources = self._sources()
        self.origins = [
            (self.families.index(family), number.kind)
            for family, number in zip(self.family_of, program.pairs, strict=True)
        ]
        self.constants = [self._constants(number) for number in program.pairs]
        self.stripe = min((s.stripe for s in self.sources), default=MIXED_STRIPE)
        self.tile = min((s.tile for s in self.sources), default=MIXED_TILE)
        self.column_bytes = sum(s.column_bytes for s in self.sources) or self.dtype.itemsize
        self.row_bytes = sum(s.row_bytes for s in self.sources)

    def _sources(self) -> list[Source]:
        kinds: dict[Family, dict[str, None]] = {}
        laws = harmonic.laws(self.program)
        self.family_of: list[Family] = []  # of each pair number
        for number in self.program.pairs:
            family = _family(number)
            self.family_of.append(family)
            kinds.setdefault(family, {}).setdefault(number.kind)
        self.families = list(kinds)
        alone = {self.family_of[i]: law for i, law in laws.items()}
        alone = {f: law for f, law in alone.items() if self.family_of.count(f) == 1}
        return [
            source_for(*family, list(kinds[family]), self.x, self.y, self.dtype, alone.get(family))
            for family in kinds
        ]

    def _constants(self, number: Number) -> np.ndarray | None:
        """The scales of a coordinate number, the constants of its term, powers of its factor."""
        if number.term is None:
            return None
        width = self.x.width_of(number.view)
        code, factor = looped(number)
        constants = code.constants_in(self.dtype)
        if factor is not None:
            constants += powers(factor, width)
        scales = scales_of(number.view, width, self.dtype)
        return np.concatenate([scales, np.array(constants, self.dtype)])

    @property
    def costly(self) -> bool:
        return any(source.costly for source in self.sources)

    @property
    def in_registers(self) -> bool:
        """Whether compiled code computes all pair numbers itself, as `row_pass` needs it."""
        return all(isinstance(source, RegisterSource) for source in self.sources)

    @property
    def distances(self) -> str:
        """How distances are obtained, in words."""
        ways = dict.fromkeys(
            source.distances
            for source, family in zip(self.sources, self.families, strict=True)
            if any(
                n.kind == "squared_distance" and _family(n) == family for n in self.program.pairs
            )
        )
        return "; ".join(ways)

    def rows(self, start: int, stop: int) -> PackedSide:
        packed = [source.rows(start, stop) for source in self.sources]
        norms = self._norms(self.program.x_norms, self.x, start, stop)
        return PackedSide(stop - start, packed, norms)

    def columns(self, start: int, stop: int) -> PackedSide:
        packed = [source.columns(start, stop) for source in self.sources]
        norms = self._norms(self.program.y_norms, self.y, start, stop)
        return PackedSide(stop - start, packed, norms)

    def _norms(
        self, numbers: tuple[Number, ...], points: VectorPoints, start: int, stop: int
    ) -> np.ndarray:
        norms = np.empty((len(numbers), stop - start), self.dtype)
        for row, number in zip(norms, numbers, strict=True):
            values = points.slice(start, stop).squared_norms(number.view)
            row[:] = np.sqrt(values) if number.kind in LENGTHS else values
        return norms

    def _inputs(
        self, rows: PackedSide, columns: PackedSide, stored: bool = False
    ) -> tuple[Any, ...]:
        given = [
            source.leaves(x, y, stored)
            for source, x, y in zip(self.sources, rows.views, columns.views, strict=True)
        ]
        chosen = tuple(
            leaf if constants is None or leaf[0] == HARMONIC else (*leaf[:3], constants)
            for leaf, constants in zip(
                (given[source][kind] for source, kind in self.origins), self.constants, strict=True
            )
        )
        constants = self.parameters, self.tables
        return chosen, rows.norms, columns.norms, *constants, rows.count, columns.count

    def fill(
        self, rows: PackedSide, columns: PackedSide, out: np.ndarray, row: int, column: int
    ) -> None:
        self.code.fill(*self._inputs(rows, columns, stored=True), out, row, column)

    def reduce(self, rows: PackedSide, columns: PackedSide, v: np.ndarray, out: np.ndarray) -> None:
        self.code.reduce(*self._inputs(rows, columns), v, out)

    def reduce_both(
        self,
        rows: PackedSide,
        columns: PackedSide,
        v: np.ndarray,
        w: np.ndarray,
        out: np.ndarray,
        out_columns: np.ndarray,
    ) -> None:
        self.code.reduce_both(*self._inputs(rows, columns), v, w, out, out_columns)

    def row_pass(
        self,
        rows: PackedSide,
        columns: PackedSide,
        lines: np.ndarray,
        row_map: Affine,
        values: np.ndarray | None,
    ) -> np.ndarray:
        """Kᵀ(w ∘ (K V + B)) of these rows, a line for each column; `lines` is Vᵀ.

        `values` receives K V where it is an array.
        """
        code = load(row_pass_source(self.program, self.dtype))
        if values is None:
            values = np.empty((rows.count, len(lines) // (1 + row_map.split)))
        padded = -(-columns.count // panel_width(self.dtype)) * panel_width(self.dtype)
        out = np.zeros((row_map.columns, padded), self.dtype)
        sides = row_map.factors, row_map.added, row_map.with_factors
        code.row_pass(*self._inputs(rows, columns), lines, row_map.split, *sides, values, out)
        return out[:, : columns.count].astype(np.float64)
