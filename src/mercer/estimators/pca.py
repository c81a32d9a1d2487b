"""Kernel principal components: exact, on products alone, on centres, and batch by batch."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.extmath import svd_flip
from sklearn.utils.validation import _check_psd_eigenvalues, check_is_fitted

from mercer import linalg
from mercer.checks import check_nonnegative, is_count
from mercer.estimators.fitting import with_stored_pairs
from mercer.estimators.inputs import KernelParameters, forget
from mercer.estimators.lengthscales import warn_of_lengthscale
from mercer.estimators.ridge import KernelRidge
from mercer.features import NormalEquations, Nystroem
from mercer.features.centres import AnyChoice, Given, Uniform
from mercer.features.inputs import KernelLike, length
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.kernels.measures import Seed
from mercer.operators import Gram, stored_if_small
from mercer.points import VectorPoints
from mercer.runtime.budget import require_room

SOLVERS = ("auto", "dense", "arpack", "randomized")


@dataclass(frozen=True)
class Tuning:
    """When the matrix is stored, and how accurate components are."""

    stored: int = 400  # rows up to which a stored matrix is decomposed at once
    matrices: int = 5  # of this size that it takes
    share: int = 8  # … and one part of n_components in so many rows from which it is anyway
    tolerance: float = 1e-9  # the residual of a pair relative to the largest, in float64, …
    units: float = 64.0  # … and at least so many rounding units of the data
    extra: int = 4  # columns of a block beside the components: two products fewer
    tiny: int = 16  # rows up to which it is so whatever the solver: a block has as many columns
    oversampling: int = 10  # columns of a randomised method beside the components
    batch_centres: int = 500  # drawn from the first batch where nothing is said


@dataclass(eq=False, repr=False)
class KernelPCA(KernelParameters, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Principal components in the space of a kernel.

    It replaces scikit-learn's estimator of the same name: the same parameters come first and mean
    the same. With the centred Gram matrix HKH = VΛVᵀ the coordinates of the training points are
    V√Λ, and those of a new point f(x) − offset for the functions f with coefficients V/√Λ. The
    iterative methods multiply by the Gram matrix, and store it only where it takes less than half
    of the memory budget (`MERCER_MEMORY`, or a quarter of what is free); with `centres`, the
    components are those of the Nyström features, at a cost linear in the number of rows.

    Parameters
    ----------
    n_components : int, optional
        All with an eigenvalue > 0 by default.
    kernel : Kernel, str or callable, default="linear"
    gamma, degree, coef0, kernel_params :
        Parameters of named and callable kernels, as in scikit-learn.
    alpha : float, default=1.0
        The regularisation of the ridge regression that learns `inverse_transform`.
    fit_inverse_transform : bool, default=False
        Whether to learn approximate pre-images; for vectors only.
    eigen_solver : {"auto", "dense", "arpack", "randomized"}, default="auto"
        "dense" stores and decomposes the matrix; "arpack" stands for block Lanczos on products,
        until residuals are below `tol`; "randomized" for a few steps of it, `iterated_power`.
        "auto" is "dense" for few rows or many components, and else "arpack".
    tol : float, default=0
        Where block Lanczos stops: the residual ‖Kv − λv‖ relative to the largest eigenvalue; 0
        stands for 10⁻⁹, and eigenvalues are then exact to rounding, their error being its square.
    max_iter : int, optional
        Its products at most.
    iterated_power : int or "auto", default="auto"
        Products of the randomised method beyond the first.
    remove_zero_eig : bool, default=False
        Whether to leave out components with eigenvalue 0 where `n_components` is given.
    random_state : int, RandomState instance or None
    copy_X : bool, default=True
        Whether the model keeps a copy of X, so that later changes of X do not change it.
    n_jobs : None
        There for scikit-learn's users: mercer uses as many threads as BLAS may.
    centres : int or choice of `mercer.features.centres`, optional
        Seek components among functions with so many centres.

    Attributes
    ----------
    eigenvalues_ : array of shape (components,)
        Of the centred Gram matrix; on centres, of its Nyström approximation.
    eigenvectors_ : array of shape (n, components)
        On all points only.
    explained_variance_ratio_ : array of shape (components,)
        The eigenvalues over the trace of the centred Gram matrix.
    function_ : RKHSFunction
        One output for each component.
    offset_ : array of shape (components,)
        The means of these functions over the training points.
    kernel_, X_fit_, gamma_ :
        The kernel that was used, the training points (or centres), gamma of named kernels.
    dual_coef_, X_transformed_fit_ : with `fit_inverse_transform`.

    References
    ----------
    Schölkopf, Smola, Müller, Nonlinear component analysis as a kernel eigenvalue problem, 1998;
    Bakır, Weston, Schölkopf, Learning to find pre-images, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> pca = KernelPCA(2, kernel=Gaussian(2.0)).fit(X)
    >>> Z = pca.transform(X)
    >>> bool(np.allclose(Z.T @ Z, np.diag(pca.eigenvalues_)))
    True
    """

    n_components: int | None = None
    _: KW_ONLY
    kernel: KernelLike = "linear"
    alpha: float = 1.0
    fit_inverse_transform: bool = False
    eigen_solver: str = "auto"
    tol: float = 0
    max_iter: int | None = None
    iterated_power: int | str = "auto"
    remove_zero_eig: bool = False
    random_state: Seed = None
    copy_X: bool = True
    n_jobs: int | None = None
    centres: int | AnyChoice | None = None

    _allow_indefinite = True
    _takes_clusters = True
    _tuning = Tuning()

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of the points X. y is not used."""
        self._check_parameters()
        forget(self)
        given, X = X, self._checked(X, reset=True)
        if self.copy_X and X is given and hasattr(X, "copy"):
            X = X.copy()
        self._check_inverse(X)
        if self.centres is None:
            fitted, self._sums = self._on_all_points(X), None
        else:
            self._sums = _Sums.of(self._map(X, self.centres), X)
            fitted = self._on_features(self._sums)
        self.__dict__.update(fitted, gamma_=self._gamma(X))
        if self.fit_inverse_transform:
            self._learn_inverse(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """The coordinates of X in its own components."""
        self.fit(X)
        if self.centres is None:
            return self._training_coordinates()
        return self.transform(X)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add a batch of points: the components are those of all batches so far, on centres.

        Centres are drawn from the first batch, `centres` of them or 500; the model keeps sums over
        points, not points, so that batches can be dropped.
        """
        self._check_parameters()
        if self.fit_inverse_transform:
            raise ValueError(
                "partial_fit keeps no points to learn pre-images from: write "
                "fit_inverse_transform=False, or call fit."
            )
        known: _Sums | None = getattr(self, "_sums", None)
        X = self._checked(X, reset=known is None)
        if known is None:
            count = min(length(X), self._tuning.batch_centres)
            sums = _Sums.of(self._map(X, count if self.centres is None else self.centres), X)
        else:
            sums = known + _Sums.of(known.features, X)
        self.__dict__.update(self._on_features(sums), gamma_=self._gamma(X), _sums=sums)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The coordinates of points in the components."""
        check_is_fitted(self, "eigenvalues_")
        X = self._checked(X, reset=False)
        f = self.function_
        if self._is_precomputed():
            return X @ f.coefficients.astype(X.dtype) - self.offset_.astype(X.dtype)
        values = f(X)
        return values - self.offset_.astype(values.dtype)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Approximate pre-images of points given by their coordinates."""
        if not self.fit_inverse_transform:
            raise NotFittedError(
                "inverse_transform needs pre-images, which fit did not learn: write "
                "KernelPCA(fit_inverse_transform=True)."
            )
        check_is_fitted(self, "dual_coef_")
        return self._inverse.predict(X)

    # ---- on all points --------------------------------------------------------------------------

    def _on_all_points(self, X: Any) -> dict[str, Any]:
        kernel = self._resolved_kernel(X)
        if self._is_precomputed():
            self._check_square(X)
        points = self._training_points(kernel, X)
        warn_of_lengthscale(kernel, points)
        gram = with_stored_pairs(Gram(kernel, points))
        n = gram.shape[0]
        count = n if self.n_components is None else min(n, self.n_components)
        means, values, vectors = self._eigenpairs(gram, count)
        trace = float(np.sum(gram.diagonal(), dtype=np.float64)) - n * float(means.mean())
        values, vectors = self._components(values.astype(gram.dtype), vectors)
        roots = np.sqrt(values)
        coefficients = vectors * np.divide(1.0, roots, out=np.zeros_like(roots), where=values > 0)
        coefficients -= coefficients.mean(axis=0)  # rounding only: K is centred
        return {
            "offset_": means @ coefficients,
            "explained_variance_ratio_": values / trace if trace > 0 else 0.0 * values,
            "kernel_": kernel,
            "X_fit_": X,
            "function_": RKHSFunction(kernel, points, coefficients.astype(gram.dtype)),
            "eigenvectors_": vectors.astype(gram.dtype),
            "eigenvalues_": values,
        }

    def _components(self, values: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues ≥ 0 and vectors of known sign, without those that are left out."""
        values = _check_psd_eigenvalues(values, enable_warnings=False)
        vectors, _ = svd_flip(u=vectors, v=None)
        if self.remove_zero_eig or self.n_components is None:
            values, vectors = values[values > 0], vectors[:, values > 0]
        return values, vectors

    def _eigenpairs(self, gram: Gram, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The column means of K, and eigenpairs of HKH in falling order."""
        n, solver, few = gram.shape[0], self.eigen_solver, self._tuning
        if solver == "auto":
            dense = n <= few.stored or self.n_components is None or few.share * count > n
            solver = "dense" if dense else "arpack"
        if solver == "dense" or n <= few.tiny:
            what = f"KernelPCA of {count} components of {n} points stores its matrix, which"
            require_room(what, few.matrices * 8 * n * n, "Write n_components=10", gram.memory)
            by_size = solver == "randomized"
            return _dense_eigenpairs(gram.dense().astype(np.float64), count, by_size)
        gram = stored_if_small(gram)
        sums: list[np.ndarray] = []

        def multiply(block: np.ndarray) -> np.ndarray:
            """HKH V; the first time K1, too, in the same product."""
            columns = block - block.mean(axis=0)
            columns = columns if sums else np.column_stack([columns, np.ones(n)])
            image = np.asarray(gram @ columns.astype(gram.dtype, copy=False), np.float64)
            if not sums:
                sums.append(image[:, -1])
                image = image[:, :-1]
            return image - image.mean(axis=0)

        randomized, powers = solver == "randomized", self.iterated_power
        if powers == "auto":
            powers = 7 if count < 0.1 * n else 4
        steps = 1 + int(powers) if randomized else self.max_iter or 300
        floor = few.units * float(np.finfo(gram.dtype).eps)
        pairs = linalg.leading_eigenpairs(
            multiply,
            n,
            count,
            tolerance=max(float(self.tol) or few.tolerance, floor),
            iterations=steps,
            by_size=randomized,
            extra=few.oversampling if randomized else few.extra,
            random_state=self.random_state,
        )
        return sums[0] / n, pairs.values, pairs.vectors

    def _training_coordinates(self) -> np.ndarray:
        return self.eigenvectors_ * np.sqrt(self.eigenvalues_).astype(self.eigenvectors_.dtype)

    # ---- on features ----------------------------------------------------------------------------

    def _map(self, X: Any, centres: Any) -> Nystroem:
        """The Nyström features of some centres."""
        kernel = self._resolved_kernel(X)
        points = self._training_points(kernel, X, centres)
        if isinstance(centres, Integral):
            centres = Uniform(min(int(centres), len(points)), self.random_state)
        return Nystroem(kernel, centres=centres).fit(X)

    def _on_features(self, sums: _Sums) -> dict[str, Any]:
        """From ZᵀHZ, whose eigenvalues are those of the Nyström approximation of HKH."""
        phi, kernel, count = sums.features, sums.features.kernel_, sums.equations.total
        means = sums.equations.feature_sums / count
        covariance = sums.equations.gram - count * means[:, None] * means
        trace = max(sums.diagonal - count * float(means @ means), math.ulp(0.0))
        values, turns = linalg.eigen(covariance)
        most = len(values) if self.n_components is None else min(len(values), self.n_components)
        values, turns = self._components(values[::-1][:most], turns[:, ::-1][:, :most])
        coefficients = np.asarray(phi.normalization_, np.float64).T @ turns
        centres = kernel.points(phi.components_)
        return {
            "offset_": means @ turns,
            "explained_variance_ratio_": values / trace,
            "kernel_": kernel,
            "X_fit_": phi.components_,
            "function_": RKHSFunction(kernel, centres, coefficients.astype(centres.dtype)),
            "eigenvalues_": values,
        }

    # ---- pre-images -----------------------------------------------------------------------------

    def _check_inverse(self, X: Any) -> None:
        if not self.fit_inverse_transform:
            return
        if self._is_precomputed():
            raise ValueError("Cannot fit_inverse_transform with a precomputed kernel.")
        if hasattr(X, "tocsr"):
            raise NotImplementedError("Inverse transform not implemented for sparse matrices!")
        if not isinstance(self._resolved_kernel(X).points(X), VectorPoints):
            raise ValueError("pre-images are vectors: inverse_transform is for vectors only.")

    def _learn_inverse(self, X: Any) -> None:
        """Ridge regression of the points on their coordinates, with the same kernel."""
        coordinates = self._training_coordinates() if self.centres is None else self.transform(X)
        params: dict[str, Any] = {"kernel": self.kernel}
        if not isinstance(self.kernel, Kernel):
            params |= {"gamma": self.gamma_, "degree": self.degree, "coef0": self.coef0}
            params |= {"kernel_params": self.kernel_params}
        self._inverse = KernelRidge(self.alpha, **params).fit(coordinates, X)
        self.dual_coef_, self.X_transformed_fit_ = self._inverse.dual_coef_, coordinates

    # ---- scikit-learn ---------------------------------------------------------------------------

    def _gamma(self, X: Any) -> Any:
        width = getattr(X, "shape", (0, 0))[-1] if not self._holds_objects(X) else 0
        return 1.0 / width if self.gamma is None and width else self.gamma

    def _check_parameters(self) -> None:
        if self.n_components is not None and not is_count(self.n_components):
            raise ValueError(
                f"n_components must be a whole number ≥ 1 or None; got {self.n_components!r}."
            )
        if self.eigen_solver not in SOLVERS:
            raise ValueError(
                f"eigen_solver must be one of {list(SOLVERS)}; got {self.eigen_solver!r}."
            )
        for name in ("alpha", "tol"):
            check_nonnegative(self, name, getattr(self, name))
        power = self.iterated_power
        if power != "auto" and not (isinstance(power, Integral) and power >= 0):
            raise ValueError(f'iterated_power must be "auto" or a whole number ≥ 0; got {power!r}.')
        known = self.centres is None or is_count(self.centres) or hasattr(self.centres, "choose")
        if not known:
            raise ValueError(
                "centres must be how many, or a choice of mercer.features.centres such as "
                f"{Given.__name__}(points); got {self.centres!r}."
            )

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over points of their features, and of k(x, x): all that components on centres need."""

    features: Nystroem
    equations: NormalEquations
    diagonal: float

    @classmethod
    def of(cls, features: Nystroem, X: Any) -> _Sums:
        diagonal = Gram(features.kernel_, features.kernel_.points(X)).diagonal()
        equations = features.normal_equations(X, np.ones(length(X)))
        return cls(features, equations, float(np.sum(diagonal, dtype=np.float64)))

    def __add__(self, other: _Sums) -> _Sums:
        diagonal = self.diagonal + other.diagonal
        return _Sums(self.features, self.equations + other.equations, diagonal)


def _dense_eigenpairs(
    matrix: np.ndarray, count: int, by_size: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The column means of K, and the leading eigenpairs of HKH; K is overwritten."""
    means = matrix.mean(axis=0)
    matrix -= means
    matrix -= matrix.mean(axis=1)[:, None]
    values, vectors = linalg.eigen(matrix)
    order = np.argsort(-np.abs(values) if by_size else -values, kind="stable")[:count]
    return means, values[order], vectors[:, order]
