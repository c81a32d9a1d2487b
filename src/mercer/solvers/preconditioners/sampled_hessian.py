"""On centres: the Hessian on a sample of the rows, and its factors.

`SampledHessian` is for NumPy, in place and in the precision of the points; `GeneralHessian` for any
array library, in float64; `SpectralHessian` serves many λ at once, `ClassHessians` many classes.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer import linalg
from mercer.arrays import Array, namespace, to_precision, zeros
from mercer.errors import NotPositiveDefiniteError
from mercer.evaluation.tiling import mirror
from mercer.linalg.panels import add_lower_products, clear_small, factor_lower_triangle, solve_rows
from mercer.operators import Gram
from mercer.runtime.machine import CPU
from mercer.runtime.threads import blas_for, run, single_threaded_blas, spans, thread_count


@dataclass(frozen=True)
class Tuning:
    """Numbers of the factors."""

    added: float = 1.0  # the largest share of its diagonal that is added to a preconditioner which
    # rounding has made indefinite, in steps of ten from one unit in the last place
    panel: int = 1024  # columns of a product of which only the lower triangle is computed


TUNING = Tuning()


class SampledHessian:
    """The Hessian on a sample of rows: (n/m) Σ_sample p_i d_i z_i z_iᵀ + λI, z = (L⁻¹k(C, x), 1).

    With m rows for M centres conjugate gradients reduce the objective's excess by about M/m a step,
    however small λ is; Falkon's choice is the sample of the centres themselves. One array holds its
    Cholesky factor and, above the diagonal, the moments of the sample, as it is the largest thing
    that a solution on centres stores.
    """

    def __init__(
        self, space: Any, rows: np.ndarray, factors: Array, ridge: float, floor: float | None
    ) -> None:
        self.space, self.floor = space, floor
        nothing = np.zeros(space.size)
        self.begun = np.zeros((space.size,) * 2, space.operator.dtype, "F"), nothing, 0.0
        self._add(rows, factors)
        self.factorise(ridge)

    def extend(self, rows: np.ndarray, factors: Array, share: float, ridge: float) -> None:
        """Take more rows; those of before count less by a factor."""
        self.begun = self._moments_so_far(share)
        del self.columns  # its memory goes before that of the next one is taken
        self._add(rows, factors)
        self.factorise(ridge)

    def _moments_so_far(self, share: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Σ r_i² z_i z_iᵀ times a number: of coordinates, with the constant, of the constant."""
        size = self.space.size
        mirror(self.columns, 0, len(self.columns))
        inner = self.columns[:size, :size].astype(self.space.operator.dtype, order="F")
        clear_small(inner)
        inner *= share
        np.fill_diagonal(inner, share * self.diagonal[:size])
        return inner, share * self.columns[-1, :size], share * float(self.diagonal[-1])

    def _add(self, rows: np.ndarray, factors: Array) -> None:
        with blas_for(len(rows) * self.space.size**2):
            self.columns = self._moments(rows, np.sqrt(np.maximum(factors, 0.0)))
        self.diagonal = self.columns.diagonal().copy()
        # The factor will overwrite the lower triangle. The moments stay above the diagonal, so
        # that another λ or jitter takes a factorisation, and no pass over the sample.
        mirror(self.columns.T, 0, len(self.columns))

    def factorise(self, ridge: float) -> None:
        """Take another λ with the same sample.

        Rounding moves an entry M_ij by about ε√(M_ii M_jj), ε being that of the points, which may
        make M indefinite where k is flat, so that the constant is nearly one of its functions. What
        is then added to the diagonal is relative to each entry: in most directions it is less than
        λ, where a multiple of I that is as large as the rounding of the largest entry is not.
        """
        size, unit = len(self.columns), float(np.finfo(self.space.operator.dtype).eps)
        diagonal = self.diagonal + ridge
        if self.floor is not None:
            diagonal[-1] = self.diagonal[-1] + self.floor
        share = 0.0
        while share <= TUNING.added:
            mirror(self.columns, 0, size)
            np.fill_diagonal(self.columns, (1.0 + share) * diagonal)
            with blas_for(size**3 / 3):
                failing = factor_lower_triangle(self.columns)
            if not failing:
                return
            share = 10.0 * share or unit
        raise NotPositiveDefiniteError(
            "Expected a positive definite preconditioner, got one that rounding has made "
            "indefinite: raise the regularization, or pass float64.",
            np.empty(0),
        )

    def _moments(self, rows: np.ndarray, roots: np.ndarray) -> np.ndarray:
        """The lower triangle of Σ r_i² z_i z_iᵀ, in the precision of the points.

        It is added to what was begun, which no other frame holds: it is large.
        """
        inner, last, total = self.begun
        del self.begun
        size, lifted, dtype = self.space.size, self.space.lifted, self.space.operator.dtype
        part = self.space.operator[rows, :] if lifted is None else None
        lower = self.space.basis.lower(dtype) if lifted is None else None
        step = max(256, CPU.sample_bytes // (np.dtype(dtype).itemsize * size))
        for start, stop in spans(len(rows), step):
            scale = roots[start:stop].astype(dtype)
            some = lifted[rows[start:stop], :] if part is None else part[start:stop, :]
            block = by_columns(some).astype(dtype, order="F", copy=False)
            # subnormal numbers take BLAS a hundred times as long, and add nothing
            clear_small(block)
            block *= scale[:, None]
            if lower is not None:
                solve_rows(lower, block)
            add_lower_products(block, inner)
            if self.floor is not None:
                last += scale @ block
            del block
        del lower  # its memory goes before the moments become float64
        if self.floor is None:
            return inner.astype(np.float64, copy=False)
        whole = np.zeros((size + 1, size + 1), order="F")
        whole[:size, :size], whole[size, :size] = inner, last
        whole[size, size] = total + roots @ roots
        return whole

    def spectral(self) -> SpectralHessian:
        """The same for any λ; this one is used up, as both would take too much memory."""
        size, columns, diagonal = self.space.size, self.columns, self.diagonal
        del self.columns
        mirror(columns, 0, len(columns))
        np.fill_diagonal(columns, diagonal)
        border = None
        if self.floor is not None:
            border = columns[:size, -1].copy(), float(diagonal[-1]) + self.floor
        inner = columns if border is None else np.asfortranarray(columns[:size, :size])
        del columns
        # Of LAPACK's drivers this one takes the least memory; its threads wait for each other after
        # every reflection, which on a busy machine takes ten times as long as one thread.
        with single_threaded_blas():
            values, vectors = scipy.linalg.eigh(
                inner, overwrite_a=True, driver="evr", check_finite=False
            )
        return SpectralHessian(values, vectors, border, self.space.operator.dtype)

    def solve(self, residual: np.ndarray) -> np.ndarray:
        """P⁻¹r."""
        return self.half_solve(linalg.triangular_solve(self.columns, residual))

    def half_solve(self, values: np.ndarray) -> np.ndarray:
        """R⁻ᵀv with RRᵀ = P; v is overwritten."""
        return linalg.triangular_solve(self.columns, values, transposed=True, overwrite=True)


def by_columns(part: Any) -> np.ndarray:
    """A block of K_nM in Fortran's order: that of the transposed matrix needs no copy."""
    if isinstance(part, Gram):
        return Gram(part.kernel, part.y, part.x, part.memory).astype(part.dtype).dense().T
    return np.asfortranarray(part.dense())


class GeneralHessian:
    """The same in any array library, where memory is not the first concern.

    Σ r_i² k_i k_iᵀ + λK_MM is factored, k_i = k(C, x_i), which takes half as many operations as a
    sum of z_i z_iᵀ; values are float64, as this squares the condition number.
    """

    factor: Any

    def __init__(
        self, space: Any, rows: np.ndarray, factors: Array, ridge: float, floor: float | None
    ) -> None:
        self.space, self.floor = space, floor
        width = space.size + (floor is not None)
        self.moments = zeros((width, width), factors, "float64")
        self._add(rows, factors)
        self.factorise(ridge)

    def extend(self, rows: np.ndarray, factors: Array, share: float, ridge: float) -> None:
        """Take more rows; those of before count less by a factor."""
        self.factor = None
        self.moments *= share
        self._add(rows, factors)
        self.factorise(ridge)

    def factorise(self, ridge: float) -> None:
        """Take another λ with the same sample."""
        matrix, size = namespace(self.moments).asarray(self.moments, copy=True), self.space.size
        basis, operator = self.space.basis, self.space.problem.penalty_operator
        if basis.factor is None:
            linalg.shift_diagonal(matrix[:size, :size], ridge)
        else:
            matrix[:size, :size] += ridge * operator.astype(np.float64).dense()
            linalg.shift_diagonal(matrix[:size, :size], ridge * basis.jitter)
        if self.floor is not None:
            matrix[-1, -1] += self.floor
        self.factor = replace(linalg.cholesky(matrix, overwrite=True), refined=False)

    def _add(self, rows: np.ndarray, factors: Array) -> None:
        """Add Σ r_i² (k_i, 1)(k_i, 1)ᵀ: the lower triangle, panel by panel, and then the other."""
        part, xp = self.space.operator[rows, :].astype(np.float64), namespace(factors)
        roots, total, size = xp.clip(factors, min=0.0) ** 0.5, self.moments, len(self.moments)
        panels = spans(size, TUNING.panel)
        most = self.space.operator.machine.sample_bytes // (8 * size)
        for start, stop in spans(len(rows), max(256, most)):
            scale = roots[start:stop, None]
            block = scale * part[start:stop, :].dense()
            block = xp.concat([block, scale], axis=1) if self.floor is not None else block
            for first, last in panels:
                total[first:last, :last] += block[:, first:last].T @ block[:, :last]
        for first, last in panels:
            total[:first, first:last] = total[first:last, :first].T

    def spectral(self) -> SpectralHessian:
        """The same for any λ."""
        size, basis, moments = self.space.size, self.space.basis, self.moments
        border = None
        if self.floor is not None:
            border = basis.pull(moments[:size, -1:])[:, 0], float(moments[-1, -1]) + self.floor
        inner = basis.pull(basis.pull(moments[:size, :size]).T)
        return SpectralHessian(*linalg.eigen(0.5 * (inner + inner.T)), border, np.float64)

    def solve(self, residual: Array) -> Array:
        """P⁻¹r."""
        inner = self.factor.half_solve(self._lowered(residual, transposed=False))
        return self._lowered(self.factor.other_half_solve(inner), transposed=True)

    def half_solve(self, values: Array) -> Array:
        """R⁻ᵀv with RRᵀ = P."""
        return self._lowered(self.factor.other_half_solve(values), transposed=True)

    def _lowered(self, values: Array, transposed: bool) -> Array:
        """Lv or Lᵀv; an intercept stays what it is."""
        basis, size = self.space.basis, self.space.size
        if basis.factor is None:
            return values
        lower = basis.factor.lower.T if transposed else basis.factor.lower
        return namespace(values).concat([lower @ values[:size, :], values[size:, :]])


class ClassHessians:
    """A block of the multinomial Hessian for each class: D + Σ p_i q_ic(1 − q_ic) z_i z_iᵀ.

    D is λ, and what is given for the constant. A row bends its own class and the few that it might
    belong to: the mean curvature of all classes is too small for these and too large for the
    others, by up to the number of classes, and one factor of it takes four times as many steps.
    Each block has few rows of its own, drawn by their curvature there. Of them, as B = R D^(-½)
    with LLᵀ = I + BBᵀ, W = L⁻¹B is stored, and P⁻¹ = D^(-½)(I − WᵀW)D^(-½).
    """

    def __init__(
        self, space: Any, drawn: list[tuple[np.ndarray, Array]], constants: Array, ridge: float
    ) -> None:
        self.space, self.drawn, self.constants = space, drawn, constants
        self.factorise(ridge)

    def factorise(self, ridge: float) -> None:
        """Take another λ with the same rows.

        Classes are factored side by side: threads of BLAS wait for each other at this size. Those
        with the same rows have the same block.
        """
        values = self.space.size * sum(len(rows) for rows, _ in self.drawn)
        few, host = values <= self.space.tuning.few, self.space.operator.machine.uses_numpy
        self.blocks: list[tuple[Array, Array]] = [()] * len(self.drawn)  # type: ignore[list-item]

        def factor(k: int) -> None:
            self.blocks[k] = self._factored(k, ridge, few)

        with single_threaded_blas() if host else nullcontext():
            first = {id(rows): k for k, (rows, _) in reversed(list(enumerate(self.drawn)))}
            run(factor, first.values(), thread_count() if host else 1)
        self.blocks = [self.blocks[first[id(rows)]] for rows, _ in self.drawn]

    def _factored(self, k: int, ridge: float, few: bool) -> tuple[Array, Array]:
        """W of a class, in float32 where that is precise enough, and the roots of D.

        I + BBᵀ is no less than I, of which float32 leaves a hundredth where its norm is below
        1/(100ε); so it does then of the least values of I − WᵀW, which are one over that norm.
        """
        z, scales, roots = self._rows(k, ridge)
        for dtype in ("float64",) if few else ("float32", "float64"):
            block = to_precision(z, dtype) * to_precision(scales, dtype)
            block /= to_precision(roots, dtype)
            if isinstance(block, np.ndarray):
                clear_small(block)
            inner = linalg.shift_diagonal(block @ block.T, 1.0)
            xp = namespace(inner)
            largest = float(xp.max(xp.sum(abs(inner), axis=1)))
            if dtype == "float64" or 100.0 * float(np.finfo(dtype).eps) * largest < 1.0:
                break
        factor = replace(linalg.cholesky(inner, overwrite=True), refined=False)
        return factor.half_solve(block), roots

    def _rows(self, k: int, ridge: float) -> tuple[Array, Array, Array]:
        """The rows z of a class, the roots of their weights, and those of D."""
        space, (rows, weights) = self.space, self.drawn[k]
        if space.lifted is not None:
            z = space.lifted[rows, :].dense()
        else:
            z = space.basis.pull(space.operator[rows, :].astype(np.float64).dense().T).T
        xp, roots = namespace(weights), zeros(space.size, weights) + ridge**0.5
        if space.problem.fit_intercept:
            z = xp.concat([z, to_precision(1.0 + 0.0 * weights[:, None], z.dtype)], axis=1)
            roots = xp.concat([roots, self.constants[k : k + 1] ** 0.5])
        return z, weights[:, None] ** 0.5, roots

    def solve(self, residual: Array) -> Array:
        """P⁻¹r, a column for each class."""
        columns = []
        for k, (block, roots) in enumerate(self.blocks):
            scaled = residual[:, k] / roots
            low = to_precision(scaled, block.dtype)
            columns.append((scaled - to_precision(block.T @ (block @ low), "float64")) / roots)
        xp = namespace(residual)
        solved = xp.stack(columns, axis=1)
        return solved - xp.mean(solved, axis=1)[:, None]  # what all classes share changes nothing


class SpectralHessian:
    """P = UDUᵀ + λI for any λ, or one for each column, from one eigendecomposition.

    The row and column of an intercept, its `border`, are eliminated. What is left of it is no less
    than a rounding unit of the precision in which P was computed.
    """

    space: Any = None

    def __init__(
        self, values: Array, vectors: Array, border: tuple[Array, float] | None, dtype: Any
    ) -> None:
        self.values, self.vectors = namespace(values).clip(values, min=0.0)[:, None], vectors
        self.bordered = border is not None
        if border is not None:
            self.cross, self.total = vectors.T @ border[0][:, None], border[1]
            self.least = float(np.finfo(dtype).eps) * self.total

    def factorise(self, ridge: Any) -> None:
        """Take another λ, or a row of them."""
        self.inverses = 1.0 / (self.values + ridge)
        if self.bordered:
            xp, lifted = namespace(self.values), self.inverses * self.cross
            rest = self.total - xp.sum(self.cross * lifted, axis=0, keepdims=True)
            self.rest = xp.clip(rest, min=self.least)

    def solve(self, residual: Array) -> Array:
        """P⁻¹r."""
        if not self.bordered:
            return self.vectors @ (self.inverses * (self.vectors.T @ residual))
        xp = namespace(residual)
        turned = self.vectors.T @ residual[:-1, :]
        left = xp.sum(self.cross * self.inverses * turned, axis=0, keepdims=True)
        constant = (residual[-1:, :] - left) / self.rest
        inner = self.vectors @ (self.inverses * (turned - self.cross * constant))
        return xp.concat([inner, constant])
