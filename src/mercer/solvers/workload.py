"""The work of a fit on centres, foreseen: passes over rows, what stands beside them, memory.

It is the same wherever the rows are. What it takes there is for an operator to say: see
`Operator.forecast`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from mercer.losses import Loss, Squared
from mercer.points import PointSet
from mercer.solvers.foreseen import TUNING
from mercer.solvers.newton import default_tolerance
from mercer.solvers.preconditioners.memory import memory_needed
from mercer.solvers.preconditioners.sampling import (
    class_rows,
    expected_steps,
    passes_for_classes,
    sample_size,
)
from mercer.solvers.rates import product_rate

__all__ = ["Workload"]

LEVERAGES = 3  # passes that take as long as two products with eight columns, by which rows of a
# preconditioner are chosen for the square loss


@dataclass(frozen=True)
class Workload:
    """Passes, arithmetic and memory of a fit of f on M centres to n rows.

    Attributes
    ----------
    rows, centres, outputs : int
        n, M, and the columns of the targets.
    points : PointSet
        Centres, by which widths and speeds are known; any number of them.
    dtype : str
        The precision of the points.
    goal : float
        The relative duality gap at which the fit ends.
    newton : int
        How many Newton steps are foreseen; 1 for the square loss.
    multiclass : bool
        Whether the loss is one of all outputs together.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> work = Workload.of(Gaussian().gram([[0.0], [1.0], [2.0]], [[0.0]]), Squared())
    >>> work.rows, work.centres, work.passes
    (3, 1, 2.0)
    """

    rows: int
    centres: int
    outputs: int
    points: PointSet
    dtype: str
    goal: float
    newton: int
    multiclass: bool = False

    @classmethod
    def of(
        cls, operator: Any, loss: Loss, outputs: int = 1, tolerance: float | None = None
    ) -> Self:
        """The work of a fit with K_nM and a loss; the gap is that of `Newton` by default."""
        (rows, centres), dtype = operator.shape, str(operator.dtype)
        goal = max(default_tolerance(loss, dtype), tolerance or 0.0)
        newton = 1 if isinstance(loss, Squared) else TUNING.newton_steps
        multiclass = loss.is_multiclass
        return cls(rows, centres, outputs, operator.y, dtype, goal, newton, multiclass)

    @property
    def width(self) -> int:
        """The columns of the points."""
        return int(getattr(self.points, "width", 1))

    @property
    def sample(self) -> int:
        """Rows from which the preconditioner is made."""
        return sample_size(self.rows, self.centres, self.goal, self.width, self.outputs)

    @property
    def passes(self) -> float:
        """Passes in the precision of the points: where to begin, leverages, and the steps."""
        if self.multiclass:
            sizes = self.rows, self.centres, self.outputs
            return passes_for_classes(*sizes, self.goal, self.newton)
        if self.newton > 1:
            steps = expected_steps(self.rows, self.centres, self.sample, self.goal)
            return 1.0 + 0.5 * steps * self.newton
        # The gap is bounded by that on the sampled rows times the largest weight of one of them.
        certified = self.goal * min(1.0, 0.5 * self.sample / self.rows)
        steps = expected_steps(self.rows, self.centres, self.sample, certified)
        return 1.0 + steps + (LEVERAGES if self.sample < self.rows else 0)

    @property
    def seconds_beside(self) -> float:
        """Of what is no pass: the preconditioner and K_MM are factored."""
        sampled = 1.2 * self.newton * self.sample * self.centres**2
        if self.multiclass:
            drawn = class_rows(self.rows, self.centres, self.outputs)
            sampled = 1.5 * self.newton * self.outputs * drawn**2 * self.centres
        return (sampled + self.centres**3) / product_rate(self.dtype, self.points)

    @property
    def memory_beside(self) -> int:
        """Bytes beside the rows: factors of M × M, and the numbers of the rows."""
        return memory_needed(0, self.centres, self.outputs, self.dtype) + 8 * self.rows
