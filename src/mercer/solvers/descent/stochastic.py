"""Stochastic functional gradient: one sample, or a few, at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.operators import Gram
from mercer.solvers.descent.landscape import Callback, State, columns, target_rows, weights_of
from mercer.solvers.descent.subgradient import certified, check_first_step, check_objects
from mercer.solvers.problem import Problem
from mercer.solvers.schedules import Average, Schedule, check_count, check_positive
from mercer.solvers.solution import Solution

BLOCK = 256  # samples whose values are kept up to date by one small matrix


@dataclass(frozen=True)
class StochasticFunctionalGradient:
    """f ← (1 − η_tλ)f − η_t ℓ'(y_i, f(x_i)) k(x_i, ·) for one sample i after another.

    Mini-batches take the mean over their samples. Samples are seen in a new random order in every
    pass, each slope times its weight nw_i/Σw; or drawn with replacement, with probabilities w_i/Σw,
    which is what the bounds `average_bound` and `weighted_average_bound` are about. K is never
    stored: blocks of samples are evaluated at once, and kept up to date inside by a small matrix.

    Parameters
    ----------
    passes : int
        How often n samples are seen.
    schedule : Schedule
        η_t, as `InverseTime(1/λ)`.
    batch_size : int, default=1
        Samples in a step.
    averaging : Average or None, default=Average()
        Which average of the iterates is returned; None for the last iterate.
    replacement : bool, default=False
        Whether samples are drawn with replacement.
    random_state : int, Generator or None, default=None
        The same number gives the same answer.
    tolerance : float, default=1e-3
        The duality gap, relative to J, from which on the status says converged.
    callback : function of (pass, State), optional
        Called after each pass; True stops. It costs a product with K for the objective.

    References
    ----------
    J. Kivinen, A. J. Smola, R. C. Williamson, Online learning with kernels, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Hinge
    >>> from mercer.solvers.schedules import InverseTime
    >>> problem = Problem(Linear().gram([[1.0]]), np.array([1.0]), Hinge(), regularization=1.0)
    >>> solver = StochasticFunctionalGradient(4, InverseTime(1.0), averaging=None)
    >>> solver.solve(problem).coefficients.tolist()  # 1, ½, ⅔, ¾: at 1 the slope is 0
    [0.75]
    """

    passes: int
    schedule: Schedule
    batch_size: int = 1
    averaging: Average | None = Average()  # noqa: RUF009 (frozen)
    replacement: bool = False
    random_state: Any = None
    tolerance: float = 1e-3
    callback: Callback | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_count(self, "passes", self.passes)
        check_count(self, "batch_size", self.batch_size)
        check_positive(self, "tolerance", self.tolerance)
        check_objects(self, self.schedule, self.averaging)

    def solve(self, problem: Problem) -> Solution:
        self._check(problem)
        walk, rng = _Walk(self, problem), np.random.default_rng(self.random_state)
        for number in range(1, self.passes + 1):
            for rows in self._blocks(weights_of(problem), rng):
                walk.through(rows)
            if walk.ends_pass(number):
                break
        return certified(self, problem, walk.answer, walk.zero, walk.t, walk.history)

    def _check(self, problem: Problem) -> None:
        if problem.fit_intercept:
            raise ValueError(
                "StochasticFunctionalGradient fits no free intercept; got fit_intercept=True. Add "
                "a constant to the kernel: kernel + Constant(c)."
            )
        loss = problem.loss
        bent = math.isinf(loss.lipschitz) and math.isfinite(loss.smoothness)
        curvature = loss.smoothness * float(problem.gram.diagonal().max()) if bent else 0.0
        check_first_step(self.schedule, curvature, problem.regularization)

    def _blocks(self, weights: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """The samples of a pass in their order, some whole batches at a time."""
        n, length = len(weights), self.batch_size * max(BLOCK // self.batch_size, 1)
        if self.replacement:
            order = rng.choice(n, size=n, p=weights / weights.sum())
        else:
            order = rng.permutation(np.flatnonzero(weights))
        for first in range(0, len(order), length):
            yield order[first : first + length]


class _Walk:
    """The coefficients of a stochastic descent, and of its average."""

    def __init__(self, solver: StochasticFunctionalGradient, problem: Problem) -> None:
        self.solver, self.problem, self.gram = solver, problem, problem.gram
        self.targets = target_rows(problem)
        weights = weights_of(problem)
        mean = weights.sum() / np.count_nonzero(weights)
        self.factors = np.ones(len(weights)) if solver.replacement else weights / mean
        self.alpha, self.answer = np.zeros_like(self.targets), np.zeros_like(self.targets)
        self.sum, self.total, self.t = np.zeros_like(self.targets), 0.0, 0
        self.zero = np.zeros(self.targets.shape[1:])
        self.history: dict[str, list[Any]] = {"progressive_loss": []}
        self.losses = list[float]()

    def through(self, rows: np.ndarray) -> None:
        """Take the steps of a block, f = kept·f_before + Σ fresh_j k(x_j, ·) all along."""
        size, ridge = self.solver.batch_size, self.problem.regularization
        y, factors = self.targets[rows], columns(self.factors[rows], self.targets)
        values, matrix = self._values(rows), self._among(rows)
        kept, fresh, kept_sum, fresh_sum = 1.0, np.zeros_like(y), 0.0, np.zeros_like(y)
        for first in range(0, len(rows), size):
            batch = slice(first, first + size)
            self.t += 1
            step, weight = self.solver.schedule.step(self.t), self._weight()
            kept_sum, fresh_sum = kept_sum + weight * kept, fresh_sum + weight * fresh
            self.losses.append(self._mean_loss(y[batch], values[batch], factors[batch]))
            slopes = factors[batch] * self.problem.loss.slope(y[batch], values[batch])
            push = -step / len(slopes) * slopes
            shrink = max(1.0 - step * ridge, 0.0)
            kept, fresh = shrink * kept, shrink * fresh
            fresh[batch] += push
            if matrix is not None:
                values = shrink * values + matrix[:, batch] @ push
        self.sum += kept_sum * self.alpha
        self.alpha *= kept
        np.add.at(self.sum, rows, fresh_sum)
        np.add.at(self.alpha, rows, fresh)

    def ends_pass(self, number: int) -> bool:
        """Record a pass; whether to stop after it."""
        self.history["progressive_loss"].append(float(np.mean(self.losses)))
        self.losses.clear()
        averaged = self.solver.averaging is not None
        answer = self.sum / self.total if averaged else self.alpha.copy()
        if not (np.isfinite(answer).all() and np.isfinite(self.alpha).all()):
            return True
        self.answer = answer
        if self.solver.callback is None:
            return False
        state = State(answer, self.zero, self.problem.objective(answer))
        return bool(self.solver.callback(number, state))

    def _weight(self) -> float:
        if self.solver.averaging is None:
            return 0.0
        weight = self.solver.averaging.weight(self.t)
        self.total += weight
        return weight

    def _values(self, rows: np.ndarray) -> np.ndarray:
        """f at the samples of a block; coefficients that are 0 cost nothing."""
        active = np.flatnonzero(self.alpha.reshape(len(self.alpha), -1).any(axis=1))
        if not len(active):
            return np.zeros_like(self.targets[rows])
        points, dtype = self.gram.x, self.gram.dtype
        part = Gram(self.gram.kernel, points.take(rows), points.take(active), self.gram.memory)
        self.gram.evaluations += part.shape[0] * part.shape[1]
        return (part @ self.alpha[active].astype(dtype)).astype(np.float64)

    def _among(self, rows: np.ndarray) -> np.ndarray | None:
        """K between the samples of a block, where it holds more than one batch."""
        if len(rows) <= self.solver.batch_size:
            return None
        part = Gram(self.gram.kernel, self.gram.x.take(rows), memory=self.gram.memory)
        self.gram.evaluations += part.shape[0] * (part.shape[0] + 1) // 2
        return part.dense().astype(np.float64)

    def _mean_loss(self, y: np.ndarray, values: np.ndarray, factors: np.ndarray) -> float:
        losses = np.asarray(self.problem.loss.value(y, values)).reshape(len(y), -1).sum(axis=1)
        return float(np.mean(factors.ravel() * losses))
