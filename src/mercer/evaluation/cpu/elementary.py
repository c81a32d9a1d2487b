"""Elementary functions that LLVM can vectorise: one branch-free exponential for each precision.

exp(x) = 2^n · 2^f with n the integer nearest to x·log₂e and |f| ≤ ½. Adding 1.5·2^23 (1.5·2^52)
rounds to n and leaves n in the last bits, which are shifted into the exponent. 2^f is a minimax
polynomial of degree 6 (relative error 2e-9) or 11 (3e-18); both were computed by Remez exchange.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba.extending import intrinsic

LOG2E = 1.4426950408889634
SINGLE = (
    1.000000000554096974,
    0.6931472057368892473,
    0.2402264689126694552,
    0.05550328777392575468,
    0.009618488881739455811,
    0.001339993113641893568,
    0.0001534583265618888972,
)
DOUBLE = (
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
)
OPTIONS: dict[str, Any] = {"forceinline": True, "fastmath": {"contract"}, "error_model": "numpy"}


@intrinsic
def _scaled(typing_context: Any, value: Any, rounded: Any) -> Any:
    """value · 2^n, where the last bits of `rounded` hold n."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = signature.args[0].bitwidth
        integer = ir.IntType(bits)
        mantissa = 23 if bits == 32 else 52
        exponent = builder.shl(
            builder.bitcast(arguments[1], integer), ir.Constant(integer, mantissa)
        )
        total = builder.add(builder.bitcast(arguments[0], integer), exponent)
        return builder.bitcast(total, context.get_value_type(signature.args[0]))

    return value(value, value), code


def _exponentials(number: Any, coefficients: tuple[float, ...], magic: float, limit: float) -> Any:
    """exp and decay in one precision; beyond ±limit the result would leave the normal numbers."""
    scale, rounding, bound = number(LOG2E), number(magic), number(limit)
    infinity, zero = number(np.inf), number(0.0)
    top = number(coefficients[-1])
    c = tuple(number(value) for value in coefficients)
    degree = len(coefficients) - 1

    @njit(**OPTIONS)
    def power_of_two(x, rounded):  # type: ignore[no-untyped-def]
        f = x * scale - (rounded - rounding)
        p = top
        for k in range(degree):
            p = p * f + c[degree - 1 - k]
        return _scaled(p, rounded)

    @njit(**OPTIONS)
    def decay(x):  # type: ignore[no-untyped-def]
        x = -min(x, bound)
        return power_of_two(x, x * scale + rounding)

    @njit(**OPTIONS)
    def exp(x):  # type: ignore[no-untyped-def]
        inside = max(min(x, bound), -bound)
        value = power_of_two(inside, inside * scale + rounding)
        return infinity if x > bound else (value if x == x else x)

    @njit(**OPTIONS)
    def reciprocal_root(x):  # type: ignore[no-untyped-def]
        return number(1.0) / np.sqrt(x) if x > zero else zero

    return exp, decay, reciprocal_root


exp_float32, decay_float32, reciprocal_root_float32 = _exponentials(
    np.float32, SINGLE, 12582912.0, 87.3
)
exp_float64, decay_float64, reciprocal_root_float64 = _exponentials(
    np.float64, DOUBLE, 6755399441055744.0, 708.3
)


@njit(**OPTIONS)
def sqrt(x):  # type: ignore[no-untyped-def]
    """The square root, in the precision of its argument."""
    return np.sqrt(x)
