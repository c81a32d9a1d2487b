"""Bumps a_i k(c_i, ·) as rows of arrays: values of f, adding one, taking one out."""

from __future__ import annotations

import numpy as np

from mercer.evaluation.cpu.elementary import in_float64
from mercer.evaluation.cpu.vectors import widen
from mercer.online.compiled.inner import apart, copy_row, inner, scale_row
from mercer.online.state import (
    AVERAGE_SCALE,
    COUNT,
    INSERTIONS,
    PROJECTION,
    ROUNDS,
    SCALE,
    SQUARED_NORM,
)

JITTER = 1e-7  # of the largest k(c, c), added to the diagonal before K is inverted
TINY, HUGE = 1e-100, 1e100  # between these the running scale is left alone
decay = in_float64.decay


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
    for k in range(left, width, 3):  # three at a time: fewer passes over `out`
        x0, x1, x2 = x[t, k], x[t, k + 1], x[t, k + 2]
        for j in range(count):
            gap0, gap1, gap2 = centres[k, j] - x0, centres[k + 1, j] - x1, centres[k + 2, j] - x2
            out[j] += gap0 * gap0 + gap1 * gap1 + gap2 * gap2


@inner
def kernel_row(centres, columns, count, values, seen, amplitude, t, row):  # type: ignore[no-untyped-def]
    """k(x_t, c_j) for all centres, from the values of the block or from the points."""
    widen()
    if len(centres):
        gaussian_exponents(centres, seen, t, count, row)
        for j in range(count):
            row[j] = amplitude * decay(row[j])
    else:
        for j in range(count):
            row[j] = values[t, columns[j]]


@inner
def function_values(a, scale, count, row, f):  # type: ignore[no-untyped-def]
    """f(x) from a row of kernel values."""
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


@inner
def shrink(reals, integers, a, b, factor):  # type: ignore[no-untyped-def]
    """f ← factor·f at constant cost."""
    reals[SQUARED_NORM] *= factor * factor
    if factor <= 0.0:
        _clear(reals, integers, a, b)
        return
    reals[SCALE] *= factor
    if reals[SCALE] < TINY or reals[AVERAGE_SCALE] > HUGE:
        for j in range(integers[COUNT]):
            scale_row(a, j, reals[SCALE])
        reals[AVERAGE_SCALE] /= reals[SCALE]
        reals[SCALE] = 1.0


@inner
def _clear(reals, integers, a, b):  # type: ignore[no-untyped-def]
    """f ← 0; the average keeps what it has, and its centres."""
    if len(b):
        for j in range(integers[COUNT]):
            for o in range(a.shape[1]):
                b[j, o] += a[j, o] * reals[AVERAGE_SCALE]
                a[j, o] = 0.0
    else:
        integers[COUNT] = 0
    reals[SCALE] = 1.0


@inner
def insert(integers, a, b, diagonal, ages, columns, push, scale, average, size, column):  # type: ignore[no-untyped-def]
    """F ← f + push·k(x_t, ·): the numbers of a new bump; returns its place."""
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
def insert_rest(arrays, block, t, slot, row, policy):  # type: ignore[no-untyped-def]
    """What some policies keep of a new bump beside its numbers."""
    if len(arrays.targets):
        copy_row(arrays.targets, slot, block.targets, t)
    if len(arrays.rows):
        copy_row(arrays.rows, slot, block.rows, t)
    if len(arrays.gram):
        _add_row(arrays.gram, row, slot, block.diagonal[t])
    if policy == PROJECTION:
        _border(arrays, slot)


@inner
def _add_row(gram, row, slot, corner):  # type: ignore[no-untyped-def]
    for j in range(slot):
        gram[slot, j] = gram[j, slot] = row[j]
    gram[slot, slot] = corner


@inner
def jitter_of(arrays, count):  # type: ignore[no-untyped-def]
    """τ."""
    largest = 1e-300
    for j in range(count):
        largest = max(largest, arrays.diagonal[j])
    return JITTER * largest


@inner
def _border(arrays, slot):  # type: ignore[no-untyped-def]
    """The inverse of K + τI with one more row and column; computed anew now and then."""
    apart()
    widen()
    if arrays.integers[INSERTIONS] % max(len(arrays.a) - 1, 16) == 0:
        refresh(arrays, slot + 1)
        return
    inverse, row = arrays.inverse, arrays.gram[slot]
    u = np.empty(slot)
    for i in range(slot):
        total = 0.0
        for j in range(slot):
            total += inverse[i, j] * row[j]
        u[i] = total
    least = jitter_of(arrays, slot + 1)
    left = arrays.diagonal[slot] + least
    for j in range(slot):
        left -= row[j] * u[j]
    left = max(left, least)
    for i in range(slot):
        line, factor = inverse[i], u[i] / left
        for j in range(slot):
            line[j] += factor * u[j]
        inverse[slot, i] = inverse[i, slot] = -factor
    inverse[slot, slot] = 1.0 / left


@inner
def refresh(arrays, count):  # type: ignore[no-untyped-def]
    """The inverse of K + τI from its Cholesky factor: what updates lost is restored."""
    apart()
    rows = _inverted(_factored(arrays.gram, jitter_of(arrays, count), count))
    for i in range(count):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, count):
                total += rows[i, k] * rows[j, k]
            arrays.inverse[i, j] = arrays.inverse[j, i] = total


@inner
def _factored(gram, least, count):  # type: ignore[no-untyped-def]
    """The lower Cholesky factor of K + τI."""
    widen()
    lower = np.zeros((count, count))
    for i in range(count):
        for j in range(i + 1):
            total = gram[i, j] + (least if i == j else 0.0)
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            lower[i, j] = np.sqrt(max(total, least)) if i == j else total / lower[j, j]
    return lower


@inner
def _inverted(lower):  # type: ignore[no-untyped-def]
    """The transposed inverse of a lower factor."""
    widen()
    count = len(lower)
    rows = np.zeros((count, count))
    for j in range(count):
        rows[j, j] = 1.0 / lower[j, j]
        for i in range(j + 1, count):
            total = 0.0
            for k in range(j, i):
                total += lower[i, k] * rows[j, k]
            rows[j, i] = -total / lower[i, i]
    return rows


@inner
def remove(arrays, slot):  # type: ignore[no-untyped-def]
    """Take a bump out; the last one moves to its place."""
    apart()
    last = arrays.integers[COUNT] - 1
    drop(arrays.integers, arrays.a, arrays.b, arrays.diagonal, arrays.ages, arrays.columns, slot)
    drop_column(arrays.centres, last, slot)
    if slot == last:
        return
    if len(arrays.targets):
        copy_row(arrays.targets, slot, arrays.targets, last)
    if len(arrays.rows):
        copy_row(arrays.rows, slot, arrays.rows, last)
    if len(arrays.gram):
        _move(arrays.gram, last, slot)
    if len(arrays.inverse):
        _move(arrays.inverse, last, slot)


@inner
def drop(integers, a, b, diagonal, ages, columns, slot):  # type: ignore[no-untyped-def]
    """The numbers of the last bump take the place of another."""
    last = integers[COUNT] - 1
    integers[COUNT] = last
    diagonal[slot], ages[slot], columns[slot] = diagonal[last], ages[last], columns[last]
    copy_row(a, slot, a, last)
    if len(b):
        copy_row(b, slot, b, last)


@inner
def drop_column(centres, last, slot):  # type: ignore[no-untyped-def]
    """The last centre takes the place of another."""
    for k in range(len(centres)):
        centres[k, slot] = centres[k, last]


@inner
def _move(matrix, last, slot):  # type: ignore[no-untyped-def]
    """Row and column `last` of a symmetric matrix to the place `slot`."""
    corner = matrix[last, last]
    for j in range(last):
        matrix[slot, j] = matrix[last, j]
    for j in range(last):
        matrix[j, slot] = matrix[slot, j]
    matrix[slot, slot] = corner
