"""Mini-batch stochastic gradients on explicit features: random ones, or those of centres."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mercer.arrays import (
    Array,
    beside,
    floating,
    inner,
    is_tensor,
    namespace,
    on_host,
    to_precision,
)
from mercer.checks import check_count, check_positive
from mercer.features.inputs import length
from mercer.functions import FeatureFunction
from mercer.losses import Loss
from mercer.solvers.driver import Callback, Progress
from mercer.solvers.problem import check_targets, label_rows
from mercer.solvers.schedules import Average, Schedule
from mercer.solvers.solution import Solution, Status

ROWS = 2048  # whose features are computed together


@dataclass(frozen=True, eq=False)
class FeatureProblem:
    """Regularised risk of f = ⟨φ(·), w⟩:  (1/Σv) Σ v_i ℓ(y_i, ⟨φ(x_i), w⟩) + (λ/2)‖w‖².

    Parameters
    ----------
    features : FeatureMap
        φ, fitted. With `Nystroem` f ranges over the functions with its centres, and ‖w‖ = ‖f‖.
    points : array
        X, of n rows. Where it is a tensor, everything is computed on its device.
    targets : array of shape (n,) or (n, outputs)
    loss : Loss
    regularization : float
        λ > 0.
    weights : array of shape (n,), optional
        v ≥ 0.
    """

    features: Any
    points: Any
    targets: Array
    loss: Loss
    regularization: float
    weights: Array | None = None

    def __post_init__(self) -> None:
        check_targets(self.targets, self.loss, length(self.points))
        check_positive(self, "regularization", self.regularization)

    @cached_property
    def columns(self) -> Array:
        """The targets in float64, a column for each output."""
        y = label_rows(self._double(self.targets), self.loss)
        return y.reshape(len(y), -1)

    @cached_property
    def shares(self) -> Array:
        """v/Σv."""
        n = len(self.targets)
        weights = self._double(np.ones(n) if self.weights is None else self.weights)
        return weights / weights.sum()

    def _double(self, values: Any) -> Array:
        """Values in float64, beside the points."""
        values = beside(values, self.points) if is_tensor(self.points) else on_host(values)
        return to_precision(floating(values), "float64")

    def rows(self, chosen: Any) -> Array:
        """The features of some points, in float64."""
        return to_precision(self.features.transform(self.points[chosen]), "float64")

    @property
    def single(self) -> bool:
        """Whether w is a vector."""
        return np.ndim(self.targets) == 1 and not self.loss.is_multiclass

    def function(self, solution: Solution) -> FeatureFunction:
        """f of a solution."""
        return FeatureFunction(self.features, on_host(solution.coefficients))

    def certificate(self, w: Array) -> tuple[float, float]:
        """The objective at w and its duality gap, ‖∇J‖²/(2λ), in one pass in float64.

        The slopes u_i = ℓ'(y_i, f(x_i)) are a point of the dual problem, and J less its value there
        is just that.
        """
        risk, gradient = 0.0, self.regularization * w
        for start in range(0, len(self.columns), ROWS):
            part = slice(start, start + ROWS)
            phi = self.rows(part)
            values, p = phi @ w, self.shares[part]
            losses = self.loss.value(self.columns[part], values).reshape(len(p), -1)
            slopes = self.loss.slope(self.columns[part], values)
            risk += float(p[p > 0] @ losses[p > 0].sum(axis=1))
            gradient = gradient + phi.T @ (p[:, None] * slopes)
        objective = risk + 0.5 * self.regularization * inner(w, w)
        return objective, inner(gradient, gradient) / (2.0 * self.regularization)


@dataclass(frozen=True)
class MiniBatch:
    """w ← (1 − η_tλ)w − η_t Σ_batch ℓ'(y_i, ⟨φ(x_i), w⟩) φ(x_i)/B, and the average of the iterates.

    Parameters
    ----------
    passes : int
        How often n samples are drawn, with probabilities v_i/Σv.
    schedule : Schedule
        η_t.
    batch_size : int, default=256
        B.
    averaging : Average or None, default=Average()
        Which average is returned; None for the last iterate.
    tolerance : float, default=1e-2
        The duality gap, relative to the objective, from which on the status says converged.
    random_state : int, Generator or None, default=0
    time_limit : float, optional
        Seconds after which to stop.
    callback : function of (step, Progress), optional
        Called after each step, with the mean loss of its batch as objective; True stops.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.features import Nystroem
    >>> from mercer.losses import Logistic
    >>> from mercer.solvers.schedules import Constant
    >>> X = np.linspace(-1.0, 1.0, 400)[:, None]
    >>> phi = Nystroem(gamma=2.0, n_components=20, random_state=0).fit(X)
    >>> problem = FeatureProblem(phi, X, np.sign(X[:, 0] + 1e-3), Logistic(), 1e-2)
    >>> solution = MiniBatch(20, Constant(1.0), batch_size=20).solve(problem)
    >>> f = problem.function(solution)
    >>> bool(np.mean(np.sign(f(X)) == np.sign(X[:, 0])) > 0.95)
    True
    """

    passes: int
    schedule: Schedule
    batch_size: int = 256
    averaging: Average | None = Average()  # noqa: RUF009 (frozen)
    tolerance: float = 1e-2
    random_state: Any = 0
    time_limit: float | None = None
    callback: Callback | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_count(self, "passes", self.passes)
        check_count(self, "batch_size", self.batch_size)
        check_positive(self, "tolerance", self.tolerance)
        if self.time_limit is not None:
            check_positive(self, "time_limit", self.time_limit)

    def solve(self, problem: FeatureProblem) -> Solution:
        y, ridge = problem.columns, problem.regularization
        xp, shape = namespace(y), (problem.features.feature_count, y.shape[1])
        w = xp.zeros(shape, dtype=xp.float64, device=y.device)
        mean, total = w, 0.0
        history: dict[str, list[Any]] = {"progressive_loss": [], "seconds": []}
        began, stopped = time.perf_counter(), ""
        for t, batch in enumerate(self._batches(problem), start=1):
            rows = beside(batch, y)
            phi = problem.rows(rows)
            values = phi @ w
            weight = 1.0 if self.averaging is None else self.averaging.weight(t)
            total += weight
            mean = mean + (weight / total) * (w - mean)
            losses = problem.loss.value(y[rows], values).reshape(len(rows), -1)
            history["progressive_loss"].append(float(losses.sum(axis=1).mean()))
            history["seconds"].append(time.perf_counter() - began)
            step = self.schedule.step(t)
            slopes = problem.loss.slope(y[rows], values)
            w = max(1.0 - step * ridge, 0.0) * w - (step / len(rows)) * (phi.T @ slopes)
            stopped = self._stops(t, mean, history)
            if stopped:
                break
        return self._finished(problem, w if self.averaging is None else mean, history, stopped)

    def _batches(self, problem: FeatureProblem) -> Iterator[np.ndarray]:
        random, n = np.random.default_rng(self.random_state), len(problem.columns)
        shares = None if problem.weights is None else on_host(problem.shares)
        for _ in range(self.passes):
            order = random.choice(n, n, p=shares)
            for start in range(0, n, self.batch_size):
                yield np.sort(order[start : start + self.batch_size])

    def _stops(self, t: int, w: Array, history: dict[str, list[Any]]) -> str:
        loss, seconds = history["progressive_loss"][-1], history["seconds"][-1]
        if not math.isfinite(loss):
            return "steps that are too long"
        if self.time_limit is not None and seconds >= self.time_limit:
            return f"the time limit of {self.time_limit:g} s"
        if self.callback is not None and self.callback(t, Progress(w, 0.0 * w[0, :], loss)):
            return "the callback"
        return ""

    def _finished(self, problem: FeatureProblem, w: Any, history: Any, stopped: str) -> Solution:
        objective, gap = problem.certificate(w)
        relative = gap / max(abs(objective), 1e-300)
        steps = len(history["progressive_loss"])
        work = f"{steps} steps of {self.batch_size} samples; relative duality gap {relative:.1e}"
        converged = bool(relative <= self.tolerance)
        if converged:
            status = Status(True, f"Solved: {work}.")
        elif stopped:
            status = Status(False, f"Stopped by {stopped}: {work}.", "Allow more time.")
        else:
            status = Status(False, f"Not converged: {work}.", "Take more passes or longer steps.")
        return Solution(w[:, 0] if problem.single else w, status, objective, gap, history)
