"""cos and sin of angles in turns: cos(2πu), sin(2πu), branch-free, for each precision.

A turn is taken off exactly, u − ⌊u⌉ ∈ [−½, ½], which no reduction by a rounded π does. With
g = ¼ − |u − ⌊u⌉| ∈ [−¼, ¼], cos(2πu) = sin(2πg) = g·p(g²), p a minimax polynomial of degree 4
(relative error 5e-9) or 8 (3e-19), computed by Remez exchange.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils
from numba.extending import intrinsic

from mercer.evaluation.cpu.elementary import OPTIONS, _polynomial

SINE_RATIO = {  # sin(2πg)/g in g², for |g| ≤ ¼
    "float32": (
        6.283185273793129605,
        -41.34167747823778724,
        81.60223121292657845,
        -76.57499126918664673,
        39.71091028672481445,
    ),
    "float64": (
        6.283185307179586475,
        -41.34170224039975623,
        81.60524927607340608,
        -76.70585975279850386,
        42.05869392378602301,
        -15.09464162054747973,
        3.81992705135566412,
        -0.71772359018938713,
        0.1008563757636094988,
    ),
}


def _instruction(name: str, builder: Any, arguments: Any) -> Any:
    """One of LLVM's own functions, which it can put into vectors."""
    number = arguments[0].type
    kind = ir.FunctionType(number, [number] * len(arguments))
    full = f"llvm.{name}.{'f32' if isinstance(number, ir.FloatType) else 'f64'}"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, full), arguments)


@intrinsic
def _nearest(typing_context: Any, x: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _instruction("rint", builder, arguments)

    return x(x), code


@intrinsic
def _with_sign(typing_context: Any, x: Any, sign: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _instruction("copysign", builder, arguments)

    return x(x, x), code


def _functions(number: Any) -> SimpleNamespace:
    ratio = _polynomial(number, SINE_RATIO[number.__name__])
    quarter, half = number(0.25), number(0.5)

    @njit(**OPTIONS)
    def cosine(u):  # type: ignore[no-untyped-def]
        g = quarter - abs(u - _nearest(u))
        return g * ratio(g * g)

    @njit(**OPTIONS)
    def sine(u):  # type: ignore[no-untyped-def]
        f = u - _nearest(u)
        size = abs(f)
        g = _with_sign(min(size, half - size), f)
        return g * ratio(g * g)

    return SimpleNamespace(cosine=cosine, sine=sine)


in_float32, in_float64 = _functions(np.float32), _functions(np.float64)
