"""Operator splitting (ADMM): ridge regression and proximal maps in turn, for every loss."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer import linalg
from mercer.checks import check_count, check_positive
from mercer.errors import NotPositiveDefiniteError
from mercer.solvers.descent.landscape import Callback, State, columns, plain
from mercer.solvers.gaps import Gap, certified_gap, shares_of, targets_on_host
from mercer.solvers.problem import Problem, require_arrays
from mercer.solvers.solution import Solution, Status

CHECKS = 10  # steps between two looks at the gap
RELAXATION = 1.6
BALANCE = 5.0  # residuals further apart than this change the penalty


@dataclass(frozen=True)
class Splitting:
    """The alternating direction method: min Σ p_i ℓ(y_i, z_i) + (λ/2)‖f‖² with z = f(x) + b.

    In turn, f is a ridge regression on z − v with regularisation λ/ρ, z_i the proximal map of
    ℓ(y_i, ·)/ρ at f(x_i) + b + v_i, and v grows by what is between them; p = w/Σw. ρv tends to the
    solution of the dual problem. One eigendecomposition serves every ρ, which is balanced on the
    way. It takes every loss that has a proximal map, with kinks too, and the gap is the true one;
    for many digits `Newton` and `DualAscent` are faster.

    Parameters
    ----------
    tolerance : float, default=1e-4
        The relative duality gap that ends the iteration.
    iterations : int, default=10000
        At most so many steps.
    callback : function of (iteration, State), optional
        Told of every tenth step; the solver stops where it returns True.

    References
    ----------
    S. Boyd, N. Parikh, E. Chu, B. Peleato, J. Eckstein, Distributed optimization and statistical
    learning via the alternating direction method of multipliers, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Hinge
    >>> gram, y = Linear().gram([[1.0], [-1.0]]), np.array([1.0, -1.0])
    >>> solution = Splitting(1e-8).solve(Problem(gram, y, Hinge(), regularization=0.5))
    >>> bool(np.allclose(gram @ solution.coefficients, y))  # f(x) = x
    True
    """

    tolerance: float = 1e-4
    iterations: int = 10_000
    callback: Callback | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_positive(self, "tolerance", self.tolerance)
        check_count(self, "iterations", self.iterations)

    def solve(self, problem: Problem) -> Solution:
        require_arrays(self, problem)
        if not problem.regularization > 0:
            raise ValueError("Splitting needs regularization > 0.")
        ridge = _Ridge(problem)
        state = _State(problem, ridge)
        best: tuple[Gap, Any, Any] | None = None
        history: dict[str, list[Any]] = {"objective": [], "gap": [], "penalty": []}
        steps = 0
        while steps < self.iterations:
            for _ in range(min(CHECKS, self.iterations - steps)):
                state.step()
                steps += 1
            for alpha in state.candidates():
                gap = certified_gap(problem, alpha, state.intercept, ridge.multiply)
                if best is None or gap.absolute < best[0].absolute:
                    best = gap, alpha, state.intercept
            assert best is not None
            history["objective"].append(best[0].objective)
            history["gap"].append(best[0].absolute)
            history["penalty"].append(state.rho)
            if best[0].relative <= 0.5 * self.tolerance:
                break
            told = State(best[1], best[2], best[0].objective)
            if self.callback is not None and self.callback(steps, told):
                break
            state.balance()
        assert best is not None
        return self._solution(problem, ridge, best[1], best[2], steps, history)

    def _solution(
        self, problem: Problem, ridge: _Ridge, alpha: Any, intercept: Any, steps: int, history: Any
    ) -> Solution:
        coefficients = alpha.astype(problem.gram.dtype)
        gap = certified_gap(problem, coefficients, intercept, ridge.multiply)
        converged = gap.relative <= self.tolerance
        advice = "Scale the features, raise λ, or allow more iterations."
        return Solution(
            coefficients=coefficients,
            status=Status(
                converged,
                f"{'Solved' if converged else 'Stopped'}: relative duality gap {gap.relative:.1e} "
                f"after {steps} steps of splitting.",
                "" if converged else advice,
            ),
            objective=gap.objective,
            gap=gap.absolute,
            history=history,
            intercept=plain(intercept),
        )


class _Ridge:
    """Ridge regressions with one K, any targets and any λ: √p K √p = QΛQᵀ."""

    def __init__(self, problem: Problem) -> None:
        matrix = problem.gram.astype(np.float64).dense()
        self.matrix = matrix
        p = shares_of(problem)
        self.roots = np.sqrt(p)[:, None]
        values, self.vectors = linalg.eigen(self.roots * matrix * self.roots.T)
        noise = 1e-7 if problem.gram.dtype == np.float32 else 1e-12
        if values[0] < -noise * len(p) * max(float(values[-1]), 0.0) or values[-1] < 0:
            raise NotPositiveDefiniteError(
                f"Expected a positive definite kernel, whose objective is convex; the Gram matrix "
                f"has the eigenvalue {float(values[0]):.3g} (rows scaled by √w).",
                self.vectors[:, 0],
            )
        self.eigenvalues = np.maximum(values, 0.0)
        self.centred = problem.fit_intercept
        self.ones = self.vectors.T @ self.roots

    def multiply(self, v: np.ndarray) -> np.ndarray:
        return self.matrix @ v

    def fit(self, targets: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """α, b and the values f(x) + b on the rows that count, for (n, outputs) targets."""
        inverse = 1.0 / (self.eigenvalues + ridge)[:, None]
        sides = self.vectors.T @ (self.roots * targets)
        intercept = np.zeros(targets.shape[1])
        if self.centred:
            pull = self.ones * inverse
            intercept = (pull * sides).sum(axis=0) / float((pull * self.ones).sum())
            sides = sides - self.ones * intercept
        c = self.vectors @ (inverse * sides)
        scaled = self.vectors @ (self.eigenvalues[:, None] * inverse * sides)
        safe = np.where(self.roots > 0, self.roots, 1.0)
        return self.roots * c, intercept, scaled / safe + intercept


class _State:
    """Where the splitting is: f + b, z, v and ρ."""

    def __init__(self, problem: Problem, ridge: _Ridge) -> None:
        self.problem, self.ridge = problem, ridge
        self.y, self.p = targets_on_host(problem), shares_of(problem)
        self.shape = self.y.shape
        self.rho = problem.loss.smoothness if math.isfinite(problem.loss.smoothness) else 1.0
        self.z, self.v = np.zeros(self.shape), np.zeros(self.shape)
        self.apart = self.moved = 0.0

    def step(self) -> None:
        targets = (self.z - self.v).reshape(len(self.y), -1)
        alpha, intercept, values = self.ridge.fit(targets, self.problem.regularization / self.rho)
        self.alpha = alpha.reshape(self.shape)
        self.intercept = intercept.reshape(self.shape[1:])
        values = values.reshape(self.shape)
        before = self.z
        mixed = RELAXATION * values + (1.0 - RELAXATION) * before
        self.z = self.problem.loss.proximal(self.y, mixed + self.v, 1.0 / self.rho)
        self.v = self.v + mixed - self.z
        rows = columns(self.p, self.y)
        self.apart = math.sqrt(float((rows * (values - self.z) ** 2).sum()))
        self.moved = math.sqrt(float((rows * (self.z - before) ** 2).sum()))

    def candidates(self) -> tuple[np.ndarray, np.ndarray]:
        """The ridge regression's α, and the one that belongs to the dual variable."""
        dual = columns(self.p, self.y) * (-self.rho / self.problem.regularization) * self.v
        return self.alpha, dual

    def balance(self) -> None:
        """Change ρ where one residual is much larger than the other; ρv stays."""
        if self.apart > BALANCE * self.moved:
            factor = 2.0
        elif self.moved > BALANCE * self.apart:
            factor = 0.5
        else:
            return
        self.rho, self.v = self.rho * factor, self.v / factor
