"""Kernel ridge regression for every λ of a search: by leave-one-out, or on held-out rows.

`CentresPath` is the leave-one-out error on centres, for all λ from one eigendecomposition;
`HeldOutPath` solves one λ after the other from warm starts. On all points leave-one-out is that of
`SpectralPath`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import as_numpy
from mercer.operators import Gram
from mercer.runtime.budget import memory_budget
from mercer.runtime.threads import spans, thread_count
from mercer.solvers.automatic import Rates
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.early_stopping import HeldOut
from mercer.solvers.newton import Newton
from mercer.solvers.path import RidgesOnCentres, regularization_path
from mercer.solvers.problem import Problem
from mercer.solvers.solution import Solution


@dataclass(frozen=True)
class Tuning:
    """Costs and accuracy of paths of ridges."""

    eigen_seconds: float = 1.8e-10  # for each n³ of an eigendecomposition in one thread: 5 s
    # for n = 3,000
    block: int = 4096  # rows of K_nM at a time, fewer where memory is short
    copies: int = 8  # of a block: features, their squares, fitted values and what is between
    jitter: float = 1e-13  # of the mean diagonal of K_MM, below which centres are one
    rough: float = 1e-2  # the residual on all points to which a λ is solved that is only judged
    rough_on_centres: float = 1e-6  # the same on centres, as a share of the objective. With 400 on
    # 20,000 rows of household power errors are within 0.1 % of those of the minimisers for λ from
    # 1e-10 to 1e-4


TUNING = Tuning()


class CentresPath:
    """min Σ_i w_i (y_i − f(x_i) − b)² + ρ‖f‖² over f with the given centres, for all ρ = λΣw.

    With z(x) = L⁻¹k(C, x), LLᵀ = K_MM, it is ridge regression on M features. Their moments
    G = Σ w zzᵀ = UDUᵀ are summed up block by block; the leverage of a row is
    h_i = w_i z_iᵀ(G + ρI)⁻¹z_i (and w_i/Σw for b, with centred features), and its leave-one-out
    error its residual over 1 − h_i, exactly. The centres stay where they are.

    Parameters
    ----------
    problem : Problem
        With the square loss, on centres; its own λ is not used.
    """

    def __init__(self, problem: Problem) -> None:
        self.asked = problem
        self.weights = as_numpy(problem.sample_weights)
        self.total = float(self.weights.sum())
        matrix = as_numpy(problem.penalty_operator.dense())
        jitter = TUNING.jitter * float(np.abs(matrix.diagonal()).mean())
        self.factor = linalg.cholesky(matrix, jitter=jitter, overwrite=True)
        self._moments()

    def _blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Rows of K_nM, targets and weights, some at a time."""
        cross, columns = self.asked.operator, as_numpy(self.asked.y_columns)
        fitting = memory_budget() // (2 * thread_count() * TUNING.copies * 8 * cross.shape[1])
        for start, stop in spans(cross.shape[0], max(64, min(TUNING.block, fitting))):
            part = Gram(cross.kernel, cross.x.slice(start, stop), cross.y)
            block = np.asarray(part.astype(np.float64).dense())
            yield block, columns[start:stop], self.weights[start:stop]

    def _moments(self) -> None:
        size, outputs = self.asked.size, self.asked.outputs
        gram, cross = np.zeros((size, size)), np.zeros((size, outputs))
        mean, level = np.zeros(size), np.zeros(outputs)
        features = np.asarray(self.factor.other_half_solve(np.eye(size)))  # k(C, x) ↦ z(x)
        for block, y, w in self._blocks():
            z = block @ features  # SciPy's triangular systems would keep other threads waiting
            cross += z.T @ (w[:, None] * y)
            mean += w @ z
            level += w @ y
            z *= np.sqrt(w)[:, None]
            gram += z.T @ z
        self.mean, self.level = mean / self.total, level / self.total
        if self.asked.fit_intercept:
            gram -= self.total * np.outer(self.mean, self.mean)
            cross -= self.total * np.outer(self.mean, self.level)
        else:
            self.mean, self.level = 0.0 * self.mean, 0.0 * self.level
        values, vectors = np.linalg.eigh(gram)
        self.values, self.cross = np.maximum(values, 0.0), vectors.T @ cross
        self.mean = self.mean @ vectors
        self.lifts = features @ vectors  # k(C, x) ↦ Uᵀz(x)

    def leave_one_out_errors(self, regularizations: Sequence[float]) -> np.ndarray:
        """The weighted mean square of what leave-one-out misses, for each λ and output."""
        ridges = self.total * np.asarray(regularizations, np.float64)
        inverses = 1.0 / (self.values[:, None] + ridges)
        coefficients = inverses[:, :, None] * self.cross[:, None, :]
        total = np.zeros((len(ridges), self.cross.shape[1]))
        own = 1.0 / self.total if self.asked.fit_intercept else 0.0
        for block, y, w in self._blocks():
            t = block @ self.lifts - self.mean
            leverage = w[:, None] * (own + t**2 @ inverses)
            fitted = np.einsum("im,mro->iro", t, coefficients, optimize=True)
            rest = (y - self.level)[:, None, :] - fitted
            left = rest / np.maximum(1.0 - leverage, np.finfo(float).tiny)[:, :, None]
            total += np.einsum("i,iro->ro", w, left**2)
        return total / self.total

    @staticmethod
    def seconds(
        rates: Rates, rows: int, size: int, ridges: int, outputs: int = 1, threads: int = 1
    ) -> float:
        """About what it takes for so many rows, centres and λ, on a machine of these speeds.

        As many paths as there are threads are made at a time; the seconds are those of each.

        >>> rates = Rates({"float64": 2e10}, 1e-9)
        >>> 3.0 < CentresPath.seconds(rates, 50_000, 1_000, 31) < 10.0
        True
        """
        products = 2.5 * size + 2.0 * ridges * (1 + outputs)
        each = 2.0 * rates.value_seconds + products / rates.multiply_adds["float64"]
        return rows * size * each + TUNING.eigen_seconds * float(size) ** 3 / threads

    def solution(self, regularization: float) -> Solution:
        """The minimiser for one λ."""
        return Newton().solve(replace(self.asked, regularization=regularization))


class HeldOutPath:
    """Errors on held-out rows for all λ, and the solution on all rows for one of them.

    On centres all λ share every pass over the rows and one preconditioner, which also serves the
    solution; on all points each λ starts from the solution of the last one, with the same columns
    of the preconditioner.

    Parameters
    ----------
    problem : Problem
        With the square loss, on centres or on all points; its own λ is not used.
    rule : HeldOut
        Which rows are held out.
    """

    def __init__(self, problem: Problem, rule: HeldOut) -> None:
        self.asked, self.rule = problem, rule
        self.starts: dict[float, Solution] = {}
        self.shared: RidgesOnCentres | None = None

    def errors(self, regularizations: Sequence[float], keep: bool = True) -> np.ndarray:
        """The mean square that held-out rows are missed by, for each λ, pooled over outputs.

        The preconditioner on centres is not kept where there are others to come: it is large.
        """
        if self.asked.on_all_points:
            rough = ConjugateGradient(TUNING.rough)
            points = regularization_path(self.asked, regularizations, rough, self.rule)
        else:
            path = RidgesOnCentres(self.asked, regularizations, self.rule, TUNING.rough_on_centres)
            points, self.shared = iter(path.points), path if keep else None
        found = np.empty(len(regularizations))
        for point in points:
            self.starts[point.regularization] = point.solution
            mean_square = 2.0 * point.held_out_risk / self.asked.outputs
            found[np.asarray(regularizations) == point.regularization] = mean_square
        return found

    def solution(self, regularization: float) -> Solution:
        """The minimiser on all rows, from where the path was."""
        if self.shared is not None:
            return self.shared.solution(regularization)
        solver: Any = ConjugateGradient() if self.asked.on_all_points else Newton()
        problem = replace(self.asked, regularization=regularization)
        return solver.solve(problem, self.starts.get(regularization))
