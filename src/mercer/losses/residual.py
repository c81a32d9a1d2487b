"""Losses of the residual r = f − y: real targets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mercer.arrays import Array, namespace
from mercer.checks import check_between, check_nonnegative, check_step
from mercer.losses.base import Loss
from mercer.losses.numerics import aligned, implicit_step, indicator, like


@dataclass(frozen=True)
class ResidualLoss(Loss):
    """A loss ψ(r) of the residual r = f − y. Subclasses say what ψ is.

    The conjugate is ℓ*(y, u) = uy + ψ*(u), and the proximal map y + prox_ψ(f − y).
    """

    def value(self, y: Array, f: Array) -> Array:
        _, y, f = aligned(y, f)
        return self._value(f - y)

    def slope(self, y: Array, f: Array) -> Array:
        _, y, f = aligned(y, f)
        return self._slope(f - y)

    def curvature(self, y: Array, f: Array) -> Array:
        _, y, f = aligned(y, f)
        return self._curvature(f - y)

    def conjugate(self, y: Array, u: Array) -> Array:
        xp, y, u = aligned(y, u)
        low, high = self.domain(y)
        return xp.where((u >= low) & (u <= high), u * y + self._conjugate(u), math.inf)

    def proximal(self, y: Array, f: Array, step: Array) -> Array:
        check_step(self, step)
        _, y, f = aligned(y, f)
        return y + self._proximal(f - y, like(step, f))

    def _value(self, r: Array) -> Array:
        """ψ(r)."""
        raise NotImplementedError

    def _slope(self, r: Array) -> Array:
        """ψ'(r), a subgradient at kinks."""
        raise NotImplementedError

    def _curvature(self, r: Array) -> Array:
        """ψ''(r)."""
        raise NotImplementedError

    def _conjugate(self, u: Array) -> Array:
        """ψ*(u), for u of the domain."""
        raise NotImplementedError

    def _proximal(self, r: Array, step: Array) -> Array:
        """The z that minimises ψ(z) + (z − r)²/(2·step)."""
        return implicit_step(self._slope, self._curvature, r, step)


@dataclass(frozen=True)
class Squared(ResidualLoss):
    """The square loss, ½(y − f)², for the mean.

    >>> float(Squared().value(3.0, 1.0))
    2.0
    """

    @property
    def smoothness(self) -> float:
        return 1.0

    def _value(self, r: Array) -> Array:
        return 0.5 * r**2

    def _slope(self, r: Array) -> Array:
        return r

    def _curvature(self, r: Array) -> Array:
        return namespace(r).ones_like(r)

    def _conjugate(self, u: Array) -> Array:
        return 0.5 * u**2

    def _proximal(self, r: Array, step: Array) -> Array:
        return r / (1.0 + step)


@dataclass(frozen=True)
class Huber(ResidualLoss):
    """Huber's loss: ½r² for |r| ≤ δ, else δ|r| − ½δ², with r = y − f. Outliers pull with force δ.

    The curvature is 1 where |r| = δ. scikit-learn's `HuberRegressor` writes twice this.

    Parameters
    ----------
    delta : float, default=1.0
        δ > 0.

    References
    ----------
    P. J. Huber, Robust estimation of a location parameter, 1964.

    Examples
    --------
    >>> import numpy as np
    >>> r = np.linspace(-1.0, 1.0, 5)
    >>> bool((Huber(delta=1.0).value(0.0, r) == Squared().value(0.0, r)).all())
    True
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        check_between(self, "delta", self.delta, 0.0, math.inf)

    @property
    def lipschitz(self) -> float:
        return float(self.delta)

    @property
    def smoothness(self) -> float:
        return 1.0

    def _value(self, r: Array) -> Array:
        size = namespace(r).abs(r)
        bent = namespace(r).clip(size, max=float(self.delta))
        return bent * (size - 0.5 * bent)

    def _slope(self, r: Array) -> Array:
        delta = float(self.delta)
        return namespace(r).clip(r, min=-delta, max=delta)

    def _curvature(self, r: Array) -> Array:
        return indicator(namespace(r).abs(r) <= float(self.delta), r)

    def _conjugate(self, u: Array) -> Array:
        return 0.5 * u**2

    def _proximal(self, r: Array, step: Array) -> Array:
        inner = r / (1.0 + step)
        outer = r - step * self._slope(r)
        return namespace(r).where(namespace(r).abs(inner) <= float(self.delta), inner, outer)


@dataclass(frozen=True)
class _Tube(ResidualLoss):
    """Flat for |r| ≤ ε, then straight: a(−r − ε)₊ + b(r − ε)₊ with slopes −a and b outside.

    The slope at the kinks is 0, a subgradient there.
    """

    @property
    def _slopes(self) -> tuple[float, float]:
        """−a and b."""
        return -1.0, 1.0

    @property
    def _width(self) -> float:
        """ε."""
        return 0.0

    @property
    def lipschitz(self) -> float:
        return max(abs(slope) for slope in self._slopes)

    def domain(self, y: Array) -> tuple[Any, Any]:
        return self._slopes

    def _value(self, r: Array) -> Array:
        return self._slope(r) * self._beyond(r)

    def _slope(self, r: Array) -> Array:
        falling, rising = self._slopes
        return rising * indicator(r > self._width, r) + falling * indicator(r < -self._width, r)

    def _curvature(self, r: Array) -> Array:
        return namespace(r).zeros_like(r)

    def _conjugate(self, u: Array) -> Array:
        return self._width * namespace(u).abs(u)

    def _proximal(self, r: Array, step: Array) -> Array:
        """Move by the slope, but not across the edge of the tube."""
        xp = namespace(r)
        beyond, move = self._beyond(r), step * self._slope(r)
        return xp.where(xp.abs(move) < xp.abs(beyond), r - move, self._nearest(r))

    def _beyond(self, r: Array) -> Array:
        """How far r is outside the tube, with its sign."""
        return r - self._nearest(r)

    def _nearest(self, r: Array) -> Array:
        """The nearest point of the tube."""
        return namespace(r).clip(r, min=-self._width, max=self._width)


@dataclass(frozen=True)
class Absolute(_Tube):
    """The absolute loss, |y − f|, for the median. Its slope is 0 at the kink f = y.

    >>> import numpy as np
    >>> y, f = np.array([0.0, 1.0]), np.array([2.0, -1.0])
    >>> bool((Absolute().value(y, f) == 2 * Quantile(level=0.5).value(y, f)).all())
    True
    """


@dataclass(frozen=True)
class Quantile(_Tube):
    """The pinball loss, max(τ(y − f), (τ − 1)(y − f)), for the quantile of level τ.

    Its slope is −τ below y, 1 − τ above, and 0 at the kink f = y.

    Parameters
    ----------
    level : float, default=0.5
        0 < τ < 1.

    References
    ----------
    R. Koenker, G. Bassett, Regression quantiles, 1978.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.linspace(0.0, 1.0, 101)
    >>> risks = [Quantile(level=0.9).risk(y, np.full(101, f)) for f in y]
    >>> float(y[np.argmin(risks)])
    0.9
    """

    level: float = 0.5

    def __post_init__(self) -> None:
        check_between(self, "level", self.level, 0.0, 1.0)

    @property
    def _slopes(self) -> tuple[float, float]:
        return -float(self.level), 1.0 - float(self.level)


@dataclass(frozen=True)
class EpsilonInsensitive(_Tube):
    """The loss of support vector regression, max(|y − f| − ε, 0): errors up to ε are free.

    Its slope is 0 at the kinks |y − f| = ε.

    Parameters
    ----------
    epsilon : float, default=0.1
        ε ≥ 0.

    References
    ----------
    V. Vapnik, The Nature of Statistical Learning Theory, 1995.

    Examples
    --------
    >>> EpsilonInsensitive(epsilon=0.5).value(0.0, [0.25, 0.5, 2.0]).tolist()
    [0.0, 0.0, 1.5]
    """

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        check_nonnegative(self, "epsilon", self.epsilon)

    @property
    def _width(self) -> float:
        return float(self.epsilon)
