"""Estimators on arrays of Dask learn what they learn from the same arrays of NumPy."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV

from mercer import (
    SVC,
    KernelCCA,
    KernelClassifier,
    KernelKMeans,
    KernelPCA,
    KernelRegressor,
    KernelRidge,
)
from mercer.distributed import Rows
from mercer.estimators import losses
from mercer.features import RandomFourierFeatures
from mercer.features.centres import Given, LeverageScores, RandomlyPivoted
from mercer.kernels import Gaussian
from mercer.losses import Logistic, Squared
from mercer.online import DoublyStochasticMachine, OnlineKernelMachine, RandomFeatureMachine
from mercer.operators import Gram
from mercer.solvers import (
    DoublyStochastic,
    MiniBatch,
    Newton,
    Problem,
    StochasticFunctionalGradient,
    regularization_path,
)
from mercer.solvers.schedules import Constant

da = pytest.importorskip("dask.array")
pytest.importorskip("distributed")

N = 600
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.standard_normal(N)
WEIGHTS = RNG.uniform(0.1, 1.0, N)
TWO = np.where(Y > 0, "up", "down")
THREE = np.digitize(Y, [-0.4, 0.4])
ON = {"kernel": Gaussian(1.0), "centres": Given(X[:12])}

MODELS = {
    "targets": (KernelRidge([0.1, 1.0], **ON), np.stack([Y, Y**2], axis=1), WEIGHTS),
    "huber": (KernelRegressor("huber", 1e-2, tol=1e-8, **ON), Y, WEIGHTS),
    "multinomial": (KernelClassifier("multinomial", 0.1, tol=1e-8, **ON), THREE, None),
    "hinge": (KernelClassifier("hinge", 1.0, tol=0.1, **ON), TWO, None),
    "balanced": (KernelClassifier(regularization=0.1, class_weight="balanced", **ON), TWO, WEIGHTS),
    "pivoted": (
        KernelRidge(0.1, kernel=Gaussian(1.0), centres=RandomlyPivoted(20, random_state=0)),
        Y,
        None,
    ),
    "early stopping": (
        KernelRegressor("huber", 1e-6, early_stopping=True, random_state=0, **ON),
        Y,
        None,
    ),
}


def scattered(array: np.ndarray) -> object:
    return da.from_array(array, chunks=(240, *array.shape[1:]))


@pytest.mark.parametrize("name", MODELS)
def test_the_same_model_from_a_cluster(cluster, name):
    model, y, weights = MODELS[name]
    here = clone(model).fit(X, y, weights)
    there = clone(model).fit(
        scattered(X), scattered(y), None if weights is None else scattered(weights)
    )
    assert there.solution_.status.converged == here.solution_.status.converged
    np.testing.assert_allclose(there.dual_coef_, here.dual_coef_, rtol=1e-5, atol=1e-6)
    assert isinstance(there.dual_coef_, np.ndarray)
    found = there.predict(scattered(X))
    assert isinstance(found, da.Array)
    assert found.chunks[0] == scattered(X).chunks[0]
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found.compute(), here.predict(X), atol=1e-6)
    else:
        np.testing.assert_array_equal(found.compute(), here.predict(X))
    stored = pickle.loads(pickle.dumps(there))
    np.testing.assert_array_equal(stored.predict(X[:5]), there.predict(X[:5]))


def test_float32_rows_are_passed_over_in_float32(cluster):
    low = X.astype(np.float32)
    here, there = KernelRidge(0.1, **ON), KernelRidge(0.1, **ON)
    here.fit(low, Y)
    there.fit(scattered(low), scattered(Y))
    np.testing.assert_allclose(there.predict(low), here.predict(low), atol=1e-5)


def test_no_array_with_a_number_for_each_row_comes_here(cluster, monkeypatch):
    """Some rows are far out, so that a sample for the preconditioner is drawn by leverage."""
    rng, n = np.random.default_rng(0), 20_000
    far = rng.standard_normal((n, 2)) * np.where(rng.random((n, 1)) < 0.01, 6.0, 1.0)
    grid = np.linspace(-8.0, 8.0, 14)
    y, centres = np.sin(far[:, 0]), np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    model = KernelRidge(1e-5 * n, kernel=Gaussian(0.6), centres=Given(centres))
    wanted = clone(model).fit(far, y)
    rows, targets = (da.from_array(a, chunks=(7000, *a.shape[1:])).persist() for a in (far, y))

    def refused(self, *args, **options):
        raise AssertionError(f"{self} came here")

    monkeypatch.setattr(Rows, "__array__", refused)
    found = model.fit(rows, targets)
    np.testing.assert_allclose(found.predict(far[:50]), wanted.predict(far[:50]), atol=1e-5)
    assert wanted.solution_.history["preconditioners"] == [2]  # one of them for leverages


def test_kinks_are_smoothed_on_centres(cluster, monkeypatch):
    few = losses.Tuning(most_centres=100)  # of tensors, not of these
    monkeypatch.setattr(losses, "TUNING", few)
    model = KernelClassifier("hinge", 1e-2, kernel=Gaussian(1.0), tol=0.1, random_state=0)
    model.fit(scattered(X[:240]), scattered(TWO[:240]))
    assert model.solution_.status.converged
    assert model.score(X, TWO) > 0.8


def test_tables(cluster):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=Y)
    table = dd.from_pandas(frame, npartitions=3)
    model = KernelRidge(0.1, **ON).fit(table[["a", "b"]], table["y"])
    assert model.feature_names_in_.tolist() == ["a", "b"]
    found = model.predict(table[["a", "b"]])
    assert found.numblocks == (3,)
    np.testing.assert_allclose(found.compute(), model.predict(frame[["a", "b"]]), rtol=1e-12)
    with pytest.raises(ValueError, match="columns must be numbers"):
        model.fit(table.assign(a=table["a"].astype(str))[["a", "b"]], table["y"])


def test_by_default_f_is_sought_on_centres(cluster):
    model = KernelRidge(0.1, kernel="rbf", gamma="median", random_state=0)
    model.fit(scattered(X), scattered(Y))
    assert model.score(scattered(X), scattered(Y)) == pytest.approx(model.score(X, Y))
    assert len(model.X_fit_) <= N
    assert float(np.mean((model.predict(X) - Y) ** 2)) < 0.02
    with pytest.raises(ValueError, match="seek f on centres"):
        Gram(Gaussian(), Gaussian().points(scattered(X))) @ np.ones(N)


def test_other_estimators_refuse_and_say_which_do_not(cluster):
    with pytest.raises(ValueError, match="SVC is not fitted to rows on a cluster"):
        SVC().fit(scattered(X), scattered(TWO))


def test_features(cluster):
    phi = RandomFourierFeatures(Gaussian(1.0), n_components=20, random_state=0).fit(scattered(X))
    np.testing.assert_allclose(phi.transform(scattered(X)).compute(), phi.transform(X))
    equations = phi.normal_equations(scattered(X), scattered(Y), sample_weight=WEIGHTS)
    assert equations.features is phi
    f = equations.ridge(1e-3)
    expected = phi.normal_equations(X, Y, WEIGHTS).ridge(1e-3)(X)
    np.testing.assert_allclose(f(X), expected, rtol=1e-9)
    values = f(scattered(X))
    assert values.chunks == (scattered(X).chunks[0],)
    np.testing.assert_allclose(values.compute(), expected, rtol=1e-9)
    total = phi.weighted_sum(scattered(X), scattered(Y))
    np.testing.assert_allclose(total, phi.weighted_sum(X, Y), rtol=1e-9, atol=1e-12)
    signs = np.sign(Y)
    solvers = {Newton(1e-9): True, MiniBatch(1, Constant(1.0), batch_size=200): False}
    for solver, fit_intercept in solvers.items():
        here, there = (
            solver.solve(
                Problem.on_features(phi, rows, y, Logistic(), 1e-3, fit_intercept=fit_intercept)
            )
            for rows, y in ((X, signs), (scattered(X), scattered(signs)))
        )
        np.testing.assert_allclose(there.coefficients, here.coefficients, atol=1e-6)


def test_components(cluster):
    here = KernelPCA(2, kernel=Gaussian(1.0), centres=Given(X[:20])).fit(X)
    there = KernelPCA(2, kernel=Gaussian(1.0), centres=Given(X[:20])).fit(scattered(X))
    np.testing.assert_allclose(there.eigenvalues_, here.eigenvalues_, rtol=1e-10)
    found = there.transform(scattered(X))
    assert found.chunks == (scattered(X).chunks[0], (2,))
    np.testing.assert_allclose(found.compute(), here.transform(X), atol=1e-9)


def test_views(cluster):
    model = KernelCCA(1, kernel=Gaussian(1.0), centres=20, random_state=0)
    here, there = clone(model).fit(X, X**2), model.fit(scattered(X), scattered(X**2))
    np.testing.assert_allclose(there.correlations_, here.correlations_, rtol=1e-9)
    for found, expected in zip(
        there.transform(scattered(X), scattered(X**2)), here.transform(X, X**2), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_dashboard_shows_what_tasks_do_and_callbacks_count_steps(cluster):
    steps = []
    solver = Newton(1e-9, sample=60, callback=lambda step, progress: steps.append(step))
    model = KernelRidge(0.1, solver=solver, **ON).fit(scattered(X), scattered(Y))
    model.predict(scattered(X)).compute()
    shown = set(cluster.cluster.scheduler.task_prefixes)
    assert {"mercer-rows", "mercer-row-pass", "mercer-row-pass-sum", "mercer-predict"} <= shown
    assert steps
    assert steps == sorted(steps)


def test_the_progress_bar(cluster, capsys):
    callback = pytest.importorskip("sklearn.callback")
    pytest.importorskip("rich")
    model = KernelRidge(0.1, **ON).set_callbacks(callback.ProgressBar())
    model.fit(scattered(X), scattered(Y))
    assert "KernelRidge - fit" in capsys.readouterr().out


def test_the_plan_is_in_explain(cluster):
    text = KernelRidge(0.1, **ON).explain(scattered(X), scattered(Y))
    assert "t = t₀ + n(PM + ρ)τ/W + (P + R)ℓ" in text
    assert "(2W + 2)Mk = 72 numbers a pass" in text


MACHINES = {
    "kernel": OnlineKernelMachine(kernel=Gaussian(1.0), passes=2),
    "features": RandomFeatureMachine(kernel=Gaussian(1.0), passes=2, random_state=0),
    "doubly stochastic": DoublyStochasticMachine(kernel=Gaussian(1.0), passes=2, random_state=0),
}


@pytest.mark.parametrize("name", MACHINES)
def test_machines_learn_block_by_block(cluster, name):
    x, y = X[:60], np.sign(Y[:60])
    rows, targets = da.from_array(x, chunks=(25, 2)), da.from_array(y, chunks=25)
    here = clone(MACHINES[name]).fit(x, y)
    there = clone(MACHINES[name]).fit(rows, targets)
    assert there.n_samples_seen_ == here.n_samples_seen_ == 120
    assert there.classes_.tolist() == [-1.0, 1.0]
    np.testing.assert_allclose(there.decision_function(x), here.decision_function(x), rtol=1e-9)
    assert there.partial_fit(rows, targets).n_samples_seen_ == 180


def test_random_features_of_few_rows_at_a_time(cluster):
    kernel, y = Gaussian(1.0), np.sign(Y)
    there, here = (
        DoublyStochastic(3, Constant(1.0), batch_size=20, frequencies=8).solve(
            Problem(kernel.gram(rows), targets, Logistic(), 1e-2)
        )
        for rows, targets in ((scattered(X), scattered(y)), (X, y))
    )
    np.testing.assert_allclose(there.coefficients, here.coefficients, rtol=1e-12)
    with pytest.raises(ValueError, match="these rows are on a cluster"):
        StochasticFunctionalGradient(1, Constant(1.0)).solve(
            Problem(kernel.gram(scattered(X)), scattered(y), Logistic(), 1e-2)
        )


def test_centres_by_leverage_are_drawn_where_the_rows_are(cluster):
    far = np.concatenate([0.01 * X, [[5.0, 5.0]]])  # a point that nothing else is like
    centres = LeverageScores(10, random_state=0).choose(Gaussian(1.0), scattered(far))
    assert len(set(centres.indices.tolist())) == 10
    np.testing.assert_array_equal(centres.points.data, far[centres.indices])
    assert N in centres.indices
    again = LeverageScores(10, random_state=0).choose(Gaussian(1.0), scattered(far))
    np.testing.assert_array_equal(again.indices, centres.indices)


def test_clusters(cluster):
    centres = RNG.standard_normal((3, 2)) * 20.0
    groups = RNG.integers(3, size=N)
    points = centres[groups] + X
    model = KernelKMeans(3, kernel=Gaussian(10.0), features=30, random_state=0, n_init=1)
    model.fit(scattered(points))
    assert isinstance(model.labels_, np.ndarray)
    assert adjusted_rand_score(groups, model.labels_) == 1.0
    np.testing.assert_array_equal(model.predict(scattered(points)).compute(), model.labels_)


def test_parquet_by_path(cluster, tmp_path):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=Y)
    for part in range(2):
        frame[part * 300 : (part + 1) * 300].to_parquet(tmp_path / f"part.{part}.parquet")
    table = dd.read_parquet(tmp_path)
    for model in (
        KernelRidge(0.1, **ON),
        KernelRegressor("huber", 1e-2, tol=1e-8, **ON),
        KernelPCA(2, **ON),
    ):
        there = clone(model).fit(table[["a", "b"]], table["y"])
        here = clone(model).fit(frame[["a", "b"]], Y)
        found = there.function_(frame[["a", "b"]].to_numpy())
        np.testing.assert_allclose(found, here.function_(X), atol=1e-8)
    machine = MACHINES["kernel"]
    there = clone(machine).fit(table[["a", "b"]], table["y"] > 0)
    assert there.feature_names_in_.tolist() == ["a", "b"]
    here = clone(machine).fit(frame[["a", "b"]], Y > 0)
    np.testing.assert_allclose(
        there.decision_function(frame[["a", "b"]]), here.decision_function(frame[["a", "b"]])
    )


def test_a_search_runs_its_candidates_on_the_cluster(cluster):
    import joblib

    search = GridSearchCV(KernelRidge(0.1, **ON), {"alpha": [1e-3, 1.0]}, cv=2)
    with joblib.parallel_config(backend="dask"):
        search.fit(X, Y)
    assert (
        search.best_params_
        == GridSearchCV(KernelRidge(0.1, **ON), {"alpha": [1e-3, 1.0]}, cv=2).fit(X, Y).best_params_
    )


def test_a_path_of_ridges(cluster):
    kernel = Gaussian(1.0)
    cross = Gram(kernel, kernel.points(scattered(X)), kernel.points(X[:30]))
    targets = scattered(Y)
    ridges = [1e-2, 1e-3]
    there = regularization_path(
        Problem.on_centres(cross, targets, Squared(), ridges[0]), ridges, Newton(1e-9)
    )
    here = regularization_path(
        Problem.on_centres(kernel.gram(X, X[:30]), Y, Squared(), ridges[0]), ridges, Newton(1e-9)
    )
    for ours, theirs in zip(there, here, strict=True):
        ours, theirs = ours.solution.coefficients, theirs.solution.coefficients
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
