"""Minima and maxima of loops, and where they are: written so that they run on whole vectors.

LLVM keeps a minimum in one register, and waits for it in every turn of a loop, unless the
comparison itself says that no number is NaN. Numba's `min` and `max` do not say so; these do.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mercer.evaluation.cpu.vectors import widen
from mercer.solvers.dual.compiled.terms import compiled


def _chosen(instruction: str) -> Any:
    """A function of two float64 numbers, neither of them NaN."""

    def typed(typing_context: Any, a: Any, b: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            number = ir.DoubleType()
            shape = ir.FunctionType(number, [number, number])
            function = builder.module.declare_intrinsic(instruction, [number], shape)
            return builder.call(function, arguments, fastmath=("nnan", "nsz"))

        return types.float64(types.float64, types.float64), code

    return intrinsic(typed)


smaller = _chosen("llvm.minnum")
larger = _chosen("llvm.maxnum")


@compiled
def place_of(value, array):  # type: ignore[no-untyped-def]
    """The first place where the array holds the value, −1 where it does not."""
    widen()
    n = len(array)
    place = n
    for i in range(n):
        place = min(place, i if array[i] == value else n)
    return place if place < n else -1
