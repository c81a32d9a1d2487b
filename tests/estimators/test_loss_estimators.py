"""Estimators with a loss, against scikit-learn's linear models and against themselves."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier

from mercer import (
    KernelClassifier,
    KernelLogisticRegression,
    KernelPoissonRegressor,
    KernelQuantileRegressor,
    KernelRegressor,
    KernelRidge,
)
from mercer.errors import IndefiniteKernelWarning
from mercer.kernels import Gaussian, PairKernel
from mercer.losses import Hinge, Huber, Logistic, Multinomial, Poisson, Quantile, SquaredHinge
from mercer.solvers import DualAscent, Newton, Splitting

RNG = np.random.default_rng(5)
N = 70
X = RNG.uniform(-1.0, 1.0, (N, 2))
NEW = RNG.uniform(-1.0, 1.0, (11, 2))
CURVE = np.sin(3.0 * X[:, 0]) + X[:, 1] + 0.3 * RNG.standard_normal(N)
TWO = np.where(CURVE > 0, "yes", "no")
THREE = np.array(["a", "b", "c"])[np.digitize(CURVE, [-0.5, 0.5])]
COUNTS = RNG.poisson(np.exp(CURVE))
WEIGHTS = RNG.integers(0, 4, N).astype(float)
EXACT = {"tol": 1e-13}


def repeated(*arrays):
    return [np.repeat(a, WEIGHTS.astype(int), axis=0) for a in arrays]


# ---- logistic regression -------------------------------------------------------------------------


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {"a": 3.0, "yes": 0.5}], ids=str)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_with_a_linear_kernel_it_is_logistic_regression(y, class_weight, fit_intercept):
    if isinstance(class_weight, dict):
        class_weight = {k: v for k, v in class_weight.items() if k in y}
    options = {"C": 2.0, "fit_intercept": fit_intercept, "class_weight": class_weight}
    ours = KernelLogisticRegression(kernel="linear", **options, **EXACT).fit(X, y, WEIGHTS)
    theirs = LogisticRegression(solver="newton-cg", tol=1e-10, max_iter=1000, **options)
    theirs.fit(X, y, WEIGHTS)
    assert np.allclose(ours.predict_proba(NEW), theirs.predict_proba(NEW), atol=1e-6)
    assert np.allclose(np.exp(ours.predict_log_proba(NEW)), ours.predict_proba(NEW))
    assert (ours.predict(NEW) == theirs.predict(NEW)).all()
    scores = ours.decision_function(NEW)
    assert scores.shape == ((11,) if y is TWO else (11, 3))
    assert (ours.classes_ == theirs.classes_).all()


def test_its_mode_is_that_of_a_gaussian_process():
    model = KernelLogisticRegression(1.0, kernel=Gaussian(0.5), fit_intercept=False, **EXACT)
    model.fit(X, TWO)
    process = GaussianProcessClassifier(RBF(0.5), optimizer=None).fit(X, TWO)
    process.base_estimator_.max_iter_predict = 1000
    f, _ = process.latent_mean_and_variance(NEW)
    assert np.allclose(model.decision_function(NEW), f, atol=2e-4)


def test_probabilities_are_calibrated_on_simulated_data():
    rng = np.random.default_rng(0)
    points = rng.uniform(-2.0, 2.0, (1500, 1))
    truth = expit(3.0 * np.sin(2.0 * points[:, 0]))
    y = rng.uniform(size=1500) < truth
    model = KernelLogisticRegression(10.0, kernel=Gaussian(0.7)).fit(points[:1000], y[:1000])
    p = model.predict_proba(points[1000:])[:, 1]
    assert np.abs(p - truth[1000:]).mean() < 0.04
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = (p >= low) & (p < low + 0.25)
        assert abs(p[inside].mean() - y[1000:][inside].mean()) < 3.5 * np.sqrt(0.25 / inside.sum())
    # an unpenalised intercept makes the mean probability exact on the training points
    assert model.predict_proba(points[:1000])[:, 1].mean() == pytest.approx(
        y[:1000].mean(), abs=1e-9
    )


# ---- several classes -----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge(), Hinge()], ids=repr)
def test_one_vs_rest_and_one_vs_one_are_those_of_scikit_learn(loss):
    base = KernelClassifier(loss, 0.02, kernel=Gaussian(0.5), tol=1e-9)
    rest = clone(base).fit(X, THREE)
    theirs = OneVsRestClassifier(base).fit(X, THREE)
    close = 1e-3 if loss == Hinge() else 1e-4
    assert np.allclose(rest.decision_function(NEW), theirs.decision_function(NEW), atol=close)
    assert rest.function_.outputs == 3
    if loss == Logistic():
        assert np.allclose(rest.predict_proba(NEW), theirs.predict_proba(NEW), atol=close)
    pairs = clone(base).set_params(multi_class="ovo").fit(X, THREE)
    theirs = OneVsOneClassifier(base).fit(X, THREE)
    assert np.allclose(pairs.decision_function(NEW), theirs.decision_function(NEW), atol=close)
    assert (pairs.predict(NEW) == theirs.predict(NEW)).all()
    assert pairs.solution_.status.converged


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_multinomial_takes_all_classes_at_once(y):
    model = KernelClassifier(Multinomial(), 0.02, kernel=Gaussian(0.5), **EXACT).fit(X, y)
    total = len(y)
    other = KernelLogisticRegression(1.0 / (0.02 * total), kernel=Gaussian(0.5), **EXACT)
    if y is TWO:  # two columns ±f/2 cost half as much
        other.set_params(C=2.0 / (0.02 * total))
    other.fit(X, y)
    assert np.allclose(model.predict_proba(NEW), other.predict_proba(NEW), atol=1e-6)
    assert (model.predict(NEW) == other.predict(NEW)).all()


# ---- weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (KernelLogisticRegression(class_weight="balanced", **EXACT), THREE),
        (KernelClassifier("squared_hinge", class_weight={"yes": 2.5}, **EXACT), TWO),
        (KernelClassifier(multi_class="ovo", class_weight="balanced", **EXACT), THREE),
        (KernelRegressor(Huber(0.3), **EXACT), np.stack([CURVE, COUNTS], axis=1)),
        (KernelPoissonRegressor(**EXACT), COUNTS),
        (KernelQuantileRegressor([0.2, 0.7], tol=1e-9), CURVE),
    ],
    ids=str,
)
def test_a_weight_is_a_repetition(model, y):
    once, often = clone(model).fit(X, y, WEIGHTS), clone(model).fit(*repeated(X, y))
    close = 1e-3 if isinstance(model, KernelQuantileRegressor) else 1e-5
    values = [m.function_(NEW) + m.intercept_ for m in (once, often)]
    assert np.allclose(*values, atol=close)


def test_a_class_without_weight_is_none():
    w = (THREE != "b").astype(float)
    model = KernelLogisticRegression(**EXACT).fit(X, THREE, w)
    rest = KernelLogisticRegression(**EXACT).fit(X[w > 0], THREE[w > 0])
    assert model.classes_.tolist() == ["a", "c"]
    assert np.allclose(model.predict_proba(NEW), rest.predict_proba(NEW), atol=1e-7)


# ---- regression ----------------------------------------------------------------------------------


def test_the_square_loss_is_ridge_regression():
    Y = np.stack([CURVE, COUNTS], axis=1)
    ours = KernelRegressor(regularization=0.01, kernel="rbf", gamma=2.0).fit(X, Y, WEIGHTS)
    alpha = 0.01 * WEIGHTS.sum()
    ridge = KernelRidge(alpha, kernel="rbf", gamma=2.0, fit_intercept=True).fit(X, Y, WEIGHTS)
    assert np.allclose(ours.predict(NEW), ridge.predict(NEW))


def test_with_a_linear_kernel_counts_are_a_poisson_regression():
    ours = KernelPoissonRegressor(0.1, kernel="linear", **EXACT).fit(X, COUNTS, WEIGHTS)
    theirs = PoissonRegressor(alpha=0.1, solver="newton-cholesky", tol=1e-10)
    theirs.fit(X, COUNTS, WEIGHTS)
    assert np.allclose(ours.predict(NEW), theirs.predict(NEW), rtol=1e-6)
    assert ours.score(X, COUNTS, WEIGHTS) == pytest.approx(theirs.score(X, COUNTS, WEIGHTS))
    same = KernelRegressor(Poisson(), 0.1, kernel="linear", **EXACT).fit(X, COUNTS, WEIGHTS)
    assert np.allclose(ours.predict(NEW), same.predict(NEW))


def test_quantiles_cover_what_they_say_and_never_cross():
    rng = np.random.default_rng(1)
    points = rng.uniform(-2.0, 2.0, (500, 1))
    noise = (0.2 + np.abs(points[:, 0])) * rng.standard_normal(500)
    y = np.sin(2.0 * points[:, 0]) + noise
    levels = [0.9, 0.1, 0.5, 0.3, 0.7]
    model = KernelQuantileRegressor(levels, 1e-3, kernel=Gaussian(0.6), tol=1e-4)
    model.fit(points[:300], y[:300])
    fitted = model.function_(points[:300]) + model.intercept_
    for level, f in zip(levels, fitted.T, strict=True):
        edge = 1e-3 * np.abs(y).max()
        assert (y[:300] < f - edge).mean() <= level + 0.02
        assert (y[:300] > f + edge).mean() <= 1.0 - level + 0.02
    new = model.predict(points[300:])
    below = (y[300:, None] <= new).mean(axis=0)
    assert np.abs(below - levels).max() < 0.1
    far = model.predict(np.linspace(-6.0, 6.0, 400)[:, None])
    order = np.argsort(levels)
    assert (np.diff(far[:, order], axis=1) >= 0).all()
    assert 0.1 < model.score(points[300:], y[300:]) < 1.0


def test_putting_quantiles_in_order_costs_nothing():
    """With hardly any regularisation they do cross, and the sum of losses falls when sorted."""
    levels = [0.3, 0.4, 0.5, 0.6]
    model = KernelQuantileRegressor(levels, 1e-5, kernel=Gaussian(0.4), solver=Splitting(1e-3))
    model.fit(X, CURVE)
    raw, ordered = model.function_(NEW) + model.intercept_, model.predict(NEW)
    assert (np.diff(raw, axis=1) < 0).any()
    assert (np.diff(ordered, axis=1) >= 0).all()
    truth = np.sin(3.0 * NEW[:, 0]) + NEW[:, 1]
    for y in (truth, truth + 0.3, truth - 0.3):
        losses = [
            sum(Quantile(t).value(y, f) for t, f in zip(levels, values.T, strict=True))
            for values in (raw, ordered)
        ]
        assert (losses[1] <= losses[0] + 1e-12).all()
    one = KernelQuantileRegressor(0.3, kernel=Gaussian(0.4)).fit(X, CURVE)
    same = KernelRegressor(Quantile(0.3), kernel=Gaussian(0.4)).fit(X, CURVE)
    assert one.predict(NEW).shape == (11,)
    assert np.allclose(one.predict(NEW), same.predict(NEW))


# ---- points of every kind ------------------------------------------------------------------------


def rows_product(A, B):
    return (A @ B.T + 1.0) ** 2


def common_letters(a, b):
    return len(set(a) & set(b))


MODELS = {
    "logistic": (KernelLogisticRegression(**EXACT), THREE),
    "pairs": (KernelClassifier("log_loss", multi_class="ovo", **EXACT), THREE),
    "huber": (KernelRegressor(Huber(), **EXACT), CURVE),
    "counts": (KernelPoissonRegressor(**EXACT), COUNTS),
}


@pytest.mark.parametrize(("model", "y"), MODELS.values(), ids=MODELS.keys())
def test_every_way_to_give_a_kernel_is_the_same_model(model, y):
    kernel = Gaussian(0.5)
    truth = clone(model).set_params(kernel=kernel).fit(X, y)
    method = "predict_proba" if hasattr(truth, "predict_proba") else "predict"
    method = "decision_function" if model.get_params().get("multi_class") == "ovo" else method
    expected = getattr(truth, method)(NEW)
    named = clone(model).set_params(kernel="rbf", gamma=2.0).fit(X, y)
    assert np.allclose(getattr(named, method)(NEW), expected, atol=1e-7)
    matrix = clone(model).set_params(kernel="precomputed").fit(kernel(X), y)
    assert np.allclose(getattr(matrix, method)(kernel(NEW, X)), expected, atol=1e-7)
    csr = clone(model).set_params(kernel=kernel).fit(sparse.csr_array(X), y)
    assert np.allclose(getattr(csr, method)(sparse.csr_array(NEW)), expected, atol=1e-7)
    function = clone(model).set_params(kernel=rows_product).fit(X, y)
    poly = clone(model).set_params(kernel="poly", degree=2, gamma=1.0, coef0=1.0).fit(X, y)
    assert np.allclose(
        getattr(function, method)(NEW), getattr(poly, method)(NEW), rtol=1e-4, atol=1e-5
    )
    single = clone(model).set_params(kernel=kernel, tol=1e-6).fit(X.astype(np.float32), y)
    assert single.dual_coef_.dtype == np.float32
    assert np.allclose(getattr(single, method)(NEW.astype(np.float32)), expected, atol=2e-3)
    again = pickle.loads(pickle.dumps(truth))
    assert (getattr(again, method)(NEW) == expected).all()


def test_lists_of_words():
    words = ["kernel", "kern", "colonel", "learn", "earn", "space", "pace", "trace"] * 2
    y = ["k" if "k" in word or "n" in word else "s" for word in words]
    for kernel in (PairKernel(common_letters), common_letters):
        model = KernelLogisticRegression(10.0, kernel=kernel).fit(words, y)
        assert model.score(words, y) == 1.0
        assert model.predict_proba(["lean", "race"]).shape == (2, 2)
        pairs = KernelClassifier("log_loss", 0.01, kernel=kernel, multi_class="ovo")
        assert pairs.fit(words, [w[0] for w in words]).predict(["kernels"])[0] == "k"
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            model.fit(words, y[:-1])


def test_parameters_of_losses_and_kernels_are_reached():
    model = KernelRegressor(Huber(1.0), kernel=Gaussian())
    model.set_params(loss__delta=0.1, kernel__lengthscale=0.3)
    assert (model.loss, model.kernel) == (Huber(0.1), Gaussian(0.3))
    grid = {"loss__delta": [0.01, 10.0], "kernel__lengthscale": [0.1, 1.0]}
    search = GridSearchCV(model, grid, cv=3).fit(X, CURVE)
    assert len(np.unique(search.cv_results_["mean_test_score"])) == 4


def test_solvers_are_chosen_by_the_loss_or_by_the_user():
    smooth = KernelClassifier("squared_hinge").fit(X, TWO)
    assert "Newton" in str(smooth.solution_.status)
    chosen = KernelClassifier("squared_hinge", solver=Splitting(1e-5)).fit(X, TWO)
    assert "splitting" in str(chosen.solution_.status)
    assert np.allclose(smooth.decision_function(NEW), chosen.decision_function(NEW), atol=0.02)
    kinked = KernelClassifier("hinge", tol=1e-5).fit(X, TWO)
    same = KernelClassifier("hinge", solver=DualAscent(1e-5)).fit(X, TWO)
    assert (kinked.decision_function(NEW) == same.decision_function(NEW)).all()
    with pytest.warns(ConvergenceWarning, match="Stopped by the limit .*more time"):
        KernelClassifier(solver=Newton(1e-12, iterations=1)).fit(X, TWO)


# ---- refusals ------------------------------------------------------------------------------------

BAD = {
    "loss": (KernelClassifier("log"), TWO, r"loss must be .* one of \['log_loss'.*; got 'log'"),
    "class": (KernelRegressor(Huber), CURVE, r"got <class .*Huber'>. Write Huber\(\)"),
    "kind": (KernelRegressor(Hinge()), CURVE, "fits numbers; .* is for KernelClassifier"),
    "λ": (KernelRegressor(regularization=-1), CURVE, "nonnegative and finite; got -1"),
    "λ-word": (KernelClassifier(regularization="x"), TWO, "nonnegative and finite; got 'x'"),
    "λ-zero": (KernelClassifier(regularization=0), TWO, "Logistic without .* no minimum"),
    "λ-counts": (KernelPoissonRegressor(0.0), COUNTS, "Poisson without regularisation"),
    "C": (KernelLogisticRegression(0.0), TWO, "C must be positive; got 0"),
    "C-sign": (KernelLogisticRegression(-2.0), TWO, "C must be nonnegative and finite; got -2"),
    "tol": (KernelLogisticRegression(tol=0), TWO, "tol must be a positive number; got 0"),
    "solver": (KernelClassifier(solver="lbfgs"), TWO, r'"auto" or a solver object, as Newton\(\)'),
    "kinks": (KernelClassifier("hinge", solver=Newton()), TWO, "Newton needs a smooth loss"),
    "multi": (KernelClassifier(multi_class="both"), TWO, "'ovr' or 'ovo'; got 'both'"),
    "one": (KernelClassifier(), np.full(N, "no"), "at least two classes .* only one class, .*'no'"),
    "levels": (KernelQuantileRegressor([0.5, 1.0]), CURVE, r"strictly between 0 and 1; got \[0.5"),
    "level": (KernelQuantileRegressor("median"), CURVE, "strictly between 0 and 1; got 'median'"),
    "negative": (KernelPoissonRegressor(), CURVE, "counts y ≥ 0"),
    "square": (KernelLogisticRegression(kernel="precomputed"), TWO, "square matrix in fit"),
    "numbers": (KernelClassifier(), CURVE, "Unknown label type"),
}


@pytest.mark.parametrize(("model", "y", "text"), BAD.values(), ids=BAD.keys())
def test_what_makes_no_sense_is_refused_in_words(model, y, text):
    model = clone(model)
    with pytest.raises(ValueError, match=text):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (KernelClassifier("log_loss"), THREE),
        (KernelClassifier("log_loss", multi_class="ovo"), THREE),
        (KernelLogisticRegression(C=10.0), THREE),
        (KernelRegressor("huber"), CURVE),
        (KernelPoissonRegressor(), COUNTS),
    ],
)
def test_all_rows_as_centres_are_the_whole_problem(model, y):
    exact = clone(model).set_params(tol=1e-12).fit(X, y, WEIGHTS)
    every = clone(model).set_params(centres=N, random_state=0, solver=Newton(1e-12))
    every.fit(X, y, WEIGHTS)
    values = (getattr(m, "decision_function", m.predict)(NEW) for m in (every, exact))
    np.testing.assert_allclose(*values, atol=1e-4)
    few = clone(model).set_params(centres=20, random_state=0).fit(X, y, WEIGHTS)
    assert few.X_fit_.shape == (20, 2)
    assert "on 20 centres" in str(few.solution_.status)


def test_several_outputs_with_an_intercept_stay_float32():
    Y = np.stack([CURVE, -CURVE], axis=1)
    model = KernelRegressor(kernel=Gaussian()).fit(X.astype(np.float32), Y)
    assert model.predict(NEW.astype(np.float32)).dtype == np.float32


def test_probabilities_that_do_not_exist():
    hinge = KernelClassifier("hinge")
    assert not hasattr(hinge, "predict_proba")
    with pytest.raises(AttributeError, match=r"predict_proba"):
        _ = hinge.predict_proba
    assert not hasattr(KernelClassifier(multi_class="ovo"), "predict_proba")
    assert hasattr(KernelClassifier(), "predict_log_proba")
    model = KernelClassifier(Multinomial()).fit(X, THREE)
    assert np.allclose(np.exp(model.predict_log_proba(NEW)).sum(axis=1), 1.0)


def test_the_page_in_the_documentation_runs():
    page = Path(__file__).parents[2] / "docs" / "classification.md"
    parts = page.read_text(encoding="utf-8").split("```python\n")[1:]
    exec("\n".join(part.split("```")[0] for part in parts), {})


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_a_matrix_that_is_no_kernel_is_solved_for_the_nearest_and_named(y):
    K = np.tanh(2.0 * X @ X.T - 1.0)
    values, vectors = np.linalg.eigh(K)
    nearest = (vectors * np.maximum(values, 0.0)) @ vectors.T
    with pytest.warns(
        IndefiniteKernelWarning, match="Solved for the nearest positive semidefinite"
    ):
        model = KernelLogisticRegression(kernel="precomputed", tol=1e-10).fit(K, y)
    expected = KernelLogisticRegression(kernel="precomputed", tol=1e-10).fit(nearest, y)
    assert np.allclose(model.predict_proba(K), expected.predict_proba(nearest), atol=1e-6)
    status = model.solution_.status
    assert not status.converged
    assert status.witness @ K @ status.witness < 0
    with pytest.raises(ValueError, match="Expected a positive definite kernel"):
        KernelLogisticRegression(kernel="precomputed", solver=Newton()).fit(K, y)
    with pytest.warns(IndefiniteKernelWarning):
        KernelClassifier("hinge", kernel="sigmoid").fit(X, y)
