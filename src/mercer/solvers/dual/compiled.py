"""The compiled loops of dual ascent: terms, certificates, steps on a working set, sums of rows.

All functions see min ½αᵀKα + Σ g_i(α_i) with g_i(a) = c_i ℓ*(y_i, −a/c_i) on [low_i, high_i].
Without `code` that is −y_i a + ε|a| + ½q_i a², else the code of a loss without such a form is
called: `code` holds its address and that of its parameters, and the same of its conjugate.
`fields` holds (y, g'', low, high, c), a row each; rows are taken by number, since Numba forgets
that unpacked ones are contiguous.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mercer.evaluation.cpu import vectors
from mercer.evaluation.cpu.vectors import FLAGS, OPTIONS, widen
from mercer.losses.compiled import at, dual_pair_step, dual_step, dual_term

# ---- one term: slopes on both sides, the best response to a multiplier ---------------------------

INFINITE = np.inf
NEVER_NAN = OPTIONS | {"fastmath": FLAGS | {"nnan"}}  # so that minima and maxima are vectorised


def compiled(function: Any) -> Any:
    """Compile on the first call, and keep the result on disk."""
    return vectors.compiled(function, NEVER_NAN)


@compiled
def smooth_term(a, y, cost, code):  # type: ignore[no-untyped-def]
    """g, g' and g'' by the code of the conjugate."""
    return dual_term(code[2], code[3], y, cost, a)


@compiled
def right_slope(a, gradient, kink, high, code):  # type: ignore[no-untyped-def]
    """How the objective changes as a grows; +∞ where it may not."""
    if len(code):
        # g' tends to ∞ at the bounds of such a loss, so that steps come near them and never there:
        # what is within rounding of a bound counts as held by it, or no step would ever end it
        free = high == INFINITE or high - a > 4e-15 * abs(high) + 4e-300
        return gradient if free else INFINITE
    if a >= high:
        return INFINITE
    return gradient + (kink if a >= 0.0 else -kink)


@compiled
def left_slope(a, gradient, kink, low, code):  # type: ignore[no-untyped-def]
    """How the objective changes as a grows, seen from the left; −∞ where a may not fall."""
    if len(code):
        free = low == -INFINITE or a - low > 4e-15 * abs(low) + 4e-300
        return gradient if free else -INFINITE
    if a <= low:
        return -INFINITE
    return gradient + (kink if a > 0.0 else -kink)


@compiled
def gradient_of(value, a, y, curvature, cost, code):  # type: ignore[no-untyped-def]
    """The smooth part of the gradient: (Kα)_i − y_i + q_i a, or (Kα)_i + g'(a)."""
    if len(code):
        return value + smooth_term(a, y, cost, code)[1]
    return value - y + curvature * a


@compiled
def best_response(r, kink, curvature, low, high):  # type: ignore[no-untyped-def]
    """The a that maximises r a − ε|a| − ½q a² on [low, high]."""
    pull = max(r - kink, 0.0) + min(r + kink, 0.0)
    # without a curvature the quotient is huge, or 0 where nothing pulls, and the bounds decide
    return min(max(pull / max(curvature, 1e-300), low), high)


@compiled
def smooth_response(r, y, cost, code):  # type: ignore[no-untyped-def]
    """The a that maximises r a − g(a), the maximum, and how a grows with r.

    As g is the conjugate of cℓ(y, −·), the maximum is cℓ(y, −r), with a and a' its derivatives.
    """
    value, slope, curvature = at(code[0], code[1], y, -r)
    return -cost * slope, cost * value, cost * curvature


@compiled
def term(a, r, kink, curvature):  # type: ignore[no-untyped-def]
    """The quantity r a − ε|a| − ½q a²."""
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
def slopes(values, alpha, fields, kink, code, up, down):  # type: ignore[no-untyped-def]
    """Right and left slopes of all coordinates."""
    y, curvature, low, high, cost = fields[0], fields[1], fields[2], fields[3], fields[4]
    for i in range(len(alpha)):
        g = gradient_of(values[i], alpha[i], y[i], curvature[i], cost[i], code)
        up[i] = right_slope(alpha[i], g, kink, high[i], code)
        down[i] = left_slope(alpha[i], g, kink, low[i], code)


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
def sum_of_responses(values, fields, kink, group, which, level):  # type: ignore[no-untyped-def]
    """Σ_i of the best responses to the multiplier `level`, over one group."""
    widen()
    y, curvature, low, high = fields[0], fields[1], fields[2], fields[3]
    total = 0.0
    for i in range(len(values)):
        a = best_response(y[i] - values[i] + level, kink, curvature[i], low[i], high[i])
        total += a if group[i] == which else 0.0
    return total


@compiled
def sum_of_smooth_responses(values, fields, code, group, which, level):  # type: ignore[no-untyped-def]
    """The same by the code of a loss, and how the sum grows with the level."""
    total, growth = 0.0, 0.0
    for i in range(len(values)):
        if group[i] == which:
            a, _, grows = smooth_response(level - values[i], fields[0, i], fields[4, i], code)
            total += a
            growth += grows
    return total, growth


@compiled
def best_level(values, fields, kink, code, group, which, total, low, high, halvings):  # type: ignore[no-untyped-def]
    """The multiplier between low and high at which the best responses add up to `total`.

    Newton's method inside the bracket where the sum is smooth, halvings where it has kinks.
    """
    level = low + 0.5 * (high - low)
    for _ in range(halvings):
        if not low < level < high:
            break
        following = INFINITE
        if len(code):
            reached, growth = sum_of_smooth_responses(values, fields, code, group, which, level)
            following = level - (reached - total) / growth if growth > 0.0 else INFINITE
        else:
            reached = sum_of_responses(values, fields, kink, group, which, level)
        if reached > total:
            high = level
        else:
            low = level
        level = following if low < following < high else low + 0.5 * (high - low)
    return level


@compiled
def level_of(values, alpha, fields, kink, code, group, which, halvings, up, down):  # type: ignore[no-untyped-def]
    """The multiplier of one group, and how far its slopes are from agreeing on one."""
    least, largest, total = extremes(up, down, alpha, group, which)
    if least == INFINITE or largest == -INFINITE:
        if least < INFINITE:
            return least, 0.0
        return (largest if largest > -INFINITE else 0.0), 0.0
    if largest <= least:
        return 0.5 * (least + largest), 0.0
    level = best_level(values, fields, kink, code, group, which, total, least, largest, halvings)
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
def gap_terms(values, alpha, fields, kink, code, group, levels):  # type: ignore[no-untyped-def]
    """The gap and the primal objective.

    The gap is Σ of g_i(α_i) + g_i*(−v_i) + α_i v_i, v = Kα − level, each of which is ≥ 0.
    """
    y, curvature, low, high, cost = fields[0], fields[1], fields[2], fields[3], fields[4]
    gap, primal = 0.0, 0.0
    for i in range(len(alpha)):
        level = levels[group[i]]
        r = level - values[i]
        if len(code):
            _, best, _ = smooth_response(r, y[i], cost[i], code)
            own = r * alpha[i] - smooth_term(alpha[i], y[i], cost[i], code)[0]
        else:
            r += y[i]
            response = best_response(r, kink, curvature[i], low[i], high[i])
            best = term(response, r, kink, curvature[i])
            own = term(alpha[i], r, kink, curvature[i])
        # term by term: the difference of two large sums would lose all digits of a small gap
        gap += max(best - own, 0.0)
        primal += best + alpha[i] * (0.5 * values[i] - level)
    return gap, primal


@compiled
def certificate(values, alpha, fields, kink, code, group, groups, halvings, up, down, levels):  # type: ignore[no-untyped-def]
    """The gap, the primal objective and the largest violation; sets slopes and multipliers."""
    slopes(values, alpha, fields, kink, code, up, down)
    violation = 0.0 if groups else largest_pull(up, down)
    for g in range(groups):
        levels[g], apart = level_of(values, alpha, fields, kink, code, group, g, halvings, up, down)
        violation = max(violation, apart)
    gap, primal = gap_terms(values, alpha, fields, kink, code, group, levels)
    return gap, primal, violation


# ---- the length of a step ------------------------------------------------------------------------

LEAST_CURVATURE = 1e-12  # of a step, below which the kernel is taken for indefinite there


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
def refresh(i, a, fields, kink, code, offsets):  # type: ignore[no-untyped-def]
    """Update the offsets of both slopes at coordinate i, and the curvature of its conjugate."""
    low, high = fields[2, i], fields[3, i]
    offsets[0, i] = right_slope(a[i], 0.0, kink, high, code)
    offsets[1, i] = left_slope(a[i], 0.0, kink, low, code)
    if len(code) and low < high:
        fields[1, i] = smooth_term(a[i], fields[0, i], fields[4, i], code)[2]


@compiled
def prepared(K, a, values, fields, kink, code):  # type: ignore[no-untyped-def]
    """The smooth gradient, the offsets of both slopes, and the diagonal."""
    m = len(a)
    smooth, diagonal, offsets = np.empty(m), np.empty(m), np.empty((2, m))
    y, curvature, cost = fields[0], fields[1], fields[4]
    for i in range(m):
        smooth[i] = gradient_of(values[i], a[i], y[i], curvature[i], cost[i], code)
        # float32 rows, and kernels that are none, have diagonals that are 0 or less
        diagonal[i] = max(K[i, i], LEAST_CURVATURE)
        refresh(i, a, fields, kink, code, offsets)
    return smooth, offsets, diagonal


@compiled
def moved(i, before, a, smooth, fields, kink, code, offsets):  # type: ignore[no-untyped-def]
    """Update the slopes at coordinate i after a step, but for Kα."""
    if len(code):
        y, cost = fields[0, i], fields[4, i]
        smooth[i] += smooth_term(a[i], y, cost, code)[1] - smooth_term(before, y, cost, code)[1]
    else:
        smooth[i] += fields[1, i] * (a[i] - before)
    refresh(i, a, fields, kink, code, offsets)


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
    # the gain (difference²/curvature, Fan, Chen and Lin 2005) rather than the largest violation: it
    # costs a pass over a row of K, which is in the cache, and takes far fewer steps
    best, worst = 0.0, -INFINITE
    for j in range(len(smooth)):
        difference = smooth[j] + offset[j] - least
        worst = larger(worst, difference)
        positive = larger(difference, 0.0)
        bent = larger(own + diagonal[j] + curvature[j] - 2.0 * row[j], LEAST_CURVATURE)
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
    """Add the change of Kα after a step of a pair."""
    widen()
    for k in range(len(smooth)):
        smooth[k] += d * row_i[k] - d * row_j[k]


@compiled
def pair_length(i, j, a, bent, smooth, offsets, fields, kink, code):  # type: ignore[no-untyped-def]
    """How far to go along e_i − e_j."""
    curvature, low, high = fields[1], fields[2], fields[3]
    if len(code):
        y, cost = fields[0], fields[4]
        linear = smooth[i] - smooth_term(a[i], y[i], cost[i], code)[1]
        linear -= smooth[j] - smooth_term(a[j], y[j], cost[j], code)[1]
        return dual_pair_step(
            code[2], code[3], linear, bent, y[i], cost[i], a[i], low[i], high[i],
            y[j], cost[j], a[j], low[j], high[j],
        )  # fmt: skip
    slope = smooth[i] + offsets[0, i] - smooth[j] - offsets[1, j]
    first = -a[i] if a[i] < 0 else INFINITE
    second = a[j] if a[j] > 0 else INFINITE
    room = min(high[i] - a[i], a[j] - low[j])
    bent += curvature[i] + curvature[j]
    return length_of_step(slope, bent, room, first, second, 2.0 * kink)


@compiled
def pair_steps(K, a, values, fields, kink, code, bounds, tolerance, limit):  # type: ignore[no-untyped-def]
    """Steps along e_i − e_j within each group, most gain first, until slopes agree to tolerance.

    It returns the number of steps, −1 where one was infinite.
    """
    widen()
    m = len(a)
    smooth, offsets, diagonal = prepared(K, a, values, fields, kink, code)
    rising, falling = offsets[0], offsets[1]
    curvature, low, high = fields[1], fields[2], fields[3]
    scores = np.empty(m)
    for step in range(limit):
        i, j, worst = best_pair(K, smooth, rising, falling, diagonal, curvature, scores, bounds)
        if worst <= tolerance or i < 0:
            return step
        bent = max(diagonal[i] + diagonal[j] - 2.0 * K[i, j], LEAST_CURVATURE)
        d = pair_length(i, j, a, bent, smooth, offsets, fields, kink, code)
        if d == INFINITE:
            return -1
        before_i, before_j = a[i], a[j]
        # exactly onto a bound: a + (high − a) may miss it by rounding, and would stay free
        a[i] = high[i] if d == high[i] - a[i] else a[i] + d
        a[j] = low[j] if d == a[j] - low[j] else a[j] - d
        add_difference(smooth, d, K[i], K[j])
        moved(i, before_i, a, smooth, fields, kink, code, offsets)
        moved(j, before_j, a, smooth, fields, kink, code, offsets)
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
def single_move(i, a, bent, smooth, offsets, fields, kink, code):  # type: ignore[no-untyped-def]
    """Where to put coordinate i."""
    curvature, low, high = fields[1], fields[2], fields[3]
    if len(code):
        y, cost = fields[0, i], fields[4, i]
        linear = smooth[i] - smooth_term(a[i], y, cost, code)[1]
        return a[i] + dual_step(
            code[2], code[3], linear, bent, y, cost, a[i], low[i], high[i]
        )  # fmt: skip
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
def single_steps(K, a, values, fields, kink, code, tolerance, limit):  # type: ignore[no-untyped-def]
    """Steps along e_i, most gain first, until every slope is 0 or held by a bound, to tolerance.

    It returns the number of steps, −1 where one was infinite.
    """
    widen()
    m = len(a)
    smooth, offsets, diagonal = prepared(K, a, values, fields, kink, code)
    scores = np.empty(m)
    for step in range(limit):
        i, worst = steepest(smooth, offsets[0], offsets[1], diagonal, fields[1], scores)
        if worst <= tolerance or i < 0:
            return step
        before = a[i]
        a[i] = single_move(i, a, diagonal[i], smooth, offsets, fields, kink, code)
        d = a[i] - before
        if abs(d) == INFINITE:
            return -1
        row = K[i]
        for k in range(m):
            smooth[k] += d * row[k]
        moved(i, before, a, smooth, fields, kink, code, offsets)
    return limit


# ---- sums of rows of a stored matrix -------------------------------------------------------------

SUM_CHUNK = 2048  # values that stay in the first-level cache while rows are added to them


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
    for a in range(start, stop, SUM_CHUNK):
        b = min(a + SUM_CHUNK, stop)
        part = values[a:b]
        shift = column - start
        for k in range(len(slots)):
            row = store[slots[k]][a + shift : b + shift]
            factor = factors[k]
            for j in range(len(part)):
                part[j] += factor * row[j]
