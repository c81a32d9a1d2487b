"""Squared distances from inner products, without losing digits.

‖x−y‖² = ‖x‖² + ‖y‖² − 2⟨x,y⟩ is exact to rounding relative to ‖x‖² + ‖y‖². Pairs that are close
in comparison to that are summed again from their differences, so that every distance is right
relative to itself, whatever the origin, the lengthscale and the kernel's shape at zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from mercer.evaluation.cpu.vectors import OPTIONS, compiled, widen

# The expansion is off by about ε(‖x‖² + ‖y‖²). For a distance of this share of ‖x‖² + ‖y‖² that is
# 10ε of it in float32, and 100ε in float64, which has digits to spare; closer ones are repaired.
CLOSENESS = {np.dtype(np.float32): np.float32(0.1), np.dtype(np.float64): np.float64(0.01)}


@compiled
def expand(row, x_norm, y_norms, closeness):  # type: ignore[no-untyped-def]
    """Products to distances in place; returns how many of the row's pairs are close."""
    close = 0
    for j in range(len(row)):
        total = x_norm + y_norms[j]
        distance = total - (row[j] + row[j])
        close += 1 if distance < closeness * total else 0
        row[j] = distance
    return close


@compiled
def dense_distances(tile, x, y, scales, x_norms, y_norms, closeness):  # type: ignore[no-untyped-def]
    """Turn a tile of products of dense rows into squared distances, in place."""
    widen()
    for i in range(tile.shape[0]):
        row, point = tile[i], x[i]
        if expand(row, x_norms[i], y_norms, closeness):
            for j in range(len(row)):
                if row[j] < closeness * (x_norms[i] + y_norms[j]):
                    row[j] = _dense_distance(point, y[j], scales)


@njit(**OPTIONS)
def _dense_distance(x, y, scales):  # type: ignore[no-untyped-def]
    total = x.dtype.type(0)
    for k in range(len(x)):
        gap = (x[k] - y[k]) * scales[k]
        total += gap * gap
    return total


def closeness(dtype: Any) -> Any:
    """Distances below this share of ‖x‖² + ‖y‖² are computed from differences."""
    return CLOSENESS[np.dtype(dtype)]
