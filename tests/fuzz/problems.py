"""Random small problems: no solver says "solved" where another one is better by more than its gap.

Objectives are computed in extended precision from kernel values in extended precision.
"""

from __future__ import annotations

import warnings

import numpy as np

from mercer.kernels import Gaussian
from mercer.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Quantile,
    Squared,
    SquaredHinge,
)
from mercer.solvers import Direct, DualAscent, Newton, Problem, Splitting

LOSSES = [
    Squared(),
    Huber(0.5),
    Logistic(),
    SquaredHinge(),
    Hinge(),
    Absolute(),
    Quantile(0.2),
    EpsilonInsensitive(0.1),
]
SOLVERS = [Direct(), Newton(1e-8), DualAscent(1e-6), Splitting(1e-5)]
WIDE = np.longdouble


def value(loss, y, f):
    """The loss in extended precision, by its definition."""
    r, m = f - y, y * f
    forms = {
        Squared: lambda: r**2 / 2,
        Huber: lambda: np.where(abs(r) <= 0.5, r**2 / 2, 0.5 * abs(r) - WIDE(0.125)),
        Logistic: lambda: np.logaddexp(WIDE(0), -m),
        SquaredHinge: lambda: np.maximum(1 - m, 0) ** 2,
        Hinge: lambda: np.maximum(1 - m, 0),
        Absolute: lambda: abs(r),
        Quantile: lambda: np.where(r < 0, -WIDE(0.2) * r, WIDE(0.8) * r),
        EpsilonInsensitive: lambda: np.maximum(abs(r) - WIDE(0.1), 0),
    }
    return forms[type(loss)]()


def objective(X, y, loss, ridge, scale, weights, solution):
    wide = X.astype(WIDE)
    squares = ((wide[:, None] - wide[None]) ** 2).sum(axis=2)
    K = np.exp(-squares / (2 * WIDE(scale) ** 2))
    alpha, p = solution.coefficients.astype(WIDE), weights.astype(WIDE) / WIDE(weights.sum())
    fitted = K @ alpha
    risk = (p * value(loss, y.astype(WIDE), fitted + WIDE(solution.intercept))).sum()
    return float(risk + WIDE(ridge) / 2 * (alpha @ fitted))


def attempt(seed):
    """Solve one random problem by all solvers; the text of what is wrong, or nothing."""
    random = np.random.default_rng(seed)
    n, d = int(random.integers(2, 30)), int(random.integers(1, 4))
    X = random.standard_normal((n, d)) * 10.0 ** random.integers(-2, 3)
    if random.random() < 0.3:
        X[n // 2 :] = X[: n - n // 2]  # repeated points
    loss = LOSSES[random.integers(len(LOSSES))]
    y = random.standard_normal(n) * 10.0 ** random.integers(-2, 3)
    if loss.is_classification:
        y = np.where(np.arange(n) % 2, 1.0, -1.0)
    weights = random.integers(1, 4, n).astype(float)
    ridge, scale = 10.0 ** random.integers(-6, 2), 10.0 ** random.integers(-1, 2)
    problem = Problem(Gaussian(scale).gram(X), y, loss, ridge, weights, bool(random.integers(2)))
    found = {}
    for solver in SOLVERS:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                solution = solver.solve(problem)
            except ValueError:  # it does not take this loss
                continue
        true = objective(X, y, loss, ridge, scale, weights, solution)
        found[type(solver).__name__] = solution, true
    least = min(true for _, true in found.values())
    for name, (solution, true) in found.items():
        rounding = 1e-9 * max(abs(true), abs(least), 1e-300)
        claimed = max(float(solution.gap), 0.0) if solution.gap is not None else 0.0
        if solution.status.converged and true - least > claimed + rounding:
            return f"seed {seed}, {loss!r}: {name} says {solution.status} and is {true - least:.2e}"
    return ""
