"""A stream of samples: what is minimised, with which steps, and the state between two samples.

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
from mercer.losses import Loss
from mercer.online.budgets import Budget, merged
from mercer.online.losses import code_of as loss_code
from mercer.online.state import (
    ADAPTIVE,
    AGGRESSIVE,
    AVERAGE_SCALE,
    AVERAGE_WEIGHT,
    FEATURES,
    FOREIGN,
    FORGETTING,
    GIVEN,
    LEAST_LOSS,
    LOSS_SUM,
    MERGING,
    MISTAKES,
    NOTHING,
    OFFSET,
    ON_HOST,
    PROJECTION,
    ROUNDS,
    SCALE,
    SOFT_AGGRESSIVE,
    UNBOUNDED,
    Block,
    Rules,
    State,
    block_of,
    empty_state,
)
from mercer.operators import Gram
from mercer.points import DensePoints, PointSet
from mercer.solvers.schedules import Adaptive, Aggressive, Average, step_sizes


@dataclass(frozen=True)
class Tuning:
    """Numbers that decide about speed and accuracy of a stream, not about what it learns."""

    block: int = 256
    """Samples whose kernel values are computed at once: enough to use all threads."""
    block_bytes: int = 1 << 24
    """Memory for the kernel values of a block, 16 MB: fewer samples where there are many bumps."""
    gaussian_block: int = 1 << 14
    """Samples of a block where the loop computes the kernel, and nothing is stored for it."""
    narrow: int = 64
    """Columns up to which the evaluator gives the same bits for blocks of any shape: beyond, inner
    products go through BLAS."""
    jitter: float = 1e-7
    """τ of `Project` over the largest k(c, c): above the rounding of K, and small enough that a
    projection loses less than 1e-3 of what the best one does (tests/online/test_budgets.py)."""
    merge_steps: int = 40
    """Newton steps for the place of a merged bump; it takes 3 to 5."""
    merge_tolerance: float = 1e-7
    """Where they end, as a share of the distance; the error of f is its square."""
    merge_places: int = 9
    """Places that are tried between two bumps under a kernel without a closed form."""


@dataclass(frozen=True)
class Algorithm:
    """An online algorithm: what is minimised, with which steps, and on which budget.

    Pegasos, NORMA, the perceptron and all others are choices of these.
    """

    loss: Loss
    regularization: float
    step: Any
    budget: Budget | None = None
    averaging: Average | None = None
    random_state: Any = None
    record: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Loss):
            raise ValueError(f"loss must be a loss of mercer.losses; got {self.loss!r}.")
        if not (isinstance(self.step, (Adaptive, Aggressive)) or hasattr(self.step, "step")):
            raise ValueError(
                f"step must be a schedule; got {self.step!r}. Write schedules.Constant(0.1), "
                "InverseTime(scale), InverseSqrt(scale), Adaptive(scale) or Aggressive(limit)."
            )
        if not (math.isfinite(self.regularization) and self.regularization >= 0):
            raise ValueError(
                f"regularization must be nonnegative and finite; got {self.regularization!r}."
            )
        if not (self.budget is None or isinstance(self.budget, Budget)):
            raise ValueError(
                f"budget must be None or one of mercer.online.budgets, as Merge(200); got "
                f"{self.budget!r}."
            )
        if not (self.averaging is None or hasattr(self.averaging, "weight")):
            raise ValueError(f"averaging must be None or Average(); got {self.averaging!r}.")
        foreign = loss_code(self.loss)[0] == FOREIGN
        if foreign and self.budget is not None and self.budget.policy == LEAST_LOSS:
            raise ValueError(
                f"LeastLoss compares losses in compiled code, which does not know {self.loss!r}: "
                "choose another budget, as Smallest or Project."
            )

    def rules(self, policy: int, size: int, tuning: Tuning) -> Rules:
        """The algorithm as compiled code reads it."""
        step, number = GIVEN, 0.0
        if isinstance(self.step, Adaptive):
            step, number = ADAPTIVE, float(self.step.scale)
        elif isinstance(self.step, Aggressive):
            step, number = SOFT_AGGRESSIVE if self.step.soft else AGGRESSIVE, float(self.step.limit)
        return Rules(
            *loss_code(self.loss),
            step=step,
            step_number=number,
            regularization=float(self.regularization),
            policy=policy,
            size=size,
            labels=self.loss.is_classification,
            jitter=tuning.jitter,
            merge_steps=tuning.merge_steps,
            merge_tolerance=tuning.merge_tolerance,
        )

    def check_steps(self, steps: np.ndarray, sizes: np.ndarray) -> None:
        """Refuse steps under which f turns round or blows up; `sizes` are weights times k(x, x)."""
        ridge = float(self.regularization)
        if not len(steps):
            return
        if steps.max() * ridge > 1.0 + 1e-9:  # λ·(1/λ) is 1 up to rounding
            raise ValueError(
                f"the step {steps.max():g} turns f round: 1 − ηλ = {1 - steps.max() * ridge:.3g}. "
                f"Take steps of at most 1/λ = {1 / ridge:.3g}, as InverseTime(1/λ) does."
            )
        curvature = float(self.loss.smoothness)
        if not math.isinf(self.loss.lipschitz) or math.isinf(curvature):
            return
        product = steps * (curvature * sizes + ridge)
        if product.max() >= 2.0:
            worst = int(product.argmax())
            limit = 2.0 / (curvature * sizes[worst] + ridge)
            raise ValueError(
                f"the step {steps[worst]:g} is too long for a loss with unbounded slope: learning "
                f"is stable below {limit:.3g} at this sample. Write a smaller scale."
            )


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

    def __init__(self, kernel: Kernel, points: PointSet, tuning: Tuning) -> None:
        self.kernel, self.tuning = kernel, tuning
        self.points = points.slice(0, 0)
        self.singly = not is_narrow(kernel, points, tuning.narrow)
        self.blocks: list[Recorded] = []

    def learn(self, points: PointSet, targets: np.ndarray, weights: np.ndarray) -> None:
        """Learn samples in their order; all of them, or none where one is refused."""
        Gram(self.kernel, points, self.points)  # refuses points of another kind
        targets = np.array(targets, np.float64, order="C")  # one layout, so one compilation
        diagonal = np.asarray(self._diagonal(points), np.float64)
        self._check(diagonal, weights)
        if len(points) == 1:  # refused before it changes anything
            self._learn_block(points, targets, weights, diagonal)
            return
        before, recorded = dict(vars(self)), len(self.blocks)
        self.state = self._copied_state()
        start = 0
        try:
            while start < len(points):
                part = slice(start, min(len(points), start + self._block_length()))
                samples = points.slice(part.start, part.stop)
                self._learn_block(samples, targets[part], weights[part], diagonal[part])
                start = part.stop
        except BaseException:
            self.__dict__.update(before)
            del self.blocks[recorded:]
            raise

    def _diagonal(self, points: PointSet) -> np.ndarray:
        """k(x, x)."""
        return Gram(self.kernel, points).diagonal()

    def _check(self, diagonal: np.ndarray, weights: np.ndarray) -> None:
        """Refuse samples before anything is learned."""

    def _copied_state(self) -> Any:
        """What a refused sample in the middle of a block may have spoiled."""
        return type(self.state)(*(array.copy() for array in self.state))

    def _block_length(self) -> int:
        """How many samples the next block has."""
        room = self.tuning.block_bytes // (8 * (self.count + self.tuning.block))
        return 1 if self.singly else max(1, min(self.tuning.block, room))

    def _learn_block(
        self, points: PointSet, targets: np.ndarray, weights: np.ndarray, diagonal: np.ndarray
    ) -> None:
        raise NotImplementedError

    def _values(self, points: PointSet) -> np.ndarray:
        """k of the samples with the centres and with each other."""
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
        """The number of centres."""
        return int(self.state.length)

    @property
    def nbytes(self) -> int:
        """What the arrays of the state take; points that are vectors are counted too."""
        rows = getattr(self.points, "rows", None)
        return sum(array.nbytes for array in self.state) + getattr(rows, "nbytes", 0)


class Descent(Stream):
    """Steps along functional gradients. Subclasses say what f is made of."""

    state: State

    def __init__(
        self, kernel: Kernel, algorithm: Algorithm, points: PointSet, tuning: Tuning
    ) -> None:
        super().__init__(kernel, points, tuning)
        self.algorithm = algorithm

    def _begin(self, state: State, size: int, policy: int = FEATURES) -> None:
        self.state = state
        self.rules = self.algorithm.rules(policy, size, self.tuning)
        if self.rules.loss == FOREIGN:
            self.singly = True

    def _check(self, diagonal: np.ndarray, weights: np.ndarray) -> None:
        if self.rules.step == GIVEN:
            self.algorithm.check_steps(self._steps(len(diagonal)), weights * diagonal)

    def _steps(self, n: int) -> np.ndarray:
        given = self.rules.step == GIVEN
        return step_sizes(self.algorithm.step, self.rounds + 1, n) if given else np.zeros(n)

    def _descend(
        self,
        points: PointSet,
        targets: np.ndarray,
        weights: np.ndarray,
        diagonal: np.ndarray,
        values: np.ndarray,
        **parts: Any,
    ) -> None:
        """Learn the samples of a block from kernel values or features."""
        from mercer.online.compiled.loop import learn

        n, steps, shares = len(points), self._steps(len(points)), np.zeros(len(points))
        if self.algorithm.averaging is not None:
            times = range(self.rounds + 1, self.rounds + 1 + n)
            shares = np.array([self.algorithm.averaging.weight(t) for t in times])
        block = block_of(values, diagonal, targets, weights, steps, shares, **parts)
        if self.rules.loss == FOREIGN:  # a block of one: predict, ask, learn
            learn(self.state, block, self.rules)
            block = block._replace(given=self._asked(block))
        if learn(self.state, block, self.rules) < n:
            raise ValueError(
                f"the loss or its slope is not finite at sample {self.rounds + 1} of the stream: "
                "the steps are too long for it. Shorten them; the model is as it was before."
            )
        if self.algorithm.record:
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
        count, reals = self.state.length, self.state.reals
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
        self,
        kernel: Kernel,
        algorithm: Algorithm,
        points: PointSet,
        outputs: int,
        tuning: Tuning = Tuning(),  # noqa: B008
    ) -> None:
        super().__init__(kernel, algorithm, points, tuning)
        self.amplitude, self.scales = _gaussian_scales(kernel, points)
        budget, policy = algorithm.budget, UNBOUNDED
        if budget is not None:
            policy = budget.policy
        if policy == MERGING and not isinstance(points, DensePoints):
            policy = PROJECTION
        elif policy == MERGING and self.scales is None:
            policy = ON_HOST
        # Without a budget, tiles of many rows that use all threads are faster than the loop.
        self.in_loop = self.scales is not None and (policy != UNBOUNDED or self.singly)
        self.singly = not self.in_loop and (policy == ON_HOST or self.singly)
        size = 0 if budget is None else int(budget.size)
        state = empty_state(
            size + 1 if size else tuning.block,
            outputs,
            policy,
            averaged=algorithm.averaging is not None,
            seed=seed_of(algorithm.random_state),
            width=points.width if self.in_loop else 0,  # type: ignore[attr-defined]
            row_width=points.width if policy == MERGING else 0,  # type: ignore[attr-defined]
        )
        self._begin(state, size, policy)

    def _diagonal(self, points: PointSet) -> np.ndarray:
        return np.full(len(points), self.amplitude) if self.in_loop else super()._diagonal(points)

    def _check(self, diagonal: np.ndarray, weights: np.ndarray) -> None:
        if self.rules.policy == FORGETTING and diagonal.max(initial=0.0) > 1.0 + 1e-6:
            raise ValueError(
                f"the Forgetron needs k(x, x) ≤ 1; got {diagonal.max():.3g}. Write "
                "kernel.normalised()."
            )
        super()._check(diagonal, weights)

    def _block_length(self) -> int:
        if self.in_loop and self.rules.policy != UNBOUNDED:
            return self.tuning.gaussian_block
        return super()._block_length()

    def _learn_block(
        self, points: Any, targets: np.ndarray, weights: np.ndarray, diagonal: np.ndarray
    ) -> None:
        policy, values, parts = self.rules.policy, NOTHING, {}
        if policy == UNBOUNDED and self.count + len(points) > len(self.state.a):
            self.state = self.state.enlarged(2 * (self.count + len(points)))
        if policy == ON_HOST:
            self._merge()
        if self.in_loop:
            rows = np.ascontiguousarray(points.rows, np.float64)
            parts["inputs"] = rows * np.asarray(self.scales)
        else:
            values = self._values(points)
        parts["known"] = len(self.points)
        if policy == MERGING:  # the rows of the state are the centres
            parts["rows"] = np.array(points.rows, np.float64, order="C")
            self._descend(points, targets, weights, diagonal, values, **parts)
            return
        self.points = self.points.concatenated(points)
        try:
            self._descend(points, targets, weights, diagonal, values, **parts)
        finally:
            self._keep_centres()
        if policy == ON_HOST:
            self._merge()

    def _merge(self) -> None:
        """Merge two bumps where there is one too many, under a kernel without a closed form."""
        if self.count > self.rules.size:
            assert isinstance(self.points, DensePoints)
            places = self.tuning.merge_places
            points, state = merged(self.kernel, self.points, self.state, places)
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


def is_narrow(kernel: Kernel, points: PointSet, columns: int) -> bool:
    """Whether the value of a pair does not depend on the block it is computed in."""
    expression = kernel.expression()
    if expression is None or type(points) is not DensePoints or points.mapped:
        return False
    return not any(
        number.view.matrix is not None
        or (number.kind in BILINEAR_KINDS and points.width_of(number.view) > columns)
        for number in numbers_of(expression)
    )


def seed_of(random_state: Any) -> int:
    """A whole number from what scikit-learn calls a random state."""
    if random_state is None:
        return int(np.random.default_rng().integers(1 << 62))
    if isinstance(random_state, (np.random.Generator, np.random.RandomState)):
        draw = getattr(random_state, "integers", None) or random_state.randint  # type: ignore[union-attr]
        return int(draw(1 << 31))
    return int(np.random.default_rng(random_state).integers(1 << 62))
