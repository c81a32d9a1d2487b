"""Products of a large matrix and few columns, in pieces that BLAS multiplies without copying.

A general matrix product first brings both factors into an order that suits the processor, which
pays for many columns. With few, the copy takes longer than the product. OpenBLAS leaves it out
where a product is small, and so do others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.runtime.threads import Span, run, single_threaded_blas, spans, thread_count


@dataclass(frozen=True)
class Tuning:
    """Sizes of the pieces."""

    multiplications: int = 1_000_000  # of a piece: up to so many OpenBLAS copies nothing
    rows: int = 64  # of a piece, at least
    longest: int = 1024  # columns of a piece: their part of V stays in the first-level cache
    widest: int = 48  # columns of V up to which this is quicker, by a factor of 2 up to 32


TUNING = Tuning()


def thin_product(matrix: np.ndarray, columns: np.ndarray, tuning: Tuning = TUNING) -> np.ndarray:
    """A V for NumPy arrays of one type. Its bits do not depend on the number of threads.

    >>> import numpy as np
    >>> A, V = np.arange(12.0).reshape(4, 3), np.eye(3)[:, :2]
    >>> bool(np.array_equal(thin_product(A, V), A[:, :2]))
    True
    """
    (n, m), width, most = matrix.shape, columns.shape[1], tuning.multiplications
    if not 0 < width <= tuning.widest or n * m * width <= most:
        return np.asarray(matrix @ columns)
    step = m if width == 1 else min(m, tuning.longest, most // (tuning.rows * width))
    pieces = spans(m, step)
    out = np.empty((n, width), np.result_type(matrix, columns))

    def fill(span: Span) -> None:
        rows, total = matrix[slice(*span)], out[slice(*span)]
        first, *others = pieces
        np.matmul(rows[:, slice(*first)], columns[slice(*first)], out=total)
        for piece in others:
            total += rows[:, slice(*piece)] @ columns[slice(*piece)]

    with single_threaded_blas():
        run(fill, spans(n, max(tuning.rows, most // (step * width))), thread_count())
    return out
