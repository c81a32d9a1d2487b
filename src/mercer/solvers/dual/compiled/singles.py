"""Steps along e_i on a working set, where coordinates are free of each other."""

from __future__ import annotations

import numpy as np

from mercer.evaluation.cpu.vectors import widen
from mercer.solvers.dual.compiled.extremes import larger, place_of
from mercer.solvers.dual.compiled.lengths import (
    entropic_root,
    length_of_step,
    moved,
    prepared,
)
from mercer.solvers.dual.compiled.terms import INFINITE, compiled, logit_of


@compiled
def steepest(smooth, rising, falling, diagonal, curvature, scores):  # type: ignore[no-untyped-def]
    """The coordinate whose step gains most, and the largest violation."""
    widen()
    best, worst = 0.0, 0.0
    for k in range(len(smooth)):
        pull = larger(-(smooth[k] + rising[k]), smooth[k] + falling[k])
        positive = larger(pull, 0.0)
        worst = larger(worst, positive)
        score = positive * positive / (diagonal[k] + curvature[k])
        scores[k] = score
        best = larger(best, score)
    return place_of(best, scores), worst


@compiled
def single_move(i, a, bent, smooth, offsets, fields, kink, entropy):  # type: ignore[no-untyped-def]
    """Where to put coordinate i."""
    curvature, low, high = fields[1], fields[2], fields[3]
    if entropy:
        linear = smooth[i] - logit_of(a[i], low[i], high[i])
        return a[i] + entropic_root(linear, bent, a[i], low[i], high[i], 0.0, 0.0, 0.0, True)
    bent += curvature[i]
    rising, falling = smooth[i] + offsets[0, i], smooth[i] + offsets[1, i]
    if -rising > falling:
        first, room = -a[i] if a[i] < 0 else INFINITE, high[i] - a[i]
        d = length_of_step(rising, bent, room, first, INFINITE, 2.0 * kink)
        return high[i] if d == room else a[i] + d
    first, room = a[i] if a[i] > 0 else INFINITE, a[i] - low[i]
    d = length_of_step(-falling, bent, room, first, INFINITE, 2.0 * kink)
    return low[i] if d == room else a[i] - d


@compiled
def single_steps(K, a, values, fields, kink, entropy, tolerance, limit):  # type: ignore[no-untyped-def]
    """Steps along e_i, most gain first, until every slope is 0 or held by a bound, to tolerance.

    It returns the number of steps, −1 where one was infinite.
    """
    widen()
    m = len(a)
    smooth, offsets, diagonal = prepared(K, a, values, fields, kink, entropy)
    scores = np.empty(m)
    for step in range(limit):
        i, worst = steepest(smooth, offsets[0], offsets[1], diagonal, fields[1], scores)
        if worst <= tolerance or i < 0:
            return step
        before = a[i]
        a[i] = single_move(i, a, diagonal[i], smooth, offsets, fields, kink, entropy)
        d = a[i] - before
        if abs(d) == INFINITE:
            return -1
        row = K[i]
        for k in range(m):
            smooth[k] += d * row[k]
        moved(i, before, a, smooth, fields, kink, entropy, offsets)
    return limit
