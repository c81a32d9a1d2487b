"""Measured speed: of matrix products, of kernel values, and of reading a matrix that is stored.

Each is measured once in a process, so that a problem that is posed again is solved by the same
solver.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import as_numpy
from mercer.evaluation.dispatch import program_of
from mercer.operators import Gram
from mercer.points import PointSet, SparsePoints, VectorPoints
from mercer.runtime.threads import thread_count

__all__ = ["Rates", "product_rate", "stored_seconds"]


@dataclass(frozen=True)
class Tuning:
    """Sizes of the products that are timed."""

    stored_bytes: int = 64 << 20  # of a matrix that no cache holds
    stored_width: int = 1 << 14  # of its rows, which are as long as those of a large K
    few: int = 64  # rows that tell the time of a slow kernel
    long: float = 0.05  # seconds of a product that is not timed


TUNING = Tuning()


_KNOWN: dict[Any, float] = {}


@dataclass(frozen=True)
class Rates:
    """Measured speed: multiply-adds a second, and seconds for a kernel value on these points.

    >>> Rates({"float64": 1e10}, value_seconds=1e-9).value_seconds
    1e-09
    """

    multiply_adds: dict[str, float]  # of a large matrix product, by precision
    value_seconds: float  # for each kernel value of a product
    width: int = 1

    @classmethod
    def measured(cls, kernel: Any, points: PointSet) -> Rates:
        """Time a matrix product, and the kernel on some of the points."""
        some = points.slice(0, min(points.machine.probe, len(points)))
        seconds = _once(_likeness(kernel, some), lambda: _value_seconds(kernel, some))
        if points.home == "host" and kernel.factors(some, some) is not None:
            seconds *= len(some) / len(points)  # products of sparse features take time in n, not n²
        rates = {name: product_rate(name, points) for name in ("float32", "float64")}
        return cls(rates, seconds, int(getattr(points, "width", 1)))


def _once(key: Any, measure: Callable[[], float]) -> float:
    """A measurement, made once in each process where there is a key."""
    if key is None:
        return measure()
    if key not in _KNOWN:
        _KNOWN[key] = measure()
    return _KNOWN[key]


def _likeness(kernel: Any, points: PointSet) -> Any:
    """A key of all that the time of a kernel value depends on; None where it is not known."""
    program = program_of(kernel)
    if program is None or not isinstance(points, VectorPoints) or isinstance(points, SparsePoints):
        return None
    widths = tuple(map(points.width_of, program.views))
    where = points.home, thread_count()
    return program.structure, widths, str(points.dtype), len(points), where


def _value_seconds(kernel: Any, points: PointSet) -> float:
    """Seconds for each kernel value of a product.

    Of a kernel that is slow, as one of Python functions is, few rows tell.
    """
    some = points.slice(0, min(TUNING.few, len(points)))
    slow = points.home == "host" and kernel.expression() is None
    if slow and (seconds := _seconds_of(kernel, some)) * len(points) ** 2 > TUNING.long:
        return seconds
    return _seconds_of(kernel, points)


def _seconds_of(kernel: Any, points: PointSet) -> float:
    """Seconds for each kernel value of a product with all of these points."""
    gram = Gram(kernel, points, points.slice(0, len(points)))
    v = points.vector(np.ones(len(points), gram.dtype))

    def product() -> Any:
        return as_numpy((gram @ v)[:1])  # a card is waited for

    product()  # code is loaded
    return min(_timed(product) for _ in range(3)) / len(points) ** 2


def _timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def product_rate(dtype: str, points: PointSet) -> float:
    """Multiply-adds in a second of a matrix product where the points live."""
    order = points.machine.order

    def measure() -> float:
        matrix = points.vector(np.ones((order, order), dtype))

        def product() -> Any:
            return as_numpy((matrix @ matrix)[:1, :1])  # a card is waited for

        product()
        return float(order) ** 3 / min(_timed(product) for _ in range(2))

    return _once((dtype, points.home, thread_count()), measure)


def stored_seconds(dtype: str, columns: int) -> float:
    """Seconds for each value of a stored matrix in a product of NumPy with so many columns.

    A product with one column takes as long as reading the matrix; with two, BLAS copies it in
    blocks first, which takes four times as long (float32, two cores: 0.04 and 0.2 ns), and more
    columns are then free up to about ten. Neither is near what its arithmetic takes.

    >>> 0.0 < stored_seconds("float32", 1) < 1e-6
    True
    """

    def measure() -> float:
        width = TUNING.stored_width
        matrix = np.ones((TUNING.stored_bytes // (width * np.dtype(dtype).itemsize), width), dtype)
        values = np.ones((width, columns) if columns > 1 else width, dtype)
        return min(_timed(lambda: matrix @ values) for _ in range(3)) / matrix.size

    return _once((dtype, columns, thread_count(), "stored"), measure)
