"""Elementary functions as Triton source, one set for each precision.

They are text, written into the generated module beside the code that calls them, so that this
module can be imported without Triton. Exponentials, roots and logarithms of float32 are the card's
own instructions where it has them; the polynomials are those of the CPU.
"""

from __future__ import annotations

from collections.abc import Iterable

from mercer.evaluation.minimax import LOG2, LOG2E, LOG_RATIO, ODD
from mercer.evaluation.tables import DEGREE, PIECES

LOG2E_REST = 1.9259629911266175e-08  # log₂e less its float32
BITS = {"float32": (32, 23), "float64": (64, 52)}  # size, mantissa
HEX_OF_TWO_THIRDS = {"float32": "0x3F2AAAAB", "float64": "0x3FE5555555555555"}
HEX_OF_ONE = {"float32": "0x3F800000", "float64": "0x3FF0000000000000"}


def needed(operations: Iterable[str], dtype: str, card: bool) -> str:
    """The functions of some operations, with PTX where it is for a `card` of NVIDIA's."""
    used = set(operations)
    return "".join(
        f"\n\n@triton.jit\ndef {function}({arguments}):\n" + "\n".join(f"    {i}" for i in lines)
        for operation, (function, arguments, lines) in _functions(dtype, card).items()
        if operation in used
    )


def _functions(dtype: str, card: bool) -> dict[str, tuple[str, str, list[str]]]:
    """The name, the arguments and the lines of the function of every operation that has one."""
    plain = {
        "decay": ("decay", "x", ["return tl.exp(-x)"]),
        "exp2": ("exp2", "x", ["return tl.exp2(x)"]),
        # a distance that rounding made negative needs no line of its own
        "sqrt": ("sqrt", "x", ["return tl.sqrt(tl.abs(x))"]),
        "absolute": ("abs", "x", ["return tl.abs(x)"]),
        "minimum": ("min", "x, y", ["return tl.minimum(x, y)"]),
        "maximum": ("max", "x, y", ["return tl.maximum(x, y)"]),
        "reciprocal_root": (
            "reciprocal_root",
            "x",
            ["return tl.where(x > 0.0, 1.0 / tl.sqrt(tl.where(x > 0.0, x, 1.0)), 0.0)"],
        ),
        "step": ("step", "x", ["return tl.where(x > 0.0, 1.0, tl.where(x == 0.0, 0.5, 0.0))"]),
    }
    made = {
        "exp": ("x", ["return tl.exp(x)"] if dtype == "float64" else _exponential()),
        "log2_1p": ("x", [_binary_logarithm(card)]),
        "nearest": ("x", _nearest(dtype)),
        "tabulated": ("table, first, last, x", _tabulated(dtype, card)),
        **{name: ("x", lines) for name, lines in _logarithms(dtype).items()},
        **{name: ("x", _odd(power, table[dtype])) for name, (power, table) in ODD.items()},
    }
    return plain | {name: (name, *written) for name, written in made.items()}


def _polynomial(coefficients: tuple[float, ...], x: str, name: str) -> list[str]:
    """Horner's rule, written out."""
    *lower, second, top = coefficients
    return [f"{name} = {x} * {top!r} + {second!r}"] + [
        f"{name} = {name} * {x} + {c!r}" for c in reversed(lower)
    ]


def _exponential() -> list[str]:
    """exp(x) = 2^e · (1 + rest·log 2), the rest being what rounding took from e = x·log₂e."""
    return [
        f"e = x * {LOG2E!r}",
        f"rest = tl.fma(x, tl.zeros_like(x) + {LOG2E!r}, -e) + x * {LOG2E_REST!r}",
        "value = tl.exp2(e)",
        # beyond the range e is infinite, and its rest is not a number
        f"return tl.where(tl.abs(e) < 200.0, value + value * (rest * {LOG2!r}), value)",
    ]


def _binary_logarithm(card: bool) -> str:
    """log₂(1 + x) for x ≥ 0, to about 3e-7; Triton's own takes twenty instructions."""
    if not card:
        return "return tl.log2(1.0 + x)"
    given = "'lg2.approx.ftz.f32 $0, $1;', '=f,f', [1.0 + x]"
    return f"return tl.inline_asm_elementwise({given}, dtype=tl.float32, is_pure=True, pack=1)"


def _logarithms(dtype: str) -> dict[str, list[str]]:
    """log(2^e·(1 + f)) = e·log 2 + f·p(f), with 2/3 ≤ 1 + f < 4/3."""
    size, mantissa = BITS[dtype]
    split = [
        f"e = ({{x}}.to(tl.int{size}, bitcast=True) - {HEX_OF_TWO_THIRDS[dtype]}) >> {mantissa}",
        f"bits = {{x}}.to(tl.int{size}, bitcast=True) - (e << {mantissa})",
        f"f = bits.to(tl.{dtype}, bitcast=True) - 1.0",
        f"whole = e.to(tl.{dtype}) * {LOG2!r}",
    ]
    ratio = _polynomial(LOG_RATIO[dtype], "f", "p")
    small = [
        "above = x + 1.0",
        *(line.format(x="above") for line in split),
        f"near = x < {1 / 3!r}",
        "f = tl.where(near, x, f)",
        "whole = tl.where(near, 0.0, whole)",
    ]
    last = [*ratio, "return whole + f * p"]
    return {"log": [*(line.format(x="x") for line in split), *last], "log1p": [*small, *last]}


def _odd(power: int, coefficients: tuple[float, ...]) -> list[str]:
    """x^k·p(x²)."""
    squares = " * z" * (power // 2)
    return ["z = x * x", *_polynomial(coefficients, "z", "p"), f"return x * p{squares}"]


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


def _tabulated(dtype: str, card: bool) -> list[str]:
    """The polynomial of the piece that x falls into.

    Triton would exchange coefficients between threads (72 barriers for a tile, counted in PTX); on
    a card each thread reads its own, two at a time.
    """
    size, mantissa = BITS[dtype]
    pieces, count = PIECES[dtype].bit_length() - 1, DEGREE[dtype] + 1
    lines = [
        f"bits = tl.abs(x).to(tl.int{size}, bitcast=True)",
        f"piece = (bits - first) >> {mantissa - pieces}",
        f"inside = (((bits << {pieces}) & {(1 << mantissa) - 1}) | {HEX_OF_ONE[dtype]})",
        f"inside = inside.to(tl.{dtype}, bitcast=True) - 1.5",
        "w = tl.where(piece < 0, -0.5, tl.where(piece > last, 0.5, inside))",
        "piece = tl.minimum(tl.maximum(piece, 0), last).to(tl.int32)",
    ]
    if card:
        read = f"ld.global.nc.v2.f{size} {{$0, $1}}, [$2];"
        kinds = f"={'f' if size == 32 else 'd'}," * 2 + "l"
        lines.append(f"at = table.to(tl.int64) + piece.to(tl.int64) * {count * size // 8}")
        lines += [
            f"c{k}, c{k + 1} = tl.inline_asm_elementwise({read!r}, {kinds!r}, "
            f"[at + {k * size // 8}], dtype=(tl.{dtype}, tl.{dtype}), is_pure=True, pack=1)"
            for k in range(0, count, 2)
        ]
    else:
        lines += [f"c{k} = tl.load(table + piece * {count} + {k})" for k in range(count)]
    lines.append(f"p = c{count - 1}")
    lines += [f"p = p * w + c{k}" for k in reversed(range(count - 1))]
    return [*lines, "return p"]
