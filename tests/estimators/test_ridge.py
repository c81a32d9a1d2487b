"""KernelRidge: scikit-learn's meaning, any kernel, any points, and clear refusals."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge as Theirs
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from markets import WORDS, Bigrams, common_letters, laplace_block
from mercer import KernelRidge, KernelRidgeCV
from mercer.errors import IndefiniteKernelWarning
from mercer.functions import RKHSFunction
from mercer.kernels import BlockKernel, Gaussian, Linear, Matern, PairKernel
from mercer.solvers import Direct

N, D = 35, 3
EPS = np.finfo(np.float64).eps
RNG = np.random.default_rng(0)
X = RNG.uniform(0.1, 1.1, (N, D))  # positive, for the kernels of histograms
Y = np.column_stack([np.sin(5 * X[:, 0]), X[:, 1]]) + 0.1 * RNG.standard_normal((N, 2)) + 0.5
NEW = RNG.uniform(0.1, 1.1, (9, D))
WEIGHTS = RNG.uniform(0.5, 2.0, N)
TARGETS = {"one": Y[:, 0], "column": Y[:, :1], "two": Y}
NAMED = {
    "linear": {},
    "rbf": {"gamma": 0.7},
    "rbf-default": {},
    "poly": {"degree": 2, "coef0": 0.5},
    "polynomial": {"gamma": 0.3},
    "laplacian": {"gamma": 0.4},
    "chi2": {"gamma": 0.9},
    "cosine": {},
}


def named(label):
    return {"kernel": label.removesuffix("-default"), **NAMED[label]}


def condition(parameters, data=X, alpha=1.0):
    options = {k: v for k, v in parameters.items() if k in ("gamma", "degree", "coef0")}
    K = pairwise_kernels(data, metric=parameters["kernel"], filter_params=True, **options)
    return (np.linalg.eigvalsh(K)[-1] + alpha) / alpha


def agree(ours, theirs, allowed, new=NEW):
    """The same coefficients, up to ε times the condition number, and the same predictions."""
    scale = np.abs(theirs.dual_coef_).max()
    assert ours.dual_coef_.shape == theirs.dual_coef_.shape
    assert np.allclose(ours.dual_coef_, theirs.dual_coef_, rtol=0, atol=allowed * scale)
    truth = theirs.predict(new)
    predictions = ours.predict(new)
    assert predictions.shape == truth.shape
    assert np.allclose(predictions, truth, rtol=0, atol=allowed * np.abs(truth).max())


# ---- the same as scikit-learn's ------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
@pytest.mark.parametrize("targets", TARGETS.values(), ids=TARGETS.keys())
@pytest.mark.parametrize("label", NAMED)
def test_named_kernels_give_the_same_model(label, targets, weights):
    parameters = named(label)
    for alpha in (1.0, 0.01):
        ours, theirs = (cls(alpha=alpha, **parameters) for cls in (KernelRidge, Theirs))
        ours.fit(X, targets, weights)
        theirs.fit(X, targets, weights)
        agree(ours, theirs, 50 * EPS * condition(parameters, alpha=alpha))


@pytest.mark.parametrize("label", ["linear", "rbf", "poly", "cosine", "laplacian"])
@pytest.mark.parametrize("form", ["csr_array", "csc_array", "csr_matrix"])
def test_sparse_input_gives_the_same_model(form, label):
    sparse = scipy.sparse.random_array((N, 30), density=0.2, rng=RNG).tocsr()
    new, train = (getattr(scipy.sparse, form)(part) for part in (sparse[:8], sparse))
    parameters = named(label)
    ours, theirs = (cls(alpha=0.1, **parameters) for cls in (KernelRidge, Theirs))
    ours.fit(train, Y)
    theirs.fit(scipy.sparse.csr_matrix(train), Y)
    allowed = 50 * EPS * condition(parameters, sparse.toarray(), 0.1)
    scale = np.abs(theirs.dual_coef_).max()
    assert np.allclose(ours.dual_coef_, theirs.dual_coef_, rtol=0, atol=allowed * scale)
    truth = theirs.predict(scipy.sparse.csr_matrix(new))
    assert np.allclose(ours.predict(new), truth, rtol=0, atol=allowed * np.abs(truth).max())
    dense = clone(ours).fit(sparse.toarray(), Y)
    assert np.allclose(dense.dual_coef_, ours.dual_coef_, rtol=0, atol=allowed * scale)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
def test_each_target_may_have_its_own_alpha(weights):
    ours, theirs = (cls(alpha=[0.1, 5.0], kernel="rbf") for cls in (KernelRidge, Theirs))
    agree(ours.fit(X, Y, weights), theirs.fit(X, Y, weights), 50 * EPS * N / 0.1)
    same = KernelRidge(alpha=[0.1, 0.1], kernel="rbf", fit_intercept=True).fit(X, Y)
    one = KernelRidge(alpha=0.1, kernel="rbf", fit_intercept=True).fit(X, Y)
    assert np.allclose(same.dual_coef_, one.dual_coef_, rtol=0, atol=1e-10)
    assert np.allclose(same.intercept_, one.intercept_)


def test_the_solution_of_several_alphas_is_that_of_all_targets():
    model = KernelRidge(alpha=[0.1, 5.0], kernel="rbf").fit(X, Y)
    assert (model.solution_.coefficients == model.dual_coef_).all()
    parts = [
        KernelRidge(alpha=alpha, kernel="rbf").fit(X, Y[:, i]).solution_
        for i, alpha in enumerate([0.1, 5.0])
    ]
    assert model.solution_.objective == pytest.approx(sum(part.objective for part in parts))
    assert model.solution_.gap == max(part.gap for part in parts)
    assert str(model.solution_.status).startswith("2 targets; the worst: Solved")


def absolute_rows(x, y):
    return float(np.exp(-np.abs(x - y).sum()))


def scaled_rows(x, y, factor=1.0):
    return factor * float(x @ y)


def scaled_blocks(X, Y, factor=1.0):
    return factor * (X @ Y.T)


def test_functions_of_two_rows():
    ours, theirs = (cls(kernel=absolute_rows) for cls in (KernelRidge, Theirs))
    agree(ours.fit(X, Y), theirs.fit(X, Y), 50 * EPS * N)


def test_functions_of_two_blocks():
    ours, theirs = KernelRidge(kernel=laplace_block), Theirs(kernel="laplacian", gamma=1.0)
    agree(ours.fit(X, Y), theirs.fit(X, Y), 50 * EPS * N)


@pytest.mark.parametrize("function", [scaled_rows, scaled_blocks])
def test_functions_get_their_parameters(function):
    ours = KernelRidge(kernel=function, kernel_params={"factor": 3.0}).fit(X, Y)
    theirs = Theirs(kernel=scaled_rows, kernel_params={"factor": 3.0}).fit(X, Y)
    agree(ours, theirs, 50 * EPS * condition({"kernel": "linear"}, alpha=1 / 3))
    assert not np.allclose(ours.predict(NEW), KernelRidge(kernel=function).fit(X, Y).predict(NEW))


def test_kernels_of_gaussian_processes():
    ours = KernelRidge(kernel=RBF(0.7)).fit(X, Y)
    agree(ours, Theirs(kernel="rbf", gamma=0.5 / 0.49).fit(X, Y), 50 * EPS * N)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
def test_precomputed_matrices(weights):
    K, new = rbf_kernel(X, gamma=0.5), rbf_kernel(NEW, X, gamma=0.5)
    ours, theirs = (cls(kernel="precomputed") for cls in (KernelRidge, Theirs))
    agree(ours.fit(K, Y, weights), theirs.fit(K, Y, weights), 50 * EPS * N, new)
    direct = KernelRidge(kernel="rbf", gamma=0.5).fit(X, Y, weights)
    assert np.allclose(ours.dual_coef_, direct.dual_coef_)
    kept = K.copy()
    KernelRidge(kernel="precomputed").fit(K, Y, weights)
    assert (kept == K).all()  # the user's matrix is not factored in place


def test_one_weight_for_all():
    ours, theirs = (cls(kernel="rbf") for cls in (KernelRidge, Theirs))
    agree(ours.fit(X, Y, 2.0), theirs.fit(X, Y, 2.0), 50 * EPS * N)
    assert not np.allclose(ours.dual_coef_, KernelRidge(kernel="rbf").fit(X, Y).dual_coef_)


def test_no_regularisation():
    """scikit-learn solves by least squares where the matrix is singular; so do we."""
    twice = np.concatenate([X, X[:5]])
    targets = np.concatenate([Y, Y[:5]])
    ours = KernelRidge(alpha=0, kernel="laplacian", gamma=9.0).fit(twice, targets)
    assert np.allclose(ours.predict(twice), targets, atol=1e-9)
    assert np.allclose(ours.dual_coef_[:5], ours.dual_coef_[-5:], atol=1e-9)


@pytest.mark.parametrize("alpha", [50.0, 1e-2], ids=["definite", "indefinite"])
@pytest.mark.parametrize("kernel", ["sigmoid", "additive_chi2"])
def test_named_kernels_that_are_indefinite_still_work(kernel, alpha):
    """Whether K + αI is positive definite or not: the answer is scikit-learn's, and it is named."""
    ours, theirs = (cls(alpha=alpha, kernel=kernel) for cls in (KernelRidge, Theirs))
    with pytest.warns(IndefiniteKernelWarning, match="No minimum: the kernel is not positive"):
        ours.fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "Singular matrix in solving dual problem"
        theirs.fit(X, Y)
    K = pairwise_kernels(X, metric=kernel)
    values = np.abs(np.linalg.eigvalsh(K) + alpha)
    agree(ours, theirs, 1e3 * EPS * values.max() / values.min())
    status = ours.solution_.status
    assert not status.converged
    assert status.witness @ K @ status.witness < -1e-6
    assert np.isclose(np.linalg.norm(status.witness), 1.0)


def test_scikit_learns_first_example():
    """Run the docstring of sklearn.kernel_ridge.KernelRidge, with the import changed."""
    n_samples, n_features = 10, 5
    rng = np.random.RandomState(0)
    y = rng.randn(n_samples)
    X = rng.randn(n_samples, n_features)
    krr = KernelRidge(alpha=1.0)
    krr.fit(X, y)
    assert repr(krr) == "KernelRidge(alpha=1.0)"
    theirs = Theirs(alpha=1.0).fit(X, y)
    assert np.allclose(krr.dual_coef_, theirs.dual_coef_)


def test_scikit_learns_comparison_with_support_vectors():
    """Run the grid search of examples/miscellaneous/plot_kernel_ridge_regression.py."""
    rng = np.random.RandomState(42)
    X = 5 * rng.rand(200, 1)
    y = np.sin(X).ravel()
    y[::5] += 3 * (0.5 - rng.rand(X.shape[0] // 5))
    X_plot = np.linspace(0, 5, 50)[:, None]
    grid = {"alpha": [1e0, 0.1, 1e-2], "gamma": np.logspace(-2, 2, 3)}
    search, theirs = (
        GridSearchCV(cls(kernel="rbf", gamma=0.1), param_grid=grid, cv=3)
        for cls in (KernelRidge, Theirs)
    )
    search.fit(X[:100], y[:100])
    theirs.fit(X[:100], y[:100])
    assert search.best_params_ == theirs.best_params_
    assert np.allclose(search.predict(X_plot), theirs.predict(X_plot), rtol=0, atol=1e-8)
    means = [s.cv_results_["mean_test_score"] for s in (search, theirs)]
    assert np.allclose(*means, rtol=0, atol=1e-8)


# ---- beyond scikit-learn's -----------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
@pytest.mark.parametrize("targets", TARGETS.values(), ids=TARGETS.keys())
def test_an_intercept_costs_nothing(targets, weights):
    model = KernelRidge(alpha=0.1, kernel=Gaussian(0.5), fit_intercept=True)
    model.fit(X, targets, weights)
    shifted = clone(model).fit(X, targets + 1e3, weights)
    assert np.allclose(shifted.predict(NEW), model.predict(NEW) + 1e3, rtol=0, atol=1e-8)
    assert np.allclose(shifted.intercept_, model.intercept_ + 1e3, rtol=0, atol=1e-8)
    w = np.ones(N) if weights is None else weights
    columns, ones = targets.reshape(N, -1), np.ones((N, 1))
    system = Gaussian(0.5).gram(X).dense() + np.diag(0.1 / w)
    bordered = np.block([[system, ones], [ones.T, np.zeros((1, 1))]])
    solved = np.linalg.solve(bordered, np.vstack([columns, np.zeros(columns.shape[1])]))
    assert np.allclose(model.dual_coef_.reshape(N, -1), solved[:-1], rtol=0, atol=1e-10)
    assert np.allclose(np.ravel(model.intercept_), solved[-1], rtol=0, atol=1e-10)


def test_the_fit_is_a_function_of_the_space():
    model = KernelRidge(alpha=0.1, kernel=Gaussian(0.5), fit_intercept=True).fit(X, Y[:, 0])
    f = model.function_
    assert isinstance(f, RKHSFunction)
    assert np.allclose(f(NEW) + model.intercept_, model.predict(NEW))
    assert model.kernel_ == Gaussian(0.5)
    assert np.isclose(f.norm() ** 2, model.dual_coef_ @ model.kernel_(X) @ model.dual_coef_)
    assert (model.X_fit_ == X).all()
    assert model.solution_.gap < 1e-13
    assert "Solved" in str(model.solution_.status)


def test_a_solver_is_an_object():
    parts = {"alpha": 0.1, "kernel": Gaussian(0.5)}
    refined = KernelRidge(**parts, solver=Direct(mixed=True)).fit(X, Y)
    assert "refined" in refined.solution_.status.message
    assert np.allclose(refined.dual_coef_, KernelRidge(**parts).fit(X, Y).dual_coef_, atol=1e-11)


def test_float32_stays_float32():
    model = KernelRidge(kernel="rbf").fit(X.astype(np.float32), Y[:, 0])
    assert model.dual_coef_.dtype == model.predict(NEW.astype(np.float32)).dtype == np.float32
    truth = KernelRidge(kernel="rbf").fit(X, Y[:, 0]).predict(NEW)
    assert np.allclose(model.predict(NEW.astype(np.float32)), truth, atol=1e-5)


@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
def test_a_weight_is_a_number_of_repetitions(intercept):
    counts = RNG.integers(0, 4, N)
    model = KernelRidge(alpha=0.1, kernel=Matern(1.5), fit_intercept=intercept)
    weighted = clone(model).fit(X, Y, counts)
    repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0))
    assert np.allclose(weighted.predict(NEW), repeated.predict(NEW), rtol=0, atol=1e-11)
    assert not np.allclose(weighted.predict(NEW), clone(model).fit(X, Y).predict(NEW), atol=1e-3)


# ---- parameters ----------------------------------------------------------------------------------


def test_parameters_of_kernels_are_reached_at_any_depth():
    model = KernelRidge(kernel=Gaussian(1.0) + 0.5 * Matern(1.5))
    model.set_params(kernel__left__lengthscale=2.0, kernel__right__kernel__lengthscale=3.0, alpha=2)
    assert model.kernel == Gaussian(2.0) + 0.5 * Matern(1.5, lengthscale=3.0)
    assert model.alpha == 2
    assert model.get_params()["kernel__left__lengthscale"] == 2.0
    model.set_params(kernel=Linear(), kernel__bias=3.0)
    assert model.kernel == Linear(3.0)
    pipeline = make_pipeline(StandardScaler(), KernelRidge(kernel=Gaussian()))
    pipeline.set_params(kernelridge__kernel__lengthscale=7.0)
    assert pipeline[-1].kernel == Gaussian(7.0)


def test_setting_parameters_does_not_change_the_kernel_of_others():
    kernel = Gaussian(1.0)
    first, second = KernelRidge(kernel=kernel), KernelRidge(kernel=kernel)
    first.set_params(kernel__lengthscale=5.0)
    assert (kernel.lengthscale, second.kernel.lengthscale) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("kernel", "name"), [(Gaussian(), "kernel__width"), (Gaussian(), "ridge"), ("rbf", "kernel__x")]
)
def test_parameters_that_do_not_exist_are_refused(kernel, name):
    model = KernelRidge(kernel=kernel)
    with pytest.raises((ValueError, AttributeError)):
        model.set_params(**{name: 1.0})
    assert model.kernel is kernel


def test_a_name_has_no_lengthscale_and_says_so():
    with pytest.raises(ValueError, match="gamma"):
        KernelRidge(kernel="rbf").set_params(kernel__lengthscale=2.0)


MODELS = {
    "ridge": KernelRidge(0.1, kernel=Gaussian(0.5) + Linear(), fit_intercept=True),
    "named": KernelRidge(0.1, kernel="poly"),
    "function": KernelRidge(kernel=scaled_rows, kernel_params={"factor": 2.0}),
    "several": KernelRidge([0.1, 1.0], kernel="rbf"),
    "cv": KernelRidgeCV(alphas=[0.1, 1.0], fit_intercept=True),
    "cv-kernel": KernelRidgeCV([0.1, 1.0], kernel=Matern(1.5), lengthscales=np.array([0.5, 1.0])),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_models_are_cloned_and_pickled(model):
    fitted = clone(model).fit(X, Y)
    copy = clone(fitted)
    assert not hasattr(copy, "function_")
    assert (copy.fit(X, Y).predict(NEW) == fitted.predict(NEW)).all()
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict(NEW) == fitted.predict(NEW)).all()
    assert again.kernel_ == fitted.kernel_ or callable(model.kernel)
    assert pickle.loads(pickle.dumps(model)).get_params().keys() == model.get_params().keys()


def test_a_grid_search_over_a_lengthscale_sees_different_scores():
    grid = {"kernel__lengthscale": [0.05, 0.5, 5.0], "alpha": [0.01, 1.0]}
    search = GridSearchCV(KernelRidge(kernel=Gaussian()), grid, cv=3).fit(X, Y[:, 0])
    scores = search.cv_results_["mean_test_score"]
    assert len(np.unique(scores)) == 6
    best = search.best_params_
    direct = KernelRidge(best["alpha"], kernel=Gaussian(best["kernel__lengthscale"])).fit(
        X, Y[:, 0]
    )
    assert np.allclose(search.predict(NEW), direct.predict(NEW))
    for parameters, score in zip(search.cv_results_["params"], scores, strict=True):
        kernel = Gaussian(parameters["kernel__lengthscale"])
        model = KernelRidge(parameters["alpha"], kernel=kernel)
        assert np.isclose(cross_val_score(model, X, Y[:, 0], cv=3).mean(), score)


def test_kernels_themselves_are_searched():
    grid = {"kernel": [Gaussian(0.5), Matern(0.5), "linear"]}
    search = GridSearchCV(KernelRidge(0.1), grid, cv=3).fit(X, Y[:, 0])
    assert len(np.unique(search.cv_results_["mean_test_score"])) == 3


@pytest.mark.parametrize("estimator", [KernelRidge(0.1), KernelRidgeCV(alphas=[0.1])], ids=repr)
def test_cross_validation_slices_rows_and_columns_of_a_matrix(estimator):
    K = Gaussian(0.5).gram(X).dense()
    named_ = clone(estimator).set_params(kernel="precomputed")
    object_ = clone(estimator).set_params(kernel=Gaussian(0.5))
    if isinstance(estimator, KernelRidgeCV):
        object_.set_params(lengthscales=None)
    scores = cross_val_score(named_, K, Y[:, 0], cv=4)
    assert np.allclose(scores, cross_val_score(object_, X, Y[:, 0], cv=4), rtol=0, atol=1e-9)


# ---- frames and objects --------------------------------------------------------------------------


@pytest.fixture(params=["pandas", "polars"])
def frame(request):
    library = pytest.importorskip(request.param)
    return lambda rows, names="abc": library.DataFrame(dict(zip(names, rows.T, strict=True)))


def test_frames_are_read_and_their_names_kept(frame):
    model = KernelRidge(0.1, kernel=Gaussian(0.5)).fit(frame(X), Y)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert model.n_features_in_ == 3
    plain = KernelRidge(0.1, kernel=Gaussian(0.5)).fit(X, Y)
    assert (model.predict(frame(NEW)) == plain.predict(NEW)).all()
    assert not hasattr(plain, "feature_names_in_")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame(NEW, "cab"))


@pytest.mark.parametrize("cls", [KernelRidge, KernelRidgeCV])
def test_kernels_on_named_columns(frame, cls):
    kernel = Gaussian(0.5).on("b") * Linear(1.0).on(["c", "a"])
    by_number = Gaussian(0.5).on(1) * Linear(1.0).on([2, 0])
    model = cls(kernel=kernel).fit(frame(X), Y)
    truth = cls(kernel=by_number).fit(X, Y)
    assert np.allclose(model.predict(frame(NEW)), truth.predict(NEW), rtol=0, atol=1e-10)
    assert model.n_features_in_ == 3
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    blind = cls(kernel=Gaussian(0.5).on("b")).fit(frame(X), Y)
    other = NEW.copy()
    other[:, [0, 2]] = 77.0
    assert (blind.predict(frame(other)) == blind.predict(frame(NEW))).all()


def test_named_columns_that_do_not_exist(frame):
    with pytest.raises(ValueError, match=r"column 'z' does not exist; there are \['a', 'b', 'c'\]"):
        KernelRidge(kernel=Gaussian().on("z")).fit(frame(X), Y)


def test_text_columns_beside_the_ones_that_are_read():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"size": X[:, 0], "name": ["x"] * N})
    model = KernelRidge(0.1, kernel=Gaussian(0.5).on("size")).fit(table, Y)
    truth = KernelRidge(0.1, kernel=Gaussian(0.5)).fit(X[:, :1], Y)
    assert np.allclose(model.predict(table), truth.predict(X[:, :1]))


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_pipelines_may_pass_frames_on(output):
    pytest.importorskip(output)
    kernel = Gaussian(0.5).on("b")
    table = pytest.importorskip("pandas").DataFrame(X, columns=list("abc"))
    scaler = StandardScaler().set_output(transform=output)
    pipeline = make_pipeline(scaler, KernelRidge(0.1, kernel=kernel)).fit(table, Y)
    scaled = StandardScaler().fit_transform(X)
    truth = KernelRidge(0.1, kernel=Gaussian(0.5)).fit(scaled[:, 1:2], Y).predict(scaled[:, 1:2])
    assert np.allclose(pipeline.predict(table), truth, rtol=0, atol=1e-10)


WORD_KERNELS = {
    "pair": PairKernel(common_letters),
    "class": Bigrams(),
    "function": common_letters,
    "sum": PairKernel(common_letters) + Bigrams(),
}


@pytest.mark.parametrize("kernel", WORD_KERNELS.values(), ids=WORD_KERNELS.keys())
@pytest.mark.parametrize("form", [list, tuple, np.array, lambda w: np.array(w, object)])
@pytest.mark.parametrize("weights", [None, np.arange(1.0, 11.0)], ids=["", "weights"])
def test_words(kernel, form, weights):
    y = np.array([len(word) for word in WORDS], float)
    model = KernelRidge(0.5, kernel=kernel).fit(form(WORDS), y, weights)
    as_object = (
        PairKernel(common_letters) if callable(kernel) and kernel is common_letters else kernel
    )
    K, new = as_object.gram(WORDS).dense(), as_object.gram(["kernels", "lean"], WORDS).dense()
    w = np.ones(10) if weights is None else weights
    truth = new @ np.linalg.solve(K + np.diag(0.5 / w), y)
    assert np.allclose(model.predict(form(["kernels", "lean"])), truth)
    chosen = KernelRidgeCV([0.5], kernel=kernel).fit(form(WORDS), y, weights)
    assert np.allclose(chosen.predict(form(["kernels", "lean"])), truth)
    assert np.isfinite(cross_val_score(KernelRidge(0.5, kernel=kernel), WORDS, y, cv=2)).all()


# ---- interrupted ---------------------------------------------------------------------------------


class Interrupted(Exception):
    pass


class Broken:
    """A solver that fails, as one does when a user presses a key."""

    def solve(self, problem):
        raise Interrupted


def fails_later(state):
    def block(X, Y):
        state["calls"] += 1
        if state["calls"] > state["limit"]:
            raise Interrupted
        return X @ Y.T

    return BlockKernel(block)


def learned(model):
    return [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]


BAD_FITS = {
    "solver": (KernelRidge(solver=Broken()), Interrupted),
    "alpha": (KernelRidge(alpha=-1.0), ValueError),
    "kernel": (KernelRidge(kernel="nonsense"), ValueError),
    "words": (KernelRidge(solver="magic"), ValueError),
    "alphas": (KernelRidgeCV(alphas=[-1.0]), ValueError),
    "lengthscales": (KernelRidgeCV(kernel="linear", lengthscales=[1.0]), ValueError),
    "scale": (KernelRidgeCV(lengthscales=[-1.0]), ValueError),
}


@pytest.mark.parametrize(("model", "error"), BAD_FITS.values(), ids=BAD_FITS.keys())
def test_a_failed_fit_leaves_the_model_unfitted(model, error):
    model = clone(model)
    with pytest.raises(error):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.predict(NEW)
    assert set(learned(model)) <= {"n_features_in_", "feature_names_in_"}


@pytest.mark.parametrize(("model", "error"), BAD_FITS.values(), ids=BAD_FITS.keys())
def test_a_failed_refit_is_not_half_done(model, error):
    """Whether it keeps the old fit or forgets it: all of it, and on its own data."""
    fitted = type(model)().fit(X, Y)
    old = fitted.predict(NEW)
    fitted.set_params(**clone(model).get_params(deep=False))
    with pytest.raises(error):
        fitted.fit(X[:, :2], Y)
    try:
        check_is_fitted(fitted)
    except NotFittedError:
        assert set(learned(fitted)) <= {"n_features_in_", "feature_names_in_"}
        with pytest.raises(NotFittedError):
            fitted.predict(NEW)
    else:
        assert (fitted.predict(NEW) == old).all()


@pytest.mark.parametrize("cls", [KernelRidge, KernelRidgeCV])
@pytest.mark.parametrize("limit", range(6))
def test_an_interruption_at_any_time(limit, cls):
    state = {"calls": 0, "limit": limit}
    model = cls(kernel=fails_later(state))
    try:
        model.fit(X, Y)
    except Interrupted:
        with pytest.raises(NotFittedError):
            model.predict(NEW)
    else:
        state["limit"] = 1000
        assert model.predict(NEW).shape == (9, 2)
        assert limit > 0
    if limit == 0:
        assert not hasattr(model, "function_")


@pytest.mark.parametrize("X_bad", [X[:5], np.full((N, D), np.nan)], ids=["rows", "nan"])
def test_bad_data_after_a_fit_is_not_half_done(X_bad):
    model = KernelRidge(kernel="rbf").fit(X, Y)
    old = model.predict(NEW)
    with pytest.raises(ValueError):
        model.fit(X_bad, Y)
    try:
        check_is_fitted(model)
    except NotFittedError:
        assert not hasattr(model, "dual_coef_")
    else:
        assert (model.predict(NEW) == old).all()


# ---- refusals ------------------------------------------------------------------------------------

NAN = np.where(np.arange(N) == 3, np.nan, 1.0)


@pytest.mark.parametrize(
    ("parameters", "data", "text"),
    [
        ({}, (X, Y[:-1]), "inconsistent numbers of samples"),
        ({}, (X[:, 0], Y), "Expected 2D array, got 1D array"),
        ({}, (X[None], Y), "dim 3"),
        ({}, (X * NAN[:, None], Y), "Input X contains NaN"),
        ({}, (X, Y[:, 0] * NAN), "Input y contains NaN"),
        ({}, (X, Y * np.inf), "contains infinity"),
        ({}, (X, Y, -WEIGHTS), "sample_weight must be finite and nonnegative"),
        ({}, (X, Y, np.zeros(N)), "not all zero|at least one non-zero"),
        ({}, (X, Y, NAN), "sample_weight contains NaN"),
        ({}, (X, Y, WEIGHTS[:3]), r"sample_weight.shape == \(3,\), expected \(35,\)"),
        ({"alpha": -0.5}, (X, Y), "alpha must be nonnegative and finite; got -0.5"),
        ({"alpha": np.inf}, (X, Y), "alpha must be nonnegative and finite; got inf"),
        ({"alpha": [1, 2, 3]}, (X, Y), "one for each of 2 outputs; got 3"),
        ({"alpha": [1, 2]}, (X, Y[:, 0]), "one for each of 1 outputs; got 2"),
        ({"solver": "svd"}, (X, Y), "solver must be \"auto\" or a solver object, as .*; got 'svd'"),
        ({"kernel": "precomputed"}, (X, Y), r"square matrix in fit; got shape \(35, 3\)"),
        ({"kernel": "gauss"}, (X, Y), "'gauss'"),
        ({"kernel": Gaussian}, (X, Y), r"the class Gaussian. Write Gaussian\(\)"),
        ({"kernel": "rbf", "gamma": -1.0}, (X, Y), "gamma must be a positive number"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(parameters, data, text):
    with pytest.raises(ValueError, match=text):
        KernelRidge(**parameters).fit(*data)
    if not {"alpha", "solver"} & set(parameters):
        with pytest.raises(ValueError, match=text):
            KernelRidgeCV(**{"kernel": "rbf", **parameters}).fit(*data)


@pytest.mark.parametrize("alpha", ["big", None], ids=repr)
def test_alpha_is_a_number(alpha):
    with pytest.raises(ValueError, match=f"alpha must be .* got {alpha!r}"):
        KernelRidge(alpha=alpha).fit(X, Y)


def test_predictions_need_the_columns_of_the_fit():
    model = KernelRidge().fit(X, Y)
    with pytest.raises(ValueError, match="X has 2 features, but KernelRidge is expecting 3"):
        model.predict(X[:, :2])
    matrix = KernelRidge(kernel="precomputed").fit(X @ X.T, Y)
    with pytest.raises(ValueError, match="X has 3 features, but KernelRidge is expecting 35"):
        matrix.predict(X)


ON_WORDS = {
    "rows": ((WORDS, np.arange(9.0)), "one row for each|inconsistent numbers of samples"),
    "nan": ((WORDS, np.append(np.arange(9.0), np.nan)), "Input y contains NaN|targets .* NaN"),
    "weights": ((WORDS, np.arange(10.0), [1.0, 2.0]), "sample_weight|weights must be one number"),
    "nan-weight": ((WORDS, np.arange(10.0), [np.nan] * 10), "sample_weight|weights must be finite"),
}


@pytest.mark.parametrize(("data", "text"), ON_WORDS.values(), ids=ON_WORDS.keys())
def test_targets_and_weights_of_objects_are_checked_too(data, text):
    for cls in (KernelRidge, KernelRidgeCV):
        with pytest.raises(ValueError, match=text):
            cls(kernel=PairKernel(common_letters)).fit(*data)


def test_values_beyond_the_range_are_refused():
    rng = np.random.default_rng(0)
    X, y = 1e150 * rng.standard_normal((25, 5)), 1e150 * rng.standard_normal((25, 2))
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=r"overflow.*Scale the columns"):
        KernelRidge().fit(X, y)
