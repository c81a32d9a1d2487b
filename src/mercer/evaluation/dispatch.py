"""The one place that looks at the kind of points: which execution computes a kernel on them.

numba, torch and triton are imported on first use; `import mercer` does not load them.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any

import numpy as np

from mercer.evaluation.blocks import OwnBlocks
from mercer.evaluation.execution import Adapted, Execution, Hosted
from mercer.evaluation.program import EvaluableKernel, Program, lower
from mercer.evaluation.reference import Reference
from mercer.evaluation.streamed import Streamed, is_streamed
from mercer.points import HostedPoints, PointSet, SparsePoints, VectorPoints
from mercer.runtime.budget import Memory

PRECISIONS = (None, "float32", "tf32", "float64", "reference")
LARGEST_COORDINATE = 1e15  # whose squares, times many columns, are numbers of float32
STEEPEST_PARAMETER = 1e30  # parameter, as 1/ℓ², alone and times a squared distance


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
    if x.home == "cluster":
        from mercer.evaluation.cluster import Cluster

        return Cluster(kernel, x, y, dtype, memory, precision)
    if isinstance(x, HostedPoints):
        columns = x.there if y is x else y.there  # type: ignore[attr-defined]
        inside = execution_for(kernel, x.there, columns, dtype, memory, precision)
        return Hosted(inside, x.there)
    if x.home != "host":
        return _for_tensors(kernel, x, y, dtype, memory, precision)
    if precision == "reference":
        return Reference(kernel, x, y)
    program = program_of(kernel)
    if program is None:
        return OwnBlocks(kernel, x, y, dtype, memory)
    from mercer.evaluation.cpu.execution import Cpu

    if dtype == "float32" and leaves_single(program, x, y):
        wide = Cpu(kernel, program, x, y, "float64", memory)
        return Adapted(wide, partial(np.asarray, dtype=np.float64), _narrow)
    return Cpu(kernel, program, x, y, dtype, memory)


def _for_tensors(
    kernel: EvaluableKernel, x: Any, y: Any, dtype: Any, memory: Memory, precision: str | None
) -> Execution:
    """The same for tensors, and for points that are brought to their device in blocks."""
    from mercer.evaluation.gpu import execution

    if is_streamed(x) or is_streamed(y):
        return Streamed(kernel, x, y, dtype, memory, precision)
    if not execution.is_host(x.device):
        return execution.on_device(kernel, x, y, dtype, precision)
    rows = x.host()
    columns = rows if y is x else y.host()
    return execution.ThroughNumPy(execution_for(kernel, rows, columns, dtype, memory, precision))


def leaves_single(program: Program, x: Any, y: Any) -> bool:
    """Whether points in their units, or the constants of a kernel, leave the range of float32.

    Squares of numbers beyond 1e19, or below 1e-19, are not numbers of float32. A kernel of x/ℓ is
    the same in every unit, and so are its values: they are computed in float64 then.
    """
    scales = [abs(scale) for view in program.views for scale in view.scales or () if scale]
    steepest = max([1.0, *map(abs, program.parameters)])
    if steepest > STEEPEST_PARAMETER:
        return True
    for points in (x,) if y is x else (x, y):
        values = points.rows.data if isinstance(points, SparsePoints) else points.rows
        largest = max(float(values.max()), -float(values.min())) if values.size else 0.0
        sizes = [largest * scale for scale in (1.0, *scales)]
        fits = (
            min(sizes) >= 1.0 / LARGEST_COORDINATE
            and max(sizes) ** 2 * steepest <= STEEPEST_PARAMETER
        )
        if largest and not fits:
            return True
    return False


def _narrow(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


PLAIN = frozenset({bool, int, float, str, type(None)})  # fields by which kernels are compared
LIMIT = 512  # programs that are cached
_programs: dict[Any, Program | None] = {}
_owners: dict[int, weakref.ref[EvaluableKernel]] = {}  # of programs that are cached by identity


def program_of(kernel: EvaluableKernel) -> Program | None:
    """The program of a kernel; None where it has no expression.

    It is cached by the class and the fields of the kernel where these are numbers and texts, else
    by identity as long as the kernel lives: to compare kernels, matrices inside them would be read.
    """
    fields = tuple(vars(kernel).values())
    kinds = tuple(map(type, fields))
    key: Any = (type(kernel), fields, kinds) if PLAIN.issuperset(kinds) else id(kernel)
    if key not in _programs:
        expression = kernel.expression()
        program = None if expression is None else lower(expression)
        if isinstance(key, int):
            _owners[key] = weakref.ref(kernel, lambda _: _forget(key))
        elif len(_programs) >= LIMIT:
            _programs.clear()
            _owners.clear()
        _programs[key] = program
    return _programs[key]


def _forget(key: int) -> None:
    _programs.pop(key, None)
    _owners.pop(key, None)


def check_pair(x: PointSet, y: PointSet, precision: str | None = None) -> None:
    """Refuse points of different kinds, widths or homes, and a precision that they do not have."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {PRECISIONS}; got {precision!r}.")
    if precision == "tf32" and x.home == "host":
        raise ValueError('precision="tf32" is for tensors of torch on a GPU; these are arrays.')
    if x is y:
        return
    if (
        isinstance(x, VectorPoints) != isinstance(y, VectorPoints)
        or (not isinstance(x, VectorPoints) and type(x) is not type(y))
        or (x.home == "cluster" and y.home not in ("cluster", "host"))  # whose columns are here
        or (x.home != "cluster" and (x.home == "host") != (y.home == "host"))
    ):
        raise ValueError(
            f"both sides must be points of one kind; got {type(x).__name__} and {type(y).__name__}."
        )
    if x.home not in (y.home, "cluster"):
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
