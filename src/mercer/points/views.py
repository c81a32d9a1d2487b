"""Views: what a kernel takes of vectors, as columns, linear maps, scales and lengths."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

Column = int | str


@dataclass(frozen=True)
class View:
    """What a kernel takes of a point, step by step.

    It selects some columns (None: all), multiplies by a matrix (rows of numbers), multiplies each
    coordinate by its scale, and with `unit` divides by the length; a point at 0 stays there.
    """

    columns: tuple[Column, ...] | None = None
    scales: tuple[float, ...] | None = None
    unit: bool = False
    matrix: tuple[tuple[float, ...], ...] | None = None

    @property
    def deferred_scales(self) -> tuple[float, ...] | None:
        """Scales that can wait until differences were taken, which keeps their digits."""
        return None if self.unit else self.scales

    @property
    def unscaled(self) -> View:
        """This view before its deferred scales."""
        return self if self.unit or self.scales is None else replace(self, scales=None)

    def mapped(self, matrix: np.ndarray) -> View:
        """This view, taken of the points A x."""
        if any(isinstance(column, str) for column in self.columns or ()):
            raise ValueError("after a linear map columns have no names: select them by number.")
        rows = matrix if self.columns is None else matrix[np.array(self.columns, dtype=int)]
        total = rows if self.matrix is None else np.array(self.matrix) @ rows
        return replace(self, columns=None, matrix=tuple(map(tuple, total.tolist())))

    def restricted(self, columns: tuple[Column, ...]) -> View:
        """This view, taken of points that keep only `columns`."""
        if self.columns is None:
            return replace(self, columns=columns)
        return replace(self, columns=tuple(_nested(c, columns) for c in self.columns))


def _nested(column: Column, columns: tuple[Column, ...]) -> Column:
    if isinstance(column, str):
        if column in columns:
            return column
        raise ValueError(f"column {column!r} is not among the selected columns {list(columns)}.")
    if not -len(columns) <= column < len(columns):
        raise ValueError(
            f"column {column} does not exist among the {len(columns)} selected columns "
            f"{list(columns)}."
        )
    return columns[column]


ALL_COLUMNS = View()
