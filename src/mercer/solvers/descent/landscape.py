"""The objective as a function on the space: its values, its gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import Array, beside, floating, namespace, precision, to_precision
from mercer.solvers.driver import Progress
from mercer.solvers.krylov import largest_eigenvalue
from mercer.solvers.problem import Problem, over_rows

REFRESH = 32  # steps after which values are computed again, lest rounding adds up


@dataclass(frozen=True, eq=False)
class Element:
    """f + b: coefficients α of f, a constant b, and the values f(x_i) + b."""

    coefficients: Array
    intercept: Array
    values: Array

    def plus(self, factor: float, other: Element) -> Element:
        """This element and a multiple of another one."""
        factor = float(factor)
        return Element(
            self.coefficients + factor * other.coefficients,
            self.intercept + factor * other.intercept,
            self.values + factor * other.values,
        )

    def squared_norm(self) -> float:
        """‖f‖² = αᵀKα, without b."""
        own = to_precision(self.values - self.intercept, "float64")
        alpha = to_precision(self.coefficients, "float64")
        return float(namespace(own).sum(alpha * own))

    def norm(self) -> float:
        """√(‖f‖² + b²)."""
        free = float(namespace(self.intercept).sum(self.intercept**2))
        return math.sqrt(max(self.squared_norm(), 0.0) + free)


class Landscape:
    """J and its functional gradient, in the precision asked for; hidden rows count for nothing."""

    def __init__(self, problem: Problem, hidden: Array | None = None, dtype: Any = None) -> None:
        self.problem, self.gram, self.loss = problem, problem.gram, problem.loss
        self.precision = precision(dtype or problem.gram.dtype)
        self.exact_targets = problem.y
        self.xp = namespace(self.exact_targets)
        self.targets = to_precision(self.exact_targets, self.precision)
        self.weights = problem.sample_weights
        self.hidden = hidden
        if hidden is not None:
            self.weights = self.xp.where(hidden, 0.0, self.weights)
        self.shares = to_precision(self.weights / self.xp.sum(self.weights), self.precision)

    def element(self, coefficients: Any = None, intercept: Any = 0.0) -> Element:
        """The element with these coefficients; 0 where there are none."""
        zeros = self.xp.zeros_like(self.targets)
        constant = to_precision(floating(beside(intercept, zeros)), self.precision)
        constant = self.xp.zeros_like(zeros[0, ...]) + constant
        if coefficients is None:
            return Element(zeros, constant, zeros + constant)
        if np.shape(coefficients) != tuple(zeros.shape):
            raise ValueError(
                f"coefficients to start from must have the shape {tuple(zeros.shape)} of the "
                f"targets; got {np.shape(coefficients)}."
            )
        alpha = to_precision(floating(beside(coefficients, zeros)), self.precision)
        return Element(alpha, constant, self.gram @ alpha + constant)

    def risk(self, at: Element) -> float:
        """The weighted mean loss."""
        values = to_precision(at.values, "float64")
        return float(self.loss.risk(self.exact_targets, values, self.weights))

    def held_out_risk(self, at: Element) -> float:
        """The weighted mean loss of the hidden rows."""
        if self.hidden is None:
            return math.nan
        weights = self.xp.where(self.hidden, self.problem.sample_weights, 0.0)
        values = to_precision(at.values, "float64")
        return float(self.loss.risk(self.exact_targets, values, weights))

    def state(self, at: Element, gradient: Element) -> Progress:
        """What a callback is told: J(f + b) and its parts."""
        risk = self.risk(at)
        objective = risk + 0.5 * self.problem.regularization * at.squared_norm()
        norms = gradient.norm(), self.held_out_risk(at)
        return Progress(at.coefficients, at.intercept, objective, risk, *norms)

    def gradient(self, at: Element) -> Element:
        """∇J, a subgradient at kinks: one product with K."""
        slopes = over_rows(self.shares, self.targets) * self.loss.slope(self.targets, at.values)
        g = slopes + self.problem.regularization * at.coefficients
        constant = 0.0 * at.intercept
        if self.problem.fit_intercept:
            constant = self.xp.sum(slopes, axis=0)
        return Element(g, constant, self.gram @ g + constant)

    def step(self, at: Element, size: float, gradient: Element, t: int) -> Element:
        """f − η∇J, the t-th step."""
        after = at.plus(-size, gradient)
        return after if t % REFRESH else self.element(after.coefficients, after.intercept)

    def spectral_radius(self) -> float:
        """The largest eigenvalue of √w K √w/Σw, from below; with an intercept, of K + 1."""
        roots = self.xp.sqrt(self.shares)

        def multiply(v: Array) -> Array:
            scaled = roots * to_precision(v, self.precision)
            constant = self.xp.sum(scaled) if self.problem.fit_intercept else 0.0
            return to_precision(roots * (self.gram @ scaled + constant), "float64")

        return largest_eigenvalue(multiply, roots)
