"""Elementary functions as Triton source, one set for each precision.

They are text, written into the generated module beside the program that calls them, so that this
module can be imported without Triton. The polynomials are those of the CPU. In float32
roots and exponentials are the card's own instructions, a value of which takes eight steps of its
unit. A simple kernel waits for that unit, so that one exponential in eight is computed by a
polynomial (`decay2`), or seven roots in sixteen (`sqrt_mixed`). More does not pay: polynomials wait
for the multipliers, which the unit keeps from half of their work. Which share is best was measured.
"""

from __future__ import annotations

import re
import struct

from mercer.evaluation.minimax import ARC_SINE, LOG2, LOG2E, LOG_RATIO, RAMP_ANGLE, SQUARE_ANGLE
from mercer.evaluation.tables import DEGREE, PIECES

TWO_POWER_SHORT = (  # 2^f on |f| ≤ ½, relative error 7.5e-8
    1.00000007165471414,
    0.693146967065035214,
    0.240221197237107196,
    0.055507132718556442,
    0.00967554134312132739,
    0.00132764726319508761,
)
MIXED = {  # so many of so many by a polynomial, and the sign of x in 2^(±x)
    "decay2": (1, 8, ""),
    "decay2_plain": (0, 1, ""),
    "decay2_root": (0, 1, "-"),
}
MIXED_ROOTS = {  # so many of so many by a polynomial
    "sqrt": (0, 1),
    "sqrt_mixed": (7, 16),
    "shifted_root": (5, 16),
    "shifted_root_more": (13, 16),  # beside two exponentials
}
GUESS = 0x5F374000  # less half the bits of q, these are those of y, about 1/√q
ROOT = (1.0000000011, 0.4999983399, 0.3749960866, 0.3139311820, 0.2753580508)  # to 2.3e-8
ROUNDING = 1.5 * 2.0**23  # added and taken off again, it leaves the nearest integer
SMALLEST = -126.0  # exponent of a normal number
EX2, SQRT = "ex2.approx.ftz.f32", "sqrt.approx.ftz.f32"
ROOT_REGISTERS = "{ .reg .f32 y, t, h, p; .reg .b32 i; "
LOG2E_REST = 1.9259629911266175e-08  # log₂e less its float32
BITS = {"float32": (32, 23), "float64": (64, 52)}  # size, mantissa
TWO_THIRDS = {"float32": "0x3F2AAAAB", "float64": "0x3FE5555555555555"}
ONE = {"float32": "0x3F800000", "float64": "0x3FF0000000000000"}


def hexadecimal(value: float) -> str:
    """A float32 number as PTX writes it."""
    return "0f" + struct.pack(">f", value).hex().upper()


def is_chosen(i: int, share: int, pack: int) -> bool:
    """Whether value i is one of `share` among `pack` that are spread out evenly.

    >>> [i for i in range(8) if is_chosen(i, 3, 8)]
    [2, 5, 7]
    """
    return i * share // pack != (i + 1) * share // pack


def _mixed_exponential(pack: int, polynomials: int, sign: str) -> str:
    """PTX for some values of 2^x or 2^−x: a few by a polynomial, others by the card."""
    steps = []
    for i in range(pack):
        steps += [f"{'neg' if sign else 'mov'}.f32 r, ${i + pack};"]
        steps += power_by_polynomial(i) if is_chosen(i, polynomials, pack) else [f"{EX2} ${i}, r;"]
    return "{ .reg .f32 r, n, f, p; .reg .b32 i, k; " + " ".join(steps) + " }"


def power_by_polynomial(i: int) -> list[str]:
    """2^x = 2^n·2^f with a whole n: its bits are added to those of a polynomial in f."""
    *lower, top = (hexadecimal(c) for c in TWO_POWER_SHORT)
    rounding = hexadecimal(ROUNDING)
    return [
        f"max.ftz.f32 r, r, {hexadecimal(SMALLEST)};",
        f"add.rn.ftz.f32 n, r, {rounding};",
        f"sub.rn.ftz.f32 f, n, {rounding};",
        "sub.rn.ftz.f32 f, r, f;",
        f"mov.f32 p, {top};",
        *(f"fma.rn.ftz.f32 p, p, f, {c};" for c in reversed(lower)),
        "mov.b32 i, n;",
        "shl.b32 i, i, 23;",
        "mov.b32 k, p;",
        "add.s32 k, k, i;",
        f"mov.b32 ${i}, k;",
    ]


def _polynomial(coefficients: tuple[float, ...], x: str, name: str) -> list[str]:
    """Horner's rule, written out."""
    *lower, second, top = coefficients
    return [f"{name} = {x} * {top!r} + {second!r}"] + [
        f"{name} = {name} * {x} + {c!r}" for c in reversed(lower)
    ]


def _function(name: str, arguments: str, lines: list[str]) -> str:
    return f"\n\n@triton.jit\ndef {name}({arguments}):\n" + "\n".join(f"    {i}" for i in lines)


def _exponentials(dtype: str, assembly: bool) -> dict[str, str]:
    if dtype == "float64":
        return {
            "exp": _function("exp", "x", ["return tl.exp(x)"]),
            "decay": _function("decay", "x", ["return tl.exp(-x)"]),
        }
    plain = _assembly(f"{EX2} $0, $1;", 1)
    mixed = {
        name: _assembly(_mixed_exponential(pack, polynomials, sign), pack)
        for name, (polynomials, pack, sign) in MIXED.items()
    }
    return {
        "exp2": _function("exp2", "x", [plain if assembly else "return tl.exp2(x)"]),
        **{
            name: _function(name, "x", [mixed[name] if assembly else f"return tl.exp2({sign}x)"])
            for name, (_, _, sign) in MIXED.items()
        },
        "decay": _function("decay", "x", [f"return exp2(x * {-LOG2E!r})"]),
        "log2_above_one": _function("log2_above_one", "x", [_binary_logarithm(assembly)]),
        "exp": _function(
            "exp",
            "x",
            [
                f"e = x * {LOG2E!r}",
                f"rest = tl.fma(x, tl.zeros_like(x) + {LOG2E!r}, -e) + x * {LOG2E_REST!r}",
                "value = exp2(e)",
                # beyond the range e is infinite, and its rest is not a number
                f"return tl.where(tl.abs(e) < 200.0, value + value * (rest * {LOG2!r}), value)",
            ],
        ),
    }


def _binary_logarithm(assembly: bool) -> str:
    """log₂(1 + x) for x ≥ 0, to about 3e-7: for an exponent that is not multiplied by much."""
    one = hexadecimal(1.0)
    code = f"{{ .reg .f32 s; add.rn.ftz.f32 s, $1, {one}; lg2.approx.ftz.f32 $0, s; }}"
    return _assembly(code, 1) if assembly else "return tl.log2(1.0 + x)"


def _logarithms(dtype: str) -> dict[str, str]:
    size, mantissa = BITS[dtype]
    above = f"(x.to(tl.int{size}, bitcast=True) - {TWO_THIRDS[dtype]}) >> {mantissa}"
    split = [
        f"e = {above}",
        f"bits = x.to(tl.int{size}, bitcast=True) - (e << {mantissa})",
        f"f = bits.to(tl.{dtype}, bitcast=True) - 1.0",
        f"whole = e.to(tl.{dtype}) * {LOG2!r}",
    ]
    ratio = _polynomial(LOG_RATIO[dtype], "f", "p")
    return {
        "log": _function("log", "x", [*split, *ratio, "return whole + f * p"]),
        "log1p": _function(
            "log1p",
            "small",
            [
                "x = small + 1.0",
                *split,
                f"near = small < {1 / 3!r}",
                "f = tl.where(near, small, f)",
                "whole = tl.where(near, 0.0, whole)",
                *ratio,
                "return whole + f * p",
            ],
        ),
    }


def _tabulated(dtype: str, assembly: bool) -> dict[str, str]:
    size, mantissa = BITS[dtype]
    pieces = PIECES[dtype].bit_length() - 1
    degree = DEGREE[dtype]
    lines = [
        f"bits = tl.abs(x).to(tl.int{size}, bitcast=True)",
        f"piece = (bits - first) >> {mantissa - pieces}",
        f"inside = (((bits << {pieces}) & {(1 << mantissa) - 1}) | {ONE[dtype]})",
        f"inside = inside.to(tl.{dtype}, bitcast=True) - 1.5",
        "w = tl.where(piece < 0, -0.5, tl.where(piece > last, 0.5, inside))",
        "piece = tl.minimum(tl.maximum(piece, 0), last).to(tl.int32)",
    ]
    if assembly:
        lines += ["base = table.to(tl.int64)", _piece_by_assembly(dtype)]
    else:
        lines += [f"row = piece * {degree + 1}", f"p = tl.load(table + row + {degree})"]
        lines += [f"p = p * w + tl.load(table + row + {degree - 1 - k})" for k in range(degree)]
        lines += ["return p"]
    return {"tabulated": _function("tabulated", "table, first, last, x", lines)}


def _piece_by_assembly(dtype: str) -> str:
    """A polynomial whose coefficients each thread reads for itself: Triton would exchange them."""
    size, kind, register = (4, "ftz.f32", "f") if dtype == "float32" else (8, "f64", "d")
    number, count = f"f{8 * size}", DEGREE[dtype] + 1
    places = range(0, count, 2)
    steps = [
        f"{{ .reg .u64 a; .reg .{number} p, c<{count}>;",
        f"mul.wide.s32 a, $2, {count * size};",
        "add.u64 a, a, $1;",
        *(f"ld.global.nc.v2.{number} {{c{k}, c{k + 1}}}, [a + {k * size}];" for k in places),
        f"mov.{number} p, c{count - 1};",
        *(f"fma.rn.{kind} p, p, $3, c{k};" for k in reversed(range(count - 1))),
        f"mov.{number} $0, p; }}",
    ]
    return (
        f"return tl.inline_asm_elementwise({' '.join(steps)!r}, '={register},l,r,{register}', "
        f"[base, piece, w], dtype=tl.{dtype}, is_pure=True, pack=1)"
    )


def functions(dtype: str, assembly: bool) -> dict[str, str]:
    """The source of every function, by name; those that others call come first."""
    return {
        **_exponentials(dtype, assembly),
        **_logarithms(dtype),
        **_tabulated(dtype, assembly),
        "tanh": _function("tanh", "x", ["return 1.0 - 2.0 / (exp(2.0 * x) + 1.0)"]),
        "arcsin": _function(
            "arcsin", "x", ["z = x * x", *_polynomial(ARC_SINE[dtype], "z", "p"), "return x * p"]
        ),
        "ramp_angle": _function(
            "ramp_angle",
            "x",
            ["z = x * x", *_polynomial(RAMP_ANGLE[dtype], "z", "p"), "return x * z * p"],
        ),
        "square_angle": _function(
            "square_angle",
            "x",
            ["z = x * x", *_polynomial(SQUARE_ANGLE[dtype], "z", "p"), "return x * (z * z) * p"],
        ),
        **{name: _square_root(name, dtype, assembly) for name in ("sqrt", "sqrt_mixed")},
        **{name: _shifted_root(name, assembly) for name in ("shifted_root", "shifted_root_more")},
        "reciprocal_root": _function(
            "reciprocal_root",
            "x",
            ["return tl.where(x > 0.0, 1.0 / tl.sqrt(tl.where(x > 0.0, x, 1.0)), 0.0)"],
        ),
        "step": _function(
            "step", "x", ["return tl.where(x > 0.0, 1.0, tl.where(x == 0.0, 0.5, 0.0))"]
        ),
        "nearest": _function("nearest", "x", _nearest(dtype)),
        "abs": _function("abs", "x", ["return tl.abs(x)"]),
        "min": _function("min", "x, y", ["return tl.minimum(x, y)"]),
        "max": _function("max", "x, y", ["return tl.maximum(x, y)"]),
    }


def _square_root(name: str, dtype: str, assembly: bool) -> str:
    """√|x|, or about 0 for x < 0: a distance that rounding made negative needs no line."""
    if dtype == "float64" or not assembly:
        return _function(name, "x", ["return tl.sqrt(tl.abs(x))"])
    share, pack = MIXED_ROOTS[name]
    coefficients = [hexadecimal(c) for c in ROOT]
    steps = []
    for i in range(pack):
        q, root = f"${i + pack}", f"${i}"
        if is_chosen(i, share, pack):
            steps += [*polynomial_of_root(q, coefficients), f"mul.rn.ftz.f32 {root}, t, p;"]
        else:
            steps += [f"abs.f32 t, {q};", f"{SQRT} {root}, t;"]
    return _function(name, "x", [_assembly(ROOT_REGISTERS + " ".join(steps) + " }", pack)])


def _shifted_root(name: str, assembly: bool) -> str:
    """k0·√|x| + shift; k0 to k4 are the coefficients of a root's polynomial times a factor."""
    factors = [f"k{c}" for c in range(len(ROOT))]
    inputs = ", ".join(["x", *factors, "shift"])
    if not assembly:
        return _function(name, inputs, ["return k0 * tl.sqrt(tl.abs(x)) + shift"])
    share, pack = MIXED_ROOTS[name]
    steps = []
    for i in range(pack):
        q, *coefficients, shift = (f"${(k + 1) * pack + i}" for k in range(len(factors) + 2))
        if is_chosen(i, share, pack):
            steps += [*polynomial_of_root(q, coefficients), f"fma.rn.ftz.f32 ${i}, t, p, {shift};"]
        else:
            steps += [f"abs.f32 t, {q};", f"{SQRT} t, t;"]
            steps += [f"fma.rn.ftz.f32 ${i}, t, {coefficients[0]}, {shift};"]
    code = ROOT_REGISTERS + " ".join(steps) + " }"
    return _function(name, inputs, [_assembly(code, pack, inputs)])


def polynomial_of_root(q: str, coefficients: list[str]) -> list[str]:
    """PTX of t and p with √q = t·p: a guess y of 1/√q by its bits, and how wrong it is, 1 − qy².

    The bits of a q a little below 0 give a y that is as good as 0, and such a root.
    """
    *lower, top = coefficients
    return [
        f"mov.b32 i, {q};",
        "shr.u32 i, i, 1;",
        f"sub.s32 i, {GUESS}, i;",
        "mov.b32 y, i;",
        f"mul.rn.ftz.f32 t, {q}, y;",
        "neg.f32 h, t;",
        f"fma.rn.ftz.f32 h, h, y, {hexadecimal(1.0)};",
        f"mov.f32 p, {top};",
        *(f"fma.rn.ftz.f32 p, p, h, {c};" for c in reversed(lower)),
    ]


def _assembly(code: str, pack: int, inputs: str = "x") -> str:
    """A line that returns so many values at a time, as a piece of assembly computes them."""
    constraints = ",".join(["=&f"] * pack + ["f"] * (pack * len(inputs.split(", "))))
    return (
        f"return tl.inline_asm_elementwise({code!r}, {constraints!r}, [{inputs}], "
        f"dtype=tl.float32, is_pure=True, pack={pack})"
    )


def _nearest(dtype: str) -> list[str]:
    """The nearest integer, halves to even; from 2^23 (2^52) on every number is one."""
    limit = 2.0 ** BITS[dtype][1]
    return [
        "down = tl.floor(x)",
        "rest = x - down",
        "odd = down - 2.0 * tl.floor(0.5 * down)",
        "up = (rest > 0.5) | ((rest == 0.5) & (odd == 1.0))",
        f"return tl.where(tl.abs(x) < {limit!r}, tl.where(up, down + 1.0, down), x)",
    ]


def needed(code: str, dtype: str, assembly: bool) -> str:
    """The functions that a piece of code calls, and those that they call."""
    available = functions(dtype, assembly)
    wanted: set[str] = set()
    frontier = [code]
    while frontier:
        text = frontier.pop()
        for name in set(re.findall(r"(?<![\w.])(\w+)\(", text)) & available.keys() - wanted:
            wanted.add(name)
            frontier.append(available[name].split(":\n", 1)[1])
    return "".join(text for name, text in available.items() if name in wanted)
