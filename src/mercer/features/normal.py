"""Features to normal equations, without storing the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_array, check_consistent_length

from mercer import linalg
from mercer.checks import check_weights
from mercer.features.inputs import length
from mercer.functions import FeatureFunction
from mercer.runtime.threads import Span, run, single_threaded_blas, spans, thread_count

if TYPE_CHECKING:
    from mercer.features.base import FeatureMap

CHUNK_BYTES = 48 << 20  # of features that are there at a time
TILE = 512  # rows and columns of a tile of ΦᵀΦ
DIAGONAL = 128  # of a tile on the diagonal, of which half is in vain
SUMMED = 1 << 15  # rows that are summed in float32 before the sum goes to float64


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """ΦᵀWΦ and ΦᵀWy of the features Φ of many points: all that ridge regression needs of them.

    Made by `map.normal_equations(X, y)`, which reads X once, a chunk at a time. Sums are kept in
    float64.

    Attributes
    ----------
    features : FeatureMap
    gram : array of shape (features, features)
        ΦᵀWΦ.
    moments : array of shape (features, outputs)
        ΦᵀWy.
    feature_sums, target_sums : arrays
        Φᵀw and yᵀw.
    target_squares : array of shape (outputs,)
        Σ w_i y_i².
    total : float
        Σ w_i.
    single_output : bool
        Whether y was one-dimensional.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.features import RandomFourierFeatures
    >>> X = np.random.default_rng(0).standard_normal((500, 2))
    >>> y = np.sin(X[:, 0])
    >>> phi = RandomFourierFeatures(n_components=50, random_state=0).fit(X)
    >>> f = phi.normal_equations(X, y).ridge(1e-6)
    >>> Z = phi.transform(X)
    >>> weights = np.linalg.solve(Z.T @ Z + 500 * 1e-6 * np.eye(50), Z.T @ y)
    >>> bool(np.allclose(f(X), Z @ weights))
    True
    """

    features: FeatureMap
    gram: np.ndarray
    moments: np.ndarray
    feature_sums: np.ndarray
    target_sums: np.ndarray
    target_squares: np.ndarray
    total: float
    single_output: bool

    def ridge(self, regularization: float) -> FeatureFunction:
        """The minimiser of (1/Σw) Σ w_i ½(y_i − f(x_i))² + (λ/2)‖w‖²."""
        return self._function(self._solved(self.gram.copy(), self.moments, regularization))

    def ridge_with_intercept(self, regularization: float) -> tuple[FeatureFunction, Any]:
        """The same for y_i − f(x_i) − b, with b not penalised, and b."""
        means = self.feature_sums / self.total
        targets = self.target_sums / self.total
        gram = np.outer(means, -self.total * means)
        gram += self.gram
        moments = self.moments - self.total * np.outer(means, targets)
        weights = self._solved(gram, moments, regularization)
        intercept = targets - means @ weights
        return self._function(weights), intercept[0] if self.single_output else intercept

    def _solved(self, matrix: np.ndarray, moments: np.ndarray, regularization: float) -> np.ndarray:
        """The weights; the matrix is overwritten."""
        if not (np.isfinite(regularization) and regularization >= 0):
            raise ValueError(
                f"regularization must be nonnegative and finite; got {regularization!r}."
            )
        if regularization == 0:
            return linalg.symmetric_solve(matrix, moments)[0]
        matrix.flat[:: len(matrix) + 1] += self.total * regularization
        return linalg.cholesky(matrix, overwrite=True).solve(moments)

    def _function(self, weights: np.ndarray) -> FeatureFunction:
        return self.features.function(weights[:, 0] if self.single_output else weights)


def accumulate(features: FeatureMap, X: Any, y: Any, sample_weight: Any) -> NormalEquations:
    """Read X once and sum."""
    targets, weights = _checked_targets(X, y, sample_weight)
    sums = _Sums(features, X, targets, weights)
    columns = targets.reshape(len(targets), -1)
    weighted = columns if weights is None else columns * weights[:, None]
    return NormalEquations(
        features,
        sums.gram,
        sums.moments,
        sums.feature_sums,
        weighted.sum(axis=0, dtype=np.float64),
        np.einsum("ij,ij->j", weighted, columns, dtype=np.float64),
        float(len(targets) if weights is None else weights.sum(dtype=np.float64)),
        targets.ndim == 1,
    )


def _checked_targets(X: Any, y: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray | None]:
    targets = check_array(
        y, ensure_2d=False, dtype=[np.float64, np.float32], input_name="y", allow_nd=False
    )
    check_consistent_length(X, targets)
    if sample_weight is None:
        return targets, None
    weights = np.asarray(sample_weight, np.float64)
    check_weights(weights, len(targets), "sample_weight")
    return targets, weights


def _triangle(start: int, stop: int) -> list[tuple[Span, Span]]:
    """Tiles that cover the lower triangle of a square, the largest first."""
    if stop - start <= DIAGONAL:
        return [((start, stop), (start, stop))]
    middle = start + -(-(stop - start) // (2 * DIAGONAL)) * DIAGONAL
    below = [(a, b) for a in spans(stop, TILE, middle) for b in spans(middle, TILE, start)]
    return [*below, *_triangle(start, middle), *_triangle(middle, stop)]


class _Sums:
    """ΦᵀWΦ, ΦᵀWy and Φᵀw, summed over chunks in an order that depends on sizes alone."""

    def __init__(self, features: FeatureMap, X: Any, y: np.ndarray, weights: Any) -> None:
        dtype = features.dtype(X)
        if dtype.kind == "c":
            raise ValueError('normal equations are real: write form="pairs" for the features.')
        count, rows = features.feature_count, length(X)
        self.X, self.fill, self.dtype = X, features._filler(dtype), dtype
        self.tiles = _triangle(0, count)
        self.threads = thread_count() if features._parallel else 1
        self.targets = np.column_stack([y.reshape(rows, -1), np.ones(rows)]).astype(dtype)
        self.weights = None if weights is None else np.sqrt(weights).astype(dtype)
        step = max(TILE, min(SUMMED, CHUNK_BYTES // (count * dtype.itemsize)) // TILE * TILE)
        self.partial = np.zeros((count, count), dtype)
        self.sums = np.zeros((count, self.targets.shape[1]))
        self.gram = self.partial if dtype == np.float64 else np.zeros((count, count))
        chunk = np.empty((min(step, rows), count), dtype)
        summed = 0
        with single_threaded_blas():
            for start, stop in spans(rows, step):
                self._add(chunk[: stop - start], start, stop)
                summed += stop - start
                if summed >= SUMMED:
                    self._flush()
                    summed = 0
            self._flush()
        for a, b in self.tiles:
            self.gram[slice(*b), slice(*a)] = self.gram[slice(*a), slice(*b)].T

    def _add(self, chunk: np.ndarray, start: int, stop: int) -> None:
        def features(span: Span) -> None:
            block = chunk[slice(*span)]
            self.fill(self.X[start + span[0] : start + span[1]], block)
            if self.weights is not None:
                block *= self.weights[start + span[0] : start + span[1], None]

        run(features, spans(stop - start, TILE), self.threads)
        targets = self.targets[start:stop]
        if self.weights is not None:
            targets = targets * self.weights[start:stop, None]
        products = np.empty(self.sums.shape, self.dtype)

        def moments(span: Span) -> None:
            np.matmul(chunk[:, slice(*span)].T, targets, out=products[slice(*span)])

        run(moments, spans(chunk.shape[1], TILE), self.threads)
        self.sums += products
        run(lambda tile: self._tile(chunk, tile), self.tiles, self.threads)

    def _tile(self, chunk: np.ndarray, tile: tuple[Span, Span]) -> None:
        a, b = slice(*tile[0]), slice(*tile[1])
        self.partial[a, b] += chunk[:, a].T @ chunk[:, b]

    def _flush(self) -> None:
        """Move what was summed in float32 to float64."""
        if self.gram is not self.partial:
            self.gram += self.partial
            self.partial[:] = 0.0

    @property
    def moments(self) -> np.ndarray:
        return self.sums[:, :-1]

    @property
    def feature_sums(self) -> np.ndarray:
        return self.sums[:, -1]
