"""Pair numbers in registers: ⟨x,y⟩, ‖x−y‖² and the like of a few rows with a panel of columns.

LLVM does not block such a loop over registers by itself, so its vectors are written out here:
`PANEL_ROWS` × `PANEL_VECTORS` accumulators stay in registers while the loop runs over the
coordinates; each coordinate costs one load for each vector of columns and one broadcast for each
row. On a core with 512-bit vectors and d = 10 this takes half the time of a BLAS product of the
same shape, and leaves so much room that distances can be summed from differences, without losing a
digit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import config, njit
from numba.core import cgutils, types
from numba.extending import intrinsic

from mercer.runtime.cache import compiled_on_disk


def _features() -> dict[str, bool]:
    """Instruction sets of the processor, or those that Numba's environment variables allow."""
    if config.CPU_FEATURES is None:
        return dict(llvm.get_host_cpu_features())
    named = (feature.strip() for feature in config.CPU_FEATURES.split(","))
    return {feature[1:]: feature[0] == "+" for feature in named if feature}


FEATURES = _features()
WIDE = bool(FEATURES.get("avx512f", False))
VECTOR_BYTES = 64 if WIDE else 32 if FEATURES.get("avx2", False) else 16
PANEL_VECTORS = 3  # vectors of columns that are accumulated together
PANEL_ROWS = 8 if WIDE or "x86" not in llvm.get_process_triple() else 4  # with 16 registers
PANEL_BYTES = 1536  # of one row of a panel: PANEL_ROWS of them stay in the first-level cache

FLAGS = {"contract", "reassoc", "nsz", "arcp"}  # NaN and infinity keep their meaning
CALLED_BY_C: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": FLAGS}
OPTIONS = CALLED_BY_C | {"no_cfunc_wrapper": True}  # which takes a tenth of the compilation

# where the pair numbers of a leaf come from
PRODUCT, SCALED_PRODUCT, DIFFERENCE, SCALED_DIFFERENCE, COORDINATES, TILE = range(6)
# (panel, total, the numbers of a coordinate of x, those of y) to the new total
Accumulate = Callable[["Panel", Any, Sequence[Any], Sequence[Any]], Any]


def compiled(function: Any, options: dict[str, Any] = OPTIONS) -> Any:
    """Compile on the first call, and keep the result on disk."""
    return compiled_on_disk(function, options)


inner = njit(no_cpython_wrapper=True, **OPTIONS)  # compiled into its callers: Python calls none


def lanes(dtype: Any) -> int:
    """How many numbers one vector holds."""
    return VECTOR_BYTES // np.dtype(dtype).itemsize


def column_step(dtype: Any) -> int:
    """Columns that are computed together, of products and distances."""
    return PANEL_VECTORS * lanes(dtype)


def padding_step(dtype: Any) -> int:
    """Packed columns are padded to a multiple of this: of every step's width."""
    return 2 * PANEL_VECTORS * lanes(dtype)


def panel_width(dtype: Any) -> int:
    """Columns of a panel."""
    return PANEL_BYTES // np.dtype(dtype).itemsize


@intrinsic
def widen(typing_context: Any) -> Any:
    """Let LLVM use the widest vectors in the calling function; by default it prefers 256 bits.

    Vectors that do not fit into registers lie on the stack. Where that is not aligned, one of them
    may lie across the end of a page, and a loop then takes up to four times as long: in some
    processes, as addresses differ from one to the next.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        set.add(builder.function.attributes, f'"prefer-vector-width"="{8 * VECTOR_BYTES}"')
        builder.function.attributes.alignstack = VECTOR_BYTES
        return context.get_dummy_value()

    return types.void(), code


@intrinsic
def stand_alone(typing_context: Any) -> Any:
    """Of a function in C whose last pointer is its result: it overlaps nothing that is read.

    Inlined into what C calls, the function would lose the attribute of `widen`.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        pointers = [a for a in builder.function.args if isinstance(a.type, ir.PointerType)]
        pointers[-1].add_attribute("noalias")
        return context.get_dummy_value()

    return types.void(), code


class Vectors:
    """Writes instructions on vectors of one precision."""

    def __init__(self, context: Any, builder: Any, dtype: Any) -> None:
        self.context, self.builder = context, builder
        self.number = context.get_data_type(dtype)
        self.itemsize = dtype.bitwidth // 8
        self.lanes = VECTOR_BYTES // self.itemsize
        self.vector = ir.VectorType(self.number, self.lanes)
        self.integers = ir.VectorType(ir.IntType(dtype.bitwidth), self.lanes)

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

    def call(self, name: str, *arguments: Any) -> Any:
        """One of LLVM's own functions on vectors."""
        full = f"llvm.{name}.v{self.lanes}f{8 * self.itemsize}"
        kind = ir.FunctionType(self.vector, [self.vector] * len(arguments))
        return self.builder.call(
            cgutils.get_or_insert_function(self.builder.module, kind, full), arguments
        )

    def filled(self, value: float) -> ir.Constant:
        return ir.Constant(self.vector, [value] * self.lanes)

    def whole(self, values: Sequence[int]) -> ir.Constant:
        """A vector of integers: of these, over and over."""
        repeats = self.lanes // len(values)
        return ir.Constant(self.integers, list(values) * repeats)

    def loop(
        self, name: str, first: Any, stop: Any, given: Sequence[Any], body: Callable[..., Any]
    ) -> tuple[list[Any], Any]:
        """A loop over first, …, stop − 1 which carries vectors along; and the branch back.

        `body` makes new vectors of the number of the round and those before.
        """
        builder, before = self.builder, self.builder.block
        check, inside, done = map(builder.append_basic_block, ("check", name, "done"))
        builder.branch(check)
        builder.position_at_end(check)
        index, carried = builder.phi(ir.IntType(64)), [builder.phi(self.vector) for _ in given]
        builder.cbranch(builder.icmp_signed("<", index, stop), inside, done)
        builder.position_at_end(inside)
        updated = [*body(index, carried), builder.add(index, self.constant(1))]
        phis, entering = [*carried, index], [*given, first]
        for phi, enters, returns in zip(phis, entering, updated, strict=True):
            phi.add_incoming(enters, before)
            phi.add_incoming(returns, builder.block)
        branch = builder.branch(check)
        builder.position_at_end(done)
        return carried, branch


class Panel(Vectors):
    """Writes the instructions of one call: the rows from `row` on, the columns from `column` on.

    A coordinate may come as several numbers, side by side in a row of x and line by line in y.
    """

    def __init__(
        self, context: Any, builder: Any, signature: Any, arguments: Any, parts: tuple[int, int]
    ) -> None:
        arrays = [
            context.make_array(signature.args[position])(context, builder, arguments[position])
            for position in (0, 1, 2, 5)
        ]
        x, y, scales, panel = arrays
        super().__init__(context, builder, signature.args[0].dtype)
        self.row, self.column, self.target = arguments[3], arguments[4], arguments[6]
        self.x, self.y, self.scales, self.panel = x.data, y.data, scales.data, panel.data
        self.x_parts, self.y_parts = parts
        self.row_width = cgutils.unpack_tuple(builder, x.shape)[1]
        self.width = builder.sdiv(self.row_width, self.constant(self.x_parts))
        self.y_stride = cgutils.unpack_tuple(builder, y.shape)[1]
        self.panel_stride = cgutils.unpack_tuple(builder, panel.shape)[1]
        self.has_scales, self.scale, self.vectors = False, None, PANEL_VECTORS

    def difference(self, x: Any, y: Any) -> Any:
        """x − y, then scaled: the other way round would lose digits far from the origin."""
        gap = self.builder.fsub(x, y)
        return gap if self.scale is None else self.builder.fmul(gap, self.scale)

    def run_time_constant(self, index: int) -> Any:
        """A constant of the term: they follow the scales, of which there is one a coordinate."""
        offset = self.builder.add(self.width, self.constant(index))
        return self.broadcast(self.builder.load(self.builder.gep(self.scales, [offset])))

    def scaled(self, value: Any) -> Any:
        return value if self.scale is None else self.builder.fmul(value, self.scale)

    def write(self, start: float, accumulate: Accumulate, scaled: bool, vectors: int) -> None:
        """The loop over coordinates between fresh accumulators and their storage."""
        self.has_scales, self.vectors = scaled, vectors
        rows = (self.builder.add(self.row, self.constant(r)) for r in range(PANEL_ROWS))
        starts = [self.builder.gep(self.x, [self.builder.mul(r, self.row_width)]) for r in rows]
        fresh = [self.filled(start)] * (PANEL_ROWS * vectors)

        def coordinate(k: Any, totals: Sequence[Any]) -> list[Any]:
            return self.coordinate(k, starts, totals, accumulate)

        zero = self.constant(0)
        totals, branch = self.loop("coordinates", zero, self.width, fresh, coordinate)
        # The vectors of one round fill the registers: those of two would not fit.
        module = self.builder.module
        told = module.add_metadata([module.add_metadata(["llvm.loop.unroll.disable"])])
        if told not in told.operands:  # it names itself first
            told.operands = (told, *told.operands)
        branch.set_metadata("llvm.loop", told)
        self.store(totals)

    def coordinate(
        self, k: Any, starts: Any, totals: Sequence[Any], accumulate: Accumulate
    ) -> list[Any]:
        """One coordinate: load it for all columns, broadcast it for each row, accumulate."""
        builder = self.builder
        self.scale = None
        if self.has_scales:
            self.scale = self.broadcast(builder.load(builder.gep(self.scales, [k])))
        ys, each, updated = self.loaded(self.positions(k, self.y_parts)), iter(totals), []
        for start in starts:
            places = [builder.gep(start, [i]) for i in self.positions(k, self.x_parts)]
            x = [self.broadcast(builder.load(place)) for place in places]
            updated += [accumulate(self, next(each), x, y) for y in ys]
        return updated

    def loaded(self, positions: list[Any]) -> list[list[Any]]:
        """Lines of y, as many vectors of each as are computed together."""
        builder = self.builder
        lines = [
            builder.gep(self.y, [builder.add(builder.mul(line, self.y_stride), self.column)])
            for line in positions
        ]
        offsets = [self.constant(u * self.lanes) for u in range(self.vectors)]
        return [
            [builder.load(self.vector_at(line, u), align=self.itemsize) for line in lines]
            for u in offsets
        ]

    def positions(self, k: Any, parts: int) -> list[Any]:
        """Where the numbers of coordinate k stand."""
        first = self.builder.mul(k, self.constant(parts))
        return [self.builder.add(first, self.constant(part)) for part in range(parts)]

    def store(self, totals: Sequence[Any]) -> None:
        builder, each = self.builder, iter(totals)
        for r in range(PANEL_ROWS):
            offset = builder.add(builder.mul(self.constant(r), self.panel_stride), self.target)
            line = builder.gep(self.panel, [offset])
            for u in range(self.vectors):
                place = self.vector_at(line, self.constant(u * self.lanes))
                builder.store(next(each), place, align=self.itemsize)


def panel_step(
    start: float,
    accumulate: Accumulate,
    scaled: bool,
    vectors: int = PANEL_VECTORS,
    parts: tuple[int, int] = (1, 1),
) -> Any:
    """A compiled step over all coordinates: from fresh accumulators to their storage."""

    @intrinsic
    def step(  # type: ignore[no-untyped-def]
        typing_context, x, y, scales, row, column, panel, target
    ):
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            panel = Panel(context, builder, signature, arguments, parts)
            panel.write(start, accumulate, scaled, vectors)
            return context.get_dummy_value()

        integer = types.intp
        return types.void(x, y, scales, integer, integer, panel, integer), code

    return step


def _add_product(panel: Panel, total: Any, x: Sequence[Any], y: Sequence[Any]) -> Any:
    return panel.call("fma", panel.scaled(x[0]), panel.scaled(y[0]), total)


def _add_square(panel: Panel, total: Any, x: Sequence[Any], y: Sequence[Any]) -> Any:
    gap = panel.difference(x[0], y[0])
    return panel.call("fma", gap, gap, total)


product_step = panel_step(0.0, _add_product, scaled=False)
difference_step = panel_step(0.0, _add_square, scaled=False)
scaled_product_step = panel_step(0.0, _add_product, scaled=True)
scaled_difference_step = panel_step(0.0, _add_square, scaled=True)
