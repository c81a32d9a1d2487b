"""Laws of kernels: the questions that users ask, and a test on points.

How facts pass through sums, products, functions of a kernel and maps of points stands in
`operations`: a class for each operation, a rule for each fact.

Each question is a function of a kernel, and of the number of columns where it matters. The answer
is yes, no or unknown, with the reason; a no rests on a theorem. Points are vectors of ℝ^d, or of
the part of it that the kernel is made for. Of a kernel of your own, you say what is known:

>>> from mercer.kernels import PairKernel, laws
>>> laws.positive_definite(PairKernel(min))
unknown: nothing is known of PairKernel. If it is, write PairKernel(…, positive_definite=True); ...
>>> laws.positive_definite(2.0 * PairKernel(min, positive_definite=True) + 1.0).yes
True
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.kernels.facts import Answer, Facts, no, unknown, yes
from mercer.kernels.laws.operations import with_payload
from mercer.kernels.measures import SpectralMeasure
from mercer.points import DensePoints, View

__all__ = [
    "Answer",
    "Check",
    "Facts",
    "SpectralMeasure",
    "bounded",
    "check",
    "finitely_many_features",
    "fourier_weights",
    "is_positive_definite",
    "isotropic",
    "no",
    "period",
    "positive_definite",
    "sobolev_order",
    "spectral_density",
    "stationary",
    "universal",
    "unknown",
    "yes",
]


def _facts(kernel: Any, dimension: int | None) -> Facts:
    if not hasattr(kernel, "facts"):
        raise ValueError(f"laws are about kernels; got {kernel!r}.")
    facts: Facts = kernel.facts(dimension)
    return facts


def positive_definite(kernel: Any, dimension: int | None = None) -> Answer:
    """Whether Σ_ij v_i v_j k(x_i, x_j) ≥ 0 for all points with `dimension` columns.

    Without a dimension: in every dimension that the kernel accepts. `kernel.check(X)` tests it on
    points where the answer is unknown, and `advice` says what to write.

    >>> from mercer.kernels import Gaussian, Sigmoid
    >>> positive_definite(Gaussian() * Gaussian(2.0)).yes, positive_definite(Sigmoid()).no
    (True, True)
    """
    return _facts(kernel, dimension).positive_definite


def is_positive_definite(kernel: Any, dimension: int | None = None) -> bool:
    """Whether a kernel is known to be positive definite: its class says so, or the laws do.

    >>> from mercer.kernels import Gaussian, Linear, PairKernel
    >>> is_positive_definite(Gaussian() + Linear()), is_positive_definite(PairKernel(min))
    (True, False)
    """
    stated = getattr(kernel, "positive_definite", None) is True
    return stated or positive_definite(kernel, dimension).yes


def stationary(kernel: Any, dimension: int | None = None) -> Answer:
    """Whether k(x + h, y + h) = k(x, y) for every shift h: k is a function of x − y.

    >>> from mercer.kernels import Gaussian, Linear
    >>> stationary(Gaussian().on(0) + 1.0).yes, stationary(Gaussian() * Linear()).no
    (True, True)
    """
    return _facts(kernel, dimension).stationary


def isotropic(kernel: Any, dimension: int | None = None) -> Answer:
    """Whether k is a function of the distance ‖x − y‖ alone: no rigid motion changes it.

    In one column that is the same as stationary.

    >>> from mercer.kernels import Laplacian
    >>> isotropic(Laplacian(), dimension=1).yes, isotropic(Laplacian(), dimension=2).no
    (True, True)
    """
    return _facts(kernel, dimension).isotropic


def bounded(kernel: Any, dimension: int | None = None) -> Answer:
    """Whether k(x, x) ≤ R² for all x; the payload is R².

    R² is the supremum of k(x, x), or where the operations do not tell it (sums and products of
    diagonals that vary, k∘φ) a bound of it. It is None where it depends on the number of columns
    and no `dimension` was given. A no says more: k(tu, tu) → ∞ as t → ∞, for every direction u
    without zero or negative entries.

    >>> from mercer.kernels import Gaussian, Linear
    >>> bounded((2.0 * Gaussian() + 1.0) * Gaussian()).payload, bounded(Gaussian() * Linear()).no
    (3.0, True)
    """
    return _facts(kernel, dimension).bounded


def universal(kernel: Any, dimension: int | None = None) -> Answer:
    """Whether the space is dense in the continuous functions on every compact set.

    Without a dimension: whatever the number of columns, so a kernel of some columns only
    is not universal. See Micchelli, Xu and Zhang, Universal Kernels, 2006.

    >>> from mercer.kernels import Gaussian, Linear
    >>> universal(Gaussian() + Linear()).yes, universal(Gaussian().on(0)).no
    (True, True)
    """
    return _facts(kernel, dimension).universal


def finitely_many_features(kernel: Any) -> bool:
    """Whether k(x, y) = ⟨φ(x), φ(y)⟩ with finitely many features; False means: not known.

    >>> from mercer.kernels import Linear, Polynomial
    >>> finitely_many_features(Linear() * Polynomial(3)), finitely_many_features(Linear().exp())
    (True, False)
    """
    return _facts(kernel, None).finite_features.yes


def sobolev_order(kernel: Any, dimension: int) -> Answer:
    """Whether the space is, on bounded sets, a Sobolev space; the payload is its order s.

    Then the norm is equivalent to (Σ_{|a| ≤ s} ∫|∂^a f|²)^{1/2} (for fractional s by Fourier), and
    the eigenvalues of a Gram matrix over n fall like i^{−2s/d}. The order is infinite where every
    function has derivatives of every order. Periodic kernels mean functions on the circle.

    >>> from mercer.kernels import Gaussian, Linear, Matern
    >>> sobolev_order(Matern(1.5) + Linear(), dimension=3).payload  # ν + d/2
    3.0
    """
    return _facts(kernel, dimension).sobolev_order


def spectral_density(kernel: Any, dimension: int) -> Answer:
    """Whether k(x − y) = ∫ p(ω) cos(ω·(x − y)) dω for a density p ≥ 0, so that ∫p = k(0).

    The payload is the `SpectralMeasure`: `density(frequencies)`, `sample(size, random_state)`,
    `total` = k(0). A measure without a density, such as that of a constant, is handed out too where
    it can be sampled; the answer then is no.

    >>> import numpy as np
    >>> from mercer.kernels import Gaussian, Matern
    >>> k, h = 2.0 * Gaussian(0.5) + Matern(1.5), np.array([0.3, -0.2])
    >>> measure = spectral_density(k, dimension=2).payload
    >>> estimate = measure.total * np.cos(measure.sample(100_000, random_state=0) @ h).mean()
    >>> bool(abs(estimate - k(h, np.zeros(2))) < 0.03)
    True
    """
    return _facts(kernel, dimension).spectral_density


def fourier_weights(kernel: Any, count: int) -> Answer:
    """Whether k(x, y) = Σ_m e^{2iπm(x−y)/period}/c_m for points of one column.

    The payload is the array of 1/c_m for m = 0, …, count, and c_{−m} = c_m. The space has the norm
    ‖f‖² = Σ_m c_m |f̂_m|². Constants have every period; a sum or product needs one period.

    >>> from mercer.kernels import PeriodicBernoulli
    >>> fourier_weights(3.0 * PeriodicBernoulli(order=1) + 1.0, count=2).payload.tolist()
    [4.0, 3.0, 0.75]
    """
    answer = _facts(kernel, _width(kernel)).fourier_weights
    return with_payload(answer, lambda weights: weights(count))


def period(kernel: Any) -> float | None:
    """The period of a kernel on the circle, 0 for constants (which have all), None if not known.

    >>> from mercer.kernels import PeriodicExponential
    >>> period(PeriodicExponential(period=2.0) * PeriodicExponential(period=2.0) + 1.0)
    2.0
    """
    return _facts(kernel, _width(kernel)).period


def _width(kernel: Any) -> int:
    """One column, or as many as there are up to the last that the kernel depends on."""
    return kernel.columns_needed() if hasattr(kernel, "columns_needed") else 1


# ---- a test on points ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Check:
    """The result of checking a kernel on points.

    Attributes
    ----------
    passed : bool
        Whether the matrix is finite and symmetric and has no negative eigenvalue beyond rounding.
    because : str
        The reason, in words.
    smallest_eigenvalue : float
        Of the symmetric part of the matrix; NaN where a value is not finite.
    tolerance : float
        How far below 0 an eigenvalue, or apart k(x, y) and k(y, x), was put down to rounding.
    witness : array or None
        v with vᵀKv < 0 where there is one beyond rounding.
    pair : (int, int) or None
        Two points with k(x, y) ≠ k(y, x), or with a value that is not finite.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> Gaussian().check(np.eye(3)).passed
    True
    """

    passed: bool
    because: str
    smallest_eigenvalue: float
    tolerance: float
    witness: np.ndarray | None = None
    pair: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return f"{'passed' if self.passed else 'failed'}: {self.because}"


def check(kernel: Any, data: Any, *, tolerance: float | None = None) -> Check:
    """Test a kernel on points: finite, symmetric, no negative eigenvalue.

    The matrix K is stored and computed in float64 where the points are vectors. To pass proves
    nothing about other points; to fail proves that k is not a kernel, whatever its class states.

    Parameters
    ----------
    kernel : Kernel
        k.
    data : points of the kernel
        Some dozens or hundreds: n² values and n³ operations.
    tolerance : float, optional
        What counts as rounding, by default 64 units in the last place of max|K| for each value,
        so n times that for an eigenvalue.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import BlockKernel, Gaussian
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> Gaussian().check(X).passed
    True
    >>> distance = BlockKernel(lambda X, Y: np.abs(X - Y.T))
    >>> result = distance.check(X)
    >>> v = result.witness
    >>> bool(v @ distance(X) @ v < 0)
    True
    """
    matrix = _values(kernel, data)
    if tolerance is None:
        units = 64.0  # in the last place, that a value may be off: as many as 30 operations round
        largest = float(np.abs(matrix[np.isfinite(matrix)]).max(initial=0.0))
        tolerance = units * float(np.finfo(np.float64).eps) * largest
    result = _verdict(matrix, float(tolerance))
    width = getattr(kernel.points(data), "width", None)
    if result.passed or not kernel.facts(width).positive_definite.yes:
        return result
    return replace(result, because=f"{result.because}, though it is stated to be positive definite")


def _values(kernel: Any, data: Any) -> np.ndarray:
    """All k(x_i, x_j), none of them taken for granted by symmetry."""
    points = kernel.points(data)
    if not len(points):
        raise ValueError("a kernel is checked on at least one point; got none.")
    if isinstance(points, DensePoints):
        points = DensePoints(points.seen(View(), np.float64), points.names)
    again = points.take(np.arange(len(points)))
    return np.asarray(kernel.block(points, again), np.float64)


def _verdict(matrix: np.ndarray, tolerance: float) -> Check:
    if not np.isfinite(matrix).all():
        i, j = (int(index) for index in np.argwhere(~np.isfinite(matrix))[0])
        reason = f"k(x, y) = {matrix[i, j]} for points {i} and {j}"
        return Check(False, reason, float("nan"), tolerance, pair=(i, j))
    size, symmetric = len(matrix), 0.5 * (matrix + matrix.T)
    values, vectors = np.linalg.eigh(symmetric)
    smallest, witness = float(values[0]), vectors[:, 0]
    form = float(witness @ symmetric @ witness)
    reason = f"{size} points, symmetric, smallest eigenvalue {smallest:.3g}"
    result = Check(True, reason, smallest, tolerance)
    if max(smallest, form) < -size * tolerance:
        reason = f"vᵀKv = {form:.6g} for the vector v of length 1 in `witness`"
        result = Check(False, reason, smallest, tolerance, witness)
    gaps = np.abs(matrix - matrix.T)
    i, j = (int(index) for index in np.unravel_index(np.argmax(gaps), gaps.shape))
    if gaps[i, j] <= tolerance:
        return result
    reason = f"k(x, y) = {matrix[i, j]:.6g} but k(y, x) = {matrix[j, i]:.6g} for points {i} and {j}"
    return replace(result, passed=False, because=reason, pair=(i, j))
