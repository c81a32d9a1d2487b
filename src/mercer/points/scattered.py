"""Points whose rows lie on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.distributed.admission import admitted, names_of
from mercer.distributed.rows import Rows
from mercer.points.kinds import AS_IT_IS, DOUBLE, FIRST_COLUMN, SINGLE, DensePoints, VectorPoints
from mercer.runtime.budget import free_memory
from mercer.runtime.machine import CLUSTER


@dataclass(frozen=True, eq=False)
class ScatteredPoints(VectorPoints):
    """Rows of numbers in blocks on workers. Those that are taken come here, as dense points."""

    rows: Rows
    home = "cluster"
    machine = CLUSTER

    def slice(self, start: int, stop: int) -> Any:
        return DensePoints(self.rows[start:stop], self.names)

    def take(self, indices: Any) -> Any:
        """Rows come once: those of a preconditioner are asked for again by each certificate."""
        numbers = np.asarray(indices)
        last, points = self.rows.cached.get("taken", (None, None))
        if last is None or not np.array_equal(last, numbers):
            points = DensePoints(self.rows[numbers], self.names)
            self.rows.cached["taken"] = numbers, points
        return points

    def concatenated(self, other: Any) -> Any:
        raise NotImplementedError("points on a cluster are not put one below the other.")

    def host(self) -> Any:
        """All points here, where there is room."""
        needed = self.rows.size * self.dtype.itemsize
        if needed > free_memory():
            raise MemoryError(
                f"{len(self)} rows on a cluster take {needed / 2**30:.1f} GB, more than is free "
                "here: take some of them."
            )
        return DensePoints(np.asarray(self.rows), self.names)

    def vector(self, values: Any) -> Array:
        """Numbers for each row go to the workers; others stay arrays of NumPy."""
        if isinstance(values, Rows) or len(values) != len(self):
            return values
        return admitted(values, beside=self.rows, what="values")

    def admitted(self, values: Any, dtype: np.dtype) -> tuple[Array, Callable[..., Array]]:
        rows = admitted(values, beside=self.rows, what="values")
        wide = DOUBLE if DOUBLE in (rows.dtype, dtype) else SINGLE
        columns = rows[:, None] if rows.ndim == 1 else rows
        return columns.astype(wide), FIRST_COLUMN if rows.ndim == 1 else AS_IT_IS


def scattered_points(data: Any) -> ScatteredPoints:
    """Rows on a cluster as points."""
    rows = admitted(data)
    if rows.ndim != 2:
        raise ValueError(
            f"points must be two-dimensional, one row for each point; got shape {rows.shape}. "
            "Write X.reshape(-1, 1) for points on the line."
        )
    if rows.dtype.kind not in "fiub":
        raise ValueError(f"points must be numbers; got an array of {rows.dtype}.")
    return ScatteredPoints(rows, names_of(data))
