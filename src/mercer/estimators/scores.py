"""Probabilities of classes from scores: softmax(a·s), a fitted on rows that no fit has seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from mercer.arrays import Array, namespace

PRIOR = 1.0
"""Weight of the prior log a ~ N(log 3, 1), in rows: without it, scores that separate classes ask
for an infinite a. With targets ±1, a = 3 says 95 % at a score of 1."""


@dataclass(frozen=True)
class Calibration:
    """softmax(a·s) for scores s, one column for each class; two classes have ±s/2.

    The class with the largest score is the most probable one.

    Examples
    --------
    >>> scores = np.array([-1.0, -0.2, 0.3, 1.2])
    >>> fitted = Calibration.of(scores, np.array([0, 1, 0, 1]))
    >>> bool(np.all(np.diff(fitted.probabilities(scores)[:, 1]) > 0))
    True
    """

    slope: float

    @classmethod
    def of(
        cls, scores: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None
    ) -> Calibration:
        """The maximum of the likelihood of held-out labels, with a weak prior."""
        columns, rows = _columns(scores), np.arange(len(labels))
        own = np.ones(len(labels)) if weights is None else weights

        def loss(log_slope: float) -> float:
            logs = log_softmax(np.exp(log_slope) * columns, axis=1)[rows, labels]
            return 0.5 * PRIOR * (log_slope - np.log(3.0)) ** 2 - float(own @ logs)

        best = minimize_scalar(loss, bounds=(-7.0, 7.0), method="bounded")
        return cls(float(np.exp(best.x)))

    def loss(self, scores: np.ndarray, labels: np.ndarray, weights: Any = None) -> float:
        """The mean of −log p of the labels."""
        logs = self.log_probabilities(scores)[np.arange(len(labels)), labels]
        return -float(np.average(logs, weights=weights))

    def log_probabilities(self, scores: Array) -> Array:
        """The logarithms, one column for each class."""
        logits = self.slope * _columns(scores)
        xp = namespace(logits)
        logits = logits - xp.max(logits, axis=1, keepdims=True)
        return logits - xp.log(xp.sum(xp.exp(logits), axis=1, keepdims=True))

    def probabilities(self, scores: Array) -> Array:
        """One column for each class."""
        logs = self.log_probabilities(scores)
        return namespace(logs).exp(logs)


def _columns(scores: Array) -> Array:
    """A column for each class; a score of two classes is that of the second, less the first."""
    if scores.ndim == 2:
        return scores
    return namespace(scores).stack([-0.5 * scores, 0.5 * scores], axis=1)
