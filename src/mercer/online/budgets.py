"""Budgets: at most so many bumps, and what happens when there is one too many.

All are interchangeable. The newest bump stays, unless projection or merging replaces it. Each
sample costs time proportional to `size`, or to its square for `LeastLoss` and `Project`.

- `Oldest` drops the oldest bump, `Smallest` the one of least norm, `Random` any.
- `LeastLoss` drops the bump that the others need least.
- `Project` replaces a bump by its projection onto the others.
- `Merge` replaces two bumps by one between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mercer.checks import check_count
from mercer.kernels.base import Kernel
from mercer.online.state import (
    COUNT,
    FORGETTING,
    LEAST_LOSS,
    MERGING,
    OLDEST,
    PROJECTION,
    RANDOMLY,
    SMALLEST,
    State,
)
from mercer.operators import Gram
from mercer.points import DensePoints
from mercer.values import Value

__all__ = [
    "Budget",
    "Forget",
    "LeastLoss",
    "Merge",
    "Oldest",
    "Project",
    "Random",
    "Smallest",
]


@dataclass(frozen=True)
class Budget(Value):
    """At most `size` bumps.

    >>> isinstance(Oldest(100), Budget), Oldest(100).size
    (True, 100)
    """

    size: int
    policy: ClassVar[int]

    def __post_init__(self) -> None:
        check_count(self, "size", self.size)


@dataclass(frozen=True)
class Oldest(Budget):
    """The oldest bump is dropped: a sliding window over the samples that taught something.

    >>> Oldest(100).with_(size=50)
    Oldest(size=50)
    """

    policy: ClassVar[int] = OLDEST


@dataclass(frozen=True)
class Smallest(Budget):
    """The bump of least norm, |a_i| √k(c_i, c_i), is dropped; not the newest.

    >>> Smallest(100)  # as in OnlineKernelMachine(budget=…)
    Smallest(size=100)
    """

    policy: ClassVar[int] = SMALLEST


@dataclass(frozen=True)
class Random(Budget):
    """A bump drawn at random is dropped, not the newest; the machine's `random_state` decides.

    References
    ----------
    G. Cavallanti, N. Cesa-Bianchi, C. Gentile, Tracking the best hyperplane with a simple budget
    perceptron, 2007.

    Examples
    --------
    >>> Random(100)  # as in OnlineKernelMachine(budget=…)
    Random(size=100)
    """

    policy: ClassVar[int] = RANDOMLY


@dataclass(frozen=True)
class LeastLoss(Budget):
    """The bump without which the samples of all bumps have the least total loss is dropped.

    Σ_j ℓ(y_j, f(c_j) − a_i k(c_i, c_j)) is compared for all i but the newest.

    References
    ----------
    J. Weston, A. Bordes, L. Bottou, Online (and offline) on an even tighter budget, 2005.

    Examples
    --------
    >>> LeastLoss(100)  # as in OnlineKernelMachine(budget=…)
    LeastLoss(size=100)
    """

    policy: ClassVar[int] = LEAST_LOSS


@dataclass(frozen=True)
class Project(Budget):
    """The bump that the others express best is replaced by its projection onto them.

    Any kernel. The inverse of K + τI is updated with each bump, with τ = 10⁻⁷ max k(c, c), and
    computed anew after `size` insertions.

    References
    ----------
    F. Orabona, J. Keshet, B. Caputo, The Projectron: a bounded kernel-based perceptron, 2008.

    Examples
    --------
    >>> Project(100)  # as in OnlineKernelMachine(budget=…)
    Project(size=100)
    """

    policy: ClassVar[int] = PROJECTION


@dataclass(frozen=True)
class Merge(Budget):
    """The smallest bump and the partner for which that changes f least become one between them.

    For dense vectors; compiled for Gaussian kernels, slower for others. Points that cannot be
    mixed, and sparse ones, are projected instead (`Project`).

    References
    ----------
    Z. Wang, K. Crammer, S. Vucetic, Breaking the curse of kernelization: budgeted stochastic
    gradient descent for large-scale SVM training, 2012.

    Examples
    --------
    >>> Merge(100)  # as in OnlineKernelMachine(budget=…)
    Merge(size=100)
    """

    policy: ClassVar[int] = MERGING


@dataclass(frozen=True)
class Forget(Budget):
    """The whole f is shrunk so far that its oldest bump can be dropped: see `Forgetron`.

    >>> Forget(100).size
    100
    """

    policy: ClassVar[int] = FORGETTING


def merged(
    kernel: Kernel, points: DensePoints, state: State, places: int
) -> tuple[DensePoints, State]:
    """One bump less under a kernel without a closed form: the best of some places between two.

    The smallest bump i is merged with every partner j at every place z = h c_i + (1 − h) c_j, and
    the pair that loses least of ‖f‖² is taken: a bump at z has the coefficient
    (a_i k(c_i, z) + a_j k(c_j, z))/k(z, z), and keeps ‖a_z‖² k(z, z). A bump whose norm is 0 is the
    zero function, and is dropped.
    """
    state, count = State(*(array.copy() for array in state)), state.length
    a, diagonal, rows = state.a[:count], state.diagonal[:count], points.rows.astype(np.float64)
    norms = (a**2).sum(axis=1) * diagonal
    i = int(np.argmin(norms))
    if norms[i] > 0:
        others = np.delete(np.arange(count), i)
        h = np.linspace(0.0, 1.0, places)[:, None, None]
        z = h * rows[i] + (1.0 - h) * rows[others]
        shape = places, len(others)
        between = DensePoints(z.reshape(-1, rows.shape[1]))
        sizes = np.asarray(Gram(kernel, between).diagonal(), np.float64).reshape(shape)
        values = Gram(kernel, between, DensePoints(rows)).dense().reshape(*shape, count)
        own = values[:, :, i]
        theirs = np.take_along_axis(values, others[None, :, None], axis=2)[:, :, 0]
        sums = own[:, :, None] * a[i] + theirs[:, :, None] * a[others]
        gained = np.full(shape, -np.inf)
        np.divide((sums**2).sum(axis=2), sizes, out=gained, where=sizes > 0)
        cross = Gram(kernel, points.take([i]), points.take(others)).dense()[0]
        pairs = norms[others] + 2 * cross * (a[others] @ a[i])
        place, partner = np.unravel_index(np.argmin(pairs - gained), shape)
        j, size = others[partner], sizes[place, partner]
        state.a[j] = sums[place, partner] / size
        if len(state.b):
            state.b[j] = (
                own[place, partner] * state.b[i] + theirs[place, partner] * state.b[j]
            ) / size
        state.diagonal[j] = size
        state.ages[j] = max(state.ages[i], state.ages[j])
        rows[j] = z[place, partner]
    last = count - 1
    for array in (rows, state.a, state.b, state.diagonal, state.ages):
        if len(array):
            array[i] = array[last]
    state.integers[COUNT] = last
    state.columns[:] = np.arange(len(state.columns))
    return DensePoints(rows[:last].astype(points.rows.dtype), points.names), state
