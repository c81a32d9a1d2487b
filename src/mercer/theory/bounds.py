"""Bounds on the expected risk of functions in a ball, of regularised minimisers, and of averages.

Everywhere the loss is convex and G-Lipschitz in the prediction, √k(x, x) ≤ R, and the n samples are
independent and of one distribution. R(f) = E ℓ(y, f(x)) is the expected risk, R̂(f) the mean loss on
the samples. Each function says what else it assumes, and whether it bounds an expectation over
samples or holds with a probability.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer.checks import check_between, check_count, check_nonnegative, check_positive


def rademacher_complexity(norm: float, radius: float, samples: int) -> float:
    """DR/√n ≥ E sup over ‖f‖ ≤ D of (1/n) Σ_i ε_i f(x_i), ε being random signs.

    The supremum is (D/n)‖Σ ε_i k(x_i, ·)‖, whose expectation is at most (D/n)√(Σ k(x_i, x_i)).

    >>> rademacher_complexity(norm=2.0, radius=1.0, samples=100)
    0.2
    """
    _check("rademacher_complexity", norm=norm, radius=radius, samples=samples)
    return norm * radius / math.sqrt(samples)


def estimation_error(lipschitz: float, norm: float, radius: float, samples: int) -> float:
    """2GDR/√n ≥ E R(f̂) − min over ‖f‖ ≤ D of R(f), for f̂ with the least R̂ of the ball.

    In expectation over the samples; D is fixed before they are seen. R(f̂) − R(f) is at most
    R(f̂) − R̂(f̂) + R̂(f) − R(f): the first part is bounded by symmetrisation and contraction, twice
    G times the Rademacher complexity, and the second has mean 0.

    >>> estimation_error(lipschitz=1.0, norm=2.0, radius=1.0, samples=100)
    0.4
    """
    _check("estimation_error", lipschitz=lipschitz)
    return 2.0 * lipschitz * rademacher_complexity(norm, radius, samples)


def deviation_on_ball(
    lipschitz: float,
    norm: float,
    radius: float,
    samples: int,
    loss_at_zero: float = 1.0,
    probability: float = 0.95,
) -> float:
    """A bound on R(f) − R̂(f) for all ‖f‖ ≤ D at once, with a probability.

    2GDR/√n + M√(log(1/δ)/(2n)) with M = ℓ₀ + GDR ≥ ℓ(y, f(x)), δ = 1 − probability.

    Parameters
    ----------
    lipschitz, norm, radius, samples :
        G, D, R, n. D is fixed before the samples are seen; `deviation` takes any norm.
    loss_at_zero : float, default=1.0
        ℓ₀ ≥ ℓ(y, 0) for all y: 1 for the hinge loss, log 2 for the logistic one.
    probability : float, default=0.95
        That it holds for all f of the ball.

    References
    ----------
    Bartlett, Mendelson, Rademacher and Gaussian complexities, 2002.

    Examples
    --------
    >>> round(deviation_on_ball(1.0, 2.0, 1.0, 10_000), 4)
    0.0767
    """
    _check("deviation_on_ball", loss_at_zero=loss_at_zero, probability=probability)
    largest = loss_at_zero + lipschitz * norm * radius
    error = estimation_error(lipschitz, norm, radius, samples)
    return error + largest * _tail(probability, samples)


def deviation(
    lipschitz: float,
    norm: float,
    radius: float,
    samples: int,
    loss_at_zero: float = 1.0,
    probability: float = 0.95,
    smallest: float = 1.0,
) -> float:
    """`deviation_on_ball` for a norm that was learned from the samples.

    It is a union over the balls D_j = 2^j · smallest, j = 0, 1, …, the j-th of which may fail with
    probability δ/((j + 1)(j + 2)); these add up to δ. The bound is that of the least ball that
    holds f, so it is valid for every f at once.

    >>> deviation(1.0, 3.0, 1.0, 10_000) > deviation_on_ball(1.0, 4.0, 1.0, 10_000)
    True
    """
    _check("deviation", probability=probability)
    ball, share = ball_around(norm, smallest)
    holds = 1.0 - (1.0 - probability) * share
    return deviation_on_ball(lipschitz, ball, radius, samples, loss_at_zero, holds)


def ball_around(norm: float, smallest: float = 1.0) -> tuple[float, float]:
    """The least D_j = 2^j · smallest ≥ norm, and its share 1/((j + 1)(j + 2)) of what may fail.

    >>> ball_around(3.0)
    (4.0, 0.08333333333333333)
    """
    _check("ball_around", smallest=smallest, norm=norm)
    j = max(0, math.ceil(math.log2(norm / smallest))) if norm > smallest else 0
    return smallest * 2.0**j, 1.0 / ((j + 1) * (j + 2))


def regularised_excess(
    lipschitz: float, radius: float, regularization: float, samples: int
) -> float:
    """32G²R²/(λn) ≥ E R(f̂) − inf over f of R(f) + (λ/2)‖f‖², for the regularised minimiser f̂.

    f̂ minimises R̂(f) + (λ/2)‖f‖². In expectation over the samples; λ is fixed before they are seen.
    `stability` is the same with the constant 2.

    References
    ----------
    Sridharan, Shalev-Shwartz, Srebro, Fast rates for regularized objectives, 2008.

    Examples
    --------
    >>> regularised_excess(lipschitz=1.0, radius=1.0, regularization=0.1, samples=3200)
    0.1
    """
    return 16.0 * stability(lipschitz, radius, regularization, samples)


def stability(lipschitz: float, radius: float, regularization: float, samples: int) -> float:
    """γ = 2G²R²/(λn), by which a loss of the minimiser can change when one sample does.

    f̂ minimises R̂(f) + (λ/2)‖f‖², which is λ-strongly convex, so replacing a sample moves f̂ by at
    most 2GR/(λn) and its losses by at most γ. Hence, in expectation over the samples, with λ fixed
    beforehand: E R(f̂) ≤ E R̂(f̂) + γ, and E R(f̂) ≤ inf over f of R(f) + (λ/2)‖f‖² + γ.

    References
    ----------
    Bousquet, Elisseeff, Stability and generalization, 2002.

    Examples
    --------
    >>> stability(lipschitz=1.0, radius=1.0, regularization=0.1, samples=200)
    0.1
    """
    _check("stability", lipschitz=lipschitz, radius=radius, samples=samples)
    _check("stability", regularization=regularization)
    return 2.0 * (lipschitz * radius) ** 2 / (regularization * samples)


def largest_norm(
    lipschitz: float, radius: float, regularization: float, loss_at_zero: float = 1.0
) -> float:
    """min(GR/λ, √(2ℓ₀/λ)) ≥ ‖f̂‖, for the minimiser of R̂(f) + (λ/2)‖f‖², on any samples.

    λf̂ is a mean of −ℓ'·k(x_i, ·), and (λ/2)‖f̂‖² is at most the objective at 0. Without an
    intercept.

    >>> largest_norm(lipschitz=1.0, radius=1.0, regularization=0.5)
    2.0
    """
    _check("largest_norm", lipschitz=lipschitz, radius=radius, loss_at_zero=loss_at_zero)
    _check("largest_norm", regularization=regularization)
    by_slope = lipschitz * radius / regularization
    return min(by_slope, math.sqrt(2.0 * loss_at_zero / regularization))


def stability_deviation(
    lipschitz: float,
    radius: float,
    regularization: float,
    samples: int,
    loss_at_zero: float = 1.0,
    probability: float = 0.95,
) -> float:
    """A bound on R(f̂) − R̂(f̂) for the regularised minimiser, with a probability.

    γ + (2nγ + M)√(log(1/δ)/(2n)), γ being the `stability`, M = ℓ₀ + GR·`largest_norm`: when one
    sample changes, R(f̂) changes by at most γ and R̂(f̂) by at most γ + M/n (McDiarmid). λ is fixed
    before the samples are seen; no intercept.

    >>> round(stability_deviation(1.0, 1.0, 1.0, 10_000), 4)
    0.0736
    """
    _check("stability_deviation", probability=probability)
    gamma = stability(lipschitz, radius, regularization, samples)
    norm = largest_norm(lipschitz, radius, regularization, loss_at_zero)
    largest = loss_at_zero + lipschitz * radius * norm
    return gamma + (2 * samples * gamma + largest) * _tail(probability, samples)


def excess_risk(lipschitz: float, radius: float, samples: int, approximation: Any) -> float:
    """2G√A(4R²/n) ≥ E R(f̂) − R(f*), for f̂ with the least R̂ of the ball of the best norm.

    A(λ) = inf over f of ‖f − f*‖² + λ‖f‖² in L₂ of the distribution of x is the approximation
    error, a function of λ. In expectation; the best norm depends on f* and so is not known.

    >>> round(excess_risk(1.0, 1.0, 400, approximation=lambda ridge: 9.0 * ridge), 9)
    0.6
    """
    _check("excess_risk", lipschitz=lipschitz, radius=radius, samples=samples)
    return 2.0 * lipschitz * math.sqrt(float(approximation(4.0 * radius**2 / samples)))


# ---- online and random features ------------------------------------------------------------------


def regret_of_constant_step(radius: float, step: float, gradients: Any) -> float:
    """U²/(2η) + (η/2) Σ_t ‖g_t‖² ≥ the regret against all ‖f‖ ≤ U, for steps f ← f − ηg_t from 0.

    The losses are convex and nothing is removed from f. It holds for every sequence of samples.
    With ‖g_t‖ ≤ G and η = U/(G√T) it is UG√T.

    >>> regret_of_constant_step(radius=2.0, step=0.2, gradients=[1.0] * 100)
    20.0
    """
    _check("regret_of_constant_step", radius=radius, step=step)
    squares = float(np.square(np.asarray(gradients, np.float64)).sum())
    return radius**2 / (2.0 * step) + 0.5 * step * squares


def regret_of_inverse_steps(regularization: float, gradients: Any) -> float:
    """Σ_t ‖g_t‖²/(2λt) ≥ the regret against all f, for steps 1/(λt) on regularised losses.

    The losses are ℓ(y_t, f(x_t)) + (λ/2)‖f‖², g_t their gradients, f_1 = 0, and nothing is removed
    from f. It holds for every sequence of samples, and grows with log T.

    >>> regret_of_inverse_steps(regularization=0.5, gradients=[1.0, 1.0])
    1.5
    """
    _check("regret_of_inverse_steps", regularization=regularization)
    squares = np.square(np.asarray(gradients, np.float64))
    return float((squares / (2.0 * regularization * np.arange(1, len(squares) + 1))).sum())


def online_deviation(samples: int, largest: float = 1.0, probability: float = 0.95) -> float:
    """A bound on (1/T) Σ_t R(f_{t−1}) − (1/T) Σ_t ℓ(y_t, f_{t−1}(x_t)), with a probability.

    M√(log(1/δ)/(2T)), for losses between 0 and M. f_{t−1} is any function of the samples before t,
    so a budget, features and any steps are allowed; the samples are independent and of one
    distribution, and each is used once. Given the past, R(f_{t−1}) minus the loss has mean 0 and
    lies in an interval of length M (Azuma's and Hoeffding's inequality). The first sum is the risk
    of one of the f_t drawn at random; for a convex loss the average of the f_t has no larger risk.

    Parameters
    ----------
    samples : int
        T.
    largest : float, default=1.0
        M; 1 for mistakes.
    probability : float, default=0.95
        That it holds.

    References
    ----------
    Cesa-Bianchi, Conconi, Gentile, On the generalization ability of on-line learning algorithms,
    2004.

    Examples
    --------
    >>> round(online_deviation(10_000), 4)
    0.0122
    """
    _check("online_deviation", samples=samples, largest=largest, probability=probability)
    return largest * _tail(probability, samples)


def random_features_error(
    features: int, probability: float = 0.95, *, diagonal: float = 1.0, pairs: int = 1
) -> float:
    """A bound on |k̂(x, y) − k(x, y)| for some fixed pairs of points, with a probability.

    k̂ = (k(0)/S) Σ_s cos(ω_s·(x − y)) with S independent frequencies is a mean of numbers between
    −k(0) and k(0), so by Hoeffding's inequality it is k(0)√(2 log(2N/δ)/S) for N pairs. Feature
    maps know a bound for all points of a ball, `features.uniform_error(radius)`.

    Parameters
    ----------
    features : int
        S frequencies, each with a cosine and a sine.
    probability : float, default=0.95
        That it holds for all pairs.
    diagonal : float, default=1.0
        k(0).
    pairs : int, default=1
        N.

    Examples
    --------
    >>> round(random_features_error(1000), 3)
    0.086
    """
    _check("random_features_error", features=features, pairs=pairs)
    _check("random_features_error", probability=probability, diagonal=diagonal)
    return diagonal * math.sqrt(2.0 * math.log(2.0 * pairs / (1.0 - probability)) / features)


def _tail(probability: float, samples: int) -> float:
    """√(log(1/δ)/(2n)), δ = 1 − probability."""
    return math.sqrt(math.log(1.0 / (1.0 - probability)) / (2 * samples))


def _check(owner: str, **numbers: Any) -> None:
    for name, value in numbers.items():
        if name in ("samples", "features", "pairs"):
            check_count(owner, name, value)
        elif name == "probability":
            check_between(owner, name, value, 0.0, 1.0)
        elif name in ("regularization", "step", "smallest"):
            check_positive(owner, name, value)
        else:
            check_nonnegative(owner, name, value)
