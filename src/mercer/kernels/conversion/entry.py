"""What users call: `as_kernel` and `as_kernel_and_ridge`."""

from __future__ import annotations

import math
import operator
from functools import reduce
from typing import Any

from mercer.kernels.base import Kernel
from mercer.kernels.conversion.distances import EUCLIDEAN, on_metric
from mercer.kernels.conversion.functions import from_function
from mercer.kernels.conversion.gaussian_process import (
    flattened,
    from_gaussian_process,
    is_gaussian_process,
    noise_level,
)
from mercer.kernels.conversion.names import from_name
from mercer.kernels.conversion.request import Request


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
    request = Request(gamma, degree, coef0, n_features, X, allow_indefinite)
    converted = _converted(kernel, request)
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


def _converted(kernel: Any, request: Request) -> Kernel:
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        return from_name(kernel, request)
    if is_gaussian_process(kernel):
        return from_gaussian_process(kernel, request)
    if callable(kernel) and not isinstance(kernel, type):
        return from_function(kernel, request)
    raise ValueError(_not_a_kernel(kernel))


def _not_a_kernel(kernel: Any) -> str:
    came, advice = f"an object of {type(kernel).__name__}", "For a matrix K write Precomputed(K)."
    if isinstance(kernel, type):
        came, advice = f"the class {kernel.__name__}", f"Write {kernel.__name__}()."
    return (
        "a kernel is a kernel of mercer, a name such as 'rbf', a function of two points or blocks, "
        f"or a kernel of sklearn.gaussian_process; got {came}. {advice}"
    )
