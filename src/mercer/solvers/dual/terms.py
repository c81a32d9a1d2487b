"""The terms of a dual problem: one convex function of one coefficient for each sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.losses import Loss
from mercer.losses.expressions import U, Y, has_kinks
from mercer.solvers.problem import Problem

FARTHEST = 512.0  # best constants beyond this are at infinity


@dataclass(frozen=True, eq=False)
class Terms:
    """The functions g_i of min ½αᵀKα + Σ g_i(α_i), with Σ α_i given for each group of samples.

    Dividing the dual of (1/Σw) Σ w_i ℓ(y_i, f_i + b) + (λ/2)‖f‖² by λ gives
    g_i(a) = c_i ℓ*(y_i, −a/c_i) for low_i ≤ a ≤ high_i, with c_i = w_i/(λΣw), which is the C of
    support vector machines. Where the loss has a quadratic conjugate this is
    g_i(a) = −t_i a + ε|a| + ½q_i a² with t = y, and steps are closed forms. Other losses are asked
    for the derivatives of g_i by their compiled code.

    Parameters
    ----------
    fields : array of shape (5, n)
        y, the second derivative of g, low, high and c.
    kink : float
        ε.
    loss : Loss, or None
        The loss, unless its conjugate is quadratic.
    group : array of int, or None
        The group of each sample whose sum is given; None where all α_i are free of each other.
    start : array of shape (n,)
        Where to begin: inside the bounds, with the right sums.
    """

    fields: np.ndarray
    kink: float
    loss: Loss | None
    group: np.ndarray | None
    start: np.ndarray

    @cached_property
    def groups(self) -> int:
        return 0 if self.group is None else int(self.group.max(initial=0)) + 1

    @cached_property
    def quadratic(self) -> bool:
        """Whether all of the objective is ½αᵀKα."""
        return self.loss is None and not self.fields[0].any()

    @cached_property
    def _compiled(self) -> tuple[Any, ...]:
        from mercer.losses.compiled import compiled_conjugate, compiled_loss

        loss = self.loss
        return () if loss is None else (compiled_loss(loss), compiled_conjugate(loss))

    @cached_property
    def code(self) -> np.ndarray:
        """Addresses of the code of the loss and its parameters, then of its conjugate; or none."""
        places = [(code.address, code.parameters.ctypes.data) for code in self._compiled]
        return np.array(places, np.int64).ravel()

    @cached_property
    def labels(self) -> np.ndarray:
        """The group of each sample, 0 where there are none."""
        return np.zeros(len(self.start), np.int64) if self.group is None else self.group

    def part(self, chosen: np.ndarray) -> Terms:
        """The terms of some samples, with the sums that their start has."""
        group = None if self.group is None else self.group[chosen]
        fields = np.ascontiguousarray(self.fields[:, chosen])
        return Terms(fields, self.kink, self.loss, group, self.start[chosen])

    @classmethod
    def of(cls, loss: Loss, targets: np.ndarray, costs: np.ndarray, intercept: bool) -> Terms:
        """The terms of a loss; `costs` are c_i."""
        targets = np.asarray(targets, np.float64)
        fields = np.zeros((5, len(targets)))
        fields[0], fields[4] = targets, costs
        fields[2:4] = _bounds(loss, targets, costs)
        group = np.zeros(len(targets), np.int64) if intercept else None
        conjugate = loss.quadratic_conjugate
        if conjugate is None:
            return cls(fields, 0.0, loss, group, _interior(loss, targets, costs, intercept))
        np.divide(conjugate.curvature, costs, out=fields[1], where=costs > 0)
        return cls(fields, float(conjugate.kink), None, group, np.zeros(len(targets)))

    @classmethod
    def of_shares(cls, problem: Problem) -> Terms:
        """The terms of `Problem.one_class` and `Problem.nu_classifier`: sums of α are given."""
        w, nu = np.asarray(problem.sample_weights), float(np.abs(problem.intercept_cost).max())
        if problem.null_space is None:
            return cls.within(w, nu * float(w.sum()))
        return cls.balanced(np.asarray(problem.y), w, 0.5 * nu * float(w.sum()))

    @classmethod
    def within(cls, weights: np.ndarray, total: float) -> Terms:
        """0 ≤ α_i ≤ w_i and Σ α_i = total, with g = 0: the one-class machine."""
        fields = np.zeros((5, len(weights)))
        fields[3] = weights
        group = np.zeros(len(weights), np.int64)
        return cls(fields, 0.0, None, group, filled(weights, total))

    @classmethod
    def balanced(cls, labels: np.ndarray, weights: np.ndarray, total: float) -> Terms:
        """0 ≤ y_iα_i ≤ w_i and Σ y_iα_i = total for each label ±1, with g = 0: the ν-machine."""
        fields, start = np.zeros((5, len(weights))), np.zeros(len(weights))
        fields[2], fields[3] = np.minimum(labels * weights, 0.0), np.maximum(labels * weights, 0.0)
        for label in (1.0, -1.0):
            mine = labels == label
            start[mine] = label * filled(weights[mine], total)
        return cls(fields, 0.0, None, (labels < 0).astype(np.int64), start)


@lru_cache(maxsize=64)
def has_smooth_conjugate(loss: Loss) -> bool:
    """Whether the conjugate is a smooth expression, and compiled code is that of the loss."""
    conjugate = loss.conjugate_expression(Y, U)
    return conjugate is not None and loss.follows_expression and not has_kinks(conjugate)


def check_loss(owner: object, loss: Loss) -> None:
    """Refuse a loss whose conjugate is neither quadratic nor a smooth expression."""
    quadratic = loss.quadratic_conjugate is not None
    if loss.is_multiclass or not (quadratic or has_smooth_conjugate(loss)):
        raise ValueError(
            f"{type(owner).__name__} solves losses of one score whose conjugate is quadratic "
            "(loss.quadratic_conjugate) or a smooth expression (loss.conjugate_expression); got "
            f"{loss!r}. Write Newton() for a smooth loss, Splitting() for any other."
        )


def _bounds(loss: Loss, targets: np.ndarray, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """−c_i times the domain of the conjugate; what has no weight stays at 0."""
    with np.errstate(invalid="ignore"):  # of a cost or a domain without bound
        high, low = (
            np.where((bound == 0) | (costs == 0), 0.0, -costs * bound)
            for bound in loss.domain(targets)
        )
    return low, high


def _interior(loss: Loss, targets: np.ndarray, costs: np.ndarray, intercept: bool) -> np.ndarray:
    """A share of −cℓ'(y, b), which is inside the bounds, where g has a slope.

    With an intercept b is the best constant, at which these sum to 0; where there is none, as with
    labels of one kind, all coefficients are 0. The share is so small that f stays near b. At
    −cℓ'(y, b) itself f = Kα is of size 1/λ, from where steps take coefficients to within rounding
    of their bounds: 300,000 of them did not suffice for logistic regression with λ = 10⁻⁴ on 1,500
    points; from here it takes 4,000.
    """

    def pull(b: float) -> float:
        return float(costs @ loss.slope(targets, np.full(len(targets), b)))

    best = _root(pull) if intercept else 0.0
    if best is None:
        return np.zeros(len(targets))
    start = -costs * loss.slope(targets, np.full(len(targets), best))
    start *= min(1.0, 1.0 / np.abs(start).sum()) if start.any() else 0.0
    return start - costs * (start.sum() / costs.sum()) if intercept else start


def _root(function: Callable[[float], float]) -> float | None:
    """Where an increasing function is 0; None where that is at infinity."""
    low, high = -1.0, 1.0
    while function(low) > 0 and low > -FARTHEST:
        low *= 2.0
    while function(high) < 0 and high < FARTHEST:
        high *= 2.0
    if not function(low) <= 0 <= function(high):
        return None
    return float(scipy.optimize.brentq(function, low, high))


def filled(weights: np.ndarray, total: float) -> np.ndarray:
    """Weights one after the other until their sum is the total."""
    before = np.cumsum(weights) - weights
    return np.clip(total - before, 0.0, weights)
