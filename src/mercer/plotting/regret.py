"""The regret of a stream as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.online.regret import Regret, regret
from mercer.plotting.axes import BLUE, GREEN, RED, axes, finished


@dataclass(eq=False)
class RegretDisplay:
    """Cumulative loss of an online machine, the best f with ‖f‖ ≤ U in hindsight, and the bound.

    The dashed line is the loss of the best function plus the bound; where no bound is proved for
    the machine's steps or budget, the title says why.

    Parameters
    ----------
    regret : Regret
        What is drawn.

    Attributes
    ----------
    ax_, figure_ : after `plot`.

    Examples
    --------
    >>> from mercer.online import OnlineKernelMachine
    >>> m = OnlineKernelMachine(gamma=1.0, record=True)
    >>> display = RegretDisplay.from_estimator(
    ...     m.partial_fit([[0.0], [1.0]], [0, 1], classes=[0, 1]), radius=5.0, draw=False
    ... )
    >>> display.regret.online.shape
    (2,)
    """

    regret: Regret

    @classmethod
    def from_estimator(
        cls, machine: Any, radius: float, *, ax: Any = None, draw: bool = True
    ) -> RegretDisplay:
        """Compare a machine made with `record=True` with the ball ‖f‖ ≤ radius, and draw it."""
        display = cls(regret(machine, radius))
        return display.plot(ax) if draw else display

    def plot(self, ax: Any = None) -> RegretDisplay:
        """Draw on `ax`, or on axes of a new figure."""
        ax = axes(ax)
        drawn = self.regret
        rounds = np.arange(1, len(drawn.online) + 1)
        best = f"best f with ‖f‖ ≤ {drawn.radius:g}, in hindsight"
        ax.plot(rounds, drawn.online, color=BLUE, label="online")
        ax.plot(rounds, drawn.best, color=GREEN, label=best)
        if drawn.bound is not None:
            label = f"best + {drawn.reason}"
            ax.plot(rounds, drawn.best + drawn.bound, "--", color=RED, label=label)
            ax.set_ylim(0, 1.1 * max(drawn.online[-1], (drawn.best + drawn.bound)[-1]))
        else:
            ax.set_title(drawn.reason, fontsize=9)
        ax.fill_between(rounds, drawn.best, drawn.online, color=BLUE, alpha=0.12, linewidth=0)
        ax.set_xlabel("round")
        ax.set_ylabel("cumulative regularised loss" if drawn.regularised else "cumulative loss")
        return finished(self, ax, legend=True)
