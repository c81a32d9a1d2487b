"""Gradients from slopes: what each number of a pair adds to Σ_j a_j ∂k(x_i, y_j)/∂x_i.

Slopes S are a matrix. The term of ‖x−y‖², 2 Σ_j s_ij a_j (x_i − y_j), is a difference of two matrix
products in float64, where the y_j that matter are not so close to x_i that it cancels; else
differences are taken first, one coordinate after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.arrays import Array, is_tensor, namespace, precision, to_precision
from mercer.evaluation.expression import Expression, Number, X, Y
from mercer.evaluation.operations import derivative
from mercer.evaluation.reference import evaluate
from mercer.runtime.budget import MEGABYTE

FEW_OUTPUTS = 16  # up to which a look at what cancels pays
GROUP_BYTES = 8 * MEGABYTE  # of coefficients times coordinates
CLOSEST = {"float32": 2.0**-20, "float64": 2.0**-10}  # of the farthest: less would cancel

# (number, slopes, x, y, coefficients) to a part of the gradient, of shape (n, outputs, columns)
Term = Callable[[Number, Array, Array, Array, Array], Array]


def lengths(rows: Array) -> Array:
    """‖x‖ of each row as a column, and 1 where it is 0."""
    xp = namespace(rows)
    found = xp.linalg.vector_norm(rows, axis=1, keepdims=True)
    return xp.where(found > 0, found, 1.0)


def _distance_term(number: Number, slopes: Array, x: Array, y: Array, coefficients: Array) -> Array:
    if coefficients.shape[1] > FEW_OUTPUTS or not len(y):
        return _by_differences(slopes, x, y, coefficients)
    part, close = _by_products(slopes, x, y, coefficients)
    if bool(close.any()):
        part[close] = _by_differences(slopes[close], x[close], y, coefficients)
    return part


def _by_products(slopes: Array, x: Array, y: Array, coefficients: Array) -> tuple[Array, Array]:
    """2 Σ_j s_ij a_j x_i − 2 Σ_j s_ij a_j y_j in float64, and the rows where too much cancels."""
    wide, seen, others, weights = (
        to_precision(array, "float64") for array in (slopes, x, y, coefficients)
    )
    middle = others.mean(axis=0)
    seen, others = seen - middle, others - middle
    total = (wide @ weights)[:, :, None] * seen[:, None, :]
    part = 2 * (total - _moments(wide, others, weights))
    close = _close(wide, seen, others, weights, CLOSEST[precision(x.dtype)])
    return to_precision(part, x.dtype), close


def _close(slopes: Array, x: Array, y: Array, coefficients: Array, closest: float) -> Array:
    """Rows of which some output comes from centres much closer than the farthest one.

    The distance that counts is the mean of ‖x_i − y_j‖² with weights |s_ij a_j|.
    """
    xp = namespace(slopes)
    sizes, weights = abs(slopes), abs(coefficients)
    own, squares = (x**2).sum(axis=1)[:, None], (y**2).sum(axis=1)[:, None]
    total = sizes @ weights
    across = (_moments(sizes, y, weights) * x[:, None, :]).sum(axis=-1)
    spread = own * total - 2 * across + sizes @ (squares * weights)
    farthest = own + squares.max()
    return xp.any(spread < closest**2 * farthest * total, axis=1)


def _moments(slopes: Array, y: Array, coefficients: Array) -> Array:
    """Σ_j s_ij a_jt y_jk, some coordinates at a time."""
    m, outputs = coefficients.shape
    group = max(1, GROUP_BYTES // max(1, 8 * m * outputs))
    parts = []
    for k in range(0, y.shape[1], group):
        columns = coefficients[:, :, None] * y[:, None, k : k + group]
        width = columns.shape[-1]
        product = slopes @ columns.reshape(m, outputs * width)
        parts.append(product.reshape(len(slopes), outputs, width))
    return parts[0] if len(parts) == 1 else namespace(slopes).concat(parts, axis=-1)


def _by_differences(slopes: Array, x: Array, y: Array, coefficients: Array) -> Array:
    return _stacked(
        lambda k: 2 * (slopes * (x[:, k, None] - y[None, :, k])) @ coefficients, x, coefficients
    )


def _stacked(part: Callable[[int], Array], x: Array, coefficients: Array) -> Array:
    """One coordinate after the other."""
    return namespace(coefficients).stack([part(k) for k in range(x.shape[1])], axis=-1)


def _product_term(number: Number, slopes: Array, x: Array, y: Array, coefficients: Array) -> Array:
    return _moments(slopes, y, coefficients)


def _norm_term(number: Number, slopes: Array, x: Array, y: Array, coefficients: Array) -> Array:
    return 2 * (slopes @ coefficients)[:, :, None] * x[:, None, :]


def _length_term(number: Number, slopes: Array, x: Array, y: Array, coefficients: Array) -> Array:
    return ((slopes @ coefficients) / lengths(x))[:, :, None] * x[:, None, :]


def _sum_term(number: Number, slopes: Array, x: Array, y: Array, coefficients: Array) -> Array:
    term = derivative(number.term, X)  # type: ignore[arg-type]
    return _stacked(lambda k: (slopes * _coordinate(term, x, y, k)) @ coefficients, x, coefficients)


def _multiplied_term(
    number: Number, slopes: Array, x: Array, y: Array, coefficients: Array
) -> Array:
    """Π over the other coordinates times the slope of one, without dividing by its value."""
    term, width = derivative(number.term, X), x.shape[1]  # type: ignore[arg-type]

    def part(k: int) -> Any:
        weights = slopes * _coordinate(term, x, y, k)
        for other in range(width):
            if other != k:
                weights = weights * _coordinate(number.term, x, y, other)
        return weights @ coefficients

    return _stacked(part, x, coefficients)


def _coordinate(term: Expression | None, x: Array, y: Array, k: int) -> Any:
    """The values of a term in coordinate k, for all pairs."""
    if term is None:
        return 0.0 * x[:1, :1]
    if is_tensor(x):
        from mercer.evaluation.gpu import blocks

        return blocks.evaluate(term, {X: x[:, k, None], Y: y[None, :, k]}, x)
    with np.errstate(divide="ignore", invalid="ignore"):
        return evaluate(term, {X: x[:, k, None], Y: y[None, :, k]}).astype(x.dtype)


TERMS: dict[str, Term] = {
    "squared_distance": _distance_term,
    "product": _product_term,
    "x_norm": _norm_term,
    "x_length": _length_term,
    "coordinate_sum": _sum_term,
    "coordinate_product": _multiplied_term,
}
