"""Recursive least squares with upper Cholesky factors R, RᵀR = M, row by row in memory."""

from __future__ import annotations

import math

import numpy as np

from mercer.evaluation.cpu.vectors import compiled, widen
from mercer.online.compiled.inner import copy_row, inner

COUNT, ROUNDS = 0, 1


@inner
def forward(factor, x, count):  # type: ignore[no-untyped-def]
    """X ← R⁻ᵀx, for the columns of x."""
    widen()
    for i in range(count):
        for o in range(x.shape[0]):
            x[o, i] /= factor[i, i]
            value = x[o, i]
            for j in range(i + 1, count):
                x[o, j] -= value * factor[i, j]


@inner
def backward(factor, x, count):  # type: ignore[no-untyped-def]
    """X ← R⁻¹x, for the columns of x."""
    widen()
    for i in range(count - 1, -1, -1):
        for o in range(x.shape[0]):
            total = x[o, i]
            for j in range(i + 1, count):
                total -= factor[i, j] * x[o, j]
            x[o, i] = total / factor[i, i]


@inner
def update(factor, x, first, count):  # type: ignore[no-untyped-def]
    """RᵀR ← RᵀR + xxᵀ by rotations, for rows and columns from `first` on; x is used up."""
    widen()
    for i in range(first, count):
        old, add = factor[i, i], x[i]
        if add == 0.0:
            continue
        new = math.hypot(old, add)
        c, s = new / old, add / old
        factor[i, i] = new
        for j in range(i + 1, count):
            factor[i, j] = (factor[i, j] + s * x[j]) / c
            x[j] = c * x[j] - s * factor[i, j]


@inner
def _append(factor, column, corner, count):  # type: ignore[no-untyped-def]
    for i in range(count):
        factor[i, count] = column[i]
    factor[count, count] = math.sqrt(corner)


@inner
def _drop_first(arrays, count, numbers):  # type: ignore[no-untyped-def]
    """Without the oldest sample: R₂₂ᵀR₂₂ + r₁₂ᵀr₁₂ is what is left of M."""
    factor = arrays.factor
    first = np.empty(count - 1)
    for j in range(count - 1):
        first[j] = factor[0, j + 1]
    for i in range(count - 1):
        for j in range(i, count - 1):
            factor[i, j] = factor[i + 1, j + 1]
    update(factor, first, 0, count - 1)
    for i in range(count - 1):
        arrays.columns[i] = arrays.columns[i + 1]
        copy_row(arrays.targets, i, arrays.targets, i + 1)
    for o in range(numbers.shape[0]):
        for i in range(count - 1):
            numbers[o, i] = arrays.targets[i, o]
    forward(factor, numbers, count - 1)
    for o in range(numbers.shape[0]):
        for i in range(count - 1):
            arrays.right[o, i] = numbers[o, i]


@inner
def _learn_exactly(arrays, block, t, row, work, noise, window, f):  # type: ignore[no-untyped-def]
    """Grow the factor of K + αW⁻¹; right = R⁻ᵀy, so that f(x) = ⟨R⁻ᵀk_x, right⟩."""
    count, outputs = arrays.integers[COUNT], arrays.targets.shape[1]
    for i in range(count):
        work[0, i] = row[i]
    forward(arrays.factor, work[:1], count)
    for o in range(outputs):
        total = 0.0
        for i in range(count):
            total += work[0, i] * arrays.right[o, i]
        f[o] = total
    if window and count == window:
        _drop_first(arrays, count, work[1:])
        count -= 1
        for i in range(count):
            work[0, i] = row[i + 1]
        forward(arrays.factor, work[:1], count)
    corner = block.diagonal[t] + noise
    for i in range(count):
        corner -= work[0, i] * work[0, i]
    if not corner > 0.0:
        return False
    _append(arrays.factor, work[0], corner, count)
    for o in range(outputs):
        total = block.targets[t, o]
        for i in range(count):
            total -= work[0, i] * arrays.right[o, i]
        arrays.right[o, count] = total / arrays.factor[count, count]
    _admit(arrays, block, t, count)
    return True


@inner
def _admit(arrays, block, t, count):  # type: ignore[no-untyped-def]
    copy_row(arrays.targets, count, block.targets, t)
    arrays.columns[count] = block.values.shape[1] - len(block.targets) + t
    arrays.integers[COUNT] = count + 1


@inner
def _learn_sparsely(arrays, block, t, row, work, noise, tolerance, alpha, f):  # type: ignore[no-untyped-def]
    """Features φ = S⁻ᵀk of the dictionary, SᵀS its Gram matrix; RᵀR = ΦᵀWΦ + αI only grows.

    A point is admitted where its distance from the span, k(x, x) − ‖φ‖², exceeds the tolerance.
    """
    count, outputs = arrays.integers[COUNT], arrays.targets.shape[1]
    for i in range(count):
        work[0, i] = row[i]
    forward(arrays.base, work[:1], count)
    for o in range(outputs):
        for i in range(count):
            work[1 + o, i] = arrays.right[o, i]
    forward(arrays.factor, work[1:], count)
    backward(arrays.factor, work[1:], count)
    apart = block.diagonal[t]
    for i in range(count):
        apart -= work[0, i] * work[0, i]
    for o in range(outputs):
        total = 0.0
        for i in range(count):
            total += work[0, i] * work[1 + o, i]
        f[o] = total
    if apart > tolerance * block.diagonal[t]:
        _append(arrays.base, work[0], apart, count)
        for i in range(count):
            arrays.factor[i, count] = 0.0
        arrays.factor[count, count] = math.sqrt(alpha)
        work[0, count] = math.sqrt(apart)
        for o in range(outputs):
            arrays.right[o, count] = 0.0
        _admit(arrays, block, t, count)
        count += 1
    weight = block.weights[t]
    for i in range(count):
        for o in range(outputs):
            arrays.right[o, i] += weight * work[0, i] * block.targets[t, o]
        work[0, i] *= math.sqrt(weight)
    update(arrays.factor, work[0], 0, count)
    return True


@compiled
def recursive_walk(arrays, block, alpha, tolerance, window):  # type: ignore[no-untyped-def]
    """Learn the samples of a block; returns how many, less where α is lost in rounding."""
    capacity, outputs = len(arrays.columns), arrays.targets.shape[1]
    row, f = np.empty(capacity), np.empty(outputs)
    work = np.empty((1 + outputs, capacity))
    for t in range(len(block.targets)):
        values, columns = block.values[t], arrays.columns
        for j in range(arrays.integers[COUNT]):
            row[j] = values[columns[j]]
        if tolerance > 0.0:
            done = _learn_sparsely(arrays, block, t, row, work, 0.0, tolerance, alpha, f)
        else:
            noise = alpha / block.weights[t]
            done = _learn_exactly(arrays, block, t, row, work, noise, window, f)
        if not done:
            return t
        loss = 0.0
        for o in range(outputs):
            gap = f[o] - block.targets[t, o]
            loss += 0.5 * gap * gap
        block.losses[t] = block.weights[t] * loss
        arrays.reals[0] += block.weights[t] * loss
        arrays.integers[ROUNDS] += 1
    return len(block.targets)


@compiled
def recursive_coefficients(arrays, sparse):  # type: ignore[no-untyped-def]
    """C with f = Σ c_i k(x_i, ·), as columns."""
    count, outputs = arrays.integers[COUNT], arrays.targets.shape[1]
    x = np.empty((outputs, count))
    for o in range(outputs):
        for i in range(count):
            x[o, i] = arrays.right[o, i]
    if sparse:
        forward(arrays.factor, x, count)
        backward(arrays.factor, x, count)
        backward(arrays.base, x, count)
    else:
        backward(arrays.factor, x, count)
    return x
