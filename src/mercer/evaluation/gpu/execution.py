"""Executions on tensors: fused Triton code, blocks in torch, and NumPy for tensors on the CPU."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from mercer.arrays import to_precision
from mercer.evaluation import reference
from mercer.evaluation.execution import (
    Adapted,
    Affine,
    Execution,
    MappedRows,
    Plan,
    RowMap,
    RowPass,
)
from mercer.evaluation.expression import Expression
from mercer.evaluation.gpu import blocks
from mercer.evaluation.gradients import Differentiable
from mercer.evaluation.program import EvaluableKernel
from mercer.runtime.budget import MEGABYTE


def dtype_of(name: Any) -> torch.dtype:
    """The type of torch for a precision of NumPy."""
    return torch.float32 if str(name) in ("float32", "torch.float32") else torch.float64


def triton_is_there() -> bool:
    """Whether Triton can be imported; it comes with torch on Linux."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


def too_old(device: Any) -> bool:
    """Whether a card is older than what Triton compiles for (compute capability 7.0)."""
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return torch.cuda.get_device_capability(device)[0] < 7


def is_host(device: Any) -> bool:
    """Whether a device is the CPU, and Triton does not interpret there."""
    return device.type == "cpu" and os.environ.get("TRITON_INTERPRET") != "1"


def runs_fused_code(device: Any) -> bool:
    """Whether Triton is there and compiles for a device, or interprets."""
    return not is_host(device) and triton_is_there() and not too_old(device)


def on_device(
    kernel: EvaluableKernel, x: Any, y: Any, dtype: Any, precision: str | None
) -> Execution:
    """The execution for tensors of one device."""
    expression = kernel.expression()
    if expression is not None and runs_fused_code(x.device):
        return Triton(kernel, x, y, dtype, precision)
    return Torch(kernel, x, y, dtype, precision)


FEW_COLUMNS = 32  # up to which reading a stored matrix takes longer than the arithmetic with it


def stored_product(matrix: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """M V for a matrix that is stored; a few columns in float32 take as long as M is read.

    >>> stored_product(torch.eye(2), torch.ones(2, 1)).tolist()
    [[1.0], [1.0]]
    """
    few = 1 < columns.shape[1] <= FEW_COLUMNS and matrix.numel() and matrix.stride(1) == 1
    single = matrix.dtype == columns.dtype == torch.float32
    if few and single and runs_fused_code(matrix.device):
        from mercer.evaluation.gpu.packing import multiply

        return multiply(matrix, columns)
    return matrix @ columns


class OnDevice(Differentiable):
    """K(X, Y) of tensors. Points are prepared once for all products."""

    strip_bytes = 64 * MEGABYTE

    def __init__(
        self, kernel: EvaluableKernel, x: Any, y: Any, dtype: Any, precision: str | None
    ) -> None:
        self.kernel, self.x, self.y, self.precision = kernel, x, y, precision
        self.dtype = dtype_of(dtype)

    def _of(self, expression: Expression, x: Any, y: Any, symmetric: bool = False) -> Any:
        """Something with `matmul` and `dense` for the matrix of an expression."""
        raise NotImplementedError

    def _matrix(self, x: Any, y: Any) -> Any:
        """The same for K(X, Y)."""
        expression = self.kernel.expression()
        if expression is not None:
            return self._of(expression, x, y, x is y and self.kernel.symmetric)
        block = self.kernel.block
        if getattr(self.kernel, "takes_tensors", False):
            return blocks.BlockProduct(block, x, y, self.dtype)
        return blocks.BlockProduct(lambda a, b: block(a.host(), b.host()), x, y, self.dtype)

    @cached_property
    def matrix(self) -> Any:
        return self._matrix(self.x, self.y)

    @cached_property
    def transposed_matrix(self) -> Any:
        if self.y is self.x and self.kernel.symmetric:
            return self.matrix
        return self._matrix(self.y, self.x)

    def _multiplied(self, by_columns: bool, values: torch.Tensor) -> torch.Tensor:
        """K V or Kᵀ V; nothing is launched for empty sides."""
        out = self.y if by_columns else self.x
        if not len(self.x) or not len(self.y) or not values.shape[1]:
            return values.new_zeros((len(out), values.shape[1]))
        matrix = self.transposed_matrix if by_columns else self.matrix
        return matrix.matmul(values)

    def product(self, values: torch.Tensor) -> torch.Tensor:
        return self._multiplied(False, values)

    def transposed_product(self, values: torch.Tensor) -> torch.Tensor:
        return self._multiplied(True, values)

    def row_pass(self, values: torch.Tensor, row_map: RowMap) -> RowPass:
        """All rows are mapped at once: to compute values twice costs less than to store them."""
        mapped = row_map(0, len(self.x), self.product(values))
        outer = mapped.product.to(values.dtype).contiguous()
        total = self.transposed_product(outer).to(torch.float64)
        return RowPass(total, mapped.sums, mapped.values)

    def block(self) -> torch.Tensor:
        n, m = len(self.x), len(self.y)
        if not n or not m:
            return self.x.rows.new_zeros((n, m), dtype=self.dtype)
        size = n * m * self.dtype.itemsize
        if self.x.device.type == "cuda" and size > self.x.free_memory():
            raise MemoryError(
                f"a dense matrix of {n} × {m} takes {size / 2**30:.1f} GB, more than is free on "
                "the device: multiply by the Gram matrix instead (gram @ v), which never stores it."
            )
        return self.matrix.dense()

    def diagonal(self) -> torch.Tensor:
        expression = self.kernel.expression()
        if expression is not None:
            return reference.diagonal(expression, self.x)
        points = self.x if getattr(self.kernel, "takes_tensors", False) else self.x.host()
        return to_precision(self.x.vector(self.kernel.diagonal(points)), self.x.dtype)

    def values_of(self, expression: Expression, x: Any, y: Any) -> torch.Tensor:
        return self._of(expression, x, y).dense()

    def product_with(self, expression: Expression, values: torch.Tensor) -> torch.Tensor:
        return self._of(expression, self.x, self.y).matmul(values)


class Triton(OnDevice):
    """Fused code on a GPU, or interpreted."""

    def _of(self, expression: Expression, x: Any, y: Any, symmetric: bool = False) -> Any:
        from mercer.evaluation.gpu.product import FusedProduct

        precision = self.precision or "float32"
        return FusedProduct(expression, x, y, self.dtype, precision, symmetric=symmetric)

    def plan(self, columns: int) -> Plan:
        tile, distances, once, taken = self.matrix.describe(columns)
        shape = tile.rows, tile.columns
        return Plan(f"fused by Triton on {self.x.device}", distances, shape, 1, once, taken)


class Torch(OnDevice):
    """Blocks of values in plain torch, or of the kernel's own function."""

    def _of(
        self, expression: Expression, x: Any, y: Any, symmetric: bool = False
    ) -> blocks.BlockProduct:
        def values(rows: Any, columns: Any) -> torch.Tensor:
            return blocks.values(expression, rows, columns, self.dtype)

        return blocks.BlockProduct(values, x, y, self.dtype)

    def plan(self, columns: int) -> Plan:
        side = self.matrix.side
        name = f"blocks in torch on {self.x.device}"
        return Plan(name, "differences", (side, side), 1, False, side**2)


@dataclass(frozen=True, eq=False)
class _OnTensors:
    """A row map of tensors, for rows that are NumPy arrays in the same memory."""

    row_map: RowMap

    def __call__(self, start: int, stop: int, rows: np.ndarray) -> MappedRows:
        mapped = self.row_map(start, stop, torch.from_numpy(rows))
        return MappedRows(*(None if part is None else _shared(part) for part in mapped))


def _shared(part: Any) -> Any:
    return part.numpy() if isinstance(part, torch.Tensor) else part


class ThroughNumPy(Adapted):
    """Tensors on the CPU: they share their memory with NumPy arrays, and are computed as such."""

    def __init__(self, inside: Execution) -> None:
        super().__init__(inside, torch.Tensor.numpy, _tensor)

    def row_pass(self, values: torch.Tensor, row_map: RowMap) -> RowPass:
        inside: RowMap = _OnTensors(row_map)
        if isinstance(row_map, Affine):
            factors, added = _shared(row_map.factors), _shared(row_map.added)
            inside = replace(row_map, factors=factors, added=added)
        done = self.inside.row_pass(values.numpy(), inside)
        return RowPass(*(None if part is None else _tensor(part) for part in done))


def _tensor(array: Any) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
