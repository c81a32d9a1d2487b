"""The losses of one number: of residuals r = f − y, of margins m = yf, of counts; smoothed ones."""

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
from mercer.losses.base import Loss, MarginLoss, QuadraticConjugate, ResidualLoss
from mercer.losses.expressions import choose, entropy, entropy1p, positive_part, softplus


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


@dataclass(frozen=True)
class Smoothed(Loss):
    """The Moreau envelope ℓ_μ(y, f) = min_z ℓ(y, z) + (z − f)²/(2μ) of a piecewise linear loss.

    ℓ − μL²/2 ≤ ℓ_μ ≤ ℓ for an L-Lipschitz loss. The slope (f − z)/μ at the minimiser z lies in the
    domain of ℓ*, so it is a dual point of the problem with ℓ itself; ℓ_μ* = ℓ* + (μ/2)u².

    References
    ----------
    Y. Nesterov, Smooth minimization of non-smooth functions, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Hinge
    >>> f = np.array([-1.0, 0.9, 2.0])
    >>> Smoothed(Hinge(), 0.5).slope(np.ones(3), f)
    array([-1. , -0.2,  0. ])
    """

    base: Loss
    width: float

    @property
    def lipschitz(self) -> float:
        return self.base.lipschitz

    @property
    def smoothness(self) -> float:
        return 1.0 / self.width

    def value(self, y: Array, f: Array) -> Array:
        z = self.base.proximal(y, f, self.width)
        return self.base.value(y, z) + (z - f) ** 2 / (2.0 * self.width)

    def slope(self, y: Array, f: Array) -> Array:
        low, high = self.base.domain(y)
        pull = (f - self.base.proximal(y, f, self.width)) / self.width
        return namespace(f).clip(pull, low, high)

    def curvature(self, y: Array, f: Array) -> Array:
        """1/μ where z stands at a kink, 0 where the loss is straight."""
        u = self.slope(y, f)
        low, high = self.base.domain(y)
        slack = 1e-9 * self.base.lipschitz
        bent = (u > low + slack) & (u < high - slack) & (abs(u) > slack)
        return namespace(u).astype(bent, u.dtype) / self.width

    def conjugate(self, y: Array, u: Array) -> Array:
        return self.base.conjugate(y, u) + 0.5 * self.width * u**2

    def domain(self, y: Array) -> tuple[Any, Any]:
        return self.base.domain(y)

    def check_targets(self, y: Any) -> Array:
        return self.base.check_targets(y)
