"""λ = 0: the separating function of least norm, where there is one."""

from __future__ import annotations

import math

import numpy as np

from mercer.solvers.dual.ascent import COARSE, Ascent

# Of the largest √k(x, x): a thinner margin is taken for none. float64 would show some that are
# thinner, down to √(n · 2e-16), but steps grow like their inverse: with that limit most refusals
# run into the cap on steps instead of ending within a second.
LEAST_MARGIN = 1e-5


class HardMargin(Ascent):
    """Ascent for min ½‖f‖² with y_i(f(x_i) + b) ≥ 1: the dual has no upper bounds.

    At α with the margin m = min y_i(f(x_i) + b) > 0 the function f/m is feasible, so the gap is
    ½‖f‖²/m² − (Σ y_iα_i − ½‖f‖²). Every α with s = Σ y_iα_i proves that no function separates with
    a margin above ‖f‖/s.
    """

    steps_for_each = 20  # so that a dual without bound shows after some rounds
    margin = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.before = self.alpha.copy(), self.values.copy()

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
        proven = self._proves_none(self.alpha, values) or self._grows_without_end()
        self.unbounded = self.unbounded or proven
        self.primal = 0.5 * norm / self.margin**2 if self.margin > 0 else np.inf
        self.gap = max(self.primal - (total - 0.5 * norm), 0.0)

    def _counts(self, error: float) -> np.ndarray:
        return np.ones(len(self.alpha), bool)  # the margin is that of all points

    def _proves_none(self, alpha: np.ndarray, values: np.ndarray) -> bool:
        """Whether α, with y_iα_i ≥ 0, shows that there is hardly a margin."""
        total = float(alpha @ self.terms.fields[0])
        norm = math.sqrt(max(float(alpha @ values), 0.0))
        return total > 0 and norm <= LEAST_MARGIN * math.sqrt(self.peak) * total

    def _grows_without_end(self) -> bool:
        """The same of what the last round added."""
        added, values = self.alpha - self.before[0], self.values - self.before[1]
        self.before = self.alpha.copy(), self.values.copy()
        same_sign = bool((self.terms.fields[0] * added >= 0).all())
        return same_sign and self._proves_none(added, values)

    def scaled(self) -> None:
        """Divide by the margin, which makes it 1."""
        self.alpha, self.values = self.alpha / self.margin, self.values / self.margin
        self.levels = self.levels / self.margin
