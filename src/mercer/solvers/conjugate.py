"""Conjugate gradients with a preconditioner, for many right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    scale = xp.where(scale == 0, 1.0, scale)
    start = precondition(b)
    residual = b - multiply(start)
    history, x = [_worst(residual, scale)], start
    steps = conjugate_steps(multiply, precondition, residual)
    while history[-1] > tolerance and len(history) <= iterations:
        step = next(steps)
        x = start + step.solution
        history.append(_worst(step.residual, scale))
    return Iterates(x, _worst(b - multiply(x), scale), history)


@dataclass(frozen=True)
class Step:
    """One step: x, b − A x as the recursion believes, and rᵀM⁻¹r of each column."""

    solution: Array
    residual: Array
    energy: Array


def conjugate_steps(
    multiply: Apply, precondition: Apply, b: Array, *, coupled: bool = False
) -> Iterator[Step]:
    """The iterates of conjugate gradients for A x = b from x = 0, one product with A for each.

    Columns are problems of their own, or one problem where they are `coupled`. Whoever iterates
    decides when to stop; no product is made before a step is asked for.

    >>> import numpy as np
    >>> A = np.diag([1.0, 2.0])
    >>> *_, last = zip(range(2), conjugate_steps(lambda v: A @ v, lambda r: r, np.ones((2, 1))))
    >>> bool(np.allclose(A @ last[1].solution, 1.0))
    True
    """
    dots = _whole_dot if coupled else _dots
    x, residual = 0.0 * b, b
    direction = z = precondition(residual)
    energy = dots(residual, z)
    while True:
        image = multiply(direction)
        step = _ratios(energy, dots(direction, image))
        x = x + step * direction
        residual = residual - step * image
        z = precondition(residual)
        previous, energy = energy, dots(residual, z)
        yield Step(x, residual, energy)
        direction = z + _ratios(energy, previous) * direction


def _whole_dot(a: Array, b: Array) -> Array:
    return namespace(a).sum(a * b)


def _dots(a: Array, b: Array) -> Array:
    return namespace(a).sum(a * b, axis=0)


def _ratios(a: Array, b: Array) -> Array:
    xp = namespace(a)
    return xp.where(b == 0, 0.0, a / xp.where(b == 0, 1.0, b))


def _worst(residual: Array, scale: Array) -> float:
    sizes = namespace(residual).linalg.vector_norm(residual, axis=0) / scale
    return max((float(size) for size in sizes), default=0.0)
