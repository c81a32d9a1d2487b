"""Square roots K = ΦΦᵀ: with f = Φβ the penalty is ‖β‖², and K is needed no more.

min over β of (1/Σw) Σ w_i ℓ(y_i, (Φβ)_i) + (λ/2)‖β‖² has the same least value as the problem in α,
and α = Φ(ΦᵀΦ)⁻¹β takes a solution back: Kα = Φβ and αᵀKα = ‖β‖².

A root of rank m costs n·m numbers, so a kernel with few features, or a tolerance, makes large n
possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from mercer import linalg
from mercer.checks import check_nonnegative, check_positive
from mercer.errors import NotPositiveDefiniteError
from mercer.features.centres import Greedy
from mercer.operators import Gram

FIRST_COLUMNS = 256  # of a pivoted factor, doubled until they are enough


@dataclass(frozen=True, eq=False)
class Root:
    """Φ with ΦΦᵀ ≈ K, and what was left out: `missing` = trace(K − ΦΦᵀ)/trace(K).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> gram = Gaussian().gram(np.linspace(0.0, 5.0, 6)[:, None])
    >>> root = Eigen().of(gram)
    >>> alpha, beta = root.coefficients(np.ones(6)), np.ones(6)
    >>> bool(np.allclose(gram @ alpha, root.features @ beta))
    True
    """

    features: np.ndarray
    missing: float
    note: str = ""

    @property
    def rank(self) -> int:
        """The number of columns of Φ."""
        return self.features.shape[1]

    def multiply(self, values: np.ndarray) -> np.ndarray:
        """ΦΦᵀV: what the root holds of KV, in 2nm operations for each column."""
        return self.features @ (self.features.T @ values)

    def coefficients(self, weights: np.ndarray) -> np.ndarray:
        """α = Φ(ΦᵀΦ)⁻¹β, by the QR factors of Φ, which keep the digits that ΦᵀΦ would lose."""
        Q, R = linalg.qr(self.features)
        return Q @ linalg.triangular_solve(R, weights, lower=False, transposed=True)


class RootMethod(Protocol):
    """A way to take the square root of a Gram matrix."""

    def of(self, gram: Gram) -> Root:
        """Φ, in the precision of the Gram matrix."""


@dataclass(frozen=True)
class Cholesky:
    """Φ = L, the lower triangular factor of K + jitter·I with the smallest jitter that works.

    Parameters
    ----------
    jitter : float or None, default=None
        What is added to the diagonal; None finds the smallest amount.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Brownian
    >>> Cholesky().of(Brownian().gram([[1.0], [2.0]])).features.tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """

    jitter: float | None = None

    def of(self, gram: Gram) -> Root:
        factor = linalg.cholesky(gram.dense(), jitter=self.jitter, overwrite=True)
        trace = float(gram.diagonal().sum(dtype=np.float64)) or 1.0
        note = f"Cholesky root, jitter {factor.jitter:.1e}"
        return Root(factor.lower, -factor.jitter * gram.shape[0] / trace, note)


@dataclass(frozen=True)
class PivotedCholesky:
    """Columns of K, the largest remainder first, until trace(K − ΦΦᵀ) ≤ tolerance·trace(K).

    Needs only the chosen columns of K: n·m kernel values and 2nm² operations for rank m.

    Parameters
    ----------
    tolerance : float, default=1e-8
        What may be left out, as a share of the trace.
    rank : int or None, default=None
        The most columns that are taken.

    References
    ----------
    S. Fine, K. Scheinberg, Efficient SVM training using low-rank kernel representations, 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> root = PivotedCholesky().of(Linear().gram(np.arange(12.0).reshape(6, 2)))
    >>> root.rank
    2
    """

    tolerance: float = 1e-8
    rank: int | None = None

    def __post_init__(self) -> None:
        check_nonnegative(self, "tolerance", self.tolerance)
        if self.rank is not None:
            check_positive(self, "rank", self.rank)

    def of(self, gram: Gram) -> Root:
        n = gram.shape[0]
        most = n if self.rank is None else min(n, int(self.rank))
        diagonal = gram.diagonal().astype(np.float64)
        trace, count = float(diagonal.sum()), min(most, FIRST_COLUMNS)
        while True:
            factor: Any = np.empty((n, 0), gram.dtype)
            if trace > 0:  # fewer columns where they already give K
                factor = Greedy(count, pool=n).choose(cast(Any, gram.kernel), gram.x).factor
            squares = np.einsum("ij,ij->j", factor, factor, dtype=np.float64)
            rest = np.maximum(trace - np.concatenate([[0.0], np.cumsum(squares)]), 0.0)
            enough = np.flatnonzero(rest <= self.tolerance * trace)
            if len(enough) or count == most or factor.shape[1] < count:
                break
            count = min(2 * count, most)
        rank = int(enough[0]) if len(enough) else factor.shape[1]
        features = np.ascontiguousarray(factor[:, :rank], gram.dtype)
        least = float((diagonal - np.einsum("ij,ij->i", features, features)).min(initial=0.0))
        rounding = 10.0 * n * float(np.finfo(features.dtype).eps) * diagonal.max(initial=0.0)
        if least < -rounding or (diagonal < 0).any():
            raise NotPositiveDefiniteError(
                f"Expected a positive definite kernel; a pivoted Cholesky factorisation met a "
                f"remainder of {least:.3g} on the diagonal. Check the kernel with kernel.check(X)."
            )
        missing = float(rest[rank]) / (trace or 1.0)
        return Root(features, missing, f"pivoted Cholesky root of rank {rank}")


@dataclass(frozen=True)
class Eigen:
    """Φ = V√Λ, the eigenvectors whose eigenvalues exceed tolerance·λ_max, scaled.

    Parameters
    ----------
    tolerance : float or None, default=None
        Eigenvalues up to tolerance·λ_max are left out; None leaves out what rounding made.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> root = Eigen().of(Linear().gram([[1.0, 0.0], [1.0, 0.0], [0.0, 3.0]]))
    >>> (root.features.T @ root.features).diagonal().round(9).tolist()
    [2.0, 9.0]
    """

    tolerance: float | None = None

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            check_nonnegative(self, "tolerance", self.tolerance)

    def of(self, gram: Gram) -> Root:
        values, vectors = linalg.eigen(gram.dense())
        unit = 10.0 * len(values) * float(np.finfo(values.dtype).eps)
        top = float(np.abs(values).max(initial=0.0))
        if values[0] < -unit * top:
            raise NotPositiveDefiniteError(
                f"Expected a positive definite kernel; the Gram matrix has the eigenvalue "
                f"{float(values[0]):.3g}, and a square root needs none below 0.",
                vectors[:, 0],
            )
        large = values > (unit if self.tolerance is None else self.tolerance) * top
        features = vectors[:, large] * np.sqrt(values[large])
        missing = float(values[~large].sum()) / (float(values.sum()) or 1.0)
        return Root(features, missing, f"eigenvectors of rank {int(large.sum())}")


@dataclass(frozen=True)
class Features:
    """Φ with the explicit features of the kernel as rows, where there are finitely many.

    Examples
    --------
    >>> from mercer.kernels import Polynomial
    >>> Features().of(Polynomial(degree=2).gram([[1.0, 2.0], [0.0, 1.0]])).features.shape
    (2, 6)
    """

    def of(self, gram: Gram) -> Root:
        features = np.asarray(gram.kernel.features(gram.x))  # type: ignore[attr-defined]
        return Root(features, 0.0, f"{features.shape[1]} explicit features")
