"""∂²k/∂x_a∂y_b: what data that are derivatives need.

For k = E(N₁, N₂, …), N being the numbers of a pair, it is

    Σ_i E_i ∂_a∂_b N_i + Σ_ij E_ij ∂_a N_i ∂_b N_j,

with slopes E_i and E_ij that are expressions of their own. They must not be singular at x = y, so
that radial kernels give theirs by `profile_slope`; sums, multiples and products follow the rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.evaluation.expression import (
    Expression,
    Number,
    X,
    Y,
    is_smooth,
    numbers_of,
    squared_distance,
)
from mercer.evaluation.operations import derivative, evaluate
from mercer.evaluation.reference import block
from mercer.kernels.algebra import Product, Scaled, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.radial import Radial, column_scales
from mercer.points import View

Jets = tuple[np.ndarray, np.ndarray, np.ndarray]


def mixed_derivative(kernel: Kernel, x: Any, y: Any) -> np.ndarray:
    """∂²k(x_i, y_j)/∂x_i∂y_j as an array (n, m, columns, columns).

    Refused where the functions of the space need not have derivatives, or none is known.

    >>> from mercer.kernels import Gaussian, Polynomial
    >>> k = Gaussian()
    >>> mixed_derivative(k, k.points([[0.0]]), k.points([[0.0], [1.0]]))[0, :, 0, 0].round(12)
    array([1., 0.])
    >>> p = Polynomial(degree=2, bias=0.0)  # (xy)²: 4xy
    >>> float(mixed_derivative(p, p.points([[2.0]]), p.points([[3.0]]))[0, 0, 0, 0])
    24.0
    """
    if isinstance(kernel, Sum):
        return mixed_derivative(kernel.left, x, y) + mixed_derivative(kernel.right, x, y)
    if isinstance(kernel, Scaled):
        return float(kernel.scale) * mixed_derivative(kernel.kernel, x, y)
    if isinstance(kernel, Product):
        return _of_product(kernel, x, y)
    if isinstance(kernel, Radial):
        return _of_radial(kernel, x, y)
    expression = kernel.expression()
    if expression is None or not is_smooth(expression):
        raise ValueError(
            f"{kernel!r} has no known derivative in both points, which data that are derivatives "
            "need: choose a smooth kernel, as Gaussian() or Matern(2.5), or sums and products."
        )
    return _of_expression(expression, x, y)


def _of_product(kernel: Product, x: Any, y: Any) -> np.ndarray:
    """(fg)_ab = f_ab g + f_a g_b + f_b g_a + f g_ab."""
    f, g = kernel.left, kernel.right
    values = [side.block(x, y)[:, :, None, None] for side in (f, g)]
    in_x = [side.derivative(x, y)[:, :, :, None] for side in (f, g)]
    in_y = [side.derivative(y, x).transpose(1, 0, 2)[:, :, None, :] for side in (f, g)]
    return (
        mixed_derivative(f, x, y) * values[1]
        + in_x[0] * in_y[1]
        + in_y[0] * in_x[1]
        + values[0] * mixed_derivative(g, x, y)
    )


def _of_radial(kernel: Any, x: Any, y: Any) -> np.ndarray:
    """g′(s)·s_ab + g″(s)·s_a s_b."""
    s = squared_distance(View(scales=tuple(1.0 / column_scales(kernel, x.width))))
    slope = kernel.profile_slope(s)
    if slope is None:
        raise ValueError(
            f"functions of the space of {kernel!r} need not have derivatives, so these are no data "
            "to fit: choose a smoother kernel, as Matern(2.5) or Gaussian()."
        )
    in_x, in_y, both = _jets(s, x, y)
    first = block(slope, x, y)[:, :, None, None] * both
    bend = derivative(slope, s)
    if bend is None:
        return first
    # where s = 0, so are s_a and s_b, and what is singular in g″ does not count
    second = np.nan_to_num(block(bend, x, y), posinf=0.0, neginf=0.0)
    return first + second[:, :, None, None] * in_x[:, :, :, None] * in_y[:, :, None, :]


def _of_expression(expression: Expression, x: Any, y: Any) -> np.ndarray:
    numbers = numbers_of(expression)
    jets = {number: _jets(number, x, y) for number in numbers}
    total = np.zeros((len(x), len(y), x.width, x.width))
    for number in numbers:
        slope = derivative(expression, number)
        if slope is None:
            continue
        total += block(slope, x, y)[:, :, None, None] * jets[number][2]
        for other in numbers:
            bend = derivative(slope, other)
            if bend is not None:
                pair = jets[number][0][:, :, :, None] * jets[other][1][:, :, None, :]
                total += block(bend, x, y)[:, :, None, None] * pair
    return total


def _jets(number: Number, x: Any, y: Any) -> Jets:
    """∂_a N, ∂_b N and ∂_a∂_b N of a number in the columns of x and of y."""
    jacobian = _jacobian(number.view, x)
    a, b = (side.seen(number.view, np.float64) for side in (x, y))
    shape = len(a), len(b), a.shape[1]
    none = np.zeros(shape)
    both = np.zeros((*shape, a.shape[1]))
    eye = np.eye(a.shape[1])
    if number.kind == "squared_distance":
        gap = a[:, None, :] - b[None, :, :]
        parts = 2.0 * gap, -2.0 * gap, both - 2.0 * eye
    elif number.kind == "product":
        parts = np.broadcast_to(b, shape), np.broadcast_to(a[:, None, :], shape), both + eye
    elif number.kind == "x_norm":
        parts = np.broadcast_to(2.0 * a[:, None, :], shape), none, both
    elif number.kind == "y_norm":
        parts = none, np.broadcast_to(2.0 * b, shape), both
    else:
        parts = _of_coordinates(number, a, b)
    return (
        parts[0] @ jacobian,
        parts[1] @ jacobian,
        np.einsum("ka,nmkl,lb->nmab", jacobian, parts[2], jacobian),
    )


def _of_coordinates(number: Number, a: np.ndarray, b: np.ndarray) -> Jets:
    """Of sums and products of terms t(x_k, y_k) over coordinates."""
    assert number.term is not None
    at = {X: a[:, None, :], Y: b[None, :, :]}
    shape = len(a), len(b), a.shape[1]

    def value(term: Expression | None) -> np.ndarray:
        return np.broadcast_to(0.0 if term is None else evaluate(term, at), shape)

    slope = derivative(number.term, X)
    mixed = None if slope is None else derivative(slope, Y)
    in_x, in_y, both = value(slope), value(derivative(number.term, Y)), value(mixed)
    width = shape[-1]
    diagonal = both[..., None] * np.eye(width)
    if number.kind == "coordinate_sum":
        return in_x, in_y, diagonal
    terms = value(number.term)
    others = np.stack([np.delete(terms, k, axis=-1).prod(axis=-1) for k in range(width)], axis=-1)
    total = diagonal * others[..., None]
    for k in range(width):
        for other in range(width):
            if other != k:
                rest = np.delete(terms, [k, other], axis=-1).prod(axis=-1)
                total[..., k, other] = in_x[..., k] * in_y[..., other] * rest
    return in_x * others, in_y * others, total


def _jacobian(view: View, points: Any) -> np.ndarray:
    """Of the linear map that a view is."""
    eye = np.eye(points.width)
    matrix = eye if view.columns is None else eye[points.positions(view.columns)]
    if view.matrix is not None:
        matrix = np.array(view.matrix) @ matrix
    return matrix if view.scales is None else np.array(view.scales)[:, None] * matrix
