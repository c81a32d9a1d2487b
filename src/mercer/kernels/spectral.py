"""Kernels that are finite sums of cosines, column by column: by their series or their density."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import check_coefficients, check_count, check_positive
from mercer.kernels.base import Kernel
from mercer.kernels.facts import Facts, constant_facts, unknown, yes
from mercer.kernels.fourier import FourierWeights
from mercer.kernels.measures import Tabulated
from mercer.kernels.periodic import bound_of_product, periodic_facts
from mercer.kernels.radial import SMOOTH
from mercer.points import PointSet, VectorPoints, View


class FeatureProducts(Kernel):
    """Finite sums of cosines, as products over columns of inner products of features."""

    def facts(self, dimension: int | None = None) -> Facts:
        known = super().facts(dimension)
        return known.stating(
            positive_definite=yes("it is a product over columns of inner products of features"),
            sobolev_order=SMOOTH,
        )

    def column_features(self, column: np.ndarray, order: int) -> np.ndarray:
        """Features φ of one column, or their derivatives: k = ⟨φ(x), φ(y)⟩."""
        raise NotImplementedError

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        return np.prod(self._factors(x, y), axis=0)

    def diagonal(self, x: PointSet) -> np.ndarray:
        rows = _rows(x)
        own = [np.sum(self.column_features(column, 0) ** 2, axis=1) for column in rows.T]
        return np.prod(own, axis=0) if len(own) else np.ones(len(x))

    def derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        factors = self._factors(x, y)
        out = [
            slope * np.prod(factors[:k] + factors[k + 1 :], axis=0)
            for k, slope in enumerate(self._factors(x, y, 1))
        ]
        return np.stack(out, axis=-1)

    def _factors(self, x: PointSet, y: PointSet, order: int = 0) -> list[np.ndarray]:
        """The factor of each column, or its derivative in x."""
        return [
            self.column_features(a, order) @ self.column_features(b, 0).T
            for a, b in zip(_rows(x).T, _rows(y).T, strict=True)
        ]


def _rows(points: PointSet) -> np.ndarray:
    assert isinstance(points, VectorPoints)
    return points.seen(View(), np.float64)


def cosine_features(
    column: np.ndarray, frequencies: np.ndarray, weights: np.ndarray, order: int
) -> np.ndarray:
    """√w cos(ωx) and √w sin(ωx), or their derivatives, so that k = Σ w cos(ω(x − y))."""
    angles = column[:, None] * frequencies + order * (np.pi / 2)
    scale = np.sqrt(weights) * frequencies**order
    return np.concatenate([scale * np.cos(angles), scale * np.sin(angles)], axis=1)


class _Series(FeatureProducts):
    """Series that are given by a list, and so have finitely many frequencies."""

    def _weights(self) -> FourierWeights:
        raise NotImplementedError

    def facts(self, dimension: int | None = None) -> Facts:
        weights = self._weights()
        values = weights.terms[0].series
        if not values[1:].any() and (dimension is not None or values[0] in (0.0, 1.0)):
            return constant_facts(self, float(values[0]) ** (dimension or 1), dimension)
        total = float(2.0 * values.sum() - values[0])
        reason = "it is given by its weights: a_n cos(nt) is half of e^{int} and of e^{−int}"
        known = super().facts(dimension)
        return known.stating(
            finite_features=yes("it has two features for each frequency and column"),
            **periodic_facts(weights, reason, total, dimension),
        )


@dataclass(frozen=True, eq=False, repr=False)
class CosineSeries(_Series):
    """Σ_n a_n cos(n(x − y)) with a_n ≥ 0; for more columns the product.

    Parameters
    ----------
    coefficients : sequence of floats, default=(1.0, 1.0)
        a_0, a_1, …

    Examples
    --------
    >>> import math
    >>> math.isclose(CosineSeries([1.0, 2.0])([math.pi], [0.0]), -1.0)
    True
    """

    coefficients: Sequence[float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        check_coefficients(self, "coefficients", self.coefficients)

    def column_features(self, column: np.ndarray, order: int) -> np.ndarray:
        weights = np.asarray(self.coefficients, np.float64)
        return cosine_features(column, np.arange(len(weights), dtype=float), weights, order)

    def _weights(self) -> FourierWeights:
        halves = 0.5 * np.asarray(self.coefficients, np.float64)
        halves[0] *= 2.0
        return FourierWeights.finite(halves, 2.0 * np.pi)


@dataclass(frozen=True, eq=False, repr=False)
class FourierSeries(_Series):
    """The kernel on the torus with Fourier weights c_m: Σ_m e^{2iπm(x−y)/period}/c_m.

    Its space has the norm ‖f‖² = Σ_m c_m |f̂_m|². Weights are symmetric, c_{−m} = c_m, and those
    beyond the list are infinite. For more columns the kernel is the product.

    Parameters
    ----------
    weights : sequence of floats, default=(1.0, 1.0)
        c_0, c_1, …, positive.
    period : float, default=1.0

    Examples
    --------
    >>> import math
    >>> math.isclose(FourierSeries([1.0, 4.0])([0.0], [0.5]), 1 + 2 * math.cos(math.pi) / 4)
    True
    """

    weights: Sequence[float] = (1.0, 1.0)
    period: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self, "period", self.period)
        check_coefficients(self, "weights", self.weights)
        if not (np.asarray(self.weights) > 0).all():
            raise ValueError("FourierSeries needs positive weights; a weight of 0 is no norm.")

    def column_features(self, column: np.ndarray, order: int) -> np.ndarray:
        inverse = 1.0 / np.asarray(self.weights, np.float64)
        inverse[1:] *= 2.0
        frequencies = (2.0 * np.pi / self.period) * np.arange(len(inverse))
        return cosine_features(column, frequencies, inverse, order)

    def _weights(self) -> FourierWeights:
        return FourierWeights.finite(1.0 / np.asarray(self.weights, np.float64), float(self.period))


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
        weights = self._masses()
        if not np.isfinite(weights).all() or (weights < 0).any():
            raise ValueError(
                "Spectral needs a nonnegative, finite density (Bochner's theorem); it returned "
                f"{weights.min()}."
            )

    def _frequencies(self) -> np.ndarray:
        return np.linspace(0.0, float(self.limit), int(self.nodes) + 1)

    def _masses(self) -> np.ndarray:
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
        return cosine_features(column, self._frequencies(), self._masses(), order)

    def facts(self, dimension: int | None = None) -> Facts:
        total, table = float(self._masses().sum()), self._frequencies()
        if total == 0:
            return constant_facts(self, 0.0, dimension)
        known = super().facts(dimension)
        return known.stating(
            stationary=yes("it is a sum of cosines of the differences x_k − y_k"),
            bounded=bound_of_product(total, dimension),
            universal=unknown("it is computed from finitely many frequencies"),
            spectral_density=lambda d: yes(
                "it is given by its density, up to the limit",
                Tabulated(d, total**d, self.density, table, self.sampler),
            ),
        )
