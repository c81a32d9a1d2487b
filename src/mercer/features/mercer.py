"""Mercer features: eigenfunctions of a kernel, sampled or the leading ones.

k(x, y) = Σ_i λ_i φ_i(x) φ_i(y), with φ_i orthonormal for a measure μ: the uniform one on a circle,
or a normal one.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from mercer.checks import check_count, check_positive
from mercer.features.base import FeatureMap, Fill, dense_pairs
from mercer.kernels import laws
from mercer.kernels.base import Kernel
from mercer.kernels.measures import Seed, generator
from mercer.kernels.radial import Gaussian

SAMPLINGS = ("random", "leading")


@dataclass(frozen=True)
class Tuning:
    """How many eigenvalues are looked at."""

    fourier_terms: int = 1 << 17  # of those that decay like m⁻², the rest is 10⁻⁵ of the sum
    hermite_terms: int = 256  # for each column of the Gaussian kernel; they decay like q^m, q < 1
    summed: int = 4096  # in the second moment of sampled features


class Eigensystem:
    """Products over columns of functions of one column, numbered 0, 1, … by falling eigenvalue.

    `weights` are the eigenvalues of one column, as many rows as columns of a point; their products
    are those of k.
    """

    weights: np.ndarray

    @property
    def trace(self) -> float:
        """Σλ, the mean of k(x, x)."""
        return float(self.weights.sum(axis=1).prod())

    def draw(self, count: int, random: np.random.Generator) -> np.ndarray:
        """So many indices (one number for each column) with probability λ/Σλ."""
        columns = [random.choice(len(w), count, p=w / w.sum()) for w in self.weights]
        return np.stack(columns, axis=1)

    def leading(self, count: int) -> np.ndarray:
        """The indices of the largest eigenvalues, best first."""
        with np.errstate(divide="ignore"):
            logarithms = np.log(self.weights)
        start = (0,) * len(self.weights)
        heap, seen = [(-logarithms[:, 0].sum(), start)], {start}
        best: list[tuple[int, ...]] = []
        while heap and len(best) < count:
            value, index = heapq.heappop(heap)
            if not math.isfinite(value):
                break
            best.append(index)
            for k in range(len(index)):
                after = (*index[:k], index[k] + 1, *index[k + 1 :])
                if after not in seen and after[k] < self.weights.shape[1]:
                    seen.add(after)
                    gain = logarithms[k, after[k]] - logarithms[k, index[k]]
                    heapq.heappush(heap, (value - gain, after))
        return np.array(best, int)

    def eigenvalues(self, indices: np.ndarray) -> np.ndarray:
        """λ of some indices."""
        columns = np.arange(len(self.weights))
        return np.asarray(self.weights[columns, indices].prod(axis=1))

    def functions(self, rows: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """φ_i(x) for rows and indices."""
        out = np.ones((len(rows), len(indices)))
        for k, column in enumerate(rows.T):
            out *= self.column_functions(k, column, indices[:, k])
        return out

    def column_functions(self, k: int, column: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The functions of one column with the given numbers."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Torus(Eigensystem):
    """1, √2 cos(2πmx/T), √2 sin(2πmx/T) with the eigenvalues 1/c_m, for the uniform measure."""

    weights: np.ndarray
    period: float

    def column_functions(self, k: int, column: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        turns = (column / self.period)[:, None] * ((numbers + 1) // 2)
        shift = np.where(numbers % 2, 0.0, 0.25)  # cosines have odd numbers, sines even ones
        values = math.sqrt(2.0) * np.cos(2.0 * math.pi * (turns - np.rint(turns) - shift))
        values[:, numbers == 0] = 1.0
        return values


@dataclass(frozen=True, eq=False)
class Hermite(Eigensystem):
    """Hermite functions, for the Gaussian kernel and the measure N(0, σ²) in every column.

    With a = 1/(4σ²), b = 1/(2ℓ²), c = √(a² + 2ab) and A = a + b + c: λ_n = √(2a/A)(b/A)^n and
    φ_n(x) = (c/a)^{1/4} e^{−(c−a)x²} H_n(√(2c) x)/√(2^n n!).
    """

    weights: np.ndarray
    rates: np.ndarray  # a, b, c for each column

    @classmethod
    def of(cls, lengthscales: np.ndarray, deviation: float, terms: int) -> Hermite:
        a = np.full(len(lengthscales), 0.25 / deviation**2)
        b = 0.5 / lengthscales**2
        c = np.sqrt(a * a + 2.0 * a * b)
        top = a + b + c
        weights = np.sqrt(2.0 * a / top)[:, None] * (b / top)[:, None] ** np.arange(terms)
        return cls(weights, np.stack([a, b, c], axis=1))

    def column_functions(self, k: int, column: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """By the recurrence of normalised Hermite functions, h_n = H_n/√(2^n n!)."""
        last = int(numbers.max())
        a, _, c = self.rates[k]
        x = math.sqrt(2.0 * c) * column
        out = np.empty((len(column), last + 1))
        out[:, 0] = (c / a) ** 0.25 * np.exp(-(c - a) * column**2)
        if last:
            out[:, 1] = math.sqrt(2.0) * x * out[:, 0]
        for n in range(1, last):
            step = math.sqrt(2.0 / (n + 1)) * x * out[:, n]
            out[:, n + 1] = step - math.sqrt(n / (n + 1)) * out[:, n - 1]
        return out[:, numbers]


def eigensystem(
    kernel: Kernel,
    columns: int,
    deviation: float,
    tuning: Tuning = Tuning(),  # noqa: B008
) -> Eigensystem:
    """The eigenfunctions of a kernel, where they are known.

    >>> from mercer.kernels import PeriodicBernoulli
    >>> system = eigensystem(PeriodicBernoulli(order=1), 1, 1.0)
    >>> system.eigenvalues(np.array([[0], [1], [2]])).tolist()
    [1.0, 1.0, 1.0]
    """
    if isinstance(kernel, Gaussian):
        scales = np.broadcast_to(np.asarray(kernel.lengthscale, np.float64), columns)
        return Hermite.of(scales, deviation, tuning.hermite_terms)
    period = laws.period(kernel)
    answer = laws.fourier_weights(kernel, tuning.fourier_terms) if columns == 1 else None
    if not period or answer is None or not answer.yes:
        raise ValueError(
            f"the eigenfunctions of {kernel!r} on {columns} columns are not known: they are for "
            "the Gaussian kernel and, on one column, for periodic kernels. Nystroem takes any "
            "kernel."
        )
    weights = np.asarray(answer.payload, np.float64)
    twice = np.concatenate([weights[:1], np.repeat(weights[1:], 2)])
    return Torus(twice[None, :], period)


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
        if self.sampling not in SAMPLINGS:
            raise ValueError(f"sampling must be one of {list(SAMPLINGS)}; got {self.sampling!r}.")
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
            dense = rows.toarray() if scipy.sparse.issparse(rows) else rows
            out[:] = system.functions(dense.astype(np.float64), self.indices_) * roots

        return fill

    def expected_error(self, X: Any, Y: Any) -> np.ndarray:
        """Of sampled features the root mean square error, of the leading ones the error itself.

        Sampled: ((Σλ) Σ_i λ_i ψ_i(x)² ψ_i(y)² − k(x, y)²)/S, with the sum over the eigenfunctions
        with the 4096 largest eigenvalues. Leading: a bound, √(r(x) r(y)) with
        r = k(x, x) − k̂(x, x).
        """
        check_is_fitted(self)
        x, y = dense_pairs(X, Y)
        if self.sampling == "leading":
            rest = [self._residuals(part) for part in (x, y)]
            return np.sqrt(rest[0] * rest[1])
        system = self._system()
        indices = system.leading(Tuning().summed)
        eigenvalues = system.eigenvalues(indices)
        products = system.functions(x, indices) * system.functions(y, indices)
        second = system.trace * (products**2 @ eigenvalues)
        return np.sqrt(np.maximum(second - (products @ eigenvalues) ** 2, 0) / self.feature_count)

    def _residuals(self, x: np.ndarray) -> np.ndarray:
        features = self.transform(x)
        own = self.kernel_.gram(x).diagonal()
        return np.maximum(own - np.einsum("ij,ij->i", features, features), 0.0)

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
