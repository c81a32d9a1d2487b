"""A stream of samples: kernel values for compiled code, and the points that are kept.

Samples are learned in blocks. The values of a block with the centres and with itself are computed
at once; a new centre is always one of its samples, so the walk over the block needs nothing else.
How samples are cut into blocks changes no bit: where values could depend on it (wide, sparse and
mapped points, functions of users), a block is one sample.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer.evaluation.dispatch import check_pair
from mercer.evaluation.expression import BILINEAR_KINDS
from mercer.evaluation.program import lower
from mercer.functions import RKHSFunction
from mercer.kernels import Gaussian
from mercer.kernels.algebra import Scaled
from mercer.kernels.base import Kernel
from mercer.online.budgets import Budget
from mercer.online.merging import merge_outside
from mercer.online.rounds import Recorded, Rounds, Settings
from mercer.online.state import (
    AVERAGE_SCALE,
    AVERAGE_WEIGHT,
    COUNT,
    FOREIGN,
    FORGETTING,
    MERGING,
    OUTSIDE,
    PROJECTION,
    SCALE,
    UNBOUNDED,
    Block,
    block_of,
    empty_arrays,
)
from mercer.operators import Gram
from mercer.points import DensePoints, PointSet

BLOCK = 256  # samples whose kernel values are computed at once
BLOCK_BYTES = 1 << 24
NARROW = 64  # columns up to which values are the same for blocks of any shape


class Centres:
    """Points that are kept, and their kernel values with the samples of a block."""

    arrays: Any
    recorded: Recorded | None

    def __init__(self, kernel: Kernel, points: PointSet) -> None:
        self.kernel = kernel
        self.points = points.slice(0, 0)
        self.alone = not _narrow(kernel, points)

    def values(self, points: PointSet) -> np.ndarray:
        """k of the samples with the centres and with each other."""
        count, n = len(self.points), len(points)
        values = np.empty((n, count + n))
        if count:
            values[:, :count] = Gram(self.kernel, points, self.points).dense()
        if n > 1:
            values[:, count:] = Gram(self.kernel, points).dense()
        return values

    def diagonal(self, points: PointSet) -> np.ndarray:
        """k(x, x) in float64."""
        return np.asarray(Gram(self.kernel, points).diagonal(), np.float64)

    def keep(self, points: PointSet, columns: np.ndarray, count: int) -> None:
        """The points of the centres, after a block that left them at `columns`."""
        where = columns[:count]
        if count != len(self.points) or (where != np.arange(count)).any():
            self.points = self.points.concatenated(points).take(where)
        columns[:count] = np.arange(count)

    def learn(self, points: PointSet, targets: np.ndarray, weights: np.ndarray) -> None:
        """Learn samples in their order; all of them, or none where one is refused."""
        check_pair(points, self.points)
        targets = np.array(targets, np.float64, order="C")  # one layout, so one compilation
        kept, rounds = (self.points, self.arrays), len(self.recorded or ())
        self.arrays = self._working_copy(len(points))
        try:
            start = 0
            while start < len(points):
                stop = min(len(points), start + self._length())
                part = slice(start, stop)
                self._learn_block(points.slice(start, stop), targets[part], weights[part])
                start = stop
        except BaseException:
            self.points, self.arrays = kept
            if self.recorded is not None:
                self.recorded.cut(rounds)
            raise

    def _working_copy(self, samples: int) -> Any:
        """What may be spoiled by a refused sample; a single one is refused before it can."""
        if samples == 1:
            return self.arrays
        return type(self.arrays)(*(array.copy() for array in self.arrays))

    def _length(self) -> int:
        raise NotImplementedError

    def _learn_block(self, points: PointSet, targets: np.ndarray, weights: np.ndarray) -> None:
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """What the arrays of the state take; points that are vectors are counted too."""
        rows = getattr(self.points, "rows", None)
        kept = 0 if rows is None else getattr(rows, "nbytes", 0)
        return sum(array.nbytes for array in self.arrays) + kept


class Stream(Rounds, Centres):
    """The state of an online machine: the bumps it keeps, and how it goes on."""

    def __init__(self, kernel: Kernel, settings: Settings, points: PointSet, outputs: int) -> None:
        super().__init__(kernel, points)
        self.amplitude, self.scales = _gaussian_scales(kernel, points)
        policy = self._policy(settings.budget, points)
        self.inside = self.scales is not None and (policy != UNBOUNDED or self.alone)
        self.alone = not self.inside and (policy == OUTSIDE or self.alone)
        self.begin(settings, policy)
        size = self.rules.size
        self.alone |= self.rules.loss == FOREIGN
        self.arrays = empty_arrays(
            capacity=size + 1 if size else BLOCK,
            outputs=outputs,
            policy=policy,
            averaged=settings.averaging is not None,
            width=points.width if self.inside else 0,  # type: ignore[attr-defined]
            columns=points.width if policy == MERGING else 0,  # type: ignore[attr-defined]
            seed=seed_of(settings.random_state),
        )

    def _policy(self, budget: Budget | None, points: PointSet) -> int:
        """The policy on these points: merging where they can be mixed, projection elsewhere."""
        if budget is None:
            return UNBOUNDED
        if budget.policy != MERGING:
            return budget.policy
        if not isinstance(points, DensePoints):
            return PROJECTION
        return MERGING if self.scales is not None else OUTSIDE

    # ---- learning -----------------------------------------------------------------------------

    def learn(self, points: PointSet, targets: np.ndarray, weights: np.ndarray) -> None:
        diagonal = self.diagonal(points)
        if self.rules.policy == FORGETTING:
            _check_lengths(diagonal)
        self._check_steps(self._steps(len(points)), weights * diagonal)
        super().learn(points, targets, weights)

    def _learn_block(self, points: PointSet, targets: np.ndarray, weights: np.ndarray) -> None:
        n = len(points)
        block = block_of(
            np.empty((0, len(self.points) + n)) if self.inside else self.values(points),
            self.diagonal(points),
            targets,
            weights,
            self._steps(n),
            self._averaging(n),
            self._seen(points),
            self._rows(points),
        )
        if self.rules.policy == UNBOUNDED and self.arrays.held + n > len(self.arrays.a):
            self.arrays = self.arrays.widened(2 * (self.arrays.held + n))
        if self._walk(block) < n:
            raise ValueError(
                f"the loss or its slope is not finite at sample {self.rounds + 1} of the stream: "
                "the steps are too long for it. Shorten them; the model is as it was before."
            )
        self._keep(points)
        if self.rules.policy == OUTSIDE and self.arrays.held > self.rules.size:
            self.points = merge_outside(self.kernel, self.points, self.arrays)
        if self.recorded is not None:
            self.recorded.add(points, block)

    def _walk(self, block: Block) -> int:
        from mercer.online.compiled.walk import walk

        if self.rules.loss == FOREIGN:  # a block of one: predict, ask, learn
            walk(self.arrays, block, self.rules)
            loss, y, f = self.settings.loss, block.targets, block.scores
            given = np.zeros((1, 2 * f.shape[1]))
            values = np.asarray(loss.value(y, f), np.float64).ravel()
            given[0, : len(values)] = values
            given[0, f.shape[1] :] = loss.slope(y, f)[0]
            block = block._replace(given=given)
        return int(walk(self.arrays, block, self.rules))

    def diagonal(self, points: PointSet) -> np.ndarray:
        inside = self.inside
        return np.full(len(points), self.amplitude) if inside else super().diagonal(points)

    def _length(self) -> int:
        """How many samples the next block has."""
        if self.alone:
            return 1
        if self.inside and self.rules.policy != UNBOUNDED:
            return 1 << 14
        return max(1, min(BLOCK, BLOCK_BYTES // (8 * (self.arrays.held + BLOCK))))

    def _seen(self, points: Any) -> np.ndarray:
        if not self.inside or self.scales is None:
            return np.empty((0, 0))
        return np.ascontiguousarray(points.rows, np.float64) * self.scales

    def _rows(self, points: Any) -> np.ndarray:
        merged = self.rules.policy == MERGING
        return np.array(points.rows, np.float64, order="C") if merged else np.empty((0, 0))

    def _keep(self, points: PointSet) -> None:
        """The points of the centres, after a block."""
        arrays, count = self.arrays, self.arrays.held
        if self.rules.policy == MERGING:
            rows = arrays.rows[:count].astype(points.dtype)
            self.points = DensePoints(rows, getattr(points, "names", None))
            arrays.columns[:count] = np.arange(count)
        else:
            self.keep(points, arrays.columns, count)

    # ---- what is known --------------------------------------------------------------------------

    @property
    def outputs(self) -> int:
        return int(self.arrays.a.shape[1])

    def coefficients(self) -> np.ndarray:
        """Those of the centres: of the last f, or of the average."""
        count, reals = int(self.arrays.integers[COUNT]), self.arrays.reals
        if self.settings.averaging is None or not reals[AVERAGE_WEIGHT]:
            return reals[SCALE] * self.arrays.a[:count]
        total = self.arrays.a[:count] * reals[AVERAGE_SCALE] + self.arrays.b[:count]
        return total / reals[AVERAGE_WEIGHT]

    def function(self, flat: bool) -> RKHSFunction:
        """The function learned so far; with `flat`, coefficients are numbers, not rows."""
        coefficients = self.coefficients().astype(self.points.dtype)
        return RKHSFunction(self.kernel, self.points, coefficients[:, 0] if flat else coefficients)


def _gaussian_scales(kernel: Kernel, points: PointSet) -> tuple[float, np.ndarray | None]:
    """For c·exp(−‖x − y‖²/(2ℓ²)) on dense rows: c, and the scales 1/(√2 ℓ) of the columns."""
    amplitude = 1.0
    while isinstance(kernel, Scaled):
        amplitude, kernel = amplitude * float(kernel.scale), kernel.kernel
    if type(kernel) is not Gaussian or type(points) is not DensePoints:
        return amplitude, None
    lengthscale = np.asarray(kernel.lengthscale, np.float64)
    return amplitude, np.broadcast_to(math.sqrt(0.5) / lengthscale, (points.width,))


def _check_lengths(diagonal: np.ndarray) -> None:
    if diagonal.max(initial=0.0) > 1.0 + 1e-6:
        raise ValueError(
            f"the Forgetron needs k(x, x) ≤ 1; got {diagonal.max():.3g}. Write kernel.normalised()."
        )


def _narrow(kernel: Kernel, points: PointSet) -> bool:
    """Whether the value of a pair does not depend on the block it is computed in."""
    expression = kernel.expression()
    if expression is None or type(points) is not DensePoints or points.mapped:
        return False
    for number in lower(expression).pairs:
        wide = number.kind in BILINEAR_KINDS and points.width_of(number.view) > NARROW
        if wide or number.view.matrix is not None:
            return False
    return True


def seed_of(random_state: Any) -> int:
    """A whole number from what scikit-learn calls a random state."""
    if random_state is None:
        return int(np.random.default_rng().integers(1 << 62))
    if isinstance(random_state, (np.random.Generator, np.random.RandomState)):
        draw = getattr(random_state, "integers", None) or random_state.randint  # type: ignore[union-attr]
        return int(draw(1 << 31))
    return int(np.random.default_rng(random_state).integers(1 << 62))
