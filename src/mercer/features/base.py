"""What a feature map owes: φ with ⟨φ(x), φ(y)⟩ ≈ k(x, y), and how far off that is."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer.evaluation.threads import run, single_threaded_blas, thread_count
from mercer.evaluation.tiling import Span, spans
from mercer.features.inputs import NestedParameters
from mercer.functions import FeatureFunction
from mercer.kernels.base import Kernel

BLOCK_BYTES = 1 << 20  # of the features of a block of rows


class FeatureMap(
    NestedParameters, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """A transformer whose rows have inner products near those of a kernel.

    A map implements `_draw(X)`, which sets `kernel_` and what its features are made of,
    `feature_count`, and `_fill(rows, out)`, the features of some rows; `expected_error` and
    `uniform_error` say how good they are.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel that is approximated.
    """

    kernel_: Kernel
    unbiased = True  # whether the mean of ⟨φ(x), φ(y)⟩ over draws is k(x, y)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the features for points like X. y is not used."""
        self._draw(self._checked(X, reset=True))
        return self

    def transform(self, X: Any) -> np.ndarray:
        """φ(x) for every row of X, in its precision."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        out = np.empty((_length(X), self.feature_count), self._dtype(X))
        self._over_blocks(X, lambda span: self._fill(X[slice(*span)], out[slice(*span)]))
        return out

    def values(self, x: Any, weights: np.ndarray) -> np.ndarray:
        """⟨φ(x), w⟩ for every point and every column of weights; the features are not stored.

        Where features or weights are complex, this is the real part.
        """
        check_is_fitted(self)
        X = self._checked(x, reset=False)
        dtype = np.result_type(self._dtype(X), weights.dtype)
        weights = np.ascontiguousarray(weights, dtype)
        out = np.empty((_length(X), weights.shape[1]), dtype.type(0).real.dtype)

        def fill(span: Span) -> None:
            block = np.empty((span[1] - span[0], self.feature_count), self._dtype(X))
            self._fill(X[slice(*span)], block)
            out[slice(*span)] = (block @ weights).real

        self._over_blocks(X, fill)
        return out

    def function(self, weights: Any) -> FeatureFunction:
        """The function f(x) = ⟨φ(x), w⟩."""
        check_is_fitted(self)
        return FeatureFunction(self, weights)

    def same_features(self, other: Any) -> bool:
        """Whether another map has the same features: it is this one, or a copy of it."""
        if self is other:
            return True
        mine, its = self._fitted(), other._fitted() if type(self) is type(other) else {}
        return mine.keys() == its.keys() and all(_equal(mine[key], its[key]) for key in mine)

    def expected_error(self, X: Any, Y: Any) -> np.ndarray:
        """The root mean square of ⟨φ(x_i), φ(y_i)⟩ − k(x_i, y_i) over draws, for pairs of rows.

        The docstring of a map says where this is exact, and where it is an upper bound.
        """
        raise NotImplementedError

    def uniform_error(self, radius: float, probability: float = 0.9) -> float:
        """What |⟨φ(x), φ(y)⟩ − k(x, y)| stays below for all x, y in the ball ‖x‖ ≤ radius.

        It does so with at least the given probability over draws. Such bounds rest on worst cases,
        so they are crude, and infinite where none is known.
        """
        raise NotImplementedError

    @property
    def feature_count(self) -> int:
        """The number of features, φ(x) ∈ ℝ^S."""
        raise NotImplementedError

    # ---- what a map owes ---------------------------------------------------------------------

    def _draw(self, X: Any) -> None:
        raise NotImplementedError

    def _fill(self, rows: Any, out: np.ndarray) -> None:
        raise NotImplementedError

    def _dtype(self, X: Any) -> np.dtype:
        """The type of the features of X."""
        return np.dtype(np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64)

    @property
    def _parallel(self) -> bool:
        return True

    # ---- what is derived ---------------------------------------------------------------------

    def _over_blocks(self, X: Any, work: Any) -> None:
        """Call `work` on (start, stop) of every block of rows, in threads, BLAS held to one.

        Blocks depend on sizes alone, so results are the same for any number of threads.
        """
        rows = max(64, BLOCK_BYTES // (self.feature_count * self._dtype(X).itemsize))
        with single_threaded_blas():
            run(work, spans(_length(X), rows), thread_count() if self._parallel else 1)

    def _checked(self, X: Any, *y: Any, reset: bool, **options: Any) -> Any:
        return validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32]
        )

    def _fitted(self) -> dict[str, Any]:
        """What a fit left behind."""
        return {key: value for key, value in vars(self).items() if key.endswith("_")}

    @property
    def _n_features_out(self) -> int:
        return self.feature_count

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "kernel_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _length(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, np.ndarray):
        return np.array_equal(first, second)
    if scipy.sparse.issparse(first):
        return first.shape == second.shape and (first != second).nnz == 0
    return bool(first == second)
