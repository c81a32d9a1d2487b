"""Writing the compiled code of Kᵀ(w ∘ (K V + B)): a few rows of K live in the cache, never longer.

For `PANEL_ROWS` rows all columns of K are computed, multiplied by V while they are in registers,
and stay until the sum of each row is known; then they are multiplied by what the map makes of it.
Nothing leaves the second-level cache, and Python is called once for a thousand rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from mercer.evaluation.cpu.source import Pieces, indented, prelude
from mercer.evaluation.program import Program

FUNCTION = """

@njit(cache=True, **OPTIONS)
def row_pass(leaves, a, b, p, tables, rows, columns, v, split, factors, added, extra, values, out):
    widen()
    before = flush_subnormals()
    outputs = values.shape[1]
    used = added.shape[1]
{parameters}
{panels}
    panels = (columns + PANEL - 1) // PANEL
    blocks = np.zeros((panels, PANEL_ROWS, PANEL), np.{dtype})
    inner = np.zeros((PANEL_ROWS, len(v)), np.float64)
    pushes = np.zeros((len(out), PANEL_ROWS), np.{dtype})
    for i0 in range(0, rows, PANEL_ROWS):
        few = min(PANEL_ROWS, rows - i0)
        inner[:] = 0.0
        for panel in range(panels):
            j0 = panel * PANEL
            width = min(PANEL, columns - j0)
            block = blocks[panel]
{column_inputs}
            vj = v[0, j0:j0 + width]
{fills}
            for r in range(few):
                i = i0 + r
{row_inputs}
                o = block[r, :width]
                s = ZERO
                for j in range(width):
{value}
                    k = {result}
                    o[j] = k
                    s += k * vj[j]
                inner[r, 0] += s
                for c in range(1, len(v)):
                    vc = v[c, j0:j0 + width]
                    s = ZERO
                    for j in range(width):
                        s += o[j] * vc[j]
                    inner[r, c] += s
        pushes[:] = ZERO
        for r in range(few):
            i = i0 + r
            for c in range(outputs):
                if split:
                    inner[r, c] += LOST * inner[r, outputs + c]
                values[i, c] = inner[r, c]
            w = i if len(factors) > 1 else 0
            for c in range(used):
                shift = added[i if len(added) > 1 else 0, c]
                factor = factors[w, c if factors.shape[1] > 1 else 0]
                pushes[c, r] = factor * (inner[r, c] + shift)
            if extra:
                pushes[used, r] = factors[w, 0]
        for panel in range(panels):
            j0 = panel * PANEL
            block = blocks[panel]
            for c in range(len(out)):
                add_rows(block, pushes[c], out[c, j0:j0 + PANEL])
    restore_subnormals(before)
"""

ADDED = """

LOST = 2.0**-24


@njit(**OPTIONS)
def add_rows(block, pushes, total):
    widen()
{names}
    for j in range(len(total)):
        total[j] += {terms}
"""


@lru_cache(maxsize=64)
def row_pass_source(program: Program, dtype: Any) -> str:
    """The module that computes Kᵀ(w ∘ (K V + B)) for a program in one precision.

    `v` has a line for each column of V; where `split`, the second half of them holds what
    rounding took from the first, times 2²⁴. `values` receives K V, and where `extra` the last line
    of `out` receives Kᵀw.
    """
    from mercer.evaluation.cpu.vectors import PANEL_ROWS

    name = np.dtype(dtype).name
    pieces = Pieces(program)
    text = FUNCTION.format(
        dtype=name,
        parameters=indented(pieces.parameters(), 1),
        panels=indented(pieces.panels(name), 1),
        column_inputs=indented(pieces.column_inputs(), 3),
        fills=indented(pieces.fills(), 3),
        row_inputs=indented(pieces.row_inputs(), 4),
        value=indented(pieces.value(), 5),
        result=program.code.result,
    )
    names = [f"u{r} = pushes[{r}]" for r in range(PANEL_ROWS)]
    terms = " + ".join(f"block[{r}, j] * u{r}" for r in range(PANEL_ROWS))
    return prelude(program, dtype) + ADDED.format(names=indented(names, 1), terms=terms) + text
