"""Kernels on objects by their definition: every feature is written down and counted."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product

import numpy as np


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
