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

ROWS = 512  # eigenvectors that are squared at a time


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
        c, intercepts = self._solve(self._inverse_eigenvalues(filter_)[:, None])
        alpha = self.roots[:, None] * c[:, 0]
        shape = self.targets.shape
        return alpha.reshape(shape), intercepts[0] if len(shape) == 2 else intercepts[0, 0]

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
        return self._left_out([regularization])[:, 0].reshape(self.targets.shape)

    def leave_one_out_errors(self, regularizations: Sequence[float]) -> np.ndarray:
        """The weighted mean square of what leave-one-out misses, for each λ (and output)."""
        columns = self.targets.reshape(len(self.targets), 1, -1)
        gaps = self._left_out(regularizations) - columns
        return np.average(gaps**2, axis=0, weights=self.roots**2)

    def _left_out(self, regularizations: Sequence[float]) -> np.ndarray:
        """Leave-one-out predictions of shape (n, number of λ, outputs)."""
        inverses = self._inverses(regularizations)
        ridges = np.asarray(regularizations, np.float64) * self.total_weight
        c, _ = self._solve(inverses)
        roots = self.roots[:, None]
        residuals = ridges[:, None] * c / np.where(roots > 0, roots, 1.0)[:, None]
        units = np.maximum(roots**2, 1.0)
        shares = (1.0 - 1.0 / units) + ridges * self._inverse_diagonals(inverses) / units
        predictions = self.targets.reshape(len(c), 1, -1) - residuals / shares[:, :, None]
        absent = self.roots == 0  # what has no weight is left out anyway
        if absent.any():
            for i, regularization in enumerate(regularizations):
                fitted = self.fitted(regularization).reshape(len(c), -1)
                predictions[absent, i] = fitted[absent]
        return predictions

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
            mean = self._apply(inverse[:, None], self.roots[:, None])[:, 0, 0]
            rest = 1.0 - smoothed @ self.roots
            smoothed += rest[:, None] * (mean / (self.roots @ mean))
        return smoothed * self.roots

    def _inverse_eigenvalues(self, filter_: Filter | float) -> np.ndarray:
        """What a filter makes of (Λ + ρI)⁻¹: filters see Λ/Σw, and λ = ρ/Σw."""
        chosen = filter_ if hasattr(filter_, "values") else Tikhonov(float(filter_))
        return chosen.values(self.eigenvalues / self.total_weight) / self.total_weight

    def _inverses(self, regularizations: Sequence[float]) -> np.ndarray:
        """(Λ + ρI)⁻¹ in a column for each λ."""
        return np.stack([self._inverse_eigenvalues(r) for r in regularizations], axis=1)

    def _apply(self, inverses: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """G times each column, for each inverse: of shape (n, inverses, columns)."""
        rotated = self.eigenvectors.T @ columns
        scaled = inverses[:, :, None] * rotated[:, None, :]
        return (self.eigenvectors @ scaled.reshape(len(rotated), -1)).reshape(scaled.shape)

    def _solve(self, inverses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """c of shape (n, inverses, outputs), and intercepts of shape (inverses, outputs)."""
        columns = self.targets.reshape(len(self.targets), -1)
        c = self._apply(inverses, self.roots[:, None] * columns)
        if not self.fit_intercept:
            return c, np.zeros(c.shape[1:])
        means = self._apply(inverses, self.roots[:, None])[:, :, 0]
        sizes = self.roots @ means
        cut = sizes <= 1e-12 * inverses.max(axis=0) * self.total_weight  # constants are cut off
        intercepts = np.tensordot(self.roots, c, 1) / np.where(cut, 1.0, sizes)[:, None]
        intercepts[cut] = np.average(columns, axis=0, weights=self.roots**2)
        return c - means[:, :, None] * intercepts, intercepts

    def _inverse_diagonals(self, inverses: np.ndarray) -> np.ndarray:
        """The diagonal of G for each inverse, of shape (n, inverses)."""
        rows = (self.eigenvectors[i : i + ROWS] for i in range(0, len(inverses), ROWS))
        diagonals = np.concatenate([block**2 @ inverses for block in rows])
        if self.fit_intercept:
            means = self._apply(inverses, self.roots[:, None])[:, :, 0]
            diagonals -= means**2 / (self.roots @ means)
        return diagonals


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
