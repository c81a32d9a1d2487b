"""The objective of a problem on centres at a point, its gradient, and how far it is from the least.

A point is θ = (γ, b), γ in the coordinates of `Basis`, in which the penalty is a plain norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import Array, inner, namespace, to_precision
from mercer.losses import Loss, Squared
from mercer.operators import Affine, MappedRows
from mercer.solvers.centres.basis import Basis
from mercer.solvers.centres.certificate import balanced, dual_value
from mercer.solvers.problem import Problem
from mercer.solvers.solution import Solution


@dataclass
class Point:
    """θ = (γ, b) with the values, the slopes, the gradient there, and the objective's parts."""

    theta: Array
    values: Array
    slopes: Array
    gradient: Array
    objective: float
    moments: Array  # L⁻¹K_Mn(pu)
    precision: Any = np.float64  # in which it was evaluated
    mean_moments: Array | None = None  # L⁻¹K_Mn p, for the square loss with an intercept
    balanced_moments: Array | None = None  # those of slopes that sum to 0
    stored: Any = None  # values and γ of the coefficients rounded to float32

    @property
    def precise(self) -> bool:
        return self.precision == np.float64


@dataclass(frozen=True, eq=False)
class LossSlopes:
    """The row map K β ↦ p ∘ ℓ'(y, Kβ + b); values and slopes are handed back side by side.

    Only the first columns of β, as many as y has, have slopes.
    """

    loss: Loss
    targets: Array
    shares: Array
    shift: Any

    def __call__(self, start: int, stop: int, rows: Array) -> MappedRows:
        y, outputs = self.targets[start:stop], self.targets.shape[1]
        xp, wide = namespace(rows), to_precision(rows, "float64")
        columns = [
            wide[:, first : first + outputs] + self.shift
            for first in range(0, rows.shape[1], outputs)
        ]
        slopes = self.loss.slope(y, columns[0])
        product = to_precision(self.shares[start:stop] * slopes, rows.dtype)
        return MappedRows(product, None, xp.concat([*columns, slopes], axis=1))


class Objective:
    """What is minimised, evaluated by passes over the rows."""

    def __init__(self, problem: Problem, basis: Basis) -> None:
        self.problem, self.basis, self.passes = problem, basis, problem.operator
        self.size, self.intercept = basis.size, problem.fit_intercept
        self.xp = namespace(problem.y_columns)

    # ---- coefficients and coordinates ------------------------------------------------------------

    def split(self, theta: Array) -> tuple[Array, Any]:
        """β and b of θ; b is 0 where there is no intercept."""
        beta = self.basis.coefficients(theta[: self.size])
        return beta, theta[-1] if self.intercept else 0.0

    def coordinates(self, start: Solution) -> Array:
        """θ of a solution on the same centres."""
        beta, shift = map(self.problem.array, (start.coefficients, start.intercept))
        gamma = self.basis.coordinates(beta.reshape(self.size, -1))
        if not self.intercept:
            return gamma
        return self.xp.concat([gamma, shift.reshape(1, -1)])

    def zero(self) -> Array:
        """θ = 0."""
        y, xp = self.problem.y_columns, self.xp
        shape = self.size + self.intercept, y.shape[1]
        return xp.zeros(shape, dtype=xp.float64, device=y.device)

    # ---- one point -------------------------------------------------------------------------------

    def at(self, theta: Array, loss: Loss, precision: Any) -> Point:
        """Values and gradient at θ: one pass, in which its rounded coefficients are judged too."""
        beta, shift = self.split(theta)
        outputs, rounded = beta.shape[1], self._rounded(beta, precision)
        if rounded is not None:
            beta = self.xp.concat([beta, rounded], axis=1)
        evaluate = self._of_squares if isinstance(loss, Squared) else self._of_any
        values, slopes, moments = evaluate(beta, shift, loss, precision)
        mean = moments[:, outputs:] if moments.shape[1] > outputs else None
        point = self._point(theta, values[:, :outputs], slopes, moments[:, :outputs], loss)
        point.precision, point.mean_moments = precision, mean
        if rounded is not None:
            point.stored = values[:, outputs:], self.basis.coordinates(rounded)
        return point

    def _rounded(self, beta: Array, precision: Any) -> Array | None:
        """The coefficients as they will be stored, where that is not how they are."""
        if self.passes.dtype == np.float64 or precision != np.float64:
            return None
        return to_precision(to_precision(beta, self.passes.dtype), "float64")

    def _of_squares(
        self, beta: Array, shift: Any, loss: Loss, precision: Any
    ) -> tuple[Array, Array, Array]:
        """Slopes are f − y, an affine map of each row, which compiled code does on the way."""
        y, shares = self.problem.y_columns, self.problem.shares[:, None]
        row_map = Affine(shares, shift - y, keep_values=True, with_factors=self.intercept)
        found = self.passes.row_pass(beta, row_map, precision)
        moments, values = self.basis.pull(found.product), found.values
        if self.intercept:
            values = values + self.xp.concat([shift] * (beta.shape[1] // y.shape[1]))
        return values, loss.slope(y, values[:, : y.shape[1]]), moments

    def _of_any(
        self, beta: Array, shift: Any, loss: Loss, precision: Any
    ) -> tuple[Array, Array, Array]:
        y, shares = self.problem.y_columns, self.problem.shares[:, None]
        row_map = LossSlopes(loss, y, shares, shift)
        found = self.passes.row_pass(beta, row_map, precision)
        values = found.values
        slopes = values[:, beta.shape[1] :]
        return values[:, : beta.shape[1]], slopes, self.basis.pull(found.product)

    def _point(self, theta: Any, values: Any, slopes: Any, moments: Any, loss: Loss) -> Point:
        ridge, gamma = self.problem.regularization, theta[: self.size]
        gradient = moments + ridge * gamma
        if self.intercept:
            constant = (self.problem.shares[:, None] * slopes).sum(axis=0, keepdims=True)
            gradient = self.xp.concat([gradient, constant])
        objective = self.value(loss, values, gamma)
        return Point(theta, values, slopes, gradient, objective, moments)

    def value(self, loss: Loss, values: Array, gamma: Array) -> float:
        """The objective with a loss, from the values f(x_i) + b and γ."""
        risk = float(loss.risk(self.problem.y_columns, values, self.problem.sample_weights))
        return risk + 0.5 * self.problem.regularization * inner(gamma, gamma)

    # ---- the truth -------------------------------------------------------------------------------

    def estimated_gap(self, gradient: Array, objective: float) -> float:
        """‖∇J‖²/(2λ), the gap at the slopes, relative to the objective; without the intercept."""
        part = gradient[: self.size]
        size = inner(part, part) / (2.0 * self.problem.regularization)
        return size / max(abs(objective), 1e-300)

    def gap(self, point: Point, loss: Loss) -> tuple[float, float]:
        """The duality gap, also relative to the objective; slopes of an intercept are corrected.

        The objective is that of the coefficients as they are stored, the bound that of the slopes
        before rounding: rounding costs no more than what it adds to the objective.
        """
        objective = self.stored(point, loss)
        slopes, moments = point.slopes, point.moments
        if self.intercept:
            slopes, moments = self._balanced(point)
        bound = dual_value(self.problem, loss, slopes, moments)
        gap = max(objective - bound, 0.0)
        scale = max(abs(objective), abs(bound)) if math.isfinite(bound) else abs(objective)
        return gap, gap / (scale or 1.0)

    def stored(self, point: Point, loss: Loss) -> float:
        """The objective of the coefficients as they are stored."""
        values, gamma = point.stored or (point.values, point.theta[: self.size])
        return self.value(loss, values, gamma)

    def _balanced(self, point: Point) -> tuple[Array, Array]:
        """Slopes that sum to 0 and L⁻¹K_Mn(pu) of them; a pass, unless the loss is the square."""
        slopes = balanced(self.problem, point.slopes)
        if point.mean_moments is not None:
            constant = (self.problem.shares[:, None] * point.slopes).sum(axis=0)
            return slopes, point.moments - point.mean_moments * constant
        if point.balanced_moments is None:
            nothing = self.xp.zeros_like(point.theta[: self.size])
            row_map = Affine(self.problem.shares[:, None], slopes)
            point.balanced_moments = self.basis.pull(
                self.passes.row_pass(nothing, row_map, point.precision).product
            )
        return slopes, point.balanced_moments
