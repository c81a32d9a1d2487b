"""Kernels that are not positive definite: found, and named in the status with a witness."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import precision
from mercer.kernels import laws
from mercer.operators import Gram
from mercer.solvers.solution import Status

SAMPLE = 100  # points on which a kernel without a theorem is tried


def witness_of(gram: Gram) -> np.ndarray | None:
    """A unit vector v with vᵀKv < 0, or None: where laws decide nothing, by trying some points.

    The least eigenvalue of K on some of the points is no less than on all of them, so that a
    witness found here is one for K, while None proves nothing.

    >>> import numpy as np
    >>> from mercer.kernels import Gaussian, Precomputed
    >>> witness_of(Gaussian().gram([[0.0], [1.0]]))
    >>> K = np.array([[1.0, 2.0], [2.0, 1.0]])
    >>> v = witness_of(Precomputed(K).gram([0, 1]))
    >>> bool(np.isclose(v @ K @ v, -1.0))
    True
    """
    if laws.positive_definite(gram.kernel, getattr(gram.x, "width", None)).yes:
        return None
    n = gram.shape[0]
    rows = np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(int))
    matrix = Gram(gram.kernel, gram.x.take(rows)).dense().astype(np.float64)
    values, vectors = linalg.eigen(matrix)
    if not linalg.is_negative(values, matrix, precision(gram.dtype)):
        return None
    witness = np.zeros(n)
    witness[rows] = vectors[:, 0]
    return witness


def sentence(gram: Gram, witness: Any) -> str:
    """What a status says of a witness.

    >>> import numpy as np
    >>> from mercer.kernels import Precomputed
    >>> gram = Precomputed(np.diag([1.0, -2.0])).gram([0, 1])
    >>> sentence(gram, np.array([0.0, 1.0]))
    'the kernel is not positive definite, vᵀKv = -2 for the unit vector v in `witness`'
    """
    value = float(witness @ (gram @ witness))
    return (
        f"the kernel is not positive definite, vᵀKv = {value:.3g} for the unit vector v in "
        "`witness`"
    )


def without_minimum(gram: Gram, witness: Any, note: str) -> Status:
    """The status of a system that was solved for a kernel that is not positive definite."""
    return Status(
        False,
        f"No minimum: {sentence(gram, witness)}; {note}",
        "The system is solved, but for this kernel the objective has no minimum. Choose a positive "
        "definite one, as Gaussian(), or add a multiple of the identity to a precomputed matrix.",
        witness,
    )
