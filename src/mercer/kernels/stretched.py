"""The stretched exponential kernel, exp(−(‖x − y‖/ℓ)^β), in two norms."""

from __future__ import annotations

from dataclasses import dataclass

from mercer.checks import check_lengthscale, check_positive
from mercer.evaluation.expression import (
    Expression,
    X,
    Y,
    absolute,
    coordinate_sum,
    decay,
    exp,
    log,
    maximum,
    sqrt,
    squared_distance,
)
from mercer.kernels.base import Kernel
from mercer.kernels.coordinates import common_scale, scaled_view
from mercer.kernels.facts import Facts, no, yes
from mercer.kernels.radial import DECAYING, Lengthscale

TINY = 1e-37  # a distance that float32 has, below which r^β is as good as r·TINY^{β−1}


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
        known = super().facts(dimension)
        euclidean = self.norm == 2 and len(set(_listed(self.lengthscale))) == 1
        return known.stating(
            positive_definite=yes("‖x − y‖^β is conditionally negative definite (Schoenberg)"),
            stationary=yes("it is a function of the differences x_k − y_k"),
            isotropic=yes("it is a function of ‖x − y‖")
            if euclidean or dimension == 1
            else no("its level sets are not spheres"),
            **DECAYING,
        )


def _listed(lengthscale: Lengthscale) -> list[float]:
    return [lengthscale] if isinstance(lengthscale, (int, float)) else list(lengthscale)


def _power(r: Expression, exponent: float) -> Expression:
    """r^β: by square roots for multiples of ¼ up to 1, else by r·e^{(β−1) log r}, 0 at 0."""
    root = sqrt(r)
    by_roots = {0.25: sqrt(root), 0.5: root, 0.75: root * sqrt(root), 1.0: r}
    if exponent in by_roots:
        return by_roots[exponent]
    return r * exp((float(exponent) - 1.0) * log(maximum(r, TINY)))
