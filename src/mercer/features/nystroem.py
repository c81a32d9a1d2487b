"""Nyström features: the kernel between a point and a few centres."""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer import linalg
from mercer.arrays import to_precision
from mercer.checks import check_object, is_count
from mercer.errors import IndefiniteKernelWarning
from mercer.features.base import FeatureMap, Fill
from mercer.features.centres import AnyChoice, Choice, Given, Uniform
from mercer.features.inputs import KernelLike, from_tensor, placed_like
from mercer.kernels import laws
from mercer.kernels.base import Kernel
from mercer.kernels.custom import Precomputed
from mercer.kernels.measures import Seed
from mercer.operators import Gram


@dataclass(eq=False, repr=False)
class Nystroem(FeatureMap):
    """φ(x) = K_SS^{−1/2} k(S, x) for centres S: k̂ is k between points near their span.

    It replaces scikit-learn's transformer of the same name: the same parameters come first and mean
    the same, and an int as `random_state` gives the same centres. It works for every kernel and
    every kind of points. k − k̂ is positive semi-definite, so it is biased: k̂(x, x) ≤ k(x, x).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        With "precomputed", `fit` takes K(X, X) and `transform` K(new, X).
    gamma, coef0, degree, kernel_params :
        Parameters of named and callable kernels, as in scikit-learn.
    n_components : int, default=100
        The number of centres, at most that of the points.
    random_state : int, RandomState instance or None
    n_jobs : int or None
        Threads of `transform` at most; None and −1 for as many as BLAS may use.
    centres : choice of `mercer.features.centres`, optional
        How centres are chosen; uniformly by default. It overrides `n_components`.

    Attributes
    ----------
    components_ : array or list
        The centres, as they were given.
    component_indices_ : array or None
        Their row numbers in the training points.
    normalization_ : array
        K_SS^{−1/2}; directions in which K_SS is 0 up to rounding are left out.
    trace_error_ : float
        trace(K − K̂)/trace(K) over the training points, where the choice made it known; see
        `centres.Centres.trace_error`.
    kernel_ : Kernel

    References
    ----------
    Williams and Seeger, Using the Nyström method to speed up kernel machines, 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.features import Nystroem
    >>> X = np.random.default_rng(0).standard_normal((200, 3))
    >>> features = Nystroem(gamma=0.1, n_components=150, random_state=0).fit_transform(X)
    >>> distances = ((X[:, None] - X) ** 2).sum(axis=2)
    >>> bool(np.allclose(features @ features.T, np.exp(-0.1 * distances), atol=1e-3))
    True
    """

    unbiased = False
    _allow_indefinite = True

    kernel: KernelLike = "rbf"
    _: KW_ONLY
    gamma: float | str | None = None
    coef0: float | None = None
    degree: float | None = None
    kernel_params: dict[str, Any] | None = None
    n_components: int = 100
    random_state: Seed = None
    n_jobs: int | None = None
    centres: AnyChoice | None = None

    def _draw(self, X: Any) -> None:
        if self.n_jobs is not None and not (self.n_jobs == -1 or is_count(self.n_jobs)):
            raise ValueError(f"n_jobs must be a whole number ≥ 1, −1 or None; got {self.n_jobs!r}.")
        named = isinstance(self.kernel, (str, Kernel)) and not self._is_precomputed()
        if not named and not (self.gamma is self.coef0 is self.degree is None):
            raise ValueError(
                "Don't pass gamma, coef0 or degree to Nystroem if using a callable or precomputed "
                "kernel: a function takes its parameters from kernel_params."
            )
        if self._is_precomputed():
            self._check_square(X)
        check_object(self, "centres", self.centres)
        kernel, choice = self._resolved_kernel(X), self.centres
        if choice is None:
            choice = Uniform(self.n_components, self.random_state)
        if not isinstance(choice, (Choice, Given)):
            raise ValueError(
                "centres must be a choice of mercer.features.centres such as KMeansPlusPlus(1000), "
                f"Given(points) or Given(indices=[0, 5]), or None to draw n_components; got "
                f"{choice!r}."
            )
        centres = choice.choose(kernel, self._training_points(kernel, X))
        gram = Gram(kernel, centres.points)
        self.normalization_ = inverse_root(gram.astype(np.float64).dense(), gram.dtype)
        self.component_indices_ = centres.indices
        self.components_ = centres.points.data
        self._centres = centres.points
        if centres.factor is not None:
            self.trace_error_ = centres.trace_error
        self.kernel_ = kernel
        if isinstance(kernel, Precomputed):  # only the block of the centres is stored
            self.kernel_ = Precomputed(np.asarray(kernel.matrix)[np.ix_(*2 * [centres.indices])])

    @property
    def feature_count(self) -> int:
        return len(self.normalization_)

    def dtype(self, X: Any) -> np.dtype:
        return np.result_type(super().dtype(X), self.normalization_)

    def _filler(self, dtype: np.dtype) -> Fill:
        root = np.ascontiguousarray(self.normalization_.T)

        def cross(rows: Any) -> np.ndarray:
            if self._is_precomputed():
                return rows[:, self.component_indices_]
            return Gram(self.kernel_, self.kernel_.points(rows), self._centres).dense()

        return lambda rows, out: np.matmul(cross(rows), root, out=out)

    def _formula(self, X: Any) -> Any:
        centres, root = (
            to_precision(placed_like(part, X), X.dtype)
            for part in (self.components_, self.normalization_.T)
        )
        return self.kernel_.gram(X, centres).dense() @ root

    def _threads(self) -> int:
        if not self.kernel_.parallel:
            return 1
        limited = self.n_jobs is not None and self.n_jobs > 0
        return min(super()._threads(), int(self.n_jobs)) if limited else super()._threads()  # type: ignore[arg-type]

    def residuals(self, X: Any) -> np.ndarray:
        """k(x, x) − k̂(x, x) for every point."""
        if self._is_precomputed():
            raise ValueError("a precomputed matrix has no kernel for new points.")
        features = from_tensor(self.transform(X)).astype(np.float64)
        own = Gram(self.kernel_, self.kernel_.points(from_tensor(X))).diagonal()
        return np.maximum(own - np.einsum("ij,ij->i", features, features), 0.0)

    def expected_error(self, X: Any, Y: Any) -> np.ndarray:
        """√(r(x) r(y)) ≥ |k̂(x, y) − k(x, y)| with r = k(x, x) − k̂(x, x): an upper bound."""
        check_is_fitted(self)
        return np.sqrt(self.residuals(X) * self.residuals(Y))

    def _uniform_error(self, radius: float, probability: float) -> float:
        """By a grid: no draw is involved.

        The error is at most the largest residual r(x) in the ball. √r is the distance of k(x, ·)
        from a space, so it changes by ‖k(x, ·) − k(y, ·)‖ at most: a grid of points and the slope
        between them give a bound for stationary kernels on up to three columns; r(x) ≤ k(x, x) is
        one for every bounded kernel. Infinite for others.
        """
        if self._is_precomputed():
            return math.inf
        width = int(getattr(self, "n_features_in_", 0))
        largest = laws.bounded(self.kernel_, width or None)
        limit = float(largest.payload) if largest.yes else math.inf
        measure = laws.spectral_density(self.kernel_, width).payload if 1 <= width <= 3 else None
        if measure is None or not np.isfinite(measure.covariance()).all():
            return limit
        steps = {1: 2048, 2: 64, 3: 16}[width]
        line = radius * (2.0 * np.arange(steps) + 1.0 - steps) / steps
        grid = np.stack(np.meshgrid(*[line] * width), axis=-1).reshape(-1, width)
        gap = radius / steps * math.sqrt(width)  # from the nearest point of the grid
        slope = math.sqrt(measure.total * float(np.linalg.eigvalsh(measure.covariance())[-1]))
        return min(limit, (math.sqrt(float(self.residuals(grid).max())) + slope * gap) ** 2)


def inverse_root(matrix: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
    """K^{−1/2}, symmetric, without the directions in which K is 0 up to the rounding of `dtype`.

    >>> import numpy as np
    >>> root = inverse_root(np.array([[4.0, 0.0], [0.0, 0.0]]))
    >>> root.tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    values, vectors = linalg.eigen(matrix)
    smallest = len(matrix) * float(np.finfo(dtype).eps) * float(np.abs(values).max())
    if values[0] < -smallest:
        warnings.warn(
            f"the kernel is not positive definite: K has the eigenvalue {values[0]:.2g} on the "
            "centres. Directions of negative eigenvalues are left out.",
            IndefiniteKernelWarning,
            stacklevel=5,  # of fit
        )
    large = values > smallest
    roots = np.where(large, 1.0 / np.sqrt(np.where(large, values, 1.0)), 0.0)
    return np.asarray((vectors * roots) @ vectors.T, dtype)
