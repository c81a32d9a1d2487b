"""Numbers too small to be normal, taken for zero while compiled code runs.

A product of two small kernel values, or of one with a small coefficient, may lie below the least
normal number; processors then need a hundred cycles for one multiplication. What is lost lies
below 1.2e-38 in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mercer.runtime.cache import compiled_on_disk

FLUSH = 0x8040  # results and operands, in the control word of x86
KNOWN = "x86" in llvm.get_process_triple()


def _call(builder: Any, name: str, place: Any) -> None:
    pointer = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.sse.{name}")
    builder.call(function, [builder.bitcast(place, pointer)])


@intrinsic
def flush_subnormals(typing_context: Any) -> Any:
    """Begin to take them for zero in this thread; what is returned ends it."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(32)
        if not KNOWN:
            return ir.Constant(word, 0)
        place = cgutils.alloca_once(builder, word)
        _call(builder, "stmxcsr", place)
        before = builder.load(place)
        builder.store(builder.or_(before, ir.Constant(word, FLUSH)), place)
        _call(builder, "ldmxcsr", place)
        return before

    return types.int32(), code


@intrinsic
def restore_subnormals(typing_context: Any, before: Any) -> Any:
    """Compute as before `flush_subnormals`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if KNOWN:
            place = cgutils.alloca_once(builder, ir.IntType(32))
            builder.store(arguments[0], place)
            _call(builder, "ldmxcsr", place)
        return context.get_dummy_value()

    return types.void(types.int32), code


def _begin():  # type: ignore[no-untyped-def]
    return flush_subnormals()


def _end(before):  # type: ignore[no-untyped-def]
    restore_subnormals(before)


begin, end = (compiled_on_disk(function, {"nogil": True}) for function in (_begin, _end))


@contextmanager
def flushed() -> Iterator[None]:
    """Take subnormal numbers for zero in this thread, in BLAS too."""
    before = begin()
    try:
        yield
    finally:
        end(before)
