"""The sparse features that a kernel on objects has, with the columns of a training set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse

from mercer.features.base import FeatureMap, Fill
from mercer.kernels.base import Kernel
from mercer.structured.sparse import explicit_rows, lookup


class SparseFeatureMap(FeatureMap):
    """A map whose `transform` gives a CSR matrix, most of which is 0."""

    def values(self, x: Any, weights: Any) -> Any:
        return self.transform(x) @ np.asarray(weights)

    def weighted_sum(self, X: Any, coefficients: Any) -> Any:
        return self.transform(X).T @ np.asarray(coefficients)

    def _filler(self, dtype: np.dtype) -> Fill:
        def fill(rows: Any, out: np.ndarray) -> None:
            out[:] = self.transform(rows).toarray()

        return fill


@dataclass(eq=False, repr=False)
class ExplicitFeatures(SparseFeatureMap):
    """φ with ⟨φ(x), φ(y)⟩ = k(x, y) exactly, as rows of a CSR matrix with a column for each word.

    For kernels on objects that have sparse features (spectra of strings, subtrees,
    Weisfeiler–Lehman labels, shortest paths, …), and for sums, multiples and normalised forms of
    them. The columns are the features that occur in training; a feature that was not seen there has
    weight 0 in any function that was learned, so it is left out later. A linear model on these rows
    takes time and memory linear in the number of objects, and predicts without them.

    Parameters
    ----------
    kernel : Kernel
        k.

    Attributes
    ----------
    keys_ : array of shape (features,)
        The hash of the feature in each column.
    kernel_ : Kernel

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.structured import Spectrum
    >>> words, new = ["kernel", "kern", "learn"], ["colonel"]
    >>> phi = ExplicitFeatures(Spectrum(2)).fit(words)
    >>> K = (phi.transform(new) @ phi.transform(words).T).toarray()
    >>> bool((K == Spectrum(2)(new, words)).all())
    True
    """

    kernel: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the features that occur in X. y is not used."""
        if not isinstance(self.kernel, Kernel):
            raise ValueError(
                "ExplicitFeatures needs a kernel with sparse features, as Spectrum(3); got "
                f"{self.kernel!r}."
            )
        return super().fit(X)

    def _draw(self, X: Any) -> None:
        kernel = self._resolved_kernel(X)
        self.keys_ = explicit_rows(kernel, kernel.points(X)).keys
        self.kernel_ = kernel

    def transform(self, X: Any) -> Any:
        """φ(x) for every object, as a CSR matrix."""
        points: Any = self.kernel_.points(self._admitted(X))
        rows = explicit_rows(self.kernel_, points)
        columns = lookup(rows.keys, self.keys_)
        seen = columns >= 0
        chosen = scipy.sparse.csr_array(
            (np.ones(seen.sum()), (columns[seen], np.flatnonzero(seen))),
            (rows.matrix.shape[1], len(self.keys_)),
        )
        matrix = (rows.matrix[points.chosen] @ chosen).tocsr()
        matrix.sort_indices()
        return in_short_indices(matrix)

    @property
    def feature_count(self) -> int:
        return len(self.keys_)

    def expected_error(self, X: Any, Y: Any) -> np.ndarray:
        """Nothing: these are the features of the kernel itself."""
        return np.zeros(len(X))

    def _uniform_error(self, radius: float, probability: float) -> float:
        return 0.0


def in_short_indices(matrix: Any) -> Any:
    """A CSR matrix with indices of 32 bits where they will do: liblinear takes no others."""
    if max(matrix.nnz, *matrix.shape) < 2**31:
        matrix.indices, matrix.indptr = (
            part.astype(np.int32, copy=False) for part in (matrix.indices, matrix.indptr)
        )
    return matrix
