"""Regression whose tube is as wide as a share ν of the weight asks for: the dual of ν-SVR."""

from __future__ import annotations

import numpy as np

from mercer.operators import Gram
from mercer.solvers.definiteness import as_stationary
from mercer.solvers.driver import Progress
from mercer.solvers.dual.ascent import Listener
from mercer.solvers.dual.solver import DualAscent, Work, advice_of, ending
from mercer.solvers.dual.terms import Terms, filled
from mercer.solvers.solution import Solution


def nu_regression(
    solver: DualAscent, gram: Gram, y: np.ndarray, nu: float, costs: np.ndarray
) -> Solution:
    """min over f, b, ε of Σ_i c_i (νε + max(|y_i − f(x_i) − b| − ε, 0)) + ½‖f‖².

    The dual is min ½αᵀKα − yᵀα with α = α⁺ + α⁻, 0 ≤ α⁺ ≤ c, −c ≤ α⁻ ≤ 0, whose sums are ±½νΣc:
    every point is taken twice, once for each side of the tube. The multipliers of both sums are
    −b ∓ ε, so that the intercept of the solution is (b, ε). Objective and gap are divided by Σc.

    >>> from mercer.kernels import Gaussian
    >>> X, y = np.linspace(0, 1, 10)[:, None], np.linspace(0, 1, 10) ** 2
    >>> solution = nu_regression(DualAscent(1e-9), Gaussian().gram(X), y, 0.4, np.ones(10))
    >>> float(np.abs(solution.coefficients).sum()) <= 0.4 * 10 + 1e-9
    True
    """
    n, total = len(y), 0.5 * nu * float(costs.sum())
    twice = Gram(gram.kernel, gram.x.take(np.tile(np.arange(n), 2)), None, gram.memory)
    fields, start = np.zeros((5, 2 * n)), filled(costs, total)
    fields[0] = np.tile(y, 2)
    fields[2, n:], fields[3, :n] = -costs, costs
    sides = np.repeat([0, 1], n)
    terms = Terms(fields, 0.0, None, sides, np.concatenate([start, -start]))
    ascent = Work(solver, twice, None).ascend(
        terms, listener=_listener(solver, n, float(costs.sum()))
    )
    gram.evaluations += twice.evaluations
    upper, lower = ascent.levels
    b, epsilon = -0.5 * float(upper + lower), max(0.5 * float(lower - upper), 0.0)
    alpha = ascent.alpha[:n] + ascent.alpha[n:]
    support = np.flatnonzero(alpha)
    columns = Gram(gram.kernel, gram.x, gram.x.take(support), gram.memory).astype(np.float64)
    values = columns @ alpha[support] if len(support) else np.zeros(n)
    gap = ascent.claimed_gap
    counts = len(support), n  # of points, not of their sides
    status = ending(solver, ascent.relative(gap), ascent.steps, counts, advice_of(solver, [ascent]))
    outside = np.maximum(np.abs(y - values - b) - epsilon, 0.0)
    objective = float(costs @ outside) + 2.0 * total * epsilon + 0.5 * float(alpha @ values)
    return Solution(
        alpha,
        as_stationary(gram, status),
        objective / float(costs.sum()),
        gap / float(costs.sum()),
        {"relative_gap": ascent.history, "steps": [ascent.steps]},
        np.array([b, epsilon]),
    )


def _listener(solver: DualAscent, n: int, scale: float) -> Listener | None:
    """A function that reports rounds to a callback, with α of both sides added."""
    callback, rounds = solver.callback, 0
    if callback is None:
        return None

    def report(alpha: np.ndarray, levels: np.ndarray, primal: float) -> bool:
        nonlocal rounds
        rounds += 1
        b = -0.5 * float(levels.sum())
        return bool(callback(rounds, Progress(alpha[:n] + alpha[n:], b, primal / scale)))

    return report
