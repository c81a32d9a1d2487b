"""One term g_i: its slopes on both sides, and the best response to a multiplier."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.evaluation.cpu import vectors
from mercer.evaluation.cpu.vectors import FLAGS, OPTIONS

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
