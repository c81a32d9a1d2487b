"""Derivatives of kernels in their first point, from the slopes of their program.

k is a function of ⟨x,y⟩, ‖x−y‖², ‖x‖² and sums or products over coordinates, so

    ∂k/∂x = 2 k_s (x − y) + k_p y + 2 k_n x + …,

with k_s, k_p, k_n its slopes in ‖x−y‖², ⟨x,y⟩ and ‖x‖², which are programs of their own. At a kink
the slope is the mean of the slopes on both sides: 0 at x = y for a Matérn kernel with ν = ½.
Slopes are computed a strip of points at a time, those of tensors on their device.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.arrays import Array, beside, is_tensor, namespace, precision, to_precision
from mercer.evaluation.expression import Expression, Number, Parameter, numbers_of
from mercer.evaluation.operations import derivative
from mercer.evaluation.program import EvaluableKernel, lower
from mercer.evaluation.slope_terms import TERMS, lengths
from mercer.evaluation.tiling import Walk
from mercer.points import DensePoints, PointSet, View
from mercer.runtime.budget import MEGABYTE
from mercer.runtime.threads import spans

STRIP_BYTES = 8 * MEGABYTE  # of the slopes at some points
DEVICE_STRIP_BYTES = 64 * MEGABYTE


def gradient(kernel: EvaluableKernel, x: PointSet, centres: PointSet, coefficients: Array) -> Array:
    """∇ Σ_j α_j k(·, y_j) at every x_i; shape (n, outputs, columns)."""
    expression = kernel.expression()
    if expression is None:
        return _from_blocks(kernel, x, centres, coefficients)
    dense = all(isinstance(p, DensePoints) or p.home != "host" for p in (x, centres))
    if not dense:
        raise ValueError("gradients of sparse points are dense: pass X.toarray().")
    xp, shape = namespace(coefficients), (len(x), coefficients.shape[1], x.width)  # type: ignore[attr-defined]
    out = xp.zeros(shape, dtype=coefficients.dtype, device=coefficients.device)
    for number in numbers_of(expression, twins=True):
        slope = derivative(expression, number)
        if slope is not None and number.kind in TERMS:
            _add_term(out, number, slope, x, centres, coefficients)
    return out


def _from_blocks(
    kernel: EvaluableKernel, x: PointSet, centres: PointSet, coefficients: np.ndarray
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
    dtype = np.dtype(precision(coefficients.dtype))
    positions = x.positions(number.view)
    columns = np.arange(x.width) if positions is None else positions
    y = centres.seen(number.view, dtype)
    size = DEVICE_STRIP_BYTES if is_tensor(y) else STRIP_BYTES
    strip = max(1, size // max(1, len(centres) * dtype.itemsize))
    for start, stop in spans(len(x), strip):
        piece = x.slice(start, stop)
        slopes = _slopes(slope, piece, centres, dtype)
        seen = piece.seen(number.view, dtype)
        part = TERMS[number.kind](number, slopes, seen, y, coefficients)
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
    return (part - along) / lengths(rows)[:, :, None]


def _slopes(slope: Expression, x: Any, centres: Any, dtype: np.dtype) -> Array:
    if x.home != "host":
        from mercer.evaluation.gpu import execution

        return execution.values(slope, x, centres, execution.dtype_of(dtype))
    if isinstance(slope, Parameter):
        return np.full((len(x), len(centres)), slope.value, dtype)
    from mercer.evaluation.cpu.tiles import FusedTiles

    return Walk(FusedTiles(lower(slope), x, centres, dtype), 1).dense(symmetric=False)
