"""Values and slopes of losses at one prediction: the compiled twins of mercer.losses."""

from __future__ import annotations

import math

from mercer.online.compiled.bumps import apart, inner
from mercer.online.state import (
    HINGE,
    HUBER,
    LOGISTIC,
    MULTINOMIAL,
    NOVELTY,
    PERCEPTRON,
    POISSON,
    SQUARED,
    SQUARED_HINGE,
    TUBE,
)

ROWS_FROM = MULTINOMIAL  # codes from here on are losses of a whole row


@inner
def one_loss(code, numbers, y, f, offset):  # type: ignore[no-untyped-def]
    """The value and the slope of a loss of one prediction."""
    if code in (HINGE, PERCEPTRON, LOGISTIC, SQUARED_HINGE):
        value, slope = _margin_loss(code, y * f)
        return value, y * slope
    if code == POISSON:
        mean = math.exp(f) if f < 709.7 else math.inf
        return mean - y * f, mean - y
    if code == NOVELTY:
        missing = offset - f
        return max(missing, 0.0) - numbers[0] * offset, -1.0 if missing > 0.0 else 0.0
    return _residual_loss(code, numbers, f - y)


@inner
def _margin_loss(code, margin):  # type: ignore[no-untyped-def]
    if code == HINGE:
        return (1.0 - margin, -1.0) if margin < 1.0 else (0.0, 0.0)
    if code == PERCEPTRON:
        return (-margin, -1.0) if margin <= 0.0 else (0.0, 0.0)
    if code == SQUARED_HINGE:
        missing = max(1.0 - margin, 0.0)
        return missing * missing, -2.0 * missing
    small = math.exp(-abs(margin))  # logistic
    share = small / (1.0 + small) if margin > 0.0 else 1.0 / (1.0 + small)
    return math.log1p(small) + max(-margin, 0.0), -share


@inner
def _residual_loss(code, numbers, residual):  # type: ignore[no-untyped-def]
    if code == SQUARED:
        return 0.5 * residual * residual, residual
    if code == TUBE:
        return _tube(numbers, residual)
    if code == HUBER:
        return _huber(numbers[0], residual)
    return math.nan, math.nan


@inner
def _tube(numbers, residual):  # type: ignore[no-untyped-def]
    low, high, width = numbers[0], numbers[1], numbers[2]
    if residual > width:
        return high * (residual - width), high
    if residual < -width:
        return low * (residual + width), low
    return 0.0, 0.0


@inner
def _huber(delta, residual):  # type: ignore[no-untyped-def]
    size = abs(residual)
    bent = min(size, delta)
    return bent * (size - 0.5 * bent), min(max(residual, -delta), delta)


@inner
def row_loss(code, numbers, y, f, slope):  # type: ignore[no-untyped-def]
    """The value of a loss of a row of scores; its slopes are written into `slope`."""
    if code == MULTINOMIAL:
        return _multinomial(y, f, slope)
    return _max_margin(numbers[0], y, f, slope)


@inner
def _multinomial(y, f, slope):  # type: ignore[no-untyped-def]
    apart()
    top = 0
    for o in range(len(f)):
        if f[o] > f[top]:
            top = o
    others, share = 0.0, 0.0
    for o in range(len(f)):
        slope[o] = math.exp(f[o] - f[top])
        if o != top:
            others += slope[o]
        share += y[o] * (f[o] - f[top])
    total = 1.0 + others
    for o in range(len(f)):
        slope[o] = slope[o] / total - y[o]
    return math.log1p(others) - share


@inner
def _max_margin(margin, y, f, slope):  # type: ignore[no-untyped-def]
    """max(0, margin − f_y + max_{k≠y} f_k); with margin 0, ties count as mistakes."""
    apart()
    right, rival = -1, -1
    for o in range(len(f)):
        slope[o] = 0.0
        if y[o] > 0.0:
            right = o
        elif rival < 0 or f[o] > f[rival]:
            rival = o
    missing = margin - f[right] + f[rival]
    if missing < 0.0 or (missing == 0.0 and margin > 0.0):
        return 0.0
    slope[right], slope[rival] = -1.0, 1.0
    return missing
