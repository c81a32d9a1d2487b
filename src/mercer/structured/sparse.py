"""Kernels with sparse features: features known by a hash, and blocks by posting lists."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from mercer.kernels.algebra import Normalised, Scaled, Sum
from mercer.kernels.base import Kernel
from mercer.structured.base import StructuredKernel, StructuredPoints, mixed

DENSE = 0.25  # share of the columns of a tile from which a feature is added to all of them:
# adding a vector takes about a quarter of the time of adding to as many single places


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Features φ of many objects: a CSR matrix, and the hash of the feature in each column."""

    keys: np.ndarray  # uint64, increasing
    matrix: Any

    @classmethod
    def counted(cls, starts: np.ndarray, hashes: np.ndarray, weights: Any = None) -> FeatureRows:
        """φ_u(x_i) = Σ weights of the hashes u of object i, 1 each where no weights are given."""
        from mercer.structured.compiled.sparse import merged, numbered

        # np.unique and sum_duplicates, which sort, take 1.2 to 3.6 times as long
        keys, columns = np.empty(len(hashes), np.uint64), np.empty(len(hashes), np.int64)
        keys = keys[: numbered(hashes, keys, columns)]
        order = np.argsort(keys)
        places = np.empty(len(keys), np.int64)
        places[order] = np.arange(len(keys))
        columns = places[columns]
        values = np.ones(len(hashes)) if weights is None else np.array(weights, np.float64)
        ends = np.zeros(len(starts), np.int64)
        merged(np.asarray(starts, np.int64), columns, values, len(keys), ends[1:])
        parts = values[: ends[-1]], columns[: ends[-1]], ends
        matrix = scipy.sparse.csr_array(parts, (len(starts) - 1, max(len(keys), 1)))
        matrix.sort_indices()
        return cls(keys[order], matrix)

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where each row starts, its columns and its values, as compiled code takes them."""
        starts, columns = self.matrix.indptr, self.matrix.indices
        return starts.astype(np.int64), columns.astype(np.int64), self.matrix.data

    @cached_property
    def _tables(self) -> weakref.WeakKeyDictionary[FeatureRows, np.ndarray]:
        return weakref.WeakKeyDictionary()

    def table(self, other: FeatureRows) -> np.ndarray:
        """The column that each feature has in another matrix, −1 for none; empty if it is this."""
        if other.keys is self.keys:
            return np.empty(0, np.int64)
        if other not in self._tables:
            self._tables[other] = lookup(other.keys, self.keys)
        return self._tables[other]

    def moved(self, rows: Any, other: FeatureRows) -> Any:
        """Rows of this matrix with the columns of another one; features it has not are left out."""
        places = self.table(other)[rows.indices] if len(self.keys) else rows.indices
        shared = places >= 0
        ends = np.r_[0, np.cumsum(shared)][rows.indptr]
        shape = rows.shape[0], other.matrix.shape[1]
        return scipy.sparse.csr_array((rows.data[shared], places[shared], ends), shape)

    def beside(self, other: FeatureRows) -> FeatureRows:
        """The features of both side by side, as different ones."""
        keys = np.concatenate([mixed(self.keys, salt=1), mixed(other.keys, salt=2)])
        order = np.argsort(keys)
        # a matrix without features has an empty column, which is left out
        parts = [rows.matrix[:, : len(rows.keys)] for rows in (self, other)]
        matrix = scipy.sparse.hstack(parts, format="csr")[:, order]
        matrix.sort_indices()
        return FeatureRows(keys[order], matrix)

    @cached_property
    def squares(self) -> np.ndarray:
        """‖φ(x)‖² of all rows."""
        return self._sums(self.matrix.data**2)

    @cached_property
    def totals(self) -> np.ndarray:
        """Σ_u φ_u(x) of all rows."""
        return self._sums(self.matrix.data)

    def _sums(self, values: np.ndarray) -> np.ndarray:
        rows = np.repeat(np.arange(self.matrix.shape[0]), np.diff(self.matrix.indptr))
        return np.bincount(rows, values, minlength=self.matrix.shape[0]).astype(np.float64)


def lookup(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each wanted key stands among sorted keys, −1 for none.

    >>> lookup(np.array([3, 5, 8]), np.array([8, 4])).tolist()
    [2, -1]
    """
    if not len(keys):
        return np.full(len(wanted), -1)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, places, -1)


def postings(rows: FeatureRows, chosen: np.ndarray) -> tuple[np.ndarray, ...]:
    """The features of a tile of columns, by feature: keys, ends, dense, items, weights.

    They are what `products` takes: which columns have a feature, and how much of it.
    """
    tile = rows.matrix[chosen]
    order = np.argsort(tile.indices, kind="stable")
    items = np.repeat(np.arange(len(chosen)), np.diff(tile.indptr))[order]
    keys, counts = np.unique(tile.indices, return_counts=True)
    dense = counts >= max(DENSE * len(chosen), 8)
    ends = np.cumsum(np.where(dense, len(chosen), counts))
    feature = np.repeat(np.arange(len(keys)), counts)
    first = ends - np.where(dense, len(chosen), counts)
    rank = np.arange(len(items)) - (np.cumsum(counts) - counts)[feature]
    places = first[feature] + np.where(dense[feature], items, rank)
    size = int(ends[-1]) if len(ends) else 0
    who, weights = np.zeros(size, np.int32), np.zeros(size)
    who[places], weights[places] = items, tile.data[order]
    return keys.astype(np.int64), ends, dense, who, weights


class SparseKernel(StructuredKernel):
    """A kernel ⟨φ(x), φ(y)⟩ with sparse features φ, known by hashes.

    Subclasses implement `feature_rows(points)`, the features of all objects. Values are exact but
    for two features that share a hash, see `mercer.structured.base`.
    """

    minima = False  # whether products of features are replaced by their minima

    def feature_rows(self, points: Any) -> FeatureRows:
        """The features of all points."""
        raise NotImplementedError

    def check_pair(self, x: Any, y: Any) -> None:
        """Refuse points that cannot be compared."""

    def block(self, x: Any, y: Any) -> np.ndarray:
        """Σ_u φ_u(x)φ_u(y), or Σ_u min(φ_u(x), φ_u(y)), for all pairs."""
        from mercer.structured.compiled.sparse import products

        self.check_pair(x, y)
        left, right = self._rows(x), self._rows(y)
        posts = y.own.get(self._key(), lambda: postings(right, y.chosen))
        out = np.zeros((len(x), len(y)))
        products(*left.arrays, x.chosen, left.table(right), *posts, self.minima, out)
        return out

    def diagonal(self, x: Any) -> np.ndarray:
        rows = self._rows(x)
        return (rows.totals if self.minima else rows.squares)[x.chosen]

    def features(self, x: Any) -> Any:
        """φ(x_i) as rows of a CSR matrix.

        Its columns are the features that occur in x or in the points of which x is a part;
        `mercer.features.ExplicitFeatures` keeps the columns of a training set for later points.
        """
        return self.explicit_rows(x).matrix[x.chosen]

    def explicit_rows(self, points: Any) -> FeatureRows:
        """φ of all points with ⟨φ(x), φ(y)⟩ = k(x, y)."""
        return self._rows(points)

    def factors(self, x: Any, y: Any) -> tuple[Any, Any] | None:
        if self.minima:
            return None  # their features, unary codes, may be long
        self.check_pair(x, y)
        left, right = self._rows(x), self._rows(y)
        rows = left.matrix[x.chosen]
        if x is y:
            return rows, rows
        if right.keys is not left.keys:
            rows = left.moved(rows, right)
        return rows, right.matrix[y.chosen]

    def _rows(self, points: StructuredPoints) -> FeatureRows:
        return points.prepared(self._key(), self.feature_rows)

    def _key(self) -> Any:
        """A key of all that the features depend on."""
        return self


class MinimumKernel(SparseKernel):
    """A kernel Σ_u min(c_u(x), c_u(y)) of sparse counts or weights c.

    Where c is a whole number it is the inner product of unary codes: c_u makes c_u features, one
    for "at least 1", one for "at least 2" and so on.
    """

    minima = True

    def explicit_rows(self, points: Any) -> FeatureRows:
        rows = self._rows(points)
        sizes = rows.matrix.data.astype(np.int64)
        if (sizes != rows.matrix.data).any():
            raise ValueError(
                f"{self!r} has finitely many features where weights are whole numbers only; for "
                "other weights take Jaccard and mercer.features.MinHash."
            )
        ends = np.cumsum(sizes)
        steps = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
        hashes = mixed(np.repeat(rows.keys[rows.matrix.indices], sizes), salt=steps)
        return FeatureRows.counted(np.r_[0, ends][rows.matrix.indptr], hashes)


def explicit_rows(kernel: Kernel, points: Any) -> FeatureRows:
    """Sparse features of a kernel, or of sums, multiples and normalised forms of such kernels."""
    match kernel:
        case SparseKernel():
            return kernel.explicit_rows(points)
        case Scaled():
            inner = explicit_rows(kernel.kernel, points)
            return FeatureRows(inner.keys, inner.matrix * float(kernel.scale) ** 0.5)
        case Normalised():
            return _normalised(explicit_rows(kernel.kernel, points))
        case Sum():
            return explicit_rows(kernel.left, points).beside(explicit_rows(kernel.right, points))
    raise ValueError(
        f"{kernel!r} has no sparse features: write mercer.features.Nystroem, which approximates "
        "any kernel."
    )


def _normalised(rows: FeatureRows) -> FeatureRows:
    """Rows of unit length; those without features have a feature of their own."""
    empty = np.flatnonzero(rows.squares == 0)
    scale = 1.0 / np.sqrt(np.where(rows.squares > 0, rows.squares, 1.0))
    scaled = FeatureRows(rows.keys, scipy.sparse.diags_array(scale) @ rows.matrix)
    entries = np.ones(len(empty)), (empty, np.zeros_like(empty))
    own = scipy.sparse.csr_array(entries, (len(scale), 1))
    return scaled.beside(FeatureRows(np.zeros(1, np.uint64), own))
