"""Kernels in plain torch, a block of the matrix at a time: no Triton, no compiled code.

It serves kernels without an expression, machines without Triton, and the diagonal. Distances are
summed from differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from mercer.evaluation import operations
from mercer.evaluation.expression import (
    COORDINATE_KINDS,
    Expression,
    Number,
    Operation,
    X,
    Y,
    numbers_of,
)


@dataclass(frozen=True)
class Tuning:
    """Sizes of blocks in plain torch."""

    block_bytes: int = 1 << 28
    """Of one block of values: large enough that launching it costs nothing beside its work."""
    smallest: int = 64
    """Rows and columns of a block that must fit: where it does not, the device is full."""


TUNING = Tuning()


def evaluate(expression: Expression, numbers: dict[Any, torch.Tensor], like: torch.Tensor) -> Any:
    """The value of an expression on tensors, in the precision of `like`."""

    def constant(value: float) -> torch.Tensor:
        return torch.full((), value, dtype=like.dtype, device=like.device)

    return operations.evaluate(expression, numbers, constant, _apply)


def _apply(node: Operation, *arguments: torch.Tensor) -> torch.Tensor:
    if node.table is not None:  # has no form in torch: on the host, where its oracle is
        x = arguments[0]
        values = node.table.function(x.detach().cpu().numpy())
        return torch.as_tensor(values, dtype=x.dtype, device=x.device)
    return operations.apply(node, *arguments)


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
    for k in range(a.shape[1]):
        term = _term(number, a[:, k, None], b[None, :, k])
        total = total * term if kind == "coordinate_product" else total + term
    return total


def _term(number: Number, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    assert number.term is not None
    return evaluate(number.term, {X: a, Y: b}, a)


def diagonal(expression: Expression, x: Any, dtype: torch.dtype) -> torch.Tensor:
    """All k(x_i, x_i)."""
    numbers = {number: _own(number, x) for number in numbers_of(expression)}
    like = torch.empty((), dtype=torch.float64, device=x.rows.device)
    return torch.broadcast_to(evaluate(expression, numbers, like), (len(x),)).to(dtype)


def _own(number: Number, x: Any) -> torch.Tensor:
    if number.kind == "squared_distance":
        return torch.zeros(len(x), dtype=torch.float64, device=x.rows.device)
    if number.kind in COORDINATE_KINDS:
        rows = x.seen(number.view, torch.float64)
        terms = torch.broadcast_to(_term(number, rows, rows), rows.shape)
        return terms.sum(1) if number.kind == "coordinate_sum" else terms.prod(1)
    norms = x.squared_norms(number.view)
    return norms.sqrt() if number.kind.endswith("length") else norms


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
        self,
        block: Callable[[Any, Any], Any],
        x: Any,
        y: Any,
        dtype: torch.dtype,
        tuning: Tuning = TUNING,
    ) -> None:
        self.block, self.x, self.y, self.dtype, self.tuning = block, x, y, dtype, tuning
        self.device = x.rows.device
        self.side = max(1, int((tuning.block_bytes // dtype.itemsize) ** 0.5))  # of a block

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
                if self.side <= self.tuning.smallest:
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
