"""Penalties on f: a squared norm, a ball, any function of the norm, or ℓ1 on coefficients.

A penalty is a function of the coefficients v, convex but where it says so. It is given v and the
squared norms q_k = v_kᵀPv_k of the outputs, and in the dual problem z = Aᵀ(pu) and the squares
z_kᵀP⁻¹z_k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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


class NormPenalty:
    """R(‖f‖²) for an increasing R, ‖f‖² being summed over outputs.

    A subclass owes R and its slope, and says whether r(s) = R(s²) is `convex`: then gaps certify.
    """

    convex: Any = False

    def of(self, square: float) -> float:
        """R(q)."""
        raise NotImplementedError

    def slope(self, square: float) -> float:
        """R′(q) ≥ 0, which may be infinite at 0."""
        raise NotImplementedError

    def value(self, v: Array, squares: Sequence[float]) -> float:
        return float(self.of(max(sum(squares), 0.0)))

    def conjugate(self, pull: Array, squares: Sequence[float]) -> float:
        """sup over s ≥ 0 of st − R(s²), t = ‖z‖; infinite, so no bound, where r is not convex.

        The root of r′(s) = 2sR′(s²) = t is found by bisection: r′ does not decrease.
        """
        t = math.sqrt(max(sum(squares), 0.0)) * (1.0 - 1e-12)  # up to the rounding of a norm
        if not self.convex:
            return math.inf
        low, high = 1e-150, 0.0
        if not self._reaches(low, t):
            high = 1.0
            while not self._reaches(high, t):
                high *= 2.0
                if high > 1e100:
                    return math.inf
            while low < (middle := math.sqrt(low) * math.sqrt(high)) < high:
                low, high = (low, middle) if self._reaches(middle, t) else (middle, high)
        return high * t - float(self.of(high * high))

    def largest_pull(self) -> float:
        """The largest ‖z‖ with a finite conjugate: the limit of r′(s) as s grows."""
        far = 1e75
        return 2.0 * far * float(self.slope(far * far))

    def _reaches(self, s: float, t: float) -> bool:
        return 2.0 * s * float(self.slope(s * s)) >= t


@dataclass(frozen=True)
class PowerOfNorm(NormPenalty):
    """μ‖f‖^p with p > 0, convex for p ≥ 1: p = 1 makes f vanish where μ is large.

    >>> PowerOfNorm(2.0, 3.0).value(None, [4.0])
    16.0
    """

    strength: float
    power: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self, "strength", self.strength)
        check_positive(self, "power", self.power)

    @property
    def convex(self) -> bool:
        return self.power >= 1

    def of(self, square: float) -> float:
        return self.strength * square ** (0.5 * self.power)

    def slope(self, square: float) -> float:
        half = 0.5 * self.power
        if square == 0 and half < 1:
            return math.inf
        return self.strength * half * square ** (half - 1.0)


@dataclass(frozen=True)
class OfNorm(NormPenalty):
    """R(‖f‖²) for an increasing function R of your own.

    Parameters
    ----------
    function, derivative : callables
        R and R′, of one number.
    convex : bool, default=False
        Whether s ↦ R(s²) is convex, which you state: then solutions are certified. Otherwise they
        are stationary points, and say so.

    Examples
    --------
    >>> cubed = OfNorm(lambda q: q**3, lambda q: 3 * q**2, convex=True)
    >>> cubed.value(None, [2.0])
    8.0
    """

    function: Callable[[float], float]
    derivative: Callable[[float], float]
    convex: bool = False

    def of(self, square: float) -> float:
        return _number(self.function, square)

    def slope(self, square: float) -> float:
        return _number(self.derivative, square)


def _number(function: Callable[[float], float], square: float) -> float:
    """The value of an increasing function, infinite beyond what float64 holds."""
    try:
        return float(function(square))
    except OverflowError:
        return math.inf


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
