"""What an online machine keeps between two samples, and what compiled code is told.

Everything that changes is a few arrays of fixed size, so that a step costs the same whether it is
the first or the millionth. f = s·Σ_i a_i k(c_i, ·) with a running scale s, so that shrinking f
costs one multiplication; the average of the iterates is Σ_i (a_i C + b_i) k(c_i, ·) / W, with C
the running sum of weight times scale and W that of the weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# ---- places in the arrays of numbers -------------------------------------------------------------

SCALE, AVERAGE_SCALE, AVERAGE_WEIGHT, SQUARED_NORM, GRADIENTS, OFFSET, SPENT, LOSS_SUM = range(8)
COUNT, ROUNDS, MISTAKES, INSERTIONS, UPDATES, RANDOM = range(6)

# ---- which loss, which step, which policy --------------------------------------------------------

SQUARED, HUBER, TUBE, LOGISTIC, HINGE, SQUARED_HINGE, POISSON, PERCEPTRON, NOVELTY = range(9)
MULTINOMIAL, MAX_MARGIN = 20, 21  # losses of a whole row of scores
FOREIGN = -1  # a loss that is asked from Python

GIVEN, ADAPTIVE, AGGRESSIVE, SOFT_AGGRESSIVE = range(4)
UNBOUNDED, OLDEST, SMALLEST, RANDOMLY, LEAST_LOSS, PROJECTION, MERGING, OUTSIDE, FORGETTING = range(
    9
)
WITH_GRAM = (LEAST_LOSS, PROJECTION, FORGETTING)


class Rules(NamedTuple):
    """What does not change: codes of loss, step and policy, and their numbers."""

    loss: int
    loss_numbers: np.ndarray
    step: int
    step_number: float
    regularization: float
    policy: int
    size: int
    kept_norm: bool  # whether ‖f‖² is followed
    labels: bool  # whether mistakes are counted


class Arrays(NamedTuple):
    """What changes: one row for each centre, and a few numbers."""

    reals: np.ndarray
    integers: np.ndarray
    a: np.ndarray  # (capacity, outputs)
    b: np.ndarray  # (capacity, outputs), of the average; (0, outputs) without one
    targets: np.ndarray  # (capacity, outputs) for LEAST_LOSS
    gram: np.ndarray  # (capacity, capacity) where the policy needs it
    inverse: np.ndarray  # (capacity, capacity) for PROJECTION
    diagonal: np.ndarray  # (capacity,), k(c, c)
    ages: np.ndarray  # (capacity,), the round of the insertion
    columns: np.ndarray  # (capacity,), where a centre stands among the points of a block
    centres: np.ndarray  # (width, capacity): rows seen by a Gaussian kernel, else (0, 0)
    rows: np.ndarray  # (capacity, columns): the points themselves where bumps are merged

    @property
    def held(self) -> int:
        """The number of bumps."""
        return int(self.integers[COUNT])

    def widened(self, capacity: int) -> Arrays:
        """The same with room for more centres."""
        changes = {}
        for name in ("a", "b", "targets", "diagonal", "ages", "columns", "rows"):
            array = getattr(self, name)
            if len(array):
                changes[name] = padded(array, (capacity, *array.shape[1:]))
        for name in ("gram", "inverse"):
            if len(getattr(self, name)):
                changes[name] = padded(getattr(self, name), (capacity, capacity))
        if len(self.centres):
            changes["centres"] = padded(self.centres, (len(self.centres), capacity))
        return self._replace(**changes)


class Block(NamedTuple):
    """Samples that are learned one after the other in one call."""

    values: np.ndarray  # k of each sample with old centres and with the samples themselves
    diagonal: np.ndarray  # k(x, x)
    seen: np.ndarray  # (samples, width) for a Gaussian kernel, else (0, 0)
    rows: np.ndarray  # (samples, columns) where bumps are merged
    targets: np.ndarray  # (samples, outputs)
    weights: np.ndarray
    steps: np.ndarray
    averaging: np.ndarray  # weights of the iterates in the average
    losses: np.ndarray  # out: the loss of each prediction, made before learning
    gradients: np.ndarray  # out: ‖g_t‖²
    norms: np.ndarray  # out: ‖f‖² before learning
    scores: np.ndarray  # out: predictions, where the loss has to be asked from Python
    given: np.ndarray  # its values and slopes, side by side, once they are known


def block_of(
    values: np.ndarray,
    diagonal: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    steps: np.ndarray,
    averaging: np.ndarray,
    seen: np.ndarray | None = None,
    rows: np.ndarray | None = None,
) -> Block:
    """A block with room for what is met; what is not needed is empty."""
    empty, n = np.empty((0, 0)), len(targets)
    return Block(
        values,
        diagonal,
        empty if seen is None else seen,
        empty if rows is None else rows,
        targets,
        weights,
        steps,
        averaging,
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(targets.shape),
        empty,
    )


def empty_arrays(
    capacity: int, outputs: int, policy: int, averaged: bool, width: int, columns: int, seed: int
) -> Arrays:
    """The state of f = 0."""
    reals = np.zeros(8)
    reals[SCALE] = 1.0
    integers = np.zeros(6, np.int64)
    integers[RANDOM] = (2 * seed + 1) & 0x7FFF_FFFF_FFFF_FFFF
    square = capacity if policy in WITH_GRAM else 0
    inverse = capacity if policy == PROJECTION else 0
    return Arrays(
        reals,
        integers,
        np.zeros((capacity, outputs)),
        np.zeros((capacity if averaged else 0, outputs)),
        np.zeros((capacity if policy == LEAST_LOSS else 0, outputs)),
        np.zeros((square, square)),
        np.zeros((inverse, inverse)),
        np.zeros(capacity),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros((width, capacity if width else 0)),
        np.zeros((capacity if columns else 0, columns)),
    )


def padded(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array in the corner of a larger one of zeros."""
    out = np.zeros(shape, array.dtype)
    out[tuple(slice(0, length) for length in array.shape)] = array
    return out
