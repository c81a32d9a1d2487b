"""Functions Σ α_i k(x_i, ·) + p with a polynomial p, of conditionally positive definite kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from numbers import Real
from typing import Any, Self

import numpy as np

from mercer.arrays import Array, as_numpy, floating, to_precision
from mercer.evaluation.program import EvaluableKernel
from mercer.functions.function import RKHSFunction
from mercer.points import PointSet, VectorPoints, View


@dataclass(frozen=True)
class Polynomials:
    """All monomials up to a degree, in columns that are shifted and scaled to −1, …, 1.

    Parameters
    ----------
    degree : int
        The largest total degree.
    shift, scale : tuple of floats
        Column j enters as (x_j − shift_j)/scale_j.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> points = Linear().points([[0.0, 1.0], [2.0, 5.0], [4.0, 3.0]])
    >>> Polynomials.around(points, degree=1)(points)
    array([[ 1., -1., -1.],
           [ 1.,  0.,  1.],
           [ 1.,  1.,  0.]])
    """

    degree: int
    shift: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def around(cls, points: PointSet, degree: int) -> Polynomials:
        """The monomials, scaled to the range of some points."""
        rows = _rows(points)
        low, high = rows.min(axis=0), rows.max(axis=0)
        half = 0.5 * (high - low)
        half[half == 0] = 1.0
        return cls(int(degree), tuple((0.5 * (low + high)).tolist()), tuple(half.tolist()))

    @cached_property
    def factors(self) -> list[tuple[int, ...]]:
        """The columns that each monomial multiplies."""
        columns = range(len(self.shift))
        return [
            chosen
            for total in range(self.degree + 1)
            for chosen in combinations_with_replacement(columns, total)
        ]

    def __len__(self) -> int:
        return len(self.factors)

    def __call__(self, points: PointSet) -> np.ndarray:
        """Their values at points, one column for each."""
        unit = self._unit(points)
        return np.stack([unit[:, list(chosen)].prod(axis=1) for chosen in self.factors], axis=1)

    def gradients(self, points: PointSet) -> np.ndarray:
        """∂p_j/∂x as an array (points, monomials, columns)."""
        unit = self._unit(points)
        slopes = np.zeros((len(unit), len(self), unit.shape[1]))
        for j, chosen in enumerate(self.factors):
            for k, column in enumerate(chosen):
                others = list(chosen[:k] + chosen[k + 1 :])
                slopes[:, j, column] += unit[:, others].prod(axis=1) / self.scale[column]
        return slopes

    def _unit(self, points: PointSet) -> np.ndarray:
        return (_rows(points) - np.array(self.shift)) / np.array(self.scale)


def _rows(points: PointSet) -> np.ndarray:
    host: Any = points.host()
    if not isinstance(host, VectorPoints):
        raise ValueError(f"polynomials are functions of vectors; got {type(host).__name__}.")
    return host.seen(View(), np.float64)


@dataclass(frozen=True, eq=False)
class SplineFunction(RKHSFunction):
    """f = Σ_i α_i k(x_i, ·) + p, where Σ_i α_i q(x_i) = 0 for all polynomials q like p.

    `norm()` is the seminorm √(αᵀKα), by which the kernel measures roughness: that of a polynomial
    is 0. Made by `KernelRidge` and `interpolant` for kernels as `ThinPlate()`.

    Parameters
    ----------
    kernel, points, coefficients :
        As in `RKHSFunction`.
    polynomials : Polynomials
        The monomials of p.
    polynomial_coefficients : array of shape (monomials,) or (monomials, outputs)

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import ThinPlate
    >>> from mercer.solvers import interpolant
    >>> X = np.random.default_rng(0).uniform(size=(20, 2))
    >>> f = interpolant(ThinPlate(), X, 3.0 * X[:, 0] - X[:, 1])  # a plane: no roughness
    >>> bool(f.norm() < 1e-6), bool(np.isclose(f([[5.0, 5.0]])[0], 10.0))
    (True, True)
    """

    polynomials: Polynomials
    polynomial_coefficients: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        wanted = (len(self.polynomials), *self.coefficients.shape[1:])
        given = floating(as_numpy(self.polynomial_coefficients))
        if given.shape != wanted:
            raise ValueError(
                f"polynomial_coefficients must have the shape {wanted}; got {given.shape}."
            )
        object.__setattr__(self, "polynomial_coefficients", given)

    def __call__(self, x: Any) -> Any:
        values = super().__call__(x)
        trend = self.polynomials(self.kernel.points(x)) @ self.polynomial_coefficients
        return values + to_precision(self.points.vector(trend), values.dtype)

    def gradient(self, x: Any) -> Any:
        slopes = super().gradient(x)
        own = self.polynomials.gradients(self.kernel.points(x))
        trend = np.einsum("njc,j...->n...c", own, self.polynomial_coefficients)
        return slopes + to_precision(self.points.vector(trend), slopes.dtype)

    def project(self, centres: Any) -> RKHSFunction:
        """Refused: the kernel gives no inner product without the polynomials."""
        raise ValueError(
            f"{self.kernel!r} is positive definite off polynomials only, so there is no "
            "projection: fit to fewer points, or use kernel.anchored(points)."
        )

    def __add__(self, other: RKHSFunction) -> Self:
        if not isinstance(other, SplineFunction):
            return NotImplemented
        if self.polynomials != other.polynomials:
            raise ValueError("splines add up where their polynomials have the same shift and scale")
        plain = _plain(self) + _plain(other)
        trend = self.polynomial_coefficients + other.polynomial_coefficients
        return replace(
            self,
            points=plain.points,
            coefficients=plain.coefficients,
            polynomial_coefficients=trend,
        )

    def __mul__(self, factor: float) -> Self:
        if not isinstance(factor, (Real, np.number)):
            return NotImplemented
        return replace(
            self,
            coefficients=float(factor) * self.coefficients,
            polynomial_coefficients=float(factor) * self.polynomial_coefficients,
        )

    __rmul__ = __mul__

    def output(self, index: int) -> Self:
        plain = _plain(self).output(index)
        return replace(
            self,
            coefficients=plain.coefficients,
            polynomial_coefficients=self.polynomial_coefficients[:, index],
        )


def _plain(f: RKHSFunction) -> RKHSFunction:
    """Without its polynomial."""
    kernel: EvaluableKernel = f.kernel
    return RKHSFunction(kernel, f.points, f.coefficients)
