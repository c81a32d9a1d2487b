"""Machines that learn from mistakes alone: the perceptron, and the Forgetron on a budget."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer.online.base import OnlineMachine
from mercer.online.budgets import Budget, Forget
from mercer.online.losses import MaxMargin, Perceptron
from mercer.online.rounds import Settings
from mercer.online.schedules import Average, Constant
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.runtime.budget import MEGABYTE

VOTES = ("last", "average", "vote")


class KernelPerceptron(OnlineMachine):
    """f ← f + y k(x, ·) after each mistake.

    Of several classes, the right one gains the bump and its best rival loses it.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
    predictor : "last", "average" or "vote", default="last"
        Which f predicts: the last one, the average of all, or the vote of all, each with as many
        votes as samples it survived. Votes need all mistakes, so they go without a budget.
    budget, passes, gamma, degree, coef0, random_state :
        As in `OnlineKernelMachine`.

    References
    ----------
    Y. Freund, R. E. Schapire, Large margin classification using the perceptron algorithm, 1999.

    Examples
    --------
    >>> m = KernelPerceptron(gamma=1.0).fit([[0.0], [1.0]], ["no", "yes"])
    >>> m.predict([[0.1], [0.9]]).tolist()
    ['no', 'yes']
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        predictor: str = "last",
        budget: Budget | None = None,
        passes: int = 5,
        gamma: Any = None,
        degree: Any = 3,
        coef0: Any = 1,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.predictor = predictor
        self.budget = budget
        self.passes = passes
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.random_state = random_state

    def _settings(self, classes: int | None = None) -> Settings:
        if self.predictor not in VOTES:
            raise ValueError(f"predictor must be one of {list(VOTES)}; got {self.predictor!r}.")
        if self.predictor == "vote" and self.budget is not None:
            raise ValueError(
                "votes need every mistake: leave out the budget, or write predictor='average'."
            )
        averaging = Average() if self.predictor == "average" else None
        return Settings(
            self._loss(classes), 0.0, Constant(1.0), self.budget, averaging, self.random_state
        )

    def _loss(self, classes: int | None = None) -> Any:
        return MaxMargin(0.0) if self._class_count(classes) > 2 else Perceptron()

    def _scores(self, points: PointSet) -> np.ndarray:
        return self._votes(points) if self.predictor == "vote" else super()._scores(points)

    def _votes(self, points: PointSet) -> np.ndarray:
        """The share of votes for the class +1, less that for −1; or for each class."""
        stream, count = self.stream_, self.stream_.arrays.held
        arrays = stream.arrays
        born = arrays.ages[:count]
        survived = np.diff(np.append(born, stream.rounds)).astype(np.float64)
        outputs = arrays.a.shape[1]
        votes = np.zeros((len(points), outputs))
        step = max(1, 8 * MEGABYTE // (8 * max(1, count) * outputs))
        for first in range(0, len(points), step):
            block = points.slice(first, min(first + step, len(points)))
            rows = Gram(stream.kernel, block, stream.points).dense()
            scores = np.cumsum(rows[:, :, None] * arrays.a[:count], axis=1)
            if outputs == 1:
                found = np.where(scores > 0, 1.0, -1.0)
            else:
                found = (scores.argmax(axis=2)[:, :, None] == np.arange(outputs)).astype(float)
            votes[first : first + step] = np.einsum("ijo,j->io", found, survived)
        votes /= max(survived.sum(), 1.0)
        return votes[:, 0] if outputs == 1 else votes


class Forgetron(OnlineMachine):
    """The perceptron on a budget with a bound on its mistakes: shrink, then drop the oldest bump.

    f is shrunk just so far that all that was dropped never costs more than 15/32 of the mistakes.
    Two classes, and a kernel with k(x, x) ≤ 1. For `size` ≥ 84 and every g of the space with
    ‖g‖ ≤ ¼√((size + 1)/log(size + 1)), the number of mistakes is at most
    2‖g‖² + 4 Σ_t max(1 − y_t g(x_t), 0): see `mistake_bound`.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
    size : int, default=100
        The number of bumps.
    passes, gamma, degree, coef0 : As in `OnlineKernelMachine`.

    References
    ----------
    O. Dekel, S. Shalev-Shwartz, Y. Singer, The Forgetron: a kernel-based perceptron on a budget,
    2008.

    Examples
    --------
    >>> m = Forgetron(size=1, gamma=1.0).fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    >>> len(m.function_)
    1
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        size: int = 100,
        passes: int = 5,
        gamma: Any = None,
        degree: Any = 3,
        coef0: Any = 1,
    ) -> None:
        self.kernel = kernel
        self.size = size
        self.passes = passes
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0

    def _settings(self, classes: int | None = None) -> Settings:
        return Settings(Perceptron(), 0.0, Constant(1.0), Forget(self.size))

    def _loss(self, classes: int | None = None) -> Any:
        return Perceptron()

    def _announced(self, y: Any, classes: Any, announce: bool, first: bool) -> Any:
        found = super()._announced(y, classes, announce, first)
        if len(found) > 2:
            raise ValueError(
                "Only binary classification is supported by the Forgetron; got "
                f"{len(found)} classes. Write KernelPerceptron(budget=...) for several."
            )
        return found

    def mistake_bound(self, norm: float, hinge_losses: float) -> float:
        """2‖g‖² + 4 Σ ℓ_t for a g of this norm and sum of hinge losses; ∞ where none is proved."""
        size = int(self.size)
        if size < 84 or norm > 0.25 * math.sqrt((size + 1) / math.log(size + 1)):
            return math.inf
        return 2.0 * norm**2 + 4.0 * hinge_losses

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
