"""Penalties on f: a squared norm, a ball, any function of the norm, or ℓ1 on coefficients.

A penalty is convex in the coefficients v. It is given v and the squared norms q_k = v_kᵀPv_k of the
outputs, and in the dual problem z = Aᵀ(pu) and the squares z_kᵀP⁻¹z_k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mercer.arrays import Array, namespace
from mercer.checks import check_positive


class Penalty(Protocol):
    """A convex function of the coefficients, and its conjugate."""

    def value(self, v: Array, squares: Sequence[float]) -> float:
        """The penalty at coefficients v, whose outputs have these squared norms."""

    def conjugate(self, pull: Array, squares: Sequence[float]) -> float:
        """sup over v of zᵀv − penalty(v), for z = `pull`."""


@dataclass(frozen=True)
class SquaredNorm:
    """(λ/2)‖f‖², with one λ ≥ 0 or one for each output.

    >>> SquaredNorm(0.5).value(None, [4.0]), SquaredNorm(0.5).conjugate(None, [4.0])
    (1.0, 4.0)
    """

    strength: Any

    def __post_init__(self) -> None:
        try:
            values = np.asarray(self.strength, np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"regularization must be a number λ or a penalty; got {self.strength!r}."
            ) from None
        if values.ndim > 1 or not (np.isfinite(values).all() and (values >= 0).all()):
            raise ValueError(f"regularization must be nonnegative and finite; got {self.strength}.")

    def value(self, v: Array, squares: Sequence[float]) -> float:
        return 0.5 * sum(s * q for s, q in zip(self._each(squares), squares, strict=True))

    def conjugate(self, pull: Array, squares: Sequence[float]) -> float:
        pairs = list(zip(self._each(squares), squares, strict=True))
        if any(strength == 0.0 and q > 0.0 for strength, q in pairs):
            return math.inf
        return 0.5 * sum(q / strength for strength, q in pairs if strength > 0.0)

    def _each(self, squares: Sequence[float]) -> list[float]:
        return np.broadcast_to(np.asarray(self.strength, np.float64), len(squares)).tolist()


@dataclass(frozen=True)
class Ball:
    """‖f‖ ≤ D, summed over outputs, in place of a penalty.

    >>> Ball(2.0).value(None, [4.0]), Ball(2.0).conjugate(None, [9.0])
    (0.0, 6.0)
    """

    radius: float

    def __post_init__(self) -> None:
        check_positive(self, "radius", self.radius)

    def value(self, v: Array, squares: Sequence[float]) -> float:
        """0 inside, up to the rounding of a norm."""
        return 0.0 if sum(squares) <= self.radius**2 * (1.0 + 1e-6) else math.inf

    def conjugate(self, pull: Array, squares: Sequence[float]) -> float:
        return self.radius * math.sqrt(max(sum(squares), 0.0))


@dataclass(frozen=True)
class L1:
    """μ Σ_j |v_j|, by which most coefficients become 0.

    >>> L1(0.5).value(np.array([1.0, -3.0]), [0.0])
    2.0
    """

    strength: float

    def __post_init__(self) -> None:
        check_positive(self, "strength", self.strength)

    def value(self, v: Array, squares: Sequence[float]) -> float:
        xp = namespace(v)
        return self.strength * float(xp.sum(xp.abs(v)))

    def conjugate(self, pull: Array, squares: Sequence[float]) -> float:
        """0 where |z| ≤ μ in every entry, up to rounding."""
        xp = namespace(pull)
        largest = float(xp.max(xp.abs(pull)))
        return 0.0 if largest <= self.strength * (1.0 + 1e-12) else math.inf
