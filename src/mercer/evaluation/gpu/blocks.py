"""Kernels in plain torch, a block of the matrix at a time: no Triton, no compiled code.

It serves kernels without an expression and machines without Triton. Distances are summed from
differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from mercer.evaluation.expression import Expression, Number, X, Y, numbers_of
from mercer.evaluation.operations import evaluate

VALUES_BYTES = 1 << 28
"""Of one block of values: large enough that launching it costs nothing beside its work."""
SMALLEST_SIDE = 64
"""Rows and columns of a block that must fit: where it does not, the device is full."""


def values(expression: Expression, x: Any, y: Any, dtype: torch.dtype) -> torch.Tensor:
    """All k(x_i, y_j) of an expression, stored."""
    numbers = {number: _pair(number, x, y, dtype) for number in numbers_of(expression)}
    like = torch.empty((), dtype=dtype, device=x.rows.device)
    result = evaluate(expression, numbers, like)
    return torch.broadcast_to(result, (len(x), len(y)))


def _pair(number: Number, x: Any, y: Any, dtype: torch.dtype) -> torch.Tensor:
    kind = number.kind
    if kind[:2] in ("x_", "y_"):
        norms = (x if kind[0] == "x" else y).squared_norms(number.view)
        norms = (norms.sqrt() if kind.endswith("length") else norms).to(dtype)
        return norms[:, None] if kind[0] == "x" else norms[None, :]
    a, b = x.seen(number.view, dtype), y.seen(number.view, dtype)
    if kind == "product":
        return (a.double() @ b.double().T).to(dtype)
    if kind == "squared_distance":
        return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").square()
    total = torch.full(
        (len(x), len(y)), float(kind == "coordinate_product"), dtype=dtype, device=a.device
    )
    assert number.term is not None
    for k in range(a.shape[1]):
        term = evaluate(number.term, {X: a[:, k, None], Y: b[None, :, k]}, a)
        total = total * term if kind == "coordinate_product" else total + term
    return total


def out_of_memory(x: Any, y: Any) -> MemoryError:
    """The advice where not even small blocks fit."""
    return MemoryError(
        f"the device {x.rows.device} has no memory left for a product with {len(x)} × {len(y)} "
        "points, in small blocks either: delete tensors that are not needed, call "
        "torch.cuda.empty_cache(), or keep the points on the CPU (X.cpu())."
    )


class BlockProduct:
    """K(X, Y) by blocks of values that a function gives."""

    def __init__(
        self, block: Callable[[Any, Any], Any], x: Any, y: Any, dtype: torch.dtype
    ) -> None:
        self.block, self.x, self.y, self.dtype = block, x, y, dtype
        self.device = x.rows.device
        self.side = max(1, int((VALUES_BYTES // dtype.itemsize) ** 0.5))  # of a block

    def matmul(self, values: torch.Tensor) -> torch.Tensor:
        """K V, with smaller blocks where the device has no memory for one."""

        def work() -> torch.Tensor:
            shape = len(self.x), values.shape[1]
            out = torch.zeros(shape, dtype=torch.float64, device=self.device)
            for rows, columns, block in self._blocks():
                out[rows] += block @ values[columns].to(block.dtype)
            return out.to(self.dtype)

        return self._with_smaller_blocks(work)

    def dense(self) -> torch.Tensor:
        """K, stored."""

        def work() -> torch.Tensor:
            out = torch.empty((len(self.x), len(self.y)), dtype=self.dtype, device=self.device)
            for rows, columns, block in self._blocks():
                out[rows, columns] = block
            return out

        return self._with_smaller_blocks(work)

    def _with_smaller_blocks(self, work: Callable[[], torch.Tensor]) -> torch.Tensor:
        while True:
            try:
                return work()
            except torch.OutOfMemoryError:
                if self.side <= SMALLEST_SIDE:
                    raise out_of_memory(self.x, self.y) from None
            self.side = min(self.side, max(len(self.x), len(self.y))) // 2

    def _blocks(self) -> Iterator[tuple[slice, slice, torch.Tensor]]:
        side = self.side
        for i in range(0, len(self.x), side):
            x = self.x.slice(i, i + side)
            for j in range(0, len(self.y), side):
                y = self.y.slice(j, j + side)
                block = torch.as_tensor(self.block(x, y), dtype=self.dtype, device=self.device)
                if block.shape != (len(x), len(y)):
                    raise ValueError(
                        f"a kernel returned a block of shape {tuple(block.shape)} for {len(x)} "
                        f"and {len(y)} points: it must return one value for each pair."
                    )
                yield slice(i, i + side), slice(j, j + side), block
