"""The best function of a ball in hindsight: min Σ_t w_t ℓ(y_t, f(x_t)) over ‖f‖ ≤ U."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mercer import linalg
from mercer.checks import check_positive
from mercer.functions import RKHSFunction
from mercer.losses import Loss
from mercer.operators import Gram

STEPS = 4000
HALVINGS = 100


@dataclass(frozen=True, eq=False)
class Hindsight:
    """The best f of the ball, its losses, and how far from the least their sum can be."""

    function: RKHSFunction
    losses: np.ndarray
    squared_norm: float
    gap: float


def best_in_ball(
    gram: Gram,
    targets: np.ndarray,
    weights: np.ndarray,
    loss: Loss,
    radius: float,
    regularization: float = 0.0,
    tolerance: float = 1e-4,
) -> Hindsight:
    """Minimise Σ w_t ℓ(y_t, f(x_t)) + (λ/2)‖f‖² over ‖f‖ ≤ U, for any loss with a proximal map.

    By splitting v = f(X) from f: the proximal map of the loss for v, and for f the projection on
    the ball, which after one eigendecomposition of K is a search for one multiplier. The gap is
    that of Fenchel's dual: for any β, the least sum is at least
    −Σ w_t ℓ*(y_t, β_t/w_t) − max over ‖f‖ ≤ U of (−Σ β_t f(x_t) − (λ/2)‖f‖²).

    References
    ----------
    S. Boyd, N. Parikh, E. Chu, B. Peleato, J. Eckstein, Distributed optimization and statistical
    learning via the alternating direction method of multipliers, 2011.
    """
    check_positive("best_in_ball", "radius", radius)
    ball = _Ball.of(gram, float(radius), float(regularization))
    state = _split(ball, targets, weights, loss, tolerance)
    values, coefficients = ball.lifted(state.place)
    costs = weights * _rows(loss.value(targets, values))
    squared = ball.squared_norm(state.place)
    total = float(costs.sum()) + 0.5 * regularization * squared
    return Hindsight(
        RKHSFunction(gram.kernel, gram.x, coefficients),
        costs,
        squared,
        total - state.bound,
    )


@dataclass
class _State:
    place: np.ndarray
    bound: float


def _split(ball: _Ball, y: np.ndarray, weights: np.ndarray, loss: Loss, tolerance: float) -> _State:
    """Alternate until the gap is small; the stiffness is balanced while that lasts."""
    column = weights[:, None]
    place = np.zeros_like(y)
    free, dual, stiffness = np.zeros_like(y), np.zeros_like(y), 1.0
    best = _State(place, -math.inf)
    least = math.inf
    for number in range(1, STEPS + 1):
        place = ball.nearest(free - dual, stiffness)
        values = ball.values(place)
        old = free
        step = weights / stiffness if loss.is_multiclass else column / stiffness
        free = np.asarray(loss.proximal(y, values + dual, step))
        dual = dual + values - free
        if number % 20 == 0 or number == STEPS:
            total = float((weights * _rows(loss.value(y, values))).sum()) + ball.penalty(place)
            bound = _dual_value(ball, y, weights, loss, stiffness * dual)
            if total < least:
                least, best = total, _State(place, max(best.bound, bound))
            best.bound = max(best.bound, bound)
            if least - best.bound <= tolerance * max(abs(least), 1e-12):
                break
            if number < STEPS // 2:
                primal, moved = np.linalg.norm(values - free), np.linalg.norm(free - old)
                change = 2.0 if primal > 5 * moved else 0.5 if moved > 5 * primal else 1.0
                stiffness, dual = stiffness * change, dual / change
    return best


def _dual_value(
    ball: _Ball, y: np.ndarray, weights: np.ndarray, loss: Loss, slopes: np.ndarray
) -> float:
    """Fenchel's lower bound at β = slopes (of w ℓ), moved into the domain of the conjugate."""
    column = np.where(weights > 0, weights, 1.0)[:, None]
    u = slopes / column
    if not loss.is_multiclass:
        low, high = loss.domain(y)
        u = np.clip(u, np.asarray(low), np.asarray(high))
    conjugate = weights * _rows(loss.conjugate(y, u))
    conjugate = np.where(weights > 0, conjugate, 0.0)
    return float(-conjugate.sum() - ball.support(u * weights[:, None]))


def _rows(values: np.ndarray) -> np.ndarray:
    """One number for each sample: summed over outputs."""
    return np.asarray(values).reshape(len(values), -1).sum(axis=1)


@dataclass(frozen=True, eq=False)
class _Ball:
    """Functions f with f(X) = Qs, ‖f‖² = Σ s²/λ ≤ U², in the eigenbasis K = QΛQᵀ."""

    eigenvalues: np.ndarray
    vectors: np.ndarray
    radius: float
    regularization: float

    @staticmethod
    def of(gram: Gram, radius: float, regularization: float) -> _Ball:
        values, vectors = linalg.eigen(gram.dense().astype(np.float64))
        values, vectors = np.asarray(values), np.asarray(vectors)
        kept = values > len(values) * np.finfo(np.float64).eps * values[-1]
        return _Ball(values[kept], np.ascontiguousarray(vectors[:, kept]), radius, regularization)

    def nearest(self, target: np.ndarray, stiffness: float) -> np.ndarray:
        """S that minimises (ρ/2)‖Qs − target‖² + (λ/2)Σ s²/λ_i over the ball."""
        goal = self.vectors.T @ target
        start = self.regularization / stiffness
        size = (goal**2).sum(axis=1) * self.eigenvalues

        def norm(shift: float) -> float:
            return float((size / (self.eigenvalues + start + shift) ** 2).sum())

        shift = 0.0
        if norm(0.0) > self.radius**2:
            low, high = 0.0, math.sqrt(float(size.sum())) / self.radius
            for _ in range(HALVINGS):
                shift = 0.5 * (low + high)
                low, high = (shift, high) if norm(shift) > self.radius**2 else (low, shift)
                if high - low <= 1e-15 * high:
                    break
            shift = high
        return goal * (self.eigenvalues / (self.eigenvalues + start + shift))[:, None]

    def values(self, place: np.ndarray) -> np.ndarray:
        return self.vectors @ place

    def squared_norm(self, place: np.ndarray) -> float:
        return float(((place**2).sum(axis=1) / self.eigenvalues).sum())

    def penalty(self, place: np.ndarray) -> float:
        return 0.5 * self.regularization * self.squared_norm(place)

    def lifted(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """f(X), and coefficients α = QΛ⁻¹s."""
        return self.vectors @ place, self.vectors @ (place / self.eigenvalues[:, None])

    def support(self, slopes: np.ndarray) -> float:
        """The largest value of −Σ β f(x) − (λ/2)‖f‖² over the ball."""
        inner = self.vectors.T @ slopes
        size = math.sqrt(float(((inner**2).sum(axis=1) * self.eigenvalues).sum()))
        ridge, radius = self.regularization, self.radius
        if ridge * radius >= size:
            return size**2 / (2.0 * ridge) if ridge else 0.0
        return radius * size - 0.5 * ridge * radius**2
