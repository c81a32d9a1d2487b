"""Functions in C that compiled loops call by their addresses: pair numbers, exponentials, values.

The loops over coordinates are most of what a product runs, and the same for all kernels: they are
compiled once. What differs between kernels, the steps from pair numbers to values, is a function of
its own with as little around it as possible, since a user waits for it. All arguments are integers
and addresses, so that `call` serves them all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import carray, cfunc
from numba.core import cgutils, types
from numba.core.types.containers import UniTuple
from numba.core.types.misc import CPointer
from numba.core.typing import Signature
from numba.extending import intrinsic

from mercer.evaluation.cpu.terms import decay_step
from mercer.evaluation.cpu.vectors import (
    CALLED_BY_C,
    DIFFERENCE,
    PRODUCT,
    SCALED_DIFFERENCE,
    SCALED_PRODUCT,
    difference_step,
    product_step,
    scaled_difference_step,
    scaled_product_step,
    widen,
)
from mercer.runtime.cache import compiled_on_disk

INDEX = types.intp


def fill_products(  # type: ignore[no-untyped-def]
    source, x, x_width, y, y_width, scales, row, column, width, step, panel, panel_width
):
    """⟨x, y⟩ of PANEL_ROWS rows with `width` columns into `panel`, from packed operands."""
    widen()
    rows, columns = carray(x, (1, x_width)), carray(y, (1, y_width))
    factors, out = carray(scales, (1,)), carray(panel, (1, panel_width))
    if source == PRODUCT:
        for j in range(0, width, step):
            product_step(rows, columns, factors, row, column + j, out, j)
    elif source == SCALED_PRODUCT:
        for j in range(0, width, step):
            scaled_product_step(rows, columns, factors, row, column + j, out, j)


def fill_distances(  # type: ignore[no-untyped-def]
    source, x, x_width, y, y_width, scales, row, column, width, step, panel, panel_width
):
    """‖x − y‖² of PANEL_ROWS rows with `width` columns into `panel`, from packed operands."""
    widen()
    rows, columns = carray(x, (1, x_width)), carray(y, (1, y_width))
    factors, out = carray(scales, (1,)), carray(panel, (1, panel_width))
    if source == DIFFERENCE:
        for j in range(0, width, step):
            difference_step(rows, columns, factors, row, column + j, out, j)
    elif source == SCALED_DIFFERENCE:
        for j in range(0, width, step):
            scaled_difference_step(rows, columns, factors, row, column + j, out, j)


def fill_decays(  # type: ignore[no-untyped-def]
    copied, given, given_width, rows, width, step, panel, panel_width, factor
):
    """exp(−factor · q) of pair numbers in `panel`, copied there before if they are elsewhere."""
    widen()
    numbers, out = carray(given, (rows, given_width)), carray(panel, (rows, panel_width))
    for r in range(rows):
        if copied:
            line, target = numbers[r, :width], out[r]
            for j in range(width):  # `target[:] = line` would compile error messages for seconds
                target[j] = line[j]
        for j in range(0, width, step):
            decay_step(out, r, j, factor[0])


# ---- what they take ------------------------------------------------------------------------------


def fill_signature(number: Any) -> Signature:
    """Of functions that fill a panel with pair numbers, as `fill_products` does."""
    array = CPointer(number)
    operands = [array, INDEX, array, INDEX, array]
    return types.void(INDEX, *operands, INDEX, INDEX, INDEX, INDEX, array, INDEX)


def own_signature(number: Any) -> Signature:
    """Of generated functions that use pair numbers: `source.FUNCTION` has the names."""
    array, sizes = CPointer(number), CPointer(INDEX)
    numbers = [CPointer(array), sizes, array, INDEX, array, INDEX, array, CPointer(array), sizes]
    return types.void(INDEX, INDEX, INDEX, INDEX, *numbers, array, array, INDEX)


def _decays_signature(number: Any) -> Signature:
    array = CPointer(number)
    return types.void(INDEX, array, INDEX, INDEX, INDEX, INDEX, array, INDEX, array)


FUNCTIONS = {
    "product": (fill_products, fill_signature),
    "squared_distance": (fill_distances, fill_signature),
    "decay": (fill_decays, _decays_signature),
}
compiling = threading.RLock()  # two threads would compile each its own


def address_of(name: str, dtype: str) -> int:
    """Where a function of this file lies, after it was compiled or loaded."""
    with compiling:
        return _compiled(name, dtype).address


@cache
def _compiled(name: str, dtype: str) -> Any:
    function, signature = FUNCTIONS[name]
    compiler = partial(cfunc, signature(getattr(types, dtype)))
    return compiled_on_disk(function, CALLED_BY_C, compiler)


def in_c(function: Any, signature: Callable[[Any], Signature], dtype: str) -> Any:
    """A generated function as one in C, stored on disk where its text is."""
    on_disk = not function.__code__.co_filename.startswith("<")
    return cfunc(signature(getattr(types, dtype)), cache=on_disk, **CALLED_BY_C)(function)


# ---- how they are called -------------------------------------------------------------------------


@intrinsic
def call(typing_context: Any, function: Any, arguments: Any) -> Any:
    """Call a function in C by its address; a tuple of integers and addresses is what it takes."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        values = cgutils.unpack_tuple(builder, given[1])
        kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
        builder.call(builder.inttoptr(given[0], kind.as_pointer()), values)
        return context.get_dummy_value()

    return types.void(INDEX, UniTuple(INDEX, len(arguments))), code


@intrinsic
def address(typing_context: Any, array: Any) -> Any:
    """Where the first number of an array lies."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, given[0])
        return builder.ptrtoint(made.data, context.get_value_type(INDEX))

    return INDEX(array), code


@intrinsic
def numbers_at(typing_context: Any, place: Any, array: Any) -> Any:
    """The numbers from an address on, of the precision of an array."""
    kind = CPointer(array.dtype)

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.inttoptr(given[0], context.get_value_type(kind))

    return kind(INDEX, array), code


# ---- subnormal numbers ---------------------------------------------------------------------------
#
# A product of two small kernel values, or of one with a small coefficient, may lie below the least
# normal number; processors then need a hundred cycles for one multiplication. While compiled code
# runs such numbers are taken for zero: what is lost lies below 1.2e-38 in float32.

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
