"""Mercer's theorem: k(x, y) = Σ_i λ_i φ_i(x) φ_i(y), with φ_i orthonormal for a measure.

The measure is one for which the eigenfunctions are known, or the points of a sample; then they are
computed by products with the Gram matrix and extended to new points.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import as_numpy
from mercer.checks import check_count, check_positive
from mercer.functions import RKHSFunction
from mercer.kernels import laws
from mercer.kernels.base import Kernel
from mercer.kernels.coordinates import Brownian
from mercer.kernels.radial import Gaussian
from mercer.operators import Gram

__all__ = [
    "MercerDecomposition",
    "Normal",
    "SphericalHarmonics",
    "UniformCircle",
    "UniformCube",
    "UniformSphere",
    "decomposition",
]


@dataclass(frozen=True)
class Tuning:
    """How many eigenvalues are looked at."""

    nodes: int = 500  # of Gauss and Legendre, for integrals over the angle on a sphere
    degrees: int = 250  # of spherical harmonics whose eigenvalues are computed
    fourier_terms: int = 1 << 17  # of those that decay like m⁻², the rest is 10⁻⁵ of the sum
    hermite_terms: int = 256  # for each column of the Gaussian kernel; they decay like q^m, q < 1
    sine_terms: int = 1 << 14  # of the Brownian kernel, for each column


TUNING = Tuning()


# ---- measures ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UniformCircle:
    """The uniform measure on one column modulo its period: for periodic kernels.

    >>> from mercer.kernels import PeriodicBernoulli
    >>> PeriodicBernoulli(1).mercer(UniformCircle(), count=3).eigenvalues.shape
    (3,)
    """

    columns = 1  # no field


@dataclass(frozen=True)
class Normal:
    """Independent normal variables with mean 0, one for each column: for the Gaussian kernel.

    >>> from mercer.kernels import Gaussian
    >>> values = Gaussian().mercer(Normal(), count=3).eigenvalues
    >>> bool(values[0] > values[1] > values[2])
    True
    """

    deviation: float = 1.0
    columns: int = 1

    def __post_init__(self) -> None:
        check_positive(self, "deviation", self.deviation)
        check_count(self, "columns", self.columns)


@dataclass(frozen=True)
class UniformSphere:
    """The uniform measure on the unit sphere of ℝ^d: for kernels of ⟨x, y⟩ and the norms.

    >>> from mercer.kernels import Linear
    >>> Linear().mercer(UniformSphere(3), count=3).eigenvalues.round(4)  # ⟨x, y⟩ has three features
    array([0.3333, 0.3333, 0.3333])
    """

    dimension: int = 3

    def __post_init__(self) -> None:
        check_count(self, "dimension", self.dimension)
        if self.dimension < 2:
            raise ValueError("UniformSphere needs a dimension ≥ 2; the sphere of ℝ has two points.")

    @property
    def columns(self) -> int:
        return self.dimension - 1


@dataclass(frozen=True)
class UniformCube:
    """The uniform measure on [0, 1]^d: for the Brownian kernel.

    >>> from mercer.kernels import Brownian
    >>> Brownian().mercer(UniformCube(), count=2).eigenvalues.round(3)  # 1/((j − ½)π)²
    array([0.405, 0.045])
    """

    columns: int = 1

    def __post_init__(self) -> None:
        check_count(self, "columns", self.columns)


# ---- eigenfunctions that are known: products of functions of one column each ---------------------


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


def eigensystem(kernel: Kernel, columns: int, deviation: float) -> Eigensystem:
    """The eigenfunctions of a kernel, where they are known."""
    if isinstance(kernel, Gaussian):
        scales = np.broadcast_to(np.asarray(kernel.lengthscale, np.float64), columns)
        return Hermite.of(scales, deviation, TUNING.hermite_terms)
    period = laws.period(kernel)
    answer = laws.fourier_weights(kernel, TUNING.fourier_terms) if columns == 1 else None
    if not period or answer is None or not answer.yes:
        raise ValueError(
            f"the eigenfunctions of {kernel!r} on {columns} columns are not known: they are for "
            "the Gaussian kernel and, on one column, for periodic kernels. Nystroem takes any "
            "kernel."
        )
    weights = np.asarray(answer.payload, np.float64)
    twice = np.concatenate([weights[:1], np.repeat(weights[1:], 2)])
    return Torus(twice[None, :], period)


# ---- decompositions ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MercerDecomposition:
    """The leading eigenvalues of k for a measure, in falling order, and their eigenfunctions.

    Made by `kernel.mercer(measure)`.

    Attributes
    ----------
    kernel : Kernel
    measure : UniformCircle, Normal, UniformSphere, UniformCube, or the points
    eigenvalues : array of shape (count,)
    trace : float
        ∫k(x, x)dμ, the sum of all eigenvalues.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Brownian
    >>> from mercer.kernels.mercer import UniformCube
    >>> decomposition = Brownian().mercer(UniformCube(), count=3)
    >>> bool(np.allclose(decomposition.eigenvalues, 1 / (np.pi * np.array([0.5, 1.5, 2.5])) ** 2))
    True
    """

    kernel: Kernel
    measure: Any
    eigenvalues: np.ndarray
    trace: float
    _functions: Any = field(repr=False)

    def functions(self, x: Any) -> np.ndarray:
        """φ_i(x), one row for each point and one column for each eigenvalue."""
        return np.asarray(self._functions(x), np.float64)

    def approximation(self, x: Any, y: Any = None) -> np.ndarray:
        """Σ_i λ_i φ_i(x) φ_i(y) over the eigenvalues there are, for all pairs of points."""
        left = self.functions(x)
        right = left if y is None else self.functions(y)
        return (left * self.eigenvalues) @ right.T

    @property
    def lost(self) -> float:
        """The share of the trace that the eigenvalues there are leave out."""
        return max(1.0 - float(self.eigenvalues.sum()) / self.trace, 0.0)

    def decay(self, start: int | None = None) -> float:
        """p with λ_i ≈ c·i^(−p), fitted to the eigenvalues from number `start` on.

        The first tenth is left out by default, where the decay is not yet that of the tail.
        """
        values = self.eigenvalues[self.eigenvalues > 1e-14 * self.eigenvalues[0]]
        first = max(1, len(values) // 10) if start is None else start
        numbers = np.arange(1, len(values) + 1)[first:]
        if len(numbers) < 3:
            raise ValueError(f"a decay needs three eigenvalues or more; got {len(numbers)}.")
        # Equal weight for each doubling of i: else a few hundred of the last would decide alone.
        slope = np.polyfit(np.log(numbers), np.log(values[first:]), 1, w=numbers**-0.5)[0]
        return -float(slope)

    def predicted_decay(self) -> float | None:
        """2s/d, which the kernel's Sobolev order s predicts on d columns; None if it is not known.

        Infinite for kernels whose eigenvalues fall faster than every power, as the Gaussian's.
        """
        answer = self.kernel.facts(self.columns).sobolev_order
        return 2.0 * float(answer.payload) / self.columns if answer.yes else None

    @property
    def columns(self) -> int:
        """The dimension of the set that the measure lives on."""
        known = isinstance(self.measure, (UniformCircle, Normal, UniformSphere, UniformCube))
        return int(self.measure.columns if known else getattr(self.measure, "width", 1))


def decomposition(
    kernel: Kernel, measure: Any, count: int, random_state: Any = 0
) -> MercerDecomposition:
    """The `count` leading eigenpairs of a kernel for a measure; see `Kernel.mercer`.

    >>> from mercer.kernels import Brownian
    >>> len(decomposition(Brownian(), UniformCube(), 5).eigenvalues)
    5
    """
    check_count("mercer", "count", count)
    match measure:
        case UniformSphere():
            return _on_sphere(kernel, measure, count)
        case UniformCircle() | Normal() | UniformCube():
            return _on_columns(kernel, measure, count)
    return _empirical(kernel, measure, count, random_state)


def _on_columns(kernel: Kernel, measure: Any, count: int) -> MercerDecomposition:
    system = _system(kernel, measure)
    indices = system.leading(count)
    functions = partial(_at_points, partial(system.functions, indices=indices), kernel)
    values = system.eigenvalues(indices)
    return MercerDecomposition(kernel, measure, values, system.trace, functions)


def _at_points(formula: Any, kernel: Kernel, x: Any) -> np.ndarray:
    """Eigenfunctions by a formula, at points as the kernel takes them."""
    return formula(np.asarray(as_numpy(kernel.points(x).data), np.float64))


def _system(kernel: Kernel, measure: Any) -> Eigensystem:
    """The eigenfunctions of a kernel for a measure, or what is known instead."""
    match measure:
        case UniformCube() if isinstance(kernel, Brownian):
            return Sines.of(measure.columns, TUNING.sine_terms)
        case Normal() if isinstance(kernel, Gaussian):
            return eigensystem(kernel, measure.columns, float(measure.deviation))
        case UniformCircle() if not isinstance(kernel, Gaussian):
            return eigensystem(kernel, 1, 1.0)
    raise ValueError(
        f"the eigenfunctions of {kernel!r} for {measure!r} are not known: they are for periodic "
        "kernels and UniformCircle(), Gaussian and Normal(deviation, columns), Brownian and "
        "UniformCube(columns), kernels of ⟨x, y⟩ and UniformSphere(d). kernel.mercer(X) takes any "
        "kernel and points."
    )


# ---- the sphere ----------------------------------------------------------------------------------


def _on_sphere(kernel: Kernel, measure: UniformSphere, count: int) -> MercerDecomposition:
    """By the theorem of Funk and Hecke: spherical harmonics of degree l share an eigenvalue."""
    values, trace = _zonal_eigenvalues(kernel, measure.dimension)
    least = 1e-13 * float(np.abs(values).max(initial=0.0))  # what lies below is rounding
    if values.min() < -1e-9 * float(np.abs(values).max()):
        raise ValueError(f"{kernel!r} has a negative eigenvalue on the sphere: it is no kernel.")
    degrees: list[int] = []
    numbers: list[int] = []
    for degree in np.argsort(-values, kind="stable"):
        if len(degrees) >= count or values[degree] <= least:
            break
        many = min(_multiplicity(measure.dimension, int(degree)), count - len(degrees))
        degrees += [int(degree)] * many
        numbers += list(range(many))
    harmonics = SphericalHarmonics(measure.dimension)
    formula = partial(harmonics, degrees=np.array(degrees), numbers=np.array(numbers))
    functions = partial(_at_points, formula, kernel)
    return MercerDecomposition(kernel, measure, values[degrees], trace, functions)


def _zonal_eigenvalues(kernel: Kernel, dimension: int) -> tuple[np.ndarray, float]:
    """λ_l = ∫κ(cos θ) P_l(cos θ) sin^{d−2}θ dθ / ∫sin^{d−2}θ dθ, and κ(1), where k is κ(⟨x, y⟩).

    The integral is over the angle, in which arc-cosine kernels are smooth.
    """
    turn = linalg.qr(np.random.default_rng(0).standard_normal((dimension,) * 2))[0]
    rows = np.eye(dimension)[:2]
    rows = np.r_[rows, (rows[:1] + rows[1:]) / math.sqrt(2.0)]
    before, after = kernel(rows), kernel(rows @ turn.T)
    if not np.allclose(before, after, rtol=1e-6, atol=1e-9 * np.abs(before).max()):
        raise ValueError(
            f"{kernel!r} changes when the sphere is turned: eigenfunctions on it are "
            "known for kernels of ⟨x, y⟩ and the norms, as Polynomial, ArcCosine and Gaussian."
        )
    nodes, weights = np.polynomial.legendre.leggauss(TUNING.nodes)
    angles = 0.5 * math.pi * (nodes + 1.0)
    density = weights * np.sin(angles) ** (dimension - 2)
    circle = np.zeros((1 + TUNING.nodes, dimension))  # from the first unit vector on
    circle[:, 0], circle[1:, 1] = np.cos(np.append(0.0, angles)), np.sin(angles)
    profile = np.asarray(kernel(circle[:1], circle), np.float64)[0]
    polynomials = np.stack(list(islice(_zonal(dimension, np.cos(angles)), TUNING.degrees)))
    return polynomials @ (density / density.sum() * profile[1:]), float(profile[0])


def _zonal(dimension: int, t: np.ndarray) -> Iterator[np.ndarray]:
    """P_0(t), P_1(t), …, orthogonal for (1 − t²)^{(d−3)/2}, with P_l(1) = 1, by recurrence."""
    before, now, degree = np.ones_like(t), t, 1
    yield before
    while True:
        yield now
        rise = (2 * degree + dimension - 2) * t * now - degree * before
        before, now, degree = now, rise / (degree + dimension - 2), degree + 1


def _multiplicity(dimension: int, degree: int) -> int:
    """How many spherical harmonics of a degree there are."""
    of_lower = math.comb(degree + dimension - 3, dimension - 1) if degree > 1 else 0
    return math.comb(degree + dimension - 1, dimension - 1) - of_lower


class SphericalHarmonics:
    """An orthonormal basis of the spherical harmonics of each degree, in any dimension d ≥ 2.

    The harmonics of degree l are spanned by x ↦ Z(x, p) = N P_l(⟨x, p⟩) for N points p in general
    position, whose inner products are Z(p, q). So those functions times the inverse root of that
    matrix are orthonormal.

    >>> import numpy as np
    >>> x = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> harmonics = SphericalHarmonics(3)(x, np.array([1, 1, 1]), np.array([0, 1, 2]))
    >>> np.round(harmonics @ harmonics.T, 9) + 0.0  # 3⟨x, y⟩
    array([[3., 0.],
           [0., 3.]])
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def __call__(self, x: np.ndarray, degrees: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The harmonics with the given degrees and numbers within them."""
        lengths = np.linalg.norm(x, axis=1)
        if not np.allclose(lengths, 1.0, rtol=1e-5):
            raise ValueError(
                "spherical harmonics are functions on the unit sphere; got points of length "
                f"{lengths.min():.3g} to {lengths.max():.3g}: divide them by their lengths."
            )
        out = np.empty((len(x), len(degrees)))
        for degree in np.unique(degrees):
            chosen = degrees == degree
            out[:, chosen] = self._of_degree(x, int(degree))[:, numbers[chosen]]
        return out

    def _of_degree(self, x: np.ndarray, degree: int) -> np.ndarray:
        """All harmonics of a degree."""
        many = _multiplicity(self.dimension, degree)
        points = np.random.default_rng(degree).standard_normal((3 * many, self.dimension))
        points /= np.linalg.norm(points, axis=1)[:, None]
        values, vectors = linalg.eigen(many * self._polynomial(degree, points @ points.T))
        values, vectors = values[-many:], vectors[:, -many:]
        return many * self._polynomial(degree, x @ points.T) @ (vectors / np.sqrt(values))

    def _polynomial(self, degree: int, t: np.ndarray) -> np.ndarray:
        return next(islice(_zonal(self.dimension, np.clip(t, -1.0, 1.0)), degree, None))


# ---- samples -------------------------------------------------------------------------------------


def _empirical(kernel: Kernel, points: Any, count: int, random_state: Any) -> MercerDecomposition:
    """λ_i(K)/n and the Nyström extension φ_i(x) = (√n/λ_i(K)) Σ_j v_ij k(x_j, x)."""
    x = kernel.points(points)
    gram, n = Gram(kernel, x), len(x)

    def multiply(block: np.ndarray) -> np.ndarray:
        return np.asarray(as_numpy(gram @ block.astype(gram.dtype)), np.float64)

    tolerance = 64.0 * float(np.finfo(gram.dtype).eps)
    pairs = linalg.leading_eigenpairs(
        multiply, n, min(count, n), tolerance=tolerance, random_state=random_state
    )
    real = pairs.values > n * float(np.finfo(gram.dtype).eps) * pairs.values[0]
    values, vectors = pairs.values[real], pairs.vectors[:, real]
    f = RKHSFunction(kernel, x, (math.sqrt(n) * vectors / values).astype(gram.dtype))
    trace = float(np.mean(as_numpy(gram.diagonal()), dtype=np.float64))
    return MercerDecomposition(kernel, x, values / n, trace, f)
