"""Coordinates in which the penalty is a plain norm, and a preconditioner in them."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, namespace, to_precision
from mercer.errors import NotPositiveDefiniteError
from mercer.evaluation.tiling import mirror
from mercer.linalg.panels import add_lower_products, clear_small, factor_lower_triangle, solve_rows
from mercer.losses import Loss, Squared
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.runtime.budget import MEGABYTE, Memory, free_memory, memory_budget
from mercer.runtime.threads import spans
from mercer.solvers.centres.passes import Passes

JITTERS = 10.0  # units in the last place, of the mean of the diagonal, added to K_MM
BLOCK_BYTES = 1 << 25  # of a block of sampled rows
DEVICE_BYTES = 1 << 30  # of one on a device
DECADES = 9  # of jitters that are tried where rounding made a preconditioner indefinite
FACTORS = (2, 3, 4, 6, 8, 12, 16, 24, 32)  # rows of the sample for each centre
ENTRY = 25.0  # what a kernel value in a pass costs, in multiply-adds of the preconditioner
COORDINATE, OUTPUT = 1.7, 8.0  # what one more of them adds to that
BEGIN = 1e-6  # the gap at the start is large: no tolerance asks for less work than this one
SLOWER = 1.5  # steps until the gap is small, over those until the objective is


class Basis:
    """β = L⁻ᵀγ with LLᵀ = K_MM + jitter·I, so that the norm of f is ‖γ‖.

    The jitter keeps coefficients from growing where centres nearly coincide; it is part of the
    problem that is solved, and named in its status. References: A. Rudi, L. Carratino, L. Rosasco,
    FALKON: an optimal large scale kernel method, 2017.
    """

    def __init__(self, passes: Passes) -> None:
        matrix = Gram(passes.kernel, passes.y).astype(np.float64).dense()
        jitter = JITTERS * float(np.finfo(passes.dtype).eps) * float(abs(matrix.diagonal()).mean())
        try:
            self.factor = linalg.cholesky(matrix, jitter=jitter, overwrite=True)
        except NotPositiveDefiniteError:
            self.factor = linalg.cholesky(matrix, overwrite=True)
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
    however small λ is; Falkon's choice is the sample of the centres themselves. One array holds its
    Cholesky factor and, above the diagonal, the moments of the sample. References:
    M. Díaz, E. Epperly, Z. Frangella, J. Tropp, R. Webber, Robust, randomized preconditioning for
    kernel ridge regression, 2023.
    """

    def __init__(
        self,
        basis: Basis,
        passes: Passes,
        sample: PointSet,
        factors: np.ndarray,
        ridge: float,
        floor: float | None,
    ) -> None:
        self.basis, self.passes, self.intercept = basis, passes, floor is not None
        self.floor = floor
        self.columns = self._moments(sample, np.sqrt(np.maximum(factors, 0.0)))
        self.diagonal = self.columns.diagonal().copy()
        mirror(self.columns.T, 0, len(self.columns))
        self.factorise(ridge)

    def factorise(self, ridge: float) -> None:
        """Take another λ with the same sample."""
        size, unit = len(self.columns), float(np.finfo(np.float64).eps)
        diagonal = self.diagonal + ridge
        if self.floor is not None:
            diagonal[-1] = self.diagonal[-1] + self.floor
        for jitter in (0.0, *(unit * 10.0**k * diagonal.mean() for k in range(1, DECADES))):
            mirror(self.columns, 0, size)
            np.fill_diagonal(self.columns, diagonal + jitter)
            if not factor_lower_triangle(self.columns):
                return
        raise NotPositiveDefiniteError(
            "Expected a positive definite preconditioner, got one that rounding has made "
            "indefinite: raise the regularization, or pass float64.",
            np.empty(0),
        )

    def _moments(self, sample: PointSet, roots: np.ndarray) -> np.ndarray:
        """The lower triangle of Σ r_i² z_i z_iᵀ, computed in the precision of the passes."""
        size, dtype = self.basis.size, self.passes.dtype
        lower = self.basis.factor.lower.astype(dtype, copy=False)
        if lower is not self.basis.factor.lower:
            clear_small(lower)
        inner, last = np.zeros((size, size), dtype, order="F"), np.zeros(size)
        step = max(256, BLOCK_BYTES // (np.dtype(dtype).itemsize * size))
        for start, stop in spans(len(sample), step):
            part = roots[start:stop].astype(dtype)
            points = sample.slice(start, stop)
            rows = Gram(self.passes.kernel, self.passes.y, points).dense().T
            clear_small(rows)
            rows *= part[:, None]
            solve_rows(lower, rows)
            add_lower_products(rows, inner)
            if self.intercept:
                last += part @ rows
        if not self.intercept:
            return inner.astype(np.float64, copy=False)
        total = np.zeros((size + 1, size + 1), order="F")
        total[:size, :size], total[size, :size], total[size, size] = inner, last, roots @ roots
        return total

    def solve(self, residual: np.ndarray) -> np.ndarray:
        """P⁻¹r."""
        half = linalg.triangular_solve(self.columns, residual)
        return linalg.triangular_solve(self.columns, half, transposed=True, overwrite=True)


class DevicePreconditioner:
    """The same for tensors, on their device, where memory is not the first concern."""

    def __init__(
        self,
        basis: Basis,
        passes: Passes,
        sample: PointSet,
        factors: Array,
        ridge: float,
        floor: float | None,
    ) -> None:
        self.basis, self.passes, self.floor = basis, passes, floor
        self.moments = self._moments(sample, namespace(factors).clip(factors, min=0.0) ** 0.5)
        self.factorise(ridge)

    def factorise(self, ridge: float) -> None:
        """Take another λ with the same sample."""
        matrix, size = namespace(self.moments).asarray(self.moments, copy=True), self.basis.size
        linalg.shift_diagonal(matrix[:size, :size], ridge)
        if self.floor is not None:
            matrix[-1, -1] += self.floor
        self.factor = linalg.cholesky(matrix, overwrite=True)

    def _moments(self, sample: PointSet, roots: Array) -> Array:
        """Σ r_i² z_i z_iᵀ, in the precision of the passes; blocks are added in float64."""
        intercept, dtype, xp = self.floor is not None, self.passes.dtype, namespace(roots)
        size, lower = self.basis.size + intercept, to_precision(self.basis.factor.lower, dtype)
        total = xp.zeros((size, size), dtype=xp.float64, device=roots.device)
        for start, stop in spans(len(sample), max(256, DEVICE_BYTES // (8 * size))):
            part = to_precision(roots[start:stop, None], dtype)
            points = sample.slice(start, stop)
            rows = Gram(self.passes.kernel, points, self.passes.y).dense()
            rows = linalg.triangular_solve(lower, (part * rows).T).T
            rows = xp.concat([rows, part], axis=1) if intercept else rows
            total += rows.T @ rows
        return total

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
    return max(1.0, SLOWER * math.log(min(tolerance, BEGIN)) / math.log(centres / sample))


def sample_size(rows: int, centres: int, tolerance: float, width: int, outputs: int = 1) -> int:
    """How many rows to take for the preconditioner: more rows cost more, and save steps.

    >>> sample_size(1_000, 200, 1e-6, 3), sample_size(10**6, 2_000, 1e-6, 3) > 8_000
    (1000, True)
    """
    entry = ENTRY + COORDINATE * width + OUTPUT * (outputs - 1)

    def cost(sample: int) -> float:
        steps = expected_steps(rows, centres, sample, tolerance)
        return sample * centres + (steps + 2.0) * rows * entry

    return min((min(rows, factor * centres) for factor in (*FACTORS, rows)), key=cost)


def memory_needed(
    rows: int,
    centres: int,
    outputs: int,
    dtype: Any,
    sample: int | None = None,
    loss: Loss | None = None,
) -> int:
    """Bytes that a solution on centres takes at most beside its data.

    Two factors in float64, in float32 their copies, blocks of sampled rows and of a pass, and what
    stands beside every row: targets, shares, values, and slopes of other losses than the square.

    >>> memory_needed(10**6, 2_000, 1, "float32") < 250e6
    True
    """
    copies, most = 0 if np.dtype(dtype) == np.float64 else 1, FACTORS[-1] * centres
    block = min(BLOCK_BYTES, 8 * min(rows, sample or most) * centres)
    beside = 48 if isinstance(loss, Squared) else 64
    return int((2 + copies) * 8 * centres**2 + 1.25 * block + beside * rows * outputs)


def check_memory(passes: Passes, outputs: int, sample: int | None, loss: Loss) -> None:
    """Refuse what cannot be solved within the budget, or within what is free where none was set."""
    rows, centres = passes.rows, len(passes.y)
    memory: Memory = getattr(passes, "memory", None)
    told = memory is not None or "MERCER_MEMORY" in os.environ
    limit = memory_budget(memory) if told else free_memory()
    needed = memory_needed(rows, centres, outputs, passes.dtype, sample, loss)
    if needed > limit:
        raise ValueError(
            f"a solution on {centres} centres takes {needed / MEGABYTE:.0f} MB for {rows} rows; "
            f"there are {limit / MEGABYTE:.0f} MB. Take fewer centres, or raise memory= or "
            "MERCER_MEMORY."
        )
