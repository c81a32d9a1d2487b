"""Derivatives of kernels in their first point, from the slopes of their program.

k is a function of ⟨x,y⟩, ‖x−y‖² and ‖x‖², so

    ∂k/∂x = 2 k_s (x − y) + k_p y + 2 k_n x,

with k_s, k_p, k_n its slopes in ‖x−y‖², ⟨x,y⟩ and ‖x‖², which are programs of their own. At a kink
(x = y for a Matérn kernel with ν = ½) the term of the distance is 0, the mean of the slopes on
both sides.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer.evaluation.budget import MEGABYTE
from mercer.evaluation.expression import Expression, Number, Parameter, numbers_of
from mercer.evaluation.operations import derivative
from mercer.evaluation.program import lower
from mercer.evaluation.tiling import Walk, spans
from mercer.points import DensePoints

STRIP_BYTES = 8 * MEGABYTE


def gradient(
    expression: Expression, x: DensePoints, centres: DensePoints, coefficients: np.ndarray
) -> np.ndarray:
    """∇ Σ_j α_j k(·, y_j) at every x_i; shape (n, outputs, columns)."""
    out = np.zeros((len(x), coefficients.shape[1], x.width), coefficients.dtype)
    for number in numbers_of(expression):
        slope = derivative(expression, number)
        if slope is not None and number.kind in _TERMS:
            _add_term(out, number, slope, x, centres, coefficients)
    return out


def _add_term(
    out: np.ndarray,
    number: Number,
    slope: Expression,
    x: DensePoints,
    centres: DensePoints,
    coefficients: np.ndarray,
) -> None:
    dtype = coefficients.dtype
    positions = x.positions(number.view)
    columns = np.arange(x.width) if positions is None else positions
    scales = np.ones(len(columns)) if number.view.scales is None else number.view.scales
    y = centres.seen(number.view, dtype)
    strip = max(1, STRIP_BYTES // max(1, len(centres) * dtype.itemsize))
    for start, stop in spans(len(x), strip):
        piece = x.slice(start, stop)
        slopes = _slopes(slope, piece, centres, dtype)
        seen = piece.seen(number.view, dtype)
        for k, (column, scale) in enumerate(zip(columns, scales, strict=True)):
            term = _TERMS[number.kind](slopes, seen[:, k], y[:, k], coefficients)
            out[start:stop, :, column] += dtype.type(scale) * term


def _slopes(slope: Expression, x: DensePoints, centres: DensePoints, dtype: np.dtype) -> np.ndarray:
    if isinstance(slope, Parameter):
        return np.full((len(x), len(centres)), slope.value, dtype)
    from mercer.evaluation.cpu.tiles import FusedTiles

    return Walk(FusedTiles(lower(slope), x, centres, dtype), 1).dense(symmetric=False)


Term = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def _distance_term(
    slopes: np.ndarray, x: np.ndarray, y: np.ndarray, coefficients: np.ndarray
) -> np.ndarray:
    return 2 * (slopes * (x[:, None] - y[None, :])) @ coefficients


def _product_term(
    slopes: np.ndarray, x: np.ndarray, y: np.ndarray, coefficients: np.ndarray
) -> np.ndarray:
    return slopes @ (y[:, None] * coefficients)


def _norm_term(
    slopes: np.ndarray, x: np.ndarray, y: np.ndarray, coefficients: np.ndarray
) -> np.ndarray:
    return 2 * x[:, None] * (slopes @ coefficients)


_TERMS: dict[str, Term] = {
    "squared_distance": _distance_term,
    "product": _product_term,
    "x_norm": _norm_term,
}
