"""Online learning on features: f(x) = ⟨w, φ(x)⟩ at a cost that never grows."""

from __future__ import annotations

import math

import numpy as np

from mercer.evaluation.cpu.vectors import compiled, widen
from mercer.online.compiled.bumps import TINY
from mercer.online.compiled.inner import inner
from mercer.online.compiled.walk import losses, pushed, record, right, totals
from mercer.online.state import (
    AVERAGE_SCALE,
    AVERAGE_WEIGHT,
    OFFSET,
    SCALE,
    SQUARED_NORM,
    UPDATES,
)


@compiled
def project(x, matrix, out):  # type: ignore[no-untyped-def]
    """X A, each row by itself: what a row gives does not depend on the rows around it."""
    widen()
    for i in range(len(x)):
        row = out[i]
        for j in range(len(row)):
            row[j] = 0.0
        for k in range(x.shape[1]):
            factor, line = x[i, k], matrix[k]
            for j in range(len(row)):
                row[j] += factor * line[j]


@compiled
def feature_walk(arrays, block, rules):  # type: ignore[no-untyped-def]
    """Learn the samples of a block from their features, `block.values`; returns how many."""
    reals, integers, a, b = arrays.reals, arrays.integers, arrays.a, arrays.b
    features, targets, weights, sizes = block.values, block.targets, block.weights, block.diagonal
    met = block.losses, block.gradients, block.norms
    ridge, outputs = rules.regularization, len(a)
    f, slope, values = np.empty(outputs), np.empty(outputs), np.empty(outputs)
    push = np.empty(outputs)
    for t in range(len(targets)):
        phi, weight = features[t], weights[t]
        _predict(a, phi, reals[SCALE], f)
        losses(rules.loss, rules.loss_numbers, targets, t, f, reals[OFFSET], values, slope)
        square, product, value = totals(values, slope, f)
        if not (math.isfinite(square) and math.isfinite(value)):
            return t
        mistake = rules.labels and not right(targets, t, f)
        record(reals, integers, met, t, weight, value, square, product, sizes[t], ridge, mistake)
        if len(b):
            reals[AVERAGE_SCALE] += block.averaging[t] * reals[SCALE]
            reals[AVERAGE_WEIGHT] += block.averaging[t]
        step = pushed(
            reals, rules.step, rules.step_number, ridge, rules.loss, block.steps[t], weight,
            sizes[t], values, slope, square, push,
        )  # fmt: skip
        factor = max(1.0 - step * ridge, 0.0)
        length, moved = 0.0, 0.0
        for o in range(outputs):
            length += push[o] * push[o]
            moved += push[o] * f[o]
        squared = factor * factor * reals[SQUARED_NORM] + 2.0 * factor * moved
        reals[SQUARED_NORM] = squared + length * sizes[t]
        if factor != 1.0:
            _shrink(reals, a, b, factor)
        if length > 0.0:
            integers[UPDATES] += 1
            _add(a, phi, push, 1.0 / reals[SCALE])
            if len(b):
                _add(b, phi, push, -reals[AVERAGE_SCALE] / reals[SCALE])
    return len(targets)


@inner
def _predict(a, phi, scale, f):  # type: ignore[no-untyped-def]
    """⟨w, φ⟩ for every output."""
    widen()
    for o in range(len(f)):
        total = 0.0
        for j in range(len(phi)):
            total += a[o, j] * phi[j]
        f[o] = scale * total


@inner
def _add(a, phi, push, factor):  # type: ignore[no-untyped-def]
    """W ← w + factor·push φᵀ."""
    widen()
    for o in range(len(push)):
        for j in range(len(phi)):
            a[o, j] += factor * push[o] * phi[j]


@inner
def _shrink(reals, a, b, factor):  # type: ignore[no-untyped-def]
    """W ← factor·w; where nothing is left, the average keeps what it has."""
    reals[SCALE] *= factor
    if reals[SCALE] >= TINY:
        return
    if factor > 0.0:
        reals[AVERAGE_SCALE] /= reals[SCALE]
    for o in range(len(a)):
        for j in range(a.shape[1]):
            if factor <= 0.0 and len(b):
                b[o, j] += a[o, j] * reals[AVERAGE_SCALE]
            a[o, j] *= reals[SCALE]
    reals[SCALE] = 1.0
