"""`as_kernel`: what users already have as a kernel: names of scikit-learn, functions, its kernels.

One rule for each name stands in `NAMES`, one for each class of scikit-learn's Gaussian processes in
`GAUSSIAN_PROCESS`; scikit-learn is never imported, its kernels are recognised by the name of their
class. Whether a function takes points or blocks is decided by trying it.
"""

from __future__ import annotations

import difflib
import math
import operator
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from numbers import Real
from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.arrays import as_numpy, beside, namespace, to_precision
from mercer.kernels.algebra import PolynomialOf
from mercer.kernels.base import Kernel
from mercer.kernels.coordinates import ChiSquared, Laplacian
from mercer.kernels.custom import BlockKernel, PairKernel, Precomputed
from mercer.kernels.facts import Facts, no, yes
from mercer.kernels.inner_product import Constant, Linear, Polynomial, Sigmoid
from mercer.kernels.input_maps import Composed
from mercer.kernels.radial import Gaussian, Matern, Radial, RationalQuadratic
from mercer.points import PointSet, as_points, as_vectors

MODULE = "sklearn.gaussian_process.kernels"
EUCLIDEAN = ("euclidean", "l2")
L1 = ("l1", "manhattan", "cityblock")
DISTANCES_OF = 500  # points whose distances have their median taken
LEAST_FACTOR = 1e-290  # below which numbers of float64 lose digits


def as_kernel(
    kernel: Any,
    *,
    gamma: float | str | None = None,
    degree: float = 3,
    coef0: float = 1,
    metric: str = "euclidean",
    n_features: int | None = None,
    X: Any = None,
    allow_indefinite: bool = False,
    weights: Any = None,
) -> Kernel:
    """The kernel that `kernel` names, with the values scikit-learn gives it.

    Parameters
    ----------
    kernel : Kernel, str, callable, or kernel of sklearn.gaussian_process
        A kernel of mercer is returned as it is. A name is one of "rbf", "poly", "polynomial",
        "laplacian", "chi2", "cosine", "linear", "sigmoid", "additive_chi2" and "precomputed" (X is
        then the matrix). A function takes two points and returns a number, or two blocks of points
        and returns a matrix: which of both is decided by trying it on two points of X.
    gamma : float, "scale", "auto", "median" or None, default=None
        γ, as in `sklearn.metrics.pairwise`; None and "auto" are 1/n_features (for "chi2" None is
        1), "scale" is 1/(n_features · variance of X). "median" makes the median distance of points
        of X the lengthscale of "rbf" and "laplacian"; for kernels of inner products it is "scale".
    degree : int, default=3
        r of "poly", (γ⟨x, y⟩ + c)^r.
    coef0 : float, default=1
        c of "poly" and "sigmoid".
    metric : str, default="euclidean"
        The distance inside a radial kernel: "euclidean", or "l1", for which most of them are not
        positive definite beyond one column, and refused.
    n_features : int, optional
        The number of columns, where X is not at hand.
    X : points, optional
        The data: where gamma depends on it, to try a function, and the matrix of "precomputed".
    allow_indefinite : bool, default=False
        Whether to accept what is not positive definite.
    weights : array, optional
        Of the points of X: those without weight do not count for gamma="median".

    Returns
    -------
    Kernel
        Parameters that the kernel does not have are ignored, as scikit-learn does.

    Examples
    --------
    >>> as_kernel("rbf", gamma=0.5)
    Gaussian(lengthscale=1.0)
    >>> import numpy as np
    >>> as_kernel(lambda x, y: x[0] * y[0], X=np.eye(2))([3.0, 1.0], [2.0, 7.0])
    6.0
    """
    if n_features is None and getattr(X, "ndim", 0) == 2:
        n_features = int(X.shape[1])
    request = Request(gamma, degree, coef0, n_features, X, allow_indefinite, weights)
    if isinstance(kernel, Kernel):
        converted = kernel
    elif isinstance(kernel, str):
        converted = NAMES[kernel](request) if kernel in NAMES else refuse_name(kernel)
    elif is_gaussian_process(kernel):
        converted = from_gaussian_process(kernel, request)
    elif callable(kernel) and not isinstance(kernel, type):
        converted = from_function(kernel, request)
    else:
        came = f"an object of {type(kernel).__name__}. For a matrix K write Precomputed(K)."
        if isinstance(kernel, type):
            came = f"the class {kernel.__name__}. Write {kernel.__name__}()."
        raise ValueError(
            "a kernel is a kernel of mercer, a name such as 'rbf', a function of two points or "
            f"blocks, or a kernel of sklearn.gaussian_process; got {came}"
        )
    return converted if metric in EUCLIDEAN else on_metric(converted, metric, request)


def as_kernel_and_ridge(kernel: Any, **options: Any) -> tuple[Kernel, float]:
    """A Gaussian process kernel k + σ²·WhiteKernel as the kernel k and the ridge σ².

    The covariance of the observations is K + σ²I: ridge regression with nλ = σ².

    Parameters
    ----------
    kernel : anything that `as_kernel` takes
        Multiples of `WhiteKernel` may be terms of the whole sum; elsewhere they are refused.
    **options
        As for `as_kernel`.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> as_kernel_and_ridge(RBF(2.0) + WhiteKernel(0.1))
    (Gaussian(lengthscale=2.0), 0.1)
    """
    terms = [(term, noise_level(term)) for term in flattened(kernel, "Sum")]
    kernels = [as_kernel(term, **options) for term, noise in terms if noise is None]
    if not kernels:
        raise ValueError(f"{kernel} is noise and nothing else: add a kernel to it.")
    return reduce(operator.add, kernels), math.fsum(noise or 0.0 for _, noise in terms)


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
    if math.isfinite(bias) and math.isfinite(factor) and factor >= LEAST_FACTOR:
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
    """−Σ_k (x_k − y_k)²/(x_k + y_k) for all pairs, a column at a time; 0/0 counts as 0."""
    total = np.zeros((X.shape[0], Y.shape[0]))
    for x, y in zip(dense(X).T, dense(Y).T, strict=True):
        sums, squares = np.add.outer(x, y), np.subtract.outer(x, y) ** 2
        total -= np.divide(squares, sums, out=np.zeros_like(total), where=sums != 0)
    return total


@dataclass(frozen=True)
class AffinePower:
    """(γ⟨x, y⟩ + c)^r for all pairs, for any c and r; where it is no kernel, as a function."""

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
    smoothness = getattr(kernel, "smoothness", math.inf)
    if request.width() == 1:
        return kernel
    if smoothness == 0.5:
        return Laplacian(kernel.lengthscale)
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
    """g(Σ_k |x_k − y_k|/ℓ_k) for all pairs, g(r) being the profile of a radial kernel."""

    kernel: Radial

    def __call__(self, X: Any, Y: Any) -> np.ndarray:
        scales = np.asarray(self.kernel.lengthscale)
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


# ---- kernels of Gaussian processes ---------------------------------------------------------------


def is_gaussian_process(kernel: Any) -> bool:
    """Whether this is a kernel of sklearn.gaussian_process, or of a class derived from one."""
    bases = type(kernel).__mro__
    return any(base.__module__ == MODULE and base.__name__ == "Kernel" for base in bases)


def _class_name(kernel: Any) -> str:
    """The name of a class of scikit-learn itself; users' own subclasses have none here."""
    return type(kernel).__name__ if type(kernel).__module__ == MODULE else ""


def from_gaussian_process(kernel: Any, request: Request) -> Kernel:
    """The kernel by its rule; classes without one are functions of blocks."""
    name = _class_name(kernel)
    if name in REFUSED_KERNELS:
        raise ValueError(REFUSED_KERNELS[name].format(kernel))
    rule = GAUSSIAN_PROCESS.get(name)
    return BlockKernel(kernel) if rule is None else rule(kernel, request)


def _lengthscale(value: Any) -> float | tuple[float, ...]:
    """One number, or one for each column; scikit-learn reads a list of one as a number."""
    scales = np.squeeze(np.asarray(value, np.float64))
    return float(scales) if scales.ndim == 0 else tuple(scales.tolist())


def _gp_matern(kernel: Any, request: Request) -> Kernel:
    if kernel.nu == math.inf:
        return Gaussian(_lengthscale(kernel.length_scale))
    return Matern(float(kernel.nu), _lengthscale(kernel.length_scale))


def _gp_exp_sine_squared(kernel: Any, request: Request) -> Kernel:
    width = request.width()
    if width is not None and width != 1:
        request.refuse(*not_periodic(width))
    if request.allow_indefinite and width != 1:
        return BlockKernel(kernel)
    return OnCircle(Gaussian(float(kernel.length_scale)), Circle(float(kernel.periodicity)))


def _gp_sum_or_product(kernel: Any, request: Request) -> Kernel:
    left, right = (from_gaussian_process(k, request) for k in (kernel.k1, kernel.k2))
    if _class_name(kernel) == "Sum":
        return left + right
    if isinstance(right, Constant):
        left, right = right, left
    return (left.value if isinstance(left, Constant) else left) * right


def _gp_power(kernel: Any, request: Request) -> Kernel:
    inner, exponent = from_gaussian_process(kernel.kernel, request), kernel.exponent
    if exponent < 1 or not is_whole(exponent):
        request.refuse(
            f"{kernel} is not positive definite in general: only powers 1, 2, … of a kernel are.",
            "Write a whole exponent; for a power of an RBF change its length_scale.",
        )
        return BlockKernel(kernel)
    if isinstance(inner, Linear):
        return Polynomial(int(exponent), inner.bias)
    return PolynomialOf(inner, (*[0.0] * int(exponent), 1.0))


def _gp_pairwise(kernel: Any, request: Request) -> Kernel:
    """The named kernel with the parameters inside; a function there has its own, and stays."""
    if not isinstance(kernel.metric, str):
        return BlockKernel(kernel)
    given = kernel.pairwise_kernels_kwargs or {}
    own = {name: given[name] for name in ("degree", "coef0") if name in given}
    data = {name: getattr(request, name) for name in ("n_features", "X", "allow_indefinite")}
    return as_kernel(kernel.metric, gamma=kernel.gamma, **data, **own)


REFUSED_KERNELS = {
    "CompoundKernel": "CompoundKernel is a list of kernels, not one: write [as_kernel(k) for k in "
    "kernel.kernels], and add them where a sum is meant.",
    "WhiteKernel": "{} is noise on the diagonal, not a function of two points. As a term of the "
    "whole sum it is a ridge: write kernel, ridge = as_kernel_and_ridge(kernel), from "
    "mercer.kernels.conversion. Inside a power, or times another kernel, it is none: take it out.",
}
GAUSSIAN_PROCESS: dict[str, Callable[[Any, Request], Kernel]] = {
    "ConstantKernel": lambda kernel, request: Constant(float(kernel.constant_value)),
    "DotProduct": lambda kernel, request: Linear(float(kernel.sigma_0) ** 2),
    "ExpSineSquared": _gp_exp_sine_squared,
    "Exponentiation": _gp_power,
    "Matern": _gp_matern,
    "PairwiseKernel": _gp_pairwise,
    "Product": _gp_sum_or_product,
    "RBF": lambda kernel, request: Gaussian(_lengthscale(kernel.length_scale)),
    "RationalQuadratic": lambda kernel, request: RationalQuadratic(
        float(kernel.alpha), _lengthscale(kernel.length_scale)
    ),
    "Sum": _gp_sum_or_product,
}


def flattened(kernel: Any, operation: str) -> Iterator[Any]:
    """The terms of nested sums, or the factors of nested products."""
    if _class_name(kernel) == operation:
        yield from flattened(kernel.k1, operation)
        yield from flattened(kernel.k2, operation)
    else:
        yield kernel


def noise_level(kernel: Any) -> float | None:
    """The level of a product of noise and constants; None for everything else."""
    level = {"WhiteKernel": "noise_level", "ConstantKernel": "constant_value"}
    factors = [(factor, _class_name(factor)) for factor in flattened(kernel, "Product")]
    names = {name for _, name in factors}
    if "WhiteKernel" not in names or not names <= set(level):
        return None
    return math.prod(float(getattr(factor, level[name])) for factor, name in factors)


# ---- the line rolled up: periodic kernels from kernels on the plane ------------------------------


def not_periodic(width: int) -> tuple[str, str]:
    """Why `ExpSineSquared` takes one column, and what to write for more."""
    return (
        f"ExpSineSquared is positive definite on one column; there are {width}. It is 1 at the "
        "distance of one period in any direction, which would make every function constant.",
        "Write k = as_kernel(kernel), then k.on(0) for one column, or k.on(0) * k.on(1).",
    )


@dataclass(frozen=True)
class Circle:
    """x ↦ (cos 2πx/p, sin 2πx/p): points on the line, rolled up with period p."""

    period: float

    def __call__(self, X: Any) -> np.ndarray:
        return self.derivative(X, 0)

    def derivative(self, X: Any, order: int) -> np.ndarray:
        """The derivative of the images in x."""
        X, rate = dense(X), 2.0 * math.pi / self.period
        if X.shape[1] != 1:
            raise ValueError(" ".join(not_periodic(X.shape[1])))
        angles = rate * X.astype(np.float64) + order * (math.pi / 2)
        return rate**order * np.hstack([np.cos(angles), np.sin(angles)])


@dataclass(frozen=True, eq=False, repr=False)
class OnCircle(Composed):
    """k(φ(x), φ(y)) for one column and φ a `Circle`: with a Gaussian, `ExpSineSquared`.

    Chords have ‖φ(x) − φ(y)‖² = 4 sin²(π(x − y)/p), so the Gaussian of lengthscale ℓ is
    exp(−2 sin²(π(x − y)/p)/ℓ²).

    Parameters
    ----------
    kernel : Kernel
        k, on the plane.
    transform : Circle
        φ.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> k = OnCircle(Gaussian(2.0), Circle(period=3.0))
    >>> math.isclose(k([0.0], [1.0]), math.exp(-2 * math.sin(math.pi / 3) ** 2 / 4))
    True
    """

    def facts(self, dimension: int | None = None) -> Facts:
        facts = super().facts(dimension)
        if not self.kernel.facts(2).isotropic.yes:
            return facts
        return facts.stating(
            stationary=yes("it is a function of the chord, and so of x − y"),
            universal=no("its functions repeat with the period"),
        )

    def derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        slopes = self.transform.derivative(x.data, 1)  # type: ignore[attr-defined]
        inner = self.kernel.derivative(self._image(x), self._image(y))
        return np.einsum("ijk,ik->ij", inner, slopes)[:, :, None]


# ---- figures of data -----------------------------------------------------------------------------


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
