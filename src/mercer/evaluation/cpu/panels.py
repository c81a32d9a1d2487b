"""Pair numbers of a panel, and their exponentials: compiled once, and called by every program.

The loops over coordinates are most of what a program runs, and the same in all of them. So they are
functions of their own, which generated code calls by the name that `announce` gives to LLVM: a
program then takes half the time to compile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import carray, cfunc
from numba.core import cgutils, types
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
    TILE,
    difference_step,
    product_step,
    scaled_difference_step,
    scaled_product_step,
    widen,
)
from mercer.runtime.cache import compiled_on_disk

SIZE = types.intp


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
    source, tile, tile_width, row, rows, column, width, step, panel, panel_width, factor
):
    """exp(−factor · q) of pair numbers in `panel`, where they were filled in, or in a tile."""
    widen()
    given = carray(tile, (row + rows, tile_width))
    out = carray(panel, (rows, panel_width))
    for r in range(rows):
        if source == TILE:
            line, target = given[row + r, column : column + width], out[r]
            for j in range(width):  # `target[:] = line` would compile error messages for seconds
                target[j] = line[j]
        for j in range(0, width, step):
            decay_step(out, r, j, factor)


def _numbers_signature(number: Any) -> Signature:
    array = CPointer(number)
    places = [array, SIZE, array, SIZE, array, SIZE, SIZE, SIZE, SIZE, array, SIZE]
    return types.void(SIZE, *places)


def _decays_signature(number: Any) -> Signature:
    array = CPointer(number)
    places = [array, SIZE, SIZE, SIZE, SIZE, SIZE, SIZE, array, SIZE]
    return types.void(SIZE, *places, number)


FUNCTIONS: dict[str, tuple[Any, Callable[[Any], Signature]]] = {
    "products": (fill_products, _numbers_signature),
    "distances": (fill_distances, _numbers_signature),
    "decays": (fill_decays, _decays_signature),
}


_announcing = threading.Lock()


def announce(names: Iterable[str], dtype: str) -> None:
    """Compile these functions, or load them, before code that calls them is loaded."""
    with _announcing:  # two threads would compile each its own
        for name in names:
            _announced(name, dtype)


@cache
def _announced(name: str, dtype: str) -> Any:
    function, signature = FUNCTIONS[name]
    compiler = partial(cfunc, signature(getattr(types, dtype)))
    compiled = compiled_on_disk(function, CALLED_BY_C, compiler)
    llvm.add_symbol(f"mercer_{name}_{dtype}", compiled.address)
    return compiled  # whose code lives as long as this


def _call(context: Any, builder: Any, name: str, number: Any, arguments: list[Any]) -> Any:
    """A call of one of the functions above."""
    signature = FUNCTIONS[name][1](number)
    given = [context.get_value_type(kind) for kind in signature.args]
    kind = ir.FunctionType(context.get_value_type(signature.return_type), given)
    symbol = f"mercer_{name}_{number.name}"
    function = cgutils.get_or_insert_function(builder.module, kind, symbol)
    builder.call(function, arguments)
    return context.get_dummy_value()


def _parts(context: Any, builder: Any, kind: Any, array: Any) -> tuple[Any, Any]:
    """Where an array lies, and the length of its last axis."""
    made = context.make_array(kind)(context, builder, array)
    return made.data, cgutils.unpack_tuple(builder, made.shape)[-1]


def _numbers(name: str) -> Any:
    @intrinsic
    def fill(  # type: ignore[no-untyped-def]
        typing_context, leaf, row, column, width, step, panel
    ):
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            leaf, row, column, width, step, panel = arguments
            kinds, leaf = signature.args[0], cgutils.unpack_tuple(builder, leaf)
            x, x_width = _parts(context, builder, kinds[1], leaf[1])
            y, y_width = _parts(context, builder, kinds[2], leaf[2])
            scales, _ = _parts(context, builder, kinds[3], leaf[3])
            out, out_width = _parts(context, builder, signature.args[5], panel)
            operands = [leaf[0], x, x_width, y, y_width, scales]
            places = [row, column, width, step, out, out_width]
            number = signature.args[5].dtype
            return _call(context, builder, name, number, operands + places)

        return types.void(leaf, SIZE, SIZE, SIZE, SIZE, panel), code

    return fill


products, distances = _numbers("products"), _numbers("distances")


@intrinsic
def decays(  # type: ignore[no-untyped-def]
    typing_context, leaf, row, rows, column, width, step, panel, factor
):
    """A call of `fill_decays` for the tile of a leaf, or where the panel was filled in."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        leaf, row, rows, column, width, step, panel, factor = arguments
        kinds, leaf = signature.args[0], cgutils.unpack_tuple(builder, leaf)
        tile, tile_width = _parts(context, builder, kinds[1], leaf[1])
        out, out_width = _parts(context, builder, signature.args[6], panel)
        places = [row, rows, column, width, step, out, out_width]
        number = signature.args[6].dtype
        return _call(
            context, builder, "decays", number, [leaf[0], tile, tile_width, *places, factor]
        )

    return types.void(leaf, SIZE, SIZE, SIZE, SIZE, SIZE, panel, panel.dtype), code
