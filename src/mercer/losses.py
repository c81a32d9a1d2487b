"""Losses: how bad a prediction f is when the answer is y.

One convention for the whole library: mercer minimises

    (1/Σw) Σ_i w_i ℓ(y_i, f(x_i)) + (λ/2) ‖f‖²,

with ℓ = ½(y − f)² for the square loss, so that ridge regression is (K + nλI)α = y.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mercer.arrays import Array


@runtime_checkable
class Loss(Protocol):
    """What a loss owes, entry by entry, for arrays of any namespace.

    `check_loss` of `mercer.testing` will hold every loss to these sentences.
    """

    def value(self, y: Array, f: Array) -> Array:
        """ℓ(y, f), convex in f."""

    def slope(self, y: Array, f: Array) -> Array:
        """∂ℓ/∂f, a subgradient at kinks."""

    def curvature(self, y: Array, f: Array) -> Array:
        """∂²ℓ/∂f², 0 where the loss is straight."""

    def conjugate(self, y: Array, u: Array) -> Array:
        """ℓ*(y, u) = sup_f uf − ℓ(y, f), +∞ outside its domain."""


@dataclass(frozen=True)
class Squared:
    """The square loss, ½(y − f)².

    >>> Squared().value(3.0, 1.0)
    2.0
    """

    def value(self, y: Array, f: Array) -> Array:
        return 0.5 * (y - f) ** 2

    def slope(self, y: Array, f: Array) -> Array:
        return f - y

    def curvature(self, y: Array, f: Array) -> Array:
        return 0.0 * f + 1.0

    def conjugate(self, y: Array, u: Array) -> Array:
        return 0.5 * u**2 + y * u
