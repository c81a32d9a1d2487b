"""Tree kernels: only pairs of nodes that match are visited, children before their parents.

`FlatTrees` stands here because Numba stores its name with what it compiled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer.evaluation.cpu.vectors import compiled, inner


class FlatTrees(NamedTuple):
    """Trees in flat arrays: where each starts, and of all nodes keys and children."""

    starts: np.ndarray
    keys: np.ndarray
    order: np.ndarray  # the nodes of each tree by key
    firsts: np.ndarray  # where the children of each node start
    children: np.ndarray


@inner
def _first_match(keys, order, start, stop, key):  # type: ignore[no-untyped-def]
    """The first place of order[start:stop], which sorts a tree by key, with this key or above.

    np.searchsorted on sorted keys takes five times as long here.
    """
    low, high = start, stop
    while low < high:
        middle = (low + high) >> 1
        if keys[order[middle]] < key:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _subset_value(x, u, y, v, decay, table, a, b):  # type: ignore[no-untyped-def]
    """Δ(u, v) = decay · Π over children of (1 + Δ), for nodes of the same production."""
    value, p, q = decay, x.firsts[u], y.firsts[v]
    for k in range(x.firsts[u + 1] - p):
        c, d = x.children[p + k], y.children[q + k]
        if x.keys[c] == y.keys[d] and x.keys[c] != 0:
            value *= 1.0 + table[c - a, d - b]
    return value


@inner
def _partial_value(x, u, y, v, decay, gap, table, a, b, row):  # type: ignore[no-untyped-def]
    """Δ(u, v) = decay · (gap² + Σ over pairs of subsequences of children), for equal labels.

    S(i, j) = gap² Δ(c_i, d_j)(1 + T(i−1, j−1)) sums the pairs that end in children i and j, and
    T(i, j) = Σ_{i' ≤ i, j' ≤ j} gap^{(i−i')+(j−j')} S(i', j'); `row` is T(i, ·).
    """
    p, q = x.firsts[u], y.firsts[v]
    n, m = x.firsts[u + 1] - p, y.firsts[v + 1] - q
    total = gap * gap
    row[: m + 1] = 0.0
    for i in range(n):
        c, along, before = x.children[p + i], 0.0, 0.0
        for j in range(m):
            d, here = y.children[q + j], 0.0
            if x.keys[c] == y.keys[d]:
                here = gap * gap * table[c - a, d - b] * (1.0 + before)
            total += here
            along = gap * along + here
            before = row[j + 1]
            row[j + 1] = gap * before + along
    return decay * total


@compiled
def tree_kernel(x, rows, y, columns, decay, gap, partial, table, row, out):  # type: ignore[no-untyped-def]
    """Σ Δ(u, v) over the nodes u, v of two trees that have the same key, for all pairs of trees.

    x and y are `FlatTrees`: the nodes of a tree come after their children, and `order` lists them
    by key; key 0 matches nothing. `table` has room for two trees, `row` for the children of a node.
    """
    for i in range(len(rows)):
        a, stop = x.starts[rows[i]], x.starts[rows[i] + 1]
        for j in range(len(columns)):
            b, other_stop = y.starts[columns[j]], y.starts[columns[j] + 1]
            total = 0.0
            for u in range(a, stop):
                key = x.keys[u]
                place = (
                    other_stop if key == 0 else _first_match(y.keys, y.order, b, other_stop, key)
                )
                while place < other_stop and y.keys[y.order[place]] == key:
                    v = y.order[place]
                    if partial:
                        value = _partial_value(x, u, y, v, decay, gap, table, a, b, row)
                    else:
                        value = _subset_value(x, u, y, v, decay, table, a, b)
                    table[u - a, v - b] = value
                    total += value
                    place += 1
            out[i, j] = total
