"""Kernels on sets, weighted sets, and bags of vectors."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import scipy.sparse

from mercer.checks import check_positive, is_number
from mercer.kernels.base import Kernel, checked
from mercer.kernels.facts import UNIT_DIAGONAL, Facts, unknown, yes
from mercer.kernels.radial import Gaussian
from mercer.points import check_finite
from mercer.structured.base import (
    Coder,
    RowPoints,
    StructuredKernel,
    StructuredPoints,
    as_items,
    bad_item,
    coded,
    offsets,
)
from mercer.structured.sparse import FeatureRows, MinimumKernel, SparseKernel


@dataclass(frozen=True, eq=False)
class SetPoints(StructuredPoints):
    """Sets of symbols, or symbols with weights: codes and weights one set after the other.

    Python's sets are read, dictionaries from symbols to weights ≥ 0, and the rows of a sparse
    matrix, whose columns are the symbols.
    """

    parts = ("codes", "weights")
    codes: np.ndarray
    weights: np.ndarray

    @classmethod
    def read(cls, data: Any) -> Self:
        if scipy.sparse.issparse(data):
            return cls._of_rows(data.tocsr())
        coder = Coder()
        sets = [_symbols(i, item) for i, item in enumerate(as_items(data, "sets"))]
        codes = [code for i, pairs in enumerate(sets) for code in coded(i, pairs, coder)]
        weights = [weight for pairs in sets for weight in pairs.values()]
        starts = offsets([len(pairs) for pairs in sets])
        arrays = np.array(codes, np.int64), np.array(weights, np.float64)
        return cls(np.arange(len(sets)), starts, *arrays, tokens=coder.tokens)

    @classmethod
    def _of_rows(cls, rows: Any) -> Self:
        check_finite(rows.data)
        if rows.nnz and rows.data.min() < 0:
            raise ValueError("the weights of a set are ≥ 0; the matrix holds negative ones.")
        rows = scipy.sparse.csr_array(rows, dtype=np.float64, copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        starts, codes = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
        return cls(np.arange(rows.shape[0]), starts, codes, rows.data)

    @staticmethod
    def is_object(x: Any) -> bool:
        return isinstance(x, (Set, Mapping))

    def restored(self, i: int) -> Any:
        span = slice(self.starts[i], self.starts[i + 1])
        symbols, weights = self.symbols_of(self.codes[span]), self.weights[span]
        if (weights == 1.0).all():
            return frozenset(symbols)
        return dict(zip(symbols, weights.tolist(), strict=True))


def _symbols(i: int, item: Any) -> dict[Any, float]:
    """The symbols of item i with their weights; those of weight 0 are left out."""
    if isinstance(item, Set):
        return dict.fromkeys(item, 1.0)
    if not isinstance(item, Mapping):
        raise bad_item(
            i,
            f"is a {type(item).__name__}; a set is a Python set, or a dictionary from symbols to "
            "weights. Write set(item), or collections.Counter(item) to count repetitions",
        )
    for symbol, weight in item.items():
        if not (is_number(weight) and weight >= 0):
            raise bad_item(i, f"gives {symbol!r} the weight {weight!r}; weights are finite and ≥ 0")
    return {symbol: float(weight) for symbol, weight in item.items() if weight}


class _SetKernel(SparseKernel):
    """Kernels that compare what two sets have in common."""

    kind = SetPoints

    def feature_rows(self, points: SetPoints) -> FeatureRows:
        return FeatureRows.counted(points.starts, points.codes.view(np.uint64), points.weights)


@dataclass(frozen=True, eq=False, repr=False)
class Intersection(_SetKernel, MinimumKernel):
    """The size of the intersection of two sets, |A ∩ B|, and Σ_u min(a_u, b_u) for weights a and b.

    `Intersection().normalised()` is the cosine of sets, |A ∩ B|/√(|A| |B|).

    References
    ----------
    Shawe-Taylor, Cristianini, Kernel Methods for Pattern Analysis, 2004, section 9.5.

    Examples
    --------
    >>> Intersection()({"a", "b", "c"}, {"b", "c", "d", "e"})
    2.0
    >>> Intersection()({"a": 2.0, "b": 0.5}, {"a": 1.0, "b": 3.0})
    1.5
    """

    positive_definite = "Σ min(a, b) is the inner product of the indicators of [0, a] and [0, b]"


@dataclass(frozen=True, eq=False, repr=False)
class Jaccard(_SetKernel):
    """The share of two sets that they have in common: |A ∩ B|/|A ∪ B|.

    For weights a and b it is Σ min(a_u, b_u)/Σ max(a_u, b_u). Two empty sets have the value 1, an
    empty and another set 0. `mercer.features.MinHash` approximates it for millions of sets.

    References
    ----------
    Gower, A general coefficient of similarity and some of its properties, 1971.
    Ioffe, Improved consistent sampling, weighted minhash and L1 sketching, 2010.

    Examples
    --------
    >>> k, A, B = Jaccard(), {1, 2, 3}, {2, 3, 4, 5}
    >>> k(A, B) == len(A & B) / len(A | B)
    True
    """

    minima = True

    def facts(self, dimension: int | None = None) -> Facts:
        chance = "it is the probability that a random hash has the same minimum on both sets"
        return Facts(self, dimension, positive_definite=yes(chance), **UNIT_DIAGONAL)

    def block(self, x: Any, y: Any) -> np.ndarray:
        shared = super().block(x, y)
        rows, columns = (self._rows(side).totals[side.chosen] for side in (x, y))
        union = rows[:, None] + columns - shared
        return np.divide(shared, union, out=np.ones_like(shared), where=union > 0)

    def diagonal(self, x: Any) -> np.ndarray:
        return np.ones(len(x))

    def explicit_rows(self, points: Any) -> FeatureRows:
        raise ValueError(
            "Jaccard has no finite list of features; mercer.features.MinHash approximates them."
        )


def check_inner(owner: Any, name: str, kernel: Any) -> None:
    """Refuse what is no kernel inside one."""
    if not isinstance(kernel, Kernel):
        raise ValueError(f"{type(owner).__name__} needs a kernel on vectors; got {kernel!r}.")


# ---- bags of vectors -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BagPoints(RowPoints):
    """Bags of vectors."""

    called = "bags of vectors"
    problem = (
        "is no bag of vectors: write an array with a row for each vector, item.reshape(-1, 1) for "
        "numbers, item[None] for one vector"
    )

    @staticmethod
    def is_object(x: Any) -> bool:
        return isinstance(x, np.ndarray) and x.ndim == 2


@dataclass(frozen=True, eq=False, repr=False)
class MeanMap(StructuredKernel):
    """The inner product of mean maps of bags, (1/|A||B|) Σ_{a∈A, b∈B} k(a, b).

    The mean map of a bag is the function (1/|A|) Σ_{a∈A} k(a, ·); that of an empty bag is 0.

    Parameters
    ----------
    kernel : Kernel, default=Gaussian()
        k, on vectors.

    References
    ----------
    Gärtner, Flach, Kowalczyk, Smola, Multi-instance kernels, 2002.
    Smola, Gretton, Song, Schölkopf, A Hilbert space embedding for distributions, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian, Linear
    >>> A, B = np.array([[0.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
    >>> bool(MeanMap(Linear())(A, B) == A.mean() * B.mean())
    True
    >>> bool(np.isclose(MeanMap(Gaussian())(A, B), Gaussian()(A, B).mean()))
    True
    """

    kernel: Kernel = field(default_factory=Gaussian)
    kind = BagPoints
    checks = checked(kernel=check_inner)

    def facts(self, dimension: int | None = None) -> Facts:
        inner = self.kernel.facts().positive_definite
        answer = (
            yes("it is the inner product of mean functions")
            if inner.yes
            else unknown(f"the kernel inside is not known to be one: {inner.because}")
        )
        return Facts(self, dimension, positive_definite=answer)

    def check_points(self, points: Any) -> None:
        self.kernel.check_points(self._vectors(points))

    def block(self, x: Any, y: Any) -> np.ndarray:
        x, y = x.compact(), y.compact()
        if not len(x.vectors) or not len(y.vectors):
            return np.zeros((len(x), len(y)))  # empty bags, which fit to any number of columns
        values = self.kernel.block(self._vectors(x), self._vectors(y))
        return segment_means(segment_means(values, x.starts).T, y.starts).T

    def _vectors(self, points: BagPoints) -> Any:
        return self.kernel.points(points.vectors)


def segment_means(rows: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The mean of the rows of each segment, 0 for an empty one."""
    lengths = np.diff(starts)
    means = np.zeros((len(lengths), rows.shape[1]))
    some = lengths > 0
    if some.any():
        means[some] = np.add.reduceat(rows, starts[:-1][some], axis=0) / lengths[some, None]
    return means


@dataclass(frozen=True, eq=False, repr=False)
class GaussianOfMeans(StructuredKernel):
    """exp(−‖μ_A − μ_B‖²/(2ℓ²)) for the mean maps μ of two bags: a Gaussian of the MMD.

    Unlike `MeanMap` it is rich enough to learn functions that are not linear in the distribution.

    Parameters
    ----------
    kernel : Kernel, default=Gaussian()
        The kernel of the mean maps, on vectors.
    lengthscale : float, default=1.0
        ℓ. Mean maps of a kernel with k(x, x) ≤ 1 are at most √2 apart.

    References
    ----------
    Christmann, Steinwart, Universal kernels on non-standard input spaces, 2010.

    Examples
    --------
    >>> import math
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> A, B = np.array([[0.0], [2.0]]), np.array([[3.0], [5.0]])  # their means are 3 apart
    >>> math.isclose(GaussianOfMeans(Linear(), 2.0)(A, B), math.exp(-9 / 8))
    True
    """

    kernel: Kernel = field(default_factory=Gaussian)
    lengthscale: float = 1.0
    kind = BagPoints
    checks = checked(kernel=check_inner, lengthscale=check_positive)

    def facts(self, dimension: int | None = None) -> Facts:
        inner = MeanMap(self.kernel).facts().positive_definite
        answer = yes("it is a Gaussian of a distance in a Hilbert space") if inner.yes else inner
        return Facts(self, dimension, positive_definite=answer, **UNIT_DIAGONAL)

    def check_points(self, points: Any) -> None:
        MeanMap(self.kernel).check_points(points)

    def block(self, x: Any, y: Any) -> np.ndarray:
        means = MeanMap(self.kernel)
        squares = means.diagonal(x)[:, None] + means.diagonal(y) - 2.0 * means.block(x, y)
        return np.exp(-np.maximum(squares, 0.0) / (2.0 * self.lengthscale**2))

    def diagonal(self, x: Any) -> np.ndarray:
        return np.ones(len(x))
