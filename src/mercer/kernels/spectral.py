"""Stationary kernels given by their spectral density (Bochner's theorem)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import check_count, check_positive
from mercer.kernels.periodic import FeatureProducts, cosine_features


@dataclass(frozen=True, eq=False, repr=False)
class Spectral(FeatureProducts):
    """k(x, y) = Π_k ∫ p(ω) cos(ω(x_k − y_k)) dω for an even density p ≥ 0 on the line.

    The integral is taken by the trapezoidal rule on [−limit, limit]; its weights are nonnegative,
    so what is computed is positive definite whatever the number of nodes. It repeats with the
    period 2π·nodes/limit, which must be larger than twice the differences x_k − y_k.

    Parameters
    ----------
    density : callable
        p takes an array of frequencies ω ≥ 0; p(−ω) = p(ω).
    limit : float
        The frequency beyond which p is negligible.
    nodes : int, default=512
        Of the rule on [0, limit].
    sampler : callable, optional
        sampler(size, random_state) draws frequencies from p/∫p; random features use it.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> k = Spectral(lambda w: np.exp(-(w**2) / 2) / np.sqrt(2 * np.pi), limit=10.0)
    >>> bool(np.isclose(k([0.0], [1.5]), Gaussian()([0.0], [1.5])))
    True
    """

    density: Callable[[np.ndarray], Any]
    limit: float
    nodes: int = 512
    sampler: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        check_positive(self, "limit", self.limit)
        check_count(self, "nodes", self.nodes)
        weights = self._weights()
        if not np.isfinite(weights).all() or (weights < 0).any():
            raise ValueError(
                "Spectral needs a nonnegative, finite density (Bochner's theorem); it returned "
                f"{weights.min()}."
            )

    def _frequencies(self) -> np.ndarray:
        return np.linspace(0.0, float(self.limit), int(self.nodes) + 1)

    def _weights(self) -> np.ndarray:
        frequencies = self._frequencies()
        values = np.asarray(self.density(frequencies), np.float64)
        if values.shape != frequencies.shape:
            raise ValueError(
                f"the density must return one number for each frequency; got shape {values.shape} "
                f"for {frequencies.shape}."
            )
        weights = 2.0 * values * (frequencies[1] - frequencies[0])
        weights[[0, -1]] *= 0.5
        return weights

    def column_features(self, column: np.ndarray, order: int) -> np.ndarray:
        return cosine_features(column, self._frequencies(), self._weights(), order)
