"""Operators around the Gram matrix: stored, half of it, in blocks, of features, the identity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from mercer.arrays import Array, namespace, to_precision
from mercer.distributed import is_collection, is_scattered
from mercer.distributed.admission import admitted
from mercer.evaluation.execution import (
    RowMap,
    RowPass,
    added_passes,
    joined,
    joined_halves,
    part_of,
    split_halves,
)
from mercer.evaluation.program import EvaluableKernel
from mercer.evaluation.tiling import Sums, Tiled, strip_product
from mercer.linalg.thin import thin_product
from mercer.operators.base import Operator
from mercer.operators.gram import Gram
from mercer.points import PointSet
from mercer.runtime.budget import Memory, memory_budget
from mercer.runtime.threads import run, single_threaded_blas, spans, thread_count


@dataclass(frozen=True)
class Tuning:
    """When a cross Gram matrix is stored, and how a stored matrix is cut for threads."""

    stored_share: float = 0.5  # of the memory budget, for a stored K_nM; the rest is for the solver
    stored_width: int = 48  # columns of points from which computing a value costs more than a read
    rows: int = 1024  # of a stored matrix at a time: with 1,000 centres 4 MB in float32
    parts: int = 16  # in which sums are taken, whatever the number of threads, so that bits do not
    # depend on it
    feature_bytes: int = 8 << 20  # of the features of a block of rows: they stay near the cache


TUNING = Tuning()


def cross_gram(kernel: EvaluableKernel, x: PointSet, y: PointSet, memory: Memory = None) -> Gram:
    """K(X, Y) for many row passes: stored where that is quicker and takes half of the budget.

    >>> from mercer.kernels import Linear
    >>> x, y = Linear().points(np.eye(3)), Linear().points(np.eye(3)[:2])
    >>> cross_gram(Linear(), x, y) @ np.ones(2)
    array([1., 1., 0.])
    """
    gram = Gram(kernel, x, y, memory)
    wide = getattr(x, "width", TUNING.stored_width) >= TUNING.stored_width
    return stored_if_small(gram) if wide else gram


def stored_if_small(gram: Gram) -> Gram:
    """The same matrix, in memory where it takes half of the budget at most: for many products.

    Of a symmetric matrix on the host one triangle is stored.

    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> type(stored_if_small(Gaussian().gram(np.eye(3)))).__name__
    'HalfStoredGram'
    """
    if not gram.machine.uses_numpy or getattr(gram.x, "mapped", False):
        return gram
    halved = gram.symmetric and isinstance(gram.execution(), Tiled)
    size = gram.shape[0] * gram.shape[1] * gram.dtype.itemsize // (1 + halved)
    if size > TUNING.stored_share * memory_budget(gram.memory):
        return gram
    if halved:
        return HalfStoredGram(gram.kernel, gram.x, memory=gram.memory)
    return StoredGram(gram.kernel, gram.x, gram.y, gram.memory)


class InMemory(Gram):
    """K(X, Y) in memory for products in its own precision; parts and other ones are computed."""

    stored: Any  # what has the precision of K, and its products with columns

    def __matmul__(self, values: Any) -> Array:
        columns, back = self._columns(values, self.y)
        if columns.dtype != self.stored.dtype:
            return super().__matmul__(values)
        return back(self.stored @ columns)

    def transposed_product(self, values: Any) -> Array:
        columns, back = self._columns(values, self.x)
        if columns.dtype != self.stored.dtype:
            return super().transposed_product(values)
        return back(self.stored.T @ columns)

    def _computed(self) -> Gram:
        return Gram(self.kernel, self.x, self.y, self.memory, self.precision)

    def astype(self, dtype: Any) -> Gram:
        return self if np.dtype(dtype) == self.dtype else self._computed().astype(dtype)

    def __getitem__(self, places: Any) -> Gram:
        return self._computed()[places]


class StoredGram(InMemory):
    """K(X, Y) in memory, in its own precision; in another one it is computed.

    Where points have many coordinates, values cost more than reading them again.

    >>> from mercer.kernels import Linear
    >>> StoredGram(Linear(), Linear().points(np.eye(3))) @ np.ones(3)
    array([1., 1., 1.])
    """

    def __init__(
        self, kernel: EvaluableKernel, x: PointSet, y: PointSet | None = None, memory: Memory = None
    ) -> None:
        super().__init__(kernel, x, y, memory)
        self.stored = StoredMatrix(super().dense())

    def dense(self) -> Array:
        return self.stored.matrix

    def row_pass(self, values: Any, row_map: RowMap) -> RowPass:
        columns, _ = self._columns(values, self.y)
        if columns.dtype != self.stored.dtype:
            return super().row_pass(values, row_map)
        return self.stored.row_pass(columns, row_map)


class HalfStoredGram(InMemory):
    """K(X, X) of a symmetric kernel with one triangle in memory, for products in its own precision.

    Half the memory is filled and read. Rows, columns and other precisions are computed.

    >>> from mercer.kernels import Linear
    >>> HalfStoredGram(Linear(), Linear().points(np.eye(3))) @ np.ones(3)
    array([1., 1., 1.])
    """

    def __init__(self, kernel: EvaluableKernel, x: PointSet, memory: Memory = None) -> None:
        from mercer.evaluation.cpu.triangle import Triangle  # loads the compiler: on first use

        super().__init__(kernel, x, memory=memory)
        self.stored = Triangle(cast(Tiled, self.execution(counted=True)))


class StoredMatrix(Operator):
    """An array as an operator, for rows that are in no kernel's own coordinates.

    >>> A = StoredMatrix(np.arange(6.0).reshape(3, 2))
    >>> A @ np.ones(2), A[1:, :].shape
    (array([1., 5., 9.]), (2, 2))
    """

    def __init__(self, matrix: Array) -> None:
        self.matrix = matrix
        self.shape, self.dtype = (len(matrix), matrix.shape[1]), matrix.dtype

    @property
    def T(self) -> StoredMatrix:
        return StoredMatrix(self.matrix.T)

    def __matmul__(self, values: Any) -> Array:
        columns = values.reshape(len(values), -1)
        if isinstance(self.matrix, np.ndarray):
            product = thin_product(self.matrix, columns)
        else:
            from mercer.evaluation.gpu.execution import stored_product  # torch, which is there then

            product = stored_product(self.matrix, columns)
        return product.reshape(-1, *values.shape[1:])

    def transposed_product(self, values: Any) -> Array:
        return self.matrix.T @ values

    def row_pass(self, values: Any, row_map: RowMap) -> RowPass:
        """Aᵀ M(AV): each block of rows is used on both sides while it is near."""
        n = len(self.matrix)
        parts = spans(n, max(1, -(-n // TUNING.parts)))
        sums = Sums(row_map, len(parts), n)

        def add(i: int) -> None:
            for start, stop in spans(parts[i][1], TUNING.rows, parts[i][0]):
                strip = self.matrix[start:stop]
                sums.add(i, start, strip, strip_product(strip, values))

        with single_threaded_blas():
            run(add, range(len(parts)), thread_count())
        return sums.total()

    def dense(self) -> Array:
        return self.matrix

    def astype(self, dtype: Any) -> StoredMatrix:
        return StoredMatrix(self.matrix.astype(dtype, copy=False))

    def __getitem__(self, places: Any) -> StoredMatrix:
        return StoredMatrix(self.matrix[places])


class BlockedGram(Operator):
    """K(X, Y) for rows X that come in blocks, from disk or from anywhere, anew for every product.

    Parameters
    ----------
    kernel : Kernel
    blocks : iterable
        Blocks of rows, each what the kernel takes. It must give the same blocks whenever it is
        iterated: a list, or an object with `__iter__`; a generator is used up after one pass.
    y : PointSet
        The columns.
    rows : int
        How many rows all blocks have together.
    memory : int, str or None
        The budget of a product, as for `Gram`.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> y = Linear().points(np.eye(2))
    >>> K = BlockedGram(Linear(), [np.eye(2), 3 * np.eye(2)], y, rows=4)
    >>> K @ np.ones(2)
    array([1., 1., 3., 3.])
    """

    def __init__(
        self,
        kernel: EvaluableKernel,
        blocks: Iterable[Any],
        y: PointSet,
        rows: int,
        memory: Memory = None,
        dtype: Any = None,
    ) -> None:
        check_restartable(blocks)
        self.kernel, self.blocks, self.y, self.rows, self.memory = kernel, blocks, y, rows, memory
        self.shape, self.dtype = (rows, len(y)), np.dtype(dtype or y.dtype)

    def astype(self, dtype: Any) -> BlockedGram:
        return BlockedGram(self.kernel, self.blocks, self.y, self.rows, self.memory, dtype)

    def parts(self) -> Iterator[tuple[int, Gram]]:
        """The Gram matrix of each block, and the number of its first row."""
        start = 0
        for block in self.blocks:
            points = self.kernel.points(block)
            yield start, Gram(self.kernel, points, self.y, self.memory).astype(self.dtype)
            start += len(points)
        if start != self.rows:
            raise ValueError(
                f"the blocks of X have {start} rows, and y has {self.rows}: there must be one "
                "target for each row. Where both are right, the blocks differ between passes: pass "
                "an iterable that gives the same ones every time."
            )

    def __matmul__(self, values: Any) -> Array:
        parts = [gram @ values for _, gram in self.parts()]
        return namespace(parts[0]).concat(parts)

    def transposed_product(self, values: Any) -> Array:
        total: Any = 0.0
        for first, gram in self.parts():
            total = total + gram.T @ values[first : first + gram.shape[0]]
        return total

    def row_pass(self, values: Any, row_map: RowMap) -> RowPass:
        return added_passes(
            gram.row_pass(values, part_of(row_map, first, gram.shape[0]))
            for first, gram in self.parts()
        )

    def take(self, rows: np.ndarray) -> PointSet:
        """The points of some rows, whose numbers ascend: one reading of the blocks."""
        taken: PointSet | None = None
        for first, gram in self.parts():
            inside = rows[(rows >= first) & (rows < first + gram.shape[0])] - first
            if len(inside):
                part = gram.x.take(inside)
                taken = part if taken is None else taken.concatenated(part)
        if taken is None:
            raise ValueError("no rows were asked for.")
        return taken

    def __getitem__(self, places: Any) -> Gram:
        """The part of some rows, whose numbers ascend, with all columns or some of them."""
        rows, columns = places if isinstance(places, tuple) else (places, slice(None))
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(self.rows))
        gram = Gram(self.kernel, self.take(np.asarray(rows)), self.y, self.memory)
        return gram.astype(self.dtype)[:, columns]


def check_restartable(blocks: Any) -> None:
    """Refuse an iterator, which gives its blocks once only.

    >>> check_restartable([np.eye(2)])
    >>> check_restartable(iter([np.eye(2)]))
    Traceback (most recent call last):
        ...
    ValueError: ...
    """
    if isinstance(blocks, Iterator):
        raise ValueError(
            "blocks of rows are read again in every pass; got an iterator, which gives them once. "
            "Pass a list of blocks, or an object whose __iter__ starts again."
        )


class MixedPrecision(Operator):
    """An operator in float32 for vectors in float64: no digit of the vectors is lost.

    A vector is its rounding to float32 plus the rest; both are multiplied, the rest times 2²⁴ so
    that no number of it is subnormal.

    >>> from mercer.kernels import Gaussian
    >>> K = Gaussian().gram(np.arange(3.0)[:, None])
    >>> mixed, v = MixedPrecision(K.astype("float32")), np.array([1.0, 1e-9, 1.0])
    >>> bool(np.allclose(mixed @ v, K @ v, rtol=1e-6))
    True
    """

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.shape, self.dtype = operator.shape, np.dtype(np.float64)

    def astype(self, dtype: Any) -> MixedPrecision:
        return MixedPrecision(self.operator.astype(dtype))

    def _halves(self, values: Any, multiply: Any) -> Array:
        columns = values[:, None] if values.ndim == 1 else values
        halves, split = split_halves(columns, self.operator.dtype)
        product = to_precision(multiply(halves), "float64")
        total = joined_halves(product) if split else product
        return total[:, 0] if values.ndim == 1 else total

    def __matmul__(self, values: Any) -> Array:
        return self._halves(values, self.operator.__matmul__)

    def transposed_product(self, values: Any) -> Array:
        return self._halves(values, self.operator.transposed_product)

    def row_pass(self, values: Any, row_map: RowMap) -> RowPass:
        halves, split = split_halves(values, self.operator.dtype)
        return self.operator.row_pass(halves, joined(row_map) if split else row_map)

    def dense(self) -> Array:
        return to_precision(self.operator.dense(), "float64")


class FeatureMatrix(Operator):
    """Z with the rows φ(x_i) of a fitted `FeatureMap`, computed by blocks and never stored.

    >>> import numpy as np
    >>> from mercer.features import Nystroem
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> phi = Nystroem(n_components=2).fit(X)
    >>> bool(np.allclose(FeatureMatrix(phi, X) @ np.ones(2), phi.transform(X).sum(axis=1)))
    True
    """

    def __init__(self, features: Any, x: Any) -> None:
        x = admitted(x) if is_collection(x) else x
        self.features, self.x = features, x
        self.shape = x.shape[0], features.feature_count
        single = str(getattr(x, "dtype", "")).endswith("float32")
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def astype(self, dtype: Any) -> FeatureMatrix:
        same = np.dtype(dtype) == self.dtype
        x = self.x if same else to_precision(self.x, dtype)
        return FeatureMatrix(self.features, x)

    @cached_property
    def blocks(self) -> Any:
        """The features of rows on a cluster, computed there; None for other rows."""
        if not is_scattered(self.x):
            return None
        from mercer.evaluation.cluster import OverBlocks

        return OverBlocks(self.x, FeatureBlock, self.features)

    def __matmul__(self, values: Any) -> Array:
        if self.blocks is not None:
            product = self.blocks.product(np.reshape(values, (len(values), -1)))
            return product[:, 0] if values.ndim == 1 else product
        product = self.features.values(self.x, values.reshape(len(values), -1))
        return product.reshape((-1, *values.shape[1:]))

    def transposed_product(self, values: Any) -> Array:
        if self.blocks is not None:
            return self.blocks.transposed_product(self.x.placed(values))
        return self.features.weighted_sum(self.x, values)

    def row_pass(self, values: Any, row_map: RowMap) -> RowPass:
        if self.blocks is not None:
            return self.blocks.row_pass(values, row_map)
        n, width = self.shape
        sums = Sums(row_map, 1, n)
        rows = max(1, TUNING.feature_bytes // (width * self.dtype.itemsize))
        for start, stop in spans(n, rows):
            block = self.features.transform(self.x[start:stop])
            image = strip_product(block, np.asarray(values, block.dtype))
            sums.add(0, start, block, image)
        return sums.total()

    def dense(self) -> Array:
        return self.features.transform(self.x) if self.blocks is None else self.blocks.block()

    def __getitem__(self, places: Any) -> FeatureMatrix:
        """The features of some rows."""
        return FeatureMatrix(self.features, self.x[places])


class FeatureBlock:
    """The features of a block of rows, on a worker, with the verbs of an execution."""

    def __init__(self, rows: np.ndarray, features: Any) -> None:
        self.matrix = FeatureMatrix(features, rows)
        self.product, self.row_pass = self.matrix.__matmul__, self.matrix.row_pass
        self.transposed_product = self.matrix.transposed_product

    def block(self) -> Array:
        """Z."""
        return self.matrix.dense()


class Identity(Operator):
    """The identity of a size.

    >>> Identity(2) @ np.array([3.0, 4.0])
    array([3., 4.])
    """

    def __init__(self, size: int, dtype: Any = np.float64) -> None:
        self.shape, self.dtype = (size, size), np.dtype(dtype)

    @property
    def T(self) -> Identity:
        return self

    def __matmul__(self, values: Any) -> Array:
        return values

    def transposed_product(self, values: Any) -> Array:
        return values

    def diagonal(self) -> np.ndarray:
        return np.ones(self.shape[0], self.dtype)

    def astype(self, dtype: Any) -> Identity:
        return Identity(self.shape[0], dtype)
