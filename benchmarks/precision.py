"""How many digits a product keeps, measured against a reference that shares no code with mercer.

The reference takes the same points and the same vector, sums squared differences in a wider
precision, and evaluates the kernel's formula there: float64 for float32, and for float64 NumPy's
longdouble (80 bits on x86; where that is no wider than float64, the figure is an upper bound of
both errors).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.measure import relative_error
from mercer.kernels import Gaussian, Kernel, Linear, Matern
from mercer.kernels.algebra import Product, Scaled, Sum

REFERENCE = {
    "float32": "differences in float64",
    "float64": f"differences in longdouble ({np.finfo(np.longdouble).nmant + 1} bits)",
}
WIDER: dict[str, Any] = {"float32": np.float64, "float64": np.longdouble}
CHECKED = 48  # rows that are compared


def matrix(kernel: Kernel, X: Any, Y: Any, dtype: Any) -> np.ndarray:
    """K(X, Y) in the given precision, a row at a time."""
    X, Y = np.asarray(X, dtype), np.asarray(Y, dtype)
    return np.stack([_row(kernel, x, Y, dtype) for x in X])


def product(kernel: Kernel, X: Any, Y: Any, v: Any, dtype: Any) -> np.ndarray:
    """K(X, Y)v in the given precision."""
    return matrix(kernel, X, Y, dtype) @ np.asarray(v, dtype)


def _row(kernel: Kernel, x: np.ndarray, Y: np.ndarray, dtype: Any) -> np.ndarray:
    match kernel:
        case Scaled(scale, inner):
            return dtype(scale) * _row(inner, x, Y, dtype)
        case Sum(left, right):
            return _row(left, x, Y, dtype) + _row(right, x, Y, dtype)
        case Product(left, right):
            return _row(left, x, Y, dtype) * _row(right, x, Y, dtype)
        case Linear(bias):
            return Y @ x + dtype(bias)
    squares = ((x - Y) ** 2).sum(axis=1) / dtype(kernel.lengthscale) ** 2  # type: ignore[attr-defined]
    match kernel:
        case Gaussian():
            return np.exp(-squares / 2)
        case Matern(0.5, _):
            return np.exp(-np.sqrt(squares))
        case Matern(1.5, _):
            r = np.sqrt(3 * squares)
            return (1 + r) * np.exp(-r)
    raise NotImplementedError(f"no reference for {kernel!r}")


def cases(n: int) -> dict[str, tuple[np.ndarray, np.ndarray | None, float]]:
    """Points, other points (None: the same) and a lengthscale, for every difficulty."""
    rng = np.random.default_rng(1)

    def normal(d: int) -> np.ndarray:
        return rng.standard_normal((n, d))

    def repeated(d: int) -> np.ndarray:
        return np.repeat(rng.standard_normal((n // 4, d)), 4, axis=0)[rng.permutation(n)]

    made: dict[str, tuple[np.ndarray, np.ndarray | None, float]] = {}
    for d in (10, 90):
        lengthscale = (d / 2) ** 0.5
        made[f"d = {d}"] = normal(d), normal(d), lengthscale
        made[f"d = {d}, shifted by 10⁴"] = normal(d) + 1e4, normal(d) + 1e4, lengthscale
        made[f"d = {d}, every point four times"] = repeated(d), None, lengthscale
    made["unit square, ℓ = 0.02"] = rng.random((n, 2)), rng.random((n, 2)), 0.02
    made["unit square, ℓ = 0.02, with itself"] = rng.random((n, 2)), None, 0.02
    return made


def errors(dtype: Any, smoothness: float | None, n: int) -> dict[str, float]:
    """The relative error of K(X, Y)v in every case, over some of its rows."""
    wider = WIDER[np.dtype(dtype).name]
    found = {}
    for name, (X, Y, lengthscale) in cases(n).items():
        X = X.astype(dtype)
        Y = X if Y is None else Y.astype(dtype)
        v = np.random.default_rng(2).standard_normal(n).astype(dtype)
        kernel: Kernel = Gaussian(lengthscale)
        if smoothness is not None:
            kernel = Matern(smoothness, lengthscale=lengthscale)
        gram = kernel.gram(X) if Y is X else kernel.gram(X, Y)
        rows = np.linspace(0, n - 1, CHECKED).astype(int)
        reference = product(kernel, X[rows], Y, v, wider)
        found[name] = relative_error((gram @ v)[rows], reference)
    return found
