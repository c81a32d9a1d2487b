"""Rules that make the lines of a tile cheaper, in float32: the same values by fewer operations.

A line is `t3 = t1 * p0` and the like: `t` are numbers of a tile, `q` pair numbers, and what starts
with l, p, r or w is known before the first tile.
"""

from __future__ import annotations

import re

from mercer.evaluation.gpu.families import Code
from mercer.evaluation.minimax import LOG2E
from mercer.evaluation.program import Program

CONSTANT = r"([lprw]\w+)"
MODEST = 4.0  # powers up to which a logarithm of the card has digits enough


def cheaper(code: Code, program: Program, lines: list[str]) -> list[str]:
    """The lines after all rules but `weighed`."""
    lines = _quick_powers(code, program, _binary_exponents(code, lines))
    lines = _factors_in_exponents(code, program, _factors_inside(code, lines))
    return _shared(lines, code.crosswise)


def reads(line: str, name: str) -> list[str]:
    """Where a line reads a name."""
    return re.findall(rf"\b{name}\b", line.partition(" = ")[2])


def _uses(lines: list[str], name: str) -> int:
    return sum(len(reads(line, name)) for line in lines)


def _place(lines: list[str], name: str) -> int:
    """The number of the line that makes a name, or −1."""
    return next((n for n, line in enumerate(lines) if line.startswith(f"{name} = ")), -1)


def _once(lines: list[str], name: str, pattern: str) -> re.Match[str] | None:
    """The line that makes a name, if it has a form and nothing but one line reads the name."""
    place = _place(lines, name)
    if place < 0 or _uses(lines, name) != 1:
        return None
    return re.fullmatch(rf"{name} = {pattern}", lines[place])


def _binary_exponents(code: Code, lines: list[str]) -> list[str]:
    """decay(p·x), x being used nowhere else in this form, as 2^(p'·x), p' being −p·log₂e."""
    out = list(lines)
    for n, line in enumerate(lines):
        decayed = re.fullmatch(r"(t\d+) = decay\((t\d+)\)", line)
        if decayed is None:
            continue
        scaled = _once(out, decayed[2], r"([pr])(\w+) \* (\w+)")
        if scaled is None:
            out[n] = f"{decayed[1]} = decay2({decayed[2]} * {-LOG2E!r})"
            continue
        name = f"w{scaled[1]}{scaled[2]}"
        code.constant(name, f"{scaled[1]}{scaled[2]} * {-LOG2E!r}")
        out[_place(out, decayed[2])] = ""
        out[n] = f"{decayed[1]} = decay2({name} * {scaled[3]})"
    return out


def _quick_powers(code: Code, program: Program, lines: list[str]) -> list[str]:
    """(1 + x)^−p = 2^(−p·log₂(1 + x)) for a modest p: the card has both functions.

    >>> from mercer.evaluation.expression import decay, log1p, squared_distance
    >>> from mercer.evaluation.program import lower
    >>> power = lower(decay(1.5 * log1p(squared_distance())))
    >>> _quick_powers(Code(), power, ["t0 = log1p(q0)", "", "t2 = decay2(wp0 * t0)"])
    ['t0 = log2_above_one(q0)', '', 't2 = decay2(wl0 * t0)']
    """
    out = list(lines)
    for n, line in enumerate(lines):
        power = re.fullmatch(r"(t\d+) = decay2\(wp(\d+) \* (t\d+)\)", line)
        if power is None or not 0.0 < program.parameters[int(power[2])] <= MODEST:
            continue
        logarithm = _once(out, power[3], r"log1p\((\w+)\)")
        if logarithm is None:
            continue
        code.constant(f"wl{power[2]}", f"-p{power[2]}")
        out[_place(out, power[3])] = f"{power[3]} = log2_above_one({logarithm[1]})"
        out[n] = f"{power[1]} = decay2(wl{power[2]} * {power[3]})"
    return out


def _factors_inside(code: Code, lines: list[str]) -> list[str]:
    """c·q times (a·t + b)·s needs one multiplication less as q·(ca·t + cb) times s.

    What comes last, s, is an exponential, which is waited for.

    >>> lines = ["t0 = r0 * q1", "t1 = p1 * t9", "t2 = t1 + p2", "t3 = t2 * t8", "t4 = t0 * t3"]
    >>> "; ".join(_factors_inside(Code(), lines))
    't0 = q1; t1 = p1_r0 * t9; t2 = t1 + p2_r0; t3 = t0 * t2; t4 = t3 * t8'
    """
    out = list(lines)
    for line in lines:
        product = re.fullmatch(r"t\d+ = (t\d+) \* (t\d+)", line)
        scaled = product and _once(out, product[1], rf"{CONSTANT} \* (q\d+)")
        outer = product and _once(out, product[2], r"(t\d+) \* (t\d+)")
        affine = outer and _once(out, outer[1], rf"(t\d+) \+ {CONSTANT}")
        linear = affine and _once(out, affine[1], rf"{CONSTANT} \* (t\d+)")
        if not (product and scaled and outer and affine and linear):
            continue
        factor = scaled[1]
        for name in (linear[1], affine[2]):
            code.constant(f"{name}_{factor}", f"{name} * {factor}")
        changed = {
            product[1]: scaled[2],
            affine[1]: f"{linear[1]}_{factor} * {linear[2]}",
            outer[1]: f"{affine[1]} + {affine[2]}_{factor}",
            product[2]: f"{product[1]} * {outer[1]}",
            line.partition(" = ")[0]: f"{product[2]} * {outer[2]}",
        }
        for name, value in changed.items():
            out[_place(out, name)] = f"{name} = {value}"
    return out


def _factors_in_exponents(code: Code, program: Program, lines: list[str]) -> list[str]:
    """p·2^x is 2^(x + log₂p) for a positive p.

    >>> from mercer.evaluation.expression import decay, squared_distance
    >>> from mercer.evaluation.program import lower
    >>> twice = lower(2.0 * decay(squared_distance()))
    >>> _factors_in_exponents(Code(), twice, ["t0 = decay2(w0 * q0)", "t1 = p0 * t0"])
    ['t0 = decay2(w0 * q0 + log0)', 't1 = t0']
    """
    out = list(lines)
    for n, line in enumerate(lines):
        product = re.fullmatch(r"(t\d+) = p(\d+) \* (t\d+)", line)
        if product is None or not program.parameters[int(product[2])] > 0.0:
            continue
        exponential = _once(out, product[3], r"decay2\((\w+ \* q\d+)\)")
        if exponential is None:
            continue
        code.constant(f"log{product[2]}", f"log2(p{product[2]})", f"tl.log2(p{product[2]})")
        added = f"{exponential[1]} + log{product[2]}"
        out[_place(out, product[3])] = f"{product[3]} = decay2({added})"
        out[n] = f"{product[1]} = {product[3]}"
    return out


def _shared(lines: list[str], crosswise: bool) -> list[str]:
    """Exponentials beside roots, which one unit of the card computes: how many by polynomials."""
    if not any("sqrt(" in line for line in lines):
        return lines
    several = sum("decay2" in line for line in lines) > 1
    wait = several and not crosswise  # for the exponentials alone
    name, other = ("decay2(", "decay2_plain(") if wait else ("sqrt(", "sqrt_mixed(")
    return [line.replace(f"= {name}", f"= {other}") for line in lines]


def weighed(
    program: Program, lines: list[str], result: str, dtype: str
) -> tuple[list[str], str, str]:
    """The lines for a value times the weight v of its column.

    (a·t + b)·s needs one multiplication less as (av·t + bv)·s, since av and bv belong to a column;
    where b is 1, bv needs no register.

    >>> from mercer.evaluation.program import lower
    >>> from mercer.kernels import Matern
    >>> lines = ["t1 = p0 * t0", "t2 = t1 + p2", "t3 = t2 * t9"]
    >>> weighed(lower(Matern(1.5).expression()), lines, "t3", "float32")[:2]
    (['t1 = (v * p0) * t0', 't2 = t1 + v', 't3 = t2 * t9'], 't3')
    """
    place = _place(lines, result)
    last = lines[place] if place >= 0 else ""
    product = re.fullmatch(r"t\d+ = (t\d+) \* (t\d+)", last)
    affine = product and _once(lines, product[1], rf"(t\d+) \+ {CONSTANT}")
    linear = affine and _once(lines, affine[1], rf"{CONSTANT} \* (t\d+)")
    if not (product and affine and linear):
        return [*lines, f"value = {result} * v"], "value", dtype
    out = list(lines)
    out[_place(lines, affine[1])] = f"{affine[1]} = (v * {linear[1]}) * {linear[2]}"
    ones = {f"p{n}" for n, value in enumerate(program.parameters) if value == 1.0}
    added = "v" if affine[2] in ones else f"v * {affine[2]}"
    out[_place(lines, product[1])] = f"{product[1]} = {affine[1]} + {added}"
    return out, result, dtype
