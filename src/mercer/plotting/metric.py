"""A learned metric as a picture: the columns that matter, the map, the error of each round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

BLUE, GREY = "#1f5fa8", "#9aa4ad"


@dataclass(eq=False)
class MetricDisplay:
    """The importances of columns, the path of the held-out error, and a full metric as a picture.

    Parameters
    ----------
    learned : LearnedKernel
        As `learned_` of a fitted estimator.
    names : sequence of str, optional
        Of the columns; by default their numbers.

    Attributes
    ----------
    axes_, figure_ : after `plot`.

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
        """Draw the `most` important columns; on two axes, three for a full metric, or new ones."""
        full = not self.learned.metric.is_diagonal
        if axes is None:
            import matplotlib.pyplot as plt

            figure = plt.figure(figsize=(11 if full else 8, 3.6), layout="constrained")
            axes = [figure.add_subplot(1, 3 if full else 2, 1 + k) for k in range(3 if full else 2)]
        self._importances(axes[0], most)
        self._path(axes[1])
        if full:
            self._matrix(axes[2], most)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self

    def _top(self, most: int) -> np.ndarray:
        return np.argsort(-self.learned.importances, kind="stable")[:most]

    def _importances(self, ax: Any, most: int) -> None:
        top = self._top(most)[::-1]
        ax.barh(range(len(top)), self.learned.importances[top], color=BLUE)
        ax.set_yticks(range(len(top)), [str(self.names[k]) for k in top], fontsize=8)
        ax.set_xlabel("part of the metric")
        ax.set_title("which columns matter", fontsize=10, loc="left")
        ax.spines[["top", "right"]].set_visible(False)

    def _path(self, ax: Any) -> None:
        errors = [one.error for one in self.learned.rounds]
        chosen = self.learned.chosen
        ax.plot(range(len(errors)), errors, color=GREY, marker="o", markersize=4)
        ax.plot([chosen], [errors[chosen]], color=BLUE, marker="o", markersize=8)
        place = {"xytext": (0, 9), "textcoords": "offset points", "ha": "center", "fontsize": 8}
        ax.annotate("chosen", (chosen, errors[chosen]), **place)
        ax.set_xticks(range(len(errors)))
        ax.margins(0.1, 0.15)
        ax.set_xlabel("round")
        ax.set_ylabel("mean square, held-out rows")
        ax.set_title("which rounds helped", fontsize=10, loc="left")
        ax.spines[["top", "right"]].set_visible(False)

    def _matrix(self, ax: Any, most: int) -> None:
        """M in units in which its diagonal adds up to 1, as the importances do."""
        top = self._top(most)
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
