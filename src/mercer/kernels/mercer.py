"""Mercer's theorem: k(x, y) = Σ_i λ_i φ_i(x) φ_i(y), with φ_i orthonormal for a measure.

The measure is one for which the eigenfunctions are known, or the points of a sample; then they are
computed by products with the Gram matrix and extended to new points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.special import eval_gegenbauer, gammaln

from mercer import linalg
from mercer.arrays import as_numpy
from mercer.checks import check_count, check_positive
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.kernels.coordinates import Brownian
from mercer.kernels.eigensystems import Eigensystem, Sines, Tuning, eigensystem
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

NODES = 500  # of Gauss and Legendre, for integrals over the angle between points of a sphere
DEGREES = 250  # of spherical harmonics whose eigenvalues are computed
TUNING = Tuning()


# ---- measures ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UniformCircle:
    """The uniform measure on one column modulo its period: for periodic kernels.

    >>> from mercer.kernels import PeriodicBernoulli
    >>> PeriodicBernoulli(1).mercer(UniformCircle(), count=3).eigenvalues.shape
    (3,)
    """


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
        match self.measure:
            case UniformCircle():
                return 1
            case UniformSphere():
                return self.measure.dimension - 1
            case Normal() | UniformCube():
                return self.measure.columns
        return int(getattr(self.measure, "width", 1))


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
    functions = _KnownFunctions(kernel, partial(system.functions, indices=indices))
    values = system.eigenvalues(indices)
    return MercerDecomposition(kernel, measure, values, system.trace, functions)


@dataclass(frozen=True, eq=False)
class _KnownFunctions:
    """Eigenfunctions by a formula, at points as the kernel takes them; an object to be pickled."""

    kernel: Kernel
    formula: Any

    def __call__(self, x: Any) -> np.ndarray:
        return self.formula(np.asarray(as_numpy(self.kernel.points(x).data), np.float64))


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
    profile = _ZonalProfile(kernel, measure.dimension)
    values = profile.eigenvalues(DEGREES)
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
    functions = _KnownFunctions(kernel, formula)
    return MercerDecomposition(kernel, measure, values[degrees], profile.trace, functions)


class _ZonalProfile:
    """κ(t) of a kernel that is a function κ(⟨x, y⟩) of points of the unit sphere."""

    def __init__(self, kernel: Kernel, dimension: int) -> None:
        self.kernel, self.dimension = kernel, dimension
        turn = linalg.qr(np.random.default_rng(0).standard_normal((dimension,) * 2))[0]
        rows = np.eye(dimension)[:2]
        rows = np.r_[rows, (rows[:1] + rows[1:]) / math.sqrt(2.0)]
        before, after = kernel(rows), kernel(rows @ turn.T)
        if not np.allclose(before, after, rtol=1e-6, atol=1e-9 * np.abs(before).max()):
            raise ValueError(
                f"{kernel!r} changes when the sphere is turned: eigenfunctions on it are "
                "known for kernels of ⟨x, y⟩ and the norms, as Polynomial, ArcCosine and Gaussian."
            )

    def __call__(self, angles: np.ndarray) -> np.ndarray:
        """κ(cos θ)."""
        rows = np.zeros((len(angles), self.dimension))
        rows[:, 0], rows[:, 1] = np.cos(angles), np.sin(angles)
        return np.asarray(self.kernel(np.eye(1, self.dimension), rows))[0]

    @cached_property
    def trace(self) -> float:
        return float(self(np.zeros(1))[0])

    def eigenvalues(self, count: int) -> np.ndarray:
        """λ_l = ∫κ(cos θ) P_l(cos θ) sin^{d−2}θ dθ / ∫sin^{d−2}θ dθ for l < count, P_l(1) = 1.

        The integral is over the angle, in which arc-cosine kernels are smooth.
        """
        nodes, weights = np.polynomial.legendre.leggauss(NODES)
        angles, weights = 0.5 * math.pi * (nodes + 1.0), 0.5 * math.pi * weights
        density = weights * np.sin(angles) ** (self.dimension - 2)
        density = density / density.sum()
        polynomials = _zonal(self.dimension, count, np.cos(angles))
        return polynomials @ (density * self(angles))


def _zonal(dimension: int, count: int, t: np.ndarray) -> np.ndarray:
    """P_l(t) for l < count, orthogonal for (1 − t²)^{(d−3)/2}, with P_l(1) = 1, by recurrence."""
    out = np.empty((count, *t.shape))
    out[0] = 1.0
    if count > 1:
        out[1] = t
    for degree in range(1, count - 1):
        a, b = 2 * degree + dimension - 2, degree
        out[degree + 1] = (a * t * out[degree] - b * out[degree - 1]) / (degree + dimension - 2)
    return out


def _multiplicity(dimension: int, degree: int) -> int:
    """How many spherical harmonics of a degree there are."""
    if degree == 0:
        return 1
    logarithm = gammaln(degree + dimension - 2) - gammaln(degree + 1) - gammaln(dimension - 1)
    return round((2 * degree + dimension - 2) * math.exp(logarithm))


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
        t = np.clip(t, -1.0, 1.0)
        if self.dimension == 2:
            return np.cos(degree * np.arccos(t))
        order = 0.5 * (self.dimension - 2)
        return eval_gegenbauer(degree, order, t) / eval_gegenbauer(degree, order, 1.0)


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
