"""Coefficients of a function that is known by the weights of its features, without lost digits."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, identity, namespace

TURNS = 4  # corrections of a system whose matrix has the square of the condition; two are usual


def features_of(kernel: Any, points: Any) -> Any:
    """Φ; of float32 rows it is in float64, so that features are not rounded again."""
    if points.home == "host" and points.dtype == np.float32:
        points = kernel.points(points.data.astype(np.float64))
    return kernel.features(points)


def least_coefficients(features: Array, weights: Array, counted: Array) -> Array:
    """α with Φᵀα = w, of least Σ_i ‖φ_i‖² α_i², by which rounding of f = Kα is bounded.

    `counted` says which rows may have coefficients, as a column; w has a column for each output.

    >>> import numpy as np
    >>> features = 1e6 * np.array([[1.0], [2.0], [3.0]])
    >>> alpha = least_coefficients(features, np.array([[6e-6]]), np.ones((3, 1), bool))
    >>> bool(np.isclose(features.T @ alpha, 6e-6)), bool(abs(alpha).max() < 1e-11)
    (True, True)
    """
    xp = namespace(features)
    sizes = xp.linalg.vector_norm(features, axis=1)[:, None]
    counted = (sizes > 0) & counted
    scaled = xp.where(counted, features / xp.where(counted, sizes, 1.0), 0.0)
    units = xp.linalg.vector_norm(scaled, axis=0)
    units = xp.where(units > 0, units, 1.0)
    scaled = scaled / units
    inverse, _ = linalg.symmetric_solve(scaled.T @ scaled, identity(len(units), scaled))
    beta = 0.0 * (scaled @ weights)
    for _ in range(TURNS):
        beta = beta + scaled @ (inverse @ (weights / units[:, None] - scaled.T @ beta))
    return xp.where(counted, beta / xp.where(counted, sizes, 1.0), 0.0)
