"""Kernels from users: a function of two points, a function of two blocks, a matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mercer.errors import SlowKernelWarning, warn
from mercer.kernels.base import Kernel
from mercer.points import IndexPoints, PointSet, as_points, is_point_set
from mercer.runtime.progress import ProgressLine


def is_single_of_any_kind(x: Any) -> bool:
    """Whether x is one point, where points may be vectors or any objects."""
    if isinstance(x, (list, tuple)):
        return all(isinstance(value, (int, float)) for value in x)
    return not is_point_set(x) and not (hasattr(x, "shape") and np.ndim(x) > 1)


@dataclass(frozen=True, eq=False, repr=False)
class _FromFunction(Kernel):
    """The base of kernels from functions: points of any kind, one thread."""

    formula: Callable[..., Any]
    positive_definite: bool | None = None
    parallel = False

    def __post_init__(self) -> None:
        if not callable(self.formula):
            raise ValueError(
                f"{type(self).__name__} needs a function of two arguments; got {self.formula!r}."
            )

    def points(self, data: Any) -> PointSet:
        return as_points(data)

    def is_single(self, x: Any) -> bool:
        return is_single_of_any_kind(x)

    def __repr__(self) -> str:
        name = getattr(self.formula, "__qualname__", repr(self.formula))
        return f"{type(self).__name__}({name}{_stated(self.positive_definite)})"


def _stated(claim: bool | None) -> str:
    return "" if claim is None else f", positive_definite={claim}"


@dataclass(frozen=True, eq=False, repr=False)
class PairKernel(_FromFunction):
    """A kernel given by a Python function of two points.

    Every pair costs a Python call, about a microsecond: fine for thousands of points, slow beyond.
    `BlockKernel`, or a class with an `expression`, is up to a thousand times faster.

    Parameters
    ----------
    formula : callable
        formula(x, y) returns a number; x and y are rows of numbers, or objects of any kind.
    positive_definite : bool, optional
        Whether it is, where the author knows: solvers that need it ask. `kernel.check(X)` tests it.
    n_jobs : int or None, default=None
        Processes that compute the matrix of training points, as in scikit-learn; worth it for slow
        functions that can be pickled. Estimators call the function n(n + 1)/2 times for it.

    Examples
    --------
    >>> def common_letters(a, b):
    ...     return len(set(a) & set(b))
    >>> PairKernel(common_letters)("kernel", "learn")
    4.0
    """

    n_jobs: int | None = None

    slow = 250_000  # pairs in one block beyond which a warning is due: a quarter of a second

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        self._warn_of_time(len(x) * len(y))
        columns = list(_each(y))
        values = [[self.formula(a, b) for b in columns] for a in _each(x)]
        return self._numbers(values, (len(x), len(y)))

    def diagonal(self, x: PointSet) -> np.ndarray:
        return self._numbers([self.formula(point, point) for point in _each(x)], (len(x),))

    def _numbers(self, values: list[Any], shape: tuple[int, ...]) -> np.ndarray:
        """The values as an array, where each of them is a number."""
        first: Any = values
        for _ in shape:
            first = first[0] if len(first) else 0.0
        if not isinstance(first, (str, complex)) and first is not None:
            with suppress(TypeError, ValueError):
                return np.array(values, np.float64).reshape(shape)
        got = f"an array of shape {first.shape}" if isinstance(first, np.ndarray) else repr(first)
        raise ValueError(
            f"{self!r} is a function of two points, and returns a number for them; it returned "
            f"{got}. Write BlockKernel(function) for one that takes two blocks of points."
        )

    def own_block(self, x: PointSet) -> np.ndarray:
        """The matrix of all k(x_i, x_j), by n(n + 1)/2 calls, in `n_jobs` processes.

        Where it takes more than two seconds, a line on the terminal says how far it is.

        >>> import numpy as np
        >>> k = PairKernel(lambda a, b: float(a[0] * b[0]))
        >>> k.own_block(k.points(np.array([[1.0], [2.0]]))).tolist()
        [[1.0, 2.0], [2.0, 4.0]]
        """
        n, points = len(x), list(_each(x))
        self._warn_of_time(n * n // 2)
        matrix, calls = np.zeros((n, n)), n * (n + 1) // 2
        with ProgressLine("kernel values of pairs of points", calls) as line:
            for i, row in enumerate(self._rows(points)):
                matrix[i, : i + 1] = self._numbers(row, (i + 1,))
                line.done((i + 1) * (i + 2) // 2)
        if not np.isfinite(matrix).all():
            raise ValueError(
                f"{self!r} returned NaN or infinity: check the function on these points."
            )
        above = np.triu_indices(n, 1)
        matrix[above] = matrix.T[above]
        return matrix

    def _rows(self, points: list[Any]) -> Iterable[list[Any]]:
        """The rows of the lower triangle, as they are done."""
        if self.n_jobs in (None, 1):
            return (_row(self.formula, points, i) for i in range(len(points)))
        from joblib import Parallel, delayed  # type: ignore[import-untyped]

        work = (delayed(_row)(self.formula, points, i) for i in range(len(points)))
        return Parallel(self.n_jobs, batch_size=16, return_as="generator")(work)

    def _warn_of_time(self, calls: int) -> None:
        if calls >= self.slow:
            warn(
                f"{self!r} calls a Python function for each pair; write BlockKernel(function of "
                "two blocks) to compute many pairs at once.",
                SlowKernelWarning,
            )


def _row(formula: Callable[..., Any], points: list[Any], i: int) -> list[Any]:
    """Row i of the lower triangle."""
    return [formula(points[i], points[j]) for j in range(i + 1)]


def _each(points: PointSet) -> Any:
    """The points one by one; a sparse row comes as a dense vector."""
    data = points.data
    return (row.toarray().ravel() for row in data) if hasattr(data, "toarray") else iter(data)


@dataclass(frozen=True, eq=False, repr=False)
class BlockKernel(_FromFunction):
    """A kernel given by a function of two blocks of points.

    Parameters
    ----------
    formula : callable
        formula(X, Y) returns the matrix of all k(x_i, y_j). It is called on tiles, so that
        memory stays bounded.
    positive_definite : bool, optional
        Whether it is, where the author knows: solvers that need it ask. `kernel.check(X)` tests it.

    Examples
    --------
    >>> import numpy as np
    >>> k = BlockKernel(lambda X, Y: X @ Y.T)
    >>> k(np.eye(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    takes_tensors = True

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        try:
            values = self.formula(x.data, y.data)
        except TypeError as error:
            if x.home == "host":
                raise
            raise ValueError(
                f"{self!r} was called with tensors of torch and failed ({error}): write it with "
                "torch functions, or pass NumPy arrays."
            ) from error
        if x.home != "host":
            return values
        return values.toarray() if hasattr(values, "toarray") else np.asarray(values)


@dataclass(frozen=True, eq=False, repr=False)
class Precomputed(Kernel):
    """A kernel known by its matrix: points are row and column numbers.

    Parameters
    ----------
    matrix : array of shape (n, n)
        K; where the rows and columns are different points, any shape.
    positive_definite : bool, optional
        Whether it is, where the author knows: solvers that need it ask. `kernel.check(range(n))`
        looks at the eigenvalues.

    Examples
    --------
    >>> import numpy as np
    >>> k = Precomputed(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> k.gram([0, 1]) @ np.array([1.0, 1.0])
    array([3., 3.])
    """

    matrix: np.ndarray
    positive_definite: bool | None = None

    def __post_init__(self) -> None:
        if hasattr(self.matrix, "tocsr"):
            raise ValueError(
                "Precomputed needs a dense matrix; got a sparse one: write matrix.toarray()."
            )
        matrix = np.asarray(self.matrix)
        if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
            raise ValueError(
                f"Precomputed needs a two-dimensional matrix of numbers; got shape {matrix.shape} "
                f"of {matrix.dtype}."
            )
        if not np.isfinite(matrix).all():
            raise ValueError(
                "Precomputed needs finite values; the matrix contains NaN or infinity."
            )

    def points(self, data: Any) -> PointSet:
        if isinstance(data, IndexPoints):
            return data
        indices = np.asarray(data)
        if indices.ndim != 1 or indices.dtype.kind not in "iu":
            raise ValueError(
                "the points of a precomputed kernel are row numbers, a list of integers; got "
                f"shape {indices.shape} of {indices.dtype}. Write kernel.gram(range(n))."
            )
        size = max(np.shape(self.matrix))
        if len(indices) and (indices.min() < 0 or indices.max() >= size):
            raise ValueError(
                f"row numbers must lie between 0 and {size - 1}; got {indices.min()} to "
                f"{indices.max()}."
            )
        single = np.asarray(self.matrix).dtype == np.float32
        return IndexPoints(indices, np.dtype(np.float32 if single else np.float64))

    @cached_property
    def symmetric(self) -> bool:
        """Whether the matrix is square and symmetric up to rounding."""
        matrix = np.asarray(self.matrix)
        if matrix.shape[0] != matrix.shape[1]:
            return False
        unit = float(np.finfo(np.result_type(matrix.dtype, np.float32)).eps)
        scale = float(np.abs(matrix).max(initial=0))
        gaps = (
            np.abs(matrix[a : a + 512] - matrix[:, a : a + 512].T).max()
            for a in range(0, len(matrix), 512)
        )
        return all(gap <= 16 * unit * scale for gap in gaps)

    def is_single(self, x: Any) -> bool:
        return np.ndim(x) == 0 and not is_point_set(x)

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        return np.asarray(self.matrix)[np.ix_(x.data, y.data)]

    def diagonal(self, x: PointSet) -> np.ndarray:
        return np.asarray(self.matrix)[x.data, x.data]

    def __repr__(self) -> str:
        shape, claim = np.shape(self.matrix), _stated(self.positive_definite)
        return f"Precomputed(matrix of shape {shape}{claim})"
