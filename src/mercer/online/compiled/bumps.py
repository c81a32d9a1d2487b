"""Bumps a_j k(c_j, ·) as rows of arrays: values of f, shrinking it, adding a bump, taking one out.

Functions marked `inner` are compiled as part of what calls them, which alone is stored on disk.
They copy and search with plain loops: array expressions would take Numba ten times as long.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import intrinsic

from mercer.evaluation.cpu.elementary import in_float64
from mercer.evaluation.cpu.vectors import inner, widen
from mercer.online.state import (
    AVERAGE_SCALE,
    BASE_SCALE,
    COUNT,
    INSERTIONS,
    ROUNDS,
    SCALE,
    SQUARED_NORM,
)

decay = in_float64.decay

# The running scale is multiplied into the coefficients before it, or what is divided by it, could
# leave the range of float64 (1e±308); squares of numbers between these bounds do not.
LEAST_SCALE, LARGEST_AVERAGE_SCALE = 1e-100, 1e100


@intrinsic
def apart(typing_context: Any) -> Any:
    """Keep LLVM from copying the calling function into its callers, where it is compiled again."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), code


# ---- rows and searches ---------------------------------------------------------------------------


@inner
def copy_row(target, i, source, j):  # type: ignore[no-untyped-def]
    """target[i] = source[j]."""
    for k in range(target.shape[1]):
        target[i, k] = source[j, k]


@inner
def _lower(x, y):  # type: ignore[no-untyped-def]
    """One instruction, which Python's min is not: that looks at NaN."""
    return x if x < y else y


@inner
def least(values, count):  # type: ignore[no-untyped-def]
    """Where the least of the first `count` values stands.

    Four chains of comparisons run beside each other, and the search for the place is vectorised.
    """
    widen()
    a = b = c = d = values[0]
    whole = count - count % 4
    for j in range(0, whole, 4):
        a, b = _lower(values[j], a), _lower(values[j + 1], b)
        c, d = _lower(values[j + 2], c), _lower(values[j + 3], d)
    for j in range(whole, count):
        a = _lower(values[j], a)
    lowest, first = _lower(_lower(a, b), _lower(c, d)), count
    for j in range(count):
        first = _lower(j if values[j] == lowest else count, first)
    return first


# ---- values of f ---------------------------------------------------------------------------------


@inner
def gaussian_exponents(centres, x, t, count, out):  # type: ignore[no-untyped-def]
    """‖c_j − x_t‖² for the columns c_j of `centres`."""
    widen()
    width = x.shape[1]
    left = width % 3
    for j in range(count):
        out[j] = 0.0
    for k in range(left):
        for j in range(count):
            gap = centres[k, j] - x[t, k]
            out[j] += gap * gap
    for k in range(left, width, 3):  # three at a time: `out` is read and written less often
        x0, x1, x2 = x[t, k], x[t, k + 1], x[t, k + 2]
        for j in range(count):
            gap0, gap1, gap2 = centres[k, j] - x0, centres[k + 1, j] - x1, centres[k + 2, j] - x2
            out[j] += gap0 * gap0 + gap1 * gap1 + gap2 * gap2


@inner
def kernel_row(centres, columns, count, values, inputs, amplitude, t, row):  # type: ignore[no-untyped-def]
    """k(x_t, c_j) for all centres, computed here for a Gaussian kernel or taken from the block."""
    widen()
    if len(centres):
        gaussian_exponents(centres, inputs, t, count, row)
        for j in range(count):
            row[j] = amplitude * decay(row[j])
    else:
        for j in range(count):
            row[j] = values[t, columns[j]]


@inner
def function_values(a, scale, count, row, f):  # type: ignore[no-untyped-def]
    """s Σ_j a_j r_j for every output."""
    widen()
    if len(f) == 1:
        total = 0.0
        for j in range(count):
            total += a[j, 0] * row[j]
        f[0] = scale * total
    else:
        for o in range(len(f)):
            f[o] = 0.0
        for j in range(count):
            for o in range(len(f)):
                f[o] += scale * a[j, o] * row[j]


# ---- changes of f --------------------------------------------------------------------------------


@inner
def shrink(reals, integers, a, b, factor, features):  # type: ignore[no-untyped-def]  # noqa: C901
    """f ← factor·f at constant cost, but for the rare times when the scale is multiplied in.

    Where nothing is left (factor 0), the average keeps what it has, and its centres.
    """
    reals[SQUARED_NORM] *= factor * factor
    if factor > 0.0:
        reals[SCALE] *= factor
        if reals[SCALE] >= LEAST_SCALE and reals[AVERAGE_SCALE] <= LARGEST_AVERAGE_SCALE:
            return
        for j in range(integers[COUNT]):
            for o in range(a.shape[1]):
                a[j, o] *= reals[SCALE]
        reals[AVERAGE_SCALE] /= reals[SCALE]
        reals[BASE_SCALE] *= reals[SCALE]
    else:
        for j in range(integers[COUNT]):
            for o in range(a.shape[1]):
                if len(b):
                    b[j, o] += a[j, o] * reals[AVERAGE_SCALE]
                a[j, o] = 0.0
        if not (len(b) or features):
            integers[COUNT] = 0
        reals[BASE_SCALE] = 0.0
    reals[SCALE] = 1.0


@inner
def add_features(a, b, row, push, scale, average, first, last):  # type: ignore[no-untyped-def]
    """f ← f + ⟨push φ, ·⟩ for the features first, …, last − 1."""
    widen()
    for j in range(first, last):
        for o in range(len(push)):
            change = push[o] * row[j] / scale
            a[j, o] += change
            if len(b):
                b[j, o] -= change * average


@inner
def insert(integers, a, b, diagonal, ages, columns, push, scale, average, size, column):  # type: ignore[no-untyped-def]
    """f ← f + push·k(x_t, ·): the numbers of a new bump; returns its place."""
    slot = integers[COUNT]
    for o in range(len(push)):
        a[slot, o] = push[o] / scale
        if len(b):
            b[slot, o] = -a[slot, o] * average
    diagonal[slot] = size
    ages[slot] = integers[ROUNDS]
    columns[slot] = column
    integers[COUNT] += 1
    integers[INSERTIONS] += 1
    return slot


@inner
def drop(integers, a, b, diagonal, ages, columns, centres, slot):  # type: ignore[no-untyped-def]
    """Take a bump out; the last one moves to its place."""
    last = integers[COUNT] - 1
    integers[COUNT] = last
    diagonal[slot], ages[slot], columns[slot] = diagonal[last], ages[last], columns[last]
    copy_row(a, slot, a, last)
    if len(b):
        copy_row(b, slot, b, last)
    for k in range(len(centres)):
        centres[k, slot] = centres[k, last]


@inner
def remove(state, slot):  # type: ignore[no-untyped-def]
    """Take a bump out of all arrays that a budget may have."""
    apart()
    last = state.integers[COUNT] - 1
    drop(
        state.integers, state.a, state.b, state.diagonal, state.ages, state.columns,
        state.centres, slot,
    )  # fmt: skip
    if slot == last:
        return
    if len(state.targets):
        copy_row(state.targets, slot, state.targets, last)
    if len(state.gram):
        _move(state.gram, last, slot)
    if len(state.inverse):
        _move(state.inverse, last, slot)


@inner
def _move(matrix, last, slot):  # type: ignore[no-untyped-def]
    """Row and column `last` of a symmetric matrix to the place `slot`."""
    corner = matrix[last, last]
    for j in range(last):
        matrix[slot, j] = matrix[last, j]
    for j in range(last):
        matrix[j, slot] = matrix[slot, j]
    matrix[slot, slot] = corner
