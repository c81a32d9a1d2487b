"""What is unlike the stream so far: the one-class machine."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin

from mercer.online.budgets import Budget
from mercer.online.losses import Novelty
from mercer.online.machine import GradientMachine
from mercer.online.rounds import Settings


class OneClassMachine(OutlierMixin, GradientMachine, BaseEstimator):
    """Novelty detection online: f(x) ≥ ρ for all samples but a share ν.

    Minimises max(ρ − f(x), 0) + (λ/2)‖f‖² − νρ over f and the threshold ρ, sample by sample.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
    share : float, default=0.1
        ν between 0 and 1.
    regularization, step, budget, passes, gamma, degree, coef0, random_state :
        As in `OnlineKernelMachine`.

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

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        share: float = 0.1,
        regularization: float = 0.01,
        step: Any = None,
        budget: Budget | None = None,
        passes: int = 5,
        gamma: Any = None,
        degree: Any = 3,
        coef0: Any = 1,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.share = share
        self.regularization = regularization
        self.step = step
        self.budget = budget
        self.passes = passes
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.random_state = random_state

    def _settings(self, classes: int | None = None) -> Settings:
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"share must be a number between 0 and 1; got {self.share!r}.")
        return super()._settings(classes)

    def _loss(self, classes: int | None = None) -> Any:
        return Novelty(self.share)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Forget everything, and learn the rows of X in their order; y is ignored."""
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

    def _has_scores(self) -> bool:
        return True

    def _decided(self, scores: np.ndarray) -> np.ndarray:
        return np.where(scores >= 0, 1, -1)

    def score_samples(self, X: Any) -> np.ndarray:
        """f(x), before the threshold `offset_` is taken off."""
        return self.decision_function(X) + self.stream_.offset

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
