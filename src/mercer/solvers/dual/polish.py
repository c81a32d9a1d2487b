"""The last digits of a small problem: a linear system for the coefficients that no bound holds."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dposv

from mercer.operators import Gram
from mercer.solvers.dual.ascent import Ascent
from mercer.solvers.dual.rows import Rows


def goal_of_polish(ascent: Ascent, tolerance: float) -> float | None:
    """The gap to polish to: rounding for a small problem, else the tolerance, if steps take long.

    None where the problem is large, or its optimum not given by linear equations.
    """
    n, tuning = len(ascent.alpha), ascent.tuning
    most = tuning.sometimes if tolerance < tuning.out_of_reach else tuning.always
    if ascent.terms.loss is not None or n > most:
        return None
    return tuning.polished_gap if n <= tuning.always else tolerance


def polish(ascent: Ascent, gram: Gram, rows: Rows, size: int, limit: int, goal: float) -> None:
    """Bring the gap down to the goal where few coefficients are free, by turns with steps.

    With I the free coefficients and s the signs at kinks, the optimum has
    (K + Q)_I α = t − εs + level and the given sums; two-variable steps find I, the system the rest.
    At the end Kα and the gap are computed from scratch. Where rounding lets steps lose what was
    reached before, as in a linear kernel of large columns, the best of all turns is returned.
    """
    best = ascent.alpha.copy(), ascent.relative_gap
    for _ in range(ascent.tuning.attempts):
        if ascent.relative_gap <= goal or ascent.steps >= limit or ascent.stopped or ascent.is_late:
            break
        solved = solve_for_free(ascent, gram, rows)
        if ascent.relative_gap <= goal:
            return  # as it was just computed
        if ascent.stalled and not solved:
            break
        more = ascent.steps + ascent.tuning.steps_between * len(ascent.alpha)
        ascent.run(rows, max(goal, 1e-3 * ascent.relative_gap), size, min(more, limit))
        if ascent.relative_gap < best[1]:
            best = ascent.alpha.copy(), ascent.relative_gap
    ascent.recompute(gram, rows)
    if ascent.relative_gap > best[1]:
        ascent.alpha = best[0]
        ascent.recompute(gram, rows)


def solve_for_free(ascent: Ascent, gram: Gram, rows: Rows) -> bool:
    """One system after another, as bounds are met; whether the gap fell."""
    before = ascent.alpha.copy(), ascent.values.copy(), ascent.relative_gap
    for _ in range(ascent.tuning.systems):
        if ascent.is_late:
            break
        low, high = ascent.terms.fields[2:4]
        inside = (ascent.alpha > low) & (ascent.alpha < high)
        if ascent.terms.kink > 0:
            inside &= ascent.alpha != 0
        free = np.flatnonzero(inside)
        if not 0 < len(free) <= ascent.tuning.polished:
            break
        if _step(ascent, rows.block(free), free):
            break
    ascent.recompute(gram, rows)
    if ascent.relative_gap < before[2]:
        return True
    ascent.alpha, ascent.values = before[:2]
    ascent.certify(ascent.tuning.fine)
    return False


def _step(ascent: Ascent, inner: np.ndarray, free: np.ndarray) -> bool:
    """Go towards the solution of the system, as far as bounds allow; whether that was all of it."""
    t = ascent.terms
    a = ascent.alpha[free]
    target, curvature, low, high = t.fields[:4, free]
    matrix = np.array(inner, np.float64, order="F")
    np.fill_diagonal(matrix, inner.diagonal() + curvature)
    slopes = ascent.values[free] - target + curvature * a + t.kink * np.sign(a)
    members = (t.labels[free][:, None] == np.arange(t.groups)).astype(np.float64)
    change = _towards(matrix, slopes, members, ascent.tuning.least_pivot)
    if t.kink > 0:  # the slope ε·sign(a) holds on one side of 0, so a step ends there
        low, high = np.where(a > 0, 0.0, low), np.where(a < 0, 0.0, high)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(change > 0, (high - a) / change, (low - a) / change)
    reach[change == 0] = np.inf
    nearest = float(reach.min())
    moved = np.clip(a + min(1.0, nearest) * change, low, high)
    if nearest < 1.0:
        # set to its bound, not moved there: rounding would leave it free in the next system
        first = int(reach.argmin())
        moved[first] = high[first] if change[first] > 0 else low[first]
    ascent.alpha[free] = moved
    ascent.values[free] += inner @ (moved - a)  # the next system needs no other rows of Kα
    return nearest >= 1.0


def _towards(
    matrix: np.ndarray, slopes: np.ndarray, members: np.ndarray, least_pivot: float
) -> np.ndarray:
    """The x with Ax − Mz = −slopes and Mᵀx = 0: by a factorisation, of least norm without one."""
    factor, solved, failed = dposv(matrix, np.column_stack([slopes, members]), lower=True)
    pivots = factor.diagonal()
    if not failed and pivots.min() > least_pivot * pivots.max():
        x, responses = solved[:, 0], solved[:, 1:]
        return responses @ _levels(members.T @ responses, members.T @ x) - x
    groups = members.shape[1]
    system = np.block([[matrix, -members], [members.T, np.zeros((groups, groups))]])
    side = np.concatenate([-slopes, np.zeros(groups)])
    return np.linalg.lstsq(system, side, rcond=1e-13)[0][: len(slopes)]


def _levels(matrix: np.ndarray, side: np.ndarray) -> np.ndarray:
    """The multipliers of sums; a group without free coefficients has any, and gets 0."""
    if len(side) < 2:
        return side / matrix.diagonal()
    return np.linalg.lstsq(matrix, side, rcond=None)[0]
