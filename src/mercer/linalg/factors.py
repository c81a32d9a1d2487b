"""Cholesky factors, with the smallest jitter that works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count, takewhile

from mercer.arrays import Array, is_tensor, namespace
from mercer.errors import NotPositiveDefiniteError
from mercer.linalg.attempts import attempt_of, workspace
from mercer.linalg.diagonals import scale
from mercer.linalg.triangular import triangular_solve
from mercer.requirements import (
    diagonal,
    require_finite,
    require_jitter,
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


def _is_on_a_device(matrix: Array) -> bool:
    return is_tensor(matrix) and matrix.device.type != "cpu"


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
    attempt = attempt_of(matrix)
    work = workspace(matrix, overwrite)
    for amount in _ladder(matrix) if jitter is None else [float(jitter)]:
        lower, failing_order = attempt(work, amount)
        if not failing_order:
            return Factor(lower, amount)
    raise _refusal(matrix, amount, failing_order)


def _ladder(matrix: Array) -> Iterator[float]:
    """0, then ε·m·10^k while that is at most max(√ε, 10·n·ε)·m."""
    yield 0.0
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
    lower, earlier_order = attempt_of(minor)(workspace(minor, overwrite=False), jitter)
    if earlier_order:  # rounding may differ from one order to the next
        return _witness(matrix, jitter, earlier_order)
    head = -Factor(lower, jitter).solve(matrix[:k, k])
    one = xp.ones_like(matrix[k, :1])
    v = xp.concat([head, one, xp.zeros_like(matrix[k, failing_order:])])
    return v / xp.linalg.vector_norm(v)
