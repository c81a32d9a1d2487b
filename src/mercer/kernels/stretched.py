"""The stretched exponential kernel, exp(−(‖x − y‖/ℓ)^β), in two norms."""

from __future__ import annotations

from dataclasses import dataclass

from mercer.checks import check_lengthscale
from mercer.evaluation.expression import (
    Expression,
    X,
    Y,
    absolute,
    coordinate_sum,
    decay,
    sqrt,
    squared_distance,
)
from mercer.kernels.base import Kernel
from mercer.kernels.coordinates import common_scale, scaled_view
from mercer.kernels.facts import Facts, no, yes
from mercer.kernels.radial import DECAYING, Lengthscale

EXPONENTS = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class StretchedExponential(Kernel):
    """The stretched exponential kernel, exp(−(‖x − y‖_p/ℓ)^β) with p = 1 or 2.

    β = 1 is the Laplacian kernel (p = 1) or the exponential kernel (p = 2). A smaller β has a
    sharper peak and heavier tails: it suits tables whose targets jump. It is positive definite, as
    ‖x − y‖_p is conditionally negative definite for p ≤ 2 and stays so under powers up to 1.

    Parameters
    ----------
    exponent : {0.25, 0.5, 0.75, 1.0}, default=0.5
        β; these are square roots, which cost little.
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
        if self.exponent not in EXPONENTS:
            raise ValueError(
                f"StretchedExponential needs an exponent of {EXPONENTS}; got {self.exponent!r}."
            )
        if self.norm not in (1, 2):
            raise ValueError(f"StretchedExponential needs norm=1 or norm=2; got {self.norm!r}.")

    def expression(self) -> Expression:
        view, scale = scaled_view(self.lengthscale), common_scale(self.lengthscale)
        if self.norm == 1:
            return decay(_quarters(scale * coordinate_sum(absolute(X - Y), view), self.exponent))
        return decay(_quarters(sqrt(scale**2 * squared_distance(view)), self.exponent))

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


def _quarters(r: Expression, exponent: float) -> Expression:
    """r^β for β a multiple of ¼, by square roots."""
    root = sqrt(r)
    return {0.25: lambda: sqrt(root), 0.5: lambda: root, 0.75: lambda: root * sqrt(root)}.get(
        exponent, lambda: r
    )()
