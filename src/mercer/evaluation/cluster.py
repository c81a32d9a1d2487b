"""Products and row passes with rows on a cluster: a task for each block, and sums in a fixed order.

A block is computed where it lies, by the execution that would compute it there alone: on the card
of a worker that has one, else on its CPU. What travels are V, once to each worker, and KᵀU, added
up on each worker before it leaves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, ClassVar

import numpy as np

from mercer.arrays import Array, as_numpy, on_device
from mercer.distributed.cards import card, resident
from mercer.distributed.placement import Broadcast
from mercer.distributed.rows import Rows, Slot, add_up, by_block
from mercer.evaluation.execution import Affine, Names, Plan, RowMap, RowPass, added_passes
from mercer.evaluation.program import EvaluableKernel
from mercer.points import DensePoints, PointSet
from mercer.runtime.budget import Memory, in_words


@dataclass(frozen=True)
class Tuning:
    """What a pass on a cluster costs."""

    probe: int = 1 << 16  # rows of each block on which a pass is timed
    certify: int = 1  # passes in float64 that end a fit
    others: int = 35  # waits for the cluster in each Newton step besides passes, like empty ones
    row: int = 2000  # kernel values in float64 that take as long as risk, gap and rounding of a row


TUNING = Tuning()


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
        # The common part is the result of a task of each worker: what is bound is not dropped.
        every = [common] * len(rows.blocks())
        copies = self.placement.each_group("centres", itemgetter(0), every)
        groups = [group for group in self.placement.groups if group]
        of_blocks = [copy for group, copy in zip(groups, copies, strict=True) for _ in group]
        self.common = by_block(self.placement, of_blocks)

    def product(self, values: np.ndarray) -> Rows:
        """K V, which stays on the workers."""
        self._refresh()
        vector = self.placement.shared("vector", values)
        blocks = self._each("product", partial(of_block, "product"), vector)
        sample = np.empty((0, values.shape[1]), values.dtype)
        return Rows(self.placement, sample, blocks)

    def transposed_product(self, values: Rows) -> np.ndarray:
        """Kᵀ V."""
        self._refresh()
        arguments = self._beside_blocks(values.blocks())
        return self.placement.summed("transposed", transpose_block, add_up, *arguments)[1]

    def row_pass(self, values: np.ndarray, row_map: RowMap) -> RowPass:
        """Kᵀ M(K V): V goes to each worker, the sum over its blocks comes back."""
        self._refresh()
        count, taken = self.placement.rows, list[Any]()

        def slot(part: Any) -> Any:
            several = isinstance(part, np.ndarray) and part.ndim > 0 and len(part) == count > 1
            if not several and not isinstance(part, Rows):
                return part
            taken.append(self.rows.placed(part).blocks("row-values"))
            return Slot(len(taken) - 1)

        vector = Broadcast(Vector(values, with_fields(row_map, slot)))
        given = [[blocks[i] for blocks in taken] for i in range(len(self.placement.lengths))]
        arguments = self._beside_blocks(vector, given)
        parts, total = self.placement.summed("row-pass", pass_block, _added_parts, *arguments)
        if total.values is None:
            return total
        images = self.placement.each_block("row-pass-values", attrgetter("values"), parts)
        return total._replace(values=Rows(self.placement, total.values, images))

    def diagonal(self) -> Rows:
        """k(x_i, x_i)."""
        return self._computed("diagonal", "diagonal")

    def block(self) -> Rows:
        """K, stored where the rows are."""
        self._refresh()
        return self._computed("matrix", "block")

    def _refresh(self) -> None:
        """See which workers have the rows now, before K is computed."""
        self.placement.refresh()

    def _computed(self, name: str, verb: str) -> Rows:
        blocks = self._each(name, partial(of_block, verb))
        empty = self.placement.client.submit(itemgetter(slice(0)), blocks[0], pure=False)
        return Rows(self.placement, self.placement.fetched(empty), blocks)

    def _each(self, name: str, function: Callable[..., Any], *more: Any) -> list[Any]:
        return self.placement.each_block(name, function, *self._beside_blocks(*more))

    def _beside_blocks(self, *more: Any) -> tuple[Any, ...]:
        """The arguments of a task on a block: what computes it, the common part, its rows."""
        count = len(self.placement.lengths)
        return [self.local] * count, self.common, self.rows.blocks(), *more


def with_fields(thing: Any, change: Callable[[Any], Any]) -> Any:
    """A dataclass, as a row map is, with its fields changed at any depth; else what is changed."""
    if not is_dataclass(thing) or isinstance(thing, type):
        return change(thing)
    parts = {part.name: getattr(thing, part.name) for part in fields(thing) if part.init}
    changed = {name: with_fields(part, change) for name, part in parts.items()}
    if all(changed[name] is part for name, part in parts.items()):
        return thing
    return replace(thing, **changed)


# ---- on a worker ---------------------------------------------------------------------------------


def of_block(
    verb: str, local: Any, common: Any, rows: np.ndarray, *values: np.ndarray
) -> np.ndarray:
    """The answer of an execution for a block."""
    return as_numpy(getattr(local(rows, common), verb)(*(_moved(local, v) for v in values)))


def transpose_block(*arguments: Any) -> np.ndarray:
    """KᵀV of a block, in the precision in which blocks are added up."""
    return np.asarray(of_block("transposed_product", *arguments), np.float64)


def pass_block(
    local: Any, common: Any, rows: np.ndarray, vector: Vector, given: Sequence[Any]
) -> RowPass:
    """A row pass over one block, whose rows come into the slots of the row map."""

    def own(part: Any) -> Any:
        return _moved(local, given[part.place] if isinstance(part, Slot) else part)

    row_map = with_fields(vector.row_map, own)
    result = local(rows, common).row_pass(_moved(local, vector.values), row_map)
    return RowPass(*(None if part is None else as_numpy(part) for part in result))


def _moved(local: Any, part: Any) -> Any:
    """An array where a block is computed: on the card of this worker if it has one."""
    device = card() if getattr(local, "on_card", False) else None
    return part if device is None or not isinstance(part, np.ndarray) else _uploaded(part, device)


def _uploaded(rows: np.ndarray, device: str) -> Any:
    return on_device(np.ascontiguousarray(rows), device)


def _added_parts(parts: list[RowPass]) -> RowPass:
    """Sums of products and of small numbers, in order; rows are represented by none of them."""
    total, values = added_passes(part._replace(values=None) for part in parts), parts[0].values
    return total if values is None else total._replace(values=values[:0])


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of K, which all blocks share; without centres, they are the rows."""

    kernel: EvaluableKernel
    centres: PointSet | None


@dataclass(frozen=True, eq=False)
class KernelOnBlock:
    """K(block, centres) on a worker: its packed centres are cached as long as they are used."""

    dtype: str
    memory: Memory
    precision: str | None
    names: tuple[str, ...] | None
    on_card: ClassVar[bool] = True

    def __call__(self, rows: np.ndarray, common: Columns) -> Any:
        from mercer.evaluation.dispatch import execution_for

        x: Any = _on_card(DensePoints(rows, self.names))
        y = x if common.centres is None else _on_card(common.centres)
        return execution_for(common.kernel, x, y, self.dtype, self.memory, self.precision)


def _on_card(points: Any) -> Any:
    """Dense points on the card of this worker, where it has one."""
    if card() is None or not isinstance(points, DensePoints):
        return points
    from mercer.points.tensors import TensorPoints

    return TensorPoints(resident(points.rows, _uploaded), points.names)


@dataclass(eq=False)
class Cluster(OverBlocks):
    """K(X, Y) for rows X on a cluster and columns Y here."""

    kernel: EvaluableKernel
    x: Any
    y: PointSet
    dtype: Any
    memory: Memory = None
    precision: str | None = None

    def __post_init__(self) -> None:
        same = self.y is self.x
        if not same and self.y.home != "host":
            raise ValueError(
                "with rows on a cluster the columns of a Gram matrix are few points here: pass "
                "centres as an array of NumPy."
            )
        local = KernelOnBlock(str(self.dtype), self.memory, self.precision, self.x.names)
        common = Columns(self.kernel, None if same else self.y)
        super().__init__(self.x.rows, local, common)

    def _refresh(self) -> None:
        if self.y is self.x:
            raise ValueError(
                f"{len(self.x)} rows on a cluster have no Gram matrix of all with all: seek f on "
                "centres, as by centres=2000 in an estimator, or by features=200."
            )
        super()._refresh()

    def gradient(self, values: Array) -> Array:
        raise NotImplementedError("gradients at rows on a cluster: take some of the rows first.")

    def parameter_gradient(
        self, left: Array, right: Array | None = None, names: Names = None
    ) -> dict[str, Any]:
        raise NotImplementedError("slopes in parameters with rows on a cluster: take some rows.")

    @property
    def workers(self) -> int:
        return len(self.placement.groups)

    def heads(self, rows: int, dtype: str) -> Cluster:
        """The same for the first rows of each block, in some precision."""
        return replace(self, x=replace(self.x, rows=self.rows.heads(rows)), dtype=dtype)

    def forecast(self, work: Any) -> ClusterPlan:
        """Time and memory of a fit, of a `Workload`: a few passes over some rows are timed."""
        latency, value = _measured_pass(self, work.dtype, work.outputs)
        single = work.dtype != "float64"
        exact = _measured_pass(self, "float64", work.outputs)[1] if single else value
        return ClusterPlan(work, self.workers, value, exact, latency)

    def plan(self, columns: int) -> Plan:
        tile = max(self.placement.lengths), len(self.y)
        memory = 8 * len(self.y) * columns * (2 * self.workers + 2)
        return Plan(f"cluster of {self.workers} workers", "", tile, self.workers, False, memory)


# ---- the time of a fit ---------------------------------------------------------------------------
#
#     t = t₀ + n (P M + ρ) τ / W + (P + R) ℓ
#
# for P passes over n rows on M centres by W workers. τ, the time of one kernel value that is used
# on both sides, and ℓ, that of a pass without rows, are measured on the workers; ρ is the work on
# each row besides, in kernel values of float64, and R the waits for sums over rows and for what is
# fetched; t₀ is what the client does alone, from the speed of its matrix products.


@dataclass(frozen=True)
class ClusterPlan:
    """Time, memory and traffic of a fit on centres, for any number of rows and workers.

    Attributes
    ----------
    work : Workload
        n, M, P, t₀ and the memory of the client.
    workers : int
        W.
    value_seconds, exact_value_seconds : float
        τ in the precision of the points, and in float64.
    latency : float
        ℓ, seconds of a pass without rows.
    """

    work: Any
    workers: int
    value_seconds: float
    exact_value_seconds: float
    latency: float

    def scaled(
        self, rows: int, workers: int | None = None, centres: int | None = None
    ) -> ClusterPlan:
        """The plan for other rows and centres, on as many workers of the same kind as are said."""
        work = replace(self.work, rows=rows, centres=centres or self.work.centres)
        return replace(self, work=work, workers=workers or self.workers)

    @property
    def seconds(self) -> float:
        """t₀ + n(PM + ρ)τ/W + (P + R)ℓ, with the passes in float64 that certify the answer."""
        work = self.work
        passed = work.passes * work.centres * self.value_seconds
        values = TUNING.certify * work.centres + TUNING.row * work.newton
        exact = values * self.exact_value_seconds
        waits = work.passes + TUNING.certify + TUNING.others * work.newton
        share = work.rows / self.workers
        return work.seconds_beside + share * (passed + exact) + waits * self.latency

    @property
    def worker_memory(self) -> float:
        """Bytes of rows on each worker: coordinates, and targets, shares, values and slopes."""
        work = self.work
        each = np.dtype(work.dtype).itemsize * work.width + 8 * (2 + 5 * work.outputs)
        return float(work.rows) * each / self.workers

    @property
    def traffic(self) -> int:
        """Numbers that travel in a pass: V to each worker, the sums of all workers back."""
        return (2 * self.workers + 2) * self.work.centres * self.work.outputs

    def __str__(self) -> str:
        work = self.work
        return (
            f"On the cluster: t = t₀ + n(PM + ρ)τ/W + (P + R)ℓ = {_words(self.seconds)}, for P = "
            f"{work.passes + TUNING.certify:.0f} passes over n = {work.rows:,} rows on M = "
            f"{work.centres:,} centres by W = {self.workers} workers. Measured there: τ = "
            f"{1e9 * self.value_seconds:.2g} ns for a kernel value, "
            f"{1e9 * self.exact_value_seconds:.2g} ns in float64, and ℓ = "
            f"{1e3 * self.latency:.0f} ms for a pass without rows, R = "
            f"{TUNING.others * work.newton} being other waits of that kind, ρ = "
            f"{TUNING.row * work.newton:,} kernel values for what each row needs besides; here "
            f"t₀ = {_words(work.seconds_beside)} for the preconditioner.\n"
            f"Memory: {in_words(int(self.worker_memory))} of rows on each worker, "
            f"{in_words(work.memory_beside)} here. Traffic: (2W + 2)Mk = {self.traffic:,} numbers "
            "a pass."
        )


def _words(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds:,.0f} s"


def _measured_pass(cluster: Any, dtype: str, outputs: int) -> tuple[float, float]:
    """ℓ, and τ: seconds of a pass without rows, and for each kernel value on one worker."""
    values = np.ones((len(cluster.y), outputs), dtype)
    empty, some = (_timed_pass(cluster.heads(rows, dtype), values) for rows in (1, TUNING.probe))
    pairs = (some[1] - empty[1]) * len(cluster.y)
    return empty[0], max(some[0] - empty[0], 0.0) * cluster.workers / max(pairs, 1)


def _timed_pass(part: Any, values: np.ndarray) -> tuple[float, int]:
    """Seconds of a pass, and over how many rows."""
    row_map = Affine(np.ones((1, 1)), np.zeros((1, values.shape[1])))
    part.row_pass(values, row_map)  # code is loaded, centres are sent
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        part.row_pass(values, row_map)
        taken.append(time.perf_counter() - start)
    return min(taken), len(part.x)
