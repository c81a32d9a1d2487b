"""What BLAS does not give: products of CSR rows, and squared distances that keep their digits.

‖x−y‖² = ‖x‖² + ‖y‖² − 2⟨x,y⟩ is exact to rounding relative to ‖x‖² + ‖y‖². Pairs that are close
in comparison to that are summed again from their differences, so that every distance is right
relative to itself, whatever the origin, the lengthscale and the kernel's shape at zero.

Rows in CSR form are (starts, columns, values) with sorted columns. A tile of such points y is
stored by columns. A column that many of them use is a dense line, which is added in one sweep; one
that few use is a list of (row, value). So a row x costs a short sweep for each common word and a
few additions for each rare one, and what it reads stays in the cache.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mercer.evaluation.cpu.vectors import OPTIONS, compiled, widen

# The expansion is off by about ε(‖x‖² + ‖y‖²). For a distance of this share of ‖x‖² + ‖y‖² that is
# 10ε of it in float32, and 100ε in float64, which has digits to spare; closer ones are repaired.
CLOSENESS = {np.dtype(np.float32): np.float32(0.1), np.dtype(np.float64): np.float64(0.01)}


@compiled
def expand(row, x_norm, y_norms, closeness):  # type: ignore[no-untyped-def]
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
        if expand(row, x_norms[i], y_norms, closeness):
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
def sparse_norms(rows):  # type: ignore[no-untyped-def]
    """‖x_i‖² of CSR rows."""
    starts, _, values = rows
    totals = np.empty(len(starts) - 1, values.dtype)
    for i in range(len(totals)):
        total = values.dtype.type(0)
        for e in range(starts[i], starts[i + 1]):
            total += values[e] * values[e]
        totals[i] = total
    return totals


@compiled
def by_columns(rows, table, common):  # type: ignore[no-untyped-def]
    """CSR rows by the columns they use: (used, lines, ends, indices, values).

    Columns that at least `common` rows use come first in `used`, and `lines[p]` is column
    `used[p]`; for those that follow, the rows and values of the list r are in `indices` and
    `values` from `ends[r]` to `ends[r + 1]`. `table` has a place for each column, and is left as
    it was: all −1.
    """
    starts, columns, values = rows
    used, sizes = _count(columns, table)
    order, line_count = _common_first(sizes, common)
    used = used[order]
    ends = np.zeros(len(used) - line_count + 1, np.int32)
    for p in range(len(used)):
        table[used[p]] = p
        if p >= line_count:
            ends[p - line_count + 1] = ends[p - line_count] + sizes[order[p]]
    lines = np.zeros((line_count, len(starts) - 1), values.dtype)
    indices, entries = np.empty(ends[-1], np.int32), np.empty(ends[-1], values.dtype)
    free = ends.copy()
    for i in range(len(starts) - 1):
        for e in range(starts[i], starts[i + 1]):
            p = table[columns[e]]
            if p < line_count:
                lines[p, i] = values[e]
            else:
                at = free[p - line_count]
                indices[at], entries[at] = i, values[e]
                free[p - line_count] = at + 1
    for p in range(len(used)):
        table[used[p]] = -1
    return used, lines, ends, indices, entries


@njit(**OPTIONS)
def _count(columns, table):  # type: ignore[no-untyped-def]
    """The distinct columns, and how often each occurs; `table` then holds their places."""
    used = np.empty(len(columns), columns.dtype)
    sizes = np.zeros(len(columns), np.int32)
    count = 0
    for e in range(len(columns)):
        if table[columns[e]] < 0:
            table[columns[e]] = count
            used[count] = columns[e]
            count += 1
        sizes[table[columns[e]]] += 1
    return used[:count], sizes[:count]


@njit(**OPTIONS)
def _common_first(sizes, common):  # type: ignore[no-untyped-def]
    """Places with sizes of at least `common`, then the others; and how many the first are."""
    order = np.empty(len(sizes), np.int64)
    first, last = 0, len(sizes)
    for p in range(len(sizes)):
        if sizes[p] >= common:
            order[first] = p
            first += 1
        else:
            last -= 1
            order[last] = p
    return order, first


@compiled
def sparse_products(x, y, table, out):  # type: ignore[no-untyped-def]
    """⟨x_i, y_j⟩ of CSR rows with points stored `by_columns`; `table` is left as it was: all −1."""
    widen()
    starts, columns, values = x
    used, lines, ends, indices, entries = y
    line_count = len(lines)
    for p in range(len(used)):
        table[used[p]] = p
    for i in range(out.shape[0]):
        row = out[i]
        row[:] = 0
        for e in range(starts[i], starts[i + 1]):
            p = table[columns[e]]
            if p < 0:
                continue
            if p < line_count:
                _add_multiple(row, values[e], lines[p])
            else:
                r = p - line_count
                for at in range(ends[r], ends[r + 1]):
                    row[indices[at]] += values[e] * entries[at]
    for p in range(len(used)):
        table[used[p]] = -1


@njit(**OPTIONS)
def _add_multiple(row, factor, line):  # type: ignore[no-untyped-def]
    for j in range(len(row)):
        row[j] += factor * line[j]


@compiled
def sparse_distances(tile, x, y, x_norms, y_norms, closeness):  # type: ignore[no-untyped-def]
    """Turn a tile of products of sparse rows into squared distances, in place."""
    widen()
    for i in range(tile.shape[0]):
        row = tile[i]
        if expand(row, x_norms[i], y_norms, closeness):
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
