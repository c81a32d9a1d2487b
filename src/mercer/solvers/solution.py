"""The result of a solver: coefficients, status, gap and history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mercer.arrays import Array, namespace, to_precision, zeros


@dataclass(frozen=True)
class Status:
    """How a solver ended, in words: what happened, and what to do about it.

    `witness` is a unit vector v with vᵀKv < 0 where the kernel is not positive definite, so that
    there is no least objective; the message says so, too.

    >>> Status(True, "Solved: 3 iterations.").converged
    True
    """

    converged: bool
    message: str
    advice: str = ""
    witness: Any = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".strip()


@dataclass(frozen=True)
class Asked:
    """A problem in a few numbers, without its data: what bounds on its solution depend on."""

    rows: int
    loss: Any
    regularization: float
    equal_weights: bool
    on_all_points: bool
    fit_intercept: bool


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients v with what is known about them.

    Parameters
    ----------
    coefficients : array
        v: α on all points, β on centres, the weights of features.
    status : Status
        How the solver ended; a jitter that was added or a limit that was hit is named here.
    objective : float
        The objective at v.
    gap : float
        The true optimality gap: a duality gap, or what the status says, a residual or the error of
        values. It is never the solver's running estimate, and never less than its own rounding.
    history : dict of lists
        What was recorded on the way, by name; "objective" holds values of the objective only.
    intercept : float or array
        b, 0 where there is none.
    factor : Factor or None
        The Cholesky factor that solved it, where it is small or the solver was asked to keep it;
        its copies and pickles are without.
    asked : Asked or None
        The problem in a few numbers, where an estimator posed it.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Squared
    >>> from mercer.solvers import Direct, Problem
    >>> solution = Direct().solve(Problem(Linear().gram(np.eye(2)), np.ones(2), Squared(), 0.5))
    >>> solution.coefficients, solution.status.converged
    (array([0.5, 0.5]), True)
    """

    coefficients: Array
    status: Status
    objective: float
    gap: float
    history: dict[str, list[Any]] = field(default_factory=dict)
    intercept: Any = 0.0
    factor: Any = field(default=None, repr=False)
    asked: Asked | None = None

    def __repr__(self) -> str:
        """Show the status and the size, not thousands of numbers."""
        numbers = f"objective {self.objective:.6g}, gap {self.gap:.2g}"
        shape = tuple(self.coefficients.shape)
        return f"Solution({self.status}; {numbers}, coefficients of shape {shape})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "factor": None}

    @classmethod
    def stacked(cls, parts: Sequence[Solution]) -> Solution:
        """Solutions of one target each as one of all: the sum of objectives, the worst gap.

        >>> import numpy as np
        >>> parts = [Solution(np.ones(2), Status(True, "Solved."), 1.0, gap) for gap in (0.1, 0.2)]
        >>> whole = Solution.stacked(parts)
        >>> whole.coefficients.shape, whole.objective, whole.gap, str(whole.status)
        ((2, 2), 2.0, 0.2, '2 targets; the worst: Solved.')
        """
        xp = namespace(parts[0].coefficients)
        worst = max(parts, key=lambda part: (not part.status.converged, part.gap))
        message = f"{len(parts)} targets; the worst: {worst.status.message}"
        names = {name for part in parts for name in part.history}
        return cls(
            coefficients=xp.stack([part.coefficients for part in parts], axis=1),
            status=replace(worst.status, message=message),
            objective=sum(part.objective for part in parts),
            gap=max(part.gap for part in parts),
            history={name: [part.history.get(name, []) for part in parts] for name in names},
            intercept=xp.stack(
                [zeros((), part.coefficients, "float64") + part.intercept for part in parts],
                axis=-1,
            ),
        )


def plain_intercept(intercept: Array) -> Any:
    """An intercept as solutions hold it: a float, or an array with one number for each output."""
    return to_precision(intercept, "float64") if np.ndim(intercept) else float(intercept)
