"""What every operator has: products from both sides, row passes, and the transposed operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import Array, namespace
from mercer.evaluation.execution import RowMap, RowPass


class Operator:
    """A matrix A that may be stored nowhere.

    A subclass has `shape` and `dtype` and implements `_product` and `_transposed_product` of
    columns, and `row_pass` where it can do better than two products.
    """

    __array_ufunc__ = None  # NumPy leaves `array @ operator` to __rmatmul__

    @property
    def shape(self) -> tuple[int, int]:
        raise NotImplementedError

    @property
    def dtype(self) -> np.dtype:
        raise NotImplementedError

    def _product(self, values: Array) -> Array:
        """A V for V with one or two dimensions."""
        raise NotImplementedError

    def _transposed_product(self, values: Array) -> Array:
        """Aᵀ V for V with one or two dimensions."""
        raise NotImplementedError

    def __matmul__(self, values: Any) -> Array:
        """A V."""
        return self._product(values)

    def __rmatmul__(self, values: Any) -> Array:
        """V A."""
        values = values if hasattr(values, "shape") else np.asarray(values)
        return self._transposed_product(values if values.ndim == 1 else values.T).T

    @property
    def T(self) -> Operator:
        """The transposed operator."""
        return Transposed(self)

    # SciPy's names: scipy.sparse.linalg.aslinearoperator(operator) works.
    matvec = matmat = __matmul__

    def rmatvec(self, values: Any) -> Array:
        """Aᵀ V, under SciPy's name."""
        return self._transposed_product(values)

    def row_pass(self, values: Any, row_map: RowMap) -> RowPass:
        """Aᵀ M(A V), the sums and the values of the map M; V is a matrix."""
        mapped = row_map(0, self.shape[0], self._product(values))
        return RowPass(self._transposed_product(mapped.product), mapped.sums, mapped.values)

    def dense(self) -> Array:
        """The matrix, stored."""
        return self._product(np.eye(self.shape[1], dtype=self.dtype))

    def astype(self, dtype: Any) -> Operator:
        """The same operator in another precision: float32 or float64."""
        raise NotImplementedError


class Transposed(Operator):
    """Aᵀ of an operator A."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    @property
    def shape(self) -> tuple[int, int]:
        return self.operator.shape[::-1]

    @property
    def dtype(self) -> np.dtype:
        return self.operator.dtype

    @property
    def T(self) -> Operator:
        return self.operator

    def _product(self, values: Any) -> Array:
        return self.operator._transposed_product(values)

    def _transposed_product(self, values: Any) -> Array:
        return self.operator._product(values)

    def __getitem__(self, places: Any) -> Operator:
        rows, columns = places if isinstance(places, tuple) else (places, slice(None))
        return self.operator[columns, rows].T  # type: ignore[index]

    def dense(self) -> Array:
        matrix = self.operator.dense()
        return namespace(matrix).matrix_transpose(matrix)

    def astype(self, dtype: Any) -> Transposed:
        return Transposed(self.operator.astype(dtype))

    def __repr__(self) -> str:
        return f"{self.operator!r}.T"
