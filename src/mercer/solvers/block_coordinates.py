"""Ridge regression on all points, a block of rows at a time: block coordinate descent."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mercer.arrays import Array, as_numpy, beside, to_precision
from mercer.features.centres import RandomlyPivoted
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.runtime.machine import column_memory, value_cost
from mercer.solvers.conjugate_gradient import default_tolerance, require_ridge
from mercer.solvers.driver import Callback, Progress, State
from mercer.solvers.early_stopping import HeldOut
from mercer.solvers.iterative import Iterative
from mercer.solvers.optimality import Residual, ridge_residual
from mercer.solvers.preconditioners.low_rank import Columns, block_bytes, most_columns
from mercer.solvers.preconditioners.sampling import random_rows
from mercer.solvers.problem import Problem
from mercer.solvers.ridge_system import RidgeSystem
from mercer.solvers.solution import Solution, Status, plain_intercept


@dataclass(frozen=True)
class Tuning:
    """Numbers of block coordinate descent."""

    blocks: int = 256  # of a pass, where rows are many; a block has no fewer than make the machine
    # busy. With a factor of the same rank small blocks gain more in a pass, as less is missed
    rank_share: float = 0.1  # of the time of a gradient that the factor of a block may take
    power_steps: int = 10  # of the power method, for the largest eigenvalue that the factor misses
    damping_margin: float = 1.2  # times that eigenvalue, which the power method finds from below
    mixed_size: int = 2000  # rows from which products in float32 are faster
    sample: int = 1024  # rows on which residual and rounding are looked at after a pass
    rounding: float = 0.3  # of the residual, which rounding of products in float32 may have
    margin: float = 0.9  # of the tolerance, to certify the residual: the sample is small


@dataclass(eq=False)
class BlockState(State):
    """x, in columns the solutions of (SKS + ρI)x = Sy and, for an intercept, = S1, and v.

    Gradients are taken at z = τv + (1 − τ)x, where v carries the momentum.
    """

    x: Array = None
    v: Array = None
    dtype: str = "float64"
    least: float = 1.0  # ρ/(ρ + η), the least so far
    blocks: int = 0  # so far
    rank: int = 0  # of the last factor


@dataclass(frozen=True)
class BlockCoordinateDescent(Iterative):
    """Solve (K + nλ W⁻¹) α = y by steps on random blocks of rows; no product with all of K.

    A step takes a block B of rows, computes the gradient g = K_B: z + ρz_B − y_B there, and moves
    the coefficients of the block by (K̂_BB + (ρ + η)I)⁻¹ g, where K̂_BB is a factor of low rank from
    randomly pivoted Cholesky, ρ = nλ, and η is the largest eigenvalue of K_BB − K̂_BB, so that no
    step is too long. Steps have momentum. A pass over all rows takes as long as one product
    with K, in which conjugate gradients do one iteration: this is for so many rows that there is
    time for few products. It takes memory for some numbers beside each row and for one factor.

    Parameters
    ----------
    tolerance : float, optional
        The true residual, relative to y, to reach; by default 1e-6, 1e-4 for float32, and 1e-3
        for float32 on a card.
    block_size : int, optional
        Rows of a block; by default a 256th of them, and enough to make the machine busy.
    rank : int, optional
        Columns of the factor of a block; by default as many as take little time beside the
        gradient, and as fit into the memory budget.
    iterations : int, default=1000
        Passes over the rows, at most.
    random_state : int, default=0
        Draws blocks and pivots.
    time_limit : float, optional
        Seconds after which to stop with the last iterate, within a pass, too.
    callback : function of (pass, Progress), optional
        Called after each pass, with an objective of nan; True stops.
    stopping : HeldOut, optional
        Hold rows out, and return the iterate that predicts them best.
    checkpoint : path, optional
        Where the iterate is stored after each pass; `solve(problem, resume=path)` goes on.
    tuning : Tuning

    References
    ----------
    P. Rathore, Z. Frangella, J. Yang, M. Dereziński, M. Udell, Have ASkotch: a neat solution for
    large-scale kernel ridge regression, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Matern
    >>> from mercer.losses import Squared
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> problem = Problem(
    ...     Matern(1.5, lengthscale=0.1).gram(X), np.sin(9 * X[:, 0]), Squared(), 1e-3
    ... )
    >>> solution = BlockCoordinateDescent(block_size=50).solve(problem)
    >>> rest = (
    ...     problem.gram.dense() @ solution.coefficients + 0.2 * solution.coefficients - problem.y
    ... )
    >>> bool(np.linalg.norm(rest) <= 1e-6 * np.linalg.norm(problem.y)), solution.status.converged
    (True, True)
    """

    library_of_points: ClassVar[bool] = True

    tolerance: float | None = None
    block_size: int | None = None
    rank: int | None = None
    iterations: int = 1000
    random_state: int = 0
    time_limit: float | None = None
    callback: Callback | None = field(default=None, compare=False)
    stopping: HeldOut | None = None
    checkpoint: Any = None
    tuning: Tuning = field(default=Tuning(), repr=False)

    def goal(self, gram: Gram) -> float:
        """The relative residual to reach."""
        return self.tolerance or default_tolerance(gram)

    def begin(self, problem: Problem, start: Solution | None = None) -> BlockState:
        require_ridge(self, problem)
        system = Blocks(self, problem)
        x = system.started(start)
        state = BlockState(work=system, x=x, v=system.xp.asarray(x, copy=True))
        state.dtype = system.first_dtype
        state.history |= {"residual": [], "seconds": []}
        if start is not None:
            self._look(state)
        return state

    def step(self, state: BlockState) -> BlockState:
        """One pass over the rows, a block at a time; it ends where time is up."""
        system: Blocks = state.work
        fresh = not state.blocks and not bool(system.xp.any(state.x != 0))
        blocks = system.drawn(state.iteration)
        for number, rows in enumerate(blocks):
            if number and time.perf_counter() >= state.deadline:
                break
            # beyond the rows of the first pass so far x and v are 0: half of its products
            seen = np.concatenate([rows[:0], *blocks[:number]]) if fresh else None
            system.advance(state, rows, seen)
        state.iteration += 1
        self._look(state)
        return state

    def _look(self, state: BlockState) -> None:
        """The residual on sampled rows, and whether float32 can still tell what to do."""
        system, goal = state.work, self.goal(state.work.gram)
        size, noise = system.sampled(state.x, state.dtype)
        state.record(residual=size)
        if size <= self.tuning.margin * goal:
            *_, residual = self._certified(state, system.problem)
            if residual.claimed <= goal:
                state.finished = "the tolerance is reached"
        if state.dtype == "float32" and noise > self.tuning.rounding * size:
            state.dtype = "float64"

    # ---- the answer ------------------------------------------------------------------------------

    def progress(self, state: BlockState) -> Progress:
        return Progress(*state.work.coefficients(state.x))

    def _certified(self, state: BlockState, problem: Problem) -> tuple[Array, Array, Residual]:
        """α as it will be stored, b, and their residual."""
        at = self.progress(state)
        alpha = to_precision(at.coefficients, state.work.precision)
        wide = to_precision(alpha, "float64")
        return alpha, at.intercept, ridge_residual(problem, wide, at.intercept, sampled=True)

    def solution(self, state: BlockState) -> Solution:
        alpha, intercept, residual = self._certified(state, state.asked)
        return Solution(
            coefficients=alpha,
            status=self._status(state, residual),
            objective=residual.objective,
            gap=residual.claimed,
            history=state.history,
            intercept=plain_intercept(intercept),
        )

    def _status(self, state: BlockState, residual: Residual) -> Status:
        system, goal = state.work, self.goal(state.work.gram)
        passes = state.blocks / system.count
        work = (
            f"{passes:.3g} passes in blocks of {system.block_rows} rows, rank {state.rank}, the "
            f"last in {state.dtype}; {residual}"
        )
        if residual.claimed <= goal:
            return Status(True, f"Solved: {work}.")
        if state.stopped:
            return Status(False, f"Stopped by {state.stopped}: {work}.", "Allow more.")
        return Status(False, f"Not solved to {goal:.0e}: {work}.", "Raise the regularization.")


class Blocks(RidgeSystem):
    """The system (SKS + ρI)x = S(y, 1) by blocks of its rows."""

    def __init__(self, solver: BlockCoordinateDescent, problem: Problem) -> None:
        super().__init__(type(solver), problem)
        self.solver, self.tuning = solver, solver.tuning
        self.active = np.flatnonzero(as_numpy(problem.sample_weights))
        rows = len(self.active)
        size = solver.block_size or max(self.gram.machine.probe, rows // self.tuning.blocks)
        self.count = -(-rows // min(size, rows))  # blocks of a pass
        self.block_rows = -(-rows // self.count)
        # columns whose factor takes little time beside a gradient, and fits
        gram, rows = self.gram, self.problem.rows
        factor = self.tuning.rank_share * rows * value_cost(gram, np.float32)
        most = most_columns(self.block_rows, 8, column_memory(gram), gram.machine)
        paying = max(1, min(most, int(math.sqrt(factor))))
        self.rank = min(self.block_rows, solver.rank or paying)

    @property
    def first_dtype(self) -> str:
        """float32 where that is quicker and holds the values of K."""
        single = self.precision == "float32" or self.problem.rows >= self.tuning.mixed_size
        return "float32" if single and math.isfinite(self.rounding(64)) else "float64"

    def drawn(self, number: int) -> list[np.ndarray]:
        """The blocks of a pass: all rows that count, in random order."""
        random = np.random.default_rng([self.solver.random_state, number])
        return np.array_split(random.permutation(self.active), self.count)

    # ---- one block -------------------------------------------------------------------------------

    def advance(self, state: BlockState, rows: np.ndarray, seen: np.ndarray | None) -> None:
        """A step on a block: z is between x and v; x becomes z less it, v makes a longer one."""
        block = Block(self, rows, state.dtype, [self.solver.random_state, state.blocks])
        state.blocks, state.rank = state.blocks + 1, block.columns.rank
        share = self.ridge / block.shift
        state.least = min(state.least, share)
        forget = math.sqrt(state.least) / self.count
        reach = 1.0 / math.sqrt(state.least)
        z = state.x + (state.v - state.x) / (1.0 + reach * self.count)
        places = beside(rows, z)
        gradient = self.gradient(z, places, block.points, state.dtype, seen)
        step = block.factor.solve(gradient) / block.shift
        state.v += forget * (z - state.v)
        state.v[places] -= reach * step
        z[places] -= step
        state.x = z

    def gradient(
        self,
        z: Array,
        places: Array,
        points: PointSet,
        dtype: str,
        seen: np.ndarray | None = None,
    ) -> Array:
        """(SKS + ρI)z − S(y, 1) on some rows, with K in a precision; z is 0 off the rows `seen`."""
        rest = self.ridge * z[places] - self.sides[places]
        columns, scaled = self.gram.y, self.roots * z
        if seen is not None:
            if not len(seen):
                return rest
            columns, scaled = columns.take(seen), scaled[beside(seen, z)]
        part = self.part(points, columns, dtype)
        image = to_precision(part @ to_precision(scaled, dtype), "float64")
        return rest + self.roots[places] * image

    def part(self, rows: PointSet, columns: PointSet, dtype: str) -> Gram:
        """K of some rows and columns."""
        gram = self.gram
        return Gram(gram.kernel, rows, columns, gram.memory, gram.precision).astype(dtype)

    def sampled(self, x: Array, dtype: str) -> tuple[float, float]:
        """The relative residual in float64 on some rows, and what another precision adds to it."""
        rows = random_rows(self.problem.rows, self.tuning.sample, 1)
        places, points = beside(rows, x), self.gram.x.take(rows)
        exact = self.gradient(x, places, points, "float64")
        noise = 0.0 * exact
        if dtype != "float64":
            noise = self.gradient(x, places, points, dtype) - exact
        return self._size_of(exact), self._size_of(noise)

    def _size_of(self, some: Array) -> float:
        """The relative size of the worst column, from some of its rows."""
        squares = self.problem.rows * self.xp.mean(some**2, axis=0)
        return float(self.xp.max(self.xp.sqrt(squares) / self.scale))


class Block:
    """(SK̂S + (ρ + η)I)⁻¹ of the rows of a block, with K̂ of low rank and η ≥ ‖S(K − K̂)S‖."""

    def __init__(self, system: Blocks, rows: np.ndarray, dtype: str, seed: list[int]) -> None:
        gram, xp = system.gram, system.xp
        self.system, self.points = system, gram.x.take(rows)
        self.own = system.part(self.points, self.points, dtype)
        self.roots = system.roots[beside(rows, system.roots)]
        kernel: Any = gram.kernel
        pivoted = RandomlyPivoted(system.rank, np.random.default_rng(seed))
        factor: Any = None
        for factor in pivoted.growing(kernel, self.points, dtype):  # noqa: B007
            pass
        left = 0.0 if factor is None else float(factor.residual.max())
        columns = self.roots[:, :0] if factor is None else factor.columns[:, : factor.rank]
        size = block_bytes(gram.memory, gram.machine)
        left *= float(xp.max(self.roots)) ** 2
        self.columns = Columns(gram.x.vector(columns), self.roots, system.ridge + left, size)
        self.shift = system.ridge + self._missed(np.random.default_rng(seed))
        self.factor = self.columns.preconditioner(self.shift, overwrite=True)

    def _missed(self, random: np.random.Generator) -> float:
        """η: the power method, with a margin."""
        system, tuning = self.system, self.system.tuning
        v, size = system.problem.array(random.standard_normal((len(self.roots), 1))), 0.0
        for _ in range(tuning.power_steps):
            v = v / system.xp.linalg.vector_norm(v)
            image = self.own @ to_precision(self.roots * v, self.own.dtype)
            known = self.columns.combinations(self.columns.products(v))
            v = self.roots * to_precision(image, "float64") - known
            size = float(system.xp.linalg.vector_norm(v))
            if not size:
                break
        return tuning.damping_margin * size
