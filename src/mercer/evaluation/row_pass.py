"""Kᵀ M(K V): each kernel value is computed once and used on both sides, and K is never stored.

Where M is affine in each row and pair numbers are computed in registers, compiled code keeps a few
rows of K in the cache. Any other M is called for strips of K, which are stored one at a time.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.evaluation.execution import Affine, RowMap, RowPass
from mercer.evaluation.tiling import (
    PARTIAL_BYTES,
    SEGMENTS,
    Packer,
    Threaded,
    column_store,
)
from mercer.runtime.budget import MEGABYTE
from mercer.runtime.threads import run, single_threaded_blas, spans

BLOCK_BYTES = 8 * MEGABYTE  # of a strip of K that is used twice
LEAST_STRIP = 64  # rows of it, whatever their length
WORTH_COMPILING = 1 << 21  # kernel values from which code of its own is compiled
FEW = 3  # columns that are multiplied one by one


class TiledRowPass(Threaded):
    """A matrix in tiles that is multiplied from both sides, a strip of rows at a time."""

    @property
    def memory_per_thread(self) -> int:
        """Bytes of packed rows and a strip of K."""
        rows, columns = min(self.strip, self.tiles.shape[0]), self.tiles.shape[1]
        return rows * (self.tiles.row_bytes + columns * self.tiles.dtype.itemsize)

    @property
    def memory(self) -> int:
        """Bytes that it takes at most, beside its input and output."""
        n, m = self.tiles.shape
        kept = m * self.tiles.column_bytes
        partial = min(n, self._partials) * 8 * m * self.right_columns
        return self.threads * self.memory_per_thread + kept + partial

    def product(self, values: np.ndarray, row_map: RowMap) -> RowPass:
        """Kᵀ M(K V), where M maps the rows start, …, stop − 1 of K V on their own.

        Strips are added in float64, and the sum is left so: solving with K_MM needs its digits.
        """
        n, m = self.tiles.shape
        compiled = getattr(self.tiles, "in_registers", False) and n * m >= WORTH_COMPILING
        if isinstance(row_map, Affine) and compiled:
            return self._in_cache(values, row_map)
        return self._by_strips(values, row_map)

    # ---- strips --------------------------------------------------------------------------------

    def _by_strips(self, values: np.ndarray, row_map: RowMap) -> RowPass:
        n, m = self.tiles.shape
        parts = spans(n, -(-n // self._partials))
        sums = Sums(len(parts), n)
        store = column_store(self.tiles)
        rows = min(self.strip, parts[0][1] - parts[0][0])
        compiled = getattr(self.tiles, "compiled", False)
        blocks: list[np.ndarray] = []  # that no thread uses now: fresh memory costs time

        def add(i: int) -> None:
            block = blocks.pop() if blocks else np.empty((rows, m), self.tiles.dtype)
            for start, stop in spans(parts[i][1], rows, parts[i][0]):
                strip = self._strip_of_matrix(block, start, stop, store)
                sums.add(i, strip, start, stop, values, row_map, compiled)
            blocks.append(block)

        with single_threaded_blas():
            run(add, range(len(parts)), self.threads)
        return sums.total()

    @property
    def _partials(self) -> int:
        size = 8 * self.tiles.shape[1] * self.right_columns
        return int(max(1, min(SEGMENTS, PARTIAL_BYTES // max(1, size))))

    @property
    def strip(self) -> int:
        """Rows of a strip."""
        rows = BLOCK_BYTES // max(1, self.tiles.shape[1] * self.tiles.dtype.itemsize)
        return int(min(self.tiles.stripe, max(LEAST_STRIP, rows // 8 * 8)))

    def _strip_of_matrix(
        self, block: np.ndarray, start: int, stop: int, store: Packer
    ) -> np.ndarray:
        strip = block[: stop - start]
        rows = self.tiles.rows(start, stop)
        for a, b in spans(self.tiles.shape[1], self.tiles.tile):
            self.tiles.fill(rows, store(a, b), strip, 0, a)
        return strip

    # ---- a few rows in the cache -----------------------------------------------------------------

    def _in_cache(self, values: np.ndarray, row_map: Affine) -> RowPass:
        n, m = self.tiles.shape
        lines, row_map, exponent = scaled(values, row_map)
        parts = spans(n, -(-n // self._partials))
        partial: list[Any] = [None] * len(parts)
        columns = self.tiles.columns(0, m)
        kept = np.empty((n, len(lines) // (1 + row_map.split))) if row_map.keep_values else None

        def add(i: int) -> None:
            total: Any = 0.0
            for start, stop in spans(parts[i][1], self.tiles.stripe, parts[i][0]):
                rows, part = self.tiles.rows(start, stop), row_map.part(start, stop)
                place = None if kept is None else kept[start:stop]
                total = total + self.tiles.row_pass(rows, columns, lines, part, place)  # type: ignore[attr-defined]
            partial[i] = total

        run(add, range(len(parts)), self.threads)
        total = np.asarray(sum(partial[1:], partial[0]), np.float64)
        return RowPass(np.ldexp(total, exponent).T, None, kept)


class Sums:
    """What a row pass adds up, in parts that do not depend on threads, and the rows it keeps."""

    def __init__(self, parts: int, rows: int) -> None:
        self.products: list[Any] = [0.0] * parts
        self.sums: list[Any] = [None] * parts
        self.rows, self.lock = rows, threading.Lock()
        self.values: np.ndarray | None = None

    def add(
        self,
        part: int,
        strip: np.ndarray,
        start: int,
        stop: int,
        values: np.ndarray,
        row_map: RowMap,
        compiled: bool = True,
    ) -> None:
        """Add what the rows start, …, stop − 1 of K give, which `strip` holds."""
        mapped = row_map(start, stop, product(strip, values, compiled))
        inner = np.asarray(mapped.product, strip.dtype)
        self.products[part] = self.products[part] + transposed_product(strip, inner, compiled)
        if mapped.sums is not None:
            before = self.sums[part]
            self.sums[part] = mapped.sums if before is None else before + mapped.sums
        if mapped.values is not None:
            with self.lock:
                if self.values is None:
                    shape = self.rows, *mapped.values.shape[1:]
                    self.values = np.empty(shape, mapped.values.dtype)
            self.values[start:stop] = mapped.values

    def total(self) -> RowPass:
        """The parts, added in order."""
        products = np.asarray(sum(self.products[1:], self.products[0]), np.float64)
        given = [part for part in self.sums if part is not None]
        return RowPass(products, sum(given[1:], given[0]) if given else None, self.values)


def scaled(values: np.ndarray, row_map: Affine) -> tuple[np.ndarray, Affine, int]:
    """The rows of Vᵀ; in float32 with w of size 1, and the exponent of 2 that was taken out.

    Shares of many rows times small values of a kernel would else be too small for float32.
    """
    lines = np.ascontiguousarray(values.T)
    if values.dtype != np.float32:
        return lines, row_map, 0
    exponent = int(np.frexp(np.abs(row_map.factors).max(initial=0.0))[1])
    return lines, replace(row_map, factors=np.ldexp(row_map.factors, -exponent)), exponent


def product(strip: np.ndarray, values: np.ndarray, compiled: bool = True) -> np.ndarray:
    """K V; a few columns one by one, which reads a strip more often and copies it never.

    Where K was computed by compiled code, subnormal numbers are taken for zero here, too: with them
    processors are slower by a factor of ten and more.
    """
    with _flushed() if compiled else nullcontext():
        if not 1 < values.shape[1] <= FEW:
            return np.asarray(strip @ values)
        return np.stack([strip @ column for column in values.T.copy()], axis=1)


def transposed_product(strip: np.ndarray, inner: np.ndarray, compiled: bool = True) -> np.ndarray:
    """KᵀU in float64. In float32 U is brought to size 1 by a power of 2, which rounds nothing.

    Otherwise small values of a kernel times small shares of rows would be subnormal.
    """
    with _flushed() if compiled else nullcontext():
        if inner.dtype != np.float32:
            return np.asarray((inner.T @ strip).T, np.float64)
        exponent = int(np.frexp(np.abs(inner).max(initial=0.0))[1])
        small = np.ldexp(inner, -exponent)
        return np.ldexp((small.T @ strip).T.astype(np.float64), exponent)


def _flushed() -> AbstractContextManager[None]:
    from mercer.evaluation.cpu.subnormals import flushed  # loads numba

    return flushed()
