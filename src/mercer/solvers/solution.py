"""What a solver hands back: coefficients, a truthful status, the gap, the history."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mercer.arrays import Array


@dataclass(frozen=True)
class Status:
    """How a solver ended, in words: what happened, and what to do about it."""

    converged: bool
    message: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".strip()


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients α with what is known about them.

    Parameters
    ----------
    coefficients : array
        α.
    status : Status
        How the solver ended; a jitter that was added or a cap that was hit is named here.
    objective : float
        The objective at α.
    gap : float
        The true optimality gap: a duality gap, or a residual where the status says so. It is
        never the solver's running estimate.
    history : dict of lists
        What was recorded on the way, by name.
    intercept : float or array
        b, 0 where there is none.
    """

    coefficients: Array
    status: Status
    objective: float
    gap: float
    history: dict[str, list[Any]] = field(default_factory=dict)
    intercept: Any = 0.0
