"""Newton's method: directions, lengths, and the gap that ends it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mercer.arrays import on_host
from mercer.checks import check_count, check_positive
from mercer.errors import NotPositiveDefiniteError
from mercer.operators import Gram
from mercer.solvers.driver import Callback, Progress
from mercer.solvers.newton.curvature import Curvature
from mercer.solvers.newton.directions import (
    TRIED_STEPS,
    Adaptive,
    ConjugateGradients,
    Factored,
    Rooted,
)
from mercer.solvers.newton.line import At, step_length
from mercer.solvers.newton.products import Products
from mercer.solvers.optimality import UNATTAINED, centring_intercept, certified_gap
from mercer.solvers.problem import Problem, has_few_features, over_rows
from mercer.solvers.root import Features, Root, RootMethod
from mercer.solvers.solution import Solution, Status, plain_intercept

FACTORED = 2000  # points up to which the Hessian is factored
SINGLE = float(np.finfo(np.float32).eps)
STALLS = 3  # steps in a row that may bring nothing


@dataclass(frozen=True)
class Newton:
    """Newton's method for smooth losses, from any start, until the duality gap is small.

    Each step solves (λI + DK)δ = −g, g = p·ℓ' + λα, D = p·ℓ'', p = w/Σw, and goes along δ until
    the objective is nearly least there, which converges from everywhere; where that takes long, λ
    falls to its value by tens. The linear systems are solved by conjugate gradients in the space,
    also for several classes, so that no matrix of the size n·K × n·K is ever made; by a Cholesky
    factor where these take long and there are at most 2,000 points; in the features of the kernel
    where these are few. An intercept is eliminated exactly.

    K is stored in float64 where it is small, else in float32 where the memory budget allows it;
    a gap that float32 cannot reach is reached by exact gradients. What the solution reports is
    computed afresh in float64.

    Parameters
    ----------
    tolerance : float, default=1e-6
        The relative duality gap that ends the iteration.
    iterations : int, default=100
        At most so many steps.
    root : RootMethod or None, default=None
        A square root K = ΦΦᵀ to work with, as `PivotedCholesky(1e-6)`; what it leaves out shows in
        the gap.
    factor : bool or None, default=None
        Whether to factor the Hessian; None does where conjugate gradients take long.
    callback : function of (iteration, Progress), optional
        Told of every step; the solver stops where it returns True.

    References
    ----------
    O. Chapelle, Training a support vector machine in the primal, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Logistic
    >>> X = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> problem = Problem(Gaussian().gram(X), np.sign(X[:, 0]), Logistic(), regularization=0.01)
    >>> solution = Newton().solve(problem)
    >>> solution.status.converged, solution.gap < 1e-6
    (True, True)
    """

    tolerance: float = 1e-6
    iterations: int = 100
    root: RootMethod | None = None
    factor: bool | None = None
    callback: Callback | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_positive(self, "tolerance", self.tolerance)
        check_count(self, "iterations", self.iterations)

    def solve(self, problem: Problem, start: Solution | None = None) -> Solution:
        """Solve from 0, or from another solution with as many coefficients."""
        check_smooth(self, problem)
        prepared = self._prepared(problem)
        solution = self._run(problem, *prepared, start)
        if solution.status.converged or "callback" in solution.status.advice:
            return solution
        if _leaves_out(prepared[1]):
            return solution
        rough = replace(self, tolerance=max(self.tolerance, 1e-2))
        for task in _easier_first(problem):
            start = rough._run(task, *prepared, start)
        last = self._run(problem, *prepared, start)
        return last if last.gap < solution.gap else solution

    def path(self, problem: Problem, regularizations: Iterable[float]) -> list[Solution]:
        """Solutions for several λ, in the order given, each started at the one before.

        >>> import numpy as np
        >>> from mercer.kernels import Gaussian
        >>> from mercer.losses import Huber
        >>> X = np.linspace(0.0, 1.0, 9)[:, None]
        >>> problem = Problem(Gaussian().gram(X), X[:, 0] ** 2, Huber(), regularization=1.0)
        >>> objectives = [s.objective for s in Newton().path(problem, [0.1, 0.01, 0.001])]
        >>> objectives == sorted(objectives, reverse=True)
        True
        """
        problems = [replace(problem, regularization=float(ridge)) for ridge in regularizations]
        for task in problems:
            check_smooth(self, task)
        solutions: list[Solution] = []
        prepared = self._prepared(problem)
        for task in problems:
            solutions.append(self._run(task, *prepared, solutions[-1] if solutions else None))
        return solutions

    def _prepared(self, problem: Problem) -> tuple[Products, Root | None]:
        """What every λ shares: a root, or a stored K."""
        gram = problem.gram
        method = self.root
        if method is None and has_few_features(gram):
            method = Features()
        if method is None:
            return Products.of(gram), None
        if gram.on_tensors:  # roots are arrays of NumPy
            gram = Gram(gram.kernel, gram.x.host(), memory=gram.memory)
        root = method.of(gram)
        return Products.of(gram, root), root

    def _run(
        self, problem: Problem, products: Products, root: Root | None, start: Solution | None
    ) -> Solution:
        descent = _Descent(problem, products, self._directions(problem, products, root))
        descent.begin(start)
        return descent.run(self)

    def _directions(self, problem: Problem, products: Products, root: Root | None) -> Any:
        ridge, fast, kind = problem.regularization, products.fast, products.dtype
        matrix, n = products.matrix, problem.gram.shape[0]
        if root is not None and not problem.loss.is_multiclass:
            return Rooted(root, ridge)
        few = n <= FACTORED if self.factor is None else self.factor
        if matrix is None or problem.loss.is_multiclass or not few:
            return ConjugateGradients(fast, ridge, kind)
        factored = Factored(matrix.astype(np.float64, copy=False), ridge)
        if self.factor:
            return factored
        return Adaptive(ConjugateGradients(fast, ridge, kind, TRIED_STEPS), factored)


def _leaves_out(root: Root | None) -> bool:
    """Whether a root is only a part of K, so that no number of steps would do."""
    return root is not None and root.missing != 0.0


def _easier_first(problem: Problem) -> list[Problem]:
    """The same problem with λ falling to its own by tens: each solution is a start for the next."""
    ridge = problem.regularization
    top = max(float(problem.diagonal.mean()), 10.0 * ridge)
    powers = range(min(math.ceil(math.log10(top / ridge)), 20), 0, -1)
    return [replace(problem, regularization=ridge * 10.0**power) for power in powers]


def check_smooth(owner: object, problem: Problem) -> None:
    """Refuse losses with kinks, and λ = 0."""
    name, loss = type(owner).__name__, problem.loss
    if not loss.is_smooth:
        raise ValueError(
            f"{name} needs a smooth loss; got {loss!r}, which has kinks. Write DualAscent() or "
            "Splitting()."
        )
    if problem.regularization > 0:
        return
    if isinstance(loss, UNATTAINED):
        raise ValueError(
            f"{type(loss).__name__} without regularisation may have no minimum: the values of f "
            "grow without end. Write regularization > 0."
        )
    raise ValueError(f"{name} needs regularization > 0, which its duality gap is measured by.")


class _Descent:
    """The iterate: α, f = Kα without the constant, b; with products that may become exact."""

    def __init__(self, problem: Problem, products: Products, directions: Any) -> None:
        self.problem, self.products, self.directions = problem, products, directions
        self.loss, self.ridge = problem.loss, problem.regularization
        self.y, self.p = on_host(problem.y), on_host(problem.shares)
        self.rows = over_rows(self.p, self.y)
        self.multiply = products.fast
        self.noise = SINGLE * float(abs(problem.diagonal).sum())
        self.count, self.stopped = 0, False
        self.history: dict[str, list[Any]] = {"objective": [], "gap": [], "products": []}

    def begin(self, start: Solution | None) -> None:
        shape = self.y.shape
        self.alpha, self.values = np.zeros(shape), np.zeros(shape)
        self.intercept = np.zeros(shape[1:])
        if start is None:
            return
        if np.shape(start.coefficients) != shape:
            raise ValueError(
                f"a solution to start from must have coefficients of the shape {shape} of the "
                f"targets; got {np.shape(start.coefficients)}."
            )
        self.alpha = on_host(start.coefficients).astype(np.float64)
        self.intercept = np.broadcast_to(on_host(start.intercept).astype(float), shape[1:])
        self.values = self._times(self.alpha)

    def run(self, solver: Newton) -> Solution:
        tolerance, iterations = solver.tolerance, solver.iterations
        best, least, stalls = math.inf, math.inf, 0
        for _ in range(iterations + 1):
            g, image, gap, objective = self._gradient()
            scale = abs(objective) or 1.0
            if gap <= 0.5 * tolerance * scale or stalls >= STALLS:
                if self.multiply is self.products.exact:
                    break
                solution = self._solution(tolerance)
                if solution.status.converged:
                    return solution
                self._become_exact()
                best, least, stalls = math.inf, math.inf, 0
                continue
            if len(self.history["gap"]) > iterations or self._stops(solver.callback, gap):
                break
            forcing = min(0.3, math.sqrt(gap / scale))
            moved = self._advance(g, image, forcing)
            falls = objective < least - 1e-14 * scale or gap < best
            stalls = 0 if moved and falls else stalls + 1
            best, least = min(best, gap), min(least, objective)
        return self._solution(tolerance)

    def _stops(self, callback: Callback | None, gap: float) -> bool:
        """Tell the callback, and whether it wants to stop."""
        done = len(self.history["gap"]) - 1
        if callback is None or done == 0:
            return False
        norm = math.sqrt(2.0 * self.ridge * gap)
        objective = self.history["objective"][-1]
        state = Progress(self.alpha, self.intercept, objective, gradient_norm=norm)
        self.stopped = bool(callback(done, state))
        return self.stopped

    def _become_exact(self) -> None:
        self.multiply = self.products.exact
        self.values = self._times(self.alpha)

    def _times(self, v: np.ndarray) -> np.ndarray:
        self.count += 1
        return np.asarray(self.multiply(v), np.float64)

    def _gradient(self) -> tuple[np.ndarray, np.ndarray, float, float]:
        """g, Kg, the gap gᵀKg/(2λ) that belongs to the slopes, and the objective."""
        if self.problem.fit_intercept:
            fitted = self.problem.array(self.values)
            self.intercept = on_host(centring_intercept(self.problem, fitted, self.intercept))
        slopes = np.where(self.rows > 0, self.loss.slope(self.y, self._shifted()), 0.0)
        g = self.rows * slopes + self.ridge * self.alpha
        image = self._times(g)
        energy = float(np.vdot(g, image))
        self._refuse_indefinite(energy, g)
        gap, objective = max(energy, 0.0) / (2.0 * self.ridge), self._objective()
        for name, value in (("objective", objective), ("gap", gap), ("products", self.count)):
            self.history[name].append(value)
        return g, image, gap, objective

    def _shifted(self) -> np.ndarray:
        return self.values + self.intercept

    def _objective(self) -> float:
        risk = float(self.loss.risk(self.y, self._shifted(), self.p))
        return risk + 0.5 * self.ridge * float(np.vdot(self.alpha, self.values))

    def _refuse_indefinite(self, energy: float, g: np.ndarray) -> None:
        """gᵀKg < 0 by more than float32 would make it: eps·‖K‖‖g‖², ‖K‖ ≤ trace."""
        if energy < -self.noise * float(np.vdot(g, g)):
            raise NotPositiveDefiniteError(
                f"Expected a positive definite kernel, whose objective is convex; got a Gram "
                f"matrix with vᵀKv = {energy:.3g} for the v in the attribute `witness`. Check it "
                "with kernel.check(X).",
                g,
            )

    def _advance(self, g: np.ndarray, image: np.ndarray, forcing: float) -> bool:
        """One step; False where it has no length."""
        curvature = Curvature(
            self.loss,
            self.y,
            self._shifted(),
            self.p,
            fit_intercept=self.problem.fit_intercept,
        )
        direction = self.directions.solve(curvature, g, image, forcing)
        self.count += direction.products
        if direction.witness is not None:
            v = direction.witness
            self._refuse_indefinite(float(np.vdot(v, self._times(v))), v)
        delta, values = direction.coefficients, direction.values
        if values is None or self.multiply is not self.products.fast:
            values = self._times(delta)
        constant = curvature.constant(values)
        t = self._length(delta, values, constant)
        self.alpha = self.alpha + t * delta
        self.values = self.values + t * values
        self.intercept = self.intercept + t * constant
        return t > 0

    def _length(self, delta: np.ndarray, values: np.ndarray, constant: np.ndarray) -> float:
        """Along f + t·Kδ + t·β everything is known without K."""
        change, base, y, p = values + constant, self._shifted(), self.y, self.p
        own = float(np.vdot(self.alpha, self.values))
        cross, square = float(np.vdot(delta, self.values)), float(np.vdot(delta, values))
        counted = self.rows > 0

        def at(t: float) -> At:
            f = base + t * change
            value = float(self.loss.risk(y, f, p))
            slopes = self.rows * np.where(counted, self.loss.slope(y, f), 0.0)
            bends = self.rows * np.where(counted, self.loss.curvature_product(y, f, change), 0.0)
            return At(
                value + 0.5 * self.ridge * (own + 2.0 * t * cross + t * t * square),
                float(np.vdot(slopes, change)) + self.ridge * (cross + t * square),
                float(np.vdot(bends, change)) + self.ridge * square,
            )

        with np.errstate(over="ignore", invalid="ignore"):
            return step_length(at, at(0.0))

    def _solution(self, tolerance: float) -> Solution:
        """What is true in float64 of the coefficients in the precision of the problem."""
        coefficients = self.alpha.astype(self.problem.gram.dtype)
        gap = certified_gap(
            self.problem,
            coefficients,
            self.intercept,
            lambda v: self.problem.array(self.products.exact(on_host(v))),
        )
        steps = len(self.history["gap"]) - 1
        how = f"{steps} Newton steps, {self.count} products with K, {self.products.note}"
        message = f"relative duality gap {gap.relative:.1e} after {how}."
        converged = gap.relative <= tolerance
        advice = "" if converged else self._advice(gap.relative)
        points, intercept = self.problem.gram.x, plain_intercept(self.intercept)
        return Solution(
            coefficients=points.vector(coefficients),
            status=Status(converged, ("Solved: " if converged else "Stopped: ") + message, advice),
            objective=gap.objective,
            gap=gap.absolute,
            history=self.history,
            intercept=points.vector(intercept) if np.ndim(intercept) else intercept,
        )

    def _advice(self, relative: float) -> str:
        if self.stopped:
            return "The callback ended it."
        if self.products.note.startswith(("pivoted", "eigen", "Cholesky")):
            return "The root leaves out a part of K: lower its tolerance."
        if relative < 1e-4:
            return "Rounding sets a limit: scale the features, or ask for a larger tolerance."
        return "Scale the features to unit variance, raise λ, or allow more iterations."
