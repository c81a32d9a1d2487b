"""Krylov methods: preconditioned conjugate gradients for many right-hand sides, and Lanczos.

All of them only multiply: by the matrix of a system, and by a preconditioner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, as_numpy, beside, inner, namespace

Apply = Callable[[Array], Array]


@dataclass(frozen=True)
class Step:
    """One step of conjugate gradients: y, Ly, the residual b − Hy, its energy rᵀLr, and dᵀLHd.

    The residual is updated, not computed anew from b − Hy; `bend` is the curvature along the last
    direction d; `direction` and `raised` are the next d and Ld.
    """

    solution: Array
    lifted: Array
    residual: Array
    energy: Any  # a number where columns are coupled, else one for each
    bend: Any
    direction: Array
    raised: Array

    def stored(self) -> tuple[Array, list[float]]:
        """The state for the next step: five arrays in one, and the energies."""
        parts = self.solution, self.lifted, self.residual, self.direction, self.raised
        return namespace(self.residual).stack(parts), as_numpy(self.energy).reshape(-1).tolist()

    @classmethod
    def restored(cls, arrays: Array, energies: list[float], *, coupled: bool) -> Step:
        """The step that was stored."""
        solution, lifted, residual, direction, raised = (arrays[i, ...] for i in range(5))
        energy: Any = energies[0] if coupled else beside(np.asarray(energies), residual)
        return cls(solution, lifted, residual, energy, math.nan, direction, raised)


def conjugate_steps(
    apply: Callable[[Array, Array], Array],
    lift: Apply,
    b: Array,
    *,
    coupled: bool = False,
    after: Step | None = None,
) -> Iterator[Step]:
    """The iterates of conjugate gradients for H y = b from y = 0, in the inner product aᵀLb.

    H must be self-adjoint and positive there. `apply(d, Ld)` gives Hd, so that two uses share one
    recursion, with one product by A or K for each step:

    - a preconditioner M for Ax = b: L = M⁻¹, H = AM⁻¹ and x = Ly, the field `lifted`;
    - Newton's equations (λI + DK)δ = −g in the space of functions: L = K, and `lifted` is Kδ.

    Columns are systems of their own, or one system where they are `coupled`. The caller decides
    when to stop; nothing is multiplied before a step is asked for. With `after` the steps are those
    that come after that one.

    >>> import numpy as np
    >>> A = np.diag([1.0, 2.0])
    >>> steps = conjugate_steps(lambda d, lifted: A @ lifted, lambda r: r, np.ones((2, 1)))
    >>> *_, last = zip(range(2), steps)
    >>> bool(np.allclose(A @ last[1].lifted, 1.0))
    True
    """
    dot = inner if coupled else _column_dots
    step = after
    if step is None:
        raised = lift(b)
        step = Step(0.0 * b, 0.0 * b, b, dot(b, raised), math.nan, b, raised)
    while True:
        image = apply(step.direction, step.raised)
        bend = dot(image, step.raised)
        length = _ratio(step.energy, bend)
        residual = step.residual - length * image
        high = lift(residual)
        energy = dot(residual, high)
        turn = _ratio(energy, step.energy)
        y, lifted = step.solution + length * step.direction, step.lifted + length * step.raised
        direction, raised = residual + turn * step.direction, high + turn * step.raised
        step = Step(y, lifted, residual, energy, bend, direction, raised)
        yield step


@dataclass(frozen=True)
class Iterates:
    """The result of conjugate gradients: x, its true relative residual, and the history."""

    solution: Array
    residual: float
    history: list[float]


def conjugate_gradients(
    multiply: Apply, precondition: Apply, b: Array, *, tolerance: float, iterations: int
) -> Iterates:
    """Solve A x = b for a positive definite A, given v ↦ A v and v ↦ M⁻¹v, from x = M⁻¹b.

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
    steps = conjugate_steps(lambda d, raised: multiply(raised), precondition, residual)
    while history[-1] > tolerance and len(history) <= iterations:
        step = next(steps)
        x = start + step.lifted
        history.append(_worst(step.residual, scale))
    return Iterates(x, _worst(b - multiply(x), scale), history)


def largest_eigenvalue(multiply: Apply, like: Array, *, steps: int = 30) -> float:
    """The largest eigenvalue of a symmetric A ⪰ 0 by Lanczos' method, one product for each step.

    It comes from below, and is a few per cent short at worst, nearly always much less. `like` is
    any vector of the length and library of those that A multiplies.

    References
    ----------
    J. Kuczyński, H. Woźniakowski, Estimating the largest eigenvalue by the power and Lanczos
    algorithms with a random start, 1992.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([1.0, 4.0, 2.0])
    >>> bool(np.isclose(largest_eigenvalue(lambda v: A * v, A), 4.0))
    True
    """
    xp, size = namespace(like), like.shape[0]
    start = np.random.default_rng(0).standard_normal(size)
    vector = beside(start, like)
    basis, images, largest = [], [], 0.0
    for _ in range(min(steps, size)):
        basis.append(vector / xp.linalg.vector_norm(vector))
        images.append(multiply(basis[-1]))
        rows = xp.stack(basis)
        values, vectors = linalg.eigen(rows @ xp.stack(images).T)
        largest = max(float(values[-1]), 0.0)
        vector = images[-1]
        for _ in range(2):  # a second time takes out what rounding left of the first
            vector = vector - rows.T @ (rows @ vector)
        if float(xp.linalg.vector_norm(vector) * xp.abs(vectors[-1, -1])) <= 1e-4 * largest:
            break
    return largest


def _column_dots(a: Array, b: Array) -> Array:
    return namespace(a).sum(a * b, axis=0)


def _ratio(a: Any, b: Any) -> Any:
    """a/b, and 0 where b is 0."""
    if isinstance(b, float):
        return a / b if b else 0.0
    xp = namespace(a)
    return xp.where(b == 0, 0.0, a / xp.where(b == 0, 1.0, b))


def _worst(residual: Array, scale: Array) -> float:
    sizes = namespace(residual).linalg.vector_norm(residual, axis=0) / scale
    return max((float(size) for size in sizes), default=0.0)
