"""Slopes of all coordinates, the multipliers of sums, and the duality gap."""

from __future__ import annotations

from mercer.evaluation.cpu.vectors import widen
from mercer.solvers.dual.compiled.extremes import larger, smaller
from mercer.solvers.dual.compiled.terms import (
    INFINITE,
    best_response,
    compiled,
    gradient_of,
    left_slope,
    right_slope,
    term,
)


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
