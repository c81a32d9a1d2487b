"""The pieces of code that compute the value of a program, by the loop they stand in.

Around them `source` and `row_pass` write loops over panels of columns, a few rows at a time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from mercer.evaluation.expression import Number
from mercer.evaluation.program import Program

FILLS = {"product": "fill_products", "squared_distance": "fill_distances"}


@dataclass(frozen=True)
class Decays:
    """Pair numbers q of which a program only takes exp(−p·q): computed with q, in registers."""

    factors: dict[int, str]  # p, by the number of q
    lines: tuple[str, ...]  # of the program, in which q stands for its exponential

    @classmethod
    def of(cls, program: Program) -> Decays:
        """Those of a program.

        >>> from mercer.evaluation.expression import decay, squared_distance
        >>> from mercer.evaluation.program import lower
        >>> Decays.of(lower(3.0 * decay(0.5 * squared_distance()))).lines
        ('t1 = q0', 't2 = p0 * t1')
        """
        factors: dict[int, str] = {}
        lines = list(program.lines)
        text = "\n".join(lines)
        for line in program.lines:
            found = re.fullmatch(r"(t\d+) = (p\d+) \* (q(\d+))", line)
            if found is None:
                continue
            decayed = f" = decay({found[1]})"
            uses = (len(re.findall(rf"\b{name}\b", text)) for name in (found[1], found[3]))
            if tuple(uses) == (2, 1) and decayed in text:
                factors[int(found[4])] = found[2]
                lines.remove(line)
                lines = [other.replace(decayed, f" = {found[3]}") for other in lines]
        return cls(factors, tuple(lines))


@dataclass(frozen=True)
class Pieces:
    """The lines of a program, for every place where some of them stand."""

    program: Program

    @cached_property
    def decays(self) -> Decays:
        return Decays.of(self.program)

    def parameters(self) -> list[str]:
        """What is known before the first row and column."""
        return [
            *(f"p{i} = p[{i}]" for i in range(len(self.program.parameters))),
            *(f"T{i} = tables[{i}]" for i in range(len(self.program.tables))),
        ]

    def panels(self, dtype: str) -> list[str]:
        """Memory for pair numbers of a few rows."""
        pairs = range(len(self.program.pairs))
        return [f"panel{i} = np.empty((ROWS, PANEL), np.{dtype})" for i in pairs]

    def column_inputs(self) -> list[str]:
        """The norms of a panel of columns."""
        return [f"B{i} = b[{i}, j0:j0 + width]" for i in range(len(self.program.y_norms))]

    def fills(self) -> list[str]:
        """The calls that compute the pair numbers of a few rows with a panel of columns."""
        numbered = enumerate(self.program.pairs)
        return [line for i, pair in numbered for line in self._fill(i, pair)]

    def _fill(self, i: int, pair: Number) -> list[str]:
        function = FILLS.get(pair.kind, f"fill_panel_{i}")
        fill = f"{function}(leaves[{i}], i0, j0, width, STEP, panel{i})"
        if i not in self.decays.factors:
            return [fill]
        place = f"i0, min(ROWS, rows - i0), j0, width, STEP, panel{i}"
        return [fill, f"decay_panel(leaves[{i}], {place}, {self.decays.factors[i]})"]

    def row_inputs(self) -> list[str]:
        """Where the numbers of row i are: its pair numbers, and its norms."""
        panel = "panel{i}[r, :width]"
        given = "(leaves[{i}][1][i, j0:j0 + width] if leaves[{i}][0] == TILE else " + panel + ")"
        pairs, decayed = range(len(self.program.pairs)), self.decays.factors
        rows = [f"Q{i} = " + (panel if i in decayed else given).format(i=i) for i in pairs]
        return rows + [f"a{i} = a[{i}, i]" for i in range(len(self.program.x_norms))]

    def value(self) -> list[str]:
        """The value in column j, from the numbers there."""
        norms = [f"b{i} = B{i}[j]" for i in range(len(self.program.y_norms))]
        numbers = [f"q{i} = Q{i}[j]" for i in range(len(self.program.pairs))]
        return [*norms, *numbers, *self.decays.lines]


def indented(lines: list[str], depth: int) -> str:
    """Lines of code at a depth; empty ones are left out."""
    return "\n".join("    " * depth + line for line in lines if line)
