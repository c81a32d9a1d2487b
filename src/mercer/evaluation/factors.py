"""K(X, Y) = A Bᵀ with sparse A and B: products take time linear in the number of points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.evaluation.execution import RowMap, RowPass
from mercer.runtime.threads import spans

STRIP = 4096  # rows of A that a row pass reads twice while they are in the cache


@dataclass(frozen=True, eq=False)
class Factors:
    """Sparse features of the rows and of the columns, with the same columns in both.

    Sums are in float64.
    """

    rows: Any  # CSR, n × features
    columns: Any  # CSR, m × features

    @property
    def T(self) -> Factors:
        return Factors(self.columns, self.rows)

    def bytes_needed(self, columns: int) -> int:
        """What a product with so many columns stores beside its input and output."""
        return 8 * columns * self.rows.shape[1]

    def product(self, values: np.ndarray) -> np.ndarray:
        """A (Bᵀ V)."""
        return np.asarray(self.rows @ (self.columns.T @ values.astype(np.float64)))

    def row_pass(self, values: np.ndarray, row_map: RowMap) -> RowPass:
        """B Aᵀ M(A Bᵀ V), strip by strip of the rows."""
        weights = self.columns.T @ values.astype(np.float64)
        total: Any = 0.0
        sums: list[Any] = []
        kept: list[Any] = []
        for start, stop in spans(self.rows.shape[0], STRIP):
            strip = self.rows[start:stop]
            mapped = row_map(start, stop, (strip @ weights).astype(values.dtype))
            total = total + strip.T @ np.asarray(mapped.product, np.float64)
            sums.append(mapped.sums)
            kept.append(mapped.values)
        added = None if sums[0] is None else sum(sums[1:], sums[0])
        return RowPass(
            np.asarray(self.columns @ total),
            added,
            None if kept[0] is None else np.concatenate(kept),
        )
