"""The one door to evaluation: which execution computes a kernel on these points.

numba, torch and triton are imported on first use; `import mercer` does not load them. Tensors on
the CPU share their memory with NumPy arrays and are computed as such; tensors on a GPU stay there.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import is_tensor
from mercer.evaluation import reference
from mercer.evaluation.blocks import BlockTiles
from mercer.evaluation.budget import Memory, free_memory, memory_budget
from mercer.evaluation.program import EvaluableKernel, Program, lower
from mercer.evaluation.row_pass import Affine, RowPass
from mercer.evaluation.threads import thread_count
from mercer.evaluation.tiling import SMALL, Middle, Tiles, Walk
from mercer.points import PointSet, SparsePoints, VectorPoints


@dataclass(frozen=True)
class Plan:
    """What a product will do: its execution, its tiles, its threads and its memory."""

    execution: str
    distances: str
    tile: tuple[int, int]
    threads: int
    symmetric: bool
    memory: int

    def __str__(self) -> str:
        distances = f", distances by {self.distances}" if self.distances else ""
        symmetric = ", each symmetric pair once" if self.symmetric else ""
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return (
            f"{self.execution}: tiles of {self.tile[0]} × {self.tile[1]} in {threads}"
            f"{distances}{symmetric}; at most {self.memory / 2**20:.0f} MB beside input and output"
        )


def check_pair(x: PointSet, y: PointSet) -> None:
    """Refuse points of different kinds or widths."""
    if (
        isinstance(x, VectorPoints) != isinstance(y, VectorPoints)
        or (not isinstance(x, VectorPoints) and type(x) is not type(y))
        or on_tensors(x) != on_tensors(y)
    ):
        raise ValueError(
            f"both sides must be points of one kind; got {type(x).__name__} and {type(y).__name__}."
        )
    devices = [getattr(points, "device", None) for points in (x, y)]  # of tensors
    if devices[0] != devices[1]:
        raise ValueError(
            f"both sides must be on one device; got {devices[0]} and {devices[1]}: write "
            f"X.to({str(devices[1])!r})."
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


def on_tensors(points: Any) -> bool:
    """Whether points are the rows of a torch tensor."""
    return is_tensor(getattr(points, "rows", None))


def _on_host(points: Any) -> bool:
    """Whether tensors are computed as NumPy arrays: on the CPU, unless Triton interprets."""
    return bool(_gpu().is_host(points.rows.device))


def on_device(kernel: EvaluableKernel, points: Any) -> bool:
    """Whether tensors are computed on their device, by a program of the kernel."""
    return kernel.expression() is not None and not _on_host(points)


def device_memory(points: Any) -> int | None:
    """Bytes that are free on the card that holds the points; None where no card does."""
    device = getattr(points, "device", None)
    return None if getattr(device, "type", "") != "cuda" else _gpu().free_memory(device)


def _gpu() -> Any:
    from mercer.evaluation.gpu import execution

    return execution


def _through_numpy(x: Any, y: Any, compute: Callable[[Any, Any], np.ndarray]) -> Any:
    """What `compute` makes of tensors on the CPU as NumPy points, as a tensor."""
    import torch

    rows = x.host()
    return torch.from_numpy(np.ascontiguousarray(compute(rows, rows if y is x else y.host())))


def _tiles(kernel: EvaluableKernel, x: PointSet, y: PointSet, dtype: Any) -> Tiles:
    program = _lowered(kernel)
    if program is None:
        return BlockTiles(kernel, x, y, dtype)
    from mercer.evaluation.cpu.tiles import FusedTiles

    return FusedTiles(program, *_same_storage(x, y), dtype)


_programs: dict[int, tuple[weakref.ref[EvaluableKernel], Program | None]] = {}  # by the kernel's id


def _lowered(kernel: EvaluableKernel) -> Program | None:
    """The program of a kernel, kept as long as the kernel lives.

    Kernels are told apart by identity: to compare them, matrices inside them would be read.
    """
    key = id(kernel)
    kept = _programs.get(key)
    if kept is not None and kept[0]() is kernel:
        return kept[1]
    expression = kernel.expression()
    program = None if expression is None else lower(expression)
    _programs[key] = weakref.ref(kernel, lambda _: _programs.pop(key, None)), program
    return program


def _same_storage(x: Any, y: Any) -> tuple[VectorPoints, VectorPoints]:
    """Sparse with sparse or dense with dense; a dense side is made sparse, never the other way."""
    if isinstance(x, SparsePoints) or isinstance(y, SparsePoints):
        return x.as_sparse(), y.as_sparse()
    return x, y


def walk(
    kernel: EvaluableKernel, x: PointSet, y: PointSet, dtype: Any, memory: Memory, columns: int = 1
) -> Walk:
    """Tiles of K(X, Y) and the number of threads, within the memory budget."""
    tiles = _tiles(kernel, x, y, dtype)
    threads = thread_count() if len(x) * len(y) >= SMALL else 1
    return Walk.within(tiles, columns, threads, memory_budget(memory))


def matmul(
    kernel: EvaluableKernel,
    x: PointSet,
    y: PointSet,
    values: Any,
    memory: Memory,
    precision: str | None = None,
    kept: dict[Any, Any] | None = None,
) -> Any:
    """K(X, Y) V in the precision of V; symmetry is used where X is Y.

    On a GPU, `kept` holds the packed points from one product to the next.
    """
    if on_tensors(x):
        if not len(x) or not len(y) or not values.shape[1]:
            return values.new_zeros((len(x), values.shape[1]))
        if _on_host(x):
            v = values.numpy()
            return _through_numpy(x, y, lambda a, b: matmul(kernel, a, b, v, memory))
        return _gpu().matmul(kernel, x, y, values, precision, {} if kept is None else kept)
    if not len(x) or not len(y) or not values.shape[1]:
        return np.zeros((len(x), values.shape[1]), values.dtype)
    matrix = walk(kernel, x, y, values.dtype, memory, values.shape[1])
    return matrix.symmetric_matmul(values) if x is y else matrix.matmul(values)


def normal_matmul(
    kernel: EvaluableKernel,
    x: PointSet,
    y: PointSet,
    values: Any,
    shift: Any,
    memory: Memory,
    precision: str | None = None,
    kept: dict[Any, Any] | None = None,
) -> Any:
    """K(Y, X)(K(X, Y) V + W), fused."""
    if on_tensors(x):
        if not len(x) or not len(y) or not values.shape[1]:
            return values.new_zeros((len(y), values.shape[1]))
        if _on_host(x):
            v, w = values.numpy(), None if shift is None else shift.numpy()
            return _through_numpy(x, y, lambda a, b: normal_matmul(kernel, a, b, v, w, memory))
        kept = {} if kept is None else kept
        return _gpu().normal_matmul(kernel, x, y, values, shift, precision, kept)
    if not len(x) or not len(y) or not values.shape[1]:
        return np.zeros((len(y), values.shape[1]), values.dtype)
    return row_pass_of(kernel, x, y, values, memory).normal(values, shift)


def row_pass(
    kernel: EvaluableKernel,
    x: PointSet,
    y: PointSet,
    values: Any,
    middle: Middle,
    memory: Memory,
    precision: str | None = None,
    kept: dict[Any, Any] | None = None,
) -> Any:
    """K(Y, X) M(K(X, Y) V) for a map M of rows, fused; on a GPU M gets all rows at once."""
    if on_tensors(x):
        if _on_host(x):
            v, inside = values.numpy(), _middle_of_tensors(middle)
            return _through_numpy(x, y, lambda a, b: row_pass(kernel, a, b, v, inside, memory))
        kept = {} if kept is None else kept
        return _gpu().row_pass(kernel, x, y, values, middle, precision, kept)
    return row_pass_of(kernel, x, y, values, memory).product(values, middle)


def row_pass_of(
    kernel: EvaluableKernel, x: PointSet, y: PointSet, values: np.ndarray, memory: Memory
) -> RowPass:
    """Tiles of K(X, Y) to multiply from both sides, in as many threads as the budget admits."""
    tiles = _tiles(kernel, x, y, values.dtype)
    threads = thread_count() if len(x) * len(y) >= SMALL else 1
    return RowPass.within(tiles, values.shape[1], threads, memory_budget(memory))


def _middle_of_tensors(middle: Middle) -> Middle:
    """A map of rows that are tensors, for rows that are arrays of NumPy in the same memory."""
    import torch

    if isinstance(middle, Affine):
        return middle.on_host()

    def inside(start: int, stop: int, rows: np.ndarray) -> np.ndarray:
        mapped: Any = middle(start, stop, torch.from_numpy(rows))
        return np.asarray(mapped.numpy())

    return inside


def dense(
    kernel: EvaluableKernel,
    x: PointSet,
    y: PointSet,
    dtype: Any,
    memory: Memory,
    precision: str | None = None,
) -> Any:
    """K(X, Y), stored, where it fits into memory."""
    if on_tensors(x):
        if _on_host(x):
            return _through_numpy(x, y, lambda a, b: dense(kernel, a, b, dtype, memory))
        if not len(x) or not len(y):
            return x.rows.new_zeros((len(x), len(y)), dtype=_gpu().dtype_of(dtype))  # type: ignore[attr-defined]
        return _gpu().dense(kernel, x, y, _gpu().dtype_of(dtype), precision)
    size = len(x) * len(y) * np.dtype(dtype).itemsize
    if size > free_memory():
        raise MemoryError(
            f"a dense matrix of {len(x)} × {len(y)} takes {size / 2**30:.1f} GB, more than is "
            "free: multiply by the Gram matrix instead (gram @ v), which never stores it."
        )
    if not size:
        return np.empty((len(x), len(y)), dtype)
    return walk(kernel, x, y, dtype, memory).dense(symmetric=x is y)


def diagonal(kernel: EvaluableKernel, x: PointSet) -> Any:
    """All k(x_i, x_i)."""
    if on_tensors(x):
        if _on_host(x):
            return _through_numpy(x, x, lambda a, b: diagonal(kernel, a))
        return _gpu().diagonal(kernel, x)
    expression = kernel.expression()
    if expression is None:
        return np.asarray(kernel.diagonal(x), x.dtype)
    return reference.diagonal(expression, x)  # type: ignore[arg-type]


def plan(
    kernel: EvaluableKernel, x: PointSet, y: PointSet, dtype: Any, memory: Memory, columns: int
) -> Plan:
    """What `matmul` would do, without doing it."""
    if on_tensors(x):
        return _tensor_plan(kernel, x, y, dtype, memory, columns)
    matrix = walk(kernel, x, y, dtype, memory, columns)
    tiles = matrix.tiles
    fused = kernel.expression() is not None
    return Plan(
        execution="fused on the CPU" if fused else "blocks from the kernel's own function",
        distances=getattr(tiles, "distances", ""),
        tile=(tiles.stripe, tiles.tile),
        threads=matrix.threads,
        symmetric=x is y,
        memory=matrix.memory,
    )


def _tensor_plan(
    kernel: EvaluableKernel, x: Any, y: Any, dtype: Any, memory: Memory, columns: int
) -> Plan:
    if _on_host(x):
        rows = x.host()
        return plan(kernel, rows, rows if y is x else y.host(), dtype, memory, columns)
    gpu = _gpu()
    product = gpu.execution(kernel, x, y, gpu.dtype_of(dtype), None)
    if not hasattr(product, "describe"):
        side = product.side
        return Plan(
            f"blocks in torch on {x.device}", "differences", (side, side), 1, False, side**2
        )
    tile, distances, taken = product.describe(columns)
    shape = tile.rows, tile.columns
    return Plan(f"fused by Triton on {x.device}", distances, shape, 1, False, taken)
