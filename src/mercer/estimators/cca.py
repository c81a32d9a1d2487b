"""Kernel canonical correlation analysis, of two views or several."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import combinations
from typing import Any, Self

import numpy as np
from scipy.linalg.lapack import dpstrf
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing, check_array
from sklearn.utils.validation import check_is_fitted

from mercer import linalg
from mercer.checks import check_count, check_positive
from mercer.errors import ApproximationWarning
from mercer.estimators.inputs import KernelParameters, as_column
from mercer.features import Nystroem
from mercer.features.centres import AnyChoice, Uniform
from mercer.features.inputs import from_tensor, is_elsewhere, length
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.kernels.measures import Seed
from mercer.operators import Gram
from mercer.runtime.budget import in_words, memory_budget
from mercer.runtime.threads import spans


@dataclass(frozen=True)
class Tuning:
    """Sizes of the blocks of features, and what of them is stored."""

    view_rows: int = 2048  # of all views, whose features are stored at a time
    small: int = 512  # features of all views, up to which all eigenvalues are computed
    squares: int = 3  # matrices between all features that are stored,
    of_centres: int = 5  # and those of one view
    of_points: int = 4  # that are stored while that of one view is factored, beside those of others
    negligible: float = 1e-7  # correlations below are rounding, the root of that of their squares


TUNING = Tuning()
NUMBERS = [np.float64, np.float32]  # that views of numbers are, or become


@dataclass(eq=False, repr=False)
class KernelCCA(KernelParameters, BaseEstimator):
    """Functions of several views of the same objects that are correlated as much as can be.

    For two views: f and g with the largest covariance of f(x) and g(y) among those with
    var f + κ‖f‖² = 1 and var g + κ‖g‖² = 1. With centred Gram matrices and R = K(K + nκI)⁻¹ the
    squares of the correlations are the eigenvalues of R_x R_y. Without regularisation these are 1
    for every two views with matrices of full rank, so κ > 0. For m views the sum of the covariances
    of all pairs is maximised.

    On all points (the default) R = TᵀT comes from a pivoted Cholesky factor of K, which takes time
    in nr² for a matrix of rank r. With `centres` views are reduced to Nyström features, and the
    cost is linear in the number of rows.

    Parameters
    ----------
    n_components : int, default=2
    regularization : float or list of floats, default=0.1
        κ, one for all views or one for each. cca-zoo's `shrinkage` c is κ = c/(1 − c)·(n − 1)/n.
    kernel : Kernel, str or callable, or a list of these, default="rbf"
        One for all views or one for each.
    gamma, degree, coef0, kernel_params :
        Parameters of named and callable kernels, as in scikit-learn.
    centres : int or choice of `mercer.features.centres`, optional
        Of each view. By default all points, or as many as fit the memory budget, with a warning.
    random_state : int, Generator, RandomState or None
        Draws the centres.

    Attributes
    ----------
    correlations_ : array of shape (components,)
        The regularised correlations, √ of the eigenvalues of R_x R_y; of several views, their mean
        over pairs. `score` has the plain ones, on any data.
    functions_ : list of RKHSFunction
        One for each view, one output for each component.
    offsets_ : list of arrays
        Their means over the training points.
    kernels_ : list of Kernel

    References
    ----------
    Bach, Jordan, Kernel independent component analysis, 2002; Fukumizu, Bach, Gretton, Statistical
    consistency of kernel canonical correlation analysis, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> t = rng.uniform(-1, 1, 300)
    >>> X, Y = t[:, None] ** 2, np.c_[np.cos(3 * t), rng.standard_normal(300)]
    >>> model = KernelCCA(1, regularization=0.01).fit(X[:200], Y[:200])
    >>> bool(model.score(X[200:], Y[200:]) > 0.95)
    True
    """

    n_components: int = 2
    _: KW_ONLY
    regularization: float | Sequence[float] = 0.1
    kernel: Any = "rbf"
    centres: int | AnyChoice | None = None
    random_state: Seed = None

    def fit(self, X: Any, *others: Any) -> Self:
        """Find the functions; X and others are the views, as many rows each."""
        check_count(self, "n_components", self.n_components)
        views = _checked_views((X, *others))
        ridges = self._for_each("regularization", len(views))
        for ridge in ridges:
            check_positive(self, "regularization", ridge)
        kernels = self._for_each("kernel", len(views))
        if all(isinstance(kernel, Kernel) for kernel in kernels):
            self._refuse_ignored("a kernel object", "in the kernel, as Gaussian(lengthscale=2.0)")
        choice = self._centres(views)
        maps = [
            self._map(kernel, view, number, choice)
            for number, (kernel, view) in enumerate(zip(kernels, views, strict=True))
        ]
        whitened = (_OnPoints if choice is None else _OnCentres)(maps, views, ridges)
        sizes = [part.stop - part.start for part in whitened.parts]
        count = min(self.n_components, *sizes)
        values, vectors = _leading(whitened.multiply, sum(sizes), count)
        fitted = whitened.functions(vectors)
        self.__dict__.update(
            correlations_=np.clip(values / (len(views) - 1), 0.0, 1.0),
            functions_=[f for f, _ in fitted],
            offsets_=[mean for _, mean in fitted],
            kernels_=[phi.kernel_ for phi in maps],
            _maps=maps,
        )
        return self

    def transform(self, *views: Any) -> tuple[np.ndarray, ...]:
        """The values of the functions, less their means on the training points, for each view."""
        check_is_fitted(self, "functions_")
        if len(views) != len(self.functions_):
            raise ValueError(
                f"this KernelCCA was fitted to {len(self.functions_)} views; got {len(views)}."
            )
        values = []
        for number, (view, phi) in enumerate(zip(_checked_views(views), self._maps, strict=True)):
            f, offset = self.functions_[number], self.offsets_[number]
            _check_numbers(self, phi, view, number)
            values.append(np.asarray(f(phi._checked(view, reset=False))) - offset)
        return tuple(values)

    def fit_transform(self, X: Any, *others: Any) -> tuple[np.ndarray, ...]:
        """Fit, and the values of the functions on the same views."""
        return self.fit(X, *others).transform(X, *others)

    def canonical_correlations(self, *views: Any) -> np.ndarray:
        """Pearson's correlation of the functions on any data, for each component.

        Of several views the mean over pairs. On the training data these are too high; on held-out
        rows they say what was found.
        """
        values = self.transform(*views)
        pairs = []
        for a, b in combinations([side - side.mean(axis=0) for side in values], 2):
            sizes = np.linalg.norm(a, axis=0) * np.linalg.norm(b, axis=0)
            pairs.append((a * b).sum(axis=0) / np.where(sizes > 0, sizes, 1.0))  # 0 for a constant
        return np.mean(pairs, axis=0)

    def score(self, *views: Any) -> float:
        """The mean of the canonical correlations on these views."""
        return float(self.canonical_correlations(*views).mean())

    def _centres(self, views: Sequence[Any]) -> Any:
        """The centres of each view: what was asked for, or all points as long as they have room."""
        if self.centres is not None:
            return self.centres
        rows, count, room = length(views[0]), len(views), memory_budget()
        needed = 8 * rows**2 * (count + TUNING.of_points)
        if needed <= room:
            return None
        fitting = max(1, math.isqrt(room // (8 * (TUNING.squares * count**2 + TUNING.of_centres))))
        warnings.warn(
            f"KernelCCA of all {rows} points takes {in_words(needed)}, and the budget is "
            f"{in_words(room)}, so views are reduced to {fitting} centres. Write "
            f"centres={fitting} to agree, or raise MERCER_MEMORY.",
            ApproximationWarning,
            stacklevel=3,  # of fit
        )
        return fitting

    def _map(self, kernel: Any, view: Any, number: int, choice: Any) -> Nystroem:
        if isinstance(kernel, str) and kernel == "precomputed":
            raise ValueError(
                "KernelCCA finds functions of points, and a precomputed matrix has none: pass "
                "kernels, and the views themselves."
            )
        if choice is not None and not hasattr(choice, "choose"):
            check_count(self, "centres", choice)
            choice = Uniform(min(int(choice), length(view)), self.random_state)
        named: dict[str, Any] = {}
        if not isinstance(kernel, Kernel):
            names = ("gamma", "degree", "coef0", "kernel_params")
            named = {name: getattr(self, name) for name in names}
        phi = Nystroem(kernel, centres=choice, **named)
        _check_numbers(self, phi, view, number)
        return phi if choice is None else phi.fit(view)

    def _for_each(self, name: str, count: int) -> list[Any]:
        """A parameter for each view."""
        value = getattr(self, name)
        if not isinstance(value, (list, tuple)):
            return [value] * count
        if len(value) != count:
            raise ValueError(f"{name} has {len(value)} entries for {count} views.")
        return list(value)


class _OnPoints:
    """R = K(K + ρI)⁻¹ = TᵀT of the centred Gram matrix of each view, with ρ = nκ.

    Of a pivoted Cholesky factor K = FFᵀ and MMᵀ = FᵀF + ρI, T = M⁻¹Fᵀ. The best functions are the
    leading eigenvectors z of the matrix with the blocks T_i T_jᵀ, i ≠ j. With q_i = Σ_{j≠i} T_jᵀz_j
    the coefficients of f_i are proportional to (K + ρI)⁻¹q_i = (q_i − Rq_i)/ρ.
    """

    def __init__(
        self, maps: Sequence[Nystroem], views: Sequence[Any], ridges: Sequence[float]
    ) -> None:
        self.grams, self.means, self.roots = list[Gram](), list[np.ndarray](), list[np.ndarray]()
        self.ridges = [length(views[0]) * ridge for ridge in ridges]
        for phi, view, ridge in zip(maps, views, self.ridges, strict=True):
            rows = phi._checked(from_tensor(view), reset=True)
            phi.kernel_ = phi._resolved_kernel(rows)
            gram = Gram(phi.kernel_, phi._training_points(phi.kernel_, rows))
            matrix = gram.astype(np.float64).dense()
            mean = matrix.mean(axis=0)
            matrix -= mean
            matrix -= matrix.mean(axis=1)[:, None]
            lower, pivots, rank, _ = dpstrf(matrix.T, lower=1, overwrite_a=1)  # columns are rows
            factor = np.empty((len(matrix), max(rank, 1)), order="F")  # FFᵀ = K up to rounding
            factor[pivots - 1] = np.tril(lower[:, : factor.shape[1]])
            inner = linalg.shift_diagonal(factor.T @ factor, ridge)
            root = linalg.cholesky(inner, overwrite=True).half_solve(factor.T, overwrite=True)
            self.grams.append(gram)
            self.means.append(mean)
            self.roots.append(root)
        self.parts = _side_by_side([len(root) for root in self.roots])

    def _others(self, vectors: np.ndarray) -> list[np.ndarray]:
        """q of each view."""
        images = [root.T @ vectors[p] for root, p in zip(self.roots, self.parts, strict=True)]
        total = np.sum(images, axis=0)
        return [total - image for image in images]

    def multiply(self, vectors: np.ndarray) -> np.ndarray:
        others = self._others(vectors)
        return np.concatenate([root @ q for root, q in zip(self.roots, others, strict=True)])

    def functions(self, vectors: np.ndarray) -> list[tuple[RKHSFunction, np.ndarray]]:
        """f of each view with var f + κ‖f‖² = 1, or 0 where there is no correlation."""
        fitted = []
        for i, q in enumerate(self._others(vectors)):
            image = self.roots[i] @ q
            sizes = np.linalg.norm(image, axis=0)
            dual = (q - self.roots[i].T @ image) * (math.sqrt(len(q)) / self.ridges[i])
            dual *= (sizes > TUNING.negligible) / np.maximum(sizes, TUNING.negligible)
            dual -= dual.mean(axis=0)
            points = self.grams[i].x
            f = RKHSFunction(self.grams[i].kernel, points, dual.astype(points.dtype))
            fitted.append((f, self.means[i] @ dual))
        return fitted


class _OnCentres:
    """Covariances of the features of all views in coordinates where var f + κ‖f‖² is ‖w‖²."""

    def __init__(
        self, maps: Sequence[Nystroem], views: Sequence[Any], ridges: Sequence[float]
    ) -> None:
        self.maps = maps
        self.parts = _side_by_side([phi.feature_count for phi in maps])
        covariance, self.means = self._moments(views)
        self.roots = []
        for part, ridge in zip(self.parts, ridges, strict=True):
            own = linalg.shift_diagonal(covariance[part, part].copy(), ridge)
            self.roots.append(linalg.cholesky(own, overwrite=True))
        self.between = np.zeros_like(covariance)  # those within a view are left out
        for i, j in combinations(range(len(self.parts)), 2):
            a, b = self.parts[i], self.parts[j]
            half = self.roots[i].half_solve(covariance[a, b])
            self.between[b, a] = self.roots[j].half_solve(half.T)
            self.between[a, b] = self.between[b, a].T

    def _moments(self, views: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Covariances and means of the features of all views, side by side, in one pass."""
        n, total = length(views[0]), self.parts[-1].stop
        products, sums = np.zeros((total, total)), np.zeros(total)
        step = min(TUNING.view_rows, max(64, memory_budget() // (8 * 32 * total)))
        for start, stop in spans(n, step):
            rows, block = np.arange(start, stop), np.empty((stop - start, total))
            for phi, view, part in zip(self.maps, views, self.parts, strict=True):
                block[:, part] = phi.transform(_safe_indexing(view, rows))
            products += block.T @ block
            sums += block.sum(axis=0)
        means = sums / n
        products /= n
        products -= means[:, None] * means
        return products, means

    def multiply(self, vectors: np.ndarray) -> np.ndarray:
        return self.between @ vectors

    def functions(self, vectors: np.ndarray) -> list[tuple[RKHSFunction, np.ndarray]]:
        """f of each view with var f + κ‖f‖² = 1, and its mean."""
        fitted = []
        for phi, part, root in zip(self.maps, self.parts, self.roots, strict=True):
            block = vectors[part]
            sizes = np.linalg.norm(block, axis=0)
            weights = root.other_half_solve(block / np.where(sizes > 0, sizes, 1.0))
            centres = phi.kernel_.points(phi.components_)
            coefficients = np.asarray(phi.normalization_, np.float64).T @ weights
            f = RKHSFunction(phi.kernel_, centres, coefficients.astype(centres.dtype))
            fitted.append((f, self.means[part] @ weights))
        return fitted


def _side_by_side(sizes: Sequence[int]) -> list[slice]:
    ends = [int(end) for end in np.cumsum(sizes)]
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _leading(multiply: Any, size: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues of a matrix and their vectors; of large ones by products alone."""
    if size <= TUNING.small or count > size // 20:
        values, vectors = linalg.eigen(multiply(np.eye(size)))
        return values[::-1][:count], vectors[:, ::-1][:, :count]
    pairs = linalg.leading_eigenpairs(multiply, size, count)
    return pairs.values, pairs.vectors


def _checked_views(views: Sequence[Any]) -> list[Any]:
    """Views with as many rows each; one number for each row is a column."""
    if len(views) < 2:
        raise ValueError(f"KernelCCA needs two views or more; got {len(views)}: write fit(X, Y).")
    columns = [as_column(view) for view in views]
    lengths = [length(view) for view in columns]
    if len(set(lengths)) > 1:
        raise ValueError(f"views must have as many rows each; got {lengths}.")
    return columns


def _check_numbers(model: KernelCCA, phi: Nystroem, view: Any, number: int) -> None:
    """Refuse what a view of numbers must not hold, and say which view it is, counted from 0."""
    if is_elsewhere(view) or phi._holds_objects(view):
        return
    rows = check_array(
        view, accept_sparse="csr", dtype=NUMBERS, input_name=f"view {number}", estimator=model
    )
    width = getattr(phi, "n_features_in_", rows.shape[1])
    if rows.shape[1] != width:
        raise ValueError(f"view {number} has {rows.shape[1]} columns, and had {width} in fit.")
