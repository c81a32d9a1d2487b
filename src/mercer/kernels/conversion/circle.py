"""The line rolled up: periodic kernels from kernels on the plane."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.kernels.algebra import derivative_of
from mercer.kernels.conversion.request import dense
from mercer.kernels.input_maps import Composed
from mercer.points import PointSet


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

    def derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        slopes = self.transform.derivative(x.data, 1)  # type: ignore[attr-defined]
        inner = derivative_of(self.kernel, self._image(x), self._image(y))
        return np.einsum("ijk,ik->ij", inner, slopes)[:, :, None]
