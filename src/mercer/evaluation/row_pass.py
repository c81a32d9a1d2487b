"""Kᵀ M(K V): each kernel value is computed once and used on both sides, and K is never stored.

Where M is affine in each row and pair numbers are computed in registers, compiled code keeps a few
rows of K in the cache. Any other M is called for strips of K, which are stored one at a time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.arrays import Array, namespace, on_host, to_precision
from mercer.evaluation.budget import MEGABYTE
from mercer.evaluation.threads import run, single_threaded_blas
from mercer.evaluation.tiling import (
    PARTIAL_BYTES,
    SEGMENTS,
    Middle,
    Packer,
    Threaded,
    column_store,
    spans,
)

BLOCK_BYTES = 8 * MEGABYTE  # of a strip of K that is used twice
LEAST_STRIP = 64  # rows of it, whatever their length
WORTH_COMPILING = 1 << 21  # kernel values from which code of its own is compiled
FEW = 3  # columns that are multiplied one by one
LOST = 24  # bits of a float32


@dataclass(frozen=True, eq=False)
class Affine:
    """The map R ↦ w ∘ (R + B) of the first columns of K V, which compiled code can do.

    Parameters
    ----------
    factors : array of shape (n or 1, columns or 1)
        w, in float64.
    added : array of shape (n or 1, columns)
        B, in float64; its columns are those that are mapped.
    kept : array of shape (n, …), optional
        Receives K V, with all its columns.
    with_factors : bool
        Whether a last column w is multiplied by Kᵀ, too.
    doubled : bool
        Whether the second half of the columns of V is what rounding took from the first, times 2²⁴.

    Examples
    --------
    >>> import numpy as np
    >>> Affine(np.full((1, 1), 2.0), np.ones((1, 1)))(0, 2, np.array([[3.0], [4.0]])).ravel()
    array([ 8., 10.])
    """

    factors: Array
    added: Array
    kept: Array | None = None
    with_factors: bool = False
    doubled: bool = False

    def __call__(self, start: int, stop: int, rows: Array) -> Array:
        if self.doubled:
            half = rows.shape[1] // 2
            rows = rows[:, :half] + rows[:, half:] / 2.0**LOST
        if self.kept is not None:
            self.kept[start:stop] = rows
        part = self.part(start, stop)
        pushes = part.factors * (rows[:, : self.added.shape[1]] + part.added)
        if self.with_factors:
            xp = namespace(pushes)
            last = xp.broadcast_to(part.factors[:, :1], (stop - start, 1))
            pushes = xp.concat([pushes, last], axis=1)
        return to_precision(pushes, rows.dtype)

    def part(self, start: int, stop: int) -> Affine:
        """The same map of the rows start, …, stop − 1, which are counted from 0."""
        factors, added = (a if len(a) == 1 else a[start:stop] for a in (self.factors, self.added))
        kept = None if self.kept is None else self.kept[start:stop]
        return replace(self, factors=factors, added=added, kept=kept)

    def on_host(self) -> Affine:
        """The same map of arrays of NumPy, which share the memory of tensors on the CPU."""
        kept = None if self.kept is None else on_host(self.kept)
        return replace(self, factors=on_host(self.factors), added=on_host(self.added), kept=kept)

    @property
    def columns(self) -> int:
        """How many columns are multiplied by Kᵀ."""
        return int(self.added.shape[1]) + self.with_factors


class RowPass(Threaded):
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

    def product(self, values: np.ndarray, middle: Middle) -> np.ndarray:
        """Kᵀ M(K V), where M maps the rows start, …, stop − 1 of K V on their own.

        Strips are added in float64, and the sum is left so: who solves with K_MM needs its digits.
        """
        n, m = self.tiles.shape
        compiled = getattr(self.tiles, "in_registers", False) and n * m >= WORTH_COMPILING
        if isinstance(middle, Affine) and compiled:
            return self._in_cache(values, middle)
        return self._by_strips(values, middle)

    def normal(self, values: np.ndarray, shift: np.ndarray | None) -> np.ndarray:
        """Kᵀ(K V + W)."""
        added = np.zeros((1, values.shape[1])) if shift is None else shift
        middle = Affine(np.ones((1, 1)), added.astype(np.float64, copy=False))
        return self.product(values, middle).astype(self.tiles.dtype)

    # ---- strips --------------------------------------------------------------------------------

    def _by_strips(self, values: np.ndarray, middle: Middle) -> np.ndarray:
        n, m = self.tiles.shape
        parts = spans(n, -(-n // self._partials))
        partial: list[Any] = [None] * len(parts)
        store = column_store(self.tiles)
        rows = min(self.strip, parts[0][1] - parts[0][0])
        compiled = getattr(self.tiles, "compiled", False)
        blocks: list[np.ndarray] = []  # that no thread uses now: fresh memory costs time

        def add(i: int) -> None:
            block = blocks.pop() if blocks else np.empty((rows, m), self.tiles.dtype)
            total: Any = 0.0
            for start, stop in spans(parts[i][1], rows, parts[i][0]):
                strip = self._strip_of_matrix(block, start, stop, store)
                inner = middle(start, stop, product(strip, values, compiled))
                total = total + transposed_product(strip, inner, compiled)
            partial[i] = total
            blocks.append(block)

        with single_threaded_blas():
            run(add, range(len(parts)), self.threads)
        return np.asarray(sum(partial[1:], partial[0]), np.float64)

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

    def _in_cache(self, values: np.ndarray, middle: Affine) -> np.ndarray:
        n, m = self.tiles.shape
        lines, middle, exponent = scaled(values, middle)
        parts = spans(n, -(-n // self._partials))
        partial: list[Any] = [None] * len(parts)
        columns = self.tiles.columns(0, m)

        def add(i: int) -> None:
            total: Any = 0.0
            for start, stop in spans(parts[i][1], self.tiles.stripe, parts[i][0]):
                rows = self.tiles.rows(start, stop)
                part = middle.part(start, stop)
                total = total + self.tiles.row_pass(rows, columns, lines, part)  # type: ignore[attr-defined]
            partial[i] = total

        run(add, range(len(parts)), self.threads)
        return np.ldexp(np.asarray(sum(partial[1:], partial[0]), np.float64), exponent).T


def scaled(values: np.ndarray, middle: Affine) -> tuple[np.ndarray, Affine, int]:
    """The rows of Vᵀ; in float32 with w of size 1, and the exponent of 2 that was taken out.

    Shares of many rows times small values of a kernel would else be too small for float32.
    """
    lines = np.ascontiguousarray(values.T)
    if values.dtype != np.float32:
        return lines, middle, 0
    exponent = int(np.frexp(np.abs(middle.factors).max(initial=0.0))[1])
    return lines, replace(middle, factors=np.ldexp(middle.factors, -exponent)), exponent


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
