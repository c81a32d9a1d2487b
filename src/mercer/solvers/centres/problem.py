"""What is to be minimised over functions with few centres."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mercer.arrays import Array, floating, inner, on_host, to_precision
from mercer.checks import check_weights
from mercer.losses import Loss
from mercer.operators import Gram
from mercer.solvers.centres.passes import Passes
from mercer.solvers.samples import check_targets, target_columns


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
    targets: Array
    loss: Loss
    regularization: float
    weights: Array | None = None
    fit_intercept: bool = False

    def __post_init__(self) -> None:
        check_targets(self.targets, self.loss, self.passes.rows)
        if not (np.isfinite(self.regularization) and self.regularization > 0):
            raise ValueError(
                f"a problem on centres needs regularization > 0; got {self.regularization!r}."
            )
        if self.weights is not None:
            check_weights(on_host(self.weights), self.passes.rows)

    @cached_property
    def columns(self) -> Array:
        """The targets in float64, a column for each output; labels become rows of 0 and 1.

        They are in the library of the centres, and on their device.
        """
        return target_columns(self.double(self.targets), self.loss)

    @cached_property
    def shares(self) -> Array:
        """w/Σw, a column."""
        n = self.passes.rows
        weights = self.double(np.ones(n) if self.weights is None else self.weights)
        return (weights / weights.sum())[:, None]

    def double(self, values: Any) -> Array:
        """Values in float64, in the library of the centres and on their device."""
        return to_precision(floating(self.passes.centres.vector(values)), "float64")

    @property
    def single(self) -> bool:
        """Whether coefficients are a vector."""
        return np.ndim(self.targets) == 1 and not self.loss.is_multiclass

    def risk(self, values: Array, loss: Loss | None = None) -> float:
        """The weighted mean loss of values, which are f(x_i) + b in columns; or of another loss."""
        loss = self.loss if loss is None else loss
        losses = loss.value(self.columns, values).reshape(len(values), -1)
        counted = self.shares[:, 0] > 0
        return float(self.shares[counted, 0] @ losses[counted].sum(axis=1))

    def objective(self, coefficients: Any, intercept: Any = 0.0) -> float:
        """The objective at β and b, recomputed in float64 from scratch: one pass."""
        beta = self.double(coefficients).reshape(len(self.passes.centres), -1)
        values = self.passes.operator.astype(np.float64) @ beta
        square = inner(beta, self._centre_product(beta))
        shift = self.double(intercept).reshape(-1)
        return self.risk(values + shift) + 0.5 * self.regularization * square

    def _centre_product(self, beta: Array) -> Array:
        return Gram(self.passes.kernel, self.passes.centres) @ beta
