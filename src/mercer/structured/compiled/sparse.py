"""Kernels with sparse features: counting features, blocks by posting lists, minimal hashes."""

from __future__ import annotations

import numpy as np

from mercer.evaluation.cpu.vectors import compiled, inner, widen

SPREAD = np.uint64(0x9E3779B97F4A7C15)  # multiplied, near hashes fall into slots far apart


@inner
def _slot(table, keys, key, bits):  # type: ignore[no-untyped-def]
    """Where a key stands in a table of places in `keys`, or the empty slot for it (−1)."""
    slot = np.int64((key * SPREAD) >> np.uint64(64 - bits))
    while table[slot] >= 0 and keys[table[slot]] != key:
        slot = (slot + 1) & (len(table) - 1)
    return slot


@compiled
def numbered(hashes, keys, numbers):  # type: ignore[no-untyped-def]
    """Number different hashes in the order of their first appearance; how many there are.

    numbers[p] is the number of hashes[p], and `keys` lists the hashes. The table has twice as many
    slots as keys at least and grows with them, so that few different hashes stay in the cache.
    """
    bits, count = 10, 0
    table = np.full(1 << bits, -1)
    for p in range(len(hashes)):
        slot = _slot(table, keys, hashes[p], bits)
        if table[slot] < 0:
            keys[count], table[slot] = hashes[p], count
            numbers[p] = count
            count += 1
            if 2 * count > len(table):
                bits += 2
                table = np.full(1 << bits, -1)
                for q in range(count):
                    table[_slot(table, keys, keys[q], bits)] = q
        else:
            numbers[p] = table[slot]
    return count


@compiled
def merged(starts, columns, values, width, ends):  # type: ignore[no-untyped-def]
    """Add up the values of a row that share a column, in place; rows end at `ends` afterwards."""
    place = np.full(width, -1)  # of a column within the row that is being read
    count = 0
    for i in range(len(starts) - 1):
        first = count
        for p in range(starts[i], starts[i + 1]):
            column, value = columns[p], values[p]
            if place[column] >= first:
                values[place[column]] += value
            else:
                place[column] = count
                columns[count], values[count] = column, value
                count += 1
        ends[i] = count


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
            place = np.searchsorted(keys, key)
            if place == len(keys) or keys[place] != key:
                continue
            first, last = ends[place - 1] if place > 0 else 0, ends[place]
            if dense[place]:
                _add_everywhere(values[p], weights[first:last], smaller, row)
            else:
                _add_to_some(values[p], items[first:last], weights[first:last], smaller, row)


# ---- minimal hashes of sets, with and without weights --------------------------------------------

ROUNDING_UNIT = 2.0**-53


@inner
def _mixed(z):  # type: ignore[no-untyped-def]
    """The finaliser of SplitMix64, as in `mercer.structured.base`."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inner
def _uniform(z):  # type: ignore[no-untyped-def]
    """A number in (0, 1)."""
    return (np.float64(z >> np.uint64(11)) + 0.5) * ROUNDING_UNIT


@inner
def _sample(code, weight, seed):  # type: ignore[no-untyped-def]
    """The key of a weighted symbol, which is least with a chance as its weight, and its sample.

    r and c are gamma variables with shape 2, b is uniform, all drawn from the symbol and the seed.
    """
    state = _mixed(code ^ seed)
    r = -np.log(_uniform(_mixed(state + np.uint64(1))) * _uniform(_mixed(state + np.uint64(2))))
    c = -np.log(_uniform(_mixed(state + np.uint64(3))) * _uniform(_mixed(state + np.uint64(4))))
    b = _uniform(_mixed(state + np.uint64(5)))
    t = np.floor(np.log(weight) / r + b)
    return np.log(c) - r * (t - b) - r, _mixed(state ^ _mixed(np.uint64(np.int64(t))))


@compiled
def minimal_hashes(starts, codes, weights, rows, seeds, weighted, out):  # type: ignore[no-untyped-def]
    """A hash for each set and seed, shared by two sets with the chance of their Jaccard index."""
    for i in range(len(rows)):
        for j in range(len(seeds)):
            best, least, lowest = np.uint64(0), np.inf, np.uint64(0xFFFFFFFFFFFFFFFF)
            for p in range(starts[rows[i]], starts[rows[i] + 1]):
                if weighted:
                    key, sample = _sample(codes[p], weights[p], seeds[j])
                    if key < least:
                        least, best = key, sample
                else:
                    hashed = _mixed(codes[p] ^ seeds[j])
                    if hashed <= lowest:
                        lowest, best = hashed, hashed
            out[i, j] = _mixed(best + np.uint64(1))
