"""Kernels that are sums or products over coordinates, or functions of such."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import check_lengthscale, check_positive
from mercer.evaluation.expression import (
    Expression,
    X,
    Y,
    absolute,
    coordinate_product,
    coordinate_sum,
    decay,
    exp,
    log,
    maximum,
    minimum,
    reciprocal_root,
    sqrt,
    squared_distance,
)
from mercer.kernels.base import Kernel, checked
from mercer.kernels.facts import UNIT_DIAGONAL, Answer, Facts, no, yes
from mercer.kernels.inner_product import POLYNOMIALS
from mercer.kernels.measures import CauchyFrequencies, LaplaceFrequencies
from mercer.kernels.radial import DECAYING, SMOOTH, Lengthscale, column_scales, scaled_view
from mercer.points import PointSet

# A number that float32 has: added, it keeps 0/0 at 0 and is lost in any other sum; below it r^β is
# as good as r·LEAST_COORDINATE^{β−1}.
LEAST_COORDINATE = 1e-37
FROM_ZERO = "Measure from the smallest value: X - X.min(axis=0)."
MINIMUM = "min(x, y) is the inner product of the indicators of [0, x] and [0, y]"


def common_scale(lengthscale: Any) -> float:
    """1/ℓ where there is one ℓ for all columns, else 1: the view has divided already."""
    return 1.0 if np.ndim(lengthscale) else 1.0 / float(lengthscale)


def order_in_each_column(order: int, dimension: int) -> Answer:
    """Sobolev spaces of products over columns: only one column has one."""
    if dimension == 1:
        return yes(f"its norm is made of derivatives up to order {order}", float(order))
    return no(f"it has mixed smoothness: order {order} in each column, which no Sobolev space has")


class _DecayingProduct(Kernel):
    """Products over columns of functions of x_k − y_k with a positive spectral density."""

    lengthscale: Lengthscale
    frequencies: type
    positive_definite = (
        "it is a product of kernels with a positive spectral density, one for each column"
    )

    def __post_init__(self) -> None:
        check_lengthscale(self, self.lengthscale)

    def facts(self, dimension: int | None = None) -> Facts:
        one = np.shape(self.lengthscale) == (1,)
        line = yes("in one column it is a function of |x − y|")
        name = self.frequencies.__name__.removesuffix("Frequencies")
        return Facts(
            self,
            dimension,
            stationary=yes("it is a function of the differences x_k − y_k"),
            isotropic=line if one else no("beyond one column its level sets are not spheres"),
            spectral_density=lambda d: yes(
                f"its frequencies are independent {name} variables",
                self.frequencies(d, 1.0, column_scales(self, d)),
            ),
            **DECAYING,
        )


@dataclass(frozen=True, eq=False, repr=False)
class Laplacian(_DecayingProduct):
    """The Laplacian kernel, exp(−Σ_k |x_k − y_k|/ℓ_k): a product of exponential kernels.

    Its spectral measure has independent Cauchy frequencies. scikit-learn's `gamma` is 1/ℓ.

    Parameters
    ----------
    lengthscale : float or sequence of floats, default=1.0
        ℓ, or one ℓ for each column.

    Examples
    --------
    >>> import math
    >>> Laplacian(2.0)([0.0, 0.0], [1.0, 1.0]) == math.exp(-1.0)
    True
    """

    lengthscale: Lengthscale = 1.0
    frequencies = CauchyFrequencies

    def expression(self) -> Expression:
        distance = coordinate_sum(absolute(X - Y), scaled_view(self.lengthscale))
        return decay(common_scale(self.lengthscale) * distance)

    def facts(self, dimension: int | None = None) -> Facts:
        return super().facts(dimension).stating(sobolev_order=lambda d: order_in_each_column(1, d))


@dataclass(frozen=True, eq=False, repr=False)
class Cauchy(_DecayingProduct):
    """The product Cauchy kernel, Π_k 1/(1 + (x_k − y_k)²/ℓ_k²).

    Its spectral measure has independent Laplace frequencies. For one column it is the rational
    quadratic kernel with α = 1 and √2·ℓ; for more columns the two differ.

    Parameters
    ----------
    lengthscale : float or sequence of floats, default=1.0
        ℓ, or one ℓ for each column.

    Examples
    --------
    >>> Cauchy()([0.0, 0.0], [1.0, 1.0])
    0.25
    """

    lengthscale: Lengthscale = 1.0
    frequencies = LaplaceFrequencies

    def expression(self) -> Expression:
        scale = common_scale(self.lengthscale) ** 2
        view = scaled_view(self.lengthscale)
        return 1.0 / coordinate_product(1.0 + scale * (X - Y) ** 2, view)

    def facts(self, dimension: int | None = None) -> Facts:
        return super().facts(dimension).stating(sobolev_order=SMOOTH)


@dataclass(frozen=True, eq=False, repr=False)
class StretchedExponential(Kernel):
    """The stretched exponential kernel, exp(−(‖x − y‖_p/ℓ)^β) with p = 1 or 2.

    β = 1 is the Laplacian kernel (p = 1) or the exponential kernel (p = 2). A smaller β has a
    sharper peak and heavier tails: it suits tables whose targets jump. It is positive definite, as
    ‖x − y‖_p^p is conditionally negative definite for p ≤ 2 and stays so under powers up to 1.

    Parameters
    ----------
    exponent : float, default=0.5
        0 < β ≤ p. For ¼, ½, ¾ and 1 the power is made of square roots, which cost little.
    lengthscale : float or sequence of floats, default=1.0
        ℓ, or one ℓ for each column.
    norm : {1, 2}, default=1
        p.

    References
    ----------
    I. J. Schoenberg, Metric spaces and positive definite functions, 1938.

    Examples
    --------
    >>> from mercer.kernels import Laplacian
    >>> x, y = [0.0, 0.0], [1.0, 3.0]
    >>> StretchedExponential(1.0, lengthscale=2.0)(x, y) == Laplacian(2.0)(x, y)
    True
    """

    exponent: float = 0.5
    lengthscale: Lengthscale = 1.0
    norm: int = 1
    positive_definite = "‖x − y‖^β is conditionally negative definite (Schoenberg)"

    def __post_init__(self) -> None:
        check_lengthscale(self, self.lengthscale)
        if self.norm not in (1, 2):
            raise ValueError(f"StretchedExponential needs norm=1 or norm=2; got {self.norm!r}.")
        check_positive(self, "exponent", self.exponent)
        if self.exponent > self.norm:
            raise ValueError(
                f"StretchedExponential is positive definite for an exponent of at most {self.norm} "
                f"with norm={self.norm}; got {self.exponent!r}."
            )

    def expression(self) -> Expression:
        view, scale = scaled_view(self.lengthscale), common_scale(self.lengthscale)
        if self.norm == 1:
            return decay(_power(scale * coordinate_sum(absolute(X - Y), view), self.exponent))
        return decay(_power(sqrt(scale**2 * squared_distance(view)), self.exponent))

    def facts(self, dimension: int | None = None) -> Facts:
        euclidean = self.norm == 2 and len(set(np.ravel(self.lengthscale).tolist())) == 1
        spherical = yes("it is a function of ‖x − y‖")
        others = no("its level sets are not spheres")
        return Facts(
            self,
            dimension,
            stationary=yes("it is a function of the differences x_k − y_k"),
            isotropic=spherical if euclidean or dimension == 1 else others,
            **DECAYING,
        )


def _power(r: Expression, exponent: float) -> Expression:
    """r^β: by square roots for multiples of ¼ up to 1, else by r·e^{(β−1) log r}, 0 at 0."""
    root = sqrt(r)
    by_roots = {0.25: sqrt(root), 0.5: root, 0.75: root * sqrt(root), 1.0: r}
    if exponent in by_roots:
        return by_roots[exponent]
    return r * exp((float(exponent) - 1.0) * log(maximum(r, LEAST_COORDINATE)))


@dataclass(frozen=True, eq=False, repr=False)
class AllSubsets(Kernel):
    """The all-subsets kernel, Π_k (1 + x_k y_k) = Σ_{S ⊆ columns} Π_{k∈S} x_k y_k.

    Its features are the 2^d products over subsets of columns; a pair costs d operations.

    Examples
    --------
    >>> AllSubsets()([1.0, 2.0], [3.0, 4.0])  # 1 + 3 + 8 + 24
    36.0
    """

    def expression(self) -> Expression:
        return coordinate_product(1.0 + X * Y)

    def facts(self, dimension: int | None = None) -> Facts:
        return super().facts(dimension).stating(**POLYNOMIALS, separates=True)


def _least_entry(points: PointSet) -> float:
    rows: Any = points.data
    values = rows.data if hasattr(rows, "indptr") else rows
    return float(values.min()) if 0 not in values.shape else 0.0


class _Nonnegative(Kernel):
    """Kernels on vectors without negative entries."""

    _advice = "Histograms and counts are; standardised columns are not."

    def check_points(self, points: PointSet) -> None:
        least = _least_entry(points)
        if least < 0:
            raise ValueError(
                f"{type(self).__name__} is a kernel on nonnegative values; the points contain "
                f"{least}. {self._advice}"
            )


@dataclass(frozen=True, eq=False, repr=False)
class ChiSquared(_Nonnegative):
    """The χ² kernel on histograms, exp(−γ Σ_k (x_k − y_k)²/(x_k + y_k)), entries being ≥ 0.

    Terms with x_k + y_k = 0 count as 0.

    Parameters
    ----------
    gamma : float, default=1.0
        γ > 0, as in scikit-learn's `chi2_kernel`.

    Examples
    --------
    >>> import math
    >>> ChiSquared()([1.0, 0.0], [0.0, 1.0]) == math.exp(-2.0)
    True
    """

    gamma: float = 1.0
    positive_definite = (
        "4xy/(x+y) is positive definite on x ≥ 0, and (x−y)²/(x+y) = x + y − 4xy/(x+y)"
    )
    checks = checked(gamma=check_positive)

    def expression(self) -> Expression:
        x, y = X + LEAST_COORDINATE, Y + LEAST_COORDINATE
        gap = x - y
        return decay(float(self.gamma) * coordinate_sum(gap * (gap / (x + y))))

    def facts(self, dimension: int | None = None) -> Facts:
        shrinks = no("(x − y)²/(x + y) shrinks when both are shifted away from 0")
        return Facts(self, dimension, stationary=shrinks, positive_values=True, **UNIT_DIAGONAL)


@dataclass(frozen=True, eq=False, repr=False)
class HistogramIntersection(_Nonnegative):
    """The intersection of two histograms, Σ_k min(x_k, y_k), for entries ≥ 0.

    References
    ----------
    Barla, Odone, Verri, Histogram intersection kernel for image classification, 2003.

    Examples
    --------
    >>> HistogramIntersection()([3.0, 0.0, 1.0], [1.0, 2.0, 1.0])
    2.0
    """

    positive_definite = MINIMUM

    def expression(self) -> Expression:
        return coordinate_sum(minimum(X, Y))

    def facts(self, dimension: int | None = None) -> Facts:
        return Facts(self, dimension, bounded=no("k(x, x) = Σ x_k grows with x"))


@dataclass(frozen=True, eq=False, repr=False)
class AdditiveChiSquared(_Nonnegative):
    """The additive χ² kernel on histograms, Σ_k 2 x_k y_k/(x_k + y_k), entries being ≥ 0.

    `ChiSquared` is the exponential of its distance. Terms with x_k + y_k = 0 count as 0.

    References
    ----------
    Vedaldi, Zisserman, Efficient additive kernels via explicit feature maps, 2012.

    Examples
    --------
    >>> AdditiveChiSquared()([1.0, 0.0], [1.0, 5.0])
    1.0
    """

    positive_definite = "2xy/(x + y) = ∫ 2(xe^{−tx})(ye^{−ty})dt is a mixture of products"

    def expression(self) -> Expression:
        x, y = X + LEAST_COORDINATE, Y + LEAST_COORDINATE
        return coordinate_sum(2.0 * (x * (y / (x + y))))

    def facts(self, dimension: int | None = None) -> Facts:
        return Facts(self, dimension, bounded=no("k(x, x) = Σ x_k grows with x"))


@dataclass(frozen=True, eq=False, repr=False)
class SkewedChiSquared(Kernel):
    """The skewed χ² kernel, Π_k 2√(x_k + c)√(y_k + c)/(x_k + y_k + 2c) on x > −c.

    In t = log(x + c) it is Π_k 1/cosh((t_k − s_k)/2), whose Fourier transform is positive.

    Parameters
    ----------
    skewedness : float, default=1.0
        c > 0.

    References
    ----------
    Li, Ionescu, Sminchisescu, Random Fourier approximations for skewed multiplicative histogram
    kernels, 2010.

    Examples
    --------
    >>> SkewedChiSquared(1.0)([0.0], [3.0])  # 2·√1·√4/5
    0.8
    """

    skewedness: float = 1.0
    positive_definite = "it is a product of 1/cosh of differences of logarithms, which are such"
    checks = checked(skewedness=check_positive)

    def check_points(self, points: PointSet) -> None:
        least = _least_entry(points)
        if least <= -self.skewedness:
            raise ValueError(
                "Negative values in data: X may not contain entries smaller than -skewedness, and "
                f"SkewedChiSquared({self.skewedness!r}) got {least}."
            )

    def expression(self) -> Expression:
        c = float(self.skewedness)
        gap = X - Y
        return reciprocal_root(coordinate_product(1.0 + 0.25 * ((gap / (X + c)) * (gap / (Y + c)))))

    def facts(self, dimension: int | None = None) -> Facts:
        quotients = no("it is a function of quotients, not of differences")
        return Facts(self, dimension, stationary=quotients, positive_values=True, **UNIT_DIAGONAL)


@dataclass(frozen=True, eq=False, repr=False)
class Brownian(_Nonnegative):
    """The kernel of Brownian motion, Π_k min(x_k, y_k) on x ≥ 0.

    On [0, 1] its space holds the functions with f(0) = 0 and the norm (∫ f'²)^{1/2}.

    Examples
    --------
    >>> Brownian()([2.0], [3.0])
    2.0
    """

    _advice = FROM_ZERO
    positive_definite = MINIMUM

    def expression(self) -> Expression:
        return coordinate_product(minimum(X, Y))

    def facts(self, dimension: int | None = None) -> Facts:
        return Facts(
            self,
            dimension,
            bounded=POLYNOMIALS["bounded"],
            universal=no("its functions are 0 wherever a column is 0"),
            sobolev_order=no("its functions are those of order 1 in each column that are 0 at 0"),
        )


@dataclass(frozen=True, eq=False, repr=False)
class Spline(_Nonnegative):
    """The cubic spline kernel, Π_k (1 + mM + m²M/2 − m³/6), m = min(x_k, y_k), M = max(x_k, y_k).

    For one column on [0, 1] it is the kernel with the norm f(0)² + f'(0)² + ∫ f''², whose
    minimum-norm interpolants are cubic splines.

    References
    ----------
    Wahba, Spline Models for Observational Data, 1990, chapter 1.

    Examples
    --------
    >>> Spline()([0.0], [5.0])
    1.0
    """

    _advice = FROM_ZERO
    positive_definite = "each factor is 1 + xy + ∫(x−u)₊(y−u)₊du, an inner product"

    def expression(self) -> Expression:
        # xy + x²y/2 − x³/6 is right where x ≤ y; less it with x, y exchanged it is (y − x)³/6
        left, right = (
            a * (0.5 * b**2 + b) + (1.0 - (1.0 / 6.0) * b**3) for a, b in ((Y, X), (X, Y))
        )
        return coordinate_product(maximum(left, right))

    def facts(self, dimension: int | None = None) -> Facts:
        dense = "for each column its space holds every function with two continuous derivatives"
        return Facts(
            self,
            dimension,
            bounded=POLYNOMIALS["bounded"],
            universal=yes(dense),
            sobolev_order=lambda d: order_in_each_column(2, d),
        )
