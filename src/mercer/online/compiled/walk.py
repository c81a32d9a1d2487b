"""The step of every online machine, and the walk over a block of samples."""

from __future__ import annotations

import math

import numpy as np

from mercer.evaluation.cpu.vectors import compiled
from mercer.online.compiled.bumps import function_values, insert, kernel_row, shrink
from mercer.online.compiled.inner import inner
from mercer.online.compiled.losses import ROWS_FROM, one_loss, row_loss
from mercer.online.compiled.policies import maintain
from mercer.online.state import (
    ADAPTIVE,
    AGGRESSIVE,
    AVERAGE_SCALE,
    AVERAGE_WEIGHT,
    COUNT,
    GRADIENTS,
    LOSS_SUM,
    MISTAKES,
    NOVELTY,
    OFFSET,
    OUTSIDE,
    ROUNDS,
    SCALE,
    SOFT_AGGRESSIVE,
    SQUARED_NORM,
    UNBOUNDED,
    UPDATES,
)


@compiled
def walk(arrays, block, rules):  # type: ignore[no-untyped-def]
    """Learn the samples of a block one after the other; returns how many, less on overflow."""
    outputs = arrays.a.shape[1]
    row = np.empty(len(arrays.a))
    f, slope, values = np.empty(outputs), np.empty(outputs), np.empty(outputs)
    for t in range(len(block.targets)):
        looked(arrays, block, t, row, f)
        losses(rules, block.targets[t], f, arrays.reals[OFFSET], values, slope)
        if not learned(arrays, block, rules, t, row, f, values, slope):
            return t
    return len(block.targets)


@inner
def looked(arrays, block, t, row, f):  # type: ignore[no-untyped-def]
    """Row of kernel values and prediction at sample t."""
    kernel_row(arrays, block, t, row)
    function_values(arrays, row, f)


@inner
def losses(rules, y, f, offset, values, slope):  # type: ignore[no-untyped-def]
    """Values and slopes of the loss; one value for the whole row where it is a loss of rows."""
    if rules.loss >= ROWS_FROM:
        for o in range(len(values)):
            values[o] = 0.0
        values[0] = row_loss(rules.loss, rules.loss_numbers, y, f, slope)
    else:
        for o in range(len(f)):
            values[o], slope[o] = one_loss(rules.loss, rules.loss_numbers, y[o], f[o], offset)


@inner
def prepared(arrays, block, rules, t, f, values, slope, push):  # type: ignore[no-untyped-def]
    """Record the loss and find the new coefficient; the step, or −1 where numbers overflow."""
    square, product, value = 0.0, 0.0, 0.0
    for o in range(len(f)):
        square += slope[o] * slope[o]
        product += slope[o] * f[o]
        value += values[o]
    if not (math.isfinite(square) and math.isfinite(value)):
        return -1.0
    _record(arrays, block, rules, t, f, value, square, product)
    return _pushed(arrays, rules, t, block, values, slope, square, push)


@inner
def learned(arrays, block, rules, t, row, f, values, slope):  # type: ignore[no-untyped-def]
    """F ← (1 − ηλ)f − η w ℓ' k(x_t, ·), and what follows; False where numbers overflow."""
    push = np.empty(len(f))
    step = prepared(arrays, block, rules, t, f, values, slope, push)
    if step < 0.0:
        return False
    size, moved = 0.0, 0.0
    for o in range(len(f)):
        size += push[o] * push[o]
        moved += push[o] * f[o]
    factor = max(1.0 - step * rules.regularization, 0.0)
    if factor != 1.0:
        shrink(arrays, factor)
    if rules.kept_norm:
        arrays.reals[SQUARED_NORM] += 2.0 * factor * moved + size * block.diagonal[t]
    if rules.loss == NOVELTY:
        arrays.reals[OFFSET] += step * block.weights[t] * (rules.loss_numbers[0] + slope[0])
    if size > 0.0:
        arrays.integers[UPDATES] += 1
        insert(arrays, block, t, row, push, rules.policy)
        over = rules.policy != UNBOUNDED and rules.policy != OUTSIDE
        if over and arrays.integers[COUNT] > rules.size:
            maintain(arrays, rules)
    return True


@inner
def _record(arrays, block, rules, t, f, value, square, product):  # type: ignore[no-untyped-def]
    """What the prediction cost, before anything is learned from it."""
    reals, integers, ridge = arrays.reals, arrays.integers, rules.regularization
    weight = block.weights[t]
    block.losses[t] = weight * value
    block.norms[t] = reals[SQUARED_NORM]
    block.gradients[t] = (
        weight * weight * square * block.diagonal[t]
        + 2.0 * ridge * weight * product
        + ridge * ridge * reals[SQUARED_NORM]
    )
    reals[LOSS_SUM] += weight * value
    reals[GRADIENTS] += weight * weight * square * block.diagonal[t]
    integers[ROUNDS] += 1
    if rules.labels:
        integers[MISTAKES] += 0 if _right(block.targets[t], f) else 1
    if len(arrays.b):
        reals[AVERAGE_SCALE] += block.averaging[t] * reals[SCALE]
        reals[AVERAGE_WEIGHT] += block.averaging[t]


@inner
def _right(y, f):  # type: ignore[no-untyped-def]
    """Whether the label that f predicts is y: the sign of one score, the largest of several."""
    if len(f) == 1:
        return (f[0] > 0.0) == (y[0] > 0.0)
    top = 0
    for o in range(1, len(f)):
        if f[o] > f[top]:
            top = o
    return y[top] > 0.0


@inner
def _pushed(arrays, rules, t, block, values, slope, square, push):  # type: ignore[no-untyped-def]
    """The new coefficient; returns the step η."""
    weight, size = block.weights[t], block.diagonal[t]
    if rules.step == AGGRESSIVE or rules.step == SOFT_AGGRESSIVE:
        _aggressive(rules, values, slope, square, size, weight, push)
        return 1.0
    step = block.steps[t]
    if rules.step == ADAPTIVE:
        met = arrays.reals[GRADIENTS]
        step = rules.step_number / math.sqrt(met) if met > 0.0 else 0.0
        if rules.regularization > 0.0:
            step = min(step, 1.0 / rules.regularization)
    for o in range(len(push)):
        push[o] = -step * weight * slope[o]
    return step


@inner
def _aggressive(rules, values, slope, square, size, weight, push):  # type: ignore[no-untyped-def]
    """The shortest step that mends the loss, at most C, or softened by it."""
    for o in range(len(push)):
        joint = rules.loss >= ROWS_FROM
        value, steep = (values[0], square) if joint else (values[o], slope[o] * slope[o])
        push[o] = 0.0
        if value > 0.0 and steep > 0.0:
            bound = weight * rules.step_number
            if rules.step == AGGRESSIVE:
                step = bound if steep * size * bound <= value else value / (steep * size)
            else:
                step = value / (steep * size + 0.5 / bound)
            push[o] = -step * slope[o]


@compiled
def look(arrays, block, row, f):  # type: ignore[no-untyped-def]
    """The prediction at the only sample of a block, for a loss that is asked from Python."""
    looked(arrays, block, 0, row, f)


@compiled
def learn(arrays, block, rules, row, f, values, slope):  # type: ignore[no-untyped-def]
    """Learn that sample."""
    return learned(arrays, block, rules, 0, row, f, values, slope)
