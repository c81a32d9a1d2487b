"""Kernels of the inner product, and constants."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from mercer.checks import check_count, check_finite, check_nonnegative
from mercer.evaluation.expression import Expression, Parameter, product, tanh
from mercer.kernels.base import Kernel
from mercer.kernels.facts import Answer, Facts, constant_facts, no, yes
from mercer.points import ALL_COLUMNS, PointSet, VectorPoints

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

    def __post_init__(self) -> None:
        check_nonnegative(self, "bias", self.bias)

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

    def __post_init__(self) -> None:
        check_finite(self, "scale", self.scale)
        check_finite(self, "bias", self.bias)

    def expression(self) -> Expression:
        return tanh(float(self.scale) * product() + float(self.bias))

    def facts(self, dimension: int | None = None) -> Facts:
        if self.scale == 0 and self.bias >= 0:
            return constant_facts(self, math.tanh(self.bias), dimension)
        taylor = "tanh(a·t + b) has a negative Taylor coefficient in t, and f(⟨x,y⟩) may have none"
        negative = "k(0, 0) = tanh(bias) is negative"
        changes = no("k(x, x) = tanh(a‖x‖² + b) changes with x")
        known = super().facts(dimension)
        return known.stating(
            positive_definite=no(negative if self.bias < 0 else taylor),
            stationary=changes if self.scale else yes("with scale 0 it is constant"),
            isotropic=yes("with scale 0 it is constant"),
            bounded=yes("tanh tends to 1", 1.0)
            if self.scale > 0
            else yes("k(x, x) is largest at 0", math.tanh(self.bias)),
        )
