"""Losses of online machines: what compiled code is told of them, and one that it adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Multinomial,
    Perceptron,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)
from mercer.online import state


@dataclass(frozen=True)
class MaxMargin(Loss):
    """max(0, margin − f_y + max_{k≠y} f_k) for rows of scores: the right class leads by `margin`.

    With margin 0 this is the loss of the multiclass perceptron, and a tie counts as a mistake.
    Targets are rows, one-hot or ±1.

    References
    ----------
    K. Crammer, Y. Singer, Ultraconservative online algorithms for multiclass problems, 2003.

    Examples
    --------
    >>> MaxMargin().value(np.array([[1.0, 0.0, 0.0]]), np.array([[2.0, 1.5, 0.0]])).tolist()
    [0.5]
    """

    margin: float = 1.0
    is_classification: ClassVar[bool] = True
    is_multiclass: ClassVar[bool] = True

    @property
    def lipschitz(self) -> float:
        return float(np.sqrt(2.0))

    def value(self, y: Any, f: Any) -> Any:
        right, rival = self._sides(y, f)
        rows = np.arange(len(f))
        return np.maximum(self.margin - f[rows, right] + f[rows, rival], 0.0)

    def slope(self, y: Any, f: Any) -> Any:
        right, rival = self._sides(y, f)
        rows = np.arange(len(f))
        missing = self.margin - f[rows, right] + f[rows, rival]
        hit = (missing > 0) | ((missing == 0) & (self.margin == 0))
        slope = np.zeros_like(f)
        slope[rows, rival] = hit
        slope[rows, right] = -1.0 * hit
        return slope

    @staticmethod
    def _sides(y: Any, f: Any) -> tuple[Any, Any]:
        right = np.argmax(y, axis=1)
        others = f.copy()
        others[np.arange(len(f)), right] = -np.inf
        return right, np.argmax(others, axis=1)


@dataclass(frozen=True)
class Novelty(Loss):
    """max(ρ − f, 0) − νρ, where ρ is learned too: of the samples, a share ν lies below ρ.

    It is made for `OneClassMachine`, which keeps ρ.
    """

    share: float = 0.1

    @property
    def lipschitz(self) -> float:
        return 1.0


def code_of(loss: Loss) -> tuple[int, np.ndarray]:
    """The code and the numbers of a loss; FOREIGN for one that has to be asked."""
    rule = _RULES.get(type(loss))
    code, numbers = (state.FOREIGN, ()) if rule is None else rule(loss)
    return code, np.array([*numbers, 0.0, 0.0, 0.0][:3], np.float64)


def _tube(loss: Any) -> tuple[int, tuple[float, ...]]:
    return state.TUBE, (*loss.domain(None), loss.quadratic_conjugate.kink)


_RULES: dict[type, Any] = {
    Squared: lambda loss: (state.SQUARED, ()),
    Huber: lambda loss: (state.HUBER, (float(loss.delta),)),
    Absolute: _tube,
    Quantile: _tube,
    EpsilonInsensitive: _tube,
    Logistic: lambda loss: (state.LOGISTIC, ()),
    Hinge: lambda loss: (state.HINGE, ()),
    SquaredHinge: lambda loss: (state.SQUARED_HINGE, ()),
    Poisson: lambda loss: (state.POISSON, ()),
    Perceptron: lambda loss: (state.PERCEPTRON, ()),
    Novelty: lambda loss: (state.NOVELTY, (float(loss.share),)),
    Multinomial: lambda loss: (state.MULTINOMIAL, ()),
    MaxMargin: lambda loss: (state.MAX_MARGIN, (float(loss.margin),)),
}
