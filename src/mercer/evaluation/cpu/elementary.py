"""Elementary functions that LLVM can vectorise: branch-free, one set for each precision.

exp(x) = 2^n · 2^f with n the integer nearest to x·log₂e and |f| ≤ ½. Adding 1.5·2^23 (1.5·2^52)
rounds to n and leaves n in the last bits, which are shifted into the exponent. 2^f is a minimax
polynomial of degree 6 (relative error 2e-9) or 11 (3e-18). log splits x = 2^e · m with m near 1;
log m is a minimax polynomial in m − 1 (4e-9, 8e-18), since a division costs more than its ten or
twenty steps. arcsin and two functions of angles are odd polynomials on [0, √½].

cos(2πu) and sin(2πu) take angles in turns: a turn is taken off exactly, u − ⌊u⌉ ∈ [−½, ½], which no
reduction by a rounded π does. With g = ¼ − |u − ⌊u⌉|, cos(2πu) = sin(2πg) = g·p(g²), p a minimax
polynomial of degree 4 (relative error 5e-9) or 8 (3e-19).
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

from mercer.evaluation.minimax import (
    INTEGER_SHIFT,
    LOG2,
    LOG2E,
    LOG_RATIO,
    ODD,
    SINE_RATIO,
    TWO_POWER,
)
from mercer.evaluation.tables import DEGREE, PIECES

EXP_LIMIT = {"float32": 87.3, "float64": 708.3}  # beyond, a result would not be a normal number
BITS_OF_TWO_THIRDS = {32: 0x3F2AAAAB, 64: 0x3FE5555555555555}  # as bits
MANTISSA = {32: 23, 64: 52}
BITS_OF_ONE = {32: 0x3F800000, 64: 0x3FF0000000000000}  # as bits
PIECE_BITS = {bits: PIECES[f"float{bits}"].bit_length() - 1 for bits in (32, 64)}
OPTIONS: dict[str, Any] = {
    "forceinline": True,
    "fastmath": {"contract"},
    "error_model": "numpy",
    "no_cpython_wrapper": True,  # they are called by compiled code alone
    "no_cfunc_wrapper": True,
}


class _Bits:
    """The bits of a floating-point argument as an integer."""

    def __init__(self, builder: Any, signature: Any) -> None:
        self.builder, self.size = builder, signature.args[0].bitwidth
        self.integer = ir.IntType(self.size)
        self.number = ir.FloatType() if self.size == 32 else ir.DoubleType()
        self.shift = self.constant(MANTISSA[self.size])

    def constant(self, value: int) -> ir.Constant:
        return ir.Constant(self.integer, value)

    def of(self, value: Any) -> Any:
        return self.builder.bitcast(value, self.integer)

    def back(self, bits: Any) -> Any:
        return self.builder.bitcast(bits, self.number)

    def exponent(self, value: Any) -> Any:
        """e with value = 2^e · m and 2/3 ≤ m < 4/3."""
        above = self.builder.sub(self.of(value), self.constant(BITS_OF_TWO_THIRDS[self.size]))
        return self.builder.ashr(above, self.shift)


def _of_numbers(count: int, code: Any) -> Any:
    """An operation on so many numbers of one kind, from what writes its instructions."""
    if count == 1:
        return intrinsic(lambda typing_context, x: (x(x), code))
    return intrinsic(lambda typing_context, x, y: (x(x, x), code))


def _on_bits(write: Callable[..., Any]) -> Any:
    """The same, where `write` is given the bits of the numbers first."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return write(_Bits(builder, signature), *arguments)

    return _of_numbers(write.__code__.co_argcount - 1, code)


def _own_function(name: str, count: int) -> Any:
    """One of LLVM's own functions of so many numbers, which it can put into vectors."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = arguments[0].type
        kind = ir.FunctionType(number, [number] * len(arguments))
        full = f"llvm.{name}.{'f32' if isinstance(number, ir.FloatType) else 'f64'}"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, full), arguments)

    return _of_numbers(count, code)


_rint, _copysign = _own_function("rint", 1), _own_function("copysign", 2)


@_on_bits
def _scaled(bits: _Bits, value: Any, rounded: Any) -> Any:
    """value · 2^n, where the last bits of `rounded` hold n."""
    exponent = bits.builder.shl(bits.of(rounded), bits.shift)
    return bits.back(bits.builder.add(bits.of(value), exponent))


@_on_bits
def _exponent(bits: _Bits, value: Any) -> Any:
    """e as a number, where value = 2^e · m and 2/3 ≤ m < 4/3."""
    return bits.builder.sitofp(bits.exponent(value), bits.number)


@_on_bits
def _mantissa(bits: _Bits, value: Any) -> Any:
    """m, where value = 2^e · m and 2/3 ≤ m < 4/3."""
    exponent = bits.builder.shl(bits.exponent(value), bits.shift)
    return bits.back(bits.builder.sub(bits.of(value), exponent))


@_on_bits
def _within_piece(bits: _Bits, value: Any) -> Any:
    """Where in its piece a number lies, from 1 to 2."""
    builder, mask = bits.builder, bits.constant((1 << MANTISSA[bits.size]) - 1)
    shifted = builder.shl(bits.of(value), bits.constant(PIECE_BITS[bits.size]))
    return bits.back(
        builder.or_(builder.and_(shifted, mask), bits.constant(BITS_OF_ONE[bits.size]))
    )


@intrinsic
def _piece(typing_context: Any, value: Any, first: Any) -> Any:
    """Which piece of a table a number falls into: its octave and the first bits after."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = _Bits(builder, signature)
        lowest = builder.trunc(arguments[1], bits.integer) if bits.size == 32 else arguments[1]
        size = builder.and_(bits.of(arguments[0]), bits.constant((1 << (bits.size - 1)) - 1))
        above = builder.sub(size, lowest)
        shift = bits.constant(MANTISSA[bits.size] - PIECE_BITS[bits.size])
        piece = builder.ashr(above, shift)
        return builder.sext(piece, ir.IntType(64)) if bits.size == 32 else piece

    return types.int64(value, types.int64), code


def _tabulated(number: Any, name: str) -> dict[str, Any]:
    degree = DEGREE[name]
    middle, half = number(1.5), number(0.5)

    @njit(**OPTIONS)
    def tabulated(table, x):  # type: ignore[no-untyped-def]
        coefficients, first = table
        last = coefficients.shape[0] - 1
        piece = _piece(x, first)
        inside = _within_piece(x) - middle
        w = -half if piece < 0 else (half if piece > last else inside)
        row = np.uint64(min(max(piece, 0), last))
        p = coefficients[row, degree]
        for k in range(degree):
            p = p * w + coefficients[row, degree - 1 - k]
        return p

    return {"tabulated": tabulated}


def _polynomial(number: Any, coefficients: tuple[float, ...]) -> Any:
    """Horner's rule for fixed coefficients, lowest first."""
    c = tuple(number(value) for value in coefficients)
    top, degree = c[-1], len(c) - 1

    @njit(**OPTIONS)
    def value(x):  # type: ignore[no-untyped-def]
        p = top
        for k in range(degree):
            p = p * x + c[degree - 1 - k]
        return p

    return value


def _exponentials(number: Any, name: str) -> dict[str, Any]:
    scale, rounding, bound = number(LOG2E), number(INTEGER_SHIFT[name]), number(EXP_LIMIT[name])
    infinity = number(np.inf)
    fraction = _polynomial(number, TWO_POWER[name])

    @njit(**OPTIONS)
    def inner(x):  # type: ignore[no-untyped-def]
        rounded = x * scale + rounding
        return _scaled(fraction(x * scale - (rounded - rounding)), rounded)

    @njit(**OPTIONS)
    def decay(x):  # type: ignore[no-untyped-def]
        return inner(-min(x, bound))

    @njit(**OPTIONS)
    def exp(x):  # type: ignore[no-untyped-def]
        value = inner(max(min(x, bound), -bound))
        return infinity if x > bound else (value if x == x else x)

    return {"decay": decay, "exp": exp}


def _logarithm(number: Any, name: str) -> dict[str, Any]:
    log2, zero, third, one = number(LOG2), number(0.0), number(1 / 3), number(1.0)
    ratio = _polynomial(number, LOG_RATIO[name])

    @njit(**OPTIONS)
    def log(x):  # type: ignore[no-untyped-def]
        f = _mantissa(x) - one
        return _exponent(x) * log2 + f * ratio(f)

    @njit(**OPTIONS)
    def log1p(x):  # type: ignore[no-untyped-def]
        small = x < third
        f = x if small else _mantissa(one + x) - one
        whole = zero if small else _exponent(one + x) * log2
        return whole + f * ratio(f)

    return {"log": log, "log1p": log1p}


def _odd(number: Any, name: str) -> dict[str, Any]:
    """x^k·p(x²), the functions of `minimax.ODD`."""

    def odd(power: int, coefficients: tuple[float, ...]) -> Any:
        ratio, squares = _polynomial(number, coefficients), power // 2

        @njit(**OPTIONS)
        def value(x):  # type: ignore[no-untyped-def]
            z = x * x
            p = x * ratio(z)
            for _ in range(squares):
                p = p * z
            return p

        return value

    return {key: odd(power, table[name]) for key, (power, table) in ODD.items()}


def _roots_and_steps(number: Any, name: str) -> dict[str, Any]:
    zero, half, one = (number(v) for v in (0.0, 0.5, 1.0))

    @njit(**OPTIONS)
    def reciprocal_root(x):  # type: ignore[no-untyped-def]
        return one / np.sqrt(x) if x > zero else zero

    @njit(**OPTIONS)
    def step(x):  # type: ignore[no-untyped-def]
        return one if x > zero else (half if x == zero else zero)

    return {"reciprocal_root": reciprocal_root, "step": step}


def _angles(number: Any, name: str) -> dict[str, Any]:
    """cos(2πu) and sin(2πu)."""
    ratio = _polynomial(number, SINE_RATIO[name])
    quarter, half = number(0.25), number(0.5)

    @njit(**OPTIONS)
    def cosine(u):  # type: ignore[no-untyped-def]
        g = quarter - abs(u - _rint(u))
        return g * ratio(g * g)

    @njit(**OPTIONS)
    def sine(u):  # type: ignore[no-untyped-def]
        f = u - _rint(u)
        size = abs(f)
        g = _copysign(min(size, half - size), f)
        return g * ratio(g * g)

    return {"cosine": cosine, "sine": sine}


def _functions(number: Any) -> SimpleNamespace:
    name = number.__name__
    return SimpleNamespace(
        **_exponentials(number, name),
        **_logarithm(number, name),
        **_odd(number, name),
        **_roots_and_steps(number, name),
        **_angles(number, name),
        **_tabulated(number, name),
    )


in_float32, in_float64 = _functions(np.float32), _functions(np.float64)


@njit(**OPTIONS)
def sqrt(x):  # type: ignore[no-untyped-def]
    """The square root, in the precision of its argument."""
    return np.sqrt(x)


@njit(**OPTIONS)
def nearest(x):  # type: ignore[no-untyped-def]
    """The nearest integer, in the precision of the argument."""
    return np.rint(x)
