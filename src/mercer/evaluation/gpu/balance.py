"""An inner product times a Matérn function, and a decay beside it, by the fewest operations.

With q = c‖x−y‖² such that the decay is 2^−q, Matérn's function (1 + s)e^−s of s = √p‖x−y‖ is a
multiple of u·2^−u for u = κ√q + δ: the shift makes one number of what is added to s and of the
exponent. The kernel is w·(2^−q + ⟨x̃,ỹ⟩·u·2^−u), where the factors of both terms went into the rows
x̃, ỹ and the weight w, which multiplies right-hand sides: an entry is left with a root, two
exponentials and five multiplications or additions. Without a decay, κ is 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Any

from mercer.evaluation.minimax import LOG2, LOG2E
from mercer.evaluation.program import Program

LARGEST_SHIFT = 16.0  # 2^δ is a factor of rows


@dataclass(frozen=True)
class Balance:
    """The form above: whether it has a decay, the factors of ‖x−y‖² and ⟨x,y⟩, κ, δ and w."""

    decays: bool
    distance: float
    product: float
    root: float
    shift: float
    weight: float


def balance_of(program: Program) -> Balance | None:
    """The form of a program that has it.

    >>> from mercer.kernels import Gaussian, Linear, Matern
    >>> from mercer.evaluation.program import lower
    >>> kernel = 2.0 * Gaussian() + Linear() * Matern(1.5)
    >>> form = balance_of(lower(kernel.expression()))
    >>> round(form.distance, 4), round(form.product, 4), form.weight
    (0.7213, 0.9421, 2.0)
    """
    if sorted(pair.kind for pair in program.pairs) != ["product", "squared_distance"]:
        return None
    match _tree(program, program.result):
        case ("+", decay, matern):
            flat = _decay(program, decay)
        case matern:
            flat = ()
    steep = _matern(program, matern)
    return None if flat is None or steep is None else _balanced(flat, steep)


def _balanced(flat: tuple[float, ...], steep: tuple[float, ...]) -> Balance | None:
    """The form of [w·e^(−p·r²)] + f·⟨x,y⟩·(a·s + b)·e^−s, s = √q·r: flat is (p, w)."""
    q, a, b, f = steep
    p, weight = flat or (q * LOG2E, 1.0)
    shift = b * LOG2E / a
    if shift > LARGEST_SHIFT:
        return None
    product = f * a * LOG2 * 2.0**shift / weight
    return Balance(bool(flat), p * LOG2E, product, (LOG2E * q / p) ** 0.5, shift, weight)


def _decay(program: Program, node: Any) -> tuple[float, ...] | None:
    """(p, w) of w·e^(−p·r²)."""
    match node:
        case ("*", *weights, ("decay", ("*", p, q))):
            return _numbers(program, [p], weights) if _is(program, q, "squared_distance") else None
        case ("decay", _):
            return _decay(program, ("*", node))
    return None


def _matern(program: Program, node: Any) -> tuple[float, ...] | None:
    """(q, a, b, f) of f·⟨x,y⟩·(a·s + b)·e^−s, s = √q·r."""
    match node:
        case ("*", *factors, product, ("decay", root), ("+", b, ("*", a, other))):
            fits = root == other and _is(program, product, "product")
        case _:
            return None
    match root:
        case ("sqrt", ("*", q, distance)) if fits and _is(program, distance, "squared_distance"):
            return _numbers(program, [q, a, b], factors)
    return None


def _numbers(program: Program, names: list[Any], factors: list[Any]) -> tuple[float, ...] | None:
    """Parameters, and a product of parameters, if they are, and positive."""
    known = {f"p{n}": value for n, value in enumerate(program.parameters)}
    values = [known.get(name, 0.0) for name in [*names, *factors]]
    if min(values) <= 0.0:
        return None
    return (*values[: len(names)], prod(values[len(names) :], start=1.0))


def _is(program: Program, node: Any, kind: str) -> bool:
    """Whether a node is the number of a kind."""
    return node in (f"q{n}" for n, pair in enumerate(program.pairs) if pair.kind == kind)


def _tree(program: Program, name: str) -> Any:
    """What a name stands for; terms and factors in the order of their size.

    >>> from mercer.kernels import Linear, Matern
    >>> from mercer.evaluation.program import lower
    >>> program = lower((Matern(0.5) * Linear()).expression())
    >>> _tree(program, program.result)
    ('*', 'q1', ('decay', ('sqrt', ('*', 'p0', 'q0'))))
    """
    text = next((line for line in program.lines if line.startswith(f"{name} = ")), "")
    text = text.partition(" = ")[2]
    called = re.fullmatch(r"(\w+)\((\w+)\)", text)
    if called is not None:
        return called[1], _tree(program, called[2])
    both = re.fullmatch(r"(\w+) ([+*]) (\w+)", text)
    if both is None:
        return text or name
    sides = (_tree(program, side) for side in (both[1], both[3]))
    parts = [part for side in sides for part in (side[1:] if side[0] == both[2] else (side,))]
    return both[2], *sorted(parts, key=lambda part: (len(str(part)), str(part)))
