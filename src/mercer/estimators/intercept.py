"""The gain of an intercept by generalised cross-validation, where that is cheap to compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import as_numpy
from mercer.operators import Gram
from mercer.runtime.threads import spans
from mercer.solvers.preconditioners.sampling import random_rows
from mercer.solvers.problem import Problem

BLOCK = 4096  # rows of K at a time
ROWS_PER_CENTRE = 16
"""On centres, so many rows for each at least: a fit to fewer tells little of that to all."""
CHEAP = 6e9
"""Rows times squared centres, the multiply-adds of the moments: 0.3 s on two cores."""


def errors_by_intercept(problem: Problem) -> tuple[float, float, int] | None:
    """Estimated RMSE without and with an intercept, and from how many rows; None if not cheap.

    With n rows, the residuals r and the trace t of the map from y to fitted values, it is
    ‖r‖/√n/(1 − t/n).

    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> X = np.linspace(0.0, 1.0, 40)[:, None]
    >>> problem = Problem(Gaussian(0.2).gram(X), 100.0 + np.sin(9.0 * X[:, 0]), Squared(), 1e-3)
    >>> without, with_one, rows = errors_by_intercept(problem)
    >>> rows, bool(with_one < 0.1 * without)
    (40, True)
    """
    operator, size = problem.operator, problem.size
    rows = min(problem.rows, int(CHEAP / float(size) ** 2))
    fewest = problem.rows if problem.on_all_points else ROWS_PER_CENTRE * size
    reachable = isinstance(operator, Gram) and operator.machine.pairs_rows
    if not reachable or not problem.has_one_ridge or rows < min(fewest, problem.rows):
        return None
    some = random_rows(problem.rows, rows, seed=0)
    weights, y = as_numpy(problem.sample_weights)[some], as_numpy(problem.y_columns)[some]
    if not weights.any() or not problem.regularization > 0:
        return None
    moments, cross = _moments(operator, some, weights, y)
    own = as_numpy(Gram(operator.kernel, operator.y).astype(np.float64).dense())
    penalty = np.zeros_like(moments)
    penalty[:-1, :-1] = float(problem.regularization) * float(weights.sum()) * own
    squares, count = weights @ y**2, np.count_nonzero(weights)
    found = []
    for last in (-1, None):
        part, right = moments[:last, :last], cross[:last]
        factor = linalg.cholesky(part + penalty[:last, :last])
        v, trace = factor.solve(right), float(np.trace(factor.solve(part)))
        rest = squares - 2.0 * (v * right).sum(axis=0) + (v * (part @ v)).sum(axis=0)
        size_of_rest = np.sqrt(max(float(rest.mean()), 0.0) / float(weights.sum()))
        found.append(float(size_of_rest / max(1.0 - trace / count, 1e-12)))
    return found[0], found[1], rows


def _moments(
    operator: Any, rows: np.ndarray, weights: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Σ w aaᵀ and Σ w a yᵀ for a = (k(C, x), 1)."""
    size = operator.shape[1] + 1
    moments, cross = np.zeros((size, size)), np.zeros((size, y.shape[1]))
    for start, stop in spans(len(rows), BLOCK):
        part = as_numpy(operator[rows[start:stop], :].astype(np.float64).dense())
        block = np.column_stack([part, np.ones(len(part))])
        scaled = block * weights[start:stop, None]
        moments += scaled.T @ block
        cross += scaled.T @ y[start:stop]
    return moments, cross


def advice_on_intercept(problem: Problem) -> str:
    """A sentence for `explain`; empty where nothing is known."""
    known = errors_by_intercept(problem)
    if known is None:
        return ""
    without, with_one, rows = known
    some = "" if rows == problem.rows else f" on {rows:,} of the rows"
    text = (
        f"With an intercept the RMSE, by generalised cross-validation{some}, would be "
        f"{with_one:.4g} instead of {without:.4g}"
    )
    return f"{text}: write fit_intercept=True." if with_one < 0.98 * without else f"{text}."
