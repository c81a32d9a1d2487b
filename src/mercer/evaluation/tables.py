"""Smooth functions of a nonnegative number as piecewise polynomials, for what has no closed form.

A table covers (0, ∞) by octaves [2^e, 2^(e+1)), each cut into equal pieces: which piece a number
falls into, and where in it, is read off the bits of the number, without a search. Numbers outside
take the nearest piece. On a piece the function is the polynomial through its values at Chebyshev
nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

PIECES = {"float32": 16, "float64": 32}  # in an octave
DEGREE = {"float32": 5, "float64": 9}

Function = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Table:
    """A function on [2^lowest, 2^highest), and how to get the table of its derivative.

    Parameters
    ----------
    function : callable
        The function itself, on arrays: the oracle.
    derivative : callable
        Returns the table of the derivative.
    lowest, highest : int
        Octaves that are covered; below and above, the function must have settled.
    """

    function: Function
    derivative: Callable[[], Table]
    lowest: int
    highest: int

    def slope(self) -> Table:
        """The table of the derivative."""
        return self.derivative()

    def first_octave(self, dtype: Any) -> int:
        """The lowest octave that a precision can hold as normal numbers."""
        return max(self.lowest, int(np.finfo(dtype).minexp))

    def last_octave(self, dtype: Any) -> int:
        """The octave at which exp(−x) has left the precision."""
        return min(self.highest, int(np.finfo(dtype).maxexp).bit_length() - 1)

    def coefficients(self, dtype: Any) -> np.ndarray:
        """One row for each piece: a polynomial in w ∈ [−½, ½), lowest degree first.

        The first row is for what lies below the octaves, 0 among it: the value at 0, since a
        function like 1 − x^0.02 has not settled at the least number.
        """
        return _coefficients(self, np.dtype(dtype).name)

    def first_bits(self, dtype: Any) -> int:
        """The bits of the number at which the first row begins, a piece below the octaves."""
        name = np.dtype(dtype).name
        start = np.array(2.0 ** self.first_octave(dtype), dtype)
        bits = int(start.view("int32" if name == "float32" else "int64"))
        return bits - (1 << (np.finfo(dtype).nmant - PIECES[name].bit_length() + 1))


@lru_cache(maxsize=64)
def _coefficients(table: Table, name: str) -> np.ndarray:
    pieces, degree = PIECES[name], DEGREE[name]
    nodes = 0.5 * np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    exponents = np.arange(table.first_octave(name), table.last_octave(name), dtype=np.float64)
    inside = (np.arange(pieces)[:, None] + (nodes + 0.5)) / pieces
    values = table.function(2.0 ** exponents[:, None, None] * (1.0 + inside))
    values = values.reshape(-1, degree + 1)
    level = values.mean(axis=1, keepdims=True)  # taken off: what is small loses fewer digits
    powers = np.linalg.inv(np.vander(nodes, increasing=True))
    coefficients = (values - level) @ powers.T
    coefficients[:, :1] += level
    below = np.zeros((1, degree + 1))
    with np.errstate(all="ignore"):
        below[0, 0] = np.asarray(table.function(np.zeros(1)), np.float64)[0]
    if not np.isfinite(below[0, 0]):  # a slope that grows to the end
        below[0, 0] = coefficients[0] @ (-0.5) ** np.arange(degree + 1)
    return np.ascontiguousarray(np.concatenate([below, coefficients]), dtype=name)
