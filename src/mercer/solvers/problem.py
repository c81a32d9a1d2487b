"""What is to be minimised, in one place: the objective that solvers lower and tests recompute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mercer.arrays import Array, like, namespace, to_numpy
from mercer.losses import Loss
from mercer.operators import Gram
from mercer.solvers.solution import Solution


@dataclass(frozen=True, eq=False)
class Problem:
    """Regularised empirical risk over f = Σ α_i k(x_i, ·).

        (1/Σw) Σ_i w_i ℓ(y_i, (Kα)_i + b) + (λ/2) αᵀKα

    Parameters
    ----------
    gram : Gram
        K, symmetric.
    targets : array of shape (n,) or (n, outputs)
        y.
    loss : Loss
        ℓ.
    regularization : float
        λ ≥ 0.
    weights : array of shape (n,), optional
        w ≥ 0, not all zero; 1 where nothing is given.
    fit_intercept : bool, default=False
        Whether b is free and unpenalised, or 0.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Squared
    >>> gram = Linear().gram([[1.0], [2.0]])
    >>> Problem(gram, np.array([0.0, 2.0]), Squared(), regularization=0.0).objective(np.zeros(2))
    1.0
    """

    gram: Gram
    targets: Array
    loss: Loss
    regularization: float
    weights: Array | None = None
    fit_intercept: bool = False

    def __post_init__(self) -> None:
        self._check_targets()
        if not (np.isfinite(self.regularization) and self.regularization >= 0):
            raise ValueError(
                f"regularization must be nonnegative and finite; got {self.regularization!r}."
            )
        if self.weights is not None:
            self._check_weights(to_numpy(self.weights))

    def _check_targets(self) -> None:
        n = self.gram.shape[0]
        if not self.gram.symmetric:
            raise ValueError("a problem needs kernel.gram(X), with the same points twice.")
        self.loss.check_targets(self.targets)
        if np.ndim(self.targets) not in (1, 2) or len(self.targets) != n:
            raise ValueError(
                f"targets must have one row for each of the {n} points; got shape "
                f"{np.shape(self.targets)}."
            )

    def _check_weights(self, weights: np.ndarray) -> None:
        n = self.gram.shape[0]
        if weights.shape != (n,):
            raise ValueError(
                f"weights must be one number for each of the {n} points; got shape {weights.shape}."
            )
        if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
            raise ValueError("weights must be finite and nonnegative, and not all zero.")

    def objective(self, coefficients: Any, intercept: Any = 0.0) -> float:
        """The objective at α and b, recomputed in float64 from scratch."""
        alpha = like(coefficients, self.reference, "float64")
        xp = namespace(alpha)
        values = self.gram @ alpha
        shift = like(intercept, alpha, "float64")
        shift = shift if alpha.ndim == 2 else xp.reshape(shift, (-1,))
        losses = self.loss.value(like(self.targets, alpha, "float64"), values + shift)
        losses = xp.sum(xp.reshape(losses, (alpha.shape[0], -1)), axis=1)
        if self.weights is None:
            risk = xp.mean(losses)
        else:
            weights = like(self.weights, alpha, "float64")
            risk = xp.sum(weights * losses) / xp.sum(weights)
        return float(risk + 0.5 * self.regularization * xp.sum(alpha * values))

    @property
    def reference(self) -> Array:
        """An array of the library, and on the device, that products with K come from."""
        return self.gram.x.rows[:0] if self.gram.on_tensors else np.empty(0)  # type: ignore[attr-defined]


class Solver(Protocol):
    """A dataclass of its knobs that turns a problem into a solution."""

    def solve(self, problem: Problem) -> Solution:
        """Solve it, and tell the truth about how well."""
