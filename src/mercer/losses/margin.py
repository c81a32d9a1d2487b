"""Losses of the margin m = yf: labels y = ±1, and the sign of f decides."""

from __future__ import annotations

from dataclasses import dataclass

from mercer.arrays import Array, floating
from mercer.evaluation.expression import Expression
from mercer.losses import numerics
from mercer.losses.base import MarginLoss, QuadraticConjugate
from mercer.losses.expressions import entropy, entropy1p, positive_part, softplus


@dataclass(frozen=True)
class Logistic(MarginLoss):
    """The logistic loss, log(1 + e^{−yf}), for labels ±1: −log of the probability of y.

    >>> import numpy as np
    >>> f = np.array([-2.0, 0.0, 5.0])
    >>> bool(np.allclose(Logistic().value(1, f), -np.log(Logistic().probability(f))))
    True
    """

    lipschitz = 1.0
    smoothness = 0.25

    def of_margin(self, m: Expression) -> Expression:
        return softplus(-m)

    def conjugate_of(self, v: Expression) -> Expression:
        """−v log(−v) + (1 + v) log(1 + v)."""
        return entropy(-v) + entropy1p(v)

    def probability(self, f: Array) -> Array:
        """1/(1 + e^{−f}), the probability of the label +1."""
        return numerics.sigmoid(floating(f))


@dataclass(frozen=True)
class Hinge(MarginLoss):
    """The hinge loss of support vector machines, max(1 − yf, 0). Its slope is 0 at the kink yf = 1.

    >>> import numpy as np
    >>> f = np.array([-1.0, 0.5, 3.0])
    >>> bool((Hinge().value(1, f) == np.maximum(1 - f, 0)).all())
    True
    """

    lipschitz = 1.0
    quadratic_conjugate = QuadraticConjugate()

    def of_margin(self, m: Expression) -> Expression:
        return positive_part(1.0 - m)


@dataclass(frozen=True)
class SquaredHinge(MarginLoss):
    """The square of the hinge loss, max(1 − yf, 0)², smooth. There is no factor ½, as in LinearSVC.

    Its curvature is 2 below the margin yf = 1, and 0 there and above.

    >>> import numpy as np
    >>> f = np.array([-1.0, 0.5, 3.0])
    >>> bool((SquaredHinge().value(1, f) == Hinge().value(1, f) ** 2).all())
    True
    """

    smoothness = 2.0
    quadratic_conjugate = QuadraticConjugate(curvature=0.5)

    def of_margin(self, m: Expression) -> Expression:
        return positive_part(1.0 - m) ** 2


@dataclass(frozen=True)
class Perceptron(MarginLoss):
    """The loss of the perceptron, max(−yf, 0). Its slope at the kink yf = 0 is −y: a mistake.

    >>> Perceptron().value(1.0, [-2.0, 0.0, 3.0]).tolist()
    [2.0, 0.0, 0.0]
    """

    lipschitz = 1.0

    def of_margin(self, m: Expression) -> Expression:
        return positive_part(m) - m

    def conjugate_of(self, v: Expression) -> Expression:
        return 0.0 * v
