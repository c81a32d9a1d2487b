"""Derivatives of kernels in their first point, from the slopes of their program.

k is a function of ⟨x,y⟩, ‖x−y‖², ‖x‖² and sums or products over coordinates, so

    ∂k/∂x = 2 k_s (x − y) + k_p y + 2 k_n x + …,

with k_s, k_p, k_n its slopes in ‖x−y‖², ⟨x,y⟩ and ‖x‖², which are programs of their own. At a kink
the slope is the mean of the slopes on both sides: 0 at x = y for a Matérn kernel with ν = ½.
Slopes of tensors are computed in torch, on their device, a strip of points at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.arrays import Array, beside, is_tensor, namespace, precision, to_precision
from mercer.evaluation.budget import MEGABYTE
from mercer.evaluation.dispatch import on_tensors
from mercer.evaluation.expression import Expression, Number, Parameter, X, Y, numbers_of
from mercer.evaluation.operations import derivative
from mercer.evaluation.program import Lowerable, lower
from mercer.evaluation.reference import evaluate
from mercer.evaluation.tiling import Walk, spans
from mercer.points import DensePoints, PointSet, View

STRIP_BYTES = 8 * MEGABYTE  # of the slopes at some points
DEVICE_STRIP_BYTES = 64 * MEGABYTE


def gradient(kernel: Lowerable, x: PointSet, centres: PointSet, coefficients: Array) -> Array:
    """∇ Σ_j α_j k(·, y_j) at every x_i; shape (n, outputs, columns)."""
    expression = kernel.program()
    if expression is None:
        return _from_blocks(kernel, x, centres, coefficients)
    dense = all(isinstance(p, DensePoints) or on_tensors(p) for p in (x, centres))
    if not dense:
        raise ValueError("gradients of sparse points are dense: pass X.toarray().")
    xp, shape = namespace(coefficients), (len(x), coefficients.shape[1], x.width)  # type: ignore[attr-defined]
    out = xp.zeros(shape, dtype=coefficients.dtype, device=coefficients.device)
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
    out: Array, number: Number, slope: Expression, x: Any, centres: Any, coefficients: Array
) -> None:
    dtype, xp = np.dtype(precision(coefficients.dtype)), namespace(coefficients)
    positions = x.positions(number.view)
    columns = np.arange(x.width) if positions is None else positions
    y = centres.seen(number.view, dtype)
    size = DEVICE_STRIP_BYTES if is_tensor(y) else STRIP_BYTES
    strip = max(1, size // max(1, len(centres) * dtype.itemsize))
    for start, stop in spans(len(x), strip):
        piece = x.slice(start, stop)
        slopes = _slopes(slope, piece, centres, dtype)
        seen = piece.seen(number.view, dtype)
        term = _TERMS[number.kind](number, slopes, seen, y, coefficients)
        part = xp.stack([term(k) for k in range(seen.shape[1])], axis=-1)
        add_columns(out[start:stop], columns, _pulled_back(part, seen, piece, number.view))


def add_columns(out: Array, columns: np.ndarray, part: Array) -> None:
    """Add to some columns of the last axis, one by one: a column may be named twice."""
    for k, column in enumerate(columns.tolist()):
        out[..., column] += part[..., k]


def _pulled_back(part: Array, seen: Array, x: Any, view: View) -> Array:
    """The chain rule of a view: from its coordinates back to the columns it keeps."""
    if view.unit:
        part = _tangential(part, seen, x.seen(replace(view, unit=False), part.dtype))
    if view.scales is not None:
        part = part * to_precision(beside(view.scales, part), part.dtype)
    return (
        part if view.matrix is None else part @ to_precision(beside(view.matrix, part), part.dtype)
    )


def _tangential(part: Array, unit: Array, rows: Array) -> Array:
    """The chain rule of x ↦ x/‖x‖: drop what points along x, divide by ‖x‖."""
    along = (part * unit[:, None, :]).sum(axis=-1)[:, :, None] * unit[:, None, :]
    return (part - along) / _lengths(rows)[:, :, None]


def _lengths(rows: Array) -> Array:
    """‖x‖ of each row as a column, and 1 where it is 0."""
    lengths = namespace(rows).linalg.vector_norm(rows, axis=1, keepdims=True)
    return namespace(rows).where(lengths > 0, lengths, 1.0)


def _slopes(slope: Expression, x: Any, centres: Any, dtype: np.dtype) -> Array:
    if on_tensors(x):
        from mercer.evaluation.gpu import blocks, execution

        return blocks.values(slope, x, centres, execution.dtype_of(dtype))
    if isinstance(slope, Parameter):
        return np.full((len(x), len(centres)), slope.value, dtype)
    from mercer.evaluation.cpu.tiles import FusedTiles

    return Walk(FusedTiles(lower(slope), x, centres, dtype), 1).dense(symmetric=False)


# (number, slopes, x, y, coefficients) to the part of the gradient in each coordinate
Term = Callable[[Number, Array, Array, Array, Array], Callable[[int], Any]]


def _distance_term(number, slopes, x, y, coefficients):  # type: ignore[no-untyped-def]
    return lambda k: 2 * (slopes * (x[:, k, None] - y[None, :, k])) @ coefficients


def _product_term(number, slopes, x, y, coefficients):  # type: ignore[no-untyped-def]
    return lambda k: slopes @ (y[:, k, None] * coefficients)


def _norm_term(number, slopes, x, y, coefficients):  # type: ignore[no-untyped-def]
    total = slopes @ coefficients
    return lambda k: 2 * x[:, k, None] * total


def _length_term(number, slopes, x, y, coefficients):  # type: ignore[no-untyped-def]
    total = (slopes @ coefficients) / _lengths(x)
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
                weights = weights * _coordinate(number.term, x, y, other)
        return weights @ coefficients

    return part


def _coordinate(term: Expression | None, x: Array, y: Array, k: int) -> Any:
    """The values of a term in coordinate k, for all pairs."""
    if term is None:
        return 0.0 * x[:1, :1]
    if is_tensor(x):
        from mercer.evaluation.gpu import blocks

        return blocks.evaluate(term, {X: x[:, k, None], Y: y[None, :, k]}, x)
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
