"""Points far out, which would make the distances of all others be subtracted."""

from __future__ import annotations

from typing import Any

import torch

from mercer.evaluation.expression import Expression
from mercer.evaluation.folding import near
from mercer.evaluation.gpu.packing import norms
from mercer.evaluation.program import Program

FAR = 0.25  # share of far columns up to which they are a product of their own


def far_columns(
    program: Program, expression: Expression, y: Any, dtype: torch.dtype
) -> torch.Tensor | None:
    """The few y_j so far out that their close pairs must be subtracted; None where there are none.

    A pair of a far and a near point is far apart, so that its error does not count: only far x
    beside far y must not be expanded. If the far y are few, they are a product of their own.
    """
    q = radial(program)
    if dtype == torch.float64 or q is None:
        return None
    view = program.pairs[q].view
    if view.unit:
        return None
    rows = y.seen(view, dtype, y.centre(view))
    sizes = norms(rows, rows.new_zeros(rows.shape[1]))[: len(y)]
    largest = float(sizes.amax())
    limit = near(program, expression, q, largest)
    if not 0.0 < limit < largest:
        return None
    far = sizes > limit
    return far if 0.0 < float(far.sum()) <= FAR * len(far) else None


def radial(program: Program) -> int | None:
    """The distance of a program that is a function of one distance alone."""
    if program.x_norms or program.y_norms or len(program.pairs) != 1:
        return None
    return 0 if program.pairs[0].kind == "squared_distance" else None
