"""Graph kernels: shortest paths, small connected subgraphs, walks in product graphs.

`FlatGraphs` stands here because Numba stores its name with what it compiled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer.evaluation.cpu.vectors import compiled, inner


class FlatGraphs(NamedTuple):
    """Graphs in flat arrays: where each starts, and of all nodes labels and weighted neighbours."""

    starts: np.ndarray
    labels: np.ndarray
    firsts: np.ndarray  # where the neighbours of each node start
    neighbours: np.ndarray  # counted from the start of the graph
    weights: np.ndarray


@compiled
def shortest_paths(starts, firsts, neighbours, left, right, lengths, ends, out):  # type: ignore[no-untyped-def]
    """The hashes left[u] + right[v] + lengths[d] of all nodes u, v with a shortest path of d edges.

    Those of graph i are written from ends[i] on, which is where those of graph i − 1 end; how many
    there are is returned. Room for all pairs is enough; `lengths` has a number for each node of the
    largest graph.
    """
    count = 0
    queue, distance = np.empty(len(lengths), np.int64), np.empty(len(lengths), np.int64)
    for g in range(len(starts) - 1):
        a, n = starts[g], starts[g + 1] - starts[g]
        ends[g] = count
        for source in range(n):
            distance[:n] = -1
            distance[source] = 0
            queue[0] = source
            head, tail = 0, 1
            while head < tail:
                u = queue[head]
                head += 1
                for e in range(firsts[a + u], firsts[a + u + 1]):
                    v = neighbours[e]
                    if distance[v] < 0:
                        distance[v] = distance[u] + 1
                        queue[tail] = v
                        tail += 1
                        out[count] = left[a + source] + right[a + v] + lengths[distance[v]]
                        count += 1
    ends[len(starts) - 1] = count
    return count


@inner
def _adjacent(firsts, neighbours, u, v):  # type: ignore[no-untyped-def]
    """Whether v is among the neighbours of u, which are in order."""
    low, high = firsts[u], firsts[u + 1]
    while low < high:
        middle = (low + high) >> 1
        if neighbours[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low < firsts[u + 1] and neighbours[low] == v


@inner
def _shape(firsts, neighbours, a, nodes):  # type: ignore[no-untyped-def]
    """The edges between nodes as bits: (0, 1), (0, 2), (1, 2), (0, 3) and so on."""
    bits, bit = 0, 1
    for j in range(1, len(nodes)):
        for i in range(j):
            if _adjacent(firsts, neighbours, a + nodes[i], nodes[j]):
                bits |= bit
            bit <<= 1
    return bits


@inner
def _grown(firsts, neighbours, a, node, root, depth, seen, candidates, count):  # type: ignore[no-untyped-def]
    """Add the new neighbours of a node to the candidates, and return how many these are then."""
    for e in range(firsts[a + node], firsts[a + node + 1]):
        v = neighbours[e]
        if v > root and seen[v] < 0:
            candidates[count] = v
            count += 1
            seen[v] = depth
    return count


@inner
def _count_from(root, a, firsts, neighbours, kinds, nodes, waiting, counts, places, seen, out):  # type: ignore[no-untyped-def]
    """Count the connected subgraphs of len(nodes) nodes whose lowest node is `root`, each once.

    A subgraph grows by nodes above the root that are new neighbours of the node added last, or
    were left over before; so it is reached in one order only. waiting[d] lists the candidates at
    depth d, places[d] is the next of them, and seen[v] the depth at which v became one.
    """
    nodes[0], depth, seen[root] = root, 0, 0
    counts[0] = _grown(firsts, neighbours, a, root, root, 0, seen, waiting[0], 0)
    places[0] = 0
    while depth >= 0:
        if places[depth] == counts[depth]:  # all candidates are used up: go back
            for q in range(counts[depth]):
                if seen[waiting[depth, q]] == depth:
                    seen[waiting[depth, q]] = -1
            depth -= 1
            continue
        node = waiting[depth, places[depth]]
        places[depth] += 1
        nodes[depth + 1] = node
        if depth + 2 == len(nodes):
            out[kinds[_shape(firsts, neighbours, a, nodes)]] += 1.0
            continue
        left = counts[depth] - places[depth]
        for q in range(left):
            waiting[depth + 1, q] = waiting[depth, places[depth] + q]
        depth += 1
        counts[depth] = _grown(firsts, neighbours, a, node, root, depth, seen, waiting[depth], left)
        places[depth] = 0
    seen[root] = -1


@compiled
def graphlets(starts, firsts, neighbours, size, kinds, out):  # type: ignore[no-untyped-def]
    """How many connected subgraphs of `size` nodes each graph has, by kind; kinds[bits] is it."""
    widest = 1
    for g in range(len(starts) - 1):
        widest = max(widest, starts[g + 1] - starts[g])
    nodes, waiting = np.empty(size, np.int64), np.empty((size, widest), np.int64)
    counts, places = np.empty(size, np.int64), np.empty(size, np.int64)
    seen = np.full(widest, -1)
    for g in range(len(starts) - 1):
        a = starts[g]
        for root in range(starts[g + 1] - a):
            _count_from(
                root, a, firsts, neighbours, kinds, nodes, waiting, counts, places, seen, out[g]
            )


@compiled
def spectral_walks(values, weights, starts, rows, others, other_weights, ends, columns, decay, out):  # type: ignore[no-untyped-def]
    """Σ w_i w_j/(1 − decay·μ_i ν_j) over the eigenvalues μ and ν of two graphs."""
    for i in range(len(rows)):
        for j in range(len(columns)):
            total = 0.0
            for p in range(starts[rows[i]], starts[rows[i] + 1]):
                part, scale = 0.0, decay * values[p]
                for q in range(ends[columns[j]], ends[columns[j] + 1]):
                    part += other_weights[q] / (1.0 - scale * others[q])
                total += weights[p] * part
            out[i, j] = total


@inner
def _step(x, a, n, y, b, m, same, vector, half, out):  # type: ignore[no-untyped-def]
    """out = S∘(A V B) for adjacency matrices A, B and S = 1 for pairs of nodes of one label.

    The vector V over pairs of nodes has entry (u, q) at u·m + q; `half` has room for a row of A V.
    """
    for u in range(n):
        for q in range(m):
            half[q] = 0.0
        for e in range(x.firsts[a + u], x.firsts[a + u + 1]):
            v, weight = x.neighbours[e], x.weights[e]
            for q in range(m):
                half[q] += weight * vector[v * m + q]
        for q in range(m):
            total = 0.0
            if same[u * m + q] != 0.0:
                for e in range(y.firsts[b + q], y.firsts[b + q + 1]):
                    total += y.weights[e] * half[y.neighbours[e]]
            out[u * m + q] = total


# Loops, as expressions of arrays make each an array: walks took 1.2 to 1.7 times as long with them.
@inner
def _combine(target, left, factor, right, size):  # type: ignore[no-untyped-def]
    """target = left + factor · right."""
    for k in range(size):
        target[k] = left[k] + factor * right[k]


@inner
def _product(left, right, size):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(size):
        total += left[k] * right[k]
    return total


@inner
def _all_walks(x, a, n, y, b, m, decay, same, work):  # type: ignore[no-untyped-def]
    """1ᵀ(I − decay·W)⁻¹1 for the product graph W, by conjugate gradients.

    The value is sᵀz for (I − decay·W)z = s, so its error is the square of that of z: it is right
    to rounding when the residual has fallen to the root of that.
    """
    z, residual, direction, image, half = work[0], work[1], work[2], work[3], work[4]
    size = n * m
    for k in range(size):
        z[k] = 0.0
        residual[k] = direction[k] = same[k]
    square = first = _product(residual, residual, size)
    for _ in range(size):
        if square <= 1e-18 * first:
            break
        _step(x, a, n, y, b, m, same, direction, half, image)
        _combine(image, direction, -decay, image, size)
        rate = square / _product(direction, image, size)
        _combine(z, z, rate, direction, size)
        _combine(residual, residual, -rate, image, size)
        before, square = square, _product(residual, residual, size)
        _combine(direction, residual, square / before, direction, size)
    return _product(z, same, size)


@inner
def _some_walks(x, a, n, y, b, m, decay, steps, same, work):  # type: ignore[no-untyped-def]
    """Σ_{t ≤ steps} decayᵗ 1ᵀWᵗ1, by Horner's rule."""
    z, image, size = work[0], work[1], n * m
    _combine(z, same, 0.0, same, size)
    for _ in range(steps):
        _step(x, a, n, y, b, m, same, z, work[4], image)
        _combine(z, same, decay, image, size)
    return _product(z, same, size)


@compiled
def labelled_walks(x, rows, y, columns, decay, steps, work, out):  # type: ignore[no-untyped-def]
    """Walks with the same labels in two graphs, of `steps` steps at most (−1: of any length).

    x and y are `FlatGraphs`; `work` has room for six vectors over pairs of nodes.
    """
    same = work[5]
    for i in range(len(rows)):
        a, n = x.starts[rows[i]], x.starts[rows[i] + 1] - x.starts[rows[i]]
        for j in range(len(columns)):
            b, m = y.starts[columns[j]], y.starts[columns[j] + 1] - y.starts[columns[j]]
            for u in range(n):
                for q in range(m):
                    same[u * m + q] = 1.0 if x.labels[a + u] == y.labels[b + q] else 0.0
            if steps < 0:
                out[i, j] = _all_walks(x, a, n, y, b, m, decay, same, work)
            else:
                out[i, j] = _some_walks(x, a, n, y, b, m, decay, steps, same, work)
