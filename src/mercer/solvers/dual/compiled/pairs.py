"""Steps along e_i − e_j on a working set, which keep the sums of groups."""

from __future__ import annotations

import numpy as np

from mercer.evaluation.cpu.vectors import widen
from mercer.solvers.dual.compiled.extremes import larger, place_of, smaller
from mercer.solvers.dual.compiled.lengths import (
    SMALLEST,
    entropic_root,
    length_of_step,
    moved,
    prepared,
)
from mercer.solvers.dual.compiled.terms import INFINITE, compiled, logit_of


@compiled
def least_up(smooth, offset, scores):  # type: ignore[no-untyped-def]
    """The coordinate of the least right slope, and that slope; scores is room to work in."""
    widen()
    least = INFINITE
    for i in range(len(smooth)):
        slope = smooth[i] + offset[i]
        scores[i] = slope
        least = smaller(least, slope)
    return place_of(least, scores), least


@compiled
def best_partner(own, least, row, diagonal, smooth, offset, curvature, scores):  # type: ignore[no-untyped-def]
    """The coordinate whose step against one with slope `least` gains most, its gain, the worst."""
    widen()
    best, worst = 0.0, -INFINITE
    for j in range(len(smooth)):
        difference = smooth[j] + offset[j] - least
        worst = larger(worst, difference)
        positive = larger(difference, 0.0)
        bent = larger(own + diagonal[j] + curvature[j] - 2.0 * row[j], SMALLEST)
        score = positive * positive / bent
        scores[j] = score
        best = larger(best, score)
    return place_of(best, scores), best, worst


@compiled
def best_pair(K, smooth, offsets, diagonal, curvature, scores, bounds):  # type: ignore[no-untyped-def]
    """The pair of one group whose step gains most, and the largest violation of all groups."""
    first, second, gain, worst = -1, -1, 0.0, -INFINITE
    for g in range(len(bounds) - 1):
        here = slice(bounds[g], bounds[g + 1])
        i, least = least_up(smooth[here], offsets[0][here], scores[here])
        if least < INFINITE:
            i += bounds[g]
            own = diagonal[i] + curvature[i]
            j, found, violation = best_partner(
                own,
                least,
                K[i][here],
                diagonal[here],
                smooth[here],
                offsets[1][here],
                curvature[here],
                scores[here],
            )
            worst = max(worst, violation)
            if found > gain:
                first, second, gain = i, j + bounds[g], found
    return first, second, worst


@compiled
def add_difference(smooth, d, row_i, row_j):  # type: ignore[no-untyped-def]
    """What a step of a pair adds to Kα."""
    widen()
    for k in range(len(smooth)):
        smooth[k] += d * row_i[k] - d * row_j[k]


@compiled
def pair_length(i, j, a, bent, smooth, offsets, fields, kink, entropy):  # type: ignore[no-untyped-def]
    """How far to go along e_i − e_j."""
    _, curvature, low, high = fields
    if entropy:
        linear = smooth[i] - logit_of(a[i], low[i], high[i])
        linear -= smooth[j] - logit_of(a[j], low[j], high[j])
        return entropic_root(linear, bent, a[i], low[i], high[i], a[j], low[j], high[j], False)
    slope = smooth[i] + offsets[0, i] - smooth[j] - offsets[1, j]
    first = -a[i] if a[i] < 0 else INFINITE
    second = a[j] if a[j] > 0 else INFINITE
    room = min(high[i] - a[i], a[j] - low[j])
    bent += curvature[i] + curvature[j]
    return length_of_step(slope, bent, room, first, second, 2.0 * kink)


@compiled
def pair_steps(K, a, values, fields, kink, entropy, bounds, tolerance, limit):  # type: ignore[no-untyped-def]
    """Steps along e_i − e_j within each group, most gain first, until slopes agree to tolerance.

    It returns the number of steps, −1 where one was infinite.
    """
    widen()
    m = len(a)
    smooth, offsets, diagonal = prepared(K, a, values, fields, kink, entropy)
    scores, low, high = np.empty(m), fields[2], fields[3]
    for step in range(limit):
        i, j, worst = best_pair(K, smooth, offsets, diagonal, fields[1], scores, bounds)
        if worst <= tolerance or i < 0:
            return step
        bent = max(diagonal[i] + diagonal[j] - 2.0 * K[i, j], SMALLEST)
        d = pair_length(i, j, a, bent, smooth, offsets, fields, kink, entropy)
        if d == INFINITE:
            return -1
        before_i, before_j = a[i], a[j]
        a[i] = high[i] if d == high[i] - a[i] else a[i] + d
        a[j] = low[j] if d == a[j] - low[j] else a[j] - d
        add_difference(smooth, d, K[i], K[j])
        moved(i, before_i, a, smooth, fields, kink, entropy, offsets)
        moved(j, before_j, a, smooth, fields, kink, entropy, offsets)
    return limit
