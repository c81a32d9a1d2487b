"""Products and row passes with rows on a cluster: a task for each block, and sums in a fixed order.

A block is computed where it lies, by the execution that would compute it there alone: on the card
of a worker that has one, else on its CPU. What travels are V, once to each worker, and KᵀU, added
up on each worker before it leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mercer.arrays import Array, as_numpy, on_device
from mercer.distributed.blockwise import with_fields, with_rows, without_rows
from mercer.distributed.cards import card, resident
from mercer.distributed.placement import Broadcast, Placement
from mercer.distributed.reductions import add_up
from mercer.distributed.rows import Rows, spread
from mercer.evaluation.cluster_plan import ClusterPlan, Work, measured_plan
from mercer.evaluation.execution import Names, Plan, RowMap, RowPass
from mercer.evaluation.program import EvaluableKernel
from mercer.points import DensePoints, PointSet
from mercer.runtime.budget import Memory


class Part(NamedTuple):
    """The result of a row pass over a block: sums, which are added up, and rows, which stay."""

    product: Any
    sums: Any
    values: Any


@dataclass(frozen=True, eq=False)
class Vector:
    """The part of a row pass that is sent to each worker: V, and the row map without its rows."""

    values: np.ndarray
    row_map: Any


class OverBlocks:
    """The verbs of an operator whose rows are on a cluster.

    Parameters
    ----------
    rows : Rows
    local : function
        Of a block of rows and the common part: something with `product`, `transposed_product` and
        `row_pass`, on a worker.
    common : object
        What `local` needs beside the block; it is sent to each worker once.
    """

    def __init__(self, rows: Rows, local: Callable[[Any, Any], Any], common: Any) -> None:
        self.rows, self.local, self.placement = rows, local, rows.placement
        self.common = self._on_each_worker(common)

    def _on_each_worker(self, common: Any) -> list[Any]:
        """The common part as a result of a task of each worker: what is bound is not dropped."""
        copies = self.placement.each_group("centres", _first, [common] * len(self.rows.blocks()))
        of_block: list[Any] = [None] * len(self.placement.lengths)
        held = [group for group in self.placement.groups if group]
        for group, copy in zip(held, copies, strict=True):
            for i in group:
                of_block[i] = copy
        return of_block

    def product(self, values: np.ndarray) -> Rows:
        """K V, which stays on the workers."""
        self.placement.refresh()
        blocks = self._each("product", multiply_block, self.placement.shared("vector", values))
        sample = np.empty((0, values.shape[1]), values.dtype)
        return Rows(self.placement, sample, blocks)

    def transposed_product(self, values: Rows) -> np.ndarray:
        """Kᵀ V."""
        self.placement.refresh()
        arguments = self._beside_blocks(values.blocks())
        return self.placement.summed("transposed", transpose_block, add_up, *arguments)[1]

    def row_pass(self, values: np.ndarray, row_map: RowMap) -> RowPass:
        """Kᵀ M(K V): V goes to each worker, the sum over its blocks comes back."""
        self.placement.refresh()
        slots, arrays = without_rows(row_map, self._has_rows)
        leaves = [self._as_rows(part).blocks("row-values") for part in arrays]
        given = [list(blocks) for blocks in zip(*leaves, strict=True)] if leaves else None
        if given is None:
            given = [[] for _ in self.placement.lengths]
        arguments = self._beside_blocks(Broadcast(Vector(values, slots)), given)
        parts, total = self.placement.summed("row-pass", pass_block, _added_parts, *arguments)
        product, sums, sample = total
        if sample is None:
            return RowPass(product, sums, None)
        kept = self.placement.each_block("row-pass-values", _values_of, parts)
        return RowPass(product, sums, Rows(self.placement, sample, kept))

    def _has_rows(self, part: Any) -> bool:
        """Whether a part of a row map has a row for each row of K."""
        if isinstance(part, Rows):
            return True
        rows = self.placement.rows
        return isinstance(part, np.ndarray) and part.ndim > 0 and len(part) == rows > 1

    def _as_rows(self, part: Any) -> Rows:
        return part if isinstance(part, Rows) else spread(part, self.placement)

    def diagonal(self) -> Rows:
        """k(x_i, x_i)."""
        return self._computed("diagonal", diagonal_block, 1)

    def block(self) -> Rows:
        """K, stored where the rows are."""
        return self._computed("matrix", whole_block, 2)

    def _computed(self, name: str, function: Callable[..., Any], ndim: int) -> Rows:
        blocks = self._each(name, function)
        first = self.placement.fetched(
            self.placement.client.submit(_without_rows, blocks[0], pure=False)
        )
        return Rows(self.placement, first, blocks)

    def _each(self, name: str, function: Callable[..., Any], *more: Any) -> list[Any]:
        return self.placement.each_block(name, function, *self._beside_blocks(*more))

    def _beside_blocks(self, *more: Any) -> tuple[Any, ...]:
        """The arguments of a task on a block: what computes it, the common part, its rows."""
        count = len(self.placement.lengths)
        return [self.local] * count, self.common, self.rows.blocks(), *more


# ---- on a worker ---------------------------------------------------------------------------------


def multiply_block(local: Any, common: Any, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A block of K V."""
    return as_numpy(local(rows, common).product(_placed(local, values)))


def transpose_block(local: Any, common: Any, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """KᵀV of a block."""
    return np.asarray(
        as_numpy(local(rows, common).transposed_product(_placed(local, values))), np.float64
    )


def pass_block(
    local: Any, common: Any, rows: np.ndarray, vector: Vector, given: Sequence[Any]
) -> Part:
    """A row pass over one block."""
    row_map = _placed(local, with_rows(vector.row_map, given))
    result = local(rows, common).row_pass(_placed(local, vector.values), row_map)
    return Part(*(None if part is None else as_numpy(part) for part in result))


def diagonal_block(local: Any, common: Any, rows: np.ndarray) -> np.ndarray:
    """k(x, x) of a block."""
    return as_numpy(local(rows, common).diagonal())


def whole_block(local: Any, common: Any, rows: np.ndarray) -> np.ndarray:
    """A block of K."""
    return as_numpy(local(rows, common).block())


def _placed(local: Any, thing: Any) -> Any:
    """A vector or a row map where a block is computed."""
    return _there(thing) if getattr(local, "on_card", False) else thing


def _first(things: list[Any]) -> Any:
    return things[0]


def _values_of(part: Part) -> Any:
    return part.values


def _without_rows(block: np.ndarray) -> np.ndarray:
    return block[:0]


def _added_parts(parts: list[Any]) -> tuple[Any, Any, Any]:
    """Sums of products and of small numbers, in order; rows are represented by none of them."""
    product, sums = parts[0][0], parts[0][1]
    for part in parts[1:]:
        product = product + part[0]
        sums = sums if sums is None else sums + part[1]
    values = parts[0][2]
    return product, sums, None if values is None else values[:0]


def _there(thing: Any) -> Any:
    """Arrays, and those in a row map, on the card of this worker where it has one."""
    device = card()
    if device is None:
        return thing

    def moved(part: Any) -> Any:
        return _uploaded(part, device) if isinstance(part, np.ndarray) else part

    return with_fields(thing, moved)


def _uploaded(rows: np.ndarray, device: str) -> Any:
    return on_device(np.ascontiguousarray(rows), device)


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of K, which all blocks share; without centres, they are the rows."""

    kernel: EvaluableKernel
    centres: PointSet | None


@dataclass(frozen=True, eq=False)
class KernelOnBlock:
    """K(block, centres) on a worker: its packed centres are kept as long as they are used."""

    dtype: str
    memory: Memory
    precision: str | None
    names: tuple[str, ...] | None
    on_card: ClassVar[bool] = True

    def __call__(self, rows: np.ndarray, common: Columns) -> Any:
        from mercer.evaluation.dispatch import execution_for

        x: Any = _points(rows, self.names)
        y = x if common.centres is None else _on_card(common.centres)
        return execution_for(common.kernel, x, y, self.dtype, self.memory, self.precision)


def _points(rows: np.ndarray, names: tuple[str, ...] | None) -> PointSet:
    return _on_card(DensePoints(rows, names))


def _on_card(points: Any) -> Any:
    """Dense points on the card of this worker, where it has one."""
    if card() is None or not isinstance(points, DensePoints):
        return points
    from mercer.points.tensors import TensorPoints

    return TensorPoints(resident(points.rows, _uploaded), points.names)


class Cluster:
    """K(X, Y) for rows X on a cluster and columns Y here."""

    def __init__(
        self,
        kernel: EvaluableKernel,
        x: Any,
        y: PointSet,
        dtype: Any,
        memory: Memory = None,
        precision: str | None = None,
    ) -> None:
        same = y is x
        if not same and y.home != "host":
            raise ValueError(
                "with rows on a cluster the columns of a Gram matrix are few points here: pass "
                "centres as an array of NumPy."
            )
        self.x, self.y, self.kernel, self.same = x, y, kernel, same
        self.memory, self.precision = memory, precision
        local = KernelOnBlock(str(dtype), memory, precision, x.names)
        self.blocks = OverBlocks(x.rows, local, Columns(kernel, None if same else y))

    def _refuse_square(self) -> None:
        if self.same:
            raise ValueError(
                f"{len(self.x)} rows on a cluster have no Gram matrix of all with all: seek f on "
                "centres, as by centres=2000 in an estimator, or by features=200."
            )

    def product(self, values: Array) -> Array:
        self._refuse_square()
        return self.blocks.product(values)

    def transposed_product(self, values: Array) -> Array:
        self._refuse_square()
        return self.blocks.transposed_product(values)

    def row_pass(self, values: Array, row_map: RowMap) -> RowPass:
        self._refuse_square()
        return self.blocks.row_pass(values, row_map)

    def block(self) -> Array:
        self._refuse_square()
        return self.blocks.block()

    def diagonal(self) -> Array:
        return self.blocks.diagonal()

    def gradient(self, values: Array) -> Array:
        raise NotImplementedError("gradients at rows on a cluster: take some of the rows first.")

    def parameter_gradient(
        self, left: Array, right: Array | None = None, names: Names = None
    ) -> dict[str, Any]:
        raise NotImplementedError("slopes in parameters with rows on a cluster: take some rows.")

    @property
    def workers(self) -> int:
        return len(self.x.rows.placement.groups)

    def heads(self, rows: int, dtype: str) -> Cluster:
        """The same for the first rows of each block, in some precision."""
        first = replace(self.x, rows=self.x.rows.heads(rows))
        return Cluster(self.kernel, first, self.y, dtype, self.memory, self.precision)

    def forecast(self, work: Work) -> ClusterPlan:
        """Time and memory of a fit here: a few passes over some of the rows are timed."""
        return measured_plan(self, work)

    def plan(self, columns: int) -> Plan:
        placement: Placement = self.x.rows.placement
        size = 8 * len(self.y) * columns
        return Plan(
            f"cluster of {len(placement.groups)} workers",
            "",
            (max(placement.lengths), len(self.y)),
            len(placement.groups),
            False,
            size * (2 * len(placement.groups) + 2),
        )
