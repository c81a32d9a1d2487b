"""K(X, Y) on a device for points that are not there: blocks of them are brought, one after another.

Each verb is a sum over pairs of blocks, in a fixed order, of what the device gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mercer.arrays import Array, namespace, to_precision, zeros
from mercer.evaluation.execution import (
    Execution,
    Names,
    Plan,
    RowMap,
    RowPass,
    added_passes,
    part_of,
)
from mercer.evaluation.program import EvaluableKernel
from mercer.points import PointSet
from mercer.runtime.budget import Memory


@dataclass(eq=False)
class Streamed:
    """The verbs of an execution by blocks of rows, of columns, or of both."""

    kernel: EvaluableKernel
    x: PointSet
    y: PointSet
    dtype: Any
    memory: Memory = None
    precision: str | None = None

    def _inside(self, rows: PointSet, columns: PointSet) -> Execution:
        from mercer.evaluation.dispatch import execution_for

        more = self.dtype, self.memory, self.precision
        return execution_for(self.kernel, rows, columns, *more)

    def _pairs(self) -> Iterator[tuple[slice, slice, Execution]]:
        """Places of rows and of columns, and the execution of the block."""
        for rows, x in _blocks(self.x):
            for columns, y in _blocks(self.y):
                yield rows, columns, self._inside(x, y)

    def product(self, values: Array) -> Array:
        total = zeros((len(self.x), values.shape[1]), values, "float64")
        for rows, columns, inside in self._pairs():
            total[rows] += inside.product(values[columns])
        return to_precision(total, values.dtype)

    def transposed_product(self, values: Array) -> Array:
        total = zeros((len(self.y), values.shape[1]), values, "float64")
        for rows, columns, inside in self._pairs():
            total[columns] += inside.transposed_product(values[rows])
        return to_precision(total, values.dtype)

    def row_pass(self, values: Array, row_map: RowMap) -> RowPass:
        """A pass for each block of rows; where columns come in blocks, too, points come twice."""
        if is_streamed(self.y) or not len(self.x):
            mapped = row_map(0, len(self.x), self.product(values))
            product = self.transposed_product(to_precision(mapped.product, values.dtype))
            return RowPass(to_precision(product, "float64"), mapped.sums, mapped.values)
        return added_passes(
            self._inside(x, self.y).row_pass(values, part_of(row_map, rows.start, len(x)))
            for rows, x in _blocks(self.x)
        )

    def block(self) -> Array:
        strips: list[Array] = []
        for _, x in _blocks(self.x):
            strip = [self._inside(x, y).block() for _, y in _blocks(self.y)]
            strips.append(namespace(*strip).concat(strip, axis=1))
        return namespace(*strips).concat(strips, axis=0)

    def diagonal(self) -> Array:
        parts = [self._inside(x, x).diagonal() for _, x in _blocks(self.x)]
        return namespace(*parts).concat(parts)

    def gradient(self, values: Array) -> Array:
        strips: list[Array] = []
        for _, x in _blocks(self.x):
            parts = (self._inside(x, y).gradient(values[place]) for place, y in _blocks(self.y))
            strips.append(sum(parts, start=next(parts)))
        return namespace(*strips).concat(strips, axis=0)

    def parameter_gradient(
        self, left: Array, right: Array | None = None, names: Names = None
    ) -> dict[str, Any]:
        total: dict[str, Array] = {}
        for rows, columns, inside in self._pairs():
            own = left[rows, columns] if right is None else left[rows]
            other = None if right is None else right[columns]
            for name, slope in inside.parameter_gradient(own, other, names).items():
                total[name] = total[name] + slope if name in total else slope
        return total

    def plan(self, columns: int) -> Plan:
        """That of a pair of blocks."""
        _, _, inside = next(self._pairs())
        return inside.plan(columns)


def _blocks(points: Any) -> Iterator[tuple[slice, Any]]:
    """Points that are in blocks, one after another; others at once."""
    if is_streamed(points):
        yield from points.blocks()
    else:
        yield slice(0, len(points)), points


def is_streamed(points: Any) -> bool:
    """Whether points are not where they are computed with."""
    return getattr(points, "in_blocks", False)
