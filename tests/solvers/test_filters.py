"""Spectral filters against their definitions, as iterations on the matrix itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import eval_jacobi

from mercer.kernels import Gaussian, Matern
from mercer.solvers import CutOff, IteratedTikhonov, Landweber, NuMethod, SpectralPath, Tikhonov

N = 25
EPS = np.finfo(np.float64).eps


SMOOTH = Matern(1.5)


def setting(kernel=SMOOTH, outputs=None):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 2))
    shape = (N,) if outputs is None else (N, outputs)
    y = rng.standard_normal(shape)
    gram = kernel.gram(X)
    return gram.dense(), y, SpectralPath.of(gram, y)


def close(answer, truth, digits=1e-11):
    return np.allclose(answer, truth, rtol=0, atol=digits * np.abs(truth).max())


# ---- as iterations -------------------------------------------------------------------------------


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("share", [0.3, 1.0, 1.7], ids=["short", "full", "long"])
@pytest.mark.parametrize("steps", [1, 2, 7, 200])
def test_landweber_is_gradient_descent(steps, share, outputs):
    K, y, path = setting(outputs=outputs)
    step = share * N / np.linalg.eigvalsh(K)[-1]
    alpha = np.zeros_like(y)
    for _ in range(steps):
        alpha = alpha - step * (K @ alpha - y) / N
    assert close(path.coefficients(Landweber(steps, step))[0], alpha)


@pytest.mark.parametrize("times", [1, 2, 3, 10])
@pytest.mark.parametrize("regularization", [1e-3, 1e-1, 10.0])
def test_iterated_tikhonov_fits_what_is_left(regularization, times):
    K, y, path = setting()
    inverse = np.linalg.inv(K + N * regularization * np.eye(N))
    alpha = np.zeros(N)
    for _ in range(times):
        alpha = alpha + inverse @ (y - K @ alpha)
    assert close(path.coefficients(IteratedTikhonov(regularization, times))[0], alpha)


@pytest.mark.parametrize("regularization", [1e-3, 1e-1, 10.0])
def test_tikhonov_is_ridge_and_iterated_once(regularization):
    K, y, path = setting()
    truth = np.linalg.solve(K + N * regularization * np.eye(N), y)
    for filter_ in (Tikhonov(regularization), IteratedTikhonov(regularization, 1), regularization):
        assert close(path.coefficients(filter_)[0], truth)


@pytest.mark.parametrize("kept", [1, 4, N])
def test_cut_off_is_a_truncated_expansion(kept):
    K, y, path = setting()
    values, vectors = np.linalg.eigh(K)
    values, vectors = values[::-1], vectors[:, ::-1]
    threshold = values[kept - 1] * (1 - 1e-9) / N
    truth = sum((vectors[:, i] @ y) / values[i] * vectors[:, i] for i in range(kept))
    assert close(path.coefficients(CutOff(threshold))[0], truth, 1e-10)
    assert np.isclose(path.degrees_of_freedom(CutOff(threshold)), kept)


def test_cut_off_above_every_eigenvalue_is_zero():
    _, _, path = setting()
    alpha, b = path.coefficients(CutOff(1e3))
    assert (alpha == 0).all()
    assert b == 0


@pytest.mark.parametrize("nu", [0.5, 1.0, 2.5])
@pytest.mark.parametrize("steps", [1, 2, 3, 12, 40])
def test_the_nu_method_is_a_three_term_recursion(steps, nu):
    """x ← x + μ(x − x₋) + ω(y/n − Ax), A = K/n scaled to norm 1: Engl et al., (6.68)."""
    K, y, path = setting()
    largest = np.linalg.eigvalsh(K)[-1] / N
    before, now = np.zeros(N), np.zeros(N)
    for k in range(1, steps + 1):
        mu = 0.0
        if k > 1:
            mu = (k - 1) * (2 * k - 3) * (2 * k + 2 * nu - 1)
            mu /= (k + 2 * nu - 1) * (2 * k + 4 * nu - 1) * (2 * k + 2 * nu - 3)
        omega = 4 * (2 * k + 2 * nu - 1) * (k + nu - 1) / ((k + 2 * nu - 1) * (2 * k + 4 * nu - 1))
        gap = (y - K @ now) / (N * largest)
        before, now = now, now + mu * (now - before) + omega * gap
    assert close(path.coefficients(NuMethod(steps, nu))[0], now)


@pytest.mark.parametrize("nu", [0.5, 1.0, 2.5])
@pytest.mark.parametrize("steps", [1, 2, 5, 30])
def test_what_the_nu_method_leaves_is_a_jacobi_polynomial(steps, nu):
    """1 − σg(σ) = P(1 − 2σ)/P(1) with P = P_t^(2ν−1/2, −1/2): an independent way to know it."""
    sigma = np.linspace(0.0, 1.0, 101)
    left = 1.0 - sigma * NuMethod(steps, nu).values(sigma)
    jacobi = eval_jacobi(steps, 2 * nu - 0.5, -0.5, 1 - 2 * sigma)
    assert np.allclose(left, jacobi / jacobi[0], rtol=0, atol=1e-11)


def test_the_nu_method_needs_the_root_of_the_steps():
    """On σ ≥ 1/t² it is as near to 1/σ as gradient descent is after t² steps, up to a constant."""
    for t in (10, 30, 100):
        sigma = np.append(np.geomspace(25.0 / t**2, 1.0, 200), 1.0)
        quick = np.abs(1 - sigma * NuMethod(t).values(sigma)).max()
        slow = np.abs(1 - sigma * Landweber(t, 1.0).values(sigma)).max()
        assert quick < 0.1
        assert slow > 2 * quick


# ---- every filter --------------------------------------------------------------------------------

FILTERS = {
    "tikhonov": lambda scale: Tikhonov(1e-6 * scale),
    "cut-off": lambda scale: CutOff(1e-6 * scale),
    "iterated": lambda scale: IteratedTikhonov(1e-3 * scale, 3),
    "landweber": lambda scale: Landweber(100_000, 1.0 / scale),
    "nu": lambda scale: NuMethod(2000),
}


@pytest.mark.parametrize("make", FILTERS.values(), ids=FILTERS.keys())
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_large_eigenvalues_are_inverted_and_small_ones_are_not(make, scale):
    sigma = scale * np.array([0.0, 1e-30, 0.5, 1.0])
    values = make(scale).values(sigma)
    assert np.allclose(values[2:] * sigma[2:], 1.0, atol=1e-4)
    assert np.isfinite(values).all()
    assert (values >= 0).all()
    assert np.isclose(values[0], values[1], rtol=1e-6)  # continuous at 0: no blow-up
    assert (values * sigma <= 1 + 1e-4).all()


@pytest.mark.parametrize("make", FILTERS.values(), ids=FILTERS.keys())
def test_filters_see_the_matrix_and_not_its_unit(make):
    """g(cσ) = g(σ)/c where the parameters are scaled along."""
    sigma = np.linspace(0.0, 1.0, 7)
    truth = make(1.0).values(sigma) / 1000
    assert np.allclose(make(1000.0).values(1000 * sigma), truth, rtol=1e-10)


def test_landweber_keeps_the_digits_of_small_eigenvalues():
    sigma = np.array([1e-14, 1e-10, 1e-6])
    values = Landweber(1000, 0.5).values(sigma)
    series = 500 * (1 - 999 * 0.25 * sigma)  # ηt(1 − (t − 1)ησ/2 + …)
    assert np.allclose(values, series, rtol=1e-6, atol=0)
    assert np.allclose(values[:2], series[:2], rtol=1e-12, atol=0)


def test_landweber_tends_to_the_inverse_and_stops_early_like_ridge():
    sigma = np.array([0.01, 0.1, 1.0])
    assert np.allclose(Landweber(10_000, 1.0).values(sigma), 1 / sigma)
    early = Landweber(10, 1.0).values(sigma)
    ridge = Tikhonov(0.1).values(sigma)
    assert (early / ridge > 0.5).all()
    assert (early / ridge < 2.0).all()


@pytest.mark.parametrize("outputs", [None, 2])
def test_long_descent_ends_at_the_interpolant(outputs):
    K, y, path = setting(Gaussian(0.05), outputs)  # nearly the identity
    truth = np.linalg.solve(K, y)
    step = 1.0 * N / np.linalg.eigvalsh(K)[-1]
    for filter_ in (Landweber(500, step), NuMethod(500, 3.0), CutOff(1e-9), Tikhonov(1e-14)):
        assert close(path.coefficients(filter_)[0], truth, 1e-5)


# ---- refusals ------------------------------------------------------------------------------------


def test_steps_that_are_too_long_are_refused_with_the_longest():
    sigma = np.array([0.1, 4.0])
    with pytest.raises(ValueError, match=r"a step of 0.5 is too long: .* below 2/σ_max = 0.5"):
        Landweber(10, 0.5).values(sigma)
    longest = 0.5 * (1 - 1e-9)
    assert np.isfinite(Landweber(10, longest).values(sigma)).all()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Tikhonov(0.0), "Tikhonov needs a finite regularization > 0; got 0.0"),
        (lambda: Tikhonov(np.inf), "Tikhonov needs a finite regularization > 0; got inf"),
        (lambda: CutOff(-1.0), "CutOff needs a finite regularization > 0; got -1.0"),
        (
            lambda: IteratedTikhonov(0.1, 0),
            "IteratedTikhonov needs a whole number times ≥ 1; got 0",
        ),
        (lambda: IteratedTikhonov(np.nan, 1), "IteratedTikhonov needs a finite regularization"),
        (lambda: Landweber(0, 1.0), "Landweber needs a whole number steps ≥ 1; got 0"),
        (lambda: Landweber(3, 0.0), "Landweber needs a finite step > 0; got 0.0"),
        (lambda: NuMethod(-1), "NuMethod needs a whole number steps ≥ 1; got -1"),
        (lambda: NuMethod(3, nu=0.0), "NuMethod needs a finite nu > 0; got 0.0"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.parametrize(
    "make",
    [lambda: Landweber(2.5, 1.0), lambda: IteratedTikhonov(0.1, 1.5), lambda: NuMethod(2.5)],
    ids=["landweber", "iterated", "nu"],
)
def test_steps_are_whole_numbers(make):
    with pytest.raises(ValueError, match="whole"):
        make()
