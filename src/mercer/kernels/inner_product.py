"""Kernels of the inner product and the norms, and constants."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from mercer.checks import check_count, check_finite, check_nonnegative
from mercer.evaluation.expression import (
    Expression,
    Operation,
    Parameter,
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
    tanh,
)
from mercer.kernels.base import Kernel, checked
from mercer.kernels.facts import Answer, Facts, constant_facts, no, yes
from mercer.points import ALL_COLUMNS, PointSet, VectorPoints, View

UNIT = View(unit=True)

POLYNOMIALS: dict[str, Answer] = {  # facts of kernels whose functions are polynomials
    "finite_features": yes("it is the inner product of finitely many monomials"),
    "bounded": no("k(x, x) grows like a polynomial of x"),
    "sobolev_order": yes("its functions are polynomials", math.inf),
}


@dataclass(frozen=True, eq=False, repr=False)
class Constant(Kernel):
    """The constant kernel, k(x, y) = c: its functions are the constants.

    Parameters
    ----------
    value : float, default=1.0
        c ≥ 0.

    Examples
    --------
    >>> Constant(3.0)([1.0], [2.0])
    3.0
    """

    value: float = 1.0

    def __post_init__(self) -> None:
        check_nonnegative(self, "value", self.value, "a negative constant is not a kernel")

    def expression(self) -> Expression:
        return Parameter(float(self.value))

    def facts(self, dimension: int | None = None) -> Facts:
        return constant_facts(self, float(self.value), dimension)

    def feature_count(self, width: int) -> int | None:
        return 1

    def features(self, x: PointSet) -> np.ndarray:
        return np.full((len(x), 1), math.sqrt(self.value))


@dataclass(frozen=True, eq=False, repr=False)
class Linear(Kernel):
    """The linear kernel, ⟨x, y⟩ + b: inner products of (x, √b).

    Parameters
    ----------
    bias : float, default=0.0
        b ≥ 0.

    Examples
    --------
    >>> Linear(bias=1.0)([1.0, 2.0], [3.0, 4.0])
    12.0
    """

    bias: float = 0.0
    checks = checked(bias=check_nonnegative)

    def expression(self) -> Expression:
        return product() + self.bias if self.bias else product()

    def facts(self, dimension: int | None = None) -> Facts:
        return super().facts(dimension).stating(**POLYNOMIALS, separates=True)

    def feature_count(self, width: int) -> int | None:
        return width + bool(self.bias)

    def features(self, x: PointSet) -> np.ndarray:
        return _with_bias(x, self.bias)


@dataclass(frozen=True, eq=False, repr=False)
class Polynomial(Kernel):
    """The polynomial kernel, (⟨x, y⟩ + b)^r.

    With b = 0 its features are the monomials of degree r, with b > 0 those of degree up to r.

    Parameters
    ----------
    degree : int, default=2
        r ≥ 1.
    bias : float, default=1.0
        b ≥ 0. scikit-learn's (γ⟨x, y⟩ + c)^r is γ^r · Polynomial(r, c/γ).

    Examples
    --------
    >>> Polynomial(degree=3, bias=0.0)([1.0, 1.0], [1.0, 1.0])
    8.0
    """

    degree: int = 2
    bias: float = 1.0

    def __post_init__(self) -> None:
        check_count(self, "degree", self.degree)
        check_nonnegative(
            self, "bias", self.bias, "a negative bias is not positive definite in general"
        )

    def expression(self) -> Expression:
        return Linear(self.bias).expression() ** int(self.degree)

    def facts(self, dimension: int | None = None) -> Facts:
        odd = self.bias > 0 or self.degree % 2 == 1  # an even power does not tell x from −x
        return super().facts(dimension).stating(**POLYNOMIALS, separates=odd)

    def feature_count(self, width: int) -> int | None:
        return math.comb(width + bool(self.bias) + self.degree - 1, self.degree)

    def features(self, x: PointSet) -> np.ndarray:
        """Monomials of (x, √b) of degree r, each times the root of its multinomial coefficient.

        They have the precision of x, or float64 where they are beyond the range of float32.
        """
        rows = _with_bias(x, self.bias)
        single, rows = rows.dtype == np.float32, rows.astype(np.float64)
        columns = []
        for chosen in combinations_with_replacement(range(rows.shape[1]), int(self.degree)):
            repeats = math.prod(math.factorial(count) for count in Counter(chosen).values())
            scale = math.sqrt(math.factorial(self.degree) / repeats)
            columns.append(scale * np.prod(rows[:, chosen], axis=1))
        features = np.stack(columns, axis=1)
        largest, single_range = np.abs(features).max(initial=0.0), np.finfo(np.float32)
        least = single_range.tiny / single_range.eps  # below it digits of smaller ones are lost
        fits = single and (largest == 0.0 or least < largest < single_range.max)
        return features.astype(np.float32) if fits else features


def _with_bias(x: PointSet, bias: float) -> np.ndarray:
    assert isinstance(x, VectorPoints)
    rows = x.seen(ALL_COLUMNS, x.dtype)
    if not bias:
        return rows
    return np.column_stack([rows, np.full(len(rows), math.sqrt(bias), rows.dtype)])


@dataclass(frozen=True, eq=False, repr=False)
class Sigmoid(Kernel):
    """tanh(a⟨x, y⟩ + b), which is not positive definite: for those who replace scikit-learn's.

    Parameters
    ----------
    scale : float, default=1.0
        a.
    bias : float, default=0.0
        b.

    Examples
    --------
    >>> import math
    >>> math.isclose(Sigmoid()([1.0], [2.0]), math.tanh(2.0))
    True
    """

    scale: float = 1.0
    bias: float = 0.0
    checks = checked(scale=check_finite, bias=check_finite)

    def expression(self) -> Expression:
        return tanh(float(self.scale) * product() + float(self.bias))

    def facts(self, dimension: int | None = None) -> Facts:
        if self.scale == 0 and self.bias >= 0:
            return constant_facts(self, math.tanh(self.bias), dimension)
        taylor = "tanh(a·t + b) has a negative Taylor coefficient in t, and f(⟨x,y⟩) may have none"
        changes = no("k(x, x) = tanh(a‖x‖² + b) changes with x")
        constant = yes("with scale 0 it is constant")
        largest = yes("k(x, x) is largest at 0", math.tanh(self.bias))
        return Facts(
            self,
            dimension,
            positive_definite=no("k(0, 0) = tanh(bias) is negative" if self.bias < 0 else taylor),
            stationary=changes if self.scale else constant,
            isotropic=constant,
            bounded=yes("tanh tends to 1", 1.0) if self.scale > 0 else largest,
        )


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
    positive_definite = "it is the mean of products Θ(⟨w,x⟩)Θ(⟨w,y⟩) over random w"

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
        growing = no(f"k(x, x) is a multiple of ‖x‖^{2 * n}")
        return Facts(
            self,
            dimension,
            stationary=no("it depends on the angle between x and y, which a shift changes"),
            bounded=growing if n else yes("k(x, x) = 1, and ½ at 0", 1.0),
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
