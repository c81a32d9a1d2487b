"""Triangular systems: by substitution, and by panels on a device."""

from __future__ import annotations

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.arrays import Array, identity, namespace
from mercer.linalg.matrices import diagonal, of_one_type, require_matrix
from mercer.linalg.panels import TUNING


def triangular_solve(
    matrix: Array,
    b: Array,
    *,
    lower: bool = True,
    transposed: bool = False,
    overwrite: bool = False,
) -> Array:
    """Solve T x = b, or Tᵀ x = b where `transposed`, for a triangular T and one or many columns b.

    Only the lower triangle of T is read, or the upper one where `lower` is False. With `overwrite`
    x may take the memory of b, as it does for columns of NumPy that lie one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> L, b = np.asarray([[2.0, 0.0], [1.0, 3.0]]), np.asarray([2.0, 7.0])
    >>> bool(np.allclose(L @ triangular_solve(L, b), b))
    True
    >>> bool(np.allclose(L.T @ triangular_solve(L, b, transposed=True), b))
    True
    """
    require_matrix(matrix, finite=False)
    matrix, b = of_one_type(matrix, b)
    xp = namespace(matrix)
    sizes = xp.abs(diagonal(matrix))
    if bool(xp.any(sizes == 0)):
        row = int(xp.argmin(sizes))
        raise ValueError(
            f"Expected a triangular matrix without zeros on its diagonal, got one in row {row}: "
            "write symmetric_solve(matrix, b) where the matrix is singular."
        )
    if xp is np:
        return scipy.linalg.solve_triangular(
            matrix, b, lower=lower, trans=int(transposed), overwrite_b=overwrite, check_finite=False
        )
    if not hasattr(xp.linalg, "solve_triangular"):  # the standard has none, torch has
        triangle = xp.tril(matrix) if lower else xp.triu(matrix)
        return xp.linalg.solve(triangle.T if transposed else triangle, b)
    triangle, upper = (matrix.T, lower) if transposed else (matrix, not lower)
    columns = b if b.ndim == 2 else b[:, None]
    return xp.reshape(xp.linalg.solve_triangular(triangle, columns, upper=upper), b.shape)


class Triangle:
    """A lower triangular tensor whose blocks on the diagonal are inverted beforehand.

    A solve for a few columns then reads the triangle once, where substitution waits for one row
    after the other. What the inverses lose is won back by one step of refinement, unless it is not
    `refined`.
    """

    def __init__(
        self, lower: Array, panel: int = TUNING.device_panel, *, refined: bool = True
    ) -> None:
        xp, self.lower, self.refined = namespace(lower), lower, refined
        self.spans = [(a, min(a + panel, len(lower))) for a in range(0, len(lower), panel)]
        self.inverses = [
            xp.linalg.solve_triangular(lower[a:b, a:b], identity(b - a, lower), upper=False)
            for a, b in self.spans
        ]

    def solve(self, b: Array) -> Array:
        """L⁻¹b, for columns b."""
        x = self._forward(b)
        return x + self._forward(b - self._product(x)) if self.refined else x

    def transposed_solve(self, b: Array) -> Array:
        """L⁻ᵀb."""
        x = self._backward(b)
        return x + self._backward(b - self._transposed_product(x)) if self.refined else x

    def _product(self, x: Array) -> Array:
        """Lx: whatever stands above the diagonal is not read."""
        lower, xp = self.lower, namespace(x)
        parts = [lower[a:b, :a] @ x[:a] + xp.tril(lower[a:b, a:b]) @ x[a:b] for a, b in self.spans]
        return xp.concat(parts)

    def _transposed_product(self, x: Array) -> Array:
        upper, xp = self.lower.T, namespace(x)
        parts = [upper[a:b, b:] @ x[b:] + xp.triu(upper[a:b, a:b]) @ x[a:b] for a, b in self.spans]
        return xp.concat(parts)

    def _forward(self, b: Array) -> Array:
        x = namespace(b).zeros_like(b)
        for (start, stop), inverse in zip(self.spans, self.inverses, strict=True):
            rest = b[start:stop] - self.lower[start:stop, :start] @ x[:start]
            x[start:stop] = inverse @ rest
        return x

    def _backward(self, b: Array) -> Array:
        x = namespace(b).zeros_like(b)
        for (start, stop), inverse in reversed(list(zip(self.spans, self.inverses, strict=True))):
            rest = b[start:stop] - self.lower[stop:, start:stop].T @ x[stop:]
            x[start:stop] = inverse.T @ rest
        return x
