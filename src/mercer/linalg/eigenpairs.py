"""Leading eigenpairs of a symmetric matrix that is only multiplied by: block Lanczos, restarted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import check_count
from mercer.linalg.eigen import eigen, qr

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
    blocks: int = 12  # of the basis, beside the pairs that are wanted, before it is restarted
    negligible: float = 1e-14  # of the largest eigenvalue: a direction that small is rounding


def leading_eigenpairs(
    multiply: Any,
    size: int,
    count: int,
    *,
    tolerance: float = 1e-10,
    iterations: int = 300,
    by_size: bool = False,
    extra: int = 0,
    start: np.ndarray | None = None,
    random_state: Any = 0,
    tuning: Tuning = Tuning(),  # noqa: B008
) -> Eigenpairs:
    """The `count` largest eigenvalues of a symmetric A and their eigenvectors, by products alone.

    Every step multiplies A by the residuals of the current pairs and takes the best pairs in the
    span of all blocks so far (Rayleigh–Ritz), which is block Lanczos with full orthogonalisation;
    a basis that has grown large is replaced by its leading pairs.

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
    start : array of shape (size, columns), optional
        The first block, vectors near the wanted ones where such are known.
    random_state : int, Generator or RandomState
        Draws the first block where nothing is given.

    References
    ----------
    Wu and Simon, Thick-restart Lanczos method for large symmetric eigenvalue problems, 2000;
    Musco and Musco, Randomized block Krylov methods, 2015.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.diag(np.arange(50.0))
    >>> found = leading_eigenpairs(lambda V: A @ V, 50, 3)
    >>> np.round(found.values, 8).tolist()
    [49.0, 48.0, 47.0]
    """
    check_count("leading_eigenpairs", "count", count)
    count = min(count, size)
    width = min(size, max(tuning.fewest, count + extra))
    if start is None:
        start = _generator(random_state).standard_normal((size, width))
    apply: Multiply = multiply if callable(multiply) else multiply.__matmul__
    block = qr(start)[0]
    basis, images = block[:, :0], block[:, :0]
    products = 0
    while True:
        basis, images = np.hstack([basis, block]), np.hstack([images, apply(block)])
        products += 1
        values, turns = _ritz(basis, images, by_size)
        kept = turns[:, : count + extra]
        vectors, pushed = basis @ kept, images @ kept
        rest = pushed - vectors * values[: count + extra]
        sizes = np.linalg.norm(rest, axis=0)
        scale = float(np.abs(values).max(initial=0.0)) or 1.0
        done = bool((sizes[:count] <= tolerance * scale).all())
        if done or products >= iterations or basis.shape[1] >= size:
            break
        if basis.shape[1] + width > count + tuning.blocks * width:
            lead = turns[:, : min(2 * count + extra, turns.shape[1])]
            basis, images = basis @ lead, images @ lead
        block = _fresh(rest, basis, tuning.negligible * scale)
        if not block.shape[1]:
            break
    return Eigenpairs(values[:count], vectors[:, :count], sizes[:count], products)


def _ritz(basis: np.ndarray, images: np.ndarray, by_size: bool) -> tuple[np.ndarray, np.ndarray]:
    """The eigenpairs of A in the span of a basis, the wanted ones first."""
    small = basis.T @ images
    values, turns = eigen(0.5 * (small + small.T))
    order = np.argsort(-np.abs(values) if by_size else -values, kind="stable")
    return values[order], turns[:, order]


def _fresh(rest: np.ndarray, basis: np.ndarray, negligible: float) -> np.ndarray:
    """An orthonormal basis of what residuals add to a basis, without what is rounding."""
    for _ in range(2):  # a second time takes out what rounding left of the first
        rest = rest - basis @ (basis.T @ rest)
    values, turns = eigen(rest.T @ rest)
    large = values > max(negligible**2, float(values[-1]) * 1e-20)
    block = (rest @ turns[:, large]) / np.sqrt(values[large])
    for _ in range(2):
        block = qr(block - basis @ (basis.T @ block))[0]
    return block[:, : basis.shape[0] - basis.shape[1]]


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    return np.random.default_rng(random_state)
