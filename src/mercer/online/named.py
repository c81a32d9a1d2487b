"""Named algorithms, each a choice of loss, steps and budget.

Pegasos, NORMA, passive-aggressive steps, the perceptron, the Forgetron, and novelty detection.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer.checks import check_positive
from mercer.features.bases import OutlierMixin
from mercer.kernels.measures import Seed
from mercer.losses import EpsilonInsensitive, Hinge, Loss, Perceptron
from mercer.online.algorithm import Algorithm
from mercer.online.budgets import Budget, Forget, Oldest
from mercer.online.losses import MaxMargin, Novelty
from mercer.online.machine import OnlineMachine
from mercer.online.targets import Targets
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.solvers.schedules import (
    Aggressive,
    Average,
    Constant,
    InverseSquareRoot,
    InverseTime,
)

VARIANTS = ("PA", "PA-I", "PA-II")
PREDICTORS = ("last", "average", "vote")
VOTE_BYTES = 1 << 23  # memory for the scores of all iterates at a few points, 8 MB


@dataclass(eq=False, repr=False, kw_only=True)
class Pegasos(OnlineMachine):
    """The support vector machine by stochastic gradients: hinge loss, η_t = 1/(λt).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
    regularization : float, default=1e-3
        λ > 0.
    budget, averaging, passes, record, gamma, degree, coef0, random_state :
    early_stopping, validation_fraction, n_iter_no_change :
        As in `OnlineKernelMachine`.

    References
    ----------
    S. Shalev-Shwartz, Y. Singer, N. Srebro, A. Cotter, Pegasos: primal estimated sub-gradient
    solver for SVM, 2011.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> m = Pegasos(Linear(), regularization=0.5)
    >>> m.learn_one([1.0], 1, classes=[-1, 1]).function_([[1.0]])  # η_1 = 2
    array([2.])
    """

    regularization: float = 1e-3
    budget: Budget | None = None
    averaging: Average | None = None
    record: bool = False
    random_state: Seed = None

    def _algorithm(self, loss: Loss, **chosen: Any) -> Algorithm:
        check_positive(self, "regularization", self.regularization)
        return super()._algorithm(loss, step=InverseTime(1.0 / self.regularization))


@dataclass(eq=False, repr=False, kw_only=True)
class NORMA(OnlineMachine):
    """Online learning with kernels as Kivinen, Smola and Williamson wrote it.

    Any loss, η_t = rate/√t (or constant), and only the newest `window` bumps: those that are older
    were shrunk by (1 − ηλ) so often that they hardly count.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
    loss : Loss or None, default=None
        None for `Hinge()`.
    regularization : float, default=0.01
        λ ≥ 0.
    rate : float, default=1.0
    constant : bool, default=False
        Whether the step stays `rate`, which follows a drift.
    window : int or None, default=None
    averaging, passes, record, gamma, degree, coef0 :
    early_stopping, validation_fraction, n_iter_no_change :
        As in `OnlineKernelMachine`.

    References
    ----------
    J. Kivinen, A. J. Smola, R. C. Williamson, Online learning with kernels, 2004.

    Examples
    --------
    >>> m = NORMA(regularization=0.5, window=2).fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    >>> len(m.function_)
    2
    """

    loss: Any = None
    regularization: float = 0.01
    rate: float = 1.0
    constant: bool = False
    window: int | None = None
    averaging: Average | None = None
    record: bool = False

    def _algorithm(self, loss: Loss, **chosen: Any) -> Algorithm:
        step = Constant(self.rate) if self.constant else InverseSquareRoot(self.rate)
        budget = None if self.window is None else Oldest(self.window)
        return super()._algorithm(loss, step=step, budget=budget)


@dataclass(eq=False, repr=False, kw_only=True)
class PassiveAggressive(OnlineMachine):
    """Change f as little as possible, but enough to mend the loss of the sample.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
    limit : float, default=1.0
        C: how far a single sample may pull; "PA" has no limit.
    variant : "PA", "PA-I" or "PA-II", default="PA-I"
        min(C, ·) in PA-I, softened by 1/(2C) in PA-II.
    loss : Loss or None, default=None
        None for the hinge loss (for several classes: the margin to the best rival); for
        regression write `EpsilonInsensitive(epsilon)`.
    budget, averaging, passes, gamma, degree, coef0, random_state :
    early_stopping, validation_fraction, n_iter_no_change :
        As in `OnlineKernelMachine`.

    References
    ----------
    K. Crammer, O. Dekel, J. Keshet, S. Shalev-Shwartz, Y. Singer, Online passive-aggressive
    algorithms, 2006.

    Examples
    --------
    >>> m = PassiveAggressive(variant="PA", gamma=1.0)
    >>> m.learn_one([0.3], "b", classes=["a", "b"]).decision_function([[0.3]])  # a margin of 1
    array([1.])
    """

    limit: float = 1.0
    variant: str = "PA-I"
    loss: Any = None
    budget: Budget | None = None
    averaging: Average | None = None
    random_state: Seed = None

    def _loss(self, classes: int = 2) -> Loss:
        if self.loss is None and classes > 2:
            return MaxMargin(1.0)
        return super()._loss()

    def _algorithm(self, loss: Loss, **chosen: Any) -> Algorithm:
        if self.variant not in VARIANTS:
            raise ValueError(f"variant must be one of {list(VARIANTS)}; got {self.variant!r}.")
        if not (self.loss is None or isinstance(self.loss, (Hinge, EpsilonInsensitive))):
            raise ValueError(
                "PassiveAggressive mends the hinge loss or EpsilonInsensitive(epsilon); got "
                f"{self.loss!r}."
            )
        limit = math.inf if self.variant == "PA" else self.limit
        step = Aggressive(limit, soft=self.variant == "PA-II")
        return super()._algorithm(loss, step=step)


@dataclass(eq=False, repr=False, kw_only=True)
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
    early_stopping, validation_fraction, n_iter_no_change :
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

    predictor: str = "last"
    budget: Budget | None = None
    random_state: Seed = None

    def _loss(self, classes: int = 2) -> Loss:
        return MaxMargin(0.0) if classes > 2 else Perceptron()

    def _algorithm(self, loss: Loss, **chosen: Any) -> Algorithm:
        if self.predictor not in PREDICTORS:
            raise ValueError(
                f"predictor must be one of {list(PREDICTORS)}; got {self.predictor!r}."
            )
        if self.predictor == "vote" and self.budget is not None:
            raise ValueError(
                "votes need every mistake: leave out the budget, or write predictor='average'."
            )
        averaging = Average() if self.predictor == "average" else None
        return super()._algorithm(loss, step=Constant(1.0), averaging=averaging)

    def _scores(self, points: PointSet) -> np.ndarray:
        return self._votes(points) if self.predictor == "vote" else super()._scores(points)

    def _votes(self, points: PointSet) -> np.ndarray:
        """The share of votes for the class +1, less that for −1; or for each class."""
        stream = self.stream_
        count, outputs = stream.count, stream.outputs
        born, a = stream.state.ages[:count], stream.state.a[:count]
        survived = np.diff(np.append(born, stream.rounds)).astype(np.float64)
        votes = np.zeros((len(points), outputs))
        step = max(1, VOTE_BYTES // (8 * max(1, count) * outputs))
        for first in range(0, len(points), step):
            some = points.slice(first, min(first + step, len(points)))
            scores = np.cumsum(Gram(stream.kernel, some, stream.points).dense()[:, :, None] * a, 1)
            if outputs == 1:
                cast = np.where(scores > 0, 1.0, -1.0)
            else:
                cast = (scores.argmax(axis=2)[:, :, None] == np.arange(outputs)).astype(float)
            votes[first : first + step] = np.einsum("ijo,j->io", cast, survived)
        votes /= max(survived.sum(), 1.0)
        return votes[:, 0] if outputs == 1 else votes


@dataclass(eq=False, repr=False, kw_only=True)
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
    passes, gamma, degree, coef0 :
    early_stopping, validation_fraction, n_iter_no_change :
        As in `OnlineKernelMachine`.

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

    size: int = 100

    def _loss(self, classes: int = 2) -> Loss:
        return Perceptron()

    def _algorithm(self, loss: Loss, **chosen: Any) -> Algorithm:
        return super()._algorithm(loss, step=Constant(1.0), budget=Forget(self.size))

    def _read_targets(self, y: Any, classes: Any, fitting: bool) -> Targets:
        targets = super()._read_targets(y, classes, fitting)
        if targets.outputs > 1:
            raise ValueError(
                "Only binary classification is supported by the Forgetron; got "
                f"{targets.outputs} classes. Write KernelPerceptron(budget=...) for several."
            )
        return targets

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


@dataclass(eq=False, repr=False, kw_only=True)
class OneClassMachine(OutlierMixin, OnlineMachine):
    """Novelty detection online: f(x) ≥ ρ for all samples but a share ν.

    Minimises max(ρ − f(x), 0) + (λ/2)‖f‖² − νρ over f and the threshold ρ, sample by sample.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
    share : float, default=0.1
        ν between 0 and 1.
    regularization, step, budget, passes, gamma, degree, coef0, random_state :
        As in `OnlineKernelMachine`; `early_stopping` is refused, as there are no labels.

    References
    ----------
    J. Kivinen, A. J. Smola, R. C. Williamson, Online learning with kernels, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((300, 2))
    >>> m = OneClassMachine(gamma=0.5, share=0.1).fit(X)
    >>> m.predict([[0.0, 0.0], [9.0, 9.0]]).tolist()
    [1, -1]
    """

    share: float = 0.1
    regularization: float = 0.01
    step: Any = None
    budget: Budget | None = None
    random_state: Seed = None

    def _loss(self, classes: int = 2) -> Loss:
        return Novelty(self.share)

    def _algorithm(self, loss: Loss, **chosen: Any) -> Algorithm:
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"share must be a number between 0 and 1; got {self.share!r}.")
        return super()._algorithm(loss)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Forget everything, and learn the rows of X in their order; y is ignored."""
        if self.early_stopping:
            raise ValueError(
                "OneClassMachine has no early_stopping: without labels nothing tells how well rows "
                "that are held out are predicted."
            )
        return super().fit(X, _zeros(X), sample_weight)

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn the rows of X in their order; y is ignored."""
        return super().partial_fit(X, _zeros(X), None, sample_weight)

    def learn_one(
        self, x: Any, y: Any = None, classes: Any = None, sample_weight: float = 1.0
    ) -> Self:
        """Learn one sample; y is ignored."""
        return super().learn_one(x, 0.0, None, sample_weight)

    def decision_function(self, X: Any) -> np.ndarray:
        """f(x) − ρ for every row of X: negative for what is new."""
        return self._scores(self._points_to_predict(X))

    def _decided(self, scores: np.ndarray) -> np.ndarray:
        return np.where(scores >= 0, 1, -1)

    def score_samples(self, X: Any) -> np.ndarray:
        """f(x), before the threshold `offset_` is taken off."""
        return self.function_(self._points_to_predict(X))

    @property
    def offset_(self) -> float:
        """ρ."""
        return self._of_stream("offset_").offset

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "outlier_detector"
        tags.regressor_tags = None
        tags.target_tags.required = False
        tags.target_tags.multi_output = False
        return tags


def _zeros(X: Any) -> np.ndarray:
    return np.zeros(X.shape[0] if hasattr(X, "shape") else len(np.asarray(X, dtype=object)))
