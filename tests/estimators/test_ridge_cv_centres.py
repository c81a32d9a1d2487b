"""KernelRidgeCV on centres: leave-one-out errors against refits, and the switch for many rows."""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from mercer import KernelRidge, KernelRidgeCV
from mercer.errors import ApproximationWarning
from mercer.estimators import ridge
from mercer.features.centres import Given
from mercer.kernels import Gaussian
from mercer.runtime.threads import blas
from mercer.solvers import HeldOut

# which grids as small as these are full of
pytestmark = pytest.mark.filterwarnings("ignore::mercer.errors.GridEdgeWarning")

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (60, 2))
Y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.standard_normal(60)
CENTRES = Given(points=X[:15])


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_errors_are_those_of_refits_without_each_row(fit_intercept):
    alphas, scales = [1e-3, 0.1], [0.5, 1.0]
    model = KernelRidgeCV(
        alphas, lengthscales=scales, centres=CENTRES, fit_intercept=fit_intercept
    ).fit(X, Y)
    expected = np.zeros((2, 2))
    for i, scale in enumerate(scales):
        for j, alpha in enumerate(alphas):
            one = KernelRidge(
                alpha, kernel=Gaussian(scale), centres=CENTRES, fit_intercept=fit_intercept
            )
            for row in range(0, 60, 4):
                rest = np.delete(np.arange(60), row)
                gap = one.fit(X[rest], Y[rest]).predict(X[row : row + 1]) - Y[row]
                expected[i, j] += gap[0] ** 2
    rows = np.arange(0, 60, 4)
    assert model.cv_errors_.shape == (2, 2)
    best = np.unravel_index(model.cv_errors_.argmin(), (2, 2))
    assert (model.alpha_, model.kernel_.lengthscale) == (alphas[best[1]], scales[best[0]])
    own = _left_out(model, rows, alphas, scales, fit_intercept)
    assert np.allclose(own, expected, rtol=1e-4)


def _left_out(model, rows, alphas, scales, fit_intercept):
    """The same errors on some rows, by the formula for leverages of features."""
    found = np.zeros((2, 2))
    for i, scale in enumerate(scales):
        kernel = Gaussian(scale)
        L = np.linalg.cholesky(kernel(X[:15], X[:15]) + 1e-13 * np.eye(15))
        Z = np.linalg.solve(L, kernel(X[:15], X)).T
        A = np.hstack([Z, np.ones((60, 1))]) if fit_intercept else Z
        for j, alpha in enumerate(alphas):
            penalty = alpha * np.eye(A.shape[1])
            if fit_intercept:
                penalty[-1, -1] = 0.0
            H = A @ np.linalg.solve(A.T @ A + penalty, A.T)
            left = (Y - H @ Y) / (1.0 - H.diagonal())
            assert np.isclose((left**2).mean(), model.cv_errors_[i, j], rtol=1e-6)
            found[i, j] = (left[rows] ** 2).sum()
    return found


def test_weights_are_repetitions_of_the_fit():
    weights = RNG.integers(0, 3, 60).astype(float)
    one = KernelRidgeCV([0.1], lengthscales=[0.7], centres=CENTRES).fit(X, Y, weights)
    many = np.repeat(np.arange(60), weights.astype(int))
    other = KernelRidge(0.1, kernel=Gaussian(0.7), centres=CENTRES).fit(X[many], Y[many])
    assert np.allclose(one.predict(X), other.predict(X), atol=1e-5)


def test_many_rows_take_centres_and_say_how_long_all_would_take(monkeypatch):
    monkeypatch.setattr(ridge, "TUNING", ridge.Tuning(patience=1e-9))
    monkeypatch.setattr(ridge.automatic, "default_centres", lambda rows: 20)
    with pytest.warns(
        ApproximationWarning, match=r"60 rows are too many for 10 eigen.* 20 centres"
    ):
        model = KernelRidgeCV(random_state=0).fit(X, Y)
    assert len(model.X_fit_) == 20
    assert model.score(X, Y) > 0.9
    assert "That is too much, so α and lengthscale are chosen on 20" in model.explain(X, Y)


def test_what_a_search_takes_is_foreseen():
    text = KernelRidgeCV().explain(np.zeros((3000, 2)) + np.arange(3000)[:, None], np.zeros(3000))
    assert re.match(r"\d+ eigendecompositions of 3,000 rows: about \d+ s and [\d,]+ MB\.", text)
    many = KernelRidgeCV().explain(np.arange(50_000.0)[:, None], np.zeros(50_000))
    assert re.search(r"chosen on [\d,]+ centres: about \d+ s", many)
    rows = np.arange(9000.0)[:, None]
    for options in ({"centres": 50}, {"centres": 50, "validation_fraction": 0.2}):
        text = KernelRidgeCV(**options).explain(rows, rows[:, 0])
        assert re.match(r"10 lengthscales, each with a path over α: about [\d.e-]+ s", text)


@pytest.mark.parametrize("centres", [None, CENTRES])
def test_lengthscales_are_judged_side_by_side_each_in_one_thread(centres, monkeypatch):
    """Threads of LAPACK wait for each other thousands of times, which a busy machine makes slow."""
    seen, eigh, both = [], np.linalg.eigh, threading.Barrier(2)

    def watched(matrix):
        seen.append((threading.current_thread().name, blas()[1]))
        with suppress(threading.BrokenBarrierError):
            both.wait(10.0)  # the second thread may come late on a busy machine
        return eigh(matrix)

    scales = [0.2, 0.5, 1.0, 2.0]
    alone = [KernelRidgeCV(lengthscales=[s], centres=centres).fit(X, Y) for s in scales]
    monkeypatch.setattr(np.linalg, "eigh", watched)
    monkeypatch.setattr(ridge, "thread_count", lambda: 2)
    model = KernelRidgeCV(lengthscales=scales, centres=centres).fit(X, Y)
    np.testing.assert_allclose(
        model.cv_errors_, np.concatenate([m.cv_errors_ for m in alone]), rtol=1e-5
    )
    assert len(seen) == 4
    assert {threads for _, threads in seen} == {1}
    assert sum(name.startswith("mercer") for name, _ in seen) >= 1


def test_many_rows_take_as_many_centres_as_are_judged_in_a_minute(monkeypatch):
    """10,000 rows of kin40k on 1,000 centres were worse than 2,500 rows, all of them centres."""
    monkeypatch.setattr(ridge, "thread_count", lambda: 2)
    for rows, least, most in ((10_000, 2000, 3000), (50_000, 1000, 1500)):
        text = KernelRidgeCV().explain(np.arange(float(rows))[:, None], np.zeros(rows))
        count = re.search(r"chosen on ([\d,]+) centres", text).group(1)
        assert least <= int(count.replace(",", "")) <= most


# ---- held-out rows in place of leave-one-out -----------------------------------------------------


@pytest.mark.parametrize("centres", [None, CENTRES])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_held_out_errors_are_those_of_fits_to_the_other_rows(centres, fit_intercept):
    alphas, scales = [1e-3, 0.1, 3.0], [0.5, 1.0]
    y = np.stack([Y, Y**2], axis=1)
    weights = RNG.uniform(0.5, 2.0, 60)
    model = KernelRidgeCV(
        alphas,
        lengthscales=scales,
        centres=centres,
        fit_intercept=fit_intercept,
        validation_fraction=0.25,
        random_state=4,
    ).fit(X, y, weights)
    hidden = HeldOut(0.25, random_state=4).hidden(weights)
    assert hidden.sum() == 15
    rest = ~hidden
    expected = np.zeros((2, 3))
    for i, scale in enumerate(scales):
        for j, alpha in enumerate(alphas):
            same = alpha * weights[rest].sum() / weights.sum()  # the same λ
            one = KernelRidge(
                same, kernel=Gaussian(scale), centres=centres, fit_intercept=fit_intercept
            ).fit(X[rest], y[rest], weights[rest])
            missed = ((one.predict(X[hidden]) - y[hidden]) ** 2).mean(axis=1)
            expected[i, j] = np.average(missed, weights=weights[hidden])
    rough = 0.02 if centres is None else 1e-3
    np.testing.assert_allclose(model.cv_errors_, expected, rtol=rough)
    best = np.unravel_index(model.cv_errors_.argmin(), (2, 3))
    assert (model.alpha_, model.kernel_.lengthscale) == (alphas[best[1]], scales[best[0]])
    assert model.best_score_ == -model.cv_errors_.min()
    whole = KernelRidge(
        model.alpha_, kernel=model.kernel_, centres=centres, fit_intercept=fit_intercept
    ).fit(X, y, weights)
    np.testing.assert_allclose(model.predict(X), whole.predict(X), rtol=1e-3, atol=1e-3)
    assert model.solution_.status.converged


def test_many_rows_are_judged_on_centres_where_all_would_take_too_long(monkeypatch):
    from mercer.solvers import automatic

    monkeypatch.setattr(automatic, "TUNING", replace(automatic.TUNING, small=30, patience=1e-9))
    monkeypatch.setattr(automatic, "default_centres", lambda rows: 20)
    search = KernelRidgeCV([1e-3, 0.1], lengthscales=[0.7], validation_fraction=0.2, random_state=0)
    with pytest.warns(ApproximationWarning, match=r"60 rows are too many for conj.* 20 centres"):
        model = search.fit(X, Y)
    assert len(model.X_fit_) == 20
    with pytest.raises(ValueError, match="validation_fraction must be between 0 and 1; got 2"):
        KernelRidgeCV(validation_fraction=2).fit(X, Y)
