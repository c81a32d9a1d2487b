"""Matrices that are never stored: the Gram matrix K(X, Y) as something to multiply by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.arrays import Array, beside, on_host
from mercer.evaluation import dispatch
from mercer.evaluation.budget import Memory
from mercer.evaluation.program import EvaluableKernel
from mercer.points import PointSet

PRECISIONS = (None, "float32", "tf32", "float64")


class Gram:
    """The matrix K with K_ij = k(x_i, y_j), computed tile by tile whenever it is multiplied.

    Nothing is computed when it is made and nothing is kept between products (on a GPU the points,
    packed for the card, are). `gram @ V` and `gram.T @ W` take the memory of a few tiles; `dense()`
    stores the matrix.

    Parameters
    ----------
    kernel : Kernel
        What is evaluated.
    x, y : PointSet
        Rows and columns; where both are the same object, symmetry is used.
    memory : int, str or None
        Bytes a product may take beside its input and output, as in "500MB"; None for
        `MERCER_MEMORY`, or a quarter of what is free.
    precision : {"float32", "tf32", "float64"} or None
        On a GPU: how float32 products are computed. None and "float32" keep the digits of float32,
        "tf32" three of them, faster; "float64" computes in float64 and returns float64.

    Attributes
    ----------
    evaluations : int
        How many kernel values all products so far were made of.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> gram = Gaussian().gram(X)
    >>> np.allclose(gram @ np.ones(3), gram.dense().sum(axis=1))
    True
    """

    __array_ufunc__ = None  # NumPy leaves `array @ gram` to __rmatmul__

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
        self.evaluations = 0
        self._kept: dict[Any, Any] = {}
        dispatch.check_pair(self.x, self.y)
        self._dtype = np.result_type(self.x.dtype, self.y.dtype)
        self.precision = self._checked(precision)
        if precision == "float64":
            self._dtype = np.dtype(np.float64)

    def _checked(self, precision: str | None) -> str | None:
        if precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {PRECISIONS}; got {precision!r}.")
        if precision == "tf32" and not self.on_tensors:
            raise ValueError('precision="tf32" is for tensors of torch on a GPU; these are arrays.')
        return precision

    @property
    def on_tensors(self) -> bool:
        """Whether the points are tensors of torch, and so are products."""
        return dispatch.on_tensors(self.x)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.x), len(self.y)

    @property
    def dtype(self) -> np.dtype:
        return self._dtype

    @property
    def symmetric(self) -> bool:
        """Whether rows and columns are the same points."""
        return self.x is self.y

    @property
    def T(self) -> Gram:
        """The transposed matrix: kernels are symmetric, so only rows and columns change places."""
        return self if self.symmetric else self._like(self.y, self.x)

    def _like(self, x: PointSet, y: PointSet | None) -> Gram:
        """The same kernel, memory and precision on other points."""
        gram = Gram(self.kernel, x, y, self.memory, self.precision)
        gram._dtype = self._dtype
        gram._kept = self._kept
        return gram

    def __repr__(self) -> str:
        return f"Gram({self.kernel!r}, shape={self.shape}, dtype={self.dtype})"

    def __matmul__(self, values: Any) -> np.ndarray:
        """K V. The result has the wider precision of the points and of V."""
        columns, restore = self._columns(values, len(self.y))
        self._count()
        return restore(
            dispatch.matmul(
                self.kernel, self.x, self.y, columns, self.memory, self.precision, self._kept
            )
        )

    def __rmatmul__(self, values: Any) -> np.ndarray:
        """V K."""
        return (self.T @ (values if self.on_tensors else np.asarray(values)).T).T

    matvec = matmat = __matmul__  # SciPy's names: scipy.sparse.linalg.aslinearoperator(gram) works

    def rmatvec(self, values: Any) -> np.ndarray:
        """Kᵀ V, under SciPy's name."""
        return self.T @ values

    def normal_matmul(self, values: Any, shift: Any = None) -> np.ndarray:
        """Kᵀ(K V + W), each kernel value computed once for both products.

        >>> import numpy as np
        >>> from mercer.kernels import Gaussian
        >>> gram = Gaussian().gram(np.arange(4.0)[:, None], np.arange(2.0)[:, None])
        >>> v, w = np.ones(2), np.ones(4)
        >>> np.allclose(gram.normal_matmul(v, w), gram.T @ (gram @ v + w))
        True
        """
        columns, restore = self._columns(values, len(self.y))
        if shift is not None:
            shift = self._shift(shift, columns)
        self._count()
        return restore(
            dispatch.normal_matmul(
                self.kernel,
                self.x,
                self.y,
                columns,
                shift,
                self.memory,
                self.precision,
                self._kept,
            )
        )

    def row_pass(self, values: Any, middle: Callable[[int, int, Array], Array]) -> Any:
        """Kᵀ M(K V) in one pass; M maps the rows start, …, stop − 1 of K V on their own.

        `middle(start, stop, rows)` is called from several threads, once for each block of rows, and
        may return another number of columns.

        >>> import numpy as np
        >>> from mercer.kernels import Gaussian
        >>> gram = Gaussian().gram(np.arange(4.0)[:, None], np.arange(2.0)[:, None])
        >>> v, w = np.ones((2, 1)), np.arange(4.0)[:, None]
        >>> weighted = gram.row_pass(v, lambda start, stop, rows: w[start:stop] * rows)
        >>> np.allclose(weighted, gram.T @ (w * (gram @ v)))
        True
        """
        columns, _ = self._columns(values, len(self.y))
        self._count()
        return dispatch.row_pass(
            self.kernel,
            self.x,
            self.y,
            columns,
            middle,
            self.memory,
            self.precision,
            self._kept,
        )

    def dense(self) -> np.ndarray:
        """The matrix, stored: n × m numbers."""
        self._count()
        return dispatch.dense(self.kernel, self.x, self.y, self.dtype, self.memory, self.precision)

    def diagonal(self) -> np.ndarray:
        """k(x_i, x_i) for all i; the matrix must be symmetric."""
        if not self.symmetric:
            raise ValueError("only kernel.gram(X), with the same points twice, has a diagonal.")
        return dispatch.diagonal(self.kernel, self.x)

    def columns(self, indices: Any) -> np.ndarray:
        """The columns with the given numbers, stored.

        >>> import numpy as np
        >>> from mercer.kernels import Linear
        >>> Linear().gram(np.eye(3)).columns([2]).ravel()
        array([0., 0., 1.])
        """
        chosen = self._like(self.x, self.y.take(np.atleast_1d(indices)))
        self.evaluations += chosen.shape[0] * chosen.shape[1]
        return chosen.dense()

    def plan(self, columns: int = 1) -> dispatch.Plan:
        """What a product with so many columns will do: which execution, which tiles, threads."""
        return dispatch.plan(self.kernel, self.x, self.y, self.dtype, self.memory, columns)

    def astype(self, dtype: Any) -> Gram:
        """The same matrix, computed in another precision: float32 or float64."""
        dtype = np.dtype(dtype)
        if dtype not in (np.float32, np.float64):
            raise ValueError(f"a Gram matrix is computed in float32 or float64; got {dtype}.")
        copy = self._like(self.x, None if self.symmetric else self.y)
        copy._dtype = dtype
        return copy

    def _count(self) -> None:
        n, m = self.shape
        self.evaluations += n * (n + 1) // 2 if self.symmetric else n * m

    def _shift(self, shift: Any, columns: np.ndarray) -> np.ndarray:
        added, _ = self._columns(shift, len(self.x))
        if added.shape[1] not in (1, columns.shape[1]):
            raise ValueError(
                f"the shift W must have as many columns as V, {columns.shape[1]}, or one; got "
                f"{added.shape[1]}."
            )
        if self.on_tensors:
            return added.expand(-1, columns.shape[1]).to(columns.dtype).contiguous()
        return np.broadcast_to(added, (len(self.x), columns.shape[1])).astype(columns.dtype)

    def _columns(self, values: Any, length: int) -> Any:
        """Values as a matrix in the precision of the result, and the way back to what they were.

        Values of another library are multiplied here, and the product goes back to it.
        """
        if self.on_tensors:
            return self._tensor_columns(values, length)
        if not isinstance(values, np.ndarray) and hasattr(values, "__dlpack__"):
            columns, restore = self._columns(on_host(values), length)
            return columns, lambda result: beside(restore(result), values)
        array = np.asarray(values)
        self._check_rows(array, length)
        if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
            raise ValueError(
                f"a Gram matrix multiplies real numbers in at most float64; got {array.dtype}."
            )
        dtype = np.result_type(self.dtype, array.dtype) if array.dtype.kind == "f" else self.dtype
        columns = np.ascontiguousarray(
            array[:, None] if array.ndim == 1 else array, np.result_type(dtype, np.float32)
        )
        if array.ndim == 1:
            return columns, lambda result: result[:, 0]
        return columns, lambda result: result

    def _check_rows(self, array: Any, length: int) -> None:
        if array.ndim not in (1, 2) or len(array) != length:
            raise ValueError(
                f"a Gram matrix of shape {self.shape} needs values with {length} rows here; got "
                f"shape {tuple(array.shape)}."
            )

    def _tensor_columns(self, values: Any, length: int) -> Any:
        import torch

        from mercer.points.tensors import check_beside

        device = self.x.rows.device  # type: ignore[attr-defined]
        check_beside(values, device)
        tensor = torch.as_tensor(values, device=device).detach()
        self._check_rows(tensor, length)
        if tensor.is_complex():
            raise ValueError(f"a Gram matrix multiplies real numbers; got {tensor.dtype}.")
        wide = self.dtype == np.float64 or tensor.dtype == torch.float64
        columns = tensor[:, None] if tensor.ndim == 1 else tensor
        columns = columns.to(torch.float64 if wide else torch.float32)
        if tensor.ndim == 1:
            return columns.contiguous(), lambda result: result[:, 0]
        return columns.contiguous(), lambda result: result

    def __getstate__(self) -> dict[str, Any]:
        """What is kept for a card is not pickled."""
        return self.__dict__ | {"_kept": {}}
