"""How the pair numbers of one view are obtained, and the code that is being written for them."""

from __future__ import annotations

from dataclasses import dataclass, field

UNROLLED = 8  # coordinates that are held in registers
RESIDENT = 128  # columns of split operands that stay with a block of rows
NARROW = 16  # columns of split operands beside which registers are left
STEP = 64  # columns of split operands that are read together where they do not stay
SHORT = 32  # columns of one matrix product of all parts side by side


@dataclass(frozen=True)
class Family:
    """Pair numbers that one view gives together, and how.

    `numbers` are their positions in the program. In "split" mode a matrix product of operands cut
    into a leading and a following part gives them; `width` counts its columns. With `extended`
    the norms are columns of the operands, so that the product is the distance itself; with
    `exponent` it is even the argument of 2^x. `absorbed` is the line of the program that multiplies
    the distance by a parameter which is in the product already. `repaired` computes close pairs
    again from differences. `balanced` rows have the scale of `balance`, their norms another one. In
    "direct" mode the `width` coordinates are walked over, in registers.
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
    shifted: bool = False  # products are of centred rows, and what centring took off is added
    balanced: bool = False
    decays: bool = False  # of a balanced one, whether it has a decay

    @property
    def is_short_pair(self) -> bool:
        """Whether one short matrix product gives a product and a distance together."""
        both = self.mode == "split" and len(self.numbers) > 1
        return both and self.parts == 1 and not self.repaired and self.width <= SHORT

    @property
    def is_narrow_distance(self) -> bool:
        """Whether few columns give a distance of which more is computed than one exponential."""
        alone = self.mode == "split" and self.extended and not self.exponent
        return alone and self.width <= (SHORT if self.parts == 1 else NARROW)


@dataclass(frozen=True)
class Constant:
    """A number that is known before the first tile, and how host and card obtain it."""

    name: str
    on_host: str
    on_card: str


@dataclass
class Code:
    """Lines of a function under construction.

    Rows of K lie along the first axis of a tile; `crosswise`, they lie along the second one, and
    constants are arguments, which the card has at hand without a register for each of them.
    """

    crosswise: bool = False
    arguments: list[str] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)  # once for each block of rows
    pointers: list[tuple[str, str, str]] = field(default_factory=list)  # name, start, step
    first: list[str] = field(default_factory=list)  # for each tile, before all others: reads
    tile: list[str] = field(default_factory=list)  # for each tile
    rescaled: set[int] = field(default_factory=set)  # numbers whose scale is in parameters

    def argument(self, name: str) -> str:
        if name not in self.arguments:
            self.arguments.append(name)
        return name

    def constant(self, name: str, on_host: str, on_card: str = "") -> str:
        """Define a constant by parameters, scales and other constants."""
        self.constants.append(Constant(name, on_host, on_card or on_host))
        return name

    def scale(self, f: int) -> str:
        """What the numbers of a family are multiplied by."""
        loaded = f"tl.load({self.argument(f'S{f}')})"
        return self.constant(f"scale{f}", f"arrays['scale{f}']", loaded)

    @property
    def reads(self) -> list[str]:
        """Where lines stand that read something for a tile: crosswise, before all others."""
        return self.first if self.crosswise else self.tile

    def row(self, name: str) -> str:
        """Numbers of the rows of K, for a tile."""
        return f"{name}[None, :]" if self.crosswise else f"{name}[:, None]"

    def column(self, name: str) -> str:
        """Numbers of the columns of K, for a tile."""
        return f"{name}[:, None]" if self.crosswise else f"{name}[None, :]"

    def row_numbers(self, name: str) -> str:
        """One number of every row, from an argument."""
        return self.row(f"tl.load({self.argument(name)} + i)")

    def column_numbers(self, name: str) -> str:
        """One number of every column of a tile, from an argument."""
        numbers = self.column(f"tl.load({self.column_pointer(name)} + j)")
        if not self.crosswise:
            return numbers
        self.reads.append(f"of_{name} = {numbers}")
        return f"of_{name}"

    def dot(self, rows: str, columns: str, rest: str = "") -> str:
        """A matrix product of operands, added to what there is."""
        pair = f"{columns}, {rows}" if self.crosswise else f"{rows}, {columns}"
        return f"tl.dot({pair}{rest}, input_precision='tf32')"

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
