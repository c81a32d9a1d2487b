"""What is to be minimised over functions with few centres."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mercer.losses import Loss, one_hot
from mercer.operators import Gram
from mercer.solvers.centres.passes import Passes


@dataclass(frozen=True, eq=False)
class CentresProblem:
    """Regularised empirical risk over f = Σ_j β_j k(c_j, ·), with M centres c_j for n points.

        (1/Σw) Σ_i w_i ℓ(y_i, (K_nM β)_i + b) + (λ/2) βᵀ K_MM β

    Parameters
    ----------
    passes : Passes
        K_nM, as `mercer.solvers.centres.passes(kernel, points, centres)` makes it.
    targets : array of shape (n,) or (n, outputs)
        y; labels 0, …, K − 1 for a loss of several classes.
    loss : Loss
        ℓ.
    regularization : float
        λ > 0.
    weights : array of shape (n,), optional
        w ≥ 0, not all zero.
    fit_intercept : bool, default=False
        Whether b is free and unpenalised, or 0.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Squared
    >>> from mercer.solvers.centres import passes
    >>> k = Linear()
    >>> rows = passes(k, k.points([[1.0], [2.0]]), k.points([[1.0]]))
    >>> problem = CentresProblem(rows, np.array([0.0, 2.0]), Squared(), regularization=1.0)
    >>> problem.objective(np.array([1.0]))  # f(x) = x: ½(½·1² + ½·0²) + ½
    0.75
    """

    passes: Passes
    targets: np.ndarray
    loss: Loss
    regularization: float
    weights: np.ndarray | None = None
    fit_intercept: bool = False

    def __post_init__(self) -> None:
        self.loss.check_targets(self.targets)
        n = self.passes.rows
        if np.ndim(self.targets) not in (1, 2) or len(self.targets) != n:
            raise ValueError(
                f"targets must have one row for each of the {n} points; got shape "
                f"{np.shape(self.targets)}."
            )
        if not (np.isfinite(self.regularization) and self.regularization > 0):
            raise ValueError(
                f"a problem on centres needs regularization > 0; got {self.regularization!r}."
            )
        if self.weights is not None:
            self._check_weights(np.asarray(self.weights))

    def _check_weights(self, weights: np.ndarray) -> None:
        n = self.passes.rows
        if weights.shape != (n,):
            raise ValueError(
                f"weights must be one number for each of the {n} points; got shape {weights.shape}."
            )
        if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
            raise ValueError("weights must be finite and nonnegative, and not all zero.")

    @cached_property
    def columns(self) -> np.ndarray:
        """The targets in float64, a column for each output; labels become rows of 0 and 1."""
        y = np.asarray(self.targets, np.float64)
        if self.loss.is_multiclass and y.ndim == 1:
            return np.asarray(one_hot(y, int(y.max()) + 1))
        return y.reshape(len(y), -1)

    @cached_property
    def shares(self) -> np.ndarray:
        """w/Σw, a column."""
        n = self.passes.rows
        weights = np.ones(n) if self.weights is None else np.asarray(self.weights, np.float64)
        return (weights / weights.sum())[:, None]

    @property
    def single(self) -> bool:
        """Whether coefficients are a vector."""
        return np.ndim(self.targets) == 1 and not self.loss.is_multiclass

    def risk(self, values: np.ndarray) -> float:
        """The weighted mean loss of values, which are f(x_i) + b in columns."""
        losses = np.asarray(self.loss.value(self.columns, values)).reshape(len(values), -1)
        counted = self.shares[:, 0] > 0
        return float(self.shares[counted, 0] @ losses[counted].sum(axis=1))

    def objective(self, coefficients: Any, intercept: Any = 0.0) -> float:
        """The objective at β and b, recomputed in float64 from scratch: one pass."""
        beta = np.asarray(coefficients, np.float64).reshape(len(self.passes.centres), -1)
        values = np.empty((self.passes.rows, beta.shape[1]))

        def keep(start: int, stop: int, rows: np.ndarray) -> np.ndarray:
            values[start:stop] = rows
            return rows

        self.passes.sandwich(beta, keep, np.float64)
        square = float(np.vdot(beta, self._centre_product(beta)))
        shift = np.asarray(intercept, np.float64).reshape(-1)
        return self.risk(values + shift) + 0.5 * self.regularization * square

    def _centre_product(self, beta: np.ndarray) -> np.ndarray:
        return Gram(self.passes.kernel, self.passes.centres) @ beta
