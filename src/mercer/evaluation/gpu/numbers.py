"""Code for the pair numbers of a tile: matrix products of split operands, or coordinates."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mercer.evaluation.expression import Coordinate, Expression, Operation, Parameter
from mercer.evaluation.gpu.families import RESIDENT, STEP, UNROLLED, Code, Family, padded, pieces
from mercer.evaluation.gpu.lines import factor_use, forgiving_of_signs
from mercer.evaluation.gpu.rules import reads
from mercer.evaluation.operations import OPERATIONS
from mercer.evaluation.program import CoordinateCode, Program, coordinate_code

CLOSENESS = 1 / 32  # distances below this share of ‖x‖² + ‖y‖² are repaired
TINY = 1e-30  # what a distance is at least, so that its root needs no special case


def split(
    code: Code, program: Program, f: int, family: Family, dtype: str, exponents: dict[int, str]
) -> None:
    """By matrix products of operands that were cut into parts."""
    pairs = [("A", "B")] if family.parts == 1 else [("AL", "B"), ("A", "BL"), ("A", "B")]
    dot = _resident_dot if padded(family.width) <= RESIDENT else _streamed_dot
    dot(code, f, family, pairs)
    kinds = {program.pairs[q].kind: q for q in family.numbers}
    distance, product = kinds.get("squared_distance"), kinds.get("product")
    if family.exponent and distance is not None:
        exponents[distance] = f"e{f}"
        return
    if family.extended:
        assert distance is not None
        _extended(code, program, f, family, distance)
        return
    code.scale(f)
    if family.balanced:
        assert distance is not None
        assert product is not None
        _balanced(code, program, f, distance, product)
        return
    if distance is not None:
        _norms_apart(code, program, f, family, distance)
    if product is not None:
        _product(code, program, f, family, product)
    if family.repaired:
        assert distance is not None
        _repair(code, f, family, distance)


def _product(code: Code, program: Program, f: int, family: Family, product: int) -> None:
    """⟨x, y⟩ = ⟨x−c, y−c⟩ + s(x) + s(y), where rows were centred."""
    if not family.shifted:
        _rescaled(code, program, product, f"e{f}", f"scale{f}")
        return
    code.rows.append(f"xs{f} = {code.row_numbers(f'XS{f}')}")
    code.tile.append(f"q{product} = (scale{f} * e{f} + xs{f}) + {code.column_numbers(f'YS{f}')}")


def _balanced(code: Code, program: Program, f: int, distance: int, product: int) -> None:
    """Rows have one scale and norms another one; crosswise, the lines are written for that."""
    form = f"arrays['balance{f}']"
    code.constant(f"twice{f}", f"2.0 * {form}.distance / {form}.product", f"tl.load(S{f} + 1)")
    _sum_of_norms(code, f)
    value = f"norms{f} - twice{f} * e{f}"
    if code.crosswise:
        code.tile.append(f"q{distance} = {value}")
        return
    if not forgiving_of_signs(program, distance):
        value = f"tl.maximum({value}, 0.0)"
    spread = code.constant(f"spread{f}", f"1.0 / {form}.distance", f"tl.load(S{f} + 2)")
    _rescaled(code, program, distance, f"({value})", spread)
    _rescaled(code, program, product, f"e{f}", f"scale{f}")


def _extended(code: Code, program: Program, f: int, family: Family, distance: int) -> None:
    """The product is the distance, times a factor."""
    value = f"e{f}" if forgiving_of_signs(program, distance) else f"tl.maximum(e{f}, {TINY})"
    if family.absorbed >= 0 and factor_use(program, distance) is not None:
        code.tile.append(f"q{distance} = {value}")
        return
    _rescaled(code, program, distance, value, code.scale(f))


def _norms_apart(code: Code, program: Program, f: int, family: Family, distance: int) -> None:
    """‖x‖² + ‖y‖² − 2⟨x, y⟩; all three are scaled, unless close pairs will be repaired."""
    _sum_of_norms(code, f)
    if family.repaired:
        code.constant(f"twice{f}", f"2.0 * scale{f}")
        code.tile.append(f"q{distance} = tl.maximum(norms{f} - twice{f} * e{f}, 0.0)")
        return
    value = f"(norms{f} - 2.0 * e{f})"
    if not forgiving_of_signs(program, distance):
        value = f"tl.maximum({value}, 0.0)"
    _rescaled(code, program, distance, value, f"scale{f}")


def _sum_of_norms(code: Code, f: int) -> None:
    code.rows.append(f"xn{f} = {code.row_numbers(f'XN{f}')}")
    code.tile.append(f"norms{f} = xn{f} + {code.column_numbers(f'YN{f}')}")


def _rescaled(code: Code, program: Program, q: int, value: str, scale: str) -> None:
    """A number times its scale; the scale goes into parameters that multiply it anyway."""
    uses = [line for line in program.lines if reads(line, f"q{q}")]
    factors = [re.fullmatch(rf"t\d+ = p(\d+) \* q{q}", line) for line in uses]
    if program.result == f"q{q}" or not all(factors):
        code.tile.append(f"q{q} = {value} * {scale}")
        return
    code.tile.append(f"q{q} = {value}")
    for factor in factors:
        assert factor is not None
        code.constant(f"r{factor[1]}_{q}", f"p{factor[1]} * {scale}")
    code.rescaled.add(q)


def _resident_dot(code: Code, f: int, family: Family, pairs: list[tuple[str, str]]) -> None:
    """Few columns: those of the rows stay in registers or shared memory."""
    size = padded(family.width)
    started = False
    for name in dict.fromkeys(a for a, _ in pairs):
        for offset, k in pieces(family.width):
            code.rows.append(
                f"{name}{f}_{offset} = tl.load({code.argument(f'{name}{f}')} + "
                f"{code.row('i')} * {size} + {code.column(f'({offset} + tl.arange(0, {k}))')})"
            )
    for name in dict.fromkeys(b for _, b in pairs):
        pointer = code.column_pointer(f"{name}{f}", scale=str(size))
        for offset, k in pieces(family.width):
            code.reads.append(
                f"{name}{f}_{offset} = tl.load({pointer} + {code.column('j')} * {size} + "
                f"{code.row(f'({offset} + tl.arange(0, {k}))')})"
            )
    for a, b in pairs:
        for offset, _ in pieces(family.width):
            rest = f", e{f}" if started else ""
            product = code.dot(f"{a}{f}_{offset}", f"{b}{f}_{offset}", rest)
            code.tile.append(f"e{f} = {product}")
            started = True


def _streamed_dot(code: Code, f: int, family: Family, pairs: list[tuple[str, str]]) -> None:
    """Many columns: both sides are read again for each tile, a step at a time."""
    size = padded(family.width)
    code.rows.append(f"k{f} = tl.arange(0, {STEP})")
    loads, reads = [], []
    for name in dict.fromkeys(a for a, _ in pairs):
        code.rows.append(
            f"rows_{name}{f} = {code.argument(f'{name}{f}')} + i[:, None] * {size} + k{f}[None, :]"
        )
        loads.append(f"    a_{name} = tl.load(rows_{name}{f} + k)")
    for name in dict.fromkeys(b for _, b in pairs):
        pointer = code.column_pointer(f"{name}{f}", scale=str(size))
        reads.append(f"columns_{name}{f} = {pointer} + j[None, :] * {size} + k{f}[:, None]")
        loads.append(f"    b_{name} = tl.load(columns_{name}{f} + k)")
    dots = [f"    e{f} = tl.dot(a_{a}, b_{b}, e{f}, input_precision='tf32')" for a, b in pairs]
    code.tile += [
        *reads,
        f"e{f} = tl.zeros((BM, BN), tl.float32)",
        f"for k in range(0, {size}, {STEP}):",
        *loads,
        *dots,
    ]


def _repair(code: Code, f: int, family: Family, distance: int) -> None:
    """Pairs that are close in comparison to their norms are summed again from differences."""
    code.rows.append(f"floor{f} = tl.load(S{f} + 1)")
    code.argument(f"X{f}")
    code.argument(f"Y{f}")
    pointer = code.column_pointer(f"Y{f}")
    factor = f" * tl.load({code.argument(f'C{f}')} + k)" if family.scaled else ""
    code.argument(f"D{f}")
    code.tile += [
        f"slack{f} = q{distance} - {CLOSENESS} * norms{f}",
        f"if tl.min(tl.min(slack{f}, 1), 0) < floor{f}:",
        "    exact = tl.zeros((BM, BN), tl.float32)",
        f"    x_at = X{f} + i",
        f"    y_at = {pointer} + j",
        f"    for k in range(0, D{f}):",
        f"        gap = (tl.load(x_at)[:, None] - tl.load(y_at)[None, :]){factor}",
        "        exact += gap * gap",
        "        x_at += n_padded",
        "        y_at += m_padded",
        f"    q{distance} = tl.where(slack{f} < floor{f}, exact, q{distance})",
    ]


def direct(code: Code, program: Program, f: int, family: Family, dtype: str) -> None:
    """Coordinate by coordinate, in registers."""
    code.argument(f"X{f}")
    pointer = code.column_pointer(f"Y{f}")
    starts, steps = [], []
    for q in family.numbers:
        start = 1.0 if program.pairs[q].kind == "coordinate_product" else 0.0
        starts.append(f"q{q} = tl.full((BM, BN), {start}, tl.{dtype})")
        steps += _term(code, program, q)
    if family.width <= UNROLLED:
        code.tile += starts
        for k in range(family.width):
            code.rows.append(f"x{f}_{k} = tl.load(X{f} + {k} * n_padded + i)[:, None]")
            if family.scaled:
                code.rows.append(f"s{f}_{k} = tl.load({code.argument(f'C{f}')} + {k})")
            code.tile += [
                f"x = x{f}_{k}",
                f"y = tl.load({pointer} + {k} * m_padded + j)[None, :]",
                *_scaled(family, f"s{f}_{k}"),
                *steps,
            ]
        return
    code.argument(f"D{f}")
    scales = [f"s = tl.load({code.argument(f'C{f}')} + k)"] if family.scaled else []
    code.tile += [
        *starts,
        f"x_at = X{f} + i",
        f"y_at = {pointer} + j",
        f"for k in range(0, D{f}):",
        *(
            f"    {line}"
            for line in [
                "x = tl.load(x_at)[:, None]",
                "y = tl.load(y_at)[None, :]",
                *scales,
                *_scaled(family, "s"),
                *steps,
                "x_at += n_padded",
                "y_at += m_padded",
            ]
        ),
    ]


def _scaled(family: Family, scale: str) -> list[str]:
    """Differences are taken before they are scaled, which keeps their digits."""
    if not family.scaled:
        return ["gap = x - y"]
    return [f"gap = (x - y) * {scale}", f"x = x * {scale}", f"y = y * {scale}"]


def _term(code: Code, program: Program, q: int) -> list[str]:
    pair = program.pairs[q]
    if pair.kind == "squared_distance":
        return [f"q{q} += gap * gap"]
    if pair.kind == "product":
        return [f"q{q} += x * y"]
    assert pair.term is not None
    term = coordinate_code(pair.term)
    count = len(coordinate_constants(pair.term))
    for c in range(count):
        code.rows.append(f"c{q}_{c} = tl.load({code.argument(f'K{q}')} + {c})")
    constants = [f"c{q}_{c}" for c in range(count)]
    names = {f"c{c}": constants[c] for c in range(len(term.constants))}
    lines = _parts(term, names, iter(constants[len(term.constants) :]))
    for position, (operation, *arguments) in enumerate(term.instructions):
        names[f"t{position}"] = f"u{position}"
        given = [names[argument] for argument in arguments]
        gap = (operation, *given) == ("subtract", "x", "y")
        value = "gap" if gap else OPERATIONS[operation].code.format(*given)
        lines.append(f"u{position} = {value}")
    sign = "+" if pair.kind == "coordinate_sum" else "*"
    return [*lines, f"q{q} = q{q} {sign} {names[term.result]}"]


def coordinate_constants(term: Expression) -> tuple[float, ...]:
    """The constants of a term of coordinates, and of its parts that depend on one point alone."""
    code = coordinate_code(term)
    parts = (part for side in code.parts for part in side)
    return code.constants + tuple(value for part in parts for value in _values(part))


def _values(node: Expression) -> list[float]:
    """The parameters of an expression in the order in which it is written."""
    if isinstance(node, Parameter):
        return [node.value]
    return [value for argument in getattr(node, "arguments", ()) for value in _values(argument)]


def _parts(term: CoordinateCode, names: dict[str, str], constants: Iterator[str]) -> list[str]:
    """Lines for what depends on one coordinate of one point, which one row or column shares."""
    lines: list[str] = []
    for side, parts in zip("xy", term.parts, strict=True):
        for number, part in enumerate(parts):
            names[f"{side}{number}"] = _written(part, lines, constants)
    return lines


def _written(node: Expression, lines: list[str], constants: Iterator[str]) -> str:
    """The name of an expression's value, after the lines that compute it."""
    if isinstance(node, Coordinate):
        return node.side
    if isinstance(node, Parameter):
        return next(constants)
    assert isinstance(node, Operation)
    arguments = [_written(argument, lines, constants) for argument in node.arguments]
    if node.name == "power":
        value = " * ".join(arguments * node.exponent)
    else:
        value = OPERATIONS[node.name].code.format(*arguments)
    lines.append(f"part{len(lines)} = {value}")
    return f"part{len(lines) - 1}"


def load_norms(code: Code, program: Program) -> None:
    """Numbers of one point alone."""
    for a in range(len(program.x_norms)):
        code.rows.append(f"a{a} = {code.row_numbers(f'NA{a}')}")
    for b in range(len(program.y_norms)):
        code.tile.append(f"b{b} = {code.column_numbers(f'NB{b}')}")
