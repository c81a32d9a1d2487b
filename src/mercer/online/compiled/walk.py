"""The step of every online machine, and the walk over a block of samples."""

from __future__ import annotations

import math

import numpy as np

from mercer.evaluation.cpu.vectors import compiled
from mercer.online.compiled.bumps import (
    drop,
    drop_column,
    function_values,
    insert,
    insert_rest,
    kernel_row,
    shrink,
)
from mercer.online.compiled.inner import copy_row, inner, least
from mercer.online.compiled.losses import ROWS_FROM, one_loss, row_loss
from mercer.online.compiled.policies import maintain, merge
from mercer.online.state import (
    ADAPTIVE,
    AGGRESSIVE,
    AVERAGE_SCALE,
    AVERAGE_WEIGHT,
    COUNT,
    FOREIGN,
    GRADIENTS,
    LOSS_SUM,
    MERGING,
    MISTAKES,
    NOVELTY,
    OFFSET,
    OLDEST,
    OUTSIDE,
    ROUNDS,
    SCALE,
    SOFT_AGGRESSIVE,
    SQUARED_NORM,
    UNBOUNDED,
    UPDATES,
)


@compiled
def walk(arrays, block, rules):  # type: ignore[no-untyped-def]  # noqa: C901
    """Learn the samples of a block one after the other; returns how many, less on overflow.

    What every sample needs is taken out of the tuples once: each look into one counts references.
    """
    reals, integers, a, b = arrays.reals, arrays.integers, arrays.a, arrays.b
    columns, centres, ages = arrays.columns, arrays.centres, arrays.ages
    sizes, rows, block_rows = arrays.diagonal, arrays.rows, block.rows
    kernel, seen, diagonal = block.values, block.seen, block.diagonal
    targets, weights, steps, averaging = block.targets, block.weights, block.steps, block.averaging
    met = block.losses, block.gradients, block.norms
    ridge, policy, size = rules.regularization, rules.policy, rules.size
    code, numbers = rules.loss, rules.loss_numbers
    bounded = policy != UNBOUNDED and policy != OUTSIDE
    outputs = a.shape[1]
    row, push = np.empty(len(a)), np.empty(outputs)
    f, slope, values = np.empty(outputs), np.empty(outputs), np.empty(outputs)
    for t in range(len(targets)):
        count, weight = integers[COUNT], weights[t]
        kernel_row(centres, columns, count, kernel, seen, diagonal[t], t, row)
        function_values(a, reals[SCALE], count, row, f)
        if code == FOREIGN:
            if not answered(block, t, f, values, slope):
                return t
        else:
            losses(code, numbers, targets, t, f, reals[OFFSET], values, slope)
        square, product, value = totals(values, slope, f)
        if not (math.isfinite(square) and math.isfinite(value)):
            return t
        mistake = rules.labels and not right(targets, t, f)
        record(reals, integers, met, t, weight, value, square, product, diagonal[t], ridge, mistake)
        if len(b):
            reals[AVERAGE_SCALE] += averaging[t] * reals[SCALE]
            reals[AVERAGE_WEIGHT] += averaging[t]
        step = pushed(
            reals, rules.step, rules.step_number, ridge, code, steps[t], weight, diagonal[t],
            values, slope, square, push,
        )  # fmt: skip
        factor, length, moved = max(1.0 - step * ridge, 0.0), 0.0, 0.0
        for o in range(outputs):
            length += push[o] * push[o]
            moved += push[o] * f[o]
        if factor != 1.0:
            shrink(reals, integers, a, b, factor)
        if rules.kept_norm:
            reals[SQUARED_NORM] += 2.0 * factor * moved + length * diagonal[t]
        if code == NOVELTY:
            reals[OFFSET] += step * weight * (numbers[0] + slope[0])
        if length > 0.0:
            integers[UPDATES] += 1
            slot = insert(
                integers, a, b, sizes, ages, columns, push, reals[SCALE], reals[AVERAGE_SCALE],
                diagonal[t], kernel.shape[1] - len(targets) + t,
            )  # fmt: skip
            for k in range(len(centres)):
                centres[k, slot] = seen[t, k]
            if policy == MERGING:
                copy_row(rows, slot, block_rows, t)
            elif policy != UNBOUNDED and policy != OLDEST:
                insert_rest(arrays, block, t, slot, row, policy)
            if bounded and slot >= size:
                if policy == OLDEST:  # the quickest ones go without a look into the tuples
                    oldest = least(ages, size + 1)
                    drop(integers, a, b, sizes, ages, columns, oldest)
                    drop_column(centres, size, oldest)
                elif policy == MERGING:
                    merge(integers, a, b, sizes, ages, columns, centres, rows)
                else:
                    maintain(arrays, rules)
    return len(targets)


@inner
def answered(block, t, f, values, slope):  # type: ignore[no-untyped-def]
    """Values and slopes of a loss that was asked in Python; before that, only the prediction."""
    for o in range(len(f)):
        if not len(block.given):
            block.scores[t, o] = f[o]
        else:
            values[o], slope[o] = block.given[t, o], block.given[t, len(f) + o]
    return len(block.given) > 0


@inner
def losses(code, numbers, targets, t, f, offset, values, slope):  # type: ignore[no-untyped-def]
    """Values and slopes of the loss; one value for the whole row where it is a loss of rows."""
    if code >= ROWS_FROM:
        for o in range(len(values)):
            values[o] = 0.0
        values[0] = row_loss(code, numbers, targets[t], f, slope)
    else:
        for o in range(len(f)):
            values[o], slope[o] = one_loss(code, numbers, targets[t, o], f[o], offset)


@inner
def totals(values, slope, f):  # type: ignore[no-untyped-def]
    """‖ℓ'‖², ⟨ℓ', f⟩ and ℓ."""
    square, product, value = 0.0, 0.0, 0.0
    for o in range(len(f)):
        square += slope[o] * slope[o]
        product += slope[o] * f[o]
        value += values[o]
    return square, product, value


@inner
def record(reals, integers, met, t, weight, value, square, product, size, ridge, mistake):  # type: ignore[no-untyped-def]
    """What the prediction cost, before anything is learned from it."""
    costs, gradients, norms = met
    costs[t] = weight * value
    norms[t] = reals[SQUARED_NORM]
    own = weight * weight * square * size
    gradients[t] = own + ridge * (2.0 * weight * product + ridge * reals[SQUARED_NORM])
    reals[LOSS_SUM] += weight * value
    reals[GRADIENTS] += own
    integers[ROUNDS] += 1
    integers[MISTAKES] += 1 if mistake else 0


@inner
def right(targets, t, f):  # type: ignore[no-untyped-def]
    """Whether the label that f predicts is y: the sign of one score, the largest of several."""
    if len(f) == 1:
        return (f[0] > 0.0) == (targets[t, 0] > 0.0)
    top = 0
    for o in range(1, len(f)):
        if f[o] > f[top]:
            top = o
    return targets[t, top] > 0.0


@inner
def pushed(reals, kind, number, ridge, code, step, weight, size, values, slope, square, push):  # type: ignore[no-untyped-def]
    """The new coefficient; returns the step η."""
    if kind in (AGGRESSIVE, SOFT_AGGRESSIVE):
        _aggressive(kind, number * weight, code, values, slope, square, size, push)
        return 1.0
    if kind == ADAPTIVE:
        met = reals[GRADIENTS]
        step = number / math.sqrt(met) if met > 0.0 else 0.0
        if ridge > 0.0:
            step = min(step, 1.0 / ridge)
    for o in range(len(push)):
        push[o] = -step * weight * slope[o]
    return step


@inner
def _aggressive(kind, bound, code, values, slope, square, size, push):  # type: ignore[no-untyped-def]
    """The shortest step that mends the loss, at most C, or softened by it."""
    for o in range(len(push)):
        joint = code >= ROWS_FROM
        value, steep = (values[0], square) if joint else (values[o], slope[o] * slope[o])
        push[o] = 0.0
        if value > 0.0 and steep > 0.0:
            if kind == AGGRESSIVE:
                step = bound if steep * size * bound <= value else value / (steep * size)
            else:
                step = value / (steep * size + 0.5 / bound)
            push[o] = -step * slope[o]
