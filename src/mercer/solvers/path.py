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
from mercer.arrays import Array, like, namespace, to_numpy
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
    targets: Array
    roots: Array
    eigenvalues: Array
    eigenvectors: Array
    fit_intercept: bool

    @classmethod
    def of(
        cls, gram: Gram, targets: Any, weights: Any = None, *, fit_intercept: bool = False
    ) -> SpectralPath:
        """Decompose once: n³ operations, n² memory."""
        targets = targets if gram.on_tensors else np.asarray(targets)
        problem = Problem(gram, targets, Squared(), 0.0, weights)
        y = like(targets, problem.reference, "float64")
        xp = namespace(y)
        roots = xp.sqrt(like(np.ones(len(y)) if weights is None else weights, y, "float64"))
        matrix = like(gram.dense(), y, "float64")
        matrix *= roots[:, None]
        matrix *= roots
        values, vectors = linalg.eigen(matrix)
        _check_definite(values, vectors, matrix, gram.dtype)
        return cls(gram, y, roots, xp.where(values > 0.0, values, 0.0), vectors, fit_intercept)

    @property
    def total_weight(self) -> float:
        """Σw, n without weights."""
        return float((self.roots**2).sum())

    def coefficients(self, filter_: Filter | float) -> tuple[Array, Array]:
        """α and the intercept of a fit; a number λ means ridge regression."""
        inverse = self._inverse_eigenvalues(filter_)
        c, intercept = self._solve(inverse)
        alpha = self.roots[:, None] * c
        shape = self.targets.shape
        return namespace(alpha).reshape(alpha, shape), intercept if len(shape) == 2 else intercept[
            0
        ]

    def fitted(self, filter_: Filter | float) -> Array:
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

    def leave_one_out(self, regularization: float) -> Array:
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
        xp = namespace(c)
        residuals = ridge * c / xp.where(self.roots > 0, self.roots, 1.0)[:, None]
        weights = self.roots**2
        units = xp.where(weights > 1.0, weights, 1.0)
        shares = (1.0 - 1.0 / units) + ridge * self._inverse_diagonal(inverse) / units
        missed = residuals / shares[:, None]
        predictions = self.targets - xp.reshape(missed, self.targets.shape)
        absent = self.roots == 0  # what has no weight is left out anyway
        if xp.any(absent):
            predictions[absent] = self.fitted(regularization)[absent]
        return predictions

    def leave_one_out_errors(self, regularizations: Sequence[float]) -> Array:
        """The weighted mean square of what leave-one-out misses, for each λ (and output)."""
        errors = []
        for regularization in regularizations:
            gaps = self._columns(self.leave_one_out(regularization) - self.targets)
            errors.append(to_numpy(self._average(gaps**2)))
        return np.array(errors)

    def _columns(self, values: Array) -> Array:
        return namespace(values).reshape(values, (len(self.targets), -1))

    def _average(self, columns: Array) -> Array:
        """The weighted mean over points."""
        return (self.roots**2 @ columns) / self.total_weight

    def generalised_cross_validation(self, filter_: Filter | float) -> float:
        """(1/n) Σ r_i² / (1 − df/n)²: leave-one-out with all leverages made equal."""
        residuals = self._columns(self.fitted(filter_) - self.targets)
        squares = float(self._average(residuals**2).sum())
        weights = to_numpy(self.roots**2)
        count = np.where(weights > 0, np.maximum(weights, 1.0), 0.0).sum()
        share = self.degrees_of_freedom(filter_) / count
        return float(squares / (1.0 - share) ** 2)

    def smoother_weights(self, x: Any, filter_: Filter | float) -> Array:
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

    def _inverse_eigenvalues(self, filter_: Filter | float) -> Array:
        """What a filter makes of (Λ + ρI)⁻¹: filters see Λ/Σw, and λ = ρ/Σw."""
        chosen = filter_ if hasattr(filter_, "values") else Tikhonov(float(filter_))
        values = chosen.values(to_numpy(self.eigenvalues) / self.total_weight)
        return like(values / self.total_weight, self.eigenvalues)

    def _apply(self, inverse: Array, columns: Array) -> Array:
        return self.eigenvectors @ (inverse[:, None] * (self.eigenvectors.T @ columns))

    def _solve(self, inverse: Array) -> tuple[Array, Array]:
        columns = self._columns(self.targets)
        c = self._apply(inverse, self.roots[:, None] * columns)
        if not self.fit_intercept:
            return c, namespace(c).zeros_like(c[0, :])
        mean = self._apply(inverse, self.roots[:, None])[:, 0]
        size = self.roots @ mean
        if size <= 1e-12 * inverse.max() * self.total_weight:  # the filter cuts constants off
            intercept = self._average(columns)
        else:
            intercept = (self.roots @ c) / size
        return c - mean[:, None] * intercept, intercept

    def _inverse_diagonal(self, inverse: Array) -> Array:
        diagonal = (self.eigenvectors**2) @ inverse
        if self.fit_intercept:
            mean = self._apply(inverse, self.roots[:, None])[:, 0]
            diagonal = diagonal - mean**2 / (self.roots @ mean)
        return diagonal


def _check_definite(values: Array, vectors: Array, matrix: Array, dtype: np.dtype) -> None:
    """Refuse a matrix that is indefinite beyond rounding, of float32 values at least."""
    eps, mean = float(np.finfo(dtype).eps), float(abs(matrix.diagonal()).mean())
    limit = max(np.sqrt(eps), 10 * len(values) * eps, 1e-6) * mean
    if values[0] < -limit:
        raise NotPositiveDefiniteError(
            f"the Gram matrix has the eigenvalue {values[0]:.3g}: the kernel is not positive "
            "definite. The witness is a vector v with vᵀKv < 0.",
            vectors[:, 0],
        )
