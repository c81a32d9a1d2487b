"""What a feature map owes: φ with ⟨φ(x), φ(y)⟩ ≈ k(x, y), and how far off that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer.arrays import beside, is_tensor, namespace, on_host
from mercer.features.inputs import NestedParameters, length
from mercer.features.normal import NormalEquations, accumulate
from mercer.functions import FeatureFunction
from mercer.kernels.base import Kernel
from mercer.points import as_vectors
from mercer.runtime.threads import Span, run, single_threaded_blas, spans, thread_count

BLOCK_BYTES = 8 << 20  # of the features of a block of rows
BLOCK_ROWS = 64, 512  # fewest and most
TENSOR_ROWS = 1 << 14  # whose features are computed together on a device
STRIPES = 16  # partial sums, whatever the number of threads
Fill = Callable[[Any, np.ndarray], None]  # (rows, out): write the features of rows into out


class FeatureMap(
    NestedParameters, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """A transformer whose rows have inner products near those of a kernel.

    A map implements `_draw(X)`, which sets `kernel_` and what its features are made of,
    `feature_count`, and `_filler(dtype)`, which gives a function that writes the features of some
    rows; `expected_error` and `uniform_error` say how good they are.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel that is approximated.
    """

    kernel_: Kernel
    unbiased = True  # whether the mean of ⟨φ(x), φ(y)⟩ over draws is k(x, y)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the features for points like X. y is not used."""
        self._draw(self._checked(on_host(X) if is_tensor(X) else X, reset=True))
        return self

    def transform(self, X: Any) -> np.ndarray:
        """φ(x) for every row of X, in its precision; a tensor on its device where X is one."""
        check_is_fitted(self)
        if is_tensor(X):
            return self._of_tensors(self._checked_tensor(X))
        X = self._checked(X, reset=False)
        out = np.empty((length(X), self.feature_count), self._dtype(X))
        fill = self._filler(_precision(X))
        self._over_blocks(X, lambda span: fill(X[slice(*span)], out[slice(*span)]))
        return out

    def values(self, x: Any, weights: np.ndarray) -> np.ndarray:
        """⟨φ(x), w⟩ for every point and every column of weights; the features are not stored.

        Where features or weights are complex, this is the real part.
        """
        check_is_fitted(self)
        if is_tensor(x):
            return self._values_of_tensors(x, weights)
        X = self._checked(x, reset=False)
        dtype = np.result_type(self._dtype(X), weights.dtype)
        weights = np.ascontiguousarray(weights, dtype)
        out = np.empty((length(X), weights.shape[1]), dtype.type(0).real.dtype)
        fill = self._filler(_precision(X))

        def multiply(span: Span) -> None:
            block = np.empty((span[1] - span[0], self.feature_count), self._dtype(X))
            fill(X[slice(*span)], block)
            out[slice(*span)] = (block @ weights).real

        self._over_blocks(X, multiply)
        return out

    def _values_of_tensors(self, x: Any, weights: Any) -> Any:
        """⟨φ(x), w⟩ on the device of x, some rows at a time."""
        xp, weights, parts = namespace(x), beside(weights, x), []
        for start in range(0, max(len(x), 1), TENSOR_ROWS):
            block: Any = self.transform(x[start : start + TENSOR_ROWS])
            dtype = xp.result_type(block, weights)
            parts.append((block.to(dtype) @ weights.to(dtype)).real)
        return xp.concat(parts)

    def weighted_sum(self, X: Any, coefficients: Any) -> np.ndarray:
        """Σ_i α_i φ(x_i), with a column for each column of α; the features are not stored."""
        check_is_fitted(self)
        X = self._checked(on_host(X) if is_tensor(X) else X, reset=False)
        alpha = on_host(coefficients)
        columns = alpha.reshape(len(alpha), -1)
        dtype = np.result_type(self._dtype(X), columns.dtype, np.float64)
        fill, blocks = self._filler(_precision(X)), self._spans(X)
        parts = np.zeros((min(STRIPES, len(blocks)), self.feature_count, columns.shape[1]), dtype)

        def add(stripe: int) -> None:
            for start, stop in blocks[stripe::STRIPES]:
                block = np.empty((stop - start, self.feature_count), self._dtype(X))
                fill(X[start:stop], block)
                parts[stripe] += block.T @ columns[start:stop]

        with single_threaded_blas():
            run(add, range(len(parts)), thread_count() if self._parallel else 1)
        total = parts.sum(axis=0)
        return total[:, 0] if alpha.ndim == 1 else total

    def normal_equations(self, X: Any, y: Any, sample_weight: Any = None) -> NormalEquations:
        """ΦᵀWΦ and ΦᵀWy for the features Φ of X, summed chunk by chunk; Φ is never stored."""
        check_is_fitted(self)
        X, y, sample_weight = (on_host(a) if is_tensor(a) else a for a in (X, y, sample_weight))
        return accumulate(self, self._checked(X, reset=False), y, sample_weight)

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

    def _filler(self, dtype: np.dtype) -> Fill:
        """A function that writes the features of rows of that precision; threads share it."""
        raise NotImplementedError

    def _dtype(self, X: Any) -> np.dtype:
        """The type of the features of X."""
        return _precision(X)

    @property
    def _parallel(self) -> bool:
        return True

    # ---- what is derived ---------------------------------------------------------------------

    def _over_blocks(self, X: Any, work: Any) -> None:
        """Call `work` on (start, stop) of every block of rows, in threads, BLAS held to one.

        Blocks depend on sizes alone, so results are the same for any number of threads.
        """
        with single_threaded_blas():
            run(work, self._spans(X), thread_count() if self._parallel else 1)

    def _spans(self, X: Any) -> list[Span]:
        fewest, most = BLOCK_ROWS
        rows = BLOCK_BYTES // (self.feature_count * self._dtype(X).itemsize)
        return spans(length(X), min(max(rows, fewest), most))

    def _checked(self, X: Any, *y: Any, reset: bool, **options: Any) -> Any:
        return validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32]
        )

    def _checked_tensor(self, X: Any) -> Any:
        rows = as_vectors(X).rows
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return rows

    def _of_tensors(self, X: Any) -> Any:
        """φ(x) of the rows of a tensor: on the host, unless a map has a form on the device."""
        return beside(self.transform(on_host(X)), X)

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


def _precision(X: Any) -> np.dtype:
    return np.dtype(np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64)


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, np.ndarray):
        return np.array_equal(first, second)
    if scipy.sparse.issparse(first):
        return first.shape == second.shape and (first != second).nnz == 0
    return bool(first == second)
