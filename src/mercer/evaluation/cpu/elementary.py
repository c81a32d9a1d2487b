"""Elementary functions that LLVM can vectorise: branch-free, one set for each precision.

exp(x) = 2^n · 2^f with n the integer nearest to x·log₂e and |f| ≤ ½. Adding 1.5·2^23 (1.5·2^52)
rounds to n and leaves n in the last bits, which are shifted into the exponent. 2^f is a minimax
polynomial of degree 6 (relative error 2e-9) or 11 (3e-18). log splits x = 2^e · m with m near 1
and sums log m = 2 artanh((m − 1)/(m + 1)); arcsin is a minimax polynomial on [0, ½] (4e-9, 1e-17)
and a half-angle formula beyond. The minimax polynomials were computed by Remez exchange.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba.extending import intrinsic

LOG2E, LOG2, HALF_PI = 1.4426950408889634, 0.6931471805599453, 1.5707963267948966
TWO_POWER = {
    "float32": (
        1.000000000554096974,
        0.6931472057368892473,
        0.2402264689126694552,
        0.05550328777392575468,
        0.009618488881739455811,
        0.001339993113641893568,
        0.0001534583265618888972,
    ),
    "float64": (
        0.9999999999999999971,
        0.6931471805599453305,
        0.240226506959101562,
        0.05550410866481992083,
        0.009618129107588337588,
        0.001333355814679011913,
        0.000154035304625114389,
        0.00001525273348978799687,
        1.321543309117148398e-6,
        1.017819810877755648e-7,
        7.074105359801098395e-9,
        4.435269214488551919e-10,
    ),
}
ARC_SINE = {
    "float32": (
        0.9999999955845416847,
        0.1666679011034319873,
        0.07494434722330335582,
        0.04555019018605123985,
        0.02385814483721140776,
        0.04263568482003149247,
    ),
    "float64": (
        1.000000000000000014,
        0.166666666666647707,
        0.07500000000417895397,
        0.04464285678146727914,
        0.0303819606479308463,
        0.02237172802953224582,
        0.01736009372367869938,
        0.0138818521086732038,
        0.01218912898266612439,
        0.006449679671871321979,
        0.01972512231316423945,
        -0.01651052983731583721,
        0.03209542196492774148,
    ),
}
ARTANH = {  # artanh(s)/s in s² ≤ 0.04
    "float32": tuple(1.0 / (2 * k + 1) for k in range(6)),
    "float64": tuple(1.0 / (2 * k + 1) for k in range(12)),
}
ROUNDING = {"float32": 12582912.0, "float64": 6755399441055744.0}
EXP_LIMIT = {"float32": 87.3, "float64": 708.3}  # beyond, a result would not be a normal number
TWO_THIRDS = {32: 0x3F2AAAAB, 64: 0x3FE5555555555555}  # as bits
MANTISSA = {32: 23, 64: 52}
OPTIONS: dict[str, Any] = {"forceinline": True, "fastmath": {"contract"}, "error_model": "numpy"}


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
        above = self.builder.sub(self.of(value), self.constant(TWO_THIRDS[self.size]))
        return self.builder.ashr(above, self.shift)


@intrinsic
def _scaled(typing_context: Any, value: Any, rounded: Any) -> Any:
    """value · 2^n, where the last bits of `rounded` hold n."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = _Bits(builder, signature)
        exponent = builder.shl(bits.of(arguments[1]), bits.shift)
        return bits.back(builder.add(bits.of(arguments[0]), exponent))

    return value(value, value), code


@intrinsic
def _exponent(typing_context: Any, value: Any) -> Any:
    """e as a number, where value = 2^e · m and 2/3 ≤ m < 4/3."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = _Bits(builder, signature)
        return builder.sitofp(bits.exponent(arguments[0]), bits.number)

    return value(value), code


@intrinsic
def _mantissa(typing_context: Any, value: Any) -> Any:
    """m, where value = 2^e · m and 2/3 ≤ m < 4/3."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = _Bits(builder, signature)
        exponent = builder.shl(bits.exponent(arguments[0]), bits.shift)
        return bits.back(builder.sub(bits.of(arguments[0]), exponent))

    return value(value), code


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
    scale, rounding, bound = number(LOG2E), number(ROUNDING[name]), number(EXP_LIMIT[name])
    infinity, one, two = number(np.inf), number(1.0), number(2.0)
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

    @njit(**OPTIONS)
    def tanh(x):  # type: ignore[no-untyped-def]
        return one - two / (exp(two * x) + one)

    return {"decay": decay, "exp": exp, "tanh": tanh}


def _logarithm(number: Any, name: str) -> dict[str, Any]:
    log2, one, two = number(LOG2), number(1.0), number(2.0)
    artanh = _polynomial(number, ARTANH[name])

    @njit(**OPTIONS)
    def log(x):  # type: ignore[no-untyped-def]
        f = _mantissa(x) - one
        s = f / (two + f)
        return _exponent(x) * log2 + two * s * artanh(s * s)

    return {"log": log}


def _roots_and_angles(number: Any, name: str) -> dict[str, Any]:
    zero, half, one, two = (number(v) for v in (0.0, 0.5, 1.0, 2.0))
    half_pi = number(HALF_PI)
    ratio = _polynomial(number, ARC_SINE[name])

    @njit(**OPTIONS)
    def reciprocal_root(x):  # type: ignore[no-untyped-def]
        return one / np.sqrt(x) if x > zero else zero

    @njit(**OPTIONS)
    def arcsin(x):  # type: ignore[no-untyped-def]
        square = half * (one - min(x, one)) if x > half else x * x
        angle = np.sqrt(square) * ratio(square)
        return half_pi - two * angle if x > half else angle

    @njit(**OPTIONS)
    def step(x):  # type: ignore[no-untyped-def]
        return one if x > zero else (half if x == zero else zero)

    return {"reciprocal_root": reciprocal_root, "arcsin": arcsin, "step": step}


def _functions(number: Any) -> SimpleNamespace:
    name = number.__name__
    return SimpleNamespace(
        **_exponentials(number, name), **_logarithm(number, name), **_roots_and_angles(number, name)
    )


in_float32, in_float64 = _functions(np.float32), _functions(np.float64)


@njit(**OPTIONS)
def sqrt(x):  # type: ignore[no-untyped-def]
    """The square root, in the precision of its argument."""
    return np.sqrt(x)


@njit(**OPTIONS)
def floor(x):  # type: ignore[no-untyped-def]
    """The largest integer below, in the precision of its argument."""
    return np.floor(x)


