"""Coordinates in which the penalty is a plain norm, and a preconditioner in them."""

from __future__ import annotations

import copy
import math

import numpy as np

from mercer import linalg
from mercer.arrays import Array, is_tensor, namespace, to_precision
from mercer.errors import NotPositiveDefiniteError
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.solvers.centres.passes import Passes

JITTERS = 10.0  # units in the last place, of the mean of the diagonal, added to K_MM
BLOCK_BYTES = {False: 1 << 25, True: 1 << 30}  # of a block of sampled rows; on a device
FACTORS = (2, 3, 4, 6, 8, 12, 16, 24, 32)  # rows of the sample for each centre
ENTRY = 60.0  # what a kernel value in a pass costs, in multiply-adds of a matrix product
SLOWER = 1.5  # steps until the gap is small, over those until the objective is


class Basis:
    """β = L⁻ᵀγ with LLᵀ = K_MM + jitter·I, so that the norm of f is ‖γ‖.

    The jitter keeps coefficients from growing where centres nearly coincide; it is part of the
    problem that is solved, and named in its status. References: A. Rudi, L. Carratino, L. Rosasco,
    FALKON: an optimal large scale kernel method, 2017.
    """

    def __init__(self, passes: Passes) -> None:
        matrix = Gram(passes.kernel, passes.centres).astype(np.float64).dense()
        jitter = JITTERS * float(np.finfo(passes.dtype).eps) * float(abs(matrix.diagonal()).mean())
        try:
            self.factor = linalg.cholesky(matrix, jitter=jitter)
        except NotPositiveDefiniteError:
            self.factor = linalg.cholesky(matrix)
        self.size = len(matrix)

    @property
    def jitter(self) -> float:
        return float(self.factor.jitter)

    def coefficients(self, gamma: Array) -> Array:
        """β = L⁻ᵀγ."""
        return self.factor.other_half_solve(gamma)

    def coordinates(self, beta: Array) -> Array:
        """γ = Lᵀβ."""
        return self.factor.lower.T @ beta

    def pull(self, moments: Array) -> Array:
        """L⁻¹v."""
        return self.factor.half_solve(moments)


class Preconditioner:
    """The Hessian on a sample of rows: (n/m) Σ_sample p_i d_i z_i z_iᵀ + λI, z = (L⁻¹k(C, x), 1).

    With m rows for M centres conjugate gradients reduce the objective's excess by about M/m a step,
    however small λ is; Falkon's choice is the sample of the centres themselves. References:
    M. Díaz, E. Epperly, Z. Frangella, J. Tropp, R. Webber, Robust, randomized preconditioning for
    kernel ridge regression, 2023.
    """

    def __init__(
        self,
        basis: Basis,
        passes: Passes,
        sample: PointSet,
        factors: Array,
        ridge: float,
        floor: float | None,
    ) -> None:
        self.basis, self.passes, self.intercept = basis, passes, floor is not None
        self.floor, self.ridge = floor, ridge
        self.moments = self._moments(sample, namespace(factors).clip(factors, min=0.0) ** 0.5)
        self._factorise()

    def with_ridge(self, ridge: float) -> Preconditioner:
        """The same sample with another λ."""
        other = copy.copy(self)
        other.ridge = ridge
        other._factorise()
        return other

    def _factorise(self) -> None:
        matrix, size = namespace(self.moments).asarray(self.moments, copy=True), self.basis.size
        linalg.shift_diagonal(matrix[:size, :size], self.ridge)
        if self.floor is not None:
            matrix[-1, -1] += self.floor
        self.factor = linalg.cholesky(matrix, overwrite=True)

    def _moments(self, sample: PointSet, roots: Array) -> Array:
        """Σ r_i² z_i z_iᵀ, in the precision of the passes; blocks are added in float64."""
        size, dtype = self.basis.size + self.intercept, self.passes.dtype
        lower, xp = to_precision(self.basis.factor.lower, dtype), namespace(roots)
        total = xp.zeros((size, size), dtype=xp.float64, device=roots.device).T  # as syrk has it
        step = max(256, BLOCK_BYTES[is_tensor(roots)] // (8 * size))
        for start in range(0, len(sample), step):
            part = to_precision(roots[start : start + step, None], dtype)
            points = sample.slice(start, min(start + step, len(sample)))
            rows = Gram(self.passes.kernel, points, self.passes.centres).dense()
            rows *= part
            rows = linalg.triangular_solve(lower, rows.T, overwrite=True).T
            if self.intercept:
                rows = xp.concat([rows, part], axis=1)
            total += linalg.lower_products(rows)
        return total + xp.tril(total, k=-1).T

    def solve(self, residual: Array) -> Array:
        """P⁻¹r."""
        return self.factor.solve(residual)


def expected_steps(rows: int, centres: int, sample: int, tolerance: float) -> float:
    """Steps of conjugate gradients to a relative gap, with a preconditioner of so many rows.

    >>> expected_steps(1_000, 50, 1_000, 1e-6), round(expected_steps(10**6, 50, 500, 1e-6), 1)
    (1.0, 9.0)
    """
    if sample >= rows:
        return 1.0
    return max(1.0, SLOWER * math.log(tolerance) / math.log(centres / sample))


def sample_size(rows: int, centres: int, tolerance: float, width: int) -> int:
    """How many rows to take for the preconditioner: more rows cost more, and save steps.

    >>> sample_size(1_000, 200, 1e-6, 3), sample_size(10**6, 2_000, 1e-6, 3) > 8_000
    (1000, True)
    """
    entry = ENTRY + 0.25 * width

    def cost(sample: int) -> float:
        steps = expected_steps(rows, centres, sample, tolerance)
        return sample * centres + (steps + 2.0) * rows * entry

    return min((min(rows, factor * centres) for factor in (*FACTORS, rows)), key=cost)
