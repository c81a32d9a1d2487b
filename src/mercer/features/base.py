"""Feature maps: vectors φ(x) with ⟨φ(x), φ(y)⟩ ≈ k(x, y), how far off that is, normal equations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted

from mercer import linalg
from mercer.arrays import namespace
from mercer.checks import check_between, check_nonnegative, check_weights
from mercer.features.bases import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from mercer.features.inputs import KernelInput, dense, from_tensor, is_foreign, length, placed_like
from mercer.functions import FeatureFunction
from mercer.kernels.base import Kernel
from mercer.operators import FeatureMatrix
from mercer.runtime.threads import Span, run, single_threaded_blas, spans, thread_count

Fill = Callable[[Any, np.ndarray], Any]
"""(rows, out): write the features of rows into out. Threads share it."""


@dataclass(frozen=True)
class Tuning:
    """Sizes of blocks. Results depend on them by rounding only, never on the number of threads."""

    block_bytes: int = 8 << 20  # of the features of a block of rows: they stay near the cache
    fewest_rows: int = 64  # of a block: enough for a matrix product
    most_rows: int = 512  # few enough for all threads to have work
    foreign_rows: int = 1 << 14  # where another library computes, with threads of its own
    stripes: int = 16  # partial sums over rows; a fixed number fixes the bits of a sum
    chunk_bytes: int = 48 << 20  # of the features stored at a time for ΦᵀΦ: bounds the memory of it
    chunk_rows: int = 1 << 15  # in float32 so many are summed before float64 takes over
    tile: int = 512  # rows and columns of a tile of ΦᵀΦ: its product runs at the speed of BLAS
    diagonal_tile: int = 128  # half of a tile on the diagonal is computed for nothing


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
    tuning = Tuning()

    kernel_: Kernel
    n_features_in_: int
    unbiased = True  # whether the mean of ⟨φ(x), φ(y)⟩ over draws is k(x, y)

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
        xp, columns, parts = namespace(alpha), alpha.reshape((len(alpha), -1)), dict[int, Any]()

        def add(stripe: int) -> None:
            for span in pieces[stripe :: self.tuning.stripes]:
                part = _product(block(span).T, columns[slice(*span)])
                part = xp.astype(part, xp.result_type(part, xp.float64))
                parts[stripe] = parts[stripe] + part if stripe in parts else part

        self._run(X, add, range(min(self.tuning.stripes, len(pieces))))
        total = sum(parts[stripe] for stripe in sorted(parts))
        return total[:, 0] if alpha.ndim == 1 else total

    def normal_equations(self, X: Any, y: Any, sample_weight: Any = None) -> NormalEquations:
        """ΦᵀWΦ and ΦᵀWy for the features Φ of X, summed chunk by chunk; Φ is never stored."""
        X = self._admitted(from_tensor(X))
        dtype, n = self.dtype(X), length(X)
        if dtype.kind == "c":
            raise ValueError('normal equations are real: write form="pairs" for the features.')
        targets, roots = _targets(X, from_tensor(y), from_tensor(sample_weight))
        wide = np.column_stack([targets.reshape(n, -1), np.ones(n)])  # Φᵀw comes along with ΦᵀWy
        if roots is not None:
            wide = wide * roots
            roots = roots.astype(dtype)
        gram, sums = self._sums(X, wide.astype(dtype), roots)
        squares = np.einsum("ij,ij->j", wide, wide, dtype=np.float64)
        return NormalEquations(
            features=self,
            gram=gram,
            moments=sums[:, :-1],
            feature_sums=sums[:, -1],
            target_sums=np.einsum("ij,i->j", wide[:, :-1], wide[:, -1], dtype=np.float64),
            target_squares=squares[:-1],
            total=float(squares[-1]),
            single_output=targets.ndim == 1,
        )

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
        tuning = self.tuning
        rows = tuning.block_bytes // (self.feature_count * self.dtype(X).itemsize)
        return spans(length(X), min(max(rows, tuning.fewest_rows), tuning.most_rows))

    def _sums(self, X: Any, right: np.ndarray, roots: Any) -> tuple[np.ndarray, np.ndarray]:
        """(RΦ)ᵀRΦ and (RΦ)ᵀV in float64, for R = diag(roots) and the columns V, chunk by chunk."""
        (n, columns), dtype, count = right.shape, right.dtype, self.feature_count
        tuning, fill, threads = self.tuning, self._filler(dtype), self._threads()
        tiles = _triangle(0, count, tuning)
        rows = min(tuning.chunk_rows, tuning.chunk_bytes // (count * dtype.itemsize))
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

    def _run(self, X: Any, work: Callable[[Any], None], items: Any) -> None:
        if is_foreign(X):  # which has threads of its own
            run(work, items, 1)
            return
        with single_threaded_blas():
            run(work, items, self._threads())

    def _threads(self) -> int:
        return thread_count()

    @property
    def _n_features_out(self) -> int:
        return self.feature_count

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "kernel_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


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


def dense_pairs(X: Any, Y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two arrays of one shape, in float64: the pairs whose errors are asked for."""
    first, second = (dense(from_tensor(part)).astype(np.float64) for part in (X, Y))
    if first.shape != second.shape or first.ndim != 2:
        raise ValueError(
            f"pairs are rows of two arrays of one shape; got {first.shape} and {second.shape}."
        )
    return first, second


def _targets(X: Any, y: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """y, and the square roots of the weights as a column."""
    targets = check_array(y, ensure_2d=False, dtype=[np.float64, np.float32], input_name="y")
    check_consistent_length(X, targets)
    if sample_weight is None:
        return targets, None
    weights = np.asarray(sample_weight, np.float64)
    check_weights(weights, len(targets), "sample_weight")
    return targets, np.sqrt(weights)[:, None]


def _triangle(start: int, stop: int, tuning: Tuning) -> list[tuple[Span, Span]]:
    """Tiles that cover the lower triangle of a square, the largest first."""
    if stop - start <= tuning.diagonal_tile:
        return [((start, stop), (start, stop))]
    middle = start + -(-(stop - start) // (2 * tuning.diagonal_tile)) * tuning.diagonal_tile
    below = [
        (a, b) for a in spans(stop, tuning.tile, middle) for b in spans(middle, tuning.tile, start)
    ]
    return [*below, *_triangle(start, middle, tuning), *_triangle(middle, stop, tuning)]


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
