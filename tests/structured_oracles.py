"""Kernels on objects by their definition: every feature is written down and counted."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, permutations, product

import numpy as np
from scipy.optimize import linear_sum_assignment


def strings(symbols, longest):
    """All strings of up to so many symbols."""
    return ["".join(s) for n in range(longest + 1) for s in product(symbols, repeat=n)]


def inner(left, right):
    return float(sum(value * right[key] for key, value in left.items() if key in right))


def gram(features, X, Y=None):
    """K by explicit features: `features` maps an object to a Counter."""
    rows = [features(x) for x in X]
    columns = rows if Y is None else [features(y) for y in Y]
    return np.array([[inner(a, b) for b in columns] for a in rows])


def words(x, length):
    return Counter(x[i : i + length] for i in range(len(x) - length + 1))


def blended(x, longest, decay):
    return Counter({u: decay**q * c for q in range(1, longest + 1) for u, c in words(x, q).items()})


def wildcards(x, length, most, decay):
    total = Counter()
    for word, count in words(x, length).items():
        for j in range(most + 1):
            for hidden in combinations(range(length), j):
                u = "".join("*" if k in hidden else s for k, s in enumerate(word))
                total[u] += count * decay**j
    return total


def mismatches(x, alphabet, length, most):
    total = Counter()
    for word, count in words(x, length).items():
        for u in product(alphabet, repeat=length):
            if sum(a != b for a, b in zip(u, word, strict=True)) <= most:
                total[u] += count
    return total


def weighted_degree(x, degree):
    total = Counter()
    for q in range(1, degree + 1):
        weight = 2 * (degree - q + 1) / (degree * (degree + 1))
        for i in range(len(x) - q + 1):
            total[i, x[i : i + q]] = weight**0.5
    return total


def subsequences(x, decay=1.0):
    total = Counter()
    for n in range(len(x) + 1):
        for places in combinations(range(len(x)), n):
            total["".join(x[i] for i in places)] += decay**n
    return total


def present_subsequences(x, decay=1.0):
    return Counter({u: decay ** len(u) for u in subsequences(x)})


def gap_weighted(x, length, decay):
    total = Counter()
    for places in combinations(range(len(x)), length):
        total["".join(x[i] for i in places)] += decay ** (places[-1] - places[0] + 1)
    return total


def alignments(n, m):
    """All alignments of n and m positions, as lists of pairs."""
    if n == 1 and m == 1:
        yield [(0, 0)]
        return
    for a, b in ((1, 0), (0, 1), (1, 1)):
        if n - a >= 1 and m - b >= 1:
            for rest in alignments(n - a, m - b):
                yield [*rest, (n - 1, m - 1)]


def global_alignment(x, y, lengthscale, band=0):
    if min(len(x), len(y)) == 0:
        return float(len(x) == len(y))
    squares = (np.asarray(x)[:, None] - np.asarray(y)) ** 2
    share = np.ones_like(squares)
    if band:
        gaps = np.abs(np.arange(len(x))[:, None] - np.arange(len(y)))
        share = np.maximum(0.0, 1.0 - gaps / band)
    g = share * np.exp(-squares / (2 * lengthscale**2))
    local = g / (2 - g)
    return sum(np.prod([local[p] for p in path]) for path in alignments(len(x), len(y)))


def edit_distance(x, y):
    if not x or not y:
        return len(x) + len(y)
    return min(
        edit_distance(x[1:], y) + 1,
        edit_distance(x, y[1:]) + 1,
        edit_distance(x[1:], y[1:]) + (x[0] != y[0]),
    )


# ---- trees: nested tuples, a leaf is a label -----------------------------------------------------


def trees(labels, size):
    """All ordered trees with so many nodes, as nested tuples."""
    if size == 1:
        return [(label,) for label in labels]
    return [(label, *below) for label in labels for below in forests(labels, size - 1)]


def forests(labels, size):
    if size == 0:
        return [()]
    return [
        (first, *rest)
        for n in range(1, size + 1)
        for first in trees(labels, n)
        for rest in forests(labels, size - n)
    ]


def nodes(tree):
    """All nodes of a tree, each with what is below it."""
    if not tree:
        return []
    return [tree, *(node for child in tree[1:] for node in nodes(child))]


def subtrees(tree, decay):
    total = Counter()
    for node in nodes(tree):
        size = sum(len(below) > 1 for below in nodes(node))
        if size:
            total[node] += decay ** (size / 2)
    return total


def subset_trees(tree, decay):
    """Fragments: a node keeps all of its children, each as a bare label or as a fragment."""

    def fragments(node):
        choices = [[(child[0], 0), *fragments(child)] for child in node[1:]]
        if not choices:
            return []
        return [
            ((node[0], *(part for part, _ in chosen)), 1 + sum(size for _, size in chosen))
            for chosen in product(*choices)
        ]

    total = Counter()
    for node in nodes(tree):
        for fragment, size in fragments(node):
            total[fragment] += decay ** (size / 2)
    return total


def partial_trees(tree, decay, gap):
    """Fragments: a node keeps any of its children, as fragments."""

    def fragments(node):
        yield (node[0],), decay**0.5 * gap
        for n in range(1, len(node)):
            for places in combinations(range(1, len(node)), n):
                stretch = gap ** (places[-1] - places[0] + 1)
                for chosen in product(*(list(fragments(node[i])) for i in places)):
                    weight = decay**0.5 * stretch * np.prod([w for _, w in chosen])
                    yield (node[0], *(part for part, _ in chosen)), weight

    total = Counter()
    for node in nodes(tree):
        for fragment, weight in fragments(node):
            total[fragment] += weight
    return total


# ---- graphs: (edges, labels) ---------------------------------------------------------------------


def graphs(n):
    """All graphs on n nodes, without labels."""
    pairs = list(combinations(range(n), 2))
    chosen = product([False, True], repeat=len(pairs))
    return [([p for p, there in zip(pairs, c, strict=True) if there], n) for c in chosen]


def adjacency(graph):
    edges, labels = graph[:2]
    n = labels if isinstance(labels, int) else len(labels)
    matrix = np.zeros((n, n))
    for u, v in edges:
        matrix[u, v] = matrix[v, u] = 1.0
    return matrix


def labels_of(graph):
    return [0] * graph[1] if isinstance(graph[1], int) else list(graph[1])


def refined(graph, rounds):
    """The labels of the nodes in each round, written out as nested tuples."""
    A, labels = adjacency(graph), labels_of(graph)
    result = [labels]
    for _ in range(rounds):
        around = [sorted(repr(labels[v]) for v in np.flatnonzero(row)) for row in A]
        labels = [(label, tuple(near)) for label, near in zip(labels, around, strict=True)]
        result.append(labels)
    return result


def weisfeiler_lehman(graph, rounds):
    return Counter(
        (i, repr(label)) for i, labels in enumerate(refined(graph, rounds)) for label in labels
    )


def best_assignment(x, y, rounds):
    """By the Hungarian method."""
    left, right = (list(zip(*refined(g, rounds), strict=True)) for g in (x, y))
    agreed = np.array(
        [[sum(a == b for a, b in zip(u, v, strict=True)) for v in right] for u in left]
    )
    if not agreed.size:
        return 0.0
    return float(agreed[linear_sum_assignment(agreed, maximize=True)].sum())


def graphlets(graph, size):
    A, total = adjacency(graph), Counter()
    for nodes in combinations(range(len(A)), size):
        part = A[np.ix_(nodes, nodes)]
        np.fill_diagonal(part, 0.0)
        if (np.linalg.matrix_power(part + np.eye(size), size) > 0).all():
            forms = (part[np.ix_(p, p)].tobytes() for p in permutations(range(size)))
            total[min(forms)] += 1
    return total


def random_walks(x, y, decay, steps=None, by_degree=False):
    """With the product graph as a dense matrix."""
    sides = []
    for A in (adjacency(x), adjacency(y)):
        roots = np.sqrt(np.maximum(A.sum(axis=1), 1.0)) if by_degree else np.ones(len(A))
        sides.append(A / np.outer(roots, roots))
    same = np.array([float(a == b) for a in labels_of(x) for b in labels_of(y)])
    W = np.kron(*sides) * np.outer(same, same)
    if steps is None:
        return float(same @ np.linalg.solve(np.eye(len(W)) - decay * W, same))
    return sum(decay**t * same @ np.linalg.matrix_power(W, t) @ same for t in range(steps + 1))
