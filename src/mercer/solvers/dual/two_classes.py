"""Support vector machines for many pairs of small classes, each in one compiled call.

With a hundred pairs and more, what a pair costs beside its arithmetic decides: objects, checks and
copies of the matrix. Here a pair is the three blocks of its matrix, of which a row is put together
when a step first needs it; most rows never are. Where classes lie apart, steps need so few rows
that each is computed on its own, and the blocks never are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer.evaluation.cpu.execution import Cpu
from mercer.evaluation.cpu.loops import fill_row
from mercer.evaluation.cpu.vectors import padding_step, widen
from mercer.operators import Gram
from mercer.solvers.dual.compiled import (
    INFINITE,
    LEAST_CURVATURE,
    add_difference,
    best_partner,
    certificate,
    compiled,
    least_up,
)
from mercer.solvers.dual.tuning import Tuning

INNER_SHARE = 3e-3  # of the violation that the first steps leave, and later ones at least
LATER_SHARE = 0.5  # of what the gap lacks, at most of the violation: it falls about as fast as that
SHARPER = 0.1  # of the share, after which no step was left
NO_NUMBERS = np.empty(0)
NO_BLOCKS = (np.empty((0, 0)),) * 3
NO_TABLES = np.empty((3, 0), np.int64)
NO_ROWS = (
    (np.empty((0, 9), np.int64), *NO_BLOCKS[:2], NO_NUMBERS, NO_TABLES, 0, 0, 0),
    (0, 0),
    NO_NUMBERS,
)
NO_PLACES = np.empty(0, np.int64)
FINE, ROUGH = Tuning().fine, 6  # halvings; compiled code takes them as constants
EASY = 1e-6  # relative gap from which on rough halvings are enough: with 24 steps are the same


class Source(NamedTuple):
    """Where rows of the matrix of a pair come from: its three blocks, or what computes one row.

    The latter where `first` is empty: `single` is what `loops.fill_row` begins with, the points of
    both classes lie from `places` on, and `diagonal` is that of all points.
    """

    first: np.ndarray
    between: np.ndarray
    second: np.ndarray
    single: tuple[Any, ...]
    places: tuple[int, int]
    diagonal: np.ndarray


class Room(NamedTuple):
    """What is computed for the points of a pair: one room serves one pair after the other.

    To allocate each array for each pair took as long as the steps of thirty points.
    """

    fields: np.ndarray  # as in `dual.compiled`
    values: np.ndarray  # Kα
    diagonal: np.ndarray
    up: np.ndarray
    down: np.ndarray
    smooth: np.ndarray
    rising: np.ndarray
    falling: np.ndarray
    curvature: np.ndarray
    scores: np.ndarray
    slots: np.ndarray  # where a row is stored, −1 where it is not
    group: np.ndarray
    levels: np.ndarray
    used: np.ndarray  # how many rows, and whether there was no room for one
    code: np.ndarray


@compiled
def room_for(m, numbers, places):  # type: ignore[no-untyped-def]
    """Arrays for m points, cut from one of numbers and one of places."""
    at = 5 * m
    return Room(
        numbers[:at].reshape(5, m), numbers[at : at + m], numbers[at + m : at + 2 * m],
        numbers[at + 2 * m : at + 3 * m], numbers[at + 3 * m : at + 4 * m],
        numbers[at + 4 * m : at + 5 * m], numbers[at + 5 * m : at + 6 * m],
        numbers[at + 6 * m : at + 7 * m], numbers[at + 7 * m : at + 8 * m],
        numbers[at + 8 * m : at + 9 * m], places[:m], places[m : 2 * m],
        numbers[at + 9 * m : at + 9 * m + 1], places[2 * m : 2 * m + 2], places[:0],
    )  # fmt: skip


@compiled
def computed_row(k, source, split, rows, slots, used):  # type: ignore[no-untyped-def]
    """Put row k of the matrix of a pair into the store, on its first use; whether there is room."""
    if used[0] == len(rows):
        used[1] = 1
        return False
    slots[k] = used[0]
    used[0] += 1
    row, m = rows[slots[k]], rows.shape[1]
    if len(source.diagonal):
        place = source.places[0] + k if k < split else source.places[1] + k - split
        fill_row(*source.single, place, source.places[0], split, row[:split])
        fill_row(*source.single, place, source.places[1], m - split, row[split:])
    elif k < split:
        for c in range(split):
            row[c] = source.first[k, c]
        for c in range(split, m):
            row[c] = source.between[k, c - split]
    else:
        for c in range(split):
            row[c] = source.between[c, k - split]
        for c in range(split, m):
            row[c] = source.second[k - split, c - split]
    return True


@compiled
def add_multiple(values, factor, row):  # type: ignore[no-untyped-def]
    """Add a multiple of a row of K to Kα."""
    widen()
    for c in range(len(values)):
        values[c] += factor * row[c]


@compiled
def sum_rows(alpha, source, split, rows, slots, used, values):  # type: ignore[no-untyped-def]
    """Kα from scratch."""
    values[:] = 0.0
    for k in range(len(alpha)):
        needed = alpha[k] != 0.0
        if needed and slots[k] < 0:
            needed = computed_row(k, source, split, rows, slots, used)
        if needed:
            add_multiple(values, alpha[k], rows[slots[k]])


@compiled
def offsets_of(k, alpha, low, high, rising, falling):  # type: ignore[no-untyped-def]
    """Infinite where a bound is met, 0 elsewhere: what is added to slopes to the right and left."""
    rising[k] = INFINITE if alpha[k] >= high[k] else 0.0
    falling[k] = -INFINITE if alpha[k] <= low[k] else 0.0


@compiled
def hinge_steps(source, split, rows, room, alpha, goal, limit):  # type: ignore[no-untyped-def]
    """Steps along e_i − e_j, most gain first, until slopes agree to `goal`; how many there were.

    They end, too, where the store has no room for a row that is needed.
    """
    widen()
    low, high, diagonal, slots, used = (
        room.fields[2], room.fields[3], room.diagonal, room.slots, room.used,
    )  # fmt: skip
    smooth, rising, falling, scores = room.smooth, room.rising, room.falling, room.scores
    for k in range(len(alpha)):
        smooth[k] = room.values[k] - room.fields[0, k]
        offsets_of(k, alpha, low, high, rising, falling)
    for step in range(limit):
        i, least = least_up(smooth, rising, scores)
        if least == INFINITE:
            return step
        if slots[i] < 0 and not computed_row(i, source, split, rows, slots, used):
            return step
        row_i = rows[slots[i]]
        j, gain, worst = best_partner(
            diagonal[i], least, row_i, diagonal, smooth, falling, room.curvature, scores
        )
        if worst <= goal or gain <= 0.0:
            return step
        if slots[j] < 0 and not computed_row(j, source, split, rows, slots, used):
            return step
        bent = max(diagonal[i] + diagonal[j] - 2.0 * row_i[j], LEAST_CURVATURE)
        d = (smooth[j] - smooth[i]) / bent
        up, down = high[i] - alpha[i], alpha[j] - low[j]
        d = min(d, up, down)
        alpha[i] = high[i] if d == up else alpha[i] + d
        alpha[j] = low[j] if d == down else alpha[j] - d
        add_difference(smooth, d, row_i, rows[slots[j]])
        offsets_of(i, alpha, low, high, rising, falling)
        offsets_of(j, alpha, low, high, rising, falling)
    return limit


@compiled
def prepare(source, first, second, room):  # type: ignore[no-untyped-def]
    """The terms of a pair, given the costs of both classes, and the diagonal."""
    split, m, (here, there) = len(first), len(room.values), source.places
    room.fields[:] = 0.0
    room.slots[:] = -1
    room.group[:] = 0
    room.curvature[:] = 0.0
    room.used[:] = 0
    room.levels[0] = 0.0
    for k in range(split):
        room.fields[0, k], room.fields[3, k], room.fields[4, k] = 1.0, first[k], first[k]
    for k in range(split, m):
        cost = second[k - split]
        room.fields[0, k], room.fields[2, k], room.fields[4, k] = -1.0, -cost, cost
    if len(source.diagonal):
        room.diagonal[:split] = source.diagonal[here : here + split]
        room.diagonal[split:] = source.diagonal[there : there + m - split]
    else:
        for k in range(split):
            room.diagonal[k] = source.first[k, k]
        for k in range(split, m):
            room.diagonal[k] = source.second[k - split, k - split]
    for k in range(m):
        room.diagonal[k] = max(room.diagonal[k], LEAST_CURVATURE)


@compiled
def solve_pair(source, numbers, most, first, second, room, tolerance, limit, alpha):  # type: ignore[no-untyped-def]
    """Bring α of a pair to its best: b, gap, primal objective, steps, support and rows.

    `first` and `second` are the costs of both classes; at most `most` rows are stored, in
    `numbers`. Kα is summed up afresh for every gap, so that nothing of the steps' rounding is in
    it.
    """
    split, m = len(first), len(alpha)
    rows, values, slots, used = (
        numbers[: most * m].reshape(most, m),
        room.values,
        room.slots,
        room.used,
    )
    prepare(source, first, second, room)
    halvings = ROUGH if tolerance > EASY else FINE
    values[:] = 0.0
    if alpha.any():  # else a call with so many arrays would take as long as three steps
        sum_rows(alpha, source, split, rows, slots, used, values)
    gap, primal, violation = 1.0, 0.0, 2.0  # until the first steps: at α = 0 slopes are −1 and 1
    steps, share, sharper = 0, INNER_SHARE, 1.0
    while gap > tolerance * max(abs(primal), abs(primal - gap)) and steps < limit:
        goal = sharper * share * max(violation, 1e-9)
        taken = hinge_steps(source, split, rows, room, alpha, goal, limit - steps)
        steps += taken
        sum_rows(alpha, source, split, rows, slots, used, values)
        gap, primal, violation = certificate(
            values, alpha, room.fields, 0.0, room.code, room.group, 1, halvings, room.up, room.down,
            room.levels,
        )  # fmt: skip
        if used[1]:
            break
        wanted = tolerance * max(abs(primal), abs(primal - gap))
        share = max(INNER_SHARE, LATER_SHARE * min(1.0, wanted / max(gap, LEAST_CURVATURE)))
        if taken == 0:
            sharper *= SHARPER
            if sharper < 1e-13:
                break
    support = 0
    for k in range(m):
        support += alpha[k] != 0.0
    return -room.levels[0], gap, primal, steps, support, used[0]


@compiled
def solve_with_others(  # type: ignore[no-untyped-def]
    i, others, bounds, source, squares, places, stripe, origin, costs, numbers, most, rooms,
    tolerance, limit, begins, alphas, answers,
):  # fmt: skip
    """The pairs of class i with some others, of which each receives α and a row of answers.

    Where `source` computes rows, all of them are; else `squares` holds the matrices of all classes
    one after the other, from `places` on, and `stripe` the rows of class i from point `origin` on.
    """
    here, own = bounds[i], bounds[i + 1] - bounds[i]
    stored = len(source.diagonal) == 0
    for k in range(len(others)):
        j = others[k]
        a, b = bounds[j], bounds[j + 1]
        m = b - a
        rows, columns = (own, m) if stored else (0, 0)
        first, second = (places[i], places[j]) if stored else (0, 0)
        pair = Source(
            squares[first : first + rows * rows].reshape(rows, rows),
            stripe[:, a - origin : a - origin + columns],
            squares[second : second + columns * columns].reshape(columns, columns),
            source.single, (here, a), source.diagonal,
        )  # fmt: skip
        alpha, answer = alphas[begins[k] : begins[k] + own + m], answers[k]
        level, gap, primal, steps, support, used = solve_pair(
            pair, numbers, most[k], costs[here : here + own], costs[a:b],
            room_for(own + m, rooms[0], rooms[1]), tolerance, limit, alpha,
        )  # fmt: skip
        answer[0], answer[1], answer[2] = level, gap, primal
        answer[3], answer[4], answer[5] = steps, support, used


class TwoClasses:
    """Solves one pair after the other in the same memory.

    Parameters
    ----------
    points : int
        Of the largest pair.
    numbers : int
        Values of a matrix that are stored at most: rows times points of a pair.
    tolerance : float
        The relative duality gap at which to stop.
    limit : int
        Steps of a pair at most.
    """

    def __init__(self, points: int, numbers: int, tolerance: float, limit: int) -> None:
        self.tolerance, self.limit = tolerance, limit
        self.numbers = np.empty(numbers)
        self.rooms = np.empty(14 * points + 1), np.empty(2 * points + 2, np.int64)

    def solve(
        self,
        first: np.ndarray,
        between: np.ndarray,
        second: np.ndarray,
        costs: tuple[np.ndarray, np.ndarray],
        start: np.ndarray = NO_NUMBERS,
    ) -> tuple[Any, ...]:
        """α, b, gap, primal objective, steps and support of min Σ c(1 − y(f + b))₊ + ½‖f‖².

        `costs` are those of both classes; `start` is an α within the bounds whose sum is 0.
        """
        a, b, c = map(np.ascontiguousarray, (first, between, second))  # one layout is compiled
        m = len(a) + len(c)
        alpha = np.array(start) if len(start) else np.zeros(m)
        room, settings = room_for(m, *self.rooms), (self.tolerance, self.limit, alpha)
        source = Source(a, b, c, *NO_ROWS)
        return alpha, *solve_pair(source, self.numbers, m, *costs, room, *settings)[:5]

    def solve_with_others(
        self,
        i: int,
        others: np.ndarray,
        bounds: np.ndarray,
        rows: SingleRows | tuple[np.ndarray, np.ndarray, np.ndarray, int],
        costs: np.ndarray,
        most: np.ndarray,
        begins: np.ndarray,
        alphas: np.ndarray,
    ) -> np.ndarray:
        """The same for a class with some others, in one call: b and so on, and rows that were used.

        `rows` computes them, or is a tuple: the matrices of all classes in one array, where each
        begins, and the rows of class i from some point on. Of each pair at most so many rows
        as `most` says are computed; where more are needed it ends early, with a large gap. α of a
        pair is at its place in `alphas`, before and after.
        """
        if isinstance(rows, SingleRows):
            source, blocks = rows.source, (NO_NUMBERS, NO_PLACES, NO_BLOCKS[0], 0)
        else:
            source, blocks = Source(*NO_BLOCKS, *NO_ROWS), rows
        answers = np.empty((len(others), 6))
        settings = costs, self.numbers, most, self.rooms, self.tolerance, self.limit
        solve_with_others(i, others, bounds, source, *blocks, *settings, begins, alphas, answers)
        return answers


class SingleRows:
    """Rows of K that compiled code computes one by one, and the diagonal.

    Parameters
    ----------
    gram : Gram
        K of the points, in float64.
    """

    def __init__(self, gram: Gram) -> None:
        count = len(gram.x)
        beyond = np.minimum(np.arange(count + padding_step(np.float64)), count - 1)
        padded = Gram(gram.kernel, gram.x.take(beyond), None, gram.memory).astype(np.float64)
        single, self.alive = padded.execution().single_rows()  # type: ignore[attr-defined]
        self.source = Source(*NO_BLOCKS, single, (0, 0), np.asarray(gram.diagonal(), np.float64))

    @staticmethod
    def suit(gram: Gram) -> bool:
        """Whether compiled code computes the values of these points, without BLAS."""
        execution = gram.astype(np.float64).execution()
        return isinstance(execution, Cpu) and execution.operands.in_registers
