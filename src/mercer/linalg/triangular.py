"""Triangular systems."""

from __future__ import annotations

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.arrays import Array, namespace
from mercer.requirements import of_one_type, require_nonzero_diagonal, require_rows, require_square


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
    require_square(matrix)
    matrix, b = of_one_type(matrix, b)
    require_rows(matrix, b)
    require_nonzero_diagonal(matrix)
    if namespace(matrix) is np:
        return _triangular_lapack(matrix, b, lower, transposed, overwrite)
    return _triangular_portable(matrix, b, lower, transposed)


def _triangular_lapack(
    matrix: Array, b: Array, lower: bool, transposed: bool, overwrite: bool
) -> Array:
    return scipy.linalg.solve_triangular(
        matrix, b, lower=lower, trans=int(transposed), overwrite_b=overwrite, check_finite=False
    )


def _triangular_portable(matrix: Array, b: Array, lower: bool, transposed: bool) -> Array:
    xp = namespace(matrix)
    if not hasattr(xp.linalg, "solve_triangular"):  # the standard has none, torch has
        triangle = xp.tril(matrix) if lower else xp.triu(matrix)
        return xp.linalg.solve(triangle.T if transposed else triangle, b)
    triangle, upper = (matrix.T, lower) if transposed else (matrix, not lower)
    columns = b if b.ndim == 2 else b[:, None]
    return xp.reshape(xp.linalg.solve_triangular(triangle, columns, upper=upper), b.shape)
