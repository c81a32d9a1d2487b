"""Blocks of kernels with sparse features: ⟨φ(x), φ(y)⟩ and Σ min(φ(x), φ(y)) by posting lists."""

from __future__ import annotations

from mercer.evaluation.cpu.vectors import compiled, widen
from mercer.structured.compiled.inner import inner


@inner
def _place(keys, key):  # type: ignore[no-untyped-def]
    """Where a key stands among sorted keys, −1 for nowhere."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < len(keys) and keys[low] == key else -1


@inner
def _add_everywhere(value, weights, smaller, row):  # type: ignore[no-untyped-def]
    """Add a feature that many columns have: `weights` has a number for each of them."""
    if smaller:
        for j in range(len(row)):
            row[j] += value if value < weights[j] else weights[j]
    else:
        for j in range(len(row)):
            row[j] += value * weights[j]


@inner
def _add_to_some(value, items, weights, smaller, row):  # type: ignore[no-untyped-def]
    """Add a feature that only the columns `items` have."""
    if smaller:
        for q in range(len(items)):
            row[items[q]] += value if value < weights[q] else weights[q]
    else:
        for q in range(len(items)):
            row[items[q]] += value * weights[q]


@compiled
def products(  # type: ignore[no-untyped-def]
    starts, columns, values, rows, table, keys, ends, dense, items, weights, smaller, out
):
    """Add the products of features to `out`, row by row.

    `starts`, `columns`, `values` are features in CSR form, `rows` the chosen ones. `table` leads
    from their columns to those of the other side (−1: none); where it is empty they are the same.
    Feature keys[q] of the other side has the entries ends[q − 1], …, ends[q] − 1 of `items` and
    `weights`; where dense[q], these are all columns in order. `smaller` takes minima in place of
    products.
    """
    widen()
    for i in range(len(rows)):
        row = out[i]
        for p in range(starts[rows[i]], starts[rows[i] + 1]):
            key = columns[p] if len(table) == 0 else table[columns[p]]
            place = _place(keys, key)
            if place < 0:
                continue
            first, last = ends[place - 1] if place > 0 else 0, ends[place]
            if dense[place]:
                _add_everywhere(values[p], weights[first:last], smaller, row)
            else:
                _add_to_some(values[p], items[first:last], weights[first:last], smaller, row)
