"""Dynamic programs over pairs of sequences, one function for a block of pairs each.

x and y are `Flat` sequences (which stand here because Numba stores their name with what it
compiled), and all pairs of chosen ones fill `out`. Programs that only add and multiply run on plain
numbers, and again on logarithms for a pair where these leave the range of floats.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer.evaluation.cpu.vectors import compiled, inner

TOP = 1e280  # of plain numbers, so that sums of a few of them are finite


class Flat(NamedTuple):
    """Sequences in flat arrays: symbols or vectors, where each starts, the chosen ones."""

    parts: np.ndarray
    starts: np.ndarray
    chosen: np.ndarray


@inner
def _plus(a, b, logs):  # type: ignore[no-untyped-def]
    """a + b, or log(eᵃ + eᵇ)."""
    if not logs:
        return a + b
    high, low = (a, b) if a > b else (b, a)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))


@inner
def _times(a, b, logs):  # type: ignore[no-untyped-def]
    return a + b if logs else a * b


@inner
def _less(a, b, logs):  # type: ignore[no-untyped-def]
    """a − b ≥ 0, or log(eᵃ − eᵇ)."""
    if not logs:
        return a - b
    if b == -np.inf:
        return a
    return a + np.log1p(-np.exp(b - a)) if b < a else -np.inf


@inner
def _zero(logs):  # type: ignore[no-untyped-def]
    return -np.inf if logs else 0.0


@inner
def _one(logs):  # type: ignore[no-untyped-def]
    return 0.0 if logs else 1.0


@inner
def _span(side, i):  # type: ignore[no-untyped-def]
    """Where the i-th chosen sequence starts, and its length."""
    start = side.starts[side.chosen[i]]
    return start, side.starts[side.chosen[i] + 1] - start


@inner
def _longest(side):  # type: ignore[no-untyped-def]
    """The length of the longest chosen sequence."""
    longest = 0
    for i in range(len(side.chosen)):
        longest = max(longest, _span(side, i)[1])
    return longest


@compiled
def weighted_degree(x, y, gains, out):  # type: ignore[no-untyped-def]
    """Σ over places of gains[r], r being the length of the run of equal symbols that ends there."""
    for i in range(len(x.chosen)):
        a, n = _span(x, i)
        for j in range(len(y.chosen)):
            b, m = _span(y, j)
            run, total = 0, 0.0
            for k in range(min(n, m)):
                run = run + 1 if x.parts[a + k] == y.parts[b + k] else 0
                total += gains[run]
            out[i, j] = total


@inner
def _gap_weighted(x, a, n, y, b, m, length, decay, sums, logs):  # type: ignore[no-untyped-def]
    """Σ of decay^gaps over pairs of equal subsequences of `length` symbols.

    S_q(i, j) is that sum over pairs of q symbols that end at x_i and y_j, and
    T_q(i, j) = Σ_{i' ≤ i, j' ≤ j} decay^{(i−i')+(j−j')} S_q(i', j'), so that S_{q+1}(i, j) is
    T_q(i−1, j−1) where x_i = y_j, and 0 elsewhere. `sums[q]` is the current row of T_q.
    """
    zero, one = _zero(logs), _one(logs)
    total = zero
    sums[:, : m + 1] = zero
    for i in range(n):
        symbol = x[a + i]
        for j in range(m):
            if y[b + j] == symbol:
                ending = one if length == 1 else sums[length - 2, j]
                total = _plus(total, ending, logs)
        for q in range(length - 2, -1, -1):  # downwards: sums[q − 1] is still that of x_{i−1}
            along = zero
            for j in range(m):
                along = _times(decay, along, logs)
                if y[b + j] == symbol:
                    along = _plus(along, one if q == 0 else sums[q - 1, j], logs)
                sums[q, j + 1] = _plus(_times(decay, sums[q, j + 1], logs), along, logs)
    return total


@compiled
def gap_weighted(x, y, length, decay, logs, out):  # type: ignore[no-untyped-def]
    """The gap-weighted kernel without its factor decay^{2·length}, or the logarithm of that."""
    sums, s, t = np.empty((length, _longest(y) + 1)), x.parts, y.parts
    for i in range(len(x.chosen)):
        a, n = _span(x, i)
        for j in range(len(y.chosen)):
            b, m = _span(y, j)
            value = 0.0
            if min(n, m) >= length:
                value = _gap_weighted(s, a, n, t, b, m, length, decay, sums, False)
            if value < TOP:
                out[i, j] = np.log(value) if logs else value
            else:
                value = _gap_weighted(s, a, n, t, b, m, length, np.log(decay), sums, True)
                out[i, j] = value if logs else np.exp(value)


@inner
def _counted(x, a, n, y, b, m, weight, row, logs):  # type: ignore[no-untyped-def]
    """Σ_u weight^{|u|} (occurrences of u in x)(occurrences of u in y), over all subsequences u.

    K(i, j) = K(i−1, j) + weight · Σ_{j' ≤ j, y_j' = x_i} K(i−1, j'−1); `row` is K(i, ·).
    """
    zero, one = _zero(logs), _one(logs)
    for j in range(m + 1):
        row[j] = one
    for i in range(n):
        symbol, added, before = x[a + i], zero, row[0]
        for j in range(m):
            if y[b + j] == symbol:
                added = _plus(added, _times(weight, before, logs), logs)
            before = row[j + 1]
            row[j + 1] = _plus(before, added, logs)
    return row[m]


@inner
def _present(x, a, n, y, b, m, previous, weight, rows, saved, logs):  # type: ignore[no-untyped-def]
    """Σ_u weight^{|u|} over all u that are subsequences of both x and y.

    A common subsequence is known by its first occurrence in both. So, for what is left of x from i
    and of y from j, N(i, j) = 1 + weight · Σ over symbols s of N(i_s + 1, j_s + 1), where i_s and
    j_s are the next places of s. From N(i+1, j) only the term of s = x_i changes: it had the next
    place of x_i behind i, whose row is `saved`. previous[i] is the number of x_i among the symbols
    of x; row 0 of `rows` is N(i, ·), row 1 a copy of N(i+1, ·).
    """
    zero, one = _zero(logs), _one(logs)
    current, copy = rows[0], rows[1]
    current[: m + 1] = one
    saved[:, 0] = -1.0  # no row yet
    for i in range(n - 1, -1, -1):
        symbol, old, there = x[a + i], saved[previous[a + i]], -1
        seen = old[0] != -1.0
        for j in range(m + 1):  # slices would compile their error messages for seconds
            copy[j] = current[j]
        for j in range(m - 1, -1, -1):
            if y[b + j] == symbol:
                there = j
            if there >= 0:
                gain = _less(copy[there + 1], old[there + 2] if seen else zero, logs)
                current[j] = _plus(copy[j], _times(weight, gain, logs), logs)
        old[0] = 1.0
        for j in range(m + 1):
            old[j + 1] = copy[j]
    return current[0]


@compiled
def all_subsequences(x, y, local, symbols, weight, presence, logs, out):  # type: ignore[no-untyped-def]
    """The kernel of all subsequences, by presence or by count, or its logarithm.

    local[k] is the number of symbol k of x among the different symbols of its sequence, which are
    at most `symbols`.
    """
    longest, s, t = _longest(y), x.parts, y.parts
    work, saved = np.empty((2, longest + 2)), np.empty((symbols, longest + 2))
    for i in range(len(x.chosen)):
        a, n = _span(x, i)
        for j in range(len(y.chosen)):
            b, m = _span(y, j)
            if presence:
                value = _present(s, a, n, t, b, m, local, weight, work, saved, False)
            else:
                value = _counted(s, a, n, t, b, m, weight, work[0], False)
            if value < TOP:
                out[i, j] = np.log(value) if logs else value
                continue
            if presence:
                value = _present(s, a, n, t, b, m, local, np.log(weight), work, saved, True)
            else:
                value = _counted(s, a, n, t, b, m, np.log(weight), work[0], True)
            out[i, j] = value if logs else np.exp(value)


@compiled
def edit_distances(x, y, out):  # type: ignore[no-untyped-def]
    """The least number of insertions, deletions and replacements that turn x into y."""
    row = np.empty(_longest(y) + 1, np.int64)
    for i in range(len(x.chosen)):
        a, n = _span(x, i)
        for j in range(len(y.chosen)):
            b, m = _span(y, j)
            for k in range(m + 1):
                row[k] = k
            for p in range(n):
                before, row[0] = row[0], p + 1
                for q in range(m):
                    replaced = before + (0 if x.parts[a + p] == y.parts[b + q] else 1)
                    before = row[q + 1]
                    row[q + 1] = min(replaced, min(before, row[q]) + 1)
            out[i, j] = row[m]


@inner
def _aligned(x, a, n, y, b, m, scale, band, row, logs):  # type: ignore[no-untyped-def]
    """Σ over alignments of the product of κ over their pairs; M(i, j) is κ times its neighbours'.

    `row` is M(i, ·). On plain numbers the answer is negative where a number left their range.
    """
    zero, one = _zero(logs), _one(logs)
    safe = True
    for j in range(m + 1):
        row[j] = zero
    row[0] = one
    for i in range(n):
        before, row[0] = row[0], zero
        for j in range(m):
            share = 1.0 if band == 0 else max(0.0, 1.0 - abs(i - j) / band)
            square = 0.0
            for k in range(x.shape[1]):
                gap = x[a + i, k] - y[b + j, k]
                square += gap * gap
            paths = _plus(_plus(before, row[j], logs), row[j + 1], logs)
            before = row[j + 1]
            if share == 0.0:
                row[j + 1] = zero
            elif logs:
                g = np.exp(-scale * square)
                row[j + 1] = paths + np.log(share) - scale * square - np.log(2.0 - share * g)
            else:
                g = share * np.exp(-scale * square)
                row[j + 1] = paths * (g / (2.0 - g))
                safe = safe and (paths == 0.0 or 1.0 / TOP < row[j + 1] < TOP)
    return row[m] if safe else -1.0


@compiled
def global_alignment(x, y, scale, band, logs, out):  # type: ignore[no-untyped-def]
    """The global alignment kernel, or its logarithm."""
    row, s, t = np.empty(_longest(y) + 1), x.parts, y.parts
    for i in range(len(x.chosen)):
        a, n = _span(x, i)
        for j in range(len(y.chosen)):
            b, m = _span(y, j)
            value = _aligned(s, a, n, t, b, m, scale, band, row, False)
            if value >= 0.0:
                out[i, j] = np.log(value) if logs else value
            else:
                value = _aligned(s, a, n, t, b, m, scale, band, row, True)
                out[i, j] = value if logs else np.exp(value)
