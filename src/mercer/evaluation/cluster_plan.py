"""Time, memory and traffic that a fit on a cluster will take, foreseen from the time of one pass.

    t = t₀ + n (P M + ρ) τ / W + (P + R) ℓ

for P passes over n rows on M centres by W workers. τ, the time of one kernel value that is used on
both sides, and ℓ, that of a pass without rows, are measured on the workers; ρ is the work on each
row besides, in kernel values of float64, and R the waits for sums over rows and for what is
fetched; t₀ is what the client does alone, from the speed of its matrix products.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from mercer.evaluation.execution import Affine
from mercer.runtime.budget import in_words

PROBE = 1 << 16  # rows of each block on which a pass is timed
CERTIFY = 1  # passes in float64 that end a fit
OTHERS = 35  # waits for the cluster besides passes, in each Newton step, as long as an empty pass
ROW = 2000  # kernel values in float64 that take as long as the risk, gap and rounding of a row


class Work(Protocol):
    """The amount of work of a fit, wherever the rows are."""

    rows: int
    centres: int
    outputs: int
    dtype: str
    newton: int  # steps

    @property
    def width(self) -> int:
        """The columns of the points."""

    @property
    def passes(self) -> float:
        """Over all rows, in the precision of the points."""

    @property
    def seconds_beside(self) -> float:
        """Of what is no pass, here."""

    @property
    def memory_beside(self) -> int:
        """Bytes of what is here."""


@dataclass(frozen=True)
class ClusterPlan:
    """Time, memory and traffic of a fit on centres, for any number of rows and workers.

    Attributes
    ----------
    work : Work
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
        exact = (CERTIFY * work.centres + ROW * work.newton) * self.exact_value_seconds
        waits = work.passes + CERTIFY + OTHERS * work.newton
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
            f"{work.passes + CERTIFY:.0f} passes over n = {work.rows:,} rows on M = "
            f"{work.centres:,} centres by W = {self.workers} workers. Measured there: τ = "
            f"{1e9 * self.value_seconds:.2g} ns for a kernel value, "
            f"{1e9 * self.exact_value_seconds:.2g} ns in float64, and ℓ = "
            f"{1e3 * self.latency:.0f} ms for a pass without rows, R = {OTHERS * work.newton} "
            f"being other waits of that kind, ρ = {ROW * work.newton:,} kernel values for what "
            "each row needs besides; here t₀ = "
            f"{_words(work.seconds_beside)} for the preconditioner.\n"
            f"Memory: {in_words(int(self.worker_memory))} of rows on each worker, "
            f"{in_words(work.memory_beside)} here. Traffic: (2W + 2)Mk = {self.traffic:,} numbers "
            "a pass."
        )


def _words(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds:,.0f} s"


def measured_plan(cluster: Any, work: Work) -> ClusterPlan:
    """The plan of work with K_nM on a cluster: a few passes over some of the rows are timed."""
    latency, value = _measured_pass(cluster, work.dtype, work.outputs)
    exact = value
    if work.dtype != "float64":
        exact = _measured_pass(cluster, "float64", work.outputs)[1]
    return ClusterPlan(work, cluster.workers, value, exact, latency)


def _measured_pass(cluster: Any, dtype: str, outputs: int) -> tuple[float, float]:
    """ℓ, and τ: seconds of a pass without rows, and for each kernel value on one worker."""
    values = np.ones((len(cluster.y), outputs), dtype)
    empty, some = (_timed_pass(cluster.heads(rows, dtype), values) for rows in (1, PROBE))
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
