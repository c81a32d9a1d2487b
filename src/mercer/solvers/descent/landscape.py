"""The objective as a function on the space: its values, its gradient, its certificates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, beside, floating, namespace, on_host, precision, to_precision
from mercer.losses import one_hot
from mercer.solvers.problem import Problem

LANCZOS_STEPS = 30
REFRESH = 32  # steps after which values are computed again, lest rounding adds up


@dataclass(frozen=True, eq=False)
class State:
    """Where a descent is, for its callback: return True from that to stop."""

    coefficients: Array
    intercept: Array
    objective: float
    risk: float = math.nan
    gradient_norm: float = math.nan
    held_out_risk: float = math.nan


Callback = Callable[[int, State], Any]


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
        self.exact_targets = target_rows(problem)
        self.xp = namespace(self.exact_targets)
        self.targets = to_precision(self.exact_targets, self.precision)
        self.weights = weights_of(problem)
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
        weights = self.xp.where(self.hidden, weights_of(self.problem), 0.0)
        values = to_precision(at.values, "float64")
        return float(self.loss.risk(self.exact_targets, values, weights))

    def state(self, at: Element, gradient: Element) -> State:
        """What a callback is told: J(f + b) and its parts."""
        risk = self.risk(at)
        objective = risk + 0.5 * self.problem.regularization * at.squared_norm()
        norms = gradient.norm(), self.held_out_risk(at)
        return State(at.coefficients, at.intercept, objective, risk, *norms)

    def gradient(self, at: Element) -> Element:
        """∇J, a subgradient at kinks: one product with K."""
        slopes = columns(self.shares, self.targets) * self.loss.slope(self.targets, at.values)
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
        roots = np.sqrt(on_host(self.shares))

        def multiply(v: np.ndarray) -> np.ndarray:
            scaled = roots * v.astype(roots.dtype)
            constant = scaled.sum() if self.problem.fit_intercept else 0.0
            image = on_host(self.gram @ self.gram.x.vector(scaled))
            return (roots * (image + constant)).astype(np.float64)

        return largest_eigenvalue(multiply, len(roots))


def target_rows(problem: Problem) -> Array:
    """Targets that the loss accepts, in the shape of the coefficients: labels become rows."""
    y = problem.values
    problem.loss.check_targets(y)
    if problem.loss.is_multiclass and y.ndim == 1:
        return to_precision(one_hot(y, int(namespace(y).max(y)) + 1), "float64")
    return y


def weights_of(problem: Problem) -> Array:
    """The weights w, 1 where none were given."""
    return problem.sample_weights


def columns(vector: Array, like: Array) -> Array:
    """A vector with one number for each row, ready to multiply rows."""
    return vector if like.ndim == 1 else vector[:, None]


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


def plain(intercept: Array) -> Any:
    """An intercept as solutions hold it: a float, or an array with one number for each output."""
    return to_precision(intercept, "float64") if np.ndim(intercept) else float(intercept)
