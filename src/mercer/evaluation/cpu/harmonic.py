"""Σ_k (x_k − y_k)²/(x_k + y_k) from harmonic means: one reciprocal for several coordinates.

For x, y ≥ 0 it is |x|₁ + |y|₁ − 4 Σ_k 1/(1/x_k + 1/y_k). The 1/x_k are numbers of one point, and a
sum of five fractions has one denominator. The difference costs digits: exp(−γ · …) has an error of
a few rounding units times γ(|x|₁ + |y|₁), which is forgiven where that is not large (`folding`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.evaluation.cpu.pieces import Decays
from mercer.evaluation.expression import Number
from mercer.evaluation.folding import FORGIVEN, STRICT
from mercer.evaluation.program import Program, coordinate_code

GROUP = 5  # coordinates with one reciprocal
TOGETHER = 2  # vectors of columns
LEAST = 3  # columns from which it is quicker
MODEST = 1e30  # γ and 1/γ up to which all numbers stay within float32
SHARE = 0.45  # of what is forgiven for a distance: there are more roundings in a harmonic mean
TINY = {"float32": 2.0**-30, "float64": 2.0**-150}  # added to γx_k: less than rounding takes
UNIT = 2.0**-6  # of 1/(γx_k): five sums of two of them, multiplied, stay within the range
TERM = (
    ("subtract", "x0", "y0"),
    ("add", "x0", "y0"),
    ("divide", "t0", "t1"),
    ("multiply", "t0", "t2"),
)


def laws(program: Program) -> dict[int, Harmonic]:
    """Those of a program, by the number of the sum.

    >>> from mercer.evaluation.expression import X, Y, coordinate_sum, decay
    >>> from mercer.evaluation.program import lower
    >>> gap = X - Y
    >>> laws(lower(decay(0.5 * coordinate_sum(gap * (gap / (X + Y))))))
    {0: Harmonic(factor=0.5)}
    """
    return {
        i: Harmonic(program.parameters[int(name[1:])])
        for i, name in Decays.of(program).factors.items()
        if _is_harmonic(program.pairs[i])
    }


def _is_harmonic(number: Number) -> bool:
    if number.kind != "coordinate_sum" or number.term is None:
        return False
    code = coordinate_code(number.term)
    scaled_in_pairs = code.raw and number.view.deferred_scales is not None
    return code.instructions == TERM and not scaled_in_pairs


@dataclass(frozen=True)
class Inverses:
    """1/x_k of some points, then |x|₁, as compiled code reads them, and the largest γ|x|₁."""

    operand: np.ndarray
    largest: float


@dataclass(frozen=True)
class Harmonic:
    """What a sum is where exp(−γ · sum) is all that a program makes of it."""

    factor: float

    def inverses(self, rows: np.ndarray) -> Inverses | None:
        """Those of points, a row for each; None where the sum must be taken from differences."""
        (count, width), tiny = rows.shape, TINY[rows.dtype.name]
        if width < LEAST or not 1 / MODEST <= self.factor <= MODEST:
            return None
        scaled = np.zeros((count, self.length(width) - 1))
        np.multiply(rows, self.factor, out=scaled[:, :width], dtype=np.float64)
        scaled += tiny
        sums = scaled.sum(axis=1)
        largest = float(sums.max(initial=0.0))
        if not largest <= SHARE * FORGIVEN or not scaled.min(initial=tiny) >= tiny:  # NaN, too
            return None
        operand = np.empty((count, self.length(width)), rows.dtype)
        np.divide(UNIT, scaled, out=operand[:, :-1], casting="same_kind")
        operand[:, -1] = sums / self.factor
        return Inverses(operand, largest)

    @staticmethod
    def length(width: int) -> int:
        """Numbers of a point: inverses in whole groups, those beyond the columns of 0, and |x|₁."""
        return -(-width // GROUP) * GROUP + 1

    def holds(self, x: Inverses, y: Inverses, stored: bool) -> bool:
        """Whether enough digits are left between these points."""
        return x.largest + y.largest <= SHARE * (STRICT if stored else FORGIVEN)

    def constants(self, width: int, dtype: Any) -> np.ndarray:
        """The factor of the sum of harmonic means, after as many numbers as there are groups."""
        groups = self.length(width) // GROUP
        return np.array([0.0] * groups + [4.0 * UNIT / self.factor], dtype)
