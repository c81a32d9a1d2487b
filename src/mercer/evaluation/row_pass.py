"""Kᵀ M(K V) on the host: each kernel value is computed once and used on both sides.

Where M is affine in each row and pair numbers are computed in registers, compiled code holds a few
rows of K in the cache. Any other M is called for strips of K, which are stored one at a time.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.evaluation.execution import Affine, RowMap, RowPass
from mercer.runtime.threads import run, single_threaded_blas, spans

if TYPE_CHECKING:
    from mercer.evaluation.tiling import Tiled


def row_pass(tiled: Tiled, values: np.ndarray, row_map: RowMap, threads: int) -> RowPass:
    """Kᵀ M(K V); strips are added in float64, and the sum is left so.

    Solving with K_MM needs the digits of the sum.
    """
    n, m = tiled.shape
    in_registers = getattr(tiled, "in_registers", False)
    if isinstance(row_map, Affine) and in_registers and n * m >= tiled.tuning.compiled_values:
        return _in_cache(tiled, values, row_map, threads)
    return _by_strips(tiled, values, row_map, threads)


def row_pass_memory(tiled: Tiled, columns: int) -> tuple[int, int]:
    """Bytes that a row pass takes in all, and for each thread, beside its input and output."""
    n, m = tiled.shape
    partial = min(n, _parts(tiled, columns)) * 8 * m * columns
    each = min(_strip(tiled), n) * (tiled.row_bytes + m * tiled.dtype.itemsize)
    return m * tiled.column_bytes + partial, each


def _parts(tiled: Tiled, columns: int) -> int:
    """In how many parts rows are summed, each with a sum of its own."""
    size = 8 * tiled.shape[1] * columns
    return int(max(1, min(tiled.tuning.segments, tiled.tuning.partial_bytes // max(1, size))))


def _strip(tiled: Tiled) -> int:
    """Rows of a strip of K."""
    rows = tiled.tuning.strip_bytes // max(1, tiled.shape[1] * tiled.dtype.itemsize)
    return int(min(tiled.stripe, max(tiled.tuning.least_strip, rows // 8 * 8)))


def _by_strips(tiled: Tiled, values: np.ndarray, row_map: RowMap, threads: int) -> RowPass:
    n, m = tiled.shape
    parts = spans(n, -(-n // _parts(tiled, values.shape[1])))
    sums, store = Sums(len(parts), n), tiled.column_store()
    rows = min(_strip(tiled), parts[0][1] - parts[0][0])
    free: list[np.ndarray] = []  # strips that no thread uses now: fresh memory costs time

    def add(i: int) -> None:
        block = free.pop() if free else np.empty((rows, m), tiled.dtype)
        for start, stop in spans(parts[i][1], rows, parts[i][0]):
            strip, packed = block[: stop - start], tiled.rows(start, stop)
            image = np.zeros((stop - start, values.shape[1]), values.dtype)
            for a, b in spans(m, tiled.tile):
                tiled.fill(packed, store(a, b), strip, 0, a)
                image += product(strip[:, a:b], values[a:b], tiled.compiled)  # while in the cache
            sums.add(i, strip, start, stop, image, row_map, tiled.compiled)
        free.append(block)

    with single_threaded_blas():
        run(add, range(len(parts)), threads)
    return sums.total()


def _in_cache(tiled: Any, values: np.ndarray, row_map: Affine, threads: int) -> RowPass:
    """By compiled code. In float32 w is brought to size 1 by a power of 2.

    Shares of many rows times small values of a kernel would else be too small for float32.
    """
    n, m = tiled.shape
    lines, exponent = np.ascontiguousarray(values.T), 0
    if values.dtype == np.float32:
        exponent = int(np.frexp(np.abs(row_map.factors).max(initial=0.0))[1])
        row_map = replace(row_map, factors=np.ldexp(row_map.factors, -exponent))
    parts = spans(n, -(-n // _parts(tiled, values.shape[1])))
    partial: list[Any] = [None] * len(parts)
    columns = tiled.columns(0, m)
    image = np.empty((n, len(lines) // (1 + row_map.split))) if row_map.keep_values else None

    def add(i: int) -> None:
        total: Any = 0.0
        for start, stop in spans(parts[i][1], tiled.stripe, parts[i][0]):
            place = None if image is None else image[start:stop]
            rows, part = tiled.rows(start, stop), row_map.part(start, stop)
            total = total + tiled.compiled_row_pass(rows, columns, lines, part, place)
        partial[i] = total

    run(add, range(len(parts)), threads)
    total = np.asarray(sum(partial[1:], partial[0]), np.float64)
    return RowPass(np.ldexp(total, exponent).T, None, image)


class Sums:
    """The sums of a row pass, in parts that do not depend on threads, and rows to hand back."""

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
        image: np.ndarray,
        row_map: RowMap,
        compiled: bool = True,
    ) -> None:
        """Add what the rows start, …, stop − 1 of K give; `strip` holds them, `image` K V."""
        mapped = row_map(start, stop, image)
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


def product(strip: np.ndarray, values: np.ndarray, compiled: bool = True) -> np.ndarray:
    """K V; two or three columns one by one, which reads a strip more often and copies it never.

    Where K was computed by compiled code, subnormal numbers are taken for zero here, too: with them
    processors are slower by a factor of ten and more.
    """
    with _flushed() if compiled else nullcontext():
        if values.shape[1] not in (2, 3):
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
