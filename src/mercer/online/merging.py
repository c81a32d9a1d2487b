"""Merging two bumps under a kernel of which no closed form is known: by trying places."""

from __future__ import annotations

import numpy as np

from mercer.kernels.base import Kernel
from mercer.online.state import COUNT, Arrays
from mercer.operators import Gram
from mercer.points import DensePoints, PointSet

PLACES = np.linspace(0.0, 1.0, 9)


def merge_outside(kernel: Kernel, points: PointSet, arrays: Arrays) -> PointSet:
    """Merge the smallest bump with the best partner, at the best of nine places between them.

    A bump at z that replaces a_i k(c_i, ·) + a_j k(c_j, ·) has the coefficient
    (a_i k(c_i, z) + a_j k(c_j, z))/k(z, z), and keeps ‖a_z‖² k(z, z) of the squared norm.
    """
    assert isinstance(points, DensePoints)
    count = arrays.held
    a, diagonal = arrays.a[:count], arrays.diagonal[:count]
    i = int(np.argmin((a**2).sum(axis=1) * diagonal))
    others = np.delete(np.arange(count), i)
    rows = points.rows.astype(np.float64)
    z = PLACES[:, None, None] * rows[i] + (1.0 - PLACES)[:, None, None] * rows[others]
    places = DensePoints(np.ascontiguousarray(z.reshape(-1, rows.shape[1])))
    shape = (len(PLACES), len(others))
    sizes = np.asarray(Gram(kernel, places).diagonal(), np.float64).reshape(shape)
    values = Gram(kernel, places, DensePoints(rows)).dense().reshape(*shape, count)
    own = values[:, :, i]
    theirs = np.take_along_axis(values, others[None, :, None], axis=2)[:, :, 0]
    merged = own[:, :, None] * a[i] + theirs[:, :, None] * a[others]
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.where(sizes > 0, (merged**2).sum(axis=2) / sizes, -np.inf)
    between = Gram(kernel, points.take([i]), points.take(others)).dense()[0]
    norms = (a[others] ** 2).sum(axis=1) * diagonal[others] + 2 * between * (a[others] @ a[i])
    place, partner = np.unravel_index(np.argmin(norms - kept), shape)
    j, size = others[partner], sizes[place, partner]
    arrays.a[j] = merged[place, partner] / size
    if len(arrays.b):
        factors = own[place, partner] / size, theirs[place, partner] / size
        arrays.b[j] = factors[0] * arrays.b[i] + factors[1] * arrays.b[j]
    arrays.diagonal[j] = size
    arrays.ages[j] = max(arrays.ages[i], arrays.ages[j])
    new = points.rows.copy()
    new[j] = z[place, partner]
    return _without(DensePoints(new, points.names), arrays, i)


def _without(points: DensePoints, arrays: Arrays, i: int) -> PointSet:
    """The last bump moves to the place of bump i."""
    last = arrays.held - 1
    arrays.integers[COUNT] = last
    order = np.arange(last)
    if i < last:
        order[i] = last
        for array in (arrays.a, arrays.b, arrays.diagonal, arrays.ages):
            if len(array):
                array[i] = array[last]
    return points.take(order)
