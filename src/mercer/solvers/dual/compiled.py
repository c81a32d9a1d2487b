"""The compiled loops of dual ascent: terms, certificates, steps on a working set, sums of rows.

All functions see min ½αᵀKα + Σ g_i(α_i) with g_i(a) = −t_i a + ε|a| + ½q_i a² on [low_i, high_i],
or with an entropy in place of the last two terms. `fields` holds (t, q, low, high), a row each;
rows are taken by number, since Numba forgets that unpacked ones are contiguous.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mercer.evaluation.cpu import vectors
from mercer.evaluation.cpu.vectors import FLAGS, OPTIONS, widen

# ---- one term: slopes on both sides, the best response to a multiplier ---------------------------

INFINITE = np.inf
NEVER_NAN = OPTIONS | {"fastmath": FLAGS | {"nnan"}}  # so that minima and maxima are vectorised


def compiled(function: Any) -> Any:
    """Compile on the first call, and keep the result on disk."""
    return vectors.compiled(function, NEVER_NAN)


@compiled
def logit_of(a, low, high):  # type: ignore[no-untyped-def]
    """g'(a) of the entropy: ±log(s/(1 − s)), s the share of the interval that a has covered."""
    return np.log((a - low) / (high - a)) if low < high else 0.0


@compiled
def right_slope(a, gradient, kink, high, entropy):  # type: ignore[no-untyped-def]
    """How the objective changes as a grows; +∞ where it may not."""
    if entropy:
        return gradient if high - a > 1e-15 * abs(high) + 1e-300 else INFINITE
    if a >= high:
        return INFINITE
    return gradient + (kink if a >= 0.0 else -kink)


@compiled
def left_slope(a, gradient, kink, low, entropy):  # type: ignore[no-untyped-def]
    """How the objective changes as a grows, seen from the left; −∞ where a may not fall."""
    if entropy:
        return gradient if a - low > 1e-15 * abs(low) + 1e-300 else -INFINITE
    if a <= low:
        return -INFINITE
    return gradient + (kink if a > 0.0 else -kink)


@compiled
def gradient_of(value, a, target, curvature, low, high, entropy):  # type: ignore[no-untyped-def]
    """The smooth part of the gradient: (Kα)_i − t_i + q_i a, or with the entropy's."""
    if entropy:
        return value + logit_of(a, low, high)
    return value - target + curvature * a


@compiled
def best_response(r, kink, curvature, low, high, entropy):  # type: ignore[no-untyped-def]
    """The a that maximises r a − ε|a| − ½q a², or with the entropy, on [low, high]."""
    if entropy:
        share = 1.0 / (1.0 + np.exp(-abs(r)))
        return low + (high - low) * (share if r > 0 else 1.0 - share)
    pull = max(r - kink, 0.0) + min(r + kink, 0.0)
    return min(max(pull / max(curvature, 1e-300), low), high)


@compiled
def term(a, r, kink, curvature, low, high, entropy):  # type: ignore[no-untyped-def]
    """The quantity r a − ε|a| − ½q a², or with the entropy."""
    if entropy:
        width = high - low
        share = (a - low) / width if width > 0 else 0.0
        total = 0.0
        if 0.0 < share < 1.0:
            total = share * np.log(share) + (1.0 - share) * np.log1p(-share)
        return r * a - width * total
    if a == 0.0:
        return 0.0
    return r * a - kink * abs(a) - 0.5 * curvature * a * a


# ---- extremes that the compiler vectorises -------------------------------------------------------
#
# LLVM keeps a minimum in one register, and waits for it in every turn of a loop, unless the
# comparison itself says that no number is NaN. Numba's `min` and `max` do not say so; these do.


def _chosen(instruction: str) -> Any:
    """A function of two float64 numbers, neither of them NaN."""

    def typed(typing_context: Any, a: Any, b: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            number = ir.DoubleType()
            shape = ir.FunctionType(number, [number, number])
            function = builder.module.declare_intrinsic(instruction, [number], shape)
            return builder.call(function, arguments, fastmath=("nnan", "nsz"))

        return types.float64(types.float64, types.float64), code

    return intrinsic(typed)


smaller = _chosen("llvm.minnum")
larger = _chosen("llvm.maxnum")


@compiled
def place_of(value, array):  # type: ignore[no-untyped-def]
    """The first place where the array holds the value, −1 where it does not."""
    widen()
    n = len(array)
    place = n
    for i in range(n):
        place = min(place, i if array[i] == value else n)
    return place if place < n else -1


# ---- multipliers of sums, and the duality gap ----------------------------------------------------


@compiled
def slopes(values, alpha, fields, kink, entropy, up, down):  # type: ignore[no-untyped-def]
    """Right and left slopes of all coordinates."""
    target, curvature, low, high = fields[0], fields[1], fields[2], fields[3]
    for i in range(len(alpha)):
        g = gradient_of(values[i], alpha[i], target[i], curvature[i], low[i], high[i], entropy)
        up[i] = right_slope(alpha[i], g, kink, high[i], entropy)
        down[i] = left_slope(alpha[i], g, kink, low[i], entropy)


@compiled
def extremes(up, down, alpha, group, which):  # type: ignore[no-untyped-def]
    """The least right slope, the largest left slope, and Σα of one group."""
    widen()
    least, largest, total = INFINITE, -INFINITE, 0.0
    for i in range(len(up)):
        mine = group[i] == which
        least = smaller(least, up[i] if mine else INFINITE)
        largest = larger(largest, down[i] if mine else -INFINITE)
        total += alpha[i] if mine else 0.0
    return least, largest, total


@compiled
def sum_of_responses(values, fields, kink, entropy, group, which, level):  # type: ignore[no-untyped-def]
    """Σ_i of the best responses to the multiplier `level`, over one group."""
    widen()
    target, curvature, low, high = fields[0], fields[1], fields[2], fields[3]
    total = 0.0
    if entropy:
        for i in range(len(values)):
            r = level - values[i]
            a = best_response(r, kink, curvature[i], low[i], high[i], True)
            total += a if group[i] == which else 0.0
    else:
        for i in range(len(values)):
            r = target[i] - values[i] + level
            a = best_response(r, kink, curvature[i], low[i], high[i], False)
            total += a if group[i] == which else 0.0
    return total


@compiled
def best_level(values, fields, kink, entropy, group, which, total, low, high, halvings):  # type: ignore[no-untyped-def]
    """The multiplier between low and high at which the best responses add up to `total`."""
    for _ in range(halvings):
        middle = low + 0.5 * (high - low)
        if not low < middle < high:
            break
        found = sum_of_responses(values, fields, kink, entropy, group, which, middle)
        if found > total:
            high = middle
        else:
            low = middle
    return low + 0.5 * (high - low)


@compiled
def level_of(values, alpha, fields, kink, entropy, group, which, halvings, up, down):  # type: ignore[no-untyped-def]
    """The multiplier of one group, and how far its slopes are from agreeing on one."""
    least, largest, total = extremes(up, down, alpha, group, which)
    if least == INFINITE or largest == -INFINITE:
        if least < INFINITE:
            return least, 0.0
        return (largest if largest > -INFINITE else 0.0), 0.0
    if largest <= least:
        return 0.5 * (least + largest), 0.0
    level = best_level(values, fields, kink, entropy, group, which, total, least, largest, halvings)
    return level, largest - least


@compiled
def largest_pull(up, down):  # type: ignore[no-untyped-def]
    """How far slopes are from 0, where coordinates are free of each other."""
    widen()
    worst = 0.0
    for i in range(len(up)):
        worst = larger(worst, larger(-up[i], down[i]))
    return worst


@compiled
def gap_terms(values, alpha, fields, kink, entropy, group, levels):  # type: ignore[no-untyped-def]
    """The gap and the primal objective.

    The gap is Σ of g_i(α_i) + g_i*(−v_i) + α_i v_i, v = Kα − level, each of which is ≥ 0.
    """
    target, curvature, low, high = fields[0], fields[1], fields[2], fields[3]
    gap, primal = 0.0, 0.0
    for i in range(len(alpha)):
        level = levels[group[i]]
        r = target[i] - values[i] + level
        response = best_response(r, kink, curvature[i], low[i], high[i], entropy)
        best = term(response, r, kink, curvature[i], low[i], high[i], entropy)
        own = term(alpha[i], r, kink, curvature[i], low[i], high[i], entropy)
        gap += max(best - own, 0.0)
        primal += best + alpha[i] * (0.5 * values[i] - level)
    return gap, primal


@compiled
def certificate(values, alpha, fields, kink, entropy, group, groups, halvings, up, down, levels):  # type: ignore[no-untyped-def]
    """The gap, the primal objective and the largest violation; sets slopes and multipliers."""
    slopes(values, alpha, fields, kink, entropy, up, down)
    violation = 0.0 if groups else largest_pull(up, down)
    for g in range(groups):
        levels[g], apart = level_of(
            values, alpha, fields, kink, entropy, group, g, halvings, up, down
        )
        violation = max(violation, apart)
    gap, primal = gap_terms(values, alpha, fields, kink, entropy, group, levels)
    return gap, primal, violation


# ---- the length of a step ------------------------------------------------------------------------

SMALLEST = 1e-12  # curvature of a step below which the kernel is taken for indefinite there
ROOT_STEPS = 100


@compiled
def length_of_step(slope, curvature, reach, first, second, jump):  # type: ignore[no-untyped-def]
    """The d in [0, reach] with the least slope·d + ½curvature·d², which bends up at two kinks."""
    if second < first:
        first, second = second, first
    for kink in (first, second):
        if 0.0 < kink < reach:
            if slope + curvature * kink <= 0.0:
                slope += jump
                if slope + curvature * kink >= 0.0:
                    return kink
            else:
                break
    if curvature * reach <= -slope:
        return reach
    return -slope / curvature


@compiled
def entropic_root(linear, curvature, a, low, high, b, low_b, high_b, alone):  # type: ignore[no-untyped-def]
    """The d with linear + curvature·d + logit(a + d) − logit(b − d) = 0; b is left out if alone."""
    left, right = low - a, high - a
    if not alone:
        left, right = max(left, b - high_b), min(right, b - low_b)
    d = 0.0
    for _ in range(ROOT_STEPS):
        value = linear + curvature * d + logit_of(a + d, low, high)
        slope = curvature + (high - low) / ((a + d - low) * (high - a - d))
        if not alone:
            value -= logit_of(b - d, low_b, high_b)
            slope += (high_b - low_b) / ((b - d - low_b) * (high_b - b + d))
        if value > 0:
            right = d
        else:
            left = d
        following = d - value / slope
        if not left < following < right:
            following = left + 0.5 * (right - left)
        moved = abs(following - d)
        d = following
        if moved <= 1e-15 * (abs(a) + abs(d)):
            break
    return d


@compiled
def refresh(i, a, fields, kink, entropy, offsets):  # type: ignore[no-untyped-def]
    """What the slopes of coordinate i add to the smooth gradient, and the entropy's curvature."""
    low, high = fields[2, i], fields[3, i]
    offsets[0, i] = right_slope(a[i], 0.0, kink, high, entropy)
    offsets[1, i] = left_slope(a[i], 0.0, kink, low, entropy)
    if entropy and low < high:
        fields[1, i] = (high - low) / ((a[i] - low) * (high - a[i]))


@compiled
def prepared(K, a, values, fields, kink, entropy):  # type: ignore[no-untyped-def]
    """The smooth gradient, the offsets of both slopes, and the diagonal."""
    m = len(a)
    smooth, diagonal, offsets = np.empty(m), np.empty(m), np.empty((2, m))
    target, curvature, low, high = fields[0], fields[1], fields[2], fields[3]
    for i in range(m):
        smooth[i] = gradient_of(values[i], a[i], target[i], curvature[i], low[i], high[i], entropy)
        diagonal[i] = max(K[i, i], SMALLEST)
        refresh(i, a, fields, kink, entropy, offsets)
    return smooth, offsets, diagonal


@compiled
def moved(i, before, a, smooth, fields, kink, entropy, offsets):  # type: ignore[no-untyped-def]
    """What a step of coordinate i changes of its own slopes, beside Kα."""
    if entropy:
        low, high = fields[2, i], fields[3, i]
        smooth[i] += logit_of(a[i], low, high) - logit_of(before, low, high)
    else:
        smooth[i] += fields[1, i] * (a[i] - before)
    refresh(i, a, fields, kink, entropy, offsets)


# ---- steps along e_i − e_j, which keep the sums of groups ----------------------------------------


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


# ---- steps along e_i, where coordinates are free of each other -----------------------------------


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


# ---- sums of rows of a stored matrix -------------------------------------------------------------

CHUNK = 2048  # values that stay in the first-level cache while rows are added to them


@compiled
def gather(store, slots, columns, out):  # type: ignore[no-untyped-def]
    """Copy K[slots][:, columns]."""
    for i in range(len(slots)):
        row = store[slots[i]]
        for j in range(len(columns)):
            out[i, j] = row[columns[j]]


@compiled
def add_rows(store, slots, factors, values, start, stop, column):  # type: ignore[no-untyped-def]
    """Add Σ_k factors_k · store[slots_k] to the values from start to stop.

    The value at `start` belongs to the given column of the store, and so on from there.
    """
    widen()
    for a in range(start, stop, CHUNK):
        b = min(a + CHUNK, stop)
        part = values[a:b]
        shift = column - start
        for k in range(len(slots)):
            row = store[slots[k]][a + shift : b + shift]
            factor = factors[k]
            for j in range(len(part)):
                part[j] += factor * row[j]
