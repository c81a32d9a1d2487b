"""Leading eigenpairs of a symmetric matrix that is only multiplied by: block Lanczos, restarted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import check_count
from mercer.linalg.eigen import eigen, qr
from mercer.linalg.thin import thin_product
from mercer.runtime.threads import single_threaded_blas

Multiply = Callable[[np.ndarray], np.ndarray]


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
        Stop where ‖Av − λv‖ ≤ tolerance·max|λ| for all pairs.
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
    start = _generator(random_state).standard_normal((size, width))
    space = _Space(size, min(size, count + tuning.blocks * width), tuning)
    apply: Multiply = multiply if callable(multiply) else multiply.__matmul__
    with single_threaded_blas():  # its idle threads would hold up those that multiply by A
        block = qr(start)[0]
        for products in range(1, iterations + 1):
            block, rest = space.grown(block, apply(block))
            values, turns = space.pairs(by_size)
            scale = float(np.abs(values).max(initial=0.0)) or 1.0
            ended = products == iterations or not block.shape[1]
            expected = np.linalg.norm(rest @ turns[-rest.shape[1] :, :count], axis=0)
            near = len(values) >= count and bool((expected <= tolerance * scale).all())
            if near or ended:
                leading = space.chosen(values, turns, count, products)
                if ended or bool((leading.residuals <= tolerance * scale).all()):
                    break
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


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    return np.random.default_rng(random_state)
