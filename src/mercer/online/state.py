"""The state of an online machine as arrays of fixed size, shared with compiled code.

f = s·(Σ_j a_j r_j + base), where r_j(x) are the kernel values k(x, c_j) with the centres, or the
features of x. The running scale s makes shrinking f one multiplication. The average of the iterates
is Σ_j (a_j C + b_j) r_j / W, where C is the running sum of weight times scale and W that of the
weights, so that averaging costs nothing beyond a new bump.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# ---- places in `State.reals` and `State.integers` ------------------------------------------------

REALS = 9
(
    SCALE,
    AVERAGE_SCALE,
    AVERAGE_WEIGHT,
    SQUARED_NORM,
    GRADIENTS,
    OFFSET,
    SPENT,
    LOSS_SUM,
    BASE_SCALE,
) = range(REALS)
INTEGERS = 6
COUNT, ROUNDS, MISTAKES, INSERTIONS, UPDATES, RANDOM = range(INTEGERS)

# ---- which loss, which step, which budget --------------------------------------------------------

SCALAR, MULTINOMIAL, MAX_MARGIN = range(3)  # compiled from its expression; of a row of scores
FOREIGN = -1  # a loss that is asked from Python

GIVEN, ADAPTIVE, AGGRESSIVE, SOFT_AGGRESSIVE = range(4)

UNBOUNDED, OLDEST, SMALLEST, RANDOMLY, LEAST_LOSS, PROJECTION, MERGING, FORGETTING = range(8)
ON_HOST, FEATURES = 8, 9  # bumps are merged in Python; features instead of bumps
WITH_GRAM = (LEAST_LOSS, PROJECTION, FORGETTING)


class Rules(NamedTuple):
    """The fixed part: the codes of loss, step and budget, and their numbers."""

    loss: int
    loss_address: int  # of its compiled code, where it is SCALAR: it holds in one process only
    loss_numbers: np.ndarray
    share: float  # ν of a loss whose target is the offset ρ, which is learned; 0 for others
    step: int
    step_number: float
    regularization: float
    policy: int
    size: int  # bumps a budget allows; with FEATURES, how many of them a sample changes
    labels: bool  # whether mistakes are counted


class State(NamedTuple):
    """The part that changes: one row for each bump (or feature), and a few numbers."""

    reals: np.ndarray
    integers: np.ndarray
    a: np.ndarray  # (capacity, outputs)
    b: np.ndarray  # (capacity, outputs), of the average; (0, outputs) without one
    targets: np.ndarray  # (capacity, outputs) for LEAST_LOSS
    gram: np.ndarray  # (capacity, capacity) where the budget needs it
    inverse: np.ndarray  # (capacity, capacity) for PROJECTION
    diagonal: np.ndarray  # (capacity,), k(c, c)
    ages: np.ndarray  # (capacity,), the round of the insertion
    columns: np.ndarray  # (capacity,), where a centre stands among the points of the stream
    centres: np.ndarray  # (width, capacity): scaled rows where the loop computes the kernel
    rows: np.ndarray  # (capacity, width): the centres themselves where bumps are merged

    @property
    def length(self) -> int:
        """The number of bumps, or of features."""
        return int(self.integers[COUNT])

    def enlarged(self, capacity: int) -> State:
        """The same without a budget and with room for more bumps; what is empty stays empty."""
        changes = {}
        for name in ("a", "b", "diagonal", "ages", "columns", "centres"):
            array = getattr(self, name)
            shape = (len(array), capacity) if name == "centres" else (capacity, *array.shape[1:])
            if array.size:
                changes[name] = padded(array, shape)
        return self._replace(**changes)


NO_MATRIX = np.empty((0, 0))


class Block(NamedTuple):
    """Samples that are learned one after the other in one call of the loop."""

    values: np.ndarray  # k with the points of the stream and with the samples; or their features
    diagonal: np.ndarray  # k(x, x), or ‖φ(x)‖²
    targets: np.ndarray  # (samples, outputs)
    weights: np.ndarray
    steps: np.ndarray
    averaging: np.ndarray  # weights of the iterates in the average
    losses: np.ndarray  # out: the loss of each prediction, made before learning
    gradients: np.ndarray  # out: ‖g_t‖²
    norms: np.ndarray  # out: ‖f‖² before learning
    scores: np.ndarray  # out: predictions, where the loss has to be asked from Python
    given: np.ndarray = NO_MATRIX  # its values and slopes, side by side, once they are known
    known: int = 0  # how many points the stream had before
    inputs: np.ndarray = NO_MATRIX  # (samples, width): scaled, where the loop computes the kernel
    rows: np.ndarray = NO_MATRIX  # (samples, width) where bumps are merged
    base: np.ndarray = NO_MATRIX  # (samples, outputs): values of a part of f that only shrinks


def block_of(
    values: np.ndarray,
    diagonal: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    steps: np.ndarray,
    averaging: np.ndarray,
    **parts: Any,
) -> Block:
    """A block with room for what the loop reports."""
    losses, gradients, norms = np.zeros((3, len(targets)))
    reported = losses, gradients, norms, np.zeros(targets.shape)
    return Block(values, diagonal, targets, weights, steps, averaging, *reported, **parts)


def empty_state(
    capacity: int,
    outputs: int,
    policy: int,
    averaged: bool,
    seed: int = 0,
    width: int = 0,
    row_width: int = 0,
) -> State:
    """The state of f = 0; what a policy does not need is empty."""
    reals, integers = np.zeros(REALS), np.zeros(INTEGERS, np.int64)
    reals[SCALE] = reals[BASE_SCALE] = 1.0
    integers[RANDOM] = (2 * seed + 1) & 0x7FFF_FFFF_FFFF_FFFF
    if policy == FEATURES:
        integers[COUNT] = capacity
    square = capacity if policy in WITH_GRAM else 0
    inverse = capacity if policy == PROJECTION else 0
    return State(
        reals,
        integers,
        np.zeros((capacity, outputs)),
        np.zeros((capacity if averaged else 0, outputs)),
        np.zeros((capacity if policy == LEAST_LOSS else 0, outputs)),
        np.zeros((square, square)),
        np.zeros((inverse, inverse)),
        np.zeros(capacity),
        np.zeros(capacity, np.int64),
        np.arange(capacity),
        np.zeros((width, capacity if width else 0)),
        np.zeros((capacity if row_width else 0, row_width)),
    )


def padded(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array in the corner of a larger one of zeros."""
    out = np.zeros(shape, array.dtype)
    out[tuple(slice(0, length) for length in array.shape)] = array
    return out
