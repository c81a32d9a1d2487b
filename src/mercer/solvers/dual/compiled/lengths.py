"""How far a step goes, and what it changes of the slopes of the coordinates that it moves."""

from __future__ import annotations

import numpy as np

from mercer.solvers.dual.compiled.terms import (
    compiled,
    gradient_of,
    left_slope,
    logit_of,
    right_slope,
)

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
