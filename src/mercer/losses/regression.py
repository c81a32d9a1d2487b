"""Losses of real targets, most of them of the residual r = f − y, and of counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mercer.arrays import Array, floating, namespace
from mercer.checks import (
    check_between,
    check_nonnegative,
    check_positive,
    check_step,
    refuse_targets,
)
from mercer.evaluation.expression import Expression, absolute, exp
from mercer.losses import numerics
from mercer.losses.base import Loss, QuadraticConjugate, ResidualLoss
from mercer.losses.expressions import choose, entropy, positive_part


@dataclass(frozen=True)
class Squared(ResidualLoss):
    """The square loss, ½(y − f)², for the mean.

    >>> float(Squared().value(3.0, 1.0))
    2.0
    """

    smoothness = 1.0
    quadratic_conjugate = QuadraticConjugate(curvature=1.0)

    def of_residual(self, r: Expression) -> Expression:
        return 0.5 * r**2


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
    smoothness = 1.0
    quadratic_conjugate = QuadraticConjugate(curvature=1.0)

    def __post_init__(self) -> None:
        check_positive(self, "delta", self.delta)

    @property
    def lipschitz(self) -> float:
        return float(self.delta)

    def of_residual(self, r: Expression) -> Expression:
        delta, size = self.lipschitz, absolute(r)
        return choose(size - delta, delta * (size - 0.5 * delta), 0.5 * r**2)


@dataclass(frozen=True)
class Absolute(ResidualLoss):
    """The absolute loss, |y − f|, for the median. Its slope is 0 at the kink f = y.

    >>> import numpy as np
    >>> y, f = np.array([0.0, 1.0]), np.array([2.0, -1.0])
    >>> bool((Absolute().value(y, f) == 2 * Quantile(level=0.5).value(y, f)).all())
    True
    """

    lipschitz = 1.0
    quadratic_conjugate = QuadraticConjugate()

    def of_residual(self, r: Expression) -> Expression:
        return absolute(r)


@dataclass(frozen=True)
class Quantile(ResidualLoss):
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
    quadratic_conjugate = QuadraticConjugate()

    def __post_init__(self) -> None:
        check_between(self, "level", self.level, 0.0, 1.0)

    @property
    def lipschitz(self) -> float:
        return max(float(self.level), 1.0 - float(self.level))

    def domain(self, y: Array) -> tuple[Any, Any]:
        return -float(self.level), 1.0 - float(self.level)

    def of_residual(self, r: Expression) -> Expression:
        level = float(self.level)
        return (1.0 - level) * positive_part(r) + level * positive_part(-r)


@dataclass(frozen=True)
class EpsilonInsensitive(ResidualLoss):
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
    lipschitz = 1.0

    def __post_init__(self) -> None:
        check_nonnegative(self, "epsilon", self.epsilon)

    @property
    def quadratic_conjugate(self) -> QuadraticConjugate:
        return QuadraticConjugate(kink=float(self.epsilon))

    def of_residual(self, r: Expression) -> Expression:
        return positive_part(absolute(r) - float(self.epsilon))


@dataclass(frozen=True)
class Poisson(Loss):
    """The Poisson loss, e^f − yf, for counts y ≥ 0 of mean e^f.

    It is the negative log-likelihood without log y!, which does not depend on f. Value, slope and
    curvature are +∞ where e^f is too large to be written.

    >>> import numpy as np
    >>> y = np.array([1.0, 4.0])
    >>> bool(np.allclose(Poisson().slope(y, np.log(y)), 0.0))
    True
    """

    def expression(self, y: Expression, f: Expression) -> Expression:
        return exp(f) - y * f

    def conjugate_expression(self, y: Expression, u: Expression) -> Expression:
        """v log v − v with v = u + y ≥ 0."""
        return entropy(u + y) - (u + y)

    def domain(self, y: Array) -> tuple[Any, Any]:
        return -floating(y), math.inf

    def proximal(self, y: Array, f: Array, step: Array) -> Array:
        """a − ω(a + log step) with a = f + step·y and Wright's ω.

        Newton's method of other losses would start from f − step·e^f, which may be infinite.
        """
        check_step(self, step)
        y, f = numerics.aligned(y, f)
        step = numerics.like(step, f)
        return numerics.exponential_root(f + step * y, step, namespace(f).zeros_like(f))

    def check_targets(self, y: Any) -> Array:
        y = super().check_targets(y)
        refuse_targets(self, y, y < 0, "counts y ≥ 0", "Shift or drop negative targets.")
        return y

    def mean(self, f: Array) -> Array:
        """e^f, the expected count."""
        return numerics.exponential(f)
