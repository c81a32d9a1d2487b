"""Uncertainty of ridge fits: against Gaussian processes of scikit-learn, and against refitting."""

from __future__ import annotations

import copy
import pickle
import tracemalloc

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.svm import SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer.estimators import (
    ConformalRegressor,
    KernelRidge,
    KernelRidgeClassifier,
    KernelRidgeCV,
)
from mercer.features.centres import Given
from mercer.kernels import Gaussian, Linear
from mercer.solvers import Direct

ALPHA = 0.3
KINDS = {
    "all points": {},
    "centres": {"centres": Given(np.linspace(-2.0, 2.0, 24).reshape(-1, 2))},
    "features": {"kernel": Linear(bias=1.0)},
}


def data(n=40, outputs=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    shape = (n,) if outputs is None else (n, outputs)
    y = np.sin(X[:, 0]).reshape(-1, *[1] * (len(shape) - 1)) + 0.3 * rng.standard_normal(shape)
    return X, y + 2.0, rng.standard_normal((7, 2))


def ridge(kind="all points", **params):
    return KernelRidge(**({"alpha": ALPHA, "kernel": Gaussian(0.9)} | KINDS[kind] | params))


def matrices(model, X, new):
    """K(X, X), K(new, X) and K(new, new) of the prior that a model stands for, densely."""
    kernel = model.kernel_
    if model.centres is None:
        return kernel(X), kernel(new, X), kernel(new)
    C = model.X_fit_
    inverse = np.linalg.pinv(kernel(C), rcond=1e-13, hermitian=True)
    return (
        kernel(X, C) @ inverse @ kernel(C, X),
        kernel(new, C) @ inverse @ kernel(C, X),
        kernel(new),
    )


@pytest.mark.parametrize("outputs", [None, 2])
def test_mean_deviation_and_covariance_are_those_of_a_gaussian_process(outputs):
    X, y, new = data(outputs=outputs)
    model = ridge().fit(X, y)
    mean, deviation = model.predict(new, return_std=True)
    assert deviation.shape == mean.shape
    for k, scale in enumerate(np.atleast_1d(model.scale())):
        prior = ConstantKernel(scale, "fixed") * RBF(0.9, "fixed")
        peer = GaussianProcessRegressor(prior, alpha=scale * ALPHA, optimizer=None)
        column = (slice(None),) if outputs is None else (slice(None), k)
        peer.fit(X, y[column])
        expected, spread = peer.predict(new, return_std=True)
        np.testing.assert_allclose(mean[column], expected, rtol=1e-9)
        np.testing.assert_allclose(deviation[column], spread, rtol=1e-9)
        covariance = model.predict(new, return_cov=True)[1]
        np.testing.assert_allclose(
            covariance[..., k] if outputs else covariance,
            peer.predict(new, return_cov=True)[1],
            atol=1e-10,
        )
        likelihood = np.atleast_1d(model.log_marginal_likelihood())[k]
        np.testing.assert_allclose(likelihood, peer.log_marginal_likelihood_value_, rtol=1e-10)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_posterior_is_that_of_the_joint_normal_distribution(kind, weighted, fit_intercept):
    X, y, new = data()
    weights = np.random.default_rng(1).uniform(0.2, 3.0, len(y)) if weighted else None
    model = ridge(kind, fit_intercept=fit_intercept).fit(X, y, weights)
    K, cross, own = matrices(model, X, new)
    noisy = K + ALPHA * np.diag(1.0 / (np.ones(len(y)) if weights is None else weights))
    ones = np.ones((len(y), int(fit_intercept)))  # a flat prior on the intercept borders the system
    system = np.block([[noisy, ones], [ones.T, np.zeros((ones.shape[1],) * 2)]])
    inverse, rows = np.linalg.inv(system), np.hstack([cross, np.ones((7, ones.shape[1]))])
    covariance = own - rows @ inverse @ rows.T
    scale = y @ inverse[: len(y), : len(y)] @ y / (len(y) - fit_intercept)
    mean, found = model.predict(new, return_cov=True)
    np.testing.assert_allclose(model.scale(), scale, rtol=1e-7)
    np.testing.assert_allclose(mean, rows @ inverse[:, : len(y)] @ y, rtol=1e-6)
    np.testing.assert_allclose(found, scale * covariance, atol=1e-7)
    deviations = model.predict(new, return_std=True)[1]
    np.testing.assert_allclose(deviations, np.sqrt(np.diagonal(found)), rtol=1e-6)
    noise = model.predict(new, return_std=True, include_noise=True)[1]
    np.testing.assert_allclose(noise**2, deviations**2 + scale * ALPHA, rtol=1e-6)
    contrasts = null_space(ones.T) if fit_intercept else np.eye(len(y))
    for square, asked in ((scale, None), (2.0, 2.0)):
        joint = multivariate_normal(cov=square * contrasts.T @ noisy @ contrasts)
        likelihood = joint.logpdf(contrasts.T @ y) - 0.5 * np.log(len(y)) * fit_intercept
        np.testing.assert_allclose(model.log_marginal_likelihood(asked), likelihood, rtol=1e-7)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_leave_one_out_and_intervals_are_those_of_refitting(kind, weighted, fit_intercept):
    X, y, new = data(25)
    weights = np.random.default_rng(1).uniform(0.2, 3.0, len(y)) if weighted else np.ones(len(y))
    weights[3] = 0.0 if weighted else 1.0
    model = ridge(kind, fit_intercept=fit_intercept).fit(X, y, weights)
    left_out, residuals = [], []
    for i in np.flatnonzero(weights):
        others = np.delete(np.arange(len(y)), i)
        refit = clone(model).fit(X[others], y[others], weights[others])
        left_out.append(refit.predict(new))
        residuals.append(y[i] - refit.predict(X[i : i + 1])[0])
    found = model.leave_one_out()
    np.testing.assert_allclose(found[weights > 0], y[weights > 0] - residuals, rtol=1e-6)
    assert np.isnan(found[weights == 0]).all()
    left_out, sizes = np.array(left_out), np.abs(residuals)[:, None]
    rank = int(np.ceil(0.8 * (len(sizes) + 1)))
    lower, upper = model.predict_interval(new, coverage=0.8)
    np.testing.assert_allclose(upper, np.sort(left_out + sizes, axis=0)[rank - 1], rtol=1e-6)
    np.testing.assert_allclose(lower, -np.sort(sizes - left_out, axis=0)[rank - 1], rtol=1e-6)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_hat_matrix_smooths_targets(kind, fit_intercept):
    X, y, new = data()
    model = ridge(kind, fit_intercept=fit_intercept).fit(X, y)
    np.testing.assert_allclose(model.hat_matrix() @ y, model.predict(X), rtol=1e-7)
    np.testing.assert_allclose(model.smoother_weights(new) @ y, model.predict(new), rtol=1e-7)
    np.testing.assert_allclose(model.degrees_of_freedom(), np.trace(model.hat_matrix()))
    if fit_intercept:
        np.testing.assert_allclose(model.smoother_weights(new).sum(axis=1), 1.0)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_ridge_classifier_is_a_smoother_too(classes):
    X, _, new = data()
    y = np.digitize(X[:, 0], [-0.3, 0.6][: classes - 1])
    model = KernelRidgeClassifier(ALPHA, kernel=Gaussian(0.9)).fit(X, y)
    targets = 2.0 * y - 1.0 if classes == 2 else 2.0 * np.eye(classes)[y] - 1.0
    expected = model.decision_function(new)
    np.testing.assert_allclose(model.smoother_weights(new) @ targets, expected, rtol=1e-7)
    plain = KernelRidge(ALPHA, kernel=Gaussian(0.9), fit_intercept=True).fit(X, targets)
    np.testing.assert_allclose(model.leave_one_out(), plain.leave_one_out())
    np.testing.assert_allclose(model.hat_matrix(), plain.hat_matrix())


def test_outputs_with_alphas_of_their_own():
    X, y, new = data(outputs=2)
    model = ridge(alpha=[0.1, 1.0]).fit(X, y)
    parts = [ridge(alpha=a).fit(X, y[:, k]) for k, a in enumerate([0.1, 1.0])]
    deviations = model.predict(new, return_std=True)[1]
    ends = model.predict_interval(new)
    for k, part in enumerate(parts):
        np.testing.assert_allclose(deviations[:, k], part.predict(new, return_std=True)[1])
        np.testing.assert_allclose(np.array(ends)[:, :, k], part.predict_interval(new))
        np.testing.assert_allclose(model.hat_matrix()[k], part.hat_matrix())
        np.testing.assert_allclose(model.leave_one_out()[:, k], part.leave_one_out())
        np.testing.assert_allclose(
            model.log_marginal_likelihood()[k], part.log_marginal_likelihood()
        )


def test_draws_have_the_posterior_mean_and_covariance():
    X, y, new = data()
    model = ridge().fit(X, y)
    draws = model.sample_y(new, 20_000, random_state=0)
    mean, covariance = model.predict(new, return_cov=True)
    largest = np.sqrt(covariance.diagonal().max())
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=5 * largest / np.sqrt(20_000))
    np.testing.assert_allclose(np.cov(draws), covariance, atol=8 * largest**2 / np.sqrt(20_000))
    prior = ridge().sample_y(new, 20_000, random_state=0)
    np.testing.assert_allclose(np.cov(prior), Gaussian(0.9)(new), atol=8 / np.sqrt(20_000))
    assert ridge().fit(X, np.c_[y, y]).sample_y(new, 3).shape == (7, 2, 3)


def test_a_precomputed_matrix_has_intervals_but_no_variance():
    X, y, new = data()
    k = Gaussian(0.9)
    model = KernelRidge(alpha=ALPHA, kernel="precomputed").fit(k(X), y)
    plain = ridge().fit(X, y)
    np.testing.assert_allclose(
        model.predict_interval(k(new, X)), plain.predict_interval(new), rtol=1e-9
    )
    with pytest.raises(ValueError, match="does not say k\\(x, x\\)"):
        model.predict(k(new, X), return_std=True)


def test_single_precision_keeps_its_type_and_its_digits():
    X, y, new = data()
    single = ridge().fit(X.astype(np.float32), y.astype(np.float32))
    mean, deviation = single.predict(new.astype(np.float32), return_std=True)
    assert mean.dtype == np.float32
    np.testing.assert_allclose(deviation, ridge().fit(X, y).predict(new, return_std=True)[1], 1e-4)


def test_pickles_of_models_on_centres_hold_no_training_rows():
    X, y, new = data()
    model = ridge().fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_interval(new), model.predict_interval(new))
    model = ridge("centres").fit(X, y)
    model.predict(new, return_std=True)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    with pytest.raises(ValueError, match="fit it again"):
        again.predict(new, return_std=True)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_factor_of_the_fit_serves_the_posterior(monkeypatch, fit_intercept):
    X, y, new = data()
    weights = np.linspace(0.0, 2.0, len(y))
    params = {"fit_intercept": fit_intercept}
    without = ridge(solver=Direct(keep_factor=False), **params).fit(X, y, weights)
    model = ridge(**params).fit(X, y, weights)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    questions = {
        "deviations": lambda m: m.predict(new, return_std=True),
        "intervals": lambda m: m.predict_interval(new),
        "leave-one-out": lambda m: m.leave_one_out(),
        "smoother": lambda m: m.hat_matrix(),
    }
    expected = {name: ask(without) for name, ask in questions.items()}
    for again in copies:
        assert again.solution_.factor is None
        assert getattr(again, "_known", None) is None
        np.testing.assert_allclose(questions["deviations"](again), expected["deviations"], 1e-9)
    monkeypatch.setattr("mercer.linalg.cholesky", lambda *_, **__: pytest.fail("factored again"))
    for name, ask in questions.items():
        for _ in range(2):
            np.testing.assert_allclose(ask(model), expected[name], rtol=1e-9, err_msg=name)


STAYING = {  # matrices of 1500 rows, 18 MB each, after the fit and after the first question
    "none": (Direct(keep_factor=False), "10MB", [0, 0]),
    "that of the first question": (Direct(keep_factor=False), "20MB", [0, 1]),
    "that of the fit": (Direct(), "10MB", [1, 1]),
}


@pytest.mark.parametrize(("solver", "budget", "expected"), STAYING.values(), ids=STAYING.keys())
def test_factors_that_stay_are_within_the_budget(monkeypatch, solver, budget, expected):
    X, y, new = data(n=1500)
    ridge(solver=solver).fit(X, y).predict(new, return_std=True)  # code is loaded
    tracemalloc.start()
    try:
        model = ridge(solver=solver).fit(X, y)
        after_fit = tracemalloc.get_traced_memory()[0]
        monkeypatch.setenv("MERCER_MEMORY", budget)
        first = model.predict(new, return_std=True)
        after_question = tracemalloc.get_traced_memory()[0]
        found = [round(used / (8 * 1500**2)) for used in (after_fit, after_question)]
        assert found == expected
        np.testing.assert_array_equal(model.predict(new, return_std=True), first)
    finally:
        tracemalloc.stop()


def test_a_passed_matrix_is_not_overwritten():
    X, y, new = data()
    kernel = Gaussian(0.9)
    model = ridge(kernel="precomputed").fit(kernel(X), y)
    cross = kernel(new, X)
    before = cross.copy()
    np.testing.assert_allclose(
        model.smoother_weights(cross), ridge().fit(X, y).smoother_weights(new), rtol=1e-9
    )
    np.testing.assert_array_equal(cross, before)


def test_rows_in_blocks():
    X, y, new = data()
    plain = ridge("centres").fit(X, y)
    model = ridge("centres").fit(iter_again([X[:15], X[15:]]), y)
    for found, expected in zip(
        model.predict_interval(new), plain.predict_interval(new), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.raises(ValueError, match="no hat matrix"):
        model.hat_matrix()


def iter_again(blocks):
    class Blocks:
        def __iter__(self):
            return iter(blocks)

    return Blocks()


def test_refusals():
    X, y, new = data()
    model = ridge().fit(X, y)
    with pytest.raises(ValueError, match="exclude each other"):
        model.predict(new, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match=r"0 < coverage < 1; got 1\.5"):
        model.predict_interval(new, coverage=1.5)
    with pytest.raises(ValueError, match="needs alpha > 0"):
        ridge(alpha=0.0).fit(X, y).log_marginal_likelihood()
    with pytest.raises(ValueError, match="ConformalRegressor\\(KernelRidgeCV\\(\\)\\)"):
        KernelRidgeCV().fit(X, y).predict_interval(new)
    with pytest.raises(ValueError, match="SVR has none: write scaled=False"):
        ConformalRegressor(SVR(), scaled=True).fit(X, y)
    few = ridge().fit(X[:5], y[:5])
    assert np.isinf(few.predict_interval(new, coverage=0.9)).all()


def test_the_model_that_chose_alpha_knows_its_deviations():
    X, y, new = data()
    chosen = KernelRidgeCV(fit_intercept=True).fit(X, y)
    plain = KernelRidge(chosen.alpha_, kernel=chosen.kernel_, fit_intercept=True).fit(X, y)
    np.testing.assert_allclose(
        chosen.predict(new, return_std=True), plain.predict(new, return_std=True), rtol=1e-6
    )


# ---- split conformal -----------------------------------------------------------------------------


def test_split_conformal_covers_as_often_as_it_says():
    """With m rows set aside the coverage is Beta-distributed around ⌈0.8(m + 1)⌉/(m + 1)."""
    rng = np.random.default_rng(0)
    covered = []
    for seed in range(40):
        X = rng.uniform(size=(80, 1))
        y = np.sin(6 * X[:, 0]) + 0.2 * rng.standard_normal(80)
        model = ConformalRegressor(ridge(), coverage=0.8, calibration=0.475, random_state=seed)
        lower, upper = model.fit(X[:40], y[:40]).predict_interval(X[40:])
        covered.append(np.mean((lower <= y[40:]) & (y[40:] <= upper)))
    assert abs(np.mean(covered) - 0.8) < 0.04  # four standard errors


def test_split_conformal_is_the_order_statistic():
    X, y, new = data(60, outputs=2)
    model = ConformalRegressor(ridge(), random_state=0).fit(X, y)
    aside = model.calibration_indices_
    inner = ridge().fit(np.delete(X, aside, 0), np.delete(y, aside, 0))
    scores = np.sort(np.abs(y[aside] - inner.predict(X[aside])), axis=0)
    rank = int(np.ceil(0.9 * (len(aside) + 1)))
    lower, upper = model.predict_interval(new)
    np.testing.assert_allclose(upper - inner.predict(new), np.tile(scores[rank - 1], (7, 1)))
    np.testing.assert_allclose(upper + lower, 2 * model.predict(new))
    assert np.isinf(model.predict_interval(new, coverage=0.99)).all()
    scaled = ConformalRegressor(ridge(), scaled=True, random_state=0).fit(X, y)
    widths = np.subtract(*scaled.predict_interval(new)[::-1])
    deviations = inner.predict(new, return_std=True, include_noise=True)[1]
    np.testing.assert_allclose(widths / deviations, np.tile((widths / deviations)[0], (7, 1)))
    with pytest.raises(ValueError, match="sets all rows aside"):
        ConformalRegressor(ridge(), calibration=0.9).fit(X[:2], y[:2])


@parametrize_with_checks(
    [ConformalRegressor(KernelRidge(kernel="rbf"), random_state=0)],
    expected_failed_checks=lambda _: {
        f"check_sample_weight_equivalence_on_{kind}_data": "which rows are set aside differs"
        for kind in ("dense", "sparse")
    },
)
def test_it_passes_every_check_of_scikit_learn(estimator, check):
    check(estimator)
