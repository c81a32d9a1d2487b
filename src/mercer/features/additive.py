"""Explicit features of additive kernels on histograms: additive χ² and intersection."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from mercer.checks import check_count
from mercer.features.base import FeatureMap, Fill, dense_pairs
from mercer.kernels.base import Kernel
from mercer.kernels.coordinates import AdditiveChiSquared, HistogramIntersection


def _density(kernel: Any, frequencies: np.ndarray) -> np.ndarray:
    """κ with k(x, y) = √(xy) ∫ κ(λ) cos(λ log(y/x)) dλ for one column."""
    if isinstance(kernel, AdditiveChiSquared):
        return 1.0 / np.cosh(math.pi * frequencies)
    return 2.0 / (math.pi * (1.0 + 4.0 * frequencies**2))


@dataclass(eq=False, repr=False)
class AdditiveFeatures(FeatureMap):
    """2n + 1 features for each column of a histogram, with ⟨φ(x), φ(y)⟩ ≈ Σ_k k(x_k, y_k).

    Both kernels are homogeneous, k(cx, cy) = c·k(x, y), so that
    k(x, y) = √(xy) ∫ κ(λ) cos(λ log(y/x)) dλ; the integral is sampled at 0, ±L, …, ±nL. It is not
    random and not unbiased: the error falls with n. A linear model on these features takes the
    place of a kernel machine on many images.

    Parameters
    ----------
    kernel : AdditiveChiSquared or HistogramIntersection
        k.
    steps : int, default=3
        n.

    Attributes
    ----------
    interval_ : float
        L, which grows with n as in the reference.
    kernel_ : Kernel

    References
    ----------
    Vedaldi, Zisserman, Efficient additive kernels via explicit feature maps, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import AdditiveChiSquared
    >>> X = np.random.default_rng(0).dirichlet(np.ones(20), 30)
    >>> Z = AdditiveFeatures(AdditiveChiSquared(), steps=3).fit_transform(X)
    >>> bool(np.abs(Z @ Z.T - AdditiveChiSquared()(X)).max() < 0.01)
    True
    """

    kernel: Any = field(default_factory=AdditiveChiSquared)
    steps: int = 3

    unbiased = False

    def _draw(self, X: Any) -> None:
        check_count(self, "steps", self.steps)
        if not isinstance(self.kernel, (AdditiveChiSquared, HistogramIntersection)):
            raise ValueError(
                "AdditiveFeatures are of AdditiveChiSquared() or HistogramIntersection(); got "
                f"{self.kernel!r}."
            )
        self._columns(X)
        if isinstance(self.kernel, AdditiveChiSquared):
            period = 5.86 * math.sqrt(self.steps) + 3.65
        else:
            period = 8.80 * math.sqrt(self.steps + 4.44) - 12.6
        self.interval_ = 2.0 * math.pi / period
        self.kernel_: Kernel = self.kernel

    def _columns(self, X: Any) -> np.ndarray:
        rows = X.toarray() if scipy.sparse.issparse(X) else np.asarray(X)
        self.kernel.points(rows)  # refuses what is negative
        return rows

    @property
    def feature_count(self) -> int:
        return self.n_features_in_ * (2 * self.steps + 1)

    def _filler(self, dtype: np.dtype) -> Fill:
        frequencies = self.interval_ * np.arange(self.steps + 1)
        weights = np.sqrt(self.interval_ * _density(self.kernel, frequencies))
        weights[1:] *= math.sqrt(2.0)

        def fill(X: Any, out: np.ndarray) -> None:
            rows = self._columns(X)
            logs = np.log(np.where(rows > 0, rows, 1.0))
            roots = np.sqrt(rows)
            parts = [weights[0] * roots]
            for frequency, weight in zip(frequencies[1:], weights[1:], strict=True):
                parts += [weight * roots * wave(frequency * logs) for wave in (np.cos, np.sin)]
            out[:] = np.concatenate(parts, axis=1)

        return fill

    def expected_error(self, X: Any, Y: Any) -> np.ndarray:
        """|⟨φ(x), φ(y)⟩ − k(x, y)| for pairs of rows, exactly: nothing here is random."""
        check_is_fitted(self)
        x, y = dense_pairs(X, Y)
        products = np.einsum("ij,ij->i", self.transform(x), self.transform(y))
        exact = [float(self.kernel(a, b)) for a, b in zip(x, y, strict=True)]
        return np.abs(products - np.array(exact))

    def _uniform_error(self, radius: float, probability: float) -> float:
        return math.inf
