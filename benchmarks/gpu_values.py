"""What a card takes for the values of a kernel alone, made of numbers in registers.

A product, which has to read points and to make distances too, cannot take less. With matrix
products beside them, as distances need them, values are all of a product but its reading. One unit
of the card computes roots and exponentials: several shares of either that polynomials might take
over are tried out.
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
    ROOT,
    SQRT,
    hexadecimal,
    is_chosen,
    polynomial_of_root,
    power_by_polynomial,
)

PACK = 16  # values that one piece of assembly computes
ROWS, COLUMNS, WARPS, PROGRAMS, PIECE = 64, 64, 4, 2112, 16
ROOTS = (6, 7, 8, 10, 11)  # of sixteen values, by polynomials
EXPONENTIALS = (0, 2)
FACTOR, SHIFT = hexadecimal(1.75), hexadecimal(1.5)  # of a root beside a Gaussian


@triton.jit
def accumulate(  # type: ignore[no-untyped-def]
    out,
    weights,
    points,
    steps,
    CODE: tl.constexpr,
    CONSTRAINTS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PIECE: tl.constexpr,
    PACK: tl.constexpr,
    PRODUCTS: tl.constexpr,
):
    """Values of numbers that grow, by so many matrix products of 16 columns, weighed and summed."""
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    k = tl.arange(0, PIECE)
    weight = tl.load(weights + row)
    left = tl.load(points + row * PIECE + k[None, :])
    right = tl.load(points + column * PIECE + k[:, None])
    q = 0.01 * (row + column).to(tl.float32)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for _ in range(steps):
        for _ in tl.static_range(PRODUCTS):
            q = tl.dot(left, right, q)
        if PRODUCTS == 0:
            q += 1e-4
        total = tl.inline_asm_elementwise(
            CODE, CONSTRAINTS, [q, weight, total], dtype=tl.float32, is_pure=True, pack=PACK
        )
    tl.store(out + tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.sum(total, 0))


@dataclass(frozen=True)
class Values:
    """A kernel of q = ‖x − y‖², scaled: how many of 16 roots and exponentials by polynomials."""

    gaussian: bool
    matern: bool
    roots: int = 0
    exponentials: int = 0

    @property
    def products(self) -> int:
        """Matrix products of 16 columns that distances of ten columns take."""
        return 2 if self.gaussian and self.matern else 3

    def assembly(self) -> str:
        """PTX that adds sixteen values, weighed, to sixteen sums."""
        lines = [line for i in range(PACK) for line in self._value(i)]
        registers = "{ .reg .f32 q, v, e, g, s, r, n, f, p, y, t, h; .reg .b32 i, k; "
        return registers + " ".join(lines) + " }"

    def _value(self, i: int) -> Iterator[str]:
        total = f"${i + 3 * PACK}"
        yield f"mov.f32 q, ${i + PACK}; mov.f32 v, ${i + 2 * PACK};"
        if self.gaussian:
            yield "neg.f32 r, q;"
            yield from self._exponential(i, "g")
        if self.matern:
            yield from self._root(i)
            yield "neg.f32 r, s;"
            yield from self._exponential(i, "e")
        if self.gaussian and self.matern:  # Gaussian + ⟨x,y⟩·Matérn
            yield "mul.rn.ftz.f32 s, s, q; fma.rn.ftz.f32 g, e, s, g;"
        elif self.matern:
            yield "fma.rn.ftz.f32 s, s, v, v;"
        factors = "g, v" if self.gaussian else "e, s"
        yield f"fma.rn.ftz.f32 ${i}, {factors}, {total};"

    def _exponential(self, i: int, target: str) -> Iterator[str]:
        if not is_chosen(i, self.exponentials, PACK):
            yield f"{EX2} {target}, r;"
            return
        yield from (line.replace(f"${i}", target) for line in power_by_polynomial(i))

    def _root(self, i: int) -> Iterator[str]:
        """√q, by the card or by a polynomial; beside a Gaussian, times a factor plus a shift."""
        if is_chosen(i, self.roots, PACK):
            yield from polynomial_of_root("q", [hexadecimal(c) for c in ROOT])
            last = f"fma.rn.ftz.f32 s, t, p, {SHIFT};"
            yield last if self.gaussian else "mul.rn.ftz.f32 s, t, p;"
        else:
            yield f"{SQRT} s, q;"
            if self.gaussian:
                yield f"fma.rn.ftz.f32 s, s, {FACTOR}, {SHIFT};"


def milliseconds_of(values: Values, beside: bool, entries: float, timed: Any) -> float:
    """The time of so many values, weighed and added up, `beside` matrix products or not."""
    import torch

    out = torch.empty(PROGRAMS * COLUMNS, device="cuda")
    weights = torch.ones(ROWS, device="cuda")
    points = 0.01 * torch.rand(ROWS, PIECE, device="cuda", dtype=torch.float16)
    steps = round(entries / (PROGRAMS * ROWS * COLUMNS))
    constraints = ",".join(["=&f"] * PACK + ["f"] * 3 * PACK)

    def work() -> None:
        accumulate[(PROGRAMS,)](
            out,
            weights,
            points,
            steps,
            CODE=values.assembly(),
            CONSTRAINTS=constraints,
            ROWS=ROWS,
            COLUMNS=COLUMNS,
            PIECE=PIECE,
            PACK=PACK,
            PRODUCTS=values.products if beside else 0,
            num_warps=WARPS,
        )

    return float(timed(work))


def least(
    gaussian: bool, matern: bool, beside: bool, entries: float, timed: Any
) -> tuple[float, Values]:
    """The best of the shares, and which it is."""
    roots = ROOTS if matern else (0,)
    tried = [Values(gaussian, matern, *shares) for shares in product(roots, EXPONENTIALS)]
    times = ((milliseconds_of(values, beside, entries, timed), values) for values in tried)
    return min(times, key=lambda pair: pair[0])
