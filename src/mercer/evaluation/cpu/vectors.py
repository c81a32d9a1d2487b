"""Pair numbers in registers: ⟨x,y⟩ and ‖x−y‖² of a few rows with a panel of columns.

LLVM does not block such a loop over registers by itself, so its vectors are written out here:
`ROWS` × `VECTORS` accumulators stay in registers while the loop runs over the coordinates; each
coordinate costs one load for each vector of columns and one broadcast for each row. On a core
with 512-bit vectors and d = 10 this takes half the time of a BLAS product of the same shape, and
leaves so much room that distances can be summed from differences, without losing a digit.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

FEATURES = llvm.get_host_cpu_features()
WIDE = bool(FEATURES.get("avx512f", False))
VECTOR_BYTES = 64 if WIDE else 32 if FEATURES.get("avx2", False) else 16
VECTORS = 3  # vectors of columns that are accumulated together
ROWS = 8 if WIDE or "x86" not in llvm.get_process_triple() else 4
PANEL_BYTES = 1536  # of one row of a panel: ROWS of them stay in the first-level cache

FLAGS = {"contract", "reassoc", "nsz", "arcp"}  # NaN and infinity keep their meaning
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": FLAGS}

PRODUCT, DIFFERENCE, TILE = 0, 1, 2  # where the pair numbers of a leaf come from


def lanes(dtype: Any) -> int:
    """How many numbers one vector holds."""
    return VECTOR_BYTES // np.dtype(dtype).itemsize


def column_step(dtype: Any) -> int:
    """Columns that are computed together: packed columns are padded to a multiple of this."""
    return VECTORS * lanes(dtype)


def panel_width(dtype: Any) -> int:
    """Columns of a panel."""
    return PANEL_BYTES // np.dtype(dtype).itemsize


@intrinsic
def widen(typing_context: Any) -> Any:
    """Let LLVM use the widest vectors in the calling function; by default it prefers 256 bits."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        set.add(builder.function.attributes, f'"prefer-vector-width"="{8 * VECTOR_BYTES}"')
        return context.get_dummy_value()

    return types.void(), code


class _Panel:
    """Writes the instructions of one call: ROWS rows from `row` on, the columns from `column`."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        arrays = [
            context.make_array(signature.args[position])(context, builder, arguments[position])
            for position in (0, 1, 4)
        ]
        x, y, panel = arrays
        self.builder = builder
        self.row, self.column, self.target = arguments[2], arguments[3], arguments[5]
        self.x, self.y, self.panel = x.data, y.data, panel.data
        self.width = cgutils.unpack_tuple(builder, x.shape)[1]
        self.y_stride = cgutils.unpack_tuple(builder, y.shape)[1]
        self.panel_stride = cgutils.unpack_tuple(builder, panel.shape)[1]
        self.number = context.get_data_type(signature.args[0].dtype)
        self.itemsize = signature.args[0].dtype.bitwidth // 8
        self.lanes = VECTOR_BYTES // self.itemsize
        self.vector = ir.VectorType(self.number, self.lanes)

    def constant(self, value: int) -> ir.Constant:
        return ir.Constant(ir.IntType(64), value)

    def vector_at(self, base: Any, offset: Any) -> Any:
        pointer = self.builder.gep(base, [offset])
        return self.builder.bitcast(pointer, self.vector.as_pointer())

    def broadcast(self, value: Any) -> Any:
        empty = ir.Constant(self.vector, ir.Undefined)
        index = ir.IntType(32)
        first = self.builder.insert_element(empty, value, ir.Constant(index, 0))
        mask = ir.Constant(ir.VectorType(index, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, empty, mask)

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        name = f"llvm.fma.v{self.lanes}f{8 * self.itemsize}"
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, [a, b, c])

    def write(self, differences: bool) -> None:
        """The loop over coordinates between zeroed accumulators and their storage."""
        builder = self.builder
        starts = [
            builder.gep(self.x, [builder.mul(builder.add(self.row, self.constant(r)), self.width)])
            for r in range(ROWS)
        ]
        before = builder.block
        loop = builder.append_basic_block("coordinates")
        check = builder.append_basic_block("check")
        done = builder.append_basic_block("done")
        builder.branch(check)

        builder.position_at_end(check)
        k = builder.phi(ir.IntType(64))
        k.add_incoming(self.constant(0), before)
        sums = [[builder.phi(self.vector) for _ in range(VECTORS)] for _ in range(ROWS)]
        builder.cbranch(builder.icmp_signed("<", k, self.width), loop, done)

        builder.position_at_end(loop)
        added = self.coordinate(k, starts, sums, differences)
        k.add_incoming(builder.add(k, self.constant(1)), loop)
        builder.branch(check)
        zero = ir.Constant(self.vector, [0.0] * self.lanes)
        for r in range(ROWS):
            for u in range(VECTORS):
                sums[r][u].add_incoming(zero, before)
                sums[r][u].add_incoming(added[r][u], loop)

        builder.position_at_end(done)
        self.store(sums)

    def coordinate(self, k: Any, starts: Any, sums: Any, differences: bool) -> list[list[Any]]:
        """One coordinate: load it for all columns, broadcast it for each row, accumulate."""
        builder = self.builder
        line = builder.gep(self.y, [builder.add(builder.mul(k, self.y_stride), self.column)])
        ys = [
            builder.load(self.vector_at(line, self.constant(u * self.lanes)), align=self.itemsize)
            for u in range(VECTORS)
        ]
        added = []
        for r in range(ROWS):
            x = self.broadcast(builder.load(builder.gep(starts[r], [k])))
            if differences:
                gaps = [builder.fsub(x, y) for y in ys]
                terms = [(gap, gap) for gap in gaps]
            else:
                terms = [(x, y) for y in ys]
            added.append(
                [
                    self.multiply_add(*term, total)
                    for term, total in zip(terms, sums[r], strict=True)
                ]
            )
        return added

    def store(self, sums: Any) -> None:
        builder = self.builder
        for r in range(ROWS):
            offset = builder.add(builder.mul(self.constant(r), self.panel_stride), self.target)
            line = builder.gep(self.panel, [offset])
            for u in range(VECTORS):
                builder.store(
                    sums[r][u],
                    self.vector_at(line, self.constant(u * self.lanes)),
                    align=self.itemsize,
                )


def _intrinsic(differences: bool) -> Any:
    @intrinsic
    def step(  # type: ignore[no-untyped-def]
        typing_context, x, y, row, column, panel, target
    ):
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            _Panel(context, builder, signature, arguments).write(differences)
            return context.get_dummy_value()

        integer = types.intp
        return types.void(x, y, integer, integer, panel, integer), code

    return step


_product_step = _intrinsic(differences=False)
_difference_step = _intrinsic(differences=True)


@njit(**OPTIONS)
def fill_panel(leaf, row, column, width, step, panel):  # type: ignore[no-untyped-def]
    """Pair numbers of ROWS rows with `width` columns into `panel`, from packed operands."""
    widen()
    source, x, y = leaf
    if source == PRODUCT:
        for j in range(0, width, step):
            _product_step(x, y, row, column + j, panel, j)
    elif source == DIFFERENCE:
        for j in range(0, width, step):
            _difference_step(x, y, row, column + j, panel, j)
