"""Budgets: at most so many bumps, and what happens to the one that is too many.

All are interchangeable. The newest bump stays, unless projection or merging replaces it.

| budget | keeps | work for a sample |
|---|---|---|
| `Oldest` | the newest bumps | size |
| `Smallest` | the largest bumps | size |
| `Random` | a random selection | size |
| `LeastLoss` | the bumps without which the kept samples suffer | size² |
| `Project` | f up to the part that the others cannot express | size² |
| `Merge` | f up to what two bumps in one lose | size |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mercer.checks import check_count
from mercer.online.state import (
    FORGETTING,
    LEAST_LOSS,
    MERGING,
    OLDEST,
    PROJECTION,
    RANDOMLY,
    SMALLEST,
)
from mercer.values import Value


@dataclass(frozen=True)
class Budget(Value):
    """At most `size` bumps."""

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
    """The bump of least norm, |a_i| √k(c_i, c_i), is dropped; not the newest."""

    policy: ClassVar[int] = SMALLEST


@dataclass(frozen=True)
class Random(Budget):
    """A bump drawn at random is dropped, not the newest; the machine's `random_state` decides.

    References
    ----------
    G. Cavallanti, N. Cesa-Bianchi, C. Gentile, Tracking the best hyperplane with a simple budget
    perceptron, 2007.
    """

    policy: ClassVar[int] = RANDOMLY


@dataclass(frozen=True)
class LeastLoss(Budget):
    """The bump without which the kept samples have the least total loss is dropped.

    Σ_j ℓ(y_j, f(c_j) − a_i k(c_i, c_j)) is compared for all i but the newest.

    References
    ----------
    J. Weston, A. Bordes, L. Bottou, Online (and offline) on an even tighter budget, 2005.
    """

    policy: ClassVar[int] = LEAST_LOSS


@dataclass(frozen=True)
class Project(Budget):
    """The bump that the others express best is replaced by its projection onto them.

    Any kernel. The inverse of K + τI is kept up to date, with τ = 10⁻⁷ max k(c, c), and computed
    anew after `size` insertions.

    References
    ----------
    F. Orabona, J. Keshet, B. Caputo, The Projectron: a bounded kernel-based perceptron, 2008.
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
    """

    policy: ClassVar[int] = MERGING


@dataclass(frozen=True)
class Forget(Budget):
    """The whole f is shrunk so far that its oldest bump can be dropped: see `Forgetron`."""

    policy: ClassVar[int] = FORGETTING
