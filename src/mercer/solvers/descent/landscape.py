"""The objective as a function on the space: its values, its gradient, its certificates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import linalg
from mercer.solvers.gaps import columns, duality_gap, target_rows, weights_of
from mercer.solvers.problem import Problem

__all__ = [
    "Callback",
    "Element",
    "Landscape",
    "State",
    "columns",
    "duality_gap",
    "gradient_norm",
    "largest_eigenvalue",
    "plain",
    "target_rows",
    "weights_of",
]

LANCZOS_STEPS = 30
REFRESH = 32  # steps after which values are computed again, lest rounding adds up


@dataclass(frozen=True, eq=False)
class State:
    """Where a descent is, for its callback: return True from that to stop."""

    coefficients: np.ndarray
    intercept: np.ndarray
    objective: float
    risk: float = math.nan
    gradient_norm: float = math.nan
    held_out_risk: float = math.nan


Callback = Callable[[int, State], Any]


@dataclass(frozen=True, eq=False)
class Element:
    """f + b: coefficients α of f, a constant b, and the values f(x_i) + b."""

    coefficients: np.ndarray
    intercept: np.ndarray
    values: np.ndarray

    def plus(self, factor: float, other: Element) -> Element:
        """This element and a multiple of another one."""
        factor = self.values.dtype.type(factor)
        return Element(
            self.coefficients + factor * other.coefficients,
            self.intercept + factor * other.intercept,
            self.values + factor * other.values,
        )

    def squared_norm(self) -> float:
        """‖f‖² = αᵀKα, without b."""
        own = (self.values - self.intercept).astype(np.float64)
        return float(np.vdot(self.coefficients.astype(np.float64), own))

    def norm(self) -> float:
        """√(‖f‖² + b²)."""
        return math.sqrt(max(self.squared_norm(), 0.0) + float(np.sum(self.intercept**2)))


class Landscape:
    """J and its functional gradient, in the precision asked for; hidden rows count for nothing."""

    def __init__(
        self, problem: Problem, hidden: np.ndarray | None = None, dtype: Any = None
    ) -> None:
        self.problem, self.gram, self.loss = problem, problem.gram, problem.loss
        self.dtype = np.dtype(dtype or problem.gram.dtype)
        self.exact_targets = target_rows(problem)
        self.targets = self.exact_targets.astype(self.dtype)
        self.weights = weights_of(problem)
        self.hidden = hidden
        if hidden is not None:
            self.weights = np.where(hidden, 0.0, self.weights)
        self.shares = (self.weights / self.weights.sum()).astype(self.dtype)

    def element(self, coefficients: Any = None, intercept: Any = 0.0) -> Element:
        """The element with these coefficients; 0 where there are none."""
        shape = self.targets.shape
        constant = np.broadcast_to(np.asarray(intercept, self.dtype), shape[1:])
        if coefficients is None:
            zeros = np.zeros(shape, self.dtype)
            return Element(zeros, constant, zeros + constant)
        if np.shape(coefficients) != shape:
            raise ValueError(
                f"coefficients to start from must have the shape {shape} of the targets; got "
                f"{np.shape(coefficients)}."
            )
        alpha = np.asarray(coefficients, self.dtype)
        return Element(alpha, constant, self.gram @ alpha + constant)

    def risk(self, at: Element) -> float:
        """The weighted mean loss."""
        return float(self.loss.risk(self.exact_targets, at.values.astype(float), self.weights))

    def held_out_risk(self, at: Element) -> float:
        """The weighted mean loss of the hidden rows."""
        if self.hidden is None:
            return math.nan
        y, f, w = self.exact_targets, at.values.astype(float), weights_of(self.problem)
        return float(self.loss.risk(y[self.hidden], f[self.hidden], w[self.hidden]))

    def state(self, at: Element, gradient: Element) -> State:
        """What a callback is told: J(f + b) and its parts."""
        risk = self.risk(at)
        objective = risk + 0.5 * self.problem.regularization * at.squared_norm()
        norms = gradient.norm(), self.held_out_risk(at)
        return State(at.coefficients, at.intercept, objective, risk, *norms)

    def gradient(self, at: Element) -> Element:
        """∇J, a subgradient at kinks: one product with K."""
        slopes = columns(self.shares, self.targets) * self.loss.slope(self.targets, at.values)
        g = slopes + self.dtype.type(self.problem.regularization) * at.coefficients
        constant = slopes.sum(axis=0) if self.problem.fit_intercept else 0.0 * at.intercept
        return Element(g, constant, self.gram @ g + constant)

    def step(self, at: Element, size: float, gradient: Element, t: int) -> Element:
        """f − η∇J, the t-th step."""
        after = at.plus(-size, gradient)
        return after if t % REFRESH else self.element(after.coefficients, after.intercept)

    def spectral_radius(self) -> float:
        """The largest eigenvalue of √w K √w/Σw, from below; with an intercept, of K + 1."""
        roots = np.sqrt(self.shares)

        def multiply(v: np.ndarray) -> np.ndarray:
            scaled = roots * v.astype(self.dtype)
            constant = scaled.sum() if self.problem.fit_intercept else 0.0
            return (roots * (self.gram @ scaled + constant)).astype(np.float64)

        return largest_eigenvalue(multiply, len(roots))


def largest_eigenvalue(multiply: Callable[[np.ndarray], np.ndarray], size: int) -> float:
    """The largest eigenvalue of a symmetric A ⪰ 0 from at most 30 products, by Lanczos' method.

    It comes from below, and is a few per cent short at worst, nearly always much less.

    References
    ----------
    J. Kuczyński, H. Woźniakowski, Estimating the largest eigenvalue by the power and Lanczos
    algorithms with a random start, 1992.

    Examples
    --------
    >>> import numpy as np
    >>> bool(np.isclose(largest_eigenvalue(lambda v: np.array([1.0, 4.0, 2.0]) * v, 3), 4.0))
    True
    """
    vector = np.random.default_rng(0).standard_normal(size)
    basis = np.empty((0, size))
    images = np.empty((0, size))
    largest = 0.0
    for _ in range(min(LANCZOS_STEPS, size)):
        basis = np.vstack([basis, vector / np.linalg.norm(vector)])
        images = np.vstack([images, multiply(basis[-1])])
        values, vectors = linalg.eigen(basis @ images.T)
        largest, top = max(float(values[-1]), 0.0), vectors[:, -1]
        vector = images[-1]
        for _ in range(2):  # once leaves what rounding left
            vector = vector - basis.T @ (basis @ vector)
        if np.linalg.norm(vector) * abs(top[-1]) <= 1e-4 * largest:
            break
    return largest


# ---- what is true of an answer -------------------------------------------------------------------


def gradient_norm(problem: Problem, coefficients: Any, intercept: Any = 0.0) -> float:
    """‖∇J‖ = √(gᵀKg) in the space, g = w·ℓ'/Σw + λα, from scratch in float64.

    With an intercept, whose partial derivative is Σg, it is √(gᵀKg + (Σ w·ℓ'/Σw)²). Where λ > 0 and
    there is no intercept, J − min J ≤ ‖∇J‖²/(2λ).

    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Squared
    >>> problem = Problem(Linear().gram([[2.0]]), np.array([2.0]), Squared(), regularization=0.0)
    >>> gradient_norm(problem, [0.0]), gradient_norm(problem, [0.5])  # of ½(2 − 2w)² in w
    (4.0, 0.0)
    """
    landscape = Landscape(problem, dtype=np.float64)
    return landscape.gradient(landscape.element(coefficients, intercept)).norm()


def plain(intercept: np.ndarray) -> Any:
    """An intercept as solutions hold it: a float, or an array with one number for each output."""
    return np.asarray(intercept, np.float64) if np.ndim(intercept) else float(intercept)
