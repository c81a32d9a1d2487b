"""Derivatives of kernels in their first point, from the slopes of their program.

k is a function of ⟨x,y⟩, ‖x−y‖², ‖x‖² and sums or products over coordinates, so

    ∂k/∂x = 2 k_s (x − y) + k_p y + 2 k_n x + …,

with k_s, k_p, k_n its slopes in ‖x−y‖², ⟨x,y⟩ and ‖x‖², which are programs of their own. At a kink
the slope is the mean of the slopes on both sides: 0 at x = y for a Matérn kernel with ν = ½.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.evaluation.budget import MEGABYTE
from mercer.evaluation.expression import Expression, Number, Parameter, X, Y, numbers_of
from mercer.evaluation.operations import derivative
from mercer.evaluation.program import Lowerable, lower
from mercer.evaluation.reference import evaluate
from mercer.evaluation.tiling import Walk, spans
from mercer.points import DensePoints, PointSet, View

STRIP_BYTES = 8 * MEGABYTE


def gradient(
    kernel: Lowerable, x: PointSet, centres: PointSet, coefficients: np.ndarray
) -> np.ndarray:
    """∇ Σ_j α_j k(·, y_j) at every x_i; shape (n, outputs, columns)."""
    expression = kernel.program()
    if expression is None:
        return _from_blocks(kernel, x, centres, coefficients)
    if not isinstance(x, DensePoints) or not isinstance(centres, DensePoints):
        raise ValueError("gradients of sparse points are dense: pass X.toarray().")
    out = np.zeros((len(x), coefficients.shape[1], x.width), coefficients.dtype)
    for number in numbers_of(expression, twins=True):
        slope = derivative(expression, number)
        if slope is not None and number.kind in _TERMS:
            _add_term(out, number, slope, x, centres, coefficients)
    return out


def _from_blocks(
    kernel: Lowerable, x: PointSet, centres: PointSet, coefficients: np.ndarray
) -> np.ndarray:
    """From the kernel's own derivatives, a strip of points at a time."""
    width = getattr(x, "width", 1)
    strip = max(1, STRIP_BYTES // max(1, 8 * len(centres) * width))
    parts = [
        np.einsum("ijk,jt->itk", kernel.derivative(x.slice(*span), centres), coefficients)
        for span in spans(len(x), strip)
    ]
    empty = np.zeros((0, coefficients.shape[1], width))
    return np.concatenate(parts or [empty]).astype(coefficients.dtype)


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
    y = centres.seen(number.view, dtype)
    strip = max(1, STRIP_BYTES // max(1, len(centres) * dtype.itemsize))
    for start, stop in spans(len(x), strip):
        piece = x.slice(start, stop)
        slopes = _slopes(slope, piece, centres, dtype)
        seen = piece.seen(number.view, dtype)
        term = _TERMS[number.kind](number, slopes, seen, y, coefficients)
        part = np.stack([term(k) for k in range(seen.shape[1])], axis=-1)
        add_columns(out[start:stop], columns, _pulled_back(part, seen, piece, number.view))


def add_columns(out: np.ndarray, columns: np.ndarray, part: np.ndarray) -> None:
    """Add to some columns of the last axis, one by one: a column may be named twice."""
    for k, column in enumerate(columns):
        out[..., column] += part[..., k]


def _pulled_back(part: np.ndarray, seen: np.ndarray, x: DensePoints, view: View) -> np.ndarray:
    """The chain rule of a view: from its coordinates back to the columns it keeps."""
    dtype = part.dtype
    if view.unit:
        part = _tangential(part, seen, x.seen(replace(view, unit=False), dtype))
    if view.scales is not None:
        part = part * np.asarray(view.scales, dtype)
    return part if view.matrix is None else part @ np.array(view.matrix, dtype)


def _tangential(part: np.ndarray, unit: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The chain rule of x ↦ x/‖x‖: drop what points along x, divide by ‖x‖."""
    along = np.einsum("itk,ik->it", part, unit)[:, :, None] * unit[:, None, :]
    lengths = np.sqrt(np.einsum("ik,ik->i", rows, rows))[:, None, None]
    return (part - along) / np.where(lengths > 0, lengths, 1)


def _slopes(slope: Expression, x: DensePoints, centres: DensePoints, dtype: np.dtype) -> np.ndarray:
    if isinstance(slope, Parameter):
        return np.full((len(x), len(centres)), slope.value, dtype)
    from mercer.evaluation.cpu.tiles import FusedTiles

    return Walk(FusedTiles(lower(slope), x, centres, dtype), 1).dense(symmetric=False)


# (number, slopes, x, y, coefficients) to the part of the gradient in each coordinate
Term = Callable[[Number, np.ndarray, np.ndarray, np.ndarray, np.ndarray], Callable[[int], Any]]


def _distance_term(number, slopes, x, y, coefficients):  # type: ignore[no-untyped-def]
    return lambda k: 2 * (slopes * (x[:, k, None] - y[None, :, k])) @ coefficients


def _product_term(number, slopes, x, y, coefficients):  # type: ignore[no-untyped-def]
    return lambda k: slopes @ (y[:, k, None] * coefficients)


def _norm_term(number, slopes, x, y, coefficients):  # type: ignore[no-untyped-def]
    total = slopes @ coefficients
    return lambda k: 2 * x[:, k, None] * total


def _length_term(number, slopes, x, y, coefficients):  # type: ignore[no-untyped-def]
    lengths = np.sqrt(np.einsum("ij,ij->i", x, x))[:, None]
    total = (slopes @ coefficients) / np.where(lengths > 0, lengths, 1)
    return lambda k: x[:, k, None] * total


def _sum_term(number, slopes, x, y, coefficients):  # type: ignore[no-untyped-def]
    term = derivative(number.term, X)
    return lambda k: (slopes * _coordinate(term, x, y, k)) @ coefficients


def _multiplied_term(number, slopes, x, y, coefficients):  # type: ignore[no-untyped-def]
    """Π over the other coordinates times the slope of one, without dividing by its value."""
    term, width = derivative(number.term, X), x.shape[1]

    def part(k: int) -> Any:
        weights = slopes * _coordinate(term, x, y, k)
        for other in range(width):
            if other != k:
                weights *= _coordinate(number.term, x, y, other)
        return weights @ coefficients

    return part


def _coordinate(term: Expression | None, x: np.ndarray, y: np.ndarray, k: int) -> Any:
    """The values of a term in coordinate k, for all pairs."""
    if term is None:
        return np.zeros((), x.dtype)
    with np.errstate(divide="ignore", invalid="ignore"):
        return evaluate(term, {X: x[:, k, None], Y: y[None, :, k]}).astype(x.dtype)


_TERMS: dict[str, Term] = {
    "squared_distance": _distance_term,
    "product": _product_term,
    "x_norm": _norm_term,
    "x_length": _length_term,
    "coordinate_sum": _sum_term,
    "coordinate_product": _multiplied_term,
}
