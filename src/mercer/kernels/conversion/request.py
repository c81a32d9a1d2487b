"""What `as_kernel` was asked for, and what its rules share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from mercer.arrays import is_tensor, namespace, to_precision
from mercer.points import as_vectors


@dataclass(frozen=True)
class Request:
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
    if is_tensor(rows):
        return float(namespace(rows).var(to_precision(rows, "float64")))
    if hasattr(rows, "multiply"):
        return float(rows.multiply(rows).mean() - rows.mean() ** 2)
    return float(rows.var())


def refuse_indefinite(request: Request, reason: str, alternative: str) -> None:
    """Refuse what is not positive definite, unless that was asked for."""
    if not request.allow_indefinite:
        raise ValueError(
            f"{reason} {alternative} To use it all the same, pass allow_indefinite=True."
        )


def is_whole(value: Any) -> bool:
    """Whether this is a whole number, as an int or a float."""
    return isinstance(value, Real) and float(value).is_integer()


def column_pairs(X: Any, Y: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Column by column the values in X, standing, and in Y, lying: they broadcast to all pairs."""
    columns = zip(dense(X).T, dense(Y).T, strict=True)
    return ((x[:, None], y[None, :]) for x, y in columns)


def dense(matrix: Any) -> np.ndarray:
    """The matrix as an array; sparse ones are filled up."""
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)
