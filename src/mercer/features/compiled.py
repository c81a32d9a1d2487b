"""Compiled loops of feature maps: cosines, the fast Walsh–Hadamard transform, choice of pivots.

Arrays of angles are in turns. Each loop works on a block that fits the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import types
from numba.extending import intrinsic

from mercer.evaluation.cpu.elementary import in_float32, in_float64
from mercer.evaluation.cpu.vectors import OPTIONS, compiled, lanes, widen
from mercer.features.fourier import SHORTEST_TRANSFORM

Loop = Callable[..., None]


# ---- the fast Walsh–Hadamard transform -----------------------------------------------------------

# Its vectors are written out, as LLVM does not find the stages within a vector. Plain loops over 16
# rows side by side took 2.5 ns for a number where this takes 1.0 (float32, 1024 columns).


class _Vectors:
    """Writes the instructions of one call: loads, butterflies and stores of whole vectors."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        array = signature.args[0]
        self.builder = builder
        self.data = context.make_array(array)(context, builder, arguments[0]).data
        self.number = context.get_data_type(array.dtype)
        self.itemsize = array.dtype.bitwidth // 8
        self.lanes = lanes(np.float32 if self.itemsize == 4 else np.float64)
        self.vector = ir.VectorType(self.number, self.lanes)

    def pointer(self, offset: Any) -> Any:
        place = self.builder.gep(self.data, [offset])
        return self.builder.bitcast(place, self.vector.as_pointer())

    def load(self, offset: Any) -> Any:
        return self.builder.load(self.pointer(offset), align=self.itemsize)

    def store(self, value: Any, offset: Any) -> None:
        self.builder.store(value, self.pointer(offset), align=self.itemsize)

    def within(self, value: Any) -> Any:
        """The transform of each group of `lanes` numbers: (v_j + v_{j⊕h}, v_{j⊕h} − v_j)."""
        h = 1
        while h < self.lanes:
            mask = ir.Constant(
                ir.VectorType(ir.IntType(32), self.lanes), [j ^ h for j in range(self.lanes)]
            )
            signs = ir.Constant(self.vector, [-1.0 if j & h else 1.0 for j in range(self.lanes)])
            partner = self.builder.shuffle_vector(value, value, mask)
            signed = self.builder.fmul(signs, value, flags=("contract",))
            value = self.builder.fadd(partner, signed, flags=("contract",))
            h *= 2
        return value


@intrinsic
def _within(typing_context: Any, array: Any, offset: Any) -> Any:
    """The stages inside one vector."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = _Vectors(context, builder, signature, arguments)
        write.store(write.within(write.load(arguments[1])), arguments[1])
        return context.get_dummy_value()

    return types.void(array, types.intp), code


def _stages(count: int) -> Any:
    """`count` stages at once, on 2^count vectors at a distance of `step` numbers."""

    @intrinsic
    def stages(typing_context, array, offset, step):  # type: ignore[no-untyped-def]
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write = _Vectors(context, builder, signature, arguments)
            offsets = [arguments[1]]
            for _ in range(2**count - 1):
                offsets.append(builder.add(offsets[-1], arguments[2]))
            values = [write.load(place) for place in offsets]
            h = 1
            while h < len(values):
                for j in range(len(values)):
                    if not j & h:
                        a, b = values[j], values[j + h]
                        values[j], values[j + h] = builder.fadd(a, b), builder.fsub(a, b)
                h *= 2
            for value, place in zip(values, offsets, strict=True):
                write.store(value, place)
            return context.get_dummy_value()

        return types.void(array, types.intp, types.intp), code

    return stages


_one_stage, _two_stages, _three_stages = (_stages(count) for count in (1, 2, 3))


def _hadamard(number: Any) -> Any:  # noqa: C901 (one compiled loop)
    width = lanes(number)

    @njit(**OPTIONS)
    def hadamard(x):  # type: ignore[no-untyped-def]
        widen()
        size = x.shape[0]
        for j in range(0, size, width):
            _within(x, j)
        h = width
        while 8 * h <= size:
            for group in range(0, size, 8 * h):
                for j in range(group, group + h, width):
                    _three_stages(x, j, h)
            h *= 8
        for j in range(0, h, width):  # one or two stages may be left
            if 4 * h == size:
                _two_stages(x, j, h)
            elif 2 * h == size:
                _one_stage(x, j, h)

    return hadamard


# ---- loops over blocks ---------------------------------------------------------------------------


def _trigonometric(functions: Any) -> dict[str, Loop]:
    cosine, sine = functions.cosine, functions.sine

    @compiled
    def cosines(angles, phases, scale, out, first):  # type: ignore[no-untyped-def]
        widen()
        width = angles.shape[1]
        for i in range(angles.shape[0]):
            source, target = angles[i], out[i, first : first + width]
            for j in range(width):
                target[j] = scale * cosine(source[j] + phases[j])

    @compiled
    def pairs(angles, scale, out, first, second):  # type: ignore[no-untyped-def]
        widen()
        width = angles.shape[1]
        for i in range(angles.shape[0]):
            source, target = angles[i], out[i, first : first + width]
            for j in range(width):
                target[j] = scale * cosine(source[j])
            other = out[i, second : second + width]
            for j in range(width):  # a loop of its own: LLVM takes one target a loop
                other[j] = scale * sine(source[j])

    return {"cosines": cosines, "pairs": pairs}


@njit(**OPTIONS)
def _multiplied(x, y, out):  # type: ignore[no-untyped-def]
    widen()
    for j in range(x.shape[0]):
        out[j] = x[j] * y[j]


@njit(**OPTIONS)
def _gathered(x, order, y, out):  # type: ignore[no-untyped-def]
    widen()
    for j in range(y.shape[0]):
        out[j] = x[order[j]] * y[j]


def _structured(number: Any) -> dict[str, Loop]:
    hadamard = _hadamard(number)

    @compiled
    def fastfood(rows, matrices, work, out):  # type: ignore[no-untyped-def]
        widen()
        signs, permutation, gaussian, radii = matrices
        size = signs.shape[1]
        first, second = work[0], work[1]
        for i in range(rows.shape[0]):
            for b in range(signs.shape[0]):
                first[rows.shape[1] :] = 0
                _multiplied(rows[i], signs[b], first)
                hadamard(first)
                _gathered(first, permutation[b], gaussian[b], second)
                hadamard(second)
                _multiplied(second, radii[b], out[i, b * size : (b + 1) * size])

    @compiled
    def transform(block):  # type: ignore[no-untyped-def]
        for i in range(block.shape[0]):
            hadamard(block[i])

    return {"fastfood": fastfood, "hadamard": transform}


_TABLE = {
    np.dtype(np.float32): _trigonometric(in_float32) | _structured(np.float32),
    np.dtype(np.float64): _trigonometric(in_float64) | _structured(np.float64),
}


def cosines(
    angles: np.ndarray, phases: np.ndarray, scale: float, out: np.ndarray, first: int
) -> None:
    """Write scale · cos(2π(u_ij + b_j)) into the columns of `out` from `first` on."""
    _TABLE[angles.dtype]["cosines"](angles, phases, angles.dtype.type(scale), out, first)


def pairs(angles: np.ndarray, scale: float, out: np.ndarray, first: int, second: int) -> None:
    """Write scale · cos(2πu_ij) from column `first` on, scale · sin(2πu_ij) from `second` on."""
    _TABLE[angles.dtype]["pairs"](angles, angles.dtype.type(scale), out, first, second)


def fastfood(rows: np.ndarray, matrices: tuple[np.ndarray, ...], out: np.ndarray) -> None:
    """Write R H G Π H B x in turns, for every row x and every block of matrices, into `out`.

    `matrices` are the signs B, the permutation Π, the numbers G and the factors R, one row for each
    block; rows shorter than a block are filled with zeros.
    """
    work = np.empty((2, matrices[0].shape[1]), rows.dtype)
    _TABLE[rows.dtype]["fastfood"](rows, matrices, work, out)


def hadamard(block: np.ndarray) -> None:
    """The Walsh–Hadamard transform H x of every row, in place; entries of H are ±1.

    >>> import numpy as np
    >>> x = np.eye(16)[:1]
    >>> hadamard(x)
    >>> bool((x == 1.0).all())
    True
    """
    size = block.shape[1]
    if size & (size - 1) or size < SHORTEST_TRANSFORM:
        raise ValueError(
            f"the length must be a power of two from {SHORTEST_TRANSFORM} on; got {size}."
        )
    _TABLE[block.dtype]["hadamard"](block)


# ---- pivots --------------------------------------------------------------------------------------


@compiled
def accepted_pivots(matrix, thresholds, columns):  # type: ignore[no-untyped-def]  # noqa: C901
    """Which candidates are pivots, one by one, those with more left than their threshold.

    Rows of the factor are written into `columns`, and onto the diagonal of `matrix` what is left of
    each candidate when it is its turn. A row is solved for in the factor so far; only those of
    candidates are needed. The factor does not fit into the first cache, so that each row of it
    serves four candidates.
    """
    n, rank, order = len(matrix), 0, np.empty(len(matrix), np.intp)
    lower, rows = np.empty_like(matrix), np.empty((4, n))
    a, b, c, d = rows[0], rows[1], rows[2], rows[3]
    for first in range(0, n, 4):
        known, last = rank, min(first + 4, n)
        second, third = min(first + 1, last - 1), min(first + 2, last - 1)
        for p in range(known):
            line, at = lower[p], order[p]
            s, t, u, v = 0.0, 0.0, 0.0, 0.0
            for q in range(p):
                s += line[q] * a[q]
                t += line[q] * b[q]
                u += line[q] * c[q]
                v += line[q] * d[q]
            a[p] = (matrix[at, first] - s) / line[p]
            b[p] = (matrix[at, second] - t) / line[p]
            c[p] = (matrix[at, third] - u) / line[p]
            d[p] = (matrix[at, last - 1] - v) / line[p]
        for i in range(first, last):
            row, left = rows[i - first], matrix[i, i]
            for p in range(known, rank):  # pivots among the four
                line, rest = lower[p], matrix[order[p], i]
                for q in range(p):
                    rest -= line[q] * row[q]
                row[p] = rest / line[p]
            for p in range(rank):
                left -= row[p] * row[p]
            matrix[i, i] = left
            if left > thresholds[i]:
                row[rank] = math.sqrt(left)
                for q in range(rank + 1):
                    lower[rank, q] = columns[i, q] = row[q]
                order[rank] = i
                rank += 1
    return order[:rank]
