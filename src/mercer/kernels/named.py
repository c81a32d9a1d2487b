"""Kernels from what users already have: names of scikit-learn, other distances, functions.

One rule for each name stands in `NAMES`. Whether a function takes points or blocks is decided by
trying it.
"""

from __future__ import annotations

import difflib
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.arrays import as_numpy, beside, namespace, to_precision
from mercer.kernels.base import Kernel
from mercer.kernels.coordinates import ChiSquared, Laplacian
from mercer.kernels.custom import BlockKernel, PairKernel, Precomputed
from mercer.kernels.inner_product import Linear, Polynomial, Sigmoid
from mercer.kernels.radial import Exponential, Gaussian, Radial
from mercer.points import PointSet, as_points, as_vectors

EUCLIDEAN = ("euclidean", "l2")
L1 = ("l1", "manhattan", "cityblock")
DISTANCES_OF = 500  # points whose distances have their median taken
TINY = 1e-290  # below which numbers of float64 lose digits


@dataclass(frozen=True)
class Request:
    """The options of `as_kernel`, for the rules."""

    gamma: float | str | None = None
    degree: float = 3
    coef0: float = 1
    n_features: int | None = None
    X: Any = None
    allow_indefinite: bool = False
    weights: Any = None

    def width(self) -> int | None:
        """The number of columns, where it is known."""
        if self.n_features is not None or self.X is None:
            return self.n_features
        return as_vectors(self.X).width

    def positive_gamma(self) -> float:
        """γ as a number: given, or from the data."""
        gamma = self.gamma
        if isinstance(gamma, str) and gamma in ("scale", "median"):
            gamma = _scale_gamma(self.X)  # a kernel of inner products has no distances
        elif gamma is None or (isinstance(gamma, str) and gamma == "auto"):
            width = self.n_features or self.width()
            if width is None:
                raise ValueError(
                    f"gamma={gamma!r} means 1/n_features, and the number of features is not "
                    "known: write gamma=0.1, n_features=3 or X=X."
                )
            gamma = 1.0 / width
        if isinstance(gamma, Real) and math.isfinite(gamma) and gamma > 0:
            return float(gamma)
        raise ValueError(
            "gamma must be a positive number, None, 'auto', 'scale' or 'median'; got "
            f"{self.gamma!r}. Write for example gamma=0.1."
        )

    def lengthscale(self, metric: str) -> float:
        """ℓ with γ = 1/(2ℓ²), for the city-block metric 1/ℓ; gamma="median" is that distance."""
        if not (isinstance(self.gamma, str) and self.gamma == "median"):
            gamma = self.positive_gamma()
            return 1.0 / gamma if metric == "cityblock" else (2.0 * gamma) ** -0.5
        if self.X is None:
            raise ValueError("gamma='median' needs the data: write X=X, or gamma=0.1.")
        return median_distance(as_vectors(self.X).rows, self.weights, metric)

    def refuse(self, reason: str, alternative: str) -> None:
        """Refuse what is not positive definite, unless that was asked for."""
        if not self.allow_indefinite:
            raise ValueError(
                f"{reason} {alternative} To use it all the same, pass allow_indefinite=True."
            )


def _scale_gamma(data: Any) -> float:
    """SVC's gamma="scale", 1/(n_features · variance); 1 where all values are equal."""
    if data is None:
        raise ValueError("gamma='scale' needs the variance of the data: write X=X, or gamma=0.1.")
    points = as_vectors(data)
    variance = variance_of_entries(points.rows)
    return 1.0 / (points.width * variance) if variance else 1.0


def variance_of_entries(rows: Any, weights: Any = None) -> float:
    """The variance of all entries in float64, whatever their precision is.

    A row of weight 2 counts twice. Entries that a sparse matrix does not store are zeros.

    >>> variance_of_entries(np.array([[1e25, -1e25]], np.float32)) < np.inf
    True
    """
    if weights is not None and (weights == 1).all():
        weights = None
    if hasattr(rows, "tocsr"):
        rows = rows.tocsr()
        values = np.asarray(rows.data, np.float64)
        own = np.ones(rows.shape[0]) if weights is None else np.asarray(weights, np.float64)
        stored, total = np.diff(rows.indptr), float(own.sum()) * rows.shape[1]
        each, zeros = np.repeat(own, stored), float(own @ (rows.shape[1] - stored))
        mean = float(each @ values) / total
        return float(each @ (values - mean) ** 2 + zeros * mean**2) / total
    if weights is None and isinstance(rows, np.ndarray):
        return float(rows.var(dtype=np.float64))
    rows = to_precision(rows, "float64")
    if weights is None:
        return float(namespace(rows).var(rows))
    own, total = beside(weights, rows), float(weights.sum()) * rows.shape[1]
    mean = float((own @ rows).sum()) / total
    return float((own @ (rows - mean) ** 2).sum()) / total


def median_distance(X: Any, weights: Any = None, metric: str = "euclidean") -> float:
    """The median distance of distinct points, 1 where all coincide; a sample of many points.

    Points without weight do not count, and repeated points count once.

    >>> median_distance(np.array([[0.0], [1.0], [3.0], [3.0]]))
    2.0
    """
    most = DISTANCES_OF
    used = np.arange(X.shape[0]) if weights is None else np.flatnonzero(as_numpy(weights))
    many = used[:: max(1, len(used) // (most if X.shape[1] > most else 10 * most))]
    rows = X[many].toarray() if hasattr(X, "toarray") else X[many]
    rows = np.unique(np.asarray(as_numpy(rows), np.float64), axis=0)
    rows = rows[:: max(1, len(rows) // most)]
    distances = scipy.spatial.distance.pdist(rows, metric)
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0


def is_from_data(kernel: Any, gamma: Any) -> bool:
    """Whether a kernel given by name takes its γ from the spread of the data.

    >>> is_from_data("rbf", "median"), is_from_data("rbf", 0.5), is_from_data("linear", "scale")
    (True, False, False)
    """
    if not (isinstance(kernel, str) and isinstance(gamma, str)) or gamma == "auto":
        return False
    takes_gamma = {"rbf", "laplacian", "poly", "polynomial", "sigmoid"}
    return kernel in takes_gamma or (kernel == "chi2" and gamma == "scale")


def is_whole(value: Any) -> bool:
    """Whether this is a whole number, as an int or a float."""
    return isinstance(value, Real) and float(value).is_integer()


def dense(matrix: Any) -> np.ndarray:
    """The matrix as an array; sparse ones are filled up."""
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)


# ---- names ---------------------------------------------------------------------------------------


def refuse_name(name: str) -> Kernel:
    """Refuse a name that is none, and say the nearest one."""
    close = difflib.get_close_matches(name.lower(), NAMES, n=1)
    question = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"there is no kernel {name!r}.{question} The names are {sorted(NAMES)}.")


def _additive_chi2(request: Request) -> Kernel:
    request.refuse(
        "'additive_chi2' is −Σ (x − y)²/(x + y), which is only conditionally positive definite: "
        "its diagonal is 0.",
        "Write 'chi2', its exponential, which is positive definite.",
    )
    return BlockKernel(additive_chi_squared, positive_definite=False)


def _polynomial(request: Request) -> Kernel:
    gamma, degree, coef0 = request.positive_gamma(), request.degree, request.coef0
    if not is_whole(degree):
        request.refuse(
            f"'poly' with degree={degree!r} is not positive definite: the binomial coefficients of "
            "a power that is not a whole number change sign.",
            "Write a whole number such as degree=3.",
        )
    if coef0 < 0:
        request.refuse(
            f"'poly' with coef0={coef0!r} is not positive definite: a negative coef0 gives some "
            "monomials a negative weight.",
            "Write coef0=0 or coef0=1.",
        )
    if not is_whole(degree) or coef0 < 0:
        return BlockKernel(AffinePower(gamma, coef0, degree), positive_definite=False)
    with np.errstate(over="ignore"):
        factor, bias = float(np.float64(gamma) ** int(degree)), float(np.float64(coef0) / gamma)
    if math.isfinite(bias) and math.isfinite(factor) and factor >= TINY:
        return factor * Polynomial(int(degree), bias)
    return (gamma * Linear() + coef0) ** int(degree)  # γ^r alone leaves the range of floats


def _sigmoid(request: Request) -> Kernel:
    request.refuse(
        "'sigmoid' is tanh(γ⟨x, y⟩ + c), which is not positive definite: the Taylor coefficients "
        "of tanh change sign.",
        "Write 'rbf', or ArcCosine(order=1), the kernel of a wide neural network.",
    )
    return Sigmoid(request.positive_gamma(), request.coef0)


def _precomputed(request: Request) -> Kernel:
    if request.X is None:
        raise ValueError("'precomputed' needs the matrix K: write as_kernel('precomputed', X=K).")
    return Precomputed(np.asarray(request.X))


NAMES: dict[str, Callable[[Request], Kernel]] = {
    "additive_chi2": _additive_chi2,
    "chi2": lambda request: ChiSquared(
        1.0 if request.gamma in (None, "median") else request.positive_gamma()
    ),
    "cosine": lambda request: Linear().normalised(),
    "laplacian": lambda request: Laplacian(request.lengthscale("cityblock")),
    "linear": lambda request: Linear(),
    "poly": _polynomial,
    "polynomial": _polynomial,
    "precomputed": _precomputed,
    "rbf": lambda request: Gaussian(request.lengthscale("euclidean")),
    "sigmoid": _sigmoid,
}


def additive_chi_squared(X: Any, Y: Any) -> np.ndarray:
    """−Σ_k (x_k − y_k)²/(x_k + y_k) for all pairs, a column at a time; 0/0 counts as 0.

    >>> additive_chi_squared(np.array([[1.0, 0.0]]), np.array([[3.0, 0.0]])).item()
    -1.0
    """
    total = np.zeros((X.shape[0], Y.shape[0]))
    for x, y in zip(dense(X).T, dense(Y).T, strict=True):
        sums, squares = np.add.outer(x, y), np.subtract.outer(x, y) ** 2
        total -= np.divide(squares, sums, out=np.zeros_like(total), where=sums != 0)
    return total


@dataclass(frozen=True)
class AffinePower:
    """(γ⟨x, y⟩ + c)^r for all pairs, for any c and r; where it is no kernel, as a function.

    >>> AffinePower(1.0, -1.0, 2)(np.array([[2.0]]), np.array([[3.0]])).item()
    25.0
    """

    gamma: float
    coef0: float
    degree: float

    def __call__(self, X: Any, Y: Any) -> np.ndarray:
        return (self.gamma * dense(X @ Y.T) + self.coef0) ** self.degree


# ---- radial kernels on another distance than the Euclidean one -----------------------------------


def on_metric(kernel: Kernel, metric: str, request: Request) -> Kernel:
    """The kernel with the L1 distance in place of the Euclidean one.

    Matérn kernels are mixtures of Laplacians up to ν = ½, and indefinite beyond.
    """
    if metric not in L1:
        raise ValueError(f"metric must be one of {[*EUCLIDEAN, *L1]}; got {metric!r}.")
    if not isinstance(kernel, Radial):
        raise ValueError(f"{kernel!r} is no function of a distance: leave metric={metric!r} out.")
    smoothness = 0.5 if isinstance(kernel, Exponential) else getattr(kernel, "smoothness", math.inf)
    if request.width() == 1:
        return kernel
    if smoothness == 0.5:
        return Laplacian(kernel._lengthscale)
    if smoothness > 0.5:
        request.refuse(
            f"{kernel!r} on the L1 distance is not positive definite beyond one column: that takes "
            "a smoothness of at most 1/2.",
            "Write Laplacian(lengthscale), keep the Euclidean distance, or multiply one kernel for "
            "each column, k.on(0) * k.on(1). For points with one column pass n_features=1.",
        )
    return BlockKernel(ManhattanProfile(kernel), positive_definite=smoothness < 0.5)


@dataclass(frozen=True)
class ManhattanProfile:
    """g(Σ_k |x_k − y_k|/ℓ_k) for all pairs, g(r) being the profile of a radial kernel.

    >>> from mercer.kernels import Gaussian
    >>> x, y = np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]])
    >>> bool(ManhattanProfile(Gaussian())(x, y) == Gaussian()(np.array([[0.0]]), np.array([[7.0]])))
    True
    """

    kernel: Radial

    def __call__(self, X: Any, Y: Any) -> np.ndarray:
        scales = np.asarray(self.kernel._lengthscale)
        distances = scipy.spatial.distance.cdist(dense(X) / scales, dense(Y) / scales, "cityblock")
        line = self.kernel.with_(lengthscale=1.0)
        return line(distances.reshape(-1, 1), np.zeros((1, 1))).reshape(distances.shape)


# ---- functions of users --------------------------------------------------------------------------


def from_function(function: Callable[..., Any], request: Request) -> Kernel:
    """A block kernel where blocks give the values of pairs, or pairs give none; else a pair kernel.

    Many functions of blocks also take two rows, so that the answer on rows alone decides nothing.
    """
    rows, columns = _points_to_try(request.X)
    pairs, blocks = (_trial(kind(function), rows, columns) for kind in (PairKernel, BlockKernel))
    if not isinstance(pairs, Exception):
        both = not isinstance(blocks, Exception)  # zeros would say nothing
        agree = both and np.abs(pairs - blocks).max() < 1e-6 * np.abs(pairs).max()
        return BlockKernel(function) if agree else PairKernel(function)
    if not isinstance(blocks, Exception):
        return BlockKernel(function)
    raise ValueError(
        f"{function!r} is no kernel on these points: on two points it gave {pairs!r}, on two "
        f"blocks {blocks!r}. It must return a number for two points, or for blocks of n and m "
        "points a matrix of shape (n, m)."
    ) from pairs


def _points_to_try(data: Any) -> tuple[PointSet, PointSet]:
    """Two points against three: a block of them cannot be taken for its transpose."""
    if data is None:
        raise ValueError(
            "whether a function takes two points or two blocks is found by trying it on data: "
            "write as_kernel(function, X=X), or PairKernel(function) or BlockKernel(function)."
        )
    points = as_points(data)
    if not len(points):
        raise ValueError("X holds no points to try the function on.")
    return points.take([0, -1]), points.take([0, -1, 0])


def _trial(kernel: Kernel, rows: PointSet, columns: PointSet) -> np.ndarray | Exception:
    """The values on a few points, or what went wrong; functions of users may raise anything."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = np.asarray(kernel.block(rows, columns), np.float64)
    except Exception as error:
        return error
    if values.shape != (len(rows), len(columns)):
        return ValueError(f"shape {values.shape} for {len(rows)} and {len(columns)} points")
    return values
