"""How the pair numbers of one view are obtained, and the code that is being written for them."""

from __future__ import annotations

from dataclasses import dataclass, field

UNROLLED = 8  # coordinates that are held in registers
RESIDENT = 128  # columns of split operands that stay with a block of rows
NARROW = 16  # columns of split operands beside which registers are left
STEP = 64  # columns of split operands that are read together where they do not stay


@dataclass(frozen=True)
class Family:
    """Pair numbers that one view gives together, and how.

    `numbers` are their positions in the program. In "split" mode a matrix product of operands cut
    into a leading and a following part gives them; `width` counts its columns. With `extended`
    the norms are columns of the operands, so that the product is the distance itself; with
    `exponent` it is even the argument of 2^x. `absorbed` is the line of the program that multiplies
    the distance by a parameter which is in the product already. `repaired` computes close pairs
    again from differences. In "direct" mode the `width` coordinates are walked over, in registers.
    """

    mode: str
    numbers: tuple[int, ...]
    width: int
    parts: int = 3  # products of leading and following parts; 1 where they lie side by side
    extended: bool = False
    exponent: bool = False
    absorbed: int = -1
    repaired: bool = False
    scaled: bool = False


@dataclass
class Code:
    """Lines of a function under construction."""

    arguments: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)  # once for each block of rows
    pointers: list[tuple[str, str, str]] = field(default_factory=list)  # name, start, step
    tile: list[str] = field(default_factory=list)  # for each tile
    rescaled: set[int] = field(default_factory=set)  # numbers whose scale is in parameters

    def argument(self, name: str) -> str:
        if name not in self.arguments:
            self.arguments.append(name)
        return name

    def column_pointer(self, name: str, step: str = "BN", scale: str = "") -> str:
        """A pointer that follows the tiles of columns."""
        local = f"at_{name}"
        if all(local != known for known, _, _ in self.pointers):
            times = f" * {scale}" if scale else ""
            start = f"{self.argument(name)} + first.to(tl.int64){times}"
            self.pointers.append((local, start, f"{step}{times}"))
        return local


def pieces(width: int) -> list[tuple[int, int]]:
    """A number of columns as powers of two from 16 on: (offset, size).

    >>> pieces(92)
    [(0, 64), (64, 32)]
    """
    rest, start, out = -(-width // 16) * 16, 0, []
    while rest:
        size = 1 << (rest.bit_length() - 1)
        out.append((start, size))
        start, rest = start + size, rest - size
    return out


def padded(width: int) -> int:
    """The columns that split operands have in memory."""
    return -(-width // 16) * 16 if width <= RESIDENT else -(-width // STEP) * STEP
