"""Ridge regression on all points as a linear system: (SKS + ρI) x = S(y, 1) with s = √w, ρ = λΣw.

α = S(x_y − b x_1) solves it with weights, weights of 0 included, and an intercept b makes the
coefficients sum to 0. Without an intercept there is no column of ones.

With a null space B of the penalty, α = Sx is orthogonal to B. As K need not be positive definite
beyond, the system is projected: (ΠSKSΠ + ρI) x = ΠSy, Π = I − QQᵀ, SB = QR. Its solution is that of
the bordered system, with Rb = Qᵀ(Sy − SKSx).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, as_numpy, namespace, to_precision
from mercer.losses import Squared
from mercer.operators import StoredGram
from mercer.runtime.machine import stores_faster
from mercer.solvers.problem import Problem, require_square_loss
from mercer.solvers.solution import Solution


class RidgeSystem:
    """A = SKS + ρI as something to multiply by, its right-hand sides, and the map from x to α."""

    def __init__(self, owner: type, problem: Problem) -> None:
        if problem.intercept_cost is not None or not isinstance(problem.loss, Squared):
            require_square_loss(owner, problem, null_space=True)
        self.problem, self.gram, self.xp = problem, problem.gram, namespace(problem.y)
        self.precision = self.gram.dtype.name
        self.roots = self.xp.sqrt(problem.sample_weights)[:, None]
        self.ridge = float(problem.regularization * self.xp.sum(problem.sample_weights))
        sides = [self.roots * self.xp.reshape(problem.y, (problem.rows, -1))]
        self.outputs = sides[0].shape[1]
        if problem.fit_intercept:
            sides.append(self.roots)
        self.sides = self.xp.concat(sides, axis=1)
        self.given = self.sides  # before a null space is projected out
        self.basis: Array | None = None  # Q
        if problem.null_space is not None:
            self.basis, self.triangle = self._factored(problem)
            self.sides = self.projected(self.sides)
        self._rounding: float | None = None

    def _factored(self, problem: Problem) -> tuple[Array, Array]:
        """SB = QR; columns of B that depend on others are refused."""
        columns = problem.array(problem.null_space)
        basis, triangle = linalg.qr(self.roots * columns)
        sizes = self.xp.abs(self.xp.linalg.diagonal(triangle))
        few = columns.shape[0] < columns.shape[1]
        if few or float(self.xp.min(sizes)) <= 1e-12 * float(self.xp.max(sizes)):
            raise ValueError(
                f"the {columns.shape[1]} functions that are not penalised are not determined by "
                f"the {problem.rows} points: add points, take out columns that others determine, "
                "or choose a kernel of lower order."
            )
        return basis, triangle

    def projected(self, c: Array) -> Array:
        """Π c: off the null space, and c itself where there is none."""
        return c if self.basis is None else c - self.basis @ (self.basis.T @ c)

    def multiply(self, c: Array, dtype: str = "float64") -> Array:
        """A c, with kernel values and their sums in `dtype`."""
        return self.projected(self._image(self.projected(c), dtype)) + self.ridge * c

    def _image(self, c: Array, dtype: str = "float64") -> Array:
        """S K S c."""
        operator = self.single if dtype == "float32" else self.gram.astype("float64")
        image = operator @ to_precision(self.roots * c, dtype)
        return self.roots * to_precision(image, "float64")

    @cached_property
    def single(self) -> Any:
        """K in float32; stored where that is read faster than it is computed."""
        gram = self.gram.astype("float32")
        if not stores_faster(gram):
            return gram
        return StoredGram(gram.kernel, gram.x, gram.x, gram.memory)

    @cached_property
    def scale(self) -> Array:
        """The lengths of the right-hand sides, to which residuals are relative."""
        return self.lengths(self.given)

    def lengths(self, columns: Array) -> Array:
        """The norms of columns, 1 for columns of zeros."""
        sizes = self.xp.linalg.vector_norm(columns, axis=0)
        return self.xp.where(sizes == 0, 1.0, sizes)

    def size(self, residual: Array) -> float:
        """The relative residual of the worst column."""
        return float(self.xp.max(self.xp.linalg.vector_norm(residual, axis=0) / self.scale))

    def energy(self, x: Array, residual: Array) -> float:
        """½xᵀAx − bᵀx, which every iteration lowers, also while the residual grows."""
        return -0.5 * float(self.xp.sum(x / self.scale**2 * (self.sides + residual)))

    def as_stored(self, x: Array) -> Array:
        """x as it will be stored: its rounding is corrected with the rest."""
        return to_precision(to_precision(x, self.precision), "float64")

    def rounding(self, sample: int) -> float:
        """‖S(K₃₂ − K)Sv‖/‖v‖ for K as float32 has it, on some rows, v being random signs."""
        if self._rounding is None:
            n, random = self.problem.rows, np.random.default_rng(0)
            rows = np.sort(random.choice(n, min(n, sample), replace=False))
            part = self.gram[rows, :]
            signs = self.roots * self.problem.array(random.choice([-1.0, 1.0], (n, 1)))
            low = part.astype("float32") @ to_precision(signs, "float32")
            error = to_precision(low, "float64") - part.astype("float64") @ signs
            scaled = as_numpy(self.roots)[rows] * as_numpy(error)
            self._rounding = float(np.sqrt(np.mean(scaled**2)))
        return self._rounding

    def started(self, start: Solution | None) -> Array:
        """x of a solution without an intercept; with one the column of ones is not known."""
        x, counted = self.xp.zeros_like(self.sides), self.roots > 0
        if start is None or self.problem.fit_intercept:
            return x
        alpha = self.xp.reshape(self.problem.array(start.coefficients), x.shape)
        return self.xp.where(counted, alpha / self.xp.where(counted, self.roots, 1.0), 0.0)

    def coefficients(self, x: Array, intercept: Array | None = None) -> tuple[Array, Array]:
        """α and b, by which α sums to 0 unless it is given."""
        outputs, shape = self.outputs, self.problem.y.shape
        if self.basis is not None:
            c = self.projected(x)
            left = self.roots * self.problem.y_columns - self._image(c)
            b = linalg.triangular_solve(self.triangle, self.basis.T @ left, lower=False)
            return (
                self.xp.reshape(self.roots * c, shape),
                self.xp.reshape(b, (b.shape[0], *shape[1:])),
            )
        c, b = x[:, :outputs], 0.0 * x[0, :outputs]
        if self.problem.fit_intercept:
            means = x[:, outputs:]
            if intercept is None:
                total = (self.roots.T @ means)[0, 0]  # 0 before the first step
                intercept = (self.roots.T @ c)[0, :] / self.xp.where(total == 0, 1.0, total)
            b, c = intercept, c - means * intercept
        return self.xp.reshape(self.roots * c, shape), self.xp.reshape(b, shape[1:])
