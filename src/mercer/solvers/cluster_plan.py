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
from typing import Any

import numpy as np

from mercer.losses import Loss, Squared
from mercer.operators import Affine, Gram
from mercer.runtime.budget import in_words
from mercer.solvers.automatic import TUNING, _product_rate
from mercer.solvers.newton import default_tolerance
from mercer.solvers.preconditioners import expected_steps, memory_needed, sample_size

PROBE = 1 << 16  # rows of each block on which a pass is timed
CERTIFY = 1  # passes in float64 that end a fit
LEVERAGES = 3  # passes that take as long as two products with eight columns, by which rows of a
# preconditioner are chosen for the square loss
OTHERS = 35  # waits for the cluster besides passes, in each Newton step, as long as an empty pass
ROW = 2000  # kernel values in float64 that take as long as the risk, gap and rounding of a row


@dataclass(frozen=True)
class ClusterPlan:
    """Time, memory and traffic of a fit on centres, for any number of rows and workers.

    Attributes
    ----------
    rows, centres, outputs, workers, width : int
        n, M, k, W, and the columns of the points.
    dtype : str
        The precision of the points.
    goal : float
        The relative duality gap at which the fit ends.
    newton : int
        How many Newton steps are foreseen; 1 for the square loss.
    value_seconds, exact_value_seconds : float
        τ in the precision of the points, and in float64.
    latency : float
        ℓ, seconds of a pass without rows.
    multiply_adds : float
        Of a matrix product of the client, in a second.
    """

    rows: int
    centres: int
    outputs: int
    workers: int
    width: int
    dtype: str
    goal: float
    newton: int
    value_seconds: float
    exact_value_seconds: float
    latency: float
    multiply_adds: float

    def scaled(
        self, rows: int, workers: int | None = None, centres: int | None = None
    ) -> ClusterPlan:
        """The plan for other rows and centres, on as many workers of the same kind as are said."""
        return replace(
            self, rows=rows, workers=workers or self.workers, centres=centres or self.centres
        )

    @property
    def sample(self) -> int:
        """Rows from which the preconditioner is made."""
        return sample_size(self.rows, self.centres, self.goal, self.width, self.outputs)

    @property
    def passes(self) -> float:
        """P in the precision of the points: where to begin, leverages, and the steps."""
        if self.newton > 1:
            steps = expected_steps(self.rows, self.centres, self.sample, self.goal)
            return 1.0 + 0.5 * steps * self.newton
        # The gap is bounded by that on the sampled rows times the largest weight of one of them.
        certified = self.goal * min(1.0, 0.5 * self.sample / self.rows)
        steps = expected_steps(self.rows, self.centres, self.sample, certified)
        return 1.0 + steps + (LEVERAGES if self.sample < self.rows else 0)

    @property
    def client_seconds(self) -> float:
        """t₀: the preconditioner and K_MM are factored here."""
        sampled = 1.2 * self.newton * self.sample * self.centres**2
        return (sampled + self.centres**3) / self.multiply_adds

    @property
    def seconds(self) -> float:
        """t₀ + n(PM + ρ)τ/W + (P + R)ℓ, with the passes in float64 that certify the answer."""
        passed = self.passes * self.centres * self.value_seconds
        exact = (CERTIFY * self.centres + ROW * self.newton) * self.exact_value_seconds
        waits = self.passes + CERTIFY + OTHERS * self.newton
        share = self.rows / self.workers
        return self.client_seconds + share * (passed + exact) + waits * self.latency

    @property
    def worker_memory(self) -> float:
        """Bytes of rows on each worker: coordinates, and targets, shares, values and slopes."""
        each = np.dtype(self.dtype).itemsize * self.width + 8 * (2 + 5 * self.outputs)
        return float(self.rows) * each / self.workers

    @property
    def client_memory(self) -> int:
        """Bytes of what the client holds: factors of M × M, and the numbers of the rows."""
        return memory_needed(0, self.centres, self.outputs, self.dtype) + 8 * self.rows

    @property
    def traffic(self) -> int:
        """Numbers that travel in a pass: V to each worker, the sums of all workers back."""
        return (2 * self.workers + 2) * self.centres * self.outputs

    def __str__(self) -> str:
        return (
            f"On the cluster: t = t₀ + n(PM + ρ)τ/W + (P + R)ℓ = {_words(self.seconds)}, for P = "
            f"{self.passes + CERTIFY:.0f} passes over n = {self.rows:,} rows on M = "
            f"{self.centres:,} centres by W = {self.workers} workers. Measured there: τ = "
            f"{1e9 * self.value_seconds:.2g} ns for a kernel value, "
            f"{1e9 * self.exact_value_seconds:.2g} ns in float64, and ℓ = "
            f"{1e3 * self.latency:.0f} ms for a pass without rows, R = {OTHERS * self.newton} "
            f"being other waits of that kind, ρ = {ROW * self.newton:,} kernel values for what "
            "each row needs besides; here t₀ = "
            f"{_words(self.client_seconds)} for the preconditioner.\n"
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
    dtype, points = str(gram.dtype), gram.x
    latency, value = measured_pass(gram, dtype, outputs)
    exact = value if dtype == "float64" else measured_pass(gram, "float64", outputs)[1]
    return ClusterPlan(
        rows=len(points),
        centres=gram.shape[1],
        outputs=outputs,
        workers=len(points.data.placement.groups),
        width=int(getattr(points, "width", 1)),
        dtype=dtype,
        goal=max(default_tolerance(loss, dtype), tolerance or 0.0),
        newton=1 if isinstance(loss, Squared) else TUNING.newton_steps,
        value_seconds=value,
        exact_value_seconds=exact,
        latency=latency,
        multiply_adds=_product_rate(dtype, gram.y),
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
