"""The average gradient outer product of a function in the space: along which columns it varies.

M = (1/Σw) Σ_i w_i Σ_t ∇f_t(x_i) ∇f_t(x_i)ᵀ for f = Σ_j α_j k(·, y_j) with outputs t. Gradients come
from the slopes of the kernel's expression, a strip of points at a time, so that memory is a few
strips and never n × n × d. At a kink the slope is the mean of both sides, so that a point adds
nothing to its own gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import Array, as_numpy, namespace, to_precision
from mercer.kernels.base import Kernel
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.runtime.budget import MEGABYTE, memory_budget
from mercer.runtime.threads import spans

STRIP_BYTES = 64 * MEGABYTE  # of gradients that are held at a time
LONGEST = 10.0
"""Times the median length of a gradient: longer ones are cut. A kernel like exp(−r^½) has unbounded
slopes, and one pair of points that nearly coincide would else decide the average."""


def average_outer_product(
    kernel: Kernel,
    points: PointSet,
    centres: PointSet,
    coefficients: Array,
    deviations: np.ndarray,
    *,
    weights: Array | None = None,
    diagonal: bool = False,
) -> np.ndarray:
    """M, or its diagonal, for f = Σ_j α_j k(·, centre_j) at some points; in float64 on the host.

    `deviations` are the units in which the lengths of gradients are compared.

    >>> from mercer.kernels import Linear
    >>> k, X = Linear(), np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> average_outer_product(k, k.points(X), k.points(X), np.array([3.0, 1.0]), np.ones(2))
    array([[9., 6.],
           [6., 4.]])
    """
    gradients = list(_strips(kernel, points, centres, coefficients))
    xp = namespace(gradients[0])
    units = xp.asarray(deviations, device=gradients[0].device)
    sizes = [xp.sqrt(xp.sum((part * units) ** 2, axis=(1, 2))) for part in gradients]
    lengths = np.concatenate([as_numpy(size) for size in sizes])
    own = np.ones(len(points)) if weights is None else as_numpy(weights)
    positive = lengths[(lengths > 0) & (own > 0)]
    longest = LONGEST * float(np.median(positive)) if len(positive) else 0.0
    factors = own * np.minimum(1.0, longest / np.maximum(lengths, 1e-300)) ** 2 / own.sum()
    total: Any = 0.0
    start = 0
    for part in gradients:
        stop = start + part.shape[0]
        rows = part * xp.asarray(np.sqrt(factors[start:stop]), device=part.device)[:, None, None]
        rows = xp.reshape(rows, (-1, rows.shape[-1]))
        total = total + as_numpy(xp.sum(rows**2, axis=0) if diagonal else rows.T @ rows)
        start = stop
    return total


def _strips(kernel: Kernel, points: PointSet, centres: PointSet, coefficients: Array) -> Any:
    """∇f at the points, in float64, arrays (rows, outputs, columns)."""
    outputs = coefficients.shape[1] if coefficients.ndim == 2 else 1
    width = getattr(points, "width", 1)
    room = min(STRIP_BYTES, memory_budget() // 8)
    for start, stop in spans(len(points), max(1, room // (8 * outputs * width))):
        part = Gram(kernel, points.slice(start, stop), centres).gradient(coefficients)
        part = to_precision(part, "float64")
        yield part if part.ndim == 3 else part[:, None, :]
