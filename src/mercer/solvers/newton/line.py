"""The length of a step: a convex function of one variable, searched by its slope."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

SEARCHES = 80
FLAT = 0.3  # share of the first slope that may be left
FALL = 1e-4  # share of the fall that the first slope promises


@dataclass(frozen=True)
class At:
    """A convex function at one place: its value, slope and curvature."""

    value: float
    slope: float
    bend: float


def step_length(function: Callable[[float], At], start: At) -> float:
    """A t > 0 with a lower value and a much smaller slope; 1 if it is good enough, 0 if none is.

    >>> parabola = lambda t: At((t - 3.0) ** 2, 2 * (t - 3.0), 2.0)
    >>> step_length(parabola, parabola(0.0))
    3.0
    """
    if not start.slope < 0:
        return 0.0
    low, high, t = 0.0, math.inf, 1.0
    slack = 1e-15 * abs(start.value)
    best, last = 0.0, math.inf
    for _ in range(SEARCHES):
        here = function(t)
        finite = math.isfinite(here.value) and math.isfinite(here.slope)
        if finite and here.value <= start.value + FALL * t * start.slope + slack:
            best = t
            if abs(here.slope) <= FLAT * abs(start.slope):
                return t
        if finite and here.slope < 0:
            low = t
        else:
            high = t
        following = _next(t, low, high, here if finite else None, last)
        t, last = following, abs(following - t)
        if not low < t < high:
            break
    return best


def _next(t: float, low: float, high: float, here: At | None, last: float) -> float:
    """Newton's step where it halves the last one inside the bracket; else a cut of the bracket."""
    newton = t - here.slope / here.bend if here is not None and here.bend > 0 else math.nan
    if math.isinf(high):
        return min(newton, 4.0 * t) if newton > low else 4.0 * t
    if low < newton < high and 2.0 * abs(newton - t) <= last:
        return newton
    return low + (0.5 if low > 0.0 else 0.1) * (high - low)
