"""What a card takes for the values of a kernel alone, made of numbers in registers.

A product, which has to make distances too, cannot take less. One unit of the card computes roots
and exponentials: every share of either that polynomials might take over is tried out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import triton
import triton.language as tl

from mercer.evaluation.gpu.elementary import (
    EX2,
    SQRT,
    hexadecimal,
    is_chosen,
    power_by_polynomial,
    root_by_polynomial,
)

PACK = 8  # values that one piece of assembly computes
ROWS, COLUMNS, WARPS, PROGRAMS = 64, 128, 4, 1056
SHARES = (0, 1, 2, 3, 4)  # of eight values, by polynomials
LOG2 = 0.6931471805599453


@triton.jit
def accumulate(  # type: ignore[no-untyped-def]
    out,
    weights,
    steps,
    CODE: tl.constexpr,
    CONSTRAINTS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PACK: tl.constexpr,
):
    """Values of values, each weighed and added up."""
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    weight = tl.load(weights + column)
    value = 0.01 * (row + column).to(tl.float32)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for _ in range(steps):
        value = tl.inline_asm_elementwise(
            CODE, CONSTRAINTS, [value], dtype=tl.float32, is_pure=True, pack=PACK
        )
        total += value * weight
    tl.store(out + tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.sum(total, 1))


@dataclass(frozen=True)
class Values:
    """A kernel of q = ‖x − y‖², scaled: how many of eight roots and exponentials by polynomials."""

    gaussian: bool
    matern: bool
    roots: int = 0
    exponentials: int = 0

    def assembly(self) -> str:
        """PTX that computes eight values."""
        lines = [line for i in range(PACK) for line in self._value(i)]
        registers = "{ .reg .f32 q, e, g, s, r, n, f, p, y, t, h; .reg .b32 i, k; "
        return registers + " ".join(lines) + " }"

    def _value(self, i: int) -> Iterator[str]:
        yield f"mov.f32 q, ${i + PACK};"
        if self.gaussian:
            yield "neg.f32 r, q;"
            yield from self._exponential(i, "g")
        if self.matern:
            yield from self._root(i)
            yield "neg.f32 r, s;"
            yield from self._exponential(i, "e")
            yield f"fma.rn.ftz.f32 s, s, {hexadecimal(LOG2)}, {hexadecimal(1.0)};"
        if self.gaussian and self.matern:  # 2·Gaussian + ⟨x,y⟩·Matérn
            yield "mul.rn.ftz.f32 e, e, s; mul.rn.ftz.f32 e, e, q;"
            yield f"fma.rn.ftz.f32 ${i}, g, {hexadecimal(2.0)}, e;"
        else:
            yield f"mov.f32 ${i}, g;" if self.gaussian else f"mul.rn.ftz.f32 ${i}, e, s;"

    def _exponential(self, i: int, target: str) -> Iterator[str]:
        if not is_chosen(i, self.exponentials, PACK):
            yield f"{EX2} {target}, r;"
            return
        yield from (line.replace(f"${i}", target) for line in power_by_polynomial(i))

    def _root(self, i: int) -> Iterator[str]:
        """√q, by the card or by a polynomial."""
        if is_chosen(i, self.roots, PACK):
            yield from (line.replace(f"${i}", "s") for line in root_by_polynomial(i))
        else:
            yield f"{SQRT} s, q;"


def milliseconds_of(values: Values, entries: float, timed: Any) -> float:
    """The time of so many values, weighed and added up."""
    import torch

    out = torch.empty(PROGRAMS * ROWS, device="cuda")
    weights = torch.ones(COLUMNS, device="cuda")
    steps = round(entries / (PROGRAMS * ROWS * COLUMNS))
    constraints = ",".join(["=&f"] * PACK + ["f"] * PACK)

    def work() -> None:
        accumulate[(PROGRAMS,)](
            out,
            weights,
            steps,
            CODE=values.assembly(),
            CONSTRAINTS=constraints,
            ROWS=ROWS,
            COLUMNS=COLUMNS,
            PACK=PACK,
            num_warps=WARPS,
        )

    return float(timed(work))


def least(gaussian: bool, matern: bool, entries: float, timed: Any) -> tuple[float, Values]:
    """The best of all shares, and which it is."""
    roots = SHARES if matern else (0,)
    tried = [Values(gaussian, matern, *shares) for shares in product(roots, SHARES)]
    return min(((milliseconds_of(v, entries, timed), v) for v in tried), key=lambda pair: pair[0])
