"""A kernel on one set of points, and what the contracts ask of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mercer.kernels import Kernel
from mercer.kernels.facts import Facts
from mercer.operators import Gram
from mercer.points import PointSet, VectorPoints
from mercer.testing.rounding import kernel_bound

DIMENSIONS = (1, 2, 5)
TRUSTED = 256.0  # units in the last place of its largest value: a kernel's own block function


@dataclass(frozen=True, eq=False)
class Case:
    """A kernel on points that have a name; values are computed once."""

    kernel: Kernel
    data: Any
    name: str
    seed: int = 0

    @cached_property
    def x(self) -> PointSet:
        return self.kernel.points(self.data)

    @cached_property
    def y(self) -> PointSet:
        """Some of the points in another order, so that rows and columns differ."""
        return self.x.take(np.arange(len(self.x))[::-1][: max(1, len(self.x) - 2)])

    @cached_property
    def dtype(self) -> np.dtype:
        return self.x.dtype

    @cached_property
    def unit(self) -> float:
        return float(np.finfo(self.dtype).eps)

    @cached_property
    def dense(self) -> np.ndarray:
        """K(X, X)."""
        return self.gram(self.x).dense()

    @cached_property
    def block(self) -> np.ndarray:
        """K(X, Y)."""
        return self.gram(self.x, self.y).dense()

    @cached_property
    def facts(self) -> Facts:
        """The facts of the kernel on these points."""
        return self.kernel.facts(getattr(self.x, "width", None))

    @cached_property
    def slack(self) -> np.ndarray:
        """By how much rounding may move K(X, X)."""
        return self.bound(self.x, self.x)

    @cached_property
    def block_slack(self) -> np.ndarray:
        """By how much rounding may move K(X, Y)."""
        return self.bound(self.x, self.y)

    def gram(self, x: PointSet, y: PointSet | None = None) -> Gram:
        return Gram(self.kernel, x, y)

    def bound(self, x: PointSet, y: PointSet, dtype: Any = None) -> np.ndarray:
        """By how much rounding may move K(X, Y), entry by entry."""
        dtype = np.dtype(dtype or self.dtype)
        expression = self.kernel.expression()
        if expression is None or not isinstance(x, VectorPoints):
            size = float(np.abs(self.gram(x, y).dense()).max(initial=0.0))
            return np.full((len(x), len(y)), TRUSTED * float(np.finfo(dtype).eps) * size)
        expanded = "products" in self.gram(x, y).plan().distances
        return kernel_bound(expression, x, y, dtype, expanded)  # type: ignore[arg-type]

    def random(self, *shape: int) -> np.ndarray:
        """The same normal numbers for the same shape, in the precision of the points."""
        return np.random.default_rng(self.seed).standard_normal(shape).astype(self.dtype)

    def resized(self, size: int) -> tuple[PointSet, np.ndarray]:
        """So many points, repeated in turn where there are too few, and their numbers."""
        indices = np.arange(size) % len(self.x)
        return self.x.take(indices), indices

    def agree(self, left: Any, right: Any, allowed: Any, what: str) -> None:
        """Refuse numbers that are further apart than rounding explains."""
        left, right = np.asarray(left, np.float64), np.asarray(right, np.float64)
        if left.shape != right.shape:
            self.refuse(f"{what} have shapes {left.shape} and {right.shape}")
        with np.errstate(invalid="ignore"):
            gap = np.abs(left - right)
            excess = np.where(gap <= allowed, 0.0, np.where(np.isfinite(gap), gap, np.inf))
        if excess.any():
            worst = np.unravel_index(np.argmax(excess), excess.shape)
            limit = np.broadcast_to(allowed, gap.shape)[worst]
            self.refuse(
                f"{what} are {left[worst]:.17g} and {right[worst]:.17g} at index "
                f"{', '.join(str(int(i)) for i in worst)}, "
                f"{gap[worst]:.2g} apart; rounding explains {limit:.2g}"
            )

    def refuse(self, sentence: str) -> None:
        raise AssertionError(f"{self.kernel!r} on {self.name}: {sentence}.")


def cases(kernel: Kernel, points: Any, seed: int) -> Iterator[Case]:
    """The given points, or vectors of several dimensions and kinds that the kernel accepts."""
    if points is not None:
        yield Case(kernel, points, "the given points", seed)
        return
    accepted = [d for d in DIMENSIONS if _accepts(kernel, d)]
    if not accepted:
        raise ValueError(
            f"{kernel!r} refuses vectors of dimension {', '.join(map(str, DIMENSIONS))}: pass "
            "points it is made for, check_kernel(kernel, points)."
        )
    for dimension in accepted:
        for name, data in vectors(dimension, seed).items():
            yield Case(kernel, data, f"{name} points in dimension {dimension}", seed)


def _accepts(kernel: Kernel, dimension: int) -> bool:
    try:
        kernel.gram(np.zeros((1, dimension))).dense()
    except ValueError:
        return False
    return True


def vectors(dimension: int, seed: int = 0, size: int = 17) -> dict[str, np.ndarray]:
    """Points on which kernels often fail, by name.

    >>> sorted(vectors(2))
    ['duplicated', 'far', 'integer', 'plain', 'tiny']
    """
    random = np.random.default_rng(seed)
    plain = random.standard_normal((size, dimension))
    return {
        "plain": plain,
        "duplicated": plain[random.integers(size // 3, size=size)],
        "far": plain + 1e4,
        "tiny": 1e-4 * plain,
        "integer": random.integers(-3, 4, size=(size, dimension)),
    }
