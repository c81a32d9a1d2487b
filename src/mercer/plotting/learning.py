"""How learning went, as pictures: the history of a solver, the regret of a stream, a metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.online.regret import Regret, regret
from mercer.plotting.axes import BLUE, GREEN, GREY, RED, axes, finished
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
        """Draw on `ax`, or on axes of a new figure: `ax_` and `figure_` afterwards."""
        ax = axes(ax)
        places, values = self.points(against)
        ax.plot(places, values, color=BLUE, marker=".")
        if self.measure == HELD_OUT:
            ax.axvline(places[int(np.argmin(values))], color=GREY, linestyle="--")
        if (values > 0).all():
            ax.set_yscale("log")
        x = "iteration" if against == "iterations" else "seconds"
        said = self.solution.status.message.split(":")[0]
        return finished(self, ax, x, str(self.measure).replace("_", " "), said)


@dataclass(eq=False)
class RegretDisplay:
    """Cumulative loss of an online machine, the best f with ‖f‖ ≤ U in hindsight, and the bound.

    The dashed line is the loss of the best function plus the bound; where no bound is proved for
    the machine's steps or budget, the title says why.

    Parameters
    ----------
    regret : Regret
        What is drawn.

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
        """Draw on `ax`, or on axes of a new figure: `ax_` and `figure_` afterwards."""
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
        loss = "cumulative regularised loss" if drawn.regularised else "cumulative loss"
        return finished(self, ax, "round", loss, legend=True)


@dataclass(eq=False)
class MetricDisplay:
    """The importances of columns, the path of the held-out error, and a full metric as a picture.

    Parameters
    ----------
    learned : LearnedKernel
        As `learned_` of a fitted estimator.
    names : sequence of str, optional
        Of the columns; by default their numbers.

    Examples
    --------
    >>> from mercer.kernels import Exponential
    >>> from mercer.learning import GradientRounds
    >>> X = np.random.default_rng(0).standard_normal((100, 2))
    >>> learned = GradientRounds(rounds=1).learn(Exponential(), X, np.sin(3 * X[:, 1]))
    >>> MetricDisplay(learned, ["a", "b"]).order()
    ['b', 'a']
    """

    learned: Any
    names: Any = None

    def __post_init__(self) -> None:
        count = len(self.learned.importances)
        if self.names is None:
            self.names = [f"column {k}" for k in range(count)]
        if len(self.names) != count:
            raise ValueError(f"there are {count} columns; got {len(self.names)} names.")

    @classmethod
    def from_estimator(cls, estimator: Any, *, most: int = 20, axes: Any = None) -> MetricDisplay:
        """Draw what a fitted `LearnedKernelRegressor` or `LearnedKernelClassifier` learned."""
        names = getattr(estimator, "feature_names_in_", None)
        return cls(estimator.learned_, names).plot(axes, most=most)

    def order(self) -> list[str]:
        """The names of the columns, the most important first."""
        return [str(self.names[k]) for k in np.argsort(-self.learned.importances, kind="stable")]

    def plot(self, axes: Any = None, *, most: int = 20) -> MetricDisplay:
        """Draw the `most` important columns: `axes_` and `figure_` afterwards.

        On two axes, three for a full metric, or new ones.
        """
        full = not self.learned.metric.is_diagonal
        if axes is None:
            import matplotlib.pyplot as plt

            figure = plt.figure(figsize=(11 if full else 8, 3.6), layout="constrained")
            axes = figure.subplots(1, 3 if full else 2)
        top = np.argsort(-self.learned.importances, kind="stable")[:most]
        self._importances(axes[0], top[::-1])
        self._path(axes[1])
        for ax in axes[:2]:
            ax.spines[["top", "right"]].set_visible(False)
        if full:
            self._matrix(axes[2], top)
        self.axes_, self.figure_ = list(axes), axes[0].figure
        return self

    def _importances(self, ax: Any, top: np.ndarray) -> None:
        ax.barh(range(len(top)), self.learned.importances[top], color=BLUE)
        ax.set_yticks(range(len(top)), [str(self.names[k]) for k in top], fontsize=8)
        ax.set_xlabel("part of the metric")
        ax.set_title("which columns matter", fontsize=10, loc="left")

    def _path(self, ax: Any) -> None:
        errors = [one.error for one in self.learned.rounds]
        chosen = self.learned.chosen
        ax.plot(range(len(errors)), errors, color=GREY, marker="o", markersize=4)
        ax.plot([chosen], [errors[chosen]], color=BLUE, marker="o", markersize=8)
        place = {"xytext": (0, 9), "textcoords": "offset points", "ha": "center", "fontsize": 8}
        ax.annotate("chosen", (chosen, errors[chosen]), **place)
        ax.set_xticks(range(len(errors)))
        ax.margins(0.1, 0.15)
        ax.set(xlabel="round", ylabel="mean square, held-out rows")
        ax.set_title("which rounds helped", fontsize=10, loc="left")

    def _matrix(self, ax: Any, top: np.ndarray) -> None:
        """M in units in which its diagonal adds up to 1, as the importances do."""
        matrix, shares = self.learned.metric.matrix, self.learned.importances
        diagonal = np.diag(matrix)
        units = np.sqrt(shares / np.where(diagonal > 0, diagonal, 1.0))
        values = (units[:, None] * matrix * units)[np.ix_(top, top)]
        size = float(np.abs(values).max()) or 1.0
        image = ax.imshow(values, cmap="RdBu_r", vmin=-size, vmax=size)
        names = [str(self.names[k]) for k in top]
        ax.set_xticks(range(len(top)), names, fontsize=8, rotation=90)
        ax.set_yticks(range(len(top)), names, fontsize=8)
        ax.set_title("the metric", fontsize=10, loc="left")
        ax.figure.colorbar(image, ax=ax, shrink=0.8)
