"""Terms of coordinates, and exponentials of pair numbers, as instructions on vectors.

What stands in a sum or product over coordinates is written between the loads of `vectors.Panel`;
exp(−p·q) follows its pair number q while that is in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mercer.evaluation.cpu.elementary import EXP_LIMIT, MANTISSA, in_float32, in_float64
from mercer.evaluation.cpu.vectors import PANEL_VECTORS, WIDE, Panel, Vectors, panel_step
from mercer.evaluation.minimax import INTEGER_SHIFT, LOG2E, SIXTEENTH_POWER, TWO_POWER


@intrinsic
def decay_step(typing_context: Any, panel: Any, row: Any, column: Any, factor: Any) -> Any:
    """exp(−factor · x) for some vectors of a panel, in place."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, row, column, factor = arguments
        x = context.make_array(signature.args[0])(context, builder, array)
        vectors = Vectors(context, builder, signature.args[0].dtype)
        stride = cgutils.unpack_tuple(builder, x.shape)[1]
        first = builder.add(builder.mul(row, stride), column)
        for u in range(PANEL_VECTORS):
            offset = builder.add(first, vectors.constant(u * vectors.lanes))
            place = vectors.vector_at(x.data, offset)
            value = builder.load(place, align=vectors.itemsize)
            value = _emit_decay(vectors, builder.fmul(value, vectors.broadcast(factor)))
            builder.store(value, place, align=vectors.itemsize)
        return context.get_dummy_value()

    return types.void(panel, types.intp, types.intp, panel.dtype), code


def _select(panel: Vectors, comparison: str, x: Any, y: Any) -> Any:
    return panel.builder.select(panel.builder.fcmp_ordered(comparison, x, y), x, y)


def _emit_decay(panel: Vectors, x: Any) -> Any:
    """exp(−x) for x ≥ 0: 2^(n/m) · 2^f, with n nearest to −x·m·log₂e."""
    name = "float32" if panel.itemsize == 4 else "float64"
    tabulated = WIDE and name == "float64"
    scale = panel.filled(-LOG2E)
    rounding = panel.filled(INTEGER_SHIFT[name] / (16 if tabulated else 1))
    limit = panel.filled(EXP_LIMIT[name])
    inside = _select(panel, "<", limit, x)  # NaN stays
    rounded = panel.call("fma", inside, scale, rounding)
    whole = panel.builder.fsub(rounded, rounding)
    fraction = panel.call("fma", inside, scale, panel.builder.fneg(whole))
    if tabulated:
        return _emit_sixteenths(panel, fraction, panel.builder.bitcast(rounded, panel.integers))
    value = _emit_polynomial(panel, TWO_POWER[name], fraction)
    return _emit_scaling(panel, value, rounded, MANTISSA[8 * panel.itemsize])


def _emit_polynomial(panel: Vectors, coefficients: Sequence[float], x: Any) -> Any:
    *lower, value = (panel.filled(c) for c in coefficients)
    for coefficient in reversed(lower):
        value = panel.call("fma", value, x, coefficient)
    return value


def _emit_scaling(panel: Vectors, value: Any, rounded: Any, shift: int) -> Any:
    """The last bits of `rounded`, shifted, added to those of a value."""
    builder = panel.builder
    value, exponent = (builder.bitcast(number, panel.integers) for number in (value, rounded))
    total = builder.add(value, builder.shl(exponent, panel.whole([shift])))
    return builder.bitcast(total, panel.vector)


def _emit_sixteenths(panel: Vectors, fraction: Any, rounded: Any) -> Any:
    """2^(n/16) · 2^f: sixteen powers stay in two registers, and |f| ≤ 1/32 needs half the degree.

    Of each power k/16 is taken off its exponent beforehand, since n/16 will be added to it.
    """
    powers = (2.0 ** (np.arange(16) / 16)).view(np.int64) - (np.arange(16) << 48)
    low, high = (
        panel.builder.bitcast(panel.whole([int(b) for b in half]), panel.vector)
        for half in (powers[:8], powers[8:])
    )
    kind = ir.FunctionType(panel.vector, [panel.vector, panel.integers, panel.vector])
    choose = cgutils.get_or_insert_function(
        panel.builder.module, kind, "llvm.x86.avx512.vpermi2var.pd.512"
    )
    power = panel.builder.call(choose, [low, rounded, high])
    scaled = _emit_scaling(panel, power, rounded, 48)
    rest = panel.builder.fmul(fraction, _emit_polynomial(panel, SIXTEENTH_POWER, fraction))
    return panel.call("fma", scaled, rest, scaled)


def _emit_divide(panel: Panel, x: Any, y: Any) -> Any:
    """x/y for y > 0: with 512 bits a guess of 1/y and Newton's method, where dividers are slow.

    With 256 bits the divider takes no longer than the steps that the method needs there.
    """
    if not WIDE:
        return panel.builder.fdiv(x, y)
    opposite, inverse = panel.builder.fneg(y), _guess_of_inverse(panel, y)  # right to 2⁻¹⁴
    if panel.itemsize == 8:
        error = panel.call("fma", opposite, inverse, panel.filled(1.0))
        inverse = panel.call("fma", inverse, error, inverse)
    error = panel.call("fma", opposite, inverse, panel.filled(1.0))
    quotient = panel.builder.fmul(x, inverse)
    return panel.call("fma", quotient, error, quotient)


def _guess_of_inverse(panel: Panel, y: Any) -> Any:
    kind, suffix = (ir.IntType(16), "ps") if panel.itemsize == 4 else (ir.IntType(8), "pd")
    guess = ir.FunctionType(panel.vector, [panel.vector, panel.vector, kind])
    name = f"llvm.x86.avx512.rcp14.{suffix}.512"
    function = cgutils.get_or_insert_function(panel.builder.module, guess, name)
    return panel.builder.call(function, [y, panel.filled(0.0), ir.Constant(kind, -1)])


FUSED = ("contract",)  # a product and a sum may become one instruction

EMIT: dict[str, Callable[..., Any]] = {
    "decay": _emit_decay,
    "add": lambda panel, x, y: panel.builder.fadd(x, y, flags=FUSED),
    "subtract": lambda panel, x, y: panel.builder.fsub(x, y, flags=FUSED),
    "multiply": lambda panel, x, y: panel.builder.fmul(x, y, flags=FUSED),
    "divide": _emit_divide,
    "absolute": lambda panel, x: panel.call("fabs", x),
    "nearest": lambda panel, x: panel.call("rint", x),
    "sqrt": lambda panel, x: panel.call("sqrt", x),
    "minimum": lambda panel, x, y: _select(panel, "<", x, y),
    "maximum": lambda panel, x, y: _select(panel, ">", x, y),
}


def _emit(panel: Panel, name: str, arguments: Sequence[Any]) -> Any:
    """The instructions of an operation; where it has none, its function of one number, by lanes."""
    if name in EMIT:
        return EMIT[name](panel, *arguments)
    function = getattr(in_float32 if panel.itemsize == 4 else in_float64, name)
    number = types.float32 if panel.itemsize == 4 else types.float64

    def call(x):  # type: ignore[no-untyped-def]
        return function(x)

    result = ir.Constant(panel.vector, ir.Undefined)
    for lane in range(panel.lanes):
        place = ir.Constant(ir.IntType(32), lane)
        given = [panel.builder.extract_element(value, place) for value in arguments]
        value = panel.context.compile_internal(panel.builder, call, number(number), given)
        result = panel.builder.insert_element(result, value, place)
    return result


def coordinate_step(
    kind: str,
    code: Sequence[Sequence[str]],
    result: str,
    parts: tuple[int, int],
    raw: Sequence[str],
    scaled: bool,
) -> Any:
    """The step of a sum or product over coordinates whose term is given by steps.

    `raw` names the numbers that are coordinates themselves: scales come after their difference.
    """

    def term(panel: Panel, x: Sequence[Any], y: Sequence[Any]) -> Any:
        given = {f"x{i}": part for i, part in enumerate(x)}
        given |= {f"y{i}": part for i, part in enumerate(y)}
        values = {n: panel.scaled(part) if n in raw else part for n, part in given.items()}

        def value(name: str) -> Any:
            return panel.run_time_constant(int(name[1:])) if name[0] == "c" else values[name]

        for position, (operation, *arguments) in enumerate(code):
            if operation == "subtract" and set(arguments) <= set(raw):
                left, right = (given[name] for name in arguments)
                values[f"t{position}"] = panel.difference(left, right)
            else:
                values[f"t{position}"] = _emit(panel, operation, [*map(value, arguments)])
        return value(result)

    def accumulate(panel: Panel, total: Any, x: Sequence[Any], y: Sequence[Any]) -> Any:
        combine = panel.builder.fadd if kind == "coordinate_sum" else panel.builder.fmul
        return combine(total, term(panel, x, y), flags=FUSED)

    start = 0.0 if kind == "coordinate_sum" else 1.0
    return panel_step(start, accumulate, scaled, vectors_of(code, parts[1]), parts)


def vectors_of(code: Sequence[Sequence[str]], parts: int) -> int:
    """Vectors that a term is computed for together: fewer where it needs the registers itself."""
    if any(operation == "decay" for operation, *_ in code):
        return 1
    return PANEL_VECTORS if parts == 1 else 2
