"""Random small problems: every "solved" holds, of every solver that takes the problem.

Objectives, dual bounds, residuals and gradients are computed here in extended precision, from
kernel values in extended precision, by code that shares nothing with the library. What a solver
claims to be within of the least objective must be proved by the best dual bound that any solution
gives, and no other solution may be better by more.
"""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np

from loss_formulas import conjugate, domain, slope, times_log, value
from mercer.features import Nystroem
from mercer.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial
from mercer.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)
from mercer.solvers import (
    L1,
    Ball,
    BlockCoordinateDescent,
    ConjugateGradient,
    Constrained,
    Direct,
    DualAscent,
    KernelGradientDescent,
    MiniBatch,
    Newton,
    Problem,
    SparseExpansion,
    Splitting,
    StochasticFunctionalGradient,
    SubgradientDescent,
    default_solver,
    schedules,
)

WIDE = np.longdouble
LOSSES = [
    Squared(),
    Huber(0.5),
    Logistic(),
    SquaredHinge(),
    Hinge(),
    Absolute(),
    Quantile(0.2),
    EpsilonInsensitive(0.1),
    Poisson(),
]
SOLVERS = [  # with a duality gap
    Newton(1e-8),
    DualAscent(1e-6, max_iterations=100_000),
    DualAscent(1e-12, max_iterations=100_000, by_weights=False),  # α is a dual point, for bounds
    Splitting(1e-4, iterations=100),
    SubgradientDescent(20, schedules.Constant(1e-3)),
    StochasticFunctionalGradient(2, schedules.Constant(1e-3), random_state=0),
]
RESIDUALS = [Direct(), ConjugateGradient(1e-8), BlockCoordinateDescent(1e-6, 8, iterations=50)]
GRADIENTS = [KernelGradientDescent(100)]
VALUES = "values of f are right to"  # what ridge regression in features claims
ROUNDING = 1e-9  # of the objective: what is allowed beside a claim


def products(X, Y):
    return (X[:, None] * Y[None]).sum(axis=2)


def squares(X, Y):
    return ((X[:, None] - Y[None]) ** 2).sum(axis=2)


def matern(X, Y, scale):
    r = np.sqrt(3 * squares(X, Y)) / scale
    return (1 + r) * np.exp(-r)


KERNELS = [  # of a lengthscale, with their values by definition
    (Gaussian, lambda X, Y, scale: np.exp(-squares(X, Y) / (2 * scale**2))),
    (partial(Matern, 1.5), matern),
    (Laplacian, lambda X, Y, scale: np.exp(-abs(X[:, None] - Y[None]).sum(axis=2) / scale)),
    (lambda scale: Linear(1.0), lambda X, Y, scale: products(X, Y) + 1),
    (lambda scale: Polynomial(2), lambda X, Y, scale: (products(X, Y) + 1) ** 2),
]


# ---- claims, in extended precision ---------------------------------------------------------------


class Exact:
    """A problem on all points, in extended precision."""

    def __init__(self, K, y, loss, ridge, weights, intercept):
        self.K, self.y, self.loss, self.ridge = K, y.astype(WIDE), loss, WIDE(ridge)
        self.p, self.intercept = weights.astype(WIDE) / WIDE(weights.sum()), intercept

    def values(self, solution):
        alpha = solution.coefficients.astype(WIDE)
        return alpha, self.K @ alpha, WIDE(solution.intercept)

    def objective(self, solution):
        alpha, fitted, b = self.values(solution)
        risk = (self.p * value(self.loss, self.y, fitted + b)).sum()
        return risk + self.ridge / 2 * (alpha @ fitted)

    def bound(self, solution):
        """The best dual objective of the points that belong to a solution."""
        alpha, fitted, b = self.values(solution)
        found = [-self.ridge * alpha / self.p, slope(self.loss, self.y, fitted + b)]
        return max(self.dual(u) for u in found)

    def unsharp(self, solution):
        """How much the bound may miss since slopes are known to the rounding of Kα only."""
        sizes = np.sqrt(self.K.diagonal()) * abs(solution.coefficients)
        error = 1e-15 * np.sqrt(self.K.diagonal().max()) * sizes.sum()
        push = (self.p * 2 * error * np.sqrt(self.K.diagonal())).sum()
        return push**2 / (2 * self.ridge)

    def dual(self, u):
        u = self.balanced(u)
        push = self.p * u
        cost = (self.p * conjugate(self.loss, self.y, u)).sum()
        return -cost - push @ self.K @ push / (2 * self.ridge)

    def balanced(self, u):
        """The point moved into the domain, and with an intercept to Σ p_i u_i = 0."""
        low, high = domain(self.loss, self.y)
        moved = np.clip(u, low, high)
        if not self.intercept:
            return moved
        reach = abs(u).max() + 2
        ends = [-reach, reach]
        for _ in range(90):
            middle = (ends[0] + ends[1]) / 2
            ends[int((self.p * np.clip(u - middle, low, high)).sum() < 0)] = middle
        return np.clip(u - ends[0], low, high)

    def residual(self, solution):
        """‖S(Kα + b − y) + ρS⁻¹α‖/‖Sy‖ with S² = w and ρ = λΣw; of least α, ‖S(f − f*)‖/‖Sy‖."""
        alpha, fitted, b = self.values(solution)
        roots = np.sqrt(self.p)
        rest = roots * (fitted + b - self.y) + self.ridge * alpha / roots
        if VALUES in solution.status.message:
            best = ridge_values(self.K, self.y[:, None], self.p, self.ridge, self.intercept)
            rest = roots * (fitted + b - best[:, 0])
        return np.linalg.norm(rest.astype(float)) / np.linalg.norm((roots * self.y).astype(float))

    def gradient(self, solution):
        alpha, fitted, b = self.values(solution)
        push = self.p * slope(self.loss, self.y, fitted + b)
        g = push + self.ridge * alpha
        return np.sqrt(max(g @ self.K @ g, WIDE(0)) + self.intercept * push.sum() ** 2)


def ridge_values(K, Y, p, ridge, intercept):
    """Values of the solutions of ridge regression, from a factor of K of low rank."""
    level = p @ Y if intercept else 0 * Y[0]
    columns, rest = [], K.diagonal().copy()
    while len(columns) < len(K) and rest.max() > 1e-17 * K.diagonal().max():
        i = int(rest.argmax())
        known = sum((column * column[i] for column in columns), 0 * rest)
        columns.append((K[:, i] - known) / np.sqrt(rest[i]))
        rest = np.maximum(rest - columns[-1] ** 2, 0)
        rest[i] = 0
    F = np.stack(columns, axis=1)
    F = F - p @ F if intercept else F
    system = (p[:, None] * F).T @ F + ridge * np.eye(F.shape[1], dtype=WIDE)
    return F @ eliminated(system, (p[:, None] * F).T @ (Y - level)) + level


def eliminated(matrix, right):
    """A⁻¹B for a positive definite A, which LAPACK has not in extended precision."""
    matrix, right = matrix.copy(), right.copy()
    for i in range(len(matrix)):
        for j in range(i + 1, len(matrix)):
            share = matrix[j, i] / matrix[i, i]
            matrix[j] -= share * matrix[i]
            right[j] -= share * right[i]
    for i in reversed(range(len(matrix))):
        right[i] = (right[i] - matrix[i, i + 1 :] @ right[i + 1 :]) / matrix[i, i]
    return right


# ---- problems ------------------------------------------------------------------------------------


def solved(solver, problem):
    """The solution, or nothing where the problem is refused."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return solver.solve(problem)
        except ValueError:  # it does not take this loss
            return None


def drawn(random):
    """Points, targets, weights, λ and a kernel with its values in extended precision."""
    n, d = int(random.integers(2, 25)), int(random.integers(1, 4))
    X = random.standard_normal((n, d)) * 10.0 ** random.integers(-2, 3)
    if random.random() < 0.3:
        X[n // 2 :] = X[: n - n // 2]  # repeated points
    loss = LOSSES[random.integers(len(LOSSES))]
    y = random.standard_normal(n) * 10.0 ** random.integers(-2, 3)
    if loss.is_classification:
        y = np.where(np.arange(n) % 2, 1.0, -1.0)
    if isinstance(loss, Poisson):
        y = random.integers(0, 5, n).astype(float)
    weights = random.integers(1, 4, n).astype(float)
    ridge, scale = 10.0 ** random.integers(-6, 2), 10.0 ** random.integers(-1, 2)
    kernel, values = KERNELS[random.choice(5, p=[0.6, 0.1, 0.1, 0.1, 0.1])]
    return X, y, weights, loss, ridge, kernel(scale), partial(values, scale=WIDE(scale))


def on_its_support(K, y, p, strength, alpha):
    """α of the lasso, corrected on its support: the residual of that has a sharp dual bound."""
    alpha, active = alpha.copy(), np.flatnonzero(alpha)
    part = K[:, active]
    matrix = np.asarray((p[:, None] * part).T @ part, np.float64)
    for _ in range(3):
        fall = part.T @ (p * (y - K @ alpha)) - WIDE(strength) * np.sign(alpha[active])
        alpha[active] += np.linalg.lstsq(matrix, np.asarray(fall, np.float64), rcond=None)[0]
    return alpha


def lasso_bound(K, y, p, strength, alpha):
    """The best dual bound of the multiples of the residual at α."""
    rest = y - K @ alpha
    most = WIDE(strength) / max(abs(K @ (p * rest)).max(), WIDE(1e-4000))
    best = (p * y * rest).sum() / max((p * rest**2).sum(), WIDE(1e-4000))
    shrink = np.clip(best, -most, most)
    return (p * (y * shrink * rest - (shrink * rest) ** 2 / 2)).sum()


def attempt_on_points(random):
    X, y, weights, loss, ridge, kernel, values = drawn(random)
    intercept = bool(random.integers(2))
    problem = Problem(kernel.gram(X), y, loss, ridge, weights, intercept)
    wide = X.astype(WIDE)
    exact = Exact(values(wide, wide), y, loss, ridge, weights, intercept)
    found = [(solver, solved(solver, problem)) for solver in [*SOLVERS, *RESIDUALS, *GRADIENTS]]
    found = [(solver, solution) for solver, solution in found if solution is not None]
    bound, blur = max((exact.bound(one), exact.unsharp(one)) for _, one in found)
    least = min(exact.objective(solution) for _, solution in found)
    zero = (exact.p * value(loss, exact.y, 0 * exact.y)).sum()
    for solver, solution in found:
        if not solution.status.converged:
            continue
        if solver in RESIDUALS:
            off, allowed = exact.residual(solution), solution.gap * (1 + ROUNDING) + 1e-15
            allowed += 1e-10 * (VALUES in solution.status.message)  # of the normal equations here
        elif solver in GRADIENTS:
            off, allowed = exact.gradient(solution), solution.gap * (1 + ROUNDING)
            allowed += 1e-12 * float(np.sqrt(exact.K.max()) * abs(exact.y).max())
        else:
            objective = exact.objective(solution)
            allowed = solution.gap + ROUNDING * max(abs(objective), zero)
            own = "least coefficients" not in solution.status.message  # which are no dual point
            missed = exact.unsharp(solution) if own else blur
            off = max(objective - least, objective - bound - missed)
        if not off <= allowed:
            return f"{loss!r}, {kernel!r}: {solver} says {solution.status} and is {float(off):.2e}"
    return ""


def attempt_on_centres(random):
    """f on centres: what is solved is no worse than what another solver or λ finds."""
    X, y, weights, loss, ridge, kernel, values = drawn(random)
    intercept = bool(random.integers(2))
    centres = np.unique(X, axis=0)[: max(1, len(X) // 2)]
    problem = Problem.on_centres(kernel.gram(X, centres), y, loss, ridge, weights, intercept)
    wide, few = X.astype(WIDE), centres.astype(WIDE)
    cross, own = values(wide, few), values(few, few)
    p = weights.astype(WIDE) / WIDE(weights.sum())

    def objective(solution, factor=1.0):
        beta = WIDE(factor) * solution.coefficients.astype(WIDE)
        f = cross @ beta + WIDE(solution.intercept)
        risk = (p * value(loss, y.astype(WIDE), f)).sum()
        return float(risk + WIDE(ridge) / 2 * (beta @ own @ beta))

    solutions = [solved(Newton(tolerance, iterations=30), problem) for tolerance in (1e-3, 1e-10)]
    solutions = [solution for solution in solutions if solution is not None]
    least = min((objective(s, f) for s in solutions for f in (0.0, 0.9, 1.0, 1.1)), default=0.0)
    for solution in solutions:
        off = objective(solution) - least
        if solution.status.converged and off > solution.gap + ROUNDING * max(abs(least), 1e-300):
            return f"on centres, {loss!r}, {kernel!r}: {solution.status} and is {off:.2e}"
    return ""


def attempt_with_penalty(random):
    """‖f‖ ≤ R against λ‖f‖²/2, and the lasso against its dual."""
    X, y, weights, loss, ridge, kernel, values = drawn(random)
    wide = X.astype(WIDE)
    K, p = values(wide, wide), weights.astype(WIDE) / WIDE(weights.sum())
    exact = Exact(K, y, loss, ridge, weights, False)
    if K.max() > 1e6:  # residuals of 1e-11 have no digit that the bounds below could use
        return ""
    if random.random() < 0.5:
        radius = float(10.0 ** random.uniform(-2, 1))
        solution = solved(Constrained(), Problem(kernel.gram(X), y, loss, Ball(radius), weights))
        if solution is None or not solution.status.converged:
            return ""
        alpha, fitted, _ = exact.values(solution)
        risk, norm = (p * value(loss, exact.y, fitted)).sum(), np.sqrt(alpha @ fitted)
        least = np.inf
        for power in range(-6, 3):  # Lagrange: some λ has the least risk in the ball
            task = Problem(kernel.gram(X), y, loss, 10.0**power, weights)
            other = solved(default_solver(loss, 1e-8), task)
            beta, image, _ = exact.values(other)
            shrink = min(WIDE(1), WIDE(radius) / np.sqrt(beta @ image))
            least = min(least, (p * value(loss, exact.y, shrink * image)).sum())
        allowed = max(solution.gap, 0.0) + ROUNDING * max(float(least), 1e-300)
        sizes = float((np.sqrt(K.diagonal()) * abs(alpha)).sum()) ** 2  # of what ‖f‖² is a sum of
        if norm**2 > radius**2 * (1 + 1e-9) + 1e-15 * sizes or risk - least > allowed:
            return f"{loss!r}, {kernel!r}, ‖f‖ ≤ {radius}: {solution.status}, {risk - least:.2e}"
        return ""
    strength = float(10.0 ** random.uniform(-3, 0))
    problem = Problem(kernel.gram(X), y, Squared(), L1(strength), weights)
    solution = solved(SparseExpansion(), problem)
    if solution is None or not solution.status.converged:
        return ""
    alpha, fitted, _ = exact.values(solution)
    primal = (p * (exact.y - fitted) ** 2).sum() / 2 + WIDE(strength) * abs(alpha).sum()
    corrected = on_its_support(K, exact.y, p, strength, alpha)  # worse where columns are alike
    dual = max(lasso_bound(K, exact.y, p, strength, one) for one in (alpha, corrected))
    off, scale = float(primal - dual), float((p * exact.y**2).sum() / 2)
    within = off <= solution.gap + ROUNDING * scale
    return "" if within else f"lasso, {kernel!r}: {solution.status} and is {off:.2e}"


def attempt_on_features(random):
    """Batches on the features of a kernel: its gap is proved by `Newton`, its own by the bound."""
    X, y, weights, loss, ridge, kernel, _ = drawn(random)
    phi = Nystroem(kernel=kernel, n_components=max(1, len(X) // 2), random_state=0).fit(X)
    problem = Problem.on_features(phi, X, y, loss, ridge, weights)
    solver = MiniBatch(3, schedules.Constant(1e-2), batch_size=8)
    ours, best = solved(solver, problem), solved(Newton(1e-10), problem)
    if ours is None or best is None or not ours.status.converged:
        return ""
    off = problem.objective(ours.coefficients) - problem.objective(best.coefficients)
    within = off <= ours.gap + ROUNDING * abs(best.objective)
    return "" if within else f"on features, {loss!r}: {ours.status} and is {off:.2e}"


def attempt_with_classes(random):
    """Several classes: the gap of the dual point that the probabilities are."""
    X, _, weights, _, ridge, kernel, values = drawn(random)
    count = int(random.integers(2, 5))
    labels = np.arange(len(X)) % count
    Y = np.eye(count)[labels]
    solution = solved(Newton(1e-8), Problem(kernel.gram(X), Y, Multinomial(), ridge, weights))
    if solution is None or not solution.status.converged:
        return ""
    wide = X.astype(WIDE)
    K, p = values(wide, wide), weights.astype(WIDE) / WIDE(weights.sum())
    alpha = solution.coefficients.astype(WIDE)
    f = K @ alpha
    top = f.max(axis=1)
    sums = np.log(np.exp(f - top[:, None]).sum(axis=1)) + top
    risk = (p * (sums - f[np.arange(len(X)), labels])).sum()
    objective = risk + WIDE(ridge) / 2 * (alpha * f).sum()
    own = np.clip(Y - WIDE(ridge) * alpha / p[:, None], 0, None)
    own /= own.sum(axis=1)[:, None]  # into the simplex
    duals = []
    for q in (np.exp(f - sums[:, None]), own):
        push = p[:, None] * (q - Y)
        cost = (p * times_log(q).sum(axis=1)).sum()
        duals.append(-cost - (push * (K @ push)).sum() / (2 * WIDE(ridge)))
    sizes = (np.sqrt(K.diagonal())[:, None] * abs(alpha)).sum()
    error = 1e-15 * float(np.sqrt(K.diagonal().max()) * sizes)  # of Kα, thus of probabilities
    slack = (error * float(np.sqrt(K.diagonal().max()))) ** 2 / (2 * ridge)
    allowed = solution.gap + ROUNDING * float(max(objective, np.log(WIDE(count)))) + slack
    off = float(objective - max(duals))
    return "" if off <= allowed else f"{count} classes, {kernel!r}: {solution.status}, {off:.2e}"


def attempt_with_outputs(random):
    """Several targets, and polynomials that are not penalised: residuals of the linear system."""
    X, y, weights, _, ridge, kernel, values = drawn(random)
    Y = np.stack([y, y[::-1], np.ones_like(y)], axis=1)
    free = random.random() < 0.5 and len(X) > 4
    options = {"null_space": np.ones((len(X), 1))} if free else {}
    problem = Problem(kernel.gram(X), Y, Squared(), ridge, weights, **options)
    wide = X.astype(WIDE)
    K, p = values(wide, wide), weights.astype(WIDE) / WIDE(weights.sum())
    roots = np.sqrt(p)[:, None]
    for solver in RESIDUALS:
        solution = solved(solver, problem)
        if solution is None or not solution.status.converged:
            continue
        alpha = solution.coefficients.astype(WIDE)
        b = np.asarray(solution.intercept, WIDE).reshape(-1, 3)
        rest = roots * (K @ alpha + b.sum(axis=0) - Y) + WIDE(ridge) * alpha / roots
        if VALUES in solution.status.message:
            rest = roots * (K @ alpha + b.sum(axis=0) - ridge_values(K, Y, p, WIDE(ridge), False))
        sizes = np.linalg.norm((roots * Y).astype(float), axis=0)
        off = float((np.linalg.norm(rest.astype(float), axis=0) / sizes).max())
        rounding = 1e-14 * float(K.max() * abs(alpha).sum() / sizes.min())
        if off > solution.gap * (1 + ROUNDING) + rounding:
            return f"three outputs, {kernel!r}: {solver} says {solution.status} and is {off:.2e}"
    return ""


def attempt(seed):
    """Solve one random problem by all solvers; the text of what is wrong, or nothing."""
    random = np.random.default_rng(seed)
    share = random.random()
    kinds = (
        (attempt_on_points, 0.7),
        (attempt_with_classes, 0.75),
        (attempt_with_outputs, 0.8),
        (attempt_on_centres, 0.9),
        (attempt_with_penalty, 0.97),
    )
    kind = next((kind for kind, end in kinds if share < end), attempt_on_features)
    with np.errstate(all="ignore"):
        wrong = kind(random)
    return f"seed {seed}: {wrong}" if wrong else ""
