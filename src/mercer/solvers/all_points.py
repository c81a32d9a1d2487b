"""Newton's method on all points: products with K, curvatures, and the equations of a step.

At f = Σ α_i k(x_i, ·) the objective has the gradient Σ g_i k(x_i, ·) with g = p·ℓ'(y, f) + λα and
p = w/Σw, and the Newton direction δ solves (λI + DK)δ = −g, where D holds the curvatures p·ℓ''.
λI + DK is self-adjoint in the inner product aᵀKb of the space, and no less than λ there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, as_numpy, inner, namespace, to_precision
from mercer.errors import NotPositiveDefiniteError
from mercer.losses import Loss
from mercer.operators import Gram
from mercer.runtime.budget import memory_budget
from mercer.runtime.threads import spans
from mercer.solvers.krylov import Step, conjugate_steps
from mercer.solvers.optimality import (
    Evaluation,
    Gap,
    centring_intercept,
    certified_gap,
    curvature_of_constants,
    slopes,
)
from mercer.solvers.problem import Problem, has_few_features, over_rows
from mercer.solvers.root import Features, Root, RootMethod
from mercer.solvers.solution import Solution

Multiply = Callable[[Array], Array]


@dataclass(frozen=True)
class Tuning:
    """Numbers of Newton's method on all points."""

    stored: int = 2000  # points up to which K is stored in float64: 32 MB, and no precision to
    # think about
    stored_share: float = 1.0  # of the memory budget that a K stored in float32 may take
    factored: int = 2000  # points up to which the Hessian is factored where conjugate gradients
    # take long
    inner_steps: int = 500  # of conjugate gradients for one direction, at most
    tried_steps: int = 40  # the same where a factor would do: n³/3 operations are about n/6
    # products with K, and each step needs a few directions
    stalls: int = 3  # steps in a row that may gain nothing before precision is raised or it ends
    filling: float = 0.3  # of a time limit that storing K may take; the rest of it is for products
    # and the gap
    probed: int = 64  # parts in which it is stored then; the first tells how long a product takes
    forcing: float = 0.3  # the largest residual, relative to the gradient, at which a direction is
    # good enough; near the end √gap makes it smaller, which gives superlinear convergence
    # (Eisenstat and Walker)


def stored_as(gram: Gram, tuning: Tuning = Tuning()) -> str:
    """The precision in which K is stored, "" where each product computes it anew.

    It is float64 where K is small or slow to compute, else float32 where the memory budget allows.

    >>> from mercer.kernels import Gaussian
    >>> [stored_as(Gaussian().gram(np.zeros((n, 1)), memory="1GB")) for n in (100, 9_000, 90_000)]
    ['float64', 'float32', '']
    """
    n, budget = gram.shape[0], memory_budget(gram.memory)
    slow = gram.kernel.expression() is None
    if (n <= tuning.stored or slow) and 8 * n * n <= budget:
        return "float64"
    if not gram.machine.uses_numpy:  # a card computes K faster than it reads it
        return ""
    return "float32" if 4 * n * n <= tuning.stored_share * budget else ""


@dataclass(eq=False)
class Products:
    """V ↦ KV twice: `exact` in float64, and `fast`, in float32 where K is stored so.

    `matrix` is the stored K, None where it is not stored; `wanted` is K where it is to be stored
    before the first product, for which there may be no time. `seconds` is what the last exact
    product took, or one is expected to.
    """

    exact: Multiply
    fast: Multiply
    dtype: str
    matrix: Array | None
    note: str
    root: Root | None = None
    wanted: Gram | None = None
    seconds: float = 0.0

    @classmethod
    def of(cls, problem: Problem, method: RootMethod | None, tuning: Tuning) -> Products:
        """K stored in float64 where it is small or slow to compute, else in float32, else lazy."""
        gram = problem.gram
        if method is None and has_few_features(gram):
            method = Features()
        if method is not None:
            return cls._of_root(problem, method)
        precision, lazy = stored_as(gram, tuning), _lazy(gram)
        if precision == "float64":
            matrix = problem.array(gram.astype(np.float64).dense())
            stored = _stored(matrix)
            return cls(stored, stored, "float64", matrix, "K stored")
        if not gram.machine.uses_numpy:
            return cls(lazy, _lazy(gram, "float32"), "float32", None, f"{ANEW}, in float32")
        wanted = gram.astype(np.float32) if precision else None
        return cls(lazy, lazy, "float64", None, ANEW, wanted=wanted)

    def store(self, outputs: int, time_limit: float | None, tuning: Tuning) -> None:
        """Store K in float32 where it is wanted, unless that takes too much of the time.

        Where it does, products compute K in float32 anew, each in half the time.
        """
        gram, self.wanted = self.wanted, None
        if gram is None:
            return
        if time_limit is None:
            single = gram.dense()
        else:
            self.seconds = _exact_seconds(gram, outputs, tuning)
            single = _stored_in_time(gram, tuning.filling * time_limit, tuning)
        if single is None:
            if np.isfinite(gram.diagonal()).all():  # values beyond float32 are computed in float64
                self.fast, self.dtype = _lazy(gram, "float32"), "float32"
                self.note = f"{ANEW}, in float32"
        elif np.isfinite(single @ np.ones(gram.shape[1], np.float32)).all():
            self.fast, self.dtype, self.matrix = _stored(single), "float32", single
            self.note = "K stored in float32"

    @classmethod
    def _of_root(cls, problem: Problem, method: RootMethod) -> Products:
        gram = problem.gram
        root = method.of(Gram(gram.kernel, gram.x.host(), memory=gram.memory))
        features = problem.array(root.features)
        wide = replace(root, features=features)
        exact = wide.multiply if root.missing == 0.0 else _lazy(gram)
        return cls(exact, wide.multiply, "float64", None, root.note, wide)


ANEW = "K computed for each product"


def _exact_seconds(gram: Gram, outputs: int, tuning: Tuning) -> float:
    """Seconds of a product in float64, from those of some rows."""
    n = gram.shape[0]
    some = gram.x.slice(0, max(1, n // tuning.probed))
    part = Gram(gram.kernel, some, gram.x, gram.memory).astype(np.float64)
    start = time.perf_counter()
    part @ np.ones((n, outputs))
    return gram.machine.symmetric_share * (time.perf_counter() - start) * n / len(some)


def _stored_in_time(gram: Gram, seconds: float, tuning: Tuning) -> np.ndarray | None:
    """K, some rows at a time; None as soon as it is clear that it takes longer than that.

    Rows are computed as a whole: to mirror them would touch all of the memory at once, and clearing
    that may take longer than computing K.
    """
    start, n = time.perf_counter(), gram.shape[0]
    matrix = np.empty(gram.shape, gram.dtype)
    for first, last in spans(n, max(1, n // tuning.probed)):
        part = Gram(gram.kernel, gram.x.slice(first, last), gram.x, gram.memory)
        matrix[first:last] = part.astype(gram.dtype).dense()
        if (time.perf_counter() - start) * n / last > seconds:
            return None
    return matrix


def _lazy(gram: Gram, dtype: str = "float64") -> Multiply:
    return lambda values: gram.astype(dtype) @ to_precision(values, dtype)


def _stored(matrix: Array) -> Multiply:
    return lambda values: matrix @ to_precision(values, matrix.dtype)


class Curvature:
    """V ↦ DV, block by block: p_i times the curvature of row i.

    With an intercept, the constant follows the direction: D(V + β) with the β that makes its
    columns sum to 0, which is D less a matrix of the rank of the outputs.
    """

    def __init__(self, problem: Problem, loss: Loss, values: Array, dtype: str) -> None:
        self.xp, y = namespace(values), problem.y
        self.fit_intercept = problem.fit_intercept
        rows = over_rows(problem.shares, y)
        self.probability: Array | None = None
        if loss.is_multiclass:
            self.probability = loss.slope(y, values) + y
            self.diagonal = rows * self.probability
        else:
            self.diagonal = rows * self.xp.where(rows > 0, loss.curvature(y, values), 0.0)
        if self.fit_intercept:
            self.total = self._total()
        self.diagonal = to_precision(self.diagonal, dtype)
        if self.probability is not None:
            self.probability = to_precision(self.probability, dtype)

    def __call__(self, v: Array) -> Array:
        if self.fit_intercept:
            v = v + to_precision(self.constant(v), v.dtype)
        return self._plain(v)

    def constant(self, v: Array) -> Array:
        """The β with Σ_i D_i (v_i + β) = 0; 0 without an intercept."""
        if not self.fit_intercept:
            return 0.0 * v[0, ...]
        pushed = self.xp.sum(to_precision(self._plain(v), "float64"), axis=0)
        if self.probability is not None:
            return -(self.total @ pushed)
        safe = self.xp.where(self.total > 0, self.total, 1.0)
        return -self.xp.where(self.total > 0, pushed / safe, 0.0)

    def _plain(self, v: Array) -> Array:
        if self.probability is None:
            return self.diagonal * v
        mean = self.xp.sum(self.probability * v, axis=1)[:, None]
        return self.diagonal * (v - mean)

    def _total(self) -> Array:
        """Σ_i D_i; for classes an inverse where numbers sum to 0, as all that it multiplies do."""
        if self.probability is None:
            return self.xp.sum(self.diagonal, axis=0)
        bend = curvature_of_constants(self.diagonal, self.probability)
        values, vectors = linalg.eigen(bend)
        large = values > 1e-13 * self.xp.max(values)
        inverse = self.xp.where(large, 1.0 / self.xp.where(large, values, 1.0), 0.0)
        return (vectors * inverse) @ vectors.T


# ---- directions ----------------------------------------------------------------------------------


class Direction:
    """Truncated conjugate gradients in the space of functions: one product with K for each step.

    They start from 0, so that every iterate is a descent direction, whenever they stop.
    """

    def __init__(self, space: OnAllPoints, point: Point, tolerance: float, most: int) -> None:
        self.space, self.point, self.most = space, point, most
        dtype = space.products.dtype
        self.curvature = curvature = Curvature(space.problem, space.loss, point.values, dtype)
        g, image = to_precision(point.g, dtype), to_precision(point.image, dtype)
        first = [-image]  # K(−g) is known

        def lift(v: Array) -> Array:
            if first:
                return first.pop()
            space.count += 1
            return to_precision(space.products.fast(v), dtype)

        ridge = space.ridge
        self.after = partial(  # no reference to itself, by which K would be held until it is found
            conjugate_steps,
            lambda d, raised: ridge * d + curvature(raised),
            lift,
            -g,
            coupled=True,
        )
        self.steps, self.first = self.after(), first
        self.enough = tolerance**2 * max(point.energy, 0.0)
        self.taken, self.reached = 0, False
        self.last: Step | None = None
        self.witness: Array | None = None

    @property
    def coefficients(self) -> Array:
        """δ as far as it is known."""
        return self._wide(None if self.last is None else self.last.solution)

    @property
    def values(self) -> Array:
        """Kδ."""
        return self._wide(None if self.last is None else self.last.lifted)

    def _wide(self, part: Array | None) -> Array:
        return 0.0 * self.point.g if part is None else to_precision(part, "float64")

    def resume(self, arrays: Array, energies: list[float], taken: int) -> None:
        """Go on after a step that was stored."""
        wide = self.space.problem.array(arrays)
        step = Step.restored(to_precision(wide, self.space.products.dtype), energies, coupled=True)
        self.first.clear()
        self.steps, self.taken, self.last = self.after(after=step), taken, step

    def advance(self) -> bool:
        """One step; whether it is enough, or no more can be gained."""
        step = next(self.steps)
        self.taken += 1
        if not step.bend > 0:  # no curvature, perhaps by rounding only
            self.witness = to_precision(step.residual, "float64")
            return True
        self.last = step
        if step.energy < 0:
            self.witness = to_precision(step.residual, "float64")
        self.reached = step.energy <= self.enough
        return self.reached or step.energy <= 0 or self.taken >= self.most


class Factored:
    """By a Cholesky factor of λI + √D K √D, output by output: any λ, n³/3 operations."""

    reached = True
    witness = None
    taken = 0
    values = last = None

    def __init__(self, space: OnAllPoints, point: Point) -> None:
        self.space, self.point = space, point
        self.curvature = Curvature(space.problem, space.loss, point.values, "float64")
        self.coefficients = 0.0 * point.g

    def advance(self) -> bool:
        xp, g = namespace(self.point.g), self.point.g
        shape = self.space.problem.rows, -1
        parts = (xp.reshape(a, shape).T for a in (self.curvature.diagonal, g, self.point.image))
        columns = [self._column(*part) for part in zip(*parts, strict=True)]
        self.coefficients = xp.reshape(xp.stack(columns, axis=1), g.shape)
        return True

    def _column(self, d: Array, g: Array, image: Array) -> Array:
        """−(g − √D B⁻¹√D Kg)/λ, B = λI + √D K √D, on rows that have a curvature."""
        xp, ridge = namespace(d), self.space.ridge
        curved = xp.nonzero(d > 0)[0]
        roots = xp.sqrt(xp.take(d, curved))
        matrix = to_precision(self.space.products.matrix, "float64")
        if curved.shape[0] < d.shape[0]:
            matrix = xp.take(xp.take(matrix, curved, axis=0), curved, axis=1)
        factor = _factor(linalg.shift_diagonal(roots[:, None] * matrix * roots, ridge))
        sides = xp.stack([roots * xp.take(image, curved), roots], axis=1)
        solved = roots[:, None] * factor.solve(sides)
        delta = -g / ridge
        delta[curved] += solved[:, 0] / ridge
        if self.curvature.fit_intercept and curved.shape[0]:
            excess = (xp.sum(delta) + xp.sum(g) / ridge) / xp.sum(solved[:, 1])
            delta[curved] -= solved[:, 1] * excess
        return delta


class Rooted(Factored):
    """By a Cholesky factor of λI + ΦᵀDΦ, K = ΦΦᵀ: n·m² operations for rank m."""

    def _column(self, d: Array, g: Array, image: Array) -> Array:
        """−(g − DΦ(λI + ΦᵀDΦ)⁻¹Φᵀg)/λ."""
        xp, ridge = namespace(d), self.space.ridge
        features = self.space.products.root.features  # type: ignore[union-attr]
        scaled = xp.sqrt(d)[:, None] * features
        factor = _factor(linalg.shift_diagonal(scaled.T @ scaled, ridge))
        sides = features.T @ xp.stack([g, d], axis=1)
        solved = d[:, None] * (features @ factor.solve(sides))
        delta = -(g - solved[:, 0]) / ridge
        ones = (d - solved[:, 1]) / ridge
        total = float(xp.sum(ones))
        if self.curvature.fit_intercept and total > 0:
            delta = delta - ones * (xp.sum(delta) + xp.sum(g) / ridge) / total
        return delta


def _factor(matrix: Array) -> linalg.Factor:
    try:
        return linalg.cholesky(matrix, overwrite=True)
    except NotPositiveDefiniteError as refusal:
        raise NotPositiveDefiniteError(
            "Expected a positive definite kernel, whose objective is convex; the Gram matrix of "
            "these points has negative eigenvalues. Check it with kernel.check(X).",
            refusal.witness,
        ) from None


# ---- points --------------------------------------------------------------------------------------


@dataclass(eq=False)
class Point:
    """α, f = Kα and b, with g and Kg there, and the objective.

    `fresh` says that Kα is a product with α, not what steps have added up to.
    """

    alpha: Array
    fitted: Array
    b: Array
    g: Array
    image: Array
    objective: float
    energy: float
    exact: bool
    fresh: bool = False

    @property
    def values(self) -> Array:
        return self.fitted + self.b


class OnAllPoints:
    """The objective as a function of f, in products that may become exact on the way."""

    place = ""

    def __init__(self, problem: Problem, products: Products, solver: Any) -> None:
        self.problem, self.products, self.solver = problem, products, solver
        self.tuning: Tuning = solver.tuning.all_points
        products.store(problem.outputs, solver.time_limit, self.tuning)
        self.loss, self.ridge = problem.loss, float(problem.regularization)
        self.multiply, self.factors = products.fast, bool(solver.factor)
        xp = namespace(problem.y)
        self.noise = float(np.finfo(np.float32).eps) * float(xp.sum(xp.abs(problem.diagonal)))
        self.count = 0
        self.forget()

    def forget(self) -> None:
        """Begin to count steps that gain nothing anew."""
        self.best = self.least = math.inf
        self.stalls = 0

    def passing(self) -> AbstractContextManager[None]:
        """Around products: threads of BLAS are welcome."""
        return nullcontext()

    def remembered(self) -> tuple[dict[str, Any], None]:
        """The state of the method beside the point, for checkpoints."""
        names = "factors", "best", "least", "stalls", "count"
        exact = self.multiply is self.products.exact
        return {name: getattr(self, name) for name in names} | {"exact": exact}, None

    def remember(self, stage: dict[str, Any], theta: None) -> None:
        """The same again after a checkpoint."""
        for name in ("factors", "best", "least", "stalls", "count"):
            setattr(self, name, stage[name])
        self.multiply = self.products.exact if stage["exact"] else self.products.fast

    @property
    def note(self) -> str:
        return f"{self.count} products with K, {self.products.note}"

    # ---- points ----------------------------------------------------------------------------------

    def started(self, start: Solution | None) -> Point:
        y, xp = self.problem.y, namespace(self.problem.y)
        if start is None:
            return self._at(xp.zeros_like(y), xp.zeros_like(y), xp.zeros_like(y[0, ...]))
        if tuple(np.shape(start.coefficients)) != tuple(y.shape):
            raise ValueError(
                f"a solution to start from must have coefficients of the shape {tuple(y.shape)} "
                f"of the targets; got {np.shape(start.coefficients)}."
            )
        return self.at(self.problem.array(start.coefficients), start.intercept)

    def at(self, alpha: Array, intercept: Any) -> Point:
        """The point with these coefficients: two products."""
        b = 0.0 * self.problem.y[0, ...] + self.problem.array(intercept)
        return replace(self._at(alpha, self._times(alpha), b), fresh=True)

    def _at(self, alpha: Array, fitted: Array, b: Array) -> Point:
        problem, ridge = self.problem, self.ridge
        if problem.fit_intercept:
            b = centring_intercept(problem, fitted, b)
        u = slopes(problem, fitted + b, self.loss)
        g = over_rows(problem.shares, u) * u + ridge * alpha
        image = self._times(g)
        energy = inner(g, image)
        self._refuse_indefinite(energy, g)
        risk = float(self.loss.risk(problem.y, fitted + b, problem.sample_weights))
        objective = risk + 0.5 * ridge * inner(alpha, fitted)
        exact = self.multiply is self.products.exact
        return Point(alpha, fitted, b, g, image, objective, max(energy, 0.0), exact)

    def _times(self, v: Array) -> Array:
        self.count += 1
        start, exact = time.perf_counter(), self.multiply is self.products.exact
        image = to_precision(self.multiply(v), "float64")
        if exact:
            self.products.seconds = time.perf_counter() - start
        return image

    @property
    def reserve(self) -> float:
        """Seconds that the answer takes after the last step: a product, and those of the gap."""
        return 3.0 * self.products.seconds

    def _refuse_indefinite(self, energy: float, g: Array) -> None:
        """gᵀKg < 0 by more than float32 would make it: eps·‖K‖‖g‖², ‖K‖ ≤ trace."""
        if energy < -self.noise * inner(g, g):
            raise NotPositiveDefiniteError(
                f"Expected a positive definite kernel, whose objective is convex; got a Gram "
                f"matrix with vᵀKv = {energy:.3g} for the v in the attribute `witness`. Check it "
                "with kernel.check(X).",
                as_numpy(g),
            )

    # ---- judging ---------------------------------------------------------------------------------

    def relative_gap(self, point: Point, goal: float) -> float:
        """The gap gᵀKg/(2λ) that belongs to the slopes, with a margin for rounding."""
        return 2.0 * point.energy / (2.0 * self.ridge) / (abs(point.objective) or 1.0)

    def stalled(self, gaps: list[float]) -> bool:
        return self.stalls >= self.tuning.stalls

    def gained(self, before: Point, after: Point, length: float) -> None:
        """Note whether a step brought anything."""
        scale = abs(before.objective) or 1.0
        falls = before.objective < self.least - 1e-14 * scale or before.energy < self.best
        self.stalls = 0 if length > 0 and falls else self.stalls + 1
        self.best = min(self.best, before.energy)
        self.least = min(self.least, before.objective)

    def rejects(self, before: Point, after: Point) -> bool:
        """No step: one that gains nothing is only rounding, and a few of them end it."""
        return False

    def is_exact(self, point: Point) -> bool:
        return point.exact

    def exactly(self, point: Point) -> Point:
        """The same point by exact products, and so are those that follow.

        Its coefficients are those that will be stored, which the certificate is about.
        """
        self.multiply = self.products.exact
        self.forget()
        return self.at(self.problem.array(self.problem.stored(point.alpha)), point.b)

    def sharpen(self) -> bool:
        """Products are exact from the point on that is: there is nothing more to gain."""
        return False

    # ---- steps -----------------------------------------------------------------------------------

    def direction(self, point: Point, goal: float) -> Any:
        """The solution of (λI + DK)δ = −g, to a residual that falls with the gap."""
        products, multiclass = self.products, self.loss.is_multiclass
        if products.root is not None and not multiclass:
            return Rooted(self, point)
        few = self.problem.rows <= self.tuning.factored if self.solver.factor is None else False
        able = products.matrix is not None and not multiclass
        if able and self.factors:
            return Factored(self, point)
        relative = self.relative_gap(point, goal)
        most = self.tuning.tried_steps if able and few else self.tuning.inner_steps
        forcing = min(self.tuning.forcing, math.sqrt(0.5 * relative))
        return Direction(self, point, forcing, most)

    def search(self, point: Point, direction: Any) -> tuple[Point, float]:
        """The point at the best length of a step, along which everything is known without K."""
        small = self.problem.rows <= self.tuning.factored and self.products.matrix is not None
        able = self.solver.factor is None and small and not self.loss.is_multiclass
        if able and not direction.reached:
            self.factors = True
            direction = Factored(self, point)
            direction.advance()
        if direction.witness is not None:
            v = direction.witness
            self._refuse_indefinite(inner(v, self._times(v)), v)
        delta, values = direction.coefficients, direction.values
        if values is None or self.multiply is not self.products.fast:
            values = self._times(delta)
        constant = direction.curvature.constant(values)
        t = step_length_of(self, point, delta, values, constant)
        after = self._at(point.alpha + t * delta, point.fitted + t * values, point.b + t * constant)
        return after, t

    def objective(self, point: Point, direction: Any = None) -> float:
        """The objective, also on the way along a direction."""
        if direction is None or direction.values is None:
            return point.objective
        constant = direction.curvature.constant(direction.values)
        values = point.values + direction.values + constant
        risk = float(self.loss.risk(self.problem.y, values, self.problem.sample_weights))
        alpha, fitted = point.alpha + direction.coefficients, point.fitted + direction.values
        return risk + 0.5 * self.ridge * inner(alpha, fitted)

    def coefficients(self, point: Point, direction: Any = None) -> tuple[Array, Array]:
        """α and b, also on the way along a direction."""
        if direction is None or direction.values is None:
            return point.alpha, point.b
        constant = direction.curvature.constant(direction.values)
        return point.alpha + direction.coefficients, point.b + constant

    def easier(self) -> list[float]:
        """λ falling to its own by tens: each solution is a start for the next."""
        if self.products.root is not None and self.products.root.missing != 0.0:
            return []  # no number of steps would do
        ridge = self.ridge
        top = max(float(namespace(self.problem.y).mean(self.problem.diagonal)), 10.0 * ridge)
        powers = range(min(math.ceil(math.log10(top / ridge)), 20), 0, -1)
        return [ridge * 10.0**power for power in powers]

    # ---- the truth -------------------------------------------------------------------------------

    def certified(self, problem: Problem, point: Point) -> tuple[Gap, Array, Array]:
        """The gap of the coefficients as they are stored, in float64, and these."""
        alpha = problem.stored(point.alpha)
        xp = namespace(alpha)
        zero = not bool(xp.any(alpha != 0))
        same = problem is self.problem and bool(xp.all(problem.array(alpha) == point.alpha))
        if same and point.exact and self.ridge == problem.regularization:
            # Where Kα was added up on the way, what was lost on it need not be small: it is then
            # computed anew, while Kg of the slopes that are known is not.
            fitted = point.fitted if point.fresh else self.products.exact(point.alpha)
            at = Evaluation(problem, point.alpha, point.b, fitted)
            gap = at.squared_norm_gap(slopes(problem, point.values), point.g, point.image)
            if gap.relative <= self.solver.goal(problem):
                return gap, alpha, point.b
        fitted = 0.0 * problem.y if zero else None  # of the start, which a time limit may return
        gap = certified_gap(problem, alpha, point.b, self.products.exact, fitted=fitted)
        return gap, alpha, point.b

    def advice(self, gap: Gap) -> str:
        if self.products.root is not None and self.products.root.missing != 0.0:
            return "The root leaves out a part of K: lower its tolerance."
        if gap.relative < 1e-4:
            return "Rounding sets a limit: scale the features, or ask for a larger tolerance."
        return "Scale the features to unit variance, raise λ, or allow more iterations."


# ---- the length of a step ------------------------------------------------------------------------


@dataclass(frozen=True)
class At:
    """A convex function of one variable at one place: its value, slope and curvature."""

    value: float
    slope: float
    bend: float


@dataclass(frozen=True)
class SearchTuning:
    """Numbers of the line search: evaluations at most, and when a length is good enough.

    `flat` is the share of the first slope that may be left; `fall` the share of the decrease that
    the first slope promises (Armijo's constant).
    """

    evaluations: int = 80
    flat: float = 0.3
    fall: float = 1e-4


def step_length(
    function: Callable[[float], At],
    start: At,
    tuning: SearchTuning = SearchTuning(),
) -> float:
    """A t > 0 with a lower value and a much smaller slope; 1 if it is good enough, 0 if none is.

    >>> parabola = lambda t: At((t - 3.0) ** 2, 2 * (t - 3.0), 2.0)
    >>> step_length(parabola, parabola(0.0))
    3.0
    """
    if not start.slope < 0:
        return 0.0
    low, high, t = 0.0, math.inf, 1.0
    slack = 1e-15 * abs(start.value)
    best, last = 0.0, math.inf
    for _ in range(tuning.evaluations):
        here = function(t)
        finite = math.isfinite(here.value) and math.isfinite(here.slope)
        if finite and here.value <= start.value + tuning.fall * t * start.slope + slack:
            best = t
            if abs(here.slope) <= tuning.flat * abs(start.slope):
                return t
        if finite and here.slope < 0:
            low = t
        else:
            high = t
        following = _next(t, low, high, here if finite else None, last)
        t, last = following, abs(following - t)
        if not low < t < high:
            break
    return best


def _next(t: float, low: float, high: float, here: At | None, last: float) -> float:
    """Newton's step where it halves the last one inside the bracket; else a cut of the bracket."""
    newton = t - here.slope / here.bend if here is not None and here.bend > 0 else math.nan
    if math.isinf(high):
        return min(newton, 4.0 * t) if newton > low else 4.0 * t
    if low < newton < high and 2.0 * abs(newton - t) <= last:
        return newton
    return low + (0.5 if low > 0.0 else 0.1) * (high - low)


def step_length_of(
    space: OnAllPoints, point: Point, delta: Array, values: Array, constant: Array
) -> float:
    """The length of a step along f + t·Kδ + t·β."""
    problem, loss, ridge = space.problem, space.loss, space.ridge
    xp, y, p = namespace(values), problem.y, over_rows(problem.shares, values)
    change, base = values + constant, point.values
    own = inner(point.alpha, point.fitted)
    cross, square = inner(delta, point.fitted), inner(delta, values)

    def at(t: float) -> At:
        f = base + t * change
        value = float(loss.risk(y, f, problem.sample_weights))
        slope = p * xp.where(p > 0, loss.slope(y, f), 0.0)
        bend = p * xp.where(p > 0, loss.curvature_product(y, f, change), 0.0)
        return At(
            value + 0.5 * ridge * (own + 2.0 * t * cross + t * t * square),
            inner(slope, change) + ridge * (cross + t * square),
            inner(bend, change) + ridge * square,
        )

    with np.errstate(over="ignore", invalid="ignore"):
        return step_length(at, at(0.0))
