"""The Gram matrix K(X, Y) as something to multiply by: it is never stored."""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import Any

import numpy as np

from mercer.arrays import Array, inner, to_precision
from mercer.evaluation import parameters
from mercer.evaluation.dispatch import check_pair, execution_for
from mercer.evaluation.execution import Affine, Execution, Names, Plan, RowMap, RowPass
from mercer.evaluation.program import EvaluableKernel
from mercer.operators.base import Operator, Transposed
from mercer.points import PointSet
from mercer.runtime.budget import Memory


class Gram(Operator):
    """The matrix K with K_ij = k(x_i, y_j), computed tile by tile whenever it is multiplied.

    Made by `kernel.gram(X)` or `kernel.gram(X, Y)`. Nothing is computed when it is made, and values
    of the kernel are never stored: `gram @ V` and `gram.T @ W` take the memory of a few tiles.
    `dense()` computes the whole matrix as an array.

    Parameters
    ----------
    kernel : Kernel
        k.
    x, y : PointSet
        The points of rows and columns; where both are the same object, symmetry is used.
    memory : int, str or None
        Bytes a product may take beside its input and output, as in "500MB"; None for
        `MERCER_MEMORY`, or a quarter of what is free.
    precision : {"float32", "tf32", "float64", "reference"} or None
        How products of float32 points are computed on a GPU. None and "float32" have the accuracy
        of float32; "tf32" is faster, with about three digits; "float64" computes in float64 and
        returns float64. "reference" is slow NumPy code with which tests compare the others.

    Attributes
    ----------
    evaluations : int
        The number of kernel values that all products so far have computed.
    symmetric : bool
        Whether K = Kᵀ is known: rows and columns are the same points, and k is symmetric.
    machine : Machine
        What solvers plan with: the cost of a value, the rows of a block.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> gram = Gaussian().gram(X)
    >>> np.allclose(gram @ np.ones(3), gram.dense().sum(axis=1))
    True
    """

    def __init__(
        self,
        kernel: EvaluableKernel,
        x: PointSet,
        y: PointSet | None = None,
        memory: Memory = None,
        precision: str | None = None,
    ) -> None:
        self.kernel = kernel
        self.x = x
        self.y = x if y is None else y
        self.memory = memory
        self.precision = precision
        self.evaluations = 0
        self.shape = len(self.x), len(self.y)
        self._executions: dict[str, Execution] = {}
        self.symmetric = self.x is self.y and bool(kernel.symmetric)
        self.machine = x.machine
        check_pair(self.x, self.y, precision)
        wide = precision in ("float64", "reference")
        self.dtype = np.dtype(np.float64) if wide else np.result_type(x.dtype, self.y.dtype)

    @property
    def T(self) -> Operator:
        return self if self.symmetric else Transposed(self)

    def __repr__(self) -> str:
        return f"Gram({self.kernel!r}, shape={self.shape}, dtype={self.dtype})"

    def execution(self, dtype: Any = None, counted: bool = False) -> Execution:
        """The execution that computes K in a precision; made once, it owns the packed points.

        Where it is `counted`, all values of K are about to be computed.
        """
        if counted:
            n, m = self.shape
            self.evaluations += n * (n + 1) // 2 if self.symmetric else n * m
        name = _precision_name(self.dtype if dtype is None else dtype)
        if name not in self._executions:
            self._executions[name] = execution_for(
                self.kernel, self.x, self.y, name, self.memory, self.precision
            )
        return self._executions[name]

    # ---- products ----------------------------------------------------------------------------

    def __matmul__(self, values: Any) -> Array:
        """K V. The result has the wider precision of the points and of V."""
        columns, back = self._columns(values, self.y)
        return back(self.execution(columns.dtype, counted=True).product(columns))

    def transposed_product(self, values: Any) -> Array:
        columns, back = self._columns(values, self.x)
        return back(self.execution(columns.dtype, counted=True).transposed_product(columns))

    def normal_matmul(self, values: Any, shift: Any = None) -> Array:
        """Kᵀ(K V + W), each kernel value computed once for both products.

        >>> import numpy as np
        >>> from mercer.kernels import Gaussian
        >>> gram = Gaussian().gram(np.arange(4.0)[:, None], np.arange(2.0)[:, None])
        >>> v, w = np.ones(2), np.ones(4)
        >>> np.allclose(gram.normal_matmul(v, w), gram.T @ (gram @ v + w))
        True
        """
        columns, back = self._columns(values, self.y)
        added = self.x.vector(np.zeros((1, columns.shape[1])))
        if shift is not None:
            shifts, _ = self._columns(shift, self.x)
            if shifts.shape[1] not in (1, columns.shape[1]):
                raise ValueError(
                    f"the shift W must have as many columns as V, {columns.shape[1]}, or one; got "
                    f"{shifts.shape[1]}."
                )
            added = added + shifts
        row_map = Affine(self.x.vector(np.ones((1, 1))), added)
        execution = self.execution(columns.dtype, counted=True)
        product = execution.row_pass(columns, row_map).product
        return back(to_precision(product, columns.dtype))

    def row_pass(self, values: Any, row_map: RowMap) -> RowPass:
        """Kᵀ M(K V) in one pass, in float64; M maps rows of K V on their own.

        `row_map(start, stop, rows)` returns `MappedRows(product, sums, values)` for the rows start,
        …, stop − 1: the rows that Kᵀ is multiplied by, small numbers that are added up, rows that
        are handed back. It is called from several threads, once for each block of rows.

        >>> import numpy as np
        >>> from mercer.kernels import Gaussian
        >>> from mercer.operators import Affine
        >>> gram = Gaussian().gram(np.arange(4.0)[:, None], np.arange(2.0)[:, None])
        >>> v, w = np.ones((2, 1)), np.arange(4.0)[:, None]
        >>> weighted = gram.row_pass(v, Affine(w, np.zeros((1, 1)), keep_values=True))
        >>> np.allclose(weighted.product, gram.T @ (w * (gram @ v)))
        True
        >>> np.allclose(weighted.values, gram @ v)
        True
        """
        columns, _ = self._columns(values, self.y)
        return self.execution(columns.dtype, counted=True).row_pass(columns, row_map)

    def gradient(self, values: Any) -> Array:
        """∇ₓ Σ_j v_j k(x, y_j) at every row x, shape (n, coordinates) or (n, columns, …)."""
        columns, back = self._columns(values, self.y)
        return back(self.execution(columns.dtype).gradient(columns))

    def parameter_gradient(
        self, left: Any, right: Any = None, names: Names = None
    ) -> dict[str, Any]:
        """Σ_t u_tᵀ(∂K/∂θ)v_t for every real parameter θ of the kernel, or those of some `names`.

        K is not stored, nor is ∂K/∂θ. Without `right`, `left` is a matrix P of the shape of K, and
        the sum Σ_ij P_ij ∂k(x_i, y_j)/∂θ, for which single matrices ∂K/∂p are stored. Parameters
        that change the form of the kernel, as a smoothness, have differences of fourth order of K
        in θ, which are right to 1e-12 of K; others are exact. Whole numbers have no derivative, and
        a linear map has one without `right` only, unless it is named.

        >>> import numpy as np
        >>> from mercer.kernels import Gaussian
        >>> X, v = np.array([[0.0], [1.0]]), np.ones(2)
        >>> slopes = Gaussian(1.0).gram(X).parameter_gradient(v, v)
        >>> bool(np.isclose(slopes["lengthscale"], 2 * np.exp(-0.5)))
        True
        """
        u, v = self._columns(left, self.x)[0], None
        if right is not None:
            v = to_precision(self._columns(right, self.y)[0], "float64")
        elif tuple(u.shape) != self.shape:
            raise ValueError(
                f"weights of a Gram matrix of shape {self.shape} have this shape; got "
                f"{tuple(u.shape)}. Write parameter_gradient(u, v) for uᵀ(∂K/∂θ)v."
            )
        u = to_precision(u, "float64")

        def form(kernel: Any) -> float:
            gram = Gram(kernel, self.x, self.y, self.memory, self.precision).astype("float64")
            return inner(u, gram.dense() if v is None else gram @ v)

        found = self.execution("float64").parameter_gradient(u, v, names)
        values = parameters.real_parameters(self.kernel, names)
        for name, value in values.items():
            if name not in found and (np.ndim(value) < 2 or v is None or names is not None):
                slopes = parameters.differences(self.kernel, name, value, form)
                found |= {} if slopes is None else {name: slopes}
        for name in names or ():
            if name not in found:
                raise ValueError(
                    f"{self.kernel!r} has no derivative in {name!r}: it is not a parameter, or one "
                    "of whole numbers or single values. Compare some of its values instead, as by "
                    "GridSearchCV. Real parameters are "
                    f"{list(parameters.real_parameters(self.kernel))}."
                )
        return {name: found[name] for name in values if name in found}

    # ---- the matrix and parts of it ----------------------------------------------------------

    def dense(self) -> Array:
        """The matrix, stored: n × m numbers."""
        return self.execution(counted=True).block()

    def diagonal(self) -> Array:
        """k(x_i, x_i) for all i; rows and columns must be the same points."""
        if self.x is not self.y:
            raise ValueError("only kernel.gram(X), with the same points twice, has a diagonal.")
        return self.execution().diagonal()

    def __getitem__(self, places: Any) -> Gram:
        """A part of the matrix that is not stored either: `gram[rows, columns]`.

        Rows and columns are given by a slice, by numbers, or by a mask; a part with equal rows and
        columns of a symmetric matrix is symmetric.

        >>> import numpy as np
        >>> from mercer.kernels import Linear
        >>> gram = Linear().gram(np.eye(3))
        >>> gram[1:, [0, 2]].dense().tolist()
        [[0.0, 0.0], [0.0, 1.0]]
        """
        rows, columns = places if isinstance(places, tuple) else (places, slice(None))
        part = copy(self)
        part.evaluations, part._executions = 0, {}
        part.x = _some(self.x, rows)
        part.y = part.x if self.x is self.y and _same(rows, columns) else _some(self.y, columns)
        part.shape = len(part.x), len(part.y)
        part.symmetric = part.x is part.y and self.symmetric
        return part

    def columns(self, indices: Any) -> Array:
        """The columns with the given numbers, stored.

        >>> import numpy as np
        >>> from mercer.kernels import Linear
        >>> Linear().gram(np.eye(3)).columns([2]).ravel()
        array([0., 0., 1.])
        """
        part = self[:, indices]
        self.evaluations += part.shape[0] * part.shape[1]
        return part.dense()

    def plan(self, columns: int = 1) -> Plan:
        """The plan of a product with so many columns: execution, tiles, threads."""
        return self.execution().plan(columns)

    def forecast(self, work: Any) -> Any:
        foreseen = getattr(self.execution(), "forecast", None)
        return None if foreseen is None else foreseen(work)

    def astype(self, dtype: Any) -> Gram:
        """The same matrix, computed in another precision: float32 or float64."""
        dtype = np.dtype(dtype)
        if dtype not in (np.float32, np.float64):
            raise ValueError(f"a Gram matrix is computed in float32 or float64; got {dtype}.")
        other = copy(self)
        other._executions = self._executions  # shared, and so are the points that are packed
        other.dtype, other.evaluations = dtype, 0
        return other

    # ---- what comes in -----------------------------------------------------------------------

    def _columns(self, values: Any, points: PointSet) -> tuple[Array, Any]:
        """Values as a matrix in the precision of the result, and a function that restores the form.

        Values of another library are multiplied here, and the product goes back to it.
        """
        columns, back = points.admitted(values, self.dtype)
        if len(columns) != len(points):
            raise ValueError(
                f"a Gram matrix of shape {self.shape} needs values with {len(points)} rows here; "
                f"got shape {tuple(np.shape(values))}."
            )
        return columns, back

    def __getstate__(self) -> dict[str, Any]:
        """Executions, with the points they packed, are not pickled."""
        return self.__dict__ | {"_executions": {}}


def _some(points: PointSet, places: Any) -> PointSet:
    """Some of the points, all of them as they are."""
    if isinstance(places, slice):
        start, stop, step = places.indices(len(points))
        if (start, stop, step) == (0, len(points), 1):
            return points
        if step == 1:
            return points.slice(start, max(start, stop))
        places = np.arange(start, stop, step)
    return points.take(np.atleast_1d(places))


def _same(rows: Any, columns: Any) -> bool:
    if isinstance(rows, slice) or isinstance(columns, slice):
        return isinstance(rows, slice) and isinstance(columns, slice) and rows == columns
    return rows is columns or np.array_equal(np.atleast_1d(rows), np.atleast_1d(columns))


@cache
def _precision_name(dtype: Any) -> str:
    """The name of a precision of any library, which NumPy takes microseconds to spell."""
    return str(dtype).removeprefix("torch.")
