"""Feature maps: vectors φ(x) with ⟨φ(x), φ(y)⟩ ≈ k(x, y), and how far off that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import namespace
from mercer.checks import check_between, check_nonnegative
from mercer.features.bases import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from mercer.features.inputs import KernelInput, dense, from_tensor, is_foreign, length, placed_like
from mercer.features.normal import NormalEquations, accumulate
from mercer.functions import FeatureFunction
from mercer.kernels.base import Kernel
from mercer.operators import FeatureMatrix
from mercer.runtime.threads import Span, run, single_threaded_blas, spans, thread_count

Fill = Callable[[Any, np.ndarray], Any]
"""(rows, out): write the features of rows into out. Threads share it."""


@dataclass(frozen=True)
class Tuning:
    """Sizes of blocks; results depend on them by rounding only, never on the number of threads."""

    block_bytes: int = 8 << 20  # of the features of a block of rows: they stay near the cache
    fewest_rows: int = 64  # of a block: enough for a matrix product
    most_rows: int = 512  # few enough for all threads to have work
    foreign_rows: int = 1 << 14  # where another library computes, with threads of its own
    stripes: int = 16  # partial sums over rows; a fixed number fixes the bits of a sum


class FeatureMap(KernelInput, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A transformer whose rows have inner products near those of a kernel.

    A map implements `_draw(X)`, which sets `kernel_` and what its features are made of,
    `feature_count`, and `_filler(dtype)`, which gives a function that writes the features of some
    rows; `expected_error` and `_uniform_error` say how good they are.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel that is approximated.

    Examples
    --------
    >>> from mercer.features import RandomFourierFeatures
    >>> from mercer.kernels import Gaussian
    >>> phi = RandomFourierFeatures(Gaussian(), n_components=2000, random_state=0).fit(np.eye(2))
    >>> features = phi.transform(np.eye(2))
    >>> bool(np.abs(features @ features.T - Gaussian()(np.eye(2))).max() < 0.1)
    True
    """

    _instead_of_tensors = ""
    _takes_clusters = True

    kernel_: Kernel
    n_features_in_: int
    unbiased = True  # whether the mean of ⟨φ(x), φ(y)⟩ over draws is k(x, y)
    tuning = Tuning()

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the features for points like X. y is not used."""
        X = self._checked(from_tensor(X), reset=True)
        self.__dict__.pop("kernel_", None)  # with it a map counts as fitted, and it is set last
        self._draw(X)
        return self

    def transform(self, X: Any) -> Any:
        """φ(x) for every row of X, in its precision and in its array library."""
        X = self._admitted(X)
        if is_foreign(X):
            return self._formula(X)
        out = np.empty((length(X), self.feature_count), self.dtype(X))
        fill = self._filler(_precision(X))

        def write(span: Span) -> None:
            fill(X[slice(*span)], out[slice(*span)])

        self._run(X, write, self._spans(X))
        return out

    def values(self, x: Any, weights: Any) -> Any:
        """⟨φ(x), w⟩ for every point and every column of weights; the features are not stored.

        Where features or weights are complex, this is the real part.
        """
        X = self._admitted(x)
        weights, block, pieces = placed_like(weights, X), self._block_of(X), self._spans(X)
        parts: list[Any] = [weights[:0]] * len(pieces)

        def multiply(i: int) -> None:
            parts[i] = _product(block(pieces[i]), weights).real

        self._run(X, multiply, range(len(pieces)))
        return namespace(weights).concat(parts or [weights[:0]])

    def weighted_sum(self, X: Any, coefficients: Any) -> Any:
        """Σ_i α_i φ(x_i), with a column for each column of α; the features are not stored."""
        X = self._admitted(X)
        alpha, block, pieces = placed_like(coefficients, X), self._block_of(X), self._spans(X)
        columns, stripes = alpha.reshape((len(alpha), -1)), self.tuning.stripes
        xp, parts = namespace(alpha), dict[int, Any]()

        def add(stripe: int) -> None:
            for span in pieces[stripe::stripes]:
                part = _product(block(span).T, columns[slice(*span)])
                part = xp.astype(part, xp.result_type(part, xp.float64))
                parts[stripe] = parts[stripe] + part if stripe in parts else part

        self._run(X, add, range(min(stripes, len(pieces))))
        total = sum(parts[stripe] for stripe in sorted(parts))
        return total[:, 0] if alpha.ndim == 1 else total

    def normal_equations(self, X: Any, y: Any, sample_weight: Any = None) -> NormalEquations:
        """ΦᵀWΦ and ΦᵀWy for the features Φ of X, summed chunk by chunk; Φ is never stored."""
        X = self._admitted(from_tensor(X))
        return accumulate(self, X, from_tensor(y), from_tensor(sample_weight))

    def matrix(self, X: Any) -> FeatureMatrix:
        """Z with the rows φ(x_i), as an operator for solvers: Z w, Zᵀu and row passes by blocks."""
        return FeatureMatrix(self, self._admitted(X))

    def function(self, weights: Any) -> FeatureFunction:
        """The function f(x) = ⟨φ(x), w⟩."""
        check_is_fitted(self)
        return FeatureFunction(self, weights)

    def same_features(self, other: Any) -> bool:
        """Whether another map has the same features: it is this one, or a copy of it."""
        if self is other:
            return True
        mine, its = (
            {key: value for key, value in vars(phi).items() if key.endswith("_")}
            for phi in (self, other)
        )
        same = type(self) is type(other) and mine.keys() == its.keys()
        return same and all(_equal(mine[key], its[key]) for key in mine)

    # ---- errors ------------------------------------------------------------------------------

    def expected_error(self, X: Any, Y: Any) -> np.ndarray:
        """The root mean square of ⟨φ(x_i), φ(y_i)⟩ − k(x_i, y_i) over draws, for pairs of rows.

        The docstring of a map says where this is exact, and where it is an upper bound.
        """
        raise NotImplementedError

    def uniform_error(self, radius: float, probability: float = 0.9) -> float:
        """A bound on |⟨φ(x), φ(y)⟩ − k(x, y)| for all x, y in the ball ‖x‖ ≤ radius.

        It does so with at least the given probability over draws. Such bounds rest on worst cases,
        so they are crude, and infinite where none is known.
        """
        check_is_fitted(self)
        check_nonnegative(self, "radius", radius)
        check_between(self, "probability", probability, 0.0, 1.0)
        return self._uniform_error(float(radius), float(probability))

    # ---- what a map owes ---------------------------------------------------------------------

    @property
    def feature_count(self) -> int:
        """The number of features, φ(x) ∈ ℝ^S."""
        raise NotImplementedError

    def dtype(self, X: Any) -> np.dtype:
        """The type of the features of X."""
        return _precision(X)

    def _draw(self, X: Any) -> None:
        raise NotImplementedError

    def _filler(self, dtype: np.dtype) -> Fill:
        """A function that writes the features of rows of that precision."""
        raise NotImplementedError

    def _formula(self, X: Any) -> Any:
        """φ(x) for an array of another library, by way of NumPy unless a map has a formula."""
        return placed_like(self.transform(from_tensor(X)), X)

    def _uniform_error(self, radius: float, probability: float) -> float:
        raise NotImplementedError

    @property
    def _parallel(self) -> bool:
        return True

    # ---- what is derived ---------------------------------------------------------------------

    def _admitted(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._checked(X, reset=False)

    def _block_of(self, X: Any) -> Callable[[Span], Any]:
        """A function that computes the features of the rows from start to stop."""
        if is_foreign(X):
            return lambda span: self._formula(X[slice(*span)])
        fill, dtype = self._filler(_precision(X)), self.dtype(X)

        def block(span: Span) -> np.ndarray:
            out = np.empty((span[1] - span[0], self.feature_count), dtype)
            fill(X[slice(*span)], out)
            return out

        return block

    def _spans(self, X: Any) -> list[Span]:
        """Blocks of rows, which depend on sizes alone."""
        if is_foreign(X):
            return spans(len(X), self.tuning.foreign_rows)
        rows = self.tuning.block_bytes // (self.feature_count * self.dtype(X).itemsize)
        return spans(length(X), min(max(rows, self.tuning.fewest_rows), self.tuning.most_rows))

    def _run(self, X: Any, work: Callable[[Any], None], items: Any) -> None:
        if is_foreign(X):  # which has threads of its own
            run(work, items, 1)
            return
        with single_threaded_blas():
            run(work, items, self._threads())

    def _threads(self) -> int:
        return thread_count() if self._parallel else 1

    @property
    def _n_features_out(self) -> int:
        return self.feature_count

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "kernel_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def dense_pairs(X: Any, Y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two arrays of one shape, in float64: the pairs whose errors are asked for."""
    first, second = (dense(from_tensor(part)).astype(np.float64) for part in (X, Y))
    if first.shape != second.shape or first.ndim != 2:
        raise ValueError(
            f"pairs are rows of two arrays of one shape; got {first.shape} and {second.shape}."
        )
    return first, second


def _product(left: Any, right: Any) -> Any:
    """A matrix product in the wider type of both, in any array library."""
    xp = namespace(left)
    dtype = xp.result_type(left, right)
    return xp.astype(left, dtype, copy=False) @ xp.astype(right, dtype, copy=False)


def _precision(X: Any) -> np.dtype:
    return np.dtype(np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64)


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, np.ndarray):
        return np.array_equal(first, second)
    if scipy.sparse.issparse(first):
        return first.shape == second.shape and (first != second).nnz == 0
    return bool(first == second)
