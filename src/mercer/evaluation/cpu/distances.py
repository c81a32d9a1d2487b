"""Squared distances from inner products, without losing digits.

‖x−y‖² = ‖x‖² + ‖y‖² − 2⟨x,y⟩ is exact to rounding relative to ‖x‖² + ‖y‖². Pairs that are close
in comparison to that are summed again from their differences, so that every distance is right
relative to itself, whatever the origin, the lengthscale and the kernel's shape at zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from mercer.evaluation.cpu.vectors import OPTIONS, compiled, widen

CLOSENESS = {np.dtype(np.float32): np.float32(0.1), np.dtype(np.float64): np.float64(0.01)}


@compiled
def _expand(row, x_norm, y_norms, closeness):  # type: ignore[no-untyped-def]
    """Products to distances in place; returns how many of the row's pairs are close."""
    close = 0
    for j in range(len(row)):
        total = x_norm + y_norms[j]
        distance = total - (row[j] + row[j])
        close += 1 if distance < closeness * total else 0
        row[j] = distance
    return close


@compiled
def dense_distances(tile, x, y, scales, x_norms, y_norms, closeness):  # type: ignore[no-untyped-def]
    """Turn a tile of products of dense rows into squared distances, in place."""
    widen()
    for i in range(tile.shape[0]):
        row, point = tile[i], x[i]
        if _expand(row, x_norms[i], y_norms, closeness):
            for j in range(len(row)):
                if row[j] < closeness * (x_norms[i] + y_norms[j]):
                    row[j] = _dense_distance(point, y[j], scales)


@njit(**OPTIONS)
def _dense_distance(x, y, scales):  # type: ignore[no-untyped-def]
    total = x.dtype.type(0)
    for k in range(len(x)):
        gap = (x[k] - y[k]) * scales[k]
        total += gap * gap
    return total


@compiled
def sparse_distances(tile, x, y, x_norms, y_norms, closeness):  # type: ignore[no-untyped-def]
    """The same for rows in CSR form, (starts, columns, values) with sorted columns."""
    widen()
    for i in range(tile.shape[0]):
        row = tile[i]
        if _expand(row, x_norms[i], y_norms, closeness):
            for j in range(len(row)):
                if row[j] < closeness * (x_norms[i] + y_norms[j]):
                    row[j] = _sparse_distance(x, i, y, j)


@njit(**OPTIONS)
def _sparse_distance(x, i, y, j):  # type: ignore[no-untyped-def]
    """Merge two sorted rows."""
    x_starts, x_columns, x_values = x
    y_starts, y_columns, y_values = y
    a, b = x_starts[i], y_starts[j]
    a_end, b_end = x_starts[i + 1], y_starts[j + 1]
    total = x_values.dtype.type(0)
    gap = x_values.dtype.type(0)
    while a < a_end or b < b_end:
        if b == b_end or (a < a_end and x_columns[a] < y_columns[b]):
            gap = x_values[a]
            a += 1
        elif a == a_end or y_columns[b] < x_columns[a]:
            gap = y_values[b]
            b += 1
        else:
            gap = x_values[a] - y_values[b]
            a += 1
            b += 1
        total += gap * gap
    return total


@compiled
def sparse_norms(rows):  # type: ignore[no-untyped-def]
    """‖x_i‖² of CSR rows."""
    starts, _, values = rows
    norms = np.empty(len(starts) - 1, values.dtype)
    for i in range(len(norms)):
        total = values.dtype.type(0)
        for e in range(starts[i], starts[i + 1]):
            total += values[e] * values[e]
        norms[i] = total
    return norms


@compiled
def used_columns(rows, table):  # type: ignore[no-untyped-def]
    """CSR rows as a dense block of the columns they use: (used, block), block[p, i] = x_i[used[p]].

    `table` has a place for each column, and is left as it was: all −1.
    """
    starts, columns, values = rows
    used = np.empty(len(columns), columns.dtype)
    count = 0
    for e in range(len(columns)):
        if table[columns[e]] < 0:
            table[columns[e]] = count
            used[count] = columns[e]
            count += 1
    block = np.zeros((count, len(starts) - 1), values.dtype)
    for i in range(len(starts) - 1):
        for e in range(starts[i], starts[i + 1]):
            block[table[columns[e]], i] = values[e]
    for p in range(count):
        table[used[p]] = -1
    return used[:count].copy(), block


@compiled
def sparse_products(x, used, block, table, out):  # type: ignore[no-untyped-def]
    """⟨x_i, y_j⟩ of CSR rows with a dense block that holds only the columns the y_j use.

    `block[p]` holds column `used[p]` of all y; `table` finds p, and is left as it was: all −1.
    """
    widen()
    starts, columns, values = x
    for p in range(len(used)):
        table[used[p]] = p
    for i in range(out.shape[0]):
        row = out[i]
        row[:] = 0
        for e in range(starts[i], starts[i + 1]):
            p = table[columns[e]]
            if p >= 0:
                _add_multiple(row, values[e], block[p])
    for p in range(len(used)):
        table[used[p]] = -1


@njit(**OPTIONS)
def _add_multiple(row, factor, line):  # type: ignore[no-untyped-def]
    for j in range(len(row)):
        row[j] += factor * line[j]


def closeness(dtype: Any) -> Any:
    """Distances below this share of ‖x‖² + ‖y‖² are computed from differences."""
    return CLOSENESS[np.dtype(dtype)]
