"""What a choice of centres gives: the centres, and how much of the Gram matrix they capture."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mercer import linalg
from mercer.checks import check_count
from mercer.kernels.base import Kernel
from mercer.kernels.measures import Seed, generator
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.runtime.threads import run, single_threaded_blas, spans, thread_count
from mercer.values import Value

ROWS = 2048  # of a block: it depends on nothing, so that results do not depend on threads


@dataclass(frozen=True, eq=False)
class Centres:
    """Some points that stand for all: K is approximated by K̂ = K_XS K_SS⁻¹ K_SX.

    Attributes
    ----------
    kernel : Kernel
    points : PointSet
        The centres S, in the order in which they were chosen.
    indices : array or None
        Their row numbers among all points; None where they were given as points.
    source : PointSet
        All points X.
    factor : array of shape (n, centres) or None
        F with F Fᵀ = K̂, whose rows at the centres are the Cholesky factor of K_SS, where the
        method made one: pivoted methods do.
    scores : array or None
        The ridge leverage scores of all points, where the method estimated them.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.features.centres import Uniform
    >>> from mercer.kernels import Gaussian
    >>> X = np.linspace(0.0, 1.0, 50)[:, None]
    >>> centres = Uniform(8, random_state=0).choose(Gaussian(0.3), X)
    >>> len(centres), bool(0 <= centres.trace_error < 0.1)
    (8, True)
    """

    kernel: Kernel
    points: PointSet
    indices: np.ndarray | None
    source: PointSet = field(repr=False)
    factor: np.ndarray | None = field(default=None, repr=False)
    scores: np.ndarray | None = field(default=None, repr=False)

    def __len__(self) -> int:
        """The number of centres."""
        return len(self.points)

    @cached_property
    def cholesky(self) -> linalg.Factor:
        """The Cholesky factor of K_SS in float64, with the smallest jitter that works."""
        matrix = Gram(self.kernel, self.points).astype(np.float64).dense()
        return linalg.cholesky(matrix, overwrite=True)

    @cached_property
    def trace_error(self) -> float:
        """trace(K − K̂)/trace(K), from 0 (nothing is lost) to 1, over all points.

        Known at once where there is a `factor`; otherwise computed when it is first asked for, in
        n·m kernel values and n·m² operations for m centres. `estimated_trace_error` takes some of
        the points.
        """
        own = Gram(self.kernel, self.source).diagonal().astype(np.float64)
        if self.factor is not None:
            captured = np.einsum("ij,ij->i", self.factor, self.factor, dtype=np.float64)
            rest = np.maximum(own - captured, 0.0)
        else:
            rest = self.residuals(self.source)
        return float(rest.sum() / own.sum())

    def estimated_trace_error(
        self, rows: int = 2000, random_state: Seed = None
    ) -> tuple[float, float]:
        """The trace error from so many random points, and the standard error of that estimate."""
        if rows >= len(self.source):
            return self.trace_error, 0.0
        chosen = np.sort(generator(random_state).choice(len(self.source), rows, replace=False))
        sample = self.source.take(chosen)
        own = float(Gram(self.kernel, self.source).diagonal().astype(np.float64).mean())
        rest = self.residuals(sample)
        return float(rest.mean() / own), float(rest.std(ddof=1) / np.sqrt(rows) / own)

    def residuals(self, points: Any) -> np.ndarray:
        """k(x, x) − k̂(x, x) ≥ 0: the squared distance of k(x, ·) from the span of the centres."""
        x = self.kernel.points(points)
        rest = Gram(self.kernel, x).diagonal().astype(np.float64)
        lower = self.cholesky.lower

        def subtract(span: tuple[int, int]) -> None:
            part = Gram(self.kernel, x.slice(*span), self.points).astype(np.float64)
            half = linalg.triangular_solve(lower, part.dense().T)
            rest[slice(*span)] -= np.einsum("ij,ij->j", half, half)

        over_blocks(self.kernel, len(x), subtract)
        return np.maximum(rest, 0.0)


@dataclass(frozen=True)
class Choice(Value):
    """A way to choose centres: `choose(kernel, points)`."""

    count: int

    def __post_init__(self) -> None:
        check_count(self, "count", self.count)

    def choose(self, kernel: Kernel, points: Any) -> Centres:
        """Centres among the points, which are what the kernel takes: arrays, lists, a PointSet."""
        x = kernel.points(points)
        if not len(x):
            raise ValueError("centres are chosen among points; there are none.")
        return self._choose(kernel, x)

    def _choose(self, kernel: Kernel, x: PointSet) -> Centres:
        raise NotImplementedError


def chosen(kernel: Kernel, x: PointSet, indices: Any, **more: Any) -> Centres:
    """The centres with the given row numbers."""
    indices = np.asarray(indices, np.intp)
    return Centres(kernel, x.take(indices), indices, x, **more)


def over_blocks(kernel: Kernel, rows: int, work: Any) -> None:
    """Call `work` on (start, stop) of every block of rows, in threads, BLAS held to one."""
    threads = thread_count() if kernel.parallel else 1
    with single_threaded_blas():
        run(work, spans(rows, ROWS), threads)


def cross_block(
    kernel: Kernel, x: PointSet, span: tuple[int, int], centres: PointSet, dtype: Any = None
) -> np.ndarray:
    """K between some of the points and the centres, in their precision or another."""
    gram = Gram(kernel, x.slice(*span), centres)
    return (gram if dtype is None else gram.astype(dtype)).dense()
