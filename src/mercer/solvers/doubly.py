"""Doubly stochastic gradients: a random sample and random frequencies in every step."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.arrays import Array, beside, namespace, on_host, to_precision
from mercer.checks import check_count, check_positive
from mercer.features.frequencies import FrequencySampler
from mercer.functions import FeatureFunction
from mercer.points import ALL_COLUMNS, VectorPoints
from mercer.solvers.driver import Callback, Progress
from mercer.solvers.problem import Problem
from mercer.solvers.schedules import Schedule
from mercer.solvers.solution import Solution, Status

PAGE = 1024  # frequencies that one seed gives
ROWS = 4096  # points that are evaluated together


@dataclass(eq=False)
class SeededFeatures:
    """φ_s(x) = √(2k(0))·cos(ω_s·x + b_s), with ω_s drawn from the spectral measure of k.

    E φ_s(x)φ_s(y) = k(x, y). Frequencies come in pages from seeds of their own, so that they can be
    kept, or drawn again whenever they are needed: then a function takes one number a feature,
    whatever the width of the points.

    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> features = SeededFeatures(Gaussian(), 2, 3000, seed=0)
    >>> X = np.array([[0.0, 0.0], [1.0, 0.5]])
    >>> values = features.values(X, np.eye(3000))
    >>> bool(np.allclose(values @ values.T / 3000, Gaussian()(X), atol=0.1))
    True
    """

    kernel: Any
    width: int
    count: int
    seed: int
    kept: bool = False

    def __post_init__(self) -> None:
        self.sampler = FrequencySampler(self.kernel, self.width)
        self.amplitude = math.sqrt(2.0 * self.sampler.amplitude)
        self._pages: dict[Any, tuple[Array, Array]] = {}

    @property
    def feature_count(self) -> int:
        return self.count

    def page(self, number: int, like: Array) -> tuple[Array, Array]:
        """Frequencies and phases of one page, as columns, in the precision and beside some rows."""
        key = number, like.dtype, like.device
        if key in self._pages:
            return self._pages[key]
        frequencies, phases = (
            to_precision(beside(part.T, like), like.dtype)
            for part in self.sampler.block(number, PAGE, self.seed)
        )
        if self.kept:
            self._pages[key] = frequencies, phases
        return frequencies, phases

    def __getstate__(self) -> dict[str, Any]:
        """Pages are not pickled: they are drawn again."""
        return self.__dict__ | {"_pages": {}}

    def block(self, rows: Array, start: int, stop: int) -> Array:
        """The features start, …, stop − 1, of one page, at some rows."""
        number, first = divmod(start, PAGE)
        frequencies, phases = self.page(number, rows)
        part = slice(first, first + stop - start)
        return self.amplitude * namespace(rows).cos(rows @ frequencies[:, part] + phases[part])

    def values(self, x: Any, weights: Array) -> Array:
        """Σ_s w_s φ_s(x), a page at a time; a tensor on its device where x is one."""
        points = self.kernel.points(x)
        weights = to_precision(points.vector(weights), "float64")
        xp, shape = namespace(weights), (len(points), weights.shape[1])
        out = xp.zeros(shape, dtype=xp.float64, device=weights.device)
        for first in range(0, len(points), ROWS):
            rows = _rows(points.slice(first, min(first + ROWS, len(points))))
            for start in range(0, len(weights), PAGE):
                stop = min(start + PAGE, len(weights))
                block = to_precision(self.block(rows, start, stop), "float64")
                out[first : first + len(rows)] += block @ weights[start:stop]
        return out

    def same_features(self, other: Any) -> bool:
        """Whether another map draws the same frequencies."""
        return isinstance(other, SeededFeatures) and (
            self.seed == other.seed and self.count == other.count and self.kernel == other.kernel
        )


def _rows(points: Any) -> Array:
    if not isinstance(points, VectorPoints):
        raise ValueError("doubly stochastic gradients need points that are vectors.")
    return points.seen(ALL_COLUMNS, points.dtype)


@dataclass(frozen=True)
class DoublyStochastic:
    """f ← (1 − η_tλ)f − η_t ℓ'(y_i, f(x_i)) φ_s(x_i) φ_s, for random samples i and frequencies s.

    Both means, over the samples of a batch and over the fresh frequencies of a step, are unbiased,
    so that it descends on the problem with k itself although no kernel value is ever computed. With
    T steps of S frequencies f has T·S coefficients. There is no gap to report: cosines do not lie
    in the space of k.

    Parameters
    ----------
    steps : int
        T.
    schedule : Schedule
        η_t.
    batch_size : int, default=64
        Samples in a step.
    frequencies : int, default=64
        Fresh frequencies in a step; a divisor of 1024.
    keep : bool, default=True
        Whether frequencies are kept, which takes d numbers each, or drawn again from the seed.
    random_state : int, default=0
    time_limit : float, optional
        Seconds after which to stop.
    callback : function of (step, Progress), optional
        Called after each step, with the mean loss of its batch as objective; True stops.

    References
    ----------
    B. Dai, B. Xie, N. He, Y. Liang, A. Raj, M. Balcan, L. Song, Scalable kernel methods via doubly
    stochastic gradients, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> from mercer.solvers.schedules import Constant
    >>> X = np.linspace(-1.0, 1.0, 100)[:, None]
    >>> problem = Problem(Gaussian(0.5).gram(X), X[:, 0] ** 2, Squared(), regularization=1e-4)
    >>> solver = DoublyStochastic(60, Constant(0.5), frequencies=32)
    >>> f = solver.function(problem, solver.solve(problem))
    >>> bool(np.abs(f(X) - X[:, 0] ** 2).mean() < 0.15)
    True
    """

    steps: int
    schedule: Schedule
    batch_size: int = 64
    frequencies: int = 64
    keep: bool = True
    random_state: int = 0
    time_limit: float | None = None
    callback: Callback | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "frequencies"):
            check_count(self, name, getattr(self, name))
        if PAGE % self.frequencies:
            raise ValueError(
                f"DoublyStochastic needs frequencies that divide {PAGE}; got {self.frequencies}."
            )
        if self.time_limit is not None:
            check_positive(self, "time_limit", self.time_limit)

    def features(self, problem: Problem, count: int | None = None) -> SeededFeatures:
        """The features that a run on this problem draws."""
        width = getattr(problem.gram.x, "width", 1)
        total = self.steps * self.frequencies if count is None else count
        return SeededFeatures(problem.gram.kernel, width, total, self.random_state, self.keep)

    def function(self, problem: Problem, solution: Solution) -> FeatureFunction:
        """f of a solution, which can be evaluated anywhere."""
        weights = on_host(solution.coefficients)
        return FeatureFunction(self.features(problem, len(weights)), weights)

    def solve(self, problem: Problem) -> Solution:
        if problem.fit_intercept:
            raise ValueError("DoublyStochastic fits no free intercept; got fit_intercept=True.")
        return _Run(self, problem).solution()


class _Run:
    """Coefficients α = scale·raw, so that shrinking all of them costs nothing."""

    def __init__(self, solver: DoublyStochastic, problem: Problem) -> None:
        self.solver, self.problem = solver, problem
        y = problem.gram.x.vector(problem.y)
        self.single, self.targets = y.ndim == 1, y.reshape(len(y), -1)
        self.features, xp = solver.features(problem), namespace(y)
        shape = self.features.count, self.targets.shape[1]
        self.raw = xp.zeros(shape, dtype=xp.float64, device=y.device)
        self.scale, self.done, self.stopped = 1.0, 0, ""
        self.history: dict[str, list[Any]] = {"progressive_loss": [], "seconds": []}

    def solution(self) -> Solution:
        solver, n = self.solver, len(self.targets)
        random = np.random.default_rng([solver.random_state, 2**31])
        weights = on_host(self.problem.sample_weights)
        shares = weights / weights.sum()
        uniform = bool(np.ptp(weights) == 0)
        began = time.perf_counter()
        for t in range(1, solver.steps + 1):
            chosen = random.choice(n, solver.batch_size, p=None if uniform else shares)
            loss = self._step(t, np.sort(chosen))
            self.history["progressive_loss"].append(loss)
            self.history["seconds"].append(time.perf_counter() - began)
            if self._ends(t, loss):
                break
        return self._finished()

    def _step(self, t: int, chosen: np.ndarray) -> float:
        rows = _rows(self.problem.gram.x.take(chosen))
        y, values = self.targets[beside(chosen, self.targets)], self.scale * self._values(rows)
        slopes = self.problem.loss.slope(y, values)
        losses = self.problem.loss.value(y, values).reshape(len(y), -1).sum(axis=1)
        step = self.solver.schedule.step(t)
        shrink = max(1.0 - step * self.problem.regularization, 0.0)
        self._shrink(shrink)
        start, stop = self.done, self.done + self.solver.frequencies
        fresh = to_precision(self.features.block(rows, start, stop), "float64")
        push = -step / (len(rows) * self.solver.frequencies) * (fresh.T @ slopes)
        self.raw[start:stop] = push / self.scale
        self.done = stop
        return float(losses.mean())

    def _shrink(self, factor: float) -> None:
        self.scale *= factor
        if self.scale < 1e-100:
            self.raw[: self.done] *= self.scale
            self.scale = 1.0

    def _values(self, rows: Array) -> Array:
        xp, shape = namespace(self.raw), (len(rows), self.raw.shape[1])
        total = xp.zeros(shape, dtype=xp.float64, device=self.raw.device)
        for start in range(0, self.done, PAGE):
            stop = min(start + PAGE, self.done)
            block = to_precision(self.features.block(rows, start, stop), "float64")
            total = total + block @ self.raw[start:stop]
        return total

    def _ends(self, t: int, loss: float) -> bool:
        limit = self.solver.time_limit
        if not np.isfinite(loss):
            self.stopped = "steps that are too long"
        elif limit is not None and self.history["seconds"][-1] >= limit:
            self.stopped = f"the time limit of {limit:g} s"
        elif self.solver.callback is not None:
            state = Progress(self._coefficients(), 0.0 * self.raw[0, :], loss)
            self.stopped = "the callback" if self.solver.callback(t, state) else ""
        return bool(self.stopped)

    def _coefficients(self) -> Array:
        alpha = self.scale * self.raw[: self.done]
        return alpha[:, 0] if self.single else alpha

    def _finished(self) -> Solution:
        losses = self.history["progressive_loss"]
        recent = float(np.mean(losses[-max(1, len(losses) // 10) :]))
        work = (
            f"{len(losses)} steps, {self.done} frequencies; the mean loss of the last batches, "
            f"before they were used, is {recent:.3g}"
        )
        advice = "There is no gap to judge by: compare with held-out samples."
        if self.stopped:
            return self._solution(Status(False, f"Stopped by {self.stopped}: {work}.", advice))
        return self._solution(Status(True, f"All steps were taken: {work}.", advice))

    def _solution(self, status: Status) -> Solution:
        losses = self.history["progressive_loss"]
        return Solution(self._coefficients(), status, losses[-1], math.nan, self.history)
