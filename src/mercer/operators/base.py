"""The base class of operators: products from both sides, row passes, the transposed operator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer.arrays import Array, as_numpy
from mercer.checks import is_number
from mercer.evaluation.execution import RowMap, RowPass
from mercer.runtime.budget import in_words, memory_budget
from mercer.runtime.machine import CPU, Machine


class Operator:
    """A matrix A that may be stored nowhere.

    A subclass has `shape` and `dtype` and implements `@` and `transposed_product`, for vectors and
    for matrices of columns, and `row_pass` where it can do better than two products.

    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> A = Linear().gram(np.eye(3), np.ones((2, 3)))
    >>> isinstance(A, Operator), (A.T @ np.ones(3)).tolist()
    (True, [3.0, 3.0])
    """

    __array_ufunc__ = None  # NumPy leaves `array @ operator` to __rmatmul__
    shape: tuple[int, int]
    dtype: np.dtype
    machine: Machine = CPU

    def __matmul__(self, values: Any) -> Array:
        """A V."""
        raise NotImplementedError

    def transposed_product(self, values: Any) -> Array:
        """Aᵀ V."""
        raise NotImplementedError

    def __rmatmul__(self, values: Any) -> Array:
        """V A."""
        values = values if hasattr(values, "shape") else np.asarray(values)
        return self.transposed_product(values if values.ndim == 1 else values.T).T

    @property
    def T(self) -> Operator:
        """The transposed operator."""
        return Transposed(self)

    # ---- as numbers and matrices of NumPy: c * A is not stored either, np.asarray(A) is ---------

    def __mul__(self, factor: float) -> Operator:
        if not is_number(factor):
            return NotImplemented
        return Multiple(float(factor), self)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Operator:
        return self * (1.0 / divisor) if is_number(divisor) else NotImplemented

    def __neg__(self) -> Operator:
        return self * -1.0

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The matrix, stored, where that takes no more than the memory budget."""
        if copy is False:
            raise ValueError(f"{self!r} is not stored, so that it has no array without a copy.")
        needed = math.prod(self.shape) * self.dtype.itemsize
        budget = memory_budget(getattr(self, "memory", None))
        if needed > budget:
            raise MemoryError(
                f"an array of {self.shape[0]} × {self.shape[1]} numbers takes {in_words(needed)}, "
                f"and the memory budget is {in_words(budget)}: write .dense() to store it all the "
                "same, or multiply by it as it is."
            )
        return np.asarray(as_numpy(self.dense()), dtype)

    # SciPy's names: scipy.sparse.linalg.aslinearoperator(operator) works.

    def matvec(self, values: Any) -> Array:
        """A V."""
        return self @ values

    def rmatvec(self, values: Any) -> Array:
        """Aᵀ V."""
        return self.transposed_product(values)

    matmat, rmatmat = matvec, rmatvec

    def row_pass(self, values: Any, row_map: RowMap) -> RowPass:
        """Aᵀ M(A V), the sums and the values of the map M; V is a matrix."""
        mapped = row_map(0, self.shape[0], self @ values)
        return RowPass(self.transposed_product(mapped.product), mapped.sums, mapped.values)

    def dense(self) -> Array:
        """The matrix, stored."""
        return self @ np.eye(self.shape[1], dtype=self.dtype)

    def astype(self, dtype: Any) -> Operator:
        """The same operator in another precision: float32 or float64."""
        raise NotImplementedError

    def forecast(self, work: Any) -> Any:
        """Time and memory of a fit where the rows are, from timed passes; None if none are timed.

        `work` says what is to be computed, as a `Workload` of `mercer.solvers`.
        """
        return None


class Multiple(Operator):
    """cA of a number c and an operator A."""

    def __init__(self, factor: float, operator: Operator) -> None:
        self.factor, self.operator = factor, operator
        self.shape, self.dtype = operator.shape, operator.dtype
        self.memory = getattr(operator, "memory", None)

    @property
    def T(self) -> Operator:
        return Multiple(self.factor, self.operator.T)

    def __mul__(self, factor: float) -> Operator:
        return Multiple(self.factor * factor, self.operator)

    __rmul__ = __mul__

    def __matmul__(self, values: Any) -> Array:
        return self.factor * (self.operator @ values)

    def transposed_product(self, values: Any) -> Array:
        return self.factor * self.operator.transposed_product(values)

    def diagonal(self) -> Array:
        """The diagonal, where A has one."""
        return self.factor * self.operator.diagonal()  # type: ignore[attr-defined]

    def __getitem__(self, places: Any) -> Operator:
        return Multiple(self.factor, self.operator[places])  # type: ignore[index]

    def dense(self) -> Array:
        return self.factor * self.operator.dense()

    def astype(self, dtype: Any) -> Multiple:
        return Multiple(self.factor, self.operator.astype(dtype))

    def __repr__(self) -> str:
        return f"{self.factor!r} * {self.operator!r}"


class Transposed(Operator):
    """Aᵀ of an operator A.

    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> Transposed(Linear().gram(np.eye(3), np.ones((2, 3)))).shape
    (2, 3)
    """

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.shape, self.dtype = operator.shape[::-1], operator.dtype

    @property
    def T(self) -> Operator:
        return self.operator

    def __matmul__(self, values: Any) -> Array:
        return self.operator.transposed_product(values)

    def transposed_product(self, values: Any) -> Array:
        return self.operator @ values

    def __getitem__(self, places: Any) -> Operator:
        rows, columns = places if isinstance(places, tuple) else (places, slice(None))
        return self.operator[columns, rows].T  # type: ignore[index]

    def dense(self) -> Array:
        return self.operator.dense().T

    def astype(self, dtype: Any) -> Transposed:
        return Transposed(self.operator.astype(dtype))

    def __repr__(self) -> str:
        return f"{self.operator!r}.T"
