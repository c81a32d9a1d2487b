"""`as_kernel`: what users already have as a kernel, those of sklearn.gaussian_process included.

One rule for each class of scikit-learn's Gaussian processes stands in `GAUSSIAN_PROCESS`.
scikit-learn is never imported: its kernels are recognised by the name of their class.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from mercer.kernels.algebra import PolynomialOf
from mercer.kernels.base import Kernel
from mercer.kernels.custom import BlockKernel
from mercer.kernels.facts import Facts, no, yes
from mercer.kernels.inner_product import Constant, Linear, Polynomial
from mercer.kernels.input_maps import Composed
from mercer.kernels.named import (
    EUCLIDEAN,
    NAMES,
    Request,
    dense,
    from_function,
    is_whole,
    on_metric,
    refuse_name,
)
from mercer.kernels.radial import Gaussian, Matern, RationalQuadratic
from mercer.points import PointSet

MODULE = "sklearn.gaussian_process.kernels"


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
    if name in REFUSED:
        raise ValueError(REFUSED[name].format(kernel))
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


REFUSED = {
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
    """x ↦ (cos 2πx/p, sin 2πx/p): points on the line, rolled up with period p.

    >>> np.allclose(Circle(2.0)(np.array([[0.0], [0.5], [2.0]])), [[1, 0], [0, 1], [1, 0]])
    True
    """

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
