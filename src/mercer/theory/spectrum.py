"""Functions of eigenvalues: effective dimension, risk of ridge regression, exponents of curves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer.checks import check_count, check_nonnegative, check_positive
from mercer.theory.approximation import checked_pair


def effective_dimension(eigenvalues: Any, regularization: float, *, power: int = 1) -> float:
    """Σ_i (μ_i/(μ_i + λ))^p: about how many directions λ leaves free.

    Parameters
    ----------
    eigenvalues : array, or Gram matrix of shape (n, n)
        μ_i, of the covariance operator or of K/n; of a matrix K those of K/n are computed.
    regularization : float
        λ ≥ 0.
    power : {1, 2}, default=1
        p. 1 gives the degrees of freedom of ridge regression, trace K(K + nλ)⁻¹; 2 those that
        count in its variance.

    References
    ----------
    Caponnetto, De Vito, Optimal rates for the regularized least-squares algorithm, 2007.

    Examples
    --------
    >>> effective_dimension([1.0, 0.5, 0.0], regularization=0.5)
    1.1666...
    """
    check_nonnegative("effective_dimension", "regularization", regularization)
    if power not in (1, 2):
        raise ValueError(f"effective_dimension needs power 1 or 2; got {power!r}.")
    return float((_shares(_spectrum(eigenvalues)[0], regularization) ** power).sum())


class RidgeRisk(NamedTuple):
    """Squared bias, variance, and their sum.

    >>> RidgeRisk(bias=0.5, variance=0.25).total
    0.75
    """

    bias: float
    variance: float

    @property
    def total(self) -> float:
        return self.bias + self.variance


def ridge_risk(K: Any, target: Any, noise: float, regularization: float) -> RidgeRisk:
    """E (1/n)‖f̂ − f*‖² at the training points, for ridge regression: bias² + σ²·df₂/n, exactly.

    y = f* + noise with independent errors of variance σ² at fixed points; f̂ = K(K + nλ)⁻¹y. The
    bias is (1/n)‖nλ(K + nλ)⁻¹f*‖², and df₂ = trace (K(K + nλ)⁻¹)².

    Parameters
    ----------
    K : array of shape (n, n)
        The Gram matrix.
    target : array of shape (n,)
        f*(x_i).
    noise : float
        σ.
    regularization : float
        λ.

    References
    ----------
    Bach, Sharp analysis of low-rank kernel matrix approximations, 2013.

    Examples
    --------
    >>> import numpy as np
    >>> risk = ridge_risk(np.eye(4), np.ones(4), noise=1.0, regularization=0.25)  # nλ = 1
    >>> risk.bias, risk.variance
    (0.25, 0.25)
    """
    check_nonnegative("ridge_risk", "noise", noise)
    check_nonnegative("ridge_risk", "regularization", regularization)
    values, vectors = _spectrum(np.asarray(K, np.float64))
    target = np.asarray(target, np.float64)
    if vectors is None or target.shape != (len(values),):
        raise ValueError("ridge_risk needs a square matrix K, and a number f*(x) for each row.")
    shares, n = _shares(values, regularization), len(values)
    lost = (1.0 - shares) * (vectors.T @ target)
    return RidgeRisk(float(lost @ lost) / n, noise**2 * float((shares**2).sum()) / n)


def expected_ridge_risk(
    weights: Any, coefficients: Any, noise: float, regularization: float, samples: int
) -> RidgeRisk:
    """E ‖f̂ − f*‖² in L₂ to leading order: Σ c²(λ/(q + λ))² + (σ²/n) Σ (q/(q + λ))².

    The points are drawn from the measure in whose L₂ the eigenfunctions of the kernel are
    orthonormal; the sample covariance is replaced by that of the measure, which is right as n
    grows while the effective dimension stays small beside it.

    Parameters
    ----------
    weights, coefficients : arrays of the same length
        Eigenvalues q of the kernel, and coefficients c of f* in its eigenfunctions.
    noise : float
        σ.
    regularization : float
        λ > 0.
    samples : int
        n.

    References
    ----------
    Caponnetto, De Vito, Optimal rates for the regularized least-squares algorithm, 2007.

    Examples
    --------
    >>> expected_ridge_risk([1.0, 0.0], [2.0, 3.0], noise=1.0, regularization=1.0, samples=10)
    RidgeRisk(bias=10.0, variance=0.025)
    """
    check_nonnegative("expected_ridge_risk", "noise", noise)
    check_positive("expected_ridge_risk", "regularization", regularization)
    check_count("expected_ridge_risk", "samples", samples)
    q, squares = checked_pair(weights, coefficients)
    shares = _shares(q, regularization)
    bias = float((squares * (1.0 - shares) ** 2).sum())
    return RidgeRisk(bias, noise**2 * float((shares**2).sum()) / samples)


class RidgeConditions(NamedTuple):
    """Condition numbers of XᵀX + nλI and XXᵀ + nλI.

    >>> ridge_conditions([[1.0, 0.0]], regularization=1.0).dual
    1.0
    """

    primal: float
    dual: float


def ridge_conditions(features: Any, regularization: float) -> RidgeConditions:
    """The condition numbers of both systems of ridge regression, by the singular values of X.

    Both matrices have the eigenvalues σ² + nλ; the larger one has nλ, too, as often as it is
    larger. So the smaller system is conditioned no worse, and stays so as λ → 0 where X has full
    rank. By the matrix inversion lemma (XᵀX + nλI)⁻¹Xᵀ = Xᵀ(XXᵀ + nλI)⁻¹ the solutions agree.

    Parameters
    ----------
    features : array of shape (n, p)
        X, or the features φ(x_i) of a kernel as rows.
    regularization : float
        λ ≥ 0; for 0 a singular system has an infinite condition number.

    Examples
    --------
    >>> ridge_conditions([[2.0], [0.0]], regularization=0.5)  # 4 + 1 alone; and 1 beside it
    RidgeConditions(primal=1.0, dual=5.0)
    """
    check_nonnegative("ridge_conditions", "regularization", regularization)
    X = np.asarray(features, np.float64)
    if X.ndim != 2 or not X.size:
        raise ValueError(f"ridge_conditions needs a matrix of features; got shape {X.shape}.")
    rows, columns = X.shape
    squares = np.linalg.svd(X, compute_uv=False) ** 2
    ridge = rows * float(regularization)

    def condition(size: int) -> float:
        least = ridge + (squares[-1] if size <= len(squares) else 0.0)
        return float((squares[0] + ridge) / least) if least > 0 else float("inf")

    return RidgeConditions(condition(columns), condition(rows))


def _spectrum(given: Any) -> tuple[np.ndarray, np.ndarray | None]:
    array = np.asarray(given, np.float64)
    if array.ndim == 2:
        values, vectors = np.linalg.eigh(array)
        return np.maximum(values, 0.0) / len(array), vectors
    return np.maximum(array, 0.0), None


def _shares(values: np.ndarray, regularization: float) -> np.ndarray:
    """μ/(μ + λ), 0 where both are 0."""
    total = values + regularization
    return np.divide(values, total, out=np.zeros_like(values), where=total > 0)


# ---- exponents -----------------------------------------------------------------------------------


def risk_exponent(target: float, kernel: float, dimension: int = 1) -> float:
    """a = 2t/(2t + d): the expected squared error of ridge regression falls like n^{−a}.

    The target has t square-integrable derivatives, the space of the kernel is the Sobolev space of
    order s on the torus of d dimensions, there is noise, points are uniform, and λ is the best for
    each n. For t > 2s ridge regression learns no faster than for t = 2s.

    Parameters
    ----------
    target : float
        t > 0.
    kernel : float
        s > d/2; infinite for the Gaussian kernel, whose space is too small for any power of n: the
        exponent is 0, and the error falls like a power of log n.
    dimension : int, default=1
        d.

    References
    ----------
    Fischer, Steinwart, Sobolev norm learning rates for regularized least-squares algorithms, 2020.

    Examples
    --------
    >>> risk_exponent(target=1.0, kernel=1.0), risk_exponent(target=5.0, kernel=1.0)
    (0.666..., 0.8)
    """
    _check_orders("risk_exponent", target, kernel, dimension)
    if np.isinf(kernel):
        return 0.0
    reached = min(target, 2.0 * kernel)
    return 2.0 * reached / (2.0 * reached + dimension)


def lipschitz_exponent(target: float, kernel: float, dimension: int = 1) -> float:
    """a = min(t/(2s), 1/2): for Lipschitz losses the excess risk falls at least like n^{−a}.

    It is what 2G√A(4R²/n) gives with A(λ) = O(λ^{t/s}): an upper bound, not a rate that is met.

    >>> lipschitz_exponent(target=1.0, kernel=2.0)
    0.25
    """
    _check_orders("lipschitz_exponent", target, kernel, dimension)
    return 0.0 if np.isinf(kernel) else min(target / (2.0 * kernel), 0.5)


def fitted_exponent(samples: Any, risks: Any, last: float = 10.0) -> float:
    """The slope a of log risk = c − a log n by least squares, over the last decade of n.

    >>> import numpy as np
    >>> n = np.array([10, 100, 300, 1000])
    >>> round(fitted_exponent(n, 5.0 / n**0.8), 6)
    0.8
    """
    samples, risks = np.asarray(samples, np.float64), np.asarray(risks, np.float64)
    chosen = samples >= samples.max() / last
    if chosen.sum() < 2 or (risks[chosen] <= 0).any():
        raise ValueError("fitted_exponent needs two sizes with risks > 0 in the last decade.")
    return -float(np.polyfit(np.log(samples[chosen]), np.log(risks[chosen]), 1)[0])


def _check_orders(owner: str, target: float, kernel: float, dimension: int) -> None:
    check_positive(owner, "target", target)
    if not kernel > dimension / 2:
        raise ValueError(
            f"{owner} needs a kernel of order s > d/2 = {dimension / 2}; got {kernel!r}."
        )
