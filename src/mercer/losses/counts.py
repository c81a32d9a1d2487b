"""The loss of counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mercer.arrays import Array, floating
from mercer.checks import check_step, finite_targets, refuse_targets
from mercer.losses.base import Loss
from mercer.losses.numerics import (
    aligned,
    exponential,
    exponential_root,
    like,
    negative_entropy,
)


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

    def value(self, y: Array, f: Array) -> Array:
        _, y, f = aligned(y, f)
        return exponential(f) - y * f

    def slope(self, y: Array, f: Array) -> Array:
        _, y, f = aligned(y, f)
        return exponential(f) - y

    def curvature(self, y: Array, f: Array) -> Array:
        _, _, f = aligned(y, f)
        return exponential(f)

    def conjugate(self, y: Array, u: Array) -> Array:
        """v log v − v with v = u + y ≥ 0."""
        xp, y, u = aligned(y, u)
        v = xp.clip(u + y, min=0.0)
        return xp.where(u >= -y, negative_entropy(v) - v, math.inf)

    def domain(self, y: Array) -> tuple[Any, Any]:
        return -floating(y), math.inf

    def proximal(self, y: Array, f: Array, step: Array) -> Array:
        """a − ω(a + log step) with a = f + step·y and Wright's ω."""
        check_step(self, step)
        xp, y, f = aligned(y, f)
        step = like(step, f)
        return exponential_root(f + step * y, step, xp.zeros_like(f))

    def check_targets(self, y: Array) -> None:
        y = finite_targets(self, y)
        refuse_targets(self, y, y < 0, "counts y ≥ 0", "Shift or drop negative targets.")

    def mean(self, f: Array) -> Array:
        """e^f, the expected count."""
        return exponential(f)
