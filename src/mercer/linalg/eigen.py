"""Eigenvalues and eigenvectors, QR, and solves of least norm."""

from __future__ import annotations

from mercer.arrays import Array, namespace
from mercer.linalg.matrices import (
    largest,
    of_one_type,
    require_matrix,
    rounding_unit,
    scale,
)


def eigen(matrix: Array) -> tuple[Array, Array]:
    """The eigenvalues of a symmetric A, ascending, and its orthonormal eigenvectors.

    A = V diag(values) Vᵀ, with the eigenvectors in the columns of V.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.asarray([[2.0, 1.0], [1.0, 2.0]])
    >>> values, V = eigen(A)
    >>> bool(np.allclose(values, [1.0, 3.0])), bool(np.allclose(V * values @ V.T, A))
    (True, True)
    """
    require_matrix(matrix)
    values, vectors = namespace(matrix).linalg.eigh(matrix)
    return values, vectors


def qr(matrix: Array) -> tuple[Array, Array]:
    """The Q with orthonormal columns and the upper triangular R such that Q R = A.

    For an m × n matrix Q is m × min(m, n).

    Examples
    --------
    >>> import numpy as np
    >>> A = np.asarray([[1.0, 2.0], [0.0, 1.0], [1.0, 0.0]])
    >>> Q, R = qr(A)
    >>> bool(np.allclose(Q @ R, A)), bool(np.allclose(Q.T @ Q, np.eye(2)))
    (True, True)
    """
    require_matrix(matrix, square=False)
    Q, R = namespace(matrix).linalg.qr(matrix, mode="reduced")
    return Q, R


def symmetric_solve(matrix: Array, b: Array, *, cutoff: float | None = None) -> tuple[Array, int]:
    """The x of least norm among the minimisers of ‖A x − b‖, and the rank of A.

    With A = V diag(λ) Vᵀ, x = Σ v_i (v_iᵀb)/λ_i over the |λ_i| > cutoff·max|λ|; the rank is their
    number. `cutoff` is n·ε by default, the relative size of the rounding errors in λ. This is the
    solve for Gram matrices of repeated or dependent points, where `cholesky` would need a jitter.

    Examples
    --------
    >>> import numpy as np
    >>> A, b = np.ones((2, 2)), np.asarray([3.0, 3.0])
    >>> x, rank = symmetric_solve(A, b)
    >>> bool(np.allclose(A @ x, b)), bool(np.allclose(x, 1.5)), rank
    (True, True, 1)
    """
    matrix, b = of_one_type(matrix, b)
    values, vectors = eigen(matrix)
    xp = namespace(matrix)
    if cutoff is None:
        cutoff = matrix.shape[0] * rounding_unit(matrix)
    kept = xp.abs(values) > cutoff * largest(values)
    inverse = xp.where(kept, 1.0 / xp.where(kept, values, 1.0), 0.0)
    coordinates = xp.reshape(inverse, (-1,) + (1,) * (b.ndim - 1)) * (vectors.T @ b)
    return vectors @ coordinates, int(xp.count_nonzero(kept))


def is_negative(values: Array, matrix: Array, dtype: str = "") -> bool:
    """Whether the least of the eigenvalues of A, ascending, is negative beyond rounding.

    The limit is the largest jitter that `cholesky` tries, with the rounding unit of `dtype` where
    entries were computed in less precision than they are stored.

    >>> import numpy as np
    >>> is_negative(np.array([-1.0, 1.0]), np.diag([-1.0, 1.0]))
    True
    """
    xp = namespace(matrix)
    unit = float(xp.finfo(getattr(xp, dtype)).eps) if dtype else rounding_unit(matrix)
    allowed = max(unit**0.5, 10.0 * matrix.shape[0] * unit, 1e-6)
    return float(values[0]) < -allowed * scale(matrix)
