"""Dense linear algebra under one name, for NumPy, torch and any array-API library.

NumPy arrays go through LAPACK in place, torch tensors through torch on their own device, other
arrays through the `linalg` extension of the array-API standard. float32 stays float32, and inputs
are left as they are unless ``overwrite=True`` says otherwise.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count, takewhile
from typing import TypeAlias

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.arrays import Array, is_tensor, namespace
from mercer.errors import NotPositiveDefiniteError
from mercer.panels import factor_lower_triangle
from mercer.requirements import (
    diagonal,
    largest,
    of_one_type,
    require_finite,
    require_jitter,
    require_matrix,
    require_nonzero_diagonal,
    require_rows,
    require_square,
    rounding_unit,
)
from mercer.triangles import PANEL as TRIANGLE
from mercer.triangles import Triangle

FEW_COLUMNS = 32  # up to which a large triangle on a device is solved panel by panel


@dataclass(frozen=True, eq=False)
class Factor:
    """The Cholesky factor of a positive definite matrix: L Lᵀ = A + jitter·I.

    `lower` is L, and `jitter` is what had to be added to the diagonal, 0 for most matrices.

    Examples
    --------
    >>> import numpy as np
    >>> A, b = np.asarray([[4.0, 2.0], [2.0, 3.0]]), np.asarray([1.0, 2.0])
    >>> factor = cholesky(A)
    >>> bool(np.allclose(A @ factor.solve(b), b))
    True
    >>> bool(np.isclose(factor.log_determinant(), np.log(8.0)))
    True
    """

    lower: Array
    jitter: float

    def solve(self, b: Array) -> Array:
        """The solution (L Lᵀ)⁻¹ b."""
        return self.other_half_solve(self.half_solve(b))

    def half_solve(self, b: Array) -> Array:
        """The half solution L⁻¹ b, whose squared norm is bᵀ(L Lᵀ)⁻¹b."""
        return self._panels.solve(b) if self._takes(b) else triangular_solve(self.lower, b)

    def other_half_solve(self, b: Array) -> Array:
        """L⁻ᵀ b."""
        if self._takes(b):
            return self._panels.transposed_solve(b)
        return triangular_solve(self.lower, b, transposed=True)

    def _takes(self, b: Array) -> bool:
        """Whether b is solved for panel by panel: a few columns, L large and on a device."""
        large = _is_on_a_device(self.lower) and len(self.lower) > 2 * TRIANGLE
        return large and b.ndim == 2 and b.shape[1] <= FEW_COLUMNS and b.dtype == self.lower.dtype

    @cached_property
    def _panels(self) -> Triangle:
        return Triangle(self.lower)

    def log_determinant(self) -> float:
        """The logarithm log det(L Lᵀ) = 2 Σ log L_ii, summed in float64."""
        xp = namespace(self.lower)
        return 2.0 * float(xp.sum(xp.log(diagonal(self.lower)), dtype=xp.float64))


def cholesky(matrix: Array, *, jitter: float | None = None, overwrite: bool = False) -> Factor:
    """Factor a symmetric positive definite A as L Lᵀ, with the smallest jitter that works.

    The jitters tried are 0, then ε·m, 10ε·m, 100ε·m, …, where ε is the rounding unit of A, n its
    order and m the mean of its diagonal. Rounding moves the entries of a Gram matrix by at most
    ε‖A‖ ≤ ε·n·m in norm, so the search stops at 10·n·ε·m, or at √ε·m (half of the digits) where
    that is more, to forgive entries that were computed less well than they are stored. What is
    still not positive definite then is not so by rounding, and is refused with a vector v such
    that vᵀAv < 0, in `NotPositiveDefiniteError.witness`.

    Parameters
    ----------
    matrix
        A, symmetric (one triangle is read).
    jitter
        Add exactly this much, and do not search: 0.0 takes A as it is or refuses it (a singular
        A too, whose witness has vᵀAv = 0 up to rounding).
    overwrite
        Let L take the memory of A. A refused A is put back as it was.

    References
    ----------
    N. J. Higham, *Accuracy and Stability of Numerical Algorithms*, SIAM 2002, chapter 10.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.ones((3, 3))  # singular: one point, three times
    >>> factor = cholesky(A)
    >>> bool(np.allclose(factor.lower @ factor.lower.T, A)), factor.jitter < 1e-15
    (True, True)
    """
    require_square(matrix)
    require_finite(matrix)
    require_jitter(jitter)
    attempt = _attempt_of(matrix)
    work = _workspace(matrix, overwrite)
    for amount in _ladder(matrix) if jitter is None else [float(jitter)]:
        lower, failing_order = attempt(work, amount)
        if not failing_order:
            return Factor(lower, amount)
    raise _refusal(matrix, amount, failing_order)


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
    require_square(matrix)
    require_finite(matrix)
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
    require_matrix(matrix)
    require_finite(matrix)
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
    require_rows(matrix, b)
    xp = namespace(matrix)
    if cutoff is None:
        cutoff = matrix.shape[0] * rounding_unit(matrix)
    kept = xp.abs(values) > cutoff * largest(values)
    inverse = xp.where(kept, 1.0 / xp.where(kept, values, 1.0), 0.0)
    coordinates = xp.reshape(inverse, (-1,) + (1,) * (b.ndim - 1)) * (vectors.T @ b)
    return vectors @ coordinates, int(xp.count_nonzero(kept))


def shift_diagonal(matrix: Array, amount: float) -> Array:
    """A + amount·I; arrays of NumPy and tensors are changed in place.

    >>> import numpy as np
    >>> shift_diagonal(np.zeros((2, 2)), 3.0).tolist()
    [[3.0, 0.0], [0.0, 3.0]]
    """
    if is_tensor(matrix):
        matrix.diagonal().add_(amount)
        return matrix
    if namespace(matrix) is not np:
        return _shifted(matrix, amount)
    with np.errstate(over="ignore"):  # what is too large is refused where it is factored
        np.fill_diagonal(matrix, matrix.diagonal() + matrix.dtype.type(amount))
    return matrix


def is_negative(values: Array, matrix: Array, dtype: str = "") -> bool:
    """Whether the least of the eigenvalues of A, ascending, is negative beyond rounding.

    What `cholesky` forgives is rounding, with the rounding unit of `dtype` where entries were
    computed in less precision than they are stored.
    """
    xp = namespace(matrix)
    unit = float(xp.finfo(getattr(xp, dtype)).eps) if dtype else rounding_unit(matrix)
    allowed = max(unit**0.5, 10.0 * matrix.shape[0] * unit, 1e-6)
    return float(values[0]) < -allowed * _scale(matrix)


def _is_on_a_device(matrix: Array) -> bool:
    return is_tensor(matrix) and matrix.device.type != "cpu"


# --- triangular solves ----------------------------------------------------------------------------


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


# --- one attempt at a Cholesky factor: (L, 0), or (None, order of the first minor that fails) -----

Attempt: TypeAlias = Callable[[Array, float], tuple[Array, int]]


def _attempt_of(matrix: Array) -> Attempt:
    xp = namespace(matrix)
    if xp is np:
        return _attempt_lapack
    return _attempt_torch if hasattr(xp.linalg, "cholesky_ex") else _attempt_generic


def _attempt_lapack(matrix: Array, jitter: float) -> tuple[Array, int]:
    """In place: LAPACK writes the lower triangle only, so the upper one undoes a failure."""
    columns = matrix if matrix.flags.f_contiguous else matrix.T
    diagonal = columns.diagonal().copy()
    np.fill_diagonal(columns, diagonal + jitter)
    failing_order = factor_lower_triangle(columns)
    if failing_order:
        _mirror_upper_triangle(columns)
        np.fill_diagonal(columns, diagonal)
        return None, failing_order
    _clear_upper_triangle(columns)
    return columns, 0


def _attempt_torch(matrix: Array, jitter: float) -> tuple[Array, int]:
    lower, failing_order = namespace(matrix).linalg.cholesky_ex(_shifted(matrix, jitter))
    return lower, int(failing_order)


def _attempt_generic(matrix: Array, jitter: float) -> tuple[Array, int]:
    shifted = _shifted(matrix, jitter)
    lower = _lower_or_none(shifted)
    return lower, 0 if lower is not None else _first_failing_order(shifted)


def _lower_or_none(matrix: Array) -> Array | None:
    """The factor L, or None: libraries tell a failure by LinAlgError or by NaN on the diagonal."""
    xp = namespace(matrix)
    try:
        lower = xp.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    return lower if bool(xp.all(diagonal(lower) > 0)) else None


def _first_failing_order(matrix: Array) -> int:
    """Bisect: once a leading minor is not positive definite, no larger one is."""
    orders = range(1, matrix.shape[0] + 1)
    return orders[
        bisect_left(orders[:-1], True, key=lambda k: _lower_or_none(matrix[:k, :k]) is None)
    ]


def _shifted(matrix: Array, jitter: float) -> Array:
    if not jitter:
        return matrix
    xp = namespace(matrix)
    return matrix + jitter * xp.eye(matrix.shape[0], dtype=matrix.dtype, device=matrix.device)


def _mirror_upper_triangle(columns: Array) -> None:
    for j in range(columns.shape[0] - 1):
        columns[j + 1 :, j] = columns[j, j + 1 :]


def _clear_upper_triangle(columns: Array) -> None:
    for j in range(1, columns.shape[0]):
        columns[:j, j] = 0.0


# --- how much jitter, and what to say when none is enough -----------------------------------------


def _ladder(matrix: Array) -> Iterator[float]:
    """0, then ε·m·10^k while that is at most max(√ε, 10·n·ε)·m."""
    yield 0.0
    unit, scale = rounding_unit(matrix), _scale(matrix)
    limit = max(unit**-0.5, 10.0 * matrix.shape[0])
    for power in takewhile(lambda power: power <= limit, (10.0**k for k in count())):
        yield power * unit * scale


def _scale(matrix: Array) -> float:
    """The mean of |A_ii|, or, on a diagonal of zeros, what else can tell the size of A."""
    xp = namespace(matrix)
    return float(xp.mean(xp.abs(diagonal(matrix)))) or largest(matrix) or 1.0


def _refusal(matrix: Array, jitter: float, failing_order: int) -> NotPositiveDefiniteError:
    witness = _witness(matrix, jitter, failing_order)
    value = float(witness @ matrix @ witness)
    return NotPositiveDefiniteError(
        f"Expected a positive definite matrix, got one of order {matrix.shape[0]} that has no "
        f"Cholesky factor with jitter {jitter:.3g}: vᵀAv = {value:.3g} for the unit vector v in "
        f"the attribute `witness`. Check that the kernel is positive definite; to go on without "
        f"that, write cholesky(matrix, jitter=...) with more than {max(-value, jitter):.3g}.",
        witness,
    )


def _witness(matrix: Array, jitter: float, failing_order: int) -> Array:
    """A unit v with vᵀAv ≤ −jitter, from the first leading minor that has no factor.

    Split that minor of B = A + jitter·I as [[C, c], [cᵀ, d]]: C is positive definite and
    d − cᵀC⁻¹c ≤ 0, which is vᵀBv for v = (−C⁻¹c, 1).
    """
    xp = namespace(matrix)
    k = failing_order - 1
    minor = matrix[:k, :k]
    lower, earlier_order = _attempt_of(minor)(_workspace(minor, overwrite=False), jitter)
    if earlier_order:  # rounding may differ from one order to the next
        return _witness(matrix, jitter, earlier_order)
    head = -Factor(lower, jitter).solve(matrix[:k, k])
    one = xp.ones_like(matrix[k, :1])
    v = xp.concat([head, one, xp.zeros_like(matrix[k, failing_order:])])
    return v / xp.linalg.vector_norm(v)


# --- what comes in --------------------------------------------------------------------------------


def _workspace(matrix: Array, overwrite: bool) -> Array:
    """What an attempt may write to (only LAPACK's do): a copy, unless A may go."""
    if namespace(matrix) is not np or (overwrite and matrix.flags.writeable):
        return matrix
    return np.array(matrix, order="F")
