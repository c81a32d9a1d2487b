"""A stream of samples, and the state of a machine between two of them.

Samples are learned in blocks. The kernel values of a block with the centres and with itself are
computed at once; a new centre is always one of its samples, so the compiled loop over the block
needs nothing else. How samples are cut into blocks changes no bit: where values could depend on it
(wide, sparse and mapped points, functions of users), a block is one sample.

The points of a stream may be more than its centres, `state.columns` says which are: so the state is
whole at every moment, and an interrupt leaves a machine that learned a sample or did not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from mercer.evaluation.expression import BILINEAR_KINDS, numbers_of
from mercer.functions import FeatureFunction, RKHSFunction
from mercer.kernels import Gaussian
from mercer.kernels.algebra import Scaled
from mercer.kernels.base import Kernel
from mercer.kernels.measures import generator
from mercer.online.algorithm import Algorithm
from mercer.online.budgets import merged
from mercer.online.state import (
    AVERAGE_SCALE,
    AVERAGE_WEIGHT,
    FOREIGN,
    FORGETTING,
    LOSS_SUM,
    MERGING,
    MISTAKES,
    NO_MATRIX,
    OFFSET,
    ON_HOST,
    PROJECTION,
    RANDOMLY,
    ROUNDS,
    SCALE,
    UNBOUNDED,
    Block,
    State,
    block_of,
    empty_state,
)
from mercer.operators import Gram
from mercer.points import DensePoints, PointSet


@dataclass(frozen=True)
class Tuning:
    """Sizes of blocks of samples, which decide about speed, not about what is learned."""

    block: int = 256  # samples whose kernel values are computed at once: enough to use all threads
    block_bytes: int = 1 << 24  # of these kernel values, 16 MB: fewer samples for many bumps
    gaussian_block: int = (
        1 << 14
    )  # where the loop computes the kernel itself: their rows are copied
    narrow: int = 64  # columns beyond which inner products go through BLAS, whose bits depend on
    # the block
    merge_places: int = 9  # that are tried between two bumps under a kernel without a closed form


TUNING = Tuning()


class Samples(NamedTuple):
    """Samples that are learned together, with k(x, x)."""

    points: PointSet
    targets: np.ndarray
    weights: np.ndarray
    diagonal: np.ndarray

    def part(self, start: int, stop: int) -> Samples:
        rows = (values[start:stop] for values in self[1:])
        return Samples(self.points.slice(start, stop), *rows)


class Recorded(NamedTuple):
    """Rounds of a stream: samples, the losses of their predictions, ‖g_t‖², and ‖f‖² before."""

    points: PointSet
    targets: np.ndarray
    weights: np.ndarray
    losses: np.ndarray
    gradients: np.ndarray
    norms: np.ndarray


class Stream:
    """Points, a state, and samples that are learned all or none. Subclasses say how."""

    state: Any
    refuses_first = True  # whether a single sample is refused before it changes anything
    passes = 1  # over the first samples

    def __init__(self, kernel: Kernel, points: PointSet) -> None:
        self.kernel, self.points = kernel, points.slice(0, 0)
        self.singly = not is_narrow(kernel, points)
        self.blocks: list[Recorded] = []

    def learn(self, points: PointSet, targets: np.ndarray, weights: np.ndarray) -> None:
        """Learn samples in their order; all of them, or none where one is refused."""
        Gram(self.kernel, points, self.points)  # refuses points of another kind
        targets = np.array(targets, np.float64, order="C")  # one layout, so one compilation
        samples = Samples(points, targets, weights, np.asarray(self._diagonal(points), np.float64))
        self._check(samples)
        if len(points) == 1 and self.refuses_first:
            self._learn_block(samples)
            return
        before, recorded = dict(vars(self)), len(self.blocks)
        self.state = self._copied_state()
        start = 0
        try:
            while start < len(points):
                stop = min(len(points), start + self._block_length())
                self._learn_block(samples.part(start, stop))
                start = stop
        except BaseException:
            self.__dict__.update(before)
            del self.blocks[recorded:]
            raise

    def _diagonal(self, points: PointSet) -> np.ndarray:
        """k(x, x)."""
        return Gram(self.kernel, points).diagonal()

    def _check(self, samples: Samples) -> None:
        """Refuse samples before anything is learned."""

    def _copied_state(self) -> Any:
        """A copy of the state, for samples that are refused in the middle of a block."""
        return self.state._make(array.copy() for array in self.state)

    def _block_length(self) -> int:
        """How many samples the next block has."""
        room = TUNING.block_bytes // (8 * (self.count + TUNING.block))
        return 1 if self.singly else max(1, min(TUNING.block, room))

    def _learn_block(self, samples: Samples) -> None:
        raise NotImplementedError

    def _values(self, points: PointSet) -> np.ndarray:
        """k of the samples with the points of the stream and with each other."""
        count, n = len(self.points), len(points)
        values = np.empty((n, count + n))
        if count:
            values[:, :count] = Gram(self.kernel, points, self.points).dense()
        if n > 1:
            values[:, count:] = Gram(self.kernel, points).dense()
        return values

    def _keep_centres(self) -> None:
        """Leave out the points that are no centres; in one call, which nothing can interrupt."""
        columns = self.state.columns
        where = columns[: self.count]
        if self.count != len(self.points) or (where != np.arange(self.count)).any():
            self.__dict__.update(
                points=self.points.take(where),
                state=self.state._replace(columns=np.arange(len(columns))),
            )

    @property
    def count(self) -> int:
        """The number of centres, or of features."""
        return int(self.state.length)


class Descent(Stream):
    """Steps along functional gradients. Subclasses say what f is made of."""

    state: State

    def __init__(self, kernel: Kernel, algorithm: Algorithm, points: PointSet) -> None:
        super().__init__(kernel, points)
        self.algorithm = algorithm

    def _begin(self, state: State, policy: int, size: int) -> None:
        self.state, self.rules = state, self.algorithm.rules(policy, size)
        self.singly |= self.rules.loss == FOREIGN

    def _check(self, samples: Samples) -> None:
        steps = self.algorithm.steps(self.rounds + 1, len(samples.weights))
        self.algorithm.check_steps(steps, samples.weights * samples.diagonal)

    def _descend(self, samples: Samples, values: np.ndarray, **parts: Any) -> None:
        """Learn the samples of a block from kernel values or features."""
        from mercer.online.compiled.loop import learn

        points, targets, weights, diagonal = samples
        algorithm, n, first = self.algorithm, len(targets), self.rounds + 1
        steps, shares = algorithm.steps(first, n), algorithm.shares(first, n)
        block = block_of(values, diagonal, targets, weights, steps, shares, **parts)
        rules = algorithm.compiled(self.rules)
        if rules.loss == FOREIGN:  # a block of one: predict, ask, learn
            learn(self.state, block, rules)
            block = block._replace(given=self._asked(block))
        if learn(self.state, block, rules) < n:
            raise ValueError(
                f"the loss or its slope is not finite at sample {self.rounds + 1} of the stream: "
                "the steps are too long for it. Shorten them; the model is as it was before."
            )
        if algorithm.record:
            reported = block.losses, block.gradients, block.norms
            self.blocks.append(Recorded(points, targets, weights, *reported))

    def _asked(self, block: Block) -> np.ndarray:
        """The values and slopes of a loss that compiled code does not know."""
        loss, y, f = self.algorithm.loss, block.targets, block.scores
        given = np.zeros((1, 2 * f.shape[1]))
        values = np.asarray(loss.value(y, f), np.float64).ravel()
        given[0, : len(values)] = values
        given[0, f.shape[1] :] = loss.slope(y, f)[0]
        return given

    def coefficients(self) -> np.ndarray:
        """One row for each bump or feature: of the last f, or of the average."""
        count, reals = self.count, self.state.reals
        if self.algorithm.averaging is None or not reals[AVERAGE_WEIGHT]:
            return reals[SCALE] * self.state.a[:count]
        total = self.state.a[:count] * reals[AVERAGE_SCALE] + self.state.b[:count]
        return total / reals[AVERAGE_WEIGHT]

    def function(self, flat: bool) -> RKHSFunction | FeatureFunction:
        """f; with `flat`, coefficients are numbers, not rows."""
        raise NotImplementedError

    @property
    def outputs(self) -> int:
        return int(self.state.a.shape[1])

    @property
    def rounds(self) -> int:
        return int(self.state.integers[ROUNDS])

    @property
    def mistakes(self) -> int:
        return int(self.state.integers[MISTAKES])

    @property
    def cumulative_loss(self) -> float:
        return float(self.state.reals[LOSS_SUM])

    @property
    def offset(self) -> float:
        return float(self.state.reals[OFFSET])

    @property
    def recorded(self) -> Recorded | None:
        """All rounds so far, where they are recorded."""
        if not self.blocks:
            return None
        points = reduce(lambda a, b: a.concatenated(b), (block.points for block in self.blocks))
        return Recorded(points, *map(np.concatenate, list(zip(*self.blocks, strict=True))[1:]))


class Expansion(Descent):
    """f = Σ a_j k(c_j, ·): the bumps, and what a budget makes of them."""

    def __init__(
        self, kernel: Kernel, algorithm: Algorithm, points: PointSet, outputs: int
    ) -> None:
        super().__init__(kernel, algorithm, points)
        self.amplitude, self.scales = _gaussian_scales(kernel, points)
        budget = algorithm.budget
        policy = UNBOUNDED if budget is None else budget.policy
        if policy == MERGING and not isinstance(points, DensePoints):
            policy = PROJECTION
        elif policy == MERGING and self.scales is None:
            policy = ON_HOST
        self.singly = not self.in_loop and (policy == ON_HOST or self.singly)
        size = 0 if budget is None else int(budget.size)
        state = empty_state(
            size + 1 if size else TUNING.block,
            outputs,
            policy,
            averaged=algorithm.averaging is not None,
            seed=seed_of(algorithm) if policy == RANDOMLY else 0,
            width=points.width if self.in_loop else 0,  # type: ignore[attr-defined]
            row_width=points.width if policy == MERGING else 0,  # type: ignore[attr-defined]
        )
        self._begin(state, policy, size)

    @property
    def in_loop(self) -> bool:
        """Whether the loop computes the kernel values itself, those of a Gaussian kernel.

        With 600 to 3,500 bumps and 2 to 64 columns this took a third to four fifths of the
        processor time of blocks of K, so that it is faster even where those use two threads.
        """
        return self.scales is not None

    def _diagonal(self, points: PointSet) -> np.ndarray:
        return np.full(len(points), self.amplitude) if self.in_loop else super()._diagonal(points)

    def _check(self, samples: Samples) -> None:
        largest = samples.diagonal.max(initial=0.0)
        if self.rules.policy == FORGETTING and largest > 1.0 + 1e-6:
            raise ValueError(
                f"the Forgetron needs k(x, x) ≤ 1; got {largest:.3g}. Write kernel.normalised()."
            )
        super()._check(samples)

    def _block_length(self) -> int:
        if self.in_loop and not self.singly and self.rules.policy != UNBOUNDED:
            return TUNING.gaussian_block
        return super()._block_length()

    def _learn_block(self, samples: Samples) -> None:
        points: Any = samples.points
        policy = self.rules.policy
        if policy == UNBOUNDED and self.count + len(points) > len(self.state.a):
            self.state = self.state.enlarged(2 * (self.count + len(points)))
        self._merge()
        values = NO_MATRIX if self.in_loop else self._values(points)
        parts: dict[str, Any] = {"known": len(self.points)}
        if self.in_loop:
            # A copy, as Numba compiles anew for arrays that cannot be written to.
            rows = np.array(points.rows, np.float64, order="C")
            parts["inputs"] = rows * np.asarray(self.scales)
        if policy == MERGING:  # the rows of the state are the centres
            self._descend(samples, values, rows=rows, **parts)
            return
        self.points = self.points.concatenated(points)
        try:
            self._descend(samples, values, **parts)
        finally:
            self._keep_centres()
        self._merge()

    def _merge(self) -> None:
        """Merge two bumps where there is one too many, under a kernel without a closed form."""
        if self.rules.policy == ON_HOST and self.count > self.rules.size:
            assert isinstance(self.points, DensePoints)
            points, state = merged(self.kernel, self.points, self.state, TUNING.merge_places)
            self.__dict__.update(points=points, state=state)

    @property
    def centres(self) -> PointSet:
        """The points c_j."""
        if self.rules.policy == MERGING:
            rows = self.state.rows[: self.count].astype(self.points.dtype)
            return DensePoints(rows, getattr(self.points, "names", None))
        whole = len(self.points) == self.count
        return self.points if whole else self.points.take(self.state.columns[: self.count])

    def function(self, flat: bool) -> RKHSFunction:
        coefficients = self.coefficients().astype(self.points.dtype)
        return RKHSFunction(self.kernel, self.centres, coefficients[:, 0] if flat else coefficients)


def _gaussian_scales(kernel: Kernel, points: PointSet) -> tuple[float, np.ndarray | None]:
    """For c·exp(−‖x − y‖²/(2ℓ²)) on dense rows: c, and the scales 1/(√2 ℓ) of the columns."""
    amplitude = 1.0
    while isinstance(kernel, Scaled):
        amplitude, kernel = amplitude * float(kernel.scale), kernel.kernel
    if type(kernel) is not Gaussian or type(points) is not DensePoints:
        return amplitude, None
    lengthscale = np.asarray(kernel.lengthscale, np.float64)
    return amplitude, np.broadcast_to(math.sqrt(0.5) / lengthscale, (points.width,))


def is_narrow(kernel: Kernel, points: PointSet) -> bool:
    """Whether the value of a pair does not depend on the block it is computed in."""
    expression = kernel.expression()
    if expression is None or type(points) is not DensePoints or points.mapped:
        return False
    return not any(
        number.view.matrix is not None
        or (number.kind in BILINEAR_KINDS and points.width_of(number.view) > TUNING.narrow)
        for number in numbers_of(expression)
    )


def seed_of(algorithm: Algorithm) -> int:
    """A whole number, always the same for the same `random_state`."""
    return int(generator(algorithm.random_state).integers(1 << 62))
