"""Conjugate gradients with a preconditioner, for many right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mercer.arrays import Array, namespace

Apply = Callable[[Array], Array]


@dataclass(frozen=True)
class Iterates:
    """Where conjugate gradients ended: x, its true relative residual, and how it got there."""

    solution: Array
    residual: float
    history: list[float]


def conjugate_gradients(
    multiply: Apply, precondition: Apply, b: Array, *, tolerance: float, iterations: int
) -> Iterates:
    """Solve A x = b for a positive definite A, given v ↦ A v and v ↦ M⁻¹v.

    The residual that is reported is b − A x, computed afresh at the end, relative to b, the worst
    over columns; the history holds what the recursion believed on the way.

    >>> import numpy as np
    >>> A = np.diag([1.0, 2.0, 3.0])
    >>> run = conjugate_gradients(
    ...     lambda v: A @ v, lambda r: r, np.ones((3, 1)), tolerance=1e-12, iterations=5
    ... )
    >>> bool(np.allclose(A @ run.solution, 1.0))
    True
    """
    xp = namespace(b)
    scale = xp.linalg.vector_norm(b, axis=0)
    scale = xp.where(scale == 0, xp.ones_like(scale), scale)
    x = precondition(b)
    residual = b - multiply(x)
    history = [_worst(residual, scale)]
    z = precondition(residual)
    direction, energy = z, _dots(residual, z)
    while history[-1] > tolerance and len(history) <= iterations:
        image = multiply(direction)
        step = _ratios(energy, _dots(direction, image))
        x = x + step * direction
        residual = residual - step * image
        history.append(_worst(residual, scale))
        z = precondition(residual)
        previous, energy = energy, _dots(residual, z)
        direction = z + _ratios(energy, previous) * direction
    return Iterates(x, _worst(b - multiply(x), scale), history)


def _dots(a: Array, b: Array) -> Array:
    return namespace(a).sum(a * b, axis=0)


def _ratios(a: Array, b: Array) -> Array:
    xp = namespace(a)
    divisor = xp.where(b != 0, b, xp.ones_like(b))
    return xp.where(b != 0, a / divisor, xp.zeros_like(a))


def _worst(residual: Array, scale: Array) -> float:
    xp = namespace(residual)
    if 0 in scale.shape:
        return 0.0
    return float(xp.max(xp.linalg.vector_norm(residual, axis=0) / scale))
