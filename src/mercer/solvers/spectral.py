"""One eigendecomposition for every regularisation: fits, leave-one-out errors, degrees of freedom.

With S = diag(√w) and SKS = QΛQᵀ, the inverse G = (SKS + ρI)⁻¹ costs a diagonal for each ρ. With an
intercept G is replaced by G − G s sᵀG/(sᵀGs), s = √w. Then c = G S y gives α = S c, the residuals
are ρc_i/s_i and the leverages h_i = 1 − ρG_ii, so that y_i misses ρc_i/(s_i(1 − h_i)) when the fit
leaves it out.

With a null space of the penalty, as the polynomials of splines, Q holds the eigenvectors of ΠSKSΠ
off that null space, and everything else stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, as_numpy, beside, namespace, precision, to_precision
from mercer.errors import NotPositiveDefiniteError
from mercer.losses import Squared
from mercer.operators import Gram
from mercer.solvers.definiteness import sentence, without_minimum
from mercer.solvers.filters import Filter, Tikhonov
from mercer.solvers.optimality import ridge_residual
from mercer.solvers.problem import Problem, over_rows
from mercer.solvers.ridge_system import RidgeSystem
from mercer.solvers.solution import Solution, Status

SQUARED_ROWS = 512  # eigenvectors that are squared at a time


@dataclass(frozen=True, eq=False)
class SpectralPath:
    """The eigendecomposition of a weighted Gram matrix, ready for every filter.

    Made by `SpectralPath.of(gram, targets)`. A number λ in place of a filter means ridge
    regression, and λ = 0 its limit, the least-squares fit of least norm.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> X, y = np.linspace(0, 1, 6)[:, None], np.arange(6.0)
    >>> path = SpectralPath.of(Gaussian(0.1).gram(X), y)
    >>> bool(0 < path.degrees_of_freedom(1e-3) < 6)
    True
    >>> bool(np.allclose(path.fitted(0.0), y))
    True
    """

    gram: Gram
    targets: Array
    roots: Array
    eigenvalues: Array
    eigenvectors: Array
    fit_intercept: bool
    witness: np.ndarray | None = None
    border: Border | None = None

    @classmethod
    def of(
        cls,
        gram: Gram,
        targets: Any,
        weights: Any = None,
        *,
        fit_intercept: bool = False,
        allow_indefinite: bool = False,
        matrix: Array | None = None,
    ) -> SpectralPath:
        """Decompose once: n³ operations, n² memory; `matrix` is K where it is stored already.

        A kernel that is not positive definite is refused, unless `allow_indefinite`: then λ gives
        the solution of (SKS + ρI)c = Sy all the same, and `witness` is v with vᵀKv < 0.
        """
        problem = Problem(gram, targets, Squared(), 0.0, weights, fit_intercept)
        y, fit_intercept = problem.y, problem.fit_intercept
        roots = namespace(y).sqrt(problem.sample_weights)
        if matrix is None:
            matrix = problem.array(gram.dense())
        if weights is not None:
            matrix = roots[:, None] * matrix * roots
        border, witness = None, None
        if problem.null_space is not None:
            border = Border(RidgeSystem(cls, problem), matrix)
            values, vectors = border.off_null_space(matrix)
        else:
            values, vectors = linalg.eigen(matrix)
        if not linalg.is_negative(values, matrix, precision(gram.dtype)):
            values = namespace(y).clip(values, min=0.0)
        else:
            witness = as_numpy(roots * vectors[:, 0])
            witness = witness / np.linalg.norm(witness)
            if not allow_indefinite:
                raise NotPositiveDefiniteError(
                    f"the Gram matrix has the eigenvalue {float(values[0]):.3g}: "
                    f"{sentence(gram, witness)} of this error. Choose a positive definite kernel.",
                    witness,
                )
        return cls(gram, y, roots, values, vectors, fit_intercept, witness, border)

    @property
    def total_weight(self) -> float:
        """Σw, n without weights."""
        return float(self._xp.sum(self.roots**2))

    def coefficients(self, filter_: Filter | float) -> tuple[Array, Any]:
        """α and the intercept of a fit; a number λ means ridge regression."""
        coordinates, intercept = self.coordinates(filter_)
        c = self.eigenvectors @ coordinates
        alpha = self.roots[:, None] * c
        if self.border is not None:
            intercept = self.border.intercept(self._sides[:, :-1], c)
        if self.targets.ndim == 2:
            return alpha, intercept
        return alpha[:, 0], float(intercept[0]) if self.border is None else intercept[:, 0]

    def ridge_fit(self, targets: Array, regularization: float) -> tuple[Array, Array, Array]:
        """α, b and the values f(x_i) + b for other targets, without a product with K.

        Values on points without weight are only b.
        """
        path = replace(self, targets=targets)
        c, b = path.coordinates(regularization)
        sides = self.eigenvectors @ self._xp.concat([c, self.eigenvalues[:, None] * c], axis=1)
        roots, width, shape = self.roots[:, None], c.shape[1], targets.shape
        alpha = self._xp.reshape(roots * sides[:, :width], shape)
        values = sides[:, width:] / self._xp.where(roots > 0, roots, 1.0) + b
        return alpha, self._xp.reshape(b, shape[1:]), self._xp.reshape(values, shape)

    def fitted(self, filter_: Filter | float) -> Array:
        """f(x_i) for all training points; 0-weight points are predicted like new ones."""
        alpha, intercept = self.coefficients(filter_)
        if self.border is not None:
            intercept = self.border.columns @ intercept
        return self.gram @ alpha + intercept

    def solution(self, regularization: float) -> Solution:
        """The ridge fit for λ as a solver hands it back; its gap is the relative residual.

        >>> import numpy as np
        >>> from mercer.kernels import Gaussian
        >>> path = SpectralPath.of(Gaussian().gram([[0.0], [1.0]]), np.array([1.0, 3.0]))
        >>> path.solution(0.1).gap < 1e-14
        True
        """
        alpha, intercept = self.coefficients(regularization)
        problem = Problem(
            self.gram, self.targets, Squared(), regularization, self.roots**2, self.fit_intercept
        )
        rest = ridge_residual(problem, alpha, intercept)
        note = f"one eigendecomposition; relative residual {rest.claimed:.1e}."
        status = Status(True, f"Solved: {note}")
        if self.witness is not None:
            status = without_minimum(self.gram, self.witness, note)
        return Solution(
            coefficients=to_precision(alpha, precision(self.gram.dtype)),
            status=status,
            objective=rest.objective,
            gap=rest.claimed,
            intercept=intercept,
            asked=problem.asked,
        )

    def degrees_of_freedom(self, filter_: Filter | float) -> float:
        """The trace of the smoother y ↦ f(x), the intercept or null space included."""
        inverse = self._inverse_eigenvalues(filter_)
        shrunk = self.eigenvalues * inverse
        trace = float(self._xp.sum(shrunk))
        if self.border is not None:
            return trace + int(self.border.basis.shape[1])
        if self.fit_intercept:
            ones = self._rotated[:, -1]
            means = self._means(filter_, inverse)
            trace += float(1.0 - self._xp.sum(shrunk * means * ones) / self._xp.sum(ones * means))
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
        return self._left_out([regularization])[0]

    def leave_one_out_errors(self, regularizations: Sequence[float]) -> Array:
        """The weighted mean square of what leave-one-out misses, for each λ (and output)."""
        xp, n = self._xp, self.targets.shape[0]
        shares = (self.roots**2 / self.total_weight)[:, None]
        gaps = [predictions - self.targets for predictions in self._left_out(regularizations)]
        return xp.stack([xp.sum(shares * xp.reshape(gap, (n, -1)) ** 2, axis=0) for gap in gaps])

    def _left_out(self, regularizations: Sequence[float]) -> list[Array]:
        """Leave-one-out predictions for each λ, by one product with Q and one with Q²."""
        for regularization in regularizations:
            if not regularization > 0:
                raise ValueError(
                    f"leave-one-out needs a regularization > 0; got {regularization!r}. Write a "
                    "small one for the limit."
                )
        xp, units = self._xp, self._xp.clip(self.roots**2, min=1.0)
        counted = self.roots > 0  # what has no weight is left out anyway
        roots = xp.where(counted, self.roots, 1.0)[:, None]
        coordinates = [self.coordinates(regularization)[0] for regularization in regularizations]
        inverses = [self._inverse_eigenvalues(regularization) for regularization in regularizations]
        diagonals = self._inverse_diagonals(xp.stack(inverses, axis=1))
        c = self.eigenvectors @ xp.concat(coordinates, axis=1)
        width, left_out = coordinates[0].shape[1], []
        for i, regularization in enumerate(regularizations):
            ridge = regularization * self.total_weight
            residuals = ridge * c[:, i * width : (i + 1) * width] / roots
            shares = (1.0 - 1.0 / units) + ridge * diagonals[:, i] / units
            shares = xp.where(shares == 0, xp.nan, shares)  # nothing else is there to predict by
            misses = xp.reshape(residuals / shares[:, None], self.targets.shape)
            predictions = self.targets - misses
            if not bool(xp.all(counted)):
                mask = over_rows(counted, self.targets)
                predictions = xp.where(mask, predictions, self.fitted(regularization))
            left_out.append(predictions)
        return left_out

    def generalised_cross_validation(self, filter_: Filter | float) -> float:
        """(1/n) Σ r_i² / (1 − df/n)²: leave-one-out with all leverages made equal."""
        xp, weights = self._xp, self.roots**2
        residuals = xp.reshape(self.fitted(filter_) - self.targets, (weights.shape[0], -1))
        squares = xp.sum(weights * xp.sum(residuals**2, axis=1)) / self.total_weight
        count = xp.sum(xp.where(weights > 0, xp.clip(weights, min=1.0), 0.0))
        share = self.degrees_of_freedom(filter_) / count
        return float(squares / (1.0 - share) ** 2)

    def smoother_weights(self, x: Any, filter_: Filter | float) -> Array:
        """The weights with which f(x) adds up the targets: f(x) = Σ_i w_i(x) y_i."""
        if self.border is not None:
            raise ValueError("smoother weights of splines are not computed.")
        points = self.gram.kernel.points(x)
        values = beside(Gram(self.gram.kernel, points, self.gram.x).dense(), self.targets)
        inverse = self._inverse_eigenvalues(filter_)
        values = to_precision(values, "float64") * self.roots
        smoothed = ((values @ self.eigenvectors) * inverse) @ self.eigenvectors.T
        if self.fit_intercept:
            mean = self.eigenvectors @ self._means(filter_, inverse)
            rest = 1.0 - smoothed @ self.roots
            smoothed = smoothed + rest[:, None] * (mean / (self.roots @ mean))
        return smoothed * self.roots

    # ---- in the eigenvectors ---------------------------------------------------------------------

    @property
    def _xp(self) -> Any:
        return namespace(self.targets)

    @property
    def _sides(self) -> Array:
        """S(y, 1)."""
        xp = self._xp
        columns = xp.reshape(self.targets, (self.targets.shape[0], -1))
        ones = xp.ones_like(self.roots)[:, None]
        return self.roots[:, None] * xp.concat([columns, ones], axis=1)

    @cached_property
    def _rotated(self) -> Array:
        """QᵀS(y, 1): the targets and, in the last column, the constant."""
        return self.eigenvectors.T @ self._sides

    @cached_property
    def null(self) -> Array:
        """Which eigenvalues are 0 up to rounding."""
        xp, sizes = self._xp, self._xp.abs(self.eigenvalues)
        unit = float(xp.finfo(sizes.dtype).eps)
        return sizes <= sizes.shape[0] * unit * xp.max(sizes)

    def _inverse_eigenvalues(self, filter_: Filter | float) -> Array:
        """The values of a filter in place of (Λ + ρI)⁻¹: filters are given Λ/Σw, and λ = ρ/Σw."""
        if _is_zero(filter_):
            return _inverse_where(~self.null, self.eigenvalues)
        chosen = filter_ if hasattr(filter_, "values") else Tikhonov(float(filter_))
        if self.witness is None:
            return chosen.values(self.eigenvalues / self.total_weight) / self.total_weight
        if not isinstance(chosen, Tikhonov):
            raise NotPositiveDefiniteError(
                f"{type(chosen).__name__} is made for eigenvalues ≥ 0: "
                f"{sentence(self.gram, self.witness)} of this error. Pass a number λ instead.",
                self.witness,
            )
        shifted = self.eigenvalues + chosen.regularization * self.total_weight
        return _inverse_where(shifted != 0, shifted)

    def _means(self, filter_: Filter | float, inverse: Array) -> Array:
        """Qᵀ times the weights, up to scale, by which the intercept averages what f leaves."""
        xp, ones = self._xp, self._rotated[:, -1]
        if _is_zero(filter_):  # as λ → 0 the null space decides alone, if the constants reach it
            beyond = xp.where(self.null, ones, 0.0)
            if float(xp.sum(beyond**2)) > 1e-16 * self.total_weight:
                return beyond
        means = inverse * ones
        share = float(xp.sum(ones * means)) / self.total_weight
        if abs(share) <= 1e-12 * float(xp.max(xp.abs(inverse))):
            return ones  # the filter cuts constants off
        return means

    def coordinates(self, filter_: Filter | float) -> tuple[Array, Array]:
        """Qᵀc for c = (SKS + ρI)⁻¹S(y − b), and b, for every output."""
        inverse = self._inverse_eigenvalues(filter_)
        sides, ones = self._rotated[:, :-1], self._rotated[:, -1]
        if not self.fit_intercept:
            return inverse[:, None] * sides, 0.0 * sides[0, :]
        means = self._means(filter_, inverse)
        intercept = (means @ sides) / (means @ ones)
        return inverse[:, None] * (sides - ones[:, None] * intercept), intercept

    def _inverse_diagonals(self, inverses: Array) -> Array:
        """The diagonal of G for each column of inverses."""
        n = self.eigenvectors.shape[0]
        rows = (
            self.eigenvectors[i : min(i + SQUARED_ROWS, n), :] for i in range(0, n, SQUARED_ROWS)
        )
        diagonals = self._xp.concat([block**2 @ inverses for block in rows])
        if self.fit_intercept:
            means = self.eigenvectors @ (inverses * self._rotated[:, -1:])
            diagonals = diagonals - means**2 / (self.roots @ means)
        return diagonals


class Border:
    """The null space of a penalty: its functions B at the points, SB = QR, and SKSQ."""

    def __init__(self, system: RidgeSystem, matrix: Array) -> None:
        assert system.basis is not None
        self.columns = system.problem.array(system.problem.null_space)
        self.basis, self.triangle = system.basis, system.triangle
        self.image = matrix @ self.basis

    def off_null_space(self, matrix: Array) -> tuple[Array, Array]:
        """The eigenvalues and eigenvectors of ΠMΠ but for those of the null space.

        These are moved beyond all others, so that they come last.
        """
        Q, image = self.basis, self.image
        image = image - 0.5 * Q @ (Q.T @ image)
        inside = matrix - Q @ image.T - image @ Q.T
        far = 2.0 * float(namespace(Q).linalg.vector_norm(inside)) + 1.0
        values, vectors = linalg.eigen(inside + far * Q @ Q.T)
        kept = values.shape[0] - Q.shape[1]
        return values[:kept], vectors[:, :kept]

    def intercept(self, sides: Array, c: Array) -> Array:
        """b with Rb = Qᵀ(Sy − SKSc)."""
        left = self.basis.T @ sides - self.image.T @ c
        return linalg.triangular_solve(self.triangle, left, lower=False)


def _is_zero(filter_: Filter | float) -> bool:
    return not hasattr(filter_, "values") and float(filter_) == 0.0


def _inverse_where(chosen: Array, values: Array) -> Array:
    xp = namespace(values)
    return xp.where(chosen, 1.0 / xp.where(chosen, values, 1.0), 0.0)
