"""Cholesky factors, with the smallest jitter that works, and triangular systems."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count, takewhile

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.arrays import Array, identity, is_tensor, namespace
from mercer.errors import NotPositiveDefiniteError
from mercer.linalg.matrices import (
    diagonal,
    of_one_type,
    require_matrix,
    rounding_unit,
    scale,
    shifted,
)
from mercer.linalg.panels import TUNING, Tuning, factor_lower_triangle
from mercer.runtime.threads import spans

TOGETHER = 512  # columns of an inverse that are treated at a time


@dataclass(frozen=True, eq=False)
class Factor:
    """The Cholesky factor of a positive definite matrix: L Lᵀ = A + jitter·I.

    `lower` is L, and `jitter` is what had to be added to the diagonal, 0 for most matrices. On a
    device solutions by panels are `refined`, unless a preconditioner can do without.

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
    tuning: Tuning = TUNING
    refined: bool = True

    def solve(self, b: Array) -> Array:
        """The solution (L Lᵀ)⁻¹ b."""
        if isinstance(self.lower, np.ndarray):
            lower = self.lower
            if b.dtype != lower.dtype or b.ndim not in (1, 2) or len(b) != len(lower):
                lower, b = of_one_type(lower, b)
            if b.size > len(lower):
                return scipy.linalg.cho_solve((lower, True), b, check_finite=False)
            # for one column LAPACK's potrs takes four times as long as two triangular solves
            half = scipy.linalg.solve_triangular(lower, b, lower=True, check_finite=False)
            return scipy.linalg.solve_triangular(
                lower, half, trans=1, lower=True, overwrite_b=True, check_finite=False
            )
        return self.other_half_solve(self.half_solve(b))

    def half_solve(self, b: Array, *, overwrite: bool = False) -> Array:
        """The half solution L⁻¹ b, whose squared norm is bᵀ(L Lᵀ)⁻¹b; it may take b's memory."""
        if self.by_panels(b):
            return self._panels.solve(b)
        return triangular_solve(self.lower, b, overwrite=overwrite)

    def other_half_solve(self, b: Array) -> Array:
        """L⁻ᵀ b."""
        if self.by_panels(b):
            return self._panels.solve(b, transposed=True)
        return triangular_solve(self.lower, b, transposed=True)

    def by_panels(self, b: Array) -> bool:
        """Whether b is solved for panel by panel: a few columns, L large and on a device."""
        lower, tuning = self.lower, self.tuning
        on_device = is_tensor(lower) and (lower.device.type != "cpu" or tuning.panels_on_host)
        large = on_device and len(lower) > tuning.device_panel // 2
        return large and b.ndim == 2 and b.shape[1] <= tuning.few_columns and b.dtype == lower.dtype

    @cached_property
    def _panels(self) -> Triangle:
        return Triangle(self.lower, self.tuning.device_panel, refined=self.refined)

    def inverse(self, *, overwrite: bool = False) -> Array:
        """(L Lᵀ)⁻¹, stored; with `overwrite` in the memory of L, which is then no longer valid.

        >>> import numpy as np
        >>> bool(
        ...     np.allclose(
        ...         cholesky(np.asarray([[4.0, 2.0], [2.0, 3.0]])).inverse()[0], [3 / 8, -0.25]
        ...     )
        ... )
        True
        """
        xp = namespace(self.lower)
        if xp is not np:
            return self.solve(identity(len(self.lower), self.lower))
        (potri,) = scipy.linalg.get_lapack_funcs(("potri",), (self.lower,))
        # a third of the work of solving for I
        inverse, _ = potri(self.lower, lower=1, overwrite_c=overwrite)
        for start in range(0, len(inverse), TOGETHER):
            part = slice(start, start + TOGETHER)
            inverse[:start, part] = inverse[part, :start].T
            block = inverse[part, part]
            block[...] = np.tril(block) + np.tril(block, -1).T
        return inverse

    def inverse_diagonal(self) -> Array:
        """The diagonal of (L Lᵀ)⁻¹: the squared lengths of the columns of L⁻¹, some at a time.

        As a column j of L⁻¹ begins with j zeros, they take a third of the work of solving for I.

        >>> import numpy as np
        >>> factor = cholesky(np.asarray([[4.0, 2.0], [2.0, 3.0]]))
        >>> bool(np.allclose(factor.inverse_diagonal(), [3 / 8, 1 / 2]))
        True
        """
        xp, parts = namespace(self.lower), []
        for start, stop in spans(len(self.lower), TOGETHER):
            rest = self.lower[start:, start:]
            sides = xp.eye(len(rest), stop - start, dtype=rest.dtype, device=rest.device)
            columns = triangular_solve(rest, sides, overwrite=True)
            parts.append(xp.vecdot(columns, columns, axis=0))
        return xp.concat(parts)

    def log_determinant(self) -> float:
        """The logarithm log det(L Lᵀ) = 2 Σ log L_ii, summed in float64."""
        xp = namespace(self.lower)
        return 2.0 * float(xp.sum(xp.log(diagonal(self.lower)), dtype=xp.float64))


def cholesky(
    matrix: Array, *, jitter: float | None = None, overwrite: bool = False, tuning: Tuning = TUNING
) -> Factor:
    """Factor a symmetric positive definite A as L Lᵀ, with the smallest jitter that works.

    The jitters tried are 0, then ε·m, 10ε·m, 100ε·m, …, where ε is the rounding unit of A, n its
    order and m the mean of its diagonal. Rounding moves the entries of a Gram matrix by at most
    ε‖A‖ ≤ ε·n·m in norm, so the search stops at 10·n·ε·m, or at √ε·m (half of the digits) where
    that is more, as entries may have been computed less accurately than they are stored. What is
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
    tuning
        Sizes at which large matrices are treated in pieces.

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
    require_matrix(matrix)
    if jitter is not None and not 0 <= jitter < float("inf"):
        raise ValueError(
            f"Expected a jitter that is finite and at least 0, got {jitter}: write jitter=None to "
            "let the smallest one be found."
        )
    work = matrix
    if namespace(matrix) is np and not (overwrite and matrix.flags.writeable):
        work = np.array(matrix, order="F")  # LAPACK writes to what it is given
    amount = 0.0 if jitter is None else float(jitter)
    lower, failing_order = _attempt(work, amount, tuning)
    if failing_order and jitter is None:
        for amount in _ladder(matrix):
            lower, failing_order = _attempt(work, amount, tuning)
            if not failing_order:
                break
    if failing_order:
        raise _refusal(matrix, amount, failing_order)
    return Factor(lower, amount, tuning)


def _ladder(matrix: Array) -> Iterator[float]:
    """ε·m·10^k while that is at most max(√ε, 10·n·ε)·m."""
    unit, size = rounding_unit(matrix), scale(matrix)
    limit = max(unit**-0.5, 10.0 * matrix.shape[0])
    for power in takewhile(lambda power: power <= limit, (10.0**k for k in count())):
        yield power * unit * size


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
    work = np.array(minor, order="F") if xp is np else minor
    lower, earlier_order = _attempt(work, jitter, TUNING)
    if earlier_order:  # rounding may differ from one order to the next
        return _witness(matrix, jitter, earlier_order)
    head = -Factor(lower, jitter).solve(matrix[:k, k])
    one = xp.ones_like(matrix[k, :1])
    v = xp.concat([head, one, xp.zeros_like(matrix[k, failing_order:])])
    return v / xp.linalg.vector_norm(v)


# ---- one attempt -------------------------------------------------------------------------------


def _attempt(matrix: Array, jitter: float, tuning: Tuning) -> tuple[Array, int]:
    """(L, 0), or (None, order of the first leading minor that has no factor).

    NumPy's arrays are factored in place: LAPACK writes the lower triangle only, so the upper one
    undoes a failure.
    """
    xp = namespace(matrix)
    if xp is np:
        columns = matrix if matrix.flags.f_contiguous else matrix.T
        entries = columns.diagonal().copy()
        np.fill_diagonal(columns, entries + jitter)
        failing_order = factor_lower_triangle(columns, tuning)
        if not failing_order:
            for j in range(1, columns.shape[0]):
                columns[:j, j] = 0.0
            return columns, 0
        for j in range(columns.shape[0] - 1):
            columns[j + 1 :, j] = columns[j, j + 1 :]
        np.fill_diagonal(columns, entries)
        return None, failing_order
    moved = shifted(matrix, jitter)
    if hasattr(xp.linalg, "cholesky_ex"):  # torch
        lower, failing_order = xp.linalg.cholesky_ex(moved)
        return lower, int(failing_order)
    lower = _lower_or_none(moved)
    return lower, 0 if lower is not None else _first_failing_order(moved)


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


# ---- triangular systems --------------------------------------------------------------------------


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
        self.spans = spans(len(lower), panel)
        self.inverses = [
            xp.linalg.solve_triangular(lower[a:b, a:b], identity(b - a, lower), upper=False)
            for a, b in self.spans
        ]

    def solve(self, b: Array, transposed: bool = False) -> Array:
        """L⁻¹b, or L⁻ᵀb, for columns b."""
        x = self._substituted(b, transposed)
        if not self.refined:
            return x
        return x + self._substituted(b - self._product(x, transposed), transposed)

    def _product(self, x: Array, transposed: bool) -> Array:
        """Lx, or Lᵀx: whatever stands above the diagonal is not read."""
        parts, xp = [], namespace(x)
        for a, b in self.spans:
            square = xp.tril(self.lower[a:b, a:b])
            if transposed:
                parts.append(self.lower[b:, a:b].T @ x[b:] + square.T @ x[a:b])
            else:
                parts.append(self.lower[a:b, :a] @ x[:a] + square @ x[a:b])
        return xp.concat(parts)

    def _substituted(self, right: Array, transposed: bool) -> Array:
        """Panel after panel, from the last to the first where transposed."""
        x, panels = (
            namespace(right).zeros_like(right),
            [*zip(self.spans, self.inverses, strict=True)],
        )
        for (a, b), inverse in reversed(panels) if transposed else panels:
            if transposed:
                x[a:b] = inverse.T @ (right[a:b] - self.lower[b:, a:b].T @ x[b:])
            else:
                x[a:b] = inverse @ (right[a:b] - self.lower[a:b, :a] @ x[:a])
        return x
