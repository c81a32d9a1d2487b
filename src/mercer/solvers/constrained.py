"""Other functions of the norm than (λ/2)‖f‖²: the constraint ‖f‖ ≤ D, and any increasing R(‖f‖²).

By the representer theorem their minimisers are those f_λ of (λ/2)‖f‖² for one multiplier λ: with
‖f_λ‖ = D, or with λ = 2R′(‖f_λ‖²). As ‖f_λ‖ falls with λ, that is an equation in one number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.arrays import Array, namespace, precision, to_precision
from mercer.losses import Squared
from mercer.solvers.automatic import default_solver
from mercer.solvers.optimality import certified_gap
from mercer.solvers.penalties import Ball, NormPenalty
from mercer.solvers.problem import Problem, Solver, require_plain_intercept
from mercer.solvers.solution import Solution, Status
from mercer.solvers.spectral import SpectralPath

DECADES = 60  # decades of λ up and down in which a root is sought
GOAL = 1e-5  # relative gap; float32 coefficients of a constraint leave about 1e-6


@dataclass(frozen=True)
class Constrained:
    """Minimise the risk over the ball ‖f‖ ≤ D, or the risk plus R(‖f‖²) for an increasing R.

    The problem has `Ball(D)`, `PowerOfNorm(μ, p)` or `OfNorm(R, R′)` as its regularization. The
    solution is that of (λ/2)‖f‖² for the multiplier λ with ‖f_λ‖ = D, or 2R′(‖f_λ‖²) = λ; λ = 0
    where the least-squares solution of least norm lies in the ball. For the square loss all f_λ
    come from one eigendecomposition, for other losses from a solver. With several outputs ‖f‖² is
    summed over them; an intercept is free. The multiplier is in the status, and in
    `solution.history["multiplier"]`. The duality gap is certified where R(‖f‖²) is convex in f;
    otherwise the best of the stationary points that were found is returned, and the status says so.

    Parameters
    ----------
    solver : solver, optional
        Of the problems with (λ/2)‖f‖² for other losses than the square; by default Newton's method
        or dual ascent, to a relative gap of 1e-9.

    References
    ----------
    G. H. Golub, U. von Matt, Quadratically constrained least squares and quadratic problems, 1991;
    B. Schölkopf, R. Herbrich, A. Smola, A generalized representer theorem, 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> problem = Problem(Linear().gram([[1.0]]), np.array([3.0]), Squared(), Ball(1.0))
    >>> solution = Constrained().solve(problem)  # (1 + λ)w = 3
    >>> solution.coefficients.round(9).tolist(), round(solution.history["multiplier"][0], 9)
    ([1.0], 2.0)
    >>> from mercer.solvers import PowerOfNorm
    >>> absolute = replace(problem, regularization=PowerOfNorm(1.0))  # ½(3 − w)² + |w|
    >>> Constrained().solve(absolute).coefficients.round(9).tolist()
    [2.0]
    """

    solver: Solver | None = None

    def solve(self, problem: Problem) -> Solution:
        require_plain_intercept("Constrained", problem)
        curve: Curve
        if isinstance(problem.loss, Squared):
            curve = NormCurve(problem)
        else:
            curve = SolvedCurve(problem, self.solver or default_solver(problem.loss, 1e-9))
        if isinstance(problem.penalty, Ball):
            multipliers = [_multiplier_of_ball(curve, problem.penalty.radius)]
        elif isinstance(problem.penalty, NormPenalty):
            multipliers = _multipliers(curve, problem.penalty)
        else:
            raise ValueError(
                f"Constrained takes a function of the norm in place of (λ/2)‖f‖²; got "
                f"regularization={problem.regularization!r}. Write Problem(..., "
                "regularization=Ball(radius)), PowerOfNorm(strength) or OfNorm(R, slope)."
            )
        fits = [_fitted(problem, curve, multiplier) for multiplier in multipliers]
        return min(fits, key=lambda solution: solution.objective)


def _fitted(problem: Problem, curve: Curve, multiplier: float) -> Solution:
    """The solution for a multiplier; f = 0 for an infinite one."""
    penalty, (coefficients, intercept) = problem.penalty, curve.fit(multiplier)
    coefficients = to_precision(coefficients, precision(problem.gram.dtype))
    norm, where = _norm(problem, coefficients), ""
    if isinstance(penalty, Ball):
        radius = penalty.radius
        if norm > radius:  # eigenvalues are rounded, and so the norm is off a little
            coefficients = (radius / norm) * coefficients
            norm = _norm(problem, coefficients)
        where = " = D" if abs(norm - radius) <= 1e-5 * radius else f" ≤ D = {radius:g}"
    finite = multiplier if math.isfinite(multiplier) else 0.0
    gap = certified_gap(problem, coefficients, intercept, multiplier=finite)
    text = f"‖f‖ = {norm:.6g}{where}, with the multiplier λ = {multiplier:.6g}; "
    if isinstance(penalty, NormPenalty) and not penalty.convex:
        text = f"Stationary, not certified: {text}R(‖f‖²) is not stated to be convex."
        status = Status(True, text)
    elif gap.relative <= GOAL:
        status = Status(True, f"Solved: {text}{gap}.")
    else:
        advice = "Write Constrained(solver) with a solver of a smaller tolerance."
        status = Status(False, f"Not solved to {GOAL:.0e}: {text}{gap}.", advice)
    history = {"multiplier": [multiplier]}
    return Solution(coefficients, status, gap.objective, gap.absolute, history, intercept)


def _norm(problem: Problem, coefficients: Array) -> float:
    return math.sqrt(max(sum(problem.norms(coefficients)), 0.0))


# ---- one equation for the multiplier -------------------------------------------------------------


def _multiplier_of_ball(curve: Curve, radius: float) -> float:
    """The λ with ‖f_λ‖ = radius; 0 where even ‖f_0‖ is no more."""
    if curve.has_limit and curve.norm(0.0) <= radius:
        return 0.0

    def excess(ridge: float) -> float:  # it grows with λ
        return -_log(curve.norm(ridge) / radius)

    high = low = curve.start
    for _ in range(DECADES):
        if excess(high) >= 0:
            break
        high *= 10.0
    for _ in range(DECADES if curve.has_limit else 10):
        if excess(low) < 0:
            return _root(excess, low, high, curve.accuracy)
        low *= 0.1
    return low  # the ball holds f_λ for every λ that was tried


def _multipliers(curve: Curve, penalty: NormPenalty) -> list[float]:
    """All λ > 0 that were found with λ = 2R′(‖f_λ‖²); infinite for f = 0."""

    def excess(ridge: float) -> float:  # it grows with λ where r is convex
        norm = curve.norm(ridge)
        return _log(ridge) - _log(2.0 * penalty.slope(norm * norm)) if norm > 0 else -math.inf

    below = 14 if curve.has_limit else 8
    step = 1.0 if penalty.convex else 0.25
    grid = (curve.start * 10.0 ** np.arange(-below, 8.0 + step, step)).tolist()
    values = [excess(ridge) for ridge in grid]
    roots = [
        _root(excess, grid[i], grid[i + 1], curve.accuracy)
        for i in range(len(grid) - 1)
        if values[i] < 0 <= values[i + 1]
    ]
    if values[0] >= 0 and not roots:
        roots = [grid[0]]
    return roots if penalty.convex and roots else [*roots, math.inf]


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _root(excess: Callable[[float], float], low: float, high: float, accuracy: float) -> float:
    """Where the excess becomes 0 between low and high: by Brent's method in log λ."""
    bottom = -1e6  # in place of −∞, which f = 0 has

    def clipped(log_ridge: float) -> float:
        return min(max(excess(math.exp(log_ridge)), bottom), -bottom)

    ends = math.log(low), math.log(high)
    if clipped(ends[0]) >= 0 or clipped(ends[1]) <= 0:  # a root at an end, up to rounding
        return low if clipped(ends[0]) >= 0 else high
    root = scipy.optimize.brentq(clipped, *ends, xtol=accuracy, rtol=4 * np.finfo(float).eps)
    return math.exp(root)


# ---- λ ↦ f_λ and its norm ------------------------------------------------------------------------


class SolvedCurve:
    """λ ↦ f_λ for any loss, by a solver; each λ is solved once."""

    has_limit = False  # whether λ = 0 is known
    accuracy = 1e-8  # with which log λ follows from ‖f_λ‖

    def __init__(self, problem: Problem, solver: Solver) -> None:
        self.problem, self.solver = problem, solver
        self.solutions: dict[float, Solution] = {}
        # a λ to begin with, of the size of the eigenvalues of K/n
        self.start = float(np.mean(np.asarray(problem.gram.diagonal(), np.float64))) or 1.0

    def norm(self, ridge: float) -> float:
        """‖f_λ‖."""
        return _norm(self.problem, self._at(ridge).coefficients)

    def fit(self, ridge: float) -> tuple[Array, Any]:
        """α and the intercept; of f = 0 for λ = ∞."""
        if math.isinf(ridge):
            far = self._at(1e8 * self.start)
            return 0.0 * far.coefficients, far.intercept
        return self._at(ridge).coefficients, self._at(ridge).intercept

    def _at(self, ridge: float) -> Solution:
        if ridge not in self.solutions:
            posed = replace(self.problem, regularization=ridge)
            self.solutions[ridge] = self.solver.solve(posed)
        return self.solutions[ridge]


class NormCurve:
    """λ ↦ f_λ for the square loss in the eigenvectors of √w K √w: n operations for each λ.

    Eigenvalues at the level of rounding are taken for 0, so that λ → 0 tends to the least-squares
    solution of least norm.
    """

    has_limit, accuracy = True, 1e-15

    def __init__(self, problem: Problem) -> None:
        gram, weights = problem.gram.astype(np.float64), problem.weights
        path = SpectralPath.of(gram, problem.targets, weights, fit_intercept=problem.fit_intercept)
        self.xp, self.null = namespace(path.eigenvalues), path.null
        self.path = replace(path, eigenvalues=self.xp.where(self.null, 0.0, path.eigenvalues))
        self.start = float(self.xp.mean(self.path.eigenvalues)) or 1.0

    def norm(self, ridge: float) -> float:
        """‖f_λ‖ = √(Σ σ_j c_j²)."""
        c, _ = self.path.coordinates(ridge)
        return math.sqrt(float(self.xp.sum(self.path.eigenvalues[:, None] * c**2)))

    def fit(self, ridge: float) -> tuple[Array, Any]:
        """α and the intercept; what K does not see is left out of α."""
        infinite = math.isinf(ridge)
        c, intercept = self.path.coordinates(1e100 if infinite else ridge)
        c = self.xp.where(self.null[:, None], 0.0, 0.0 * c if infinite else c)
        alpha = self.path.roots[:, None] * (self.path.eigenvectors @ c)
        single = self.path.targets.ndim == 1
        return (alpha[:, 0], float(intercept[0])) if single else (alpha, intercept)


Curve = SolvedCurve | NormCurve
