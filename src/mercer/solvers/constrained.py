"""Ridge regression with a constraint ‖f‖ ≤ D in place of the penalty."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.arrays import Array, namespace, precision, to_precision
from mercer.solvers.optimality import certified_gap
from mercer.solvers.penalties import Ball
from mercer.solvers.problem import Problem, require_square_loss
from mercer.solvers.solution import Solution, Status
from mercer.solvers.spectral import SpectralPath

TOLERANCE = 1e-4  # relative duality gap from which on the status says solved


@dataclass(frozen=True)
class Constrained:
    """Least squares over the ball: min (1/Σw) Σ w_i ½(y_i − f(x_i))² subject to ‖f‖ ≤ D.

    The problem has `Ball(D)` as its regularization. Its solution is the ridge solution f_λ whose
    multiplier λ ≥ 0 has ‖f_λ‖ = D, or the least-squares solution of least norm, λ = 0, where that
    lies in the ball. As ‖f_λ‖ falls with λ, and λD² ≤ (1/Σw) Σ w_i y_i², λ comes from a bisection
    after one eigendecomposition. With several outputs ‖f‖² is summed over them; an intercept is
    free. The multiplier is in the status, and in `solution.history["multiplier"]`.

    References
    ----------
    G. H. Golub, U. von Matt, Quadratically constrained least squares and quadratic problems, 1991.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Squared
    >>> problem = Problem(Linear().gram([[1.0]]), np.array([3.0]), Squared(), Ball(1.0))
    >>> solution = Constrained().solve(problem)  # (1 + λ)w = 3
    >>> solution.coefficients.round(9).tolist(), round(solution.history["multiplier"][0], 9)
    ([1.0], 2.0)
    """

    def solve(self, problem: Problem) -> Solution:
        require_square_loss(Constrained, problem)
        ball = problem.penalty
        if not isinstance(ball, Ball):
            raise ValueError(
                f"Constrained takes a ball in place of the penalty; got regularization="
                f"{problem.regularization!r}. Write Problem(..., regularization=Ball(radius))."
            )
        curve = NormCurve.of(problem)
        multiplier = curve.multiplier(ball.radius)
        coefficients, intercept = curve.fit(multiplier)
        coefficients = to_precision(coefficients, precision(problem.gram.dtype))
        norm = math.sqrt(max(sum(problem.norms(coefficients)), 0.0))
        if norm > ball.radius:  # where eigenvalues are rounded, the norm is off a little
            coefficients = (ball.radius / norm) * coefficients
            norm = ball.radius
        gap = certified_gap(problem, coefficients, intercept)
        where = f"‖f‖ = {norm:.6g} = D" if multiplier else f"‖f‖ = {norm:.6g} ≤ D = {ball.radius:g}"
        text = f"{where}, with the multiplier λ = {multiplier:.6g}; {gap}."
        status = Status(True, f"Solved: {text}")
        if not gap.relative <= TOLERANCE:
            advice = (
                "The Gram matrix is ill-conditioned: scale the columns, or take a smaller ball."
            )
            status = Status(False, f"Not solved: {text}", advice)
        return Solution(
            coefficients=coefficients,
            status=status,
            objective=gap.objective,
            gap=gap.absolute,
            history={"multiplier": [multiplier]},
            intercept=intercept,
        )


@dataclass(frozen=True, eq=False)
class NormCurve:
    """λ ↦ ‖f_λ‖ in the eigenvectors of √w K √w: n operations for each λ.

    Eigenvalues at the level of rounding are taken for 0, so that λ → 0 tends to the least-squares
    solution of least norm.

    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Squared
    >>> problem = Problem(Linear().gram([[1.0]]), np.array([3.0]), Squared(), regularization=0.0)
    >>> [NormCurve.of(problem).norm(ridge) for ridge in (0.0, 0.5, 2.0)]
    [3.0, 2.0, 1.0]
    """

    path: SpectralPath

    @classmethod
    def of(cls, problem: Problem) -> NormCurve:
        gram, weights = problem.gram.astype(np.float64), problem.weights
        path = SpectralPath.of(gram, problem.targets, weights, fit_intercept=problem.fit_intercept)
        counted = namespace(path.eigenvalues).where(path.null, 0.0, path.eigenvalues)
        return cls(replace(path, eigenvalues=counted))

    def norm(self, regularization: float) -> float:
        """‖f_λ‖ = √(Σ σ_j c_j²)."""
        c, _ = self.path.coordinates(regularization)
        return math.sqrt(float(namespace(c).sum(self.path.eigenvalues[:, None] * c**2)))

    def fit(self, regularization: float) -> tuple[Array, Any]:
        """α and the intercept; what K does not see is left out of α."""
        c, intercept = self.path.coordinates(regularization)
        c = namespace(c).where(self.path.null[:, None], 0.0, c)
        alpha = self.path.roots[:, None] * (self.path.eigenvectors @ c)
        single = self.path.targets.ndim == 1
        return (alpha[:, 0], float(intercept[0])) if single else (alpha, intercept)

    def multiplier(self, radius: float) -> float:
        """The λ with ‖f_λ‖ = radius; 0 where even ‖f_0‖ is no more."""
        if self.norm(0.0) <= radius:
            return 0.0
        xp, y = namespace(self.path.targets), self.path.targets
        roots = self.path.roots if y.ndim == 1 else self.path.roots[:, None]
        high = float(xp.sum((roots * y) ** 2)) / (self.path.total_weight * radius**2)
        low = high
        while self.norm(low) <= radius:
            low *= 1e-3
        while low < (middle := math.sqrt(low) * math.sqrt(high)) < high:  # of the logarithm
            low, high = (middle, high) if self.norm(middle) > radius else (low, middle)
        return high
