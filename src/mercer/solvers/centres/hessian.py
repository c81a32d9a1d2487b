"""Products with the second derivatives of an objective on centres, and their preconditioner."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.evaluation.sandwich import Affine
from mercer.losses import Loss
from mercer.solvers.centres.basis import Preconditioner, sample_size
from mercer.solvers.centres.objective import Objective, Point
from mercer.solvers.centres.passes import StoredPasses, random_rows
from mercer.solvers.centres.problem import CentresProblem

STALE = 0.2  # change of the curvatures, relative to their mean, that makes a preconditioner old


class Hessian:
    """H v = L⁻¹K_Mn(p ℓ'' ∘ (K_nM L⁻ᵀγ + b)) + λγ for v = (γ, b): a pass over the rows.

    `floor` is added to the curvature in b, where every loss may be straight.
    """

    def __init__(
        self, objective: Objective, point: Point, loss: Loss, floor: float, dtype: Any
    ) -> None:
        self.objective, self.problem, self.floor = objective, objective.problem, floor
        self.dtype = np.dtype(dtype)
        self.multiclass = loss.is_multiclass
        if self.multiclass:
            self.probabilities = loss.probability(point.values).astype(self.dtype)  # type: ignore[attr-defined]
        else:
            self.factors = np.asarray(
                self.problem.shares * loss.curvature(self.problem.columns, point.values)
            )

    def product(self, v: np.ndarray) -> np.ndarray:
        """H v, for a column or several."""
        size, outputs = self.objective.size, v.shape[1]
        beta, shift = self.objective.split(v)
        shift = np.broadcast_to(np.asarray(shift, np.float64), (1, outputs))
        kept = np.empty((self.problem.passes.rows, outputs)) if self.objective.intercept else None
        middle = self._coupled(shift, kept) if self.multiclass else self._apart(shift, kept)
        moments = self.objective.passes.sandwich(beta, middle, self.dtype)
        image = self.objective.basis.pull(moments) + self.problem.regularization * v[:size]
        if kept is None:
            return image
        pushes = kept if self.multiclass else self.factors * (kept + shift)
        constant = pushes.sum(axis=0, keepdims=True) + self.floor * v[-1:]
        return np.concatenate([image, constant])

    def _apart(self, shift: np.ndarray, kept: np.ndarray | None) -> Affine:
        return Affine(self.factors, shift, kept)

    def _coupled(self, shift: np.ndarray, kept: np.ndarray | None) -> Any:
        """p(diag(q) − qqᵀ) of each row, q being the probabilities of its classes."""
        shares, shift = self.problem.shares.astype(self.dtype), shift.astype(self.dtype)

        def middle(start: int, stop: int, rows: np.ndarray) -> np.ndarray:
            q, rows = self.probabilities[start:stop], rows + shift
            pushes = rows - np.einsum("ij,ij->i", q, rows)[:, None]
            pushes *= q
            pushes *= shares[start:stop]
            if kept is not None:
                kept[start:stop] = pushes
            return np.asarray(pushes, rows.dtype)

        return middle


def mean_curvature(problem: CentresProblem, loss: Loss, values: np.ndarray) -> np.ndarray:
    """p·ℓ'' of each row, the mean over outputs."""
    if loss.is_multiclass:
        q = loss.probability(values)  # type: ignore[attr-defined]
        curvature = np.asarray(q * (1.0 - q))
    else:
        curvature = np.asarray(loss.curvature(problem.columns, values))
    return np.asarray(problem.shares[:, 0] * curvature.mean(axis=1))


class Preconditioning:
    """The preconditioner in use, kept as long as the curvatures are near those it was made for."""

    def __init__(self, objective: Objective, solver: Any, goal: float, floor: float) -> None:
        self.objective, self.solver, self.goal, self.floor = objective, solver, goal, floor
        self.current: Preconditioner | None = None
        self.used = np.empty(0)  # curvatures of the current one

    def take_over(self, last: Preconditioning) -> None:
        """Begin with that of another λ."""
        self.current, self.used, last.current = last.current, last.used, None
        if self.current is not None:
            self.current.factorise(self.objective.problem.regularization)

    def at(self, point: Point, loss: Loss) -> Preconditioner:
        """The preconditioner for a point, made anew where the current one is old."""
        objective = self.objective
        factors = mean_curvature(objective.problem, loss, point.values)
        old = self.current
        if old is not None and np.abs(factors - self.used).sum() <= STALE * self.used.sum():
            return old
        self.used, self.current, old = factors, None, None  # the memory of the old one goes first
        chosen, points = self._sample(np.flatnonzero(factors))
        scale = np.count_nonzero(factors) / max(len(chosen), 1)
        self.current = Preconditioner(
            objective.basis,
            objective.passes,
            points,
            scale * factors[chosen],
            objective.problem.regularization,
            self.floor if objective.intercept else None,
        )
        return self.current

    def _sample(self, active: np.ndarray) -> tuple[np.ndarray, Any]:
        """Some of the rows that bend the objective."""
        passes, count = self.objective.passes, self.solver.sample
        if count is None:
            stored = isinstance(passes, StoredPasses)
            width = 0 if stored else getattr(passes.centres, "width", 1)
            outputs = self.objective.problem.columns.shape[1]
            rows = max(len(active), 1)
            count = sample_size(rows, self.objective.size, self.goal, width, outputs)
        among = random_rows(len(active), count, self.solver.random_state)
        return active[among], passes.take(active[among])
