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
def best_of_group(K, start, smooth, rising, falling, diagonal, curvature, scores):  # type: ignore[no-untyped-def]
    """The pair of a group whose step gains most, its gain, and the largest violation.

    K is the matrix of all, of which the group begins at `start`.
    """
    i, least = least_up(smooth, rising, scores)
    if least == INFINITE:
        return -1, -1, 0.0, -INFINITE
    own, row = diagonal[i] + curvature[i], K[start + i][start : start + len(smooth)]
    j, gain, worst = best_partner(own, least, row, diagonal, smooth, falling, curvature, scores)
    return start + i, start + j, gain, worst


@compiled
def best_pair(K, smooth, rising, falling, diagonal, curvature, scores, bounds):  # type: ignore[no-untyped-def]
    """The pair of one group whose step gains most, and the largest violation of all groups."""
    if len(bounds) == 2:  # slices take as long as the search among a hundred
        i, j, gain, worst = best_of_group(
            K, 0, smooth, rising, falling, diagonal, curvature, scores
        )
        return (i if gain > 0.0 else -1), j, worst
    first, second, most, worst = -1, -1, 0.0, -INFINITE
    for g in range(len(bounds) - 1):
        start, here = bounds[g], slice(bounds[g], bounds[g + 1])
        i, j, gain, violation = best_of_group(
            K,
            start,
            smooth[here],
            rising[here],
            falling[here],
            diagonal[here],
            curvature[here],
            scores[here],
        )
        worst = max(worst, violation)
        if gain > most:
            first, second, most = i, j, gain
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
    curvature, low, high = fields[1], fields[2], fields[3]
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
    rising, falling = offsets[0], offsets[1]
    curvature, low, high = fields[1], fields[2], fields[3]
    scores = np.empty(m)
    for step in range(limit):
        i, j, worst = best_pair(K, smooth, rising, falling, diagonal, curvature, scores, bounds)
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
