"""Eigenvalues and eigenvectors, of a stored matrix or by products alone; QR, least-norm solves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import Array, namespace
from mercer.checks import check_count
from mercer.linalg.matrices import largest, of_one_type, require_matrix, rounding_unit, scale
from mercer.linalg.thin import thin_product
from mercer.runtime.threads import single_threaded_blas

Multiply = Callable[[np.ndarray], np.ndarray]


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
    used = xp.abs(values) > cutoff * largest(values)
    inverse = xp.where(used, 1.0 / xp.where(used, values, 1.0), 0.0)
    coordinates = xp.reshape(inverse, (-1,) + (1,) * (b.ndim - 1)) * (vectors.T @ b)
    return vectors @ coordinates, int(xp.count_nonzero(used))


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


# ---- by products alone ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """Eigenvalues in falling order, their eigenvectors as columns, and how good they are.

    Attributes
    ----------
    values, vectors : arrays
    residuals : array
        ‖Av − λv‖ of each pair; an eigenvalue of A lies within that distance of λ.
    products : int
        How often A was multiplied by a block of vectors.

    Examples
    --------
    >>> pairs = Eigenpairs(np.array([2.0, 1.0]), np.eye(2), np.zeros(2), products=1)
    >>> pairs.values
    array([2., 1.])
    """

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray
    products: int


@dataclass(frozen=True)
class Tuning:
    """Numbers of the iteration."""

    fewest: int = 8  # columns of a block: kernel values cost as much as these columns
    lanes: int = 8  # of which a block has a multiple: vectors of a processor are full
    blocks: int = 12  # of the basis, beside the pairs that are wanted, before it is restarted
    negligible: float = 1e-14  # of the largest eigenvalue: a direction that small is rounding
    condition: float = 1e-4  # least pivot of a block that Cholesky's method makes orthonormal
    overlap: float = 1e-13  # of a block with the basis, which would grow from step to step
    patience: float = 3.0  # cycles of blocks that do not halve the residual: it is rounding of AV


def leading_eigenpairs(
    multiply: Any,
    size: int,
    count: int,
    *,
    tolerance: float = 1e-10,
    iterations: int = 300,
    by_size: bool = False,
    extra: int = 0,
    random_state: Any = 0,
    tuning: Tuning = Tuning(),
) -> Eigenpairs:
    """The `count` largest eigenvalues of a symmetric A and their eigenvectors, by products alone.

    Block Lanczos with full orthogonalisation: every step multiplies A by the part of the last image
    that is new, and takes the best pairs in the span of all blocks so far (Rayleigh–Ritz). A basis
    that has grown large is replaced by its leading pairs.

    Parameters
    ----------
    multiply : function or operator
        V ↦ AV for blocks of columns in float64.
    size, count : int
        The order of A, and how many pairs.
    tolerance : float
        Stop where ‖Av − λv‖ ≤ tolerance·max|λ| for all pairs, or where residuals fall no more, as
        rounding in products with A keeps them up.
    iterations : int
        Products with A at most; with few of them this is a randomised method.
    by_size : bool
        Whether the largest |λ| are sought rather than the largest λ.
    extra : int
        Columns of a block beside the wanted pairs, which helps where eigenvalues are close.
    random_state : int, Generator or RandomState
        Draws the first block.

    References
    ----------
    Wu and Simon, Thick-restart Lanczos method for large symmetric eigenvalue problems, 2000;
    Musco and Musco, Randomized block Krylov methods, 2015.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.diag(np.arange(50.0))
    >>> pairs = leading_eigenpairs(lambda V: A @ V, 50, 3)
    >>> np.round(pairs.values, 8).tolist()
    [49.0, 48.0, 47.0]
    """
    check_count("leading_eigenpairs", "count", count)
    count = min(count, size)
    width = max(tuning.fewest, count + extra)
    width = min(size, -(-width // tuning.lanes) * tuning.lanes)
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    start = np.random.default_rng(random_state).standard_normal((size, width))
    space = _Space(size, min(size, count + tuning.blocks * width), tuning)
    apply: Multiply = multiply if callable(multiply) else multiply.__matmul__
    least, idle = np.inf, 0.0  # residual so far, and cycles since it fell by half
    with single_threaded_blas():  # its idle threads would hold up those that multiply by A
        block = qr(start)[0]
        for products in range(1, iterations + 1):
            block, rest = space.grown(block, apply(block))
            values, turns = space.pairs(by_size)
            scale = float(np.abs(values).max(initial=0.0)) or 1.0
            ended = products == iterations or not block.shape[1] or idle >= tuning.patience
            expected = np.linalg.norm(rest @ turns[-rest.shape[1] :, :count], axis=0)
            worst = float(expected.max(initial=0.0)) if len(values) >= count else np.inf
            near = worst <= tolerance * scale
            if near or ended:
                leading = space.chosen(values, turns, count, products)
                worst = float(leading.residuals.max(initial=0.0))
                if ended or worst <= tolerance * scale:
                    break
            if worst <= 0.5 * least:
                least, idle = worst, 0.0
            else:  # where the recurrence says done, a cycle more would not change it
                idle += 1.0 if near else 1.0 / tuning.blocks
            if space.columns + block.shape[1] > space.capacity:
                space.restart(values, turns, 2 * count + extra)
    return leading


class _Space:
    """An orthonormal basis Q, the images AQ and QᵀAQ.

    What A adds to Q is in the span of the block that comes next: AQ = Q(QᵀAQ) + (next block)·R.
    """

    def __init__(self, size: int, capacity: int, tuning: Tuning) -> None:
        self.size, self.capacity, self.tuning, self.columns = size, capacity, tuning, 0
        self._basis = np.empty((size, capacity), order="F")
        self._images = np.empty((size, capacity), order="F")
        self._small = np.zeros((capacity, capacity))

    @property
    def basis(self) -> np.ndarray:
        return self._basis[:, : self.columns]

    @property
    def small(self) -> np.ndarray:
        return self._small[: self.columns, : self.columns]

    def grown(self, block: np.ndarray, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Take a block in; returns the next one, and R of the columns of this one."""
        new = slice(self.columns, self.columns + block.shape[1])
        self.columns = new.stop
        self._basis[:, new], self._images[:, new] = block, image
        shares = thin_product(self.basis.T, image)
        self.small[:, new], self.small[new] = shares, shares.T
        self.small[new, new] = 0.5 * (shares[new] + shares[new].T)
        rest = image - thin_product(self.basis, shares)
        following, parts = _orthonormal(rest, self.tuning.condition)
        overlap = thin_product(self.basis.T, following)
        if not np.abs(overlap).max(initial=0.0) <= self.tuning.overlap:
            # what rounding left of the basis in small directions has grown with them
            following -= thin_product(self.basis, overlap)
            following, turn = _orthonormal(following, self.tuning.condition)
            parts = turn @ parts
        sizes = np.linalg.norm(parts, axis=1)
        large = sizes > self.tuning.negligible * float(np.abs(self.small).max(initial=0.0))
        large[self.size - self.columns :] = False
        return following[:, large], parts[large]

    def pairs(self, by_size: bool) -> tuple[np.ndarray, np.ndarray]:
        """The eigenpairs of QᵀAQ, the wanted ones first."""
        values, turns = eigen(self.small)
        order = np.argsort(-np.abs(values) if by_size else -values, kind="stable")
        return values[order], turns[:, order]

    def chosen(
        self, values: np.ndarray, turns: np.ndarray, count: int, products: int
    ) -> Eigenpairs:
        """The first pairs, with their residuals as they are."""
        values, turns = values[:count], turns[:, :count]
        vectors = thin_product(self.basis, turns)
        images = thin_product(self._images[:, : self.columns], turns)
        residuals = np.linalg.norm(images - vectors * values, axis=0)
        return Eigenpairs(values, vectors, residuals, products)

    def restart(self, values: np.ndarray, turns: np.ndarray, count: int) -> None:
        """Keep the first pairs alone."""
        turns = turns[:, :count]
        basis, images = self.basis @ turns, self._images[:, : self.columns] @ turns
        self.columns = turns.shape[1]
        self._basis[:, : self.columns], self._images[:, : self.columns] = basis, images
        self.small[...] = np.diag(values[: self.columns])


def _orthonormal(block: np.ndarray, condition: float) -> tuple[np.ndarray, np.ndarray]:
    """Q with orthonormal columns and R such that Q R is the block.

    Cholesky's method loses the square of the condition number, and Householder's takes longer.
    """
    try:
        lower = np.linalg.cholesky(thin_product(block.T, block))
    except np.linalg.LinAlgError:
        return qr(block)
    pivots = lower.diagonal()
    if not pivots.min() > condition * pivots.max():
        return qr(block)
    return thin_product(block, np.linalg.inv(lower).T), lower.T
