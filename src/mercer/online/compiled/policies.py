"""What to do with one bump too many: the policies of `mercer.online.budgets`, compiled."""

from __future__ import annotations

import math

import numpy as np

from mercer.evaluation.cpu.vectors import widen
from mercer.online.compiled.bumps import (
    decay,
    drop,
    drop_column,
    gaussian_exponents,
    remove,
    shrink,
)
from mercer.online.compiled.inner import apart, copy_row, inner, least
from mercer.online.compiled.losses import ROWS_FROM, one_loss, row_loss
from mercer.online.state import (
    COUNT,
    FORGETTING,
    LEAST_LOSS,
    OFFSET,
    OLDEST,
    PROJECTION,
    RANDOM,
    RANDOMLY,
    SCALE,
    SMALLEST,
    SPENT,
    UPDATES,
)

NEWTON_STEPS, PLACE_TOLERANCE = 40, 1e-7  # of the place of a merged bump; the error is its square
SHARE = 15.0 / 32.0  # of the mistakes that forgetting may spend (Dekel et al.)


@inner
def maintain(arrays, rules):  # type: ignore[no-untyped-def]
    """Bring the number of bumps back to the budget."""
    policy = rules.policy
    if policy == OLDEST:
        remove(arrays, _oldest(arrays))
    elif policy == SMALLEST:
        count = arrays.integers[COUNT] - 1
        remove(arrays, _smallest(arrays.a, arrays.diagonal, count))
    elif policy == RANDOMLY:
        remove(arrays, _drawn(arrays, arrays.integers[COUNT] - 1))
    elif policy == LEAST_LOSS:
        remove(arrays, _least_loss(arrays, rules))
    elif policy == PROJECTION:
        _project(arrays)
    elif policy == FORGETTING:
        _forget(arrays)


@inner
def _oldest(arrays):  # type: ignore[no-untyped-def]
    return least(arrays.ages, arrays.integers[COUNT])


@inner
def _smallest(a, diagonal, count):  # type: ignore[no-untyped-def]
    """The bump of least norm ‖a‖√k(c, c)."""
    widen()
    sizes = np.empty(count)
    for j in range(count):
        sizes[j] = a[j, 0] * a[j, 0]
    for o in range(1, a.shape[1]):
        for j in range(count):
            sizes[j] += a[j, o] * a[j, o]
    for j in range(count):
        sizes[j] *= diagonal[j]
    return least(sizes, count)


@inner
def _drawn(arrays, count):  # type: ignore[no-untyped-def]
    """A number below `count`, from a generator whose state is part of the model (xorshift)."""
    x = arrays.integers[RANDOM]
    x ^= (x << 13) & 0x7FFFFFFFFFFFFFFF
    x ^= x >> 7
    x ^= (x << 17) & 0x7FFFFFFFFFFFFFFF
    arrays.integers[RANDOM] = x
    return (x >> 11) % count


@inner
def _least_loss(arrays, rules):  # type: ignore[no-untyped-def]
    """The bump without which the samples that are kept have the least loss; not the newest."""
    apart()
    count, scale, offset = arrays.integers[COUNT], arrays.reals[SCALE], arrays.reals[OFFSET]
    values = _values_at_centres(arrays.a, arrays.gram, scale, count)
    best, lowest = 0, math.inf
    for i in range(count - 1):
        total = _loss_without(i, arrays, rules, values, scale, offset, lowest)
        if total < lowest:
            best, lowest = i, total
    return best


@inner
def _values_at_centres(a, gram, scale, count):  # type: ignore[no-untyped-def]
    widen()
    values = np.zeros((count, a.shape[1]))
    for i in range(count):
        for o in range(a.shape[1]):
            factor = scale * a[i, o]
            for j in range(count):
                values[j, o] += factor * gram[i, j]
    return values


@inner
def _loss_without(i, arrays, rules, values, scale, offset, limit):  # type: ignore[no-untyped-def]
    """Σ_j ℓ(y_j, f(c_j) − a_i k(c_i, c_j)); the sum ends where it exceeds the limit."""
    outputs = values.shape[1]
    f, slope, total = np.empty(outputs), np.empty(outputs), 0.0
    for j in range(len(values)):
        y = arrays.targets[j]
        for o in range(outputs):
            f[o] = values[j, o] - scale * arrays.a[i, o] * arrays.gram[i, j]
        if rules.loss >= ROWS_FROM:
            total += row_loss(rules.loss, rules.loss_numbers, y, f, slope)
        else:
            for o in range(outputs):
                total += one_loss(rules.loss, rules.loss_numbers, y[o], f[o], offset)[0]
        if total >= limit:
            break
    return total


@inner
def _project(arrays):  # type: ignore[no-untyped-def]
    """Leave out the bump that the others replace best; they take over its projection.

    With A = (K + τI)⁻¹, leaving out p costs ‖a_p‖²/A_pp, and a ← a − A_:p a_p/A_pp sets a_p to 0.
    """
    apart()
    count, inverse = arrays.integers[COUNT], arrays.inverse
    best = _cheapest(arrays.a, inverse, count)
    column = np.empty(count)
    for j in range(count):
        column[j] = inverse[best, j]
    _carry(arrays.a, column, best)
    if len(arrays.b):
        _carry(arrays.b, column, best)
    for i in range(count):
        line, factor = inverse[i], column[i] / column[best]
        for j in range(count):
            line[j] -= factor * column[j]
    remove(arrays, best)


@inner
def _cheapest(a, inverse, count):  # type: ignore[no-untyped-def]
    """The p with the least ‖a_p‖²/A_pp."""
    best, lowest = 0, math.inf
    for j in range(count):
        size = 0.0
        for o in range(a.shape[1]):
            size += a[j, o] * a[j, o]
        if size < lowest * inverse[j, j]:
            best, lowest = j, size / inverse[j, j]
    return best


@inner
def _carry(a, column, best):  # type: ignore[no-untyped-def]
    """A ← a − A_:p a_p/A_pp."""
    for o in range(a.shape[1]):
        factor = a[best, o] / column[best]
        for j in range(len(column)):
            a[j, o] -= factor * column[j]


@inner
def merge(integers, a, b, diagonal, ages, columns, centres, rows):  # type: ignore[no-untyped-def]
    """Merge the smallest bump with the one for which that changes f least.

    z = h c_i + (1 − h) c_j has k(z, c_i) = κ^{(1−h)²} and k(z, c_j) = κ^{h²}, κ = k(c_i, c_j), and
    the best coefficient there is a_i κ^{(1−h)²} + a_j κ^{h²}. h is sought on a grid of eighths for
    every partner at once (powers of κ^{1/64} are products), then by Newton's method for the best.
    """
    apart()
    count = integers[COUNT]
    i = _smallest(a, diagonal, count)
    exponents, centre = np.empty(count), np.empty((1, len(centres)))
    for k in range(len(centres)):
        centre[0, k] = centres[k, i]
    gaussian_exponents(centres, centre, 0, count, exponents)
    j, h = _partner(a, i, exponents)
    h = _refined(a, i, j, h, exponents[j])
    first, second = decay(exponents[j] * (1.0 - h) * (1.0 - h)), decay(exponents[j] * h * h)
    _mix(a, i, j, first, second)
    if len(b):
        _mix(b, i, j, first, second)
    for k in range(len(centres)):
        centres[k, j] = h * centres[k, i] + (1.0 - h) * centres[k, j]
    _mix(rows, i, j, h, 1.0 - h)
    ages[j] = max(ages[i], ages[j])
    drop(integers, a, b, diagonal, ages, columns, i)
    drop_column(centres, count - 1, i)
    copy_row(rows, i, rows, count - 1)


@inner
def _mix(table, i, j, first, second):  # type: ignore[no-untyped-def]
    """Row j becomes first·row i + second·row j."""
    for k in range(table.shape[1]):
        table[j, k] = first * table[i, k] + second * table[j, k]


@inner
def _partner(a, i, exponents):  # type: ignore[no-untyped-def]
    """The partner of bump i and the best eighth on the way to it."""
    widen()
    count, outputs = len(exponents), a.shape[1]
    own = 0.0
    for o in range(outputs):
        own += a[i, o] * a[i, o]
    cross, theirs = np.zeros(count), np.zeros(count)
    for o in range(outputs):
        mine = a[i, o]
        for j in range(count):
            cross[j] += mine * a[j, o]
            theirs[j] += a[j, o] * a[j, o]
    losses = np.empty(count)
    _merging_losses(own, cross, theirs, exponents, losses)
    losses[i] = math.inf
    best = least(losses, count)
    gains = _gains(own, 2.0 * cross[best], theirs[best], _powers(exponents[best]))
    place = 0
    for g in range(1, 9):
        if gains[g] > gains[place]:
            place = g
    return best, place / 8.0


@inner
def _larger(x, y):  # type: ignore[no-untyped-def]
    """One instruction, which Python's max is not: that looks at NaN."""
    return x if x > y else y


@inner
def _powers(exponent):  # type: ignore[no-untyped-def]
    """κ^{g²/64} for g = 1, …, 8, from one exponential: g² is the sum of the first g odd numbers."""
    u = decay(exponent / 64.0)
    square = u * u
    odd3 = u * square
    odd5 = odd3 * square
    odd7 = odd5 * square
    p2 = u * odd3
    p3 = p2 * odd5
    p4 = p3 * odd7
    odd9 = odd7 * square
    odd11 = odd9 * square
    odd13 = odd11 * square
    p5 = p4 * odd9
    p6 = p5 * odd11
    p7 = p6 * odd13
    return u, p2, p3, p4, p5, p6, p7, p7 * odd13 * square


@inner
def _gains(a, b, c, powers):  # type: ignore[no-untyped-def]
    """‖a_i κ^{(1−h)²} + a_j κ^{h²}‖² for h = 0, 1/8, …, 1.

    a = ‖a_i‖², b = 2⟨a_i, a_j⟩, c = ‖a_j‖².
    """
    p1, p2, p3, p4, p5, p6, p7, p8 = powers
    return (
        a * p8 * p8 + b * p8 + c,
        a * p7 * p7 + b * p7 * p1 + c * p1 * p1,
        a * p6 * p6 + b * p6 * p2 + c * p2 * p2,
        a * p5 * p5 + b * p5 * p3 + c * p3 * p3,
        (a + b + c) * p4 * p4,
        a * p3 * p3 + b * p3 * p5 + c * p5 * p5,
        a * p2 * p2 + b * p2 * p6 + c * p6 * p6,
        a * p1 * p1 + b * p1 * p7 + c * p7 * p7,
        a + b * p8 + c * p8 * p8,
    )


@inner
def _merging_losses(own, cross, theirs, exponents, losses):  # type: ignore[no-untyped-def]
    """How much of ‖f‖² a merger with each partner loses, at the best eighth."""
    widen()
    for j in range(len(exponents)):
        b, c, powers = 2.0 * cross[j], theirs[j], _powers(exponents[j])
        g0, g1, g2, g3, g4, g5, g6, g7, g8 = _gains(own, b, c, powers)
        low = _larger(_larger(g0, g1), _larger(g2, g3))
        high = _larger(_larger(g5, g6), _larger(g7, g8))
        losses[j] = own + c + b * powers[7] - _larger(g4, _larger(low, high))


@inner
def _refined(a, i, j, h, exponent):  # type: ignore[no-untyped-def]
    """The best place between the two eighths around h: Newton's steps, halving where they leave."""
    low, high = max(h - 0.125, 0.0), min(h + 0.125, 1.0)
    for _ in range(NEWTON_STEPS):
        slope, bend = _gain_slopes(a, i, j, h, exponent)
        if slope > 0.0:
            low = h
        else:
            high = h
        step = -slope / bend if bend < 0.0 else math.inf
        if not low < h + step < high:
            step = 0.5 * (low + high) - h
        h += step
        if abs(step) < PLACE_TOLERANCE:
            break
    return h


@inner
def _gain_slopes(a, i, j, h, exponent):  # type: ignore[no-untyped-def]
    """Two derivatives in h of ½‖v‖², v = a_i κ^{(1−h)²} + a_j κ^{h²}, but for 2 ln(1/κ)."""
    away = 1.0 - h
    first, second = decay(exponent * away * away), decay(exponent * h * h)
    twice = 2.0 * exponent
    slope, bend = 0.0, 0.0
    for o in range(a.shape[1]):
        mine, theirs = first * a[i, o], second * a[j, o]
        value, tilt = mine + theirs, away * mine - h * theirs
        slope += value * tilt
        bend += twice * (tilt * tilt + value * (away * away * mine + h * h * theirs))
        bend -= value * value
    return slope, bend


@inner
def _forget(arrays):  # type: ignore[no-untyped-def]
    """Shrink f so far that the oldest bump may go without spending more than the mistakes allow."""
    apart()
    count, oldest, scale = arrays.integers[COUNT], _oldest(arrays), arrays.reals[SCALE]
    value = 0.0
    for j in range(count):
        value += scale * arrays.a[j, 0] * arrays.gram[oldest, j]
    weight = scale * arrays.a[oldest, 0]
    size, margin = abs(weight), math.copysign(1.0, weight) * value
    square, line = size * size - 2.0 * size * margin, 2.0 * size
    allowed = SHARE * arrays.integers[UPDATES] - arrays.reals[SPENT]
    factor = 1.0
    if square + line > allowed:
        factor = 2.0 * allowed / (line + math.sqrt(max(line * line + 4.0 * square * allowed, 0.0)))
    arrays.reals[SPENT] += square * factor * factor + line * factor
    shrink(arrays.reals, arrays.integers, arrays.a, arrays.b, factor)
    if arrays.integers[COUNT] == count:
        remove(arrays, oldest)
