"""Recursive least squares with upper Cholesky factors R, RᵀR = M, row by row in memory."""

from __future__ import annotations

import math

import numpy as np

from mercer.evaluation.cpu.vectors import compiled, inner, widen
from mercer.online.compiled.bumps import copy_row

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
def update(factor, x, count):  # type: ignore[no-untyped-def]
    """RᵀR ← RᵀR + xxᵀ by rotations; x is used up."""
    widen()
    for i in range(count):
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
def _dot(x, y, count):  # type: ignore[no-untyped-def]
    widen()
    total = 0.0
    for i in range(count):
        total += x[i] * y[i]
    return total


@inner
def _drop_first(state, count):  # type: ignore[no-untyped-def]
    """Without the oldest sample: R₂₂ᵀR₂₂ + r₁₂ᵀr₁₂ is what is left of M."""
    factor, left = state.factor, count - 1
    first = np.empty(left)
    for j in range(left):
        first[j] = factor[0, j + 1]
    for i in range(left):
        state.columns[i] = state.columns[i + 1]
        copy_row(state.targets, i, state.targets, i + 1)
        for j in range(i, left):
            factor[i, j] = factor[i + 1, j + 1]
    update(factor, first, left)
    for o in range(len(state.right)):
        for i in range(left):
            state.right[o, i] = state.targets[i, o]
    forward(factor, state.right, left)


@inner
def _learn_exactly(state, block, t, row, work, alpha, window, f):  # type: ignore[no-untyped-def]
    """Grow the factor of K + αW⁻¹; right = R⁻ᵀy, so that f(x) = ⟨R⁻ᵀk_x, right⟩.

    Returns whether that can be done: α may be lost in rounding.
    """
    count = state.integers[COUNT]
    own = work[:1]
    _solved(state.factor, row, 0, own, count)
    for o in range(len(f)):
        f[o] = _dot(own[0], state.right[o], count)
    if window and count == window:
        _drop_first(state, count)
        count -= 1
        _solved(state.factor, row, 1, own, count)
    corner = block.diagonal[t] + alpha / block.weights[t] - _dot(own[0], own[0], count)
    if not corner > 0.0:
        return False
    _append(state.factor, own[0], corner, count)
    for o in range(len(f)):
        left = block.targets[t, o] - _dot(own[0], state.right[o], count)
        state.right[o, count] = left / state.factor[count, count]
    _admit(state, block, t, count)
    return True


@inner
def _solved(factor, row, first, out, count):  # type: ignore[no-untyped-def]
    """R⁻ᵀ of the part of a row from `first` on."""
    for i in range(count):
        out[0, i] = row[first + i]
    forward(factor, out, count)


@inner
def _admit(state, block, t, count):  # type: ignore[no-untyped-def]
    copy_row(state.targets, count, block.targets, t)
    state.columns[count] = block.known + t
    state.integers[COUNT] = count + 1


@inner
def _learn_sparsely(state, block, t, row, work, tolerance, alpha, f):  # type: ignore[no-untyped-def]
    """Features φ = S⁻ᵀk of the dictionary, SᵀS its Gram matrix; RᵀR = ΦᵀWΦ + αI only grows.

    A point is admitted where its distance from the span, k(x, x) − ‖φ‖², exceeds the tolerance.
    """
    count, phi = state.integers[COUNT], work[0]
    _solved(state.base, row, 0, work[:1], count)
    for o in range(len(f)):
        for i in range(count):
            work[1 + o, i] = state.right[o, i]
    forward(state.factor, work[1:], count)
    backward(state.factor, work[1:], count)
    for o in range(len(f)):
        f[o] = _dot(phi, work[1 + o], count)
    apart_by = block.diagonal[t] - _dot(phi, phi, count)
    if apart_by > tolerance * block.diagonal[t]:
        _append(state.base, phi, apart_by, count)
        phi[count] = math.sqrt(apart_by)
        for i in range(count):
            state.factor[i, count] = 0.0
        state.factor[count, count] = math.sqrt(alpha)
        _admit(state, block, t, count)
        count += 1
    weight = block.weights[t]  # ΦᵀWy and ΦᵀWΦ + αI with one more row
    for i in range(count):
        for o in range(len(f)):
            state.right[o, i] += weight * phi[i] * block.targets[t, o]
        phi[i] *= math.sqrt(weight)
    update(state.factor, phi, count)


@compiled
def recursive_learn(state, block, alpha, tolerance, window):  # type: ignore[no-untyped-def]
    """Learn the samples of a block; returns how many, less where α is lost in rounding."""
    capacity, outputs = len(state.columns), state.targets.shape[1]
    row, f = np.empty(capacity), np.empty(outputs)
    work = np.empty((1 + outputs, capacity))
    for t in range(len(block.targets)):
        values, columns = block.values[t], state.columns
        for j in range(state.integers[COUNT]):
            row[j] = values[columns[j]]
        if tolerance > 0.0:
            _learn_sparsely(state, block, t, row, work, tolerance, alpha, f)
        elif not _learn_exactly(state, block, t, row, work, alpha, window, f):
            return t
        loss = 0.0
        for o in range(outputs):
            gap = f[o] - block.targets[t, o]
            loss += 0.5 * gap * gap
        block.losses[t] = block.weights[t] * loss
        state.reals[0] += block.weights[t] * loss
        state.integers[ROUNDS] += 1
    return len(block.targets)


@compiled
def recursive_coefficients(state, sparse):  # type: ignore[no-untyped-def]
    """C with f = Σ c_i k(x_i, ·), as columns."""
    count, outputs = state.integers[COUNT], state.targets.shape[1]
    x = np.empty((outputs, count))
    for o in range(outputs):
        for i in range(count):
            x[o, i] = state.right[o, i]
    if sparse:
        forward(state.factor, x, count)
    backward(state.factor, x, count)
    if sparse:
        backward(state.base, x, count)
    return x
