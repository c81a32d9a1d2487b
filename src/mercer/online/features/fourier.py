"""Waves of random frequencies, each row by itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer.features.frequencies import FrequencySampler
from mercer.kernels.base import Kernel
from mercer.points import DensePoints, PointSet


class FourierFeatures:
    """φ(x) = √(k(0)/m) (cos ω_jᵀx, sin ω_jᵀx), ω_j from the spectral measure of a kernel.

    The mean of ⟨φ(x), φ(y)⟩ over draws is k(x, y). What a row gives does not depend on the rows
    around it.
    """

    def __init__(self, kernel: Kernel, width: int, count: int, seed: int) -> None:
        sampler = FrequencySampler(kernel, width)
        self.frequencies = np.ascontiguousarray(sampler.draw((count + 1) // 2, seed).T)
        self.amplitude = math.sqrt(sampler.amplitude / self.frequencies.shape[1])

    @property
    def feature_count(self) -> int:
        return 2 * self.frequencies.shape[1]

    def __call__(self, points: PointSet) -> np.ndarray:
        return self.amplitude * waves(points, self.frequencies)

    def values(self, x: Any, weights: np.ndarray) -> np.ndarray:
        """⟨φ(x), w⟩ for every point and every column of weights."""
        points = x if isinstance(x, PointSet) else DensePoints(np.asarray(x))
        return self(points) @ weights

    def same_features(self, other: Any) -> bool:
        """Whether another map has the same frequencies."""
        same = isinstance(other, FourierFeatures)
        return same and np.array_equal(self.frequencies, other.frequencies)


def waves(points: PointSet, frequencies: np.ndarray) -> np.ndarray:
    """cos and sin of ω_jᵀx, side by side."""
    from mercer.online.compiled.linear import project

    rows = dense_rows(points)
    count = frequencies.shape[1]
    out = np.empty((len(rows), 2 * count))
    angles = np.empty((len(rows), count))
    project(rows, frequencies, angles)
    np.cos(angles, out=out[:, :count])
    np.sin(angles, out=out[:, count:])
    return out


def dense_rows(points: Any) -> np.ndarray:
    """Rows in float64; sparse ones are made dense, a block at a time."""
    rows = points.rows if hasattr(points, "rows") else None
    if rows is None:
        raise ValueError("random features take vectors; write NystroemMachine for other points.")
    return np.ascontiguousarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float64)
