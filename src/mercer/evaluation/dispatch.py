"""The one place that looks at the kind of points: which execution computes a kernel on them.

numba, torch and triton are imported on first use; `import mercer` does not load them.
"""

from __future__ import annotations

import weakref
from typing import Any

from mercer.evaluation.blocks import OwnBlocks
from mercer.evaluation.execution import Execution
from mercer.evaluation.program import EvaluableKernel, Program, lower
from mercer.evaluation.reference import Reference
from mercer.points import PointSet, VectorPoints
from mercer.runtime.budget import Memory

PRECISIONS = (None, "float32", "tf32", "float64", "reference")


def execution_for(
    kernel: EvaluableKernel,
    x: PointSet,
    y: PointSet,
    dtype: Any,
    memory: Memory = None,
    precision: str | None = None,
) -> Execution:
    """The execution that computes K(X, Y) in a precision, within a memory budget.

    Tensors on the CPU share their memory with NumPy arrays and are computed as such; tensors on a
    GPU stay there.
    """
    if x.home != "host":
        from mercer.evaluation.gpu import execution

        if execution.runs_on_the_device(x):
            return execution.on_device(kernel, x, y, dtype, precision)
        rows = x.host()
        columns = rows if y is x else y.host()
        return execution.ThroughNumPy(
            execution_for(kernel, rows, columns, dtype, memory, precision)
        )
    if precision == "reference":
        return Reference(kernel, x, y)
    program = program_of(kernel)
    if program is None:
        return OwnBlocks(kernel, x, y, dtype, memory)
    from mercer.evaluation.cpu.execution import Cpu

    return Cpu(kernel, program, x, y, dtype, memory)


_programs: dict[int, tuple[weakref.ref[EvaluableKernel], Program | None]] = {}  # by the kernel's id


def program_of(kernel: EvaluableKernel) -> Program | None:
    """The program of a kernel, cached as long as the kernel lives.

    Kernels are told apart by identity: to compare them, matrices inside them would be read.
    """
    key = id(kernel)
    cached = _programs.get(key)
    if cached is not None and cached[0]() is kernel:
        return cached[1]
    expression = kernel.expression()
    program = None if expression is None else lower(expression)
    _programs[key] = weakref.ref(kernel, lambda _: _programs.pop(key, None)), program
    return program


def check_pair(x: PointSet, y: PointSet) -> None:
    """Refuse points of different kinds, widths or homes."""
    if (
        isinstance(x, VectorPoints) != isinstance(y, VectorPoints)
        or (not isinstance(x, VectorPoints) and type(x) is not type(y))
        or (x.home == "host") != (y.home == "host")
    ):
        raise ValueError(
            f"both sides must be points of one kind; got {type(x).__name__} and {type(y).__name__}."
        )
    if x.home != y.home:
        raise ValueError(
            f"both sides must be on one device; got {x.home} and {y.home}: write X.to({y.home!r})."
        )
    if isinstance(x, VectorPoints) and isinstance(y, VectorPoints) and x.width != y.width:
        raise ValueError(
            f"both sides must have the same number of columns; got {x.width} and {y.width}."
        )
    left, right = getattr(x, "names", None), getattr(y, "names", None)
    if left is not None and right is not None and left != right:
        raise ValueError(
            f"both sides must have the same columns in the same order; got {list(left)} and "
            f"{list(right)}. Write Y[X.columns]."
        )
