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
NO_BLOCKS = (np.empty((0, 0)),) * 3
NO_TABLES = np.empty((3, 0), np.int64)
NO_ROWS = (
    (np.empty((0, 9), np.int64), *NO_BLOCKS[:2], NOTHING, NO_TABLES, 0, 0, 0),
    (0, 0),
    NOTHING,
)
FINE, ROUGH = Tuning().fine, 24  # halvings; compiled code takes them as constants
EASY = 1e-6  # relative gap from which on rough halvings, of 6e-8, are enough


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


@compiled
def computed_row(k, source, split, rows, slots, used):  # type: ignore[no-untyped-def]
    """Put row k of the matrix of a pair into the store, on its first use; whether there is room."""
    if used[0] == len(rows):
        used[1] = 1
        return False
    slots[k] = used[0]
    used[0] += 1
    row = rows[slots[k]]
    own = k < split
    if len(source.diagonal):
        place = source.places[0] + k if own else source.places[1] + k - split
        fill_row(*source.single, place, source.places[0], split, row[:split])
        fill_row(*source.single, place, source.places[1], len(row) - split, row[split:])
        return True
    for c in range(split):
        row[c] = source.first[k, c] if own else source.between[c, k - split]
    for c in range(split, len(row)):
        row[c] = source.between[k, c - split] if own else source.second[k - split, c - split]
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
def hinge_steps(  # type: ignore[no-untyped-def]
    source, split, rows, slots, used, diagonal, alpha, values, fields, goal, limit
):
    """Steps along e_i − e_j, most gain first, until slopes agree to `goal`; how many there were.

    They end, too, where the store has no room for a row that is needed.
    """
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
        if slots[i] < 0 and not computed_row(i, source, split, rows, slots, used):
            return step
        row_i = rows[slots[i]]
        j, gain, worst = best_partner(
            diagonal[i], least, row_i, diagonal, smooth, falling, curvature, scores
        )
        if worst <= goal or gain <= 0.0:
            return step
        if slots[j] < 0 and not computed_row(j, source, split, rows, slots, used):
            return step
        bent = max(diagonal[i] + diagonal[j] - 2.0 * row_i[j], SMALLEST)
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
def solve_two_classes(source, split, rows, fields, tolerance, limit, alpha, values, levels, used):  # type: ignore[no-untyped-def]
    """α, Kα and the multiplier of one pair: the gap, the primal objective and steps.

    Kα is summed up afresh for every gap, so that nothing of the steps' rounding is in it. `used`
    receives how many rows were needed, and whether there was no room for one.
    """
    m = len(alpha)
    slots = np.full(m, -1)
    diagonal, up, down = np.empty(m), np.empty(m), np.empty(m)
    group, code = np.zeros(m, np.int64), np.empty(0, np.int64)
    for k in range(m):
        if len(source.diagonal):
            own = source.diagonal[
                source.places[0] + k if k < split else source.places[1] + k - split
            ]
        else:
            own = source.first[k, k] if k < split else source.second[k - split, k - split]
        diagonal[k] = max(own, SMALLEST)
    halvings = ROUGH if tolerance > EASY else FINE
    sum_rows(alpha, source, split, rows, slots, used, values)
    gap, primal, violation = 1.0, 0.0, 2.0  # until the first steps: at α = 0 slopes are −1 and 1
    steps, share = 0, INNER_SHARE
    while gap > tolerance * max(abs(primal), abs(primal - gap)) and steps < limit:
        goal = share * max(violation, 1e-9)
        taken = hinge_steps(
            source, split, rows, slots, used, diagonal, alpha, values, fields, goal, limit - steps
        )
        steps += taken
        sum_rows(alpha, source, split, rows, slots, used, values)
        gap, primal, violation = certificate(
            values, alpha, fields, 0.0, code, group, 1, halvings, up, down, levels
        )
        if used[1]:
            break
        if taken == 0:
            share *= SHARPER
            if share < 1e-15:
                break
    return gap, primal, steps


@compiled
def solve_pair(source, numbers, most, first, second, start, tolerance, limit):  # type: ignore[no-untyped-def]
    """α, b, gap, primal objective, steps, support and rows of a pair, given the costs of both.

    It makes its own arrays: from Python that would take as long as a small pair itself. At most
    `most` rows are stored, in `numbers`.
    """
    split, m = len(first), len(first) + len(second)
    fields, alpha, values, levels = np.zeros((5, m)), np.zeros(m), np.zeros(m), np.zeros(1)
    used = np.zeros(2, np.int64)
    for k in range(m):
        cost = first[k] if k < split else second[k - split]
        fields[0, k] = 1.0 if k < split else -1.0
        fields[3 if k < split else 2, k] = cost if k < split else -cost
        fields[4, k] = cost
    for k in range(len(start)):  # a slice of an array would compile its error messages for seconds
        alpha[k] = start[k]
    rows = numbers[: most * m].reshape(most, m)
    gap, primal, steps = solve_two_classes(
        source, split, rows, fields, tolerance, limit, alpha, values, levels, used
    )
    support = 0
    for k in range(m):
        support += alpha[k] != 0.0
    return alpha, -levels[0], gap, primal, steps, support, used[0]


@compiled
def solve_with_later(  # type: ignore[no-untyped-def]
    i, bounds, squares, places, rows, source, costs, numbers, tolerance, limit, alphas, answers
):
    """The pairs of class i with all later ones; `rows` are those of its matrix from itself on.

    `squares` holds the matrices of all classes one after the other, from `places` on. α of a pair
    goes to `alphas`, one after the other, and the other numbers to a row of `answers`. `source` is
    an empty one.
    """
    here, own = bounds[i], bounds[i + 1] - bounds[i]
    first = squares[places[i] : places[i] + own * own].reshape(own, own)
    start, put = np.zeros(0), 0
    for j in range(i + 1, len(bounds) - 1):
        a, b = bounds[j], bounds[j + 1]
        m = b - a
        second = squares[places[j] : places[j] + m * m].reshape(m, m)
        blocks = Source(
            first, rows[:, a - here : b - here], second,
            source.single, source.places, source.diagonal,
        )  # fmt: skip
        mine, theirs = costs[here : here + own], costs[a:b]
        alpha, level, gap, primal, steps, support, _ = solve_pair(
            blocks, numbers, own + m, mine, theirs, start, tolerance, limit
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
    rows : int or None
        Of a pair that are stored at most; None for all.
    """

    def __init__(self, points: int, tolerance: float, limit: int, rows: int | None = None) -> None:
        self.tolerance, self.limit, self.rows = tolerance, limit, rows
        self.numbers = np.empty(self._most(points) * points)

    def _most(self, points: int) -> int:
        """Rows of a pair that are stored."""
        return points if self.rows is None else min(points, self.rows)

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
        a, b, c = map(np.ascontiguousarray, (first, between, second))  # one layout is compiled
        return self._solved(Source(a, b, c, *NO_ROWS), costs, start)[:6]

    def solve_by_rows(
        self, rows: SingleRows, places: tuple[int, int], costs: tuple[np.ndarray, np.ndarray]
    ) -> tuple[Any, ...]:
        """The same of points from two places on, and how many rows were computed.

        It ends early, with a large gap, where more rows are needed than are to be stored.
        """
        return self._solved(Source(*NO_BLOCKS, rows.single, places, rows.diagonal), costs, NOTHING)

    def _solved(
        self, source: Source, costs: tuple[np.ndarray, np.ndarray], start: np.ndarray
    ) -> tuple[Any, ...]:
        most = self._most(len(costs[0]) + len(costs[1]))
        return solve_pair(source, self.numbers, most, *costs, start, self.tolerance, self.limit)

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
        settings = costs, self.numbers, self.tolerance, self.limit
        none = Source(*NO_BLOCKS, *NO_ROWS)
        solve_with_later(i, bounds, *squares, rows, none, *settings, alphas, answers)
        return alphas, answers


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
        self.single, self.diagonal = single, np.asarray(gram.diagonal(), np.float64)

    @staticmethod
    def suit(gram: Gram) -> bool:
        """Whether compiled code computes the values of these points, without BLAS."""
        execution = gram.astype(np.float64).execution()
        return isinstance(execution, Cpu) and execution.operands.in_registers
