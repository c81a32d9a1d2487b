"""Compiled passes of feature maps: cosines in place, and the fast Walsh–Hadamard transform.

Arrays of angles are in turns. Every pass works on a block that lies in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.evaluation.cpu import turns
from mercer.evaluation.cpu.vectors import compiled, widen

Pass = Callable[..., None]


def _passes(number: Any, functions: Any) -> dict[str, Pass]:
    cosine, sine = functions.cosine, functions.sine

    @compiled
    def cosines(angles, phases, scale, out, first):  # type: ignore[no-untyped-def]
        widen()
        width = angles.shape[1]
        shift = phases[first : first + width]
        for i in range(angles.shape[0]):
            source, target = angles[i], out[i, first : first + width]
            for j in range(width):
                target[j] = scale * cosine(source[j] + shift[j])

    @compiled
    def pairs(angles, scale, out, first, second):  # type: ignore[no-untyped-def]
        widen()
        width = angles.shape[1]
        for i in range(angles.shape[0]):
            source, target = angles[i], out[i, first : first + width]
            for j in range(width):
                target[j] = scale * cosine(source[j])
            other = out[i, second : second + width]
            for j in range(width):  # a loop of its own: LLVM takes one target a loop
                other[j] = scale * sine(source[j])

    return {"cosines": cosines, "pairs": pairs}


_TABLE = {
    np.dtype(np.float32): _passes(np.float32, turns.in_float32),
    np.dtype(np.float64): _passes(np.float64, turns.in_float64),
}


def cosines(
    angles: np.ndarray, phases: np.ndarray, scale: float, out: np.ndarray, first: int
) -> None:
    """Write scale · cos(2π(u_ij + b_j)) into the columns of `out` from `first` on."""
    _TABLE[angles.dtype]["cosines"](angles, phases, angles.dtype.type(scale), out, first)


def pairs(angles: np.ndarray, scale: float, out: np.ndarray, first: int, second: int) -> None:
    """Write scale · cos(2πu_ij) from column `first` on, scale · sin(2πu_ij) from `second` on."""
    _TABLE[angles.dtype]["pairs"](angles, angles.dtype.type(scale), out, first, second)
