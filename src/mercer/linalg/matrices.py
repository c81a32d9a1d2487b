"""Checks of matrices and right-hand sides, and what is read off a diagonal."""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array, identity, is_tensor, namespace


def require_matrix(matrix: Array, *, square: bool = True, finite: bool = True) -> None:
    """Refuse what is no matrix of float32 or float64, or not square or finite where it must be."""
    xp = namespace(matrix)
    if matrix.dtype not in (xp.float32, xp.float64):
        raise ValueError(
            f"Expected an array of float32 or float64, got {matrix.dtype}: write "
            "xp.astype(array, xp.float64)."
        )
    if matrix.ndim != 2:
        raise ValueError(
            "Expected a matrix with rows and columns, got an array of shape "
            f"{tuple(matrix.shape)}: write x[:, None] for one column."
        )
    if square and matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            f"Expected a square matrix, got shape {tuple(matrix.shape)}: write "
            "kernel.gram(X).dense() for the points against themselves, or qr(matrix) for a "
            "rectangular one."
        )
    if not finite:
        return
    with np.errstate(over="ignore", invalid="ignore"):  # a sum is quicker than a look at each
        fine = bool(xp.isfinite(xp.sum(matrix))) or bool(xp.all(xp.isfinite(matrix)))
    if not fine:
        bad = int(xp.count_nonzero(~xp.isfinite(matrix)))
        raise ValueError(
            f"Expected finite numbers, got {bad} NaN or infinite entries in a matrix of shape "
            f"{tuple(matrix.shape)}. Where it is a Gram matrix of finite points, the kernel "
            "overflows there: scale the points, as with StandardScaler, or write "
            "kernel.normalised()."
        )


def of_one_type(matrix: Array, b: Array) -> tuple[Array, Array]:
    """A matrix and a right-hand side that fits it, both in the wider of their two types."""
    xp = namespace(matrix, b)
    for array in (matrix, b):
        if array.dtype not in (xp.float32, xp.float64):
            raise ValueError(
                f"Expected an array of float32 or float64, got {array.dtype}: write "
                "xp.astype(array, xp.float64)."
            )
    if b.ndim not in (1, 2) or b.shape[0] != matrix.shape[0]:
        raise ValueError(
            f"Expected a right-hand side of {matrix.shape[0]} rows, one column or many, got shape "
            f"{tuple(b.shape)}: write b.T if the right-hand sides are its rows."
        )
    dtype = xp.result_type(matrix, b)
    return xp.astype(matrix, dtype, copy=False), xp.astype(b, dtype, copy=False)


def diagonal(matrix: Array) -> Array:
    """The diagonal of a matrix."""
    return namespace(matrix).linalg.diagonal(matrix)


def largest(array: Array) -> float:
    """The largest size of an entry, 0 if there is none."""
    xp = namespace(array)
    return float(xp.max(xp.abs(array))) if 0 not in array.shape else 0.0


def rounding_unit(array: Array) -> float:
    """The distance from 1 to the next number."""
    return float(namespace(array).finfo(array.dtype).eps)


def shift_diagonal(matrix: Array, amount: float) -> Array:
    """A + amount·I; arrays of NumPy and tensors are changed in place.

    >>> import numpy as np
    >>> shift_diagonal(np.zeros((2, 2)), 3.0).tolist()
    [[3.0, 0.0], [0.0, 3.0]]
    """
    if namespace(matrix) is np:
        with np.errstate(over="ignore"):  # what is too large is refused where it is factored
            np.fill_diagonal(matrix, matrix.diagonal() + matrix.dtype.type(amount))
        return matrix
    if is_tensor(matrix):
        matrix.diagonal().add_(amount)
        return matrix
    return shifted(matrix, amount)


def shifted(matrix: Array, jitter: float) -> Array:
    """A + jitter·I, as a new array where there is any jitter."""
    if not jitter:
        return matrix
    if is_tensor(matrix):  # one more matrix, where the sum below would take three
        return shift_diagonal(matrix.clone(), jitter)
    return matrix + jitter * identity(matrix.shape[0], matrix)


def scale(matrix: Array) -> float:
    """The mean of |A_ii|, or, on a diagonal of zeros, what else can tell the size of A."""
    xp = namespace(matrix)
    return float(xp.mean(xp.abs(diagonal(matrix)))) or largest(matrix) or 1.0
