"""Clusters in the space of a kernel: kernel k-means, and spectral clustering."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mercer import linalg
from mercer.arrays import smallest
from mercer.checks import check_count, check_nonnegative
from mercer.errors import ApproximationWarning
from mercer.estimators.fitting import with_stored_pairs
from mercer.estimators.inputs import admit_points, forget
from mercer.estimators.lengthscales import warn_of_lengthscale
from mercer.features import FeatureMap, Nystroem
from mercer.features.centres import KMeansPlusPlus, Uniform
from mercer.features.inputs import KernelInput, KernelLike, length
from mercer.functions import FeatureFunction, RKHSFunction
from mercer.kernels.base import Kernel
from mercer.kernels.measures import Seed, generator
from mercer.operators import FeatureMatrix, Gram, MappedRows, RowPass
from mercer.points import PointSet

LEAST_DEGREE = 1e-2  # of the mean degree: what estimated degrees are raised to
INITS = ("k-means++", "random")


@dataclass(eq=False, repr=False, kw_only=True)
class _Clusters(KernelInput, ClusterMixin, BaseEstimator):
    """What both share: a kernel, or a feature map in its place."""

    kernel: KernelLike = "rbf"
    gamma: float | str | None = None
    degree: float = 3
    coef0: float = 1
    kernel_params: dict[str, Any] | None = None
    features: int | FeatureMap | None = None
    random_state: Seed = None

    _allow_indefinite = True

    def _map(self, kernel: Kernel, X: Any) -> FeatureMap | None:
        """The fitted feature map that stands for the kernel, if one was asked for."""
        if self.features is None:
            return None
        if self._is_precomputed():
            raise ValueError("features are of points, and a precomputed kernel has none.")
        if isinstance(self.features, Integral) and not isinstance(self.features, bool):
            check_count(self, "features", self.features)
            count = min(int(self.features), length(X))
            return Nystroem(kernel, centres=Uniform(count, self.random_state)).fit(X)
        if not isinstance(self.features, FeatureMap):
            raise ValueError(
                "features must be a feature map, as RandomFourierFeatures(n_components=200), or "
                f"the number of Nyström centres; got {self.features!r}."
            )
        known = hasattr(self.features, "kernel_")
        return self.features if known else self.features.fit(X)


@dataclass(eq=False, repr=False)
class KernelKMeans(_Clusters):
    """k-means in the space of a kernel: clusters whose means μ_c are functions of that space.

    Minimises Σ_i w_i ‖k(x_i, ·) − μ_{c(i)}‖² by Lloyd's iteration, each step of which is one
    product with the Gram matrix, that is never stored. With `features`, points are replaced by
    their features, at a cost linear in their number.

    Parameters
    ----------
    n_clusters : int, default=8
    kernel : Kernel, str or callable, default="rbf"
    gamma, degree, coef0, kernel_params :
        Parameters of named and callable kernels, as in scikit-learn.
    init : {"k-means++", "random"}, default="k-means++"
        Points with which clusters begin: spread out in the space of the kernel, or drawn at random.
    n_init : int, default=3
        How often to begin; the best end counts.
    max_iter : int, default=300
    tol : float, default=1e-6
        Stop where a step lowers the objective by no more than that share.
    features : int or feature map, optional
        So many Nyström centres, or any map of `mercer.features`, for many rows.
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    labels_ : array of shape (n,)
    inertia_ : float
        The objective.
    n_iter_ : int
    function_ : RKHSFunction or FeatureFunction
        The means, one output for each cluster.
    kernel_ : Kernel

    References
    ----------
    Dhillon, Guan, Kulis, Kernel k-means, spectral clustering and normalized cuts, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(200, factor=0.2, noise=0.03, random_state=0)
    >>> labels = KernelKMeans(2, gamma=5.0, random_state=0).fit_predict(X)
    >>> bool(np.mean(labels == y) in (0.0, 1.0))
    True
    """

    n_clusters: int = 8
    _: KW_ONLY
    init: str = "k-means++"
    n_init: int = 3
    max_iter: int = 300
    tol: float = 1e-6

    _takes_clusters = True

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find clusters. y is not used."""
        self._check_parameters()
        X, weights = admit_points(self, X, sample_weight)
        kernel = self._resolved_kernel(X)
        points = self._training_points(kernel, X)
        n = len(points)
        weights = np.ones(n) if weights is None else weights
        if np.count_nonzero(weights) < self.n_clusters:
            raise ValueError(
                f"n_samples={np.count_nonzero(weights)} should be >= n_clusters={self.n_clusters}."
            )
        phi = self._map(kernel, X)
        gram, stop = with_stored_pairs(Gram(kernel, points)), (self.max_iter, self.tol)
        lloyd: _Lloyd | _LloydOnFeatures = (
            _Lloyd(gram, weights, *stop)
            if phi is None
            else _LloydOnFeatures(phi.matrix(X), points.vector(weights), *stop)
        )
        random = generator(self.random_state)
        ends = [lloyd.run(self._start(gram, weights, random)) for _ in range(self.n_init)]
        self.labels_, self.inertia_, self.n_iter_, converged = min(ends, key=lambda end: end[1])
        if not converged:
            warnings.warn(
                f"KernelKMeans stopped after max_iter={self.max_iter} steps: allow more.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self._keep(gram, kernel, points, phi, X, weights)
        warn_of_lengthscale(kernel, points)
        return self

    def _start(self, gram: Gram, weights: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """The rows with which clusters begin."""
        kernel, points = cast(Kernel, gram.kernel), gram.x
        able = np.flatnonzero(weights)
        most = points.machine.pool_rows * self.n_clusters
        if len(able) > most:  # some of them are enough to begin with
            able = random.choice(able, int(most), replace=False)
        if self.init == "random":
            return random.choice(able, self.n_clusters, replace=False)
        choice = KMeansPlusPlus(self.n_clusters, int(random.integers(2**31)))
        chosen = able[choice.choose(kernel, points.take(able)).indices]
        missing = self.n_clusters - len(chosen)  # where points coincide
        rest = np.setdiff1d(able, chosen)
        return np.r_[chosen, random.choice(rest, missing, replace=False)] if missing else chosen

    def _keep(
        self,
        gram: Gram,
        kernel: Kernel,
        points: PointSet,
        phi: FeatureMap | None,
        X: Any,
        weights: np.ndarray,
    ) -> None:
        shares = _shares(points.vector(self.labels_), weights, self.n_clusters)
        f: RKHSFunction | FeatureFunction
        if phi is None:
            f = RKHSFunction(kernel, points, shares.astype(points.dtype))
            image = np.asarray(gram @ shares, np.float64)
            self._norms = np.einsum("ij,ij->j", shares, image)
        else:
            means = np.asarray(phi.matrix(X).transposed_product(shares))
            f, self._norms = phi.function(means), np.einsum("ij,ij->j", means, means)
        self.function_, self.kernel_ = f, kernel

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "kernel_")  # which is set last

    def relative_distances(self, X: Any) -> np.ndarray:
        """½‖μ_c‖² − μ_c(x) for every row and cluster: half the squared distance, less ½k(x, x)."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        coefficients = getattr(self.function_, "coefficients", None)
        inner = X @ coefficients if self._is_precomputed() else self.function_(X)
        return 0.5 * self._norms - np.asarray(inner, np.float64)

    def predict(self, X: Any) -> np.ndarray:
        """The cluster whose mean is nearest, for every row."""
        return np.argmin(self.relative_distances(X), axis=1)

    def _check_parameters(self) -> None:
        for name in ("n_clusters", "n_init", "max_iter"):
            check_count(self, name, getattr(self, name))
        check_nonnegative(self, "tol", self.tol)
        if self.init not in INITS:
            raise ValueError(f"init must be one of {list(INITS)}; got {self.init!r}.")


def _shares(labels: Any, weights: Any, clusters: int) -> Any:
    """A with the means as μ_c = Σ_i A_ic k(x_i, ·)."""
    inside = (labels[:, None] == np.arange(clusters)) * weights[:, None]
    return inside / np.maximum(inside.sum(axis=0), np.finfo(np.float64).tiny)


End = tuple[np.ndarray, float, int, bool]
"""Labels, objective, steps, and whether they settled."""


@dataclass(frozen=True, eq=False)
class _Lloyd:
    """Lloyd's iteration on products with K alone."""

    gram: Gram
    weights: np.ndarray
    steps: int
    tol: float

    @cached_property
    def diagonal(self) -> np.ndarray:
        return np.asarray(self.gram.diagonal(), np.float64)

    def run(self, start: np.ndarray) -> End:
        """Where it ends, from the points that begin."""
        clusters = len(start)
        shares = np.zeros((len(self.weights), clusters))
        shares[start, np.arange(clusters)] = 1.0
        labels, objective = np.zeros(len(self.weights), int), np.inf
        for step in range(1, self.steps + 1):
            before, objective_before = labels, objective
            labels, objective = self._assigned(shares)
            shares = _shares(labels, self.weights, clusters)
            settled = np.array_equal(labels, before)
            if settled or objective_before - objective <= self.tol * abs(objective):
                return labels, self._assigned(shares)[1], step, True
        return labels, objective, self.steps, False

    def _assigned(self, shares: np.ndarray) -> tuple[np.ndarray, float]:
        """The nearest mean of each point, and the objective; no cluster is left empty."""
        inner = np.asarray(self.gram @ shares.astype(self.gram.dtype), np.float64)
        distances = np.einsum("ij,ij->j", shares, inner) - 2.0 * inner
        labels = np.argmin(distances, axis=1)
        nearest = distances[np.arange(len(labels)), labels] + self.diagonal
        objective = float(self.weights @ nearest)
        counts = np.bincount(labels, self.weights > 0, minlength=shares.shape[1])
        for empty in np.flatnonzero(counts == 0):  # it gets the point farthest from its mean
            alone = counts[labels] > 1
            farthest = int(np.argmax(np.where(alone & (self.weights > 0), nearest, -np.inf)))
            counts[labels[farthest]] -= 1
            labels[farthest], counts[empty], nearest[farthest] = empty, 1, -np.inf
        return labels, objective


@dataclass(frozen=True, eq=False)
class NearestMean:
    """The row map of Lloyd's step: inner products with means ↦ the weight of a row at its mean.

    Sums are the weights of the clusters and the objective; labels and distances are handed back.
    """

    squares: np.ndarray
    weights: Any

    def __call__(self, start: int, stop: int, rows: Any) -> MappedRows:
        distances = self.squares - 2.0 * np.asarray(rows, np.float64)
        labels, weights = np.argmin(distances, axis=1), self.weights[start:stop]
        nearest = distances[np.arange(len(labels)), labels]
        inside = (labels[:, None] == np.arange(len(self.squares))) * weights[:, None]
        sums = np.append(inside.sum(axis=0), weights @ nearest)
        return MappedRows(inside, sums, np.stack([labels, nearest], axis=1))


@dataclass(frozen=True, eq=False)
class _LloydOnFeatures:
    """The same on features: a step is a row pass, which takes means and gives sums of clusters."""

    matrix: FeatureMatrix
    weights: Any
    steps: int
    tol: float

    def run(self, start: np.ndarray) -> End:
        """Where it ends, from the points that begin."""
        means = np.asarray(self.matrix[start].dense(), np.float64).T
        labels, objective = np.full(len(self.weights), -1), np.inf
        for step in range(1, self.steps + 1):
            before, objective_before = labels, objective
            nearest = self._nearest(means)
            labels, objective = nearest.values[:, 0], float(nearest.sums[-1])
            means = self._means(nearest)
            if not bool((labels != before).any()):
                return np.asarray(labels).astype(int), objective, step, True
            if objective_before - objective <= self.tol * abs(objective):
                return (
                    np.asarray(labels).astype(int),
                    float(self._nearest(means).sums[-1]),
                    step,
                    True,
                )
        return np.asarray(labels).astype(int), objective, self.steps, False

    def _nearest(self, means: np.ndarray) -> RowPass:
        squares = np.einsum("ij,ij->j", means, means)
        return self.matrix.row_pass(means, NearestMean(squares, self.weights))

    def _means(self, nearest: RowPass) -> np.ndarray:
        """The means of clusters; those without weight begin at the points farthest from theirs."""
        totals, counts = np.asarray(nearest.product), nearest.sums[:-1]
        means = totals / np.maximum(counts, np.finfo(np.float64).tiny)
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            away = np.where(self.weights > 0, nearest.values[:, 1], -np.inf)
            means[:, empty] = np.asarray(self.matrix[smallest(-away, len(empty))].dense()).T
        return means


@dataclass(eq=False, repr=False)
class SpectralClustering(_Clusters):
    """Normalised cuts of the graph whose edges weigh k(x_i, x_j), by its leading eigenvectors.

    The eigenvectors of D^{−1/2}(K − diag K)D^{−1/2} come from products with the Gram matrix, which
    is never stored, and are clustered by k-means, as scikit-learn does with a stored matrix.

    With `features` the affinities are ⟨φ(x), φ(y)⟩, of a point with itself too, and everything is
    linear in the number of rows. Random features make some of these negative, and so perhaps a
    degree; a degree of less than 1 % of the mean is raised to that, and a warning says of how many.

    Parameters
    ----------
    n_clusters : int, default=8
    kernel : Kernel, str or callable, default="rbf"
        With values ≥ 0.
    gamma : float, default=1.0
    degree, coef0, kernel_params :
        Parameters of named and callable kernels, as in scikit-learn.
    n_components : int, optional
        How many eigenvectors; `n_clusters` by default.
    n_init : int, default=10
        How often k-means begins.
    eigen_tol : float, default=1e-8
        The residual of eigenvectors.
    features : int or feature map, optional
        So many Nyström centres, or any map of `mercer.features`.
    random_state : int, RandomState instance or None

    Attributes
    ----------
    labels_ : array of shape (n,)
    embedding_ : array of shape (n, components)
        The eigenvectors, divided by the roots of the degrees.
    eigenvalues_ : array
        Of the normalised affinities, in falling order: 1 for each connected part.
    kernel_ : Kernel

    References
    ----------
    von Luxburg, A tutorial on spectral clustering, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(300, noise=0.05, random_state=0)
    >>> labels = SpectralClustering(2, gamma=30.0, random_state=0).fit_predict(X)
    >>> bool(np.mean(labels == y) in (0.0, 1.0))
    True
    """

    n_clusters: int = 8
    _: KW_ONLY
    gamma: float | str | None = 1.0
    n_components: int | None = None
    n_init: int = 10
    eigen_tol: float = 1e-8

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find clusters. y is not used."""
        for name in ("n_clusters", "n_init"):
            check_count(self, name, getattr(self, name))
        count = self.n_clusters if self.n_components is None else self.n_components
        check_count(self, "n_components", count)
        forget(self)
        X, _ = admit_points(self, X, None)
        if length(X) < self.n_clusters:
            raise ValueError(f"n_samples={length(X)} should be >= n_clusters={self.n_clusters}.")
        kernel = self._resolved_kernel(X)
        points, phi = self._training_points(kernel, X), self._map(kernel, X)
        if phi is None:
            gram = with_stored_pairs(Gram(kernel, points))
            self.eigenvalues_, self.embedding_ = self._exact(gram, count)
        else:
            self.eigenvalues_, self.embedding_ = _by_features(phi, X, count)
        self.kernel_ = kernel
        state = int(generator(self.random_state).integers(2**31))
        means = KMeans(self.n_clusters, n_init=self.n_init, random_state=state)
        self.labels_ = means.fit(self.embedding_).labels_
        warn_of_lengthscale(kernel, points)
        return self

    def _exact(self, gram: Gram, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The leading eigenvectors of the normalised affinities, as an embedding."""
        n = gram.shape[0]
        diagonal = np.asarray(gram.diagonal(), np.float64)
        degrees = np.asarray(gram @ np.ones(n, gram.dtype), np.float64) - diagonal
        if not (degrees > -1e-9 * diagonal.max(initial=1.0)).all():
            raise ValueError(
                f"affinities must be ≥ 0, and those of {gram.kernel!r} add up to "
                f"{degrees.min():.3g} at some point: choose a kernel with values ≥ 0."
            )
        roots = np.where(degrees > 0, 1.0 / np.sqrt(np.where(degrees > 0, degrees, 1.0)), 0.0)

        def multiply(block: np.ndarray) -> np.ndarray:
            scaled = roots[:, None] * block
            image = np.asarray(gram @ scaled.astype(gram.dtype), np.float64)
            return roots[:, None] * (image - diagonal[:, None] * scaled)

        floor = 64.0 * float(np.finfo(gram.dtype).eps)
        pairs = linalg.leading_eigenpairs(
            multiply, n, count, tolerance=max(self.eigen_tol, floor), random_state=0
        )
        return pairs.values, pairs.vectors * np.where(roots > 0, roots, 1.0)[:, None]


def _by_features(phi: FeatureMap, X: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The same for ZZᵀ: the eigenvectors of ZᵀD⁻¹Z, and their images on all rows."""
    ones = np.ones((length(X), 1))
    degrees = np.asarray(phi.values(X, phi.weighted_sum(X, ones)), np.float64)[:, 0]
    least = LEAST_DEGREE * float(degrees.mean())
    if not least > 0:
        raise ValueError(
            "the features give affinities that add up to 0 or less: take more of them."
        )
    low = degrees < least
    if low.any():
        warnings.warn(
            f"the features give {int(low.sum())} of {len(low)} points a degree below 1 % of the "
            "mean, perhaps a negative one; it is raised to that. Take more features, or Nyström "
            "centres.",
            ApproximationWarning,
            stacklevel=3,
        )
        degrees = np.maximum(degrees, least)
    values, turns = linalg.eigen(phi.normal_equations(X, ones[:, 0], 1.0 / degrees).gram)
    values, turns = values[::-1][:count], turns[:, ::-1][:, :count]
    roots = np.sqrt(np.maximum(values, np.finfo(np.float64).eps))
    return values, np.asarray(phi.values(X, turns / roots), np.float64) / degrees[:, None]
