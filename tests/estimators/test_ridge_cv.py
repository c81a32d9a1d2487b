"""KernelRidgeCV: its errors are those of refits, and its choice is the least of them."""

from __future__ import annotations

import tracemalloc
import warnings
from itertools import product

import numpy as np
import pytest
import scipy.sparse
from sklearn.model_selection import GridSearchCV, LeaveOneOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import KernelRidge, KernelRidgeCV, linalg
from mercer.errors import GridEdgeWarning, IndefiniteKernelWarning
from mercer.estimators.lengthscales import MEDIAN_FACTORS, median_distance
from mercer.kernels import Gaussian, Laplacian, Linear, Matern, Precomputed

# which grids as small as these are full of
pytestmark = pytest.mark.filterwarnings("ignore::mercer.errors.GridEdgeWarning")

N = 30
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1]]) + 0.2 * RNG.standard_normal((N, 2)) + 1.0
SCALES, ALPHAS = [0.4, 1.5], [1e-3, 0.1, 3.0]
TARGETS = {"one": Y[:, 0], "column": Y[:, :1], "two": Y}
WEIGHTS = {"none": None, "weights": RNG.uniform(0.2, 1.0, N), "counts": RNG.integers(0, 3, N)}


def refitted(K, targets, weights, alpha, intercept, row):
    """The prediction at a row of K by the ridge fit on points with weight, by NumPy's solve."""
    kept = np.flatnonzero(weights)
    system = K[np.ix_(kept, kept)] + np.diag(alpha / weights[kept])
    border = np.full((len(kept), 1), float(intercept))  # without an intercept, an empty equation
    whole = np.block([[system, border], [border.T, np.full((1, 1), float(not intercept))]])
    sides = np.concatenate([targets[kept], np.zeros((1, targets.shape[1]))])
    solved = np.linalg.solve(whole, sides)
    return K[row, kept] @ solved[:-1] + intercept * solved[-1]


def brute_force(targets, weights, intercept):
    """The errors by refitting without each point (without one unit of a larger weight)."""
    w = np.ones(N) if weights is None else np.asarray(weights, float)
    columns, errors = targets.reshape(N, -1), np.zeros((len(SCALES), len(ALPHAS)))
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    for (i, scale), (j, alpha) in product(enumerate(SCALES), enumerate(ALPHAS)):
        K, gaps = np.exp(-squares / (2 * scale**2)), np.zeros_like(columns)
        for k in np.flatnonzero(w):
            rest = w.copy()
            rest[k] = max(0.0, rest[k] - 1.0)
            gaps[k] = refitted(K, columns, rest, alpha, intercept, k) - columns[k]
        errors[i, j] = np.average(gaps**2, axis=0, weights=w).mean()
    return errors


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
@pytest.mark.parametrize("targets", TARGETS.values(), ids=TARGETS.keys())
def test_errors_are_those_of_refits(targets, intercept, weights):
    model = KernelRidgeCV(
        ALPHAS, kernel=Gaussian(9.0), lengthscales=SCALES, fit_intercept=intercept
    ).fit(X, targets, weights)
    truth = brute_force(targets, weights, intercept)
    assert model.cv_errors_.shape == (2, 3)
    assert np.allclose(model.cv_errors_, truth, rtol=1e-8)
    row, column = np.unravel_index(np.argmin(truth), truth.shape)
    assert (model.kernel_.lengthscale, model.alpha_) == (SCALES[row], ALPHAS[column])
    assert np.isclose(model.best_score_, -truth.min())
    assert list(model.lengthscales_) == SCALES


@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
def test_errors_are_those_of_scikit_learns_leave_one_out(intercept):
    model = KernelRidgeCV(ALPHAS, kernel=Matern(1.5), lengthscales=SCALES, fit_intercept=intercept)
    some, y = X[:14], Y[:14, 0]
    model.fit(some, y)
    search = GridSearchCV(
        KernelRidge(kernel=Matern(1.5), fit_intercept=intercept),
        {"kernel__lengthscale": SCALES, "alpha": ALPHAS},
        cv=LeaveOneOut(),
        scoring="neg_mean_squared_error",
    ).fit(some, y)
    for parameters, score in zip(
        search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
    ):
        row = SCALES.index(parameters["kernel__lengthscale"])
        column = ALPHAS.index(parameters["alpha"])
        assert np.isclose(model.cv_errors_[row, column], -score, rtol=1e-8)
    assert np.allclose(model.predict(X), search.predict(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
def test_the_fit_is_that_of_the_choice(intercept, weights):
    model = KernelRidgeCV(fit_intercept=intercept).fit(X, Y, weights)
    direct = KernelRidge(model.alpha_, kernel=model.kernel_, fit_intercept=intercept)
    direct.fit(X, Y, weights)
    new = RNG.standard_normal((5, 2))
    assert np.allclose(model.predict(new), direct.predict(new), rtol=0, atol=1e-6)
    assert np.allclose(model.function_(new) + model.intercept_, model.predict(new))


def test_repeated_data_choose_like_weights():
    counts = RNG.integers(0, 3, N)
    weighted = KernelRidgeCV().fit(X, Y, counts)
    repeated = KernelRidgeCV().fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0))
    assert np.allclose(weighted.lengthscales_, repeated.lengthscales_)
    assert (weighted.alpha_, weighted.kernel_) == (repeated.alpha_, repeated.kernel_)
    kept = weighted.cv_errors_ < 1e3
    assert np.allclose(weighted.cv_errors_[kept], repeated.cv_errors_[kept], rtol=1e-4)


def test_each_lengthscale_is_decomposed_once(monkeypatch):
    calls, eigen = [], linalg.eigen
    monkeypatch.setattr(linalg, "eigen", lambda matrix: calls.append(1) or eigen(matrix))
    monkeypatch.setattr(linalg, "cholesky", None)
    KernelRidgeCV(np.geomspace(1e-6, 1.0, 30), lengthscales=[0.5, 1.0, 2.0]).fit(X, Y)
    assert len(calls) == 3


# ---- which lengthscales --------------------------------------------------------------------------


def median_by_pairs(rows):
    rows = np.unique(rows, axis=0)
    gaps = [np.linalg.norm(a - b) for i, a in enumerate(rows) for b in rows[:i]]
    return np.median(gaps)


@pytest.mark.parametrize("kernel", ["rbf", Gaussian(3.0), Matern(1.5), Laplacian(), "laplacian"])
def test_auto_looks_around_the_median_distance(kernel):
    model = KernelRidgeCV(ALPHAS, kernel=kernel).fit(X, Y)
    assert np.allclose(model.lengthscales_, median_by_pairs(X) * np.logspace(-1, 1, 10))
    assert model.cv_errors_.shape == (10, 3)
    assert model.kernel_.lengthscale in model.lengthscales_


def test_the_median_is_of_distinct_points_with_weight():
    rows = np.array([[0.0], [1.0], [3.0], [3.0], [100.0]])
    assert median_distance(rows, [1, 1, 1, 1, 0]) == 2.0
    assert median_distance(rows[:4]) == 2.0
    assert median_distance(rows[2:4]) == 1.0
    assert median_distance(scipy.sparse.csr_array(rows[:4])) == 2.0


def test_the_median_of_many_points_is_that_of_a_sample():
    rows = np.random.default_rng(1).standard_normal((20_000, 2))
    some = median_by_pairs(rows[:300])
    assert abs(median_distance(rows) / some - 1) < 0.1


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_median_of_wide_points_takes_little_memory(kind):
    rows = np.random.default_rng(1).standard_normal((120, 2000))
    rows = scipy.sparse.csr_array(rows * (rows > 2)) if kind == "sparse" else rows
    tracemalloc.start()
    median_distance(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 120 * 2000 * 8


@pytest.mark.parametrize(
    ("parameters", "kernel"),
    [
        ({"lengthscales": None}, Gaussian(1.0)),  # gamma = 1/2 by default
        ({"gamma": 2.0}, Gaussian(0.5)),
        ({"kernel": "linear"}, Linear()),
        ({"kernel": Gaussian(3.0), "lengthscales": None}, Gaussian(3.0)),
    ],
    ids=["none", "gamma", "linear", "kernel"],
)
def test_where_nothing_is_to_be_chosen_the_kernel_stays(parameters, kernel):
    model = KernelRidgeCV(ALPHAS, **parameters).fit(X, Y)
    assert model.kernel_ == kernel
    assert model.lengthscales_ is None
    assert model.cv_errors_.shape == (1, 3)


def test_one_number_is_one_lengthscale():
    model = KernelRidgeCV(ALPHAS, lengthscales=0.7).fit(X, Y)
    assert model.kernel_ == Gaussian(0.7)
    assert model.cv_errors_.shape == (1, 3)


def test_sparse_points_have_a_median_too():
    dense = KernelRidgeCV(ALPHAS).fit(X, Y)
    sparse = KernelRidgeCV(ALPHAS).fit(scipy.sparse.csr_array(X), Y)
    assert np.allclose(dense.cv_errors_, sparse.cv_errors_, rtol=1e-6)
    assert len(MEDIAN_FACTORS) == 10


def test_the_default_alphas_reach_from_interpolation_to_nothing():
    model = KernelRidgeCV().fit(X, Y)
    assert model.cv_errors_.shape == (10, 31)
    assert 1e-8 <= model.alpha_ <= 1e2


def test_it_works_in_a_pipeline_and_a_search():
    pipeline = make_pipeline(StandardScaler(), KernelRidgeCV(ALPHAS, kernel=Matern(1.5)))
    search = GridSearchCV(pipeline, {"kernelridgecv__kernel__smoothness": [0.5, 2.5]}, cv=3)
    search.fit(X, Y[:, 0])
    assert len(np.unique(search.cv_results_["mean_test_score"])) == 2


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"alphas": [0.1, -1.0]}, r"alphas must be positive and finite; got \[0.1, -1.0\]"),
        ({"alphas": [0.0]}, "alphas must be positive and finite"),
        ({"alphas": []}, "alphas must be positive and finite"),
        ({"alphas": [np.nan]}, "alphas must be positive and finite"),
        ({"lengthscales": "median"}, "lengthscales must be \"auto\", None or a list; got 'median'"),
        ({"kernel": "linear", "lengthscales": [1.0]}, r"Linear.* has no lengthscale to choose"),
        ({"kernel": Linear(), "lengthscales": [1.0]}, "write lengthscales=None"),
        ({"lengthscales": [0.5, -1.0]}, "Gaussian needs a finite lengthscale > 0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(parameters, text):
    with pytest.raises(ValueError, match=text):
        KernelRidgeCV(**parameters).fit(X, Y)


def test_no_lengthscales_at_all_are_refused():
    with pytest.raises(ValueError, match="lengthscales"):
        KernelRidgeCV(lengthscales=[]).fit(X, Y)


def test_one_point_with_an_intercept_has_nothing_to_leave_out():
    with pytest.raises(ValueError, match=r"needs two samples or more; got n_samples = 1"):
        KernelRidgeCV(fit_intercept=True).fit(X[:1], Y[:1])


@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
def test_an_indefinite_kernel_is_named_and_its_system_solved(intercept):
    """Leave-one-out is algebra: it equals refits for every symmetric matrix."""
    K = RNG.standard_normal((N, N))
    K = K + K.T
    model = KernelRidgeCV([0.1, 3.0], kernel="precomputed", fit_intercept=intercept)
    with pytest.warns(IndefiniteKernelWarning, match="vᵀKv = -"):
        model.fit(K, Y)
    for column, alpha in enumerate([0.1, 3.0]):
        gaps = []
        for i in range(N):
            rest = np.delete(np.arange(N), i)
            one = KernelRidge(alpha, kernel="precomputed", fit_intercept=intercept)
            with pytest.warns(IndefiniteKernelWarning):
                one.fit(K[np.ix_(rest, rest)], Y[rest])
            gaps.append(one.predict(K[i : i + 1, rest])[0] - Y[i])
        assert np.isclose(model.cv_errors_[0, column], np.mean(np.square(gaps)), rtol=1e-8)
    status = model.solution_.status
    assert not status.converged
    assert status.witness @ K @ status.witness < 0
    assert model.solution_.gap < 1e-10


def test_a_lengthscale_for_each_column_is_not_thrown_away():
    model = KernelRidgeCV(ALPHAS, kernel=Gaussian([0.5, 50.0])).fit(X, Y)
    assert np.size(model.kernel_.lengthscale) == 2


def test_a_precomputed_kernel_object_takes_row_numbers():
    K = Gaussian(0.7).gram(X).dense()
    model = KernelRidgeCV(ALPHAS, kernel="precomputed").fit(K, Y)
    assert isinstance(model.kernel_, Precomputed)
    truth = KernelRidgeCV(ALPHAS, kernel=Gaussian(0.7), lengthscales=None).fit(X, Y)
    assert np.allclose(model.cv_errors_, truth.cv_errors_, rtol=1e-9)
    assert np.allclose(model.predict(K), truth.predict(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"centres": 20}, {"validation_fraction": 0.2}])
def test_it_says_when_the_best_is_on_the_edge_of_a_grid_that_was_given(options):
    line = np.linspace(0.0, 1.0, 60)[:, None]
    wave = np.sin(6 * line[:, 0])
    words = r"the best alpha = 10 and lengthscale = 0\.\d+ is on the edge of what was tried"
    with pytest.warns(GridEdgeWarning, match=words):
        KernelRidgeCV([10.0, 20.0, 30.0], lengthscales=[0.001, 0.002, 0.003], **options).fit(
            line, wave
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error", GridEdgeWarning)
        KernelRidgeCV(**options).fit(line, wave)  # its own grids end where nothing changes
        KernelRidgeCV([10.0], lengthscales=[0.1, 0.2], **options).fit(line, wave)
