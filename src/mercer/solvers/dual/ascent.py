"""Ascent in the dual by working sets: where it stands, what it does next, when it stops."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mercer.solvers.dual.rows import KernelRows
from mercer.solvers.dual.terms import Terms

INNER_SHARE = 0.1  # of the violation that steps on a working set leave
STALLED = 3  # rounds in a row without a step, after which no digits are left


@dataclass(eq=False)
class Ascent:
    """α, the values Kα, and the certificate that belongs to them.

    `gap` is primal minus dual objective of min ½αᵀKα + Σ g_i(α_i), `primal` the former, `levels`
    the multipliers of the sums of groups: −b for an intercept b.
    """

    terms: Terms
    alpha: np.ndarray
    values: np.ndarray
    steps: int = 0
    rounds: int = 0
    gap: float = np.inf
    primal: float = np.inf
    unbounded: bool = False
    stalled: bool = False
    levels: np.ndarray = field(default_factory=lambda: np.zeros(1))
    history: list[float] = field(default_factory=list)

    @classmethod
    def begin(cls, terms: Terms, rows: KernelRows) -> Ascent:
        """At the start of the terms."""
        values = np.zeros(len(terms.start))
        support = np.flatnonzero(terms.start)
        for part in np.array_split(support, -(-len(support) // max(1, rows.slots)) or 1):
            if len(part):
                rows.add(part, terms.start[part], values)
        ascent = cls(terms, terms.start.copy(), values)
        ascent.certify()
        return ascent

    @property
    def relative_gap(self) -> float:
        return self.gap / (max(abs(self.primal), abs(self.primal - self.gap)) or 1.0)

    # ---- certificates ---------------------------------------------------------------------------

    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        """Right and left slopes of all coordinates."""
        from mercer.solvers.dual.compiled import slopes

        up, down = np.empty_like(self.alpha), np.empty_like(self.alpha)
        t = self.terms
        slopes(self.values, self.alpha, t.fields, t.kink, t.entropy, up, down)
        return up, down

    def certify(self) -> None:
        """The gap at α, with the multipliers that make it least."""
        from mercer.solvers.dual.compiled import gap_terms

        t = self.terms
        up, down = self.slopes()
        self.levels = np.array([self._level(g, up, down) for g in range(t.groups)] or [0.0])
        gap, conjugate = gap_terms(
            self.values, self.alpha, t.fields, t.kink, t.entropy, t.labels, self.levels
        )
        sums = np.bincount(t.labels, self.alpha, minlength=len(self.levels))
        quadratic = 0.5 * float(self.alpha @ self.values)
        self.gap, self.primal = gap, quadratic + conjugate - float(sums @ self.levels)
        self.history.append(self.relative_gap)

    def _level(self, g: int, up: np.ndarray, down: np.ndarray) -> float:
        from mercer.solvers.dual.compiled import best_level

        t = self.terms
        mine = t.labels == g
        least, largest = up[mine].min(initial=np.inf), down[mine].max(initial=-np.inf)
        if not (np.isfinite(least) and np.isfinite(largest)):
            return float(next((x for x in (least, largest) if np.isfinite(x)), 0.0))
        if largest <= least:
            return float(0.5 * (least + largest))
        total = float(self.alpha[mine].sum())
        return best_level(
            self.values, t.fields, t.kink, t.entropy, t.labels, g, total, least, largest
        )

    # ---- rounds ---------------------------------------------------------------------------------

    def run(self, rows: KernelRows, tolerance: float, size: int, limit: int) -> None:
        """Rounds until the relative gap is at most the tolerance, or `limit` steps were taken."""
        idle = 0
        previous = np.empty(0, np.int64)
        while self.relative_gap > tolerance and self.steps < limit and idle < STALLED:
            previous, steps = self._round(rows, previous, size, limit - self.steps, 0.1**idle)
            if steps < 0:
                self.unbounded = True
                return
            idle = 0 if steps else idle + 1
            self.steps += steps
            self.rounds += 1
            self.certify()
        self.stalled = idle >= STALLED

    def _round(
        self, rows: KernelRows, previous: np.ndarray, size: int, limit: int, share: float
    ) -> tuple[np.ndarray, int]:
        """Steps on one working set, and what they change everywhere."""
        up, down = self.slopes()
        chosen = self._working_set(up, down, previous, size)
        inner = rows.block(chosen)
        before = self.alpha[chosen]
        after = before.copy()
        violation = self._violation(up, down)
        steps = self._steps(inner, after, chosen, INNER_SHARE * share * violation, limit)
        moved = np.flatnonzero(after != before)
        if steps > 0 and len(moved):
            self.alpha[chosen] = after
            rows.add(chosen[moved], (after - before)[moved], self.values)
        return chosen, steps

    def _steps(
        self, inner: np.ndarray, after: np.ndarray, chosen: np.ndarray, tolerance: float, limit: int
    ) -> int:
        from mercer.solvers.dual.compiled import pair_steps, single_steps

        t = self.terms
        fields, values = t.fields[:, chosen], self.values[chosen]
        common = inner, after, values, fields, t.kink, t.entropy
        if t.group is None:
            return single_steps(*common, tolerance, limit)
        bounds = np.searchsorted(t.group[chosen], np.arange(t.groups + 1))
        return pair_steps(*common, bounds, tolerance, limit)

    def _violation(self, up: np.ndarray, down: np.ndarray) -> float:
        t = self.terms
        if t.group is None:
            return float(max(-up.min(initial=0.0), down.max(initial=0.0)))
        return max(
            float(down[t.group == g].max(initial=-np.inf) - up[t.group == g].min(initial=np.inf))
            for g in range(t.groups)
        )

    def _working_set(
        self, up: np.ndarray, down: np.ndarray, previous: np.ndarray, size: int
    ) -> np.ndarray:
        """The coordinates with the steepest slopes, up and down, and half of the last set."""
        n = len(up)
        if n <= size:
            chosen = np.arange(n)
        elif self.terms.group is None:
            pull = np.maximum(-up, down)
            chosen = np.argpartition(-pull, size)[:size]
        else:
            chosen = self._steepest(up, down, previous, size)
        if self.terms.groups > 1:
            chosen = chosen[np.argsort(self.terms.labels[chosen], kind="stable")]
        return chosen

    def _steepest(
        self, up: np.ndarray, down: np.ndarray, previous: np.ndarray, size: int
    ) -> np.ndarray:
        half = size // 2
        rising = np.argpartition(up, half)[:half]
        falling = np.argpartition(-down, half)[:half]
        return np.unique(np.concatenate([rising, falling]))
