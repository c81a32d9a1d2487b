"""The loop over the samples of a block: predict, record, shrink, add; one for all machines.

Perceptrons, gradient and passive-aggressive machines differ in loss and step, machines on features
in what they add: a multiple of φ(x) to all weights where the others add a bump.
"""

from __future__ import annotations

import math

import numpy as np

from mercer.evaluation.cpu.vectors import compiled, inner, widen
from mercer.online.compiled.budgets import keep_more, maintain, merge
from mercer.online.compiled.bumps import (
    add_features,
    copy_row,
    drop,
    function_values,
    insert,
    kernel_row,
    least,
    shrink,
)
from mercer.online.compiled.losses import losses
from mercer.online.state import (
    ADAPTIVE,
    AGGRESSIVE,
    AVERAGE_SCALE,
    AVERAGE_WEIGHT,
    BASE_SCALE,
    COUNT,
    FEATURES,
    FOREIGN,
    GRADIENTS,
    LOSS_SUM,
    MERGING,
    MISTAKES,
    OFFSET,
    OLDEST,
    ON_HOST,
    ROUNDS,
    SCALAR,
    SCALE,
    SOFT_AGGRESSIVE,
    SQUARED_NORM,
    UNBOUNDED,
    UPDATES,
)


@compiled
def learn(state, block, rules):  # type: ignore[no-untyped-def]  # noqa: C901
    """Learn the samples of a block one after the other; returns how many, less on overflow.

    What every sample needs is taken out of the tuples once: Numba counts references at each look
    into one.
    """
    reals, integers, a, b = state.reals, state.integers, state.a, state.b
    columns, centres, ages = state.columns, state.centres, state.ages
    sizes, rows, block_rows = state.diagonal, state.rows, block.rows
    kernel, inputs, diagonal, base = block.values, block.inputs, block.diagonal, block.base
    targets, weights, steps, averaging = block.targets, block.weights, block.steps, block.averaging
    costs, gradients, norms = block.losses, block.gradients, block.norms
    ridge, policy, size = rules.regularization, rules.policy, rules.size
    kind, address, numbers, share = (
        rules.loss, rules.loss_address, rules.loss_numbers, rules.share,
    )  # fmt: skip
    features = policy == FEATURES
    follows_norm = policy == UNBOUNDED or features
    bounded = not follows_norm and policy != ON_HOST
    outputs = a.shape[1]
    row, push = np.empty(len(a)), np.empty(outputs)
    f, slope, values = np.empty(outputs), np.empty(outputs), np.empty(outputs)
    for t in range(len(targets)):
        count, weight = integers[COUNT], weights[t]
        kernel_row(centres, columns, count, kernel, inputs, diagonal[t], t, row)
        function_values(a, reals[SCALE], count, row, f)
        if len(base):
            for o in range(outputs):
                f[o] += reals[SCALE] * reals[BASE_SCALE] * base[t, o]
        if kind == FOREIGN:
            if not answered(block, t, f, values, slope):
                return t
        else:
            losses(kind, address, numbers, share, reals[OFFSET], targets, t, f, values, slope)
        square, product, value = 0.0, 0.0, 0.0  # ‖ℓ'‖², ⟨ℓ', f⟩ and ℓ
        for o in range(outputs):
            square += slope[o] * slope[o]
            product += slope[o] * f[o]
            value += values[o]
        if not (math.isfinite(square) and math.isfinite(value)):
            return t
        costs[t], norms[t] = weight * value, reals[SQUARED_NORM]
        own = weight * weight * square * diagonal[t]
        gradients[t] = own + ridge * (2.0 * weight * product + ridge * reals[SQUARED_NORM])
        reals[LOSS_SUM] += weight * value
        reals[GRADIENTS] += own
        integers[ROUNDS] += 1
        integers[MISTAKES] += rules.labels and not right(targets, t, f)
        if len(b):
            reals[AVERAGE_SCALE] += averaging[t] * reals[SCALE]
            reals[AVERAGE_WEIGHT] += averaging[t]
        step = pushed(
            reals, rules.step, rules.step_number, ridge, kind, steps[t], weight, diagonal[t],
            values, slope, square, push,
        )  # fmt: skip
        factor, length, moved = max(1.0 - step * ridge, 0.0), 0.0, 0.0
        for o in range(outputs):
            length += push[o] * push[o]
            moved += push[o] * f[o]
        if factor != 1.0:
            shrink(reals, integers, a, b, factor, features)
        if follows_norm:
            reals[SQUARED_NORM] += 2.0 * factor * moved + length * diagonal[t]
        if share > 0.0:
            reals[OFFSET] += step * weight * (share + slope[0])
        if length == 0.0:
            continue
        integers[UPDATES] += 1
        if features:
            first = (integers[ROUNDS] - 1) * size % count
            add_features(a, b, row, push, reals[SCALE], reals[AVERAGE_SCALE], first, first + size)
            continue
        slot = insert(
            integers, a, b, sizes, ages, columns, push, reals[SCALE], reals[AVERAGE_SCALE],
            diagonal[t], block.known + t,
        )  # fmt: skip
        for k in range(len(centres)):
            centres[k, slot] = inputs[t, k]
        if policy == MERGING:
            copy_row(rows, slot, block_rows, t)
        elif bounded and policy != OLDEST:
            keep_more(state, block, t, slot, row, policy)
        if bounded and slot >= size:
            if policy == OLDEST:  # the quickest budgets go without a look into the tuples
                drop(integers, a, b, sizes, ages, columns, centres, least(ages, size + 1))
            elif policy == MERGING:
                merge(integers, a, b, sizes, ages, columns, centres, rows)
            else:
                maintain(state, rules)
    return len(targets)


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
def pushed(reals, rule, number, ridge, kind, step, weight, size, values, slope, square, push):  # type: ignore[no-untyped-def]
    """The coefficient of the new bump; returns the step η."""
    if rule in (AGGRESSIVE, SOFT_AGGRESSIVE):
        _aggressive(rule, number * weight, kind, values, slope, square, size, push)
        return 1.0
    if rule == ADAPTIVE:
        total = reals[GRADIENTS]
        step = number / math.sqrt(total) if total > 0.0 else 0.0
        if ridge > 0.0:
            step = min(step, 1.0 / ridge)
    for o in range(len(push)):
        push[o] = -step * weight * slope[o]
    return step


@inner
def _aggressive(rule, bound, kind, values, slope, square, size, push):  # type: ignore[no-untyped-def]
    """The shortest step that mends the loss, at most C, or softened by it.

    Where k(x, x) = 0 the bump is the zero function, which mends nothing: no step is taken.
    """
    for o in range(len(push)):
        joint = kind > SCALAR
        value, steep = (values[0], square) if joint else (values[o], slope[o] * slope[o])
        push[o] = 0.0
        if value > 0.0 and steep * size > 0.0:
            if rule == AGGRESSIVE:
                step = bound if steep * size * bound <= value else value / (steep * size)
            else:
                step = value / (steep * size + 0.5 / bound)
            push[o] = -step * slope[o]
