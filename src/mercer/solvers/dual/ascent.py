"""Dual ascent by working sets: the iterate with its certificate, rounds, and when to stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mercer.operators import Gram
from mercer.solvers.dual.rows import Rows, ShrinkingRows
from mercer.solvers.dual.terms import Terms
from mercer.solvers.dual.tuning import TUNING, Tuning
from mercer.solvers.optimality import TUNING as OPTIMALITY

Listener = Callable[[np.ndarray, np.ndarray, float], bool]  # of α, levels, primal: whether to stop


@dataclass(eq=False)
class Clock:
    """When ascent must end, and what its steps and its certificate take.

    >>> Clock().steps(1000), Clock().is_over(np.ones(3))
    (1000, False)
    """

    deadline: float = math.inf  # as `time.perf_counter` says it
    value: float = 0.0  # seconds for a kernel value in float64
    pace: float = 2e-6  # seconds for a step on a working set

    def is_over(self, alpha: np.ndarray, parts: float = 1.0) -> bool:
        """Whether the certificate of α would take what is left, or so many times it."""
        if math.isinf(self.deadline):
            return False
        ending = parts * self.value * len(alpha) * np.count_nonzero(alpha)
        return bool(time.perf_counter() + ending >= self.deadline)

    def steps(self, limit: int) -> int:
        """As many steps of those as half of the time left is for: one round may take very many.

        Their pace is that of the last round, and may be twice as slow in the next.
        """
        if math.isinf(self.deadline):
            return limit
        return min(limit, max(1000, int(0.5 * (self.deadline - time.perf_counter()) / self.pace)))


@dataclass(eq=False)
class Ascent:
    """α, the values Kα, and the certificate that belongs to them.

    `gap` is primal minus dual objective of min ½αᵀKα + Σ g_i(α_i), `primal` the former, `levels`
    the multipliers of the sums of groups: −b for an intercept b. All of it is float64.
    """

    steps_for_each: ClassVar[int] = 100_000  # coordinate of a working set, at most

    terms: Terms
    alpha: np.ndarray
    values: np.ndarray
    peak: float = 1.0  # the largest |k(x, x)|
    tuning: Tuning = TUNING
    steps: int = 0
    rounds: int = 0
    gap: float = np.inf
    primal: float = np.inf
    unbounded: bool = False
    stalled: bool = False
    shrinks: bool = False
    shrunk: bool = False
    others: float = 0.0  # what coefficients that rest elsewhere add to the objective
    stopped: str = ""  # by what
    listener: Listener | None = None
    clock: Clock = field(default_factory=Clock)
    history: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.levels = np.zeros(max(1, self.terms.groups))
        self.violation = np.inf
        self.up = self.down = np.empty(0)

    @classmethod
    def begin(
        cls, terms: Terms, rows: Rows, part: int, peak: float, tuning: Tuning = TUNING
    ) -> Ascent:
        """At the start of the terms; `part` coordinates are added at a time."""
        values = np.zeros(len(terms.start))
        support = np.flatnonzero(terms.start)
        for first in range(0, len(support), part):
            some = support[first : first + part]
            rows.add(some, terms.start[some], values)
        ascent = cls(terms, terms.start.copy(), values, peak, tuning)
        ascent.certify()
        return ascent

    @property
    def relative_gap(self) -> float:
        return self.relative(self.gap)

    @property
    def claimed_gap(self) -> float:
        """The gap and its rounding: nothing below that is claimed."""
        return self.gap + self.rounding

    def relative(self, gap: float) -> float:
        """A gap as a share of the objective."""
        if not math.isfinite(gap):
            return math.inf
        primal, least = self.primal + self.others, 0.0
        if self.terms.quadratic:  # all of it is ½αᵀKα, and f may vanish
            least = self.tuning.vanishing * float(np.abs(self.alpha).sum()) ** 2 * self.peak
        return gap / (max(abs(primal), abs(primal - gap), least) or 1.0)

    @property
    def noise(self) -> float:
        """Rounding of slopes, which are sums of numbers of this size."""
        sizes = float(np.abs(self.alpha).sum()) * self.peak, np.abs(self.terms.fields[0]).max()
        return self.tuning.rounding * float(sum(sizes))

    @property
    def support(self) -> np.ndarray:
        """The places where α is not 0."""
        return np.flatnonzero(self.alpha)

    def recompute(self, gram: Gram, rows: Rows | None = None) -> None:
        """Recompute Kα in float64 wherever it changes the gap, and the gap.

        Where α_i = 0 and the slopes hold it there by far more than rows in lower precision can be
        wrong, the loss is 0 for any such value of (Kα)_i, and so is the share of the gap.
        """
        support = self.support
        if rows is not None and rows.exact:
            self.values = np.zeros(len(self.alpha))
            rows.add(support, self.alpha[support], self.values)
        else:
            error = self.tuning.row_error * self.peak * float(np.abs(self.alpha).sum())
            counts = self._counts(error)
            wrong = self._recompute_at(np.flatnonzero(counts), support, gram)
            # the sample shows the true error of rows; if it is not far below the bound, all count
            if not wrong <= 0.1 * error:
                self._recompute_at(np.flatnonzero(~counts), support, gram)
        self.certify(self.tuning.fine)
        self.history.append(self.relative_gap)

    @property
    def rounding(self) -> float:
        """How far rounding of Kα may have moved the gap.

        Each value is off by at most an error like that of `optimality.sum_error`. Where the slopes
        hold α_i at a bound, or at the kink, by more than that, its term of the gap stays 0; else
        the term grows by the error times the way that α_i has within its bounds, or, where the
        conjugate is curved, by its square over the curvature. Errors of different rows are
        independent, and add up like their squares.
        """
        unit = OPTIMALITY.unit + OPTIMALITY.growth * math.sqrt(len(self.alpha))
        error = unit * self.peak * float(np.linalg.norm(self.alpha))
        curvature, low, high = self.terms.fields[1:4]
        level = self.levels[self.terms.labels] if self.terms.groups else 0.0
        loose = ~((self.up - level > error) & (level - self.down > error))
        with np.errstate(divide="ignore", invalid="ignore"):
            way = np.minimum(high - low, np.where(curvature > 0, error / curvature, np.inf))
        way = np.where(np.isfinite(way), way, 2.0 * np.abs(self.alpha))
        return error * float(np.linalg.norm(way[loose]))

    def _counts(self, error: float) -> np.ndarray:
        """Where a value that is wrong by no more than the error could change the gap."""
        level = self.levels[self.terms.labels]
        held = (self.up - level > error) & (level - self.down > error)
        counts: np.ndarray = ~(held & (self.alpha == 0))
        counts[:: max(1, len(counts) // self.tuning.sample)] = True
        return counts

    def _recompute_at(self, places: np.ndarray, support: np.ndarray, gram: Gram) -> float:
        """Kα at some places in float64; how far it was from there."""
        if not len(places):
            return 0.0
        before, values = self.values[places], np.zeros(len(places))
        if len(support):
            columns = Gram(gram.kernel, gram.x.take(places), gram.x.take(support), gram.memory)
            gram.evaluations += columns.shape[0] * columns.shape[1]
            values = columns.astype(np.float64) @ self.alpha[support]
        self.values[places] = values
        return float(np.abs(values - before).max())

    # ---- certificates ---------------------------------------------------------------------------

    def certify(self, halvings: int | None = None) -> None:
        """The gap at α, with multipliers that make it small, or with many halvings least."""
        from mercer.solvers.dual.compiled import certificate

        t = self.terms
        self.up, self.down = np.empty_like(self.alpha), np.empty_like(self.alpha)
        self.gap, self.primal, self.violation = certificate(
            self.values,
            self.alpha,
            t.fields,
            t.kink,
            t.code,
            t.labels,
            t.groups,
            self.tuning.coarse if halvings is None else halvings,
            self.up,
            self.down,
            self.levels,
        )

    # ---- rounds ---------------------------------------------------------------------------------

    def run(self, rows: Rows, tolerance: float, size: int, limit: int) -> None:
        """Rounds until the relative gap is at most the tolerance, or `limit` steps were taken."""
        idle, chosen, tuning = 0, np.empty(0, np.int64), self.tuning
        everything = size >= len(self.alpha)
        random = None if everything else np.random.default_rng(0)
        inner = tuning.whole_share if everything and not self.shrunk else tuning.inner_share
        # a cap on rounds that goes with the cap on steps: a round takes more than a few
        most = self.rounds + min(limit, 1000 + 20 * (len(self.alpha) // size) + limit // 1000)
        while self.goes_on(tolerance, limit) and idle < tuning.idle_rounds and self.rounds < most:
            chosen = self._working_set(chosen, size, random)
            # after a round without a step the next set is solved ten times as well
            steps = self._round(rows, chosen, limit - self.steps, inner * 0.1**idle)
            if steps < 0:
                self.unbounded = True
                return
            idle = 0 if steps else idle + 1
            self.steps += steps
            self.rounds += 1
            self.certify()
            self.history.append(self.relative_gap)
            if self.listener is not None:
                total = self.primal + self.others
                self.stopped = "callback" * bool(self.listener(self.alpha, self.levels, total))
            self.stopped = self.stopped or "time limit" * self.is_late
            if self.shrinks and steps and self.goes_on(tolerance, limit):
                self._shrink(rows, tolerance, size, limit)
        self.stalled = idle >= tuning.idle_rounds

    def _shrink(self, rows: Rows, tolerance: float, size: int, limit: int) -> None:
        """Go on without the coefficients that rest, where they are many."""
        if len(self.alpha) <= size or not isinstance(rows, ShrinkingRows):
            return
        rest = resting(self)
        if int(rest.sum()) >= self.tuning.resting * len(rest):
            without(self, rest, rows, tolerance, size, limit - self.steps)

    @property
    def is_late(self) -> bool:
        """Whether it is time for the certificate; what has shrunk is multiplied by once more."""
        return self.clock.is_over(self.alpha, 1.5 if self.shrunk else 1.0)

    def goes_on(self, tolerance: float, limit: int) -> bool:
        ended = self.unbounded or bool(self.stopped)
        return self.relative_gap > tolerance and self.steps < limit and not ended

    def _round(self, rows: Rows, chosen: np.ndarray, limit: int, share: float) -> int:
        """Steps on one working set, and what they change everywhere."""
        before = self.alpha[chosen]
        after = before.copy()
        # steps below the rounding of the slopes would go on for ever, and gain nothing
        tolerance = max(share * self.violation, self.noise)
        limit = self.clock.steps(min(limit, self.steps_for_each * len(chosen)))
        block, start = rows.block(chosen), time.perf_counter()
        steps = self._steps(block, after, chosen, tolerance, limit)
        if steps >= 1000:
            self.clock.pace = (time.perf_counter() - start) / steps
        moved = np.flatnonzero(after != before)
        if steps > 0 and len(moved):
            self.alpha[chosen] = after
            rows.add(chosen[moved], (after - before)[moved], self.values)
        return steps

    def _steps(
        self, inner: np.ndarray, after: np.ndarray, chosen: np.ndarray, tolerance: float, limit: int
    ) -> int:
        from mercer.solvers.dual.compiled import pair_steps, single_steps

        t = self.terms
        fields, values = np.ascontiguousarray(t.fields[:, chosen]), self.values[chosen]
        common = inner, after, values, fields, t.kink, t.code
        if t.group is None:
            return int(single_steps(*common, tolerance, limit))
        bounds = np.searchsorted(t.group[chosen], np.arange(t.groups + 1))
        return int(pair_steps(*common, bounds, tolerance, limit))

    # ---- working sets ---------------------------------------------------------------------------

    def _working_set(
        self, last: np.ndarray, size: int, random: np.random.Generator | None
    ) -> np.ndarray:
        """Support vectors of the last set, and violators drawn by how much they violate.

        The worst violators are often neighbours, all of which one of them would satisfy; drawing
        them at random, with probabilities like their violations, takes far fewer rounds.
        """
        t = self.terms
        if random is None:  # all of them
            chosen = np.arange(len(self.alpha))
        else:
            again, room = last[self.alpha[last] != 0], int(self.tuning.carried * size)
            if len(again) > room:
                again = random.choice(again, room, replace=False)
            chosen = np.unique(np.concatenate([again, *self._violators(again, size, random)]))
        if t.groups > 1:
            chosen = chosen[np.argsort(t.labels[chosen], kind="stable")]
        return chosen

    def _violators(
        self, again: np.ndarray, size: int, random: np.random.Generator
    ) -> list[np.ndarray]:
        t = self.terms
        kinds = max(1, t.groups)
        room = max(1, (size - len(again)) // (2 * kinds))
        level = self.levels[t.labels]
        drawn = []
        for pull in (level - self.up, self.down - level):
            pull[again] = -1.0
            for g in range(kinds):
                weights = pull if kinds == 1 else np.where(t.labels == g, pull, -1.0)
                drawn.append(_drawn(weights, room, random))
        return drawn


def _drawn(weights: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """So many places without replacement, with probabilities ∝ positive weights."""
    places = np.flatnonzero(weights > 0)
    if len(places) <= count:
        return places
    keys = np.log(random.random(len(places))) / weights[places]
    return places[np.argpartition(-keys, count)[:count]]


# ---- shrinking: coefficients that rest safely at a bound leave until the others are done ---------


def resting(ascent: Ascent) -> np.ndarray:
    """Which coefficients are held to a bound, or to the kink at 0, by more than the violation.

    With the multiplier m of the sum and the violation v, the right slope is above m + v and the
    left one below m − v: no step of a pair that the present slopes suggest would move them.
    """
    level = ascent.levels[ascent.terms.labels]
    margin = ascent.tuning.safely * ascent.violation
    if ascent.terms.group is None:
        level = np.zeros_like(level)
    held: np.ndarray = (ascent.up - level > margin) & (level - ascent.down > margin)
    return held


def without(
    ascent: Ascent, rest: np.ndarray, rows: ShrinkingRows, tolerance: float, size: int, limit: int
) -> None:
    """Rounds on the coefficients that do not rest; then Kα of the others is updated."""
    active, idle = np.flatnonzero(~rest), np.flatnonzero(rest)
    some = ascent.terms.part(active), ascent.alpha[active], ascent.values[active]
    part = type(ascent)(*some, ascent.peak, ascent.tuning)
    part.shrinks = part.shrunk = True
    part.certify()
    part.listener, part.clock = _progress_of_all(ascent, active), ascent.clock
    part.others = ascent.others + ascent.primal - part.primal
    part.run(rows.part(active), tolerance, size, limit)
    changed = np.flatnonzero(part.alpha != ascent.alpha[active])
    factors = (part.alpha - ascent.alpha[active])[changed]
    if len(changed):
        rows.add_to(idle, active[changed], factors, ascent.values)
    ascent.alpha[active], ascent.values[active] = part.alpha, part.values
    ascent.steps += part.steps
    ascent.rounds += part.rounds
    ascent.unbounded, ascent.stopped = part.unbounded, part.stopped
    ascent.shrinks = not part.stalled
    ascent.history += part.history
    ascent.certify()
    ascent.history.append(ascent.relative_gap)


def _progress_of_all(ascent: Ascent, active: np.ndarray) -> Listener | None:
    """The callback is given all coefficients, also those that rest."""
    listener = ascent.listener
    if listener is None:
        return None

    def report(alpha: np.ndarray, levels: np.ndarray, primal: float) -> bool:
        whole = ascent.alpha.copy()
        whole[active] = alpha
        return listener(whole, levels, primal)

    return report


# ---- λ = 0: the separating function of least norm, where there is one ----------------------------


class HardMargin(Ascent):
    """Ascent for min ½‖f‖² with y_i(f(x_i) + b) ≥ 1: the dual has no upper bounds.

    At α with the margin m = min y_i(f(x_i) + b) > 0 the function f/m is feasible, so the gap is
    ½‖f‖²/m² − (Σ y_iα_i − ½‖f‖²). Every α with s = Σ y_iα_i proves that no function separates with
    a margin above ‖f‖/s.
    """

    steps_for_each = 20  # so that a dual without bound shows after some rounds
    margin = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.before = self.alpha.copy(), self.values.copy()

    def certify(self, halvings: int | None = None) -> None:
        super().certify(halvings)
        y, values, counted = self.terms.fields[0], self.values, self.terms.fields[3] > 0
        counted = counted | (self.terms.fields[2] < 0)
        norm = max(float(self.alpha @ values), 0.0)
        total = float(self.alpha @ y)
        if self.terms.group is not None:
            least = values[counted & (y > 0)].min(initial=np.inf)
            largest = values[counted & (y < 0)].max(initial=-np.inf)
            self.levels[0] = 0.5 * (least + largest)
        self.margin = float((y * (values - self.levels[0]))[counted].min())
        proven = self._proves_none(self.alpha, values) or self._grows_without_end()
        self.unbounded = self.unbounded or proven
        self.primal = 0.5 * norm / self.margin**2 if self.margin > 0 else np.inf
        self.gap = max(self.primal - (total - 0.5 * norm), 0.0)

    def _counts(self, error: float) -> np.ndarray:
        return np.ones(len(self.alpha), bool)  # the margin is that of all points

    def _proves_none(self, alpha: np.ndarray, values: np.ndarray) -> bool:
        """Whether α, with y_iα_i ≥ 0, shows that there is hardly a margin."""
        total = float(alpha @ self.terms.fields[0])
        norm = math.sqrt(max(float(alpha @ values), 0.0))
        return total > 0 and norm <= self.tuning.least_margin * math.sqrt(self.peak) * total

    def _grows_without_end(self) -> bool:
        """The same of what the last round added."""
        added, values = self.alpha - self.before[0], self.values - self.before[1]
        self.before = self.alpha.copy(), self.values.copy()
        same_sign = bool((self.terms.fields[0] * added >= 0).all())
        return same_sign and self._proves_none(added, values)

    def scaled(self) -> None:
        """Divide by the margin, which makes it 1."""
        self.alpha, self.values = self.alpha / self.margin, self.values / self.margin
        self.levels = self.levels / self.margin
