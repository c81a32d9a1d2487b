"""What a solution on centres takes, and whether there is room for it."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from mercer.losses import Loss, Squared
from mercer.operators import Gram
from mercer.runtime.budget import MEGABYTE, Memory, free_memory, memory_budget
from mercer.runtime.machine import CPU
from mercer.solvers.preconditioners.sampling import TUNING as SAMPLING
from mercer.solvers.preconditioners.sampling import class_rows, value_in_pass
from mercer.solvers.problem import Problem


def memory_needed(
    rows: int,
    centres: int,
    outputs: int,
    dtype: Any,
    sample: int | None = None,
    loss: Loss | None = None,
    *,
    spectral: bool = False,
) -> int:
    """Bytes that a solution on centres takes at most beside its data.

    Two factors in float64, in float32 or for eigenvectors a third matrix, blocks of sampled rows
    and of a pass, and what stands beside every row: targets, shares, values, and slopes of other
    losses than the square.

    >>> memory_needed(10**6, 2_000, 1, "float32") < 250e6
    True
    """
    copies = 0 if np.dtype(dtype) == np.float64 and not spectral else 1
    most = SAMPLING.factors[-1] * centres
    block = min(CPU.sample_bytes, 8 * min(rows, sample or most) * centres)
    beside_rows = 48 if isinstance(loss, Squared) else 64
    return int((2 + copies) * 8 * centres**2 + 1.25 * block + beside_rows * rows * outputs)


def stores_rows(problem: Problem, passes: int) -> bool:
    """Whether K_nM L⁻ᵀ is worth storing in float32, after so many passes, and there is room.

    It is as soon as passes have taken as long as storing it takes: whatever is to come, both take
    at most twice as long as the better one. The square loss is near its end by then. The blocks of
    several classes are made of such rows, which counts as if it were done.
    """
    operator, size = problem.operator, problem.size
    if isinstance(problem.loss, Squared) or not isinstance(operator, Gram):
        return False
    if not operator.machine.keeps_rows or getattr(operator.x, "mapped", False):
        return False
    width = 0 if getattr(operator, "matrix", None) is not None else getattr(operator.x, "width", 1)
    spent = passes * value_in_pass(width, problem.outputs)
    needed = memory_needed(problem.rows, size, problem.outputs, operator.dtype, loss=problem.loss)
    lifting = size if operator.dtype == np.float64 else size // 2
    if problem.loss.is_multiclass:
        drawn = class_rows(problem.rows, size, problem.outputs, operator.memory) * problem.outputs
        spent += lifting * drawn / problem.rows
    room = memory_budget(operator.memory) - needed
    return spent >= lifting and 8 * problem.rows * size <= room


def check_memory(problem: Problem, sample: int | None, *, spectral: bool = False) -> None:
    """Refuse what cannot be solved within the budget, or within what is free where none was set."""
    memory: Memory = getattr(problem.operator, "memory", None)
    limited = memory is not None or "MERCER_MEMORY" in os.environ
    limit = memory_budget(memory) if limited else free_memory()
    sizes = problem.rows, problem.size, problem.outputs, problem.operator.dtype
    needed = memory_needed(*sizes, sample, problem.loss, spectral=spectral)
    if needed > limit:
        raise ValueError(
            f"a solution on {problem.size} centres takes {needed / MEGABYTE:.0f} MB for "
            f"{problem.rows} rows; there are {limit / MEGABYTE:.0f} MB. Take fewer centres, or "
            "raise memory= or MERCER_MEMORY."
        )
