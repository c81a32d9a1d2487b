"""λ = 0: the separating function of least norm, where there is one."""

from __future__ import annotations

import math

import numpy as np

from mercer.solvers.dual.ascent import COARSE, Ascent

LEAST_MARGIN = 1e-6  # of the largest √k(x, x): a thinner margin is taken for none


class HardMargin(Ascent):
    """Ascent for min ½‖f‖² with y_i(f(x_i) + b) ≥ 1: the dual has no upper bounds.

    At α with the margin m = min y_i(f(x_i) + b) > 0 the function f/m is feasible, so the gap is
    ½‖f‖²/m² − (Σ y_iα_i − ½‖f‖²). Every α with s = Σ y_iα_i proves that no function separates with
    a margin above ‖f‖/s.
    """

    margin = 0.0

    def certify(self, halvings: int = COARSE) -> None:
        super().certify(halvings)
        y, values, counted = self.terms.fields[0], self.values, self.terms.fields[3] > 0
        counted = counted | (self.terms.fields[2] < 0)
        norm = max(float(self.alpha @ values), 0.0)
        total = float(self.alpha @ y)
        if self.terms.group is not None:
            least = values[counted & (y > 0)].min(initial=np.inf)
            largest = values[counted & (y < 0)].max(initial=-np.inf)
            self.levels[0] = 0.5 * (least + largest)
        self.margin = float((y * (values - self.levels[0]))[counted].min())
        self.unbounded = (
            total > 0 and math.sqrt(norm) <= LEAST_MARGIN * math.sqrt(self.peak) * total
        )
        self.primal = 0.5 * norm / self.margin**2 if self.margin > 0 else np.inf
        self.gap = max(self.primal - (total - 0.5 * norm), 0.0)

    def scaled(self) -> None:
        """Divide by the margin, which makes it 1."""
        self.alpha, self.values = self.alpha / self.margin, self.values / self.margin
        self.levels = self.levels / self.margin
