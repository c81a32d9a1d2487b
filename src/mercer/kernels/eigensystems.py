"""Eigenfunctions of kernels on columns: on circles, for the normal measure, on the unit cube.

k(x, y) = Σ_i λ_i φ_i(x) φ_i(y) with φ_i orthonormal for a measure, products of functions of one
column each.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np

from mercer.kernels import laws
from mercer.kernels.base import Kernel
from mercer.kernels.radial import Gaussian


@dataclass(frozen=True)
class Tuning:
    """How many eigenvalues are looked at."""

    fourier_terms: int = 1 << 17  # of those that decay like m⁻², the rest is 10⁻⁵ of the sum
    hermite_terms: int = 256  # for each column of the Gaussian kernel; they decay like q^m, q < 1
    sine_terms: int = 1 << 14  # of the Brownian kernel, for each column


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


@dataclass(frozen=True, eq=False)
class Sines(Eigensystem):
    """√2 sin((n + ½)πx) with the eigenvalues 1/((n + ½)π)²: min(x, y) on [0, 1]."""

    weights: np.ndarray

    @classmethod
    def of(cls, columns: int, terms: int) -> Sines:
        frequencies = (np.arange(terms) + 0.5) * math.pi
        return cls(np.tile(frequencies**-2.0, (columns, 1)))

    @property
    def trace(self) -> float:
        """∫x dx = ½ for each column; the sum of finitely many eigenvalues is a little less."""
        return 0.5 ** len(self.weights)

    def column_functions(self, k: int, column: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        return math.sqrt(2.0) * np.sin(column[:, None] * ((numbers + 0.5) * math.pi))


def eigensystem(
    kernel: Kernel, columns: int, deviation: float, tuning: Tuning = Tuning()
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
