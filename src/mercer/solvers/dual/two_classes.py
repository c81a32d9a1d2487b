"""Support vector machines for many pairs of small classes, each in one compiled call.

With a hundred pairs and more, what a pair costs beside its arithmetic decides: objects, checks and
copies of the matrix. Here a pair is the three blocks of its matrix, of which a row is put together
when a step first needs it; most rows never are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.evaluation.cpu.vectors import widen
from mercer.solvers.dual.compiled import (
    INFINITE,
    SMALLEST,
    add_difference,
    best_partner,
    certificate,
    compiled,
    least_up,
)
from mercer.solvers.dual.tuning import Tuning

INNER_SHARE = 3e-3  # of the violation that the first steps leave
SHARPER = 0.1  # of that, where the gap is not reached yet
NOTHING = np.empty(0)
FINE, ROUGH = Tuning().fine, 24  # halvings; compiled code takes them as constants
EASY = 1e-6  # relative gap from which on rough halvings, of 6e-8, are enough


@compiled
def needed_row(k, blocks, rows, there):  # type: ignore[no-untyped-def]
    """Row k of the matrix of a pair, put together from its blocks on first use."""
    if there[k]:
        return
    first, between, second = blocks
    split = len(first)
    there[k] = True
    row = rows[k]
    if k < split:
        for c in range(split):
            row[c] = first[k, c]
        for c in range(split, len(row)):
            row[c] = between[k, c - split]
    else:
        for c in range(split):
            row[c] = between[c, k - split]
        for c in range(split, len(row)):
            row[c] = second[k - split, c - split]


@compiled
def add_multiple(values, factor, row):  # type: ignore[no-untyped-def]
    """Add a multiple of a row of K to Kα."""
    widen()
    for c in range(len(values)):
        values[c] += factor * row[c]


@compiled
def sum_rows(alpha, blocks, rows, there, values):  # type: ignore[no-untyped-def]
    """Kα from scratch."""
    values[:] = 0.0
    for k in range(len(alpha)):
        if alpha[k] != 0.0:
            needed_row(k, blocks, rows, there)
            add_multiple(values, alpha[k], rows[k])


@compiled
def offsets_of(k, alpha, low, high, rising, falling):  # type: ignore[no-untyped-def]
    """Infinite where a bound is met, 0 elsewhere: what is added to slopes to the right and left."""
    rising[k] = INFINITE if alpha[k] >= high[k] else 0.0
    falling[k] = -INFINITE if alpha[k] <= low[k] else 0.0


@compiled
def hinge_steps(blocks, rows, there, diagonal, alpha, values, fields, goal, limit):  # type: ignore[no-untyped-def]
    """Steps along e_i − e_j, most gain first, until slopes agree to `goal`; how many there were."""
    widen()
    m = len(alpha)
    low, high = fields[2], fields[3]
    smooth, rising, falling = np.empty(m), np.empty(m), np.empty(m)
    curvature, scores = np.zeros(m), np.empty(m)
    for k in range(m):
        smooth[k] = values[k] - fields[0, k]
        offsets_of(k, alpha, low, high, rising, falling)
    for step in range(limit):
        i, least = least_up(smooth, rising, scores)
        if least == INFINITE:
            return step
        needed_row(i, blocks, rows, there)
        j, gain, worst = best_partner(
            diagonal[i], least, rows[i], diagonal, smooth, falling, curvature, scores
        )
        if worst <= goal or gain <= 0.0:
            return step
        needed_row(j, blocks, rows, there)
        bent = max(diagonal[i] + diagonal[j] - 2.0 * rows[i][j], SMALLEST)
        d = (smooth[j] - smooth[i]) / bent
        up, down = high[i] - alpha[i], alpha[j] - low[j]
        d = min(d, up, down)
        alpha[i] = high[i] if d == up else alpha[i] + d
        alpha[j] = low[j] if d == down else alpha[j] - d
        add_difference(smooth, d, rows[i], rows[j])
        offsets_of(i, alpha, low, high, rising, falling)
        offsets_of(j, alpha, low, high, rising, falling)
    return limit


@compiled
def solve_two_classes(blocks, rows, fields, tolerance, limit, alpha, values, levels):  # type: ignore[no-untyped-def]
    """α, Kα and the multiplier of one pair: the gap, the primal objective, steps and rounds.

    Kα is summed up afresh for every gap, so that nothing of the steps' rounding is in it.
    """
    first, _, second = blocks
    split, m = len(first), len(alpha)
    there = np.zeros(m, np.bool_)
    diagonal, up, down = np.empty(m), np.empty(m), np.empty(m)
    group, code = np.zeros(m, np.int64), np.empty(0, np.int64)
    for k in range(m):
        own = first[k, k] if k < split else second[k - split, k - split]
        diagonal[k] = max(own, SMALLEST)
    halvings = ROUGH if tolerance > EASY else FINE
    sum_rows(alpha, blocks, rows, there, values)
    gap, primal, violation = certificate(
        values, alpha, fields, 0.0, code, group, 1, halvings, up, down, levels
    )
    steps, rounds, share = 0, 0, INNER_SHARE
    while gap > tolerance * max(abs(primal), abs(primal - gap)) and steps < limit:
        goal = share * max(violation, 1e-9)
        taken = hinge_steps(
            blocks, rows, there, diagonal, alpha, values, fields, goal, limit - steps
        )
        steps += taken
        rounds += 1
        sum_rows(alpha, blocks, rows, there, values)
        gap, primal, violation = certificate(
            values, alpha, fields, 0.0, code, group, 1, halvings, up, down, levels
        )
        if taken == 0:
            share *= SHARPER
            if share < 1e-15:
                break
    return gap, primal, steps, rounds


@compiled
def solve_pair(blocks, numbers, first, second, start, tolerance, limit):  # type: ignore[no-untyped-def]
    """α, b, gap, primal objective, steps and support of a pair, given the costs of both classes.

    It makes its own arrays: from Python that would take as long as a small pair itself.
    """
    split, m = len(first), len(first) + len(second)
    fields, alpha, values, levels = np.zeros((5, m)), np.zeros(m), np.zeros(m), np.zeros(1)
    for k in range(m):
        cost = first[k] if k < split else second[k - split]
        fields[0, k] = 1.0 if k < split else -1.0
        fields[3 if k < split else 2, k] = cost if k < split else -cost
        fields[4, k] = cost
    for k in range(len(start)):  # a slice of an array would compile its error messages for seconds
        alpha[k] = start[k]
    rows = numbers[: m * m].reshape(m, m)
    gap, primal, steps, _ = solve_two_classes(
        blocks, rows, fields, tolerance, limit, alpha, values, levels
    )
    support = 0
    for k in range(m):
        support += alpha[k] != 0.0
    return alpha, -levels[0], gap, primal, steps, support


@compiled
def solve_with_later(  # type: ignore[no-untyped-def]
    i, bounds, squares, places, rows, costs, numbers, tolerance, limit, alphas, answers
):
    """The pairs of class i with all later ones; `rows` are those of its matrix from itself on.

    `squares` holds the matrices of all classes one after the other, from `places` on. α of a pair
    goes to `alphas`, one after the other, and the other numbers to a row of `answers`.
    """
    here, own = bounds[i], bounds[i + 1] - bounds[i]
    first = squares[places[i] : places[i] + own * own].reshape(own, own)
    start, put = np.zeros(0), 0
    for j in range(i + 1, len(bounds) - 1):
        a, b = bounds[j], bounds[j + 1]
        m = b - a
        second = squares[places[j] : places[j] + m * m].reshape(m, m)
        blocks = first, rows[:, a - here : b - here], second
        mine, theirs = costs[here : here + own], costs[a:b]
        alpha, level, gap, primal, steps, support = solve_pair(
            blocks, numbers, mine, theirs, start, tolerance, limit
        )
        alphas[put : put + own + m] = alpha
        put += own + m
        answer = answers[j - i - 1]
        answer[0], answer[1], answer[2], answer[3], answer[4] = level, gap, primal, steps, support


class TwoClasses:
    """Solves one pair after the other in the same memory.

    Parameters
    ----------
    points : int
        Of the largest pair.
    tolerance : float
        The relative duality gap at which to stop.
    limit : int
        Steps of a pair at most.
    """

    def __init__(self, points: int, tolerance: float, limit: int) -> None:
        self.tolerance, self.limit = tolerance, limit
        self.numbers = np.empty(points * points)

    def solve(
        self,
        first: np.ndarray,
        between: np.ndarray,
        second: np.ndarray,
        costs: tuple[np.ndarray, np.ndarray],
        start: np.ndarray = NOTHING,
    ) -> tuple[Any, ...]:
        """α, b, gap, primal objective, steps and support of min Σ c(1 − y(f + b))₊ + ½‖f‖².

        `costs` are those of both classes; `start` is an α within the bounds whose sum is 0.
        """
        blocks = first, np.ascontiguousarray(between), second  # one layout is compiled
        return solve_pair(blocks, self.numbers, *costs, start, self.tolerance, self.limit)

    def solve_with_later(
        self,
        i: int,
        bounds: np.ndarray,
        squares: tuple[np.ndarray, np.ndarray],
        rows: np.ndarray,
        costs: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same for a class and each of all later ones, in one call.

        All α one after the other, and a row of the other numbers for each pair. `squares` are the
        matrices of all classes in one array, and where each begins; `rows` those of class i, from
        its own points on.
        """
        later = np.diff(bounds)[i + 1 :]
        points = int(later.sum() + len(later) * (bounds[i + 1] - bounds[i]))
        alphas, answers = np.empty(points), np.empty((len(later), 5))
        settings = self.numbers, self.tolerance, self.limit
        solve_with_later(i, bounds, *squares, rows, costs, *settings, alphas, answers)
        return alphas, answers
