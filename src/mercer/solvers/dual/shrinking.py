"""Shrinking: coefficients that rest safely at a bound leave until the others are done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mercer.solvers.dual.ascent import Ascent, Listener
    from mercer.solvers.dual.rows import ShrinkingRows

SAFELY = 1.0  # violations by which a slope must hold a coefficient to its place
WORTHWHILE = 0.5  # of all coefficients that must rest before the others go on alone


def resting(ascent: Ascent) -> np.ndarray:
    """Which coefficients are held to a bound, or to the kink at 0, by more than the violation.

    With the multiplier m of the sum and the violation v, the right slope is above m + v and the
    left one below m − v: no step of a pair that the present slopes suggest would move them.
    """
    level, margin = ascent.levels[ascent.terms.labels], SAFELY * ascent.violation
    if ascent.terms.group is None:
        level = np.zeros_like(level)
    held: np.ndarray = (ascent.up - level > margin) & (level - ascent.down > margin)
    return held


def pays(rest: np.ndarray) -> bool:
    """Whether enough coefficients rest."""
    return int(rest.sum()) >= WORTHWHILE * len(rest)


def without(
    ascent: Ascent, rest: np.ndarray, rows: ShrinkingRows, tolerance: float, size: int, limit: int
) -> None:
    """Rounds on the coefficients that do not rest; then Kα of those that do is put right."""
    active, idle = np.flatnonzero(~rest), np.flatnonzero(rest)
    part = type(ascent)(
        ascent.terms.part(active), ascent.alpha[active], ascent.values[active], ascent.peak
    )
    part.shrinks = part.shrunk = True
    part.certify()
    part.listener = _listener(ascent, active)
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


def _listener(ascent: Ascent, active: np.ndarray) -> Listener | None:
    """Who listens hears of all coefficients, also of those that rest."""
    listener = ascent.listener
    if listener is None:
        return None

    def hear(alpha: np.ndarray, levels: np.ndarray, primal: float) -> bool:
        whole = ascent.alpha.copy()
        whole[active] = alpha
        return listener(whole, levels, primal)

    return hear
