"""Newton directions: the δ with (λI + DK)δ = −g, and what K makes of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer import linalg
from mercer.errors import NotPositiveDefiniteError
from mercer.solvers.newton.curvature import Curvature
from mercer.solvers.newton.products import Multiply
from mercer.solvers.root import Root

INNER_STEPS = 500
TRIED_STEPS = 40  # before a factorisation pays


@dataclass(frozen=True, eq=False)
class Direction:
    """δ, Kδ where it is known, and how many products with K it took."""

    coefficients: np.ndarray
    values: np.ndarray | None
    products: int = 0
    reached: bool = True


class ConjugateGradients:
    """Truncated conjugate gradients in the space: one product with K for each step.

    They start from 0, so that every iterate is a descent direction, whenever they stop.
    """

    def __init__(
        self, multiply: Multiply, ridge: float, dtype: np.dtype, most: int = INNER_STEPS
    ) -> None:
        self.multiply, self.ridge, self.dtype, self.most = multiply, ridge, dtype, most

    def solve(
        self, curvature: Curvature, g: np.ndarray, image: np.ndarray, tolerance: float
    ) -> Direction:
        """`image` is Kg; the residual is measured in the norm of the space."""
        kind = self.dtype.type
        curvature = curvature.astype(self.dtype)
        residual, lifted = -g.astype(self.dtype), -image.astype(self.dtype)
        delta, values = np.zeros_like(residual), np.zeros_like(residual)
        way, raised = residual, lifted
        energy = first = float(np.vdot(residual, lifted))
        steps = 0
        while energy > tolerance**2 * first and energy > 0 and steps < self.most:
            push = kind(self.ridge) * way + curvature(raised)
            bend = float(np.vdot(push, raised))
            if not bend > 0:
                break
            length = kind(energy / bend)
            delta, values = delta + length * way, values + length * raised
            residual = residual - length * push
            lifted = self.multiply(residual).astype(self.dtype, copy=False)
            energy, previous = float(np.vdot(residual, lifted)), energy
            turn = kind(energy / previous)
            way, raised = residual + turn * way, lifted + turn * raised
            steps += 1
        wide = delta.astype(np.float64), values.astype(np.float64)
        return Direction(*wide, steps, energy <= tolerance**2 * first)


class Adaptive:
    """Conjugate gradients, until they take long: from then on a factor."""

    def __init__(self, gradients: ConjugateGradients, factored: Factored) -> None:
        self.gradients, self.factored, self.factors = gradients, factored, False

    def solve(
        self, curvature: Curvature, g: np.ndarray, image: np.ndarray, tolerance: float
    ) -> Direction:
        if not self.factors:
            direction = self.gradients.solve(curvature, g, image, tolerance)
            if direction.reached:
                return direction
            self.factors = True
        return self.factored.solve(curvature, g, image, tolerance)


class Factored:
    """By a Cholesky factor of λI + √D K √D, output by output: any λ, n³/3 operations."""

    def __init__(self, matrix: np.ndarray, ridge: float) -> None:
        self.matrix, self.ridge = matrix, ridge

    def solve(
        self, curvature: Curvature, g: np.ndarray, image: np.ndarray, tolerance: float
    ) -> Direction:
        solved = [
            self._column(d, g_column, image_column, curvature.fit_intercept)
            for d, g_column, image_column in zip(
                *(np.atleast_2d(a.T) for a in (curvature.curvatures(), g, image)), strict=True
            )
        ]
        return Direction(np.stack(solved, axis=-1).reshape(g.shape), None)

    def _column(self, d: np.ndarray, g: np.ndarray, image: np.ndarray, centred: bool) -> np.ndarray:
        """−(g − √D B⁻¹√D Kg)/λ, B = λI + √D K √D, on rows that have a curvature."""
        curved = np.flatnonzero(d > 0)
        roots = np.sqrt(d[curved])
        matrix = self.matrix if len(curved) == len(d) else self.matrix[np.ix_(curved, curved)]
        matrix = roots[:, None] * matrix
        matrix *= roots
        matrix.flat[:: len(matrix) + 1] += self.ridge
        factor = _factor(matrix)
        sides = np.stack([roots * image[curved], roots], axis=1)
        solved = roots[:, None] * factor.solve(sides)
        delta = -g / self.ridge
        delta[curved] += solved[:, 0] / self.ridge
        if centred and len(curved):
            delta[curved] -= (
                solved[:, 1] * (delta.sum() + g.sum() / self.ridge) / solved[:, 1].sum()
            )
        return delta


class Rooted(Factored):
    """By a Cholesky factor of λI + ΦᵀDΦ, K = ΦΦᵀ: n·m² operations for rank m."""

    def __init__(self, root: Root, ridge: float) -> None:
        self.features, self.ridge = root.features.astype(np.float64, copy=False), ridge

    def _column(self, d: np.ndarray, g: np.ndarray, image: np.ndarray, centred: bool) -> np.ndarray:
        """−(g − DΦ(λI + ΦᵀDΦ)⁻¹Φᵀg)/λ."""
        scaled = np.sqrt(d)[:, None] * self.features
        matrix = scaled.T @ scaled
        matrix.flat[:: len(matrix) + 1] += self.ridge
        factor = _factor(matrix)
        sides = self.features.T @ np.stack([g, d], axis=1)
        solved = d[:, None] * (self.features @ factor.solve(sides))
        delta = -(g - solved[:, 0]) / self.ridge
        ones = (d - solved[:, 1]) / self.ridge
        if centred and ones.sum() > 0:
            delta -= ones * (delta.sum() + g.sum() / self.ridge) / ones.sum()
        return delta


def _factor(matrix: np.ndarray) -> linalg.Factor:
    try:
        return linalg.cholesky(matrix, overwrite=True)
    except NotPositiveDefiniteError as refusal:
        raise NotPositiveDefiniteError(
            "Expected a positive definite kernel, whose objective is convex; the Gram matrix of "
            "these points has negative eigenvalues. Check it with kernel.check(X).",
            refusal.witness,
        ) from None
