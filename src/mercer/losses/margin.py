"""Losses of the margin m = yf: labels y = ±1, and the sign of f decides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from mercer.arrays import Array, floating, namespace
from mercer.checks import check_step, finite_targets, refuse_targets
from mercer.losses.base import Loss
from mercer.losses.numerics import (
    aligned,
    implicit_step,
    indicator,
    like,
    negative_entropy,
    sigmoid,
    softplus,
)


@dataclass(frozen=True)
class MarginLoss(Loss):
    """A loss φ(m) of the margin m = yf, for labels y = ±1. Subclasses say what φ is.

    As y² = 1, the slope is yφ'(yf), the curvature φ''(yf), the conjugate φ*(yu), and the proximal
    map y·prox_φ(yf).
    """

    is_classification: ClassVar[bool] = True
    _least_slope: ClassVar[float] = -math.inf  # φ*(v) is finite for v from here to 0

    def value(self, y: Array, f: Array) -> Array:
        _, y, f = aligned(y, f)
        return self._value(y * f)

    def slope(self, y: Array, f: Array) -> Array:
        _, y, f = aligned(y, f)
        return y * self._slope(y * f)

    def curvature(self, y: Array, f: Array) -> Array:
        _, y, f = aligned(y, f)
        return self._curvature(y * f)

    def conjugate(self, y: Array, u: Array) -> Array:
        xp, y, u = aligned(y, u)
        v = y * u
        inside = xp.clip(v, min=self._least_slope, max=0.0)
        return xp.where(v == inside, self._conjugate(inside), math.inf)

    def domain(self, y: Array) -> tuple[Any, Any]:
        y = floating(y)
        xp = namespace(y)
        zero = xp.zeros_like(y)
        far = xp.full_like(y, -self._least_slope)
        return xp.where(y > 0, -far, zero), xp.where(y > 0, zero, far)

    def proximal(self, y: Array, f: Array, step: Array) -> Array:
        check_step(self, step)
        _, y, f = aligned(y, f)
        return y * self._proximal(y * f, like(step, f))

    @property
    def lipschitz(self) -> float:
        return -self._least_slope

    def check_targets(self, y: Array) -> None:
        y = finite_targets(self, y)
        refuse_targets(
            self, y, (y != 1) & (y != -1), "labels −1 and +1", "Write 2*y − 1 for labels 0 and 1."
        )

    def _value(self, m: Array) -> Array:
        """φ(m), decreasing."""
        raise NotImplementedError

    def _slope(self, m: Array) -> Array:
        """φ'(m), a subgradient at kinks."""
        raise NotImplementedError

    def _curvature(self, m: Array) -> Array:
        """φ''(m)."""
        raise NotImplementedError

    def _conjugate(self, v: Array) -> Array:
        """φ*(v), for v of its domain."""
        raise NotImplementedError

    def _proximal(self, m: Array, step: Array) -> Array:
        """The z that minimises φ(z) + (z − m)²/(2·step)."""
        return implicit_step(self._slope, self._curvature, m, step)


@dataclass(frozen=True)
class Logistic(MarginLoss):
    """The logistic loss, log(1 + e^{−yf}), for labels ±1: −log of the probability of y.

    >>> import numpy as np
    >>> f = np.array([-2.0, 0.0, 5.0])
    >>> bool(np.allclose(Logistic().value(1, f), -np.log(Logistic().probability(f))))
    True
    """

    _least_slope: ClassVar[float] = -1.0

    @property
    def smoothness(self) -> float:
        return 0.25

    def probability(self, f: Array) -> Array:
        """1/(1 + e^{−f}), the probability of the label +1."""
        return sigmoid(floating(f))

    def _value(self, m: Array) -> Array:
        return softplus(-m)

    def _slope(self, m: Array) -> Array:
        return -sigmoid(-m)

    def _curvature(self, m: Array) -> Array:
        return sigmoid(m) * sigmoid(-m)

    def _conjugate(self, v: Array) -> Array:
        """−v log(−v) + (1 + v) log(1 + v)."""
        xp = namespace(v)
        rest = 1.0 + v
        return negative_entropy(-v) + rest * xp.log1p(xp.where(rest > 0, v, 0.0))


@dataclass(frozen=True)
class Hinge(MarginLoss):
    """The hinge loss of support vector machines, max(1 − yf, 0). Its slope is 0 at the kink yf = 1.

    >>> import numpy as np
    >>> f = np.array([-1.0, 0.5, 3.0])
    >>> bool((Hinge().value(1, f) == np.maximum(1 - f, 0)).all())
    True
    """

    _least_slope: ClassVar[float] = -1.0

    def _value(self, m: Array) -> Array:
        return _missing(m)

    def _slope(self, m: Array) -> Array:
        return -indicator(m < 1, m)

    def _curvature(self, m: Array) -> Array:
        return namespace(m).zeros_like(m)

    def _conjugate(self, v: Array) -> Array:
        return v

    def _proximal(self, m: Array, step: Array) -> Array:
        xp = namespace(m)
        return xp.where(m + step < 1, m + step, xp.clip(m, min=1.0))


@dataclass(frozen=True)
class SquaredHinge(MarginLoss):
    """The square of the hinge loss, max(1 − yf, 0)², smooth. There is no factor ½, as in LinearSVC.

    Its curvature is 2 below the margin yf = 1, and 0 there and above.

    >>> import numpy as np
    >>> f = np.array([-1.0, 0.5, 3.0])
    >>> bool((SquaredHinge().value(1, f) == Hinge().value(1, f) ** 2).all())
    True
    """

    @property
    def smoothness(self) -> float:
        return 2.0

    def _value(self, m: Array) -> Array:
        return _missing(m) ** 2

    def _slope(self, m: Array) -> Array:
        return -2.0 * _missing(m)

    def _curvature(self, m: Array) -> Array:
        return 2.0 * indicator(m < 1, m)

    def _conjugate(self, v: Array) -> Array:
        return v + 0.25 * v**2

    def _proximal(self, m: Array, step: Array) -> Array:
        """1 − (1 − m)/(1 + 2·step) below the margin."""
        return namespace(m).where(m < 1, 1.0 - _missing(m) / (1.0 + 2.0 * step), m)


@dataclass(frozen=True)
class Perceptron(MarginLoss):
    """The loss of the perceptron, max(−yf, 0). Its slope at the kink yf = 0 is −y: a mistake.

    >>> Perceptron().value(1.0, [-2.0, 0.0, 3.0]).tolist()
    [2.0, 0.0, 0.0]
    """

    _least_slope: ClassVar[float] = -1.0

    def _value(self, m: Array) -> Array:
        return namespace(m).clip(-m, min=0.0)

    def _slope(self, m: Array) -> Array:
        return -indicator(m <= 0, m)

    def _curvature(self, m: Array) -> Array:
        return namespace(m).zeros_like(m)

    def _conjugate(self, v: Array) -> Array:
        return namespace(v).zeros_like(v)

    def _proximal(self, m: Array, step: Array) -> Array:
        xp = namespace(m)
        return xp.where(m + step < 0, m + step, xp.clip(m, min=0.0))


def _missing(m: Array) -> Array:
    """(1 − m)₊, what is missing to a margin of 1."""
    return namespace(m).clip(1.0 - m, min=0.0)
