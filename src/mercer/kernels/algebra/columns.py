"""A kernel on some columns of its points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.evaluation.expression import Expression, restricted
from mercer.evaluation.gradients import add_columns
from mercer.kernels.algebra.combinations import Product, Scaled, Sum, bracketed
from mercer.kernels.algebra.derivatives import derivative_of
from mercer.kernels.base import Kernel
from mercer.points import Column, PointSet, VectorPoints, View


@dataclass(frozen=True, eq=False, repr=False)
class Columns(Kernel):
    """A kernel that looks at some columns only: `kernel.on(columns)`.

    Parameters
    ----------
    kernel : Kernel
        What is evaluated on the selected columns.
    columns : sequence of int or str
        Numbers, or names of the columns of a DataFrame.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> Linear().on(1)([5.0, 2.0], [7.0, 3.0])
    6.0
    """

    kernel: Kernel
    columns: Sequence[Column]

    def __post_init__(self) -> None:
        valid = (str, int, np.integer)
        columns = self.columns
        if isinstance(columns, str) or not len(columns):
            raise ValueError(f"columns must be a list with at least one column; got {columns!r}.")
        for column in columns:
            if not isinstance(column, valid) or isinstance(column, bool):
                raise ValueError(
                    f"columns are numbers or names; got {column!r}. Write for example "
                    "kernel.on([0, 2]) or kernel.on('age')."
                )

    def expression(self) -> Expression | None:
        inner = self.kernel.expression()
        return None if inner is None else restricted(inner, self._columns())

    def _columns(self) -> tuple[Column, ...]:
        return tuple(c if isinstance(c, str) else int(c) for c in self.columns)

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        if self.expression() is not None:
            return super().block(x, y)
        return self.kernel.block(self._selected(x), self._selected(y))

    def diagonal(self, x: PointSet) -> np.ndarray:
        if self.expression() is not None:
            return super().diagonal(x)
        return self.kernel.diagonal(self._selected(x))

    def derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        assert isinstance(x, VectorPoints)
        inner = derivative_of(self.kernel, self._selected(x), self._selected(y))
        out = np.zeros((*inner.shape[:2], x.width))
        positions = x.positions(View(self._columns()))
        assert positions is not None
        add_columns(out, positions, inner)
        return out

    def check_points(self, points: PointSet) -> None:
        self.kernel.check_points(self._selected(points))

    def feature_count(self, width: int) -> int | None:
        return self.kernel.feature_count(len(self.columns))

    def features(self, x: PointSet) -> np.ndarray:
        return self.kernel.features(self._selected(x))

    def _selected(self, points: Any) -> Any:
        view = View(self._columns())
        names = None if points.names is None else tuple(map(str, self.columns))
        return points.made_of(points.seen(view, points.dtype), names)

    @property
    def takes_tensors(self) -> bool:
        return self.kernel.takes_tensors

    @property
    def parallel(self) -> bool:
        return self.kernel.parallel

    def __repr__(self) -> str:
        return f"{bracketed(self.kernel, Sum, Product, Scaled)}.on({list(self.columns)!r})"
