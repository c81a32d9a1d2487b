"""Derivatives of kernels in their first point, from the slopes of their expression.

k is a function of ⟨x,y⟩, ‖x−y‖², ‖x‖² and sums or products over coordinates, so

    ∂k/∂x = 2 k_s (x − y) + k_p y + 2 k_n x + …,

with k_s, k_p, k_n its slopes in ‖x−y‖², ⟨x,y⟩ and ‖x‖², which are expressions of their own. At a
kink the slope is the mean of the slopes on both sides: 0 at x = y for a Matérn kernel with ν = ½.
Slopes S are a matrix, computed a strip of points at a time. The term of ‖x−y‖²,
2 Σ_j s_ij a_j (x_i − y_j), is a difference of two matrix products in float64, where the y_j that
matter are not so close to x_i that it cancels; else differences are taken first, one coordinate
after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.arrays import (
    Array,
    as_numpy,
    beside,
    is_tensor,
    namespace,
    precision,
    to_precision,
    zeros,
)
from mercer.evaluation.execution import Names
from mercer.evaluation.expression import Expression, Number, X, Y, numbers_of
from mercer.evaluation.operations import derivative, evaluate
from mercer.evaluation.parameters import parameter_gradient
from mercer.evaluation.program import EvaluableKernel
from mercer.points import PointSet, View
from mercer.runtime.budget import MEGABYTE
from mercer.runtime.threads import spans


@dataclass(frozen=True)
class Tuning:
    """Sizes and thresholds of gradients."""

    few_outputs: int = 16  # columns of coefficients up to which it pays to look at what would
    # cancel: three products
    group_bytes: int = 8 * MEGABYTE  # of coefficients times coordinates multiplied together
    closest_float32: float = 2.0**-20  # centres that matter must be no closer than this, relative
    # to the farthest: products in float64 then keep the digits of float32 (2⁻²⁴) with some to spare
    closest_float64: float = 2.0**-10  # where 2⁻⁵³ is left of 1; users see the 2⁻⁴³ of a difference
    block_bytes: int = 8 * MEGABYTE  # of derivatives that a kernel's own function gives at a time


class Differentiable:
    """The derivatives of an execution, from the values of other expressions on its points."""

    kernel: EvaluableKernel
    x: Any
    y: Any
    strip_bytes = 8 * MEGABYTE  # of slopes at some points, which gradients take together
    coordinate_moments: Any = None  # Σ_j s_ij a_j t(x_ik, y_jk), where there is code of its own

    def values_of(self, expression: Expression, x: Any, y: Any) -> Array:
        """All values of an expression on points, stored."""
        raise NotImplementedError

    def product_with(self, expression: Expression, values: Array) -> Array:
        """E V, E being the matrix of the values of an expression."""
        raise NotImplementedError

    def evaluate(self, term: Expression, numbers: Any) -> Array:
        """The values of a term in given coordinates."""
        like = next(iter(numbers.values()))
        with np.errstate(divide="ignore", invalid="ignore"):
            values = evaluate(term, numbers, like if is_tensor(like) else None)
        return to_precision(values, like.dtype)

    def gradient(self, values: Array) -> Array:
        if self.kernel.expression() is not None:
            return gradient(self, values)
        x, y = self.x.host(), self.y.host()
        return self.x.vector(from_blocks(self.kernel, x, y, as_numpy(values)))

    def parameter_gradient(
        self, left: Array, right: Array | None = None, names: Names = None
    ) -> dict[str, Any]:
        if self.kernel.expression() is None:
            return {}  # there are differences only
        return parameter_gradient(self, left, right, names)


def gradient(execution: Differentiable, coefficients: Array, tuning: Tuning = Tuning()) -> Array:
    """∇ Σ_j α_j k(·, y_j) at every x_i; shape (n, outputs, columns)."""
    x = execution.x
    expression = execution.kernel.expression()
    assert expression is not None
    out = zeros((len(x), coefficients.shape[1], x.width), coefficients)
    terms = _Terms(execution, coefficients, tuning)
    for number in numbers_of(expression, twins=True):
        slope = derivative(expression, number)
        if slope is not None and number.kind in terms.of:
            terms.add(out, number, slope)
    return out


def from_blocks(
    kernel: EvaluableKernel,
    x: PointSet,
    y: PointSet,
    coefficients: np.ndarray,
    tuning: Tuning = Tuning(),
) -> np.ndarray:
    """The gradient from the kernel's own derivatives, a strip of points at a time."""
    width = getattr(x, "width", 1)
    strip = max(1, tuning.block_bytes // max(1, 8 * len(y) * width))
    parts = [
        np.einsum("ijk,jt->itk", kernel.derivative(x.slice(*span), y), coefficients)
        for span in spans(len(x), strip)
    ]
    empty = np.zeros((0, coefficients.shape[1], width))
    return np.concatenate(parts or [empty]).astype(coefficients.dtype)


class _Terms:
    """The term of each pair number in Σ_j a_j ∂k(x_i, y_j)/∂x_i, given the slopes in it."""

    def __init__(self, execution: Differentiable, coefficients: Array, tuning: Tuning) -> None:
        self.execution, self.coefficients, self.tuning = execution, coefficients, tuning
        self.xp = namespace(coefficients)
        self.of: dict[str, Callable[[Number, Array, Array, Array], Array]] = {
            "squared_distance": self.distance,
            "product": lambda number, slopes, x, y: self.moments(slopes, y),
            "x_norm": self.norm,
            "x_length": self.length,
            "coordinate_sum": self.sum,
            "coordinate_product": self.multiplied,
        }

    def add(self, out: Array, number: Number, slope: Expression) -> None:
        """Add the part of one number, strip by strip."""
        points, centres, view = self.execution.x, self.execution.y, number.view
        dtype = np.dtype(precision(self.coefficients.dtype))
        selected = view.columns
        columns = np.arange(points.width) if selected is None else points.positions(selected)
        y = centres.seen(view, dtype)
        size = len(centres) * dtype.itemsize
        for start, stop in spans(len(points), max(1, self.execution.strip_bytes // max(1, size))):
            piece = points.slice(start, stop)
            slopes = self.execution.values_of(slope, piece, centres)
            seen = piece.seen(view, dtype)
            part = self.of[number.kind](number, slopes, seen, y)
            add_columns(out[start:stop], columns, _pulled_back(part, seen, piece, view))

    def distance(self, number: Number, slopes: Array, x: Array, y: Array) -> Array:
        if self.coefficients.shape[1] > self.tuning.few_outputs or not len(y):
            return self.by_differences(slopes, x, y)
        part, close = self.by_products(slopes, x, y)
        if bool(close.any()):
            part[close] = self.by_differences(slopes[close], x[close], y)
        return part

    def by_differences(self, slopes: Array, x: Array, y: Array) -> Array:
        return self.stacked(
            lambda k: 2 * (slopes * (x[:, k, None] - y[None, :, k])) @ self.coefficients, x
        )

    def by_products(self, slopes: Array, x: Array, y: Array) -> tuple[Array, Array]:
        """2 Σ_j s_ij a_j x_i − 2 Σ_j s_ij a_j y_j in float64, and the rows where it cancels."""
        wide, seen, others, weights = (
            to_precision(array, "float64") for array in (slopes, x, y, self.coefficients)
        )
        middle = others.mean(axis=0)
        seen, others = seen - middle, others - middle
        total = (wide @ weights)[:, :, None] * seen[:, None, :]
        half = total - self.moments(wide, others, weights)
        close = self.close(half, wide, seen, others, weights)
        return to_precision(2 * half, x.dtype), close

    def close(self, half: Array, slopes: Array, x: Array, y: Array, coefficients: Array) -> Array:
        """Rows of which some output comes from centres much closer than the farthest one.

        The distance that counts is the mean of ‖x_i − y_j‖² with weights |s_ij a_j|. Its root times
        the sum of these weights is no less than ‖Σ_j s_ij a_j (x_i − y_j)‖, so that where this is
        large, as it mostly is, nothing more need be known.
        """
        single = precision(self.coefficients.dtype) == "float32"
        closest = self.tuning.closest_float32 if single else self.tuning.closest_float64
        weights, squares = abs(coefficients), (y**2).sum(axis=1)[:, None]
        total = abs(slopes) @ weights
        least = closest**2 * ((x**2).sum(axis=1)[:, None] + squares.max())
        close = self.xp.any((half**2).sum(axis=-1) < least * total**2, axis=1)
        rest = self.xp.nonzero(close)[0]
        if len(rest):
            sizes, own, rows = abs(slopes[rest]), x[rest], total[rest]
            across = (self.moments(sizes, y, weights) * own[:, None, :]).sum(axis=-1)
            spread = (own**2).sum(axis=1)[:, None] * rows - 2 * across + sizes @ (squares * weights)
            close[rest] = self.xp.any(spread < least[rest] * rows, axis=1)
        return close

    def moments(self, slopes: Array, y: Array, coefficients: Array | None = None) -> Array:
        """Σ_j s_ij a_jt y_jk, some coordinates at a time."""
        coefficients = self.coefficients if coefficients is None else coefficients
        m, outputs = coefficients.shape
        group = max(1, self.tuning.group_bytes // max(1, 8 * m * outputs))
        parts = []
        for k in range(0, y.shape[1], group):
            columns = coefficients[:, :, None] * y[:, None, k : k + group]
            width = columns.shape[-1]
            product = slopes @ columns.reshape(m, outputs * width)
            parts.append(product.reshape(len(slopes), outputs, width))
        return parts[0] if len(parts) == 1 else self.xp.concat(parts, axis=-1)

    def norm(self, number: Number, slopes: Array, x: Array, y: Array) -> Array:
        return 2 * (slopes @ self.coefficients)[:, :, None] * x[:, None, :]

    def length(self, number: Number, slopes: Array, x: Array, y: Array) -> Array:
        return ((slopes @ self.coefficients) / lengths(x))[:, :, None] * x[:, None, :]

    def sum(self, number: Number, slopes: Array, x: Array, y: Array) -> Array:
        term = derivative(number.term, X)  # type: ignore[arg-type]
        compiled = self.execution.coordinate_moments
        if compiled is not None and term is not None:  # on the CPU, ten times as fast
            return compiled(term, slopes, x, y, self.coefficients)
        return self.stacked(
            lambda k: (slopes * self.coordinate(term, x, y, k)) @ self.coefficients, x
        )

    def multiplied(self, number: Number, slopes: Array, x: Array, y: Array) -> Array:
        """Π over the other coordinates times the slope of one, without dividing by its value."""
        term, width = derivative(number.term, X), x.shape[1]  # type: ignore[arg-type]

        def part(k: int) -> Any:
            weights = slopes * self.coordinate(term, x, y, k)
            for other in range(width):
                if other != k:
                    weights = weights * self.coordinate(number.term, x, y, other)
            return weights @ self.coefficients

        return self.stacked(part, x)

    def stacked(self, part: Callable[[int], Array], x: Array) -> Array:
        """One coordinate after the other."""
        return self.xp.stack([part(k) for k in range(x.shape[1])], axis=-1)

    def coordinate(self, term: Expression | None, x: Array, y: Array, k: int) -> Any:
        """The values of a term in coordinate k, for all pairs."""
        if term is None:
            return 0.0 * x[:1, :1]
        return self.execution.evaluate(term, {X: x[:, k, None], Y: y[None, :, k]})


def add_columns(out: Array, columns: np.ndarray, part: Array) -> None:
    """Add to some columns of the last axis, one by one: a column may be named twice."""
    for k, column in enumerate(columns.tolist()):
        out[..., column] += part[..., k]


def lengths(rows: Array) -> Array:
    """‖x‖ of each row as a column, and 1 where it is 0."""
    xp = namespace(rows)
    sizes = xp.linalg.vector_norm(rows, axis=1, keepdims=True)
    return xp.where(sizes > 0, sizes, 1.0)


def _pulled_back(part: Array, seen: Array, x: Any, view: View) -> Array:
    """The chain rule of a view: from its coordinates back to the columns it selects.

    That of x ↦ x/‖x‖ drops what points along x, and divides by ‖x‖.
    """
    if view.unit:
        rows = x.seen(replace(view, unit=False), part.dtype)
        along = (part * seen[:, None, :]).sum(axis=-1)[:, :, None] * seen[:, None, :]
        part = (part - along) / lengths(rows)[:, :, None]
    if view.scales is not None:
        part = part * to_precision(beside(view.scales, part), part.dtype)
    if view.matrix is not None:
        part = part @ to_precision(beside(view.matrix, part), part.dtype)
    return part
