"""Products in float32 that are computed in float64, where the units of points leave its range.

Squares of numbers beyond 1e19, or below 1e-19, are not numbers of float32; a kernel of x/ℓ is the
same in every unit, and so are its values here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.evaluation.execution import Execution, Names, Plan, RowMap, RowPass
from mercer.evaluation.program import Program
from mercer.points import SparsePoints

LARGEST_COORDINATE = 1e15  # whose squares, times many columns, are numbers of float32
STEEPEST_PARAMETER = 1e30  # parameter, as 1/ℓ², alone and times a squared distance


def leaves_single(program: Program, x: Any, y: Any) -> bool:
    """Whether points in their units, or the constants of a kernel, are too large or too small."""
    scales = [abs(scale) for view in program.views for scale in view.scales or () if scale]
    steepest = max([1.0, *map(abs, program.parameters)])
    if steepest > STEEPEST_PARAMETER:
        return True
    for points in (x,) if y is x else (x, y):
        largest = _largest(points)
        sizes = [largest * scale for scale in (1.0, *scales)]
        fits = (
            min(sizes) >= 1.0 / LARGEST_COORDINATE
            and max(sizes) ** 2 * steepest <= STEEPEST_PARAMETER
        )
        if largest and not fits:
            return True
    return False


def _largest(points: Any) -> float:
    """The size of the largest coordinate."""
    values = points.rows.data if isinstance(points, SparsePoints) else points.rows
    if not values.size:
        return 0.0
    return max(float(values.max()), -float(values.min()))


class Widened:
    """An execution in float64 as one of float32."""

    def __init__(self, inside: Execution) -> None:
        self.inside = inside

    def product(self, values: np.ndarray) -> np.ndarray:
        return _narrow(self.inside.product(_wide(values)))

    def transposed_product(self, values: np.ndarray) -> np.ndarray:
        return _narrow(self.inside.transposed_product(_wide(values)))

    def row_pass(self, values: np.ndarray, row_map: RowMap) -> RowPass:
        return self.inside.row_pass(_wide(values), row_map)

    def block(self) -> np.ndarray:
        return _narrow(self.inside.block())

    def diagonal(self) -> np.ndarray:
        return _narrow(self.inside.diagonal())

    def gradient(self, values: np.ndarray) -> np.ndarray:
        return _narrow(self.inside.gradient(_wide(values)))

    def parameter_gradient(
        self, left: np.ndarray, right: np.ndarray | None = None, names: Names = None
    ) -> dict[str, Any]:
        return self.inside.parameter_gradient(left, right, names)

    def plan(self, columns: int) -> Plan:
        return self.inside.plan(columns)


def _wide(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, np.float64)


def _narrow(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(np.float32)
