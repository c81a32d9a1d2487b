"""Stochastic gradients: a few samples in each step, on kernels, explicit or random features.

All of them are f ← (1 − η_tλ)f − η_t mean over a batch of ℓ'(y_i, f(x_i)) ψ(x_i), where ψ(x) is
k(x, ·), a feature vector φ(x), or an unbiased draw of either; they differ in how f is represented.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mercer.arrays import Array, as_numpy, beside, likeness, namespace, to_precision, zeros
from mercer.features.frequencies import FrequencySampler
from mercer.functions import FeatureFunction
from mercer.points import ALL_COLUMNS, VectorPoints
from mercer.solvers.descent import certified
from mercer.solvers.driver import NOT_STORED, Callback, Progress, State
from mercer.solvers.early_stopping import HeldOut
from mercer.solvers.iterative import Iterative
from mercer.solvers.optimality import certified_gap
from mercer.solvers.problem import Problem, has_few_features, over_rows, require_squared_norm
from mercer.solvers.schedules import Average, Schedule, check_first_step
from mercer.solvers.solution import Solution, Status


@dataclass(frozen=True)
class Tuning:
    """Numbers of the stochastic methods."""

    block: int = 256  # samples whose values are computed at once from kernels, and brought up to
    feature_block: int = 32  # date by a small matrix, which costs more for more; from features
    tiny: float = 1e-100  # a common factor of f is taken into its numbers before these underflow


@dataclass(eq=False)
class StochasticState(State):
    """Coefficients, the sum of weighted iterates, their weights, and the random generator."""

    coefficients: Array = None
    answer: Array = None
    total: float = 0.0
    samples: int = 0  # steps so far
    random: dict[str, Any] = field(default_factory=dict)
    generator: Any = field(default=None, repr=False, metadata=NOT_STORED)

    def draw(self) -> np.random.Generator:
        """The generator, put where a checkpoint left it."""
        if self.random:
            self.generator.bit_generator.state = self.random
        return self.generator

    def drawn(self) -> None:
        self.random = self.generator.bit_generator.state


def check_problem(solver: Any, problem: Problem) -> None:
    """Refuse another penalty than (λ/2)‖f‖², and a free intercept."""
    require_squared_norm(solver, problem)
    if problem.fit_intercept:
        raise ValueError(
            f"{type(solver).__name__} fits no free intercept; got fit_intercept=True. Add a "
            "constant to the kernel: kernel + Constant(c)."
        )


# ---- one sample at a time, in the space of the kernel --------------------------------------------


@dataclass(frozen=True)
class StochasticFunctionalGradient(Iterative):
    """f ← (1 − η_tλ)f − η_t ℓ'(y_i, f(x_i)) k(x_i, ·) for one sample i after another.

    Mini-batches take the mean over their samples. Samples are seen in a new random order in every
    pass, each slope times its weight nw_i/Σw; or drawn with replacement, with probabilities w_i/Σw,
    which is what the bounds `average_bound` and `weighted_average_bound` are about. K is never
    stored: blocks of samples are evaluated at once, and brought up to date inside by a small
    matrix. On explicit features φ of the kernel the same steps are w ← (1 − η_tλ)w − η_t ℓ' φ(x_i),
    for which a step costs as many operations as there are features, not as there are samples.

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
    time_limit : float, optional
        Seconds after which to stop, at the end of a pass.
    callback : function of (pass, Progress), optional
        Called after each pass; True stops. It costs a product with K for the objective.
    stopping : HeldOut, optional
        Hold rows out, and return the iterate that predicts them best.
    primal : bool or None, default=None
        Whether to step on the kernel's explicit features, of which there must be finitely many;
        None does where they are fewer than half the samples.
    checkpoint : path, optional
        Where the iterate is stored after each pass; `solve(problem, resume=path)` goes on.
    tuning : Tuning

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

    host_only: ClassVar[bool] = True

    passes: int
    schedule: Schedule
    batch_size: int = 1
    averaging: Average | None = Average()  # noqa: RUF009 (frozen)
    replacement: bool = False
    random_state: Any = None
    tolerance: float = 1e-3
    time_limit: float | None = None
    callback: Callback | None = field(default=None, compare=False)
    stopping: HeldOut | None = None
    primal: bool | None = None
    checkpoint: Any = None
    tuning: Tuning = field(default=Tuning(), repr=False)

    @property
    def iterations(self) -> int:
        return self.passes

    def begin(self, problem: Problem, start: Solution | None = None) -> StochasticState:
        check_problem(self, problem)
        loss = problem.loss
        bent = math.isinf(loss.lipschitz) and math.isfinite(loss.smoothness)
        curvature = loss.smoothness * float(problem.diagonal.max()) if bent else 0.0
        check_first_step(self.schedule, curvature, float(problem.regularization))
        alpha = np.zeros_like(problem.y)  # changed in place
        if start is not None:
            alpha[...] = start.coefficients
        return StochasticState(
            work=Samples(self, problem),
            coefficients=alpha,
            answer=alpha.copy(),
            generator=np.random.default_rng(self.random_state),
            history={"progressive_loss": []},
        )

    def step(self, state: StochasticState) -> StochasticState:
        """One pass over the samples."""
        work, losses = state.work, list[np.ndarray]()
        work.begin(state)
        for rows in work.blocks(state.draw()):
            losses.append(work.through(state, rows))
        state.drawn()
        state.record(progressive_loss=float(np.mean(np.concatenate(losses))))
        answer = work.sum / state.total if self.averaging is not None else state.coefficients.copy()
        if np.isfinite(answer).all() and np.isfinite(state.coefficients).all():
            state.answer = answer
        else:
            state.finished = "steps that are too long"
        state.iteration += 1
        return state

    def progress(self, state: StochasticState) -> Progress:
        zero = np.zeros(state.answer.shape[1:])
        return Progress(state.answer, zero, state.work.problem.objective(state.answer))

    def solution(self, state: StochasticState) -> Solution:
        zero = np.zeros(state.answer.shape[1:])
        never = math.inf if state.finished else 1.0  # what ends by a divergence is no solution
        return certified(self.tolerance / never, state, state.answer, zero, state.samples)


class Samples:
    """Passes over the samples of a problem: their order, their weights, and values of f.

    Values come from kernel values, or as ⟨w, φ⟩ from explicit features φ of a block of samples,
    which are not stored.
    """

    def __init__(self, solver: StochasticFunctionalGradient, problem: Problem) -> None:
        self.solver, self.problem, self.gram = solver, problem, problem.gram
        weights = problem.sample_weights
        factors = weights / (weights.sum() / np.count_nonzero(weights))
        self.factors = over_rows(
            np.ones_like(weights) if solver.replacement else factors, problem.y
        )
        few = has_few_features(problem.gram) if solver.primal is None else solver.primal
        self.on_features = few
        block = solver.tuning.feature_block if few else solver.tuning.block
        self.length = solver.batch_size * max(block // solver.batch_size, 1)
        self.sum = np.zeros_like(problem.y)
        self.w: np.ndarray | None = None  # the weights of explicit features
        self.phi = np.empty((0, 0))  # those of the last block

    def begin(self, state: StochasticState) -> None:
        """Take up a state, also one from a checkpoint."""
        self.sum = state.total * state.answer
        if self.on_features and self.w is None and state.coefficients.any():
            self.w = self._features_of(self.gram.x).T @ state.coefficients

    def blocks(self, random: np.random.Generator) -> Iterator[np.ndarray]:
        """The samples of a pass in their order, some whole batches at a time."""
        weights = self.problem.sample_weights
        if self.solver.replacement:
            order = random.choice(len(weights), size=len(weights), p=weights / weights.sum())
        else:
            order = random.permutation(np.flatnonzero(weights))
        for first in range(0, len(order), self.length):
            yield order[first : first + self.length]

    def through(self, state: StochasticState, rows: np.ndarray) -> np.ndarray:
        """Take the steps of a block; the mean loss of each batch, before its step."""
        solver, loss, size = self.solver, self.problem.loss, self.solver.batch_size
        ridge, alpha = float(self.problem.regularization), state.coefficients
        y, factors = self.problem.y[rows], self.factors[rows]
        values = self._values(alpha, rows, several=len(rows) > size)
        block = Block(*values, solver.tuning.tiny)
        for first in range(0, len(rows), size):
            batch = slice(first, first + size)
            state.samples += 1
            step, weight = solver.schedule.step(state.samples), 0.0
            if solver.averaging is not None:
                weight = solver.averaging.weight(state.samples)
                state.total += weight
            slopes = factors[batch] * loss.slope(y[batch], block.look(batch, weight))
            block.push(batch, max(1.0 - step * ridge, 0.0), -step / len(slopes) * slopes)
        left, fresh, left_sum, fresh_sum = block.ended()
        if self.w is not None:
            self.w = left * self.w + self.phi.T @ fresh
        self.sum += left_sum * alpha
        alpha *= left
        np.add.at(self.sum, rows, fresh_sum)
        np.add.at(alpha, rows, fresh)
        losses = np.asarray(loss.value(y, block.seen)).reshape(len(y), -1).sum(axis=1)
        starts = np.arange(0, len(y), size)
        counts = np.diff(starts, append=len(y))
        return np.add.reduceat(factors.ravel() * losses, starts) / counts

    def _values(self, alpha: np.ndarray, rows: np.ndarray, several: bool) -> tuple[Any, Any]:
        """f at some samples and, where they are several batches, the matrix between them."""
        if self.on_features:
            phi = self.phi = self._features_of(self.gram.x.take(rows))
            if self.w is None:
                self.w = np.zeros((phi.shape[1], *alpha.shape[1:]))
            return phi @ self.w, phi @ phi.T if several else None
        gram, values, matrix = self.gram, np.zeros((len(rows), *alpha.shape[1:])), None
        active = np.flatnonzero(alpha.reshape(len(alpha), -1).any(axis=1))
        if len(active):  # coefficients that are 0 cost nothing
            part = gram[rows, active]
            gram.evaluations += part.shape[0] * part.shape[1]
            values = (part @ alpha[active].astype(gram.dtype)).astype(np.float64)
        if several:
            part = gram[rows, rows]
            gram.evaluations += part.shape[0] * (part.shape[0] + 1) // 2
            matrix = part.dense().astype(np.float64)
        return values, matrix

    def _features_of(self, points: Any) -> np.ndarray:
        kernel: Any = self.gram.kernel
        return np.asarray(kernel.features(points), np.float64)


class Block:
    """f = s·(f_before + Σ_j u_j k(x_j, ·)) all along a block, so that shrinking f costs a number.

    Iterates need no work of their own to be averaged: u_j is in their weighted sum with Σ weight·s
    over the steps since it came in, summed from the end, as s may fall fast.
    """

    def __init__(self, values: np.ndarray, matrix: np.ndarray | None, tiny: float) -> None:
        self.values, self.matrix, self.tiny = values, matrix, tiny
        self.seen, self.u = np.zeros_like(values), np.zeros_like(values)
        self.came, self.shares = np.zeros(len(values), int), list[float]()
        self.scale = 1.0
        self.left, self.left_sum, self.fresh_sum = 1.0, 0.0, np.zeros_like(values)

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
        if self.scale < self.tiny:
            self._fold()
        self.u[batch] = push / self.scale
        self.came[batch] = len(self.shares)

    def _fold(self) -> None:
        """Take the common factor into the numbers."""
        sums = np.cumsum([0.0, *reversed(self.shares)])[::-1]
        self.fresh_sum += over_rows(sums[self.came], self.u) * self.u
        self.left_sum += self.left * float(sums[0])
        self.left *= self.scale
        self.values, self.u = self.scale * self.values, self.scale * self.u
        self.came[:] = 0
        self.shares.clear()
        self.scale = 1.0

    def ended(self) -> tuple[float, np.ndarray, float, np.ndarray]:
        """The factor of f_before, the new coefficients, and both for the sum of iterates."""
        self._fold()
        return self.left, self.u, self.left_sum, self.fresh_sum


# ---- batches, on features ------------------------------------------------------------------------


class Draws:
    """Independent draws of the rows of a problem, with probabilities w_i/Σw."""

    def __init__(self, problem: Problem, features: SeededFeatures | None = None) -> None:
        weights = as_numpy(problem.sample_weights)
        uniform = problem.weights is None or bool(np.ptp(weights) == 0)
        self.problem, self.features = problem, features
        self.sums = None if uniform else np.cumsum(weights)

    def take(self, random: np.random.Generator, count: int) -> np.ndarray:
        """So many row numbers, in order."""
        if self.sums is None:
            return np.sort(random.integers(self.problem.rows, size=count))
        return np.sort(np.searchsorted(self.sums, self.sums[-1] * random.random(count), "right"))


class BatchSolver(Iterative):
    """The loop of methods that draw a batch in each step, and differ in what they make of it.

    `values(state, chosen)` gives f at some samples, and features of these with which
    `push(state, features, step, slopes)` takes a step.
    """

    batch_size: int
    schedule: Schedule
    values: Callable[[StochasticState, np.ndarray], tuple[Array, Array]]
    push: Callable[[StochasticState, Array, float, Array], None]
    answer: Callable[[StochasticState], Array]

    def next_size(self, state: StochasticState) -> int:
        """Samples of the next step."""
        return self.batch_size

    def step(self, state: StochasticState) -> StochasticState:
        problem, t = state.work.problem, state.iteration + 1
        xp = namespace(problem.y)
        chosen = state.work.take(state.draw(), self.next_size(state))
        state.drawn()
        y = xp.take(problem.y_columns, beside(chosen, problem.y), axis=0)
        values, features = self.values(state, chosen)
        loss = float(xp.sum(problem.loss.value(y, values))) / len(chosen)
        self.push(state, features, self.schedule.step(t), problem.loss.slope(y, values))
        state.iteration = t
        state.record(progressive_loss=loss)
        if not math.isfinite(loss):
            state.stopped = "steps that are too long"
        return state

    def progress(self, state: StochasticState) -> Progress:
        loss, zero = state.history["progressive_loss"][-1], 0.0 * state.coefficients[0, :]
        return Progress(self.answer(state), zero, risk=loss)


@dataclass(frozen=True)
class MiniBatch(BatchSolver):
    """w ← (1 − η_tλ)w − η_t Σ_batch ℓ'(y_i, ⟨φ(x_i), w⟩) φ(x_i)/B, and the average of the iterates.

    The problem is one on features, `Problem.on_features(φ, X, y, ...)`; with `Nystroem` f ranges
    over the functions with its centres, and ‖w‖ = ‖f‖.

    Parameters
    ----------
    passes : int
        How often n samples are drawn, with probabilities w_i/Σw.
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
        Called after each step, with the mean loss of its batch as risk; True stops.
    checkpoint : path, optional
        Where the iterate is stored after each step; `solve(problem, resume=path)` goes on.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.features import Nystroem
    >>> from mercer.losses import Logistic
    >>> from mercer.solvers.schedules import Constant
    >>> X = np.linspace(-1.0, 1.0, 400)[:, None]
    >>> phi = Nystroem(gamma=2.0, n_components=20, random_state=0).fit(X)
    >>> problem = Problem.on_features(phi, X, np.sign(X[:, 0] + 1e-3), Logistic(), 1e-2)
    >>> solution = MiniBatch(20, Constant(1.0), batch_size=20).solve(problem)
    >>> f = problem.function(solution)
    >>> bool(np.mean(np.sign(f(X)) == np.sign(X[:, 0])) > 0.95)
    True
    """

    limits_itself: ClassVar[bool] = True  # passes are many steps

    passes: int
    schedule: Schedule
    batch_size: int = 256
    averaging: Average | None = Average()  # noqa: RUF009 (frozen)
    tolerance: float = 1e-2
    random_state: Any = 0
    time_limit: float | None = None
    callback: Callback | None = field(default=None, compare=False)
    checkpoint: Any = None

    def begin(self, problem: Problem, start: Solution | None = None) -> StochasticState:
        check_problem(self, problem)
        if not problem.regularization > 0:
            raise ValueError(f"MiniBatch needs regularization > 0; got {problem.regularization!r}.")
        y, xp = problem.y_columns, namespace(problem.y)
        w = zeros((problem.size, y.shape[1]), y, "float64")
        if start is not None:
            w = xp.reshape(problem.array(start.coefficients), w.shape)
        return StochasticState(
            work=Draws(problem),
            coefficients=w,
            answer=w,
            generator=np.random.default_rng(self.random_state),
            history={"progressive_loss": []},
        )

    def next_size(self, state: StochasticState) -> int:
        """What is left of a pass, or a whole batch."""
        size, n = self.batch_size, state.work.problem.rows
        return min(size, n - (state.iteration % -(-n // size)) * size)

    def values(self, state: StochasticState, chosen: np.ndarray) -> tuple[Array, Array]:
        """f and φ at some samples; this iterate counts in the average."""
        problem, averaging = state.work.problem, self.averaging
        weight = 1.0 if averaging is None else averaging.weight(state.iteration + 1)
        state.total += weight
        share = weight / state.total
        state.answer = state.answer + share * (state.coefficients - state.answer)
        phi = problem.array(problem.operator[chosen].dense())
        return phi @ state.coefficients, phi

    def push(self, state: StochasticState, features: Array, step: float, slopes: Array) -> None:
        problem = state.work.problem
        shrink = max(1.0 - step * float(problem.regularization), 0.0)
        pulled = features.T @ slopes
        state.coefficients = shrink * state.coefficients - (step / len(slopes)) * pulled
        if state.iteration + 1 >= self.passes * -(-problem.rows // self.batch_size):
            state.finished = "all passes were taken"

    def answer(self, state: StochasticState) -> Array:
        w = state.coefficients if self.averaging is None else state.answer
        return w[:, 0] if state.work.problem.single else w

    def solution(self, state: StochasticState) -> Solution:
        problem, w = state.asked, self.answer(state)
        gap = certified_gap(problem, w)
        steps = len(state.history["progressive_loss"])
        work = f"{steps} steps of {self.batch_size} samples; {gap}"
        if gap.relative <= self.tolerance:
            status = Status(True, f"Solved: {work}.")
        elif state.stopped:
            status = Status(False, f"Stopped by {state.stopped}: {work}.", "Allow more time.")
        else:
            status = Status(False, f"Not converged: {work}.", "Take more passes or longer steps.")
        return Solution(w, status, gap.objective, gap.absolute, state.history)


# ---- fresh random features in every step ---------------------------------------------------------


@dataclass(eq=False)
class SeededFeatures:
    """φ_s(x) = √(2k(0))·cos(ω_s·x + b_s), with ω_s drawn from the spectral measure of k.

    E φ_s(x)φ_s(y) = k(x, y). Frequencies come in pages from seeds of their own, so that they can be
    cached, or drawn again whenever they are needed: then a function takes one number a feature,
    whatever the width of the points.

    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> features = SeededFeatures(Gaussian(), 2, 3000, seed=0)
    >>> X = np.array([[0.0, 0.0], [1.0, 0.5]])
    >>> values = features.values(X, np.eye(3000))
    >>> bool(np.allclose(values @ values.T / 3000, Gaussian()(X), atol=0.1))
    True
    """

    page_size: ClassVar[int] = 1024  # frequencies that one seed gives
    row_block: ClassVar[int] = 4096  # points that are evaluated together

    kernel: Any
    width: int
    count: int
    seed: int
    cached: bool = False

    def __post_init__(self) -> None:
        self.sampler = FrequencySampler(self.kernel, self.width)
        self.amplitude = math.sqrt(2.0 * self.sampler.amplitude)
        self.pages: dict[Any, tuple[Array, Array]] = {}

    @property
    def feature_count(self) -> int:
        return self.count

    def page(self, number: int, like: Array) -> tuple[Array, Array]:
        """Frequencies and phases of one page, as columns, in the precision and beside some rows."""
        key = number, *likeness(like)
        if key in self.pages:
            return self.pages[key]
        frequencies, phases = (
            to_precision(beside(part.T, like), like.dtype)
            for part in self.sampler.block(number, self.page_size, self.seed)
        )
        if self.cached:
            self.pages[key] = frequencies, phases
        return frequencies, phases

    def __getstate__(self) -> dict[str, Any]:
        """Pages are not pickled: they are drawn again."""
        return self.__dict__ | {"pages": {}}

    def block(self, rows: Array, start: int, stop: int) -> Array:
        """The features start, …, stop − 1, of one page, at some rows, in float64."""
        number, first = divmod(start, self.page_size)
        frequencies, phases = self.page(number, rows)
        part = slice(first, first + stop - start)
        features = namespace(rows).cos(rows @ frequencies[:, part] + phases[part])
        return to_precision(self.amplitude * features, "float64")

    def at(self, rows: Array, weights: Array) -> Array:
        """Σ_s w_s φ_s at some rows, a page at a time, in float64."""
        total = zeros((rows.shape[0], weights.shape[1]), weights, "float64")
        for start in range(0, weights.shape[0], self.page_size):
            stop = min(start + self.page_size, weights.shape[0])
            total = total + self.block(rows, start, stop) @ weights[start:stop, :]
        return total

    def values(self, x: Any, weights: Array) -> Array:
        """Σ_s w_s φ_s(x), where the points live."""
        points = self.kernel.points(x)
        weights = to_precision(points.vector(weights), "float64")
        starts = range(0, len(points), self.row_block)
        parts = [points.slice(i, min(i + self.row_block, len(points))) for i in starts]
        return namespace(weights).concat([self.at(_rows(part), weights) for part in parts])

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
class DoublyStochastic(BatchSolver):
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
        Whether frequencies are cached, which takes d numbers each, or drawn again from the seed.
    random_state : int, default=0
    time_limit : float, optional
        Seconds after which to stop.
    callback : function of (step, Progress), optional
        Called after each step, with the mean loss of its batch as risk; True stops.
    checkpoint : path, optional
        Where the iterate is stored after each step; `solve(problem, resume=path)` goes on.

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

    library_of_points: ClassVar[bool] = True

    steps: int
    schedule: Schedule
    batch_size: int = 64
    frequencies: int = 64
    keep: bool = True
    random_state: int = 0
    time_limit: float | None = None
    callback: Callback | None = field(default=None, compare=False)
    checkpoint: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if SeededFeatures.page_size % self.frequencies:
            raise ValueError(
                f"DoublyStochastic needs frequencies that divide {SeededFeatures.page_size}; got "
                f"{self.frequencies}."
            )

    @property
    def iterations(self) -> int:
        return self.steps

    def features(self, problem: Problem, count: int | None = None) -> SeededFeatures:
        """The features that a run on this problem draws."""
        width = getattr(problem.gram.x, "width", 1)
        total = self.steps * self.frequencies if count is None else count
        return SeededFeatures(problem.gram.kernel, width, total, self.random_state, self.keep)

    def function(self, problem: Problem, solution: Solution) -> FeatureFunction:
        """f of a solution, which can be evaluated anywhere."""
        weights = as_numpy(solution.coefficients)
        return FeatureFunction(self.features(problem, len(weights)), weights)

    def begin(self, problem: Problem, start: Solution | None = None) -> StochasticState:
        check_problem(self, problem)
        features = self.features(problem)
        raw = zeros((features.count, problem.outputs), problem.y, "float64")
        return StochasticState(
            work=Draws(problem, features),
            coefficients=raw,
            answer=raw,
            total=1.0,  # the common factor of all coefficients, so that shrinking costs nothing
            generator=np.random.default_rng([self.random_state, 2**31]),
            history={"progressive_loss": []},
        )

    def values(self, state: StochasticState, chosen: np.ndarray) -> tuple[Array, Array]:
        """f at some samples, and the fresh features there."""
        work, known = state.work, state.iteration * self.frequencies
        rows = _rows(work.problem.gram.x.take(chosen))
        values = state.total * work.features.at(rows, state.coefficients[:known, :])
        return values, work.features.block(rows, known, known + self.frequencies)

    def push(self, state: StochasticState, features: Array, step: float, slopes: Array) -> None:
        state.total *= max(1.0 - step * float(state.work.problem.regularization), 0.0)
        if state.total < Tuning.tiny:
            state.coefficients = state.total * state.coefficients
            state.total = 1.0
        push = -step / (len(slopes) * self.frequencies) * (features.T @ slopes)
        known = state.iteration * self.frequencies
        state.coefficients[known : known + self.frequencies, :] = push / state.total

    def answer(self, state: StochasticState) -> Array:
        alpha = state.total * state.coefficients[: state.iteration * self.frequencies, :]
        return alpha[:, 0] if state.work.problem.single else alpha

    def solution(self, state: StochasticState) -> Solution:
        losses = state.history["progressive_loss"]
        recent = float(np.mean(losses[-max(1, len(losses) // 10) :]))
        work = (
            f"{len(losses)} steps, {len(losses) * self.frequencies} frequencies; the mean loss of "
            f"the last batches, before they were used, is {recent:.3g}"
        )
        advice = "There is no gap to judge by: compare with held-out samples."
        status = Status(True, f"All steps were taken: {work}.", advice)
        if state.stopped and not state.stopped.startswith("the limit"):
            status = Status(False, f"Stopped by {state.stopped}: {work}.", advice)
        return Solution(self.answer(state), status, losses[-1], math.nan, state.history)
