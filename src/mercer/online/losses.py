"""Losses that only online machines have, and how compiled code gets at a loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer.evaluation.expression import Expression
from mercer.losses import Loss, Multinomial
from mercer.losses.expressions import positive_part
from mercer.online.state import FOREIGN, MAX_MARGIN, MULTINOMIAL, SCALAR


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
    lipschitz = 1.0

    def expression(self, y: Expression, f: Expression) -> Expression:
        """The loss in f and in y = ρ."""
        return positive_part(y - f) - float(self.share) * y


def kind_of(loss: Loss) -> int:
    """How compiled code gets at a loss; FOREIGN for one that has to be asked from Python."""
    kinds = {Multinomial: MULTINOMIAL, MaxMargin: MAX_MARGIN}
    return kinds.get(type(loss), SCALAR if loss.follows_expression else FOREIGN)
