"""Sparse features of kernels on objects: exact ones, and minimal hashes of sets."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from mercer.checks import check_count
from mercer.features.base import FeatureMap, Fill
from mercer.kernels.base import Kernel
from mercer.kernels.measures import Seed, generator
from mercer.runtime.threads import Span, run, spans, thread_count
from mercer.structured.base import mixed
from mercer.structured.sets import Jaccard, SetPoints
from mercer.structured.sparse import explicit_rows, lookup

HASHED_ROWS = 1024  # sets that are hashed together


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


@dataclass(eq=False, repr=False)
class MinHash(SparseFeatureMap):
    """Sparse random features of the Jaccard kernel: m minimal hashes of each set.

    A random order of all symbols has the same first symbol in A and in B with probability
    |A ∩ B|/|A ∪ B|. Each of m orders gives a set one entry ±1/√m, in one of `buckets` columns of
    that order; bucket and sign are drawn from the first symbol, which makes ⟨φ(A), φ(B)⟩ unbiased.
    With `weighted` the weights of sets count, and the chance is Σ min/Σ max.

    Parameters
    ----------
    n_components : int, default=256
        m. There are m·buckets columns, m of them not 0 in a row.
    buckets : int, default=64
        Columns of an order. The variance is (J + (1 − J)/buckets − J²)/m, so more of them help
        little.
    weighted : bool, default=False
        Whether sets have weights; without it they must be 1.
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    seeds_ : array of shape (n_components,)
    kernel_ : Jaccard

    References
    ----------
    Broder, On the resemblance and containment of documents, 1997.
    Ioffe, Improved consistent sampling, weighted minhash and L1 sketching, 2010.
    Li, König, b-bit minwise hashing, 2010.

    Examples
    --------
    >>> sets = [{"a", "b", "c"}, {"b", "c", "d"}]
    >>> phi = MinHash(4096, random_state=0).fit_transform(sets)
    >>> bool(abs((phi[[0]] @ phi[[1]].T).toarray() - 0.5) < 0.05)
    True
    """

    n_components: int = 256
    _: KW_ONLY
    buckets: int = 64
    weighted: bool = False
    random_state: Seed = None

    kernel = Jaccard()  # the only one

    def _draw(self, X: Any) -> None:
        check_count(self, "n_components", self.n_components)
        check_count(self, "buckets", self.buckets)
        self._points(X)
        draws = generator(self.random_state).integers(0, 2**63, self.n_components)
        self.seeds_ = mixed(draws)
        self.kernel_ = Jaccard()

    def _points(self, X: Any) -> SetPoints:
        points: SetPoints = Jaccard().points(X)
        if not self.weighted and (points.weights != 1.0).any():
            raise ValueError("the sets have weights other than 1: write MinHash(weighted=True).")
        return points

    def transform(self, X: Any) -> Any:
        """φ(A) for every set, as a CSR matrix."""
        from mercer.structured.compiled.sparse import minimal_hashes

        points = self._points(self._admitted(X))
        flat = points.starts, points.codes.view(np.uint64), points.weights
        n, m = len(points), len(self.seeds_)
        hashes = np.empty((n, m), np.uint64)

        def hash_some(span: Span) -> None:
            rows = points.chosen[slice(*span)]
            minimal_hashes(*flat, rows, self.seeds_, bool(self.weighted), hashes[slice(*span)])

        run(hash_some, spans(n, HASHED_ROWS), thread_count())
        signs = 1.0 - 2.0 * (hashes >> np.uint64(63)).astype(np.float64)
        places = (hashes % np.uint64(self.buckets)).astype(np.int64)
        columns = places + self.buckets * np.arange(m)
        starts = m * np.arange(n + 1)
        values = signs / math.sqrt(m)
        shape = n, self.feature_count
        rows = scipy.sparse.csr_array((values.reshape(-1), columns.reshape(-1), starts), shape)
        return in_short_indices(rows)

    @property
    def feature_count(self) -> int:
        return len(self.seeds_) * self.buckets

    def expected_error(self, X: Any, Y: Any) -> np.ndarray:
        """The root mean square error for pairs of sets, exactly."""
        check_is_fitted(self)
        kernel = Jaccard()
        x, y = kernel.points(X), kernel.points(Y)
        pairs = ((x.slice(i, i + 1), y.slice(i, i + 1)) for i in range(len(x)))
        J = np.array([kernel.block(*pair)[0, 0] for pair in pairs])
        return np.sqrt((J + (1.0 - J) / self.buckets - J**2) / len(self.seeds_))

    def _uniform_error(self, radius: float, probability: float) -> float:
        return math.inf  # sets have no norm
