"""Products with the second derivatives of an objective on centres, and their preconditioner."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import Array, beside, is_tensor, namespace, on_host, to_precision
from mercer.evaluation.row_pass import Affine
from mercer.losses import Loss
from mercer.solvers.centres.basis import DevicePreconditioner, Preconditioner, sample_size
from mercer.solvers.centres.objective import Objective, Point
from mercer.solvers.centres.passes import StoredPasses, random_rows
from mercer.solvers.problem import Problem

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
            found = loss.probability(point.values)  # type: ignore[attr-defined]
            self.probabilities = to_precision(found, self.dtype)
        else:
            bends = loss.curvature(self.problem.y_columns, point.values)
            self.factors = self.problem.shares[:, None] * bends

    def product(self, v: Array) -> Array:
        """H v, for a column or several."""
        size, xp = self.objective.size, namespace(v)
        beta = self.objective.split(v)[0]
        shift = v[-1:] if self.objective.intercept else 0.0 * v[:1]
        kept = xp.empty_like(self.problem.y_columns) if self.objective.intercept else None
        middle = self._coupled(shift, kept) if self.multiclass else self._apart(shift, kept)
        moments = self.objective.passes.row_pass(beta, middle, self.dtype)
        image = self.objective.basis.pull(moments) + self.problem.regularization * v[:size]
        if kept is None:
            return image
        pushes = kept if self.multiclass else self.factors * (kept + shift)
        constant = pushes.sum(axis=0, keepdims=True) + self.floor * v[-1:]
        return xp.concat([image, constant])

    def _apart(self, shift: Array, kept: Array | None) -> Affine:
        return Affine(self.factors, shift, kept)

    def _coupled(self, shift: Array, kept: Array | None) -> Any:
        """p(diag(q) − qqᵀ) of each row, q being the probabilities of its classes."""
        shares, shift = (to_precision(a, self.dtype) for a in (self.problem.shares[:, None], shift))
        row_dots = _row_dots(shift)

        def middle(start: int, stop: int, rows: Array) -> Array:
            q, rows = self.probabilities[start:stop], rows + shift
            pushes = rows - row_dots(q, rows)[:, None]
            pushes *= q
            pushes *= shares[start:stop]
            if kept is not None:
                kept[start:stop] = pushes
            return to_precision(pushes, rows.dtype)

        return middle


def _row_dots(like: Array) -> Any:
    """(A, B) ↦ Σ_j A_ij B_ij for every i, in one reading where the library can."""
    if is_tensor(like):
        return lambda a, b: (a * b).sum(axis=1)
    return lambda a, b: np.einsum("ij,ij->i", a, b)


def mean_curvature(problem: Problem, loss: Loss, values: Array) -> Array:
    """p·ℓ'' of each row, the mean over outputs."""
    if loss.is_multiclass:
        q = loss.probability(values)  # type: ignore[attr-defined]
        curvature = q * (1.0 - q)
    else:
        curvature = loss.curvature(problem.y_columns, values)
    return problem.shares * curvature.mean(axis=1)


class Preconditioning:
    """The preconditioner in use, kept as long as the curvatures are near those it was made for."""

    def __init__(self, objective: Objective, solver: Any, goal: float, floor: float) -> None:
        self.objective, self.solver, self.goal, self.floor = objective, solver, goal, floor
        self.current: Preconditioner | DevicePreconditioner | None = None
        self.used: Any = None  # curvatures of the current one

    def take_over(self, last: Preconditioning) -> None:
        """Begin with that of another λ."""
        self.current, self.used, last.current = last.current, last.used, None
        if self.current is not None:
            self.current.factorise(self.objective.problem.regularization)

    def at(self, point: Point, loss: Loss) -> Preconditioner | DevicePreconditioner:
        """The preconditioner for a point, made anew where the current one is old."""
        objective = self.objective
        factors = mean_curvature(objective.problem, loss, point.values)
        old = self.current
        if old is not None and abs(factors - self.used).sum() <= STALE * self.used.sum():
            return old
        self.used, self.current, old = factors, None, None  # the memory of the old one goes first
        active = on_host(namespace(factors).nonzero(factors)[0])
        chosen, points = self._sample(active)
        scale = len(active) / max(len(chosen), 1)
        make = DevicePreconditioner if is_tensor(factors) else Preconditioner
        self.current = make(
            objective.basis,
            objective.passes,
            points,
            scale * factors[beside(chosen, factors)],
            objective.problem.regularization,
            self.floor if objective.intercept else None,
        )
        return self.current

    def _sample(self, active: np.ndarray) -> tuple[np.ndarray, Any]:
        """Some of the rows that bend the objective."""
        passes, count = self.objective.passes, self.solver.sample
        if count is None:
            stored = isinstance(passes, StoredPasses)
            width = 0 if stored else getattr(passes.y, "width", 1)
            outputs = self.objective.problem.y_columns.shape[1]
            rows = max(len(active), 1)
            count = sample_size(rows, self.objective.size, self.goal, width, outputs)
        among = random_rows(len(active), count, self.solver.random_state)
        return active[among], passes.take(active[among])
