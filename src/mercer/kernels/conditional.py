"""Kernels that are positive definite off polynomials: thin-plate and polyharmonic splines.

vᵀKv ≥ 0 holds for all v with Σ_i v_i q(x_i) = 0 for polynomials q up to a degree, and those
polynomials are left unpenalised: f = Σ α_i k(x_i, ·) + p with ‖f‖² = αᵀKα.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.checks import check_count
from mercer.evaluation.expression import Expression, log, maximum, sqrt, squared_distance
from mercer.functions import Polynomials
from mercer.kernels.base import Kernel, checked
from mercer.kernels.facts import Facts, no, yes
from mercer.points import PointSet

NEAREST = 1e-36  # of r², below which r² log r counts as 0; float32 holds it


class PolyharmonicSpline(Kernel):
    """±r^p for odd p, ±r^p log r for even p, off polynomials of degree ⌊p/2⌋."""

    order: int  # p

    def null_degree(self) -> int:
        return int(self.order) // 2

    def expression(self) -> Expression:
        s, half = squared_distance(), self.null_degree()
        sign = (-1.0) ** (half + 1)
        if self.order % 2:
            return sign * (sqrt(s) * s**half if half else sqrt(s))
        return 0.5 * sign * (s**half * log(maximum(s, NEAREST)))

    def facts(self, dimension: int | None = None) -> Facts:
        reason = f"it is positive definite off polynomials of degree {self.null_degree()} only"
        return Facts(
            self,
            dimension,
            positive_definite=no(reason),
            stationary=yes("it is a function of the distance of x and y"),
            isotropic=yes("it is a function of ‖x − y‖"),
        )

    def energy_scale(self, dimension: int) -> float:
        """c > 0 for which c·k measures roughness by ∫ |Dᵐf|², m = (p + d)/2.

        |Dᵐf|² is the sum of the squares of all m-th derivatives, mixed ones counted as often as
        they occur. `KernelRidge(alpha, kernel=c * k)` then minimises Σ (y − f)² + alpha ∫ |Dᵐf|².

        >>> bool(np.isclose(Polyharmonic(3).energy_scale(1), 1 / 12))  # ∫ f″²
        True
        >>> bool(np.isclose(ThinPlate().energy_scale(2), 1 / (8 * np.pi)))  # bending energy
        True
        """
        check_count(self, "dimension", dimension)
        p, d = int(self.order), int(dimension)
        if (p + d) % 2:
            raise ValueError(
                f"{self!r} in {d} columns measures derivatives of the broken order {(p + d) / 2}: "
                "choose an order for which order + columns is even."
            )
        m = (p + d) // 2
        powers = 2.0 ** (2 * m) * math.pi ** (d / 2) * math.factorial(m - 1)
        if p % 2:
            return abs(math.gamma(-p / 2)) / powers
        return 2.0 / (powers * math.factorial(p // 2))


@dataclass(frozen=True, eq=False, repr=False)
class Polyharmonic(PolyharmonicSpline):
    """The polyharmonic spline ±r^p for odd p, ±r^p log r for even p, r = ‖x − y‖.

    It is conditionally positive definite: positive off polynomials of degree ⌊p/2⌋, which are not
    penalised. `KernelRidge` fits f = Σ α_i k(x_i, ·) + polynomial, with αᵀKα as roughness;
    `alpha=0` and `interpolant` give the smoothest function through the values. In one column
    `Polyharmonic(3)` gives cubic smoothing splines. There is no lengthscale: scaling the points
    scales the penalty and changes nothing else.

    Parameters
    ----------
    order : int, default=3
        p ≥ 1.

    References
    ----------
    Wahba, Spline Models for Observational Data, 1990; Wendland, Scattered Data Approximation, 2005,
    chapter 8.

    Examples
    --------
    >>> Polyharmonic(3)([0.0], [2.0]), Polyharmonic(1)([0.0], [2.0])
    (8.0, -2.0)
    """

    order: int = 3
    checks = checked(order=check_count)


@dataclass(frozen=True, eq=False, repr=False)
class ThinPlate(PolyharmonicSpline):
    """The thin-plate spline r² log r, r = ‖x − y‖: `Polyharmonic(2)` under its own name.

    In two columns αᵀKα is, up to 8π, the bending energy of a thin plate. Affine functions are not
    penalised.

    Examples
    --------
    >>> bool(np.isclose(ThinPlate()([0.0, 0.0], [3.0, 4.0]), 25 * np.log(5)))
    True
    """

    order = 2  # no field


@dataclass(frozen=True, eq=False, repr=False)
class Anchored(Kernel):
    """The positive definite kernel of a conditionally positive definite one, which is 0 at anchors.

    With q_i the polynomials that are 1 at anchor i and 0 at the others, and Πf = Σ f(a_i) q_i,

        k_a(x, y) = k(x, y) − Σ_i q_i(x) k(a_i, y) − Σ_j q_j(y) k(x, a_j) + Σ_ij q_i(x) q_j(y) k_ij.

    Its space are the f with f(a_i) = 0, with the roughness of k as norm. Made by
    `kernel.anchored(points)`; with it, solvers for positive definite kernels serve for splines.

    Parameters
    ----------
    kernel : Kernel
        k, conditionally positive definite.
    anchors : array of shape (monomials, columns)
        As many points as there are monomials, on which only the polynomial 0 vanishes.

    References
    ----------
    Wendland, Scattered Data Approximation, 2005, section 10.3.

    Examples
    --------
    >>> k = ThinPlate().anchored(np.random.default_rng(0).uniform(size=(30, 2)))
    >>> k.check(np.random.default_rng(1).uniform(size=(30, 2))).passed
    True
    """

    kernel: Kernel
    anchors: Any

    positive_definite = True

    def __post_init__(self) -> None:
        degree = self.kernel.null_degree()
        if degree is None:
            raise ValueError(
                f"Anchored makes a conditionally positive definite kernel positive definite; "
                f"{self.kernel!r} needs no anchors."
            )
        points = self.kernel.points(self.anchors)
        matrix = Polynomials.around(points, degree)(points)
        if matrix.shape[0] != matrix.shape[1] or np.linalg.matrix_rank(matrix) < len(matrix):
            raise ValueError(
                f"polynomials of degree {degree} need {matrix.shape[1]} anchors that determine "
                f"them; got {matrix.shape[0]} of rank {np.linalg.matrix_rank(matrix)}."
            )

    def null_degree(self) -> None:
        return None

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        (left, rows), (right, columns) = self._corrections(x), self._corrections(y)
        values = self.kernel.block(x, y)
        return values - (left @ columns.T + rows @ right.T).astype(values.dtype)

    def diagonal(self, x: PointSet) -> np.ndarray:
        left, rows = self._corrections(x)
        values = self.kernel.diagonal(x)
        return np.maximum(values - 2.0 * (left * rows).sum(axis=1), 0.0).astype(values.dtype)

    @cached_property
    def _basis(self) -> tuple[Polynomials, np.ndarray, PointSet, np.ndarray]:
        """Polynomials, the matrix that makes the q_i of them, the anchors, and k between these."""
        points = self.kernel.points(np.asarray(self.anchors, np.float64))
        degree = self.kernel.null_degree()
        assert degree is not None
        polynomials = Polynomials.around(points, degree)
        inverse = np.linalg.inv(polynomials(points))
        return polynomials, inverse, points, self.kernel.block(points, points)

    def _corrections(self, x: PointSet) -> tuple[np.ndarray, np.ndarray]:
        """q_i(x), and k(x, a_i) − ½ Σ_j q_j(x) k_ji."""
        polynomials, inverse, anchors, own = self._basis
        shares = polynomials(x) @ inverse
        return shares, self.kernel.block(x, anchors) - 0.5 * shares @ own


def anchors_among(kernel: Kernel, points: PointSet) -> np.ndarray:
    """Numbers of points that determine the polynomials of a kernel well: by a pivoted QR."""
    degree = kernel.null_degree()
    assert degree is not None
    matrix = Polynomials.around(points, degree)(points)
    _, triangle, order = scipy.linalg.qr(matrix.T, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    if len(sizes) < matrix.shape[1] or sizes[-1] <= 1e-12 * sizes[0]:
        raise ValueError(
            f"polynomials of degree {degree}, which {kernel!r} does not penalise, are not "
            f"determined by these {matrix.shape[0]} points: {matrix.shape[1]} in general position "
            "are needed. Add points, take out columns that others determine, or lower the order."
        )
    return np.asarray(order[: matrix.shape[1]])
