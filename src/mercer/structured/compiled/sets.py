"""Minimal hashes of sets, with and without weights."""

from __future__ import annotations

import numpy as np

from mercer.evaluation.cpu.vectors import compiled
from mercer.structured.compiled.inner import inner

UNIT = 2.0**-53


@inner
def _mixed(z):  # type: ignore[no-untyped-def]
    """The finaliser of SplitMix64, as in `mercer.structured.hashing`."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inner
def _uniform(z):  # type: ignore[no-untyped-def]
    """A number in (0, 1)."""
    return (np.float64(z >> np.uint64(11)) + 0.5) * UNIT


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
