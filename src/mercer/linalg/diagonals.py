"""What is added to a diagonal, and the size of a matrix that it tells."""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array, is_tensor, namespace
from mercer.requirements import diagonal, largest


def shift_diagonal(matrix: Array, amount: float) -> Array:
    """A + amount·I; arrays of NumPy and tensors are changed in place.

    >>> import numpy as np
    >>> shift_diagonal(np.zeros((2, 2)), 3.0).tolist()
    [[3.0, 0.0], [0.0, 3.0]]
    """
    if is_tensor(matrix):
        matrix.diagonal().add_(amount)
        return matrix
    if namespace(matrix) is not np:
        return shifted(matrix, amount)
    with np.errstate(over="ignore"):  # what is too large is refused where it is factored
        np.fill_diagonal(matrix, matrix.diagonal() + matrix.dtype.type(amount))
    return matrix


def shifted(matrix: Array, jitter: float) -> Array:
    """A + jitter·I, as a new array where there is any jitter."""
    if not jitter:
        return matrix
    xp = namespace(matrix)
    return matrix + jitter * xp.eye(matrix.shape[0], dtype=matrix.dtype, device=matrix.device)


def scale(matrix: Array) -> float:
    """The mean of |A_ii|, or, on a diagonal of zeros, what else can tell the size of A."""
    xp = namespace(matrix)
    return float(xp.mean(xp.abs(diagonal(matrix)))) or largest(matrix) or 1.0
