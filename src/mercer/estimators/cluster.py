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
from mercer.estimators.inputs import KernelParameters, admit_points, forget
from mercer.estimators.lengthscales import warn_of_lengthscale
from mercer.features import FeatureMap, Nystroem
from mercer.features.centres import KMeansPlusPlus, Uniform
from mercer.features.inputs import length
from mercer.functions import FeatureFunction, RKHSFunction
from mercer.kernels.base import Kernel
from mercer.kernels.measures import Seed, generator
from mercer.operators import FeatureMatrix, Gram, MappedRows

LEAST_DEGREE = 1e-2  # of the mean degree: what estimated degrees are raised to
INITS = ("k-means++", "random")


@dataclass(eq=False, repr=False, kw_only=True)
class _Clusters(KernelParameters, ClusterMixin, BaseEstimator):
    """What both share: a kernel, or a feature map in its place."""

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
        for name in ("n_clusters", "n_init", "max_iter"):
            check_count(self, name, getattr(self, name))
        check_nonnegative(self, "tol", self.tol)
        if self.init not in INITS:
            raise ValueError(f"init must be one of {list(INITS)}; got {self.init!r}.")
        X, weights = admit_points(self, X, sample_weight)
        kernel = self._resolved_kernel(X)
        points = self._training_points(kernel, X)
        weights = np.ones(len(points)) if weights is None else weights
        if np.count_nonzero(weights) < self.n_clusters:
            raise ValueError(
                f"n_samples={np.count_nonzero(weights)} should be >= n_clusters={self.n_clusters}."
            )
        phi = self._map(kernel, X)
        gram, random = with_stored_pairs(Gram(kernel, points)), generator(self.random_state)
        space = (
            _OnPoints(gram, weights)
            if phi is None
            else _OnFeatures(phi.matrix(X), points.vector(weights))
        )
        ends = [
            _lloyd(space, self._start(gram, weights, random), self.max_iter, self.tol)
            for _ in range(self.n_init)
        ]
        labels, inertia, steps, converged = min(ends, key=lambda end: end[1])
        shares = _shares(points.vector(labels), weights, self.n_clusters)
        f: RKHSFunction | FeatureFunction
        if phi is None:
            f = RKHSFunction(kernel, points, shares.astype(points.dtype))
            squares = np.einsum("ij,ij->j", shares, np.asarray(gram @ shares, np.float64))
        else:
            means = np.asarray(phi.matrix(X).transposed_product(shares))
            f, squares = phi.function(means), np.einsum("ij,ij->j", means, means)
        fitted = {"labels_": labels, "inertia_": inertia, "n_iter_": steps, "_squares": squares}
        self.__dict__.update(fitted, function_=f, kernel_=kernel)
        if not converged:
            warnings.warn(
                f"KernelKMeans stopped after max_iter={self.max_iter} steps: allow more.",
                ConvergenceWarning,
                stacklevel=2,
            )
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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "kernel_")

    def relative_distances(self, X: Any) -> np.ndarray:
        """½‖μ_c‖² − μ_c(x) for every row and cluster: half the squared distance, less ½k(x, x)."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        coefficients = getattr(self.function_, "coefficients", None)
        inner = X @ coefficients if self._is_precomputed() else self.function_(X)
        return 0.5 * self._squares - np.asarray(inner, np.float64)

    def predict(self, X: Any) -> np.ndarray:
        """The cluster whose mean is nearest, for every row."""
        return np.argmin(self.relative_distances(X), axis=1)


# ---- Lloyd's iteration ---------------------------------------------------------------------------

Step = tuple[Any, float, Any]
"""The nearest mean of each point, the objective, and the means of the clusters so found."""


def _lloyd(
    space: _OnPoints | _OnFeatures, start: np.ndarray, most: int, tol: float
) -> tuple[np.ndarray, float, int, bool]:
    """Labels, objective, steps, and whether they settled, with means that begin at some points."""
    means: Any = space.at(start)
    labels, objective, means = space.step(means)
    steps, converged = 1, False
    while steps < most and not converged:
        before, objective_before = labels, objective
        labels, objective, means = space.step(means)
        steps += 1
        converged = not bool((labels != before).any())
        if not converged and objective_before - objective <= tol * abs(objective):
            converged, objective = True, space.step(means)[1]
    return np.asarray(labels).astype(int), objective, steps, converged


def _inside(labels: Any, weights: Any, clusters: int) -> Any:
    """The weight of each row in the column of its cluster, and 0 elsewhere."""
    return (labels[:, None] == np.arange(clusters)) * weights[:, None]


def _shares(labels: Any, weights: Any, clusters: int) -> Any:
    """A with the means as μ_c = Σ_i A_ic k(x_i, ·)."""
    inside = _inside(labels, weights, clusters)
    return inside / np.maximum(inside.sum(axis=0), np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class _OnPoints:
    """Means Σ_i A_ic k(x_i, ·), given by A: a step is one product with K."""

    gram: Gram
    weights: np.ndarray

    @cached_property
    def diagonal(self) -> np.ndarray:
        return np.asarray(self.gram.diagonal(), np.float64)

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Some points as means."""
        shares = np.zeros((len(self.weights), len(rows)))
        shares[rows, np.arange(len(rows))] = 1.0
        return shares

    def step(self, shares: np.ndarray) -> Step:
        """An empty cluster gets the point farthest from its mean."""
        inner = np.asarray(self.gram @ shares.astype(self.gram.dtype), np.float64)
        distances = np.einsum("ij,ij->j", shares, inner) - 2.0 * inner
        labels = np.argmin(distances, axis=1)
        nearest = distances[np.arange(len(labels)), labels] + self.diagonal
        objective = float(self.weights @ nearest)
        counts = np.bincount(labels, self.weights > 0, minlength=shares.shape[1])
        for empty in np.flatnonzero(counts == 0):
            alone = counts[labels] > 1
            farthest = int(np.argmax(np.where(alone & (self.weights > 0), nearest, -np.inf)))
            counts[labels[farthest]] -= 1
            labels[farthest], counts[empty], nearest[farthest] = empty, 1, -np.inf
        return labels, objective, _shares(labels, self.weights, shares.shape[1])


@dataclass(frozen=True, eq=False)
class NearestMean:
    """The row map of a step on features: inner products with means ↦ weights of rows at theirs.

    Sums are the weights of the clusters and the objective; labels and distances are handed back.
    """

    squares: np.ndarray
    weights: Any

    def __call__(self, start: int, stop: int, rows: Any) -> MappedRows:
        distances = self.squares - 2.0 * np.asarray(rows, np.float64)
        labels, weights = np.argmin(distances, axis=1), self.weights[start:stop]
        nearest = distances[np.arange(len(labels)), labels]
        inside = _inside(labels, weights, len(self.squares))
        sums = np.append(inside.sum(axis=0), weights @ nearest)
        return MappedRows(inside, sums, np.stack([labels, nearest], axis=1))


@dataclass(frozen=True, eq=False)
class _OnFeatures:
    """Means as sums of features: a step is a row pass, which gives the sums of the clusters."""

    matrix: FeatureMatrix
    weights: Any

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Some points as means."""
        return np.asarray(self.matrix[rows].dense(), np.float64).T

    def step(self, means: np.ndarray) -> Step:
        """Clusters without weight begin again at the points farthest from their means."""
        squares = np.einsum("ij,ij->j", means, means)
        found = self.matrix.row_pass(means, NearestMean(squares, self.weights))
        counts, objective = found.sums[:-1], float(found.sums[-1])
        means = np.asarray(found.product) / np.maximum(counts, np.finfo(np.float64).tiny)
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            away = np.where(self.weights > 0, found.values[:, 1], -np.inf)
            means[:, empty] = self.at(smallest(-away, len(empty)))
        return found.values[:, 0], objective, means


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
            values, embedding = self._exact(with_stored_pairs(Gram(kernel, points)), count)
        else:
            values, embedding = _by_features(phi, X, count)
        state = int(generator(self.random_state).integers(2**31))
        means = KMeans(self.n_clusters, n_init=self.n_init, random_state=state).fit(embedding)
        fitted = {"labels_": means.labels_, "embedding_": embedding, "eigenvalues_": values}
        self.__dict__.update(fitted, kernel_=kernel)
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
