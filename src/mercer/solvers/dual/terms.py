"""What the dual of a loss is made of: one convex function of one coefficient for each sample."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mercer.losses import Logistic, Loss
from mercer.solvers.problem import Problem


@dataclass(frozen=True, eq=False)
class Terms:
    """The functions g_i of min ½αᵀKα + Σ g_i(α_i), with Σ α_i given for each group of samples.

    g_i(a) = −t_i a + ε|a| + ½q_i a² for low_i ≤ a ≤ high_i; with `entropy` it is
    (high − low)(s log s + (1 − s) log(1 − s)), s = (a − low)/(high − low). Dividing the dual of
    (1/Σw) Σ w_i ℓ(y_i, f_i + b) + (λ/2)‖f‖² by λ gives g_i(a) = c_i ℓ*(y_i, −a/c_i) with
    c_i = w_i/(λΣw), which is the C of support vector machines.

    Parameters
    ----------
    fields : array of shape (4, n)
        t, q, low and high.
    kink : float
        ε.
    entropy : bool
        Whether g_i is an entropy.
    group : array of int, or None
        The group of each sample whose sum is given; None where all α_i are free of each other.
    start : array of shape (n,)
        Where to begin: inside the bounds, with the right sums.
    """

    fields: np.ndarray
    kink: float
    entropy: bool
    group: np.ndarray | None
    start: np.ndarray

    @cached_property
    def groups(self) -> int:
        return 0 if self.group is None else int(self.group.max(initial=0)) + 1

    @cached_property
    def quadratic(self) -> bool:
        """Whether all of the objective is ½αᵀKα."""
        return not (self.entropy or self.fields[0].any())

    @cached_property
    def labels(self) -> np.ndarray:
        """The group of each sample, 0 where there are none."""
        return np.zeros(len(self.start), np.int64) if self.group is None else self.group

    def part(self, chosen: np.ndarray) -> Terms:
        """The terms of some samples, with the sums that their start has."""
        group = None if self.group is None else self.group[chosen]
        fields = np.ascontiguousarray(self.fields[:, chosen])
        return Terms(fields, self.kink, self.entropy, group, self.start[chosen])

    @classmethod
    def of(cls, loss: Loss, targets: np.ndarray, costs: np.ndarray, intercept: bool) -> Terms:
        """The terms of a loss; `costs` are c_i."""
        targets = np.asarray(targets, np.float64)
        fields = np.zeros((4, len(targets)))
        fields[2:] = _bounds(loss, targets, costs)
        group = np.zeros(len(targets), np.int64) if intercept else None
        conjugate = loss.quadratic_conjugate
        if conjugate is None:  # the entropy of the logistic loss
            return cls(fields, 0.0, True, group, _interior(targets, costs, intercept))
        fields[0] = targets
        np.divide(conjugate.curvature, costs, out=fields[1], where=costs > 0)
        return cls(fields, float(conjugate.kink), False, group, np.zeros(len(targets)))

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
        fields = np.zeros((4, len(weights)))
        fields[3] = weights
        group = np.zeros(len(weights), np.int64)
        return cls(fields, 0.0, False, group, _filled(weights, total))

    @classmethod
    def balanced(cls, labels: np.ndarray, weights: np.ndarray, total: float) -> Terms:
        """0 ≤ y_iα_i ≤ w_i and Σ y_iα_i = total for each label ±1, with g = 0: the ν-machine."""
        fields, start = np.zeros((4, len(weights))), np.zeros(len(weights))
        fields[2], fields[3] = np.minimum(labels * weights, 0.0), np.maximum(labels * weights, 0.0)
        for label in (1.0, -1.0):
            mine = labels == label
            start[mine] = label * _filled(weights[mine], total)
        return cls(fields, 0.0, False, (labels < 0).astype(np.int64), start)


def check_loss(owner: object, loss: Loss) -> None:
    """Refuse a loss whose conjugate is neither a parabola with a kink nor an entropy."""
    if loss.is_multiclass or (loss.quadratic_conjugate is None and type(loss) is not Logistic):
        raise ValueError(
            f"{type(owner).__name__} solves losses of one score whose conjugate is quadratic "
            f"(loss.quadratic_conjugate), and Logistic; got {loss!r}. Write Newton() for a smooth "
            "loss, Splitting() for any other."
        )


def _bounds(loss: Loss, targets: np.ndarray, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """−c_i times the domain of the conjugate; what has no weight stays at 0."""
    with np.errstate(invalid="ignore"):  # of a cost or a domain without bound
        high, low = (
            np.where((bound == 0) | (costs == 0), 0.0, -costs * bound)
            for bound in loss.domain(targets)
        )
    return low, high


def _interior(targets: np.ndarray, costs: np.ndarray, intercept: bool) -> np.ndarray:
    """Inside the bounds, where an entropy has a slope; with an intercept the sum is 0."""
    if not intercept:
        return 0.5 * targets * costs
    positive, negative = costs[targets > 0].sum(), costs[targets < 0].sum()
    if not positive or not negative:
        return np.zeros(len(targets))
    size = 0.5 * min(positive, negative)
    return costs * np.where(targets > 0, size / positive, -size / negative)


def _filled(weights: np.ndarray, total: float) -> np.ndarray:
    """Weights one after the other until their sum is the total."""
    before = np.cumsum(weights) - weights
    return np.clip(total - before, 0.0, weights)
