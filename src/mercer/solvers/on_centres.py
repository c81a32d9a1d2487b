"""Newton's method on centres or features: one pass over the rows for each evaluation or product.

A point is θ = (γ, b). γ = Lᵀβ with LLᵀ = P are coordinates in which the penalty is (λ/2)‖γ‖², so
that gradients and curvatures are those of plain coordinates; K_nM is computed, used on both sides
and forgotten. Passes are in the precision of the points, which is float32 for large problems; once
a linear system is solved, gradients are computed in float64 and correct it.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, beside, inner, namespace, to_precision, zeros
from mercer.errors import NotPositiveDefiniteError
from mercer.linalg.panels import clear_small, solve_rows
from mercer.losses import Loss, Squared
from mercer.losses.named import Smoothed
from mercer.operators import (
    Affine,
    Gram,
    Identity,
    MappedRows,
    MixedPrecision,
    RowMap,
    RowPass,
    StoredMatrix,
)
from mercer.runtime.machine import CPU, float64_is_slow
from mercer.runtime.threads import blas_for, single_threaded_blas, spans
from mercer.solvers.krylov import Step, conjugate_steps
from mercer.solvers.optimality import Evaluation, Gap, centred_slopes, sum_error
from mercer.solvers.preconditioners.low_rank import LEAST_POSITIVE
from mercer.solvers.preconditioners.memory import stores_rows
from mercer.solvers.preconditioners.sampled_hessian import by_columns
from mercer.solvers.preconditioners.sampling import SampledHessians, mean_curvature, random_rows
from mercer.solvers.problem import Problem
from mercer.solvers.solution import Solution


@dataclass(frozen=True)
class Tuning:
    """Numbers of Newton's method on centres."""

    jitter: float = 100.0  # units in the last place of the points, times the mean of the diagonal,
    # that are added to K_MM. Without it coefficients of centres that nearly coincide grow until
    # rounding them costs more than they gain, and L⁻¹ lifts the rounding of float32 by 1/√jitter.
    # At 100 units the objective of 5,000 centres of household power changes by less than 1e-4 of it
    # for any λ from 1e-10 to 1e-5
    sufficient: float = 1e-4  # share of the promised decrease that a step must give (Armijo's
    # constant)
    halvings: int = 30  # of a step that does not give it
    beyond: float = 0.5  # of the slope at its beginning, up to which the objective may rise again
    # at the end of a step: beyond it the least value on the way is worth a pass
    stalled: float = 0.5  # of the last gap: a linear system whose correction leaves more gains
    # nothing
    noise_rows: tuple[int, int, float] = (512, 4096, 0.01)  # rows on which the rounding of products
    # is measured: an eighth of all, at least and at most so many, and this share of all rows. A
    # linear system is not solved to less than what that leaves
    floor: float = 1e-9  # of the smoothness of the loss, added to the curvature in b, where every
    # loss may be straight
    inner_share: float = 0.1  # the largest share of its gap that a Newton step of another loss than
    # the square leaves; it falls like the root of the gap
    left: float = 0.5  # of the goal, that a linear system leaves of the gap at the end
    hidden: float = 0.25  # the same where the jitter adds more than that: of what is left beside
    # it, as the gap without the jitter is larger than what is seen with it
    near: float = 10.0  # times the goal: a larger estimated gap is not worth the pass that
    # certifies it
    few: int = 1 << 20  # values that are stored in the precision of the points, where they are
    # worth storing


class Basis:
    """β = L⁻ᵀγ with LLᵀ = K_MM + jitter·I, so that the norm of f is ‖γ‖; for features L = I.

    The jitter keeps coefficients from growing where centres nearly coincide. The problem that is
    solved has ‖f‖² + jitter‖β‖² in its penalty, which its status says and its gap includes.
    References: A. Rudi, L. Carratino, L. Rosasco, FALKON: an optimal large scale kernel method,
    2017.
    """

    def __init__(self, problem: Problem, tuning: Tuning = Tuning()) -> None:
        self.size = problem.size
        self.factor: linalg.Factor | None = None
        self.lifted: StoredMatrix | None = None
        self.tuning = tuning
        if isinstance(problem.penalty_operator, Identity):
            return
        matrix = problem.penalty_operator.astype(np.float64).dense()
        # units of the points, not of this matrix: passes multiply β by K_nM in their precision
        unit = float(np.finfo(problem.operator.dtype).eps)
        jitter = tuning.jitter * unit * float(abs(matrix.diagonal()).mean())
        with blas_for(self.size**3 / 3):
            try:
                self.factor = linalg.cholesky(matrix, jitter=jitter, overwrite=True)
            except NotPositiveDefiniteError:
                self.factor = linalg.cholesky(matrix, overwrite=True)
        self.factor = replace(self.factor, refined=False)  # its solutions are never final

    @property
    def jitter(self) -> float:
        return 0.0 if self.factor is None else float(self.factor.jitter)

    def coefficients(self, gamma: Array) -> Array:
        """β = L⁻ᵀγ."""
        return gamma if self.factor is None else self.factor.other_half_solve(gamma)

    def coordinates(self, beta: Array) -> Array:
        """γ = Lᵀβ."""
        return beta if self.factor is None else self.factor.lower.T @ beta

    def pull(self, moments: Array) -> Array:
        """L⁻¹v."""
        return moments if self.factor is None else self.factor.half_solve(moments)

    def lower(self, dtype: Any) -> np.ndarray | None:
        """L in a precision, without numbers whose products would be subnormal."""
        if self.factor is None:
            return None
        lower = self.factor.lower.astype(dtype, copy=False)
        if lower is not self.factor.lower:
            clear_small(lower)
        return lower

    def lift(self, operator: Gram) -> StoredMatrix:
        """Store the rows of K_nM L⁻ᵀ, those of φ(x) in coordinates of the basis.

        In these coordinates rounding is of the size of the values, where β may be large numbers
        that cancel: unless they are few, float32 is enough for products with the Hessian, whatever
        the points are in.
        """
        (n, size), lower = operator.shape, self.lower(operator.dtype)
        few = n * size <= self.tuning.few
        rows = np.empty((n, size), operator.dtype if few else np.float32)
        step = max(256, CPU.sample_bytes // (operator.dtype.itemsize * size))
        for start, stop in spans(n, step):
            block = by_columns(operator[start:stop, :])
            clear_small(block)
            if lower is not None:
                solve_rows(lower, block)
            rows[start:stop] = block
        clear_small(rows)
        self.lifted = StoredMatrix(rows)
        return self.lifted


# ---- what is done with a row of K_nM β on the way ------------------------------------------------


@dataclass(frozen=True, eq=False)
class LossSlopes:
    """The row map K β ↦ p ∘ ℓ'(y, Kβ + b); values and slopes are handed back side by side.

    Only the first columns of β, as many as y has, have slopes.
    """

    loss: Loss
    targets: Array
    shares: Array
    shift: Any

    def __call__(self, start: int, stop: int, rows: Array) -> MappedRows:
        y, outputs = self.targets[start:stop], self.targets.shape[1]
        xp, wide = namespace(rows), to_precision(rows, "float64")
        columns = [
            wide[:, first : first + outputs] + self.shift
            for first in range(0, rows.shape[1], outputs)
        ]
        slopes = self.loss.slope(y, columns[0])
        product = to_precision(self.shares[start:stop] * slopes, rows.dtype)
        return MappedRows(product, None, xp.concat([*columns, slopes], axis=1))


@dataclass(frozen=True, eq=False)
class MultinomialCurvature:
    """The row map R ↦ p(diag(q) − qqᵀ)(R + b), q being the probabilities of a row's classes."""

    probabilities: Array
    shares: Array
    shift: Array
    keep_values: bool

    def __call__(self, start: int, stop: int, rows: Array) -> MappedRows:
        q, rows = self.probabilities[start:stop], rows + self.shift
        means = namespace(rows).sum(q * rows, axis=1)[:, None]
        pushes = self.shares[start:stop] * q * (rows - means)
        return MappedRows(pushes, None, pushes if self.keep_values else None)


# ---- points --------------------------------------------------------------------------------------


@dataclass(eq=False)
class Point:
    """θ = (γ, b) with the values, the slopes, the gradient there, and the objective's parts."""

    theta: Array
    values: Array
    slopes: Array
    gradient: Array
    objective: float
    moments: Array  # L⁻¹K_Mn(pu)
    exact: bool  # whether it was evaluated in float64
    mean_moments: Array | None = None  # L⁻¹K_Mn p, for the square loss with an intercept
    centred_moments: Array | None = None  # those of slopes that sum to 0
    stored: Any = None  # values and γ of the coefficients rounded to float32
    judged: tuple[Loss, Gap] | None = None  # its gap, and for which loss


class Direction:
    """Preconditioned conjugate gradients for Hδ = −∇J, to a share of the gap."""

    def __init__(self, space: OnCentres, point: Point, goal: float) -> None:
        self.space, self.point = space, point
        space.store()
        space.rounded = False
        self.preconditioner = space.hessians.at(point, space.loss)
        self.hessian = hessian = Hessian(space, point)
        self.after = partial(
            conjugate_steps,
            lambda d, raised: hessian.product(raised),
            self.preconditioner.solve,
            -point.gradient,
            coupled=space.loss.is_multiclass,
        )
        self.steps, self.taken = self.after(), 0
        self.last: Step | None = None
        self.theta = 0.0 * point.theta
        self.towards = self.preconditioner.solve(-point.gradient)
        self.first = -inner(point.gradient, self.towards)
        self.before = space.excess(point.gradient, self.first)
        self.goal = goal
        self.share, self.objective = 0.0, point.objective
        if not isinstance(space.loss, Squared):
            size = max(abs(point.objective), 1e-300)
            self.share = min(space.tuning.inner_share, math.sqrt(self.first / size))

    @cached_property
    def noise(self) -> float:
        """The excess that rounding of products leaves, for each square of the length of a step.

        Products in float32 are those of a Hessian that is a little off. Steps that lower the
        residual below what that does to it would fit the rounding, and each costs a pass.
        """
        if self.space.products == "float64":
            return 0.0
        error = self.hessian.rounding(self.towards)
        error = error / (math.sqrt(inner(self.towards, self.towards)) or 1.0)
        return self.space.excess(error, inner(error, self.preconditioner.solve(error)))

    def resume(self, arrays: Array, energies: list[float], taken: int) -> None:
        """Go on after a step that was stored."""
        coupled = self.space.loss.is_multiclass
        step = Step.restored(self.space.problem.array(arrays), energies, coupled=coupled)
        self.steps, self.taken = self.after(after=step), taken
        self.last, self.theta = step, step.lifted
        self._model(step)

    def _model(self, step: Step) -> None:
        """The quadratic model, which for the square loss is the objective itself."""
        change = inner(step.lifted, self.point.gradient - step.residual)
        self.objective = self.point.objective + 0.5 * change

    def advance(self) -> bool:
        """One step; whether it is enough."""
        step, point = next(self.steps), self.point
        self.taken += 1
        self.last, self.theta = step, step.lifted
        self._model(step)
        energy = step.energy if isinstance(step.energy, float) else float(step.energy.sum())
        excess = self.space.excess(step.residual, energy)
        left = self.space.tuning.left * self.goal * abs(self.objective)
        small = excess <= max(left, self.share * self.before)
        enough = max(self.share * self.first, self.goal * abs(point.objective))
        if (small and energy <= enough) or self.taken >= self.space.solver.inner_iterations:
            return True
        # what is left may be rounding of the products
        self.space.rounded = excess <= self.noise * inner(step.lifted, step.lifted)
        return self.space.rounded


class Hessian:
    """H v = L⁻¹K_Mn(p ℓ'' ∘ (K_nM L⁻ᵀγ + b)) + λγ for v = (γ, b): a pass over the rows."""

    def __init__(self, space: OnCentres, point: Point) -> None:
        self.space, self.problem, self.point = space, space.problem, point
        self.dtype, self.multiclass = space.products, space.loss.is_multiclass
        if self.multiclass:
            q = space.loss.probability(point.values)  # type: ignore[attr-defined]
            self.probabilities = to_precision(q, self.dtype)
        else:
            bends = space.loss.curvature(self.problem.y_columns, point.values)
            self.factors = self.problem.shares[:, None] * bends

    def rounding(self, v: Array) -> Array:
        """(H₃₂ − H)v for H as products in float32 have it, a vector of its size, from some rows.

        Errors of rows have a part that is independent, whose squares add up, and a part that all
        share, as from a centre whose norm is rounded: the product of the errors of two halves.
        """
        space, xp, n = self.space, namespace(v), self.problem.rows
        rows, parts = space.some_rows
        beta = space.basis.coefficients(v[: space.size, :])
        curvature = mean_curvature(self.problem, space.loss, self.point.values)
        factors = curvature[beside(rows, v)][:, None]
        shift = v[-1:, :] if self.problem.fit_intercept else 0.0 * v[:1, :]
        first = beside((np.arange(len(rows)) % 2 == 0)[:, None], v)

        def halves(matrix: Any, directions: Array) -> Array:
            """Σ of the pushes of both halves of the rows, side by side."""
            pushes = factors * (matrix @ directions + shift)
            both = [xp.where(half, pushes, 0.0 * pushes) for half in (first, ~first)]
            return matrix.transposed_product(xp.concat(both, axis=1))

        exact = space.basis.pull(halves(parts["float64"], beta))
        if space.lifted is None:
            rounded = space.basis.pull(halves(parts[self.dtype], beta))
        else:
            low = to_precision(to_precision(v[: space.size, :], self.dtype), "float64")
            rounded = halves(MixedPrecision(space.lifted[rows, :]), low)
        error = rounded - exact
        errors = error[:, : v.shape[1]], error[:, v.shape[1] :]
        times, together = n / len(rows), errors[0] + errors[1]
        own = times * sum(inner(error, error) for error in errors)
        shared = (2.0 * times) ** 2 * max(inner(*errors), 0.0)
        error = math.sqrt((own + shared) / (inner(together, together) or 1.0)) * together
        constant = 0.0 * v[space.size :, :]  # the sums of an intercept are much more precise
        return namespace(v).concat([error, constant])

    def product(self, v: Array) -> Array:
        """H v, for a column or several."""
        space, xp = self.space, namespace(v)
        size, keep = space.size, self.problem.fit_intercept
        shift = v[-1:, :] if keep else 0.0 * v[:1, :]
        row_map: RowMap
        if self.multiclass:
            shares = to_precision(self.problem.shares[:, None], self.dtype)
            low = to_precision(shift, self.dtype)
            row_map = MultinomialCurvature(self.probabilities, shares, low, keep)
        else:
            row_map = Affine(self.factors, shift, keep_values=keep)
        if space.lifted is not None:
            space.count += 1
            result = space.lifted.row_pass(to_precision(v[:size, :], self.dtype), row_map)
            image = result.product + space.ridge * v[:size, :]
        else:
            result = space.row_pass(space.basis.coefficients(v[:size, :]), row_map, self.dtype)
            image = space.basis.pull(result.product) + space.ridge * v[:size, :]
        if not keep:
            return image
        pushes = result.values if self.multiclass else self.factors * (result.values + shift)
        constant = xp.sum(pushes, axis=0, keepdims=True) + space.floor * v[-1:, :]
        return xp.concat([image, to_precision(constant, "float64")])


class OnCentres:
    """The objective as a function of θ, in passes whose precision may rise on the way."""

    place = " on centres"

    def __init__(self, problem: Problem, basis: Basis, solver: Any) -> None:
        self.problem, self.basis, self.solver = problem, basis, solver
        self.operator, self.xp = problem.operator, namespace(problem.y)
        self.tuning: Tuning = solver.tuning.centres
        self.loss, self.ridge = problem.loss, float(problem.regularization)
        self.size = basis.size
        self.columns = problem.outputs  # that a pass multiplies
        bend = self.loss.smoothness if math.isfinite(self.loss.smoothness) else 1.0
        self.floor = self.own_floor = self.tuning.floor * bend
        self.hessians = SampledHessians(self)
        self.count = 0  # passes
        self.changed = 0.0  # share of the objective that the jitter adds
        self.lifted = basis.lifted  # rows in coordinates of the basis, once they are stored
        self.refined = False  # whether these were not precise enough
        self.rounded = False  # whether rounding of products has ended the last direction
        self.begin_stage()

    @cached_property
    def some_rows(self) -> tuple[np.ndarray, dict[str, MixedPrecision]]:
        """Rows on which the rounding of products is measured, and K between them and the centres.

        In float64 and in the precision of the points; they are kept, since to pack points takes
        longer than to multiply so few of them.
        """
        (fewest, most, share), n = self.tuning.noise_rows, self.problem.rows
        count = max(min(most, max(fewest, n // 8)), int(share * n))
        rows = random_rows(n, count, self.solver.random_state)
        precisions = {"float64", str(self.operator.dtype)}
        part = self.operator[rows, :]
        return rows, {dtype: MixedPrecision(part.astype(dtype)) for dtype in precisions}

    @cached_property
    def mean_row(self) -> Array:
        """The mean of some rows in coordinates of the basis, a column: it is within 1/√rows."""
        rows, parts = self.some_rows
        shares = self.problem.shares[beside(rows, self.problem.shares)][:, None]
        moments = self.basis.pull(parts["float64"].transposed_product(shares))
        return moments / max(float(self.xp.sum(shares)), LEAST_POSITIVE)

    def begin_stage(self) -> None:
        """Points and products begin in the precision of the data."""
        self.points = self.products = str(self.operator.dtype)
        if self.lifted is not None:
            self.products = str(self.lifted.dtype)
        self.judged_from: int | None = None  # gaps in the history before both were what they are

    def forget(self) -> None:
        self.judged_from = None

    def store(self) -> None:
        """Store the rows in coordinates of the basis, if that pays and they are precise enough."""
        if self.lifted is None and not self.refined and stores_rows(self.problem, self.count):
            self.lifted = self.basis.lift(self.operator)
            self.products = str(self.lifted.dtype)

    def passing(self) -> AbstractContextManager[None]:
        """Around passes: BLAS is held to one thread.

        Its threads wait for work busily, which takes a core from the threads of the next pass.
        Beside a pass, products with the preconditioner are small.
        """
        return single_threaded_blas() if self.operator.machine.uses_numpy else nullcontext()

    def remembered(self) -> tuple[dict[str, Any], Array | None]:
        """What the steps to come depend on beside the point, and where the preconditioner is of."""
        names = "points", "products", "judged_from", "count", "refined"
        stage = {name: getattr(self, name) for name in names}
        stage |= {"lifted": self.lifted is not None, "made_lifted": self.hessians.lifted}
        return stage, self.hessians.theta

    def remember(self, stage: dict[str, Any], theta: Any) -> None:
        """The same again after a checkpoint."""
        for name in ("points", "products", "judged_from", "count", "refined"):
            setattr(self, name, stage[name])
        if stage["lifted"] or stage["made_lifted"]:
            self.basis.lift(self.operator)
        self.lifted = self.basis.lifted if stage["made_lifted"] else None
        if theta is not None:
            self.hessians.at(self._at(self.problem.array(theta)), self.loss)
        self.lifted = self.basis.lifted if stage["lifted"] else None

    @property
    def note(self) -> str:
        text = f"{self.count} passes over {self.problem.rows} rows on {self.size} centres"
        if not self.basis.jitter:
            return text
        text += f"; jitter {self.basis.jitter:.1e} on K_MM"
        if self.changed <= self.solver.goal(self.problem):
            return text
        return f"{text}, which changes the objective by {self.changed:.0e} of it"

    # ---- coefficients and coordinates ------------------------------------------------------------

    def split(self, theta: Array) -> tuple[Array, Array]:
        """β and b of θ; b is 0 where there is no intercept."""
        beta = self.basis.coefficients(theta[: self.size, :])
        return beta, theta[-1, :] if self.problem.fit_intercept else 0.0 * theta[0, :]

    def started(self, start: Solution | None) -> Point:
        y = self.problem.y_columns
        if start is None:
            shape = self.size + self.problem.fit_intercept, y.shape[1]
            return self._at(zeros(shape, y, "float64"))
        return self.at(self.problem.array(start.coefficients), start.intercept)

    def at(self, beta: Array, intercept: Any) -> Point:
        """The point with these coefficients."""
        theta = self.basis.coordinates(self.xp.reshape(beta, (self.size, -1)))
        if self.problem.fit_intercept:
            b = self.problem.array(intercept) + 0.0 * theta[0, :]
            theta = self.xp.concat([theta, b[None, :]])
        return self._at(theta)

    def coefficients(self, point: Point, direction: Any = None) -> tuple[Array, Array]:
        """β and b, also on the way along a direction."""
        theta = point.theta if direction is None else point.theta + direction.theta
        beta, b = self.split(theta)
        return (beta[:, 0], b[0]) if self.problem.single else (beta, b)

    # ---- one point -------------------------------------------------------------------------------

    def row_pass(self, beta: Array, row_map: RowMap, dtype: Any) -> RowPass:
        """Kᵀ M(K β), with no digit of β lost in float32."""
        self.count += 1
        return MixedPrecision(self.operator.astype(dtype)).row_pass(beta, row_map)

    def _at(self, theta: Array) -> Point:
        """Values and gradient at θ: one pass, in which its rounded coefficients are judged too."""
        beta, shift = self.split(theta)
        # A pass takes its time for kernel values, hardly any for another column of β: so the
        # coefficients that will be stored are judged with those they are rounded from.
        outputs, rounded = beta.shape[1], self._rounded(beta)
        if rounded is not None:
            beta = self.xp.concat([beta, rounded], axis=1)
        evaluate = self._squares if isinstance(self.loss, Squared) else self._others
        values, slopes, moments = evaluate(beta, shift)
        gamma = theta[: self.size, :]
        gradient = moments[:, :outputs] + self.ridge * gamma
        if self.problem.fit_intercept:
            constant = self.xp.sum(self.problem.shares[:, None] * slopes, axis=0, keepdims=True)
            gradient = self.xp.concat([gradient, constant])
        return Point(
            theta,
            values[:, :outputs],
            slopes,
            gradient,
            self._value(values[:, :outputs], gamma),
            moments[:, :outputs],
            self.points == "float64",
            moments[:, outputs:] if moments.shape[1] > outputs else None,
            None,
            None if rounded is None else (values[:, outputs:], self.basis.coordinates(rounded)),
        )

    def _rounded(self, beta: Array) -> Array | None:
        """The coefficients as they will be stored, where that is not how they are."""
        if self.operator.dtype == np.float64 or self.points != "float64":
            return None
        return to_precision(to_precision(beta, self.operator.dtype), "float64")

    def _squares(self, beta: Array, shift: Array) -> tuple[Array, Array, Array]:
        """Slopes are f − y, an affine map of each row, which compiled code does on the way."""
        y, intercept = self.problem.y_columns, self.problem.fit_intercept
        row_map = Affine(
            self.problem.shares[:, None], shift - y, keep_values=True, with_factors=intercept
        )
        result = self.row_pass(beta, row_map, self.points)
        values = result.values
        if intercept:
            values = values + self.xp.concat([shift] * (beta.shape[1] // y.shape[1]))
        return values, values[:, : y.shape[1]] - y, self.basis.pull(result.product)

    def _others(self, beta: Array, shift: Array) -> tuple[Array, Array, Array]:
        y, shares = self.problem.y_columns, self.problem.shares[:, None]
        result = self.row_pass(beta, LossSlopes(self.loss, y, shares, shift), self.points)
        values, slopes = result.values[:, : beta.shape[1]], result.values[:, beta.shape[1] :]
        return values, slopes, self.basis.pull(result.product)

    def _value(self, values: Array, gamma: Array, loss: Loss | None = None) -> float:
        loss = self.loss if loss is None else loss
        risk = loss.risk(self.problem.y_columns, values, self.problem.sample_weights)
        return float(risk) + 0.5 * self.ridge * inner(gamma, gamma)

    # ---- judging ---------------------------------------------------------------------------------

    def excess(self, gradient: Array, energy: float) -> float:
        """About what `gap` will say of a point with this gradient g, given gᵀP⁻¹g.

        It is said of slopes at the best constant, of which the gradient in γ differs by about what
        is left in the constant times the mean of the rows.
        """
        part = gradient[: self.size, :]
        if self.problem.fit_intercept and not isinstance(self.loss, Squared):
            part = part - self.mean_row * gradient[self.size :, :]
        at_slopes = inner(part, part) / (2.0 * self.ridge)
        if not isinstance(self.loss, Squared) or self.hessians.current is None:
            return at_slopes
        return min(at_slopes, 0.5 * self.hessians.largest_weight * energy)

    def relative_gap(self, point: Point, goal: float) -> float:
        """The duality gap where it may be at the goal, else an estimate."""
        energy, current = math.inf, self.hessians.current
        if current is not None:
            energy = inner(point.gradient, current.solve(point.gradient))
        estimate = self.excess(point.gradient, energy) / max(abs(point.objective), 1e-300)
        if estimate > self.tuning.near * goal and self.loss is self.problem.loss:
            return estimate
        gap = self.gap(point, self.loss)
        if not self._hides(point):
            return gap.relative
        # no step lowers what the jitter adds, so that it does not count: `certified` judges without
        # it, and more of the gap is hidden by it
        rest = gap.absolute - self._added(point.theta[: self.size, :])
        return rest / (self.tuning.hidden * max(abs(gap.objective), gap.scale))

    def _hides(self, point: Point) -> bool:
        """Whether the jitter adds more to the gap than the share of the goal that steps leave.

        The square loss is solved on until rounding is in the way, whatever the jitter adds.
        """
        share = self.tuning.left * self.solver.goal(self.problem)
        added = self._added(point.theta[: self.size, :])
        return not isinstance(self.loss, Squared) and added > share * abs(point.objective)

    def stalled(self, gaps: list[float]) -> bool:
        """Whether refining gains nothing more, because rounding is in the way.

        In float64 only the square loss, a linear system, is judged by its gaps: those of others
        need not fall from the first step on. Nor need they with stored rows, unless rounding of
        these was seen.
        """
        if self.judged_from is None:
            self.judged_from = len(gaps) - 1
        recent = gaps[self.judged_from :]
        judged = isinstance(self.loss, Squared) or self.products != "float64"
        judged = judged and (self.lifted is None or self.rounded)
        if not judged or self.points != "float64" or len(recent) < 3:
            return False
        return recent[-1] > self.tuning.stalled * recent[-2]

    def gained(self, before: Point, after: Point, length: float) -> None:
        """Nothing to note."""

    def rejects(self, before: Point, after: Point) -> bool:
        """A step that gains nothing: rounding is in the way."""
        return after.objective >= before.objective

    def is_exact(self, point: Point) -> bool:
        return point.exact

    def exactly(self, point: Point) -> Point:
        """The same point in float64, and so are those that follow."""
        self.points, self.judged_from = "float64", None
        return point if point.exact else self._at(point.theta)

    def sharpen(self) -> bool:
        """Whether products with the Hessian could be made more precise, which is done then."""
        if self.products == "float64":
            return False
        self.products, self.judged_from = "float64", None
        self.lifted, self.refined = None, True
        if float64_is_slow(self.operator):
            self.hessians.current = None  # a better one saves passes, which take long now
        return True

    # ---- steps -----------------------------------------------------------------------------------

    def direction(self, point: Point, goal: float) -> Direction:
        if isinstance(self.loss, Smoothed) and self.problem.fit_intercept:
            self.floor = max(self.own_floor, self._missing_curvature(point))
        return Direction(self, point, self.tuning.hidden * goal if self._hides(point) else goal)

    def _missing_curvature(self, point: Point) -> float:
        """What keeps the step in b within the spread of the targets.

        Where no value lies in a kink the loss is straight there: a step in b would be so long that
        no part of the direction is left to the other coordinates.
        """
        bends = self.loss.curvature(self.problem.y_columns, point.values)
        known = self.xp.sum(self.problem.shares[:, None] * bends, axis=0)
        wanted = self.xp.abs(point.gradient[-1, :]) / self.spread()
        return float(self.xp.max(wanted - known))

    def search(self, point: Point, direction: Direction) -> tuple[Point, float]:
        """The whole step where it lowers the objective enough, else the best on the way."""
        if isinstance(self.loss, Squared):
            self.points = "float64"  # a linear system was solved: the rest is correction
        full = self._at(point.theta + direction.theta)
        slope, rise = (inner(at.gradient, direction.theta) for at in (point, full))
        enough = full.objective <= point.objective + self.tuning.sufficient * slope
        if enough and rise <= self.tuning.beyond * abs(slope):
            return full, 1.0
        # K_nM β is linear in β: values on the way are known, so that halvings cost no pass.
        change, length, best = full.values - point.values, 1.0, (full.objective, 1.0)
        for _ in range(self.tuning.halvings):
            length *= 0.5
            gamma = (point.theta + length * direction.theta)[: self.size, :]
            value = self._value(point.values + length * change, gamma)
            if enough and value >= best[0]:
                break
            best = value, length
            enough = value <= point.objective + self.tuning.sufficient * length * slope
        if not enough:
            return point, 0.0
        theta = point.theta + best[1] * direction.theta
        return (full if best[1] == 1.0 else self._at(theta)), best[1]

    def objective(self, point: Point, direction: Direction | None = None) -> float:
        """The objective of the problem itself; on the way along a direction for the square loss."""
        if direction is not None:
            return direction.objective
        if self.loss is self.problem.loss:
            return point.objective
        return self._value(point.values, point.theta[: self.size, :], self.problem.loss)

    def easier(self) -> list[float]:
        return []

    def smoothed(self, width: float) -> None:
        """Go on with another width of the kinks; curvatures are others then."""
        self.loss = Smoothed(self.problem.loss, width)
        self.begin_stage()

    def spread(self) -> float:
        """The width of kinks to begin with: that of the targets."""
        if self.loss.is_classification:
            return 2.0
        return max(float(self.xp.std(self.problem.y_columns)), 1e-12)

    # ---- the truth -------------------------------------------------------------------------------

    def gap(self, point: Point, loss: Loss) -> Gap:
        """The duality gap; slopes are corrected where an intercept makes their sum matter.

        The objective is that of the coefficients as they are stored, the bound that of the slopes
        before rounding: rounding costs no more than what it adds to the objective. For the square
        loss the slopes are moved on some rows where that gives a better bound. The bound holds for
        the penalty ‖f‖² + jitter‖β‖²; what the jitter adds is part of the gap.
        """
        if point.judged is not None and point.judged[0] is loss:
            return point.judged[1]
        at, gamma = self._evaluation(point, loss), point.theta[: self.size, :]
        slopes, moments = self._centred(point)
        gradient, moved = moments + self.ridge * gamma, at.v - gamma
        stored = inner(gradient, moved) + 0.5 * self.ridge * inner(moved, moved)
        error = self.basis.pull(self._moment_errors(slopes))
        distance, reach = (inner(v, v) / (2.0 * self.ridge) for v in (gradient, error))
        if isinstance(loss, Squared) and self.hessians.current is not None:
            goal = self.solver.goal(self.problem) * abs(at.objective)
            if distance + reach > 0.1 * goal:  # a better dual point is worth its products
                sampled = self.hessians.excess_bounds(gradient, error)
                distance, reach = min(distance, sampled[0]), min(reach, sampled[1])
        noise = 2.0 * math.sqrt(distance * reach) + reach
        point.judged = loss, at.gap(slopes, distance + stored, noise + self._added(at.v))
        return point.judged[1]

    def _evaluation(self, point: Point, loss: Loss) -> Evaluation:
        values, gamma = point.stored or (point.values, point.theta[: self.size, :])
        square = inner(gamma, gamma) - 2.0 * self._added(gamma) / self.ridge
        return Evaluation(
            self.problem,
            gamma,
            0.0 * gamma[0, :],
            values,
            errors=self._value_errors(gamma),
            squares=[square],
            loss=loss,
        )

    def _added(self, gamma: Array) -> float:
        """(λ/2)·jitter‖β‖²: what the jitter adds to the objective."""
        if not self.basis.jitter:
            return 0.0
        beta = self.basis.coefficients(gamma)
        return 0.5 * self.ridge * self.basis.jitter * inner(beta, beta)

    def _gap_as_asked(self, point: Point, loss: Loss) -> Gap:
        """The gap without the jitter, where that has changed the problem by more than the goal.

        Directions of K_MM with eigenvalues below the jitter hold what it hides, so that K_MM is
        factored again with the least jitter that works. Where even that matters, as with centres
        that float64 cannot tell apart, nothing is known but that the loss has a least value.
        """
        problem, ridge, at = self.problem, self.ridge, self._evaluation(point, loss)
        slopes, moments = self._centred(point)
        assert self.basis.factor is not None
        self.hessians.current = None  # the other factor takes its memory
        matrix = problem.penalty_operator.astype(np.float64).dense()
        beta = self.basis.coefficients(at.v)
        gradient = self.basis.factor.lower @ moments + ridge * (matrix @ beta)
        factor = linalg.cholesky(matrix, overwrite=True)
        lifted, error = map(factor.half_solve, (gradient, self._moment_errors(slopes)))
        reach = inner(error, error)
        noise = 2.0 * math.sqrt(inner(lifted, lifted) * reach) + reach
        rest = factor.other_half_solve(lifted)
        hidden = float(factor.jitter) * inner(rest, rest)  # sensitivity to the jitter that is left
        if (noise + hidden) / (2.0 * ridge) <= self.solver.goal(problem) * abs(at.objective):
            return at.gap(slopes, inner(lifted, lifted) / (2.0 * ridge), noise / (2.0 * ridge))
        penalty = 0.5 * ridge * sum(at.squares)
        return at.gap(0.0 * slopes, max(penalty, 0.0))

    def _value_errors(self, gamma: Array) -> Array:
        """How far rounding may have moved the values."""
        roots = self.xp.sqrt(self.xp.abs(self.problem.diagonal))[:, None]
        errors = sum_error(roots * self.basis.coefficients(gamma))
        return float(self.xp.max(roots)) * errors + 0.0 * self.problem.y_columns

    def _moment_errors(self, slopes: Array) -> Array:
        """How far rounding may have moved K_Mn(pu): sums over rows of random errors."""
        roots = self.xp.sqrt(self.xp.abs(self.problem.diagonal))[:, None]
        errors = float(self.xp.max(roots)) * sum_error(self.problem.shares[:, None] * slopes)
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (self.size, 1))
        return roots * self.problem.array(signs) * errors

    def _centred(self, point: Point) -> tuple[Array, Array]:
        """Slopes that sum to 0 and L⁻¹K_Mn(pu) of them; a pass, unless the loss is the square."""
        problem, xp = self.problem, self.xp
        if not problem.fit_intercept:
            return point.slopes, point.moments
        if point.mean_moments is not None:
            constant = xp.sum(problem.shares[:, None] * point.slopes, axis=0)
            return point.slopes - constant, point.moments - point.mean_moments * constant
        smooth = self.loss is problem.loss
        slopes = centred_slopes(problem, point.slopes, point.values if smooth else None)
        if point.centred_moments is None:
            nothing = xp.zeros_like(point.theta[: self.size, :])
            row_map = Affine(problem.shares[:, None], slopes)
            dtype = "float64" if point.exact else self.points
            point.centred_moments = self.basis.pull(self.row_pass(nothing, row_map, dtype).product)
        return slopes, point.centred_moments

    def certified(self, problem: Problem, point: Point) -> tuple[Gap, Array, Array]:
        """The gap of the coefficients as they are stored, in float64, and these."""
        point = self.exactly(point)
        beta, b = self.coefficients(point)
        gap, gamma = self.gap(point, problem.loss), point.theta[: self.size, :]
        self.changed = self._added(gamma) / (abs(gap.objective) or 1.0)
        goal = self.solver.goal(problem)
        missed = gap.relative > goal and self._hides(point)
        if missed or self._added(gamma) > goal * max(abs(gap.objective), gap.scale):
            gap = self._gap_as_asked(point, problem.loss)
        return gap, problem.stored(beta), b

    def advice(self, gap: Gap) -> str:
        if self.changed > self.solver.goal(self.problem):
            return (
                "Some centres nearly coincide, so that K_MM had to be changed: take others "
                "(mercer.features.centres), raise the regularization, or pass float64."
            )
        return (
            f"Rounding in {self.operator.dtype} is in the way: pass float64, raise the "
            "regularization, or ask for a larger tolerance."
        )
