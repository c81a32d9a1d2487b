"""More formulas that stand wrong in notes and books: spaces, random features, descent and bounds.

Each test is named in docs/misprints.md beside its derivation.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.optimize

from mercer.features import RandomFourierFeatures
from mercer.kernels import (
    Gaussian,
    Linear,
    Matern,
    PeriodicBernoulli,
    PeriodicExponential,
    laws,
)
from mercer.losses import Squared
from mercer.solvers import Direct, interpolant
from mercer.solvers.problem import Problem
from mercer.theory import (
    approximation_error,
    estimation_error,
    excess_risk,
    on_torus,
    regularised_excess,
    subgradient_bound,
    weighted_average_bound,
)

random = np.random.default_rng(0)
ROOT = Path(__file__).parents[1]


def test_every_paragraph_has_its_test():
    page = (ROOT / "docs" / "misprints.md").read_text("utf-8")
    named = re.findall(r"`(test_\w+)`", page)
    code = "".join(p.read_text("utf-8") for p in sorted((ROOT / "tests").rglob("test_*.py")))
    assert len(re.findall(r"^### ", page, re.MULTILINE)) == 29
    assert len(named) >= 29
    assert not [name for name in named if f"def {name}(" not in code]


# ---- random features -----------------------------------------------------------------------------


def test_features_carry_the_value_at_zero():
    """k̂ = (k(0)/S) Σ Re ζζ*: S frequencies make 2S real columns, of squared length k(0)."""
    k, x, y = 3.0 * Gaussian(), np.array([[0.2, 0.4]]), np.array([[0.9, -0.1]])
    z = RandomFourierFeatures(k, 40_000, random_state=0).fit(x)
    assert z.frequencies_.shape == (20_000, 2)
    assert z.transform(x).shape == (1, 40_000)
    assert np.linalg.norm(z.transform(x)) ** 2 == pytest.approx(3.0)
    found = (z.transform(x) @ z.transform(y).T).item()
    assert found == pytest.approx(k(x[0], y[0]), abs=0.05)
    assert found / 3.0 != pytest.approx(k(x[0], y[0]), rel=0.3)


@pytest.mark.parametrize("a", [0.3, 2.0])
def test_the_density_of_frequencies_has_mass_one(a):
    """p = (2π)^{−1/2} ψ̂/ψ(0), ψ̂ being the unitary transform; e^{−ax²} gives variance 2a."""
    t = np.linspace(-60, 60, 200_001)
    unitary = np.exp(-(t**2) / (4 * a)) / math.sqrt(2 * a)  # of ψ = e^{−ax²}
    assert np.trapezoid(unitary, t) == pytest.approx(math.sqrt(2 * math.pi), rel=1e-6)
    density = unitary / math.sqrt(2 * math.pi)
    assert np.trapezoid(density, t) == pytest.approx(1.0, rel=1e-6)
    assert np.trapezoid(t**2 * density, t) == pytest.approx(2 * a, rel=1e-6)
    measure = laws.spectral_density(Gaussian(math.sqrt(1 / (2 * a))), 1).payload
    assert np.allclose(measure.density(t[::1000, None]), density[::1000])


def test_eigenvalues_sum_to_the_trace_and_fall_to_zero():
    kernel = 2.0 * PeriodicExponential(alpha=3.0)
    weights = laws.fourier_weights(kernel, 200_000).payload
    assert weights[0] + 2 * weights[1:].sum() == pytest.approx(kernel([0.3], [0.3]), rel=1e-5)
    assert weights[-1] < 1e-8


def test_rows_of_fastfood_have_the_length_of_a_chi_variable():
    """S_ii = s_i/‖G‖_F makes row i of S·H·G·Π·H·B/(σ√d) as long as s_i/σ."""
    d, sigma = 16, 1.5
    H = scipy.linalg.hadamard(d).astype(float)
    assert scipy.linalg.hadamard(1).tolist() == [[1]]
    G, B = np.diag(random.standard_normal(d)), np.diag(random.choice([-1.0, 1.0], d))
    P = np.eye(d)[random.permutation(d)]
    s = np.sqrt(random.chisquare(d, d))
    inner = H @ G @ P @ H @ B / (sigma * math.sqrt(d))
    size = np.linalg.norm(np.diag(G))
    assert np.allclose(np.linalg.norm(np.diag(s / size) @ inner, axis=1), s / sigma)
    printed = np.linalg.norm(np.diag(s / math.sqrt(size)) @ inner, axis=1)
    assert not np.allclose(printed, s / sigma, rtol=0.2)


def test_cosines_with_phases_have_the_root_of_twice_the_value_at_zero():
    """E 2k(0) cos(ωx + b) cos(ωy + b) = k(x, y) for ω of density q̂/((2π)^d q(0))."""
    k, x, y = 3.0 * Gaussian(0.7), 0.2, 0.9
    w = laws.spectral_density(k, 1).payload.sample(400_000, random_state=0)[:, 0]
    b = random.uniform(0, 2 * math.pi, len(w))
    mean = np.mean(np.cos(w * x + b) * np.cos(w * y + b))
    assert 2 * 3.0 * mean == pytest.approx(k([x], [y]), abs=0.02)
    assert 2 * mean != pytest.approx(k([x], [y]), rel=0.3)


@pytest.mark.parametrize("d", [2, 5])
def test_relu_features_on_the_sphere(d):
    """E (v·x)₊(v·y)₊ = ‖x‖‖y‖((π − φ)cos φ + sin φ)/(2πd) for v uniform on the sphere of R^d."""
    x, y = random.standard_normal((2, d))
    v = random.standard_normal((400_000, d))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    mean = np.mean(np.maximum(v @ x, 0) * np.maximum(v @ y, 0))
    sizes = np.linalg.norm(x) * np.linalg.norm(y)
    angle = math.acos(x @ y / sizes)
    form = sizes * ((math.pi - angle) * math.cos(angle) + math.sin(angle))
    assert mean == pytest.approx(form / (2 * math.pi * d), rel=0.02)
    assert mean != pytest.approx(form / (2 * math.pi * (d + 1)), rel=0.1)


# ---- spaces --------------------------------------------------------------------------------------


def test_the_mean_counts_in_the_norm_of_bernoulli_kernels():
    """‖f‖² = (∫f)² + (2π)^{−2s}∫|f^(s)|²: for f = 2 + cos 2πx it is 4 + ½, not ∫|f|² + ½."""
    X = np.arange(64)[:, None] / 64
    f = interpolant(PeriodicBernoulli(2), X, 2.0 + np.cos(2 * np.pi * X[:, 0]))
    assert f.norm() ** 2 == pytest.approx(4.5, rel=1e-3)
    assert f.norm() ** 2 != pytest.approx(5.0, rel=0.05)  # with ∫|f|² = 4.5 for (∫f)² = 4


def test_the_periodic_exponential_has_one_derivative():
    """1/weights are a quadratic function of the frequency: ∫|f|² and ∫|f'|², no higher one."""
    weights = laws.fourier_weights(PeriodicExponential(alpha=2.0), 30).payload
    costs = 1 / weights
    assert np.allclose(np.diff(costs, 3) / costs[1:-2], 0.0, atol=1e-9)
    assert np.diff(costs, 2).min() > 0


def test_the_norm_of_gaussian_spaces_is_a_series_of_the_reciprocal():
    """1/q̂ = (a/π)^{1/2} Σ_s ω^{2s}/((4a)^s s!) for e^{−ax²}."""
    a, w = 0.7, np.array([0.0, 0.5, 1.5, 3.0])
    q = (
        2
        * math.pi
        * laws.spectral_density(Gaussian(math.sqrt(1 / (2 * a))), 1).payload.density(w[:, None])
    )
    series = sum(w ** (2 * s) / ((4 * a) ** s * math.factorial(s)) for s in range(60))
    assert np.allclose(1 / q, math.sqrt(a / math.pi) * series)


@pytest.mark.parametrize(("order", "factor"), [(1.5, 3.0), (2.5, 5.0)])
def test_matern_kernels_and_their_transforms(order, factor):
    """(α² + ω²)^{−s} belongs to (1 + αr + …)e^{−αr}; with √3α, √5α it is 3α², 5α²."""
    alpha, s = 1.3, order + 0.5

    def transform(kernel, w):
        return 2 * scipy.integrate.quad(lambda r: kernel(r) * math.cos(w * r), 0, 60)[0]

    def plain(r):
        tail = (alpha * r) ** 2 / 3 if order > 2 else 0.0
        return (1 + alpha * r + tail) * math.exp(-alpha * r)

    w = np.array([0.0, 0.7, 2.0])
    found = np.array([transform(plain, v) for v in w])
    assert np.allclose(found / found[0], ((alpha**2 + w**2) / alpha**2) ** -s, rtol=1e-6)
    scaled = laws.spectral_density(Matern(order, 1 / alpha), 1).payload.density(w[:, None])
    assert np.allclose(scaled / scaled[0], (1 + w**2 / (factor * alpha**2)) ** -s)
    assert not np.allclose(scaled / scaled[0], (1 + w**2 / alpha**2) ** -s, rtol=0.1)


def test_coefficients_of_an_interpolant():
    X, y = random.uniform(0, 3, (6, 1)), random.standard_normal(6)
    f = interpolant(Gaussian(), X, y)
    assert np.allclose(Gaussian()(X) @ f.coefficients, y)
    assert not np.allclose(Gaussian()(X) @ y, f.coefficients)  # y = K⁻¹α, as printed


def test_square_roots_of_the_gram_matrix():
    """With K = ΦΦᵀ, α = Φ(ΦᵀΦ)⁻¹β has Kα = Φβ and αᵀKα = ‖β‖²; Φβ itself has neither."""
    Phi, beta = random.standard_normal((7, 3)), random.standard_normal(3)
    K = Phi @ Phi.T
    alpha = Phi @ np.linalg.solve(Phi.T @ Phi, beta)
    assert np.allclose(K @ alpha, Phi @ beta)
    assert alpha @ K @ alpha == pytest.approx(beta @ beta)
    printed = Phi @ beta
    assert not np.allclose(K @ printed, Phi @ beta, rtol=0.1)
    X, k = random.standard_normal((4, 2)), Gaussian()
    b = random.standard_normal(4)
    f = k.function(X, scipy.linalg.fractional_matrix_power(k(X), -0.5).real @ b)  # Nyström's root
    assert f.norm() == pytest.approx(np.linalg.norm(b))


def test_mercer_is_a_sum_over_eigenfunctions():
    """k(x, y) = Σ λ_i φ_i(x)φ_i(y) at any x and y, not at data points only."""
    k, x, y = PeriodicBernoulli(2), 0.123, 0.789
    weights = laws.fourier_weights(k, 2000).payload
    m = np.arange(1, 2001)
    cosines, sines = (
        math.sqrt(2) * trig(2 * np.pi * np.outer(m, [x, y])) for trig in (np.cos, np.sin)
    )
    found = weights[0] + (weights[1:, None] * (cosines[:, :1] * cosines[:, 1:]
                                               + sines[:, :1] * sines[:, 1:])).sum()  # fmt: skip
    assert found == pytest.approx(k([x], [y]), rel=1e-6)


# ---- descent and duality -------------------------------------------------------------------------


def test_subgradient_steps_reach_twice_the_radius():
    """From −B to B after one step the average is 2Bρ away: √2·Bρ, as printed, is too small."""
    B, rho = 1.0, 3.0
    gap = rho * abs(-B - B)  # of ρ|θ − B| at θ_0 = −B, the average of the first step
    assert gap == pytest.approx(subgradient_bound(distance=2 * B, lipschitz=rho, steps=1))
    assert gap > math.sqrt(2.0) * B * rho


def test_doubly_stochastic_steps_shrink_the_older_coefficients_only():
    """f ← f − η(ℓ'ζζ* + λf) is α_t = −ηℓ'ζ(x_t) and α_s ← (1 − ηλ)α_s for s < t."""
    step, ridge, grid = 0.3, 0.5, np.linspace(-2, 2, 9)
    f, alphas, shrunk_too, frequencies = np.zeros(9, complex), [], [], []
    for x, y in [(0.3, 1.0), (-0.8, -0.5), (1.4, 2.0)]:
        w = random.standard_normal()
        at = sum((a * np.exp(-1j * v * x) for a, v in zip(alphas, frequencies, strict=True)), 0.0)
        slope = at.real - y if alphas else -y
        f = f - step * (slope * np.exp(1j * w * x) * np.exp(-1j * w * grid) + ridge * f)
        new = -step * slope * np.exp(1j * w * x)
        alphas = [(1 - step * ridge) * a for a in alphas] + [new]
        shrunk_too = [(1 - step * ridge) * a for a in [*shrunk_too, new]]
        frequencies.append(w)
    waves = np.exp(-1j * np.outer(grid, frequencies))
    assert np.allclose(waves @ alphas, f)
    assert not np.allclose(waves @ shrunk_too, f, rtol=0.1)


def test_one_random_sample_is_unbiased_for_the_mean():
    """E of ℓ'(x_i)ζ_ω(x_i)ζ_ω*(·) over i and ω is the mean of ℓ'(x_i)k(x_i, ·), not the sum."""
    X, slopes, z = random.standard_normal(5), random.standard_normal(5), 0.4
    i, w = random.integers(0, 5, 400_000), random.standard_normal(400_000)
    mean = np.mean(slopes[i] * np.cos(w * (X[i] - z)))
    terms = slopes * np.exp(-((X - z) ** 2) / 2)
    assert mean == pytest.approx(terms.mean(), abs=0.02)
    assert mean != pytest.approx(terms.sum(), abs=0.2 * abs(terms.sum()))


def test_descent_in_the_space():
    """α ← α − 2η(Kα − y): stable below 1/λ_max; from 0 to the least norm, else start remains."""
    X = random.standard_normal((5, 2))
    K, y = Linear()(X), X @ [1.0, -2.0]
    top = np.linalg.eigvalsh(K)[-1]

    def run(alpha, step):
        for _ in range(3000):
            alpha = alpha - 2 * step * (K @ alpha - y)
            if np.abs(alpha).max() > 1e6:
                break
        return alpha

    least = interpolant(Linear(), X, y)
    assert np.allclose(X.T @ run(np.zeros(5), 0.9 / top), X.T @ least.coefficients)
    assert np.abs(run(np.zeros(5), 1.1 / top)).max() > 1e6
    null = np.linalg.svd(K)[0][:, -1]
    assert not np.allclose(run(null, 0.9 / top), run(np.zeros(5), 0.9 / top), atol=0.5)


def test_the_dual_has_the_penalty_of_the_primal():
    """max −(1/n)Σ ℓ*(y, −nλα) − (λ/2)αᵀKα equals the primal minimum, for ½(y − f)²."""
    X, y, ridge, n = random.standard_normal((8, 2)), random.standard_normal(8), 0.3, 8
    K = Gaussian()(X)
    primal = Direct().solve(Problem(Gaussian().gram(X), y, Squared(), ridge))

    def dual(alpha, factor):
        u = -n * ridge * alpha
        return -np.mean(u * y + u**2 / 2) - factor * alpha @ K @ alpha

    best = [-scipy.optimize.minimize(lambda a, f=f: -dual(a, f), np.zeros(8), tol=1e-12).fun
            for f in (ridge / 2, 1 / (2 * ridge))]  # fmt: skip
    assert best[0] == pytest.approx(primal.objective, rel=1e-7)
    assert best[1] != pytest.approx(primal.objective, rel=0.1)


# ---- bounds --------------------------------------------------------------------------------------


def test_stochastic_gradients_pay_a_logarithm_or_weights():
    """The mean of J over plain iterates is (1 + … + 1/t)/(2λt) for signs, above 1/(λt)."""
    t, ridge = 400, 0.5
    signs = random.choice([-1.0, 1.0], (4000, t))
    iterates = np.cumsum(signs, axis=1) / (-ridge * np.arange(1, t + 1))  # steps 1/(λs)
    mean = np.mean(0.5 * ridge * iterates**2)
    assert mean == pytest.approx((1 / np.arange(1, t + 1)).sum() / (2 * ridge * t), rel=0.05)
    assert mean > 1 / (ridge * t)
    assert weighted_average_bound(1.0, 1.0, ridge, t) > 1 / (ridge * t)


def test_the_best_regularization_of_the_bound():
    """32G²R²/(λn) + (λ/2)‖f‖² is least at 8RG/(√n‖f‖), with the value 8RG‖f‖/√n."""
    G, R, n, norm = 2.0, 1.5, 400, 3.0
    found = scipy.optimize.minimize_scalar(
        lambda ridge: regularised_excess(G, R, ridge, n) + 0.5 * ridge * norm**2,
        bounds=(1e-3, 1e2),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert found.x == pytest.approx(8 * R * G / (math.sqrt(n) * norm), rel=1e-4)
    assert found.fun == pytest.approx(8 * R * G * norm / math.sqrt(n))
    assert found.x != pytest.approx(8 * R * G / math.sqrt(n), rel=0.5)
    assert estimation_error(G, norm, R, n) == pytest.approx(2 * G * norm * R / math.sqrt(n))
    within = excess_risk(G, R, n, lambda ridge: ridge * norm**2)  # for f* of the space
    assert within == pytest.approx(2 * G * norm * (2 * R / math.sqrt(n)))  # 2G√λ‖f*‖


def test_within_the_space_the_approximation_error_is_below_its_line():
    """A(λ, f*) < λ‖f*‖² for every λ > 0: it is no equality."""
    coefficients = np.array([0.3, 0.2, 0.05])
    norm = 0.3**2 + 2 * 0.2**2 + 2 * 16 * 0.05**2
    for ridge in (1e-3, 0.1, 1.0):
        value = on_torus(PeriodicBernoulli(2), coefficients, ridge)
        assert value < ridge * norm
    assert approximation_error([1.0], [1.0], 1.0) == 0.5
