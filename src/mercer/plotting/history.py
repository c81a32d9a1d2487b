"""The history of a solver as a picture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.plotting.axes import BLUE, GREY, axes, finished
from mercer.solvers.solution import Solution, Status

MEASURES = ("residual", "gap", "objective", "progressive_loss")
HELD_OUT = "held_out_risk"  # which is known before the first step, too


@dataclass(eq=False)
class HistoryDisplay:
    """The history of a solver, against its iterations or its seconds.

    Parameters
    ----------
    solution : Solution
        Of an iterative solver; one of several targets has no single history.
    measure : str, optional
        A name in `solution.history`; by default the loss of held-out rows where the fit was stopped
        by it, with a line at the iterate that was returned, and else the first there is of
        residual, gap, objective and progressive loss that goes with every iteration.
    first : int, optional
        The number of the first iteration; by default 0 for held-out rows, which are looked at
        before it, and else 1.

    Attributes
    ----------
    ax_, figure_ : after `plot`.

    Examples
    --------
    >>> from mercer.solvers.solution import Solution, Status
    >>> history = {"residual": [1.0, 0.1, 0.01], "seconds": [0.5, 1.0, 1.5]}
    >>> display = HistoryDisplay(Solution(None, Status(True, "Solved."), 0.0, 0.01, history))
    >>> display.points("seconds")
    (array([0.5, 1. , 1.5]), array([1.  , 0.1 , 0.01]))
    """

    solution: Any
    measure: str | None = None
    first: int | None = None

    def __post_init__(self) -> None:
        history = self.solution.history
        steps = len(history.get("seconds", []))
        able = [HELD_OUT] if len(history.get(HELD_OUT, [])) == steps + 1 else []
        able += [name for name in MEASURES if steps and len(history.get(name, [])) == steps]
        if self.measure is None:
            self.measure = next(iter(able), None)
        if self.measure is None or not len(history.get(self.measure, [])):
            raise ValueError(
                f"the solution has no history to draw; it recorded {sorted(history)}. Use an "
                "iterative solver such as ConjugateGradient or Newton."
            )

    @classmethod
    def from_estimator(cls, estimator: Any, *, against: str = "iterations", ax: Any = None) -> Any:
        """Draw the history of a fitted estimator's `solution_`, or of the passes of a machine."""
        solution = getattr(estimator, "solution_", None)
        if solution is None and len(getattr(estimator, "solutions_", [])) == 1:
            (solution,) = estimator.solutions_
        if solution is None and hasattr(estimator, "validation_scores_"):
            history = {HELD_OUT: (-estimator.validation_scores_).tolist()}
            best = f"Best of {len(history[HELD_OUT])} passes"
            solution = Solution(None, Status(True, best), math.nan, math.nan, history)
            return cls(solution, HELD_OUT, first=1).plot(ax, against=against)
        return cls(estimator.solution_ if solution is None else solution).plot(ax, against=against)

    def points(self, against: str = "iterations") -> tuple[np.ndarray, np.ndarray]:
        """Where the curve goes."""
        if against not in ("iterations", "seconds"):
            raise ValueError(f'against must be "iterations" or "seconds"; got {against!r}.')
        history = self.solution.history
        values = np.asarray(history[self.measure], np.float64)
        first = int(self.measure != HELD_OUT) if self.first is None else self.first
        if against == "iterations":
            return np.arange(first, first + len(values)), values
        seconds = np.asarray(history.get("seconds", []))
        seconds = seconds if first else np.concatenate([[0.0], seconds])
        if len(seconds) != len(values):
            raise ValueError(f"{self.measure!r} was not recorded at every iteration's time.")
        return seconds, values

    def plot(self, ax: Any = None, *, against: str = "iterations") -> HistoryDisplay:
        """Draw on `ax`, or on axes of a new figure."""
        ax = axes(ax)
        places, values = self.points(against)
        ax.plot(places, values, color=BLUE, marker=".")
        if self.measure == HELD_OUT:
            ax.axvline(places[int(np.argmin(values))], color=GREY, linestyle="--")
        if (values > 0).all():
            ax.set_yscale("log")
        ax.set_xlabel("iteration" if against == "iterations" else "seconds")
        ax.set_ylabel(str(self.measure).replace("_", " "))
        ax.set_title(self.solution.status.message.split(":")[0], fontsize=9)
        return finished(self, ax)
