"""Estimators that learn their kernel's metric."""

from __future__ import annotations

import pickle
import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import KernelRidge, LearnedKernelClassifier, LearnedKernelRegressor
from mercer.errors import ApproximationWarning
from mercer.estimators import final_fit, learned
from mercer.kernels import Exponential, Laplacian, Matern
from mercer.learning import raced
from mercer.solvers import ConjugateGradient, Direct, automatic
from mercer.workflow import TableEncoder

RNG = np.random.default_rng(0)
X = RNG.standard_normal((240, 4))
Y = np.sin(2 * X[:, 1]) + 0.1 * RNG.standard_normal(240)
SMALL = {"kernel": Exponential(), "form": "diagonal", "rounds": 1}


def not_for_random_splits(estimator):
    reason = "a row that is repeated may stand on both sides of a split"
    return {"check_sample_weight_equivalence_on_dense_data": reason}


@parametrize_with_checks(
    [LearnedKernelRegressor(**SMALL, rows=60), LearnedKernelClassifier(**SMALL, rows=60)],
    expected_failed_checks=not_for_random_splits,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_regressor_is_a_ridge_fit_with_the_learned_kernel():
    model = LearnedKernelRegressor(rounds=1, rows=120).fit(X, Y)
    ridge = KernelRidge(model.alpha_, kernel=model.kernel_, fit_intercept=True).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), ridge.predict(X), rtol=1e-9)
    assert next(iter(model.importances())) == 1
    assert model.solution_.status.converged
    assert model.race_.errors[0] > 0
    assert clone(model).fit(X, Y).kernel_ == model.kernel_
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))


def test_names_of_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    model = LearnedKernelRegressor(**SMALL).fit(frame, Y)
    assert next(iter(model.importances())) == "b"
    np.testing.assert_allclose(sum(model.importances().values()), 1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_targets_on_another_scale(dtype):
    rows = np.random.default_rng(0).uniform(size=(500, 2)).astype(dtype)
    y = np.exp(8 * rows[:, 0] * rows[:, 1]).astype(dtype)
    new, targets, fixed = rows[400:], y[400:], {**SMALL, "linear_part": False}

    def error(model):
        values = model.fit(rows[:400], y[:400]).predict(new)
        assert values.dtype == dtype
        return float(np.mean((values - targets) ** 2))

    chosen, plain = (LearnedKernelRegressor(**fixed, target_transform=t) for t in ("auto", None))
    assert error(chosen) < 0.9 * error(plain)
    assert chosen.target_transform_.name == "log"
    assert plain.target_transform_ is None
    assert 'Targets by "log"' in chosen.explain()
    assert "f is fitted to log(y)." in chosen.explain()
    named = LearnedKernelRegressor(**fixed, target_transform="rank").fit(rows[:400], y[:400])
    assert targets.min() < np.median(named.predict(new)) < targets.max()
    assert named.score(new, targets) > 0.8
    copy = pickle.loads(pickle.dumps(chosen))
    np.testing.assert_array_equal(copy.predict(new), chosen.predict(new))
    even = LearnedKernelRegressor(**fixed).fit(X, Y)
    assert even.target_transform_ is None
    assert even.race_.transform_errors == {}
    with pytest.raises(ValueError, match=r"needs targets > 0; got -"):
        LearnedKernelRegressor(target_transform="log").fit(X, Y)
    for wrong in ({"target_transform": "root"}, {"target_transform": "rank", "linear_part": True}):
        with pytest.raises(ValueError, match='target_transform must be "auto" or None'):
            LearnedKernelRegressor(**wrong).fit(X, Y)


def test_levels_that_act_alike_are_close():
    """y depends on 20 levels through one number each, which the embedding finds."""
    random = np.random.default_rng(0)
    codes, effects = random.integers(20, size=900), random.uniform(-1.0, 1.0, size=20)
    numbers = random.standard_normal((900, 2))
    rows = np.column_stack([numbers, np.eye(20)[codes]])
    y = effects[codes] * numbers[:, 0] + 0.02 * random.standard_normal(900)
    settings = {"kernel": Matern(1.5), "rounds": 3, "target_transform": None}
    model = LearnedKernelRegressor(**settings).fit(rows[:400], y[:400])
    forms = [form for _, form in model.race_.candidates]
    assert forms[:2] == ["diagonal", "full"]
    assert forms[2] == [list(range(2, 22))]
    (places,) = model.embeddings(dimensions=1)
    assert list(places) == list(range(2, 22))
    assert abs(np.corrcoef(np.ravel(list(places.values())), effects)[0, 1]) > 0.95
    diagonal = LearnedKernelRegressor(**settings, form="diagonal").fit(rows[:400], y[:400])
    assert diagonal.embeddings() == []
    errors = [1.0 - one.score(rows[400:], y[400:]) for one in (model, diagonal)]
    assert errors[0] < 0.6 * errors[1]


def test_predictions_are_means_in_the_original_units():
    """Of y = e^{f + noise} the mean is e^{f + s²/2}, and e^f the median."""
    random = np.random.default_rng(0)
    rows = random.uniform(size=(1500, 1))
    y = np.exp(rows[:, 0] + random.standard_normal(1500))
    model = LearnedKernelRegressor(**SMALL, target_transform="log").fit(rows, y)
    new = np.linspace(0.1, 0.9, 9)[:, None]
    assert np.mean(model.predict(new) / np.exp(new[:, 0] + 0.5)) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_linear_part_is_fitted_first_where_it_explains_nearly_all(dtype, outputs):
    rows = RNG.uniform(size=(400, 3)).astype(dtype) * np.array([1.0, 100.0, 1e-3], dtype)
    y = 50 * rows[:, 0] + 0.3 * rows[:, 1] + np.sin(9 * rows[:, 0].astype(np.float64))
    y = y if outputs == 1 else np.stack([y, -2 * y], axis=1)
    weights = np.where(np.arange(300) < 290, 1.0, 0.0)
    wrong = np.where((weights > 0).reshape(-1, *[1] * (y.ndim - 1)), y[:300], 1e3)
    fit = {**SMALL, "kernel": Exponential()}
    model = LearnedKernelRegressor(**fit).fit(rows[:300], wrong, weights)
    plain = LearnedKernelRegressor(**fit, linear_part=False).fit(rows[:300], wrong, weights)
    errors = [np.abs(one.predict(rows[300:]) - y[300:]).mean() for one in (model, plain)]
    assert errors[0] < 0.5 * errors[1]
    assert model.predict(rows).shape == y.shape
    slopes = np.linalg.lstsq(
        np.column_stack([np.ones(290), rows[:290].astype(np.float64)]), y[:290], rcond=None
    )[0][1:]
    np.testing.assert_allclose(model.linear_part_(np.eye(3)), slopes, rtol=1e-3, atol=1e-3)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(rows), model.predict(rows))


def test_a_linear_part_is_left_out_where_it_explains_little_and_taken_where_it_is_asked_for():
    assert LearnedKernelRegressor(**SMALL).fit(X, Y).linear_part_ is None
    assert LearnedKernelRegressor(**SMALL, linear_part=True).fit(X, Y).linear_part_ is not None
    with pytest.raises(ValueError, match='linear_part must be True, False or "auto"'):
        LearnedKernelRegressor(**SMALL, linear_part="yes").fit(X, Y)


def test_smooth_kernels_learn_from_float32_rows_without_noise():
    # K rounded to float32 had no Cholesky factor with the ridge that such targets ask for
    rows = np.random.default_rng(0).uniform(size=(300, 3)).astype(np.float32)
    model = LearnedKernelRegressor(kernel=Matern(2.5), form="diagonal").fit(rows, rows[:, 0] ** 2)
    assert np.abs(model.predict(rows) - rows[:, 0] ** 2).max() < 1e-3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_several_outputs_and_precision(dtype):
    targets = np.stack([Y, X[:, 0]], axis=1)
    model = LearnedKernelRegressor(**SMALL).fit(X.astype(dtype), targets)
    assert model.predict(X.astype(dtype)).shape == (240, 2)
    assert model.score(X.astype(dtype), targets) > 0.9


@pytest.mark.parametrize("classes", [2, 3])
def test_classifier(classes):
    score = X[:, 1] * X[:, 3]
    y = np.array(["low", "high", "middle"])[
        np.digitize(score, [0.0] if classes == 2 else [-0.3, 0.3])
    ]
    model = LearnedKernelClassifier(**SMALL | {"rounds": 2}).fit(X, y)
    assert model.score(X, y) > 0.9
    assert set(list(model.importances())[:2]) == {1, 3}
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(probabilities), model.predict_log_proba(X))
    assert probabilities.shape == (240, classes)
    chosen = probabilities[np.arange(240), np.searchsorted(model.classes_, y)]
    assert -np.log(chosen).mean() < 0.5 * np.log(classes)


def test_class_weight():
    y = (X[:, 1] + RNG.standard_normal(240) > 1.5).astype(int)
    plain, balanced = (
        LearnedKernelClassifier(**SMALL, class_weight=weight).fit(X, y)
        for weight in (None, "balanced")
    )
    assert balanced.predict(X).mean() > plain.predict(X).mean()


def test_centres_and_refusals():
    model = LearnedKernelRegressor(**SMALL, centres=60).fit(X, Y)
    assert len(model.dual_coef_) == 60
    assert model.score(X, Y) > 0.9
    with pytest.raises(ValueError, match='kernel must be "auto" or a kernel'):
        LearnedKernelRegressor(kernel="rbf").fit(X, Y)
    one = LearnedKernelRegressor(kernel=Laplacian(), form=[[0, 1]], rounds=1).fit(X, Y)
    assert one.learned_.metric.matrix[0, 2] == 0.0


def slowly(monkeypatch, seconds, passes):
    """Conjugate gradients seem to take so long, in so many passes."""
    real = automatic.choose

    def slow(*arguments, centres=None, **named):
        if centres:
            return real(*arguments, centres=centres, **named)
        late = automatic.Candidate(
            "ConjugateGradient",
            ConjugateGradient(),
            seconds,
            0.0,
            exact=True,
            rounding=False,
            passes=passes,
        )
        return automatic.choose_among([late], asked=None)

    monkeypatch.setattr(automatic, "choose", slow)
    monkeypatch.setattr(automatic, "default_centres", lambda rows: 50)


def test_a_fit_that_would_take_too_long_takes_centres(monkeypatch):
    slowly(monkeypatch, 1e6, passes=10)
    model = LearnedKernelRegressor(**SMALL, time_limit=60.0)
    with pytest.warns(ApproximationWarning, match="would take 1000000 s"):
        model.fit(X, Y)
    assert len(model.dual_coef_) == 50


def test_where_time_is_short_there_are_fewer_centres(monkeypatch):
    slowly(monkeypatch, 1e6, passes=10)
    monkeypatch.setattr(final_fit, "TUNING", replace(final_fit.TUNING, fewest_centres=10))
    real = automatic.choose

    def slow(*arguments, centres=None, **named):
        choice = real(*arguments, centres=centres, **named)
        if not centres:
            return choice
        return replace(choice, chosen=replace(choice.chosen, seconds=1.0 * centres))

    monkeypatch.setattr(automatic, "choose", slow)
    with pytest.warns(ApproximationWarning, match="centres="):
        model = LearnedKernelRegressor(**SMALL, time_limit=60.0).fit(X, Y)
    assert 10 <= len(model.dual_coef_) < 30  # half of the time


def test_a_ridge_below_the_rounding_of_float32_is_solved_in_float64():
    """A target without noise asks for a ridge of 1e-7, which float32 cannot tell from 0."""
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(400, 2)).astype(np.float32)
    target = np.sin(3 * points[:, 0]) * points[:, 1]
    missed = []
    for dtype in (np.float64, np.float32):
        rows = points.astype(dtype)
        model = LearnedKernelRegressor(kernel=Matern(1.5), rounds=1).fit(rows[:300], target[:300])
        assert "adding" not in str(model.solution_.status)
        missed.append(np.abs(model.predict(rows[300:]) - target[300:]).mean())
    assert missed[1] < 1.5 * missed[0]


def test_tables_with_categories_are_encoded_before():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": X[:, 1], "town": np.where(X[:, 0] > 0, "Bonn", "Rome")})
    with pytest.raises(ValueError, match=r"columns \['town'\] .* make_pipeline\(TableEncoder\(\)"):
        LearnedKernelRegressor(**SMALL).fit(frame, Y)
    encoder = TableEncoder().set_output(transform="pandas")
    model = make_pipeline(encoder, LearnedKernelRegressor(**SMALL)).fit(frame, Y)
    assert next(iter(model[-1].importances())) == "size"


def test_explain_names_columns_that_nearly_determine_the_targets():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(rng.uniform(size=(300, 4)), columns=["wind", "casual", "hour", "all"])
    total = table["casual"] * (1.0 + table["all"])
    leaking = LearnedKernelRegressor(kernel=Matern(1.5), form="diagonal", rounds=2)
    assert "columns casual, all: leave out" in leaking.fit(table, total).explain()
    noisy = total + 0.1 * rng.standard_normal(300)
    assert "leave out" not in leaking.fit(table, noisy).explain()


def test_a_time_that_is_not_positive_is_refused():
    for estimator in (LearnedKernelRegressor, LearnedKernelClassifier):
        with pytest.raises(ValueError, match="needs a finite time_limit > 0; got -1"):
            estimator(time_limit=-1).fit(X, Y > 0)


def test_sparse_rows_are_refused_by_their_name():
    with pytest.raises(ValueError, match=r"got csr_array: write X\.toarray"):
        LearnedKernelRegressor().fit(scipy.sparse.csr_array(X), Y)


def test_where_there_is_time_for_some_passes_they_are_in_blocks(monkeypatch):
    slowly(monkeypatch, 100.0, passes=10)
    model = LearnedKernelRegressor(**SMALL, time_limit=60.0).fit(X, Y)
    assert len(model.dual_coef_) == len(X)
    assert "in blocks" in str(model.solution_.status)
    assert model.alpha_ == model.learned_.alpha
    exact = LearnedKernelRegressor(**SMALL, solver=Direct()).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), exact.predict(X), atol=1e-4)


def test_passes_in_blocks_serve_several_classes(monkeypatch):
    slowly(monkeypatch, 100.0, passes=10)
    labels = np.digitize(X[:, 1], [-0.5, 0.5])
    model = LearnedKernelClassifier(**SMALL, time_limit=60.0).fit(X, labels)
    assert "in blocks" in str(model.solution_.status)
    assert model.score(X, labels) > 0.9


def test_kernels_whose_products_take_too_long_are_not_compared(monkeypatch):
    costs = {"Laplacian": 9.0, "StretchedExponential": 50.0, "Exponential": 4.0, "Matern": 7.0}
    monkeypatch.setattr(
        automatic, "exact_seconds", lambda kernel, points: costs[type(kernel).__name__]
    )
    for limit, names in ((20.0, {"Exponential", "Matern"}), (1.0, {"Exponential"})):
        model = LearnedKernelRegressor(rounds=1, rows=60, time_limit=limit).fit(X, Y)
        assert {type(kernel).__name__ for kernel, _ in model.race_.candidates} == names


def test_time_for_foreseeing_is_part_of_the_limit(monkeypatch):
    monkeypatch.setattr(automatic, "exact_seconds", lambda kernel, points: time.sleep(0.2) or 1.0)
    limits = []

    def learning(candidates, settings, *args):
        limits.append(settings.time_limit)
        return raced(candidates[:1], settings, *args)

    monkeypatch.setattr(learned, "raced", learning)
    LearnedKernelRegressor(rounds=1, rows=60, time_limit=10.0).fit(X, Y)
    assert 0.0 < limits[0] <= 6.0 - 5 * 0.2


def test_tensors():
    torch = pytest.importorskip("torch")
    model = LearnedKernelRegressor(**SMALL).fit(X, Y)
    same = LearnedKernelRegressor(**SMALL).fit(torch.as_tensor(X), torch.as_tensor(Y))
    values = same.predict(torch.as_tensor(X))
    assert isinstance(values, torch.Tensor)
    np.testing.assert_allclose(values.numpy(), model.predict(X), rtol=1e-6, atol=1e-8)
