"""Step sizes of online machines: those of `mercer.solvers.schedules`, and two that see the data.

`InverseSqrt` is a short name of `InverseSquareRoot`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mercer.checks import check_positive
from mercer.online.state import ADAPTIVE, AGGRESSIVE, GIVEN, SOFT_AGGRESSIVE
from mercer.solvers.schedules import Average, Constant, InverseSquareRoot, InverseTime, Schedule

InverseSqrt = InverseSquareRoot

__all__ = [
    "Adaptive",
    "Aggressive",
    "Average",
    "Constant",
    "InverseSqrt",
    "InverseSquareRoot",
    "InverseTime",
    "Schedule",
]


@dataclass(frozen=True)
class Adaptive:
    """η_t = scale/√(Σ_{s≤t} ‖ℓ'_s k(x_s, ·)‖²): shorter the steeper the losses met so far.

    It needs neither the number of rounds nor a bound on the slopes. ηλ is kept at most 1.

    References
    ----------
    M. Streeter, H. B. McMahan, Less regret via online conditioning, 2010.

    Examples
    --------
    >>> Adaptive(scale=0.5)
    Adaptive(scale=0.5)
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self, "scale", self.scale)


@dataclass(frozen=True)
class Aggressive:
    """The step of passive-aggressive learning: just long enough to mend the loss of this sample.

    η = min(C, ℓ/(|ℓ'|² k(x, x))), or, softened, η = ℓ/(|ℓ'|² k(x, x) + 1/(2C)). For a weighted
    sample C is multiplied by its weight.

    Parameters
    ----------
    limit : float, default=inf
        C > 0.
    soft : bool, default=False
        Whether C softens the step rather than cutting it.

    References
    ----------
    K. Crammer, O. Dekel, J. Keshet, S. Shalev-Shwartz, Y. Singer, Online passive-aggressive
    algorithms, 2006.

    Examples
    --------
    >>> Aggressive(limit=0.1).soft
    False
    """

    limit: float = math.inf
    soft: bool = False

    def __post_init__(self) -> None:
        if self.limit != math.inf:
            check_positive(self, "limit", self.limit)


def code_of(schedule: Any) -> tuple[int, float]:
    """How compiled code finds the step: from a list, from the gradients met, from the loss."""
    if isinstance(schedule, Adaptive):
        return ADAPTIVE, float(schedule.scale)
    if isinstance(schedule, Aggressive):
        return (SOFT_AGGRESSIVE if schedule.soft else AGGRESSIVE), float(schedule.limit)
    if not hasattr(schedule, "step"):
        raise ValueError(
            f"step must be a schedule; got {schedule!r}. Write schedules.Constant(0.1), "
            "InverseTime(scale), InverseSqrt(scale), Adaptive(scale) or Aggressive(limit)."
        )
    return GIVEN, 0.0
