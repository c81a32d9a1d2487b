"""Mercer features: eigenfunctions of a kernel, sampled or the leading ones.

k(x, y) = Σ_i λ_i φ_i(x) φ_i(y), with φ_i orthonormal for a measure μ: the uniform one on a circle,
or a normal one.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.checks import check_count, check_positive
from mercer.features.base import FeatureMap, Fill, dense_pairs
from mercer.features.inputs import dense
from mercer.kernels.measures import Seed, generator
from mercer.kernels.mercer import Eigensystem, Torus, eigensystem
from mercer.kernels.radial import Gaussian

EIGENFUNCTION_SAMPLINGS = ("random", "leading")
SUMMED = 4096  # eigenvalues in the second moment of sampled features


@dataclass(eq=False, repr=False)
class MercerFeatures(FeatureMap):
    """φ_i(x) = √λ_i ψ_i(x) for eigenfunctions ψ_i of the kernel, sampled or the leading ones.

    Sampled with probability λ_i/Σλ they are √(Σλ/S) ψ_i(x), an unbiased estimate; the leading ones
    are the best approximation of their number in the mean over μ, and biased: k − k̂ is positive
    semi-definite. Eigenfunctions are known for periodic kernels on one column (μ uniform on the
    circle) and for the Gaussian kernel (μ normal, mean 0).

    Parameters
    ----------
    kernel : Kernel
    n_components : int, default=100
        S.
    sampling : {"leading", "random"}, default="leading"
    deviation : float, default=1.0
        σ of the normal measure, for the Gaussian kernel.
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    indices_ : array of shape (features, columns)
        Which eigenfunctions.
    eigenvalues_ : array of shape (features,)
    kernel_ : Kernel

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 4.3.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((50, 1))
    >>> Z = MercerFeatures(Gaussian(1.0), n_components=30).fit_transform(X)
    >>> bool(np.allclose(Z @ Z.T, Gaussian(1.0)(X), atol=1e-6))
    True
    """

    kernel: Any = None
    n_components: int = 100
    _: KW_ONLY
    sampling: str = "leading"
    deviation: float = 1.0
    random_state: Seed = None

    @property
    def unbiased(self) -> bool:  # type: ignore[override]
        """Whether features are sampled."""
        return self.sampling == "random"

    def _draw(self, X: Any) -> None:
        check_count(self, "n_components", self.n_components)
        check_positive(self, "deviation", self.deviation)
        if self.sampling not in EIGENFUNCTION_SAMPLINGS:
            raise ValueError(
                f"sampling must be one of {list(EIGENFUNCTION_SAMPLINGS)}; got {self.sampling!r}."
            )
        kernel = Gaussian() if self.kernel is None else self.kernel
        system = eigensystem(kernel, X.shape[1], float(self.deviation))
        if self.sampling == "random":
            self.indices_ = system.draw(self.n_components, generator(self.random_state))
        else:
            self.indices_ = system.leading(self.n_components)
        self.eigenvalues_ = system.eigenvalues(self.indices_)
        self.kernel_ = kernel

    @property
    def feature_count(self) -> int:
        return len(self.indices_)

    def _system(self) -> Eigensystem:
        return eigensystem(self.kernel_, self.indices_.shape[1], float(self.deviation))

    def _filler(self, dtype: np.dtype) -> Fill:
        system = self._system()
        if self.sampling == "random":
            roots = np.full(self.feature_count, math.sqrt(system.trace / self.feature_count))
        else:
            roots = np.sqrt(self.eigenvalues_)

        def fill(rows: Any, out: np.ndarray) -> None:
            out[:] = system.functions(dense(rows).astype(np.float64), self.indices_) * roots

        return fill

    def expected_error(self, X: Any, Y: Any) -> np.ndarray:
        """The root mean square error of sampled features; for leading ones, the error itself.

        Sampled: ((Σλ) Σ_i λ_i ψ_i(x)² ψ_i(y)² − k(x, y)²)/S, with the sum over the eigenfunctions
        with the 4096 largest eigenvalues. Leading: a bound, √(r(x) r(y)) with
        r = k(x, x) − k̂(x, x).
        """
        check_is_fitted(self)
        x, y = dense_pairs(X, Y)
        if self.sampling == "leading":
            own = [self.kernel_.gram(side).diagonal() for side in (x, y)]
            ours = [np.square(self.transform(side)).sum(axis=1) for side in (x, y)]
            return np.sqrt(np.prod(np.maximum(np.subtract(own, ours), 0.0), axis=0))
        system = self._system()
        indices = system.leading(SUMMED)
        eigenvalues = system.eigenvalues(indices)
        products = system.functions(x, indices) * system.functions(y, indices)
        second = system.trace * (products**2 @ eigenvalues)
        return np.sqrt(np.maximum(second - (products @ eigenvalues) ** 2, 0) / self.feature_count)

    def _uniform_error(self, radius: float, probability: float) -> float:
        """By bounds on the eigenfunctions.

        On the circle |ψ_i| ≤ √2, so the leading features leave at most 2 Σλ_i over those left out.
        Sampled ones have the error 2 Σ_i |p̂_i − p_i| Σλ at most, p̂_i being how often i was drawn
        for p_i = λ_i/Σλ; its mean is at most 2 Σλ Σ√p_i/√S, and Markov's inequality does the rest.
        For the Gaussian kernel, whose eigenfunctions are not bounded, none is known: infinite.
        """
        system = self._system()
        if not isinstance(system, Torus):
            return math.inf
        if self.sampling == "leading":
            return 2.0 * max(system.trace - float(self.eigenvalues_.sum()), 0.0)
        roots = float(np.sqrt(system.weights[0] / system.trace).sum())
        return 2.0 * system.trace * roots / (math.sqrt(self.feature_count) * (1.0 - probability))
