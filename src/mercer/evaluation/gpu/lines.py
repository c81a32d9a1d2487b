"""The lines of a program as Triton code: exponentials to the base 2, tables, absorbed factors."""

from __future__ import annotations

import re
from typing import Any

from mercer.evaluation.gpu.elementary import ROOT
from mercer.evaluation.gpu.families import Code, Family
from mercer.evaluation.gpu.rules import cheaper, reads
from mercer.evaluation.minimax import LOG2
from mercer.evaluation.program import Program
from mercer.evaluation.tables import Table


def load_parameters(code: Code, program: Program) -> None:
    """Parameters once for each block of rows, tables as arguments."""
    for p in range(len(program.parameters)):
        code.constant(f"p{p}", f"parameters[{p}]", f"tl.load(P + {p})")
    for t in range(len(program.tables)):
        code.argument(f"T{t}")


def program_lines(
    code: Code,
    program: Program,
    dtype: str,
    exponents: dict[int, str],
    families: tuple[Family, ...],
) -> tuple[list[str], str, str]:
    """The lines for a tile, the name of their result, and its type."""
    lines = [_tabulated(line, program.tables, dtype) for line in program.lines]
    for family in families:
        if family.absorbed >= 0:
            _absorb(code, program, lines, family)
    for q in code.rescaled:
        lines = [re.sub(rf"= p(\d+) \* q{q}$", rf"= r\1_{q} * q{q}", line) for line in lines]
    for q, exponent in exponents.items():
        use = exponent_use(program, q)
        assert use is not None
        _, scaled, decayed = use
        lines[scaled] = ""
        lines[decayed] = f"{lines[decayed].split(' = ')[0]} = decay2({exponent})"
    if dtype == "float32":
        lines = cheaper(code, program, lines)
    if program.pairs or (program.x_norms and program.y_norms):
        return lines, program.result, dtype
    full = f"value = tl.zeros((BM, BN), tl.{dtype}) + {program.result}"
    return [*lines, full], "value", dtype


def balanced_lines(code: Code, program: Program, family: Family) -> tuple[list[str], str, str]:
    """The lines of the form of `balance` for the only family, weighed by v."""
    form = "arrays['balance0']"
    q = next(n for n, pair in enumerate(program.pairs) if pair.kind == "squared_distance")
    factors = [code.constant(f"k{c}", f"{form}.root * {ROOT[c]!r}") for c in range(len(ROOT))]
    shift, weight = (code.constant(name, f"{form}.{name}") for name in ("shift", "weight"))
    flat = [f"flat = decay2_root(q{q})"] if family.decays else []
    root = "shifted_root_more" if flat else "shifted_root"
    lines = [
        *flat,
        f"u = {root}(q{q}, {', '.join(factors)}, {shift})",
        "slope = e0 * u",
        "steep = decay2_root(u)",
        f"value = (slope * steep{' + flat' if flat else ''}) * (v * {weight})",
    ]
    return lines, "value", "float32"


def _tabulated(line: str, tables: tuple[Table, ...], dtype: str) -> str:
    match = re.search(r"tabulated\(T(\d+), ", line)
    if match is None:
        return line
    first, last = table_range(tables[int(match[1])], dtype)
    return line.replace(match[0], f"tabulated(T{match[1]}, {first}, {last}, ")


def table_range(table: Table, dtype: str) -> tuple[int, int]:
    """The bits of the number at which a table starts, and the number of its last piece."""
    import numpy as np

    start: Any = np.array(2.0 ** table.first_octave(dtype), dtype)
    bits = start.view(np.int32 if dtype == "float32" else np.int64)
    return int(bits), len(table.coefficients(dtype)) - 1


def exponent_use(program: Program, q: int) -> tuple[int, int, int] | None:
    """Where q is used once, as decay(p·q): (p, the line of p·q, the line of its decay).

    >>> from mercer.evaluation.expression import decay, squared_distance
    >>> from mercer.evaluation.program import lower
    >>> exponent_use(lower(decay(0.5 * squared_distance())), 0)
    (0, 0, 1)
    """
    factor = factor_use(program, q)
    if factor is None:
        return None
    parameter, scaled = factor
    name = program.lines[scaled].partition(" = ")[0]
    decayed = _only_use(program, name)
    if decayed is None or not re.fullmatch(rf"t\d+ = decay\({name}\)", program.lines[decayed]):
        return None
    return parameter, scaled, decayed


def factor_use(program: Program, q: int) -> tuple[int, int] | None:
    """Where q is used once, as p·q with a positive p: (p, the line)."""
    scaled = _only_use(program, f"q{q}")
    match = scaled is not None and re.fullmatch(rf"t\d+ = p(\d+) \* q{q}", program.lines[scaled])
    if scaled is None or not match or not program.parameters[int(match[1])] > 0.0:
        return None
    return int(match[1]), scaled


def absorbed_use(program: Program, q: int) -> tuple[int, int] | None:
    """The product p·q whose factor goes into the operands: (p, the line).

    It is the only use of q, or one whose root is an exponent, where the others are products too.
    """
    only = factor_use(program, q)
    if only is not None:
        return only
    uses = [n for n, line in enumerate(program.lines) if reads(line, f"q{q}")]
    factors = [re.fullmatch(rf"t\d+ = p(\d+) \* q{q}", program.lines[n]) for n in uses]
    if program.result == f"q{q}" or not all(factors):
        return None
    for n, factor in zip(uses, factors, strict=True):
        assert factor is not None
        if program.parameters[int(factor[1])] > 0.0 and exponent_root(program, n) is not None:
            return int(factor[1]), n
    return None


def exponent_root(program: Program, line: int) -> int | None:
    """The line of the root of a line's value, if that root is an exponent: used as decay(t) or p·t.

    >>> from mercer.evaluation.expression import decay, sqrt, squared_distance
    >>> from mercer.evaluation.program import lower
    >>> exponent_root(lower(decay(sqrt(0.5 * squared_distance()))), 0)
    1
    """
    root = _only_use(program, program.lines[line].partition(" = ")[0])
    found = root is not None and re.fullmatch(r"(t\d+) = sqrt\(t\d+\)", program.lines[root])
    if root is None or not found or program.result == found[1]:
        return None
    uses = [other for other in program.lines if reads(other, found[1])]
    pattern = rf"t\d+ = (p\d+ \* {found[1]}|decay\({found[1]}\))"
    exponent = any("decay(" in use for use in uses)
    return root if exponent and all(re.fullmatch(pattern, use) for use in uses) else None


def forgiving_of_signs(program: Program, q: int) -> bool:
    """Whether q, a little below 0 by rounding, may stay so: it is used in decay(p·q), √(p·q)."""
    for line in program.lines:
        if not reads(line, f"q{q}"):
            continue
        use = _only_use(program, line.partition(" = ")[0])
        factor = re.fullmatch(rf"t\d+ = p\d+ \* q{q}", line)
        if not factor or use is None or not re.search(r" = (decay|sqrt)\(", program.lines[use]):
            return False
    return program.result != f"q{q}"


def _absorb(code: Code, program: Program, lines: list[str], family: Family) -> None:
    """The line p·q is q itself; a root of it that is an exponent is one to the base 2."""
    line = family.absorbed
    q = next(q for q in family.numbers if program.pairs[q].kind == "squared_distance")
    lines[line] = f"{lines[line].partition(' = ')[0]} = q{q}"
    root = exponent_root(program, line)
    if root is None:
        return
    name = lines[root].partition(" = ")[0]
    for n, other in enumerate(lines):
        factor = re.fullmatch(rf"(t\d+) = p(\d+) \* {name}", other)
        if factor is not None:
            code.constant(f"l{factor[2]}_{name}", f"p{factor[2]} * {LOG2!r}")
            lines[n] = f"{factor[1]} = l{factor[2]}_{name} * {name}"
        elif other.endswith(f" = decay({name})"):
            lines[n] = f"{other.partition(' = ')[0]} = decay2_root({name})"


def _only_use(program: Program, name: str) -> int | None:
    uses = [n for n, line in enumerate(program.lines) if reads(line, name)]
    if len(uses) != 1 or program.result == name:
        return None
    return uses[0] if len(reads(program.lines[uses[0]], name)) == 1 else None
