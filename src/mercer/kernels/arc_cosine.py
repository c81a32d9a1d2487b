"""Kernels of infinitely wide one-layer networks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mercer.evaluation.expression import (
    Expression,
    Operation,
    X,
    Y,
    absolute,
    arcsin,
    coordinate_sum,
    lengths,
    maximum,
    minimum,
    product,
    ramp_angle,
    sqrt,
    square_angle,
    squared_distance,
    squared_norms,
    step,
)
from mercer.kernels.base import Kernel
from mercer.kernels.facts import Facts, no, yes
from mercer.points import View

UNIT = View(unit=True)


@dataclass(frozen=True, eq=False, repr=False)
class ArcCosine(Kernel):
    """The arc-cosine kernel of order n, 2 E[Θ_n(⟨w,x⟩) Θ_n(⟨w,y⟩)] for w ~ N(0, I).

    Θ_0 is a step, Θ_1 a ramp (ReLU), Θ_2 a squared ramp. With θ the angle between x and y it is
    (1/π) ‖x‖^n ‖y‖^n J_n(θ):  J_0 = π − θ,  J_1 = sin θ + (π − θ) cos θ,
    J_2 = 3 sin θ cos θ + (π − θ)(1 + 2 cos² θ).

    J_1 and J_2 are smooth in cos θ = ⟨u, v⟩, with u = x/‖x‖ and v = y/‖y‖. The angle itself, for
    n = 0, comes from ‖u − v‖ and ‖u + v‖, so that it is right near 0 and π too. A point at 0 is at
    a right angle to all others; the gradient there is the mean of all directions, y/2 for n = 1 and
    0 for n = 2, and counts as 0 for n = 0, where k jumps.

    Parameters
    ----------
    order : {0, 1, 2}, default=1
        n.

    References
    ----------
    Cho and Saul, Kernel Methods for Deep Learning, 2009.

    Examples
    --------
    >>> import math
    >>> math.isclose(ArcCosine(0)([1.0, 0.0], [0.0, 2.0]), 0.5)
    True
    """

    order: int = 1

    def __post_init__(self) -> None:
        if self.order not in (0, 1, 2):
            raise ValueError(f"ArcCosine has order 0, 1 or 2; got {self.order!r}.")

    def expression(self) -> Expression:
        if self.order == 0:
            return self._step_value().with_slopes_of((1.0 / math.pi) * self._rest()[0])
        x, y = lengths()
        area, cosine = x * y, product(UNIT)
        slopes = self._by_angle(area)
        # J of the smaller one of θ and π − θ, of which this is the sine of the half
        root = sqrt(maximum(0.5 - 0.5 * absolute(cosine), 0.0))
        if self.order == 1:
            value = maximum(cosine, 0.0) + (2.0 / math.pi) * ramp_angle(root)
            return (area * value).with_slopes_of(slopes)
        beside = (2.0 / math.pi) * square_angle(root)
        value = step(cosine) * (1.0 + 2.0 * cosine**2 - 2.0 * beside) + beside
        return (area**2 * value).with_slopes_of(slopes)

    def facts(self, dimension: int | None = None) -> Facts:
        n = self.order
        known = super().facts(dimension)
        return known.stating(
            positive_definite=yes("it is the mean of products Θ(⟨w,x⟩)Θ(⟨w,y⟩) over random w"),
            stationary=no("it depends on the angle between x and y, which a shift changes"),
            bounded=no(f"k(x, x) is a multiple of ‖x‖^{2 * n}")
            if n
            else yes("k(x, x) = 1, and ½ at 0", 1.0),
            universal=no(f"its functions are homogeneous, f(tx) = t^{n} f(x) for t > 0"),
        )

    def _step_value(self) -> Operation:
        """1 − θ/π from the smaller one of ‖u − v‖² and ‖u + v‖²: 4 sin² of half an angle."""
        apart, together = squared_distance(UNIT), coordinate_sum((X + Y) ** 2, UNIT)
        x, y = squared_norms(UNIT)  # 1, or 0 for a point at 0, where both sums are halved
        share = minimum(apart, together) * (0.75 - 0.25 * (x + y))
        turn = (2.0 / math.pi) * arcsin(sqrt(share))
        return turn + step(together - apart) * (1.0 - 2.0 * turn)

    def _rest(self) -> tuple[Expression, Expression, Expression]:
        """π − θ, cos θ and sin θ, right near 0 and π too."""
        apart, together = squared_distance(UNIT), coordinate_sum((X + Y) ** 2, UNIT)
        # the share of the smaller one, sin² of half an angle; both add up to 4, or 2 beside a 0
        share = 0.25 * minimum(apart, together) * (3.0 - 0.5 * (apart + together))
        half = arcsin(sqrt(share))
        rest = 2.0 * half + step(together - apart) * (math.pi - 4.0 * half)
        return rest, 0.25 * (together - apart), 2.0 * sqrt(share - share**2)

    def _by_angle(self, area: Expression) -> Expression:
        """The formula in π − θ, cos θ and sin θ, whose slopes are right everywhere."""
        rest, cosine, sine = self._rest()
        if self.order == 1:
            inner = (area * cosine).with_slopes_of(product())  # which are right at the origin too
            return (1.0 / math.pi) * (area * sine + rest * inner)
        tail = rest * (1.0 + 2.0 * cosine**2)
        return (1.0 / math.pi) * area**2 * (3.0 * (sine * cosine) + tail)
