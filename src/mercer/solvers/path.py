"""Many regularisations of one problem: shared work, warm starts, held-out errors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mercer.arrays import Array, namespace
from mercer.losses import Squared
from mercer.operators import Affine, Gram
from mercer.solvers.admission import admitted, at_home
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.driver import drive
from mercer.solvers.early_stopping import HeldOut, HeldOutRows
from mercer.solvers.krylov import Step, conjugate_steps
from mercer.solvers.newton import Newton
from mercer.solvers.on_centres import OnCentres
from mercer.solvers.preconditioners.memory import check_memory
from mercer.solvers.problem import Problem
from mercer.solvers.solution import Solution, Status, plain_intercept


@dataclass(frozen=True, eq=False)
class PathPoint:
    """One λ of a path: its solution, and the mean loss on held-out points where there are some.

    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> problem = Problem(Gaussian().gram(np.eye(3)), np.ones(3), Squared(), 1.0)
    >>> [point.regularization for point in regularization_path(problem, [1.0, 0.1])]
    [1.0, 0.1]
    """

    regularization: float
    solution: Solution
    held_out_risk: float


def regularization_path(
    problem: Problem,
    regularizations: Sequence[float],
    solver: Any = None,
    held_out: tuple[Any, Any] | HeldOut | None = None,
) -> Iterator[PathPoint]:
    """Solve for one λ after the other, from the largest, each from the last one's solution.

    What does not depend on λ is computed once: the columns of the preconditioner of
    `ConjugateGradient`, the stored matrix of `Newton`, and on centres the factor of K_MM and the
    moments of sampled rows. Points are given as they are computed, so that the caller may stop
    where the held-out risk rises.

    Parameters
    ----------
    problem : Problem
        Its own λ is not used.
    regularizations : sequence of float
        Values of λ > 0, in any order.
    solver : ConjugateGradient or Newton, optional
        Its limits are for each λ; by default the one that is made for the problem.
    held_out : (points, targets) or HeldOut, optional
        Samples to estimate the risk with, or which rows of the problem are not fitted for that.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> X = np.linspace(0.0, 1.0, 60)[:, None]
    >>> problem = Problem(Gaussian(0.3).gram(X), np.sin(6 * X[:, 0]), Squared(), regularization=1.0)
    >>> points = list(regularization_path(problem, [1e-6, 1e-2, 1e-4]))
    >>> [point.regularization for point in points]
    [0.01, 0.0001, 1e-06]
    >>> all(point.solution.status.converged for point in points)
    True
    """
    if solver is None:
        squares = isinstance(problem.loss, Squared) and problem.on_all_points
        solver = ConjugateGradient() if squares else Newton()
    ridges = sorted(map(float, regularizations), reverse=True)
    hidden = HeldOutRows(held_out, problem) if isinstance(held_out, HeldOut) else None
    problem = problem if hidden is None else hidden.rest
    shared = solver.shared(replace(problem, regularization=ridges[-1]))
    last: Solution | None = None
    for ridge in ridges:
        last = drive(solver, replace(problem, regularization=ridge), last, shared=shared)
        at = last.coefficients, last.intercept
        risk = _risk(problem, *at, held_out) if hidden is None else hidden.risk(*at)
        yield PathPoint(ridge, last, risk)


class RidgesOnCentres:
    """Minimisers of the square loss on centres for many λ, which share every pass over the rows.

    Rows are held out, the others are fitted for all λ at once by conjugate gradients: columns of
    one product, preconditioned by U(D + λ)⁻¹Uᵀ with one eigendecomposition UDUᵀ of the Hessian on
    sampled rows. That Hessian is of all rows, so that it also serves the fit to all of them.

    Parameters
    ----------
    problem : Problem
        With the square loss, on centres; its own λ is not used.
    regularizations : sequence of float
        Values of λ > 0.
    rule : HeldOut
        Which rows are held out.
    tolerance : float
        J − min J as a share of J, estimated, at which a λ is left.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> X = np.linspace(0.0, 1.0, 60)[:, None]
    >>> cross = Gaussian(0.3).gram(X, X[::6])
    >>> problem = Problem.on_centres(cross, np.sin(6 * X[:, 0]), Squared(), 1.0)
    >>> path = RidgesOnCentres(problem, [1e-2, 1e-6], HeldOut(0.2), tolerance=1e-6)
    >>> [point.held_out_risk < 1e-3 for point in path.points]
    [False, True]
    >>> path.solution(1e-6).status.converged
    True
    """

    rounds = 2  # in the precision of the points, before products are in float64
    steps = 200  # of conjugate gradients in a round
    patience = 10  # steps without a lower energy, after which only rounding is left of a round

    def __init__(
        self, problem: Problem, regularizations: Sequence[float], rule: HeldOut, tolerance: float
    ) -> None:
        solver, ridges = Newton(tolerance), [float(ridge) for ridge in regularizations]
        problem = replace(admitted(solver, problem), regularization=min(ridges))
        check_memory(problem, None, spectral=True)
        held, self.tolerance = HeldOutRows(rule, problem), tolerance
        self.problem, self.shared = problem, solver.shared(problem)
        basis, outputs, xp = self.shared.basis, problem.outputs, namespace(problem.y)
        assert basis is not None
        self.whole = OnCentres(problem, basis, solver)
        self.space = OnCentres(held.rest, basis, solver)
        self.whole.columns = len(ridges) * outputs
        self.space.points = "float64"
        start = self.space.started(None)
        self.means = start.mean_moments
        self.hessian = self.whole.hessians.at(start, problem.loss).spectral()
        self.whole.hessians.current, self.shared.hessians = self.hessian, self.whole.hessians
        self.ridges = problem.array(np.repeat(ridges, outputs))
        self.side = xp.concat([-start.gradient] * len(ridges), axis=1)
        squares = xp.sum(held.rest.shares[:, None] * problem.y_columns**2, axis=0)
        self.at_zero = xp.concat([squares] * len(ridges))  # 2J(0)
        columns = self._solved()
        self.points = [
            self._point(held, ridge, columns[k * outputs : (k + 1) * outputs])
            for k, ridge in enumerate(ridges)
        ]

    def _product(self, which: Array, dtype: Any, _: Any, v: Array) -> Array:
        """H v for v = (γ, b) in some columns, each with a λ of its own: one pass."""
        space, size, ridges = self.space, self.space.size, self.ridges[which]
        gamma, row_map = v[:size, :], Affine(space.problem.shares[:, None], 0.0 * v[:1, :])
        result = space.row_pass(space.basis.coefficients(gamma), row_map, dtype)
        image = space.basis.pull(result.product) + ridges * gamma
        if self.means is None:
            return image
        constant = self.means.T @ gamma + (1.0 + space.floor) * v[size:, :]
        return space.xp.concat([image + self.means * v[size:, :], constant])

    def _unsolved(self, which: Array, theta: Array, residual: Array, energy: Array) -> Array:
        """Whether J − min J, about half the energy rᵀP⁻¹r, is too large."""
        sums = self.space.xp.sum(theta * (self.side[:, which] + residual), axis=0)
        return energy > self.tolerance * abs(self.at_zero[which] - sums)

    def _solved(self) -> list[Array]:
        """θ for every column of H θ = b."""
        xp, native = self.space.xp, str(self.space.operator.dtype)
        found = [0.0 * self.side[:, k] for k in range(self.side.shape[1])]
        which, residual = xp.arange(len(found)), self.side
        for turn in range(self.rounds + 1):
            dtype = native if turn < self.rounds else "float64"
            self._round(found, which, residual, dtype)
            if dtype == "float64":
                break  # its residuals were true
            theta = xp.stack([found[int(k)] for k in which], axis=1)
            residual = self.side[:, which] - self._product(which, "float64", None, theta)
            self.hessian.factorise(self.ridges[which])
            energy = xp.sum(residual * self.hessian.solve(residual), axis=0)
            left = xp.nonzero(self._unsolved(which, theta, residual, energy))[0]
            which, residual = which[left], residual[:, left]
            if not len(which):
                break
        return found

    def _round(self, found: list[Array], which: Array, residual: Array, dtype: Any) -> None:
        """Conjugate gradients for some columns; those that are solved leave."""
        xp, taken, least = self.space.xp, 0, [(math.inf, 0)] * len(found)
        after: Step | None = None
        start = xp.stack([found[int(k)] for k in which], axis=1)
        while len(which) and taken < self.steps:
            self.hessian.factorise(self.ridges[which])
            product = partial(self._product, which, dtype)
            for step in conjugate_steps(product, self.hessian.solve, residual, after=after):
                taken, theta = taken + 1, start + step.lifted
                unsolved = self._unsolved(which, theta, step.residual, step.energy)
                if dtype != "float64":
                    for j, k in enumerate(which):
                        least[int(k)] = min(least[int(k)], (float(step.energy[j]), taken))
                        unsolved[j] &= taken - least[int(k)][1] < self.patience
                if taken == self.steps or not bool(xp.all(unsolved)):
                    break
            for j, k in enumerate(which):
                found[int(k)] = theta[:, j]
            left = xp.nonzero(unsolved)[0]
            which, start, residual = which[left], start[:, left], residual[:, left]
            after = Step(*(part[..., left] for part in vars(step).values()))

    def _point(self, held: HeldOutRows, ridge: float, columns: list[Array]) -> PathPoint:
        """One λ: its coefficients and the loss of the rows that were held out."""
        beta, b = self.space.split(self.space.xp.stack(columns, axis=1))
        if self.problem.single:
            beta, b = beta[:, 0], b[0]
        text = f"Solved to about {self.tolerance:.0e} with {len(held.rows)} rows held out."
        solution = Solution(beta, Status(True, text), math.nan, math.nan, {}, plain_intercept(b))
        return PathPoint(ridge, solution, held.risk(beta, b))

    def solution(self, regularization: float) -> Solution:
        """The minimiser on all rows, from that on those which were fitted."""
        starts = {point.regularization: point.solution for point in self.points}
        problem = replace(self.problem, regularization=regularization)
        return drive(Newton(), problem, starts.get(regularization), shared=self.shared)


def _risk(problem: Problem, v: Array, b: Any, held_out: Any) -> float:
    """The mean loss on other points, nan where there are none."""
    if held_out is None:
        return math.nan
    points, y = held_out
    kernel = problem.operator.kernel
    cross = Gram(kernel, kernel.points(points), problem.operator.y)
    y, v, b = (at_home(part, cross) for part in (y, v, b))
    return float(problem.loss.risk(y, cross @ v + b))
