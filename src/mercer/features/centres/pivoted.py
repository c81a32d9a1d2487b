"""Centres by partial Cholesky factorisation: randomly pivoted, and greedy.

Both work in blocks. Between blocks the residual diagonal d is an upper bound of what it is now,
since residuals only fall; so candidates drawn by the old d and kept with probability new/old have
exactly the law of the sequential method, and a candidate whose residual is still at least the
largest old one elsewhere is exactly the next greedy pivot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, beside, on_host, to_precision
from mercer.checks import check_count
from mercer.features.centres.choice import Centres, Choice, chosen, cross_block, over_blocks
from mercer.kernels.base import Kernel
from mercer.kernels.measures import Seed, generator
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.runtime.budget import Memory, memory_budget
from mercer.runtime.threads import spans

CANDIDATES = (32, 512)  # fewest and most that are looked at together
TENSOR_ROWS = 1 << 16  # that are computed together
NOISE = 32  # rounding units that computed residuals may be off by
FACTOR_BYTES = 4 << 30  # of the factor, where no budget is given: free memory must not decide
Accept = Callable[["Minor"], None]


class PartialFactor:
    """F, n × rank so far, with F Fᵀ the approximation of K from the pivots, and what is left."""

    def __init__(self, kernel: Kernel, x: PointSet, count: int, dtype: Any = None) -> None:
        self.kernel, self.x = kernel, x
        self.dtype = np.dtype(x.dtype if dtype is None else dtype)
        self.residual = on_host(Gram(kernel, x).diagonal()).astype(np.float64)
        self.trace = float(self.residual.sum())
        self.columns = self._empty((len(x), min(count, len(x))))
        self.pivots: list[int] = []
        unit = float(np.finfo(self.dtype).eps) * float(self.residual.max(initial=0.0))
        self.negligible = len(x) * unit
        self.noise = NOISE * unit  # a pivot with less would make a column of rounding errors

    @property
    def rank(self) -> int:
        return len(self.pivots)

    @property
    def missing(self) -> int:
        return self.columns.shape[1] - self.rank

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left but rounding."""
        return float(self.residual.sum()) <= self.negligible

    def _empty(self, shape: tuple[int, int]) -> Array:
        return np.empty(shape, self.dtype)

    def minor(self, candidates: np.ndarray) -> Minor:
        """The residual matrix of some points, in float64."""
        rows = on_host(self.columns[candidates, : self.rank]).astype(np.float64)
        matrix = on_host(Gram(self.kernel, self.x.take(candidates)).dense()).astype(np.float64)
        return Minor(matrix - rows @ rows.T, candidates)

    def grow(self, minor: Minor) -> None:
        """Add the pivots that were accepted, with their columns of F."""
        pivots, lower = minor.accepted[: self.missing], minor.lower
        lower = np.ascontiguousarray(lower[: len(pivots), : len(pivots)])
        numbers = minor.candidates[pivots]
        inverse = linalg.triangular_solve(lower, np.eye(len(pivots))).astype(self.dtype)
        fresh = slice(self.rank, self.rank + len(pivots))
        self._fill(fresh, numbers, inverse)
        self.columns[numbers, fresh] = beside(lower.astype(self.dtype), self.columns)
        np.maximum(self.residual, 0.0, out=self.residual)
        self.pivots += numbers.tolist()
        self.residual[self.pivots] = 0.0

    def _fill(self, fresh: slice, numbers: np.ndarray, inverse: np.ndarray) -> None:
        """(K − FFᵀ) of the pivots, times the inverse of their factor, as columns of F."""
        known, centres = slice(0, fresh.start), self.x.take(numbers)
        rows = self.columns[numbers, known]

        def fill(span: tuple[int, int]) -> None:
            part = slice(*span)
            block = cross_block(self.kernel, self.x, span, centres, self.dtype)
            block -= self.columns[part, known] @ rows.T
            columns = self.columns[part, fresh]
            np.matmul(block, inverse.T, out=columns)
            self.residual[part] -= np.einsum("ij,ij->i", columns, columns, dtype=np.float64)

        over_blocks(self.kernel, len(self.x), fill)


class TensorFactor(PartialFactor):
    """The same of points that are tensors: columns and the products that make them stay there."""

    def _empty(self, shape: tuple[int, int]) -> Array:
        free, needed = self.x.free_memory(), math.prod(shape) * self.dtype.itemsize
        if needed > free:
            raise MemoryError(
                f"{shape[1]} columns of {shape[0]} points take {needed / 2**30:.1f} GB, more than "
                f"is free on the device ({free / 2**30:.1f} GB): ask for a smaller rank."
            )
        like = Gram(self.kernel, self.x.slice(0, 1)).diagonal()
        return to_precision(like, self.dtype).new_empty(shape)

    def _fill(self, fresh: slice, numbers: np.ndarray, inverse: np.ndarray) -> None:
        known, centres = slice(0, fresh.start), self.x.take(numbers)
        rows, final = self.columns[numbers, known], beside(inverse, self.columns)
        for span in spans(len(self.x), TENSOR_ROWS):
            part = slice(*span)
            block = cross_block(self.kernel, self.x, span, centres, self.dtype)
            columns = (block - self.columns[part, known] @ rows.T) @ final.T
            self.columns[part, fresh] = columns
            self.residual[part] -= on_host(to_precision(columns, np.float64).square().sum(1))


class Minor:
    """The residual matrix of a few candidates, factored pivot by pivot as they are accepted."""

    def __init__(self, matrix: np.ndarray, candidates: np.ndarray) -> None:
        self.matrix, self.candidates = matrix, candidates
        self.left = np.maximum(matrix.diagonal(), 0.0)  # what is left of the diagonal
        self.before = self.left.copy()
        self.columns = np.zeros((len(matrix), len(matrix)))
        self.accepted: list[int] = []

    @property
    def lower(self) -> np.ndarray:
        """The Cholesky factor of the accepted pivots."""
        return np.tril(self.columns[self.accepted, : len(self.accepted)])

    def accept(self, i: int) -> None:
        """Make candidate i a pivot."""
        rank = len(self.accepted)
        known = self.columns[:, :rank]
        column = (self.matrix[:, i] - known @ known[i]) / math.sqrt(self.left[i])
        column[self.accepted] = 0.0
        column[i] = math.sqrt(self.left[i])
        self.columns[:, rank] = column
        self.left = np.maximum(self.left - column**2, 0.0)
        self.left[i] = 0.0
        self.accepted.append(i)


def candidate_count(count: int) -> int:
    """How many candidates a block looks at."""
    smallest, largest = CANDIDATES
    return min(max(count // 8, smallest), largest)


@dataclass(frozen=True)
class _Pivoted(Choice):
    """What pivoted methods share: blocks of pivots until there are enough, a pool if need be."""

    def _factor(
        self, kernel: Kernel, x: PointSet, memory: Memory, pool: int | None, seed: Seed
    ) -> Centres:
        random = generator(seed)
        rows = self._pool_size(x, memory, pool)
        drawn = None if rows >= len(x) else np.sort(random.choice(len(x), rows, replace=False))
        factor = PartialFactor(kernel, x if drawn is None else x.take(drawn), self.count)
        for _ in self._grown(factor, random):
            pass
        if not factor.rank:
            raise ValueError("the kernel is 0 at all points: there is nothing to approximate.")
        columns = factor.columns[:, : factor.rank]
        if drawn is None:
            return chosen(kernel, x, factor.pivots, factor=columns)
        return chosen(kernel, x, drawn[factor.pivots])

    def _grown(self, factor: PartialFactor, random: np.random.Generator) -> Iterator[PartialFactor]:
        while factor.missing and not factor.exhausted:
            minor = self._block(factor, random)
            if not minor.accepted:
                return
            factor.grow(minor)
            yield factor

    def _pool_size(self, x: PointSet, memory: Memory, pool: int | None) -> int:
        if pool is not None:
            return max(int(pool), self.count)
        budget = FACTOR_BYTES if memory is None else memory_budget(memory)
        fitting = budget // (self.count * x.dtype.itemsize)
        return max(min(len(x), fitting), self.count)

    def _block(self, factor: PartialFactor, random: np.random.Generator) -> Minor:
        raise NotImplementedError


@dataclass(frozen=True)
class RandomlyPivoted(_Pivoted):
    """Randomly pivoted Cholesky: the next centre is x_i with probability ∝ the residual d_i.

    d_i = k(x_i, x_i) − k̂(x_i, x_i) with the centres so far. The expected trace error is near that
    of the best approximation of the rank. Blocks with rejection give the law of one at a time.

    Parameters
    ----------
    count : int
        At most so many centres; fewer where they already give K up to rounding.
    random_state : int, Generator, RandomState or None
    pool : int, optional
        Choose among so many random points only. The factor takes pool · count numbers; by default
        all points are looked at, or as many as the memory budget admits.
    memory : int or str, optional
        That budget, as in "2GB"; 4 GB by default.

    References
    ----------
    Chen, Epperly, Tropp and Webber, Randomly pivoted Cholesky, 2022; Epperly, Tropp and Webber,
    Embrace rejection, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> X = np.linspace(0.0, 1.0, 100)[:, None]
    >>> centres = RandomlyPivoted(12, random_state=0).choose(Gaussian(0.3), X)
    >>> approximation = centres.factor @ centres.factor.T
    >>> bool(np.allclose(approximation, Gaussian(0.3)(X), atol=1e-3))
    True
    """

    random_state: Seed = None
    pool: int | None = None
    memory: Memory = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pool is not None:
            check_count(self, "pool", self.pool)

    def _choose(self, kernel: Kernel, x: PointSet) -> Centres:
        return self._factor(kernel, x, self.memory, self.pool, self.random_state)

    def growing(self, kernel: Kernel, x: PointSet, dtype: Any = None) -> Iterator[PartialFactor]:
        """The factor on all points after each block of pivots, for whoever decides when to stop.

        It is one object that grows, stored in `dtype`, the precision of the points by default.
        """
        kind = TensorFactor if Gram(kernel, x).on_tensors else PartialFactor
        factor = kind(kernel, x, self.count, dtype)
        yield from self._grown(factor, generator(self.random_state))

    def _block(self, factor: PartialFactor, random: np.random.Generator) -> Minor:
        draws = candidate_count(factor.columns.shape[1])
        shares = factor.residual / factor.residual.sum()
        minor = factor.minor(random.choice(len(shares), draws, p=shares))
        for i, chance in enumerate(random.random(draws)):
            if max(chance * minor.before[i], factor.noise) < minor.left[i]:
                minor.accept(i)
        return minor


@dataclass(frozen=True)
class Greedy(_Pivoted):
    """Pivoted Cholesky: the next centre is the point with the largest residual.

    Parameters
    ----------
    count : int
        At most so many centres; fewer where they already give K up to rounding.
    slack : float, default=0.0
        Accept points whose residual is at least (1 − slack) times the largest; with some slack
        blocks are larger and the choice is faster.
    pool, memory :
        As in `RandomlyPivoted`; the random points are those of `random_state`.

    References
    ----------
    Fine and Scheinberg, Efficient SVM training using low-rank kernel representations, 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> X = np.array([[1.0, 0.0], [0.0, 3.0], [2.0, 0.0], [1.0, 1.0]])
    >>> Greedy(4).choose(Linear(), X).indices.tolist()  # two suffice: the rank is two
    [1, 2]
    """

    slack: float = 0.0
    random_state: Seed = None
    pool: int | None = None
    memory: Memory = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.slack < 1:
            raise ValueError(f"slack must lie between 0 and 1, 1 excluded; got {self.slack!r}.")

    def _choose(self, kernel: Kernel, x: PointSet) -> Centres:
        return self._factor(kernel, x, self.memory, self.pool, self.random_state)

    def _block(self, factor: PartialFactor, random: np.random.Generator) -> Minor:
        residual = factor.residual
        draws = min(candidate_count(factor.columns.shape[1]), len(residual))
        order = np.argsort(-residual, kind="stable")  # of equal residuals the first comes first
        candidates = order[:draws]
        elsewhere = residual[order[draws]] if draws < len(residual) else 0.0
        minor = factor.minor(candidates)
        first = True
        while minor.left.max() > factor.negligible / len(residual):
            best = int(np.argmax(minor.left))
            if not first and minor.left[best] < (1.0 - self.slack) * elsewhere:
                break
            minor.accept(best)
            first = False
        return minor
