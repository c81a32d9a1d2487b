"""Products with the second derivatives of an objective on centres, and their preconditioner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import Array, beside, is_tensor, namespace, on_host, to_precision
from mercer.losses import Loss
from mercer.operators import Affine, MappedRows
from mercer.solvers.centres.basis import DevicePreconditioner, Preconditioner, sample_size
from mercer.solvers.centres.objective import Objective, Point
from mercer.solvers.centres.passes import random_rows
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
        keep = self.objective.intercept
        row_map = self._coupled(shift, keep) if self.multiclass else self._apart(shift, keep)
        found = self.objective.passes.row_pass(beta, row_map, self.dtype)
        image = self.objective.basis.pull(found.product) + self.problem.regularization * v[:size]
        if not keep:
            return image
        pushes = found.values if self.multiclass else self.factors * (found.values + shift)
        constant = pushes.sum(axis=0, keepdims=True) + self.floor * v[-1:]
        return xp.concat([image, constant])

    def _apart(self, shift: Array, keep: bool) -> Affine:
        return Affine(self.factors, shift, keep_values=keep)

    def _coupled(self, shift: Array, keep: bool) -> MultinomialCurvature:
        shares, shift = (to_precision(a, self.dtype) for a in (self.problem.shares[:, None], shift))
        return MultinomialCurvature(self.probabilities, shares, shift, keep)


@dataclass(frozen=True, eq=False)
class MultinomialCurvature:
    """The row map R ↦ p(diag(q) − qqᵀ)(R + b), q being the probabilities of a row's classes."""

    probabilities: Array
    shares: Array
    shift: Array
    keep_values: bool

    def __call__(self, start: int, stop: int, rows: Array) -> MappedRows:
        q, rows = self.probabilities[start:stop], rows + self.shift
        pushes = rows - _row_dots(q, rows)[:, None]
        pushes *= q
        pushes *= self.shares[start:stop]
        return MappedRows(pushes, None, pushes if self.keep_values else None)


def _row_dots(a: Array, b: Array) -> Any:
    """Σ_j A_ij B_ij for every i, in one reading where the library can."""
    return (a * b).sum(axis=1) if is_tensor(a) else np.einsum("ij,ij->i", a, b)


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
            width = 0 if passes.stored else getattr(passes.y, "width", 1)
            outputs = self.objective.problem.y_columns.shape[1]
            rows = max(len(active), 1)
            count = sample_size(rows, self.objective.size, self.goal, width, outputs)
        among = random_rows(len(active), count, self.solver.random_state)
        return active[among], passes.take(active[among])
