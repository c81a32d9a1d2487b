"""Products with K: a fast one for the many steps, an exact one for what is reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mercer.arrays import on_host
from mercer.operators import Gram
from mercer.runtime.budget import memory_budget
from mercer.solvers.root import Root

Multiply = Callable[[np.ndarray], np.ndarray]

SMALL = 2000  # points up to which K is stored in float64


@dataclass(frozen=True, eq=False)
class Products:
    """V ↦ KV twice: `exact` in float64, and `fast`, in float32 where K is stored so.

    `matrix` is the stored K, None where it is not stored.
    """

    exact: Multiply
    fast: Multiply
    dtype: np.dtype
    matrix: np.ndarray | None
    note: str

    @property
    def same(self) -> bool:
        """Whether the fast product is the exact one."""
        return self.fast is self.exact

    @classmethod
    def of(cls, gram: Gram, root: Root | None = None) -> Products:
        """K stored in float64 where it is small or slow to compute, else in float32, else lazy."""
        double = np.dtype(np.float64)
        if root is not None:
            wide = Root(root.features.astype(np.float64, copy=False), root.missing)
            exact = wide.multiply if root.missing == 0.0 else _lazy(gram)
            return cls(exact, wide.multiply, double, None, root.note)
        if gram.on_tensors:
            return cls._on_device(gram)
        n, budget = gram.shape[0], memory_budget(gram.memory)
        slow = gram.kernel.expression() is None
        if (n <= SMALL or slow) and 8 * n * n <= budget:
            matrix = gram.astype(np.float64).dense()
            stored = _stored(matrix)
            return cls(stored, stored, double, matrix, "K stored")
        if 4 * n * n <= budget:
            single = gram.astype(np.float32).dense()
            if np.isfinite(single.sum(dtype=np.float64)):
                kind = np.dtype(np.float32)
                return cls(_lazy(gram), _stored(single), kind, single, "K stored in float32")
        lazy = _lazy(gram)
        return cls(lazy, lazy, double, None, "K computed for each product")

    @classmethod
    def _on_device(cls, gram: Gram) -> Products:
        """K on the device of its points, vectors on the host; a small K is stored there, too."""
        if gram.shape[0] <= SMALL:
            matrix = on_host(gram.astype(np.float64).dense())
            stored = _stored(matrix)
            return cls(stored, stored, np.dtype(np.float64), matrix, "K stored")
        single = gram.astype(np.float32)

        def fast(values: np.ndarray) -> np.ndarray:
            return _product(single, values.astype(np.float32, copy=False))

        kind, note = np.dtype(np.float32), "K computed on the device for each product, in float32"
        return cls(_lazy(gram), fast, kind, None, note)


def _lazy(gram: Gram) -> Multiply:
    return lambda values: _product(gram, values.astype(np.float64))


def _product(gram: Gram, values: np.ndarray) -> np.ndarray:
    return on_host(gram @ gram.x.vector(values))


def _stored(matrix: np.ndarray) -> Multiply:
    kind = matrix.dtype
    return lambda values: matrix @ values.astype(kind, copy=False)
