"""What users already have, as a kernel: scikit-learn's names, its Gaussian processes, functions.

scikit-learn is never imported here: its kernels are recognised by the name of their class. One rule
for each name, in two tables: `NAMES` and `GAUSSIAN_PROCESS`.
"""

from __future__ import annotations

import difflib
import math
import operator
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from numbers import Real
from typing import Any, NoReturn

import numpy as np

from mercer.kernels.algebra import PolynomialOf, derivative_of
from mercer.kernels.base import Kernel
from mercer.kernels.coordinates import ChiSquared, Laplacian
from mercer.kernels.custom import BlockKernel, PairKernel, Precomputed
from mercer.kernels.inner_product import Constant, Linear, Polynomial, Sigmoid
from mercer.kernels.input_maps import Composed
from mercer.kernels.radial import Exponential, Gaussian, Matern, Radial, RationalQuadratic
from mercer.points import PointSet, as_points, as_vectors

EUCLIDEAN = ("euclidean", "l2")
L1 = ("l1", "manhattan", "cityblock")


# ---- what users call -----------------------------------------------------------------------------


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
) -> Kernel:
    """The kernel that `kernel` names, with the values scikit-learn gives it.

    Parameters
    ----------
    kernel : Kernel, str, callable, or kernel of sklearn.gaussian_process
        A kernel of mercer is returned as it is. A name is one of "rbf", "poly", "polynomial",
        "laplacian", "chi2", "cosine", "linear", "sigmoid", "additive_chi2" and "precomputed" (X is
        then the matrix). A function takes two points and returns a number, or two blocks of points
        and returns a matrix: which of both is found by trying it on two points of X.
    gamma : float, "scale", "auto" or None, default=None
        γ, as in `sklearn.metrics.pairwise`; None and "auto" are 1/n_features (for "chi2" None is
        1), "scale" is 1/(n_features · variance of X).
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
    request = _Request(gamma, degree, coef0, n_features, X, allow_indefinite)
    converted = _converted(kernel, request)
    return converted if metric in EUCLIDEAN else _on_metric(converted, metric, request)


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
    terms = [(term, _noise(term)) for term in _flattened(kernel, "Sum")]
    kernels = [as_kernel(term, **options) for term, noise in terms if noise is None]
    if not kernels:
        raise ValueError(f"{kernel} is noise and nothing else: add a kernel to it.")
    return reduce(operator.add, kernels), math.fsum(noise or 0.0 for _, noise in terms)


# ---- what is asked for ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Request:
    """The options of `as_kernel`, for the rules."""

    gamma: float | str | None = None
    degree: float = 3
    coef0: float = 1
    n_features: int | None = None
    X: Any = None
    allow_indefinite: bool = False

    def width(self) -> int | None:
        """The number of columns, where it is known."""
        if self.n_features is not None or self.X is None:
            return self.n_features
        return as_vectors(self.X).width

    def positive_gamma(self) -> float:
        """γ as a number: given, or from the data."""
        gamma = self._gamma_from_data() if self.gamma in (None, "auto", "scale") else self.gamma
        if isinstance(gamma, Real) and math.isfinite(gamma) and gamma > 0:
            return float(gamma)
        raise ValueError(
            f"gamma must be a positive number, None, 'auto' or 'scale'; got {self.gamma!r}. "
            "Write for example gamma=0.1."
        )

    def _gamma_from_data(self) -> float:
        if self.gamma == "scale":
            return _scale_gamma(self.X)
        width = self.width()
        if width is None:
            raise ValueError(
                f"gamma={self.gamma!r} means 1/n_features, and the number of features is not "
                "known: write gamma=0.1, n_features=3 or X=X."
            )
        return 1.0 / width


def _scale_gamma(data: Any) -> float:
    """SVC's gamma="scale", 1/(n_features · variance); 1 where all values are equal."""
    if data is None:
        raise ValueError("gamma='scale' needs the variance of the data: write X=X, or gamma=0.1.")
    points = as_vectors(data)
    variance = _variance(points.rows)
    return 1.0 / (points.width * variance) if variance else 1.0


def _variance(rows: Any) -> float:
    if hasattr(rows, "multiply"):
        return float(rows.multiply(rows).mean() - rows.mean() ** 2)
    return float(rows.var())


def _refuse_indefinite(request: _Request, reason: str, alternative: str) -> None:
    """Refuse what is not positive definite, unless that was asked for."""
    if not request.allow_indefinite:
        raise ValueError(
            f"{reason} {alternative} To use it all the same, pass allow_indefinite=True."
        )


def _converted(kernel: Any, request: _Request) -> Kernel:
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        return _from_name(kernel, request)
    if _is_gaussian_process(kernel):
        return _from_gaussian_process(kernel, request)
    if callable(kernel) and not isinstance(kernel, type):
        return _from_function(kernel, request)
    raise ValueError(_not_a_kernel(kernel))


def _not_a_kernel(kernel: Any) -> str:
    came, advice = f"an object of {type(kernel).__name__}", "For a matrix K write Precomputed(K)."
    if isinstance(kernel, type):
        came, advice = f"the class {kernel.__name__}", f"Write {kernel.__name__}()."
    return (
        "a kernel is a kernel of mercer, a name such as 'rbf', a function of two points or blocks, "
        f"or a kernel of sklearn.gaussian_process; got {came}. {advice}"
    )


# ---- names ---------------------------------------------------------------------------------------


def _from_name(name: str, request: _Request) -> Kernel:
    if name in NAMES:
        return NAMES[name](request)
    close = difflib.get_close_matches(name.lower(), NAMES, n=1)
    question = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"there is no kernel {name!r}.{question} The names are {sorted(NAMES)}.")


def _rbf(request: _Request) -> Kernel:
    return Gaussian((2.0 * request.positive_gamma()) ** -0.5)


def _laplacian(request: _Request) -> Kernel:
    return Laplacian(1.0 / request.positive_gamma())


def _chi2(request: _Request) -> Kernel:
    return ChiSquared(1.0 if request.gamma is None else request.positive_gamma())


def _additive_chi2(request: _Request) -> Kernel:
    _refuse_indefinite(
        request,
        "'additive_chi2' is −Σ (x − y)²/(x + y), which is only conditionally positive definite: "
        "its diagonal is 0.",
        "Write 'chi2', its exponential, which is positive definite.",
    )
    return BlockKernel(additive_chi_squared)


def _polynomial(request: _Request) -> Kernel:
    gamma, degree, coef0 = request.positive_gamma(), request.degree, request.coef0
    if not _is_whole(degree):
        _refuse_fraction(request)
    if coef0 < 0:
        _refuse_negative_coef0(request)
    if not _is_whole(degree) or coef0 < 0:
        return BlockKernel(AffinePower(gamma, coef0, degree))
    return gamma ** int(degree) * Polynomial(int(degree), coef0 / gamma)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Real) and float(value).is_integer()


def _refuse_fraction(request: _Request) -> None:
    _refuse_indefinite(
        request,
        f"'poly' with degree={request.degree!r} is not positive definite: the binomial "
        "coefficients of a power that is not a whole number change sign.",
        "Write a whole number such as degree=3.",
    )


def _refuse_negative_coef0(request: _Request) -> None:
    _refuse_indefinite(
        request,
        f"'poly' with coef0={request.coef0!r} is not positive definite: a negative coef0 gives "
        "some monomials a negative weight.",
        "Write coef0=0 or coef0=1.",
    )


def _sigmoid(request: _Request) -> Kernel:
    _refuse_indefinite(
        request,
        "'sigmoid' is tanh(γ⟨x, y⟩ + c), which is not positive definite: the Taylor coefficients "
        "of tanh change sign.",
        "Write 'rbf', or ArcCosine(order=1), the kernel of a wide neural network.",
    )
    return Sigmoid(request.positive_gamma(), request.coef0)


def _precomputed(request: _Request) -> Kernel:
    if request.X is None:
        raise ValueError("'precomputed' needs the matrix K: write as_kernel('precomputed', X=K).")
    return Precomputed(np.asarray(request.X))


NAMES: dict[str, Callable[[_Request], Kernel]] = {
    "additive_chi2": _additive_chi2,
    "chi2": _chi2,
    "cosine": lambda request: Linear().normalised(),
    "laplacian": _laplacian,
    "linear": lambda request: Linear(),
    "poly": _polynomial,
    "polynomial": _polynomial,
    "precomputed": _precomputed,
    "rbf": _rbf,
    "sigmoid": _sigmoid,
}


def additive_chi_squared(X: Any, Y: Any) -> np.ndarray:
    """−Σ_k (x_k − y_k)²/(x_k + y_k) for all pairs, a column at a time; 0/0 counts as 0.

    >>> additive_chi_squared(np.array([[1.0, 0.0]]), np.array([[3.0, 0.0]])).item()
    -1.0
    """
    total = np.zeros((X.shape[0], Y.shape[0]))
    for x, y in _column_pairs(X, Y):
        sums, squares = x + y, (x - y) ** 2
        total -= np.divide(squares, sums, out=np.zeros_like(total), where=sums != 0)
    return total


def _column_pairs(X: Any, Y: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Column by column the values in X, standing, and in Y, lying: they broadcast to all pairs."""
    columns = zip(_dense(X).T, _dense(Y).T, strict=True)
    return ((x[:, None], y[None, :]) for x, y in columns)


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
        return (self.gamma * _dense(X @ Y.T) + self.coef0) ** self.degree


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)


# ---- functions -----------------------------------------------------------------------------------


def _from_function(function: Callable[..., Any], request: _Request) -> Kernel:
    """A block kernel where blocks give the values of pairs, or pairs give none; else a pair kernel.

    Many functions of blocks also take two rows, so that the answer on rows alone decides nothing.
    """
    rows, columns = _points_to_try(request.X)
    pairs = _trial(PairKernel(function), rows, columns)
    blocks = _trial(BlockKernel(function), rows, columns)
    if isinstance(pairs, Exception) and isinstance(blocks, Exception):
        _refuse_function(function, pairs, blocks)
    return BlockKernel(function) if _blocks_agree(pairs, blocks) else PairKernel(function)


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


def _blocks_agree(pairs: np.ndarray | Exception, blocks: np.ndarray | Exception) -> bool:
    if isinstance(pairs, Exception) or isinstance(blocks, Exception):
        return isinstance(pairs, Exception)
    return bool(np.abs(pairs - blocks).max() < 1e-6 * np.abs(pairs).max())  # zeros say nothing


def _refuse_function(function: Callable[..., Any], pairs: Exception, blocks: Exception) -> NoReturn:
    raise ValueError(
        f"{function!r} is no kernel on these points: on two points it gave {pairs!r}, on two "
        f"blocks {blocks!r}. It must return a number for two points, or for blocks of n and m "
        "points a matrix of shape (n, m)."
    ) from pairs


# ---- kernels of sklearn.gaussian_process ---------------------------------------------------------

MODULE = "sklearn.gaussian_process.kernels"


def _is_gaussian_process(kernel: Any) -> bool:
    bases = type(kernel).__mro__
    return any(base.__module__ == MODULE and base.__name__ == "Kernel" for base in bases)


def _class_name(kernel: Any) -> str:
    """The name of a class of scikit-learn itself; users' own subclasses have none here."""
    return type(kernel).__name__ if type(kernel).__module__ == MODULE else ""


def _from_gaussian_process(kernel: Any, request: _Request) -> Kernel:
    rule = GAUSSIAN_PROCESS.get(_class_name(kernel))
    return BlockKernel(kernel) if rule is None else rule(kernel, request)


def _lengthscale(value: Any) -> float | tuple[float, ...]:
    """One number, or one for each column; scikit-learn reads a list of one as a number."""
    scales = np.squeeze(np.asarray(value, np.float64))
    return float(scales) if scales.ndim == 0 else tuple(scales.tolist())


def _gp_matern(kernel: Any, request: _Request) -> Kernel:
    if kernel.nu == math.inf:
        return Gaussian(_lengthscale(kernel.length_scale))
    return Matern(float(kernel.nu), _lengthscale(kernel.length_scale))


def _gp_rational_quadratic(kernel: Any, request: _Request) -> Kernel:
    return RationalQuadratic(float(kernel.alpha), _lengthscale(kernel.length_scale))


def _gp_exp_sine_squared(kernel: Any, request: _Request) -> Kernel:
    width = request.width()
    if width is not None and width != 1:
        _refuse_indefinite(request, *_not_periodic(width))
    if request.allow_indefinite and width != 1:
        return BlockKernel(kernel)
    return OnCircle(Gaussian(float(kernel.length_scale)), Circle(float(kernel.periodicity)))


def _not_periodic(width: int) -> tuple[str, str]:
    return (
        f"ExpSineSquared is positive definite on one column; there are {width}. It is 1 at the "
        "distance of one period in any direction, which would make every function constant.",
        "Write k = as_kernel(kernel), then k.on(0) for one column, or k.on(0) * k.on(1).",
    )


def _gp_sum(kernel: Any, request: _Request) -> Kernel:
    return _converted(kernel.k1, request) + _converted(kernel.k2, request)


def _gp_product(kernel: Any, request: _Request) -> Kernel:
    left, right = _converted(kernel.k1, request), _converted(kernel.k2, request)
    if isinstance(right, Constant):
        left, right = right, left
    return (left.value if isinstance(left, Constant) else left) * right


def _gp_power(kernel: Any, request: _Request) -> Kernel:
    inner, exponent = _converted(kernel.kernel, request), kernel.exponent
    if exponent < 1 or not _is_whole(exponent):
        _refuse_indefinite(
            request,
            f"{kernel} is not positive definite in general: only powers 1, 2, … of a kernel are.",
            "Write a whole exponent; for a power of an RBF change its length_scale.",
        )
        return BlockKernel(kernel)
    return _power(inner, int(exponent))


def _power(kernel: Kernel, exponent: int) -> Kernel:
    if isinstance(kernel, Linear):
        return Polynomial(exponent, kernel.bias)
    return PolynomialOf(kernel, (*[0.0] * exponent, 1.0))


def _gp_pairwise(kernel: Any, request: _Request) -> Kernel:
    """The named kernel with the parameters inside; a function there has its own, and stays."""
    if not isinstance(kernel.metric, str):
        return BlockKernel(kernel)
    given = kernel.pairwise_kernels_kwargs or {}
    own = {name: given[name] for name in ("degree", "coef0") if name in given}
    defaults = replace(request, gamma=kernel.gamma, degree=3, coef0=1)
    return _from_name(kernel.metric, replace(defaults, **own))


def _gp_white(kernel: Any, request: _Request) -> Kernel:
    raise ValueError(
        f"{kernel} is noise on the diagonal, not a function of two points. As a term of the whole "
        "sum it is a ridge: write kernel, ridge = as_kernel_and_ridge(kernel), from "
        "mercer.kernels.conversion. Inside a power, or times another kernel, it is none: take it "
        "out."
    )


def _gp_compound(kernel: Any, request: _Request) -> Kernel:
    raise ValueError(
        "CompoundKernel is a list of kernels, not one: write [as_kernel(k) for k in "
        "kernel.kernels], and add them where a sum is meant."
    )


GAUSSIAN_PROCESS: dict[str, Callable[[Any, _Request], Kernel]] = {
    "CompoundKernel": _gp_compound,
    "ConstantKernel": lambda kernel, request: Constant(float(kernel.constant_value)),
    "DotProduct": lambda kernel, request: Linear(float(kernel.sigma_0) ** 2),
    "ExpSineSquared": _gp_exp_sine_squared,
    "Exponentiation": _gp_power,
    "Matern": _gp_matern,
    "PairwiseKernel": _gp_pairwise,
    "Product": _gp_product,
    "RBF": lambda kernel, request: Gaussian(_lengthscale(kernel.length_scale)),
    "RationalQuadratic": _gp_rational_quadratic,
    "Sum": _gp_sum,
    "WhiteKernel": _gp_white,
}


def _flattened(kernel: Any, operation: str) -> Iterator[Any]:
    """The terms of nested sums, or the factors of nested products."""
    if _class_name(kernel) == operation:
        yield from _flattened(kernel.k1, operation)
        yield from _flattened(kernel.k2, operation)
    else:
        yield kernel


def _noise(kernel: Any) -> float | None:
    """The level of a product of noise and constants; None for everything else."""
    factors = list(_flattened(kernel, "Product"))
    names = {_class_name(factor) for factor in factors}
    if "WhiteKernel" not in names or names - {"WhiteKernel", "ConstantKernel"}:
        return None
    return math.prod(_level(factor) for factor in factors)


def _level(kernel: Any) -> float:
    noisy = _class_name(kernel) == "WhiteKernel"
    return float(kernel.noise_level if noisy else kernel.constant_value)


@dataclass(frozen=True)
class Circle:
    """x ↦ (cos 2πx/p, sin 2πx/p): points on the line, rolled up with period p.

    >>> np.allclose(Circle(2.0)(np.array([[0.0], [0.5], [2.0]])), [[1, 0], [0, 1], [1, 0]])
    True
    """

    period: float

    def __call__(self, X: Any) -> np.ndarray:
        return self.derivative(X, 0)

    def derivative(self, X: Any, order: int) -> np.ndarray:
        """The derivative of the images in x."""
        X, rate = _dense(X), 2.0 * math.pi / self.period
        if X.shape[1] != 1:
            raise ValueError(" ".join(_not_periodic(X.shape[1])))
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
    >>> k = OnCircle(Gaussian(2.0), Circle(period=3.0))
    >>> math.isclose(k([0.0], [1.0]), math.exp(-2 * math.sin(math.pi / 3) ** 2 / 4))
    True
    """

    def derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        slopes = self.transform.derivative(x.data, 1)  # type: ignore[attr-defined]
        inner = derivative_of(self.kernel, self._image(x), self._image(y))
        return np.einsum("ijk,ik->ij", inner, slopes)[:, :, None]


# ---- other distances -----------------------------------------------------------------------------


def _on_metric(kernel: Kernel, metric: str, request: _Request) -> Kernel:
    if metric not in L1:
        raise ValueError(f"metric must be one of {[*EUCLIDEAN, *L1]}; got {metric!r}.")
    if not isinstance(kernel, Radial):
        raise ValueError(f"{kernel!r} is no function of a distance: leave metric={metric!r} out.")
    return kernel if request.width() == 1 else _on_l1(kernel, request)


def _on_l1(kernel: Radial, request: _Request) -> Kernel:
    """On L1 Matérn kernels are mixtures of Laplacians up to ν = ½, and indefinite beyond."""
    smoothness = 0.5 if isinstance(kernel, Exponential) else getattr(kernel, "smoothness", math.inf)
    if smoothness == 0.5:
        return Laplacian(kernel._lengthscale)
    if smoothness > 0.5:
        _refuse_indefinite(
            request,
            f"{kernel!r} on the L1 distance is not positive definite beyond one column: that takes "
            "a smoothness of at most 1/2.",
            "Write Laplacian(lengthscale), keep the Euclidean distance, or multiply one kernel for "
            "each column, k.on(0) * k.on(1). For points with one column pass n_features=1.",
        )
    return BlockKernel(ManhattanProfile(kernel))


@dataclass(frozen=True)
class ManhattanProfile:
    """g(Σ_k |x_k − y_k|/ℓ_k) for all pairs, g(r) being the profile of a radial kernel.

    >>> x, y = np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]])
    >>> bool(ManhattanProfile(Gaussian())(x, y) == Gaussian()(np.array([[0.0]]), np.array([[7.0]])))
    True
    """

    kernel: Radial

    def __call__(self, X: Any, Y: Any) -> np.ndarray:
        scales, distances = np.asarray(self.kernel._lengthscale), np.zeros((X.shape[0], Y.shape[0]))
        for x, y in _column_pairs(_dense(X) / scales, _dense(Y) / scales):
            distances += np.abs(x - y)
        line = self.kernel.with_(lengthscale=1.0)
        return line(distances.reshape(-1, 1), np.zeros((1, 1))).reshape(distances.shape)
