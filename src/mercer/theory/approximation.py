"""How well functions of a space approximate a target: A(λ, f*) = inf over f of ‖f − f*‖² + λ‖f‖².

The first norm is that of L₂, the second that of the space. In a basis that diagonalises both, with
weights q (eigenvalues, or the Fourier transform of the kernel) and coefficients c of the target,
the best f has coefficients c·q/(q + λ), and A = Σ |c|² λ/(q + λ).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.checks import check_nonnegative, check_positive
from mercer.kernels import laws


def approximation_error(weights: Any, coefficients: Any, regularization: float) -> float:
    """Σ_i |c_i|² λ/(q_i + λ), for weights q and coefficients c in an orthonormal basis of L₂.

    Where q_i = 0 the basis function is orthogonal to the space, and c_i counts in full.

    >>> approximation_error([1.0, 0.0], [2.0, 3.0], regularization=1.0)  # 4·½ + 9
    11.0
    """
    check_nonnegative("approximation_error", "regularization", regularization)
    q, squares = checked_pair(weights, coefficients)
    lost = np.divide(regularization, q + regularization, out=np.ones_like(q), where=q > 0)
    return float((squares * lost).sum())


class Split(NamedTuple):
    """The approximation error of λ within the closure of the space, and the part outside it.

    >>> Split(inside=0.5, outside=0.0).inside
    0.5
    """

    inside: float
    outside: float


def projection_split(weights: Any, coefficients: Any, regularization: float) -> Split:
    """A(λ, f*) = A(λ, Πf*) + ‖f* − Πf*‖², Π being the projection on the closure of the space.

    The closure is spanned by the basis functions with q_i > 0 (Pythagoras).

    >>> projection_split([1.0, 0.0], [2.0, 3.0], regularization=1.0)
    Split(inside=2.0, outside=9.0)
    """
    q, squares = checked_pair(weights, coefficients)
    outside = float(squares[q <= 0].sum())
    return Split(approximation_error(weights, coefficients, regularization) - outside, outside)


def norm_needed(weights: Any, coefficients: Any, error: float) -> float:
    """The least ‖f‖ with ‖f − f*‖ ≤ ε in L₂; infinite where no f of the space is so near.

    f has coefficients c·q/(q + λ) for the λ at which ‖f − f*‖ = ε.

    >>> norm_needed([1.0, 0.25], [1.0, 1.0], error=0.0)  # √(1/1 + 1/0.25)
    2.2360...
    """
    check_nonnegative("norm_needed", "error", error)
    q, squares = checked_pair(weights, coefficients)
    inside = q > 0
    left = error**2 - float(squares[~inside].sum())
    q, squares = q[inside], squares[inside]
    if left < 0:
        return math.inf
    if squares.sum() <= left:
        return 0.0

    def missed(log_ridge: float) -> float:
        share = 1.0 / (1.0 + q * math.exp(-log_ridge))
        return float((squares * share**2).sum()) - left

    ridge = 0.0
    if left > 0:
        low, high = math.log(q.min()) - 80.0, math.log(q.max()) + 80.0
        if missed(low) < 0:
            ridge = math.exp(scipy.optimize.brentq(missed, low, high, xtol=1e-12))
    return math.sqrt(float((squares * q / (q + ridge) ** 2).sum()))


def checked_pair(weights: Any, coefficients: Any) -> tuple[np.ndarray, np.ndarray]:
    """The weights q, and |c|² of the coefficients."""
    q = np.asarray(weights, np.float64).ravel()
    squares = np.abs(np.asarray(coefficients).ravel()) ** 2
    if q.shape != squares.shape:
        raise ValueError(f"there are {len(q)} weights for {len(squares)} coefficients.")
    if (q < 0).any():
        raise ValueError("the weights of a kernel are ≥ 0.")
    return q, squares


# ---- on the torus and on the line ----------------------------------------------------------------


def on_torus(kernel: Any, coefficients: Any, regularization: float) -> float:
    """A(λ, f*) for a periodic kernel of one column, and L₂ of one period with total mass 1.

    Parameters
    ----------
    kernel : Kernel
        With Fourier weights: `PeriodicBernoulli`, `PeriodicExponential`, sums and products.
    coefficients : array of shape (m + 1,)
        |f̂*_0|, …, |f̂*_m| of f* = Σ f̂*_j e^{2iπjx/period}; f̂*_{−j} has the same size.
    regularization : float
        λ.

    Examples
    --------
    >>> from mercer.kernels import PeriodicBernoulli
    >>> on_torus(PeriodicBernoulli(1), [0.0, 0.5], regularization=1.0)  # cos 2πx; both weights 1
    0.25
    """
    sizes = np.abs(np.asarray(coefficients, np.complex128))
    answer = laws.fourier_weights(kernel, len(sizes) - 1)
    if not answer.yes:
        raise ValueError(f"{kernel!r} has no Fourier weights: {answer.because}.")
    both = np.arange(1, 2 * len(sizes)) // 2  # frequencies 0, 1, −1, 2, −2, …
    return approximation_error(answer.payload[both], sizes[both], regularization)


def on_line(
    kernel: Any,
    transform: Callable[[np.ndarray], Any],
    regularization: float,
    *,
    reach: float = math.inf,
) -> float:
    """A(λ, f*) for a stationary kernel on the line, with L₂ of dx: (1/2π)∫|f̂*|² λ/(q̂ + λ) dω.

    Parameters
    ----------
    kernel : Kernel
        With a spectral density p; q̂ = 2πp is the Fourier transform of k(x, 0).
    transform : function
        f̂*(ω) = ∫ f*(x) e^{−iωx} dx for an array of frequencies.
    regularization : float
        λ.
    reach : float, default=∞
        Where f̂* is 0 beyond ±reach, or small enough.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> bump = lambda w: np.sqrt(2 * np.pi) * np.exp(-(w**2) / 2)  # of e^{−x²/2}, ‖f*‖² = √π
    >>> bool(np.isclose(on_line(Gaussian(), bump, regularization=1e12), np.sqrt(np.pi)))
    True
    """
    check_positive("on_line", "regularization", regularization)
    answer = laws.spectral_density(kernel, 1)
    if not answer.yes:
        raise ValueError(f"{kernel!r} has no spectral density: {answer.because}.")

    def integrand(frequency: float) -> float:
        point = np.array([frequency])
        weight = 2.0 * np.pi * float(answer.payload.density(point[:, None])[0])
        size = float(np.abs(np.asarray(transform(point))[0])) ** 2
        return size * regularization / (weight + regularization)

    value, _ = scipy.integrate.quad(integrand, -reach, reach, limit=500)
    return float(value / (2.0 * np.pi))


def gaussian_bound(
    lengthscale: float, smoothness: float, size: float, regularization: float
) -> float:
    """A bound on A(λ, f*) for the Gaussian kernel on the line and a target with t derivatives.

    With size = (1/2π)∫(1 + ω²)^t |f̂*|² dω and q̂ = c·e^{−ℓ²ω²/2}, c = ℓ√(2π): up to the frequency
    where q̂ = √(cλ) the share λ/(q̂ + λ) is at most √(λ/c); beyond it (1 + ω²)^{−t} is at most
    (1 + log(c/λ)/ℓ²)^{−t}. So A falls like a power of log(1/λ) only, however smooth the target.

    >>> round(gaussian_bound(lengthscale=1.0, smoothness=1.0, size=1.0, regularization=1e-12), 3)
    0.034
    """
    check_positive("gaussian_bound", "lengthscale", lengthscale)
    check_positive("gaussian_bound", "smoothness", smoothness)
    check_nonnegative("gaussian_bound", "size", size)
    check_positive("gaussian_bound", "regularization", regularization)
    top = lengthscale * math.sqrt(2.0 * math.pi)
    if regularization >= top:
        return float(size)
    low = math.sqrt(regularization / top)
    high = (1.0 + math.log(top / regularization) / lengthscale**2) ** -smoothness
    return float(size) * max(low, high)
