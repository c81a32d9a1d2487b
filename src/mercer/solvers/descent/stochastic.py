"""Stochastic functional gradient: one sample, or a few, at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.arrays import beside, on_host
from mercer.checks import check_count, check_positive
from mercer.operators import Gram
from mercer.solvers.admission import check_host_only
from mercer.solvers.descent.subgradient import certified, check_first_step, check_objects
from mercer.solvers.driver import Callback, Progress
from mercer.solvers.problem import Problem, has_few_features, over_rows
from mercer.solvers.schedules import Average, Schedule
from mercer.solvers.solution import Solution

BLOCK = 256  # samples whose values are kept up to date by one small matrix
FEATURE_BLOCK = 32  # the same where values come from explicit features
TINY = 1e-100  # a common factor below which numbers are scaled anew


@dataclass(frozen=True)
class StochasticFunctionalGradient:
    """f ← (1 − η_tλ)f − η_t ℓ'(y_i, f(x_i)) k(x_i, ·) for one sample i after another.

    Mini-batches take the mean over their samples. Samples are seen in a new random order in every
    pass, each slope times its weight nw_i/Σw; or drawn with replacement, with probabilities w_i/Σw,
    which is what the bounds `average_bound` and `weighted_average_bound` are about. K is never
    stored: blocks of samples are evaluated at once, and kept up to date inside by a small matrix.
    On explicit features φ of the kernel the same steps are w ← (1 − η_tλ)w − η_t ℓ' φ(x_i), for
    which a step costs as many operations as there are features, not as there are samples. Steps
    are taken on the host, whatever library the targets come from.

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
    callback : function of (pass, Progress), optional
        Called after each pass; True stops. It costs a product with K for the objective.
    primal : bool or None, default=None
        Whether to step on the kernel's explicit features, of which there must be finitely many;
        None does where they are fewer than half the samples.

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
    primal: bool | None = None

    def __post_init__(self) -> None:
        check_count(self, "passes", self.passes)
        check_count(self, "batch_size", self.batch_size)
        check_positive(self, "tolerance", self.tolerance)
        check_objects(self, self.schedule, self.averaging)

    def solve(self, problem: Problem) -> Solution:
        check_host_only(self, problem)
        self._check(problem)
        weights = on_host(problem.sample_weights)
        walk, rng = _Walk(self, problem, weights), np.random.default_rng(self.random_state)
        for number in range(1, self.passes + 1):
            for rows in self._blocks(weights, walk.block, rng):
                walk.through(rows)
            if walk.ends_pass(number):
                break
        answer, zero = (beside(part, problem.y) for part in (walk.answer, walk.zero))
        return certified(self, problem, answer, zero, walk.t, walk.history)

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

    def _blocks(
        self, weights: np.ndarray, block: int, rng: np.random.Generator
    ) -> Iterator[np.ndarray]:
        """The samples of a pass in their order, some whole batches at a time."""
        n, length = len(weights), self.batch_size * max(block // self.batch_size, 1)
        if self.replacement:
            order = rng.choice(n, size=n, p=weights / weights.sum())
        else:
            order = rng.permutation(np.flatnonzero(weights))
        for first in range(0, len(order), length):
            yield order[first : first + length]


class _Walk:
    """The coefficients of a stochastic descent, and of its average."""

    def __init__(
        self, solver: StochasticFunctionalGradient, problem: Problem, weights: np.ndarray
    ) -> None:
        self.solver, self.problem, self.loss = solver, problem, problem.loss
        self.targets = on_host(problem.y)
        mean = weights.sum() / np.count_nonzero(weights)
        factors = np.ones(len(weights)) if solver.replacement else weights / mean
        self.factors = over_rows(factors, self.targets)
        self.alpha, self.answer = np.zeros_like(self.targets), np.zeros_like(self.targets)
        self.sum, self.total, self.t = np.zeros_like(self.targets), 0.0, 0
        self.zero = np.zeros(self.targets.shape[1:])
        self.history: dict[str, list[Any]] = {"progressive_loss": []}
        self.losses = list[np.ndarray]()
        on_features = solver.primal
        if on_features is None:
            on_features = has_few_features(problem.gram)
        self.block = FEATURE_BLOCK if on_features else BLOCK
        self.values: _OnFeatures | _OnKernel
        self.values = (_OnFeatures if on_features else _OnKernel)(problem.gram, self)

    def through(self, rows: np.ndarray) -> None:
        """Take the steps of a block."""
        size, ridge, slope = self.solver.batch_size, self.problem.regularization, self.loss.slope
        y, factors = self.targets[rows], self.factors[rows]
        block = _Block(*self.values.at(rows, several=len(rows) > size))
        for first in range(0, len(rows), size):
            batch = slice(first, first + size)
            self.t += 1
            step, weight = self.solver.schedule.step(self.t), self._weight()
            slopes = factors[batch] * slope(y[batch], block.look(batch, weight))
            block.push(batch, max(1.0 - step * ridge, 0.0), -step / len(slopes) * slopes)
        kept, fresh, kept_sum, fresh_sum = block.ended()
        self._record(y, block.seen, factors)
        self.values.moved(kept, fresh)
        self.sum += kept_sum * self.alpha
        self.alpha *= kept
        np.add.at(self.sum, rows, fresh_sum)
        np.add.at(self.alpha, rows, fresh)

    def ends_pass(self, number: int) -> bool:
        """Record a pass; whether to stop after it."""
        self.history["progressive_loss"].append(float(np.mean(np.concatenate(self.losses))))
        self.losses.clear()
        averaged = self.solver.averaging is not None
        answer = self.sum / self.total if averaged else self.alpha.copy()
        if not (np.isfinite(answer).all() and np.isfinite(self.alpha).all()):
            return True
        self.answer = answer
        if self.solver.callback is None:
            return False
        state = Progress(answer, self.zero, self.problem.objective(answer))
        return bool(self.solver.callback(number, state))

    def _weight(self) -> float:
        if self.solver.averaging is None:
            return 0.0
        weight = self.solver.averaging.weight(self.t)
        self.total += weight
        return weight

    def _record(self, y: np.ndarray, seen: np.ndarray, factors: np.ndarray) -> None:
        """The mean loss of every batch, at the values before its step."""
        losses = np.asarray(self.loss.value(y, seen)).reshape(len(y), -1).sum(axis=1)
        starts = np.arange(0, len(y), self.solver.batch_size)
        counts = np.diff(starts, append=len(y))
        self.losses.append(np.add.reduceat(factors.ravel() * losses, starts) / counts)


class _Block:
    """f = s·(f_before + Σ_j u_j k(x_j, ·)) all along a block, so that shrinking f costs a number.

    Iterates need no work of their own to be averaged: u_j is in their weighted sum with Σ weight·s
    over the steps since it came in, summed from the end, as s may fall fast.
    """

    def __init__(self, values: np.ndarray, matrix: np.ndarray | None) -> None:
        self.values, self.matrix = values, matrix
        self.seen, self.u = np.zeros_like(values), np.zeros_like(values)
        self.came, self.shares = np.zeros(len(values), int), list[float]()
        self.scale = 1.0
        self.kept, self.kept_sum, self.fresh_sum = 1.0, 0.0, np.zeros_like(values)

    def look(self, batch: slice, weight: float) -> np.ndarray:
        """f at the samples of a batch; this iterate counts with a weight."""
        self.shares.append(weight * self.scale)
        f = self.values[batch]
        if self.matrix is not None and batch.start:
            f = f + self.matrix[batch, : batch.start] @ self.u[: batch.start]
        self.seen[batch] = f = self.scale * f
        return f

    def push(self, batch: slice, shrink: float, push: np.ndarray) -> None:
        """f ← shrink·f + Σ push_j k(x_j, ·)."""
        self.scale *= shrink
        if self.scale < TINY:
            self._fold()
        self.u[batch] = push / self.scale
        self.came[batch] = len(self.shares)

    def _fold(self) -> None:
        """Take the common factor into the numbers."""
        sums = np.cumsum([0.0, *reversed(self.shares)])[::-1]
        self.fresh_sum += over_rows(sums[self.came], self.u) * self.u
        self.kept_sum += self.kept * float(sums[0])
        self.kept *= self.scale
        self.values, self.u = self.scale * self.values, self.scale * self.u
        self.came[:] = 0
        self.shares.clear()
        self.scale = 1.0

    def ended(self) -> tuple[float, np.ndarray, float, np.ndarray]:
        """What is left of f_before, what came to it, and the same of the sum of iterates."""
        self._fold()
        return self.kept, self.u, self.kept_sum, self.fresh_sum


class _OnKernel:
    """Values of f from kernel values; coefficients that are 0 cost nothing."""

    def __init__(self, gram: Gram, walk: _Walk) -> None:
        self.gram, self.walk = gram, walk

    def at(self, rows: np.ndarray, several: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """f at some samples and, where they are several batches, K between them."""
        alpha, points = self.walk.alpha, self.gram.x
        values, matrix = np.zeros_like(self.walk.targets[rows]), None
        chosen = points.take(rows)
        active = np.flatnonzero(alpha.reshape(len(alpha), -1).any(axis=1))
        if len(active):
            part = Gram(self.gram.kernel, chosen, points.take(active), self.gram.memory)
            self.gram.evaluations += part.shape[0] * part.shape[1]
            values = (part @ alpha[active].astype(self.gram.dtype)).astype(np.float64)
        if several:
            part = Gram(self.gram.kernel, chosen, memory=self.gram.memory)
            self.gram.evaluations += part.shape[0] * (part.shape[0] + 1) // 2
            matrix = part.dense().astype(np.float64)
        return values, matrix

    def moved(self, kept: float, fresh: np.ndarray) -> None:
        """Nothing to do: the coefficients say it all."""


class _OnFeatures:
    """Values of f = ⟨w, φ⟩ from explicit features, computed a block at a time and not kept."""

    def __init__(self, gram: Gram, walk: _Walk) -> None:
        self.gram, self.walk = gram, walk
        self.features = np.empty((0, 0))
        self.weights: np.ndarray | None = None

    def at(self, rows: np.ndarray, several: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """f at some samples and, where they are several batches, ⟨φ, φ⟩ between them."""
        points = self.gram.x.take(rows)
        phi = np.asarray(self.gram.kernel.features(points), np.float64)  # type: ignore[attr-defined]
        if self.weights is None:
            self.weights = np.zeros((phi.shape[1], *self.walk.targets.shape[1:]))
        self.features = phi
        return phi @ self.weights, phi @ phi.T if several else None

    def moved(self, kept: float, fresh: np.ndarray) -> None:
        """w ← kept·w + Σ fresh_j φ(x_j)."""
        assert self.weights is not None
        self.weights = kept * self.weights + self.features.T @ fresh
