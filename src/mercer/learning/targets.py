"""Targets on another scale: logarithms, and ranks that are made normal, with the way back.

A ridge fit has one lengthscale and one noise for all levels of the targets. Where these spread over
orders of magnitude, or have long tails, a monotone function g of them may be easier to fit. A
square loss asks for the mean of y at x, and g⁻¹(f(x)) is rather the median: what is predicted is
the mean of g⁻¹(f(x) + e) over residuals e of held-out rows (Duan's smearing).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.arrays import as_numpy, beside

RESIDUALS = 32  # quantiles of them that are averaged over
SKEWED = 1.0  # |third moment| of standardised targets from which another scale may pay
HEAVY = 6.0  # fourth moment, which is 3 for normal ones
NAMES = ("log", "rank")


@dataclass(frozen=True, eq=False)
class TargetTransform:
    """A monotone function g of one output that gives it deviation 1, and the way back.

    g does not depend on the unit of the targets.

    Parameters
    ----------
    name : {"log", "rank"}
        g(y) = (log y − m)/s with the mean m and the deviation s of the logarithms; or the normal
        quantile of the rank of y among the targets, linear in between, over its deviation.
    places, scores : arrays
        For ranks, the different targets and what they are mapped to. For logarithms, m and s.
    residuals : array
        Quantiles of what held-out rows missed, in units of g.

    References
    ----------
    N. Duan, Smearing estimate: a nonparametric retransformation method, Journal of the American
    Statistical Association 78, 1983.

    Examples
    --------
    >>> y = np.array([1.0, 10.0, 100.0])
    >>> for name in NAMES:
    ...     g = TargetTransform.of(name, y)
    ...     print(g.forward(y).round(2), np.allclose(g.backward(g.forward(y)), y))
    [-1.22  0.    1.22] True
    [-1.22  0.    1.22] True
    """

    name: str
    places: np.ndarray
    scores: np.ndarray
    residuals: np.ndarray

    @classmethod
    def of(cls, name: str, y: Any, weights: Any = None) -> TargetTransform:
        """The transform of a name for these targets, ranks counted with weights."""
        y, none = np.asarray(as_numpy(y), np.float64), np.zeros(1)
        if name == "log":
            if not y.min() > 0:
                raise ValueError(
                    f'target_transform="log" needs targets > 0; got {y.min():g}. Write "rank", '
                    "which serves all."
                )
            logs = np.log(y)
            return cls(name, logs.mean()[None], np.array([logs.std() or 1.0]), none)
        places, inverse = np.unique(y, return_inverse=True)
        counts = np.bincount(inverse, None if weights is None else as_numpy(weights))
        middle = (np.cumsum(counts) - 0.5 * counts) / counts.sum()
        scores = scipy.special.ndtri(np.clip(middle, 1e-12, 1.0 - 1e-12))
        return cls(name, places, scores / (scores[inverse].std() or 1.0), none)

    def forward(self, y: Any) -> Any:
        """g(y), in the library of y."""
        values = np.asarray(as_numpy(y), np.float64)
        if self.name == "log":
            return beside((np.log(values) - self.places[0]) / self.scores[0], y)
        return beside(np.interp(values, self.places, self.scores), y)

    def backward(self, values: Any) -> Any:
        """The mean of g⁻¹(value + e), in the library of the values and their precision."""
        z = np.asarray(as_numpy(values), np.float64)
        total = np.zeros_like(z)
        for residual in self.residuals:
            if self.name == "log":
                total += np.exp(self.places[0] + self.scores[0] * (z + residual))
            else:
                total += np.interp(z + residual, self.scores, self.places)
        return beside((total / len(self.residuals)).astype(as_numpy(values).dtype), values)

    def smeared(self, scores: Any, held_out: tuple[np.ndarray, np.ndarray]) -> TargetTransform:
        """The same with the residuals of held-out rows, whose g(y) is among the scores."""
        rows, said = held_out
        parts = (np.arange(RESIDUALS) + 0.5) / RESIDUALS
        missed = np.ravel(as_numpy(scores))[rows] - said[:, 0]
        return replace(self, residuals=np.quantile(missed, parts))

    def __repr__(self) -> str:
        return {"log": "log(y)", "rank": "normal quantiles of the ranks of y"}[self.name]


def worth_trying(y: Any) -> list[str]:
    """The transforms that may pay for these targets: none where they are spread evenly.

    >>> worth_trying(np.arange(9.0)), worth_trying(np.exp(np.arange(9.0)))
    ([], ['log', 'rank'])
    """
    y = np.asarray(as_numpy(y), np.float64)
    if y.ndim > 1 or not y.std() > 0:
        return []
    z = (y - y.mean()) / y.std()
    if abs((z**3).mean()) < SKEWED and (z**4).mean() < HEAVY:
        return []
    return [name for name in NAMES if name != "log" or y.min() > 0]
