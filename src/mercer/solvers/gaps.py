"""How far from the least objective: a bound from the dual problem, for every loss.

The dual of (1/Σw) Σ w_i ℓ(y_i, f(x_i) + b) + (λ/2)‖f‖² is, with p = w/Σw,

    max over u of  −Σ p_i ℓ*(y_i, u_i) − (pu)ᵀK(pu)/(2λ),    Σ_i p_i u_i = 0 with an intercept,

so every u of its domain bounds the least objective from below. Two of them belong to coefficients
α: the slopes u_i = ℓ'(y_i, f(x_i) + b), and u = −λα/p moved into the domain. Both are optimal where
α is, the second also at kinks; the better bound counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import on_host
from mercer.losses import Logistic, Loss, Multinomial, Poisson
from mercer.losses.numerics import beyond_noise, increasing_root
from mercer.points import beside_points
from mercer.solvers.descent.landscape import columns, target_rows, weights_of
from mercer.solvers.problem import Problem

Multiply = Callable[[np.ndarray], np.ndarray]

DOUBLINGS = 1100  # of a bracket: more than there are exponents
CENTRING_STEPS = 100
UNATTAINED = (Logistic, Multinomial, Poisson)  # whose infimum may lie at infinity
UNIT = 4.0 * float(np.finfo(np.float64).eps)
ROUNDING = 1e-12  # how far from 0 a sum of slopes may be, relative to their sizes


@dataclass(frozen=True)
class Gap:
    """The objective at α, the best lower bound that was found, and their difference."""

    objective: float
    bound: float

    @property
    def absolute(self) -> float:
        """objective − bound ≥ objective − least objective."""
        return max(self.objective - self.bound, 0.0)

    @property
    def relative(self) -> float:
        """The gap as a share of the objective, or of the bound where that is larger."""
        scale = max(abs(self.objective), abs(self.bound))
        return self.absolute / scale if scale > 0 else self.absolute


def certified_gap(
    problem: Problem, coefficients: Any, intercept: Any = 0.0, multiply: Multiply | None = None
) -> Gap:
    """Objective and dual bound at α and b, from scratch in float64: two products with K.

    With λ = 0 only u = 0 is known to be in the domain, which compares with the least value of every
    single loss.

    Parameters
    ----------
    problem : Problem
    coefficients, intercept :
        α and b.
    multiply : callable, optional
        V ↦ KV in float64, where the solver has a stored K; `problem.gram @ V` by default.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Hinge
    >>> gram, y = Linear().gram([[1.0], [-1.0]]), np.array([1.0, -1.0])
    >>> problem = Problem(gram, y, Hinge(), regularization=0.5, fit_intercept=True)
    >>> certified_gap(problem, np.array([0.5, -0.5])).absolute  # f(x) = x is best
    0.0
    """
    gram = problem.gram
    multiply = multiply or (lambda v: on_host(gram @ beside_points(v, gram.x)))
    intercept = on_host(intercept)
    y, p = targets_on_host(problem), shares_of(problem)
    alpha = on_host(coefficients).astype(np.float64)
    values = multiply(alpha)
    risk = problem.loss.risk(y, values + np.asarray(intercept, np.float64), p)
    objective = float(risk) + 0.5 * problem.regularization * float(np.vdot(alpha, values))
    return Gap(objective, _dual_bound(problem, alpha, values, intercept, multiply))


def duality_gap(problem: Problem, coefficients: Any, intercept: Any = 0.0) -> float:
    """An upper bound of J − min J at α, which is 0 at the minimiser where λ > 0.

    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Hinge
    >>> problem = Problem(Linear().gram([[1.0]]), np.array([1.0]), Hinge(), regularization=2.0)
    >>> duality_gap(problem, np.array([0.5]))  # w = ½ is best
    0.0
    """
    return certified_gap(problem, coefficients, intercept).absolute


def _dual_bound(
    problem: Problem, alpha: np.ndarray, values: np.ndarray, intercept: Any, multiply: Multiply
) -> float:
    """The largest dual objective among points that belong to α; at least that of u = 0."""
    y, p = targets_on_host(problem), shares_of(problem)
    bound = -_conjugate_sum(problem.loss, y, np.zeros_like(y), p)
    if problem.regularization == 0:
        return bound
    points = list(_dual_points(problem, alpha, values, intercept))
    pushes = [columns(p, y) * u for u in points]
    if not pushes:
        return bound
    images = multiply(np.concatenate([push.reshape(len(y), -1) for push in pushes], axis=1))
    width = images.shape[1] // len(pushes)
    for i, (u, push) in enumerate(zip(points, pushes, strict=True)):
        image = images[:, i * width : (i + 1) * width].reshape(push.shape)
        penalty = float(np.vdot(push, image)) / (2.0 * problem.regularization)
        if problem.fit_intercept:  # what rounding leaves of Σ p_i u_i = 0 costs b times that
            penalty += float(np.sum(np.abs(push.sum(axis=0)) * (1.0 + np.abs(intercept))))
        bound = max(bound, -_conjugate_sum(problem.loss, y, u, p) - penalty)
    return bound


def _conjugate_sum(loss: Loss, y: np.ndarray, u: np.ndarray, p: np.ndarray) -> float:
    """Σ p_i ℓ*(y_i, u_i), over rows that count."""
    conjugate = np.asarray(loss.conjugate(y, u)).reshape(len(y), -1).sum(axis=1)
    return float(p[p > 0] @ conjugate[p > 0])


def _dual_points(problem: Problem, alpha: np.ndarray, values: np.ndarray, intercept: Any) -> Any:
    """The points of the dual's domain that belong to α."""
    y, p, loss = targets_on_host(problem), shares_of(problem), problem.loss
    rows = columns(p, y)
    own = np.zeros_like(y)
    np.divide(-problem.regularization * alpha, rows, out=own, where=rows > 0)
    if loss.is_multiclass:
        if not problem.fit_intercept:
            yield own
    else:
        own = np.clip(own, *loss.domain(y))
        yield balanced(own, *loss.domain(y), p) if problem.fit_intercept else own
    if not problem.fit_intercept:
        yield loss.slope(y, values + np.asarray(intercept, np.float64))
    elif loss.is_smooth and _has_best_intercept(loss, y, p):
        u = loss.slope(y, values + centring_intercept(loss, y, values, p, intercept))
        sums, sizes = (rows * u).sum(axis=0), np.abs(rows * u).sum(axis=0)
        if np.all(np.abs(sums) <= ROUNDING * sizes + UNIT):
            yield u


def balanced(u: np.ndarray, low: Any, high: Any, p: np.ndarray) -> np.ndarray:
    """The nearest point to u of the box with Σ_i p_i u_i = 0: u − t, cut off at the box.

    >>> import numpy as np
    >>> balanced(np.array([0.0, 1.0]), -1.0, 1.0, np.array([0.5, 0.5])).tolist()
    [-0.5, 0.5]
    """
    rows = columns(p, u)
    low, high = np.broadcast_to(low, u.shape), np.broadcast_to(high, u.shape)
    size = float(np.abs(u).max(initial=0.0)) + 1.0
    eps = float(np.finfo(np.float64).eps)

    def excess(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        moved = np.clip(u - t, low, high)
        free = (moved > low) & (moved < high)
        noise = 0.5 * eps * (rows * np.abs(moved)).sum(axis=0)
        return beyond_noise(-(rows * moved).sum(axis=0), noise), (rows * free).sum(axis=0)

    return np.clip(u - _bracketed_root(excess, np.zeros(u.shape[1:]), size), low, high)


def _bracketed_root(
    function: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], start: np.ndarray, size: float
) -> np.ndarray:
    """The root of increasing functions near a start; a bracket is looked for first."""
    start = np.atleast_1d(start)
    low, high = start - size, start + size
    step = size
    for _ in range(DOUBLINGS):
        below, above = function(low)[0] <= 0, function(high)[0] >= 0
        if (below & above).all():
            break
        step *= 2.0
        low, high = np.where(below, low, start - step), np.where(above, high, start + step)
    with np.errstate(divide="ignore", invalid="ignore"):
        root = increasing_root(lambda t: _with_slope(function(t)), low, high)
    return root if np.ndim(start) else root[0]


def _with_slope(pair: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Value and derivative; a step over a flat piece is left to the bracket."""
    value, derivative = pair
    tiny = float(np.finfo(np.float64).tiny)
    return value, np.where(derivative > 0, derivative, tiny)


# ---- the constant --------------------------------------------------------------------------------


def centring_intercept(
    loss: Loss, y: np.ndarray, values: np.ndarray, p: np.ndarray, start: Any = 0.0
) -> np.ndarray:
    """The b that minimises Σ p_i ℓ(y_i, f_i + b) for a smooth loss: the slopes sum to 0 there.

    >>> import numpy as np
    >>> from mercer.losses import Squared
    >>> y = np.array([1.0, 2.0, 6.0])
    >>> float(centring_intercept(Squared(), y, np.zeros(3), np.full(3, 1 / 3)))
    3.0
    """
    if not _has_best_intercept(loss, y, p):
        raise ValueError(
            f"with targets of one kind only, {type(loss).__name__} has no best intercept: it goes "
            "to infinity. Give samples of every class (or counts that are not all 0) a weight > 0, "
            "or write fit_intercept=False."
        )
    start = np.broadcast_to(np.asarray(start, np.float64), y.shape[1:])
    if loss.is_multiclass:
        return _centred_classes(loss, y, values, p, start)
    rows, eps = columns(p, y), float(np.finfo(np.float64).eps)

    def slopes(b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        shifted = values + (b if y.ndim == 2 else b[0])
        u = loss.slope(y, shifted)
        u = np.where(rows > 0, u, 0.0)
        noise = eps * np.minimum((rows * np.abs(u)).sum(axis=0), 1.0)
        total = np.clip((rows * u).sum(axis=0), -1e300, 1e300)
        bend = np.where(rows > 0, loss.curvature(y, shifted), 0.0)
        bends = np.clip((rows * bend).sum(axis=0), 0.0, 1e300)
        return np.atleast_1d(beyond_noise(total, noise)), np.atleast_1d(bends)

    return _bracketed_root(slopes, start, 1.0).reshape(y.shape[1:])


def _has_best_intercept(loss: Loss, y: np.ndarray, p: np.ndarray) -> bool:
    """Whether the best constant is finite: not where all targets are of one kind."""
    if not isinstance(loss, UNATTAINED):
        return True
    total = y[p > 0].sum(axis=0)
    bad = np.abs(total) == (p > 0).sum() if isinstance(loss, Logistic) else total == 0
    return not np.any(bad)


def _centred_classes(
    loss: Loss, y: np.ndarray, values: np.ndarray, p: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Newton's method with halved steps for the constants of all classes, whose sum is 0."""
    b = start - start.mean()
    risk = float(loss.risk(y, values + b, p))
    for _ in range(CENTRING_STEPS):
        probability = loss.slope(y, values + b) + y
        slope = p @ (probability - y)
        if np.abs(slope).max() <= 1e-17:
            break
        bend = np.diag(p @ probability) - (probability * p[:, None]).T @ probability
        step = np.linalg.lstsq(bend, -slope, rcond=1e-14)[0]
        fall, length = float(slope @ step), 1.0
        after = float(loss.risk(y, values + b + step, p))
        while after > risk + 1e-4 * length * fall and -length * fall > 1e-14 * abs(risk):
            length *= 0.5
            after = float(loss.risk(y, values + b + length * step, p))
        b, risk = b + length * step, after
        if np.abs(step).max() <= 1e-14 * (1.0 + np.abs(b).max()):
            break
    return b - b.mean()


# ---- a problem as arrays -------------------------------------------------------------------------


def targets_on_host(problem: Problem) -> np.ndarray:
    """Targets as the loss takes them, labels as rows, in NumPy."""
    return on_host(target_rows(problem))


def shares_of(problem: Problem) -> np.ndarray:
    """The weights p = w/Σw, in NumPy."""
    weights = on_host(weights_of(problem))
    return weights / weights.sum()
