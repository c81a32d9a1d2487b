"""The policies of `mercer.online.budgets`, compiled: drop, merge or project one bump."""

from __future__ import annotations

import math

import numpy as np

from mercer.evaluation.cpu.vectors import inner, widen
from mercer.online.compiled.bumps import (
    apart,
    copy_row,
    decay,
    drop,
    gaussian_exponents,
    least,
    remove,
    shrink,
)
from mercer.online.compiled.losses import losses
from mercer.online.state import (
    COUNT,
    FORGETTING,
    INSERTIONS,
    LEAST_LOSS,
    OFFSET,
    PROJECTION,
    RANDOM,
    RANDOMLY,
    SCALE,
    SMALLEST,
    SPENT,
    UPDATES,
)

FORGETRON_SHARE = 15.0 / 32.0  # of the mistakes, which forgetting may cost: Dekel et al., theorem 2
CUT_EXPONENT = 1e4  # exponents beyond are cut here: e^{−1e4} is 0, and 0·∞ would be no number
# τ of `Project` over the largest k(c, c): above the rounding of K, and small enough that a
# projection loses less than 1e-3 of what the best one does (tests/online/test_budgets.py).
JITTER = 1e-7
# Newton's steps for the place of a merged bump, at most: 97 % of the mergers on checkerboards of 2
# and 8 columns took up to three, and halving, where Newton's steps leave the bracket, 22. They end
# below a share of the distance; the error of f is its square.
MERGE_STEPS, MERGE_TOLERANCE = 40, 1e-7


@inner
def keep_more(state, block, t, slot, row, policy):  # type: ignore[no-untyped-def]
    """Store what some policies need of a new bump: its targets, row of K, or inverse."""
    if len(state.targets):
        copy_row(state.targets, slot, block.targets, t)
    if len(state.gram):
        gram = state.gram
        for j in range(slot):
            gram[slot, j] = gram[j, slot] = row[j]
        gram[slot, slot] = block.diagonal[t]
    if policy == PROJECTION:
        _border(state, slot)


@inner
def maintain(state, rules):  # type: ignore[no-untyped-def]
    """Bring the number of bumps back to the budget; the newest stays, unless it is projected."""
    policy, older = rules.policy, state.integers[COUNT] - 1
    if policy == SMALLEST:
        remove(state, _smallest(state.a, state.diagonal, older))
    elif policy == RANDOMLY:
        remove(state, _drawn(state.integers, older))
    elif policy == LEAST_LOSS:
        remove(state, _least_loss(state, rules))
    elif policy == PROJECTION:
        _project(state)
    elif policy == FORGETTING:
        _forget(state)


# ---- dropping ------------------------------------------------------------------------------------


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
def _drawn(integers, count):  # type: ignore[no-untyped-def]
    """A number below `count`, from a generator whose state is part of the model (xorshift)."""
    # a generator of NumPy would not be the same after a copy, a pickle or a refused block
    x = integers[RANDOM]
    x ^= (x << 13) & 0x7FFFFFFFFFFFFFFF
    x ^= x >> 7
    x ^= (x << 17) & 0x7FFFFFFFFFFFFFFF
    integers[RANDOM] = x
    return (x >> 11) % count


@inner
def _least_loss(state, rules):  # type: ignore[no-untyped-def]
    """The bump without which the samples of all bumps have the least loss; not the newest.

    The loss is convex, so that ℓ(y_j, f_j − a_i k_ij) ≥ ℓ(y_j, f_j) − ℓ'_j a_i k_ij. Only where
    this bound, with the loss of sample i itself as it is, is below the least sum so far, a sum is
    computed.
    """
    apart()
    count, scale, offset = state.integers[COUNT], state.reals[SCALE], state.reals[OFFSET]
    a, gram, targets = state.a, state.gram, state.targets
    loss = rules.loss, rules.loss_address, rules.loss_numbers, rules.share, offset
    values = _values_at_centres(a, gram, scale, count)
    bounds = _loss_bounds(loss, targets, values, a, gram, scale)
    best = least(bounds, count - 1)
    lowest = _loss_without(best, loss, targets, values, a, gram, scale, math.inf)
    for i in range(count - 1):
        if i != best and bounds[i] <= lowest:
            total = _loss_without(i, loss, targets, values, a, gram, scale, lowest)
            if total < lowest or (total == lowest and i < best):
                best, lowest = i, total
    return best


@inner
def _values_at_centres(a, gram, scale, count):  # type: ignore[no-untyped-def]
    """f(c_j) for all centres, a row for each output."""
    widen()
    values = np.zeros((a.shape[1], count))
    for o in range(a.shape[1]):
        for i in range(count):
            factor = scale * a[i, o]
            for j in range(count):
                values[o, j] += factor * gram[i, j]
    return values


@inner
def _loss_bounds(loss, targets, values, a, gram, scale):  # type: ignore[no-untyped-def]
    """For each bump, what the losses of all samples are at least without it."""
    widen()
    kind, address, numbers, share, offset = loss
    outputs, count = values.shape
    f, slope, costs = np.empty(outputs), np.empty(outputs), np.empty(outputs)
    slopes, bounds, total = np.empty((outputs, count)), np.empty(count), 0.0
    for j in range(count):
        for o in range(outputs):
            f[o] = values[o, j]
        losses(kind, address, numbers, share, offset, targets, j, f, costs, slope)
        bounds[j] = 0.0
        for o in range(outputs):
            slopes[o, j] = slope[o]
            total += costs[o]
            change = scale * a[j, o] * gram[j, j]
            bounds[j] += slope[o] * change - costs[o]
            f[o] -= change
        losses(kind, address, numbers, share, offset, targets, j, f, costs, slope)
        for o in range(outputs):
            bounds[j] += costs[o]
    for i in range(count):
        bounds[i] += total
        for o in range(outputs):
            pull = 0.0
            for j in range(count):
                pull += slopes[o, j] * gram[i, j]
            bounds[i] -= scale * a[i, o] * pull
    return bounds


@inner
def _loss_without(i, loss, targets, values, a, gram, scale, limit):  # type: ignore[no-untyped-def]
    """Σ_j ℓ(y_j, f(c_j) − a_i k(c_i, c_j)); the sum ends where it exceeds the limit."""
    kind, address, numbers, share, offset = loss
    outputs, count = values.shape
    f, slope, costs, total = np.empty(outputs), np.empty(outputs), np.empty(outputs), 0.0
    for j in range(count):
        for o in range(outputs):
            f[o] = values[o, j] - scale * a[i, o] * gram[i, j]
        losses(kind, address, numbers, share, offset, targets, j, f, costs, slope)
        for o in range(outputs):
            total += costs[o]
        if total > limit:
            break
    return total


@inner
def _forget(state):  # type: ignore[no-untyped-def]
    """Shrink f so far that the oldest bump may go without spending more than the mistakes allow."""
    apart()
    count, scale = state.integers[COUNT], state.reals[SCALE]
    oldest = least(state.ages, count)
    value = 0.0
    for j in range(count):
        value += scale * state.a[j, 0] * state.gram[oldest, j]
    weight = scale * state.a[oldest, 0]
    size, margin = abs(weight), math.copysign(1.0, weight) * value
    # what shrinking by φ spends is square·φ² + line·φ: Ψ(φσ, φμ) = (φσ)² + 2φσ(1 − φμ) of Dekel,
    # Shalev-Shwartz and Singer, whose mistake bound holds while the sum stays below its share
    square, line = size * size - 2.0 * size * margin, 2.0 * size
    allowed = FORGETRON_SHARE * state.integers[UPDATES] - state.reals[SPENT]
    factor = 1.0
    if square + line > allowed:
        # the root of square·φ² + line·φ = allowed, in the form in which nothing cancels
        factor = 2.0 * allowed / (line + math.sqrt(max(line * line + 4.0 * square * allowed, 0.0)))
    state.reals[SPENT] += square * factor * factor + line * factor
    shrink(state.reals, state.integers, state.a, state.b, factor, False)
    if state.integers[COUNT] == count:
        remove(state, oldest)


# ---- projection ----------------------------------------------------------------------------------


@inner
def _project(state):  # type: ignore[no-untyped-def]
    """Leave out the bump that the others replace best; they take over its projection.

    With A = (K + τI)⁻¹, leaving out p costs ‖a_p‖²/A_pp, and a ← a − A_:p a_p/A_pp sets a_p to 0.
    """
    apart()
    count, inverse, a = state.integers[COUNT], state.inverse, state.a
    best, lowest = 0, math.inf
    for j in range(count):
        size = 0.0
        for o in range(a.shape[1]):
            size += a[j, o] * a[j, o]
        # multiplied out: the division is needed only where p is the best so far
        if size < lowest * inverse[j, j]:
            best, lowest = j, size / inverse[j, j]
    column = np.empty(count)
    for j in range(count):
        column[j] = inverse[best, j]
    _carry(a, column, best)
    if len(state.b):
        _carry(state.b, column, best)
    # the inverse of the matrix without row and column p, by the same elimination: O(m²), where a
    # new factorisation would take O(m³) for every sample
    for i in range(count):
        line, factor = inverse[i], column[i] / column[best]
        for j in range(count):
            line[j] -= factor * column[j]
    remove(state, best)


@inner
def _carry(a, column, best):  # type: ignore[no-untyped-def]
    """A ← a − A_:p a_p/A_pp."""
    for o in range(a.shape[1]):
        factor = a[best, o] / column[best]
        for j in range(len(column)):
            a[j, o] -= factor * column[j]


@inner
def _ridge(diagonal, count):  # type: ignore[no-untyped-def]
    """τ, a share of the largest k(c, c).

    It is never 0, so that bumps which are 0 have an inverse too, and large enough that products of
    two entries of the inverse are finite.
    """
    largest = 1e-140
    for j in range(count):
        largest = max(largest, diagonal[j])
    return JITTER * largest


@inner
def _border(state, slot):  # type: ignore[no-untyped-def]
    """The inverse of K + τI with one more row and column.

    It is computed anew after as many insertions as the budget has bumps, as updates lose digits,
    and when a larger k(c, c) than all before doubles τ: the inverse was that of another matrix.
    """
    apart()
    widen()
    ridge = _ridge(state.diagonal, slot + 1)
    grown = slot > 0 and ridge > 2.0 * _ridge(state.diagonal, slot)
    if grown or state.integers[INSERTIONS] % max(len(state.a) - 1, 16) == 0:
        _invert(state.gram, ridge, slot + 1, state.inverse)
        return
    inverse, row = state.inverse, state.gram[slot]
    u = np.empty(slot)
    for i in range(slot):
        total = 0.0
        for j in range(slot):
            total += inverse[i, j] * row[j]
        u[i] = total
    left = state.diagonal[slot] + ridge
    for j in range(slot):
        left -= row[j] * u[j]
    left = max(left, ridge)  # a Schur complement of K + τI is ≥ τ, but for rounding
    for i in range(slot):
        line, factor = inverse[i], u[i] / left
        for j in range(slot):
            line[j] += factor * u[j]
        inverse[slot, i] = inverse[i, slot] = -factor
    inverse[slot, slot] = 1.0 / left


@inner
def _invert(gram, ridge, count, inverse):  # type: ignore[no-untyped-def]  # noqa: C901
    """(K + τI)⁻¹ = L⁻ᵀL⁻¹ from the Cholesky factor L."""
    apart()
    widen()
    lower, rows = np.zeros((count, count)), np.zeros((count, count))  # L, and L⁻ᵀ
    for i in range(count):
        for j in range(i + 1):
            total = gram[i, j] + (ridge if i == j else 0.0)
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            lower[i, j] = np.sqrt(max(total, ridge)) if i == j else total / lower[j, j]
    for j in range(count):
        rows[j, j] = 1.0 / lower[j, j]
        for i in range(j + 1, count):
            total = 0.0
            for k in range(j, i):
                total += lower[i, k] * rows[j, k]
            rows[j, i] = -total / lower[i, i]
    for i in range(count):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, count):
                total += rows[i, k] * rows[j, k]
            inverse[i, j] = inverse[j, i] = total


# ---- merging, for a Gaussian kernel --------------------------------------------------------------


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
    for j in range(count):
        exponents[j] = CUT_EXPONENT if exponents[j] > CUT_EXPONENT else exponents[j]
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
    drop(integers, a, b, diagonal, ages, columns, centres, i)
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
    for _ in range(MERGE_STEPS):
        slope, bend = _gain_slopes(a, i, j, h, exponent)
        if slope > 0.0:
            low = h
        else:
            high = h
        step = -slope / bend if bend < 0.0 else math.inf
        if not low < h + step < high:
            step = 0.5 * (low + high) - h
        h += step
        if abs(step) < MERGE_TOLERANCE:
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
