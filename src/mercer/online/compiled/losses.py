"""Losses of one sample: those of single scores by the code of mercer.losses, and those of rows."""

from __future__ import annotations

import math

from mercer.evaluation.cpu.vectors import inner
from mercer.losses.compiled import at
from mercer.online.compiled.bumps import apart
from mercer.online.state import MULTINOMIAL, SCALAR


@inner
def losses(kind, address, numbers, share, offset, targets, t, f, values, slope):  # type: ignore[no-untyped-def]
    """Values and slopes of the loss; one value for the whole row where it is a loss of rows."""
    if kind == SCALAR:
        for o in range(len(f)):
            y = offset if share > 0.0 else targets[t, o]
            values[o], slope[o], _ = at(address, numbers, y, f[o])
    else:
        for o in range(len(values)):
            values[o] = 0.0
        if kind == MULTINOMIAL:
            values[0] = _multinomial(targets[t], f, slope)
        else:
            values[0] = _max_margin(numbers[0], targets[t], f, slope)


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
