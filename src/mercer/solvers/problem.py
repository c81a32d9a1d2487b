"""What is to be minimised, in one place: the objective that solvers lower and tests recompute."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from mercer.arrays import Array, beside, floating, namespace, on_host, to_precision
from mercer.checks import check_weights
from mercer.losses import Loss, Squared
from mercer.operators import Gram
from mercer.solvers.samples import check_targets
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
        y. Solvers compute in the library of this array, and so do their answers.
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
        if not self.gram.symmetric:
            raise ValueError("a problem needs kernel.gram(X), with the same points twice.")
        check_targets(self.targets, self.loss, self.gram.shape[0])
        if not (np.isfinite(self.regularization) and self.regularization >= 0):
            raise ValueError(
                f"regularization must be nonnegative and finite; got {self.regularization!r}."
            )
        if self.weights is not None:
            check_weights(on_host(self.weights), self.gram.shape[0])

    @cached_property
    def values(self) -> Array:
        """The targets in float64, in their library."""
        return to_precision(floating(self.targets), "float64")

    @cached_property
    def sample_weights(self) -> Array:
        """The weights w in float64, 1 where none were given, in the library of the targets."""
        xp, y = namespace(self.values), self.values
        if self.weights is None:
            return xp.ones(y.shape[0], dtype=xp.float64, device=y.device)
        return to_precision(floating(beside(self.weights, y)), "float64")

    def objective(self, coefficients: Any, intercept: Any = 0.0) -> float:
        """The objective at α and b, recomputed in float64 from scratch."""
        y = self.values
        alpha = to_precision(floating(beside(coefficients, y)), "float64")
        fitted = self.gram @ alpha
        shift = to_precision(floating(beside(intercept, y)), "float64")
        risk = self.loss.risk(y, fitted + shift, self.sample_weights)
        return float(risk + 0.5 * self.regularization * namespace(y).sum(alpha * fitted))


class Solver(Protocol):
    """A dataclass of its knobs that turns a problem into a solution."""

    def solve(self, problem: Problem) -> Solution:
        """Solve it, and tell the truth about how well."""


def require_square_loss(solver: type, problem: Problem) -> None:
    """Refuse another loss than the square in a solver of linear equations."""
    if not isinstance(problem.loss, Squared):
        raise ValueError(f"{solver.__name__} solves the square loss; got {problem.loss!r}.")


def require_arrays(solver: Any, problem: Problem) -> None:
    """Refuse tensors in a solver that computes with arrays of NumPy."""
    if problem.gram.on_tensors:
        raise ValueError(
            f"{type(solver).__name__} computes on the CPU and takes arrays of NumPy: write "
            "X.cpu().numpy(). Direct, SpectralPath and ConjugateGradient (square loss), Newton "
            "(smooth losses) and CentresNewton (every loss, on centres) take tensors."
        )


def has_few_features(gram: Gram) -> bool:
    """Whether the kernel has explicit features on these points, fewer than half of the points.

    >>> from mercer.kernels import Gaussian, Linear
    >>> X = [[float(i)] for i in range(5)]
    >>> has_few_features(Linear().gram(X)), has_few_features(Gaussian().gram(X))
    (True, False)
    """
    if gram.on_tensors:  # explicit features are arrays of NumPy
        return False
    width = getattr(gram.x, "width", None)
    count = None if width is None else getattr(gram.kernel, "feature_count", lambda w: None)(width)
    return count is not None and 2 * count < gram.shape[0]
