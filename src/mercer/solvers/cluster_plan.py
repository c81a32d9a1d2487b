"""What a fit on a cluster will take: time, memory and traffic, from what a pass takes now.

    t = t₀ + P (n M τ / W + ℓ)

for P passes over n rows on M centres by W workers. τ, the time of one kernel value that is used on
both sides, and ℓ, that of a pass without rows, are measured on the workers; t₀ is what the client
does alone, from the speed of its matrix products.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.losses import Loss, Squared
from mercer.operators import Affine, Gram
from mercer.runtime.budget import in_words
from mercer.solvers.automatic import TUNING, _product_rate
from mercer.solvers.newton import default_tolerance
from mercer.solvers.preconditioners import expected_steps, memory_needed, sample_size

PROBE = 1 << 14  # rows of each block on which a pass is timed
CERTIFY = 2  # passes in float64 that end a fit in float32


@dataclass(frozen=True)
class ClusterPlan:
    """Time, memory and traffic of a fit on centres, for any number of rows and workers.

    Attributes
    ----------
    rows, centres, outputs, workers, width : int
        n, M, k, W, and the columns of the points.
    passes, exact_passes : float
        How many passes are in the precision of the points, and how many more in float64.
    value_seconds, exact_value_seconds : float
        τ in the precision of the points, and in float64.
    latency : float
        ℓ, seconds of a pass without rows.
    client_seconds : float
        t₀: centres, K_MM and the preconditioner.
    itemsize : int
        Bytes of a coordinate.
    """

    rows: int
    centres: int
    outputs: int
    workers: int
    width: int
    passes: float
    exact_passes: float
    value_seconds: float
    exact_value_seconds: float
    latency: float
    client_seconds: float
    itemsize: int

    def scaled(self, rows: int, workers: int | None = None) -> ClusterPlan:
        """The plan for other rows, on as many workers of the same kind as are said."""
        return replace(self, rows=rows, workers=self.workers if workers is None else workers)

    @property
    def seconds(self) -> float:
        """t₀ + P (n M τ / W + ℓ)."""
        values = float(self.rows) * self.centres / self.workers
        each = self.passes * self.value_seconds + self.exact_passes * self.exact_value_seconds
        waiting = (self.passes + self.exact_passes) * self.latency
        return self.client_seconds + values * each + waiting

    @property
    def worker_memory(self) -> float:
        """Bytes of rows on each worker: coordinates, and targets, shares, values and slopes."""
        each = self.itemsize * self.width + 8 * (2 + 5 * self.outputs)
        return float(self.rows) * each / self.workers

    @property
    def client_memory(self) -> int:
        """Bytes of what the client holds: factors of M × M, and nothing for each row."""
        return memory_needed(0, self.centres, self.outputs, f"float{8 * self.itemsize}")

    @property
    def traffic(self) -> int:
        """Numbers that travel in a pass: V to each worker, the sums of all workers back."""
        return (2 * self.workers + 2) * self.centres * self.outputs

    def __str__(self) -> str:
        passes = self.passes + self.exact_passes
        return (
            f"On the cluster: t = t₀ + P(nMτ/W + ℓ) = {_words(self.seconds)}, for P = {passes:.0f} "
            f"passes over n = {self.rows:,} rows on M = {self.centres:,} centres by W = "
            f"{self.workers} workers. Measured there: τ = {1e9 * self.value_seconds:.2g} ns for a "
            f"kernel value, {1e9 * self.exact_value_seconds:.2g} ns in float64, and ℓ = "
            f"{1e3 * self.latency:.0f} ms for a pass without rows; here t₀ = "
            f"{_words(self.client_seconds)} for the centres and the preconditioner.\n"
            f"Memory: {in_words(int(self.worker_memory))} of rows on each worker, "
            f"{in_words(self.client_memory)} here. Traffic: (2W + 2)Mk = {self.traffic:,} numbers "
            "a pass."
        )


def _words(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds:,.0f} s"


def cluster_plan(
    gram: Gram, loss: Loss, outputs: int = 1, tolerance: float | None = None
) -> ClusterPlan:
    """The plan of a fit on centres: a few passes over some of the rows are timed."""
    points, count = gram.x, gram.shape[1]
    n, dtype, placement = len(points), str(gram.dtype), points.data.placement
    goal = max(default_tolerance(loss, dtype), tolerance or 0.0)
    width = int(getattr(points, "width", 1))
    sample = sample_size(n, count, goal, width, outputs)
    newton = 1 if isinstance(loss, Squared) else TUNING.newton_steps
    steps = expected_steps(n, count, sample, goal) * (1.0 if newton == 1 else 0.5 * newton)
    single = dtype == "float32"
    rate = {name: _product_rate(name, gram.y) for name in ("float32", "float64")}
    client = newton * 1.2 * sample * count**2 / rate[dtype] + count**3 / 2 / rate["float64"]
    latency, value = measured_pass(gram, dtype, outputs)
    exact = measured_pass(gram, "float64", outputs)[1] if single else value
    return ClusterPlan(
        n,
        count,
        outputs,
        len(placement.groups),
        width,
        steps + (0.0 if single else float(CERTIFY)),
        float(CERTIFY) if single else 0.0,
        value,
        exact,
        latency,
        client,
        4 if single else 8,
    )


def measured_pass(gram: Gram, dtype: str, outputs: int) -> tuple[float, float]:
    """ℓ, and τ: seconds of a pass without rows, and for each kernel value on one worker."""
    workers = len(gram.x.data.placement.groups)
    values = np.ones((gram.shape[1], outputs), dtype)
    empty, some = (_timed_pass(gram, dtype, values, rows) for rows in (1, PROBE))
    pairs = (some[1] - empty[1]) * gram.shape[1]
    return empty[0], max(some[0] - empty[0], 0.0) * workers / max(pairs, 1)


def _timed_pass(gram: Gram, dtype: str, values: np.ndarray, rows: int) -> tuple[float, int]:
    """Seconds of a pass over the first rows of each block, and how many these are."""
    points: Any = type(gram.x)(gram.x.data.heads(rows), gram.x.names)  # type: ignore[attr-defined,call-arg]
    part = Gram(gram.kernel, points, gram.y, gram.memory).astype(dtype)
    row_map = Affine(np.ones((1, 1)), np.zeros((1, values.shape[1])))
    part.row_pass(values, row_map)  # code is loaded, centres are sent
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        part.row_pass(values, row_map)
        taken.append(time.perf_counter() - start)
    return min(taken), len(points)
