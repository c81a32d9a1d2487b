"""The kernels that scikit-learn has names for: one rule for each, in `NAMES`."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.kernels.base import Kernel
from mercer.kernels.conversion.request import (
    Request,
    column_pairs,
    dense,
    is_whole,
    refuse_indefinite,
)
from mercer.kernels.coordinates import ChiSquared, Laplacian
from mercer.kernels.custom import BlockKernel, Precomputed
from mercer.kernels.inner_product import Linear, Polynomial, Sigmoid
from mercer.kernels.radial import Gaussian


def from_name(name: str, request: Request) -> Kernel:
    """The kernel of this name, or an error with the nearest one."""
    if name in NAMES:
        return NAMES[name](request)
    close = difflib.get_close_matches(name.lower(), NAMES, n=1)
    question = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"there is no kernel {name!r}.{question} The names are {sorted(NAMES)}.")


def _rbf(request: Request) -> Kernel:
    return Gaussian((2.0 * request.positive_gamma()) ** -0.5)


def _laplacian(request: Request) -> Kernel:
    return Laplacian(1.0 / request.positive_gamma())


def _chi2(request: Request) -> Kernel:
    return ChiSquared(1.0 if request.gamma is None else request.positive_gamma())


def _additive_chi2(request: Request) -> Kernel:
    refuse_indefinite(
        request,
        "'additive_chi2' is −Σ (x − y)²/(x + y), which is only conditionally positive definite: "
        "its diagonal is 0.",
        "Write 'chi2', its exponential, which is positive definite.",
    )
    return BlockKernel(additive_chi_squared)


def _polynomial(request: Request) -> Kernel:
    gamma, degree, coef0 = request.positive_gamma(), request.degree, request.coef0
    if not is_whole(degree):
        _refuse_fraction(request)
    if coef0 < 0:
        _refuse_negative_coef0(request)
    if not is_whole(degree) or coef0 < 0:
        return BlockKernel(AffinePower(gamma, coef0, degree))
    return gamma ** int(degree) * Polynomial(int(degree), coef0 / gamma)


def _refuse_fraction(request: Request) -> None:
    refuse_indefinite(
        request,
        f"'poly' with degree={request.degree!r} is not positive definite: the binomial "
        "coefficients of a power that is not a whole number change sign.",
        "Write a whole number such as degree=3.",
    )


def _refuse_negative_coef0(request: Request) -> None:
    refuse_indefinite(
        request,
        f"'poly' with coef0={request.coef0!r} is not positive definite: a negative coef0 gives "
        "some monomials a negative weight.",
        "Write coef0=0 or coef0=1.",
    )


def _sigmoid(request: Request) -> Kernel:
    refuse_indefinite(
        request,
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
    for x, y in column_pairs(X, Y):
        sums, squares = x + y, (x - y) ** 2
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
