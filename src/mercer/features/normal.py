"""Features to normal equations, without storing the features."""

from __future__ import annotations

from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Tuning:
    """How features are cut for the product ΦᵀΦ."""

    chunk_bytes: int = 48 << 20  # of the features stored at a time: bounds the memory of a sum
    most_rows: int = 1 << 15  # of a chunk: in float32 so many are summed before float64 takes over
    tile: int = 512  # rows and columns of a tile of ΦᵀΦ: its product runs at the speed of BLAS
    diagonal: int = 128  # of a tile on the diagonal, half of which is computed for nothing


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """ΦᵀWΦ and ΦᵀWy of the features Φ of many points: all that ridge regression needs of them.

    Made by `map.normal_equations(X, y)`, which reads X once, a chunk at a time. Sums are
    in float64.

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

    def __add__(self, other: NormalEquations) -> NormalEquations:
        """Those of the rows of both."""
        if not isinstance(other, NormalEquations):
            return NotImplemented
        names = ("gram", "moments", "feature_sums", "target_sums", "target_squares", "total")
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in names})

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


def accumulate(
    features: FeatureMap,
    X: Any,
    y: Any,
    sample_weight: Any,
    tuning: Tuning = Tuning(),
) -> NormalEquations:
    """Read X once and sum, in an order that depends on sizes alone."""
    dtype, n = features.dtype(X), length(X)
    if dtype.kind == "c":
        raise ValueError('normal equations are real: write form="pairs" for the features.')
    targets, roots = _checked_targets(X, y, sample_weight)
    wide = np.column_stack([targets.reshape(n, -1), np.ones(n)])  # Φᵀw comes along with ΦᵀWy
    if roots is not None:
        wide = wide * roots
    gram, sums = _sums(features, X, wide.astype(dtype), roots, tuning)
    squares = np.einsum("ij,ij->j", wide, wide, dtype=np.float64)
    return NormalEquations(
        features,
        gram,
        sums[:, :-1],
        sums[:, -1],
        np.einsum("ij,i->j", wide[:, :-1], wide[:, -1], dtype=np.float64),
        squares[:-1],
        float(squares[-1]),
        targets.ndim == 1,
    )


def _checked_targets(X: Any, y: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """y, and the square roots of the weights as a column."""
    targets = check_array(
        y, ensure_2d=False, dtype=[np.float64, np.float32], input_name="y", allow_nd=False
    )
    check_consistent_length(X, targets)
    if sample_weight is None:
        return targets, None
    weights = np.asarray(sample_weight, np.float64)
    check_weights(weights, len(targets), "sample_weight")
    return targets, np.sqrt(weights)[:, None]


def _sums(
    features: FeatureMap, X: Any, right: np.ndarray, roots: np.ndarray | None, tuning: Tuning
) -> tuple[np.ndarray, np.ndarray]:
    """(RΦ)ᵀRΦ and (RΦ)ᵀV in float64, for R = diag(roots) and the columns V, chunk by chunk."""
    (n, columns), dtype, count = right.shape, right.dtype, features.feature_count
    roots = None if roots is None else roots.astype(dtype)
    fill, tiles = features._filler(dtype), _triangle(0, count, tuning)
    threads = thread_count() if features._parallel else 1
    rows = min(tuning.most_rows, tuning.chunk_bytes // (count * dtype.itemsize))
    rows = max(tuning.tile, rows // tuning.tile * tuning.tile)
    storage = np.empty((min(rows, n), count), dtype)
    gram, sums = np.zeros((count, count)), np.zeros((count, columns))

    def add(start: int, stop: int) -> None:
        chunk = storage[: stop - start]

        def write(span: Span) -> None:
            part, here = chunk[slice(*span)], slice(start + span[0], start + span[1])
            fill(X[here], part)
            if roots is not None:
                part *= roots[here]

        def multiply(span: Span) -> None:
            sums[slice(*span)] += chunk[:, slice(*span)].T @ right[start:stop]

        def add_tile(tile: tuple[Span, Span]) -> None:
            a, b = (slice(*span) for span in tile)
            gram[a, b] += chunk[:, a].T @ chunk[:, b]

        run(write, spans(len(chunk), tuning.tile), threads)
        run(multiply, spans(count, tuning.tile), threads)
        run(add_tile, tiles, threads)

    with single_threaded_blas():
        for span in spans(n, rows):
            add(*span)
    for a, b in tiles:
        gram[slice(*b), slice(*a)] = gram[slice(*a), slice(*b)].T
    return gram, sums


def _triangle(start: int, stop: int, tuning: Tuning) -> list[tuple[Span, Span]]:
    """Tiles that cover the lower triangle of a square, the largest first."""
    if stop - start <= tuning.diagonal:
        return [((start, stop), (start, stop))]
    middle = start + -(-(stop - start) // (2 * tuning.diagonal)) * tuning.diagonal
    below = [
        (a, b) for a in spans(stop, tuning.tile, middle) for b in spans(middle, tuning.tile, start)
    ]
    return [*below, *_triangle(start, middle, tuning), *_triangle(middle, stop, tuning)]
