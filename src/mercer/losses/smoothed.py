"""Losses with kinks, smoothed: the Moreau envelope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer.arrays import Array, namespace
from mercer.losses import numerics
from mercer.losses.base import Loss


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
        return numerics.indicator(bent, u) / self.width

    def conjugate(self, y: Array, u: Array) -> Array:
        return self.base.conjugate(y, u) + 0.5 * self.width * u**2

    def domain(self, y: Array) -> tuple[Any, Any]:
        return self.base.domain(y)

    def check_targets(self, y: Any) -> Array:
        return self.base.check_targets(y)
