"""One eigendecomposition for every regularisation: fits, leave-one-out errors, degrees of freedom.

With S = diag(√w) and SKS = QΛQᵀ, the inverse G = (SKS + ρI)⁻¹ costs a diagonal for each ρ. With an
intercept G is replaced by G − G s sᵀG/(sᵀGs), s = √w. Then c = G S y gives α = S c, the residuals
are ρc_i/s_i and the leverages h_i = 1 − ρG_ii, so that y_i misses ρc_i/(s_i(1 − h_i)) when the fit
leaves it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import linalg
from mercer.errors import NotPositiveDefiniteError
from mercer.losses import Squared
from mercer.operators import Gram
from mercer.solvers.filters import Filter, Tikhonov
from mercer.solvers.problem import Problem


@dataclass(frozen=True, eq=False)
class SpectralPath:
    """The eigendecomposition of a weighted Gram matrix, ready for every filter.

    Made by `SpectralPath.of(gram, targets)`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> X, y = np.linspace(0, 1, 6)[:, None], np.arange(6.0)
    >>> path = SpectralPath.of(Gaussian().gram(X), y)
    >>> bool(0 < path.degrees_of_freedom(1e-3) < 6)
    True
    """

    gram: Gram
    targets: np.ndarray
    roots: np.ndarray
    eigenvalues: np.ndarray
    eigenvectors: np.ndarray
    fit_intercept: bool

    @classmethod
    def of(
        cls, gram: Gram, targets: Any, weights: Any = None, *, fit_intercept: bool = False
    ) -> SpectralPath:
        """Decompose once: n³ operations, n² memory."""
        problem = Problem(gram, np.asarray(targets), Squared(), 0.0, weights)
        y = np.asarray(problem.targets, np.float64)
        roots = np.sqrt(np.ones(len(y)) if weights is None else np.asarray(weights, np.float64))
        matrix = gram.dense().astype(np.float64)
        matrix *= roots[:, None]
        matrix *= roots
        values, vectors = linalg.eigen(matrix)
        _check_definite(values, vectors, matrix, gram.dtype)
        return cls(gram, y, roots, np.maximum(values, 0.0), vectors, fit_intercept)

    @property
    def total_weight(self) -> float:
        """Σw, n without weights."""
        return float((self.roots**2).sum())

    def coefficients(self, filter_: Filter | float) -> tuple[np.ndarray, np.ndarray]:
        """α and the intercept of a fit; a number λ means ridge regression."""
        inverse = self._inverse_eigenvalues(filter_)
        c, intercept = self._solve(inverse)
        alpha = self.roots[:, None] * c
        shape = self.targets.shape
        return alpha.reshape(shape), intercept if len(shape) == 2 else intercept[0]

    def fitted(self, filter_: Filter | float) -> np.ndarray:
        """f(x_i) for all training points; 0-weight points are predicted like new ones."""
        alpha, intercept = self.coefficients(filter_)
        return self.gram @ alpha + intercept

    def degrees_of_freedom(self, filter_: Filter | float) -> float:
        """The trace of the smoother y ↦ f(x), the intercept included."""
        shrunk = self.eigenvalues * self._inverse_eigenvalues(filter_)
        trace = float(shrunk.sum())
        if self.fit_intercept:
            inverse = self._inverse_eigenvalues(filter_)
            rotated = self.eigenvectors.T @ self.roots
            norm = rotated @ (inverse * rotated)
            trace += float(1.0 - (shrunk * inverse * rotated**2).sum() / norm)
        return trace

    def leave_one_out(self, regularization: float) -> np.ndarray:
        """Predictions of each y_i by the ridge fit on all others, without refitting.

        A point of weight 3 is three points, of which one is left out; a point of weight 1 or less
        is left out as a whole.

        >>> import numpy as np
        >>> from mercer.kernels import Linear
        >>> path = SpectralPath.of(Linear().gram([[1.0], [2.0]]), [1.0, 3.0])
        >>> bool(np.isclose(path.leave_one_out(0.5)[0], 4 / (4 + 1.0) * 3 / 2))
        True
        """
        inverse = self._inverse_eigenvalues(Tikhonov(regularization))
        c, _ = self._solve(inverse)
        ridge = regularization * self.total_weight
        residuals = ridge * c / np.where(self.roots > 0, self.roots, 1.0)[:, None]
        units = np.maximum(self.roots**2, 1.0)
        shares = (1.0 - 1.0 / units) + ridge * self._inverse_diagonal(inverse) / units
        missed = residuals / shares[:, None]
        predictions = self.targets - missed.reshape(self.targets.shape)
        absent = self.roots == 0  # what has no weight is left out anyway
        if absent.any():
            predictions[absent] = self.fitted(regularization)[absent]
        return predictions

    def leave_one_out_errors(self, regularizations: Sequence[float]) -> np.ndarray:
        """The weighted mean square of what leave-one-out misses, for each λ (and output)."""
        columns = self.targets.reshape(len(self.targets), -1)
        errors = []
        for regularization in regularizations:
            gaps = self.leave_one_out(regularization).reshape(columns.shape) - columns
            errors.append(np.average(gaps**2, axis=0, weights=self.roots**2))
        return np.array(errors)

    def generalised_cross_validation(self, filter_: Filter | float) -> float:
        """(1/n) Σ r_i² / (1 − df/n)²: leave-one-out with all leverages made equal."""
        residuals = (self.fitted(filter_) - self.targets).reshape(len(self.targets), -1)
        squares = np.average((residuals**2).sum(axis=1), weights=self.roots**2)
        weights = self.roots**2
        count = np.where(weights > 0, np.maximum(weights, 1.0), 0.0).sum()
        share = self.degrees_of_freedom(filter_) / count
        return float(squares / (1.0 - share) ** 2)

    def smoother_weights(self, x: Any, filter_: Filter | float) -> np.ndarray:
        """The weights with which f(x) adds up the targets: f(x) = Σ_i w_i(x) y_i."""
        points = self.gram.kernel.points(x)
        values = Gram(self.gram.kernel, points, self.gram.x).dense() * self.roots
        inverse = self._inverse_eigenvalues(filter_)
        smoothed = ((values @ self.eigenvectors) * inverse) @ self.eigenvectors.T
        if self.fit_intercept:
            mean = self._apply(inverse, self.roots[:, None])[:, 0]
            rest = 1.0 - smoothed @ self.roots
            smoothed += rest[:, None] * (mean / (self.roots @ mean))
        return smoothed * self.roots

    def _inverse_eigenvalues(self, filter_: Filter | float) -> np.ndarray:
        """What a filter makes of (Λ + ρI)⁻¹: filters see Λ/Σw, and λ = ρ/Σw."""
        chosen = filter_ if hasattr(filter_, "values") else Tikhonov(float(filter_))
        return chosen.values(self.eigenvalues / self.total_weight) / self.total_weight

    def _apply(self, inverse: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self.eigenvectors @ (inverse[:, None] * (self.eigenvectors.T @ columns))

    def _solve(self, inverse: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        columns = self.targets.reshape(len(self.targets), -1)
        c = self._apply(inverse, self.roots[:, None] * columns)
        if not self.fit_intercept:
            return c, np.zeros(columns.shape[1])
        mean = self._apply(inverse, self.roots[:, None])[:, 0]
        size = self.roots @ mean
        if size <= 1e-12 * inverse.max() * self.total_weight:  # the filter cuts constants off
            intercept = np.average(columns, axis=0, weights=self.roots**2)
        else:
            intercept = (self.roots @ c) / size
        return c - mean[:, None] * intercept, intercept

    def _inverse_diagonal(self, inverse: np.ndarray) -> np.ndarray:
        diagonal = (self.eigenvectors**2) @ inverse
        if self.fit_intercept:
            mean = self._apply(inverse, self.roots[:, None])[:, 0]
            diagonal = diagonal - mean**2 / (self.roots @ mean)
        return diagonal


def _check_definite(
    values: np.ndarray, vectors: np.ndarray, matrix: np.ndarray, dtype: np.dtype
) -> None:
    """Refuse a matrix that is indefinite beyond rounding, of float32 values at least."""
    eps, mean = float(np.finfo(dtype).eps), float(np.abs(np.diagonal(matrix)).mean())
    limit = max(np.sqrt(eps), 10 * len(values) * eps, 1e-6) * mean
    if values[0] < -limit:
        raise NotPositiveDefiniteError(
            f"the Gram matrix has the eigenvalue {values[0]:.3g}: the kernel is not positive "
            "definite. The witness is a vector v with vᵀKv < 0.",
            vectors[:, 0],
        )
