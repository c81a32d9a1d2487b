"""How helpers are compiled: as part of what calls them, which alone is kept on disk.

They copy and search with plain loops: array expressions would take Numba ten times as long.
"""

from __future__ import annotations

from typing import Any

from numba import njit
from numba.core import types
from numba.extending import intrinsic

from mercer.evaluation.cpu.vectors import OPTIONS, widen

inner = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **OPTIONS)  # never called from Python


@intrinsic
def apart(typing_context: Any) -> Any:
    """Keep LLVM from copying the calling function into its callers, where it is compiled again."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), code


@inner
def copy_row(target, i, source, j):  # type: ignore[no-untyped-def]
    """target[i] = source[j]."""
    for k in range(target.shape[1]):
        target[i, k] = source[j, k]


@inner
def scale_row(target, i, factor):  # type: ignore[no-untyped-def]
    """target[i] *= factor."""
    for k in range(target.shape[1]):
        target[i, k] *= factor


@inner
def _lower(x, y):  # type: ignore[no-untyped-def]
    """One instruction, which Python's min is not: that looks at NaN."""
    return x if x < y else y


@inner
def least(values, count):  # type: ignore[no-untyped-def]
    """Where the least of the first `count` values stands.

    Four chains of comparisons run beside each other, and the search for the place is vectorised.
    """
    widen()
    a = b = c = d = values[0]
    whole = count - count % 4
    for j in range(0, whole, 4):
        a, b = _lower(values[j], a), _lower(values[j + 1], b)
        c, d = _lower(values[j + 2], c), _lower(values[j + 3], d)
    for j in range(whole, count):
        a = _lower(values[j], a)
    lowest, first = _lower(_lower(a, b), _lower(c, d)), count
    for j in range(count):
        first = _lower(j if values[j] == lowest else count, first)
    return first
