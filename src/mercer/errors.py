"""Warnings and errors of the library.

A refusal is a `ValueError` whose text says what was expected, what came, and what to write instead.
A warning is a `MercerWarning`: the answer stands, and the text says at what price.

Examples
--------
>>> from mercer.errors import MercerWarning, SlowKernelWarning
>>> issubclass(SlowKernelWarning, MercerWarning)  # so one filter silences, or raises, them all
True
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

__all__ = [
    "ApproximationWarning",
    "GridEdgeWarning",
    "IndefiniteKernelWarning",
    "LengthscaleWarning",
    "MercerWarning",
    "ModelFileError",
    "NotPositiveDefiniteError",
    "NumericalWarning",
    "SlowKernelWarning",
]

INSIDE = ("mercer.", "sklearn.")


def warn(text: str, category: type[Warning]) -> None:
    """Warn, and point to the line of the user's own code that led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


class MercerWarning(UserWarning):
    """The root of every warning of the library.

    >>> issubclass(ApproximationWarning, MercerWarning), issubclass(MercerWarning, UserWarning)
    (True, True)
    """


class ApproximationWarning(MercerWarning):
    """The answer is an approximation, coarser than the one asked for.

    >>> import warnings
    >>> warnings.simplefilter("error", ApproximationWarning)  # stop there instead
    >>> warnings.resetwarnings()
    """


class SlowKernelWarning(MercerWarning):
    """The kernel has no fast execution, and is evaluated pair by pair in Python.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", SlowKernelWarning)
    """


class LengthscaleWarning(MercerWarning):
    """The lengthscale does not suit the points: to the kernel they are all equal, or unrelated.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", LengthscaleWarning)
    """


class GridEdgeWarning(MercerWarning):
    """The best of a search lies on the edge of its grid, so that a better one may lie beyond.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", GridEdgeWarning)
    """


class NumericalWarning(MercerWarning):
    """Digits were lost, and the text says how many.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", NumericalWarning)
    """


class IndefiniteKernelWarning(MercerWarning):
    """The kernel is not positive definite, so that a solution of the system minimises nothing.

    >>> import warnings, numpy as np
    >>> from mercer import KernelRidge
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     _ = KernelRidge(kernel="sigmoid").fit(X, X[:, 0])
    >>> seen[0].category.__name__
    'IndefiniteKernelWarning'
    """


class NotPositiveDefiniteError(ValueError):
    """A matrix A that was to be positive definite is not; `witness` is v with vᵀAv < 0.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.linalg import cholesky
    >>> A = np.asarray([[1.0, 2.0], [2.0, 1.0]])
    >>> try:
    ...     cholesky(A)
    ... except NotPositiveDefiniteError as refusal:
    ...     v = refusal.witness
    >>> bool(v @ A @ v < 0)
    True
    """

    def __init__(self, message: str, witness: Any = None) -> None:
        super().__init__(message)
        self.witness = witness


class ModelFileError(ValueError):
    """A file is no model that can be loaded, or a model cannot be written to a file.

    >>> import mercer, tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".mercer") as file:
    ...     mercer.load(file.name)
    Traceback (most recent call last):
        ...
    mercer.errors.ModelFileError: ...
    """
