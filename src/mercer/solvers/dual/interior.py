"""An interior-point method for kernels with few explicit features, as the linear one.

With K = ΦΦᵀ and d columns of Φ a Newton step costs O(nd²), and some twenty of them reach any gap,
whatever the scales of the columns are; steps in two coefficients need thousands for each digit.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer import linalg
from mercer.errors import NotPositiveDefiniteError
from mercer.solvers.dual.terms import Terms


@dataclass(frozen=True)
class Tuning:
    """Numbers of the interior-point method."""

    fewest: int = 100  # points below which some steps in two coefficients come first: as a rule
    # they are enough
    tried: float = 1.5e-4  # steps in two coefficients for each point and square of the number of
    # features that come first where there are more: they take about a tenth of the time, and often
    # are enough
    few: int = 1000  # of these at least so many, or two for each point: about a millisecond
    most_features: int = 500  # columns of Φ at most: a Newton step factors a matrix of this order
    iterations: int = 100  # Newton steps at most; about twenty are usual
    back: float = 0.995  # of the way to the nearest bound that a step goes
    refinements: int = 2  # of each linear system, whose two terms are huge beside their difference
    # near the end
    worse: float = 0.1  # of the gap that coefficients claim, below which weights with a lower one
    # are taken though they do not reach the tolerance: steps would not gain what rounding takes
    small: float = 1e-3  # of the tolerance: complementarity at which the path is left


TUNING = Tuning()


def suits(terms: Terms, features: int) -> bool:
    """Whether the method applies: a quadratic conjugate and finite bounds."""
    if not 0 < features <= TUNING.most_features:
        return False
    bounded = bool(np.isfinite(terms.fields[2:4]).all())
    return terms.loss is None and bounded and not (terms.kink and terms.fields[1].any())


def interior_point(
    features: np.ndarray, terms: Terms, tolerance: float, deadline: float = math.inf
) -> tuple[np.ndarray, np.ndarray, float]:
    """α with a relative gap of about the tolerance, coefficients at their bounds set to them.

    With it come the weights Φᵀα and the intercept, which are unknowns of their own: from α they
    would lose digits where columns are large. It ends after the deadline, as `time.perf_counter`
    says it, too.

    References
    ----------
    M. C. Ferris, T. S. Munson, Interior-point methods for massive support vector machines, 2002.
    """
    y, curvature, low, high, _ = terms.fields
    ridge, given = np.ones(features.shape[1]), np.zeros(features.shape[1])
    centre: Any = 0.0
    if terms.groups:  # the level of a group is the weight of a feature that no ridge holds
        centre = features.mean(axis=0)
        features, given = features - centre, given - centre * terms.start.sum()  # to keep digits
        members = 1.0 * (terms.labels[:, None] == np.arange(terms.groups))
        features = np.hstack([features, members])
        ridge, given = np.pad(ridge, (0, terms.groups)), np.append(given, members.T @ terms.start)
    signs: Any = [1.0]
    if terms.kink:  # α = p − m with p, m ≥ 0
        signs, low, high = [1.0, -1.0], np.maximum(low, 0.0), np.maximum(high, 0.0)
        low = np.concatenate([0.0 * y, 0.0 * y])
        high = np.concatenate([high, np.maximum(-terms.fields[2], 0.0)])
    stacked = _Quadratic(
        np.concatenate([sign * features for sign in signs]),
        ridge,
        given,
        np.concatenate([sign * y - terms.kink for sign in signs]),
        np.concatenate([curvature for _ in signs]),
        low,
        high,
    )
    solution, weights = stacked.solve(tolerance, deadline)
    alpha = np.zeros(len(y))
    for sign, part in zip(signs, solution.reshape(len(signs), -1), strict=True):
        alpha += sign * part
    low, high = terms.fields[2:4]
    if terms.kink:  # which a coefficient does not cross
        low, high = np.where(alpha < 0, low, 0.0), np.where(alpha > 0, high, 0.0)
    alpha = _with_weights(alpha, features, ridge * weights + given, low, high)
    for group in range(terms.groups):
        mine = terms.labels == group
        rest = float((terms.start[mine] - alpha[mine]).sum())
        alpha[mine] = _with_sum(alpha[mine], rest, low[mine], high[mine])
    count = features.shape[1] - terms.groups
    b = float(weights[count] - centre @ weights[:count]) if terms.groups == 1 else 0.0
    return alpha, weights[:count], b


def _with_sum(alpha: np.ndarray, rest: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Rounding and bounds leave a small rest, which those coefficients take that have room."""
    room = (high - alpha) if rest > 0 else (alpha - low)
    inside = (alpha > low) & (alpha < high)
    for counted in (inside, np.ones(len(alpha), bool)):
        space = np.where(counted, room, 0.0)
        total = float(space.sum())
        if total >= abs(rest) and total > 0:
            return np.clip(alpha + space * (rest / total), low, high)
    return alpha


def _with_weights(
    alpha: np.ndarray, features: np.ndarray, wanted: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """α moved, by little and within its bounds, until Φᵀα are the weights again.

    A coefficient of 1e-9 that was set to its bound moves f by 1e-3 where the columns are in
    thousands. Each takes a share by the square of its room.
    """
    for _ in range(TUNING.refinements):
        room = np.minimum(alpha - low, high - alpha)
        shared = features * np.square(room)[:, None]
        try:
            factor = _Scaled(features.T @ shared)
        except NotPositiveDefiniteError:  # too few are free
            break
        alpha = np.clip(alpha + shared @ factor.solve(wanted - features.T @ alpha), low, high)
    return alpha


@dataclass(frozen=True, eq=False)
class _Quadratic:
    """min ½⟨u, Ru⟩ + ½Σ q a² − ⟨t, a⟩ with low ≤ a ≤ high and Φᵀa = Ru + g, R ≥ 0 diagonal.

    The weights u are unknowns beside a: of Φᵀa, a small difference of many large terms, only a
    few digits would be left.
    """

    features: np.ndarray
    ridge: np.ndarray
    given: np.ndarray
    targets: np.ndarray
    curvature: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def solve(self, tolerance: float, deadline: float) -> tuple[np.ndarray, np.ndarray]:
        """a and u, by Mehrotra's predictor and corrector, from the middle of the box."""
        moving = self.high > self.low
        fields = ("features", "targets", "curvature", "low", "high")
        part = replace(self, **{name: getattr(self, name)[moving] for name in fields})
        alpha, u = self.low.copy(), np.zeros(len(self.ridge))
        if moving.any():
            alpha[moving], u = part._path(tolerance, deadline)
        return alpha, u

    def _path(self, tolerance: float, deadline: float) -> tuple[np.ndarray, np.ndarray]:
        a, u = 0.5 * (self.low + self.high), np.zeros(len(self.ridge))
        scale = float(np.abs(self.targets).max()) or self._size()
        z, w = np.full(len(a), scale), np.full(len(a), scale)
        defect, step = np.inf, 0.0
        lower, upper = a - self.low, self.high - a  # kept apart: differences would round to 0
        for _ in range(TUNING.iterations):
            if time.perf_counter() >= deadline:
                break
            curved = self.curvature * a
            dual = self.targets - self.features @ u - curved + z - w
            off = self.features.T @ a - self.ridge * u - self.given
            product = lower @ z + upper @ w
            objective = 0.5 * (self.ridge @ u**2 + a @ curved) - self.targets @ a
            last, defect = defect, float(np.abs(dual).max()) / scale
            near = product <= TUNING.small * tolerance * max(abs(objective), 1e-300)
            rounding = defect > 2.0 * (1.0 - step) * last  # a step leaves 1 − step of it
            if near and (defect <= tolerance or rounding):
                break
            try:
                system = _System(self, z / lower + w / upper)
            except NotPositiveDefiniteError:  # no digits are left
                break
            da, du = system.solve(dual - z + w, off)
            dz, dw = -z - z / lower * da, -w + w / upper * da
            step = _reach((lower, da), (upper, -da), (z, dz), (w, dw))
            after = (lower + step * da) @ (z + step * dz) + (upper - step * da) @ (w + step * dw)
            # no closer to the bounds than the goal asks for: beyond it digits are lost, while the
            # slopes may still be off
            enough = 0.1 * TUNING.small * tolerance * max(abs(objective), 1e-300)
            centre = max((after / product) ** 3 * product, enough) / (2 * len(a))
            pull, push = (centre - da * dz) / lower, (centre + da * dw) / upper
            da, du = system.solve(dual - z + w + pull - push, off)
            dz, dw = pull - z - z / lower * da, push - w + w / upper * da
            step = _reach((lower, da), (upper, -da), (z, dz), (w, dw))
            step = min(1.0, TUNING.back * step)
            if not step > 1e-12:
                break
            a, u, z, w = a + step * da, u + step * du, z + step * dz, w + step * dw
            lower, upper = lower + step * da, upper - step * da
        return self._at_bounds(a, z, w, scale), u

    def _size(self) -> float:
        """Of slopes, where targets are 0: values of f for coefficients of the given sum."""
        share = float(np.abs(self.given[self.ridge == 0]).max(initial=0.0)) / len(self.targets)
        columns = self.features[:, self.ridge > 0]
        return share * float(np.square(columns).sum()) / len(self.targets) or 1.0

    def _at_bounds(self, a: np.ndarray, z: np.ndarray, w: np.ndarray, scale: float) -> np.ndarray:
        """Of a distance and its multiplier one vanishes: the one that is smaller for its scale."""
        width = self.high - self.low
        a = np.where((a - self.low) / width < z / scale, self.low, a)
        return np.where((self.high - a) / width < w / scale, self.high, a)


class _System:
    """D Δa + Φ Δu = r and Φᵀ Δa + s = R Δu, by eliminating Δa."""

    def __init__(self, problem: _Quadratic, barrier: np.ndarray) -> None:
        self.problem, self.diagonal = problem, problem.curvature + barrier
        self.scaled = problem.features / self.diagonal[:, None]
        self.factor = _Scaled(problem.features.T @ self.scaled, problem.ridge)

    def solve(self, r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        features, ridge = self.problem.features, self.problem.ridge
        a, u, first, second = np.zeros_like(r), np.zeros_like(s), r, s
        for _ in range(1 + TUNING.refinements):
            du = self.factor.solve(self.scaled.T @ first + second)
            a, u = a + (first - features @ du) / self.diagonal, u + du
            first = r - self.diagonal * a - features @ u
            second = s + features.T @ a - ridge * u
        return a, u


class _Scaled:
    """The factor of a positive definite matrix with a diagonal of ones, after scaling."""

    def __init__(self, matrix: np.ndarray, ridge: Any = 0.0) -> None:
        matrix[np.diag_indices_from(matrix)] += ridge
        self.sizes = np.sqrt(matrix.diagonal())
        self.sizes[~(self.sizes > 0)] = 1.0
        self.factor = linalg.cholesky(matrix / np.outer(self.sizes, self.sizes), overwrite=True)

    def solve(self, right: np.ndarray) -> np.ndarray:
        return self.factor.solve((right / self.sizes)[:, None])[:, 0] / self.sizes


def _reach(*pairs: tuple[np.ndarray, np.ndarray]) -> float:
    """How far positive values may go along their changes, at most 1."""
    most = 1.0
    for values, change in pairs:
        falling = change < 0
        most = min(most, float((values[falling] / -change[falling]).min(initial=1.0)))
    return most
