"""An interior-point method for kernels with few explicit features, as the linear one.

With K = ΦΦᵀ and d columns of Φ a Newton step costs O(nd²), and some twenty of them reach any gap,
whatever the scales of the columns are; steps in two coefficients need thousands for each digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import linalg
from mercer.errors import NotPositiveDefiniteError
from mercer.solvers.dual.terms import Terms


@dataclass(frozen=True)
class Tuning:
    """Numbers of the interior-point method.

    Parameters
    ----------
    fewest : int
        Points below which some steps in two coefficients come first: as a rule they are enough.
    most_features : int
        Columns of Φ at most: a Newton step factors a matrix of this order.
    iterations : int
        Newton steps at most; about twenty are usual.
    back : float
        Of the way to the nearest bound that a step goes.
    refinements : int
        Of each linear system, whose two terms are huge beside their difference near the end.
    small : float
        Of the tolerance: complementarity at which the path is left.
    """

    fewest: int = 100
    most_features: int = 500
    iterations: int = 100
    back: float = 0.995
    refinements: int = 2
    small: float = 1e-3


TUNING = Tuning()


def suits(terms: Terms, features: int | None) -> bool:
    """Whether the method applies: a quadratic conjugate, finite bounds, one sum or none."""
    if features is None or not 0 < features <= TUNING.most_features:
        return False
    bounded = bool(np.isfinite(terms.fields[2:4]).all())
    plain = terms.loss is None and terms.groups <= 1 and not terms.start.any()
    return plain and bounded and not (terms.kink and terms.fields[1].any())


def interior_point(features: np.ndarray, terms: Terms, tolerance: float) -> np.ndarray:
    """α with a relative gap of about the tolerance, coefficients at their bounds set to them.

    References
    ----------
    M. C. Ferris, T. S. Munson, Interior-point methods for massive support vector machines, 2002.
    """
    y, curvature, low, high, _ = terms.fields
    if terms.groups:  # Σα = 0, so that Φᵀα does not change, and digits are kept
        features = features - features.mean(axis=0)
    signs: Any = [1.0]
    if terms.kink:  # α = p − m with p, m ≥ 0
        signs, low, high = [1.0, -1.0], np.maximum(low, 0.0), np.maximum(high, 0.0)
        low = np.concatenate([0.0 * y, 0.0 * y])
        high = np.concatenate([high, np.maximum(-terms.fields[2], 0.0)])
    stacked = _Quadratic(
        np.concatenate([sign * features for sign in signs]),
        np.concatenate([sign * y - terms.kink for sign in signs]),
        np.concatenate([curvature for _ in signs]),
        low,
        high,
        np.repeat(signs, len(y)) if terms.groups else None,
    )
    solution = stacked.solve(tolerance)
    alpha = np.zeros(len(y))
    for sign, part in zip(signs, solution.reshape(len(signs), -1), strict=True):
        alpha += sign * part
    return _with_sum_zero(alpha, *terms.fields[2:4]) if terms.groups else alpha


def _with_sum_zero(alpha: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Rounding and bounds leave a small sum, which those coefficients take that have room."""
    rest = -float(alpha.sum())
    room = (high - alpha) if rest > 0 else (alpha - low)
    inside = (alpha > low) & (alpha < high)
    for counted in (inside, np.ones(len(alpha), bool)):
        space = np.where(counted, room, 0.0)
        total = float(space.sum())
        if total >= abs(rest) and total > 0:
            return np.clip(alpha + space * (rest / total), low, high)
    return alpha


@dataclass(frozen=True, eq=False)
class _Quadratic:
    """min ½‖Φᵀa‖² + ½Σ q a² − ⟨t, a⟩ with low ≤ a ≤ high, and ⟨e, a⟩ = 0 where there is an e."""

    features: np.ndarray
    targets: np.ndarray
    curvature: np.ndarray
    low: np.ndarray
    high: np.ndarray
    sides: np.ndarray | None

    def solve(self, tolerance: float) -> np.ndarray:
        """Mehrotra's predictor and corrector, from the middle of the box."""
        moving = self.high > self.low
        low, high, t = self.low[moving], self.high[moving], self.targets[moving]
        part = _Quadratic(
            self.features[moving],
            t,
            self.curvature[moving],
            low,
            high,
            None if self.sides is None else self.sides[moving],
        )
        a, alpha = 0.5 * (low + high), self.low.copy()
        if len(a):
            alpha[moving] = part._path(a, tolerance)
        return alpha

    def _path(self, a: np.ndarray, tolerance: float) -> np.ndarray:
        scale = float(np.abs(self.targets).max()) or 1.0
        z, w, b = np.full(len(a), scale), np.full(len(a), scale), 0.0
        defect = np.inf
        lower, upper = a - self.low, self.high - a  # kept apart: differences would round to 0
        for _ in range(TUNING.iterations):
            fitted = self.features @ (self.features.T @ a) + self.curvature * a
            dual = self._free_of_b(self.targets - fitted + z - w, b)
            product = lower @ z + upper @ w
            objective = 0.5 * a @ fitted - self.targets @ a
            last, defect = defect, float(np.abs(dual).max()) / scale
            near = product <= TUNING.small * tolerance * max(abs(objective), 1e-300)
            if near and (defect <= tolerance or defect > 0.5 * last):  # or only rounding is left
                break
            try:
                system = _System(self, z / lower + w / upper)
            except NotPositiveDefiniteError:  # no digits are left
                break
            da, db = system.solve(dual - z + w, a)
            dz, dw = -z - z / lower * da, -w + w / upper * da
            step = _reach((lower, da), (upper, -da), (z, dz), (w, dw))
            after = (lower + step * da) @ (z + step * dz) + (upper - step * da) @ (w + step * dw)
            # no closer to the bounds than the goal asks for: beyond it digits are lost, while the
            # slopes may still be off
            enough = 0.1 * TUNING.small * tolerance * max(abs(objective), 1e-300)
            centre = max((after / product) ** 3 * product, enough) / (2 * len(a))
            pull, push = (centre - da * dz) / lower, (centre + da * dw) / upper
            da, db = system.solve(dual - z + w + pull - push, a)
            dz, dw = pull - z - z / lower * da, push - w + w / upper * da
            step = _reach((lower, da), (upper, -da), (z, dz), (w, dw))
            step = min(1.0, TUNING.back * step)
            if not step > 1e-12:
                break
            a, b, z, w = a + step * da, b + step * db, z + step * dz, w + step * dw
            lower, upper = lower + step * da, upper - step * da
        return self._at_bounds(a, z, w, scale)

    def _free_of_b(self, slopes: np.ndarray, b: float) -> np.ndarray:
        return slopes if self.sides is None else slopes - b * self.sides

    def _at_bounds(self, a: np.ndarray, z: np.ndarray, w: np.ndarray, scale: float) -> np.ndarray:
        """Of a distance and its multiplier one vanishes: the one that is smaller for its scale."""
        width = self.high - self.low
        a = np.where((a - self.low) / width < z / scale, self.low, a)
        return np.where((self.high - a) / width < w / scale, self.high, a)


class _System:
    """(ΦΦᵀ + D)Δ + e Δb = r with ⟨e, Δ⟩ = −⟨e, a⟩, by the inversion lemma."""

    def __init__(self, problem: _Quadratic, barrier: np.ndarray) -> None:
        self.problem, self.inverse = problem, 1.0 / (problem.curvature + barrier)
        scaled = problem.features * self.inverse[:, None]
        inner = problem.features.T @ scaled
        inner[np.diag_indices_from(inner)] += 1.0
        self.scaled, self.sizes = scaled, np.sqrt(inner.diagonal())
        self.factor = linalg.cholesky(inner / np.outer(self.sizes, self.sizes), overwrite=True)

    def solve(self, right: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, float]:
        sides, first = self.problem.sides, self._apply(right)
        if sides is None:
            return first, 0.0
        second = self._apply(sides)
        b = float(sides @ (first + a)) / float(sides @ second)
        return first - b * second, b

    def _apply(self, v: np.ndarray) -> np.ndarray:
        """(ΦΦᵀ + D)⁻¹v, refined.

        Near the end D is tiny for free coefficients, and both terms of the lemma are huge beside
        their difference.
        """
        features, x, rest = self.problem.features, np.zeros_like(v), v
        for _ in range(1 + TUNING.refinements):
            inner = self.factor.solve((self.scaled.T @ rest / self.sizes)[:, None])[:, 0]
            x = x + self.inverse * rest - self.scaled @ (inner / self.sizes)
            rest = v - x / self.inverse - features @ (features.T @ x)
        return x


def _reach(*pairs: tuple[np.ndarray, np.ndarray]) -> float:
    """How far positive values may go along their changes, at most 1."""
    most = 1.0
    for values, change in pairs:
        falling = change < 0
        most = min(most, float((values[falling] / -change[falling]).min(initial=1.0)))
    return most
